//! Changes of a task's attributes: the task leaves its class, is changed, returns to it or to another class, and the
//! scheduler checks whether to reschedule.

use super::{activate, check_preempt};
use crate::class::{self, ClassKind, deadline, rt};
use crate::event::Running;
use crate::kernels::Behaviour;
use crate::policy::{Dequeue, Enqueue, Policy, Wake};
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::{Lent, SchedPolicy, Task, TaskState};

/// What is changed of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Nice,
    Policy(SchedPolicy),
    Lent(Option<Lent>),
    Clamps,
    Group,
}

impl Change {
    /// The class a task is in then.
    pub(super) fn class<P: Policy>(self, task: &Task<P>) -> ClassKind {
        match self {
            Self::Policy(policy) => ClassKind::of(policy, task.lent),
            Self::Lent(lent) => ClassKind::of(task.policy, lent),
            Self::Nice | Self::Clamps | Self::Group => task.kind,
        }
    }
}

/// What a task was before something of it is changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Was {
    /// On its queue.
    pub(super) queued: bool,
    /// On the CPU.
    pub(super) running: bool,
    /// Of this class.
    pub(super) kind: ClassKind,
    /// As urgent as this.
    pub(super) prio: i16,
}

impl Was {
    pub(super) fn of<P: Policy>(rq: &Rq<P>, index: u32) -> Self {
        let task = &rq.tasks[index];
        Self { queued: task.on_rq, running: rq.curr == Some(index), kind: task.kind, prio: task.prio() }
    }
}

/// An ordinary task leaves its queue, and then the CPU if it runs, while something of it is changed. In this order: the
/// dequeueing tells its groups' sums what they weigh, giving the CPU up does not.
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

/// Puts the task back. If its group has no runtime left and is throttled as its only task returns, the task is
/// preempted at once, as `set_curr_task_fair` does up to 5.3. Later kernels let it run until something else reschedules
/// it, a fault that is not repeated here.
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
        if P::throttled(rq, shared, index) {
            rq.resched();
        }
    }
}

/// A task is back in its class, which an ordinary or a deadline task has left.
pub(super) fn stay_in_class<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, what: Change, was: Was) {
    match was.kind {
        ClassKind::Fair => restore(rq, shared, index, was),
        ClassKind::Deadline => {
            if was.queued {
                deadline::enqueue(rq, shared, index, Enqueue::Restore);
            }
        }
        ClassKind::Rt => {
            // Another group has no lists of its own, but the task is put on its list anew.
            if was.queued && ((what == Change::Group && !rt::has_groups(rq)) || rt::has_moved(rq, shared, index)) {
                rt::update_curr(rq, shared);
                rt::reprioritise(rq, shared, index);
            }
        }
    }
}

/// Moves a task to another class. It has already left the ordinary class.
pub(super) fn change_class<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, new: ClassKind, was: Was) {
    // POSIX: who is lowered goes before its like.
    let end = if was.kind == ClassKind::Deadline { rt::End::Head } else { rt::End::Tail };
    match was.kind {
        ClassKind::Fair => {
            if was.queued {
                rq.finish_dequeue(index);
            }
            if !P::leaves_for_above(rq, shared, index) {
                // As if it went to another CPU, and this one were it.
                P::detach(rq, shared, index);
                P::attach(rq, shared, index);
            }
            let now = rq.clock.pelt();
            let this = &mut rq.tasks[index];
            this.rejoins = false;
            if this.went_above == 0 {
                this.went_above = now;
            }
        }
        ClassKind::Deadline => {
            if was.running {
                rq.curr = None;
            }
            deadline::leave(rq, shared, index, false);
            rq.tasks[index].rejoins = !was.queued && rq.tasks[index].state == TaskState::Sleeping;
        }
        ClassKind::Rt => {
            if was.queued {
                rt::dequeue(rq, shared, index);
            }
            if was.running {
                rt::put_prev(rq, shared, index);
                rq.curr = None;
            }
            rq.tasks[index].rejoins = !was.queued && rq.tasks[index].state == TaskState::Sleeping;
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
            if rq.tasks[index].rejoins && P::returned_asleep(rq, shared, index) {
                rq.tasks[index].rejoins = false;
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

/// Whether to reschedule after a change of a queued task. A running task with another group or class causes a
/// reschedule. Otherwise priorities decide. Up to 5.5, a change of group has no further effect, and a better nice value
/// reschedules the running task.
pub(super) fn changed<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, what: Change, was: Was) {
    let this = &rq.tasks[index];
    let (new, prio, running) = (this.kind, this.prio(), rq.curr == Some(index));
    let looks = shared.config.has(Behaviour::PrioChangeLooks);
    match what {
        // One that a limit held back, and holds no longer, would wait on an idle CPU until something else comes: no
        // kernel looks there, we do.
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

/// A queued task has another class or priority (`check_class_changed`).
fn class_changed<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, was: Was) {
    let Was { kind: old, prio: old_prio, .. } = was;
    let this = &rq.tasks[index];
    let (new, prio, running) = (this.kind, this.prio(), rq.curr == Some(index));
    match (new, running) {
        (ClassKind::Fair, _) if old == new && P::is_alone(rq, shared) => {}
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
            if !rq.need_resched() && rq.dl.earliest_pushable().is_some() {
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
    // One that leaves the class has nobody come from elsewhere as long as somebody waits here.
    let lowered = new == old && running && prio > old_prio;
    let left = new != old && rq.rt.nr_running() == 0;
    if old == ClassKind::Rt && (lowered || left) {
        rq.rt.callback = Some(rt::Callback::Pull);
    }
}
