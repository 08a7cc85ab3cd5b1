//! The busiest group, its busiest CPU, and the load to move (`find_busiest_group`).

use core::sync::atomic::Ordering::Relaxed;

use super::{SCALE, load_idx, power, source_load, target_load};
use crate::balance::domains::{Domain, Level, SchedGroup};
use crate::balance::stats::is_reduced;
use crate::cpumask::CpuMask;
use crate::event::BalanceKind;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::shared::Shared;

/// 3.17+: the type of a group, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum GroupType {
    Other,
    Imbalanced,
    Overloaded,
}

#[derive(Clone, Debug)]
struct Group {
    kind: GroupType,
    /// Load for its power.
    avg_load: u64,
    power: u64,
    /// Number of tasks it has room for.
    capacity: u64,
    nr_running: u64,
    has_room: bool,
    idle_cpus: u64,
    weight: u64,
    load_per_task: u64,
    /// Its tasks cannot spread well: because of affinity or, in 3.10, very uneven CPUs.
    uneven: bool,
    index: usize,
}

pub(in crate::balance) struct Found {
    pub(in crate::balance) busiest: CpuId,
    /// The load; 0 if a task should move but none is small enough.
    pub(in crate::balance) amount: u64,
}

struct Asking<'a, P: Policy> {
    shared: &'a Shared<P>,
    domain: &'a Domain,
    /// Index of the CPU's group.
    own: usize,
    kind: BalanceKind,
    now: u64,
}

/// Finds the CPU of `domain` from which `dst`, of the group `own`, should pull, and the load to pull. Also returns
/// whether any CPU has several tasks. Ignores `excluded` CPUs.
pub(in crate::balance) fn find<P: Policy>(
    shared: &Shared<P>,
    domain: &Domain,
    below: Option<Level>,
    own: usize,
    kind: BalanceKind,
    excluded: &CpuMask,
    now: u64,
) -> (Option<Found>, bool) {
    let asking = Asking { shared, domain, own, kind, now };
    let any_loaded = shared.config.has(Behaviour::AnyLoaded);
    let by_util = shared.config.has(Behaviour::GroupsByUtil);
    let mut overloaded = false;
    let mut total_load = 0;
    let mut total_power = 0;
    let mut this = None;
    let mut busiest: Option<Group> = None;
    // Groups form a ring that begins with the own one, whose room matters for the others. Of equal groups the first is
    // the busiest, so CPUs with different neighbours pull from different CPUs.
    let count = domain.groups.len();
    for index in (own..count).chain(0..own) {
        let (mut group, load) = asking.stats(index, excluded, &mut overloaded);
        total_load += load;
        total_power += group.power;
        if index == own {
            this = Some(group);
            continue;
        }
        if by_util {
            // First one task to each group below: each core of a cache, each package of a node.
            if matches!(below, Some(Level::Smt | Level::Pkg))
                && this.as_ref().is_some_and(|this| this.has_room && group.nr_running > this.nr_running + 1)
            {
                group.kind = GroupType::Overloaded;
            }
        } else if below == Some(Level::Pkg) && this.as_ref().is_some_and(|this| this.has_room) {
            group.capacity = group.capacity.min(1);
        }
        if busier(any_loaded, &group, busiest.as_ref()) {
            busiest = Some(group);
        }
    }
    let (Some(this), Some(busiest)) = (this, busiest) else { return (None, overloaded) };
    let mean = SCALE * total_load / total_power.max(1);
    if !asking.is_imbalance(&this, &busiest, mean) {
        return (None, overloaded);
    }
    let amount = amount((any_loaded, by_util), &this, &busiest, mean);
    let cpu = asking.busiest_queue(&domain.groups[busiest.index], amount, excluded);
    (cpu.map(|busiest| Found { busiest, amount }), overloaded)
}

/// Whether a group is busier than the busiest so far (`update_sd_pick_busiest`).
fn busier(any_loaded: bool, group: &Group, so_far: Option<&Group>) -> bool {
    let more = group.avg_load > so_far.map_or(0, |busiest| busiest.avg_load);
    if !any_loaded {
        return more && (group.nr_running > group.capacity || group.uneven);
    }
    match so_far {
        Some(busiest) if group.kind != busiest.kind => group.kind > busiest.kind,
        // The first one must have load, or more than that.
        None if group.kind != GroupType::Other => true,
        _ => more,
    }
}

