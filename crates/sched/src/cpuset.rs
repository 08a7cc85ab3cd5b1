//! cpusets: the CPUs on which the tasks of a group may run, and partitions of the machine (`cpuset.c`, on cgroup v2).
//!
//! A group requests CPUs (`cpuset.cpus`). Its *effective* CPUs are those that are online and its parent's; without any,
//! all its parent's. Tasks run there, within their own affinity where it overlaps.
//!
//! A *partition* takes its CPUs from its parent: as a root domain (`root`), or without scheduling domains (`isolated`).
//! It is valid if its parent is a valid one (the root group always is), and no sibling requests its CPUs. It must have
//! CPUs, and leave some for its parent's tasks. An invalid partition acts as an ordinary member, and states the reason.
//! Remote partitions (`cpuset.cpus.exclusive` below groups that are no partitions, 6.7+) are not modelled.
//!
//! Kernels differ:
//!
//! - 6.1: a task's own affinity ends when its group's CPUs change. 6.2+: it is remembered.
//! - 6.7+: a `root` partition of CPUs isolated at boot is invalid. Earlier: valid, without scheduling domains.
//! - Texts of faults.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::attrs::Affinity;
use crate::balance::roots::{Root, Roots};
use crate::class::deadline::bandwidth::Cpus;
use crate::cpumask::CpuMask;
use crate::ids::{CpuId, GroupId};

/// How a kernel's cpusets behave ([module](self)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rules {
    /// Changes of a group's CPUs end its tasks' affinity (up to 6.1).
    pub forgets: bool,
    /// `root` partitions of CPUs isolated at boot are invalid (6.7+).
    pub exclusive: bool,
}

/// `cpuset.cpus.partition`, as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Partition {
    /// No partition.
    #[default]
    Member,
    /// A root domain.
    Root,
    /// No scheduling domain.
    Isolated,
}

impl Partition {
    /// All, with their texts.
    pub const ALL: [(&'static str, Self); 3] =
        [("member", Self::Member), ("root", Self::Root), ("isolated", Self::Isolated)];

    /// The text in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Root => "root",
            Self::Isolated => "isolated",
        }
    }
}

/// Why a partition is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// Its parent manages none of its CPUs.
    Cpus,
    /// Its parent is an invalid partition.
    Parent,
    /// Its parent is no partition.
    NoParent,
    /// A sibling requests some of its CPUs.
    NotExclusive,
    /// It leaves its parent's tasks no CPU.
    NoCpus,
    /// It has tasks, and all its CPUs are offline.
    Hotplug,
    /// It requests no CPUs.
    Empty,
    /// Some of its CPUs were isolated at boot (6.7+).
    Housekeeping,
}

impl Invalid {
    /// A kernel's text.
    pub fn reason(self, rules: Rules) -> &'static str {
        match self {
            Self::Cpus if !rules.exclusive => "Invalid cpu list in cpuset.cpus",
            Self::Cpus => "Invalid cpu list in cpuset.cpus.exclusive",
            Self::Parent => "Parent is an invalid partition root",
            Self::NoParent => "Parent is not a partition root",
            Self::NotExclusive => "Cpu list in cpuset.cpus not exclusive",
            Self::NoCpus => "Parent unable to distribute cpu downstream",
            Self::Hotplug => "No cpu available due to hotplug",
            Self::Empty if !rules.exclusive => "cpuset.cpus is empty",
            Self::Empty => "cpuset.cpus and cpuset.cpus.exclusive are empty",
            Self::Housekeeping => "partition config conflicts with housekeeping setup",
        }
    }
}

/// Why a write to a cpuset's file, or a task's move, is refused. The text advises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpusetError {
    /// The root group has no such files.
    Root,
    /// The machine does not have the CPU (EINVAL).
    NoSuchCpu {
        /// The requested CPU.
        cpu: CpuId,
        /// The machine's number of CPUs.
        nr_cpus: usize,
    },
    /// The group has tasks, and must keep CPUs (ENOSPC).
    Populated,
    /// The partition's SCHED_DEADLINE tasks have reserved more than the requested CPUs provide (EBUSY).
    Deadline {
        /// Reserved, in 2^-20 CPUs.
        promised: u64,
        /// Available, in 2^-20 CPUs.
        cap: u64,
    },
}

