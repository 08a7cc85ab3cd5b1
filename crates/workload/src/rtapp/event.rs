//! Events: operations of a task, each a key.

use super::json::{Kind, Member, Span, Value};
use super::names::Names;
use super::read;
use crate::error::Problems;
use crate::names::Interner;
use crate::program::{MemRun, Op, TimerMode};
use crate::suggest::did_you_mean;

/// Events, in the order of matching. A key belongs to the first event that is its prefix.
pub(super) const PREFIXES: &[&str] = &[
    "lock", "unlock", "wait", "signal", "broad", "sync", "sleep", "runtime", "run", "timer", "suspend", "resume",
    "memrun", "mem", "iorun", "yield", "barrier", "fork", "sem_post", "sem_wait",
];

pub(super) fn kind_of(key: &str) -> Option<&'static str> {
    PREFIXES.iter().copied().find(|prefix| key.starts_with(prefix))
}

/// An operation with unresolved references.
#[derive(Debug)]
pub(super) enum Step {
    Op(Op),
    /// A timer that only this task uses (`unique`), by number.
    OwnTimer {
        number: usize,
        period: u64,
        mode: TimerMode,
    },
    /// The name of a class, and its place.
    Fork(String, Span),
}

pub(super) struct Context<'a> {
    pub(super) problems: &'a mut Problems,
    pub(super) names: &'a mut Names,
    /// The event's class.
    pub(super) class: &'a str,
    /// Instances of the class that exist from the start.
    pub(super) instances: u64,
    /// The names of the timers that each task of the class has for itself.
    pub(super) own_timers: &'a mut Interner,
    /// Size of a task's memory buffer, bytes.
    pub(super) buffer_size: u64,
}

/// rt-app's substitute for a missing name.
const UNNAMED: &str = "unknown";

