//! The groups of a CPU whose averages may not be zero (`leaf_cfs_rq_list`): what a balance has to decay. However many
//! there are, one is added in the same time.

use alloc::vec::Vec;

use super::entity::ROOT;

/// Groups by their depth, at each in the order in which they were added; the root is always among them.
#[derive(Debug)]
pub(crate) struct Leaves {
    by_depth: Vec<Vec<u32>>,
    len: usize,
}

impl Leaves {
    /// Only the root.
    pub(crate) fn new() -> Self {
        Self { by_depth: alloc::vec![alloc::vec![ROOT]], len: 1 }
    }

    /// Whether the root is alone.
    #[inline]
    pub(crate) fn is_root_only(&self) -> bool {
        self.len == 1
    }

    /// Adds a group that is not there.
    pub(crate) fn add(&mut self, group: u32, depth: u32) {
        let depth = depth as usize;
        if depth >= self.by_depth.len() {
            self.by_depth.resize_with(depth + 1, Vec::new);
        }
        self.by_depth[depth].push(group);
        self.len += 1;
    }

    /// Children before parents, among equals the youngest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.by_depth.iter().rev().flat_map(|groups| groups.iter().rev().copied())
    }

    /// Keeps those of which `keep` says so, in their order. The root has to be among them.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        self.by_depth.iter_mut().for_each(|groups| groups.retain(|&group| keep(group)));
        self.len = self.by_depth.iter().map(Vec::len).sum();
        debug_assert_eq!(self.by_depth[0], [ROOT]);
    }

    /// What is there, until it is put back.
    pub(crate) fn take(&mut self) -> Self {
        Self { by_depth: core::mem::take(&mut self.by_depth), len: core::mem::take(&mut self.len) }
    }
}
