//! Distributions of times: HDR histograms with two significant digits, and key figures.

use std::borrow::Cow;

use hdrhistogram::Histogram;

/// A median needs at least this number of values.
pub(crate) const SEVERAL: u64 = 20;
/// A 99th percentile needs at least this number of values. With fewer, it is the maximum.
pub(crate) const HUNDRED: u64 = 100;

/// Key figures of a distribution of times, in nanoseconds.
///
/// Percentiles are within 1 %, and exact below 256 ns. All other figures are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Number of times, never 0.
    pub count: u64,
    /// Minimum.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 75th percentile.
    pub p75_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.5th percentile.
    pub p995_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Mean, rounded down.
    pub mean_ns: u64,
    /// The last time. For several tasks, the last task's.
    pub last_ns: u64,
}

const PENDING: usize = 12;

/// Records times. New values are pending in the recorder itself. A full recorder adds them to the histogram, which has
/// about 10 KB and does not exist before.
///
/// A run has thousands of recorders with rare values, whose histograms are in no cache. The recorder's own cache line
/// is needed anyway.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Recorder {
    pending: [u32; PENDING],
    waiting: u32,
    recorded: Option<Box<Distribution>>,
}

#[derive(Clone, Debug)]
struct Distribution {
    histogram: Histogram<u32>,
    min: u64,
    max: u64,
    sum: u64,
    last: u64,
}

impl Recorder {
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        match (self.pending.get_mut(self.waiting as usize), u32::try_from(ns)) {
            (Some(free), Ok(ns)) => {
                *free = ns;
                self.waiting += 1;
            }
            _ => self.record_at_once(ns),
        }
    }

    /// Adds a time to the histogram: one beyond 4.29 s, or one that finds all pending places used.
    #[inline(never)]
    fn record_at_once(&mut self, ns: u64) {
        self.flush();
        self.recorded.get_or_insert_default().add(ns);
    }

    /// Adds pending values to the histogram.
    pub(crate) fn flush(&mut self) {
        let waiting = std::mem::take(&mut self.waiting) as usize;
        if waiting > 0 {
            self.recorded.get_or_insert_default().add_all(&self.pending[..waiting]);
        }
    }

    /// Returns all times, with pending ones.
    fn whole(&self) -> Option<Cow<'_, Distribution>> {
        if self.waiting == 0 {
            return self.recorded.as_deref().map(Cow::Borrowed);
        }
        let mut recorded = self.recorded.as_deref().cloned().unwrap_or_default();
        recorded.add_all(&self.pending[..self.waiting as usize]);
        Some(Cow::Owned(recorded))
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.flush();
        if let Some(theirs) = other.whole() {
            self.recorded.get_or_insert_default().merge(&theirs);
        }
    }

    /// Returns about `points` points: a time, and the part of times up to it. The last is the maximum.
    pub(crate) fn distribution(&self, points: usize) -> Vec<(u64, f64)> {
        self.whole().map_or_else(Vec::new, |recorded| recorded.distribution(points))
    }

    pub(crate) fn latency(&self) -> Option<Latency> {
        self.whole().map(|recorded| recorded.latency())
    }
}

impl Default for Distribution {
    #[expect(clippy::expect_used, reason = "the argument is a constant")]
    fn default() -> Self {
        let histogram = Histogram::new(2).expect("two significant digits are in the range the crate accepts");
        Self { histogram, min: u64::MAX, max: 0, sum: 0, last: 0 }
    }
}

impl Distribution {
    fn add_all(&mut self, times: &[u32]) {
        for &ns in times {
            self.add(ns.into());
        }
    }

