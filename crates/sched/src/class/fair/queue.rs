//! Enqueue, dequeue, charge and buddies, level by level up the hierarchy.

use super::discipline::{Discipline, Fair};
use super::entity::{CfsRq, Entity, GroupRq, ROOT, Se};
use super::load::Attach;
use super::quiet::Buddy;
use crate::features::Feature;
use crate::ids::GroupId;
use crate::kernels::Behaviour;
use crate::policy::{Dequeue, Enqueue};
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::SchedPolicy;
use crate::tunables::Tunables;
use crate::weight;

#[inline]
pub(super) fn insert<D: Discipline>(entity: &mut Entity, queue: &mut CfsRq, se: Se) {
    let ticket = queue.timeline.insert(se.raw(), D::key(entity), entity.vruntime, entity.slice);
    entity.ticket = Some(ticket);
    if !D::AVERAGES {
        queue.sum_w += entity.avg.load_avg;
    }
}

/// Removes an entity from its queue's order, if it is there.
#[inline]
pub(super) fn erase<D: Discipline>(entity: &mut Entity, queue: &mut CfsRq, se: Se) {
    let Some(ticket) = entity.ticket.take() else { return };
    if !D::AVERAGES {
        queue.sum_w -= entity.avg.load_avg;
    }
    let removed = queue.timeline.remove(ticket);
    debug_assert_eq!(removed, Some(se.raw()));
}

/// Adds a placed entity to the queue's sums.
#[inline]
fn account_enqueue<D: Discipline>(entity: &Entity, queue: &mut CfsRq) {
    queue.weight += entity.weight;
    queue.nr_queued += 1;
    if D::AVERAGES {
        let weight = weight::down(entity.weight);
        queue.sum_wv += entity.vruntime.wrapping_sub(queue.zero) as i64 * weight as i64;
        queue.sum_w += weight;
    }
}

/// Updates the sum of load averages in the queue's order (CFS) after a change from `before`.
#[inline]
pub(super) fn load_changed<D: Discipline>(entity: &Entity, queue: &mut CfsRq, before: u64) {
    if !D::AVERAGES && entity.ticket.is_some() {
        queue.sum_w = queue.sum_w.wrapping_add(entity.avg.load_avg).wrapping_sub(before);
    }
}

/// Removes an entity, with unchanged place and weight, from the queue's sums.
#[inline]
fn account_dequeue<D: Discipline>(entity: &Entity, queue: &mut CfsRq) {
    queue.weight -= entity.weight;
    queue.nr_queued -= 1;
    if D::AVERAGES {
        let weight = weight::down(entity.weight);
        queue.sum_wv -= entity.vruntime.wrapping_sub(queue.zero) as i64 * weight as i64;
        queue.sum_w -= weight;
    }
}

