//! Combines workloads.

use std::sync::Arc;

use crate::groups::GroupTree;
use crate::names::{Interner, UniqueNames};
use crate::place::SourceMap;
use crate::program::{Benchmark, Changed, Group, Op, Phase, Requests, Session, Settings, Task, Timer, Workload};
use crate::scenario::OwnObjects;

#[derive(Debug, Default)]
pub(crate) struct Placement {
    /// Prefix of its tasks' names.
    pub(crate) task_prefix: String,
    /// Prefix of its classes' names.
    pub(crate) class_prefix: String,
    /// The normalized path of the group that its root becomes.
    pub(crate) group: Option<String>,
    /// The name of its tasks' session.
    pub(crate) session: Option<String>,
    /// Delay of its tasks' starts, ns.
    pub(crate) start: u64,
    /// Whether the run does not wait for its tasks.
    pub(crate) background: bool,
}

/// The memory of a group with its path, in operations.
pub(crate) const GROUP_EXTENT: u64 = 4;

/// The combined workload so far.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) workload: Workload,
    pub(crate) groups: GroupTree,
    pub(crate) source_map: SourceMap,
    /// Operations and objects added, with groups as [`GROUP_EXTENT`].
    pub(crate) extent: u64,
    /// Number of processes added.
    processes: u32,
    names: UniqueNames,
    /// Objects that the scenario's own tasks share.
    pub(crate) queues: Interner,
    pub(crate) completions: Interner,
    pub(crate) own: OwnObjects,
    pub(crate) sessions: Interner,
}

/// Increases of the indices of an added workload's objects.
struct Offsets {
    tasks: usize,
    mutexes: usize,
    conditions: usize,
    barriers: usize,
    semaphores: usize,
    timers: usize,
    pipes: usize,
    spins: usize,
    queues: usize,
    completions: usize,
    pools: usize,
    inboxes: usize,
    leads: usize,
    processes: u32,
    /// The new index of each group.
    groups: Vec<usize>,
    /// The group of tasks without one.
    group: Option<usize>,
}

/// A program, and its copy with shifted indices.
struct Shifted<'a> {
    old: &'a Arc<[Phase]>,
    new: Arc<[Phase]>,
}

impl Merged {
    pub(crate) fn new() -> Self {
        Self {
            workload: Workload::default(),
            groups: GroupTree::new(),
            source_map: SourceMap::default(),
            extent: 0,
            processes: 0,
            names: UniqueNames::default(),
            queues: Interner::default(),
            completions: Interner::default(),
            own: OwnObjects::default(),
            sessions: Interner::default(),
        }
    }

