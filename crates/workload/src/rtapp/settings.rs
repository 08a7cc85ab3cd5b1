//! Attributes of tasks and phases: policy, CPUs, clamps, group.

use super::global::{self, Global, PolicyName};
use super::json::{Member, Span, Value};
use super::read;
use crate::error::Problems;
use crate::groups::{GroupTree, normalize_path};
use crate::program::{Policy, Settings};

/// Keys of tasks and phases.
pub(super) const KEYS: &[&str] = &[
    "loop",
    "policy",
    "priority",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "cpus",
    "nodes_membind",
    "util_min",
    "util_max",
    "taskgroup",
];

/// Keys of tasks only, from before `dl-`.
pub(super) const LEGACY_KEYS: &[&str] = &["runtime", "period", "deadline"];

/// The kernel clamps custom slices to this range, ns.
const SLICE_NS: std::ops::RangeInclusive<u64> = 100_000..=100_000_000;

/// SCHED_DEADLINE's smallest budget, ns.
const MIN_DEADLINE_RUNTIME_NS: u64 = 1024;

/// Values of a task or phase, as written.
#[derive(Debug, Default)]
pub(super) struct Given<'a> {
    values: Vec<(&'static str, &'a Value, Span)>,
}

impl<'a> Given<'a> {
    /// Adds a value.
    pub(super) fn note(&mut self, problems: &mut Problems, key: &'static str, member: &'a Member) {
        let Some(value) = member.value(problems) else { return };
        if let Some(at) = self.values.iter().position(|(known, ..)| *known == key) {
            read::repeated_key(problems, key, member.key_span.clone());
            self.values.remove(at);
        }
        self.values.push((key, value, member.key_span.clone()));
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.values.iter().find(|(known, ..)| *known == key).map(|(_, value, _)| *value)
    }

    fn key_span(&self, key: &str) -> Span {
        self.values.iter().find(|(known, ..)| *known == key).map_or(0..0, |(_, _, span)| span.clone())
    }

    fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

/// The current policy and parameters of a task, so that a phase can change one.
#[derive(Clone, Debug)]
pub(super) struct Current {
    policy: PolicyName,
    /// Whether its name was wrong. Consequences are not reported.
    unknown: bool,
    /// Whether a time was invalid. Consequences are not reported.
    untimed: bool,
    nice: i8,
    rt_priority: u8,
    slice: Option<u64>,
    runtime: Option<u64>,
    deadline: Option<u64>,
    period: Option<u64>,
}

/// rt-app's default.
const DEFAULT_RT_PRIORITY: u8 = 10;

impl Current {
    /// Returns the defaults of a task.
    pub(super) fn of(global: &Global) -> Self {
        let new = Self::new(global.default_policy);
        let rt_priority = global.default_priority.unwrap_or(new.rt_priority);
        Self { unknown: global.policy_unknown, rt_priority, ..new }
    }

    /// Returns the defaults of a policy.
    fn new(policy: PolicyName) -> Self {
        Self {
            policy,
            unknown: false,
            untimed: false,
            nice: 0,
            rt_priority: DEFAULT_RT_PRIORITY,
            slice: None,
            runtime: None,
            deadline: None,
            period: None,
        }
    }

    /// Applies values of a phase. Returns the policy if a value concerns it. `site` is the place for missing keys. What
    /// the kernel refuses is a warning: the run reports the refused call, and the task keeps its settings.
    pub(super) fn policy(&mut self, problems: &mut Problems, given: &Given<'_>, site: &Span) -> Option<Policy> {
        self.apply(problems, given, site, false)
    }

    fn apply(&mut self, problems: &mut Problems, given: &Given<'_>, site: &Span, starts: bool) -> Option<Policy> {
        let about_policy = ["policy", "priority", "dl-runtime", "dl-period", "dl-deadline"];
        if !about_policy.iter().chain(LEGACY_KEYS).any(|key| given.has(key)) {
            return None;
        }
        if let Some(value) = given.get("policy") {
            match global::policy(problems, "policy", value) {
                // A new policy has its own defaults.
                Some(written) => {
                    *self = Self::new(written.name);
                    self.rt_priority = written.priority.unwrap_or(self.rt_priority);
                    [self.runtime, self.deadline, self.period] =
                        written.times.map_or([None; 3], |times| times.map(Some));
                }
                None => self.unknown = true,
            }
        }
        if !self.unknown {
            if let Some(value) = given.get("priority") {
                self.priority(problems, value);
            }
            self.times(problems, given);
            self.check_deadline(problems, given, site, starts);
        }
        Some(self.to_policy())
    }

