//! Tasks' timers (`hrtimer.c`): the sleepers of each CPU, and the timers that an interrupt takes.
//!
//! A sleep may end late by the slack (`PR_SET_TIMERSLACK`, 50 us; 0 for real-time tasks), for whose end the interrupt
//! is programmed. Any timer interrupt of that CPU, also the tick, takes all due timers, in order of their slacks' ends.
//! So tasks due within each other's slack wake at one instant. A sleep due just before a tick ends at the tick.
//!
//! A CPU has one device for its timers, programmed for the first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use vruntime_sched::class::ClassKind;
use vruntime_sched::event::OverheadKind;
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::{Policy, Scheduler, Waker};
use vruntime_trace::Sink;
use vruntime_workload::program::Before;

use crate::cpu::NEVER;
use crate::host::SLEEPERS;
use crate::machine::{Machine, sched};
use crate::program::Code;
use crate::sync::inbox::Wait;
use crate::task::{Life, Next, Task, Timeout};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SleepTimer {
    /// From this time on an interrupt may take the timer.
    due: u64,
    /// The arming's number, or 0.
    armed: u64,
}

/// A CPU's timers by end of slack and arming, also cancelled and rearmed ones.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    timers: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// The programmed arming, or 0.
    programmed: u64,
}

impl Sleepers {
    fn push(&mut self, end: u64, armed: u64, task: u32, tasks: &[Task]) {
        // Removes void timers before they pile up: a task has at most one valid timer.
        if self.timers.len() > 2 * tasks.len() + 64 {
            self.timers.retain(|Reverse((_, armed, task))| tasks[*task as usize].timer.armed == *armed);
        }
        self.timers.push(Reverse((end, armed, task)));
    }

    /// Returns the first timer: the end of its slack, its arming, its task.
    #[inline]
    fn first(&mut self, tasks: &[Task]) -> Option<(u64, u64, u32)> {
        while let Some(&Reverse(first @ (_, armed, task))) = self.timers.peek() {
            if tasks[task as usize].timer.armed == armed {
                return Some(first);
            }
            self.timers.pop();
        }
        None
    }

