//! Where a repetition ends and the next one begins: at the same place of a loop that starts programs.
//!
//! A shell loop or a test driver starts processes and waits for them. A recording ends in the middle of a round. If the
//! repetition ended there, too, the next one would wait in vain for processes that the end had cut off. So it ends
//! where the loop starts a program. When the loop started a program of that name earlier, the same other processes
//! existed.
//!
//! A round may be too long for that: the recording has the end of one and the beginning of the next. Then the processes
//! that the end cut off go on as those that existed at the begin, and the loop repeats the whole recording.

use std::collections::{BTreeMap, BTreeSet};

use super::causes::Causes;
use super::threads::{Act, End, Thread};

/// The most starts of programs to compare, for each loop and name.
const MOST_STARTS: usize = 256;
/// Processes with a smaller part of a CPU do not decide what all tasks repeat. A shell that sleeps again and again has
/// such processes.
const LEAST_PART: u64 = 100;

/// A loop's start of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Start {
    at: u64,
    /// The loops' other processes then.
    alive: Vec<usize>,
}

/// A part of the recording that begins and ends at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seam {
    pub(super) from: u64,
    pub(super) until: u64,
    /// The thread that starts programs.
    pub(super) starter: usize,
}

/// Returns the longest part of the recording after `from` that begins and ends at the same place. None if it is shorter
/// than a quarter of the recording.
/// `lasts`: the threads that continue.
pub(super) fn find(causes: &Causes<'_>, lasts: &[bool], from: u64, duration_ns: u64) -> Option<Seam> {
    let threads = causes.threads;
    let jobs = jobs(causes, lasts);
    let loops = starts(threads, lasts, &jobs, from);
    // The start itself belongs to what it begins.
    let seams = loops.iter().filter_map(|(&(starter, _), starts)| {
        let (from, until) = longest(starts)?;
        Some(Seam { from: from.checked_sub(1)?, until: until - 1, starter })
    });
    seams.max_by_key(|seam| seam.until - seam.from).filter(|seam| seam.until - seam.from >= duration_ns / 4)
}

/// A loop whose processes at the recording's end go on as those at its begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Relay {
    /// The thread that starts programs. None: there is no such loop.
    pub(super) starter: Option<usize>,
    /// Each thread that the end cut off, and the one as which it continues.
    pub(super) pairs: Vec<(usize, usize)>,
}

impl Relay {
    /// Finds such a loop whose processes matter. `may`: the threads that may be loops.
    pub(super) fn find(causes: &Causes<'_>, may: &dyn Fn(usize) -> bool, duration_ns: u64) -> Self {
        let threads = causes.threads;
        let forked: BTreeSet<usize> = threads.iter().filter_map(|thread| thread.born?.1).collect();
        let loops = forked.into_iter().filter(|&starter| {
            let waits = threads[starter].stretches.last().is_some_and(|last| last.end == End::Sleep);
            threads[starter].born.is_none() && waits && causes.kept[starter] && may(starter)
        });
        let found = loops.map(|starter| Self { starter: Some(starter), pairs: pairs(causes, starter) });
        let had = |thread: usize| threads[thread].cpu_ns;
        let matters = |relay: &Self| {
            relay.pairs.iter().map(|&(late, early)| had(late) + had(early)).sum::<u64>() >= duration_ns / LEAST_PART
        };
        found.into_iter().find(matters).unwrap_or_default()
    }
}

/// Pairs the descendants of a thread that the end cut off with those that existed at the begin and ended. None if they
/// differ in number or names.
fn pairs(causes: &Causes<'_>, starter: usize) -> Vec<(usize, usize)> {
    let threads = causes.threads;
    let process = |thread: &Thread| thread.tgid.unwrap_or(thread.pid);
    let mut processes = BTreeSet::from([process(&threads[starter])]);
    let mut descends = vec![false; threads.len()];
    descends[starter] = true;
    let (mut late, mut early, mut last) = (Vec::new(), Vec::new(), false);
    let mut by_pid: Vec<usize> = (0..threads.len()).filter(|&index| causes.kept[index] && index != starter).collect();
    by_pid.sort_by_key(|&index| threads[index].pid);
    // Parents have lower numbers than their children.
    for index in by_pid {
        let thread = &threads[index];
        match thread.born {
            None if thread.ppid.is_some_and(|parent| processes.contains(&parent)) => {
                processes.insert(process(thread));
                last |= ended(thread).is_none();
                early.push(index);
            }
            Some((_, Some(parent))) if descends[parent] => {
                descends[index] = true;
                late.extend(ended(thread).is_none().then_some(index));
            }
            _ => {}
        }
    }
    let names = |all: &[usize]| all.iter().map(|&index| threads[index].comm.clone()).collect::<Vec<String>>();
    if last || names(&late) != names(&early) {
        return Vec::new();
    }
    late.into_iter().zip(early).collect()
}

