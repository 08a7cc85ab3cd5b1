//! How processes end: one thread calls `exit_group`, which kills the others.
//!
//! A recording shows that thread by its wakeups: in its last stretch, it wakes other threads of its process for their
//! last ones. If all are awake, it is the first to end. In a replay, it ends the others, too, however often they
//! slept until then in the recording. Otherwise, a thread that only naps while others work would hold up the program
//! that waits for the process's end.

use std::collections::{BTreeMap, BTreeSet};

use super::causes::Causes;
use super::progress::Progress;
use super::threads::{Act, End, Stretch, Thread, Waker};

/// A killed thread, but the last one, works for less than this. Recordings of 17 programs have 1,244 ends of processes
/// with several killed threads. In 99 % of them, these work for at most 0.14 ms, and in all, for at most 0.57 ms.
const LITTLE_NS: u64 = 1_000_000;

/// The kernel wakes the parent of an exiting thread this shortly before the switch away. In a build with 377 ends, the
/// median is 4 us, and 95 % are within 44 us.
const NOTICE_NS: u64 = 50_000;

/// Whether an act of a stretch is the wakeup of an exiting thread's parent (`exit_notify`). A replay wakes it at the
/// very end, because the thread does not leave its CPU in between, unless under full preemption.
pub(super) fn is_notice(stretch: &Stretch, act: usize) -> bool {
    let Some(&(at, Act::Wake { .. })) = stretch.acts.get(act) else { return false };
    stretch.end == End::Exit && act + 1 == stretch.acts.len() && stretch.work.saturating_sub(at) <= NOTICE_NS
}

/// The processes of a recording that end by `exit_group`.
#[derive(Clone, Debug, Default)]
pub(super) struct Exits {
    /// The killer and the time of each killed thread.
    killed: BTreeMap<usize, (usize, u64)>,
    /// The killed threads that were asleep.
    asleep: BTreeSet<usize>,
    /// The time of each killer.
    killers: BTreeMap<usize, u64>,
}

/// What threads do at the ends of their processes, with the threads and times.
pub(super) type Marks = Vec<(usize, u64, Act)>;

impl Exits {
    /// Finds the ends of processes, and what [`mark`] has to add.
    pub(super) fn new(causes: &Causes<'_>) -> (Self, Marks) {
        let mut processes: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (index, thread) in causes.threads.iter().enumerate().filter(|(index, _)| causes.kept[*index]) {
            if let Some(process) = thread.tgid {
                processes.entry(process).or_default().push(index);
            }
        }
        let (mut this, mut marks) = (Self::default(), Marks::new());
        for process in processes.values().filter(|threads| threads.len() > 1) {
            // A thread that another awaited may have ended alone, before.
            let kill =
                process.iter().filter_map(|&by| Kill::that_wakes(causes, process, by)).max_by_key(|kill| kill.at);
            if let Some(kill) = kill.or_else(|| Kill::of_awake(causes, process)) {
                this.add(causes, &mut marks, kill);
            }
        }
        (this, marks)
    }

    fn add(&mut self, causes: &Causes<'_>, marks: &mut Marks, kill: Kill) {
        let Kill { by, at, others } = kill;
        self.killers.insert(by, at);
        marks.push((by, at, Act::Kills { at }));
        for other in others {
            self.killed.insert(other, (by, at));
            if last(causes, other).is_some_and(|last| last.woken >= at) {
                self.asleep.insert(other);
            } else {
                marks.push((other, at, Act::IsKilled { at }));
            }
        }
    }

    /// Whether a thread is killed before that stretch, while it sleeps.
    pub(super) fn ends_sleep(&self, threads: &[Thread], thread: usize, stretch: usize) -> bool {
        self.asleep.contains(&thread) && stretch + 1 == threads[thread].stretches.len()
    }

    /// Returns the time of a thread's `exit_group`.
    pub(super) fn time(&self, killer: usize) -> Option<u64> {
        self.killers.get(&killer).copied()
    }

    /// Returns the thread on whose behalf a thread acted: if it was killed before, its killer.
    pub(super) fn behind(&self, thread: usize, at: u64) -> usize {
        self.killed.get(&thread).filter(|(_, killed)| *killed <= at).map_or(thread, |&(by, _)| by)
    }
}

