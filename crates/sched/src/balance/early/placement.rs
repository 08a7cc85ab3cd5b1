//! The CPU for a wakeup, a new task, or an exec, from 2.6.15 to 2.6.23.

use super::busiest::power;
use super::{Params, SCALE, params};
use crate::balance::domains::{Domains, SchedGroup};
use crate::balance::loads::{source_load, target_load};
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::{Balanced, Policy, Wake};
use crate::rq::Rq;
use crate::shared::Shared;

/// Whether tasks compete for a core, so that an idle CPU may help.
pub(in crate::balance) fn shares_core<P: Policy>(shared: &Shared<P>, cpu: CpuId) -> bool {
    let siblings = shared.domains.smt_siblings(cpu);
    siblings.is_some_and(|core| core.iter().any(|other| other != cpu && !shared.cpu(other).is_idle()))
}

fn load_per_task<P: Policy>(shared: &Shared<P>, cpu: CpuId) -> u64 {
    if shared.config.has(Behaviour::CountsTasks) {
        return SCALE;
    }
    let this = shared.cpu(cpu);
    this.load().checked_div(u64::from(this.nr_running())).unwrap_or(SCALE)
}

/// Returns the CPU for a task on `rq`, woken or created by code on `on` (`try_to_wake_up`).
pub(crate) fn select_cpu<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, task: u32, on: CpuId, wake: Wake) -> CpuId {
    if wake.fork {
        return spread(rq, shared, task, on, |params| params.fork);
    }
    let (prev, now) = (rq.cpu, rq.clock.now());
    let mut target = prev;
    if on != prev && rq.tasks[task].allowed(on) {
        let domains: &Domains = &shared.domains;
        let common = domains.of(on).map(|(_, domain)| domain).find(|domain| domain.span.contains(prev));
        if let Some(domain) = common {
            let load = P::Balance::task_load(rq, shared, task);
            if moves_to_waker(shared, params(domain.level), load, prev, on, wake, now) {
                target = on;
            }
        }
    }
    wake_idle(rq, shared, task, target)
}

/// Whether a waking task moves to the waker's CPU.
fn moves_to_waker<P: Policy>(
    shared: &Shared<P>,
    params: &Params,
    task: u64,
    prev: CpuId,
    on: CpuId,
    wake: Wake,
    now: u64,
) -> bool {
    let index = params.wake_idx;
    let imbalance = 100 + (params.imbalance_pct - 100) / 2;
    let load = source_load(shared, prev, index, now);
    let here = target_load(shared, on, index, now);
    if !params.wake_affine {
        // To spread load (WAKE_BALANCE), half the imbalance is enough.
        return imbalance * here <= 100 * load;
    }
    // The waker is about to leave.
    let per_task = load_per_task(shared, on);
    let waker = if shared.config.has(Behaviour::CountsTasks) { SCALE } else { wake.waker_load };
    let left = if wake.sync { here.saturating_sub(waker) } else { here };
    (left <= load && left + target_load(shared, prev, index, now) <= per_task)
        || 100 * (left + task) <= imbalance * load
}

/// Returns an idle thread of the core of `cpu`, if `cpu` is busy.
fn wake_idle<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, task: u32, cpu: CpuId) -> CpuId {
    if shared.cpu(cpu).is_idle() {
        return cpu;
    }
    let near = shared.domains.of(cpu).map(|(_, domain)| domain).take_while(|domain| params(domain.level).wake_idle);
    let idle = |cpu: &CpuId| rq.tasks[task].allowed(*cpu) && shared.cpu(*cpu).is_idle();
    near.flat_map(|domain| domain.span.iter()).find(idle).unwrap_or(cpu)
}

pub(crate) fn select_cpu_exec<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, task: u32) -> CpuId {
    let on = rq.cpu;
    spread(rq, shared, task, on, |_| true)
}

/// `sched_balance_self`: from the highest domain of `on` that `takes_part` down, enters the idlest group and its idlest
/// CPU.
fn spread<P: Policy>(
    rq: &Rq<P>,
    shared: &Shared<P>,
    task: u32,
    on: CpuId,
    takes_part: impl Fn(&Params) -> bool,
) -> CpuId {
    let domains: &Domains = &shared.domains;
    let now = rq.clock.now();
    let allowed = |cpu: &CpuId| rq.tasks[task].allowed(*cpu);
    let (mut cpu, mut below) = (on, u32::MAX);
    while let Some((_, domain)) =
        domains.of(cpu).rfind(|(_, domain)| domain.weight < below && takes_part(params(domain.level)))
    {
        below = domain.weight;
        let params = params(domain.level);
        let index = params.forkexec_idx;
        let imbalance = 100 + (params.imbalance_pct - 100) / 2;
        let (mut here, mut idlest): (u64, Option<(u64, &SchedGroup)>) = (0, None);
        for group in domain.groups.iter().filter(|group| group.cpus.iter().any(allowed)) {
            let local = group.mask.contains(cpu);
            let guess = if local { source_load } else { target_load };
            let sum: u64 = group.cpus.iter().map(|&cpu| guess(shared, cpu, index, now)).sum();
            let load = sum * SCALE / power(shared, domain, group);
            if local {
                here = load;
            } else if idlest.is_none_or(|(least, _)| load < least) {
                idlest = Some((load, group));
            }
        }
        let Some((_, group)) = idlest.filter(|&(least, _)| 100 * here >= imbalance * least) else { continue };
        let candidates = group.cpus.iter().copied().filter(allowed);
        cpu = candidates.min_by_key(|&cpu| source_load(shared, cpu, 0, now)).unwrap_or(cpu);
    }
    cpu
}
