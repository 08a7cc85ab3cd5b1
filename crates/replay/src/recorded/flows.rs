//! Several messages on their way between two threads.
//!
//! A client with many connections sends further requests while its server works. Both have something to do most of the
//! time. How often they sleep depends on when each gets a CPU. A trace shows data only at a sleep: then the thread
//! has read all that its wakers wrote. So its work between two sleeps is for what they wrote meanwhile. A replay
//! spreads both evenly, in portions of a message. A thread begins a portion when the message for it is there.
//!
//! Messages flow between two threads if both go on with their work after a wakeup. And the more one worked, the more
//! the other had to work.
//!
//! Recorded portions began after their messages. So the threads can always repeat what they did in the recording.

use std::collections::{BTreeMap, BTreeSet};

use super::causes::{Cause, Causes};
use super::habits::percentile;
use super::leads::{Placed, place, starts};
use super::progress::Progress;
use super::roles::Roles;
use super::threads::{Act, End, Thread};

/// Fewer sleeps show no flow.
const FEWEST: usize = 50;
/// The least part of a waker's work after the wakeup.
const AFTER: f64 = 0.4;
/// The least correlation of ranks between the work of waker and woken thread.
const ALIKE: f64 = 0.3;
/// A stretch's most portions.
const MOST_PORTIONS: u64 = 64;
/// The least work of a message.
const MESSAGE_NS: u64 = 5_000;

/// Acts of threads between which messages flow.
#[derive(Debug, Default)]
pub(super) struct Flows {
    pub(super) acts: Vec<Placed>,
    /// Wakers and woken threads.
    pub(super) pairs: BTreeSet<(usize, usize)>,
}

/// What a thread did between two sleeps.
struct Read {
    stretch: usize,
    /// The waker's work at the end of both sleeps, and at the wakeup.
    since: u64,
    until: u64,
    woken: u64,
}

/// Finds the flows. `wakes` has the threads that each thread wakes. Threads with messages do not flow.
pub(super) fn find(causes: &Causes<'_>, Roles { wakes, pools, cycle, sends, .. }: &Roles) -> Flows {
    let threads = causes.threads;
    let progress: Vec<Progress> = threads.iter().map(Progress::new).collect();
    let own = |thread: usize| pools.of(thread).is_none() && cycle.driven[thread];
    let mut shows = BTreeMap::new();
    for (by, woken) in wakes.iter().enumerate().filter(|(by, _)| own(*by)) {
        let others =
            woken.iter().filter(|&&woken| own(woken) && !sends[by].contains(&woken) && !sends[woken].contains(&by));
        for &woken in others {
            shows.insert((by, woken), flows(causes, &progress[by], by, woken));
        }
    }
    // If each wakes the other, both show it.
    let both = |&(by, woken): &(usize, usize)| shows[&(by, woken)] && *shows.get(&(woken, by)).unwrap_or(&true);
    let mut found = Flows { acts: Vec::new(), pairs: shows.keys().copied().filter(both).collect() };
    let starts: Vec<Vec<u64>> = threads.iter().map(starts).collect();
    for follower in 0..threads.len() {
        let writers: Vec<usize> =
            found.pairs.iter().filter(|(_, woken)| *woken == follower).map(|&(by, _)| by).collect();
        if !writers.is_empty() {
            add(causes, &writers, follower, (&progress, &starts), &mut found.acts);
        }
    }
    found
}

/// Whether what a thread does shows that messages flow to it from a waker.
fn flows(causes: &Causes<'_>, writer: &Progress, by: usize, woken: usize) -> bool {
    let stretches = &causes.threads[woken].stretches;
    let reads: Vec<Read> = reads(&causes.threads[woken], writer)
        .filter(|read| causes.of(woken, read.stretch) == Cause::Thread(by))
        .collect();
    if reads.len() < FEWEST {
        return false;
    }
    let (wrote, after) = reads
        .iter()
        .fold((0, 0), |(wrote, after), read| (wrote + (read.until - read.since), after + (read.until - read.woken)));
    let works: Vec<(u64, u64)> =
        reads.iter().map(|read| (read.until - read.since, stretches[read.stretch].work)).collect();
    after as f64 >= AFTER * wrote as f64 && correlation(&works) >= ALIKE
}

/// Returns what a thread read in each stretch that ends with a sleep, by its writer's work.
fn reads<'a>(thread: &'a Thread, writer: &'a Progress) -> impl Iterator<Item = Read> + 'a {
    let mut since = 0;
    thread.stretches.iter().enumerate().filter(|(_, stretch)| stretch.end == End::Sleep).map(
        move |(number, stretch)| {
            let until = writer.work(0, stretch.ended).max(since);
            let woken = writer.work(0, stretch.woken).clamp(since, until);
            Read { stretch: number, since: std::mem::replace(&mut since, until), until, woken }
        },
    )
}