impl<P: Policy> Asking<'_, P> {
    fn stats(&self, index: usize, excluded: &CpuMask, overloaded: &mut bool) -> (Group, u64) {
        let (shared, domain) = (self.shared, self.domain);
        let group = &domain.groups[index];
        let load_index = load_idx(domain, self.kind);
        let (mut load, mut present, mut util, mut nr_running, mut idle_cpus) = (0, 0, 0, 0, 0);
        let (mut most, mut least) = ((0, 0), (u64::MAX, u64::MAX));
        for &cpu in group.cpus.iter().filter(|&&cpu| !excluded.contains(cpu)) {
            let published = shared.cpu(cpu);
            let guess = if index == self.own { target_load } else { source_load };
            let one = guess(shared, cpu, load_index, self.now);
            let running = u64::from(published.nr_running());
            load += one;
            present += published.load();
            util += published.util();
            nr_running += running;
            idle_cpus += u64::from(published.is_idle());
            *overloaded |= running > 1;
            most = (most.0.max(one), most.1.max(running));
            least = (least.0.min(one), least.1.min(running));
        }
        let power: u64 = group.cpus.iter().map(|&cpu| power(shared, cpu)).sum();
        let load_per_task = present.checked_div(nr_running).unwrap_or(0);
        let uneven = if shared.config.has(Behaviour::UnevenBySpread) {
            index != self.own && most.0.saturating_sub(least.0) >= load_per_task && most.1.saturating_sub(least.1) > 1
        } else {
            group.imbalance().load(Relaxed)
        };
        let capacity = self.capacity(group, power);
        let weight = group.cpus.len() as u64;
        let by_util = shared.config.has(Behaviour::GroupsByUtil);
        let (is_full, has_room) = if by_util {
            let pct = domain.imbalance_pct;
            (nr_running > weight && power * 100 < util * pct, nr_running < weight || power * 100 > util * pct)
        } else {
            (nr_running > capacity, capacity > nr_running)
        };
        let kind = if is_full {
            GroupType::Overloaded
        } else if uneven {
            GroupType::Imbalanced
        } else {
            GroupType::Other
        };
        let group = Group {
            kind,
            avg_load: load * SCALE / power,
            power,
            capacity,
            nr_running,
            has_room,
            idle_cpus,
            weight,
            load_per_task,
            uneven,
            index,
        };
        (group, load)
    }

    /// Number of tasks a group has room for: its power in whole CPUs, at most its cores.
    fn capacity(&self, group: &SchedGroup, power: u64) -> u64 {
        let domains = &self.shared.domains;
        let cores = group.cpus.iter().filter(|&&cpu| {
            domains.smt_siblings(cpu).is_none_or(|core| core.iter().find(|&one| group.mask.contains(one)) == Some(cpu))
        });
        let whole = (power + SCALE / 2) / SCALE;
        // A single thread of a core has room for a task, though it is less than a CPU.
        if group.cpus.len() == 1 { whole.max(1) } else { whole.min(cores.count() as u64) }
    }

    fn is_imbalance(&self, this: &Group, busiest: &Group, mean: u64) -> bool {
        let config = &self.shared.config;
        if busiest.nr_running == 0 {
            return false;
        }
        let uneven =
            if config.has(Behaviour::AnyLoaded) { busiest.kind == GroupType::Imbalanced } else { busiest.uneven };
        // Uneven groups are resolved here. An idle CPU helps overloaded groups whatever the loads.
        let helps = if config.has(Behaviour::GroupsByUtil) {
            self.kind != BalanceKind::Busy && busiest.kind == GroupType::Overloaded
        } else {
            self.kind == BalanceKind::NewIdle && !busiest.has_room
        };
        if uneven || (helps && this.has_room) {
            return true;
        }
        if this.avg_load >= busiest.avg_load || this.avg_load >= mean {
            return false;
        }
        if self.kind != BalanceKind::Idle {
            return 100 * busiest.avg_load > self.domain.imbalance_pct * this.avg_load;
        }
        let no_task_too_many = busiest.nr_running <= busiest.weight;
        let settled = if config.has(Behaviour::LeavesFitting) {
            busiest.kind != GroupType::Overloaded && this.idle_cpus <= busiest.idle_cpus + 1
        } else if config.has(Behaviour::LeavesIdler) {
            this.idle_cpus < busiest.idle_cpus && no_task_too_many
        } else {
            this.idle_cpus <= busiest.idle_cpus + 1 && no_task_too_many
        };
        !settled
    }

    /// Returns the CPU of a group with the highest load for its power, unless its only task is too large
    /// (`find_busiest_queue`).
    fn busiest_queue(&self, group: &SchedGroup, amount: u64, excluded: &CpuMask) -> Option<CpuId> {
        let mut best: Option<(CpuId, u64, u64)> = None;
        for &cpu in group.cpus.iter().filter(|&&cpu| !excluded.contains(cpu)) {
            let published = self.shared.cpu(cpu);
            let load = published.load();
            let power = power(self.shared, cpu);
            let a_whole_cpu = power >= SCALE / 2;
            let reduced =
                self.shared.config.has(Behaviour::LeavesReduced) && is_reduced(published, self.domain.imbalance_pct);
            if a_whole_cpu && published.nr_running() == 1 && load > amount && !reduced {
                continue;
            }
            if load > 0 && best.is_none_or(|(_, most, of)| load * of > most * power) {
                best = Some((cpu, load, power));
            }
        }
        best.map(|(cpu, _, _)| cpu)
    }
}

