//! The load average of 1, 5 and 15 minutes (`loadavg.c`, `/proc/loadavg`): exponential averages of the number of
//! running, runnable and uninterruptible tasks, with a sample every five seconds and a tick.
//!
//! No CPU counts all tasks of a large machine at one instant. At its first tick after a sample is due, each CPU adds
//! the change of its own number. Ten ticks later, the first CPU with a tick adds a sample. A CPU whose tick stops adds
//! its change earlier, to one of two baskets: that of the next sample if the present one is due already. If all CPUs
//! slept, missed samples are added later with the present number of tasks.
//!
//! Jiffies count from the start of the host's clock, as from a boot. The first sample is after five seconds and eleven
//! ticks.

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use crate::policy::Policy;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::sync::{AtomicI64, AtomicU32, AtomicU64};
use crate::tunables::Tunables;

/// Bits after the point (`FSHIFT`).
const SHIFT: u32 = 11;
/// 1.0 (`FIXED_1`).
const ONE: u64 = 1 << SHIFT;
/// What is left of an average after a sample, of `ONE`: e^(-5 s / 1, 5 and 15 minutes) (`EXP_1`, `EXP_5`, `EXP_15`).
const EXP: [u64; 3] = [1884, 2014, 2037];
/// Ticks the CPUs have to tell their numbers in before the sample is made.
const GRACE: u64 = 10;
/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Load averages of 1, 5 and 15 minutes in the kernel's fixed point: 2048 is one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadAvg(pub [u64; 3]);

impl LoadAvg {
    /// Hundredths of a task, rounded as `/proc/loadavg` does.
    pub fn hundredths(self) -> [u64; 3] {
        self.0.map(|load| {
            let rounded = load + ONE / 200;
            (rounded >> SHIFT) * 100 + (((rounded & (ONE - 1)) * 100) >> SHIFT)
        })
    }

    /// One sample of `active` tasks, after `n - 1` others of as many.
    fn sample(&mut self, active: u64, n: u64) {
        for (load, exp) in self.0.iter_mut().zip(EXP) {
            *load = calc_load(*load, exp, active, n);
        }
    }
}

/// The first three fields of `/proc/loadavg`: `0.20 0.18 0.12`.
impl fmt::Display for LoadAvg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, hundredths) in self.hundredths().into_iter().enumerate() {
            let blank = if index > 0 { " " } else { "" };
            write!(f, "{blank}{}.{:02}", hundredths / 100, hundredths % 100)?;
        }
        Ok(())
    }
}

/// An average after `n` samples of `active` (`calc_load_n`), all in the kernel's fixed point: 2048 is 1. `exp` is what
/// one sample leaves of the average. Pressure (PSI) is averaged by it, too.
pub fn calc_load(load: u64, exp: u64, active: u64, n: u64) -> u64 {
    let exp = power(exp, n);
    // Rounded up while it rises and down while it falls, so that it reaches whole numbers.
    let up = if active >= load { ONE - 1 } else { 0 };
    (load * exp + active * (ONE - exp) + up) / ONE
}

/// `base` to the power of `n`, both base and result in fixed point, each product rounded to nearest.
fn power(mut base: u64, mut n: u64) -> u64 {
    let times = |a: u64, b: u64| (a * b + ONE / 2) >> SHIFT;
    let mut result = ONE;
    while n > 0 {
        if n & 1 == 1 {
            result = times(result, base);
        }
        base = times(base, base);
        n >>= 1;
    }
    result
}

/// Nanoseconds from one sample to the next: five seconds and a tick (`LOAD_FREQ`).
fn interval(tick_ns: u64) -> u64 {
    (5 * (SECOND / tick_ns) + 1) * tick_ns
}

/// The contributions of the CPUs.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Tasks that all CPUs have added (`calc_load_tasks`).
    tasks: AtomicI64,
    /// Changes of CPUs whose tick stopped (`calc_load_nohz`).
    baskets: [AtomicI64; 2],
    /// Which basket belongs to the sample that is due next; the other one is for the one after it.
    basket: AtomicU32,
    /// When the next sample is due, nanoseconds, whole ticks (`calc_load_update`).
    due: AtomicU64,
    /// `avenrun`.
    averages: [AtomicU64; 3],
}

