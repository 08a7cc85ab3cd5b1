//! Requests for real-time tasks by interrupt (feature RT_PUSH_IPI). A CPU about to run a less urgent task interrupts
//! the root domain's first CPU with pushable tasks. That CPU pushes what it can, and passes the interrupt on. CPUs
//! that become free simultaneously thus do not all lock one run queue.
//!
//! Each root domain has one interrupt. A request while it is on its way starts another round.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use crate::balance::roots::Root;
use crate::ids::CpuId;
use crate::sync::{AtomicU32, AtomicU64};

/// The interrupt of one root domain.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Upper 32 bits: the number after the CPU with the interrupt, or 0 (`rto_cpu`). Lower bits: the requests at the
    /// start of its round (`rto_loop`).
    at: AtomicU64,
    /// Number of requests (`rto_loop_next`).
    requests: AtomicU32,
}

/// The interrupts of all root domains: by the domain's number, then that of isolated CPUs.
#[derive(Debug)]
pub(super) struct Rounds(Vec<Round>);

const fn unpack(at: u64) -> (u32, u32) {
    ((at >> 32) as u32, at as u32)
}

const fn pack(after: u32, served: u32) -> u64 {
    (after as u64) << 32 | served as u64
}

impl Rounds {
    pub(super) fn new(nr_cpus: usize) -> Self {
        // At most one root domain per CPU, and the default one.
        Self((0..=nr_cpus).map(|_| Round::default()).collect())
    }

    pub(super) fn of(&self, root: Root) -> Option<&Round> {
        match root {
            Root::Domain(number) => self.0.get(number as usize),
            Root::Isolated => self.0.last(),
            Root::Offline => None,
        }
    }

    /// Resets the state after a rebuild of root domains. An interrupt on its way ends.
    pub(super) fn reset(&self) {
        for round in &self.0 {
            round.at.store(0, Relaxed);
        }
    }
}

impl Round {
    /// Returns the next value of [`Self::at`], and the next CPU with tasks to push (`rto_next_cpu`). `offers` finds the
    /// first such CPU from a number on. If there is none, and no new request, the round ends.
    fn next(&self, at: u64, offers: impl Fn(u32) -> Option<CpuId>) -> (u64, Option<CpuId>) {
        let (mut from, mut served) = unpack(at);
        loop {
            if let Some(cpu) = offers(from) {
                return (pack(cpu.0 + 1, served), Some(cpu));
            }
            from = 0;
            let requests = self.requests.load(Relaxed);
            if served == requests {
                return (pack(0, served), None);
            }
            served = requests;
        }
    }

    /// Requests tasks. Returns the CPU to interrupt, unless the interrupt is on its way (`tell_cpu_to_push`).
    pub(super) fn ask(&self, offers: impl Fn(u32) -> Option<CpuId>) -> Option<CpuId> {
        self.requests.fetch_add(1, Relaxed);
        let mut target = None;
        let begin = |at| {
            let (after, _) = unpack(at);
            let next;
            (next, target) = if after == 0 { self.next(at, &offers) } else { (at, None) };
            Some(next)
        };
        let _ = self.at.fetch_update(Relaxed, Relaxed, begin);
        target
    }

    /// Returns the next CPU to interrupt, after the last one has pushed what it could.
    pub(super) fn pass(&self, offers: impl Fn(u32) -> Option<CpuId>) -> Option<CpuId> {
        let mut target = None;
        let advance = |at| {
            let next;
            (next, target) = self.next(at, &offers);
            Some(next)
        };
        let _ = self.at.fetch_update(Relaxed, Relaxed, advance);
        target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs 1, 4 and 6 offer tasks.
    fn three(from: u32) -> Option<CpuId> {
        [1, 4, 6].into_iter().find(|&cpu| cpu >= from).map(CpuId)
    }

    #[test]
    fn a_single_request_passes_each_cpu_twice() {
        let round = Round::default();
        assert_eq!(round.ask(three), Some(CpuId(1)));
        assert_eq!(round.pass(three), Some(CpuId(4)));
        assert_eq!(round.pass(three), Some(CpuId(6)));
        // The request was counted after the start of the first round, so a second round follows.
        assert_eq!(round.pass(three), Some(CpuId(1)));
        assert_eq!([round.pass(three), round.pass(three), round.pass(three)], [Some(CpuId(4)), Some(CpuId(6)), None]);
    }

    #[test]
    fn a_request_during_a_round_adds_another_round() {
        let round = Round::default();
        assert_eq!(round.ask(three), Some(CpuId(1)));
        assert_eq!(round.ask(three), None);
        let rest: Vec<_> = core::iter::from_fn(|| round.pass(three)).map(|cpu| cpu.0).collect();
        assert_eq!(rest, [4, 6, 1, 4, 6]);
        assert_eq!(round.ask(three), Some(CpuId(1)));
        round.pass(three);
        assert_eq!(round.ask(three), None);
        let rest: Vec<_> = core::iter::from_fn(|| round.pass(three)).map(|cpu| cpu.0).collect();
        assert_eq!(rest, [6, 1, 4, 6]);
    }

    #[test]
    fn a_round_without_pushable_tasks_ends_and_can_begin_again() {
        let round = Round::default();
        assert_eq!(round.ask(|_| None), None);
        assert_eq!(round.ask(three), Some(CpuId(1)));
    }
}
