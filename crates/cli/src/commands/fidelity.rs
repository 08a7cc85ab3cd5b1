//! `vruntime fidelity`.

mod again;
#[cfg(target_os = "linux")]
mod record;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use miette::{IntoDiagnostic, WrapErr, miette};
use vruntime_report::fidelity::{
    Against, Cell, Observation, ObservedGroup, ObservedTask, RecordedScenario, cells, data_table, table,
};
use vruntime_sim::idle::IdleDepth;
use vruntime_sim::plan::preempt_not_known;
use vruntime_sim::stalls::Stall;
use vruntime_sim::{Costs, Profile};
use vruntime_workload::SourceMap;
use vruntime_workload::recording::{self, Observed, Recording};
use vruntime_workload::resident::Resident;

use crate::args::{Fidelity, Model};
use crate::commands::html;
use crate::input::{Input, InputKind};
use crate::output_paths::OutputPaths;
use crate::simulate::{Done, Failure, Job};
use crate::{Ended, machine_file, output, plan, simulate, tables};

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/embedded/ground-truth");

struct Scenario {
    recorded: RecordedScenario,
    input: Input,
    plan: plan::Plan,
}

pub(crate) fn fidelity(fidelity: &Fidelity) -> miette::Result<Ended> {
    let outputs = fidelity.reports.output_paths(OutputPaths::default());
    #[cfg(target_os = "linux")]
    let outputs = outputs.folder("--record", fidelity.record.as_deref(), &[]);
    outputs.check()?;
    let mut files = match &fidelity.dir {
        Some(dir) => on_disk(dir)?,
        None => embedded(),
    };
    #[cfg(target_os = "linux")]
    if let Some(folder) = &fidelity.record {
        if !record::record(folder, &files, fidelity)? {
            return Ok(Ended::Interrupted);
        }
        files = on_disk(folder)?;
    }
    let result = match &fidelity.against {
        Some(dir) => again::compare(&files, dir, fidelity)?,
        None => simulated(files, fidelity, &outputs)?,
    };
    outputs.check_inputs()?;
    show(&result, fidelity)?;
    Ok(if result.interrupted { Ended::Interrupted } else { Ended::Well })
}

/// The compared recordings.
struct Compared {
    cells: Vec<Cell>,
    /// Description of the recorded machines and the other side, for a page.
    lead: String,
    notes: Vec<String>,
    /// Recordings that were not compared, with reasons.
    skipped: Vec<String>,
    interrupted: bool,
}

fn is_wanted(recording: &Recording, fidelity: &Fidelity) -> bool {
    let kernel = plan::series(&recording.kernel);
    fidelity.kernel.as_ref().is_none_or(|wanted| plan::series(wanted) == kernel)
        && fidelity.scenario.as_ref().is_none_or(|part| recording.name.contains(part.as_str()))
}

/// Kernels and scenarios of all recordings.
type Available = BTreeSet<(Vec<u32>, String)>;

/// Returns the error of a request without recordings. The help names existing ones.
fn no_match(available: &Available, fidelity: &Fidelity) -> miette::Report {
    if available.is_empty() {
        let help = "the folder has a folder for each kernel (linux-6.12/), with a JSON file for each scenario";
        return miette!(help = help, "no recordings match");
    }
    let kernels = |part: &str| {
        let kernels: BTreeSet<&Vec<u32>> =
            available.iter().filter(|(_, name)| name.contains(part)).map(|(kernel, _)| kernel).collect();
        kernels.into_iter().map(|kernel| dotted(kernel)).collect::<Vec<_>>().join(", ")
    };
    let (kernel, part) = (fidelity.kernel.as_deref().map(plan::series), fidelity.scenario.as_deref().unwrap_or(""));
    let is_wanted = |recorded: &[u32]| kernel.as_ref().is_none_or(|kernel| number(kernel) == recorded);
    let names: BTreeSet<&str> =
        available.iter().filter(|(recorded, _)| is_wanted(recorded)).map(|(_, name)| name.as_str()).collect();
    match &kernel {
        Some(kernel) if names.is_empty() => {
            let kernel = fidelity.kernel.as_ref().unwrap_or(kernel);
            let help = format!("there are recordings of {}", kernels(""));
            miette!(help = help, "there is no recording of kernel {kernel}")
        }
        _ => {
            let elsewhere = kernels(part);
            let help =
                if elsewhere.is_empty() { suggestion(part, &names) } else { format!("under {elsewhere} there is") };
            let scenario = kernel
                .map_or_else(|| "recorded scenario".to_owned(), |kernel| format!("scenario recorded under {kernel}"));
            miette!(help = help, "no {scenario} has `{part}` in its name")
        }
    }
}

