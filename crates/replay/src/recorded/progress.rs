//! How much time on a CPU a thread had had, and how much work it had done, at each time.

use super::threads::Thread;

/// How far a thread was at each time.
pub(super) struct Progress {
    /// For each time on a CPU: since, until, the time and the work before.
    ran: Vec<(u64, u64, u64, u64)>,
    /// The work of each time on a CPU.
    works: Vec<u64>,
}

impl Progress {
    pub(super) fn new(thread: &Thread) -> Self {
        let (mut time, mut work) = (0, 0);
        let mut this = Self { ran: Vec::with_capacity(thread.ran.len()), works: Vec::with_capacity(thread.ran.len()) };
        for run in &thread.ran {
            this.ran.push((run.since, run.until, time, work));
            this.works.push(run.work);
            time += run.until - run.since;
            work += run.work;
        }
        this
    }

    /// Returns the time on a CPU, and the work, until `at`.
    fn until(&self, at: u64) -> (u64, u64) {
        let Some(last) = self.ran.partition_point(|run| run.0 <= at).checked_sub(1) else { return (0, 0) };
        let (since, until, time, work) = self.ran[last];
        let (passed, all) = (at.min(until) - since, (until - since).max(1));
        (time + passed, work + part(self.works[last], passed, all))
    }

    /// Returns when the thread had done `work`.
    pub(super) fn when(&self, work: u64) -> u64 {
        let Some(last) = self.ran.partition_point(|run| run.3 < work).checked_sub(1) else {
            return self.ran.first().map_or(0, |run| run.0);
        };
        let (since, until, _, before) = self.ran[last];
        let (done, all) = ((work - before).min(self.works[last]), self.works[last].max(1));
        since + part(until - since, done, all)
    }

    pub(super) fn ran(&self, from: u64, until: u64) -> u64 {
        self.until(until).0.saturating_sub(self.until(from).0)
    }

    pub(super) fn work(&self, from: u64, until: u64) -> u64 {
        // Nothing precedes the start.
        let before = if from == 0 { 0 } else { self.until(from).1 };
        self.until(until).1.saturating_sub(before)
    }

    /// Whether the thread is on no CPU.
    pub(super) fn is_off(&self, at: u64) -> bool {
        let last = self.ran.partition_point(|run| run.0 <= at).checked_sub(1);
        last.is_none_or(|last| self.ran[last].1 <= at)
    }

    /// Returns when a thread that is on a CPU at that time leaves it, and when it is back.
    pub(super) fn break_after(&self, at: u64) -> Option<(u64, u64)> {
        let last = self.ran.partition_point(|run| run.0 <= at).checked_sub(1)?;
        Some((self.ran[last].1, self.ran.get(last + 1)?.0))
    }
}

/// Returns `value * part / all`.
fn part(value: u64, part: u64, all: u64) -> u64 {
    // Nearly all products are short, and divide faster.
    match value.checked_mul(part) {
        Some(product) => product / all,
        None => (u128::from(value) * u128::from(part) / u128::from(all)) as u64,
    }
}
