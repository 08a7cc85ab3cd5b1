//! Optional parts of a policy, [`Plain`] by default.

use alloc::string::String;
use alloc::vec::Vec;

use super::Policy;
use crate::debug::{CfsDebug, EntityDebug};
use crate::ids::{CpuId, GroupId};
use crate::rq::Rq;
use crate::shared::{FairStats, Shared};
use crate::weight::NICE_0_WEIGHT;

/// The default of every optional part.
#[derive(Debug)]
pub struct Plain;

/// What the balancer reads, and a CPU publishes.
pub trait Balanced<P: Policy> {
    /// Returns a task's load for the balancer, in the scale of weights (1024: a nice-0 task that always runs).
    fn task_load(_rq: &mut Rq<P>, _shared: &Shared<P>, _task: u32) -> u64 {
        NICE_0_WEIGHT
    }

    /// Up to 3.18, at a wakeup: the load a sleeping task would add here, in the scale of weights.
    fn effective_load(_rq: &Rq<P>, _shared: &Shared<P>, _task: u32) -> u64 {
        NICE_0_WEIGHT
    }

    /// 3.10: updates every group's load here, once a tick. Returns the numbers of groups, and of those without a task
    /// here; `None` if already done.
    fn update_h_load(_rq: &mut Rq<P>, _shared: &Shared<P>) -> Option<(u32, u32)> {
        None
    }

    /// Returns the utilisation of a task, 0..=1024.
    fn task_util(_rq: &Rq<P>, _task: u32) -> u64 {
        0
    }

    /// Whether a CPU is big enough for a task; if not, the balancer moves it to a bigger one. Default: a fifth of the
    /// capacity left by higher classes is spare.
    fn task_fits_cpu(rq: &Rq<P>, shared: &Shared<P>, task: u32, cpu: CpuId) -> bool {
        crate::capacity::fits_capacity(Self::task_util(rq, task), shared.cpu(cpu).capacity_of())
    }

    /// Returns the kernel's `prio` of a task; the O(1) scheduler's varies.
    fn dynamic_prio(rq: &Rq<P>, task: u32) -> i16 {
        rq.tasks[task].prio()
    }

    /// Returns queued tasks in the moving order of balancers before groups. Default: longest ago run first.
    fn pull_order(rq: &Rq<P>) -> Vec<u32> {
        rq.listed().collect()
    }

    /// Whether the balancer should prefer others: this task has had more than its share, and would share `to`.
    fn has_run_ahead(_rq: &Rq<P>, _shared: &Shared<P>, _task: u32, _to: &Rq<P>) -> bool {
        false
    }

    /// Whether the balancer should leave the task: a delayed dequeue, or a buddy.
    fn sticky(_rq: &Rq<P>, _shared: &Shared<P>, _task: u32) -> bool {
        false
    }

    /// Publishes utilisation for energy-aware placement.
    fn publish_usage(_rq: &Rq<P>, _shared: &Shared<P>) {}

    /// Returns the class's `util_sum`, behind its utilisation.
    fn util_sum(_rq: &Rq<P>) -> u64 {
        0
    }

    /// Updates the run queue's load averages before balancing.
    fn update_blocked_averages(_rq: &mut Rq<P>, _shared: &Shared<P>) {}

    /// Publishes what other CPUs may read, except the number of tasks.
    fn publish(rq: &Rq<P>, shared: &Shared<P>) {
        let nr = u64::from(rq.nr_ordinary());
        shared.cpu(rq.cpu).publish_fair(FairStats {
            load: nr * NICE_0_WEIGHT,
            runnable: nr * NICE_0_WEIGHT,
            util: nr.min(1) * NICE_0_WEIGHT,
            util_est: 0,
            h_nr_runnable: rq.nr_ordinary(),
            h_nr_queued: rq.nr_ordinary(),
            h_nr_idle: 0,
        });
    }

    /// Whether it runs only SCHED_IDLE tasks.
    fn only_idle_tasks(_rq: &Rq<P>) -> bool {
        false
    }
}

impl<P: Policy> Balanced<P> for Plain {}

