//! The scheduling policy of ordinary tasks, as a trait with the kernel's verbs.
//!
//! `docs/policy.md` shows how to write and compare a policy. The core reports violations of the contract as a
//! [`Fault`].
//!
//! # What a policy of your own has
//!
//! - On its run queue: [`Rq::tasks`], [`Rq::curr_ordinary`], [`Rq::clock`], its own state ([`Rq::class`]), and the
//!   queued tasks in the order in which they last ran ([`Rq::listed`]).
//! - To act: [`Rq::resched`], [`Rq::resched_lazy`], [`Rq::finish_delayed`], [`Rq::arm`], [`Rq::event`].
//! - Of other CPUs: their published values ([`Shared::cpu`]), the [`Topology`](crate::Topology), the groups
//!   ([`Shared::group`]), all settings ([`Shared::config`]). It publishes [`FairStats`](crate::shared::FairStats) for
//!   the balancer.
//!
//! # What belongs to `Fair` alone
//!
//! - CPU limits of groups (`cpu.max`), which other policies store but do not enforce: [`Policy::limit_changed`],
//!   [`Policy::distribute`], [`Policy::throttled`], [`Policy::limit_forbids_move`], [`Policy::wants_return`],
//!   [`Policy::return_to_user`].
//! - Loads of groups: [`TaskGroup::load_avg`](crate::group::TaskGroup::load_avg), which is 0 under other policies, and
//!   `h_load`.
//! - Tasks that do not fit their CPU ([`Published::misfit_task_load`](crate::shared::Published::misfit_task_load)), and
//!   energy-aware placement.

pub(crate) mod fault;
mod reason;

use core::fmt::Debug;

use crate::attrs::TaskAttrs;
use crate::ids::CpuId;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::tunables::Tunables;

pub use fault::Fault;
pub use reason::{Dequeue, Enqueue, Wake};

