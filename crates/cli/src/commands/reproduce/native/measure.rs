//! Measures time: sides take turns on one CPU of this machine.

use super::Side;
use crate::interrupt;

/// The time per switch of a side in each round, nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(pub(crate) Vec<f64>);

impl Times {
    pub(crate) fn median(&self) -> f64 {
        median(self.0.clone())
    }

    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    pub(crate) fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn most(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the means of each `turns` rounds.
    pub(crate) fn in_turns(&self, turns: usize) -> Self {
        Self(self.0.chunks(turns.max(1)).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect())
    }

    /// Returns the median ratio to `other`, by round: long disturbances affect both.
    pub(crate) fn ratio_to(&self, other: &Self) -> f64 {
        median(self.0.iter().zip(&other.0).map(|(this, that)| this / that).collect())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Measures sides in turns, for `rounds` rounds.
pub(crate) fn measure(sides: &[Side<'_>], rounds: usize) -> Vec<Times> {
    take_turns(sides, rounds, |side| {
        let play = side.ready(usize::MAX);
        let before = cpu_ns();
        play();
        (cpu_ns() - before) as f64 / side.script.switches.max(1) as f64
    })
}

/// Measures `time` of each side in turns, for `rounds` rounds after a warm-up. The order alternates.
pub(crate) fn take_turns<T: Sync>(sides: &[T], rounds: usize, time: impl Fn(&T) -> f64 + Sync) -> Vec<Times> {
    let mut all = vec![Times::default(); sides.len()];
    // Pins only its own thread.
    std::thread::scope(|scope| {
        let (all, time) = (&mut all, &time);
        scope.spawn(move || {
            pin();
            for round in 0..=rounds {
                // The caller discards the results.
                if interrupt::asked() {
                    return;
                }
                let mut order: Vec<usize> = (0..sides.len()).collect();
                if round % 2 == 1 {
                    order.reverse();
                }
                for index in order {
                    let took = time(&sides[index]);
                    if round > 0 {
                        all[index].0.push(took);
                    }
                }
            }
        });
    });
    all
}

/// Returns the CPU time of this thread, nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Tries to pin this thread to its last CPU, since the first ones have more interrupts.
fn pin() {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let Ok(allowed) = sched_getaffinity(None) else { return };
        if let Some(cpu) = (0..CpuSet::MAX_CPU).rev().find(|&cpu| allowed.is_set(cpu)) {
            let mut one = CpuSet::new();
            one.set(cpu);
            let _pinned = sched_setaffinity(None, &one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        // The machine gets twice as slow after the first round.
        let (a, b) = (Times(vec![1.1, 2.2, 2.2]), Times(vec![1.0, 2.0, 2.0]));
        assert!((a.ratio_to(&b) - 1.1).abs() < 1e-9);
        assert!((b.least() - 1.0).abs() < 1e-9 && (b.most() - 2.0).abs() < 1e-9);
    }
}
