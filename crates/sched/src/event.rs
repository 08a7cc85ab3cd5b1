//! Events, with the names and fields of the kernel's tracepoints. `vruntime_trace::Sink` adds CPU and time.

use crate::attrs::SchedPolicy;
use crate::ids::{CpuId, GroupId, TaskId};

/// Why a task left the CPU (`prev_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrevState {
    /// Preempted, or its slice ended (`R+`).
    Preempted,
    /// Called `sched_yield` (`R`). Involuntary for the kernel.
    Yielded,
    /// Asleep until woken (`S`). Voluntary.
    Sleeping,
    /// Asleep uninterruptibly: I/O or a kernel lock (`D`). Voluntary.
    Blocked,
    /// Gone (`X`).
    Dead,
}

/// What moved a task to another CPU.
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
    /// Pushed while running, by the balancer's stopper.
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
    /// Returns the workload's task, if it is one.
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
    /// A task switch.
    Switch,
    /// The scheduler's tick.
    Tick,
    /// A timer interrupt that wakes a task.
    Timer,
    /// A reschedule interrupt from another CPU.
    Ipi,
    /// A system call's entry and exit.
    Syscall,
    /// Refilled caches after a migration.
    Migration,
}

/// What happened to a deadline task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeadlineEvent {
    /// Its runtime is used up, or it yielded; it waits for its next period.
    Throttle,
    /// A period began, with new runtime and deadline.
    Replenish,
    /// Its runtime is used up, and it requested SIGXCPU (SCHED_FLAG_DL_OVERRUN).
    Overrun,
    /// A job ended late, by sleeping, yielding or exiting.
    Miss {
        /// Nanoseconds.
        late: u64,
    },
}

/// An event, of the recording CPU `cpu` unless the variant names another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// `sched_process_fork`.
    Fork {
        /// None for a workload's initial tasks.
        parent: Option<TaskId>,
        /// The new task.
        child: TaskId,
    },
    /// `sched_process_exit`.
    Exit {
        /// The task that ends.
        task: TaskId,
    },
    /// `sched_waking`: the running task of `cpu`, or an interrupt, wakes `task`; no CPU is chosen yet.
    Waking {
        /// The woken task.
        task: TaskId,
        /// Whether an interrupt handler is the waker.
        irq: bool,
    },
    /// `sched_wakeup`: `task` waits on the run queue of `target`.
    Wakeup {
        /// The woken task.
        task: TaskId,
        /// Its CPU.
        target: CpuId,
    },
    /// `sched_wakeup_new`: [`Event::Wakeup`] of a new task.
    WakeupNew {
        /// The new task.
        task: TaskId,
        /// Its CPU.
        target: CpuId,
    },
    /// `sched_switch`.
    Switch {
        /// The outgoing task.
        prev: Running,
        /// Meaningless unless `prev` is a task.
        prev_state: PrevState,
        /// The incoming task.
        next: Running,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// The migrated task.
        task: TaskId,
        /// Source.
        from: CpuId,
        /// Target.
        to: CpuId,
        /// The cause.
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
        /// Its new policy.
        policy: SchedPolicy,
        /// 1..=99 under SCHED_FIFO and SCHED_RR, else 0.
        rt_priority: u8,
    },
    /// `sched_pi_setprio`: a task inherits or loses a waiter's priority. Values are the kernel's
    /// ([`SchedPolicy::prio`]).
    PiSetprio {
        /// The task.
        task: TaskId,
        /// Before.
        old: i16,
        /// From now on.
        new: i16,
    },
    /// An event of a SCHED_DEADLINE task.
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
    /// The group may run here again.
    Unthrottle {
        /// The group.
        group: GroupId,
        /// How long the kernel counts it as throttled, ns.
        ns: u64,
    },
    /// Periods of a group's CPU limit ended; the timer ran here.
    BandwidthPeriod {
        /// The group.
        group: GroupId,
        /// Above 1 only if the timer was very late.
        periods: u32,
        /// Whether a CPU waited for run time (`nr_throttled`).
        throttled: bool,
        /// CPU time beyond the quota, ns (`burst_usec`).
        burst: u64,
    },
    /// Throttles real-time tasks of a group and its descendants here (`sched_rt_runtime_us`, `cpu.rt_runtime_us`),
    /// except those with inherited priority. No kernel tracepoint.
    RtThrottle {
        /// The group; the root: all real-time tasks.
        group: GroupId,
    },
    /// The group's real-time tasks may run here again.
    RtUnthrottle {
        /// The group.
        group: GroupId,
    },
    /// `cpu_frequency`.
    CpuFrequency {
        /// Kilohertz.
        khz: u32,
    },
    /// Android's `sched_overutilized`: a root domain becomes or ceases to be overutilized (a CPU has less than a fifth
    /// of its capacity free). While it is, wakeups ignore energy, and load is balanced.
    Overutilized {
        /// Its first CPU.
        root: CpuId,
        /// Whether it is overutilized.
        on: bool,
    },
    /// The CPU goes offline (`cpuhp`: below `CPUHP_AP_ACTIVE`); its tasks are about to move.
    CpuDown,
    /// The CPU is online.
    CpuUp,
    /// All CPUs of the task's affinity are offline: it may run anywhere ("no longer affine to cpu").
    AffinityLost {
        /// The task.
        task: TaskId,
    },
    /// A CPU looked for work to pull in a domain.
    Balance {
        /// When.
        kind: BalanceKind,
        /// The domain's level in the CPU's hierarchy, from 0.
        level: u8,
        /// The busiest CPU, if there was an imbalance.
        busiest: Option<CpuId>,
        /// Tasks moved.
        pulled: u32,
        /// Counts as balanced (`lb_balanced`): no imbalance, another CPU's duty, or affinity forbids every move.
        balanced: bool,
    },
    /// 3.10: before pulling from `of`, a CPU computed the loads of its groups (`update_h_load`).
    HLoad {
        /// The CPU to pull from.
        of: CpuId,
        /// Groups visited: all.
        groups: u32,
        /// Groups without a task there.
        idle: u32,
    },
    /// Overhead, charged to the running task.
    Overhead {
        /// The kind of overhead.
        kind: OverheadKind,
        /// Nanoseconds.
        ns: u64,
    },
    /// `task` completed a loop (a row in rt-app's log).
    LoopEnd {
        /// The task.
        task: TaskId,
        /// Nanoseconds since the loop began.
        duration: u64,
        /// CPU work (`run`, `runtime`) in the loop, nanoseconds.
        work: u64,
    },
    /// After a timed sleep, `task` runs its own code again.
    SleepReturn {
        /// The task.
        task: TaskId,
        /// Nanoseconds since due: timer, wakeup and wait for the CPU.
        late: u64,
    },
}
