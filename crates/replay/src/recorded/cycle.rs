//! Closed loops, which continue after the recorded work.
//!
//! A server, its clients and a pool's workers do more with more CPU. Such threads repeat the recording from a time
//! `from` to its end, or to a [seam](super::seams), all together. Every wakeup before a time has had its sleep by then.
//! So between two times, each thread has as many wakeups by each other as sleeps that these end. None waits for ever.
//!
//! A thread whose sleeps mostly end from outside (timers, packets, users) keeps the recorded times, and does not
//! continue. Neither does a thread that such threads mostly woke, or that ended.

use std::collections::{BTreeMap, BTreeSet};

use super::causes::{Cause, Causes};
use super::exits::Exits;
use super::habits::Rhythm;
use super::pools::Pools;
use super::seams::Relay;
use super::threads::{End, Stretch, Thread};
use super::{Closed, seams};

/// Fewer sleeps show no loop.
const MIN_SLEEPS: usize = 4;
/// Percentage of the possible repetition that must continue.
const NEARLY_PCT: u64 = 95;
/// Threads that are started within this part of the recording are started at once.
const AT_ONCE: u64 = 1000;
/// The most start times to try.
const MOST_TIMES: usize = 32;

/// Which threads continue, and from when.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    /// The recorded time from which to repeat, nanoseconds.
    pub(super) from: u64,
    /// The recorded time until which to repeat. Threads of the repetition do nothing later.
    pub(super) until: u64,
    /// Threads whose drivers are driven, too: they do more with more CPU.
    pub(super) driven: Vec<bool>,
    /// As `driven`, without pools.
    pub(super) by_itself: Vec<bool>,
    /// Threads that repeat the recording.
    pub(super) goes_on: Vec<bool>,
    /// Threads in each repetition: those that continue, and their children.
    pub(super) there: Vec<bool>,
    /// A loop with rounds that are too long for the recording.
    pub(super) relay: Relay,
}

impl Cycle {
    /// Finds the loops. `repeats`: whether driven threads continue. `by_rule`: the user's statements on threads, which
    /// override their sleeps.
    pub(super) fn new(
        causes: &Causes<'_>,
        (pools, exits): (&Pools, &Exits),
        (duration_ns, repeats): (u64, bool),
        by_rule: &dyn Fn(usize) -> Option<Closed>,
    ) -> Self {
        let threads = causes.threads;
        let by_itself = driven(causes, (&Pools::default(), exits), duration_ns, by_rule);
        let driven = driven(causes, (pools, exits), duration_ns, by_rule);
        let closed = |index: usize| {
            by_rule(index).map_or_else(|| driven[index] || paced(causes, index), |by_rule| by_rule == Closed::Yes)
        };
        let lasts: Vec<bool> = (0..threads.len())
            .map(|index| {
                causes.kept[index] && !causes.keep_times && closed(index) && lasts(&threads[index], duration_ns)
            })
            .collect();
        // A member of a pool that had nothing to do for long continues with the others.
        let lasting: BTreeSet<usize> =
            (0..threads.len()).filter(|&index| lasts[index]).filter_map(|index| pools.of(index)).collect();
        let pool_lasts = |index: usize| pools.of(index).is_some_and(|pool| lasting.contains(&pool));
        let lasts: Vec<bool> = (0..threads.len())
            .map(|index| {
                let ended = threads[index].stretches.last().is_none_or(|last| last.end == End::Exit);
                lasts[index] || (!ended && causes.kept[index] && closed(index) && pool_lasts(index))
            })
            .collect();
        // Chance assigns a pool's work: a member that was started late continues with the others.
        let in_pool = |index: usize| pools.of(index).is_some();
        let from = from(causes, &lasts, &in_pool, duration_ns);
        let seam = if repeats { seams::find(causes, &lasts, from, duration_ns) } else { None };
        if repeats && seam.is_none() {
            let relay = Relay::find(causes, &closed, duration_ns);
            if relay.starter.is_some() {
                let (goes_on, there) = relayed(causes, lasts, &in_pool, duration_ns, &relay);
                return Self { from: 0, until: duration_ns, driven, by_itself, goes_on, there, relay };
            }
        }
        let (from, until) = seam.as_ref().map_or((from, duration_ns), |seam| (seam.from, seam.until));
        let (goes_on, there) = going_on(causes, &lasts, &in_pool, (from, duration_ns), seam.map(|seam| seam.starter));
        Self { from, until, driven, by_itself, goes_on, there, relay: Relay::default() }
    }
}

/// Whether a thread mostly sleeps for times from the sleep's start, and so does more with more CPU.
fn paced(causes: &Causes<'_>, index: usize) -> bool {
    let (mut own, mut all) = (0, 0);
    for stretch in 0..causes.threads[index].stretches.len() {
        let ended = match causes.of(index, stretch) {
            Cause::Start => continue,
            Cause::Thread(_) => false,
            Cause::Device => true,
            Cause::Timer => !matches!(causes.rhythms[index], Rhythm::Periodic { .. }),
            Cause::Interrupt => matches!(causes.rhythms[index], Rhythm::Relative { .. } | Rhythm::Paced { .. }),
        };
        all += 1;
        own += usize::from(ended);
    }
    own * 2 >= all
}

