//! The fair class under a discipline, and what EEVDF and CFS do differently.

use core::marker::PhantomData;

use super::entity::{CfsRq, Entity, Se};
use crate::policy::{Dequeue, Enqueue, Wake};
use crate::rq::Rq;
use crate::shared::Shared;
use crate::tunables::Tunables;

/// The fair class under a discipline `D`, its tunables from `T`.
#[derive(Debug)]
pub struct Fair<D, T>(PhantomData<(D, T)>);

/// Differences between EEVDF and CFS. `cfs` is the index of a group.
pub trait Discipline: Sized + core::fmt::Debug + 'static {
    /// Whether the weighted average of vruntimes is needed.
    const AVERAGES: bool;

    /// Returns the sort key of an entity.
    fn key(se: &Entity) -> u64;

    /// Places a joining entity in virtual time, before it counts as queued: `curr` before the update of its accounts,
    /// others after.
    #[doc(hidden)]
    fn place<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se, why: Enqueue);

    /// Adjusts an entity from another queue to this queue's time, before its accounts are updated.
    #[doc(hidden)]
    fn arrive<T: Tunables>(_rq: &mut FairCpu<Self, T>, _se: Se, _why: Enqueue) {}

    /// Whether the balancer leaves an entity that has had more than its share, while others can move.
    #[doc(hidden)]
    fn has_run_ahead<T: Tunables>(_rq: &FairCpu<Self, T>, _shared: &FairShared<Self, T>, _se: Se) -> bool {
        false
    }

    #[doc(hidden)]
    fn delays<T: Tunables>(_rq: &FairCpu<Self, T>, _shared: &FairShared<Self, T>, _se: Se) -> bool {
        false
    }

    /// Handles an entity that stays queued instead of sleeping.
    #[doc(hidden)]
    fn stays<T: Tunables>(_rq: &mut FairCpu<Self, T>, _shared: &FairShared<Self, T>, _se: Se) {}

    #[doc(hidden)]
    fn leave<T: Tunables>(_rq: &mut FairCpu<Self, T>, _shared: &FairShared<Self, T>, _se: Se, _why: Dequeue) {}

    #[doc(hidden)]
    fn left<T: Tunables>(_rq: &mut FairCpu<Self, T>, _se: Se, _why: Dequeue) {}

    /// Returns the entity of a non-empty queue that should run.
    #[doc(hidden)]
    fn pick<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, cfs: u32) -> Se;

    /// Returns the slice of an entity, wall-clock ns.
    #[doc(hidden)]
    fn slice<T: Tunables>(rq: &FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se) -> u64;

    /// Returns the rest of the running entity's slice.
    #[doc(hidden)]
    fn slice_left<T: Tunables>(rq: &FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se) -> u64 {
        let entity = rq.se(se);
        Self::slice(rq, shared, se).saturating_sub(entity.sum_exec_runtime - entity.prev_sum_exec_runtime)
    }

    #[doc(hidden)]
    fn set_next<T: Tunables>(_rq: &mut FairCpu<Self, T>, _shared: &FairShared<Self, T>, _se: Se) {}

    /// Returns whether to reschedule after `curr`, the running entity of `queue`, was charged.
    #[doc(hidden)]
    fn charged<T: Tunables>(curr: &mut Entity, queue: &mut CfsRq, shared: &FairShared<Self, T>) -> bool;

    /// Virtual time for which charging the only entity of `queue` just adds up.
    #[doc(hidden)]
    fn undisturbed(curr: &Entity, queue: &CfsRq) -> u64;

    #[doc(hidden)]
    fn tick<T: Tunables>(_rq: &mut FairCpu<Self, T>, _shared: &FairShared<Self, T>, _cfs: u32, _curr: Se) {}

    /// Whether to make the waking task a buddy (feature NEXT_BUDDY).
    #[doc(hidden)]
    fn befriends<T: Tunables>(_rq: &FairCpu<Self, T>, _shared: &FairShared<Self, T>, _running: Se) -> bool {
        true
    }

    /// Whether `woken` preempts its running sibling `curr`, both up to date. `running` is the running task.
    #[doc(hidden)]
    fn preempts<T: Tunables>(
        rq: &mut FairCpu<Self, T>,
        shared: &FairShared<Self, T>,
        curr: Se,
        woken: Se,
        running: u32,
        wake: Wake,
    ) -> bool;

    /// Ends the protection of `curr`, an idle entity, against one that is not idle.
    #[doc(hidden)]
    #[inline]
    fn gives_way<T: Tunables>(_rq: &mut FairCpu<Self, T>, _shared: &FairShared<Self, T>, _curr: Se) {}

    /// Handles the wakeup of a delayed task.
    #[doc(hidden)]
    fn requeue_delayed<T: Tunables>(_rq: &mut FairCpu<Self, T>, _shared: &FairShared<Self, T>, _se: Se) {}

    #[doc(hidden)]
    fn yields<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se);

    #[doc(hidden)]
    fn reweight<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se, weight: u64);

    /// Places a forked task, relative to its future queue.
    #[doc(hidden)]
    fn fork<T: Tunables>(_rq: &mut FairCpu<Self, T>, _shared: &FairShared<Self, T>, _task: u32) {}

    /// Handles a sleeping task that leaves for another CPU.
    #[doc(hidden)]
    fn migrate<T: Tunables>(_rq: &mut FairCpu<Self, T>, _task: u32) {}

    /// Handles a dequeued task that leaves its group for another.
    #[doc(hidden)]
    fn leave_group<T: Tunables>(_rq: &mut FairCpu<Self, T>, _shared: &FairShared<Self, T>, _task: u32) {}

    /// Handles its arrival there.
    #[doc(hidden)]
    fn join_group<T: Tunables>(_rq: &mut FairCpu<Self, T>, _task: u32) {}
}

/// A CPU under the fair class.
pub type FairCpu<D, T> = Rq<Fair<D, T>>;
/// State that CPUs under the fair class share.
pub type FairShared<D, T> = Shared<Fair<D, T>>;
