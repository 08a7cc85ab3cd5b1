//! How busy CPUs were, in a sentence: the same of a run, of a replay and of a trace that is analysed. What part of
//! which time it is of, their own tables say.

use crate::replay::{ReplayCheck, share};
use crate::results::Results;
use crate::units::percent;

/// What part of `of` each CPU was busy, by its number, and all of them were in the mean.
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

/// As [`sentence`], of all CPUs of a machine, for all the time.
fn of_the_time(shares: &[f64]) -> Option<String> {
    let numbered: Vec<(usize, f64)> = shares.iter().copied().enumerate().collect();
    sentence(&numbered, shares.iter().sum::<f64>() / shares.len() as f64, "the time")
}

impl Results {
    /// How busy the CPUs were with tasks, as the table of CPUs has it; none of a run that does not tell of CPUs.
    pub fn busy_sentence(&self) -> Option<String> {
        of_the_time(&self.cpus.iter().map(|cpu| self.share(cpu.busy_ns)).collect::<Vec<f64>>())
    }
}

/// One of those that a [`ReplayCheck`] sets side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayRun {
    /// What the trace says.
    Recorded,
    /// The replay as recorded.
    Replayed,
    /// The replay under another kernel, on another machine or with other rules.
    WhatIf,
}

impl ReplayCheck {
    /// What part of the time each CPU was busy; empty of a what-if if there is none.
    pub fn busy(&self, run: ReplayRun) -> Vec<f64> {
        let (recorded, replayed, what_if) = self.elapsed_ns;
        let busy = self.cpus.iter();
        match run {
            ReplayRun::Recorded => busy.map(|&(ns, _)| share(ns, recorded)).collect(),
            ReplayRun::Replayed => busy.map(|&(_, ns)| share(ns, replayed)).collect(),
            ReplayRun::WhatIf => self.what_if_cpus.iter().flatten().map(|&ns| share(ns, what_if)).collect(),
        }
    }

    /// How busy the CPUs were in a run, as the tables of CPUs have it.
    pub fn busy_sentence(&self, run: ReplayRun) -> Option<String> {
        of_the_time(&self.busy(run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_who_was_busy_most_and_least() {
        assert_eq!(of_the_time(&[]), None);
        assert_eq!(of_the_time(&[0.25]).as_deref(), Some("CPU 0 was busy 25.00 % of the time."));
        assert_eq!(
            of_the_time(&[0.25, 0.75]).as_deref(),
            Some("The CPUs were busy 50.00 % of the time: CPU 1 most (75.00 %), CPU 0 least (25.00 %).")
        );
    }
}
