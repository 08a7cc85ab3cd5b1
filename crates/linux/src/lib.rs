//! The same workload as real threads, in real cgroups, under this machine's own kernel.
//!
//! [`run`] takes the [`Workload`](vruntime_workload::program::Workload) that the simulated machine takes, makes a
//! thread of every task, in processes of their own where the workload says so, and measures what the kernel gave each:
//! CPU time, run delay, switches and migrations from `/proc`, and how late its sleeps returned. It is how far the
//! simulator is from the truth, on the machine of whoever asks.
//!
//! Work is computation without system calls, in a loop that looks at the monotonic clock (which is read in user space)
//! and does not count gaps in which something else ran. A thread that read its own CPU clock instead would be scheduled
//! otherwise: the read brings the kernel's accounts up to date, as a tick does.
//!
//! What the kernel refuses (no root: real-time policies, negative nice values, cgroups) is left out, and
//! [`Measured::notes`] says so. What would hang the machine is not begun ([`Error::Hangs`]) unless [`Options::force`]
//! is set.
#![cfg(target_os = "linux")]
// What comes from a user ends in an error, never in a panic; what cannot happen says why where it stands.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

mod calibrate;
mod cgroup;
mod check;
mod common;
mod error;
mod ftrace;
mod hogs;
mod host;
mod measured;
mod objects;
mod others;
mod processes;
mod program;
mod record;
mod run;
#[cfg(test)]
#[path = "../../../tests/skip.rs"]
mod skip;
mod stat;
mod sys;
mod work;

pub use calibrate::{
    Calibration, IdleExit, MeasuredCost, MigrationCost, Stalls, TimerSlack, calibrate, calibrate_briefly,
};
pub use error::Error;
pub use host::{Host, describe, describe_all, today};
pub use measured::{GroupMeasured, LoopMeasured, Measured, TaskMeasured};
pub use record::{
    CommandEnded, EventCost, RecordError, RecordOptions, Recorded, Snapshot, Stopped, TaskState, may_record, record,
};
pub use run::{Options, run};

/// Removes the cgroups and tracing instances that killed runs have left: what was removed. [`run`] and [`calibrate`]
/// begin with it.
fn clean() -> Vec<String> {
    let mut notes = Vec::new();
    cgroup::clean(&mut notes);
    ftrace::clean(&mut notes);
    notes
}
