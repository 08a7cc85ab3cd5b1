//! Programs of tasks, the common form of all workloads.
//!
//! rt-app files, scenarios, benchmarks and replays become a [`Workload`]: [`Task`]s and the objects they share. The
//! simulated machine and the host for real kernels run it. Times are nanoseconds.

mod before;
mod group;
mod objects;

use std::collections::{BTreeMap, BTreeSet};

pub use before::{Averages, Before};
pub use group::{Bandwidth, Clamps, CpuMax, Cpuset, Group, GroupChange, Partition, RtBandwidth, RtRuntime};
pub use objects::{Arrivals, Barrier, Channel, Mutex, Pipe, Requests, Room, Semaphore, Spin, Timer};

/// Tasks, their groups, and the objects they share. The default has only the root group.
///
/// ```
/// use vruntime_workload::program::{Op, Phase, Task, Workload};
///
/// let busy = Task::new("busy", [Phase::forever([Op::Run { work: 1_000_000 }])]);
/// let now_and_then = [Op::Run { work: 1_000_000 }, Op::Sleep { time: 9_000_000 }];
/// let light = Task::new("light", [Phase::times(100, now_and_then)]);
/// let workload = Workload { tasks: vec![busy, light], duration: Some(1_000_000_000), ..Workload::default() };
/// assert_eq!(workload.groups[0].path, "/");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// All tasks. Those with `start: None` exist only once forked.
    pub tasks: Vec<Task>,
    /// Indices in [`Self::tasks`]. A run without a duration ends with the last other task.
    pub background: BTreeSet<usize>,
    /// Task groups, parents before children. Index 0 is the root (`/`).
    pub groups: Vec<Group>,
    /// Sessions (`setsid`). With autogroup, each competes as one autogroup in the root group.
    pub sessions: Vec<Session>,
    /// Kernel threads, without session: indices in [`Self::tasks`].
    pub kernel_threads: BTreeSet<usize>,
    /// Other tasks without session: indices in [`Self::tasks`]. They started before the machine's first `setsid`, such
    /// as `init`. With autogroup, they compete in the root group, as kernel threads do.
    pub sessionless: BTreeSet<usize>,
    /// Mutexes.
    pub mutexes: Vec<Mutex>,
    /// Names of condition variables (rt-app `wait`, `signal`, `broad`, `sync`).
    pub conditions: Vec<String>,
    /// Barriers.
    pub barriers: Vec<Barrier>,
    /// Semaphores.
    pub semaphores: Vec<Semaphore>,
    /// Periodic timers. Tasks share timers of one name, except `unique…`.
    pub timers: Vec<Timer>,
    /// Pipes and other byte channels (scenarios).
    pub pipes: Vec<Pipe>,
    /// Words at which tasks spin (scenarios).
    pub spins: Vec<Spin>,
    /// Names of the kernel's wait queues (scenarios).
    pub wait_queues: Vec<String>,
    /// Requests from outside the machine to wait queues (scenarios).
    pub requests: Vec<Requests>,
    /// Names of the kernel's completions (scenarios).
    pub completions: Vec<String>,
    /// Names of pools, whose tasks do each other's work (replays).
    pub pools: Vec<String>,
    /// Inboxes, by the name of the task that waits there for any waker (replays).
    pub inboxes: Vec<String>,
    /// Wakers ([`Op::InboxWait`]) that are directions of connections (replays).
    pub connections: BTreeSet<usize>,
    /// The room for the wakeups of wakers ([`Op::InboxWake`]), if it is limited (replays).
    pub rooms: BTreeMap<usize, Room>,
    /// Names of tasks whose progress others follow (replays).
    pub leads: Vec<String>,
    /// The end, nanoseconds. None: when every task has ended.
    pub duration: Option<u64>,
    /// How the duration ends tasks.
    pub stop: Stop,
    /// CPUs that go offline or online, in order of time.
    pub hotplug: Vec<Hotplug>,
    /// External changes, in order of time.
    pub changes: Vec<Change>,
    /// The benchmarks in the workload.
    pub benchmarks: Vec<Benchmark>,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            tasks: Vec::new(),
            background: BTreeSet::new(),
            groups: vec![Group::root()],
            sessions: Vec::new(),
            kernel_threads: BTreeSet::new(),
            sessionless: BTreeSet::new(),
            mutexes: Vec::new(),
            conditions: Vec::new(),
            barriers: Vec::new(),
            semaphores: Vec::new(),
            timers: Vec::new(),
            pipes: Vec::new(),
            spins: Vec::new(),
            wait_queues: Vec::new(),
            requests: Vec::new(),
            completions: Vec::new(),
            inboxes: Vec::new(),
            connections: BTreeSet::new(),
            rooms: BTreeMap::new(),
            leads: Vec::new(),
            pools: Vec::new(),
            duration: None,
            stop: Stop::default(),
            hotplug: Vec::new(),
            changes: Vec::new(),
            benchmarks: Vec::new(),
        }
    }
}

