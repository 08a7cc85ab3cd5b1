//! Scheduling domains: the levels of a machine at which load is balanced, and the groups balanced between.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

mod numbers;

use self::numbers::Numbers;
use super::roots::{Root, Roots};
use super::{Balancer, LlcShared, sums};
use crate::cpumask::CpuMask;
use crate::features::{Feature, Features};
use crate::ids::CpuId;
use crate::policy::Policy;
use crate::shared::Shared;
use crate::topology::{CpuPlace, Topology};

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
    /// A busy CPU balances so many times less often.
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
    /// Its nodes are farther from each other than [`RECLAIM_DISTANCE`].
    pub(crate) far: bool,
    /// Up to so many tasks in a group, a difference of two between NUMA nodes is left alone (`imb_numa_nr`).
    pub(crate) imb_numa_nr: u32,
    /// How many CPUs of its level are online there but in other root domains, or isolated.
    pub(crate) cut_off: u32,
}

/// Between nodes farther from each other than that nobody is placed when forking, execing or waking: only the balancer moves tasks there
/// (`node_reclaim_distance`; it is 32 on AMD's machines since 5.4, which are not told from others here).
const RECLAIM_DISTANCE: u32 = 30;

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

/// The span of a CPU at a level.
type Span<'a> = Box<dyn Fn(CpuId) -> CpuMask + 'a>;

/// How many domains a CPU of a machine can have at most, whichever CPUs are online.
pub(crate) fn most_levels(topology: &Topology) -> usize {
    4 + topology.distances().len().saturating_sub(1)
}

impl Domains {
    /// The domains of a machine all of whose CPUs are online.
    pub fn new(topology: &Topology, balancer: Balancer, features: Features) -> Self {
        Self::of_roots(topology, balancer, features, Roots::whole(topology.nr_cpus()), false)
    }

