//! Scheduling classes and their order: stop, deadline, real-time, fair, idle.
//!
//! A task's policy or inherited priority decides its class ([`Task::kind`]). The fair class is the scheduler's
//! [`Policy`]. The stop and idle classes have no file. Work for a CPU's stopper precedes its run queue, and the idle
//! task is the absence of others.
//!
//! [`Task::kind`]: crate::task::Task::kind

pub mod cfs_2007;
pub(crate) mod clamps;
pub mod deadline;
pub mod fair;
pub(crate) mod finish;
pub(crate) mod moves;
pub mod o1;
pub(crate) mod ordinary;
pub(crate) mod push_pull;
pub(crate) mod pushable;
pub mod rt;

use self::deadline::verbs as dl;
use self::ordinary::pick_ordinary;
use self::rt::verbs as realtime;
pub use crate::attrs::ClassKind;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::{Balanced, Dequeue, Enqueue, Fault, Policy, Wake};
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::TaskState;

/// Queues and counts a task of class `kind`.
#[inline]
pub(crate) fn enqueue<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, kind: ClassKind, index: u32, why: Enqueue) {
    let counts = !moves_delayed(rq, index, why);
    let clamps_first = clamps_first(shared);
    if clamps_first && counts {
        clamps::inc(rq, shared, kind, index);
    }
    match kind {
        ClassKind::Fair => {
            debug_assert_ne!(rq.curr_ordinary, Some(index), "the running task is queued already");
            // Before: a policy that throttles the task decrements the count again.
            rq.nr_running += 1;
            P::enqueue(rq, shared, index, why);
            rq.tasks[index].on_rq = true;
            rq.list(index);
        }
        ClassKind::Rt => realtime::enqueue(rq, shared, index, realtime::End::Tail),
        ClassKind::Deadline => dl::enqueue(rq, shared, index, why),
    }
    if !clamps_first && counts {
        clamps::inc(rq, shared, kind, index);
    }
}

/// Whether a task's clamps count before its class checks the CPU's utilisation. 6.12 to 6.15: after it, since queued
/// tasks can be asleep (`enqueue_task`).
#[inline]
pub(crate) fn clamps_first<P: Policy>(shared: &Shared<P>) -> bool {
    !shared.config.has(Behaviour::ClampsLast)
}

/// Whether a task with a delayed dequeue moves here, queued until picked.
#[inline]
pub(crate) fn moves_delayed<P: Policy>(rq: &Rq<P>, index: u32, why: Enqueue) -> bool {
    why == Enqueue::Move && rq.tasks[index].state == TaskState::Sleeping
}

/// Dequeues a task of class `kind`. Returns false if the policy delays that.
#[inline]
pub(crate) fn dequeue<P: Policy>(
    rq: &mut Rq<P>,
    shared: &Shared<P>,
    kind: ClassKind,
    index: u32,
    why: Dequeue,
) -> bool {
    // Before: a task whose dequeue is delayed no longer counts.
    clamps::dec(rq, index);
    match kind {
        ClassKind::Fair => {
            let gone = P::dequeue(rq, shared, index, why) || is_kept_wrongly(rq, index, why);
            if gone && why == Dequeue::Move {
                rq.leave(index);
            } else if gone {
                rq.finish_delayed(index);
            }
            gone
        }
        ClassKind::Rt => {
            realtime::dequeue(rq, shared, index);
            rq.load.nr_uninterruptible += i64::from(rq.tasks[index].blocked);
            true
        }
        ClassKind::Deadline => {
            dl::dequeue(rq, shared, index, why);
            rq.load.nr_uninterruptible += i64::from(rq.tasks[index].blocked);
            true
        }
    }
}

/// Whether the policy wrongly keeps a task, which leaves all the same.
#[cold]
fn is_kept_wrongly<P: Policy>(rq: &mut Rq<P>, index: u32, why: Dequeue) -> bool {
    let wrong = why != Dequeue::Sleep;
    if wrong {
        rq.fault(Fault::Kept { task: rq.tasks[index].id, why });
    }
    wrong
}

/// Picks the next task and its class. `above`: a task of a class above fair has had the CPU.
#[inline]
pub(crate) fn pick<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, above: bool) -> (Option<u32>, ClassKind) {
    if rq.higher
        && let Some((next, kind)) = pick_higher(rq, shared, above)
    {
        return (Some(next), kind);
    }
    (pick_ordinary(rq, shared), ClassKind::Fair)
}

#[inline(never)]
fn pick_higher<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, above: bool) -> Option<(u32, ClassKind)> {
    if !rq.dl.is_empty()
        && let Some(picked) = dl::pick(rq, shared, above)
    {
        return Some(picked);
    }
    if rq.rt.runnable() { realtime::pick(rq).map(|task| (task, ClassKind::Rt)) } else { None }
}

/// Switches the CPU to another task `next`, of class `kind` (Fair if none).
#[inline]
pub(crate) fn switch<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, next: Option<u32>, kind: ClassKind) {
    let prev = rq.curr_ordinary;
    if kind == ClassKind::Fair && (prev.is_some() || rq.curr.is_none()) {
        switch_ordinary(rq, shared, prev, next);
        rq.curr = next;
    } else {
        switch_between_classes(rq, shared, next, kind);
    }
}

