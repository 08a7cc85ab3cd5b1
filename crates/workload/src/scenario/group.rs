//! `[groups."/path"]`: cgroup v2's `cpu` and `cpuset` controllers.

use toml::de::DeValue;

use super::fields::{Fields, Value};
use super::{Spanned, cpuset, rt, uclamp};
use crate::error::Problems;
use crate::groups::{GroupTree, normalize_path};
use crate::limit::{PERIOD_NS, QUOTA_NS, cpu_max};
use crate::program::{Bandwidth, CpuMax};

/// Adds all declared groups to `groups`, and returns their CPUs.
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
    cpusets.iter().filter_map(|(_, parsed)| parsed.named()).collect()
}

fn parse_one(
    problems: &mut Problems,
    path: &str,
    value: &Value<'_>,
    index: usize,
    groups: &mut GroupTree,
) -> cpuset::DeclaredCpuset {
    let mut fields = Fields::new(problems, format!("[groups.\"{path}\"]"), value);
    let weight = fields.integer("weight", 1..=10_000, "a weight");
    let idle = fields.boolean("idle").unwrap_or(false);
    if let (Some(_), true) = (weight, idle) {
        let span = fields.span.clone();
        let message = format!("group `{path}` is idle and has a weight");
        let error = fields
            .problems
            .new_error(span, message, "an idle group weighs less than any weight")
            .with_help("remove `weight` or `idle`; the kernel refuses a weight (EINVAL) while `cpu.idle` is 1");
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

/// Reads the guarantee of the CPU resource controller, percent of the machine.
pub(super) fn guarantee(fields: &mut Fields<'_, '_>) -> Option<u32> {
    fields.integer("guarantee", 0..=100, "percent of the machine").map(|percent| percent as u32)
}

/// Reads `max`. None without a limit, or after reporting an error.
pub(super) fn bandwidth(fields: &mut Fields<'_, '_>, value: &Value<'_>) -> Option<Bandwidth> {
    let limit = match value.get_ref() {
        DeValue::String(text) => match cpu_max(text) {
            Some(CpuMax::Unlimited) => return None,
            Some(CpuMax::Limited(limit)) => limit,
            None => {
                wrong_max(fields, value, format!("`max` is \"{text}\""));
                return None;
            }
        },
        DeValue::Array(entries) if entries.len() == 2 => {
            let quota = fields.integer_in("max", &entries[0], 0..=i64::MAX / 1000, "microseconds");
            let period = fields.integer_in("max", &entries[1], 0..=i64::from(u32::MAX), "microseconds");
            Bandwidth { quota: quota? as u64 * 1000, period: period? as u64 * 1000, burst: 0 }
        }
        other => {
            wrong_max(fields, value, format!("`max` is {}", super::fields::noun(other)));
            return None;
        }
    };
    let us = |ns: u64| ns as f64 / 1000.0;
    if !PERIOD_NS.contains(&limit.period) {
        let message = format!("`max` has a period of {} us", us(limit.period));
        fields.bad(value.span(), message, "expected 1000 to 1000000 us", "the kernel refuses other periods");
        return None;
    }
    if !QUOTA_NS.contains(&limit.quota) {
        let message = format!("`max` has a quota of {} us", us(limit.quota));
        let help = "the kernel refuses other quotas; `max` may be left out, or \"max\", for no limit";
        fields.bad(value.span(), message, "expected 1000 to 17592186044415 us", help);
        return None;
    }
    Some(limit)
}

fn wrong_max(fields: &mut Fields<'_, '_>, value: &Value<'_>, message: String) {
    let help = "\"max\", \"20ms/100ms\", \"20000 100000\" or [20000, 100000] (quota and period, us), or as in Kubernetes \"500m\", \"0.5\" or \"2\" (CPUs)";
    fields.bad(value.span(), message, "expected a limit", help);
}

/// Reads a time with its unit, or microseconds as in `cpu.max.burst`.
pub(super) fn burst(fields: &mut Fields<'_, '_>, value: &Value<'_>) -> Option<u64> {
    if let DeValue::Integer(_) = value.get_ref() {
        let us = fields.integer_in("burst", value, 0..=i64::from(u32::MAX), "microseconds")?;
        return Some(us as u64 * 1000);
    }
    fields.duration_in("burst", value)
}
