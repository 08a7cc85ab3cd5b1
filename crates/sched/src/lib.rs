//! The Linux CPU scheduler as a library: classes, task groups, load balancing and statistics, with the behaviour of
//! `kernel/sched`, written from its documented behaviour in safe Rust.
//!
//! # Who owns what
//!
//! An [`Rq`] owns everything about one CPU and the tasks on it; a task moves between run queues by value.
//! What other CPUs may read without asking is published as atomics in [`Shared`]. The verbs (wake,
//! schedule, tick, balance, ...) live on [`Scheduler`], a view borrowed for one call that reaches
//! run queues through [`Rqs`]: a plain `Vec` in a simulator, one lock a CPU in a threaded host.
//!
//! # What a host gives and gets
//!
//! The host calls in with the time and what happened. The scheduler calls out through [`Host`]:
//! reschedule that CPU, arm that timer, here is an [event](event::Event). Nothing else passes the wall: no clock, no
//! thread, no I/O, no randomness.
#![no_std]
#![forbid(unsafe_code)]
// What a host may get wrong ends in an error; what cannot happen says why where it stands.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

extern crate alloc;

pub mod arena;
pub mod balance;
pub mod class;
pub mod clock;
pub mod config;
pub mod cpufreq;
pub mod cpumask;
pub mod cpuset;
pub mod debug;
pub mod energy;
pub mod event;
pub mod features;
pub mod group;
pub mod host;
pub mod ids;
pub mod invariants;
mod jiffies;
pub mod kernels;
mod limits;
mod list;
pub mod loadavg;
#[cfg(all(loom, test))]
mod loom_model;
pub mod policy;
pub mod rq;
pub mod scheduler;
pub mod shared;
mod sync;
pub mod task;
pub mod topology;
pub mod tunables;
pub mod uclamp;
pub mod weight;

pub use class::fair::{BandwidthStat, Limit, LimitError};
pub use cpumask::CpuMask;
pub use cpuset::{CpusetError, Partition};
pub use group::{GroupError, GroupWeight};
pub use host::{Host, Timer};
pub use kernels::{Kernel, PolicyKind, kernel, kernels};
pub use policy::Policy;
pub use rq::{Rq, Rqs};
pub use scheduler::{HotplugError, NextTask, SchedAttr, Scheduler, Waker};
pub use shared::Shared;
pub use task::{Boost, SchedPolicy, TaskAttrs};
pub use topology::{CpuPlace, Topology, TopologyError};
pub use uclamp::UclampError;
