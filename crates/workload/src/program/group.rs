//! Task groups: their settings, and changes.

/// A task group (cgroup v2 `cpu` controller).
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Absolute path, such as `/web/api`; `/` for the root.
    pub path: String,
    /// Index of the parent in [`Workload::groups`](super::Workload::groups); none for the root.
    pub parent: Option<usize>,
    /// `cpu.weight`, 1..=10000, default 100.
    pub weight: u32,
    /// `cpu.idle`: whether the group has the weight and semantics of SCHED_IDLE.
    pub idle: bool,
    /// `cpu.max`.
    pub max: Option<Bandwidth>,
    /// `cpu.uclamp.min` and `cpu.uclamp.max`. None: unset.
    pub uclamp: Option<Clamps>,
    /// `cpuset.cpus` and `cpuset.cpus.partition`.
    pub cpuset: Cpuset,
    /// `cpu.rt_runtime_us` and `cpu.rt_period_us`. None: unset.
    pub rt: Option<RtBandwidth>,
    /// Percent of the machine (0..=100) guaranteed by 2.6.15-cpurc's CPU resource controller. None: nothing.
    pub guarantee: Option<u32>,
}

impl Default for Group {
    /// Returns a group of the default weight without limits, path or parent.
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
    /// Returns the root group. Its weight has no effect.
    pub fn root() -> Self {
        Self { path: "/".to_owned(), ..Self::default() }
    }
}

/// `cpu.max`: at most `quota` of CPU time in each `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Nanoseconds of CPU time.
    pub quota: u64,
    /// Nanoseconds.
    pub period: u64,
    /// `cpu.max.burst`, nanoseconds.
    pub burst: u64,
}

/// CPU time of a group's real-time tasks on each CPU. None: unchanged. A new group has no runtime, and the machine's
/// period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtBandwidth {
    /// `cpu.rt_runtime_us`.
    pub runtime: Option<RtRuntime>,
    /// `cpu.rt_period_us`, but in nanoseconds.
    pub period: Option<u64>,
}

/// A value of `cpu.rt_runtime_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtRuntime {
    /// -1: no limit.
    Unlimited,
    /// Nanoseconds. 0: the group accepts no real-time task.
    Limited(u64),
}

/// Bounds of a group's utilisation, 0..=1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clamps {
    /// `cpu.uclamp.min`, default 0.
    pub min: u32,
    /// `cpu.uclamp.max`, default 1024.
    pub max: u32,
}

/// The CPUs of a group (cgroup v2 `cpuset` controller).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpuset {
    /// `cpuset.cpus`, ascending and never empty. None: the parent's.
    pub cpus: Option<Vec<u32>>,
    /// `cpuset.cpus.partition`.
    pub partition: Partition,
}

/// The kind of a cpuset's partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partition {
    /// Shared with the parent.
    #[default]
    Member,
    /// A root domain.
    Root,
    /// Isolated: no load balancing.
    Isolated,
}

impl Partition {
    /// Every kind with the kernel's name.
    pub const ALL: [(&'static str, Self); 3] =
        [("member", Self::Member), ("root", Self::Root), ("isolated", Self::Isolated)];

    /// Returns the kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, partition)| *partition)
    }
}

/// Changes of a group's settings. None: unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupChange {
    /// `cpu.weight`, 1..=10000.
    pub weight: Option<u32>,
    /// `cpu.idle`. A group that stops being idle has weight 100.
    pub idle: Option<bool>,
    /// `cpu.max`, with `cpu.max.burst`.
    pub max: Option<CpuMax>,
    /// `cpu.uclamp.min` and `cpu.uclamp.max`.
    pub uclamp: Option<Clamps>,
    /// `cpu.rt_runtime_us` and `cpu.rt_period_us`.
    pub rt: Option<RtBandwidth>,
    /// Percent of the machine (0..=100) that 2.6.15-cpurc's CPU resource controller guarantees.
    pub guarantee: Option<u32>,
}

/// A value of `cpu.max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuMax {
    /// `max`: no limit.
    Unlimited,
    /// A limit.
    Limited(Bandwidth),
}
