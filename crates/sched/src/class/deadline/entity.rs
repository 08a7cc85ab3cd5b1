//! The constant bandwidth server of a task: runtime, deadline, and their renewal.
//!
//! Abeni & Buttazzo, "Integrating multimedia applications in hard real-time systems" (RTSS 1998), as a hard CBS
//! (Documentation/scheduler/sched-deadline, section 2). A server without runtime waits for its next period, instead of
//! a later deadline.

use super::params::DlAttrs;
use super::ratio::BW_SHIFT;
use crate::balance::roots::Root;

/// Products of times are in units of 1024 ns, as in the kernel (`DL_SCALE`).
const DL_SCALE: u32 = 10;
/// A timer due less than this ago fires: the kernel compares microseconds.
const TIMER_RESOLUTION_NS: u64 = 1_000;

/// Source of a boosted entity's parameters (`pi_se`), nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Donor {
    /// Runtime in each period.
    pub runtime: u64,
    /// Relative deadline.
    pub deadline: u64,
    /// Period.
    pub period: u64,
}

/// A task under SCHED_DEADLINE, or a server (`struct sched_dl_entity`). Times are nanoseconds.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // the kernel's flags, each independent of the others
pub struct DlEntity {
    /// Own parameters; all 0 for a boosted task of another class.
    pub attrs: DlAttrs,
    /// Bandwidth (`dl_bw`), in 2^-20 CPUs.
    pub bw: u64,
    /// Density (`dl_density`): runtime per deadline, in 2^-20 CPUs.
    pub density: u64,
    /// Rest of the runtime; negative after an overrun.
    pub runtime: i64,
    /// Absolute deadline.
    pub deadline: u64,
    /// Whether it waits for its next period.
    pub throttled: bool,
    /// Whether it gave up the rest of its period.
    pub yielded: bool,
    /// Whether a requested overrun signal is not yet sent (`dl_overrun`).
    pub overrun: bool,
    /// Whether it sleeps, its bandwidth active until the 0-lag time.
    pub non_contending: bool,
    /// Boost by priority inheritance.
    pub donor: Option<Donor>,
    /// Its most urgent waiter's parameters, if a deadline task's.
    pub(super) offer: Option<Donor>,
    /// Whether it runs only when it can wait no longer (`dl_defer`).
    pub defer: bool,
    /// Whether it waits for that moment.
    pub defer_armed: bool,
    /// Whether that moment has passed: it runs at each period's start while needed.
    pub defer_running: bool,
    /// When the replenishment (or the deferred start) is due.
    pub replenish_at: Option<u64>,
    /// The 0-lag time for which the inactive timer is armed.
    pub inactive_at: Option<u64>,
    /// Time up to which its running is accounted.
    pub exec_start: u64,
    /// Deadline of its job: a relative deadline after its wakeup, or the start of the period it yielded for.
    pub job: Option<u64>,
    pub(super) key: Option<(u64, u64)>,
    pub(super) pushable: bool,
    pub(super) armed: [Option<u64>; 2],
    /// Root domain that has reserved its bandwidth.
    pub(crate) root: Root,
    /// Whether its bandwidth is in the run queue's `this_bw`, and in `running_bw`.
    pub(super) counted: bool,
    pub(super) active: bool,
}

impl DlEntity {
    /// Creates a server of valid `attrs` that never ran.
    pub fn new(attrs: DlAttrs) -> Self {
        let mut this = Self::default();
        this.set_attrs(attrs);
        this
    }

    /// Sets parameters for the next replenishment (`__setparam_dl`).
    pub fn set_attrs(&mut self, attrs: DlAttrs) {
        self.attrs = attrs;
        self.bw = attrs.bandwidth();
        self.density = attrs.density();
    }

    /// Clears all but runtime and deadline, at the 0-lag time after the task left the class (`__dl_clear_params`).
    pub(super) fn clear(&mut self) {
        self.set_attrs(DlAttrs::default());
        (self.throttled, self.yielded, self.overrun) = (false, false, false);
        self.replenish_at = None;
    }

    /// Returns its donor's parameters, or its own.
    pub fn effective(&self) -> Donor {
        let DlAttrs { runtime, deadline, period, .. } = self.attrs;
        self.donor.unwrap_or(Donor { runtime, deadline, period })
    }

    /// Whether it waits in the queue, or runs.
    #[inline]
    pub fn queued(&self) -> bool {
        self.key.is_some()
    }

    /// Returns the start of the next period.
    pub fn next_period(&self) -> u64 {
        self.deadline - self.attrs.deadline.min(self.deadline) + self.attrs.period
    }

