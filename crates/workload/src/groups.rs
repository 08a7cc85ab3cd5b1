//! The tree of task groups, built by path.

use std::collections::BTreeMap;

use crate::limit::QUOTA_NS;
use crate::program::{Bandwidth, CpuMax, Group};

/// The `cpu.weight` of a new group.
pub const DEFAULT_WEIGHT: u32 = 100;

/// The deepest level of groups here. The kernel has no limit.
pub const MAX_GROUP_DEPTH: usize = 64;

/// Returns a group's path in the form `/a/b`.
///
/// # Errors
/// If a component is `.`, `..`, or has control characters, or there are more than [`MAX_GROUP_DEPTH`].
pub fn normalize_path(path: &str) -> Result<String, String> {
    let mut normal = String::with_capacity(path.len() + 1);
    let mut depth = 0;
    for component in path.split('/').filter(|component| !component.is_empty()) {
        if matches!(component, "." | "..") {
            return Err(format!("`{component}` cannot be part of a group's path"));
        }
        if component.chars().any(char::is_control) {
            return Err("a group's name cannot hold control characters".to_owned());
        }
        depth += 1;
        if depth > MAX_GROUP_DEPTH {
            return Err(format!("groups can be nested at most {MAX_GROUP_DEPTH} levels deep"));
        }
        normal.push('/');
        normal.push_str(component);
    }
    if normal.is_empty() {
        normal.push('/');
    }
    Ok(normal)
}

/// Settings of a group in a file. `None`: unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// `cpu.weight`.
    pub weight: Option<u32>,
    /// `cpu.idle`.
    pub idle: Option<bool>,
    /// `cpu.max`.
    pub max: Option<CpuMax>,
    /// `cpu.max.burst`, nanoseconds.
    pub burst: Option<u64>,
}

/// The groups of a workload under construction.
///
/// ```
/// use vruntime_workload::groups::GroupTree;
///
/// let mut tree = GroupTree::new();
/// let web = tree.ensure("/pods/web");
/// tree.get_mut(web).weight = 200;
/// assert_eq!(tree.paths(), ["/", "/pods", "/pods/web"]);
/// ```
#[derive(Clone, Debug)]
pub struct GroupTree {
    groups: Vec<Group>,
    by_path: BTreeMap<String, usize>,
}

impl Default for GroupTree {
    fn default() -> Self {
        Self::new()
    }
}

impl GroupTree {
    /// Returns a tree of only the root.
    pub fn new() -> Self {
        let mut tree = Self { groups: Vec::new(), by_path: BTreeMap::new() };
        tree.push("/".to_owned(), None);
        tree
    }

    /// Returns a tree of these groups.
    pub fn from_groups(groups: Vec<Group>) -> Self {
        if groups.is_empty() {
            return Self::new();
        }
        let by_path = groups.iter().enumerate().map(|(index, group)| (group.path.clone(), index)).collect();
        Self { groups, by_path }
    }

    fn push(&mut self, path: String, parent: Option<usize>) -> usize {
        let index = self.groups.len();
        self.by_path.insert(path.clone(), index);
        self.groups.push(Group { path, parent, ..Group::default() });
        index
    }

    /// Returns the index of the group at a [normalized](normalize_path) path. Creates missing groups.
    pub fn ensure(&mut self, path: &str) -> usize {
        if let Some(&index) = self.by_path.get(path) {
            return index;
        }
        let mut parent = 0;
        let slashes = path.match_indices('/').map(|(at, _)| at).skip(1);
        for end in slashes.chain([path.len()]) {
            let prefix = &path[..end];
            parent = match self.by_path.get(prefix) {
                Some(&index) => index,
                None => self.push(prefix.to_owned(), Some(parent)),
            };
        }
        parent
    }

    /// Returns the index of the group at `path`, if it exists.
    pub fn find(&self, path: &str) -> Option<usize> {
        self.by_path.get(path).copied()
    }

    /// Returns the paths of all groups, by index.
    pub fn paths(&self) -> Vec<String> {
        self.groups.iter().map(|group| group.path.clone()).collect()
    }

    /// Applies `limits` to a group. As in the kernel, `cpu.idle` resets the weight, and `cpu.max` keeps the burst.
    /// Limits the burst to the kernel's maximum, the quota.
    pub fn limit(&mut self, index: usize, limits: Limits) {
        let group = self.get_mut(index);
        if let Some(idle) = limits.idle {
            group.idle = idle;
            group.weight = DEFAULT_WEIGHT;
        }
        group.weight = limits.weight.unwrap_or(group.weight);
        let kept = group.max.map_or(0, |max| max.burst);
        match limits.max {
            Some(CpuMax::Unlimited) => group.max = None,
            Some(CpuMax::Limited(limit)) => {
                group.max = Some(Bandwidth { burst: if limit.burst > 0 { limit.burst } else { kept }, ..limit });
            }
            None => {}
        }
        if let Some(max) = &mut group.max {
            max.burst = limits.burst.unwrap_or(max.burst).min(max.quota).min(QUOTA_NS.end().saturating_sub(max.quota));
        }
    }

    /// Returns all groups, by index.
    pub fn all(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the group of an index from [`ensure`](Self::ensure).
    pub fn get_mut(&mut self, index: usize) -> &mut Group {
        &mut self.groups[index]
    }

    /// Returns the groups, for [`Workload::groups`](crate::program::Workload::groups).
    pub fn into_groups(self) -> Vec<Group> {
        self.groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_before_children() {
        let mut tree = GroupTree::new();
        assert_eq!(tree.ensure("/a/b/c"), 3);
        assert_eq!(tree.ensure("/a/x"), 4);
        assert_eq!(tree.ensure("/"), 0);
        let paths: Vec<_> = tree.into_groups().into_iter().map(|group| (group.path, group.parent)).collect();
        let expected = [("/", None), ("/a", Some(0)), ("/a/b", Some(1)), ("/a/b/c", Some(2)), ("/a/x", Some(1))];
        assert_eq!(paths, expected.map(|(path, parent)| (path.to_owned(), parent)));
    }

    #[test]
    fn paths_are_brought_to_one_form() {
        assert_eq!(normalize_path("B/x").as_deref(), Ok("/B/x"));
        assert_eq!(normalize_path("//B//x/").as_deref(), Ok("/B/x"));
        assert_eq!(normalize_path("").as_deref(), Ok("/"));
        assert!(normalize_path("/a/../b").is_err());
        assert!(normalize_path(&"/a".repeat(65)).is_err());
    }
}
