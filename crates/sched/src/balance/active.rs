//! Active balance: when only a running task could be moved, the stopper of its CPU pushes it away.

use crate::ids::{CpuId, TaskId};

/// Work for the stopper of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Push {
    /// Move one task to `to`, which asked for it at level `position` of its hierarchy.
    Balance {
        /// The CPU that wants work.
        to: CpuId,
        /// The level, counted from the lowest.
        position: u8,
    },
    /// The running task may no longer run here: move it to a CPU it may run on.
    Affinity,
    /// This task, which execs, had better go on at `to`.
    Exec {
        /// The task that execs.
        task: TaskId,
        /// The idlest CPU.
        to: CpuId,
    },
}
