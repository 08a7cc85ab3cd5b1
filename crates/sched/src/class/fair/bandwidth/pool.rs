//! A group's limit, and its pool of runtime for all CPUs (`cfs_bandwidth`).
//!
//! A period begins with `quota`, and up to `burst` of the previous remainder. CPUs take slices. Without runtime, they
//! are throttled and listed. The next period unthrottles them in order, each with its debt and a nanosecond. The timer
//! stops at a period without throttled CPUs, if no CPU took runtime in the last.

use alloc::vec::Vec;
use core::fmt;

use crate::ids::{CpuId, GroupId};

/// Least rest of a period for a redistribution of unused runtime.
const SLACK_PERIOD_NS: u64 = 5_000_000;
/// Least rest of a period at the slack timer.
const MIN_EXPIRATION_NS: u64 = 2_000_000;

/// CPU time that a group may use: `cpu.max` and `cpu.max.burst`. Nanoseconds.
///
/// ```
/// use vruntime_sched::Limit;
///
/// let limit = Limit::new(50_000_000, 100_000_000, 0)?; // half a CPU
/// assert_eq!(limit.quota_ns(), 50_000_000);
/// assert!(Limit::new(500_000, 100_000_000, 0).unwrap_err().to_string().contains("1 ms"));
/// # Ok::<(), vruntime_sched::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    quota: u64,
    period: u64,
    burst: u64,
}

impl Limit {
    /// Least quota and period that the kernel accepts.
    pub const MIN_NS: u64 = 1_000_000;
    /// Longest period that the kernel accepts.
    pub const MAX_PERIOD_NS: u64 = 1_000_000_000;
    /// Greatest sum of quota and burst (`max_cfs_runtime`).
    pub const MAX_RUNTIME_NS: u64 = ((1 << 44) - 1) * 1_000;

    /// At most `quota` of CPU time in each `period`; unused quota is saved up to `burst`.
    ///
    /// # Errors
    ///
    /// Quota or period below 1 ms, period above 1 s, burst above the quota, or sum above [`Self::MAX_RUNTIME_NS`].
    pub fn new(quota: u64, period: u64, burst: u64) -> Result<Self, LimitError> {
        if quota < Self::MIN_NS {
            return Err(LimitError::ShortQuota(quota));
        }
        if !(Self::MIN_NS..=Self::MAX_PERIOD_NS).contains(&period) {
            return Err(LimitError::Period(period));
        }
        if burst > quota {
            return Err(LimitError::Burst { burst, quota });
        }
        if quota > Self::MAX_RUNTIME_NS || quota + burst > Self::MAX_RUNTIME_NS {
            return Err(LimitError::LongQuota(quota.saturating_add(burst)));
        }
        Ok(Self { quota, period, burst })
    }

    /// CPU time in each period.
    pub const fn quota_ns(self) -> u64 {
        self.quota
    }

    /// Length of a period.
    pub const fn period_ns(self) -> u64 {
        self.period
    }

    /// Most unused quota that is saved.
    pub const fn burst_ns(self) -> u64 {
        self.burst
    }
}

/// Why a limit is invalid. Times are nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitError {
    /// A quota below 1 ms.
    ShortQuota(u64),
    /// Quota and burst exceed [`Limit::MAX_RUNTIME_NS`].
    LongQuota(u64),
    /// A period outside 1 ms to 1 s.
    Period(u64),
    /// A burst above the quota.
    Burst {
        /// The burst.
        burst: u64,
        /// The quota.
        quota: u64,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns / 1000;
        match *self {
            Self::ShortQuota(quota) => write!(f, "a quota of {} us is below 1 ms, the kernel's least", us(quota)),
            Self::LongQuota(sum) => {
                write!(f, "a quota of {} us (burst included) is above {} us", us(sum), us(Limit::MAX_RUNTIME_NS))
            }
            Self::Period(period) => {
                write!(f, "a period of {} us is outside the kernel's 1 ms to 1 s", us(period))
            }
            Self::Burst { burst, quota } => {
                write!(f, "a burst of {} us is above the quota, {} us", us(burst), us(quota))
            }
        }
    }
}

