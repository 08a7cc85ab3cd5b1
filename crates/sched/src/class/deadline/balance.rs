//! Deadline tasks between CPUs: wakeup, push and pull, so that the machine's earliest deadlines run (global EDF).

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use super::bandwidth::{GlobalLimit, RootDomain};
use super::cpudeadline::CpuDeadline;
use super::grub::Grub;
use super::params::{DlTunables, PeriodLimits};
use super::queue::DlRq;
use super::server::{ServerLimits, ServerRules};
use super::verbs::entity;
use crate::balance::roots::{Root, Roots};
use crate::class::ClassKind;
use crate::class::rt::{Callback, MAX_TRIES, carry};
use crate::config::Config;
use crate::cpumask::AtomicCpuMask;
use crate::event::MigrateCause;
use crate::host::Host;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::{Rq, Rqs};
use crate::scheduler::{Scheduler, finish_verb};
use crate::shared::{Shared, Table};
use crate::sync::{AtomicBool, AtomicU64};
use crate::task::Task;
use crate::topology::Topology;
use crate::tunables::Tunables;

const NONE: u64 = u64::MAX;

/// State of the class that all CPUs share.
#[derive(Debug)]
pub(crate) struct DlShared {
    /// First root domain, the only one without partitions.
    domain: RootDomain,
    /// The default root domain (0), and those after the first, from 1 on.
    others: Table<RootDomain>,
    limit: GlobalLimit,
    pub(crate) cpudl: CpuDeadline,
    /// CPUs with pushable tasks (`dlo_mask`).
    overloaded: AtomicCpuMask,
    /// Whether a CPU offers any waiting task, not only beside another of the class.
    overload_waits: bool,
    /// Earliest deadline of each CPU's offered tasks.
    next: Vec<AtomicU64>,
    pub(crate) grub: Grub,
    pub(crate) periods: PeriodLimits,
    pub(crate) server: Option<ServerLimits>,
    pub(crate) server_rules: ServerRules,
    /// Whether a real-time or deadline task has existed, so that fair servers are in place.
    pub(crate) servers_started: AtomicBool,
}

impl DlShared {
    pub(crate) fn new<T: Tunables>(topology: &Topology, config: &Config<T>, roots: &Roots) -> Self {
        let tunables = &config.tunables;
        let cpus = topology.nr_cpus();
        let (runtime, period) = (tunables.rt_runtime_ns(), tunables.rt_period_ns());
        let limit = GlobalLimit {
            runtime_us: (runtime <= period).then_some(runtime / 1000),
            period_us: (period / 1000).max(1),
        };
        let DlTunables { periods, server } = tunables.deadline();
        let server = (config.has(Behaviour::FairServer) && server.runtime > 0).then_some(server);
        let capacities = || roots.iter().zip(topology.cpus()).map(|((_, root), place)| (root, place.capacity));
        let first = capacities().filter(|(root, _)| *root == Root::default()).map(|(_, capacity)| capacity);
        let domain = RootDomain::new(first, limit);
        if let Some(server) = server {
            (0..domain.cpus()).for_each(|_| domain.reserve(server.bandwidth()));
        }
        let this = Self {
            domain,
            others: Table::new(),
            limit,
            cpudl: CpuDeadline::new(cpus),
            overloaded: AtomicCpuMask::new(cpus),
            overload_waits: config.has(Behaviour::OverloadWaiting),
            next: (0..cpus).map(|_| AtomicU64::new(NONE)).collect(),
            grub: if config.has(Behaviour::GrubBounded) { Grub::Bounded } else { Grub::Unbounded },
            periods,
            server,
            server_rules: ServerRules {
                forgets: config.has(Behaviour::ServerForgets),
                waits: config.has(Behaviour::ServerWaits),
                stays: config.has(Behaviour::ServerStays),
            },
            servers_started: AtomicBool::new(false),
        };
        for (root, capacity) in capacities().filter(|(root, _)| *root != Root::default()) {
            this.set_root(capacity, Root::Offline, root);
        }
        this
    }

    #[inline]
    pub(crate) fn domain(&self, root: Root) -> &RootDomain {
        if root == Root::Domain(0) { &self.domain } else { self.other(root) }
    }

