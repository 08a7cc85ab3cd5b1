//! Pools: tasks that take work from one queue. A task with more CPU does more of it.
//!
//! Workers of a process pool and threads of a Go program are such tasks. A trace shows how much each did. It does not
//! show what a task would have done with another share of CPU: a queue in memory leaves no event. But a member that
//! sleeps found the queue empty: the requested work was done or taken. So in a replay with pools, a member sleeps when
//! its pool has done as much as by then in the recording. Until then, it helps the others ([`Op::PoolHelp`]).
//!
//! In a process that ends, threads such as those of `sort` wake each other, and have shares of their own. If members
//! often nap while others work, they look for work that these may have, as threads of a Go program do.
//!
//! A thread that works mostly when timers wake it is no member if it sleeps longer for them than it works. It is an
//! *attendant*, such as the Go runtime's monitor, and keeps its own times. Why it wakes members depends on the pool's
//! work, so these wait for the pool's progress.
//!
//! [`Op::PoolHelp`]: vruntime_workload::program::Op::PoolHelp

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::Arc;

use super::sessions::is_kernel_thread;
use super::threads::{Ran, Thread};

/// The pools of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools {
    /// Each thread's pool. None: it has none.
    of: Vec<Option<usize>>,
    /// The pool that each attendant looks after.
    attended: Vec<Option<usize>>,
    all: Vec<Pool>,
    /// Each pool's kind.
    kinds: Vec<usize>,
}

/// Which threads a pool may have.
pub(super) struct Candidates<'a> {
    /// Whether a pool may have a thread.
    pub(super) may: &'a dyn Fn(usize) -> bool,
    /// Whether a thread's process ended in the recording.
    pub(super) ends: &'a dyn Fn(usize) -> bool,
    /// Whether a thread is an attendant, if its process has a pool.
    pub(super) attends: &'a dyn Fn(usize) -> bool,
    /// Counts the naps of a thread that looks for work.
    pub(super) naps: &'a dyn Fn(usize) -> u64,
}

/// What a pool's members share: a [`family`], and a process or a parent process.
type Kin<'a> = (&'a str, Option<i32>, Option<i32>);

#[derive(Clone, Debug)]
struct Pool {
    name: String,
    /// Whether its members have one name, and wake each other.
    alike: bool,
    /// Whether they are threads of one process.
    of_threads: bool,
    /// Whether the process ended in the recording.
    ends: bool,
    done: Arc<Done>,
}

