//! Pauses: sleeps that a thread imposes on others of its process.
//!
//! A Java machine stops its threads for a safepoint, and wakes them. In the recording, they sleep until that thread
//! wakes them. But they did not wait for it: where they were in their work then is chance. In a what-if, they may
//! be there early. They would wait until the clock or a slower thread lets that thread act. So a pause takes its
//! recorded time, whenever it begins.
//!
//! An act of a thread is what it does from a wakeup on. An act continues after a nap, and after a wait for a thread
//! that this one wakes: it helps. A nap is a sleep that a timer ended, shorter than a tenth of the average time between
//! the thread's wakeups. A thread pauses another of its process if all of this holds:
//!
//! - The other's sleep began after the act did. A thread that waits for an act sleeps before.
//! - An act wakes the other once. A thread that works through a queue wakes the other for each item.
//! - Both are so each time.
//! - The other has other wakers for nine tenths of its sleeps.
//! - The other asks for nothing: it did not fork this one, and causes less than half as many wakeups as it gets. It may
//!   ask a thread that also acts when timers wake it. A replay has that one's acts in the recorded order, so the other
//!   would wait for the timer.

use std::collections::BTreeMap;

use super::Context;
use super::threads::{Stretch, Thread, Waker};

/// A nap is shorter than the average time between wakeups, divided by this.
const NAPS: u64 = 10;
/// A thread that pauses another causes at most one in N of its wakeups.
const RARELY: usize = 10;

/// What a waker did for a woken thread.
#[derive(Default)]
struct Pair {
    /// The woken thread's stretches behind its sleeps.
    stretches: Vec<usize>,
    /// The waker's last act that woke it, by its first stretch.
    last: Option<usize>,
    /// Whether the woken thread waited for an act, or was woken twice in one.
    waits: bool,
}

/// Returns the stretches of each thread that follow pauses, in order.
pub(super) fn pauses(threads: &[Thread], duration_ns: u64) -> Vec<Vec<usize>> {
    let acts: Vec<Vec<usize>> = (0..threads.len()).map(|thread| acts(threads, thread, duration_ns)).collect();
    let mut pairs = BTreeMap::<(usize, usize), Pair>::new();
    for (woken, thread) in threads.iter().enumerate() {
        for (index, stretch) in thread.stretches.iter().enumerate().skip(1) {
            let (Waker::Thread(by), Some(true)) = (stretch.waker, stretch.surely) else { continue };
            let forked = threads[by].born.is_some_and(|(_, parent)| parent == Some(woken));
            if thread.tgid.is_none() || thread.tgid != threads[by].tgid || forked {
                continue;
            }
            let stretches = &threads[by].stretches;
            let Some(first) = stretch_at(&threads[by], stretch.woken).map(|waking| acts[by][waking]) else { continue };
            let pair = pairs.entry((by, woken)).or_default();
            pair.waits |= thread.stretches[index - 1].ended < stretches[first].woken || pair.last == Some(first);
            pair.last = Some(first);
            pair.stretches.push(index);
        }
    }
    let wakeups = |by: usize, woken: usize| pairs.get(&(by, woken)).map_or(0, |pair| pair.stretches.len());
    let mut pauses = vec![Vec::new(); threads.len()];
    for (&(by, woken), pair) in &pairs {
        let all = pair.stretches.len();
        let is_rare = all * RARELY <= threads[woken].stretches.len();
        let asks = wakeups(woken, by) * 2 >= all;
        if !pair.waits && is_rare && (!asks || keeps_times(&threads[by], &acts[by])) {
            pauses[woken].extend(&pair.stretches);
        }
    }
    for pauses in &mut pauses {
        pauses.sort_unstable();
    }
    pauses
}

/// Whether a timer or an interrupt certainly woke a thread for this stretch.
fn is_by_interrupt(thread: &Thread, stretch: usize) -> bool {
    let Stretch { waker, context, .. } = &thread.stretches[stretch];
    *waker == Waker::Interrupt && matches!(context, Some(Context::Hardirq | Context::Softirq))
}

/// Whether timers or interrupts started some of a thread's acts.
fn keeps_times(thread: &Thread, acts: &[usize]) -> bool {
    acts.iter().enumerate().any(|(index, &first)| index == first && is_by_interrupt(thread, index))
}

/// Whether `by` does at that time what `thread` woke it for.
fn helps(threads: &[Thread], by: usize, thread: usize, at: u64) -> bool {
    stretch_at(&threads[by], at).is_some_and(|stretch| threads[by].stretches[stretch].waker == Waker::Thread(thread))
}

/// Returns a thread's last stretch that began by then.
fn stretch_at(thread: &Thread, at: u64) -> Option<usize> {
    thread.stretches.partition_point(|stretch| stretch.woken <= at).checked_sub(1)
}

/// Returns for each stretch of a thread the first of its act.
fn acts(threads: &[Thread], thread: usize, duration_ns: u64) -> Vec<usize> {
    let this = &threads[thread];
    let stretches = &this.stretches;
    let sleep = |index: usize| stretches[index].woken.saturating_sub(stretches[index - 1].ended);
    let nap = duration_ns / stretches.len().max(1) as u64 / NAPS;
    let mut acts: Vec<usize> = Vec::with_capacity(stretches.len());
    for (index, stretch) in stretches.iter().enumerate() {
        let continues = |_: &&usize| match stretch.waker {
            Waker::Thread(by) => helps(threads, by, thread, stretch.woken),
            Waker::Interrupt => sleep(index) < nap && is_by_interrupt(this, index),
            Waker::Start => false,
        };
        let act = acts.last().filter(continues).copied().unwrap_or(index);
        acts.push(act);
    }
    acts
}
