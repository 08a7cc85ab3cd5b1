//! The `global` object.

use super::json::{Kind, Member, Value};
use super::read;
use crate::error::Problems;
use crate::policy::{Written, written};
use crate::suggest::did_you_mean;

/// A policy without parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyName {
    /// SCHED_OTHER.
    #[default]
    Other,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO.
    Fifo,
    /// SCHED_RR.
    RoundRobin,
    /// SCHED_DEADLINE.
    Deadline,
}

impl PolicyName {
    /// Every policy with its name in the kernel and rt-app.
    pub const ALL: [(&'static str, Self); 6] = [
        ("SCHED_OTHER", Self::Other),
        ("SCHED_BATCH", Self::Batch),
        ("SCHED_IDLE", Self::Idle),
        ("SCHED_FIFO", Self::Fifo),
        ("SCHED_RR", Self::RoundRobin),
        ("SCHED_DEADLINE", Self::Deadline),
    ];

    /// Returns the policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, policy)| *policy)
    }

    /// Returns the name, such as `SCHED_OTHER`.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }
}

/// rt-app's measure of work in `run`. Only the real-kernel host calibrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calibration {
    /// Measure on this CPU.
    Cpu(u32),
    /// Nanoseconds per turn of the busy loop.
    NsPerLoop(u64),
}

/// rt-app's log during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSize {
    /// The file.
    File,
    /// None.
    Disable,
    /// A buffer of rt-app's choice.
    Auto,
    /// A buffer of this many MiB for each thread.
    MiB(u64),
}

/// Events that rt-app writes to ftrace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FtraceCategory {
    /// Begin and end of the workload.
    Main,
    /// Begin and end of each task.
    Task,
    /// Each loop.
    Loop,
    /// Each event.
    Event,
    /// The figures of the log.
    Stats,
}

impl FtraceCategory {
    /// Every category with its name in the file.
    pub const ALL: [(&'static str, Self); 5] = [
        ("main", Self::Main),
        ("task", Self::Task),
        ("loop", Self::Loop),
        ("event", Self::Event),
        ("stats", Self::Stats),
    ];
}

/// The `global` object of a file, with defaults.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "the file's keys, each on its own")]
pub struct Global {
    /// Seconds. None (-1 or 0 in the file): until every task ends.
    pub duration_s: Option<u64>,
    /// The calibration of work.
    pub calibration: Calibration,
    /// Policy of tasks without one.
    pub default_policy: PolicyName,
    /// Real-time priority of that policy, if the file has it: `fifo:50`.
    pub default_priority: Option<u8>,
    /// Whether the policy is unknown.
    pub(super) policy_unknown: bool,
    /// Whether mutexes inherit priority.
    pub pi_enabled: bool,
    /// Whether memory is locked.
    pub lock_pages: bool,
    /// Folder of the logs.
    pub logdir: String,
    /// Prefix of the logs' names.
    pub log_basename: String,
    /// The log's place during the run.
    pub log_size: LogSize,
    /// ftrace categories, ascending. `true` in the file: all.
    pub ftrace: Vec<FtraceCategory>,
    /// Whether to write gnuplot files.
    pub gnuplot: bool,
    /// The file that `iorun` writes to.
    pub io_device: String,
    /// Bytes of each task's memory buffer (`mem`).
    pub mem_buffer_size: u64,
    /// Whether the log has the sum of a phase's timer slack.
    pub cumulative_slack: bool,
}

impl Default for Global {
    fn default() -> Self {
        Self {
            duration_s: None,
            calibration: Calibration::Cpu(0),
            default_policy: PolicyName::Other,
            default_priority: None,
            policy_unknown: false,
            pi_enabled: false,
            lock_pages: false,
            logdir: "./".to_owned(),
            log_basename: "rt-app".to_owned(),
            log_size: LogSize::File,
            ftrace: Vec::new(),
            gnuplot: false,
            io_device: "/dev/null".to_owned(),
            mem_buffer_size: 4 << 20,
            cumulative_slack: false,
        }
    }
}

pub(super) const KEYS: &[&str] = &[
    "duration",
    "calibration",
    "default_policy",
    "pi_enabled",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
];

/// Longest run, seconds.
const MAX_DURATION_S: i64 = read::MAX_TIME_US / 1_000_000;

pub(super) fn parse(problems: &mut Problems, value: &Value) -> Global {
    let mut global = Global::default();
    let Some(members) = read::object(problems, "global", value, "an object") else { return global };
    let mut seen: Vec<&str> = Vec::new();
    for member in members {
        let key = member.key.as_str();
        // Memory fragmentation of old rt-app, whose examples still have it. Unrelated to scheduling.
        if key == "frag" {
            problems.tolerate(|problems| {
                let message = "`frag` is a key of rt-app before 0.4";
                problems.new_error(member.key_span.clone(), message, "it has no effect").with_help("remove it")
            });
            continue;
        }
        let Some(&key) = KEYS.iter().find(|known| **known == key) else {
            read::unknown_key(problems, member, "`global`", KEYS);
            continue;
        };
        if seen.contains(&key) {
            read::repeated_key(problems, key, member.key_span.clone());
        }
        seen.push(key);
        if let Some(value) = member.value(problems) {
            global.set(problems, member, value);
        }
    }
    global
}

impl Global {
    fn set(&mut self, problems: &mut Problems, member: &Member, value: &Value) {
        let key = member.key.as_str();
        let mut boolean = |target: &mut bool| *target = read::boolean(problems, key, value).unwrap_or(*target);
        match key {
            "pi_enabled" => boolean(&mut self.pi_enabled),
            "lock_pages" => boolean(&mut self.lock_pages),
            "gnuplot" => boolean(&mut self.gnuplot),
            "cumulative_slack" => boolean(&mut self.cumulative_slack),
            "duration" => {
                let seconds = read::integer(problems, key, value, -1..=MAX_DURATION_S, "seconds, or -1 for no end");
                // rt-app waits for the tasks if the number is not positive.
                self.duration_s = seconds.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0);
            }
            "calibration" => self.calibration = calibration(problems, value).unwrap_or(self.calibration),
            "default_policy" => {
                let named = default_policy(problems, key, value);
                self.policy_unknown = named.is_none();
                (self.default_policy, self.default_priority) = named.unwrap_or((self.default_policy, None));
            }
            "logdir" => text(problems, key, value, &mut self.logdir),
            "log_basename" => text(problems, key, value, &mut self.log_basename),
            "io_device" => text(problems, key, value, &mut self.io_device),
            "log_size" => self.log_size = log_size(problems, value).unwrap_or(self.log_size),
            "ftrace" => self.ftrace = ftrace(problems, value).unwrap_or_default(),
            "mem_buffer_size" => {
                self.mem_buffer_size = read::bytes(problems, key, value).unwrap_or(self.mem_buffer_size);
            }
            _ => read::unknown_key(problems, member, "`global`", KEYS),
        }
    }
}

