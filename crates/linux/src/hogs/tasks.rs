//! What tasks may become, and for how long they have a CPU without rest.

use std::collections::BTreeSet;

use vruntime_workload::program::{Changed, Op, Policy, Repeat, Settings, Task, Workload};

use super::Machine;
use super::demand::{reserved, reserved_by};

/// The longest time on a CPU without sleep, nanoseconds. A task beyond it is a hog.
pub(super) const LONG_NS: u64 = 1_000_000_000;
/// What an operation takes that does nothing else, nanoseconds.
pub(super) const CALL_NS: u64 = 1_000;
/// What reaching a place in memory takes, nanoseconds; a byte of many takes one.
const ACCESS_NS: u64 = 10;

/// Whether a task of that policy may have a CPU for as long as it likes. Without throttling the kernel admits any
/// deadline task.
pub(super) fn is_real_time(policy: Policy) -> bool {
    match policy {
        Policy::Fifo { .. } | Policy::RoundRobin { .. } => true,
        Policy::Deadline { runtime, period, reclaim, .. } => {
            reclaim || u128::from(runtime) * 100 > u128::from(period) * 95
        }
        Policy::Other { .. } | Policy::Batch { .. } | Policy::Idle => false,
    }
}

/// What tasks may become, in [`Workload::tasks`]' order.
pub(super) struct Tasks<'a> {
    pub(super) workload: &'a Workload,
    /// The tasks that fork each task.
    forkers: Vec<BTreeSet<usize>>,
    /// Whether it may begin as a real-time task.
    begins: Vec<bool>,
    /// Whether another task makes it a real-time task.
    made: Vec<bool>,
    /// The same, or a deadline task of whatever bandwidth.
    urged: Vec<bool>,
    /// What its deadline policies keep for it at most, if no policy lets it have more.
    bandwidth: Vec<Option<u64>>,
    /// The CPUs it may have at any time.
    pub(super) cpus: Vec<BTreeSet<u32>>,
    /// Mutexes whose holders may inherit a real-time priority.
    lend: BTreeSet<usize>,
}

impl<'a> Tasks<'a> {
    pub(super) fn of(workload: &'a Workload, machine: &Machine) -> Self {
        let tasks = &workload.tasks;
        let mut forkers = vec![BTreeSet::new(); tasks.len()];
        for (index, task) in tasks.iter().enumerate() {
            for op in task.phases.iter().flat_map(|phase| &phase.ops) {
                if let Op::Fork(child) = *op {
                    forkers[child].insert(index);
                }
            }
        }
        let changes = |task: usize| {
            workload.changes.iter().filter_map(move |change| match &change.what {
                Changed::Tasks { tasks, settings, .. } => tasks.contains(&task).then_some(settings),
                _ => None,
            })
        };
        let real_time = |settings: &Settings| settings.policy.is_some_and(is_real_time);
        let made: Vec<bool> = (0..tasks.len()).map(|task| changes(task).any(real_time)).collect();
        let urged = (0..tasks.len()).map(|task| made[task] || changes(task).any(|it| reserved_by(it).is_some()));
        let urged: Vec<bool> = urged.collect();
        let mut begins = vec![false; tasks.len()];
        let mut cpus = vec![BTreeSet::new(); tasks.len()];
        for (index, task) in tasks.iter().enumerate() {
            begins[index] = task.settings.policy.map_or(task.start.is_some() && machine.real_time, is_real_time);
            let named = task.phases.iter().map(|phase| &phase.settings).chain([&task.settings]).chain(changes(index));
            let named = named.filter_map(|settings| settings.cpus.as_ref()).flatten();
            cpus[index].extend(named.filter(|cpu| machine.online.contains(cpu)));
            if task.start.is_some() && task.settings.cpus.is_none() || cpus[index].is_empty() {
                cpus[index].extend(&machine.allowed);
            }
        }
        let lend = BTreeSet::new();
        let bandwidth = vec![None; tasks.len()];
        let mut this = Self { workload, forkers, begins, made, urged, bandwidth, cpus, lend };
        this.inherit();
        this.lend();
        let kept = |(index, task): (usize, &Task)| {
            let own = task.phases.iter().map(|phase| &phase.settings).chain([&task.settings]);
            let kept = own.filter_map(reserved_by).chain(changes(index).filter_map(reserved_by)).max();
            if this.ever(index) { None } else { kept }
        };
        this.bandwidth = tasks.iter().enumerate().map(kept).collect();
        this
    }

    /// Whether it may start with a policy above the ordinary ones.
    pub(super) fn begins(&self, task: usize) -> bool {
        self.begins[task] || self.workload.tasks[task].settings.policy.and_then(reserved).is_some()
    }

    /// Whether another task may make it urgent.
    pub(super) fn urged(&self, task: usize) -> bool {
        self.urged[task]
    }

