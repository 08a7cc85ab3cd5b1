//! At which frequencies CPUs ran, from `cpu_frequency`.

use std::collections::BTreeMap;

use vruntime_trace::CpuId;

/// At which frequencies a CPU ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuFrequency {
    /// The CPU.
    pub cpu: u32,
    /// How long it ran at which frequency, kilohertz and nanoseconds, ascending, time it was idle included.
    pub residency: Vec<(u32, u64)>,
    /// How often it changed.
    pub changes: u64,
}

impl CpuFrequency {
    /// The mean over the time, kilohertz.
    pub fn mean_khz(&self) -> u64 {
        let time: u128 = self.residency.iter().map(|(_, ns)| u128::from(*ns)).sum();
        let cycles: u128 = self.residency.iter().map(|(khz, ns)| u128::from(*khz) * u128::from(*ns)).sum();
        cycles.checked_div(time).map_or(0, |mean| mean as u64)
    }
}

/// The frequencies of every CPU, while the run goes on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frequencies(BTreeMap<u32, Cpu>);

#[derive(Clone, Debug)]
struct Cpu {
    khz: u32,
    since: u64,
    residency: BTreeMap<u32, u64>,
    changes: u64,
}

impl Frequencies {
    pub(crate) fn changes(&mut self, at: u64, cpu: CpuId, khz: u32) {
        match self.0.get_mut(&cpu.0) {
            None => {
                let fresh = Cpu { khz, since: at, residency: BTreeMap::new(), changes: 0 };
                self.0.insert(cpu.0, fresh);
            }
            Some(known) => {
                known.advance(at);
                known.khz = khz;
                known.changes += 1;
            }
        }
    }

    /// What there is at the end.
    pub(crate) fn finish(mut self, at: u64) -> Vec<CpuFrequency> {
        self.0.values_mut().for_each(|cpu| cpu.advance(at));
        let result = |(cpu, known): (u32, Cpu)| CpuFrequency {
            cpu,
            residency: known.residency.into_iter().collect(),
            changes: known.changes,
        };
        self.0.into_iter().map(result).collect()
    }
}

impl Cpu {
    fn advance(&mut self, at: u64) {
        let ns = at.saturating_sub(self.since);
        if ns > 0 {
            *self.residency.entry(self.khz).or_insert(0) += ns;
        }
        self.since = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_weighted_by_time() {
        let mut frequencies = Frequencies::default();
        frequencies.changes(0, CpuId(1), 1_000_000);
        frequencies.changes(30, CpuId(1), 2_000_000);
        frequencies.changes(30, CpuId(1), 3_000_000);
        let [one] = &frequencies.finish(40)[..] else { panic!("one CPU has a governor") };
        assert_eq!((one.cpu, one.changes, one.mean_khz()), (1, 2, 1_500_000));
        assert_eq!(one.residency, [(1_000_000, 30), (3_000_000, 10)]);
    }
}
