//! Scheduling domains: the levels of a machine at which load is balanced, and the groups balanced between.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

mod build;
mod numbers;

use self::build::{Builder, last_level_caches, levels, own_groups, tolerate, use_sums};
use super::LlcShared;
use super::roots::Roots;
use crate::cpumask::CpuMask;
use crate::features::Features;
use crate::ids::CpuId;
use crate::kernels::Behaviours;
use crate::policy::Policy;
use crate::shared::Shared;
use crate::topology::Topology;

/// What the CPUs of a domain have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// One core's threads.
    Smt,
    /// A mid-level cache.
    Cluster,
    /// A last-level cache.
    Mc,
    /// A package.
    Pkg,
    /// NUMA nodes within a distance; the number counts distances.
    Numa(u8),
}

impl Level {
    /// The kernel's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Smt => "SMT",
            Self::Cluster => "CLS",
            Self::Mc => "MC",
            Self::Pkg => "PKG",
            Self::Numa(_) => "NUMA",
        }
    }
}

/// A scheduling domain as an observer sees it.
#[derive(Clone, Debug)]
pub struct DomainView<'a> {
    /// What its CPUs have in common.
    pub level: Level,
    /// Its CPUs.
    pub span: &'a CpuMask,
    /// The CPUs that balance here: fewer than `span` where NUMA nodes each have their own view.
    pub members: CpuMask,
    /// The groups balanced between.
    pub groups: Vec<&'a CpuMask>,
    /// The longest time between two balancing passes of an idle CPU, nanoseconds (`max_interval`).
    pub interval_ns: u64,
}

/// What a group's numbers are added up from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Last-level caches of consecutive numbers all of whose CPUs are in the group, by their [sums](sums).
    Caches(Range<u32>),
    /// CPUs of consecutive numbers, each by what it publishes.
    Cpus(Range<u32>),
}

/// CPUs that are balanced as one.
//
// In this order in memory: what every look at a group reads comes first, in one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct SchedGroup {
    /// The first of its parts, mostly the only one.
    pub(crate) part: Part,
    /// How many CPUs.
    pub(crate) weight: u32,
    /// The other parts.
    pub(crate) more_parts: Box<[Part]>,
    /// Sum of the CPUs' capacities.
    pub(crate) capacity: u64,
    /// `imbalance`, if the group is in several domains.
    shared_imbalance: Option<Arc<AtomicBool>>,
    /// Load could not be moved for the affinity of tasks here: the level above should help.
    imbalance: AtomicBool,
    /// It is a core of several CPUs (`SD_SHARE_CPUCAPACITY`).
    pub(crate) smt: bool,
    /// Balancing spreads its tasks over its siblings (`SD_PREFER_SIBLING`).
    pub(crate) prefers_sibling: bool,
    /// How many cores.
    pub(crate) cores: u32,
    pub(crate) cpus: Vec<CpuId>,
    /// The CPUs that balance for it, if not all: those to which the group is their own (`group_balance_mask`).
    balancers: Option<Vec<CpuId>>,
    pub(crate) mask: CpuMask,
    pub(crate) min_capacity: u64,
    pub(crate) max_capacity: u64,
}

/// Ascending numbers as runs of consecutive ones.
fn runs(numbers: &[u32]) -> impl Iterator<Item = Range<u32>> {
    let consecutive = numbers.chunk_by(|a, b| a + 1 == *b);
    consecutive.map(|run| run[0]..run[0] + run.len() as u32)
}

impl SchedGroup {
    fn new(topology: &Topology, cpus: Vec<CpuId>) -> Self {
        let capacity = |cpu: &CpuId| u64::from(topology.place(*cpu).capacity);
        let numbers: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
        let cores = cpus.iter().map(|&cpu| topology.place(cpu).core).collect::<BTreeSet<u32>>().len();
        let mut group = Self {
            part: Part::Cpus(0..0),
            more_parts: Box::default(),
            weight: cpus.len() as u32,
            smt: cores == 1 && cpus.len() > 1,
            prefers_sibling: false,
            cores: cores as u32,
            capacity: cpus.iter().map(capacity).sum(),
            min_capacity: cpus.iter().map(capacity).min().unwrap_or(1024),
            max_capacity: cpus.iter().map(capacity).max().unwrap_or(1024),
            mask: cpus.iter().copied().collect(),
            cpus,
            balancers: None,
            imbalance: AtomicBool::new(false),
            shared_imbalance: None,
        };
        group.set_parts(&[], &numbers);
        group
    }

