//! Each task's CPU time, switches and waiting in a run: all that a trial needs.

use vruntime_sched::event::{Event, PrevState, Running};
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
    /// Time runnable, but not on a CPU, nanoseconds.
    pub waited_ns: u64,
}

/// Counts what [`Collector`](vruntime_report::Collector) counts as CPU time, switches and run delay of tasks, and
/// nothing else.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    tasks: Vec<TaskTotals>,
    /// Since when each task runs.
    since: Vec<Option<u64>>,
    /// Since when each task waits for a CPU.
    waits_since: Vec<Option<u64>>,
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
            self.waits_since.push(None);
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
        let (prev, prev_state, next) = match *event {
            Event::Switch { prev, prev_state, next } => (prev, prev_state, next),
            Event::Wakeup { task, .. } | Event::WakeupNew { task, .. } => {
                self.reserve(task);
                self.waits_since[task.index()].get_or_insert(at);
                return;
            }
            _ => return,
        };
        if prev == next {
            return;
        }
        if let Running::Task(task) = prev {
            self.reserve(task);
            let totals = &mut self.tasks[task.index()];
            totals.switches += 1;
            totals.cpu_ns += self.since[task.index()].take().map_or(0, |since| at.saturating_sub(since));
            self.waits_since[task.index()] =
                matches!(prev_state, PrevState::Preempted | PrevState::Yielded).then_some(at);
        }
        if let Running::Task(task) = next {
            self.reserve(task);
            let waited = self.waits_since[task.index()].take().map_or(0, |since| at.saturating_sub(since));
            self.tasks[task.index()].waited_ns += waited;
            self.since[task.index()] = Some(at);
        }
    }

    fn finish(&mut self, at: u64) {
        self.now = self.now.max(at);
        for (totals, since) in self.tasks.iter_mut().zip(&mut self.since) {
            totals.cpu_ns += since.take().map_or(0, |since| self.now.saturating_sub(since));
        }
        for (totals, since) in self.tasks.iter_mut().zip(&mut self.waits_since) {
            totals.waited_ns += since.take().map_or(0, |since| self.now.saturating_sub(since));
        }
    }
}