/// Returns which threads are driven by driven threads. A thread is not driven if it mostly waits for times, or if
/// something outside or an undriven thread mostly wakes it. A pool is one thread.
fn driven(
    causes: &Causes<'_>,
    (pools, exits): (&Pools, &Exits),
    duration_ns: u64,
    by_rule: &dyn Fn(usize) -> Option<Closed>,
) -> Vec<bool> {
    let threads = causes.threads;
    let mut driven: Vec<bool> = (0..threads.len()).map(|index| by_rule(index) != Some(Closed::No)).collect();
    // A unit has the number of its first thread.
    let mut first_of_pool = BTreeMap::new();
    let unit_of: Vec<usize> = (0..threads.len())
        .map(|index| pools.of(index).map_or(index, |pool| *first_of_pool.entry(pool).or_insert(index)))
        .collect();
    let mut units: Vec<Vec<usize>> = vec![Vec::new(); threads.len()];
    for (index, &unit) in unit_of.iter().enumerate() {
        units[unit].push(index);
    }
    let is_driven = |unit: usize, driven: &[bool]| {
        let (mut outside, mut all, mut waited) = (0, 0, 0);
        let mut awake = Vec::new();
        for &index in &units[unit] {
            for (stretch, life) in threads[index].stretches.iter().enumerate() {
                let clocked = match causes.of(index, stretch) {
                    Cause::Start => {
                        awake.push((life.woken, life.ended, false));
                        continue;
                    }
                    Cause::Device => false,
                    Cause::Thread(by) => {
                        let by = exits.behind(by, life.woken);
                        unit_of[by] != unit && !driven[by]
                    }
                    Cause::Timer | Cause::Interrupt => true,
                };
                awake.push((life.woken, life.ended, clocked));
                let own = causes.of(index, stretch) == Cause::Timer
                    && !matches!(causes.rhythms[index], Rhythm::Periodic { .. } | Rhythm::Paced { .. });
                all += 1;
                outside += usize::from(clocked && !own);
                let began = stretch.checked_sub(1).map_or(0, |before| threads[index].stretches[before].ended);
                waited += if clocked { life.woken.saturating_sub(began) } else { 0 };
            }
        }
        let born = units[unit].iter().map(|&index| born(&threads[index])).min().unwrap_or(0);
        let ended = units[unit].iter().map(|&index| ended(&threads[index], duration_ns)).max().unwrap_or(0);
        if units[unit].len() > 1 {
            waited = waited_together(awake, ended);
        }
        outside * 2 <= all && waited <= ended.saturating_sub(born) / 2
    };
    let mut wakes: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); threads.len()];
    for (index, thread) in threads.iter().enumerate() {
        for (stretch, life) in thread.stretches.iter().enumerate() {
            if let Cause::Thread(by) = causes.of(index, stretch) {
                wakes[unit_of[exits.behind(by, life.woken)]].insert(unit_of[index]);
            }
        }
    }
    let mut asked: Vec<usize> = (0..units.len()).filter(|&unit| !units[unit].is_empty()).collect();
    while let Some(unit) = asked.pop() {
        let is = units[unit].iter().any(|&index| driven[index]);
        if is && units[unit].iter().all(|&index| by_rule(index) != Some(Closed::Yes)) && !is_driven(unit, &driven) {
            for &index in &units[unit] {
                driven[index] = false;
            }
            asked.extend(wakes[unit].iter().copied());
        }
    }
    driven
}

/// Returns how long all threads of a unit slept at once until an outside wakeup, nanoseconds. `awake` has each time
/// from wakeup to sleep, and whether the wakeup was from outside. The sleep until `end` counts as outside.
fn waited_together(mut awake: Vec<(u64, u64, bool)>, end: u64) -> u64 {
    awake.sort_unstable();
    let (mut until, mut waited) = (0, 0);
    for (woken, ended, outside) in awake {
        waited += if outside { woken.saturating_sub(until) } else { 0 };
        until = until.max(ended);
    }
    waited + end.saturating_sub(until)
}

/// Whether a thread was active when the trace ended: it did not exit, and its last sleep is at most twice its longest.
fn lasts(thread: &Thread, duration_ns: u64) -> bool {
    let Some(last) = thread.stretches.last() else { return false };
    match last.end {
        End::Exit => false,
        End::Trace => true,
        End::Sleep | End::Device => {
            let slept = thread.stretches.windows(2).map(|pair| pair[1].woken.saturating_sub(pair[0].ended)).max();
            duration_ns.saturating_sub(last.ended) / 2 <= slept.unwrap_or(0)
        }
    }
}

/// Whether a thread acts repeatedly from that time on, or wants a CPU for most of the time: then it need not sleep.
fn repeats(thread: &Thread, from: u64, duration_ns: u64) -> bool {
    let first = thread.stretches.partition_point(|stretch| stretch.woken <= from);
    let sleeps = thread.stretches.len() - first;
    let lasts = |stretch: &Stretch| if stretch.end == End::Trace { duration_ns } else { stretch.ended };
    let awake = |stretch: &Stretch| lasts(stretch).saturating_sub(stretch.woken.max(from));
    let computes = thread.stretches.iter().map(awake).sum::<u64>() >= duration_ns.saturating_sub(from) / 2;
    let works = thread.stretches.iter().any(|stretch| stretch.work > 0);
    works && (sleeps >= MIN_SLEEPS || computes)
}

