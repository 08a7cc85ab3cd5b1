//! Distinguishes tasks that wait for a CPU from throttled ones.

use std::collections::BTreeSet;

use vruntime_trace::{CpuId, GroupId, TaskId};

use super::Collector;
use crate::accounts::{Group, State, Task};
use crate::conservation::Conservation;
use crate::throttles::{BoundBy, Throttles};

/// The limits of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    group: u32,
    by: BoundBy,
}

impl From<&Task> for Bound {
    #[inline]
    fn from(task: &Task) -> Self {
        Self { group: task.group, by: task.bound_by }
    }
}

/// Current throttling.
#[derive(Clone, Debug, Default)]
pub(super) struct ThrottleState {
    /// Throttled real-time tasks.
    pub(super) rt: Throttles,
    /// Used-up limits of groups.
    limits: Throttles,
    /// Throttled at the last check.
    tasks: BTreeSet<TaskId>,
}

impl ThrottleState {
    #[inline]
    fn is_empty(&self) -> bool {
        self.rt.is_empty() && self.limits.is_empty()
    }

    #[inline]
    pub(super) fn is_throttled(&self, task: impl Into<Bound>, cpu: CpuId, groups: &[Group]) -> bool {
        if self.is_empty() {
            return false;
        }
        let task: Bound = task.into();
        let throttles = match task.by {
            BoundBy::Group => &self.limits,
            BoundBy::Realtime => &self.rt,
            BoundBy::Nothing => return false,
        };
        let parent = |group: u32| groups.get(group as usize).and_then(|group| group.parent);
        !throttles.is_empty() && throttles.is_throttled(cpu.0, task.group, parent)
    }
}

/// Begins a wait for a CPU, unless the task is throttled.
#[inline]
pub(super) fn waits(
    watch: &mut Conservation,
    at: u64,
    (id, task): (TaskId, &Task),
    cpu: CpuId,
    groups: &[Group],
    throttle_state: &mut ThrottleState,
) {
    if throttle_state.is_throttled(task, cpu, groups) {
        watch.moves(id, cpu);
        throttle_state.tasks.insert(id);
    } else if !task.throttled {
        watch.waits(at, id, cpu);
    }
}

/// Ends a wait, because the task runs or is throttled.
#[inline]
pub(super) fn waits_no_more(
    watch: &mut Conservation,
    at: u64,
    (id, task): (TaskId, &mut Task),
    groups: &[Group],
    throttle_state: &ThrottleState,
) {
    let bound = Bound::from(&*task);
    watch.runs(at, id, &mut task.account, |cpu| throttle_state.is_throttled(bound, cpu, groups));
}

impl Collector {
    /// Checks again whether a waiting task is throttled.
    #[inline]
    pub(super) fn recheck_throttling(&mut self, id: TaskId) {
        if !self.throttle_state.is_empty() {
            self.restart_wait(id);
        }
    }

    /// Moves a task to another CPU. If throttled there, its wait ended on the old one.
    #[inline]
    pub(super) fn moves(&mut self, id: TaskId, to: CpuId) {
        let Self { tasks, groups, conservation: Some(watch), throttle_state, now, .. } = self else { return };
        if throttle_state.is_empty() {
            watch.moves(id, to);
            return;
        }
        if let Some(task) = tasks.get_mut(id.index())
            && throttle_state.is_throttled(&*task, to, groups)
        {
            waits_no_more(watch, *now, (id, task), groups, throttle_state);
        }
        watch.moves(id, to);
        self.restart_wait(id);
    }

    /// Ends a wait before a change of limits. [`Collector::recheck_throttling`] restarts it.
    #[inline]
    pub(super) fn limits_change(&mut self, id: TaskId) {
        if !self.throttle_state.is_empty() {
            self.wait_ends(id);
        }
    }

    /// Ends a wait. [`Collector::restart_wait`] restarts it.
    pub(super) fn wait_ends(&mut self, id: TaskId) {
        self.task_mut(id);
        let Self { tasks, groups, conservation: Some(watch), throttle_state, now, .. } = self else { return };
        let task = &mut tasks[id.index()];
        waits_no_more(watch, *now, (id, task), groups, throttle_state);
    }

    /// Restarts the wait of a task that is not throttled.
    pub(super) fn restart_wait(&mut self, id: TaskId) {
        let Self { tasks, groups, conservation: Some(watch), throttle_state, now, .. } = self else { return };
        let Some(task) = tasks.get_mut(id.index()) else { return };
        if matches!(task.state, State::Waiting | State::Woken) {
            let cpu = watch.cpu(id);
            if throttle_state.is_throttled(&*task, cpu, groups) {
                waits_no_more(watch, *now, (id, task), groups, throttle_state);
                throttle_state.tasks.insert(id);
            } else {
                waits(watch, *now, (id, task), cpu, groups, throttle_state);
            }
        }
    }

    /// Restarts waits on a CPU, also of throttled tasks.
    fn restart_waits_on(&mut self, cpu: CpuId) {
        let Some(watch) = &mut self.conservation else { return };
        let mut here: Vec<TaskId> = watch.waiting().collect();
        here.retain(|&task| watch.cpu(task) == cpu);
        self.throttle_state.tasks.retain(|&task| {
            let elsewhere = watch.cpu(task) != cpu;
            if !elsewhere {
                here.push(task);
            }
            elsewhere
        });
        for task in here {
            self.restart_wait(task);
        }
    }

    /// Begins or ends throttling of a group on a CPU.
    #[cold]
    pub(super) fn throttle(&mut self, at: u64, cpu: CpuId, group: GroupId, begins: bool) {
        let barred = self.barred(cpu);
        if begins {
            self.throttle_state.limits.begin(at, cpu, group);
        } else {
            self.throttle_state.limits.end(at, cpu, group);
        }
        self.throttled(at, cpu, &barred);
    }

    fn barred(&self, cpu: CpuId) -> Vec<(TaskId, bool)> {
        let Self { tasks, groups, conservation: Some(watch), throttle_state, .. } = self else { return Vec::new() };
        watch.waiting().map(|task| (task, throttle_state.is_throttled(&tasks[task.index()], cpu, groups))).collect()
    }

    /// Handles a change of throttled tasks on a CPU.
    fn throttled(&mut self, at: u64, cpu: CpuId, before: &[(TaskId, bool)]) {
        let Self { tasks, groups, conservation: Some(watch), throttle_state, .. } = self else { return };
        for &(task, was) in before {
            match (was, throttle_state.is_throttled(&tasks[task.index()], cpu, groups)) {
                (false, true) => watch.is_barred(at, task, cpu),
                (true, false) => watch.is_freed(at, task, cpu),
                _ => {}
            }
        }
        self.restart_waits_on(cpu);
    }

    /// Begins or ends real-time throttling of a group on a CPU.
    #[cold]
    pub(super) fn rt_throttle(&mut self, at: u64, cpu: CpuId, group: GroupId, begins: bool) {
        self.ensure_group(group);
        let barred = self.barred(cpu);
        if begins {
            self.throttle_state.rt.begin(at, cpu, group);
            self.groups[group.index()].nr_rt_throttled += 1;
        } else if let Some(ns) = self.throttle_state.rt.end(at, cpu, group) {
            self.rt_was_throttled(cpu, group, ns);
        }
        self.throttled(at, cpu, &barred);
    }

    pub(super) fn rt_was_throttled(&mut self, cpu: CpuId, group: GroupId, ns: u64) {
        self.groups[group.index()].rt_throttled_ns += ns;
        if group == GroupId::ROOT {
            self.cpu_mut(cpu).result.rt_throttled_ns += ns;
        }
    }
}
