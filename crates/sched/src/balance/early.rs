//! The balancer of the kernels before groups, 2.6.15 to 2.6.23.
//!
//! A CPU's load is what is queued there (2.6.15: 1024 for each task; since 2.6.18 its weight, smpnice), and averages of that
//! over ticks: `cpu_load[1]` and `cpu_load[2]` move by a half and a quarter of the way at each. Depending on why it
//! asks, the balancer looks at one of them, and takes the lower of average and present load for CPUs it would pull from, the higher for
//! its own: so it pulls only what lasts. Of the groups of a domain, that with the greatest load for its power is the busiest, if
//! it is more than `imbalance_pct` above its own; so much is moved that neither group passes the mean. Where less than a
//! task would move, one does if that lets more CPUs work. Tasks are taken in the order of
//! [`Policy::pull_order`], and too big ones only if they would be the most urgent where they come to.
//!
//! Of two CPUs a wakeup may choose from, the previous one and the waker's, it takes the waker's if that is no busier; and an
//! idle SMT sibling of that if there is one. Nobody looks for idle CPUs beyond that, and a new task starts on its parent's CPU (of
//! another NUMA node if that is idler): spreading is done by balancing.
//!
//! The levels are those of the machine; the numbers of each are those of SIBLING (SMT), NODE (NUMA), or else CPU. That
//! idle CPUs have no tick here is made up for by busy ones, which kick them. Power-saving balance is not modelled.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use super::active::Push;
use super::domains::{Domain, Domains, Level, SchedGroup};
use super::pull::Balancing;
use super::{Balancer, DomainState};
use crate::cpumask::CpuMask;
use crate::event::{BalanceKind, Event, MigrateCause};
use crate::host::Host;
use crate::ids::CpuId;
use crate::policy::{Dequeue, Enqueue, Policy, Wake};
use crate::rq::{Rq, Rqs};
use crate::scheduler::{activate, check_preempt, deactivate, settle};
use crate::shared::Shared;
use crate::sync::AtomicU64;
use crate::tunables::Tunables;

/// The load of one nice-0 task, and the power of one CPU.
const SCALE: u64 = 1024;
const MS: u64 = 1_000_000;
/// An interval no longer grows beyond this when all tasks are pinned, nanoseconds.
const MAX_PINNED_INTERVAL: u64 = 512 * MS;

/// The numbers of a level.
#[allow(clippy::struct_excessive_bools)] // independent, as the kernel's SD_* bits
struct Params {
    imbalance_pct: u64,
    cache_nice_tries: u32,
    /// Nanoseconds.
    min_interval: u64,
    max_interval: u64,
    busy_factor: u64,
    /// Which average of the load is looked at by a busy CPU, an idle one, one about to be idle, at a wakeup, and at fork and
    /// exec; 0 is the present load.
    busy_idx: usize,
    idle_idx: usize,
    newidle_idx: usize,
    wake_idx: usize,
    forkexec_idx: usize,
    /// CPUs about to be idle balance here.
    newidle: bool,
    /// A wakeup looks for an idle CPU here.
    wake_idle: bool,
    /// A wakeup may come to the waker's CPU if the task can stay cache-cold (WAKE_AFFINE), or to spread load (WAKE_BALANCE).
    wake_affine: bool,
    /// A new task may start elsewhere.
    fork: bool,
}

const SIBLING: Params = Params {
    imbalance_pct: 110,
    cache_nice_tries: 0,
    min_interval: MS,
    max_interval: 2 * MS,
    busy_factor: 8,
    busy_idx: 0,
    idle_idx: 0,
    newidle_idx: 1,
    wake_idx: 0,
    forkexec_idx: 0,
    newidle: true,
    wake_idle: true,
    wake_affine: true,
    fork: false,
};

const CPU: Params = Params {
    imbalance_pct: 125,
    cache_nice_tries: 1,
    min_interval: MS,
    max_interval: 4 * MS,
    busy_factor: 64,
    busy_idx: 2,
    idle_idx: 1,
    newidle_idx: 2,
    wake_idx: 1,
    forkexec_idx: 1,
    newidle: true,
    wake_idle: false,
    wake_affine: true,
    fork: false,
};

