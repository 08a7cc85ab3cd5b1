//! Deferred updates of hierarchy levels where nothing changes.
//!
//! If a task wakes or sleeps while others of its group are queued, the kernel only adds to sums at every level above.
//! Here, one sum serves all levels. Before a level changes or is read, all *catch up* to their exact state. So a
//! wakeup's cost does not depend on its group's depth (`docs/simulator.md`).
//!
//! Conditions, which [`Rq::watch`] checks first, and [`Rq::stays_quiet`] again if they can change meanwhile:
//!
//! - Every queue between the group's and the root's has one entity. Code that changes another there first calls
//!   [`Rq::catch_up`].
//! - Within a PELT period (1024 us), averages do not change, and sums grow linearly. The next period's first call
//!   updates all levels.
//! - The groups are queued on this CPU only, with their whole weight.
//! - The running entity of such a queue has the weight of nice 0. So charging in parts changes nothing until its
//!   request is used up ([`Discipline::undisturbed`]).
//! - No such group is idle (`cpu.idle`) or throttled, and all queues have the same buddies, `next` and `last`.

use super::discipline::{Discipline, Fair};
use super::entity::{ROOT, Se};
use super::pelt::Step;
use super::queue::load_changed;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::tunables::Tunables;
use crate::weight::{self, MIN_SHARES, NICE_0_LOAD};

/// A buddy of a queue: index in [`Quiet::buddies`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Buddy {
    Next = 0,
    /// Ran last, and was preempted.
    Last = 1,
}

/// No group: all levels are up to date.
const NO_GROUP: u32 = u32::MAX;

/// A group with unchanged levels above, and their deferred updates.
#[derive(Clone, Debug)]
pub(crate) struct Quiet {
    leaf: u32,
    /// Ancestor of `leaf` (or itself) just below the root.
    top: u32,
    /// Whether `top` is alone in the root's queue, whose counts and buddies alone are then up to date.
    root: bool,
    /// Last update of the averages, on the PELT clock, nanoseconds.
    at: u64,
    /// Microseconds before `at` that the levels lack.
    micros: u64,
    /// Microseconds after which averages change.
    period: u64,
    /// End of the deferred charges, on the run queue's clock.
    charged: u64,
    /// From then on charging does more than add up.
    undisturbed_until: u64,
    /// [`Shared::group_loads`] when last found on this CPU alone.
    loads: u32,
    /// Deferred changes of `h_nr_queued`, `h_nr_runnable` and `h_nr_idle`.
    queued: i32,
    runnable: i32,
    idle: i32,
    /// `runnable` at the last update of the entities' counts.
    below: i32,
    /// Sums of microseconds times `runnable`, and times `below`.
    runnable_micros: i64,
    below_micros: i64,
    /// Whether the queues between have buddies, and whether that is deferred.
    buddies: [bool; 2],
    news: [bool; 2],
}

impl Quiet {
    pub(crate) const NONE: Self = Self {
        leaf: NO_GROUP,
        top: NO_GROUP,
        root: false,
        at: 0,
        micros: 0,
        period: 0,
        charged: 0,
        undisturbed_until: 0,
        loads: 0,
        queued: 0,
        runnable: 0,
        idle: 0,
        below: 0,
        runnable_micros: 0,
        below_micros: 0,
        buddies: [false; 2],
        news: [false; 2],
    };
}

impl Quiet {
    #[inline]
    fn defer(&mut self, micros: u64) {
        self.at += micros << 10;
        self.micros += micros;
        self.runnable_micros += i64::from(self.runnable) * micros as i64;
        self.below_micros += i64::from(self.below) * micros as i64;
    }

    /// Notes that this CPU has published a load at `loads` ([`Shared::group_loads`]).
    #[inline]
    pub(super) fn own_load_changed(&mut self, loads: u32) {
        if self.loads == loads {
            self.loads = loads.wrapping_add(1);
        }
    }
}

impl<D: Discipline, T: Tunables> Rq<Fair<D, T>> {
    #[inline]
    pub(crate) fn catch_up(&mut self, shared: &Shared<Fair<D, T>>) {
        if self.class.quiet.leaf != NO_GROUP {
            self.tell_levels(shared);
        }
    }

    /// Catches up before the entity of `task` changes.
    #[inline]
    pub(crate) fn catch_up_around(&mut self, shared: &Shared<Fair<D, T>>, task: u32) {
        if self.class.quiet.leaf != NO_GROUP {
            self.catch_up_queue(shared, self.class.entities[Se::task(task)].parent);
        }
    }