    fn add(&mut self, ns: u64) {
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        self.sum = self.sum.saturating_add(ns);
        self.last = ns;
        // An auto-resizing histogram takes every representable value. Beyond 2^62 ns (146 years) it saturates.
        if self.histogram.record(ns).is_err() {
            self.histogram.saturating_record(ns);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum = self.sum.saturating_add(other.sum);
        self.last = other.last;
        // Both resize themselves, so adding cannot fail.
        let _in_range = self.histogram.add(&other.histogram);
    }

    fn distribution(&self, points: usize) -> Vec<(u64, f64)> {
        let (all, mut below, mut shown_part) = (self.histogram.len().max(1), 0_u64, 0.0);
        let mut out: Vec<(u64, f64)> = Vec::new();
        for value in self.histogram.iter_recorded() {
            below += value.count_since_last_iteration();
            let part = below as f64 / all as f64;
            // The tail is complete beyond 99 %.
            if out.is_empty() || part - shown_part >= 1.0 / points as f64 || part > 0.99 {
                out.push((value.value_iterated_to().min(self.max), part));
                shown_part = part;
            }
        }
        out
    }

    fn latency(&self) -> Latency {
        let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.max);
        Latency {
            count: self.histogram.len(),
            min_ns: self.min,
            p50_ns: at(0.5),
            p75_ns: at(0.75),
            p90_ns: at(0.9),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p995_ns: at(0.995),
            p999_ns: at(0.999),
            max_ns: self.max,
            mean_ns: self.sum / self.histogram.len().max(1),
            last_ns: self.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_one_percent_and_the_ends_exact() {
        let mut recorder = Recorder::default();
        assert_eq!(recorder.latency(), None);
        for value in 1..=100_000_u64 {
            recorder.record(value * 1_000);
        }
        recorder.record(7_000);
        let latency = recorder.latency().unwrap();
        assert_eq!((latency.count, latency.mean_ns), (100_001, 50_000_000));
        assert_eq!((latency.min_ns, latency.max_ns, latency.last_ns), (1_000, 100_000_000, 7_000));
        for (got, exact) in [
            (latency.p50_ns, 50_000_000_u64),
            (latency.p75_ns, 75_000_000),
            (latency.p90_ns, 90_000_000),
            (latency.p95_ns, 95_000_000),
            (latency.p99_ns, 99_000_000),
            (latency.p995_ns, 99_500_000),
            (latency.p999_ns, 99_900_000),
        ] {
            assert!(got.abs_diff(exact) * 100 <= exact, "{got} for {exact}");
        }
    }

    #[test]
    fn small_values_and_zero_are_exact() {
        let mut recorder = Recorder::default();
        for value in [0, 0, 7, 255] {
            recorder.record(value);
        }
        let latency = recorder.latency().unwrap();
        assert_eq!((latency.min_ns, latency.p50_ns, latency.p90_ns, latency.max_ns), (0, 0, 255, 255));
    }

    #[test]
    fn pending_values_count() {
        let (mut lazy, mut flushed) = (Recorder::default(), Recorder::default());
        for value in 1..=3 * PENDING as u64 + 5 {
            lazy.record(value);
            flushed.record(value);
            flushed.flush();
            let latency = lazy.latency().unwrap();
            assert_eq!((latency.count, latency.min_ns, latency.max_ns, latency.last_ns), (value, 1, value, value));
            assert_eq!(latency.mean_ns, value.div_ceil(2));
            assert_eq!(Some(latency), flushed.latency());
            assert_eq!(lazy.distribution(1000).len() as u64, value);
        }
    }

    #[test]
    fn the_tail_is_reported_in_full() {
        let mut recorder = Recorder::default();
        (0..992).for_each(|_| recorder.record(10));
        (1..=8).for_each(|late| recorder.record(late * 1_000_000));
        let tail: Vec<f64> = recorder.distribution(10).iter().map(|&(_, part)| part).collect();
        assert_eq!(tail, [0.992, 0.993, 0.994, 0.995, 0.996, 0.997, 0.998, 0.999, 1.0]);
    }

    #[test]
    fn merging_is_recording_both() {
        let (mut one, mut other, mut both) = (Recorder::default(), Recorder::default(), Recorder::default());
        for value in [11, 1] {
            other.record(value);
            both.record(value);
        }
        for value in [3, 90_000, 5_000_000_000] {
            one.record(value);
            both.record(value);
        }
        other.merge(&one);
        other.merge(&Recorder::default());
        assert_eq!(other.latency(), both.latency());
        let latency = both.latency().unwrap();
        assert_eq!(
            (latency.count, latency.min_ns, latency.max_ns, latency.last_ns),
            (5, 1, 5_000_000_000, 5_000_000_000)
        );
    }

    #[test]
    fn absurd_values_do_not_panic() {
        let mut recorder = Recorder::default();
        recorder.record(1);
        recorder.record(u64::MAX);
        recorder.record(u64::MAX);
        assert_eq!(recorder.latency().unwrap().max_ns, u64::MAX);
    }
}
