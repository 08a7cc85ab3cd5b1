//! Translates options of the command line to overrides of a plan, and the plan's errors back.

use std::path::Path;

use miette::miette;
use vruntime_report::RunInfo;
use vruntime_sched::Kernel;
use vruntime_sched::kernels::SettingError;
use vruntime_sim::plan::{self, Error, ErrorKind, Given, Machine, Note, Overrides, Place};
use vruntime_sim::{Costs, MachineSpec, SwitchCosts};
use vruntime_workload::Source;
use vruntime_workload::program::Workload;

use crate::args::Model;
use crate::input::Input;
use crate::rules::written;
use crate::{input, machine, output, policies};

pub(crate) use vruntime_sim::plan::{Plan, series};

pub(crate) fn run_info(plan: &Plan, changes: &[String], name: &str, duration_ns: u64) -> RunInfo {
    RunInfo {
        name: name.to_owned(),
        kernel: plan.kernel.clone(),
        changes: changes.to_vec(),
        cpus: plan.config.machine.topology.nr_cpus(),
        topology: plan.machine.clone(),
        host_cpus: plan.config.machine.host_cpus,
        duration_ns,
        hz: plan.config.machine.hz,
        preempt: plan.config.effective_preempt().name().to_owned(),
        autogroup: plan.config.autogroup,
        gate: plan.config.gate,
        costs: plan.costs.to_owned(),
        emulated: plan.costs == "emulated",
    }
}

pub(crate) fn machine_words(plan: &Plan) -> String {
    let mut words = machine::words(&plan.config.machine.topology);
    if let Some(host) = host_words(&plan.config.machine) {
        words.extend([" on ", &host]);
    }
    words
}

/// Describes a virtual machine's host, if simulated: `a host of 2 CPUs`.
pub(crate) fn host_words(machine: &MachineSpec) -> Option<String> {
    let cpus = machine.host_cpus?;
    Some(format!("a host of {cpus} CPU{}", if cpus == 1 { "" } else { "s" }))
}

pub(crate) fn kernels_of(input: &Input) -> Vec<String> {
    input.kind.planned().kernels()
}

/// Plans a run. `kernel` and `machine` are the command line's.
pub(crate) fn plan(
    input: &Input,
    kernel: Option<&str>,
    machine: Option<&str>,
    options: &Model,
) -> miette::Result<Plan> {
    let overrides = Overrides {
        kernel: kernel.map(policies::simulated_kernel),
        machine: input.kind.machine(machine.map(machine::known).transpose()?),
        ..overrides(options)
    };
    let loader = &mut |path: &Path| input::read_file(&input.folder.join(path));
    let mut plan = plan::plan(input.kind.planned(), &overrides, loader).map_err(|error| refused(input, &error))?;
    policies::name_plan(&mut plan.kernel, kernel);
    print_plan_notes(&plan.notes);
    note_large_limits(&input.workload, plan.config.machine.topology.nr_cpus());
    Ok(plan)
}

/// Plans a run of a derived input. `None`: impossible.
pub(crate) fn planned(input: &Input, machine: Option<&str>, options: &Model) -> Option<Plan> {
    let machine = machine.map(machine::known).transpose().ok()?;
    let overrides = Overrides { machine: input.kind.machine(machine), ..overrides(options) };
    let loader = &mut |path: &Path| input::read_file(&input.folder.join(path));
    plan::plan(input.kind.planned(), &overrides, loader).ok()
}

pub(crate) fn overrides_of_trace(machine: Option<Machine>, options: &Model) -> Overrides {
    Overrides { machine, ..overrides(options) }
}

/// Returns the costs of switches and wakeups of the requested profile. The plan reports an unknown one.
pub(crate) fn switch_costs(options: &Model) -> Option<SwitchCosts> {
    Costs::profile(options.costs.as_ref()?).ok().map(|costs| costs.of_switches())
}

pub(crate) fn report_of_trace(error: vruntime_replay::Error) -> miette::Report {
    match error.plan() {
        Some(error) => report(error),
        None => error.into(),
    }
}