    #[inline(never)]
    fn catch_up_queue(&mut self, shared: &Shared<Fair<D, T>>, queue: u32) {
        if queue == ROOT {
            self.tell_root(shared);
        } else if queue != self.class.quiet.leaf {
            self.tell_levels(shared);
        }
    }

    /// Catches up unless the switch is within the group.
    #[inline]
    pub(super) fn catch_up_between(&mut self, shared: &Shared<Fair<D, T>>, prev: Option<Se>, next: Option<Se>) {
        if self.class.quiet.leaf != NO_GROUP {
            let queue = |se: Option<Se>| se.map_or(ROOT, |se| self.se(se).parent);
            if queue(prev) != queue(next) {
                self.tell_levels(shared);
            }
        }
    }

    /// Catches up the root's queue for good.
    fn tell_root(&mut self, shared: &Shared<Fair<D, T>>) {
        let quiet = &mut self.class.quiet;
        if !core::mem::take(&mut quiet.root) {
            return;
        }
        let (micros, runnable, then, charged) = (quiet.micros, quiet.runnable, quiet.runnable_micros, quiet.charged);
        let top = Se::group(quiet.top);
        let (entity, queue) = self.class.both(top);
        let running = queue.curr == Some(top);
        let stored = queue.h_nr_runnable.wrapping_add_signed(-runnable);
        let runnable = (u64::from(stored) * micros).saturating_add_signed(then);
        queue.avg.catch_up(micros, weight::down(queue.weight), runnable, running);
        let unpaid = charged.wrapping_sub(entity.exec_start);
        if running && charged != 0 && unpaid as i64 > 0 {
            self.charge(shared, ROOT, top, unpaid);
        }
    }

    #[inline(never)]
    fn tell_levels(&mut self, shared: &Shared<Fair<D, T>>) {
        self.tell_root(shared);
        let quiet = core::mem::replace(&mut self.class.quiet, Quiet::NONE);
        let runnable_then = |now: u32, micros: i64| (u64::from(now) * quiet.micros).saturating_add_signed(micros);
        let mut se = Se::group(quiet.leaf);
        loop {
            let (entity, queue) = self.class.both(se);
            let (parent, running) = (entity.parent, queue.curr == Some(se));
            let below = runnable_then(entity.runnable_weight, quiet.below_micros);
            entity.avg.catch_up(quiet.micros, 1, below, running);
            entity.runnable_weight = entity.runnable_weight.wrapping_add_signed(quiet.below);
            if parent == ROOT {
                return;
            }
            let load = weight::down(queue.weight);
            let runnable = runnable_then(queue.h_nr_runnable, quiet.runnable_micros);
            queue.avg.catch_up(quiet.micros, load, runnable, running);
            queue.h_nr_queued = queue.h_nr_queued.wrapping_add_signed(quiet.queued);
            queue.h_nr_runnable = queue.h_nr_runnable.wrapping_add_signed(quiet.runnable);
            queue.h_nr_idle = queue.h_nr_idle.wrapping_add_signed(quiet.idle);
            for (news, buddy, kept) in
                [(quiet.news[0], quiet.buddies[0], &mut queue.next), (quiet.news[1], quiet.buddies[1], &mut queue.last)]
            {
                if news {
                    *kept = buddy.then_some(se);
                }
            }
            let unpaid = quiet.charged.wrapping_sub(entity.exec_start);
            if running && quiet.charged != 0 && unpaid as i64 > 0 {
                self.charge(shared, parent, se, unpaid);
            }
            se = Se::group(parent);
        }
    }

    /// Returns the deferred part of `h_nr_queued`, `h_nr_runnable` and `h_nr_idle`.
    pub(super) fn deferred_counts(&self, group: u32) -> [i32; 3] {
        let quiet = &self.class.quiet;
        let mut above = if quiet.leaf == NO_GROUP { ROOT } else { self.class.groups[quiet.leaf].parent };
        while above != ROOT {
            if above == group {
                return [quiet.queued, quiet.runnable, quiet.idle];
            }
            above = self.class.groups[above].parent;
        }
        [0; 3]
    }

