//! Reads LISA's descriptions of machines (`plat_info.yml`): capacities, clock domains (used as caches), frequencies,
//! energy models (`nrg-model`).

use std::collections::{BTreeMap, BTreeSet};

use vruntime_sched::energy::{EnergyModel, PerfDomain, PerfState};
use vruntime_sched::{CpuPlace, Topology};
use vruntime_sim::frequency::{Frequencies, FrequencyDomain, Governor};
use vruntime_workload::Source;
use yaml_rust2::parser::{Event, EventReceiver, Parser};

use crate::Error;

#[derive(Debug, Default)]
struct Found {
    capacities: BTreeMap<u32, u32>,
    /// Clock domains by CPU.
    domains: BTreeMap<u32, u32>,
    /// Frequencies by CPU, kHz.
    khz: BTreeMap<u32, BTreeSet<u32>>,
    /// Power by CPU and frequency, microwatts.
    power: BTreeMap<u32, BTreeMap<u32, u64>>,
    /// The current node of the energy model: its path, and the power read so far.
    node: (Vec<String>, BTreeMap<u32, u64>),
    path: Vec<Place>,
}

#[derive(Debug)]
enum Place {
    /// In a mapping, at this key. None before the key.
    Key(Option<String>),
    /// In a list, at this entry.
    Entry(u32),
}

impl Found {
    /// Returns a CPU's highest frequency, kHz; 0 if unknown.
    fn highest(&self, cpu: u32) -> u32 {
        self.khz.get(&cpu).and_then(BTreeSet::last).copied().unwrap_or(0)
    }

    fn next(&mut self) {
        match self.path.last_mut() {
            Some(Place::Key(key)) => *key = None,
            Some(Place::Entry(index)) => *index += 1,
            None => {}
        }
    }

    fn scalar(&mut self, text: String) {
        if let Some(Place::Key(key @ None)) = self.path.last_mut() {
            *key = Some(text);
            return;
        }
        let key = |place: &Place| match place {
            Place::Key(key) => key.clone().unwrap_or_default(),
            Place::Entry(index) => index.to_string(),
        };
        let path: Vec<String> = self.path.iter().map(key).collect();
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        match names[..] {
            [.., "cpu-capacities", "orig" | "rtapp", cpu] | [.., "cpu-capacities", cpu] => {
                // Measured capacities take precedence over the firmware's.
                if let (Ok(cpu), Ok(capacity)) = (cpu.parse(), text.parse()) {
                    if names.contains(&"rtapp") {
                        self.capacities.insert(cpu, capacity);
                    } else {
                        self.capacities.entry(cpu).or_insert(capacity);
                    }
                }
            }
            [.., "freq-domains", domain, _] => {
                if let (Ok(domain), Ok(cpu)) = (domain.parse(), text.parse()) {
                    self.domains.insert(cpu, domain);
                }
            }
            [.., "freqs", cpu, _] => {
                if let (Ok(cpu), Ok(khz)) = (cpu.parse(), text.parse()) {
                    self.khz.entry(cpu).or_default().insert(khz);
                }
            }
            // Capacity and power, usually in mW. Only proportions matter.
            [ref node @ .., "active_states", _, khz, "1"] => {
                if let (Ok(khz), Ok(mw)) = (khz.parse(), text.parse::<f64>())
                    && (1e-3..=1e6).contains(&mw)
                {
                    if self.node.0 != *node {
                        self.node = (node.iter().map(|&name| name.to_owned()).collect(), BTreeMap::new());
                    }
                    self.node.1.insert(khz, (mw * 1000.0).round() as u64);
                }
            }
            // The node's CPU follows.
            [ref node @ .., "cpu"] if self.node.0 == *node && !self.node.1.is_empty() => {
                if let Ok(cpu) = text.parse() {
                    self.power.insert(cpu, std::mem::take(&mut self.node.1));
                }
            }
            _ => {}
        }
        self.next();
    }
}

impl EventReceiver for Found {
    // Events instead of a document: nested aliases are never expanded.
    fn on_event(&mut self, event: Event) {
        match event {
            Event::MappingStart(..) => self.path.push(Place::Key(None)),
            Event::SequenceStart(..) => self.path.push(Place::Entry(0)),
            Event::MappingEnd | Event::SequenceEnd => {
                self.path.pop();
                self.next();
            }
            Event::Scalar(text, ..) => self.scalar(text),
            Event::Alias(_) => self.next(),
            _ => {}
        }
    }
}

