//! `vruntime trace`.

mod analyse;
mod convert;
mod section;

use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};
use vruntime_report::{DataTable, Kind as Column, fit_text, grid};
use vruntime_trace::read::{self, Kind, Needs, Notes, Summary, Tally, TaskSummary};

use crate::args::{Trace, TraceCommand, TraceInfo};
use crate::output_paths::OutputPaths;
use crate::trace_file::{Stopped, each_event, open};
use crate::{Ended, output, tables};

/// The default number of tasks and events.
const SHOWN: usize = 15;
/// The note on results if Ctrl-C ended the reading.
pub(super) const UNREAD: &str = "results lack the rest of the trace";
/// The note on clocks without a unit, such as `x86-tsc` and `counter`.
pub(super) const COUNTS_FOR_TIME: &str = "times have no unit: they are read as nanoseconds";

pub(crate) fn trace(trace: &Trace) -> miette::Result<Ended> {
    match &trace.command {
        TraceCommand::Info(arguments) => info(arguments),
        TraceCommand::Analyse(arguments) => analyse::analyse(arguments),
        TraceCommand::Convert(arguments) => convert::convert(arguments),
    }
}

fn info(arguments: &TraceInfo) -> miette::Result<Ended> {
    arguments.tables.output_paths(OutputPaths::default().reads([&arguments.file])).check()?;
    let mut events = open(&arguments.file)?;
    let mut summary = Summary::new();
    let stopped = each_event(&arguments.file, &mut *events, |record| {
        summary.add(record);
        ControlFlow::Continue(())
    })?;
    let stopped_note = stopped.as_ref().map(|stopped| format!("{}: {UNREAD}", stopped_early(stopped)));
    summary.end();
    let notes = events.notes();
    let needs = read::needs(&summary, notes);
    let section = section::section(&arguments.file, notes)?;
    let mut found = findings(&summary, notes, &summary.tasks());
    found.splice(0..0, stopped_note.clone());
    let written =
        tables::write(&arguments.tables, "trace info", vec![summary_tables(&summary).to_vec().into()], &found);
    if arguments.json {
        let mut json = as_json(&arguments.file, &summary, notes, &needs);
        json["stopped_early"] = json!(stopped_note);
        if let (Value::Object(fields), Some(section)) = (&mut json, &section) {
            fields.insert("recording".to_owned(), section::as_json(section));
        }
        output::print_json(&json);
    } else {
        let recorded = section.as_ref().map(section::lines).unwrap_or_default();
        let sentences = Sentences { found: &found, recorded: &recorded };
        output::print(&as_text(&arguments.file, &summary, notes, &needs, &sentences, arguments.all));
    }
    written?;
    Ok(if stopped.is_some() { Ended::Interrupted } else { Ended::Well })
}

/// Says that Ctrl-C ended the reading of a trace, and where.
fn stopped_early(stopped: &Stopped) -> String {
    match (stopped.at, stopped.events) {
        (None, _) => "stopped early before the first event".to_owned(),
        (Some(at), 1) => format!("stopped early at {} s, after 1 event", seconds(at, 6)),
        (Some(at), events) => format!("stopped early at {} s, after {} events", seconds(at, 6), thousands(events)),
    }
}

/// Formats `1,234,567`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
    groups.join(",")
}

/// Formats nanoseconds as seconds with `digits` decimals.
fn seconds(nanoseconds: i64, digits: usize) -> String {
    let whole = nanoseconds.unsigned_abs() / 1_000_000_000;
    let fraction = format!("{:09}", nanoseconds.unsigned_abs() % 1_000_000_000);
    format!("{}{whole}.{}", if nanoseconds < 0 { "-" } else { "" }, &fraction[..digits])
}

/// The sentences of `trace info` beside the counts.
struct Sentences<'a> {
    /// Sentences on the quality of the file.
    found: &'a [String],
    /// Sentences on the section that `vruntime record` wrote.
    recorded: &'a [String],
}

