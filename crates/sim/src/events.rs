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
const ABSENT: u32 = u32::MAX;
/// Where the heap begins. With the root in the last place of its cache line, the four children of a node fill a line.
const ROOT: usize = ARITY - 1;
const ARITY: usize = 4;
/// What fills the places behind the end of the heap: greater than every key.
const NOTHING: u128 = u128::MAX;

/// Four siblings in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Siblings([u128; ARITY]);

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Keys: time in the upper half, then sequence, then source. The children of the node at place `p` are the siblings
    /// at `p - ROOT + 1`.
    heap: Vec<Siblings>,
    len: usize,
    /// Place in the heap of each source.
    place: Vec<u32>,
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
        let heap = vec![Siblings([NOTHING; ARITY]); 2];
        Self { heap, len: 0, place: vec![ABSENT; sources], sequence: 0, fired: false }
    }

    /// Makes room for `source`, not armed.
    pub(crate) fn ensure(&mut self, source: Source) {
        if self.place.len() <= source as usize {
            self.place.resize(source as usize + 1, ABSENT);
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
        let place = self.place[source as usize];
        if place == ABSENT {
            let end = ROOT + self.len;
            self.len += 1;
            if self.heap.len() <= end / ARITY {
                self.heap.push(Siblings([NOTHING; ARITY]));
            }
            self.up(end, key);
        } else {
            let place = place as usize;
            if place == ROOT {
                self.fired = false;
            }
            if key < self.at(place) { self.up(place, key) } else { self.down(place, key) }
        }
    }

    /// `source` does not fire.
    #[inline]
    pub(crate) fn cancel(&mut self, source: Source) {
        let place = self.place[source as usize];
        if place != ABSENT {
            self.remove(place as usize);
        }
    }

    /// Whether `source` is armed and has not fired.
    #[cfg(test)]
    fn is_armed(&self, source: Source) -> bool {
        let place = self.place[source as usize];
        place != ABSENT && !(place as usize == ROOT && self.fired)
    }

    /// The source that fires next, and when. The source is disarmed by the next call unless it is armed again.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(u64, Source)> {
        if self.fired {
            self.remove(ROOT);
        }
        if self.len == 0 {
            return None;
        }
        let top = self.at(ROOT);
        self.fired = true;
        Some((time_of(top), source_of(top)))
    }

    fn remove(&mut self, place: usize) {
        if place == ROOT {
            self.fired = false;
        }
        let gone = self.at(place);
        self.place[source_of(gone) as usize] = ABSENT;
        self.len -= 1;
        let end = ROOT + self.len;
        let last = self.at(end);
        self.heap[end / ARITY].0[end % ARITY] = NOTHING;
        if place < end {
            if last < gone { self.up(place, last) } else { self.down(place, last) }
        }
    }

    #[inline]
    fn at(&self, place: usize) -> u128 {
        self.heap[place / ARITY].0[place % ARITY]
    }

    #[inline]
    fn put(&mut self, place: usize, key: u128) {
        self.heap[place / ARITY].0[place % ARITY] = key;
        self.place[source_of(key) as usize] = place as u32;
    }

    #[inline]
    fn up(&mut self, mut place: usize, key: u128) {
        while place > ROOT {
            let parent = place / ARITY + ROOT - 1;
            // A top that has fired stays in its place until it is armed again or removed, whatever the others do:
            // its key is not greater than any other, so nothing passes it.
            let above = self.at(parent);
            if above <= key {
                break;
            }
            self.put(place, above);
            place = parent;
        }
        self.put(place, key);
    }

    #[inline]
    fn down(&mut self, mut place: usize, key: u128) {
        loop {
            let children = place - ROOT + 1;
            let Some(Siblings([a, b, c, d])) = self.heap.get(children).copied() else { break };
            // Selections, not branches: which child is least cannot be predicted.
            let (first, left) = if b < a { (b, 1) } else { (a, 0) };
            let (second, right) = if d < c { (d, 3) } else { (c, 2) };
            let (least, index) = if second < first { (second, right) } else { (first, left) };
            if key <= least {
                break;
            }
            self.put(place, least);
            place = children * ARITY + index;
        }
        self.put(place, key);
    }

    /// The counter of armings is exhausted (after 10^12 of them): number what is in the heap from 0 again, keeping
    /// its order.
    #[cold]
    fn renumber(&mut self) {
        let mut keys: Vec<u128> = (ROOT..ROOT + self.len).map(|place| self.at(place)).collect();
        keys.sort_unstable();
        self.sequence = 0;
        for (index, old) in keys.into_iter().enumerate() {
            let fresh = key(time_of(old), self.sequence, source_of(old));
            self.put(ROOT + index, fresh);
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
