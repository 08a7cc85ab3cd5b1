//! Chooses a waking or new task's CPU: near its waker or cache, idle if possible.

use core::sync::atomic::Ordering::Relaxed;

use super::discipline::{Discipline, Fair};
use super::energy_aware::find_energy_efficient_cpu;
use super::entity::{ROOT, Se};
use crate::balance::by_load;
use crate::balance::domains::{Domain, Domains, Level, LlcShared, SchedGroup};
use crate::balance::stats::{GroupStats, GroupType};
use crate::balance::sums::Sums;
use crate::cpumask::CpuMask;
use crate::features::Feature;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::{Balanced, Policy, Wake};
use crate::rq::Rq;
use crate::shared::{Published, Shared};
use crate::task::{Affinity, SchedPolicy};
use crate::tunables::Tunables;

#[cfg(test)]
mod tests;

/// `select_task_rq_fair`. The task is on `rq`, where it slept.
pub(crate) fn select_cpu<D: Discipline, T: Tunables>(
    rq: &mut Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
    on: CpuId,
    wake: Wake,
) -> CpuId {
    let prev = rq.cpu;
    if shared.config.has(Behaviour::VcpuPack)
        && let Some(cpu) = pack(rq, shared, task, on, wake)
    {
        return cpu;
    }
    if wake.fork {
        if !shared.config.has(Behaviour::ByType) {
            return by_load::find_idlest(rq, shared, task, on);
        }
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
        // An idle previous CPU in another node is not checked.
        let same = shared.topology.place(on).node == shared.topology.place(prev).node;
        target = if same { prev } else { on };
    } else if on != prev && rq.tasks[task].allowed(on) && !by_load::wake_wide(rq, shared, task, on, wake) {
        let common = shared.domains.near(on).find(|domain| domain.span.contains(prev));
        if let Some(domain) = common {
            target = wake_affine(rq, shared, domain, task, on, wake);
            let wakeups = &mut rq.tasks[task].wakeups;
            wakeups.affine_attempts += 1;
            wakeups.affine += u32::from(target == on);
        }
    }
    select_idle_sibling(rq, shared, task, on, target)
}

/// Utilisation in percent from which a CPU has no room.
const PACK_PCT: u64 = 70;

/// Returns a busy CPU with room: the waker's or parent's, the previous one, or the first. Only builds with the patch
/// `sched_vcpu_pack` do this ([`Kernel::as_of`](crate::Kernel::as_of)).
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
    // The interrupt ends the CPU's idle time.
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

/// Whether a CPU has only fair tasks, at most `tasks`, and the task's addition stays below [`PACK_PCT`].
fn has_room<D: Discipline, T: Tunables>(
    rq: &Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
    cpu: CpuId,
    tasks: u32,
) -> bool {
    let published = shared.cpu(cpu);
    // The CPU's utilisation includes a task that slept there.
    let more = if cpu == rq.cpu { 0 } else { <Fair<D, T> as Balanced<_>>::task_util(rq, task) };
    // Tasks with a delayed dequeue do not count.
    published.is_fair()
        && published.h_nr_runnable() <= tasks
        && (published.util() + more) * 100 < u64::from(published.capacity()) * PACK_PCT
}

/// `select_task_rq_fair` at exec: the idlest CPU, without the task's own load.
pub(crate) fn select_cpu_exec<D: Discipline, T: Tunables>(
    rq: &mut Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
) -> CpuId {
    // The task itself is one of the two.
    if shared.config.has(Behaviour::VcpuPack) && has_room(rq, shared, task, rq.cpu, 2) {
        return rq.cpu;
    }
    let load = rq.task_h_load(shared, task);
    let avg = &rq.class.entities[Se::task(task)].avg;
    let util = rq.class.groups[ROOT].cfs.avg.util_avg.saturating_sub(avg.util_avg);
    let expected = rq.class.util_est.saturating_sub(u64::from(avg.util_est));
    let runs = OwnShare { cpu: rq.cpu, load, util_without: util.max(expected), runnable: avg.runnable_avg };
    find_idlest(rq, shared, task, rq.cpu, Some(&runs))
}

