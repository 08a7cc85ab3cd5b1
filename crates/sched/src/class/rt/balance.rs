//! Real-time tasks between CPUs (wakeup, push, pull): the machine's most urgent tasks run.

use super::{ask_for_tasks, set_pushable};
use crate::class::ClassKind;
use crate::event::{Event, MigrateCause, Running};
use crate::features::Feature;
use crate::host::Host;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::{Rq, Rqs};
use crate::scheduler::{Scheduler, attach_task, detach_task, finish_verb};
use crate::shared::Shared;
use crate::task::Task;
use crate::uclamp;

/// Work on other CPUs after a run queue is unlocked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Callback {
    /// It has more tasks than it can run.
    Push,
    /// It is about to run a less urgent task.
    Pull,
}

/// Tries of a search whose result has changed meanwhile.
pub(crate) const MAX_TRIES: u32 = 3;

/// Whether a CPU has the capacity of a real-time task's lower clamp, by default the largest
/// (`rt_task_fits_capacity`).
pub(super) fn fits<P: Policy>(shared: &Shared<P>, task: &Task<P>, cpu: CpuId) -> bool {
    if !shared.domains.asym() {
        return true;
    }
    let clamps = uclamp::effective(shared, task);
    shared.capacity(cpu) >= u32::from(clamps.min.min(clamps.max)).min(shared.max_capacity())
}

/// Returns the task's last CPU, unless a task that is as urgent or pinned runs there (`select_task_rq_rt`).
#[inline(never)]
pub(crate) fn select_cpu<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, on: CpuId) -> CpuId {
    let prev = rq.cpu;
    let task = &rq.tasks[index];
    // 6.12+: a deadline task does not count. The woken task is pushed afterwards.
    let counts = |kind| {
        kind == ClassKind::Rt || (kind == ClassKind::Deadline && !shared.config.has(Behaviour::RtIgnoresDeadline))
    };
    let contested = is_contested(rq, shared, task, counts);
    if !contested && fits(shared, task, prev) {
        return prev;
    }
    let Some(target) = find_lowest(shared, task, prev, on) else { return prev };
    if !contested && !fits(shared, task, target) {
        return prev;
    }
    if task.rt_level() < shared.rt.highest(target) { target } else { prev }
}

/// Returns the CPU with the least urgent task that is nearest to `cpu`, the task's last CPU (`find_lowest_rq`). `on`,
/// the calling CPU, is preferred among equals.
fn find_lowest<P: Policy>(shared: &Shared<P>, task: &Task<P>, cpu: CpuId, on: CpuId) -> Option<CpuId> {
    if task.nr_cpus_allowed(shared.nr_cpus()) == 1 {
        return None;
    }
    let lowest = shared.rt.lowest(shared, task, cpu);
    if lowest.is_empty() || lowest.contains(&cpu) {
        return lowest.first().map(|_| cpu);
    }
    let here = lowest.contains(&on);
    for domain in shared.domains.near(cpu) {
        if here && domain.span.contains(on) {
            return Some(on);
        }
        let near = lowest.iter().copied().filter(|&cpu| domain.span.contains(cpu));
        if let Some(best) = shared.rt.distribute(on, near) {
            return Some(best);
        }
    }
    if here { Some(on) } else { shared.rt.distribute(on, lowest.into_iter()) }
}

/// Returns the most urgent pushable task of those that `may` move; of equals, the first to become pushable.
fn pick_pushable<P: Policy>(rq: &Rq<P>, may: impl Fn(&Task<P>) -> bool) -> Option<u32> {
    let waiting = &rq.rt.queues.as_ref()?.pushable;
    waiting.values().copied().find(|&index| may(&rq.tasks[index]))
}

/// Whether to push a woken task at once: the running task is as urgent or pinned (`task_woken_rt`).
#[inline(never)]
pub(crate) fn woken<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, index: u32) -> bool {
    let task = &rq.tasks[index];
    task.kind == ClassKind::Rt
        && task.rt.pushable
        && !rq.resched_is_due()
        && is_contested(rq, shared, task, |kind| kind < ClassKind::Fair)
}

/// Whether the running task of `rq`, if its class counts, is as urgent as `task`, or pinned (as the stopper is).
fn is_contested<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, task: &Task<P>, counts: impl Fn(ClassKind) -> bool) -> bool {
    let is = |current: &Task<P>| {
        counts(current.kind) && (current.nr_cpus_allowed(shared.nr_cpus()) < 2 || current.prio() <= task.prio())
    };
    rq.running == Running::Stopper || rq.curr.is_some_and(|current| is(&rq.tasks[current]))
}

