//! Published state of real-time tasks: the CPUs by their highest priority, and the offered tasks.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use super::period::RtBandwidth;
use super::queue::RtRq;
use super::rounds::Rounds;
use crate::attrs::{MAX_RT_PRIO, NO_RT_PRIO};
use crate::class::pushable::Offers;
use crate::cpumask::AtomicCpuMask;
use crate::ids::CpuId;
use crate::sync::AtomicU32;

#[derive(Debug)]
struct CpuPrio {
    /// `prio` of the most urgent real-time task, or [`NO_RT_PRIO`].
    curr: AtomicU32,
    /// Level of the CPU's entry: `curr` or [`HIGHER`].
    listed: AtomicU32,
    /// Last choice of this CPU among equals (`distribute_cpu_mask_prev`).
    chosen: AtomicU32,
}

/// The machine's real-time priorities (`cpupri`), and the offered tasks.
#[derive(Debug)]
pub(crate) struct Cpupri {
    cpus: Vec<CpuPrio>,
    /// CPUs by highest `prio`; in the last level, those without real-time tasks. As in the kernel, a CPU that runs a
    /// deadline task is in none, until a real-time enqueue or dequeue changes its highest priority.
    pub(super) levels: Vec<AtomicCpuMask>,
    pub(crate) offers: Offers,
    pub(super) rounds: Rounds,
    pub(super) bandwidth: RtBandwidth,
}

pub(super) const NONE: u32 = NO_RT_PRIO as u32;

/// A CPU that has deadline tasks (`CPUPRI_HIGHER`).
const HIGHER: u32 = u32::MAX;

impl Cpupri {
    pub(crate) fn new(nr_cpus: usize, overload_waits: bool) -> Self {
        let levels: Vec<AtomicCpuMask> = (0..MAX_RT_PRIO).map(|_| AtomicCpuMask::new(nr_cpus)).collect();
        for cpu in (0..nr_cpus as u32).map(CpuId) {
            levels[NONE as usize].insert(cpu);
        }
        let fresh = || CpuPrio { curr: AtomicU32::new(NONE), listed: AtomicU32::new(NONE), chosen: AtomicU32::new(0) };
        Self {
            cpus: (0..nr_cpus).map(|_| fresh()).collect(),
            levels,
            offers: Offers::new(nr_cpus, overload_waits),
            rounds: Rounds::new(nr_cpus),
            bandwidth: RtBandwidth::default(),
        }
    }

    pub(super) fn publish(&self, cpu: CpuId, rt: &RtRq) {
        let this = &self.cpus[cpu.index()];
        let highest = u32::from(rt.highest());
        let before = this.curr.load(Relaxed);
        if highest != before {
            this.curr.store(highest, Relaxed);
            self.list(cpu, highest);
        }
        self.offers.publish(cpu, self.offered(rt));
    }

    /// Notes that the first deadline task or fair server is queued, or the last has left.
    pub(crate) fn deadlines_changed(&self, cpu: CpuId, any: bool) {
        self.list(cpu, if any { HIGHER } else { self.cpus[cpu.index()].curr.load(Relaxed) });
    }

    fn list(&self, cpu: CpuId, level: u32) {
        let before = self.cpus[cpu.index()].listed.swap(level, Relaxed);
        if before == level {
            return;
        }
        if let Some(mask) = self.levels.get(level as usize) {
            mask.insert(cpu);
        }
        if let Some(mask) = self.levels.get(before as usize) {
            mask.remove(cpu);
        }
    }

    /// Urgency of the most urgent task that a CPU offers.
    pub(crate) fn offered(&self, rt: &RtRq) -> u64 {
        self.offers.offered(&rt.pushable, rt.nr_total)
    }

    /// Whether the published state of a CPU is current.
    pub(super) fn shows(&self, cpu: CpuId, rt: &RtRq, deadlines: bool) -> bool {
        let this = &self.cpus[cpu.index()];
        let (highest, listed) = (u32::from(rt.highest()), this.listed.load(Relaxed));
        this.curr.load(Relaxed) == highest
            && (listed == highest || (listed == HIGHER && deadlines))
            && (0u32..).zip(&self.levels).all(|(level, mask)| mask.contains(cpu) == (level == listed))
            && self.offers.shows(cpu, self.offered(rt))
    }

    #[inline]
    pub(crate) fn highest(&self, cpu: CpuId) -> u8 {
        self.cpus[cpu.index()].curr.load(Relaxed) as u8
    }

    pub(crate) fn roots_rebuilt(&self) {
        self.rounds.reset();
    }

    /// Returns the next of the ascending `cpus` after the last choice of `on`, the calling CPU, so that tasks spread
    /// (`cpumask_any_and_distribute`).
    pub(crate) fn distribute(&self, on: CpuId, mut cpus: impl Iterator<Item = CpuId> + Clone) -> Option<CpuId> {
        let last = &self.cpus[on.index()].chosen;
        let after = last.load(Relaxed);
        let chosen = cpus.clone().find(|cpu| cpu.0 > after).or_else(|| cpus.next())?;
        last.store(chosen.0, Relaxed);
        Some(chosen)
    }
}
