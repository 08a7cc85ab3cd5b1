//! From a recorded trace to programs: what each thread did, as a workload that can be run under another scheduler.
//!
//! Give a [`Recorder`] the trace's events in order of time; [`Recorder::finish`] makes a task of every thread. Between
//! two sleeps a task works for exactly as long as its thread was on a CPU. Each sleep ends as it did in the trace: by
//! another task, by a timer, or by a device ([`Habit`]).
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

mod causes;
mod clocks;
mod cycle;
mod endless;
mod habits;
mod handoffs;
mod leads;
mod lives;
mod locks;
mod pairs;
mod placing;
mod pools;
mod programs;
mod progress;
mod roster;
pub mod rules;
mod sessions;
#[cfg(test)]
mod tests;
mod ticks;

pub use habits::Habit;
pub use pairs::Coupling;

use std::collections::{BTreeMap, BTreeSet};

use vruntime_sim::plan::Ticks;
use vruntime_workload::cgroups::Cgroups;
use vruntime_workload::program::{Policy, Workload};

use lives::Lives;
use ticks::TickFinder;
pub use vruntime_trace::Context;

/// A task as an event names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Its thread id; 0 is the idle task of any CPU.
    pub pid: i32,
    /// Its name.
    pub comm: &'a [u8],
}

/// Why a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It stays runnable: it was preempted, or it yielded.
    Runnable,
    /// It was preempted inside the kernel (`R+`), which a task that yields never is.
    Preempted,
    /// It sleeps.
    Sleeping,
    /// It sleeps, and signals do not wake it (`D`).
    Uninterruptible,
    /// It has ended.
    Dead,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// `sched_switch`.
    Switch {
        /// The task that leaves the CPU.
        prev: Named<'a>,
        /// Its priority: 120 + nice, 99 - the real-time priority, -1 for deadline tasks.
        prev_prio: i32,
        /// Why.
        left: Left,
        /// The task that gets the CPU.
        next: Named<'a>,
        /// Its priority.
        next_prio: i32,
    },
    /// `sched_waking`. Of several for one sleep the first counts.
    Woken {
        /// The task that is woken.
        task: Named<'a>,
        /// Its priority.
        prio: i32,
    },
    /// `sched_wakeup`: the task is on a run queue. It counts as the wakeup where no `sched_waking` precedes it.
    Enqueued {
        /// The task that is woken.
        task: Named<'a>,
        /// Its priority.
        prio: i32,
        /// The CPU of the run queue, if the file has it.
        target: Option<u32>,
    },
    /// `sched_wakeup_new`.
    WokenNew {
        /// The task just forked.
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
        /// Whether the new task is a thread of its parent's process (`CLONE_THREAD`), if the event says it.
        thread: Option<bool>,
    },
    /// `sched_stat_runtime`: what a task has run since it was charged before. Used where the switch to it, or away from
    /// it, is missing.
    Charged {
        /// The task.
        task: Named<'a>,
        /// Nanoseconds.
        ns: u64,
    },
    /// The task has this name from now on.
    Rename {
        /// The task.
        task: Named<'a>,
    },
    /// `cgroup_attach_task`: the task is in another group from now on.
    Attached {
        /// The task.
        task: Named<'a>,
        /// The number of the hierarchy; 0 is cgroup v2.
        hierarchy: i32,
        /// The group's path in it.
        path: &'a [u8],
    },
    /// What a mark of a run of ours says: a group of the hierarchy 0 has this weight and this limit from now on.
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
        /// Its frequency from now on.
        khz: u32,
    },
    /// The CPU of the event is online from now on, or is not.
    Online(bool),
    /// Events of this CPU are missing before this point.
    Lost,
    /// The trace continues to here.
    End,
}

/// Something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Nanoseconds since the trace's start.
    pub at: u64,
    /// On which CPU.
    pub cpu: u32,
    /// The running task, by the file. Switches take precedence.
    pub pid: i32,
    /// The process of that thread, if the file says it.
    pub tgid: Option<i32>,
    /// In which context it happened, if the file has it: in the handler of an interrupt the task that runs there is not
    /// the waker.
    pub context: Option<Context>,
    /// What.
    pub what: What<'a>,
}

