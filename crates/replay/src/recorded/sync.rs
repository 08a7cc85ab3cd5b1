//! Synchronous wakeups.
//!
//! A task that writes to a pipe or socket tells the kernel that it is about to sleep (`WF_SYNC`). The woken thread may
//! then get the waker's CPU, if that has no other task. Futexes do not. No event shows the difference. But a thread
//! that was woken while no CPU was idle shows it by its CPU.

use std::collections::{BTreeMap, BTreeSet};

use super::Context;
use super::causes::{Cause, Causes};

/// Fewer wakeups show nothing.
const FEWEST: u64 = 8;

/// Finds wakers and woken threads whose wakeups may be synchronous: in task context, and nothing contradicts it.
pub(super) fn find(causes: &Causes<'_>, wakes: &[BTreeSet<usize>]) -> BTreeSet<(usize, usize)> {
    let mut counts = BTreeMap::<(usize, usize), (u64, u64)>::new();
    for (woken, thread) in causes.threads.iter().enumerate() {
        for (index, stretch) in thread.stretches.iter().enumerate() {
            let Cause::Thread(by) = causes.of(woken, index) else { continue };
            if !matches!(stretch.context, Some(Context::Task) | None) || !wakes[by].contains(&woken) {
                continue;
            }
            let (asked, away) = counts.entry((by, woken)).or_default();
            if let Some(here) = stretch.taken_in {
                *asked += 1;
                *away += u64::from(!here);
            }
        }
    }
    let may = |&(_, (asked, away)): &(_, (u64, u64))| asked < FEWEST || away * 2 <= asked;
    counts.into_iter().filter(may).map(|(pair, _)| pair).collect()
}
