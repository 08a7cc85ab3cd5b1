//! Delays of wakeups from the beginning of the waker's pass, as schbench measures them.
//!
//! A *pass* begins when a task gets a CPU for the first time, or after it slept. A new pass begins when the task wakes
//! another one for the second time. The program schbench reads the clock once in a pass. So the delay of the last
//! worker includes what it cost to wake all workers before it.

use std::collections::BTreeMap;

use vruntime_trace::{CpuId, Event, PrevState, Running, Sink, TaskId, TaskInfo};

use crate::latency::{Latency, Recorder};

#[derive(Clone, Debug, Default)]
struct Task {
    class: String,
    asleep: bool,
    /// Start of its pass, nanoseconds.
    pass_ns: u64,
    /// Number of its passes.
    passes: u64,
    /// Its last waker, and the number of the waker's pass.
    woken_by: Option<(TaskId, u64)>,
    /// Start of the pass that woke it, until it runs.
    since: Option<u64>,
}

/// Records delays of wakeups by tasks, as a [`Sink`].
#[derive(Clone, Debug, Default)]
pub struct PassDelays {
    tasks: Vec<Task>,
    running: Vec<Option<TaskId>>,
    delays: BTreeMap<String, Recorder>,
}

impl PassDelays {
    /// Returns the delays of the tasks of a class, if tasks woke any.
    pub fn of_class(&self, class: &str) -> Option<Latency> {
        self.delays.get(class)?.latency()
    }

    fn task_mut(&mut self, task: TaskId) -> &mut Task {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Task::default);
        }
        &mut self.tasks[task.index()]
    }

    fn begin_pass(&mut self, at: u64, task: TaskId) {
        let it = self.task_mut(task);
        it.pass_ns = at;
        it.passes += 1;
    }

    fn runs(&mut self, at: u64, task: TaskId) {
        let it = self.task_mut(task);
        let (slept, since) = (std::mem::take(&mut it.asleep), it.since.take());
        if let Some(since) = since {
            let class = it.class.clone();
            self.delays.entry(class).or_default().record(at - since);
        }
        if slept || self.task_mut(task).passes == 0 {
            self.begin_pass(at, task);
        }
    }

    fn wakes(&mut self, at: u64, waker: TaskId, task: TaskId) {
        let pass = (waker, self.task_mut(waker).passes);
        if self.task_mut(task).woken_by == Some(pass) {
            self.begin_pass(at, waker);
        }
        let Task { pass_ns, passes, .. } = *self.task_mut(waker);
        let it = self.task_mut(task);
        it.woken_by = Some((waker, passes));
        it.since = Some(pass_ns);
    }
}

impl Sink for PassDelays {
    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        info.class.clone_into(&mut self.task_mut(id).class);
    }

    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        match *event {
            Event::Switch { prev, prev_state, next } => {
                if let Running::Task(task) = prev {
                    self.task_mut(task).asleep = !matches!(prev_state, PrevState::Preempted | PrevState::Yielded);
                }
                if cpu.index() >= self.running.len() {
                    self.running.resize(cpu.index() + 1, None);
                }
                self.running[cpu.index()] = if let Running::Task(task) = next { Some(task) } else { None };
                if let Running::Task(task) = next {
                    self.runs(at, task);
                }
            }
            Event::Waking { task, irq: false } => {
                if let Some(waker) = self.running.get(cpu.index()).copied().flatten() {
                    self.wakes(at, waker, task);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: u32) -> Running {
        Running::Task(TaskId(id))
    }

    /// The waker wakes two tasks in each pass, 10 ns apart. They run 5 ns after their wakeup.
    #[test]
    fn the_delay_of_a_wakeup_has_those_before_it() {
        let mut delays = PassDelays::default();
        for (id, class) in ["waker", "woken", "woken"].into_iter().enumerate() {
            delays.task(TaskId(id as u32), &TaskInfo { name: class, class, ..TaskInfo::default() });
        }
        let sleeps = |cpu: u32, at: u64, delays: &mut PassDelays| {
            let event = Event::Switch { prev: task(cpu), prev_state: PrevState::Sleeping, next: Running::Idle };
            delays.event(at, CpuId(cpu), &event);
        };
        let runs = |cpu: u32, at: u64, delays: &mut PassDelays| {
            let event = Event::Switch { prev: Running::Idle, prev_state: PrevState::Preempted, next: task(cpu) };
            delays.event(at, CpuId(cpu), &event);
        };
        (0..3).for_each(|cpu| runs(cpu, 0, &mut delays));
        (0..3).for_each(|cpu| sleeps(cpu, 1, &mut delays));
        runs(0, 100, &mut delays);
        // The second time without a sleep: the pass begins with the first wakeup.
        for pass in [100, 200] {
            for woken in 1..3 {
                let at = pass + 10 * u64::from(woken);
                delays.event(at, CpuId(0), &Event::Waking { task: TaskId(woken), irq: false });
                runs(woken, at + 5, &mut delays);
                sleeps(woken, at + 6, &mut delays);
            }
        }
        // An interrupt is no waker.
        delays.event(300, CpuId(0), &Event::Waking { task: TaskId(1), irq: true });
        runs(1, 400, &mut delays);
        let latency = delays.of_class("woken").unwrap();
        assert_eq!((latency.count, latency.min_ns, latency.max_ns), (4, 5, 25));
        assert_eq!(latency.mean_ns, (15 + 25 + 5 + 15) / 4);
        assert_eq!(delays.of_class("waker"), None);
    }
}
