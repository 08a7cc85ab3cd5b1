//! Programs of tasks: the small language to which every workload is translated.
//!
//! A [`Workload`] is a list of [`Task`]s and the objects that they share. rt-app files, scenarios, classic benchmarks
//! and replayed traces all become workloads. The simulated machine and the host for real kernels both run them. Times
//! are nanoseconds.

mod group;
mod objects;

use std::collections::BTreeSet;

pub use group::{Bandwidth, Clamps, CpuMax, Cpuset, Group, GroupChange, Partition, RtBandwidth, RtRuntime};
pub use objects::{Arrivals, Barrier, Channel, Mutex, Pipe, Requests, Semaphore, Spin};

/// A whole workload: tasks, the groups they live in, and the objects they synchronise on. By default it has the root
/// group, and nothing else.
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
    /// Every task the workload can contain. Those with `start: None` exist only once forked.
    pub tasks: Vec<Task>,
    /// Indices in [`Self::tasks`] of those that the run does not wait for: without a duration it is over when all
    /// others have ended.
    pub background: BTreeSet<usize>,
    /// Task groups, parents before their children. Index 0 is always the root (path `/`).
    pub groups: Vec<Group>,
    /// Sessions (`setsid`): with autogroup on, the tasks of the root group compete as one autogroup a session.
    pub sessions: Vec<Session>,
    /// Tasks that are threads of the kernel, by their index in [`Workload::tasks`]: they are in no session.
    pub kernel_threads: BTreeSet<usize>,
    /// How many mutexes there are, and how they behave.
    pub mutexes: Vec<Mutex>,
    /// Condition variables (rt-app `wait`, `signal`, `broad`, `sync`), by name.
    pub conditions: Vec<String>,
    /// Barriers.
    pub barriers: Vec<Barrier>,
    /// Semaphores.
    pub semaphores: Vec<Semaphore>,
    /// Periodic timers shared by name between tasks; per-task (`unique…`) ones get an entry for each task.
    pub timers: Vec<Timer>,
    /// Pipes and other byte channels (rt-app has none).
    pub pipes: Vec<Pipe>,
    /// Words at which tasks wait without sleeping (scenarios; rt-app has none).
    pub spins: Vec<Spin>,
    /// Wait queues of the kernel, by name (scenarios; rt-app has none).
    pub wait_queues: Vec<String>,
    /// Requests from outside the machine, which wait queues receive (scenarios; rt-app has none).
    pub requests: Vec<Requests>,
    /// Completions of the kernel, by name (scenarios; rt-app has none).
    pub completions: Vec<String>,
    /// Pools of tasks that do each other's work, by name (replays; rt-app and scenarios have none).
    pub pools: Vec<String>,
    /// Where tasks wait for whichever other wakes them first, by the name of the task that waits there (replays; rt-app
    /// and scenarios have none).
    pub inboxes: Vec<String>,
    /// Tasks that follow the progress of another, by the names of both (replays; rt-app and scenarios have none).
    pub leads: Vec<String>,
    /// When to stop, nanoseconds; none: when every task has ended.
    pub duration: Option<u64>,
    /// How it stops then.
    pub stop: Stop,
    /// CPUs that go offline and come back, in the order in which they do.
    pub hotplug: Vec<Hotplug>,
    /// Changes from outside the workload, in order of time.
    pub changes: Vec<Change>,
    /// Which tasks are those of a benchmark.
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

/// A periodic timer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timer {
    /// Its name in the file.
    pub name: String,
    /// From when on its beats are counted, nanoseconds after the workload's start; none: from the beginning of the loop
    /// that uses it first.
    pub start: Option<u64>,
}

impl Timer {
    /// A timer whose beats are counted from the beginning of the loop that uses it first.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), start: None }
    }
}

/// A benchmark that is part of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Benchmark {
    /// Its command line.
    pub command: String,
    /// Its tasks, in [`Workload::tasks`].
    pub tasks: std::ops::Range<usize>,
    /// When it starts, nanoseconds.
    pub start: u64,
}

