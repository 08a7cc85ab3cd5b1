//! The kernel's averages of tasks when the trace begins, which decide on forks, wakeups and balancing.

use vruntime_workload::program::Averages;

use super::threads::Thread;

/// The half-life of the kernel's averages.
const HALF_NS: u64 = 32_768_000;
/// Older half-lives count for too little.
const HALVES: u64 = 6;

/// Returns a thread's averages when the trace begins, if it existed then. The trace does not show what it did before.
/// So that is taken to be what it did afterwards, mirrored in time: each half-life counts half as much as the one
/// before it. On small or slow CPUs, the kernel's clock of averages is slower.
pub(super) fn at_start(thread: &Thread, duration_ns: u64) -> Option<Averages> {
    if thread.born.is_some() || duration_ns == 0 {
        return None;
    }
    let windows: Vec<(u64, u64, u64)> = (0..HALVES)
        .map(|half| (half * HALF_NS, ((half + 1) * HALF_NS).min(duration_ns), HALVES - half))
        .take_while(|(from, until, _)| from < until)
        .collect();
    let all: u64 = windows.iter().map(|(from, until, doublings)| (until - from) << doublings).sum();
    let counted = |since: u64, until: u64| -> u64 {
        let part =
            |&(from, to, doublings): &(u64, u64, u64)| until.min(to).saturating_sub(since.max(from)) << doublings;
        windows.iter().map(part).sum()
    };
    let early = |since: u64| since < HALVES * HALF_NS;
    let runnable = thread.stretches.iter().take_while(|stretch| early(stretch.woken));
    let runnable: u64 = runnable.map(|stretch| counted(stretch.woken, stretch.ended)).sum();
    let (mut running, mut lost) = (0, 0);
    for ran in thread.ran.iter().take_while(|ran| early(ran.since)) {
        let time = counted(ran.since, ran.until);
        let length = u128::from(ran.until.saturating_sub(ran.since).max(1));
        let work = (u128::from(time) * u128::from(ran.work) / length) as u64;
        running += work.min(time);
        lost += time - work.min(time);
    }
    let share = |counted: u64| (counted.min(all) * 1024 / all) as u16;
    let (runnable, running) = (share(runnable.saturating_sub(lost)), share(running));
    Some(Averages { runnable, running: running.min(runnable) })
}