/// Changes of slices, groups, classes and CPUs.
pub trait Changed<P: Policy> {
    /// Whether too few tasks are queued for priorities to matter.
    fn is_alone(_rq: &Rq<P>, _shared: &Shared<P>) -> bool {
        false
    }

    /// Returns a task's slice, nanoseconds, if the policy honours [`TaskAttrs::slice`](crate::TaskAttrs::slice).
    fn slice(_rq: &Rq<P>, _shared: &Shared<P>, _task: u32) -> Option<u64> {
        None
    }

    /// A task, off the queue, requests a slice, nanoseconds, or (`None`) the default.
    fn slice_changed(_rq: &mut Rq<P>, _shared: &Shared<P>, _task: u32, _slice: Option<u64>) {}

    /// A task, off the queue, moves to the group that `Task::group` already names.
    fn group_changed(_rq: &mut Rq<P>, _shared: &Shared<P>, _task: u32) {}

    /// A task, off the queue, leaves for a higher class. On false, the core detaches and attaches it.
    fn switched_from(_rq: &mut Rq<P>, _shared: &Shared<P>, _task: u32) -> bool {
        false
    }

    /// A sleeping task returns from a higher class. Returns true if the task wakes as if it had never left.
    fn switched_to_asleep(_rq: &mut Rq<P>, _shared: &Shared<P>, _task: u32) -> bool {
        false
    }

    /// Applies a group's changed weight or idleness here.
    fn group_weight_changed(_rq: &mut Rq<P>, _shared: &Shared<P>, _group: GroupId) {}

    /// This CPU goes offline: lifts limits, and leaves sums over CPUs (a group's load) until the first update after
    /// [`Self::rq_online`]. Its queued tasks leave later, one by one.
    fn rq_offline(_rq: &mut Rq<P>, _shared: &Shared<P>) {}

    /// This CPU is online again.
    fn rq_online(_rq: &mut Rq<P>, _shared: &Shared<P>) {}
}

impl<P: Policy> Changed<P> for Plain {}

/// CPU limits of groups (`cpu.max`).
pub trait Limited<P: Policy> {
    /// Whether it enforces limits.
    const ENFORCED: bool = false;

    /// Applies a changed limit here, and unthrottles.
    fn limit_changed(_rq: &mut Rq<P>, _shared: &Shared<P>, _group: GroupId) {}

    /// Run time arrived for `group`, which waits here.
    fn distribute(_rq: &mut Rq<P>, _shared: &Shared<P>, _group: GroupId) {}

    /// Whether a CPU limit throttles a task, which is then queued ([`crate::task::Task::on_rq`]) but not in
    /// [`Rq::nr_running`].
    fn throttled(_rq: &Rq<P>, _shared: &Shared<P>, _task: u32) -> bool {
        false
    }

    /// Whether its group's limit forbids moving a task to `to`.
    fn limit_forbids_move(_rq: &Rq<P>, _shared: &Shared<P>, _task: u32, _to: &Rq<P>) -> bool {
        false
    }

    /// Whether to call [`Self::return_to_user`].
    fn wants_return(_rq: &Rq<P>) -> bool {
        false
    }

    /// The running task returns to user mode.
    fn return_to_user(_rq: &mut Rq<P>, _shared: &Shared<P>, _task: u32) {}
}

impl<P: Policy> Limited<P> for Plain {}

/// Display and invariants.
pub trait Debugged<P: Policy> {
    /// Applies deferred updates before [`Self::debug`].
    fn apply_deferred(_rq: &mut Rq<P>, _shared: &Shared<P>) {}

    /// Returns a CPU's queues: one of each group, the root's first.
    fn debug(_rq: &Rq<P>, _shared: &Shared<P>) -> Vec<CfsDebug> {
        Vec::new()
    }

    /// Returns a task's state.
    fn debug_task(_rq: &Rq<P>, _task: u32) -> Option<EntityDebug> {
        None
    }

    /// Checks invariants. Slow: for tests and debug builds.
    ///
    /// # Errors
    ///
    /// The first violated invariant, in words.
    fn check(_rq: &Rq<P>) -> Result<(), String> {
        Ok(())
    }
}

impl<P: Policy> Debugged<P> for Plain {}
