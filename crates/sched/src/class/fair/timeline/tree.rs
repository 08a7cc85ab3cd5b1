//! The head, which is the leaf with the first entries, and the B+tree behind it. Leaves are chained in order. All nodes
//! are in two arenas.
//!
//! Most entities leave from the front, which only changes the head. When that is empty, about once in a dozen removals,
//! the tree's first leaf becomes the head.
//!
//! Rules, which `check` verifies:
//!
//! * The head is not empty. Other nodes have at least [`MIN`] entries or children, the root one entry or two children.
//! * A parent has each child's exact summary; `summary` is the root's.
//! * A fence lies between two queued keys, so it compares with keys.

#[cfg(test)]
mod check;

use alloc::vec;
use alloc::vec::Vec;

use super::inner::{CHILDREN, Child, Inner};
use super::leaf::{Leaf, NONE, SLOTS};
use super::{Entry, Summary, before, earlier};

/// Least entries of a node, except for the root: a quarter, so that a split or filled node stays a while.
const MIN: usize = 4;
/// Most entries of two neighbours that merge, with room to grow.
const MERGE: usize = 15;
/// [`MIN`] to this power exceeds a `u32`.
const LEVELS: usize = 16;
const _: () = assert!(MERGE >= 3 * MIN && MERGE < SLOTS && SLOTS == CHILDREN);

#[derive(Clone, Debug)]
pub(super) struct Tree {
    leaves: Vec<Leaf>,
    inners: Vec<Inner>,
    head: u32,
    len: u32,
    /// A leaf if `levels` is 0; [`NONE`] if the head has all entries.
    root: u32,
    levels: u32,
    /// After the head's entries, and not after any of the tree. Valid if there is a tree.
    fence: (u64, u64),
    summary: Summary,
    free_leaf: u32,
    free_inner: u32,
}

/// From the root to a leaf: each level's inner node, and its child's index.
struct Path {
    steps: [(u32, u32); LEVELS],
}

impl Tree {
    /// Makes a tree of at least one entry, and at most a leaf of them. The entries are in order.
    pub(super) fn of(entries: &[Entry]) -> Self {
        let mut head = Leaf::EMPTY;
        for &entry in entries {
            head.push(entry);
        }
        Self {
            leaves: vec![head],
            inners: Vec::new(),
            head: 0,
            len: entries.len() as u32,
            root: NONE,
            levels: 0,
            fence: (0, 0),
            summary: Summary::of(0, 0),
            free_leaf: NONE,
            free_inner: NONE,
        }
    }

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(super) fn min_vruntime(&self) -> u64 {
        let head = self.leaf(self.head).min_vruntime();
        if self.has_tree() { earlier(head, self.summary.min_vruntime) } else { head }
    }

    #[inline]
    pub(super) fn min_slice(&self) -> u64 {
        let head = self.leaf(self.head).min_slice();
        if self.has_tree() { head.min(self.summary.min_slice) } else { head }
    }

    #[inline]
    pub(super) fn max_slice(&self) -> u64 {
        let head = self.leaf(self.head).max_slice();
        if self.has_tree() { head.max(self.summary.max_slice) } else { head }
    }

    #[inline]
    pub(super) fn first(&self) -> Entry {
        self.leaf(self.head).entry(0)
    }

    #[inline]
    pub(super) fn second(&self) -> Option<Entry> {
        self.entry_after(self.leaf(self.head), 0)
    }

    pub(super) fn last(&self) -> Entry {
        let mut node = self.root;
        if !self.has_tree() {
            node = self.head;
        }
        for _ in 0..self.levels {
            let inner = self.inner(node);
            node = inner.node(inner.len() - 1);
        }
        let leaf = self.leaf(node);
        leaf.entry(leaf.len() - 1)
    }

    pub(super) fn next_after(&self, key: u64, seq: u64) -> Option<Entry> {
        let mut node = self.head;
        if self.is_in_tree(key, seq) {
            node = self.root;
            for _ in 0..self.levels {
                let inner = self.inner(node);
                node = inner.node(inner.child_of(key, seq));
            }
        }
        let leaf = self.leaf(node);
        self.entry_after(leaf, leaf.place_of(seq)?)
    }

    #[inline]
    fn entry_after(&self, leaf: &Leaf, place: usize) -> Option<Entry> {
        if place + 1 < leaf.len() {
            Some(leaf.entry(place + 1))
        } else {
            self.leaves.get(leaf.next as usize).map(|next| next.entry(0))
        }
    }