/// Returns the correlation of the ranks of both values (Spearman's). 0: one of the values is always the same.
fn correlation(pairs: &[(u64, u64)]) -> f64 {
    let (one, two) = (ranks(pairs.iter().map(|pair| pair.0)), ranks(pairs.iter().map(|pair| pair.1)));
    let middle = pairs.len().saturating_sub(1) as f64 / 2.0;
    let sum = |one: &[f64], two: &[f64]| -> f64 {
        one.iter().zip(two).map(|(one, two)| (one - middle) * (two - middle)).sum()
    };
    let each = sum(&one, &one) * sum(&two, &two);
    if each > 0.0 { sum(&one, &two) / each.sqrt() } else { 0.0 }
}

/// Returns each value's rank. Equal values share the mean of their ranks.
fn ranks(values: impl Iterator<Item = u64>) -> Vec<f64> {
    let mut order: Vec<(u64, usize)> = values.enumerate().map(|(index, value)| (value, index)).collect();
    order.sort_unstable();
    let mut ranks = vec![0.0; order.len()];
    let mut first = 0;
    for equal in order.chunk_by(|one, two| one.0 == two.0) {
        for &(_, index) in equal {
            ranks[index] = first as f64 + (equal.len() - 1) as f64 / 2.0;
        }
        first += equal.len();
    }
    ranks
}

/// Adds a thread's portions, and the writers' messages for them.
fn add(
    causes: &Causes<'_>,
    writers: &[usize],
    follower: usize,
    (progress, starts): (&[Progress], &[Vec<u64>]),
    acts: &mut Vec<Placed>,
) {
    let thread = &causes.threads[follower];
    let mut works: Vec<u64> = thread.stretches.iter().map(|stretch| stretch.work).collect();
    works.sort_unstable();
    // The shortest stretches are for one message.
    let message = percentile(&works, 10).max(MESSAGE_NS);
    let each: Vec<Vec<Read>> = writers.iter().map(|&writer| reads(thread, &progress[writer]).collect()).collect();
    for number in 0..each[0].len() {
        let index = each[0][number].stretch;
        let stretch = &thread.stretches[index];
        let wrote: Vec<u64> = each.iter().map(|reads| reads[number].until - reads[number].since).collect();
        let all: u64 = wrote.iter().sum();
        let waker = match causes.of(follower, index) {
            Cause::Thread(by) => writers.iter().position(|&writer| writer == by),
            _ => None,
        };
        if all == 0 && waker.is_none() {
            continue;
        }
        let portions = (stretch.work / message).clamp(1, MOST_PORTIONS);
        // Each writer's messages, by the time when it had done the work for them.
        let mut messages: Vec<(u64, usize)> = Vec::new();
        for (of, reads) in each.iter().enumerate() {
            let share = (u128::from(wrote[of]) * u128::from(portions) / u128::from(all.max(1))) as u64;
            let count = share.max(u64::from(waker == Some(of)));
            for message in 1..=count {
                let read = &reads[number];
                let work = read.since + (u128::from(wrote[of]) * u128::from(message) / u128::from(count)) as u64;
                messages.push((progress[writers[of]].when(work), of));
            }
        }
        messages.sort_unstable();
        let count = messages.len() as u64;
        for (portion, (sent, of)) in messages.into_iter().enumerate() {
            let done = (u128::from(stretch.work) * portion as u128 / u128::from(count)) as u64;
            let begins =
                if portion == 0 { stretch.woken } else { progress[follower].when(starts[follower][index] + done) };
            let at = sent.min(begins);
            let writer = writers[of];
            let Some((its, offset)) = place(&starts[writer], progress[writer].work(0, at)) else { continue };
            acts.push((writer, its, offset, Act::Sends { to: follower, at }));
            acts.push((follower, index, done, Act::Receives { at }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::correlation;

    #[test]
    fn ranks_correlate() {
        let pairs: Vec<(u64, u64)> = (0..100).map(|value| (value, value * value)).collect();
        assert!((correlation(&pairs) - 1.0).abs() < 1e-9);
        let opposite: Vec<(u64, u64)> = (0..100).map(|value| (value, 1000 - value)).collect();
        assert!((correlation(&opposite) + 1.0).abs() < 1e-9);
        let constant: Vec<(u64, u64)> = (0..100).map(|value| (value, 7)).collect();
        assert!(correlation(&constant).abs() < 1e-9);
        assert!(correlation(&[(1, 2)]).abs() < 1e-9 && correlation(&[]).abs() < 1e-9);
    }
}
