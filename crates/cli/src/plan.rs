//! From a file and the command line to a configuration: the command line's word goes before the file's, the file's
//! before the defaults.

use std::ops::Range;

use miette::miette;
use vruntime_report::RunInfo;
use vruntime_sched::energy::{EnergyModel, PerfDomain, PerfState};
use vruntime_sched::features::FEATURES;
use vruntime_sched::ids::CpuId;
use vruntime_sched::kernels::{SettingError, UnknownName, has_feature, negative};
use vruntime_sched::{Kernel, kernel};
use vruntime_sim::frequency::{Frequencies, FrequencyDomain, FrequencyError, Governor};
use vruntime_sim::idle::{self, IdleState};
use vruntime_sim::{Config, Costs, MachineSpec, Preempt, Profile};
use vruntime_workload::plain;
use vruntime_workload::recording::Recording;
use vruntime_workload::scenario::{self, Scenario, Spanned};

use crate::args::Model;
use crate::input::{Input, Says};
use crate::machine_file::MachineFile;
use crate::{input, machine, machine_file, output};

/// The kernel of those who name none: the newest long-term one in wide use.
const DEFAULT_KERNEL: &str = "6.12";

/// The seed of those who name none. Not 0, which starts all tasks in the same nanosecond and every tick in step: no
/// real machine does.
const DEFAULT_SEED: u64 = 1;

/// One thing to run: an input on a machine under a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The kernel as the user wrote it.
    pub(crate) kernel: String,
    /// The machine as the user wrote it.
    pub(crate) machine: String,
    /// The machine in words.
    pub(crate) machine_words: String,
    /// Whether nobody chose the machine.
    pub(crate) machine_by_default: bool,
    /// Everything about the run but the workload; its seed is the first run's.
    pub(crate) config: Config,
    /// The cost profile's name.
    pub(crate) costs: &'static str,
}

impl Plan {
    /// The head of the results' JSON.
    pub(crate) fn info(&self, name: &str, duration_ns: u64) -> RunInfo {
        RunInfo {
            name: name.to_owned(),
            kernel: self.kernel.clone(),
            cpus: self.config.machine.topology.nr_cpus(),
            topology: self.machine.clone(),
            host_cpus: self.config.machine.host_cpus,
            duration_s: duration_ns as f64 / 1e9,
            hz: self.config.machine.hz,
            preempt: self.config.preempt.name().to_owned(),
            autogroup: self.config.autogroup,
            gate: self.config.gate,
            costs: self.costs.to_owned(),
            emulated: self.costs == "emulated",
        }
    }
}

/// The kernels an input names itself.
pub(crate) fn kernels_of(input: &Input) -> Vec<String> {
    match &input.says {
        Says::RtApp(_) => Vec::new(),
        Says::Trace { kernel, .. } => vec![kernel.clone()],
        Says::Scenario(scenario) => scenario.kernel.iter().map(|kernel| kernel.value.clone()).collect(),
        Says::Recording(recording) => vec![short_version(&recording.kernel)],
    }
}

/// The release of the kernel that an input was recorded under, if it was.
fn release_of(input: &Input) -> Option<&str> {
    match &input.says {
        Says::RtApp(_) | Says::Scenario(_) => None,
        Says::Recording(recording) => Some(recording.release()),
        Says::Trace { release, .. } => release.as_deref(),
    }
}

/// `6.12` of `6.12.117` and of `6.12+deb13-amd64`.
pub(crate) fn short_version(version: &str) -> String {
    version.split(['-', '+']).next().unwrap_or_default().split('.').take(2).collect::<Vec<&str>>().join(".")
}