    /// Whether the holder of that mutex may inherit the priority of a real-time waiter.
    pub(super) fn lends(&self, mutex: usize) -> bool {
        self.lend.contains(&mutex)
    }

    /// What it has at most where only deadline policies make it urgent, parts of [`super::demand::WHOLE`].
    pub(super) fn bandwidth(&self, task: usize) -> Option<u64> {
        self.bandwidth[task]
    }

    /// Whether it may be a real-time task at any time.
    fn ever(&self, task: usize) -> bool {
        let phases = || self.workload.tasks[task].phases.iter();
        self.begins[task]
            || self.made[task]
            || phases().any(|phase| phase.settings.policy.is_some_and(is_real_time))
            || phases()
                .flat_map(|phase| &phase.ops)
                .any(|op| matches!(op, Op::Lock(mutex) if self.lend.contains(mutex)))
    }

    /// Forked threads are as their forkers are, but for what they say themselves.
    fn inherit(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for (index, task) in self.workload.tasks.iter().enumerate() {
                for forker in self.forkers[index].clone() {
                    if !self.begins[index] && task.settings.policy.is_none() && self.ever(forker) {
                        (self.begins[index], changed) = (true, true);
                    }
                    if task.settings.cpus.is_none() && !self.cpus[index].is_superset(&self.cpus[forker]) {
                        let more = self.cpus[forker].clone();
                        self.cpus[index].extend(more);
                        changed = true;
                    }
                }
            }
        }
    }

    /// Marks the holders of mutexes with inheritance that a real-time task wants as real-time tasks, along the whole
    /// chain.
    fn lend(&mut self) {
        loop {
            let before = self.lend.len();
            for task in (0..self.workload.tasks.len()).filter(|&task| self.ever(task)).collect::<Vec<_>>() {
                let locks = self.workload.tasks[task].phases.iter().flat_map(|phase| &phase.ops);
                self.lend.extend(locks.filter_map(|op| match *op {
                    Op::Lock(mutex) => self.workload.mutexes[mutex].priority_inheritance.then_some(mutex),
                    _ => None,
                }));
            }
            if self.lend.len() == before {
                return;
            }
        }
    }

    /// How many there may be of each, `most` at most.
    pub(super) fn instances(&self, most: u64) -> Vec<u64> {
        let tasks = &self.workload.tasks;
        let begun: Vec<u64> = tasks.iter().map(|task| u64::from(task.start.is_some()).min(most)).collect();
        let mut count = begun.clone();
        loop {
            let mut next = begun.clone();
            for (forker, task) in tasks.iter().enumerate().filter(|&(forker, _)| count[forker] > 0) {
                for phase in task.phases.iter() {
                    let rounds = times(task.repeat).saturating_mul(times(phase.repeat)).saturating_mul(count[forker]);
                    for op in &phase.ops {
                        if let Op::Fork(child) = *op {
                            next[child] = next[child].saturating_add(rounds).min(most);
                        }
                    }
                }
            }
            if next == count {
                return count;
            }
            count = next;
        }
    }

    /// Real-time tasks that go on for long without rest.
    pub(super) fn hogs(&self) -> Vec<usize> {
        // All are taken for such who never rest, until it is found that they do.
        let mut restless: Vec<bool> = (0..self.workload.tasks.len()).map(|task| self.ever(task)).collect();
        loop {
            let wakers = Wakers::of(self.workload, &restless);
            let next: Vec<bool> = (0..restless.len())
                .map(|task| {
                    // Who forks without rest has one child after the other at work.
                    let heirs = || self.forkers[task].iter().any(|&forker| restless[forker]);
                    restless[task] && (self.longest(task, &wakers) > LONG_NS || heirs())
                })
                .collect();
            if next == restless {
                return (0..restless.len()).filter(|&task| restless[task]).collect();
            }
            restless = next;
        }
    }

    /// The longest stretch without rest, nanoseconds.
    fn longest(&self, index: usize, wakers: &Wakers) -> u64 {
        let task = &self.workload.tasks[index];
        let mut walk = Walk { real_time: self.begins[index], ..Walk::default() };
        walk.repeated(task.repeat, &mut |walk| {
            for phase in task.phases.iter() {
                if let Some(policy) = phase.settings.policy {
                    walk.real_time = is_real_time(policy);
                }
                let again = task.repeat != Repeat::Times(1) || phase.repeat != Repeat::Times(1);
                walk.repeated(phase.repeat, &mut |walk| {
                    for op in &phase.ops {
                        match *op {
                            Op::Lock(mutex) if self.lend.contains(&mutex) => walk.held += 1,
                            Op::Unlock(mutex) if self.lend.contains(&mutex) => walk.held = walk.held.saturating_sub(1),
                            _ => {}
                        }
                        let real_time = walk.real_time || walk.held > 0 || self.made[index];
                        walk.op(op, real_time, again, wakers);
                    }
                });
            }
        });
        walk.longest.max(walk.busy)
    }
}

