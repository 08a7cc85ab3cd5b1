//! What several commands can be told.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use vruntime_sched::kernels::negative;
use vruntime_sim::Preempt;

use super::number;

/// What is simulated, besides the kernel and the machine.
#[derive(Clone, Debug, Default, Args)]
#[allow(clippy::struct_excessive_bools)] // switches of the command line
pub(crate) struct Model {
    /// Seed of the (first) run; 0 shifts neither starts nor ticks (default: the file's, else 1)
    #[arg(long, value_name = "S", value_parser = number(0..=u64::MAX), allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Scheduler ticks a second (default: the file's, or what the ticks of a trace show, else 250)
    #[arg(long, value_name = "HZ", value_parser = number(1..=10_000u32), allow_negative_numbers = true)]
    pub(crate) hz: Option<u32>,
    /// Preemption model, which says where tasks are preempted in system calls (default: the file's, else voluntary)
    #[arg(long, value_name = "MODEL")]
    pub(crate) preempt: Option<PreemptName>,
    /// What switches, interrupts and system calls take: default, zero, vm or emulated (default: the file's, else
    /// default)
    #[arg(long, value_name = "PROFILE")]
    pub(crate) costs: Option<String>,
    /// Set a tunable of the kernel or a single cost by its name; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) set: Vec<(String, u64)>,
    /// Switch a scheduler feature or a behaviour (`vruntime kernels --behaviours`): NAME or +NAME on, NO_NAME or -NAME
    /// off; can be repeated
    #[arg(long, value_name = "FEATURE", allow_hyphen_values = true)]
    pub(crate) feature: Vec<String>,
    /// Tasks are there before and sleep until the run begins, as those of `vruntime real` and of recordings; otherwise
    /// they are forked then
    #[arg(long)]
    pub(crate) gate: bool,
    /// Tasks are forked when they start, also those of a recording and of a scenario that says `gate`
    #[arg(long, conflicts_with = "gate")]
    pub(crate) no_gate: bool,
    /// Put the tasks of the root group into autogroups, one a session
    #[arg(long)]
    pub(crate) autogroup: bool,
    /// Put nobody into autogroups, also where the file, the recording or the machine says so
    #[arg(long, conflicts_with = "autogroup")]
    pub(crate) no_autogroup: bool,
    /// Schedule real-time tasks by groups, as kernels built with CONFIG_RT_GROUP_SCHED do
    #[arg(long)]
    pub(crate) rt_group_sched: bool,
    /// Have the scheduler count switches away from the tasks of each group; `nr_switches_counted` with --json
    #[arg(long)]
    pub(crate) group_switches: bool,
    /// Response time to meet: tables and JSON tell the share of rounds above it
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_length, allow_hyphen_values = true)]
    pub(crate) target: Option<u64>,
    /// So many tasks may be alive at a time, besides as many as the workload itself has: a fork beyond that ends the
    /// run with an error (default: the file's, else 262144)
    #[arg(long, value_name = "N", value_parser = number(1..=1_usize << 22), allow_negative_numbers = true)]
    pub(crate) threads_max: Option<usize>,
}

/// How many runs there are.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Seeds {
    /// Run so many times, each with the next seed, and tell the spread
    #[arg(long, value_name = "N", default_value = "1", value_parser = number(1..=1000u16), allow_negative_numbers = true)]
    pub(crate) repeat: u16,
}

impl Seeds {
    /// Returns the seed of each run, from this one on.
    pub(crate) fn from(self, first: u64) -> impl Iterator<Item = u64> {
        (0..self.repeat).map(move |index| first.wrapping_add(u64::from(index)))
    }
}

/// Everything that decides how a workload is run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Options {
    /// Length of the run, such as 10min, 5s, 200ms; at most 1000000s (default: the file's, else until all tasks have
    /// ended)
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_length, allow_hyphen_values = true)]
    pub(crate) duration: Option<u64>,
    #[command(flatten)]
    pub(crate) seeds: Seeds,
    #[command(flatten)]
    pub(crate) model: Model,
    /// Leave results, traces and digests in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Take whatever the input would be warned of for an error
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Files that people and their tools read.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Reports {
    /// Write a page with charts and tables, to open in a browser or send to somebody
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tables: Tables,
}

/// Files that programs read.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Tables {
    /// Leave every table in this folder, a file each
    #[arg(id = "tables", long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// With --tables: what to write them as
    #[arg(long, value_name = "FORMAT", default_value = "csv", requires = "tables")]
    pub(crate) format: TableFormat,
}

/// What tables are written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// Comma-separated, a head of names
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
    /// Only at the end of a call
    None,
    /// Also at some points inside long calls
    Voluntary,
    /// Anywhere, but for a fair task inside a call only from the next tick on
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

fn setting(text: &str) -> Result<(String, u64), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| "expected NAME=VALUE, such as base_slice_ns=3000000".to_owned())?;
    let (name, value) = (name.trim(), value.trim().replace('_', ""));
    let negative = || value.parse().ok().and_then(|value| negative(name, value));
    let wrong = || format!("`{value}` is no whole number of nanoseconds (or a count)");
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
        assert!(setting("base_slice_ns=3ms").unwrap_err().contains("no whole number"));
        assert!(setting("x=-1").is_err());
        assert_eq!(setting("sched_rt_runtime_us=-1"), Ok(("sched_rt_runtime_us".to_owned(), u64::MAX)));
        assert!(setting("sched_rt_runtime_us=-2").is_err());
    }
}