    #[cold]
    fn other(&self, root: Root) -> &RootDomain {
        let fresh = || RootDomain::new(core::iter::empty(), self.limit);
        match root {
            Root::Domain(number) => self.others.entry(number, fresh),
            Root::Isolated | Root::Offline => self.others.entry(0, fresh),
        }
    }

    pub(crate) fn server_bandwidth(&self) -> u64 {
        self.server.map_or(0, ServerLimits::bandwidth)
    }

    /// As [`RootDomain::may_lose`].
    pub(crate) fn may_lose(&self, root: Root, capacity: u32) -> Result<(), (u64, u64)> {
        self.domain(root).may_lose(capacity, self.server_bandwidth())
    }

    pub(crate) fn set_root(&self, capacity: u32, from: Root, to: Root) {
        if from == to {
            return;
        }
        if from != Root::Offline {
            self.domain(from).set_online(capacity, self.server_bandwidth(), false);
        }
        if to != Root::Offline {
            self.domain(to).set_online(capacity, self.server_bandwidth(), true);
        }
    }

    /// Moves a reservation between root domains.
    pub(super) fn move_bw(&self, from: Root, to: Root, bw: u64) {
        if from != to && bw > 0 {
            self.domain(to).reserve(bw);
            self.domain(from).release(bw);
        }
    }

    #[inline(never)]
    pub(crate) fn publish(&self, cpu: CpuId, dl: &DlRq) {
        self.cpudl.set(cpu, dl.earliest());
        let next = self.offered(dl);
        if self.next[cpu.index()].swap(next, Relaxed) == next {
            return;
        }
        if next == NONE {
            self.overloaded.remove(cpu);
        } else {
            self.overloaded.insert(cpu);
        }
    }

    /// Whether a CPU had a deadline task queued when it published last.
    pub(crate) fn has_deadline(&self, cpu: CpuId) -> bool {
        self.cpudl.earliest(cpu).is_some()
    }

    /// Returns the earliest deadline of a CPU's pushable tasks, or [`NONE`].
    fn offered(&self, dl: &DlRq) -> u64 {
        dl.earliest_pushable().filter(|_| self.overload_waits || dl.nr_running() > 1).unwrap_or(NONE)
    }

    /// Whether the published state of a CPU is current.
    pub(super) fn shows(&self, cpu: CpuId, dl: &DlRq) -> bool {
        let next = self.offered(dl);
        self.cpudl.earliest(cpu) == dl.earliest()
            && self.next[cpu.index()].load(Relaxed) == next
            && self.overloaded.contains(cpu) == (next != NONE)
    }
}

/// Whether a CPU is fast enough for a task's runtime by its deadline.
fn fits<P: Policy>(shared: &Shared<P>, task: &Task<P>, cpu: CpuId) -> bool {
    let Some(se) = &task.dl else { return true };
    let own = se.effective();
    (u128::from(own.deadline) * u128::from(shared.capacity(cpu))) >> 10 >= u128::from(own.runtime)
}

/// Returns the CPU without deadline tasks that is nearest to `cpu`, the task's last CPU (`find_later_rq`). Without
/// one, returns the CPU with the latest deadline, if the task may run there and its deadline is earlier. `on`, the
/// calling CPU, is preferred among equals.
pub(super) fn later_cpu<P: Policy>(
    shared: &Shared<P>,
    task: &Task<P>,
    deadline: u64,
    cpu: CpuId,
    on: CpuId,
) -> Option<CpuId> {
    if task.nr_cpus_allowed(shared.nr_cpus()) == 1 {
        return None;
    }
    let cpudl = &shared.dl.cpudl;
    let root = shared.root(cpu);
    let later = |other: &CpuId| task.allowed(*other) && cpudl.is_earlier(deadline, *other);
    let latest = if shared.all_online() && !shared.is_split() { Some(cpudl.latest()) } else { latest_in(shared, root) };
    if latest.is_some_and(|latest| cpudl.earliest(latest).is_some()) {
        return latest.filter(later);
    }
    let all = || (0..shared.nr_cpus() as u32).map(CpuId).filter(|&other| shared.same_root(cpu, other));
    let free = |cpu: &CpuId| task.allowed(*cpu) && shared.is_online(*cpu) && cpudl.earliest(*cpu).is_none();
    // If CPUs differ: those that are fast enough, or only the fastest (the task's last CPU, or the first).
    let place = |other: &CpuId| (shared.capacity(*other), *other == cpu, core::cmp::Reverse(*other));
    let Some(fastest) = all().filter(free).max_by_key(place) else {
        return latest_of(shared, root, |cpu| cpudl.earliest(cpu)).filter(later);
    };
    let any_fits = all().any(|cpu| free(&cpu) && fits(shared, task, cpu));
    let good = |cpu: &CpuId| if any_fits { free(cpu) && fits(shared, task, *cpu) } else { *cpu == fastest };
    if good(&cpu) {
        return Some(cpu);
    }
    let here = good(&on);
    for domain in shared.domains.near(cpu) {
        if here && domain.span.contains(on) {
            return Some(on);
        }
        if let Some(best) = shared.rt.distribute(on, all().filter(|cpu| domain.span.contains(*cpu) && good(cpu))) {
            return Some(best);
        }
    }
    if here { Some(on) } else { shared.rt.distribute(on, all().filter(good)) }
}

