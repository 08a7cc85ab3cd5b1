//! Locks under which all work of a pool's threads is.
//!
//! Threads of an interpreter with one lock, as Python's, hardly ever work at the same time, whatever the number of
//! CPUs. A recording shows it: if the threads were independent, two CPUs would often run two of them. If they shared
//! one CPU, a preempted thread would soon continue, also before the one that took its place has slept. In a replay,
//! each thread then holds a mutex whenever it works.
//!
//! Such threads are no pool: none can work beside another.

use std::collections::BTreeSet;

use super::regular::{AT_ONCE_NS, is_by_mate};
use super::{Locks, Section, Try};
use crate::recorded::causes::{Cause, Causes};
use crate::recorded::pools::Pools;
use crate::recorded::threads::{End, Ran, Thread};

/// A thread that sleeps again after less work looked for the lock in vain, and held nothing. Python's threads do so
/// every 5 ms: 90 % of these stretches have less than 15 us.
const TRY_NS: u64 = 50_000;
/// Two members work together for at most one part in this many of what independent threads would, tries left out.
/// Ten recordings of Python and Ruby have 0.001 to 0.045. Threads of 20 other programs have 0.137 (`zstd -T2`) to 1.9.
const SELDOM: u64 = 12;
/// The time for which independent threads would work together. In less, nothing shows.
const FEWEST_NS: u64 = 20_000_000;
/// Fewer changes from one thread to another show nothing of threads that share a CPU.
const FEWEST_CHANGES: usize = 100;
/// Of these changes, at least one in this many is from a thread that could go on to one that it woke. Seven recordings
/// of Python and Ruby have 61 to 100 %. Those of other programs on one CPU have 22 (Java) to 0 %.
const GIVEN: usize = 2;
/// And at most one in this many is to a thread that was not woken. Python and Ruby have 0 to 1.7 %. `pigz` has 9 %; of
/// its changes, 63 % are given.
const UNLOCKED: usize = 25;
/// The longest wait after which a thread looks again whether it gets the lock. Python's is 5 ms.
const LONGEST_TRY_NS: u64 = 10_000_000;

impl Locks {
    /// Finds the pools of threads that never work at the same time, and takes them out of `pools`.
    pub(super) fn add_exclusive(&mut self, causes: &Causes<'_>, pools: &mut Pools) {
        let names = pools.names_of_all();
        let mut found = BTreeSet::new();
        for (pool, members) in pools.of_threads() {
            if !never_together(causes.threads, &members).unwrap_or_else(|| hand_over(causes, &members)) {
                continue;
            }
            let lock = self.names.len();
            self.names.push(format!("{} {lock}", names[pool]));
            self.exclusive.insert(lock);
            for &member in &members {
                self.lock_all(causes, (member, &members), lock);
            }
            self.always.extend(members);
            found.insert(pool);
        }
        pools.remove(&found);
    }

    /// Replaces what is known of a thread's locks by a lock during all its work.
    fn lock_all(&mut self, causes: &Causes<'_>, (member, members): (usize, &[usize]), lock: usize) {
        let stretches = &causes.threads[member].stretches;
        let by_mate = |index: usize| is_by_mate(causes, members, member, index);
        // A wait that ended without the lock is part of the next one.
        let tries = |index: usize| {
            let slept =
                index.checked_sub(1).map(|before| stretches[index].woken.saturating_sub(stretches[before].ended));
            let timer =
                || causes.of(member, index) == Cause::Timer && slept.is_some_and(|slept| slept <= LONGEST_TRY_NS);
            by_mate(index) || timer()
        };
        let is_timer = |index: usize| causes.of(member, index) == Cause::Timer;
        let in_vain = |index: usize| {
            // A timer often hits cold caches.
            let short = stretches[index].work < if is_timer(index) { TRY_NS } else { AT_ONCE_NS };
            let sleeps = stretches[index].end == End::Sleep && index + 1 < stretches.len();
            short && sleeps && tries(index) && tries(index + 1)
        };
        for (index, stretch) in stretches.iter().enumerate() {
            self.waits.remove(&(member, index));
            self.sections.remove(&(member, index));
            let (timed, vain) = (is_timer(index), in_vain(index));
            if vain || (timed && index.checked_sub(1).is_some_and(in_vain)) {
                self.tries.insert((member, index), Try { lock, timed });
            }
            if vain || by_mate(index) {
                self.waits.insert((member, index), lock);
            }
            if !vain {
                self.sections.insert((member, index), vec![Section { from: 0, until: stretch.work, lock }]);
            }
        }
    }
}

