//! Typed reading of JSON values. Each function returns the value, or reports a problem and returns None.

use std::ops::RangeInclusive;

use super::json::{Kind, Member, Span, Value};
use super::{event, global};
use crate::error::Problems;
use crate::program::Op;
use crate::suggest::did_you_mean;

/// The longest time in a file: 10^12 us, 11.5 days. Sums of such times are far below 2^64 ns.
pub const MAX_TIME_US: i64 = 1_000_000_000_000;

/// A minimal workload.
pub(super) const LEAST: &str = "{ \"tasks\" : { \"name\" : { \"run\" : 1000, \"sleep\" : 9000 } } }";

/// The outermost value, in messages.
pub(super) const FILE: &str = "the file";

impl Member {
    /// Returns the value. Reports a bare key.
    pub(super) fn value<'a>(&'a self, problems: &mut Problems) -> Option<&'a Value> {
        if self.value.is_none() {
            let message = format!("`{}` has no value", self.key);
            let error = problems.new_error(self.key_span.clone(), message, "expected `: value` after it");
            problems.error(error.with_help("only `suspend` and `yield` may stand without a value"));
        }
        self.value.as_ref()
    }
}

/// Reports that `key` is not `expected` ("a number of microseconds").
pub(super) fn wrong_kind(problems: &mut Problems, key: &str, value: &Value, expected: &str) {
    let subject = if key == FILE { key.to_owned() } else { format!("`{key}`") };
    let message = format!("{subject} is {}", value.kind.noun());
    let mut error = problems.new_error(value.span.clone(), message, format!("expected {expected}"));
    let quoted_number = matches!(&value.kind, Kind::String(text) if text.trim().parse::<f64>().is_ok());
    let event = event::kind_of(key).filter(|kind| *kind != key && !global::KEYS.contains(&key));
    error = error.with_help(if quoted_number && (expected.contains("number") || expected.contains("microseconds")) {
        "remove the quotes".to_owned()
    } else if let Some(event) = event {
        format!("a key that begins with `{event}` is that event: it takes {expected}")
    } else if key == FILE {
        format!("an rt-app file is one JSON object, such as {LEAST}; a scenario is TOML, and its name ends with .toml")
    } else {
        format!("docs/rt-app.md describes each key; here, expected {expected}")
    });
    problems.error(error);
}

/// Reads a whole number within `range`. `what` is its description ("microseconds").
pub(super) fn integer(
    problems: &mut Problems,
    key: &str,
    value: &Value,
    range: RangeInclusive<i64>,
    what: &str,
) -> Option<i64> {
    let Kind::Number = value.kind else {
        match &value.kind {
            // Not every description of a number says that it is one.
            Kind::String(text) if text.trim().parse::<i64>().is_ok() && !what.contains("number") => {
                wrong_kind(problems, key, value, &format!("{what}, a number"));
            }
            _ => wrong_kind(problems, key, value, what),
        }
        return None;
    };
    let source = problems.source.clone();
    let text = &source.text()[value.span.clone()];
    let number = match text.parse::<i64>() {
        Ok(number) => number,
        Err(_) => fraction(problems, key, value, text, what)?,
    };
    if range.contains(&number) {
        return Some(number);
    }
    let (low, high) = range.into_inner();
    let label = if number < low { format!("expected at least {low}") } else { format!("expected at most {high}") };
    let error = problems
        .new_error(value.span.clone(), format!("`{key}` is out of range"), label)
        .with_help(format!("{what}, {low} to {high}"));
    problems.error(error);
    None
}

/// Reads a whole number in another notation. Beyond `i64`, returns its nearest end.
fn fraction(problems: &mut Problems, key: &str, value: &Value, text: &str, what: &str) -> Option<i64> {
    /// Floats beyond 2^53 are inexact. Every range ends before.
    const EXACT: f64 = 9e15;
    let float = text.parse::<f64>().unwrap_or(f64::NAN);
    let written_whole = text.bytes().all(|c| c.is_ascii_digit() || c == b'-' || c == b'+');
    if !written_whole && (float.is_nan() || (float.is_finite() && float.fract() != 0.0)) {
        let error = problems
            .new_error(value.span.clone(), format!("`{key}` is not a whole number"), format!("expected {what}"))
            .with_help("rt-app knows no fractions; use the smaller unit");
        problems.error(error);
        return None;
    }
    if written_whole || float.abs() >= EXACT {
        return Some(if float < 0.0 { i64::MIN } else { i64::MAX });
    }
    problems.tolerate(|problems| {
        problems
            .new_error(value.span.clone(), format!("`{key}` is written as a fraction"), "rt-app refuses it")
            .with_help(format!("write {float}"))
    });
    Some(float as i64)
}

