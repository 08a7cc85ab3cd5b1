//! When to balance: on becoming idle, at each domain's ticks, and for tickless idle CPUs.

use core::sync::atomic::Ordering::Relaxed;

use super::domains::{Domain, Domains};
use super::pull::Balancing;
use super::state::{Charged, DomainState, NohzPass};
use crate::class;
use crate::event::BalanceKind;
use crate::features::Feature;
use crate::host::Host;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::{Rq, Rqs};
use crate::shared::Shared;
use crate::tunables::Tunables;

/// Returns the jiffies until a domain's next balance (`get_sd_balance_interval`): longer for a busy CPU, and one less,
/// so that levels seldom coincide.
fn interval<P: Policy>(shared: &Shared<P>, state: &DomainState, domain: &Domain, busy: bool) -> u64 {
    let tick = shared.config.tunables.tick_ns();
    let interval = if busy { state.interval * domain.busy_factor } else { state.interval };
    let mut jiffies = interval.div_ceil(tick);
    if busy && shared.config.has(Behaviour::IntervalDrifts) {
        jiffies -= 1;
    }
    let most = shared.nr_online() as u64 * 100_000_000 / tick;
    jiffies.min(most).max(1)
}

/// Longest time between newly-idle balances.
const NEWIDLE_AT_MOST_NS: u64 = 1_000_000_000;

/// Whether `rq`, without tasks, should unlock to balance: some CPU has surplus tasks, and the average idle time covers
/// the cost.
pub(crate) fn may_look_newly_idle<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, now: u64) -> bool {
    if shared.domains.asym() {
        shared.cpu(rq.cpu).set_misfit_task_load(0);
    }
    rq.balance.idle_stamp = now;
    shared.idleness(rq.cpu).begin(now);
    if shared.domains.at(rq.cpu, 0).is_none() {
        return false;
    }
    let config = &shared.config;
    if config.has(Behaviour::Early) {
        return true;
    }
    let gate = if config.has(Behaviour::NewidleGateCost) {
        rq.balance.domains[0].max_newidle_lb_cost
    } else {
        config.tunables.migration_cost_ns()
    };
    if (shared.overloaded(rq.cpu) || !config.has(Behaviour::RootOverload)) && rq.balance.avg_idle >= gate {
        return true;
    }
    let at_most = shared.jiffies.now() + NEWIDLE_AT_MOST_NS;
    rq.balance.next_balance = rq.balance.next_balance.min(next_of(rq, shared, 0)).min(at_most);
    false
}

/// Returns an idle CPU's next balance of a domain, jiffies.
fn next_of<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, position: usize) -> u64 {
    let Some(domain) = shared.domains.at(rq.cpu, position) else { return u64::MAX };
    let state = &rq.balance.domains[position];
    state.last_balance + interval(shared, state, domain, false)
}

