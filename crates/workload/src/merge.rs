//! Several workloads as one.

use std::sync::Arc;

use crate::groups::GroupTree;
use crate::names::{Interner, UniqueNames};
use crate::place::SourceMap;
use crate::program::{Op, Phase, Session, Settings, Task, Timer, Workload};

/// Where a workload goes when it is added to others.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    /// What its tasks' names begin with.
    pub(crate) task_prefix: String,
    /// What its classes' names begin with.
    pub(crate) class_prefix: String,
    /// The group its root becomes, as a normal path.
    pub(crate) group: Option<String>,
    /// The session of its tasks, by name.
    pub(crate) session: Option<String>,
    /// How much later its tasks start, ns.
    pub(crate) start: u64,
}

/// A group with its path takes the memory of a few operations.
pub(crate) const GROUP_EXTENT: u64 = 4;

/// The workload so far.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) workload: Workload,
    pub(crate) groups: GroupTree,
    pub(crate) places: SourceMap,
    /// Operations and objects of what was added, groups counted for [`GROUP_EXTENT`].
    pub(crate) extent: u64,
    names: UniqueNames,
    /// Wait queues and completions of the scenario's own tasks, which have them in common.
    pub(crate) queues: Interner,
    pub(crate) completions: Interner,
    pub(crate) sessions: Interner,
}

/// By how much the numbers of an added workload's objects grow.
struct Offsets {
    tasks: usize,
    mutexes: usize,
    conditions: usize,
    barriers: usize,
    semaphores: usize,
    timers: usize,
    pipes: usize,
    /// The new number of each of its groups.
    groups: Vec<usize>,
    /// The group of tasks that name none.
    group: Option<usize>,
}

/// A program, and the same with its numbers shifted.
struct Shifted<'a> {
    old: &'a Arc<[Phase]>,
    new: Arc<[Phase]>,
}

impl Merged {
    pub(crate) fn new() -> Self {
        Self {
            workload: Workload::default(),
            groups: GroupTree::new(),
            places: SourceMap::default(),
            extent: 0,
            names: UniqueNames::default(),
            queues: Interner::default(),
            completions: Interner::default(),
            sessions: Interner::default(),
        }
    }

    /// Adds a workload. Its objects stay its own: a mutex `m` here is not the `m` there.
    pub(crate) fn add(&mut self, added: &Workload, places: SourceMap, placement: &Placement) {
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
            groups: added.groups.iter().map(|group| self.groups.ensure(&join(base, &group.path))).collect(),
            group: placement.group.as_deref().map(|path| self.groups.ensure(path)),
        };
        into.kernel_threads.extend(added.kernel_threads.iter().map(|task| task + offsets.tasks));
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
        self.places.append(places, offsets.tasks);

        // Instances of a class share their program, and they lie side by side: so do the shifted ones.
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
                session,
                settings,
                phases,
                repeat: task.repeat,
            });
        }
    }

    pub(crate) fn finish(self) -> (Workload, SourceMap) {
        let sessions = self.sessions.into_names().into_iter().map(|name| Session { name, nice: 0 });
        let workload = Workload {
            groups: self.groups.into_groups(),
            sessions: sessions.collect(),
            wait_queues: self.queues.into_names(),
            completions: self.completions.into_names(),
            ..self.workload
        };
        (workload, self.places)
    }
}

impl Workload {
    /// Operations of distinct programs, and objects but groups: what each copy takes anew.
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
        (operations + synchronisation + self.timers.len() + self.pipes.len()) as u64
    }
}

/// A path below another; both normal.
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
            Op::Unlock(mutex) => Op::Unlock(mutex + self.mutexes),
            Op::Wait { condition, mutex } => {
                Op::Wait { condition: condition + self.conditions, mutex: mutex + self.mutexes }
            }
            Op::Sync { condition, mutex } => {
                Op::Sync { condition: condition + self.conditions, mutex: mutex + self.mutexes }
            }
            Op::Signal(condition) => Op::Signal(condition + self.conditions),
            Op::Broadcast(condition) => Op::Broadcast(condition + self.conditions),
            Op::Suspend { condition } => Op::Suspend { condition: condition + self.conditions },
            Op::Resume { condition } => Op::Resume { condition: condition + self.conditions },
            Op::Barrier(barrier) => Op::Barrier(barrier + self.barriers),
            Op::SemPost(semaphore) => Op::SemPost(semaphore + self.semaphores),
            Op::SemWait(semaphore) => Op::SemWait(semaphore + self.semaphores),
            Op::Fork(task) => Op::Fork(task + self.tasks),
            Op::PipeWrite { pipe, bytes } => Op::PipeWrite { pipe: pipe + self.pipes, bytes },
            Op::PipeRead { pipe, bytes } => Op::PipeRead { pipe: pipe + self.pipes, bytes },
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
            // Only the scenario's own tasks have these, and they share what it names.
            | Op::WaitEvent { .. }
            | Op::WakeUp { .. }
            | Op::WaitForCompletion { .. }
            | Op::Complete(_)
            | Op::CompleteAll(_)
            | Op::ReinitCompletion(_) => op.clone(),
        }
    }
}
