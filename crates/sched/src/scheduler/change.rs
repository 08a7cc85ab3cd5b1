//! Changes of a task's attributes: the task leaves its class, changes, returns to a class, and may cause a reschedule.

use crate::attrs::ClassKind;
use crate::class;
use crate::class::deadline::verbs as deadline;
use crate::class::moves::{activate, check_preempt};
use crate::class::rt::verbs as rt;
use crate::event::Running;
use crate::kernels::Behaviour;
use crate::policy::{Changed, Dequeue, Enqueue, Limited, Policy, Wake};
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::{Lent, SchedPolicy, Task, TaskState};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Nice,
    Policy(SchedPolicy),
    Lent(Option<Lent>),
    Clamps,
    Group,
}

impl Change {
    /// Returns the class of the task afterwards.
    pub(super) fn class<P: Policy>(self, task: &Task<P>) -> ClassKind {
        match self {
            Self::Policy(policy) => ClassKind::of(policy, task.lent),
            Self::Lent(lent) => ClassKind::of(task.policy, lent),
            Self::Nice | Self::Clamps | Self::Group => task.kind,
        }
    }
}

/// The state of a task before a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Was {
    pub(super) queued: bool,
    pub(super) running: bool,
    pub(super) kind: ClassKind,
    pub(super) prio: i16,
}

impl Was {
    pub(super) fn of<P: Policy>(rq: &Rq<P>, index: u32) -> Self {
        let task = &rq.tasks[index];
        Self { queued: task.on_rq, running: rq.curr == Some(index), kind: task.kind, prio: task.prio() }
    }
}

/// Dequeues an ordinary task for a change, and then puts it if it runs. Only dequeuing updates the sums of its groups,
/// so it is first.
pub(super) fn save<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    if rq.tasks[index].on_rq {
        P::dequeue(rq, shared, index, Dequeue::Save);
        rq.tasks[index].on_rq = false;
    }
    if rq.curr == Some(index) {
        class::switch_ordinary(rq, shared, Some(index), None);
        rq.curr = None;
    }
}

/// Restores the task. If its group is throttled as its only task returns, the task is preempted at once, as in
/// `set_curr_task_fair` up to 5.3. Later kernels let it run until another reschedule, a fault that is not repeated
/// here.
pub(super) fn restore<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, was: Was) {
    if was.queued {
        P::enqueue(rq, shared, index, Enqueue::Restore);
        rq.tasks[index].on_rq = true;
    }
    if was.running {
        rq.restoring = true;
        class::switch_ordinary(rq, shared, None, Some(index));
        rq.restoring = false;
        rq.curr = Some(index);
        if P::Limits::throttled(rq, shared, index) {
            rq.resched();
        }
    }
}

/// Restores a task to its class, after an ordinary or deadline task left it.
pub(super) fn stay_in_class<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, what: Change, was: Was) {
    match was.kind {
        ClassKind::Fair => restore(rq, shared, index, was),
        ClassKind::Deadline => {
            if was.queued {
                deadline::enqueue(rq, shared, index, Enqueue::Restore);
            }
        }
        ClassKind::Rt => {
            // Without real-time groups a group has no lists, but the task is requeued.
            if was.queued && ((what == Change::Group && !rt::has_groups(rq)) || rt::has_moved(rq, shared, index)) {
                rt::update_curr(rq, shared);
                rt::reprioritise(rq, shared, index);
            }
        }
    }
}