/// Returns help: the scenario nearest to `part`, and all scenarios.
fn suggestion(part: &str, names: &BTreeSet<&str>) -> String {
    let all = names.iter().copied().collect::<Vec<_>>().join(", ");
    match vruntime_workload::nearest(part, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? there are {all}"),
        None => format!("there are {all}"),
    }
}

/// Compares recordings with simulations.
fn simulated(files: Files, fidelity: &Fidelity, outputs: &OutputPaths) -> miette::Result<Compared> {
    let measured = fidelity.costs.as_deref().map(measured_machine).transpose()?;
    outputs.check_inputs()?;
    let mut scenarios = Vec::new();
    let mut skipped: Vec<String> = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    let mut malformed = Vec::new();
    let mut available = Available::new();
    for (name, bytes) in files {
        let recording = match recording::parse(&name, &bytes) {
            Ok(recording) => recording,
            // Other recordings are compared.
            Err(error) => {
                skipped.push(format!("{name}: no recording: {error}"));
                malformed.push(error);
                continue;
            }
        };
        let mut kernel = plan::series(&recording.kernel);
        available.insert((number(&kernel), recording.name.clone()));
        if !is_wanted(&recording, fidelity) {
            continue;
        }
        if vruntime_sched::kernel(&kernel).is_err() {
            let Some(earlier) = last_before(&kernel) else {
                skipped.push(format!("{kernel} {}: this version has no kernel {kernel}", recording.name));
                continue;
            };
            let note = format!("{kernel} is simulated as {earlier}, the last before it that vruntime has");
            if !notes.contains(&note) {
                output::note(&note);
                notes.push(note);
            }
            earlier.clone_into(&mut kernel);
        }
        let unknown = vruntime_sched::kernel(&kernel).ok().and_then(|kernel| preempt_not_known(&recording, &kernel));
        notes.extend(unknown.map(|note| format!("{kernel} {}: {note}", recording.name)));
        let name = recording.name.clone();
        match scenario(recording, &kernel, fidelity, measured.as_ref()) {
            Ok(scenario) => scenarios.push(scenario),
            Err(error) => skipped.push(format!("{kernel} {name}: refused: {error}")),
        }
    }
    if scenarios.is_empty() && skipped.len() == malformed.len() {
        return Err(malformed.into_iter().next().map_or_else(|| no_match(&available, fidelity), miette::Report::from));
    }
    scenarios.sort_by(|a, b| order(&a.recorded).cmp(&order(&b.recorded)));
    let jobs: Vec<Job<'_>> = scenarios
        .iter()
        .flat_map(|scenario| {
            (0..fidelity.repeat).map(|index| {
                let seed = fidelity.seed.wrapping_add(u64::from(index));
                let config = vruntime_sim::Config { seed, ..scenario.plan.config.clone() };
                Job::new(&scenario.input.workload, config, &scenario.plan.kernel)
            })
        })
        .collect();
    let mut outcomes = simulate::all(&jobs).into_iter();
    let mut all: Vec<Cell> = Vec::new();
    let mut interrupted = false;
    for scenario in &scenarios {
        // Takes all runs, also after a failed one, since the next belong to other scenarios.
        let runs: Vec<_> = outcomes.by_ref().take(usize::from(fidelity.repeat)).collect();
        let runs: Result<Vec<Done>, Failure> = runs.into_iter().collect();
        let name = format!("{} {}", scenario.recorded.kernel, scenario.recorded.scenario);
        match runs {
            Ok(runs) if runs.iter().any(|run| run.outcome.interrupted) => {
                interrupted = true;
                skipped.push(format!("{name}: interrupted"));
            }
            Ok(runs) => {
                let simulated: Vec<Observation> = runs.iter().map(|run| Observation::from(&run.results)).collect();
                all.extend(cells(&scenario.recorded, Against::Simulation, &simulated));
            }
            // Other scenarios are compared. The error's help does not apply to recordings.
            Err(Failure::Refused(error)) => skipped.push(format!("{name}: refused: {error}")),
            Err(failure) => return Err(miette::Report::from(failure).wrap_err(name)),
        }
    }
    let lead = lead(&scenarios, fidelity);
    Ok(Compared { cells: all, lead, notes, skipped, interrupted })
}

