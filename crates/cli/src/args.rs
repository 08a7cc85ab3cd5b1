//! The command line and its help.

mod bisect;
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

pub(crate) use self::bisect::Bisect;
pub(crate) use self::example::{ExampleOf, Init, NewPolicy};
pub(crate) use self::fidelity::Fidelity;
#[cfg(target_os = "linux")]
pub(crate) use self::fidelity::Suite;
#[cfg(target_os = "linux")]
pub(crate) use self::real::{Calibrate, Real};
#[cfg(target_os = "linux")]
pub(crate) use self::record::Record;
pub(crate) use self::replay::{MAX_EVENT_COST, Replay, Wakeups};
pub(crate) use self::reproduce::{Reproduce, Which};
pub(crate) use self::run::{Compare, Run};
pub(crate) use self::shared::{Model, Options, PreemptName, Reports, Seeds, TableFormat, Tables, setting};
pub(crate) use self::trace::{Trace, TraceAnalyse, TraceCommand, TraceConvert, TraceFormat, TraceInfo};

/// Predicts how a workload would be scheduled by another Linux kernel or on another machine.
#[derive(Debug, Parser)]
#[command(
    name = "vruntime",
    version,
    max_term_width = 100,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "`vruntime help COMMAND` describes a command.",
    long_about = "Runs a workload on a simulated machine under the scheduler of a Linux kernel. Prints the CPU time, \
                  waiting, lateness, switches and migrations of every task, task group and CPU.\n\nWorkloads are rt-app \
                  files (JSON), scenario files (TOML) with a machine, a kernel and task groups, or recordings of real \
                  machines. The same input and seed give the same events to the nanosecond, on every machine.",
    after_long_help = "Examples:\n  \
        vruntime run demo                                  an embedded example\n  \
        vruntime init                                      a commented scenario, in scenario.toml\n  \
        vruntime run web.json                              your own rt-app file, under 6.12 on 8 CPUs\n  \
        vruntime run web.json --kernel 6.1 --machine 'pack:2 core:4' --out out\n                                                     \
        and a trace for ui.perfetto.dev in out/\n  \
        vruntime compare web.json --kernel 6.1 --kernel 6.12\n                                                     \
        what changes beyond chance\n  \
        vruntime kernels                                   the supported kernels\n  \
        vruntime fidelity                                  the accuracy of the simulator\n  \
        vruntime reproduce all                             published experiments, run again\n\n\
        Exit status:\n  \
        0    success\n  \
        1    an error in the input or the command line\n  \
        2    `run --detect` found idle CPUs, `diff` found differences, or `reproduce` missed a claim\n  \
        130  Ctrl-C: the run stops and prints its results so far\n\n\
        Environment:\n  \
        NO_COLOR=1              no colours\n  \
        VRUNTIME_MESSAGES=json  errors, warnings and notes as lines of JSON (docs/cli.md)"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Adds a suggestion to an error of the command line.
