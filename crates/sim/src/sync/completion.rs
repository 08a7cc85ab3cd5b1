//! Completions (`kernel/sched/completion.c`, on the simple wait queues of `swait.c`): a count of tasks that may
//! continue.
//!
//! A simple wait queue is first come, first served. A wakeup takes exactly the first task, even if its timeout has just
//! expired: it was then completed in time. The wait is interruptible (`wait_for_completion_interruptible_timeout`), and
//! counts in no load average. Timeouts are in jiffies: see [`wheel_expiry`].

use vruntime_sched::event::PrevState;
use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;

use super::WaitQueue;
use crate::cpu::NEVER;
use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::task::Timeout;

/// The kernel's `UINT_MAX` in `completion.done`: all current and later waiters continue.
const ALL: u32 = u32::MAX;

/// Each level of the timer wheel is eight times as coarse as the one before.
const LEVEL_BITS: u32 = 3;
const LEVEL_SIZE: u64 = 64;
/// Levels of the wheel above 100 Hz.
const LEVELS: u32 = 9;

#[derive(Clone, Debug, Default)]
pub(crate) struct Completion {
    done: u32,
    waiters: WaitQueue,
}

impl Completion {
    fn take(&mut self) -> bool {
        let done = self.done > 0;
        self.done -= u32::from(done && self.done != ALL);
        done
    }
}

/// Returns the jiffy in which a timer of the timer wheel fires (`kernel/time/timer.c`, 4.8+), armed at jiffy `now` for
/// `delta` jiffies later. Distant timers have coarser buckets. The next bucket is used, so no timer fires early.
fn wheel_expiry(now: u64, delta: u64) -> u64 {
    // A level begins with the last bucket of the one before, which may be being emptied.
    let start = |level: u32| (LEVEL_SIZE - 1) << ((level - 1) * LEVEL_BITS);
    let delta = delta.min(start(LEVELS) - 1);
    let level = (1..LEVELS).take_while(|&level| delta >= start(level)).count() as u32;
    let shift = level * LEVEL_BITS;
    (((now + delta) >> shift) + 1) << shift
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(crate) fn wait_for_completion(&mut self, cpu: usize, task: u32, completion: u32, timeout: u64) -> Flow {
        let now = self.core.now;
        self.tasks[task as usize].due = now.saturating_add(if timeout == NEVER { 0 } else { timeout });
        if self.objects.completions[completion as usize].take() {
            return Flow::Done;
        }
        match timeout {
            0 => return self.timed_out(cpu, task),
            NEVER => {}
            timeout => {
                let at = self.jiffies_timeout(cpu, timeout);
                self.tasks[task as usize].wait.timeout = Timeout::Armed;
                self.arm_exactly(cpu, task, at);
            }
        }
        self.join_completion(cpu, task, completion)
    }

    pub(crate) fn go_on_completing(&mut self, cpu: usize, task: u32, index: u32) -> Flow {
        let completion = &mut self.objects.completions[index as usize];
        if completion.done == 0 && self.tasks[task as usize].wait.timeout != Timeout::Expired {
            // Another task took the completion.
            return self.join_completion(cpu, task, index);
        }
        if std::mem::take(&mut self.tasks[task as usize].wait.queued) {
            completion.waiters.remove(&mut self.tasks, task);
        }
        let done = completion.take();
        self.end_timeout(task);
        if done { Flow::Done } else { self.timed_out(cpu, task) }
    }

    fn join_completion(&mut self, cpu: usize, task: u32, completion: u32) -> Flow {
        self.objects.completions[completion as usize].waiters.push(&mut self.tasks, task);
        self.tasks[task as usize].wait.queued = true;
        self.block(cpu, task, PrevState::Sleeping)
    }

    pub(crate) fn complete(&mut self, cpu: usize, completion: u32) {
        let this = &mut self.objects.completions[completion as usize];
        this.done = this.done.saturating_add(1);
        self.wake_first(cpu, completion);
    }

    pub(crate) fn complete_all(&mut self, cpu: usize, completion: u32) {
        self.objects.completions[completion as usize].done = ALL;
        while self.wake_first(cpu, completion) {}
    }

    pub(crate) fn reinit_completion(&mut self, completion: u32) {
        self.objects.completions[completion as usize].done = 0;
    }

    /// `swake_up_locked`. Returns whether a task waited.
    fn wake_first(&mut self, cpu: usize, completion: u32) -> bool {
        let Some(waiter) = self.objects.completions[completion as usize].waiters.pop(&mut self.tasks) else {
            return false;
        };
        let this = &mut self.tasks[waiter as usize];
        this.wait.queued = false;
        if this.wait.timeout != Timeout::Expired {
            self.wake_from_call(cpu, waiter, Waker::Task);
        }
        true
    }

    /// Returns the end of a wait on `cpu` with this `timeout` in ns from now, in jiffies (`schedule_timeout`).
    fn jiffies_timeout(&self, cpu: usize, timeout: u64) -> u64 {
        // The first CPU counts the jiffies.
        let (period, phase) = (self.tick_period, self.tick_phase[0]);
        let jiffies = self.core.now.checked_sub(phase).map_or(0, |since| since / period + 1);
        let expiry = wheel_expiry(jiffies, timeout.div_ceil(period));
        self.tick_phase[cpu].saturating_add((expiry - 1).saturating_mul(period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At 250 Hz the levels hold timers up to 252 ms, 2 s, 16 s, ...: 4, 32, 256 ms apart.
    #[test]
    fn the_wheel_grows_coarser() {
        assert_eq!(wheel_expiry(1000, 1), 1002);
        assert_eq!(wheel_expiry(1000, 62), 1063);
        assert_eq!(wheel_expiry(1000, 63), 1064, "multiples of 8");
        assert_eq!(wheel_expiry(1001, 63), 1072);
        assert_eq!(wheel_expiry(1000, 503), 1504);
        assert_eq!(wheel_expiry(1000, 504), 1536, "multiples of 64");
        assert_eq!(wheel_expiry(0, u64::MAX), 63 << 24, "and no later than the wheel reaches");
    }

    #[test]
    fn no_timer_is_early_nor_later_than_a_bucket() {
        for now in [0, 1, 7, 63, 64, 12_345, 1 << 40] {
            for delta in (0..4096).chain([1 << 20, 1 << 29]) {
                let fires = wheel_expiry(now, delta);
                let late = fires - (now + delta);
                assert!(late >= 1 && late <= (delta / 7).max(1).next_power_of_two(), "{now} + {delta}: {late} late");
            }
        }
    }
}
