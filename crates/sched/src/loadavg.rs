//! Load averages of 1, 5 and 15 minutes (`loadavg.c`, `/proc/loadavg`): exponential, of running, runnable and
//! uninterruptible tasks, sampled every five seconds and a tick.
//!
//! At its first tick after a sample is due, each CPU adds the change of its number. Ten ticks later, the first CPU with
//! a tick takes the sample. A CPU whose tick stops adds its change earlier to one of two baskets: if a sample is due,
//! to the next one's. If all CPUs slept, missed samples use the present number of tasks.
//!
//! Jiffies start with the host's clock. The first sample is after five seconds and eleven ticks.

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use crate::sync::{AtomicI64, AtomicU32, AtomicU64};

/// Bits after the point (`FSHIFT`).
const SHIFT: u32 = 11;
/// 1.0 (`FIXED_1`).
const ONE: u64 = 1 << SHIFT;
/// What a sample leaves of an average, of `ONE`: e^(-5 s / 1, 5 and 15 minutes) (`EXP_1`, `EXP_5`, `EXP_15`).
const EXP: [u64; 3] = [1884, 2014, 2037];
/// Ticks from due to sample, for contributions.
const GRACE: u64 = 10;
const SECOND: u64 = 1_000_000_000;

/// 1, 5 and 15 minutes; 2048 is one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadAvg(pub [u64; 3]);

impl LoadAvg {
    /// Hundredths of a task, rounded as in `/proc/loadavg`.
    pub fn hundredths(self) -> [u64; 3] {
        self.0.map(|load| {
            let rounded = load + ONE / 200;
            (rounded >> SHIFT) * 100 + (((rounded & (ONE - 1)) * 100) >> SHIFT)
        })
    }

    fn sample(&mut self, active: u64, n: u64) {
        for (load, exp) in self.0.iter_mut().zip(EXP) {
            *load = calc_load(*load, exp, active, n);
        }
    }
}

/// `/proc/loadavg`'s first three fields: `0.20 0.18 0.12`.
impl fmt::Display for LoadAvg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, hundredths) in self.hundredths().into_iter().enumerate() {
            let blank = if index > 0 { " " } else { "" };
            write!(f, "{blank}{}.{:02}", hundredths / 100, hundredths % 100)?;
        }
        Ok(())
    }
}

/// Returns an average after `n` samples of `active` (`calc_load_n`), in fixed point: 2048 is 1. `exp` is the part that
/// a sample leaves. Also used for pressure (PSI).
pub fn calc_load(load: u64, exp: u64, active: u64, n: u64) -> u64 {
    let exp = power(exp, n);
    // Rounded up while it rises and down while it falls, to reach whole numbers.
    let up = if active >= load { ONE - 1 } else { 0 };
    (load * exp + active * (ONE - exp) + up) / ONE
}

/// `base` to the power `n` in fixed point, each product rounded to nearest.
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

/// Nanoseconds between samples: five seconds and a tick (`LOAD_FREQ`).
fn interval(tick_ns: u64) -> u64 {
    (5 * (SECOND / tick_ns) + 1) * tick_ns
}

#[derive(Debug)]
pub(crate) struct Shares {
    /// Summed contributions (`calc_load_tasks`).
    tasks: AtomicI64,
    /// Changes of CPUs whose tick stopped (`calc_load_nohz`).
    baskets: [AtomicI64; 2],
    /// The next due sample's; the other is for the one after.
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

    pub(crate) fn averages(&self) -> LoadAvg {
        LoadAvg([0, 1, 2].map(|index: usize| self.averages[index].load(Relaxed)))
    }

    /// Takes a sample that was due long enough before `now` (`calc_global_load`).
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
        // Every CPU slept, and samples were missed.
        let missed = now.saturating_sub(due).saturating_sub(GRACE * tick_ns) / interval;
        let next = due.saturating_add((1 + missed).saturating_mul(interval));
        if self.due.compare_exchange(due, next, Relaxed, Relaxed).is_err() {
            // Another CPU takes it.
            return;
        }
        let contributed = self.baskets[self.basket.load(Relaxed) as usize & 1].swap(0, Relaxed);
        let tasks = self.tasks.fetch_add(contributed, Relaxed) + contributed;
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

#[derive(Debug)]
pub(crate) struct RqLoad {
    /// Uninterruptible sleeps begun here less those ended here; meaningful only summed over CPUs.
    pub(crate) nr_uninterruptible: i64,
    /// The CPU's last contribution (`calc_load_active`).
    contributed: i64,
    /// When the next contribution is due, nanoseconds.
    pub(crate) due: u64,
}

impl RqLoad {
    pub(crate) fn new(tick_ns: u64) -> Self {
        Self { nr_uninterruptible: 0, contributed: 0, due: interval(tick_ns) }
    }

    fn fold(&mut self, nr_running: u32) -> i64 {
        let active = i64::from(nr_running) + self.nr_uninterruptible;
        active - core::mem::replace(&mut self.contributed, active)
    }
}

#[inline]
pub(crate) fn tick(shares: &Shares, load: &mut RqLoad, nr_running: u32, now: u64, tick_ns: u64) {
    shares.advance(now, tick_ns);
    if now >= load.due {
        let change = load.fold(nr_running);
        shares.tasks.fetch_add(change, Relaxed);
        load.due = load.due.saturating_add(interval(tick_ns));
    }
}

/// Adds a CPU's change before its tick stops (`calc_load_nohz_start`).
#[inline]
pub(crate) fn tick_stopped(shares: &Shares, load: &mut RqLoad, nr_running: u32, now: u64) {
    let change = load.fold(nr_running);
    if change != 0 {
        // Of a sample already due, other CPUs may have contributed, and will not again.
        let late = u32::from(now >= shares.due.load(Relaxed));
        let basket = shares.basket.load(Relaxed).wrapping_add(late);
        shares.baskets[basket as usize & 1].fetch_add(change, Relaxed);
    }
}

/// Restarts a CPU's tick (`calc_load_nohz_stop`). The stop added its change, so a sample already due needs none.
#[inline]
pub(crate) fn tick_restarted(shares: &Shares, load: &mut RqLoad, now: u64, tick_ns: u64) {
    shares.advance(now, tick_ns);
    if now >= load.due {
        let due = shares.due.load(Relaxed);
        load.due = if now >= due { due.saturating_add(interval(tick_ns)) } else { due };
    }
}

/// Returns the averages that a program would read now.
pub(crate) fn read(shares: &Shares, now: u64, tick_ns: u64) -> LoadAvg {
    shares.advance(now, tick_ns);
    shares.averages()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn prints_as_the_kernel_does() {
        assert_eq!(LoadAvg([0, 2048, 3072]).to_string(), "0.00 1.00 1.50");
        // 0.999 prints as 1.00; the rest after rounding at the second place is cut off.
        assert_eq!(LoadAvg([2046, 2037, 20 * 2048 + 41]).to_string(), "1.00 0.99 20.02");
    }

    /// 1 - 1/e after a minute of one task, and 1.00 in the limit.
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

    /// By hand: 2048 * 1884 / 2048 is 1884, and so on.
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
            // Single steps round down a hundred times, by less than one each.
            assert!(a >= b && a - b < 100, "{at_once:?} {one_by_one:?}");
        }
    }

    #[test]
    fn samples_missed_while_all_cpus_slept_are_made_up_for() {
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

    /// A stopped tick's change enters the next sample or, once that is due, the one after.
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