impl<P: Policy, R: Rqs<P>, H: Host> Balancing<'_, P, R, H> {
    /// Balances for `cpu`, which has no task and [may balance](may_look_newly_idle) (`newidle_balance`). Returns true
    /// if it pulled a task: the CPU picks again, even if in vain.
    pub(crate) fn newidle(&mut self, cpu: CpuId) -> bool {
        let shared = self.shared;
        let config = &shared.config;
        if config.has(Behaviour::Early) {
            self.rqs.rq(cpu).publish(shared);
            self.early_newidle(cpu);
            return false;
        }
        let domains: &Domains = &shared.domains;
        let count = domains.of(cpu).count();
        let mut rq = self.rqs.rq(cpu);
        let avg_idle = rq.balance.avg_idle;
        class::update_blocked_averages(&mut rq, shared);
        rq.publish(shared);
        drop(rq);
        let mut cost = 0;
        let mut pulled = 0;
        let mut next_balance = shared.jiffies.now() + NEWIDLE_AT_MOST_NS;
        for position in 0..count {
            let mut rq = self.rqs.rq(cpu);
            next_balance = next_balance.min(next_of(&rq, shared, position));
            if config.has(Behaviour::NewidleCost) && avg_idle < cost + rq.balance.domains[position].max_newidle_lb_cost
            {
                break;
            }
            let rate = config.has(Behaviour::NewidleRate).then(|| config.features.has(Feature::NiRate));
            let mut weight = 1;
            let surely = rate.is_some() && rq.balance.domains[position].newidle_ratio >= 1024;
            if shared.config.features.has(Feature::NiRandom) && !surely {
                // With the probability of success.
                let dice = u32::from(rq.balance.dice()) % 1024;
                weight = 1 + rq.balance.domains[position].newidle_ratio;
                if dice > weight {
                    rq.balance.domains[position].newidle_tried(0, self.now, rate);
                    continue;
                }
                weight = (1024 + weight / 2) / weight;
            }
            drop(rq);
            let outcome = self.load_balance(domains, cpu, position, BalanceKind::NewIdle);
            pulled = outcome.pulled;
            let domain_cost = shared.config.newidle_cost_ns;
            cost += domain_cost;
            let now = self.now;
            let mut rq = self.rqs.rq(cpu);
            let rises = config.has(Behaviour::NewidleCostRises);
            let most = if rises { config.tunables.migration_cost_ns() + 200 } else { u64::MAX };
            let charged = if rises && pulled == 0 { Charged::Failure } else { Charged::Cost(domain_cost) };
            rq.balance.domains[position].charge_newidle(charged, most, now);
            rq.balance.domains[position].newidle_tried(if pulled > 0 { weight } else { 0 }, now, rate);
            if pulled > 0 || rq.nr_running > 0 || !outcome.balances_above {
                break;
            }
        }
        let mut rq = self.rqs.rq(cpu);
        rq.balance.max_idle_balance_cost = rq.balance.max_idle_balance_cost.max(cost);
        rq.balance.next_balance = rq.balance.next_balance.min(next_balance);
        let came = pulled > 0 || rq.nr_running > 0;
        if came {
            rq.balance.idle_stamp = 0;
        }
        // Up to 3.14 (here: 3.10) only once.
        came && config.has(Behaviour::NewidleRetries)
    }

    /// Balances for each due tickless idle CPU, and computes the next time. Returns whether CPUs remain for another
    /// call (up to 4.0: one CPU a call).
    pub(crate) fn nohz_idle(&mut self, cpu: CpuId) -> bool {
        let shared = self.shared;
        if shared.config.has(Behaviour::NohzOwnFirst) {
            return self.nohz_own_first(cpu);
        }
        let balance = shared.nohz.balance.swap(false, Relaxed);
        let stats = shared.nohz.stats.swap(false, Relaxed);
        let update = shared.nohz.update.swap(false, Relaxed);
        if stats {
            shared.nohz.begin_blocked();
        }
        if update {
            shared.nohz.needs_update.store(false, Relaxed);
        }
        let mut blocked = false;
        let start = CpuId((cpu.0 + 1) % shared.nr_cpus() as u32);
        let idle: alloc::vec::Vec<CpuId> = shared.nohz.iter_from(start).collect();
        let mut next = u64::MAX;
        for other in idle {
            if !shared.cpu(other).is_idle() {
                continue;
            }
            // Work arrived here; another CPU continues.
            if !shared.cpu(cpu).is_idle() {
                if stats {
                    shared.nohz.blocked_is_left();
                }
                if update {
                    shared.nohz.needs_update.store(true, Relaxed);
                }
                return false;
            }
            blocked |= stats && self.update_blocked(other);
            if balance && shared.balance_time(self.now) >= self.rqs.rq(other).balance.next_balance {
                rebalance_domains(self, other, true);
            }
            next = next.min(self.rqs.rq(other).balance.next_balance);
        }
        // If all have work by now, no next time is known.
        if next < u64::MAX {
            shared.nohz.next_balance.store(next, Relaxed);
        }
        if stats {
            shared.nohz.end_blocked(self.next_blocked(), blocked);
        }
        false
    }

    /// Up to 4.0: the kicked CPU balances itself, then the others in ascending order, until a task arrives on it, for
    /// example from the stopper. The next kick is then when its own domains are due; other CPUs wait until then. Each
    /// call balances one CPU, so that time passes between them.
    ///
    /// A CPU that becomes idle meanwhile is not part of the pass: its own search first takes as long as the rest.
    fn nohz_own_first(&mut self, cpu: CpuId) -> bool {
        let shared = self.shared;
        let this = shared.cpu(cpu);
        let has_work = !this.is_idle() || this.need_resched.load(Relaxed);
        let Some(pass) = self.rqs.rq(cpu).balance.nohz_pass.take() else {
            if !shared.nohz.balance.swap(false, Relaxed) || has_work {
                return false;
            }
            rebalance_domains(self, cpu, true);
            self.rqs.rq(cpu).balance.nohz_pass = Some(NohzPass { began: self.now, from: 0 });
            return true;
        };
        let is_next = |&other: &CpuId| {
            let was_idle = shared.cpu(other).is_idle() && shared.idleness(other).since() <= pass.began;
            other.0 >= pass.from && other != cpu && was_idle
        };
        let other = if has_work { None } else { shared.nohz.iter_from(CpuId(0)).find(is_next) };
        let Some(other) = other else {
            shared.nohz.next_balance.store(self.rqs.rq(cpu).balance.next_balance, Relaxed);
            return false;
        };
        if shared.jiffies.now() >= self.rqs.rq(other).balance.next_balance {
            if let Some(loads) = &shared.cpu_loads {
                loads.decay(shared.config.tunables.tick_ns(), other, self.now);
            }
            rebalance_domains(self, other, true);
        }
        let next = self.rqs.rq(other).balance.next_balance;
        let mut rq = self.rqs.rq(cpu);
        rq.balance.next_balance = rq.balance.next_balance.min(next);
        rq.balance.nohz_pass = Some(NohzPass { from: other.0 + 1, ..pass });
        true
    }

    /// Updates an idle CPU's averages (`update_nohz_stats`). Returns whether any is not 0.
    fn update_blocked(&mut self, cpu: CpuId) -> bool {
        let shared = self.shared;
        let mut rq = self.rqs.rq(cpu);
        if !rq.balance.has_blocked {
            return false;
        }
        rq.update_clock(self.now);
        class::update_blocked_averages(&mut rq, shared);
        rq.publish(shared);
        let published = shared.cpu(cpu);
        let higher = rq.higher && (rq.rt.has_load() || rq.dl.has_load());
        rq.balance.has_blocked = higher || published.load() > 0 || published.util() > 0;
        rq.balance.has_blocked
    }

    /// Returns the jiffy of idle CPUs' next update, a half-life later (`LOAD_AVG_PERIOD`).
    fn next_blocked(&self) -> u64 {
        const PERIOD_NS: u64 = 32_000_000;
        self.shared.jiffies.now() + PERIOD_NS.div_ceil(self.shared.config.tunables.tick_ns())
    }

    /// Updates old averages of idle CPUs; `cpu` is about to idle (`nohz_newidle_balance`).
    pub(crate) fn newidle_stats(&mut self, cpu: CpuId) {
        let shared = self.shared;
        let nohz = &shared.nohz;
        if self.rqs.rq(cpu).balance.avg_idle < shared.config.tunables.migration_cost_ns() {
            return;
        }
        nohz.begin_blocked();
        let idle: alloc::vec::Vec<CpuId> = nohz.iter_from(CpuId((cpu.0 + 1) % shared.nr_cpus() as u32)).collect();
        let mut left = false;
        for other in idle.into_iter().filter(|&other| shared.cpu(other).is_idle()) {
            left |= self.update_blocked(other);
        }
        nohz.end_blocked(self.next_blocked(), left);
    }
}

