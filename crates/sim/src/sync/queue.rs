//! Wait queues (`kernel/sched/wait.c`): an object's waiters, and a wakeup's selection. `wait` has those that programs
//! use directly.

use vruntime_sched::event::OverheadKind;
use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;
use vruntime_workload::program::WaitMode;

use crate::machine::Machine;
use crate::program::Code;
use crate::task::{NOBODY, Task, Timeout};

/// An object's waiters, in order of wakeups: a list linked by [`Task::behind`], and backwards by [`Task::ahead`]. The
/// first waiter's `ahead` has no meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitQueue {
    first: u32,
    last: u32,
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self { first: NOBODY, last: NOBODY }
    }
}

impl WaitQueue {
    pub(crate) fn is_empty(self) -> bool {
        self.first == NOBODY
    }

    pub(crate) fn first(self) -> Option<u32> {
        (self.first != NOBODY).then_some(self.first)
    }

    /// Adds a task at the tail.
    pub(crate) fn push(&mut self, tasks: &mut [Task], task: u32) {
        let this = &mut tasks[task as usize];
        (this.ahead, this.behind) = (self.last, NOBODY);
        if self.first == NOBODY {
            self.first = task;
        } else {
            tasks[self.last as usize].behind = task;
        }
        self.last = task;
    }

    /// Adds a task at the head.
    pub(crate) fn push_front(&mut self, tasks: &mut [Task], task: u32) {
        let first = self.first;
        if first == NOBODY {
            self.push(tasks, task);
            return;
        }
        tasks[task as usize].behind = first;
        tasks[first as usize].ahead = task;
        self.first = task;
    }

    pub(crate) fn pop(&mut self, tasks: &mut [Task]) -> Option<u32> {
        let first = self.first()?;
        self.first = tasks[first as usize].behind;
        Some(first)
    }

    /// Adds a task before the first one that it `overtakes`.
    pub(crate) fn insert(&mut self, tasks: &mut [Task], task: u32, overtakes: impl Fn(u32) -> bool) {
        let mut after = self.first;
        while after != NOBODY && !overtakes(after) {
            after = tasks[after as usize].behind;
        }
        if after == NOBODY {
            self.push(tasks, task);
        } else if after == self.first {
            self.push_front(tasks, task);
        } else {
            let before = std::mem::replace(&mut tasks[after as usize].ahead, task);
            tasks[before as usize].behind = task;
            let this = &mut tasks[task as usize];
            (this.ahead, this.behind) = (before, after);
        }
    }

    /// Returns the first task that `matches`.
    pub(crate) fn find(self, tasks: &[Task], matches: impl Fn(&Task) -> bool) -> Option<u32> {
        let mut next = self.first;
        while next != NOBODY && !matches(&tasks[next as usize]) {
            next = tasks[next as usize].behind;
        }
        (next != NOBODY).then_some(next)
    }

    pub(crate) fn remove(&mut self, tasks: &mut [Task], task: u32) {
        let Task { ahead, behind, .. } = tasks[task as usize];
        if self.first == task {
            self.first = behind;
            return;
        }
        tasks[ahead as usize].behind = behind;
        if behind == NOBODY {
            self.last = ahead;
        } else {
            tasks[behind as usize].ahead = ahead;
        }
    }
}

/// Whether the waiter counts towards the number of tasks that a wakeup wakes. Waiters of futexes and pipes do.
fn is_exclusive(code: Code) -> bool {
    !matches!(code, Code::WaitEvent { mode: WaitMode::Shared, .. })
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Wakes waiters of `queue` from its head on, until `nr` exclusive ones are woken (0: wakes all). The waking code
    /// runs on `cpu`. Returns the remaining queue. A waiter whose timeout has expired runs already: it stays in the
    /// queue, and does not count.
    pub(crate) fn wake_up(&mut self, cpu: usize, queue: WaitQueue, nr: u32, waker: Waker) -> WaitQueue {
        let mut queue = queue;
        let (mut next, mut left) = (queue.first(), nr);
        while let Some(waiter) = next {
            let this = &mut self.tasks[waiter as usize];
            next = (this.behind != NOBODY).then_some(this.behind);
            if this.wait.timeout == Timeout::Expired {
                continue;
            }
            this.wait.queued = false;
            let exclusive = is_exclusive(self.programs.code[this.pc as usize]);
            queue.remove(&mut self.tasks, waiter);
            if waker == Waker::Irq {
                self.core.charge(cpu, OverheadKind::Timer, self.core.costs.wakeup_ns);
                self.wake(waiter, cpu, waker);
            } else {
                self.wake_from_call(cpu, waiter, waker);
            }
            if exclusive && left == 1 {
                break;
            }
            left = left.saturating_sub(u32::from(exclusive));
        }
        queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::FIRST;

    #[test]
    fn waiters_come_out_in_order_of_arrival() {
        let mut tasks: Vec<Task> = (0..4).map(|index| Task::new(index, FIRST, 0, 1)).collect();
        let mut queue = WaitQueue::default();
        for task in [2, 0, 3] {
            queue.push(&mut tasks, task);
        }
        assert_eq!(queue.pop(&mut tasks), Some(2));
        queue.push(&mut tasks, 1);
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop(&mut tasks)).collect();
        assert_eq!(rest, [0, 3, 1]);
        assert!(queue.is_empty());
    }

    #[test]
    fn urgent_tasks_overtake_and_any_task_may_leave() {
        let mut tasks: Vec<Task> = (0..6).map(|index| Task::new(index, FIRST, 0, 1)).collect();
        let mut queue = WaitQueue::default();
        // Lower numbers are more urgent. 3 and 4 are equal.
        let rank = |task: u32| if task == 4 { 3 } else { task };
        for task in [3, 5, 1, 4, 0, 2] {
            queue.insert(&mut tasks, task, |other| rank(task) < rank(other));
        }
        queue.remove(&mut tasks, 1);
        queue.remove(&mut tasks, 5);
        queue.push(&mut tasks, 5);
        queue.remove(&mut tasks, 0);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(&mut tasks)).collect();
        assert_eq!(order, [2, 3, 4, 5]);
        assert!(queue.is_empty());
    }

    #[test]
    fn both_ends_and_the_middle() {
        let mut tasks: Vec<Task> = (0..5).map(|index| Task::new(index, FIRST, 0, 1)).collect();
        let mut queue = WaitQueue::default();
        queue.push_front(&mut tasks, 0);
        queue.push(&mut tasks, 1);
        queue.push_front(&mut tasks, 2);
        queue.push(&mut tasks, 3);
        queue.remove(&mut tasks, 0);
        queue.remove(&mut tasks, 3);
        queue.push(&mut tasks, 4);
        queue.remove(&mut tasks, 2);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(&mut tasks)).collect();
        assert_eq!(order, [1, 4]);
        queue.push_front(&mut tasks, 3);
        assert_eq!((queue.pop(&mut tasks), queue.is_empty()), (Some(3), true));
    }
}