/// Plans a run. `kernel` and `machine` are what the command line says, if it does.
pub(crate) fn plan(
    input: &Input,
    kernel: Option<&str>,
    machine: Option<&str>,
    options: &Model,
) -> miette::Result<Plan> {
    let scenario = match &input.says {
        Says::Scenario(scenario) => Some(&**scenario),
        _ => None,
    };
    let recording = match &input.says {
        Says::Recording(recording) => Some(&**recording),
        _ => None,
    };
    let file = machine.map(machine_file::named).transpose()?.flatten();
    let (machine_text, machine_by_default, mut spec) = machine_of(input, scenario, recording, machine)?;
    if let Some(scenario) = scenario {
        for named in &scenario.cpus {
            exists(scenario, named, spec.topology.nr_cpus())?;
        }
    }
    let ticks = match input.says {
        Says::Trace { ticks, .. } => ticks,
        _ => None,
    };
    if let Some(hz) = options
        .hz
        .or(file.as_ref().and_then(|file| file.machine.hz))
        .or(scenario.and_then(|s| s.hz))
        .or(recording.map(|r| r.hz))
        .or(ticks.map(|ticks| ticks.hz))
    {
        spec.hz = hz;
    }
    let (kernel_name, mut kernel) = match (kernel, scenario.and_then(|scenario| scenario.kernel.first())) {
        (None, Some(named)) => (named.value.clone(), scenario_kernel(scenario, named)?),
        (None, None) => {
            let named = kernels_of(input).into_iter().next();
            let name = named.unwrap_or_else(|| DEFAULT_KERNEL.to_owned());
            let parsed = parse_kernel(&name)?;
            (name, parsed)
        }
        (Some(text), _) => (text.to_owned(), parse_kernel(text)?),
    };
    if let Some(release) = release_of(input) {
        kernel.as_of(release);
    }
    let profile = profile_of(scenario, recording, options)?;
    let (mut profile_name, mut costs, mut idle_depths) = (profile.name, profile.costs, profile.idle_depths.to_vec());
    spec.stalls = profile.stalls;
    if let (Some(measured), None) = (file.as_ref().map(MachineFile::costs).transpose()?.flatten(), &options.costs) {
        (profile_name, costs, idle_depths) = ("measured", measured, Vec::new());
        spec.stalls = file.as_ref().and_then(|file| file.stalls);
    }
    match &file {
        // What was measured of this machine goes before what is usual, and so does what its idle states are said to be.
        Some(file) if !file.idle_depths().is_empty() => idle_depths = file.idle_depths(),
        _ if !spec.idle_states.is_empty() => idle_depths.clear(),
        _ => {}
    }
    if let Some(scenario) = scenario {
        scenario_settings(scenario, &mut kernel, &mut costs)?;
    }
    overridden(&options.feature, |name| without_no(name), |name| format!("--feature {name}"));
    for name in &options.feature {
        kernel.feature(name).map_err(|error| unknown(&error))?;
        let bare = without_no(name);
        let Some(row) = FEATURES.iter().find(|row| row.name == bare) else { continue };
        if let Some(why) = row.feature.without_effect() {
            output::note(&format!("{bare} makes no difference here: {why}"));
        }
        if let (Some((first, last)), false) = (row.kernels, has_feature(kernel.name, row.feature)) {
            output::note(&format!("Linux {} has no {bare}: {first} to {last} do", kernel.name));
        }
    }
    overridden(&options.set, |(name, _)| name, |(name, value)| format!("--set {name}={value}"));
    for (name, value) in &options.set {
        set(name, *value, &mut kernel, &mut costs).map_err(|bad| bad.report)?;
    }
    kernel.rt_group_sched = options.rt_group_sched || scenario.and_then(|s| s.rt_group_sched).unwrap_or(false);
    if matches!(input.says, Says::Trace { .. }) {
        // What kernel threads did is in the trace.
        (costs.kworker_ns, costs.rcu_ns) = (0, 0);
    }
    let measured = file.as_ref().and_then(|file| file.residents.clone());
    spec.idle_depths = idle_depths;
    spec.residents = measured.or_else(|| recording.and_then(Recording::residents));
    if matches!(input.says, Says::Trace { .. }) {
        // What the machine did besides is in the trace.
        spec.residents = None;
    }
    for resident in spec.residents.iter().flatten() {
        let here = |cpu: &u32| (*cpu as usize) < spec.topology.nr_cpus();
        if resident.cpus.as_ref().is_some_and(|cpus| !cpus.iter().any(here)) {
            output::note(&format!(
                "`{}` of [[background]] is left out: this machine has none of its CPUs",
                resident.name
            ));
        }
    }
    kernel.group_switches = options.group_switches || scenario.and_then(|s| s.group_switches).unwrap_or(false);
    spec.costs = costs;
    let traced = matches!(input.says, Says::Trace { autogroup: true, .. }).then(|| kernel.is_at_least([2, 6, 38]));
    let mut config = Config::new(kernel, spec);
    config.seed = options.seed.or(scenario.and_then(|s| s.seed)).unwrap_or(DEFAULT_SEED);
    config.tick_phase = ticks.filter(|ticks| ticks.hz == config.machine.hz).map(|ticks| {
        // The trace has what a tick charged, and not when it was due.
        let (period, late) = (1_000_000_000 / u64::from(ticks.hz), config.machine.costs.irq_latency_ns);
        (ticks.phase_ns + period - late % period) % period
    });
    config.gate = !options.no_gate && (options.gate || scenario.and_then(|s| s.gate).unwrap_or(recording.is_some()));
    config.autogroup = options.autogroup
        || scenario
            .and_then(|s| s.autogroup)
            .or(recording.map(|r| r.autogroup))
            .or(traced)
            .or(file.as_ref().and_then(|file| file.machine.autogroup))
            .unwrap_or(false);
    if let (Some(recording), None, None) = (recording, options.preempt, &file)
        && let Some(note) = without_preempt(recording)
    {
        output::note(&note);
    }
    config.preempt = options
        .preempt
        .map(Preempt::from)
        .or(file.as_ref().map(MachineFile::preempt).transpose()?.flatten())
        .or(scenario.and_then(|s| s.preempt))
        .or(recording.and_then(|recording| Preempt::from_name(recording.preempt.as_deref()?)))
        .unwrap_or_default();
    let mut machine_words = machine::words(&config.machine.topology);
    if let Some(host) = host_words(&config.machine) {
        machine_words.extend([" on ", &host]);
    }
    Ok(Plan {
        kernel: kernel_name,
        machine: machine_text,
        machine_words,
        machine_by_default,
        config,
        costs: profile_name,
    })
}