    /// Whether its runtime is used up.
    #[inline]
    pub fn exceeded(&self) -> bool {
        self.runtime <= 0
    }

    /// Whether runtime / (deadline - now) exceeds `dl_runtime` / `dl_deadline`.
    pub fn overflows(&self, now: u64) -> bool {
        let Donor { runtime, deadline, .. } = self.effective();
        let left = i128::from(deadline >> DL_SCALE) * i128::from(self.runtime >> DL_SCALE);
        let right = i128::from((self.deadline - now) >> DL_SCALE) * i128::from(runtime >> DL_SCALE);
        right < left
    }

    /// Begins a period now.
    pub fn new_period(&mut self, now: u64) {
        let Donor { runtime, deadline, .. } = self.effective();
        self.deadline = now + deadline;
        self.runtime = runtime as i64;
        if self.defer && !self.defer_running {
            self.throttled = true;
            self.defer_armed = true;
        }
    }

    /// Begins a period for an entity new in the class.
    pub(super) fn set_up(&mut self, now: u64) {
        if !self.throttled {
            self.new_period(now);
        }
    }

    /// Wakes the entity: keeps runtime and deadline if possible, or begins a new period. A constrained deadline stays,
    /// with the runtime that its density allows. (The revised wakeup rule: Abeni, Lipari & Lelli, "Constant bandwidth
    /// server revisited", SIGBED Review 2015.) So does a deferred server that had to run, if `servers_keep`
    /// ([`ServerRules`](super::ServerRules)).
    pub fn wake(&mut self, now: u64, servers_keep: bool) {
        // A task that never ran has no deadline, and at time 0 none could have passed.
        let fresh = self.deadline == 0;
        if fresh || self.deadline < now || self.overflows(now) {
            let revised = !self.attrs.is_implicit() || (self.defer && self.defer_running && servers_keep);
            if !fresh && revised && self.deadline >= now && self.donor.is_none() {
                let laxity = self.deadline - now;
                self.runtime = ((u128::from(self.density) * u128::from(laxity)) >> BW_SHIFT) as i64;
                return;
            }
            self.defer_running = false;
            self.new_period(now);
        } else if self.defer && !self.defer_running {
            self.defer_armed = true;
            self.throttled = true;
        }
    }

    /// Renews the runtime (`replenish_dl_entity`). A deferred entity may stay throttled, with its timer armed.
    pub fn replenish(&mut self, now: u64) {
        let Donor { runtime, deadline, period } = self.effective();
        // A boosted task of another class has no period yet. A deferred server that cannot have its runtime by its
        // deadline begins a new one.
        if self.attrs.deadline == 0 || self.defer_armed && self.overflows_or_late(now) {
            self.deadline = now + deadline;
            self.runtime = runtime as i64;
        }
        if self.yielded && self.runtime > 0 {
            self.runtime = 0;
        }
        // A server that has waited for a whole period: the timer fires just after the end.
        let waited = self.defer && self.runtime > 0;
        if self.runtime <= 0 {
            // As many periods as pay for the overrun.
            let periods = self.runtime.unsigned_abs() / runtime.max(1) + 1;
            self.deadline += periods * period;
            self.runtime += (periods * runtime) as i64;
        }
        if self.deadline < now || (waited && self.deadline == now) {
            // Too late to be of use.
            self.new_period(now);
        }
        self.yielded = false;
        self.throttled = false;
        if self.defer_armed {
            self.defer_armed = false;
            return;
        }
        let waits = self.deadline.saturating_sub(self.runtime.unsigned_abs());
        if self.defer && !self.defer_running && now < waits && self.donor.is_none() {
            self.defer_armed = true;
            self.throttled = true;
            if !self.start_timer(now) {
                self.replenish_at = None;
                self.defer_armed = false;
                self.throttled = false;
            }
        }
    }

    fn overflows_or_late(&self, now: u64) -> bool {
        self.deadline < now || self.overflows(now)
    }

    /// Arms the timer for the next period, or for the deferred start. Returns false if that has passed.
    pub fn start_timer(&mut self, now: u64) -> bool {
        let at = if self.defer_armed {
            self.deadline.saturating_sub(self.runtime.max(0) as u64)
        } else {
            self.next_period()
        };
        if at + TIMER_RESOLUTION_NS <= now {
            return false;
        }
        self.replenish_at = Some(at);
        true
    }

