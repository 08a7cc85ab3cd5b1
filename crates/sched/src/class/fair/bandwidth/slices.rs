//! Slices of a quota: a CPU draws them from the pool, and returns or loses the rest.

use super::{Local, MIN_RUNTIME_NS, Pool};
use crate::class::fair::discipline::{Discipline, Fair};
use crate::host::Timer;
use crate::kernels::Behaviour;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::tunables::Tunables;

impl<D: Discipline, T: Tunables> Rq<Fair<D, T>> {
    #[expect(
        clippy::expect_used,
        reason = "a queue whose group has a limit has a part of it, and callers ask only for those"
    )]
    pub(super) fn local(&self, cfs: u32) -> &Local {
        self.class.groups[cfs].cfs.bandwidth.as_ref().expect("asked only of queues that have it")
    }

    #[expect(clippy::expect_used, reason = "as `local`")]
    pub(super) fn local_mut(&mut self, cfs: u32) -> &mut Local {
        self.class.groups[cfs].cfs.bandwidth.as_mut().expect("asked only of queues that have it")
    }

    /// Calls `with` on the pool of a group that has, or had, a limit.
    #[expect(clippy::expect_used, reason = "a limit has its pool, which stays")]
    pub(super) fn pool<R>(&self, shared: &Shared<Fair<D, T>>, cfs: u32, with: impl FnOnce(&mut Pool) -> R) -> R {
        let pool = shared.group(self.class.groups[cfs].id).pool().expect("a group with a limit has a pool");
        with(&mut pool.lock())
    }

    /// Charges `delta` ns to a queue's runtime (`account_cfs_rq_runtime`).
    pub(super) fn account_runtime(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32, delta: u64) {
        let local = self.local_mut(cfs);
        if !local.runtime_enabled {
            return;
        }
        local.runtime_remaining -= delta as i64;
        if shared.config.has(Behaviour::SlicesExpire) {
            self.expire(shared, cfs);
        }
        let local = self.local(cfs);
        if local.runtime_remaining > 0 || local.throttled {
            return;
        }
        let slice = shared.config.tunables.cfs_bandwidth_slice_ns();
        if !self.assign_runtime(shared, cfs, slice) && self.class.groups[cfs].cfs.curr.is_some() {
            self.resched();
        }
    }

    /// Drops the rest of a slice of an earlier period (`expire_cfs_rq_runtime`). If the pool's period has not ended,
    /// the CPU's clock is ahead, and the slice lasts for another tick. Debts stay.
    fn expire(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32) {
        let (now, local) = (self.clock.now(), self.local(cfs));
        if now < local.expires || local.runtime_remaining < 0 {
            return;
        }
        let (period, _) = self.pool(shared, cfs, |pool| pool.deadline());
        let local = self.local_mut(cfs);
        if local.period == period {
            local.expires += shared.config.tunables.tick_ns();
        } else {
            local.runtime_remaining = 0;
        }
    }

    /// Ends the CPU's slice with the pool's period, after a draw.
    pub(super) fn renew(&mut self, cfs: u32, (period, expires): (u64, u64)) {
        let local = self.local_mut(cfs);
        if local.period != period {
            (local.period, local.expires) = (period, expires);
        }
    }

    /// Draws on the pool up to `target`. Returns whether the CPU has runtime now.
    pub(super) fn assign_runtime(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32, target: u64) -> bool {
        let (now, remaining) = (self.clock.now(), self.local(cfs).runtime_remaining);
        let ((amount, arm), deadline) =
            self.pool(shared, cfs, |pool| (pool.assign(remaining, target, now), pool.deadline()));
        self.renew(cfs, deadline);
        if let Some(at) = arm {
            self.arm(Timer::GroupPeriod(self.class.groups[cfs].id), Some(at));
        }
        let local = self.local_mut(cfs);
        local.runtime_remaining += amount as i64;
        local.runtime_remaining > 0
    }

    /// Throttles a queue that has used up its runtime (`check_cfs_rq_runtime`). Returns whether it is throttled.
    pub(super) fn check_runtime(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32) -> bool {
        let local = self.local(cfs);
        // A throttled queue has a running task if that was moved here.
        local.used_up() && (local.throttled || self.throttle(shared, cfs))
    }

    pub(super) fn check_enqueue_throttle(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32) {
        let now = self.clock.now();
        let local = self.local(cfs);
        if local.runtime_enabled && !local.throttled && self.class.groups[cfs].cfs.curr.is_none() {
            self.account_runtime(shared, cfs, 0);
            if self.local(cfs).runtime_remaining <= 0 {
                self.throttle(shared, cfs);
            }
        }
        let pelt = self.clock.pelt();
        let local = self.local_mut(cfs);
        if shared.config.has(Behaviour::TaskThrottle) {
            local.restart_pelt(pelt);
        } else if shared.config.has(Behaviour::EmptyNotThrottled) && local.throttled {
            local.throttled_clock.get_or_insert(now);
        }
    }

    /// Returns the surplus of an empty queue to the pool (`return_cfs_rq_runtime`).
    pub(super) fn last_dequeued(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32) {
        if self.class.groups[cfs].cfs.nr_queued > 0 {
            return;
        }
        let (now, pelt) = (self.clock.now(), self.clock.pelt());
        let local = self.local_mut(cfs);
        if shared.config.has(Behaviour::TaskThrottle) && local.throttle_count > 0 {
            local.stop_pelt(pelt);
        }
        let slack = local.runtime_remaining - MIN_RUNTIME_NS;
        if !local.runtime_enabled || slack <= 0 {
            return;
        }
        local.runtime_remaining -= slack;
        let period = local.period;
        // A slice of an earlier period is lost.
        if shared.config.has(Behaviour::SlicesExpire) && period != self.pool(shared, cfs, |pool| pool.deadline().0) {
            return;
        }
        let slice = shared.config.tunables.cfs_bandwidth_slice_ns();
        if let Some(at) = self.pool(shared, cfs, |pool| pool.give_back(slack as u64, slice, now)) {
            self.arm(Timer::GroupSlack(self.class.groups[cfs].id), Some(at));
        }
    }
}
