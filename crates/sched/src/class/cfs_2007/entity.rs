//! The first CFS's arithmetic: a task's account, and its key.

use crate::class::fair::timeline::Ticket;
use crate::tunables::Tunables;
use crate::weight::{NICE_0_WEIGHT, scale};

/// Weights for nice -20..=19: exact steps of a quarter, rounded.
const PRIO_TO_WEIGHT: [u32; 40] = [
    88818, 71054, 56843, 45475, 36380, 29104, 23283, 18626, 14901, 11921, 9537, 7629, 6103, 4883, 3906, 3125, 2500,
    2000, 1600, 1280, 1024, 819, 655, 524, 419, 336, 268, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];
const WEIGHT_IDLEPRIO: u64 = 2;
/// Weight of a real-time task to the balancer.
pub(super) const WEIGHT_RT: u64 = 2 * 88_818;

pub(super) fn weight_of(nice: i8, idle: bool) -> u64 {
    if idle { WEIGHT_IDLEPRIO } else { u64::from(PRIO_TO_WEIGHT[(nice.clamp(-20, 19) + 20) as usize]) }
}

/// State of a task. Times are nanoseconds; fair times are on the run queue's fair clock.
#[derive(Debug, Default)]
pub struct Entity2007 {
    /// Nice 0 is 1024.
    pub(super) weight: u64,
    pub(super) ticket: Option<Ticket>,
    /// Fair time at which the task is due.
    pub(super) fair_key: u64,
    /// Its account: time it is owed (or owes).
    pub(super) wait_runtime: i64,
    pub(super) exec_start: u64,
    /// Run time that is not yet on its account.
    pub(super) delta_exec: u64,
    /// Fair times of waits and of sleep that are not yet on its account.
    pub(super) delta_fair_run: u64,
    pub(super) delta_fair_sleep: u64,
    /// Start of its wait, and of its sleep.
    pub(super) wait_start_fair: Option<u64>,
    pub(super) sleep_start_fair: Option<u64>,
    pub(super) sum_exec_runtime: u64,
    pub(super) parent: Option<crate::ids::TaskId>,
    /// Whether `parent` is set.
    pub(super) born: bool,
}

impl Entity2007 {
    /// Adds `delta` to the account, up to the limit.
    pub(super) fn add_wait_runtime<T: Tunables>(&mut self, tunables: &T, delta: i64) {
        let limit = tunables.cfs_2007().runtime_limit_ns.min(i64::MAX as u64 / 4) as i64;
        self.wait_runtime = self.wait_runtime.saturating_add(delta).clamp(-limit, limit);
    }

    /// Converts fair time to this task's by its weight.
    pub(super) fn own(&self, fair: u64) -> i64 {
        scale(fair, self.weight, NICE_0_WEIGHT).min(i64::MAX as u64 / 4) as i64
    }

    /// Returns the fair time at which it is due, from `fair_clock`.
    pub(super) fn key(&self, fair_clock: u64) -> u64 {
        let owed = scale(self.wait_runtime.unsigned_abs(), NICE_0_WEIGHT, self.weight.max(1));
        if self.wait_runtime < 0 { fair_clock.wrapping_add(owed) } else { fair_clock.wrapping_sub(owed) }
    }

    /// Scales a granularity for this running task: finer for nice other than 0, almost 0 for negative.
    pub(super) fn niced(&self, granularity: u64) -> i64 {
        let niced = match self.weight {
            NICE_0_WEIGHT => granularity,
            light if light < NICE_0_WEIGHT => scale(granularity, light, NICE_0_WEIGHT),
            // As in the kernel: by the weight itself, not its ratio to nice 0's.
            heavy => granularity / heavy,
        };
        niced.min(i64::MAX as u64) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::cfs_2007::tunables::Tunables2007;
    use crate::tunables::Defaults;

    #[test]
    fn knobs_scale_with_the_machine() {
        let knobs = Tunables2007::scaled(2, 1000);
        assert_eq!((knobs.granularity_ns, knobs.wakeup_granularity_ns), (4_000_000, 2_000_000));
        assert_eq!((knobs.runtime_limit_ns, knobs.batch_wakeup_granularity_ns), (16_000_000, 10_000_000));
        assert_eq!(Tunables2007::scaled(1 << 20, 250).granularity_ns, 100_000_000);
        let one = Tunables2007::scaled(1, 250);
        assert_eq!(one.granularity_ns, Tunables2007::CONSTANT.granularity_ns);
    }

    #[test]
    fn weights_are_steps_of_a_quarter() {
        assert_eq!([-20, -5, 0, 5, 19].map(|nice| weight_of(nice, false)), [88818, 3125, 1024, 336, 15]);
        assert_eq!(weight_of(0, true), 2);
    }

    #[test]
    fn what_is_owed_has_a_limit_and_makes_the_key() {
        let mut se = Entity2007 { weight: 2048, ..Entity2007::default() };
        se.add_wait_runtime(&Defaults, i64::MAX);
        assert_eq!(se.wait_runtime, 16_000_000);
        assert_eq!(se.key(100_000_000), 92_000_000);
        se.add_wait_runtime(&Defaults, -100_000_000);
        assert_eq!(se.key(100_000_000), 108_000_000);
        assert_eq!(se.own(1000), 2000);
        assert_eq!(se.niced(8_000_000), 8_000_000 / 2048);
        se.weight = 512;
        assert_eq!(se.niced(8_000_000), 4_000_000);
    }
}
