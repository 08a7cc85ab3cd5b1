//! A sentence on how busy CPUs were, for runs, replays and traces.

use crate::replay::{ReplayCheck, share};
use crate::results::Results;
use crate::units::percent;

/// Returns the sentence for CPUs' shares, by number, and their mean. `of` names the time.
pub(crate) fn sentence(shares: &[(usize, f64)], mean: f64, of: &str) -> Option<String> {
    let most = shares.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let least = shares.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(match shares {
        [(cpu, share)] => format!("CPU {cpu} was busy {} % of {of}.", percent(*share)),
        _ => format!(
            "The CPUs were busy {} % of {of}: CPU {} most ({} %), CPU {} least ({} %).",
            percent(mean),
            most.0,
            percent(most.1),
            least.0,
            percent(least.1)
        ),
    })
}

/// As [`sentence`], for all CPUs and the whole time. None: unknown.
fn of_the_time(shares: &[Option<f64>]) -> Option<String> {
    let numbered = shares.iter().enumerate().filter_map(|(cpu, share)| Some((cpu, (*share)?)));
    let numbered: Vec<(usize, f64)> = numbered.collect();
    let sum: f64 = numbered.iter().map(|(_, share)| share).sum();
    sentence(&numbered, sum / numbered.len() as f64, "the time")
}

impl Results {
    /// Returns a sentence on how busy CPUs were with tasks. None without CPUs.
    pub fn busy_sentence(&self) -> Option<String> {
        of_the_time(&self.cpus.iter().map(|cpu| Some(self.share(cpu.busy_ns))).collect::<Vec<Option<f64>>>())
    }
}

/// A run in a [`ReplayCheck`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayRun {
    /// The trace.
    Recorded,
    /// The replay as recorded.
    Replayed,
    /// The what-if: another kernel, another machine or other rules.
    WhatIf,
}

impl ReplayCheck {
    /// Returns the part of the time in which each CPU was busy ([`ReplayCheck::cpus`]). None: its recorded events are
    /// lost or unreadable. Empty without the run.
    pub fn busy(&self, run: ReplayRun) -> Vec<Option<f64>> {
        let (recorded, replayed, what_if) = self.elapsed_ns;
        let busy = self.cpus.iter();
        let known = |cpu: usize| self.known_ns.get(cpu).copied().unwrap_or(recorded);
        match run {
            ReplayRun::Recorded => {
                let part = |(cpu, &(ns, _)): (usize, &(u64, u64))| (known(cpu) > 0).then(|| share(ns, known(cpu)));
                busy.enumerate().map(part).collect()
            }
            ReplayRun::Replayed => busy.map(|&(_, ns)| Some(share(ns, replayed))).collect(),
            ReplayRun::WhatIf => self.what_if_cpus.iter().flatten().map(|&ns| Some(share(ns, what_if))).collect(),
        }
    }

    /// Returns a sentence on how busy CPUs were in a run.
    pub fn busy_sentence(&self, run: ReplayRun) -> Option<String> {
        of_the_time(&self.busy(run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_names_the_most_and_the_least_busy_cpu() {
        assert_eq!(of_the_time(&[]), None);
        assert_eq!(of_the_time(&[None]), None);
        assert_eq!(of_the_time(&[None, Some(0.5)]).as_deref(), Some("CPU 1 was busy 50.00 % of the time."));
        assert_eq!(of_the_time(&[Some(0.25)]).as_deref(), Some("CPU 0 was busy 25.00 % of the time."));
        assert_eq!(
            of_the_time(&[Some(0.25), Some(0.75)]).as_deref(),
            Some("The CPUs were busy 50.00 % of the time: CPU 1 most (75.00 %), CPU 0 least (25.00 %).")
        );
    }
}
