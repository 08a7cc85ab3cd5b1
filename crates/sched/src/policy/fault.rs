//! Violations of the policy's contract.

use core::fmt;

use super::reason::Dequeue;
use crate::ids::{CpuId, TaskId};

/// A promise that a [`Policy`](super::Policy) broke. The core continues and reports it
/// ([`Host::policy_fault`](crate::Host::policy_fault)); the simulated machine ends the run with an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// `pick` returned None, though tasks are queued: the CPU would idle for ever.
    PickedNobody {
        /// Number of queued tasks.
        queued: u32,
        /// The one that ran longest ago.
        task: TaskId,
    },
    /// `pick` returned a task that is asleep or of a higher class.
    PickedUnqueued {
        /// The task.
        task: TaskId,
    },
    /// `pick` returned an index without a task.
    PickedNoTask {
        /// The index.
        index: u32,
    },
    /// `select_cpu` or `select_cpu_exec` returned a CPU that does not exist.
    SelectedNoCpu {
        /// The task.
        task: TaskId,
        /// The CPU.
        cpu: CpuId,
    },
    /// `dequeue` kept a task that does not sleep.
    Kept {
        /// The task.
        task: TaskId,
        /// The reason of the dequeue.
        why: Dequeue,
    },
    /// `finish_delayed` was called for a task that is not queued.
    FinishedTwice {
        /// The task.
        task: TaskId,
    },
}

impl Fault {
    /// Returns the task; None for an index without one.
    pub fn task(self) -> Option<TaskId> {
        match self {
            Self::PickedNobody { task, .. }
            | Self::PickedUnqueued { task }
            | Self::SelectedNoCpu { task, .. }
            | Self::Kept { task, .. }
            | Self::FinishedTwice { task } => Some(task),
            Self::PickedNoTask { .. } => None,
        }
    }

    /// Returns what to do.
    pub const fn help(self) -> &'static str {
        match self {
            Self::PickedNobody { .. } => {
                "keep every task from `enqueue` to `dequeue`: remove the next task from your queue in `switch`, not in `pick`, and put the \
                 previous task back there if it is still `on_rq`"
            }
            Self::PickedUnqueued { .. } | Self::PickedNoTask { .. } => {
                "remove a task in `dequeue`, whatever the reason, and name tasks of other run queues by their `TaskId`: an index belongs to \
                 one run queue, which reuses it after the task has left"
            }
            Self::SelectedNoCpu { .. } => "choose one below `Shared::nr_cpus`",
            Self::Kept { .. } => "answer true, unless the reason is `Dequeue::Sleep`",
            Self::FinishedTwice { .. } => "call it once for each `dequeue` that was answered with false",
        }
    }
}

/// Without the task's name and the CPU, which the host adds.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PickedNobody { queued: 1, .. } => f.write_str("`pick` returns no task, but one is queued"),
            Self::PickedNobody { queued, .. } => write!(f, "`pick` returns no task, but {queued} are queued"),
            Self::PickedUnqueued { .. } => f.write_str("`pick` answers a task that is not queued"),
            Self::PickedNoTask { index } => write!(f, "`pick` returns {index}, which is not a task of this run queue"),
            Self::SelectedNoCpu { cpu, .. } => {
                write!(f, "`select_cpu` returns CPU {cpu}, which the machine does not have")
            }
            Self::Kept { why, .. } => write!(f, "`dequeue` keeps a task (answers false) for {why:?}"),
            Self::FinishedTwice { .. } => f.write_str("`finish_delayed` is called for a task that is not queued"),
        }
    }
}

impl core::error::Error for Fault {}
