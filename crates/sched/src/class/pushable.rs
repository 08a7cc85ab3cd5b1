//! Tasks of the real-time and deadline classes that other CPUs may take.
//!
//! An urgency is a real-time task's `prio`, or a deadline task's deadline: the lower, the more urgent.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use crate::cpumask::AtomicCpuMask;
use crate::ids::CpuId;
use crate::sync::AtomicU64;

/// Work on other CPUs after a run queue is unlocked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Callback {
    /// It has more tasks than it can run.
    Push,
    /// It is about to run a less urgent task.
    Pull,
}

/// Urgency of no task.
pub(crate) const NONE: u64 = u64::MAX;

/// A task's urgency, its order among equals, and its index.
pub(crate) type Place = (u64, u64, u32);

/// A CPU's pushable tasks of one class: queued, not running, allowed elsewhere. The first is pushed next.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Pushable(BTreeSet<Place>);

impl Pushable {
    pub(crate) fn set(&mut self, place: Place, pushable: bool) {
        if pushable {
            self.0.insert(place);
        } else {
            self.0.remove(&place);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Urgency of the most urgent, or [`NONE`].
    pub(crate) fn urgency(&self) -> u64 {
        self.0.first().map_or(NONE, |&(urgency, ..)| urgency)
    }

    /// Indices of the tasks, in order.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|&(.., index)| index)
    }

    pub(crate) fn entries(&self) -> &BTreeSet<Place> {
        &self.0
    }
}

/// The tasks of one class that all CPUs offer, as published.
#[derive(Debug)]
pub(crate) struct Offers {
    /// CPUs that offer tasks (`rto_mask`, `dlo_mask`).
    cpus: AtomicCpuMask,
    /// Urgency of each CPU's most urgent offered task.
    urgencies: Vec<AtomicU64>,
    /// Whether a CPU offers any waiting task, not only beside another of the class.
    waiting: bool,
}

impl Offers {
    pub(crate) fn new(nr_cpus: usize, waiting: bool) -> Self {
        let urgencies = (0..nr_cpus).map(|_| AtomicU64::new(NONE)).collect();
        Self { cpus: AtomicCpuMask::new(nr_cpus), urgencies, waiting }
    }

    /// Urgency of the most urgent task that a CPU with `nr` tasks of the class offers, or [`NONE`].
    pub(crate) fn offered(&self, pushable: &Pushable, nr: u32) -> u64 {
        if self.waiting || nr > 1 { pushable.urgency() } else { NONE }
    }

    /// Publishes [`Self::offered`]. Only the holder of the run queue writes it.
    pub(crate) fn publish(&self, cpu: CpuId, offered: u64) {
        let urgency = &self.urgencies[cpu.index()];
        if urgency.load(Relaxed) == offered {
            return;
        }
        urgency.store(offered, Relaxed);
        if offered == NONE {
            self.cpus.remove(cpu);
        } else {
            self.cpus.insert(cpu);
        }
    }

    /// Whether the published state of a CPU is current.
    pub(crate) fn shows(&self, cpu: CpuId, offered: u64) -> bool {
        self.of(cpu) == offered && self.cpus.contains(cpu) == (offered != NONE)
    }

    #[inline]
    pub(crate) fn of(&self, cpu: CpuId) -> u64 {
        self.urgencies[cpu.index()].load(Relaxed)
    }

    #[inline]
    pub(crate) fn cpus(&self) -> &AtomicCpuMask {
        &self.cpus
    }
}