impl core::error::Error for LimitError {}

/// Statistics of a group's limit: the fields of `cpu.stat`, times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BandwidthStat {
    /// Periods that passed while the timer ran.
    pub nr_periods: u64,
    /// Periods at whose end a CPU was throttled.
    pub nr_throttled: u64,
    /// Throttled time, summed over CPUs; counted when it ends (`throttled_usec`).
    pub throttled_ns: u64,
    /// Periods in which more than the quota was used.
    pub nr_bursts: u64,
    /// Use beyond the quota in all periods (`burst_usec`).
    pub burst_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PeriodEnd {
    pub(crate) periods: u64,
    pub(crate) throttled: bool,
    /// Use beyond the quota.
    pub(crate) burst: u64,
}

#[derive(Debug)]
pub(crate) struct Pool {
    limit: Option<Limit>,
    runtime: u64,
    runtime_snap: u64,
    /// Whether no CPU has taken runtime since the period began.
    idle: bool,
    period_active: bool,
    /// Phase of the periods, before the first start.
    phase: Option<u64>,
    /// End of the period; the origin of periods while the timer is off.
    expires: u64,
    /// Number of refills, which counts periods.
    refills: u64,
    slack_started: bool,
    /// Throttled CPUs, in order.
    waiting: Vec<CpuId>,
    pub(crate) stat: BandwidthStat,
}

impl Pool {
    /// Periods will begin `phase` after a multiple of their length.
    pub(crate) fn new(phase: u64) -> Self {
        Self {
            limit: None,
            runtime: 0,
            runtime_snap: 0,
            idle: false,
            period_active: false,
            phase: Some(phase),
            expires: 0,
            refills: 0,
            slack_started: false,
            waiting: Vec::new(),
            stat: BandwidthStat::default(),
        }
    }

    pub(crate) fn limit(&self) -> Option<Limit> {
        self.limit
    }

    /// Sets the limit. Returns the time for the timer, if it must be set.
    pub(crate) fn set(&mut self, limit: Option<Limit>, now: u64) -> Option<u64> {
        self.limit = limit;
        self.refill();
        limit.and_then(|_| self.start(now))
    }

    /// Begins a period (`__refill_cfs_bandwidth_runtime`). Returns the use beyond the quota in the last one.
    fn refill(&mut self) -> u64 {
        let Some(limit) = self.limit else { return 0 };
        self.refills += 1;
        self.runtime = self.runtime.saturating_add(limit.quota);
        let burst = self.runtime_snap.saturating_sub(self.runtime);
        if burst > 0 {
            self.stat.nr_bursts += 1;
            self.stat.burst_ns += burst;
        }
        self.runtime = self.runtime.min(limit.quota + limit.burst);
        self.runtime_snap = self.runtime;
        burst
    }

    /// `start_cfs_bandwidth`. Returns the timer's time if it did not run.
    pub(crate) fn start(&mut self, now: u64) -> Option<u64> {
        let limit = self.limit?;
        if self.period_active {
            return None;
        }
        self.period_active = true;
        self.refills += 1;
        if let Some(phase) = self.phase.take() {
            self.expires = phase % limit.period;
        }
        self.forward(now, limit.period);
        Some(self.expires)
    }

    /// Moves `expires` past `now` by whole periods (`hrtimer_forward`), and returns their number.
    fn forward(&mut self, now: u64, period: u64) -> u64 {
        if now < self.expires {
            return 0;
        }
        let beats = (now - self.expires) / period + 1;
        self.expires = self.expires.saturating_add(beats.saturating_mul(period));
        beats
    }

