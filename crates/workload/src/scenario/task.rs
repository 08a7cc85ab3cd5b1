//! `[[task]]`: tasks that run and sleep.

use std::sync::Arc;

use super::fields::{Fields, Value};
use super::{cpuset, session, step};
use crate::error::Problems;
use crate::groups::{GroupTree, normalize_path};
use crate::merge::{Merged, Placement};
use crate::place::{ClassSite, PhaseSite, SourceMap};
use crate::policy;
use crate::program::{Op, Phase, Policy, Repeat, Settings, Task, Timer, TimerMode, Workload};
use crate::rtapp::PolicyName;
use crate::suggest::did_you_mean;

/// Reads a `[[task]]` and adds its instances.
pub(super) fn parse(problems: &mut Problems, value: &Value<'_>, merged: &mut Merged, max_tasks: u64) {
    let source = problems.source.clone();
    let mut fields = Fields::new(problems, "[[task]]", value);
    let span = fields.span.clone();
    let name = fields.string("name", "a name for the task");
    if name.as_ref().is_none_or(|(name, _)| name.is_empty()) {
        fields.bad(span.clone(), "a [[task]] without a name".to_owned(), "this one", "add name = \"worker\"");
    }
    let left = max_tasks.saturating_sub(merged.workload.tasks.len() as u64);
    let limit = i64::try_from(left).unwrap_or(i64::MAX);
    let instances = fields.integer("instance", 1..=limit, "a number of tasks").unwrap_or(1);
    let policy = policy_of_task(&mut fields);
    // Under SCHED_DEADLINE it is the reservation's period, and the program decides when a job begins.
    let periodic = !matches!(policy, Policy::Deadline { .. });
    let period = if periodic { fields.length("period") } else { None };
    let cpus = cpus(&mut fields);
    let group = group_path(&mut fields);
    let session = session::name(&mut fields);
    let start = fields.duration("start").unwrap_or(0);
    let start_place = fields.get("start").map(|value| (source.clone(), value.span()));
    let background = fields.boolean("background").unwrap_or(false);
    let exec = fields.boolean("exec").unwrap_or(false);
    let run = fields.work("run");
    let sleep = fields.duration("sleep");
    let loops = fields.integer("loops", -1..=i64::MAX, "a number of loops, or -1 for ever").unwrap_or(-1);
    let (util_min, util_max) = clamps(&mut fields);
    let written = fields.get("steps");
    let short = [exec.then_some(Op::Exec), run.map(|work| Op::Run { work }), sleep.map(|time| Op::Sleep { time })];
    let short = short.into_iter().flatten().collect::<Vec<Op>>();
    if let (Some(written), false) = (written, short.is_empty()) {
        let message = "this task has both `steps` and the short form".to_owned();
        let help = "write `run`, `sleep` and `exec` as steps: steps = [{ run = \"1ms\" }, { sleep = \"4ms\" }]";
        fields.bad(written.span(), message, "expected one of them", help);
    }
    if let (Some(value), Some(_), Some(_)) = (fields.get("sleep"), sleep, period) {
        let message = "this task has both `sleep` and `period`".to_owned();
        let help = "`sleep` counts from the end of the work, `period` from one start of the work to the next: keep one";
        fields.bad(value.span(), message, "expected one of them", help);
    }
    if let (Some(value), Some(_), None, None) = (fields.get("period"), period, written, run) {
        let message = "a task with a `period` and no work".to_owned();
        fields.bad(value.span(), message, "expected work to do in each period", "add run = \"1ms\", or steps");
        return fields.finish();
    }
    let spins = !periodic && written.is_none() && run.is_none() && sleep.is_none();
    let ops = match written {
        None if spins => short.into_iter().chain([Op::Run { work: Op::ENDLESS }]).collect(),
        Some(written) => step::parse_all(&mut fields, written, merged),
        None => short,
    };
    if !spins && written.is_none() && run.is_none() && sleep.is_none() && !fields.problems.has_errors() {
        let message = "this task does nothing".to_owned();
        fields.bad(
            span.clone(),
            message,
            "it neither runs nor sleeps",
            "add run = \"1ms\", and sleep = \"4ms\" unless it computes without a pause",
        );
    }
    fields.finish();
    let (Some((name, _)), false) = (name, problems.has_errors()) else { return };

    merged.own.arrive(&ops, instances as u64);
    let mut groups = GroupTree::new();
    let group = group.map(|path| groups.ensure(&path));
    let settings = Settings { policy: Some(policy), cpus, nodes: None, group, util_min, util_max };
    let sites =
        [PhaseSite { span: span.clone(), ops: vec![span.clone(); ops.len() + usize::from(period.is_some())] }].into();
    let program = |ops| -> Arc<[Phase]> {
        [Phase { name: name.to_owned(), repeat: Repeat::Times(1), settings: Settings::default(), ops }].into()
    };
    let phases = program(ops.clone());
    // Each instance has its own timer.
    let timer =
        |instance: i64| period.map(|period| Op::Timer { timer: instance as usize, period, mode: TimerMode::Absolute });
    let timers = (0..if period.is_some() { instances } else { 0 })
        .map(|_| Timer { name: format!("period:{name}"), start: Some(start) })
        .collect();
    let tasks = (0..instances).map(|instance| Task {
        name: if instances > 1 { format!("{name}-{instance}") } else { name.to_owned() },
        class: name.to_owned(),
        start: Some(start),
        before: None,
        wakee_flips: 0,
        averages: None,
        session: None,
        process: None,
        settings: settings.clone(),
        phases: timer(instance)
            .map_or_else(|| Arc::clone(&phases), |timer| program(ops.iter().cloned().chain([timer]).collect())),
        repeat: u64::try_from(loops).map_or(Repeat::Forever, Repeat::Times),
    });
    let tasks = tasks.collect();
    let workload = Workload { tasks, timers, groups: groups.into_groups(), ..Workload::default() };
    let tasks = 0..workload.tasks.len();
    let source_map = SourceMap { sites: vec![ClassSite { tasks, source, span, start: start_place, phases: sites }] };
    let placement = Placement { session, background, ..Placement::default() };
    merged.add(&workload, source_map, &placement);
}

