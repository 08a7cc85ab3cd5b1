//! Options of several commands.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use vruntime_sched::kernels::negative;
use vruntime_sim::Preempt;

use super::number;

/// Settings of the simulation, besides the kernel and the machine.
#[derive(Clone, Debug, Default, Args)]
#[allow(clippy::struct_excessive_bools)] // switches of the command line
pub(crate) struct Model {
    /// Seed of everything random: interrupt delays, start times, phases of ticks and limits; 0: no shifts (default: the
    /// file's, else 1)
    #[arg(long, value_name = "S", value_parser = number(0..=u64::MAX), allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Scheduler ticks per second (default: the file's, or those of the trace, else 250)
    #[arg(long, value_name = "HZ", value_parser = number(1..=10_000u32), allow_negative_numbers = true, hide_short_help = true)]
    pub(crate) hz: Option<u32>,
    /// Preemption model: where system calls can be preempted (default: the file's, else voluntary; 7.0+:
    /// lazy)
    #[arg(long, value_name = "MODEL", hide_short_help = true)]
    pub(crate) preempt: Option<PreemptName>,
    /// Costs of switches, interrupts and system calls: default, zero, vm or emulated (default: the file's, else
    /// default)
    #[arg(long, value_name = "PROFILE")]
    pub(crate) costs: Option<String>,
    /// Set a tunable of the kernel or a cost, such as base_slice_ns=3000000; `vruntime kernels --features KERNEL` lists
    /// tunables, docs/costs.md costs; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) set: Vec<(String, u64)>,
    /// Switch a scheduler feature or a behaviour (`vruntime kernels --behaviours`) on (NAME or +NAME), or off (NO_NAME
    /// or -NAME); can be repeated
    #[arg(long, value_name = "FEATURE", allow_hyphen_values = true)]
    pub(crate) feature: Vec<String>,
    /// Create all tasks before the run, and let them sleep until their start time; otherwise each is forked then
    #[arg(long, hide_short_help = true)]
    pub(crate) gate: bool,
    /// Fork each task at its start time, also if the recording or scenario has `gate`
    #[arg(long, conflicts_with = "gate", hide_short_help = true)]
    pub(crate) no_gate: bool,
    /// Put the tasks of the root group into autogroups, one for each session
    #[arg(long, hide_short_help = true)]
    pub(crate) autogroup: bool,
    /// Use no autogroups, also if the file, the recording or the machine has them
    #[arg(long, conflicts_with = "autogroup", hide_short_help = true)]
    pub(crate) no_autogroup: bool,
    /// Schedule real-time tasks by groups, as kernels with CONFIG_RT_GROUP_SCHED
    #[arg(long, hide_short_help = true)]
    pub(crate) rt_group_sched: bool,
    /// Count switches of each group in the scheduler; `nr_switches_counted` with --json
    #[arg(long, hide_short_help = true)]
    pub(crate) group_switches: bool,
    /// Response time to meet: tables and JSON show the share of rounds above it
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_length, allow_hyphen_values = true)]
    pub(crate) target: Option<u64>,
    /// Tasks alive at one time, besides those of the workload; a fork beyond that is an error (default: the
    /// file's, else 262144)
    #[arg(long, value_name = "N", value_parser = number(1..=1_usize << 22), allow_negative_numbers = true, hide_short_help = true)]
    pub(crate) threads_max: Option<usize>,
}

/// The number of runs.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Seeds {
    /// Repeat the run N times with consecutive seeds, and report the spread
    #[arg(long, value_name = "N", default_value = "1", value_parser = number(1..=1000u16), allow_negative_numbers = true)]
    pub(crate) repeat: u16,
}

impl Seeds {
    /// Returns the seed of each run.
    pub(crate) fn from(self, first: u64) -> impl Iterator<Item = u64> {
        (0..self.repeat).map(move |index| first.wrapping_add(u64::from(index)))
    }
}

/// Options of a workload's run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Options {
    /// Length of the run, such as 10min, 5s, 200ms; at most 1000000s (default: the file's, else until all tasks
    /// have ended)
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_length, allow_hyphen_values = true)]
    pub(crate) duration: Option<u64>,
    #[command(flatten)]
    pub(crate) seeds: Seeds,
    #[command(flatten)]
    pub(crate) model: Model,
    /// Write results, traces and digests to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Treat warnings about the input as errors
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Options for pages and tables.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Reports {
    /// Write a page with charts and tables, for a browser
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tables: Tables,
}

/// Options for tables.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Tables {
    /// Write every table to a file of its own in this folder
    #[arg(id = "tables", long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// With --tables: the format of the files
    #[arg(long, value_name = "FORMAT", default_value = "csv", requires = "tables")]
    pub(crate) format: TableFormat,
}

/// The format of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// Comma-separated, with a row of names
    #[default]
    Csv,
    /// An array of objects
    Json,
    /// Apache Parquet
    #[cfg(feature = "parquet")]
    Parquet,
}

/// The kernel's preemption models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreemptName {
    /// At the end of a call only
    None,
    /// Also at some points of long calls
    Voluntary,
    /// Anywhere, but inside a call for a fair task only from the next tick on
    Lazy,
    /// Anywhere
    Full,
}

impl From<PreemptName> for Preempt {
    fn from(name: PreemptName) -> Self {
        match name {
            PreemptName::None => Self::None,
            PreemptName::Voluntary => Self::Voluntary,
            PreemptName::Lazy => Self::Lazy,
            PreemptName::Full => Self::Full,
        }
    }
}

pub(crate) fn setting(text: &str) -> Result<(String, u64), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| "expected NAME=VALUE, such as base_slice_ns=3000000".to_owned())?;
    let (name, value) = (name.trim(), value.trim().replace('_', ""));
    let negative = || value.parse().ok().and_then(|value| negative(name, value));
    let wrong = || format!("`{value}` is not a whole number (nanoseconds, or a count)");
    let value = value.parse().ok().or_else(negative).ok_or_else(wrong)?;
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_a_name_and_a_number() {
        assert_eq!(setting("base_slice_ns=3_000_000"), Ok(("base_slice_ns".to_owned(), 3_000_000)));
        assert!(setting("base_slice_ns").unwrap_err().contains("NAME=VALUE"));
        assert!(setting("base_slice_ns=3ms").unwrap_err().contains("not a whole number"));
        assert!(setting("x=-1").is_err());
        assert_eq!(setting("sched_rt_runtime_us=-1"), Ok(("sched_rt_runtime_us".to_owned(), u64::MAX)));
        assert!(setting("sched_rt_runtime_us=-2").is_err());
    }
}
