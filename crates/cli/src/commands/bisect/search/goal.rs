//! The change of the figure between the two sides, and whether it is one.

use super::Ran;

/// A set explains the change if its effect misses at most this part, or the noise.
const ENOUGH: f64 = 0.1;

/// A change to be explained.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Goal {
    pub(super) total: f64,
    pub(super) noise: f64,
}

impl Goal {
    /// Returns the change between two sides.
    pub(super) fn of([first, last]: [&Ran; 2]) -> Self {
        Self { total: last.mean() - first.mean(), noise: first.noise().max(last.noise()) }
    }

    /// Whether the rest that an effect leaves is a tenth of the change at most, or within the noise.
    pub(in super::super) fn is_near(self, joint: f64) -> bool {
        (self.total - joint).abs() <= (self.total.abs() * ENOUGH).max(self.noise)
    }

    /// Whether an effect is more than half of the change.
    pub(super) fn is_most(self, joint: f64) -> bool {
        joint * self.total.signum() > self.total.abs() / 2.0
    }

    pub(super) fn is_met(self, joint: f64) -> bool {
        self.is_near(joint) && self.is_most(joint)
    }

    /// Whether the noise of the two means that it compares can make up the rest.
    pub(super) fn may_be_met(self, joint: f64) -> bool {
        self.is_most(joint) && (self.total - joint).abs() <= 2.0 * self.noise
    }
}

/// Whether the figure of two sides differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Verdict {
    /// By more than the noise, or in all seeds.
    Differs,
    WithinNoise,
    /// Other seeds do not show the difference again.
    Chance,
}

impl Verdict {
    pub(super) fn of(ends: [&Ran; 2], fresh: Option<&[Ran; 2]>) -> Self {
        let again =
            |[from, to]: &[Ran; 2]| differ([from, to]) && Goal::of(ends).total * Goal::of([from, to]).total > 0.0;
        match differ(ends) {
            false => Self::WithinNoise,
            true if fresh.is_none_or(again) => Self::Differs,
            true => Self::Chance,
        }
    }
}

fn differ([first, last]: [&Ran; 2]) -> bool {
    let goal = Goal::of([first, last]);
    goal.total.abs() > goal.noise || first.is_disjoint(last)
}

/// Whether seeds can make two sides differ by chance. They cannot if no value depends on them.
pub(in super::super) fn may_differ_by_chance(ends: [&Ran; 2]) -> bool {
    Goal::of(ends).noise > 0.0 && differ(ends)
}