/// Returns the waker's CPU (`on`) or the previous one, by the first applicable rule.
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
        // 1. An idle waker (an interrupt) in the same cache: prefer the previous CPU.
        if here.is_idle() && shared.domains.share_cache(on, prev) {
            return if there.is_idle() { prev } else { on };
        }
        // 2. The waker is alone and about to sleep: its CPU is as good as idle. 6.14+, and late 6.12: tasks with a
        // delayed dequeue do not count.
        if wake.sync && here.nr_running().saturating_sub(here.nr_delayed()) == 1 {
            return on;
        }
        if there.is_idle() {
            return prev;
        }
    }
    if features.has(Feature::WaWeight) {
        // 3. The less loaded CPU after the move, with a bias for the waker.
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

/// Which CPUs a task may treat as idle.
#[derive(Clone, Copy)]
pub(super) struct Free {
    /// Whether a CPU with only SCHED_IDLE tasks is as good as idle.
    beside_idle: bool,
}

impl Free {
    /// 7.1+: not for another SCHED_IDLE task (`choose_sched_idle_rq`).
    pub(super) fn to<D: Discipline, T: Tunables>(rq: &Rq<Fair<D, T>>, shared: &Shared<Fair<D, T>>, task: u32) -> Self {
        let like_them = rq.tasks[task].policy == SchedPolicy::Idle;
        Self {
            beside_idle: shared.config.has(Behaviour::BesideIdle)
                && !(like_them && shared.config.has(Behaviour::IdleNotBesideIdle)),
        }
    }

    #[inline]
    pub(super) fn has_only_idle(self, cpu: &Published) -> bool {
        self.beside_idle && cpu.is_sched_idle()
    }

    #[inline]
    pub(super) fn is(self, cpu: &Published) -> bool {
        cpu.is_idle() || self.has_only_idle(cpu)
    }
}

/// Returns an idle CPU in the cache of `target`, preferably `target`, the previous CPU or the one before. The first two
/// ignore the affinity: after a change during sleep, `select_fallback_rq` moves the task.
fn select_idle_sibling<D: Discipline, T: Tunables>(
    rq: &mut Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
    on: CpuId,
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
    let free = Free::to(rq, shared, task);
    let good = |cpu: CpuId| free.is(shared.cpu(cpu)) && (!asym || rq.task_fits_cpu(shared, task, cpu));
    if good(target) {
        return target;
    }
    let prev_is_good = prev != target && domains.share_cache(prev, target) && good(prev);
    // 6.7+: a CPU of another cluster has to wait until this cluster has been searched.
    let cluster = domains.cluster(target).filter(|_| shared.config.has(Behaviour::ClusterFirst));
    let is_near = |cpu: CpuId| cluster.is_none_or(|cluster| cluster.contains(cpu));
    if prev_is_good && is_near(prev) {
        return prev;
    }
    let recent_is_good = shared.config.has(Behaviour::RecentCpu)
        && recent != prev
        && recent != target
        && domains.share_cache(recent, target)
        && good(recent)
        && rq.tasks[task].allowed(recent);
    rq.tasks[task].recent_used_cpu = prev;
    if recent_is_good && is_near(recent) {
        return recent;
    }
    let known = if prev_is_good { Some(prev) } else { Some(recent).filter(|_| recent_is_good) };
    search_idle_sibling(rq, shared, task, (on, target), free, cluster).or(known).unwrap_or(target)
}

#[inline(never)]
fn search_idle_sibling<D: Discipline, T: Tunables>(
    rq: &Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
    (on, target): (CpuId, CpuId),
    free: Free,
    cluster: Option<&CpuMask>,
) -> Option<CpuId> {
    let prev = rq.cpu;
    let domains: &Domains = &shared.domains;
    // All CPUs of the same cache may be too small.
    if domains.asym()
        && let Some(domain) = domains.asym_domain(target)
    {
        return Some(rq.select_idle_capacity(shared, domain, task, target).unwrap_or(target));
    }
    let woken = &rq.tasks[task];
    let allowed = |cpu: CpuId| woken.allowed(cpu);
    let llc = domains.llc_domain(target)?;
    let llc_shared = &domains.llcs[domains.llc(target)];
    let mut has_idle_core = false;
    if domains.smt() {
        has_idle_core = llc_shared.has_idle_cores.load(Relaxed);
        if !has_idle_core
            && shared.config.has(Behaviour::SiblingsOfPrev)
            && domains.share_cache(prev, target)
            && let Some(siblings) = domains.smt_siblings(prev)
            && let Some(cpu) = siblings.iter().find(|&cpu| cpu != prev && allowed(cpu) && free.is(shared.cpu(cpu)))
        {
            return Some(cpu);
        }
    }
    let features = shared.config.features;
    let mut budget = usize::MAX;
    if shared.config.features.has(Feature::SisUtil) {
        budget = llc_shared.nr_idle_scan.load(Relaxed) as usize;
        // The cache domain is overloaded: no search.
        if budget == 0 {
            return None;
        }
    }
    let by_cost = features.has(Feature::SisProp) && !features.has(Feature::SisUtil);
    if !shared.config.has(Behaviour::SearchOnce) || (by_cost && !has_idle_core) {
        if by_cost {
            let tick = shared.config.has(Behaviour::AgesIdle).then(|| shared.jiffies.now());
            budget = shared.idleness(on).scan_budget(llc.weight, tick);
        }
        return search_in_turn(rq, shared, task, (on, target), free, has_idle_core, budget);
    }
    let start = CpuId((target.0 + 1) % shared.nr_cpus() as u32);
    let Some(cluster) = cluster else {
        let cpus = llc.span.iter_from(start).filter(|&cpu| allowed(cpu));
        return search_idle_cpu(shared, llc_shared, cpus, (&allowed, free), start, has_idle_core, budget);
    };
    let far = llc.span.iter_from(start).filter(|&cpu| !cluster.contains(cpu));
    let cpus = cluster.iter_from(start).chain(far).filter(|&cpu| allowed(cpu));
    search_idle_cpu(shared, llc_shared, cpus, (&allowed, free), start, has_idle_core, budget)
}

/// Searches as up to 5.19: for an idle CPU, within a budget. Before 5.12, for an idle core before that, and for a
/// sibling thread of the target after that.
#[inline(never)]
fn search_in_turn<D: Discipline, T: Tunables>(
    rq: &Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
    (on, target): (CpuId, CpuId),
    free: Free,
    has_idle_core: bool,
    budget: usize,
) -> Option<CpuId> {
    let domains: &Domains = &shared.domains;
    let allowed = |cpu: CpuId| rq.tasks[task].allowed(cpu);
    let llc = domains.llc_domain(target)?;
    let start = CpuId((target.0 + 1) % shared.nr_cpus() as u32);
    let cpus = || llc.span.iter_from(start).filter(|&cpu| allowed(cpu));
    if shared.config.has(Behaviour::SearchOnce) {
        return scan(shared, cpus(), free, on, budget);
    }
    if has_idle_core {
        if let Ok(cpu) = search_idle_core(shared, cpus(), (&allowed, free), start) {
            return Some(cpu);
        }
        domains.llcs[domains.llc(target)].has_idle_cores.store(false, Relaxed);
    }
    // The budget includes the target.
    scan(shared, cpus(), free, on, budget.saturating_sub(1)).or_else(|| {
        let siblings = domains.smt_siblings(target)?;
        siblings.iter().find(|&cpu| allowed(cpu) && free.is(shared.cpu(cpu)))
    })
}

/// As [`search_idle_cpu`], with the search charged to `on` (SIS_PROP).
fn scan<D: Discipline, T: Tunables>(
    shared: &Shared<Fair<D, T>>,
    cpus: impl Iterator<Item = CpuId>,
    free: Free,
    on: CpuId,
    budget: usize,
) -> Option<CpuId> {
    let mut seen = 0;
    let found = cpus.take(budget).inspect(|_| seen += 1).find(|&cpu| free.is(shared.cpu(cpu)));
    shared.idleness(on).scanned(seen, shared.config.has(Behaviour::AgesIdle));
    found
}

/// `select_idle_cpu`: returns the first idle CPU of the first `budget` of `cpus`, or an idle core if there may be
/// one.
#[inline]
fn search_idle_cpu<D: Discipline, T: Tunables>(
    shared: &Shared<Fair<D, T>>,
    llc: &LlcShared,
    cpus: impl Iterator<Item = CpuId>,
    (allowed, free): (&impl Fn(CpuId) -> bool, Free),
    start: CpuId,
    has_idle_core: bool,
    budget: usize,
) -> Option<CpuId> {
    if has_idle_core {
        return search_idle_core(shared, cpus, (allowed, free), start)
            .or_else(|other| {
                llc.has_idle_cores.store(false, Relaxed);
                other.ok_or(())
            })
            .ok();
    }
    cpus.take(budget).find(|&cpu| free.is(shared.cpu(cpu)))
}

/// Returns the first of `cpus`, from `start` around, on an idle core (`select_idle_core`), or else the first idle one.
#[inline(never)]
fn search_idle_core<D: Discipline, T: Tunables>(
    shared: &Shared<Fair<D, T>>,
    cpus: impl Iterator<Item = CpuId>,
    (allowed, free): (&impl Fn(CpuId) -> bool, Free),
    start: CpuId,
) -> Result<CpuId, Option<CpuId>> {
    let place = |cpu: CpuId| if cpu < start { cpu.index() + shared.nr_cpus() } else { cpu.index() };
    let mut seen = None;
    for cpu in cpus {
        let Some(core) = shared.domains.smt_siblings(cpu) else {
            if shared.cpu(cpu).is_idle() {
                return Ok(cpu);
            }
            continue;
        };
        // The first of its threads has checked this core.
        if core.iter().any(|other| allowed(other) && place(other) < place(cpu)) {
            continue;
        }
        let mut whole = true;
        for thread in core.iter() {
            let this = shared.cpu(thread);
            if this.is_idle() {
                if seen.is_none() && allowed(thread) {
                    seen = Some(thread);
                }
            } else {
                whole = false;
                if seen.is_some() {
                    break;
                }
                if free.has_only_idle(this) && allowed(thread) {
                    seen = Some(thread);
                    break;
                }
            }
        }
        if whole {
            return Ok(cpu);
        }
    }
    Err(seen)
}

/// A running task's part of its CPU's figures.
struct OwnShare {
    cpu: CpuId,
    load: u64,
    /// Utilisation of the CPU without the task.
    util_without: u64,
    runnable: u64,
}

/// Returns a group's figures (`update_sg_wakeup_stats`). CPUs forbidden to the task count only for its size; [in
/// 6.18](Behaviour::CountsForbidden) fully. `misfit`: the task is too big for all CPUs that count.
fn idlest_stats<'a, D: Discipline, T: Tunables>(
    shared: &Shared<Fair<D, T>>,
    group: &'a SchedGroup,
    imbalance_pct: u64,
    misfit: bool,
    affinity: &Affinity,
    without: Option<&OwnShare>,
) -> GroupStats<'a> {
    let all = shared.config.has(Behaviour::CountsForbidden);
    let counts = |cpu: &&CpuId| all || affinity.as_ref().is_none_or(|allowed| allowed.contains(**cpu));
    let sums = group.cpus.iter().filter(counts).map(|&cpu| match without.filter(|task| task.cpu == cpu) {
        Some(task) => Sums::without(shared.cpu(cpu), task.load, task.runnable, task.util_without),
        None => Sums::of(shared.cpu(cpu)),
    });
    let mut stats = GroupStats::of_sums(shared, group, sums.fold(Sums::default(), Sums::and));
    stats.misfit = u64::from(misfit);
    stats.kind = stats.classify(imbalance_pct);
    stats.avg_load = stats.load_per_capacity();
    stats
}

