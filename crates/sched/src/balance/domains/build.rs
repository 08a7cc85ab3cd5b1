//! Builds domains level by level (`build_sched_domains`).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;

use super::numbers::Numbers;
use super::{Domain, Level, SchedGroup};
use crate::balance::roots::{Root, Roots};
use crate::balance::sums;
use crate::cpumask::CpuMask;
use crate::features::{Feature, Features};
use crate::ids::CpuId;
use crate::kernels::Behaviours;
use crate::topology::{CpuPlace, Topology};

/// The node distance beyond which only the balancer moves tasks, not fork, exec or wakeup (`node_reclaim_distance`).
/// AMD's machines have 32 in 5.4+, which is not modelled.
const RECLAIM_DISTANCE: u32 = 30;

type Span<'a> = Box<dyn Fn(CpuId) -> CpuMask + 'a>;

/// Returns the levels, lowest first, each with the span of any CPU. `lost` omits those of several NUMA nodes
/// (`OLD_LOST_DOMAINS`).
pub(super) fn levels(topology: &Topology, lost: bool) -> Vec<(Level, Span<'_>)> {
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
    levels
}

pub(super) struct Builder<'a> {
    topology: &'a Topology,
    behaviours: Behaviours,
    features: Features,
    roots: &'a Roots,
    online: CpuMask,
    /// Number of different capacities in each root domain.
    capacities: BTreeMap<Root, usize>,
    pub(super) all: Vec<Domain>,
    /// Domains of each CPU so far.
    pub(super) chains: Vec<Vec<u32>>,
    known: BTreeMap<(Level, CpuMask, Option<u32>), u32>,
    flags: BTreeMap<(Level, CpuMask), Arc<AtomicBool>>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(topology: &'a Topology, behaviours: Behaviours, features: Features, roots: &'a Roots) -> Self {
        let mut capacities: BTreeMap<Root, usize> = BTreeMap::new();
        for (_, root) in roots.iter() {
            capacities.entry(root).or_insert_with(|| different_capacities(topology, &roots.span(root)));
        }
        Self {
            topology,
            behaviours,
            features,
            roots,
            online: roots.iter().filter(|&(_, root)| root != Root::Offline).map(|(cpu, _)| cpu).collect(),
            capacities,
            all: Vec::new(),
            chains: alloc::vec![Vec::new(); topology.nr_cpus()],
            known: BTreeMap::new(),
            flags: BTreeMap::new(),
        }
    }

    /// Returns the part of a span in the CPU's root domain.
    fn within(&self, cpu: CpuId, span: CpuMask) -> CpuMask {
        if self.roots.is_whole() { span } else { span.and(&self.roots.balanced_with(cpu)) }
    }

    /// Adds a level to every CPU whose span it extends.
    pub(super) fn add(&mut self, level: Level, span_of: &dyn Fn(CpuId) -> CpuMask) {
        let nr_cpus = self.topology.nr_cpus();
        let mut added: Vec<Option<u32>> = alloc::vec![None; nr_cpus];
        let mut spans: Vec<Option<CpuMask>> = alloc::vec![None; nr_cpus];
        for index in 0..nr_cpus {
            let cpu = CpuId(index as u32);
            // CPUs of one span (other than overlapping NUMA ones) share the first one's result.
            let span = match level {
                Level::Numa(_) => self.within(cpu, span_of(cpu)),
                _ => spans[index].take().unwrap_or_else(|| {
                    let span = self.within(cpu, span_of(cpu));
                    for other in span.iter().filter(|other| other.index() > index) {
                        spans[other.index()] = Some(span.clone());
                    }
                    span
                }),
            };
            let below = self.chains[index].last().map_or(1, |&child| self.all[child as usize].weight);
            // A level that adds no CPU has nothing to balance.
            if span.count() as u32 > below {
                added[index] = Some(self.domain(level, cpu, span, span_of));
            }
        }
        for (chain, id) in self.chains.iter_mut().zip(added) {
            chain.extend(id);
        }
    }

    /// Returns the domain of a span from the view of `cpu`, created if missing.
    fn domain(&mut self, level: Level, cpu: CpuId, span: CpuMask, span_of: &dyn Fn(CpuId) -> CpuMask) -> u32 {
        let Self { topology, chains, all, .. } = self;
        // Where lower spans overlap, their CPUs see different groups.
        let child = |cpu: CpuId| chains[cpu.index()].last().copied();
        let overlaps = matches!(level, Level::Numa(_)) && overlap(&span, all, child);
        let own = child(cpu).filter(|_| overlaps && !self.features.has(Feature::OldNumaGroups));
        let key = (level, span, own);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let span = &key.1;
        // `sd_init` counts the level's CPUs before the root domain cuts it.
        let weight = if self.roots.is_whole() { span.count() } else { span_of(cpu).and(&self.online).count() };
        let numbers = Numbers::of(&self.behaviours, level, weight as u64);
        let capacities = self.capacities[&self.roots.of(cpu)];
        let mut domain = domain(topology, numbers, span, cpu, chains, all, capacities);
        domain.cut_off = weight as u32 - domain.weight;
        if overlaps {
            domain.groups = overlapping(topology, span, cpu, all, child);
            for group in &mut domain.groups {
                let flag = self.flags.entry((level, group.mask.clone())).or_default();
                group.shared_imbalance = Some(Arc::clone(flag));
                if own.is_none() {
                    // Any CPU of the group may balance again.
                    group.balancers = None;
                }
            }
        }
        let id = self.all.len() as u32;
        self.all.push(domain);
        self.known.insert(key, id);
        id
    }
}

