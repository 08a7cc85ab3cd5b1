//! CPUs that go offline and online (`sched_cpu_deactivate`, `sched_cpu_activate`), and their tasks' new CPUs.
//!
//! From [`Scheduler::cpu_down`] on, no task is placed on the CPU, and tasks on their way to the CPU choose another. The
//! CPU is in no scheduling domain, and publishes that it is not idle. Waiting tasks move at once, the running task
//! through the stopper, and sleeping tasks when they wake.

use core::fmt;

use crate::class;
use crate::class::deadline::bandwidth::Cpus;
use crate::class::deadline::verbs as deadline;
use crate::class::finish::finish_verb;
use crate::class::rt::verbs as rt;
use crate::cpuset::Populated;
use crate::event::{Event, Running};
use crate::host::Host;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::{Changed, Policy};
use crate::rq::{Rq, Rqs};
use crate::scheduler::view::Scheduler;
use crate::shared::Shared;
use crate::task::{Affinity, NIL, Task};

/// Why a CPU cannot go offline or online.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HotplugError {
    /// The machine has no such CPU.
    NoSuchCpu {
        /// The requested CPU.
        cpu: CpuId,
        /// The machine's CPUs.
        nr_cpus: usize,
    },
    /// The CPU is offline already.
    Offline(CpuId),
    /// The CPU is online already.
    Online(CpuId),
    /// The CPU is the last one online (`EBUSY`).
    Last(CpuId),
    /// All other online CPUs are isolated (`EBUSY`).
    LastHousekeeping(CpuId),
    /// Deadline tasks have reserved more than the other CPUs provide (`EBUSY`).
    Deadline {
        /// The CPU that should go offline.
        cpu: CpuId,
        /// Bandwidth that tasks have reserved, in 2^-20 CPUs. 6.12+: with the fair servers of the other CPUs.
        promised: u64,
        /// Bandwidth that the other CPUs offer, in 2^-20 CPUs.
        cap: u64,
    },
}

impl fmt::Display for HotplugError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchCpu { cpu, nr_cpus } => {
                write!(f, "there is no CPU {cpu}; the machine has CPUs 0 to {}", nr_cpus.saturating_sub(1))
            }
            Self::Offline(cpu) => write!(f, "CPU {cpu} is offline already"),
            Self::Online(cpu) => write!(f, "CPU {cpu} is online already"),
            Self::Last(cpu) => {
                write!(f, "CPU {cpu} cannot go offline: it is the last online CPU; bring another online first")
            }
            Self::LastHousekeeping(cpu) => write!(
                f,
                "CPU {cpu} cannot go offline (EBUSY): all other online CPUs are isolated; isolate fewer, or bring another online first"
            ),
            Self::Deadline { cpu, promised, cap } => write!(
                f,
                "CPU {cpu} cannot go offline (EBUSY): SCHED_DEADLINE tasks (and fair servers) have reserved {} CPUs, and {} would remain; \
                 first end tasks or lower their runtimes",
                Cpus(*promised),
                Cpus(*cap)
            ),
        }
    }
}

impl core::error::Error for HotplugError {}

fn may_run<P: Policy>(shared: &Shared<P>, affinity: &Affinity, cpu: CpuId) -> bool {
    cpu.index() < shared.nr_cpus()
        && shared.is_online(cpu)
        && affinity.as_ref().is_none_or(|affinity| affinity.contains(cpu))
}

/// Whether no CPU of the affinity is online.
pub(super) fn is_lost<P: Policy>(shared: &Shared<P>, affinity: &Affinity) -> bool {
    !shared.all_online() && affinity.as_ref().is_some_and(|mask| !mask.iter().any(|cpu| may_run(shared, affinity, cpu)))
}