    #[inline]
    pub(super) fn pick(&self, eligible: impl Fn(u64) -> bool) -> Option<Entry> {
        let in_head = self.leaf(self.head).pick(&eligible);
        if in_head.is_some() || !self.has_tree() {
            return in_head;
        }
        let mut node = self.root;
        for _ in 0..self.levels {
            node = self.inner(node).pick(&eligible)?;
        }
        self.leaf(node).pick(&eligible)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let follow = |leaf: &&Leaf| self.leaves.get(leaf.next as usize);
        core::iter::successors(self.leaves.get(self.head as usize), follow)
            .flat_map(|leaf| (0..leaf.len()).map(|place| leaf.entry(place)))
    }

    #[inline]
    const fn has_tree(&self) -> bool {
        self.root != NONE
    }

    /// Whether an entry, if queued, is in the tree and not in the head.
    #[inline]
    const fn is_in_tree(&self, key: u64, seq: u64) -> bool {
        let (fence_key, fence_seq) = self.fence;
        self.has_tree() && !before(key, fence_key) && (key != fence_key || seq >= fence_seq)
    }

    #[inline]
    pub(super) fn insert(&mut self, entry: Entry) {
        self.len += 1;
        if !self.is_in_tree(entry.key, entry.seq) {
            let head = &mut self.leaves[self.head as usize];
            let place = head.place_for(entry.key);
            if head.len() < SLOTS {
                head.insert(place, entry);
            } else {
                self.split_head(place, entry);
            }
            return;
        }
        let added = Summary::of(entry.vruntime, entry.slice);
        self.summary = self.summary.and(added);
        let mut path = Path { steps: [(0, 0); LEVELS] };
        let mut node = self.root;
        for level in 0..self.levels as usize {
            let inner = &mut self.inners[node as usize];
            let at = inner.child_for(entry.key);
            inner.widen(at, added);
            path.steps[level] = (node, at as u32);
            node = inner.node(at);
        }
        let leaf = &mut self.leaves[node as usize];
        let place = leaf.place_for(entry.key);
        if leaf.len() < SLOTS {
            leaf.insert(place, entry);
        } else {
            self.split(&path, node, place, entry);
        }
    }

    /// Splits a full head to add `entry`; the right half becomes the first leaf.
    #[cold]
    #[expect(clippy::unreachable, reason = "the new leaf is not the root")]
    fn split_head(&mut self, place: usize, entry: Entry) {
        let (right, first) = self.split_leaf(self.head, place, entry);
        let summary = self.leaf(right).summary();
        let old_fence = core::mem::replace(&mut self.fence, first);
        if !self.has_tree() {
            self.root = right;
            self.summary = summary;
            return;
        }
        self.summary = self.summary.and(summary);
        if self.levels == 0 && self.leaf(self.root).len() < MIN {
            // Too few for a child, but the new leaf has room for it.
            let old = self.root;
            let Ok([leaf, root]) = self.leaves.get_disjoint_mut([right as usize, old as usize]) else {
                unreachable!("a new leaf is not the root")
            };
            for place in 0..root.len() {
                leaf.push(root.entry(place));
            }
            leaf.next = NONE;
            self.root = right;
            self.free_leaf(old);
            return;
        }
        if self.levels == 0 {
            let old = Child { fence: old_fence, summary: self.leaf(self.root).summary(), node: self.root };
            self.add_root(Child { fence: first, summary, node: right }, old);
            return;
        }
        // The new leaf takes the place of the first leaf, which is inserted after it as if split off.
        let mut path = Path { steps: [(0, 0); LEVELS] };
        let mut node = self.root;
        for level in 0..self.levels as usize {
            path.steps[level] = (node, 0);
            let inner = &mut self.inners[node as usize];
            inner.widen(0, summary);
            node = inner.node(0);
        }
        let (bottom, _) = path.steps[self.levels as usize - 1];
        let leaf = self.leaf(node).summary();
        self.inners[bottom as usize].set_node(0, right);
        self.add_child(&path, summary, Child { fence: old_fence, summary: leaf, node });
    }

    /// Splits a full leaf to add `entry`. Returns the new leaf and its first key.
    #[expect(clippy::unreachable, reason = "the new leaf is not an old one")]
    fn split_leaf(&mut self, node: u32, place: usize, entry: Entry) -> (u32, (u64, u64)) {
        let id = self.new_leaf();
        let Ok([leaf, right]) = self.leaves.get_disjoint_mut([node as usize, id as usize]) else {
            unreachable!("a new leaf is not an old one")
        };
        // As time advances, most splits are at the end: a left half would stay half empty.
        let half = if place == SLOTS { SLOTS - MIN } else { SLOTS / 2 };
        leaf.split_off(half, right);
        leaf.next = id;
        if place <= half {
            leaf.insert(place, entry);
        } else {
            right.insert(place - half, entry);
        }
        let first = right.entry(0);
        (id, (first.key, first.seq))
    }

