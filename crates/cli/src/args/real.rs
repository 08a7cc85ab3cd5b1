//! `vruntime calibrate` and `vruntime real`.

use std::path::PathBuf;

use clap::Args;

use super::number;

#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// Write the machine to this file [default: ~/.config/vruntime/machine.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // switches of the command line
pub(crate) struct Real {
    /// An rt-app file (JSON), a scenario (TOML), an example by name (`vruntime example`), or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Stop after this time, such as 5s or 500ms; at most 1000000s (default: the file's, else until all tasks
    /// have ended)
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_length, allow_hyphen_values = true)]
    pub(crate) duration: Option<u64>,
    /// Repeat the run N times, and report the spread
    #[arg(long, value_name = "N", default_value = "1", value_parser = number(1..=1000u16), allow_negative_numbers = true)]
    pub(crate) repeat: u16,
    /// Write results.json and the kernel's trace.txt of the first run to this folder; with groups also cgroups.txt
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write a log of each task of the first run to this folder, in rt-app's format
    #[arg(long, value_name = "DIR")]
    pub(crate) rtapp_log: Option<PathBuf>,
    /// Do not record the run: with --out, write neither trace.txt nor cgroups.txt
    #[arg(long)]
    pub(crate) no_trace: bool,
    /// Start even a workload that may hang the machine
    #[arg(long)]
    pub(crate) force: bool,
    /// Treat warnings about the input as errors
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print the results as JSON, in the form of the recordings
    #[arg(long)]
    pub(crate) json: bool,
}
