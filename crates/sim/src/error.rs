//! What can be wrong with what a user asks the machine to do.

use vruntime_sched::UclampError;
use vruntime_sched::class::deadline::SchedError;
use vruntime_sched::class::o1::GuaranteeError;
use vruntime_sched::class::rt::RtLimitError;
use vruntime_sched::energy::EnergyError;

use crate::frequency::FrequencyError;
use crate::idle::IdleStateError;
use crate::moment::Moment;

/// " at 5.000 ms", unless that is the beginning.
fn at(now: u64) -> String {
    if now == 0 { String::new() } else { format!(" at {}.{:03} ms", now / 1_000_000, now / 1_000 % 1_000) }
}

/// "in group `/x`: ", if it is another.
fn inside_of(group: Option<&str>) -> String {
    group.map_or_else(String::new, |group| format!("in group `{group}`: "))
}

/// Why a workload cannot be run. Each message says what was expected and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A task may only run on CPUs the machine does not have.
    #[error(
        "task `{task}` is to run on CPU {cpu}, but the machine has {cpus} CPU(s), 0 to {}; \
         change `cpus`, or choose a larger machine with --machine", cpus.saturating_sub(1)
    )]
    UnknownCpu {
        /// Name of the task.
        task: String,
        /// The CPU it names.
        cpu: u32,
        /// How many the machine has.
        cpus: usize,
    },
    /// A cpuset, or `isolated`, has a CPU the machine does not have.
    #[error("{who} names CPU {cpu}, but the machine has {cpus} CPU(s), 0 to {}; change the list, or choose a larger machine with --machine", cpus.saturating_sub(1))]
    NoSuchCpu {
        /// Who names it.
        who: String,
        /// The CPU.
        cpu: u32,
        /// How many the machine has.
        cpus: usize,
    },
    /// The first of the workload's groups is not the root.
    #[error(
        "{}, expected the root group, `/`; begin with `Group::root()`, as `Workload::default()` does, and list the others behind it",
        first.as_ref().map_or_else(|| "the workload has no groups".to_owned(), |path| format!("the first group is `{path}`"))
    )]
    NoRoot {
        /// Path of the first group; none if there is no group at all.
        first: Option<String>,
    },
    /// No CPU is left for everybody else.
    #[error("every CPU is isolated; leave one for the tasks that ask for none")]
    AllIsolated,
    /// `cpuset.cpus` or `cpuset.cpus.partition` of the root group.
    #[error("the root group has all CPUs and is a partition always; give `cpus` or `partition` to a group below it")]
    RootCpuset,
    /// Partitions have taken all CPUs of a group with tasks.
    #[error(
        "task `{task}` is to be in group `{group}`, all of whose CPUs partitions below it have; leave the group a CPU, \
         or put the task into one of them"
    )]
    NoCpus {
        /// The task.
        task: String,
        /// Its group's path.
        group: String,
    },
    /// A guarantee, and no CPU resource controller.
    #[error(
        "group `{group}` asks for a guarantee, which Linux {kernel} does not have: it is of the CPU resource controller; choose \
         2.6.15-cpurc with --kernel, or give the group a `weight` under 2.6.24 or later"
    )]
    NoGuarantees {
        /// Path of the group.
        group: String,
        /// The kernel.
        kernel: &'static str,
    },
    /// A class within a class.
    #[error(
        "group `{group}` is inside another group, and the CPU resource controller of {kernel} knows one level of them; put it right \
         below the root, or choose 2.6.24 or later with --kernel"
    )]
    Nested {
        /// Path of the group.
        group: String,
        /// The kernel.
        kernel: &'static str,
    },
    /// A guarantee that the CPU resource controller does not give.
    #[error(
        "group `{group}` is to be guaranteed {percent} % of the machine{}: {error}; lower it or that of another before, or move the group",
        at(*.now)
    )]
    BadGuarantee {
        /// Path of the group.
        group: String,
        /// When, nanoseconds after the start.
        now: u64,
        /// What it asks for.
        percent: u32,
        /// Why it cannot be.
        error: GuaranteeError,
    },
    /// The kernel is older than what is asked of it.
    #[error("{who} asks for {what}, which Linux {kernel} does not have: it came with {since}; {mend}")]
    TooOld {
        /// `task`, `group` and its name.
        who: String,
        /// What it asks for, in the kernel's words.
        what: &'static str,
        /// The kernel.
        kernel: &'static str,
        /// The kernel that brought it.
        since: &'static str,
        /// What to do about it.
        mend: &'static str,
    },
    /// A workload refers to an object that does not exist.
    #[error("task `{task}` refers to {kind} number {index}, but the workload has {count}")]
    Dangling {
        /// Name of the task.
        task: String,
        /// "mutex", "task", ...
        kind: &'static str,
        /// The index it holds.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A value out of its range.
    #[error("{who}: {what} is {value}, expected {expected}")]
    OutOfRange {
        /// `task`, `group` and its name.
        who: String,
        /// Name of the value.
        what: &'static str,
        /// The value.
        value: i64,
        /// What is allowed.
        expected: &'static str,
    },
    /// Changes of a workload that are not in order of time.
    #[error("[[change]] at {} comes after a later one; sort them by time", Moment(*at))]
    ChangeOrder {
        /// When it is, nanoseconds.
        at: u64,
    },
    /// A CPU limit (`cpu.max`) that the kernel would refuse.
    #[error("{who}: {reason}")]
    BadLimit {
        /// `group` and its path.
        who: String,
        /// What is wrong with it, and what the kernel accepts.
        reason: String,
    },
    /// A message that can never fit its pipe.
    #[error("task `{task}` moves {bytes} bytes at once through pipe `{pipe}`, which holds {capacity}")]
    MessageTooLong {
        /// Name of the task.
        task: String,
        /// Name of the pipe.
        pipe: String,
        /// Bytes of the message.
        bytes: u32,
        /// Bytes the pipe holds.
        capacity: u32,
    },
    /// Nothing would ever stop the run.
    #[error(
        "task `{task}` loops for ever and there is no duration: \
         give one (`global.duration` in the file, or --duration), or a `loop` count"
    )]
    NeverEnds {
        /// A task that has no end.
        task: String,
    },
    /// `sched_setattr` or `sched_setaffinity` of a deadline task is refused.
    #[error("task `{task}`{}: {error}", at(*.now))]
    Refused {
        /// The task.
        task: String,
        /// When it asks, nanoseconds after the start.
        now: u64,
        /// Why, and how to mend it.
        error: SchedError,
    },
    /// A real-time task is in a group, or is to go to one, that may have none.
    #[error(
        "task `{task}`{}: group `{group}` may have no real-time tasks (EPERM), for its `rt_runtime` is 0; write \
         [groups.\"{group}\"] with rt_runtime = \"100ms\" or what it is to have of each second, or choose another group or policy",
        at(*.now)
    )]
    NoRtRuntime {
        /// The task.
        task: String,
        /// When it asks, nanoseconds after the start.
        now: u64,
        /// Path of the group.
        group: String,
    },
    /// A group's limit of real-time time that the kernel refuses.
    #[error("`rt_runtime` of group `{group}`{}: {}{error}", at(*.now), inside_of(.inside.as_deref()))]
    BadRtLimit {
        /// Path of the group.
        group: String,
        /// When, nanoseconds after the start.
        now: u64,
        /// Path of the group the sum is of, if it is another.
        inside: Option<String>,
        /// Why, with the arithmetic.
        error: RtLimitError,
    },
    /// The machine's frequencies make no sense.
    #[error("{0}")]
    Frequency(FrequencyError),
    /// The machine's energy model makes no sense.
    #[error("{0}")]
    Energy(EnergyError),
    /// The machine's idle states make no sense.
    #[error("{0}")]
    IdleStates(IdleStateError),
    /// Utilisation clamps are refused.
    #[error("task `{task}`{}: {error}", at(*.now))]
    Clamps {
        /// The task.
        task: String,
        /// When it asks, nanoseconds after the start.
        now: u64,
        /// Why.
        error: UclampError,
    },
    /// Operations follow each other without end and no time passes.
    #[error(
        "no time passes any more at {}: task `{task}` is in phase `{phase}`, whose operations take no time; \
         add a `run` or a `sleep` to the loop, or use costs other than zero",
        Moment(*now)
    )]
    NoProgress {
        /// Nanoseconds since the start.
        now: u64,
        /// The task that was being interpreted.
        task: String,
        /// Its phase.
        phase: String,
    },
    /// The scheduler and the machine keep each other busy without time passing: a fault in one of them, most likely in
    /// a policy of your own that asks for a reschedule at every reschedule.
    #[error(
        "no time passes any more at {}: switches and interrupts follow each other without end; \
         a scheduling policy must not ask for a reschedule each time it is rescheduled",
        Moment(*now)
    )]
    Stalled {
        /// Nanoseconds since the start.
        now: u64,
    },
    /// A CPU that cannot go offline, or come back.
    #[error("hotplug at {}: {reason}; change `cpu` or `online`, or choose a larger machine with --machine", Moment(*at))]
    Hotplug {
        /// When, nanoseconds.
        at: u64,
        /// Why.
        reason: vruntime_sched::HotplugError,
    },
    /// CPUs go and come in an order that is not that of time.
    #[error("hotplug at {} comes after a later one in the list; sort the list by time", Moment(*at))]
    HotplugOrder {
        /// When, nanoseconds.
        at: u64,
    },
    /// More tasks than the machine can tell apart (Linux: `PID_MAX_LIMIT`).
    #[error(
        "the machine holds {limit} tasks, the workload needs more; lower `instance` or `copies`, let forked tasks end, or shorten the run with --duration"
    )]
    TooMany {
        /// How many fit.
        limit: usize,
    },
}
