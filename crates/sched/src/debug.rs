//! What the scheduler holds at one instant, for people to look at (`debug.c`): the numbers of
//! `/sys/kernel/debug/sched/debug` and `/proc/PID/sched`, under the kernel's names. Looking changes nothing: accounts
//! are as of the last time their run queue was worked on, as they are in the kernel's files.
//!
//! Times are nanoseconds.

use alloc::vec::Vec;

use crate::balance::domains::Level;
use crate::class::{ClassKind, rt};
use crate::config::Config;
use crate::cpumask::CpuMask;
use crate::event::Running;
use crate::host::Host;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::{Rq, Rqs};
use crate::scheduler::Scheduler;
use crate::shared::Shared;
use crate::task::SchedPolicy;
pub use crate::task::{Migrations, TaskState, Wakeups};
use crate::tunables::Tunables;
use crate::uclamp;

/// Which names the kernel's files have for what is there.
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
    fn of<T>(config: &Config<T>) -> Self {
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
    /// When.
    pub at: u64,
    /// From one tick to the next.
    pub tick_ns: u64,
    /// Whose names they have.
    pub names: Names,
    /// `base_slice_ns`; CFS: its minimal granularity.
    pub base_slice_ns: u64,
    /// CFS: `latency_ns`, `wakeup_granularity_ns` and `idle_min_granularity_ns`.
    pub cfs_ns: [u64; 3],
    /// The version of `/proc/schedstat` that the kernel has: 12 in 2.6.15, 14 in 2.6.22, 15 to 6.6, 16 in 6.12, 17 in
    /// 6.18.
    pub schedstat_version: u32,
    /// The kernel schedules real-time tasks by groups (`CONFIG_RT_GROUP_SCHED`).
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
    /// Tasks queued, of every class.
    pub nr_running: u32,
    /// Uninterruptible sleeps begun here less those ended here: only the sum over the CPUs means something.
    pub nr_uninterruptible: i64,
    /// When it balances next.
    pub next_balance_jiffies: u64,
    /// `rq_clock`, nanoseconds.
    pub clock: u64,
    /// How long it is idle on average, nanoseconds.
    pub avg_idle: u64,
    /// The most that balancing before idleness has taken, decaying, nanoseconds.
    pub max_idle_balance_cost: u64,
    /// Its queues of the fair class: a group's each, the root's first.
    pub cfs: Vec<CfsDebug>,
    /// Its real-time class.
    pub rt: RtDebug,
    /// With real-time scheduling of groups: that of each group that has had such tasks here, but for the root's.
    pub rt_groups: Vec<(GroupId, RtDebug)>,
    /// Tasks of the deadline class that are queued.
    pub dl_nr_running: u32,
    /// What its root domain may promise of each CPU to deadline tasks and servers, in 2^-20 CPUs; none: there is no
    /// limit.
    pub dl_bw: Option<u64>,
    /// What that domain has promised on all its CPUs, likewise.
    pub dl_total_bw: u64,
    /// Whether it is online. The kernel shows nothing of a CPU that is not; but tasks may sleep there.
    pub online: bool,
    /// The tasks that are here, asleep or not, by id.
    pub tasks: Vec<TaskDebug>,
    /// Its scheduling domains, the lowest first: name and CPUs.
    pub domains: Vec<(&'static str, CpuMask)>,
}

/// The real-time class of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RtDebug {
    /// Tasks, the running one included.
    pub nr_running: u32,
    /// Whether the class has used up what it may have.
    pub throttled: bool,
    /// What it has had in this period, nanoseconds.
    pub time: u64,
    /// What it may have in a period, nanoseconds.
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
    /// Of the weight.
    pub load_avg: u64,
    /// Of 1024 for each runnable task.
    pub runnable_avg: u64,
    /// Of 1024.
    pub util_avg: u64,
    /// On the PELT clock, nanoseconds; 0 of what has not been on a queue yet.
    pub last_update_time: u64,
    /// Of 1024.
    pub util_est: u64,
}

