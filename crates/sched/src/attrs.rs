//! Attributes of tasks.

use alloc::sync::Arc;

use crate::class::deadline::entity::Donor;
use crate::cpumask::CpuMask;
use crate::ids::GroupId;

/// Scheduling policies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum SchedPolicy {
    /// SCHED_OTHER, in the kernel SCHED_NORMAL.
    #[default]
    Normal,
    /// SCHED_BATCH: as normal, but its wakeups do not preempt.
    Batch,
    /// SCHED_IDLE: weight 3; all other fair tasks preempt it.
    Idle,
    /// SCHED_FIFO: runs until it sleeps, yields or a more urgent task preempts it.
    Fifo,
    /// SCHED_RR: as SCHED_FIFO, but takes turns at its priority.
    RoundRobin,
    /// SCHED_DEADLINE: runtime in every period, earliest deadline first.
    Deadline,
}

impl SchedPolicy {
    /// Returns the name in sched(7).
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

    /// Returns the kernel's `prio` without inheritance, lower being more urgent: -1 under SCHED_DEADLINE, 0..=98 for
    /// real-time priorities 99..=1, else 120 + nice.
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

/// Priority inheritance: what a lock's most urgent waiter lends its holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boost {
    /// A real-time priority, 1..=99.
    Rt(u8),
    /// Deadline parameters.
    Deadline {
        /// The donor's runtime, period and deadline.
        donor: Donor,
        /// Its absolute deadline, nanoseconds. A task with an earlier one inherits nothing.
        deadline: u64,
    },
}

/// A task's [`Boost`]; the deadline class keeps the parameters.
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
    /// SCHED_DEADLINE tasks, and real-time tasks in groups without real-time runtime, start as SCHED_OTHER until
    /// [`set_scheduler`](crate::Scheduler::set_scheduler).
    pub policy: SchedPolicy,
    /// -20..=19.
    pub nice: i8,
    /// 1..=99, 99 the most urgent; for SCHED_FIFO and SCHED_RR.
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

/// Counters of `can_migrate_task`, as in `/proc/PID/sched`: why a task moved or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Migrations {
    /// Its affinity excludes the CPU (`nr_failed_migrations_affine`).
    pub affine: u32,
    /// It was running (`nr_failed_migrations_running`).
    pub running: u32,
    /// Its cache was warm (`nr_failed_migrations_hot`).
    pub hot: u32,
    /// Its cache was warm, but too many attempts failed (`nr_forced_migrations`).
    pub forced: u32,
}

/// Wakeup counters, as in `/proc/PID/sched`.
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
    /// SCHED_DEADLINE, or such a task's mutex owner.
    Deadline,
    /// SCHED_FIFO and SCHED_RR, or such a task's mutex owner.
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

/// Real-time tasks have a lower kernel `prio`, 0 the highest.
pub(crate) const MAX_RT_PRIO: u8 = 100;
/// The `prio` of a real-time priority of 0.
pub(crate) const NO_RT_PRIO: u8 = MAX_RT_PRIO - 1;
