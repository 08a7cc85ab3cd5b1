//! `vruntime replay`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Model, Reports, Seeds};

// What all commands that simulate can be told is said here of a trace.
#[derive(Debug, Args)]
#[command(
    mut_arg("seed", |arg| arg.help("Seed of the (first) replay and what-if; 0 shifts neither starts nor ticks (default: 1)")),
    mut_arg("repeat", |arg| {
        arg.help("Run so many times, each with the next seed, and tell the spread; the programs are made once")
    }),
    mut_arg("hz", |arg| arg.help("Scheduler ticks a second (default: as many as the trace shows, else 250)")),
    mut_arg("preempt", |arg| {
        arg.help("Preemption model, which says where tasks are preempted in system calls (default: voluntary)")
    }),
    mut_arg("costs", |arg| {
        arg.help("What switches, interrupts and system calls take: default, zero, vm or emulated (default: default)")
    }),
    mut_arg("set", |arg| {
        arg.help("What if a tunable of the kernel or a single cost, by its name, had this value; can be repeated")
    }),
    mut_arg("feature", |arg| {
        arg.help(
            "What if a scheduler feature or a behaviour (`vruntime kernels --behaviours`) were on (NAME or +NAME) or off (NO_NAME or \
             -NAME); can be repeated",
        )
    }),
    mut_arg("gate", |arg| {
        arg.help("Tasks are there before and sleep until they begin in the trace; otherwise they are forked then")
    }),
    mut_arg("no_gate", |arg| arg.help("Tasks are forked when they begin in the trace, as they are without --gate")),
    mut_arg("autogroup", |arg| {
        arg.help("Put the tasks of the root group into autogroups, one a session (default: as --cgroups says)")
    }),
    mut_arg("threads_max", |arg| {
        arg.help(
            "So many tasks may be alive at a time, besides as many as the trace has: a fork beyond that ends the replay \
             with an error (default: 262144)",
        )
    }),
    mut_arg("no_autogroup", |arg| arg.help("Put nobody into autogroups, also where --cgroups says so"))
)]
#[allow(clippy::struct_excessive_bools)] // switches of the command line
pub(crate) struct Replay {
    /// The trace, or - for standard input
    #[arg(value_name = "TRACE")]
    pub(crate) file: PathBuf,
    /// The kernel it was recorded under (default: what the trace says, or the nearest on offer; 6.18 if it says
    /// nothing)
    #[arg(long, value_name = "KERNEL")]
    pub(crate) recorded_kernel: Option<String>,
    /// The machine it was recorded on, if its CPUs are not all alike: such as
    /// "core:6(capacity=446,1024,1024,446,446,446)", or LISA's plat_info.yml
    #[arg(long, value_name = "MACHINE", allow_negative_numbers = true)]
    pub(crate) recorded_machine: Option<String>,
    /// The task groups of the machine it was recorded on: which thread was in which, with what weights and limits, as a
    /// line of shell writes it there (docs/replay.md). A file of `vruntime record` has them
    #[arg(long, value_name = "FILE")]
    pub(crate) cgroups: Option<PathBuf>,
    /// Only replay as recorded, and check that: no what-if
    #[arg(long, conflicts_with_all = ["kernel", "machine", "map", "beside", "set", "feature"])]
    pub(crate) as_recorded: bool,
    /// What if this were the kernel, such as 6.1 or 6.12+NO_RUN_TO_PARITY
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Option<String>,
    /// What if this were the machine, such as "pack:2 core:4", 16 or laptop
    #[arg(long, value_name = "MACHINE", allow_negative_numbers = true)]
    pub(crate) machine: Option<String>,
    /// What if these tasks or groups were something else: 'WHO: WHAT' or a file of rules (TOML), see docs/replay.md;
    /// can be repeated
    #[arg(long, value_name = "RULE|FILE")]
    pub(crate) map: Vec<String>,
    /// What if this workload ran beside it (rt-app JSON, a scenario or an example); can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) beside: Vec<PathBuf>,
    /// What ends the sleeps of tasks
    #[arg(long, value_name = "HOW", default_value = "inferred")]
    pub(crate) wakeups: Wakeups,
    /// Read only so much of the trace, such as 5s; at most 1000000s
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_length, allow_hyphen_values = true)]
    pub(crate) duration: Option<u64>,
    #[command(flatten)]
    pub(crate) seeds: Seeds,
    #[command(flatten)]
    pub(crate) model: Model,
    /// Leave traces of the replay and of the what-if in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Show every task, not only the 15 largest
    #[arg(long)]
    pub(crate) all: bool,
    /// Say in detail how the replay differs from the recording
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reports: Reports,
}

/// How the sleeps of a trace end in its replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wakeups {
    /// What seems to have ended them in the trace: a clock, a time since they began, another task
    Inferred,
    /// The time at which they ended in the trace, whatever the reason was
    Recorded,
}
