//! Calls from the core.

use alloc::collections::BTreeSet;

pub(crate) use super::bandwidth::{charge_deadline, rq_offline, rq_online};
pub(crate) use super::limits::{limit, may_attach, may_join};
use super::place::set_pushable;
pub(crate) use super::place::{needs_pull, select_cpu, woken};
pub(crate) use super::queue::End;
use super::{bandwidth, limits};
use crate::attrs::{ClassKind, MAX_RT_PRIO, SchedPolicy, TaskState};
use crate::class::fair::pelt::update_avg;
pub(crate) use crate::class::pushable::Callback;
use crate::policy::Policy;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::Task;
use crate::tunables::Tunables;

#[inline(never)]
pub(crate) fn enqueue<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, end: End) {
    if shared.config.rt_group_sched {
        limits::enqueue(rq, shared, index, end);
    } else {
        bandwidth::start(rq, shared);
        insert(rq, index, end);
        rq.rt.nr_running += 1;
        if !rq.rt.throttled {
            rq.nr_running += 1;
        }
    }
    rq.rt.nr_total += 1;
    rq.tasks[index].on_rq = true;
    rq.tasks[index].state = TaskState::Runnable;
    rq.higher = true;
    if rq.curr != Some(index) {
        set_pushable(rq, shared, index, true);
    }
    shared.rt.publish(rq.cpu, &rq.rt);
}

#[inline(never)]
pub(crate) fn dequeue<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    update_curr(rq, shared);
    set_pushable(rq, shared, index, false);
    if rq.rt.groups.is_some() {
        limits::dequeue(rq, index);
    } else {
        remove(rq, index);
        rq.rt.nr_running -= 1;
        if !rq.rt.throttled {
            rq.nr_running -= 1;
        }
    }
    rq.rt.nr_total -= 1;
    rq.tasks[index].on_rq = false;
    shared.rt.publish(rq.cpu, &rq.rt);
}

fn insert<P: Policy>(rq: &mut Rq<P>, index: u32, end: End) {
    let level = rq.tasks[index].rt_level();
    rq.tasks[index].rt.level = level;
    let mut queue = rq.rt.list(level);
    match end {
        End::Head => queue.push_front(&mut rq.tasks, index),
        End::Tail => queue.push_back(&mut rq.tasks, index),
    }
    rq.rt.queues().lists[usize::from(level)] = queue;
    rq.rt.active |= 1 << level;
}

fn remove<P: Policy>(rq: &mut Rq<P>, index: u32) {
    let level = rq.tasks[index].rt.level;
    let mut queue = rq.rt.list(level);
    queue.remove(&mut rq.tasks, index);
    rq.rt.queues().lists[usize::from(level)] = queue;
    if queue.first().is_none() {
        rq.rt.active &= !(1 << level);
    }
}

#[inline(never)]
pub(crate) fn requeue<P: Policy>(rq: &mut Rq<P>, index: u32, end: End) {
    if let Some(groups) = &mut rq.rt.groups {
        groups.requeue(index, end);
        return;
    }
    remove(rq, index);
    insert(rq, index, end);
}

pub(crate) fn has_groups<P: Policy>(rq: &Rq<P>) -> bool {
    rq.rt.groups.is_some()
}

/// Whether a queued task's changed priority or group needs another queue.
pub(crate) fn has_moved<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, index: u32) -> bool {
    if let Some(groups) = &rq.rt.groups {
        return limits::has_moved(rq, shared, groups, index);
    }
    rq.tasks[index].rt.level != rq.tasks[index].rt_level()
}

/// Requeues a task whose priority has changed. POSIX: to the tail if it rose, to the head if it fell.
pub(crate) fn reprioritise<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    if rq.rt.groups.is_some() {
        limits::reprioritise(rq, shared, index);
        return;
    }
    let lowered = rq.tasks[index].rt_level() > rq.tasks[index].rt.level;
    set_pushable(rq, shared, index, false);
    requeue(rq, index, if lowered { End::Head } else { End::Tail });
    set_pushable(rq, shared, index, rq.curr != Some(index));
    shared.rt.publish(rq.cpu, &rq.rt);
}

#[inline(never)]
pub(crate) fn pick<P: Policy>(rq: &Rq<P>) -> Option<u32> {
    match &rq.rt.groups {
        None => rq.rt.list(rq.rt.highest()).first(),
        Some(groups) => groups.pick(),
    }
}

pub(crate) fn set_next<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    update_load_as(rq, false);
    rq.rt.exec_start = rq.clock.now();
    set_pushable(rq, shared, index, false);
    shared.rt.publish(rq.cpu, &rq.rt);
    if !rq.rt.pushable.is_empty() {
        rq.rt.callback = Some(Callback::Push);
    }
}

/// Takes the CPU from a task of the class, queued or not.
pub(crate) fn put_prev<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    update_curr(rq, shared);
    update_load_as(rq, true);
    if rq.tasks[index].on_rq {
        set_pushable(rq, shared, index, true);
        shared.rt.publish(rq.cpu, &rq.rt);
    }
}

fn running<P: Policy>(rq: &Rq<P>) -> bool {
    rq.curr.is_some_and(|current| rq.tasks[current].kind == ClassKind::Rt)
}

#[inline(never)]
pub(crate) fn update_curr<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    if !running(rq) {
        return;
    }
    let now = rq.clock.now();
    let delta = now.saturating_sub(rq.rt.exec_start);
    rq.rt.exec_start = now;
    if delta > 0 {
        if let Some(current) = rq.curr {
            rq.tasks[current].ran_above += delta;
        }
        if shared.config.rt_group_sched {
            limits::charge(rq, shared, delta);
        } else {
            bandwidth::charge(rq, shared, delta);
        }
    }
}

