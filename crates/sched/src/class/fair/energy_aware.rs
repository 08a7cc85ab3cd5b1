//! Energy-aware scheduling: while every CPU has a fifth of its capacity free, waking tasks are placed where they cost
//! the least energy (`find_energy_efficient_cpu`; `Documentation/scheduler/sched-energy.rst`).
//!
//! Each domain of the [model](crate::energy) has two candidates: the task's previous CPU, and the CPU with the most
//! free capacity. Their cost follows from the frequency that `schedutil` would choose, and the domain's busy time. The
//! cheapest is chosen; of equals, the previous CPU.
//!
//! While a CPU uses more than four fifths of its capacity (`rd->overutilized`), energy does not count. Otherwise load
//! is not balanced. Wakeups and ticks check the CPU; balancing of the topmost domain clears the flag. 6.3+: a task
//! too large for its CPU is moved in any case.
//!
//! One difference from 6.1: a CPU that cannot satisfy a lower clamp ranks before one that is too small, as in later
//! kernels.

use core::sync::atomic::Ordering::Relaxed;

use super::capacity::{Fit, util_fits_cpu};
use super::discipline::{Discipline, FairCpu, FairShared};
use super::entity::{ROOT, Se};
use crate::balance::domains::Domain;
use crate::class::clamps;
use crate::cpumask::CpuMask;
use crate::energy::Energy;
use crate::event::Event;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::shared::Shared;
use crate::tunables::Tunables;
use crate::uclamp::Clamps;

#[inline(never)]
pub(super) fn publish<D: Discipline, T: Tunables>(rq: &FairCpu<D, T>, energy: &Energy) {
    energy.of(rq.cpu).set(used(rq), &rq.demands(0));
}

/// Utilisation: average, and expected of the queued tasks.
fn used<D: Discipline, T: Tunables>(rq: &FairCpu<D, T>) -> (u64, u64) {
    (rq.class.groups[ROOT].cfs.avg.util_avg, rq.class.util_est)
}

/// Updates the flag (`check_update_overutilized_status`).
#[inline(never)]
pub(super) fn check_overutilized<D: Discipline, T: Tunables>(
    rq: &mut FairCpu<D, T>,
    shared: &FairShared<D, T>,
    energy: &Energy,
) {
    let flag = shared.flag(&energy.overutilized, rq.cpu);
    let (average, expected) = used(rq);
    let looks = shared.domains.asym() && !flag.load(Relaxed);
    if looks && is_overutilized(shared, rq.cpu, average.max(expected), rq.clamps()) {
        flag.store(true, Relaxed);
        rq.event(Event::Overutilized { root: root(shared, rq.cpu), on: true });
    }
}

fn root<P: Policy>(shared: &Shared<P>, cpu: CpuId) -> CpuId {
    shared.root_span(shared.root(cpu)).first().unwrap_or(cpu)
}

/// Whether a CPU has less than a fifth to spare (`cpu_overutilized`).
fn is_overutilized<P: Policy>(shared: &Shared<P>, cpu: CpuId, util: u64, clamps: Clamps) -> bool {
    let published = shared.cpu(cpu);
    let clamps = if shared.uclamp_used() { clamps } else { Clamps::NONE };
    let util = util.min(u64::from(published.capacity()));
    util_fits_cpu(util, clamps, published.capacity(), published.capacity_of()) == Fit::No
}

/// Updates the flag after `dst` balanced `domain` (topmost if `top`) without `excluded` CPUs. Returns a change's event.
pub(crate) fn update_domain_overutilized<P: Policy>(
    shared: &Shared<P>,
    energy: &Energy,
    dst: CpuId,
    domain: &Domain,
    excluded: &CpuMask,
    top: bool,
) -> Option<Event> {
    if !shared.domains.asym() {
        return None;
    }
    let flag = shared.flag(&energy.overutilized, dst);
    let over = domain.span.iter().filter(|&cpu| !excluded.contains(cpu)).any(|cpu| {
        let usage = energy.of(cpu);
        is_overutilized(shared, cpu, usage.util_avg().max(usage.util_est()), usage.clamps())
    });
    // The topmost domain has all CPUs.
    if !(top || over) || flag.load(Relaxed) == over {
        return None;
    }
    flag.store(over, Relaxed);
    Some(Event::Overutilized { root: root(shared, dst), on: over })
}

/// Whether `dst` does not balance. `misfit`: the busiest group has a misfit task.
pub(crate) fn leaves_alone<P: Policy>(shared: &Shared<P>, energy: &Energy, dst: CpuId, misfit: bool) -> bool {
    let overutilized = shared.flag(&energy.overutilized, dst).load(Relaxed);
    let moves_misfits = shared.config.has(Behaviour::EasMovesMisfit);
    !(overutilized || (misfit && moves_misfits)) && shared.domains.asym_domain(dst).is_some()
}

struct Wakee {
    prev: CpuId,
    util_avg: u64,
    util_est: u64,
    /// Average running and waiting time.
    runnable: u64,
    clamps: Clamps,
}

