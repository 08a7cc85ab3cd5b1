//! How much to move, and in which unit.

use super::domains::Domain;
use super::stats::{DomainStats, GroupStats, GroupType};
use crate::event::BalanceKind;
use crate::kernels::{Behaviour, Behaviours};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MigrationType {
    Load,
    Util,
    Task,
    Misfit,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Imbalance {
    pub(crate) migration: MigrationType,
    pub(crate) amount: u64,
}

const fn tasks(amount: u64) -> Imbalance {
    Imbalance { migration: MigrationType::Task, amount }
}

/// Twice the number of tasks by which the busier group exceeds its part.
///
/// 6.6+: groups with different numbers of cores are compared in proportion, and an idle group may take one of two
/// tasks.
fn sibling_imbalance(
    behaviours: &Behaviours,
    kind: BalanceKind,
    local: &GroupStats<'_>,
    busiest: &GroupStats<'_>,
) -> u64 {
    let (here, there) = (u64::from(local.nr_running), u64::from(busiest.nr_running));
    if !behaviours.has(Behaviour::SiblingByCores) {
        return there.saturating_sub(here);
    }
    if kind == BalanceKind::Busy || there == 0 {
        return 0;
    }
    let (cores_here, cores_there) = (u64::from(local.group.cores), u64::from(busiest.group.cores));
    if cores_here == cores_there {
        return there.saturating_sub(here);
    }
    let cross = (cores_here * there).saturating_sub(cores_there * here);
    let normalized = 2 * cross + cores_here + cores_there;
    let imbalance = normalized / (cores_here + cores_there);
    if imbalance <= 1 && here == 0 && there > 1 { 2 } else { imbalance }
}

/// Whether to spread tasks over groups, as (up to 6.4) the balancing group or (later) the busiest one prefers.
fn prefers_sibling(behaviours: &Behaviours, local: &GroupStats<'_>, busiest: &GroupStats<'_>) -> bool {
    if behaviours.has(Behaviour::SiblingOfBusiest) {
        busiest.group.prefers_sibling
    } else {
        local.group.prefers_sibling
    }
}

/// Whether and how much to move (`find_busiest_group`).
pub(crate) fn find(
    stats: &DomainStats<'_>,
    domain: &Domain,
    behaviours: &Behaviours,
    kind: BalanceKind,
) -> Option<Imbalance> {
    let busiest = stats.busiest.as_ref()?;
    let local = &stats.local;
    let average = stats.total_load * 1024 / stats.total_capacity.max(1);
    if stats.by_average {
        return find_by_average(local, busiest, domain, kind, average);
    }
    let forced = matches!(busiest.kind, GroupType::Misfit | GroupType::Imbalanced);
    if !forced {
        if local.kind > busiest.kind {
            return None;
        }
        if local.kind == GroupType::Overloaded
            && (local.avg_load >= busiest.avg_load
                || local.avg_load >= average
                || 100 * busiest.avg_load <= domain.imbalance_pct * local.avg_load)
        {
            return None;
        }
        let siblings = prefers_sibling(behaviours, local, busiest)
            && local.kind == GroupType::HasSpare
            && sibling_imbalance(behaviours, kind, local, busiest) > 1;
        if !siblings && busiest.kind != GroupType::Overloaded {
            if kind == BalanceKind::Busy {
                return None;
            }
            // A CPU with its own core may pull from one that shares its core.
            let separates = busiest.kind == GroupType::SmtBalance && local.group.smt != busiest.group.smt;
            let settled =
                (busiest.group.weight > 1 && local.idle_cpus <= busiest.idle_cpus + 1) || busiest.h_nr_running == 1;
            if settled && !separates {
                return None;
            }
        }
    }
    let imbalance = calculate(stats, busiest, domain, behaviours, kind, average);
    (imbalance.amount > 0).then_some(imbalance)
}

/// By load alone, as partly before 5.5, ignoring idle CPUs: one heavy task makes its group look as busy as several
/// light tasks (`OLD_GROUP_AVG`).
fn find_by_average(
    local: &GroupStats<'_>,
    busiest: &GroupStats<'_>,
    domain: &Domain,
    kind: BalanceKind,
    average: u64,
) -> Option<Imbalance> {
    let (here, there) = (local.avg_load, busiest.avg_load);
    if here >= there || here >= average {
        return None;
    }
    // A busy CPU requires a difference worth the move.
    if kind == BalanceKind::Busy && 100 * there <= domain.imbalance_pct * here {
        return None;
    }
    let from = there.saturating_sub(average) * busiest.capacity;
    let amount = from.min((average - here) * local.capacity) / 1024;
    (amount > 0).then_some(Imbalance { migration: MigrationType::Load, amount })
}

/// Whether NUMA nodes may differ by this, twice the amount to move, so that a communicating pair stays on its node
/// while there is room.
fn numa_allows(
    behaviours: &Behaviours,
    domain: &Domain,
    local: &GroupStats<'_>,
    busiest: &GroupStats<'_>,
    difference: u64,
) -> bool {
    if behaviours.has(Behaviour::NumaByCaches) {
        return local.nr_running < domain.imb_numa_nr && difference <= 2;
    }
    if behaviours.has(Behaviour::NumaQuarter) {
        return busiest.nr_running < busiest.group.weight / 4 && difference >> 1 <= 2;
    }
    behaviours.has(Behaviour::NumaPair) && busiest.nr_running <= 2
}

fn calculate(
    stats: &DomainStats<'_>,
    busiest: &GroupStats<'_>,
    domain: &Domain,
    behaviours: &Behaviours,
    kind: BalanceKind,
    average: u64,
) -> Imbalance {
    let local = &stats.local;
    match busiest.kind {
        GroupType::Misfit if domain.asym_capacity => {
            return Imbalance { migration: MigrationType::Misfit, amount: 1 };
        }
        // A lone task beside real-time ones.
        GroupType::Misfit => return Imbalance { migration: MigrationType::Load, amount: busiest.misfit },
        // One task less on that core. With affinity, whatever can move.
        GroupType::SmtBalance | GroupType::Imbalanced => return tasks(1),
        _ => {}
    }
    if local.kind == GroupType::HasSpare {
        if busiest.kind > GroupType::FullyBusy && !domain.share_llc {
            // Fill up the spare capacity here.
            let amount = local.capacity.max(local.util) - local.util;
            if kind != BalanceKind::Busy && amount == 0 {
                return tasks(1);
            }
            return Imbalance { migration: MigrationType::Util, amount };
        }
        let difference = if busiest.group.weight == 1 || prefers_sibling(behaviours, local, busiest) {
            sibling_imbalance(behaviours, kind, local, busiest)
        } else {
            u64::from(local.idle_cpus.saturating_sub(busiest.idle_cpus))
        };
        let stays = domain.serialize && numa_allows(behaviours, domain, local, busiest, difference);
        return tasks(if stays { 0 } else { difference >> 1 });
    }
    // No room here either: even the load out.
    let here =
        if local.kind == GroupType::Overloaded { local.avg_load } else { local.load * 1024 / local.capacity.max(1) };
    if here >= busiest.avg_load || here >= average {
        return tasks(0);
    }
    let to = (average - here) * local.capacity;
    // The busiest may be below the average, which a CPU with one heavy task raises. As in the kernel, the unsigned
    // difference then wraps and sets no bound, which keeps tasks rotating and their shares fair.
    let from = match busiest.avg_load.checked_sub(average) {
        Some(excess) => excess * busiest.capacity,
        None => u64::MAX,
    };
    Imbalance { migration: MigrationType::Load, amount: from.min(to) / 1024 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::domains::Domains;
    use crate::features::Features;
    use crate::ids::CpuId;
    use crate::topology::{CpuPlace, Topology};

    /// Returns a package of eight cores and one of two, each with its own cache.
    fn machine() -> Domains {
        let place = |core: u32| {
            let package = u32::from(core >= 8);
            CpuPlace { core, cluster: core, llc: package, package, node: 0, capacity: 1024 }
        };
        Domains::new(
            &Topology::new((0..10).map(place).collect(), None).unwrap(),
            Behaviours::at("6.12"),
            Features::default(),
        )
    }

    fn stats(domain: &Domain, cpu: u32, kind: GroupType, tasks: u32) -> GroupStats<'_> {
        let group = domain.groups.iter().find(|group| group.mask.contains(CpuId(cpu))).unwrap();
        GroupStats { load: u64::from(tasks) * 1024, ..GroupStats::example(group, kind, tasks) }
    }

    /// 6.6+: in proportion to cores, but an idle group takes one of two. Before: equal numbers.
    #[test]
    fn bigger_groups_have_more_tasks() {
        let domains = machine();
        let domain = domains.at(CpuId(0), 1).unwrap();
        let difference = |release, kind, (cpu, here): (u32, u32), there: u32| {
            let room = GroupType::HasSpare;
            let (local, busiest) = (stats(domain, cpu, room, here), stats(domain, 9 - cpu, room, there));
            sibling_imbalance(&Behaviours::at(release), kind, &local, &busiest)
        };
        let (big, small) = (|tasks| (0, tasks), |tasks| (9, tasks));
        let idle = |cpu, there| difference("6.12", BalanceKind::Idle, cpu, there);
        // Two to eight is proportionate; half of the result moves, so 1 is nothing.
        assert_eq!([idle(big(8), 2), idle(small(2), 8), idle(small(1), 4)], [1; 3]);
        assert_eq!([idle(big(3), 2), idle(small(0), 8), idle(small(0), 3)], [3, 4, 2]);
        assert_eq!([idle(small(0), 2), idle(small(0), 1), idle(small(0), 0)], [2, 1, 0]);
        assert_eq!(difference("6.12", BalanceKind::Busy, small(0), 4), 0);
        assert_eq!(difference("6.1", BalanceKind::Busy, small(1), 4), 3);
    }

    /// Returns the imbalance between only these two groups.
    fn found(domain: &Domain, kind: BalanceKind, local: GroupStats<'_>, busiest: GroupStats<'_>) -> Option<Imbalance> {
        let seen = DomainStats {
            local,
            busiest: Some(busiest),
            total_load: local.load + busiest.load,
            total_capacity: local.capacity + busiest.capacity,
            overloaded_cpu: false,
            by_average: false,
        };
        find(&seen, domain, &Behaviours::at("6.12"), kind)
    }

    /// Between caches, a group with room takes tasks from a full group, and utilisation only from an overloaded one. A
    /// lone ordinary task stays.
    #[test]
    fn a_group_with_room_takes_tasks_or_utilisation() {
        let domains = machine();
        let domain = domains.at(CpuId(0), 1).unwrap();
        let room = stats(domain, 0, GroupType::HasSpare, 0);
        let (full, crowded) = (stats(domain, 9, GroupType::FullyBusy, 2), stats(domain, 9, GroupType::Overloaded, 4));
        assert_eq!(found(domain, BalanceKind::Idle, room, full), Some(tasks(2)));
        assert_eq!(found(domain, BalanceKind::Busy, room, full), None);
        let util = Imbalance { migration: MigrationType::Util, amount: 8 * 1024 - 100 };
        assert_eq!(found(domain, BalanceKind::Busy, GroupStats { util: 100, ..room }, crowded), Some(util));
        let used = GroupStats { util: 8 * 1024, ..room };
        assert_eq!(found(domain, BalanceKind::Idle, used, crowded), Some(tasks(1)));
        assert_eq!(found(domain, BalanceKind::Busy, used, crowded), None);
    }

    /// `adjust_numa_imbalance`: an eighth of a node of 32 CPUs is filled first. So a pair stays, a third task does not.
    #[test]
    fn a_pair_stays_on_its_node_while_there_is_room() {
        let place = |cpu: u32| {
            let node = cpu / 32;
            CpuPlace { core: cpu, cluster: cpu, llc: node, package: node, node, capacity: 1024 }
        };
        let topology = Topology::new((0..64).map(place).collect(), None).unwrap();
        let domains = Domains::new(&topology, Behaviours::at("6.12"), Features::default());
        let (_, domain) = domains.of(CpuId(0)).next_back().unwrap();
        assert!(domain.serialize && domain.imb_numa_nr == 4);
        let moves = |here: u32, there: u32| {
            let of = |cpu, tasks| stats(domain, cpu, GroupType::HasSpare, tasks);
            found(domain, BalanceKind::Idle, of(0, here), of(32, there)).map_or(0, |imbalance| imbalance.amount)
        };
        assert_eq!([moves(0, 2), moves(0, 3), moves(3, 5), moves(3, 6), moves(4, 6)], [0, 1, 0, 1, 1]);
    }
}
