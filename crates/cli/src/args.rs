//! The command line: what can be said, and its help.

mod trace;

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::PossibleValue;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use vruntime_sched::kernels::negative;
use vruntime_sim::Preempt;

pub(crate) use self::trace::{Trace, TraceAnalyse, TraceCommand, TraceConvert, TraceFormat, TraceInfo};
use crate::commands::Experiment;

/// The Linux CPU scheduler as a library: run, compare and trust what-ifs.
#[derive(Debug, Parser)]
#[command(
    name = "vruntime",
    version,
    max_term_width = 100,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "`vruntime help COMMAND` tells all about a command.",
    long_about = "Runs a workload on a simulated machine under the scheduler of a Linux kernel you choose, and tells \
                  what every task, task group and CPU got: CPU time, waiting, lateness, switches, migrations.\n\n\
                  Workloads are rt-app files (JSON), unchanged, or scenario files (TOML) that add a machine, a \
                  kernel and task groups with weights. The same input and seed give the same events to the \
                  nanosecond, on every machine; each run prints a digest of them.",
    after_long_help = "Examples:\n  \
        vruntime run web.json                              under 6.12 on 8 CPUs\n  \
        vruntime run web.json --kernel 6.1 --machine 'pack:2 core:4' --out out\n                                                     \
        and a trace for ui.perfetto.dev in out/\n  \
        vruntime compare web.json --kernel 6.1 --kernel 6.12 --repeat 5\n                                                     \
        what changes, and whether it is more than chance\n  \
        vruntime kernels                                   what there is to choose from\n  \
        vruntime fidelity                                  how true the simulator is to real kernels\n  \
        vruntime reproduce all                             published experiments, run again\n\n\
        Exit status: 0 if all went well, 1 if something in the input is wrong, 2 if `run --detect` found something, \
        `diff` compared traces that differ or `reproduce` did not show all it must, 130 after Ctrl-C (the run stops \
        and prints what it has).\n\n\
        Environment: NO_COLOR switches colours off; they are only ever used on a terminal."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// A mistake in the command line, with what does what was meant.
