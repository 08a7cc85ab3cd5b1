//! The busiest group, its busiest CPU, and the load to move.

use alloc::vec::Vec;

use super::{SCALE, params};
use crate::balance::domains::{Domain, Level, SchedGroup};
use crate::balance::loads::{source_load, target_load};
use crate::cpumask::CpuMask;
use crate::event::BalanceKind;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::shared::Shared;

/// Returns the power of a group (`cpu_power`). A second thread adds a tenth to a core. 2.6.17+: the CPUs of a core or
/// package count as one, so that each gets one task first.
pub(super) fn power<P: Policy>(shared: &Shared<P>, domain: &Domain, group: &SchedGroup) -> u64 {
    let count = |same: fn(&crate::topology::CpuPlace) -> u32| {
        let mut ids: Vec<u32> = group.cpus.iter().map(|&cpu| same(shared.topology.place(cpu))).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.len() as u64
    };
    if domain.level == Level::Smt {
        return SCALE * group.cpus.len() as u64;
    }
    if shared.config.has(Behaviour::PowerPerThread) {
        let cores = count(|place| place.core);
        return SCALE * cores + SCALE * (group.cpus.len() as u64 - cores) / 10;
    }
    if matches!(domain.level, Level::Numa(_)) { SCALE * count(|place| place.package) } else { SCALE }
}

struct Group {
    /// For its power: 1024 is one nice-0 task for each CPU.
    load: u64,
    power: u64,
    nr_running: u64,
    /// Sum of the present loads.
    present: u64,
    index: usize,
}

/// Returns the group of `domain` from which `cpu`, of the group `own`, should pull, and the load.
pub(super) fn find_busiest_group<P: Policy>(
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
    let counts_heads = shared.config.has(Behaviour::CountsTasks);
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
    // Neither group passes the mean, nor does the busiest one lose all tasks.
    let amount = if busiest.load < mean {
        0
    } else {
        let out = (busiest.load - mean).min(busiest.load - per_task);
        (out * busiest.power).min((mean - this.load) * this.power) / SCALE
    };
    let amount = if amount < per_task { bump(&this, &busiest, per_task, counts_heads)? } else { amount };
    Some((busiest.index, amount))
}

/// For an imbalance below a task's load: moves one task if the difference is two tasks, or if this uses more of the
/// CPUs' power.
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

pub(super) fn find_busiest_queue<P: Policy>(
    shared: &Shared<P>,
    group: &SchedGroup,
    kind: BalanceKind,
    amount: u64,
    excluded: &CpuMask,
    now: u64,
    domain: &Domain,
) -> Option<CpuId> {
    let params = params(domain.level);
    let counts_heads = shared.config.has(Behaviour::CountsTasks);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn group(load: u64, nr_running: u64) -> Group {
        Group { load, power: SCALE, nr_running, present: load, index: 0 }
    }

    #[test]
    fn a_task_moves_only_if_that_helps() {
        // Two tasks beside an idle CPU.
        assert_eq!(bump(&group(0, 0), &group(2048, 2), 1024, true), Some(1024));
        // Two beside one: a move would only reverse them.
        assert_eq!(bump(&group(1024, 1), &group(2048, 2), 1024, true), None);
        // A heavy and a light task each: the CPU of the lighter pair has room.
        assert_eq!(bump(&group(1024, 2), &group(2560, 2), 1280, false), Some(1280));
    }
}