    /// Adds a workload. Its objects stay separate: its mutex `m` is not another workload's `m`.
    pub(crate) fn add(&mut self, added: &Workload, source_map: SourceMap, placement: &Placement) {
        let base = placement.group.as_deref().unwrap_or("/");
        let session = placement.session.as_deref().map(|name| self.sessions.number(name));
        let into = &mut self.workload;
        let offsets = Offsets {
            tasks: into.tasks.len(),
            mutexes: into.mutexes.len(),
            conditions: into.conditions.len(),
            barriers: into.barriers.len(),
            semaphores: into.semaphores.len(),
            timers: into.timers.len(),
            pipes: into.pipes.len(),
            spins: into.spins.len(),
            queues: into.wait_queues.len(),
            completions: into.completions.len(),
            pools: into.pools.len(),
            inboxes: into.inboxes.len(),
            leads: into.leads.len(),
            processes: self.processes,
            groups: added.groups.iter().map(|group| self.groups.ensure(&join(base, &group.path))).collect(),
            group: placement.group.as_deref().map(|path| self.groups.ensure(path)),
        };
        into.kernel_threads.extend(added.kernel_threads.iter().map(|task| task + offsets.tasks));
        into.sessionless.extend(added.sessionless.iter().map(|task| task + offsets.tasks));
        let background = added.background.iter().map(|task| offsets.tasks + task);
        into.background.extend(background);
        if placement.background {
            into.background.extend(offsets.tasks..offsets.tasks + added.tasks.len());
        }
        into.benchmarks.extend(added.benchmarks.iter().map(|benchmark| Benchmark {
            command: benchmark.command.clone(),
            tasks: offsets.tasks + benchmark.tasks.start..offsets.tasks + benchmark.tasks.end,
            start: benchmark.start + placement.start,
        }));
        into.mutexes.extend(added.mutexes.iter().cloned());
        into.conditions.extend(added.conditions.iter().cloned());
        into.barriers.extend(added.barriers.iter().cloned());
        into.semaphores.extend(added.semaphores.iter().cloned());
        into.timers.extend(
            added.timers.iter().map(|timer| Timer {
                name: timer.name.clone(),
                start: timer.start.map(|start| start + placement.start),
            }),
        );
        into.pipes.extend(added.pipes.iter().cloned());
        into.spins.extend(added.spins.iter().cloned());
        into.requests.extend(added.requests.iter().map(|requests| Requests {
            queue: requests.queue + offsets.queues,
            start: requests.start + placement.start,
            ..requests.clone()
        }));
        // The scenario's own tasks share queues in `Merged::queues`. Their workload has none.
        into.wait_queues.extend(added.wait_queues.iter().cloned());
        into.completions.extend(added.completions.iter().cloned());
        into.pools.extend(added.pools.iter().cloned());
        into.inboxes.extend(added.inboxes.iter().cloned());
        into.connections.extend(&added.connections);
        into.rooms.extend(&added.rooms);
        into.leads.extend(added.leads.iter().cloned());
        let last = added.tasks.iter().filter_map(|task| task.process).max();
        self.processes += last.map_or(0, |last| last + 1);
        self.source_map.append(source_map, offsets.tasks);

        // Instances of a class are adjacent and share their program, as do their copies.
        let mut last: Option<Shifted<'_>> = None;
        for task in &added.tasks {
            let phases = match &last {
                Some(Shifted { old, new }) if Arc::ptr_eq(old, &task.phases) => Arc::clone(new),
                _ => offsets.phases(&task.phases),
            };
            last = Some(Shifted { old: &task.phases, new: Arc::clone(&phases) });
            let mut settings = offsets.settings(&task.settings);
            settings.group = settings.group.or(offsets.group);
            into.tasks.push(Task {
                name: self.names.take(format!("{}{}", placement.task_prefix, task.name)),
                class: format!("{}{}", placement.class_prefix, task.class),
                start: task.start.map(|start| start + placement.start),
                before: task.before,
                wakee_flips: task.wakee_flips,
                averages: task.averages,
                session,
                process: task.process.map(|process| offsets.processes + process),
                settings,
                phases,
                repeat: task.repeat,
            });
        }
    }

    pub(crate) fn finish(self) -> (Workload, SourceMap) {
        let sessions = self.sessions.into_names().into_iter().map(|name| Session { name, nice: 0 });
        let mut workload =
            Workload { groups: self.groups.into_groups(), sessions: sessions.collect(), ..self.workload };
        // The scenario's own tasks were added last, so their indices follow the others'.
        let (pipes, spins) = self.own.into_objects();
        workload.wait_queues.extend(self.queues.into_names());
        workload.completions.extend(self.completions.into_names());
        workload.pipes.extend(pipes);
        workload.spins.extend(spins);
        (workload, self.source_map)
    }
}

