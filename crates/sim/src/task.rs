//! One task as the machine sees it: where it is in its program. The scheduler keeps the rest.

use vruntime_sched::event::OverheadKind;

/// No task.
pub(crate) const NOBODY: u32 = u32::MAX;

/// What happens when the CPU has paid its debts and done the task's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The instruction at `pc` begins.
    Fetch,
    /// The work of the instruction at `pc` is done.
    Worked,
    /// The way into the kernel is paid: the instruction at `pc` takes effect.
    Enter,
    /// The task goes to sleep, unless it has been woken since.
    Sleep,
    /// The task has been woken and is back: the instruction at `pc` goes on.
    Return,
    /// As `Enter`, for taking the mutex of the instruction at `pc`.
    EnterLock,
    /// As `Return`, for taking the mutex of the instruction at `pc`.
    ReturnLock,
}

impl Next {
    /// Whether the task is in code of its own, where it can be preempted under every preemption model.
    pub(crate) const fn in_user_mode(self) -> bool {
        matches!(self, Self::Fetch | Self::Worked)
    }
}

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Its start is still to come.
    New,
    /// Running or waiting to run.
    Runnable,
    /// Off its CPU until woken.
    Asleep,
    /// Gone.
    Dead,
}

/// The urgency a task was lent: the kernel's `prio`, and of a deadline task who lends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) prio: i16,
    pub(crate) by: u32,
}

impl Lent {
    pub(crate) const NOTHING: Self = Self { prio: i16::MAX, by: NOBODY };
}

/// A task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// Index of what it is an instance of, in the workload.
    pub(crate) template: u32,
    /// Where it is in the code.
    pub(crate) pc: u32,
    /// Who waits behind it for the same object.
    pub(crate) behind: u32,
    /// The CPU whose timer wakes it.
    pub(crate) timer_cpu: u32,
    /// First of the mutexes with priority inheritance that it holds and others wait for; the others through
    /// [`crate::sync::Mutex::next_held`].
    pub(crate) held: u32,
    /// Loops left of the phase.
    pub(crate) loops: u64,
    /// Rounds left of the program, this one included.
    pub(crate) rounds: u64,
    /// When the loop began.
    pub(crate) loop_start: u64,
    /// Work the loop has asked for.
    pub(crate) loop_work: u64,
    /// When its sleep is due; when it waits for an object, since when.
    pub(crate) due: u64,
    /// Work left while off the CPU, and what is done beyond it (see [`crate::cpu::Cpu`]).
    pub(crate) work: u64,
    pub(crate) fraction: u32,
    /// Preemptible kernel time still to be spent by it: see [`crate::cpu::Cpu::soft`].
    pub(crate) soft: u32,
    pub(crate) soft_kind: OverheadKind,
    pub(crate) unscaled: bool,
    /// What it was lent by those that wait for what it holds.
    pub(crate) lent: Lent,
    /// It slept in a system call, and pays the way out when it runs.
    pub(crate) owes_return: bool,
    /// Woken on its way to sleep.
    pub(crate) woken: bool,
    pub(crate) next: Next,
    pub(crate) life: Life,
}

impl Task {
    pub(crate) fn new(template: u32, pc: u32, rounds: u64) -> Self {
        Self {
            template,
            pc,
            behind: NOBODY,
            timer_cpu: 0,
            held: NOBODY,
            loops: 0,
            rounds,
            loop_start: 0,
            loop_work: 0,
            due: 0,
            work: 0,
            fraction: 0,
            soft: 0,
            soft_kind: OverheadKind::Migration,
            unscaled: false,
            lent: Lent::NOTHING,
            owes_return: false,
            woken: false,
            next: Next::Fetch,
            life: Life::New,
        }
    }
}

/// Tasks that wait for one object, in order of arrival: a list through [`Task::behind`].
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

    /// Who waits longest.
    pub(crate) fn first(self) -> Option<u32> {
        (self.first != NOBODY).then_some(self.first)
    }

    pub(crate) fn push(&mut self, tasks: &mut [Task], task: u32) {
        tasks[task as usize].behind = NOBODY;
        if self.first == NOBODY {
            self.first = task;
        } else {
            tasks[self.last as usize].behind = task;
        }
        self.last = task;
    }

    pub(crate) fn pop(&mut self, tasks: &mut [Task]) -> Option<u32> {
        let first = self.first()?;
        self.first = tasks[first as usize].behind;
        Some(first)
    }

    /// Before the first of those whom it `overtakes`.
    pub(crate) fn insert(&mut self, tasks: &mut [Task], task: u32, overtakes: impl Fn(u32) -> bool) {
        let (mut before, mut after) = (NOBODY, self.first);
        while after != NOBODY && !overtakes(after) {
            (before, after) = (after, tasks[after as usize].behind);
        }
        if after == NOBODY {
            self.push(tasks, task);
            return;
        }
        tasks[task as usize].behind = after;
        match before {
            NOBODY => self.first = task,
            before => tasks[before as usize].behind = task,
        }
    }

    /// Takes a task out that is in it.
    pub(crate) fn remove(&mut self, tasks: &mut [Task], task: u32) {
        let after = tasks[task as usize].behind;
        if self.first == task {
            self.first = after;
            return;
        }
        let mut before = self.first;
        while tasks[before as usize].behind != task {
            before = tasks[before as usize].behind;
        }
        tasks[before as usize].behind = after;
        if self.last == task {
            self.last = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_come_out_in_order_of_arrival() {
        let mut tasks: Vec<Task> = (0..4).map(|index| Task::new(index, 0, 1)).collect();
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
    fn the_urgent_overtake_and_anybody_may_leave() {
        let mut tasks: Vec<Task> = (0..6).map(|index| Task::new(index, 0, 1)).collect();
        let mut queue = WaitQueue::default();
        // Lower numbers are more urgent; 3 and 4 are equals.
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

    /// A million tasks have to fit.
    #[test]
    fn a_task_is_small() {
        assert!(size_of::<Task>() <= 96, "{}", size_of::<Task>());
    }
}
