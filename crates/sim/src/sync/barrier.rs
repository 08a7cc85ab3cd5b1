//! Barriers: the last task to arrive wakes the others and continues.
//!
//! rt-app builds them of a mutex and a condition. The last task wakes all others while holding the mutex, and each
//! woken task locks it again. So a task that preempts the last one, or runs elsewhere before the unlock, waits twice.
//! Recorded under 6.18: a task of four on 2 CPUs left its CPU 1.4 times a round.

use vruntime_sched::event::PrevState;
use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;

use super::WaitQueue;
use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::program::NO_MUTEX;
use crate::task::Next;

#[derive(Debug)]
pub(crate) struct Barrier {
    parties: u32,
    pub(crate) arrived: u32,
    waiters: WaitQueue,
}

impl Barrier {
    pub(crate) fn new(barrier: &vruntime_workload::program::Barrier) -> Self {
        Self { parties: barrier.parties, arrived: 0, waiters: WaitQueue::default() }
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Lets a task arrive, which holds `mutex` unless that is [`NO_MUTEX`].
    pub(crate) fn arrive(&mut self, cpu: usize, task: u32, barrier: u32, mutex: u32) -> Flow {
        let this = &mut self.objects.barriers[barrier as usize];
        this.arrived += 1;
        if this.arrived >= this.parties {
            this.arrived = 0;
            let waiters = std::mem::take(&mut this.waiters);
            self.wake_up(cpu, waiters, 0, Waker::Task);
            return Flow::Done;
        }
        if mutex == NO_MUTEX {
            this.waiters.push(&mut self.tasks, task);
            self.tasks[task as usize].due = self.core.now;
            return self.block(cpu, task, PrevState::Sleeping);
        }
        if self.unlock_in_user_mode(task, mutex) {
            self.release(cpu, task, mutex);
        }
        self.objects.barriers[barrier as usize].waiters.push(&mut self.tasks, task);
        let this = &mut self.tasks[task as usize];
        this.next = Next::Sleep;
        this.woken = false;
        this.due = self.core.now;
        Flow::Stage
    }
}
