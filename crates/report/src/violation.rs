//! A violation of work conservation, and its text.

use std::fmt::{self, Write};

use serde::Serialize;
use vruntime_trace::CpuMask;

use crate::printable::printable;
use crate::units::counted;

/// A bug of "A Decade of Wasted Cores" (Lozi et al., EuroSys 2016, section 3), or a later pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Balancing compared the two groups, and found nothing to move (3.1).
    GroupImbalance,
    /// Both CPUs are in one scheduling group at the level that should balance (3.2).
    GroupConstruction,
    /// The waiting tasks were woken there (3.3).
    OverloadOnWakeup,
    /// No scheduling domain has both CPUs (3.4).
    MissingDomains,
    /// 5.4+: wakeups chose a CPU with only SCHED_IDLE tasks, and preempted them (`sched_idle_cpu`).
    SchedIdleCpu,
    /// None of these.
    Other,
}

impl Pattern {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GroupImbalance => "group imbalance",
            Self::GroupConstruction => "scheduling group construction",
            Self::OverloadOnWakeup => "overload on wakeup",
            Self::MissingDomains => "missing scheduling domains",
            Self::SchedIdleCpu => "sched_idle_cpu",
            Self::Other => "none of the known patterns",
        }
    }

    /// Returns the meaning, and where to look.
    const fn meaning(self) -> &'static str {
        match self {
            Self::GroupImbalance => {
                "balancing compared the groups and found no imbalance: a task of great weight beside the idle CPU can raise the average load of its group"
            }
            Self::GroupConstruction => {
                "both CPUs are in the idle CPU's own group, which is never balanced with itself: the groups were not built from the view of this CPU"
            }
            Self::OverloadOnWakeup => {
                "the tasks were woken on the busy CPU: wakeups search for an idle CPU only nearby, and return tasks that balancing had moved"
            }
            Self::MissingDomains => {
                "no scheduling domain has both CPUs, so they are never balanced: domains are missing (in the paper: after a CPU was offline)"
            }
            Self::SchedIdleCpu => {
                "tasks woke up on CPUs of SCHED_IDLE tasks, and share them since; a wakeup treats a CPU that runs only \
                 SCHED_IDLE tasks as idle (5.4+), even beside CPUs that run nothing"
            }
            Self::Other => {
                "balancing found an imbalance and did not remove it: it tolerates small differences, and affinities of \
                 other tasks can mislead it"
            }
        }
    }
}

/// A scheduling group in a window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// CPUs, such as `0-7,16`.
    pub cpus: String,
    /// Number of CPUs.
    pub count: usize,
    /// Busy CPUs, on average.
    #[serde(rename = "busy_cpus")]
    pub busy: f64,
    /// Waiting tasks, on average.
    #[serde(rename = "waiting_tasks")]
    pub waiting: f64,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpus, count, busy, waiting } = self;
        write!(f, "{cpus} ({busy:.1} of {count} busy, {waiting:.1} tasks waiting)")
    }
}

/// A CPU idled while tasks that may run there waited on another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// Its pattern.
    pub pattern: Pattern,
    /// Start of the first window, nanoseconds.
    pub from_ns: u64,
    /// End of the last window, nanoseconds.
    pub until_ns: u64,
    /// The idle CPU nearest to the waiting tasks.
    pub idle_cpu: usize,
    /// Most idle CPUs of the machine in a window.
    pub idle_cpus: usize,
    /// Mean of the machine's waiting tasks that could have used an idle CPU, in the worst window.
    pub wasted_cpus: f64,
    /// CPU of the task that waited longest.
    pub waiting_cpu: usize,
    /// Most CPUs of `waiting_side` with waiting tasks in a window.
    pub waiting_cpus: usize,
    /// The longest waiting task of the first window.
    pub task: String,
    /// Its total wait in a window, nanoseconds.
    pub task_wait_ns: u64,
    /// Level of the idle CPU's lowest domain with both CPUs, if there is one.
    pub level: Option<String>,
    /// CPUs of that domain.
    pub domain: Option<String>,
    /// The idle CPU's group in it, or all CPUs it is balanced with.
    pub idle_side: Side,
    /// The waiting tasks' group, or all CPUs their CPU is balanced with.
    pub waiting_side: Side,
}

impl Violation {
    /// Extends it by a window.
    pub(crate) fn extend(&mut self, window: &Self) {
        self.until_ns = window.until_ns;
        if self.pattern == Pattern::Other {
            // One window can show the pattern.
            self.pattern = window.pattern;
        }
        self.idle_cpus = self.idle_cpus.max(window.idle_cpus);
        self.wasted_cpus = self.wasted_cpus.max(window.wasted_cpus);
        self.waiting_cpus = self.waiting_cpus.max(window.waiting_cpus);
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ns: u64| ns as f64 / 1e9;
        write!(
            f,
            "{:.3} s to {:.3} s, {}: CPU {} was idle while tasks waited on CPU {}, `{}` for {:.0} ms in one window. ",
            seconds(self.from_ns),
            seconds(self.until_ns),
            self.pattern.name(),
            self.idle_cpu,
            self.waiting_cpu,
            printable(&self.task),
            self.task_wait_ns as f64 / 1e6,
        )?;
        write!(
            f,
            "{} of the machine {} idle. On average, {:.1} waiting tasks could have run there. Tasks waited on {} of \
             their group. ",
            counted(self.idle_cpus as u64, "CPU", "CPUs"),
            if self.idle_cpus == 1 { "was" } else { "were" },
            self.wasted_cpus,
            counted(self.waiting_cpus as u64, "CPU", "CPUs")
        )?;
        match (&self.level, &self.domain) {
            (Some(level), Some(domain)) => write!(f, "Domain {level} of CPUs {domain}, its groups ")?,
            _ => write!(f, "The balancer never compares the CPUs ")?,
        }
        write!(f, "{} and {}: {}.", self.idle_side, self.waiting_side, self.pattern.meaning())
    }
}

/// Returns CPUs in the kernel's format: `0-7,16`.
pub(crate) fn cpu_list(cpus: &CpuMask) -> String {
    let all: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
    let mut text = String::new();
    for run in all.chunk_by(|a, b| a + 1 == *b) {
        let comma = if text.is_empty() { "" } else { "," };
        let (first, last) = (run[0], run[run.len() - 1]);
        // Writing to a String cannot fail.
        let _written =
            if first == last { write!(text, "{comma}{first}") } else { write!(text, "{comma}{first}-{last}") };
    }
    text
}