/// The meaning of `period` outside of SCHED_DEADLINE.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Period {
    /// The interval at which a task's work begins.
    OfWork,
    Nothing,
}

/// Reads the policy of a change.
pub(super) fn policy(fields: &mut Fields<'_, '_>) -> Policy {
    policy_beside(fields, Period::Nothing)
}

fn policy_of_task(fields: &mut Fields<'_, '_>) -> Policy {
    policy_beside(fields, Period::OfWork)
}

fn policy_beside(fields: &mut Fields<'_, '_>, other_period: Period) -> Policy {
    let is_given = fields.get("policy").is_some();
    let named = fields.string("policy", "a policy, such as \"SCHED_OTHER\" or \"fifo:50\"").and_then(|(name, span)| {
        let policy = policy::written(name);
        let names = PolicyName::ALL.iter().map(|(name, _)| *name);
        policy.map_err(|why| fields.bad(span, why, "expected a policy", did_you_mean(name, names))).ok()
    });
    // Under an unknown policy, every key is accepted.
    let is_known = named.is_some() || !is_given;
    let policy = named.map_or(PolicyName::Other, |written| written.name);
    let (in_name, times_in_name) = named.map_or((None, None), |written| (written.priority, written.times));
    for (key, given) in [
        ("priority", in_name.is_some()),
        ("runtime", times_in_name.is_some()),
        ("deadline", times_in_name.is_some()),
        ("period", times_in_name.is_some()),
    ] {
        if let (true, Some(value)) = (given, fields.get(key)) {
            let message = format!("`{key}` is given twice, in `policy` and alone");
            fields.bad(value.span(), message, "the second", "keep one of them");
        }
    }
    let nice = fields.integer("nice", -20..=19, "a nice value");
    let priority = fields.integer("priority", 1..=99, "a real-time priority");
    let slice = fields.duration("slice");
    let times = ["runtime", "deadline", "period"].map(|key| fields.duration(key));
    let [runtime, deadline, period] = times_in_name.map_or(times, |times| times.map(Some));
    let (reclaim, overrun) = (fields.boolean("reclaim"), fields.boolean("overrun"));
    let fair = matches!(policy, PolicyName::Other | PolicyName::Batch);
    let realtime = matches!(policy, PolicyName::Fifo | PolicyName::RoundRobin);
    let dated = policy == PolicyName::Deadline;
    let misplaced = [
        ("nice", nice.is_some(), fair),
        ("slice", slice.is_some(), fair),
        ("priority", priority.is_some(), realtime),
        ("runtime", runtime.is_some(), dated),
        ("deadline", deadline.is_some(), dated),
        ("period", period.is_some(), dated || other_period == Period::OfWork),
        ("reclaim", reclaim.is_some(), dated),
        ("overrun", overrun.is_some(), dated),
    ];
    for (key, given, allowed) in misplaced {
        if given
            && !allowed
            && is_known
            && let Some(value) = fields.get(key)
        {
            let message = format!("`{key}` means nothing under {}", policy.name());
            fields.bad(value.span(), message, "not here", "remove it, or set `policy` to one that has it");
        }
    }
    let nice = nice.unwrap_or(0) as i8;
    let priority = in_name.unwrap_or(priority.unwrap_or(10) as u8);
    match policy {
        PolicyName::Other => Policy::Other { nice, slice: custom_slice(fields, slice) },
        PolicyName::Batch => Policy::Batch { nice, slice: custom_slice(fields, slice) },
        PolicyName::Idle => Policy::Idle,
        PolicyName::Fifo => Policy::Fifo { priority },
        PolicyName::RoundRobin => Policy::RoundRobin { priority },
        PolicyName::Deadline => {
            // The kernel can refuse a change, and the run continues.
            let may_be_refused = other_period == Period::Nothing && runtime.is_some();
            let runtime = runtime.unwrap_or(0);
            let period = period.unwrap_or(runtime);
            let deadline = deadline.unwrap_or(period);
            // Invalid times have been reported.
            let unread = ["runtime", "deadline", "period"].into_iter().zip(times);
            let unread = unread.filter(|(key, time)| time.is_none() && fields.get(key).is_some()).count();
            if unread == 0 && !may_be_refused && (runtime < 1024 || runtime > deadline || deadline > period) {
                let us = |ns: u64| format!("{} us", ns as f64 / 1000.0);
                let message = format!(
                    "the kernel refuses these deadline parameters: a runtime of {}, a deadline of {}, a period of {}",
                    us(runtime),
                    us(deadline),
                    us(period)
                );
                let key = if runtime < 1024 || runtime > deadline { "runtime" } else { "deadline" };
                // A missing time defaults to the next shorter one.
                let span = [key, "runtime", "deadline", "period", "policy"].into_iter().find_map(|key| fields.get(key));
                let span = span.map_or_else(|| fields.span.clone(), Value::span);
                let help = "set runtime, deadline and period, each a time such as \"10ms\"";
                fields.bad(span, message, "expected 1.024us <= runtime <= deadline <= period", help);
            }
            let (reclaim, overrun) = (reclaim.unwrap_or(false), overrun.unwrap_or(false));
            Policy::Deadline { runtime, deadline, period, reclaim, overrun }
        }
    }
}