impl fmt::Display for CpusetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => write!(f, "the root group has all CPUs and is a partition; write to a group below it"),
            Self::NoSuchCpu { cpu, nr_cpus } => {
                write!(f, "there is no CPU {cpu} (EINVAL); the machine has CPUs 0 to {}", nr_cpus.saturating_sub(1))
            }
            Self::Populated => {
                write!(f, "the group has tasks, and has to have CPUs (ENOSPC); move its tasks elsewhere first")
            }
            Self::Deadline { promised, cap } => write!(
                f,
                "SCHED_DEADLINE tasks (and fair servers) of the partition have reserved {} CPUs, but these CPUs are {} (EBUSY); first end \
                 tasks or lower their runtimes",
                Cpus(*promised),
                Cpus(*cap)
            ),
        }
    }
}

impl core::error::Error for CpusetError {}

/// The contents of a group's files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpusetView {
    /// `cpuset.cpus`; None if empty.
    pub cpus: Option<CpuMask>,
    /// `cpuset.cpus.effective`.
    pub effective: CpuMask,
    /// `cpuset.cpus.partition`, as written.
    pub partition: Partition,
    /// Why the partition is invalid, in the kernel's words.
    pub invalid: Option<&'static str>,
}

impl CpusetView {
    /// The text of `cpuset.cpus.partition`: `root`, or `root invalid (Parent is not a partition root)`.
    pub fn partition_text(&self) -> alloc::string::String {
        match self.invalid {
            None => self.partition.name().into(),
            Some(reason) => alloc::format!("{} invalid ({reason})", self.partition.name()),
        }
    }
}

#[derive(Clone, Debug)]
struct Cpuset {
    parent: u32,
    cpus: Option<Arc<CpuMask>>,
    partition: Partition,
    invalid: Option<Invalid>,
    effective: Arc<CpuMask>,
}

impl Cpuset {
    fn is_partition(&self) -> bool {
        self.partition != Partition::Member && self.invalid.is_none()
    }

