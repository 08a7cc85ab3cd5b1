//! Synchronisation objects. Each kind's file has its state and its instructions.
//!
//! As on Linux, an uncontended lock, a signal without a waiter, and a semaphore above 0 do not enter the kernel. They
//! take no time.

pub(crate) mod answers;
mod barrier;
mod batch;
mod completion;
mod condition;
pub(crate) mod inbox;
mod inherit;
mod lead;
mod mutex;
mod pipe;
mod pool;
mod queue;
mod room;
mod semaphore;
mod spin;
mod wait;

use vruntime_workload::program::Workload;

pub(crate) use barrier::Barrier;
pub(crate) use completion::Completion;
pub(crate) use inbox::Inbox;
pub(crate) use lead::Leads;
pub(crate) use mutex::{Mutex, mutex_of};
pub(crate) use pipe::Pipe;
pub(crate) use pool::Pool;
pub(crate) use queue::WaitQueue;
pub(crate) use semaphore::Semaphore;
pub(crate) use spin::SpinWord;
pub(crate) use wait::EventQueue;

/// All objects, by the workload's indices.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// The workload's, then one for each barrier.
    pub(crate) mutexes: Vec<Mutex>,
    /// A condition has no state but its waiters.
    pub(crate) conditions: Vec<WaitQueue>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) semaphores: Vec<Semaphore>,
    pub(crate) pipes: Vec<Pipe>,
    /// Unread messages in sockets.
    pub(crate) buffers: u32,
    pub(crate) spins: Vec<SpinWord>,
    pub(crate) wait_queues: Vec<EventQueue>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) pools: Vec<Pool>,
    /// Each task's pool. Empty without pools.
    pub(crate) pool_of: Vec<Option<u32>>,
    pub(crate) inboxes: Vec<Inbox>,
    pub(crate) leads: Leads,
    /// The inbox at which each task's instances wait. Empty without inboxes.
    pub(crate) owners: Vec<Option<u32>>,
    /// Each timer's last beat, or the start of its beats. `None` before its use.
    pub(crate) timers: Vec<Option<u64>>,
    /// The first mutex unlocked by a task that did not hold it: (task, mutex).
    pub(crate) stray_unlock: Option<(u32, u32)>,
}

impl Objects {
    pub(crate) fn new(workload: &Workload) -> Self {
        Self {
            mutexes: { workload.mutexes.iter().map(|mutex| Mutex::new(mutex.priority_inheritance, mutex.hands_over)) }
                .chain(workload.barriers.iter().map(|_| Mutex::new(false, false)))
                .collect(),
            conditions: vec![WaitQueue::default(); workload.conditions.len()],
            barriers: workload.barriers.iter().map(Barrier::new).collect(),
            semaphores: workload.semaphores.iter().map(Semaphore::new).collect(),
            pipes: workload.pipes.iter().map(Pipe::new).collect(),
            buffers: 0,
            spins: workload.spins.iter().map(SpinWord::new).collect(),
            wait_queues: vec![EventQueue::default(); workload.wait_queues.len()],
            inboxes: workload.inboxes.iter().map(|_| Inbox::default()).collect(),
            leads: Leads::new(workload.leads.len()),
            owners: inbox::owners(workload),
            pools: workload.pools.iter().map(|_| Pool::default()).collect(),
            pool_of: pool::of_templates(workload),
            completions: vec![Completion::default(); workload.completions.len()],
            timers: workload.timers.iter().map(|timer| timer.start).collect(),
            stray_unlock: None,
        }
    }
}