    #[cold]
    fn split(&mut self, path: &Path, node: u32, place: usize, entry: Entry) {
        let (right, fence) = self.split_leaf(node, place, entry);
        let new = Child { fence, summary: self.leaf(right).summary(), node: right };
        self.add_child(path, self.leaf(node).summary(), new);
    }

    /// Adds a leaf after `path`, whose summary is now `left`. Splits full inner nodes.
    fn add_child(&mut self, path: &Path, left: Summary, new: Child) {
        let (mut left, mut new) = (left, new);
        for &(node, at) in path.steps[..self.levels as usize].iter().rev() {
            let at = at as usize;
            let inner = &mut self.inners[node as usize];
            inner.set_summary(at, left);
            if inner.len() < CHILDREN {
                inner.insert(at + 1, new);
                return;
            }
            let mut right = inner.split_off(CHILDREN / 2);
            if at < CHILDREN / 2 {
                inner.insert(at + 1, new);
            } else {
                right.insert(at + 1 - CHILDREN / 2, new);
            }
            left = inner.summary();
            new = Child { fence: right.child(0).fence, summary: right.summary(), node: NONE };
            new.node = self.new_inner(right);
        }
        self.add_root(Child { fence: self.fence, summary: left, node: self.root }, new);
    }

    fn add_root(&mut self, left: Child, right: Child) {
        let mut root = Inner::EMPTY;
        root.insert(0, left);
        root.insert(1, right);
        self.root = self.new_inner(root);
        self.levels += 1;
    }

    #[inline]
    pub(super) fn remove(&mut self, key: u64, seq: u64) -> Option<u32> {
        if self.is_in_tree(key, seq) {
            return self.remove_from_tree(key, seq);
        }
        let head = &mut self.leaves[self.head as usize];
        let place = head.place_of(seq)?;
        let entity = head.remove(place);
        self.len -= 1;
        if head.is_empty() && self.root != NONE {
            self.advance_head();
        }
        Some(entity)
    }

    #[cold]
    fn advance_head(&mut self) {
        let empty = self.head;
        self.head = self.leaf(empty).next;
        self.free_leaf(empty);
        let levels = self.levels as usize;
        let mut path = Path { steps: [(0, 0); LEVELS] };
        let mut node = self.root;
        for step in &mut path.steps[..levels] {
            *step = (node, 0);
            node = self.inner(node).node(0);
        }
        let Some((&(parent, _), above)) = path.steps[..levels].split_last() else {
            self.root = NONE;
            return;
        };
        let inner = &mut self.inners[parent as usize];
        let gone = inner.remove(0);
        self.fence = inner.child(0).fence;
        self.shrink(above, parent, gone.summary);
    }

    fn remove_from_tree(&mut self, key: u64, seq: u64) -> Option<u32> {
        let levels = self.levels as usize;
        let mut path = Path { steps: [(0, 0); LEVELS] };
        let mut node = self.root;
        for level in 0..levels {
            let inner = self.inner(node);
            let at = inner.child_of(key, seq);
            path.steps[level] = (node, at as u32);
            node = inner.node(at);
        }
        let leaf = &mut self.leaves[node as usize];
        let place = leaf.place_of(seq)?;
        let gone = Summary::of(leaf.entry(place).vruntime, leaf.entry(place).slice);
        let entity = leaf.remove(place);
        self.len -= 1;

        let Some((&(parent, at), above)) = path.steps[..levels].split_last() else {
            if leaf.is_empty() {
                self.free_leaf(node);
                self.leaves[self.head as usize].next = NONE;
                self.root = NONE;
            } else if self.summary.rests_on(gone) {
                self.summary = leaf.summary_without(self.summary);
            }
            return Some(entity);
        };
        if leaf.len() < MIN {
            self.refill_leaf(parent, at as usize);
        } else {
            let inner = &mut self.inners[parent as usize];
            let old = inner.summary_of(at as usize);
            if !old.rests_on(gone) {
                return Some(entity);
            }
            inner.set_summary(at as usize, leaf.summary_without(old));
        }
        self.shrink(above, parent, gone);
        Some(entity)
    }

