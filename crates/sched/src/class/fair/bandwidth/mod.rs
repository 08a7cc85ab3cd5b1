//! CFS bandwidth control (`cpu.max`): a group's quota of CPU time per period.
//!
//! Each CPU charges a local runtime, refilled with slices from the group's [`Pool`]. If the pool is empty, the group is
//! *throttled* on that CPU until the next period. Ticks, wakeups and switches charge, so a CPU may overrun by a tick,
//! which it pays first.
//!
//! What kernels do differently:
//! - **3.10**, **3.12**, **4.18-el8**: local runtime *expires* with its period. Each CPU keeps up to 1 ms, so groups
//!   with little work on many CPUs lose quota.
//! - **3.17**, **3.18**: the CPU that was throttled last is unthrottled first, so a small quota starves others.
//! - **Up to 6.17**: throttling dequeues the group's entity, with all below, and stops its PELT clock.
//! - **Up to 6.5**: a queue throttled while empty counts as throttled time. Later it does not.
//! - **6.4+**: the periods of groups have different phases.
//! - **6.18+**: a task is throttled at its return to user mode, so one that holds a kernel lock continues. It waits in
//!   the group's *limbo*. The PELT clock stops when the last task has left.
//!
//! Simplified: the timer's handler unthrottles other CPUs (since 6.3 an interrupt does). No timer is late, so periods
//! are never lengthened.

mod invariants;
pub(crate) mod pool;
mod slices;

use alloc::boxed::Box;
use alloc::vec::Vec;

use pool::Pool;
pub use pool::{BandwidthStat, Limit, LimitError};

use super::discipline::{Discipline, Fair};
use super::entity::{CfsRq, ROOT, Se};
use super::load::Attach;
use crate::event::{Event, Running};
use crate::ids::GroupId;
use crate::kernels::Behaviour;
use crate::policy::{Dequeue, Enqueue};
use crate::rq::Rq;
use crate::shared::Shared;
use crate::tunables::Tunables;

/// Local runtime kept without runnable tasks (`min_cfs_rq_runtime`).
const MIN_RUNTIME_NS: i64 = 1_000_000;

/// State on one CPU of a group with a limit, its own or an ancestor's.
#[derive(Debug, Default)]
pub(crate) struct Local {
    /// Whether the group itself has a limit.
    runtime_enabled: bool,
    /// Rest of the last slice; negative: owed.
    runtime_remaining: i64,
    /// Number of the slice's period.
    period: u64,
    /// End of that period by this CPU's clock.
    expires: u64,
    /// Whether the group's own limit is used up.
    throttled: bool,
    /// Before 6.18: whether its entity is dequeued.
    off: bool,
    /// Start of the throttled time, if it counts.
    throttled_clock: Option<u64>,
    /// Used-up limits, its own and those above.
    throttle_count: u32,
    /// PELT clock: when it stopped, and its earlier stops in total.
    pelt_stopped_at: Option<u64>,
    pelt_stopped_for: u64,
    /// Groups below it on this CPU, parents before children.
    below: Vec<u32>,
    /// Throttled tasks that have left its queue (6.18).
    limbo: Vec<u32>,
}

impl CfsRq {
    /// Whether its entity is dequeued, so its tasks do not count above.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        self.bandwidth.as_ref().is_some_and(|local| local.off)
    }

    #[inline]
    pub(crate) fn in_throttled_hierarchy(&self) -> bool {
        self.bandwidth.as_ref().is_some_and(|local| local.throttle_count > 0)
    }

    /// Whether its own limit is used up, and [`Local::throttle_count`].
    pub(crate) fn throttles(&self) -> (bool, u32) {
        self.bandwidth.as_ref().map_or((false, 0), |local| (local.throttled, local.throttle_count))
    }

    /// Returns its PELT clock, which stands still while it is throttled. `now` is the CPU's.
    #[inline]
    pub(crate) fn pelt_clock(&self, now: u64) -> u64 {
        match &self.bandwidth {
            None => now,
            Some(local) => local.pelt_clock(now),
        }
    }
}

impl Local {
    fn pelt_clock(&self, now: u64) -> u64 {
        self.pelt_stopped_at.unwrap_or(now).saturating_sub(self.pelt_stopped_for)
    }

    fn stop_pelt(&mut self, now: u64) {
        self.pelt_stopped_at.get_or_insert(now);
    }

    fn restart_pelt(&mut self, now: u64) {
        if let Some(since) = self.pelt_stopped_at.take() {
            self.pelt_stopped_for += now - since;
        }
    }