/// What is to be said where a recording does not tell how its kernel preempts, or tells what is not offered.
pub(crate) fn without_preempt(recording: &Recording) -> Option<String> {
    let instead = Preempt::default().name();
    match recording.preempt.as_deref() {
        None => Some(format!("no preemption model was recorded: {instead} is simulated")),
        Some(name) if Preempt::from_name(name).is_none() => {
            Some(format!("the recorded preemption model, `{}`, is not offered: {instead} is simulated", plain(name)))
        }
        Some(_) => None,
    }
}

/// What a virtual machine runs on, if that is simulated: `a host of 2 CPUs`.
pub(crate) fn host_words(machine: &MachineSpec) -> Option<String> {
    let cpus = machine.host_cpus?;
    Some(format!("a host of {cpus} CPU{}", if cpus == 1 { "" } else { "s" }))
}

fn machine_of(
    input: &Input,
    scenario: Option<&Scenario>,
    recording: Option<&Recording>,
    chosen: Option<&str>,
) -> miette::Result<(String, bool, MachineSpec)> {
    if let Some(text) = chosen {
        let mut spec = MachineSpec::new(machine::parse(text)?);
        if let Some(clocks) = machine::clocks(text)? {
            spec.energy = clocks.energy;
            // A trace's work is counted at the highest frequency, and replayed at that.
            if spec.energy.is_some() && !matches!(input.says, Says::Trace { .. }) {
                spec.frequencies = Some(clocks.frequencies);
            }
        }
        return Ok((text.to_owned(), false, spec));
    }
    if let Says::Trace { cpus, .. } = input.says {
        let text = cpus.to_string();
        let spec = MachineSpec::new(machine::parse(&text)?);
        return Ok((text, false, spec));
    }
    if let Some(recording) = recording {
        let text = recording.topology.to_hwloc();
        let mut spec = MachineSpec::new(machine::parse(&text)?);
        // The recorder asked for the shortest slack there is.
        spec.timer_slack_ns = 1;
        if recording.emulated {
            // All emulated recordings were made on two CPUs of the host's, however many the guest had.
            spec.host_cpus = Some(2);
        }
        return Ok((text, false, spec));
    }
    let described = scenario.and_then(|scenario| Some((scenario, scenario.machine.as_ref()?)));
    let Some((scenario, described)) = described else {
        return Ok((machine::DEFAULT.to_owned(), true, MachineSpec::new(machine::parse(machine::DEFAULT)?)));
    };
    let (text, mut topology) = match (&described.lstopo, &described.topology) {
        (Some(path), _) => {
            let file = input.folder.join(&path.value);
            let bytes = input::read_file(&file).map_err(|error| {
                let message = format!("cannot read {}: {error}", file.display());
                let help = "name a file that `lstopo machine.xml` wrote; its path is relative to the scenario";
                scenario.error_at(path.span.clone(), &message, "this file", help)
            })?;
            let topology = machine::lstopo_text(&file, &bytes)?;
            (path.value.display().to_string(), topology)
        }
        (None, Some(text)) => {
            let known = machine::example(text).unwrap_or(text);
            let topology = vruntime_sim::parse_topology(known)
                .map_err(|error| scenario.error_at(text.span.clone(), &error.message, "this machine", &error.help))?;
            (text.value.clone(), topology)
        }
        (None, None) => {
            let cpus = described
                .capacities
                .as_ref()
                .map_or(machine::DEFAULT.to_owned(), |capacities| capacities.value.len().to_string());
            let topology = machine::parse(&cpus)?;
            (cpus, topology)
        }
    };
    if let Some(capacities) = &described.capacities {
        topology = machine::with_capacities(&topology, &capacities.value).map_err(|problem| {
            let help = "give `capacities` one number for each CPU of the topology";
            scenario.error_at(capacities.span.clone(), &problem, "these capacities", help)
        })?;
    }
    if let Some(distances) = &described.node_distances {
        topology = machine::with_distances(&topology, &distances.value).map_err(|problem| {
            let help = "give `node_distances` a row for each NUMA node of the topology, with the distance to each node";
            scenario.error_at(distances.span.clone(), &problem, "these distances", help)
        })?;
    }
    let mut spec = MachineSpec::new(topology);
    let cpus = spec.topology.nr_cpus();
    spec.host_cpus = described.host_cpus;
    if let Some(speedup) = described.smt_speedup_permille {
        // The file tells what both threads do together; the machine wants each one's speed.
        spec.smt_speed_permille = speedup.div_ceil(2);
    }
    spec.frequencies = frequencies_of(scenario, described, &spec.topology)?;
    spec.energy = energy_of(scenario, described, &spec.topology)?;
    let state = |table: &Spanned<scenario::IdleTable>| IdleState {
        name: table.value.name.clone(),
        exit_latency_ns: table.value.exit_latency_ns,
        target_residency_ns: table.value.residency_ns,
    };
    spec.idle_states = described.idle_states.iter().map(state).collect();
    if let Some(first) = described.idle_states.first() {
        idle::check(&spec.idle_states).map_err(|error| {
            let help = "docs/capacity.md tells how idle states are written";
            scenario.error_at(first.span.clone(), &error.to_string(), "here", help)
        })?;
    }
    if let Some(isolated) = &described.isolated {
        exists(scenario, isolated, cpus)?;
        spec.isolated = isolated.value.iter().copied().map(CpuId).collect();
        if spec.isolated.count() == cpus {
            let help = "leave out at least one CPU, on which the tasks run that ask for none";
            let message = "every CPU of the machine is isolated";
            return Err(scenario.error_at(isolated.span.clone(), message, "these are all there are", help).into());
        }
    }
    Ok((text, false, spec))
}