impl Workload {
    /// Combines both workloads, such as a noisy neighbour and a replay. Duration, end and hotplug are this one's.
    /// Objects stay separate. Groups of equal paths merge, with the other's settings. Equal task names get numbers.
    #[must_use]
    pub fn beside(self, other: &Self) -> Self {
        let mut merged = Merged::new();
        let mut sessions = Vec::new();
        let mut changes = Vec::new();
        for added in [&self, other] {
            let (first, known) = (merged.workload.tasks.len(), sessions.len());
            merged.add(added, SourceMap::default(), &Placement::default());
            sessions.extend(added.sessions.iter().cloned());
            for (task, old) in merged.workload.tasks[first..].iter_mut().zip(&added.tasks) {
                task.session = old.session.map(|session| session + known);
            }
            let numbers: Vec<usize> = added.groups.iter().map(|group| merged.groups.ensure(&group.path)).collect();
            for (group, &number) in added.groups.iter().zip(&numbers) {
                let into = merged.groups.get_mut(number);
                *into = Group { path: into.path.clone(), parent: into.parent, ..group.clone() };
            }
            changes.extend(added.changes.iter().map(|change| {
                let mut change = change.clone();
                match &mut change.what {
                    Changed::Tasks { tasks, settings, .. } => {
                        for task in tasks {
                            *task += first;
                        }
                        settings.group = settings.group.map(|group| numbers[group]);
                    }
                    Changed::Group { group, .. } | Changed::Cpuset { group, .. } => *group = numbers[*group],
                    Changed::Session { session, .. } => *session += known,
                }
                change
            }));
        }
        changes.sort_by_key(|change| change.at);
        let Merged { workload, groups, .. } = merged;
        Self {
            groups: groups.into_groups(),
            sessions,
            hotplug: self.hotplug,
            changes,
            duration: self.duration,
            stop: self.stop,
            ..workload
        }
    }

    /// Returns the size of a copy: the operations of distinct programs and the objects without groups.
    pub(crate) fn extent(&self) -> u64 {
        let mut operations = 0;
        let mut last: Option<&Arc<[Phase]>> = None;
        for task in &self.tasks {
            if last.is_none_or(|last| !Arc::ptr_eq(last, &task.phases)) {
                operations += task.phases.iter().map(|phase| 1 + phase.ops.len()).sum::<usize>();
            }
            last = Some(&task.phases);
        }
        let synchronisation = self.mutexes.len() + self.conditions.len() + self.barriers.len() + self.semaphores.len();
        (operations + synchronisation + self.timers.len() + self.pipes.len() + self.spins.len()) as u64
    }
}

/// Joins two normalized paths.
pub(crate) fn join(base: &str, path: &str) -> String {
    match (base, path) {
        ("/", _) => path.to_owned(),
        (_, "/") => base.to_owned(),
        _ => format!("{base}{path}"),
    }
}

impl Offsets {
    fn settings(&self, settings: &Settings) -> Settings {
        let group = settings.group.map(|group| self.groups.get(group).copied().unwrap_or(0));
        Settings { group, ..settings.clone() }
    }

    fn phases(&self, phases: &[Phase]) -> Arc<[Phase]> {
        phases
            .iter()
            .map(|phase| Phase {
                name: phase.name.clone(),
                repeat: phase.repeat,
                settings: self.settings(&phase.settings),
                ops: phase.ops.iter().map(|op| self.op(op)).collect(),
            })
            .collect()
    }

