//! The CPU for a deadline task, by the published deadlines.

use alloc::vec::Vec;

use super::entity::DlEntity;
use crate::attrs::ClassKind;
use crate::balance::roots::Root;
use crate::class::pushable::NONE;
use crate::ids::CpuId;
use crate::policy::Policy;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::Task;

/// Whether a CPU is fast enough for a task's runtime by its deadline.
fn fits<P: Policy>(shared: &Shared<P>, task: &Task<P>, cpu: CpuId) -> bool {
    let Some(se) = &task.dl else { return true };
    let own = se.effective();
    (u128::from(own.deadline) * u128::from(shared.capacity(cpu))) >> 10 >= u128::from(own.runtime)
}

/// Returns the CPU without deadline tasks nearest to `cpu`, the task's last (`find_later_rq`). If all CPUs have
/// deadline tasks, returns the one with the latest deadline, if the task may run there and its deadline is earlier.
/// Among equals, prefers `on`, the calling CPU.
pub(crate) fn later_cpu<P: Policy>(
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
    let mut good: Vec<CpuId> = all().filter(|other| free(other) && fits(shared, task, *other)).collect();
    if good.is_empty() {
        good.push(fastest);
    }
    shared.rt.nearest(shared, &good, cpu, on)
}

/// Returns the online CPU of a root domain with the latest deadline, or a free one.
#[cold]
fn latest_in<P: Policy>(shared: &Shared<P>, root: Root) -> Option<CpuId> {
    latest_of(shared, root, |cpu| Some(shared.dl.cpudl.earliest(cpu).unwrap_or(NONE)))
}

/// Returns the online CPU of a root domain with the latest `deadline`. None if no CPU has one.
#[cold]
fn latest_of<P: Policy>(shared: &Shared<P>, root: Root, deadline: impl Fn(CpuId) -> Option<u64>) -> Option<CpuId> {
    let span = shared.root_span(root);
    let with = span.iter().filter_map(|cpu| Some((deadline(cpu)?, core::cmp::Reverse(cpu))));
    with.max().map(|(_, cpu)| cpu.0)
}

/// Returns the last CPU, unless it is too slow, or runs a task that is pinned or has an earlier deadline
/// (`select_task_rq_dl`).
#[inline(never)]
pub(crate) fn select_cpu<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, on: CpuId) -> CpuId {
    let prev = rq.cpu;
    let se = entity(rq, index);
    // A task that never ran gets its first deadline.
    let deadline = if se.deadline == 0 { rq.clock.now() + se.effective().deadline } else { se.deadline };
    let contested = is_contested(rq, shared, deadline);
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
        && is_contested(rq, shared, entity(rq, index).deadline)
}

/// Whether the running task is of the class, and is pinned or has no later deadline.
fn is_contested<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, deadline: u64) -> bool {
    let running = rq.curr.map(|current| &rq.tasks[current]).filter(|task| task.kind == ClassKind::Deadline);
    let is = |task: &Task<P>| {
        task.nr_cpus_allowed(shared.nr_cpus()) < 2 || task.deadline().is_some_and(|se| deadline >= se.deadline)
    };
    running.is_some_and(is)
}

#[expect(clippy::expect_used, reason = "as `verbs::with`")]
pub(crate) fn entity<P: Policy>(rq: &Rq<P>, index: u32) -> &DlEntity {
    rq.tasks[index].dl.as_deref().expect("a task of the deadline class has an entity")
}
