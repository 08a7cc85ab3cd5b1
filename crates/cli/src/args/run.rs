//! `vruntime run` and `vruntime compare`.

use std::path::PathBuf;

use clap::Args;

use super::{Options, Reports};

#[derive(Debug, Args)]
#[command(mut_arg("hz", |arg| arg.help("Scheduler ticks per second (default: the file's, else 250)")))]
pub(crate) struct Run {
    /// An rt-app file (JSON), a scenario (TOML), an example by name (`vruntime example`), or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The kernel, such as 6.12, 6.12+NO_RUN_TO_PARITY or the output of `uname -r`; see `vruntime kernels`
    /// (default: the file's, else 6.12)
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Option<String>,
    /// The machine, such as "pack:2 core:4", 16, server or lstopo.xml; see `vruntime machines` (default: the file's,
    /// else 8)
    #[arg(long, value_name = "MACHINE", allow_negative_numbers = true)]
    pub(crate) machine: Option<String>,
    /// Change tasks or groups: 'MATCH: CHANGE', such as 'cgroup=/app: weight=200', or a file of rules (TOML); see
    /// docs/replay.md; can be repeated
    #[arg(long, value_name = "RULE|FILE")]
    pub(crate) map: Vec<String>,
    /// Report CPUs that stay idle while tasks wait elsewhere; the exit status is then 2
    #[arg(long)]
    pub(crate) detect: bool,
    /// Analyse the events like `vruntime trace analyse`: latency, antagonists, ...; separated by commas
    #[arg(long, value_name = "ANALYSIS", value_delimiter = ',', value_parser = crate::commands::analysis_word)]
    pub(crate) analyse: Vec<crate::commands::Asked>,
    /// Print load averages, pressure, utilisation and run queues at intervals of this length, such as 5s
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_length, allow_hyphen_values = true)]
    pub(crate) every: Option<u64>,
    /// Write a log of each task to this folder, in rt-app's format
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) rtapp_log: Option<PathBuf>,
    /// Print /sys/kernel/debug/sched/debug and /proc/schedstat at this time, such as 1.5s
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_duration, allow_hyphen_values = true, conflicts_with_all = ["json", "repeat"])]
    pub(crate) debug_at: Option<u64>,
    /// With --debug-at: print /proc/PID/sched of this task, or of all its instances; can be repeated
    #[arg(long, value_name = "NAME", requires = "debug_at", hide_short_help = true)]
    pub(crate) task: Vec<String>,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) reports: Reports,
}

#[derive(Clone, Debug, Args)]
#[command(mut_arg("repeat", |arg| {
    arg.default_value("5").help("Run each combination N times with consecutive seeds, and report the spread")
}))]
pub(crate) struct Compare {
    /// rt-app files (JSON), scenarios (TOML), examples by name (`vruntime example`), traces of real machines, or
    /// results of `run --json` or `run --out`
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// A kernel, such as 6.12 or 6.12+NO_RUN_TO_PARITY; give several to compare them (default: the files', else 6.12)
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Vec<String>,
    /// A machine, such as "pack:2 core:4", 16, server or lstopo.xml; give several to compare them (default: the files',
    /// else 8)
    #[arg(long, value_name = "MACHINE", allow_negative_numbers = true)]
    pub(crate) machine: Vec<String>,
    /// Also run each file with changed tasks or groups: 'MATCH: CHANGE' ('cgroup=/app:weight=200'), or a file of rules
    /// (TOML); see docs/replay.md; can be repeated
    #[arg(long, value_name = "RULE|FILE")]
    pub(crate) map: Vec<String>,
    /// Run each file with every value: 'cgroup=/app: max=500m,1,max', 'kernel=6.1,6.12', 'machine=4,8',
    /// 'preempt=none,full', 'hz=250,1000', 'feature=A,NO_A' or 'base_slice_ns=700000,3000000'; can be repeated for all
    /// combinations
    #[arg(long, value_name = "RULE|NAME=VALUES")]
    pub(crate) vary: Vec<String>,
    /// The kernel of the recorded machine, for the replay as recorded (default: the trace's, else 6.18)
    #[arg(long, value_name = "KERNEL", hide_short_help = true)]
    pub(crate) recorded_kernel: Option<String>,
    /// The task groups of the recorded machine (docs/replay.md); once for all traces, or once for each
    #[arg(long, value_name = "FILE")]
    pub(crate) cgroups: Vec<PathBuf>,
    /// Show changes within the spread, or too small to matter, too
    #[arg(long)]
    pub(crate) all: bool,
    /// Run only the seed with this index, and add whole results to the JSON, for `compare(executor=)` in Python
    #[arg(long, value_name = "INDEX", hide = true, requires = "json", conflicts_with_all = ["out", "html", "tables"])]
    pub(crate) part: Option<u16>,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) reports: Reports,
}
