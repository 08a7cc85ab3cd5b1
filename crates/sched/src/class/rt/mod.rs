//! The real-time class: SCHED_FIFO and SCHED_RR, a hundred priorities, the highest first.
//!
//! A CPU has a queue for each priority, and the running task stays in its queue. A preempted task stays at the head.
//! A task that yields, or (SCHED_RR) has used up its slice, moves to the tail. The N highest tasks run on the N CPUs:
//! by choice of the CPU at a wakeup, push and pull (`balance`, `rounds`).
//!
//! `bandwidth` limits the class's CPU time. With CONFIG_RT_GROUP_SCHED, which distributions leave off, groups have
//! arrays (`group`) and limits (`limits`).
//!
//! Functions that the core calls are not inlined, so its verbs stay small where no real-time task exists.

mod balance;
mod bandwidth;
mod cpupri;
mod group;
mod limits;
mod rounds;
mod share;

pub(crate) use balance::{Callback, MAX_TRIES, affinity_changed, carry, needs_pull, select_cpu, woken};
use bandwidth::RtBandwidth;
pub(crate) use bandwidth::{charge_deadline, rq_offline, rq_online};
pub(crate) use cpupri::Cpupri;
pub(crate) use limits::{GroupRt, limit, may_attach, may_join};
pub use limits::{RtLimit, RtLimitError};
pub(crate) use rounds::ask_for_tasks;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use super::ClassKind;
use super::fair::pelt::Avg;
use crate::ids::GroupId;
use crate::list::TaskList;
use crate::policy::Policy;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::{SchedPolicy, Task, TaskState};
use crate::tunables::Tunables;

/// The kernel's `prio` of real-time tasks is below this, 0 the highest.
pub(crate) const MAX_RT_PRIO: u8 = 100;
/// `prio` where no real-time task is.
pub(crate) const NO_RT_PRIO: u8 = MAX_RT_PRIO - 1;

/// State of the class in every task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RtTask {
    level: u8,
    /// Whether other CPUs may take it: queued, not running, allowed elsewhere.
    pushable: bool,
    /// SCHED_RR: ticks left of its slice; 0 before its first.
    time_slice: u32,
    /// [`RtRq::pushed`] when it became pushable.
    since: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Head,
    Tail,
}

#[derive(Debug)]
struct Queues {
    lists: [TaskList; MAX_RT_PRIO as usize],
    /// By `prio` and time of queueing. The first is pushed next.
    pushable: BTreeMap<(u8, u64), u32>,
}

/// A CPU's real-time tasks.
#[derive(Debug, Default)]
pub struct RtRq {
    /// Bitmap of the queues that are not empty, by `prio`.
    active: u128,
    /// Created with the first task.
    queues: Option<Box<Queues>>,
    /// Bitmap of the queues with pushable tasks.
    pushable: u128,
    /// Tasks of the class, the running one included; without those of throttled groups.
    nr_running: u32,
    /// The same with those of throttled groups (`rt_nr_total`).
    nr_total: u32,
    /// Count of the times that a task became pushable.
    pushed: u64,
    /// Whether the class waits for the end of the period on this CPU.
    throttled: bool,
    /// CPU time of the class in this period, nanoseconds.
    rt_time: u64,
    exec_start: u64,
    avg: Avg,
    /// Arrays of groups, if groups are scheduled. Then `queues` has only the pushable tasks, and `active` only the
    /// highest priority.
    groups: Option<Box<group::RtGroups>>,
    pub(crate) callback: Option<Callback>,
}

impl RtRq {
    /// Number of tasks of the class, the running one included, throttled or not.
    #[inline]
    pub fn nr_running(&self) -> u32 {
        self.nr_running
    }

    /// Whether the class is throttled on this CPU until the next period (up to 6.6).
    #[inline]
    pub fn throttled(&self) -> bool {
        self.throttled
    }

    /// Whether throttling, of the class or of its group, stops the queued task with this index.
    pub fn holds_back(&self, index: u32) -> bool {
        self.throttled || self.groups.as_ref().is_some_and(|groups| groups.hold(index))
    }

    pub(crate) fn exec_start(&self) -> u64 {
        self.exec_start
    }

    /// CPU time of the class in this period, nanoseconds.
    pub fn rt_time(&self) -> u64 {
        self.groups.as_ref().map_or(self.rt_time, |groups| groups.top().time)
    }

