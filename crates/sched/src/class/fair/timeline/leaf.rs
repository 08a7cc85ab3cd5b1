//! A leaf: up to sixteen entries that never move, and their order as nibbles of a `u64`.
//!
//! Insertions and removals only shift nibbles (Mao, Kohler and Morris, "Cache craftiness for fast multicore key-value
//! storage", EuroSys 2012, section 4.6.2).

use super::{Entry, Summary, before};

/// Entries of a full leaf: the nibbles of a `u64`.
pub(super) const SLOTS: usize = 16;
/// "No node".
pub(super) const NONE: u32 = u32::MAX;

const IDENTITY: u64 = 0xfedc_ba98_7654_3210;
const ONES: u64 = 0x1111_1111_1111_1111;

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    keys: [u64; SLOTS],
    /// 0 for a free slot, which scans leave out.
    seqs: [u64; SLOTS],
    vruntimes: [u64; SLOTS],
    slices: [u64; SLOTS],
    entities: [u32; SLOTS],
    /// Nibble `i` is the slot of the entry in place `i`; beyond `len`, a free slot.
    order: u64,
    len: u32,
    /// The next leaf; in a free leaf, the next free one.
    pub(super) next: u32,
}

impl Leaf {
    pub(super) const EMPTY: Self = Self {
        keys: [0; SLOTS],
        seqs: [0; SLOTS],
        vruntimes: [0; SLOTS],
        slices: [0; SLOTS],
        entities: [0; SLOTS],
        order: IDENTITY,
        len: 0,
        next: NONE,
    };

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    const fn slot(&self, place: usize) -> usize {
        ((self.order >> (4 * place)) & 15) as usize
    }

    #[inline]
    pub(super) fn entry(&self, place: usize) -> Entry {
        debug_assert!(place < self.len());
        let slot = self.slot(place);
        Entry {
            key: self.keys[slot],
            seq: self.seqs[slot],
            vruntime: self.vruntimes[slot],
            slice: self.slices[slot],
            entity: self.entities[slot],
        }
    }

    /// Returns the place after all entries whose key is equal or before.
    #[inline]
    pub(super) fn place_for(&self, key: u64) -> usize {
        // A requeued entity is mostly the last.
        if self.len > 0 && !before(key, self.keys[self.slot(self.len() - 1)]) {
            return self.len();
        }
        // The sign bit of key - k is "k is after key", that of -seq is "the slot is used".
        let mut after = [0_u64; 4];
        for (keys, seqs) in self.keys.as_chunks::<4>().0.iter().zip(self.seqs.as_chunks::<4>().0) {
            for lane in 0..4 {
                after[lane] += (key.wrapping_sub(keys[lane]) & seqs[lane].wrapping_neg()) >> 63;
            }
        }
        self.len() - (after[0] + after[1] + after[2] + after[3]) as usize
    }

    #[inline]
    pub(super) fn place_of(&self, seq: u64) -> Option<usize> {
        if self.len > 0 && self.seqs[self.slot(0)] == seq {
            return Some(0);
        }
        let slot = self.seqs.iter().position(|&other| other == seq)?;
        // Finds the nibble that equals `slot`, which is 0 after the xor. The lowest 0 is found exactly by the borrow.
        let differs = self.order ^ (slot as u64 * ONES);
        let zero = differs.wrapping_sub(ONES) & !differs & (ONES << 3);
        Some(zero.trailing_zeros() as usize / 4)
    }

    /// Inserts an entry. The leaf must not be full.
    #[inline]
    pub(super) fn insert(&mut self, place: usize, entry: Entry) {
        debug_assert!(place <= self.len() && self.len() < SLOTS);
        let slot = self.slot(self.len());
        self.put(slot, entry);
        let below = (1 << (4 * place)) - 1;
        let used = u64::MAX >> (60 - 4 * self.len());
        let moved = (self.order & used & !below) << 4;
        self.order = (self.order & (!used | below)) | (moved & used) | ((slot as u64) << (4 * place));
        self.len += 1;
    }

