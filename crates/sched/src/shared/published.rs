//! What each CPU publishes.

use core::sync::atomic::Ordering::Relaxed;

use crate::sync::{AtomicBool, AtomicU32, AtomicU64};

/// Published sums of a CPU's fair class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FairStats {
    /// `cfs_rq.avg.load_avg` of the root.
    pub load: u64,
    /// `runnable_avg` of the root.
    pub runnable: u64,
    /// `util_avg` of the root.
    pub util: u64,
    /// Summed estimated utilisation of queued tasks.
    pub util_est: u64,
    /// Runnable tasks, in all levels.
    pub h_nr_runnable: u32,
    /// Those, and delayed dequeues.
    pub h_nr_queued: u32,
    /// Of `h_nr_queued`: SCHED_IDLE or in an idle group.
    pub h_nr_idle: u32,
}

/// A CPU's published values.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Published {
    load: AtomicU64,
    runnable: AtomicU64,
    util: AtomicU64,
    nr_running: AtomicU32,
    h_nr_runnable: AtomicU32,
    h_nr_queued: AtomicU32,
    h_nr_idle: AtomicU32,
    idle: AtomicBool,
    pub(crate) need_resched: AtomicBool,
    counts_delayed: bool,
    /// Copied from the topology: sums over CPUs then need one cache line each.
    capacity: u32,
    /// What higher classes leave.
    capacity_of: AtomicU32,
    misfit_task_load: AtomicU64,
}

impl Published {
    /// Returns an idle CPU of this capacity, of 1024.
    pub(super) fn new(capacity: u32, counts_delayed: bool) -> Self {
        let capacity_of = AtomicU32::new(capacity);
        Self { idle: AtomicBool::new(true), counts_delayed, capacity, capacity_of, ..Self::default() }
    }

    pub(super) fn set_capacity_of(&self, left: u32) -> bool {
        let news = self.capacity_of.load(Relaxed) != left;
        if news {
            self.capacity_of.store(left, Relaxed);
        }
        news
    }

    /// Queued tasks, including the running one.
    #[inline]
    pub fn nr_running(&self) -> u32 {
        self.nr_running.load(Relaxed)
    }

    /// Runnable tasks of the fair class.
    #[inline]
    pub fn h_nr_runnable(&self) -> u32 {
        self.h_nr_runnable.load(Relaxed)
    }

    /// Tasks that the balancer counts; in 6.12 including delayed dequeues.
    #[inline]
    pub(crate) fn h_nr_running(&self) -> u32 {
        if self.counts_delayed { self.h_nr_queued.load(Relaxed) } else { self.h_nr_runnable() }
    }

    /// Tasks with a delayed dequeue (`cfs_h_nr_delayed`).
    #[inline]
    pub fn nr_delayed(&self) -> u32 {
        self.h_nr_queued.load(Relaxed).saturating_sub(self.h_nr_runnable())
    }

    /// Whether all its tasks are fair.
    #[inline]
    pub fn is_fair(&self) -> bool {
        self.nr_running.load(Relaxed) == self.h_nr_queued.load(Relaxed)
    }

    /// Load average of the fair class.
    #[inline]
    pub fn load(&self) -> u64 {
        self.load.load(Relaxed)
    }

    /// Utilisation of the fair class: higher of average and estimate.
    #[inline]
    pub fn util(&self) -> u64 {
        self.util.load(Relaxed)
    }

    /// Whether the idle task runs and no task waits (`idle_cpu`).
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.idle.load(Relaxed)
    }

    /// Whether it has only SCHED_IDLE tasks (`sched_idle_cpu`).
    #[inline]
    pub fn is_sched_idle(&self) -> bool {
        let nr = self.nr_running.load(Relaxed);
        nr > 0 && nr == self.h_nr_idle.load(Relaxed)
    }

    /// Average runnable fair tasks, in the scale of weights.
    #[inline]
    pub fn runnable(&self) -> u64 {
        self.runnable.load(Relaxed)
    }

    /// Capacity, of 1024.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Capacity left for the fair class, of 1024 (`capacity_of`).
    #[inline]
    pub fn capacity_of(&self) -> u32 {
        self.capacity_of.load(Relaxed)
    }

    /// Returns the running task's load if it does not fit this CPU, else 0.
    #[inline]
    pub fn misfit_task_load(&self) -> u64 {
        self.misfit_task_load.load(Relaxed)
    }

    #[inline]
    pub(crate) fn set_misfit_task_load(&self, load: u64) {
        self.misfit_task_load.store(load, Relaxed);
    }

    #[inline]
    pub(crate) fn publish_core(&self, nr_running: u32, idle: bool) {
        self.nr_running.store(nr_running, Relaxed);
        self.idle.store(idle && nr_running == 0, Relaxed);
    }

    /// Publishes the fair class's sums.
    #[inline]
    pub fn publish_fair(&self, stats: FairStats) {
        self.load.store(stats.load, Relaxed);
        self.runnable.store(stats.runnable, Relaxed);
        self.util.store(stats.util.max(stats.util_est), Relaxed);
        self.h_nr_runnable.store(stats.h_nr_runnable, Relaxed);
        self.h_nr_queued.store(stats.h_nr_queued, Relaxed);
        self.h_nr_idle.store(stats.h_nr_idle, Relaxed);
    }
}

