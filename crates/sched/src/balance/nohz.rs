//! Idle CPUs whose tick is stopped cannot balance for themselves: a busy CPU kicks one of them to do it for all.

use core::sync::atomic::Ordering::Relaxed;

use crate::cpumask::AtomicCpuMask;
use crate::ids::CpuId;
use crate::sync::{AtomicBool, AtomicU64};

/// The idle CPUs without a tick.
#[derive(Debug)]
pub(crate) struct Nohz {
    cpus: AtomicCpuMask,
    /// Earliest time one of them should balance, [jiffies](super::time).
    pub(crate) next_balance: AtomicU64,
    /// Set if a CPU has joined since `next_balance` was computed and may be due earlier (`nohz.needs_update`).
    pub(crate) needs_update: AtomicBool,
    /// Set if the kicked CPU shall compute `next_balance` (`NOHZ_NEXT_KICK`).
    pub(crate) update: AtomicBool,
    /// Set if the kicked CPU shall balance (`NOHZ_BALANCE_KICK`).
    pub(crate) balance: AtomicBool,
    /// Set if the kicked CPU shall update the averages of idle CPUs (`NOHZ_STATS_KICK`).
    pub(crate) stats: AtomicBool,
    /// Some idle CPU's averages may not have come to nothing yet (`nohz.has_blocked`).
    has_blocked: AtomicBool,
    /// When they shall be brought up to date, jiffies (`nohz.next_blocked`).
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

    /// When averages of idle CPUs are to be brought up to date, jiffies; none if all have come to nothing.
    #[inline]
    pub(crate) fn blocked_due(&self) -> Option<u64> {
        self.has_blocked.load(Relaxed).then(|| self.next_blocked.load(Relaxed))
    }

    /// Begins an update of the averages. A CPU that becomes idle meanwhile requests another.
    pub(crate) fn begin_blocked(&self) {
        self.has_blocked.store(false, Relaxed);
    }

    /// It was not done for all.
    pub(crate) fn blocked_is_left(&self) {
        self.has_blocked.store(true, Relaxed);
    }

    /// That has been done, and shall be again at `next`, jiffies, if (`left`) some have not come to nothing.
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

    /// Whether that CPU's tick has stopped, and not come again since.
    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        self.cpus.contains(cpu)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// The CPUs, ascending, from `start` and wrapping around.
    pub(crate) fn iter_from(&self, start: CpuId) -> impl Iterator<Item = CpuId> + '_ {
        self.cpus.iter_from(start)
    }
}
