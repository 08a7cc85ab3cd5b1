//! Scheduling domains, the levels at which a machine's load is balanced, and their groups.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};

mod build;
mod numbers;

use self::build::{Builder, last_level_caches, levels, own_groups, tolerate, use_sums};
use super::roots::Roots;
use crate::cpumask::CpuMask;
use crate::features::Features;
use crate::ids::CpuId;
use crate::kernels::{Behaviour, Behaviours};
use crate::topology::Topology;

/// What the CPUs of a domain share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// A core.
    Smt,
    /// A mid-level cache.
    Cluster,
    /// A last-level cache.
    Mc,
    /// A package.
    Pkg,
    /// NUMA nodes within a distance, by its rank.
    Numa(u8),
}

impl Level {
    /// Returns the kernel's name.
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

/// A scheduling domain for display.
#[derive(Clone, Debug)]
pub struct DomainView<'a> {
    /// Its level.
    pub level: Level,
    /// Its CPUs.
    pub span: &'a CpuMask,
    /// CPUs that balance here: fewer than `span` where NUMA nodes have their own views.
    pub members: CpuMask,
    /// Its groups.
    pub groups: Vec<&'a CpuMask>,
    /// An idle CPU's longest balancing interval, nanoseconds (`max_interval`).
    pub interval_ns: u64,
}

/// What a group sums.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Whole last-level caches with consecutive numbers, by their [sums](super::sums).
    Caches(Range<u32>),
    /// CPUs with consecutive numbers, by their published values.
    Cpus(Range<u32>),
}

/// CPUs that are balanced as one.
//
// In memory order: the first cache line has what every look at a group reads.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct SchedGroup {
    /// The first, usually only, part.
    pub(crate) part: Part,
    pub(crate) weight: u32,
    pub(crate) more_parts: Box<[Part]>,
    pub(crate) capacity: u64,
    /// `imbalance` of groups in several domains.
    shared_imbalance: Option<Arc<AtomicBool>>,
    /// Affinity prevented a move: the level above should help.
    imbalance: AtomicBool,
    /// A core of several CPUs (`SD_SHARE_CPUCAPACITY`).
    pub(crate) smt: bool,
    /// Balancing spreads its tasks over siblings (`SD_PREFER_SIBLING`).
    pub(crate) prefers_sibling: bool,
    pub(crate) cores: u32,
    pub(crate) cpus: Vec<CpuId>,
    /// CPUs that balance for it, if not all (`group_balance_mask`).
    balancers: Option<Vec<CpuId>>,
    pub(crate) mask: CpuMask,
    pub(crate) min_capacity: u64,
    pub(crate) max_capacity: u64,
}

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

    /// Sets parts, from ascending numbers.
    fn set_parts(&mut self, caches: &[u32], cpus: &[u32]) {
        let mut parts = runs(caches).map(Part::Caches).chain(runs(cpus).map(Part::Cpus));
        self.part = parts.next().unwrap_or(Part::Cpus(0..0));
        self.more_parts = parts.collect();
    }

    #[inline]
    pub(crate) fn imbalance(&self) -> &AtomicBool {
        self.shared_imbalance.as_deref().unwrap_or(&self.imbalance)
    }

    /// CPUs that balance for the group. Overlapping groups: only those around which they were built.
    #[inline]
    pub(crate) fn balancers(&self) -> &[CpuId] {
        self.balancers.as_deref().unwrap_or(&self.cpus)
    }

    /// Sums caches instead of CPUs. `llc` has each CPU's cache, `llc_size` each cache's number of CPUs.
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
}

/// A hierarchy level of one or more CPUs.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // independent flags, as the kernel's SD_* bits
pub(crate) struct Domain {
    pub(crate) level: Level,
    pub(crate) span: CpuMask,
    pub(crate) weight: u32,
    pub(crate) groups: Vec<SchedGroup>,
    pub(crate) imbalance_pct: u64,
    /// An idle CPU's shortest balancing interval, nanoseconds.
    pub(crate) min_interval: u64,
    pub(crate) max_interval: u64,
    /// By how much less often a busy CPU balances.
    pub(crate) busy_factor: u64,
    pub(crate) cache_nice_tries: u32,
    pub(crate) share_llc: bool,
    /// Its CPUs differ in capacity.
    pub(crate) asym_capacity: bool,
    /// It has every capacity of the machine.
    pub(crate) asym_capacity_full: bool,
    /// Whether only one CPU of the machine balances here at a time.
    pub(crate) serialize: bool,
    /// Its nodes are beyond `RECLAIM_DISTANCE`.
    pub(crate) far: bool,
    /// Tasks in a group up to which NUMA nodes may differ by two (`imb_numa_nr`).
    pub(crate) imb_numa_nr: u32,
    /// Online CPUs of its level that are isolated or in other root domains.
    pub(crate) cut_off: u32,
}

/// All domains, and each CPU's chain from the lowest up.
#[derive(Debug)]
pub struct Domains {
    roots: Roots,
    /// Without domains of several NUMA nodes (`OLD_LOST_DOMAINS`).
    lost: bool,
    pub(crate) llcs: Vec<LlcShared>,
    all: Vec<Domain>,
    chains: Vec<Vec<u32>>,
    /// For each entry of `chains`, the CPU's group.
    own_groups: Vec<Vec<u32>>,
    llc: Vec<u32>,
    llc_domain: Vec<Option<u32>>,
    llc_size: Vec<u32>,
    smt: bool,
    asym: bool,
}

/// Most domains of a CPU, whichever CPUs are online.
pub(crate) fn most_levels(topology: &Topology) -> usize {
    4 + topology.distances().len().saturating_sub(1)
}

