//! Adds places in the user's file to errors of the simulator.

use std::ops::Range;

use vruntime_sim::{Error, Subject};
use vruntime_workload::Source;
use vruntime_workload::program::{Op, Repeat};
use vruntime_workload::scenario::Part;

use crate::complaint;
use crate::input::{Input, InputKind};
use crate::simulate::Failure;

/// The place of an error: a part of the file, and a key of that part.
struct About<'a> {
    /// Candidates. The first one that the file has is the place.
    parts: Vec<Part<'a>>,
    key: &'a str,
}

/// At most this number of warnings about parts that start after the run.
const MOST_SHOWN: usize = 10;

pub(crate) fn report(input: &Input, failure: Failure) -> miette::Report {
    match failure {
        Failure::Refused(error) => refused(input, &error),
        Failure::Output(report) => report,
    }
}

fn refused(input: &Input, error: &Error) -> miette::Report {
    let (message, help) = (error.to_string(), help_of_endless(input, error).or_else(|| help(error)));
    match (about(error).and_then(|about| place(input, &about)), help) {
        (Some((source, span)), help) => {
            let help = help.unwrap_or_else(|| "docs/scenario.md and docs/rt-app.md describe each key".to_owned());
            source.error_at(span, &message, "requested here", &help).into()
        }
        (None, help) => complaint::with_help(message, help.as_deref()),
    }
}

/// Returns the help for a run without end, in the words of the input's format.
fn help_of_endless(input: &Input, error: &Error) -> Option<String> {
    let scenario = match &input.kind {
        InputKind::Scenario(_) => true,
        InputKind::RtApp(_) => false,
        _ => return None,
    };
    match error {
        Error::NeverEnds { .. } if scenario => Some(
            "write `duration = \"5s\"` above the first table, give --duration, or give the task `loops`".to_owned(),
        ),
        Error::ForksForEver { .. } if scenario => Some(
            "write `duration = \"5s\"` above the first table, give --duration, or remove the cycle of forks".to_owned(),
        ),
        Error::NeverEnds { task } => {
            let task = input.workload.tasks.iter().find(|known| known.name == *task)?;
            let endless = task.phases.iter().flat_map(|phase| phase.ops.iter()).any(Op::is_endless);
            let loops = task.repeat == Repeat::Forever || task.phases.iter().any(|it| it.repeat == Repeat::Forever);
            (endless && !loops).then(|| {
                "`\"run\" : -1` never ends: give it a time, or the run a duration (`global.duration` in the file, or --duration)"
                    .to_owned()
            })
        }
        _ => None,
    }
}

/// Returns the error and its help on one line, without a place.
pub(crate) fn on_one_line(error: &Error) -> String {
    help(error).map_or_else(|| error.to_string(), |help| format!("{error}; {help}"))
}

/// Returns the error's help, with options of the command line.
fn help(error: &Error) -> Option<String> {
    let help = error.help()?;
    Some(match error {
        Error::NoSuchCpu { .. } | Error::Hotplug { .. } => format!("{help} with --machine"),
        Error::TooOld { .. } | Error::Nested { .. } => format!("{help} with --kernel"),
        Error::TooMany { .. } => format!("{help} with --duration"),
        Error::ForkRefused { limit, .. } => {
            let more = limit.saturating_mul(2).min(1 << 22);
            format!(
                "let forked tasks end, shorten the run with --duration, or raise the limit with --threads-max {more} or `threads_max` in a scenario"
            )
        }
        Error::NoGuarantees { .. } => {
            "choose 2.6.15-cpurc with --kernel, or give the group a `weight` under 2.6.24 or later".to_owned()
        }
        Error::NeverEnds { .. } => {
            "give one (`global.duration` in the file, or --duration), or a `loop` count".to_owned()
        }
        Error::ForksForEver { .. } => {
            "give one (`global.duration` in the file, or --duration), or remove the cycle of forks".to_owned()
        }
        _ => help,
    })
}

