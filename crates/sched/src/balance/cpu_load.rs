//! The load of a CPU and its averages over ticks, for balancers up to 3.18.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::sync::AtomicU64;
use crate::tunables::Tunables;

/// A CPU's `cpu_load[]` at a tick, in 1024ths of a nice-0 task.
#[derive(Debug, Default)]
struct Averages {
    load: [AtomicU64; 3],
    tick: AtomicU64,
}

/// The averages of all CPUs, each written only by the holder of its run queue.
#[derive(Debug)]
pub(crate) struct CpuLoads(Vec<Averages>);

fn step(index: usize, old: u64, new: u64) -> u64 {
    let scale = 1 << index;
    // Rounded up when it rises, to reach the load.
    let round = if new > old { scale - 1 } else { 0 };
    (old * (scale - 1) + new + round) / scale
}

fn decayed(index: usize, mut load: u64, ticks: u64) -> u64 {
    for _ in 0..ticks {
        if load == 0 {
            break;
        }
        load = step(index, load, 0);
    }
    load
}

impl CpuLoads {
    pub(crate) fn new(cpus: usize) -> Self {
        Self((0..cpus).map(|_| Averages::default()).collect())
    }

    /// The tick of a CPU; the ticks it missed count as idle.
    pub(crate) fn update<P: Policy>(&self, rq: &Rq<P>, shared: &Shared<P>, now: u64) {
        let this = &self.0[rq.cpu.index()];
        let tick = now / shared.config.tunables.tick_ns().max(1);
        let missed = tick.saturating_sub(this.tick.swap(tick, Relaxed)).saturating_sub(1);
        let load = shared.cpu(rq.cpu).load();
        for (index, average) in this.load.iter().enumerate() {
            average.store(step(index, decayed(index, average.load(Relaxed), missed), load), Relaxed);
        }
    }

    /// Lets the averages of a CPU decay that was idle since its last tick (`update_idle_cpu_load`).
    pub(crate) fn decay<P: Policy>(&self, shared: &Shared<P>, cpu: CpuId, now: u64) {
        let this = &self.0[cpu.index()];
        let tick = now / shared.config.tunables.tick_ns().max(1);
        let idle = tick.saturating_sub(this.tick.swap(tick, Relaxed));
        for (index, average) in this.load.iter().enumerate() {
            average.store(decayed(index, average.load(Relaxed), idle), Relaxed);
        }
    }

    /// `cpu_load[index - 1]`.
    pub(crate) fn average<P: Policy>(&self, shared: &Shared<P>, cpu: CpuId, index: usize, now: u64) -> u64 {
        let this = &self.0[cpu.index()];
        let load = this.load[index - 1].load(Relaxed);
        // Up to 4.0, an idle CPU keeps its averages until another CPU balances for it, or a task wakes there.
        if !shared.cpu(cpu).is_idle() || shared.config.has(Behaviour::NohzOwnFirst) {
            return load;
        }
        let tick = now / shared.config.tunables.tick_ns().max(1);
        decayed(index - 1, load, tick.saturating_sub(this.tick.load(Relaxed)))
    }
}

/// A low estimate, for a CPU to pull from.
pub(super) fn source_load<P: Policy>(shared: &Shared<P>, cpu: CpuId, index: usize, now: u64) -> u64 {
    let present = shared.cpu(cpu).load();
    match &shared.cpu_loads {
        Some(loads) if index > 0 => present.min(loads.average(shared, cpu, index, now)),
        _ => present,
    }
}

/// A high estimate, for a CPU to move tasks to.
pub(super) fn target_load<P: Policy>(shared: &Shared<P>, cpu: CpuId, index: usize, now: u64) -> u64 {
    let present = shared.cpu(cpu).load();
    match &shared.cpu_loads {
        Some(loads) if index > 0 => present.max(loads.average(shared, cpu, index, now)),
        _ => present,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_follow_the_load() {
        assert_eq!(step(0, 0, 1024), 1024);
        assert_eq!(step(1, 0, 1024), 512);
        assert_eq!(step(2, 0, 1024), 256);
        // Rises to the load, falls to 0.
        assert_eq!((0..40).fold(0, |load, _| step(2, load, 1024)), 1024);
        assert_eq!(decayed(2, 1024, 4), 324);
        assert_eq!(decayed(2, 1024, 1_000_000), 0);
    }
}
