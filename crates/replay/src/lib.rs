//! Replays of recorded traces: from what the tasks of a machine did, to programs that can be run under another
//! scheduler.
//!
//! [`recorded`] takes the events of a trace and makes a [`Workload`](vruntime_workload::program::Workload);
//! [`recorded::rules`] changes it for a what-if. `vruntime_sim` runs it.

#![forbid(unsafe_code)]
// What comes from a user ends in an error, never in a panic; what cannot happen says why where it stands.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

pub mod recorded;
