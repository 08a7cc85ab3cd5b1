//! Balancing a domain: find the busiest group and its busiest CPU, and pull from there.

use core::sync::atomic::Ordering::Relaxed;

use super::active::Push;
use super::by_load;
use super::detach::{Env, detach_one, detach_tasks};
use super::domains::{Domain, Domains, Level, SchedGroup};
use super::idle::siblings_are_idle;
use super::imbalance::{self, Imbalance, MigrationType};
use super::stats::{DomainStats, is_reduced};
use crate::capacity::capacity_greater;
use crate::class::fair::energy_aware;
use crate::class::finish::finish_verb;
use crate::class::moves::{attach_task, check_preempt};
use crate::cpumask::CpuMask;
use crate::event::{BalanceKind, Event, MigrateCause};
use crate::host::Host;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::{Balanced as _, Policy, Wake};
use crate::rq::{Rq, Rqs};
use crate::shared::Shared;
use crate::tunables::Tunables;

#[cfg(test)]
mod tests;

pub(crate) struct Balancing<'a, P: Policy, R: Rqs<P>, H: Host> {
    pub(crate) rqs: &'a mut R,
    pub(crate) shared: &'a Shared<P>,
    pub(crate) host: &'a mut H,
    pub(crate) now: u64,
}

pub(super) struct Outcome {
    pub(super) pulled: u32,
    /// Whether this CPU balances the level above, too.
    pub(super) balances_above: bool,
}

/// A CPU's visit to one of its domains.
#[derive(Clone, Copy)]
struct Visit<'d> {
    dst: CpuId,
    kind: BalanceKind,
    domain: &'d Domain,
    /// Index in the CPU's hierarchy.
    position: usize,
    /// Index of the CPU's group.
    here: usize,
    /// None at the lowest level.
    below: Option<&'d Domain>,
    /// The CPU's group in the domain above; None at the top.
    above: Option<&'d SchedGroup>,
}

impl<'d> Visit<'d> {
    fn new(domains: &'d Domains, dst: CpuId, position: usize, kind: BalanceKind) -> Option<Self> {
        let above = domains.at(dst, position + 1).zip(domains.own_group(dst, position + 1));
        Some(Self {
            dst,
            kind,
            domain: domains.at(dst, position)?,
            position,
            here: domains.own_group(dst, position)?,
            below: position.checked_sub(1).and_then(|below| domains.at(dst, below)),
            above: above.map(|(domain, group)| &domain.groups[group]),
        })
    }

    fn own(&self) -> &'d SchedGroup {
        &self.domain.groups[self.here]
    }
}

#[derive(Clone, Copy, Default)]
struct Balanced {
    /// Set if affinity pins all tasks of the last busiest CPU.
    all_pinned: bool,
    /// Set if the only imbalance is a task that does not fit its CPU.
    misfit: bool,
}

