//! Makes programs of a recorded trace: each thread's work, as a workload for another scheduler.
//!
//! Give a [`Recorder`] the trace's events in order of time; [`Recorder::finish`] makes a task of every thread. Its work
//! is its thread's CPU time. Each sleep ends as in the trace: by another task, a timer or a device ([`Habit`]).
//!
//! ```
//! use vruntime_replay::recorded::{Event, Lateness, Left, Named, Recorder, What};
//! use vruntime_workload::program::Op;
//!
//! let (idle, web) = (Named { pid: 0, comm: b"swapper/0" }, Named { pid: 7, comm: b"web" });
//! let switch = |prev, left, next| What::Switch { prev, prev_prio: 120, left, next, next_prio: 120 };
//! let mut recorder = Recorder::new();
//! recorder.add(&Event { at: 1_000, cpu: 0, pid: 0, tgid: None, context: None, what: What::Woken { task: web, prio: 120 } });
//! recorder.add(&Event { at: 1_500, cpu: 0, pid: 0, tgid: None, context: None, what: switch(idle, Left::Runnable, web) });
//! recorder.add(&Event { at: 9_500, cpu: 0, pid: 7, tgid: None, context: None, what: switch(web, Left::Sleeping, idle) });
//! let recorded = recorder.finish(&Lateness::default());
//! assert_eq!(recorded.workload.tasks[0].phases[0].ops, [Op::SleepUntil { at: 1_000 }, Op::Run { work: 8_000 }]);
//! assert_eq!((recorded.threads[0].cpu_ns, &recorded.threads[0].latencies[..]), (8_000, &[500][..]));
//! assert_eq!(recorded.threads[0].waited_ns, Some(500));
//! ```

mod averages;
mod barriers;
mod batches;
mod causes;
mod clocks;
mod cycle;
mod endless;
mod exchanges;
mod exits;
mod flows;
mod habits;
mod handoffs;
mod leads;
mod locks;
mod messages;
mod pairs;
mod pauses;
mod placing;
mod pools;
mod possible;
mod prepared;
mod programs;
mod progress;
mod roles;
mod roster;
mod rounds;
pub mod rules;
mod seams;
mod sessions;
mod sync;
mod talks;
#[cfg(test)]
mod tests;
mod threads;
mod ticks;

pub use habits::Habit;
pub use pairs::Coupling;
pub(crate) use pairs::recoupled;
pub(crate) use prepared::Prepared;
pub use threads::Reason;

use std::collections::{BTreeMap, BTreeSet};

use vruntime_sim::SwitchCosts;
use vruntime_sim::plan::Ticks;
use vruntime_trace::read::Losses;
use vruntime_workload::cgroups::Cgroups;
use vruntime_workload::program::{Policy, Workload};

use threads::Activity;
use ticks::TickFinder;
pub use vruntime_trace::Context;

/// A task as an event names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Its thread id; 0: an idle task.
    pub pid: i32,
    /// Its name.
    pub comm: &'a [u8],
}

