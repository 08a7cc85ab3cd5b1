//! `vruntime replay`.

use std::path::PathBuf;

use clap::builder::ArgPredicate;
use clap::{Args, ValueEnum};

use super::{Model, Reports, Seeds};

/// The options that make a what-if.
const WHAT_IF: [&str; 6] = ["kernel", "machine", "map", "beside", "set", "feature"];
/// The seeds of a what-if, as of `compare`. One run does not distinguish its effect from chance.
const SEEDS: &str = "5";

// Options of all commands that simulate, in the words of a replay.
#[derive(Debug, Args)]
#[command(
    mut_arg("seed", |arg| {
        arg.help("Seed of everything random: interrupt delays, start times, phases of ticks and limits; 0: no shifts (default: 1)")
    }),
    mut_arg("repeat", |arg| {
        let what_if = WHAT_IF.map(|option| (option, ArgPredicate::IsPresent, SEEDS));
        arg.default_value_ifs(what_if)
            .help("Repeat N times with consecutive seeds, and report the spread; the programs are made once (default: 1; a what-if: 5)")
            .hide_default_value(true)
    }),
    mut_arg("hz", |arg| arg.help("Scheduler ticks per second (default: those of the trace, else 250)")),
    mut_arg("preempt", |arg| {
        arg.help("Preemption model: where system calls can be preempted (default: voluntary; 7.0+: lazy)")
    }),
    mut_arg("costs", |arg| {
        arg.help("Costs of switches, interrupts and system calls: default, zero, vm or emulated (default: default)")
    }),
    mut_arg("set", |arg| {
        arg.help("What-if: set a tunable of the kernel or a cost, such as base_slice_ns=3000000; can be repeated")
    }),
    mut_arg("feature", |arg| {
        arg.help(
            "What-if: switch a scheduler feature or a behaviour (`vruntime kernels --behaviours`) on (NAME or +NAME), or off \
             (NO_NAME or -NAME); can be repeated",
        )
    }),
    mut_arg("gate", |arg| {
        arg.help("Create all tasks before the run, and let them sleep until their recorded start; otherwise each is forked then")
    }),
    mut_arg("no_gate", |arg| arg.help("Fork each task at its recorded start, as without --gate")),
    mut_arg("autogroup", |arg| {
        arg.help("Put the tasks of the root group into autogroups, one for each session (default: as in --cgroups)")
    }),
    mut_arg("threads_max", |arg| {
        arg.help(
            "Tasks alive at one time, besides those of the trace; a fork beyond that is an error (default: 262144)",
        )
    }),
    mut_arg("no_autogroup", |arg| arg.help("Use no autogroups, also if --cgroups has them"))
)]
#[allow(clippy::struct_excessive_bools)] // switches of the command line
pub(crate) struct Replay {
    /// The trace, or - for standard input
    #[arg(value_name = "TRACE")]
    pub(crate) file: PathBuf,
    /// The kernel of the recorded machine (default: the trace's, or the nearest supported; else 6.18)
    #[arg(long, value_name = "KERNEL")]
    pub(crate) recorded_kernel: Option<String>,
    /// The recorded machine, if its CPUs differ: "core:6(capacity=446,1024,1024,446,446,446)", or LISA's
    /// plat_info.yml
    #[arg(long, value_name = "MACHINE", allow_negative_numbers = true, hide_short_help = true)]
    pub(crate) recorded_machine: Option<String>,
    /// Subtract this time from the work of tasks for each recorded event (default: the cost that `vruntime record`
    /// measured, else 0ns)
    #[arg(long, value_name = "TIME", value_parser = event_cost)]
    pub(crate) event_cost: Option<u64>,
    /// The task groups of the recorded machine, written by a script (docs/replay.md). Files of `vruntime record`
    /// have them
    #[arg(long, value_name = "FILE")]
    pub(crate) cgroups: Option<PathBuf>,
    /// Replay as recorded only, without a what-if
    #[arg(long, conflicts_with_all = WHAT_IF)]
    pub(crate) as_recorded: bool,
    /// What-if: this kernel, such as 6.1 or 6.12+NO_RUN_TO_PARITY
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Option<String>,
    /// What-if: this machine, such as "pack:2 core:4", 16 or laptop
    #[arg(long, value_name = "MACHINE", allow_negative_numbers = true)]
    pub(crate) machine: Option<String>,
    /// What-if: changed tasks or groups: 'MATCH: CHANGE' or a file of rules (TOML); see docs/replay.md; can be
    /// repeated
    #[arg(long, value_name = "RULE|FILE")]
    pub(crate) map: Vec<String>,
    /// What-if: run this workload beside it (rt-app JSON, a scenario or an example); can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) beside: Vec<PathBuf>,
    /// The end of tasks' sleeps
    #[arg(long, value_name = "HOW", default_value = "inferred", hide_short_help = true)]
    pub(crate) wakeups: Wakeups,
    /// Read only this part of the trace, such as 5s; at most 1000000s
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_length, allow_hyphen_values = true)]
    pub(crate) duration: Option<u64>,
    #[command(flatten)]
    pub(crate) seeds: Seeds,
    #[command(flatten)]
    pub(crate) model: Model,
    /// Write traces of the replay and of the what-if to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Show every task, and not only the 15 largest
    #[arg(long)]
    pub(crate) all: bool,
    /// Describe in detail how the replay differs from the recording
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reports: Reports,
}

/// The longest cost of an event, nanoseconds.
pub(crate) const MAX_EVENT_COST: u64 = 1_000_000;

fn event_cost(text: &str) -> Result<u64, String> {
    let ns = vruntime_workload::parse_duration(text)?;
    if ns > MAX_EVENT_COST {
        return Err("expected at most 1ms, such as 300ns".to_owned());
    }
    Ok(ns)
}

/// How the sleeps of a trace end in its replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wakeups {
    /// The inferred cause: a clock, a length, another task
    Inferred,
    /// The recorded time, whatever the cause was
    Recorded,
}
