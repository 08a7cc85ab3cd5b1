//! The CPU for a task that wakes or is new: near whoever wakes it, near its cache, idle if possible.

use core::sync::atomic::Ordering::Relaxed;

use super::energy_aware::find_energy_efficient_cpu;
use super::entity::Se;
use super::{Discipline, Fair};
use crate::balance::domains::{Domain, Domains};
use crate::cpumask::CpuMask;
use crate::features::Feature;
use crate::ids::CpuId;
use crate::policy::{Policy, Wake};
use crate::rq::Rq;
use crate::shared::Shared;
use crate::tunables::Tunables;

/// `select_task_rq_fair`. The task lies on `rq`, where it slept.
pub(crate) fn select_cpu<D: Discipline, T: Tunables>(
    rq: &mut Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
    on: CpuId,
    wake: Wake,
) -> CpuId {
    let prev = rq.cpu;
    if shared.config.vcpu_pack
        && let Some(cpu) = pack(rq, shared, task, on, wake)
    {
        return cpu;
    }
    if wake.fork {
        return find_idlest(rq, shared, task, on, None);
    }
    if let Some(mask) = &rq.tasks[task].affinity
        && mask.count() == 1
    {
        return mask.first().unwrap_or(prev);
    }
    if let Some(energy) = shared.energy()
        && let Some(cpu) = find_energy_efficient_cpu(rq, shared, energy, task, on)
    {
        return cpu;
    }
    let mut target = prev;
    if on != prev && rq.tasks[task].allowed(on) && shared.config.features.has(Feature::OldWakeNode) {
        // The previous CPU may be idle in another node: nobody looks there.
        let same = shared.topology.place(on).node == shared.topology.place(prev).node;
        target = if same { prev } else { on };
    } else if on != prev && rq.tasks[task].allowed(on) && !wake_wide(rq, shared, task, on, wake) {
        let common = shared.domains.of(on).map(|(_, domain)| domain).find(|domain| domain.span.contains(prev));
        if let Some(domain) = common {
            target = wake_affine(rq, shared, domain, task, on, wake);
            let wakeups = &mut rq.tasks[task].wakeups;
            wakeups.affine_attempts += 1;
            wakeups.affine += u32::from(target == on);
        }
    }
    select_idle_sibling(rq, shared, task, target)
}

/// Used to so many percent, a CPU has no room.
const PACK_PCT: u64 = 70;

/// A CPU that is in use and has room for the task ([`Kernel::as_of`](crate::Kernel::as_of)): the one that wakes or forks it, the one it slept on,
/// or the first that is in use.
#[inline(never)]
fn pack<D: Discipline, T: Tunables>(
    rq: &Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
    on: CpuId,
    wake: Wake,
) -> Option<CpuId> {
    let this = &rq.tasks[task];
    if this.affinity.as_ref().is_some_and(|mask| mask.count() == 1) {
        return None;
    }
    let prev = rq.cpu;
    let has_room = |cpu: &CpuId| this.allowed(*cpu) && shared.is_online(*cpu) && has_room(rq, shared, task, *cpu, 1);
    if wake.fork {
        return Some(on).filter(has_room);
    }
    // An interrupt woke it on a CPU that is idle: that is not any more.
    if wake.irq && shared.cpu(on).is_idle() && this.allowed(on) {
        return Some(on);
    }
    let in_use = |cpu: &CpuId| !shared.cpu(*cpu).is_idle();
    Some(on)
        .filter(|_| wake.sync)
        .filter(has_room)
        .or_else(|| Some(prev).filter(in_use).filter(has_room))
        .or_else(|| Some(on).filter(has_room))
        .or_else(|| (0..shared.nr_cpus() as u32).map(CpuId).filter(in_use).find(has_room))
}

/// Whether nothing waits on a CPU but fair tasks, at most so many of them, and it would be used to less than [`PACK_PCT`] with the task.
fn has_room<D: Discipline, T: Tunables>(
    rq: &Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
    cpu: CpuId,
    tasks: u32,
) -> bool {
    let published = shared.cpu(cpu);
    // What the task itself uses is part of what its own CPU is used for.
    let more = if cpu == rq.cpu { 0 } else { <Fair<D, T> as Policy>::task_util(rq, task) };
    // Those whose dequeue is delayed do not count.
    published.is_fair()
        && published.h_nr_runnable() <= tasks
        && (published.util() + more) * 100 < u64::from(published.capacity()) * PACK_PCT
}