impl Shares {
    pub(crate) fn new(tick_ns: u64) -> Self {
        Self {
            tasks: AtomicI64::new(0),
            baskets: [AtomicI64::new(0), AtomicI64::new(0)],
            basket: AtomicU32::new(0),
            due: AtomicU64::new(interval(tick_ns)),
            averages: [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// The averages as they are.
    pub(crate) fn averages(&self) -> LoadAvg {
        LoadAvg([0, 1, 2].map(|index: usize| self.averages[index].load(Relaxed)))
    }

    /// Time has come to `now`: makes the sample that is due, if the CPUs have had the time to tell
    /// (`calc_global_load`).
    #[inline]
    fn advance(&self, now: u64, tick_ns: u64) {
        let due = self.due.load(Relaxed);
        if now >= due.saturating_add(GRACE * tick_ns) {
            self.make_sample(due, now, tick_ns);
        }
    }

    #[cold]
    fn make_sample(&self, due: u64, now: u64, tick_ns: u64) {
        let interval = interval(tick_ns);
        // Every CPU slept: samples were missed.
        let missed = now.saturating_sub(due).saturating_sub(GRACE * tick_ns) / interval;
        let next = due.saturating_add((1 + missed).saturating_mul(interval));
        if self.due.compare_exchange(due, next, Relaxed, Relaxed).is_err() {
            // Another CPU makes it.
            return;
        }
        let told = self.baskets[self.basket.load(Relaxed) as usize & 1].swap(0, Relaxed);
        let tasks = self.tasks.fetch_add(told, Relaxed) + told;
        let active = tasks.max(0) as u64 * ONE;
        let mut averages = self.averages();
        averages.sample(active, 1);
        if missed > 0 {
            averages.sample(active, missed);
        }
        for (place, value) in self.averages.iter().zip(averages.0) {
            place.store(value, Relaxed);
        }
        self.basket.fetch_add(1, Relaxed);
    }
}

/// What a CPU keeps for it.
#[derive(Debug)]
pub(crate) struct RqLoad {
    /// Tasks that went to sleep here uninterruptibly less those woken here from such a sleep: only the sum over all
    /// CPUs means something.
    pub(crate) nr_uninterruptible: i64,
    /// The CPU's last contribution (`calc_load_active`).
    told: i64,
    /// When it shall tell next, nanoseconds.
    pub(crate) due: u64,
}

impl RqLoad {
    pub(crate) fn new(tick_ns: u64) -> Self {
        Self { nr_uninterruptible: 0, told: 0, due: interval(tick_ns) }
    }

    /// Returns the change since the last contribution.
    fn fold(&mut self, nr_running: u32) -> i64 {
        let active = i64::from(nr_running) + self.nr_uninterruptible;
        active - core::mem::replace(&mut self.told, active)
    }
}

/// The tick of a CPU.
#[inline]
pub(crate) fn tick<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, now: u64) {
    let tick_ns = shared.config.tunables.tick_ns();
    shared.loadavg.advance(now, tick_ns);
    if now >= rq.load.due {
        let change = rq.load.fold(rq.nr_running);
        shared.loadavg.tasks.fetch_add(change, Relaxed);
        rq.load.due = rq.load.due.saturating_add(interval(tick_ns));
    }
}

/// Adds a CPU's change before its tick stops (`calc_load_nohz_start`).
#[inline]
pub(crate) fn tick_stopped<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, now: u64) {
    let change = rq.load.fold(rq.nr_running);
    if change != 0 {
        let shares = &shared.loadavg;
        // Once the sample is due some have told already, and their ticks will come no more before it is made.
        let late = u32::from(now >= shares.due.load(Relaxed));
        let basket = shares.basket.load(Relaxed).wrapping_add(late);
        shares.baskets[basket as usize & 1].fetch_add(change, Relaxed);
    }
}

/// Restarts the tick of a CPU (`calc_load_nohz_stop`). Its change was added when the tick stopped, so a sample that is
/// due already needs nothing of it.
#[inline]
pub(crate) fn tick_restarted<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, now: u64) {
    let tick_ns = shared.config.tunables.tick_ns();
    shared.loadavg.advance(now, tick_ns);
    if now >= rq.load.due {
        let due = shared.loadavg.due.load(Relaxed);
        rq.load.due = if now >= due { due.saturating_add(interval(tick_ns)) } else { due };
    }
}