pub(crate) fn with_tip(mut error: clap::Error) -> clap::Error {
    let said = |kind: ContextKind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (option, before, usage) =
        (said(ContextKind::InvalidArg), said(ContextKind::PriorArg), said(ContextKind::Usage));
    let of_one = [" run ", " replay "].iter().any(|command| usage.contains(command));
    let several = ["--kernel ", "--machine "].iter().find(|&name| option.starts_with(name) && before == option);
    if let (clap::error::ErrorKind::ArgumentConflict, true, Some(name)) = (error.kind(), of_one, several) {
        let tip = format!("to compare several, `vruntime compare FILE {name}ONE {name}OTHER` runs each");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workload and tell what every task got
    #[command(
        long_about = "Runs a workload and tells what every class of identical tasks, every task group and every CPU \
                      got.\n\nColumns of the table: CPU %, time on a CPU, and wait %, time runnable without one (100 \
                      is one CPU all along; a class of several tasks can have more). late, how late tasks return from \
                      timed sleeps; for tasks without any, how long they wait from a wakeup until they run. \
                      switch/s, context switches a second and task. entitled %, what a group's weight entitles it to \
                      among those that compete with it. With --json the latencies are told apart.",
        after_long_help = "Examples:\n  \
            vruntime run web.json\n  \
            vruntime run web.json --kernel 6.6 --feature NO_RUN_TO_PARITY --set base_slice_ns=3000000\n  \
            vruntime run scenario.toml --machine server --duration 10s --repeat 5\n  \
            vruntime run shop.toml --map 'cgroup=/shop: max=2' --map 'batch: nice=5'\n  \
            generate-workload | vruntime run - --json > results.json\n\n\
            --out DIR leaves:\n  \
            results.json            what --json prints\n  \
            trace.perfetto-trace    open it on https://ui.perfetto.dev, or query it with trace_processor\n  \
            trace.txt               as `trace-cmd report` prints it\n  \
            digest                  a digest of all events for each seed\n\n\
            --rtapp-log DIR leaves rt-app-NAME-N.log for each task, a row a loop, as rt-app would."
    )]
    Run(Run),
    /// Run workloads under several kernels or on several machines, and tell what differs
    #[command(
        long_about = "Runs every combination of the files, kernels and machines given, and prints them side by side: \
                      what stands out, then the mean over the repeats, half their spread (±), and the change against the \
                      first, where it is beyond the spread and large enough to matter; the tasks with most CPU time come \
                      first. A ~ marks a change within the spread.\n\nA kernel can carry features \
                      and tunables of its own, so that they can be compared: 6.12+NO_RUN_TO_PARITY, \
                      6.12+base_slice_ns=3000000.",
        after_long_help = "Examples:\n  \
            vruntime compare web.json --kernel 6.1 --kernel 6.12 --repeat 5\n  \
            vruntime compare web.json --kernel 6.12 --kernel 6.12+NO_RUN_TO_PARITY\n  \
            vruntime compare web.json --machine laptop --machine server\n  \
            vruntime compare shop.toml --map 'cgroup=/shop/batch: weight=10'\n  \
            vruntime compare before.toml after.toml"
    )]
    Compare(Compare),
    /// List the kernels there are, or the features and tunables of one
    Kernels(Kernels),
    /// List example machines and how to describe your own, or draw one
    Machines(Machines),
    /// Compare the simulator with recordings of real kernels, cell by cell
    #[command(
        long_about = "Runs every recorded scenario under the kernel it was recorded on, and compares what every class \
                      of identical tasks got: CPU share, switches, migrations, wakeup latency, throttling. A cell is inside if \
                      the simulated value lies within the tolerance of the range of the recorded runs:\n\n  \
                      cpu_share            0.5 percentage points if all tasks are confined to one CPU, else 1.5\n  \
                      switches             10 % (20 % if recorded under emulation)\n  \
                      wakeup_latency_pNN   20 % or 100 us (30 % or 500 us; not judged if emulated on > 2 CPUs)\n  \
                      migrations           a factor of 2, or 10\n  \
                      nr_throttled         10 %, of each group with a limit: periods in which it was throttled\n  \
                      throttled_usec       15 %, of each group with a limit: for how long, summed over CPUs\n\n\
                      Recordings that cannot be simulated are listed first, with the reason, and not counted. The last \
                      line is `inside N of M cells`."
    )]
    Fidelity(Fidelity),
    /// Tell where two traces part, and how much of them is alike
    #[command(
        long_about = "Compares the switches, wakeups and migrations of two traces, recorded or simulated, CPU by CPU: how many events \
                      are alike, in their order, when the two part first, and what happened there in each. Times are not compared: the \
                      order of events is. Tasks are known by their names, those of one name by the order in which they appear. The exit \
                      status is 0 if all events are alike, 2 if not.",
        after_long_help = "Examples:\n  \
            vruntime diff real-out/trace.txt sim-out/trace.txt\n  \
            vruntime diff 6.1/trace.txt 6.12/trace.txt --task web-0 --cpu 1 --hunks 20"
    )]
    Diff(Diff),
    /// Tell what is in a recorded trace and whether it can be replayed, analyse it, or convert it
    #[command(arg_required_else_help = true)]
    Trace(Trace),
    /// Measure this machine for the simulator: what its kernel takes for switches, wakeups, interrupts, ticks, migrations
    #[cfg(target_os = "linux")]
    #[command(
        long_about = "Measures, in about fifteen seconds, what this machine's kernel takes for what the simulator charges, how much longer CPUs \
                      take to wake up that were idle for a while, how often CPUs that compute stand still because the host of a virtual \
                      machine runs something else, what else runs while it sleeps for five seconds, what migrations cost by \
                      working set and how late sleeps return with this process's timer slack, and reads what it \
                      tells of itself: topology and capacities, HZ, preemption model, autogroup, features. Prints it, each figure with \
                      how it was found, and leaves it in ~/.config/vruntime/machine.toml (or --out): --machine host uses that file, \
                      --machine FILE.toml any other. A machine that does something else at the same time measures that, too.",
        after_long_help = "Examples:\n  \
            vruntime calibrate\n  \
            vruntime run video.json --machine host --kernel 6.12"
    )]
    Calibrate(Calibrate),
    /// Run a workload as real threads under this machine's own kernel, and tell what it gave them
    #[cfg(target_os = "linux")]
    #[command(
        long_about = "Runs the same rt-app file or scenario as `vruntime run`, as real threads under this machine's own kernel: \
                      policies, nice values, affinities, groups with weights and limits (cgroup v2 or v1, under one parent that is \
                      removed afterwards), mutexes, barriers, pipes and timers are the kernel's. Prints what it gave each: CPU time, run \
                      delay, switches and migrations as /proc counts them, and how late sleeps returned. The file's kernel, machine and \
                      costs mean nothing here.\n\nWithout root the kernel refuses real-time policies, negative nice values and mostly \
                      groups: they are left out, and that is told. A workload that may hang the machine, real-time tasks that never \
                      sleep on every CPU while the kernel does not throttle them, is refused unless --force is given.",
        after_long_help = "Examples:\n  \
            vruntime real video.json --duration 10s\n  \
            vruntime real shop.toml --duration 10s --repeat 3 --json\n  \
            sudo vruntime real shop.toml --duration 10s --out real-out\n  \
            vruntime replay real-out/trace.txt --cgroups real-out/cgroups.txt"
    )]
    Real(Real),
    /// Run what a recorded trace did again: as it was recorded, and under another kernel or on another machine
    #[command(
        long_about = "Makes a program of every thread in a trace (what it worked between its sleeps, how it slept, who woke it) and \
                      runs all of them as recorded, to show how well that reproduces the trace: CPU time, switches and wakeup \
                      latency of each task, recorded and replayed. With --kernel, --machine, --map, --beside, --set or --feature it runs \
                      them again that way, and shows what changes; the other options hold for both.\n\nTraces are \
                      of any kind that `vruntime trace info` reads; it tells what is missing in one, and how to record it.",
        after_long_help = "Examples:\n  \
            vruntime replay trace.dat\n  \
            vruntime replay perf.data --recorded-kernel 6.12 --kernel 6.1\n  \
            vruntime replay trace.txt --costs vm --map 'batch-*: group=/batch weight=20 max=50ms/100ms'\n  \
            vruntime replay trace.txt --map rules.toml --beside noisy.json"
    )]
    Replay(Replay),
    /// Run published experiments again, and print their tables with ours beside them
    #[command(
        long_about = "Runs the experiments of five documents about the Linux scheduler again, from the O(1) scheduler to 6.12, and \
                      prints each one's own table with ours beside it, whether what it must show is shown, and what is measured \
                      how. The exit status is 2 if something is not.\n\nWhat a simulation can tell is simulated; what it cannot, \
                      what the scheduler's own code takes, is measured on this machine: keep it quiet meanwhile. Instructions are \
                      counted by valgrind's callgrind where it is installed.",
        after_long_help = "Examples:\n  \
            vruntime reproduce                                 all of them\n  \
            vruntime reproduce spurious-migration\n  \
            vruntime reproduce all --out out                   and a page with charts, out/reproduce.html"
    )]
    Reproduce(Reproduce),
    /// Print the completions of a shell
    #[command(after_help = "For bash: vruntime completions bash > ~/.local/share/bash-completion/completions/vruntime")]
    Completions(Completions),
}

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
    /// Preemption model (default: the file's, else voluntary)
    #[arg(long, value_name = "MODEL")]
    pub(crate) preempt: Option<PreemptName>,
    /// What switches, interrupts and system calls take: default, zero, vm or emulated (default: the file's, else default)
    #[arg(long, value_name = "PROFILE")]
    pub(crate) costs: Option<String>,
    /// Set a tunable of the kernel or a single cost by its name; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) set: Vec<(String, u64)>,
    /// Switch a scheduler feature by its kernel name, off with NO_ before it; can be repeated
    #[arg(long, value_name = "FEATURE")]
    pub(crate) feature: Vec<String>,
    /// Tasks are there before and sleep until the run begins, as those of `vruntime real` and of recordings; otherwise they are forked then
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
}

