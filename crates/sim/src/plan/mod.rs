//! From a file to a run. The caller's overrides precede the file, the file the defaults.
//!
//! ```
//! use std::path::Path;
//!
//! use vruntime_sim::plan::{Input, Overrides, plan};
//! use vruntime_trace::Digest;
//! use vruntime_workload::scenario;
//!
//! let text = b"kernel = \"6.12\"\nmachine = \"2\"\nduration = \"1s\"\n[[task]]\nname = \"hog\"\ninstance = 3\nrun = \"1ms\"\n";
//! let no_files = &mut |path: &Path| Err(std::io::Error::other(format!("{} is not here", path.display())));
//! let scenario = scenario::parse("hogs.toml", text, &Default::default(), no_files)?;
//!
//! let older = Overrides { kernel: Some("6.1".to_owned()), ..Overrides::default() };
//! let planned = plan(Input::Scenario(&scenario), &older, no_files)?;
//! assert_eq!((planned.kernel.as_str(), planned.machine.as_str()), ("6.1", "2"));
//! let outcome = vruntime_sim::run(&scenario.workload, &planned.config, &mut Digest::default())?;
//! assert_eq!(outcome.end, 1_000_000_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod kernel;
mod machine;
mod note;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use vruntime_sched::kernels::Behaviour;
use vruntime_sched::{Kernel, Topology};
use vruntime_workload::recording::Recording;
use vruntime_workload::resident::Resident;
use vruntime_workload::scenario::{Loader, Preempt, Scenario};

pub use error::{Error, ErrorKind, Place};
pub use kernel::{parse_kernel, series};
pub use machine::Machine;
pub use note::{Given, Note, preempt_not_known};

use crate::config::{Config, MachineSpec};
use crate::costs::{Costs, Profile, SwitchCosts};
use crate::idle::IdleDepth;
use crate::stalls::Stall;

/// The newest long-term kernel in wide use.
pub const DEFAULT_KERNEL: &str = "6.12";

/// Large enough for most workloads, with one scheduling domain.
pub const DEFAULT_MACHINE: &str = "8";

/// Not 0: no real machine starts all tasks in one nanosecond and all ticks in step.
pub const DEFAULT_SEED: u64 = 1;

/// What is known of a workload besides its tasks.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Nothing: an rt-app file, a benchmark, or a hand-made workload.
    Tasks,
    /// A scenario.
    Scenario(&'a Scenario),
    /// A recording's metadata.
    Recording(&'a Recording),
    /// A trace of a machine.
    Trace(&'a Trace),
}

/// The ticks of a recorded machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// Ticks per second.
    pub hz: u32,
    /// Time from the trace's start to its first tick, less than a period, nanoseconds.
    pub phase_ns: u64,
}

impl Ticks {
    /// Returns the time from the last tick to `at`, which counts from the trace's start. Both are nanoseconds.
    pub fn since(&self, at: u64) -> u64 {
        let period = 1_000_000_000 / u64::from(self.hz.max(1));
        (at + period - self.phase_ns % period) % period
    }

    /// Returns the time from `at`, as in [`Self::since`], to the next tick.
    pub fn until(&self, at: u64) -> u64 {
        1_000_000_000 / u64::from(self.hz.max(1)) - self.since(at)
    }
}

/// What is known of a trace to replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The kernel for the replay.
    pub kernel: String,
    /// Its release (`uname -r`).
    pub release: Option<String>,
    /// Its number of CPUs.
    pub cpus: usize,
    /// Whether it certainly has autogroups.
    pub autogroup: bool,
    /// The recorded ticks, if known.
    pub ticks: Option<Ticks>,
    /// Costs that the work lacks, and that the replay charges. Default: none, so that the recorded ones are work.
    pub switch_costs: SwitchCosts,
}

impl<'a> Input<'a> {
    /// Returns the kernels that it names.
    pub fn kernels(self) -> Vec<String> {
        match self {
            Self::Tasks => Vec::new(),
            Self::Trace(trace) => vec![trace.kernel.clone()],
            Self::Scenario(scenario) => scenario.kernel.iter().map(|kernel| kernel.value.clone()).collect(),
            Self::Recording(recording) => vec![series(&recording.kernel)],
        }
    }

