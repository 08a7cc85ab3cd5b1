//! Barriers: the last to arrive wakes the others and goes on.

use vruntime_sched::Policy;
use vruntime_sched::event::PrevState;
use vruntime_trace::Sink;

use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::task::WaitQueue;

/// A barrier.
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
    pub(crate) fn arrive(&mut self, cpu: usize, task: u32, barrier: u32) -> Flow {
        let this = &mut self.objects.barriers[barrier as usize];
        this.arrived += 1;
        if this.arrived < this.parties {
            this.waiters.push(&mut self.tasks, task);
            self.tasks[task as usize].due = self.core.now;
            return self.block(cpu, task, PrevState::Sleeping);
        }
        this.arrived = 0;
        let mut waiters = std::mem::take(&mut this.waiters);
        while let Some(waiter) = waiters.pop(&mut self.tasks) {
            self.wake_from_call(cpu, waiter, false);
        }
        Flow::Done
    }
}