/// Everything that decides how a workload is run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Options {
    /// Length of the run, such as 10min, 5s, 200ms (default: the file's)
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_duration, allow_hyphen_values = true)]
    pub(crate) duration: Option<u64>,
    /// Run so many times, each with the next seed, and tell the spread
    #[arg(long, value_name = "N", default_value = "1", value_parser = number(1..=1000u16), allow_negative_numbers = true)]
    pub(crate) repeat: u16,
    #[command(flatten)]
    pub(crate) model: Model,
    /// Leave results, traces and digests in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Take whatever is merely questionable in the input for an error
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
    /// What to write the tables as
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
    Parquet,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// An rt-app file (JSON), a scenario (TOML), or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The kernel, such as 6.12, 6.12+NO_RUN_TO_PARITY or what `uname -r` prints; see `vruntime kernels` (default: the file's, else 6.12)
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Option<String>,
    /// The machine, such as "pack:2 core:4", 16, server or lstopo.xml; see `vruntime machines` (default: the file's, else 8)
    #[arg(long, value_name = "MACHINE", allow_negative_numbers = true)]
    pub(crate) machine: Option<String>,
    /// What if these tasks or groups were something else: 'WHO: WHAT', such as 'cgroup=/app: weight=200', or a file of rules (TOML), see
    /// docs/replay.md; can be repeated
    #[arg(long, value_name = "RULE|FILE")]
    pub(crate) map: Vec<String>,
    /// Tell where CPUs stayed idle while tasks waited elsewhere; the exit status is 2 if any did
    #[arg(long)]
    pub(crate) detect: bool,
    /// Analyse the events as `vruntime trace analyse` does: latency, antagonists, ...; separated by commas
    #[arg(long, value_name = "ANALYSIS", value_delimiter = ',', value_parser = crate::commands::analysis_word)]
    pub(crate) analyse: Vec<crate::commands::Asked>,
    /// Leave a log for each task in this folder, in rt-app's own form
    #[arg(long, value_name = "DIR")]
    pub(crate) rtapp_log: Option<PathBuf>,
    /// Print what /sys/kernel/debug/sched/debug and /proc/schedstat would show at that time, such as 1.5s
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_duration, allow_hyphen_values = true, conflicts_with_all = ["json", "repeat"])]
    pub(crate) debug_at: Option<u64>,
    /// With --debug-at: print /proc/PID/sched of this task instead, or of all instances of it; can be repeated
    #[arg(long, value_name = "NAME", requires = "debug_at")]
    pub(crate) task: Vec<String>,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) reports: Reports,
}