const NODE: Params = Params {
    imbalance_pct: 125,
    cache_nice_tries: 2,
    min_interval: 8 * MS,
    max_interval: 32 * MS,
    busy_factor: 32,
    busy_idx: 3,
    idle_idx: 2,
    newidle_idx: 0,
    wake_idx: 1,
    forkexec_idx: 1,
    newidle: false,
    wake_idle: false,
    wake_affine: false,
    fork: true,
};

fn params(level: Level) -> &'static Params {
    match level {
        Level::Smt => &SIBLING,
        Level::Cluster | Level::Mc | Level::Pkg => &CPU,
        Level::Numa(_) => &NODE,
    }
}

/// A CPU's `cpu_load[]`, in 1024ths of a nice-0 task, as of a tick.
#[derive(Debug, Default)]
struct Averages {
    load: [AtomicU64; 3],
    tick: AtomicU64,
}

/// The averages of all CPUs. Each is written only by who holds its run queue.
#[derive(Debug)]
pub(crate) struct CpuLoads(Vec<Averages>);

/// The average number `index` after a tick with the load `new`.
fn step(index: usize, old: u64, new: u64) -> u64 {
    let scale = 1 << index;
    // Rounded up when it rises, or it would never get there.
    let round = if new > old { scale - 1 } else { 0 };
    (old * (scale - 1) + new + round) / scale
}

/// As it is after so many ticks of idleness.
fn decayed(index: usize, mut load: u64, ticks: u64) -> u64 {
    for _ in 0..ticks {
        if load == 0 {
            break;
        }
        load = step(index, load, 0);
    }
    load
}

impl CpuLoads {
    pub(crate) fn new(cpus: usize) -> Self {
        Self((0..cpus).map(|_| Averages::default()).collect())
    }

    /// The tick of a CPU. In those it had no tick it was idle.
    pub(crate) fn update<P: Policy>(&self, rq: &Rq<P>, shared: &Shared<P>, now: u64) {
        let this = &self.0[rq.cpu.index()];
        let tick = now / shared.config.tunables.tick_ns().max(1);
        let missed = tick.saturating_sub(this.tick.swap(tick, Relaxed)).saturating_sub(1);
        let load = shared.cpu(rq.cpu).load();
        for (index, average) in this.load.iter().enumerate() {
            average.store(step(index, decayed(index, average.load(Relaxed), missed), load), Relaxed);
        }
    }

    /// The average of that index, from 1 on: `cpu_load[index - 1]`.
    pub(crate) fn average<P: Policy>(&self, shared: &Shared<P>, cpu: CpuId, index: usize, now: u64) -> u64 {
        let this = &self.0[cpu.index()];
        let load = this.load[index - 1].load(Relaxed);
        if !shared.cpu(cpu).is_idle() {
            return load;
        }
        let tick = now / shared.config.tunables.tick_ns().max(1);
        decayed(index - 1, load, tick.saturating_sub(this.tick.load(Relaxed)))
    }
}

/// A low guess at the load of a CPU, for one that may be pulled from.
fn source_load<P: Policy>(shared: &Shared<P>, cpu: CpuId, index: usize, now: u64) -> u64 {
    let present = shared.cpu(cpu).load();
    match &shared.cpu_loads {
        Some(loads) if index > 0 => present.min(loads.average(shared, cpu, index, now)),
        _ => present,
    }
}

/// A high guess at the load of a CPU, for one that tasks may come to.
fn target_load<P: Policy>(shared: &Shared<P>, cpu: CpuId, index: usize, now: u64) -> u64 {
    let present = shared.cpu(cpu).load();
    match &shared.cpu_loads {
        Some(loads) if index > 0 => present.max(loads.average(shared, cpu, index, now)),
        _ => present,
    }
}

