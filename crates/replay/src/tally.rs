//! Each task's CPU time and switches in a run: all that a trial needs.

use vruntime_sched::event::{Event, Running};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_trace::{Sink, TaskInfo};

/// A task's totals in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskTotals {
    /// The task's name.
    pub name: String,
    /// Time on a CPU, nanoseconds.
    pub cpu_ns: u64,
    /// Switches away from it.
    pub switches: u64,
}

/// Counts what [`Collector`](vruntime_report::Collector) counts as CPU time and switches of tasks, and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    tasks: Vec<TaskTotals>,
    /// Since when each task runs.
    since: Vec<Option<u64>>,
    now: u64,
}

impl Tally {
    /// Returns the totals of all tasks. The last event ends an unfinished run.
    pub fn into_tasks(mut self) -> Vec<TaskTotals> {
        self.finish(self.now);
        self.tasks
    }

    fn reserve(&mut self, task: TaskId) {
        for missing in self.tasks.len()..=task.index() {
            self.tasks.push(TaskTotals { name: format!("task-{missing}"), ..TaskTotals::default() });
            self.since.push(None);
        }
    }
}

impl Sink for Tally {
    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        self.reserve(id);
        info.name.clone_into(&mut self.tasks[id.index()].name);
    }

    #[inline]
    fn event(&mut self, at: u64, _cpu: CpuId, event: &Event) {
        self.now = self.now.max(at);
        let Event::Switch { prev, next, .. } = *event else { return };
        if prev == next {
            return;
        }
        if let Running::Task(task) = prev {
            self.reserve(task);
            let totals = &mut self.tasks[task.index()];
            totals.switches += 1;
            totals.cpu_ns += self.since[task.index()].take().map_or(0, |since| at.saturating_sub(since));
        }
        if let Running::Task(task) = next {
            self.reserve(task);
            self.since[task.index()] = Some(at);
        }
    }

    fn finish(&mut self, at: u64) {
        self.now = self.now.max(at);
        for (totals, since) in self.tasks.iter_mut().zip(&mut self.since) {
            totals.cpu_ns += since.take().map_or(0, |since| self.now.saturating_sub(since));
        }
    }
}
