//! Locks, as far as a recording shows waits for them.
//!
//! A member of a pool that another wakes waited for work or for a lock. It was a lock if the waker lacked a CPU most of
//! that time, and did little otherwise. So the waker was preempted while it held the lock. Only the scheduler causes
//! such a wait. In a replay, the waker holds a mutex for the same piece of work, and the other takes it where it slept.
//! It sleeps only while the mutex is held.

mod exclusive;
mod regular;

use std::collections::{BTreeMap, BTreeSet};

use vruntime_workload::program::Op;

use super::causes::{Cause, Causes};
use super::pools::Pools;
use super::progress::Progress;
use super::threads::{Act, End, Stretch, Thread};

/// The most work in a critical section.
const SHORT_NS: u64 = 100_000;
/// An act at most this much work before the loss of the CPU was inside the section.
const JUST_BEFORE_NS: u64 = 20_000;

/// Fewer sections show no habit.
const FEWEST: usize = 8;

/// A part of a stretch in which a thread holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// The stretch's work before it takes the lock, nanoseconds. 0: it waited for the lock, and has it.
    pub(super) from: u64,
    /// The stretch's work before the release.
    pub(super) until: u64,
    /// The lock's index in [`Locks::names`].
    pub(super) lock: usize,
}

/// A wait for a lock that ends in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Try {
    /// The lock's index in [`Locks::names`].
    pub(super) lock: usize,
    /// Whether a timer ends it. Otherwise its owner does, and keeps the lock.
    pub(super) timed: bool,
}

/// The locks of all pools.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    /// The lock for which a thread waits before a stretch.
    waits: BTreeMap<(usize, usize), usize>,
    /// The sections of a thread's stretch, in order.
    sections: BTreeMap<(usize, usize), Vec<Section>>,
    /// Waits after which a thread found the lock taken, and slept again.
    in_vain: BTreeSet<(usize, usize)>,
    /// The [`exclusive`] lock for which a thread waits before a stretch, until it looks for it again in any case.
    tries: BTreeMap<(usize, usize), Try>,
    /// Threads that lock in every round ([`regular`]), or whenever they work ([`exclusive`]).
    always: BTreeSet<usize>,
    pub(super) names: Vec<String>,
    /// The [`exclusive`] locks.
    exclusive: BTreeSet<usize>,
}

/// A sleep that another member of the pool ended.
struct Wait {
    from: u64,
    until: u64,
    thread: usize,
    stretch: usize,
    by: usize,
}

/// A lock with its holders, while locks are distinguished.
struct Lock {
    number: usize,
    times: Vec<(u64, u64, usize)>,
    /// The thread that members wake only under it.
    guards: Option<usize>,
}

/// A wait for a lock, and its holder's acts meanwhile.
struct Hit {
    wait: Wait,
    at: usize,
    section: Section,
    /// When the holder got the lock.
    since: u64,
    /// Whether the holder had waited for it, too.
    inherited: bool,
    /// Whether the holder had lost its CPU when the other went to sleep.
    lost_cpu: bool,
}

impl Locks {
    /// Finds the locks for which pool members waited. Takes pools with a [`regular`] lock, or an [`exclusive`]
    /// one, out of `pools`.
    pub(super) fn new(causes: &Causes<'_>, pools: &mut Pools) -> Self {
        let mut this = Self::of_preempted_holders(causes, pools);
        this.add_exclusive(causes, pools);
        this.add_regular(causes, pools);
        this
    }

