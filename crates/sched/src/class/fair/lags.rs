//! What every entity of a CPU is owed: for tests of EEVDF's promises.

use alloc::vec::Vec;

use super::eevdf::{avg_vruntime, entity_eligible};
use super::entity::Se;
use super::{EevdfOrder, FairCpu};
use crate::ids::{GroupId, TaskId};
use crate::tunables::Tunables;
use crate::weight;

/// How a queued entity stands on its queue, as of the last update of its run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The group on whose queue it is.
    pub queue: GroupId,
    /// The task; none when it is a group.
    pub task: Option<TaskId>,
    /// Its weight, nice 0 = 1024.
    pub weight: u64,
    /// What it is owed (positive) or owes (negative): the queue's average vruntime, rounded down, less its own.
    /// Virtual nanoseconds: times `weight`, over 1024, is CPU time.
    pub lag: i64,
    /// How long it wants to run at a time, nanoseconds.
    pub slice_ns: u64,
    /// Whether it is owed time, or owes none.
    pub eligible: bool,
    /// Whether it, or a task in it, has the CPU.
    pub running: bool,
}

/// How every queued entity of a CPU stands, tasks first.
pub fn standings<T: Tunables>(rq: &FairCpu<EevdfOrder, T>) -> Vec<Standing> {
    let groups = rq.class.groups.iter().skip(1).map(|(index, _)| Se::group(index));
    let all = rq.tasks.iter().map(|(index, _)| Se::task(index)).chain(groups);
    all.filter(|&se| rq.se(se).on_rq)
        .map(|se| {
            let entity = rq.se(se);
            let queue = &rq.class.groups[entity.parent];
            Standing {
                queue: queue.id,
                task: se.as_task().map(|index| rq.tasks[index].id),
                weight: weight::down(entity.weight),
                lag: avg_vruntime(&queue.cfs).wrapping_sub(entity.vruntime) as i64,
                slice_ns: entity.slice,
                eligible: entity_eligible(rq, se),
                running: queue.cfs.curr == Some(se),
            }
        })
        .collect()
}