/// A described machine.
#[derive(Debug)]
pub struct PlatInfo {
    /// The CPUs.
    pub topology: Topology,
    /// Highest frequency of each CPU, kHz; 0 if unknown.
    pub highest_khz: Vec<u32>,
    /// The clocks. None unless all frequencies are known.
    pub clocks: Option<Clocks>,
}

/// A machine's clocks.
#[derive(Debug)]
pub struct Clocks {
    /// Frequencies under schedutil. The file names no governor, and an energy model requires schedutil.
    pub frequencies: Frequencies,
    /// Power at each frequency. None unless complete.
    pub energy: Option<EnergyModel>,
}

impl PlatInfo {
    /// Reads a description. `name` is for messages.
    ///
    /// # Errors
    /// If it is no YAML, lacks a CPU's capacity, or describes an impossible machine.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let found = found(name, text)?;
        let topology = topology(name, &found)?;
        let highest_khz = (0..topology.nr_cpus() as u32).map(|cpu| found.highest(cpu)).collect();
        let clocks = clocks(name, &found, &topology)?;
        Ok(Self { topology, highest_khz, clocks })
    }
}

fn clocks(name: &str, found: &Found, topology: &Topology) -> Result<Option<Clocks>, Error> {
    let mut cpus: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (cpu, place) in topology.cpus().iter().enumerate() {
        cpus.entry(place.cluster).or_default().push(cpu as u32);
    }
    let (mut domains, mut model) = (Vec::new(), EnergyModel { domains: Vec::new() });
    for cpus in cpus.into_values() {
        let Some(khz) = found.khz.get(&cpus[0]) else { return Ok(None) };
        if let Some(power) = found.power.get(&cpus[0]) {
            let state = |khz: &u32| Some(PerfState { khz: *khz, power_uw: *power.get(khz)? });
            if let Some(states) = khz.iter().map(state).collect() {
                model.domains.push(PerfDomain { cpus: cpus.clone(), states });
            }
        }
        let khz: Vec<u32> = khz.iter().copied().collect();
        domains.push(FrequencyDomain { cpus, khz, transition_ns: Frequencies::DEFAULT_TRANSITION_NS });
    }
    let help = "expected `freqs:` with the frequencies of each CPU in kHz, and `nrg-model:` with the power at each frequency, as LISA writes";
    let wrong = |error: &dyn std::fmt::Display| Error::new(format!("{name}: {error}")).with_help(help);
    let energy = (model.domains.len() == domains.len()).then_some(model);
    let frequencies =
        Frequencies { governor: Governor::Schedutil, rate_limit_ns: Frequencies::DEFAULT_RATE_LIMIT_NS, domains };
    frequencies.check(topology.nr_cpus()).map_err(|error| wrong(&error))?;
    if let Some(energy) = &energy {
        energy.check(topology).map_err(|error| wrong(&error))?;
    }
    Ok(Some(Clocks { frequencies, energy }))
}

fn found(name: &str, text: &str) -> Result<Found, Error> {
    let mut found = Found::default();
    Parser::new_from_str(text).load(&mut found, false).map_err(|error| {
        // In characters.
        let at = text.char_indices().nth(error.marker().index()).map_or(text.len(), |(at, _)| at);
        let message = format!("{name} is no YAML: {error}");
        Source::new(name, text).error_at(at..at, &message, "here", "a plat_info.yml of LISA was expected")
    })?;
    Ok(found)
}

