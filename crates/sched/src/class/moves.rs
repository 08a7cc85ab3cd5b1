//! Moves tasks between run queues.

use super::deadline::verbs as dl;
use super::finish::finish_verb;
use crate::attrs::{ClassKind, TaskState};
use crate::event::{Event, MigrateCause, Running};
use crate::host::Host;
use crate::ids::CpuId;
use crate::policy::{Dequeue, Enqueue, Policy, Wake};
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::Task;

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

pub(crate) fn activate<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, why: Enqueue) {
    let kind = rq.tasks[index].kind;
    activate_as(rq, shared, kind, index, why);
}

#[inline]
pub(crate) fn activate_as<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, kind: ClassKind, index: u32, why: Enqueue) {
    let before = rq.nr_running;
    super::enqueue(rq, shared, kind, index, why);
    if !super::moves_delayed(rq, index, why) {
        rq.tasks[index].state = TaskState::Runnable;
    }
    if before < 2 && rq.nr_running >= 2 {
        shared.set_overloaded(rq.cpu, true);
    }
}

/// Dequeues a task; false if the policy delays the dequeue.
pub(crate) fn deactivate<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, why: Dequeue) -> bool {
    let kind = rq.tasks[index].kind;
    super::dequeue(rq, shared, kind, index, why)
}

/// As `take_away`, without updating the running task first. Delayed tasks move, too, and leave at the next pick.
pub(crate) fn detach_task<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) -> Task<P> {
    deactivate(rq, shared, index, Dequeue::Move);
    take_off(rq, shared, index)
}

#[inline]
pub(crate) fn take_off<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) -> Task<P> {
    P::detach(rq, shared, index);
    let mut moving = rq.take(shared, index);
    moving.migrated = true;
    moving.last_ran = 0;
    moving
}

/// Enqueues a task detached from another run queue; returns its index here.
pub(crate) fn attach_task<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, task: Task<P>) -> u32 {
    let index = rq.adopt(shared, task);
    P::attach(rq, shared, index);
    activate(rq, shared, index, Enqueue::Move);
    index
}

pub(crate) fn check_preempt<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, wake: Wake) {
    let kind = rq.tasks[index].kind;
    check_preempt_as(rq, shared, kind, index, wake);
    rq.keep_clock();
}

#[inline]
pub(crate) fn check_preempt_as<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, kind: ClassKind, index: u32, wake: Wake) {
    match rq.running {
        Running::Idle => rq.resched(),
        // Without `curr` the CPU is between two tasks, and about to pick.
        Running::Task(_) => super::wakeup_preempt(rq, shared, kind, index, wake),
        Running::Stopper => {}
    }
}

impl<P: Policy> Rq<P> {
    pub(crate) fn take(&mut self, shared: &Shared<P>, index: u32) -> Task<P> {
        if self.tasks[index].dl.is_some() || self.tasks[index].dl_kept.is_some() {
            dl::detach(self, index);
        }
        let task = self.tasks.remove(index);
        shared.set_location(task.id, None);
        task
    }

    pub(crate) fn adopt(&mut self, shared: &Shared<P>, task: Task<P>) -> u32 {
        let id = task.id;
        let index = self.tasks.insert(task);
        shared.set_location(id, Some((self.cpu, index)));
        if self.tasks[index].dl.is_some() || self.tasks[index].dl_kept.is_some() {
            dl::attach(self, shared, index);
        }
        index
    }
}
