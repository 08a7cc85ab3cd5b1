//! Errors in what a user asks the machine to do.

use std::fmt;

use vruntime_sched::class::deadline::SchedError;
use vruntime_sched::class::fair::LimitError;
use vruntime_sched::class::o1::GuaranteeError;
use vruntime_sched::class::rt::RtLimitError;
use vruntime_sched::energy::EnergyError;
use vruntime_sched::policy::Fault;
use vruntime_sched::{HotplugError, UclampError};

use crate::frequency::FrequencyError;
use crate::idle::IdleStateError;
use crate::moment::Moment;

/// " at 5.000 ms", or nothing at the start.
fn at(now: u64) -> String {
    if now == 0 { String::new() } else { format!(" at {}.{:03} ms", now / 1_000_000, now / 1_000 % 1_000) }
}

fn inside_of(group: Option<&str>) -> String {
    group.map_or_else(String::new, |group| format!("in group `{group}`: "))
}

/// Splits the scheduler's message at a semicolon into problem and help.
fn halves(error: &dyn fmt::Display) -> (String, Option<String>) {
    let text = error.to_string();
    match text.split_once("; ") {
        Some((wrong, mend)) => (wrong.to_owned(), Some(mend.to_owned())),
        None => (text, None),
    }
}

fn wrong(error: &dyn fmt::Display) -> String {
    halves(error).0
}

/// Adds the error number to a message without it.
fn with_errno(message: &str, errno: &str) -> String {
    if message.contains(errno) { message.to_owned() } else { format!("{message} ({errno})") }
}

/// The source of an impossible request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// A task, by name.
    Task(String),
    /// A group, by path.
    Group(String),
    /// A session, by name.
    Session(String),
    /// A change's time, nanoseconds after the start.
    Change(u64),
    /// The whole scenario.
    Scenario,
    /// The machine.
    Machine,
    /// The list of isolated CPUs.
    Isolated,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(name) => write!(f, "task `{name}`"),
            Self::Group(path) => write!(f, "group `{path}`"),
            Self::Session(name) => write!(f, "session `{name}`"),
            Self::Change(at) => write!(f, "a change at {}", Moment(*at)),
            Self::Scenario => f.write_str("the scenario"),
            Self::Machine => f.write_str("machine"),
            Self::Isolated => f.write_str("`isolated`"),
        }
    }
}

/// An invalid weight or CPU limit of a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// A limit of the root group.
    #[error("the root group has no limit")]
    RootLimit,
    /// A change of the root group.
    #[error("the root group has no weight and no limit")]
    Root,
    /// A weight of an idle group.
    #[error("group `{group}` is idle then, and the kernel refuses an idle group a weight (EINVAL)")]
    IdleWeight {
        /// The group's path.
        group: String,
    },
    /// A limit (`cpu.max`) that the kernel refuses.
    #[error("{}", wrong(.0))]
    Limit(LimitError),
}