/// Returns the load to move (`calculate_imbalance`).
fn amount((typed, by_util): (bool, bool), this: &Group, busiest: &Group, mean: u64) -> u64 {
    let uneven = if typed { busiest.kind == GroupType::Imbalanced } else { busiest.uneven };
    let per_task = if uneven { busiest.load_per_task.min(mean) } else { busiest.load_per_task };
    let beyond = if typed { busiest.avg_load <= mean || this.avg_load >= mean } else { busiest.avg_load < mean };
    if beyond {
        return bump(this, busiest, per_task).unwrap_or(0);
    }
    // Only the excess over the capacity, so that no CPU becomes idle.
    let bounded =
        if typed { busiest.kind == GroupType::Overloaded && this.kind == GroupType::Overloaded } else { !uneven };
    let mut most = busiest.avg_load - mean;
    if bounded && by_util {
        let above = (busiest.nr_running * SCALE).checked_sub(busiest.power).filter(|&above| above > 0);
        most = most.min(above.map_or(u64::MAX, |above| above * SCALE / busiest.power));
    } else if bounded {
        let tasks = busiest.nr_running.saturating_sub(busiest.capacity);
        most = most.min(tasks * SCALE * SCALE / busiest.power);
    }
    let amount = (most * busiest.power).min(mean.saturating_sub(this.avg_load) * this.power) / SCALE;
    if amount < per_task { bump(this, busiest, per_task).unwrap_or(amount) } else { amount }
}

/// `fix_small_imbalance`, for less than a task's load: moves one task if the groups differ that much, or if this uses
/// more of the CPUs' power.
fn bump(this: &Group, busiest: &Group, per_task: u64) -> Option<u64> {
    let here = this.load_per_task;
    // Lighter tasks here: one task of the busiest outweighs them.
    let tasks = if this.nr_running > 0 && per_task > here { 1 } else { 2 };
    let gone = per_task * SCALE / busiest.power;
    if busiest.avg_load + gone >= this.avg_load + gone * tasks {
        return Some(per_task);
    }
    let now = (busiest.power * per_task.min(busiest.avg_load) + this.power * here.min(this.avg_load)) / SCALE;
    let mut then = if busiest.avg_load > gone { busiest.power * per_task.min(busiest.avg_load - gone) } else { 0 };
    let come = (busiest.avg_load * busiest.power).min(per_task * SCALE) / this.power;
    then += this.power * here.min(this.avg_load + come);
    (then / SCALE > now).then_some(per_task)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(cpus: u64, tasks: u64) -> Group {
        Group {
            kind: if tasks > cpus { GroupType::Overloaded } else { GroupType::Other },
            avg_load: tasks * SCALE / cpus,
            power: cpus * SCALE,
            capacity: cpus,
            nr_running: tasks,
            has_room: tasks < cpus,
            idle_cpus: cpus.saturating_sub(tasks),
            weight: cpus,
            load_per_task: if tasks > 0 { SCALE } else { 0 },
            uneven: false,
            index: 0,
        }
    }

    #[test]
    fn only_from_3_17_on_a_group_with_room_is_the_busiest() {
        assert!(!busier(false, &group(4, 3), None));
        assert!(busier(false, &group(4, 5), None));
        assert!(busier(true, &group(4, 3), None));
        assert!(!busier(true, &group(4, 0), None));
        // More load, but no surplus task.
        let heavy = Group { avg_load: 9999, ..group(4, 3) };
        assert!(!busier(true, &heavy, Some(&group(4, 5))));
    }

    #[test]
    fn a_task_moves_only_if_that_helps() {
        // A CPU with two tasks, or one, beside an idle one.
        assert_eq!(bump(&group(1, 0), &group(1, 2), SCALE), Some(SCALE));
        assert_eq!(bump(&group(1, 0), &group(1, 1), SCALE), Some(SCALE));
        // Two beside one.
        assert_eq!(bump(&group(1, 1), &group(1, 1), SCALE), None);
    }
}
