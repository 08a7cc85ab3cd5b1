//! The section of a recording in `vruntime trace info`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use vruntime_report::counted;
use vruntime_trace::read::Notes;

use crate::commands::section::{Section, lacks};

pub(super) fn section(path: &Path, notes: &Notes) -> miette::Result<Option<Section>> {
    let Some(recording) = &notes.recording else { return Ok(None) };
    Section::read(&path.display().to_string(), recording, notes.cpus).map(Some)
}

pub(super) fn lines(section: &Section) -> Vec<String> {
    let Section { about, machine, cgroups, tasks, .. } = section;
    let came = section.came();
    let mut lines = vec![format!("by vruntime {} on {}", about.vruntime, about.date)];
    if !about.command.is_empty() {
        lines.push(format!("command: {}", about.command.join(" ")));
    }
    if let Some(cgroup) = &about.cgroup {
        lines.push(format!("about the task group {cgroup}"));
    }
    let kernel = &about.kernel;
    let preempt = machine.preempt.map_or("not known", vruntime_workload::scenario::Preempt::name);
    let hz = machine.hz.map_or_else(|| "not known".to_owned(), |hz| hz.to_string());
    let known = counted(kernel.features.len() as u64, "feature", "features");
    lines.push(format!(
        "Linux {}, HZ {hz}, preemption {preempt}, {known} and {} known",
        kernel.release,
        counted(kernel.tunables.len() as u64, "tunable", "tunables")
    ));
    lines.push(format!("machine: {}", crate::machine::words(&machine.topology)));
    lines.push(match &machine.costs {
        Some(_) => "costs of its kernel: measured before the recording".to_owned(),
        None => "costs of its kernel: not measured (--no-calibrate)".to_owned(),
    });
    if let Some(source) = about.source.as_deref().filter(|&source| source != "tracefs") {
        let lacks = lacks(source).map_or_else(String::new, |lacks| format!(": {lacks}"));
        lines.push(format!("events by perf_event_open ({source}){lacks}"));
    }
    lines.push(match about.event_cost {
        Some(cost) => format!("an event took {} ns", cost.ns),
        None => "the cost of an event was not measured".to_owned(),
    });
    lines.push(format!("{} recorded, {} lost", counted(about.events, "event", "events"), about.lost));
    let mut states: BTreeMap<&str, u64> = BTreeMap::new();
    for task in tasks.values() {
        *states.entry(task.state.as_str()).or_default() += 1;
    }
    let asleep = ["S", "D", "I"].iter().map(|state| states.get(state).copied().unwrap_or(0)).sum::<u64>();
    lines.push(format!(
        "{} before the first event, {asleep} asleep; {} started and still existed after the last event",
        counted(tasks.len() as u64, "task", "tasks"),
        counted(came as u64, "task", "tasks")
    ));
    lines.push(match cgroups {
        Some(cgroups) => format!(
            "task groups and affinities of the tasks; autogroup is {}",
            if cgroups.autogroup() { "on" } else { "off" }
        ),
        None => "nothing of task groups".to_owned(),
    });
    lines
}

pub(super) fn as_json(section: &Section) -> Value {
    let Section { about, machine, cgroups, tasks, .. } = section;
    let came = section.came();
    json!({
        "vruntime": about.vruntime,
        "date": about.date,
        "command": about.command,
        "cgroup": about.cgroup,
        "release": about.kernel.release,
        "features": about.kernel.features,
        "tunables": about.kernel.tunables,
        "hz": machine.hz,
        "preempt": machine.preempt.map(vruntime_workload::scenario::Preempt::name),
        "topology": crate::machine::words(&machine.topology),
        "calibrated": machine.costs.is_some(),
        "event_cost_ns": about.event_cost.map(|cost| cost.ns),
        "source": about.source,
        "events": about.events,
        "lost": about.lost,
        "recorder_tids": about.recorder_tids,
        "tasks": tasks.len(),
        "came": came,
        "cgroups": cgroups.is_some(),
        "autogroup": cgroups.as_ref().map(vruntime_workload::cgroups::Cgroups::autogroup),
    })
}
