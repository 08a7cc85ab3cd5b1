//! `vruntime kernels --behaviours`.

use serde_json::{Value, json};
use vruntime_report::{fit_text, grid};
use vruntime_sched::kernels::behaviours::{BEHAVIOURS, BehaviourRow};
use vruntime_sched::{Kernel, kernels as rows};

use crate::{Ended, output, plan};

/// Prints all behaviours, those of one kernel, or those in which two kernels differ.
pub(super) fn print(names: &[String], json: bool) -> miette::Result<Ended> {
    let kernels = names.iter().map(|name| plan::parse_kernel(name)).collect::<miette::Result<Vec<Kernel>>>()?;
    let shown: Vec<(&BehaviourRow, Option<&str>)> = match &kernels[..] {
        [] => BEHAVIOURS.iter().map(|row| (row, None)).collect(),
        [one] => {
            one.behaviours.rows().filter(|row| row.behaviour.concerns(one.policy)).map(|row| (row, None)).collect()
        }
        [one, other, ..] => {
            let has = |row: &BehaviourRow| (one.behaviours.has(row.behaviour), other.behaviours.has(row.behaviour));
            let differing = BEHAVIOURS.iter().filter_map(|row| match has(row) {
                (true, false) => Some((row, Some(names[0].as_str()))),
                (false, true) => Some((row, Some(names[1].as_str()))),
                _ => None,
            });
            differing.collect()
        }
    };
    if json {
        output::print_json(&shown.iter().map(|(row, of)| row_json(row, *of)).collect());
    } else {
        output::print(&table(&shown, &kernels));
    }
    Ok(Ended::Well)
}

fn row_json(row: &BehaviourRow, of: Option<&str>) -> Value {
    json!({
        "behaviour": row.name,
        "area": row.area.name(),
        "since": row.since,
        "until": row.until,
        "certainty": row.certainty.name(),
        "what": row.what,
        "switch": Some(row.switch).filter(|switch| !switch.is_empty()),
        "only": of,
    })
}

fn table(shown: &[(&BehaviourRow, Option<&str>)], kernels: &[Kernel]) -> String {
    let differ = kernels.len() > 1;
    let lines = shown.iter().map(|(row, of)| {
        let switch = if row.switch.is_empty() { String::new() } else { format!("; {}", row.switch) };
        let known = row.certainty.name().to_owned();
        let mut line = vec![row.name.to_owned(), row.area.name().to_owned(), row.releases().to_string(), known];
        line.extend(of.filter(|_| differ).map(str::to_owned));
        line.push(format!("{}{switch}", row.what));
        line
    });
    let mut head = vec!["behaviour (--feature +NAME, -NAME)", "area", "releases", "known"];
    if differ {
        head.push("only");
    }
    head.push("what it does; the kernel's own switch");
    let mut text = if shown.is_empty() {
        "the two kernels have the same behaviours\n".to_owned()
    } else {
        grid(&head, head.len(), lines)
    };
    text.push('\n');
    text.push_str("recorded: seen in recordings or running kernels; read: in the sources of both kernels; remembered: not checked\n");
    for kernel in kernels {
        if let Some(note) = unverified(kernel.name) {
            text.push_str(&fit_text(&note, ""));
            text.push('\n');
        }
    }
    text
}

/// Returns a sentence on unverified facts of a kernel.
pub(super) fn unverified(name: &str) -> Option<String> {
    let row = rows().iter().find(|row| row.name == name && !row.unverified.is_empty())?;
    Some(format!("Not verified for {name}: {}.", row.unverified))
}