/// What the end of the duration means to tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stop {
    /// Everything stops at that instant, in the middle of whatever is going on.
    #[default]
    AtOnce,
    /// Each task ends when the instruction it is in does, as those of a program do that look at the clock in between.
    /// What takes longer than a second beyond the end is cut off.
    AfterInstruction,
}

/// A CPU goes offline or online (`/sys/devices/system/cpu/cpuN/online`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hotplug {
    /// When, nanoseconds after the workload's start.
    pub at: u64,
    /// Which CPU.
    pub cpu: u32,
    /// Whether it is online from then on.
    pub online: bool,
}

/// A session, which has an autogroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Its name in the file.
    pub name: String,
    /// What `/proc/PID/autogroup` of its tasks says: -20..=19. The autogroup weighs as much as a task of that nice
    /// value.
    pub nice: i8,
}

/// Something is changed while the workload runs, as with `chrt`, `taskset`, or a write to a cgroup's files.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// When, nanoseconds after the workload's start.
    pub at: u64,
    /// What.
    pub what: Changed,
}

/// What a [`Change`] changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// Tasks that live then.
    Tasks {
        /// Indices in [`Workload::tasks`]: every instance of these.
        tasks: Vec<usize>,
        /// What is `None` stays.
        settings: Settings,
        /// A nice value without a policy: -20..=19.
        nice: Option<i8>,
    },
    /// A task group.
    Group {
        /// Index in [`Workload::groups`], not the root's.
        group: usize,
        /// What is written to its files.
        to: GroupChange,
    },
    /// The CPUs of a task group.
    Cpuset {
        /// Index in [`Workload::groups`], not the root's.
        group: usize,
        /// `cpuset.cpus`, ascending; an empty list is written as such; none: nothing is.
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

/// What a task that was there before the run did then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// It slept on that CPU: until it starts, or, if it starts with the run and first waits for a time or a semaphore,
    /// in that wait.
    Asleep(u32),
    /// It ran or waited on that CPU, and does so when it starts.
    Runnable(u32),
}

impl Before {
    /// The CPU on which it was.
    #[must_use]
    pub const fn cpu(self) -> u32 {
        match self {
            Self::Asleep(cpu) | Self::Runnable(cpu) => cpu,
        }
    }
}

/// One task: its identity and its program.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Name, unique in the workload (`web-3`).
    pub name: String,
    /// The class of identical tasks this is an instance of (`web`); equal to `name` for a single one.
    pub class: String,
    /// When it starts, nanoseconds after the workload; none: only when forked.
    pub start: Option<u64>,
    /// What it did before the run. None: it is forked when it starts, unless the run has all of them sleep until then.
    pub before: Option<Before>,
    /// Its session, an index in [`Workload::sessions`]; none: the default one.
    pub session: Option<usize>,
    /// Its process: tasks of one number are threads with a common address space, which switches between them keep.
    /// None: each instance has its own.
    pub process: Option<u32>,
    /// Attributes it starts with.
    pub settings: Settings,
    /// What it does, phase after phase.
    pub phases: std::sync::Arc<[Phase]>,
    /// How often the phases are gone through; [`Repeat::Forever`] for rt-app's -1.
    pub repeat: Repeat,
}

impl Task {
    /// A task that exists from the beginning and executes `phases` once, in the root group, with default attributes. It
    /// is alone in its class, and a thread of process 0, as all tasks of this function.
    pub fn new(name: impl Into<String>, phases: impl Into<std::sync::Arc<[Phase]>>) -> Self {
        let name = name.into();
        Self {
            class: name.clone(),
            name,
            start: Some(0),
            before: None,
            session: None,
            process: Some(0),
            settings: Settings::default(),
            phases: phases.into(),
            repeat: Repeat::Times(1),
        }
    }
}

/// How often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Without end.
    Forever,
    /// This many times; 0 is never.
    Times(u64),
}

/// A stretch of a task's life with its own attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The phase's name, for messages.
    pub name: String,
    /// How often its operations are gone through.
    pub repeat: Repeat,
    /// What changes when the phase begins; fields that are `None` stay as they are.
    pub settings: Settings,
    /// The operations of one loop.
    pub ops: Vec<Op>,
}