#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// Leave the machine in this file [default: ~/.config/vruntime/machine.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // switches of the command line
pub(crate) struct Real {
    /// An rt-app file (JSON), a scenario (TOML), or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Stop after so long, such as 5s or 500ms [default: what the file says]
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_duration, allow_hyphen_values = true)]
    pub(crate) duration: Option<u64>,
    /// Run it so many times
    #[arg(long, value_name = "N", default_value = "1", value_parser = number(1..=1000u16), allow_negative_numbers = true)]
    pub(crate) repeat: u16,
    /// Leave results.json in this folder, and trace.txt, what the kernel recorded of the (first) run, if it lets us
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Leave a log for each task in this folder, as rt-app would, of the (first) run
    #[arg(long, value_name = "DIR")]
    pub(crate) rtapp_log: Option<PathBuf>,
    /// Do not have the kernel record the run
    #[arg(long, requires = "out")]
    pub(crate) no_trace: bool,
    /// Begin even what may hang the machine
    #[arg(long)]
    pub(crate) force: bool,
    /// Take everything in the file that would be warned of for an error
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print the results as JSON, in the shape of the recordings
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// rt-app files (JSON), scenarios (TOML), or traces of real machines
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// A kernel, such as 6.12 or 6.12+NO_RUN_TO_PARITY; give several to compare them (default: the files', else 6.12)
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Vec<String>,
    /// A machine, such as "pack:2 core:4", 16, server or lstopo.xml; give several to compare them (default: the files', else 8)
    #[arg(long, value_name = "MACHINE", allow_negative_numbers = true)]
    pub(crate) machine: Vec<String>,
    /// Run each file also as if these tasks or groups were something else: 'WHO: WHAT', such as 'cgroup=/app: weight=200', or a file of rules
    /// (TOML), see docs/replay.md; can be repeated
    #[arg(long, value_name = "RULE|FILE")]
    pub(crate) map: Vec<String>,
    /// The kernel that traces were recorded under: each is replayed under it first, to tell how far to trust its replay (default: what the
    /// trace says, or the nearest on offer; 6.18 if it says nothing)
    #[arg(long, value_name = "KERNEL")]
    pub(crate) recorded_kernel: Option<String>,
    /// The task groups of the machine a trace was recorded on (docs/replay.md); once for all traces, or once for each
    #[arg(long, value_name = "FILE")]
    pub(crate) cgroups: Vec<PathBuf>,
    /// Show changes within the spread, or too small to matter, as well
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) reports: Reports,
}

