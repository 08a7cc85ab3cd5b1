//! The scheduling policy of ordinary tasks, as a trait with the kernel's verbs.
//!
//! EEVDF, CFS, the O(1) scheduler and the first CFS implement it, and so can users: `docs/policy.md` shows how to
//! write and compare a policy, and `examples/round_robin.rs` and `topologies.rs` in `vruntime-sim` are two examples.
//! The core reports violations of the contract as a [`Fault`].
//!
//! # What a policy of your own has
//!
//! - On its run queue: the tasks ([`Rq::tasks`]), the running task ([`Rq::curr_ordinary`]), the time ([`Rq::clock`]),
//!   and its own state ([`Rq::class`]). [`Rq::listed`] has the queued tasks in the order in which they last ran.
//! - To act: [`Rq::resched`], [`Rq::resched_lazy`], [`Rq::finish_delayed`]; [`Rq::event`] for events in traces, and
//!   [`Rq::arm`].
//! - Of other CPUs: their published values ([`Shared::cpu`]), the [`Topology`](crate::Topology), the groups
//!   ([`Shared::group`]) and all settings ([`Shared::config`]). The balancer uses the values that the policy publishes
//!   itself, [`FairStats`](crate::shared::FairStats).
//!
//! # What belongs to `Fair` alone
//!
//! - CPU limits of groups (`cpu.max`). The pool of runtime is not accessible from outside: other policies store
//!   limits, and do not enforce them. These methods exist for it: [`Policy::limit_changed`], [`Policy::distribute`],
//!   [`Policy::throttled`], [`Policy::limit_forbids_move`], [`Policy::wants_return`] and [`Policy::return_to_user`].
//! - Loads of groups: the published values that divide a group's weight
//!   ([`TaskGroup::load_avg`](crate::group::TaskGroup::load_avg) is 0 under other policies), and `h_load`. A policy
//!   has the weight of a group, and whether it is idle.
//! - Tasks that do not fit their CPU ([`Published::misfit_task_load`](crate::shared::Published::misfit_task_load)),
//!   and the values for energy-aware placement.

mod fault;

use core::fmt::Debug;

use crate::ids::CpuId;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::TaskAttrs;
use crate::tunables::Tunables;

pub use fault::Fault;

/// Why a task joins a run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enqueue {
    /// Forked a moment ago.
    New,
    /// Woken where it slept.
    Wakeup,
    /// Woken on another CPU than it slept on.
    WakeupMigrated,
    /// Pulled or pushed here while runnable.
    Move,
    /// Back after a change of its attributes.
    Restore,
    /// Woken while its dequeue was still delayed: it never left.
    Delayed,
}

/// Why a task leaves a run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dequeue {
    /// It sleeps.
    Sleep,
    /// It ends.
    Dead,
    /// It moves to another run queue, runnable.
    Move,
    /// Its attributes change; it will be back at once.
    Save,
    /// It has been asleep for a while and its dequeue was delayed.
    Delayed,
    /// Its group's CPU limit is used up.
    Throttle,
}

/// The kind of a wakeup: by another task, if none of `fork`, `sync` and `irq` is set; at most one is. The default also
/// applies to a pulled task, or one with changed attributes, when the policy decides whether it preempts
/// ([`Policy::wakeup_preempt`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wake {
    /// For the first time.
    pub fork: bool,
    /// The waker is about to sleep.
    pub sync: bool,
    /// From an interrupt: the interrupted task is not the waker.
    pub irq: bool,
    /// The recent number of changes of the task that the waker wakes (`wakee_flips`).
    pub waker_flips: u32,
    /// Load of the waker, for a `sync` wakeup; in the scale of [`Policy::task_load`].
    pub waker_load: u64,
}

