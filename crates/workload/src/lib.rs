//! Workloads: what tasks do, and the languages users say it in.

pub mod program;
