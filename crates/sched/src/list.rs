//! Lists of a run queue's tasks: a task is on one at a time, and leaves it without a search.

use crate::arena::Arena;

/// No neighbour.
pub(crate) const NIL: u32 = u32::MAX;

/// An item that can be on a list: it has neighbours, or [`NIL`].
pub(crate) trait Linked {
    fn before(&self) -> u32;
    fn after(&self) -> u32;
    fn set_before(&mut self, index: u32);
    fn set_after(&mut self, index: u32);
}

/// Ends of a list, linked through their neighbours ([`Linked`]).
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
    pub(crate) fn push_back<T: Linked>(&mut self, tasks: &mut Arena<T>, index: u32) {
        let before = self.last;
        let task = &mut tasks[index];
        task.set_after(NIL);
        task.set_before(before);
        if before == NIL {
            self.first = index;
        } else {
            tasks[before].set_after(index);
        }
        self.last = index;
    }

    pub(crate) fn push_front<T: Linked>(&mut self, tasks: &mut Arena<T>, index: u32) {
        let after = self.first;
        let task = &mut tasks[index];
        task.set_before(NIL);
        task.set_after(after);
        if after == NIL {
            self.last = index;
        } else {
            tasks[after].set_before(index);
        }
        self.first = index;
    }

    #[inline]
    pub(crate) fn remove<T: Linked>(&mut self, tasks: &mut Arena<T>, index: u32) {
        let task = &tasks[index];
        let (before, after) = (task.before(), task.after());
        if after == NIL {
            self.last = before;
        } else {
            tasks[after].set_before(before);
        }
        if before == NIL {
            self.first = after;
        } else {
            tasks[before].set_after(after);
        }
    }

    pub(crate) fn iter<T: Linked>(self, tasks: &Arena<T>) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(self.first(), |&index| {
            let after = tasks[index].after();
            (after != NIL).then_some(after)
        })
    }
}
