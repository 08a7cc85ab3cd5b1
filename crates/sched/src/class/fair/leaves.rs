//! A CPU's groups with averages for balancing to decay (`leaf_cfs_rq_list`). Adding takes constant time.

use alloc::vec::Vec;

use super::entity::ROOT;

/// Groups by depth, then in order of addition, with the root.
#[derive(Debug)]
pub(crate) struct Leaves {
    by_depth: Vec<Vec<u32>>,
    len: usize,
}

impl Leaves {
    pub(crate) fn new() -> Self {
        Self { by_depth: alloc::vec![alloc::vec![ROOT]], len: 1 }
    }

    #[inline]
    pub(crate) fn is_root_only(&self) -> bool {
        self.len == 1
    }

    /// Adds a group, which must not be there.
    pub(crate) fn add(&mut self, group: u32, depth: u32) {
        let depth = depth as usize;
        if depth >= self.by_depth.len() {
            self.by_depth.resize_with(depth + 1, Vec::new);
        }
        self.by_depth[depth].push(group);
        self.len += 1;
    }

    /// Returns children before parents, and of equal depth the last added first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.by_depth.iter().rev().flat_map(|groups| groups.iter().rev().copied())
    }

    /// Keeps only the groups for which `keep` is true. The root must be one of these.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        self.by_depth.iter_mut().for_each(|groups| groups.retain(|&group| keep(group)));
        self.len = self.by_depth.iter().map(Vec::len).sum();
        debug_assert_eq!(self.by_depth[0], [ROOT]);
    }

    /// Takes all groups, until the caller puts them back.
    pub(crate) fn take(&mut self) -> Self {
        Self { by_depth: core::mem::take(&mut self.by_depth), len: core::mem::take(&mut self.len) }
    }
}
