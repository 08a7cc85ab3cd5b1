//! Throttled tasks and their CPUs, from simulated runs and marks in their text traces.

use vruntime_trace::{CpuId, DeadlineEvent, Event, GroupId, PrevState, Running, SchedPolicy, TaskId};

use super::Analyses;
use super::cgroups::Update;
use super::world::{On, State, Step, What, World};
use crate::throttle_state::{Changed, ThrottleCause, ThrottleState};

/// Throttling, and the run's task for each of the world's.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskThrottles {
    pub(super) throttle_state: ThrottleState,
    own: Vec<Option<TaskId>>,
}

impl TaskThrottles {
    /// Links a task of the world to one of the run.
    pub(super) fn announce(&mut self, task: u32, id: TaskId) {
        if task as usize >= self.own.len() {
            self.own.resize(task as usize + 1, None);
        }
        self.own[task as usize] = Some(id);
    }
}

impl World {
    /// Whether a task would be throttled on a CPU.
    pub(super) fn is_throttled(&self, task: u32, cpu: u32) -> bool {
        self.throttle_cause(task, cpu).is_some()
    }

    /// Returns what throttles a task on a CPU.
    pub(super) fn throttle_cause(&self, task: u32, cpu: u32) -> Option<ThrottleCause> {
        let own = self.throttles.own.get(task as usize).copied().flatten()?;
        self.throttles.throttle_state.why(own, CpuId(cpu))
    }

    /// Returns the task's number in the run.
    fn own(&mut self, task: u32) -> TaskId {
        let (id, known) = (TaskId(task), self.throttles.own.get(task as usize).copied().flatten());
        if known.is_none() {
            self.throttles.announce(task, id);
            self.throttles.throttle_state.task(id, GroupId(self.cgroups.of(task)), SchedPolicy::Normal);
        }
        id
    }

    /// Updates throttled tasks by a step of a trace.
    fn apply_to_throttling(&mut self, step: &Step) -> Changed {
        let event = match step.what {
            What::Fork { child } => {
                self.own(child);
                return Changed::Nothing;
            }
            What::Switch { next: On::Task(next), .. } if !self.throttles.throttle_state.is_empty() => {
                let next = Running::Task(self.own(next));
                Event::Switch { prev: Running::Idle, prev_state: PrevState::Preempted, next }
            }
            What::Update(Update::Moved { task, group }) => {
                Event::MoveGroup { task: self.own(task), group: GroupId(group) }
            }
            What::Update(Update::Policy { task, policy, rt_priority }) => {
                Event::SetPolicy { task: self.own(task), policy, rt_priority }
            }
            What::Update(Update::Throttled { group }) => Event::Throttle { group: GroupId(group) },
            What::Update(Update::Unthrottled { group, ns }) => Event::Unthrottle { group: GroupId(group), ns },
            What::Update(Update::Spent { task, spent }) => {
                let what = if spent { DeadlineEvent::Throttle } else { DeadlineEvent::Replenish };
                Event::Deadline { task: self.own(task), what }
            }
            _ => return Changed::Nothing,
        };
        let Self { cgroups, throttles, .. } = self;
        for (group, row) in cgroups.rows().iter().enumerate().skip(throttles.throttle_state.groups()) {
            throttles.throttle_state.group(GroupId(group as u32), row.parent.map(GroupId));
        }
        throttles.throttle_state.apply(step.at.max(0) as u64, CpuId(step.cpu), &event)
    }
}

impl Analyses {
    /// Handles a step of a trace. Marks of simulated runs show throttled tasks.
    pub(super) fn step_of_trace(&mut self, step: &Step) {
        if matches!(step.what, What::Update(Update::Throttled { .. } | Update::Unthrottled { .. })) {
            self.limits_change(step.at, step.cpu);
        }
        self.step(step);
        match self.world.apply_to_throttling(step) {
            Changed::On(_) => (0..self.world.tasks() as u32).for_each(|task| self.report_throttling(task)),
            Changed::Task(id) => self.report_throttling(id.0),
            Changed::Nothing if self.world.throttles.throttle_state.is_empty() => {}
            Changed::Nothing => {
                for change in 0..self.world.changes.len() {
                    self.report_throttling(self.world.changes[change].task);
                }
            }
        }
    }

    /// Announces a change of limits on a CPU.
    pub(super) fn limits_change(&mut self, at: i64, cpu: u32) {
        self.step(&Step { at, cpu, by: On::Unknown, irq: false, what: What::Other });
        self.chosen.iter_mut().for_each(|(_, analysis)| analysis.limits_change(cpu, &self.world));
    }

    /// Reports the cause of a task's wait.
    pub(super) fn report_throttling(&mut self, task: u32) {
        let span = self.world.state(task);
        if span.state == State::Waiting {
            let cause = self.world.throttle_cause(task, span.cpu);
            for (_, analysis) in &mut self.chosen {
                analysis.throttling_changed(task, cause, &self.world);
            }
        }
    }
}