/// Why a workload cannot run. [`Error::help`] says how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An affinity, a cpuset, or `isolated` names a CPU that the machine lacks.
    #[error(
        "{subject} {} CPU {cpu}, but the machine has {cpus} CPU(s), 0 to {}",
        if matches!(subject, Subject::Task(_)) { "is to run on" } else { "names" },
        cpus.saturating_sub(1)
    )]
    NoSuchCpu {
        /// The source of the request.
        subject: Subject,
        /// The CPU.
        cpu: u32,
        /// The machine's number of CPUs.
        cpus: usize,
    },
    /// The first group is not the root.
    #[error(
        "{}, expected the root group, `/`",
        first.as_ref().map_or_else(|| "the workload has no groups".to_owned(), |path| format!("the first group is `{path}`"))
    )]
    NoRoot {
        /// Path of the first group.
        first: Option<String>,
    },
    /// Every CPU is isolated.
    #[error("every CPU is isolated")]
    AllIsolated,
    /// `cpuset.cpus` or `cpuset.cpus.partition` of the root group.
    #[error("the root group has all CPUs and is a partition always")]
    RootCpuset,
    /// Partitions have taken all CPUs of a group with tasks.
    #[error("group `{group}` of task `{task}` has no CPUs left: child partitions own all of them")]
    NoCpus {
        /// The task.
        task: String,
        /// The group's path.
        group: String,
    },
    /// A guarantee without CPU resource controller.
    #[error(
        "group `{group}` has a guarantee, but Linux {kernel} lacks guarantees: they belong to the CPU resource controller"
    )]
    NoGuarantees {
        /// The group's path.
        group: String,
        /// The kernel.
        kernel: &'static str,
    },
    /// A class within a class of the CPU resource controller.
    #[error(
        "group `{group}` is inside another group, but the CPU resource controller of {kernel} has one level of groups"
    )]
    Nested {
        /// The group's path.
        group: String,
        /// The kernel.
        kernel: &'static str,
    },
    /// A guarantee that the CPU resource controller refuses.
    #[error(
        "group `{group}` is to be guaranteed {percent} % of the machine{}: {}", at(*.now), wrong(error)
    )]
    BadGuarantee {
        /// The group's path.
        group: String,
        /// Nanoseconds after the start.
        now: u64,
        /// The requested guarantee, percent of the machine.
        percent: u32,
        /// The reason.
        error: GuaranteeError,
    },
    /// The kernel is older than a requested feature.
    #[error("{subject} asks for {what}, which Linux {kernel} lacks: {since} introduced it")]
    TooOld {
        /// The source of the request.
        subject: Subject,
        /// The feature, in the kernel's words.
        what: &'static str,
        /// The kernel.
        kernel: &'static str,
        /// The first kernel with the feature.
        since: &'static str,
    },
    /// A reference to an object that does not exist.
    #[error("{subject} refers to {kind} number {index}, but the workload has {count}")]
    Dangling {
        /// The source of the reference.
        subject: Subject,
        /// "mutex", "task", ...
        kind: &'static str,
        /// The index.
        index: usize,
        /// The number of such objects.
        count: usize,
    },
    /// A value out of its range.
    #[error("{subject}: {what} is {value}, expected {expected}")]
    OutOfRange {
        /// The source of the value.
        subject: Subject,
        /// The value's name.
        what: &'static str,
        /// The value.
        value: i64,
        /// The allowed values.
        expected: &'static str,
    },
    /// Changes that are not in order of time.
    #[error("[[change]] at {} is listed after a later change", Moment(*at))]
    ChangeOrder {
        /// Nanoseconds after the start.
        at: u64,
    },
    /// An invalid weight or CPU limit of a group.
    #[error("{subject}: {error}")]
    BadLimit {
        /// The source of the value.
        subject: Subject,
        /// The reason.
        error: GroupError,
    },
    /// A message that never fits its pipe.
    #[error("task `{task}` moves {bytes} bytes at once through pipe `{pipe}`, which holds {capacity}")]
    MessageTooLong {
        /// The task.
        task: String,
        /// The pipe.
        pipe: String,
        /// The message's size, bytes.
        bytes: u32,
        /// The pipe's size, bytes.
        capacity: u32,
    },
    /// Nothing would ever stop the run.
    #[error("task `{task}` loops for ever, and the run has no duration")]
    NeverEnds {
        /// A task without end.
        task: String,
    },
    /// Only the limit of tasks would stop the run.
    #[error("task `{task}` is forked without end, and the run has no duration")]
    ForksForEver {
        /// A task that forks its own kind, directly or through others.
        task: String,
    },
    /// The kernel refuses `sched_setattr` or `sched_setaffinity` of a deadline task.
    #[error("task `{task}`{}: {}", at(*.now), with_errno(&wrong(error), errno))]
    Refused {
        /// The task.
        task: String,
        /// Nanoseconds after the start.
        now: u64,
        /// The error number of the call, such as `EBUSY`.
        errno: &'static str,
        /// The reason, and how to fix it.
        error: SchedError,
    },
    /// A real-time task in a group that may have none.
    #[error("task `{task}`{}: group `{group}` may have no real-time tasks (EPERM), for its `rt_runtime` is 0", at(*.now))]
    NoRtRuntime {
        /// The task.
        task: String,
        /// Nanoseconds after the start.
        now: u64,
        /// The group's path.
        group: String,
    },
    /// The kernel refuses a group's real-time limit.
    #[error("`rt_runtime` of group `{group}`{}: {}{}", at(*.now), inside_of(.inside.as_deref()), wrong(error))]
    BadRtLimit {
        /// The group's path.
        group: String,
        /// Nanoseconds after the start.
        now: u64,
        /// Path of the group whose sum is exceeded, if it is another.
        inside: Option<String>,
        /// The reason, with the arithmetic.
        error: RtLimitError,
    },
    /// Invalid frequencies.
    #[error("{}", wrong(.0))]
    Frequency(FrequencyError),
    /// An invalid energy model.
    #[error("{}", wrong(.0))]
    Energy(EnergyError),
    /// Invalid idle states.
    #[error("{}", wrong(.0))]
    IdleStates(IdleStateError),
    /// The kernel refuses utilisation clamps.
    #[error("task `{task}`{}: {}", at(*.now), wrong(error))]
    Clamps {
        /// The task.
        task: String,
        /// Nanoseconds after the start.
        now: u64,
        /// The reason.
        error: UclampError,
    },
    /// Operations follow each other without end while no time passes.
    #[error(
        "time stops at {}: the operations of task `{task}` in phase `{phase}` take no time",
        Moment(*now)
    )]
    NoProgress {
        /// Nanoseconds after the start.
        now: u64,
        /// The interpreted task.
        task: String,
        /// Its phase.
        phase: String,
    },
    /// Scheduler and machine keep each other busy at one instant, probably because a custom policy always reschedules.
    #[error("no time passes any more at {}: switches and interrupts follow each other without end", Moment(*now))]
    Stalled {
        /// Nanoseconds after the start.
        now: u64,
    },
    /// A custom scheduling policy broke a rule.
    #[error(
        "the policy, on CPU {cpu} at {}: {fault}{}",
        Moment(*now),
        task.as_ref().map_or_else(String::new, |task| format!(" (task `{task}`)"))
    )]
    Policy {
        /// Nanoseconds after the start.
        now: u64,
        /// The CPU.
        cpu: u32,
        /// The task. Of several, the one that has waited, or not run, for the longest time.
        task: Option<String>,
        /// The broken rule.
        fault: Fault,
    },
    /// A CPU that cannot go offline or online.
    #[error("hotplug at {}: {}", Moment(*at), wrong(reason))]
    Hotplug {
        /// Nanoseconds after the start.
        at: u64,
        /// The reason.
        reason: HotplugError,
    },
    /// Hotplug events that are not in order of time.
    #[error("hotplug at {} is listed after a later change", Moment(*at))]
    HotplugOrder {
        /// Nanoseconds after the start.
        at: u64,
    },
    /// A fork beyond [`Config::threads_max`](crate::Config::threads_max).
    #[error(
        "task `{task}`{}: cannot be forked (EAGAIN): {limit} tasks are alive beyond those of the workload, the most that `threads_max` allows",
        at(*.now)
    )]
    ForkRefused {
        /// The forked task's name in the workload.
        task: String,
        /// Nanoseconds after the start.
        now: u64,
        /// The limit.
        limit: usize,
    },
    /// More tasks than Linux has ids for (`PID_MAX_LIMIT`).
    #[error("the machine holds {limit} tasks, the workload needs more")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}