    fn of_preempted_holders(causes: &Causes<'_>, pools: &Pools) -> Self {
        let hits = hits(causes, pools);
        let mut this = Self::default();
        let mut of_pool: BTreeMap<usize, Vec<Lock>> = BTreeMap::new();
        let names = pools.names_of_all();
        let guarded = guarded(causes.threads, pools, &hits);
        for &(pool, woken) in guarded.keys() {
            let all = of_pool.entry(pool).or_default();
            all.push(Lock { number: this.names.len(), times: Vec::new(), guards: Some(woken) });
            this.names.push(format!("{} {}", names[pool], all.len() - 1));
        }
        for Hit { wait, at, section, since, inherited, .. } in &hits {
            let Some(pool) = pools.of(wait.by) else { continue };
            let stretch = &causes.threads[wait.by].stretches[*at];
            let own = inherited.then(|| this.waits.get(&(wait.by, *at)).copied()).flatten();
            let all = of_pool.entry(pool).or_default();
            let guard = all.iter().position(|one| one.guards.is_some_and(|woken| wakes(stretch, woken, section)));
            let sections = this.sections.entry((wait.by, *at)).or_default();
            let number = match sections.last_mut() {
                // It holds one lock at a time, so that no two tasks wait for each other.
                Some(last) if section.from <= last.until => {
                    last.until = last.until.max(section.until);
                    last.lock
                }
                _ => {
                    let lock = own.or(guard.map(|guard| all[guard].number)).unwrap_or_else(|| {
                        let free = all.iter().find(|one| one.guards.is_none() && one.is_free(wait.by, *since));
                        free.map_or(this.names.len(), |one| one.number)
                    });
                    if lock == this.names.len() {
                        this.names.push(format!("{} {}", names[pool], all.len()));
                        all.push(Lock { number: lock, times: Vec::new(), guards: None });
                    }
                    sections.push(Section { lock, ..*section });
                    lock
                }
            };
            if let Some(lock) = all.iter_mut().find(|one| one.number == number) {
                lock.times.push((*since, wait.until, wait.by));
            }
            this.waits.insert((wait.thread, wait.stretch), number);
        }
        for ((pool, woken), after) in guarded {
            let lock = of_pool[&pool].iter().find(|one| one.guards == Some(woken)).map(|one| one.number);
            let members = (0..causes.threads.len()).filter(|&thread| pools.of(thread) == Some(pool));
            for (member, lock) in members.filter_map(|member| Some((member, lock?))) {
                this.guard(causes.threads, member, woken, after, lock);
            }
        }
        this
    }

    /// Makes members hold the lock when they wake `woken`, and for `after` of their work afterwards.
    fn guard(&mut self, threads: &[Thread], member: usize, woken: usize, after: u64, lock: usize) {
        for (index, stretch) in threads[member].stretches.iter().enumerate() {
            let acts =
                stretch.acts.iter().filter(|(_, act)| matches!(act, Act::Wake { thread, .. } if *thread == woken));
            let acts: Vec<u64> = acts.map(|(at, _)| *at).collect();
            if acts.is_empty() {
                continue;
            }
            let waited = self.waits.get(&(member, index)) == Some(&lock);
            let sections = self.sections.entry((member, index)).or_default();
            for at in acts {
                let place = sections.partition_point(|section| section.from <= at);
                if place > 0 && sections[place - 1].until >= at {
                    continue;
                }
                let next = sections.get(place).map_or(stretch.work, |next| next.from.saturating_sub(1)).max(at);
                let section = Section { from: at, until: (at + after).min(next), lock };
                if !sleeps_inside(stretch, &section) {
                    sections.insert(place, section);
                }
            }
            // A thread that waited for the lock has it until then.
            if let Some(first) =
                sections.first_mut().filter(|first| waited && first.lock == lock && first.from <= SHORT_NS)
            {
                first.from = 0;
            }
        }
    }

    /// Returns the number of waits for locks.
    pub(super) fn waits(&self) -> usize {
        self.waits.len()
    }

    /// Returns the number of each pool's waits for locks.
    pub(super) fn waits_of_pools(&self, pools: &Pools) -> BTreeMap<usize, usize> {
        let mut waits = BTreeMap::new();
        for pool in self.waits.keys().filter_map(|&(thread, _)| pools.of(thread)) {
            *waits.entry(pool).or_default() += 1;
        }
        waits
    }

    /// Returns the lock for which a thread waits before that stretch, and whether it keeps it afterwards.
    pub(super) fn wait(&self, thread: usize, stretch: usize) -> Option<(usize, bool)> {
        let &lock = self.waits.get(&(thread, stretch))?;
        let keeps = self.sections(thread, stretch).first().is_some_and(|first| first.from == 0 && first.lock == lock);
        Some((lock, keeps))
    }

    /// Whether a thread found the lock taken after that wait, and slept again.
    pub(super) fn is_in_vain(&self, thread: usize, stretch: usize) -> bool {
        self.in_vain.contains(&(thread, stretch))
    }