/// How late the simulated machine's timers wake their tasks, nanoseconds. A replayed sleep is that much shorter than
/// the recorded one, so that it ends at the recorded time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// From the time a timer was set to until it wakes its task, without slack.
    pub timer: u64,
    /// The timer slack of tasks without real-time priority.
    pub slack: u64,
}

/// What was odd in a trace, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events with a time before the one that precedes them.
    pub backwards: u64,
    /// Places where events were lost.
    pub losses: u64,
    /// Switches away from a task that was not known to run there, behind the first of a CPU.
    pub broken_switches: u64,
    /// Switches from the idle task to one that did something on its CPU afterwards.
    pub missing_arrivals: u64,
    /// What `sched_stat_runtime` charged all tasks for, nanoseconds; 0: the trace does not have it.
    pub charged_ns: u64,
    /// Tasks that ran when the trace began.
    pub running_at_start: u64,
    /// Sleeps that no event ended.
    pub unwoken: u64,
    /// Pids given to a second task.
    pub reused: u64,
    /// Tasks with a deadline, whose parameters no trace has: replayed as the most urgent SCHED_FIFO.
    pub deadline: u64,
    /// Threads that are left out because the simulator has its own (`migration/N`).
    pub left_out: u64,
    /// Tasks taken to be confined to the CPU they were on: they waited for it beside another that was idle.
    pub confined: u64,
    /// Tasks that may not run on all CPUs, as the machine said.
    pub affinities: u64,
    /// Tasks that waited on an idle CPU, as throttled tasks do, while groups are unknown.
    pub throttled: u64,
    /// Tasks that computed without a sleep until the trace ended: they go on to the end of the replay.
    pub endless: u64,
    /// Pairs of tasks of which the first wakes the second, and the second wakes the first as well, if only by way of
    /// others.
    pub together: u64,
    /// Handoffs between two tasks that left no event.
    pub hidden_handoffs: u64,
    /// Waits for locks among members of pools.
    pub lock_waits: u64,
    /// Tasks in closed loops, which do more when they get more CPU.
    pub closed: u64,
    /// Those of [`Recorded::pools`] that are threads of one process: bit N is for the Nth.
    pub pools_of_threads: u32,
    /// Tasks that were in another group than the root first, as far as that is known of any.
    pub grouped: u64,
    /// Tasks of which nothing says in which group they were: they are in the root.
    pub ungrouped: u64,
    /// Task groups of which nothing says what they weigh and whether they have limits: each has the default weight and
    /// none.
    pub bare_groups: u64,
    /// How often one was moved to another group.
    pub moves: u64,
    /// Threads with known autogroups.
    pub autogrouped: u64,
    /// Changes of CPUs' frequencies.
    pub frequencies: u64,
    /// How often a CPU went offline or came back.
    pub hotplug: u64,
    /// Tasks whose timers are set to the same times as another's.
    pub sharing: u64,
}

/// A thread of the trace, with what was measured of it there.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its thread id.
    pub pid: i32,
    /// Its process, if the trace tells.
    pub tgid: Option<i32>,
    /// Its last name.
    pub comm: String,
    /// Index in [`Workload::tasks`]; none: it is not replayed.
    pub task: Option<usize>,
    /// How it sleeps.
    pub habit: Habit,
    /// How long it computes between two sleeps, if it looks at the clock for that; else it has work to do. Nanoseconds.
    pub computes_for: Option<u64>,
    /// Whether it is in a closed loop: it does more when it gets more CPU.
    pub closed: bool,
    /// How often it was woken.
    pub rounds: u64,
    /// Its possible pool in [`Recorded::pools`]. The replay may or may not use that pool.
    pub pool: Option<usize>,
    /// Its parent, as an index in [`Recorded::threads`], if known.
    pub parent: Option<usize>,
    /// Its last cgroup. None if the trace and its additional files have none. A cgroup without weights is no task
    /// group.
    pub cgroup: Option<String>,
    /// The cgroups it was in, one after the other, and its time on a CPU in each, nanoseconds; empty where nothing is
    /// known of any.
    pub stays: Vec<(String, u64)>,
    /// The only CPU it may run on, if that is known or taken to be so.
    pub confined: Option<u32>,
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// How long it was runnable and waited for a CPU until it ran, nanoseconds. None: the trace has no wakeups, so that
    /// it tells no waits from sleeps.
    pub waited_ns: Option<u64>,
    /// How often it left one.
    pub switches: u64,
    /// From each wakeup until it ran, nanoseconds, in order of time.
    pub latencies: Vec<u64>,
}

