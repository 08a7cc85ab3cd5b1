//! A priority array: a queue per priority, and a bitmap of those not empty. First task, insertion and removal take
//! constant time: the name's O(1).
//!
//! The kernel's levels 0..=99 of 140 are for real-time tasks, here in `class/rt`.

use super::O1Task;
use crate::arena::Arena;
use crate::policy::Policy;
use crate::task::{NIL, Task};

/// The first level of ordinary tasks.
pub(super) const MAX_RT_PRIO: u8 = 100;
/// One more than the last level.
pub(super) const MAX_PRIO: u8 = 140;
const LEVELS: usize = (MAX_PRIO - MAX_RT_PRIO) as usize;

#[derive(Debug)]
pub(super) struct PrioArray {
    pub(super) nr_active: u32,
    /// The levels that have tasks, from level 100 on.
    bitmap: u64,
    /// The first and the last task of each level.
    queues: [(u32, u32); LEVELS],
}

impl Default for PrioArray {
    fn default() -> Self {
        Self { nr_active: 0, bitmap: 0, queues: [(NIL, NIL); LEVELS] }
    }
}

#[inline]
fn level(prio: u8) -> usize {
    usize::from(prio - MAX_RT_PRIO)
}

impl PrioArray {
    #[inline]
    pub(super) fn best(&self) -> Option<u8> {
        (self.bitmap != 0).then(|| MAX_RT_PRIO + self.bitmap.trailing_zeros() as u8)
    }

    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        Some(self.queues[level(self.best()?)].0)
    }

    pub(super) fn enqueue<P: Policy<Task = O1Task>>(&mut self, tasks: &mut Arena<Task<P>>, index: u32) {
        let task = &mut tasks[index].class;
        let level = level(task.prio);
        let queue = &mut self.queues[level];
        (task.before, task.after) = (queue.1, NIL);
        match queue.1 {
            NIL => queue.0 = index,
            last => tasks[last].class.after = index,
        }
        queue.1 = index;
        self.bitmap |= 1 << level;
        self.nr_active += 1;
    }

    /// Inserts a task directly before another of its level.
    pub(super) fn enqueue_before<P: Policy<Task = O1Task>>(
        &mut self,
        tasks: &mut Arena<Task<P>>,
        index: u32,
        other: u32,
    ) {
        let before = core::mem::replace(&mut tasks[other].class.before, index);
        let task = &mut tasks[index].class;
        (task.before, task.after) = (before, other);
        match before {
            NIL => self.queues[level(task.prio)].0 = index,
            before => tasks[before].class.after = index,
        }
        self.nr_active += 1;
    }

    /// The task must have the priority with which it was enqueued.
    pub(super) fn dequeue<P: Policy<Task = O1Task>>(&mut self, tasks: &mut Arena<Task<P>>, index: u32) {
        let O1Task { prio, before, after, .. } = tasks[index].class;
        let level = level(prio);
        let queue = &mut self.queues[level];
        match before {
            NIL => queue.0 = after,
            before => tasks[before].class.after = after,
        }
        match after {
            NIL => queue.1 = before,
            after => tasks[after].class.before = before,
        }
        if queue.0 == NIL {
            self.bitmap &= !(1 << level);
        }
        self.nr_active -= 1;
    }

    fn backwards<'a, P: Policy<Task = O1Task>>(
        &'a self,
        tasks: &'a Arena<Task<P>>,
        level: usize,
    ) -> impl Iterator<Item = u32> + 'a {
        let some = |index: u32| (index != NIL).then_some(index);
        core::iter::successors(some(self.queues[level].1), move |&index| some(tasks[index].class.before))
    }

    /// Returns all tasks, the first to run first.
    pub(super) fn in_order<'a, P: Policy<Task = O1Task>>(
        &'a self,
        tasks: &'a Arena<Task<P>>,
    ) -> impl Iterator<Item = u32> + 'a {
        let some = |index: u32| (index != NIL).then_some(index);
        self.queues.iter().flat_map(move |&(first, _)| {
            core::iter::successors(some(first), move |&index| some(tasks[index].class.after))
        })
    }

    /// Returns all tasks in the balancer's order: the most urgent level first, each from its end.
    pub(super) fn in_pull_order<'a, P: Policy<Task = O1Task>>(
        &'a self,
        tasks: &'a Arena<Task<P>>,
    ) -> impl Iterator<Item = u32> + 'a {
        (0..LEVELS).flat_map(move |level| self.backwards(tasks, level))
    }

    /// Checks count, bitmap, queues and priorities. Slow, for tests.
    pub(super) fn check<P: Policy<Task = O1Task>>(&self, tasks: &Arena<Task<P>>) -> Result<(), &'static str> {
        let mut count = 0;
        for level in 0..LEVELS {
            let mut after = NIL;
            for index in self.backwards(tasks, level) {
                count += 1;
                let task = &tasks[index].class;
                if task.prio != MAX_RT_PRIO + level as u8 || task.after != after {
                    return Err("a task is in the wrong queue of its priority array");
                }
                after = index;
            }
            if (self.bitmap >> level & 1 == 1) != (after != NIL) || self.queues[level].0 != after {
                return Err("the bitmap of a priority array is not that of its queues");
            }
        }
        if count == self.nr_active { Ok(()) } else { Err("a priority array has miscounted its tasks") }
    }
}
