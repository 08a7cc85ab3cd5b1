//! The event queue: two tournaments over *sources*, ordered by time, then by arming.
//!
//! A source has at most one pending event: a CPU's execution, its tick, an interrupt on its way, its sleepers' device,
//! a task's start. Each source has a leaf in a tournament. Eight leaves are a line, and the line above has each line's
//! minimum. Arming overwrites the key and updates the lines above, up to the first with an unchanged minimum.
//!
//! CPUs' executions, the first `near` sources of [`Queue::new`], are armed several times as often as others. Their own
//! tournament keeps their paths short.
//!
//! [`Queue::next`] leaves the returned entry in place until the next call. Most handlers arm the same source again,
//! which then updates one path instead of two.

pub(crate) type Source = u32;

/// The bits of a key for sources. The rest counts armings, which order events of one instant.
const SOURCE_BITS: u32 = 24;
pub(crate) const MAX_SOURCES: usize = 1 << SOURCE_BITS;
const SOURCE_MASK: u64 = (1 << SOURCE_BITS) - 1;
const MAX_SEQUENCE: u64 = u64::MAX >> SOURCE_BITS;
/// Keys per line. The minimum of eight takes little longer than of four, and paths are a third shorter.
const ARITY: usize = 8;
const NOTHING: u128 = u128::MAX;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u128; ARITY]);

impl Line {
    const EMPTY: Self = Self([NOTHING; ARITY]);

    /// Returns the minimum by selections, since branches would be unpredictable.
    #[inline]
    fn least(&self) -> u128 {
        let less = |one: u128, other: u128| if other < one { other } else { one };
        let [k0, k1, k2, k3, k4, k5, k6, k7] = self.0;
        less(less(less(k0, k1), less(k2, k3)), less(less(k4, k5), less(k6, k7)))
    }
}

#[derive(Debug)]
struct Tournament {
    /// The root is line 0; place `p` of line `l` has the minimum of line `ARITY * l + 1 + p`. Leaves are in the last
    /// lines, from `leaves` on.
    lines: Vec<Line>,
    leaves: usize,
    first: u128,
}

impl Tournament {
    fn new(slots: usize) -> Self {
        let leaves = slots.div_ceil(ARITY).max(1);
        // Every line but the root has a place in a line above.
        let inner = (leaves - 1).div_ceil(ARITY - 1);
        Self { lines: vec![Line::EMPTY; inner + leaves], leaves: inner, first: NOTHING }
    }

    fn slots(&self) -> usize {
        (self.lines.len() - self.leaves) * ARITY
    }

    fn keys(&self) -> impl Iterator<Item = u128> {
        self.lines[self.leaves..].iter().flat_map(|line| line.0)
    }

