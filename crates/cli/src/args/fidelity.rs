//! `vruntime fidelity`.

use std::path::PathBuf;

use clap::Args;
#[cfg(target_os = "linux")]
use clap::ValueEnum;

use super::{Reports, number};

/// How much is recorded.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// One scenario of each kind, three runs of 3 s: two minutes
    Quick,
    /// All, five runs of 8 s: a quarter of an hour
    Full,
}

#[derive(Debug, Args)]
pub(crate) struct Fidelity {
    /// A folder with a folder of recordings for each kernel (default: the embedded ones)
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Only recordings of this kernel
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Option<String>,
    /// Only scenarios whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) scenario: Option<String>,
    /// Run the scenarios that fit this machine under its own kernel, write recordings to this folder, and compare
    /// with them
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// With --record: the number and length of the runs
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "SUITE", default_value = "quick", requires = "record")]
    pub(crate) suite: Suite,
    /// With --record: run this file and not the suite, an rt-app file or one in the form of a recording; can be
    /// repeated
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "FILE", requires = "record", conflicts_with = "scenario")]
    pub(crate) with: Vec<PathBuf>,
    /// Compare with the recordings of the same scenarios in this folder, without simulating: how well does a
    /// machine agree with itself?
    #[arg(long, value_name = "DIR", conflicts_with_all = ["costs", "repeat", "seed"])]
    pub(crate) against: Option<PathBuf>,
    /// Simulate with these costs: a profile, a file of `vruntime calibrate`, or host (default: those of the kind
    /// of machine)
    #[arg(long, value_name = "COSTS")]
    pub(crate) costs: Option<String>,
    /// Simulate N runs with consecutive seeds, and judge the median
    #[arg(long, value_name = "N", default_value = "5", value_parser = number(1..=1000u16), allow_negative_numbers = true)]
    pub(crate) repeat: u16,
    /// Seed of the first run
    #[arg(long, value_name = "S", default_value = "1", value_parser = number(0..=u64::MAX), allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Show only cells outside their tolerance
    #[arg(long)]
    pub(crate) misses: bool,
    /// Print an array of {kernel, scenario, class, metric, unit, recorded, simulated, inside}; with --against `again`
    /// instead of `simulated`
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reports: Reports,
}