    /// Returns the lock for which a thread waits before that stretch, until it looks for it again in any case.
    pub(super) fn try_before(&self, thread: usize, stretch: usize) -> Option<Try> {
        self.tries.get(&(thread, stretch)).copied()
    }

    /// Returns how a thread takes a lock. After a [try](Self::try_before) it may have it.
    pub(super) fn take(&self, mutex: usize) -> Op {
        if self.hands_over(mutex) { Op::EnsureLock(mutex) } else { Op::Lock(mutex) }
    }

    /// Whether a lock is handed to the longest waiter. Otherwise a thread that looks for it again at once has it.
    pub(super) fn hands_over(&self, lock: usize) -> bool {
        self.exclusive.contains(&lock)
    }

    /// Whether a thread locks in every round ([`regular`]), or whenever it works ([`exclusive`]).
    pub(super) fn locks_always(&self, thread: usize) -> bool {
        self.always.contains(&thread)
    }

    /// As [`Self::edges`], for a stretch that is repeated after that much of its work.
    pub(super) fn edges_after(&self, thread: usize, stretch: usize, work: u64) -> Edges<'_> {
        let sections = if self.locks_always(thread) { self.sections(thread, stretch) } else { &[] };
        Edges { locks: self, rest: &sections[sections.partition_point(|section| section.from < work)..], inside: false }
    }

    /// Returns where a thread takes and releases locks in that stretch.
    pub(super) fn edges(&self, thread: usize, stretch: usize) -> Edges<'_> {
        let inside = self.wait(thread, stretch).is_some_and(|(_, keeps)| keeps);
        Edges { locks: self, rest: self.sections(thread, stretch), inside }
    }

    /// Returns a stretch's sections, in order.
    fn sections(&self, thread: usize, stretch: usize) -> &[Section] {
        self.sections.get(&(thread, stretch)).map_or(&[], Vec::as_slice)
    }
}

/// Where a thread takes and releases locks in a stretch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edges<'a> {
    locks: &'a Locks,
    rest: &'a [Section],
    inside: bool,
}

impl Edges<'_> {
    /// Whether the thread holds a lock.
    pub(super) fn inside(&self) -> bool {
        self.inside
    }

    /// Returns the next lock or unlock before the thread's act after `at` of its work, and its own place. Locking
    /// precedes that act, a release follows it.
    pub(super) fn next(&mut self, at: u64) -> Option<(u64, Op)> {
        let (now, rest) = self.rest.split_first()?;
        if !self.inside && now.from <= at {
            self.inside = true;
            return Some((now.from, self.locks.take(now.lock)));
        }
        if self.inside && now.until < at {
            (self.inside, self.rest) = (false, rest);
            return Some((now.until, Op::Unlock(now.lock)));
        }
        None
    }
}

impl Lock {
    /// Whether only `by` has held it since that time.
    fn is_free(&self, by: usize, since: u64) -> bool {
        self.times.iter().rev().take_while(|one| one.1 > since).all(|one| one.2 == by)
    }
}

/// Whether a section wakes `woken`.
fn wakes(stretch: &Stretch, woken: usize, section: &Section) -> bool {
    let within = stretch.acts.iter().filter(|(at, _)| (section.from..=section.until).contains(at));
    within.map(|(_, act)| act).any(|act| matches!(act, Act::Wake { thread, .. } if *thread == woken))
}

/// Whether a thread sleeps in that section, if it sleeps where it [would have](Act::Awaits). Two tasks could then wait
/// for each other.
fn sleeps_inside(stretch: &Stretch, section: &Section) -> bool {
    let within = stretch.acts.iter().filter(|(at, _)| (section.from..=section.until).contains(at));
    within.map(|(_, act)| act).any(|act| matches!(act, Act::Awaits { .. }))
}