fn show(compared: &Compared, fidelity: &Fidelity) -> miette::Result<()> {
    let Compared { cells, lead, notes, skipped, .. } = compared;
    let all_notes: Vec<String> = notes.iter().chain(skipped).cloned().collect();
    // Prints the cells before errors of writing.
    let page = fidelity
        .reports
        .html
        .as_ref()
        .map(|path| html::write(&vruntime_report::fidelity::page(cells, lead, &all_notes), path));
    let written = tables::write(&fidelity.reports.tables, "fidelity", vec![vec![data_table(cells)].into()], &all_notes);
    let written = written.and(page.unwrap_or(Ok(())));
    if fidelity.json {
        let json = serde_json::to_value(cells).into_diagnostic()?;
        output::print_json(&json);
        for line in skipped {
            output::note(line);
        }
    } else {
        output::print(&report(cells, skipped, fidelity.misses));
    }
    written
}

/// Describes recorded machines and the simulation, for a page.
fn lead(scenarios: &[Scenario], fidelity: &Fidelity) -> String {
    let mut machines: Vec<String> = Vec::new();
    for Scenario { recorded, .. } in scenarios {
        let emulated = if recorded.emulated { ", emulated" } else { "" };
        let s = if recorded.cpus == 1 { "" } else { "s" };
        let machine = format!("Linux {} on {} CPU{s}{emulated}", recorded.kernel, recorded.cpus);
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    let costs = fidelity.costs.as_deref().unwrap_or("the costs of the kind of machine");
    let seeds = if fidelity.repeat > 1 { format!(", the median of {} seeds", fidelity.repeat) } else { String::new() };
    format!(
        "{} scenarios; {}. Simulated with seed {}{seeds}; costs: {costs}.",
        scenarios.len(),
        machines.join("; "),
        fidelity.seed
    )
}

/// Returns the key of the order: version number, then name.
fn order(recorded: &RecordedScenario) -> (Vec<u32>, &str) {
    (number(&recorded.kernel), &recorded.scenario)
}

fn dotted(version: &[u32]) -> String {
    let parts: Vec<String> = version.iter().map(u32::to_string).collect();
    parts.join(".")
}

fn number(kernel: &str) -> Vec<u32> {
    kernel.split('.').filter_map(|part| part.parse().ok()).collect()
}

/// Returns the last supported kernel before `kernel`.
fn last_before(kernel: &str) -> Option<&'static str> {
    let wanted = number(kernel);
    // Other names are patched kernels.
    let plain = |name: &&str| name.split('.').all(|part| part.parse::<u32>().is_ok());
    let earlier = vruntime_sched::kernels::kernels()
        .iter()
        .map(|kernel| kernel.name)
        .filter(plain)
        .filter(|name| number(name) < wanted);
    earlier.max_by_key(|name| number(name))
}

fn report(cells: &[Cell], skipped: &[String], misses: bool) -> String {
    let mut text = String::new();
    for line in skipped {
        text.push_str(line);
        text.push('\n');
    }
    if !skipped.is_empty() {
        text.push('\n');
    }
    text + &table(cells, misses)
}

/// The machine of `--costs`. It replaces the costs of the recorded kind of machine.
struct MeasuredMachine {
    costs: Costs,
    idle_depths: Vec<IdleDepth>,
    stalls: Option<Stall>,
    /// Background tasks, for recordings without them.
    residents: Option<Vec<Resident>>,
}

/// Reads the argument of `--costs`.
fn measured_machine(text: &str) -> miette::Result<MeasuredMachine> {
    if let Some(file) = machine_file::named(text)?
        && let Some(costs) = file.costs()?
    {
        return Ok(MeasuredMachine {
            costs,
            idle_depths: file.idle_depths(),
            stalls: file.stalls,
            residents: file.residents,
        });
    }
    let help =
        format!("name a file that vruntime calibrate wrote, `host`, or a profile: {}", Costs::PROFILES.join(", "));
    let profile = Profile::named(text).map_err(|error| miette!(help = help, "{error}"))?;
    let idle_depths = profile.idle_depths.to_vec();
    Ok(MeasuredMachine { costs: profile.costs, idle_depths, stalls: profile.stalls, residents: None })
}

