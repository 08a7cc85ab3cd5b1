//! Sets of CPUs.

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use crate::ids::CpuId;
use crate::sync::{AtomicU32, AtomicU64};

/// A set of CPUs, one bit each.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct CpuMask {
    words: Vec<u64>,
}

impl CpuMask {
    /// Returns the empty set.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// CPUs 0 to `count` - 1.
    pub fn all(count: usize) -> Self {
        (0..count as u32).map(CpuId).collect()
    }

    /// Adds a CPU.
    pub fn insert(&mut self, cpu: CpuId) {
        let word = cpu.index() / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu.0 % 64);
    }

    /// Removes a CPU.
    pub fn remove(&mut self, cpu: CpuId) {
        if let Some(word) = self.words.get_mut(cpu.index() / 64) {
            *word &= !(1 << (cpu.0 % 64));
        }
    }

    /// Whether the CPU is in the set.
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words.get(cpu.index() / 64).is_some_and(|word| word >> (cpu.0 % 64) & 1 == 1)
    }

    /// Returns the number of CPUs.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Returns the lowest CPU.
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// Returns the CPU, if it is the only one.
    pub fn only(&self) -> Option<CpuId> {
        let mut cpus = self.iter();
        cpus.next().filter(|_| cpus.next().is_none())
    }

    /// Returns the CPUs, ascending.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.iter_from(CpuId(0))
    }

    /// Returns the CPUs, ascending from `start`, wrapping once. The kernel searches in this order, so that not every
    /// search ends at the lowest CPU.
    #[inline]
    pub fn iter_from(&self, start: CpuId) -> impl Iterator<Item = CpuId> + '_ {
        let words = &self.words[..];
        // Bits of the first word before `start` come last.
        let before = !(u64::MAX << (start.0 % 64));
        let index = start.index() / 64;
        match words.get(index) {
            Some(word) => Cpus { words, index, rest: word & !before, left: words.len(), last: before },
            None => Cpus { words, index: words.len().saturating_sub(1), rest: 0, left: words.len(), last: u64::MAX },
        }
    }

    /// Whether the sets share a CPU.
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// CPUs in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self { words: self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect() }
    }

    /// Returns an empty set with room for `count` CPUs.
    pub fn with_capacity(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)] }
    }
}

/// The CPUs of a ring of words.
#[derive(Clone, Debug)]
struct Cpus<'a> {
    words: &'a [u64],
    /// The present word, and its remaining bits.
    index: usize,
    rest: u64,
    /// Number of remaining words, and the valid bits of the last.
    left: usize,
    last: u64,
}

impl Iterator for Cpus<'_> {
    type Item = CpuId;

    #[inline]
    fn next(&mut self) -> Option<CpuId> {
        while self.rest == 0 {
            self.left = self.left.checked_sub(1)?;
            self.index = if self.index + 1 < self.words.len() { self.index + 1 } else { 0 };
            self.rest = self.words[self.index] & if self.left == 0 { self.last } else { u64::MAX };
        }
        let bit = self.rest.trailing_zeros();
        self.rest &= self.rest - 1;
        Some(CpuId(self.index as u32 * 64 + bit))
    }
}

impl FromIterator<CpuId> for CpuMask {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut mask = Self::new();
        for cpu in cpus {
            mask.insert(cpu);
        }
        mask
    }
}

/// A set that all CPUs may read and change.
#[derive(Debug)]
pub(crate) struct AtomicCpuMask {
    words: Vec<AtomicU64>,
    nr: AtomicU32,
}

impl AtomicCpuMask {
    pub(crate) fn new(nr_cpus: usize) -> Self {
        Self { words: (0..nr_cpus.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(), nr: AtomicU32::new(0) }
    }

    /// Adds a CPU; false if it is already there.
    pub(crate) fn insert(&self, cpu: CpuId) -> bool {
        let bit = 1 << (cpu.0 % 64);
        // Reading costs less than changing.
        let added = !self.contains(cpu) && self.words[cpu.index() / 64].fetch_or(bit, Relaxed) & bit == 0;
        if added {
            self.nr.fetch_add(1, Relaxed);
        }
        added
    }

    pub(crate) fn remove(&self, cpu: CpuId) {
        let bit = 1 << (cpu.0 % 64);
        if self.contains(cpu) && self.words[cpu.index() / 64].fetch_and(!bit, Relaxed) & bit != 0 {
            self.nr.fetch_sub(1, Relaxed);
        }
    }

    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        self.words[cpu.index() / 64].load(Relaxed) >> (cpu.0 % 64) & 1 == 1
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.nr.load(Relaxed) == 0
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.nr.load(Relaxed) as usize
    }

    /// Returns the CPUs, ascending from `start`, wrapping.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterates_from_a_start_and_wraps_once() {
        let mask: CpuMask = [1, 5, 63, 64, 130].map(CpuId).into_iter().collect();
        let from = |start| mask.iter_from(CpuId(start)).map(|cpu| cpu.0).collect::<Vec<_>>();
        assert_eq!(from(0), [1, 5, 63, 64, 130]);
        assert_eq!(from(6), [63, 64, 130, 1, 5]);
        assert_eq!(from(64), [64, 130, 1, 5, 63]);
        assert_eq!(from(131), [1, 5, 63, 64, 130]);
        assert_eq!(from(300), [1, 5, 63, 64, 130], "beyond its end");
        assert_eq!(CpuMask::new().iter_from(CpuId(3)).count(), 0);
        assert_eq!(mask.iter().count(), mask.count());
    }
}
