//! Recordings of this machine's own kernel, in the format of the embedded ones.

mod layout;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use miette::{IntoDiagnostic, WrapErr, miette};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use vruntime_linux::{Host, Measured, Options};
use vruntime_report::{Latency, Results, counted};
use vruntime_workload::program::Workload;
use vruntime_workload::recording;

use super::Files;
use crate::args::{Fidelity, Suite};
use crate::commands::real::results_of;
use crate::commands::write_file;
use crate::output_paths::OutputPaths;
use crate::{complaint, interrupt, output};

/// Runs of each scenario, and their length.
struct Extent {
    runs: u32,
    seconds: u64,
}

impl Suite {
    const fn extent(self) -> Extent {
        match self {
            Self::Quick => Extent { runs: 3, seconds: 3 },
            Self::Full => Extent { runs: 5, seconds: 8 },
        }
    }
}

/// A scenario of a file of `fidelity/suite`, or of a recording.
#[derive(Deserialize)]
struct ScenarioFile {
    name: String,
    cpus: u64,
    suite: Option<String>,
    #[serde(default)]
    groups: Value,
    workload: Box<RawValue>,
}

#[derive(Serialize)]
struct File {
    name: String,
    kernel: String,
    /// The day, UTC.
    recorded: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    processor: Option<String>,
    hz: u32,
    /// `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    preempt: Option<String>,
    autogroup: bool,
    cpus: u64,
    topology: String,
    emulated: bool,
    threads: bool,
    duration_s: u64,
    #[serde(skip_serializing_if = "Value::is_null")]
    groups: Value,
    workload: Box<RawValue>,
    observed: Vec<Value>,
}

impl File {
    fn text(&self) -> miette::Result<String> {
        layout::text(self).into_diagnostic()
    }
}

/// Scenarios without embedded recordings.
static ADDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/embedded/suite");

/// Scenarios that the quick suite omits: others are similar.
const NOT_QUICK: [&str; 2] = ["five-on-2", "tree-1cpu"];

/// Runs the scenarios that fit this machine, and writes a recording of each to `folder`: those of `--with`, or of
/// `known` and `fidelity/suite`. Returns `false` after Ctrl-C.
pub(super) fn record(folder: &Path, known: &Files, fidelity: &Fidelity) -> miette::Result<bool> {
    let host = vruntime_linux::describe();
    let added = super::json_files(&ADDED);
    let mut names = BTreeSet::new();
    let suite = if fidelity.with.is_empty() {
        let scenarios = scenarios(known.iter().chain(&added))?;
        names.extend(scenarios.iter().map(|(_, scenario)| scenario.name.clone()));
        suite(scenarios, &host, fidelity.suite, fidelity.scenario.as_deref())?
    } else {
        suite(own(&fidelity.with)?, &host, Suite::Full, None)?
    };
    if suite.is_empty() {
        let part = fidelity.scenario.as_deref().unwrap_or_default();
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        if names.iter().any(|name| name.contains(part)) {
            return Err(miette!(help = "leave --scenario out, or name another", "no scenario of the suite fits"));
        }
        return Err(miette!(
            help = super::suggestion(part, &names),
            "no scenario of the suite has `{part}` in its name"
        ));
    }
    let folder = folder.join(format!("linux-{}", crate::plan::series(&host.kernel)));
    let files: Vec<String> = suite.values().map(|file| format!("{}.json", file.name)).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    OutputPaths::default().folder("--record", Some(&folder), &files).check()?;
    if host.preempt.is_none() {
        output::note(&format!("the preemption model of the recordings is unknown: {}", host.preempt_from));
    }
    let extent = fidelity.suite.extent();
    let time = suite.len() as u64 * u64::from(extent.runs) * extent.seconds;
    let scenarios = counted(suite.len() as u64, "scenario", "scenarios");
    let runs = counted(u64::from(extent.runs), "run", "runs");
    output::note(&format!("{scenarios}, {runs} of {} s each: {time} s", extent.seconds));
    for mut file in suite.into_values() {
        let name = file.name.clone();
        output::note(&format!("{name} for real"));
        file.duration_s = extent.seconds;
        let parsed = recording::parse(&name, file.text()?.as_bytes())?;
        // As the recording says.
        let options =
            Options { duration: Some(parsed.duration), timer_slack_ns: Some(1), threads: true, ..Options::default() };
        let mut seen_notes = BTreeSet::new();
        for _ in 0..extent.runs {
            interrupt::careful();
            let measured = vruntime_linux::run(&parsed.workload, &options, &interrupt::asked)
                .map_err(|error| complaint::with_help(format!("{name}: {error}"), error.help()))?;
            for note in &measured.notes {
                if seen_notes.insert(note.clone()) {
                    output::note(&format!("{name}: {note}"));
                }
            }
            if measured.interrupted {
                return Ok(false);
            }
            file.observed.push(observed_of(&parsed.workload, &results_of(&parsed.workload, &measured), &measured));
        }
        write_file(&folder, &format!("{name}.json"), &file.text()?)?;
    }
    Ok(true)
}