#[inline(never)]
pub(crate) fn tick<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    update_curr(rq, shared);
    update_load_as(rq, true);
    let task = &mut rq.tasks[index];
    if task.policy != SchedPolicy::RoundRobin {
        return;
    }
    let tunables = &shared.config.tunables;
    let slice = (tunables.rr_timeslice_ns() / tunables.tick_ns().max(1)).clamp(1, u64::from(u32::MAX)) as u32;
    if task.rt.time_slice == 0 {
        task.rt.time_slice = slice;
    }
    task.rt.time_slice -= 1;
    if task.rt.time_slice > 0 {
        return;
    }
    task.rt.time_slice = slice;
    // Alone in its queue, it continues.
    let queue = rq.rt.list(rq.tasks[index].rt.level);
    let has_equals = rq.rt.groups.as_ref().map_or(queue.first() != queue.last(), |groups| groups.has_equals(index));
    if has_equals {
        requeue(rq, index, End::Tail);
        rq.resched();
    }
}

/// Handles the wakeup of `index` while `curr`, also of this class, runs.
#[inline(never)]
pub(crate) fn wakeup_preempt<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, curr: u32, index: u32) {
    let (running, woken) = (rq.tasks[curr].rt_level(), rq.tasks[index].rt_level());
    if woken < running {
        rq.resched();
    } else if woken == running && !rq.resched_is_due() {
        // Of two equals, the task that can move should. If only the running one can, the other runs, so that the
        // running one is pushed away.
        let elsewhere = |task: u32| {
            rq.tasks[task].nr_cpus_allowed(shared.nr_cpus()) > 1 && shared.rt.has_lower(shared, &rq.tasks[task], rq.cpu)
        };
        if elsewhere(curr) && !elsewhere(index) {
            requeue(rq, index, End::Head);
            rq.resched();
        }
    }
}

/// Updates the average of the class's CPU time.
pub(crate) fn update_load<P: Policy>(rq: &mut Rq<P>) {
    let running = running(rq);
    update_load_as(rq, running);
}

fn update_load_as<P: Policy>(rq: &mut Rq<P>, running: bool) {
    let now = rq.clock.pelt();
    update_avg(&mut rq.rt.avg, now, running);
}

/// Publishes the capacity left for fair (`scale_rt_capacity`).
pub(crate) fn update_capacity<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    let whole = shared.capacity(rq.cpu);
    let left = u64::from(whole).saturating_sub(rq.rt.avg.util_avg + rq.dl.util_avg()).max(1);
    shared.set_capacity_of(rq.cpu, left as u32);
}

/// Checks that queues, counts and published state agree. Slow, for tests.
pub(crate) fn check<P: Policy>(rq: &Rq<P>, shared: &Shared<P>) -> Result<(), alloc::string::String> {
    let wrong = |what: &str| Err(alloc::format!("CPU {}: {what}", rq.cpu));
    let mut listed = 0;
    if let Some(groups) = &rq.rt.groups {
        groups.check().or_else(wrong)?;
        for index in groups.tasks() {
            let task = &rq.tasks[index];
            listed += 1;
            if task.kind != ClassKind::Rt || !task.on_rq || limits::has_moved(rq, shared, groups, index) {
                return wrong("a priority array holds a task that does not belong there");
            }
        }
        let top = groups.top();
        let active = if top.nr_running() > 0 { 1 << top.highest() } else { 0 };
        if (rq.rt.nr_running, rq.rt.throttled, rq.rt.active) != (top.nr_running(), top.is_throttled(), active) {
            return wrong("the root's priority array is not what the CPU shows");
        }
    }
    let flat = 0..if rq.rt.groups.is_some() { 0 } else { MAX_RT_PRIO };
    for level in flat {
        let queue = rq.rt.list(level);
        if queue.first().is_some() != (rq.rt.active >> level & 1 == 1) {
            return wrong("the bitmap of real-time priorities is not that of the queues");
        }
        for index in queue.iter(&rq.tasks) {
            let task = &rq.tasks[index];
            listed += 1;
            if task.kind != ClassKind::Rt || !task.on_rq || task.rt_level() != level {
                return wrong("a real-time queue holds a task that does not belong there");
            }
        }
    }
    let of_class = |(_, task): &(u32, &Task<P>)| task.kind == ClassKind::Rt && task.on_rq;
    let queued = rq.tasks.iter().filter(of_class).count() as u32;
    let counted = queued == rq.rt.nr_total && (rq.rt.groups.is_some() || queued == rq.rt.nr_running);
    if listed != queued || !counted {
        return wrong("real-time tasks queued, listed and counted are not as many");
    }
    let waits = |(index, task): &(u32, &Task<P>)| rq.curr != Some(*index) && task.nr_cpus_allowed(shared.nr_cpus()) > 1;
    let waiting = rq.tasks.iter().filter(of_class).filter(waits);
    let place = |(index, task): (u32, &Task<P>)| (u64::from(task.rt_level()), task.rt.since, index);
    if *rq.rt.pushable.entries() != waiting.map(place).collect::<BTreeSet<_>>() {
        return wrong("the pushable real-time tasks are not those that wait");
    }
    if !shared.rt.shows(rq.cpu, &rq.rt, !rq.dl.is_empty()) {
        return wrong("what is published of the real-time class is not what is there");
    }
    Ok(())
}

/// Handles a changed affinity of a queued task.
pub(crate) fn affinity_changed<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    if rq.tasks[index].kind != ClassKind::Rt || !rq.tasks[index].on_rq {
        return;
    }
    let waits = rq.curr != Some(index);
    set_pushable(rq, shared, index, waits);
    shared.rt.publish(rq.cpu, &rq.rt);
}
