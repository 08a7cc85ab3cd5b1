//! Statistics of a domain's groups.

use core::sync::atomic::Ordering::Relaxed;

use super::domains::{Domain, Domains, SchedGroup};
use super::idle::siblings_are_idle;
use super::sums::Sums;
use crate::capacity::capacity_greater;
use crate::cpumask::CpuMask;
use crate::event::BalanceKind;
use crate::features::Feature;
use crate::ids::CpuId;
use crate::kernels::{Behaviour, Behaviours};
use crate::policy::Policy;
use crate::shared::{Published, Shared};

/// How pressed a group is, in ascending order (`group_type`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum GroupType {
    HasSpare,
    /// Full, but tasks do not compete.
    FullyBusy,
    Misfit,
    /// 6.6+: a core with several busy CPUs, seen from an idle CPU.
    SmtBalance,
    Imbalanced,
    Overloaded,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupStats<'a> {
    pub(crate) group: &'a SchedGroup,
    pub(crate) kind: GroupType,
    pub(crate) load: u64,
    pub(crate) util: u64,
    pub(crate) runnable: u64,
    pub(crate) nr_running: u32,
    pub(crate) h_nr_running: u32,
    pub(crate) idle_cpus: u32,
    pub(crate) capacity: u64,
    pub(crate) misfit: u64,
    /// Load per capacity, of 1024; only if overloaded, or where nothing else is compared.
    pub(crate) avg_load: u64,
    pub(crate) overloaded_cpu: bool,
}

impl<'a> GroupStats<'a> {
    #[inline(never)]
    fn of<P: Policy>(shared: &Shared<P>, group: &'a SchedGroup, domain: &Domain, excluded: &CpuMask) -> Self {
        let counts = |cpu: CpuId| !excluded.contains(cpu);
        let sums =
            if excluded.is_empty() { Sums::of_group(shared, group) } else { Sums::of_some(shared, group, counts) };
        let mut stats = Self::of_sums(shared, group, sums);
        stats.sort(domain);
        stats
    }

    /// Returns a group's sums, unclassified.
    #[inline]
    pub(crate) fn of_sums<P: Policy>(shared: &Shared<P>, group: &'a SchedGroup, sums: Sums) -> Self {
        Self {
            group,
            kind: GroupType::HasSpare,
            load: sums.load,
            util: sums.util,
            runnable: sums.runnable,
            nr_running: sums.nr_running(),
            h_nr_running: sums.h_nr_running(),
            idle_cpus: sums.idle_cpus(),
            capacity: group.capacity_of(shared),
            misfit: 0,
            avg_load: 0,
            overloaded_cpu: sums.overloaded_cpus() > 0,
        }
    }

    fn sort(&mut self, domain: &Domain) {
        self.kind = self.classify(domain.imbalance_pct);
        if self.kind == GroupType::Overloaded {
            self.avg_load = self.load_per_capacity();
        }
    }

    pub(crate) fn load_per_capacity(&self) -> u64 {
        self.load * 1024 / self.capacity.max(1)
    }

    /// Notes the highest load of a task that does not fit its CPU. An idle CPU has none.
    fn find_misfit<P: Policy>(&mut self, shared: &Shared<P>, domain: &Domain, excluded: &CpuMask) {
        let counted = self.group.cpus.iter().filter(|&&cpu| !excluded.contains(cpu)).map(|&cpu| shared.cpu(cpu));
        let loads = counted.filter(|cpu| !cpu.is_idle()).map(Published::misfit_task_load);
        self.misfit = loads.max().unwrap_or(0);
        if self.misfit > 0 {
            self.overloaded_cpu = true;
            self.sort(domain);
        }
    }

    /// Returns the group's type (`group_classify`).
    pub(crate) fn classify(&self, pct: u64) -> GroupType {
        let overloaded = self.nr_running > self.group.weight
            && (self.capacity * 100 < self.util * pct || self.capacity * pct < self.runnable * 100);
        if overloaded {
            return GroupType::Overloaded;
        }
        if self.group.imbalance().load(Relaxed) {
            return GroupType::Imbalanced;
        }
        if self.misfit > 0 {
            return GroupType::Misfit;
        }
        let has_capacity = self.nr_running < self.group.weight
            || (self.capacity * pct >= self.runnable * 100 && self.capacity * 100 > self.util * pct);
        if has_capacity { GroupType::HasSpare } else { GroupType::FullyBusy }
    }