fn scenarios<'a>(files: impl Iterator<Item = &'a (String, Vec<u8>)>) -> miette::Result<Vec<(String, ScenarioFile)>> {
    let read = |(file, bytes): &(String, Vec<u8>)| {
        let scenario =
            serde_json::from_slice(bytes).into_diagnostic().wrap_err_with(|| format!("{file} is no recording"))?;
        Ok((file.clone(), scenario))
    };
    files.map(read).collect()
}

/// Reads the user's scenarios: rt-app files, or files in the form of a recording (with groups and limits).
fn own(paths: &[PathBuf]) -> miette::Result<Vec<(String, ScenarioFile)>> {
    #[derive(Deserialize)]
    struct Own {
        name: Option<String>,
        #[serde(default)]
        groups: Value,
        workload: Box<RawValue>,
    }
    let mut own: Vec<(String, ScenarioFile)> = Vec::new();
    for path in paths {
        let file = path.display().to_string();
        let bytes = crate::input::contents(path, "name an rt-app file")?;
        let plain = |error: serde_json::Error| {
            let help = "a recording needs an rt-app file in plain JSON: without comments and without commas before closing brackets";
            miette!(help = help, "{file}: {error}")
        };
        let has_workload = serde_json::from_slice::<Value>(&bytes).map_err(plain)?.get("workload").is_some();
        let Own { name, groups, workload } = if has_workload {
            serde_json::from_slice(&bytes).map_err(plain)?
        } else {
            Own { name: None, groups: Value::Null, workload: serde_json::from_slice(&bytes).map_err(plain)? }
        };
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = name.or(stem).unwrap_or_else(|| "own".to_owned());
        if name.contains('/') {
            return Err(miette!(help = "it becomes a file's name", "{file}: `{name}` is not a name for a scenario"));
        }
        if let Some((other, _)) = own.iter().find(|(_, scenario)| scenario.name == name) {
            let help = "rename one of the two: recordings are files with these names";
            return Err(miette!(help = help, "{other} and {file} are both called `{name}`"));
        }
        own.push((file, ScenarioFile { name, cpus: 1, suite: None, groups, workload }));
    }
    Ok(own)
}

/// Returns recordings of the scenarios that fit, with this machine's description and without observations.
fn suite(
    scenarios: Vec<(String, ScenarioFile)>,
    host: &Host,
    extent: Suite,
    part: Option<&str>,
) -> miette::Result<BTreeMap<String, File>> {
    let (smp, cpus) = smp_of(&host.topology);
    let mut suite = BTreeMap::new();
    let mut larger = BTreeSet::new();
    for (file, scenario) in scenarios {
        let name = scenario.name.clone();
        let wanted = match part {
            Some(part) => name.contains(part),
            None => {
                extent == Suite::Full
                    || (scenario.suite.as_deref() != Some("full") && !NOT_QUICK.contains(&name.as_str()))
            }
        };
        if !wanted {
            continue;
        }
        if wanted_cpus(&scenario) > cpus {
            larger.insert(name);
            continue;
        }
        let grouped = scenario.groups.as_object().is_some_and(|groups| !groups.is_empty());
        let recorded = File {
            name: name.clone(),
            kernel: host.kernel.clone(),
            recorded: vruntime_linux::today(),
            processor: host.processor.clone(),
            hz: host.hz,
            preempt: host.preempt.clone(),
            // With groups, all tasks are in our cgroups, without autogroups.
            autogroup: host.autogroup && !grouped,
            cpus,
            topology: smp.clone(),
            emulated: host.emulated,
            threads: true,
            duration_s: 0,
            groups: scenario.groups,
            workload: fill_instances(scenario.workload, cpus).map_err(|reason| miette!("{file}: {reason}"))?,
            observed: Vec::new(),
        };
        suite.insert(name, recorded);
    }
    larger.retain(|name| !suite.contains_key(name));
    if !larger.is_empty() {
        let names: Vec<String> = larger.into_iter().collect();
        let there = if cpus == 1 { "an existing CPU".to_owned() } else { format!("{cpus} CPUs that there are") };
        output::note(&format!("for more than the {there}, and left out: {}", names.join(", ")));
    }
    Ok(suite)
}