fn custom_slice(fields: &mut Fields<'_, '_>, slice: Option<u64>) -> Option<u64> {
    const RANGE: std::ops::RangeInclusive<u64> = 100_000..=100_000_000;
    if let Some(slice) = slice
        && !RANGE.contains(&slice)
        && let Some(value) = fields.get("slice")
    {
        let message = "`slice` is out of the kernel's range".to_owned();
        fields.bad(value.span(), message, "expected \"100us\" to \"100ms\"", "leave it out for the kernel's own");
    }
    slice
}

/// Reads CPUs. None (all CPUs) if the list is empty.
pub(super) fn cpus(fields: &mut Fields<'_, '_>) -> Option<Vec<u32>> {
    let value = fields.get("cpus")?;
    cpuset::any_list(fields, "cpus", value).filter(|cpus| !cpus.is_empty())
}

/// Reads `group` as a normalized path.
pub(super) fn group_path(fields: &mut Fields<'_, '_>) -> Option<String> {
    let (path, span) = fields.string("group", "a group's path, such as \"/web\"")?;
    normalize_path(path)
        .map_err(|reason| {
            fields.bad(span, format!("`{path}` is not a group's path"), "expected \"/name/name\"", reason);
        })
        .ok()
}

pub(super) fn clamps(fields: &mut Fields<'_, '_>) -> (Option<u32>, Option<u32>) {
    let mut clamp = |key| fields.integer(key, 0..=1024, "a utilisation").map(|clamp| clamp as u32);
    let (util_min, util_max) = (clamp("util_min"), clamp("util_max"));
    if util_min > util_max.or(Some(1024)) {
        let (low, high) = (util_min.unwrap_or(0), util_max.unwrap_or(1024));
        let span = fields.get("util_min").map_or_else(|| fields.span.clone(), Value::span);
        let message = format!("a `util_min` of {low} is above the `util_max` of {high}");
        fields.bad(span, message, &format!("expected at most {high}"), "the kernel refuses such a pair of clamps");
    }
    (util_min, util_max)
}
