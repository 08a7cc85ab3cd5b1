//! The threads of a trace, and of its beginning.

use crate::recorded::{Event, Recorder, What};

/// Switches and nanoseconds of the beginning that selects what the trace leaves open. They bound the cost. A short
/// trace has the shorter beginning. With 10,000 switches, that of Java is too short: the mean error of 77 what-ifs is
/// 6.6 % instead of 6.1. With 20,000, as many of 167 what-ifs are near as with 50,000.
const SAMPLE_SWITCHES: u64 = 20_000;
const SAMPLE_NS: [u64; 2] = [500_000_000, 1_000_000_000];

/// A recorder of the whole trace, and one of its beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    pub(crate) recorder: Recorder,
    switches: u64,
    /// Ends and recorders of beginnings, the shortest first. At the end of the trace, the one that may decide what it
    /// leaves open.
    beginnings: Vec<(u64, Recorder)>,
}

impl Source {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self { recorder, ..Self::default() }
    }

    /// Takes an event.
    pub(crate) fn add(&mut self, event: &Event<'_>) {
        self.recorder.add(event);
        self.switches += u64::from(matches!(event.what, What::Switch { .. }));
        if self.switches < SAMPLE_SWITCHES {
            return;
        }
        let passed = |at: u64| SAMPLE_NS.partition_point(|&least| least <= at);
        if passed(event.at) > self.beginnings.last().map_or(0, |last| passed(last.0)) {
            let mut recorder = self.recorder.clone();
            recorder.goes_on_until(event.at);
            self.beginnings.push((event.at, recorder));
        }
    }

    /// Ends the trace. Keeps the longest beginning that is at most a third of it, or else a half.
    pub(crate) fn end(&mut self, at: u64) {
        self.recorder.goes_on_until(at);
        let longest = |part: u64| self.beginnings.iter().rposition(|beginning| beginning.0 <= at / part);
        let chosen = longest(3).or_else(|| longest(2));
        self.beginnings = chosen.map(|chosen| self.beginnings.swap_remove(chosen)).into_iter().collect();
    }

    /// Returns end and recorder of the beginning, if it can decide what the trace leaves open.
    pub(crate) fn sample(&self) -> Option<&(u64, Recorder)> {
        self.beginnings.first()
    }

    /// Applies `change` to the trace and its beginning.
    pub(crate) fn change(&mut self, change: impl Fn(Recorder) -> Recorder) {
        let beginnings = self.beginnings.iter_mut().map(|(_, recorder)| recorder);
        for recorder in std::iter::once(&mut self.recorder).chain(beginnings) {
            *recorder = change(std::mem::take(recorder));
        }
    }
}