/// Returns the first CPU that the affinity allows, of `chosen`, `prev`, the node of `prev`, and all.
pub(super) fn allowed_cpu<P: Policy>(shared: &Shared<P>, affinity: &Affinity, chosen: CpuId, prev: CpuId) -> CpuId {
    match affinity {
        _ if !shared.all_online() => fallback(shared, affinity, chosen, prev),
        None => chosen,
        Some(mask) if mask.contains(chosen) => chosen,
        Some(mask) if mask.contains(prev) => prev,
        Some(_) => fallback(shared, affinity, chosen, prev),
    }
}

/// Returns a task's new CPU after code on `on` changed its affinity: the next allowed one after the last choice, so
/// that tasks spread. Before 5.7: the first (`dest_cpu` of `__set_cpus_allowed_ptr`).
pub(super) fn choose_dest<P: Policy>(shared: &Shared<P>, affinity: &Affinity, on: CpuId) -> u32 {
    let mut all = (0..shared.nr_cpus() as u32).map(CpuId).filter(|&cpu| may_run(shared, affinity, cpu));
    let spreads = shared.config.has(Behaviour::AffinitySpreads);
    let dest = if spreads { shared.rt.distribute(on, all) } else { all.next() };
    dest.map_or(NIL, |cpu| cpu.0)
}

/// Returns the CPU of a task that must leave `cpu`: from [`choose_dest`], unless the CPU goes offline.
pub(super) fn dest_cpu<P: Policy>(shared: &Shared<P>, task: &Task<P>, cpu: CpuId) -> CpuId {
    let leaves = task.dest != NIL && shared.is_online(cpu) && !task.allowed(cpu);
    let chosen = if leaves { CpuId(task.dest) } else { cpu };
    allowed_cpu(shared, &task.affinity, chosen, cpu)
}

/// Returns a forked task's CPU: `on`, if the affinity has a CPU of the root domain of `on`. Otherwise the first
/// online CPU of the affinity.
pub(super) fn home<P: Policy>(shared: &Shared<P>, affinity: &Affinity, on: CpuId) -> CpuId {
    let cpus = || (0..shared.nr_cpus() as u32).map(CpuId).filter(|&cpu| may_run(shared, affinity, cpu));
    if cpus().any(|cpu| shared.same_root(cpu, on)) { on } else { cpus().next().unwrap_or(on) }
}