/// A benchmark in a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Benchmark {
    /// The command line.
    pub command: String,
    /// Indices in [`Workload::tasks`].
    pub tasks: std::ops::Range<usize>,
    /// The start, nanoseconds.
    pub start: u64,
}

/// How the end of the duration stops tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stop {
    /// At that instant, in the middle of any operation.
    #[default]
    AtOnce,
    /// After the current instruction, as in programs that check the clock then. At most a second later.
    AfterInstruction,
}

/// A CPU goes offline or online (`/sys/devices/system/cpu/cpuN/online`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hotplug {
    /// Nanoseconds after the start.
    pub at: u64,
    /// The CPU.
    pub cpu: u32,
    /// Whether it goes online.
    pub online: bool,
}

/// A session, which has an autogroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The name in the file.
    pub name: String,
    /// The autogroup's nice value (`/proc/PID/autogroup`), -20..=19: it weighs as a task of that value.
    pub nice: i8,
}

/// An external change, as by `chrt`, `taskset`, or a write to a cgroup's files.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Nanoseconds after the start.
    pub at: u64,
    /// The change.
    pub what: Changed,
}

/// What a [`Change`] changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// Existing tasks.
    Tasks {
        /// Indices in [`Workload::tasks`] of all instances.
        tasks: Vec<usize>,
        /// None: unchanged.
        settings: Settings,
        /// A nice value without a policy, -20..=19.
        nice: Option<i8>,
    },
    /// A task group.
    Group {
        /// Index in [`Workload::groups`], not the root's.
        group: usize,
        /// The new settings.
        to: GroupChange,
    },
    /// The CPUs of a task group.
    Cpuset {
        /// Index in [`Workload::groups`], not the root's.
        group: usize,
        /// `cpuset.cpus`, ascending. An empty list is written. None: unchanged.
        cpus: Option<Vec<u32>>,
        /// `cpuset.cpus.partition`.
        partition: Option<Partition>,
    },
    /// The nice value of a session's autogroup.
    Session {
        /// Index in [`Workload::sessions`].
        session: usize,
        /// -20..=19.
        nice: i8,
    },
}

/// A task and its program.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Unique name (`web-3`).
    pub name: String,
    /// The class of identical tasks (`web`). A single task's is `name`.
    pub class: String,
    /// Nanoseconds after the start. None: only when forked.
    pub start: Option<u64>,
    /// Its state before the run. None: forked at its start, unless all tasks sleep until then.
    pub before: Option<Before>,
    /// How often it recently changed its wakee (the kernel's `wakee_flips`), if it existed before the run. Wakeups
    /// between tasks with many changes leave the woken task on its CPU.
    pub wakee_flips: u32,
    /// Its averages, if it existed before the run. None: a runnable task has those of a fork, a sleeping one has none.
    pub averages: Option<Averages>,
    /// Index in [`Workload::sessions`]. None: the default session.
    pub session: Option<usize>,
    /// The process. Its tasks are threads that share an address space. None: a process for each instance.
    pub process: Option<u32>,
    /// Initial attributes.
    pub settings: Settings,
    /// The phases, in order.
    pub phases: std::sync::Arc<[Phase]>,
    /// Repetitions of the phases.
    pub repeat: Repeat,
}