/// Returns threads outside a pool that its members wake under a lock, and the work until its release. In most sections
/// whose holder lost its CPU, it had just woken such a thread.
fn guarded(threads: &[Thread], pools: &Pools, hits: &[Hit]) -> BTreeMap<(usize, usize), u64> {
    let mut all: BTreeMap<usize, usize> = BTreeMap::new();
    let mut after: BTreeMap<(usize, usize), Vec<u64>> = BTreeMap::new();
    for hit in hits.iter().filter(|hit| hit.lost_cpu && !hit.inherited) {
        let Some(pool) = pools.of(hit.wait.by) else { continue };
        *all.entry(pool).or_default() += 1;
        let Section { from, until, .. } = hit.section;
        let last = threads[hit.wait.by].stretches[hit.at].acts.iter().rev().find_map(|&(at, act)| match act {
            Act::Wake { thread, .. } if (from..=until).contains(&at) && pools.of(thread) != Some(pool) => {
                Some((thread, until - at))
            }
            _ => None,
        });
        if let Some((woken, work)) = last {
            after.entry((pool, woken)).or_default().push(work);
        }
    }
    let most = |(pool, _): &(usize, usize), times: &Vec<u64>| times.len() >= FEWEST && times.len() * 2 > all[pool];
    after.retain(|key, times| most(key, times));
    let middle = |mut times: Vec<u64>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    after.into_iter().map(|(key, times)| (key, middle(times))).collect()
}

/// Returns pool members' waits for locks.
fn hits(causes: &Causes<'_>, pools: &Pools) -> Vec<Hit> {
    let mut found: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut progress: BTreeMap<usize, Progress> = BTreeMap::new();
    let mut hits = Vec::new();
    for wait in waits(causes, pools) {
        let holder = &causes.threads[wait.by];
        let Some(at) = holder.stretches.partition_point(|stretch| stretch.woken <= wait.until).checked_sub(1) else {
            continue;
        };
        let stretch = &holder.stretches[at];
        // A thread that waited for the lock itself has held it since it was woken.
        let inherited = stretch.woken > wait.from && found.contains(&(wait.by, at));
        let since = if inherited { stretch.woken } else { wait.from };
        if stretch.woken > since || stretch.ended < wait.until || (!inherited && stretch.began >= since) {
            continue;
        }
        let progress = progress.entry(wait.by).or_insert_with(|| Progress::new(holder));
        let ran = progress.ran(since, wait.until);
        let lost = (wait.until - since).saturating_sub(ran);
        if ran > SHORT_NS || (!inherited && lost < ran) {
            continue;
        }
        let Some(until) = release(stretch, wait.thread, wait.stretch) else { continue };
        let lost_cpu = progress.is_off(since);
        let from =
            if inherited { 0 } else { begins(stretch, progress.work(stretch.began, since).min(until), lost_cpu) };
        let section = Section { from, until, lock: 0 };
        if sleeps_inside(stretch, &section) {
            continue;
        }
        found.insert((wait.thread, wait.stretch));
        hits.push(Hit { wait, at, section, since, inherited, lost_cpu });
    }
    hits
}

/// Returns the sleeps that members of the same pool ended, by their ends.
fn waits(causes: &Causes<'_>, pools: &Pools) -> Vec<Wait> {
    let mut all = Vec::new();
    for (thread, life) in causes.threads.iter().enumerate().filter(|(thread, _)| pools.of(*thread).is_some()) {
        for (before, stretch) in life.stretches.iter().zip(1..life.stretches.len()) {
            if let Cause::Thread(by) = causes.of(thread, stretch)
                && before.end == End::Sleep
                && pools.are_mates(by, thread)
            {
                let until = life.stretches[stretch].woken;
                all.push(Wait { from: before.ended.min(until), until, thread, stretch, by });
            }
        }
    }
    all.sort_unstable_by_key(|wait| (wait.until, wait.thread));
    all
}

/// Returns a thread's work before it wakes another for that stretch.
fn release(holder: &Stretch, thread: usize, stretch: usize) -> Option<u64> {
    let wakes = |act: Act| act == Act::Wake { thread, stretch };
    holder.acts.iter().rev().find(|(_, act)| wakes(*act)).map(|(at, _)| *at)
}

/// Returns the work before the holder took the lock: `at`, or just before its last act if it had lost its CPU.
fn begins(holder: &Stretch, at: u64, lost_cpu: bool) -> u64 {
    let acts = holder
        .acts
        .iter()
        .map(|(act, _)| *act)
        .filter(|act| lost_cpu && (at.saturating_sub(JUST_BEFORE_NS)..=at).contains(act));
    acts.min().unwrap_or(at)
}
