//! Items by the threads' stretches.

use std::ops::Range;

use crate::recorded::threads::Thread;

/// The numbers of items, by the stretches that they belong to, in order of their numbers in each.
pub(super) struct ByStretch {
    /// The number of each thread's first stretch, of those of all threads.
    first: Vec<usize>,
    /// Where the items of each stretch begin, and the end.
    begins: Vec<usize>,
    items: Vec<usize>,
}

impl ByStretch {
    /// Takes each item's number and its thread and stretch.
    pub(super) fn new(threads: &[Thread], items: impl Iterator<Item = (usize, (usize, usize))> + Clone) -> Self {
        let mut all = 0;
        let count = |thread: &Thread| {
            let first = all;
            all += thread.stretches.len();
            first
        };
        let first: Vec<usize> = threads.iter().map(count).collect();
        // First, each number is that of the next stretch's items; then, where this stretch's next item is.
        let mut begins = vec![0; all + 2];
        for (_, (thread, stretch)) in items.clone() {
            begins[first[thread] + stretch + 2] += 1;
        }
        for next in 2..begins.len() {
            begins[next] += begins[next - 1];
        }
        let mut sorted = vec![0; begins[all + 1]];
        for (item, (thread, stretch)) in items {
            let place = &mut begins[first[thread] + stretch + 1];
            sorted[*place] = item;
            *place += 1;
        }
        begins.pop();
        Self { first, begins, items: sorted }
    }

    /// Returns the items of a stretch.
    pub(super) fn of(&self, thread: usize, stretch: usize) -> &[usize] {
        &self.items[self.range(self.first[thread] + stretch)]
    }

    /// Returns the last item of a thread before that stretch.
    pub(super) fn before(&self, thread: usize, stretch: usize) -> Option<usize> {
        let first = self.first[thread];
        self.items[self.begins[first]..self.begins[first + stretch]].last().copied()
    }

    /// Returns the items of each stretch that has any, with its thread and number.
    pub(super) fn iter(&self) -> impl Iterator<Item = ((usize, usize), &[usize])> {
        let stretches = self.begins.len() - 1;
        let ends = self.first.iter().skip(1).copied().chain([stretches]);
        let all = self.first.iter().zip(ends).enumerate();
        all.flat_map(move |(thread, (&first, end))| {
            (first..end).map(move |number| ((thread, number - first), &self.items[self.range(number)]))
        })
        .filter(|(_, items)| !items.is_empty())
    }

    fn range(&self, number: usize) -> Range<usize> {
        self.begins[number]..self.begins[number + 1]
    }
}