/// Switches the fair class. `prev` and `next` are None if of another. `next` becomes the balancer's last.
#[inline]
pub(crate) fn switch_ordinary<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, prev: Option<u32>, next: Option<u32>) {
    P::switch(rq, shared, prev, next);
    rq.curr_ordinary = next;
    if let Some(next) = next {
        debug_assert!(rq.tasks[next].on_rq, "the running task is queued");
        rq.relist(next);
    }
}

#[cold]
fn switch_between_classes<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, next: Option<u32>, kind: ClassKind) {
    // Without `curr_ordinary`, the running task is of a higher class.
    let fair = rq.curr_ordinary;
    if fair.is_none()
        && let Some(prev) = rq.curr
    {
        match rq.tasks[prev].kind {
            ClassKind::Deadline => dl::put_prev(rq, shared, prev),
            _ => realtime::put_prev(rq, shared, prev),
        }
    }
    let next_fair = next.filter(|_| kind == ClassKind::Fair);
    if fair.is_some() || next_fair.is_some() {
        switch_ordinary(rq, shared, fair, next_fair);
    }
    rq.curr = next;
    if let Some(next) = next {
        match kind {
            ClassKind::Deadline => dl::set_next(rq, shared, next),
            ClassKind::Rt => realtime::set_next(rq, shared, next),
            ClassKind::Fair => {}
        }
    }
}

/// Decides whether the just queued `index` of class `kind` preempts the running task.
#[inline]
pub(crate) fn wakeup_preempt<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, kind: ClassKind, index: u32, wake: Wake) {
    if kind == ClassKind::Fair && rq.curr_ordinary.is_some() {
        P::wakeup_preempt(rq, shared, index, wake);
    } else if let Some(current) = rq.curr {
        let running = rq.tasks[current].kind;
        if kind < running {
            rq.resched();
        } else if kind == running {
            match kind {
                ClassKind::Deadline => dl::wakeup_preempt(rq, shared, current, index),
                _ => realtime::wakeup_preempt(rq, shared, current, index),
            }
        }
    }
}

#[inline]
pub(crate) fn tick<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    match (rq.curr_ordinary, rq.curr) {
        (Some(current), _) => P::tick(rq, shared, current),
        (None, Some(current)) if rq.tasks[current].kind == ClassKind::Deadline => dl::tick(rq, shared),
        (None, Some(current)) => realtime::tick(rq, shared, current),
        (None, None) => {}
    }
}

pub(crate) fn yield_task<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    let Some(current) = rq.curr else { return };
    match rq.tasks[current].kind {
        ClassKind::Fair => P::yield_task(rq, shared),
        ClassKind::Rt => realtime::requeue(rq, current, realtime::End::Tail),
        ClassKind::Deadline => dl::yield_task(rq, shared, current),
    }
}

pub(crate) fn update_curr<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    let Some(current) = rq.curr else { return };
    match rq.tasks[current].kind {
        ClassKind::Fair => P::update_curr(rq, shared),
        ClassKind::Rt => realtime::update_curr(rq, shared),
        ClassKind::Deadline => dl::update_curr(rq, shared),
    }
}

/// Returns a CPU for a task of class `kind` that wakes or is new.
#[inline]
pub(crate) fn select_cpu<P: Policy>(
    rq: &mut Rq<P>,
    shared: &Shared<P>,
    kind: ClassKind,
    index: u32,
    on: CpuId,
    wake: Wake,
) -> CpuId {
    match kind {
        ClassKind::Fair => {
            let chosen = P::select_cpu(rq, shared, index, on, wake);
            existing(rq, shared, index, chosen)
        }
        ClassKind::Rt => realtime::select_cpu(rq, shared, index, on),
        ClassKind::Deadline => dl::select_cpu(rq, shared, index, on),
    }
}

/// Returns the policy's choice, or the present CPU if that is none of the machine's.
#[inline]
fn existing<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, chosen: CpuId) -> CpuId {
    if chosen.index() < shared.nr_cpus() {
        return chosen;
    }
    rq.fault(Fault::SelectedNoCpu { task: rq.tasks[index].id, cpu: chosen });
    rq.cpu
}

/// Returns a CPU for the running task at exec. A real-time or deadline task stays.
pub(crate) fn select_cpu_exec<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) -> CpuId {
    match rq.tasks[index].kind {
        ClassKind::Fair => {
            let chosen = P::select_cpu_exec(rq, shared, index);
            existing(rq, shared, index, chosen)
        }
        ClassKind::Rt | ClassKind::Deadline => rq.cpu,
    }
}

/// Updates a CPU's averages before balancing, and publishes the fair class's capacity.
pub(crate) fn update_blocked_averages<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    if rq.higher {
        let (rt, dl) = (rq.rt.has_load(), rq.dl.has_load());
        if rt {
            realtime::update_load(rq);
        }
        if dl {
            dl::update_load(rq);
        }
        if rt || dl {
            realtime::update_capacity(rq, shared);
        }
    }
    P::Balance::update_blocked_averages(rq, shared);
}

/// Updates the PELT clock of a CPU that becomes idle, unless it was always busy (`update_idle_rq_clock_pelt`).
#[cold]
pub(crate) fn sync_idle_clock<P: Policy>(rq: &mut Rq<P>) {
    use fair::pelt::LOAD_AVG_MAX;
    /// Least sum of the three without idle time for as long as averages remember.
    const SATURATED: u64 = ((LOAD_AVG_MAX - 1024) << 10) - LOAD_AVG_MAX;
    let sum = P::Balance::util_sum(rq) + rq.rt.util_sum() + rq.dl.util_sum();
    rq.clock.goes_idle(sum >= SATURATED);
}