fn text(problems: &mut Problems, key: &str, value: &Value, target: &mut String) {
    if let Some(text) = read::string(problems, key, value, "a string") {
        text.clone_into(target);
    }
}

/// Reads a policy with optional parameters.
pub(super) fn policy(problems: &mut Problems, key: &str, value: &Value) -> Option<Written> {
    let name = read::string(problems, key, value, "the name of a policy, such as \"SCHED_OTHER\"")?;
    let policy = written(name);
    policy
        .map_err(|why| {
            let names = PolicyName::ALL.iter().map(|(name, _)| *name);
            let error = problems.new_error(value.span.clone(), why, "expected a policy");
            problems.error(error.with_help(did_you_mean(name, names)));
        })
        .ok()
}

/// Reads a policy without times, and its priority.
fn default_policy(problems: &mut Problems, key: &str, value: &Value) -> Option<(PolicyName, Option<u8>)> {
    let policy = policy(problems, key, value)?;
    if policy.times.is_some() {
        let message = format!("`{key}` names a policy with times");
        let error = problems.new_error(value.span.clone(), message, "expected a name, or a name and a priority");
        problems.error(error.with_help("give each task its own `policy`"));
    }
    Some((policy.name, policy.priority))
}

fn calibration(problems: &mut Problems, value: &Value) -> Option<Calibration> {
    if let Kind::String(text) = &value.kind {
        if let Some(cpu) = text.strip_prefix("CPU").and_then(|cpu| cpu.parse().ok()) {
            return Some(Calibration::Cpu(cpu));
        }
        let error = problems
            .new_error(value.span.clone(), format!("`calibration` is \"{text}\""), "expected \"CPU0\" or a number")
            .with_help("\"CPUn\" calibrates on CPU n; a number is nanoseconds per loop");
        problems.error(error);
        return None;
    }
    read::integer(problems, "calibration", value, 1..=1_000_000_000, "\"CPUn\" or nanoseconds per loop")
        .map(|ns| Calibration::NsPerLoop(ns as u64))
}

fn log_size(problems: &mut Problems, value: &Value) -> Option<LogSize> {
    let Kind::String(text) = &value.kind else {
        return read::integer(problems, "log_size", value, 0..=1 << 20, "MiB, or \"file\", \"disable\", \"auto\"")
            .map(|size| LogSize::MiB(size as u64));
    };
    match text.to_ascii_lowercase().as_str() {
        "file" => Some(LogSize::File),
        "disable" => Some(LogSize::Disable),
        "auto" => Some(LogSize::Auto),
        _ => {
            let error = problems
                .new_error(value.span.clone(), format!("unknown log size \"{text}\""), "expected a word rt-app knows")
                .with_help(did_you_mean(text, ["file", "disable", "auto"]));
            problems.error(error);
            None
        }
    }
}

fn ftrace(problems: &mut Problems, value: &Value) -> Option<Vec<FtraceCategory>> {
    let Kind::String(text) = &value.kind else {
        let all = read::boolean(problems, "ftrace", value)?;
        return Some(if all {
            FtraceCategory::ALL.iter().map(|(_, category)| *category).collect()
        } else {
            Vec::new()
        });
    };
    let mut wanted = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !matches!(*word, "" | "none")) {
        let known = FtraceCategory::ALL.iter().find(|(name, _)| *name == word);
        wanted.extend(known.map(|(_, category)| *category));
        if known.is_none() {
            let names = FtraceCategory::ALL.iter().map(|(name, _)| *name).chain(["none"]);
            let error = problems
                .new_error(value.span.clone(), format!("unknown ftrace category `{word}`"), "in this list")
                .with_help(did_you_mean(word, names));
            problems.warn(error);
        }
    }
    wanted.sort_unstable();
    wanted.dedup();
    Some(wanted)
}
