//! `[groups."/path"]`: cgroup v2's `cpu` and `cpuset` controllers.

use toml::de::DeValue;

use super::fields::{Fields, Value};
use super::{Spanned, cpuset, rt, uclamp};
use crate::error::Problems;
use crate::groups::{GroupTree, normalize_path};
use crate::program::Bandwidth;
use crate::units::scaled;

/// The kernel's range of `cpu.max`'s period, us.
const PERIOD_US: std::ops::RangeInclusive<u64> = 1_000..=1_000_000;
const DEFAULT_PERIOD_US: u64 = 100_000;
/// The kernel's least quota, us.
const MIN_QUOTA_US: u64 = 1_000;

/// Puts every declared group into `groups`; the CPUs that they name.
pub(super) fn parse_all(problems: &mut Problems, value: &Value<'_>, groups: &mut GroupTree) -> Vec<Spanned<Vec<u32>>> {
    let DeValue::Table(table) = value.get_ref() else {
        Fields::new(problems, "[groups.\"/name\"]", value).finish();
        return Vec::new();
    };
    let mut seen = std::collections::BTreeSet::new();
    let mut cpusets = Vec::new();
    for (key, value) in table {
        let path = match normalize_path(key.get_ref()) {
            Ok(path) => path,
            Err(reason) => {
                let message = format!("`{}` is not a group's path", key.get_ref());
                let error = problems.new_error(key.span(), message, "expected \"/name/name\"").with_help(reason);
                problems.error(error);
                continue;
            }
        };
        let wrong = if path == "/" {
            let has = |key: &str| matches!(value.get_ref(), DeValue::Table(table) if table.contains_key(key));
            Some(if has("cpus") || has("partition") {
                (
                    "the root group has all CPUs, and is a partition always",
                    "cgroup v2 has these files only below the root",
                )
            } else {
                ("the root group has no weight and no limit", "cgroup v2 has these files only below the root")
            })
        } else if seen.insert(path.clone()) {
            None
        } else {
            Some(("this group is declared twice", "the same path is written in another way above"))
        };
        if let Some((message, label)) = wrong {
            let error = problems.new_error(key.span(), message, label).with_help("remove this table");
            problems.error(error);
            continue;
        }
        let index = groups.ensure(&path);
        cpusets.push((index, parse_one(problems, &path, value, index, groups)));
    }
    cpuset::exclusive(problems, groups.all(), &cpusets);
    cpusets.iter().filter_map(|(_, said)| said.named()).collect()
}

fn parse_one(
    problems: &mut Problems,
    path: &str,
    value: &Value<'_>,
    index: usize,
    groups: &mut GroupTree,
) -> cpuset::Said {
    let mut fields = Fields::new(problems, format!("[groups.\"{path}\"]"), value);
    let weight = fields.integer("weight", 1..=10_000, "a weight");
    let idle = fields.boolean("idle").unwrap_or(false);
    if let (Some(_), true) = (weight, idle) {
        let span = fields.span.clone();
        let message = format!("group `{path}` is idle and has a weight");
        let error = fields
            .problems
            .new_error(span, message, "an idle group weighs less than any weight")
            .with_help("remove `weight` or `idle`; the kernel ignores the weight");
        fields.warn(error);
    }
    let max_value = fields.get("max");
    let mut max = max_value.and_then(|value| bandwidth(&mut fields, value));
    let burst_value = fields.get("burst");
    if let Some(burst) = burst_value.and_then(|value| burst(&mut fields, value))
        && let Some(value) = burst_value
    {
        match &mut max {
            Some(max) if burst <= max.quota => max.burst = burst,
            Some(_) => fields.bad(
                value.span(),
                "`burst` is above the quota".to_owned(),
                "the kernel refuses it",
                "a burst is at most one quota",
            ),
            None => fields.bad(
                value.span(),
                "`burst` without a limit".to_owned(),
                "there is nothing to exceed",
                "set `max` as well, or remove `burst`",
            ),
        }
    }
    let uclamp = uclamp::parse(&mut fields, path, uclamp::NONE);
    let rt = rt::parse(&mut fields);
    let guarantee = guarantee(&mut fields);
    let cpus = cpuset::parse(&mut fields, path);
    fields.finish();
    let group = groups.get_mut(index);
    group.weight = weight.map_or(group.weight, |weight| weight as u32);
    group.idle = idle;
    group.max = max;
    group.uclamp = uclamp;
    group.rt = rt;
    group.guarantee = guarantee;
    group.cpuset = cpus.cpuset.clone();
    cpus
}

