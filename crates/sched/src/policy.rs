//! The scheduling policy of ordinary tasks, as a trait with the kernel's verbs.
//!
//! `docs/policy.md` shows how to write and compare one. The core reports breaches of the contract as a [`Fault`].
//!
//! # What a policy of your own has
//!
//! - On its run queue: [`Rq::tasks`], [`Rq::curr_ordinary`], [`Rq::clock`], its state ([`Rq::class`]), and queued tasks
//!   in the order of their last runs ([`Rq::listed`]).
//! - To act: [`Rq::resched`], [`Rq::resched_lazy`], [`Rq::finish_delayed`], [`Rq::arm`], [`Rq::event`].
//! - Of other CPUs: their published values ([`Shared::cpu`]), the [`Topology`](crate::Topology), the groups
//!   ([`Shared::group`]), all settings ([`Shared::config`]). It publishes [`FairStats`](crate::shared::FairStats) for
//!   the balancer.
//!
//! # What belongs to `Fair` alone
//!
//! - CPU limits (`cpu.max`), which other policies store but do not enforce ([`Limited`]).
//! - Group loads: [`TaskGroup::load_avg`](crate::group::TaskGroup::load_avg), 0 under other policies, and `h_load`.
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
/// The core keeps [`Rq::nr_running`] and the list of movable tasks; a policy keeps its order. The core calls it when no
/// task of a higher class (`class`) may run; while one runs, [`Rq::curr_ordinary`] is none. A task that moves to a
/// higher class is dequeued. It returns with [`Enqueue::Restore`] or, if asleep and [`Changed::switched_to_asleep`] is
/// false, with [`Enqueue::WakeupMigrated`]; never with [`Enqueue::New`].
pub trait Policy: Sized + Debug + 'static {
    /// Its tunables.
    type Tunables: Tunables;
    /// Its state of a CPU.
    type Rq: Debug + Send;
    /// Its state of a task, moved with it.
    type Task: Debug + Send;
    /// What the balancer reads. [`Plain`]: each task weighs 1024.
    type Balance: Balanced<Self>;
    /// Changes of slices, groups, classes and CPUs. [`Plain`]: nothing.
    type Changes: Changed<Self>;
    /// CPU limits of groups. [`Plain`]: none.
    type Limits: Limited<Self>;
    /// Display and invariants. [`Plain`]: nothing.
    type Debugging: Debugged<Self>;

    /// Returns the state of a CPU without tasks.
    fn new_rq(shared: &Shared<Self>, cpu: CpuId) -> Self::Rq;

    /// Returns the state of a new task.
    fn new_task(shared: &Shared<Self>, attrs: &TaskAttrs) -> Self::Task;

    /// Enqueues a task that is not running; a running one is put before a change of attributes, and set afterwards.
    /// `Task::on_rq` is false except for [`Enqueue::Delayed`].
    fn enqueue(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, why: Enqueue);

    /// Dequeues a task, maybe the running one. Returns false if a sleeping task ([`Dequeue::Sleep`]) stays queued until
    /// the policy calls [`Rq::finish_delayed`].
    fn dequeue(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, why: Dequeue) -> bool;

    /// Returns the next queued task, maybe the running one; None only if none is queued. Must not dequeue: a switch has
    /// any number of calls.
    fn pick(rq: &mut Rq<Self>, shared: &Shared<Self>) -> Option<u32>;

    /// Switches from `prev`, maybe off the queue, to another task `next` (`None`: not this policy's).
    /// [`Rq::curr_ordinary`] is still `prev`. Unlike [`Self::pick`], this may dequeue.
    fn switch(rq: &mut Rq<Self>, shared: &Shared<Self>, prev: Option<u32>, next: Option<u32>);

    /// Called after balancing. The run queue is locked again, and the previous task is put.
    #[doc(hidden)]
    fn after_balance(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// The scheduler's tick, while `task` runs.
    fn tick(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32);

    /// A wakeup enqueued `task` while `rq.curr_ordinary` runs. [`Rq::resched`] preempts.
    fn wakeup_preempt(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, wake: Wake);

    /// The running task yields.
    fn yield_task(rq: &mut Rq<Self>, shared: &Shared<Self>);

    /// Returns the rest of the running slice, nanoseconds; `None` if no other task waits. Only with HRTICK.
    fn slice_left(_rq: &Rq<Self>, _shared: &Shared<Self>) -> Option<u64> {
        None
    }

    /// Updates the running task's accounts to the clock.
    fn update_curr(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    /// A task is forked on `rq`, and queued later with [`Enqueue::New`], maybe elsewhere.
    fn forked(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// Sets the averages of a new task that ran before the simulation began, of 1024: `runnable` is the runnable
    /// average, and `running` the utilisation.
    fn set_averages(_rq: &mut Rq<Self>, _task: u32, _runnable: u16, _running: u16) {}

    /// Chooses a CPU for a task woken by code on `on`; `rq` is its previous or parent's CPU. The core corrects
    /// forbidden CPUs. Default: stays, unless another allowed CPU is less loaded.
    fn select_cpu(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, on: CpuId, wake: Wake) -> CpuId {
        let _ = (on, wake);
        let here = rq.cpu;
        let candidate = &rq.tasks[task];
        let load = |cpu: CpuId| (shared.cpu(cpu).nr_running(), cpu != here, cpu);
        let may = |cpu: &CpuId| candidate.allowed(*cpu) && shared.is_online(*cpu);
        let cpus = (0..shared.nr_cpus() as u32).map(CpuId).filter(may);
        cpus.min_by_key(|&cpu| load(cpu)).unwrap_or(here)
    }

    /// Chooses the running task's CPU at exec. Default: stays.
    fn select_cpu_exec(rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> CpuId {
        rq.cpu
    }

    /// A sleeping or dequeued task leaves for another run queue.
    fn detach(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// A detached task arrived, not yet queued.
    fn attach(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}

    /// Called after a change of a task's nice value or policy. The task is neither queued nor running during the call.
    fn attrs_changed(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}
}
