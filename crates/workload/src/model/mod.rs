//! Classic benchmarks as workloads, by command line: `hackbench -pipe 10 process 1000`.
//!
//! A model has what the scheduler sees: wakeups, bytes, times, parameters. Endless benchmarks have a default duration,
//! as the original, which scenarios can override.

mod args;
mod hogs;
mod make;
mod messages;
mod periodic;

use std::fmt;
use std::sync::Arc;

use self::args::Args;
use crate::program::{Benchmark, Op, Phase, Repeat, Settings, Task, Workload};
use crate::suggest::did_you_mean;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// The most tasks or groups of a benchmark.
const MOST: u64 = 100_000;

struct Model {
    name: &'static str,
    usage: &'static str,
    what: &'static str,
    build: fn(&mut Args<'_>) -> Result<Workload, ModelError>,
}

const MODELS: &[Model] = &[
    Model {
        name: "lat_ctx",
        usage: "lat_ctx -s SIZE N",
        what: "N processes in a ring of pipes pass a byte; each reads SIZE KiB of its own when it has it (lmbench)",
        build: messages::lat_ctx,
    },
    Model {
        name: "pipe-test",
        usage: "pipe-test [LOOPS]",
        what: "two processes send each other an int through two pipes, LOOPS times or for ever",
        build: messages::pipe_test,
    },
    Model {
        name: "hackbench",
        usage: "hackbench [-pipe] GROUPS [process|thread] [LOOPS]` or `hackbench [-p] [-g GROUPS] [-f FDS] [-l LOOPS] [-s BYTES] [-P|-T]",
        what: "GROUPS times 20 senders and 20 receivers: each sender sends LOOPS (100) messages of 100 bytes to each receiver",
        build: messages::hackbench,
    },
    Model {
        name: "kernbench",
        usage: "kernbench [-j N] [--files=N] [--compilers-only]",
        what: "a kernel of 1536 files is compiled by make -j N (8): nine processes and a pipe for each, and a link",
        build: make::kernbench,
    },
    Model {
        name: "sysbench",
        usage: "sysbench cpu [--num-threads=N] [--max-time=SECONDS]",
        what: "N (1) threads that compute prime numbers in events of 1 ms, for 10 s",
        build: hogs::sysbench,
    },
    Model {
        name: "wakers",
        usage: "wakers N PERIOD [WORK]",
        what: "N processes that sleep PERIOD and work WORK (1500ns), for ever: usleep in a loop",
        build: periodic::wakers,
    },
    Model {
        name: "idle-groups",
        usage: "idle-groups N",
        what: "N task groups without a task",
        build: hogs::idle_groups,
    },
    Model {
        name: "schbench",
        usage: "schbench [-m MESSAGE_THREADS] [-t WORKERS] [-c USECS] [-s USECS] [-r SECONDS] [-R REQUESTS]",
        what: "2 message threads that sleep 30000 us and then wake their 16 workers, which compute 30000 us by the clock",
        build: periodic::schbench,
    },
    Model {
        name: "cyclictest",
        usage: "cyclictest [-t N] [-p PRIORITY] [-i USECS] [-d USECS]",
        what: "N (1) threads: the first wakes every 1000 us, each next one 500 us slower; SCHED_FIFO if PRIORITY is given (one less for each next thread)",
        build: periodic::cyclictest,
    },
    Model {
        name: "stress-ng",
        usage: "stress-ng --pipe N [--pipe-data-size BYTES] [--timeout SECONDS]",
        what: "N pairs of a writer and a reader of messages of BYTES (512), over pipes that hold 16 of them (O_DIRECT), for 10 s",
        build: messages::stress_ng,
    },
];

/// An error in a benchmark's command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelError {
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub help: String,
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

impl std::error::Error for ModelError {}

/// Returns the usage and description of each benchmark.
pub fn models() -> impl Iterator<Item = (&'static str, &'static str)> {
    MODELS.iter().map(|model| (model.usage, model.what))
}

/// Returns the workload of a benchmark's command line.
///
/// # Errors
///
/// If the benchmark or a parameter does not exist.
///
/// ```
/// use vruntime_workload::model;
/// let messages = model::parse("hackbench -pipe 2 process 1000").unwrap();
/// assert_eq!(messages.tasks.len(), 80);
/// assert!(model::parse("hackbnch 2").unwrap_err().help.contains("hackbench"));
/// ```
pub fn parse(command: &str) -> Result<Workload, ModelError> {
    let mut words = command.split_whitespace();
    let name = words.next().unwrap_or_default();
    let Some(model) = MODELS.iter().find(|model| model.name == name) else {
        let help = did_you_mean(name, MODELS.iter().map(|model| model.name));
        return Err(ModelError { message: format!("unknown model `{name}`"), help });
    };
    let mut args = Args::new(words.collect(), model.usage);
    let mut workload = (model.build)(&mut args)?;
    args.finish()?;
    let tasks = 0..workload.tasks.len();
    workload.benchmarks.push(Benchmark { command: command.to_owned(), tasks, start: 0 });
    Ok(workload)
}

fn program(ops: Vec<Op>, repeat: Repeat) -> Arc<[Phase]> {
    [phase(ops, repeat)].into()
}

fn phase(ops: Vec<Op>, repeat: Repeat) -> Phase {
    Phase { name: "loop".to_owned(), repeat, settings: Settings::default(), ops }
}

/// Makes all tasks threads of one process.
fn of_one_process(workload: &mut Workload) {
    for task in &mut workload.tasks {
        task.process = Some(0);
    }
}

/// Returns a task that starts with the run and executes `phases` once.
fn task(class: &str, instance: Option<u64>, phases: &Arc<[Phase]>) -> Task {
    Task {
        name: instance.map_or_else(|| class.to_owned(), |instance| format!("{class}-{instance}")),
        class: class.to_owned(),
        start: Some(0),
        before: None,
        wakee_flips: 0,
        averages: None,
        session: None,
        process: None,
        settings: Settings::default(),
        phases: Arc::clone(phases),
        repeat: Repeat::Times(1),
    }
}