impl Phase {
    /// A phase called `phase` that repeats `ops` for ever, without a change of attributes.
    pub fn forever(ops: impl Into<Vec<Op>>) -> Self {
        Self { name: "phase".to_owned(), repeat: Repeat::Forever, settings: Settings::default(), ops: ops.into() }
    }

    /// As [`Self::forever`], but `n` times; 0 is not at all.
    pub fn times(n: u64, ops: impl Into<Vec<Op>>) -> Self {
        Self { repeat: Repeat::Times(n), ..Self::forever(ops) }
    }
}

/// Attributes of a task; `None` means "as it was" (at the start of a task: the system's default).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Scheduling policy, with the parameters that belong to it.
    pub policy: Option<Policy>,
    /// CPUs it may run on, ascending. An empty list is never stored.
    pub cpus: Option<Vec<u32>>,
    /// NUMA nodes its memory is bound to.
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
    /// SCHED_OTHER. `slice`: a custom slice (kernel 6.12 on).
    Other {
        /// -20..=19.
        nice: i8,
        /// Requested slice, nanoseconds: 100 us to 100 ms.
        slice: Option<u64>,
    },
    /// SCHED_BATCH.
    Batch {
        /// -20..=19.
        nice: i8,
        /// Requested slice, nanoseconds: 100 us to 100 ms.
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
        /// It may use what others leave of theirs (SCHED_FLAG_RECLAIM).
        reclaim: bool,
        /// Whether it gets a signal when its runtime is used up (SCHED_FLAG_DL_OVERRUN).
        overrun: bool,
    },
}

/// How far a task may get ahead of the one that it wakes by [`Op::InboxWake`]. While that one sleeps anywhere else than
/// at its inbox, has not begun or has ended, there is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// As far as it gets.
    Free,
    /// After the wakeup, it continues when the other reaches the wait of the wakeup.
    Together,
    /// It wakes the other only when that one sleeps at its inbox.
    Asleep,
    /// It wakes the other only when that one has begun all that it was woken for before.
    OneAhead,
}