/// Returns the number of CPUs that a scenario needs. If all tasks have affinities, their last CPU bounds it.
fn wanted_cpus(scenario: &ScenarioFile) -> u64 {
    let workload: Value = serde_json::from_str(scenario.workload.get()).unwrap_or_default();
    let tasks = workload["tasks"].as_object().filter(|tasks| !tasks.is_empty());
    let last = |task: &Value| task["cpus"].as_array()?.iter().map(Value::as_u64).max()?;
    let confined = tasks.and_then(|tasks| tasks.values().map(last).collect::<Option<Vec<u64>>>());
    confined.and_then(|last| last.into_iter().max()).map_or(scenario.cpus, |last| scenario.cpus.min(last + 1))
}

/// Replaces numbers of instances by CPU (`"2n"`, `"n+1"`), in the text: the order of a task's keys is its program.
fn fill_instances(workload: Box<RawValue>, cpus: u64) -> Result<Box<RawValue>, String> {
    let value: Value = serde_json::from_str(workload.get()).map_err(|error| error.to_string())?;
    let Some(tasks) = value["tasks"].as_object() else { return Ok(workload) };
    let mut text = workload.get().to_owned();
    for (name, task) in tasks {
        let Some(count) = task["instance"].as_str() else { continue };
        let number = instances(count, cpus);
        let number = number.ok_or_else(|| format!("task `{name}` has `{count}` instances: write 2n or n+1"))?;
        text = text.replace(&format!("\"{count}\""), &number.to_string());
    }
    RawValue::from_string(text).map_err(|error| error.to_string())
}

/// Evaluates `FACTORn+MORE`; both numbers are optional.
fn instances(text: &str, cpus: u64) -> Option<u64> {
    let (factor, more) = text.split_once('n')?;
    let factor: u64 = if factor.is_empty() { 1 } else { factor.parse().ok()? };
    let more: u64 = if more.is_empty() { 0 } else { more.strip_prefix('+')?.parse().ok()? };
    factor.checked_mul(cpus)?.checked_add(more)
}

/// Converts a topology from hwloc's syntax to QEMU's, and counts the CPUs.
fn smp_of(topology: &str) -> (String, u64) {
    let of = |kind: &str| {
        let mut words = topology.split_whitespace();
        words.find_map(|word| word.strip_prefix(kind)?.strip_prefix(':')?.parse::<u64>().ok()).unwrap_or(1)
    };
    // A plain number is a number of CPUs. Levels below packages count as cores.
    let sockets = of("pack");
    let cores = topology.parse().unwrap_or_else(|_| of("numa") * of("l3") * of("core"));
    let threads = of("pu");
    let cpus = sockets * cores * threads;
    (format!("{cpus},sockets={sockets},cores={cores},threads={threads}"), cpus)
}

