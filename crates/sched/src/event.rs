//! The events a scheduler emits: its tracepoints, and the vocabulary of every trace in this project.
//!
//! Names and fields follow the kernel's tracepoints (`sched_switch`, `sched_waking`, ...). An event is small and
//! `Copy`; the CPU it happened on and the time, in nanoseconds, travel beside it (see `vruntime_trace::Sink`).

use crate::ids::{CpuId, GroupId, TaskId};
use crate::task::SchedPolicy;

/// Why a task left the CPU: `prev_state` of `sched_switch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrevState {
    /// Still runnable: preempted, or its slice ended (`R+`). An involuntary switch.
    Preempted,
    /// Still runnable: it called `sched_yield` (`R`). The kernel counts it as involuntary: the task did not sleep.
    Yielded,
    /// Asleep until woken (`S`). A voluntary switch.
    Sleeping,
    /// Asleep and not interruptible: waiting for I/O or a lock held in the kernel (`D`). A voluntary switch.
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
    /// Pushed by the stopper: the balancer had to move a running task.
    Active,
    /// Its affinity no longer allowed the CPU it was on.
    Affinity,
    /// Its CPU went offline.
    Hotplug,
    /// Pushed by a CPU that has more real-time tasks than it can run.
    RtPush,
    /// Pulled by a CPU about to run something less urgent.
    RtPull,
    /// Pushed by a CPU that has more deadline tasks than it can run.
    DlPush,
    /// Pulled by a CPU whose deadline task left.
    DlPull,
}

/// Which task runs: a user's, or one of the CPU's own.
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
    /// Idle, at its interval (or on behalf of a tickless CPU).
    Idle,
    /// About to go idle.
    NewIdle,
}

/// What kept a CPU from the work of its tasks.
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
    /// It has used up its runtime, or yielded, and waits for its next period.
    Throttle,
    /// Its next period has begun: it has a new runtime and a later deadline.
    Replenish,
    /// Its runtime is used up, and it requested a signal (SCHED_FLAG_DL_OVERRUN: the kernel sends SIGXCPU).
    Overrun,
    /// It has ended a job, by sleeping, yielding or exiting, this many nanoseconds after the job's deadline.
    Miss {
        /// Nanoseconds.
        late: u64,
    },
}

/// Something that happened. `cpu` is the CPU the event was recorded on, unless the variant names another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// `sched_process_fork`: `child` exists from now on.
    Fork {
        /// The parent. None for the initial tasks of a workload.
        parent: Option<TaskId>,
        /// The new task.
        child: TaskId,
    },
    /// `sched_process_exit`.
    Exit {
        /// The task that ends.
        task: TaskId,
    },
    /// `sched_waking`: the running task of `cpu`, or an interrupt, wakes `task`. The target CPU is not chosen yet.
    Waking {
        /// The woken task.
        task: TaskId,
        /// It is the doing of an interrupt's handler, not of the running task that it hit.
        irq: bool,
    },
    /// `sched_wakeup`: `task` is on the run queue of `target`. From here on it waits to run.
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
        /// Why; meaningless when `prev` is not a task.
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
    /// `sched_pi_setprio`: a task inherits the priority of a waiter, or loses it. The kernel's `prio`: -1 for
    /// SCHED_DEADLINE and tasks that inherit a deadline; 0 to 98 for real-time tasks; 120 + nice for the fair class.
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
        /// What.
        what: DeadlineEvent,
    },
    /// `cgroup_attach_task`: a task moved to another group.
    MoveGroup {
        /// The task.
        task: TaskId,
        /// Its new group.
        group: GroupId,
    },
    /// A group has used up its CPU limit: it is throttled on this CPU.
    Throttle {
        /// The group.
        group: GroupId,
    },
    /// A group may run again on this CPU.
    Unthrottle {
        /// The group.
        group: GroupId,
        /// For how long its throttling counts, nanoseconds.
        ns: u64,
    },
    /// Periods of a group's CPU limit ended, and its timer noticed on this CPU.
    BandwidthPeriod {
        /// The group.
        group: GroupId,
        /// How many; 1 unless the timer came very late.
        periods: u32,
        /// Some CPU waited for run time (`nr_throttled`).
        throttled: bool,
        /// CPU time used beyond the quota, nanoseconds (`burst_usec`).
        burst: u64,
    },
    /// The real-time tasks of a group, and of groups below it, have used up their runtime on this CPU
    /// (`sched_rt_runtime_us`, `cpu.rt_runtime_us`). None of them runs, except with inherited priority. For the root
    /// group: all real-time tasks. The kernel has no tracepoint for it.
    RtThrottle {
        /// The group.
        group: GroupId,
    },
    /// The real-time tasks of a group may run again on this CPU.
    RtUnthrottle {
        /// The group.
        group: GroupId,
    },
    /// `cpu_frequency`: this CPU runs at another frequency from now on.
    CpuFrequency {
        /// Kilohertz.
        khz: u32,
    },
    /// A CPU of a root domain has less than a fifth of its capacity free, or all have it again (Android's
    /// `sched_overutilized`). Until then wakeups ignore energy, and load is balanced.
    Overutilized {
        /// The first CPU of the root domain.
        root: CpuId,
        /// Whether one has not.
        on: bool,
    },
    /// The event's CPU goes offline (`cpuhp`: below `CPUHP_AP_ACTIVE`): no task joins it from now on, and its tasks are
    /// about to be moved.
    CpuDown,
    /// A CPU, that of the event, is online.
    CpuUp,
    /// No CPU that `task` may run on is online: from now on it may run on any ("no longer affine to cpu").
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
        /// How many tasks came over.
        pulled: u32,
        /// Whether the domain counts as balanced (`lb_balanced`): there was no imbalance, another CPU is responsible,
        /// or affinity forbids every move.
        balanced: bool,
    },
    /// A CPU about to pull tasks from `of` has computed what every group weighs there (3.10: `update_h_load`).
    HLoad {
        /// The CPU tasks are to be pulled from.
        of: CpuId,
        /// How many groups were visited: all there are.
        groups: u32,
        /// Those of them without a task there.
        idle: u32,
    },
    /// The CPU spent `ns` on something other than its tasks' work. The running task is charged for the time.
    Overhead {
        /// On what.
        kind: OverheadKind,
        /// For how long, nanoseconds.
        ns: u64,
    },
    /// `task` completed one loop of its program (one row in rt-app's log).
    LoopEnd {
        /// The task.
        task: TaskId,
        /// Nanoseconds since the loop began.
        duration: u64,
        /// Nanoseconds of its own CPU work (`run`, `runtime`) asked for by the loop.
        work: u64,
    },
    /// A timed sleep of `task` returned to it: it runs its own code again.
    SleepReturn {
        /// The task.
        task: TaskId,
        /// Nanoseconds between the time the sleep was due and now: timer, wakeup and wait for the CPU.
        late: u64,
    },
}