    fn used_up(&self) -> bool {
        self.runtime_enabled && self.runtime_remaining <= 0
    }
}

/// Hot paths: without limits on a CPU, each call tests one flag.
impl<D: Discipline, T: Tunables> Rq<Fair<D, T>> {
    #[inline]
    pub(crate) fn charge_limit(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32, delta: u64) {
        if self.class.limits && self.class.groups[cfs].cfs.bandwidth.is_some() {
            self.account_runtime(shared, cfs, delta);
        }
    }

    #[inline]
    pub(crate) fn limit_first_queued(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32) {
        if self.class.limits && self.class.groups[cfs].cfs.bandwidth.is_some() {
            self.check_enqueue_throttle(shared, cfs);
        }
    }

    #[inline]
    pub(crate) fn limit_dequeued(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32) {
        if self.class.limits && self.class.groups[cfs].cfs.bandwidth.is_some() {
            self.last_dequeued(shared, cfs);
        }
    }

    /// Returns whether the queue is throttled, at a put or a pick.
    #[inline]
    pub(crate) fn check_limit(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32) -> bool {
        self.class.limits && self.class.groups[cfs].cfs.bandwidth.is_some() && self.check_runtime(shared, cfs)
    }

    /// Defers the check of limits until the CPU has balanced, as the kernel puts the task then. Until then, other CPUs
    /// may pull an exhausted group's tasks.
    #[inline]
    pub(crate) fn put_before_look(&mut self, se: Se) {
        if self.class.limits && se.as_task().is_some() {
            self.class.unchecked = Some(self.class.entities[se].parent);
        }
    }

    /// Makes the checks that [`Self::put_before_look`] deferred.
    #[inline]
    pub(crate) fn check_limits_left(&mut self, shared: &Shared<Fair<D, T>>) {
        if self.class.limits
            && let Some(mut cfs) = self.class.unchecked.take()
        {
            loop {
                self.check_limit(shared, cfs);
                if cfs == ROOT {
                    break;
                }
                cfs = self.class.groups[cfs].parent;
            }
        }
    }

    #[inline]
    pub(crate) fn is_off(&self, cfs: u32) -> bool {
        self.class.limits && self.class.groups[cfs].cfs.is_off()
    }

    #[inline]
    pub(crate) fn limit_new_slot(&mut self, shared: &Shared<Fair<D, T>>, slot: u32) {
        let parent = self.class.groups[slot].parent;
        let pool = shared.group(self.class.groups[slot].id).pool();
        if pool.is_some() || self.class.groups[parent].cfs.bandwidth.is_some() {
            self.adopt_slot(shared, slot);
        }
    }

    /// Whether a limit forbids a woken task to preempt.
    #[inline]
    pub(crate) fn may_not_preempt(&self, shared: &Shared<Fair<D, T>>, task: u32) -> bool {
        if !self.class.limits {
            return false;
        }
        let entity = &self.class.entities[Se::task(task)];
        let hierarchy = !shared.config.has(Behaviour::TaskThrottle);
        self.class.groups[entity.parent].cfs.in_throttled_hierarchy() && (hierarchy || entity.throttled)
    }

    /// Whether a limit freezes the group's share of the weight.
    #[inline]
    pub(crate) fn keeps_weight(&self, shared: &Shared<Fair<D, T>>, group: u32) -> bool {
        self.class.limits
            && self.class.groups[group].cfs.in_throttled_hierarchy()
            && !shared.config.has(Behaviour::TaskThrottle)
    }
}

impl<D: Discipline, T: Tunables> Rq<Fair<D, T>> {
    /// Throttles a queue, unless the pool has runtime (`throttle_cfs_rq`). Returns whether it did.
    fn throttle(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32) -> bool {
        if self.assign_runtime(shared, cfs, 1) {
            return false;
        }
        let cpu = self.cpu;
        let first = shared.config.has(Behaviour::LimitLastFirst);
        self.pool(shared, cfs, |pool| pool.wait(cpu, first));
        let by_task = shared.config.has(Behaviour::TaskThrottle);
        let pelt = self.clock.pelt();
        self.each_from(cfs, |rq, group| {
            let queued = rq.class.groups[group].cfs.nr_queued > 0;
            let local = rq.local_mut(group);
            if local.throttle_count == 0 && (!by_task || !queued) {
                local.stop_pelt(pelt);
            }
            local.throttle_count += 1;
        });
        let local = self.local_mut(cfs);
        local.throttled = true;
        debug_assert!(local.throttled_clock.is_none());
        if !by_task {
            self.take_off(shared, cfs);
            let counts = !shared.config.has(Behaviour::EmptyNotThrottled) || self.class.groups[cfs].cfs.nr_queued > 0;
            let now = self.clock.now();
            let local = self.local_mut(cfs);
            local.off = true;
            local.throttled_clock = counts.then_some(now);
        }
        let group = self.class.groups[cfs].id;
        self.event(Event::Throttle { group });
        true
    }

