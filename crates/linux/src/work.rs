//! Computation for so much CPU time, and the clocks.

use std::sync::OnceLock;

use rustix::time::{ClockId, Timespec, clock_gettime};

const SECOND: u64 = 1_000_000_000;
/// Between two looks at a clock that is read in user space nothing of ours takes longer: in a longer gap something else
/// had the CPU.
const GAP_NS: u64 = 3_000;
/// The same where a look takes long, in looks: the clock is then read by a system call (no time stamp counter that the
/// kernel trusts).
const GAP_LOOKS: u64 = 10;

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// `ns` as the kernel takes it.
pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as i64 }
}

/// The monotonic clock, nanoseconds. Read in user space.
pub(crate) fn now() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// CPU time this thread has had. A system call.
pub(crate) fn cpu_time() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// How long between two looks at the clock may be this thread's own work, nanoseconds.
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

/// Finds out how long looks at the clock take. What is to be said about it.
pub(crate) fn prepare() -> Option<String> {
    let gap = gap();
    (gap > GAP_NS).then(|| {
        let look = gap / GAP_LOOKS;
        format!("a look at the clock takes {look} ns, a system call: work is measured to {gap} ns only (see current_clocksource)")
    })
}

/// Computes for `ns` by the monotonic clock, gaps in which something else had the CPU not counted, or until it is
/// `end`. False if it is.
///
/// The thread's CPU clock is not asked: that is a system call which brings the scheduler's accounts up to date, so that
/// a thread whose slice is over gives way there and then and not at the next tick. Hogs that asked at each millisecond
/// were seen to switch twice as often under 6.18 as hogs that do not ask.
pub(crate) fn compute(ns: u64, end: u64) -> bool {
    busy(end, |_, done| done < ns).is_some()
}

/// Computes until it is `until`; how much of that time nothing else had the CPU. None if it was `end` before.
pub(crate) fn compute_until(until: u64, end: u64) -> Option<u64> {
    busy(end, |at, _| at < until)
}

/// Computes as long as `more` says so of the time and of the work done.
fn busy(end: u64, more: impl Fn(u64, u64) -> bool) -> Option<u64> {
    let gap = gap();
    let (mut last, mut done) = (now(), 0);
    while more(last, done) {
        let at = now();
        if at >= end {
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
    use super::*;

    #[test]
    fn work_is_cpu_time() {
        let once = || {
            let before = cpu_time();
            assert!(compute(5_000_000, u64::MAX));
            cpu_time() - before
        };
        // Beyond it comes what a hypervisor took meanwhile, however much, which the kernel counts as the thread's where
        // it is not told. Where the kernel is told, what it took in less than a gap is missing: hence the most of ten.
        let took = (0..10).map(|_| once()).max().unwrap_or(0);
        assert!(took >= 4_990_000, "{took}");
        let done = busy(u64::MAX, |_, done| done < 5_000_000).expect("there is no end");
        // What it counts are steps shorter than a gap.
        assert!((5_000_000..5_000_000 + gap()).contains(&done), "{done}");
        assert!(!compute(u64::MAX, now() + 1_000_000), "it ends with the run");
    }
}