/// An idle CPU. Times are nanoseconds.
#[derive(Debug)]
pub(crate) struct Idleness {
    since: AtomicU64,
    exit_latency: AtomicU64,
    avg_idle: AtomicU64,
    /// Average cost of searches for an idle CPU (`avg_scan_cost`).
    avg_scan_cost: AtomicU64,
    /// Half of the average idle time, less what searches took since the last wakeup here. It halves at each tick.
    aged_idle: AtomicU64,
    /// The jiffy of that wakeup, or of the last halving.
    aged_at: AtomicU64,
}

impl Default for Idleness {
    fn default() -> Self {
        Self {
            since: AtomicU64::new(0),
            exit_latency: AtomicU64::new(u64::MAX),
            avg_idle: AtomicU64::new(1_000_000),
            avg_scan_cost: AtomicU64::new(0),
            aged_idle: AtomicU64::new(1_000_000),
            aged_at: AtomicU64::new(0),
        }
    }
}

/// Cost of a look at one CPU, nanoseconds. The kernel measures it; here the clock stands still during a search.
const LOOK_NS: u64 = 20;

impl Idleness {
    pub(crate) fn since(&self) -> u64 {
        self.since.load(Relaxed)
    }

    #[inline]
    pub(crate) fn begin(&self, now: u64) {
        self.since.store(now, Relaxed);
    }

    /// `u64::MAX` if unknown.
    pub(crate) fn exit_latency(&self) -> u64 {
        self.exit_latency.load(Relaxed)
    }

    pub(crate) fn set_avg_idle(&self, avg_idle: u64) {
        self.avg_idle.store(avg_idle, Relaxed);
    }

    /// Returns how many of `span` CPUs a search may check (SIS_PROP): in 1/512 of the average idle time, or four.
    ///
    /// 5.14+ ([`AgesIdle`](crate::kernels::Behaviour::AgesIdle)): in half of the average idle time, which halves at
    /// each tick after the wakeup that ended the idle time. `jiffy` is the present one.
    pub(crate) fn scan_budget(&self, span: u32, jiffy: Option<u64>) -> usize {
        let idle = match jiffy {
            None => self.avg_idle.load(Relaxed) / 512,
            Some(jiffy) => self.aged(jiffy),
        };
        let cost = self.avg_scan_cost.load(Relaxed) + 1;
        (u64::from(span).saturating_mul(idle) / cost).max(4) as usize
    }

    fn aged(&self, jiffy: u64) -> u64 {
        let ticks = jiffy.saturating_sub(self.aged_at.load(Relaxed));
        let idle = self.aged_idle.load(Relaxed).checked_shr(ticks.min(64) as u32).unwrap_or(0);
        self.aged_idle.store(idle, Relaxed);
        self.aged_at.fetch_max(jiffy, Relaxed);
        idle
    }

    /// A wakeup ended the CPU's idle time in the jiffy.
    pub(crate) fn begin_aging(&self, avg_idle: u64, jiffy: u64) {
        self.aged_idle.store(avg_idle / 2, Relaxed);
        self.aged_at.store(jiffy, Relaxed);
    }

    /// Records how many CPUs a search checked. `ages`: its time shortens the [aged](Self::scan_budget) idle time.
    pub(crate) fn scanned(&self, cpus: u64, ages: bool) {
        if ages {
            let rest = self.aged_idle.load(Relaxed).saturating_sub(cpus * LOOK_NS);
            self.aged_idle.store(rest, Relaxed);
        }
        let (old, cost) = (self.avg_scan_cost.load(Relaxed) as i64, (cpus * LOOK_NS) as i64);
        self.avg_scan_cost.store((old + (cost - old) / 8) as u64, Relaxed);
    }

    pub(crate) fn set_exit_latency(&self, latency: Option<u64>) {
        self.exit_latency.store(latency.unwrap_or(u64::MAX), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 5.14+: half of the average idle time, halved at each tick, and shortened by searches. Before, 1/512 of it.
    #[test]
    fn the_budget_of_a_search_ages() {
        let idleness = Idleness::default();
        // An average search of 10 CPUs costs 200 ns.
        (0..200).for_each(|_| idleness.scanned(10, false));
        idleness.begin_aging(819_200, 7);
        idleness.set_avg_idle(819_200);
        let cost = idleness.avg_scan_cost.load(Relaxed) + 1;
        assert_eq!(idleness.scan_budget(64, None), (64 * 1600 / cost) as usize);
        let budget = |jiffy| idleness.scan_budget(64, Some(jiffy)) as u64;
        assert_eq!([budget(7), budget(8), budget(10)], [409_600, 204_800, 51_200].map(|idle| 64 * idle / cost));
        idleness.scanned(160, true);
        assert_eq!(idleness.aged_idle.load(Relaxed), 48_000);
        assert_eq!(budget(90), 4, "after many ticks");
    }
}