pub(crate) fn with_tip(mut error: clap::Error) -> clap::Error {
    let context_of = |kind: ContextKind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (option, before, usage) =
        (context_of(ContextKind::InvalidArg), context_of(ContextKind::PriorArg), context_of(ContextKind::Usage));
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
    /// Run a workload, and print what every task got
    #[command(
        long_about = "Runs a workload, and prints what every class of identical tasks, every task group and every CPU got.\n\n  \
                      CPU %       time on a CPU; 100 % is one CPU all the time\n  \
                      wait %      time runnable but not running\n  \
                      lateness    delay of the return from timed sleeps; without timers the delay from wakeup to running\n  \
                      switch/s    context switches per second and task\n  \
                      entitled %  CPU time that a group should have by its weight",
        after_long_help = "Examples:\n  \
            vruntime run web.json\n  \
            vruntime run web.json --kernel 6.6 --feature NO_RUN_TO_PARITY --set base_slice_ns=3000000\n  \
            vruntime run scenario.toml --machine server --duration 10s --repeat 5\n  \
            vruntime run shop.toml --map 'cgroup=/shop: max=2' --map 'batch: nice=5'\n  \
            generate-workload | vruntime run - --json > results.json\n\n\
            --out DIR writes:\n  \
            results.json            the output of --json\n  \
            trace.perfetto-trace    for https://ui.perfetto.dev\n  \
            trace.txt               in the format of `trace-cmd report`\n  \
            digest                  a digest of all events for each seed\n\n\
            --rtapp-log DIR writes rt-app-NAME-N.log for each task, with a row for each loop."
    )]
    Run(Run),
    /// Run workloads under several kernels or on several machines, and print what differs
    #[command(
        long_about = "Runs every combination of files, kernels and machines, and prints them side by side. A sentence says \
                      what stands out. Each combination runs with 5 seeds (--repeat). Rows have the mean over the seeds, half their \
                      spread (±), and the change from the first column. Rows within the spread, and changes too small to \
                      matter, are left out; with --all, ~ marks them.\n\n\
                      A kernel can have features and tunables: 6.12+NO_RUN_TO_PARITY, 6.12+base_slice_ns=3000000.",
        after_long_help = "Examples:\n  \
            vruntime compare web.json --kernel 6.1 --kernel 6.12\n  \
            vruntime compare web.json --kernel 6.12 --kernel 6.12+NO_RUN_TO_PARITY\n  \
            vruntime compare web.json --machine laptop --machine server\n  \
            vruntime compare shop.toml --map 'cgroup=/shop/batch: weight=10'\n  \
            vruntime compare before.toml after.toml\n  \
            vruntime compare before/results.json after/results.json"
    )]
    Compare(Compare),
    /// Find which differences of two kernels, or of two scenarios, move a figure
    #[command(
        long_about = "Runs a workload under two kernels and between them. Each behaviour, feature and number in which they differ is taken \
                      over alone, and left out alone. Prints the smallest set found that explains the difference, and what \
                      switches it on a real kernel. A table has the effect of each difference. Of a trace, the programs \
                      are run that `vruntime replay` makes. Without FILE, --from and --to are scenarios, and the \
                      settings in which they differ are searched.",
        after_long_help = "Examples:\n  \
            vruntime bisect web.toml --from 5.15 --to 6.8 --metric 'late_p99(web/worker)'\n  \
            vruntime bisect demo --from 6.1 --to 6.12\n  \
            vruntime bisect perf.data --from 6.1 --to 6.12 --html page.html\n  \
            vruntime bisect --from before.toml --to after.toml"
    )]
    Bisect(Bisect),
    /// List the embedded examples, or print one
    #[command(
        long_about = "Lists the embedded examples, or prints one. A name of an example can stand wherever a command reads a \
                      workload. A file of that name takes precedence.",
        after_long_help = "Examples:\n  \
            vruntime example\n  \
            vruntime run web\n  \
            vruntime compare demo\n  \
            vruntime example web > web.toml                    a copy to change"
    )]
    Example(ExampleOf),
    /// Write a commented scenario to start from
    #[command(
        long_about = "Writes a complete scenario: a small web service beside a batch job. Comments explain each part and show \
                      alternatives.",
        after_long_help = "Examples:\n  \
            vruntime init && vruntime run scenario.toml\n  \
            vruntime init shop.toml"
    )]
    Init(Init),
    /// Create a crate with a scheduling policy of your own, to run it beside the built-in kernels
    #[command(
        long_about = "Creates a crate with a scheduling policy to change: round robin, its test, and a scenario. Its program has all \
                      commands of vruntime, and --kernel takes NAME, too. The crate needs Rust and a checkout of vruntime.",
        after_long_help = "Examples:\n  \
            vruntime new-policy mine && cd mine && cargo test\n  \
            cargo run -- compare scenario.toml --kernel 6.18 --kernel mine"
    )]
    NewPolicy(NewPolicy),
    /// List the supported kernels, or the features and tunables of one
    #[command(after_help = "For example: vruntime kernels 6.12")]
    Kernels(Kernels),
    /// List example machines and how to describe your own, or draw one
    #[command(after_help = "For example: vruntime machines 'pack:2 core:4 pu:2'")]
    Machines(Machines),
    /// Compare the simulator with recordings of real kernels, cell by cell
    #[command(
        long_about = "Simulates every recorded scenario under the recorded kernel, and compares what every class of identical \
                      tasks got. A cell is one measurement of one class. It is within its tolerance if the simulated value \
                      is no further than that from the range of the recorded runs:\n\n  \
                      cpu_share            0.5 percentage points if all tasks are pinned to one CPU, else 1.5\n  \
                      switches             10 % (20 % if recorded under emulation)\n  \
                      wakeup_latency_pNN   20 % or 100 us (30 % or 500 us; not judged if emulated on > 2 CPUs)\n  \
                      migrations           a factor of 2, or 10\n  \
                      nr_throttled         10 %, for each group with a limit: throttled periods\n  \
                      throttled_for        15 %, for each group with a limit: throttled time, summed over CPUs\n\n\
                      Recordings that cannot be simulated are listed first, with the reason, and do not count. The last line \
                      counts the measurements within tolerance, and again without those that a simulated 0 would also meet.",
        after_long_help = "Examples:\n  \
            vruntime fidelity --kernel 6.12 --misses\n  \
            vruntime fidelity --record mine                    this machine's own kernel\n  \
            vruntime fidelity mine --against again"
    )]
    Fidelity(Fidelity),
    /// Find the first difference of two traces, and how much of them is alike
    #[command(
        long_about = "Compares the order of switches, wakeups and migrations of two traces, CPU by CPU. Prints how many events are \
                      alike, and the first differences. Times are not compared. Tasks are matched by name, and tasks of one name by \
                      their first appearance. The exit status is 0 if all events are alike, and 2 if not.",
        after_long_help = "Examples:\n  \
            vruntime diff real-out/trace.txt sim-out/trace.txt\n  \
            vruntime diff 6.1/trace.txt 6.12/trace.txt --task web-0 --cpu 1 --hunks 20"
    )]
    Diff(Diff),
    /// Describe a recorded trace, analyse it, or convert it
    #[command(arg_required_else_help = true)]
    Trace(Trace),
    /// Measure this machine's costs for the simulator: switches, wakeups, interrupts, ticks, migrations
    #[cfg(target_os = "linux")]
    #[command(
        long_about = "Measures this machine in about fifteen seconds: the kernel's costs, wakeups of idle CPUs, stalls, background \
                      tasks, and migrations by working set. Reads topology, capacities, HZ, preemption model, autogroup \
                      and features.\n\nPrints each figure with its method, and writes ~/.config/vruntime/machine.toml (or --out). \
                      --machine host uses that file, --machine FILE.toml another. Keep the machine idle during the measurement.",
        after_long_help = "Examples:\n  \
            vruntime calibrate\n  \
            vruntime run video.json --machine host --kernel 6.12"
    )]
    Calibrate(Calibrate),
    /// Run a workload as real threads under this machine's own kernel
    #[cfg(target_os = "linux")]
    #[command(
        long_about = "Runs an rt-app file or scenario as real threads under this machine's own kernel. Policies, nice values, \
                      affinities, mutexes, pipes and timers are the kernel's. Groups are cgroups (v2 or v1) below one parent, which \
                      is removed afterwards. Prints CPU time, run delay, switches and migrations from /proc, and the lateness of sleeps. \
                      Ignores the file's kernel, machine and costs.\n\nWithout root, the kernel rejects real-time policies, negative \
                      nice values and usually groups. These are left out, with a note. A workload that may hang the machine is \
                      rejected unless --force is given.",
        after_long_help = "Examples:\n  \
            vruntime real video.json --duration 10s\n  \
            vruntime real shop.toml --duration 10s --repeat 3 --json\n  \
            sudo vruntime real shop.toml --duration 10s --out real-out\n  \
            vruntime replay real-out/trace.txt --cgroups real-out/cgroups.txt"
    )]
    Real(Real),
    /// Record this machine for a replay, in one file
    #[cfg(target_os = "linux")]
    #[command(
        long_about = "Records the scheduler's events for 10 seconds, or while COMMAND runs. Writes one file for a replay: events, \
                      task groups with their limits, attributes of tasks, kernel settings, topology, frequencies, and costs.\n\nThe \
                      file is a trace.dat, which trace-cmd and KernelShark open, too. Recording needs root, and leaves \
                      only the file. Ctrl-C ends the recording and keeps the file.",
        after_long_help = "Examples:\n  \
            sudo vruntime record                               10 seconds of everything\n  \
            sudo vruntime record -o build.dat -- make -j8\n  \
            vruntime replay vruntime.dat\n  \
            vruntime replay vruntime.dat --map 'make: nice=10'"
    )]
    Record(Record),
    /// Replay a recorded trace as recorded, and under another kernel or on another machine
    #[command(
        long_about = "Makes a program of every thread in a trace: its work, its sleeps and its wakers. Runs all programs as recorded, \
                      and compares CPU time, switches and wakeup latency of each task with the trace. With --kernel, --machine, --map, \
                      --beside, --set or --feature, runs them again with the change, and prints what differs. Other options apply to \
                      both runs.\n\n`vruntime trace info` says what is missing in a trace, and how to record it.",
        after_long_help = "Examples:\n  \
            vruntime replay trace.dat\n  \
            vruntime replay perf.data --recorded-kernel 6.12 --kernel 6.1\n  \
            vruntime replay trace.txt --costs vm --map 'batch-*: group=/batch weight=20 max=50ms/100ms'\n  \
            vruntime replay trace.txt --map rules.toml --beside noisy.json"
    )]
    Replay(Replay),
    /// Run published experiments again, and print their tables beside the new results
    #[command(
        long_about = "Runs the experiments of five documents about the Linux scheduler again, from O(1) to 6.12. Prints each published \
                      table beside the new results, and whether each claim is met. The exit status is 2 if one is not.\n\nThe \
                      execution time of the scheduler's own code is measured on this machine: keep it idle. If valgrind is installed, \
                      callgrind counts instructions.",
        after_long_help = "Examples:\n  \
            vruntime reproduce                                 all of them\n  \
            vruntime reproduce spurious-migration\n  \
            vruntime reproduce all --out out                   and a page, out/reproduce.html"
    )]
    Reproduce(Reproduce),
    /// Print the completions of a shell
    #[command(after_help = "For bash: vruntime completions bash > ~/.local/share/bash-completion/completions/vruntime")]
    Completions(Completions),
    /// Write the man pages to a folder
    #[command(hide = true)]
    Man(Man),
    /// Print the licences of vruntime and of the packages that it contains
    Notices,
}