/// Why a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It was preempted, or it yielded.
    Runnable,
    /// It was preempted inside the kernel (`R+`), so it did not yield.
    Preempted,
    /// It sleeps.
    Sleeping,
    /// It sleeps, without signals (`D`).
    Uninterruptible,
    /// It has ended.
    Dead,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// `sched_switch`.
    Switch {
        /// The task that left.
        prev: Named<'a>,
        /// Its priority: 120 + nice, 99 - the real-time priority, -1 for deadline tasks.
        prev_prio: i32,
        /// Why.
        left: Left,
        /// The next task.
        next: Named<'a>,
        /// Its priority.
        next_prio: i32,
    },
    /// `sched_waking`. The first of a sleep counts.
    Woken {
        /// The woken task.
        task: Named<'a>,
        /// Its priority.
        prio: i32,
    },
    /// `sched_wakeup`: the task is on a run queue. Counts as the wakeup without a `sched_waking`.
    Enqueued {
        /// The woken task.
        task: Named<'a>,
        /// Its priority.
        prio: i32,
        /// The run queue's CPU, if known.
        target: Option<u32>,
    },
    /// `sched_wakeup_new`.
    WokenNew {
        /// The new task.
        task: Named<'a>,
        /// Its priority.
        prio: i32,
    },
    /// `sched_process_fork`.
    Fork {
        /// The parent.
        parent: Named<'a>,
        /// The new task.
        child: Named<'a>,
        /// Whether both are threads of one process (`CLONE_THREAD`), if known.
        thread: Option<bool>,
    },
    /// `sched_stat_runtime`: CPU time since the last charge. It replaces missing switches.
    Charged {
        /// The task.
        task: Named<'a>,
        /// Nanoseconds.
        ns: u64,
    },
    /// `sched_migrate_task`: the task moves to another CPU's run queue.
    Migrated {
        /// The task.
        task: Named<'a>,
        /// The CPU that it leaves.
        from: u32,
    },
    /// `sched_process_exec`: the task runs another program.
    Executes {
        /// Its thread id.
        pid: i32,
    },
    /// The task has a new name.
    Rename {
        /// The task.
        task: Named<'a>,
    },
    /// `cgroup_attach_task`: the task has a new group.
    Attached {
        /// The task.
        task: Named<'a>,
        /// The hierarchy's number; 0: cgroup v2.
        hierarchy: i32,
        /// The group's path.
        path: &'a [u8],
    },
    /// A mark of our own runs: new settings of a group of hierarchy 0.
    Group {
        /// Its absolute path.
        path: &'a str,
        /// `cpu.weight`.
        weight: u32,
        /// `cpu.idle`.
        idle: bool,
        /// `cpu.max`: quota and period, nanoseconds; none: no limit.
        max: Option<(u64, u64)>,
    },
    /// `cpu_frequency`.
    Frequency {
        /// The CPU.
        cpu: u32,
        /// Its new frequency.
        khz: u32,
    },
    /// Whether the event's CPU is online from now on.
    Online(bool),
    /// An Internet socket is connected. An earlier one had the same address in the kernel.
    Connected {
        /// The socket.
        socket: u64,
        /// Its port and its peer's.
        ports: (u16, u16),
    },
    /// The running task has sent data.
    Sent {
        /// The socket.
        socket: u64,
        /// The length, at least 1.
        bytes: u64,
    },
    /// The running task has received data.
    Received {
        /// The socket.
        socket: u64,
        /// The length, at least 1.
        bytes: u64,
    },
    /// Earlier events of this CPU are missing.
    Lost {
        /// Their number, if the trace has it.
        events: Option<u64>,
    },
    /// The trace continues to here.
    End,
}

/// An event of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Nanoseconds since the trace's start.
    pub at: u64,
    /// Its CPU.
    pub cpu: u32,
    /// The running task in the file. Switches take precedence.
    pub pid: i32,
    /// That thread's process, if known.
    pub tgid: Option<i32>,
    /// Its context, if known: an interrupted task is not the waker.
    pub context: Option<Context>,
    /// What happened.
    pub what: What<'a>,
}

/// How late simulated timers wake tasks, nanoseconds. Replayed sleeps are shorter by that, to end at the recorded time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// From a timer's time to the wakeup, without slack.
    pub timer: u64,
    /// Timer slack without real-time priority.
    pub slack: u64,
}

/// Oddities of a trace, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events with times before their predecessor's.
    pub backwards: u64,
    /// Lost events.
    pub losses: Losses,
    /// Switches away from a task not known to run there, after the CPU's first.
    pub broken_switches: u64,
    /// Switches from the idle task to one that acted on its CPU later.
    pub missing_arrivals: u64,
    /// Charges of `sched_stat_runtime`, nanoseconds; 0: none in the trace.
    pub charged_ns: u64,
    /// Tasks running when the trace began.
    pub running_at_start: u64,
    /// Sleeps that no event ended.
    pub unwoken: u64,
    /// Pids of two tasks.
    pub reused: u64,
    /// Deadline tasks: no trace has their parameters, so they replay as the most urgent SCHED_FIFO.
    pub deadline: u64,
    /// Omitted threads, which the simulator has (`migration/N`).
    pub left_out: u64,
    /// Tasks taken to be pinned: they waited beside an idle CPU.
    pub confined: u64,
    /// Tasks with affinities, according to the machine.
    pub affinities: u64,
    /// Tasks that waited on an idle CPU, as if throttled, while groups are unknown.
    pub throttled: u64,
    /// Tasks without a sleep until the trace ended: they continue to the replay's end.
    pub endless: u64,
    /// Pairs of a waker and a task that waits for it.
    pub follows: u64,
    /// Handoffs without an event.
    pub hidden_handoffs: u64,
    /// Waits for locks within pools.
    pub lock_waits: u64,
    /// Messages between tasks, by events of sockets and by wakeups of exchanges.
    pub messages: u64,
    /// Sockets from which several threads receive. They have no messages in the replay.
    pub shared_sockets: u64,
    /// Connections without messages in the replay: with them, a task would wait for a message for ever.
    pub left_out_connections: u64,
    /// Tasks in [closed loops](Thread::closed).
    pub closed: u64,
    /// Bit N: members of kind N of [`Recorded::pools`] certainly share their work.
    pub certain_pools: u32,
    /// Tasks that began outside the root group, as far as known.
    pub grouped: u64,
    /// Tasks without a known group: they are in the root.
    pub ungrouped: u64,
    /// Task groups without known settings: they have the default weight and no limits.
    pub bare_groups: u64,
    /// Moves between groups.
    pub moves: u64,
    /// Threads with known autogroups.
    pub autogrouped: u64,
    /// Changes of CPU frequencies.
    pub frequencies: u64,
    /// Changes of CPUs to offline or online.
    pub hotplug: u64,
    /// Tasks that share the times of their timers.
    pub sharing: u64,
    /// Cost of recorded events that is longer than the time of their tasks, nanoseconds: it is not subtracted.
    pub unsubtracted_ns: u64,
    /// Cost of recorded switches and wakeups that is longer than the time of their tasks, nanoseconds. It stays in the
    /// work, although the replay [charges](Recorder::charge_switches) them.
    pub uncharged_ns: u64,
}