    #[inline]
    fn pop_due(&mut self, now: u64, tasks: &[Task]) -> Option<u32> {
        let (_, _, task) = self.first(tasks)?;
        if tasks[task as usize].timer.due > now {
            return None;
        }
        self.timers.pop();
        Some(task)
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    fn slack(&self, cpu: usize) -> u64 {
        let rq = &self.rqs[cpu];
        let urgent =
            rq.curr_ordinary.is_none() && rq.curr.is_some_and(|current| rq.tasks[current].kind() != ClassKind::Fair);
        if urgent { 0 } else { self.timer_slack }
    }

    /// Returns the end of a sleep due at `due`, unless an earlier interrupt takes it.
    pub(crate) fn latest(&self, cpu: usize, due: u64) -> u64 {
        due.saturating_add(self.slack(cpu))
    }

    pub(crate) fn arm_sleep(&mut self, cpu: usize, task: u32, due: u64) {
        self.arm_sleep_until(cpu, task, due, self.latest(cpu, due));
    }

    #[inline]
    fn arm_sleep_until(&mut self, cpu: usize, task: u32, due: u64, end: u64) {
        self.timers_armed += 1;
        let armed = self.timers_armed;
        let this = &mut self.tasks[task as usize];
        (this.timer, this.timer_cpu) = (SleepTimer { due, armed }, cpu as u32);
        self.sleepers[cpu].push(end, armed, task, &self.tasks);
        if let Some(idle) = &mut self.idle {
            idle.arm(task, cpu, end);
        }
        self.program(cpu);
    }

    #[inline]
    fn program(&mut self, cpu: usize) {
        let sleepers = &mut self.sleepers[cpu];
        let (end, armed) = sleepers.first(&self.tasks).map_or((NEVER, 0), |(end, armed, _)| (end, armed));
        if std::mem::replace(&mut sleepers.programmed, armed) == armed {
            return;
        }
        let source = self.core.source(cpu, SLEEPERS);
        if armed == 0 {
            self.core.queue.cancel(source);
        } else {
            let late = self.interrupt_latency();
            self.core.queue.arm(source, end.saturating_add(late));
        }
    }

    /// Puts a new task to sleep until `due`, on its first CPU.
    pub(crate) fn put_to_sleep(&mut self, cpu: usize, task: u32, due: u64) {
        self.born(task, None, cpu);
        sched!(self, cpu).put_to_sleep(TaskId(task));
        self.tasks[task as usize].life = Life::Asleep;
        // Without slack, as in recorders, so that all tasks begin at one instant.
        self.arm_sleep_until(cpu, task, due, due);
    }

    /// As [`Self::put_to_sleep`], in the wait that begins the program. Returns whether it begins with a wait. If not,
    /// nothing changes.
    pub(crate) fn put_into_wait(&mut self, cpu: usize, task: u32) -> bool {
        let (pc, loops) = self.first_instruction(task);
        let code = self.programs.code[pc as usize];
        let waits = match code {
            Code::SleepUntil(at) => at > self.core.now,
            Code::SemWait(semaphore) => self.objects.semaphores[semaphore as usize].count == 0,
            Code::InboxWait { inbox, answers } => {
                let wait = Wait { answers, at: pc };
                !self.objects.inboxes[inbox as usize].is_full(task, wait, &self.programs)
            }
            Code::PoolSleep { work, .. } => work > 0,
            _ => false,
        };
        if !waits {
            return false;
        }
        self.born(task, None, cpu);
        sched!(self, cpu).put_to_sleep(TaskId(task));
        let this = &mut self.tasks[task as usize];
        (this.pc, this.loops, this.next, this.life) = (pc, loops, Next::Return, Life::Asleep);
        this.owes_return = true;
        match code {
            Code::SleepUntil(at) => {
                this.due = at;
                self.arm_sleep(cpu, task, at);
            }
            Code::SemWait(semaphore) => self.objects.semaphores[semaphore as usize].waiters.push(&mut self.tasks, task),
            Code::InboxWait { inbox, .. } => self.objects.inboxes[inbox as usize].sleeps_first(task),
            Code::PoolSleep { pool, work } => self.objects.pools[pool as usize].sleeps_first(task, work),
            _ => {}
        }
        true
    }

    /// Returns the first instruction after the starts of phase and loop, and the phase's loops.
    fn first_instruction(&self, task: u32) -> (u32, u64) {
        let this = &self.tasks[task as usize];
        let (mut pc, mut loops) = (this.pc, this.loops);
        loop {
            match self.programs.code[pc as usize] {
                Code::Phase { loops: of_phase } => loops = of_phase,
                Code::Loop => {}
                _ => return (pc, loops),
            }
            pc += 1;
        }
    }

    /// Wakes `task` at `at` with an interrupt of `cpu`: a device's, or the timer wheel's.
    pub(crate) fn arm_exactly(&mut self, cpu: usize, task: u32, at: u64) {
        let this = &mut self.tasks[task as usize];
        (this.timer, this.timer_cpu) = (SleepTimer { due: at, armed: 0 }, cpu as u32);
        if let Some(idle) = &mut self.idle {
            idle.arm(task, cpu, at);
        }
        let late = self.interrupt_latency();
        self.core.queue.arm(self.core.task_source(task), at.saturating_add(late));
    }

    pub(crate) fn cancel_sleep(&mut self, task: u32) {
        let this = &self.tasks[task as usize];
        let (base, sleeps) = (this.timer_cpu as usize, this.timer.armed != 0);
        self.disarm(task);
        if sleeps {
            self.program(base);
        } else {
            self.core.queue.cancel(self.core.task_source(task));
        }
    }

    #[inline]
    fn disarm(&mut self, task: u32) {
        self.tasks[task as usize].timer.armed = 0;
        if let Some(idle) = &mut self.idle {
            idle.disarm(task);
        }
    }

    #[inline(never)]
    pub(crate) fn on_sleepers(&mut self, base: usize) {
        // An offline CPU's timers interrupt another CPU.
        let cpu = self.working(base);
        if !self.enter_interrupt(cpu, self.core.source(base, SLEEPERS)) {
            return;
        }
        self.core.charge(cpu, OverheadKind::Timer, self.core.costs.timer_ns);
        self.take_due_of(base, cpu, false);
        self.leave_interrupt(cpu);
    }

    #[inline(never)]
    pub(crate) fn on_task_source(&mut self, task: u32) {
        let this = &self.tasks[task as usize];
        if this.life == Life::New {
            // The start costs nothing, and happens on CPU 0.
            let was_there = matches!(self.workload.tasks[this.template as usize].before, Some(Before::Runnable(_)));
            let cpu = self.working(if was_there { this.last_cpu as usize } else { 0 });
            self.start(task, None, cpu, was_there);
            self.leave_interrupt(cpu);
            return;
        }
        let cpu = self.working(this.timer_cpu as usize);
        if !self.enter_interrupt(cpu, self.core.task_source(task)) {
            return;
        }
        let costs = &self.core.costs;
        // Grace periods end within a tick.
        let ns = if self.is_grace_thread(task) { costs.wakeup_ns } else { costs.timer_ns };
        self.core.charge(cpu, OverheadKind::Timer, ns);
        self.disarm(task);
        self.expire(cpu, task);
        self.leave_interrupt(cpu);
    }

    fn expire(&mut self, cpu: usize, task: u32) {
        let this = &mut self.tasks[task as usize];
        if this.wait.timeout == Timeout::Armed {
            this.wait.timeout = Timeout::Expired;
        }
        // The task may have been woken before its timeout.
        if this.wait.timeout == Timeout::None || this.life == Life::Asleep {
            self.wake(task, cpu, Waker::Irq);
        }
    }

    /// Wakes all tasks whose timers of `cpu` are due. `charged`: the interrupt woke no task, and every wakeup costs
    /// extra.
    #[inline]
    pub(crate) fn take_due(&mut self, cpu: usize, charged: bool) {
        self.take_due_of(cpu, cpu, charged);
    }

    fn take_due_of(&mut self, base: usize, cpu: usize, mut charged: bool) {
        let mut taken = false;
        while let Some(task) = self.sleepers[base].pop_due(self.core.now, &self.tasks) {
            self.disarm(task);
            taken = true;
            if charged {
                self.core.charge(cpu, OverheadKind::Timer, self.core.costs.wakeup_ns);
            }
            charged = true;
            self.expire(cpu, task);
        }
        if taken {
            self.program(base);
        }
    }
}
