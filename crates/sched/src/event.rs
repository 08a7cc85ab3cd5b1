//! The events that a scheduler emits, as in every trace of this project.
//!
//! Names and fields follow the kernel's tracepoints. CPU and time accompany an event (`vruntime_trace::Sink`).

use crate::attrs::SchedPolicy;
use crate::ids::{CpuId, GroupId, TaskId};

/// Why a task left the CPU: `prev_state` of `sched_switch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrevState {
    /// Runnable: preempted, or its slice ended (`R+`). Involuntary.
    Preempted,
    /// Runnable: it called `sched_yield` (`R`). Involuntary for the kernel.
    Yielded,
    /// Asleep until woken (`S`). Voluntary.
    Sleeping,
    /// Asleep uninterruptibly, for I/O or a lock of the kernel (`D`). Voluntary.
    Blocked,
    /// Gone (`X`).
    Dead,
}

/// Which part of the scheduler moved a task to another CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MigrateCause {
    /// Chosen at wakeup.
    Wakeup,
    /// Chosen at fork.
    Fork,
    /// Chosen at exec.
    Exec,
    /// Pulled by the periodic balancer.
    Periodic,
    /// Pulled by a CPU about to go idle.
    NewIdle,
    /// Pulled for an idle CPU whose tick is stopped.
    NohzIdle,
    /// Pushed by the stopper for the balancer, while running.
    Active,
    /// Its affinity no longer allows its CPU.
    Affinity,
    /// Its CPU went offline.
    Hotplug,
    /// Pushed by a CPU with surplus real-time tasks.
    RtPush,
    /// Pulled by a CPU about to run a less urgent task.
    RtPull,
    /// Pushed by a CPU with surplus deadline tasks.
    DlPush,
    /// Pulled by a CPU whose deadline task left.
    DlPull,
}

/// Which task runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Running {
    /// The idle task (`swapper/N`).
    Idle,
    /// The stopper thread (`migration/N`).
    Stopper,
    /// A task of the workload.
    Task(TaskId),
}

impl Running {
    /// The workload's task, if it is one.
    #[inline]
    pub const fn task(self) -> Option<TaskId> {
        match self {
            Self::Task(task) => Some(task),
            Self::Idle | Self::Stopper => None,
        }
    }
}

/// When a CPU balanced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BalanceKind {
    /// Busy, at its interval.
    Busy,
    /// Idle, at its interval, or for a tickless CPU.
    Idle,
    /// About to go idle.
    NewIdle,
}

/// What took CPU time from the tasks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OverheadKind {
    /// Switching from one task to another.
    Switch,
    /// The scheduler's tick.
    Tick,
    /// A timer interrupt that wakes a task.
    Timer,
    /// A reschedule interrupt from another CPU.
    Ipi,
    /// Entering and leaving the kernel for a system call.
    Syscall,
    /// Refilling caches after a migration.
    Migration,
}

/// What happened to a deadline task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeadlineEvent {
    /// Its runtime is used up, or it yielded; it waits for its next period.
    Throttle,
    /// Its next period began, with a new runtime and a later deadline.
    Replenish,
    /// Its runtime is used up, and it requested SIGXCPU (SCHED_FLAG_DL_OVERRUN).
    Overrun,
    /// It ended a job after the job's deadline, by sleeping, yielding or exiting.
    Miss {
        /// By how much, nanoseconds.
        late: u64,
    },
}