impl Pools {
    /// Finds pools. Threads of one [`family`] and process are a pool if they wake each other or share a partner.
    /// Processes of one family and parent need a common partner outside, since a server and its client may share a
    /// name. Members have the same [`Wakers`]. Threads of a process that ended in the recording need to look for work
    /// instead. `woken_by` counts each thread's wakeups by each other. The busiest kinds of pools are first.
    pub(super) fn new(threads: &[Thread], woken_by: &[BTreeMap<usize, u64>], candidates: &Candidates<'_>) -> Self {
        let Candidates { may, ends, attends, naps } = candidates;
        let mut kin: BTreeMap<Kin<'_>, Vec<usize>> = BTreeMap::new();
        let mut in_process: BTreeMap<(&str, i32), usize> = BTreeMap::new();
        for thread in threads {
            if let Some(tgid) = thread.tgid {
                *in_process.entry((family(&thread.comm), tgid)).or_default() += 1;
            }
        }
        for (index, thread) in threads.iter().enumerate().filter(|(index, _)| may(*index)) {
            let process =
                thread.tgid.filter(|&tgid| in_process.get(&(family(&thread.comm), tgid)).is_some_and(|&all| all > 1));
            let forked_by = || {
                let parent = &threads[thread.born?.1?];
                Some(parent.tgid.unwrap_or(parent.pid))
            };
            if process.is_none() && ends(index) {
                continue;
            }
            let parent = thread.ppid.or_else(forked_by).filter(|_| process.is_none());
            kin.entry((family(&thread.comm), process, parent)).or_default().push(index);
        }
        let mut partners = vec![BTreeSet::new(); threads.len()];
        let wakes = woken_by.iter().enumerate().flat_map(|(thread, by)| by.keys().map(move |&by| (thread, by)));
        // A kernel thread such as `ksoftirqd` gives two threads no common work.
        let works = |thread: usize| !is_kernel_thread(&threads[thread].comm);
        for (thread, by) in wakes.filter(|&(thread, by)| works(thread) && works(by)) {
            partners[by].insert(thread);
            partners[thread].insert(by);
        }
        let mut kin_of = vec![None; threads.len()];
        for (number, members) in kin.values().enumerate() {
            for &member in members {
                kin_of[member] = Some(number);
            }
        }
        let nothing = vec![None; threads.len()];
        let mut this = Self { of: nothing.clone(), attended: nothing, ..Self::default() };
        let mut kin: Vec<_> = kin
            .into_iter()
            .flat_map(|(name, members)| {
                // A short life has few wakeups.
                let groups = if ends(members[0]) {
                    vec![members]
                } else {
                    let connected = connected(&members, &partners, name.1.is_some());
                    connected.iter().flat_map(|members| alike(members, woken_by, &kin_of)).collect()
                };
                groups.into_iter().map(move |members| (name, members))
            })
            .map(|(name, all)| {
                let (attendants, members) = all.into_iter().partition::<Vec<_>, _>(|&thread| attends(thread));
                (name, members, attendants)
            })
            .filter(|(_, members, _)| members.len() > 1)
            .collect();
        let mut looks: BTreeMap<&str, u64> = BTreeMap::new();
        for ((family, ..), members, _) in kin.iter().filter(|(_, members, _)| ends(members[0])) {
            *looks.entry(*family).or_default() += members.iter().map(|&member| naps(member)).sum::<u64>();
        }
        kin.retain(|((family, ..), members, _)| !ends(members[0]) || looks[family] >= FEWEST_LOOKS);
        // Pools of processes that end are of one kind if they have one name.
        let kind = |pool: usize, family, members: &[usize]| (family, (!ends(members[0])).then_some(pool));
        let cpu_ns = |members: &[usize]| members.iter().map(|&member| threads[member].cpu_ns).sum::<u64>();
        let mut busy: BTreeMap<_, u64> = BTreeMap::new();
        for (pool, ((family, ..), members, _)) in kin.iter().enumerate() {
            *busy.entry(kind(pool, *family, members)).or_default() += cpu_ns(members);
        }
        let mut kin: Vec<_> =
            kin.into_iter().enumerate().map(|(pool, kin)| (kind(pool, kin.0.0, &kin.1), kin)).collect();
        kin.sort_by_key(|(kind, (_, members, _))| (Reverse(busy[kind]), *kind, Reverse(cpu_ns(members))));
        for (pool, (_, ((family, process, _), members, attendants))) in kin.iter().enumerate() {
            for &attendant in attendants {
                this.attended[attendant] = Some(pool);
            }
            for &member in members {
                this.of[member] = Some(pool);
            }
            let first = threads[members[0]].comm.as_str();
            let alike = members.iter().all(|&member| threads[member].comm == first);
            let name = if alike { first } else { family }.to_owned();
            let alike = alike && wake_each_other(members, woken_by);
            let ran = members.iter().flat_map(|&member| &threads[member].ran);
            let ends = ends(members[0]);
            this.all.push(Pool { name, alike, of_threads: process.is_some(), ends, done: Arc::new(Done::new(ran)) });
        }
        let kinds = kin.chunk_by(|(one, _), (other, _)| one == other).enumerate();
        this.kinds = kinds.flat_map(|(kind, pools)| iter::repeat_n(kind, pools.len())).collect();
        this
    }

    /// Bit N: members of pools of kind N certainly share their work. They have one name and wake each other. They are
    /// threads of one process, or processes that wait for [locks](super::locks) of each other: processes share a
    /// queue's lock. A pipe or a socket has two ends, and no lock. `lock_waits`: each pool's number of waits for locks.
    pub(super) fn certain(&self, lock_waits: &BTreeMap<usize, usize>) -> u32 {
        let locks = |pool: usize| lock_waits.get(&pool).is_some_and(|&waits| waits >= FEWEST_LOCKS);
        let shares = |pool: usize| self.all[pool].alike && (self.all[pool].of_threads || locks(pool));
        let mut certain = 0;
        for kind in 0..self.names().len().min(32) {
            let pools = || (0..self.all.len()).filter(|&pool| self.kinds[pool] == kind);
            let all_share = pools().filter(|&pool| shares(pool)).count() * 2 > pools().count();
            certain |= u32::from(all_share) << kind;
        }
        certain
    }

    /// Returns the members of each pool of threads of one process and name, which wake each other.
    pub(super) fn of_threads(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (thread, pool) in self.of.iter().enumerate() {
            if let Some(pool) = pool.filter(|&pool| self.all[pool].alike && self.all[pool].of_threads) {
                members.entry(pool).or_default().push(thread);
            }
        }
        members
    }

    /// Removes pools. Those behind them move up.
    pub(super) fn remove(&mut self, gone: &BTreeSet<usize>) {
        for pool in self.of.iter_mut().chain(&mut self.attended) {
            *pool = pool.filter(|pool| !gone.contains(pool)).map(|pool| pool - gone.range(..pool).count());
        }
        let mut number = 0..;
        self.all.retain(|_| number.next().is_none_or(|number| !gone.contains(&number)));
        let mut number = 0..;
        self.kinds.retain(|_| number.next().is_none_or(|number| !gone.contains(&number)));
        let left: BTreeSet<usize> = self.kinds.iter().copied().collect();
        for kind in &mut self.kinds {
            *kind = left.range(..*kind).count();
        }
    }