/// A thread of the trace, with its measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its thread id.
    pub pid: i32,
    /// Its process, if known.
    pub tgid: Option<i32>,
    /// Its last name.
    pub comm: String,
    /// Index in [`Workload::tasks`]; none: not replayed.
    pub task: Option<usize>,
    /// How it sleeps.
    pub habit: Habit,
    /// How long it computes between sleeps, nanoseconds, if the clock bounds that. None: it has work to do.
    pub computes_for: Option<u64>,
    /// Whether it does more when it gets more CPU (a closed loop).
    pub closed: bool,
    /// Number of wakeups.
    pub rounds: u64,
    /// The kind of its possible pool in [`Recorded::pools`], which the replay may ignore.
    pub pool: Option<usize>,
    /// Its parent's index in [`Recorded::threads`], if known.
    pub parent: Option<usize>,
    /// Its last cgroup, if known. Without weights it is no task group.
    pub cgroup: Option<String>,
    /// Its cgroups in order, with nanoseconds of CPU time in each; empty if unknown.
    pub stays: Vec<(String, u64)>,
    /// The only CPU it may run on, as known or assumed.
    pub confined: Option<u32>,
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Part of `cpu_ns` that recording took, and that the replayed work lacks. 0 if switches are charged.
    pub subtracted_ns: u64,
    /// Part of `cpu_ns` of switches and wakeups, and of the recording of their events, which the work lacks. The replay
    /// [charges](Recorder::charge_switches) them for its own switches and wakeups.
    pub charged_ns: u64,
    /// Time runnable without a CPU, nanoseconds. None: the trace has no wakeups to tell waits from sleeps.
    pub waited_ns: Option<u64>,
    /// Number of switches away from it.
    pub switches: u64,
    /// From each wakeup until it ran, nanoseconds, in order.
    pub latencies: Vec<u64>,
}

/// A trace as a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// A task for each thread.
    pub workload: Workload,
    /// Every thread seen.
    pub threads: Vec<Thread>,
    /// Busy time of each CPU.
    pub busy_ns: Vec<u64>,
    /// For how long the trace has each CPU's events: all the time, unless they are lost to the end.
    pub known_ns: Vec<u64>,
    /// From the first to the last event.
    pub duration_ns: u64,
    /// When the machine's ticks came, if known.
    pub ticks: Option<Ticks>,
    /// The kinds of possible pools, by name, used or not. Pools of processes that end are one kind if they have one
    /// name. Every other pool is a kind of its own.
    pub pools: Vec<String>,
    /// When the part begins that closed loops repeat, nanoseconds since the start.
    pub repeats_from: u64,
    /// Oddities.
    pub counts: Counts,
    /// The number of the first waker that is a link of [`Messages`](messages::Messages).
    first_link: usize,
}

/// Takes a trace's events.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    activity: Activity,
    ticks: TickFinder,
    how: How,
    cpus: usize,
}