/// Returns each CPU's last-level cache, numbered from 0, and the number of CPUs of each. Root domains do not share
/// caches; offline and isolated CPUs have their own.
pub(super) fn last_level_caches(topology: &Topology, roots: &Roots) -> (Vec<u32>, Vec<u32>) {
    let mut numbers: BTreeMap<(u32, Root, Option<CpuId>), u32> = BTreeMap::new();
    let mut sizes: Vec<u32> = Vec::new();
    let caches = roots.iter().zip(topology.cpus()).map(|((cpu, root), place)| {
        let alone = (!matches!(root, Root::Domain(_))).then_some(cpu);
        let number = *numbers.entry((place.llc, root, alone)).or_insert(sizes.len() as u32);
        sizes.resize(sizes.len().max(number as usize + 1), 0);
        sizes[number as usize] += 1;
        number
    });
    (caches.collect(), sizes)
}

#[expect(clippy::expect_used, reason = "a domain is built of groups that are all its CPUs")]
pub(super) fn own_groups(all: &[Domain], cpu: usize, chain: &[u32]) -> Vec<u32> {
    let own_group = |&id: &u32| {
        let groups = &all[id as usize].groups;
        let own = groups.iter().position(|group| group.mask.contains(CpuId(cpu as u32)));
        own.expect("the groups of a domain cover its CPUs") as u32
    };
    chain.iter().map(own_group).collect()
}

/// Lets large machines read groups by the sums of last-level caches.
pub(super) fn use_sums(topology: &Topology, all: &mut [Domain]) {
    let Some(caches) = sums::caches(topology) else { return };
    let mut size: Vec<u32> = Vec::new();
    for &cache in &caches {
        size.resize(size.len().max(cache as usize + 1), 0);
        size[cache as usize] += 1;
    }
    for group in all.iter_mut().flat_map(|domain| &mut domain.groups) {
        group.use_sums(&caches, &size);
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
    // The groups are the spans of the level below, starting with the CPU's own. In overlapping spans (NUMA rings) a CPU
    // is in the first group that has it.
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

fn overlap(span: &CpuMask, all: &[Domain], child: impl Fn(CpuId) -> Option<u32>) -> bool {
    let mut below: Vec<u32> = span.iter().filter_map(&child).collect();
    below.sort_unstable();
    below.dedup();
    let sum: u32 = below.iter().map(|&id| all[id as usize].weight).sum();
    sum as usize > span.count()
}

/// Builds the groups of a NUMA level whose lower spans overlap (`build_overlap_sched_groups`). They are the CPU's own
/// span, the span of the next CPU in none, and so on. A group keeps its whole span, so a CPU can be in several.
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

/// Sets the tolerated imbalance between almost empty NUMA nodes: an eighth of a node with one last-level cache, else
/// one task for each cache. Higher levels have it in proportion.
pub(super) fn tolerate(topology: &Topology, roots: &Roots, all: &mut [Domain], chains: &[Vec<u32>]) {
    for (cpu, chain) in chains.iter().enumerate() {
        let place = topology.place(CpuId(cpu as u32));
        let numa = |id: &&u32| matches!(all[**id as usize].level, Level::Numa(_));
        let Some(lowest) = chain.iter().find(numa).map(|&id| all[id as usize].weight) else { continue };
        // Only the same root domain counts.
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

fn different_capacities(topology: &Topology, span: &CpuMask) -> usize {
    let capacities: BTreeSet<u32> = span.iter().map(|cpu| topology.place(cpu).capacity).collect();
    capacities.len()
}