/// `select_task_rq_fair` for a task that execs: the idlest CPU, as at fork, reckoned without the task itself.
pub(crate) fn select_cpu_exec<D: Discipline, T: Tunables>(
    rq: &mut Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
) -> CpuId {
    // It runs there itself.
    if shared.config.vcpu_pack && has_room(rq, shared, task, rq.cpu, 2) {
        return rq.cpu;
    }
    let load = rq.task_h_load(shared, task);
    let avg = &rq.class.entities[Se::task(task)].avg;
    let runs = Runs { cpu: rq.cpu, load, util: avg.util_avg.max(u64::from(avg.util_est)), runnable: avg.runnable_avg };
    find_idlest(rq, shared, task, rq.cpu, Some(&runs))
}

/// Whether waker and wakee are a master and one of many workers, which had better be spread than pulled together.
fn wake_wide<D: Discipline, T: Tunables>(
    rq: &Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
    on: CpuId,
    wake: Wake,
) -> bool {
    let factor = shared.domains.llc_size(on);
    let wakee = rq.tasks[task].wakee_flips;
    let (master, slave) = if wake.waker_flips < wakee { (wakee, wake.waker_flips) } else { (wake.waker_flips, wakee) };
    slave >= factor && u64::from(master) >= u64::from(slave) * u64::from(factor)
}

/// Whether the wakee should come to the waker's CPU (`on`) or stay where it was: three rules, the first that has an
/// opinion.
fn wake_affine<D: Discipline, T: Tunables>(
    rq: &mut Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    domain: &Domain,
    task: u32,
    on: CpuId,
    wake: Wake,
) -> CpuId {
    let prev = rq.cpu;
    let features = shared.config.features;
    let (here, there) = (shared.cpu(on), shared.cpu(prev));
    if features.has(Feature::WaIdle) {
        // 1. An idle waker (an interrupt woke) in the same cache: either will do, prefer where the task was.
        if here.is_idle() && shared.domains.share_cache(on, prev) {
            return if there.is_idle() { prev } else { on };
        }
        // 2. The waker is about to sleep and alone: its CPU is as good as idle.
        if wake.sync && here.nr_running() == 1 {
            return on;
        }
        if there.is_idle() {
            return prev;
        }
    }
    if features.has(Feature::WaWeight) {
        // 3. The less loaded of the two after the move, with a bias for the waker.
        let mut this_load = here.load() as i64;
        if wake.sync {
            if wake.waker_load as i64 > this_load {
                return on;
            }
            this_load -= wake.waker_load as i64;
        }
        let task_load = rq.task_h_load(shared, task) as i64;
        this_load += task_load;
        let mut prev_load = there.load() as i64 - task_load;
        if features.has(Feature::WaBias) {
            this_load *= 100;
            prev_load *= 100 + (domain.imbalance_pct as i64 - 100) / 2;
        }
        this_load *= i64::from(there.capacity_of());
        prev_load *= i64::from(here.capacity_of());
        if wake.sync {
            prev_load += 1;
        }
        if this_load < prev_load {
            return on;
        }
    }
    prev
}

#[inline]
fn idle_or_sched_idle<D: Discipline, T: Tunables>(shared: &Shared<Fair<D, T>>, cpu: CpuId) -> bool {
    let cpu = shared.cpu(cpu);
    cpu.is_idle() || cpu.is_sched_idle()
}

/// An idle CPU in the cache of `target`, with preference for `target`, the previous CPU and the one before.
fn select_idle_sibling<D: Discipline, T: Tunables>(
    rq: &mut Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
    target: CpuId,
) -> CpuId {
    let prev = rq.cpu;
    let domains: &Domains = &shared.domains;
    let asym = domains.asym();
    if asym {
        rq.catch_up_around(shared, task);
        rq.sync_entity_load_avg(Se::task(task));
    }
    let recent = rq.tasks[task].recent_used_cpu;
    let good = |cpu: CpuId| idle_or_sched_idle(shared, cpu) && (!asym || rq.task_fits_cpu(shared, task, cpu));
    let allowed = |cpu: CpuId| rq.tasks[task].allowed(cpu);
    if good(target) && allowed(target) {
        return target;
    }
    if prev != target && domains.share_cache(prev, target) && good(prev) && allowed(prev) {
        return prev;
    }
    let recent_is_good =
        recent != prev && recent != target && domains.share_cache(recent, target) && good(recent) && allowed(recent);
    rq.tasks[task].recent_used_cpu = prev;
    if recent_is_good { recent } else { search_idle_sibling(rq, shared, task, target) }
}