    fn op(&self, op: &Op) -> Op {
        match *op {
            Op::Timer { timer, period, mode } => Op::Timer { timer: timer + self.timers, period, mode },
            Op::Lock(mutex) => Op::Lock(mutex + self.mutexes),
            Op::TryLock { mutex, time } => Op::TryLock { mutex: mutex + self.mutexes, time },
            Op::EnsureLock(mutex) => Op::EnsureLock(mutex + self.mutexes),
            Op::Nudge(mutex) => Op::Nudge(mutex + self.mutexes),
            Op::Unlock(mutex) => Op::Unlock(mutex + self.mutexes),
            Op::Wait { condition, mutex } => {
                Op::Wait { condition: condition + self.conditions, mutex: mutex + self.mutexes }
            }
            Op::Sync { condition, mutex } => {
                Op::Sync { condition: condition + self.conditions, mutex: mutex + self.mutexes }
            }
            Op::Signal(condition) => Op::Signal(condition + self.conditions),
            Op::Broadcast(condition) => Op::Broadcast(condition + self.conditions),
            Op::Suspend { condition, mutex } => {
                Op::Suspend { condition: condition + self.conditions, mutex: mutex + self.mutexes }
            }
            Op::Resume { condition, mutex } => {
                Op::Resume { condition: condition + self.conditions, mutex: mutex + self.mutexes }
            }
            Op::Barrier(barrier) => Op::Barrier(barrier + self.barriers),
            Op::SemPost(semaphore) => Op::SemPost(semaphore + self.semaphores),
            Op::SemWait(semaphore) => Op::SemWait(semaphore + self.semaphores),
            Op::SemMove { from, to } => Op::SemMove { from: from + self.semaphores, to: to + self.semaphores },
            Op::SemReset(semaphore) => Op::SemReset(semaphore + self.semaphores),
            Op::InboxWait { inbox, from } => Op::InboxWait { inbox: inbox + self.inboxes, from },
            Op::InboxWake { inbox, from, follow, sync } => {
                Op::InboxWake { inbox: inbox + self.inboxes, from, follow, sync }
            }
            Op::PutOff { inbox } => Op::PutOff { inbox: inbox + self.inboxes },
            Op::PutOffEnd { inbox } => Op::PutOffEnd { inbox: inbox + self.inboxes },
            Op::RunIfSlept { inbox, work } => Op::RunIfSlept { inbox: inbox + self.inboxes, work },
            Op::CatchUp { inbox } => Op::CatchUp { inbox: inbox + self.inboxes },
            Op::LeadMoves { lead } => Op::LeadMoves { lead: lead + self.leads },
            Op::LeadAwaits { lead } => Op::LeadAwaits { lead: lead + self.leads },
            Op::PoolRun { pool, work } => Op::PoolRun { pool: pool + self.pools, work },
            Op::PoolHelp { pool, work } => Op::PoolHelp { pool: pool + self.pools, work },
            Op::PoolSleep { pool, work } => Op::PoolSleep { pool: pool + self.pools, work },
            Op::PoolWait { pool, work, time } => Op::PoolWait { pool: pool + self.pools, work, time },
            Op::Fork(task) => Op::Fork(task + self.tasks),
            Op::PipeWrite { pipe, bytes } => Op::PipeWrite { pipe: pipe + self.pipes, bytes },
            Op::PipeRead { pipe, bytes } => Op::PipeRead { pipe: pipe + self.pipes, bytes },
            Op::SpinWait { spin, lock } => Op::SpinWait { spin: spin + self.spins, lock },
            Op::SpinPost { spin, events } => Op::SpinPost { spin: spin + self.spins, events },
            Op::SpinBarrier(spin) => Op::SpinBarrier(spin + self.spins),
            Op::WaitEvent { queue, mode, timeout } => Op::WaitEvent { queue: queue + self.queues, mode, timeout },
            Op::WakeUp { queue, nr, events, sync } => Op::WakeUp { queue: queue + self.queues, nr, events, sync },
            Op::WaitForCompletion { completion, timeout } => {
                Op::WaitForCompletion { completion: completion + self.completions, timeout }
            }
            Op::Complete(completion) => Op::Complete(completion + self.completions),
            Op::CompleteAll(completion) => Op::CompleteAll(completion + self.completions),
            Op::ReinitCompletion(completion) => Op::ReinitCompletion(completion + self.completions),
            Op::Run { .. }
            | Op::Runtime { .. }
            | Op::Sleep { .. }
            | Op::SleepUntil { .. }
            | Op::Device { .. }
            | Op::Mem { .. }
            | Op::Io { .. }
            | Op::MemRun(_)
            | Op::Yield
            | Op::Exec
            | Op::ExitGroup
            | Op::AwaitKill => op.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Hotplug;
    use crate::program::{Change, GroupChange, Repeat};

    fn one(name: &str, group: &str, weight: u32) -> Workload {
        let mut groups = GroupTree::new();
        let index = groups.ensure(group);
        groups.get_mut(index).weight = weight;
        let ops = vec![Op::SemPost(0), Op::SemWait(0)];
        let settings = Settings { group: Some(index), ..Settings::default() };
        let phase = Phase { name: String::new(), repeat: Repeat::Forever, settings: settings.clone(), ops };
        Workload {
            tasks: vec![Task {
                name: name.to_owned(),
                class: name.to_owned(),
                start: Some(0),
                before: None,
                wakee_flips: 0,
                averages: None,
                session: Some(0),
                process: Some(0),
                settings,
                phases: Arc::from([phase]),
                repeat: Repeat::Times(1),
            }],
            groups: groups.into_groups(),
            sessions: vec![Session { name: name.to_owned(), nice: 3 }],
            semaphores: vec![crate::program::Semaphore { name: name.to_owned(), initial: 0 }],
            changes: vec![Change { at: 5, what: Changed::Group { group: index, to: GroupChange::default() } }],
            kernel_threads: [0].into(),
            sessionless: [0].into(),
            background: [0].into(),
            ..Workload::default()
        }
    }

    #[test]
    fn a_neighbour_keeps_its_own_settings() {
        let both = Workload { duration: Some(7), ..one("a", "/x", 30) }.beside(&one("a", "/y/x", 40));
        let names: Vec<&str> = both.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!((names, both.duration), (vec!["a", "a#2"], Some(7)));
        let weights: Vec<(&str, u32)> = both.groups.iter().map(|group| (group.path.as_str(), group.weight)).collect();
        assert_eq!(weights, [("/", 100), ("/x", 30), ("/y", 100), ("/y/x", 40)]);
        assert_eq!(both.tasks[1].settings.group, Some(3));
        assert_eq!(both.tasks[1].phases[0].ops, [Op::SemPost(1), Op::SemWait(1)]);
        assert_eq!((both.tasks[1].session, both.sessions.len()), (Some(1), 2));
        assert_eq!(both.tasks[1].phases[0].settings.group, Some(3));
        let both_tasks: std::collections::BTreeSet<usize> = [0, 1].into();
        assert_eq!([both.kernel_threads, both.sessionless, both.background], [(); 3].map(|()| both_tasks.clone()));
        assert!(matches!(both.changes[1].what, Changed::Group { group: 3, .. }), "{:?}", both.changes);
    }

    #[test]
    fn changes_of_both_come_in_order_of_time() {
        let mut first = one("a", "/x", 30);
        first.changes[0].at = 9;
        let both = first.beside(&one("a", "/y", 40));
        let changes: Vec<u64> = both.changes.iter().map(|change| change.at).collect();
        assert_eq!(changes, [5, 9]);
    }

    #[test]
    fn hotplug_is_of_the_first() {
        let plug = |at| Hotplug { at, cpu: 1, online: false };
        let with = |at| Workload { hotplug: vec![plug(at)], ..one("a", "/x", 30) };
        assert_eq!(with(3).beside(&with(4)).hotplug, [plug(3)]);
    }

    #[test]
    fn two_neighbours_have_objects_of_their_own() {
        let ops = vec![
            Op::WaitEvent { queue: 0, mode: crate::program::WaitMode::Shared, timeout: None },
            Op::WakeUp { queue: 0, nr: 1, events: 1, sync: false },
            Op::WaitForCompletion { completion: 0, timeout: Some(3) },
            Op::Complete(0),
            Op::CompleteAll(0),
            Op::ReinitCompletion(0),
            Op::TryLock { mutex: 0, time: Some(4) },
            Op::EnsureLock(0),
            Op::Nudge(0),
        ];
        let mut with = one("a", "/x", 30);
        let phase = Phase { ops: ops.clone(), ..with.tasks[0].phases[0].clone() };
        with.tasks[0].phases = Arc::from([phase]);
        (with.wait_queues, with.completions) = (vec!["q".to_owned()], vec!["c".to_owned()]);
        with.mutexes =
            vec![crate::program::Mutex { name: "m".to_owned(), priority_inheritance: false, hands_over: true }];
        let both = one("t", "/", 1).beside(&with).beside(&with);
        assert_eq!((both.wait_queues.len(), both.completions.len()), (2, 2));
        assert_eq!(both.tasks[1].phases[0].ops, ops);
        let second = [
            Op::WaitEvent { queue: 1, mode: crate::program::WaitMode::Shared, timeout: None },
            Op::WakeUp { queue: 1, nr: 1, events: 1, sync: false },
            Op::WaitForCompletion { completion: 1, timeout: Some(3) },
            Op::Complete(1),
            Op::CompleteAll(1),
            Op::ReinitCompletion(1),
            Op::TryLock { mutex: 1, time: Some(4) },
            Op::EnsureLock(1),
            Op::Nudge(1),
        ];
        assert_eq!(both.tasks[2].phases[0].ops, second);
    }
}
