//! A task, as the core sees it; what its class keeps is in `class`.

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::class::ClassKind;
use crate::class::deadline::{DlEntity, Donor};
use crate::class::rt::RtTask;
use crate::cpumask::CpuMask;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::policy::Policy;
use crate::uclamp::TaskUclamp;

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

/// A task. It is in the arena of one run queue, and moves between run queues by value.
//
// In memory order: switches and wakeups read the first paragraph of 64 bytes.
#[derive(Debug)]
#[repr(C)]
#[allow(clippy::struct_excessive_bools)] // each is a bit the kernel has, and they are independent
pub struct Task<P: Policy> {
    /// Its number, the same on every run queue.
    pub id: TaskId,
    /// Its group.
    pub group: GroupId,
    /// Its state.
    pub state: TaskState,
    /// Its policy.
    pub policy: SchedPolicy,
    /// -20..=19.
    pub nice: i8,
    /// 1..=99 under SCHED_FIFO and SCHED_RR, else 0.
    pub rt_priority: u8,
    /// The class of its policy or boost.
    pub(crate) kind: ClassKind,
    /// Set if queued: runnable, or asleep with its dequeue delayed.
    pub on_rq: bool,
    /// It sleeps uninterruptibly, which counts as load (`sched_contributes_to_load`).
    pub(crate) blocked: bool,
    /// It last ran on another CPU than that of its run queue.
    pub migrated: bool,
    pub(crate) lent: Option<Lent>,
    /// It returned to the ordinary class asleep. Its wakeup places it as if it came from another CPU.
    pub(crate) rejoins: bool,
    /// A kernel thread bound to its CPU (`kthread_is_per_cpu`): cpusets do not affect it.
    pub(crate) per_cpu: bool,
    /// The CPU before its last one, a candidate at wakeup (`recent_used_cpu`).
    pub recent_used_cpu: CpuId,
    /// Neighbours on its list: of the run queue's movable tasks, or of its real-time priority.
    pub(crate) before: u32,
    pub(crate) after: u32,
    /// When it last ran, by the clock of its CPU, nanoseconds.
    pub last_ran: u64,
    /// CPUs it may run on (`cpus_mask`).
    pub affinity: Affinity,
    /// The task it woke last (`wake_wide`).
    pub last_wakee: Option<TaskId>,
    /// Number of recent changes of `last_wakee`.
    pub wakee_flips: u32,

    pub(crate) wakeups: Wakeups,
    /// When `wakee_flips` was last halved, nanoseconds.
    pub wakee_flip_decay: u64,
    /// The policy's own state.
    pub class: P::Task,
    /// State of the deadline class, for its tasks and boosted ones only.
    pub(crate) dl: Option<Box<DlEntity>>,
    /// Its utilisation clamps.
    pub(crate) uclamp: TaskUclamp,
    /// The CPU to move to after a change of affinity, or `NIL`.
    pub(crate) dest: u32,
    /// The requested affinity (`user_cpus_ptr`); `affinity` differs if the cpuset lacks CPUs of it.
    pub(crate) asked: Affinity,
    pub(crate) rt: RtTask,
    /// CPU time in classes above the ordinary one, nanoseconds.
    pub(crate) ran_above: u64,
    /// When it left the ordinary class, on the PELT clock in nanoseconds; 0 if it is there.
    pub(crate) went_above: u64,
    pub(crate) migrations: Migrations,
    /// Deadline state while it is in another class: runtime and deadline for its return, and until its 0-lag time the
    /// reserved bandwidth.
    pub(crate) dl_kept: Option<Box<DlEntity>>,
}

/// No neighbour.
pub(crate) const NIL: u32 = u32::MAX;

impl<P: Policy> Task<P> {
    /// Whether it may run on `cpu`.
    #[inline]
    pub fn allowed(&self, cpu: CpuId) -> bool {
        self.affinity.as_ref().is_none_or(|mask| mask.contains(cpu))
    }

    /// Its state in the deadline class: runtime, deadline, throttling. None in other classes.
    #[inline]
    pub fn deadline(&self) -> Option<&DlEntity> {
        self.dl.as_deref()
    }

    /// The number of CPUs, of `nr_cpus`, it may run on.
    #[inline]
    pub fn nr_cpus_allowed(&self, nr_cpus: usize) -> usize {
        self.affinity.as_ref().map_or(nr_cpus, |mask| mask.count())
    }
}
