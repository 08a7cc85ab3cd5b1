//! The commands, one file each.

mod analyses;
pub(crate) mod behaviours;
mod bisect;

#[cfg(target_os = "linux")]
mod calibrate;
mod compare;
mod compared_trace;
mod diff;
mod example;
mod fidelity;
mod file_names;
mod html;
mod info;
mod man;
mod new_policy;
mod notes;
#[cfg(target_os = "linux")]
pub(crate) mod real;
#[cfg(target_os = "linux")]
mod record;
mod replay;
mod replay_input;
mod reproduce;
mod run;
mod saved;
mod section;
mod trace;

pub(crate) use analyses::{Asked, word as analysis_word};
pub(crate) use bisect::bisect;
#[cfg(target_os = "linux")]
pub(crate) use calibrate::calibrate;
pub(crate) use compare::compare;
pub(crate) use diff::diff;
pub(crate) use example::{example, init};
pub(crate) use fidelity::fidelity;
pub(crate) use info::{completions, kernels, machines, notices};
pub(crate) use man::man;
pub(crate) use new_policy::new_policy;
#[cfg(target_os = "linux")]
pub(crate) use real::real;
#[cfg(target_os = "linux")]
pub(crate) use record::record;
pub(crate) use replay::replay;
pub(crate) use reproduce::{Experiment, reproduce};
pub(crate) use run::run;
pub(crate) use trace::trace;

use std::path::Path;

use serde_json::{Value, json};
use vruntime_report::{Results, counted, observed_json, printable_json, run_json, spread_json};

use crate::benchmarks::Output;
use crate::output_paths;
use crate::plan::{Plan, run_info};
use crate::simulate::Done;

/// Returns a plan's runs as JSON, in the format of recordings.
///
/// [`changes`](vruntime_report::RunInfo::changes): changes to the file and the kernel.
fn runs_json(name: &str, plan: &Plan, changes: &[String], runs: &[Done]) -> Value {
    let observed = runs.iter().map(|run| {
        let mut json = observed_json(&run.results, run.seed, run.digest);
        if let Value::Object(fields) = &mut json {
            fields.insert("notes".to_owned(), json!(run.outcome.notes));
            if !run.benchmarks.is_empty() {
                let outputs: Vec<Value> = run.benchmarks.iter().map(Output::json).collect();
                fields.insert("benchmarks".to_owned(), json!(outputs));
            }
            if let Some(detected) = &run.detected {
                fields.insert("detected".to_owned(), json!(detected));
            }
            if let Some(analyses) = &run.analyses {
                fields.insert("analyses".to_owned(), analyses.json());
            }
            if let Some(series) = &run.series {
                fields.insert("series".to_owned(), series.table().json());
            }
            fields.insert("interrupted".to_owned(), json!(run.outcome.interrupted));
        }
        json
    });
    let duration = runs.first().map_or(0, |run| run.outcome.end);
    let mut json = run_json(&run_info(plan, changes, name, duration), observed.collect());
    if let Value::Object(fields) = &mut json {
        fields.insert("finished".to_owned(), finished(runs).into());
        fields.extend(over_seeds(runs).map(|ended| ("over_seeds".to_owned(), spread_json(&ended))));
    }
    json
}

/// Returns the note on a run that Ctrl-C stopped.
fn stopped_early(run: &Done) -> Option<String> {
    let seconds = run.outcome.end as f64 / 1e9;
    let note = || format!("seed {} stopped early at {seconds} s: results lack the rest of the run", run.seed);
    run.outcome.interrupted.then(note)
}

fn finished(runs: &[Done]) -> usize {
    runs.iter().filter(|run| !run.outcome.interrupted).count()
}

/// Returns the results of the complete runs. `None` if no run is complete, or there is only one.
fn over_seeds(runs: &[Done]) -> Option<Vec<Results>> {
    let ended = runs.iter().filter(|run| runs.len() > 1 && !run.outcome.interrupted).map(|run| run.results.clone());
    Some(ended.collect()).filter(|ended: &Vec<Results>| !ended.is_empty())
}

/// Returns [`runs_json`] without results, with the identity of each run in `observed`, for a comparison or a replay.
fn ran_json(label: &str, file: &Path, name: &str, plan: &Plan, changes: &[String], runs: &[Done]) -> Value {
    let observed = runs.iter().map(|run| {
        let digest = format!("{:016x}", run.digest);
        json!({"seed": run.seed, "digest": digest, "elapsed_ns": run.outcome.end, "notes": run.outcome.notes,
            "interrupted": run.outcome.interrupted})
    });
    let duration = runs.first().map_or(0, |run| run.outcome.end);
    let mut json = run_json(&run_info(plan, changes, name, duration), observed.collect());
    if let Value::Object(fields) = &mut json {
        fields.insert("label".to_owned(), label.into());
        fields.insert("finished".to_owned(), finished(runs).into());
        fields.insert("file".to_owned(), file.display().to_string().into());
    }
    json
}

/// Describes the figures of several seeds. `runs` has all sides, of `seeds` runs each.
fn of_seeds<'a>(runs: impl Iterator<Item = &'a Done>, seeds: u16) -> String {
    let ended: Vec<bool> = runs.map(|run| !run.outcome.interrupted).collect();
    if !ended.contains(&true) {
        "the incomplete seed that ran longest".to_owned()
    } else if ended.contains(&false) {
        "mean of the complete seeds".to_owned()
    } else {
        format!("mean of {seeds} seeds")
    }
}

/// Formats seed and digest, one line for each run. A line ends with `interrupted` if the run was stopped early.
fn digests(runs: &[Done]) -> String {
    let lines = runs.iter().map(|run| {
        let interrupted = if run.outcome.interrupted { " interrupted" } else { "" };
        format!("seed {} digest {:016x}{interrupted}", run.seed, run.digest)
    });
    lines.chain([String::new()]).collect::<Vec<String>>().join("\n")
}

/// Turns a label into a folder name.
fn folder_name(label: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-+=".contains(c) { c } else { '_' };
    label.chars().map(safe).collect::<String>().trim_start_matches('.').to_owned()
}

/// Writes a file to a folder, creating it if missing.
fn write_file(folder: &Path, name: &str, text: &str) -> miette::Result<()> {
    output_paths::write(&folder.join(name), text)
}

/// The files of [`write_results`], and the traces.
pub(crate) const RESULT_FILES: [&str; 4] = ["results.json", "digest", "trace.perfetto-trace", "trace.txt"];

/// Writes the files of `--out`, except the traces, which the runs wrote.
fn write_results(folder: &Path, name: &str, plan: &Plan, changes: &[String], runs: &[Done]) -> miette::Result<()> {
    let json = format!("{:#}\n", runs_json(name, plan, changes, runs));
    write_file(folder, "results.json", &printable_json(&json))?;
    write_file(folder, "digest", &digests(runs))
}

fn print_notes(runs: &[Done]) {
    let unexplained: u64 = runs.iter().map(|run| run.results.unexplained).sum();
    if unexplained > 0 {
        crate::output::note(&format!(
            "{} a task ran without a wakeup: please report this bug of vruntime",
            counted(unexplained, "time", "times")
        ));
    }
    crate::output::notes(runs.iter().map(|run| &run.outcome.notes[..]));
}