/// The averages as a program that runs now would read them.
pub(crate) fn read<P: Policy>(shared: &Shared<P>, now: u64) -> LoadAvg {
    shared.loadavg.advance(now, shared.config.tunables.tick_ns());
    shared.loadavg.averages()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn prints_as_the_kernel_does() {
        assert_eq!(LoadAvg([0, 2048, 3072]).to_string(), "0.00 1.00 1.50");
        // 0.999 is 1.00; what follows the point is cut off after rounding at the second place.
        assert_eq!(LoadAvg([2046, 2037, 20 * 2048 + 41]).to_string(), "1.00 0.99 20.02");
    }

    /// The classical curve: after a minute of one task 1 - 1/e, in the limit 1.00.
    #[test]
    fn one_task_makes_one_in_the_end() {
        let mut load = LoadAvg::default();
        for _ in 0..12 {
            load.sample(ONE, 1);
        }
        assert_eq!(load.to_string(), "0.63 0.18 0.06");
        for _ in 0..2000 {
            load.sample(ONE, 1);
        }
        assert_eq!(load, LoadAvg([ONE; 3]));
        for _ in 0..2000 {
            load.sample(0, 1);
        }
        assert_eq!(load, LoadAvg([0; 3]));
    }

    /// Worked by hand: 2048 * 1884 / 2048 is 1884, and so on.
    #[test]
    fn the_fixed_point_is_the_kernels() {
        let mut load = LoadAvg([2048, 2048, 2048]);
        load.sample(0, 1);
        assert_eq!(load, LoadAvg([1884, 2014, 2037]));
        load.sample(0, 1);
        assert_eq!(load, LoadAvg([1733, 1980, 2026]));
        load.sample(3 * ONE, 1);
        // (1733 * 1884 + 6144 * 164 + 2047) / 2048 = 2087.2...
        assert_eq!(load.0[0], 2087);
    }

    #[test]
    fn missed_samples_are_one_with_the_factor_to_that_power() {
        assert_eq!([power(1884, 0), power(1884, 1), power(1884, 2)], [2048, 1884, 1733]);
        let (mut at_once, mut one_by_one) = (LoadAvg([8 * ONE; 3]), LoadAvg([8 * ONE; 3]));
        at_once.sample(0, 100);
        (0..100).for_each(|_| one_by_one.sample(0, 1));
        for (a, b) in at_once.0.into_iter().zip(one_by_one.0) {
            // One by one it is rounded down a hundred times, by less than one each.
            assert!(a >= b && a - b < 100, "{at_once:?} {one_by_one:?}");
        }
    }

    #[test]
    fn samples_that_everybody_slept_through_are_made_up_for() {
        let tick_ns = 4_000_000;
        let (every, first) = (interval(tick_ns), interval(tick_ns) + GRACE * tick_ns);
        assert_eq!(every, 5_004_000_000);
        let shares = Shares::new(tick_ns);
        shares.tasks.store(2, Relaxed);
        shares.advance(first - 1, tick_ns);
        assert_eq!(shares.averages(), LoadAvg::default());
        shares.advance(first + 3 * every + 7, tick_ns);
        assert_eq!(shares.due.load(Relaxed), 5 * every);
        let mut expected = LoadAvg::default();
        expected.sample(2 * ONE, 1);
        expected.sample(2 * ONE, 3);
        assert_eq!(shares.averages(), expected);
    }

    /// What a CPU tells as its tick stops enters the sample to come, or the one after it once that one is due.
    #[test]
    fn a_stopped_tick_tells_in_time() {
        let tick_ns = 1_000_000;
        let shares = Shares::new(tick_ns);
        let due = shares.due.load(Relaxed);
        shares.tasks.store(3, Relaxed);
        shares.baskets[0].store(-1, Relaxed);
        shares.baskets[1].store(-2, Relaxed);
        shares.advance(due + GRACE * tick_ns, tick_ns);
        assert_eq!(shares.tasks.load(Relaxed), 2);
        let second = shares.due.load(Relaxed) + GRACE * tick_ns;
        shares.advance(second, tick_ns);
        assert_eq!(shares.tasks.load(Relaxed), 0);
    }
}