/// Returns warnings about parts of the file that start at `end`, the end of the run, or later.
pub(crate) fn too_late(input: &Input, end: u64) -> Vec<vruntime_workload::Error> {
    let changes = input.workload.changes.iter().map(|change| ("[[change]]", change.at, Part::Change(change.at)));
    let hotplug = input.workload.hotplug.iter().map(|plug| ("[[hotplug]]", plug.at, Part::Hotplug(plug.at)));
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut found: Vec<vruntime_workload::Error> = Vec::new();
    let mut late: Vec<(&str, u64, Part<'_>)> = changes.chain(hotplug).filter(|(_, at, _)| *at >= end).collect();
    // A `[[change]]` table with several keys is several changes of the workload.
    late.dedup_by_key(|(what, at, _)| (*what, *at));
    for (index, task) in input.workload.tasks.iter().enumerate() {
        let Some(at) = task.start.filter(|&at| at >= end) else { continue };
        let Some((source, span)) = input.source_map.start(index) else { continue };
        // Instances of a task, and tasks of a workload, share a place.
        let is_reported = |error: &vruntime_workload::Error| {
            error.span().as_ref() == Some(&span) && error.source_text().name() == source.name()
        };
        if found.iter().any(is_reported) {
            continue;
        }
        if found.len() == MOST_SHOWN {
            break;
        }
        let (name, at, end) = (&task.name, seconds(at), seconds(end));
        let message = format!("`{name}` starts at {at} s, and the run ends at {end} s");
        found.push(source.error_at(span, &message, "never happens", "let the run last longer, or remove it"));
    }
    for (what, at, part) in late.into_iter().take(MOST_SHOWN) {
        let InputKind::Scenario(scenario) = &input.kind else { break };
        let Some(span) = scenario.find(part, "at") else { continue };
        let message = format!("this {what} is at {} s, and the run ends at {} s", seconds(at), seconds(end));
        let error = scenario.error_at(span, &message, "never happens", "let the run last longer, or remove it");
        found.push(error);
    }
    found
}

/// Returns the place of the first part whose key is written.
fn place(input: &Input, about: &About<'_>) -> Option<(Source, Range<usize>)> {
    if let InputKind::Scenario(scenario) = &input.kind {
        let found = about.parts.iter().find_map(|part| scenario.find(*part, about.key));
        if let Some(span) = found {
            return Some((scenario.source.clone(), span));
        }
    }
    let name = about.parts.iter().find_map(|part| if let Part::Task(name) = part { Some(*name) } else { None })?;
    let task = input.workload.tasks.iter().position(|task| task.name == name)?;
    let (source, span) = input.source_map.place(task, None, None)?;
    Some((source.clone(), span))
}

fn about(error: &Error) -> Option<About<'_>> {
    let task = |name, key| Some(About { parts: vec![Part::Task(name)], key });
    // Initial values are in the group's table, later ones in a change.
    let group = |path, now: u64, key| {
        let parts = if now == 0 { vec![Part::Group(path), Part::Change(0)] } else { vec![Part::Change(now)] };
        Some(About { parts, key })
    };
    match error {
        Error::NoSuchCpu { subject: Subject::Task(name), .. } => task(name, "cpus"),
        Error::NoCpus { task: name, .. } => task(name, "group"),
        Error::MessageTooLong { task: name, .. }
        | Error::NoProgress { task: name, .. }
        | Error::ForksForEver { task: name }
        | Error::ForkRefused { task: name, .. } => task(name, "steps"),
        Error::NeverEnds { task: name } => task(name, "loops"),
        Error::Refused { task: name, now, .. } if *now == 0 => task(name, "runtime"),
        Error::NoRtRuntime { task: name, now, .. } if *now == 0 => task(name, "group"),
        Error::Clamps { task: name, now, .. } if *now == 0 => task(name, "util_min"),
        Error::Refused { task: name, now, .. } => {
            Some(About { parts: vec![Part::Change(*now), Part::Task(name)], key: "runtime" })
        }
        Error::NoRtRuntime { task: name, now, .. } => {
            Some(About { parts: vec![Part::Change(*now), Part::Task(name)], key: "group" })
        }
        Error::Clamps { task: name, now, .. } => {
            Some(About { parts: vec![Part::Change(*now), Part::Task(name)], key: "util_min" })
        }
        Error::NoGuarantees { group: path, .. } => group(path, 0, "guarantee"),
        Error::BadGuarantee { group: path, now, .. } => group(path, *now, "guarantee"),
        Error::BadRtLimit { group: path, now, .. } => group(path, *now, "rt_runtime"),
        Error::Nested { group: path, .. } => group(path, 0, ""),
        Error::Hotplug { at, .. } | Error::HotplugOrder { at } => {
            Some(About { parts: vec![Part::Hotplug(*at)], key: "cpu" })
        }
        Error::ChangeOrder { at } => Some(About { parts: vec![Part::Change(*at)], key: "at" }),
        Error::TooOld { subject, .. }
        | Error::OutOfRange { subject, .. }
        | Error::NoSuchCpu { subject, .. }
        | Error::Dangling { subject, .. }
        | Error::BadLimit { subject, .. } => {
            let part = match subject {
                Subject::Task(name) => Part::Task(name),
                Subject::Group(path) => Part::Group(path),
                Subject::Change(at) => Part::Change(*at),
                _ => return None,
            };
            Some(About { parts: vec![part], key: "" })
        }
        _ => None,
    }
}