impl<P: Policy, R: Rqs<P>, H: Host> Balancing<'_, P, R, H> {
    /// Whether this CPU is the one to balance the domain.
    fn should_balance(&self, visit: Visit<'_>) -> bool {
        let Visit { dst, domain, .. } = visit;
        if visit.kind == BalanceKind::NewIdle {
            return self.shared.cpu(dst).nr_running() == 0;
        }
        // The first idle CPU; 6.6+: with SMT preferably on an idle core. Without any, the first CPU.
        let idle = |cpu: &CpuId| self.shared.cpu(*cpu).is_idle();
        let mut first_idle = None;
        for cpu in visit.own().balancers().iter().copied().filter(idle) {
            let whole_core = !self.shared.config.has(Behaviour::WholeCoreBalances)
                || domain.level == Level::Smt
                || siblings_are_idle(self.shared, cpu);
            if whole_core {
                return cpu == dst;
            }
            first_idle = first_idle.or(Some(cpu));
        }
        first_idle.or(visit.own().balancers().first().copied()) == Some(dst)
    }

    pub(super) fn load_balance(
        &mut self,
        domains: &Domains,
        dst: CpuId,
        position: usize,
        kind: BalanceKind,
    ) -> Outcome {
        let Some(visit) = Visit::new(domains, dst, position, kind) else {
            return Outcome { pulled: 0, balances_above: false };
        };
        if !self.should_balance(visit) {
            // For other CPUs this domain is balanced. The kernel's source also clears the parent group's `imbalance`
            // here. Then tasks that may run on two nodes two hops apart stay on one of eight for seconds
            // (scenarios/wasted-cores/group-construction.toml). No recording shows that, so this is omitted.
            self.look_less_often(visit, Balanced::default());
            self.emit_event(visit, None, 0, true);
            return Outcome { pulled: 0, balances_above: false };
        }
        // CPUs whose tasks affinity pins.
        let mut excluded = CpuMask::new();
        let mut pulled = 0;
        let mut busiest_seen = None;
        let mut balanced = Balanced::default();
        let is_balanced = loop {
            let Some((busiest, imbalance)) = self.find_work(visit, &excluded) else { break true };
            balanced.misfit = imbalance.migration == MigrationType::Misfit;
            busiest_seen = Some(busiest);
            let mut env = self.env(visit, imbalance);
            if self.shared.cpu(busiest).nr_running() > 1 {
                pulled = self.pull_for_group(visit, &mut env, busiest);
                balanced.all_pinned = env.all_pinned;
                if env.all_pinned {
                    // Try again without it, if there are CPUs outside our group.
                    excluded.insert(busiest);
                    let own = &visit.own().mask;
                    if visit.domain.span.iter().any(|cpu| !excluded.contains(cpu) && !own.contains(cpu)) {
                        continue;
                    }
                    break true;
                }
            }
            if pulled == 0 {
                self.push_or_wait(&env, busiest);
            } else {
                let state = &mut self.rqs.rq(dst).balance.domains[position];
                state.nr_balance_failed = 0;
                state.interval = visit.domain.min_interval;
            }
            break false;
        };
        if is_balanced {
            self.found_balanced(visit, balanced);
        }
        self.emit_event(visit, busiest_seen, pulled, is_balanced);
        Outcome { pulled, balances_above: true }
    }

    fn emit_event(&mut self, visit: Visit<'_>, busiest: Option<CpuId>, pulled: u32, balanced: bool) {
        let event = Event::Balance { kind: visit.kind, level: visit.position as u8, busiest, pulled, balanced };
        self.host.event(self.now, visit.dst, &event);
    }

    /// Returns the CPU to pull from, and how much; None if the domain is balanced.
    fn find_work(&mut self, visit: Visit<'_>, excluded: &CpuMask) -> Option<(CpuId, Imbalance)> {
        let Visit { dst, kind, domain, .. } = visit;
        let (shared, top) = (self.shared, visit.above.is_none());
        if shared.config.behaviours.by_load() {
            let below = visit.below.map(|below| below.level);
            let (found, overloaded) = by_load::find(shared, domain, below, visit.here, kind, excluded, self.now);
            if top {
                shared.set_overloaded(dst, overloaded);
            }
            let found = found?;
            return Some((found.busiest, Imbalance { migration: MigrationType::Load, amount: found.amount }));
        }
        let stats = DomainStats::of(shared, domain, visit.here, dst, kind, excluded);
        if top {
            shared.set_overloaded(dst, stats.overloaded_cpu);
        }
        if let Some(energy) = shared.energy() {
            if let Some(news) = energy_aware::update_domain_overutilized(shared, energy, dst, domain, excluded, top) {
                self.host.event(self.now, dst, &news);
            }
            if energy_aware::leaves_alone(shared, energy, dst, stats.finds_misfit()) {
                return None;
            }
        }
        let imbalance = imbalance::find(&stats, domain, &shared.config.behaviours, kind)?;
        let busiest = busiest_queue(shared, domain, stats.busiest?.group, &imbalance, excluded, dst)?;
        Some((busiest, imbalance))
    }

    fn env<'d>(&mut self, visit: Visit<'d>, imbalance: Imbalance) -> Env<'d> {
        let Visit { dst, kind, domain, position, .. } = visit;
        let cause = match kind {
            BalanceKind::NewIdle => MigrateCause::NewIdle,
            BalanceKind::Idle => MigrateCause::NohzIdle,
            BalanceKind::Busy => MigrateCause::Periodic,
        };
        Env {
            domain,
            position,
            dst,
            kind,
            cause,
            imbalance,
            // 5.8+: all tasks count as pinned until a movable one is found, also a lone task.
            all_pinned: self.shared.config.has(Behaviour::ByType),
            some_pinned: false,
            new_dst: None,
            tried: CpuMask::new(),
            failed: self.rqs.rq(dst).balance.domains[position].nr_balance_failed,
        }
    }

    /// Pulls from `busiest`, also to another CPU of our group if affinity requires it. Returns the number of tasks.
    fn pull_for_group(&mut self, visit: Visit<'_>, env: &mut Env<'_>, busiest: CpuId) -> u32 {
        env.all_pinned = true;
        self.update_h_load(busiest, visit.dst);
        let mut pulled = self.pull(env, busiest);
        // One round.
        while let Some(other) = env.new_dst.take()
            && env.imbalance.amount > 0
        {
            env.tried.insert(env.dst);
            env.dst = other;
            pulled += self.pull(env, busiest);
        }
        env.dst = visit.dst;
        // Tasks that affinity prevented from moving concern the level above.
        if let Some(above) = visit.above
            && env.some_pinned
            && env.imbalance.amount > 0
        {
            above.imbalance().store(true, Relaxed);
        }
        pulled
    }

    /// Handles a balanced domain: clears the imbalance of the group above, resets the count of failures, and lengthens
    /// the interval.
    fn found_balanced(&mut self, visit: Visit<'_>, balanced: Balanced) {
        if !balanced.all_pinned
            && let Some(above) = visit.above
        {
            above.imbalance().store(false, Relaxed);
        }
        self.look_less_often(visit, balanced);
    }

    /// Resets the count of failures, and lengthens the interval.
    fn look_less_often(&mut self, visit: Visit<'_>, balanced: Balanced) {
        let config = &self.shared.config;
        let state = &mut self.rqs.rq(visit.dst).balance.domains[visit.position];
        state.nr_balance_failed = 0;
        // 6.10+: a task that does not fit does not mean a busy machine.
        let backs_off = (config.has(Behaviour::NewidleBacksOff) || visit.kind != BalanceKind::NewIdle)
            && !(balanced.misfit && config.has(Behaviour::MisfitWaits));
        if backs_off {
            state.back_off(visit.domain, balanced.all_pinned);
        }
    }

    /// 3.10: computes the loads of all groups on `busiest` before pulling.
    fn update_h_load(&mut self, busiest: CpuId, dst: CpuId) {
        if !self.shared.config.has(Behaviour::HLoadOfAll) {
            return;
        }
        let mut rq = self.rqs.rq(busiest);
        rq.update_clock(self.now);
        let visited = P::Balance::update_h_load(&mut rq, self.shared);
        drop(rq);
        if let Some((groups, idle)) = visited {
            self.host.event(self.now, dst, &Event::HLoad { of: busiest, groups, idle });
        }
    }

    /// Pulling failed despite an imbalance: pushes the running task after some failures.
    fn push_or_wait(&mut self, env: &Env<'_>, busiest: CpuId) {
        let shared = self.shared;
        let mut rq = self.rqs.rq(env.dst);
        let state = &mut rq.balance.domains[env.position];
        let misfit = env.imbalance.migration == MigrationType::Misfit;
        // 6.10+: a task that does not fit is not counted, since other tasks need not become more mobile for it.
        let counts = env.kind != BalanceKind::NewIdle && !(misfit && shared.config.has(Behaviour::MisfitWaits));
        if counts {
            state.nr_balance_failed += 1;
        }
        let resets = shared.config.has(Behaviour::PushResets);
        let stubborn = (shared.config.has(Behaviour::PushesAny) || env.imbalance.migration == MigrationType::Task)
            && state.nr_balance_failed > env.domain.cache_nice_tries + 2;
        let left = |cpu| u64::from(shared.cpu(cpu).capacity_of());
        let (here, there) = (left(env.dst), left(busiest));
        // A lone task on a CPU with much less left for it than this idle one.
        let lone_on_slow = shared.config.has(Behaviour::LeavesReduced)
            && env.kind != BalanceKind::Busy
            && shared.cpu(busiest).h_nr_running() == 1
            && is_reduced(shared.cpu(busiest), env.domain.imbalance_pct)
            && there * env.domain.imbalance_pct < here * 100;
        let active = stubborn || lone_on_slow || misfit;
        if !active {
            state.interval = env.domain.min_interval;
            return;
        }
        if resets {
            // The count restarts a little below the next kick of the stopper.
            state.nr_balance_failed = env.domain.cache_nice_tries + 1;
            if state.interval < env.domain.max_interval {
                state.interval *= 2;
            }
        }
        drop(rq);
        let mut rq = self.rqs.rq(busiest);
        let may_move = rq.curr.is_some_and(|curr| rq.tasks[curr].allowed(env.dst));
        if may_move && rq.push.is_none() && !rq.balance.active_balance {
            rq.balance.active_balance = true;
            rq.push = Some(Push::Balance { to: env.dst, position: env.position as u8 });
            rq.resched();
            finish_verb(&mut rq, shared, self.host);
        }
        drop(rq);
        if !resets {
            let mut rq = self.rqs.rq(env.dst);
            let state = &mut rq.balance.domains[env.position];
            if may_move {
                state.interval = env.domain.min_interval;
            } else if counts {
                // The running task is pinned, as waiting ones may be.
                state.back_off(env.domain, env.all_pinned);
            }
        }
    }

    /// Moves tasks from `src` to `env.dst` until the imbalance is gone. Returns their number.
    fn pull(&mut self, env: &mut Env<'_>, src: CpuId) -> u32 {
        if src == env.dst {
            return 0;
        }
        let shared = self.shared;
        let (mut from, mut to) = self.rqs.pair(src, env.dst);
        if !to.online {
            // It went offline meanwhile.
            return 0;
        }
        from.update_clock(self.now);
        to.update_clock(self.now);
        let mut moved = match env.cause {
            MigrateCause::Active => detach_one(&mut from, shared, env, &to).into_iter().collect(),
            _ => detach_tasks(&mut from, shared, env, &to),
        };
        let count = moved.len() as u32;
        let now = self.now;
        // 3.18+: all are detached, then attached in reverse order.
        if shared.config.has(Behaviour::AttachesInReverse) {
            moved.reverse();
        }
        for task in moved {
            let event = Event::Migrate { task: task.id, from: src, to: env.dst, cause: env.cause };
            self.host.event(now, env.dst, &event);
            let index = attach_task(&mut to, shared, task);
            check_preempt(&mut to, shared, index, Wake::default());
        }
        finish_verb(&mut from, shared, self.host);
        if count > 0 {
            // A newly idle CPU is about to pick anyway.
            if env.kind == BalanceKind::NewIdle {
                to.publish(shared);
            } else {
                finish_verb(&mut to, shared, self.host);
            }
        }
        count
    }

    /// Pushes one task from `src` to `to`, by the stopper (`active_load_balance_cpu_stop`).
    pub(crate) fn push(&mut self, src: CpuId, to: CpuId, position: u8) {
        let shared = self.shared;
        if shared.config.has(Behaviour::Early) {
            self.early_push(src, to);
            return;
        }
        self.rqs.rq(src).balance.active_balance = false;
        let Some(domain) = shared.domains.at(to, position as usize) else { return };
        if shared.cpu(src).nr_running() == 0 {
            return;
        }
        let failed = self.rqs.rq(to).balance.domains[position as usize].nr_balance_failed;
        let mut env = Env {
            domain,
            position: position as usize,
            dst: to,
            kind: BalanceKind::Busy,
            cause: MigrateCause::Active,
            imbalance: Imbalance { migration: MigrationType::Load, amount: 1 },
            all_pinned: false,
            some_pinned: false,
            new_dst: None,
            tried: CpuMask::new(),
            failed,
        };
        if self.pull(&mut env, src) > 0 && shared.config.has(Behaviour::PushClears) {
            self.rqs.rq(to).balance.domains[position as usize].nr_balance_failed = 0;
        }
    }
}