    /// Calls `with` for a group, then for all below it.
    fn each_from(&mut self, cfs: u32, mut with: impl FnMut(&mut Self, u32)) {
        let below = core::mem::take(&mut self.local_mut(cfs).below);
        with(self, cfs);
        for &group in &below {
            with(self, group);
        }
        self.local_mut(cfs).below = below;
    }

    fn take_off(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32) {
        let queue = &self.class.groups[cfs].cfs;
        let (tasks, runnable, mut idle) = (queue.h_nr_queued, queue.h_nr_runnable, queue.h_nr_idle);
        let mut group = cfs;
        let mut leaving = true;
        loop {
            let se = Se::group(group);
            // A group above is throttled as well, or this queue was empty.
            if !self.se(se).on_rq {
                return;
            }
            if leaving {
                let why = if self.se(se).delayed { Dequeue::Delayed } else { Dequeue::Throttle };
                self.dequeue_entity(shared, se, why);
            } else {
                self.update_load_avg(shared, se, Attach::Silent);
                self.se_update_runnable(se);
            }
            if self.se(se).idle {
                idle = tasks;
            }
            group = self.se(se).parent;
            let queue = &mut self.class.groups[group].cfs;
            queue.h_nr_queued -= tasks;
            queue.h_nr_runnable -= runnable;
            queue.h_nr_idle -= idle;
            leaving = leaving && queue.weight == 0;
            if group == ROOT {
                self.nr_running -= tasks;
                return;
            }
        }
    }

    /// Reverses [`Self::take_off`].
    fn put_on(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32) {
        let queue = &self.class.groups[cfs].cfs;
        let (tasks, runnable, mut idle) = (queue.h_nr_queued, queue.h_nr_runnable, queue.h_nr_idle);
        if queue.nr_queued == 0 {
            return;
        }
        let mut group = cfs;
        let mut joining = true;
        loop {
            let se = Se::group(group);
            if joining && self.se(se).delayed {
                self.dequeue_entity(shared, se, Dequeue::Delayed);
            }
            joining = joining && !self.se(se).on_rq;
            if joining {
                self.enqueue_entity(shared, se, Enqueue::Wakeup);
            } else {
                self.update_load_avg(shared, se, Attach::Keep);
                self.se_update_runnable(se);
            }
            if self.se(se).idle {
                idle = tasks;
            }
            group = self.se(se).parent;
            let queue = &mut self.class.groups[group].cfs;
            queue.h_nr_queued += tasks;
            queue.h_nr_runnable += runnable;
            queue.h_nr_idle += idle;
            if queue.is_off() {
                return;
            }
            if group == ROOT {
                self.count_running(shared, tasks);
                return;
            }
        }
    }

    fn count_running(&mut self, shared: &Shared<Fair<D, T>>, tasks: u32) {
        self.nr_running += tasks;
        if self.nr_running >= 2 {
            shared.set_overloaded(self.cpu, true);
        }
    }

    /// Unthrottles a queue (`unthrottle_cfs_rq`).
    fn unthrottle(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32) {
        let (cpu, now) = (self.cpu, self.clock.now());
        let local = self.local_mut(cfs);
        local.throttled = false;
        local.off = false;
        let ns = local.throttled_clock.take().map_or(0, |since| now - since);
        self.pool(shared, cfs, |pool| pool.unthrottle(cpu, ns));
        let group = self.class.groups[cfs].id;
        self.event(Event::Unthrottle { group, ns });
        // Children first. A task that returns may find a limit above used up, which changes the counts below again.
        let below = self.local(cfs).below.clone();
        for &group in below.iter().rev().chain([&cfs]) {
            self.unthrottle_up(shared, group);
        }
        if !shared.config.has(Behaviour::TaskThrottle) {
            self.put_on(shared, cfs);
        }
        if self.running == Running::Idle && self.class.groups[ROOT].cfs.nr_queued > 0 && self.online {
            self.resched();
        }
    }