/// How much a group can do (`cpu_power`). A second thread adds a tenth to a core. Since 2.6.17 what shares a core or a
/// package counts as one CPU, so that one task goes to each of them first.
fn power<P: Policy>(shared: &Shared<P>, domain: &Domain, group: &SchedGroup) -> u64 {
    let count = |same: fn(&crate::topology::CpuPlace) -> u32| {
        let mut ids: Vec<u32> = group.cpus.iter().map(|&cpu| same(shared.topology.place(cpu))).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.len() as u64
    };
    if domain.level == Level::Smt {
        return SCALE * group.cpus.len() as u64;
    }
    if shared.config.balancer == Balancer::V2_6_15 {
        let cores = count(|place| place.core);
        return SCALE * cores + SCALE * (group.cpus.len() as u64 - cores) / 10;
    }
    if matches!(domain.level, Level::Numa(_)) { SCALE * count(|place| place.package) } else { SCALE }
}

/// What is known of a group.
struct Group {
    /// For its power: 1024 is one nice-0 task for each CPU.
    load: u64,
    power: u64,
    nr_running: u64,
    /// Sum of the loads as they are now.
    present: u64,
    index: usize,
}

/// The group of `domain` from which `cpu`, of the group `own`, should pull, and how much load.
fn find_busiest_group<P: Policy>(
    shared: &Shared<P>,
    domain: &Domain,
    own: usize,
    kind: BalanceKind,
    excluded: &CpuMask,
    now: u64,
) -> Option<(usize, u64)> {
    let params = params(domain.level);
    let index = match kind {
        BalanceKind::Busy => params.busy_idx,
        BalanceKind::Idle => params.idle_idx,
        BalanceKind::NewIdle => params.newidle_idx,
    };
    let counts_heads = shared.config.balancer == Balancer::V2_6_15;
    let (mut total_load, mut total_power) = (0, 0);
    let (mut this, mut busiest): (Option<Group>, Option<Group>) = (None, None);
    for (position, group) in domain.groups.iter().enumerate() {
        let (mut load, mut nr_running, mut present) = (0, 0, 0);
        for &cpu in group.cpus.iter().filter(|&&cpu| !excluded.contains(cpu)) {
            load += if position == own {
                target_load(shared, cpu, index, now)
            } else {
                source_load(shared, cpu, index, now)
            };
            nr_running += u64::from(shared.cpu(cpu).nr_running());
            present += shared.cpu(cpu).load();
        }
        let power = power(shared, domain, group);
        total_load += load;
        total_power += power;
        let found = Group { load: load * SCALE / power, power, nr_running, present, index: position };
        if position == own {
            this = Some(found);
        } else if found.load > busiest.as_ref().map_or(0, |busiest| busiest.load)
            && (counts_heads || nr_running > power / SCALE)
        {
            busiest = Some(found);
        }
    }
    let (this, busiest) = (this?, busiest?);
    if this.load >= busiest.load || busiest.nr_running == 0 {
        return None;
    }
    let mean = SCALE * total_load / total_power;
    if this.load >= mean || 100 * busiest.load <= params.imbalance_pct * this.load {
        return None;
    }
    let per_task = if counts_heads { SCALE } else { busiest.present / busiest.nr_running };
    if busiest.load <= per_task {
        return None;
    }
    // Neither shall the busiest go below the mean (or be left without a task) nor this one above it.
    let amount = if busiest.load < mean {
        0
    } else {
        let out = (busiest.load - mean).min(busiest.load - per_task);
        (out * busiest.power).min((mean - this.load) * this.power) / SCALE
    };
    let amount = if amount < per_task { bump(&this, &busiest, per_task, counts_heads)? } else { amount };
    Some((busiest.index, amount))
}

/// There is less than a task's load to move. One task is moved all the same if the difference is two of them, or if more of
/// the CPUs' power is used afterwards; if not, nothing is.
fn bump(this: &Group, busiest: &Group, per_task: u64, counts_heads: bool) -> Option<u64> {
    let (mut here, mut tasks) = (SCALE, 2);
    if !counts_heads && let Some(mean) = this.present.checked_div(this.nr_running) {
        here = mean;
        tasks = if per_task > here { 1 } else { 2 };
    }
    if busiest.load - this.load >= per_task * tasks {
        return Some(per_task);
    }
    let now = (busiest.power * per_task.min(busiest.load) + this.power * here.min(this.load)) / SCALE;
    let gone = per_task * SCALE / busiest.power;
    let mut then = if busiest.load > gone { busiest.power * per_task.min(busiest.load - gone) } else { 0 };
    let come = (busiest.load * busiest.power).min(per_task * SCALE) / this.power;
    then += this.power * here.min(this.load + come);
    (then / SCALE > now).then_some(per_task)
}