impl Wakee {
    /// Returns the larger of average and estimate (`task_util_est`).
    fn util(&self) -> u64 {
        self.util_avg.max(self.util_est)
    }
}

#[derive(Clone, Copy)]
struct Candidate {
    cpu: CpuId,
    fit: Fit,
    spare: u64,
}

/// A candidate with its cost.
struct Offer {
    cpu: CpuId,
    fit: Fit,
    delta: u64,
    capacity: u32,
}

impl Offer {
    fn is_better_than(&self, other: &Self) -> bool {
        match self.fit.cmp(&other.fit) {
            core::cmp::Ordering::Equal if self.fit == Fit::Yes => self.delta < other.delta,
            // Both are smaller than the task requests.
            core::cmp::Ordering::Equal => self.capacity > other.capacity,
            order => order.is_gt(),
        }
    }
}

/// Returns the waking task's cheapest CPU; `None` if energy does not count.
#[inline(never)]
pub(super) fn find_energy_efficient_cpu<D: Discipline, T: Tunables>(
    rq: &mut FairCpu<D, T>,
    shared: &FairShared<D, T>,
    energy: &Energy,
    task: u32,
    on: CpuId,
) -> Option<CpuId> {
    let prev = rq.cpu;
    if shared.flag(&energy.overutilized, on).load(Relaxed) {
        return None;
    }
    let lowest = shared.domains.asym_domain(on)?.weight;
    let chain = shared.domains.of(on).map(|(_, domain)| domain);
    let domain = chain.filter(|domain| domain.weight >= lowest).find(|domain| domain.span.contains(prev))?;
    rq.catch_up_around(shared, task);
    rq.sync_entity_load_avg(Se::task(task));
    let avg = &rq.class.entities[Se::task(task)].avg;
    let used = shared.uclamp_used();
    let clamps = if used { clamps::effective(shared, &rq.tasks[task]) } else { Clamps::NONE };
    let (util_est, runnable) = (u64::from(avg.util_est), avg.runnable_avg);
    let wakee = Wakee { prev, util_avg: avg.util_avg, util_est, runnable, clamps };
    if wakee.util() == 0 && clamps.min == 0 {
        return Some(prev);
    }
    let view = View { shared, energy, wakee: &wakee };
    let (mut stay, mut best): (Option<Offer>, Option<Offer>) = (None, None);
    for pd in &energy.domains {
        // The domain's CPUs that are online and in this root domain.
        let cpus = || pd.cpus.iter().copied().filter(|&cpu| shared.is_online(cpu) && shared.same_root(cpu, on));
        let (mut here, mut spacious): (Option<Candidate>, Option<Candidate>) = (None, None);
        // The last busy CPU's clamps count for the idle CPUs after it: the kernel sets them once a domain.
        let mut clamps = wakee.clamps;
        for cpu in cpus().filter(|&cpu| domain.span.contains(cpu) && rq.tasks[task].allowed(cpu)) {
            if view.has_clamps(cpu) {
                clamps = view.clamps(cpu);
            }
            let Some(candidate) = view.candidate(cpu, clamps) else { continue };
            if cpu == prev {
                here = Some(candidate);
            } else if spacious.is_none_or(|best| (candidate.fit, candidate.spare) > (best.fit, best.spare)) {
                spacious = Some(candidate);
            }
        }
        if here.is_none() && spacious.is_none() {
            continue;
        }
        let whole = u64::from(pd.capacity) * cpus().count() as u64;
        let busy = cpus().map(|cpu| view.busy(cpu)).sum::<u64>().min(whole);
        let cost = |at: Option<CpuId>| {
            let wanted = cpus().map(|cpu| view.wanted(cpu, at)).max().unwrap_or(0);
            let busy = if at.is_some() { (busy + wakee.util()).min(whole) } else { busy };
            pd.energy(wanted, busy)
        };
        let base = cost(None);
        let offer = |candidate: Candidate| {
            let delta = cost(Some(candidate.cpu)).checked_sub(base)?;
            Some(Offer { cpu: candidate.cpu, fit: candidate.fit, delta, capacity: pd.capacity })
        };
        if let Some(here) = here {
            // Less than nothing: the figures have changed meanwhile.
            let Some(offer) = offer(here) else { return Some(prev) };
            stay = Some(offer);
        }
        // In the previous CPU's domain, an equal candidate is no gain.
        if let Some(spacious) = spacious
            && here.is_none_or(|here| spacious.spare > here.spare)
        {
            let Some(offer) = offer(spacious) else { return Some(prev) };
            if best.as_ref().is_none_or(|best| offer.is_better_than(best)) {
                best = Some(offer);
            }
        }
    }
    let moves = best.filter(|best| stay.as_ref().is_none_or(|stay| best.is_better_than(stay)));
    Some(moves.map_or(prev, |best| best.cpu))
}

/// Inputs for a waking task.
struct View<'a, P: Policy> {
    shared: &'a Shared<P>,
    energy: &'a Energy,
    wakee: &'a Wakee,
}