    fn busier_than(&self, busiest: &Self, behaviours: &Behaviours) -> bool {
        if self.kind != busiest.kind {
            return self.kind > busiest.kind;
        }
        let has_less_room = || {
            self.idle_cpus < busiest.idle_cpus
                || (self.idle_cpus == busiest.idle_cpus && self.nr_running > busiest.nr_running)
        };
        match self.kind {
            GroupType::Overloaded => self.avg_load > busiest.avg_load,
            GroupType::Imbalanced => false,
            // Up to 6.8 the last of equals.
            GroupType::Misfit if !behaviours.has(Behaviour::MisfitFirst) => self.misfit >= busiest.misfit,
            GroupType::Misfit => self.misfit > busiest.misfit,
            GroupType::SmtBalance if self.idle_cpus != 0 || busiest.idle_cpus != 0 => has_less_room(),
            // Up to 6.4 the first of equals, since then the last, or the first core of several CPUs.
            GroupType::SmtBalance | GroupType::FullyBusy => {
                behaviours.has(Behaviour::FullyBusySmt) && !busiest.group.smt
            }
            // Prefer a CPU with its own core to a core with one busy CPU, which would become idle.
            GroupType::HasSpare if behaviours.has(Behaviour::SpareCore) && self.group.smt != busiest.group.smt => {
                !self.group.smt || self.h_nr_running > 1
            }
            GroupType::HasSpare => has_less_room(),
        }
    }
}

/// A domain as seen by one of its CPUs.
pub(crate) struct DomainStats<'a> {
    pub(crate) local: GroupStats<'a>,
    pub(crate) busiest: Option<GroupStats<'a>>,
    pub(crate) total_load: u64,
    pub(crate) total_capacity: u64,
    pub(crate) overloaded_cpu: bool,
    /// Whether groups are compared by average load alone (`OLD_GROUP_AVG`).
    pub(crate) by_average: bool,
}

impl<'a> DomainStats<'a> {
    /// `here` is the group of `cpu`. CPUs in `excluded` count as empty: nothing can be pulled from them.
    pub(crate) fn of<P: Policy>(
        shared: &Shared<P>,
        domain: &'a Domain,
        here: usize,
        cpu: CpuId,
        kind: BalanceKind,
        excluded: &CpuMask,
    ) -> Self {
        let reduced = shared.config.has(Behaviour::ReducedIsMisfit);
        let squeezes = reduced && kind != BalanceKind::Busy && shared.pressed() && !domain.asym_capacity;
        let by_average = shared.config.features.has(Feature::OldGroupAvg);
        let separates = kind != BalanceKind::Busy && shared.config.has(Behaviour::SmtBalance) && shared.domains.smt();
        let mut local = GroupStats::of(shared, &domain.groups[here], domain, excluded);
        if by_average {
            local.avg_load = local.load_per_capacity();
        }
        let mut stats = Self {
            local,
            busiest: None,
            total_load: local.load,
            total_capacity: local.capacity,
            overloaded_cpu: local.overloaded_cpu,
            by_average,
        };
        let mut util = local.util;
        let (before, after) = domain.groups.split_at(here);
        for group in after.iter().skip(1).chain(before) {
            let mut found = GroupStats::of(shared, group, domain, excluded);
            if domain.asym_capacity {
                found.find_misfit(shared, domain, excluded);
            }
            if squeezes && found.kind < GroupType::Misfit {
                found.misfit = squeezed(shared, group, domain);
                if found.misfit > 0 {
                    found.kind = GroupType::Misfit;
                }
            }
            if separates && group.smt && found.h_nr_running > 1 {
                found.kind = found.kind.max(GroupType::SmtBalance);
            }
            stats.total_load += found.load;
            stats.total_capacity += found.capacity;
            stats.overloaded_cpu |= found.overloaded_cpu;
            util += found.util;
            if found.h_nr_running == 0 {
                continue;
            }
            if by_average {
                found.avg_load = found.load_per_capacity();
            }
            let busier = stats.busiest.as_ref().is_none_or(|busiest| {
                if by_average {
                    found.avg_load > busiest.avg_load
                } else {
                    found.busier_than(busiest, &shared.config.behaviours)
                }
            });
            if busier && !(domain.asym_capacity && stats.beyond_help(shared, &found, cpu)) {
                stats.busiest = Some(found);
            }
        }
        if domain.share_llc && kind != BalanceKind::NewIdle && shared.domains.llc_size(cpu) == domain.weight {
            update_idle_scan(shared, domain, cpu, util);
        }
        stats
    }
}

