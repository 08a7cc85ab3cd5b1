//! Reasons other than a busy CPU that keep a runnable task waiting: its group's limit, the bandwidth of real-time
//! tasks, a deadline task's runtime.

use vruntime_trace::{CpuId, DeadlineEvent, Event, GroupId, Running, SchedPolicy, TaskId};

use crate::throttles::{BoundBy, Throttles};

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    group: u32,
    bound_by: BoundBy,
    /// Whether it is a deadline task that waits for its next period.
    throttled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ThrottleCause {
    /// The limit of this group: its own or an ancestor.
    Group(u32),
    /// The bandwidth of real-time tasks.
    Realtime,
    /// A deadline task's runtime.
    Runtime,
}

/// Tasks whose throttling an event may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    Nothing,
    Task(TaskId),
    /// All waiting on this CPU.
    On(CpuId),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ThrottleState {
    tasks: Vec<Task>,
    parents: Vec<Option<u32>>,
    /// Used-up limits of groups.
    limits: Throttles,
    /// Throttled real-time tasks.
    rt: Throttles,
    /// Number of deadline tasks without runtime.
    spent: usize,
}

impl ThrottleState {
    pub(crate) fn groups(&self) -> usize {
        self.parents.len()
    }

    pub(crate) fn group(&mut self, id: GroupId, parent: Option<GroupId>) {
        if id.index() >= self.parents.len() {
            self.parents.resize(id.index() + 1, None);
        }
        self.parents[id.index()] = parent.map(|parent| parent.0);
    }

    pub(crate) fn task(&mut self, id: TaskId, group: GroupId, policy: SchedPolicy) {
        let it = self.task_mut(id);
        (it.group, it.bound_by) = (group.0, policy.into());
    }

    fn task_mut(&mut self, id: TaskId) -> &mut Task {
        if id.index() >= self.tasks.len() {
            self.tasks.resize_with(id.index() + 1, Task::default);
        }
        &mut self.tasks[id.index()]
    }

    /// Applies an event. Returns the tasks whose throttling it may have changed. Also check tasks that start to wait.
    pub(crate) fn apply(&mut self, at: u64, cpu: CpuId, event: &Event) -> Changed {
        match *event {
            Event::Switch { next: Running::Task(task), .. } => {
                self.set_throttled(task, false);
                Changed::Nothing
            }
            Event::Throttle { group } => {
                self.limits.begin(at, cpu, group);
                Changed::On(cpu)
            }
            Event::Unthrottle { group, .. } => {
                self.limits.end(at, cpu, group);
                Changed::On(cpu)
            }
            Event::RtThrottle { group } => {
                self.rt.begin(at, cpu, group);
                Changed::On(cpu)
            }
            Event::RtUnthrottle { group } => {
                self.rt.end(at, cpu, group);
                Changed::On(cpu)
            }
            Event::Deadline { task, what: what @ (DeadlineEvent::Throttle | DeadlineEvent::Replenish) } => {
                self.set_throttled(task, what == DeadlineEvent::Throttle);
                Changed::Task(task)
            }
            Event::MoveGroup { task, group } => {
                self.task_mut(task).group = group.0;
                Changed::Task(task)
            }
            Event::SetPolicy { task, policy, .. } => {
                self.task_mut(task).bound_by = policy.into();
                Changed::Task(task)
            }
            Event::PiSetprio { task, new, .. } => {
                self.task_mut(task).bound_by = BoundBy::of_priority(new);
                Changed::Task(task)
            }
            _ => Changed::Nothing,
        }
    }

    fn set_throttled(&mut self, task: TaskId, throttled: bool) {
        let it = self.task_mut(task);
        match (std::mem::replace(&mut it.throttled, throttled), throttled) {
            (false, true) => self.spent += 1,
            (true, false) => self.spent -= 1,
            _ => {}
        }
    }

    pub(crate) fn tasks(&self) -> u32 {
        self.tasks.len() as u32
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.rt.is_empty() && self.spent == 0
    }

    /// Whether a task would be throttled on a CPU.
    pub(crate) fn is_throttled(&self, task: TaskId, cpu: CpuId) -> bool {
        self.why(task, cpu).is_some()
    }

    /// Returns what throttles a task on a CPU.
    pub(crate) fn why(&self, task: TaskId, cpu: CpuId) -> Option<ThrottleCause> {
        if self.is_empty() {
            return None;
        }
        let task = self.tasks.get(task.index())?;
        let parent = |group: u32| self.parents.get(group as usize).copied().flatten();
        if task.throttled {
            return Some(ThrottleCause::Runtime);
        }
        match task.bound_by {
            BoundBy::Group => self.limits.holder(cpu.0, task.group, parent).map(ThrottleCause::Group),
            BoundBy::Realtime => self.rt.holder(cpu.0, task.group, parent).map(|_| ThrottleCause::Realtime),
            BoundBy::Nothing => None,
        }
    }
}
