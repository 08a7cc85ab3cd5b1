//! What the CPUs of a last-level cache publish, added up as they publish it.
//!
//! A newly-idle CPU of a large machine looks at all the others, every time; with the sums it reads a cache line for each
//! last-level cache instead of one for each CPU. Every CPU adds to them by how much its own numbers have changed, with its
//! run queue held, so that they are exact whenever nobody is publishing. On small machines they are not kept: there looking
//! at every CPU costs less than the additions.

use core::sync::atomic::Ordering::Relaxed;

use crate::shared::Published;
use crate::sync::AtomicU64;

/// Fewer CPUs than this are looked at one by one.
pub(crate) const MANY_CPUS: usize = 64;
/// Nor does it pay where so few of them share a cache.
pub(crate) const MANY_IN_LLC: usize = 4;

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
pub(crate) struct LlcSums {
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
    pub(crate) fn new(nr_cpus: u32) -> Self {
        let zero = || AtomicU64::new(0);
        let cpus = AtomicU64::new(pair(nr_cpus, 0));
        Self { load: zero(), runnable: zero(), util: zero(), tasks: zero(), cpus }
    }

    /// A CPU publishes `after` instead of `before`.
    #[inline]
    pub(crate) fn replace(&self, before: Sums, after: Sums) {
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
    pub(crate) fn get(&self) -> Sums {
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
