//! `vruntime kernels --behaviours`.

use serde_json::{Value, json};
use vruntime_report::{fit_text, grid};
use vruntime_sched::kernels::behaviours::{BEHAVIOURS, BehaviourRow, Certainty};
use vruntime_sched::kernels::{Behaviour, Difference};
use vruntime_sched::{Kernel, kernels as rows};

use super::bisect;
use crate::{Ended, output, plan, policies};

/// A line: a behaviour, or another difference of two kernels.
struct Line {
    name: &'static str,
    area: &'static str,
    releases: String,
    row: Option<&'static BehaviourRow>,
    /// How the releases are known.
    certainty: &'static str,
    /// Commits, or the kind of source.
    source: &'static str,
    what: &'static str,
    switch: String,
    /// Of a difference: the kernel that has it, or for a tunable the values of both kernels.
    only: Option<String>,
}

/// Prints all behaviours, those of one kernel, or what differs between two kernels.
pub(super) fn print(names: &[String], json: bool) -> miette::Result<Ended> {
    // A user policy has the behaviours of its kernel.
    let kernels = names.iter().map(|name| plan::parse_kernel(&policies::simulated_kernel(name)));
    let kernels = kernels.collect::<miette::Result<Vec<Kernel>>>()?;
    let lines: Vec<Line> = match &kernels[..] {
        [] => BEHAVIOURS.iter().map(of_row).collect(),
        [one] => one.behaviours.rows().filter(|row| row.behaviour.concerns(one.policy)).map(of_row).collect(),
        [one, other, ..] => {
            let differences =
                one.differences(other).ok_or_else(|| bisect::different_schedulers(&names[0], &names[1]))?;
            differences.into_iter().map(|difference| of_difference(difference, [one, other], names)).collect()
        }
    };
    if json {
        output::print_json(&lines.iter().map(line_json).collect());
    } else {
        output::print(&table(&lines, &kernels));
    }
    Ok(Ended::Well)
}

fn of_row(row: &'static BehaviourRow) -> Line {
    let (area, releases, switch) = (row.area.name(), row.releases().to_string(), row.switch.to_owned());
    Line {
        name: row.name,
        area,
        releases,
        row: Some(row),
        certainty: row.certainty.name(),
        source: row.source(),
        what: row.what,
        switch,
        only: None,
    }
}

fn of_difference(difference: Difference, [one, other]: [&Kernel; 2], names: &[String]) -> Line {
    let row = match difference {
        Difference::Behaviour(behaviour) => Some(behaviour.row()),
        Difference::Policy => Some(Behaviour::Eevdf.row()),
        _ => None,
    };
    let first_has = match difference {
        Difference::Behaviour(behaviour) => one.behaviours.has(behaviour),
        Difference::Policy => one.behaviours.has(Behaviour::Eevdf),
        Difference::Feature(feature) => one.features.has(feature),
        _ => false,
    };
    let values = difference.values(one, other).map(|[first, last]| format!("{first} to {last}"));
    let area = match difference {
        Difference::Feature(_) => "feature",
        _ => row.map_or("tunable", |row| row.area.name()),
    };
    Line {
        name: difference.name(),
        area,
        releases: difference.releases(),
        row,
        certainty: difference.certainty().map_or("", Certainty::name),
        source: difference.source(),
        what: difference.what(),
        switch: match difference {
            Difference::Feature(feature) => if first_has { one } else { other }.switch_feature(feature, false),
            _ => row.map_or_else(String::new, |row| row.switch.to_owned()),
        },
        only: values.or_else(|| names.get(usize::from(!first_has)).cloned()),
    }
}

fn line_json(line: &Line) -> Value {
    json!({
        "behaviour": line.name,
        "area": line.area,
        "since": line.row.map(|row| row.since),
        "until": line.row.map(|row| row.until),
        "again": line.row.and_then(|row| row.again).map(|(since, until)| json!({"since": since, "until": until})),
        "releases": line.releases,
        "certainty": Some(line.certainty).filter(|known| !known.is_empty()),
        "source": Some(line.source).filter(|source| !source.is_empty()),
        "what": line.what,
        "switch": Some(&line.switch).filter(|switch| !switch.is_empty()),
        "only": line.only,
    })
}

fn table(lines: &[Line], kernels: &[Kernel]) -> String {
    let differ = kernels.len() > 1;
    let rows = lines.iter().map(|line| {
        let origin = if line.source.contains("commit") { format!("; {}", line.source) } else { String::new() };
        let mut row =
            vec![line.name.to_owned(), line.area.to_owned(), line.releases.clone(), line.certainty.to_owned()];
        row.extend(line.only.clone().filter(|_| differ));
        row.push(format!("{}{origin}", line.what));
        row
    });
    let mut head = vec![if differ { "difference" } else { "behaviour" }, "area", "releases", "known"];
    if differ {
        head.push("only");
    }
    head.push("what it does; commits");
    let mut text = if lines.is_empty() {
        "nothing differs between the two kernels\n".to_owned()
    } else {
        grid(&head, head.len(), rows)
    };
    text.push('\n');
    // The switches are below the table, since their paths are too long for a column.
    let switches = lines.iter().filter(|line| !line.switch.is_empty());
    let switches: Vec<String> = switches.map(|line| format!("{}: {}", line.name, line.switch)).collect();
    if !switches.is_empty() {
        text.push_str("switched off on a real kernel by:\n");
        text.extend(switches.iter().map(|switch| format!("{}\n", fit_text(switch, "  "))));
        text.push('\n');
    }
    let legend = [
        "recorded: seen in recordings or running kernels; read: in the sources of a kernel with it and of one without",
        "--feature +NAME adds a behaviour, and -NAME removes it",
    ];
    text.extend(legend.iter().map(|line| format!("{}\n", fit_text(line, ""))));
    for kernel in kernels {
        if let Some(note) = unverified(kernel.name) {
            text.push_str(&fit_text(&note, ""));
            text.push('\n');
        }
    }
    text
}

/// Returns sentences on unverified facts of a kernel.
pub(crate) fn unverified(name: &str) -> Option<String> {
    let row = rows().iter().find(|row| row.name == name && !row.unverified.is_empty())?;
    let releases = "The releases of all its behaviours were read in sources or recorded.";
    Some(format!("Not verified for {name}: {}. {releases}", row.unverified))
}
