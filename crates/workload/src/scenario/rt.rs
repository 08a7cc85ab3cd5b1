//! `rt_runtime` and `rt_period` of a group: cgroup v1's `cpu.rt_runtime_us` and `cpu.rt_period_us`.

use toml::de::DeValue;

use super::fields::{Fields, Value};
use crate::program::{RtBandwidth, RtRuntime};

/// Reads a table. None if it is empty, or after reporting an error.
pub(super) fn parse(fields: &mut Fields<'_, '_>) -> Option<RtBandwidth> {
    let (runtime_value, period_value) = (fields.get("rt_runtime"), fields.get("rt_period"));
    let runtime = runtime_value.and_then(|value| runtime(fields, value));
    let period = period_value.and_then(|value| time(fields, "rt_period", value));
    if let (Some(0), Some(value)) = (period, period_value) {
        let help = "leave `rt_period` out for the machine's, sched_rt_period_us: a second";
        fields.bad(value.span(), "`rt_period` is 0".to_owned(), "the kernel refuses it (EINVAL)", help);
        return None;
    }
    if let (Some(RtRuntime::Limited(runtime)), Some(period), Some(value)) = (runtime, period, runtime_value)
        && runtime > period
    {
        let message = format!("an `rt_runtime` of {} us in an `rt_period` of {} us", runtime / 1000, period / 1000);
        fields.bad(
            value.span(),
            message,
            "the kernel refuses it (EINVAL)",
            "there is no more time than the period has",
        );
        return None;
    }
    (runtime.is_some() || period.is_some()).then_some(RtBandwidth { runtime, period })
}

/// Reads microseconds as in `cpu.rt_runtime_us` (-1: no limit), or a time with its unit.
fn runtime(fields: &mut Fields<'_, '_>, value: &Value<'_>) -> Option<RtRuntime> {
    match value.get_ref() {
        DeValue::String(text) if text.trim() == "max" => Some(RtRuntime::Unlimited),
        DeValue::Integer(_) => {
            let us =
                fields.integer_in("rt_runtime", value, -1..=i64::from(u32::MAX), "microseconds, or -1 for no limit")?;
            Some(u64::try_from(us).map_or(RtRuntime::Unlimited, |us| RtRuntime::Limited(us * 1000)))
        }
        _ => fields.duration_in("rt_runtime", value).map(RtRuntime::Limited),
    }
}

fn time(fields: &mut Fields<'_, '_>, key: &'static str, value: &Value<'_>) -> Option<u64> {
    if let DeValue::Integer(_) = value.get_ref() {
        let us = fields.integer_in(key, value, 0..=i64::from(u32::MAX), "microseconds")?;
        return Some(us as u64 * 1000);
    }
    fields.duration_in(key, value)
}