#[derive(Debug, Args)]
pub(crate) struct Kernels {
    /// Show the features and tunables of this kernel
    #[arg(value_name = "KERNEL", conflicts_with = "features")]
    pub(crate) kernel: Option<String>,
    /// Show the features of this kernel; without a name, of all kernels
    #[arg(long, value_name = "KERNEL", num_args = 0..=1, default_missing_value = "")]
    pub(crate) features: Option<String>,
    /// Behaviours: all, those of kernel A, or those in which kernels A and B differ
    #[arg(long, value_name = "A", num_args = 0..=2, conflicts_with_all = ["kernel", "features"])]
    pub(crate) behaviours: Option<Vec<String>>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Machines {
    /// Draw this machine, described as for --machine
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
    /// Print JSON: the examples, or each CPU of the machine
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
    /// Compare only events of this task; can be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) task: Vec<String>,
    /// Compare only this CPU
    #[arg(long, value_name = "CPU", value_parser = number(0..=u32::MAX), allow_negative_numbers = true)]
    pub(crate) cpu: Option<u32>,
    /// Compare the first N events of each CPU only [default: compare all]; exit with 2 if events are left out
    #[arg(long, value_name = "N", value_parser = number(1..=usize::MAX), allow_negative_numbers = true)]
    pub(crate) limit: Option<usize>,
    /// Show N events before and after a difference
    #[arg(long, value_name = "N", default_value = "3", value_parser = number(0..=usize::MAX), allow_negative_numbers = true)]
    pub(crate) context: usize,
    /// Show N differences
    #[arg(long, value_name = "N", default_value = "3", value_parser = number(0..=usize::MAX), allow_negative_numbers = true)]
    pub(crate) hunks: usize,
    /// Show at most N events of each difference
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

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Returns a parser of whole numbers in a range.
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