/// The CPU of a group from which to pull.
fn find_busiest_queue<P: Policy>(
    shared: &Shared<P>,
    group: &SchedGroup,
    kind: BalanceKind,
    amount: u64,
    excluded: &CpuMask,
    now: u64,
    domain: &Domain,
) -> Option<CpuId> {
    let params = params(domain.level);
    let counts_heads = shared.config.balancer == Balancer::V2_6_15;
    let index = match kind {
        BalanceKind::Busy => params.busy_idx,
        BalanceKind::Idle => params.idle_idx,
        BalanceKind::NewIdle => params.newidle_idx,
    };
    let mut best: Option<(CpuId, u64)> = None;
    for &cpu in group.cpus.iter().filter(|&&cpu| !excluded.contains(cpu)) {
        let load = if counts_heads { source_load(shared, cpu, index, now) } else { shared.cpu(cpu).load() };
        if !counts_heads && shared.cpu(cpu).nr_running() == 1 && load > amount {
            continue;
        }
        if load > best.map_or(0, |(_, load)| load) {
            best = Some((cpu, load));
        }
    }
    best.map(|(cpu, _)| cpu)
}

/// The most urgent of a run queue's tasks of the policy.
fn best_prio<P: Policy>(rq: &Rq<P>) -> i16 {
    rq.listed().map(|task| P::dynamic_prio(rq, task)).min().unwrap_or(i16::MAX)
}

/// One attempt to move tasks.
struct Attempt<'d> {
    domain: &'d Domain,
    dst: CpuId,
    kind: BalanceKind,
    cause: MigrateCause,
    amount: u64,
    /// At most so many.
    most: u32,
    failed: u32,
}

/// What came of it.
struct Moved {
    count: u32,
    all_pinned: bool,
}

/// `can_migrate_task`: affinity, and whether its cache is still warm.
fn may_migrate<P: Policy>(
    rq: &Rq<P>,
    shared: &Shared<P>,
    attempt: &Attempt<'_>,
    index: u32,
    moved: &mut Moved,
) -> bool {
    let task = &rq.tasks[index];
    if !task.allowed(attempt.dst) {
        return false;
    }
    moved.all_pinned = false;
    if rq.curr == Some(index) {
        return false;
    }
    let params = params(attempt.domain.level);
    if attempt.failed > params.cache_nice_tries || attempt.domain.level == Level::Smt {
        return true;
    }
    // On another node everything is colder.
    let times = if matches!(attempt.domain.level, Level::Numa(_)) { 4 } else { 1 };
    let since = rq.clock.now().saturating_sub(task.last_ran);
    task.last_ran == 0 || since >= times * shared.config.tunables.migration_cost_ns()
}

