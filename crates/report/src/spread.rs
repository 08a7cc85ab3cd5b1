//! Mean and range of a figure over several seeds.

use serde_json::{Value, json};

use crate::units::three;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let first = *values.first()?;
        let (min, max) = values.iter().fold((first, first), |(min, max), &value| (min.min(value), max.max(value)));
        Some(Self { mean: values.iter().sum::<f64>() / values.len() as f64, min, max })
    }

    /// Whether the means are equal.
    pub(crate) fn is(self, other: Self) -> bool {
        self.mean.to_bits() == other.mean.to_bits()
    }

    /// Whether the ranges share no value, so that the difference exceeds chance.
    pub(crate) fn is_disjoint(self, other: Self) -> bool {
        self.max < other.min || other.max < self.min
    }

    /// Returns mean and half the range: `71.6 ±0.52`. Equal values have no range.
    pub(crate) fn text(self, format: fn(f64) -> String) -> String {
        let mean = format(self.mean);
        if self.min.to_bits() == self.max.to_bits() {
            return mean;
        }
        format!("{mean} ±{}", format((self.max - self.min) / 2.0))
    }

    pub(crate) fn json(self) -> Value {
        json!({ "mean": self.mean, "min": self.min, "max": self.max })
    }
}

/// Returns the near ends of two disjoint ranges.
pub(crate) fn certain(base: Spread, other: Spread) -> Option<(f64, f64)> {
    let ends = if base.max < other.min { (base.max, other.min) } else { (base.min, other.max) };
    base.is_disjoint(other).then_some(ends)
}

/// Returns the change as text: `+13.5 pp` of parts of a CPU (`in_points`), else `+24.3 %` or `x12.0`. With
/// `several` runs, `~` marks a change within the spread.
pub(crate) fn change(base: Spread, other: Spread, in_points: bool, several: bool) -> String {
    let text = if in_points {
        let points = format!("{:+.2} pp", (other.mean - base.mean) * 100.0);
        if ["+0.00 pp", "-0.00 pp"].contains(&points.as_str()) { "0 pp".to_owned() } else { points }
    } else if base.is(other) {
        "0 %".to_owned()
    } else if base.mean == 0.0 {
        "from 0".to_owned()
    } else {
        let ratio = other.mean / base.mean;
        match format!("{:+.1} %", (ratio - 1.0) * 100.0) {
            _ if ratio >= 10.0 => format!("x{}", three(ratio)),
            none if ["+0.0 %", "-0.0 %"].contains(&none.as_str()) => "0 %".to_owned(),
            percent => percent,
        }
    };
    let within = several && !base.is_disjoint(other) && !base.is(other);
    if within { format!("~{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::count;

    #[test]
    fn a_spread_is_its_mean_and_half_its_range() {
        let spread = |values: &[f64]| Spread::of(values).unwrap();
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(spread(&[1.0, 2.0, 6.0]).text(count), "3 ±2.50");
        assert_eq!(spread(&[3.0, 3.0]).text(count), "3");
        assert_eq!(spread(&[1.0, 2.0]).json(), json!({ "mean": 1.5, "min": 1.0, "max": 2.0 }));
    }

    #[test]
    fn a_change_says_whether_it_is_within_the_spread() {
        let spread = |min: f64, max: f64| Spread::of(&[min, max]).unwrap();
        let (low, high, wide) = (spread(1.0, 2.0), spread(3.0, 4.0), spread(1.5, 3.5));
        assert_eq!(change(low, high, false, true), "+133.3 %");
        assert_eq!(change(low, wide, false, true), "~+66.7 %");
        assert_eq!(change(low, wide, true, false), "+100.00 pp");
        assert_eq!(change(spread(0.0, 0.0), high, false, true), "from 0");
        assert_eq!(change(low, spread(20.0, 22.0), false, true), "x14.0");
        assert_eq!((certain(low, high), certain(low, wide)), (Some((2.0, 3.0)), None));
    }
}