    fn unthrottle_up(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32) {
        let pelt = self.clock.pelt();
        let local = self.local_mut(cfs);
        local.throttle_count -= 1;
        if local.throttle_count > 0 {
            return;
        }
        local.restart_pelt(pelt);
        // Last in, first out.
        for task in core::mem::take(&mut local.limbo).into_iter().rev() {
            self.class.entities[Se::task(task)].throttled = false;
            self.enqueue_task(shared, task, Enqueue::Wakeup);
            self.count_running(shared, 1);
        }
    }
}

/// Throttling task by task (6.18).
impl<D: Discipline, T: Tunables> Rq<Fair<D, T>> {
    /// Throttles the running task at its return to user mode (`throttle_cfs_rq_work`).
    pub(crate) fn throttle_on_return(&mut self, shared: &Shared<Fair<D, T>>, task: u32) {
        self.class.entities[Se::task(task)].throttle_work = false;
        let parent = self.class.entities[Se::task(task)].parent;
        if !self.class.groups[parent].cfs.in_throttled_hierarchy() || !self.class.entities[Se::task(task)].on_rq {
            return;
        }
        self.dequeue_task(shared, task, Dequeue::Throttle);
        self.class.entities[Se::task(task)].throttled = true;
        self.nr_running -= 1;
        self.enter_limbo(task);
        self.resched();
    }

    fn enter_limbo(&mut self, task: u32) {
        let parent = self.class.entities[Se::task(task)].parent;
        self.local_mut(parent).limbo.push(task);
        // Only now does the throttling of the groups above keep a task from running.
        let now = self.clock.now();
        let mut group = parent;
        while let Some(local) = &mut self.class.groups[group].cfs.bandwidth {
            if local.throttled {
                local.throttled_clock.get_or_insert(now);
            }
            group = self.class.groups[group].parent;
        }
    }

    #[cold]
    pub(crate) fn dequeue_throttled(&mut self, task: u32, why: Dequeue) {
        let parent = self.class.entities[Se::task(task)].parent;
        self.local_mut(parent).limbo.retain(|&other| other != task);
        if matches!(why, Dequeue::Sleep | Dequeue::Dead) {
            self.class.entities[Se::task(task)].throttled = false;
        }
        // The caller decrements the count.
        self.nr_running += 1;
    }

    /// Whether a task from another CPU's limbo stays in limbo.
    #[cold]
    pub(crate) fn enqueue_throttled(&mut self, task: u32, why: Enqueue) -> bool {
        let parent = self.class.entities[Se::task(task)].parent;
        // A task that slept meanwhile, in a higher class, has to leave the kernel first.
        let stays = matches!(why, Enqueue::Move | Enqueue::Restore);
        if stays && self.curr_ordinary != Some(task) && self.class.groups[parent].cfs.in_throttled_hierarchy() {
            self.enter_limbo(task);
            // The caller increments the count.
            self.nr_running -= 1;
            return true;
        }
        self.class.entities[Se::task(task)].throttled = false;
        false
    }
}

impl<D: Discipline, T: Tunables> Rq<Fair<D, T>> {
    pub(crate) fn adopt_limit(&mut self, shared: &Shared<Fair<D, T>>, group: GroupId) {
        let Some(&slot) = self.class.by_id.get(&group) else { return };
        if self.class.groups[slot].cfs.bandwidth.is_none() {
            self.adopt_subtree(shared, slot);
        }
        let limited = self.pool(shared, slot, |pool| pool.limit().is_some());
        // The running task is charged later, for time before the change as well: the new limit owes that.
        let online = self.online;
        let local = self.local_mut(slot);
        local.runtime_enabled = limited && online;
        // Since 6.18 a nanosecond: a task that returns must not find the runtime used up.
        local.runtime_remaining = i64::from(shared.config.has(Behaviour::TaskThrottle));
        if local.throttled {
            self.unthrottle(shared, slot);
        }
    }

    /// Lifts all limits for going offline (`unthrottle_offline_cfs_rqs`).
    pub(crate) fn limits_offline(&mut self, shared: &Shared<Fair<D, T>>) {
        for slot in self.limited_slots() {
            let local = self.local_mut(slot);
            local.runtime_enabled = false;
            if local.throttled {
                local.runtime_remaining = 1;
                self.unthrottle(shared, slot);
            }
        }
    }