impl<P: Policy, R: Rqs<P>, H: Host> Balancing<'_, P, R, H> {
    /// Moves tasks from `src`, until the load asked for is moved.
    fn move_tasks(&mut self, attempt: &Attempt<'_>, src: CpuId) -> Moved {
        let shared = self.shared;
        let mut moved = Moved { count: 0, all_pinned: true };
        if src == attempt.dst {
            return moved;
        }
        let (mut from, mut to) = self.rqs.pair(src, attempt.dst);
        if !to.online {
            return moved;
        }
        from.update_clock(self.now, shared);
        to.update_clock(self.now, shared);
        let (mut best_here, best_there) = (best_prio(&to), best_prio(&from));
        // One of the most urgent stays where it is, if not the running one then the first that is found.
        let mut seen = from.curr.is_some_and(|curr| P::dynamic_prio(&from, curr) == best_there);
        let mut left = attempt.amount;
        for index in P::pull_order(&from) {
            if left == 0 || moved.count >= attempt.most {
                break;
            }
            let prio = P::dynamic_prio(&from, index);
            let load = P::task_load(&mut from, shared, index);
            let mut too_big = load > left;
            if too_big && prio < best_here {
                too_big = !seen && prio == best_there;
            }
            if too_big || !may_migrate(&from, shared, attempt, index, &mut moved) {
                // Pinned or not, that it is there was seen.
                moved.all_pinned &= !from.tasks[index].allowed(attempt.dst);
                seen |= prio == best_there;
                continue;
            }
            deactivate(&mut from, shared, index, Dequeue::Move);
            P::detach(&mut from, shared, index);
            let mut task = from.take(shared, index);
            task.migrated = true;
            task.last_ran = 0;
            let event = Event::Migrate { task: task.id, from: src, to: attempt.dst, cause: attempt.cause };
            self.host.event(self.now, attempt.dst, &event);
            let index = to.adopt(shared, task);
            P::attach(&mut to, shared, index);
            activate(&mut to, shared, index, Enqueue::Move);
            check_preempt(&mut to, shared, index, Wake::default());
            moved.count += 1;
            left = left.saturating_sub(load);
            best_here = best_here.min(prio);
        }
        if moved.count > 0 && attempt.kind != BalanceKind::NewIdle {
            to.balance.idle_ended(self.now);
        }
        settle(&mut from, shared, self.host);
        if moved.count > 0 {
            // A CPU that pulls for itself is about to pick: nothing to tell it.
            if attempt.kind == BalanceKind::NewIdle {
                to.publish(shared);
            } else {
                settle(&mut to, shared, self.host);
            }
        }
        moved
    }

    /// `load_balance` and `load_balance_newidle`: how many tasks came.
    fn early_load_balance(&mut self, domains: &Domains, dst: CpuId, position: usize, kind: BalanceKind) -> u32 {
        let shared = self.shared;
        let (Some(domain), Some(own)) = (domains.at(dst, position), domains.own_group(dst, position)) else { return 0 };
        let params = params(domain.level);
        let cause = match kind {
            BalanceKind::NewIdle => MigrateCause::NewIdle,
            BalanceKind::Idle => MigrateCause::NohzIdle,
            BalanceKind::Busy => MigrateCause::Periodic,
        };
        let mut excluded = CpuMask::new();
        let mut all_pinned = false;
        let mut tried = None;
        let mut pulled = 0;
        let failed = self.rqs.rq(dst).balance.domains[position].nr_balance_failed;
        let unbalanced = loop {
            let Some((group, amount)) = find_busiest_group(shared, domain, own, kind, &excluded, self.now) else {
                break None;
            };
            let group = &domain.groups[group];
            let Some(src) = find_busiest_queue(shared, group, kind, amount, &excluded, self.now, domain) else {
                break None;
            };
            tried = Some(src);
            all_pinned = false;
            // Never the last one, as far as can be seen from here.
            let most = shared.cpu(src).nr_running().saturating_sub(1);
            if most > 0 {
                let moved = self.move_tasks(&Attempt { domain, dst, kind, cause, amount, most, failed }, src);
                pulled = moved.count;
                all_pinned = moved.all_pinned;
                if all_pinned {
                    excluded.insert(src);
                    // Since 2.6.19 the next best is tried.
                    if shared.config.balancer > Balancer::V2_6_15
                        && domain.span.iter().any(|cpu| !excluded.contains(cpu) && cpu != dst)
                    {
                        continue;
                    }
                    break None;
                }
            }
            break Some(src);
        };
        if kind == BalanceKind::NewIdle {
            if pulled > 0 || unbalanced.is_none() {
                self.rqs.rq(dst).balance.domains[position].nr_balance_failed = 0;
            }
        } else {
            let backs_off = match unbalanced {
                None => {
                    self.rqs.rq(dst).balance.domains[position].nr_balance_failed = 0;
                    true
                }
                Some(_) if pulled > 0 => {
                    self.rqs.rq(dst).balance.domains[position].nr_balance_failed = 0;
                    false
                }
                Some(src) => self.early_failed(dst, position, params, src),
            };
            let state = &mut self.rqs.rq(dst).balance.domains[position];
            let interval = state.interval.clamp(params.min_interval, MAX_PINNED_INTERVAL);
            let grows = (all_pinned && interval < MAX_PINNED_INTERVAL) || interval < params.max_interval;
            state.interval = match (backs_off, grows) {
                (true, true) => 2 * interval,
                (true, false) => interval,
                (false, _) => params.min_interval,
            };
        }
        if tried.is_some() {
            let event = Event::Balance { kind, level: position as u8, busiest: tried, pulled };
            self.host.event(self.now, dst, &event);
        }
        pulled
    }

    /// Nothing could be moved though there is an imbalance: after some failures the migration thread of `src` shall push the
    /// running task. Whether the interval is to grow.
    fn early_failed(&mut self, dst: CpuId, position: usize, params: &Params, src: CpuId) -> bool {
        let mut rq = self.rqs.rq(dst);
        let state: &mut DomainState = &mut rq.balance.domains[position];
        state.nr_balance_failed += 1;
        if state.nr_balance_failed <= params.cache_nice_tries + 2 {
            return false;
        }
        drop(rq);
        let mut rq = self.rqs.rq(src);
        if !rq.current.is_some_and(|current| rq.tasks[current].allowed(dst)) {
            return true;
        }
        if rq.push.is_none() && !rq.balance.active_balance {
            rq.balance.active_balance = true;
            rq.push = Some(Push::Balance { to: dst, position: position as u8 });
            rq.resched();
            settle(&mut rq, self.shared, self.host);
        }
        drop(rq);
        self.rqs.rq(dst).balance.domains[position].nr_balance_failed = params.cache_nice_tries + 1;
        true
    }

    /// `active_load_balance`: the migration thread of `src` moves one task to `dst`.
    pub(super) fn early_push(&mut self, src: CpuId, dst: CpuId) {
        let shared = self.shared;
        self.rqs.rq(src).balance.active_balance = false;
        let domains: &Domains = &shared.domains;
        let Some((_, domain)) = domains.of(dst).find(|(_, domain)| domain.span.contains(src)) else { return };
        if shared.cpu(src).nr_running() == 0 {
            return;
        }
        let (kind, cause) = (BalanceKind::Idle, MigrateCause::Active);
        self.move_tasks(&Attempt { domain, dst, kind, cause, amount: u64::MAX, most: 1, failed: u32::MAX }, src);
    }

    /// `idle_balance`: looks for work for `cpu`, which has none.
    pub(super) fn early_newidle(&mut self, cpu: CpuId) {
        let domains: &Domains = &self.shared.domains;
        let mut next = u64::MAX;
        for position in 0..domains.of(cpu).count() {
            let Some(domain) = domains.at(cpu, position) else { break };
            if params(domain.level).newidle && self.early_load_balance(domains, cpu, position, BalanceKind::NewIdle) > 0
            {
                break;
            }
            next = next.min(self.early_due(cpu, position, true));
        }
        let mut rq = self.rqs.rq(cpu);
        if rq.nr_running > 0 {
            rq.balance.idle_stamp = 0;
        }
        // As an idle CPU it balances more often.
        rq.balance.next_balance = rq.balance.next_balance.min(next);
    }

    /// When a domain should be balanced by `cpu` next.
    fn early_due(&mut self, cpu: CpuId, position: usize, idle: bool) -> u64 {
        let Some(domain) = self.shared.domains.at(cpu, position).map(|domain| params(domain.level)) else {
            return u64::MAX;
        };
        let tick = self.shared.config.tunables.tick_ns().max(1);
        let state = &self.rqs.rq(cpu).balance.domains[position];
        let interval = state.interval.clamp(domain.min_interval, domain.max_interval.max(state.interval));
        let interval = interval * if idle { 1 } else { domain.busy_factor };
        // Whole ticks.
        state.last_balance + (interval / tick).max(1) * tick
    }

    /// `rebalance_domains`: balances every domain of `cpu` whose time has come, from the lowest up.
    pub(super) fn early_rebalance(&mut self, cpu: CpuId, idle: bool) {
        let domains: &Domains = &self.shared.domains;
        let tick = self.shared.config.tunables.tick_ns().max(1);
        let mut idle = idle;
        let mut next = self.now + 60_000 * MS;
        for position in 0..domains.of(cpu).count() {
            // By the count of ticks, however late each of them is.
            if self.now / tick >= self.early_due(cpu, position, idle) / tick {
                let kind = if idle { BalanceKind::Idle } else { BalanceKind::Busy };
                if self.early_load_balance(domains, cpu, position, kind) > 0 {
                    idle = false;
                }
                self.rqs.rq(cpu).balance.domains[position].last_balance = self.now;
            }
            next = next.min(self.early_due(cpu, position, idle));
        }
        self.rqs.rq(cpu).balance.next_balance = next;
    }
}