    /// Throttles an entity after its constrained deadline, until its next period.
    pub(super) fn check_constrained(&mut self, now: u64) {
        // One that never ran has no deadline. The kernel's clock is past its 0, ours may not be.
        let passed = self.deadline > 0 && self.deadline < now;
        if passed && now < self.next_period() && self.donor.is_none() && self.start_timer(now) {
            self.throttled = true;
            self.runtime = self.runtime.min(0);
        }
    }

    /// Returns when its runtime would be used up at its own bandwidth, which is then free.
    pub fn zero_lag(&self) -> i128 {
        let used = i128::from(self.runtime) * i128::from(self.attrs.period) / i128::from(self.attrs.runtime.max(1));
        i128::from(self.deadline) - used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Buttazzo, "Hard Real-Time Computing Systems": Q = 3, T = 8. A job at 3 finds the server idle: deadline 11. Its
    /// runtime is used up: deadline 19. A job at 13 finds 2 < (19 - 13) 3/8 and keeps both.
    #[test]
    fn deadlines_of_the_textbook_server() {
        let mut server = DlEntity::new(DlAttrs::new(3 * MS, 8 * MS));
        server.wake(3 * MS, true);
        assert_eq!((server.deadline, server.runtime), (11 * MS, 3 * MS as i64));
        server.runtime = 0;
        server.replenish(11 * MS);
        assert_eq!((server.deadline, server.runtime), (19 * MS, 3 * MS as i64));
        server.runtime = 2 * MS as i64;
        server.wake(13 * MS, true);
        assert_eq!((server.deadline, server.runtime), (19 * MS, 2 * MS as i64));
        // At 14 it would be too much: 2 > (19 - 14) 3/8.
        server.wake(14 * MS, true);
        assert_eq!((server.deadline, server.runtime), (22 * MS, 3 * MS as i64));
    }

    #[test]
    fn an_overrun_is_paid_with_as_many_periods_as_it_takes() {
        let mut server = DlEntity::new(DlAttrs::new(3 * MS, 8 * MS));
        server.wake(MS, true);
        server.runtime = -7 * (MS as i64);
        server.replenish(9 * MS);
        assert_eq!((server.deadline, server.runtime), ((9 + 3 * 8) * MS, 2 * MS as i64));
        server.runtime = -3 * (MS as i64);
        server.replenish(33 * MS);
        // -3 + 3 is nothing, so it takes two.
        assert_eq!((server.deadline, server.runtime), ((33 + 16) * MS, 3 * MS as i64));
    }

    #[test]
    fn a_yield_forfeits_the_rest_of_the_runtime_and_no_more() {
        let mut server = DlEntity::new(DlAttrs::new(3 * MS, 8 * MS));
        server.wake(MS, true);
        server.runtime = 2 * MS as i64;
        server.yielded = true;
        server.throttled = true;
        server.replenish(9 * MS);
        assert_eq!((server.deadline, server.runtime), (17 * MS, 3 * MS as i64));
        assert!(!server.yielded && !server.throttled);
    }

    /// D < T: a task that wakes before its deadline keeps it, with the runtime its density allows.
    #[test]
    fn a_constrained_task_keeps_its_deadline_and_gets_less_runtime() {
        let attrs = DlAttrs { runtime: 4 * MS, deadline: 8 * MS, period: 20 * MS, ..DlAttrs::default() };
        let mut server = DlEntity::new(attrs);
        // It never ran, so no deadline has passed.
        server.check_constrained(MS);
        assert!(!server.throttled);
        server.wake(MS, true);
        server.wake(7 * MS, true);
        assert_eq!((server.deadline, server.runtime), (9 * MS, MS as i64));
        // After the deadline and before the next period it waits.
        server.check_constrained(10 * MS);
        assert!(server.throttled);
        assert_eq!((server.runtime, server.replenish_at), (0, Some(21 * MS)));
        server.replenish(21 * MS);
        assert_eq!((server.deadline, server.runtime), (29 * MS, 4 * MS as i64));
    }

    #[test]
    fn zero_lag_time() {
        let mut server = DlEntity::new(DlAttrs::new(4 * MS, 8 * MS));
        server.wake(0, true);
        server.runtime = 2 * MS as i64;
        assert_eq!(server.zero_lag(), i128::from(4 * MS));
        server.runtime = -(MS as i64);
        assert_eq!(server.zero_lag(), i128::from(10 * MS));
    }

    #[test]
    fn a_far_too_late_replenishment_begins_a_new_period() {
        let mut server = DlEntity::new(DlAttrs::new(3 * MS, 8 * MS));
        server.wake(MS, true);
        server.runtime = 0;
        server.replenish(100 * MS);
        assert_eq!((server.deadline, server.runtime), (108 * MS, 3 * MS as i64));
    }
}
