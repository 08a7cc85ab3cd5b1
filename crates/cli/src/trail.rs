//! The digests of a run on its way. Another run that differs from it in an event can end at the next mark.

use std::sync::atomic::{AtomicBool, Ordering};

use vruntime_trace::{CpuId, Digest, Event, Sink};

/// Events between two marks.
const EVERY: u64 = 1024;

/// The digest of a run, and those after every [`EVERY`] events.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    digest: Digest,
    events: u64,
    marks: Vec<u64>,
}

impl Trail {
    pub(crate) fn digest(&self) -> u64 {
        self.digest.value()
    }

    /// Returns all marks, and the digest at the end.
    pub(crate) fn into_marks(mut self) -> Vec<u64> {
        self.marks.push(self.digest.value());
        self.marks
    }
}

impl Sink for Trail {
    #[inline]
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        self.digest.event(at, cpu, event);
        self.events += 1;
        if self.events.is_multiple_of(EVERY) {
            self.marks.push(self.digest.value());
        }
    }
}

/// Compares a run with the marks of another, and notes when they diverge.
#[derive(Debug)]
pub(crate) struct Follower<'a> {
    trail: Trail,
    other: &'a [u64],
    has_diverged: &'a AtomicBool,
}

impl<'a> Follower<'a> {
    pub(crate) fn new(other: &'a [u64], has_diverged: &'a AtomicBool) -> Self {
        Self { trail: Trail::default(), other, has_diverged }
    }

    /// Whether the complete run differs from the other.
    pub(crate) fn differs(self) -> bool {
        self.trail.into_marks() != self.other
    }
}

impl Sink for Follower<'_> {
    #[inline]
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        let before = self.trail.marks.len();
        self.trail.event(at, cpu, event);
        if self.trail.marks.len() > before && self.trail.marks.last() != self.other.get(before) {
            self.has_diverged.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use vruntime_trace::TaskId;

    use super::*;

    /// Tells a sink `count` events, of which one has another time.
    fn fed<S: Sink>(mut sink: S, count: u64, other: Option<u64>) -> S {
        for at in 0..count {
            let late = u64::from(other == Some(at));
            sink.event(at + late, CpuId(0), &Event::SleepReturn { task: TaskId(0), late });
        }
        sink
    }

    #[test]
    fn a_run_diverges_at_the_mark_after_the_first_other_event() {
        const COUNT: u64 = 3 * EVERY + 7;
        let marks = fed(Trail::default(), COUNT, None).into_marks();
        assert_eq!(marks.len(), 4);
        // The other event, the events after which the runs are apart, and whether the complete run differs.
        for (other, noticed, differs) in [
            (None, None, false),
            (Some(0), Some(EVERY), true),
            (Some(EVERY), Some(2 * EVERY), true),
            (Some(COUNT - 1), None, true),
        ] {
            let has_diverged = AtomicBool::new(false);
            let noticed_at = (1..=COUNT).find(|&count| {
                has_diverged.store(false, Ordering::Relaxed);
                fed(Follower::new(&marks, &has_diverged), count, other);
                has_diverged.load(Ordering::Relaxed)
            });
            assert_eq!(noticed_at, noticed, "{other:?}");
            assert_eq!(fed(Follower::new(&marks, &has_diverged), COUNT, other).differs(), differs, "{other:?}");
        }
        // A shorter run differs, and so does a longer one.
        let has_diverged = AtomicBool::new(false);
        for count in [0, COUNT - 1, COUNT + 1, 4 * EVERY, 5 * EVERY] {
            assert!(fed(Follower::new(&marks, &has_diverged), count, None).differs(), "{count}");
        }
    }
}