/// Whether the tasks of a core get in each other's way: an idle CPU may help.
pub(super) fn shares_core<P: Policy>(shared: &Shared<P>, cpu: CpuId) -> bool {
    let siblings = shared.domains.smt_siblings(cpu);
    siblings.is_some_and(|core| core.iter().any(|other| other != cpu && !shared.cpu(other).is_idle()))
}

/// What one task weighs on a CPU, on average.
fn load_per_task<P: Policy>(shared: &Shared<P>, cpu: CpuId) -> u64 {
    if shared.config.balancer == Balancer::V2_6_15 {
        return SCALE;
    }
    let this = shared.cpu(cpu);
    this.load().checked_div(u64::from(this.nr_running())).unwrap_or(SCALE)
}

/// A CPU for a task that wakes, or is new, from code on `on` (`try_to_wake_up`). The task lies on `rq`, where it slept.
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
            let load = P::task_load(rq, shared, task);
            if comes(shared, params(domain.level), load, prev, on, wake, now) {
                target = on;
            }
        }
    }
    wake_idle(rq, shared, task, target)
}

/// Whether a waking task of that load comes to the waker's CPU.
fn comes<P: Policy>(
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
        // Half the imbalance is enough to spread.
        return imbalance * here <= 100 * load;
    }
    // The waker is about to leave.
    let per_task = load_per_task(shared, on);
    let waker = if shared.config.balancer == Balancer::V2_6_15 { SCALE } else { wake.waker_load };
    let left = if wake.sync { here.saturating_sub(waker) } else { here };
    (left <= load && left + target_load(shared, prev, index, now) <= per_task)
        || 100 * (left + task) <= imbalance * load
}