/// What the CPU resource controller is to guarantee it, percent of the machine.
pub(super) fn guarantee(fields: &mut Fields<'_, '_>) -> Option<u32> {
    fields.integer("guarantee", 0..=100, "percent of the machine").map(|percent| percent as u32)
}

/// What `max` says; none for no limit, or if it is wrong, which has been told then.
pub(super) fn bandwidth(fields: &mut Fields<'_, '_>, value: &Value<'_>) -> Option<Bandwidth> {
    let (quota_us, period_us) = match value.get_ref() {
        DeValue::String(text) if text.trim() == "max" => return None,
        DeValue::String(text) => match text_bandwidth(text) {
            Some(None) => return None,
            Some(Some(pair)) => pair,
            None => {
                wrong_max(fields, value, format!("`max` is \"{text}\""));
                return None;
            }
        },
        DeValue::Array(entries) if entries.len() == 2 => {
            let quota = fields.integer_in("max", &entries[0], 0..=i64::from(u32::MAX), "microseconds");
            let period = fields.integer_in("max", &entries[1], 0..=i64::from(u32::MAX), "microseconds");
            (quota? as u64, period? as u64)
        }
        other => {
            wrong_max(fields, value, format!("`max` is {}", super::fields::noun(other)));
            return None;
        }
    };
    if !PERIOD_US.contains(&period_us) {
        let message = format!("`max` has a period of {period_us} us");
        fields.bad(value.span(), message, "expected 1000 to 1000000 us", "the kernel refuses other periods");
        return None;
    }
    if !(MIN_QUOTA_US..=u64::from(u32::MAX)).contains(&quota_us) {
        let message = format!("`max` has a quota of {quota_us} us");
        fields.bad(value.span(), message, "expected at least 1000 us", "the kernel refuses less than 1 ms");
        return None;
    }
    Some(Bandwidth { quota: quota_us * 1000, period: period_us * 1000, burst: 0 })
}

fn wrong_max(fields: &mut Fields<'_, '_>, value: &Value<'_>, message: String) {
    let help = "\"max\", \"200000 100000\" or [200000, 100000] (quota and period, us), or as in Kubernetes \"500m\", \"0.5\" or \"2\" (CPUs)";
    fields.bad(value.span(), message, "expected a limit", help);
}

/// The quota of so many CPUs, `2` or `0.5`, in the usual period. A whole number from 1000 on is a quota in microseconds, as `cpu.max`
/// takes it alone; below that the kernel takes none.
fn kubernetes_cpus(text: &str) -> Option<u64> {
    let whole = !text.contains('.');
    let quota = scaled(text, DEFAULT_PERIOD_US)?;
    (!whole || quota < MIN_QUOTA_US * DEFAULT_PERIOD_US).then_some(quota)
}

/// Quota and period of `200000 100000`, `200000`, `500m`, `0.5`, `2`, `max 100000` (no limit); none if it is none of these.
#[expect(clippy::option_option, reason = "no limit is an answer too")]
fn text_bandwidth(text: &str) -> Option<Option<(u64, u64)>> {
    if let Some(millicores) = text.trim().strip_suffix('m') {
        let quota = scaled(millicores.trim_end(), DEFAULT_PERIOD_US / 1000)?;
        return Some(Some((quota, DEFAULT_PERIOD_US)));
    }
    if let Some(quota) = kubernetes_cpus(text.trim()) {
        return Some(Some((quota, DEFAULT_PERIOD_US)));
    }
    let mut words = text.split_whitespace();
    let quota = words.next()?;
    let period = words.next().map_or(Some(DEFAULT_PERIOD_US), |period| period.parse().ok())?;
    if words.next().is_some() {
        return None;
    }
    if quota == "max" {
        return Some(None);
    }
    Some(Some((quota.parse().ok()?, period)))
}

/// A time with its unit, or microseconds as in `cpu.max.burst`.
pub(super) fn burst(fields: &mut Fields<'_, '_>, value: &Value<'_>) -> Option<u64> {
    if let DeValue::Integer(_) = value.get_ref() {
        let us = fields.integer_in("burst", value, 0..=i64::from(u32::MAX), "microseconds")?;
        return Some(us as u64 * 1000);
    }
    fields.duration_in("burst", value)
}