/// Returns a run in the format of recordings.
fn observed_of(workload: &Workload, results: &Results, measured: &Measured) -> Value {
    let named: BTreeSet<&str> = workload.tasks.iter().map(|task| task.name.as_str()).collect();
    let forked = |name: &str| !named.contains(name);
    let latency = |latency: Latency| {
        json!({
            "p50": latency.p50_ns, "p90": latency.p90_ns, "p99": latency.p99_ns, "max": latency.max_ns,
        })
    };
    let tasks: BTreeMap<&str, Value> = results
        .tasks
        .iter()
        .zip(&measured.tasks)
        .map(|(task, counted)| {
            let account = &task.account;
            let mut value = json!({
                "cpu_ns": account.cpu_ns,
                "nr_voluntary_switches": counted.voluntary,
                "nr_involuntary_switches": account.involuntary,
                "nr_migrations": counted.migrations,
                "loops": account.loops,
                "wakeup_latency_ns": task.sleep_return.map(latency),
            });
            // The workload has the class of other tasks.
            if forked(&task.name) {
                value["class"] = json!(results.classes[task.class].name);
            }
            (task.name.as_str(), value)
        })
        .collect();
    let limited = results.groups.iter().zip(&measured.groups).filter(|(group, _)| group.limit.is_some());
    let groups: BTreeMap<&str, Value> = limited
        .map(|(group, stat)| {
            let value = json!({
                "nr_periods": stat.nr_periods,
                "nr_throttled": stat.nr_throttled,
                "throttled_ns": stat.throttled_ns,
            });
            (group.path.trim_start_matches('/'), value)
        })
        .collect();
    json!({ "tasks": tasks, "groups": groups, "others": measured.others })
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use clap::Parser;

    use super::super::Scenario;
    use super::*;
    use crate::args::{Arguments, Command};

    #[test]
    fn topologies_are_qemus() {
        assert_eq!(smp_of("pack:2 core:4"), ("8,sockets=2,cores=4,threads=1".to_owned(), 8));
        assert_eq!(smp_of("pack:1 l3:2 core:4 pu:2"), ("16,sockets=1,cores=8,threads=2".to_owned(), 16));
        assert_eq!(smp_of("6"), ("6,sockets=1,cores=6,threads=1".to_owned(), 6));
    }

    #[test]
    fn the_order_of_a_program_stays() {
        let text = r#"{"tasks": {"a": {"instance": "2n", "run1": 1, "lock": "m", "run0": 2}}}"#;
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(fill_instances(raw, 3).unwrap().get(), text.replace("\"2n\"", "6"));
    }

    #[test]
    fn tasks_with_masks_need_no_cpus_beyond_the_masks() {
        let wanted = |tasks: &str| {
            let workload = RawValue::from_string(format!("{{\"tasks\": {tasks}}}")).unwrap();
            wanted_cpus(&ScenarioFile { name: String::new(), cpus: 4, suite: None, groups: Value::Null, workload })
        };
        assert_eq!(wanted(r#"{"a": {"cpus": [0], "run": 1}, "b": {"cpus": [0], "run": 1}}"#), 1);
        assert_eq!(wanted(r#"{"a": {"cpus": [0, 2], "run": 1}, "b": {"cpus": [1], "run": 1}}"#), 3);
        assert_eq!(wanted(r#"{"a": {"cpus": [0], "run": 1}, "b": {"run": 1}}"#), 4, "b roams");
        assert_eq!(wanted(r#"{"a": {"cpus": [7], "run": 1}}"#), 4);
    }

    #[test]
    fn instances_grow_with_the_machine() {
        assert_eq!([instances("2n", 4), instances("n+1", 4), instances("3n+2", 2)], [Some(8), Some(5), Some(8)]);
        assert_eq!([instances("4", 4), instances("n-1", 4), instances("n2", 4)], [None; 3]);
    }

    #[test]
    fn what_is_not_known_is_not_recorded() {
        let added = super::super::json_files(&ADDED);
        for (model, recorded) in [(None, None), (Some("none".to_owned()), Some("none".to_owned()))] {
            let host = Host {
                kernel: "6.12.1".to_owned(),
                topology: "4".to_owned(),
                hz: 250,
                preempt: model,
                ..Host::default()
            };
            let suite = suite(scenarios(added.iter()).unwrap(), &host, Suite::Full, None).expect("all can be read");
            for (name, mut file) in suite {
                file.duration_s = 1;
                let text = file.text().expect("it is JSON");
                assert!(text.contains("\"recorded\": \"20") && !text.contains("\"processor\""), "{text}");
                assert_eq!(text.contains("\"preempt\""), recorded.is_some(), "{text}");
                assert_eq!(recording::parse(&name, text.as_bytes()).unwrap().preempt, recorded);
            }
        }
    }

    #[test]
    fn own_files_are_scenarios() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
            folder.path().join(name)
        };
        let app = write("app.json", r#"{"tasks": {"a": {"run": 1, "sleep": 2, "run": 3}}}"#);
        let limited =
            write("x.json", r#"{"name": "limited", "groups": {"q": {"max": [1, 2]}}, "workload": {"tasks": {}}}"#);
        let own_files = own(&[app.clone(), limited]).unwrap();
        let seen: Vec<_> = own_files.iter().map(|(_, it)| (it.name.as_str(), it.groups.to_string())).collect();
        assert_eq!(seen, [("app", "null".to_owned()), ("limited", r#"{"q":{"max":[1,2]}}"#.to_owned())]);
        // Repeated keys stay.
        assert_eq!(own_files[0].1.workload.get(), r#"{"tasks": {"a": {"run": 1, "sleep": 2, "run": 3}}}"#);
        let refused = |paths: &[PathBuf]| own(paths).err().expect("it is refused").to_string();
        let again = write("again.json", r#"{"name": "app", "workload": {}}"#);
        assert!(refused(&[app, again]).ends_with("again.json are both called `app`"));
        let path = write("path.json", r#"{"name": "../app", "workload": {}}"#);
        assert!(refused(&[path]).ends_with("`../app` is not a name for a scenario"));
        let commented = write("commented.json", "{ /* a hog */ }");
        assert!(refused(&[commented]).contains("commented.json: key must be a string at line 1 column 3"));
    }

    /// Records every scenario, and reads and simulates the recording.
    #[test]
    fn the_suite_is_whole() {
        let host =
            Host { kernel: "6.12.1".to_owned(), topology: "pack:1 core:2".to_owned(), hz: 250, ..Host::default() };
        let added = super::super::json_files(&ADDED);
        let suite = suite(scenarios(added.iter()).unwrap(), &host, Suite::Full, None).expect("all can be read");
        assert_eq!(suite.len(), added.len());
        let arguments = Arguments::try_parse_from(["vruntime", "fidelity"]).expect("fidelity needs no arguments");
        let Command::Fidelity(fidelity) = arguments.command else { panic!("it is another command") };
        for (name, mut file) in suite {
            file.duration_s = 1;
            let text = file.text().expect("it is JSON");
            let recording = recording::parse(&name, text.as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!((recording.name.as_str(), recording.duration), (name.as_str(), 1_000_000_000));
            let ran =
                vruntime_linux::run(&recording.workload, &Options { duration: Some(1), ..Options::default() }, &|| {
                    true
                });
            assert!(ran.is_ok(), "{name}: {ran:?}");
            simulated(&name, recording, &fidelity);
        }
    }

    /// Simulates a recording for its second, in which every wait must end.
    fn simulated(name: &str, recording: recording::Recording, fidelity: &Fidelity) {
        let Scenario { input, plan, .. } =
            super::super::scenario(recording, "6.12", fidelity, None).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut digest = vruntime_trace::Digest::default();
        let watch = &mut |_| ControlFlow::Continue(());
        let ran = vruntime_sim::run_dyn(&input.workload, &plan.config, &mut digest, watch);
        let outcome = ran.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!outcome.interrupted && outcome.end >= 1_000_000_000 && outcome.switches > 100, "{name}: {outcome:?}");
        for note in &outcome.notes {
            // At the end, tasks finish one by one while others wait.
            let since = note.split_once(", from ").and_then(|(_, rest)| rest.split_once(" to the end"));
            let since = since.and_then(|(at, _)| vruntime_workload::parse_duration(&at.replace(' ', "")).ok());
            let counts = [" more task waits", " more tasks wait"].iter().any(|end| note.ends_with(end));
            let counted = counts || note.starts_with("the run ended at ");
            assert!(counted || since > Some(900_000_000), "{name}: {note}");
        }
    }
}