/// Whether threads never work at the same time, though they had two CPUs. None: they had one.
fn never_together(threads: &[Thread], members: &[usize]) -> Option<bool> {
    // Begins and ends of work, in order of time.
    let mut edges: Vec<(u64, bool, u32)> = Vec::new();
    for ran in members.iter().flat_map(|&member| worked(&threads[member])) {
        edges.extend([(ran.since, true, ran.cpu), (ran.until, false, ran.cpu)]);
    }
    edges.sort_unstable();
    let (first, last) = (edges.first()?, edges.last()?);
    let elapsed = u128::from((last.0 - first.0).max(1));
    let cpus = edges.iter().map(|edge| edge.2 as usize + 1).max().unwrap_or(0);
    let (mut alone, mut together, mut works) = (vec![0_u64; cpus], 0, 0_u32);
    let mut before = first.0;
    for (at, begins, cpu) in edges {
        together += if works > 1 { at - before } else { 0 };
        before = at;
        works = if begins { works + 1 } else { works.saturating_sub(1) };
        let time = &mut alone[cpu as usize];
        *time = if begins { time.wrapping_sub(at) } else { time.wrapping_add(at) };
    }
    let part = |time: u64| time as f64 / elapsed as f64;
    let expected = (several(&alone.iter().map(|&time| part(time)).collect::<Vec<f64>>()) * elapsed as f64) as u64;
    (expected >= FEWEST_NS).then_some(together * SELDOM <= expected)
}

/// Whether threads give each other a lock: one that works after another was woken by it, which could have gone on.
fn hand_over(causes: &Causes<'_>, members: &[usize]) -> bool {
    struct Work {
        since: u64,
        thread: usize,
        stretch: usize,
        sleeps: bool,
    }
    let mut all = Vec::new();
    for &thread in members {
        let Thread { stretches, ran, .. } = &causes.threads[thread];
        for ran in ran.iter().filter(|ran| ran.until.saturating_sub(ran.since) >= TRY_NS) {
            let stretch = stretches.partition_point(|stretch| stretch.ended <= ran.since);
            let Some(its) = stretches.get(stretch) else { continue };
            let sleeps = its.ended <= ran.until && its.end != End::Trace;
            all.push(Work { since: ran.since, thread, stretch, sleeps });
        }
    }
    all.sort_unstable_by_key(|work| (work.since, work.thread));
    let (mut changes, mut given, mut unlocked) = (0, 0, 0);
    for pair in all.windows(2).filter(|pair| pair[0].thread != pair[1].thread) {
        let [before, after] = pair else { continue };
        changes += 1;
        if !before.sleeps {
            let woken = causes.threads[after.thread].stretches[after.stretch].woken >= before.since
                && is_by_mate(causes, members, after.thread, after.stretch);
            *if woken { &mut given } else { &mut unlocked } += 1;
        }
    }
    changes >= FEWEST_CHANGES && given * GIVEN >= changes && unlocked * UNLOCKED <= changes
}

/// Returns when a thread ran, without the [tries](TRY_NS).
fn worked(thread: &Thread) -> impl Iterator<Item = &Ran> {
    let mut stretches = thread.stretches.iter().peekable();
    thread.ran.iter().filter(move |ran| {
        while stretches.next_if(|stretch| stretch.ended <= ran.since).is_some() {}
        ran.until > ran.since && stretches.peek().is_none_or(|stretch| stretch.work >= TRY_NS)
    })
}

/// Returns how probably two or more of independent events happen.
fn several(all: &[f64]) -> f64 {
    // Probabilities of none and of one.
    let (none, one) =
        all.iter().fold((1.0, 0.0), |(none, one), part| (none * (1.0 - part), one * (1.0 - part) + none * part));
    (1.0_f64 - none - one).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_of_independent_events() {
        let near = |all: &[f64], expected: f64| assert!((several(all) - expected).abs() < 1e-9, "{all:?}");
        near(&[], 0.0);
        near(&[0.7], 0.0);
        near(&[0.5, 0.4], 0.2);
        near(&[1.0, 0.3], 0.3);
        near(&[0.5, 0.5, 0.5], 0.5);
    }
}