impl DomainStats<'_> {
    pub(crate) fn finds_misfit(&self) -> bool {
        self.busiest.as_ref().is_some_and(|busiest| busiest.kind == GroupType::Misfit)
    }

    /// With different capacities: `cpu` cannot, or should not, relieve `found`.
    fn beyond_help<P: Policy>(&self, shared: &Shared<P>, found: &GroupStats<'_>, cpu: CpuId) -> bool {
        let own = u64::from(shared.cpu(cpu).capacity_of());
        let (least, most) = found.group.capacity_range(shared);
        let spares = shared.config.has(Behaviour::SparesBigCpus);
        match found.kind {
            // This CPU is no bigger, or busy, or shares its core.
            GroupType::Misfit => {
                !capacity_greater(own, most)
                    || self.local.kind != GroupType::HasSpare
                    || (spares && !siblings_are_idle(shared, cpu))
            }
            // Tasks do not compete there, and would be slower here.
            GroupType::HasSpare | GroupType::FullyBusy => {
                (spares || self.compares_with_busiest(found)) && capacity_greater(least, own)
            }
            GroupType::SmtBalance | GroupType::Imbalanced | GroupType::Overloaded => false,
        }
    }

    /// Whether the busiest's rule applies to a group: not more pressed, and both or neither have SMT.
    fn compares_with_busiest(&self, found: &GroupStats<'_>) -> bool {
        let Some(busiest) = &self.busiest else { return found.kind == GroupType::HasSpare };
        found.kind == busiest.kind && (found.kind != GroupType::HasSpare || found.group.smt == busiest.group.smt)
    }
}

/// Whether higher classes noticeably reduce a CPU (`check_cpu_capacity`).
pub(crate) fn is_reduced(cpu: &Published, imbalance_pct: u64) -> bool {
    u64::from(cpu.capacity_of()) * imbalance_pct < u64::from(cpu.capacity()) * 100
}

/// Highest load of a lone fair task beside real-time ones, which an idle CPU would serve better.
fn squeezed<P: Policy>(shared: &Shared<P>, group: &SchedGroup, domain: &Domain) -> u64 {
    let cpus = group.cpus.iter().map(|&cpu| shared.cpu(cpu));
    let lone = cpus.filter(|cpu| cpu.h_nr_running() == 1 && is_reduced(cpu, domain.imbalance_pct));
    lone.map(|cpu| cpu.load().max(1)).max().unwrap_or(0)
}

/// Sets how many CPUs a search for an idle one checks: many if the cache is little used, 0 if full.
fn update_idle_scan<P: Policy>(shared: &Shared<P>, domain: &Domain, cpu: CpuId, sum_util: u64) {
    let weight = u64::from(domain.weight);
    let mean = sum_util / weight;
    let pressed = (mean * mean * domain.imbalance_pct * domain.imbalance_pct / (10_000 * 1024)).min(1024);
    let scan = (1024 - pressed) * weight / 1024;
    let domains: &Domains = &shared.domains;
    domains.llcs[domains.llc(cpu)].nr_idle_scan.store(scan as u32, Relaxed);
}