/// A trace as a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// A task for each thread.
    pub workload: Workload,
    /// Every thread seen.
    pub threads: Vec<Thread>,
    /// How long each CPU was busy with any task.
    pub busy_ns: Vec<u64>,
    /// From the first to the last event.
    pub duration_ns: u64,
    /// When the machine's ticks came, if that shows.
    pub ticks: Option<Ticks>,
    /// The names of what may be pools of tasks that do each other's work, whether it is taken for such or not.
    pub pools: Vec<String>,
    /// From when on closed loops repeat the recording, nanoseconds since its start.
    pub repeats_from: u64,
    /// What was odd.
    pub counts: Counts,
}

/// Takes a trace's events.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    lives: Lives,
    ticks: TickFinder,
    how: How,
    cpus: usize,
}

/// How programs are made of lives.
#[derive(Clone, Debug, Default)]
struct How {
    /// Every wakeup keeps its time.
    keep_times: bool,
    /// Threads that are left out.
    without: BTreeSet<usize>,
    /// The machine's groups, if recorded.
    cgroups: Option<Cgroups>,
    /// How closely threads that wake each other stay together.
    coupling: Coupling,
    /// The pools whose members do each other's work: bit N is for the pool that did the (N+1)th most.
    pools: u32,
    /// Closed loops go on when what was recorded is done.
    goes_on: bool,
    /// What the user says of threads.
    closed: BTreeMap<usize, Closed>,
    /// The process of threads, and the parent of that process, by the ids of the threads.
    processes: BTreeMap<i32, (i32, i32)>,
    /// The policies of threads when the recording began, by their ids.
    policies: BTreeMap<i32, Policy>,
}

/// Whether a thread does more when it gets more CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It does: tasks that work as fast as they can give it work.
    Yes,
    /// It does not: something outside gives it work, at given times.
    No,
}

/// What of a workload names CPUs that a machine does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfit {
    /// Tasks that were confined to such CPUs alone, and may run anywhere now.
    pub tasks: usize,
    /// Task groups whose cpusets have lost such CPUs; one that has lost all has its parent's.
    pub groups: usize,
    /// Times such a CPU, or the only one that is left, went offline or came back.
    pub hotplug: usize,
}

/// Fits the workload of a trace to a machine of `cpus` CPUs: nothing names others any more.
pub fn fit(workload: &mut Workload, cpus: u32) -> Unfit {
    Unfit {
        tasks: rules::free(workload, cpus),
        groups: rules::narrow_cpusets(workload, cpus),
        hotplug: rules::keep_online(workload, cpus),
    }
}

