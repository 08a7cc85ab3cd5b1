//! The scheduler's state at one instant (`debug.c`): `/sys/kernel/debug/sched/debug` and `/proc/PID/sched`, with the
//! kernel's names. As there, accounts are as of their run queue's last update.
//!
//! Times are nanoseconds.

use alloc::vec::Vec;

use crate::attrs::SchedPolicy;
pub use crate::attrs::{Migrations, TaskState, Wakeups};
use crate::config::Config;
use crate::cpumask::CpuMask;
use crate::event::Running;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::kernels::Behaviour;

/// Whose names the kernel's files use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Names {
    /// Before groups, up to 2.6.23.
    Early,
    /// 3.10 to 5.4.
    V3,
    /// 5.10 to 6.4.
    V6_1,
    /// 6.6 to 6.11.
    V6_6,
    /// 6.12.
    V6_12,
    /// 6.14 and later.
    #[default]
    V6_18,
}

impl Names {
    pub(crate) fn of<T>(config: &Config<T>) -> Self {
        match config {
            _ if config.has(Behaviour::Early) => Self::Early,
            _ if config.behaviours.by_load() => Self::V3,
            _ if config.has(Behaviour::Schedstat17) => Self::V6_18,
            _ if config.has(Behaviour::CustomSlices) => Self::V6_12,
            _ if config.has(Behaviour::Eevdf) => Self::V6_6,
            _ => Self::V6_1,
        }
    }
}

/// All CPUs at one instant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// The time.
    pub at: u64,
    /// The period of the tick.
    pub tick_ns: u64,
    /// The names of its values.
    pub names: Names,
    /// `base_slice_ns`; CFS: the minimal granularity.
    pub base_slice_ns: u64,
    /// CFS: `latency_ns`, `wakeup_granularity_ns` and `idle_min_granularity_ns`.
    pub cfs_ns: [u64; 3],
    /// Whether groups can be SCHED_IDLE. CFS has `idle_min_granularity_ns` with such groups only.
    pub idle_groups: bool,
    /// The version of `/proc/schedstat`: 12 in 2.6.15, 14 in 2.6.22, 15 up to 6.9, 16 up to 6.13, 17 since then.
    pub schedstat_version: u32,
    /// Whether groups have real-time scheduling (`CONFIG_RT_GROUP_SCHED`).
    pub rt_groups: bool,
    /// By CPU.
    pub cpus: Vec<CpuDebug>,
}

/// One run queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuDebug {
    /// The CPU.
    pub cpu: CpuId,
    /// The running task.
    pub curr: Running,
    /// Queued tasks of every class.
    pub nr_running: u32,
    /// Uninterruptible sleeps begun here less those ended here; meaningful only as a sum over the CPUs.
    pub nr_uninterruptible: i64,
    /// The next balance.
    pub next_balance_jiffies: u64,
    /// `rq_clock`.
    pub clock: u64,
    /// Average idle time.
    pub avg_idle: u64,
    /// Highest cost of newly-idle balancing, decaying.
    pub max_idle_balance_cost: u64,
    /// Fair queues: one of each group, the root's first.
    pub cfs: Vec<CfsDebug>,
    /// Its real-time class.
    pub rt: RtDebug,
    /// With real-time scheduling of groups: all but the root that have had such tasks here.
    pub rt_groups: Vec<(GroupId, RtDebug)>,
    /// Queued tasks of the deadline class.
    pub dl_nr_running: u32,
    /// Bandwidth of each CPU in its root domain for deadline tasks and servers, in 2^-20 CPUs; None: unlimited.
    pub dl_bw: Option<u64>,
    /// Bandwidth reserved on all that domain's CPUs, in 2^-20 CPUs.
    pub dl_total_bw: u64,
    /// Whether it is online. The kernel hides offline CPUs, but tasks may sleep there.
    pub online: bool,
    /// Its tasks, by id.
    pub tasks: Vec<TaskDebug>,
    /// Scheduling domains, lowest first: name and CPUs.
    pub domains: Vec<(&'static str, CpuMask)>,
}