/// `select_fallback_rq`: any CPU if no allowed one is online.
#[cold]
fn fallback<P: Policy>(shared: &Shared<P>, affinity: &Affinity, chosen: CpuId, prev: CpuId) -> CpuId {
    let cpus = || (0..shared.nr_cpus() as u32).map(CpuId);
    let node = |cpu: CpuId| shared.topology.place(cpu).node;
    let find = |affinity: &Affinity| {
        let may = |cpu: &CpuId| may_run(shared, affinity, *cpu);
        let near = |cpu: &CpuId| may(cpu) && node(*cpu) == node(prev);
        [chosen, prev].into_iter().find(may).or_else(|| cpus().find(near)).or_else(|| cpus().find(may))
    };
    find(affinity).or_else(|| find(&None)).unwrap_or(prev)
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Takes a CPU offline: removes it from scheduling domains, and rebuilds those of others. On return, waiting tasks
    /// have moved. If a task runs there, the CPU reschedules and its stopper moves the task. The CPU must not be used
    /// after [`Self::schedule`] returns that it is idle.
    ///
    /// As in Linux, if no CPU of a task's affinity is online any more, the task may run on all CPUs from then on
    /// ([`Event::AffinityLost`]).
    ///
    /// A host changes one CPU at a time.
    ///
    /// # Errors
    ///
    /// No such CPU, already offline, the last, or the others lack bandwidth for deadline tasks.
    pub fn cpu_down(&mut self, cpu: CpuId) -> Result<(), HotplugError> {
        let shared = self.shared;
        let nr_cpus = shared.nr_cpus();
        if cpu.index() >= nr_cpus {
            return Err(HotplugError::NoSuchCpu { cpu, nr_cpus });
        }
        if !shared.is_online(cpu) {
            return Err(HotplugError::Offline(cpu));
        }
        if shared.nr_online() == 1 {
            return Err(HotplugError::Last(cpu));
        }
        let isolated = &shared.config.isolated;
        let is_housekeeping = |other: CpuId| other != cpu && shared.is_online(other) && !isolated.contains(other);
        if !isolated.contains(cpu) && !(0..nr_cpus as u32).map(CpuId).any(is_housekeeping) {
            return Err(HotplugError::LastHousekeeping(cpu));
        }
        shared
            .dl
            .may_lose(shared.root(cpu), shared.capacity(cpu))
            .map_err(|(promised, cap)| HotplugError::Deadline { cpu, promised, cap })?;
        self.host.event(self.now, cpu, &Event::CpuDown);
        let populated = if shared.cpusets_used() { self.populated() } else { Populated::default() };
        let change = shared.set_online(cpu, false, &populated);
        shared.nohz.exit(cpu);
        // Before tasks are pushed, so that tasks whose group has other CPUs keep their affinity.
        self.update_cpumasks(&change);
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now);
        class::update_curr(&mut rq, shared);
        rq.online = false;
        rq.balance.tick_stopped = false;
        rt::rq_offline(&mut rq, shared);
        P::Changes::rq_offline(&mut rq, shared);
        finish_verb(&mut rq, shared, self.host);
        drop(rq);
        self.roots_rebuilt(&change);
        self.push_forbidden(cpu);
        Ok(())
    }

    /// Takes a CPU online: idle and rescheduled, as after Linux's hotplug thread. It balances at once. A host changes
    /// one CPU at a time.
    ///
    /// # Errors
    ///
    /// No such CPU, or already online.
    pub fn cpu_up(&mut self, cpu: CpuId) -> Result<(), HotplugError> {
        let shared = self.shared;
        let nr_cpus = shared.nr_cpus();
        if cpu.index() >= nr_cpus {
            return Err(HotplugError::NoSuchCpu { cpu, nr_cpus });
        }
        if shared.is_online(cpu) {
            return Err(HotplugError::Online(cpu));
        }
        self.host.event(self.now, cpu, &Event::CpuUp);
        let populated = if shared.cpusets_used() { self.populated() } else { Populated::default() };
        let change = shared.set_online(cpu, true, &populated);
        self.roots_rebuilt(&change);
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now);
        rq.online = true;
        rq.balance.online(self.now, self.shared.balance_time(self.now));
        rt::rq_online(&rq, shared);
        P::Changes::rq_online(&mut rq, shared);
        if rq.running == Running::Idle {
            rq.resched();
        }
        finish_verb(&mut rq, shared, self.host);
        drop(rq);
        self.update_cpumasks(&change);
        Ok(())
    }
}

/// Lets a task that can run nowhere run on all CPUs, or all of its group, and reports it on `cpu`. Returns whether it
/// did.
pub(super) fn widen<P: Policy, H: Host>(
    shared: &Shared<P>,
    host: &mut H,
    now: u64,
    task: &mut Task<P>,
    cpu: CpuId,
) -> bool {
    let lost = is_lost(shared, &task.affinity);
    if lost {
        (task.affinity, task.asked) = (shared.cpus_allowed(task.group, &None).0, None);
        host.event(now, cpu, &Event::AffinityLost { task: task.id });
        host.affinity(now, task.id, task.affinity.as_deref());
    }
    lost
}

/// Widens the affinity of a task on an online CPU, if no CPU of the affinity is online. Returns whether it did: then
/// the task stays on its CPU. Linux leaves the task with an empty mask until its next wakeup (`migration_cpu_stop`).
pub(super) fn widen_in_place<P: Policy, H: Host>(
    rq: &mut Rq<P>,
    shared: &Shared<P>,
    host: &mut H,
    now: u64,
    index: u32,
) -> bool {
    let cpu = rq.cpu;
    let lost = rq.online && widen(shared, host, now, &mut rq.tasks[index], cpu);
    if lost {
        rt::affinity_changed(rq, shared, index);
        deadline::affinity_changed(rq, shared, index);
        if shared.is_split() {
            deadline::account(rq, shared, index);
        }
    }
    lost
}