/// Balances `cpu`'s due domains, lowest first.
pub(crate) fn rebalance_domains<P: Policy, R: Rqs<P>, H: Host>(
    balancing: &mut Balancing<'_, P, R, H>,
    cpu: CpuId,
    idle: bool,
) {
    let shared = balancing.shared;
    if shared.config.has(Behaviour::Early) {
        balancing.early_rebalance(cpu, idle);
        return;
    }
    let mut rq = balancing.rqs.rq(cpu);
    rq.update_clock(balancing.now);
    class::update_blocked_averages(&mut rq, shared);
    rq.publish(shared);
    drop(rq);
    let mut idle = idle;
    let jiffies = shared.jiffies.now();
    let mut next_balance = jiffies + 60_000_000_000 / shared.config.tunables.tick_ns().max(1);
    let domains: &Domains = &shared.domains;
    let count = domains.of(cpu).count();
    let mut balances_above = true;
    // The highest cost of newly-idle balancing over all domains, and whether the last one decayed.
    let (mut max_cost, mut faded) = (0, false);
    for position in 0..count {
        let now = balancing.now;
        let busy = !idle && !shared.cpu(cpu).is_sched_idle();
        let Some(domain) = domains.at(cpu, position) else { break };
        let mut rq = balancing.rqs.rq(cpu);
        let state = &mut rq.balance.domains[position];
        faded = state.decay_newidle(now);
        max_cost += state.max_newidle_lb_cost;
        if !balances_above {
            // Another CPU balances this group here and above. Costs still decay, up to the first that is not due.
            if faded {
                continue;
            }
            break;
        }
        let mut next = state.last_balance + interval(shared, state, domain, busy);
        drop(rq);
        if jiffies >= next {
            let kind = if idle { BalanceKind::Idle } else { BalanceKind::Busy };
            let outcome = balancing.load_balance(domains, cpu, position, kind);
            balances_above = outcome.balances_above;
            if outcome.pulled > 0 {
                idle = shared.cpu(cpu).is_idle();
            }
            let busy = !idle && !shared.cpu(cpu).is_sched_idle();
            let mut rq = balancing.rqs.rq(cpu);
            let state = &mut rq.balance.domains[position];
            state.last_balance = jiffies;
            next = jiffies + interval(shared, state, domain, busy);
        }
        next_balance = next_balance.min(next);
    }
    let mut rq = balancing.rqs.rq(cpu);
    if faded && shared.config.has(Behaviour::NewidleCostFades) {
        rq.balance.max_idle_balance_cost = max_cost.max(shared.config.tunables.migration_cost_ns());
    }
    rq.balance.next_balance = next_balance;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::fair::{Cfs, Eevdf};
    use crate::config::Config;
    use crate::topology::Topology;

    /// Four CPUs with ticks of 4 ms. A busy CPU waits 16 times as long (up to 5.9: 32 times), less a tick.
    #[test]
    fn intervals_are_whole_ticks_between_one_and_a_tenth_of_a_second_a_cpu() {
        fn jiffies<P: Policy<Tunables = crate::tunables::Knobs>>(name: &str, ms: u64, busy: bool) -> u64 {
            let topology = Topology::flat(4);
            let shared: Shared<P> =
                Shared::new(topology.clone(), Config::new(&crate::kernel(name).unwrap(), &topology, 250));
            let mut rq: Rq<P> = Rq::all(&shared).remove(0);
            rq.balance.domains[0].interval = ms * 1_000_000;
            let domain = shared.domains.at(CpuId(0), 0).unwrap();
            interval(&shared, &rq.balance.domains[0], domain, busy)
        }
        let new = |ms, busy| jiffies::<Eevdf>("6.12", ms, busy);
        assert_eq!([1, 4, 5, 8, 396, 400, 512].map(|ms| new(ms, false)), [1, 1, 2, 2, 99, 100, 100]);
        assert_eq!([4, 8, 16, 64].map(|ms| new(ms, true)), [15, 31, 63, 100]);
        assert_eq!([4, 8].map(|ms| jiffies::<Cfs>("3.18", ms, true)), [32, 64]);
    }
}
