//! Computation for a given CPU time, and the clocks.

use std::sync::OnceLock;

use rustix::time::{ClockId, Timespec, clock_gettime};

const SECOND: u64 = 1_000_000_000;
/// The longest time between two readings of a user-space clock without a preemption.
const GAP_NS: u64 = 3_000;
/// As [`GAP_NS`], in readings, if the clock is a system call (no trusted time stamp counter).
const GAP_LOOKS: u64 = 10;

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as i64 }
}

/// Returns the monotonic clock, nanoseconds, read in user space.
pub(crate) fn now() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// CPU time of this thread, nanoseconds, by a system call.
pub(crate) fn cpu_time() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// Returns the longest gap between two readings that counts as own work, nanoseconds.
pub(crate) fn gap() -> u64 {
    static GAP: OnceLock<u64> = OnceLock::new();
    *GAP.get_or_init(|| {
        let mut looks: Vec<u64> = (0..101)
            .map(|_| {
                let before = now();
                now() - before
            })
            .collect();
        looks.sort_unstable();
        GAP_NS.max(looks[looks.len() / 2] * GAP_LOOKS)
    })
}

/// Measures readings of the clock. Returns a note for the user if they are slow.
pub(crate) fn prepare() -> Option<String> {
    let gap = gap();
    (gap > GAP_NS).then(|| {
        let look = gap / GAP_LOOKS;
        format!("reading the clock takes {look} ns, because it is a system call: work is measured to {gap} ns only (see current_clocksource)")
    })
}

/// Computes for `ns` by the monotonic clock, without gaps in which something else ran. Returns false if the time `end`,
/// which may change meanwhile (Ctrl-C), is earlier.
///
/// The thread's CPU clock is a system call that updates the scheduler's accounts. A thread at the end of its slice
/// would be preempted there, not at the next tick, and switch more often.
pub(crate) fn compute(ns: u64, end: impl Fn() -> u64) -> bool {
    busy(end, now, |_, done| done < ns).is_some()
}

/// Computes until `until`. Returns its own part of that time, or None if `end` came first, as in [`compute`].
pub(crate) fn compute_until(until: u64, end: impl Fn() -> u64) -> Option<u64> {
    busy(end, now, |at, _| at < until)
}

/// Reads `clock` while `more(time, work)` is true. Returns the work, or None if `end` came first.
fn busy(end: impl Fn() -> u64, mut clock: impl FnMut() -> u64, more: impl Fn(u64, u64) -> bool) -> Option<u64> {
    let gap = gap();
    let (mut last, mut done) = (clock(), 0);
    while more(last, done) {
        let at = clock();
        if at >= end() {
            return None;
        }
        let step = at - last;
        if step < gap {
            done += step;
        }
        last = at;
    }
    Some(done)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn gaps_are_not_work() {
        // Every reading takes 100 ns, and before each tenth something else ran for a whole gap.
        let (at, looks) = (Cell::new(0), Cell::new(0));
        let clock = || {
            looks.set(looks.get() + 1);
            at.set(at.get() + if looks.get() % 10 == 0 { gap() + 100 } else { 100 });
            at.get()
        };
        assert_eq!(busy(|| u64::MAX, clock, |_, done| done < 4_500), Some(4_500));
        assert_eq!(looks.get(), 1 + 45 + 5, "the first look, 45 that are work, 5 that are gaps");
        let end = at.get() + 1_000;
        assert_eq!(busy(|| end, clock, |_, _| true), None, "it stops at the end");
        let (began, ends) = (at.get(), Cell::new(0));
        let clock = || {
            at.set(at.get() + 100);
            ends.set(if at.get() > began + 5_000 { at.get() } else { u64::MAX });
            at.get()
        };
        assert_eq!(busy(|| ends.get(), clock, |_, _| true), None, "also at one that is brought forward");
    }

    #[test]
    fn work_is_cpu_time() {
        // The kernel's account may be lower, without short interrupts and stolen time, so this checks only that the
        // thread computes.
        let before = cpu_time();
        assert!(compute(5_000_000, || u64::MAX));
        let took = cpu_time() - before;
        assert!(took >= 2_500_000, "{took}");
        let end = now() + 1_000_000;
        assert!(!compute(u64::MAX, || end), "it ends with the run");
    }
}