/// Reads microseconds, and returns nanoseconds.
pub(super) fn time(problems: &mut Problems, key: &str, value: &Value) -> Option<u64> {
    integer(problems, key, value, 0..=MAX_TIME_US, "a number of microseconds").map(|us| us as u64 * 1000)
}

/// As [`time`], but -1 is endless work.
pub(super) fn work(problems: &mut Problems, key: &str, value: &Value) -> Option<u64> {
    let endless = matches!(value.kind, Kind::Number) && &problems.source.text()[value.span.clone()] == "-1";
    if endless { Some(Op::ENDLESS) } else { time(problems, key, value) }
}

pub(super) fn bytes(problems: &mut Problems, key: &str, value: &Value) -> Option<u64> {
    integer(problems, key, value, 0..=1 << 50, "a number of bytes").map(|bytes| bytes as u64)
}

/// Reads a string. `what` is its description.
pub(super) fn string<'a>(problems: &mut Problems, key: &str, value: &'a Value, what: &str) -> Option<&'a str> {
    if let Kind::String(text) = &value.kind {
        return Some(text);
    }
    wrong_kind(problems, key, value, what);
    None
}

pub(super) fn name<'a>(problems: &mut Problems, key: &str, value: &'a Value, what: &str) -> Option<&'a str> {
    let text = string(problems, key, value, what)?;
    if text.is_empty() {
        let error = problems
            .new_error(value.span.clone(), format!("`{key}` names nothing"), format!("expected {what}"))
            .with_help("choose any name, and use it in the other events, too");
        problems.error(error);
        return None;
    }
    Some(text)
}

/// Reads a boolean. 0 and 1 are accepted if lenient.
pub(super) fn boolean(problems: &mut Problems, key: &str, value: &Value) -> Option<bool> {
    match &value.kind {
        Kind::Bool(answer) => return Some(*answer),
        Kind::Number => {
            let answer = match &problems.source.text()[value.span.clone()] {
                "0" => Some(false),
                "1" => Some(true),
                _ => None,
            };
            if let Some(answer) = answer {
                problems.tolerate(|problems| {
                    problems
                        .new_error(value.span.clone(), format!("`{key}` is a number"), "expected true or false")
                        .with_help(format!("write {answer}"))
                });
                return Some(answer);
            }
        }
        _ => {}
    }
    wrong_kind(problems, key, value, "true or false");
    None
}

pub(super) fn object<'a>(problems: &mut Problems, key: &str, value: &'a Value, what: &str) -> Option<&'a [Member]> {
    if let Kind::Object(members) = &value.kind {
        return Some(members);
    }
    wrong_kind(problems, key, value, what);
    None
}

/// Reads distinct numbers (CPUs, NUMA nodes), ascending. None if the list is empty.
pub(super) fn numbers(problems: &mut Problems, key: &str, value: &Value, what: &str) -> Option<Vec<u32>> {
    let Kind::Array(entries) = &value.kind else {
        wrong_kind(problems, key, value, &format!("a list of {what}, such as [0, 2]"));
        return None;
    };
    let mut numbers: Vec<u32> = entries
        .iter()
        .filter_map(|entry| integer(problems, key, entry, 0..=i64::from(i32::MAX), what))
        .map(|number| number as u32)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    (!numbers.is_empty()).then_some(numbers)
}

/// Names in scenarios and the kernel, with rt-app's names.
const ELSEWHERE: [(&str, &str); 13] = [
    ("wakeup", "resume"),
    ("wake_up", "resume"),
    ("wake", "resume"),
    ("notify", "signal"),
    ("mutex", "lock"),
    ("nice", "priority"),
    ("affinity", "cpus"),
    ("cpuset", "cpus"),
    ("start", "delay"),
    ("copies", "instance"),
    ("compute", "run"),
    ("work", "run"),
    ("cgroup", "taskgroup"),
];

pub(super) fn unknown_key(problems: &mut Problems, member: &Member, place: &str, known: &[&str]) {
    if problems.is_full() {
        return;
    }
    let elsewhere = ELSEWHERE.iter().find(|(name, key)| *name == member.key && known.contains(key));
    let help = elsewhere.map_or_else(
        || did_you_mean(&member.key, known.iter().copied()),
        |(_, key)| format!("did you mean `{key}`? that is rt-app's word for it"),
    );
    let error = problems
        .new_error(
            member.key_span.clone(),
            format!("unknown key `{}`", member.key),
            format!("{place} has no such key; it is ignored"),
        )
        .with_help(help);
    problems.warn(error);
}

/// Reports a repeated key. As in rt-app, the last one counts.
pub(super) fn repeated_key(problems: &mut Problems, key: &str, span: Span) {
    let error = problems
        .new_error(span, format!("`{key}` is given twice"), "this one replaces the one before")
        .with_help("remove one of them");
    problems.warn(error);
}
