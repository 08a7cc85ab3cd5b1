//! The scheduler's state at one instant (`debug.c`): the numbers of `/sys/kernel/debug/sched/debug` and
//! `/proc/PID/sched`, under the kernel's names. As in the kernel's files, accounts are as of the last update of their
//! run queue.
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
    /// 3.10 to 3.18.
    V3,
    /// 6.1.
    V6_1,
    /// 6.6.
    V6_6,
    /// 6.12.
    V6_12,
    /// 6.18.
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
    /// The version of `/proc/schedstat`: 12 in 2.6.15, 14 in 2.6.22, 15 to 6.6, 16 in 6.12, 17 in 6.18.
    pub schedstat_version: u32,
    /// Real-time scheduling of groups (`CONFIG_RT_GROUP_SCHED`).
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
    /// The highest cost of newly-idle balancing, decaying.
    pub max_idle_balance_cost: u64,
    /// The queues of the fair class: one of each group, the root's first.
    pub cfs: Vec<CfsDebug>,
    /// Its real-time class.
    pub rt: RtDebug,
    /// With real-time scheduling of groups: those of all groups but the root that have had such tasks here.
    pub rt_groups: Vec<(GroupId, RtDebug)>,
    /// Queued tasks of the deadline class.
    pub dl_nr_running: u32,
    /// Bandwidth of each CPU of its root domain for deadline tasks and servers, in 2^-20 CPUs; None: no limit.
    pub dl_bw: Option<u64>,
    /// Bandwidth reserved on all CPUs of that domain, in 2^-20 CPUs.
    pub dl_total_bw: u64,
    /// Whether it is online. The kernel shows no offline CPUs, but tasks may sleep there.
    pub online: bool,
    /// The tasks that are here, by id.
    pub tasks: Vec<TaskDebug>,
    /// Its scheduling domains, lowest first: name and CPUs.
    pub domains: Vec<(&'static str, CpuMask)>,
}

/// The real-time class of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RtDebug {
    /// Number of tasks, including the running one.
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
    /// On the PELT clock; 0 if it was never queued.
    pub last_update_time: u64,
    /// Of 1024.
    pub util_est: u64,
}

/// A scheduling entity of the fair class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntityDebug {
    /// The last update of its account.
    pub exec_start: u64,
    /// Virtual time, at nice 0; wraps.
    pub vruntime: i64,
    /// Virtual deadline, as `vruntime` (EEVDF).
    pub deadline: i64,
    /// The length of its requests (EEVDF).
    pub slice: u64,
    /// Whether the task requested this slice.
    pub custom_slice: bool,
    /// CPU time.
    pub sum_exec_runtime: u64,
    /// `load.weight`: nice 0 = 1048576.
    pub weight: u64,
    /// Whether its lag is not negative (EEVDF).
    pub eligible: bool,
    /// Whether it sleeps with a delayed dequeue.
    pub delayed: bool,
    /// Its averages.
    pub avg: AvgDebug,
}

/// A group's queue on a CPU (`cfs_rq`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CfsDebug {
    /// The group.
    pub group: GroupId,
    /// Deadline of the first entity in the tree, and the least vruntime in it.
    pub left: Option<(i64, i64)>,
    /// vruntime of the last entity in the tree.
    pub right_vruntime: Option<i64>,
    /// The queue's virtual time (`min_vruntime`). CFS: the least queued vruntime, which never falls. 6.12 and 6.18:
    /// `zero_vruntime`, which follows the average.
    pub min_vruntime: i64,
    /// The weighted average; CFS: `min_vruntime`.
    pub avg_vruntime: i64,
    /// Queued entities, including the running one.
    pub nr_queued: u32,
    /// Runnable tasks, in all levels.
    pub h_nr_runnable: u32,
    /// `h_nr_runnable` and the tasks with a delayed dequeue.
    pub h_nr_queued: u32,
    /// Tasks among `h_nr_queued` that are SCHED_IDLE or in an idle group.
    pub h_nr_idle: u32,
    /// Idle entities of its own.
    pub nr_idle: u32,
    /// Sum of the weights of its entities.
    pub load: u64,
    /// Its averages.
    pub avg: AvgDebug,
    /// Averages (load, utilisation, runnable) of tasks that left, still to be subtracted.
    pub removed: [u64; 3],
    /// Its part of the group's load average.
    pub tg_load_avg_contrib: u64,
    /// The group's load average over all CPUs.
    pub tg_load_avg: u64,
    /// Whether its own limit throttles it.
    pub throttled: bool,
    /// Number of limits, of its own and of ancestors, that throttle it.
    pub throttle_count: u32,
    /// The group's entity on its parent's queue; None for the root.
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
    /// State in the fair class; CPU time and the time of its last update are of any class.
    pub se: Option<EntityDebug>,
    /// Why balancers did not move it.
    pub migrations: Migrations,
    /// Counters of its wakeups.
    pub wakeups: Wakeups,
    /// Of a deadline task: remaining runtime, maybe negative, and deadline.
    pub dl: Option<(i64, u64)>,
}