    /// Updates all above `node`, where `gone` has left.
    fn shrink(&mut self, above: &[(u32, u32)], node: u32, gone: Summary) {
        let mut node = node;
        for &(parent, at) in above.iter().rev() {
            let at = at as usize;
            let old = self.inner(parent).summary_of(at);
            if self.inner(node).len() < MIN {
                self.refill_inner(parent, at);
            } else if old.rests_on(gone) {
                let new = self.inner(node).summary_without(old);
                if new == old {
                    return;
                }
                self.inners[parent as usize].set_summary(at, new);
            } else {
                return;
            }
            node = parent;
        }
        if self.summary.rests_on(gone) {
            self.summary = self.inner(self.root).summary_without(self.summary);
        }
        if self.inner(self.root).len() == 1 {
            let old = self.root;
            self.root = self.inner(old).node(0);
            self.levels -= 1;
            self.free_inner(old);
        }
    }

    /// Merges the small leaf `at` of `parent` with a neighbour, or shares entries with it.
    #[cold]
    #[expect(clippy::unreachable, reason = "two children are two leaves")]
    fn refill_leaf(&mut self, parent: u32, at: usize) {
        let (left_at, right_at) = neighbours(at);
        let inner = &mut self.inners[parent as usize];
        let (left_id, right_id) = (inner.node(left_at), inner.node(right_at));
        let Ok([left, right]) = self.leaves.get_disjoint_mut([left_id as usize, right_id as usize]) else {
            unreachable!("two children are two leaves")
        };
        let both = left.len() + right.len();
        if both <= MERGE {
            for place in 0..right.len() {
                left.push(right.entry(place));
            }
            left.next = right.next;
            inner.set_summary(left_at, left.summary());
            inner.remove(right_at);
            self.free_leaf(right_id);
            return;
        }
        while left.len() < both / 2 {
            left.push(right.entry(0));
            right.remove(0);
        }
        while left.len() > both / 2 {
            let last = left.len() - 1;
            right.insert(0, left.entry(last));
            left.remove(last);
        }
        let first = right.entry(0);
        inner.set_fence(right_at, (first.key, first.seq));
        inner.set_summary(left_at, left.summary());
        inner.set_summary(right_at, right.summary());
    }

    /// As [`Self::refill_leaf`], for an inner node.
    #[cold]
    #[expect(clippy::unreachable, reason = "two children and their parent are three nodes")]
    fn refill_inner(&mut self, parent: u32, at: usize) {
        let (left_at, right_at) = neighbours(at);
        let (left_id, right_id) = (self.inner(parent).node(left_at), self.inner(parent).node(right_at));
        let nodes = [parent as usize, left_id as usize, right_id as usize];
        let Ok([inner, left, right]) = self.inners.get_disjoint_mut(nodes) else {
            unreachable!("two children and their parent are three nodes")
        };
        // The fence of the right node's first child is exact only in the parent.
        right.set_fence(0, inner.child(right_at).fence);
        let both = left.len() + right.len();
        if both <= MERGE {
            left.append(right, 0);
            inner.set_summary(left_at, left.summary());
            inner.remove(right_at);
            self.free_inner(right_id);
            return;
        }
        while left.len() < both / 2 {
            left.insert(left.len(), right.remove(0));
        }
        while left.len() > both / 2 {
            right.insert(0, left.remove(left.len() - 1));
        }
        inner.set_fence(right_at, right.child(0).fence);
        inner.set_summary(left_at, left.summary());
        inner.set_summary(right_at, right.summary());
    }

    #[inline]
    fn leaf(&self, id: u32) -> &Leaf {
        &self.leaves[id as usize]
    }

    #[inline]
    fn inner(&self, id: u32) -> &Inner {
        &self.inners[id as usize]
    }

    fn new_leaf(&mut self) -> u32 {
        let id = self.free_leaf;
        if let Some(free) = self.leaves.get(id as usize) {
            self.free_leaf = free.next;
            return id;
        }
        self.leaves.push(Leaf::EMPTY);
        self.leaves.len() as u32 - 1
    }

    fn free_leaf(&mut self, id: u32) {
        self.leaves[id as usize].next = self.free_leaf;
        self.free_leaf = id;
    }

    fn new_inner(&mut self, inner: Inner) -> u32 {
        let id = self.free_inner;
        if let Some(free) = self.inners.get_mut(id as usize) {
            self.free_inner = free.next_free;
            *free = inner;
            return id;
        }
        self.inners.push(inner);
        self.inners.len() as u32 - 1
    }

    fn free_inner(&mut self, id: u32) {
        self.inners[id as usize].next_free = self.free_inner;
        self.free_inner = id;
    }
}

const fn neighbours(at: usize) -> (usize, usize) {
    if at == 0 { (0, 1) } else { (at - 1, at) }
}
