//! `uclamp` of a group: cgroup v2's `cpu.uclamp.min` and `cpu.uclamp.max`.

use toml::de::DeValue;

use super::fields::{Fields, Value};
use crate::program::Clamps;
use crate::units::scaled;

/// A whole CPU.
const SCALE: u64 = 1024;
/// 100 %, in hundredths of a percent.
const HUNDRED: u64 = 10_000;

/// The default.
pub(super) const NONE: Clamps = Clamps { min: 0, max: SCALE as u32 };

/// Reads the clamps of a group, with the previous ones as default. None if there are none, or after reporting an error.
pub(super) fn parse(fields: &mut Fields<'_, '_>, path: &str, before: Clamps) -> Option<Clamps> {
    let value = fields.get("uclamp")?;
    if !matches!(value.get_ref(), DeValue::Table(_)) {
        let message = format!("`uclamp` of group `{path}` is {}", super::fields::noun(value.get_ref()));
        let help = "write uclamp.min = \"25.00\" or uclamp.max = \"50.00\", or both";
        fields.bad(value.span(), message, "expected what is clamped", help);
        return None;
    }
    let mut inner = Fields::new(fields.problems, format!("`uclamp` of group `{path}`"), value);
    let mut clamp = |key, otherwise| match inner.get(key) {
        None => Some(otherwise),
        Some(value) => clamp(&mut inner, key, value),
    };
    let (min, max) = (clamp("min", before.min), clamp("max", before.max));
    inner.finish();
    let clamps = Clamps { min: min?, max: max? };
    if clamps.min > clamps.max {
        let message = format!("`uclamp.min` of group `{path}` is above `uclamp.max`");
        let error = fields
            .problems
            .new_error(value.span(), message, "the upper bound holds")
            .with_help("the kernel accepts both, and then applies the upper one");
        fields.warn(error);
    }
    Some(clamps)
}

fn clamp(fields: &mut Fields<'_, '_>, key: &str, value: &Value<'_>) -> Option<u32> {
    let text = match value.get_ref() {
        DeValue::String(text) => text.trim().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        other => {
            let message = format!("`uclamp.{key}` is {}", super::fields::noun(other));
            wrong(fields, value, message);
            return None;
        }
    };
    let util = utilisation(&text);
    if util.is_none() {
        wrong(fields, value, format!("`uclamp.{key}` is {text}"));
    }
    util
}

fn wrong(fields: &mut Fields<'_, '_>, value: &Value<'_>, message: String) {
    let help = "as in cpu.uclamp.min: a percentage such as \"25.00\", at most 100, or \"max\"";
    fields.bad(value.span(), message, "expected 0 to 100 percent, or \"max\"", help);
}

/// Returns the utilisation of a percentage or `max`, with the kernel's rounding: to hundredths of a percent, then to
/// 1/1024.
pub(crate) fn utilisation(text: &str) -> Option<u32> {
    if text == "max" {
        return Some(SCALE as u32);
    }
    let fine = scaled(text, HUNDRED * 100)?;
    let hundredths = (fine + HUNDRED / 2) / HUNDRED;
    (hundredths <= HUNDRED).then_some(((hundredths * SCALE + HUNDRED / 2) / HUNDRED) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_those_of_the_kernel() {
        let known =
            [("0", 0), ("25.00", 256), ("max", 1024), ("100", 1024), ("50.5", 517), ("33.333", 341), ("0.04", 0)];
        for (text, util) in known {
            assert_eq!(utilisation(text), Some(util), "{text}");
        }
        for text in ["100.01", "-1", "", "Max", "25%", "1e1", "99999999999999999999"] {
            assert_eq!(utilisation(text), None, "{text}");
        }
    }
}
