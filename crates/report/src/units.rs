//! Units of figures, and numbers for reading: three significant digits and a suitable unit.

/// Unit of a part of one CPU: 1 is one CPU all the time. Printed in percent.
pub(crate) const OF_A_CPU: &str = "of a CPU";
/// Unit of a part of the time, summed over tasks. Printed in percent.
pub(crate) const OF_THE_TIME: &str = "of the time";
/// Unit of a part of the rounds. Printed in percent.
pub(crate) const OF_ROUNDS: &str = "of rounds";

/// Returns the unit behind a printed value; empty if the value has its unit.
pub(crate) fn printed(unit: &'static str) -> &'static str {
    match unit {
        OF_A_CPU => "% of a CPU",
        OF_THE_TIME => "% of the time",
        OF_ROUNDS => "% of rounds",
        "ns" => "",
        unit => unit,
    }
}

/// `87 ns`, `4.2 us`, `12.3 ms`, `5.00 s`.
pub(crate) fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        size if size < 999.5 => (ns, "ns"),
        size if size < 999_500.0 => (ns / 1e3, "us"),
        size if size < 999_500_000.0 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    if unit == "ns" { format!("{value:.0} ns") } else { format!("{} {unit}", three(value)) }
}

/// Three significant digits, no exponent: `0.12`, `1.23`, `12.3`, `123`, `1234`.
pub(crate) fn three(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Joules, with three significant digits also below 1: short runs take millijoules.
pub(crate) fn joules(value: f64) -> String {
    let zeros = -value.abs().log10().floor();
    if (1.0..=9.0).contains(&zeros) { format!("{value:.*}", zeros as usize + 2) } else { three(value) }
}

/// Returns a count, mean or rate of counts. Large ones have k or M.
pub(crate) fn count(value: f64) -> String {
    match value.abs() {
        size if size >= 9_999_500.0 => format!("{} M", three(value / 1e6)),
        size if size >= 99_950.0 => format!("{} k", three(value / 1e3)),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => three(value),
    }
}

/// Returns a number with its noun.
///
/// ```
/// assert_eq!(vruntime_report::counted(1, "switch", "switches"), "1 switch");
/// assert_eq!(vruntime_report::counted(0, "switch", "switches"), "0 switches");
/// ```
pub fn counted(count: u64, one: &str, several: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {several}"),
    }
}

/// `1.5 CPUs (150 ms in each 100 ms)`: a limit's quota and period, nanoseconds.
pub(crate) fn limit(quota: u64, period: u64) -> String {
    let cpus = (quota as f64 / period.max(1) as f64 * 1000.0).round() / 1000.0;
    let unit = if quota == period { "CPU" } else { "CPUs" };
    format!("{cpus} {unit} ({} in each {})", time(quota as f64), time(period as f64))
}

/// Returns a share of a CPU as a percentage.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() < 99.995 { format!("{percent:.2}") } else { format!("{percent:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_the_unit_that_suits() {
        let got: Vec<String> = [0.0, 87.0, 999.4, 999.6, 4_200.0, 12_345_678.0, 999_600_000.0, 5e9].map(time).into();
        assert_eq!(got, ["0 ns", "87 ns", "999 ns", "1.00 us", "4.20 us", "12.3 ms", "1.00 s", "5.00 s"]);
    }

    #[test]
    fn energies_have_three_digits_however_small() {
        let got: Vec<String> = [0.0, 1e-12, 0.001_234, 0.0998, 0.104, 1.0, 12.34].map(joules).into();
        assert_eq!(got, ["0.00", "0.00", "0.00123", "0.0998", "0.104", "1.00", "12.3"]);
    }

    #[test]
    fn counts_stay_whole_when_they_are() {
        let got: Vec<String> = [0.0, 7.0, 7.25, 1234.0, 1234.5, 123_456.0, 12_345_678.0].map(count).into();
        assert_eq!(got, ["0", "7", "7.25", "1234", "1234", "123 k", "12.3 M"]);
    }
}
