//! When a CPU balances, and how tasks move.

use super::busiest::{find_busiest_group, find_busiest_queue};
use super::{MAX_PINNED_INTERVAL, MS, Params, params};
use crate::balance::active::Push;
use crate::balance::domains::{Domain, Domains, Level};
use crate::balance::pull::Balancing;
use crate::balance::state::DomainState;
use crate::class::finish::finish_verb;
use crate::class::moves::{attach_task, check_preempt, detach_task};
use crate::cpumask::CpuMask;
use crate::event::{BalanceKind, Event, MigrateCause};
use crate::host::Host;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::{Balanced, Policy, Wake};
use crate::rq::{Rq, Rqs};
use crate::shared::Shared;
use crate::tunables::Tunables;

/// Returns the `prio` of the most urgent task of the policy.
fn best_prio<P: Policy>(rq: &Rq<P>) -> i16 {
    rq.listed().map(|task| P::Balance::dynamic_prio(rq, task)).min().unwrap_or(i16::MAX)
}

struct Attempt<'d> {
    domain: &'d Domain,
    dst: CpuId,
    kind: BalanceKind,
    cause: MigrateCause,
    amount: u64,
    most: u32,
    failed: u32,
}

struct Moved {
    count: u32,
    all_pinned: bool,
}

/// `can_migrate_task`: affinity and cache.
fn may_migrate<P: Policy>(
    rq: &mut Rq<P>,
    shared: &Shared<P>,
    attempt: &Attempt<'_>,
    index: u32,
    moved: &mut Moved,
) -> bool {
    let now = rq.clock.now();
    let running = rq.curr_ordinary == Some(index);
    let task = &mut rq.tasks[index];
    if !task.allowed(attempt.dst) {
        task.migrations.affine += 1;
        return false;
    }
    moved.all_pinned = false;
    if running {
        task.migrations.running += 1;
        return false;
    }
    let params = params(attempt.domain.level);
    if attempt.failed > params.cache_nice_tries || attempt.domain.level == Level::Smt {
        return true;
    }
    // Caches are colder on another node.
    let times = if matches!(attempt.domain.level, Level::Numa(_)) { 4 } else { 1 };
    let since = now.saturating_sub(task.last_ran);
    let cold = task.last_ran == 0 || since >= times * shared.config.tunables.migration_cost_ns();
    task.migrations.hot += u32::from(!cold);
    cold
}

impl<P: Policy, R: Rqs<P>, H: Host> Balancing<'_, P, R, H> {
    /// Moves tasks from `src` until the requested load is moved.
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
        from.update_clock(self.now);
        to.update_clock(self.now);
        let (mut best_here, best_there) = (best_prio(&to), best_prio(&from));
        // One of the most urgent stays: the running one, or else the first found.
        let mut seen = from.curr_ordinary.is_some_and(|curr| P::Balance::dynamic_prio(&from, curr) == best_there);
        let mut left = attempt.amount;
        for index in P::Balance::pull_order(&from) {
            if left == 0 || moved.count >= attempt.most {
                break;
            }
            let prio = P::Balance::dynamic_prio(&from, index);
            let load = P::Balance::task_load(&mut from, shared, index);
            let mut too_big = load > left;
            if too_big && prio < best_here {
                too_big = !seen && prio == best_there;
            }
            if too_big || !may_migrate(&mut from, shared, attempt, index, &mut moved) {
                // Counted as seen, pinned or not.
                moved.all_pinned &= !from.tasks[index].allowed(attempt.dst);
                seen |= prio == best_there;
                continue;
            }
            let task = detach_task(&mut from, shared, index);
            let event = Event::Migrate { task: task.id, from: src, to: attempt.dst, cause: attempt.cause };
            self.host.event(self.now, attempt.dst, &event);
            let index = attach_task(&mut to, shared, task);
            check_preempt(&mut to, shared, index, Wake::default());
            moved.count += 1;
            left = left.saturating_sub(load);
            best_here = best_here.min(prio);
        }
        if moved.count > 0 && attempt.kind != BalanceKind::NewIdle {
            to.balance.idle_ended(self.now);
        }
        finish_verb(&mut from, shared, self.host);
        if moved.count > 0 {
            // A newly idle CPU is about to pick anyway.
            if attempt.kind == BalanceKind::NewIdle {
                to.publish(shared);
            } else {
                finish_verb(&mut to, shared, self.host);
            }
        }
        moved
    }

    /// `load_balance` and `load_balance_newidle`; returns the number of tasks.
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
            // Leave the last task, as far as visible here.
            let most = shared.cpu(src).nr_running().saturating_sub(1);
            if most > 0 {
                let moved = self.move_tasks(&Attempt { domain, dst, kind, cause, amount, most, failed }, src);
                pulled = moved.count;
                all_pinned = moved.all_pinned;
                if all_pinned {
                    excluded.insert(src);
                    // 2.6.19+: tries the next best.
                    if !shared.config.has(Behaviour::TriesOneQueue)
                        && domain.span.iter().any(|cpu| !excluded.contains(cpu) && cpu != dst)
                    {
                        continue;
                    }
                    break None;
                }
            }
            break Some(src);
        };
        let balanced = unbalanced.is_none();
        if kind == BalanceKind::NewIdle {
            if pulled > 0 || balanced {
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
        let event = Event::Balance { kind, level: position as u8, busiest: tried, pulled, balanced };
        self.host.event(self.now, dst, &event);
        pulled
    }

    /// Handles a failed move despite an imbalance: after several, the stopper of `src` pushes its running task. Returns
    /// whether the interval grows.
    fn early_failed(&mut self, dst: CpuId, position: usize, params: &Params, src: CpuId) -> bool {
        let mut rq = self.rqs.rq(dst);
        let state: &mut DomainState = &mut rq.balance.domains[position];
        state.nr_balance_failed += 1;
        if state.nr_balance_failed <= params.cache_nice_tries + 2 {
            return false;
        }
        drop(rq);
        let mut rq = self.rqs.rq(src);
        if !rq.curr.is_some_and(|current| rq.tasks[current].allowed(dst)) {
            return true;
        }
        if rq.push.is_none() && !rq.balance.active_balance {
            rq.balance.active_balance = true;
            rq.push = Some(Push::Balance { to: dst, position: position as u8 });
            rq.resched();
            finish_verb(&mut rq, self.shared, self.host);
        }
        drop(rq);
        self.rqs.rq(dst).balance.domains[position].nr_balance_failed = params.cache_nice_tries + 1;
        true
    }

    /// `active_load_balance`: the stopper of `src` moves one task to `dst`.
    pub(in crate::balance) fn early_push(&mut self, src: CpuId, dst: CpuId) {
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

    /// `idle_balance`.
    pub(in crate::balance) fn early_newidle(&mut self, cpu: CpuId) {
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
        // An idle CPU balances more often.
        rq.balance.next_balance = rq.balance.next_balance.min(next);
    }

    /// Returns the next balance of a domain by `cpu`.
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

    /// `rebalance_domains`.
    pub(in crate::balance) fn early_rebalance(&mut self, cpu: CpuId, idle: bool) {
        let domains: &Domains = &self.shared.domains;
        let tick = self.shared.config.tunables.tick_ns().max(1);
        let mut idle = idle;
        let mut next = self.now + 60_000 * MS;
        for position in 0..domains.of(cpu).count() {
            // By the number of ticks, however late each is.
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