/// Whether `group` is idler than `best` (`update_pick_idlest`).
fn is_idler<P: Policy>(shared: &Shared<P>, group: &GroupStats<'_>, best: &GroupStats<'_>) -> bool {
    if group.kind != best.kind {
        return group.kind < best.kind;
    }
    match group.kind {
        GroupType::HasSpare => {
            group.idle_cpus > best.idle_cpus || (group.idle_cpus == best.idle_cpus && group.util < best.util)
        }
        GroupType::Misfit => is_bigger(shared, group, best),
        GroupType::FullyBusy | GroupType::Overloaded => group.avg_load < best.avg_load,
        // A wakeup never meets these.
        GroupType::SmtBalance | GroupType::Imbalanced => false,
    }
}

fn is_bigger<P: Policy>(shared: &Shared<P>, group: &GroupStats<'_>, than: &GroupStats<'_>) -> bool {
    group.group.capacity_range(shared).1 > than.group.capacity_range(shared).1
}

/// Whether a task should leave `here` (`find_idlest_group`). `room`: number of CPUs of `here` that it may use.
fn is_worth_leaving<P: Policy>(
    shared: &Shared<P>,
    group: &GroupStats<'_>,
    here: &GroupStats<'_>,
    domain: &Domain,
    room: u32,
) -> bool {
    if group.kind != here.kind {
        return group.kind < here.kind;
    }
    let numa = matches!(domain.level, Level::Numa(_));
    match here.kind {
        GroupType::HasSpare => {
            // A pair that communicates should stay on its node while tasks are few.
            let stays = if shared.config.has(Behaviour::NumaByCaches) {
                let few = here.nr_running < room.min(domain.imb_numa_nr);
                few && here.idle_cpus.abs_diff(group.idle_cpus) <= 2
            } else if shared.config.has(Behaviour::NumaQuarter) {
                here.nr_running < domain.weight / 4
            } else {
                here.idle_cpus > 0
            };
            !(numa && stays) && group.idle_cpus > here.idle_cpus
        }
        GroupType::Misfit => is_bigger(shared, group, here),
        GroupType::FullyBusy | GroupType::Overloaded => {
            let slack = 1024 * (domain.imbalance_pct - 100) / 100;
            // Other nodes must be idler by more than that.
            (!numa || group.avg_load + slack < here.avg_load)
                && 100 * here.avg_load > domain.imbalance_pct * group.avg_load
        }
        GroupType::SmtBalance | GroupType::Imbalanced => false,
    }
}