impl Context<'_> {
    /// Reads the event of `kind` (one of [`PREFIXES`]). Reports errors and returns None.
    pub(super) fn event(&mut self, kind: &str, member: &Member) -> Option<Step> {
        let op = match kind {
            "suspend" => self.suspend(member)?,
            "yield" => {
                self.yields(member);
                Op::Yield
            }
            _ => {
                let key = member.key.as_str();
                let value = member.value(self.problems)?;
                match kind {
                    "run" => Op::Run { work: read::work(self.problems, key, value)? },
                    "runtime" => Op::Runtime { time: read::time(self.problems, key, value)? },
                    "sleep" => Op::Sleep { time: read::time(self.problems, key, value)? },
                    "mem" => Op::Mem { bytes: read::bytes(self.problems, key, value)? },
                    "iorun" => Op::Io { bytes: read::bytes(self.problems, key, value)? },
                    "memrun" => Op::MemRun(Box::new(self.mem_run(key, value)?)),
                    "timer" => return self.timer(key, value),
                    "wait" | "sync" => self.wait_or_sync(kind, key, value)?,
                    "fork" => {
                        let name = read::name(self.problems, key, value, "the name of a task")?;
                        return Some(Step::Fork(name.to_owned(), value.span.clone()));
                    }
                    _ => self.named(kind, key, value)?,
                }
            }
        };
        Some(Step::Op(op))
    }

    /// Reads an event whose value is the name of an object.
    fn named(&mut self, kind: &str, key: &str, value: &Value) -> Option<Op> {
        let what = match kind {
            "lock" | "unlock" => "the name of a mutex",
            "signal" | "broad" => "the name of a condition",
            "resume" => "the name of a task or of what it suspends on",
            "barrier" => "the name of a barrier",
            _ => "the name of a semaphore",
        };
        if key == "lock_order" && !matches!(value.kind, Kind::String(_)) {
            return self.old_grammar(key, value);
        }
        let name = read::name(self.problems, key, value, what)?;
        Some(match kind {
            "lock" => Op::Lock(self.names.mutexes.number(name)),
            "unlock" => Op::Unlock(self.names.mutexes.number(name)),
            "signal" => Op::Signal(self.names.conditions.number(name)),
            "broad" => Op::Broadcast(self.names.conditions.number(name)),
            "resume" => {
                Op::Resume { condition: self.names.conditions.number(name), mutex: self.names.mutexes.number(name) }
            }
            "barrier" => Op::Barrier(self.names.barrier(name, self.instances)),
            "sem_post" => Op::SemPost(self.names.semaphores.number(name)),
            _ => Op::SemWait(self.names.semaphores.number(name)),
        })
    }

    fn old_grammar(&mut self, key: &str, value: &Value) -> Option<Op> {
        let error = self
            .problems
            .new_error(
                value.span.clone(),
                format!("`{key}` belongs to the grammar before rt-app 0.3"),
                "expected events in the order of their execution",
            )
            .with_help("write `exec`, `lock_order` and `resources` as `run`, `lock`, `unlock`, `wait`, `signal`");
        self.problems.error(error);
        None
    }

    /// Reads `suspend`. Without a name, the task suspends on an object named after its class.
    fn suspend(&mut self, member: &Member) -> Option<Op> {
        let name = match &member.value {
            None => "",
            Some(value) => read::string(self.problems, &member.key, value, "the name of a task, or \"\" for itself")?,
        };
        let name = if name.is_empty() { self.class } else { name };
        let (condition, mutex) = (self.names.conditions.number(name), self.names.mutexes.number(name));
        Some(Op::Suspend { condition, mutex })
    }

    /// Warns if the value of `yield`, which rt-app ignores, is no string.
    fn yields(&mut self, member: &Member) {
        if let Some(value) = &member.value
            && !matches!(value.kind, Kind::String(_))
        {
            self.problems.tolerate(|problems| {
                let message = format!("`{}` is {}", member.key, value.kind.noun());
                problems.new_error(value.span.clone(), message, "expected a string").with_help("write \"\"")
            });
        }
    }

    /// Returns the member called `key` of an event's object.
    fn part<'v>(&mut self, members: &'v [Member], key: &str) -> Option<&'v Value> {
        let mut found = None;
        for member in members.iter().filter(|member| member.key == key) {
            if found.is_some() {
                read::repeated_key(self.problems, key, member.key_span.clone());
            }
            found = member.value(self.problems);
        }
        found
    }

    fn members<'v>(&mut self, key: &str, value: &'v Value, what: &str, known: &[&str]) -> Option<&'v [Member]> {
        let members = read::object(self.problems, key, value, what)?;
        for member in members.iter().filter(|member| !known.contains(&member.key.as_str())) {
            read::unknown_key(self.problems, member, &format!("`{key}`"), known);
        }
        Some(members)
    }

    /// Returns the name in an event's object. rt-app substitutes a missing one.
    fn reference<'v>(&mut self, members: &'v [Member], key: &str, part: &str, object: &Span) -> Option<&'v str> {
        if let Some(value) = self.part(members, part) {
            return read::name(self.problems, part, value, "a name");
        }
        let error = self
            .problems
            .new_error(object.clone(), format!("`{key}` has no `{part}`"), format!("expected \"{part}\" : \"a name\""))
            .with_help(format!("rt-app takes the name \"{UNNAMED}\" for it; better give it one"));
        self.problems.warn(error);
        Some(UNNAMED)
    }

    fn wait_or_sync(&mut self, kind: &str, key: &str, value: &Value) -> Option<Op> {
        let what = "{ \"ref\" : \"a condition\", \"mutex\" : \"a mutex\" }";
        let members = self.members(key, value, what, &["ref", "mutex"])?;
        let condition = self.reference(members, key, "ref", &value.span);
        let mutex = self.reference(members, key, "mutex", &value.span);
        let condition = self.names.conditions.number(condition?);
        let mutex = self.names.mutexes.number(mutex?);
        Some(if kind == "wait" { Op::Wait { condition, mutex } } else { Op::Sync { condition, mutex } })
    }

    fn timer(&mut self, key: &str, value: &Value) -> Option<Step> {
        let what = "{ \"ref\" : \"a timer\", \"period\" : microseconds }";
        let members = self.members(key, value, what, &["ref", "period", "mode"])?;
        let name = self.reference(members, key, "ref", &value.span);
        let mode = self.timer_mode(members);
        let Some(period) = self.part(members, "period") else {
            let message = format!("`{key}` has no `period`");
            let error = self.problems.new_error(value.span.clone(), message, "expected \"period\" : microseconds");
            self.problems.error(error.with_help("the period counts from one use of the timer to the next"));
            return None;
        };
        let period = read::time(self.problems, "period", period)?;
        let (name, mode) = (name?, mode?);
        if !name.starts_with("unique") {
            return Some(Step::Op(Op::Timer { timer: self.names.timers.number(name), period, mode }));
        }
        let number = self.own_timers.number(name);
        Some(Step::OwnTimer { number, period, mode })
    }

    fn timer_mode(&mut self, members: &[Member]) -> Option<TimerMode> {
        let Some(value) = self.part(members, "mode") else { return Some(TimerMode::Relative) };
        let name = read::string(self.problems, "mode", value, "\"relative\" or \"absolute\"")?;
        match name {
            "relative" => Some(TimerMode::Relative),
            "absolute" => Some(TimerMode::Absolute),
            _ => {
                let error = self
                    .problems
                    .new_error(value.span.clone(), format!("unknown timer mode `{name}`"), "taken as \"relative\"")
                    .with_help(did_you_mean(name, ["relative", "absolute"]));
                self.problems.warn(error);
                Some(TimerMode::Relative)
            }
        }
    }

    fn mem_run(&mut self, key: &str, value: &Value) -> Option<MemRun> {
        const CACHE_LINE: u64 = 64;
        let known = ["type", "size", "count", "stride", "pattern", "ref"];
        let members = self.members(key, value, "an object with `type` and `size`", &known)?;
        let mut text = |part: &str, default: &str| match self.part(members, part) {
            Some(value) => read::name(self.problems, part, value, "a string").map(str::to_owned),
            None => Some(default.to_owned()),
        };
        let (kind, pattern, buffer) = (text("type", MemRun::KIND), text("pattern", MemRun::PATTERN), text("ref", ""));
        let mut number = |part: &str| match self.part(members, part) {
            Some(value) => read::bytes(self.problems, part, value).map(Some),
            None => Some(None),
        };
        let (size, count, stride) = (number("size"), number("count"), number("stride"));
        let size = size?.unwrap_or(self.buffer_size);
        let stride = stride?.unwrap_or(CACHE_LINE);
        let count = count?.unwrap_or_else(|| size / stride.max(1));
        Some(MemRun { kind: kind?, pattern: pattern?, buffer: buffer?, size, count, stride })
    }
}
