//! Wakeups: choice of a CPU, enqueue, and preemption check.

use super::common::{ArmCause, arm_slice_timer, rq_of};
use super::hotplug::{allowed_cpu, widen};
use crate::attrs::ClassKind;
use crate::class;
use crate::class::clamps;
use crate::class::deadline::verbs as deadline;
use crate::class::finish::finish_verb;
use crate::class::moves::{activate_as, check_preempt_as, deactivate, take_off};
use crate::class::rt::verbs as rt;
use crate::cpumask::CpuMask;
use crate::event::{Event, MigrateCause};
use crate::host::Host;
use crate::ids::{CpuId, TaskId};
use crate::kernels::Behaviour;
use crate::policy::{Balanced, Changed, Dequeue, Enqueue, Policy, Wake};
use crate::rq::{Rq, Rqs};
use crate::scheduler::view::Scheduler;
use crate::shared::{Place, Shared};
use crate::task::{Task, TaskState};

/// The waker of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waker {
    /// The task running on that CPU.
    Task,
    /// That task, about to sleep, so that the woken one may use the CPU (`WF_SYNC`).
    TaskSync,
    /// An interrupt handler, not the interrupted task.
    Irq,
}

impl Wake {
    fn fork() -> Self {
        Self { fork: true, ..Self::default() }
    }

    #[inline]
    fn by(waker: Waker) -> Self {
        Self { sync: waker == Waker::TaskSync, irq: waker == Waker::Irq, ..Self::default() }
    }
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// First wakes a new task, from code on `on` (`wake_up_new_task`).
    pub fn wake_new(&mut self, task: TaskId, on: CpuId) {
        self.wake_from(task, on, Wake::fork(), TaskState::New, None);
    }

    /// Wakes a new task on its CPU, as if runnable before the host began. Only affinity can change the CPU.
    pub fn wake_new_in_place(&mut self, task: TaskId) {
        if let Place::On(cpu, _) = self.shared.place(task) {
            self.wake_from(task, cpu, Wake::fork(), TaskState::New, Some(cpu));
        }
    }

    /// Puts a new task to sleep on its CPU, as if it had slept for long. It has no lag. It has averages only if
    /// [`Self::set_averages`] has set them.
    pub fn put_to_sleep(&mut self, task: TaskId) {
        let now = self.now;
        if let Some((mut rq, index)) = rq_of!(self, task)
            && rq.tasks[index].state == TaskState::New
        {
            rq.tasks[index].state = TaskState::Sleeping;
            rq.tasks[index].wakes_as_migrated = true;
            if rq.tasks[index].has_averages && rq.tasks[index].kind == ClassKind::Fair {
                rq.update_clock(now);
                rq.tasks[index].wakes_as_migrated = !P::Changes::switched_to_asleep(&mut rq, self.shared, index);
                rq.publish(self.shared);
            }
        }
    }

    /// Sets the averages of a new task that ran before the simulation. `runnable` and `running` are parts of its time,
    /// in units of 1/1024.
    pub fn set_averages(&mut self, task: TaskId, runnable: u16, running: u16) {
        if let Some((mut rq, index)) = rq_of!(self, task)
            && rq.tasks[index].kind == ClassKind::Fair
            && runnable > 0
        {
            rq.tasks[index].has_averages = true;
            P::set_averages(&mut rq, index, runnable, running);
        }
    }

    /// Sets how often a task recently changed its wakee (`wakee_flips`), for one that ran before the simulation.
    pub fn set_wakee_flips(&mut self, task: TaskId, flips: u32) {
        if let Some((mut rq, index)) = rq_of!(self, task) {
            rq.tasks[index].wakee_flips = flips;
        }
    }

    /// Wakes a task from code on `on`. Returns false, and forgets the wakeup, if it does not sleep or has ended.
    ///
    /// A task sleeps only after [`Self::schedule`] has taken it off its CPU. So a host with concurrent wakers leaves a
    /// token with the task before this call. After `schedule(.., PrevState::Sleeping)`, it wakes a task with a token.
    ///
    /// A task that changes CPUs is briefly on no run queue, as the two are locked in turn. Threads that search for it
    /// wait, so the calling thread must not be stopped for long.
    pub fn wake(&mut self, task: TaskId, on: CpuId, waker: Waker) -> bool {
        let mut wake = Wake::by(waker);
        let mut rq = self.rqs.rq(on);
        if let Some(current) = rq.curr {
            wake.waker_flips = flips_of(&rq.tasks[current], self.now, task);
            if wake.sync && rq.curr_ordinary.is_some() {
                wake.waker_load = P::Balance::task_load(&mut rq, self.shared, current);
            }
        }
        drop(rq);
        self.wake_from(task, on, wake, TaskState::Sleeping, None)
    }

