//! Barriers: the last to arrive wakes the others and goes on.

use vruntime_sched::Policy;
use vruntime_sched::event::PrevState;
use vruntime_trace::Sink;

use super::WaitQueue;
use crate::interpreter::Flow;
use crate::machine::Machine;

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
        let waiters = std::mem::take(&mut this.waiters);
        self.wake_up(cpu, waiters, 0, false);
        Flow::Done
    }
}