/// Adds what a thread does at the end of its process.
pub(super) fn mark(thread: &mut Thread, at: u64, act: Act) {
    let Some(stretch) = thread.stretches.iter().rposition(|stretch| stretch.woken <= at) else { return };
    let done = Progress::new(thread).work(thread.stretches[stretch].woken, at);
    let acts = &mut thread.stretches[stretch].acts;
    // Before the wakeups at that time.
    let place = if let Act::Kills { .. } = act {
        acts.partition_point(|&(work, _)| work < done)
    } else {
        acts.partition_point(|&(work, _)| work <= done)
    };
    acts.insert(place, (done, act));
}

/// Returns a thread's last stretch, if it ends then.
fn last<'a>(causes: &Causes<'a>, thread: usize) -> Option<&'a Stretch> {
    causes.threads[thread].exit()
}

/// An `exit_group`.
struct Kill {
    by: usize,
    at: u64,
    /// The threads that it kills.
    others: Vec<usize>,
}

impl Kill {
    /// Returns the `exit_group` of a thread that wakes others.
    fn that_wakes(causes: &Causes<'_>, process: &[usize], by: usize) -> Option<Self> {
        let wakes = |act: Act| match act {
            Act::Wake { thread, stretch } => {
                process.binary_search(&thread).is_ok()
                    && stretch + 1 == causes.threads[thread].stretches.len()
                    && causes.threads[thread].stretches[stretch].waker == Waker::Thread(by)
            }
            _ => false,
        };
        let (_, first) = last(causes, by)?.acts.iter().find(|&&(_, act)| wakes(act))?;
        Self::at(causes, process, by, causes.time(*first))
    }

    /// Returns the `exit_group` of the thread that ends first, if the others were awake.
    fn of_awake(causes: &Causes<'_>, process: &[usize]) -> Option<Self> {
        let mut ends: Vec<(u64, usize)> = { process.iter() }
            .map(|&thread| last(causes, thread).map(|last| (last.ended, thread)))
            .collect::<Option<_>>()?;
        ends.sort_unstable();
        ends.into_iter().find_map(|(at, by)| {
            let kill = Self::at(causes, process, by, at)?;
            let awake = |&other: &usize| last(causes, other).is_some_and(|last| last.woken < at);
            kill.others.iter().all(awake).then_some(kill)
        })
    }

    /// Returns an `exit_group` at that time, if all other threads that lived then ended because of it. A first thread
    /// alone may only have waited for that thread's end (`pthread_join`).
    fn at(causes: &Causes<'_>, process: &[usize], by: usize, at: u64) -> Option<Self> {
        let lived = |&other: &usize| {
            let life = &causes.threads[other];
            let born = life.born.map_or(0, |(born, _)| born);
            other != by && born <= at && last(causes, other).is_none_or(|last| last.ended > at)
        };
        let others: Vec<usize> = process.iter().copied().filter(lived).collect();
        let is_first = |thread: usize| causes.threads[thread].tgid == Some(causes.threads[thread].pid);
        let joins = matches!(others[..], [other] if is_first(other));
        let ends = |&other: &usize| last(causes, other).is_some_and(|last| ends_by(causes, other, last, (by, at)));
        // The last one frees the process's memory.
        let works = |&other: &usize| {
            let life = &causes.threads[other];
            Progress::new(life).work(at, u64::MAX) > LITTLE_NS
        };
        let kills = !others.is_empty()
            && !joins
            && others.iter().all(ends)
            && others.iter().filter(|other| works(other)).count() <= 1;
        kills.then_some(Self { by, at, others })
    }
}

/// Whether a thread was killed by that thread at that time: it was awake, or woken, and did not sleep again.
fn ends_by(causes: &Causes<'_>, thread: usize, last: &Stretch, (by, at): (usize, u64)) -> bool {
    let slept = causes.threads[thread].stretches.iter().rev().nth(1).is_none_or(|before| before.ended <= at);
    last.woken < at || (last.waker == Waker::Thread(by) && (slept || last.early))
}
