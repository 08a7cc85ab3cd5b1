//! The CPU for a wakeup, a new task, or an exec (`select_task_rq_fair`).

use super::{SCALE, power, source_load, target_load};
use crate::balance::domains::{Domain, Domains, SchedGroup};
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::{Balanced, Policy, Wake};
use crate::rq::Rq;
use crate::shared::Shared;

/// For a task on `rq`, woken or created by code on `on`.
pub(crate) fn select_cpu<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, task: u32, on: CpuId, wake: Wake) -> CpuId {
    if wake.fork {
        return find_idlest(rq, shared, task, on);
    }
    let prev = rq.cpu;
    if rq.tasks[task].affinity.as_ref().is_some_and(|mask| mask.count() == 1) {
        return prev;
    }
    let mut target = prev;
    if on != prev && rq.tasks[task].allowed(on) {
        let domains: &Domains = &shared.domains;
        let common = domains.near(on).find(|domain| domain.span.contains(prev));
        if let Some(domain) = common
            && wake_affine(rq, shared, domain, task, on, wake)
        {
            target = on;
        }
    }
    select_idle_sibling(rq, shared, task, target)
}

/// At exec: the idlest CPU, as at fork.
pub(crate) fn select_cpu_exec<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, task: u32) -> CpuId {
    let on = rq.cpu;
    find_idlest(rq, shared, task, on)
}

/// Whether waker and wakee are a master and one of many workers, which should spread (`wake_wide`). 4.3+: either may be
/// the master.
pub(crate) fn wake_wide<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, task: u32, on: CpuId, wake: Wake) -> bool {
    if !shared.config.has(Behaviour::WakeWide) {
        return false;
    }
    let factor = shared.domains.llc_size(on);
    let wakee = rq.tasks[task].wakee_flips;
    if shared.config.has(Behaviour::WakeWideFlips) {
        let (slave, master) = (wake.waker_flips.min(wakee), wake.waker_flips.max(wakee));
        return slave >= factor && u64::from(master) >= u64::from(slave) * u64::from(factor);
    }
    wakee > factor && u64::from(wake.waker_flips) > u64::from(factor) * u64::from(wakee)
}

/// Whether the task moves to the waker's CPU, by the loads of both CPUs with the task.
fn wake_affine<P: Policy>(
    rq: &mut Rq<P>,
    shared: &Shared<P>,
    domain: &Domain,
    task: u32,
    on: CpuId,
    wake: Wake,
) -> bool {
    if wake_wide(rq, shared, task, on, wake) {
        return false;
    }
    let (prev, now) = (rq.cpu, rq.clock.now());
    let weight = P::Balance::effective_load(rq, shared, task);
    let load = source_load(shared, prev, 0, now);
    let mut here = target_load(shared, on, 0, now);
    if wake.sync {
        // The waker is about to leave.
        here = here.saturating_sub(wake.waker_load);
    }
    let with = 100 * power(shared, prev) * (here + weight);
    let without = (100 + (domain.imbalance_pct - 100) / 2) * power(shared, on) * load;
    let balanced = here == 0 || with <= without;
    let running = u64::from(shared.cpu(on).nr_running());
    let per_task = shared.cpu(on).load().checked_div(running).unwrap_or(0);
    balanced || (here <= load && here + target_load(shared, prev, 0, now) <= per_task)
}

/// Returns an idle CPU in the cache of `target`: itself, the previous CPU, or the first CPU of an idle core, searching
/// larger levels first.
fn select_idle_sibling<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, task: u32, target: CpuId) -> CpuId {
    let prev = rq.cpu;
    let domains: &Domains = &shared.domains;
    let idle = |cpu: CpuId| shared.cpu(cpu).is_idle();
    // `select_fallback_rq` checks the affinity of these two.
    if idle(target) {
        return target;
    }
    if prev != target && domains.share_cache(prev, target) && idle(prev) {
        return prev;
    }
    let allowed = |cpu: CpuId| rq.tasks[task].allowed(cpu);
    for position in (0..domains.of(target).count()).rev() {
        let Some(domain) = domains.at(target, position).filter(|domain| domain.share_llc) else { continue };
        let own = domains.own_group(target, position).unwrap_or(0);
        let (before, after) = domain.groups.split_at(own);
        let free = |group: &&SchedGroup| {
            group.cpus.iter().any(|&cpu| allowed(cpu)) && group.cpus.iter().all(|&cpu| cpu != target && idle(cpu))
        };
        if let Some(group) = after.iter().chain(before).find(free) {
            return group.cpus.iter().copied().find(|&cpu| allowed(cpu)).unwrap_or(target);
        }
    }
    target
}

/// From the highest domain of `on` down, enters the group with the least load for its power and its idlest CPU.
pub(crate) fn find_idlest<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, task: u32, on: CpuId) -> CpuId {
    let domains: &Domains = &shared.domains;
    let now = rq.clock.now();
    let allowed = |cpu: &CpuId| rq.tasks[task].allowed(*cpu);
    let (mut cpu, mut below) = (on, u32::MAX);
    while let Some(domain) = domains.near(cpu).rfind(|domain| domain.weight < below) {
        below = domain.weight;
        let imbalance = 100 + (domain.imbalance_pct - 100) / 2;
        let (mut here, mut idlest): (u64, Option<(u64, &SchedGroup)>) = (0, None);
        for group in domain.groups.iter().filter(|group| group.cpus.iter().any(allowed)) {
            let local = group.mask.contains(cpu);
            let guess = if local { source_load } else { target_load };
            let sum: u64 = group.cpus.iter().map(|&cpu| guess(shared, cpu, 0, now)).sum();
            let able: u64 = group.cpus.iter().map(|&cpu| power(shared, cpu)).sum();
            let load = sum * SCALE / able;
            if local {
                here = load;
            } else if idlest.is_none_or(|(least, _)| load < least) {
                idlest = Some((load, group));
            }
        }
        let Some((_, group)) = idlest.filter(|&(least, _)| 100 * here >= imbalance * least) else { continue };
        cpu = idlest_cpu(shared, group, cpu, allowed);
    }
    cpu
}

/// Returns the idlest CPU of a group by load (`find_idlest_cpu`). 3.18+: of idle CPUs, the one in the shallowest
/// state, then the one that is idle for the shortest time.
fn idlest_cpu<P: Policy>(
    shared: &Shared<P>,
    group: &SchedGroup,
    start: CpuId,
    allowed: impl Fn(&CpuId) -> bool,
) -> CpuId {
    let cpus = || group.cpus.iter().copied().filter(|cpu| allowed(cpu));
    if shared.config.has(Behaviour::IdlestShallowest) {
        let idle = cpus().filter(|&cpu| shared.cpu(cpu).is_idle());
        let warmest = idle.min_by_key(|&cpu| {
            let idleness = shared.idleness(cpu);
            (idleness.exit_latency(), core::cmp::Reverse(idleness.since()))
        });
        if let Some(cpu) = warmest {
            return cpu;
        }
    }
    cpus().min_by_key(|&cpu| (shared.cpu(cpu).load(), cpu != start)).unwrap_or(start)
}