    fn asks_for(&self, cpus: &CpuMask) -> bool {
        self.cpus.as_ref().is_some_and(|own| own.intersects(cpus))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Populated(pub(crate) BTreeSet<u32>);

/// The cpusets of the root and of groups written to. Parents have smaller numbers than children.
#[derive(Clone, Debug)]
pub(crate) struct Cpusets {
    rules: Rules,
    nr_cpus: usize,
    isolated: CpuMask,
    online: CpuMask,
    sets: BTreeMap<u32, Cpuset>,
    parents: Vec<u32>,
    /// Of root tasks without an affinity; None: all.
    root: Affinity,
    /// CPUs of no partition.
    root_effective: CpuMask,
}

const ROOT: u32 = 0;

impl Cpusets {
    pub(crate) fn new(rules: Rules, nr_cpus: usize, isolated: CpuMask) -> Self {
        let online = CpuMask::all(nr_cpus);
        let mut this = Self {
            rules,
            nr_cpus,
            isolated,
            online: online.clone(),
            sets: BTreeMap::new(),
            parents: Vec::new(),
            root: None,
            root_effective: online,
        };
        this.update(&BTreeSet::new(), &Populated::default());
        this
    }

    pub(crate) fn rules(&self) -> Rules {
        self.rules
    }

    /// Whether there is more than the root group with all CPUs.
    pub(crate) fn in_use(&self) -> bool {
        !self.sets.is_empty() || !self.isolated.is_empty()
    }

    fn without(&self, cpus: &CpuMask, less: &CpuMask) -> CpuMask {
        let mut left = CpuMask::with_capacity(self.nr_cpus);
        cpus.iter().filter(|&cpu| !less.contains(cpu)).for_each(|cpu| left.insert(cpu));
        left
    }

    /// The same set in the usual number of words.
    fn fit(&self, cpus: &CpuMask) -> CpuMask {
        self.without(cpus, &CpuMask::new())
    }

    fn depth(&self, mut group: u32) -> u32 {
        let mut depth = 0;
        while group != ROOT {
            group = self.parents.get(group as usize).copied().unwrap_or(ROOT);
            depth += 1;
        }
        depth
    }

    /// The nearest group, from `group` up, that was written to. None: the root.
    fn owner(&self, group: u32) -> Option<&Cpuset> {
        let mut at = group;
        while at != ROOT {
            if let Some(set) = self.sets.get(&at) {
                return Some(set);
            }
            at = self.parents.get(at as usize).copied().unwrap_or(ROOT);
        }
        None
    }

    /// Effective CPUs of the nearest group, from `group` up, with any (`guarantee_online_cpus`). None: all.
    fn base(&self, group: GroupId) -> Affinity {
        let mut set = self.owner(group.0);
        while let Some(empty) = set.filter(|set| set.effective.is_empty()) {
            set = self.owner(empty.parent);
        }
        set.map_or_else(|| self.root.clone(), |set| Some(Arc::clone(&set.effective)))
    }

    fn effective(&self, group: u32) -> &CpuMask {
        self.owner(group).map_or(&self.root_effective, |set| &set.effective)
    }

    /// Returns the CPUs of a task of `group` with the affinity `asked`, and whether the two overlap.
    pub(crate) fn allowed(&self, group: GroupId, asked: &Affinity) -> (Affinity, bool) {
        let base = self.base(group);
        let Some(asked) = asked else { return (base, true) };
        // An affinity may include CPUs that were isolated at boot.
        let root = self.owner(group.0).is_none();
        let possible = match &base {
            None if asked.intersects(&self.online) => return (Some(Arc::clone(asked)), true),
            None => return (None, false),
            Some(_) if root => self.root_possible(),
            Some(base) => CpuMask::clone(base),
        };
        let both = asked.and(&possible);
        if !both.intersects(&self.online) {
            (base, false)
        } else if both == **asked {
            (Some(Arc::clone(asked)), true)
        } else {
            (Some(Arc::new(both)), true)
        }
    }

    pub(crate) fn is_empty(&self, group: GroupId) -> bool {
        self.effective(group.0).is_empty()
    }

    pub(crate) fn intersect(&self, a: GroupId, b: GroupId) -> bool {
        self.effective(a.0).intersects(self.effective(b.0))
    }

    pub(crate) fn differ(&self, a: GroupId, b: GroupId) -> bool {
        self.effective(a.0) != self.effective(b.0)
    }

    /// A group's files; None if never written to.
    pub(crate) fn view(&self, group: GroupId) -> Option<CpusetView> {
        if group == GroupId::ROOT {
            let effective = self.root_effective.clone();
            return Some(CpusetView { cpus: None, effective, partition: Partition::Root, invalid: None });
        }
        let set = self.sets.get(&group.0)?;
        Some(CpusetView {
            cpus: set.cpus.as_deref().cloned(),
            effective: CpuMask::clone(&set.effective),
            partition: set.partition,
            invalid: set.invalid.map(|why| why.reason(self.rules)),
        })
    }

    pub(crate) fn domain_of(&self, group: GroupId) -> Option<&CpuMask> {
        let set = self.sets.get(&group.0)?;
        (set.is_partition() && set.partition == Partition::Root).then_some(&*set.effective)
    }

    pub(crate) fn is_populated(&self, group: GroupId, populated: &Populated) -> bool {
        populated.0.iter().any(|&with| self.is_within(with, group.0))
    }

    fn is_within(&self, mut group: u32, above: u32) -> bool {
        while group != above {
            if group == ROOT {
                return false;
            }
            group = self.parents.get(group as usize).copied().unwrap_or(ROOT);
        }
        true
    }

    pub(crate) fn add_group(&mut self, group: GroupId, parent: GroupId) {
        if group.index() >= self.parents.len() {
            self.parents.resize(group.index() + 1, ROOT);
        }
        self.parents[group.index()] = parent.0;
    }

    pub(crate) fn view_effective(&self, group: GroupId) -> CpuMask {
        self.effective(group.0).clone()
    }

    /// Each group's default and allowed CPUs of tasks, for comparison.
    pub(crate) fn bases(&self) -> Vec<(Affinity, Affinity)> {
        let root = Some(Arc::new(self.root_possible()));
        let of = |group: u32| {
            let base = self.base(GroupId(group));
            let possible = if self.owner(group).is_none() { root.clone() } else { base.clone() };
            (base, possible)
        };
        (0..self.parents.len().max(1) as u32).map(of).collect()
    }

    pub(crate) fn write_cpus(&mut self, group: GroupId, cpus: Option<&CpuMask>, populated: &Populated) {
        let cpus = cpus.filter(|cpus| !cpus.is_empty());
        let parent = self.enter(group.0).parent;
        let mut looked_at: BTreeSet<u32> = [group.0].into();
        if let Some(cpus) = cpus {
            // A request for a sibling partition's CPUs ends that partition, and makes this group none.
            let exclusive = self.sets[&group.0].is_partition();
            let siblings = || self.sets.iter().filter(|&(&id, set)| id != group.0 && set.parent == parent);
            let conflict = |set: &Cpuset| set.asks_for(cpus) && (exclusive || set.is_partition());
            let hit: Vec<u32> = siblings().filter(|(_, set)| conflict(set)).map(|(&id, _)| id).collect();
            let mut not_exclusive = |id: u32| {
                if let Some(set) = self.sets.get_mut(&id).filter(|set| set.is_partition()) {
                    set.invalid = Some(Invalid::NotExclusive);
                }
            };
            if !hit.is_empty() {
                not_exclusive(group.0);
                looked_at.clear();
            }
            hit.into_iter().for_each(not_exclusive);
        }
        self.enter(group.0).cpus = cpus.map(|cpus| Arc::new(cpus.clone()));
        self.update(&looked_at, populated);
    }

    /// Writes to several groups: first every `cpuset.cpus`, then every `cpuset.cpus.partition`. Computes effects once;
    /// without tasks and partitions before, the result equals that of single writes.
    pub(crate) fn write_all(&mut self, files: &[(GroupId, Option<CpuMask>, Option<Partition>)], populated: &Populated) {
        for (group, cpus, partition) in files.iter().filter(|file| file.1.is_some() || file.2.is_some()) {
            let set = self.enter(group.0);
            if let Some(cpus) = cpus {
                set.cpus = Some(cpus).filter(|cpus| !cpus.is_empty()).map(|cpus| Arc::new(cpus.clone()));
            }
            if let Some(partition) = *partition {
                set.partition = partition;
            }
        }
        let all = files.iter().map(|(group, ..)| group.0).collect();
        self.update(&all, populated);
    }

    pub(crate) fn write_partition(&mut self, group: GroupId, partition: Partition, populated: &Populated) {
        let set = self.enter(group.0);
        set.partition = partition;
        if partition == Partition::Member {
            set.invalid = None;
        }
        self.update(&[group.0].into(), populated);
    }

    pub(crate) fn set_online(&mut self, online: CpuMask, populated: &Populated) {
        self.online = online;
        let all = self.sets.keys().copied().collect();
        self.update(&all, populated);
    }

    fn enter(&mut self, group: u32) -> &mut Cpuset {
        let parent = self.parents.get(group as usize).copied().unwrap_or(ROOT);
        self.sets.entry(group).or_insert_with(|| Cpuset {
            parent,
            cpus: None,
            partition: Partition::Member,
            invalid: None,
            effective: Arc::default(),
        })
    }

    /// Computes effects of writes. Checks the partitions `looked_at` and all below; others only if their parents
    /// change.
    fn update(&mut self, looked_at: &BTreeSet<u32>, populated: &Populated) {
        // What each partition has left, and what it was given, including offline CPUs.
        let mut left: BTreeMap<u32, CpuMask> = [(ROOT, self.online.clone())].into();
        let mut given: BTreeMap<u32, CpuMask> = [(ROOT, CpuMask::all(self.nr_cpus))].into();
        let mut root = CpuMask::all(self.nr_cpus);
        let ids: Vec<u32> = self.sets.keys().copied().collect();
        let anew = |mut id: u32| {
            while !looked_at.contains(&id) {
                if id == ROOT {
                    return false;
                }
                id = self.parents.get(id as usize).copied().unwrap_or(ROOT);
            }
            true
        };
        let asked = self.asked();
        // Parents first; among siblings, partitions that already have CPUs first.
        let mut in_turn: Vec<(u32, bool, u32)> = ids.iter().map(|&id| (self.depth(id), anew(id), id)).collect();
        in_turn.sort_unstable();
        for (_, anew, id) in in_turn {
            let set = &self.sets[&id];
            if set.partition == Partition::Member {
                continue;
            }
            let invalid = match self.parent_fault(set) {
                None if anew => self.fault(id, set, &asked, &given[&set.parent], &left[&set.parent], populated),
                None => set.invalid,
                fault => fault,
            };
            let parent = set.parent;
            if invalid.is_none()
                && let Some(cpus) = set.cpus.clone()
            {
                let mine = self.fit(&cpus.and(&left[&parent]));
                let rest = self.without(&left[&parent], &mine);
                if parent == ROOT {
                    root = self.without(&root, &cpus);
                }
                given.insert(id, cpus.and(&given[&parent]));
                left.insert(parent, rest);
                left.insert(id, mine);
            }
            self.enter(id).invalid = invalid;
        }
        self.root_effective = left.remove(&ROOT).unwrap_or_default();
        let tasks = self.without(&root, &self.isolated);
        // Prefer an isolated CPU to none.
        let tasks = if tasks.intersects(&self.online) { tasks } else { root };
        self.root = (tasks.count() < self.nr_cpus).then(|| Arc::new(tasks));
        for id in ids {
            let effective = if let Some(left) = left.remove(&id) {
                left
            } else {
                let set = &self.sets[&id];
                let above = self.effective(set.parent);
                let own = set.cpus.as_ref().map(|cpus| cpus.and(above)).filter(|own| !own.is_empty());
                self.fit(own.as_ref().unwrap_or(above))
            };
            let set = self.enter(id);
            if *set.effective != effective {
                set.effective = Arc::new(effective);
            }
        }
    }

    /// For each CPU and parent of partitions, how many children request it.
    fn asked(&self) -> BTreeMap<u32, Vec<u32>> {
        let partitions = self.sets.values().filter(|set| set.partition != Partition::Member);
        let mut asked: BTreeMap<u32, Vec<u32>> = partitions.map(|set| (set.parent, vec![0; self.nr_cpus])).collect();
        for set in self.sets.values() {
            if let (Some(counts), Some(cpus)) = (asked.get_mut(&set.parent), &set.cpus) {
                for cpu in cpus.iter().filter(|cpu| cpu.index() < self.nr_cpus) {
                    counts[cpu.index()] += 1;
                }
            }
        }
        asked
    }

    fn parent_fault(&self, set: &Cpuset) -> Option<Invalid> {
        if set.parent == ROOT {
            return None;
        }
        match self.sets.get(&set.parent) {
            Some(parent) if parent.is_partition() => None,
            Some(parent) if parent.partition != Partition::Member => Some(Invalid::Parent),
            _ => Some(Invalid::NoParent),
        }
    }

    /// Returns why a partition with a valid parent is invalid. The parent was `given` CPUs; `left` remain.
    fn fault(
        &self,
        id: u32,
        set: &Cpuset,
        asked: &BTreeMap<u32, Vec<u32>>,
        given: &CpuMask,
        left: &CpuMask,
        populated: &Populated,
    ) -> Option<Invalid> {
        let Some(cpus) = &set.cpus else { return Some(Invalid::Empty) };
        let counts = asked.get(&set.parent).map_or(&[][..], Vec::as_slice);
        // The count includes the partition.
        if cpus.iter().any(|cpu| counts.get(cpu.index()).is_some_and(|&count| count > 1)) {
            return Some(Invalid::NotExclusive);
        }
        if !cpus.intersects(given) {
            return Some(Invalid::Cpus);
        }
        if self.rules.exclusive && set.partition == Partition::Root && cpus.intersects(&self.isolated) {
            return Some(Invalid::Housekeeping);
        }
        let mine = cpus.and(left);
        if mine.is_empty() && self.is_populated(GroupId(id), populated) {
            return Some(Invalid::Hotplug);
        }
        let takes_all = !mine.is_empty() && mine.count() == left.count();
        (takes_all && self.needs_cpus(set.parent, id, populated)).then_some(Invalid::NoCpus)
    }

    /// Whether a partition has tasks, itself or in descendants that are no partitions, outside `child`.
    fn needs_cpus(&self, partition: u32, child: u32, populated: &Populated) -> bool {
        // The root group always has the kernel's own tasks.
        partition == ROOT
            || populated.0.iter().any(|&with| {
                let mut at = with;
                while at != partition {
                    if at == ROOT || at == child || self.sets.get(&at).is_some_and(Cpuset::is_partition) {
                        return false;
                    }
                    at = self.parents.get(at as usize).copied().unwrap_or(ROOT);
                }
                true
            })
    }

    fn root_possible(&self) -> CpuMask {
        let mut possible = CpuMask::all(self.nr_cpus);
        for set in self.sets.values().filter(|set| set.parent == ROOT && set.is_partition()) {
            if let Some(cpus) = &set.cpus {
                possible = self.without(&possible, cpus);
            }
        }
        possible
    }

    pub(crate) fn roots(&self) -> Roots {
        let mut roots: Vec<Root> = (0..self.nr_cpus).map(|_| Root::Offline).collect();
        let mut put = |cpus: &CpuMask, root: Root| {
            for cpu in cpus.iter() {
                let root = if self.isolated.contains(cpu) { Root::Isolated } else { root };
                roots[cpu.index()] = root;
            }
        };
        put(&self.root_effective, Root::default());
        let mut domains: Vec<&CpuMask> = Vec::new();
        for set in self.sets.values().filter(|set| set.is_partition()) {
            match set.partition {
                Partition::Root => domains.push(&set.effective),
                _ => put(&set.effective, Root::Isolated),
            }
        }
        // Equal CPUs get equal numbers, whatever the groups.
        domains.sort_unstable_by_key(|cpus| cpus.first());
        for (number, cpus) in (1..).zip(domains) {
            put(cpus, Root::Domain(number));
        }
        roots.into_iter().collect()
    }
}
