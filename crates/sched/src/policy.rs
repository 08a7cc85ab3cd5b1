//! The scheduling policy of ordinary tasks, as a trait with the kernel's verbs.
//!
//! `docs/policy.md` shows how to write and compare a policy; `examples/round_robin.rs` and
//! `topologies.rs` in `vruntime-sim` are examples. The core reports violations of the contract as a
//! [`Fault`].
//!
//! # What a policy of your own has
//!
//! - On its run queue: the tasks ([`Rq::tasks`]), the running task ([`Rq::curr_ordinary`]), the
//!   time ([`Rq::clock`]), its own state ([`Rq::class`]), and the queued tasks in the order in
//!   which they last ran ([`Rq::listed`]).
//! - To act: [`Rq::resched`], [`Rq::resched_lazy`], [`Rq::finish_delayed`], [`Rq::arm`];
//!   [`Rq::event`] for events in traces.
//! - Of other CPUs: their published values ([`Shared::cpu`]), the [`Topology`](crate::Topology),
//!   the groups ([`Shared::group`]) and all settings ([`Shared::config`]). The policy itself
//!   publishes [`FairStats`](crate::shared::FairStats) for the balancer.
//!
//! # What belongs to `Fair` alone
//!
//! - CPU limits of groups (`cpu.max`): other policies store limits, and do not enforce them. For
//!   limits are [`Policy::limit_changed`], [`Policy::distribute`], [`Policy::throttled`],
//!   [`Policy::limit_forbids_move`], [`Policy::wants_return`] and [`Policy::return_to_user`].
//! - Loads of groups: the published values that divide a group's weight, and `h_load`.
//!   [`TaskGroup::load_avg`](crate::group::TaskGroup::load_avg) is 0 under other policies, which
//!   have a group's weight and whether it is idle.
//! - Tasks that do not fit their CPU
//!   ([`Published::misfit_task_load`](crate::shared::Published::misfit_task_load)), and the values
//!   for energy-aware placement.

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
    /// Woken, and moved to another CPU.
    WakeupMigrated,
    /// Moved here while runnable.
    Move,
    /// Back after a change of its attributes.
    Restore,
    /// Woken while its dequeue was delayed: it is still queued.
    Delayed,
}

/// Why a task leaves a run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dequeue {
    /// It sleeps.
    Sleep,
    /// It ends.
    Dead,
    /// It moves to another run queue while runnable.
    Move,
    /// Its attributes change; it returns at once.
    Save,
    /// Its delayed dequeue takes effect.
    Delayed,
    /// Its group's CPU limit is used up.
    Throttle,
}

/// The kind of a wakeup. At most one of `fork`, `sync` and `irq` is set; without any, another task
/// is the waker. The default also applies to [`Policy::wakeup_preempt`] for a pulled task or one
/// with changed attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wake {
    /// The first wakeup.
    pub fork: bool,
    /// The waker is about to sleep.
    pub sync: bool,
    /// From an interrupt; the interrupted task is not the waker.
    pub irq: bool,
    /// The waker's recent number of changes of its wakee (`wakee_flips`).
    pub waker_flips: u32,
    /// Load of the waker, for a `sync` wakeup, in the scale of [`Policy::task_load`].
    pub waker_load: u64,
}