/// The search of [`select_idle_sibling`], where none of the CPUs known by name is idle.
#[inline(never)]
fn search_idle_sibling<D: Discipline, T: Tunables>(
    rq: &Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
    target: CpuId,
) -> CpuId {
    let prev = rq.cpu;
    let domains: &Domains = &shared.domains;
    // Where CPUs differ those of the same cache may all be too small.
    if domains.asym()
        && let Some(domain) = domains.asym_domain(target)
    {
        return rq.select_idle_capacity(shared, domain, task, target).unwrap_or(target);
    }
    let allowed = |cpu: CpuId| rq.tasks[task].allowed(cpu);
    let Some(llc) = domains.llc_domain(target) else { return target };
    let llc_shared = &domains.llcs[domains.llc(target)];
    let mut has_idle_core = false;
    if domains.smt() {
        has_idle_core = llc_shared.has_idle_cores.load(Relaxed);
        if !has_idle_core
            && domains.share_cache(prev, target)
            && let Some(siblings) = domains.smt_siblings(prev)
            && let Some(cpu) =
                siblings.iter().find(|&cpu| cpu != prev && allowed(cpu) && idle_or_sched_idle(shared, cpu))
        {
            return cpu;
        }
    }
    let mut budget = u32::MAX;
    if !has_idle_core && shared.config.features.has(Feature::SisUtil) {
        budget = llc_shared.nr_idle_scan.load(Relaxed) + 1;
        // The cache domain is overloaded: searching would only cost.
        if budget == 1 {
            return target;
        }
    }
    let start = CpuId((target.0 + 1) % shared.nr_cpus() as u32);
    let mut fallback = None;
    for cpu in llc.span.iter_from(start).filter(|&cpu| allowed(cpu)) {
        if has_idle_core {
            let core_idle = domains.smt_siblings(cpu).is_none_or(|core| core.iter().all(|s| shared.cpu(s).is_idle()));
            if core_idle {
                return cpu;
            }
            if fallback.is_none() && idle_or_sched_idle(shared, cpu) {
                fallback = Some(cpu);
            }
        } else {
            budget -= 1;
            if budget == 0 {
                return target;
            }
            if idle_or_sched_idle(shared, cpu) {
                return cpu;
            }
        }
    }
    if has_idle_core {
        llc_shared.has_idle_cores.store(false, Relaxed);
    }
    fallback.unwrap_or(target)
}

/// What the slow path compares of a group of CPUs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Crowd {
    HasSpare,
    FullyBusy,
    /// The task is too big for all of its CPUs.
    Misfit,
    Overloaded,
}

/// What a task that runs on a CPU adds to its figures.
struct Runs {
    cpu: CpuId,
    load: u64,
    util: u64,
    runnable: u64,
}

struct Idlest {
    crowd: Crowd,
    idle_cpus: u32,
    util: u64,
    load: u64,
    capacity: u64,
    /// Of its biggest CPU.
    max_capacity: u64,
}

fn idlest_stats<D: Discipline, T: Tunables>(
    shared: &Shared<Fair<D, T>>,
    group: &crate::balance::domains::SchedGroup,
    imbalance_pct: u64,
    misfit: bool,
    without: Option<&Runs>,
) -> Idlest {
    let (mut idle_cpus, mut util, mut load, mut runnable, mut running) = (0, 0, 0, 0, 0);
    for &cpu in &group.cpus {
        let published = shared.cpu(cpu);
        idle_cpus += u32::from(published.is_idle());
        util += published.util();
        load += published.load();
        runnable += published.runnable();
        running += published.nr_running();
        if let Some(task) = without.filter(|task| task.cpu == cpu) {
            idle_cpus += u32::from(published.nr_running() == 1);
            util -= task.util.min(published.util());
            load -= task.load.min(published.load());
            runnable -= task.runnable.min(published.runnable());
            running -= published.nr_running().min(1);
        }
    }
    let weight = group.cpus.len() as u32;
    let capacity = group.capacity_of(shared);
    let overloaded =
        running > weight && (capacity * 100 < util * imbalance_pct || capacity * imbalance_pct < runnable * 100);
    let has_spare =
        running < weight || (capacity * imbalance_pct >= runnable * 100 && capacity * 100 > util * imbalance_pct);
    let crowd = if overloaded {
        Crowd::Overloaded
    } else if misfit {
        Crowd::Misfit
    } else if has_spare {
        Crowd::HasSpare
    } else {
        Crowd::FullyBusy
    };
    let max_capacity = if misfit { group.capacity_range(shared).1 } else { 0 };
    Idlest { crowd, idle_cpus, util, load, capacity, max_capacity }
}