pub(super) fn times(repeat: Repeat) -> u64 {
    match repeat {
        Repeat::Forever => u64::MAX,
        Repeat::Times(times) => times,
    }
}

/// What each wait is ended by.
struct Wakers {
    /// Whether a task that never sleeps wakes its waiters.
    conditions: Vec<bool>,
    semaphores: Vec<bool>,
    /// Whether one reads it, and writes to it.
    read: Vec<bool>,
    written: Vec<bool>,
    /// Whether none of its tasks ever sleeps.
    barriers: Vec<bool>,
}

impl Wakers {
    fn of(workload: &Workload, restless: &[bool]) -> Self {
        let pipes = workload.pipes.len();
        let mut this = Self {
            conditions: vec![false; workload.conditions.len()],
            semaphores: vec![false; workload.semaphores.len()],
            read: vec![false; pipes],
            written: vec![false; pipes],
            barriers: vec![true; workload.barriers.len()],
        };
        for (task, &restless) in workload.tasks.iter().zip(restless) {
            for op in task.phases.iter().flat_map(|phase| &phase.ops) {
                match *op {
                    Op::Signal(condition)
                    | Op::Broadcast(condition)
                    | Op::Sync { condition, .. }
                    | Op::Resume { condition, .. } => this.conditions[condition] |= restless,
                    Op::SemPost(semaphore) | Op::SemMove { to: semaphore, .. } => {
                        this.semaphores[semaphore] |= restless;
                    }
                    Op::PipeRead { pipe, .. } => this.read[pipe] |= restless,
                    Op::PipeWrite { pipe, .. } => this.written[pipe] |= restless,
                    Op::Barrier(barrier) => this.barriers[barrier] &= restless,
                    _ => {}
                }
            }
        }
        this
    }
}

/// A walk through a program.
#[derive(Default)]
struct Walk {
    /// Whether its policy is a real-time one.
    real_time: bool,
    /// Mutexes it holds with which it may inherit one.
    held: u32,
    /// Nanoseconds since the last rest.
    busy: u64,
    /// The longest stretch so far.
    longest: u64,
    rests: u64,
}

impl Walk {
    /// Walks through a loop twice, which shows the effect of every further round.
    fn repeated(&mut self, repeat: Repeat, body: &mut dyn FnMut(&mut Self)) {
        let rounds = times(repeat);
        for _ in 0..rounds.min(1) {
            body(self);
        }
        if rounds < 2 {
            return;
        }
        let (busy, rests) = (self.busy, self.rests);
        body(self);
        if self.rests == rests {
            let each = self.busy.saturating_sub(busy).max(u64::from(repeat == Repeat::Forever));
            self.busy = self.busy.saturating_add(each.saturating_mul(rounds - 2));
        }
    }

    /// One operation. `again`: it is in a loop.
    fn op(&mut self, op: &Op, real_time: bool, again: bool, wakers: &Wakers) {
        let takes = takes(op);
        let rests = match *op {
            Op::Sleep { time } | Op::Device { time } => time > 0,
            // The second time it is over.
            Op::SleepUntil { .. } => !again,
            Op::Timer { period, .. } => self.busy < period,
            Op::Wait { condition, .. } | Op::Sync { condition, .. } | Op::Suspend { condition, .. } => {
                !wakers.conditions[condition]
            }
            Op::SemWait(semaphore) => !wakers.semaphores[semaphore],
            Op::Barrier(barrier) => !wakers.barriers[barrier],
            Op::PipeRead { pipe, .. } => !wakers.written[pipe],
            Op::PipeWrite { pipe, .. } => !wakers.read[pipe],
            _ => false,
        };
        // What is no real-time task gives way to others by itself, if it does anything.
        let rests = rests || !real_time && takes > 0;
        if real_time {
            self.busy = self.busy.saturating_add(takes.max(CALL_NS));
            self.longest = self.longest.max(self.busy);
        }
        if rests {
            self.busy = 0;
            self.rests += 1;
        }
    }
}

/// What an operation computes, nanoseconds.
pub(super) fn takes(op: &Op) -> u64 {
    match *op {
        Op::Run { work } => work,
        Op::Runtime { time } => time,
        Op::Mem { bytes } | Op::Io { bytes } => bytes,
        Op::MemRun(ref run) => run.count.saturating_mul(ACCESS_NS),
        // The task that ends the wait may have no CPU.
        Op::SpinWait { .. } | Op::SpinBarrier(_) => LONG_NS + 1,
        _ => 0,
    }
}