/// Returns the threads that continuing threads started, and the threads that existed already and ended. Parents come
/// before their children.
fn jobs(causes: &Causes<'_>, lasts: &[bool]) -> Vec<bool> {
    let threads = causes.threads;
    let mut jobs = vec![false; threads.len()];
    for (index, thread) in threads.iter().enumerate() {
        jobs[index] = causes.kept[index]
            && match thread.born {
                Some((_, Some(parent))) => parent < index && (lasts[parent] || jobs[parent]),
                Some((_, None)) => false,
                None => !lasts[index] && ended(thread).is_some(),
            };
    }
    jobs
}

/// Returns when a thread exited.
fn ended(thread: &Thread) -> Option<u64> {
    thread.exit().map(|last| last.ended)
}

/// Returns the starts of programs after `from`, by the continuing thread that starts them and their name.
fn starts<'a>(
    threads: &'a [Thread],
    lasts: &[bool],
    jobs: &[bool],
    from: u64,
) -> BTreeMap<(usize, &'a str), Vec<Start>> {
    // Births and ends of all jobs.
    let mut changes: Vec<(u64, bool, usize)> = Vec::new();
    for (job, thread) in threads.iter().enumerate().filter(|&(job, _)| jobs[job]) {
        changes.push((thread.born.map_or(0, |(at, _)| at), true, job));
        changes.extend(ended(thread).map(|at| (at, false, job)));
    }
    changes.sort_unstable();
    let mut wanted: BTreeMap<(usize, &str), Vec<(u64, usize)>> = BTreeMap::new();
    for (parent, thread) in threads.iter().enumerate().filter(|&(parent, _)| lasts[parent]) {
        for &(_, act) in thread.stretches.iter().flat_map(|stretch| &stretch.acts) {
            if let Act::Fork(child) = act
                && jobs[child]
                && let Some((at, _)) = threads[child].born.filter(|&(at, _)| at > from)
            {
                wanted.entry((parent, threads[child].comm.as_str())).or_default().push((at, child));
            }
        }
    }
    for starts in wanted.values_mut().filter(|starts| starts.len() > MOST_STARTS) {
        let step = starts.len().div_ceil(MOST_STARTS);
        let last = starts.last().copied();
        *starts = starts.iter().copied().step_by(step).chain(last).collect();
        starts.dedup();
    }
    let mut times: Vec<(u64, usize, usize)> = Vec::new();
    for (&(parent, _), starts) in &wanted {
        times.extend(starts.iter().map(|&(at, child)| (at, child, parent)));
    }
    times.sort_unstable();
    let (mut alive, mut next) = (std::collections::BTreeSet::new(), 0);
    let mut loops: BTreeMap<(usize, &str), Vec<Start>> = BTreeMap::new();
    for (at, child, parent) in times {
        while let Some(&(_, born, job)) = changes.get(next).filter(|change| change.0 < at) {
            if born {
                alive.insert(job);
            } else {
                alive.remove(&job);
            }
            next += 1;
        }
        let start = Start { at, alive: alive.iter().copied().collect() };
        loops.entry((parent, threads[child].comm.as_str())).or_default().push(start);
    }
    loops
}

/// Returns the first and last of the starts beside the same processes that are farthest apart.
fn longest(starts: &[Start]) -> Option<(u64, u64)> {
    let mut spans: BTreeMap<&[usize], (u64, u64)> = BTreeMap::new();
    for start in starts {
        spans.entry(&start.alive).or_insert((start.at, start.at)).1 = start.at;
    }
    spans.into_values().filter(|(from, until)| until > from).max_by_key(|&(from, until)| until - from)
}
