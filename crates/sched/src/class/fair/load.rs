//! Load averages, and the division of a group's weight over its CPUs.

use super::discipline::{Discipline, Fair};
use super::entity::{CfsRq, Entity, ROOT, Removed, Se};
use super::pelt::{self, Avg, MIN_DIVIDER};
use super::queue::load_changed;
use crate::event::Running;
use crate::features::Feature;
use crate::kernels::Behaviour;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::tunables::Tunables;
use crate::weight::{self, MIN_SHARES};

/// Least interval at which a CPU publishes a group's load average, nanoseconds.
pub(super) const TG_UPDATE_NS: u64 = 1_000_000;

/// A smaller change of a task's utilisation (1 %) is noise.
const UTIL_EST_MARGIN: u64 = 1024 / 100;

/// In `util_est_ewma`: the utilisation is unchanged since the last estimate.
const UTIL_AVG_UNCHANGED: u16 = 1 << 15;

/// The mode of an update of an entity's averages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attach {
    /// Averages, and the group's sum of all CPUs.
    Keep,
    /// Without the group's sum, left to the next update (no `UPDATE_TG`).
    Silent,
    /// The entity joins the queue's averages if it has not yet.
    Join,
    /// The entity leaves the queue's averages.
    Leave,
}

/// Returns a weight in the user's scale, as in load averages.
#[inline]
pub(super) fn se_weight(weight: u64) -> u64 {
    weight::down(weight)
}

/// Updates the averages of `se` and its queue to PELT clock `now`. Returns whether the queue's changed. Without
/// `may_be_in_order`, the entity is running, or joins its queue.
#[inline(always)]
#[allow(clippy::inline_always)] // see `update_load_avg`
pub(super) fn update_avgs<D: Discipline>(
    entity: &mut Entity,
    queue: &mut CfsRq,
    se: Se,
    now: u64,
    may_be_in_order: bool,
) -> bool {
    debug_assert!(may_be_in_order || entity.ticket.is_none(), "{se:?} is in its queue's order");
    let now = queue.pelt_clock(now);
    let group = se.as_group().is_some();
    let runnable = match (entity.delayed, group) {
        (true, _) => 0,
        (false, true) => u64::from(entity.runnable_weight),
        (false, false) => u64::from(entity.on_rq),
    };
    let is_summed = !D::AVERAGES && may_be_in_order && entity.ticket.is_some();
    if is_summed {
        queue.sum_w -= entity.avg.load_avg;
    }
    entity.update_avg(now, runnable, queue.curr == Some(se));
    if is_summed {
        queue.sum_w += entity.avg.load_avg;
    }
    queue.update_avg(now)
}

impl<D: Discipline, T: Tunables> Rq<Fair<D, T>> {
    /// Updates an entity's and its queue's averages, and propagates changes from below.
    #[inline(always)]
    #[allow(clippy::inline_always)] // most of the calls are in five places, which run at every switch
    pub(crate) fn update_load_avg(&mut self, shared: &Shared<Fair<D, T>>, se: Se, attach: Attach) {
        let now = self.clock.pelt();
        let (entity, queue) = self.class.both(se);
        let (parent, attached) = (entity.parent, entity.avg.last_update != 0);
        let decayed = update_avgs::<D>(entity, queue, se, now, !matches!(attach, Attach::Join));
        match attach {
            Attach::Keep => self.averages_updated(shared, se, parent, decayed),
            Attach::Silent => {
                self.propagate(shared, se);
            }
            Attach::Join | Attach::Leave => {
                let decayed = decayed | self.propagate(shared, se);
                self.updated(shared, se, parent, attach, attached, decayed);
            }
        }
    }

    #[inline]
    pub(super) fn averages_updated(&mut self, shared: &Shared<Fair<D, T>>, se: Se, parent: u32, decayed: bool) {
        let decayed = decayed | self.propagate(shared, se);
        if decayed {
            self.update_tg_load_avg(shared, parent);
        }
    }

    /// Propagates a group's queue to its entity, without the group's sum.
    #[inline]
    pub(super) fn propagate(&mut self, shared: &Shared<Fair<D, T>>, se: Se) -> bool {
        se.as_group().is_some() && self.propagate_entity_load_avg(shared, se)
    }