fn topology(name: &str, found: &Found) -> Result<Topology, Error> {
    let count = found.capacities.len() as u32;
    let help =
        "expected `cpu-capacities:` with a capacity of 1 to 1024 for each CPU from 0 on, as in LISA's plat_info.yml";
    let Some((cpus, first)) = found.capacities.keys().max().map(|last| (last + 1, found.capacities.contains_key(&0)))
    else {
        return Err(Error::new(format!("{name} has no capacities of CPUs")).with_help(help));
    };
    if cpus != count || !first {
        let message = format!("{name} has capacities of {count} CPUs, but not of all from 0 to {}", cpus - 1);
        return Err(Error::new(message).with_help(help));
    }
    if let Some((cpu, capacity)) = found.capacities.iter().find(|(_, capacity)| !(1..=1024).contains(*capacity)) {
        return Err(Error::new(format!("{name} gives CPU {cpu} a capacity of {capacity}")).with_help(help));
    }
    let place = |(&cpu, &capacity): (&u32, &u32)| {
        // Without a clock domain: a cluster of its own, after the described ones.
        let cluster = found.domains.get(&cpu).copied().unwrap_or(cpus + cpu);
        CpuPlace { core: cpu, cluster, llc: cluster, package: 0, node: 0, capacity }
    };
    Topology::new(found.capacities.iter().map(place).collect(), None)
        .map_err(|error| Error::new(format!("{name} describes no machine: {error}")).with_help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUNO: &str = "platform-info:\n    conf:\n        cpu-capacities:\n            orig:\n                0: 446\n                1: 1024\n\
        \x20               2: 446\n        freq-domains:\n        -   - 0\n            - 2\n        -   - 1\n        name: !!python/tuple &a\n\
        \x20       - *a\n        freqs:\n            0:\n            - 450000\n            - 850000\n            1: [1100000, 800000]\n";

    fn parse(name: &str, text: &str) -> Result<Topology, Error> {
        topology(name, &found(name, text)?)
    }

    #[test]
    fn the_highest_frequencies() {
        let found = found("juno.yml", JUNO).unwrap();
        assert_eq!([0, 1, 2].map(|cpu| found.highest(cpu)), [850_000, 1_100_000, 0]);
    }

    /// As LISA writes it: nested nodes with the CPU last.
    const POWER: &str = "\
conf:
    cpu-capacities: {0: 446, 1: 1024, 2: 446}
    freq-domains: [[0, 2], [1]]
    freqs: {0: [450000, 850000], 1: [450000, 850000], 2: [450000, 850000]}
    nrg-model: !!python/object:lisa.energy_model.EnergyModel
        cpu_nodes:
        - &id001 !!python/object:lisa.energy_model.EnergyModelNode
            active_states: !!omap
            -   450000: !!python/object/new:lisa.energy_model.ActiveState
                - 236.1
                - 42
            -   850000: !!python/object/new:lisa.energy_model.ActiveState
                - 446.0
                - HIGH
            cpu: 0
            parent: !!python/object:lisa.energy_model.EnergyModelRoot
                active_states: null
                children:
                - *id001
                - !!python/object:lisa.energy_model.EnergyModelNode
                    active_states: !!omap
                    -   450000: [418.9, 160]
                    -   850000: [1024.0, 583]
                    cpu: 1
        - !!python/object:lisa.energy_model.EnergyModelNode
            active_states: !!omap
            -   450000: [236.1, 42]
            -   850000: [446.0, HIGH]
            cpu: 2
";

    #[test]
    fn what_cpus_take() {
        let text = |mw: &str| POWER.replace("HIGH", mw);
        let clocks = |text: &str| {
            let found = found("juno.yml", text)?;
            clocks("juno.yml", &found, &topology("juno.yml", &found)?)
        };
        let known = clocks(&text("118.5")).unwrap().expect("it has frequencies");
        let power = |domain: &PerfDomain| (domain.cpus.clone(), domain.states[0].power_uw, domain.states[1].power_uw);
        let domains: Vec<_> = known.energy.expect("it has power").domains.iter().map(power).collect();
        assert_eq!(domains, [(vec![0, 2], 42_000, 118_500), (vec![1], 160_000, 583_000)]);
        assert_eq!(known.frequencies.domains[0].khz, [450_000, 850_000]);
        assert!(clocks(&text("41")).unwrap_err().to_string().contains("the power at 850 MHz"));
        assert!(clocks(JUNO).unwrap().is_some_and(|clocks| clocks.energy.is_none()), "the file has no power");
    }

    #[test]
    fn a_machine_with_its_clusters() {
        let juno = parse("juno.yml", JUNO).unwrap();
        let cpus: Vec<(u32, u32)> = juno.cpus().iter().map(|cpu| (cpu.capacity, cpu.llc)).collect();
        assert_eq!(cpus, [(446, 0), (1024, 1), (446, 0)]);
    }

    #[test]
    fn what_is_no_machine() {
        let message = |text: &str| parse("x.yml", text).unwrap_err().to_string();
        assert!(message("a: [").contains("is no YAML"));
        assert!(message("a: 3").contains("no capacities"));
        assert!(message("cpu-capacities: {1: 1024}").contains("not of all from 0 to 1"));
        assert!(message("cpu-capacities: {0: 2048}").contains("capacity of 2048"));
        let bomb = (1..20)
            .fold("a0: &a0 [x, x]\n".to_owned(), |text, n| format!("{text}a{n}: &a{n} [*a{m}, *a{m}]\n", m = n - 1));
        assert!(message(&bomb).contains("no capacities"), "nothing is built of it");
    }
}