impl Task {
    /// Returns a task that exists from the start and executes `phases` once: in the root group, with default
    /// attributes, alone in its class. All such tasks are threads of process 0.
    pub fn new(name: impl Into<String>, phases: impl Into<std::sync::Arc<[Phase]>>) -> Self {
        let name = name.into();
        Self {
            class: name.clone(),
            name,
            start: Some(0),
            before: None,
            wakee_flips: 0,
            averages: None,
            session: None,
            process: Some(0),
            settings: Settings::default(),
            phases: phases.into(),
            repeat: Repeat::Times(1),
        }
    }
}

/// A number of repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Endless (rt-app's -1).
    Forever,
    /// This many times, also 0.
    Times(u64),
}

/// A part of a task's program, with attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The name, for messages.
    pub name: String,
    /// Repetitions of the operations.
    pub repeat: Repeat,
    /// Changes at the phase's begin. None: unchanged.
    pub settings: Settings,
    /// Operations of one loop.
    pub ops: Vec<Op>,
}

impl Phase {
    /// Returns a phase called `phase` that repeats `ops` for ever and changes no attributes.
    pub fn forever(ops: impl Into<Vec<Op>>) -> Self {
        Self { name: "phase".to_owned(), repeat: Repeat::Forever, settings: Settings::default(), ops: ops.into() }
    }

    /// As [`Self::forever`], but `n` times.
    pub fn times(n: u64, ops: impl Into<Vec<Op>>) -> Self {
        Self { repeat: Repeat::Times(n), ..Self::forever(ops) }
    }
}

/// Attributes of a task. `None`: unchanged, and at the start the system's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The scheduling policy.
    pub policy: Option<Policy>,
    /// CPUs that the task may use, ascending. Never empty.
    pub cpus: Option<Vec<u32>>,
    /// NUMA nodes of its memory.
    pub nodes: Option<Vec<u32>>,
    /// Index in [`Workload::groups`].
    pub group: Option<usize>,
    /// Utilisation clamp, lower bound, 0..=1024.
    pub util_min: Option<u32>,
    /// Utilisation clamp, upper bound, 0..=1024.
    pub util_max: Option<u32>,
}

/// A scheduling policy and its parameters. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// SCHED_OTHER.
    Other {
        /// -20..=19.
        nice: i8,
        /// Requested slice (6.12+), nanoseconds: 100 us to 100 ms.
        slice: Option<u64>,
    },
    /// SCHED_BATCH.
    Batch {
        /// -20..=19.
        nice: i8,
        /// Requested slice (6.12+), nanoseconds: 100 us to 100 ms.
        slice: Option<u64>,
    },
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO.
    Fifo {
        /// 1..=99.
        priority: u8,
    },
    /// SCHED_RR.
    RoundRobin {
        /// 1..=99.
        priority: u8,
    },
    /// SCHED_DEADLINE.
    Deadline {
        /// Budget in each period, nanoseconds.
        runtime: u64,
        /// Relative deadline, nanoseconds.
        deadline: u64,
        /// Period, nanoseconds.
        period: u64,
        /// Whether it reclaims unused bandwidth (SCHED_FLAG_RECLAIM).
        reclaim: bool,
        /// Whether it gets a signal at the end of its runtime (SCHED_FLAG_DL_OVERRUN).
        overrun: bool,
    },
}

/// How far a waker may get ahead of the task that it wakes by [`Op::InboxWake`]. Unlimited while that task sleeps
/// elsewhere, before its begin, and after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// No limit.
    Free,
    /// The waker continues when the woken task reaches the wait of that wakeup.
    Together,
    /// The waker waits until the task sleeps at its inbox.
    Asleep,
    /// The waker waits until the task has begun the work of all previous wakeups.
    OneAhead,
}

