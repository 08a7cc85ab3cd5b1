//! Attributes of tasks: policies, classes, states, counters.

use alloc::sync::Arc;

use crate::class::deadline::entity::Donor;
use crate::cpumask::CpuMask;
use crate::ids::GroupId;

/// Scheduling policies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum SchedPolicy {
    /// SCHED_OTHER, called SCHED_NORMAL in the kernel.
    #[default]
    Normal,
    /// SCHED_BATCH: as normal, but its wakeups do not preempt.
    Batch,
    /// SCHED_IDLE: a weight of 3; all other fair tasks preempt it.
    Idle,
    /// SCHED_FIFO: runs until it sleeps, yields or a more urgent task preempts it.
    Fifo,
    /// SCHED_RR: as SCHED_FIFO, but takes turns at its priority.
    RoundRobin,
    /// SCHED_DEADLINE: a runtime in every period, earliest deadline first.
    Deadline,
}

impl SchedPolicy {
    /// The name, as in sched(7).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "SCHED_OTHER",
            Self::Batch => "SCHED_BATCH",
            Self::Idle => "SCHED_IDLE",
            Self::Fifo => "SCHED_FIFO",
            Self::RoundRobin => "SCHED_RR",
            Self::Deadline => "SCHED_DEADLINE",
        }
    }

    /// Returns the kernel's `prio`, lower being more urgent: -1 under SCHED_DEADLINE and for inherited deadlines,
    /// 0..=98 for real-time priorities 99..=1, else 120 + nice.
    pub const fn prio(self, nice: i8, rt_priority: u8) -> i16 {
        match self {
            Self::Deadline => -1,
            Self::Fifo | Self::RoundRobin => 99 - rt_priority as i16,
            Self::Normal | Self::Batch | Self::Idle => 120 + nice as i16,
        }
    }

    /// Whether its tasks have a real-time priority.
    #[inline]
    pub const fn is_rt(self) -> bool {
        matches!(self, Self::Fifo | Self::RoundRobin)
    }
}

/// Priority inheritance: what the most urgent waiter for a task's lock lends the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boost {
    /// A real-time priority, 1..=99.
    Rt(u8),
    /// Deadline parameters.
    Deadline {
        /// Runtime, period and deadline of the donor.
        donor: Donor,
        /// The donor's absolute deadline, nanoseconds. A task with an earlier deadline inherits nothing.
        deadline: u64,
    },
}

/// A [`Boost`] as the task keeps it; the deadline class keeps the parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lent {
    Rt(u8),
    Deadline,
}

impl From<Boost> for Lent {
    fn from(boost: Boost) -> Self {
        match boost {
            Boost::Rt(priority) => Self::Rt(priority),
            Boost::Deadline { .. } => Self::Deadline,
        }
    }
}

impl Lent {
    #[inline]
    pub(crate) const fn rt_priority(self) -> u8 {
        match self {
            Self::Rt(priority) => priority,
            Self::Deadline => 0,
        }
    }
}

/// CPUs a task may run on; `None` for all.
pub type Affinity = Option<Arc<CpuMask>>;

/// Attributes of a new task.
#[derive(Clone, Debug, Default)]
pub struct TaskAttrs {
    /// A SCHED_DEADLINE task, or a real-time task in a group without real-time runtime, starts as SCHED_OTHER until
    /// [`set_scheduler`](crate::Scheduler::set_scheduler).
    pub policy: SchedPolicy,
    /// -20..=19.
    pub nice: i8,
    /// 1..=99, 99 the most urgent; only for SCHED_FIFO and SCHED_RR.
    pub rt_priority: u8,
    /// Requested slice, nanoseconds, 100 us to 100 ms (6.12+; others ignore it).
    pub slice: Option<u64>,
    /// Its task group.
    pub group: GroupId,
    /// CPUs it may run on.
    pub affinity: Affinity,
}

/// State of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// Forked, and not woken yet.
    New,
    /// Running or waiting to run.
    Runnable,
    /// Waiting for something other than a CPU.
    Sleeping,
}

/// Counters of `can_migrate_task`, as in `/proc/PID/sched`: why the task was not moved, or was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Migrations {
    /// Its affinity excludes the CPU (`nr_failed_migrations_affine`).
    pub affine: u32,
    /// It was running (`nr_failed_migrations_running`).
    pub running: u32,
    /// Its cache was warm (`nr_failed_migrations_hot`).
    pub hot: u32,
    /// Its cache was warm, but too many attempts had failed (`nr_forced_migrations`).
    pub forced: u32,
}

/// Counters of wakeups, as in `/proc/PID/sched`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wakeups {
    /// Its waker was about to sleep (`nr_wakeups_sync`).
    pub sync: u32,
    /// The waking and previous CPUs were compared (`nr_wakeups_affine_attempts`).
    pub affine_attempts: u32,
    /// The waking CPU won (`nr_wakeups_affine`).
    pub affine: u32,
}

/// The classes that have tasks, highest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ClassKind {
    /// SCHED_DEADLINE, or the owner of a mutex that such a task waits for.
    Deadline,
    /// SCHED_FIFO and SCHED_RR, or the owner of such a mutex.
    Rt,
    /// SCHED_OTHER, SCHED_BATCH, SCHED_IDLE.
    Fair,
}

impl ClassKind {
    pub(crate) fn of(policy: SchedPolicy, lent: Option<Lent>) -> Self {
        match (policy, lent) {
            (SchedPolicy::Deadline, _) | (_, Some(Lent::Deadline)) => Self::Deadline,
            (SchedPolicy::Fifo | SchedPolicy::RoundRobin, _) | (_, Some(Lent::Rt(_))) => Self::Rt,
            (SchedPolicy::Normal | SchedPolicy::Batch | SchedPolicy::Idle, None) => Self::Fair,
        }
    }
}

/// The kernel's `prio` of real-time tasks is below this, 0 the highest.
pub(crate) const MAX_RT_PRIO: u8 = 100;
/// `prio` where no real-time task is.
pub(crate) const NO_RT_PRIO: u8 = MAX_RT_PRIO - 1;
