//! The balancer of 3.10 to 5.4 (mainline: from group scheduling to 5.5's rewrite), which compares loads.
//!
//! A CPU's load is its queued weight (3.10), or its runnable part's average (`runnable_load_avg`, 3.11+), averaged over
//! ticks ([`loads`]). The balancer compares load relative to power, and relieves the busiest group down to the mean. If
//! that is less than a task, it moves one if this uses more power of the CPUs. Kernels differ:
//!
//! | | groups that may be the busiest | an idle CPU leaves a group alone if |
//! |---|---|---|
//! | 3.10 | those with more tasks than they have capacity for, and uneven ones | it has no task too many, and at least as many idle CPUs but one |
//! | 3.12 | the same; uneven are those where affinity kept a lower level from balancing | it has no task too many, and more idle CPUs |
//! | 3.17 | overloaded before uneven before any other with load | the same, which is rarely true there |
//! | 3.18 | the same | it is not overloaded, and has at least as many idle CPUs but one |
//!
//! So in 3.17, an idle CPU finds a busier group whenever a task runs elsewhere. The stopper pushes the running task,
//! and its old CPU then does the same ("Fix spurious active migration").
//!
//! Not every idle CPU does so each jiffy. Up to 4.0, a kicked CPU that pushed a task to itself leaves other idle CPUs
//! alone (`NOHZ_OWN_CPU_FIRST`).
//!
//! `pull` has later kernels' steps.

mod busiest;
mod placement;

use super::domains::{Domain, Level};
use super::loads;
use crate::event::BalanceKind;
use crate::features::Feature;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::shared::Shared;

pub(super) use busiest::find;
pub(crate) use placement::{find_idlest, select_cpu, select_cpu_exec, wake_wide};

/// The load of a nice-0 task, and the power of a CPU.
const SCALE: u64 = 1024;
/// Power of a core's threads together (`smt_gain`).
const SMT_GAIN: u64 = 1178;

/// Returns the load average for balancing (`busy_idx`, `idle_idx`, `newidle_idx`); 0: the present load.
fn load_idx(domain: &Domain, kind: BalanceKind) -> usize {
    match (kind, domain.level) {
        (BalanceKind::NewIdle, _) | (_, Level::Smt) | (BalanceKind::Idle, Level::Cluster | Level::Mc) => 0,
        (BalanceKind::Busy, Level::Numa(_)) => 3,
        (BalanceKind::Busy, _) | (BalanceKind::Idle, Level::Numa(_)) => 2,
        (BalanceKind::Idle, Level::Pkg) => 1,
    }
}

/// Returns a low estimate, for a CPU to pull from.
fn source_load<P: Policy>(shared: &Shared<P>, cpu: CpuId, index: usize, now: u64) -> u64 {
    let index = if shared.config.features.has(Feature::LbBias) { index } else { 0 };
    loads::source_load(shared, cpu, index, now)
}

/// Returns a high estimate, for a CPU to move tasks to.
fn target_load<P: Policy>(shared: &Shared<P>, cpu: CpuId, index: usize, now: u64) -> u64 {
    let index = if shared.config.features.has(Feature::LbBias) { index } else { 0 };
    loads::target_load(shared, cpu, index, now)
}

/// Returns the power that higher classes leave; for a thread, of its part of the core's.
fn power<P: Policy>(shared: &Shared<P>, cpu: CpuId) -> u64 {
    let whole = u64::from(shared.cpu(cpu).capacity_of());
    let threads = shared.domains.smt_siblings(cpu).map_or(1, |core| core.count() as u64);
    let own = if threads > 1 { whole * SMT_GAIN / threads / SCALE } else { whole };
    own.max(1)
}

/// Whether to kick an idle CPU for a CPU with one task (`nohz_kick_needed`). Up to 3.12: both threads of its core are
/// busy. 3.13+: several CPUs of its cache are.
pub(super) fn kick_for_one<P: Policy>(cpu: CpuId, shared: &Shared<P>) -> bool {
    if !shared.config.has(Behaviour::KicksForCache) {
        return super::early::shares_core(shared, cpu);
    }
    let llc = shared.domains.llc_domain(cpu);
    llc.is_some_and(|llc| {
        (llc.weight as usize) < shared.nr_online()
            && llc.span.iter().filter(|&cpu| !shared.cpu(cpu).is_idle()).count() > 1
    })
}
