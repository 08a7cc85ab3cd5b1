//! Notations of times.

/// The longest time in a file, ns: 10^12 us, as in rt-app files.
pub(crate) const MAX_TIME_NS: u64 = crate::rtapp::MAX_TIME_US as u64 * 1000;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a time such as `1h`, `10min` (`10m`), `5s`, `1.5ms`, `300us` or `20ns`, and returns nanoseconds. Only in
/// limits, `500m` is half a CPU.
///
/// # Errors
/// If there is no number or no known unit, or the time exceeds 10^12 us or has fractions of a nanosecond.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim_start());
    if number.is_empty() {
        return Err("a time is a number and a unit: 10min, 5s, 1.5ms, 300us, 20ns".to_owned());
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(match unit {
            "" => format!("a time needs its unit: {number}s, {number}ms, {number}us or {number}ns"),
            _ => format!("`{unit}` is not a unit of time; h, min (or m), s, ms, us and ns are"),
        });
    };
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    if digits == 0 || number.len() - digits > 1 {
        return Err(format!("`{number}` is not a number"));
    }
    let ns = scaled(number, *scale);
    // An overflow is too long. More digits than nanoseconds are a fraction.
    if ns.is_none_or(|ns| ns > MAX_TIME_NS)
        && number.parse::<f64>().is_ok_and(|number| number * *scale as f64 > MAX_TIME_NS as f64)
    {
        return Err(format!("`{number}{unit}` is more than {} s, the longest time", MAX_TIME_NS / 1_000_000_000));
    }
    ns.ok_or_else(|| format!("`{number}{unit}` is not a whole number of nanoseconds"))
}

/// As [`parse_duration`], for times above 0.
///
/// # Errors
/// As there, or if it is 0.
pub fn parse_length(text: &str) -> Result<u64, String> {
    match parse_duration(text)? {
        0 => Err("expected a time above 0, such as 10min, 5s or 200ms".to_owned()),
        ns => Ok(ns),
    }
}

/// `number` times `scale`, exactly. None if it is no whole number or too great.
pub(crate) fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = fraction.trim_end_matches('0');
    let mut total = whole.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.bytes() {
        if !digit.is_ascii_digit() || !place.is_multiple_of(10) {
            return None;
        }
        place /= 10;
        total = total.checked_add(place * u64::from(digit - b'0'))?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_exactly() {
        assert_eq!(parse_duration("5s"), Ok(5_000_000_000));
        assert_eq!(parse_duration("1.5ms"), Ok(1_500_000));
        assert_eq!(parse_duration("0.1 us"), Ok(100));
        assert_eq!(parse_duration("2.50us"), Ok(2_500));
        assert_eq!(parse_duration("7ns"), Ok(7));
        assert_eq!(parse_duration("5min"), Ok(300_000_000_000));
        assert_eq!(parse_duration("5m"), parse_duration("5min"));
        assert_eq!(parse_duration("1.5 h"), Ok(5_400_000_000_000));
        assert_eq!(parse_duration("0.1min"), Ok(6_000_000_000));
        for wrong in [
            "",
            "5",
            "s",
            "1.5ns",
            "1.2.3s",
            ".s",
            "-1s",
            "1e3s",
            "99999999999999999999s",
            "1000001s",
            "278h",
            "5M",
            "1h5m",
        ] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_time_is_reported_as_it_was_written() {
        for (text, wrong) in [
            ("999999999h", "`999999999h` is more than 1000000 s, the longest time"),
            ("99999999999999999999.5 s", "`99999999999999999999.5s` is more than 1000000 s, the longest time"),
            ("1000000.000000001s", "`1000000.000000001s` is more than 1000000 s, the longest time"),
            ("0.0000000001s", "`0.0000000001s` is not a whole number of nanoseconds"),
            ("1.5ns", "`1.5ns` is not a whole number of nanoseconds"),
            ("1.2.3s", "`1.2.3` is not a number"),
            (".s", "`.` is not a number"),
        ] {
            assert_eq!(parse_duration(text), Err(wrong.to_owned()), "{text}");
        }
        assert_eq!(parse_duration("1000000s"), Ok(MAX_TIME_NS));
    }

    #[test]
    fn a_length_is_above_0() {
        assert_eq!(parse_length("1ns"), Ok(1));
        for nothing in ["0s", "0.0h"] {
            assert_eq!(parse_duration(nothing), Ok(0));
            assert!(
                parse_length(nothing).is_err_and(|wrong| wrong.starts_with("expected a time above 0")),
                "{nothing}"
            );
        }
        assert!(parse_length("5").is_err());
    }
}