/// A scheduling policy. Tasks are named by their index in [`Rq::tasks`].
///
/// The core keeps [`Rq::nr_running`] and the list of movable tasks; a policy keeps its order, and
/// calls [`Rq::resched`] to reschedule. A policy never sees tasks of higher classes (`class`): the
/// core calls it when none of them may run, and [`Rq::curr_ordinary`] is none while one runs. A
/// task that moves to such a class is dequeued. It returns with [`Enqueue::Restore`] or, if it was
/// asleep and [`Self::returned_asleep`] is false, with [`Enqueue::WakeupMigrated`]. A task born in
/// a higher class is enqueued without [`Enqueue::New`].
pub trait Policy: Sized + Debug + 'static {
    /// The type of its tunables.
    type Tunables: Tunables;
    /// Its state of a CPU.
    type Rq: Debug + Send;
    /// Its state of a task, which moves with the task.
    type Task: Debug + Send;

    /// Whether it enforces CPU limits of groups (`cpu.max`).
    #[doc(hidden)]
    const LIMITS: bool = false;

    /// The state of a CPU without tasks.
    fn new_rq(shared: &Shared<Self>, cpu: CpuId) -> Self::Rq;

    /// The state of a new task.
    fn new_task(shared: &Shared<Self>, attrs: &TaskAttrs) -> Self::Task;

    /// Enqueues a task, which is not running. `Task::on_rq` is false except for
    /// [`Enqueue::Delayed`]. A running task whose attributes change is switched from before, and to
    /// afterwards.
    fn enqueue(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, why: Enqueue);

    /// Dequeues a task, which may be the running one. Returns false if a task that sleeps
    /// ([`Dequeue::Sleep`]) stays queued (delayed dequeue). The policy then calls
    /// [`Rq::finish_delayed`] when the task leaves.
    fn dequeue(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, why: Dequeue) -> bool;

    /// Returns the next queued task; None only if there is none. The running task is a candidate if
    /// it is still queued. Must not dequeue a task: the core may call this several times for a
    /// switch, or without a switch.
    fn pick(rq: &mut Rq<Self>, shared: &Shared<Self>) -> Option<u32>;

    /// The CPU switches from `prev` to another task `next` (`None`: not a task of this policy).
    /// `prev` may be off the queue. [`Rq::curr_ordinary`] is still `prev`. Unlike [`Self::pick`],
    /// this may dequeue a task.
    fn switch(rq: &mut Rq<Self>, shared: &Shared<Self>, prev: Option<u32>, next: Option<u32>);

    /// Called when the run queue is locked again after balancing. The previous task has been put.
    #[doc(hidden)]
    fn looked(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// The scheduler's tick, while `task` runs.
    fn tick(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32);

    /// A wakeup has enqueued `task` while `rq.curr_ordinary` runs. Calls [`Rq::resched`] if `task`
    /// is to run at once.
    fn wakeup_preempt(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, wake: Wake);

    /// The running task yields.
    fn yield_task(rq: &mut Rq<Self>, shared: &Shared<Self>);

    /// Returns the rest of the running task's slice in nanoseconds; `None` if no other task waits.
    /// Called only with the feature HRTICK.
    fn slice_left(_rq: &Rq<Self>, _shared: &Shared<Self>) -> Option<u64> {
        None
    }

    /// Updates the accounts of the running task to the run queue's clock.
    fn update_curr(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// A new task is forked on `rq`, by the running task if there is one. It is queued later with
    /// [`Enqueue::New`], perhaps elsewhere.
    fn forked(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// Chooses a CPU for a task woken by code on `on`. The task is on `rq`, where it slept (for a
    /// fork: its parent's CPU). The core corrects a CPU that is not allowed. By default: stays,
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

    /// Chooses a CPU for the running task of `rq` at exec, when a migration costs least. The core
    /// corrects a CPU that is not allowed. By default: stays.
    fn select_cpu_exec(rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> CpuId {
        rq.cpu
    }

    /// A sleeping or dequeued task leaves this run queue for another.
    fn detach(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// A detached task has arrived here, and is not queued yet.
    fn attach(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// A task's nice value or policy changed. The task is off the queue, and put if it ran.
    fn attrs_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// Whether a change of a queued task's priority cannot change which task runs, because the
    /// queue has so few.
    fn is_alone(_rq: &Rq<Self>, _shared: &Shared<Self>) -> bool {
        false
    }

    /// Returns the slice of a task in nanoseconds, if the policy honours [`TaskAttrs::slice`].
    fn slice(_rq: &Rq<Self>, _shared: &Shared<Self>, _task: u32) -> Option<u64> {
        None
    }

    /// A task, off the queue, requests a slice in nanoseconds, or (`None`) the default.
    fn slice_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32, _slice: Option<u64>) {}

    /// A task, off the queue, moves to the group that `Task::group` already names.
    fn group_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// A task, off the queue, leaves for a higher class. On false, the core detaches the task and
    /// attaches it again.
    fn leaves_for_above(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> bool {
        false
    }

    /// A sleeping task is back from a higher class. Returns true if it has its place here, and
    /// wakes as if it had never left.
    fn returned_asleep(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> bool {
        false
    }

    /// A group's weight changed, or whether it is idle; applies it to this CPU.
    fn group_weight_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _group: crate::ids::GroupId) {}

    /// This CPU goes offline: removes its part from sums over CPUs (a group's load), and lifts
    /// limits. Its tasks are still queued, and leave one by one. After [`Self::rq_online`] it
    /// counts again from the next update on.
    fn rq_offline(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// This CPU is online again.
    fn rq_online(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// Returns the load that the balancer counts for a task, in the scale of weights (1024: a
    /// nice-0 task that always runs).
    fn task_load(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> u64 {
        crate::weight::NICE_0_WEIGHT
    }

    /// Returns the load that a sleeping task would add to this CPU, in the scale of weights (up to
    /// 3.18, at a wakeup).
    fn effective_load(_rq: &Rq<Self>, _shared: &Shared<Self>, _task: u32) -> u64 {
        crate::weight::NICE_0_WEIGHT
    }

    /// 3.10: updates the load of every group on this CPU, once a tick. Returns the number of
    /// visited groups, and how many of them have no task here; `None` if this tick has done it.
    fn update_h_load(_rq: &mut Rq<Self>, _shared: &Shared<Self>) -> Option<(u32, u32)> {
        None
    }

    /// Returns the utilisation of a task, 0..=1024.
    fn task_util(_rq: &Rq<Self>, _task: u32) -> u64 {
        0
    }

    /// Whether a task leaves room on a CPU; if not, the balancer moves it to a bigger one. By
    /// default: the task must leave a fifth of the capacity that higher classes leave.
    fn task_fits_cpu(rq: &Rq<Self>, shared: &Shared<Self>, task: u32, cpu: CpuId) -> bool {
        crate::class::fair::fits_capacity(Self::task_util(rq, task), shared.cpu(cpu).capacity_of())
    }

    /// Returns the kernel's `prio` of a task, lower being more urgent. The O(1) scheduler's differs
    /// from the static one.
    fn dynamic_prio(rq: &Rq<Self>, task: u32) -> i16 {
        rq.tasks[task].prio()
    }

    /// Returns the queued tasks in the order in which the balancer of kernels before groups tries
    /// to move them. By default: the one that ran longest ago first.
    fn pull_order(rq: &Rq<Self>) -> alloc::vec::Vec<u32> {
        rq.listed().collect()
    }

    /// Whether the balancer should prefer other tasks: this one has had more than its share, and
    /// would share `to`, too.
    fn has_run_ahead(_rq: &Rq<Self>, _shared: &Shared<Self>, _task: u32, _to: &Rq<Self>) -> bool {
        false
    }

    /// Whether the balancer should leave the task here: its dequeue is delayed, or it is a buddy.
    fn sticky(_rq: &Rq<Self>, _shared: &Shared<Self>, _task: u32) -> bool {
        false
    }

    /// Publishes the CPU's utilisation for energy-aware placement.
    fn publish_usage(_rq: &Rq<Self>, _shared: &Shared<Self>) {}

    /// Returns `util_sum` of the class's run queue, the sum behind its utilisation.
    fn util_sum(_rq: &Rq<Self>) -> u64 {
        0
    }

    /// Updates the load averages of the whole run queue, before balancing.
    fn update_blocked_averages(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// Publishes what other CPUs may read, except the number of tasks, which the core publishes.
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

    /// Applies deferred updates before [`Self::debug`].
    fn apply_deferred(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// Returns the queues of a CPU for display: one of each group, the root's first.
    fn debug(_rq: &Rq<Self>, _shared: &Shared<Self>) -> alloc::vec::Vec<crate::debug::CfsDebug> {
        alloc::vec::Vec::new()
    }

    /// Returns the state of a task for display.
    fn debug_task(_rq: &Rq<Self>, _task: u32) -> Option<crate::debug::EntityDebug> {
        None
    }

    /// Checks the invariants of a run queue. Slow: for tests and debug builds.
    ///
    /// # Errors
    ///
    /// The first invariant that does not hold, in words.
    fn check(_rq: &Rq<Self>) -> Result<(), alloc::string::String> {
        Ok(())
    }

    /// The CPU limit of a group changed; applies it to this CPU. What the old one throttled may run
    /// again.
    fn limit_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _group: crate::ids::GroupId) {}

    /// There is run time for `group`, which waits for it on this CPU.
    fn distribute(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _group: crate::ids::GroupId) {}

    /// Whether a CPU limit throttles a task. A throttled task is queued
    /// ([`crate::task::Task::on_rq`]) but not counted in [`Rq::nr_running`].
    fn throttled(_rq: &Rq<Self>, _shared: &Shared<Self>, _task: u32) -> bool {
        false
    }

    /// Whether a CPU limit of its group forbids moving a task from `rq` to `to`.
    fn limit_forbids_move(_rq: &Rq<Self>, _shared: &Shared<Self>, _task: u32, _to: &Rq<Self>) -> bool {
        false
    }

    /// Whether to call [`Self::return_to_user`] when the running task returns to user mode.
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