    /// Its numbers are added up from those of `caches` and `cpus`, both ascending.
    fn set_parts(&mut self, caches: &[u32], cpus: &[u32]) {
        let mut parts = runs(caches).map(Part::Caches).chain(runs(cpus).map(Part::Cpus));
        self.part = parts.next().unwrap_or(Part::Cpus(0..0));
        self.more_parts = parts.collect();
    }

    /// Load could not be moved for the affinity of tasks here: the level above should help.
    #[inline]
    pub(crate) fn imbalance(&self) -> &AtomicBool {
        self.shared_imbalance.as_deref().unwrap_or(&self.imbalance)
    }

    /// The CPUs that balance for the group. Where groups overlap, a CPU balances only for the one built around it.
    #[inline]
    pub(crate) fn balancers(&self) -> &[CpuId] {
        self.balancers.as_deref().unwrap_or(&self.cpus)
    }

    /// Has the sums of caches used instead of their CPUs. `llc` has each CPU's cache, `llc_size` each cache's CPUs.
    fn use_sums(&mut self, llc: &[u32], llc_size: &[u32]) {
        let mut here: BTreeMap<u32, u32> = BTreeMap::new();
        for cpu in &self.cpus {
            *here.entry(llc[cpu.index()]).or_insert(0) += 1;
        }
        here.retain(|&id, count| *count == llc_size[id as usize]);
        let caches: Vec<u32> = here.keys().copied().collect();
        let others = self.cpus.iter().filter(|cpu| !here.contains_key(&llc[cpu.index()]));
        let others: Vec<u32> = others.map(|cpu| cpu.0).collect();
        self.set_parts(&caches, &others);
    }

    /// What the classes above the fair one leave of the CPUs' capacities.
    #[inline]
    pub(crate) fn capacity_of<P: Policy>(&self, shared: &Shared<P>) -> u64 {
        if !shared.pressed() {
            return self.capacity;
        }
        self.cpus.iter().map(|&cpu| u64::from(shared.cpu(cpu).capacity_of())).sum()
    }

    /// The least and the most that is left of one of the CPUs.
    pub(crate) fn capacity_range<P: Policy>(&self, shared: &Shared<P>) -> (u64, u64) {
        if !shared.pressed() {
            return (self.min_capacity, self.max_capacity);
        }
        let each = self.cpus.iter().map(|&cpu| u64::from(shared.cpu(cpu).capacity_of()));
        each.fold((u64::MAX, 0), |(least, most), left| (least.min(left), most.max(left)))
    }
}

/// A level of one or more CPUs' hierarchy.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // independent flags, as the kernel's SD_* bits
pub(crate) struct Domain {
    pub(crate) level: Level,
    pub(crate) span: CpuMask,
    pub(crate) weight: u32,
    pub(crate) groups: Vec<SchedGroup>,
    pub(crate) imbalance_pct: u64,
    /// Nanoseconds between two balancing passes of an idle CPU.
    pub(crate) min_interval: u64,
    /// The same, at most.
    pub(crate) max_interval: u64,
    /// The factor by which a busy CPU balances less often.
    pub(crate) busy_factor: u64,
    pub(crate) cache_nice_tries: u32,
    /// The CPUs share a last-level cache.
    pub(crate) share_llc: bool,
    /// Its CPUs are of different capacities.
    pub(crate) asym_capacity: bool,
    /// It has CPUs of every capacity there is.
    pub(crate) asym_capacity_full: bool,
    /// Only one CPU of the machine balances here at a time.
    pub(crate) serialize: bool,
    /// Its nodes are farther from each other than `RECLAIM_DISTANCE`.
    pub(crate) far: bool,
    /// The number of tasks in a group up to which a difference of two between NUMA nodes is ignored (`imb_numa_nr`).
    pub(crate) imb_numa_nr: u32,
    /// How many CPUs of its level are online there but in other root domains, or isolated.
    pub(crate) cut_off: u32,
}

