//! `[[hotplug]]`: a CPU goes offline or online.

use std::collections::BTreeMap;

use super::fields::{Fields, Value};
use crate::error::Problems;
use crate::program::Hotplug;

/// Reads all entries, ordered by time, then position. The machine crate checks that CPUs exist, and that one stays
/// online.
pub(super) fn parse_all(problems: &mut Problems, values: &[Value<'_>]) -> Vec<Hotplug> {
    let mut found = Vec::new();
    for value in values {
        let mut fields = Fields::new(problems, "[[hotplug]]", value);
        let at = fields.duration("at");
        let cpu = fields.integer("cpu", 0..=i64::from(u32::MAX), "the number of a CPU");
        let online = fields.boolean("online");
        let (span, at_span) = (fields.span.clone(), fields.get("at").map(Value::span));
        for (key, example) in [("at", "at = \"1s\""), ("cpu", "cpu = 3"), ("online", "online = false")] {
            if fields.get(key).is_none() {
                fields.bad(
                    span.clone(),
                    format!("[[hotplug]] without `{key}`"),
                    "expected one here",
                    format!("write {example}"),
                );
            }
        }
        fields.finish();
        if let (Some(at), Some(cpu), Some(online)) = (at, cpu, online) {
            found.push((Hotplug { at, cpu: cpu as u32, online }, at_span.unwrap_or(span)));
        }
    }
    found.sort_by_key(|(hotplug, _)| hotplug.at);
    // All CPUs are online at the start.
    let mut state: BTreeMap<u32, bool> = BTreeMap::new();
    for (Hotplug { cpu, online, .. }, span) in &found {
        if state.insert(*cpu, *online).unwrap_or(true) == *online {
            let already = if *online { "online" } else { "offline" };
            let error = problems
                .new_error(span.clone(), format!("CPU {cpu} is {already} already"), "at this time")
                .with_help(format!("every CPU is online at the start; remove this, or write online = {}", !online));
            problems.error(error);
        }
    }
    found.into_iter().map(|(hotplug, _)| hotplug).collect()
}