/// An operation. Indices are of the lists of [`Workload`]. Times are nanoseconds, work is nanoseconds at capacity 1024.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Computes: `work` at full capacity, longer on a slower CPU (rt-app `run`).
    Run {
        /// Nanoseconds.
        work: u64,
    },
    /// As [`Op::Run`], for a pool. Skips what other members have done already ([`Op::PoolHelp`]).
    PoolRun {
        /// Index in [`Workload::pools`].
        pool: usize,
        /// Nanoseconds.
        work: u64,
    },
    /// Adds `work` to what the pool must have done before this task continues. Does work of other members until the
    /// pool has, or they have begun the rest. Precedes sleeps of tasks that sleep only if their queue of work is empty.
    PoolHelp {
        /// Index in [`Workload::pools`].
        pool: usize,
        /// Nanoseconds.
        work: u64,
    },
    /// Adds `work` as [`Op::PoolHelp`] does, and sleeps until the pool has done it: then there is work for this task.
    PoolSleep {
        /// Index in [`Workload::pools`].
        pool: usize,
        /// Nanoseconds.
        work: u64,
    },
    /// Polls: sleeps for `time` repeatedly, until the pool has done as much as [`Op::PoolHelp`] requires (perhaps
    /// already), or no other member has work.
    PoolWait {
        /// Index in [`Workload::pools`].
        pool: usize,
        /// Nanoseconds.
        work: u64,
        /// Nanoseconds.
        time: u64,
    },
    /// Computes for this time, whatever the CPU's speed and preemptions (rt-app `runtime`).
    Runtime {
        /// Elapsed nanoseconds, with preemptions.
        time: u64,
    },
    /// Sleeps for `time`.
    Sleep {
        /// Nanoseconds.
        time: u64,
    },
    /// Sleeps until a time, unless it is past (`clock_nanosleep` with TIMER_ABSTIME).
    SleepUntil {
        /// Nanoseconds after the start.
        at: u64,
    },
    /// Sleeps while a device works, without timer slack, and not woken by signals.
    Device {
        /// Nanoseconds.
        time: u64,
    },
    /// Sleeps until the timer's next beat.
    Timer {
        /// Index in [`Workload::timers`].
        timer: usize,
        /// Nanoseconds.
        period: u64,
        /// Whether a late task moves the beat.
        mode: TimerMode,
    },
    /// Locks a mutex.
    Lock(usize),
    /// Waits for a mutex until the task has it, until a timeout, or until a task [nudges](Self::Nudge) it (replays). It
    /// continues with or without the mutex. A task that has it already does not wait.
    TryLock {
        /// Index in [`Workload::mutexes`].
        mutex: usize,
        /// The timeout, nanoseconds. With priority inheritance, or `None`, there is none.
        time: Option<u64>,
    },
    /// Locks a mutex, unless the task has it already ([`Self::TryLock`]).
    EnsureLock(usize),
    /// Wakes the longest waiter of a mutex, as an unlock whose task locks again at once.
    Nudge(usize),
    /// Unlocks a mutex.
    Unlock(usize),
    /// Unlocks `mutex`, waits for `condition`, locks `mutex` again.
    Wait {
        /// Index in [`Workload::conditions`].
        condition: usize,
        /// Index in [`Workload::mutexes`].
        mutex: usize,
    },
    /// Wakes one waiter of a condition.
    Signal(usize),
    /// Wakes all waiters of a condition.
    Broadcast(usize),
    /// Signals `condition`, then waits for it (rt-app `sync`).
    Sync {
        /// Index in [`Workload::conditions`].
        condition: usize,
        /// Index in [`Workload::mutexes`].
        mutex: usize,
    },
    /// Waits at a barrier.
    Barrier(usize),
    /// Increments a semaphore.
    SemPost(usize),
    /// Decrements a semaphore. Waits while it is 0.
    SemWait(usize),
    /// If the semaphore `from` is above 0, decrements it and increments `to`, as a server does for each client.
    SemMove {
        /// Index in [`Workload::semaphores`].
        from: usize,
        /// Index in [`Workload::semaphores`].
        to: usize,
    },
    /// Sets a semaphore to 0.
    SemReset(usize),
    /// Sleeps until an [`Op::InboxWake`]. Each wait consumes one wakeup, also an earlier one. Each inbox has one
    /// waiting task.
    ///
    /// The work after a wait, up to the next wait or the end of the loop, answers one waker. In a phase with waits for
    /// several wakers, each wakeup selects the next unanswered wait of its waker, and the task continues there. The
    /// loop ends with its last wait. Further wakeups remain for the next loop.
    ///
    /// If a waker is a [connection](Workload::connections), partners at other ends do not wait for each other: each
    /// waker has its own loop through its answers. It continues in the task's next phase with waits, if that has any.
    InboxWait {
        /// Index in [`Workload::inboxes`].
        inbox: usize,
        /// The waker to answer.
        from: usize,
    },
    /// Wakes the task of an inbox. If that task is busy, its next wait does not sleep.
    InboxWake {
        /// Index in [`Workload::inboxes`].
        inbox: usize,
        /// The number of this waker, for [`Op::InboxWait`].
        from: usize,
        /// How far this task may get ahead.
        follow: Follow,
        /// Whether the kernel expects the waker to sleep soon, as for pipes and sockets (`WF_SYNC`).
        sync: bool,
    },
    /// Puts off what follows, until the matching [`Op::PutOffEnd`]: until the task has taken all wakeups that were
    /// there at once. An event loop reads from all ready sockets first, and then writes to them.
    PutOff {
        /// Index in [`Workload::inboxes`].
        inbox: usize,
    },
    /// Ends what [`Op::PutOff`] puts off.
    PutOffEnd {
        /// As in [`Op::PutOff`].
        inbox: usize,
    },
    /// Executes an amount of work if the task slept in its last wait at the inbox. It is the cost of a sleep, and does
    /// not depend on the number of wakeups that the task then finds.
    RunIfSlept {
        /// Index in [`Workload::inboxes`].
        inbox: usize,
        /// As in [`Op::Run`].
        work: u64,
    },
    /// Does what was put off.
    CatchUp {
        /// As in [`Op::PutOff`].
        inbox: usize,
    },
    /// Counts a step of the leader.
    LeadMoves {
        /// Index in [`Workload::leads`].
        lead: usize,
    },
    /// Counts one more awaited step, and sleeps until the leader has made as many. If the leader sleeps, has ended or
    /// has made no step, the task does not sleep. Two tasks that await each other never both sleep.
    LeadAwaits {
        /// Index in [`Workload::leads`].
        lead: usize,
    },
    /// Kills the other tasks of this task's [process](Task::process), as `exit_group` does. They do the rest of their
    /// work, but leave out all sleeps before their [`Op::AwaitKill`]. A pool of this task is then as at the start, for
    /// a process that is forked again.
    ExitGroup,
    /// Sleeps until a task of the process calls [`Op::ExitGroup`]. If none has that operation, it does not sleep.
    AwaitKill,
    /// Sleeps until resumed (rt-app `suspend`). Condition and mutex have a given name, or the task's. The task locks
    /// the mutex for the wait, so another holder delays it, and unlocks it afterwards.
    Suspend {
        /// Index in [`Workload::conditions`].
        condition: usize,
        /// Index in [`Workload::mutexes`].
        mutex: usize,
    },
    /// Wakes a suspended task under the mutex of that name (rt-app `resume`).
    Resume {
        /// Index in [`Workload::conditions`].
        condition: usize,
        /// Index in [`Workload::mutexes`].
        mutex: usize,
    },
    /// Writes memory (rt-app `mem`).
    Mem {
        /// Bytes.
        bytes: u64,
    },
    /// Writes to a device (rt-app `iorun`).
    Io {
        /// Bytes.
        bytes: u64,
    },
    /// Accesses memory in a pattern (rt-app `memrun`).
    MemRun(Box<MemRun>),
    /// `sched_yield`.
    Yield,
    /// `execve`, which moves the task to the idlest CPU.
    Exec,
    /// Starts an instance of the class with this index in [`Workload::tasks`].
    Fork(usize),
    /// Writes a message.
    PipeWrite {
        /// Index in [`Workload::pipes`].
        pipe: usize,
        /// Bytes.
        bytes: u32,
    },
    /// Reads a message.
    PipeRead {
        /// Index in [`Workload::pipes`].
        pipe: usize,
        /// Bytes.
        bytes: u32,
    },
    /// Spins until the word has an event, and takes the event.
    SpinWait {
        /// Index in [`Workload::spins`].
        spin: usize,
        /// Whether the word is a lock. Then the wait is part of the task's work.
        lock: bool,
    },
    /// Adds events to a word at which tasks spin.
    SpinPost {
        /// Index in [`Workload::spins`].
        spin: usize,
        /// Number of tasks to release.
        events: u32,
    },
    /// Spins until all tasks have arrived. An index in [`Workload::spins`].
    SpinBarrier(usize),
    /// Waits until the queue has an event, and takes the event (`wait_event`).
    WaitEvent {
        /// Index in [`Workload::wait_queues`].
        queue: usize,
        /// The position in the queue.
        mode: WaitMode,
        /// Nanoseconds (`wait_event_hrtimeout`).
        timeout: Option<u64>,
    },
    /// Adds events to a queue and wakes waiters.
    WakeUp {
        /// Index in [`Workload::wait_queues`].
        queue: usize,
        /// The most exclusive waiters to wake (`nr_exclusive`); 0: all.
        nr: u32,
        /// Number of events. With 0, woken tasks sleep again.
        events: u32,
        /// Whether the waker is about to sleep (`wake_up_sync`).
        sync: bool,
    },
    /// Waits for a completion, and takes it (`wait_for_completion`).
    WaitForCompletion {
        /// Index in [`Workload::completions`].
        completion: usize,
        /// Nanoseconds (`wait_for_completion_timeout`, which counts jiffies).
        timeout: Option<u64>,
    },
    /// Releases one waiter, now or later.
    Complete(usize),
    /// Releases all waiters, now and later.
    CompleteAll(usize),
    /// Resets a completion.
    ReinitCompletion(usize),
}

