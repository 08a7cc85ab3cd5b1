//! Findings in sentences, for the top of a page.

use super::Analyses;
use super::antagonists::THROTTLED;
use super::migrations::FROM_SWITCHES;
use crate::busy;
use crate::data::{Cell, DataTable};
use crate::units::{counted, percent, time};

fn cell<'a>(table: &'a DataTable, row: usize, key: &str) -> Option<&'a Cell> {
    let column = table.columns.iter().position(|column| column.key == key)?;
    table.rows.get(row)?.get(column)
}

fn number(table: &DataTable, row: usize, key: &str) -> Option<f64> {
    match cell(table, row, key)? {
        Cell::Int(value) => Some(*value as f64),
        Cell::Float(value) | Cell::Measure { value, .. } => Some(*value),
        Cell::Nothing | Cell::Text(_) => None,
    }
}

fn text<'a>(table: &'a DataTable, row: usize, key: &str) -> Option<&'a str> {
    match cell(table, row, key)? {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}

impl Analyses {
    /// Returns how busy CPUs were, if run queues were analysed.
    pub fn busy_sentence(&self) -> Option<String> {
        self.tables().iter().find(|table| table.name == "runqueue").and_then(busy)
    }

    /// Returns other findings, a sentence each.
    pub fn sentences(&self) -> Vec<String> {
        let tables = self.tables();
        let of = |name: &str| tables.iter().find(|table| table.name == name);
        // Throttled tasks also wait.
        let limited =
            of("antagonists").is_some_and(|table| (0..table.rows.len()).any(|row| limit(table, row).is_some()));
        let parts = [
            of("latency").and_then(|table| delays(table, limited)),
            of("antagonists").and_then(antagonist),
            of("idle_while_waiting").map(idle),
            of("migrations").and_then(migrations),
            of("group_usage").and_then(groups),
            of("throttling").and_then(throttling),
        ];
        parts.into_iter().flatten().collect()
    }
}

/// Weights CPUs with their known time.
fn busy(table: &DataTable) -> Option<String> {
    let rows = 0..table.rows.len();
    let busy_of_known = rows.filter_map(|cpu| Some(((cpu, number(table, cpu, "busy")?), number(table, cpu, "known")?)));
    let (shares, known): (Vec<(usize, f64)>, Vec<f64>) = busy_of_known.unzip();
    let busy: f64 = shares.iter().zip(&known).map(|((_, share), known)| share * known).sum();
    let all = shares.len() == table.rows.len() && known.iter().all(|&known| percent(known) == percent(1.0));
    let of = if all { "the time" } else { "the known time" };
    busy::sentence(&shares, busy / known.iter().sum::<f64>(), of)
}

fn delays(table: &DataTable, limited: bool) -> Option<String> {
    let worst = (0..table.rows.len()).max_by(|&a, &b| {
        let of = |row| number(table, row, "max_delay_ns").unwrap_or(0.0);
        of(a).total_cmp(&of(b))
    })?;
    let (sum, count) = (0..table.rows.len()).fold((0.0, 0.0), |(sum, count), row| {
        let number = |key| number(table, row, key).unwrap_or(0.0);
        (sum + number("avg_delay_ns") * number("count"), count + number("count"))
    });
    Some(format!(
        "Tasks waited {} for a CPU{} {}; the longest wait was {}'s: {}.",
        time(sum / f64::max(count, 1.0)),
        if limited { " or a limit" } else { "" },
        if count as u64 == 1 { "once".to_owned() } else { format!("on average ({count} waits)") },
        text(table, worst, "task")?,
        time(number(table, worst, "max_delay_ns")?),
    ))
}

/// Returns the throttling group in a row of antagonists.
fn limit(table: &DataTable, row: usize) -> Option<&str> {
    text(table, row, "for_task")?.strip_prefix(THROTTLED)?.strip_suffix(')')
}

