//! Published state, as atomics that all CPUs may read without a lock. Loads and stores are relaxed: values are hints,
//! each meaningful alone. Code that acts on one, such as [`Shared::locate`], locks the run queue and checks again.

pub(crate) mod flags;
pub(crate) mod locations;
pub(crate) mod published;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use once_cell::race::OnceBox;
use spin::Mutex;

use crate::attrs::Affinity;
use crate::balance::cpu_load::CpuLoads;
use crate::balance::nohz::Nohz;
use crate::balance::roots::Root;
use crate::balance::sets::DomainSets;
use crate::balance::sums::CacheSums;
use crate::class::deadline::shared::DlShared;
use crate::class::o1::controller;
use crate::class::rt::cpupri::Cpupri;
use crate::config::Config;
use crate::cpumask::{AtomicCpuMask, CpuMask};
use crate::cpuset::{CpusetView, Cpusets, Populated, Rules};
use crate::energy::Energy;
use crate::group::TaskGroup;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::jiffies::Jiffies;
use crate::kernels::Behaviour;
use crate::loadavg;
use crate::policy::Policy;
use crate::sync::{AtomicBool, AtomicU32};
use crate::topology::Topology;
use crate::tunables::Tunables;
use crate::uclamp::{GroupUclamp, UclampTunables};
use crate::weight;

pub(crate) use flags::RootFlags;
pub(crate) use locations::{Locations, Place, Table};
pub(crate) use published::Idleness;
pub use published::{FairStats, Published};

/// Effects of changed cpusets or online CPUs.
#[derive(Debug)]
pub(crate) struct CpusetChange {
    /// Groups whose tasks' CPUs changed.
    pub(crate) groups: BTreeSet<u32>,
    pub(crate) rebuilt: CpuMask,
    /// CPUs whose root domain or its number changed.
    pub(crate) crossed: CpuMask,
    /// There are, or were, several root domains.
    pub(crate) split: bool,
}

/// What the CPUs share.
#[derive(Debug)]
pub struct Shared<P: Policy> {
    /// The settings.
    pub config: Config<P::Tunables>,
    /// The machine.
    pub topology: Topology,
    /// The scheduling domains.
    pub domains: DomainSets,
    offline: AtomicCpuMask,
    /// The holder locks no run queue.
    cpusets: Mutex<Cpusets>,
    /// There are, or were, cpusets or isolated CPUs.
    cpusets_used: AtomicBool,
    split: AtomicBool,
    pub(crate) nohz: Nohz,
    pub(crate) jiffies: Jiffies,
    pub(crate) rt: Cpupri,
    pub(crate) dl: DlShared,
    pub(crate) loadavg: loadavg::Shares,
    pub(crate) sums: CacheSums,
    /// Kernels before groups: the CPUs' load averages.
    pub(crate) cpu_loads: Option<CpuLoads>,
    max_capacity: u32,
    /// Classes above the fair one take some CPU's time.
    pressed: AtomicBool,
    overloaded: RootFlags,
    energy: Option<Box<Energy>>,
    /// A CPU publishes more than its own figures, because of energy or sums.
    tells_more: bool,
    /// A utilisation clamp was requested (`sched_uclamp_used`).
    uclamp_used: AtomicBool,
    cpus: Vec<Published>,
    idle: Vec<Idleness>,
    tasks: Locations,
    nr_tasks: AtomicU32,
    groups: Table<OnceBox<TaskGroup>>,
    nr_groups: AtomicU32,
    group_loads: AtomicU32,
}