/// Returns the CPU of `group` to pull from.
fn busiest_queue<P: Policy>(
    shared: &Shared<P>,
    domain: &Domain,
    group: &SchedGroup,
    imbalance: &Imbalance,
    excluded: &CpuMask,
    dst: CpuId,
) -> Option<CpuId> {
    let mut best: Option<(CpuId, u64, u64)> = None;
    for &cpu in &group.cpus {
        let published = shared.cpu(cpu);
        let (h_nr_running, load) = (published.h_nr_running(), published.load());
        if excluded.contains(cpu) || h_nr_running == 0 || cpu == dst {
            continue;
        }
        let capacity = u64::from(published.capacity_of());
        // A lone task gains nothing on a CPU that is no bigger.
        let lone = h_nr_running == 1;
        let ours = u64::from(shared.cpu(dst).capacity_of());
        if lone && domain.asym_capacity && !capacity_greater(ours, capacity) {
            continue;
        }
        let (value, per) = match imbalance.migration {
            MigrationType::Load => {
                // Too big a task, unless its CPU has little capacity left.
                if lone && load > imbalance.amount && !is_reduced(published, domain.imbalance_pct) {
                    continue;
                }
                (load, capacity)
            }
            MigrationType::Util => {
                if lone {
                    continue;
                }
                // 6.5+: a crowded CPU counts as full (`cpu_util_cfs_boost`).
                let boost = if shared.config.has(Behaviour::BoostsRunnable) { published.runnable() } else { 0 };
                (published.util().max(boost).min(u64::from(published.capacity())), 1)
            }
            MigrationType::Task => (u64::from(h_nr_running), 1),
            // The biggest one.
            MigrationType::Misfit => match published.misfit_task_load() {
                0 => continue,
                misfit => (misfit, 1),
            },
        };
        let (top, top_per) = best.map_or((0, 1), |(_, top, top_per)| (top, top_per));
        if value * top_per > top * per {
            best = Some((cpu, value, per));
        }
    }
    best.map(|(cpu, _, _)| cpu)
}

