//! Workloads: what tasks do, and the languages users say it in.
//!
//! | language | module |
//! |---|---|
//! | rt-app files (JSON) | [`rtapp`] |
//! | scenario files (TOML): a workload, the machine and the kernel it runs on | [`scenario`] |
//! | recordings of real kernels: a workload and what was observed of it | [`recording`] |
//! | what a machine says of its task groups, beside a trace | [`cgroups`] |
//! | the classic benchmarks, by their command lines | [`model`] |
//!
//! What a machine does besides is a list of [`resident`]s.
//!
//! Each is translated to a [`program::Workload`]. What is wrong with a file is told as an [`Error`], with its place;
//! what is wrong with a workload itself is found by [`check::check`].

// What comes from a user ends in an error, never in a panic; what cannot happen says why where it stands.
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