impl<P: Policy> Shared<P> {
    /// Returns a machine without tasks.
    pub fn new(topology: Topology, config: Config<P::Tunables>) -> Self {
        let rules =
            Rules { forgets: config.has(Behaviour::CpusetForgets), exclusive: config.has(Behaviour::ExclusiveCpusets) };
        let cpusets = Cpusets::new(rules, topology.nr_cpus(), config.isolated.clone());
        let roots = cpusets.roots();
        let dl = DlShared::new(&topology, &config, &roots);
        let split = AtomicBool::new(roots.is_split());
        let domains = DomainSets::new(&topology, config.behaviours, config.features, roots);
        let counts_delayed = config.has(Behaviour::DelayedCounts);
        let cpus = topology.cpus().iter().map(|place| Published::new(place.capacity, counts_delayed));
        let sums = CacheSums::new(&topology, config.callers);
        let energy = Energy::new(&topology, &config).map(Box::new);
        let cpu_loads = config.has(Behaviour::CpuLoads).then(|| CpuLoads::new(topology.nr_cpus()));
        let shared = Self {
            cpus: cpus.collect(),
            idle: (0..topology.nr_cpus()).map(|_| Idleness::default()).collect(),
            nohz: Nohz::new(topology.nr_cpus()),
            jiffies: Jiffies::new(),
            rt: Cpupri::new(topology.nr_cpus(), config.has(Behaviour::OverloadWaiting)),
            dl,
            loadavg: loadavg::Shares::new(config.tunables.tick_ns()),
            max_capacity: topology.cpus().iter().map(|place| place.capacity).max().unwrap_or(1024),
            pressed: AtomicBool::new(false),
            overloaded: RootFlags::default(),
            tells_more: sums.kept() || energy.is_some(),
            energy,
            uclamp_used: AtomicBool::new(config.tunables.uclamp() != UclampTunables::default()),
            config,
            domains,
            offline: AtomicCpuMask::new(topology.nr_cpus()),
            cpusets_used: AtomicBool::new(cpusets.in_use()),
            cpusets: Mutex::new(cpusets),
            split,
            sums,
            cpu_loads,
            topology,
            tasks: Locations::new(),
            nr_tasks: AtomicU32::new(0),
            groups: Table::new(),
            nr_groups: AtomicU32::new(0),
            group_loads: AtomicU32::new(0),
        };
        shared.new_group(GroupId::ROOT, weight::NICE_0_LOAD, false);
        shared
    }

    /// Returns the balancer's time at `now`: jiffies. Before groups (`early`): nanoseconds, in whole ticks.
    #[inline]
    pub(crate) fn balance_time(&self, now: u64) -> u64 {
        if self.config.has(Behaviour::Early) { now } else { self.jiffies.now() }
    }

    /// Sets the first tick, ns (default 0), from which jiffies count.
    pub fn set_first_tick(&self, at_ns: u64) {
        self.jiffies.set_first(at_ns);
    }

    #[inline]
    pub(crate) fn idleness(&self, cpu: CpuId) -> &Idleness {
        &self.idle[cpu.index()]
    }

    #[inline]
    pub(crate) fn cpus(&self, run: &core::ops::Range<u32>) -> &[Published] {
        &self.cpus[run.start as usize..run.end as usize]
    }

    /// Whether every CPU is online.
    #[inline]
    pub fn all_online(&self) -> bool {
        self.offline.is_empty()
    }

    /// Whether a CPU is online (`cpu_active`).
    #[inline]
    pub fn is_online(&self, cpu: CpuId) -> bool {
        self.all_online() || !self.offline.contains(cpu)
    }

    /// Online CPUs.
    pub fn online(&self) -> CpuMask {
        (0..self.nr_cpus() as u32).map(CpuId).filter(|&cpu| !self.offline.contains(cpu)).collect()
    }

    /// Returns the number of online CPUs.
    #[inline]
    pub fn nr_online(&self) -> usize {
        self.nr_cpus() - self.offline.len()
    }

    /// Sets a CPU online or offline, and updates cpusets and domains.
    pub(crate) fn set_online(&self, cpu: CpuId, online: bool, populated: &Populated) -> CpusetChange {
        if online {
            self.offline.remove(cpu);
        } else {
            self.offline.insert(cpu);
        }
        self.change_cpusets(|cpusets| cpusets.set_online(self.online(), populated))
    }