/// Returns the threads that repeat the recording from that time on, and those in it: with their children. A loop that
/// starts programs does so, even if it sleeps rarely.
fn going_on(
    causes: &Causes<'_>,
    lasts: &[bool],
    in_pool: &dyn Fn(usize) -> bool,
    (from, duration_ns): (u64, u64),
    starter: Option<usize>,
) -> (Vec<bool>, Vec<bool>) {
    let threads = causes.threads;
    let again = |index: usize| starter == Some(index) || repeats(&threads[index], from, duration_ns);
    // A program starts its threads one after the other: they count as there.
    let soon = from + duration_ns / AT_ONCE;
    let is_there = |index: usize| born(&threads[index]) <= soon || in_pool(index);
    let goes_on: Vec<bool> = (0..threads.len()).map(|index| lasts[index] && is_there(index) && again(index)).collect();
    let mut there = goes_on.clone();
    // Parents come before their children. One that did not end in most of the repetition is there already.
    for (index, thread) in threads.iter().enumerate() {
        let ended = thread.exit().is_some();
        if let Some((at, Some(parent))) = thread.born
            && causes.kept[index]
            && at > from
            && (ended || duration_ns.saturating_sub(at) < duration_ns.saturating_sub(from) / 2)
            && parent < index
        {
            there[index] |= there[parent];
        }
    }
    (goes_on, there)
}

/// As [`going_on`], if a loop repeats the whole recording. Its processes do not continue: the loop starts them again.
fn relayed(
    causes: &Causes<'_>,
    mut lasts: Vec<bool>,
    in_pool: &dyn Fn(usize) -> bool,
    duration_ns: u64,
    relay: &Relay,
) -> (Vec<bool>, Vec<bool>) {
    if let Some(starter) = relay.starter {
        lasts[starter] = true;
    }
    for &(late, early) in &relay.pairs {
        (lasts[late], lasts[early]) = (false, false);
    }
    let (goes_on, mut there) = going_on(causes, &lasts, in_pool, (0, duration_ns), relay.starter);
    for &(late, early) in &relay.pairs {
        (there[late], there[early]) = (true, true);
    }
    (goes_on, there)
}

/// Returns the earliest time from which nearly all possible repetition is complete. Programs started in the recording
/// are not started again.
fn from(causes: &Causes<'_>, lasts: &[bool], in_pool: &dyn Fn(usize) -> bool, duration_ns: u64) -> u64 {
    let threads = causes.threads;
    let lasting = threads.iter().zip(lasts).filter(|(_, lasts)| **lasts).map(|(thread, _)| born(thread));
    let mut times: Vec<u64> = lasting.filter(|&at| at <= duration_ns / 4 * 3).collect();
    times.push(0);
    times.sort_unstable();
    times.dedup();
    if times.len() > MOST_TIMES {
        let step = times.len().div_ceil(MOST_TIMES);
        times = times.into_iter().step_by(step).collect();
    }
    // The CPU time that continues in each second, of threads that sleep: others compute from any time on. A thread that
    // lasts and was not yet there would be forked again and again, and would end with the cycle.
    let share = |from: u64| {
        let (goes_on, there) = going_on(causes, lasts, in_pool, (from, duration_ns), None);
        let sleeps = |index: usize| threads[index].stretches.len() > MIN_SLEEPS;
        let counts = |&index: &usize| there[index] && sleeps(index) && (goes_on[index] || !lasts[index]);
        let had: u64 = (0..threads.len()).filter(counts).map(|index| had_since(&threads[index], from)).sum();
        had.saturating_mul(1000) / (duration_ns - from).max(1)
    };
    let shares: Vec<u64> = times.iter().map(|&from| share(from)).collect();
    let most = shares.iter().copied().max().unwrap_or(0);
    let first = shares.iter().position(|&share| share * 100 >= most * NEARLY_PCT).unwrap_or(0);
    // A program starts its threads one after the other. A moment later, more of them are there.
    let soon = times.partition_point(|&time| time <= times[first] + duration_ns / 100);
    let last = (first..soon).rev().find(|&at| shares[at] * 100 >= most * NEARLY_PCT).unwrap_or(first);
    times[last]
}

/// Returns a thread's fork time; 0: before the recording.
fn born(thread: &Thread) -> u64 {
    thread.born.map_or(0, |(at, _)| at)
}

/// Returns the time at which a thread ended, or the recording.
fn ended(thread: &Thread, duration_ns: u64) -> u64 {
    thread.exit().map_or(duration_ns, |last| last.ended)
}

fn had_since(thread: &Thread, from: u64) -> u64 {
    let first = thread.stretches.partition_point(|stretch| stretch.woken < from);
    thread.stretches[first..].iter().map(|stretch| stretch.time).sum()
}
