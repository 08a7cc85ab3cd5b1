//! Lags of a CPU's entities, for tests of EEVDF's promises.

use alloc::vec::Vec;

use super::eevdf::{avg_vruntime, entity_eligible};
use super::entity::Se;
use super::{EevdfOrder, FairCpu};
use crate::ids::{GroupId, TaskId};
use crate::tunables::Tunables;
use crate::weight;

/// State of a queued entity at the last update of its run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Group on whose queue it is.
    pub queue: GroupId,
    /// The task; none for a group.
    pub task: Option<TaskId>,
    /// Weight, nice 0 = 1024.
    pub weight: u64,
    /// Lag: the queue's average vruntime, rounded down, less its own. Virtual nanoseconds: times `weight`, over 1024,
    /// is CPU time.
    pub lag: i64,
    /// Requested slice, nanoseconds.
    pub slice_ns: u64,
    /// Whether its lag is not negative.
    pub eligible: bool,
    /// Whether it, or a task in it, has the CPU.
    pub running: bool,
}

/// Returns every queued entity of a CPU, tasks first.
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