    /// Reverses [`Self::limits_offline`] (`update_runtime_enabled`).
    pub(crate) fn limits_online(&mut self, shared: &Shared<Fair<D, T>>) {
        for slot in self.limited_slots() {
            self.local_mut(slot).runtime_enabled = shared.group(self.class.groups[slot].id).limit().is_some();
        }
    }

    fn limited_slots(&self) -> Vec<u32> {
        let groups = self.class.groups.iter();
        groups.filter(|(_, group)| group.cfs.bandwidth.is_some()).map(|(slot, _)| slot).collect()
    }

    /// Creates state for a group's first limit, and for all below without state. No ancestor has a limit.
    fn adopt_subtree(&mut self, shared: &Shared<Fair<D, T>>, slot: u32) {
        let groups = self.class.groups.iter().map(|(index, _)| index);
        let below: Vec<u32> = groups.filter(|&group| self.is_below(group, slot)).collect();
        for &group in [slot].iter().chain(&below) {
            match &mut self.class.groups[group].cfs.bandwidth {
                // The group has a limit, or is below one. Groups above that have just got state are not throttled.
                Some(local) => {
                    local.below.clear();
                    self.tell_above(group);
                }
                None => self.adopt_slot(shared, group),
            }
        }
    }

    /// Adds `slot` to [`Local::below`] of every group above that keeps state.
    fn tell_above(&mut self, slot: u32) {
        let mut group = self.class.groups[slot].parent;
        while let Some(above) = &mut self.class.groups[group].cfs.bandwidth {
            above.below.push(slot);
            group = self.class.groups[group].parent;
        }
    }

    /// Gives a queue its state of limits. The queues above that need state must have it already.
    fn adopt_slot(&mut self, shared: &Shared<Fair<D, T>>, slot: u32) {
        let runtime_enabled = self.online && shared.group(self.class.groups[slot].id).limit().is_some();
        let mut local = Local { runtime_enabled, ..Local::default() };
        let parent = self.class.groups[slot].parent;
        if let Some(above) = &self.class.groups[parent].cfs.bandwidth {
            local.throttle_count = above.throttle_count;
        }
        if local.throttle_count > 0 {
            local.stop_pelt(self.clock.pelt());
        }
        self.class.limits = true;
        self.class.groups[slot].cfs.bandwidth = Some(Box::new(local));
        self.tell_above(slot);
    }

    /// Pays a waiting group's debt from the pool; unthrottles it if paid.
    pub(crate) fn distribute_to(&mut self, shared: &Shared<Fair<D, T>>, group: GroupId) {
        let Some(&slot) = self.class.by_id.get(&group) else { return };
        if !self.class.groups[slot].cfs.bandwidth.as_ref().is_some_and(|local| local.throttled) {
            return;
        }
        let remaining = self.local(slot).runtime_remaining;
        let (amount, deadline) = self.pool(shared, slot, |pool| (pool.pay(remaining), pool.deadline()));
        self.renew(slot, deadline);
        let local = self.local_mut(slot);
        local.runtime_remaining += amount as i64;
        if local.runtime_remaining > 0 {
            self.unthrottle(shared, slot);
        }
    }

    pub(crate) fn is_throttled(&self, shared: &Shared<Fair<D, T>>, task: u32) -> bool {
        let entity = &self.class.entities[Se::task(task)];
        let hierarchy = !shared.config.has(Behaviour::TaskThrottle);
        entity.throttled || (hierarchy && self.class.groups[entity.parent].cfs.in_throttled_hierarchy())
    }

    /// Whether a limit forbids the balancer to move a task (`throttled_lb_pair`).
    pub(crate) fn limit_forbids_move(&self, shared: &Shared<Fair<D, T>>, task: u32, to: &Self) -> bool {
        let parent = self.class.entities[Se::task(task)].parent;
        self.class.limits
            && self.class.groups[parent].cfs.bandwidth.is_some()
            && (self.is_throttled(shared, task) || to.throttles(shared, self.tasks[task].group))
    }

    fn throttles(&self, shared: &Shared<Fair<D, T>>, group: GroupId) -> bool {
        let mut group = group;
        loop {
            if let Some(&slot) = self.class.by_id.get(&group) {
                return self.class.groups[slot].cfs.in_throttled_hierarchy();
            }
            group = shared.group(group).parent;
        }
    }

    fn is_below(&self, group: u32, above: u32) -> bool {
        let mut at = group;
        while at != ROOT {
            at = self.class.groups[at].parent;
            if at == above {
                return true;
            }
        }
        false
    }
}
