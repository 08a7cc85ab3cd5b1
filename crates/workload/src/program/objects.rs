//! Objects that tasks share, and requests from outside.

use std::sync::Arc;

/// A mutex (rt-app `lock`/`unlock`).
#[derive(Clone, Debug, PartialEq)]
pub struct Mutex {
    /// The name in the file.
    pub name: String,
    /// Whether it has priority inheritance (`pi_enabled`).
    pub priority_inheritance: bool,
    /// Whether a task that unlocks it while others wait cannot lock it before one of them has, as in interpreters with
    /// one lock. Only replays have such mutexes. Otherwise the first task to lock it gets it.
    pub hands_over: bool,
}

/// A barrier.
#[derive(Clone, Debug, PartialEq)]
pub struct Barrier {
    /// The name in the file.
    pub name: String,
    /// Number of tasks that must arrive.
    pub parties: u32,
    /// Whether a mutex and a condition implement it, as in rt-app and always in `vruntime real`: a woken task locks the
    /// mutex before it continues. Otherwise it is one futex, as in `pthread_barrier_wait`.
    pub locked: bool,
}

/// A counting semaphore.
#[derive(Clone, Debug, PartialEq)]
pub struct Semaphore {
    /// The name in the file.
    pub name: String,
    /// The initial count.
    pub initial: u32,
}

/// A byte channel. Writers block while it is full, readers while it is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipe {
    /// The name, for messages.
    pub name: String,
    /// Capacity in bytes (Linux pipes: 65536).
    pub capacity: u32,
    /// The kind of channel, which decides when there is room again.
    pub kind: Channel,
}

/// The kind of a [`Pipe`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channel {
    /// A pipe. A page has room again only when its messages are read completely.
    #[default]
    Pipe,
    /// A pipe of packets (`O_DIRECT`). Each message has its own pages.
    Packets,
    /// A stream socket. Writers wait until three quarters are free, then all continue.
    Socket,
}

/// A word at which tasks spin: a spinlock, a spinning barrier, a flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spin {
    /// The name in the file.
    pub name: String,
    /// Initial events. A free lock has one.
    pub initial: u32,
    /// Whether waiters get events in the order of arrival, as in ticket locks. Otherwise running waiters take events
    /// before preempted ones.
    pub fair: bool,
    /// Number of tasks that a barrier waits for. Otherwise 0.
    pub parties: u32,
}

/// External requests, by a device's interrupt, whether tasks are ready or not. Each is a wait queue's event, and wakes
/// one exclusive waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    /// Index in [`super::Workload::wait_queues`].
    pub queue: usize,
    /// The arrival process.
    pub arrivals: Arrivals,
    /// Origin of the arrivals, nanoseconds after the workload's start.
    pub start: u64,
    /// Number of requests. None: unlimited.
    pub count: Option<u64>,
}

/// Times of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal intervals.
    Constant {
        /// Interval in picoseconds, so that odd rates add up.
        period_ps: u64,
    },
    /// A Poisson process.
    Poisson {
        /// Average interval in picoseconds.
        period_ps: u64,
    },
    /// At these times, nanoseconds, ascending.
    At(Arc<[u64]>),
}

/// A periodic timer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timer {
    /// The name in the file.
    pub name: String,
    /// Origin of its beats, nanoseconds after the start. None: the begin of the first loop that uses it.
    pub start: Option<u64>,
}

impl Timer {
    /// Returns a timer without a fixed origin.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), start: None }
    }
}

/// The room for the wakeups of a waker, as in the buffer of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// The most wakeups that wait to be taken. A task that would add one sleeps.
    pub most: u64,
    /// Such tasks wake when only this many are left.
    pub few: u64,
}
