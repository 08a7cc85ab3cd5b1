//! Endless threads: they compute until the trace ends. Their remaining work is unknown, and in a what-if they may
//! progress faster.

use std::collections::BTreeMap;

use super::Context;
use super::threads::{Act, End, Stretch, Thread, Waker};

/// Fewer wakeups show no partner.
const FEWEST: usize = 8;

/// Shorter stretches with a sleep at their end are completed work.
const LONG_NS: u64 = 100_000_000;

/// Returns the stretch in which a thread computes until the trace ends. It wants a CPU, without a sleep, for half of
/// the trace, and
///
/// - the trace ends, and it runs or waits for a CPU;
/// - or it exits in the last tenth of the trace;
/// - or it sleeps in the last hundredth, after 100 ms or more, as threads do that are all stopped at once.
///
/// Crumbs may follow, up to a hundredth of the stretch: its reactions to being stopped.
///
/// A thread that got less done than in a stretch before it has only waited: its work would have ended.
///
/// A thread that mostly gives its CPU away does not compute: it polls. `yielded` tells whether it did so, by the time
/// when it left its CPU, and how long it had run.
pub(super) fn endless(thread: &Thread, duration_ns: u64, yielded: &dyn Fn(u64, u64) -> bool) -> Option<usize> {
    let mut crumbs = 0;
    for (index, stretch) in thread.stretches.iter().enumerate().rev() {
        let waits = stretch.end == End::Trace && thread.waits();
        let ended = if waits { duration_ns } else { stretch.ended };
        let length = ended.saturating_sub(stretch.woken);
        if length >= duration_ns / 2 {
            let late = match stretch.end {
                End::Trace | End::Exit => duration_ns / 10,
                End::Sleep | End::Device if length < LONG_NS => return None,
                End::Sleep | End::Device => duration_ns / 100,
            };
            let completed = |before: &&Stretch| matches!(before.end, End::Sleep | End::Device);
            let longest = thread.stretches[..index].iter().filter(completed).map(|before| before.work).max();
            let computes = stretch.work > longest.unwrap_or(0)
                && crumbs <= length / 100
                && duration_ns.saturating_sub(ended) <= late;
            return (computes && !yields(stretch, yielded)).then_some(index);
        }
        crumbs += stretch.time;
    }
    None
}

/// Returns, for each thread, whether it drives another: its system calls (wakeups in task context) cause at least half
/// of the other's wakeups. If several threads wake the other, half of an equal part is enough. Such a thread works for
/// the other, even if it never sleeps because the other preempts it.
pub(super) fn drivers(threads: &[Thread], counts: &dyn Fn(usize) -> bool) -> Vec<bool> {
    let mut drivers = vec![false; threads.len()];
    for (_, woken) in threads.iter().enumerate().filter(|(index, _)| counts(*index)) {
        let mut by = BTreeMap::<usize, usize>::new();
        for stretch in &woken.stretches {
            if let (Waker::Thread(waker), Some(Context::Task)) = (stretch.waker, stretch.context) {
                *by.entry(waker).or_default() += 1;
            }
        }
        by.retain(|_, count| *count >= FEWEST);
        let parts = 2 * by.len();
        for (waker, count) in by {
            drivers[waker] |= count * parts >= woken.stretches.len();
        }
    }
    drivers
}

/// Whether a thread yielded at least half its CPU stays in that stretch.
fn yields(stretch: &Stretch, yielded: &dyn Fn(u64, u64) -> bool) -> bool {
    let left = stretch.acts.iter().filter(|(_, act)| matches!(*act, Act::Left { at, ran } if yielded(at, ran)));
    left.count() as u64 * 2 >= stretch.runs.max(1)
}