/// Plans the simulation of a recording. An error is one of the recording, and does not end the command.
fn scenario(
    mut recording: Recording,
    kernel: &str,
    fidelity: &Fidelity,
    measured: Option<&MeasuredMachine>,
) -> miette::Result<Scenario> {
    let recorded = recorded(&recording, kernel);
    let workload = std::mem::take(&mut recording.workload);
    let input = Input {
        name: recording.name.clone(),
        example: None,
        folder: PathBuf::new(),
        workload,
        source_map: SourceMap::default(),
        kind: InputKind::Recording(Box::new(recording)),
    };
    let options = Model { seed: Some(fidelity.seed), ..Model::default() };
    let mut plan = plan::plan(&input, Some(kernel), None, &options)?;
    if let Some(measured) = measured {
        let machine = &mut plan.config.machine;
        machine.costs = measured.costs.clone();
        machine.idle_depths.clone_from(&measured.idle_depths);
        machine.stalls = measured.stalls;
        machine.residents = machine.residents.take().or_else(|| measured.residents.clone());
    }
    Ok(Scenario { recorded, input, plan })
}

/// Returns the part of a recording that is compared.
fn recorded(recording: &Recording, kernel: &str) -> RecordedScenario {
    let tasks = &recording.workload.tasks;
    let confined: BTreeSet<Option<&[u32]>> = tasks.iter().map(|task| task.settings.cpus.as_deref()).collect();
    let one_cpu = confined.len() == 1 && confined.iter().all(|cpus| cpus.is_some_and(|cpus| cpus.len() == 1));
    // Without a class in the recording, the workload's task of this name has it.
    let class_of =
        |name: &str| tasks.iter().find(|task| task.name == name).map_or(name, |task| task.class.as_str()).to_owned();
    RecordedScenario {
        kernel: kernel.to_owned(),
        scenario: recording.name.clone(),
        cpus: recording.cpus as usize,
        one_cpu: one_cpu || recording.cpus == 1,
        emulated: recording.emulated,
        duration_ns: recording.duration as f64,
        runs: recording.observed.iter().map(|run| observation(run, &class_of)).collect(),
    }
}

fn observation(run: &Observed, class_of: &dyn Fn(&str) -> String) -> Observation {
    let tasks = run.tasks.iter().map(|(name, task)| ObservedTask {
        class: task.class.clone().unwrap_or_else(|| class_of(name)),
        cpu_ns: task.cpu_ns as f64,
        switches: (task.nr_voluntary_switches + task.nr_involuntary_switches) as f64,
        migrations: task.nr_migrations.map(|count| count as f64),
        wakeup_latency_ns: task.wakeup_latency_ns.map(|latency| [latency.p50, latency.p90, latency.p99]),
    });
    let groups = run.groups.iter().map(|(path, group)| ObservedGroup {
        path: path.clone(),
        nr_throttled: group.nr_throttled as f64,
        throttled_ns: group.throttled_ns() as f64,
    });
    Observation { tasks: tasks.collect(), groups: groups.collect() }
}

type Files = Vec<(String, Vec<u8>)>;

fn embedded() -> Files {
    let kernels = EMBEDDED.dirs().filter(|dir| dir.path().to_string_lossy().starts_with("linux-"));
    let mut files: Files = kernels.flat_map(json_files).collect();
    files.sort();
    files
}

fn json_files(dir: &Dir<'_>) -> Files {
    let is_json = |file: &&include_dir::File<'_>| file.path().extension().is_some_and(|extension| extension == "json");
    dir.files().filter(is_json).map(|file| (file.path().display().to_string(), file.contents().to_vec())).collect()
}

/// Reads every recording in the folders `linux-…` of `dir`.
fn on_disk(dir: &Path) -> miette::Result<Files> {
    let list = |dir: &Path| -> miette::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(dir).and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect());
        entries.map_err(|error: std::io::Error| {
            let wanted = "name a folder of recordings (folders linux-…, as `vruntime fidelity --record DIR` writes); the default are the \
                recordings embedded in vruntime";
            let help = crate::input::help_with(dir, &error, wanted);
            miette!(help = help, "{error}").wrap_err(format!("cannot read the folder {}", dir.display()))
        })
    };
    let mut files = Vec::new();
    for folder in list(dir)? {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !folder.is_dir() || !name.starts_with("linux-") {
            continue;
        }
        for path in list(&folder)? {
            if path.extension().is_some_and(|extension| extension == "json") {
                let name = path.display().to_string();
                let bytes = crate::input::read_file(&path);
                files.push((name.clone(), bytes.into_diagnostic().wrap_err_with(|| format!("cannot read {name}"))?));
            }
        }
    }
    files.sort();
    Ok(files)
}