/// Warns of limits above the machine's CPUs, which may be percentages.
pub(crate) fn note_large_limits(workload: &Workload, cpus: usize) {
    for group in &workload.groups {
        let Some(max) = group.max.filter(|max| u128::from(max.quota) > u128::from(max.period) * cpus as u128) else {
            continue;
        };
        let limit = max.quota as f64 / max.period as f64;
        let there = if cpus == 1 { "one".to_owned() } else { cpus.to_string() };
        output::note(&format!(
            "`max` of group `{}` is {limit} CPUs, but the machine has {there}, so it has no effect; half of a CPU is \"500m\"",
            group.path
        ));
    }
}

/// Translates options. Absent switches override nothing.
fn overrides(options: &Model) -> Overrides {
    let gate = (options.gate || options.no_gate).then_some(options.gate);
    let autogroup = (options.autogroup || options.no_autogroup).then_some(options.autogroup);
    Overrides {
        hz: options.hz,
        preempt: options.preempt.map(Into::into),
        seed: options.seed,
        costs: options.costs.clone(),
        features: options.feature.clone(),
        settings: options.set.clone(),
        gate,
        autogroup,
        rt_group_sched: options.rt_group_sched.then_some(true),
        group_switches: options.group_switches.then_some(true),
        threads_max: options.threads_max,
        ..Overrides::default()
    }
}

pub(crate) fn parse_kernel(text: &str) -> miette::Result<Kernel> {
    let (kernel, notes) = plan::parse_kernel(text).map_err(|error| report(&error))?;
    print_plan_notes(&notes);
    Ok(kernel)
}

pub(crate) fn print_plan_notes(notes: &[Note]) {
    for note in notes {
        match note {
            Note::Overridden { given, by } => {
                output::note(&format!("{} has no effect: {} overrides it", option(given), option(by)));
            }
            note => output::note(&note.to_string()),
        }
    }
}

/// Formats a setting as on the command line.
fn option(given: &Given) -> String {
    match given {
        Given::Feature(name) => format!("--feature {name}"),
        Given::Setting(name, value) => format!("--set {name}={}", written(name, *value)),
        Given::PartOf { part, kernel } => format!("+{part} of --kernel {kernel}"),
        given => given.to_string(),
    }
}

/// Returns the error of an impossible plan of an input. Files that the scenario names get their whole path.
fn refused(input: &Input, error: &Error) -> miette::Report {
    let whole = |name: &Path| input.folder.join(name).display().to_string();
    match (error.kind(), error.place()) {
        (ErrorKind::Unreadable { file, why }, Some(place)) => {
            error_at_place(place, &format!("cannot read {}: {why}", whole(file)), &help(error))
        }
        (ErrorKind::Topology(_), Some(place)) if names_lstopo(input, place) => {
            let source = Source::new(&whole(Path::new(place.source.name())), place.source.text());
            error_at_place(&Place { source, ..place.clone() }, &error.to_string(), &help(error))
        }
        _ => report(error),
    }
}

/// Whether a place is in the scenario's `lstopo` file.
fn names_lstopo(input: &Input, place: &Place) -> bool {
    let machine = if let input::InputKind::Scenario(scenario) = &input.kind { scenario.machine.as_ref() } else { None };
    let lstopo = machine.and_then(|machine| machine.lstopo.as_ref());
    lstopo.is_some_and(|path| path.value == Path::new(place.source.name()))
}

pub(crate) fn report(error: &Error) -> miette::Report {
    let help = help(error);
    match error.place() {
        Some(place) => error_at_place(place, &error.to_string(), &help),
        None => miette!(help = help, "{error}"),
    }
}

fn error_at_place(place: &Place, message: &str, help: &str) -> miette::Report {
    place.source.error_at(place.span.clone(), message, place.label, help).into()
}

/// Returns the error's help, with options of the command line.
fn help(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Setting(SettingError::NotHere { name, has: (first, _), .. }) => format!(
            "{}; --kernel {first}+{name}=NUMBER sets it for one of several kernels; `vruntime kernels --features KERNEL` lists the tunables of each",
            error.help()
        ),
        ErrorKind::Unknown(unknown) if unknown.kind == "kernel" && unknown.name.contains(',') => {
            let each: Vec<String> = unknown.name.split(',').map(|name| format!("--kernel {}", name.trim())).collect();
            format!(
                "one kernel is named at a time; several are compared with `vruntime compare FILE {}`",
                each.join(" ")
            )
        }
        _ => error.help(),
    }
}