/// How a replay reads a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Threads wait for wakeups.
    #[default]
    Wakeups,
    /// Every wakeup keeps its recorded time.
    Times,
    /// Threads wait for wakeups, and for the messages that [`What::Sent`] and [`What::Received`] show.
    Messages,
}

/// Settings for making programs.
#[derive(Clone, Debug, Default)]
struct How {
    reads: Reads,
    /// Omitted threads.
    without: BTreeSet<usize>,
    /// The machine's groups, if recorded.
    cgroups: Option<Cgroups>,
    coupling: Coupling,
    /// Wakeups are [synchronous](sync) where the trace allows it.
    sync: bool,
    /// Kinds of pools whose members do each other's work: bit N is for the (N+1)th busiest.
    pools: u32,
    /// Closed loops continue after the recorded work.
    goes_on: bool,
    /// The user's statements on threads.
    closed: BTreeMap<usize, Closed>,
    /// Process and its parent, by thread id.
    processes: BTreeMap<i32, (i32, i32)>,
    /// Policies when the recording began, by thread id.
    policies: BTreeMap<i32, Policy>,
    without_connections: BTreeSet<Connection>,
    /// Switches and wakeups are not work.
    charges_switches: bool,
}

/// The two sockets of a connection, the smaller number first.
pub(crate) type Connection = (usize, usize);

/// Whether a thread does more with more CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It does: tasks give it work as fast as they can.
    Yes,
    /// It does not: its work arrives from outside, at given times.
    No,
}

/// References of a workload to CPUs that a machine lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfit {
    /// Tasks that were confined to such CPUs, and now run anywhere.
    pub tasks: usize,
    /// Task groups whose cpusets lost such CPUs; an empty one becomes its parent's.
    pub groups: usize,
    /// Changes to offline or online of such a CPU, or of the last one.
    pub hotplug: usize,
}

/// Fits a trace's workload to a machine of `cpus` CPUs, and omits references to others.
pub fn fit(workload: &mut Workload, cpus: u32) -> Unfit {
    Unfit {
        tasks: rules::free(workload, cpus),
        groups: rules::narrow_cpusets(workload, cpus),
        hotplug: rules::keep_online(workload, cpus),
    }
}

impl Recorder {
    /// Returns an empty recorder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the capacities of the trace's CPUs, of 1024: small ones do less work.
    #[must_use]
    pub fn with_capacities(mut self, capacities: Vec<u32>) -> Self {
        self.activity.capacities = capacities;
        self
    }

    /// Sets the cost of recording an event, nanoseconds. It is subtracted from the work of the task that was on the
    /// event's CPU.
    #[must_use]
    pub fn with_event_cost(mut self, ns: u64) -> Self {
        self.activity.event_ns = ns;
        self
    }

    /// Takes the costs of switches and wakeups, and the recording of their events, out of the work of tasks. The replay
    /// must charge [`Recorder::costs_while_recording`]. The recording of other events stays in the work.
    #[must_use]
    pub fn charge_switches(mut self, costs: SwitchCosts) -> Self {
        self.activity.charge_switches(costs);
        self.how.charges_switches = true;
        self
    }

    /// Sets the CPUs' highest frequencies, kHz; 0: unknown. The trace may show higher ones.
    #[must_use]
    pub fn with_highest_frequencies(mut self, khz: Vec<u32>) -> Self {
        self.activity.highest_khz = khz;
        self
    }

    /// Takes the CPUs' highest frequencies, full speed, from `other`, which has read this trace.
    #[must_use]
    pub fn with_highest_frequencies_of(mut self, other: &Self) -> Self {
        self.activity.highest_khz.clone_from(&other.activity.highest_khz);
        self
    }

    /// Whether a frequency rose after work was counted at full speed. Then a second reading [with these
    /// frequencies](Self::with_highest_frequencies_of) is better.
    pub fn frequencies_were_raised(&self) -> bool {
        self.activity.raised
    }

    /// Sets the number of CPUs, unless events name more. CPUs without events were idle: tasks that waited meanwhile
    /// count as pinned.
    pub fn has_cpus(&mut self, cpus: usize) {
        self.cpus = cpus;
    }

    /// Takes the next event.
    pub fn add(&mut self, event: &Event<'_>) {
        self.ticks.add(event);
        self.activity.add(event);
    }

    /// Counts the [cost](Self::with_event_cost) of an event of any kind, after [`Recorder::add`] took it.
    pub fn written(&mut self, at: u64, cpu: u32, reason: Reason) {
        self.activity.written(at, cpu, reason);
    }