impl Domains {
    /// Returns the domains with all CPUs online.
    pub fn new(topology: &Topology, behaviours: Behaviours, features: Features) -> Self {
        Self::of_roots(topology, behaviours, features, Roots::whole(topology.nr_cpus()), false)
    }

    /// Domains of online CPUs by root domain. `lost`: see [`Domains::lost`].
    pub(crate) fn of_roots(
        topology: &Topology,
        behaviours: Behaviours,
        features: Features,
        roots: Roots,
        lost: bool,
    ) -> Self {
        let mut builder = Builder::new(topology, behaviours, features, &roots);
        let has = |level| level != Level::Cluster || behaviours.has(Behaviour::ClusterDomains);
        for (level, span_of) in levels(topology, lost).into_iter().filter(|(level, _)| has(*level)) {
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

    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    pub(crate) fn is_of(&self, roots: &Roots, lost: bool) -> bool {
        self.roots == *roots && self.lost == lost
    }

    pub(crate) fn renew(&self) {
        for group in self.all.iter().flat_map(|domain| &domain.groups) {
            group.imbalance().store(false, Relaxed);
        }
        for llc in &self.llcs {
            llc.has_idle_cores.store(false, Relaxed);
            llc.nr_idle_scan.store(0, Relaxed);
        }
    }

    /// Lifts limits of searches for idle CPUs, as on a machine that was idle. Later domains start with 0, as after
    /// boot.
    pub(crate) fn has_been_idle(&self) {
        for (llc, &size) in self.llcs.iter().zip(&self.llc_size) {
            llc.nr_idle_scan.store(size, Relaxed);
        }
    }

    /// Returns a CPU's last-level cache, from 0.
    #[inline]
    pub(crate) fn llc(&self, cpu: CpuId) -> usize {
        self.llc[cpu.index()] as usize
    }

    #[inline]
    pub(crate) fn llc_size(&self, cpu: CpuId) -> u32 {
        self.llc_size[self.llc(cpu)]
    }

    #[inline]
    pub(crate) fn share_cache(&self, a: CpuId, b: CpuId) -> bool {
        self.llc[a.index()] == self.llc[b.index()]
    }

    /// Returns a CPU's highest domain that shares a cache.
    #[inline]
    pub(crate) fn llc_domain(&self, cpu: CpuId) -> Option<&Domain> {
        self.llc_domain[cpu.index()].map(|id| &self.all[id as usize])
    }

    #[inline]
    pub(crate) fn smt(&self) -> bool {
        self.smt
    }

    /// Whether CPUs differ in capacity.
    #[inline]
    pub(crate) fn asym(&self) -> bool {
        self.asym
    }

    /// Returns a CPU's lowest domain with every capacity of the machine (`sd_asym_cpucapacity`).
    pub(crate) fn asym_domain(&self, cpu: CpuId) -> Option<&Domain> {
        self.of(cpu).map(|(_, domain)| domain).find(|domain| domain.asym_capacity_full)
    }

    /// Returns a CPU's domains with their ids, lowest first.
    #[inline]
    pub(crate) fn of(&self, cpu: CpuId) -> impl DoubleEndedIterator<Item = (u32, &Domain)> + Clone {
        self.chains[cpu.index()].iter().map(|&id| (id, &self.all[id as usize]))
    }

    /// Domains in which wakeup, fork and exec place a task, lowest first.
    #[inline]
    pub(crate) fn near(&self, cpu: CpuId) -> impl DoubleEndedIterator<Item = &Domain> {
        self.of(cpu).map(|(_, domain)| domain).filter(|domain| !domain.far)
    }

    #[inline]
    pub(crate) fn at(&self, cpu: CpuId, position: usize) -> Option<&Domain> {
        self.chains[cpu.index()].get(position).map(|&id| &self.all[id as usize])
    }

    /// Returns the CPU's group in its domain at `position`.
    #[inline]
    pub(crate) fn own_group(&self, cpu: CpuId, position: usize) -> Option<usize> {
        self.own_groups[cpu.index()].get(position).map(|&group| group as usize)
    }

    /// Threads of a CPU's core, including itself; None without SMT.
    #[inline]
    pub(crate) fn smt_siblings(&self, cpu: CpuId) -> Option<&CpuMask> {
        let &id = self.chains[cpu.index()].first()?;
        let domain = &self.all[id as usize];
        (domain.level == Level::Smt).then_some(&domain.span)
    }

    /// CPUs of the cluster below the last-level cache, if there are clusters.
    #[inline]
    pub(crate) fn cluster(&self, cpu: CpuId) -> Option<&CpuMask> {
        let cluster = self.of(cpu).map(|(_, domain)| domain).find(|domain| domain.level == Level::Cluster);
        cluster.map(|domain| &domain.span)
    }

    /// Returns all domains, lower levels first.
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

    /// Names and sizes of a CPU's domains, lowest first.
    pub fn describe(&self, cpu: CpuId) -> Vec<(Level, u32)> {
        self.of(cpu).map(|(_, domain)| (domain.level, domain.weight)).collect()
    }
}

/// State shared by the CPUs of a last-level cache.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct LlcShared {
    /// A core may have only idle threads.
    pub(crate) has_idle_cores: AtomicBool,
    /// Most CPUs that a search for an idle one checks.
    pub(crate) nr_idle_scan: AtomicU32,
}

impl LlcShared {
    fn fresh(count: usize) -> Vec<Self> {
        (0..count).map(|_| Self { has_idle_cores: AtomicBool::new(false), nr_idle_scan: AtomicU32::new(0) }).collect()
    }
}

#[cfg(test)]
mod tests;
