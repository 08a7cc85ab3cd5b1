//! Pools: tasks that take their work from one queue. A task with more of a CPU does more of it.
//!
//! The workers of a pool of processes and the threads of a Go program are such tasks. A trace shows how much each did.
//! It does not show what the task would have done with more or less of a CPU, because a queue in memory leaves no
//! event. But the trace shows when a member slept. A member that sleeps found the queue empty: the work that had been
//! asked for was done or taken. So in a replay with pools, a member sleeps when the pool as a whole has done what it
//! had done by then in the recording. Until it has, the member helps the others ([`Op::PoolHelp`]).
//!
//! A thread that would be a member, but does most of its work when a timer wakes it, does not work for the pool. It
//! looks after it: the monitor of the Go runtime is such a thread. Such an *attendant* keeps times of its own. What it
//! wakes members for depends on what the pool has done, so these members wait for the pool's progress.
//!
//! [`Op::PoolHelp`]: vruntime_workload::program::Op::PoolHelp

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::lives::{Ran, Thread};

/// The pools of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools {
    /// The pool of each thread, if it is in one.
    of: Vec<Option<usize>>,
    /// The pool that each thread looks after, if it is an attendant.
    attended: Vec<Option<usize>>,
    all: Vec<Pool>,
}

/// What members of a pool have in common: a [`family`], and a process or a parent process.
type Kin<'a> = (&'a str, Option<i32>, Option<i32>);

#[derive(Clone, Debug)]
struct Pool {
    name: String,
    /// Its members are threads of one process and of one name.
    of_threads: bool,
    done: Done,
}

impl Pools {
    /// Threads of one [`family`] and one process are a pool if `may` agrees and they wake each other or have a
    /// partner in common. Processes of one family and one parent are a pool if they have a partner in common that is
    /// none of them: a server and its client may have one name, too. Members have the same [`Wakers`]. `woken_by` has
    /// how often each thread was woken by each other. Pools that did most come first. Threads for which `timed` holds
    /// are attendants.
    pub(super) fn new(
        threads: &[Thread],
        woken_by: &[BTreeMap<usize, u64>],
        may: &dyn Fn(usize) -> bool,
        timed: &dyn Fn(usize) -> bool,
    ) -> Self {
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
            let parent = thread.ppid.or_else(forked_by).filter(|_| process.is_none());
            kin.entry((family(&thread.comm), process, parent)).or_default().push(index);
        }
        let mut partners = vec![BTreeSet::new(); threads.len()];
        for (thread, by) in woken_by.iter().enumerate().flat_map(|(thread, by)| by.keys().map(move |&by| (thread, by)))
        {
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
        let mut this = Self { of: nothing.clone(), attended: nothing, all: Vec::new() };
        let mut kin: Vec<_> = kin
            .into_iter()
            .flat_map(|(name, members)| {
                let connected = connected(&members, &partners, name.1.is_some());
                connected.into_iter().map(move |members| (name, members))
            })
            .flat_map(|(name, members)| {
                let alike = alike(&members, woken_by, &kin_of);
                alike.into_iter().map(move |members| (name, members))
            })
            .map(|(name, all)| {
                let (attendants, members) = all.into_iter().partition::<Vec<_>, _>(|&thread| timed(thread));
                (name, members, attendants)
            })
            .filter(|(_, members, _)| members.len() > 1)
            .collect();
        kin.sort_by_key(|(_, members, _)| Reverse(members.iter().map(|&member| threads[member].cpu_ns).sum::<u64>()));
        for (pool, ((family, process, _), members, attendants)) in kin.into_iter().enumerate() {
            for &attendant in &attendants {
                this.attended[attendant] = Some(pool);
            }
            for &member in &members {
                this.of[member] = Some(pool);
            }
            let first = threads[members[0]].comm.as_str();
            let alike = members.iter().all(|&member| threads[member].comm == first);
            let (name, of_threads) = (if alike { first } else { family }.to_owned(), alike && process.is_some());
            let ran = members.iter().flat_map(|&member| &threads[member].ran);
            this.all.push(Pool { name, of_threads, done: Done::new(ran) });
        }
        this
    }

