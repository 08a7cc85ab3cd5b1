//! A CPU's state of balancing.

use alloc::vec::Vec;

use super::domains::Domain;
use super::sets::DomainSets;
use crate::config::{Config, NEWIDLE_RATIO};
use crate::ids::CpuId;
use crate::kernels::Behaviour;

/// What a newly-idle balance adds to the costs of its domain.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Charged {
    /// Its cost, nanoseconds.
    Cost(u64),
    /// One and a half times the highest cost, since it pulled nothing ([`Behaviour::NewidleCostRises`]).
    Failure,
}

#[derive(Clone, Debug)]
pub(crate) struct DomainState {
    /// [Jiffies](crate::shared::Shared::balance_time).
    pub(crate) last_balance: u64,
    /// While idle, nanoseconds.
    pub(crate) interval: u64,
    pub(crate) nr_balance_failed: u32,
    /// Highest cost of a newly-idle balance here, decaying, nanoseconds.
    pub(crate) max_newidle_lb_cost: u64,
    pub(crate) last_decay: u64,
    /// Newly-idle balancing: tries, successes, and chance of 1024 (6.18's `NI_RANDOM`).
    pub(crate) newidle_calls: u32,
    pub(crate) newidle_success: u32,
    pub(crate) newidle_ratio: u32,
    /// The chance's last update.
    pub(crate) newidle_stamp: u64,
}

impl DomainState {
    /// Returns a domain's state at its creation. `ratio`, the initial chance of newly-idle balancing of 1024, later
    /// follows the success rate with a delay of 512 tries.
    fn new(interval: u64, now: u64, jiffies: u64, ratio: u32) -> Self {
        // 1024 or more means always; the cap keeps the arithmetic in range.
        let ratio = ratio.min(1 << 16);
        Self {
            last_balance: jiffies,
            interval,
            nr_balance_failed: 0,
            max_newidle_lb_cost: 0,
            last_decay: now,
            newidle_calls: 512,
            newidle_success: ratio / 2,
            newidle_ratio: ratio,
            newidle_stamp: now,
        }
    }

    /// Doubles the interval, up to the domain's longest; for `pinned` tasks to 512 ms.
    pub(crate) fn back_off(&mut self, domain: &Domain, pinned: bool) {
        /// Nanoseconds.
        const MAX_PINNED_INTERVAL: u64 = 512_000_000;
        if self.interval < domain.max_interval || (pinned && self.interval < MAX_PINNED_INTERVAL) {
            self.interval *= 2;
        }
    }

    /// Raises the highest cost of a newly-idle balance, to at most `most`, or lets it decay.
    pub(crate) fn charge_newidle(&mut self, charged: Charged, most: u64, now: u64) {
        let cost = match charged {
            Charged::Cost(cost) => cost,
            Charged::Failure => self.max_newidle_lb_cost * 3 / 2,
        };
        if cost > self.max_newidle_lb_cost {
            self.max_newidle_lb_cost = cost.min(most);
            self.last_decay = now;
        } else {
            self.decay_newidle(now);
        }
    }

    /// Decays the highest cost by about 1 % a second. Returns whether that was due.
    pub(crate) fn decay_newidle(&mut self, now: u64) -> bool {
        let due = now > self.last_decay + 1_000_000_000;
        if due {
            self.max_newidle_lb_cost = self.max_newidle_lb_cost * 253 / 256;
            self.last_decay = now;
        }
        due
    }

    /// Counts a due newly-idle balance. `success` is 0 if it was omitted or pulled nothing. 7.1+ (`rate`, NI_RATE): a
    /// CPU that becomes idle less than 128 times a second always balances. At 2048 times, its chance is a 16th above
    /// its success rate.
    pub(crate) fn newidle_tried(&mut self, success: u32, now: u64, rate: Option<bool>) {
        self.newidle_calls += 1;
        self.newidle_success += success;
        if self.newidle_calls >= 1024 {
            // A few successful tries count for more, up to several times 1024 (seen on a real 6.18: 2048).
            self.newidle_ratio = self.newidle_success;
            if let Some(rate) = rate {
                let seldom = if rate { now.wrapping_sub(self.newidle_stamp) >> 22 } else { 0 };
                self.newidle_ratio = (u64::from(self.newidle_success) + seldom).min(1024) as u32;
                self.newidle_stamp = now;
            }
            self.newidle_calls /= 2;
            self.newidle_success /= 2;
        }
    }
}