    /// Changes cpusets and so root domains. One caller at a time.
    pub(crate) fn change_cpusets(&self, change: impl FnOnce(&mut Cpusets)) -> CpusetChange {
        let mut groups = BTreeSet::new();
        let (roots, used) = {
            let mut cpusets = self.cpusets.lock();
            let before = cpusets.bases();
            change(&mut cpusets);
            let changed =
                before.iter().zip(cpusets.bases()).enumerate().filter(|(_, (before, after))| *before != after);
            groups.extend(changed.map(|(group, _)| group as u32));
            (cpusets.roots(), cpusets.in_use())
        };
        if used {
            // Permanent: tasks may remember their affinities.
            self.cpusets_used.store(true, Relaxed);
        }
        let old = self.domains.roots();
        let split = roots.is_split() || old.is_split();
        let mut change = CpusetChange { groups, rebuilt: CpuMask::new(), crossed: CpuMask::new(), split };
        if roots == *old {
            return change;
        }
        let (spans, old_spans) = (roots.spans(), old.spans());
        for (cpu, root) in roots.iter() {
            let was = old.of(cpu);
            self.dl.set_root(self.capacity(cpu), was, root);
            let same_kind = matches!(was, Root::Domain(_)) == matches!(root, Root::Domain(_));
            if !split || !same_kind || spans[&root] != old_spans[&was] {
                change.rebuilt.insert(cpu);
            }
            if was != root {
                change.crossed.insert(cpu);
            }
        }
        let split = roots.is_split();
        self.domains.rebuild(&self.topology, self.config.behaviours, self.config.features, roots);
        self.split.store(split, Relaxed);
        change
    }

    /// Reads the cpusets. `ask` must lock no run queue, and the caller hold none that a writer of cpusets waits for.
    pub(crate) fn cpusets<T>(&self, ask: impl FnOnce(&Cpusets) -> T) -> T {
        ask(&self.cpusets.lock())
    }

    #[inline]
    pub(crate) fn cpusets_used(&self) -> bool {
        self.cpusets_used.load(Relaxed)
    }

    /// Returns a group's cpuset files; None if never written to.
    pub fn cpuset(&self, group: GroupId) -> Option<CpusetView> {
        self.cpusets(|cpusets| cpusets.view(group))
    }

    /// Any group's `cpuset.cpus.effective`. Empty if partitions below have all.
    pub fn cpus_effective(&self, group: GroupId) -> CpuMask {
        self.cpusets(|cpusets| cpusets.view_effective(group))
    }

    /// Returns the CPUs of a task of `group` with the affinity `asked`, and whether the two overlap. If not, it may use
    /// all of the group's.
    pub fn cpus_allowed(&self, group: GroupId, asked: &Affinity) -> (Affinity, bool) {
        if !self.cpusets_used() {
            return (asked.clone(), true);
        }
        self.cpusets(|cpusets| cpusets.allowed(group, asked))
    }

    #[inline]
    pub(crate) fn is_split(&self) -> bool {
        self.split.load(Relaxed)
    }

    #[inline]
    pub(crate) fn same_root(&self, a: CpuId, b: CpuId) -> bool {
        !self.is_split() || self.domains.roots().of(a) == self.domains.roots().of(b)
    }

    #[inline]
    pub(crate) fn root(&self, cpu: CpuId) -> Root {
        if self.is_split() { self.domains.roots().of(cpu) } else { Root::default() }
    }

    /// Returns the online CPUs of a root domain.
    pub(crate) fn root_span(&self, root: Root) -> CpuMask {
        if self.is_split() { self.domains.roots().span(root) } else { self.online() }
    }

    /// Whether balancing ignores a CPU.
    #[inline]
    pub fn is_isolated(&self, cpu: CpuId) -> bool {
        self.is_split() && self.domains.roots().of(cpu) == Root::Isolated
    }

