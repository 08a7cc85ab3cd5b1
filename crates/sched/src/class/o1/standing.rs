//! The positions of tasks in the two arrays of a run queue, for tests and teaching.

use alloc::vec::Vec;

use super::O1;
use super::prio_array::PrioArray;
use crate::ids::TaskId;
use crate::rq::Rq;
use crate::tunables::Tunables;

/// Position of a queued task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct O1Standing {
    /// The task.
    pub task: TaskId,
    /// Whether it is in the expired array.
    pub expired: bool,
    /// Level, 100 to 139, from its static priority and its sleep average; the lower the more urgent.
    pub prio: u8,
    /// Level of its nice value: 120 is nice 0.
    pub static_prio: u8,
    /// Ticks left of its slice.
    pub time_slice: u32,
    /// Sleep average: nanoseconds, at most a second.
    pub sleep_avg: u64,
}

/// Returns a CPU's queued tasks, with the running, in order: the active array by level, then the expired array.
pub fn standings<T: Tunables>(rq: &Rq<O1<T>>) -> Vec<O1Standing> {
    let of = |expired: bool| {
        let array: &PrioArray = &rq.class.arrays[rq.class.active ^ usize::from(expired)];
        array.in_order(&rq.tasks).map(move |index| {
            let this = &rq.tasks[index].class;
            O1Standing {
                task: rq.tasks[index].id,
                expired,
                prio: this.prio,
                static_prio: rq.static_prio(index),
                time_slice: this.time_slice,
                sleep_avg: this.sleep_avg,
            }
        })
    };
    of(false).chain(of(true)).collect()
}
