//! `schedule`: picks the next task and switches to it.

use super::common::{ArmCause, arm_slice_timer};
use crate::attrs::ClassKind;
use crate::balance::idle::update_idle_core;
use crate::balance::pull::Balancing;
use crate::balance::when::may_look_newly_idle;
use crate::class;
use crate::class::deadline::verbs as deadline;
use crate::class::finish::finish_verb;
use crate::class::rt::ask_for_tasks;
use crate::class::rt::verbs as rt;
use crate::event::{Event, PrevState, Running};
use crate::features::Feature;
use crate::host::Host;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::{Dequeue, Limited, Policy};
use crate::rq::{Rq, Rqs};
use crate::scheduler::view::Scheduler;
use crate::shared::Shared;
use crate::task::TaskState;

/// The result of [`Scheduler::schedule`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct NextTask {
    /// The previous task.
    pub prev: Running,
    /// The next task, maybe equal to `prev`.
    pub next: Running,
    /// Whether `next` last ran on another CPU, so that its cache is cold.
    pub migrated: bool,
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// `__schedule`: switches `cpu` from the running task, for the reason `prev_state`, to the next. Balances before
    /// the CPU runs something less urgent or becomes idle.
    ///
    /// Only the CPU itself calls this, one call at a time. Once the previous task has left the CPU, another CPU may run
    /// it while this call still balances. So never call this on that task's own stack.
    #[inline(always)]
    #[allow(clippy::inline_always)] // a host calls it in one place, at every switch
    pub fn schedule(&mut self, cpu: CpuId, prev_state: PrevState) -> NextTask {
        let shared = self.shared;
        let mut rq = self.rqs.rq(cpu);
        rq.switch_clock(self.now);
        let (prev, prev_index) = (rq.running, rq.curr);
        let ordinary = rq.curr_ordinary.is_some();
        if let Some(index) = prev_index {
            let kind = if ordinary { ClassKind::Fair } else { rq.tasks[index].kind };
            if !ordinary {
                // First, since this may throttle the class of the running task.
                class::update_curr(&mut rq, shared);
            }
            give_way(&mut rq, shared, kind, index, prev_state);
        }

        let left_dl = rq.uses_dl() && deadline::before_pick(&mut rq, shared);

        let wants_stopper = |rq: &Rq<P>| rq.push.is_some() && prev != Running::Stopper;
        let (mut next, mut kind) = (None, ClassKind::Fair);
        let mut left = false;
        let mut stopper = wants_stopper(&rq);
        let above = !ordinary && prev != Running::Idle;
        if (left_dl || above) && !stopper {
            let pull_dl = left_dl && shared.dl.offers.any(shared, cpu);
            let pull_rt = above && needs_pull(&rq, shared, prev_index);
            let was_rt = prev_index.is_some_and(|index| rq.tasks[index].kind == ClassKind::Rt);
            if pull_rt && !pull_dl && shared.config.features.has(Feature::RtPushIpi) {
                // No task can join, and the run queue stays locked.
                if was_rt || rq.dl.is_empty() {
                    ask_for_tasks(shared, self.host, self.now, cpu);
                }
            } else if pull_dl || pull_rt {
                left |= put_prev_before_unlock(&mut rq, shared, self.now);
                rq.publish(shared);
                drop(rq);
                self.pull_higher(cpu, pull_dl, pull_rt, was_rt);
                rq = self.rqs.rq(cpu);
                rq.newidle = false;
                P::after_balance(&mut rq, shared);
                stopper = wants_stopper(&rq);
            }
        }
        if !stopper {
            (next, kind) = class::pick(&mut rq, shared, above);
            // Repeats if the pulled tasks may not run: throttled or delayed. Not if the policy has a task and does not
            // name it (`Fault::PickedNobody`).
            let mut looks = rq.nr_ordinary() == 0;
            while looks && next.is_none() && may_look_newly_idle(&mut rq, shared, self.now) {
                // Balancing unlocks the run queue, so `prev` must be off the CPU first: a wakeup elsewhere may move it.
                // The balancer publishes that.
                left |= put_prev_before_unlock(&mut rq, shared, self.now);
                drop(rq);
                let mut balancing = Balancing { rqs: self.rqs, shared, host: self.host, now: self.now };
                looks = balancing.newidle(cpu);
                rq = self.rqs.rq(cpu);
                rq.newidle = false;
                P::after_balance(&mut rq, shared);
                stopper = wants_stopper(&rq);
                if stopper {
                    break;
                }
                (next, kind) = class::pick(&mut rq, shared, above);
                looks &= rq.nr_ordinary() == 0;
            }
        }

        rq.need_resched = false;
        rq.resched_lazily = false;
        // A pulled task runs at once.
        rq.keeps_clock = false;
        shared.cpu(cpu).need_resched.store(false, core::sync::atomic::Ordering::Relaxed);
        let curr = rq.curr;
        let running = match next {
            _ if stopper => Running::Stopper,
            // A task that was off the CPU meanwhile is not `curr`.
            Some(_) if next == curr => prev,
            Some(index) => Running::Task(rq.tasks[index].id),
            None => Running::Idle,
        };
        let migrated = next != curr && hand_over(&mut rq, shared, next, kind, self.now);
        rq.running = running;
        if prev == Running::Idle && running != Running::Idle && shared.config.has(Behaviour::IdleEndsAtSwitch) {
            rq.balance.idle_ended(self.now);
            shared.idleness(cpu).set_avg_idle(rq.balance.avg_idle);
        }
        if running == Running::Idle && prev != Running::Idle {
            if rq.clock.is_behind() {
                class::sync_idle_clock(&mut rq);
            }
            update_idle_core(shared, cpu);
        }
        if rq.uses_dl() {
            deadline::tell_host(&mut rq, self.host);
        }
        rq.notify_resume = P::Limits::wants_return(&rq);
        let cause = if running == prev { ArmCause::PickedAgain } else { ArmCause::Start };
        arm_slice_timer(&mut rq, shared, self.host, cause);
        if running != prev {
            self.host.event(self.now, cpu, &Event::Switch { prev, prev_state, next: running });
        } else if left && prev.task().is_some() {
            // It was woken by another CPU before this one found other work: it left and came back.
            let idle = Running::Idle;
            self.host.event(self.now, cpu, &Event::Switch { prev, prev_state, next: idle });
            self.host.event(
                self.now,
                cpu,
                &Event::Switch { prev: idle, prev_state: PrevState::Preempted, next: running },
            );
        }
        if let (Some(index), PrevState::Dead) = (prev_index, prev_state) {
            forget(&mut rq, shared, index);
        }
        finish_verb(&mut rq, shared, self.host);
        if rq.higher && (rq.dl.callback.is_some() || rq.rt.callback.is_some()) {
            let (dl_callback, callback) = (rq.dl.callback.take(), rq.rt.callback.take());
            drop(rq);
            self.call_back(ClassKind::Deadline, cpu, dl_callback);
            self.call_back(ClassKind::Rt, cpu, callback);
        }
        NextTask { prev, next: running, migrated }
    }

    /// Pulls deadline and real-time tasks from overloaded CPUs, in classes from the previous task's down until one has
    /// a task (`prev_balance`). So after a deadline task or the stopper, no real-time task is pulled if a deadline task
    /// is next.
    #[cold]
    fn pull_higher(&mut self, cpu: CpuId, dl: bool, rt: bool, was_rt: bool) {
        if dl {
            self.pull_tasks(ClassKind::Deadline, cpu, false);
        }
        if rt && (was_rt || self.rqs.rq(cpu).dl.is_empty()) {
            self.pull_tasks(ClassKind::Rt, cpu, false);
        }
    }

    /// Lets the running task yield (`sched_yield`). The host then calls [`Self::schedule`] with [`PrevState::Yielded`].
    pub fn yield_task(&mut self, cpu: CpuId) {
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now);
        class::yield_task(&mut rq, self.shared);
        finish_verb(&mut rq, self.shared, self.host);
    }
}