    /// Wakes a task in the state `from`, or returns false. Without `place`, its class chooses a CPU.
    fn wake_from(&mut self, task: TaskId, on: CpuId, wake: Wake, from: TaskState, place: Option<CpuId>) -> bool {
        let Some((mut rq, index)) = rq_of!(self, task) else { return false };
        let prev = rq.cpu;
        if rq.tasks[index].state != from {
            return false;
        }
        if !wake.fork {
            rq.tasks[index].wakeups.sync += u32::from(wake.sync);
            self.host.event(self.now, on, &Event::Waking { task, irq: wake.irq });
        }
        rq.update_clock(self.now);

        if rq.tasks[index].on_rq && !rq.online && rq.curr != Some(index) {
            // Its dequeue was delayed, and the CPU goes offline: it leaves now.
            deactivate(&mut rq, self.shared, index, Dequeue::Delayed);
        }
        if rq.tasks[index].on_rq {
            wake_delayed(&mut rq, self.shared, index, wake);
            self.host.event(self.now, on, &Event::Wakeup { task, target: prev });
            finish_verb(&mut rq, self.shared, self.host);
            return true;
        }

        let kind = rq.tasks[index].kind;
        if wake.fork && kind == ClassKind::Fair {
            P::forked(&mut rq, self.shared, index);
            finish_verb(&mut rq, self.shared, self.host);
        }
        // If only one CPU is allowed, the class does not choose.
        let only_cpu = rq.tasks[index].affinity.as_deref().and_then(CpuMask::only);
        let records_wakee = !wake.fork
            && kind == ClassKind::Fair
            && (only_cpu.is_none() || self.shared.config.has(Behaviour::RecordsPinned));
        let chosen = place.or(only_cpu).unwrap_or_else(|| choose_cpu(&mut rq, self.shared, index, on, wake));
        let mut target = allowed_cpu(self.shared, &rq.tasks[index].affinity, chosen, prev);
        if !self.shared.all_online() && widen(self.shared, self.host, self.now, &mut rq.tasks[index], on) {
            target = allowed_cpu(self.shared, &rq.tasks[index].affinity, target, prev);
        }
        let this = &mut rq.tasks[index];
        let mut why = if wake.fork { Enqueue::New } else { Enqueue::Wakeup };
        if this.wakes_as_migrated {
            this.wakes_as_migrated = false;
            why = Enqueue::WakeupMigrated;
        }
        let (mut rq, index) = if target == prev {
            (rq, index)
        } else {
            let moving = take_off(&mut rq, self.shared, index);
            rq.publish(self.shared);
            drop(rq);
            if !wake.fork {
                why = Enqueue::WakeupMigrated;
            }
            let mut rq = self.rqs.rq(target);
            while !rq.online {
                // The CPU went offline while the task moved.
                drop(rq);
                target = allowed_cpu(self.shared, &moving.affinity, prev, prev);
                rq = self.rqs.rq(target);
            }
            if !wake.fork {
                let cause = MigrateCause::Wakeup;
                self.host.event(self.now, on, &Event::Migrate { task, from: prev, to: target, cause });
            }
            let index = rq.adopt(self.shared, moving);
            P::attach(&mut rq, self.shared, index);
            (rq, index)
        };
        rq.update_clock(self.now);
        join(&mut rq, self.shared, index, on, why, wake);
        // Up to 6.19, a wakeup ends the measured idle time; a fork and a pull do not. 7.0+: leaving the idle task ends
        // it, for any reason.
        if !wake.fork && !self.shared.config.has(Behaviour::IdleEndsAtSwitch) {
            let was_idle = rq.balance.idle_ended(self.now);
            let idleness = self.shared.idleness(rq.cpu);
            idleness.set_avg_idle(rq.balance.avg_idle);
            if was_idle {
                idleness.begin_aging(rq.balance.avg_idle, self.shared.jiffies.now());
            }
        }
        arm_slice_timer(&mut rq, self.shared, self.host, ArmCause::Enqueued);
        let event = if wake.fork { Event::WakeupNew { task, target } } else { Event::Wakeup { task, target } };
        self.host.event(self.now, on, &event);
        let push = match kind {
            ClassKind::Fair => false,
            ClassKind::Rt => rt::woken(&rq, self.shared, index),
            ClassKind::Deadline => deadline::woken(&rq, self.shared, index),
        };
        let pusher = if queues_itself(&rq, self.shared, on) { target } else { on };
        finish_verb(&mut rq, self.shared, self.host);
        drop(rq);
        if records_wakee {
            record_wakee(&mut self.rqs.rq(on), self.now, task);
        }
        if push {
            self.push_tasks(kind, target, pusher);
        }
        true
    }
}