/// Returns the online CPU of a root domain with the latest deadline, or a free one.
#[cold]
fn latest_in<P: Policy>(shared: &Shared<P>, root: Root) -> Option<CpuId> {
    latest_of(shared, root, |cpu| Some(shared.dl.cpudl.earliest(cpu).unwrap_or(NONE)))
}

/// Returns the online CPU of a root domain with the latest `deadline`, if any has one.
#[cold]
fn latest_of<P: Policy>(shared: &Shared<P>, root: Root, deadline: impl Fn(CpuId) -> Option<u64>) -> Option<CpuId> {
    let span = shared.root_span(root);
    let with = span.iter().filter_map(|cpu| Some((deadline(cpu)?, core::cmp::Reverse(cpu))));
    with.max().map(|(_, cpu)| cpu.0)
}

/// Returns the task's last CPU, unless it is too slow, or a task with an earlier deadline or a pinned task runs there
/// (`select_task_rq_dl`).
#[inline(never)]
pub(crate) fn select_cpu<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, on: CpuId) -> CpuId {
    let prev = rq.cpu;
    let se = entity(rq, index);
    // A task that never ran gets its first deadline.
    let deadline = if se.deadline == 0 { rq.clock.now() + se.effective().deadline } else { se.deadline };
    let contested = rq.curr.is_some_and(|current| {
        let running = &rq.tasks[current];
        running.kind == ClassKind::Deadline
            && (running.nr_cpus_allowed(shared.nr_cpus()) < 2 || deadline >= entity(rq, current).deadline)
    });
    let task = &rq.tasks[index];
    if !contested && fits(shared, task, prev) {
        return prev;
    }
    match later_cpu(shared, task, deadline, prev, on) {
        Some(target) if shared.dl.cpudl.is_earlier(deadline, target) => target,
        _ => prev,
    }
}

/// Whether to push a woken task at once: the running task has an earlier deadline or is pinned (`task_woken_dl`).
#[inline(never)]
pub(crate) fn woken<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, index: u32) -> bool {
    rq.tasks[index].kind == ClassKind::Deadline
        && entity(rq, index).pushable
        && !rq.resched_is_due()
        && rq.curr.is_some_and(|current| {
            let running = &rq.tasks[current];
            running.kind == ClassKind::Deadline
                && (running.nr_cpus_allowed(shared.nr_cpus()) < 2
                    || entity(rq, index).deadline >= entity(rq, current).deadline)
        })
}

/// Returns the pushable task with the earliest deadline of those that `may` move.
fn pick_pushable<P: Policy>(rq: &Rq<P>, may: impl Fn(&Task<P>) -> bool) -> Option<u32> {
    rq.dl.pushables().find(|&index| may(&rq.tasks[index]))
}

