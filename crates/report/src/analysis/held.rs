//! Who is held back where: told by runs of ours only.

use vruntime_trace::{CpuId, TaskId};

use super::world::World;
use crate::holds::Holds;

/// What holds tasks back, and which of the run's tasks is which of the world's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub(super) holds: Holds,
    own: Vec<Option<TaskId>>,
}

impl Held {
    /// A task of the world is this one of the run.
    pub(super) fn announce(&mut self, task: u32, id: TaskId) {
        if task as usize >= self.own.len() {
            self.own.resize(task as usize + 1, None);
        }
        self.own[task as usize] = Some(id);
    }
}

impl World {
    /// Whether something but other tasks would keep this one from running on a CPU.
    pub(super) fn is_held(&self, task: u32, cpu: u32) -> bool {
        let own = self.held.own.get(task as usize).copied().flatten();
        own.is_some_and(|id| self.held.holds.hold(id, CpuId(cpu)))
    }
}