/// The slow path: descends the domains of `on` into the idlest group. For forks; for exec, `without` is the task's own
/// load to subtract.
#[inline(never)]
fn find_idlest<D: Discipline, T: Tunables>(
    rq: &Rq<Fair<D, T>>,
    shared: &Shared<Fair<D, T>>,
    task: u32,
    on: CpuId,
    without: Option<&OwnShare>,
) -> CpuId {
    let free = Free::to(rq, shared, task);
    let (index, task) = (task, &rq.tasks[task]);
    let mut cpu = on;
    let mut weight = u32::MAX;
    // Each step enters a smaller domain of the CPU found so far.
    while let Some(domain) = shared.domains.near(cpu).rfind(|domain| domain.weight < weight) {
        weight = domain.weight;
        let any_allowed = |mask: &CpuMask| task.affinity.as_ref().is_none_or(|allowed| allowed.intersects(mask));
        let misfit = |group: &SchedGroup| {
            let counts = |cpu| task.allowed(cpu) || shared.config.has(Behaviour::CountsForbidden);
            let fits = |&cpu: &CpuId| counts(cpu) && rq.task_fits_cpu(shared, index, cpu);
            domain.asym_capacity && !group.cpus.iter().any(fits)
        };
        let stats = |group| idlest_stats(shared, group, domain.imbalance_pct, misfit(group), &task.affinity, without);
        // The ring of groups begins with its own.
        let own = domain.groups.iter().position(|group| group.mask.contains(cpu)).unwrap_or(0);
        let (before, after) = domain.groups.split_at(own);
        let others = after.iter().skip(1).chain(before).filter(|group| any_allowed(&group.mask));
        let mut best: Option<GroupStats<'_>> = None;
        for group in others {
            let candidate = stats(group);
            if best.as_ref().is_none_or(|best| is_idler(shared, &candidate, best)) {
                best = Some(candidate);
            }
        }
        let local = Some(&domain.groups[own]).filter(|group| any_allowed(&group.mask)).map(|group| {
            let room = group.cpus.iter().filter(|&&cpu| task.allowed(cpu)).count();
            (stats(group), room as u32)
        });
        let go = match (&best, &local) {
            (Some(idlest), Some((here, room))) if !is_worth_leaving(shared, idlest, here, domain, *room) => None,
            (best, _) => best.as_ref(),
        };
        if let Some(found) = go {
            cpu = idlest_cpu(shared, found.group, cpu, free, |cpu| task.allowed(cpu));
        } else if domain.groups.iter().all(|group| group.cpus.len() == 1) {
            break;
        }
    }
    cpu
}

/// Returns the idlest allowed CPU (`find_idlest_group_cpu`): one with only SCHED_IDLE tasks, else the shallowest idle
/// one, else the least loaded. Of equally shallow CPUs, the last idle has the warmest cache.
fn idlest_cpu<D: Discipline, T: Tunables>(
    shared: &Shared<Fair<D, T>>,
    group: &SchedGroup,
    start: CpuId,
    free: Free,
    allowed: impl Fn(CpuId) -> bool,
) -> CpuId {
    let mut shallowest: Option<(u64, u64, CpuId)> = None;
    let mut least_loaded: Option<(u64, CpuId)> = None;
    for cpu in group.cpus.iter().copied().filter(|&cpu| allowed(cpu)) {
        let published = shared.cpu(cpu);
        if free.has_only_idle(published) {
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
