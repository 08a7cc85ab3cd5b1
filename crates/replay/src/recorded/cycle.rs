//! What goes on when all that was recorded is done: closed loops, as long as the replay lasts.
//!
//! A server, its clients, the workers of a pool do more when they get more CPU, and a recording has only as much of it
//! as there was time for. Such threads go through the recording again, from a time `from` to its end, all of them
//! together: at any one time every wakeup before it has had its sleep, so that between two times there are as many
//! wakeups of each thread by each other as sleeps that these end. Whatever order they come in, none waits for ever.
//!
//! A thread whose sleeps are mostly ended from outside (timers, packets, users) keeps the recorded times, and does not
//! go on. Nor does one that was woken mostly by such threads, or that ended.

use super::Closed;
use super::causes::{Cause, Causes};
use super::habits::Rhythm;
use super::lives::{End, Thread};

/// Fewer sleeps than these show no loop.
const MIN_SLEEPS: usize = 4;
/// Of a hundred, how much of the most that could go on has to.
const NEARLY_PCT: u64 = 95;

/// Which threads go on, and from when.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    /// The time in the recording from which it is repeated, nanoseconds.
    pub(super) from: u64,
    /// Threads that do more when they get more CPU.
    pub(super) closed: Vec<bool>,
    /// Threads that go through the recording again.
    pub(super) goes_on: Vec<bool>,
    /// Threads that are there each time: those that go on, and what they fork.
    pub(super) there: Vec<bool>,
}

impl Cycle {
    /// `said`: what the user says of threads; it goes before what their sleeps show.
    pub(super) fn new(causes: &Causes<'_>, duration_ns: u64, said: &dyn Fn(usize) -> Option<Closed>) -> Self {
        let threads = causes.threads;
        let closed = closed(causes, said);
        let lasts: Vec<bool> = (0..threads.len())
            .map(|index| {
                causes.kept[index] && !causes.keep_times && closed[index] && lasts(&threads[index], duration_ns)
            })
            .collect();
        let from = from(threads, &lasts, duration_ns);
        let born = |index: usize| threads[index].born.map_or(0, |(at, _)| at);
        let goes_on: Vec<bool> = (0..threads.len())
            .map(|index| lasts[index] && born(index) <= from && repeats(&threads[index], from))
            .collect();
        let mut there = goes_on.clone();
        // Parents come before their children.
        for index in 0..threads.len() {
            if let Some((at, Some(parent))) = threads[index].born
                && causes.kept[index]
                && at > from
            {
                there[index] = there[index] || (there[parent] && parent != index);
            }
        }
        Self { from, closed, goes_on, there }
    }
}

/// Which threads do more when they get more CPU: at least half of their sleeps are ended by other such threads, by
/// devices that answer, or after a time that begins with the sleep.
fn closed(causes: &Causes<'_>, said: &dyn Fn(usize) -> Option<Closed>) -> Vec<bool> {
    let threads = causes.threads;
    let mut closed: Vec<bool> = (0..threads.len()).map(|index| said(index) != Some(Closed::No)).collect();
    let ends = |index: usize, closed: &[bool]| {
        let (mut inside, mut all) = (0, 0);
        for stretch in 0..threads[index].stretches.len() {
            let ended = match causes.of(index, stretch) {
                Cause::Start => continue,
                Cause::Thread(by) => closed[by],
                Cause::Device => true,
                Cause::Interrupt => matches!(causes.rhythms[index], Rhythm::Relative { .. }),
            };
            all += 1;
            inside += usize::from(ended);
        }
        (inside, all)
    };
    let mut wakes: Vec<Vec<usize>> = vec![Vec::new(); threads.len()];
    for index in 0..threads.len() {
        for stretch in 0..threads[index].stretches.len() {
            if let Cause::Thread(by) = causes.of(index, stretch)
                && !wakes[by].contains(&index)
            {
                wakes[by].push(index);
            }
        }
    }
    let mut asked: Vec<usize> = (0..threads.len()).collect();
    while let Some(index) = asked.pop() {
        if !closed[index] || said(index) == Some(Closed::Yes) {
            continue;
        }
        let (inside, all) = ends(index, &closed);
        if inside * 2 < all {
            closed[index] = false;
            asked.extend(wakes[index].iter().copied().filter(|&woken| closed[woken]));
        }
    }
    closed
}

/// Whether a thread was still at it when the trace ended: it did not end, and does not sleep for longer than it ever
/// did before.
fn lasts(thread: &Thread, duration_ns: u64) -> bool {
    let Some(last) = thread.stretches.last() else { return false };
    match last.end {
        End::Exit => false,
        End::Trace => true,
        End::Sleep | End::Device => {
            let slept = thread.stretches.windows(2).map(|pair| pair[1].woken.saturating_sub(pair[0].ended)).max();
            duration_ns.saturating_sub(last.ended) <= slept.unwrap_or(0)
        }
    }
}

/// Whether a thread does anything again and again from that time on, or computes without a sleep to the end.
fn repeats(thread: &Thread, from: u64) -> bool {
    let first = thread.stretches.partition_point(|stretch| stretch.woken <= from);
    let sleeps = thread.stretches.len() - first;
    let computes = thread.stretches.last().is_some_and(|last| last.end == End::Trace);
    let works = thread.stretches.iter().any(|stretch| stretch.work > 0);
    works && (sleeps >= MIN_SLEEPS || (sleeps == 0 && computes))
}

/// The time from which the recording is repeated: the earliest from which nearly all that can go on is there. A program
/// that was started in the recording is not started again.
fn from(threads: &[Thread], lasts: &[bool], duration_ns: u64) -> u64 {
    let born = |thread: &Thread| thread.born.map_or(0, |(at, _)| at);
    let lasting = || threads.iter().zip(lasts).filter(|(_, lasts)| **lasts).map(|(thread, _)| thread);
    let mut times: Vec<u64> = lasting().map(born).filter(|&at| at <= duration_ns / 2).collect();
    times.push(0);
    times.sort_unstable();
    times.dedup();
    // Of those that are there at each time, how much CPU time they have in the recording for each nanosecond of it.
    let share = |from: u64| {
        let had: u64 = lasting().filter(|thread| born(thread) <= from).map(|thread| had_since(thread, from)).sum();
        had.saturating_mul(1000) / (duration_ns - from).max(1)
    };
    let shares: Vec<u64> = times.iter().map(|&from| share(from)).collect();
    let most = shares.iter().copied().max().unwrap_or(0);
    let first = shares.iter().position(|&share| share * 100 >= most * NEARLY_PCT).unwrap_or(0);
    times[first]
}

fn had_since(thread: &Thread, from: u64) -> u64 {
    let first = thread.stretches.partition_point(|stretch| stretch.woken < from);
    thread.stretches[first..].iter().map(|stretch| stretch.time).sum()
}
