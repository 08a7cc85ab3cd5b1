//! Saved results beside what is run, for `vruntime compare`.

use std::path::{Path, PathBuf};

use miette::miette;
use serde_json::{Value, json};
use vruntime_report::{SavedResults, SavedRun, Variant, counted, is_saved_comparison, is_saved_results, printable};

use super::file_names::file_names;
use crate::args::Compare;
use crate::{input, output};

/// The results of a file that `run --json`, `run --out` or `real --json` wrote.
#[derive(Debug)]
pub(crate) struct Saved {
    path: PathBuf,
    /// Number of the workloads before it on the command line.
    pub(crate) after: usize,
    /// Name of its column.
    pub(crate) label: String,
    file: SavedResults,
}

/// Takes the files with results from the command line. Returns the rest, and the results.
pub(crate) fn taken(compare: &Compare) -> miette::Result<(Compare, Vec<Saved>)> {
    let (mut rest, mut saved) = (compare.clone(), Vec::new());
    rest.files.clear();
    for path in &compare.files {
        match read(path)? {
            Some(file) => saved.push((path.clone(), rest.files.len(), file)),
            None => rest.files.push(path.clone()),
        }
    }
    let (names, paths): (Vec<String>, Vec<PathBuf>) = saved.iter().map(|(path, ..)| named(path)).unzip();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let labels = file_names(&names, &paths);
    let of_file = |((path, after, file), name): ((PathBuf, usize, SavedResults), String)| {
        // Parts of one comparison keep the names of its columns.
        let label = file.text("label").map_or_else(|| format!("{name} (saved)"), printable);
        Saved { path, after, label, file }
    };
    let saved: Vec<Saved> = saved.into_iter().zip(labels).map(of_file).collect();
    if rest.files.is_empty() {
        refuse_settings(compare)?;
    }
    saved.iter().for_each(Saved::note_gaps);
    note_lengths(&saved);
    Ok((rest, saved))
}

/// Returns the results in a file; none if it has a workload or a trace.
fn read(path: &Path) -> miette::Result<Option<SavedResults>> {
    let inside = path.join("results.json");
    if path.is_dir() && inside.is_file() {
        let help = format!("name the results in it: {}", inside.display());
        return Err(miette!(help = help, "{} is a folder", path.display()));
    }
    let is_json = path.is_file() && input::is_workload(path) && path.extension().is_none_or(|kind| kind != "toml");
    let Some(bytes) = is_json.then(|| input::read_file(path).ok()).flatten() else { return Ok(None) };
    let name = path.display();
    if is_saved_comparison(&bytes) {
        let help = "name the results.json of each run; `compare --out DIR` writes one for each combination";
        return Err(miette!(help = help, "{name} is a comparison, and has no results of single runs"));
    }
    if !is_saved_results(&bytes) && !is_cut_off(&bytes) {
        return Ok(None);
    }
    let results = SavedResults::read(&bytes);
    results.map(Some).map_err(|error| miette!(help = error.help(), "cannot compare {name}: {error}"))
}

/// Whether it begins as results do, and is no complete JSON.
fn is_cut_off(bytes: &[u8]) -> bool {
    let has = |key: &[u8]| bytes.windows(key.len()).any(|window| window == key);
    let is_json = || serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
    has(b"\"observed\": [") && has(b"\"kernel\": ") && !has(b"\"workload\"") && !is_json()
}

/// Returns the name and the place of a file: a folder of `--out` has the name, and `results.json` has none.
fn named(path: &Path) -> (String, PathBuf) {
    let stem = |path: &Path| path.file_stem().map(|stem| printable(&stem.to_string_lossy()));
    let folder = path.parent().filter(|folder| folder.file_name().is_some());
    match folder {
        Some(folder) if path.file_name().is_some_and(|name| name == "results.json") => {
            let name = folder.file_name().map(|name| printable(&name.to_string_lossy()));
            (name.unwrap_or_default(), folder.to_owned())
        }
        _ => (stem(path).unwrap_or_default(), path.to_owned()),
    }
}

