//! The event queue: a tournament over *sources*, ordered by (time, order of arming).
//!
//! A source is anything that has at most one event to come: a CPU's execution, its tick, an interrupt on its way to
//! it, a task's sleep timer. Every source has a fixed place among the leaves, four to a cache line (those of one CPU,
//! as it happens), and every line knows its least on the line above. Arming moves nothing: the key is written over the
//! old one, and the way up ends at the first line whose least it does not change. That is nearly always soon: most
//! armings put a CPU's execution off, or back, while its tick stays the first thing to come.
//!
//! [`Queue::next`] leaves the entry it returns in its place until the next call: most handlers arm the same source
//! again, which then costs one way up instead of two.

/// Index of a source.
pub(crate) type Source = u32;

/// Sources fit in this many bits of a key; the rest counts the armings, so that events of one instant come in the
/// order in which they were armed.
const SOURCE_BITS: u32 = 24;
/// How many sources there can be.
pub(crate) const MAX_SOURCES: usize = 1 << SOURCE_BITS;
const SOURCE_MASK: u64 = (1 << SOURCE_BITS) - 1;
const MAX_SEQUENCE: u64 = u64::MAX >> SOURCE_BITS;
/// Keys to a cache line.
const ARITY: usize = 4;
/// The key of what is not armed: greater than every other.
const NOTHING: u128 = u128::MAX;
/// Four keys in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u128; ARITY]);

impl Line {
    const EMPTY: Self = Self([NOTHING; ARITY]);

    /// Selections, not branches: which is least cannot be predicted.
    #[inline]
    fn least(&self) -> u128 {
        let [a, b, c, d] = self.0;
        let (left, right) = (if b < a { b } else { a }, if d < c { d } else { c });
        if right < left { right } else { left }
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Keys: time in the upper half, then sequence, then source. The root is line 0; place `p` of line `l` holds the least
    /// of line `ARITY * l + 1 + p`. The sources themselves are in the last lines, from `leaves` on.
    lines: Vec<Line>,
    leaves: usize,
    /// The least of all.
    first: u128,
    sequence: u64,
    /// `first` has been returned and not been armed again.
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
        let mut queue = Self { first: NOTHING, ..Self::default() };
        queue.lay_out(sources);
        queue
    }

    /// Empty lines for so many sources.
    fn lay_out(&mut self, sources: usize) {
        let leaves = sources.div_ceil(ARITY).max(1);
        // Every line but the root has a place in a line above.
        self.leaves = (leaves - 1).div_ceil(ARITY - 1);
        self.lines = vec![Line::EMPTY; self.leaves + leaves];
    }

    /// The keys of all sources.
    fn keys(&self) -> Vec<u128> {
        self.lines[self.leaves..].iter().flat_map(|line| line.0).collect()
    }

    /// Makes room for `source`, not armed.
    pub(crate) fn ensure(&mut self, source: Source) {
        if (self.lines.len() - self.leaves) * ARITY <= source as usize {
            let keys = self.keys();
            // Twice the room each time, so that growing costs each source a few nanoseconds.
            self.lay_out((source as usize + 1).max(2 * keys.len()));
            self.refill(&keys);
        }
    }

    /// Puts keys into empty lines.
    fn refill(&mut self, keys: &[u128]) {
        self.first = NOTHING;
        for &key in keys.iter().filter(|&&key| key != NOTHING) {
            self.set(source_of(key), key);
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
        if source == source_of(self.first) {
            self.fired = false;
        }
        self.set(source, key);
    }

    /// `source` does not fire.
    #[inline]
    pub(crate) fn cancel(&mut self, source: Source) {
        if source == source_of(self.first) {
            self.fired = false;
        }
        self.set(source, NOTHING);
    }

    /// Whether `source` is armed and has not fired.
    #[cfg(test)]
    fn is_armed(&self, source: Source) -> bool {
        let key = self.lines[self.leaves + source as usize / ARITY].0[source as usize % ARITY];
        key != NOTHING && !(key == self.first && self.fired)
    }

    /// The source that fires next, and when. The source is disarmed by the next call unless it is armed again.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(u64, Source)> {
        if self.fired {
            self.set(source_of(self.first), NOTHING);
        }
        self.fired = self.first != NOTHING;
        self.fired.then(|| (time_of(self.first), source_of(self.first)))
    }

    /// Writes a source's key, and what follows from it on the lines above.
    #[inline]
    fn set(&mut self, source: Source, key: u128) {
        let (mut line, mut place, mut key) = (self.leaves + source as usize / ARITY, source as usize % ARITY, key);
        loop {
            let this = &mut self.lines[line];
            this.0[place] = key;
            key = this.least();
            if line == 0 {
                self.first = key;
                return;
            }
            (line, place) = ((line - 1) / ARITY, (line - 1) % ARITY);
            // The line above knew this least already: nothing changes from here on.
            if self.lines[line].0[place] == key {
                return;
            }
        }
    }

    /// The counter of armings is exhausted (after 10^12 of them): number what is armed from 0 again, keeping its order.
    #[cold]
    fn renumber(&mut self) {
        let mut keys = self.keys();
        keys.sort_unstable();
        self.lines.fill(Line::EMPTY);
        for (sequence, old) in (0..).zip(keys.iter_mut().filter(|key| **key != NOTHING)) {
            *old = key(time_of(*old), sequence, source_of(*old));
            self.sequence = sequence + 1;
        }
        self.refill(&keys);
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
