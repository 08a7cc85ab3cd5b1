//! Runs a workload as real threads, in real cgroups, under this machine's kernel.
//!
//! [`run()`] creates a thread per task of a [`Workload`](vruntime_workload::program::Workload), and the workload's
//! processes. It measures CPU time, run delay, switches and migrations from `/proc`, and the lateness of sleeps. The
//! comparison shows the simulator's accuracy on this machine.
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
//! Work is computation without system calls: a loop reads the monotonic clock in user space. Gaps, in which something
//! else ran, do not count. The thread's CPU clock would update kernel accounts like a tick, and so change scheduling.
//!
//! Parts that the kernel refuses (without root: real-time policies, negative nice values, cgroups) are omitted, and
//! [`Measured::notes`] says so. A workload that could hang the machine is rejected ([`Error::Hangs`]), unless
//! [`Options::force`] is set.
#![cfg(target_os = "linux")]
// A user's mistake is an error, never a panic; a panic states why it cannot happen.
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
mod stdout;
mod sys;
mod urgent;
mod work;

pub use calibrate::{
    Calibration, IdleExit, MeasuredCost, MigrationCost, Stalls, TimerSlack, calibrate, calibrate_briefly,
};
pub use error::Error;
pub use host::{Host, describe, describe_all, today};
pub use measured::{GroupMeasured, LoopMeasured, Measured, TaskMeasured};
pub use record::{
    CommandEnded, EventCost, RecordError, RecordOptions, RecordedEvents, Snapshot, Source, Stopped, TaskState,
    may_record, record,
};
pub use run::{Options, run};
pub use stdout::stdout_was_closed;

/// Removes and returns killed runs' cgroups and tracing instances. [`run()`] and [`calibrate()`] begin with this.
fn clean() -> Vec<String> {
    let mut notes = Vec::new();
    cgroup::clean(&mut notes);
    ftrace::clean(&mut notes);
    notes
}
