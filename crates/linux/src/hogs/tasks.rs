//! What tasks may become, and how long they run without sleep.

use std::collections::BTreeSet;

use vruntime_workload::program::{Changed, Op, Policy, Repeat, Settings, Task, Workload};

use super::Machine;
use super::demand::{reserved, reserved_by};

/// Longest sleepless CPU time, nanoseconds; hogs exceed it.
pub(super) const LONG_NS: u64 = 1_000_000_000;
/// Cost of any operation, nanoseconds.
pub(super) const CALL_NS: u64 = 1_000;
/// Cost of a memory access, nanoseconds; each byte of many costs one.
const ACCESS_NS: u64 = 10;

/// Whether the policy may keep a CPU. Without throttling kernels admit any deadline task.
pub(super) fn is_real_time(policy: Policy) -> bool {
    match policy {
        Policy::Fifo { .. } | Policy::RoundRobin { .. } => true,
        Policy::Deadline { runtime, period, reclaim, .. } => {
            reclaim || u128::from(runtime) * 100 > u128::from(period) * 95
        }
        Policy::Other { .. } | Policy::Batch { .. } | Policy::Idle => false,
    }
}

pub(super) struct Tasks<'a> {
    pub(super) workload: &'a Workload,
    forkers: Vec<BTreeSet<usize>>,
    /// Whether it may begin as a real-time task.
    begins: Vec<bool>,
    /// Whether another task makes it a real-time task.
    made: Vec<bool>,
    /// As `made`, or a deadline task.
    urged: Vec<bool>,
    /// The highest bandwidth of its deadline policies, if it has no other.
    bandwidth: Vec<Option<u64>>,
    /// All CPUs it may ever have.
    pub(super) cpus: Vec<BTreeSet<u32>>,
    /// Mutexes that may lend a real-time priority.
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

    /// Whether it may begin above the ordinary class.
    pub(super) fn begins(&self, task: usize) -> bool {
        self.begins[task] || self.workload.tasks[task].settings.policy.and_then(reserved).is_some()
    }

    pub(super) fn urged(&self, task: usize) -> bool {
        self.urged[task]
    }

    /// Whether a mutex's holder may inherit a real-time priority.
    pub(super) fn lends(&self, mutex: usize) -> bool {
        self.lend.contains(&mutex)
    }

    /// Highest bandwidth of a task urgent only by deadline policies, parts of [`super::demand::WHOLE`].
    pub(super) fn bandwidth(&self, task: usize) -> Option<u64> {
        self.bandwidth[task]
    }

    fn ever(&self, task: usize) -> bool {
        let phases = || self.workload.tasks[task].phases.iter();
        self.begins[task]
            || self.made[task]
            || phases().any(|phase| phase.settings.policy.is_some_and(is_real_time))
            || phases()
                .flat_map(|phase| &phase.ops)
                .any(|op| matches!(op, Op::Lock(mutex) if self.lend.contains(mutex)))
    }

    /// Forked threads inherit what they do not specify.
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

    /// Marks holders of priority-inheriting mutexes wanted by real-time tasks, along the chain, as real-time tasks.
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

    /// Returns each task's instances, up to `most`.
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

    /// Real-time tasks that run for long without sleep.
    pub(super) fn hogs(&self) -> Vec<usize> {
        // All count as restless until proven otherwise.
        let mut restless: Vec<bool> = (0..self.workload.tasks.len()).map(|task| self.ever(task)).collect();
        loop {
            let wakers = Wakers::of(self.workload, &restless);
            let next: Vec<bool> = (0..restless.len())
                .map(|task| {
                    // A restless forker has one child after the other at work.
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

    /// Returns the longest stretch without sleep, nanoseconds.
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

/// What ends each wait.
struct Wakers {
    /// Whether a task that never sleeps wakes the waiters.
    conditions: Vec<bool>,
    semaphores: Vec<bool>,
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

#[derive(Default)]
struct Walk {
    real_time: bool,
    /// Number of held mutexes that may lend a real-time priority.
    held: u32,
    /// Nanoseconds since the last sleep.
    busy: u64,
    longest: u64,
    rests: u64,
}

impl Walk {
    /// Walks a loop twice, which shows all further rounds' effect.
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

    /// `again`: in a loop.
    fn op(&mut self, op: &Op, real_time: bool, again: bool, wakers: &Wakers) {
        let takes = takes(op);
        let rests = match *op {
            Op::Sleep { time } | Op::Device { time } => time > 0,
            // The second time it is past.
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
        // Ordinary tasks yield to others by themselves, if they do anything.
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