    #[inline]
    fn updated(
        &mut self,
        shared: &Shared<Fair<D, T>>,
        se: Se,
        parent: u32,
        attach: Attach,
        attached: bool,
        decayed: bool,
    ) {
        match attach {
            Attach::Join if !attached => {
                if let Some(task) = se.as_task().filter(|&task| self.tasks[task].went_above != 0) {
                    self.age_absent(shared, task);
                }
                self.attach_entity_load_avg(se);
                self.update_tg_load_avg(shared, parent);
            }
            Attach::Leave => {
                self.detach_entity_load_avg(se);
                self.update_tg_load_avg(shared, parent);
            }
            _ if decayed => self.update_tg_load_avg(shared, parent),
            _ => {}
        }
    }

    /// Decays a task's averages over its time in a higher class (4.3+).
    #[inline(never)]
    fn age_absent(&mut self, shared: &Shared<Fair<D, T>>, task: u32) {
        let since = core::mem::take(&mut self.tasks[task].went_above);
        if shared.config.has(Behaviour::AbsentDecays) {
            let (entity, queue) = self.class.both(Se::task(task));
            let now = queue.avg.last_update;
            entity.avg.last_update = since;
            let before = entity.avg.load_avg;
            entity.update_avg(now, 0, false);
            load_changed::<D>(entity, queue, before);
        }
    }

    pub(crate) fn attach_entity_load_avg(&mut self, se: Se) {
        let parent = self.se(se).parent;
        let queue = self.class.groups[parent].cfs.avg;
        let divider = queue.divider();
        let entity = self.se_mut(se);
        entity.avg.last_update = queue.last_update;
        entity.avg.period_contrib = queue.period_contrib;
        entity.avg.util_sum = entity.avg.util_avg * divider;
        entity.avg.runnable_sum = entity.avg.runnable_avg * divider;
        let weight = se_weight(entity.weight);
        let total = entity.avg.load_avg * divider;
        entity.avg.load_sum = if weight < total { total / weight } else { 1 };
        let avg = entity.avg;
        self.enqueue_load_avg(se);
        let cfs = &mut self.class.groups[parent].cfs;
        cfs.avg.util_avg += avg.util_avg;
        cfs.avg.util_sum += avg.util_sum;
        cfs.avg.runnable_avg += avg.runnable_avg;
        cfs.avg.runnable_sum += avg.runnable_sum;
        cfs.propagate = true;
        cfs.prop_runnable_sum += avg.load_sum as i64;
    }

    pub(crate) fn detach_entity_load_avg(&mut self, se: Se) {
        self.dequeue_load_avg(se);
        let entity = self.se(se);
        let (avg, parent) = (entity.avg, entity.parent);
        let cfs = &mut self.class.groups[parent].cfs;
        pelt::sub(&mut cfs.avg.util_avg, avg.util_avg);
        pelt::sub(&mut cfs.avg.util_sum, avg.util_sum);
        cfs.avg.util_sum = not_less(cfs.avg.util_sum, cfs.avg.util_avg * MIN_DIVIDER);
        pelt::sub(&mut cfs.avg.runnable_avg, avg.runnable_avg);
        pelt::sub(&mut cfs.avg.runnable_sum, avg.runnable_sum);
        cfs.avg.runnable_sum = not_less(cfs.avg.runnable_sum, cfs.avg.runnable_avg * MIN_DIVIDER);
        cfs.propagate = true;
        cfs.prop_runnable_sum -= avg.load_sum as i64;
    }

    /// Adds only the load average, as when the weight changes.
    pub(crate) fn enqueue_load_avg(&mut self, se: Se) {
        let entity = self.se(se);
        let (avg, weight, parent) = (entity.avg, se_weight(entity.weight), entity.parent);
        let cfs = &mut self.class.groups[parent].cfs;
        cfs.avg.load_avg += avg.load_avg;
        cfs.avg.load_sum += weight * avg.load_sum;
    }

    pub(crate) fn dequeue_load_avg(&mut self, se: Se) {
        let entity = self.se(se);
        let (avg, weight, parent) = (entity.avg, se_weight(entity.weight), entity.parent);
        let cfs = &mut self.class.groups[parent].cfs;
        pelt::sub(&mut cfs.avg.load_avg, avg.load_avg);
        pelt::sub(&mut cfs.avg.load_sum, weight * avg.load_sum);
        cfs.avg.load_sum = not_less(cfs.avg.load_sum, cfs.avg.load_avg * MIN_DIVIDER);
    }