/// Whether a CPU in the root domain of `cpu` has pushable tasks.
pub(crate) fn overloaded<P: Policy>(shared: &Shared<P>, cpu: CpuId) -> bool {
    let overloaded = &shared.dl.overloaded;
    if !shared.is_split() {
        return !overloaded.is_empty();
    }
    overloaded.iter_from(CpuId(0)).any(|other| shared.same_root(cpu, other))
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    #[inline(never)]
    pub(crate) fn dl_callback(&mut self, cpu: CpuId, callback: Option<Callback>) {
        match callback {
            None => {}
            Some(Callback::Push) => self.push_dl_tasks(cpu, cpu),
            Some(Callback::Pull) => self.pull_dl_task(cpu, true),
        }
    }

    /// Pushes tasks that `cpu` cannot run to CPUs with later deadlines. `on` is the CPU that runs this code.
    #[inline(never)]
    pub(crate) fn push_dl_tasks(&mut self, cpu: CpuId, on: CpuId) {
        while self.push_dl_task(cpu, on) {}
    }

    fn push_dl_task(&mut self, cpu: CpuId, on: CpuId) -> bool {
        let shared = self.shared;
        for _ in 0..MAX_TRIES {
            let mut rq = self.rqs.rq(cpu);
            if shared.dl.offered(&rq.dl) == NONE {
                return false;
            }
            let Some(index) = pick_pushable(&rq, |_| true) else { return false };
            let deadline = entity(&rq, index).deadline;
            // It arrived during a switch, and precedes the running task.
            let preempts = rq.curr.is_some_and(|current| {
                let running = &rq.tasks[current];
                running.kind == ClassKind::Deadline
                    && deadline < entity(&rq, current).deadline
                    && running.nr_cpus_allowed(shared.nr_cpus()) > 1
            });
            if preempts {
                rq.resched();
                finish_verb(&mut rq, shared, self.host);
                return false;
            }
            let id = rq.tasks[index].id;
            let Some(target) = later_cpu(shared, &rq.tasks[index], deadline, cpu, on) else { return false };
            if target == cpu || !shared.dl.cpudl.is_earlier(deadline, target) {
                return false;
            }
            drop(rq);
            let (mut from, mut to) = self.rqs.pair(cpu, target);
            from.update_clock(self.now);
            to.update_clock(self.now);
            // Both were unlocked: check again.
            let index = pick_pushable(&from, |_| true);
            let Some(index) = index.filter(|&index| from.tasks[index].id == id && from.tasks[index].allowed(target))
            else {
                continue;
            };
            if !to.online || to.dl.earliest().is_some_and(|earliest| earliest <= entity(&from, index).deadline) {
                continue;
            }
            carry((&mut from, &mut to), shared, self.host, self.now, index, (cpu, MigrateCause::DlPush));
            to.resched();
            finish_verb(&mut to, shared, self.host);
            return true;
        }
        false
    }

    /// Pulls tasks with earlier deadlines than all on `cpu`. `tell`: reschedules `cpu` after a pull.
    #[inline(never)]
    pub(crate) fn pull_dl_task(&mut self, cpu: CpuId, tell: bool) {
        let shared = self.shared;
        let others = shared.dl.overloaded.iter_from(CpuId(0));
        let others: Vec<CpuId> = others.filter(|&other| other != cpu && shared.same_root(cpu, other)).collect();
        for src in others {
            if !shared.dl.cpudl.is_earlier(shared.dl.next[src.index()].load(Relaxed), cpu) {
                continue;
            }
            let (mut from, mut to) = self.rqs.pair(src, cpu);
            from.update_clock(self.now);
            to.update_clock(self.now);
            let Some(index) = pick_pushable(&from, |task| task.allowed(cpu)) else { continue };
            let deadline = entity(&from, index).deadline;
            if !to.online || to.dl.earliest().is_some_and(|earliest| earliest <= deadline) {
                continue;
            }
            // A task that is about to preempt stays.
            let preempts = from.curr.is_none_or(|current| {
                from.tasks[current].kind != ClassKind::Deadline || deadline < entity(&from, current).deadline
            });
            if preempts {
                continue;
            }
            carry((&mut from, &mut to), shared, self.host, self.now, index, (cpu, MigrateCause::DlPull));
            if tell {
                to.resched();
                finish_verb(&mut to, shared, self.host);
            } else {
                to.publish(shared);
            }
        }
    }
}

/// Handles a changed affinity of a queued task.
pub(crate) fn affinity_changed<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    if rq.tasks[index].kind != ClassKind::Deadline || !rq.tasks[index].on_rq {
        return;
    }
    let waits = rq.curr != Some(index);
    super::verbs::set_pushable(rq, shared, index, waits);
}