    /// Writes a leaf's key, and updates the lines above. Searches a line only if its minimum becomes later, since an
    /// earlier key is the minimum.
    #[inline]
    fn set(&mut self, place: usize, key: u128) {
        let (mut line, mut place, mut key) = (self.leaves + place / ARITY, place % ARITY, key);
        loop {
            let (above, at) = if line == 0 { (0, 0) } else { ((line - 1) / ARITY, (line - 1) % ARITY) };
            let known = if line == 0 { self.first } else { self.lines[above].0[at] };
            let this = &mut self.lines[line];
            let before = core::mem::replace(&mut this.0[place], key);
            if key >= known {
                if before != known {
                    return;
                }
                key = this.least();
            }
            if line == 0 {
                self.first = key;
                return;
            }
            (line, place) = (above, at);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Queue {
    /// Keys: time in the upper half, then sequence, then source.
    near: Tournament,
    far: Tournament,
    nr_near: u32,
    sequence: u64,
    /// The last returned source, if not armed or cancelled since. Its key, the minimum, is void.
    fired: Option<Source>,
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
    /// Creates a queue of unarmed sources. The first `near` are armed most often.
    pub(crate) fn new(near: usize, sources: usize) -> Self {
        debug_assert!(near <= sources && sources <= MAX_SOURCES);
        let (first, rest) = (Tournament::new(near), Tournament::new(sources - near));
        Self { near: first, far: rest, nr_near: near as u32, sequence: 0, fired: None }
    }

    pub(crate) fn ensure(&mut self, source: Source) {
        let place = source.saturating_sub(self.nr_near) as usize;
        if self.far.slots() <= place {
            // Doubling the room keeps the cost of growth at a few nanoseconds per source.
            let mut larger = Tournament::new((place + 1).max(2 * self.far.slots()));
            for (place, key) in self.far.keys().enumerate().filter(|(_, key)| *key != NOTHING) {
                larger.set(place, key);
            }
            self.far = larger;
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // what most events do most, in few slots: calls would be a fifth of it
    fn set(&mut self, source: Source, key: u128) {
        if source < self.nr_near {
            self.near.set(source as usize, key);
        } else {
            self.set_far(source, key);
        }
    }

    /// Separate, because most events are near.
    #[inline(never)]
    fn set_far(&mut self, source: Source, key: u128) {
        self.far.set((source - self.nr_near) as usize, key);
    }

    #[inline]
    fn first(&self) -> u128 {
        self.near.first.min(self.far.first)
    }

    #[inline]
    fn rearmed(&mut self, source: Source) {
        if self.fired == Some(source) {
            self.fired = None;
        }
    }

    /// Arms `source` for `time` instead of any earlier arming.
    #[inline(always)]
    #[allow(clippy::inline_always)] // what most events do most, in few slots: calls would be a fifth of it
    pub(crate) fn arm(&mut self, source: Source, time: u64) {
        if self.sequence == MAX_SEQUENCE {
            self.renumber();
        }
        let key = key(time, self.sequence, source);
        self.sequence += 1;
        self.rearmed(source);
        self.set(source, key);
    }

    #[inline]
    pub(crate) fn cancel(&mut self, source: Source) {
        self.rearmed(source);
        self.set(source, NOTHING);
    }

    /// Returns the next source and its time. The next call disarms it.
    #[inline(always)]
    #[allow(clippy::inline_always)] // what most events do most, in few slots: calls would be a fifth of it
    pub(crate) fn next(&mut self) -> Option<(u64, Source)> {
        if let Some(fired) = self.fired.take() {
            self.set(fired, NOTHING);
        }
        let first = self.first();
        if first == NOTHING {
            return None;
        }
        let source = source_of(first);
        self.fired = Some(source);
        Some((time_of(first), source))
    }

    pub(crate) fn armed_for(&self, source: Source) -> Option<u64> {
        let near = source < self.nr_near;
        let tournament = if near { &self.near } else { &self.far };
        let place = (if near { source } else { source - self.nr_near }) as usize;
        let key = tournament.lines[tournament.leaves + place / ARITY].0[place % ARITY];
        (key != NOTHING && self.fired != Some(source)).then(|| time_of(key))
    }

    pub(crate) fn peek(&mut self) -> Option<u64> {
        if let Some(fired) = self.fired.take() {
            self.set(fired, NOTHING);
        }
        let first = self.first();
        (first != NOTHING).then(|| time_of(first))
    }

    /// As [`Self::next`], if that is not after `now`.
    pub(crate) fn next_by(&mut self, now: u64) -> Option<(u64, Source)> {
        if self.peek()? <= now { self.next() } else { None }
    }

    /// Renumbers the armed sources when the counter is exhausted (after 10^12 armings).
    #[cold]
    fn renumber(&mut self) {
        let mut keys: Vec<u128> = self.near.keys().chain(self.far.keys()).filter(|&key| key != NOTHING).collect();
        keys.sort_unstable();
        self.near.lines.fill(Line::EMPTY);
        self.far.lines.fill(Line::EMPTY);
        self.sequence = 0;
        for old in keys {
            self.set(source_of(old), key(time_of(old), self.sequence, source_of(old)));
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
        let mut queue = Queue::new(1, 3);
        queue.arm(2, 5);
        queue.arm(0, 5);
        queue.arm(1, 4);
        queue.arm(2, 5); // armed again: now the youngest
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, [(4, 1), (5, 0), (5, 2)]);
    }

    #[test]
    fn renumbering_keeps_the_order() {
        let mut queue = Queue::new(4, 8);
        queue.sequence = MAX_SEQUENCE - 3;
        for source in [3, 1, 7, 0, 5] {
            queue.arm(source, 9);
        }
        assert_eq!(queue.sequence, 5);
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).map(|(_, source)| source).collect();
        assert_eq!(order, [3, 1, 7, 0, 5]);
    }

    proptest! {
        /// Compared with a sorted map.
        #[test]
        fn behaves_as_a_sorted_map(steps in prop::collection::vec((0u32..20, 0u64..50, 0u8..4), 1..400)) {
            let mut queue = Queue::new(6, 20);
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
                    prop_assert_eq!(queue.armed_for(source).is_some(), model.values().any(|other| *other == source));
                }
            }
        }
    }
}
