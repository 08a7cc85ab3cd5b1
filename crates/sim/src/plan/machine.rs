//! The machine of a plan: the caller's, the file's, or the default.

use std::ops::Range;

use vruntime_sched::Topology;
use vruntime_sched::energy::{EnergyModel, PerfDomain, PerfState};
use vruntime_sched::ids::CpuId;
use vruntime_workload::Source;
use vruntime_workload::resident::Resident;
use vruntime_workload::scenario::{self, FrequencyTable, IdleTable, Loader, Preempt, Scenario, Spanned};

use super::error::{Error, ErrorKind};
use super::{DEFAULT_MACHINE, Input};
use crate::config::MachineSpec;
use crate::costs::Costs;
use crate::frequency::{Frequencies, FrequencyDomain, Governor};
use crate::idle::{self, IdleDepth, IdleState};
use crate::stalls::Stall;
use crate::topology::{
    self, EXAMPLES, Lstopo, ParseTopologyError, parse_topology, read_lstopo, with_capacities, with_distances,
};

/// A machine, as described or measured.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The description.
    pub name: String,
    /// The CPUs' topology and capacities.
    pub topology: Topology,
    /// Changeable frequencies. A trace is replayed at the highest, in which its work is counted.
    pub frequencies: Option<Frequencies>,
    /// The energy model.
    pub energy: Option<EnergyModel>,
    /// Ticks per second.
    pub hz: Option<u32>,
    /// The preemption model.
    pub preempt: Option<Preempt>,
    /// See [`Config::autogroup`](crate::Config::autogroup).
    pub autogroup: Option<bool>,
    /// The kernel's costs. The caller's profile precedes them.
    pub costs: Option<Costs>,
    /// Additional wakeup latencies by idle time. Empty: the profile's.
    pub idle_depths: Vec<IdleDepth>,
    /// Moments in which the host keeps CPUs from the machine. Only with `costs`.
    pub stalls: Option<Stall>,
    /// Measured background tasks. `None`: the costs' kernel threads.
    pub residents: Option<Vec<Resident>>,
    /// Parts of the description that the simulator ignores, a sentence each.
    pub ignored: Vec<String>,
}

impl Machine {
    /// Returns a machine without other known properties.
    pub fn new(name: &str, topology: Topology) -> Self {
        Self {
            name: name.to_owned(),
            topology,
            frequencies: None,
            energy: None,
            hz: None,
            preempt: None,
            autogroup: None,
            costs: None,
            idle_depths: Vec::new(),
            stalls: None,
            residents: None,
            ignored: Vec::new(),
        }
    }

    /// Completes a machine with values of the recorded one. Measured costs and stalls stay together.
    #[must_use]
    pub fn completed_by(self, recorded: &Self) -> Self {
        let measured = self.costs.is_some();
        Self {
            hz: self.hz.or(recorded.hz),
            preempt: self.preempt.or(recorded.preempt),
            stalls: if measured { self.stalls } else { recorded.stalls },
            idle_depths: if measured || !self.idle_depths.is_empty() {
                self.idle_depths
            } else {
                recorded.idle_depths.clone()
            },
            costs: self.costs.or_else(|| recorded.costs.clone()),
            ..self
        }
    }

    /// Reads a machine in one line: an [example](EXAMPLES)'s name, or text for [`parse_topology`].
    ///
    /// ```
    /// use vruntime_sim::plan::Machine;
    ///
    /// assert_eq!(Machine::described("laptop")?.topology.nr_cpus(), 8);
    /// assert_eq!(Machine::described("pack:2 core:4")?.topology.nr_cpus(), 8);
    /// assert_eq!(Machine::described("laptopp").unwrap_err().help(), "did you mean `laptop`?");
    /// # Ok::<(), vruntime_sim::plan::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it is neither, with the place in the line.
    pub fn described(text: &str) -> Result<Self, Error> {
        let known = topology::example(text).map_or(text, |example| example.topology);
        let topology = parse_topology(known).map_err(|error| unreadable(error, "machine", text))?;
        Ok(Self { ignored: topology::ignored_indexes(known).into_iter().collect(), ..Self::new(text, topology) })
    }

    /// Reads a machine from an `lstopo` file. Messages call it `name`.
    ///
    /// # Errors
    ///
    /// As [`read_lstopo`], with the place in the file.
    pub fn from_lstopo(name: &str, text: &str) -> Result<Self, Error> {
        let Lstopo { topology, notes } = read_lstopo(text).map_err(|error| unreadable(error, name, text))?;
        Ok(Self { ignored: notes, ..Self::new(name, topology) })
    }
}

/// Adds the place to the error, and a similar example.
fn unreadable(error: ParseTopologyError, name: &str, text: &str) -> Error {
    let error = meant(error, text);
    let end = text.len();
    let start = error.offset.min(end);
    let span = start..(start + error.len).min(end);
    Error::from(ErrorKind::Topology(error)).at(&Source::new(name, text), &span, "here")
}

