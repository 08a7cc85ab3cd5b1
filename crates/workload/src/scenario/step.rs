//! `steps` of a `[[task]]`: the operations of a loop, each a table.

use toml::de::DeValue;

use super::fields::{Fields, Value};
use super::objects::{OwnObjects, Word};
use crate::merge::Merged;
use crate::names::Interner;
use crate::program::{Op, WaitMode};
use crate::suggest::nearest;

const VERBS: [&str; 17] = [
    "run",
    "sleep",
    "yield",
    "wait_event",
    "wake_up",
    "wake_up_all",
    "wait_for_completion",
    "complete",
    "complete_all",
    "reinit_completion",
    "write",
    "read",
    "spin_wait",
    "spin_post",
    "spin_lock",
    "spin_unlock",
    "spin_barrier",
];

pub(super) fn parse_all(fields: &mut Fields<'_, '_>, value: &Value<'_>, merged: &mut Merged) -> Vec<Op> {
    let DeValue::Array(steps) = value.get_ref() else {
        fields.wrong("steps", value, "a list of steps, such as [{ run = \"1ms\" }, { sleep = \"4ms\" }]");
        return Vec::new();
    };
    if steps.is_empty() {
        let help = "write one at least: steps = [{ run = \"1ms\" }]";
        fields.bad(value.span(), "`steps` is empty".to_owned(), "this task does nothing", help);
    }
    steps.iter().filter_map(|step| parse(fields, step, merged)).collect()
}

fn parse(task: &mut Fields<'_, '_>, value: &Value<'_>, merged: &mut Merged) -> Option<Op> {
    if !matches!(value.get_ref(), DeValue::Table(_)) {
        task.wrong("steps", value, "a table a step, such as { run = \"1ms\" }");
        return None;
    }
    let mut fields = Fields::new(task.problems, "this step", value);
    let given: Vec<&'static str> = VERBS.into_iter().filter(|verb| fields.get(verb).is_some()).collect();
    let [verb] = given[..] else {
        let mut help = format!("a step has one of {}", VERBS.map(|verb| format!("`{verb}`")).join(", "));
        // Then the name is the error, not the keys beside it.
        let misspelt = fields.keys().into_iter().find_map(|(key, span)| Some((nearest(&key, VERBS)?, key, span)));
        if let Some((verb, key, span)) = misspelt.filter(|_| given.is_empty()) {
            help = format!("did you mean `{verb}`? {help}");
            fields.bad(span, format!("unknown step `{key}`"), "no step has this name", help);
        } else {
            let what = if given.is_empty() { "nothing" } else { "several things" };
            fields.bad(value.span(), format!("a step that does {what}"), "expected one verb", help);
        }
        return None;
    };
    let op = match verb {
        "run" => fields.work("run").map(|work| Op::Run { work }),
        "sleep" => fields.duration("sleep").map(|time| Op::Sleep { time }),
        "yield" => (fields.boolean("yield")? || never(&mut fields, value)).then_some(Op::Yield),
        "wait_event" => wait_event(&mut fields, &mut merged.queues),
        "wake_up" | "wake_up_all" => wake_up(&mut fields, verb, &mut merged.queues),
        "write" | "read" => transfer(&mut fields, verb, &mut merged.own),
        "spin_wait" | "spin_post" | "spin_lock" | "spin_unlock" | "spin_barrier" => {
            spin(&mut fields, verb, &mut merged.own)
        }
        _ => completion(&mut fields, verb, &mut merged.completions),
    };
    fields.finish();
    op
}

/// Rejects `yield = false`.
fn never(fields: &mut Fields<'_, '_>, value: &Value<'_>) -> bool {
    let message = "a step that does not yield".to_owned();
    fields.bad(value.span(), message, "this step does nothing", "remove it, or write { yield = true }");
    false
}