/// Whether the machine has all these CPUs.
fn exists(scenario: &Scenario, named: &Spanned<Vec<u32>>, cpus: usize) -> miette::Result<()> {
    let Some(cpu) = named.value.iter().find(|&&cpu| cpu as usize >= cpus) else { return Ok(()) };
    let message = format!("there is no CPU {cpu}: the machine has {cpus}, 0 to {}", cpus - 1);
    let help = "name other CPUs, or describe a larger machine";
    Err(scenario.error_at(named.span.clone(), &message, "among these", help).into())
}

fn frequencies_of(
    scenario: &Scenario,
    machine: &scenario::Machine,
    topology: &vruntime_sched::Topology,
) -> miette::Result<Option<Frequencies>> {
    let Some(name) = &machine.governor else { return Ok(None) };
    let wrong = |error: &FrequencyError, span: &Range<usize>| {
        scenario.error_at(span.clone(), &error.to_string(), "here", "docs/capacity.md tells how clocks are written")
    };
    let governor = Governor::from_name(&name.value).map_err(|error| wrong(&error, &name.span))?;
    let mut frequencies = Frequencies::by_core(topology, governor);
    if let Some(limit) = machine.rate_limit_ns {
        frequencies.rate_limit_ns = limit;
    }
    if !machine.frequencies.is_empty() {
        let domain = |table: &Spanned<scenario::FrequencyTable>| FrequencyDomain {
            cpus: table.value.cpus.clone(),
            khz: table.value.khz.clone(),
            transition_ns: table.value.transition_ns.unwrap_or(Frequencies::DEFAULT_TRANSITION_NS),
        };
        frequencies.domains = machine.frequencies.iter().map(domain).collect();
    }
    let span = machine.frequencies.first().map_or(&name.span, |first| &first.span);
    frequencies.check(topology.nr_cpus()).map_err(|error| wrong(&error, span))?;
    Ok(Some(frequencies))
}

