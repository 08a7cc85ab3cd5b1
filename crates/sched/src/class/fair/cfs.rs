//! CFS, as in 6.1: the entity with the smallest vruntime runs, for a slice of the latency target.
//!
//! A waking task is placed up to half a latency period before the queue's `min_vruntime`, so that sleepers run soon. It
//! preempts if a wakeup granularity behind the running task. The tick reschedules an entity that has used up its slice,
//! or is a slice ahead of the first. 6.3+ ([`Behaviour::SliceLimited`]): it also reschedules after the latency target.

use super::discipline::{Discipline, FairCpu, FairShared};
use super::entity::{CfsRq, Entity, ROOT, Se};
use super::queue::load_changed;
use super::quiet::Buddy;
use crate::features::Feature;
use crate::kernels::Behaviour;
use crate::policy::{Dequeue, Enqueue, Wake};
use crate::task::TaskState;
use crate::tunables::Tunables;
use crate::weight;

/// The order of CFS.
#[derive(Debug)]
pub struct CfsOrder;

fn later(a: u64, b: u64) -> u64 {
    if (a.wrapping_sub(b) as i64) > 0 { a } else { b }
}

fn earlier(a: u64, b: u64) -> u64 {
    if (a.wrapping_sub(b) as i64) < 0 { a } else { b }
}

/// Raises `min_vruntime` to the least vruntime of the queue. It never falls.
fn update_min_vruntime(queue: &mut CfsRq, curr: Option<&Entity>) {
    let running = curr.filter(|curr| curr.on_rq).map(|curr| curr.vruntime);
    let least = match (running, queue.timeline.min_vruntime()) {
        (Some(a), Some(b)) => earlier(a, b),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => queue.zero,
    };
    queue.zero = later(queue.zero, least);
}

/// Period in which `nr` tasks should run: the latency target, or longer for slices not too short.
fn sched_period<T: Tunables>(shared: &FairShared<CfsOrder, T>, nr: u64) -> u64 {
    let tunables = &shared.config.tunables;
    let nr_latency = tunables.latency_ns().div_ceil(tunables.base_slice_ns().max(1));
    if nr > nr_latency { nr * tunables.base_slice_ns() } else { tunables.latency_ns() }
}

fn sched_slice<T: Tunables>(rq: &FairCpu<CfsOrder, T>, shared: &FairShared<CfsOrder, T>, se: Se) -> u64 {
    slice_of_period(rq, shared, se, rq.se(se).parent)
}

/// Returns the entity's part of the period of `cfs`, through all levels up, wall-clock ns.
fn slice_of_period<T: Tunables>(rq: &FairCpu<CfsOrder, T>, shared: &FairShared<CfsOrder, T>, se: Se, cfs: u32) -> u64 {
    let features = shared.config.features;
    let tunables = &shared.config.tunables;
    let first = rq.se(se);
    let period_of = if features.has(Feature::AltPeriod) { ROOT } else { cfs };
    let queue = &rq.class.groups[period_of].cfs;
    let count = if features.has(Feature::AltPeriod) { queue.h_nr_queued } else { queue.nr_queued };
    let mut slice = sched_period(shared, u64::from(count) + u64::from(!first.on_rq));
    let mut at = se;
    loop {
        let entity = rq.se(at);
        let queue = &rq.class.groups[entity.parent].cfs;
        let total = if entity.on_rq { queue.weight } else { queue.weight + entity.weight };
        slice = weight::scale(slice, weight::down(entity.weight), weight::down(total).max(1));
        let Some(parent) = rq.parent(at) else { break };
        at = parent;
    }
    if features.has(Feature::BaseSlice) {
        let queue = &rq.class.groups[cfs].cfs;
        let only_idle = queue.nr_queued > 0 && queue.h_nr_queued == queue.h_nr_idle;
        let least =
            if first.idle && !only_idle { tunables.idle_min_granularity_ns() } else { tunables.base_slice_ns() };
        slice = slice.max(least);
    }
    slice
}

