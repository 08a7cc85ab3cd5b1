//! Locks that the members of a pool take at regular distances.
//!
//! Threads that share one mutex wait for each other only. A wait is the only event of a lock: most critical sections
//! leave none. But if all sections are alike, the waits show them. A thread that waited works a whole number of rounds
//! until its next wait, and its wakeups of others are ends of sections. In a replay, each round then has its section,
//! whether a thread waited for it in the recording or not. So contention depends on the replayed machine.
//!
//! Such threads are no pool: none can do another's work.

use std::collections::{BTreeMap, BTreeSet};

use super::{Locks, Section};
use crate::recorded::causes::{Cause, Causes};
use crate::recorded::pools::Pools;
use crate::recorded::progress::Progress;
use crate::recorded::rounds::{FEWEST, lengths, place, whole};
use crate::recorded::threads::{Act, End, Stretch};

/// A woken thread that sleeps again after less work found the lock taken.
pub(super) const AT_ONCE_NS: u64 = 10_000;
/// The least concentration of the ends of sections in their round.
const AT_ONE_PLACE: f64 = 0.98;
/// The percentage of sleeps that other members must have ended.
const NEARLY_ALL: usize = 95;

/// The rounds of a pool's members: work, the last part of it under the lock of the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rounds {
    /// The work of a round, nanoseconds.
    all: u64,
    /// The part of it in which the thread holds the lock.
    inside: u64,
}

/// What a thread waits for at both ends of a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Between {
    /// It had waited for a member when the stretch began.
    after: bool,
    /// It waits for a member afterwards.
    before: bool,
}

impl Locks {
    /// Finds the pools with a regular lock, and takes these pools out of `pools`.
    pub(super) fn add_regular(&mut self, causes: &Causes<'_>, pools: &mut Pools) {
        let names = pools.names_of_all();
        let mut found = BTreeSet::new();
        for (pool, members) in pools.of_threads() {
            let Some(rounds) = rounds(causes, &members) else { continue };
            let lock = self.names.len();
            self.names.push(format!("{} {lock}", names[pool]));
            for &member in &members {
                self.add_rounds(causes, (member, &members), rounds, lock);
            }
            self.always.extend(members);
            found.insert(pool);
        }
        pools.remove(&found);
    }

    /// Replaces what is known of a thread's locks by a section in every round.
    fn add_rounds(
        &mut self,
        causes: &Causes<'_>,
        (member, members): (usize, &[usize]),
        Rounds { all, inside }: Rounds,
        lock: usize,
    ) {
        let stretches = &causes.threads[member].stretches;
        for (index, stretch) in stretches.iter().enumerate() {
            self.waits.remove(&(member, index));
            self.sections.remove(&(member, index));
            let between = between(causes, members, member, index);
            if between.after {
                self.waits.insert((member, index), lock);
                if between.before && stretch.work < AT_ONCE_NS {
                    self.in_vain.insert((member, index));
                    continue;
                }
            }
            let (first, round) = match between {
                Between { after: true, before: true } => (0, stretch.work / whole(stretch.work, all)),
                Between { after: true, before: false } => (0, all),
                Between { after: false, before: true } => (stretch.work % all, all),
                Between { after: false, before: false } => (all - inside, all),
            };
            let end = if between.before { stretch.work.saturating_sub(round / 2) } else { stretch.work };
            let starts = (0..).map(|number| first + number * round).take_while(|&from| from < end);
            let sections = starts.map(|from| Section { from, until: (from + inside).min(stretch.work), lock });
            let sections: Vec<Section> = sections.filter(|section| !super::sleeps_inside(stretch, section)).collect();
            if !sections.is_empty() {
                self.sections.insert((member, index), sections);
            }
        }
    }
}

/// Whether a member ended the sleep before a stretch.
pub(super) fn is_by_mate(causes: &Causes<'_>, members: &[usize], thread: usize, stretch: usize) -> bool {
    let slept = stretch.checked_sub(1).map(|before| causes.threads[thread].stretches[before].end);
    slept == Some(End::Sleep)
        && matches!(causes.of(thread, stretch), Cause::Thread(by) if members.binary_search(&by).is_ok())
}

fn between(causes: &Causes<'_>, members: &[usize], thread: usize, index: usize) -> Between {
    let stretches = &causes.threads[thread].stretches;
    // At the trace's end, a thread may wait for the lock.
    let next = index + 1;
    Between {
        after: is_by_mate(causes, members, thread, index),
        before: next < stretches.len() && is_by_mate(causes, members, thread, next),
    }
}

/// Returns the rounds of a pool's members. None if they sleep for something else, or irregularly.
fn rounds(causes: &Causes<'_>, members: &[usize]) -> Option<Rounds> {
    let (mut sleeps, mut by_mates) = (0, 0);
    let mut whole_ones: Vec<&Stretch> = Vec::new();
    for &member in members {
        for (index, stretch) in causes.threads[member].stretches.iter().enumerate() {
            let between = between(causes, members, member, index);
            sleeps += usize::from(index > 0);
            by_mates += usize::from(between.after);
            if between.after && between.before && stretch.work >= AT_ONCE_NS {
                whole_ones.push(stretch);
            }
        }
    }
    if whole_ones.len() < FEWEST || by_mates * 100 < sleeps * NEARLY_ALL {
        return None;
    }
    let mut works: Vec<u64> = whole_ones.iter().map(|stretch| stretch.work).collect();
    works.sort_unstable();
    let waker_ran = waker_ran(causes, members);
    let found = lengths(&works).find_map(|all| inside(&whole_ones, members, all).map(|inside| Rounds { all, inside }));
    // The middle one: a thread may get the lock again before the woken one runs.
    found.filter(|rounds| waker_ran[waker_ran.len() / 2] <= rounds.inside + rounds.inside / 10 + AT_ONCE_NS)
}

/// Returns how long the waker ran in each wait for a member, sorted. It is at most one section if the waker held a
/// lock.
fn waker_ran(causes: &Causes<'_>, members: &[usize]) -> Vec<u64> {
    let progress: BTreeMap<usize, Progress> =
        members.iter().map(|&member| (member, Progress::new(&causes.threads[member]))).collect();
    let mut waker_ran = Vec::new();
    for &member in members {
        for (index, pair) in causes.threads[member].stretches.windows(2).enumerate() {
            if is_by_mate(causes, members, member, index + 1)
                && let Cause::Thread(by) = causes.of(member, index + 1)
            {
                waker_ran.extend(progress.get(&by).map(|progress| progress.ran(pair[0].ended, pair[1].woken)));
            }
        }
    }
    waker_ran.sort_unstable();
    waker_ran
}

/// Returns the work of a section: a thread that has got the lock wakes the next at its section's end. None if these
/// wakeups have no common place in rounds of that length. Twice the true length has two places.
fn inside(stretches: &[&Stretch], members: &[usize], all: u64) -> Option<u64> {
    let mut ends = Vec::new();
    for stretch in stretches {
        let round = stretch.work / whole(stretch.work, all);
        let wakes = |act: Act| matches!(act, Act::Wake { thread, .. } if members.binary_search(&thread).is_ok());
        ends.extend(stretch.acts.iter().filter(|(_, act)| wakes(*act)).map(|&(at, _)| (at % round, round)));
    }
    if ends.len() < FEWEST {
        return None;
    }
    let (place, concentration) = place(ends.into_iter());
    let inside = (place * all as f64) as u64;
    (concentration >= AT_ONE_PLACE && inside > 0 && inside < all).then_some(inside)
}