impl<D: Discipline, T: Tunables> Rq<Fair<D, T>> {
    #[inline(always)]
    #[allow(clippy::inline_always)] // an access, not a call
    pub(crate) fn se(&self, se: Se) -> &Entity {
        &self.class.entities[se]
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // an access, not a call
    pub(crate) fn se_mut(&mut self, se: Se) -> &mut Entity {
        &mut self.class.entities[se]
    }

    /// Returns the group on whose queue `se` is; None: the root.
    #[inline]
    pub(crate) fn parent(&self, se: Se) -> Option<Se> {
        let parent = self.se(se).parent;
        (parent != ROOT).then_some(Se::group(parent))
    }

    /// Returns a group's index here. Creates it and its ancestors at the first task.
    pub(crate) fn group_slot(&mut self, shared: &Shared<Fair<D, T>>, id: GroupId) -> u32 {
        if id == GroupId::ROOT {
            return ROOT;
        }
        if let Some(&slot) = self.class.by_id.get(&id) {
            return slot;
        }
        let group = shared.group(id);
        let parent = self.group_slot(shared, group.parent);
        let mut se = Entity::new(weight::NICE_0_LOAD, group.idle());
        se.parent = parent;
        se.slice = shared.config.tunables.base_slice_ns();
        let slot = self.class.groups.push(GroupRq { cfs: CfsRq::new(group.depth), id, parent });
        self.class.entities.put(Se::group(slot), se);
        self.class.by_id.insert(id, slot);
        self.limit_new_slot(shared, slot);
        slot
    }

    /// `sched_group_set_idle`, with the counts above.
    pub(crate) fn set_group_idle(&mut self, slot: u32, idle: bool) {
        if self.class.entities[Se::group(slot)].idle == idle {
            return;
        }
        self.class.entities[Se::group(slot)].idle = idle;
        let cfs = &self.class.groups[slot].cfs;
        let others = cfs.h_nr_queued - cfs.h_nr_idle;
        let mut group = slot;
        // A throttled group does not count above; above an idle group, all tasks count.
        while group != ROOT
            && !self.class.groups[group].cfs.is_off()
            && (group == slot || !self.class.entities[Se::group(group)].idle)
        {
            group = self.class.groups[group].parent;
            let queue = &mut self.class.groups[group].cfs;
            if idle {
                queue.h_nr_idle += others;
            } else {
                queue.h_nr_idle -= others;
            }
        }
    }

    #[inline]
    pub(crate) fn update_curr(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32) {
        let Some(curr) = self.class.groups[cfs].cfs.curr else { return };
        let delta = self.clock.now().wrapping_sub(self.se(curr).exec_start);
        // Most calls come at a time already charged.
        if delta as i64 > 0 {
            self.charge(shared, cfs, curr, delta);
        }
    }

    /// Not inlined, so that [`Self::update_curr`] stays short.
    #[inline(never)]
    pub(super) fn charge(&mut self, shared: &Shared<Fair<D, T>>, cfs: u32, curr: Se, delta: u64) {
        let (entity, queue) = self.class.both(curr);
        entity.exec_start = entity.exec_start.wrapping_add(delta);
        entity.sum_exec_runtime += delta;
        let progress = weight::to_virtual(delta, entity.weight);
        entity.vruntime = entity.vruntime.wrapping_add(progress);
        if D::AVERAGES && entity.on_rq {
            queue.sum_wv += progress as i64 * weight::down(entity.weight) as i64;
        }
        if D::charged(entity, queue, shared) {
            self.resched_lazy();
            self.clear_buddies(curr, cfs);
        }
        self.charge_limit(shared, cfs, delta);
    }

    /// Charges the running task and the groups above it.
    pub(crate) fn update_curr_all(&mut self, shared: &Shared<Fair<D, T>>) {
        let Some(curr) = self.curr_ordinary else { return };
        let mut cfs = self.class.entities[Se::task(curr)].parent;
        loop {
            self.update_curr(shared, cfs);
            if cfs == ROOT {
                break;
            }
            cfs = self.class.groups[cfs].parent;
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, se: Se) {
        let (entity, queue) = self.class.both(se);
        insert::<D>(entity, queue, se);
    }

    #[inline]
    pub(crate) fn erase(&mut self, se: Se) {
        let (entity, queue) = self.class.both(se);
        erase::<D>(entity, queue, se);
    }

    /// Removes an entity as buddy after it has run or left.
    #[inline]
    pub(crate) fn clear_buddies(&mut self, se: Se, cfs: u32) {
        if self.class.groups[cfs].cfs.has_buddies() {
            self.forget_buddies(se);
        }
    }

    #[cold]
    fn forget_buddies(&mut self, se: Se) {
        let mut se = se;
        let clear = |slot: &mut Option<Se>, se| {
            let found = *slot == Some(se);
            if found {
                *slot = None;
            }
            found
        };
        // Buddies are set along the path upwards, so they end where one is missing.
        let (mut next, mut last, mut skip) = (true, true, true);
        loop {
            let parent = self.se(se).parent;
            let cfs = &mut self.class.groups[parent].cfs;
            if !cfs.has_buddies() {
                return;
            }
            next = next && clear(&mut cfs.next, se);
            last = last && clear(&mut cfs.last, se);
            skip = skip && clear(&mut cfs.skip, se);
            if parent == ROOT || !(next || last || skip) {
                return;
            }
            se = Se::group(parent);
            if let Some((top, buddy)) = self.forget_quietly(parent, [next, last, skip]) {
                [next, last, skip] = buddy;
                se = top;
            }
        }
    }

    /// Makes the entity and those above it next buddies.
    pub(crate) fn set_next_buddy(&mut self, se: Se) {
        let mut se = Some(se);
        while let Some(at) = se {
            if !self.se(at).on_rq || self.se(at).idle {
                return;
            }
            if at.as_group().is_some_and(|group| self.befriend_quietly(group, Buddy::Next)) {
                return;
            }
            let parent = self.se(at).parent;
            self.class.groups[parent].cfs.next = Some(at);
            se = self.parent(at);
        }
    }

    #[inline]
    pub(crate) fn account_enqueue(&mut self, se: Se) {
        let (entity, queue) = self.class.both(se);
        account_enqueue::<D>(entity, queue);
    }

    #[inline]
    pub(crate) fn account_dequeue(&mut self, se: Se) {
        let (entity, queue) = self.class.both(se);
        account_dequeue::<D>(entity, queue);
    }

    #[inline]
    fn is_curr(&self, se: Se) -> bool {
        self.class.groups[self.se(se).parent].cfs.curr == Some(se)
    }

    /// Stores the runnable tasks below a group's entity, for its next update.
    #[inline]
    pub(super) fn se_update_runnable(&mut self, se: Se) {
        if let Some(group) = se.as_group() {
            self.class.entities[se].runnable_weight = self.class.groups[group].cfs.h_nr_runnable;
        }
    }

    pub(super) fn enqueue_entity(&mut self, shared: &Shared<Fair<D, T>>, se: Se, why: Enqueue) {
        let cfs = self.se(se).parent;
        let curr = self.is_curr(se);
        if curr {
            D::place(self, shared, se, why);
        }
        self.update_curr(shared, cfs);
        if !curr {
            D::arrive(self, se, why);
        }
        self.update_load_avg(shared, se, Attach::Join);
        self.se_update_runnable(se);
        self.update_cfs_group(shared, se);
        if !curr {
            D::place(self, shared, se, why);
        }
        let (entity, queue) = self.class.both(se);
        account_enqueue::<D>(entity, queue);
        if !curr {
            insert::<D>(entity, queue, se);
        }
        entity.on_rq = true;
        if queue.nr_queued == 1 {
            self.list_leaf(cfs);
            self.limit_first_queued(shared, cfs);
        }
    }

    /// Returns false if the entity stays queued, delayed.
    #[inline]
    pub(super) fn dequeue_entity(&mut self, shared: &Shared<Fair<D, T>>, se: Se, why: Dequeue) -> bool {
        let cfs = self.se(se).parent;
        self.update_curr(shared, cfs);
        self.clear_buddies(se, cfs);
        let stays = why == Dequeue::Sleep && D::delays(self, shared, se);
        // A moving task takes its load along. A sleeper's load decays here.
        let attach = if why == Dequeue::Move && se.as_task().is_some() { Attach::Leave } else { Attach::Keep };
        self.update_load_avg(shared, se, if stays { Attach::Silent } else { attach });
        if stays {
            D::stays(self, shared, se);
            self.set_delayed(se);
            return false;
        }
        if attach == Attach::Leave {
            self.se_mut(se).avg.last_update = 0;
        }
        self.se_update_runnable(se);
        D::leave(self, shared, se, why);
        let (entity, queue) = self.class.both(se);
        if queue.curr != Some(se) {
            erase::<D>(entity, queue, se);
        }
        entity.on_rq = false;
        account_dequeue::<D>(entity, queue);
        self.limit_dequeued(shared, cfs);
        self.update_cfs_group(shared, se);
        D::left(self, se, why);
        if why == Dequeue::Delayed {
            self.clear_delayed(se);
            if shared.config.features.has(Feature::DelayZero) {
                let entity = self.se_mut(se);
                entity.vlag = entity.vlag.min(0);
            }
        }
        true
    }

    fn set_delayed(&mut self, se: Se) {
        self.se_mut(se).delayed = true;
        if se.as_task().is_some() {
            self.add_runnable(se, -1);
        }
    }

    #[inline]
    fn clear_delayed(&mut self, se: Se) {
        self.se_mut(se).delayed = false;
        if se.as_task().is_some() {
            self.add_runnable(se, 1);
        }
    }

    #[inline]
    fn add_runnable(&mut self, se: Se, delta: i32) {
        let leaf = self.se(se).parent;
        let nr = &mut self.class.groups[leaf].cfs.h_nr_runnable;
        *nr = nr.wrapping_add_signed(delta);
        if leaf != ROOT && !self.counts_quietly(leaf, delta) {
            self.add_runnable_above(leaf, delta);
        }
    }

    #[inline(never)]
    fn add_runnable_above(&mut self, group: u32, delta: i32) {
        let mut cfs = group;
        while cfs != ROOT && !self.is_off(cfs) {
            cfs = self.class.groups[cfs].parent;
            let nr = &mut self.class.groups[cfs].cfs.h_nr_runnable;
            *nr = nr.wrapping_add_signed(delta);
        }
    }

    /// Handles the wakeup of a delayed entity.
    fn requeue_delayed(&mut self, shared: &Shared<Fair<D, T>>, se: Se) {
        D::requeue_delayed(self, shared, se);
        self.update_load_avg(shared, se, Attach::Silent);
        self.clear_delayed(se);
    }

    #[inline]
    fn min_slice(&self, shared: &Shared<Fair<D, T>>, cfs: u32) -> Option<u64> {
        let queue = &self.class.groups[cfs].cfs;
        if self.class.slices {
            self.shortest_slice(queue)
        } else {
            (queue.nr_queued > 0).then(|| shared.config.tunables.base_slice_ns())
        }
    }

    #[inline(never)]
    fn shortest_slice(&self, cfs: &CfsRq) -> Option<u64> {
        let queued = cfs.timeline.min_slice();
        let running = cfs.curr.map(|curr| self.se(curr)).filter(|se| se.on_rq).map(|se| se.slice);
        match (queued, running) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    pub(crate) fn enqueue_task(&mut self, shared: &Shared<Fair<D, T>>, task: u32, why: Enqueue) {
        let mut se = Se::task(task);
        if why == Enqueue::Delayed {
            self.requeue_delayed(shared, se);
            self.util_est_enqueue(shared, task);
            return;
        }
        if self.class.entities[Se::task(task)].throttled && self.enqueue_throttled(task, why) {
            return;
        }
        // A task that moves while its dequeue is delayed stays delayed: asleep, it is queued but not runnable.
        let runnable = u32::from(!self.class.entities[Se::task(task)].delayed);
        if runnable > 0 {
            self.util_est_enqueue(shared, task);
        }
        let idle = u32::from(self.tasks[task].policy == SchedPolicy::Idle);
        let (mut why, mut idle) = (why, idle);
        let leaf = self.se(se).parent;
        let mut slice = None;
        let mut joining = true;
        loop {
            let cfs = self.se(se).parent;
            if joining && self.se(se).on_rq {
                if self.se(se).delayed {
                    self.requeue_delayed(shared, se);
                }
                joining = false;
            }
            if joining {
                // A group requests the shortest slice of its entities, so that they are served in time.
                if let (Some(slice), true) = (slice, se.as_group().is_some()) {
                    let entity = self.se_mut(se);
                    entity.slice = slice;
                    entity.custom_slice = true;
                }
                self.enqueue_entity(shared, se, why);
                why = Enqueue::Wakeup;
            } else {
                self.stays_queued(shared, se, slice);
            }
            let queue = &mut self.class.groups[cfs].cfs;
            queue.h_nr_queued += 1;
            queue.h_nr_runnable += runnable;
            queue.h_nr_idle += idle;
            if cfs == ROOT {
                break;
            }
            if queue.is_off() {
                // The caller counts it as running, but it is throttled.
                self.nr_running -= 1;
                break;
            }
            slice = self.min_slice(shared, cfs);
            if se.as_task().is_some() {
                if self.stays_quiet(shared, cfs, slice, [1, runnable as i32, idle as i32]) {
                    return;
                }
                self.catch_up(shared);
            }
            if self.class.entities[Se::group(cfs)].idle {
                idle = 1;
            }
            se = Se::group(cfs);
        }
        if leaf != ROOT {
            self.watch(shared, leaf);
        }
    }

    /// Updates a group's entity that stays queued after a change below.
    #[inline]
    fn stays_queued(&mut self, shared: &Shared<Fair<D, T>>, se: Se, slice: Option<u64>) {
        self.update_load_avg(shared, se, Attach::Keep);
        self.se_update_runnable(se);
        self.update_cfs_group(shared, se);
        if let Some(slice) = slice {
            self.set_slice(se, slice);
        }
    }

    /// Changes a queued group's slice, which the timeline has a copy of.
    fn set_slice(&mut self, se: Se, slice: u64) {
        if self.se(se).slice == slice {
            return;
        }
        let queued = self.se(se).ticket.is_some();
        if queued {
            self.erase(se);
        }
        self.se_mut(se).slice = slice;
        if queued {
            self.insert(se);
        }
    }

    pub(crate) fn dequeue_task(&mut self, shared: &Shared<Fair<D, T>>, task: u32, why: Dequeue) -> bool {
        let sleeps = matches!(why, Dequeue::Sleep | Dequeue::Dead | Dequeue::Throttle);
        if self.class.entities[Se::task(task)].throttled {
            self.dequeue_throttled(task, why);
            return true;
        }
        if why != Dequeue::Delayed && !self.class.entities[Se::task(task)].delayed {
            self.util_est_dequeue(shared, task);
        }
        // 6.12 to 7.0: the estimate uses the last update.
        let before = shared.config.has(Behaviour::EstBefore);
        if sleeps && before {
            self.util_est_update(shared, task);
        }
        let only_idle = self.is_only_idle(0);
        let left = self.dequeue_entities(shared, Se::task(task), why, sleeps);
        if sleeps && !before {
            self.util_est_update(shared, task);
        }
        if left && !only_idle && self.is_only_idle(1) && shared.config.has(Behaviour::IdleOnlyBalancesSoon) {
            // This CPU balances at its next tick, to pull tasks that are not idle.
            self.balance.next_balance = shared.jiffies.now();
        }
        left
    }

    /// Whether only idle tasks are queued (`sched_idle_rq`), except for `gone` ones that still count.
    #[inline]
    fn is_only_idle(&self, gone: u32) -> bool {
        let idle = self.class.groups[ROOT].cfs.h_nr_idle;
        idle > 0 && self.nr_running == idle + gone
    }

    /// Dequeues an entity, and emptied groups. Returns false if the entity stays, delayed.
    pub(super) fn dequeue_entities(&mut self, shared: &Shared<Fair<D, T>>, se: Se, why: Dequeue, sleeps: bool) -> bool {
        let (tasks, mut idle, runnable) = match (se.as_task(), se.as_group()) {
            (Some(task), _) => {
                // A delayed task that moves or is saved no longer counts as runnable.
                let delayed = matches!(why, Dequeue::Move | Dequeue::Save) && self.se(se).delayed;
                (1, u32::from(self.tasks[task].policy == SchedPolicy::Idle), u32::from(!delayed))
            }
            // An empty group with a delayed dequeue: its tasks no longer count.
            _ => (0, 0, 0),
        };
        match se.as_task() {
            Some(task) => self.catch_up_around(shared, task),
            None => self.catch_up(shared),
        }
        let leaf = self.se(se).parent;
        let mut why = why;
        let mut se = se;
        let mut slice = None;
        let mut leaving = true;
        loop {
            let cfs = self.se(se).parent;
            if leaving {
                if !self.dequeue_entity(shared, se, why) {
                    if se.as_task().is_some() {
                        return false;
                    }
                    leaving = false;
                    slice = self.min_slice(shared, cfs);
                    self.stays_queued(shared, se, slice);
                }
            } else {
                self.stays_queued(shared, se, slice);
            }
            let queue = &mut self.class.groups[cfs].cfs;
            queue.h_nr_queued -= tasks;
            queue.h_nr_runnable -= runnable;
            queue.h_nr_idle -= idle;
            let queue_weight = queue.weight;
            if cfs == ROOT {
                break;
            }
            if queue.is_off() {
                // It did not count as running, but the caller decrements the count.
                self.nr_running += tasks;
                break;
            }
            slice = self.min_slice(shared, cfs);
            if se.as_task().is_some() {
                if queue_weight > 0 && self.stays_quiet(shared, cfs, slice, [-1, -(runnable as i32), -(idle as i32)]) {
                    if sleeps {
                        self.set_next_buddy(Se::group(cfs));
                    }
                    return true;
                }
                self.catch_up(shared);
            }
            if self.class.entities[Se::group(cfs)].idle {
                idle = tasks;
            }
            se = Se::group(cfs);
            if leaving {
                if queue_weight > 0 {
                    leaving = false;
                    // Its siblings likely share its cache. In a group throttled task by task (6.18), the next one is
                    // to leave.
                    if sleeps {
                        self.set_next_buddy(se);
                    }
                } else if why != Dequeue::Throttle {
                    // An empty group sleeps to its parent, whatever the task did.
                    why = Dequeue::Sleep;
                }
            }
        }
        if leaf != ROOT {
            self.watch(shared, leaf);
        }
        true
    }

    /// Adds a dequeued task to its queue's averages, or removes it, up to the root or a throttled queue.
    pub(crate) fn change_averages(&mut self, shared: &Shared<Fair<D, T>>, se: Se, attach: Attach) {
        self.update_load_avg(shared, se, attach);
        let mut cfs = self.se(se).parent;
        while cfs != ROOT && !self.is_off(cfs) {
            self.list_leaf(cfs);
            self.update_load_avg(shared, Se::group(cfs), Attach::Keep);
            cfs = self.class.groups[cfs].parent;
        }
    }
}
