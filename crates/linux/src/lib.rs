//! Runs a workload as real threads, in real cgroups, under this machine's own kernel.
//!
//! [`run`] takes the [`Workload`](vruntime_workload::program::Workload) of the simulated machine. It makes a thread of
//! every task, in processes of their own if the workload has these. It measures CPU time, run delay, switches and
//! migrations from `/proc`, and the delay of sleeps. The comparison shows how accurate the simulator is on this
//! machine.
//!
//! ```
//! use vruntime_linux::{Options, run};
//! use vruntime_workload::program::{Op, Phase, Task, Workload};
//!
//! // A task that computes for 1 ms and ends.
//! let task = Task::new("short", [Phase::times(1, [Op::Run { work: 1_000_000 }])]);
//! let workload = Workload { tasks: vec![task], ..Workload::default() };
//! let measured = run(&workload, &Options::default(), &|| false)?;
//! assert_eq!(measured.tasks[0].name, "short");
//! assert!(measured.elapsed_ns >= 1_000_000);
//! # Ok::<(), vruntime_linux::Error>(())
//! ```
//!
//! Work is computation without system calls, in a loop that reads the monotonic clock in user space. Gaps in which
//! something else ran do not count. The loop does not read the thread's CPU clock, since that updates the kernel's
//! accounts like a tick, and changes the scheduling.
//!
//! What the kernel rejects (without root: real-time policies, negative nice values, cgroups) is left out, and
//! [`Measured::notes`] says so. A workload that could hang the machine is rejected ([`Error::Hangs`]), unless
//! [`Options::force`] is set.
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
