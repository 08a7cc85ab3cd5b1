//! Data that a thread reads while it is awake, which leaves no event.
//!
//! A thread sleeps when it has read all that its wakers wrote. So what it does from one sleep to the next is for what
//! they wrote in that time. In a replay it may be faster than they are, and must not get ahead of them. Nothing tells
//! which work is for which data, so the work is taken to be spread evenly over what the waker did.
//!
//! A thread awaits no step that the waker came to later in the recording. Thus the threads can always do what they did
//! there.

use std::collections::BTreeSet;

use super::causes::Causes;
use super::cycle::Cycle;
use super::lives::{Act, End, Thread};
use super::pools::Pools;
use super::progress::Progress;

/// A step is at least this much work of the leader.
const STEP_NS: u64 = 10_000;
/// The most steps of a stretch.
const MOST_STEPS: u64 = 16;

/// An act for a place: the thread, its stretch, how much of the stretch was done.
type Placed = (usize, usize, u64, Act);

/// What leaders and followers do.
#[derive(Debug, Default)]
pub(super) struct Leads {
    acts: Vec<Placed>,
    /// The leader and the follower of each lead.
    pub(super) pairs: Vec<(usize, usize)>,
}

impl Leads {
    /// Adds the acts to the stretches.
    pub(super) fn add(&self, threads: &mut [Thread]) {
        for &(thread, stretch, done, act) in &self.acts {
            let acts = &mut threads[thread].stretches[stretch].acts;
            let place = acts.partition_point(|&(other, _)| other <= done);
            acts.insert(place, (done, act));
        }
    }
}

/// Finds what each woken thread follows. `wakes` has the threads that each thread wakes. Members of pools do not
/// follow: they do each other's work.
pub(super) fn find(causes: &Causes<'_>, wakes: &[BTreeSet<usize>], pools: &Pools, cycle: &Cycle) -> Leads {
    let threads = causes.threads;
    let mut leads = Leads::default();
    let progress: Vec<Progress> = threads.iter().map(Progress::new).collect();
    let starts: Vec<Vec<u64>> = threads.iter().map(starts).collect();
    for (leader, woken) in wakes.iter().enumerate() {
        for &follower in woken {
            let own = |thread: usize| pools.of(thread).is_none() && cycle.driven[thread];
            if !own(leader) || !own(follower) {
                continue;
            }
            let lead = leads.pairs.len();
            let before = leads.acts.len();
            let mut read = 0;
            for (index, stretch) in threads[follower].stretches.iter().enumerate() {
                if stretch.end != End::Sleep {
                    continue;
                }
                let written = progress[leader].work(0, stretch.ended);
                let known = progress[leader].work(0, stretch.woken).max(read);
                let steps = (written.saturating_sub(known) / STEP_NS).min(MOST_STEPS);
                for step in 1..=steps {
                    let part = |all: u64| (u128::from(all) * u128::from(step) / u128::from(steps + 1)) as u64;
                    let done = part(stretch.work);
                    let at = progress[follower].when(starts[follower][index] + done);
                    let needs = (read + part(written - read)).min(progress[leader].work(0, at));
                    if needs <= known {
                        continue;
                    }
                    let Some((of, offset)) = place(&starts[leader], needs) else { continue };
                    let moved = progress[leader].when(needs).min(at);
                    leads.acts.push((leader, of, offset, Act::Leads { lead, at: moved }));
                    leads.acts.push((follower, index, done, Act::Follows { lead, at, moved }));
                }
                read = written;
            }
            if leads.acts.len() > before {
                leads.pairs.push((leader, follower));
            }
        }
    }
    leads
}

/// The work before each stretch.
fn starts(thread: &Thread) -> Vec<u64> {
    let before = |work: &mut u64, stretch: u64| {
        let start = *work;
        *work += stretch;
        Some(start)
    };
    thread.stretches.iter().map(|stretch| stretch.work).scan(0, before).collect()
}

/// The stretch with that work, and how much of it is before. `starts` has the work before each stretch.
fn place(starts: &[u64], work: u64) -> Option<(usize, u64)> {
    let stretch = starts.partition_point(|&start| start < work).checked_sub(1)?;
    Some((stretch, work - starts[stretch]))
}