/// Every domain of the machine, and each CPU's own from the lowest up.
#[derive(Debug)]
pub struct Domains {
    /// What they were built for.
    roots: Roots,
    /// Domains of several NUMA nodes are left out (`OLD_LOST_DOMAINS`).
    lost: bool,
    /// What the CPUs of each last-level cache share.
    pub(crate) llcs: Vec<LlcShared>,
    all: Vec<Domain>,
    chains: Vec<Vec<u32>>,
    /// For each entry of `chains` the index of the group the CPU is in.
    own_groups: Vec<Vec<u32>>,
    llc: Vec<u32>,
    llc_domain: Vec<Option<u32>>,
    llc_size: Vec<u32>,
    smt: bool,
    asym: bool,
}

/// How many domains a CPU of a machine can have at most, whichever CPUs are online.
pub(crate) fn most_levels(topology: &Topology) -> usize {
    4 + topology.distances().len().saturating_sub(1)
}

impl Domains {
    /// The domains of a machine all of whose CPUs are online.
    pub fn new(topology: &Topology, behaviours: Behaviours, features: Features) -> Self {
        Self::of_roots(topology, behaviours, features, Roots::whole(topology.nr_cpus()), false)
    }

    /// The domains of the CPUs that are there, within each root domain; `lost`: those of several NUMA nodes are left
    /// out.
    pub(crate) fn of_roots(
        topology: &Topology,
        behaviours: Behaviours,
        features: Features,
        roots: Roots,
        lost: bool,
    ) -> Self {
        let mut builder = Builder::new(topology, behaviours, features, &roots);
        for (level, span_of) in levels(topology, lost) {
            builder.add(level, &*span_of);
        }
        let Builder { mut all, chains, .. } = builder;
        tolerate(topology, &roots, &mut all, &chains);
        let own_groups = chains.iter().enumerate().map(|(cpu, chain)| own_groups(&all, cpu, chain)).collect();
        let llc_domain =
            chains.iter().map(|chain| chain.iter().rev().copied().find(|&id| all[id as usize].share_llc)).collect();
        use_sums(topology, &mut all);
        let (llc, llc_size) = last_level_caches(topology, &roots);
        Self {
            lost,
            llcs: LlcShared::fresh(llc_size.len()),
            smt: all.iter().any(|domain| domain.level == Level::Smt),
            asym: all.iter().any(|domain| domain.asym_capacity),
            all,
            chains,
            own_groups,
            llc,
            llc_domain,
            llc_size,
            roots,
        }
    }

    /// What they were built for.
    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Whether they were built for that.
    pub(crate) fn is_of(&self, roots: &Roots, lost: bool) -> bool {
        self.roots == *roots && self.lost == lost
    }

    /// Forgets what balancing has noted, as if they had just been built.
    pub(crate) fn renew(&self) {
        for group in self.all.iter().flat_map(|domain| &domain.groups) {
            group.imbalance().store(false, Relaxed);
        }
        for llc in &self.llcs {
            llc.has_idle_cores.store(false, Relaxed);
            llc.nr_idle_scan.store(0, Relaxed);
        }
    }

    /// Sets the state of a machine that has been up and idle for a while: the search for an idle CPU is not limited.
    /// Domains that are built later start with 0, as after a boot.
    pub(crate) fn has_been_idle(&self) {
        for (llc, &size) in self.llcs.iter().zip(&self.llc_size) {
            llc.nr_idle_scan.store(size, Relaxed);
        }
    }

    /// Which last-level cache a CPU has, counted from 0.
    #[inline]
    pub(crate) fn llc(&self, cpu: CpuId) -> usize {
        self.llc[cpu.index()] as usize
    }

