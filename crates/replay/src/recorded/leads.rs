//! Data that a thread reads while awake, without an event.
//!
//! A thread sleeps when it has read all that its wakers wrote. So between two sleeps, it processes what they wrote in
//! that time. In a replay it may be faster than they are, and must not overtake them. Which work is for which data is
//! unknown, so its work is spread evenly over its waker's.
//!
//! A thread awaits no step that its waker reached later in the recording. So the threads can always repeat their
//! recorded acts.

use std::collections::BTreeSet;

use super::causes::Causes;
use super::progress::Progress;
use super::roles::Roles;
use super::threads::{Act, End, Thread};

/// The leader's least work of a step.
const STEP_NS: u64 = 10_000;
/// The most steps of a stretch.
const MOST_STEPS: u64 = 16;

/// An act's place: thread, stretch and the stretch's work done before.
pub(super) type Placed = (usize, usize, u64, Act);

/// Acts of leaders and followers.
#[derive(Debug, Default)]
pub(super) struct Leads {
    pub(super) acts: Vec<Placed>,
    /// Leader and follower of each lead.
    pub(super) pairs: Vec<(usize, usize)>,
}

impl Leads {
    /// Adds the acts, and others, to the stretches.
    pub(super) fn add(&self, threads: &mut [Thread], others: &[Placed]) {
        for &(thread, stretch, done, act) in self.acts.iter().chain(others) {
            let acts = &mut threads[thread].stretches[stretch].acts;
            let place = acts.partition_point(|&(other, _)| other <= done);
            acts.insert(place, (done, act));
        }
    }
}

/// Finds what each woken thread follows. `wakes` has the threads that each thread wakes. Pool members do not follow:
/// they do each other's work. Neither do `flowing` wakers and woken threads.
pub(super) fn find(
    causes: &Causes<'_>,
    Roles { wakes, pools, cycle, sends, .. }: &Roles,
    flowing: &BTreeSet<(usize, usize)>,
) -> Leads {
    let threads = causes.threads;
    let mut leads = Leads::default();
    let progress: Vec<Progress> = threads.iter().map(Progress::new).collect();
    let starts: Vec<Vec<u64>> = threads.iter().map(starts).collect();
    let talk = |one: usize, two: usize| sends[one].contains(&two) || sends[two].contains(&one);
    for (leader, woken) in wakes.iter().enumerate() {
        for &follower in woken {
            let own = |thread: usize| pools.of(thread).is_none() && cycle.driven[thread];
            if !own(leader) || !own(follower) || flowing.contains(&(leader, follower)) || talk(leader, follower) {
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

/// Returns the work before each stretch.
pub(super) fn starts(thread: &Thread) -> Vec<u64> {
    let before = |work: &mut u64, stretch: u64| {
        let start = *work;
        *work += stretch;
        Some(start)
    };
    thread.stretches.iter().map(|stretch| stretch.work).scan(0, before).collect()
}

/// Returns the stretch with that work, and its part before. `starts` has the work before each stretch.
pub(super) fn place(starts: &[u64], work: u64) -> Option<(usize, u64)> {
    let stretch = starts.partition_point(|&start| start < work).checked_sub(1)?;
    Some((stretch, work - starts[stretch]))
}
