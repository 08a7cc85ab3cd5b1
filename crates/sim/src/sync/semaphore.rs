//! Counting semaphores as in glibc: a post raises the count and wakes the longest waiter. The first to take it gets it.

use vruntime_sched::event::PrevState;
use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;

use super::WaitQueue;
use crate::interpreter::Flow;
use crate::machine::Machine;

#[derive(Debug)]
pub(crate) struct Semaphore {
    pub(crate) count: u64,
    pub(crate) waiters: WaitQueue,
}

impl Semaphore {
    pub(crate) fn new(semaphore: &vruntime_workload::program::Semaphore) -> Self {
        Self { count: u64::from(semaphore.initial), waiters: WaitQueue::default() }
    }

    pub(crate) fn take(&mut self) -> bool {
        let some = self.count > 0;
        self.count -= u64::from(some);
        some
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Begins a post. Without a waiter, the task does not enter the kernel.
    pub(crate) fn begin_post(&mut self, cpu: usize, task: u32, semaphore: u32) -> Flow {
        let semaphore = &mut self.objects.semaphores[semaphore as usize];
        let waited_for = !semaphore.waiters.is_empty();
        if !waited_for {
            semaphore.count += 1;
        }
        self.call_if(waited_for, cpu, task)
    }

    pub(crate) fn post(&mut self, cpu: usize, semaphore: u32) {
        let this = &mut self.objects.semaphores[semaphore as usize];
        this.count += 1;
        self.wake_semaphore(cpu, semaphore);
    }

    pub(crate) fn wait_semaphore(&mut self, cpu: usize, task: u32, semaphore: u32) -> Flow {
        let this = &mut self.objects.semaphores[semaphore as usize];
        // This take wakes no task: every post has woken a waiter, which takes it.
        if this.take() {
            return Flow::Done;
        }
        this.waiters.push(&mut self.tasks, task);
        self.tasks[task as usize].due = self.core.now;
        self.block(cpu, task, PrevState::Sleeping)
    }

    fn wake_semaphore(&mut self, cpu: usize, semaphore: u32) {
        let waiters = self.objects.semaphores[semaphore as usize].waiters;
        self.objects.semaphores[semaphore as usize].waiters = self.wake_up(cpu, waiters, 1, Waker::Task);
    }
}