/// What the machine's CPUs take, if the file says it of all clocks.
fn energy_of(
    scenario: &Scenario,
    machine: &scenario::Machine,
    topology: &vruntime_sched::Topology,
) -> miette::Result<Option<EnergyModel>> {
    let knows = |table: &&Spanned<scenario::FrequencyTable>| !table.value.power_uw.is_empty();
    let Some(first) = machine.frequencies.iter().find(knows) else { return Ok(None) };
    let wrong = |error: &dyn std::fmt::Display, span: &Range<usize>| {
        scenario.error_at(
            span.clone(),
            &error.to_string(),
            "here",
            "docs/capacity.md tells how energy models are written",
        )
    };
    if let Some(table) = machine.frequencies.iter().find(|table| table.value.power_uw.is_empty()) {
        return Err(wrong(&"other clocks have `power_mw`, but not this one", &table.span).into());
    }
    let domain = |table: &Spanned<scenario::FrequencyTable>| {
        let states = table.value.khz.iter().zip(&table.value.power_uw);
        let states = states.map(|(&khz, &power_uw)| PerfState { khz, power_uw }).collect();
        PerfDomain { cpus: table.value.cpus.clone(), states }
    };
    let model = EnergyModel { domains: machine.frequencies.iter().map(domain).collect() };
    model.check(topology).map_err(|error| wrong(&error, &first.span))?;
    Ok(Some(model))
}

/// The feature that is turned on, or off.
fn without_no(name: &str) -> &str {
    name.strip_prefix("NO_").unwrap_or(name)
}

/// What a part of a kernel's name is about: a feature or a tunable.
fn part_name(part: &str) -> &str {
    part.split_once('=').map_or_else(|| without_no(part), |(name, _)| name)
}

/// Tells of each of `given` that another of the same name comes after it, and says something else.
fn overridden<T: PartialEq>(given: &[T], name: impl Fn(&T) -> &str, words: impl Fn(&T) -> String) {
    for (index, one) in given.iter().enumerate() {
        let last = given[index + 1..].iter().rfind(|next| name(next) == name(one));
        if let Some(last) = last.filter(|last| *last != one) {
            output::note(&format!("{} has no effect: {} comes after it", words(one), words(last)));
        }
    }
}

/// A kernel with features and tunables of its own: `6.12+NO_RUN_TO_PARITY+base_slice_ns=3000000`.
pub(crate) fn parse_kernel(text: &str) -> miette::Result<Kernel> {
    let parts: Vec<&str> = text.split('+').map(str::trim).collect();
    let (name, parts) = parts.split_first().map_or(("", &[][..]), |(name, parts)| (*name, parts));
    let mut parsed = kernel(name).map_err(|error| unknown(&error))?;
    overridden(parts, |part| part_name(part), |part| format!("+{part} of --kernel {text}"));
    for &part in parts {
        match part.split_once('=') {
            None => parsed.feature(part).map_err(|error| unknown(&error))?,
            Some((name, value)) => {
                let digits = value.replace('_', "");
                let below = || digits.parse().ok().and_then(|value| negative(name, value));
                let number = digits.parse().ok().or_else(below).ok_or_else(|| {
                    miette!(help = "write it as in 6.12+base_slice_ns=3000000", "`{value}` is no whole number")
                })?;
                tunable(name, number, &mut parsed).map_err(|error| BadSetting::of(&error).report)?;
            }
        }
    }
    Ok(parsed)
}

fn scenario_kernel(scenario: Option<&Scenario>, named: &Spanned<String>) -> miette::Result<Kernel> {
    parse_kernel(&named.value).map_err(|report| match scenario {
        Some(scenario) => located(scenario, named.span.clone(), &report, "this kernel"),
        None => report,
    })
}

fn located(scenario: &Scenario, span: Range<usize>, report: &miette::Report, label: &str) -> miette::Report {
    let help = report.help().map(|help| help.to_string()).unwrap_or_default();
    scenario.error_at(span, &report.to_string(), label, &help).into()
}

fn profile_of(scenario: Option<&Scenario>, recording: Option<&Recording>, options: &Model) -> miette::Result<Profile> {
    let with_help = |error: vruntime_sim::UnknownCost| {
        miette!(help = format!("profiles are {}", Costs::PROFILES.join(", ")), "{error}")
    };
    if let Some(name) = &options.costs {
        return Profile::named(name).map_err(with_help);
    }
    if let Some(recording) = recording {
        return Profile::named(if recording.emulated { "emulated" } else { "vm" }).map_err(with_help);
    }
    let named = scenario.and_then(|scenario| Some((scenario, scenario.costs.as_ref()?.profile.as_ref()?)));
    let Some((scenario, named)) = named else { return Profile::named("default").map_err(with_help) };
    Profile::named(named).map_err(|error| located(scenario, named.span.clone(), &with_help(error), "this profile"))
}