/// Whether `se` should run instead of `curr`: 1 yes, 0 behind but not enough, -1 ahead.
fn wakeup_preempt_entity<T: Tunables>(
    rq: &FairCpu<CfsOrder, T>,
    shared: &FairShared<CfsOrder, T>,
    curr: Se,
    se: Se,
) -> i32 {
    let diff = rq.se(curr).vruntime.wrapping_sub(rq.se(se).vruntime) as i64;
    if diff <= 0 {
        return -1;
    }
    let granularity = weight::to_virtual(shared.config.tunables.wakeup_granularity_ns(), rq.se(se).weight);
    i32::from(diff > granularity as i64)
}

/// Whether the entities on the queue of `se` have the shortest possible slices.
#[inline]
fn is_crowded<T: Tunables>(rq: &FairCpu<CfsOrder, T>, shared: &FairShared<CfsOrder, T>, se: Se) -> bool {
    let tunables = &shared.config.tunables;
    let nr_latency = tunables.latency_ns().div_ceil(tunables.base_slice_ns().max(1));
    u64::from(rq.class.groups[rq.se(se).parent].cfs.nr_queued) >= nr_latency
}

impl Discipline for CfsOrder {
    const AVERAGES: bool = false;

    #[inline]
    fn key(se: &Entity) -> u64 {
        se.vruntime
    }

    fn arrive<T: Tunables>(rq: &mut FairCpu<Self, T>, se: Se, why: Enqueue) {
        if why != Enqueue::Wakeup && se.as_task().is_some() {
            let zero = rq.class.groups[rq.se(se).parent].cfs.zero;
            let entity = rq.se_mut(se);
            entity.vruntime = entity.vruntime.wrapping_add(zero);
        }
    }