    /// How many CPUs share the cache of `cpu`.
    #[inline]
    pub(crate) fn llc_size(&self, cpu: CpuId) -> u32 {
        self.llc_size[self.llc(cpu)]
    }

    #[inline]
    pub(crate) fn share_cache(&self, a: CpuId, b: CpuId) -> bool {
        self.llc[a.index()] == self.llc[b.index()]
    }

    /// The highest domain of a CPU whose members share a cache.
    #[inline]
    pub(crate) fn llc_domain(&self, cpu: CpuId) -> Option<&Domain> {
        self.llc_domain[cpu.index()].map(|id| &self.all[id as usize])
    }

    /// Whether cores have several threads.
    #[inline]
    pub(crate) fn smt(&self) -> bool {
        self.smt
    }

    /// Whether CPUs are of different capacities.
    #[inline]
    pub(crate) fn asym(&self) -> bool {
        self.asym
    }

    /// The lowest domain of a CPU that has CPUs of every capacity of the machine (`sd_asym_cpucapacity`).
    pub(crate) fn asym_domain(&self, cpu: CpuId) -> Option<&Domain> {
        self.of(cpu).map(|(_, domain)| domain).find(|domain| domain.asym_capacity_full)
    }

    /// A CPU's domains with their ids, from the lowest up.
    #[inline]
    pub(crate) fn of(&self, cpu: CpuId) -> impl DoubleEndedIterator<Item = (u32, &Domain)> + Clone {
        self.chains[cpu.index()].iter().map(|&id| (id, &self.all[id as usize]))
    }

    /// Those within which a task is placed that wakes, forks or execs, from the lowest up.
    #[inline]
    pub(crate) fn near(&self, cpu: CpuId) -> impl DoubleEndedIterator<Item = &Domain> {
        self.of(cpu).map(|(_, domain)| domain).filter(|domain| !domain.far)
    }

    /// The domain of a CPU at a position in its hierarchy.
    #[inline]
    pub(crate) fn at(&self, cpu: CpuId, position: usize) -> Option<&Domain> {
        self.chains[cpu.index()].get(position).map(|&id| &self.all[id as usize])
    }

    /// The index of the group a CPU is in, in its domain at a position in its hierarchy.
    #[inline]
    pub(crate) fn own_group(&self, cpu: CpuId, position: usize) -> Option<usize> {
        self.own_groups[cpu.index()].get(position).map(|&group| group as usize)
    }

    /// The threads of a CPU's core, itself included; none without SMT.
    #[inline]
    pub(crate) fn smt_siblings(&self, cpu: CpuId) -> Option<&CpuMask> {
        let &id = self.chains[cpu.index()].first()?;
        let domain = &self.all[id as usize];
        (domain.level == Level::Smt).then_some(&domain.span)
    }

    /// The CPUs that share a cache with `cpu` below the last-level one, if the machine has such clusters.
    #[inline]
    pub(crate) fn cluster(&self, cpu: CpuId) -> Option<&CpuMask> {
        let cluster = self.of(cpu).map(|(_, domain)| domain).find(|domain| domain.level == Level::Cluster);
        cluster.map(|domain| &domain.span)
    }

    /// Every domain of the machine, those of a lower level first.
    pub fn views(&self) -> impl Iterator<Item = DomainView<'_>> {
        let mut members = alloc::vec![CpuMask::with_capacity(self.chains.len()); self.all.len()];
        for (cpu, chain) in self.chains.iter().enumerate() {
            for &id in chain {
                members[id as usize].insert(CpuId(cpu as u32));
            }
        }
        self.all.iter().zip(members).map(|(domain, members)| DomainView {
            level: domain.level,
            span: &domain.span,
            members,
            groups: domain.groups.iter().map(|group| &group.mask).collect(),
            interval_ns: domain.max_interval,
        })
    }

    /// Names and sizes of a CPU's domains, from the lowest up, as people print them.
    pub fn describe(&self, cpu: CpuId) -> Vec<(Level, u32)> {
        self.of(cpu).map(|(_, domain)| (domain.level, domain.weight)).collect()
    }
}

#[cfg(test)]
mod tests;
