//! Frequencies of CPUs from `cpu_frequency`, and energy.

use std::collections::BTreeMap;

use vruntime_trace::{CpuId, EnergyInfo};

/// The frequencies of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuFrequency {
    /// The CPU.
    pub cpu: u32,
    /// Ascending frequencies, kilohertz, with nanoseconds at each, also idle.
    pub residency: Vec<(u32, u64)>,
    /// Number of changes.
    pub changes: u64,
    /// Energy while busy, microjoules, if known.
    pub energy_uj: Option<u64>,
}

impl CpuFrequency {
    /// Mean over time, kilohertz.
    pub fn mean_khz(&self) -> u64 {
        let time: u128 = self.residency.iter().map(|(_, ns)| u128::from(*ns)).sum();
        let cycles: u128 = self.residency.iter().map(|(khz, ns)| u128::from(*khz) * u128::from(*ns)).sum();
        cycles.checked_div(time).map_or(0, |mean| mean as u64)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Frequencies {
    cpus: BTreeMap<u32, Cpu>,
    /// Each CPU's frequencies, kilohertz, with power, microwatts.
    power: BTreeMap<u32, Vec<(u32, u64)>>,
    /// Whether wakeups consider energy.
    is_energy_aware: bool,
    /// Root domains that ignore energy, by first CPU, with start.
    overutilized: BTreeMap<u32, u64>,
    overutilized_ns: u64,
}

#[derive(Clone, Debug)]
struct Cpu {
    khz: u32,
    since: u64,
    residency: BTreeMap<u32, u64>,
    changes: u64,
    busy: bool,
    /// Busy time by frequency.
    busy_ns: BTreeMap<u32, u64>,
}

impl Frequencies {
    /// Sets the power of the CPUs.
    pub(crate) fn take(&mut self, energy: &EnergyInfo<'_>) {
        self.is_energy_aware = energy.is_energy_aware;
        for domain in &energy.model.domains {
            let power: Vec<(u32, u64)> = domain.states.iter().map(|state| (state.khz, state.power_uw)).collect();
            self.power.extend(domain.cpus.iter().map(|&cpu| (cpu, power.clone())));
        }
    }

    pub(crate) fn runs(&mut self, at: u64, cpu: CpuId, busy: bool) {
        if let Some(known) = self.cpus.get_mut(&cpu.0) {
            known.advance(at);
            known.busy = busy;
        }
    }

    /// Sets whether the root domain with first CPU `root` ignores energy.
    pub(crate) fn overutilized(&mut self, at: u64, root: CpuId, on: bool) {
        if on {
            self.overutilized.entry(root.0).or_insert(at);
        } else if let Some(since) = self.overutilized.remove(&root.0) {
            self.overutilized_ns += at.saturating_sub(since);
        }
    }

    /// Returns the time in which energy was ignored. None if never considered.
    pub(crate) fn overutilized_ns(&self, at: u64) -> Option<u64> {
        let open: u64 = self.overutilized.values().map(|since| at.saturating_sub(*since)).sum();
        self.is_energy_aware.then_some(self.overutilized_ns + open)
    }

    pub(crate) fn changes(&mut self, at: u64, cpu: CpuId, khz: u32, busy: bool) {
        match self.cpus.get_mut(&cpu.0) {
            None => {
                let fresh =
                    Cpu { khz, since: at, residency: BTreeMap::new(), changes: 0, busy, busy_ns: BTreeMap::new() };
                self.cpus.insert(cpu.0, fresh);
            }
            Some(known) => {
                known.advance(at);
                known.khz = khz;
                known.changes += 1;
            }
        }
    }

    pub(crate) fn finish(mut self, at: u64) -> Vec<CpuFrequency> {
        self.cpus.values_mut().for_each(|cpu| cpu.advance(at));
        let Self { cpus, power, .. } = self;
        let result = |(cpu, known): (u32, Cpu)| CpuFrequency {
            cpu,
            changes: known.changes,
            energy_uj: power.get(&cpu).map(|power| known.energy_uj(power)),
            residency: known.residency.into_iter().collect(),
        };
        cpus.into_iter().map(result).collect()
    }
}

impl Cpu {
    fn advance(&mut self, at: u64) {
        let ns = at.saturating_sub(self.since);
        if ns > 0 {
            *self.residency.entry(self.khz).or_insert(0) += ns;
            if self.busy {
                *self.busy_ns.entry(self.khz).or_insert(0) += ns;
            }
        }
        self.since = at;
    }

    /// Unlisted frequencies have the power of the next above.
    fn energy_uj(&self, power: &[(u32, u64)]) -> u64 {
        let at = |khz: u32| power.iter().find(|(known, _)| *known >= khz).or(power.last()).map_or(0, |&(_, uw)| uw);
        let sum: u128 = self.busy_ns.iter().map(|(&khz, &ns)| u128::from(at(khz)) * u128::from(ns)).sum();
        (sum / 1_000_000_000) as u64
    }
}

#[cfg(test)]
mod tests {
    use vruntime_trace::energy::{EnergyModel, PerfDomain, PerfState};

    use super::*;

    #[test]
    fn the_mean_is_weighted_by_time() {
        let mut frequencies = Frequencies::default();
        frequencies.changes(0, CpuId(1), 1_000_000, false);
        frequencies.changes(30, CpuId(1), 2_000_000, false);
        frequencies.changes(30, CpuId(1), 3_000_000, false);
        let [one] = &frequencies.finish(40)[..] else { panic!("one CPU has a governor") };
        assert_eq!((one.cpu, one.changes, one.mean_khz()), (1, 2, 1_500_000));
        assert_eq!(one.residency, [(1_000_000, 30), (3_000_000, 10)]);
        assert_eq!(one.energy_uj, None);
    }

    /// 2 s at 100 mW and 1 s at 300 mW. The idle second takes nothing.
    #[test]
    fn only_busy_time_takes_energy() {
        const S: u64 = 1_000_000_000;
        let states = [(1_000_000, 100_000), (2_000_000, 300_000)];
        let states = states.iter().map(|&(khz, power_uw)| PerfState { khz, power_uw }).collect();
        let mut frequencies = Frequencies::default();
        let model = EnergyModel { domains: vec![PerfDomain { cpus: vec![1], states }] };
        frequencies.take(&EnergyInfo { model: &model, is_energy_aware: true });
        frequencies.changes(0, CpuId(1), 1_000_000, false);
        frequencies.runs(S, CpuId(1), true);
        frequencies.changes(3 * S, CpuId(1), 2_000_000, true);
        frequencies.overutilized(S, CpuId(0), true);
        frequencies.overutilized(2 * S, CpuId(0), false);
        frequencies.overutilized(3 * S, CpuId(0), true);
        assert_eq!(frequencies.overutilized_ns(4 * S), Some(2 * S));
        let [one] = &frequencies.finish(4 * S)[..] else { panic!("one CPU has a governor") };
        assert_eq!(one.energy_uj, Some(500_000));
    }
}