fn as_text(
    path: &Path,
    summary: &Summary,
    notes: &Notes,
    needs: &Needs,
    sentences: &Sentences<'_>,
    all: bool,
) -> String {
    let clock = summary.clock();
    let span = clock.span_ns();
    let digits = if summary.has_nanoseconds() { 9 } else { 6 };
    let stretch = |&(start, end): &(i64, i64)| format!("{} to {} s", seconds(start, digits), seconds(end, digits));
    let stretches: Vec<String> = clock.stretches().iter().take(4).map(stretch).collect();
    let cpus: Vec<u32> = summary.cpus().map(|(cpu, _)| cpu).collect();
    let tasks = summary.tasks();
    let of = Some(notes.cpus.unwrap_or(0).max(summary.named_cpus()))
        .filter(|&count| count as usize > cpus.len())
        .map(|count| format!(" of {count}"));
    let tells_moves = summary.counts().iter().any(|(name, _)| name == "sched_migrate_task");
    let mut lines = vec![
        format!("{}: {}", path.display(), notes.kind.map_or("no trace", |kind| kind.name())),
        String::new(),
        format!("span    {} s ({})", seconds(span as i64, digits), stretches.join(", ")),
        format!("CPUs    {}{} ({})", cpus.len(), of.unwrap_or_default(), ranges(&cpus)),
        format!("tasks   {}", thousands(tasks.len() as u64)),
        format!("events  {}", thousands(summary.events())),
        String::new(),
        events_table(summary, span, all),
        tasks_table(&tasks, span, summary.has_tgid(), tells_moves, all),
    ];
    if let Some(release) = &notes.release {
        lines.insert(2, format!("kernel  {release}"));
    }
    let mut section = |head: &str, sentences: &[String]| {
        if !sentences.is_empty() {
            lines.push(format!("{head}:"));
            lines.extend(sentences.iter().cloned());
            lines.push(String::new());
        }
    };
    let section_lines = |sentences: &[String]| {
        sentences.iter().map(|section_lines| fit_text(section_lines, "  ")).collect::<Vec<String>>()
    };
    section("Recorded beside the events", &section_lines(sentences.recorded));
    section("Notes", &section_lines(sentences.found));
    let verdict = if needs.replayable { "A replay lacks" } else { "A replay is impossible without" };
    section(verdict, &section_lines(&needs.missing));
    // Commands stay on one line for copying.
    let commands: Vec<String> = needs.record.iter().map(|command| format!("  {command}")).collect();
    section("Command that records the missing events", &commands);
    if needs.missing.is_empty() {
        lines.push("A replay lacks nothing.\n".to_owned());
    }
    lines.join("\n")
}

fn events_table(summary: &Summary, span: u64, all: bool) -> String {
    let counts = summary.counts();
    let shown = if all { counts.len() } else { SHOWN };
    let rate = |count: u64| if span == 0 { "-".to_owned() } else { format!("{:.1}", count as f64 * 1e9 / span as f64) };
    let lines = counts.iter().take(shown).map(|(name, count)| vec![(*name).clone(), thousands(*count), rate(*count)]);
    format!(
        "{}{}",
        grid(&["event", "count", "a second"], 1, lines),
        rest(counts.len(), shown, "name of an event", "names of events")
    )
}

/// Returns the table of tasks. `moves`: the trace has migrations.
fn tasks_table(tasks: &[&TaskSummary], span: u64, tgid: bool, moves: bool, all: bool) -> String {
    let shown = if all { tasks.len() } else { SHOWN };
    let share = |ns: u64| if span == 0 { "-".to_owned() } else { format!("{:.2}", ns as f64 * 100.0 / span as f64) };
    let lines = tasks.iter().take(shown).map(|task| {
        let mut line = vec![task.comm(), task.pid.to_string()];
        if tgid {
            line.push(task.tgid.map_or_else(|| "-".to_owned(), |tgid| tgid.to_string()));
        }
        line.extend([
            format!("{:.3}", task.cpu_ns as f64 / 1e6),
            share(task.cpu_ns),
            thousands(task.switches),
            thousands(task.wakeups()),
            if moves { thousands(task.migrations) } else { "-".to_owned() },
        ]);
        line
    });
    let mut head = vec!["task", "pid"];
    head.extend(tgid.then_some("tgid"));
    head.extend(["CPU ms", "CPU %", "switches", "wakeups", "migrations"]);
    format!("{}{}", grid(&head, 1, lines), rest(tasks.len(), shown, "task", "tasks"))
}