    /// Decays a sleeper's averages to its queue's last update (`sync_entity_load_avg`).
    pub(crate) fn sync_entity_load_avg(&mut self, se: Se) {
        let entity = &self.class.entities[se];
        if entity.avg.last_update == 0 {
            return;
        }
        let last = self.class.groups[entity.parent].cfs.avg.last_update;
        let entity = &mut self.class.entities[se];
        if entity.avg.accumulate(last, 0, 0, false) {
            let weight = se_weight(entity.weight);
            entity.avg.average(weight);
        }
    }

    /// Marks a leaving sleeper's averages for subtraction.
    pub(crate) fn remove_entity_load_avg(&mut self, se: Se) {
        let entity = self.se(se);
        let parent = entity.parent;
        if entity.avg.last_update == 0 {
            return;
        }
        // Only what is still there is subtracted.
        self.sync_entity_load_avg(se);
        let avg = self.se(se).avg;
        let removed = &mut self.class.groups[parent].cfs.removed;
        removed.nr += 1;
        removed.load_avg += avg.load_avg;
        removed.util_avg += avg.util_avg;
        removed.runnable_avg += avg.runnable_avg;
        self.list_leaf(parent);
    }

    /// Decays a sleeper's averages when it leaves an idle CPU, where they stand still (`migrate_se_pelt_lag`, 6.0+).
    pub(crate) fn age_on_idle(&mut self, shared: &Shared<Fair<D, T>>, se: Se) {
        if self.running != Running::Idle || !shared.config.has(Behaviour::IdleLagDecays) {
            return;
        }
        let now = self.clock.pelt();
        let (entity, queue) = self.class.both(se);
        let weight = se_weight(entity.weight);
        if entity.avg.last_update != 0 && entity.avg.accumulate(queue.pelt_clock(now), 0, 0, false) {
            entity.avg.average(weight);
        }
    }

    /// Publishes a queue's load in its group's sum, if it changed enough.
    #[inline]
    pub(crate) fn update_tg_load_avg(&mut self, shared: &Shared<Fair<D, T>>, group: u32) {
        if group != ROOT {
            self.pass_load_on(shared, group);
        }
    }

    fn pass_load_on(&mut self, shared: &Shared<Fair<D, T>>, group: u32) {
        let now = self.clock.now();
        let slot = &mut self.class.groups[group];
        let cfs = &mut slot.cfs;
        // Since 6.7.
        if shared.config.has(Behaviour::GroupLoadRateLimit) && now.wrapping_sub(cfs.last_tg_update) < TG_UPDATE_NS {
            return;
        }
        let delta = cfs.avg.load_avg as i64 - cfs.tg_load_avg_contrib as i64;
        // The sum has no part of an offline CPU.
        if delta.unsigned_abs() > cfs.tg_load_avg_contrib / 64 && self.online {
            let loads = shared.add_group_load(slot.id, delta);
            cfs.tg_load_avg_contrib = cfs.avg.load_avg;
            cfs.last_tg_update = now;
            self.class.quiet.own_load_changed(loads);
        }
    }

    /// Removes this CPU's parts of the groups' sums (`clear_tg_offline_cfs_rqs`).
    pub(crate) fn clear_tg_load_avg(&mut self, shared: &Shared<Fair<D, T>>) {
        let slots = self.class.by_id.values();
        for &slot in slots {
            let slot = &mut self.class.groups[slot];
            let added = core::mem::take(&mut slot.cfs.tg_load_avg_contrib);
            shared.add_group_load(slot.id, -(added as i64));
        }
    }