/// The real-time class of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RtDebug {
    /// Tasks, including the running one.
    pub nr_running: u32,
    /// Whether the class is throttled.
    pub throttled: bool,
    /// Runtime used in this period.
    pub time: u64,
    /// Runtime of a period.
    pub runtime: u64,
}

/// Load averages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AvgDebug {
    /// See the kernel's `struct sched_avg`.
    pub load_sum: u64,
    /// See `load_sum`.
    pub runnable_sum: u64,
    /// See `load_sum`.
    pub util_sum: u64,
    /// In the scale of weights.
    pub load_avg: u64,
    /// 1024 for each runnable task.
    pub runnable_avg: u64,
    /// Of 1024.
    pub util_avg: u64,
    /// PELT clock; 0 if never queued.
    pub last_update_time: u64,
    /// Of 1024.
    pub util_est: u64,
}

/// A scheduling entity of the fair class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntityDebug {
    /// Last account update.
    pub exec_start: u64,
    /// Virtual time, at nice 0; wraps.
    pub vruntime: i64,
    /// Virtual deadline, as `vruntime` (EEVDF).
    pub deadline: i64,
    /// Request length (EEVDF).
    pub slice: u64,
    /// Whether the task requested this slice.
    pub custom_slice: bool,
    /// CPU time.
    pub sum_exec_runtime: u64,
    /// `load.weight`: nice 0 = 1048576.
    pub weight: u64,
    /// Whether its lag is not negative (EEVDF).
    pub eligible: bool,
    /// Whether its dequeue is delayed.
    pub delayed: bool,
    /// Its averages.
    pub avg: AvgDebug,
}

/// A group's queue on a CPU (`cfs_rq`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CfsDebug {
    /// The group.
    pub group: GroupId,
    /// First entity's deadline, and the tree's least vruntime.
    pub left: Option<(i64, i64)>,
    /// The last entity's vruntime.
    pub right_vruntime: Option<i64>,
    /// Virtual time. CFS: the least queued vruntime, which never falls. 6.12+: `zero_vruntime`, which follows the
    /// average.
    pub min_vruntime: i64,
    /// The weighted average; CFS: `min_vruntime`.
    pub avg_vruntime: i64,
    /// Queued entities, including the running one.
    pub nr_queued: u32,
    /// Runnable tasks, in all levels.
    pub h_nr_runnable: u32,
    /// `h_nr_runnable` and delayed dequeues.
    pub h_nr_queued: u32,
    /// SCHED_IDLE, or in an idle group, among `h_nr_queued`.
    pub h_nr_idle: u32,
    /// Its own idle entities.
    pub nr_idle: u32,
    /// Sum of its entities' weights.
    pub load: u64,
    /// Its averages.
    pub avg: AvgDebug,
    /// Averages (load, utilisation, runnable) of departed tasks, not yet subtracted.
    pub removed: [u64; 3],
    /// Its part of the group's load average.
    pub tg_load_avg_contrib: u64,
    /// The group's load average over all CPUs.
    pub tg_load_avg: u64,
    /// Whether its own limit throttles it.
    pub throttled: bool,
    /// Limits, its own and ancestors', that throttle it.
    pub throttle_count: u32,
    /// The entity on the parent's queue; None for the root.
    pub se: Option<EntityDebug>,
}

/// A task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskDebug {
    /// The task.
    pub id: TaskId,
    /// Its state.
    pub state: TaskState,
    /// Whether its sleep is uninterruptible.
    pub blocked: bool,
    /// Its policy.
    pub policy: SchedPolicy,
    /// The kernel's `prio` ([`SchedPolicy::prio`]); up to 2.6.22 with the bonus for sleep.
    pub prio: i16,
    /// Its group.
    pub group: GroupId,
    /// Requested clamps, lower and upper, then effective ones, of 1024.
    pub uclamp: [u16; 4],
    /// Fair-class state; CPU time and last update are of any class.
    pub se: Option<EntityDebug>,
    /// Why balancers left it.
    pub migrations: Migrations,
    /// Wakeup counters.
    pub wakeups: Wakeups,
    /// Deadline task: remaining runtime, maybe negative, and deadline.
    pub dl: Option<(i64, u64)>,
}