/// An event. `cpu` is the CPU that recorded it, unless the variant names another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// `sched_process_fork`.
    Fork {
        /// None for the initial tasks of a workload.
        parent: Option<TaskId>,
        /// The new task.
        child: TaskId,
    },
    /// `sched_process_exit`.
    Exit {
        /// The task that ends.
        task: TaskId,
    },
    /// `sched_waking`: the running task of `cpu`, or an interrupt, wakes `task`, before a CPU is chosen.
    Waking {
        /// The woken task.
        task: TaskId,
        /// Whether an interrupt handler is the waker.
        irq: bool,
    },
    /// `sched_wakeup`: `task` is on the run queue of `target`, and waits to run.
    Wakeup {
        /// The woken task.
        task: TaskId,
        /// The CPU whose run queue it is on.
        target: CpuId,
    },
    /// `sched_wakeup_new`: as [`Event::Wakeup`], for a task just forked.
    WakeupNew {
        /// The new task.
        task: TaskId,
        /// The CPU whose run queue it is on.
        target: CpuId,
    },
    /// `sched_switch`.
    Switch {
        /// The task that leaves the CPU.
        prev: Running,
        /// Why; meaningless unless `prev` is a task.
        prev_state: PrevState,
        /// The task that gets the CPU.
        next: Running,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// The migrated task.
        task: TaskId,
        /// From here.
        from: CpuId,
        /// To here.
        to: CpuId,
        /// The cause of the migration.
        cause: MigrateCause,
    },
    /// A task's nice value changed.
    SetNice {
        /// The task.
        task: TaskId,
        /// -20..=19.
        nice: i8,
    },
    /// A task's policy or real-time priority changed (`sched_setscheduler`).
    SetPolicy {
        /// The task.
        task: TaskId,
        /// Its policy from now on.
        policy: SchedPolicy,
        /// 1..=99 under SCHED_FIFO and SCHED_RR, else 0.
        rt_priority: u8,
    },
    /// `sched_pi_setprio`: a task inherits or loses the priority of a waiter. The values are the kernel's `prio`
    /// ([`SchedPolicy::prio`]).
    PiSetprio {
        /// The task.
        task: TaskId,
        /// Before.
        old: i16,
        /// From now on.
        new: i16,
    },
    /// Something happened to a task under SCHED_DEADLINE.
    Deadline {
        /// The task.
        task: TaskId,
        /// What happened.
        what: DeadlineEvent,
    },
    /// `cgroup_attach_task`: a task moved to another group.
    MoveGroup {
        /// The task.
        task: TaskId,
        /// Its new group.
        group: GroupId,
    },
    /// The CPU limit throttles a group on this CPU.
    Throttle {
        /// The group.
        group: GroupId,
    },
    /// A group may run again on this CPU.
    Unthrottle {
        /// The group.
        group: GroupId,
        /// How long the kernel counts it as throttled, nanoseconds.
        ns: u64,
    },
    /// Periods of a group's CPU limit ended; its timer ran on this CPU.
    BandwidthPeriod {
        /// The group.
        group: GroupId,
        /// Number of periods; above 1 only if the timer was very late.
        periods: u32,
        /// Whether a CPU waited for run time (`nr_throttled`).
        throttled: bool,
        /// CPU time used beyond the quota, nanoseconds (`burst_usec`).
        burst: u64,
    },
    /// The real-time tasks of a group and its descendants are throttled on this CPU (`sched_rt_runtime_us`,
    /// `cpu.rt_runtime_us`), except those with inherited priority. The kernel has no tracepoint for this.
    RtThrottle {
        /// The group; the root for all real-time tasks.
        group: GroupId,
    },
    /// The real-time tasks of a group may run again on this CPU.
    RtUnthrottle {
        /// The group.
        group: GroupId,
    },
    /// `cpu_frequency`: the frequency of this CPU changed.
    CpuFrequency {
        /// Kilohertz.
        khz: u32,
    },
    /// A root domain becomes overutilized (a CPU has less than a fifth of its capacity free), or ceases to be
    /// (Android's `sched_overutilized`). Then wakeups ignore energy, and load is balanced.
    Overutilized {
        /// The first CPU of the root domain.
        root: CpuId,
        /// Whether it is overutilized.
        on: bool,
    },
    /// The event's CPU goes offline (`cpuhp`: below `CPUHP_AP_ACTIVE`), and its tasks are about to move.
    CpuDown,
    /// The event's CPU is online.
    CpuUp,
    /// All CPUs in the affinity of `task` are offline: it may run on any ("no longer affine to cpu").
    AffinityLost {
        /// The task.
        task: TaskId,
    },
    /// A CPU looked for work to pull in one of its domains.
    Balance {
        /// When it looked.
        kind: BalanceKind,
        /// Level of the domain in the CPU's hierarchy, 0 the lowest.
        level: u8,
        /// The busiest CPU found, if there was an imbalance.
        busiest: Option<CpuId>,
        /// Number of tasks moved.
        pulled: u32,
        /// Whether the domain counts as balanced (`lb_balanced`): no imbalance, another CPU's duty, or affinity forbids
        /// every move.
        balanced: bool,
    },
    /// 3.10: a CPU about to pull from `of` computed the loads of all groups there (`update_h_load`).
    HLoad {
        /// The CPU to pull from.
        of: CpuId,
        /// Number of groups, all visited.
        groups: u32,
        /// Number of groups without a task there.
        idle: u32,
    },
    /// The CPU spent time on overhead, charged to the running task.
    Overhead {
        /// The kind of overhead.
        kind: OverheadKind,
        /// Duration, nanoseconds.
        ns: u64,
    },
    /// `task` completed one loop of its program (one row in rt-app's log).
    LoopEnd {
        /// The task.
        task: TaskId,
        /// Nanoseconds since the loop began.
        duration: u64,
        /// CPU work (`run`, `runtime`) that the loop asked for, nanoseconds.
        work: u64,
    },
    /// `task` runs its own code again after a timed sleep.
    SleepReturn {
        /// The task.
        task: TaskId,
        /// Time since the sleep was due, nanoseconds: timer, wakeup and wait for the CPU.
        late: u64,
    },
}
