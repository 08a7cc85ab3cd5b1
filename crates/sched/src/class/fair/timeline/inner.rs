//! An inner node: up to sixteen children in order, with their fences and summaries.

use super::{Summary, before, earlier};

pub(super) const CHILDREN: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    /// After all entries of the child to the left, and not after any of this child. Valid if there is a child to the
    /// left.
    pub(super) fence: (u64, u64),
    pub(super) summary: Summary,
    pub(super) node: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Inner {
    fence_keys: [u64; CHILDREN],
    fence_seqs: [u64; CHILDREN],
    min_vruntimes: [u64; CHILDREN],
    /// The least vruntime of the child and all to its right. Late vruntimes arrive on the right.
    min_vruntimes_from: [u64; CHILDREN],
    min_slices: [u64; CHILDREN],
    max_slices: [u64; CHILDREN],
    nodes: [u32; CHILDREN],
    len: u32,
    /// In a free node, the next free one.
    pub(super) next_free: u32,
}

impl Inner {
    pub(super) const EMPTY: Self = Self {
        fence_keys: [0; CHILDREN],
        fence_seqs: [0; CHILDREN],
        min_vruntimes: [0; CHILDREN],
        min_vruntimes_from: [0; CHILDREN],
        min_slices: [0; CHILDREN],
        max_slices: [0; CHILDREN],
        nodes: [0; CHILDREN],
        len: 0,
        next_free: 0,
    };

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(super) const fn node(&self, at: usize) -> u32 {
        self.nodes[at]
    }

    pub(super) const fn child(&self, at: usize) -> Child {
        Child { fence: (self.fence_keys[at], self.fence_seqs[at]), summary: self.summary_of(at), node: self.nodes[at] }
    }

    pub(super) const fn set_node(&mut self, at: usize, node: u32) {
        self.nodes[at] = node;
    }

    pub(super) const fn set_fence(&mut self, at: usize, fence: (u64, u64)) {
        (self.fence_keys[at], self.fence_seqs[at]) = fence;
    }

    /// Returns the child for an entry with this key, behind all equal keys.
    #[inline]
    pub(super) fn child_for(&self, key: u64) -> usize {
        let len = self.len as u64;
        if !before(key, self.fence_keys[self.len() - 1]) {
            return self.len() - 1;
        }
        // The sign bit of key - fence is "the fence is after key", that of at - len is "the child exists".
        let after: u64 =
            (1..CHILDREN).map(|at| (key.wrapping_sub(self.fence_keys[at]) & (at as u64).wrapping_sub(len)) >> 63).sum();
        self.len() - 1 - after as usize
    }

    /// Returns the child that has the entry with this key and sequence number, if queued.
    #[inline]
    pub(super) fn child_of(&self, key: u64, seq: u64) -> usize {
        if self.len > 1 && before(key, self.fence_keys[1]) {
            return 0;
        }
        let mut at = self.child_for(key);
        while at > 0 && self.fence_keys[at] == key && self.fence_seqs[at] > seq {
            at -= 1;
        }
        at
    }

    #[inline]
    pub(super) const fn summary_of(&self, at: usize) -> Summary {
        Summary { min_vruntime: self.min_vruntimes[at], min_slice: self.min_slices[at], max_slice: self.max_slices[at] }
    }

    #[inline]
    pub(super) fn set_summary(&mut self, at: usize, summary: Summary) {
        self.min_slices[at] = summary.min_slice;
        self.max_slices[at] = summary.max_slice;
        self.min_vruntimes[at] = summary.min_vruntime;
        self.refresh_from(at);
    }

    #[inline]
    pub(super) fn widen(&mut self, at: usize, by: Summary) {
        if by.min_slice < self.min_slices[at] {
            self.min_slices[at] = by.min_slice;
        }
        if by.max_slice > self.max_slices[at] {
            self.max_slices[at] = by.max_slice;
        }
        if before(by.min_vruntime, self.min_vruntimes[at]) {
            self.min_vruntimes[at] = by.min_vruntime;
            self.refresh_from(at);
        }
    }

    /// Updates `min_vruntimes_from` after a change of the child `at`.
    #[inline]
    fn refresh_from(&mut self, at: usize) {
        let mut least = self.min_vruntimes[at];
        if at + 1 < self.len() {
            least = earlier(least, self.min_vruntimes_from[at + 1]);
        }
        let mut at = at;
        while self.min_vruntimes_from[at] != least {
            self.min_vruntimes_from[at] = least;
            if at == 0 {
                return;
            }
            at -= 1;
            least = earlier(least, self.min_vruntimes[at]);
        }
    }

