//! Which tasks may leave a CPU, and their detachment.

use alloc::vec::Vec;

use super::domains::{Domain, Level};
use super::imbalance::{Imbalance, MigrationType};
use crate::class::moves::detach_task;
use crate::cpumask::CpuMask;
use crate::event::{BalanceKind, MigrateCause};
use crate::features::Feature;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::{Balanced, Limited, Policy};
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::{SchedPolicy, Task, TaskState};
use crate::tunables::Tunables;

/// An attempt to pull.
pub(super) struct Env<'d> {
    pub(super) domain: &'d Domain,
    pub(super) position: usize,
    pub(super) dst: CpuId,
    pub(super) kind: BalanceKind,
    pub(super) cause: MigrateCause,
    pub(super) imbalance: Imbalance,
    pub(super) all_pinned: bool,
    pub(super) some_pinned: bool,
    /// Another CPU of our group for a pinned task.
    pub(super) new_dst: Option<CpuId>,
    /// The CPUs tried so far, including ours.
    pub(super) tried: CpuMask,
    pub(super) failed: u32,
}

/// Detaches tasks, longest ago run first, until the imbalance is gone or enough were checked.
pub(super) fn detach_tasks<P: Policy>(
    from: &mut Rq<P>,
    shared: &Shared<P>,
    env: &mut Env<'_>,
    to: &Rq<P>,
) -> Vec<Task<P>> {
    let most = shared.config.tunables.nr_migrate().min(from.nr_running);
    let mut moved = Vec::new();
    let mut looked = 0;
    // The start of the walk: a task that cannot move is put at the other end.
    let mut left = from.nr_ordinary();
    while let Some(index) = from.oldest() {
        if env.imbalance.amount == 0 || left == 0 {
            break;
        }
        // Leave the last task.
        if env.kind != BalanceKind::Busy && from.nr_running <= 1 {
            break;
        }
        looked += 1;
        left -= 1;
        if looked > most {
            break;
        }
        if !may_migrate(from, shared, env, to, index) || !fits_imbalance(from, shared, env, index) {
            from.relist(index);
            continue;
        }
        moved.push(detach_task(from, shared, index));
        // A newly idle CPU is in a hurry.
        if env.kind == BalanceKind::NewIdle {
            break;
        }
    }
    moved
}

/// Detaches the first movable task, without reordering the list.
pub(super) fn detach_one<P: Policy>(
    from: &mut Rq<P>,
    shared: &Shared<P>,
    env: &mut Env<'_>,
    to: &Rq<P>,
) -> Option<Task<P>> {
    let mut walk = from.oldest();
    while let Some(index) = walk {
        if may_migrate(from, shared, env, to, index) {
            return Some(detach_task(from, shared, index));
        }
        walk = from.listed_after(index);
    }
    None
}

/// Whether the balancer may move a task (`can_migrate_task`).
fn may_migrate<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, env: &mut Env<'_>, to: &Rq<P>, index: u32) -> bool {
    let task = &rq.tasks[index];
    // 6.14+: a task with a delayed dequeue moves only for load. The stopper's moves count as that.
    let delayed = task.state == TaskState::Sleeping;
    if delayed && !shared.config.has(Behaviour::DelayedCounts) && env.imbalance.migration != MigrationType::Load {
        return false;
    }
    if P::Limits::limit_forbids_move(rq, shared, index, to) {
        return false;
    }
    if env.failed == 0 && P::Balance::has_run_ahead(rq, shared, index, to) {
        return false;
    }
    let task = &rq.tasks[index];
    // Per-CPU kernel threads stay.
    if task.per_cpu && shared.config.has(Behaviour::KthreadsStay) {
        return false;
    }
    if !task.allowed(env.dst) {
        env.some_pinned = true;
        if env.kind != BalanceKind::NewIdle
            && env.new_dst.is_none()
            && env.cause != MigrateCause::Active
            && let Some(group) = env.domain.groups.iter().find(|group| group.mask.contains(env.dst))
        {
            let mut others =
                group.balancers().iter().copied().filter(|&cpu| cpu != env.dst && !env.tried.contains(cpu));
            env.new_dst = others.find(|&cpu| task.allowed(cpu));
        }
        rq.tasks[index].migrations.affine += 1;
        return false;
    }
    env.all_pinned = false;
    if rq.curr_ordinary == Some(index) {
        rq.tasks[index].migrations.running += 1;
        return false;
    }
    if env.cause == MigrateCause::Active {
        return true;
    }
    let hot = is_hot(rq, shared, env, to, index);
    let forced = env.failed > env.domain.cache_nice_tries;
    if hot {
        let count = &mut rq.tasks[index].migrations;
        *(if forced { &mut count.forced } else { &mut count.hot }) += 1;
    }
    forced || !hot
}

fn is_hot<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, env: &Env<'_>, to: &Rq<P>, index: u32) -> bool {
    let task = &rq.tasks[index];
    if task.policy == SchedPolicy::Idle
        || (env.domain.level == Level::Smt && shared.config.has(Behaviour::SmtIgnoresHeat))
    {
        return false;
    }
    if to.nr_running > 0 && P::Balance::sticky(rq, shared, index) {
        return true;
    }
    let since = rq.clock.now().saturating_sub(task.last_ran);
    task.last_ran != 0 && since < shared.config.tunables.migration_cost_ns()
}

/// Whether the move does not overshoot; if so, subtracts it. Each failure relaxes the bound.
fn fits_imbalance<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, env: &mut Env<'_>, index: u32) -> bool {
    let relaxed = |value: u64| value >> env.failed.min(63);
    match env.imbalance.migration {
        MigrationType::Task => env.imbalance.amount -= 1,
        MigrationType::Load => {
            let load = P::Balance::task_load(rq, shared, index).max(1);
            if shared.config.features.has(Feature::LbMin) && load < 16 && env.failed == 0 {
                return false;
            }
            let counted = if shared.config.has(Behaviour::RelaxesLoad) { relaxed(load) } else { load / 2 };
            if counted > env.imbalance.amount {
                return false;
            }
            env.imbalance.amount = env.imbalance.amount.saturating_sub(load);
        }
        MigrationType::Util => {
            let util = P::Balance::task_util(rq, index);
            if relaxed(util) > env.imbalance.amount {
                return false;
            }
            env.imbalance.amount = env.imbalance.amount.saturating_sub(util);
        }
        MigrationType::Misfit => {
            if P::Balance::task_fits_cpu(rq, shared, index, rq.cpu) {
                return false;
            }
            env.imbalance.amount = 0;
        }
    }
    true
}
