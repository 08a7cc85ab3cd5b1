//! Wait queues of programs: `wait_event` and `wake_up` (`kernel/sched/wait.c`).
//!
//! A wakeup adds events, and a waiter takes one. A woken task that finds none rejoins the queue.
//!
//! A timeout is a high-resolution timer (`wait_event_hrtimeout`, as poll, epoll and futex). It counts from the start of
//! the wait, across wakeups. A task that finds its event when it returns has not timed out, even if its timer has
//! fired.

use std::collections::VecDeque;

use vruntime_sched::event::{Event, PrevState};
use vruntime_sched::ids::TaskId;
use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;
use vruntime_workload::program::WaitMode;

use super::WaitQueue;
use crate::cpu::NEVER;
use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::task::Timeout;

#[derive(Clone, Debug, Default)]
pub(crate) struct EventQueue {
    events: u64,
    waiters: WaitQueue,
    /// Arrivals of requests from outside, in order.
    arrivals: VecDeque<u64>,
}

impl EventQueue {
    fn take(&mut self) -> bool {
        let some = self.events > 0;
        self.events -= u64::from(some);
        some
    }

    pub(crate) fn requests(&self) -> usize {
        self.arrivals.len()
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(crate) fn wait_event(&mut self, cpu: usize, task: u32, queue: u32, mode: WaitMode, timeout: u64) -> Flow {
        let now = self.core.now;
        self.tasks[task as usize].due = now.saturating_add(if timeout == NEVER { 0 } else { timeout });
        if self.takes_event(task, queue) {
            return Flow::Done;
        }
        match timeout {
            0 => return self.timed_out(cpu, task),
            NEVER => {}
            timeout => {
                self.tasks[task as usize].wait.timeout = Timeout::Armed;
                self.arm_sleep(cpu, task, now.saturating_add(timeout));
            }
        }
        self.join(cpu, task, queue, mode)
    }

    pub(crate) fn go_on_waiting(&mut self, cpu: usize, task: u32, index: u32, mode: WaitMode) -> Flow {
        let queue = &mut self.objects.wait_queues[index as usize];
        if std::mem::take(&mut self.tasks[task as usize].wait.queued) {
            queue.waiters.remove(&mut self.tasks, task);
        }
        if self.takes_event(task, index) {
            self.end_timeout(task);
            return Flow::Done;
        }
        if self.end_timeout_if_expired(task) { self.timed_out(cpu, task) } else { self.join(cpu, task, index, mode) }
    }

    fn takes_event(&mut self, task: u32, queue: u32) -> bool {
        let queue = &mut self.objects.wait_queues[queue as usize];
        let takes = queue.take();
        if takes && let Some(arrived) = queue.arrivals.pop_front() {
            self.round_is_due(task, arrived);
        }
        takes
    }

    /// Adds a request from outside, which arrived at `arrived`. Its interrupt handler runs on `cpu`.
    pub(crate) fn request_event(&mut self, cpu: usize, queue: u32, arrived: u64) {
        let this = &mut self.objects.wait_queues[queue as usize];
        this.events = this.events.saturating_add(1);
        this.arrivals.push_back(arrived);
        let waiters = this.waiters;
        let left = self.wake_up(cpu, waiters, 1, Waker::Irq);
        self.objects.wait_queues[queue as usize].waiters = left;
    }

    fn join(&mut self, cpu: usize, task: u32, queue: u32, mode: WaitMode) -> Flow {
        let waiters = &mut self.objects.wait_queues[queue as usize].waiters;
        match mode {
            WaitMode::Shared | WaitMode::ExclusiveLifo => waiters.push_front(&mut self.tasks, task),
            WaitMode::Exclusive => waiters.push(&mut self.tasks, task),
        }
        self.tasks[task as usize].wait.queued = true;
        self.block(cpu, task, PrevState::Sleeping)
    }

    pub(crate) fn bring_events(&mut self, cpu: usize, queue: u32, nr: u32, events: u32, sync: bool) {
        let this = &mut self.objects.wait_queues[queue as usize];
        this.events = this.events.saturating_add(u64::from(events));
        let waiters = this.waiters;
        let waker = if sync { Waker::TaskSync } else { Waker::Task };
        let left = self.wake_up(cpu, waiters, nr, waker);
        self.objects.wait_queues[queue as usize].waiters = left;
    }

    pub(super) fn end_timeout(&mut self, task: u32) {
        let timeout = &mut self.tasks[task as usize].wait.timeout;
        if std::mem::replace(timeout, Timeout::None) == Timeout::Armed {
            self.cancel_sleep(task);
        }
    }

    /// Ends the wait if its timer has fired. Returns whether it has.
    pub(super) fn end_timeout_if_expired(&mut self, task: u32) -> bool {
        let timeout = &mut self.tasks[task as usize].wait.timeout;
        let expired = *timeout == Timeout::Expired;
        if expired {
            *timeout = Timeout::None;
        }
        expired
    }

    /// Ends the wait without its event: in the trace a sleep that returns.
    pub(super) fn timed_out(&mut self, cpu: usize, task: u32) -> Flow {
        let late = self.core.now.saturating_sub(self.tasks[task as usize].due);
        self.core.emit(cpu, &Event::SleepReturn { task: TaskId(task), late });
        Flow::Done
    }
}