fn meant(mut error: ParseTopologyError, text: &str) -> ParseTopologyError {
    let names: Vec<&str> = EXAMPLES.iter().map(|example| example.name).collect();
    // A single word that is no description is probably a misspelt name.
    let word = text.trim();
    let looks_like_name = !word.contains([':', ' ', ',', '=', '<']) && word.parse::<u64>().is_err();
    match names.iter().find(|name| looks_like_name && alike(name, word)) {
        Some(name) => error.help = format!("did you mean `{name}`?"),
        None if looks_like_name => {
            error.help = format!("{}, or name one of the examples: {}", error.help, names.join(", "));
        }
        None => {}
    }
    error
}

fn alike(name: &str, word: &str) -> bool {
    name.chars().zip(word.chars()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count() >= 3
}

pub(super) struct Chosen {
    pub(super) name: String,
    pub(super) by_default: bool,
    pub(super) spec: MachineSpec,
    pub(super) ignored: Vec<String>,
}

impl Chosen {
    fn new(machine: Machine) -> Self {
        let spec = MachineSpec::new(machine.topology);
        Self { name: machine.name, by_default: false, spec, ignored: machine.ignored }
    }
}

pub(super) fn choose(input: Input<'_>, over: Option<&Machine>, loader: &mut Loader<'_>) -> Result<Chosen, Error> {
    let chosen = match (over, input) {
        (Some(machine), _) => {
            let mut chosen = Chosen::new(machine.clone());
            chosen.spec.energy.clone_from(&machine.energy);
            if !matches!(input, Input::Trace(_)) {
                chosen.spec.frequencies.clone_from(&machine.frequencies);
            }
            chosen
        }
        (None, Input::Trace(trace)) => Chosen::new(Machine::described(&trace.cpus.to_string())?),
        (None, Input::Recording(recording)) => {
            let mut chosen = Chosen::new(Machine::described(&recording.topology.to_hwloc())?);
            // The recorder asked for the shortest slack.
            chosen.spec.timer_slack_ns = 1;
            if recording.emulated {
                // All emulated recordings were made on two host CPUs.
                chosen.spec.host_cpus = Some(2);
            }
            chosen
        }
        (None, Input::Scenario(scenario @ Scenario { machine: Some(machine), .. })) => {
            Described { scenario, machine }.choose(loader)?
        }
        (None, Input::Tasks | Input::Scenario(_)) => {
            Chosen { by_default: true, ..Chosen::new(Machine::described(DEFAULT_MACHINE)?) }
        }
    };
    if let Input::Scenario(scenario) = input {
        let cpus = chosen.spec.topology.nr_cpus();
        scenario.cpus.iter().try_for_each(|named| exists(scenario, named, cpus))?;
    }
    Ok(chosen)
}

fn exists(scenario: &Scenario, named: &Spanned<Vec<u32>>, cpus: usize) -> Result<(), Error> {
    let Some(&cpu) = named.value.iter().find(|&&cpu| cpu as usize >= cpus) else { return Ok(()) };
    Err(Error::from(ErrorKind::NoSuchCpu { cpu, cpus }).at(&scenario.source, &named.span, "among these"))
}

#[derive(Clone, Copy)]
struct Described<'a> {
    scenario: &'a Scenario,
    machine: &'a scenario::Machine,
}

