//! CPU limits (`cpu.max`) in the notations of users.

use std::ops::RangeInclusive;

use crate::program::{Bandwidth, CpuMax};
use crate::units::{parse_duration, scaled};

/// The kernel's range of periods, ns.
pub const PERIOD_NS: RangeInclusive<u64> = 1_000_000..=1_000_000_000;
/// The kernel's range of a quota, and of quota plus burst, ns (`max_cfs_runtime`: 2^44 - 1 us).
pub const QUOTA_NS: RangeInclusive<u64> = 1_000_000..=((1 << 44) - 1) * 1000;
const DEFAULT_PERIOD_NS: u64 = 100_000_000;
/// From here on, a single whole number is a quota in microseconds. The kernel accepts none below.
const LEAST_US: u64 = 1000;

/// Parses a limit, without checking ranges: `20ms/100ms`, `20ms`, `200000 100000` or `200000/100000`, `200000` (us),
/// `500m`, `0.5`, `2` (CPUs), `500m/10ms` (CPUs/period), `max` or `max 100000`.
pub fn cpu_max(text: &str) -> Option<CpuMax> {
    let text = text.trim();
    let us = |text: &str| Some(text.parse::<u64>().ok()?.saturating_mul(1000));
    // `500m` is half a CPU, not minutes.
    let time = |text: &str| if text.trim_end().ends_with('m') { None } else { parse_duration(text).ok() };
    let (quota, period) = if let Some((quota, period)) = in_microseconds(text) {
        (Some(us(quota)?), us(period)?)
    } else if let Some((quota, period)) = text.split_once('/') {
        let period = time(period)?;
        let quota = quota.trim_end();
        (Some(millicores(quota, period).or_else(|| cpus(quota, period)).or_else(|| time(quota))?), period)
    } else if let Some(quota) =
        millicores(text, DEFAULT_PERIOD_NS).or_else(|| cpus(text, DEFAULT_PERIOD_NS)).or_else(|| time(text))
    {
        (Some(quota), DEFAULT_PERIOD_NS)
    } else {
        let mut words = text.split_whitespace();
        let quota = match words.next()? {
            "max" => None,
            quota => Some(us(quota)?),
        };
        let period = words.next().map_or(Some(DEFAULT_PERIOD_NS), us)?;
        if words.next().is_some() {
            return None;
        }
        (quota, period)
    };
    Some(quota.map_or(CpuMax::Unlimited, |quota| CpuMax::Limited(Bandwidth { quota, period, burst: 0 })))
}

/// Returns quota and period of `200000/100000`: whole numbers that the kernel accepts as microseconds.
fn in_microseconds(text: &str) -> Option<(&str, &str)> {
    let (quota, period) = text.split_once('/')?;
    let (quota, period) = (quota.trim(), period.trim());
    let accepted = |text: &str| text.parse::<u64>().is_ok_and(|us| us >= LEAST_US);
    (accepted(quota) && accepted(period)).then_some((quota, period))
}

/// Returns the quota of `500m` (Kubernetes: half a CPU), in each `period`.
fn millicores(text: &str, period: u64) -> Option<u64> {
    period.is_multiple_of(1000).then(|| scaled(text.strip_suffix('m')?.trim_end(), period / 1000))?
}

/// Returns the quota of `2` or `0.5` CPUs, in each `period`.
fn cpus(text: &str, period: u64) -> Option<u64> {
    let quota = scaled(text, period)?;
    (text.contains('.') || quota < LEAST_US.saturating_mul(period)).then_some(quota)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_in_all_their_forms() {
        for (text, ms) in [
            ("20ms/100ms", (20.0, 100)),
            ("1500us / 5ms", (1.5, 5)),
            ("20ms", (20.0, 100)),
            ("20000 50000", (20.0, 50)),
            ("20000/50000", (20.0, 50)),
            (" 20000 ", (20.0, 100)),
            ("500m", (50.0, 100)),
            ("0.5", (50.0, 100)),
            (".25", (25.0, 100)),
            ("2", (200.0, 100)),
            ("999", (99_900.0, 100)),
            ("1000", (1.0, 100)),
            ("500m/10ms", (5.0, 10)),
            ("1500m / 20ms", (30.0, 20)),
            ("0.5/10ms", (5.0, 10)),
            ("2/10ms", (20.0, 10)),
        ] {
            let quota = (ms.0 * 1e6) as u64;
            let limit = Bandwidth { quota, period: ms.1 * 1_000_000, burst: 0 };
            assert_eq!(cpu_max(text), Some(CpuMax::Limited(limit)), "{text}");
        }
        for text in ["max", " max", "max 100000"] {
            assert_eq!(cpu_max(text), Some(CpuMax::Unlimited), "{text}");
        }
        for text in [
            "",
            "/",
            "20/100",
            "20ms/",
            "half",
            "-1",
            "m",
            "1e3",
            "1 2 3",
            "99999999999999999999",
            "max max",
            "20ms 100ms",
            // Neither minutes nor a count of CPUs are a period.
            "500m/1m",
            "500m/100",
            "500m/1.5us",
            "20000/100ms",
            "0.00000001m",
        ] {
            assert_eq!(cpu_max(text), None, "{text}");
        }
    }
}
