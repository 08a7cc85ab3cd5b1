//! The real-time class: SCHED_FIFO and SCHED_RR, a hundred priorities, the highest first.
//!
//! A CPU has a queue per priority, where the running task stays. A preempted task stays at the head. A task that
//! yields, or (SCHED_RR) has used up its slice, moves to the tail. The N highest tasks run on the N CPUs, by placement
//! at a wakeup, push and pull (`place`, `push_pull`, `rounds`).
//!
//! `bandwidth` limits the class's CPU time. With CONFIG_RT_GROUP_SCHED, which distributions leave off, groups have
//! arrays (`group`) and limits (`limits`).
//!
//! The core's calls are not inlined, so its verbs stay small without real-time tasks.

mod asking;
mod bandwidth;
pub(crate) mod cpupri;
mod group;
pub(crate) mod limits;
pub(crate) mod period;
pub(crate) mod place;
pub(crate) mod queue;
mod rounds;
mod share;
mod timers;
pub(crate) mod verbs;

pub(crate) use asking::ask_for_tasks;
pub use limits::{RtLimit, RtLimitError};
pub use queue::RtRq;