    fn priority(&mut self, problems: &mut Problems, value: &Value) {
        let key = "priority";
        match self.policy {
            PolicyName::Fifo | PolicyName::RoundRobin => {
                if let Some(priority) = read::integer(problems, key, value, 1..=99, "a real-time priority") {
                    self.rt_priority = priority as u8;
                }
            }
            PolicyName::Other | PolicyName::Batch => {
                if let Some(nice) = read::integer(problems, key, value, -20..=19, "a nice value") {
                    self.nice = nice as i8;
                }
            }
            // The kernel ignores it under both policies.
            PolicyName::Idle | PolicyName::Deadline => {
                read::integer(problems, key, value, -20..=99, "a priority");
            }
        }
    }

    fn times(&mut self, problems: &mut Problems, given: &Given<'_>) {
        let mut wrong = false;
        let mut time = |key: &str| {
            let time = given.get(key).map(|value| read::time(problems, key, value))?;
            wrong |= time.is_none();
            time
        };
        let (runtime, period, deadline) = (time("dl-runtime"), time("dl-period"), time("dl-deadline"));
        let (old_runtime, old_period, old_deadline) = (time("runtime"), time("period"), time("deadline"));
        self.untimed |= wrong;
        match self.policy {
            PolicyName::Deadline => {
                self.runtime = runtime.or(old_runtime).or(self.runtime);
                self.period = period.or(old_period).or(self.period);
                self.deadline = deadline.or(old_deadline).or(self.deadline);
            }
            PolicyName::Other | PolicyName::Batch => {
                if let Some(slice) = runtime {
                    // 0 requests the kernel's default.
                    self.slice = (slice > 0).then(|| slice.clamp(*SLICE_NS.start(), *SLICE_NS.end()));
                    if slice > 0 && !SLICE_NS.contains(&slice) {
                        let error = problems
                            .new_error(
                                given.get("dl-runtime").map_or(0..0, |value| value.span.clone()),
                                "this custom slice is out of the kernel's range",
                                "the kernel brings it to the nearest end",
                            )
                            .with_help("a custom slice is 100 to 100000 us");
                        problems.warn(error);
                    }
                }
                ignored(problems, given, self.policy, &["dl-period", "dl-deadline", "period", "deadline"]);
            }
            _ => {
                ignored(
                    problems,
                    given,
                    self.policy,
                    &["dl-runtime", "dl-period", "dl-deadline", "period", "deadline"],
                );
            }
        }
    }

    fn check_deadline(&mut self, problems: &mut Problems, given: &Given<'_>, site: &Span, starts: bool) {
        if self.policy != PolicyName::Deadline || self.unknown || self.untimed {
            return;
        }
        let runtime = self.runtime.unwrap_or(0);
        let period = self.period.filter(|period| *period > 0).unwrap_or(runtime);
        let deadline = self.deadline.filter(|deadline| *deadline > 0).unwrap_or(period);
        let order = "expected dl-runtime <= dl-deadline <= dl-period";
        // Without a deadline, the period is the deadline.
        let limit = if self.deadline.is_some_and(|deadline| deadline > 0) { "dl-deadline" } else { "dl-period" };
        let us = |ns: u64| ns / 1000;
        let wrong = if runtime == 0 {
            let label = "expected a `dl-runtime` of at least 2 us beside it";
            let help = "\"dl-runtime\" : 5000, \"dl-period\" : 10000".to_owned();
            Some(("dl-runtime", "SCHED_DEADLINE without a budget".to_owned(), label, help))
        } else if runtime < MIN_DEADLINE_RUNTIME_NS {
            let message = format!("the kernel refuses a `dl-runtime` of {} us (EINVAL)", us(runtime));
            Some(("dl-runtime", message, "expected at least 2 us", "raise `dl-runtime` to 2 or more".to_owned()))
        } else if runtime > deadline {
            let message = format!("the kernel refuses a `dl-runtime` above its `{limit}` (EINVAL)");
            let (runtime, most) = (us(runtime), us(deadline));
            let help = format!("lower `dl-runtime` to at most {most}, or raise `{limit}` to at least {runtime}");
            Some(("dl-runtime", message, order, help))
        } else if deadline > period {
            let message = "the kernel refuses a `dl-deadline` above its `dl-period` (EINVAL)".to_owned();
            let (deadline, most) = (us(deadline), us(period));
            let help = format!("lower `dl-deadline` to at most {most}, or raise `dl-period` to at least {deadline}");
            Some(("dl-deadline", message, order, help))
        } else {
            None
        };
        if let Some((key, message, label, help)) = wrong {
            let old = key.trim_start_matches("dl-");
            let keys = [key, old, "dl-runtime", "runtime", "policy"];
            let place =
                keys.iter().find_map(|key| given.get(key)).map_or_else(|| site.clone(), |value| value.span.clone());
            let error = problems.new_error(place, message, label).with_help(help);
            if starts || runtime == 0 { problems.error(error) } else { problems.warn(error) }
        }
        (self.runtime, self.deadline, self.period) = (Some(runtime), Some(deadline), Some(period));
    }

