//! Lists of a run queue's tasks: a task is on one at a time, and leaves it without a search.

use crate::arena::Arena;
use crate::policy::Policy;
use crate::task::{NIL, Task};

/// Ends of a list, linked through [`Task::before`] and [`Task::after`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskList {
    first: u32,
    last: u32,
}

impl Default for TaskList {
    fn default() -> Self {
        Self { first: NIL, last: NIL }
    }
}

impl TaskList {
    #[inline]
    pub(crate) fn first(self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    #[inline]
    pub(crate) fn last(self) -> Option<u32> {
        (self.last != NIL).then_some(self.last)
    }

    #[inline]
    pub(crate) fn push_back<P: Policy>(&mut self, tasks: &mut Arena<Task<P>>, index: u32) {
        let before = self.last;
        let task = &mut tasks[index];
        task.after = NIL;
        task.before = before;
        if before == NIL {
            self.first = index;
        } else {
            tasks[before].after = index;
        }
        self.last = index;
    }

    pub(crate) fn push_front<P: Policy>(&mut self, tasks: &mut Arena<Task<P>>, index: u32) {
        let after = self.first;
        let task = &mut tasks[index];
        task.before = NIL;
        task.after = after;
        if after == NIL {
            self.last = index;
        } else {
            tasks[after].before = index;
        }
        self.first = index;
    }

    #[inline]
    pub(crate) fn remove<P: Policy>(&mut self, tasks: &mut Arena<Task<P>>, index: u32) {
        let task = &tasks[index];
        let (before, after) = (task.before, task.after);
        if after == NIL {
            self.last = before;
        } else {
            tasks[after].before = before;
        }
        if before == NIL {
            self.first = after;
        } else {
            tasks[before].after = after;
        }
    }

    pub(crate) fn iter<P: Policy>(self, tasks: &Arena<Task<P>>) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(self.first(), |&index| {
            let after = tasks[index].after;
            (after != NIL).then_some(after)
        })
    }
}