impl Error {
    /// Returns the fix, if the message does not contain it.
    ///
    /// ```
    /// use vruntime_sim::{Error, Subject};
    ///
    /// let error = Error::NoSuchCpu { subject: Subject::Task("web".to_owned()), cpu: 4, cpus: 4 };
    /// assert_eq!(error.to_string(), "task `web` is to run on CPU 4, but the machine has 4 CPU(s), 0 to 3");
    /// assert_eq!(error.help().as_deref(), Some("change `cpus`, or choose a larger machine"));
    /// ```
    pub fn help(&self) -> Option<String> {
        let help_of = |error: &dyn fmt::Display| halves(error).1;
        let help = match self {
            Self::NoSuchCpu { subject: Subject::Task(_), .. } => "change `cpus`, or choose a larger machine",
            Self::NoSuchCpu { .. } => "change the list, or choose a larger machine",
            Self::NoRoot { .. } => {
                "begin with `Group::root()`, as `Workload::default()` does, and list the others behind it"
            }
            Self::AllIsolated => "leave one for the tasks that ask for none",
            Self::RootCpuset => "give `cpus` or `partition` to a group below it",
            Self::NoCpus { .. } => "leave the group a CPU, or put the task into one of the partitions",
            Self::NoGuarantees { .. } => "choose 2.6.15-cpurc, or give the group a `weight` under 2.6.24 or later",
            Self::Nested { .. } => "put it right below the root, or choose 2.6.24 or later",
            Self::BadGuarantee { .. } => "lower it or that of another before, or move the group",
            Self::TooOld { .. } => "leave it out, or choose that kernel or a later one",
            Self::ChangeOrder { .. } => "sort them by time",
            Self::BadLimit { error: GroupError::RootLimit, .. } => "give one to a group below it",
            Self::BadLimit { error: GroupError::IdleWeight { .. }, .. } => {
                "give it `idle = false` before, or in the same change"
            }
            Self::NeverEnds { .. } => "give one, or a `loop` count",
            Self::ForksForEver { .. } => "give one, or remove the cycle of forks",
            Self::NoProgress { .. } => "add a `run` or a `sleep` to the loop, or use costs other than zero",
            Self::Stalled { .. } => "a scheduling policy must not ask for a reschedule each time it is rescheduled",
            Self::Policy { fault, .. } => fault.help(),
            Self::HotplugOrder { .. } => "sort the list by time",
            Self::ForkRefused { .. } => "let forked tasks end, shorten the run, or raise `threads_max`",
            Self::TooMany { .. } => "lower `instance` or `copies`, let forked tasks end, or shorten the run",
            Self::NoRtRuntime { group, .. } => {
                return Some(format!(
                    "write [groups.\"{group}\"] with rt_runtime = \"100ms\" or another runtime in each second, or choose another group or policy"
                ));
            }
            Self::Hotplug { reason, .. } => {
                let mend = "change `cpu` or `online`, or choose a larger machine";
                return Some(help_of(reason).map_or_else(|| mend.to_owned(), |first| format!("{first}; {mend}")));
            }
            Self::BadLimit { error: GroupError::Limit(error), .. } => return help_of(error),
            Self::Refused { error, .. } => return help_of(error),
            Self::BadRtLimit { error, .. } => return help_of(error),
            Self::Frequency(error) => return help_of(error),
            Self::Energy(error) => return help_of(error),
            Self::IdleStates(error) => return help_of(error),
            Self::Clamps { error, .. } => return help_of(error),
            Self::MessageTooLong { .. } => "move it in parts, or give the pipe a larger `capacity` (docs/waits.md)",
            Self::Dangling { .. } | Self::OutOfRange { .. } | Self::BadLimit { .. } => return None,
        };
        Some(help.to_owned())
    }
}