    /// Returns what a CPU with `remaining` <= 0 gets to reach `target`. The second value is the time of the period
    /// timer if it did not run.
    pub(crate) fn assign(&mut self, remaining: i64, target: u64, now: u64) -> (u64, Option<u64>) {
        debug_assert!(remaining <= 0);
        let wanted = target.saturating_add(remaining.unsigned_abs());
        if self.limit.is_none() {
            return (wanted, None);
        }
        let arm = self.start(now);
        let amount = wanted.min(self.runtime);
        if amount > 0 {
            self.runtime -= amount;
            self.idle = false;
        }
        (amount, arm)
    }

    /// Lists a throttled CPU: behind the others, or before them (`first`).
    pub(crate) fn wait(&mut self, cpu: CpuId, first: bool) {
        debug_assert!(!self.waiting.contains(&cpu));
        self.waiting.insert(if first { 0 } else { self.waiting.len() }, cpu);
    }

    /// `throttled` is the counted time.
    pub(crate) fn unthrottle(&mut self, cpu: CpuId, throttled: u64) {
        self.waiting.retain(|&other| other != cpu);
        self.stat.throttled_ns += throttled;
    }

    pub(crate) fn waiting(&self) -> &[CpuId] {
        &self.waiting
    }

    pub(crate) fn has_runtime(&self) -> bool {
        self.runtime > 0
    }

    /// Takes a waiting CPU's debt (`remaining` <= 0) and a nanosecond, or the rest.
    pub(crate) fn pay(&mut self, remaining: i64) -> u64 {
        let wanted = remaining.min(0).unsigned_abs().saturating_add(1);
        let amount = wanted.min(self.runtime);
        self.runtime -= amount;
        amount
    }

    /// Handles the period timer (`do_sched_cfs_period_timer`, up to the distribution).
    pub(crate) fn period_timer(&mut self, now: u64) -> PeriodEnd {
        let nothing = PeriodEnd { periods: 0, throttled: false, burst: 0 };
        let Some(limit) = self.limit else {
            self.period_active = false;
            return nothing;
        };
        let periods = self.forward(now, limit.period);
        // Too early, as the host was asked before.
        if periods == 0 {
            return nothing;
        }
        let throttled = !self.waiting.is_empty();
        self.stat.nr_periods += periods;
        let burst = self.refill();
        if throttled {
            self.stat.nr_throttled += periods;
            // The unthrottled CPUs will take runtime.
            self.idle = false;
        } else if self.idle {
            self.period_active = false;
        } else {
            self.idle = true;
        }
        PeriodEnd { periods, throttled, burst }
    }

    pub(crate) fn next_period(&self) -> Option<u64> {
        self.period_active.then_some(self.expires)
    }

    /// Number and end of this period.
    pub(crate) fn deadline(&self) -> (u64, u64) {
        (self.refills, self.expires)
    }

    fn refresh_within(&self, now: u64, ns: u64) -> bool {
        self.expires.saturating_sub(now) < ns
    }

    /// Takes back a CPU's runtime beyond `min_cfs_rq_runtime`. Returns the slack timer's time if CPUs are throttled,
    /// since the caller's run queue is locked.
    pub(crate) fn give_back(&mut self, amount: u64, slice: u64, now: u64) -> Option<u64> {
        self.limit?;
        self.runtime = self.runtime.saturating_add(amount);
        let worth_it = self.runtime > slice
            && !self.waiting.is_empty()
            && !self.slack_started
            && !self.refresh_within(now, SLACK_PERIOD_NS + MIN_EXPIRATION_NS);
        if !worth_it {
            return None;
        }
        self.slack_started = true;
        Some(now + SLACK_PERIOD_NS)
    }

    /// Returns whether to distribute the pool.
    pub(crate) fn slack_timer(&mut self, slice: u64, now: u64) -> bool {
        self.slack_started = false;
        self.limit.is_some() && self.runtime > slice && !self.refresh_within(now, MIN_EXPIRATION_NS)
    }
}

