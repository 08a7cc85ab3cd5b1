//! Idle cores.

use core::sync::atomic::Ordering::Relaxed;

use crate::cpumask::CpuMask;
use crate::ids::CpuId;
use crate::policy::Policy;
use crate::shared::Shared;

/// Notes that `cpu` becomes idle. If its core is, searches look for idle cores until one finds none
/// (`__update_idle_core`).
#[inline]
pub(crate) fn update_idle_core<P: Policy>(shared: &Shared<P>, cpu: CpuId) {
    let domains = &shared.domains;
    if !domains.smt() {
        return;
    }
    let known = &domains.llcs[domains.llc(cpu)].has_idle_cores;
    if known.load(Relaxed) {
        return;
    }
    if siblings_are_idle(shared, cpu) {
        known.store(true, Relaxed);
    }
}

#[inline]
pub(crate) fn siblings_are_idle<P: Policy>(shared: &Shared<P>, cpu: CpuId) -> bool {
    let core = shared.domains.smt_siblings(cpu);
    core.into_iter().flat_map(CpuMask::iter).all(|other| other == cpu || shared.cpu(other).is_idle())
}