#[cfg(test)]
impl<'a> GroupStats<'a> {
    pub(crate) fn example(group: &'a SchedGroup, kind: GroupType, nr_running: u32) -> Self {
        Self {
            group,
            kind,
            load: 0,
            util: 0,
            runnable: 0,
            nr_running,
            h_nr_running: nr_running,
            idle_cpus: group.weight.saturating_sub(nr_running),
            capacity: group.capacity,
            misfit: 0,
            avg_load: 0,
            overloaded_cpu: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::class::fair::Eevdf;
    use crate::features::Features;
    use crate::topology::{CpuPlace, Topology};

    /// Returns a core of two threads and two single-threaded ones, in one cache.
    fn machine() -> Domains {
        let place = |core| CpuPlace { core, cluster: core, llc: 0, package: 0, node: 0, capacity: 1024 };
        let topology = Topology::new([0, 0, 1, 2].map(place).to_vec(), None).unwrap();
        Domains::new(&topology, Behaviours::at("6.12"), Features::default())
    }

    #[test]
    fn groups_know_their_cores() {
        let domains = machine();
        let groups: Vec<_> = domains.at(CpuId(0), 1).unwrap().groups.iter().collect();
        let measured: Vec<_> =
            groups.iter().map(|group| (group.weight, group.cores, group.smt, group.prefers_sibling)).collect();
        assert_eq!(measured, [(2, 1, true, true), (1, 1, false, false), (1, 1, false, false)]);
    }

    #[test]
    fn of_groups_as_pressed_as_each_other_one_is_the_busiest() {
        let domains = machine();
        let [pair, single, other] = &domains.at(CpuId(0), 1).unwrap().groups[..] else { panic!("three groups") };
        let busier = |group: &SchedGroup, than: &SchedGroup, kind, nr_running, release| {
            GroupStats::example(group, kind, nr_running)
                .busier_than(&GroupStats::example(than, kind, nr_running), &Behaviours::at(release))
        };
        let (full, spare) = (GroupType::FullyBusy, GroupType::HasSpare);
        // Of full groups the first up to 6.4, then the last; but a core of two threads is not replaced.
        assert!(!busier(other, single, full, 1, "6.1") && busier(other, single, full, 1, "6.6"));
        assert!(busier(pair, single, full, 2, "6.6") && !busier(single, pair, full, 2, "6.6"));
        // Otherwise the first of equals.
        for kind in [spare, GroupType::Imbalanced, GroupType::Overloaded] {
            assert!(!busier(other, single, kind, 1, "6.1") && !busier(other, single, kind, 1, "6.6"));
        }
        // A core of two threads with one task is left alone.
        assert!(busier(single, pair, spare, 1, "6.6") && !busier(pair, single, spare, 1, "6.6"));
        assert!(busier(pair, single, spare, 2, "6.6"));
        // Up to 6.5 such groups are not special: this one has one more idle CPU.
        assert!(!busier(pair, single, spare, 1, "6.1"));
    }

    /// Of equals the last up to 6.8, the first since then.
    #[test]
    fn of_groups_with_tasks_that_do_not_fit_the_heaviest_is_the_busiest() {
        let domains = machine();
        let [_, single, other] = &domains.at(CpuId(0), 1).unwrap().groups[..] else { panic!("three groups") };
        let busier = |misfit: u64, than: u64, release| {
            let of = |group, misfit| GroupStats { misfit, ..GroupStats::example(group, GroupType::Misfit, 1) };
            of(other, misfit).busier_than(&of(single, than), &Behaviours::at(release))
        };
        for (release, last) in [("6.1", true), ("6.8", true), ("6.9", false), ("6.12", false)] {
            assert!(busier(301, 300, release) && !busier(299, 300, release));
            assert_eq!(busier(300, 300, release), last, "{release}");
        }
    }

    /// A second task with more work than fits overloads a single CPU.
    #[test]
    fn groups_are_distinguished_at_their_limits() {
        let domains = machine();
        let [pair, single, _] = &domains.at(CpuId(0), 1).unwrap().groups[..] else { panic!("three groups") };
        let of = |group, nr_running, util, runnable| {
            let stats = GroupStats { util, runnable, ..GroupStats::example(group, GroupType::HasSpare, nr_running) };
            stats.classify(117)
        };
        // Full is 1024 / 1.17 = 875.2 of utilisation, or 1024 * 1.17 = 1198.08 of runnable time.
        assert_eq!(of(single, 0, 1024, 2048), GroupType::HasSpare, "no task runs");
        assert_eq!([1, 2].map(|tasks| of(single, tasks, 875, 1198)), [GroupType::HasSpare; 2]);
        assert_eq!([1, 2].map(|tasks| of(single, tasks, 876, 0)), [GroupType::FullyBusy, GroupType::Overloaded]);
        assert_eq!([1, 2].map(|tasks| of(single, tasks, 0, 1199)), [GroupType::FullyBusy, GroupType::Overloaded]);
        assert_eq!(
            [1, 2, 3].map(|tasks| of(pair, tasks, 1752, 0)),
            [GroupType::HasSpare, GroupType::FullyBusy, GroupType::Overloaded]
        );
    }

    fn big_and_small(kernel: &str) -> Shared<Eevdf> {
        let place = |(core, capacity)| CpuPlace { core, cluster: core, llc: 0, package: 0, node: 0, capacity };
        let topology = Topology::new((0..).zip([1024, 512, 512]).map(place).collect(), None).unwrap();
        let config = crate::config::Config::new(&crate::kernel(kernel).unwrap(), &topology, 250);
        Shared::new(topology, config)
    }

    /// 6.18 compares capacities only for groups as pressed as the busiest, and takes the first full group.
    #[test]
    fn a_small_cpu_takes_from_a_full_big_one_in_6_18() {
        for (kernel, first, then) in [("6.12", true, true), ("6.18", false, true)] {
            let shared = big_and_small(kernel);
            let domain = shared.domains.at(CpuId(0), 0).unwrap();
            let group = |cpu: u32| domain.groups.iter().find(|group| group.mask.contains(CpuId(cpu))).unwrap();
            let full = |cpu| GroupStats::example(group(cpu), GroupType::FullyBusy, 1);
            let mut seen = DomainStats {
                local: GroupStats::example(group(1), GroupType::HasSpare, 0),
                busiest: None,
                total_load: 0,
                total_capacity: 0,
                overloaded_cpu: false,
                by_average: false,
            };
            assert_eq!(seen.beyond_help(&shared, &full(0), CpuId(1)), first, "{kernel}");
            seen.busiest = Some(full(2));
            assert_eq!(seen.beyond_help(&shared, &full(0), CpuId(1)), then, "{kernel}");
            let room = GroupStats { kind: GroupType::HasSpare, ..full(0) };
            seen.busiest = None;
            assert!(seen.beyond_help(&shared, &room, CpuId(1)), "{kernel}");
        }
    }

    #[test]
    fn half_a_core_is_big_enough_in_6_18() {
        for (kernel, beyond) in [("6.12", true), ("6.18", false)] {
            let place = |(cpu, capacity): (u32, u32)| {
                let core = cpu.min(1);
                CpuPlace { core, cluster: core, llc: 0, package: 0, node: 0, capacity }
            };
            let topology = Topology::new((0..).zip([512, 1024, 1024]).map(place).collect(), None).unwrap();
            let config = crate::config::Config::new(&crate::kernel(kernel).unwrap(), &topology, 250);
            let shared: Shared<Eevdf> = Shared::new(topology, config);
            let (_, domain) = shared.domains.of(CpuId(1)).next_back().unwrap();
            let group = |cpu: u32| domain.groups.iter().find(|group| group.mask.contains(CpuId(cpu))).unwrap();
            let seen = DomainStats {
                local: GroupStats::example(group(1), GroupType::HasSpare, 1),
                busiest: None,
                total_load: 0,
                total_capacity: 0,
                overloaded_cpu: false,
                by_average: false,
            };
            let misfit = GroupStats::example(group(0), GroupType::Misfit, 1);
            assert!(!seen.beyond_help(&shared, &misfit, CpuId(1)), "{kernel}");
            shared.cpu(CpuId(2)).publish_core(1, false);
            assert_eq!(seen.beyond_help(&shared, &misfit, CpuId(1)), beyond, "{kernel}");
        }
    }

    #[test]
    fn a_small_cpu_relieves_a_bigger_one_only_if_that_is_overloaded() {
        use GroupType::{FullyBusy, HasSpare, Misfit, Overloaded};

        let shared = big_and_small("6.12");
        let domain = shared.domains.at(CpuId(0), 0).unwrap();
        let group = |cpu: u32| domain.groups.iter().find(|group| group.mask.contains(CpuId(cpu))).unwrap();
        let beyond_help = |cpu: u32, of: u32, kind| {
            let local = GroupStats::example(group(cpu), GroupType::HasSpare, 0);
            let seen = DomainStats {
                local,
                busiest: None,
                total_load: 0,
                total_capacity: 0,
                overloaded_cpu: false,
                by_average: false,
            };
            seen.beyond_help(&shared, &GroupStats::example(group(of), kind, 2), CpuId(cpu))
        };
        assert_eq!([HasSpare, FullyBusy, Overloaded].map(|kind| beyond_help(1, 0, kind)), [true, true, false]);
        assert_eq!([HasSpare, FullyBusy, Overloaded].map(|kind| beyond_help(1, 2, kind)), [false; 3]);
        assert_eq!([(0, 1), (1, 2), (1, 0)].map(|(cpu, of)| beyond_help(cpu, of, Misfit)), [false, true, true]);
    }
}
