//! Who computes for as long as he is let: how much such a thread still had to do nobody knows, and in a what-if it may
//! get on faster.

use super::lives::{End, Thread};

/// Shorter stretches that end by a sleep are work that was done.
const LONG_NS: u64 = 100_000_000;

/// The stretch in which a thread computes until the trace ends, if it does: it wants a CPU without a sleep for half of
/// the trace, and
///
/// - the trace ends, and it runs or waits for a CPU;
/// - or it exits in the last tenth of the trace;
/// - or it sleeps in the last hundredth, after 100 ms or more, as whoever stops all at once makes his threads do.
///
/// Crumbs may follow, up to a hundredth of the stretch: what it does to be stopped.
pub(super) fn endless(thread: &Thread, duration_ns: u64) -> Option<usize> {
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
            let computes = stretch.work > 0 && crumbs <= length / 100 && duration_ns.saturating_sub(ended) <= late;
            return computes.then_some(index);
        }
        crumbs += stretch.time;
    }
    None
}
