//! `[[requests]]`: external requests to a wait queue.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::de::DeValue;

use super::Loader;
use super::fields::{Fields, Value};
use crate::error::{Error, Problems, Source};
use crate::names::Interner;
use crate::program::{Arrivals, Requests};
use crate::suggest::did_you_mean;
use crate::units::{MAX_TIME_NS, parse_duration, scaled};

/// Picoseconds per second.
const SECOND_PS: f64 = 1e12;
/// The largest rate, requests per second: one each nanosecond.
const MOST_RATE: f64 = 1e9;
/// The smallest rate: one in the longest time of a file.
const LEAST_RATE: f64 = 1e-6;
/// The most arrivals of a file.
const MOST_ARRIVALS: usize = 1 << 24;

/// Reads every `[[requests]]`. Steps have numbered the queues.
///
/// # Errors
/// If a file of arrivals is wrong.
pub(super) fn parse_all(
    problems: &mut Problems,
    values: &[Value<'_>],
    loader: &mut Loader<'_>,
    queues: &mut Interner,
) -> Result<Vec<Requests>, Error> {
    let mut found = Vec::new();
    for value in values {
        found.extend(parse(problems, value, loader, queues)?);
    }
    Ok(found)
}

fn parse(
    problems: &mut Problems,
    value: &Value<'_>,
    loader: &mut Loader<'_>,
    queues: &mut Interner,
) -> Result<Option<Requests>, Error> {
    let mut fields = Fields::new(problems, "[[requests]]", value);
    let span = fields.span.clone();
    let queue = fields.string("queue", "the name of a wait queue");
    let rate = fields.get("rate");
    let file = fields.string("file", "the path of a file with a time in each line");
    let kind = fields.string("arrivals", "\"poisson\" or \"constant\"");
    let start = fields.duration("start").unwrap_or(0);
    let count = fields.integer("count", 1..=i64::MAX, "a number of requests").map(|count| count as u64);
    let queue = match queue {
        Some((name, _)) if queues.names().iter().any(|known| known == name) => Some(queues.number(name)),
        Some((name, at)) => {
            let help = if queues.is_empty() {
                format!(
                    "add a [[task]] with steps = [{{ wait_event = \"{name}\", exclusive = true }}, {{ run = \"1ms\" }}]"
                )
            } else {
                did_you_mean(name, queues.names().iter().map(String::as_str))
            };
            fields.bad(
                at,
                format!("no task waits for an event of `{name}`"),
                "expected the queue of a `wait_event`",
                help,
            );
            None
        }
        None if fields.get("queue").is_none() => {
            let help = "write queue = \"name\", the queue of a step { wait_event = \"name\", exclusive = true }";
            fields.bad(span.clone(), "[[requests]] without a queue".to_owned(), "no task receives these", help);
            None
        }
        None => None,
    };
    if rate.is_some() == file.is_some() {
        let message = if rate.is_some() { "both a `rate` and a `file`" } else { "neither a `rate` nor a `file`" };
        let help = "write rate = 1000 (a second), or file = \"arrivals.txt\" with a time in each line";
        fields.bad(span, format!("[[requests]] with {message}"), "expected one of them", help);
    }
    let arrivals = match (rate, file) {
        (Some(rate), None) => {
            rate_of(&mut fields, rate).zip(is_poisson(&mut fields, kind)).map(|(period_ps, poisson)| {
                if poisson { Arrivals::Poisson { period_ps } } else { Arrivals::Constant { period_ps } }
            })
        }
        (None, Some((path, at))) => {
            if let Some((_, at)) = kind {
                let help = "the file has the times of all arrivals: remove `arrivals`";
                fields.bad(at, "`arrivals` beside a `file`".to_owned(), "not here", help);
            }
            times(&mut fields, path, at, loader)?.map(Arrivals::At)
        }
        _ => None,
    };
    fields.finish();
    Ok(queue.zip(arrivals).map(|(queue, arrivals)| Requests { queue, arrivals, start, count }))
}

/// Returns the interval between requests, picoseconds.
fn rate_of(fields: &mut Fields<'_, '_>, value: &Value<'_>) -> Option<u64> {
    let rate = match value.get_ref() {
        DeValue::Integer(digits) => i64::from_str_radix(digits.as_str(), digits.radix()).ok().map(|rate| rate as f64),
        DeValue::Float(digits) => digits.as_str().replace('_', "").parse::<f64>().ok(),
        _ => {
            fields.wrong("rate", value, "a number of requests a second");
            return None;
        }
    };
    let rate = rate.filter(|rate| (LEAST_RATE..=MOST_RATE).contains(rate));
    if rate.is_none() {
        let help = "requests a second, such as 1000 or 0.5";
        fields.bad(value.span(), "`rate` is out of range".to_owned(), "expected 0.000001 to 1000000000", help);
    }
    rate.map(|rate| (SECOND_PS / rate).round() as u64)
}

fn is_poisson(fields: &mut Fields<'_, '_>, kind: Option<(&str, Range<usize>)>) -> Option<bool> {
    match kind {
        None | Some(("poisson", _)) => Some(true),
        Some(("constant", _)) => Some(false),
        Some((other, span)) => {
            let help = did_you_mean(other, ["poisson", "constant"]);
            fields.bad(span, format!("`arrivals` is \"{other}\""), "expected \"poisson\" or \"constant\"", help);
            None
        }
    }
}

/// Reads the times of a file, one per line, by default in seconds. Returns them in ascending order.
fn times(
    fields: &mut Fields<'_, '_>,
    path: &str,
    span: Range<usize>,
    loader: &mut Loader<'_>,
) -> Result<Option<Arc<[u64]>>, Error> {
    let bytes = match loader(Path::new(path)) {
        Ok(bytes) => bytes,
        Err(reason) => {
            let help = "the path is relative to the scenario's folder";
            fields.bad(span, format!("cannot read `{path}`: {reason}"), "named here", help);
            return Ok(None);
        }
    };
    let source = Source::decode(path, &bytes)?;
    let (mut times, mut at) = (Vec::new(), 0);
    for line in source.text().split_inclusive('\n') {
        let start = at;
        at += line.len();
        let written = line.split('#').next().unwrap_or_default().trim();
        if written.is_empty() {
            continue;
        }
        let seconds = |text: &str| scaled(text, 1_000_000_000).filter(|ns| *ns <= MAX_TIME_NS);
        let Some(time) = seconds(written).or_else(|| parse_duration(written).ok()) else {
            let span = start + line.len() - line.trim_start().len()..start + line.trim_end().len();
            let help = "each line has the time of one arrival: seconds such as 0.0125, or a time such as 12.5ms";
            return Err(Error::new(&source, format!("`{written}` is not a time"))
                .at(span, "expected a time")
                .with_help(help));
        };
        times.push(time);
        if times.len() > MOST_ARRIVALS {
            let message = format!("more than {MOST_ARRIVALS} arrivals");
            return Err(Error::new(&source, message).with_help("shorten the file"));
        }
    }
    if times.is_empty() {
        let help = "each line has the time of one arrival, in seconds";
        return Err(Error::new(&source, "a file of arrivals without any").with_help(help));
    }
    times.sort_unstable();
    Ok(Some(times.into()))
}
