//! A task as the core of the scheduler sees it; what its class keeps about it is in `class`.

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
    /// SCHED_BATCH: as normal, but does not preempt at wakeup.
    Batch,
    /// SCHED_IDLE: a weight of 3. All other fair tasks preempt it.
    Idle,
    /// SCHED_FIFO: runs until it sleeps, yields or a more urgent task preempts it.
    Fifo,
    /// SCHED_RR: as SCHED_FIFO, but takes turns with its equals.
    RoundRobin,
    /// SCHED_DEADLINE: a runtime in every period, earliest deadline first.
    Deadline,
}

impl SchedPolicy {
    /// Its name, as sched(7) has it.
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

    /// Returns the kernel's `prio` of a task of this policy, where lower is more urgent: -1 under SCHED_DEADLINE,
    /// 0..=98 with a real-time priority (99..=1), else 100..=139 by its nice value (120 is nice 0).
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

/// What a task is lent by the most urgent of those that wait for something it holds (priority inheritance).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boost {
    /// A real-time priority, 1..=99, 99 the most urgent.
    Rt(u8),
    /// The parameters of a deadline task.
    Deadline {
        /// Runtime, period and deadline of the donor.
        donor: Donor,
        /// The donor's absolute deadline, nanoseconds. A task with an earlier deadline inherits nothing.
        deadline: u64,
    },
}

/// As a task keeps what it was lent: a deadline task's parameters are with the rest that the deadline class keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lent {
    /// See [`Boost::Rt`].
    Rt(u8),
    /// See [`Boost::Deadline`].
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
    /// The real-time priority it makes.
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

/// What a new task is.
#[derive(Clone, Debug, Default)]
pub struct TaskAttrs {
    /// Its policy. A SCHED_DEADLINE task needs admission, so it starts as SCHED_OTHER until
    /// [`set_scheduler`](crate::Scheduler::set_scheduler). So does a real-time task in a group without real-time
    /// runtime.
    pub policy: SchedPolicy,
    /// -20..=19.
    pub nice: i8,
    /// 1..=99, 99 the most urgent; means something only to SCHED_FIFO and SCHED_RR.
    pub rt_priority: u8,
    /// A slice of its own, nanoseconds, 100 us to 100 ms (6.12 on; others ignore it).
    pub slice: Option<u64>,
    /// Its task group.
    pub group: GroupId,
    /// CPUs it may run on.
    pub affinity: Affinity,
}

/// Where a task is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// Forked and not yet woken for the first time.
    New,
    /// Running or waiting to run.
    Runnable,
    /// Waiting for something else than a CPU.
    Sleeping,
}

/// Counters of failed and successful checks whether the task may be moved (`can_migrate_task`), as in
/// `/proc/PID/sched`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Migrations {
    /// It may not run there (`nr_failed_migrations_affine`).
    pub affine: u32,
    /// It was running (`nr_failed_migrations_running`).
    pub running: u32,
    /// Its cache was warm (`nr_failed_migrations_hot`).
    pub hot: u32,
    /// Its cache was warm, but too much had failed before (`nr_forced_migrations`).
    pub forced: u32,
}

/// How its wakeups were: counters of `/proc/PID/sched`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wakeups {
    /// Its waker was about to sleep (`nr_wakeups_sync`).
    pub sync: u32,
    /// The waker's CPU and its own last one were compared (`nr_wakeups_affine_attempts`).
    pub affine_attempts: u32,
    /// The waker's won (`nr_wakeups_affine`).
    pub affine: u32,
}

/// A task. Lives in the arena of one run queue and moves between run queues by value.
//
// In this order in memory: the first paragraph, 64 bytes, is what switches and wakeups look at.
#[derive(Debug)]
#[repr(C)]
#[allow(clippy::struct_excessive_bools)] // each is a bit the kernel has, and they are independent
pub struct Task<P: Policy> {
    /// Its number, the same wherever it lies.
    pub id: TaskId,
    /// Its task group.
    pub group: GroupId,
    /// Where in its life.
    pub state: TaskState,
    /// Its policy.
    pub policy: SchedPolicy,
    /// -20..=19.
    pub nice: i8,
    /// 1..=99 under SCHED_FIFO and SCHED_RR, else 0.
    pub rt_priority: u8,
    /// The class that follows from the policy and what it was lent.
    pub(crate) kind: ClassKind,
    /// Whether it is on the run queue: runnable, or asleep with its dequeue delayed.
    pub on_rq: bool,
    /// It sleeps uninterruptibly, which counts as load (`sched_contributes_to_load`).
    pub(crate) blocked: bool,
    /// Ran last on another CPU than the one whose run queue it is on.
    pub migrated: bool,
    /// What it was lent.
    pub(crate) lent: Option<Lent>,
    /// It came back to the ordinary class asleep: at its wakeup it has to be given a place as if it came from another
    /// CPU.
    pub(crate) rejoins: bool,
    /// A thread of the kernel's that belongs to its CPU (`kthread_is_per_cpu`): cpusets are not for it.
    pub(crate) per_cpu: bool,
    /// The CPU it used before the last one: worth a look when it wakes (`recent_used_cpu`).
    pub recent_used_cpu: CpuId,
    /// Neighbours on the list it is on: the run queue's of movable tasks, or that of its real-time priority.
    pub(crate) before: u32,
    pub(crate) after: u32,
    /// When it last ran, by the clock of its CPU, nanoseconds: is its cache still hot?
    pub last_ran: u64,
    /// CPUs it may run on (`cpus_mask`).
    pub affinity: Affinity,
    /// The task that it woke last; with the number of recent changes and the last halving of that number (`wake_wide`).
    pub last_wakee: Option<TaskId>,
    /// See `last_wakee`.
    pub wakee_flips: u32,

    pub(crate) wakeups: Wakeups,
    /// See `last_wakee`. Nanoseconds.
    pub wakee_flip_decay: u64,
    /// What its class keeps.
    pub class: P::Task,
    /// What the deadline class keeps: for its tasks, boosted ones included, and for no others.
    pub(crate) dl: Option<Box<DlEntity>>,
    /// What it says about the CPU it needs.
    pub(crate) uclamp: TaskUclamp,
    /// The CPU to move to after a change of affinity; `NIL` if none is pending.
    pub(crate) dest: u32,
    /// CPUs it asked for (`user_cpus_ptr`), which are other ones if its cpuset does not have all of them.
    pub(crate) asked: Affinity,
    /// What the real-time class keeps.
    pub(crate) rt: RtTask,
    /// CPU time it has had in the classes above the ordinary one, nanoseconds.
    pub(crate) ran_above: u64,
    /// When it left the ordinary class, on the PELT clock, nanoseconds; 0 if it has come back since, or was never in
    /// it.
    pub(crate) went_above: u64,
    /// What balancers did not move it for.
    pub(crate) migrations: Migrations,
    /// Its state in the deadline class while it is in another class: runtime and deadline for its return, and until its
    /// 0-lag time the reserved bandwidth.
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

    /// What the deadline class keeps of it: runtime, deadline, whether it is throttled. None in other classes.
    #[inline]
    pub fn deadline(&self) -> Option<&DlEntity> {
        self.dl.as_deref()
    }

    /// How many of the machine's `nr_cpus` it may run on.
    #[inline]
    pub fn nr_cpus_allowed(&self, nr_cpus: usize) -> usize {
        self.affinity.as_ref().map_or(nr_cpus, |mask| mask.count())
    }
}
