//! Deadline tasks between CPUs: where one wakes, and pushing and pulling, so that the machine's earliest deadlines run
//! (global EDF).

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

/// No deadline.
const NONE: u64 = u64::MAX;

/// What all CPUs share of the class.
#[derive(Debug)]
pub(crate) struct DlShared {
    /// What the first root domain has promised, the only one if there are no partitions.
    domain: RootDomain,
    /// The same of the default one, and of those after the first, from 1 on.
    others: Table<RootDomain>,
    limit: GlobalLimit,
    pub(crate) cpudl: CpuDeadline,
    /// CPUs with tasks that others may take (`dlo_mask`).
    overloaded: AtomicCpuMask,
    /// A CPU offers a task whenever one waits, not only beside another of the class.
    overload_waits: bool,
    /// Of each CPU the earliest deadline of those.
    next: Vec<AtomicU64>,
    pub(crate) grub: Grub,
    pub(crate) periods: PeriodLimits,
    /// What fair servers have, if the kernel has them.
    pub(crate) server: Option<ServerLimits>,
    pub(crate) server_rules: ServerRules,
    /// There are, or were, real-time or deadline tasks: the fair servers are in place.
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

    /// What a root domain has promised.
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

    /// What the fair server of a CPU has.
    pub(crate) fn server_bandwidth(&self) -> u64 {
        self.server.map_or(0, ServerLimits::bandwidth)
    }

    /// Whether a CPU of that capacity may leave a root domain: what is promised, and what there would be, if not.
    pub(crate) fn may_lose(&self, root: Root, capacity: u32) -> Result<(), (u64, u64)> {
        self.domain(root).may_lose(capacity, self.server_bandwidth())
    }

    /// Moves a CPU of this capacity from one root domain to another.
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

    /// What `from` has promised is promised by `to` from now on.
    pub(super) fn move_bw(&self, from: Root, to: Root, bw: u64) {
        if from != to && bw > 0 {
            self.domain(to).reserve(bw);
            self.domain(from).release(bw);
        }
    }

    /// Publishes what has changed on a CPU.
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

    /// Returns the earliest deadline of a CPU's pushable tasks; [`NONE`] if there are none.
    fn offered(&self, dl: &DlRq) -> u64 {
        dl.earliest_pushable().filter(|_| self.overload_waits || dl.nr_running() > 1).unwrap_or(NONE)
    }

    /// Whether what is published of a CPU is what is there.
    pub(super) fn shows(&self, cpu: CpuId, dl: &DlRq) -> bool {
        let next = self.offered(dl);
        self.cpudl.earliest(cpu) == dl.earliest()
            && self.next[cpu.index()].load(Relaxed) == next
            && self.overloaded.contains(cpu) == (next != NONE)
    }
}

/// Whether a CPU is fast enough for a task to have its runtime by its deadline there.
fn fits<P: Policy>(shared: &Shared<P>, task: &Task<P>, cpu: CpuId) -> bool {
    let Some(se) = &task.dl else { return true };
    let own = se.effective();
    (u128::from(own.deadline) * u128::from(shared.capacity(cpu))) >> 10 >= u128::from(own.runtime)
}

/// `find_later_rq`: returns a CPU without deadline tasks that the task may use, the nearest to `cpu`, its last CPU.
/// Without one, returns the CPU with the latest deadline, if the task may run there and its deadline is earlier. `on`,
/// the calling CPU, is preferred among equals.
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
    // Where CPUs differ, those that are fast enough; if there are none, the first of the fastest, or the one it was on
    // if that is one.
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

/// The CPU with the latest deadline of those of a root domain that are online; one that is free if there is any.
#[cold]
fn latest_in<P: Policy>(shared: &Shared<P>, root: Root) -> Option<CpuId> {
    latest_of(shared, root, |cpu| Some(shared.dl.cpudl.earliest(cpu).unwrap_or(NONE)))
}

/// The CPU with the latest deadline of those of a root domain that are online and for which `deadline` has one.
#[cold]
fn latest_of<P: Policy>(shared: &Shared<P>, root: Root, deadline: impl Fn(CpuId) -> Option<u64>) -> Option<CpuId> {
    let span = shared.root_span(root);
    let with = span.iter().filter_map(|cpu| Some((deadline(cpu)?, core::cmp::Reverse(cpu))));
    with.max().map(|(_, cpu)| cpu.0)
}

/// `select_task_rq_dl`: returns the CPU on which the task slept, unless a task with an earlier deadline or a pinned
/// task runs there, or the CPU is too slow.
#[inline(never)]
pub(crate) fn select_cpu<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, on: CpuId) -> CpuId {
    let prev = rq.cpu;
    let se = entity(rq, index);
    // One that never ran has its first deadline to come.
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

/// Whether a task that was woken on `rq` and does not run should be pushed at once, because the running task has an
/// earlier deadline or is pinned (`task_woken_dl`).
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

/// The task with the earliest deadline that others may take, of those that `may` go.
fn pick_pushable<P: Policy>(rq: &Rq<P>, may: impl Fn(&Task<P>) -> bool) -> Option<u32> {
    rq.dl.pushables().find(|&index| may(&rq.tasks[index]))
}

/// Whether somewhere in the root domain of `cpu` deadline tasks wait that others may take.
pub(crate) fn overloaded<P: Policy>(shared: &Shared<P>, cpu: CpuId) -> bool {
    let overloaded = &shared.dl.overloaded;
    if !shared.is_split() {
        return !overloaded.is_empty();
    }
    overloaded.iter_from(CpuId(0)).any(|other| shared.same_root(cpu, other))
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Runs the callback of a run queue that is unlocked.
    #[inline(never)]
    pub(crate) fn dl_callback(&mut self, cpu: CpuId, callback: Option<Callback>) {
        match callback {
            None => {}
            Some(Callback::Push) => self.push_dl_tasks(cpu, cpu),
            Some(Callback::Pull) => self.pull_dl_task(cpu, true),
        }
    }

    /// Pushes tasks that `cpu` cannot run to CPUs with later deadlines, until there is none or no such CPU. `on` is the
    /// CPU whose code does so.
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
            // It came while the CPU was between two tasks, and its deadline is earlier than that of who runs.
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
            // Both were let go of: does it still hold?
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

    /// Takes over tasks that wait on other CPUs and have earlier deadlines than all there is on `cpu`. `tell`: have it
    /// rescheduled if there was one.
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
            // One that was woken a moment ago and is about to preempt stays where it is.
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

/// The CPUs a queued task may run on have changed.
pub(crate) fn affinity_changed<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    if rq.tasks[index].kind != ClassKind::Deadline || !rq.tasks[index].on_rq {
        return;
    }
    let waits = rq.curr != Some(index);
    super::verbs::set_pushable(rq, shared, index, waits);
}
