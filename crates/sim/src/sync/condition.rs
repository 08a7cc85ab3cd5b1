//! Condition variables (rt-app `wait`, `signal`, `broad`, `sync`, `suspend`, `resume`). As in POSIX, a signal without a
//! waiter is lost.

use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;

use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::task::Next;

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Unlocks `mutex`, if the task holds it, and sleeps until the condition is signalled.
    pub(crate) fn wait(&mut self, cpu: usize, task: u32, condition: u32, mutex: u32) -> Flow {
        if self.unlock_in_user_mode(task, mutex) {
            self.release(cpu, task, mutex);
        }
        self.objects.conditions[condition as usize].push(&mut self.tasks, task);
        let this = &mut self.tasks[task as usize];
        this.next = Next::Sleep;
        this.woken = false;
        this.due = self.core.now;
        Flow::Stage
    }

    pub(crate) fn signal(&mut self, cpu: usize, condition: u32) {
        let waiters = self.objects.conditions[condition as usize];
        self.objects.conditions[condition as usize] = self.wake_up(cpu, waiters, 1, Waker::Task);
    }

    /// Wakes all waiters, in order of arrival.
    pub(crate) fn broadcast(&mut self, cpu: usize, condition: u32) {
        let waiters = std::mem::take(&mut self.objects.conditions[condition as usize]);
        self.wake_up(cpu, waiters, 0, Waker::Task);
    }
}