impl<P: Policy> View<'_, P> {
    /// Returns a CPU's fair utilisation with the task on `at`, or nowhere (`cpu_util`). `boost`: waiting counts as
    /// running. 7.2+, 6.12.117 and 7.1.13 include the task's own wait; others compare first, and then add or subtract
    /// its utilisation.
    fn util(&self, cpu: CpuId, at: Option<CpuId>, boost: bool) -> u64 {
        let (usage, published) = (self.energy.of(cpu), self.shared.cpu(cpu));
        let (is_target, sleeps_here) = (at == Some(cpu), self.wakee.prev == cpu);
        let moved = |whole: u64, own: u64| match (sleeps_here, is_target) {
            (true, false) => whole.saturating_sub(own),
            (false, true) => whole + own,
            _ => whole,
        };
        let (used, wakee, config) = (usage.util_avg(), self.wakee, &self.shared.config);
        let util = if !boost || !config.has(Behaviour::BoostsRunnable) {
            moved(used, wakee.util_avg)
        } else if config.has(Behaviour::BoostMovesOwn) {
            moved(used, wakee.util_avg).max(moved(published.runnable(), wakee.runnable))
        } else {
            moved(used.max(published.runnable()), wakee.util_avg)
        };
        let expected = usage.util_est() + if is_target { self.wakee.util_est } else { 0 };
        util.max(expected).min(u64::from(published.capacity()))
    }

    fn candidate(&self, cpu: CpuId, clamps: Clamps) -> Option<Candidate> {
        let published = self.shared.cpu(cpu);
        let util = self.util(cpu, Some(cpu), false);
        let fit = util_fits_cpu(util, clamps, published.capacity(), published.capacity_of());
        let spare = u64::from(published.capacity_of()).saturating_sub(util);
        (fit != Fit::No).then_some(Candidate { cpu, fit, spare })
    }

    /// Whether a CPU's tasks count for its clamps.
    fn has_clamps(&self, cpu: CpuId) -> bool {
        self.shared.uclamp_used() && self.shared.cpu(cpu).nr_running() > 0
    }

    fn clamps(&self, cpu: CpuId) -> Clamps {
        let own = self.wakee.clamps;
        if !self.has_clamps(cpu) {
            return own;
        }
        let there = self.energy.of(cpu).clamps();
        Clamps { min: own.min.max(there.min), max: own.max.max(there.max) }
    }

    fn busy(&self, cpu: CpuId) -> u64 {
        let demands = self.energy.of(cpu).demands(self.util(cpu, None, false));
        (demands.fair + demands.rt + demands.dl).min(u64::from(self.shared.capacity(cpu)))
    }

    /// Utilisation for a CPU's frequency, with the task on `at`, or nowhere.
    fn wanted(&self, cpu: CpuId, at: Option<CpuId>) -> u64 {
        let mut demands = self.energy.of(cpu).demands(self.util(cpu, at, true));
        if at == Some(cpu) {
            demands.clamps = self.clamps(cpu);
        }
        let max = u64::from(self.shared.capacity(cpu));
        demands.wanted(self.shared.config.has(Behaviour::HeadroomOfUse), max, self.shared.uclamp_used())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::class::fair::Eevdf;
    use crate::config::Config;
    use crate::energy::{EnergyModel, PerfDomain, PerfState};
    use crate::shared::FairStats;
    use crate::topology::Topology;

    /// A task that waited for three quarters of its demand: 6.12 and 7.1 move the wait with it.
    #[test]
    fn a_task_that_waited_takes_its_wait_along_in_6_12_and_7_1() {
        let topology = Topology::flat(2);
        let utils = |kernel: &str| {
            let states = vec![PerfState { khz: 1_000_000, power_uw: 100_000 }];
            let mut config = Config::new(&crate::kernel(kernel).unwrap(), &topology, 250);
            config.energy = Some(EnergyModel { domains: vec![PerfDomain { cpus: vec![0, 1], states }] });
            let shared: Shared<Eevdf> = Shared::new(topology.clone(), config);
            let energy = shared.energy().unwrap();
            let demands = crate::rq::Rq::all(&shared).remove(0).demands(0);
            energy.of(CpuId(0)).set((300, 0), &demands);
            shared.cpu(CpuId(0)).publish_fair(FairStats { util: 300, runnable: 600, ..FairStats::default() });
            let wakee = Wakee { prev: CpuId(0), util_avg: 100, util_est: 0, runnable: 400, clamps: Clamps::NONE };
            let view = View { shared: &shared, energy, wakee: &wakee };
            let there = |boost| {
                [(0, None), (0, Some(0)), (1, Some(1))].map(|(cpu, at)| view.util(CpuId(cpu), at.map(CpuId), boost))
            };
            (there(true), there(false))
        };
        let (first, last) = ([500, 600, 100], [200, 600, 400]);
        let kernels = [("6.6", first), ("6.12", last), ("6.18", first), ("7.0", first), ("7.1", last)];
        for (kernel, boosted) in [("6.1", [200, 300, 100])].into_iter().chain(kernels) {
            assert_eq!(utils(kernel), (boosted, [200, 300, 100]), "{kernel}");
        }
    }
}