fn summary_tables(summary: &Summary) -> [DataTable; 2] {
    let span = summary.clock().span_ns();
    let columns = [
        ("event", "Event", Column::Text),
        ("count", "Count", Column::Count),
        ("per_second", "A second", Column::Number),
    ];
    let mut events = DataTable::new("events", "Events by name", &columns);
    for (name, count) in summary.counts() {
        let rate = (span > 0).then(|| count as f64 * 1e9 / span as f64);
        events.push(vec![name.into(), count.into(), rate.into()]);
    }
    let columns = [
        ("task", "Task", Column::Text),
        ("pid", "Pid", Column::Count),
        ("tgid", "Tgid", Column::Count),
        ("cpu_ns", "CPU time", Column::Nanoseconds),
        ("share", "CPU", Column::Share),
        ("switches", "Switches", Column::Count),
        ("wakeups", "Wakeups", Column::Count),
        ("migrations", "Migrations", Column::Count),
    ];
    let mut tasks = DataTable::new("tasks", "Tasks", &columns);
    for task in summary.tasks() {
        tasks.push(vec![
            task.comm().into(),
            task.pid.into(),
            task.tgid.into(),
            task.cpu_ns.into(),
            (span > 0).then(|| task.cpu_ns as f64 / span as f64).into(),
            task.switches.into(),
            task.wakeups().into(),
            (summary.count_of("sched_migrate_task") > 0).then_some(task.migrations).into(),
        ]);
    }
    [events, tasks]
}

fn rest(all: usize, shown: usize, one: &str, several: &str) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        more => format!("and {more} more {} (--all)\n", if more == 1 { one } else { several }),
    }
}

/// Formats `0-3,5`.
fn ranges(cpus: &[u32]) -> String {
    let run = |run: &[u32]| match *run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(u32::to_string).collect(),
    };
    let runs: Vec<String> = cpus.chunk_by(|a, b| a + 1 == *b).map(run).collect();
    if runs.len() > 16 { format!("{},...", runs[..16].join(",")) } else { runs.join(",") }
}

/// Returns findings on the quality of the file.
fn findings(summary: &Summary, notes: &Notes, tasks: &[&TaskSummary]) -> Vec<String> {
    let losses = summary.losses();
    let clock = summary.clock();
    let sum = |what: fn(&TaskSummary) -> u64| tasks.iter().map(|task| what(task)).sum::<u64>();
    let tasks_that = |what: fn(&TaskSummary) -> bool| tasks.iter().filter(|task| what(task)).count() as u64;
    let unwoken = if summary.has_wakeups() { sum(|task| task.unwoken) } else { 0 };
    let tally = |tally: &Tally, what: &str| {
        let first = tally.first.map(|first| format!(" (the first at {first})")).unwrap_or_default();
        (tally.count, format!("{what}{first}"))
    };
    let counted = [
        (losses.gaps, "gaps where events were lost".to_owned()),
        (losses.events, "events lost in these gaps, as far as the file counts them".to_owned()),
        (notes.overwritten.unwrap_or(0), "events overwritten before the buffer was read".to_owned()),
        (
            summary.missing_arrivals(),
            "switches to a task that are missing: assumed at the task's wakeup, or computed back from its run time"
                .to_owned(),
        ),
        (
            summary.broken_switches(),
            "switches away from a task that was not running (its switch to the CPU is missing)".to_owned(),
        ),
        (clock.jumps(), "jumps of the clock (the span is the sum of the times between them)".to_owned()),
        (clock.strays(), "events far in time from their neighbours (left out of the span)".to_owned()),
        (clock.unordered(), "events earlier than the one before them in the file".to_owned()),
        tally(&notes.not_understood, "lines of unknown content"),
        tally(&notes.malformed, "events with unexpected fields"),
        tally(&notes.cut_lines, "lines longer than 64 KiB, which were cut"),
        (summary.impossible_pids(), "pids beyond the range of Linux".to_owned()),
        (tasks_that(|task| task.running_at_start), "tasks that were running when the trace began".to_owned()),
        (sum(|task| task.renames), "changes of tasks' names".to_owned()),
        (sum(|task| task.reuses), "pids given to a new task".to_owned()),
        (unwoken, "sleeps that ended without a wakeup event".to_owned()),
    ];
    let mut found: Vec<String> = counted
        .into_iter()
        .filter(|&(count, _)| count > 0)
        .map(|(count, what)| format!("{what}: {}", thousands(count)))
        .collect();
    if let Some(place) = notes.unterminated {
        found.push(format!("the file ends within {place}: it may have been cut off"));
    }
    found.extend(notes.hidden().into_iter().chain(notes.missing_events()));
    if notes.counts_for_time {
        found.push(COUNTS_FOR_TIME.to_owned());
    }
    found
}

