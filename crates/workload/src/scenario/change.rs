//! `[[change]]`: a change of tasks, a group, or a session during the run.

use std::collections::BTreeMap;

use super::fields::{Fields, Value};
use super::{Spanned, group, rt, task, uclamp};
use crate::error::Problems;
use crate::groups::normalize_path;
use crate::program::{Bandwidth, Change, Changed, Clamps, CpuMax, Group, GroupChange, Settings, Workload};
use crate::suggest::did_you_mean;

/// Keys that need a policy.
const WITH_POLICY: [&str; 7] = ["priority", "slice", "runtime", "deadline", "period", "reclaim", "overrun"];

/// The state of a group after the changes so far.
#[derive(Clone, Copy)]
struct State {
    /// Quota and period, if limited.
    limit: Option<(u64, u64)>,
    burst: u64,
    idle: bool,
    uclamp: Clamps,
}

impl State {
    fn of(group: &Group) -> Self {
        let (limit, burst) = (group.max.map(|max| (max.quota, max.period)), group.max.map_or(0, |max| max.burst));
        Self { limit, burst, idle: group.idle, uclamp: group.uclamp.unwrap_or(uclamp::NONE) }
    }
}

/// By group index.
type States = BTreeMap<usize, State>;

/// Reads all changes, ordered by time, then by position. Adds CPUs of groups to `cpus`.
pub(super) fn parse_all(
    problems: &mut Problems,
    values: &[Value<'_>],
    workload: &Workload,
    cpus: &mut Vec<Spanned<Vec<u32>>>,
) -> Vec<Change> {
    let mut timed: Vec<(u64, &Value<'_>)> = Vec::new();
    for value in values {
        let mut fields = Fields::new(problems, "[[change]]", value);
        if fields.get("at").is_none() {
            let message = "a [[change]] without a time".to_owned();
            fields.bad(value.span(), message, "expected `at`", "write at = \"1s\", the time after the start");
        }
        timed.extend(fields.duration("at").map(|at| (at, value)));
    }
    timed.sort_by_key(|(at, _)| *at);
    let mut states = States::new();
    let mut changes = Vec::new();
    for (at, value) in timed {
        let found = parse(problems, value, workload, &mut states, cpus);
        changes.extend(found.into_iter().map(|what| Change { at, what }));
    }
    changes
}

fn parse(
    problems: &mut Problems,
    value: &Value<'_>,
    workload: &Workload,
    states: &mut States,
    cpus: &mut Vec<Spanned<Vec<u32>>>,
) -> Vec<Changed> {
    let mut fields = Fields::new(problems, "[[change]]", value);
    fields.get("at");
    let name = fields.string("task", "the name of a task or of all its instances");
    let path = task::group_path(&mut fields);
    let session = fields.string("session", "a session's name");
    let changed = match (name, path, session) {
        (Some(name), path, None) => tasks(&mut fields, name, path, workload, cpus).into_iter().collect(),
        (None, Some(path), None) => {
            let cpuset = cpuset(&mut fields, &path, workload, cpus);
            let other = one_group(&mut fields, &path, workload, states);
            other.into_iter().chain(cpuset).collect::<Vec<Changed>>()
        }
        (None, None, Some((name, span))) => {
            let nice = fields.integer("nice", -20..=19, "a nice value");
            let session = workload.sessions.iter().position(|session| session.name == name);
            if session.is_none() && !fields.problems.has_errors() {
                let help = did_you_mean(name, workload.sessions.iter().map(|session| session.name.as_str()));
                fields.bad(span, format!("no task is in session `{name}`"), "expected a session of this file", help);
            }
            let changed = session.zip(nice).map(|(session, nice)| Changed::Session { session, nice: nice as i8 });
            changed.into_iter().collect()
        }
        _ => {
            let message = "a [[change]] that names nothing to change".to_owned();
            let help = "write task = \"name\" (with group = \"/path\" to move it), or group, or session";
            fields.bad(value.span(), message, "expected one of `task`, `group` and `session`", help);
            return Vec::new();
        }
    };
    let span = fields.span.clone();
    fields.finish();
    if changed.is_empty() && !problems.has_errors() {
        let help = "of a task: policy, nice, cpus, util_min, util_max, group; of a group: weight, idle, guarantee, max, burst, uclamp, \
             rt_runtime, rt_period, cpus, partition; of a session: nice";
        let message = "a [[change]] that changes nothing".to_owned();
        problems.error(problems.new_error(span, message, "expected a change").with_help(help));
    }
    changed
}

fn tasks(
    fields: &mut Fields<'_, '_>,
    (name, span): (&str, std::ops::Range<usize>),
    path: Option<String>,
    workload: &Workload,
    named: &mut Vec<Spanned<Vec<u32>>>,
) -> Option<Changed> {
    let all = || workload.tasks.iter();
    let known = |task: &crate::program::Task| task.name == name || task.class == name;
    let tasks: Vec<usize> = all().enumerate().filter(|(_, task)| known(task)).map(|(index, _)| index).collect();
    // After an error, the task may exist but be unread.
    if tasks.is_empty() && !fields.problems.has_errors() {
        // 1000 names suffice for a suggestion.
        let names: std::collections::BTreeSet<&str> = all().map(|task| task.class.as_str()).take(1000).collect();
        fields.bad(
            span,
            format!("there is no task `{name}`"),
            "expected the name of a task",
            did_you_mean(name, names),
        );
    }
    let group = path.and_then(|path| known_group(fields, &path, workload));
    let has_policy = fields.get("policy").is_some();
    let (mut policy, mut nice) = (None, None);
    if has_policy {
        policy = Some(task::policy(fields));
    } else {
        nice = fields.integer("nice", -20..=19, "a nice value").map(|nice| nice as i8);
        for key in WITH_POLICY {
            if let Some(value) = fields.get(key) {
                let message = format!("`{key}` without a policy");
                fields.bad(value.span(), message, "it belongs to one", "add policy = \"SCHED_FIFO\" or another policy");
            }
        }
    }
    let cpus = task::cpus(fields);
    let span = fields.get("cpus").map(Value::span);
    named.extend(cpus.clone().zip(span).map(|(value, span)| Spanned { value, span }));
    let (util_min, util_max) = task::clamps(fields);
    let settings = Settings { policy, cpus, group, util_min, util_max, ..Settings::default() };
    if settings == Settings::default() && nice.is_none() {
        return None;
    }
    Some(Changed::Tasks { tasks, settings, nice })
}

fn known_group(fields: &mut Fields<'_, '_>, path: &str, workload: &Workload) -> Option<usize> {
    let index = workload.groups.iter().position(|group| group.path == path);
    if index.is_none() && !fields.problems.has_errors() {
        let span = fields.get("group").map_or(fields.span.clone(), Value::span);
        let paths = workload.groups.iter().map(|group| group.path.as_str());
        let help = format!("{}; or declare [groups.\"{path}\"]", did_you_mean(path, paths).trim_end_matches('?'));
        fields.bad(span, format!("there is no group `{path}`"), "expected a group of this file", help);
    }
    index
}

fn cpuset(
    fields: &mut Fields<'_, '_>,
    path: &str,
    workload: &Workload,
    named: &mut Vec<Spanned<Vec<u32>>>,
) -> Option<Changed> {
    let cpus = fields.get("cpus").and_then(|value| {
        let value_of = super::cpuset::any_list(fields, "cpus", value)?;
        Some(Spanned { value: value_of, span: value.span() })
    });
    let partition = super::cpuset::partition(fields).map(|(partition, _)| partition);
    if cpus.is_none() && partition.is_none() {
        return None;
    }
    named.extend(cpus.clone());
    // A missing group is reported later.
    let group = workload.groups.iter().position(|group| group.path == path)?;
    if group == 0 {
        let message = "the root group has all CPUs, and is a partition always".to_owned();
        let span = fields.get("group").map_or(0..0, Value::span);
        fields.bad(span, message, "cgroup v2 has these files only below the root", "change a group below it");
        return None;
    }
    Some(Changed::Cpuset { group, cpus: cpus.map(|cpus| cpus.value), partition })
}

fn one_group(fields: &mut Fields<'_, '_>, path: &str, workload: &Workload, states: &mut States) -> Option<Changed> {
    let group = known_group(fields, path, workload);
    let weight = fields.integer("weight", 1..=10_000, "a weight");
    let (max_value, burst_value) = (fields.get("max"), fields.get("burst"));
    let max = max_value.map(|value| group::bandwidth(fields, value).map(|max| (max.quota, max.period)));
    let burst = burst_value.and_then(|value| group::burst(fields, value));
    let idle = fields.boolean("idle");
    let rt = rt::parse(fields);
    let guarantee = group::guarantee(fields);
    let before = group.map(|group| *states.entry(group).or_insert_with(|| State::of(&workload.groups[group])));
    let clamps = uclamp::parse(fields, path, before.map_or(uclamp::NONE, |before| before.uclamp));
    let (group, before) = (group?, before?);
    if max_value.is_some() && fields.problems.has_errors() {
        // The wrong limit has been reported.
        return None;
    }
    let span = |value: Option<&Value<'_>>| value.map_or(0..0, Value::span);
    if group == 0 && fields.problems.has_errors() {
        // The root has been reported.
        return None;
    }
    if group == 0 {
        let message = "the root group has no weight and no limit".to_owned();
        let help = "change a group below it";
        let span = fields.get("group").map_or(0..0, Value::span);
        fields.bad(span, message, "cgroup v2 has these files only below the root", help);
        return None;
    }
    let idle_now = idle.unwrap_or(before.idle);
    if let (Some(value), true) = (fields.get("weight"), idle_now) {
        let message = format!("group `{}` is idle", normalize_path(path).as_deref().unwrap_or(path));
        fields.bad(value.span(), message, "the kernel refuses it a weight (EINVAL)", "remove `idle` or this");
        return None;
    }
    let limits = max.is_some() || burst.is_some() || clamps.is_some() || rt.is_some();
    if weight.is_none() && idle.is_none() && guarantee.is_none() && !limits {
        return None;
    }
    let new = (max.unwrap_or(before.limit), burst.unwrap_or(before.burst));
    let max = match new {
        (Some((quota, _)), burst) if burst > quota => {
            let message = format!("a burst of {} us above the quota of {} us", burst / 1000, quota / 1000);
            let help = "a burst is at most one quota; `burst` stays as it was until it is changed";
            fields.bad(span(burst_value.or(max_value)), message, "the kernel refuses it (EINVAL)", help);
            return None;
        }
        (Some((quota, period)), burst) => CpuMax::Limited(Bandwidth { quota, period, burst }),
        (None, _) => CpuMax::Unlimited,
    };
    let changes_limit = new != (before.limit, before.burst);
    let uclamp = clamps.unwrap_or(before.uclamp);
    states.insert(group, State { limit: new.0, burst: new.1, idle: idle_now, uclamp });
    let (weight, max) = (weight.map(|weight| weight as u32), changes_limit.then_some(max));
    let idle = idle.filter(|&idle| idle != before.idle);
    Some(Changed::Group { group, to: GroupChange { weight, idle, max, uclamp: clamps, rt, guarantee } })
}