    /// Returns each group that had tasks here: the number of its unthrottled tasks, whether it is throttled, and its
    /// CPU time in this period. Empty unless groups are scheduled.
    pub(crate) fn of_groups(&self) -> impl Iterator<Item = (GroupId, u32, bool, u64)> + '_ {
        let groups = self.groups.as_deref();
        let known = groups.into_iter().flat_map(|groups| groups.groups().map(|id| (id, groups.rq(id))));
        known.filter_map(|(id, rq)| rq.map(|rq| (id, rq.nr_running(), rq.throttled, rq.time)))
    }

    /// Average part of the CPU's time that the class takes, of 1024.
    pub fn util_avg(&self) -> u64 {
        self.avg.util_avg
    }

    #[inline]
    pub(crate) fn runnable(&self) -> bool {
        self.nr_running > 0 && !self.throttled
    }

    #[inline]
    pub(crate) fn highest(&self) -> u8 {
        if self.active == 0 { NO_RT_PRIO } else { self.active.trailing_zeros() as u8 }
    }

    pub(crate) fn util_sum(&self) -> u64 {
        self.avg.util_sum
    }

    #[inline]
    pub(crate) fn has_load(&self) -> bool {
        self.avg.last_update != 0
    }

    #[inline]
    fn highest_pushable(&self) -> u8 {
        if self.pushable == 0 { NO_RT_PRIO } else { self.pushable.trailing_zeros() as u8 }
    }

    fn queues(&mut self) -> &mut Queues {
        let none = [TaskList::default(); MAX_RT_PRIO as usize];
        self.queues.get_or_insert_with(|| Box::new(Queues { lists: none, pushable: BTreeMap::new() }))
    }

    fn list(&self, level: u8) -> TaskList {
        self.queues.as_ref().map_or_else(TaskList::default, |queues| queues.lists[usize::from(level)])
    }
}

impl<P: Policy> Task<P> {
    /// The kernel's `prio`, with inherited priority: 0 (real-time priority 99) to 98 for real-time tasks, 120 + nice
    /// for the fair class, -1 for the deadline class.
    pub fn prio(&self) -> i16 {
        match self.kind {
            ClassKind::Deadline => -1,
            ClassKind::Rt => i16::from(self.rt_level()),
            ClassKind::Fair => 120 + i16::from(self.nice),
        }
    }

    /// The `prio` as a real-time task.
    pub(crate) fn rt_level(&self) -> u8 {
        let own = match self.policy {
            SchedPolicy::Fifo | SchedPolicy::RoundRobin => self.rt_priority,
            SchedPolicy::Normal | SchedPolicy::Batch | SchedPolicy::Idle | SchedPolicy::Deadline => 0,
        };
        let lent = self.lent.map_or(0, crate::task::Lent::rt_priority);
        MAX_RT_PRIO - 1 - own.max(lent).clamp(1, 99)
    }
}

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

/// Whether a queued task belongs in another queue, after a change of its priority or group.
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

/// Notes whether other CPUs may take a queued task. A pinned task is never pushable.
pub(crate) fn set_pushable<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, pushable: bool) {
    let pushable = pushable && rq.tasks[index].nr_cpus_allowed(shared.nr_cpus()) > 1;
    let task = &mut rq.tasks[index].rt;
    if task.pushable == pushable {
        return;
    }
    task.pushable = pushable;
    if pushable {
        task.since = rq.rt.pushed;
        rq.rt.pushed += 1;
    }
    let (level, since) = (task.level, task.since);
    let queue = &mut rq.rt.queues().pushable;
    if pushable {
        queue.insert((level, since), index);
        rq.rt.pushable |= 1 << level;
    } else {
        queue.remove(&(level, since));
        if queue.range((level, 0)..=(level, u64::MAX)).next().is_none() {
            rq.rt.pushable &= !(1 << level);
        }
    }
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
    if rq.rt.pushable != 0 {
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

/// Updates the average of a class above fair to `now`. `running`: whether it ran since the last update.
pub(crate) fn update_avg(avg: &mut Avg, now: u64, running: bool) {
    if avg.last_update == 0 {
        avg.last_update = now & !1023;
    }
    if avg.accumulate(now, u64::from(running), u64::from(running), running) {
        avg.average(1);
        if !running && avg.util_sum == 0 {
            // Until a task of the class runs again, there is nothing to update.
            *avg = Avg::default();
        }
    }
}

/// Publishes the capacity that the real-time and deadline classes leave for fair (`scale_rt_capacity`).
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
    let pushable: BTreeMap<_, _> = waiting.map(|(index, task)| ((task.rt_level(), task.rt.since), index)).collect();
    let bits = pushable.keys().fold(0, |bits: u128, (level, _)| bits | 1 << level);
    if bits != rq.rt.pushable || rq.rt.queues.as_ref().is_some_and(|queues| queues.pushable != pushable) {
        return wrong("the pushable real-time tasks are not those that wait");
    }
    if !shared.rt.shows(rq.cpu, &rq.rt, !rq.dl.is_empty()) {
        return wrong("what is published of the real-time class is not what is there");
    }
    Ok(())
}
