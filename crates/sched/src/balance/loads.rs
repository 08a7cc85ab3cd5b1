//! Estimates of a CPU's load, from its averages.

use core::sync::atomic::Ordering::Relaxed;

use super::cpu_load::{CpuLoads, decayed, step};
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::tunables::Tunables;

/// Returns a low estimate, for a CPU to pull from.
pub(super) fn source_load<P: Policy>(shared: &Shared<P>, cpu: CpuId, index: usize, now: u64) -> u64 {
    let present = shared.cpu(cpu).load();
    match &shared.cpu_loads {
        Some(loads) if index > 0 => present.min(loads.average(shared, cpu, index, now)),
        _ => present,
    }
}

/// Returns a high estimate, for a CPU to move tasks to.
pub(super) fn target_load<P: Policy>(shared: &Shared<P>, cpu: CpuId, index: usize, now: u64) -> u64 {
    let present = shared.cpu(cpu).load();
    match &shared.cpu_loads {
        Some(loads) if index > 0 => present.max(loads.average(shared, cpu, index, now)),
        _ => present,
    }
}

impl CpuLoads {
    /// Updates a CPU's loads at its tick. Ticks that it missed count as idle.
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
    pub(crate) fn decay(&self, tick_ns: u64, cpu: CpuId, now: u64) {
        let this = &self.0[cpu.index()];
        let tick = now / tick_ns.max(1);
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