fn antagonist(table: &DataTable) -> Option<String> {
    // In parentheses, only limits have a known cause.
    let has_cause = |&row: &usize| {
        limit(table, row).is_some() || text(table, row, "for_task").is_some_and(|who| !who.starts_with('('))
    };
    let row = (0..table.rows.len()).find(has_cause)?;
    let (waited, who) = (text(table, row, "waited")?, text(table, row, "for_task")?);
    let why = match limit(table, row) {
        Some(group) if group.starts_with('/') => format!(" while the limit of {group} throttled it"),
        Some(what) => format!(" while throttled ({what})"),
        None if who == waited => " for other tasks of the same name".to_owned(),
        None => format!(" for {who}"),
    };
    Some(format!(
        "{waited} waited most{why}: {} in total, {} % of its waiting time.",
        time(number(table, row, "total_ns")?),
        percent(number(table, row, "share")?)
    ))
}

fn idle(table: &DataTable) -> String {
    let sum = |key: &str| (0..table.rows.len()).filter_map(|row| number(table, row, key)).sum::<f64>();
    match (table.rows.len(), text(table, 0, "task"), number(table, 0, "worst_ns")) {
        (count, Some(first), Some(worst)) if sum("could_ns") > 0.0 => format!(
            "{} waited for 1 ms or more although an idle CPU could have run {}, {} in total; the longest wait was {first}'s, {}.{}",
            counted(count as u64, "task", "tasks"),
            if count == 1 { "it" } else { "them" },
            time(sum("could_ns")),
            time(worst),
            // The column exists if affinities are unknown.
            if cell(table, 0, "might_ns").is_some() {
                " (The idle CPU had run the task before. The trace does not show whether its affinity has changed since.)"
            } else {
                ""
            }
        ),
        (_, Some(first), Some(_)) => format!(
            "Some tasks, {first} most, waited while other CPUs were idle ({}); the trace does not show whether they were allowed to run there.",
            time(sum("might_ns"))
        ),
        _ => "No task waited for 1 ms or more while an idle CPU could have run it.".to_owned(),
    }
}

fn migrations(table: &DataTable) -> Option<String> {
    let total: f64 = (0..table.rows.len()).filter_map(|row| number(table, row, "count")).sum();
    let (cause, share) = (text(table, 0, "cause")?, number(table, 0, "share")?);
    let least = if table.title == FROM_SWITCHES { "at least " } else { "" };
    Some(match total as u64 {
        1 => format!("There was {least}1 migration, caused by `{cause}`."),
        _ => {
            format!("There were {least}{total} migrations. The most frequent cause is `{cause}`: {} %.", percent(share))
        }
    })
}

fn groups(table: &DataTable) -> Option<String> {
    let short = |row: usize| -number(table, row, "difference_ns").unwrap_or(0.0);
    let row = (1..table.rows.len()).max_by(|&a, &b| short(a).total_cmp(&short(b)))?;
    let (name, of) = (text(table, row, "group")?, number(table, row, "of_entitled")?);
    Some(format!("The group furthest below its entitlement is {name}: it got {} % of it.", percent(of)))
}

fn throttling(table: &DataTable) -> Option<String> {
    let has_counters = cell(table, 0, "nr_throttled").is_some();
    let (times, share) =
        if has_counters { ("nr_throttled", "throttled_periods") } else { ("used_up", "used_up_share") };
    let of = |row: usize| number(table, row, share).unwrap_or(0.0);
    let row = (0..table.rows.len()).max_by(|&a, &b| of(a).total_cmp(&of(b)))?;
    let name = text(table, row, "group")?;
    Some(match (number(table, row, times)?, has_counters) {
        (0.0, true) => "No group was throttled.".to_owned(),
        (0.0, false) => "No group used up its limit.".to_owned(),
        (_, true) => format!("{name} was throttled in {} % of its periods.", percent(of(row))),
        (_, false) => format!("{name} used up its limit in {} % of its periods.", percent(of(row))),
    })
}