impl Described<'_> {
    fn error(self, kind: ErrorKind, span: &Range<usize>, label: &'static str) -> Error {
        Error::from(kind).at(&self.scenario.source, span, label)
    }

    fn choose(self, loader: &mut Loader<'_>) -> Result<Chosen, Error> {
        let Self { scenario, machine } = self;
        let mut chosen = Chosen::new(self.shape(loader)?);
        let spec = &mut chosen.spec;
        let cpus = spec.topology.nr_cpus();
        spec.host_cpus = machine.host_cpus;
        if let Some(speedup) = machine.smt_speedup_permille {
            // The file has both threads' speed together, the machine each one's.
            spec.smt_speed_permille = speedup.div_ceil(2);
        }
        spec.frequencies = self.frequencies(&spec.topology)?;
        spec.energy = self.energy(&spec.topology)?;
        let state = |table: &Spanned<IdleTable>| IdleState {
            name: table.value.name.clone(),
            exit_latency_ns: table.value.exit_latency_ns,
            target_residency_ns: table.value.residency_ns,
        };
        spec.idle_states = machine.idle_states.iter().map(state).collect();
        if let Some(first) = machine.idle_states.first() {
            idle::check(&spec.idle_states)
                .map_err(|error| self.error(ErrorKind::IdleStates(error), &first.span, "here"))?;
        }
        if let Some(isolated) = &machine.isolated {
            exists(scenario, isolated, cpus)?;
            spec.isolated = isolated.value.iter().copied().map(CpuId).collect();
            if spec.isolated.count() == cpus {
                return Err(self.error(ErrorKind::AllIsolated, &isolated.span, "these are all there are"));
            }
        }
        Ok(chosen)
    }

    /// Returns an error at a description's faulty part, if the scenario contains it literally.
    fn unreadable(self, error: ParseTopologyError, text: &Spanned<String>) -> Error {
        let start = text.span.start + 1 + error.offset;
        let part = start..start + error.len;
        let written = self.scenario.source.text().get(text.span.start + 1..text.span.end.saturating_sub(1));
        if written == Some(text.value.as_str()) && error.len > 0 && part.end < text.span.end {
            return self.error(ErrorKind::Topology(error), &part, "here");
        }
        self.error(ErrorKind::Topology(error), &text.span, "this machine")
    }

    fn shape(self, loader: &mut Loader<'_>) -> Result<Machine, Error> {
        let scenario::Machine { lstopo, topology, capacities, node_distances, .. } = self.machine;
        let mut shape = match (lstopo, topology) {
            (Some(path), _) => {
                let bytes = loader(&path.value).map_err(|error| {
                    let kind = ErrorKind::Unreadable { file: path.value.clone(), why: error.to_string() };
                    self.error(kind, &path.span, "this file")
                })?;
                Machine::from_lstopo(&path.value.display().to_string(), &String::from_utf8_lossy(&bytes))?
            }
            (None, Some(text)) => {
                let known = topology::example(text).map_or(text.value.as_str(), |example| example.topology);
                let parsed = parse_topology(known).map_err(|error| self.unreadable(meant(error, text), text))?;
                if let Some(capacities) =
                    capacities.as_ref().filter(|_| parsed.cpus().iter().any(|c| c.capacity != 1024))
                {
                    let help = "keep the list, or the `capacity=` of the description";
                    let message = "capacities are given twice, by `topology` and by `capacities`";
                    let error =
                        ParseTopologyError { offset: 0, len: 0, message: message.to_owned(), help: help.to_owned() };
                    return Err(self.error(ErrorKind::Topology(error), &capacities.span, "these, and others above"));
                }
                let ignored = topology::ignored_indexes(known).into_iter().collect();
                Machine { ignored, ..Machine::new(text, parsed) }
            }
            (None, None) => match capacities {
                Some(capacities) => Machine::described(&capacities.value.len().to_string())?,
                None => Machine::described(DEFAULT_MACHINE)?,
            },
        };
        if let Some(capacities) = capacities {
            shape.topology = with_capacities(&shape.topology, &capacities.value)
                .map_err(|error| self.error(ErrorKind::Topology(error), &capacities.span, "these capacities"))?;
        }
        if let Some(distances) = node_distances {
            shape.topology = with_distances(&shape.topology, &distances.value)
                .map_err(|error| self.error(ErrorKind::Topology(error), &distances.span, "these distances"))?;
        }
        Ok(shape)
    }

    fn frequencies(self, topology: &Topology) -> Result<Option<Frequencies>, Error> {
        let Some(name) = &self.machine.governor else { return Ok(None) };
        let tables = &self.machine.frequencies;
        let governor = Governor::from_name(&name.value)
            .map_err(|error| self.error(ErrorKind::Frequency(error), &name.span, "here"))?;
        let mut frequencies = Frequencies::by_core(topology, governor);
        if let Some(limit) = self.machine.rate_limit_ns {
            frequencies.rate_limit_ns = limit;
        }
        if !tables.is_empty() {
            let domain = |table: &Spanned<FrequencyTable>| FrequencyDomain {
                cpus: table.value.cpus.clone(),
                khz: table.value.khz.clone(),
                transition_ns: table.value.transition_ns.unwrap_or(Frequencies::DEFAULT_TRANSITION_NS),
            };
            frequencies.domains = tables.iter().map(domain).collect();
        }
        let span = tables.first().map_or(&name.span, |first| &first.span);
        let fits = frequencies.check(topology.nr_cpus());
        fits.map_err(|error| self.error(ErrorKind::Frequency(error), span, "here"))?;
        Ok(Some(frequencies))
    }

    /// Returns the energy model, if the file has all clocks' power.
    fn energy(self, topology: &Topology) -> Result<Option<EnergyModel>, Error> {
        let tables = &self.machine.frequencies;
        let knows = |table: &&Spanned<FrequencyTable>| !table.value.power_uw.is_empty();
        let Some(first) = tables.iter().find(knows) else { return Ok(None) };
        if let Some(table) = tables.iter().find(|table| !knows(table)) {
            return Err(self.error(ErrorKind::NoPower, &table.span, "here"));
        }
        let domain = |table: &Spanned<FrequencyTable>| {
            let states = table.value.khz.iter().zip(&table.value.power_uw);
            let states = states.map(|(&khz, &power_uw)| PerfState { khz, power_uw }).collect();
            PerfDomain { cpus: table.value.cpus.clone(), states }
        };
        let model = EnergyModel { domains: tables.iter().map(domain).collect() };
        model.check(topology).map_err(|error| self.error(ErrorKind::Energy(error), &first.span, "here"))?;
        Ok(Some(model))
    }
}