/// A scheduling entity of the fair class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntityDebug {
    /// When its account was brought up to date, nanoseconds.
    pub exec_start: u64,
    /// Virtual time it has had, nanoseconds at nice 0; wraps around.
    pub vruntime: i64,
    /// Virtual deadline, as `vruntime` (EEVDF).
    pub deadline: i64,
    /// What it wants to run at a time, nanoseconds (EEVDF).
    pub slice: u64,
    /// The slice is its own wish.
    pub custom_slice: bool,
    /// CPU time it has had, nanoseconds.
    pub sum_exec_runtime: u64,
    /// `load.weight`: nice 0 = 1048576.
    pub weight: u64,
    /// It is owed time, or owes none (EEVDF).
    pub eligible: bool,
    /// Asleep but still queued (delayed dequeue).
    pub delayed: bool,
    /// Its averages.
    pub avg: AvgDebug,
}

/// One group's queue on one CPU (`cfs_rq`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CfsDebug {
    /// Whose.
    pub group: GroupId,
    /// Deadline of the first entity in the tree, and the least vruntime there.
    pub left: Option<(i64, i64)>,
    /// vruntime of the last entity in the tree.
    pub right_vruntime: Option<i64>,
    /// The queue's virtual time (`min_vruntime`). CFS: the least queued vruntime, which never falls. 6.12 and 6.18: the
    /// average instead (`zero_vruntime`, which follows it).
    pub min_vruntime: i64,
    /// The weighted average; CFS keeps none and shows `min_vruntime`.
    pub avg_vruntime: i64,
    /// Entities queued, the running one included.
    pub nr_queued: u32,
    /// Tasks runnable in it and below.
    pub h_nr_runnable: u32,
    /// Those, and those whose dequeue is delayed.
    pub h_nr_queued: u32,
    /// Those that are SCHED_IDLE or in an idle group.
    pub h_nr_idle: u32,
    /// Entities of its own that are.
    pub nr_idle: u32,
    /// Sum of the weights of its entities.
    pub load: u64,
    /// Its averages.
    pub avg: AvgDebug,
    /// Load, utilisation and runnable averages of tasks that left, still to be taken off.
    pub removed: [u64; 3],
    /// What it adds to the group's load average.
    pub tg_load_avg_contrib: u64,
    /// The group's load average over all CPUs.
    pub tg_load_avg: u64,
    /// Its own limit is used up.
    pub throttled: bool,
    /// How many limits, its own and those above, are used up.
    pub throttle_count: u32,
    /// The group's entity on its parent's queue; the root has none.
    pub se: Option<EntityDebug>,
}

/// A task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskDebug {
    /// The task.
    pub id: TaskId,
    /// Where in its life.
    pub state: TaskState,
    /// Its sleep is uninterruptible.
    pub blocked: bool,
    /// Its policy.
    pub policy: SchedPolicy,
    /// The kernel's `prio`: -1 for deadline tasks, 0 to 98 for real-time tasks, 120 + nice for others; up to 2.6.22
    /// with the bonus for sleep.
    pub prio: i16,
    /// Its group.
    pub group: GroupId,
    /// The utilisation clamps it asks for, lower and upper; then those that hold for it. Of 1024.
    pub uclamp: [u16; 4],
    /// What the fair class keeps of it; CPU time and when it was charged last are of whatever class.
    pub se: Option<EntityDebug>,
    /// What balancers did not move it for.
    pub migrations: Migrations,
    /// How its wakeups were.
    pub wakeups: Wakeups,
    /// A deadline task's: what is left of its runtime, which may be less than nothing, and when its deadline is.
    pub dl: Option<(i64, u64)>,
}

/// What the fair class keeps of a task, with the time it has had in the classes above.
fn entity<P: Policy>(rq: &Rq<P>, index: u32) -> Option<EntityDebug> {
    let task = &rq.tasks[index];
    let charged = match task.kind() {
        ClassKind::Fair => 0,
        ClassKind::Rt if rq.curr == Some(index) => rq.rt.exec_start(),
        ClassKind::Deadline if rq.curr == Some(index) => task.deadline().map_or(0, |se| se.exec_start),
        _ if task.ran_above > 0 => task.last_ran,
        _ => 0,
    };
    let se = P::debug_task(rq, index);
    let above = task.kind() != ClassKind::Fair || task.ran_above > 0;
    let mut se = if above { se.unwrap_or_default() } else { se? };
    se.sum_exec_runtime += task.ran_above;
    se.exec_start = se.exec_start.max(charged);
    Some(se)
}

