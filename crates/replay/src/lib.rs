//! From a recording to programs, and to a prediction.
//!
//! A [`Recording`] is the trace of a machine. [`Replay`] makes programs and a plan of it. [`Replay::what_if`] changes
//! kernel, machine, tasks and groups. [`Replay::compare`] compares both with the recording.
//!
//! Two tasks alternate on a CPU. What if one had nice 10?
//!
//! ```
//! use vruntime_replay::recorded::rules::Rules;
//! use vruntime_replay::{Recording, Replay, Setup};
//! use vruntime_sim::plan::Overrides;
//!
//! let switch = |ms: u32, prev: (&str, u32), next: (&str, u32)| {
//!     format!(
//!         "{0}-{1} [000] d..2. {2}.{3:03}000: sched_switch: prev_comm={0} prev_pid={1} prev_prio=120 prev_state=R ==> \
//!          next_comm={4} next_pid={5} next_prio=120\n",
//!         prev.0, prev.1, ms / 1000, ms % 1000, next.0, next.1,
//!     )
//! };
//! let (web, batch) = (("web", 7), ("batch", 8));
//! let trace: String = (0..1000).map(|ms| if ms % 2 == 0 { switch(ms, web, batch) } else { switch(ms, batch, web) }).collect();
//!
//! let recording = Recording::from_bytes("trace.txt", trace.as_bytes(), &Default::default())?;
//! let replay = Replay::new(&recording, &Setup::default())?;
//! let replayed = replay.run()?;
//!
//! let mut rules = Rules::default();
//! rules.add("comm=batch: nice=10")?;
//! let older = Overrides { kernel: Some("6.1".to_owned()), ..Overrides::default() };
//! let what_if = replay.what_if(replay.plan(&older)?, &rules, &[])?;
//! let predicted = replay.run_what_if(&what_if, &rules)?;
//!
//! let check = replay.compare(replayed.ran(), Some((&what_if, predicted.ran())));
//! let web = check.tasks.iter().find(|task| task.comm == "web").unwrap();
//! let share = |cpu_ns: u64| cpu_ns as f64 / check.elapsed_ns.0 as f64;
//! assert!((share(web.replayed.cpu_ns) - share(web.recorded.cpu_ns)).abs() < 0.02);
//! assert!(share(web.what_if.unwrap().cpu_ns) > 0.85);
//! # Ok::<(), vruntime_replay::Error>(())
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`event`] | meaning of a trace's records |
//! | [`recorded`] | from events to programs |
//! | [`recorded::rules`] | rules that change tasks and groups |
//! | [`plat_info`] | LISA's descriptions of machines |

#![forbid(unsafe_code)]
// Input from users leads to errors, never to panics. Impossible cases state the reason in place.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

mod autogroups;
mod check;
mod distance;
mod error;
pub mod event;
mod guess;
mod identities;
pub mod plat_info;
pub mod recorded;
mod recording;
mod replay;
mod source;
mod tally;
#[cfg(test)]
mod tests;

pub use check::{Ran, compare};
pub use error::Error;
pub use guess::{Choice, Guess, Tried};
pub use identities::identities;
pub use recording::{ReadOptions, Reader, Recording, Substitute};
pub use replay::{LeftOut, Replay, Run, Runner, Setup, WhatIf, fit, refused};
pub use tally::{Tally, TaskTotals};