    /// Counts a task that joined or left the queue of `leaf`, where others stay. `slice`: the shortest requested.
    /// Returns whether it was deferred.
    #[inline(never)]
    pub(super) fn stays_quiet(
        &mut self,
        shared: &Shared<Fair<D, T>>,
        leaf: u32,
        slice: Option<u64>,
        [queued, runnable, idle]: [i32; 3],
    ) -> bool {
        if self.class.quiet.leaf != leaf {
            return false;
        }
        let pelt = self.clock.pelt();
        let quiet = &self.class.quiet;
        let passed = pelt.wrapping_sub(quiet.at);
        let micros = passed >> 10;
        if (passed as i64) < 0
            || self.class.limits
            || self.class.groups[leaf].cfs.propagate
            || slice != Some(self.class.entities[Se::group(leaf)].slice)
            || (quiet.loads != shared.group_loads() && !self.are_still_alone(shared))
        {
            return false;
        }
        if self.class.quiet.micros + micros < self.class.quiet.period {
            self.class.quiet.defer(micros);
        } else {
            self.begin_period(shared, micros);
        }
        let quiet = &mut self.class.quiet;
        quiet.queued += queued;
        quiet.runnable += runnable;
        quiet.idle += idle;
        quiet.below = quiet.runnable;
        let (updates_root, root) = (!quiet.root, &mut self.class.groups[ROOT].cfs);
        if updates_root {
            root.update_avg(pelt);
        }
        root.h_nr_queued = root.h_nr_queued.wrapping_add_signed(queued);
        root.h_nr_runnable = root.h_nr_runnable.wrapping_add_signed(runnable);
        root.h_nr_idle = root.h_nr_idle.wrapping_add_signed(idle);
        true
    }

    /// Begins another period after `micros` microseconds: updates all averages only.
    #[inline(never)]
    fn begin_period(&mut self, shared: &Shared<Fair<D, T>>, micros: u64) {
        let quiet = &self.class.quiet;
        let (queued_then, below_then) = (quiet.runnable_micros, quiet.below_micros);
        let (more_queued, more_below, deferred) = (quiet.runnable, quiet.below, quiet.micros);
        let runnable_then = |stored: u32, then: i64, more: i32| {
            let deferred = (u64::from(stored) * deferred).saturating_add_signed(then);
            (deferred, u64::from(stored.wrapping_add_signed(more)))
        };
        let mut se = Se::group(quiet.leaf);
        let step = Step::new(&self.se(se).avg, deferred, micros);
        loop {
            let (entity, queue) = self.class.both(se);
            let (parent, running) = (entity.parent, queue.curr == Some(se));
            let runnable = runnable_then(entity.runnable_weight, below_then, more_below);
            let before = entity.avg.load_avg;
            entity.avg.step(&step, (1, weight::down(entity.weight)), runnable, running);
            load_changed::<D>(entity, queue, before);
            if parent == ROOT {
                if self.class.quiet.root {
                    let root = &mut self.class.groups[ROOT].cfs;
                    let stored = root.h_nr_runnable.wrapping_add_signed(-more_queued);
                    let runnable = runnable_then(stored, queued_then, more_queued);
                    root.avg.step(&step, (weight::down(root.weight), 1), runnable, running);
                }
                break;
            }
            let runnable = runnable_then(queue.h_nr_runnable, queued_then, more_queued);
            queue.avg.step(&step, (weight::down(queue.weight), 1), runnable, running);
            self.update_tg_load_avg(shared, parent);
            se = Se::group(parent);
        }
        let (at, period) = (step.last_update(), step.next_period());
        let quiet = &mut self.class.quiet;
        (quiet.at, quiet.period) = (at, period);
        (quiet.micros, quiet.runnable_micros, quiet.below_micros) = (0, 0, 0);
    }

    /// Counts a task of `leaf` that falls asleep queued, or the reverse. Returns whether it was deferred.
    #[inline]
    pub(super) fn counts_quietly(&mut self, leaf: u32, runnable: i32) -> bool {
        if self.class.quiet.leaf != leaf {
            return false;
        }
        self.class.quiet.runnable += runnable;
        let root = &mut self.class.groups[ROOT].cfs;
        root.h_nr_runnable = root.h_nr_runnable.wrapping_add_signed(runnable);
        true
    }

    /// Makes `leaf` and its ancestors buddies. Returns whether it was deferred.
    #[inline]
    pub(super) fn befriend_quietly(&mut self, leaf: u32, kind: Buddy) -> bool {
        let quiet = &mut self.class.quiet;
        if quiet.leaf != leaf {
            return false;
        }
        let (top, root) = (Some(Se::group(quiet.top)), &mut self.class.groups[ROOT].cfs);
        match kind {
            Buddy::Next => root.next = top,
            Buddy::Last => root.last = top,
        }
        quiet.news[kind as usize] = true;
        quiet.buddies[kind as usize] = true;
        true
    }

    /// Removes an entity of `leaf`, and those above, as buddies (`next`, `last`, `skip`). Returns, if deferred, the
    /// root's entity, and which buddy it may still be.
    pub(super) fn forget_quietly(&mut self, leaf: u32, buddy: [bool; 3]) -> Option<(Se, [bool; 3])> {
        let quiet = &mut self.class.quiet;
        if quiet.leaf != leaf {
            return None;
        }
        let top = Se::group(quiet.top);
        if quiet.leaf == quiet.top {
            return Some((top, buddy));
        }
        let mut still = [false; 3];
        for kind in [Buddy::Next as usize, Buddy::Last as usize] {
            if buddy[kind] && quiet.buddies[kind] {
                still[kind] = true;
                quiet.news[kind] = true;
                quiet.buddies[kind] = false;
            }
        }
        Some((top, still))
    }