    /// Returns the release that it was recorded under.
    fn release(self) -> Option<&'a str> {
        match self {
            Self::Tasks | Self::Scenario(_) => None,
            Self::Recording(recording) => Some(recording.release()),
            Self::Trace(trace) => trace.release.as_deref(),
        }
    }

    fn scenario(self) -> Option<&'a Scenario> {
        if let Self::Scenario(scenario) = self { Some(scenario) } else { None }
    }

    fn recording(self) -> Option<&'a Recording> {
        if let Self::Recording(recording) = self { Some(recording) } else { None }
    }

    fn trace(self) -> Option<&'a Trace> {
        if let Self::Trace(trace) = self { Some(trace) } else { None }
    }
}

/// The caller's settings. The file, then the defaults, replace `None` and empty lists.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The kernel, for [`parse_kernel`].
    pub kernel: Option<String>,
    /// The machine, with its preemption model. Its autogroup setting does not precede the file's.
    pub machine: Option<Machine>,
    /// Ticks per second, 1..=10000.
    pub hz: Option<u32>,
    /// The preemption model.
    pub preempt: Option<Preempt>,
    /// See [`Config::seed`].
    pub seed: Option<u64>,
    /// The name of a cost [`Profile`].
    pub costs: Option<String>,
    /// Features by kernel name, after the file's. A prefix `NO_` disables one.
    pub features: Vec<String>,
    /// Tunables and single costs (nanoseconds) by name, after the file's.
    pub settings: Vec<(String, u64)>,
    /// See [`Config::gate`].
    pub gate: Option<bool>,
    /// See [`Config::autogroup`].
    pub autogroup: Option<bool>,
    /// Whether real-time tasks are scheduled by groups (CONFIG_RT_GROUP_SCHED).
    pub rt_group_sched: Option<bool>,
    /// See [`Kernel::group_switches`].
    pub group_switches: Option<bool>,
    /// See [`Config::threads_max`].
    pub threads_max: Option<usize>,
    /// The end, nanoseconds after the start.
    pub duration: Option<u64>,
}

/// A run to make, without its tasks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The kernel as written.
    pub kernel: String,
    /// The machine as written.
    pub machine: String,
    /// Whether the machine is the default.
    pub machine_by_default: bool,
    /// The configuration for [`run`](crate::run).
    pub config: Config,
    /// The cost profile's name; `measured` for a measured machine.
    pub costs: &'static str,
    /// Notes for the user before the run.
    pub notes: Vec<Note>,
}

/// Plans a run. `loader` reads an `lstopo` file that a scenario names, as for [`scenario::parse`].
///
/// [`scenario::parse`]: vruntime_workload::scenario::parse
///
/// # Errors
///
/// If the kernel, a feature, a tunable or a cost does not exist, or the kernel refuses a value. If the scenario's
/// machine is impossible or lacks a CPU of the scenario. Errors in a scenario have a place.
pub fn plan(input: Input<'_>, overrides: &Overrides, loader: &mut Loader<'_>) -> Result<Plan, Error> {
    Planner { input, overrides, notes: Vec::new() }.plan(loader)
}

struct Planner<'a> {
    input: Input<'a>,
    overrides: &'a Overrides,
    notes: Vec<Note>,
}

struct Charges {
    profile: &'static str,
    costs: Costs,
    idle_depths: Vec<IdleDepth>,
    stalls: Option<Stall>,
}