    /// Returns every root domain with scheduling domains, and isolated CPUs, maybe none.
    pub fn root_domains(&self) -> (Vec<CpuMask>, CpuMask) {
        let roots = self.domains.roots();
        let mut found: Vec<Root> = roots.iter().map(|(_, root)| root).collect();
        found.sort_unstable();
        found.dedup();
        let balanced = found.into_iter().filter(|root| matches!(root, Root::Domain(_)));
        (balanced.map(|root| roots.span(root)).collect(), roots.span(Root::Isolated))
    }

    /// Returns the number of CPUs, with offline ones.
    #[inline]
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Returns what a CPU publishes.
    #[inline]
    pub fn cpu(&self, cpu: CpuId) -> &Published {
        &self.cpus[cpu.index()]
    }

    /// Whether a CPU of the root domain of `cpu` has more than one task.
    #[inline]
    pub(crate) fn overloaded(&self, cpu: CpuId) -> bool {
        self.flag(&self.overloaded, cpu).load(Relaxed)
    }

    #[inline]
    pub(crate) fn set_overloaded(&self, cpu: CpuId, overloaded: bool) {
        let flag = self.flag(&self.overloaded, cpu);
        if flag.load(Relaxed) != overloaded {
            flag.store(overloaded, Relaxed);
        }
    }