    fn place<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se, why: Enqueue) {
        let cfs = rq.se(se).parent;
        if why != Enqueue::Wakeup && why != Enqueue::WakeupMigrated {
            if rq.class.groups[cfs].cfs.curr == Some(se) && se.as_task().is_some() {
                let zero = rq.class.groups[cfs].cfs.zero;
                let entity = rq.se_mut(se);
                entity.vruntime = entity.vruntime.wrapping_add(zero);
            }
            return;
        }
        let tunables = &shared.config.tunables;
        let entity = rq.se(se);
        let mut credit = if entity.idle { tunables.base_slice_ns() } else { tunables.latency_ns() };
        if shared.config.features.has(Feature::GentleFairSleepers) {
            credit /= 2;
        }
        let target = rq.class.groups[cfs].cfs.zero.wrapping_sub(credit);
        // After months of sleep, vruntimes can no longer be compared. The clocks of two CPUs may differ a little.
        let slept = rq.clock.now().saturating_sub(entity.exec_start);
        let long_sleeper = entity.exec_start != 0 && slept > (1 << 63) / weight::NICE_0_WEIGHT;
        let entity = rq.se_mut(se);
        entity.vruntime = if long_sleeper { target } else { later(entity.vruntime, target) };
    }

    fn left<T: Tunables>(rq: &mut FairCpu<Self, T>, se: Se, why: Dequeue) {
        let cfs = rq.se(se).parent;
        if matches!(why, Dequeue::Move | Dequeue::Save) {
            let zero = rq.class.groups[cfs].cfs.zero;
            let entity = rq.se_mut(se);
            entity.vruntime = entity.vruntime.wrapping_sub(zero);
        }
        if why != Dequeue::Save {
            match rq.class.groups[cfs].cfs.curr {
                None => update_min_vruntime(&mut rq.class.groups[cfs].cfs, None),
                Some(curr) => {
                    let (curr, queue) = rq.class.both(curr);
                    update_min_vruntime(queue, Some(curr));
                }
            }
        }
    }

    #[expect(clippy::unreachable, reason = "the class asks only queues that have an entity")]
    fn pick<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, cfs: u32) -> Se {
        let queue = &rq.class.groups[cfs].cfs;
        let curr = queue.curr.filter(|&curr| rq.se(curr).on_rq);
        if queue.nr_queued == 1
            && let Some(only) = curr
        {
            return only;
        }
        let before = |a: Se, b: Se| (rq.se(a).vruntime.wrapping_sub(rq.se(b).vruntime) as i64) < 0;
        let first = queue.timeline.first().map(Se::from_raw);
        let left = match (first, curr) {
            (Some(first), Some(curr)) if before(curr, first) => curr,
            (Some(first), _) => first,
            (None, Some(curr)) => curr,
            (None, None) => unreachable!("pick on an empty queue"),
        };
        let mut se = left;
        if queue.skip == Some(se) {
            let second = if curr == Some(se) {
                first
            } else {
                let second = queue.timeline.second().map(Se::from_raw);
                match (second, curr) {
                    (Some(second), Some(curr)) if before(curr, second) => Some(curr),
                    (None, curr) => curr,
                    (second, _) => second,
                }
            };
            if let Some(second) = second
                && wakeup_preempt_entity(rq, shared, second, left) < 1
            {
                se = second;
            }
        }
        if let Some(next) = queue.next
            && wakeup_preempt_entity(rq, shared, next, left) < 1
        {
            se = next;
        } else if let Some(last) = queue.last
            && wakeup_preempt_entity(rq, shared, last, left) < 1
        {
            se = last;
        }
        se
    }

    fn slice<T: Tunables>(rq: &FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se) -> u64 {
        sched_slice(rq, shared, se)
    }

    fn charged<T: Tunables>(curr: &mut Entity, queue: &mut CfsRq, _shared: &FairShared<Self, T>) -> bool {
        update_min_vruntime(queue, Some(curr));
        false
    }

    fn undisturbed(_curr: &Entity, _queue: &CfsRq) -> u64 {
        // `min_vruntime` follows step by step or at once.
        u64::MAX
    }

    fn tick<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, cfs: u32, curr: Se) {
        if rq.class.groups[cfs].cfs.nr_queued <= 1 {
            return;
        }
        let mut ideal = sched_slice(rq, shared, curr);
        if shared.config.has(Behaviour::SliceLimited) {
            ideal = ideal.min(shared.config.tunables.latency_ns());
        }
        let entity = rq.se(curr);
        let ran = entity.sum_exec_runtime - entity.prev_sum_exec_runtime;
        if ran > ideal {
            rq.resched();
            rq.clear_buddies(curr, cfs);
            return;
        }
        if ran < shared.config.tunables.base_slice_ns() {
            return;
        }
        let Some(first) = rq.class.groups[cfs].cfs.timeline.first().map(Se::from_raw) else { return };
        let ahead = rq.se(curr).vruntime.wrapping_sub(rq.se(first).vruntime) as i64;
        if ahead > ideal as i64 {
            rq.resched();
        }
    }

    #[inline(never)]
    fn befriends<T: Tunables>(rq: &FairCpu<Self, T>, shared: &FairShared<Self, T>, running: Se) -> bool {
        is_crowded(rq, shared, running)
    }

    fn preempts<T: Tunables>(
        rq: &mut FairCpu<Self, T>,
        shared: &FairShared<Self, T>,
        curr: Se,
        woken: Se,
        running: u32,
        _wake: Wake,
    ) -> bool {
        if wakeup_preempt_entity(rq, shared, curr, woken) != 1 {
            return false;
        }
        rq.set_next_buddy(woken);
        // On a crowded queue, a return to the preempted task keeps its cache warm.
        if shared.config.features.has(Feature::LastBuddy)
            && curr.as_task().is_some()
            && rq.se(curr).on_rq
            && is_crowded(rq, shared, Se::task(running))
        {
            let mut se = Some(curr);
            while let Some(at) = se.filter(|&at| !rq.se(at).idle) {
                if at.as_group().is_some_and(|group| rq.befriend_quietly(group, Buddy::Last)) {
                    break;
                }
                let parent = rq.se(at).parent;
                rq.class.groups[parent].cfs.last = Some(at);
                se = rq.parent(at);
            }
        }
        true
    }

    fn yields<T: Tunables>(rq: &mut FairCpu<Self, T>, _shared: &FairShared<Self, T>, se: Se) {
        let mut se = Some(se);
        while let Some(at) = se {
            let parent = rq.se(at).parent;
            rq.class.groups[parent].cfs.skip = Some(at);
            se = rq.parent(at);
        }
    }

    fn reweight<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se, weight: u64) {
        let cfs = rq.se(se).parent;
        let on_rq = rq.se(se).on_rq;
        if on_rq {
            if rq.class.groups[cfs].cfs.curr == Some(se) {
                rq.update_curr(shared, cfs);
            }
            let old = rq.se(se).weight;
            let queue = &mut rq.class.groups[cfs].cfs;
            queue.weight = queue.weight - old + weight;
        }
        let attached = rq.se(se).avg.last_update != 0;
        if attached {
            rq.dequeue_load_avg(se);
        }
        let (entity, queue) = rq.class.both(se);
        entity.weight = weight;
        let (divider, before) = (entity.avg.divider(), entity.avg.load_avg);
        entity.avg.load_avg = weight::down(weight) * entity.avg.load_sum / divider;
        load_changed::<Self>(entity, queue, before);
        if attached {
            rq.enqueue_load_avg(se);
        }
    }

    /// Places a task behind its parent and, with START_DEBIT, a slice behind its parent's queue (`task_fork_fair`).
    /// The idle task is in the root, which is empty then.
    fn fork<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, task: u32) {
        rq.catch_up(shared);
        let cfs = rq.curr.map_or(ROOT, |parent| rq.se(Se::task(parent)).parent);
        rq.update_curr(shared, cfs);
        let queue = &rq.class.groups[cfs].cfs;
        let zero = queue.zero;
        let mut vruntime = queue.curr.map_or(zero, |curr| rq.se(curr).vruntime);
        let mut start = zero;
        if shared.config.features.has(Feature::StartDebit) {
            let slice = slice_of_period(rq, shared, Se::task(task), cfs);
            start = start.wrapping_add(weight::to_virtual(slice, rq.se(Se::task(task)).weight));
        }
        vruntime = later(vruntime, start);
        rq.se_mut(Se::task(task)).vruntime = vruntime.wrapping_sub(zero);
    }

    fn migrate<T: Tunables>(rq: &mut FairCpu<Self, T>, task: u32) {
        // A sleeper's absolute vruntime becomes relative to the queue it leaves.
        if is_asleep(rq, task) {
            let zero = zero_of(rq, task);
            let entity = rq.se_mut(Se::task(task));
            entity.vruntime = entity.vruntime.wrapping_sub(zero);
        }
    }

    fn leave_group<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, task: u32) {
        // 4.4+: so that the sleep does not count twice, here and in its next queue.
        if is_asleep(rq, task) && shared.config.has(Behaviour::GroupMovePlaces) {
            Self::place(rq, shared, Se::task(task), Enqueue::Wakeup);
        }
        Self::migrate(rq, task);
    }

    fn join_group<T: Tunables>(rq: &mut FairCpu<Self, T>, task: u32) {
        if is_asleep(rq, task) {
            let zero = zero_of(rq, task);
            let entity = rq.se_mut(Se::task(task));
            entity.vruntime = entity.vruntime.wrapping_add(zero);
        }
    }
}

/// Whether a task sleeps here, so that its vruntime is absolute.
fn is_asleep<T: Tunables>(rq: &FairCpu<CfsOrder, T>, task: u32) -> bool {
    let entity = rq.se(Se::task(task));
    entity.avg.last_update != 0 && !entity.on_rq && rq.tasks[task].state == TaskState::Sleeping
}

fn zero_of<T: Tunables>(rq: &FairCpu<CfsOrder, T>, task: u32) -> u64 {
    rq.class.groups[rq.se(Se::task(task)).parent].cfs.zero
}