/// Takes the running task off its queue, unless it stays runnable.
#[inline]
fn give_way<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, kind: ClassKind, index: u32, why: PrevState) {
    match why {
        PrevState::Preempted | PrevState::Yielded => {}
        PrevState::Sleeping | PrevState::Blocked => {
            rq.tasks[index].state = TaskState::Sleeping;
            rq.tasks[index].blocked = why == PrevState::Blocked;
            class::dequeue(rq, shared, kind, index, Dequeue::Sleep);
        }
        PrevState::Dead => {
            class::dequeue(rq, shared, kind, index, Dequeue::Dead);
        }
    }
}

/// Switches to another task `next` of class `kind`. Returns whether it last ran on another CPU.
#[inline(always)]
#[allow(clippy::inline_always)] // at every switch: a call would cost 1 % of it
fn hand_over<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, next: Option<u32>, kind: ClassKind, now: u64) -> bool {
    let prev = rq.curr;
    class::switch(rq, shared, next, kind);
    if let Some(index) = prev {
        has_run(rq, shared, index, now);
    }
    next.is_some_and(|index| core::mem::replace(&mut rq.tasks[index].migrated, false))
}

#[inline]
fn has_run<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, now: u64) {
    let task = &mut rq.tasks[index];
    task.last_ran = now;
    let group = task.group;
    rq.count_switch(shared, group);
}

fn forget<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    P::detach(rq, shared, index);
    deadline::leave(rq, shared, index, true);
    let task = rq.take(shared, index);
    shared.forget(task.id);
}

/// Whether tasks of other CPUs may precede those here, after a real-time or deadline task or (`None`) the stopper.
#[cold]
fn needs_pull<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, prev: Option<u32>) -> bool {
    /// The stopper's, above all.
    const STOPPER_PRIO: i16 = -2;
    match prev {
        None => rt::needs_pull(rq, shared, STOPPER_PRIO),
        Some(index) => {
            let this = &rq.tasks[index];
            let goes_on = this.on_rq && this.deadline().is_none_or(|se| !se.throttled);
            !goes_on && rt::needs_pull(rq, shared, this.prio())
        }
    }
}

/// Puts `prev` before the run queue is unlocked and the next task is known. Returns whether there was one.
#[inline(never)]
fn put_prev_before_unlock<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, now: u64) -> bool {
    let prev = rq.curr;
    rq.newidle = true;
    if let Some(index) = prev {
        has_run(rq, shared, index, now);
        class::switch(rq, shared, None, ClassKind::Fair);
    }
    prev.is_some()
}