/// A scheduling policy. Tasks are named by their index in [`Rq::tasks`].
///
/// The core keeps [`Rq::nr_running`] and the list of movable tasks; a policy keeps its order. It never sees tasks of
/// higher classes (`class`): the core calls it when none of them may run, and [`Rq::curr_ordinary`] is none while one
/// runs. A task that moves to a higher class is dequeued. It returns with [`Enqueue::Restore`] or, if asleep and
/// [`Self::returned_asleep`] is false, with [`Enqueue::WakeupMigrated`]. [`Enqueue::New`] is not used for a task born
/// there.
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

    /// Enqueues a task that is not running: a running one is switched from before a change of its attributes, and to
    /// afterwards. `Task::on_rq` is false except for [`Enqueue::Delayed`].
    fn enqueue(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, why: Enqueue);

    /// Dequeues a task, maybe the running one. Returns false if a sleeping task ([`Dequeue::Sleep`]) stays queued
    /// (delayed dequeue), until the policy calls [`Rq::finish_delayed`].
    fn dequeue(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, why: Dequeue) -> bool;

    /// Returns the next queued task, maybe the running one; None only if none is queued. Must not dequeue a task: a
    /// switch may have several calls, or none.
    fn pick(rq: &mut Rq<Self>, shared: &Shared<Self>) -> Option<u32>;

    /// The CPU switches from `prev` to another task `next` (`None`: not a task of this policy). `prev` may be off the
    /// queue. [`Rq::curr_ordinary`] is still `prev`. Unlike [`Self::pick`], this may dequeue a task.
    fn switch(rq: &mut Rq<Self>, shared: &Shared<Self>, prev: Option<u32>, next: Option<u32>);

    /// The run queue is locked again after balancing, and the previous task put.
    #[doc(hidden)]
    fn looked(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// The scheduler's tick, while `task` runs.
    fn tick(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32);

    /// A wakeup enqueued `task` while `rq.curr_ordinary` runs. Calls [`Rq::resched`] to run it at once.
    fn wakeup_preempt(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, wake: Wake);

    /// The running task yields.
    fn yield_task(rq: &mut Rq<Self>, shared: &Shared<Self>);

    /// Returns the rest of the running task's slice, nanoseconds; `None` if no other task waits. Only called with
    /// HRTICK.
    fn slice_left(_rq: &Rq<Self>, _shared: &Shared<Self>) -> Option<u64> {
        None
    }

    /// Updates the accounts of the running task to the run queue's clock.
    fn update_curr(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// A new task is forked on `rq`. It is queued later with [`Enqueue::New`], maybe elsewhere.
    fn forked(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// Chooses a CPU for a task woken by code on `on`, and now on `rq`, its previous or parent's CPU. The core corrects
    /// forbidden CPUs. By default: stays, unless another allowed CPU is less loaded.
    fn select_cpu(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, on: CpuId, wake: Wake) -> CpuId {
        let _ = (on, wake);
        let here = rq.cpu;
        let candidate = &rq.tasks[task];
        let load = |cpu: CpuId| (shared.cpu(cpu).nr_running(), cpu != here, cpu);
        let may = |cpu: &CpuId| candidate.allowed(*cpu) && shared.is_online(*cpu);
        let cpus = (0..shared.nr_cpus() as u32).map(CpuId).filter(may);
        cpus.min_by_key(|&cpu| load(cpu)).unwrap_or(here)
    }

    /// Chooses a CPU for the running task at exec. By default: stays.
    fn select_cpu_exec(rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> CpuId {
        rq.cpu
    }

    /// A sleeping or dequeued task leaves this run queue for another.
    fn detach(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// A detached task has arrived here, and is not queued yet.
    fn attach(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// A task's nice value or policy changed. The task is off the queue, and put if it ran.
    fn attrs_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// Whether the queue has too few tasks for a change of priority to matter.
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

    /// A task, off the queue, leaves for a higher class. On false, the core detaches and attaches it.
    fn leaves_for_above(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> bool {
        false
    }

    /// A sleeping task is back from a higher class. Returns true if it wakes as if it had never left.
    fn returned_asleep(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> bool {
        false
    }

    /// A group's weight changed, or whether it is idle; applies it to this CPU.
    fn group_weight_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _group: crate::ids::GroupId) {}

    /// This CPU goes offline: lifts limits, and leaves sums over CPUs (a group's load) until the first update after
    /// [`Self::rq_online`]. Its tasks are still queued, and leave one by one.
    fn rq_offline(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// This CPU is online again.
    fn rq_online(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// Returns the load of a task for the balancer, in the scale of weights (1024: a nice-0 task that always runs).
    fn task_load(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> u64 {
        crate::weight::NICE_0_WEIGHT
    }

    /// Up to 3.18, at a wakeup: the load that a sleeping task would add to this CPU, in the scale of weights.
    fn effective_load(_rq: &Rq<Self>, _shared: &Shared<Self>, _task: u32) -> u64 {
        crate::weight::NICE_0_WEIGHT
    }

    /// 3.10: updates the load of every group on this CPU, once a tick. Returns the numbers of groups, and of those
    /// without a task here; `None` if already done.
    fn update_h_load(_rq: &mut Rq<Self>, _shared: &Shared<Self>) -> Option<(u32, u32)> {
        None
    }

    /// Returns the utilisation of a task, 0..=1024.
    fn task_util(_rq: &Rq<Self>, _task: u32) -> u64 {
        0
    }

    /// Whether a CPU is big enough for a task; if not, the balancer moves it to a bigger one. By default: a fifth of
    /// the capacity that higher classes leave must be spare.
    fn task_fits_cpu(rq: &Rq<Self>, shared: &Shared<Self>, task: u32, cpu: CpuId) -> bool {
        crate::capacity::fits_capacity(Self::task_util(rq, task), shared.cpu(cpu).capacity_of())
    }

    /// Returns the kernel's `prio` of a task; the O(1) scheduler's varies.
    fn dynamic_prio(rq: &Rq<Self>, task: u32) -> i16 {
        rq.tasks[task].prio()
    }

    /// Returns the queued tasks in the order in which the balancer of kernels before groups moves them. By default:
    /// longest ago run first.
    fn pull_order(rq: &Rq<Self>) -> alloc::vec::Vec<u32> {
        rq.listed().collect()
    }

    /// Whether the balancer should prefer other tasks: this one has had more than its share, and would share `to`.
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

    /// Publishes what other CPUs may read, except the number of tasks.
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

    /// The CPU limit of a group changed; applies it to this CPU, and unthrottles.
    fn limit_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _group: crate::ids::GroupId) {}

    /// There is run time for `group`, which waits for it on this CPU.
    fn distribute(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _group: crate::ids::GroupId) {}

    /// Whether a CPU limit throttles a task. A throttled task is queued ([`crate::task::Task::on_rq`]) but not counted
    /// in [`Rq::nr_running`].
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
