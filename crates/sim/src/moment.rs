//! Times as messages write them.

use std::fmt;

/// Nanoseconds, printed exactly in the largest unit with a whole one: `1.5 s`, `662.943467 ms`, `20 us`, `0 ns`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(pub(crate) u64);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (digits, unit) = match self.0 {
            ns if ns < 1_000 => (0, "ns"),
            ns if ns < 1_000_000 => (3, "us"),
            ns if ns < 1_000_000_000 => (6, "ms"),
            _ => (9, "s"),
        };
        let one = 10_u64.pow(digits);
        write!(f, "{}", self.0 / one)?;
        if !self.0.is_multiple_of(one) {
            let rest = format!("{:0width$}", self.0 % one, width = digits as usize);
            write!(f, ".{}", rest.trim_end_matches('0'))?;
        }
        write!(f, " {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;

    #[test]
    fn exact_and_no_longer_than_need_be() {
        let written = |ns| Moment(ns).to_string();
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 us"),
            (20_500, "20.5 us"),
            (60_000_000, "60 ms"),
            (662_943_467, "662.943467 ms"),
            (1_000_000_001, "1.000000001 s"),
            (90_000_000_000, "90 s"),
        ] {
            assert_eq!(written(ns), text);
        }
    }
}