const fn name(level: Level) -> &'static str {
    match level {
        Level::Smt => "SMT",
        Level::Cluster => "CLS",
        Level::Mc => "MC",
        Level::Pkg => "PKG",
        Level::Numa(_) => "NUMA",
    }
}

fn cpu<P: Policy>(rq: &Rq<P>, shared: &Shared<P>) -> CpuDebug {
    let mut tasks: Vec<TaskDebug> = rq
        .tasks
        .iter()
        .map(|(index, task)| TaskDebug {
            id: task.id,
            state: task.state,
            blocked: task.blocked,
            policy: task.policy,
            prio: if task.kind() == ClassKind::Fair { P::dynamic_prio(rq, index) } else { task.prio() },
            group: task.group,
            uclamp: {
                let (asked, holds) = (uclamp::requested(shared, task), uclamp::effective(shared, task));
                [asked.min, asked.max, holds.min, holds.max]
            },
            se: entity(rq, index),
            migrations: task.migrations,
            wakeups: task.wakeups,
            dl: task.deadline().filter(|_| task.policy == SchedPolicy::Deadline).map(|se| (se.runtime, se.deadline)),
        })
        .collect();
    tasks.sort_unstable_by_key(|task| task.id);
    let domain = shared.dl.domain(shared.root(rq.cpu));
    CpuDebug {
        cpu: rq.cpu,
        curr: rq.running(),
        nr_running: rq.nr_running,
        nr_uninterruptible: rq.load.nr_uninterruptible,
        next_balance_jiffies: if shared.config.has(Behaviour::Early) {
            rq.balance.next_balance / shared.config.tunables.tick_ns().max(1)
        } else {
            rq.balance.next_balance
        },
        clock: rq.clock.now(),
        avg_idle: rq.balance.avg_idle,
        max_idle_balance_cost: rq.balance.max_idle_balance_cost,
        cfs: P::debug(rq, shared),
        rt: RtDebug {
            nr_running: rq.rt.nr_running(),
            throttled: rq.rt.throttled(),
            time: rq.rt.rt_time(),
            runtime: shared.config.tunables.rt_runtime_ns(),
        },
        rt_groups: rq
            .rt
            .of_groups()
            .filter(|(group, ..)| *group != GroupId::ROOT)
            .map(|(group, nr_running, throttled, time)| {
                let runtime = rt::limit(shared, group).runtime.unwrap_or(u64::MAX);
                (group, RtDebug { nr_running, throttled, time, runtime })
            })
            .collect(),
        dl_nr_running: rq.dl.nr_running(),
        dl_bw: domain.limit().per_cpu(),
        dl_total_bw: domain.total(),
        online: rq.is_online(),
        tasks,
        domains: shared.domains.of(rq.cpu).map(|(_, domain)| (name(domain.level), domain.span.clone())).collect(),
    }
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Returns the present state.
    pub fn snapshot(&mut self) -> Snapshot {
        let (shared, tunables) = (self.shared, &self.shared.config.tunables);
        Snapshot {
            at: self.now,
            tick_ns: tunables.tick_ns(),
            names: Names::of(&shared.config),
            base_slice_ns: tunables.base_slice_ns(),
            cfs_ns: [tunables.latency_ns(), tunables.wakeup_granularity_ns(), tunables.idle_min_granularity_ns()],
            schedstat_version: match &shared.config {
                config if config.has(Behaviour::Schedstat17) => 17,
                config if config.has(Behaviour::Schedstat16) => 16,
                config if config.has(Behaviour::Schedstat15) => 15,
                config if config.has(Behaviour::Schedstat14) => 14,
                _ => 12,
            },
            rt_groups: shared.config.rt_group_sched,
            cpus: (0..shared.nr_cpus() as u32)
                .map(|index| {
                    let mut rq = self.rqs.rq(CpuId(index));
                    P::apply_deferred(&mut rq, shared);
                    cpu(&rq, shared)
                })
                .collect(),
        }
    }
}
