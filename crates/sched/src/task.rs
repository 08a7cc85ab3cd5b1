//! A task of the core; its class's part is in `class`.

use alloc::boxed::Box;

pub(crate) use crate::attrs::Lent;
pub use crate::attrs::{Affinity, Boost, Migrations, SchedPolicy, TaskAttrs, TaskState, Wakeups};
use crate::attrs::{ClassKind, MAX_RT_PRIO};
use crate::class::deadline::entity::DlEntity;
use crate::class::rt::queue::RtTask;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::list::Linked;
pub(crate) use crate::list::NIL;
use crate::policy::Policy;
use crate::uclamp::TaskUclamp;

/// A task, in the arena of one run queue; moved between them by value.
//
// In memory order: switches and wakeups read the first paragraph of 64 bytes.
#[derive(Debug)]
#[repr(C)]
#[allow(clippy::struct_excessive_bools)] // each is a bit the kernel has, and they are independent
pub struct Task<P: Policy> {
    /// The same on every run queue.
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
    /// By its policy or boost.
    pub(crate) kind: ClassKind,
    /// Whether queued: runnable, or asleep with its dequeue delayed.
    pub on_rq: bool,
    /// Whether it sleeps uninterruptibly, which counts as load (`sched_contributes_to_load`).
    pub(crate) blocked: bool,
    /// Whether it last ran on the CPU of another run queue.
    pub migrated: bool,
    pub(crate) lent: Option<Lent>,
    /// Whether its next wakeup enqueues it as a task from another CPU (`Enqueue::WakeupMigrated`), since it returned
    /// to the ordinary class asleep.
    pub(crate) wakes_as_migrated: bool,
    /// Whether it has averages of the time before the simulation.
    pub(crate) has_averages: bool,
    /// Whether it is a kernel thread bound to its CPU (`kthread_is_per_cpu`), to which cpusets do not apply.
    pub(crate) per_cpu: bool,
    /// The CPU before its last one, a candidate at wakeup (`recent_used_cpu`).
    pub recent_used_cpu: CpuId,
    /// Neighbours on the list of movable tasks, or of its real-time priority.
    pub(crate) before: u32,
    pub(crate) after: u32,
    /// When it last ran, by its CPU's clock, ns.
    pub last_ran: u64,
    /// CPUs it may run on (`cpus_mask`).
    pub affinity: Affinity,
    /// The task it woke last (`wake_wide`).
    pub last_wakee: Option<TaskId>,
    /// Recent changes of `last_wakee`.
    pub wakee_flips: u32,

    pub(crate) wakeups: Wakeups,
    /// When `wakee_flips` was last halved, nanoseconds.
    pub wakee_flip_decay: u64,
    /// The policy's state.
    pub class: P::Task,
    /// For deadline and boosted tasks only.
    pub(crate) dl: Option<Box<DlEntity>>,
    pub(crate) uclamp: TaskUclamp,
    /// The CPU to move to after a change of affinity, or `NIL`.
    pub(crate) dest: u32,
    /// Requested affinity (`user_cpus_ptr`); `affinity` differs if the cpuset lacks CPUs of it.
    pub(crate) asked: Affinity,
    pub(crate) rt: RtTask,
    /// CPU time above the ordinary class, ns.
    pub(crate) ran_above: u64,
    /// When it left the ordinary class, PELT clock, ns; 0 while there.
    pub(crate) went_above: u64,
    pub(crate) migrations: Migrations,
    /// Deadline state while in another class: runtime and deadline for its return, and until its 0-lag time the
    /// reserved bandwidth.
    pub(crate) dl_kept: Option<Box<DlEntity>>,
}

impl<P: Policy> Linked for Task<P> {
    #[inline]
    fn before(&self) -> u32 {
        self.before
    }

    #[inline]
    fn after(&self) -> u32 {
        self.after
    }

    #[inline]
    fn set_before(&mut self, index: u32) {
        self.before = index;
    }

    #[inline]
    fn set_after(&mut self, index: u32) {
        self.after = index;
    }
}

impl<P: Policy> Task<P> {
    /// Whether it may run on `cpu`.
    #[inline]
    pub fn allowed(&self, cpu: CpuId) -> bool {
        self.affinity.as_ref().is_none_or(|mask| mask.contains(cpu))
    }

    /// Returns its deadline-class state: runtime, deadline, throttling. None in other classes.
    #[inline]
    pub fn deadline(&self) -> Option<&DlEntity> {
        self.dl.as_deref()
    }

    /// Returns how many of `nr_cpus` CPUs it may run on.
    #[inline]
    pub fn nr_cpus_allowed(&self, nr_cpus: usize) -> usize {
        self.affinity.as_ref().map_or(nr_cpus, |mask| mask.count())
    }
}

impl<P: Policy> Task<P> {
    /// Returns the present class.
    #[inline]
    pub fn kind(&self) -> ClassKind {
        self.kind
    }

    /// Kernel `prio`, with inheritance: 0 (real-time priority 99) to 98 if real-time, 120 + nice if fair, -1 for
    /// deadlines.
    pub fn prio(&self) -> i16 {
        match self.kind {
            ClassKind::Deadline => -1,
            ClassKind::Rt => i16::from(self.rt_level()),
            ClassKind::Fair => 120 + i16::from(self.nice),
        }
    }

    /// Returns the `prio` as a real-time task.
    pub(crate) fn rt_level(&self) -> u8 {
        let own = match self.policy {
            SchedPolicy::Fifo | SchedPolicy::RoundRobin => self.rt_priority,
            SchedPolicy::Normal | SchedPolicy::Batch | SchedPolicy::Idle | SchedPolicy::Deadline => 0,
        };
        let lent = self.lent.map_or(0, Lent::rt_priority);
        MAX_RT_PRIO - 1 - own.max(lent).clamp(1, 99)
    }
}
