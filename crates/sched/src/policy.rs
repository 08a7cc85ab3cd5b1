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
//! - CPU limits of groups (`cpu.max`), which other policies store but do not enforce ([`Limited`]).
//! - Loads of groups: [`TaskGroup::load_avg`](crate::group::TaskGroup::load_avg), which is 0 under other policies, and
//!   `h_load`.
//! - Tasks that do not fit their CPU ([`Published::misfit_task_load`](crate::shared::Published::misfit_task_load)), and
//!   energy-aware placement.

pub(crate) mod fault;
mod parts;
mod reason;

use core::fmt::Debug;

use crate::attrs::TaskAttrs;
use crate::ids::CpuId;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::tunables::Tunables;

pub use fault::Fault;
pub use parts::{Balanced, Changed, Debugged, Limited, Plain};
pub use reason::{Dequeue, Enqueue, Wake};

/// A scheduling policy. Tasks are named by their index in [`Rq::tasks`].
///
/// The core keeps [`Rq::nr_running`] and the list of movable tasks; a policy keeps its order. It never sees tasks of
/// higher classes (`class`): the core calls it when none of them may run, and [`Rq::curr_ordinary`] is none while one
/// runs. A task that moves to a higher class is dequeued. It returns with [`Enqueue::Restore`] or, if asleep and
/// [`Changed::returned_asleep`] is false, with [`Enqueue::WakeupMigrated`]. [`Enqueue::New`] is not used for a task
/// born there.
pub trait Policy: Sized + Debug + 'static {
    /// The type of its tunables.
    type Tunables: Tunables;
    /// Its state of a CPU.
    type Rq: Debug + Send;
    /// Its state of a task, which moves with the task.
    type Task: Debug + Send;
    /// What the balancer reads. [`Plain`]: the default, under which each task weighs 1024.
    type Balance: Balanced<Self>;
    /// What it does at changes of slices, groups, classes and CPUs. [`Plain`]: nothing.
    type Changes: Changed<Self>;
    /// CPU limits of groups. [`Plain`]: there are none.
    type Limits: Limited<Self>;
    /// Its state for display, and its invariants. [`Plain`]: it shows nothing.
    type Debugging: Debugged<Self>;

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
}