impl Planner<'_> {
    fn plan(mut self, loader: &mut Loader<'_>) -> Result<Plan, Error> {
        let chosen = machine::choose(self.input, self.overrides.machine.as_ref(), loader)?;
        let machine::Chosen { name: machine, by_default: machine_by_default, mut spec, ignored } = chosen;
        self.notes.extend(ignored.into_iter().map(Note::MachineIgnored));
        if self.has_unused_smt_speedup(&spec.topology) {
            self.notes.push(Note::NoSiblings);
        }
        spec.hz = self.hz().unwrap_or(spec.hz);
        let (kernel_name, mut kernel) = self.kernel()?;
        let mut charges = self.charges(&spec)?;
        if let Some(trace) = self.input.trace() {
            charges.costs = charges.costs.of_replay(trace.switch_costs);
        }
        self.settings(&mut kernel, &mut charges.costs)?;
        let scenario = self.input.scenario();
        let switched = |over: Option<bool>, of_file: Option<bool>| over.or(of_file).unwrap_or(false);
        kernel.rt_group_sched = switched(self.overrides.rt_group_sched, scenario.and_then(|s| s.rt_group_sched));
        kernel.group_switches = switched(self.overrides.group_switches, scenario.and_then(|s| s.group_switches));
        spec.residents = self.residents(&spec);
        (spec.costs, spec.idle_depths, spec.stalls) = (charges.costs, charges.idle_depths, charges.stalls);
        let autogroup = self.autogroup(&kernel);
        let preempt = self.preempt(&kernel);
        let mut config = Config::new(kernel, spec);
        config.seed = self.overrides.seed.or(scenario.and_then(|s| s.seed)).unwrap_or(DEFAULT_SEED);
        config.tick_phase = self.tick_phase(&config.machine);
        let of_file = scenario.and_then(|s| s.gate).unwrap_or(self.input.recording().is_some());
        config.gate = self.overrides.gate.unwrap_or(of_file);
        config.autogroup = autogroup;
        let threads_max = self.overrides.threads_max.or(scenario.and_then(|s| s.threads_max));
        config.threads_max = threads_max.unwrap_or(config.threads_max);
        config.preempt = preempt;
        config.duration = self.overrides.duration;
        Ok(Plan { kernel: kernel_name, machine, machine_by_default, config, costs: charges.profile, notes: self.notes })
    }

    /// Whether the scenario sets the speed of two threads of a core, without such cores.
    fn has_unused_smt_speedup(&self, topology: &Topology) -> bool {
        let own = self.input.scenario().filter(|_| self.overrides.machine.is_none()).and_then(|it| it.machine.as_ref());
        let cores: BTreeSet<u32> = topology.cpus().iter().map(|cpu| cpu.core).collect();
        own.is_some_and(|machine| machine.smt_speedup_permille.is_some()) && cores.len() == topology.nr_cpus()
    }

    fn machine(&self) -> Option<&Machine> {
        self.overrides.machine.as_ref()
    }

    fn hz(&self) -> Option<u32> {
        (self.overrides.hz)
            .or(self.machine().and_then(|machine| machine.hz))
            .or(self.input.scenario().and_then(|scenario| scenario.hz))
            .or(self.input.recording().map(|recording| recording.hz))
            .or(self.input.trace().and_then(|trace| Some(trace.ticks?.hz)))
    }

    fn kernel(&mut self) -> Result<(String, Kernel), Error> {
        let (name, parsed) = match (&self.overrides.kernel, self.input.scenario()) {
            (Some(name), _) => (name.clone(), parse_kernel(name)?),
            (None, Some(Scenario { kernel, source, .. })) if !kernel.is_empty() => {
                let parsed = parse_kernel(&kernel[0]).map_err(|error| error.at(source, &kernel[0].span, "this kernel"));
                (kernel[0].value.clone(), parsed?)
            }
            (None, _) => {
                let named = self.input.kernels().into_iter().next();
                let name = named.unwrap_or_else(|| DEFAULT_KERNEL.to_owned());
                let parsed = parse_kernel(&name)?;
                self.notes.extend(self.input.release().and_then(note::of_distribution));
                (name, parsed)
            }
        };
        let (mut kernel, notes) = parsed;
        self.notes.extend(notes);
        // A requested release precedes the recorded one.
        if let (Some(release), true) = (self.input.release(), name.split('+').next() == Some(kernel.name)) {
            let usual = kernel.behaviours;
            kernel.as_of(release);
            // A release that differs from its series has its own name.
            if self.input.trace().is_some() && name == kernel.name && kernel.behaviours != usual {
                return Ok((release.to_owned(), kernel));
            }
        }
        Ok((name, kernel))
    }

    fn profile(&self) -> Result<Profile, Error> {
        let named = |name: &str| Profile::named(name).map_err(|error| Error::from(ErrorKind::Profile(error)));
        if let Some(name) = &self.overrides.costs {
            return named(name);
        }
        if let Some(recording) = self.input.recording() {
            return named(if recording.emulated { "emulated" } else { "vm" });
        }
        let profile =
            self.input.scenario().and_then(|scenario| Some((scenario, scenario.costs.as_ref()?.profile.as_ref()?)));
        let Some((scenario, name)) = profile else { return named("default") };
        named(name).map_err(|error| error.at(&scenario.source, &name.span, "this profile"))
    }

    fn charges(&self, spec: &MachineSpec) -> Result<Charges, Error> {
        let Profile { name, costs, idle_depths, stalls } = self.profile()?;
        let mut charges = Charges { profile: name, costs, idle_depths: idle_depths.to_vec(), stalls };
        let machine = self.machine();
        if let (Some(Machine { costs: Some(costs), stalls, .. }), None) = (machine, &self.overrides.costs) {
            charges = Charges { profile: "measured", costs: costs.clone(), idle_depths: Vec::new(), stalls: *stalls };
        }
        match machine {
            // Measurements of this machine, and specified idle states, precede the profile's.
            Some(machine) if !machine.idle_depths.is_empty() => charges.idle_depths.clone_from(&machine.idle_depths),
            _ if !spec.idle_states.is_empty() => charges.idle_depths.clear(),
            _ => {}
        }
        Ok(charges)
    }

    fn settings(&mut self, kernel: &mut Kernel, costs: &mut Costs) -> Result<(), Error> {
        if let Some(scenario) = self.input.scenario() {
            kernel::set_as_in(scenario, kernel, costs)?;
        }
        let Overrides { features, settings, .. } = self.overrides;
        note::overridden(
            features,
            |name| kernel::without_no(name),
            |name| Given::Feature(name.clone()),
            &mut self.notes,
        );
        for name in features {
            self.notes.extend(note::of_unchanged(name, kernel));
            kernel.feature(name).map_err(ErrorKind::Unknown)?;
            self.notes.extend(note::of_feature(name, kernel));
        }
        kernel::checked(kernel)?;
        let given = |(name, value): &(String, u64)| Given::Setting(name.clone(), *value);
        note::overridden(settings, |(name, _)| name, given, &mut self.notes);
        for (name, value) in settings {
            if kernel::is_autogroup(name) && kernel.behaviours.has(Behaviour::Autogroups) {
                kernel::autogroup_set_to(*value)?;
                continue;
            }
            kernel::set(name, *value, kernel, costs)?;
        }
        kernel::check_realtime(kernel)
    }

    fn residents(&mut self, spec: &MachineSpec) -> Option<Vec<Resident>> {
        if self.input.trace().is_some() {
            // A trace already contains them.
            return None;
        }
        let measured = self.machine().and_then(|machine| machine.residents.clone());
        let residents = measured.or_else(|| self.input.recording().and_then(|it| it.residents(spec.host_cpus)))?;
        let here = |cpu: &u32| (*cpu as usize) < spec.topology.nr_cpus();
        let lost =
            residents.iter().filter(|resident| resident.cpus.as_ref().is_some_and(|cpus| !cpus.iter().any(here)));
        self.notes.extend(lost.map(|resident| Note::LeftOut { resident: resident.name.clone() }));
        Some(residents)
    }

    fn autogroup(&self, kernel: &Kernel) -> bool {
        let of_trace =
            self.input.trace().filter(|trace| trace.autogroup).map(|_| kernel.behaviours.has(Behaviour::Autogroups));
        let of_file = self.input.scenario().into_iter().flat_map(|scenario| &scenario.set);
        let of_file = of_file.map(|set| (set.name.as_str(), set.value.value == 1));
        let given = self.overrides.settings.iter().map(|(name, value)| (name.as_str(), *value == 1));
        let set = of_file.chain(given).rfind(|(name, _)| kernel::is_autogroup(name)).map(|(_, on)| on);
        set.or(self.overrides.autogroup)
            .or(self.input.scenario().and_then(|scenario| scenario.autogroup))
            .or(self.input.recording().map(|recording| recording.autogroup))
            .or(of_trace)
            .or(self.machine().and_then(|machine| machine.autogroup))
            .unwrap_or(false)
    }

    /// A trace has the times at which ticks were charged, not due.
    fn tick_phase(&self, spec: &MachineSpec) -> Option<u64> {
        let ticks = self.input.trace()?.ticks.filter(|ticks| ticks.hz == spec.hz)?;
        let (period, late) = (1_000_000_000 / u64::from(ticks.hz), spec.costs.irq_latency_ns);
        Some((ticks.phase_ns + period - late % period) % period)
    }

    fn preempt(&mut self, kernel: &Kernel) -> Preempt {
        let chosen = self.overrides.preempt.or(self.machine().and_then(|machine| machine.preempt));
        if let (Some(recording), None) = (self.input.recording(), chosen) {
            self.notes.extend(preempt_not_known(recording, kernel));
        }
        let chosen = chosen
            .or(self.input.scenario().and_then(|scenario| scenario.preempt))
            .or(self.input.recording().and_then(|recording| Preempt::from_name(recording.preempt.as_deref()?)));
        self.notes.extend(chosen.and_then(|model| note::preempt_not_here(model, kernel)));
        chosen.unwrap_or_default()
    }
}
