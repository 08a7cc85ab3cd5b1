//! Workloads: programs of tasks, and the readers of the files that describe them.
//!
//! | format | module |
//! |---|---|
//! | rt-app files (JSON) | [`rtapp`] |
//! | scenario files (TOML): a workload, its machine and its kernel | [`scenario`] |
//! | recordings of real kernels: a workload with its measurements | [`recording`] |
//! | task groups of a machine, beside a trace | [`cgroups`] |
//! | benchmarks, by their command lines | [`model`] |
//! | background tasks of a machine | [`resident`] |
//!
//! Each reader returns a [`program::Workload`]. A problem in a file is an [`Error`] with its place. [`check::check`]
//! finds problems of the workload itself.
//!
//! ```
//! use vruntime_workload::{check, rtapp};
//!
//! let file = br#"{ "tasks": { "web": { "instance": 2, "run": 300, "sleep": 700 } }, "global": { "duration": 1 } }"#;
//! let read = rtapp::parse("web.json", file, &rtapp::Options::default())?;
//! let names: Vec<&str> = read.workload.tasks.iter().map(|task| task.name.as_str()).collect();
//! assert_eq!(names, ["web-0", "web-1"]);
//! assert!(check::check(&read.workload, &read.source_map).is_empty());
//!
//! let wrong = rtapp::parse("web.json", br#"{ "tasks": { "web": { "run": "often" } } }"#, &rtapp::Options::default());
//! assert_eq!(wrong.unwrap_err().to_string(), "`run` is a string");
//! # Ok::<(), vruntime_workload::Error>(())
//! ```

// Input from users leads to errors, never to panics. Impossible cases state the reason in place.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

pub mod cgroups;
pub mod check;
mod error;
mod excerpt;
pub mod groups;
pub mod limit;
mod merge;
pub mod model;
mod names;
mod place;
mod plain;
pub mod policy;
pub mod program;
pub mod recording;
pub mod resident;
pub mod rtapp;
pub mod scenario;
mod suggest;
mod units;

pub use error::{Error, Severity, Source};
pub use groups::{DEFAULT_WEIGHT, MAX_GROUP_DEPTH, normalize_path};
pub use names::UniqueNames;
pub use place::SourceMap;
pub use plain::plain;
pub use suggest::{did_you_mean, limit_by_other_name, nearest};
pub use units::{parse_duration, parse_length};