    fn refresh_all(&mut self) {
        let mut least = self.min_vruntimes[self.len() - 1];
        for at in (0..self.len()).rev() {
            least = earlier(least, self.min_vruntimes[at]);
            self.min_vruntimes_from[at] = least;
        }
    }

    pub(super) fn summary(&self) -> Summary {
        let len = self.len();
        Summary {
            min_vruntime: self.min_vruntimes_from[0],
            min_slice: self.min_slices[..len].iter().copied().min().unwrap_or(u64::MAX),
            max_slice: self.max_slices[..len].iter().copied().max().unwrap_or(0),
        }
    }

    /// As [`Self::summary`] after a removal, when it was `old`.
    #[inline]
    pub(super) fn summary_without(&self, old: Summary) -> Summary {
        let len = self.len();
        let mut summary = Summary { min_vruntime: self.min_vruntimes_from[0], ..old };
        if !self.min_slices[..len].contains(&old.min_slice) {
            summary.min_slice = self.min_slices[..len].iter().copied().min().unwrap_or(old.min_slice);
        }
        if !self.max_slices[..len].contains(&old.max_slice) {
            summary.max_slice = self.max_slices[..len].iter().copied().max().unwrap_or(old.max_slice);
        }
        summary
    }

    #[inline]
    pub(super) fn pick(&self, eligible: &impl Fn(u64) -> bool) -> Option<u32> {
        let at = self.min_vruntimes[..self.len()].iter().position(|&vruntime| eligible(vruntime))?;
        Some(self.nodes[at])
    }

    /// Inserts a child. The node must not be full.
    pub(super) fn insert(&mut self, at: usize, child: Child) {
        let len = self.len();
        self.fence_keys.copy_within(at..len, at + 1);
        self.fence_seqs.copy_within(at..len, at + 1);
        self.min_vruntimes.copy_within(at..len, at + 1);
        self.min_vruntimes_from.copy_within(at..len, at + 1);
        self.min_slices.copy_within(at..len, at + 1);
        self.max_slices.copy_within(at..len, at + 1);
        self.nodes.copy_within(at..len, at + 1);
        self.len += 1;
        self.put(at, child);
        // The last place was free, so `refresh_from` has nothing to compare.
        self.min_vruntimes_from[at] = child.summary.min_vruntime;
        if at < len {
            self.min_vruntimes_from[at] = earlier(child.summary.min_vruntime, self.min_vruntimes_from[at + 1]);
        }
        if at > 0 {
            self.refresh_from(at - 1);
        }
    }

    /// Appends the children of `other` from `from` on. There must be room.
    pub(super) fn append(&mut self, other: &Self, from: usize) {
        for at in from..other.len() {
            self.len += 1;
            self.put(self.len() - 1, other.child(at));
        }
        self.refresh_all();
    }

    fn put(&mut self, at: usize, child: Child) {
        self.set_fence(at, child.fence);
        self.min_vruntimes[at] = child.summary.min_vruntime;
        self.min_slices[at] = child.summary.min_slice;
        self.max_slices[at] = child.summary.max_slice;
        self.nodes[at] = child.node;
    }

    /// Removes a child, which must not be the only one.
    pub(super) fn remove(&mut self, at: usize) -> Child {
        let child = self.child(at);
        let len = self.len();
        self.fence_keys.copy_within(at + 1..len, at);
        self.fence_seqs.copy_within(at + 1..len, at);
        self.min_vruntimes.copy_within(at + 1..len, at);
        self.min_vruntimes_from.copy_within(at + 1..len, at);
        self.min_slices.copy_within(at + 1..len, at);
        self.max_slices.copy_within(at + 1..len, at);
        self.nodes.copy_within(at + 1..len, at);
        self.len -= 1;
        if at > 0 {
            self.refresh_from(at - 1);
        }
        child
    }

    /// Moves the children from `at`, not 0, to a new node.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let mut right = Self::EMPTY;
        right.append(self, at);
        self.len = at as u32;
        self.refresh_all();
        right
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        for at in 0..self.len() {
            let least = self.min_vruntimes[at..self.len()].iter().copied().reduce(earlier);
            assert_eq!(Some(self.min_vruntimes_from[at]), least);
        }
    }
}
