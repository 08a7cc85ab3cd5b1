//! Grace periods (RCU): ended tasks' remains are freed after every CPU has been in a switch, user code or idle. The
//! kernel thread `rcu_preempt` waits for this, and takes CPU time from tasks.
//!
//! Observed under 6.12 (2 emulated CPUs, HZ=250, two tasks that each fork a child every 20 ms; ftrace) and 6.18. While
//! tasks end, the thread wakes every other tick (8 ms), and preempts the running task. Under 6.18, 330 of its 376
//! wakeups interrupt the other CPU's task, if both are busy.
//!
//! A CPU learns of a grace period at its first tick and reports user code at the second. The last CPU to report wakes
//! the thread. The thread's CPU reported a tick earlier, when the thread switched out. The thread checks idle CPUs,
//! which do not report, after a timeout. Freed objects leave others for a second grace period (a task's structure its
//! stack), so two follow an exit.
//!
//! Not simulated: `ksoftirqd` and kworkers that free much at once, and other sources of grace periods, such as closing
//! files. That 6.18 was a cloud's build with a patched placement of wakeups: the thread stayed on its CPU 371 times of
//! 376. Here `wake_affine` moves it to the less loaded CPU, as in Debian's kernels.

use vruntime_sched::Policy;
use vruntime_sched::event::PrevState;
use vruntime_trace::Sink;

use crate::interpreter::Flow;
use crate::machine::Machine;

const AFTER_EXIT: u8 = 2;
/// The tick at which busy CPUs report.
const REPORT_TICK: u64 = 2;

#[derive(Debug)]
pub(crate) struct GracePeriods {
    thread: u32,
    /// Grace periods to begin.
    wanted: u8,
    /// Whether no grace period runs or is about to begin.
    resting: bool,
}

impl GracePeriods {
    pub(crate) fn new(thread: u32) -> Self {
        Self { thread, wanted: 0, resting: true }
    }
}

/// Returns the ticks until the thread checks idle CPUs: 1 to 3 jiffies (`RCU_JIFFIES_TILL_FORCE_QS`), and one for the
/// timer wheel.
const fn looked_after(tick_ns: u64) -> u64 {
    let hz = 1_000_000_000 / tick_ns;
    2 + (hz > 250) as u64 + (hz > 500) as u64
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    #[inline]
    pub(crate) fn is_grace_thread(&self, task: u32) -> bool {
        self.rcu.as_ref().is_some_and(|rcu| rcu.thread == task)
    }

    /// Requests a grace period after a task's end on `cpu`.
    pub(crate) fn leaves_to_free(&mut self, cpu: usize) {
        let Some(rcu) = &mut self.rcu else { return };
        rcu.wanted = AFTER_EXIT;
        if std::mem::take(&mut rcu.resting) {
            let thread = rcu.thread;
            self.arm_exactly(cpu, thread, self.next_tick(cpu));
        }
    }

    /// Waits for the end of a new grace period, or for a request.
    pub(crate) fn wait_for_grace_period(&mut self, cpu: usize, thread: u32) -> Flow {
        let begins = self.rcu.as_mut().is_some_and(|rcu| {
            rcu.resting = rcu.wanted == 0;
            rcu.wanted = rcu.wanted.saturating_sub(1);
            !rcu.resting
        });
        if begins {
            let others = self.core.cpus.len() as u64 - 1;
            let stays_busy = self.rqs[cpu].nr_running > 1;
            let all_busy = others > 0 && stays_busy && self.core.cpus.iter().all(|cpu| !cpu.is_idle());
            let (on, ticks) = if all_busy {
                // This CPU reports the thread's switch at the first tick. Any other CPU is the last.
                let other = self.jitter.below(others) as usize;
                (other + usize::from(other >= cpu), REPORT_TICK)
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