fn scenario_settings(scenario: &Scenario, kernel: &mut Kernel, costs: &mut Costs) -> miette::Result<()> {
    for feature in &scenario.features {
        kernel
            .feature(feature)
            .map_err(|error| located(scenario, feature.span.clone(), &unknown(&error), "this feature"))?;
    }
    for setting in &scenario.set {
        let given = setting.value.value;
        let value = u64::try_from(given).ok().or_else(|| negative(&setting.name, given)).ok_or_else(|| {
            scenario.error_at(
                setting.value.span.clone(),
                "a negative value",
                "expected 0 or more",
                "leave the sign out",
            )
        })?;
        set(&setting.name, value, kernel, costs).map_err(|bad| {
            let span = if bad.by_value { &setting.value.span } else { &setting.name.span };
            located(scenario, span.clone(), &bad.report, bad.label)
        })?;
    }
    for setting in scenario.costs.iter().flat_map(|costs| &costs.values) {
        let value = setting.value.value.unsigned_abs();
        costs.set(&setting.name, value).map_err(|error| {
            let report = miette!(help = format!("costs are {}", Costs::NAMES.join(", ")), "{error}");
            located(scenario, setting.name.span.clone(), &report, "this cost")
        })?;
    }
    Ok(())
}

/// Sets a tunable of the kernel, or else a cost.
fn set(name: &str, value: u64, kernel: &mut Kernel, costs: &mut Costs) -> Result<(), BadSetting> {
    let not_tunable = match tunable(name, value, kernel) {
        Err(SettingError::Unknown(unknown)) => unknown,
        Err(error) => return Err(BadSetting::of(&error)),
        Ok(()) => return Ok(()),
    };
    let Err(not_cost) = costs.set(name, value) else { return Ok(()) };
    let nearest: Vec<String> =
        not_tunable.nearest.into_iter().chain(not_cost.nearest).map(|name| format!("`{name}`")).collect();
    let help = if nearest.is_empty() {
        format!("tunables are {}; costs are {}", not_tunable.known.join(", "), Costs::NAMES.join(", "))
    } else {
        format!("did you mean {}?", nearest.join(" or "))
    };
    let report = miette!(help = help, "there is no tunable or cost `{name}`");
    Err(BadSetting { report, label: "this name", by_value: false })
}

fn tunable(name: &str, value: u64, kernel: &mut Kernel) -> Result<(), SettingError> {
    kernel.takes(name, value)?;
    kernel.set(name, value).map_err(SettingError::Unknown)
}

/// A name and a value that cannot be set.
struct BadSetting {
    report: miette::Report,
    label: &'static str,
    /// Whether it is the value, not the name, that is wrong.
    by_value: bool,
}

impl BadSetting {
    fn of(error: &SettingError) -> Self {
        match error {
            SettingError::Unknown(name) => Self { report: unknown(name), label: "this name", by_value: false },
            SettingError::NotHere { name, has: (first, _), .. } => {
                let help = format!(
                    "leave it out, or choose a kernel that has it; among several kernels, one has it to itself with \
                     --kernel {first}+{name}=NUMBER; vruntime kernels --features KERNEL lists what each has"
                );
                Self { report: miette!(help = help, "{error}"), label: "not under this kernel", by_value: false }
            }
            SettingError::OutOfRange { range, .. } => {
                let help = format!("give a whole number from {} to {}", range.start(), range.end());
                Self { report: miette!(help = help, "{error}"), label: "out of its range", by_value: true }
            }
        }
    }
}

/// A wrong name with the nearest right one, or all of them.
pub(crate) fn unknown(error: &UnknownName) -> miette::Report {
    let help = match error.nearest {
        Some(nearest) if error.neighbours.is_some() => {
            format!("the nearest is {nearest}; there are {}", error.known.join(", "))
        }
        Some(nearest) => format!("did you mean `{nearest}`? there are {}", error.known.join(", ")),
        None => format!("there are {}", error.known.join(", ")),
    };
    let why = error.neighbours.map_or_else(String::new, |neighbours| format!(": {neighbours}"));
    miette!(help = help, "there is no {} `{}`{why}", error.kind, error.name)
}