/// Whether real-time tasks leave little capacity to a fair task here.
fn squeezed_here<P: Policy>(rq: &Rq<P>, shared: &Shared<P>) -> bool {
    let this = shared.cpu(rq.cpu);
    let lowest = shared.domains.of(rq.cpu).next();
    this.h_nr_running() >= 1 && lowest.is_some_and(|(_, domain)| is_reduced(this, domain.imbalance_pct))
}

/// Whether an idle CPU could help a CPU with one task.
fn kick_for_one<P: Policy>(cpu: CpuId, shared: &Shared<P>) -> bool {
    if shared.config.behaviours.by_load() {
        return by_load::kick_for_one(cpu, shared);
    }
    // With different capacities: only if the task does not fit.
    if shared.domains.asym()
        && let Some(domain) = shared.domains.asym_domain(cpu)
    {
        let this = shared.cpu(cpu);
        return this.misfit_task_load() > 0
            && (shared.config.has(Behaviour::MisfitAllowed)
                || this.capacity() < shared.root_max_capacity(cpu)
                || is_reduced(this, domain.imbalance_pct));
    }
    // Several busy CPUs in this cache: another cache, or a core with fewer busy threads, could help. (`nr_busy_cpus`
    // counts CPUs with a tick, and starts with all of the cache. So CPUs of other root domains always count.)
    let llc = shared.domains.llc_domain(cpu);
    llc.is_some_and(|llc| {
        let busy = llc.span.iter().filter(|&cpu| !shared.nohz.contains(cpu)).count();
        busy + llc.cut_off as usize > 1
    })
}

