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
    /// Describe a trace: format, length, CPUs, events, tasks, losses, and what a replay would miss
    #[command(
        long_about = "Describes a recorded trace, or one of vruntime: its format, length and CPUs, events by name, and tasks. \
                      Reports what is lost or damaged, and what a replay would miss, with the command that would have \
                      recorded it.\n\nFormats: trace.dat of trace-cmd, perf.data, Perfetto; text of the kernel \
                      (/sys/kernel/tracing/trace), of trace-cmd report (also -R) and of perf script; systrace HTML. The \
                      content of the file decides.",
        after_long_help = "Examples:\n  \
            vruntime trace info trace.dat\n  \
            perf script --ns -F comm,pid,tid,cpu,time,event,trace | vruntime trace info -\n  \
            vruntime trace info trace.txt --json | jq .events_by_name"
    )]
    Info(TraceInfo),
    /// Analyse waits and their causes, idle CPUs beside waiting tasks, run queues, migrations, groups
    #[command(
        long_about = "Analyses a trace in one pass. All formats of `vruntime trace info` can be read.\n\n  \
                      latency             delays from runnable to running, as `perf sched latency`\n  \
                      timehist            every switch, as `perf sched timehist`\n  \
                      summary             run time of each task, as `perf sched timehist --summary`\n  \
                      antagonists         which tasks had the CPU while others waited for it\n  \
                      idle-while-waiting  tasks that waited while an idle CPU could have run them\n  \
                      runqueue            runnable tasks on each CPU, over time\n  \
                      migrations          migrations by cause\n  \
                      groups              CPU time and entitlement of task groups\n  \
                      throttling          effects of the groups' limits\n  \
                      critical-path:TASK  what a task did, and during its sleeps the tasks that led to its wakeup\n\n\
                      The default is latency, antagonists, idle-while-waiting, runqueue and migrations; with --cgroups also \
                      groups and throttling. `vruntime run --analyse` accepts the same words.\n\nText traces of vruntime \
                      have the groups with weights and limits. For recordings, --cgroups supplies them.",
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
        long_about = "Writes the events of a trace as ftrace text (as trace-cmd report -t -N) or as a Perfetto trace, for \
                      https://ui.perfetto.dev. The name of OUT decides: text for .txt, .ftrace and .log, Perfetto for \
                      .perfetto-trace, .pftrace and .pb. --to overrides it. Reports how much a format cannot express.",
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
    /// The analyses, such as latency; several take one pass
    #[arg(value_name = "ANALYSIS", value_parser = crate::commands::analysis_word)]
    pub(crate) what: Vec<crate::commands::Asked>,
    /// Show a row for each task, and not for all tasks of one name
    #[arg(long)]
    pub(crate) each_task: bool,
    /// The task groups and affinities of the recorded machine, written by a script (docs/replay.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) cgroups: Option<PathBuf>,
    /// Show at most N rows of each table, and N lines of timehist (default: 25 rows, and every line)
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
    /// The format, whatever the name of OUT
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<TraceFormat>,
}

/// The format of written traces.
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