/// A scheduling policy. Tasks are named by their index in [`Rq::tasks`].
///
/// The core keeps [`Rq::nr_running`] and the list of movable tasks; a policy keeps its order. It calls [`Rq::resched`]
/// to reschedule the running task. Tasks of higher classes (`class`) are on the run queue, too, but a policy never sees
/// them: it is called when none of them may run, and [`Rq::curr_ordinary`] is none while one of them runs. A task that
/// moves to such a class is dequeued. It returns to the policy's queue with [`Enqueue::Restore`] or, if it was asleep
/// and [`Self::returned_asleep`] has not done more, with [`Enqueue::WakeupMigrated`]. A task that is born in such a
/// class is enqueued without [`Enqueue::New`].
pub trait Policy: Sized + Debug + 'static {
    /// Where its tunables come from.
    type Tunables: Tunables;
    /// What it keeps for a CPU.
    type Rq: Debug + Send;
    /// What it keeps for a task; moves with the task.
    type Task: Debug + Send;

    /// Whether it keeps to groups' limits (`cpu.max`), which are `Fair`'s.
    #[doc(hidden)]
    const LIMITS: bool = false;

    /// State of a CPU without tasks.
    fn new_rq(shared: &Shared<Self>, cpu: CpuId) -> Self::Rq;

    /// State of a new task.
    fn new_task(shared: &Shared<Self>, attrs: &TaskAttrs) -> Self::Task;

    /// A task joins the run queue. `Task::on_rq` is still false (except for [`Enqueue::Delayed`]). It does not run: one
    /// whose attributes change as it runs is switched from before, and to afterwards.
    fn enqueue(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, why: Enqueue);

    /// A task leaves the run queue; it may be the running one. False if it is to sleep ([`Dequeue::Sleep`]) and stays
    /// queued for now (delayed dequeue): the policy will call [`Rq::finish_delayed`] when it has gone.
    fn dequeue(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, why: Dequeue) -> bool;

    /// Returns the next task: one that is queued here, or None only if there is none. The running task is a candidate
    /// if it is still queued. The core may call this several times for a switch, or without a switch, so it must not
    /// dequeue a task: [`Self::switch`] may.
    fn pick(rq: &mut Rq<Self>, shared: &Shared<Self>) -> Option<u32>;

    /// The CPU passes from `prev` to `next` (tasks of this policy; `None` for anything else). `prev` may be off the
    /// queue. Called only when they differ, while [`Rq::curr_ordinary`] is still `prev`.
    fn switch(rq: &mut Rq<Self>, shared: &Shared<Self>, prev: Option<u32>, next: Option<u32>);

    /// Called when the run queue is locked again after balancing. The previous task was put meanwhile.
    #[doc(hidden)]
    fn looked(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// The scheduler's tick hits `task`, which is running.
    fn tick(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32);

    /// `task` was just enqueued by a wakeup while `rq.curr_ordinary` runs: call [`Rq::resched`] if it should run at
    /// once.
    fn wakeup_preempt(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, wake: Wake);

    /// The running task gives way.
    fn yield_task(rq: &mut Rq<Self>, shared: &Shared<Self>);

    /// Returns the rest of the running task's slice, nanoseconds; `None` if no task waits for it. Called only with the
    /// feature HRTICK.
    fn slice_left(_rq: &Rq<Self>, _shared: &Shared<Self>) -> Option<u64> {
        None
    }

    /// Brings the running task's accounts up to the run queue's clock.
    fn update_curr(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// A new task, which lies on `rq`, is forked there: by the task that runs, if one does. It is queued, perhaps
    /// elsewhere, with [`Enqueue::New`].
    fn forked(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// Chooses a CPU for a task that wakes from code on `on`. The task lies on `rq`, where it slept (for a fork: where
    /// its parent runs). The core makes sure the answer is allowed, if it is a CPU of the machine. By default: stay,
    /// unless another allowed CPU is less loaded.
    fn select_cpu(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, on: CpuId, wake: Wake) -> CpuId {
        let _ = (on, wake);
        let here = rq.cpu;
        let candidate = &rq.tasks[task];
        let load = |cpu: CpuId| (shared.cpu(cpu).nr_running(), cpu != here, cpu);
        let may = |cpu: &CpuId| candidate.allowed(*cpu) && shared.is_online(*cpu);
        let cpus = (0..shared.nr_cpus() as u32).map(CpuId).filter(may);
        cpus.min_by_key(|&cpu| load(cpu)).unwrap_or(here)
    }

    /// Chooses a CPU for the running task of `rq` as it execs, when there is the least to lose by going elsewhere. The
    /// core makes sure the answer is allowed. By default: it stays.
    fn select_cpu_exec(rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> CpuId {
        rq.cpu
    }

    /// A sleeping or dequeued task leaves this run queue for another.
    fn detach(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// A task that was detached elsewhere has arrived (not queued yet).
    fn attach(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// Nice or policy of a task changed. It is off the queue; if it ran, it was put.
    fn attrs_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// Whether the queue has so few tasks that another priority of a queued task would not change which task runs.
    fn is_alone(_rq: &Rq<Self>, _shared: &Shared<Self>) -> bool {
        false
    }

    /// The slice a task has, nanoseconds, if tasks may ask for one of their own.
    fn slice(_rq: &Rq<Self>, _shared: &Shared<Self>, _task: u32) -> Option<u64> {
        None
    }

    /// A task, off the queue, asks for a slice of its own, nanoseconds, or for the usual one again.
    fn slice_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32, _slice: Option<u64>) {}

    /// A task (off the queue) moves to the group `Task::group` already names.
    fn group_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// A task (off the queue) leaves for a class above. If this does nothing, and says so, it is detached and attached
    /// again.
    fn leaves_for_above(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> bool {
        false
    }

    /// A sleeping task is back from a class above. Whether it has its place here now, and is woken as if it had never
    /// been away.
    fn returned_asleep(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> bool {
        false
    }

    /// The weight of a group changed, or whether it is idle: adopt it on this CPU.
    fn group_weight_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _group: crate::ids::GroupId) {}

    /// Called when this CPU goes offline: removes its part from sums over the CPUs (a group's load), and lifts limits.
    /// Its tasks are still queued, and leave one by one. After it is online again, it counts from the next update on.
    fn rq_offline(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// This CPU is online again.
    fn rq_online(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// Load the balancer counts for moving this task, in the scale of weights (1024: one nice-0 task that always runs).
    fn task_load(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> u64 {
        crate::weight::NICE_0_WEIGHT
    }

    /// By how much a sleeping task would make this CPU heavier, in the scale of weights (up to 3.18, at a wakeup).
    fn effective_load(_rq: &Rq<Self>, _shared: &Shared<Self>, _task: u32) -> u64 {
        crate::weight::NICE_0_WEIGHT
    }

    /// Updates the load of every group on this CPU, once a tick (3.10). Returns the number of visited groups, and how
    /// many have no task here. `None` if it was done in this tick.
    fn update_h_load(_rq: &mut Rq<Self>, _shared: &Shared<Self>) -> Option<(u32, u32)> {
        None
    }

    /// Utilisation of a task, 0..=1024.
    fn task_util(_rq: &Rq<Self>, _task: u32) -> u64 {
        0
    }

    /// Whether a task leaves room on a CPU where CPUs differ: if not, the balancer moves it to a bigger one. By
    /// default: a fifth of what the classes above leave of it.
    fn task_fits_cpu(rq: &Rq<Self>, shared: &Shared<Self>, task: u32, cpu: CpuId) -> bool {
        crate::class::fair::fits_capacity(Self::task_util(rq, task), shared.cpu(cpu).capacity_of())
    }

    /// How urgent a task is now, by the kernel's `prio`: the O(1) scheduler's moves about the static one.
    fn dynamic_prio(rq: &Rq<Self>, task: u32) -> i16 {
        rq.tasks[task].prio()
    }

    /// The queued tasks in the order in which the balancer of the kernels before groups tries to move them. By default:
    /// the one that ran longest ago first.
    fn pull_order(rq: &Rq<Self>) -> alloc::vec::Vec<u32> {
        rq.listed().collect()
    }

    /// Whether the balancer should prefer other tasks, because this task has had more than its share here and would
    /// have to share on `to`, too.
    fn has_run_ahead(_rq: &Rq<Self>, _shared: &Shared<Self>, _task: u32, _to: &Rq<Self>) -> bool {
        false
    }

    /// Whether the balancer should leave the task: it is delayed, or a buddy.
    fn sticky(_rq: &Rq<Self>, _shared: &Shared<Self>, _task: u32) -> bool {
        false
    }

    /// Publishes the CPU's utilisation, if energy is considered.
    fn publish_usage(_rq: &Rq<Self>, _shared: &Shared<Self>) {}

    /// The sum of which the utilisation of the class's run queue is the average (`util_sum`).
    fn util_sum(_rq: &Rq<Self>) -> u64 {
        0
    }

    /// Brings load averages of the whole run queue up to date, before balancing.
    fn update_blocked_averages(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// Publishes what other CPUs may read. The core has published the number of tasks.
    fn publish(rq: &Rq<Self>, shared: &Shared<Self>) {
        let nr = u64::from(rq.nr_ordinary());
        shared.cpu(rq.cpu).publish_fair(crate::shared::FairStats {
            load: nr * crate::weight::NICE_0_WEIGHT,
            runnable: nr * crate::weight::NICE_0_WEIGHT,
            util: nr.min(1) * crate::weight::NICE_0_WEIGHT,
            util_est: 0,
            h_nr_runnable: rq.nr_ordinary(),
            h_nr_queued: rq.nr_ordinary(),
            h_nr_idle: 0,
        });
    }

    /// Applies deferred updates, before a call of [`Self::debug`].
    fn apply_deferred(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// Its queues on a CPU, a group's each, the root's first, for people to look at.
    fn debug(_rq: &Rq<Self>, _shared: &Shared<Self>) -> alloc::vec::Vec<crate::debug::CfsDebug> {
        alloc::vec::Vec::new()
    }

    /// What it keeps of a task, for people to look at.
    fn debug_task(_rq: &Rq<Self>, _task: u32) -> Option<crate::debug::EntityDebug> {
        None
    }

    /// What must always hold of a run queue; the first thing that does not, in words. For tests and debug builds: slow.
    ///
    /// # Errors
    ///
    /// When something does not hold.
    fn check(_rq: &Rq<Self>) -> Result<(), alloc::string::String> {
        Ok(())
    }

    /// The CPU limit of a group changed: adopt it on this CPU. What was throttled by the old one may run again.
    fn limit_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _group: crate::ids::GroupId) {}

    /// There is run time for `group`, which waits for it on this CPU.
    fn distribute(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _group: crate::ids::GroupId) {}

    /// Whether a task is kept from running by a CPU limit of its group. Such a task is queued
    /// ([`crate::task::Task::on_rq`]) but not counted in [`Rq::nr_running`].
    fn throttled(_rq: &Rq<Self>, _shared: &Shared<Self>, _task: u32) -> bool {
        false
    }

    /// Whether a CPU limit of its group keeps a task of `rq` from being moved to the run queue `to`.
    fn limit_forbids_move(_rq: &Rq<Self>, _shared: &Shared<Self>, _task: u32, _to: &Rq<Self>) -> bool {
        false
    }

    /// Whether to call the policy when the running task returns to user mode.
    fn wants_return(_rq: &Rq<Self>) -> bool {
        false
    }

    /// The running task returns to user mode.
    fn return_to_user(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// Whether this CPU runs nothing but SCHED_IDLE tasks.
    fn only_idle_tasks(_rq: &Rq<Self>) -> bool {
        false
    }
}