    fn to_policy(&self) -> Policy {
        match self.policy {
            PolicyName::Other => Policy::Other { nice: self.nice, slice: self.slice },
            PolicyName::Batch => Policy::Batch { nice: self.nice, slice: self.slice },
            PolicyName::Idle => Policy::Idle,
            PolicyName::Fifo => Policy::Fifo { priority: self.rt_priority },
            PolicyName::RoundRobin => Policy::RoundRobin { priority: self.rt_priority },
            PolicyName::Deadline => Policy::Deadline {
                runtime: self.runtime.unwrap_or(0),
                deadline: self.deadline.unwrap_or(0),
                period: self.period.unwrap_or(0),
                reclaim: false,
                overrun: false,
            },
        }
    }

    /// Returns the policy, with defaults for missing values.
    pub(super) fn initial(&mut self, problems: &mut Problems, given: &Given<'_>, site: &Span) -> Policy {
        if let Some(policy) = self.apply(problems, given, site, true) {
            return policy;
        }
        self.check_deadline(problems, given, site, true);
        self.to_policy()
    }
}

fn ignored(problems: &mut Problems, given: &Given<'_>, policy: PolicyName, keys: &[&str]) {
    for key in keys.iter().filter(|key| given.has(key)) {
        let error = problems
            .new_error(given.key_span(key), format!("`{key}` means nothing under {}", policy.name()), "it is ignored")
            .with_help("remove it, or set `policy` to SCHED_DEADLINE");
        problems.warn(error);
    }
}

/// Reads all attributes except the policy.
pub(super) fn others(problems: &mut Problems, given: &Given<'_>, groups: &mut GroupTree) -> Settings {
    let mut settings = Settings::default();
    let clamp = |problems: &mut Problems, key: &str| {
        let value = given.get(key)?;
        read::integer(problems, key, value, 0..=1024, "a utilisation").map(|clamp| clamp as u32)
    };
    settings.cpus = given.get("cpus").and_then(|value| read::numbers(problems, "cpus", value, "CPU numbers"));
    settings.nodes =
        given.get("nodes_membind").and_then(|value| read::numbers(problems, "nodes_membind", value, "node numbers"));
    settings.util_min = clamp(problems, "util_min");
    settings.util_max = clamp(problems, "util_max");
    if let (Some(low), Some(high), Some(value)) = (settings.util_min, settings.util_max, given.get("util_min"))
        && low > high
    {
        let error = problems
            .new_error(value.span.clone(), "`util_min` is above `util_max`", format!("expected at most {high}"))
            .with_help("the kernel refuses such a pair of clamps");
        problems.error(error);
    }
    if let Some(value) = given.get("taskgroup")
        && let Some(path) = read::string(problems, "taskgroup", value, "a group's path, such as \"/web\"")
    {
        match normalize_path(path) {
            Ok(path) => settings.group = Some(groups.ensure(&path)),
            Err(reason) => {
                let error = problems
                    .new_error(value.span.clone(), format!("`{path}` is not a group's path"), "expected \"/name/name\"")
                    .with_help(reason);
                problems.error(error);
            }
        }
    }
    settings
}

/// Reads `loop`; -1 is endless.
pub(super) fn repeat(problems: &mut Problems, given: &Given<'_>) -> Option<i64> {
    let value = given.get("loop")?;
    read::integer(problems, "loop", value, -1..=i64::MAX, "a number of loops, or -1 for ever")
}
