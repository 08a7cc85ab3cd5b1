//! Idle CPUs whose tick is stopped cannot balance for themselves: a busy CPU kicks one of them to do it for all.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use crate::ids::CpuId;
use crate::sync::{AtomicU32, AtomicU64};

/// The idle CPUs without a tick.
#[derive(Debug)]
pub(crate) struct Nohz {
    words: Vec<AtomicU64>,
    nr: AtomicU32,
    /// Earliest time one of them should balance, nanoseconds.
    pub(crate) next_balance: AtomicU64,
}

impl Nohz {
    pub(crate) fn new(nr_cpus: usize) -> Self {
        Self {
            words: (0..nr_cpus.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            nr: AtomicU32::new(0),
            next_balance: AtomicU64::new(0),
        }
    }

    pub(crate) fn enter(&self, cpu: CpuId) {
        let bit = 1 << (cpu.0 % 64);
        if self.words[cpu.index() / 64].fetch_or(bit, Relaxed) & bit == 0 {
            self.nr.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn exit(&self, cpu: CpuId) {
        let bit = 1 << (cpu.0 % 64);
        if self.words[cpu.index() / 64].fetch_and(!bit, Relaxed) & bit != 0 {
            self.nr.fetch_sub(1, Relaxed);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nr.load(Relaxed) == 0
    }

    /// The CPUs, ascending, from `start` and wrapping around.
    pub(crate) fn iter_from(&self, start: CpuId) -> impl Iterator<Item = CpuId> + '_ {
        let words = self.words.len();
        let begin = start.index() / 64;
        (0..=words).flat_map(move |step| {
            let index = (begin + step) % words;
            let mut rest = self.words[index].load(Relaxed);
            if step == 0 {
                rest &= u64::MAX << (start.0 % 64);
            } else if step == words {
                rest &= !(u64::MAX << (start.0 % 64));
            }
            core::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros();
                    rest &= rest - 1;
                    CpuId(index as u32 * 64 + bit)
                })
            })
        })
    }
}
