//! Values of a rule's keys. Each reader returns what was wrong and expected.

use std::ops::Range;

use globset::GlobBuilder;
use regex::RegexBuilder;

use super::super::Closed;
use super::{Affinity, Limits, Selector, What};
use vruntime_workload::groups::normalize_path;
use vruntime_workload::limit::{PERIOD_NS, QUOTA_NS, cpu_max};
use vruntime_workload::parse_duration;
use vruntime_workload::policy::{EXPECTED, written};
use vruntime_workload::program::{CpuMax, Policy};
use vruntime_workload::rtapp::PolicyName;

/// The keys of selectors.
pub(super) const SELECTORS: [&str; 6] = ["comm", "regex", "pid", "tgid", "tree", "cgroup"];
/// The keys of changes.
pub(super) const WHAT: [&str; 12] =
    ["nice", "policy", "priority", "cpus", "group", "weight", "max", "burst", "idle", "copies", "loop", "remove"];
/// Keys of a group's table.
pub(super) const LIMITS: [&str; 4] = ["weight", "max", "burst", "idle"];

/// Returns the key for a cgroup v2 file: `weight` for `cpu.weight`; others stay.
pub(super) fn of_file(name: &str) -> &str {
    match name.strip_prefix("cpu.") {
        Some("max.burst") => "burst",
        Some(key) if LIMITS.contains(&key) => key,
        _ => name,
    }
}

/// The most memory of a compiled pattern.
const REGEX_BYTES: usize = 1 << 20;
/// A value's problem, and what was expected.
pub(super) type Wrong = (String, &'static str);

/// Sets a selector, if `key` is one of [`SELECTORS`].
pub(super) fn select(selector: &mut Selector, key: &str, text: &str) -> Result<(), Wrong> {
    match key {
        "comm" => selector.comm = Some(glob(text)?),
        "regex" => {
            let regex = RegexBuilder::new(text).size_limit(REGEX_BYTES).build();
            selector.regex = Some(regex.map_err(|error| {
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
                (format!("`{text}` is no regular expression: {why}"), "a pattern such as ^web-[0-9]+$")
            })?);
        }
        "pid" => selector.pids = Some(ids(text)?),
        "tree" => selector.trees = Some(ids(text)?),
        "cgroup" => {
            let pattern = |why| (why, "a group's path such as /web or /pods/*, where * matches any text");
            if !text.starts_with('/') {
                return Err(pattern(format!("`{text}` is no group's path")));
            }
            selector.cgroup = Some(glob(text).map_err(|(why, _)| pattern(why))?);
        }
        _ => selector.tgids = Some(ids(text)?),
    }
    Ok(())
}

/// A pattern of names.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// This name only.
    Name(String),
    Regex(regex::bytes::Regex),
}

impl Pattern {
    pub(super) fn is_match(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Regex(regex) => regex.is_match(name.as_bytes()),
        }
    }

    /// Returns the only name that matches, if the pattern has no wildcards.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Regex(_) => None,
        }
    }
}

/// Compiles a pattern of names: `*`, `?`, `[a-z]`, `{a,b}`.
pub(super) fn glob(text: &str) -> Result<Pattern, Wrong> {
    if !text.contains(['*', '?', '[', ']', '{', '}', '\\']) {
        return Ok(Pattern::Name(text.to_owned()));
    }
    let expected = "a name, where * matches any text";
    let glob = GlobBuilder::new(text).build();
    let glob = glob.map_err(|error| (format!("`{text}` is no pattern: {}", error.kind()), expected))?;
    // The library's own matcher panics where the pattern is too large, or too deep.
    let regex =
        regex::bytes::RegexBuilder::new(glob.regex()).dot_matches_new_line(true).size_limit(REGEX_BYTES).build();
    regex.map(Pattern::Regex).map_err(|_| {
        let start: String = text.chars().take(40).collect();
        let more = if start.len() < text.len() { "..." } else { "" };
        (format!("`{start}{more}` is too large a pattern, or has too many braces inside each other"), expected)
    })
}

/// Sets the change of `key`, if it is one of [`WHAT`].
pub(super) fn what(what: &mut What, key: &str, text: &str) -> Result<(), Wrong> {
    match key {
        "nice" => what.nice = Some(nice(text)?),
        "policy" => what.policy = Some(policy(text)?),
        "priority" => what.priority = Some(number(text, 1, 99, "a real-time priority, 1 to 99")? as u8),
        "cpus" if text == "all" => what.cpus = Some(Affinity(None)),
        "cpus" => what.cpus = Some(Affinity(Some(cpus(text)?))),
        "group" => {
            let path = normalize_path(text)
                .map_err(|why| (format!("`{text}` is not a group's path: {why}"), "a path such as /batch"))?;
            what.group = Some(path);
        }
        "copies" => what.copies = Some(number(text, 1, 10_000, "how many there are to be, 1 to 10000")? as u32),
        "loop" => {
            what.closed = Some(match text {
                "closed" => Closed::Yes,
                "open" => Closed::No,
                _ => return Err((format!("`{text}` is neither closed nor open"), "closed or open")),
            });
        }
        "remove" => what.remove = flag(text)?,
        _ => limits(&mut what.limits, key, text)?,
    }
    Ok(())
}

/// Sets a group's `key`, if it is one of [`LIMITS`].
pub(super) fn limits(limits: &mut Limits, key: &str, text: &str) -> Result<(), Wrong> {
    match key {
        "weight" => limits.weight = Some(number(text, 1, 10_000, "a weight, 1 to 10000 (cpu.weight)")? as u32),
        "idle" => limits.idle = Some(flag(text)?),
        "burst" => limits.burst = Some(burst(text)?),
        _ => limits.max = Some(max(text)?),
    }
    Ok(())
}