    /// Those that are threads of one process: bit N is for the Nth.
    pub(super) fn of_threads(&self) -> u32 {
        let first = self.all.iter().take(32).enumerate();
        first.map(|(number, pool)| u32::from(pool.of_threads) << number).sum()
    }

    /// Leaves only the pools whose bits are set.
    pub(super) fn retain(&mut self, keep: u32) {
        for pool in self.of.iter_mut().chain(&mut self.attended) {
            *pool = pool.filter(|&pool| pool < 32 && keep >> pool & 1 == 1);
        }
    }

    /// Takes threads out of their pools.
    pub(super) fn without(&mut self, threads: &[Thread], out: &dyn Fn(usize) -> bool) {
        for (thread, pool) in self.of.iter_mut().enumerate() {
            *pool = pool.filter(|_| !out(thread));
        }
        for (number, pool) in self.all.iter_mut().enumerate() {
            let members = threads.iter().zip(&self.of).filter(|(_, of)| **of == Some(number));
            pool.done = Done::new(members.flat_map(|(thread, _)| &thread.ran));
        }
    }

    /// Whether two threads are in one pool.
    pub(super) fn are_mates(&self, one: usize, other: usize) -> bool {
        self.of(one).is_some_and(|pool| self.of(other) == Some(pool))
    }

    /// Whether a thread looks after the pool of another.
    pub(super) fn attends(&self, attendant: usize, member: usize) -> bool {
        let attended = self.attended.get(attendant).copied().flatten();
        attended.is_some_and(|pool| self.of(member) == Some(pool))
    }

    /// Returns the names of the pools.
    pub(super) fn names(&self) -> Vec<String> {
        self.all.iter().map(|pool| pool.name.clone()).collect()
    }

    /// Returns the pool of a thread, if it is in one.
    pub(super) fn of(&self, thread: usize) -> Option<usize> {
        self.of.get(thread).copied().flatten()
    }

    /// Returns what a pool did between two times of the recording.
    pub(super) fn work(&self, pool: usize, from: u64, until: u64) -> u64 {
        let done = &self.all[pool].done;
        done.until(until).saturating_sub(done.until(from))
    }
}

/// Returns the name of a thread without a number at its end. Java's `pool-1-thread-1` and `pool-1-thread-2` are of one
/// family.
fn family(comm: &str) -> &str {
    let family = comm.trim_end_matches(|end: char| end.is_ascii_digit());
    if family.is_empty() { comm } else { family }
}

/// The threads that wake a member of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wakers {
    /// Almost always others of its pool, or too few to tell.
    Mates,
    /// Almost always this thread, or one of its kin.
    Outside(usize),
    /// Both.
    Mixed,
}

/// Fewer wakeups do not tell who wakes a thread.
const FEWEST: u64 = 8;

/// Divides threads by their wakers, if each has wakers of one kind. In a pool, chance decides who takes which work, so
/// that all members have the same wakers. A thread that alone serves the clients, and hands work to the others, is no
/// member: JavaScript runtimes have such a thread.
fn alike(members: &[usize], woken_by: &[BTreeMap<usize, u64>], kin_of: &[Option<usize>]) -> Vec<Vec<usize>> {
    let wakers = |member: usize| {
        let mut outside: BTreeMap<usize, u64> = BTreeMap::new();
        let all: u64 = woken_by[member].values().sum();
        for (&by, &count) in woken_by[member].iter().filter(|(by, _)| members.binary_search(by).is_err()) {
            // Kin comes before threads without.
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

/// Divides threads into those that are connected by partners; and by each other, if `directly`.
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

/// How much a pool had done at each time.
#[derive(Clone, Debug, Default)]
struct Done {
    /// In order of time: when a member came onto a CPU or left it, what had been done by then, and how fast it went on.
    /// Work is in [`Done::UNIT`]ths of a nanosecond at full speed, speed in as many of full speed.
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
        let run = |since, until, work| Ran { since, until, work };
        let done = Done::new([run(10, 20, 10), run(15, 25, 5), run(30, 40, 10)].iter());
        assert_eq!([5, 10, 15, 20, 25, 30, 35, 99].map(|at| done.until(at)), [0, 0, 5, 12, 15, 15, 20, 25]);
    }
}