/// The slow path, for tasks without a past (or that leave it behind, and run now: `without`): down the domains of `on`, each time into the idlest group.
#[inline(never)]
fn find_idlest<D: Discipline, T: Tunables>(
    rq: &Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
    on: CpuId,
    without: Option<&Runs>,
) -> CpuId {
    let (index, task) = (task, &rq.tasks[task]);
    let mut cpu = on;
    let chain: alloc::vec::Vec<u32> = shared.domains.of(on).map(|(_, domain)| domain.weight).collect();
    let mut weight = u32::MAX;
    // Each step goes into a smaller domain of the CPU found so far.
    for _ in 0..=chain.len() + 1 {
        let Some((_, domain)) = shared.domains.of(cpu).rfind(|(_, domain)| domain.weight < weight) else {
            break;
        };
        weight = domain.weight;
        let any_allowed = |mask: &CpuMask| task.affinity.as_ref().is_none_or(|allowed| allowed.intersects(mask));
        let stats = |group: &crate::balance::domains::SchedGroup| {
            let misfit = domain.asym_capacity && !group.cpus.iter().any(|&cpu| rq.task_fits_cpu(shared, index, cpu));
            idlest_stats(shared, group, domain.imbalance_pct, misfit, without)
        };
        let local = domain.groups.iter().find(|group| group.mask.contains(cpu));
        let mut best: Option<(&crate::balance::domains::SchedGroup, Idlest)> = None;
        for group in domain.groups.iter().filter(|group| !group.mask.contains(cpu) && any_allowed(&group.mask)) {
            let candidate = stats(group);
            let better = best.as_ref().is_none_or(|(_, best)| {
                (candidate.crowd < best.crowd)
                    || (candidate.crowd == best.crowd
                        && match candidate.crowd {
                            Crowd::HasSpare => {
                                candidate.idle_cpus > best.idle_cpus
                                    || (candidate.idle_cpus == best.idle_cpus && candidate.util < best.util)
                            }
                            Crowd::Misfit => candidate.max_capacity > best.max_capacity,
                            _ => candidate.load * best.capacity < best.load * candidate.capacity,
                        })
            });
            if better {
                best = Some((group, candidate));
            }
        }
        let local = local.filter(|group| any_allowed(&group.mask)).map(|group| (group, stats(group)));
        let go = match (&best, &local) {
            (None, _) => None,
            (Some((group, _)), None) => Some(*group),
            (Some((group, idlest)), Some((_, here))) => {
                let leave = if here.crowd != idlest.crowd {
                    here.crowd > idlest.crowd
                } else if here.crowd == Crowd::HasSpare {
                    let both_full = idlest.idle_cpus == 0 && here.idle_cpus == 0;
                    idlest.idle_cpus > here.idle_cpus || (both_full && idlest.util < here.util)
                } else if here.crowd == Crowd::Misfit {
                    idlest.max_capacity > here.max_capacity
                } else {
                    // Somewhat in favour of staying.
                    let slack = 1024 * (domain.imbalance_pct - 100) / 100;
                    idlest.load + slack < here.load && 100 * here.load > domain.imbalance_pct * idlest.load
                };
                leave.then_some(*group)
            }
        };
        if let Some(group) = go {
            cpu = idlest_cpu(shared, group, cpu, |cpu| task.allowed(cpu));
        } else if domain.groups.iter().all(|group| group.cpus.len() == 1) {
            break;
        }
    }
    cpu
}

/// The idlest allowed CPU of a group (`find_idlest_group_cpu`): one that runs nothing but SCHED_IDLE tasks; of the idle ones that in the
/// shallowest state, then the one that has been idle for the shortest time, as its cache is the warmest; else the one
/// with the least load.
fn idlest_cpu<D: Discipline, T: Tunables>(
    shared: &Shared<Fair<D, T>>,
    group: &crate::balance::domains::SchedGroup,
    start: CpuId,
    allowed: impl Fn(CpuId) -> bool,
) -> CpuId {
    let mut shallowest: Option<(u64, u64, CpuId)> = None;
    let mut least_loaded: Option<(u64, CpuId)> = None;
    for cpu in group.cpus.iter().copied().filter(|&cpu| allowed(cpu)) {
        let published = shared.cpu(cpu);
        if published.is_sched_idle() {
            return cpu;
        }
        if published.is_idle() {
            let idle = shared.idleness(cpu);
            let (latency, since) = (idle.exit_latency(), idle.since());
            if shallowest.is_none_or(|(least, last, _)| latency < least || (latency == least && since > last)) {
                shallowest = Some((latency, since, cpu));
            }
        } else if shallowest.is_none() {
            let load = published.load();
            if least_loaded.is_none_or(|(least, _)| load < least) {
                least_loaded = Some((load, cpu));
            }
        }
    }
    shallowest.map(|(.., cpu)| cpu).or(least_loaded.map(|(_, cpu)| cpu)).unwrap_or(start)
}
