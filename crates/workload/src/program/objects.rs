//! What tasks share: mutexes, barriers, semaphores, channels, words at which they spin, requests from outside.

use std::sync::Arc;

/// A mutex (rt-app `lock`/`unlock`).
#[derive(Clone, Debug, PartialEq)]
pub struct Mutex {
    /// Its name in the file.
    pub name: String,
    /// Priority inheritance (`pi_enabled`).
    pub priority_inheritance: bool,
}

/// A barrier: `parties` tasks meet, then all continue.
#[derive(Clone, Debug, PartialEq)]
pub struct Barrier {
    /// Its name in the file.
    pub name: String,
    /// How many tasks must arrive.
    pub parties: u32,
    /// Whether it is built of a mutex and a condition, as rt-app's: a woken task locks the mutex again before it
    /// continues. Otherwise it is one futex, as `pthread_barrier_wait`'s. `vruntime real` builds all of a mutex and a
    /// condition.
    pub locked: bool,
}

/// A counting semaphore.
#[derive(Clone, Debug, PartialEq)]
pub struct Semaphore {
    /// Its name in the file.
    pub name: String,
    /// Its count at the start.
    pub initial: u32,
}

/// A byte channel: writers block when it is full, readers when it is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipe {
    /// For messages to people.
    pub name: String,
    /// Bytes it holds (Linux pipes: 65536).
    pub capacity: u32,
    /// When there is room in it again.
    pub kind: Channel,
}

/// What a [`Pipe`] really is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channel {
    /// A pipe: messages lie in pages, which only have room again when they have been read to their end.
    #[default]
    Pipe,
    /// A pipe of packets (`O_DIRECT`): as a pipe, but each message has pages of its own, however short it is.
    Packets,
    /// A stream socket: writers wait until three quarters of it are free, and then all go on.
    Socket,
}

/// A word in memory at which tasks wait without sleeping: a spinlock, a barrier that spins, a flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spin {
    /// Its name in the file.
    pub name: String,
    /// Events at the start. A free lock has one.
    pub initial: u32,
    /// Whether waiters get events in the order of their arrival, as with a ticket lock. Otherwise a waiter that has a
    /// CPU takes the event before one that was preempted.
    pub fair: bool,
    /// Of a barrier: the number of tasks that must arrive. Otherwise 0.
    pub parties: u32,
}

/// Requests that arrive from outside, by a device's interrupt, whether or not the tasks are ready for them. Each is an
/// event of a wait queue, and wakes one exclusive waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    /// Index in [`super::Workload::wait_queues`].
    pub queue: usize,
    /// When they arrive.
    pub arrivals: Arrivals,
    /// The time from which arrivals are counted, nanoseconds after the workload's start.
    pub start: u64,
    /// The number of requests; none: as many as arrive before the end of the run.
    pub count: Option<u64>,
}

/// When requests arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Constant {
        /// Picoseconds from one to the next, so that odd rates add up.
        period_ps: u64,
    },
    /// As a Poisson process: distances are random and independent.
    Poisson {
        /// Picoseconds from one to the next, on average.
        period_ps: u64,
    },
    /// At these times, nanoseconds, ascending.
    At(Arc<[u64]>),
}