    #[inline(never)]
    fn propagate_entity_load_avg(&mut self, shared: &Shared<Fair<D, T>>, se: Se) -> bool {
        let Some(group) = se.as_group() else { return false };
        let own = &mut self.class.groups[group].cfs;
        if !own.propagate {
            return false;
        }
        own.propagate = false;
        let runnable_sum = core::mem::take(&mut own.prop_runnable_sum);
        let own_avg = own.avg;
        let own_weight = weight::down(own.weight);
        let parent = self.class.groups[group].parent;
        let divider = self.class.groups[parent].cfs.avg.divider();

        let entity = &mut self.class.entities[se];
        let util_delta = own_avg.util_avg as i64 - entity.avg.util_avg as i64;
        let old_util_sum = entity.avg.util_sum;
        let old_runnable = (entity.avg.runnable_avg, entity.avg.runnable_sum);
        if util_delta != 0 {
            entity.avg.util_avg = own_avg.util_avg;
            entity.avg.util_sum = own_avg.util_avg * divider;
        }
        let runnable_delta = own_avg.runnable_avg as i64 - old_runnable.0 as i64;
        if runnable_delta != 0 {
            entity.avg.runnable_avg = own_avg.runnable_avg;
            let sum = own_avg.runnable_avg * divider;
            // 5.17+: the lower 32 bits, too few for some ninety runnable tasks (observed on 6.18.44). Late stable
            // releases (6.1.192, 6.12.117, 7.2.13) keep all.
            let narrow = shared.config.has(Behaviour::NarrowSum);
            entity.avg.runnable_sum = if narrow { u64::from(sum as u32) } else { sum };
        }

        // The runnable times of entities overlap, so a queue's runnable time is not in their sum. The estimate:
        // joining entities add up to always-runnable at most; leaving entities leave the mean of the rest.
        let mut load_delta = (0i64, 0i64);
        let load_before = entity.avg.load_avg;
        if runnable_sum != 0 {
            let mut new_sum = if runnable_sum > 0 {
                (runnable_sum + entity.avg.load_sum as i64).min(divider as i64)
            } else {
                let mean = own_avg.load_sum.checked_div(own_weight).unwrap_or(0) as i64;
                (entity.avg.load_sum as i64).min(mean)
            };
            let running_sum = (entity.avg.util_sum >> 10) as i64;
            new_sum = new_sum.max(running_sum);
            let weight = se_weight(entity.weight) as i64;
            let load_sum = weight * new_sum;
            let load_avg = load_sum / divider as i64;
            let delta_sum = load_sum - weight * entity.avg.load_sum as i64;
            let delta_avg = load_avg - entity.avg.load_avg as i64;
            // If the average is unchanged, so is the sum.
            if delta_avg != 0 {
                entity.avg.load_sum = new_sum.max(0) as u64;
                entity.avg.load_avg = load_avg.max(0) as u64;
                load_delta = (delta_avg, delta_sum);
            }
        }
        let new_util_sum = entity.avg.util_sum;
        let new_runnable_sum = entity.avg.runnable_sum;

        let queue = &mut self.class.groups[parent].cfs;
        load_changed::<D>(entity, queue, load_before);
        queue.propagate = true;
        queue.prop_runnable_sum += runnable_sum;
        let avg = &mut queue.avg;
        add_signed(&mut avg.util_avg, util_delta);
        add_signed(&mut avg.util_sum, new_util_sum as i64 - old_util_sum as i64);
        avg.util_sum = not_less(avg.util_sum, avg.util_avg * MIN_DIVIDER);
        add_signed(&mut avg.runnable_avg, runnable_delta);
        add_signed(&mut avg.runnable_sum, new_runnable_sum as i64 - old_runnable.1 as i64);
        avg.runnable_sum = not_less(avg.runnable_sum, avg.runnable_avg * MIN_DIVIDER);
        if load_delta.0 != 0 {
            add_signed(&mut avg.load_avg, load_delta.0);
            add_signed(&mut avg.load_sum, load_delta.1);
            avg.load_sum = not_less(avg.load_sum, avg.load_avg * MIN_DIVIDER);
        }
        true
    }

    /// Returns this CPU's part of the group's weight: its load relative to all CPUs' published loads.
    pub(crate) fn calc_group_shares(&self, shared: &Shared<Fair<D, T>>, group: u32) -> u64 {
        let slot = &self.class.groups[group];
        let task_group = shared.group(slot.id);
        let shares = task_group.shares();
        let load = weight::down(slot.cfs.weight).max(slot.cfs.avg.load_avg);
        let total = task_group.load_avg().saturating_sub(slot.cfs.tg_load_avg_contrib) + load;
        let mine = if total > 0 { weight::scale(shares, load, total) } else { shares };
        mine.clamp(MIN_SHARES, shares.max(MIN_SHARES))
    }

    /// Gives a group's entity this CPU's part of the weight (`update_cfs_group`).
    #[inline]
    pub(crate) fn update_cfs_group(&mut self, shared: &Shared<Fair<D, T>>, se: Se) {
        if let Some(group) = se.as_group() {
            self.update_group(shared, se, group);
        }
    }

    fn update_group(&mut self, shared: &Shared<Fair<D, T>>, se: Se, group: u32) {
        // Up to 6.11, a group that has just become empty changes its weight, too.
        let empty = self.class.groups[group].cfs.weight == 0 && shared.config.has(Behaviour::EmptyKeepsWeight);
        if empty || self.keeps_weight(shared, group) {
            return;
        }
        let shares = self.calc_group_shares(shared, group);
        if shares != self.class.entities[Se::group(group)].weight {
            D::reweight(self, shared, se, shares);
        }
    }