/// Returns states for the domains that a CPU could have with more CPUs online, for code in a domain during a rebuild.
fn states<T>(domains: &DomainSets, config: &Config<T>, cpu: CpuId, now: u64, jiffies: u64) -> Vec<DomainState> {
    // An idle machine, as before every recording, has backed off to the longest intervals. On a real 6.18 of two CPUs,
    // the first balances of busy CPUs came 60 ms after the last of idle ones (4 ms times 16, less a tick), not 28.
    // Older balancers were not observed. Domains built later start again (`sd_init`).
    let begins = now == 0;
    let idled = begins && config.has(Behaviour::ByType);
    let ratio = if begins { config.newidle_ratio } else { NEWIDLE_RATIO };
    let interval = |domain: &Domain| if idled { domain.max_interval } else { domain.min_interval };
    let mut states: Vec<DomainState> =
        domains.of(cpu).map(|(_, domain)| DomainState::new(interval(domain), now, jiffies, ratio)).collect();
    let most = domains.most_levels().max(states.len());
    states.resize_with(most, || DomainState::new(1_000_000, now, jiffies, ratio));
    states
}

/// A kicked CPU's pass over the idle CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NohzPass {
    /// Nanoseconds.
    pub(super) began: u64,
    /// The first CPU not yet considered.
    pub(super) from: u32,
}

/// Times are nanoseconds unless noted.
#[derive(Debug)]
#[repr(C)] // the dice do not fit the cache line of the others
pub(crate) struct RqBalance {
    pub(crate) domains: Vec<DomainState>,
    /// When the first domain is due, [jiffies](crate::shared::Shared::balance_time).
    pub(crate) next_balance: u64,
    /// Average idle time, at most twice the cost of balancing.
    pub(crate) avg_idle: u64,
    pub(crate) idle_stamp: u64,
    pub(crate) max_idle_balance_cost: u64,
    pub(crate) active_balance: bool,
    pub(crate) tick_stopped: bool,
    /// Blocked averages may still decay (`rq->has_blocked_load`).
    pub(crate) has_blocked: bool,
    dice: u64,
    /// Up to 4.0: the pass of this CPU, kicked for idle CPUs.
    pub(crate) nohz_pass: Option<NohzPass>,
}

/// The initial value.
const MIGRATION_COST_NS: u64 = 500_000;

impl RqBalance {
    /// Returns the state of a CPU at time 0. `jiffies` is the balancer's [time](crate::shared::Shared::balance_time) at
    /// 0.
    pub(crate) fn new<T>(domains: &DomainSets, config: &Config<T>, cpu: CpuId, jiffies: u64) -> Self {
        Self {
            domains: states(domains, config, cpu, 0, jiffies),
            next_balance: 0,
            avg_idle: 2 * MIGRATION_COST_NS,
            idle_stamp: 0,
            max_idle_balance_cost: MIGRATION_COST_NS,
            active_balance: false,
            tick_stopped: false,
            has_blocked: false,
            dice: 0x9e37_79b9_7f4a_7c15 ^ u64::from(cpu.0) << 32,
            nohz_pass: None,
        }
    }

    /// Replaces the state of the CPU's domains after their rebuild at `now`, in the jiffy `jiffies`.
    pub(crate) fn rebuilt<T>(&mut self, domains: &DomainSets, config: &Config<T>, cpu: CpuId, now: u64, jiffies: u64) {
        self.domains = states(domains, config, cpu, now, jiffies);
    }

    /// Notes that the CPU is online, and idle since `now`.
    pub(crate) fn online(&mut self, now: u64, jiffies: u64) {
        self.next_balance = jiffies;
        self.avg_idle = 2 * MIGRATION_COST_NS;
        self.idle_stamp = now;
        self.max_idle_balance_cost = MIGRATION_COST_NS;
        self.active_balance = false;
        self.tick_stopped = false;
        self.nohz_pass = None;
    }

    /// Returns the next number of this CPU's fixed sequence (xorshift64*), for the kernel's random numbers (NI_RANDOM).
    pub(crate) fn dice(&mut self) -> u16 {
        self.dice ^= self.dice >> 12;
        self.dice ^= self.dice << 25;
        self.dice ^= self.dice >> 27;
        (self.dice.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 48) as u16
    }