fn number(text: &str, low: i64, high: i64, expected: &'static str) -> Result<i64, Wrong> {
    let number = text.parse::<i64>().ok().filter(|number| (low..=high).contains(number));
    number.ok_or_else(|| (format!("`{text}` is no whole number from {low} to {high}"), expected))
}

fn flag(text: &str) -> Result<bool, Wrong> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err((format!("`{text}` is neither true nor false"), "true or false")),
    }
}

fn nice(text: &str) -> Result<i8, Wrong> {
    number(text, -20, 19, "a nice value, -20 to 19").map(|nice| nice as i8)
}

/// Returns a policy. A real-time one has priority 0 until [`with_priority`] adds the rule's.
fn policy(text: &str) -> Result<Policy, Wrong> {
    let written = written(text).map_err(|why| (why, EXPECTED))?;
    let priority = written.priority.unwrap_or(0);
    Ok(match written.name {
        PolicyName::Other => Policy::Other { nice: 0, slice: None },
        PolicyName::Batch => Policy::Batch { nice: 0, slice: None },
        PolicyName::Idle => Policy::Idle,
        PolicyName::Fifo => Policy::Fifo { priority },
        PolicyName::RoundRobin => Policy::RoundRobin { priority },
        PolicyName::Deadline => {
            let expected = "deadline:RUNTIME/DEADLINE/PERIOD with 1024ns <= runtime <= deadline <= period";
            let wrong = |why: &str| (format!("`{text}` is no policy: {why}"), expected);
            let [runtime, deadline, period] = written.times.ok_or_else(|| wrong("it takes three times"))?;
            if runtime < 1024 || runtime > deadline || deadline > period {
                return Err(wrong("the kernel refuses these parameters"));
            }
            Policy::Deadline { runtime, deadline, period, reclaim: false, overrun: false }
        }
    })
}

/// Adds the priority beside a rule's policy.
pub(super) fn with_priority(policy: Option<Policy>, priority: Option<u8>) -> Result<Option<Policy>, Wrong> {
    const EXPECTED: &str = "a priority of 1 to 99, such as fifo:50, or `priority=50` beside the policy";
    let Some(known @ (Policy::Fifo { priority: own } | Policy::RoundRobin { priority: own })) = policy else {
        return match priority {
            None => Ok(policy),
            Some(_) => Err(("`priority` without a real-time policy".to_owned(), "policy=fifo or policy=rr beside it")),
        };
    };
    let priority = match (own, priority) {
        (0, None) => return Err(("the policy needs a priority".to_owned(), EXPECTED)),
        (0, Some(priority)) | (priority, None) => priority,
        (_, Some(_)) => return Err(("the priority is given twice".to_owned(), "it in the policy or as `priority`")),
    };
    Ok(Some(match known {
        Policy::Fifo { .. } => Policy::Fifo { priority },
        _ => Policy::RoundRobin { priority },
    }))
}

/// `1,4-7`, with both ends.
fn ids(text: &str) -> Result<Vec<Range<i64>>, Wrong> {
    let wrong = || (format!("`{text}` is no list of numbers"), "numbers and ranges such as 12,20-29");
    let one = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        (first <= last).then_some(i64::from(first)..i64::from(last) + 1)
    };
    text.split(',').map(|part| one(part).ok_or_else(wrong)).collect()
}

fn cpus(text: &str) -> Result<Vec<u32>, Wrong> {
    /// The largest NR_CPUS of any architecture.
    const MOST: i64 = 8192;
    let ranges = ids(text).map_err(|(why, _)| (why, "CPUs such as 0-3,6, or all"))?;
    if let Some(range) = ranges.iter().find(|range| range.end > MOST) {
        return Err((format!("no machine has a CPU {}", range.end - 1), "CPUs such as 0-3,6, or all"));
    }
    let mut cpus: Vec<u32> = ranges.into_iter().flatten().map(|cpu| cpu as u32).collect();
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Returns a burst in nanoseconds: a time with its unit, or microseconds as in `cpu.max.burst`.
fn burst(text: &str) -> Result<u64, Wrong> {
    const EXPECTED: &str = "a time such as 20ms, or microseconds as in cpu.max.burst; at most the quota";
    let us = text.parse::<u64>().ok().map(|us| us.saturating_mul(1000));
    let burst = us.or_else(|| parse_duration(text).ok());
    burst.ok_or_else(|| (format!("`{text}` is no burst"), EXPECTED))
}

/// Returns the kernel's part of [`cpu_max`].
fn max(text: &str) -> Result<CpuMax, Wrong> {
    const EXPECTED: &str = "max, QUOTA/PERIOD such as 20ms/100ms (1 ms or more, of 1 ms to 1 s), or CPUs such as 500m, 0.5, 2 or 500m/10ms";
    let wrong = || (format!("`{text}` is no limit"), EXPECTED);
    match cpu_max(text).ok_or_else(wrong)? {
        CpuMax::Limited(limit) if limit.quota > *QUOTA_NS.end() => {
            let message = format!("`{text}` is a quota of {} us", limit.quota / 1000);
            Err((message, "at most 17592186044415 us, as the kernel has it, or max for no limit"))
        }
        CpuMax::Limited(limit) if !QUOTA_NS.contains(&limit.quota) || !PERIOD_NS.contains(&limit.period) => {
            Err(wrong())
        }
        max => Ok(max),
    }
}
