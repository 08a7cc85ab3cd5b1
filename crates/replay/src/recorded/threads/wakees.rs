//! How often each thread changes its wakee: the kernel's `wakee_flips`, by which `wake_wide` leaves woken tasks on
//! their CPUs.
//!
//! The kernel counts every wakeup for the task that the CPU runs, those by interrupts too. So a worker that only
//! answers one client has changes as well: from timers and device interrupts that hit it.

use super::{Activity, Current};
use crate::recorded::Named;

/// The wakees of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::recorded) struct Wakees {
    last: Option<i32>,
    changes: u64,
}

impl Wakees {
    fn wakes(&mut self, pid: i32) {
        self.changes += u64::from(self.last != Some(pid));
        self.last = Some(pid);
    }

    /// Returns the kernel's mean count, if the thread has changed its wakee as often as in the last `duration_ns`. It
    /// is halved once a second: between one and two seconds' changes.
    pub(in crate::recorded) fn flips(self, duration_ns: u64) -> u32 {
        const S: u128 = 1_000_000_000;
        let flips = (u128::from(self.changes) * 3 * S + u128::from(duration_ns)) / (2 * u128::from(duration_ns.max(1)));
        u32::try_from(flips).unwrap_or(u32::MAX)
    }
}

impl Activity {
    /// Counts a wakeup for the task that `cpu` runs, whatever its context. The kernel does not count wakeups of tasks
    /// with one CPU, for which it chooses none.
    pub(super) fn counts_wakee(&mut self, cpu: usize, woken: Named<'_>) {
        if let Some(cpu) = self.cpus.get(cpu)
            && let Current::Thread(thread) = cpu.current
            && self.threads[thread].pid != woken.pid
            && !is_bound(woken.comm)
        {
            self.threads[thread].wakees.wakes(woken.pid);
        }
    }
}

/// Whether that is the name of a kernel thread with one CPU: `ksoftirqd/0`, `kworker/1:2H`. `kworker/u8:1` has several.
fn is_bound(comm: &[u8]) -> bool {
    const BOUND: [&[u8]; 6] = [b"ksoftirqd/", b"kworker/", b"migration/", b"cpuhp/", b"rcuc/", b"idle_inject/"];
    BOUND.iter().any(|name| comm.strip_prefix(*name).is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_count_and_repetitions_do_not() {
        let mut wakees = Wakees::default();
        for pid in [1, 1, 1, 2, 1] {
            wakees.wakes(pid);
        }
        assert_eq!(wakees.changes, 3);
        assert_eq!([500_000_000, 2_000_000_000, 20_000_000_000].map(|duration| wakees.flips(duration)), [9, 2, 0]);
        assert_eq!(Wakees::default().flips(0), 0, "an empty trace");
    }

    #[test]
    fn threads_of_one_cpu_are_known_by_name() {
        let names: [&[u8]; 6] =
            [b"ksoftirqd/0", b"kworker/1:2H", b"kworker/u8:1", b"kworker/R-mm", b"web", b"migration/12"];
        assert_eq!(names.map(is_bound), [true, true, false, false, false, true]);
    }
}