    /// Returns the queue to pick from first.
    #[inline]
    pub(super) fn first_asked(&mut self, shared: &Shared<Fair<D, T>>) -> u32 {
        if self.class.quiet.root {
            return self.pick_quietly(shared, self.class.quiet.top).unwrap_or(ROOT);
        }
        ROOT
    }

    /// Continues the root's pick of `top`. Returns the next group to pick from, if no level between needs an update.
    #[inline]
    pub(super) fn pick_quietly(&mut self, shared: &Shared<Fair<D, T>>, top: u32) -> Option<u32> {
        let (now, quiet) = (self.clock.now(), &mut self.class.quiet);
        if quiet.top != top {
            return None;
        }
        if now < quiet.undisturbed_until && !self.class.limits {
            quiet.charged = now;
            return Some(quiet.leaf);
        }
        self.catch_up(shared);
        None
    }

    /// Whether all groups have their whole weight here.
    fn are_still_alone(&mut self, shared: &Shared<Fair<D, T>>) -> bool {
        let loads = shared.group_loads();
        let mut group = self.class.quiet.leaf;
        while group != ROOT {
            if !self.is_alone(shared, group) {
                return false;
            }
            group = self.class.groups[group].parent;
        }
        self.class.quiet.loads = loads;
        true
    }

    #[inline]
    fn is_alone(&self, shared: &Shared<Fair<D, T>>, group: u32) -> bool {
        let slot = &self.class.groups[group];
        let task_group = shared.group(slot.id);
        task_group.load_avg() == slot.cfs.tg_load_avg_contrib
            && self.class.entities[Se::group(group)].weight == task_group.shares().max(MIN_SHARES)
    }

    /// Starts to defer updates above `leaf`, not the root, if the conditions hold.
    #[inline(never)]
    pub(super) fn watch(&mut self, shared: &Shared<Fair<D, T>>, leaf: u32) {
        if self.class.limits || !shared.config.quiet_levels || self.class.quiet.leaf != NO_GROUP {
            return;
        }
        let loads = shared.group_loads();
        let root = &self.class.groups[ROOT].cfs.avg;
        let (at, period_contrib) = (root.last_update, root.period_contrib);
        let mut undisturbed_until = u64::MAX;
        let mut buddies = None;
        let mut group = leaf;
        loop {
            let se = Se::group(group);
            let entity = self.se(se);
            let parent = entity.parent;
            let in_step = entity.avg.last_update == at && entity.avg.period_contrib == period_contrib;
            if !in_step
                || !entity.on_rq
                || entity.delayed
                || entity.idle
                || entity.runnable_weight != self.class.groups[group].cfs.h_nr_runnable
                || self.class.groups[group].cfs.propagate
                || !self.is_alone(shared, group)
            {
                return;
            }
            if parent == ROOT {
                break;
            }
            let queue = &self.class.groups[parent].cfs;
            let in_step = queue.avg.last_update == at && queue.avg.period_contrib == period_contrib;
            let here = [queue.next.is_some(), queue.last.is_some()];
            if !in_step
                || queue.nr_queued != 1
                || queue.skip.is_some()
                || buddies.is_some_and(|buddies| buddies != here)
                || self.se(Se::group(parent)).slice != entity.slice
            {
                return;
            }
            if queue.curr == Some(se) {
                if entity.weight != NICE_0_LOAD {
                    return;
                }
                let until = entity.exec_start.saturating_add(D::undisturbed(entity, queue));
                undisturbed_until = undisturbed_until.min(until);
            }
            buddies = Some(here);
            group = parent;
        }
        let (entity, queue) = self.class.both(Se::group(group));
        let running = queue.curr == Some(Se::group(group));
        let root = queue.nr_queued == 1 && queue.removed.nr == 0 && (!running || entity.weight == NICE_0_LOAD);
        if root && running {
            let until = entity.exec_start.saturating_add(D::undisturbed(entity, queue));
            undisturbed_until = undisturbed_until.min(until);
        }
        self.class.quiet = Quiet {
            leaf,
            top: group,
            root,
            at,
            period: 1024 - u64::from(period_contrib),
            undisturbed_until,
            loads,
            buddies: buddies.unwrap_or_default(),
            ..Quiet::NONE
        };
    }
}