    /// Puts a group and its ancestors on the list of groups to decay.
    pub(crate) fn list_leaf(&mut self, group: u32) {
        let mut group = group;
        while !self.class.groups[group].cfs.listed {
            let slot = &mut self.class.groups[group];
            slot.cfs.listed = true;
            self.class.leaves.add(group, slot.cfs.depth);
            group = slot.parent;
        }
    }

    /// Decays all listed groups, children first. Decayed groups leave the list.
    pub(crate) fn update_blocked(&mut self, shared: &Shared<Fair<D, T>>) {
        let now = self.clock.pelt();
        if self.class.leaves.is_root_only() {
            self.class.groups[ROOT].cfs.update_avg(now);
            return;
        }
        let leaves = self.class.leaves.take();
        let mut decayed = false;
        for group in leaves.iter() {
            let queue = &mut self.class.groups[group].cfs;
            let now = queue.pelt_clock(now);
            if queue.update_avg(now) {
                self.update_tg_load_avg(shared, group);
            }
            if group != ROOT {
                let slot = &self.class.groups[group];
                // The entity of a queued or just changed group follows its queue.
                let avg = &self.class.entities[Se::group(group)].avg;
                if slot.cfs.propagate || avg.load_sum > 0 || avg.util_sum > 0 {
                    self.update_load_avg(shared, Se::group(group), Attach::Keep);
                }
                decayed |= self.class.groups[group].cfs.is_decayed();
            }
        }
        self.class.leaves = leaves;
        if !decayed {
            return;
        }
        let groups = &mut self.class.groups;
        self.class.leaves.retain(|group| {
            let keep = group == ROOT || !groups[group].cfs.is_decayed();
            if !keep {
                groups[group].cfs.listed = false;
            }
            keep
        });
    }

    /// Sets a forked task's averages: its weight as load, and its part of the queue's utilisation, at most half of the
    /// free capacity.
    pub(crate) fn init_task_avg(&mut self, shared: &Shared<Fair<D, T>>, task: u32) {
        let parent = self.class.entities[Se::task(task)].parent;
        let queue = &self.class.groups[parent].cfs.avg;
        let capacity = u64::from(shared.capacity(self.cpu));
        let spare = capacity.saturating_sub(queue.util_avg) / 2;
        let (queue_util, queue_load) = (queue.util_avg, queue.load_avg);
        let late = shared.config.has(Behaviour::InitUtilScale);
        let entity = &mut self.class.entities[Se::task(task)];
        entity.avg.load_avg = se_weight(entity.weight);
        if spare > 0 {
            entity.avg.util_avg = if queue_util > 0 {
                // Until 6.10, the weight is in the scheduler's scale and the load in the user's: mostly all that is
                // spare.
                let weight = if late { se_weight(entity.weight) } else { entity.weight };
                (queue_util * weight / (queue_load + 1)).min(spare)
            } else {
                spare
            };
        }
        entity.avg.runnable_avg = entity.avg.util_avg;
    }

    pub(crate) fn util_est_enqueue(&mut self, shared: &Shared<Fair<D, T>>, task: u32) {
        if shared.config.features.has(Feature::UtilEst) {
            self.class.util_est += u64::from(self.class.entities[Se::task(task)].avg.util_est);
        }
    }

    pub(crate) fn util_est_dequeue(&mut self, shared: &Shared<Fair<D, T>>, task: u32) {
        if shared.config.features.has(Feature::UtilEst) {
            pelt::sub(&mut self.class.util_est, u64::from(self.class.entities[Se::task(task)].avg.util_est));
        }
    }