#[derive(Debug, Args)]
pub(crate) struct Kernels {
    /// Features and tunables of this kernel; without one, all features and who has them
    #[arg(long, value_name = "KERNEL", num_args = 0..=1, default_missing_value = "")]
    pub(crate) features: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Machines {
    /// A machine to draw, described as for --machine
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
}

/// How much is recorded.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// One scenario of a kind, three runs of 3 s: two minutes
    Quick,
    /// All, five runs of 8 s: a quarter of an hour
    Full,
}

#[derive(Debug, Args)]
pub(crate) struct Fidelity {
    /// A folder with a folder of recordings for each kernel (default: those that come with vruntime)
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Only recordings of this kernel
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Option<String>,
    /// Only scenarios whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) scenario: Option<String>,
    /// First run the scenarios that fit this machine under its own kernel, leave the recordings in this folder, and compare with those
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// With --record: how long and how often each runs
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "SUITE", default_value = "quick", requires = "record")]
    pub(crate) suite: Suite,
    /// With --record: run this instead of the suite, an rt-app file or one in the form of a recording; can be repeated
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "FILE", requires = "record", conflicts_with = "scenario")]
    pub(crate) with: Vec<PathBuf>,
    /// Compare with the recordings of the same scenarios in this folder, and simulate nothing: how well does a machine agree with itself at
    /// another hour?
    #[arg(long, value_name = "DIR", conflicts_with_all = ["costs", "repeat", "seed"])]
    pub(crate) against: Option<PathBuf>,
    /// Simulate with these costs instead of those for the kind of machine: a profile, a file of vruntime calibrate, or host
    #[arg(long, value_name = "COSTS")]
    pub(crate) costs: Option<String>,
    /// Simulate so many runs, each with the next seed, and judge the median: where two states last, chance decides which a run is in
    #[arg(long, value_name = "N", default_value = "5", value_parser = number(1..=1000u16), allow_negative_numbers = true)]
    pub(crate) repeat: u16,
    /// Seed of the (first) run
    #[arg(long, value_name = "S", default_value = "1", value_parser = number(0..=u64::MAX), allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Show only the cells that lie outside
    #[arg(long)]
    pub(crate) misses: bool,
    /// Print an array of {kernel, scenario, class, metric, unit, recorded, simulated, inside}; with --against `again` instead of `simulated`
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reports: Reports,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// One trace
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// The other
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,
    /// Only events that this task has a part in; can be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) task: Vec<String>,
    /// Only this CPU
    #[arg(long, value_name = "CPU", value_parser = number(0..=u32::MAX), allow_negative_numbers = true)]
    pub(crate) cpu: Option<u32>,
    /// Compare at most so many events of each CPU; the time it takes grows with its square
    #[arg(long, value_name = "N", default_value = "10000", value_parser = number(1..=usize::MAX), allow_negative_numbers = true)]
    pub(crate) limit: usize,
    /// Events shown before and after what differs
    #[arg(long, value_name = "N", default_value = "3", value_parser = number(0..=usize::MAX), allow_negative_numbers = true)]
    pub(crate) context: usize,
    /// Places shown at which they differ
    #[arg(long, value_name = "N", default_value = "3", value_parser = number(0..=usize::MAX), allow_negative_numbers = true)]
    pub(crate) hunks: usize,
    /// Events shown of each place, at most
    #[arg(long, value_name = "N", default_value = "40", value_parser = number(1..=usize::MAX), allow_negative_numbers = true)]
    pub(crate) lines: usize,
    /// Print an array, a CPU each: cpu, events, alike, shift_ns, first_divergence
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) tables: Tables,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The trace, or - for standard input
    #[arg(value_name = "TRACE")]
    pub(crate) file: PathBuf,
    /// The kernel it was recorded under (default: what the trace says, or the nearest on offer; 6.18 if it says nothing)
    #[arg(long, value_name = "KERNEL")]
    pub(crate) recorded_kernel: Option<String>,
    /// The machine it was recorded on, if its CPUs differ: such as "core:6(capacity=446,1024,1024,446,446,446)", or LISA's plat_info.yml
    #[arg(long, value_name = "MACHINE", allow_negative_numbers = true)]
    pub(crate) recorded_machine: Option<String>,
    /// The task groups of the machine it was recorded on: which thread was in which, with what weights and limits, as a line of shell
    /// writes it there (docs/replay.md)
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
    /// What if these tasks were something else: 'WHO: WHAT' or a file of rules (TOML), see docs/replay.md; can be repeated
    #[arg(long, value_name = "RULE|FILE")]
    pub(crate) map: Vec<String>,
    /// What if this workload ran beside it (rt-app JSON or a scenario); can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) beside: Vec<PathBuf>,
    /// How sleeps end: as the trace shows them to (by clocks, sleeps, other tasks), or all when they did
    #[arg(long, value_name = "HOW", default_value = "inferred")]
    pub(crate) wakeups: Wakeups,
    /// Read only so much of the trace, such as 5s
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_duration, allow_hyphen_values = true)]
    pub(crate) duration: Option<u64>,
    #[command(flatten)]
    pub(crate) model: Model,
    /// Leave traces of the replay and of the what-if in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Show every task
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reports: Reports,
}

#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// Which experiment
    #[arg(value_name = "NAME", default_value = "all")]
    pub(crate) name: Which,
    /// Leave the results, and a page with charts, in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// What the program does of itself when it is run under callgrind
    #[arg(long, value_name = "TASK", hide = true)]
    pub(crate) counted: Option<String>,
}

/// Which experiments to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// All there are.
    All,
    /// This one.
    One(Experiment),
}

impl ValueEnum for Which {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::All,
            Self::One(Experiment::IdleGroups),
            Self::One(Experiment::Ctxsw),
            Self::One(Experiment::SpuriousMigration),
            Self::One(Experiment::Cpurc),
            Self::One(Experiment::GroupSwitches),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::All => PossibleValue::new("all").help("All of them"),
            Self::One(experiment) => PossibleValue::new(experiment.name()).help(experiment.what()),
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// How the sleeps of a trace end in its replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wakeups {
    /// By what seems to have ended them
    Inferred,
    /// At the times at which they ended
    Recorded,
}

/// The kernel's preemption models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreemptName {
    /// At the end of a system call
    None,
    /// There, and at points inside long ones
    Voluntary,
    /// Inside a call only from the next tick on
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

/// Reads a whole number, and says which there may be.
fn number<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
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
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

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