    /// Appends an entry. The leaf must not be full.
    pub(super) fn push(&mut self, entry: Entry) {
        self.put(self.slot(self.len()), entry);
        self.len += 1;
    }

    #[inline]
    fn put(&mut self, slot: usize, entry: Entry) {
        self.keys[slot] = entry.key;
        self.seqs[slot] = entry.seq;
        self.vruntimes[slot] = entry.vruntime;
        self.slices[slot] = entry.slice;
        self.entities[slot] = entry.entity;
    }

    #[inline]
    pub(super) fn remove(&mut self, place: usize) -> u32 {
        debug_assert!(place < self.len());
        let slot = self.slot(place);
        self.seqs[slot] = 0;
        self.len -= 1;
        let below = (1 << (4 * place)) - 1;
        let used = u64::MAX >> (60 - 4 * self.len());
        let moved = ((self.order & used) >> 4) & !below;
        self.order = (self.order & (!used | below)) | moved | ((slot as u64) << (4 * self.len()));
        self.entities[slot]
    }

    /// Moves the entries from `place` on to `right`, which follows this leaf and loses its own.
    pub(super) fn split_off(&mut self, place: usize, right: &mut Self) {
        right.seqs = [0; SLOTS];
        right.order = IDENTITY;
        right.len = 0;
        right.next = self.next;
        for from in place..self.len() {
            right.push(self.entry(from));
            self.seqs[self.slot(from)] = 0;
        }
        self.len = place as u32;
    }

    #[inline]
    pub(super) fn pick(&self, eligible: &impl Fn(u64) -> bool) -> Option<Entry> {
        (0..self.len()).find(|&place| eligible(self.vruntimes[self.slot(place)])).map(|place| self.entry(place))
    }

    /// Returns the summary. The leaf must not be empty.
    pub(super) fn summary(&self) -> Summary {
        Summary { min_vruntime: self.min_vruntime(), min_slice: self.min_slice(), max_slice: self.max_slice() }
    }

    /// Returns the summary after a removal from `old`. The leaf must not be empty. Most slices are equal, so an equal
    /// slice mostly proves the old bound.
    #[inline]
    pub(super) fn summary_without(&self, old: Summary) -> Summary {
        let mut summary = Summary { min_vruntime: self.min_vruntime(), ..old };
        if !self.slices().any(|slice| slice == old.min_slice) {
            summary.min_slice = self.min_slice();
        }
        if !self.slices().any(|slice| slice == old.max_slice) {
            summary.max_slice = self.max_slice();
        }
        summary
    }

    /// Returns the least vruntime. The leaf must not be empty.
    #[inline]
    pub(super) fn min_vruntime(&self) -> u64 {
        // Distances from any vruntime compare as signed numbers. Four chains of comparisons are shorter than one.
        let base = self.vruntimes[self.slot(0)];
        let mut ahead = [0_i64; 4];
        for (vruntimes, seqs) in self.vruntimes.as_chunks::<4>().0.iter().zip(self.seqs.as_chunks::<4>().0) {
            for lane in 0..4 {
                // A free slot counts as the base.
                let something = u64::from(seqs[lane] == 0).wrapping_sub(1);
                ahead[lane] = ahead[lane].min((vruntimes[lane].wrapping_sub(base) & something) as i64);
            }
        }
        base.wrapping_add(ahead[0].min(ahead[1]).min(ahead[2].min(ahead[3])) as u64)
    }

    #[inline]
    pub(super) fn min_slice(&self) -> u64 {
        self.slices().min().unwrap_or(u64::MAX)
    }

    #[inline]
    pub(super) fn max_slice(&self) -> u64 {
        self.slices().max().unwrap_or(0)
    }

    #[inline]
    fn slices(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).map(|place| self.slices[self.slot(place)])
    }

    /// Checks that `order` is a permutation, and that free slots are marked.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut seen = 0_u32;
        for place in 0..SLOTS {
            seen |= 1 << self.slot(place);
            assert_eq!(place < self.len(), self.seqs[self.slot(place)] != 0, "live slots and len agree");
        }
        assert_eq!(seen, 0xffff, "order is a permutation");
    }
}