    #[inline]
    pub(crate) fn flag<'a>(&self, flags: &'a RootFlags, cpu: CpuId) -> &'a AtomicBool {
        if self.is_split() { self.flag_of(flags, cpu) } else { &flags.whole }
    }

    #[cold]
    fn flag_of<'a>(&self, flags: &'a RootFlags, cpu: CpuId) -> &'a AtomicBool {
        match self.domains.roots().of(cpu) {
            Root::Domain(number) => flags.each.entry(number, || AtomicBool::new(false)),
            Root::Isolated | Root::Offline => &flags.whole,
        }
    }

    /// Whether wakeups prefer CPUs of low [`energy`](crate::energy), while no CPU is full.
    pub fn is_energy_aware(&self) -> bool {
        let mut cpus = (0..self.nr_cpus() as u32).map(CpuId);
        self.energy.is_some() && cpus.any(|cpu| self.domains.asym_domain(cpu).is_some())
    }

    #[inline]
    pub(crate) fn tells_more(&self) -> bool {
        self.tells_more
    }

    /// State of energy-aware scheduling, if energy is considered.
    #[inline]
    pub(crate) fn energy(&self) -> Option<&Energy> {
        self.energy.as_deref()
    }

    #[inline]
    pub(crate) fn uclamp_used(&self) -> bool {
        self.uclamp_used.load(Relaxed)
    }

    pub(crate) fn use_uclamp(&self) {
        self.uclamp_used.store(true, Relaxed);
    }

    /// Returns a CPU's capacity, of 1024.
    #[inline]
    pub fn capacity(&self, cpu: CpuId) -> u32 {
        self.cpu(cpu).capacity()
    }

    #[inline]
    pub(crate) fn max_capacity(&self) -> u32 {
        self.max_capacity
    }

    /// Returns the biggest capacity in the root domain of `cpu` (`rd->max_cpu_capacity`).
    pub(crate) fn root_max_capacity(&self, cpu: CpuId) -> u32 {
        if !self.is_split() {
            return self.max_capacity;
        }
        self.root_span(self.root(cpu)).iter().map(|cpu| self.capacity(cpu)).max().unwrap_or(self.max_capacity)
    }

    pub(crate) fn max_allowed_capacity(&self, affinity: &Affinity) -> u32 {
        let Some(mask) = affinity else { return self.max_capacity };
        let allowed = mask.iter().filter(|cpu| cpu.index() < self.nr_cpus());
        allowed.map(|cpu| self.capacity(cpu)).max().unwrap_or(self.max_capacity)
    }

    /// Whether higher classes reduce any CPU's capacity for the fair class.
    #[inline]
    pub(crate) fn pressed(&self) -> bool {
        self.pressed.load(Relaxed)
    }

    pub(crate) fn set_capacity_of(&self, cpu: CpuId, left: u32) {
        if self.cpu(cpu).set_capacity_of(left) {
            self.pressed.store(true, Relaxed);
        }
    }

    /// Creates a group inside `parent`; `shares` are in the scheduler's scale.
    pub(crate) fn new_group(&self, parent: GroupId, shares: u64, idle: bool) -> GroupId {
        // One at a time, so that every id below `nr_groups` has a group.
        let mut cpusets = self.cpusets.lock();
        let id = GroupId(self.nr_groups.load(Relaxed));
        let (depth, uclamp) = if id == GroupId::ROOT {
            (0, GroupUclamp::root(self.config.tunables.uclamp().system))
        } else {
            let parent = self.group(parent);
            (parent.depth + 1, parent.uclamp.child())
        };
        let class = (depth <= 1 && controller::is_on(self.config.features)).then(|| {
            // The root has all that is not guaranteed.
            let guarantee = if depth == 0 { 100 } else { 0 };
            Box::new(controller::Class::new(self.nr_cpus(), guarantee, self.config.tunables.cpu_rc().tsfactor_max))
        });
        let group = TaskGroup::new(parent, depth, shares, idle, uclamp, class);
        cpusets.add_group(id, parent);
        // The id is new, so the cell is empty.
        let _ = self.groups.entry(id.0, OnceBox::new).set(Box::new(group));
        self.nr_groups.store(id.0 + 1, Release);
        id
    }

    /// Returns a task group. Panics on an unknown id.
    #[inline]
    #[expect(clippy::expect_used, reason = "ids are given out with a group behind them, and groups stay")]
    pub fn group(&self, id: GroupId) -> &TaskGroup {
        self.groups.get(id.0).and_then(OnceBox::get).expect("a group id is from new_group of this scheduler")
    }

    /// Returns the previous [`Self::group_loads`].
    #[inline]
    pub(crate) fn add_group_load(&self, id: GroupId, delta: i64) -> u32 {
        self.group(id).add_load_avg(delta);
        self.group_loads.fetch_add(1, Relaxed)
    }

    pub(crate) fn set_group_shares(&self, id: GroupId, shares: u64) {
        self.group(id).set_shares(shares);
        self.group_loads.fetch_add(1, Relaxed);
    }

    /// Counts changes of groups' loads and weights, wrapping.
    #[inline]
    pub(crate) fn group_loads(&self) -> u32 {
        self.group_loads.load(Relaxed)
    }

    /// Groups, including the root.
    pub fn nr_groups(&self) -> usize {
        self.nr_groups.load(Acquire) as usize
    }

    /// Returns all groups, the root first.
    pub(crate) fn group_ids(&self) -> impl Iterator<Item = GroupId> + Clone + use<P> {
        (0..self.nr_groups() as u32).map(GroupId)
    }

    pub(crate) fn nr_tasks(&self) -> u32 {
        self.nr_tasks.load(Relaxed)
    }

    pub(crate) fn new_task_id(&self) -> TaskId {
        TaskId(self.nr_tasks.fetch_add(1, Relaxed))
    }

    /// Returns a task's run queue and index there, maybe outdated. `None` while it moves, and after its end.
    #[inline]
    pub fn locate(&self, task: TaskId) -> Option<(CpuId, u32)> {
        match self.place(task) {
            Place::On(cpu, index) => Some((cpu, index)),
            Place::InFlight | Place::Gone => None,
        }
    }

    #[inline]
    pub(crate) fn place(&self, task: TaskId) -> Place {
        self.tasks.place(task)
    }

    #[inline]
    pub(crate) fn set_location(&self, task: TaskId, place: Option<(CpuId, u32)>) {
        self.tasks.set(task, place);
    }

    pub(crate) fn forget(&self, task: TaskId) {
        self.tasks.forget(task);
    }
}