    /// Keeps only pools of the kinds with set bits.
    pub(super) fn retain(&mut self, keep: u32) {
        let kinds = &self.kinds;
        for pool in self.of.iter_mut().chain(&mut self.attended) {
            *pool = pool.filter(|&pool| kinds[pool] < 32 && keep >> kinds[pool] & 1 == 1);
        }
    }

    pub(super) fn without(&mut self, threads: &[Thread], out: &dyn Fn(usize) -> bool) {
        for (thread, pool) in self.of.iter_mut().enumerate() {
            *pool = pool.filter(|_| !out(thread));
        }
        for (number, pool) in self.all.iter_mut().enumerate() {
            let members = threads.iter().zip(&self.of).filter(|(_, of)| **of == Some(number));
            pool.done = Arc::new(Done::new(members.flat_map(|(thread, _)| &thread.ran)));
        }
    }

    /// Whether one pool has both threads.
    pub(super) fn are_mates(&self, one: usize, other: usize) -> bool {
        self.of(one).is_some_and(|pool| self.of(other) == Some(pool))
    }

    /// Whether a thread looks after another's pool.
    pub(super) fn attends(&self, attendant: usize, member: usize) -> bool {
        let attended = self.attended.get(attendant).copied().flatten();
        attended.is_some_and(|pool| self.of(member) == Some(pool))
    }

    /// Whether a member that an attendant forks exists from the start, asleep. Chance decides when it is forked. In a
    /// process that ends, it is forked again with the others.
    pub(super) fn starts_asleep(&self, attendant: usize, member: usize) -> bool {
        self.attends(attendant, member) && !self.ends(member)
    }

    /// Returns each kind's name.
    pub(super) fn names(&self) -> Vec<String> {
        let firsts = self.kinds.chunk_by(|one, other| one == other).scan(0, |next, pools| {
            let first = *next;
            *next += pools.len();
            Some(first)
        });
        firsts.map(|first| self.all[first].name.clone()).collect()
    }

    /// Returns each pool's name.
    pub(super) fn names_of_all(&self) -> Vec<String> {
        self.all.iter().map(|pool| pool.name.clone()).collect()
    }

    /// Returns the kind of a thread's pool.
    pub(super) fn kind_of(&self, thread: usize) -> Option<usize> {
        self.of(thread).map(|pool| self.kinds[pool])
    }

    /// Whether the process of a pool's member ends in the recording.
    pub(super) fn ends(&self, member: usize) -> bool {
        self.of(member).is_some_and(|pool| self.all[pool].ends)
    }

    /// Returns a thread's pool.
    pub(super) fn of(&self, thread: usize) -> Option<usize> {
        self.of.get(thread).copied().flatten()
    }

    /// Returns a pool's work between two recorded times.
    pub(super) fn work(&self, pool: usize, from: u64, until: u64) -> u64 {
        let done = &self.all[pool].done;
        done.until(until).saturating_sub(done.until(from))
    }
}

/// Returns a thread's name without a final number, and without a first one before `_`. Java's `pool-1-thread-1` and
/// `pool-1-thread-2` are one family, and so are `1_scheduler` and `2_scheduler` of Erlang.
fn family(comm: &str) -> &str {
    let digit = |char: char| char.is_ascii_digit();
    let family = comm.trim_end_matches(digit);
    let family = family
        .split_once('_')
        .filter(|(first, _)| !first.is_empty() && first.chars().all(digit))
        .map_or(family, |(_, rest)| rest);
    if family.is_empty() { comm } else { family }
}

/// The wakers of a pool's member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wakers {
    /// Almost only its pool, or too few wakeups to tell.
    Mates,
    /// Almost only this thread or its kin.
    Outside(usize),
    /// Both.
    Mixed,
}

/// Fewer wakeups show no kind of wakers.
const FEWEST: u64 = 8;
/// Fewer naps show no search for work. Recordings of two Go programs in loops have 47 to 1445. Those of `sort`, `zstd`,
/// `7z`, `ffmpeg`, `javac`, Node.js and `rustc` have none.
const FEWEST_LOOKS: u64 = 8;
/// Fewer waits for locks show no shared lock. Five recordings of Python's `multiprocessing.Pool` have 154 to 256. The
/// processes of hackbench and of a Node.js cluster have none.
const FEWEST_LOCKS: usize = 8;