/// One step of a program. Indices are into the lists of [`Workload`]; times are nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Work that takes `work` on a CPU of full capacity, longer on a slower one (rt-app `run`).
    Run {
        /// Nanoseconds at capacity 1024.
        work: u64,
    },
    /// Work of a pool of tasks, as [`Op::Run`]. What another member has done of it already ([`Op::PoolHelp`]) is not
    /// done again.
    PoolRun {
        /// Index in [`Workload::pools`].
        pool: usize,
        /// Nanoseconds at capacity 1024.
        work: u64,
    },
    /// Does work of other members of a pool, until the pool has done `work` more than required at this task's last
    /// `PoolHelp`, `PoolSleep` or `PoolWait`. A task that takes its work from a queue sleeps only if the queue is
    /// empty: this precedes such a sleep.
    PoolHelp {
        /// Index in [`Workload::pools`].
        pool: usize,
        /// Nanoseconds at capacity 1024.
        work: u64,
    },
    /// Sleeps until the pool has done `work` more than it had to at this task's last `PoolHelp`, `PoolSleep` or
    /// `PoolWait`. This is how a task waits until another member finds something for it to do.
    PoolSleep {
        /// Index in [`Workload::pools`].
        pool: usize,
        /// Nanoseconds at capacity 1024.
        work: u64,
    },
    /// Sleeps for `time` and checks again, until the pool has done `work` more than required at this task's last
    /// `PoolHelp`, `PoolSleep` or `PoolWait`, or no other member has work. Does not sleep if the pool has done it
    /// already. Tasks poll for other tasks' work in this way.
    PoolWait {
        /// Index in [`Workload::pools`].
        pool: usize,
        /// Nanoseconds at capacity 1024.
        work: u64,
        /// Nanoseconds.
        time: u64,
    },
    /// Computes until this time has passed, whatever the CPU's speed and preemptions (rt-app `runtime`).
    Runtime {
        /// Nanoseconds on the CPU.
        time: u64,
    },
    /// Sleep for `time` from now.
    Sleep {
        /// Nanoseconds.
        time: u64,
    },
    /// Sleep until a time, as `clock_nanosleep` with TIMER_ABSTIME does; not at all if it is over.
    SleepUntil {
        /// Nanoseconds after the workload's start.
        at: u64,
    },
    /// Sleep while a device works: signals do not wake the task, and its timer slack is none of the device's.
    Device {
        /// Nanoseconds.
        time: u64,
    },
    /// Sleep until the timer's next beat.
    Timer {
        /// Index in [`Workload::timers`].
        timer: usize,
        /// Nanoseconds.
        period: u64,
        /// Whether a late end moves the beat.
        mode: TimerMode,
    },
    /// Take a mutex.
    Lock(usize),
    /// Give a mutex back.
    Unlock(usize),
    /// Release `mutex`, wait for `condition`, take `mutex` again.
    Wait {
        /// Index in [`Workload::conditions`].
        condition: usize,
        /// Index in [`Workload::mutexes`].
        mutex: usize,
    },
    /// Wake one waiter of a condition.
    Signal(usize),
    /// Wake every waiter of a condition.
    Broadcast(usize),
    /// Signal `condition`, then wait on it (rt-app `sync`).
    Sync {
        /// Index in [`Workload::conditions`].
        condition: usize,
        /// Index in [`Workload::mutexes`].
        mutex: usize,
    },
    /// Meet the others.
    Barrier(usize),
    /// Increment a semaphore.
    SemPost(usize),
    /// Decrement a semaphore, waiting while it is 0.
    SemWait(usize),
    /// If the semaphore `from` is above 0, decrement it and increment `to`. A server does this for each client that it
    /// looks after.
    SemMove {
        /// Index in [`Workload::semaphores`].
        from: usize,
        /// Index in [`Workload::semaphores`].
        to: usize,
    },
    /// Set a semaphore to 0.
    SemReset(usize),
    /// Sleeps until another task wakes this one by an [`Op::InboxWake`]. Each wait is for one wakeup, and an earlier
    /// one ends it at once. One task waits at an inbox.
    ///
    /// The work after a wait, up to the next wait or the end of the loop, is an answer to one waker. In a phase with
    /// waits for several wakers, the task answers the first one: it continues behind its next wait for that waker. Each
    /// loop of the phase reaches each wait once, and the last one last. Further wakeups wait for the next loop.
    InboxWait {
        /// Index in [`Workload::inboxes`].
        inbox: usize,
        /// The waker that the answer is for.
        from: usize,
    },
    /// Wake the task that waits at an inbox. It does not sleep the next time if it is busy.
    InboxWake {
        /// Index in [`Workload::inboxes`].
        inbox: usize,
        /// Which waker this is, for [`Op::InboxWait`].
        from: usize,
        /// How far this task may get ahead of that one.
        follow: Follow,
    },
    /// The leader of a lead has come one step further.
    LeadMoves {
        /// Index in [`Workload::leads`].
        lead: usize,
    },
    /// Sleeps until the leader has come as many steps as this task has awaited so far. A leader that sleeps, has ended
    /// or has not moved yet is not awaited: two tasks that await each other never both sleep.
    LeadAwaits {
        /// Index in [`Workload::leads`].
        lead: usize,
    },
    /// Sleeps until resumed (rt-app `suspend`: a condition and a mutex of one name, or its own). The mutex is locked
    /// for the wait and unlocked afterwards, so another holder keeps the task waiting.
    Suspend {
        /// Index in [`Workload::conditions`].
        condition: usize,
        /// Index in [`Workload::mutexes`].
        mutex: usize,
    },
    /// Wakes the suspended task (rt-app `resume`), under the mutex of that name.
    Resume {
        /// Index in [`Workload::conditions`].
        condition: usize,
        /// Index in [`Workload::mutexes`].
        mutex: usize,
    },
    /// Write `bytes` of memory (rt-app `mem`).
    Mem {
        /// Bytes.
        bytes: u64,
    },
    /// Write `bytes` to a device (rt-app `iorun`).
    Io {
        /// Bytes.
        bytes: u64,
    },
    /// Access memory in a pattern (rt-app `memrun`).
    MemRun(Box<MemRun>),
    /// `sched_yield`.
    Yield,
    /// `execve`: the task becomes another program, on the idlest CPU.
    Exec,
    /// Start another task of the workload: an instance of the class with this index in [`Workload::tasks`].
    Fork(usize),
    /// Write one message.
    PipeWrite {
        /// Index in [`Workload::pipes`].
        pipe: usize,
        /// Bytes.
        bytes: u32,
    },
    /// Read one message.
    PipeRead {
        /// Index in [`Workload::pipes`].
        pipe: usize,
        /// Bytes.
        bytes: u32,
    },
    /// Spin until the word has an event, and take it.
    SpinWait {
        /// Index in [`Workload::spins`].
        spin: usize,
        /// Whether the word is a lock: then the wait belongs to the work of the task.
        lock: bool,
    },
    /// Add `events` to a word at which tasks spin.
    SpinPost {
        /// Index in [`Workload::spins`].
        spin: usize,
        /// The number of spinning tasks that may go on.
        events: u32,
    },
    /// Meet the others, and spin until all have arrived: an index in [`Workload::spins`].
    SpinBarrier(usize),
    /// Wait until the queue has an event, and take it (`wait_event`).
    WaitEvent {
        /// Index in [`Workload::wait_queues`].
        queue: usize,
        /// Where in the queue.
        mode: WaitMode,
        /// The timeout, nanoseconds (`wait_event_hrtimeout`).
        timeout: Option<u64>,
    },
    /// Add `events` to a queue and wake those that wait in it.
    WakeUp {
        /// Index in [`Workload::wait_queues`].
        queue: usize,
        /// The most exclusive waiters to wake (`nr_exclusive`); 0: all.
        nr: u32,
        /// The number of events. With 0, woken tasks sleep again.
        events: u32,
        /// The waker is about to sleep (`wake_up_sync`).
        sync: bool,
    },
    /// Wait until a completion is done, and take one (`wait_for_completion`).
    WaitForCompletion {
        /// Index in [`Workload::completions`].
        completion: usize,
        /// The timeout, nanoseconds (`wait_for_completion_timeout`, which counts jiffies).
        timeout: Option<u64>,
    },
    /// One waiter may go on, now or later.
    Complete(usize),
    /// All waiters may go on, now and later.
    CompleteAll(usize),
    /// The completion is not done any more.
    ReinitCompletion(usize),
}

