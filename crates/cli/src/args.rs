//! The command line: what can be said, and its help.

mod example;
mod fidelity;
#[cfg(target_os = "linux")]
mod real;
#[cfg(target_os = "linux")]
mod record;
mod replay;
mod reproduce;
mod run;
mod shared;
mod trace;

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use self::example::{ExampleOf, Init};
pub(crate) use self::fidelity::Fidelity;
#[cfg(target_os = "linux")]
pub(crate) use self::fidelity::Suite;
#[cfg(target_os = "linux")]
pub(crate) use self::real::{Calibrate, Real};
#[cfg(target_os = "linux")]
pub(crate) use self::record::Record;
pub(crate) use self::replay::{Replay, Wakeups};
pub(crate) use self::reproduce::{Reproduce, Which};
pub(crate) use self::run::{Compare, Run};
pub(crate) use self::shared::{Model, Options, Reports, Seeds, TableFormat, Tables};
pub(crate) use self::trace::{Trace, TraceAnalyse, TraceCommand, TraceConvert, TraceFormat, TraceInfo};

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
        vruntime run demo                                  a workload that the command carries\n  \
        vruntime init                                      a commented scenario, in scenario.toml\n  \
        vruntime run web.json                              your own rt-app file, under 6.12 on 8 CPUs\n  \
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
        Environment: NO_COLOR switches colours off; they are only ever used on a terminal. VRUNTIME_MESSAGES=json \
        tells errors, warnings and notes as lines of JSON (docs/cli.md)."
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
    /// List the examples that the command carries, or print one
    #[command(
        long_about = "Lists the examples that the command carries, or prints one. Wherever a command reads a workload, the name of an \
                      example does in place of a file, unless there is a file of that name.",
        after_long_help = "Examples:\n  \
            vruntime example\n  \
            vruntime run web\n  \
            vruntime compare demo --repeat 5\n  \
            vruntime example web > web.toml                    a copy to change"
    )]
    Example(ExampleOf),
    /// Write a commented scenario to begin with
    #[command(
        long_about = "Writes a scenario that runs as it is: a small web service beside a batch job. Comments explain each part and \
                      show alternatives.",
        after_long_help = "Examples:\n  \
            vruntime init && vruntime run scenario.toml\n  \
            vruntime init shop.toml"
    )]
    Init(Init),
    /// List the kernels there are, or the features and tunables of one
    #[command(after_help = "For example: vruntime kernels 6.12")]
    Kernels(Kernels),
    /// List example machines and how to describe your own, or draw one
    #[command(after_help = "For example: vruntime machines 'pack:2 core:4 pu:2'")]
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
                      line is `inside N of M cells`.",
        after_long_help = "Examples:\n  \
            vruntime fidelity --kernel 6.12 --misses\n  \
            vruntime fidelity --record mine                    this machine's own kernel\n  \
            vruntime fidelity mine --against again"
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
    /// Measure this machine for the simulator: what its kernel takes for switches, wakeups, interrupts, ticks,
    /// migrations
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
    /// Record what runs on this machine, with everything that a replay needs, in one file
    #[cfg(target_os = "linux")]
    #[command(
        long_about = "Records the scheduler's events of this machine for 10 seconds, or while COMMAND runs, and writes one file with \
                      everything that a replay needs: the events; task groups with weights, limits and counters; group, affinity, \
                      autogroup, policy, nice value and slice of every task; kernel release, HZ, preemption model, features and tunables; \
                      topology, capacities and frequencies; and what the machine's kernel takes, measured for a second before.\n\nThe file \
                      is a trace.dat: trace-cmd and KernelShark open it, too. Recording needs root, and leaves nothing on the machine but \
                      the file. Ctrl-C ends it and keeps what there is.",
        after_long_help = "Examples:\n  \
            sudo vruntime record                               10 seconds of all that runs\n  \
            sudo vruntime record -o build.dat -- make -j8\n  \
            vruntime replay vruntime.dat\n  \
            vruntime replay vruntime.dat --map 'make: nice=10'"
    )]
    Record(Record),
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

#[derive(Debug, Args)]
pub(crate) struct Kernels {
    /// A kernel to show alone, with its features and tunables
    #[arg(value_name = "KERNEL", conflicts_with = "features")]
    pub(crate) kernel: Option<String>,
    /// Features and tunables of this kernel; without a name, all features and the kernels that have them
    #[arg(long, value_name = "KERNEL", num_args = 0..=1, default_missing_value = "")]
    pub(crate) features: Option<String>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Machines {
    /// A machine to draw, described as for --machine
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
    /// Print JSON instead: the examples, or each CPU of the machine
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// One trace, recorded or simulated
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
    /// Compare the first N events of each CPU only [default: compare all]; exit with 2 if events are left out
    #[arg(long, value_name = "N", value_parser = number(1..=usize::MAX), allow_negative_numbers = true)]
    pub(crate) limit: Option<usize>,
    /// Events shown before and after what differs
    #[arg(long, value_name = "N", default_value = "3", value_parser = number(0..=usize::MAX), allow_negative_numbers = true)]
    pub(crate) context: usize,
    /// Places shown at which they differ
    #[arg(long, value_name = "N", default_value = "3", value_parser = number(0..=usize::MAX), allow_negative_numbers = true)]
    pub(crate) hunks: usize,
    /// Events shown of each place, at most
    #[arg(long, value_name = "N", default_value = "40", value_parser = number(1..=usize::MAX), allow_negative_numbers = true)]
    pub(crate) lines: usize,
    /// Print an array of {cpu, events, not_compared, alike, alike_is_lower_bound, shift_ns, damage, first_divergence}
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) tables: Tables,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