#[inline]
fn wake_delayed<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, wake: Wake) {
    rq.tasks[index].blocked = false;
    let clamps_first = class::clamps_first(shared);
    if clamps_first {
        clamps::inc(rq, shared, ClassKind::Fair, index);
    }
    P::enqueue(rq, shared, index, Enqueue::Delayed);
    if !clamps_first {
        clamps::inc(rq, shared, ClassKind::Fair, index);
    }
    rq.tasks[index].state = TaskState::Runnable;
    if rq.curr != Some(index) {
        check_preempt_as(rq, shared, ClassKind::Fair, index, wake);
        if !wake.irq {
            rq.keep_clock();
        }
    }
}

/// Returns the class's choice, before the affinity check.
#[inline]
fn choose_cpu<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, on: CpuId, wake: Wake) -> CpuId {
    // A new task is placed from the CPU it was created on.
    let from = if wake.fork && !shared.same_root(on, rq.cpu) { rq.cpu } else { on };
    let kind = rq.tasks[index].kind;
    class::select_cpu(rq, shared, kind, index, from, wake)
}

#[inline]
fn join<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, on: CpuId, why: Enqueue, wake: Wake) {
    let kind = rq.tasks[index].kind;
    rq.load.nr_uninterruptible -= i64::from(core::mem::take(&mut rq.tasks[index].blocked));
    activate_as(rq, shared, kind, index, why);
    check_preempt_as(rq, shared, kind, index, wake);
    if rq.need_resched && !wake.irq {
        keep_clock_of_wakeup(rq, shared, on, wake);
    }
}

/// Keeps the clock from a wakeup on `on` that requests a reschedule until the switch, charging the woken task for that
/// time. Exceptions: tasks that the target CPU enqueues itself just before its pick (`ttwu_queue_cond`), and new tasks.
/// Interrupts are charged after their wakeups.
#[inline]
fn keep_clock_of_wakeup<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, on: CpuId, wake: Wake) {
    if wake.fork || !queues_itself(rq, shared, on) {
        rq.keep_clock();
    }
}

/// Whether a CPU itself queues a task woken on `on`: if distant or, 6.0+, if it was idle (`ttwu_queue_cond`).
#[inline]
fn queues_itself<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, on: CpuId) -> bool {
    let idle = || rq.nr_running <= 1 && shared.config.has(Behaviour::QueuesOnIdle);
    rq.cpu != on && (idle() || !shared.domains.share_cache(rq.cpu, on))
}

/// Returns recent wakee changes of `waker`, including this wakeup. Tasks that wake many others should spread
/// (`wake_wide`).
fn flips_of<P: Policy>(waker: &Task<P>, now: u64, wakee: TaskId) -> u32 {
    let decayed = waker.wakee_flips >> u32::from(is_decay_due(waker, now));
    decayed + u32::from(waker.last_wakee != Some(wakee))
}

/// Whether a second has passed since the count of wakee changes was halved.
fn is_decay_due<P: Policy>(waker: &Task<P>, now: u64) -> bool {
    now > waker.wakee_flip_decay + 1_000_000_000
}

/// Records the task that the running task woke. The caller does so only if it chose a CPU for the woken task. A task
/// with one allowed CPU counts only from 3.12 to 4.7.
fn record_wakee<P: Policy>(rq: &mut Rq<P>, now: u64, wakee: TaskId) {
    let Some(current) = rq.curr else { return };
    let waker = &mut rq.tasks[current];
    waker.wakee_flips = flips_of(waker, now, wakee);
    if is_decay_due(waker, now) {
        waker.wakee_flip_decay = now;
    }
    waker.last_wakee = Some(wakee);
}
