//! The CPU for a real-time task, by the published priorities.

use alloc::vec::Vec;

use super::cpupri::{Cpupri, NONE};
use crate::attrs::ClassKind;
use crate::class::clamps;
use crate::cpumask::CpuMask;
use crate::event::Running;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::Task;

/// Whether a CPU has the capacity of a task's lower clamp, by default the largest (`rt_task_fits_capacity`).
pub(super) fn fits<P: Policy>(shared: &Shared<P>, task: &Task<P>, cpu: CpuId) -> bool {
    if !shared.domains.asym() {
        return true;
    }
    let clamps = clamps::effective(shared, task);
    shared.capacity(cpu) >= u32::from(clamps.min.min(clamps.max)).min(shared.max_capacity())
}

/// Returns the last CPU, unless a task as urgent or pinned runs there (`select_task_rq_rt`).
#[inline(never)]
pub(crate) fn select_cpu<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, on: CpuId) -> CpuId {
    let prev = rq.cpu;
    let task = &rq.tasks[index];
    // 6.12+: a deadline task does not count. The woken task is pushed afterwards.
    let counts = |kind| {
        kind == ClassKind::Rt || (kind == ClassKind::Deadline && !shared.config.has(Behaviour::RtIgnoresDeadline))
    };
    let contested = is_contested(rq, shared, task, counts);
    if !contested && fits(shared, task, prev) {
        return prev;
    }
    let Some(target) = find_lowest(shared, task, prev, on) else { return prev };
    if !contested && !fits(shared, task, target) {
        return prev;
    }
    if task.rt_level() < shared.rt.highest(target) { target } else { prev }
}

/// Returns the CPU with the least urgent task nearest to `cpu`, the task's last (`find_lowest_rq`); among equals, `on`,
/// the calling CPU.
pub(crate) fn find_lowest<P: Policy>(shared: &Shared<P>, task: &Task<P>, cpu: CpuId, on: CpuId) -> Option<CpuId> {
    if task.nr_cpus_allowed(shared.nr_cpus()) == 1 {
        return None;
    }
    shared.rt.nearest(shared, &shared.rt.lowest(shared, task, cpu), cpu, on)
}

/// Whether to push a woken task at once: the running task is as urgent or pinned (`task_woken_rt`).
#[inline(never)]
pub(crate) fn woken<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, index: u32) -> bool {
    let task = &rq.tasks[index];
    task.kind == ClassKind::Rt
        && task.rt.pushable
        && !rq.resched_is_due()
        && is_contested(rq, shared, task, |kind| kind < ClassKind::Fair)
}

/// Whether the running task, if its class counts, is as urgent as `task`, or pinned (as the stopper is).
fn is_contested<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, task: &Task<P>, counts: impl Fn(ClassKind) -> bool) -> bool {
    let is = |current: &Task<P>| {
        counts(current.kind) && (current.nr_cpus_allowed(shared.nr_cpus()) < 2 || current.prio() <= task.prio())
    };
    rq.running == Running::Stopper || rq.curr.is_some_and(|current| is(&rq.tasks[current]))
}

/// Whether to pull before a pick, after a task of priority `prev` (`need_pull_rt_task`).
pub(crate) fn needs_pull<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, prev: i16) -> bool {
    i16::from(rq.rt.highest()) > prev && rq.online && shared.rt.offers.any(shared, rq.cpu)
}

impl Cpupri {
    /// Returns the CPU of `good`, in ascending order, nearest to `cpu`, the task's last; among equals, the calling
    /// CPU `on`.
    pub(crate) fn nearest<P: Policy>(
        &self,
        shared: &Shared<P>,
        good: &[CpuId],
        cpu: CpuId,
        on: CpuId,
    ) -> Option<CpuId> {
        if good.contains(&cpu) {
            return Some(cpu);
        }
        let here = good.contains(&on).then_some(on);
        for domain in shared.domains.near(cpu) {
            let here = here.filter(|&on| domain.span.contains(on));
            let near = good.iter().copied().filter(|&cpu| domain.span.contains(cpu));
            if let Some(best) = here.or_else(|| self.distribute(on, near)) {
                return Some(best);
            }
        }
        here.or_else(|| self.distribute(on, good.iter().copied()))
    }

    /// Returns the CPUs with the least urgent tasks, in the root domain of `at` and allowed to the more urgent `task`.
    /// Prefers sufficient capacity.
    pub(super) fn lowest<P: Policy>(&self, shared: &Shared<P>, task: &Task<P>, at: CpuId) -> Vec<CpuId> {
        let fits = |cpu: &CpuId| fits(shared, task, *cpu);
        let mut second_best = Vec::new();
        for level in (u32::from(task.rt_level()) + 1..=NONE).rev() {
            let mask = &self.levels[level as usize];
            if mask.is_empty() {
                continue;
            }
            let may = |cpu: &CpuId| task.allowed(*cpu) && shared.is_online(*cpu) && shared.same_root(at, *cpu);
            let found: Vec<CpuId> = mask.iter_from(CpuId(0)).filter(may).collect();
            if found.is_empty() {
                continue;
            }
            let big: Vec<CpuId> = found.iter().copied().filter(fits).collect();
            if !big.is_empty() {
                return big;
            }
            if second_best.is_empty() {
                second_best = found;
            }
        }
        second_best
    }

    /// Whether a CPU in the root domain of `at` runs less urgent than `task`.
    pub(super) fn has_lower<P: Policy>(&self, shared: &Shared<P>, task: &Task<P>, at: CpuId) -> bool {
        let mut levels = (u32::from(task.rt_level()) + 1..=NONE).map(|level| &self.levels[level as usize]);
        let may = |cpu: CpuId| task.allowed(cpu) && shared.is_online(cpu) && shared.same_root(at, cpu);
        levels.any(|mask| !mask.is_empty() && mask.iter_from(CpuId(0)).any(may))
    }
}

/// Notes whether other CPUs may take a queued task, never a pinned one.
pub(crate) fn set_pushable<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, pushable: bool) {
    let pushable = pushable && rq.tasks[index].nr_cpus_allowed(shared.nr_cpus()) > 1;
    let task = &mut rq.tasks[index].rt;
    if core::mem::replace(&mut task.pushable, pushable) == pushable {
        return;
    }
    if pushable {
        task.since = rq.rt.became_pushable;
        rq.rt.became_pushable += 1;
    }
    rq.rt.pushable.set((u64::from(task.level), task.since, index), pushable);
}

/// Returns the CPUs that lend to each other: those of the root domain.
pub(super) fn span<P: Policy>(shared: &Shared<P>, cpu: CpuId) -> CpuMask {
    shared.root_span(shared.root(cpu))
}