/// At a tick: selects an idle CPU to balance for all (`nohz_balancer_kick`).
pub(crate) fn nohz_kick<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, now: u64) -> Option<CpuId> {
    if let Some(loads) = &shared.cpu_loads {
        loads.update(rq, shared, now);
    }
    let early = shared.config.has(Behaviour::Early);
    let time = shared.balance_time(now);
    if shared.cpu(rq.cpu).is_idle() {
        return None;
    }
    if core::mem::take(&mut rq.balance.tick_stopped) {
        shared.nohz.exit(rq.cpu);
    }
    if shared.nohz.is_empty() || shared.is_isolated(rq.cpu) {
        return None;
    }
    let wanted = time >= shared.nohz.next_balance.load(Relaxed)
        && (rq.nr_running >= 2
            || (shared.pressed() && squeezed_here(rq, shared))
            || kick_for_one(rq.cpu, shared)
            || (early && super::early::shares_core(shared, rq.cpu)));
    // Before 4.17 only balancing updates the averages of idle CPUs.
    let stats =
        shared.config.has(Behaviour::NohzStats) && (wanted || shared.nohz.blocked_due().is_some_and(|due| time > due));
    let own_first = shared.config.has(Behaviour::NohzOwnFirst);
    let update = !own_first && shared.nohz.needs_update.load(Relaxed);
    if !wanted && !stats && !update {
        return None;
    }
    // Once a jiffy, even if no idle CPU is found (`kick_ilb`).
    if own_first {
        shared.nohz.next_balance.fetch_add(1, Relaxed);
    } else if wanted && !early {
        shared.nohz.next_balance.store(time + 1, Relaxed);
    }
    let mut tickless = shared.nohz.iter_from(CpuId(0));
    let is_idle = |&cpu: &CpuId| cpu != rq.cpu && shared.cpu(cpu).is_idle();
    // Up to 4.0, the kick is lost if the first CPU without a tick found work and had no tick since.
    let target = if own_first { tickless.next().filter(is_idle) } else { tickless.find(is_idle) }?;
    if stats {
        shared.nohz.stats.store(true, Relaxed);
    }
    if update {
        shared.nohz.update.store(true, Relaxed);
    }
    if wanted {
        shared.nohz.balance.store(true, Relaxed);
        if early {
            shared.nohz.next_balance.store(time + shared.config.tunables.tick_ns(), Relaxed);
        }
    }
    Some(target)
}
