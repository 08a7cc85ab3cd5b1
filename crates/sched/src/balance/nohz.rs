//! Idle CPUs whose tick is stopped cannot balance for themselves: a busy CPU kicks one of them to do it for all.

use core::sync::atomic::Ordering::Relaxed;

use crate::cpumask::AtomicCpuMask;
use crate::ids::CpuId;
use crate::sync::{AtomicBool, AtomicU64};

/// The idle CPUs without a tick.
#[derive(Debug)]
pub(crate) struct Nohz {
    cpus: AtomicCpuMask,
    /// Earliest time one of them should balance, [jiffies](super::Balancer::time).
    pub(crate) next_balance: AtomicU64,
    /// A CPU has joined since `next_balance` was found, and may be due earlier: somebody shall look (`nohz.needs_update`).
    pub(crate) needs_update: AtomicBool,
    /// Whoever was kicked shall balance, not only find out when to do so next (`NOHZ_BALANCE_KICK`).
    pub(crate) balance: AtomicBool,
}

impl Nohz {
    pub(crate) fn new(nr_cpus: usize) -> Self {
        Self {
            cpus: AtomicCpuMask::new(nr_cpus),
            next_balance: AtomicU64::new(0),
            needs_update: AtomicBool::new(false),
            balance: AtomicBool::new(false),
        }
    }

    pub(crate) fn enter(&self, cpu: CpuId) {
        if self.cpus.insert(cpu) {
            self.needs_update.store(true, Relaxed);
        }
    }

    pub(crate) fn exit(&self, cpu: CpuId) {
        self.cpus.remove(cpu);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// The CPUs, ascending, from `start` and wrapping around.
    pub(crate) fn iter_from(&self, start: CpuId) -> impl Iterator<Item = CpuId> + '_ {
        self.cpus.iter_from(start)
    }
}