impl Op {
    /// The work of an [`Op::Run`] that never ends.
    pub const ENDLESS: u64 = u64::MAX;

    /// Whether the operation never ends.
    pub fn is_endless(&self) -> bool {
        matches!(*self, Self::Run { work: Self::ENDLESS })
    }
}

/// How a task joins a wait queue, hence in which order it is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// At the head (`prepare_to_wait`): every wakeup finds it, the last to come first.
    Shared,
    /// At the tail (`prepare_to_wait_exclusive`): a wakeup takes a number of these, the longest waiter first.
    Exclusive,
    /// At the head (`__add_wait_queue_exclusive`, which epoll uses): the same, the last to come first.
    ExclusiveLifo,
}

/// The behaviour of a timer whose task is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerMode {
    /// The next beat is counted from the late arrival.
    Relative,
    /// The beat is kept; late arrivals do not sleep until they have caught up.
    Absolute,
}

/// rt-app's `memrun`.
#[derive(Clone, Debug, PartialEq)]
pub struct MemRun {
    /// Kind of access, as in the file.
    pub kind: String,
    /// Access pattern, as in the file.
    pub pattern: String,
    /// Name of the buffer (`ref`); empty for the task's own.
    pub buffer: String,
    /// Bytes of the buffer.
    pub size: u64,
    /// Number of accesses.
    pub count: u64,
    /// Bytes between accesses.
    pub stride: u64,
}

impl MemRun {
    /// The kind of access if the file names none.
    pub const KIND: &str = "write";
    /// The pattern if the file names none.
    pub const PATTERN: &str = "sequential";
}
