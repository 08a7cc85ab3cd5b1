//! Work for the stopper of a CPU: a push of the running task, for an active balance, after a change of affinity, or at
//! exec.

use crate::ids::{CpuId, TaskId};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Push {
    /// Active balance: moves one task.
    Balance {
        /// The CPU that requested it.
        to: CpuId,
        /// The level of its hierarchy, lowest first.
        position: u8,
    },
    /// The running task may no longer run here.
    Affinity,
    /// Moves a task at exec.
    Exec { task: TaskId, to: CpuId },
}
