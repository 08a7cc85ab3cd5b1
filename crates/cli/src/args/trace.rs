//! `vruntime trace`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Reports, Tables};

#[derive(Debug, Args)]
pub(crate) struct Trace {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// What is in a trace: kind, span, CPUs, events, tasks, losses, and what a replay would miss
    #[command(
        long_about = "Reads a trace of a real machine, or one that vruntime has written, and tells what is in it: its \
                      kind, span, CPUs, events by name, tasks; what of it is lost or damaged; and what is missing for a \
                      replay, with the command that would have recorded it.\n\nRead are: trace.dat of trace-cmd, perf.data, \
                      Perfetto traces; text of the kernel (/sys/kernel/tracing/trace), of trace-cmd report (also -R) \
                      and of perf script; and systrace HTML. What kind a file is, its content says.",
        after_long_help = "Examples:\n  \
            vruntime trace info trace.dat\n  \
            perf script --ns -F comm,pid,tid,cpu,time,event,trace | vruntime trace info -\n  \
            vruntime trace info trace.txt --json | jq .events_by_name"
    )]
    Info(TraceInfo),
    /// Who waited how long, and for whom; idle CPUs beside waiting tasks; run queues; migrations; groups
    #[command(
        long_about = "Reads a trace of any kind that `vruntime trace info` reads, and analyses it in one pass:\n\n  \
                      latency             delays from runnable to running, as `perf sched latency` prints them\n  \
                      timehist            every switch, as `perf sched timehist` prints it\n  \
                      summary             run time of each task, as `perf sched timehist --summary`\n  \
                      antagonists         who waited while whom had its CPU\n  \
                      idle-while-waiting  who waited while another CPU was idle that could have run him\n  \
                      runqueue            runnable tasks on each CPU, over time\n  \
                      migrations          migrations by cause\n  \
                      groups              what task groups used, and what they were entitled to\n  \
                      throttling          what the limits of groups did\n  \
                      critical-path:TASK  what a task did, and in its sleeps those who at last woke it\n\n\
                      Without a word: latency, antagonists, idle-while-waiting, runqueue and migrations; with --cgroups also \
                      groups and throttling. The same words go after `vruntime run --analyse`.\n\nWhich task was in which \
                      group, with what weight and limit, the text traces of vruntime's own runs tell; of a recorded machine \
                      --cgroups does.",
        after_long_help = "Examples:\n  \
            vruntime trace analyse trace.dat\n  \
            vruntime trace analyse perf.data latency --each-task --all\n  \
            vruntime trace analyse perf.data critical-path:Compositor\n  \
            vruntime trace analyse perf.data groups throttling --cgroups cgroups.txt\n  \
            vruntime trace analyse trace.txt antagonists --json | jq .tables.antagonists"
    )]
    Analyse(TraceAnalyse),
    /// Write a trace as ftrace text, or for Perfetto
    #[command(
        long_about = "Reads a trace of any kind that `vruntime trace info` reads, and writes its events as ftrace text (as \
                      trace-cmd report -t -N prints it) or as a Perfetto trace, for https://ui.perfetto.dev. Which of them, \
                      the name of OUT says: text if it ends with .txt, .ftrace or .log, Perfetto if it ends with \
                      .perfetto-trace, .pftrace or .pb; or --to. What a format cannot say is left out, and how much is told.",
        after_long_help = "Examples:\n  \
            vruntime trace convert trace.dat trace.pftrace\n  \
            vruntime trace convert perf.data - --to text | grep sched_switch"
    )]
    Convert(TraceConvert),
}

#[derive(Debug, Args)]
pub(crate) struct TraceAnalyse {
    /// The trace, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What to look for, such as latency; several are done in one pass
    #[arg(value_name = "ANALYSIS", value_parser = crate::commands::analysis_word)]
    pub(crate) what: Vec<crate::commands::Asked>,
    /// A row for each task, rather than for all tasks of one name
    #[arg(long)]
    pub(crate) each_task: bool,
    /// The task groups of the machine it was recorded on, for groups, throttling and critical-path, and the affinities,
    /// for idle-while-waiting: which thread was in which group, with what weights and limits, as a line of shell writes
    /// it there (docs/replay.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) cgroups: Option<PathBuf>,
    /// Show so many rows of each table, and lines of timehist (default: 25 rows, and every line)
    #[arg(long, value_name = "N", value_parser = super::number(0..=usize::MAX), allow_negative_numbers = true)]
    pub(crate) rows: Option<usize>,
    /// Show every row
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reports: Reports,
}

#[derive(Debug, Args)]
pub(crate) struct TraceConvert {
    /// The trace, or - for standard input
    #[arg(value_name = "IN")]
    pub(crate) from: PathBuf,
    /// The file to write, or - for standard output
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// What to write, whatever OUT is called
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<TraceFormat>,
}

/// What traces are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// Ftrace text
    Text,
    /// A Perfetto trace
    Perfetto,
}

#[derive(Debug, Args)]
pub(crate) struct TraceInfo {
    /// The trace, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Show every task and every name of an event
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) tables: Tables,
}
