//! Task groups: what is in their files, and what is written there.

/// A task group (cgroup v2 `cpu` controller).
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Absolute path, such as `/web/api`; `/` for the root.
    pub path: String,
    /// Index of the parent in [`Workload::groups`](super::Workload::groups); none for the root.
    pub parent: Option<usize>,
    /// `cpu.weight`, 1..=10000, default 100.
    pub weight: u32,
    /// `cpu.idle`: the whole group has SCHED_IDLE weight and semantics.
    pub idle: bool,
    /// `cpu.max`.
    pub max: Option<Bandwidth>,
    /// `cpu.uclamp.min` and `cpu.uclamp.max`; none: neither is set.
    pub uclamp: Option<Clamps>,
    /// `cpuset.cpus` and `cpuset.cpus.partition`.
    pub cpuset: Cpuset,
    /// `cpu.rt_runtime_us` and `cpu.rt_period_us` (real-time scheduling of groups); none: neither is set.
    pub rt: Option<RtBandwidth>,
    /// What the CPU resource controller of 2.6.15-cpurc guarantees it, percent of the whole machine, 0..=100; none:
    /// nothing.
    pub guarantee: Option<u32>,
}

impl Default for Group {
    /// A group of the default weight, without limits; it has no path and no parent.
    fn default() -> Self {
        Self {
            path: String::new(),
            parent: None,
            weight: crate::groups::DEFAULT_WEIGHT,
            idle: false,
            max: None,
            uclamp: None,
            cpuset: Cpuset::default(),
            rt: None,
            guarantee: None,
        }
    }
}

impl Group {
    /// The root group, in which all others are: it has no parent, and its weight means nothing.
    pub fn root() -> Self {
        Self { path: "/".to_owned(), ..Self::default() }
    }
}

/// `cpu.max`: at most `quota` of CPU time in each `period`, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Nanoseconds of CPU time.
    pub quota: u64,
    /// Nanoseconds.
    pub period: u64,
    /// `cpu.max.burst`, nanoseconds.
    pub burst: u64,
}

/// What a group's real-time tasks may have of each CPU. What is `None` stays as it was: at first nothing, in the
/// machine's period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtBandwidth {
    /// `cpu.rt_runtime_us`.
    pub runtime: Option<RtRuntime>,
    /// `cpu.rt_period_us`, in nanoseconds.
    pub period: Option<u64>,
}

/// What is written to `cpu.rt_runtime_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtRuntime {
    /// -1: no limit.
    Unlimited,
    /// Nanoseconds; 0: no real-time task may be in the group.
    Limited(u64),
}

/// Bounds of a group's utilisation, each 0..=1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clamps {
    /// `cpu.uclamp.min`, by default 0.
    pub min: u32,
    /// `cpu.uclamp.max`, by default 1024.
    pub max: u32,
}

/// The CPUs of a group (cgroup v2 `cpuset` controller).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpuset {
    /// `cpuset.cpus`, ascending; none: not set, so that the group has its parent's. An empty list is never stored.
    pub cpus: Option<Vec<u32>>,
    /// `cpuset.cpus.partition`.
    pub partition: Partition,
}

/// Whether a group has its CPUs to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partition {
    /// It has not.
    #[default]
    Member,
    /// They are a root domain.
    Root,
    /// They are isolated: load is not balanced between them.
    Isolated,
}

impl Partition {
    /// Every kind with its name in the file, which is the kernel's.
    pub const ALL: [(&'static str, Self); 3] =
        [("member", Self::Member), ("root", Self::Root), ("isolated", Self::Isolated)];

    /// The kind called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, partition)| *partition)
    }
}

/// What is written to a group's files; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupChange {
    /// `cpu.weight`, 1..=10000.
    pub weight: Option<u32>,
    /// `cpu.idle`; a group that is no longer idle has weight 100.
    pub idle: Option<bool>,
    /// `cpu.max`, with `cpu.max.burst`.
    pub max: Option<CpuMax>,
    /// `cpu.uclamp.min` and `cpu.uclamp.max`.
    pub uclamp: Option<Clamps>,
    /// `cpu.rt_runtime_us` and `cpu.rt_period_us`.
    pub rt: Option<RtBandwidth>,
    /// What the CPU resource controller of 2.6.15-cpurc guarantees it, percent of the whole machine, 0..=100.
    pub guarantee: Option<u32>,
}

/// What is written to `cpu.max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuMax {
    /// `max`: no limit.
    Unlimited,
    /// A limit.
    Limited(Bandwidth),
}