/// Reads an object's name.
fn name<'a>(fields: &mut Fields<'a, '_>, key: &'static str, what: &str) -> Option<&'a str> {
    let (name, span) = fields.string(key, what)?;
    if name.is_empty() {
        fields.bad(span, format!("`{key}` has no name"), &format!("expected {what}"), "give it one, such as \"jobs\"");
        return None;
    }
    Some(name)
}

fn wait_event(fields: &mut Fields<'_, '_>, queues: &mut Interner) -> Option<Op> {
    let queue = name(fields, "wait_event", "the name of a wait queue");
    let exclusive = fields.get("exclusive");
    let mode = match exclusive.map(Value::get_ref) {
        None | Some(DeValue::Boolean(false)) => WaitMode::Shared,
        Some(DeValue::Boolean(true)) => WaitMode::Exclusive,
        Some(DeValue::String(order)) if order == "lifo" => WaitMode::ExclusiveLifo,
        Some(_) => {
            if let Some(value) = exclusive {
                fields.wrong("exclusive", value, "true, false or \"lifo\"");
            }
            return None;
        }
    };
    let timeout = fields.duration("timeout");
    Some(Op::WaitEvent { queue: queues.number(queue?), mode, timeout })
}

fn wake_up(fields: &mut Fields<'_, '_>, verb: &'static str, queues: &mut Interner) -> Option<Op> {
    let queue = name(fields, verb, "the name of a wait queue");
    let most = i64::from(u32::MAX);
    let nr = match verb {
        "wake_up" => fields.integer("nr", 1..=most, "a number of exclusive waiters").unwrap_or(1),
        _ => 0,
    };
    let events = fields.integer("events", 0..=most, "a number of events").unwrap_or(1);
    let sync = fields.boolean("sync").unwrap_or(false);
    Some(Op::WakeUp { queue: queues.number(queue?), nr: nr as u32, events: events as u32, sync })
}

/// Reads a step that passes a message.
fn transfer(fields: &mut Fields<'_, '_>, verb: &'static str, own: &mut OwnObjects) -> Option<Op> {
    let pipe = name(fields, verb, "the name of a pipe");
    let bytes = fields.integer("bytes", 1..=i64::from(i32::MAX), "bytes").unwrap_or(1) as u32;
    let pipe = own.pipe(pipe?);
    Some(if verb == "write" { Op::PipeWrite { pipe, bytes } } else { Op::PipeRead { pipe, bytes } })
}

/// Reads a step that spins, or ends spinning.
fn spin(fields: &mut Fields<'_, '_>, verb: &'static str, own: &mut OwnObjects) -> Option<Op> {
    let (word, what) = match verb {
        "spin_lock" | "spin_unlock" => (Word::Lock, "the name of a spinlock"),
        "spin_barrier" => (Word::Barrier, "the name of a barrier"),
        _ => (Word::Flag, "the name of what is waited for"),
    };
    let called = name(fields, verb, what);
    let fair = verb == "spin_lock" && fields.boolean("fair").unwrap_or(false);
    let events = match verb {
        "spin_post" => fields.integer("events", 1..=i64::from(u32::MAX), "a number of events").unwrap_or(1) as u32,
        _ => 1,
    };
    let spin = own.spin(word, called?);
    if fair {
        own.is_fair(spin);
    }
    Some(match verb {
        "spin_wait" => Op::SpinWait { spin, lock: false },
        "spin_lock" => Op::SpinWait { spin, lock: true },
        "spin_barrier" => Op::SpinBarrier(spin),
        _ => Op::SpinPost { spin, events },
    })
}

fn completion(fields: &mut Fields<'_, '_>, verb: &'static str, completions: &mut Interner) -> Option<Op> {
    let completion = completions.number(name(fields, verb, "the name of a completion")?);
    Some(match verb {
        "complete" => Op::Complete(completion),
        "complete_all" => Op::CompleteAll(completion),
        "reinit_completion" => Op::ReinitCompletion(completion),
        _ => Op::WaitForCompletion { completion, timeout: fields.duration("timeout") },
    })
}