/// Whether to pull before a pick, after a task of priority `prev` (`need_pull_rt_task`).
pub(crate) fn needs_pull<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, prev: i16) -> bool {
    i16::from(rq.rt.highest()) > prev && rq.online && shared.rt.any_overloaded(shared, rq.cpu)
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    #[inline(never)]
    pub(crate) fn rt_callback(&mut self, cpu: CpuId, callback: Option<Callback>) {
        match callback {
            None => {}
            Some(Callback::Push) => self.push_rt_tasks(cpu, cpu),
            Some(Callback::Pull) => self.pull_rt_task(cpu, true),
        }
    }

    /// `on` is the CPU that runs this code.
    #[inline(never)]
    pub(crate) fn push_rt_tasks(&mut self, cpu: CpuId, on: CpuId) {
        while self.push_rt_task(cpu, on) {}
    }

    fn push_rt_task(&mut self, cpu: CpuId, on: CpuId) -> bool {
        let shared = self.shared;
        for _ in 0..MAX_TRIES {
            let mut rq = self.rqs.rq(cpu);
            if !shared.rt.offers(&rq.rt) {
                return false;
            }
            let Some(index) = pick_pushable(&rq, |_| true) else { return false };
            // It arrived during a switch, and precedes the running task.
            if rq.prio_of_running().is_some_and(|running| rq.tasks[index].prio() < running) {
                rq.resched();
                finish_verb(&mut rq, shared, self.host);
                return false;
            }
            let task = &rq.tasks[index];
            let (id, level) = (task.id, task.rt_level());
            let Some(target) = find_lowest(shared, task, cpu, on) else { return false };
            if target == cpu || shared.rt.highest(target) <= level {
                return false;
            }
            drop(rq);
            let (mut from, mut to) = self.rqs.pair(cpu, target);
            from.update_clock(self.now);
            to.update_clock(self.now);
            // Both were unlocked: check again.
            let index = pick_pushable(&from, |_| true);
            let Some(index) = index.filter(|&index| from.tasks[index].id == id && from.tasks[index].allowed(target))
            else {
                continue;
            };
            if to.rt.highest() <= from.tasks[index].rt_level() || !to.online {
                continue;
            }
            carry((&mut from, &mut to), shared, self.host, self.now, index, (cpu, MigrateCause::RtPush));
            to.resched();
            finish_verb(&mut to, shared, self.host);
            return true;
        }
        false
    }

    /// Pulls or requests tasks that are more urgent than all on `cpu`. `tell`: reschedules `cpu` after a pull.
    #[inline(never)]
    pub(crate) fn pull_rt_task(&mut self, cpu: CpuId, tell: bool) {
        let shared = self.shared;
        if shared.config.features.has(Feature::RtPushIpi) {
            ask_for_tasks(shared, self.host, self.now, cpu);
            return;
        }
        let others = shared.rt.overloaded().iter_from(CpuId(0));
        let others: alloc::vec::Vec<CpuId> =
            others.filter(|&other| other != cpu && shared.same_root(cpu, other)).collect();
        for src in others {
            if shared.rt.next(src) >= shared.rt.highest(cpu) {
                continue;
            }
            let (mut from, mut to) = self.rqs.pair(src, cpu);
            from.update_clock(self.now);
            to.update_clock(self.now);
            let Some(index) = pick_pushable(&from, |task| task.allowed(cpu)) else { continue };
            let level = from.tasks[index].rt_level();
            if level >= to.rt.highest() || !to.online {
                continue;
            }
            // A task that is about to preempt, or to end the CPU's idle time, stays.
            if from.prio_of_running().is_some_and(|running| i16::from(level) < running) {
                continue;
            }
            carry((&mut from, &mut to), shared, self.host, self.now, index, (cpu, MigrateCause::RtPull));
            if tell {
                to.resched();
                finish_verb(&mut to, shared, self.host);
            } else {
                to.publish(shared);
            }
        }
    }
}

/// Moves a queued task between run queues, on behalf of CPU `on`. The caller finishes `to`.
pub(crate) fn carry<P: Policy, H: Host>(
    (from, to): (&mut Rq<P>, &mut Rq<P>),
    shared: &Shared<P>,
    host: &mut H,
    now: u64,
    index: u32,
    (on, cause): (CpuId, MigrateCause),
) {
    let event = Event::Migrate { task: from.tasks[index].id, from: from.cpu, to: to.cpu, cause };
    host.event(now, on, &event);
    let task = detach_task(from, shared, index);
    attach_task(to, shared, task);
    finish_verb(from, shared, host);
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