impl Op {
    /// The work of an endless [`Op::Run`].
    pub const ENDLESS: u64 = u64::MAX;

    /// Whether the operation never ends.
    pub fn is_endless(&self) -> bool {
        matches!(*self, Self::Run { work: Self::ENDLESS })
    }
}

/// A task's position in a wait queue, which decides the order of wakeups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// At the head (`prepare_to_wait`). Every wakeup wakes it. The newest waiter is first.
    Shared,
    /// At the tail (`prepare_to_wait_exclusive`). A wakeup wakes some of these. The longest waiter is first.
    Exclusive,
    /// At the head (`__add_wait_queue_exclusive`, as epoll). A wakeup wakes some of these. The newest waiter is first.
    ExclusiveLifo,
}

/// How a timer treats a late task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerMode {
    /// Counts the next beat from the late arrival.
    Relative,
    /// Keeps the beat. Late tasks do not sleep before they catch up.
    Absolute,
}

/// rt-app's `memrun`.
#[derive(Clone, Debug, PartialEq)]
pub struct MemRun {
    /// Kind of access, as in the file.
    pub kind: String,
    /// Access pattern, as in the file.
    pub pattern: String,
    /// Name of the buffer (`ref`). Empty: the task's own.
    pub buffer: String,
    /// Size of the buffer, bytes.
    pub size: u64,
    /// Number of accesses.
    pub count: u64,
    /// Bytes between accesses.
    pub stride: u64,
}

impl MemRun {
    /// The default kind.
    pub const KIND: &str = "write";
    /// The default pattern.
    pub const PATTERN: &str = "sequential";
}
