//! Grace periods (RCU). The remains of ended tasks are freed after every CPU has been in a switch, user code or idle.
//! `rcu_preempt`, a kernel thread, waits for this, and takes CPU time from tasks.
//!
//! Observed under 6.12 (2 emulated CPUs, HZ=250, two tasks that each fork a child every 20 ms; ftrace) and 6.18: while
//! tasks end, the thread wakes every other tick, each 8 ms, and preempts the running task. On two busy CPUs, 330 of 376
//! of its wakeups under 6.18 interrupt the task of the CPU on which it did not sleep.
//!
//! Every other tick, because a CPU learns of a grace period at its first tick and reports user code at the second. The
//! last CPU to report wakes the thread. The CPU of the thread itself has reported a tick earlier, when the thread
//! switched out. Idle CPUs do not report; the thread checks them after a timeout. Freed objects leave others for a
//! second grace period (a task's structure its stack), so two follow an exit.
//!
//! Not simulated: `ksoftirqd` and kworkers that free much at once, and other sources of grace periods, such as closing
//! files. In that 6.18, a cloud's own build with a patched placement of wakeups, the thread stayed on its CPU 371 times
//! of 376. Here `wake_affine` moves it to the CPU with less load, as in Debian's kernels.

use vruntime_sched::Policy;
use vruntime_sched::event::PrevState;
use vruntime_trace::Sink;

use crate::interpreter::Flow;
use crate::machine::Machine;

/// Grace periods that follow the end of a task.
const AFTER_EXIT: u8 = 2;
/// Ticks of a grace period of which busy CPUs tell.
const TOLD_AFTER: u64 = 2;

/// The machine's grace periods.
#[derive(Debug)]
pub(crate) struct GracePeriods {
    /// `rcu_preempt`.
    thread: u32,
    /// How many more are to follow.
    wanted: u8,
    /// None is going on, or about to begin.
    resting: bool,
}

impl GracePeriods {
    pub(crate) fn new(thread: u32) -> Self {
        Self { thread, wanted: 0, resting: true }
    }
}

/// Returns the ticks after which the thread checks idle CPUs: its timeout of 1 to 3 jiffies
/// (`RCU_JIFFIES_TILL_FORCE_QS`), which the timer wheel rounds up by one.
const fn looked_after(tick_ns: u64) -> u64 {
    let hz = 1_000_000_000 / tick_ns;
    2 + (hz > 250) as u64 + (hz > 500) as u64
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Whether that is `rcu_preempt`.
    #[inline]
    pub(crate) fn is_grace_thread(&self, task: u32) -> bool {
        self.rcu.as_ref().is_some_and(|rcu| rcu.thread == task)
    }

    /// A task has ended on `cpu`. The next tick there asks for a grace period, unless there is one.
    pub(crate) fn leaves_to_free(&mut self, cpu: usize) {
        let Some(rcu) = &mut self.rcu else { return };
        rcu.wanted = AFTER_EXIT;
        if std::mem::take(&mut rcu.resting) {
            let thread = rcu.thread;
            self.arm_exactly(cpu, thread, self.next_tick(cpu));
        }
    }

    /// `rcu_preempt`, which has `cpu`, waits: for the end of the grace period that it begins, or to be asked for one.
    pub(crate) fn wait_for_grace_period(&mut self, cpu: usize, thread: u32) -> Flow {
        let begins = self.rcu.as_mut().is_some_and(|rcu| {
            rcu.resting = rcu.wanted == 0;
            rcu.wanted = rcu.wanted.saturating_sub(1);
            !rcu.resting
        });
        if begins {
            let others = self.core.cpus.len() as u64 - 1;
            let stays_busy = self.rqs[cpu].nr_running > 1;
            let told = others > 0 && stays_busy && self.core.cpus.iter().all(|cpu| !cpu.is_idle());
            let (on, ticks) = if told {
                // Here the thread's own switch is seen, and told at the first tick. The last to tell is any of the
                // others.
                let other = self.jitter.below(others) as usize;
                (other + usize::from(other >= cpu), TOLD_AFTER)
            } else {
                (cpu, looked_after(self.tick_period))
            };
            let at = self.next_tick(on).saturating_add((ticks - 1) * self.tick_period);
            self.arm_exactly(on, thread, at);
        }
        self.block(cpu, thread, PrevState::Sleeping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_grows_with_hz() {
        let ticks = |hz: u64| looked_after(1_000_000_000 / hz);
        assert_eq!([100, 250, 300, 1000].map(ticks), [2, 2, 3, 4]);
    }
}