/// An idle CPU near `cpu`, if that is busy: another thread of its core.
fn wake_idle<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, task: u32, cpu: CpuId) -> CpuId {
    if shared.cpu(cpu).is_idle() {
        return cpu;
    }
    let near = shared.domains.of(cpu).map(|(_, domain)| domain).take_while(|domain| params(domain.level).wake_idle);
    let idle = |cpu: &CpuId| rq.tasks[task].allowed(*cpu) && shared.cpu(*cpu).is_idle();
    near.flat_map(|domain| domain.span.iter()).find(idle).unwrap_or(cpu)
}

/// A CPU for a task that execs.
pub(crate) fn select_cpu_exec<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, task: u32) -> CpuId {
    let on = rq.cpu;
    spread(rq, shared, task, on, |_| true)
}

/// `sched_balance_self`: from the highest domain of `on` that `takes_part` down, each time into the idlest group and to its
/// idlest CPU.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_follow_the_load() {
        assert_eq!(step(0, 0, 1024), 1024);
        assert_eq!(step(1, 0, 1024), 512);
        assert_eq!(step(2, 0, 1024), 256);
        // Rising ends at the load, falling at nothing.
        assert_eq!((0..40).fold(0, |load, _| step(2, load, 1024)), 1024);
        assert_eq!(decayed(2, 1024, 4), 324);
        assert_eq!(decayed(2, 1024, 1_000_000), 0);
    }

    fn group(load: u64, nr_running: u64) -> Group {
        Group { load, power: SCALE, nr_running, present: load, index: 0 }
    }

    #[test]
    fn a_task_moves_only_if_that_helps() {
        // Two tasks beside an idle CPU.
        assert_eq!(bump(&group(0, 0), &group(2048, 2), 1024, true), Some(1024));
        // Two beside one: it would only be the other way round.
        assert_eq!(bump(&group(1024, 1), &group(2048, 2), 1024, true), None);
        // A heavy and a light one each: the light ones' CPU can have another.
        assert_eq!(bump(&group(1024, 2), &group(2560, 2), 1280, false), Some(1280));
    }
}