    /// The domains of the CPUs that are there, within each root domain; `lost`: those of several NUMA nodes are left out.
    pub(crate) fn of_roots(
        topology: &Topology,
        balancer: Balancer,
        features: Features,
        roots: Roots,
        lost: bool,
    ) -> Self {
        let whole = roots.is_whole();
        let online: CpuMask = roots.iter().filter(|&(_, root)| root != Root::Offline).map(|(cpu, _)| cpu).collect();
        // Of a span what is in the CPU's own root domain.
        let within =
            |cpu: CpuId, span: CpuMask| -> CpuMask { if whole { span } else { span.and(&roots.balanced_with(cpu)) } };
        let by = |same: fn(&CpuPlace) -> u32| -> Span<'_> { Box::new(move |cpu| topology.sharing(cpu, same)) };
        let mut levels: Vec<(Level, Span<'_>)> = alloc::vec![
            (Level::Smt, by(|place| place.core)),
            (Level::Cluster, by(|place| place.cluster)),
            (Level::Mc, by(|place| place.llc)),
            (Level::Pkg, by(|place| place.node)),
        ];
        for (index, &distance) in topology.distances().iter().enumerate().skip(1).filter(|_| !lost) {
            let near = move |cpu: CpuId| {
                let node = topology.place(cpu).node;
                topology.mask(|place| topology.distance(node, place.node) <= distance)
            };
            levels.push((Level::Numa(index as u8), Box::new(near)));
        }
        let mut capacities: BTreeMap<Root, usize> = BTreeMap::new();
        for (_, root) in roots.iter() {
            capacities.entry(root).or_insert_with(|| different_capacities(topology, &roots.span(root)));
        }

        let nr_cpus = topology.nr_cpus();
        let mut all: Vec<Domain> = Vec::new();
        let mut known: BTreeMap<(Level, CpuMask, Option<u32>), u32> = BTreeMap::new();
        let mut flags: BTreeMap<(Level, CpuMask), Arc<AtomicBool>> = BTreeMap::new();
        let mut chains: Vec<Vec<u32>> = alloc::vec![Vec::new(); nr_cpus];
        for (level, span_of) in &levels {
            let mut added: Vec<Option<u32>> = alloc::vec![None; nr_cpus];
            let mut spans: Vec<Option<CpuMask>> = alloc::vec![None; nr_cpus];
            for index in 0..nr_cpus {
                let cpu = CpuId(index as u32);
                // CPUs of one span (other than overlapping NUMA ones) share what was computed for the first of them.
                let span = match level {
                    Level::Numa(_) => within(cpu, span_of(cpu)),
                    _ => spans[index].take().unwrap_or_else(|| {
                        let span = within(cpu, span_of(cpu));
                        for other in span.iter().filter(|other| other.index() > index) {
                            spans[other.index()] = Some(span.clone());
                        }
                        span
                    }),
                };
                let below = chains[index].last().map_or(1, |&child| all[child as usize].weight);
                // A level that adds no CPU to the one below has nothing to balance.
                if span.count() as u32 <= below {
                    continue;
                }
                // Where the spans below overlap, CPUs of different ones see different groups.
                let child = |cpu: CpuId| chains[cpu.index()].last().copied();
                let overlaps = matches!(level, Level::Numa(_)) && overlap(&span, &all, child);
                let own = child(cpu).filter(|_| overlaps && !features.has(Feature::OldNumaGroups));
                let id = *known.entry((*level, span.clone(), own)).or_insert_with(|| {
                    // `sd_init` counts what the level has, before the root domain cuts it.
                    let weight = if whole { span.count() } else { span_of(cpu).and(&online).count() };
                    let numbers = Numbers::of(balancer, *level, weight as u64);
                    let mut domain = domain(topology, numbers, &span, cpu, &chains, &all, capacities[&roots.of(cpu)]);
                    domain.cut_off = weight as u32 - domain.weight;
                    if overlaps {
                        domain.groups = overlapping(topology, &span, cpu, &all, child);
                        for group in &mut domain.groups {
                            let flag = flags.entry((*level, group.mask.clone())).or_default();
                            group.shared_imbalance = Some(Arc::clone(flag));
                            if own.is_none() {
                                // As it was: any CPU of the group.
                                group.balancers = None;
                            }
                        }
                    }
                    all.push(domain);
                    (all.len() - 1) as u32
                });
                added[index] = Some(id);
            }
            for (chain, id) in chains.iter_mut().zip(added) {
                chain.extend(id);
            }
        }

        tolerate(topology, &roots, &mut all, &chains);
        // To the scheduler, CPUs of different root domains share nothing, and one that is offline or isolated shares with nobody.
        let llc_ids: Vec<(u32, Root, Option<CpuId>)> = roots
            .iter()
            .zip(topology.cpus())
            .map(|((cpu, root), place)| (place.llc, root, (!matches!(root, Root::Domain(_))).then_some(cpu)))
            .collect();
        let mut dense: BTreeMap<(u32, Root, Option<CpuId>), u32> = BTreeMap::new();
        for id in &llc_ids {
            let next = dense.len() as u32;
            dense.entry(*id).or_insert(next);
        }
        let llc: Vec<u32> = llc_ids.iter().map(|id| dense[id]).collect();
        let mut llc_size = alloc::vec![0; dense.len()];
        for &id in &llc {
            llc_size[id as usize] += 1;
        }
        let llc_domain =
            chains.iter().map(|chain| chain.iter().rev().copied().find(|&id| all[id as usize].share_llc)).collect();
        let smt = all.iter().any(|domain| domain.level == Level::Smt);
        let asym = all.iter().any(|domain| domain.asym_capacity);
        #[expect(clippy::expect_used, reason = "a domain is built of groups that are all its CPUs")]
        let own_group = |cpu: usize, id: u32| {
            let groups = &all[id as usize].groups;
            let own = groups.iter().position(|group| group.mask.contains(CpuId(cpu as u32)));
            own.expect("the groups of a domain cover its CPUs") as u32
        };
        let own_groups =
            chains.iter().enumerate().map(|(cpu, chain)| chain.iter().map(|&id| own_group(cpu, id)).collect());
        let own_groups = own_groups.collect();
        if let Some(caches) = sums::caches(topology) {
            let mut size: Vec<u32> = Vec::new();
            for &cache in &caches {
                size.resize(size.len().max(cache as usize + 1), 0);
                size[cache as usize] += 1;
            }
            for group in all.iter_mut().flat_map(|domain| &mut domain.groups) {
                group.use_sums(&caches, &size);
            }
        }
        Self {
            roots,
            lost,
            llcs: LlcShared::fresh(dense.len()),
            all,
            chains,
            own_groups,
            llc,
            llc_domain,
            llc_size,
            smt,
            asym,
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

    /// The machine has been up for a while, and idle: balancing has noted that a search for an idle CPU may go as far as it likes. Domains that
    /// are built later begin with 0, as a kernel that has just booted does.
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

fn domain(
    topology: &Topology,
    numbers: Numbers,
    span: &CpuMask,
    first: CpuId,
    chains: &[Vec<u32>],
    all: &[Domain],
    capacities: usize,
) -> Domain {
    // Its groups are the spans of the level below, starting with that of the CPU it is made for; overlapping spans (NUMA
    // rings) give each CPU to the first group that has it.
    let mut groups: Vec<SchedGroup> = Vec::new();
    let mut covered = CpuMask::with_capacity(topology.nr_cpus());
    let here = if capacities > 1 { different_capacities(topology, span) } else { 1 };
    for cpu in span.iter_from(first) {
        if covered.contains(cpu) {
            continue;
        }
        let child = chains[cpu.index()].last().map(|&id| &all[id as usize]);
        let mut mask = CpuMask::with_capacity(topology.nr_cpus());
        match child {
            Some(child) => child.span.and(span).iter().for_each(|member| mask.insert(member)),
            None => mask.insert(cpu),
        }
        let cpus: Vec<CpuId> = mask.iter().filter(|&member| !covered.contains(member)).collect();
        for &member in &cpus {
            covered.insert(member);
        }
        let mut group = SchedGroup::new(topology, cpus);
        group.prefers_sibling = child.is_some_and(|child| !matches!(child.level, Level::Numa(_))) && here == 1;
        groups.push(group);
    }
    let weight = span.count() as u32;
    let first_place = topology.place(first);
    let share_llc = span.iter().all(|cpu| topology.place(cpu).llc == first_place.llc);
    Domain {
        level: numbers.level,
        span: span.clone(),
        weight,
        groups,
        imbalance_pct: numbers.imbalance_pct,
        min_interval: numbers.interval.0,
        max_interval: numbers.interval.1,
        busy_factor: numbers.busy_factor,
        cache_nice_tries: numbers.cache_nice_tries,
        share_llc,
        asym_capacity: here > 1,
        asym_capacity_full: here > 1 && here == capacities,
        serialize: matches!(numbers.level, Level::Numa(_)),
        far: matches!(numbers.level, Level::Numa(index) if topology.distances()[index as usize] > RECLAIM_DISTANCE),
        imb_numa_nr: 0,
        cut_off: 0,
    }
}

/// Whether the domains below that make up `span` overlap without being the same.
fn overlap(span: &CpuMask, all: &[Domain], child: impl Fn(CpuId) -> Option<u32>) -> bool {
    let mut below: Vec<u32> = span.iter().filter_map(&child).collect();
    below.sort_unstable();
    below.dedup();
    let sum: u32 = below.iter().map(|&id| all[id as usize].weight).sum();
    sum as usize > span.count()
}

/// The groups of a NUMA level where the spans below overlap (`build_overlap_sched_groups`): first the CPU's own span below,
/// then that of the next CPU which is in none so far, and so on around. A group keeps the whole of such a span: one CPU can
/// be in several groups.
fn overlapping(
    topology: &Topology,
    span: &CpuMask,
    first: CpuId,
    all: &[Domain],
    child: impl Fn(CpuId) -> Option<u32>,
) -> Vec<SchedGroup> {
    let below = |cpu: CpuId| -> CpuMask {
        match child(cpu) {
            Some(id) => all[id as usize].span.and(span),
            None => [cpu].into_iter().collect(),
        }
    };
    let mut groups = Vec::new();
    let mut covered = CpuMask::with_capacity(topology.nr_cpus());
    for cpu in span.iter_from(first) {
        if covered.contains(cpu) {
            continue;
        }
        let mask = below(cpu);
        for member in mask.iter() {
            covered.insert(member);
        }
        let mut group = SchedGroup::new(topology, mask.iter().collect());
        group.balancers = Some(mask.iter().filter(|&member| below(member) == mask).collect());
        groups.push(group);
    }
    groups
}

/// How uneven NUMA nodes may be filled while they are almost empty: an eighth of a node with one last-level cache, else as
/// many tasks as it has caches; in proportion at the levels above the first of several nodes.
fn tolerate(topology: &Topology, roots: &Roots, all: &mut [Domain], chains: &[Vec<u32>]) {
    for (cpu, chain) in chains.iter().enumerate() {
        let place = topology.place(CpuId(cpu as u32));
        let numa = |id: &&u32| matches!(all[**id as usize].level, Level::Numa(_));
        let Some(lowest) = chain.iter().find(numa).map(|&id| all[id as usize].weight) else { continue };
        // Of the same root domain: what is not there is not filled.
        let near =
            || topology.cpus().iter().zip(roots.iter()).filter(|(_, (_, root))| *root == roots.of(CpuId(cpu as u32)));
        let count = |same: fn(&CpuPlace) -> u32| near().filter(|(it, _)| same(it) == same(place)).count();
        let (node, llc) = (count(|place| place.node), count(|place| place.llc));
        let caches = node / llc.max(1);
        let allowed = if caches <= 1 { node / 8 } else { caches }.max(1) as u32;
        for &id in chain {
            let domain = &mut all[id as usize];
            if matches!(domain.level, Level::Numa(_)) {
                domain.imb_numa_nr = allowed * (domain.weight / lowest).max(1);
            }
        }
    }
}

/// How many different capacities CPUs have.
fn different_capacities(topology: &Topology, span: &CpuMask) -> usize {
    let capacities: BTreeSet<u32> = span.iter().map(|cpu| topology.place(cpu).capacity).collect();
    capacities.len()
}

#[cfg(test)]
mod tests;