impl Recorder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The trace is of CPUs of these capacities, of 1024: work done on a small one is less.
    #[must_use]
    pub fn with_capacities(mut self, capacities: Vec<u32>) -> Self {
        self.lives.capacities = capacities;
        self
    }

    /// The highest frequencies of the CPUs are these, kHz, or what the trace shows beyond: 0 where that is not known.
    #[must_use]
    pub fn with_highest_frequencies(mut self, khz: Vec<u32>) -> Self {
        self.lives.highest_khz = khz;
        self
    }

    /// Takes the highest frequencies of the CPUs from `other`, which has read the same trace before. They are full
    /// speed.
    #[must_use]
    pub fn with_highest_frequencies_of(mut self, other: &Self) -> Self {
        self.lives.highest_khz.clone_from(&other.lives.highest_khz);
        self
    }

    /// Whether a CPU had a higher frequency later than one at which work has been counted as done at full speed. Then
    /// the trace is better read again, [with what is known now](Self::with_highest_frequencies_of).
    pub fn frequencies_were_raised(&self) -> bool {
        self.lives.raised
    }

    /// Sets the number of CPUs, or a higher one that events name. CPUs without events were idle. A task that waited
    /// while one of them was idle counts as pinned.
    pub fn has_cpus(&mut self, cpus: usize) {
        self.cpus = cpus;
    }

    /// Takes the next event.
    pub fn add(&mut self, event: &Event<'_>) {
        self.ticks.add(event);
        self.lives.add(event);
    }

    /// Extends the recording to this time, nanoseconds after its start: until then there are no further events.
    pub fn goes_on_until(&mut self, at: u64) {
        self.lives.goes_on_until(at);
    }

    /// When the machine's ticks came, if the events up to now show it: those of `sched_stat_runtime` do.
    pub fn ticks(&self) -> Option<Ticks> {
        self.ticks.ticks()
    }

    /// Keeps the recorded time of every wakeup, whatever its waker.
    #[must_use]
    pub fn keep_times(mut self) -> Self {
        self.how.keep_times = true;
        self
    }

    /// Makes no tasks of these threads (indices in [`Recorded::threads`]). Tasks that they woke wake at their recorded
    /// times.
    #[must_use]
    pub fn without(mut self, threads: BTreeSet<usize>) -> Self {
        self.how.without = threads;
        self
    }

    /// Threads that wake each other stay together so closely.
    #[must_use]
    pub fn with_coupling(mut self, coupling: Coupling) -> Self {
        self.how.coupling = coupling;
        self
    }

    /// Lets the members of these pools do each other's work. Threads of one name and one process, or processes of one
    /// name and one parent, may be a pool. Bit N of `pools` is for the one with the (N+1)th most CPU time.
    #[must_use]
    pub fn with_pools(mut self, pools: u32) -> Self {
        self.how.pools = pools;
        self
    }

    /// Tasks in closed loops go on when they have done all that was recorded, for to the end of the replay. Without
    /// this they end there, so that each does exactly what was recorded.
    #[must_use]
    pub fn going_on(mut self) -> Self {
        self.how.goes_on = true;
        self
    }

    /// These threads (indices in [`Recorded::threads`]) do more when they get more CPU, or do not, whatever their
    /// sleeps show.
    #[must_use]
    pub fn with_closed(mut self, closed: BTreeMap<usize, Closed>) -> Self {
        self.how.closed = closed;
        self
    }

    /// Threads had these policies and slices when the trace began, by their ids. Events only have priorities, which
    /// decide between nice values and between real-time priorities.
    #[must_use]
    pub fn with_policies(mut self, policies: BTreeMap<i32, Policy>) -> Self {
        self.how.policies = policies;
        self
    }

    /// Threads are of these processes, which have these parents, by their ids. Events of ftrace only have threads.
    #[must_use]
    pub fn with_processes(mut self, processes: impl IntoIterator<Item = (i32, (i32, i32))>) -> Self {
        self.how.processes.extend(processes);
        self
    }

    /// The machine's groups were these when the trace began.
    #[must_use]
    pub fn with_cgroups(mut self, cgroups: Cgroups) -> Self {
        self.how.cgroups = Some(cgroups);
        self
    }

    /// The trace is over.
    pub fn finish(mut self, lateness: &Lateness) -> Recorded {
        let (duration_ns, busy_ns) = self.lives.finish(self.cpus);
        let ticks = self.ticks();
        programs::build(self.lives, duration_ns, busy_ns, ticks, lateness, &self.how)
    }
}

/// Whether a thread of that name is a CPU's stopper. It is left out of the workload: the simulated machine has its own.
fn is_stopper(comm: &str) -> bool {
    is_stopper_name(comm.as_bytes())
}

/// As [`is_stopper`], of a name as events have it.
fn is_stopper_name(comm: &[u8]) -> bool {
    comm.starts_with(b"migration/")
}
