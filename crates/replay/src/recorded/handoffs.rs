//! Handoffs without an event, because the waker lost its CPU before it slept.
//!
//! A client wakes its server and waits for the answer. The server may preempt the client at once and answer before the
//! client is back. Then the client does not sleep, and no event shows its wait. The recording shows one long stretch.
//! In a replay on more CPUs, both would then work at the same time, which they never do.
//!
//! Almost every wakeup of such a partner precedes a sleep that the partner ends. The other wakeups are handoffs, too,
//! if the partner did all its work and slept before the waker was back. So is a parent's wait for each child.

use std::collections::BTreeMap;

use super::causes::{Cause, Causes};
use super::progress::Progress;
use super::threads::{Act, End, Thread};

/// Fewer visible handoffs show no habit.
const FEWEST: u64 = 8;
/// The fewest handoffs among ten wakeups that can show them.
const MOSTLY: u64 = 9;
/// The waker sleeps within this much work.
const AT_ONCE_NS: u64 = 20_000;

/// A handoff without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Handoff {
    /// The thread that would have slept.
    waiter: usize,
    /// Its stretch, and the act that wakes or forks the other.
    stretch: usize,
    act: usize,
    /// The stretch's work when it lost its CPU.
    work: u64,
    /// The thread that would have woken it, after this stretch.
    waker: usize,
    last: usize,
    /// The end of that.
    at: u64,
}

/// Adds the handoffs without an event to the threads' acts.
pub(super) fn add(threads: &mut [Thread], handoffs: Vec<(usize, usize, usize, (u64, Act))>) {
    for (thread, stretch, before, act) in handoffs {
        let acts = &mut threads[thread].stretches[stretch].acts;
        let place = before.min(acts.len());
        acts.insert(place, act);
    }
}

/// Returns the handoffs without an event, as acts to insert: thread, stretch and place among its acts. The last of
/// a stretch is first.
pub(super) fn hidden(causes: &Causes<'_>) -> Vec<(usize, usize, usize, (u64, Act))> {
    let threads = causes.threads;
    let mut found = Vec::new();
    for (waiter, life) in threads.iter().enumerate().filter(|(waiter, _)| causes.kept[*waiter]) {
        let mut progress = None;
        let (mut shown, mut hidden): (BTreeMap<Option<usize>, [u64; 2]>, Vec<_>) = Default::default();
        for (index, stretch) in life.stretches.iter().enumerate() {
            for (number, &(done, act)) in stretch.acts.iter().enumerate() {
                // Children count together.
                let (partner, waker, last) = match act {
                    Act::Wake { thread, stretch: woken } if causes.of(thread, woken) == Cause::Thread(waiter) => {
                        (Some(thread), thread, woken)
                    }
                    Act::Fork(child) if causes.kept[child] && !threads[child].stretches.is_empty() => {
                        (None, child, threads[child].stretches.len() - 1)
                    }
                    _ => continue,
                };
                let sleeps = stretch.work - done.min(stretch.work) <= AT_ONCE_NS && stretch.end == End::Sleep;
                let answered = life.stretches.len() > index + 1 && causes.of(waiter, index + 1) == Cause::Thread(waker);
                let [handoffs, all] = shown.entry(partner).or_default();
                if sleeps && answered {
                    (*handoffs, *all) = (*handoffs + 1, *all + 1);
                    continue;
                }
                let progress = progress.get_or_insert_with(|| Progress::new(life));
                let Some((left, back)) = progress.break_after(causes.time(act)) else { continue };
                let work = done.max(progress.work(stretch.began, left));
                let other = &threads[waker].stretches[last];
                let wakes = |act: &Act| matches!(act, Act::Wake { thread, .. } if *thread == waiter);
                let answers = other.acts.iter().any(|(_, act)| wakes(act));
                let ends = matches!(other.end, End::Sleep | End::Exit) && other.ended >= causes.time(act);
                if work - done <= AT_ONCE_NS && work < stretch.work && ends && !answers && back >= other.ended {
                    hidden.push((
                        partner,
                        Handoff { waiter, stretch: index, act: number, work, waker, last, at: other.ended },
                    ));
                } else {
                    *all += 1;
                }
            }
        }
        let habit = |partner: &Option<usize>| {
            shown.get(partner).is_some_and(|[handoffs, all]| *handoffs >= FEWEST && handoffs * 10 >= all * MOSTLY)
        };
        found.extend(hidden.into_iter().filter(|(partner, _)| habit(partner)).map(|(_, handoff)| handoff));
    }
    let mut acts = Vec::with_capacity(found.len() * 2);
    for handoff in found {
        let Handoff { waiter, stretch, act, work, waker, last, at } = handoff;
        acts.push((waiter, stretch, act + 1, (work, Act::Awaits { thread: waker, at })));
        let other = &threads[waker].stretches[last];
        acts.push((waker, last, other.acts.len(), (other.work, Act::HandsBack { thread: waiter, at })));
    }
    acts.sort_by_key(|&(thread, stretch, place, _)| (thread, stretch, std::cmp::Reverse(place)));
    acts
}