/// Creates the pool of `group`, with [`cfs_period_phase_ns`](crate::config::Config::cfs_period_phase_ns). 6.4+
/// (`own_phase`): groups' periods begin at different instants: at random in the kernel, by group number here.
pub(crate) fn new_pool(own_phase: bool, group: GroupId, phase: Option<u64>) -> Pool {
    const DEFAULT_PERIOD_NS: u64 = 100_000_000;
    Pool::new(match (own_phase, phase) {
        (false, phase) => phase.unwrap_or(0),
        (_, None) => (u64::from(group.0.wrapping_mul(0x9e37_79b9)) * DEFAULT_PERIOD_NS) >> 32,
        // Up to 18 minutes: far more than any period.
        (_, Some(phase)) => (phase ^ u64::from(group.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn pool(quota: u64, period: u64, burst: u64) -> Pool {
        let mut pool = Pool::new(0);
        let arm = pool.set(Some(Limit::new(quota * MS, period * MS, burst * MS).unwrap()), 0);
        assert_eq!(arm, Some(period * MS));
        pool
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        assert_eq!(Limit::new(MS - 1, 100 * MS, 0), Err(LimitError::ShortQuota(MS - 1)));
        assert_eq!(Limit::new(MS, MS - 1, 0), Err(LimitError::Period(MS - 1)));
        assert_eq!(Limit::new(MS, 1000 * MS + 1, 0), Err(LimitError::Period(1000 * MS + 1)));
        assert_eq!(Limit::new(MS, MS, MS + 1), Err(LimitError::Burst { burst: MS + 1, quota: MS }));
        assert!(Limit::new(Limit::MAX_RUNTIME_NS, MS, 1).is_err());
        assert!(Limit::new(u64::MAX, MS, 0).is_err());
        assert!(Limit::new(MS, 1000 * MS, MS).is_ok());
        let text = Limit::new(MS, 2000 * MS, 0).unwrap_err();
        assert_eq!(alloc::format!("{text}"), "a period of 2000000 us is outside the kernel's 1 ms to 1 s");
    }

    #[test]
    fn a_slice_at_a_time_until_nothing_is_left() {
        let mut pool = pool(12, 100, 0);
        assert_eq!(pool.assign(0, 5 * MS, 0), (5 * MS, None));
        // A debt is paid on top.
        assert_eq!(pool.assign(-2_000_000, 5 * MS, 0), (7 * MS, None));
        assert_eq!(pool.assign(0, 5 * MS, 0), (0, None));
        assert!(!pool.has_runtime());
        // The next period: a quota, and no burst.
        assert_eq!(pool.period_timer(100 * MS), PeriodEnd { periods: 1, throttled: false, burst: 0 });
        assert_eq!(pool.runtime, 12 * MS);
        assert_eq!(pool.next_period(), Some(200 * MS));
    }

    #[test]
    fn waiting_cpus_are_paid_in_order_and_just_enough() {
        let mut pool = pool(10, 100, 0);
        pool.assign(0, 10 * MS, 0);
        pool.wait(CpuId(3), false);
        pool.wait(CpuId(1), false);
        assert_eq!(pool.waiting(), [CpuId(3), CpuId(1)]);
        assert!(pool.period_timer(100 * MS).throttled);
        assert_eq!(pool.pay(-3_999_999), 4 * MS);
        pool.unthrottle(CpuId(3), 60 * MS);
        // The second owes more than is left: it still waits, with a smaller debt.
        assert_eq!(pool.pay(-9_000_000), 6 * MS);
        assert_eq!(pool.waiting(), [CpuId(1)]);
        let stat = pool.stat;
        assert_eq!((stat.nr_periods, stat.nr_throttled, stat.throttled_ns), (1, 1, 60 * MS));
    }

    #[test]
    fn missed_periods_are_counted_and_refilled_once() {
        let mut pool = pool(10, 100, 0);
        pool.assign(0, 10 * MS, 0);
        pool.wait(CpuId(0), false);
        assert_eq!(pool.period_timer(350 * MS).periods, 3);
        assert_eq!((pool.stat.nr_periods, pool.stat.nr_throttled, pool.runtime), (3, 3, 10 * MS));
        assert_eq!(pool.next_period(), Some(400 * MS));
        // Too early, as after a change of the limit.
        assert_eq!(pool.period_timer(399 * MS).periods, 0);
    }

    #[test]
    fn an_idle_period_stops_the_timer_and_use_starts_it_on_the_beat() {
        let mut pool = pool(10, 100, 0);
        pool.assign(0, 5 * MS, 0);
        pool.period_timer(100 * MS);
        assert_eq!(pool.next_period(), Some(200 * MS));
        pool.period_timer(200 * MS);
        assert_eq!(pool.next_period(), None);
        assert_eq!(pool.stat.nr_periods, 2);
        // The last refill was at 200 ms. Periods without the timer do not refill.
        assert_eq!(pool.assign(0, 5 * MS, 777 * MS), (5 * MS, Some(800 * MS)));
        assert_eq!(pool.assign(0, 5 * MS, 778 * MS), (5 * MS, None));
    }

    #[test]
    fn a_group_that_waits_keeps_the_timer_running() {
        let mut pool = pool(10, 100, 0);
        pool.assign(0, 10 * MS, 0);
        pool.wait(CpuId(0), false);
        for period in 1..5 {
            assert!(pool.period_timer(period * 100 * MS).throttled);
            // Debts beyond the quota.
            pool.pay(-100_000_000);
            assert!(pool.next_period().is_some());
        }
    }

    #[test]
    fn what_is_saved_is_a_burst_later() {
        let mut pool = pool(10, 100, 10);
        pool.assign(0, 4 * MS, 0);
        assert_eq!(pool.period_timer(100 * MS).burst, 0);
        assert_eq!(pool.runtime, 16 * MS);
        pool.idle = false;
        pool.period_timer(200 * MS);
        // 26, cut to quota and burst.
        assert_eq!(pool.runtime, 20 * MS);
        pool.assign(0, 17 * MS, 210 * MS);
        assert_eq!(pool.period_timer(300 * MS).burst, 7 * MS);
        assert_eq!((pool.stat.nr_bursts, pool.stat.burst_ns, pool.runtime), (1, 7 * MS, 13 * MS));
    }

    #[test]
    fn slack_is_given_to_waiting_cpus_unless_the_period_ends_soon() {
        let mut pool = pool(20, 100, 0);
        pool.assign(0, 20 * MS, 0);
        // No CPU waits.
        assert_eq!(pool.give_back(3 * MS, 5 * MS, 10 * MS), None);
        pool.wait(CpuId(2), false);
        // Less than a slice is not worth it.
        assert_eq!(pool.give_back(2 * MS, 5 * MS, 10 * MS), None);
        assert_eq!(pool.give_back(MS, 5 * MS, 10 * MS), Some(15 * MS));
        // The timer runs already.
        assert_eq!(pool.give_back(MS, 5 * MS, 11 * MS), None);
        assert!(pool.slack_timer(5 * MS, 15 * MS));
        // The refill is within 7 ms: wait for that.
        assert_eq!(pool.give_back(MS, 5 * MS, 93 * MS + 1), None);
        assert_eq!(pool.give_back(MS, 5 * MS, 93 * MS), Some(98 * MS));
        // Too late.
        assert!(!pool.slack_timer(5 * MS, 98 * MS + 1));
    }

    #[test]
    fn without_a_limit_everything_is_given_and_the_timer_stops() {
        let mut pool = pool(1, 100, 0);
        pool.assign(0, MS, 0);
        assert_eq!(pool.set(None, 50 * MS), None);
        assert_eq!(pool.assign(-5, 5 * MS, 60 * MS), (5 * MS + 5, None));
        assert_eq!(pool.period_timer(100 * MS).periods, 0);
        assert_eq!(pool.next_period(), None);
        // A new limit: a quota at once, and the old beat.
        let limit = Limit::new(7 * MS, 20 * MS, 0).unwrap();
        assert_eq!(pool.set(Some(limit), 110 * MS), Some(120 * MS));
        assert_eq!(pool.runtime, 7 * MS);
    }
}
