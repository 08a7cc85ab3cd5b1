//! A CPU's real-time tasks.

use alloc::boxed::Box;

use super::group::RtGroups;
use crate::attrs::{MAX_RT_PRIO, NO_RT_PRIO};
use crate::class::fair::pelt::Avg;
use crate::class::pushable::{Callback, Pushable};
use crate::ids::GroupId;
use crate::list::TaskList;

/// State of the class in every task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RtTask {
    pub(super) level: u8,
    /// Whether other CPUs may take it: queued, not running, allowed elsewhere.
    pub(super) pushable: bool,
    /// SCHED_RR: ticks left of its slice; 0 before its first.
    pub(super) time_slice: u32,
    /// [`RtRq::became_pushable`] when it became pushable.
    pub(super) since: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Head,
    Tail,
}

#[derive(Debug)]
pub(super) struct Queues {
    pub(super) lists: [TaskList; MAX_RT_PRIO as usize],
}

/// A CPU's real-time tasks.
#[derive(Debug, Default)]
pub struct RtRq {
    /// Bitmap of the queues that are not empty, by `prio`.
    pub(super) active: u128,
    /// Created with the first task.
    pub(super) queues: Option<Box<Queues>>,
    pub(crate) pushable: Pushable,
    /// Number of the class's tasks with the running one, also while the class is throttled. Tasks of throttled groups
    /// do not count.
    pub(super) nr_running: u32,
    /// Number of the class's tasks, with those of throttled groups (`rt_nr_total`).
    pub(super) nr_total: u32,
    /// How often a task became pushable.
    pub(super) became_pushable: u64,
    /// Whether the class waits for the period's end.
    pub(super) throttled: bool,
    /// CPU time of the class in this period, nanoseconds.
    pub(super) rt_time: u64,
    pub(super) exec_start: u64,
    pub(super) avg: Avg,
    /// Groups' arrays, if scheduled. `queues` then has only pushable tasks, and `active` only the highest priority.
    pub(super) groups: Option<Box<RtGroups>>,
    pub(crate) callback: Option<Callback>,
}

impl RtRq {
    /// Returns the number of the class's tasks with the running one, also while the class is throttled. Tasks of
    /// throttled groups do not count.
    #[inline]
    pub fn nr_running(&self) -> u32 {
        self.nr_running
    }

    /// Whether the class is throttled on this CPU until the next period (up to 6.11).
    #[inline]
    pub fn throttled(&self) -> bool {
        self.throttled
    }

    /// Whether throttling, of class or group, stops the queued task `index`.
    pub fn is_throttled(&self, index: u32) -> bool {
        self.throttled || self.groups.as_ref().is_some_and(|groups| groups.is_throttled(index))
    }

    pub(crate) fn exec_start(&self) -> u64 {
        self.exec_start
    }

    /// CPU time of the class in this period, nanoseconds.
    pub fn rt_time(&self) -> u64 {
        self.groups.as_ref().map_or(self.rt_time, |groups| groups.top().time)
    }

    /// Returns each group that had tasks here: its unthrottled tasks, whether it is throttled, and CPU time in this
    /// period. Empty unless groups are scheduled.
    pub(crate) fn of_groups(&self) -> impl Iterator<Item = (GroupId, u32, bool, u64)> + '_ {
        let groups = self.groups.as_deref();
        let known = groups.into_iter().flat_map(|groups| groups.groups().map(|id| (id, groups.rq(id))));
        known.filter_map(|(id, rq)| rq.map(|rq| (id, rq.nr_running(), rq.throttled, rq.time)))
    }

    /// Average part of the CPU's time that the class takes, of 1024.
    pub fn util_avg(&self) -> u64 {
        self.avg.util_avg
    }

    #[inline]
    pub(crate) fn runnable(&self) -> bool {
        self.nr_running > 0 && !self.throttled
    }

    #[inline]
    pub(crate) fn highest(&self) -> u8 {
        if self.active == 0 { NO_RT_PRIO } else { self.active.trailing_zeros() as u8 }
    }

    pub(crate) fn util_sum(&self) -> u64 {
        self.avg.util_sum
    }

    /// Whether the class has had a task here, so that it has a load average.
    #[inline]
    pub(crate) fn has_load(&self) -> bool {
        self.avg.last_update != 0
    }

    pub(super) fn queues(&mut self) -> &mut Queues {
        let none = [TaskList::default(); MAX_RT_PRIO as usize];
        self.queues.get_or_insert_with(|| Box::new(Queues { lists: none }))
    }

    pub(super) fn list(&self, level: u8) -> TaskList {
        self.queues.as_ref().map_or_else(TaskList::default, |queues| queues.lists[usize::from(level)])
    }
}
