//! Tickless idle CPUs cannot balance for themselves: a busy CPU kicks one of them to do it for all.

use core::sync::atomic::Ordering::Relaxed;

use crate::cpumask::AtomicCpuMask;
use crate::ids::CpuId;
use crate::sync::{AtomicBool, AtomicU64};

/// The idle CPUs without a tick.
#[derive(Debug)]
pub(crate) struct Nohz {
    cpus: AtomicCpuMask,
    /// When the first of them is due, [jiffies](crate::shared::Shared::balance_time).
    pub(crate) next_balance: AtomicU64,
    /// A CPU joined after `next_balance` was computed (`nohz.needs_update`).
    pub(crate) needs_update: AtomicBool,
    /// The kicked CPU computes `next_balance` (`NOHZ_NEXT_KICK`).
    pub(crate) update: AtomicBool,
    /// The kicked CPU balances (`NOHZ_BALANCE_KICK`).
    pub(crate) balance: AtomicBool,
    /// The kicked CPU updates the averages of idle CPUs (`NOHZ_STATS_KICK`).
    pub(crate) stats: AtomicBool,
    /// An idle CPU may have averages above 0 (`nohz.has_blocked`).
    has_blocked: AtomicBool,
    /// The next update of averages, jiffies (`nohz.next_blocked`).
    next_blocked: AtomicU64,
}

impl Nohz {
    pub(crate) fn new(nr_cpus: usize) -> Self {
        Self {
            cpus: AtomicCpuMask::new(nr_cpus),
            next_balance: AtomicU64::new(0),
            needs_update: AtomicBool::new(false),
            update: AtomicBool::new(false),
            balance: AtomicBool::new(false),
            stats: AtomicBool::new(false),
            has_blocked: AtomicBool::new(false),
            next_blocked: AtomicU64::new(0),
        }
    }

    /// Returns the next update of averages, jiffies; None if all are 0.
    #[inline]
    pub(crate) fn blocked_due(&self) -> Option<u64> {
        self.has_blocked.load(Relaxed).then(|| self.next_blocked.load(Relaxed))
    }

    /// Begins an update of averages. A CPU that becomes idle meanwhile requests another.
    pub(crate) fn begin_blocked(&self) {
        self.has_blocked.store(false, Relaxed);
    }

    /// Notes that the update is not complete.
    pub(crate) fn blocked_is_left(&self) {
        self.has_blocked.store(true, Relaxed);
    }

    /// Notes that the update is complete. `left`: some averages are not 0, and are due again at `next`, jiffies.
    pub(crate) fn end_blocked(&self, next: u64, left: bool) {
        self.next_blocked.store(next, Relaxed);
        if left {
            self.blocked_is_left();
        }
    }

    pub(crate) fn enter(&self, cpu: CpuId) {
        self.has_blocked.store(true, Relaxed);
        if self.cpus.insert(cpu) {
            self.needs_update.store(true, Relaxed);
        }
    }

    pub(crate) fn exit(&self, cpu: CpuId) {
        self.cpus.remove(cpu);
    }

    /// Whether the CPU's tick is stopped.
    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        self.cpus.contains(cpu)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Returns the CPUs, ascending from `start`, wrapping.
    pub(crate) fn iter_from(&self, start: CpuId) -> impl Iterator<Item = CpuId> + '_ {
        self.cpus.iter_from(start)
    }
}