/// Moves a task, which has left the ordinary class, to another class.
pub(super) fn change_class<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, new: ClassKind, was: Was) {
    // POSIX: a lowered task is put at the head.
    let end = if was.kind == ClassKind::Deadline { rt::End::Head } else { rt::End::Tail };
    match was.kind {
        ClassKind::Fair => {
            if was.queued {
                rq.finish_dequeue(index);
            }
            if !P::Changes::switched_from(rq, shared, index) {
                // As a move to another CPU, which is this one.
                P::detach(rq, shared, index);
                P::attach(rq, shared, index);
            }
            let now = rq.clock.pelt();
            let this = &mut rq.tasks[index];
            this.wakes_as_migrated = false;
            if this.went_above == 0 {
                this.went_above = now;
            }
        }
        ClassKind::Deadline => {
            if was.running {
                rq.curr = None;
            }
            deadline::leave(rq, shared, index, false);
            rq.tasks[index].wakes_as_migrated = !was.queued && rq.tasks[index].state == TaskState::Sleeping;
        }
        ClassKind::Rt => {
            if was.queued {
                rt::dequeue(rq, shared, index);
            }
            if was.running {
                rt::put_prev(rq, shared, index);
                rq.curr = None;
            }
            rq.tasks[index].wakes_as_migrated = !was.queued && rq.tasks[index].state == TaskState::Sleeping;
        }
    }
    rq.tasks[index].kind = new;
    match new {
        ClassKind::Fair => {
            if was.queued {
                activate(rq, shared, index, Enqueue::Restore);
            }
            if was.running {
                class::switch_ordinary(rq, shared, None, Some(index));
                rq.curr = Some(index);
            }
            if rq.tasks[index].wakes_as_migrated && P::Changes::switched_to_asleep(rq, shared, index) {
                rq.tasks[index].wakes_as_migrated = false;
            }
        }
        ClassKind::Deadline => {
            if was.running {
                rq.curr = Some(index);
            }
            if was.queued {
                deadline::enqueue(rq, shared, index, Enqueue::Restore);
            }
            if was.running {
                deadline::set_next(rq, shared, index);
            }
        }
        ClassKind::Rt => {
            if was.running {
                rq.curr = Some(index);
            }
            if was.queued {
                rt::enqueue(rq, shared, index, end);
            }
            if was.running {
                rt::set_next(rq, shared, index);
            }
        }
    }
}

/// Requests a reschedule after a change of a queued task, if needed. A running task with another group or class is
/// rescheduled; otherwise priorities decide. Up to 5.5, a change of group has no further effect, and a better nice
/// value reschedules the running task.
pub(super) fn changed<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, what: Change, was: Was) {
    let this = &rq.tasks[index];
    let (new, prio, running) = (this.kind, this.prio(), rq.curr == Some(index));
    let looks = shared.config.has(Behaviour::PrioChangeLooks);
    match what {
        // A task that is no longer throttled would wait on an idle CPU for the next event. No kernel checks this; we
        // do.
        Change::Group if rq.running == Running::Idle => rq.resched(),
        Change::Group if running && shared.config.has(Behaviour::GroupMoveReschedules) => rq.resched(),
        Change::Group => {}
        Change::Nice if !looks && (prio < was.prio || (prio > was.prio && running)) => rq.resched(),
        Change::Nice if !looks => {}
        _ if new != was.kind || prio != was.prio || new == ClassKind::Deadline => {
            class_changed(rq, shared, index, was);
        }
        _ => {}
    }
}

/// Handles a changed class or priority of a queued task (`check_class_changed`).
fn class_changed<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, was: Was) {
    let Was { kind: old, prio: old_prio, .. } = was;
    let this = &rq.tasks[index];
    let (new, prio, running) = (this.kind, this.prio(), rq.curr == Some(index));
    match (new, running) {
        (ClassKind::Fair, _) if old == new && P::Changes::is_alone(rq, shared) => {}
        (ClassKind::Fair, true) => {
            if old != new || prio > old_prio {
                rq.resched();
            }
        }
        (ClassKind::Fair, false) => check_preempt(rq, shared, index, Wake::default()),
        (ClassKind::Deadline, true) => {
            if rq.dl.first() != Some(index) {
                rq.resched();
            }
        }
        (ClassKind::Deadline, false) => {
            check_preempt(rq, shared, index, Wake::default());
            if !rq.need_resched() && !rq.dl.pushable.is_empty() {
                rq.dl.callback = Some(rt::Callback::Push);
            }
        }
        (ClassKind::Rt, true) => {
            if prio > i16::from(rq.rt.highest()) {
                rq.resched();
            }
        }
        (ClassKind::Rt, false) => {
            let urgent = rq.curr.is_none_or(|current| prio < rq.tasks[current].prio());
            if urgent && (old != new || prio != old_prio) && rq.running != Running::Stopper {
                rq.resched();
            } else if old != new {
                rq.rt.callback = Some(rt::Callback::Push);
            }
        }
    }
    if old == ClassKind::Deadline && new != old && rq.dl.nr_running() == 0 {
        rq.dl.callback = Some(rt::Callback::Pull);
    }
    // While tasks wait here, none is pulled for one that leaves the class.
    let lowered = new == old && running && prio > old_prio;
    let left = new != old && rq.rt.nr_running() == 0;
    if old == ClassKind::Rt && (lowered || left) {
        rq.rt.callback = Some(rt::Callback::Pull);
    }
}
