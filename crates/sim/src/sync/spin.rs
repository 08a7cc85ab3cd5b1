//! Words in memory at which tasks wait without sleeping: spinlocks, barriers that spin, flags.
//!
//! A waiting task keeps its CPU. A waiter on a CPU sees another task's event after [`LINE_NS`], in which a cache line
//! moves. A preempted waiter sees it when it runs again, unless another waiter has taken it. A fair lock belongs to the
//! first waiter, even without a CPU. All of this happens in user mode.

use vruntime_sched::Policy;
use vruntime_trace::Sink;

use super::WaitQueue;
use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::program::Code;
use crate::task::{Life, NOBODY, Next};

/// The time after which a running waiter sees a change, nanoseconds.
const LINE_NS: u64 = 100;
/// The longest time between two checks of a spinning task, nanoseconds. It only bounds the work of an operation.
const CHUNK_NS: u64 = 1_000_000_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct SpinWord {
    events: u64,
    fair: bool,
    /// The number of tasks that meet at a barrier, or 0.
    parties: u32,
    arrived: u32,
    waiters: WaitQueue,
}

impl SpinWord {
    pub(crate) fn new(spin: &vruntime_workload::program::Spin) -> Self {
        Self { events: spin.initial.into(), fair: spin.fair, parties: spin.parties, ..Self::default() }
    }

    fn take(&mut self) -> bool {
        let free = self.events > 0 && (!self.fair || self.waiters.is_empty());
        self.events -= u64::from(free);
        free
    }
}

const fn word_of(code: Code) -> Option<u32> {
    match code {
        Code::SpinWait { spin, .. } | Code::SpinBarrier(spin) => Some(spin),
        _ => None,
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(crate) fn spin_wait(&mut self, cpu: usize, task: u32, spin: u32) -> Flow {
        if self.objects.spins[spin as usize].take() {
            return Flow::Done;
        }
        self.spin_begins(cpu, task, spin)
    }

    pub(crate) fn spin_barrier(&mut self, cpu: usize, task: u32, spin: u32) -> Flow {
        let word = &mut self.objects.spins[spin as usize];
        word.arrived += 1;
        if word.arrived < word.parties {
            return self.spin_begins(cpu, task, spin);
        }
        word.arrived = 0;
        while let Some(waiter) = self.objects.spins[spin as usize].waiters.first() {
            self.spin_ends(spin, waiter);
        }
        Flow::Done
    }

    pub(crate) fn spin_post(&mut self, spin: u32, events: u32) -> Flow {
        let word = &mut self.objects.spins[spin as usize];
        word.events = word.events.saturating_add(events.into());
        let mut next = word.waiters.first();
        while let Some(waiter) = next
            && self.objects.spins[spin as usize].events > 0
        {
            let behind = self.tasks[waiter as usize].behind;
            next = (behind != NOBODY).then_some(behind);
            let word = &mut self.objects.spins[spin as usize];
            if word.fair || self.core.cpus[self.tasks[waiter as usize].last_cpu as usize].curr == waiter {
                word.events -= 1;
                self.spin_ends(spin, waiter);
            }
        }
        Flow::Done
    }

    /// Lets a spinning task, on a CPU again, take a free event.
    #[cold]
    pub(crate) fn spin_resumes(&mut self, cpu: usize, task: u32) {
        let Some(spin) = word_of(self.programs.code[self.tasks[task as usize].pc as usize]) else { return };
        let word = &mut self.objects.spins[spin as usize];
        if word.events > 0 && !word.fair {
            word.events -= 1;
            self.spin_leaves(spin, task);
            self.core.cpus[cpu].work = LINE_NS;
        }
    }

    /// Continues a task that has spun for [`CHUNK_NS`], or whose wait is over.
    pub(crate) fn spun(&mut self, cpu: usize, task: u32) -> Flow {
        if !self.tasks[task as usize].wait.queued {
            return Flow::Done;
        }
        if self.core.now >= self.stop_at {
            if let Some(spin) = word_of(self.programs.code[self.tasks[task as usize].pc as usize]) {
                self.spin_leaves(spin, task);
            }
            return Flow::Done;
        }
        self.core.cpus[cpu].work = CHUNK_NS;
        Flow::Stage
    }

    fn spin_begins(&mut self, cpu: usize, task: u32, spin: u32) -> Flow {
        self.objects.spins[spin as usize].waiters.push(&mut self.tasks, task);
        let this = &mut self.tasks[task as usize];
        this.wait.queued = true;
        this.next = Next::Worked;
        // The begin of the wait, as for tasks that sleep.
        this.due = self.core.now;
        let this = &mut self.core.cpus[cpu];
        (this.work, this.unscaled) = (CHUNK_NS, false);
        Flow::Stage
    }

    /// Ends a spinning task's wait: now, if it has a CPU, or when it runs again.
    fn spin_ends(&mut self, spin: u32, waiter: u32) {
        self.spin_leaves(spin, waiter);
        let this = &mut self.tasks[waiter as usize];
        let cpu = this.last_cpu as usize;
        if self.core.cpus[cpu].curr == waiter && this.life == Life::Runnable {
            let now = self.core.now;
            self.core.cpus[cpu].account_until(now);
            self.core.cpus[cpu].work = LINE_NS;
            self.arm_exec(cpu);
        } else {
            this.work = LINE_NS;
        }
    }

    fn spin_leaves(&mut self, spin: u32, task: u32) {
        self.objects.spins[spin as usize].waiters.remove(&mut self.tasks, task);
        self.tasks[task as usize].wait.queued = false;
        self.round_wakes(task);
    }
}
