//! The CPU with the latest deadline, or with none (`cpudl`): the target of a pushed deadline task.
//!
//! The kernel has a heap under a lock. This is a tournament: leaves are the CPUs' earliest deadlines, and each inner
//! node names the CPU with the latest below. A CPU may write its leaf at any time, and updates the path above.
//! Concurrent updates may leave a node the second best, so callers lock the run queue and check again.

use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use crate::ids::CpuId;
use crate::sync::{AtomicU32, AtomicU64};

const FREE: u64 = u64::MAX;

/// The tournament.
#[derive(Debug)]
pub struct CpuDeadline {
    deadlines: Box<[AtomicU64]>,
    /// Node `n` has the children `2 n` and `2 n + 1`; from `cpus` on they are leaves. Node 0 is unused.
    winners: Box<[AtomicU32]>,
}

impl CpuDeadline {
    /// Returns a tournament of free CPUs.
    pub fn new(cpus: usize) -> Self {
        let this = Self {
            deadlines: (0..cpus).map(|_| AtomicU64::new(FREE)).collect(),
            winners: (0..cpus).map(|_| AtomicU32::new(0)).collect(),
        };
        for node in (1..cpus).rev() {
            this.play(node);
        }
        this
    }

    fn winner(&self, node: usize) -> u32 {
        let cpus = self.deadlines.len();
        if node >= cpus { (node - cpus) as u32 } else { self.winners[node].load(Relaxed) }
    }

    fn play(&self, node: usize) {
        let (a, b) = (self.winner(2 * node), self.winner(2 * node + 1));
        let of = |cpu: u32| self.deadlines[cpu as usize].load(Relaxed);
        let (at_a, at_b) = (of(a), of(b));
        // Of equals the first CPU, so that the shape of the tree does not matter.
        let best = if at_b > at_a || at_b == at_a && b < a { b } else { a };
        self.winners[node].store(best, Relaxed);
    }

    /// Sets the earliest deadline of `cpu`, or `None`.
    pub fn set(&self, cpu: CpuId, earliest: Option<u64>) {
        let deadline = earliest.unwrap_or(FREE);
        if self.deadlines[cpu.index()].swap(deadline, Relaxed) == deadline {
            return;
        }
        let leaf = cpu.index() + self.deadlines.len();
        let mut node = leaf / 2;
        while node > 0 {
            self.play(node);
            node /= 2;
        }
    }

    /// Returns the earliest deadline of a CPU.
    #[inline]
    pub fn earliest(&self, cpu: CpuId) -> Option<u64> {
        Some(self.deadlines[cpu.index()].load(Relaxed)).filter(|&deadline| deadline != FREE)
    }

    /// Whether a task with `deadline` would be the first on `cpu`.
    #[inline]
    pub fn is_earlier(&self, deadline: u64, cpu: CpuId) -> bool {
        deadline < self.deadlines[cpu.index()].load(Relaxed)
    }

    /// Returns the CPU with the latest deadline, or a free one.
    pub fn latest(&self) -> CpuId {
        CpuId(if self.deadlines.len() > 1 { self.winner(1) } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        /// Compared with a linear search.
        #[test]
        fn is_the_maximum(
            cpus in 1usize..20,
            changes in prop::collection::vec((0u32..20, prop::option::of(0u64..30)), 0..100),
        ) {
            let heap = CpuDeadline::new(cpus);
            let mut plain: Vec<Option<u64>> = (0..cpus).map(|_| None).collect();
            for (cpu, deadline) in changes {
                let cpu = CpuId(cpu % cpus as u32);
                heap.set(cpu, deadline);
                plain[cpu.index()] = deadline;
                let key = |deadline: &Option<u64>| deadline.unwrap_or(u64::MAX);
                let latest = plain.iter().map(key).max().unwrap();
                let first = plain.iter().position(|deadline| key(deadline) == latest).unwrap();
                prop_assert_eq!(heap.latest(), CpuId(first as u32));
                prop_assert_eq!(heap.earliest(cpu), deadline);
            }
        }
    }
}
