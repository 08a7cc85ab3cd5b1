//! Work for the stopper of a CPU: it pushes the running task to another CPU, for an active balance (only a running task
//! could be moved), after a change of affinity, or at exec.

use crate::ids::{CpuId, TaskId};

/// Work for the stopper of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Push {
    /// Active balance: move one task to `to`, which requested it at level `position` of its hierarchy.
    Balance {
        /// The CPU that wants work.
        to: CpuId,
        /// The level, counted from the lowest.
        position: u8,
    },
    /// The running task may no longer run here: move it to a CPU it may run on.
    Affinity,
    /// Move this task, which execs, to `to`.
    Exec {
        /// The task that execs.
        task: TaskId,
        /// The idlest CPU.
        to: CpuId,
    },
}