    /// Updates a sleeper's utilisation estimate: up at once, down by a quarter of the difference. 6.8+: not down if it
    /// had to wait.
    pub(crate) fn util_est_update(&mut self, shared: &Shared<Fair<D, T>>, task: u32) {
        if !shared.config.features.has(Feature::UtilEst) {
            return;
        }
        let before_6_8 = !shared.config.has(Behaviour::EstWaits);
        let capacity = u64::from(shared.capacity(self.cpu));
        let avg = &mut self.class.entities[Se::task(task)].avg;
        // A task that sleeps often has one sample per period.
        if avg.util_est_ewma & UTIL_AVG_UNCHANGED != 0 {
            return;
        }
        if before_6_8 && !shared.config.features.has(Feature::UtilEstFastup) {
            update_slowly(avg, capacity);
            return;
        }
        let (used, estimate) = (avg.util_avg, u64::from(avg.util_est));
        if used >= estimate {
            avg.util_est = used as u16;
            avg.util_est_ewma |= UTIL_AVG_UNCHANGED;
            return;
        }
        let too_much = estimate - used;
        // 5.1 to 6.15: utilisation from a bigger CPU is no sample.
        let elsewhere = used > capacity && shared.config.has(Behaviour::EstElsewhere);
        if too_much < UTIL_EST_MARGIN || elsewhere {
            return;
        }
        if !before_6_8 && used + UTIL_EST_MARGIN < avg.runnable_avg {
            return;
        }
        avg.util_est = (estimate - too_much.div_ceil(4)) as u16;
        avg.util_est_ewma |= UTIL_AVG_UNCHANGED;
    }
}

/// Without UTIL_EST_FASTUP, the average follows by a quarter. The estimate is the larger of average and last use.
fn update_slowly(avg: &mut Avg, capacity: u64) {
    let used = avg.util_avg as i64;
    let delta = used - i64::from(avg.util_est_ewma);
    if delta.unsigned_abs() >= UTIL_EST_MARGIN {
        if avg.util_avg > capacity {
            return;
        }
        avg.util_est_ewma = (i64::from(avg.util_est_ewma) + delta.div_euclid(4)) as u16;
    }
    avg.util_est = avg.util_est_ewma.max(used as u16);
    avg.util_est_ewma |= UTIL_AVG_UNCHANGED;
}

fn add_signed(value: &mut u64, delta: i64) {
    *value = value.saturating_add_signed(delta);
}

impl Entity {
    /// `runnable`: runnable tasks since the last update.
    #[inline]
    fn update_avg(&mut self, now: u64, runnable: u64, running: bool) {
        if self.avg.last_update == 0 || self.avg.is_current(now) {
            return;
        }
        if self.avg.accumulate(now, u64::from(self.on_rq), runnable, running) {
            self.avg.average(se_weight(self.weight));
            self.avg.util_est_ewma &= !UTIL_AVG_UNCHANGED;
        }
    }
}

impl CfsRq {
    /// Returns whether the averages changed.
    #[inline]
    pub(super) fn update_avg(&mut self, now: u64) -> bool {
        let removed = self.removed.nr > 0;
        if removed {
            self.take_off_removed();
        } else if self.avg.is_current(now) {
            return false;
        }
        let load = weight::down(self.weight);
        let changed = self.avg.accumulate(now, load, u64::from(self.h_nr_runnable), self.curr.is_some());
        if changed {
            self.avg.average(1);
        }
        removed | changed
    }

    #[cold]
    fn take_off_removed(&mut self) {
        let removed = core::mem::take(&mut self.removed);
        let divider = self.avg.divider();
        take_off(&mut self.avg, &removed, divider);
        self.propagate = true;
        self.prop_runnable_sum -= ((removed.runnable_avg * divider) >> 10) as i64;
    }
}

fn take_off(avg: &mut pelt::Avg, removed: &Removed, divider: u64) {
    pelt::sub(&mut avg.load_avg, removed.load_avg);
    pelt::sub(&mut avg.load_sum, removed.load_avg * divider);
    avg.load_sum = not_less(avg.load_sum, avg.load_avg * MIN_DIVIDER);
    pelt::sub(&mut avg.util_avg, removed.util_avg);
    pelt::sub(&mut avg.util_sum, removed.util_avg * divider);
    avg.util_sum = not_less(avg.util_sum, avg.util_avg * MIN_DIVIDER);
    pelt::sub(&mut avg.runnable_avg, removed.runnable_avg);
    pelt::sub(&mut avg.runnable_sum, removed.runnable_avg * divider);
    avg.runnable_sum = not_less(avg.runnable_sum, avg.runnable_avg * MIN_DIVIDER);
}

/// Returns a sum that is at least `likely`. Kernels compare and keep the lower 32 bits (`max_t(u32, ...)`). A load
/// above about 91,900, ninety tasks of nice 0, thus loses the rest until the tasks' averages restore it. (Observed on
/// 6.18.44; 6.1 and 6.12 have the same text.) Older kernels share it here only with these averages.
fn not_less(sum: u64, likely: u64) -> u64 {
    u64::from((sum as u32).max(likely as u32))
}