fn as_json(path: &Path, summary: &Summary, notes: &Notes, needs: &Needs) -> Value {
    let clock = summary.clock();
    let losses = summary.losses();
    let tally = |tally: &Tally| json!({ "count": tally.count, "first": tally.first.map(|place| place.to_string()) });
    let tasks: Vec<Value> = summary.tasks().into_iter().map(task_json).collect();
    let cpus: Vec<Value> = summary.cpus().map(|(cpu, events)| json!({ "cpu": cpu, "events": events })).collect();
    let stretches: Vec<Value> =
        clock.stretches().iter().map(|(start, end)| json!({ "start_ns": start, "end_ns": end })).collect();
    let by_name: serde_json::Map<String, Value> =
        summary.counts().into_iter().map(|(name, count)| (name, json!(count))).collect();
    json!({
        "file": path.display().to_string(),
        "kind": notes.kind.map(Kind::name),
        "span_ns": clock.span_ns(),
        "stretches": stretches,
        "machine_cpus": notes.cpus,
        "release": notes.release,
        "cpus": cpus,
        "events": summary.events(),
        "events_by_name": by_name,
        "tasks": tasks,
        "loss": {
            "losses": losses.gaps,
            "lost": losses.events,
            "overwritten": notes.overwritten,
            "broken_switches": summary.broken_switches(),
            "missing_arrivals": summary.missing_arrivals(),
            "not_understood": tally(&notes.not_understood),
            "malformed": tally(&notes.malformed),
            "cut_lines": tally(&notes.cut_lines),
            "unterminated": notes.unterminated.map(|place| place.to_string()),
            "abandoned": notes.abandoned.map(|place| place.to_string()),
            "recorded_events": notes.incomplete.map(|(_, recorded)| recorded),
            "impossible_pids": summary.impossible_pids(),
        },
        "clock": {
            "jumps": clock.jumps(),
            "strays": clock.strays(),
            "unordered": clock.unordered(),
            "nanoseconds": summary.has_nanoseconds(),
            "counts_for_time": notes.counts_for_time,
        },
        "replay": { "possible": needs.replayable, "missing": needs.missing, "record": needs.record },
    })
}

fn task_json(task: &TaskSummary) -> Value {
    let comms: Vec<_> = task.comms.iter().map(|comm| String::from_utf8_lossy(comm)).collect();
    json!({
        "pid": task.pid,
        "tgid": task.tgid,
        "comm": task.comm(),
        "comms": comms,
        "renames": task.renames,
        "cpu_ns": task.cpu_ns,
        "switches": task.switches,
        "wakeups": task.wakeups(),
        "migrations": task.migrations,
        "running_at_start": task.running_at_start,
        "pid_reuses": task.reuses,
        "unwoken": task.unwoken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(seconds(-1_500_000_000, 6), "-1.500000");
        assert_eq!(seconds(2_063_990_869_570, 9), "2063.990869570");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