/// Rejects settings of runs if nothing is run.
fn refuse_settings(compare: &Compare) -> miette::Result<()> {
    let model = &compare.options.model;
    let given = [
        ("--kernel", !compare.kernel.is_empty()),
        ("--machine", !compare.machine.is_empty()),
        ("--map", !compare.map.is_empty()),
        ("--vary", !compare.vary.is_empty()),
        ("--recorded-kernel", compare.recorded_kernel.is_some()),
        ("--cgroups", !compare.cgroups.is_empty()),
        ("--feature", !model.feature.is_empty()),
        ("--set", !model.set.is_empty()),
        ("--duration", compare.options.duration.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            let help = format!("leave {option} out, or name a scenario or an rt-app file, too");
            Err(miette!(help = help, "{option} has no effect on saved results, and no other file is given"))
        }
        None => Ok(()),
    }
}

/// Notes results of runs of different lengths.
fn note_lengths(saved: &[Saved]) {
    let seconds = |saved: &Saved| saved.runs().first().map_or(0, |run| run.results.elapsed_ns) as f64 / 1e9;
    let Some((first, others)) = saved.split_first() else { return };
    let is_other = |other: &&Saved| (seconds(other) - seconds(first)).abs() > 0.001 * seconds(first);
    if let Some(other) = others.iter().find(is_other) {
        output::note(&format!(
            "the runs of {} last {} s, those of {} {} s: counts (migrations, loops, throttled periods) and maxima grow with the length",
            first.path.display(),
            seconds(first),
            other.path.display(),
            seconds(other)
        ));
    }
}

impl Saved {
    /// Returns the runs that came to their end; at least one.
    fn runs(&self) -> &[SavedRun] {
        &self.file.runs
    }

    /// Notes what the file lacks.
    fn note_gaps(&self) {
        let path = self.path.display();
        let SavedResults { lacks, stopped, .. } = &self.file;
        if !lacks.is_empty() {
            let lacks = lacks.join(", ");
            output::note(&format!("{path}: cannot compare {lacks}: the file has no such figures"));
        }
        if *stopped > 0 {
            let runs = counted(*stopped as u64, "run was", "runs were");
            output::note(&format!("{path}: {runs} stopped early, and not compared"));
        }
    }

    /// Returns its column of the comparison.
    pub(crate) fn variant(&self) -> Variant {
        let runs = self.runs().iter().map(|run| run.results.clone()).collect();
        Variant { label: self.label.clone(), runs }
    }

    /// Returns its entry in `runs` of the JSON: the head of the file, with the identity of each run.
    pub(crate) fn json(&self) -> Value {
        let observed = |run: &SavedRun| {
            json!({"seed": run.seed, "digest": run.digest, "elapsed_s": run.results.elapsed_ns as f64 / 1e9,
                "notes": [], "interrupted": false})
        };
        let mut fields = self.file.setup.clone();
        fields.remove("over_seeds");
        fields.insert("label".to_owned(), self.label.as_str().into());
        fields.insert("file".to_owned(), self.path.display().to_string().into());
        fields.insert("finished".to_owned(), self.runs().len().into());
        fields.insert("saved".to_owned(), true.into());
        fields.insert("observed".to_owned(), self.runs().iter().map(observed).collect());
        Value::Object(fields)
    }

    /// Describes the saved runs.
    pub(crate) fn description(&self) -> String {
        let text = |key: &str| self.file.text(key).map(printable);
        let mut words = format!("{}: {}", self.label, self.path.display());
        if let Some(name) = text("name") {
            words = format!("{words}, {name}");
        }
        if let Some(kernel) = text("kernel") {
            words = format!("{words} under Linux {kernel}");
        }
        if let Some(cpus) = self.file.setup.get("cpus").and_then(Value::as_u64) {
            words = format!("{words} on {}", counted(cpus, "CPU", "CPUs"));
        }
        if let Some(preempt) = text("preempt") {
            words = format!("{words}, preempt {preempt}");
        }
        let seconds = self.runs().first().map_or(0, |run| run.results.elapsed_ns) as f64 / 1e9;
        words = format!("{words}, {seconds} s, {}", counted(self.runs().len() as u64, "run", "runs"));
        let changes = self.file.setup.get("changes").and_then(Value::as_array).into_iter().flatten();
        let changes: Vec<String> = changes.filter_map(Value::as_str).map(printable).collect();
        if changes.is_empty() { words } else { format!("{words}, with {}", changes.join("; ")) }
    }
}
