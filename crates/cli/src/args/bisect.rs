//! Options of `vruntime bisect`.

use std::path::PathBuf;

use clap::Args;

use super::number;
use super::shared::Model;

#[derive(Debug, Args)]
pub(crate) struct Bisect {
    /// An rt-app file (JSON), a scenario (TOML), an example by its name, or a recorded trace. Without it,
    /// --from and --to are scenarios
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The kernel to start from; without FILE, the scenario to start from
    #[arg(long, value_name = "KERNEL|FILE")]
    pub(crate) from: String,
    /// The kernel, or scenario, whose difference is explained
    #[arg(long, value_name = "KERNEL|FILE")]
    pub(crate) to: String,
    /// The figure that moved, such as 'late_p99(web/worker)' or 'share(/app)' [default: what stands out most]
    #[arg(long, value_name = "METRIC")]
    pub(crate) metric: Option<String>,
    /// The machine, such as "pack:2 core:4" or 16 (default: the file's, else 8)
    #[arg(long, value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
    /// Length of each run, such as 5s, 200ms (default: the file's, else until all tasks have ended)
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_length, allow_hyphen_values = true)]
    pub(crate) duration: Option<u64>,
    /// Run each combination with N consecutive seeds
    #[arg(long, value_name = "N", default_value = "4", value_parser = number(1..=100u16), allow_negative_numbers = true)]
    pub(crate) seeds: u16,
    /// End the search after N million simulated events, and print what is known by then [default: 1000; of a trace 300]
    #[arg(long, value_name = "N", value_parser = number(1..=1_000_000u32), allow_negative_numbers = true)]
    pub(crate) budget: Option<u32>,
    /// Of a trace: the kernel of the recorded machine [default: the trace's, or the nearest supported; else 6.18]
    #[arg(long, value_name = "KERNEL", requires = "file")]
    pub(crate) recorded_kernel: Option<String>,
    /// Of a trace: the task groups of the recorded machine, written by a script (docs/replay.md)
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) cgroups: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: Model,
    /// Write a page with a chart and tables, for a browser
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}
