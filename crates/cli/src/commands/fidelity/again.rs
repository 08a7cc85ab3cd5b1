//! `vruntime fidelity --against`: compares recordings. Their disagreement limits the accuracy of any simulator.

use std::collections::BTreeMap;
use std::path::Path;

use miette::miette;
use vruntime_report::counted;
use vruntime_report::fidelity::{Against, cells};
use vruntime_workload::recording::{self, Recording};

use super::{Available, Compared, Files, dotted, is_wanted, no_match, number, on_disk, recorded};
use crate::args::Fidelity;
use crate::plan;

/// Recordings by kernel and scenario.
type ByName = BTreeMap<(Vec<u32>, String), Recording>;

/// Compares `files` with recordings of the same scenarios in the folder `again`.
pub(super) fn compare(files: &Files, again: &Path, fidelity: &Fidelity) -> miette::Result<Compared> {
    let mut available = Available::new();
    let first = parse(files, fidelity, &mut available)?;
    if first.is_empty() {
        return Err(no_match(&available, fidelity));
    }
    let second = parse(&on_disk(again)?, fidelity, &mut available)?;
    let mut all = Vec::new();
    let mut skipped: Vec<String> = Vec::new();
    let mut compared = 0;
    for (key, recording) in &first {
        let kernel = plan::series(&recording.kernel);
        match second.get(key).map(|other| (other, difference(recording, other))) {
            Some((other, None)) => {
                let found = recorded(other, &kernel).runs;
                all.extend(cells(&recorded(recording, &kernel), Against::Recording, &found));
                compared += 1;
            }
            Some((_, Some(why))) => skipped.push(format!("{kernel} {}: {why}", recording.name)),
            None => skipped.push(format!("{kernel} {}: not recorded again", recording.name)),
        }
    }
    let missing = second.keys().filter(|key| !first.contains_key(*key));
    skipped.extend(missing.map(|key| format!("{} {}: only recorded again", dotted(&key.0), key.1)));
    if compared == 0 {
        let help = format!("the first: {}", skipped[0]);
        return Err(miette!(help = help, "{}: no recording can be compared with one of there", again.display()));
    }
    let lead = format!("{compared} scenarios, each recorded again: {}.", again.display());
    Ok(Compared { cells: all, lead, notes: Vec::new(), skipped, interrupted: false })
}

/// Reads the requested recordings, and adds all names to `available`.
fn parse(files: &Files, fidelity: &Fidelity, available: &mut Available) -> miette::Result<ByName> {
    let mut found = ByName::new();
    for (name, bytes) in files {
        let recording = recording::parse(name, bytes)?;
        available.insert((number(&plan::series(&recording.kernel)), recording.name.clone()));
        if is_wanted(&recording, fidelity) {
            let kernel = number(&plan::series(&recording.kernel));
            found.insert((kernel, recording.name.clone()), recording);
        }
    }
    Ok(found)
}

/// Returns why two recordings cannot be compared.
fn difference(first: &Recording, again: &Recording) -> Option<String> {
    let seconds = |recording: &Recording| recording.duration as f64 / 1e9;
    if first.duration != again.duration {
        Some(format!("runs of {} s, and of {} s again", seconds(first), seconds(again)))
    } else if first.cpus != again.cpus {
        Some(format!("{}, and {} again", counted(first.cpus as u64, "CPU", "CPUs"), again.cpus))
    } else if first.workload != again.workload {
        Some("another workload was recorded again".to_owned())
    } else {
        None
    }
}