/// Divides threads by their wakers, if each has one kind. In a pool, chance assigns the work, so all members have the
/// same wakers. A thread that alone serves clients and delegates work is no member: JavaScript runtimes have one.
fn alike(members: &[usize], woken_by: &[BTreeMap<usize, u64>], kin_of: &[Option<usize>]) -> Vec<Vec<usize>> {
    let wakers = |member: usize| {
        let mut outside: BTreeMap<usize, u64> = BTreeMap::new();
        let all: u64 = woken_by[member].values().sum();
        for (&by, &count) in woken_by[member].iter().filter(|(by, _)| members.binary_search(by).is_err()) {
            // Kin are before threads without.
            *outside.entry(kin_of[by].unwrap_or(kin_of.len() + by)).or_default() += count;
        }
        let most = outside.iter().max_by_key(|(_, count)| **count).map(|(&kin, &count)| (kin, count));
        match most {
            _ if all < FEWEST || outside.values().sum::<u64>() * 10 <= all => Wakers::Mates,
            Some((kin, count)) if count * 10 >= all * 9 => Wakers::Outside(kin),
            _ => Wakers::Mixed,
        }
    };
    let mut groups: BTreeMap<Wakers, Vec<usize>> = BTreeMap::new();
    for &member in members {
        groups.entry(wakers(member)).or_default().push(member);
    }
    if groups.contains_key(&Wakers::Mixed) { vec![members.to_vec()] } else { groups.into_values().collect() }
}

/// Whether at least a tenth of the members' wakeups are by each other. Threads of a server that only clients wake have
/// connections of their own.
fn wake_each_other(members: &[usize], woken_by: &[BTreeMap<usize, u64>]) -> bool {
    let wakes = || members.iter().flat_map(|&member| &woken_by[member]);
    let by_mates: u64 = wakes().filter(|(by, _)| members.binary_search(by).is_ok()).map(|(_, count)| count).sum();
    by_mates * 10 >= wakes().map(|(_, count)| count).sum()
}

/// Groups threads with common partners; if `directly`, also those that are partners.
fn connected(threads: &[usize], partners: &[BTreeSet<usize>], directly: bool) -> Vec<Vec<usize>> {
    let connects = |partner: &&usize| directly || threads.binary_search(partner).is_err();
    let mut with: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &thread in threads {
        for &partner in partners[thread].iter().filter(connects).chain([&thread]) {
            with.entry(partner).or_default().push(thread);
        }
    }
    let (mut found, mut left) = (Vec::new(), threads.iter().copied().collect::<BTreeSet<_>>());
    while let Some(first) = left.pop_first() {
        let (mut members, mut asked) = (vec![first], vec![first]);
        while let Some(thread) = asked.pop() {
            for partner in partners[thread].iter().filter(connects).chain([&thread]) {
                for other in with.remove(partner).unwrap_or_default() {
                    if left.remove(&other) {
                        members.push(other);
                        asked.push(other);
                    }
                }
            }
        }
        members.sort_unstable();
        found.push(members);
    }
    found
}

/// A pool's work over time.
#[derive(Clone, Debug, Default)]
struct Done {
    /// Each arrival or departure of a member, in order: its time, the work done by then, and the new speed. Work is in
    /// [`Done::UNIT`]ths of a nanosecond at full speed, speed in as many of full speed.
    changes: Vec<(u64, u128, i64)>,
}

impl Done {
    const UNIT: u128 = 1 << 20;

    fn new<'a>(ran: impl Iterator<Item = &'a Ran>) -> Self {
        let mut speeds = Vec::new();
        for run in ran.filter(|run| run.until > run.since) {
            let speed = u128::from(run.work) * Self::UNIT / u128::from(run.until - run.since);
            let speed = i64::try_from(speed).unwrap_or(i64::MAX / 1024);
            speeds.extend([(run.since, speed), (run.until, -speed)]);
        }
        speeds.sort_unstable();
        let mut changes: Vec<(u64, u128, i64)> = Vec::with_capacity(speeds.len());
        for (at, change) in speeds {
            match changes.last_mut() {
                Some(last) if last.0 == at => last.2 = last.2.saturating_add(change),
                Some(&mut last) => changes.push((at, Self::after(last, at), last.2.saturating_add(change))),
                None => changes.push((at, 0, change)),
            }
        }
        Self { changes }
    }

    fn after((since, done, speed): (u64, u128, i64), at: u64) -> u128 {
        done + u128::from(at - since) * u128::from(speed.max(0).unsigned_abs())
    }

    fn until(&self, at: u64) -> u64 {
        let next = self.changes.partition_point(|change| change.0 <= at);
        let done = next.checked_sub(1).map_or(0, |last| Self::after(self.changes[last], at));
        u64::try_from(done / Self::UNIT).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_summed_over_members() {
        let run = |since, until, work| Ran { since, until, work, cpu: 0 };
        let done = Done::new([run(10, 20, 10), run(15, 25, 5), run(30, 40, 10)].iter());
        assert_eq!([5, 10, 15, 20, 25, 30, 35, 99].map(|at| done.until(at)), [0, 0, 5, 12, 15, 15, 20, 25]);
    }
}