    /// Counts the idle time that ends now. Returns whether the CPU was idle.
    pub(crate) fn idle_ended(&mut self, now: u64) -> bool {
        if self.idle_stamp == 0 {
            return false;
        }
        let delta = now.saturating_sub(self.idle_stamp);
        let most = 2 * self.max_idle_balance_cost;
        let diff = delta as i64 - self.avg_idle as i64;
        self.avg_idle = self.avg_idle.saturating_add_signed(diff / 8).min(most);
        self.idle_stamp = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::fair::Eevdf;
    use crate::config::Config;
    use crate::shared::Shared;
    use crate::topology::Topology;

    const MS: u64 = 1_000_000;

    /// Four CPUs of one cache, with intervals of 4 to 8 ms.
    fn shared(name: &str) -> Shared<Eevdf> {
        let topology = Topology::flat(4);
        Shared::new(topology.clone(), Config::new(&crate::kernel(name).unwrap(), &topology, 250))
    }

    #[test]
    fn domains_that_are_built_again_begin_with_the_shortest_interval() {
        let shared = shared("6.12");
        let mut balance = RqBalance::new(&shared.domains, &shared.config, CpuId(0), 0);
        let domain = shared.domains.at(CpuId(0), 0).unwrap();
        assert_eq!((domain.min_interval, domain.max_interval), (4 * MS, 8 * MS));
        let intervals = |balance: &RqBalance| balance.domains[0].interval;
        assert_eq!(intervals(&balance), 8 * MS);
        balance.rebuilt(&shared.domains, &shared.config, CpuId(0), 100 * MS, 0);
        assert_eq!(intervals(&balance), 4 * MS);
        assert_eq!(balance.domains[0].newidle_ratio, NEWIDLE_RATIO);
    }

    #[test]
    fn intervals_double_up_to_the_longest() {
        let shared = shared("6.12");
        let domain = shared.domains.at(CpuId(0), 0).unwrap();
        let after = |times: usize, pinned: bool| {
            let mut state = DomainState::new(domain.min_interval, 0, 0, 0);
            (0..times).for_each(|_| state.back_off(domain, pinned));
            state.interval
        };
        assert_eq!([0, 1, 2, 3].map(|times| after(times, false) / MS), [4, 8, 8, 8]);
        assert_eq!([2, 6, 7, 8].map(|times| after(times, true) / MS), [16, 256, 512, 512]);
    }

    /// The cost stays while reached once a second, then falls by 3/256 a second.
    #[test]
    fn the_highest_cost_of_a_look_fades() {
        const S: u64 = 1_000 * MS;
        let mut state = DomainState::new(MS, 0, 0, 0);
        let mut charge = |cost: u64, now: u64| {
            state.charge_newidle(Charged::Cost(cost), u64::MAX, now);
            state.max_newidle_lb_cost
        };
        charge(25_600, S / 2);
        assert_eq!(charge(1, S + S / 2), 25_600, "a second, but not more");
        charge(1, S + S / 2 + 1);
        assert_eq!(charge(1, 2 * S), 25_300);
    }

    /// 6.17: failures raise the cost by half each, up to migration_cost.
    #[test]
    fn failed_looks_raise_the_highest_cost() {
        let mut state = DomainState::new(MS, 0, 0, 0);
        state.charge_newidle(Charged::Cost(200_000), 500_200, 0);
        let costs = [1, 2, 3, 4].map(|now| {
            state.charge_newidle(Charged::Failure, 500_200, now);
            state.max_newidle_lb_cost
        });
        assert_eq!(costs, [300_000, 450_000, 500_200, 500_200]);
    }

    /// The mean moves by an eighth of the difference, up to twice the cost of balancing.
    #[test]
    fn idle_times_are_averaged() {
        let shared = shared("6.12");
        let mut balance = RqBalance::new(&shared.domains, &shared.config, CpuId(0), 0);
        let mut idles = |ns: u64| {
            balance.idle_stamp = MS;
            balance.idle_ended(MS + ns);
            balance.avg_idle
        };
        assert_eq!([idles(200_000), idles(500_000), idles(100 * MS)], [900_000, 850_000, 1_000_000]);
        balance.idle_ended(5 * MS);
        assert_eq!(balance.avg_idle, 1_000_000, "it has not been idle since");
    }

    /// As on a real 6.18: the chance follows after 512 tries; a success at a low chance counts for many.
    #[test]
    fn newly_idle_balancing_follows_what_has_helped() {
        let mut state = DomainState::new(1_000_000, 0, 0, 200);
        for tried in 0..512 {
            assert_eq!(state.newidle_ratio, 200);
            state.newidle_tried(u32::from(tried % 4 == 0), 0, None);
        }
        assert_eq!(state.newidle_ratio, 100 + 128, "what is older counts for half");
        let mut lucky = DomainState::new(1_000_000, 0, 0, 0);
        for tried in 0..512 {
            lucky.newidle_tried(if tried < 2 { 1024 } else { 0 }, 0, None);
        }
        assert_eq!(lucky.newidle_ratio, 2048);
    }

    #[test]
    fn a_cpu_that_is_seldom_newly_idle_always_looks_since_7_1() {
        const S: u64 = 1 << 30;
        for (took, rate, ratio) in [(8 * S, true, 1024), (S, true, 256), (S, false, 0)] {
            let mut state = DomainState::new(1, 0, 0, 0);
            for tried in 0..512 {
                state.newidle_tried(0, tried * took / 511, Some(rate));
            }
            assert_eq!(state.newidle_ratio, ratio);
        }
        let mut lucky = DomainState::new(1, 0, 0, 0);
        (0..512).for_each(|_| lucky.newidle_tried(1024, 0, Some(true)));
        assert_eq!(lucky.newidle_ratio, 1024);
    }
}
