//! Sums over the CPUs of a last-level cache, updated whenever a CPU publishes.
//!
//! On a large machine, newly-idle balancing then reads one cache line for each last-level cache instead of each CPU. A
//! CPU adds the change of its own numbers under its run queue's lock, so the sums are exact while no CPU publishes.
//! Small machines keep no sums, since reading every CPU costs less.

use core::sync::atomic::Ordering::Relaxed;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use crate::config::Callers;
use crate::ids::CpuId;
use crate::shared::published::Published;
use crate::sync::AtomicU64;
use crate::topology::Topology;

/// The least number of CPUs for sums.
const MANY_CPUS: usize = 64;
/// The least mean number of CPUs of a cache.
const MANY_IN_LLC: usize = 4;

/// Returns each CPU's last-level cache, from 0, including offline and isolated CPUs; None if the machine keeps no sums.
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

/// The sums of all last-level caches, if kept.
#[derive(Debug)]
pub(crate) struct CacheSums {
    of: Vec<u32>,
    sums: Vec<LlcSums>,
    callers: Callers,
}

impl CacheSums {
    pub(crate) fn new(topology: &Topology, callers: Callers) -> Self {
        let of = caches(topology).unwrap_or_default();
        let mut sizes: BTreeMap<u32, u32> = BTreeMap::new();
        for &cache in &of {
            *sizes.entry(cache).or_insert(0) += 1;
        }
        Self { of, sums: sizes.into_values().map(LlcSums::new).collect(), callers }
    }

    #[inline]
    pub(crate) fn kept(&self) -> bool {
        !self.sums.is_empty()
    }

    /// Replaces a CPU's contribution.
    #[inline]
    pub(crate) fn replace(&self, cpu: CpuId, before: Sums, after: Sums) {
        self.sums[self.of[cpu.index()] as usize].replace(before, after, self.callers);
    }

    #[inline]
    pub(super) fn of_caches(&self, run: &Range<u32>) -> impl Iterator<Item = Sums> {
        self.sums[run.start as usize..run.end as usize].iter().map(LlcSums::get)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Sums, impl Iterator<Item = CpuId>)> {
        self.sums.iter().zip(0_u32..).map(|(sums, cache)| {
            let cpus = self.of.iter().zip(0_u32..).filter(move |(of, _)| **of == cache);
            (sums.get(), cpus.map(|(_, cpu)| CpuId(cpu)))
        })
    }
}

/// Numbers of one or several CPUs, two small ones to a word to save additions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) load: u64,
    pub(crate) runnable: u64,
    /// Of each CPU at most its capacity.
    pub(crate) util: u64,
    /// `nr_running`, and in the lower half `h_nr_running`.
    tasks: u64,
    /// `idle_cpus`, and in the lower half `overloaded_cpus`.
    cpus: u64,
}

#[inline]
const fn pair(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

impl Sums {
    #[inline]
    pub(crate) fn of(cpu: &Published) -> Self {
        let nr_running = cpu.nr_running();
        Self {
            load: cpu.load(),
            runnable: cpu.runnable(),
            util: cpu.util().min(u64::from(cpu.capacity())),
            tasks: pair(nr_running, cpu.h_nr_running()),
            cpus: pair(u32::from(cpu.is_idle()), u32::from(nr_running > 1)),
        }
    }

    /// Returns the contribution of a CPU without its running task of this load and runnable average. `util` is the
    /// remaining utilisation.
    pub(crate) fn without(cpu: &Published, load: u64, runnable: u64, util: u64) -> Self {
        let nr_running = cpu.nr_running().saturating_sub(1);
        Self {
            load: cpu.load().saturating_sub(load),
            runnable: cpu.runnable().saturating_sub(runnable),
            util: util.min(u64::from(cpu.capacity())),
            tasks: pair(nr_running, cpu.h_nr_running().saturating_sub(1)),
            cpus: pair(u32::from(nr_running == 0), u32::from(nr_running > 1)),
        }
    }

    #[inline]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            load: self.load + other.load,
            runnable: self.runnable + other.runnable,
            util: self.util + other.util,
            tasks: self.tasks + other.tasks,
            cpus: self.cpus + other.cpus,
        }
    }

    #[inline]
    pub(crate) const fn nr_running(&self) -> u32 {
        (self.tasks >> 32) as u32
    }

    #[inline]
    pub(crate) const fn h_nr_running(&self) -> u32 {
        self.tasks as u32
    }

    #[inline]
    pub(crate) const fn idle_cpus(&self) -> u32 {
        (self.cpus >> 32) as u32
    }

    /// CPUs with more than one task.
    #[inline]
    pub(crate) const fn overloaded_cpus(&self) -> u32 {
        self.cpus as u32
    }
}

#[derive(Debug)]
struct LlcSums {
    load: AtomicU64,
    runnable: AtomicU64,
    util: AtomicU64,
    tasks: AtomicU64,
    cpus: AtomicU64,
}

impl LlcSums {
    fn new(nr_cpus: u32) -> Self {
        let zero = || AtomicU64::new(0);
        let cpus = AtomicU64::new(pair(nr_cpus, 0));
        Self { load: zero(), runnable: zero(), util: zero(), tasks: zero(), cpus }
    }

    #[inline]
    fn replace(&self, before: Sums, after: Sums, callers: Callers) {
        let change = |sum: &AtomicU64, before: u64, after: u64| {
            let difference = after.wrapping_sub(before);
            if callers == Callers::One {
                sum.store(sum.load(Relaxed).wrapping_add(difference), Relaxed);
            } else if difference != 0 {
                // Most publish nothing new, and an addition delays other CPUs.
                sum.fetch_add(difference, Relaxed);
            }
        };
        change(&self.load, before.load, after.load);
        change(&self.runnable, before.runnable, after.runnable);
        change(&self.util, before.util, after.util);
        change(&self.tasks, before.tasks, after.tasks);
        change(&self.cpus, before.cpus, after.cpus);
    }

    #[inline]
    fn get(&self) -> Sums {
        Sums {
            load: self.load.load(Relaxed),
            runnable: self.runnable.load(Relaxed),
            util: self.util.load(Relaxed),
            tasks: self.tasks.load(Relaxed),
            cpus: self.cpus.load(Relaxed),
        }
    }
}
