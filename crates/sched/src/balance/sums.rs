//! What the CPUs of a last-level cache publish, added up as they publish it.
//!
//! A newly-idle CPU of a large machine looks at all the others, every time; with the sums it reads a cache line for each
//! last-level cache instead of one for each CPU. Every CPU adds to them by how much its own numbers have changed, with its
//! run queue held, so that they are exact whenever nobody is publishing. On small machines they are not kept: there looking
//! at every CPU costs less than the additions.

use core::sync::atomic::Ordering::Relaxed;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::ids::CpuId;
use crate::shared::Published;
use crate::sync::AtomicU64;
use crate::topology::Topology;

/// Fewer CPUs than this are looked at one by one.
const MANY_CPUS: usize = 64;
/// Nor does it pay where so few of them share a cache.
const MANY_IN_LLC: usize = 4;

/// The last-level cache of each CPU, counted from 0, if the sums are kept on such a machine. CPUs that are offline, or isolated,
/// count with the others: whoever may use a cache's sums is another matter.
pub(crate) fn caches(topology: &Topology) -> Option<Vec<u32>> {
    let mut dense: BTreeMap<u32, u32> = BTreeMap::new();
    for place in topology.cpus() {
        let next = dense.len() as u32;
        dense.entry(place.llc).or_insert(next);
    }
    let (cpus, caches) = (topology.nr_cpus(), dense.len());
    let kept = cpus >= MANY_CPUS && caches > 1 && cpus >= MANY_IN_LLC * caches;
    kept.then(|| topology.cpus().iter().map(|place| dense[&place.llc]).collect())
}

/// Those of every last-level cache; none where they are not kept.
#[derive(Debug)]
pub(crate) struct CacheSums {
    /// The cache of each CPU.
    of: Vec<u32>,
    sums: Vec<LlcSums>,
}

impl CacheSums {
    /// Of a machine whose CPUs are all idle.
    pub(crate) fn new(topology: &Topology) -> Self {
        let of = caches(topology).unwrap_or_default();
        let mut sizes: BTreeMap<u32, u32> = BTreeMap::new();
        for &cache in &of {
            *sizes.entry(cache).or_insert(0) += 1;
        }
        Self { of, sums: sizes.into_values().map(LlcSums::new).collect() }
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn kept(&self) -> bool {
        !self.sums.is_empty()
    }

    /// A CPU publishes `after` instead of `before`.
    #[inline]
    pub(crate) fn replace(&self, cpu: CpuId, before: Sums, after: Sums) {
        self.sums[self.of[cpu.index()] as usize].replace(before, after);
    }

    /// Those of a cache.
    #[inline]
    pub(crate) fn get(&self, cache: u32) -> Sums {
        self.sums[cache as usize].get()
    }

    /// Each cache's, with its CPUs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Sums, impl Iterator<Item = CpuId>)> {
        self.sums.iter().zip(0_u32..).map(|(sums, cache)| {
            let cpus = self.of.iter().zip(0_u32..).filter(move |(of, _)| **of == cache);
            (sums.get(), cpus.map(|(_, cpu)| CpuId(cpu)))
        })
    }
}

/// Numbers of one or several CPUs that the balancer adds up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) load: u64,
    pub(crate) runnable: u64,
    /// Of each CPU at most its capacity.
    pub(crate) util: u64,
    pub(crate) nr_running: u32,
    pub(crate) h_nr_running: u32,
    pub(crate) idle_cpus: u32,
    /// CPUs with more than one task.
    pub(crate) overloaded_cpus: u32,
}

impl Sums {
    /// What one CPU adds.
    #[inline]
    pub(crate) fn of(cpu: &Published) -> Self {
        let nr_running = cpu.nr_running();
        Self {
            load: cpu.load(),
            runnable: cpu.runnable(),
            util: cpu.util().min(u64::from(cpu.capacity())),
            nr_running,
            h_nr_running: cpu.h_nr_runnable(),
            idle_cpus: u32::from(cpu.is_idle()),
            overloaded_cpus: u32::from(nr_running > 1),
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, other: Self) {
        self.load += other.load;
        self.runnable += other.runnable;
        self.util += other.util;
        self.nr_running += other.nr_running;
        self.h_nr_running += other.h_nr_running;
        self.idle_cpus += other.idle_cpus;
        self.overloaded_cpus += other.overloaded_cpus;
    }
}

/// The sums of a last-level cache, two small ones to a word: the fewer words change, the fewer additions.
#[derive(Debug)]
struct LlcSums {
    load: AtomicU64,
    runnable: AtomicU64,
    util: AtomicU64,
    /// `nr_running` and, in the lower half, `h_nr_running`.
    tasks: AtomicU64,
    /// `idle_cpus` and, in the lower half, `overloaded_cpus`.
    cpus: AtomicU64,
}

#[inline]
const fn pair(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

impl LlcSums {
    /// Of so many CPUs, all idle.
    fn new(nr_cpus: u32) -> Self {
        let zero = || AtomicU64::new(0);
        let cpus = AtomicU64::new(pair(nr_cpus, 0));
        Self { load: zero(), runnable: zero(), util: zero(), tasks: zero(), cpus }
    }

    /// A CPU publishes `after` instead of `before`.
    #[inline]
    fn replace(&self, before: Sums, after: Sums) {
        let change = |sum: &AtomicU64, before: u64, after: u64| {
            // Most publish nothing new, and an addition keeps the others from theirs.
            if before != after {
                sum.fetch_add(after.wrapping_sub(before), Relaxed);
            }
        };
        change(&self.load, before.load, after.load);
        change(&self.runnable, before.runnable, after.runnable);
        change(&self.util, before.util, after.util);
        let tasks = |sums: Sums| pair(sums.nr_running, sums.h_nr_running);
        change(&self.tasks, tasks(before), tasks(after));
        let cpus = |sums: Sums| pair(sums.idle_cpus, sums.overloaded_cpus);
        change(&self.cpus, cpus(before), cpus(after));
    }

    /// What they are now.
    #[inline]
    fn get(&self) -> Sums {
        let (tasks, cpus) = (self.tasks.load(Relaxed), self.cpus.load(Relaxed));
        Sums {
            load: self.load.load(Relaxed),
            runnable: self.runnable.load(Relaxed),
            util: self.util.load(Relaxed),
            nr_running: (tasks >> 32) as u32,
            h_nr_running: tasks as u32,
            idle_cpus: (cpus >> 32) as u32,
            overloaded_cpus: cpus as u32,
        }
    }
}