    /// Returns the costs of a switch and a wakeup while events were recorded, on average. Zeros if the replay does not
    /// [charge](Self::charge_switches) them.
    pub fn costs_while_recording(&self) -> SwitchCosts {
        self.activity.costs_while_recording()
    }

    /// Extends the recording without events to this time, nanoseconds after its start.
    pub fn goes_on_until(&mut self, at: u64) {
        self.activity.goes_on_until(at);
    }

    /// Returns the times of the machine's ticks, if `sched_stat_runtime` has shown them.
    pub fn ticks(&self) -> Option<Ticks> {
        self.ticks.ticks()
    }

    /// Keeps the recorded time of every wakeup, whatever its waker.
    #[must_use]
    pub fn keep_times(mut self) -> Self {
        self.how.reads = Reads::Times;
        self
    }

    /// Whether threads may have [messages](Self::with_messages).
    pub(crate) fn may_have_messages(&self) -> bool {
        self.activity.wakeups || !self.activity.transfers.is_empty()
    }

    /// Lets threads wait for the messages that [`What::Sent`] and [`What::Received`] show, and not only for wakeups.
    #[must_use]
    pub fn with_messages(mut self) -> Self {
        self.how.reads = Reads::Messages;
        self
    }

    /// Omits the messages of these connections.
    #[must_use]
    pub(crate) fn without_connections(mut self, connections: BTreeSet<Connection>) -> Self {
        self.how.without_connections = connections;
        self
    }

    /// Omits these threads (indices in [`Recorded::threads`]). Tasks that they woke wake at recorded times.
    #[must_use]
    pub fn without(mut self, threads: BTreeSet<usize>) -> Self {
        self.how.without = threads;
        self
    }

    /// Sets how closely threads that wake each other stay together.
    #[must_use]
    pub fn with_coupling(mut self, coupling: Coupling) -> Self {
        self.how.coupling = coupling;
        self
    }

    /// Lets members of these pools do each other's work. A pool has threads of one name and process, or processes of
    /// one name and parent. Bit N is for the [kind](Recorded::pools) with the (N+1)th most CPU time.
    #[must_use]
    pub fn with_pools(mut self, pools: u32) -> Self {
        self.how.pools = pools;
        self
    }

    /// Lets tasks in closed loops continue to the replay's end. Otherwise they end after the recorded work.
    #[must_use]
    pub fn going_on(mut self) -> Self {
        self.how.goes_on = true;
        self
    }

    /// Sets whether these threads (indices in [`Recorded::threads`]) do more with more CPU, whatever their sleeps show.
    #[must_use]
    pub fn with_closed(mut self, closed: BTreeMap<usize, Closed>) -> Self {
        self.how.closed = closed;
        self
    }

    /// Adds policies and slices when the trace began, by thread id. Events have only priorities, which give nice values
    /// and real-time priorities.
    #[must_use]
    pub fn with_policies(mut self, policies: BTreeMap<i32, Policy>) -> Self {
        self.how.policies = policies;
        self
    }

    /// Adds processes and their parents, by thread id. Ftrace has only threads.
    #[must_use]
    pub fn with_processes(mut self, processes: impl IntoIterator<Item = (i32, (i32, i32))>) -> Self {
        self.how.processes.extend(processes);
        self
    }

    /// Adds the machine's groups when the trace began.
    #[must_use]
    pub fn with_cgroups(mut self, cgroups: Cgroups) -> Self {
        self.how.cgroups = Some(cgroups);
        self
    }

    /// Ends the trace and makes the programs.
    pub fn finish(self, lateness: &Lateness) -> Recorded {
        self.prepare(lateness).as_chosen()
    }

    /// Ends the trace, and finds what all of its programs have in common.
    pub(crate) fn prepare(mut self, lateness: &Lateness) -> Prepared {
        let (duration_ns, uses) = self.activity.finish(self.cpus);
        let ticks = self.ticks();
        Prepared::new(self.activity, duration_ns, uses, ticks, lateness, self.how)
    }
}

/// Whether the name is a CPU stopper's, which the simulated machine has already.
fn is_stopper(comm: &str) -> bool {
    is_stopper_name(comm.as_bytes())
}

/// As [`is_stopper`], for an event's name.
fn is_stopper_name(comm: &[u8]) -> bool {
    comm.starts_with(b"migration/")
}
