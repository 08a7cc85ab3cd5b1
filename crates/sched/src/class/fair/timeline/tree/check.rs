//! The rules of the tree, checked from the root down.

use alloc::vec;
use alloc::vec::Vec;

use super::{CHILDREN, Entry, MIN, NONE, Summary, Tree, before};

impl Tree {
    /// Checks every rule of the module, from the root down.
    pub(in super::super) fn check(&self) {
        let mut chain = vec![self.head];
        self.leaf(self.head).check();
        assert!(!self.leaf(self.head).is_empty());
        let mut len = self.leaf(self.head).len();
        if self.has_tree() {
            let (behind, summary) = self.check_node(self.root, self.levels, &mut chain);
            assert_eq!(summary, self.summary);
            len += behind;
            let (last, first) = (self.edge(self.head, 0, true), self.edge(self.root, self.levels, false));
            assert_fenced(last, self.fence, first);
        }
        assert_eq!(len, self.len());
        for (at, &leaf) in chain.iter().enumerate() {
            assert_eq!(self.leaf(leaf).next, chain.get(at + 1).copied().unwrap_or(NONE));
        }
        let mut free = 0;
        let mut at = self.free_leaf;
        while at != NONE {
            at = self.leaf(at).next;
            free += 1;
        }
        assert_eq!(chain.len() + free, self.leaves.len(), "no leaf is lost");
        let entries: Vec<Entry> = self.entries().collect();
        for pair in entries.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            assert!(before(a.key, b.key) || (a.key == b.key && a.seq < b.seq), "in order: {a:?} {b:?}");
        }
    }

    fn check_node(&self, node: u32, levels: u32, chain: &mut Vec<u32>) -> (usize, Summary) {
        let is_root = node == self.root && levels == self.levels;
        if levels == 0 {
            let leaf = self.leaf(node);
            leaf.check();
            assert!(leaf.len() >= if is_root { 1 } else { MIN });
            chain.push(node);
            return (leaf.len(), leaf.summary());
        }
        let inner = self.inner(node);
        inner.check();
        assert!(inner.len() >= if is_root { 2 } else { MIN } && inner.len() <= CHILDREN);
        let mut len = 0;
        let mut all = None;
        for at in 0..inner.len() {
            let child = inner.child(at);
            let (below, summary) = self.check_node(child.node, levels - 1, chain);
            assert_eq!(summary, child.summary, "a parent knows its children");
            len += below;
            all = Some(all.map_or(summary, |all: Summary| all.and(summary)));
            if at > 0 {
                let last = self.edge(inner.node(at - 1), levels - 1, true);
                assert_fenced(last, child.fence, self.edge(child.node, levels - 1, false));
            }
        }
        let Some(all) = all else { unreachable!("an inner node has children") };
        (len, all)
    }

    /// Returns the first or last entry below a node.
    fn edge(&self, node: u32, levels: u32, last: bool) -> Entry {
        let mut node = node;
        for _ in 0..levels {
            let inner = self.inner(node);
            node = inner.node(if last { inner.len() - 1 } else { 0 });
        }
        let leaf = self.leaf(node);
        leaf.entry(if last { leaf.len() - 1 } else { 0 })
    }
}

fn assert_fenced(last: Entry, (key, seq): (u64, u64), first: Entry) {
    assert!(before(last.key, key) || (last.key == key && last.seq < seq), "left of the fence");
    assert!(before(key, first.key) || (first.key == key && seq <= first.seq), "right of the fence");
}
