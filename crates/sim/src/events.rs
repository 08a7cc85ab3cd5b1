//! The event queue: an indexed 4-ary heap over *sources*, ordered by (time, order of arming).
//!
//! A source is anything that has at most one event to come: a CPU's execution, its tick, an interrupt on its way to
//! it, a task's sleep timer. Arming a source that is already armed moves its entry, so nothing stale is ever in the
//! heap, its size is bounded by the number of sources, and nothing is allocated once it has grown.
//!
//! [`Queue::next`] leaves the entry it returns at the top until the next call: most handlers arm the same source
//! again, which then costs one sift down instead of a removal and an insertion.

/// Index of a source.
pub(crate) type Source = u32;

/// Sources fit in this many bits of a key; the rest counts the armings, so that events of one instant come in the
/// order in which they were armed.
const SOURCE_BITS: u32 = 24;
/// How many sources there can be.
pub(crate) const MAX_SOURCES: usize = 1 << SOURCE_BITS;
const SOURCE_MASK: u64 = (1 << SOURCE_BITS) - 1;
const MAX_SEQUENCE: u64 = u64::MAX >> SOURCE_BITS;
const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Keys: time in the upper half, then sequence, then source.
    heap: Vec<u128>,
    /// Position in the heap of each source.
    position: Vec<u32>,
    sequence: u64,
    /// The top entry has been returned and not been armed again.
    fired: bool,
}

fn key(time: u64, sequence: u64, source: Source) -> u128 {
    u128::from(time) << 64 | u128::from(sequence << SOURCE_BITS | u64::from(source))
}

const fn source_of(key: u128) -> Source {
    (key as u64 & SOURCE_MASK) as Source
}

const fn time_of(key: u128) -> u64 {
    (key >> 64) as u64
}

impl Queue {
    /// A queue of `sources` sources, none armed.
    pub(crate) fn new(sources: usize) -> Self {
        debug_assert!(sources <= MAX_SOURCES);
        Self { heap: Vec::new(), position: vec![ABSENT; sources], sequence: 0, fired: false }
    }

    /// Makes room for `source`, not armed.
    pub(crate) fn ensure(&mut self, source: Source) {
        if self.position.len() <= source as usize {
            self.position.resize(source as usize + 1, ABSENT);
        }
    }

    /// `source` fires at `time`, instead of whenever it was armed for before.
    #[inline]
    pub(crate) fn arm(&mut self, source: Source, time: u64) {
        if self.sequence == MAX_SEQUENCE {
            self.renumber();
        }
        let key = key(time, self.sequence, source);
        self.sequence += 1;
        let position = self.position[source as usize];
        if position == ABSENT {
            self.heap.push(key);
            self.up(self.heap.len() - 1, key);
        } else {
            let position = position as usize;
            if position == 0 {
                self.fired = false;
            }
            if key < self.heap[position] { self.up(position, key) } else { self.down(position, key) }
        }
    }

    /// `source` does not fire.
    #[inline]
    pub(crate) fn cancel(&mut self, source: Source) {
        let position = self.position[source as usize];
        if position != ABSENT {
            if position == 0 {
                self.fired = false;
            }
            self.remove(position as usize);
        }
    }

    /// Whether `source` is armed and has not fired.
    #[cfg(test)]
    fn is_armed(&self, source: Source) -> bool {
        let position = self.position[source as usize];
        position != ABSENT && !(position == 0 && self.fired)
    }

    /// The source that fires next, and when. The source is disarmed by the next call unless it is armed again.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(u64, Source)> {
        if self.fired {
            self.remove(0);
        }
        let top = *self.heap.first()?;
        self.fired = true;
        Some((time_of(top), source_of(top)))
    }

    fn remove(&mut self, position: usize) {
        if position == 0 {
            self.fired = false;
        }
        self.position[source_of(self.heap[position]) as usize] = ABSENT;
        let last = self.heap.pop().unwrap_or_default();
        if position < self.heap.len() {
            if last < self.heap[position] { self.up(position, last) } else { self.down(position, last) }
        }
    }

    #[inline]
    fn put(&mut self, position: usize, key: u128) {
        self.heap[position] = key;
        self.position[source_of(key) as usize] = position as u32;
    }

    fn up(&mut self, mut position: usize, key: u128) {
        while position > 0 {
            let parent = (position - 1) / ARITY;
            // A top that has fired stays in its place until it is armed again or removed, whatever the others do:
            // its key is not greater than any other, so nothing passes it.
            if self.heap[parent] <= key {
                break;
            }
            self.put(position, self.heap[parent]);
            position = parent;
        }
        self.put(position, key);
    }

    fn down(&mut self, mut position: usize, key: u128) {
        let len = self.heap.len();
        loop {
            let first = position * ARITY + 1;
            if first >= len {
                break;
            }
            let mut least = first;
            let mut least_key = self.heap[first];
            for child in first + 1..len.min(first + ARITY) {
                let child_key = self.heap[child];
                if child_key < least_key {
                    least = child;
                    least_key = child_key;
                }
            }
            if key <= least_key {
                break;
            }
            self.put(position, least_key);
            position = least;
        }
        self.put(position, key);
    }

    /// The counter of armings is exhausted (after 10^12 of them): number what is in the heap from 0 again, keeping
    /// its order.
    #[cold]
    fn renumber(&mut self) {
        let mut keys = std::mem::take(&mut self.heap);
        keys.sort_unstable();
        self.sequence = 0;
        for old in keys {
            self.heap.push(0);
            let fresh = key(time_of(old), self.sequence, source_of(old));
            self.put(self.heap.len() - 1, fresh);
            self.sequence += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn events_of_one_instant_come_in_the_order_they_were_armed() {
        let mut queue = Queue::new(3);
        queue.arm(2, 5);
        queue.arm(0, 5);
        queue.arm(1, 4);
        queue.arm(2, 5); // armed again: now the youngest
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, [(4, 1), (5, 0), (5, 2)]);
    }

    #[test]
    fn renumbering_keeps_the_order() {
        let mut queue = Queue::new(8);
        queue.sequence = MAX_SEQUENCE - 3;
        for source in [3, 1, 7, 0, 5] {
            queue.arm(source, 9);
        }
        assert_eq!(queue.sequence, 5);
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).map(|(_, source)| source).collect();
        assert_eq!(order, [3, 1, 7, 0, 5]);
    }

    proptest! {
        /// Against the plainest queue there is: a sorted map.
        #[test]
        fn behaves_as_a_sorted_map(steps in prop::collection::vec((0u32..20, 0u64..50, 0u8..4), 1..400)) {
            let mut queue = Queue::new(20);
            let mut model: BTreeMap<(u64, u64), Source> = BTreeMap::new();
            let mut sequence = 0;
            let mut now = 0;
            for (source, delay, what) in steps {
                match what {
                    0 | 1 => {
                        model.retain(|_, other| *other != source);
                        model.insert((now + delay, sequence), source);
                        sequence += 1;
                        queue.arm(source, now + delay);
                    }
                    2 => {
                        model.retain(|_, other| *other != source);
                        queue.cancel(source);
                    }
                    _ => {
                        let expected = model.pop_first().map(|((time, _), source)| (time, source));
                        prop_assert_eq!(queue.next(), expected);
                        now = expected.map_or(now, |(time, _)| time);
                    }
                }
                for source in 0..20 {
                    prop_assert_eq!(queue.is_armed(source), model.values().any(|other| *other == source));
                }
            }
        }
    }
}
