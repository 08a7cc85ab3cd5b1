//! Finds the place of a key for a later error. Parses the text again, at most once.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::Scenario;
use super::fields::Value;
use crate::groups::normalize_path;
use crate::units::parse_duration;

/// A table of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The `[[task]]` of this name.
    Task(&'a str),
    /// `[groups."/path"]`, by normalized path.
    Group(&'a str),
    /// A `[[change]]` this many nanoseconds after the start.
    Change(u64),
    /// A `[[hotplug]]` this many nanoseconds after the start.
    Hotplug(u64),
}

impl Scenario {
    /// Returns the bytes of `key`'s value in the first such part with it, or else of the first part.
    ///
    /// ```
    /// use vruntime_workload::scenario::{self, Part};
    ///
    /// let text = b"[groups.\"/web\"]\nweight = 3\n[[task]]\nname = \"a\"\nrun = \"1ms\"\n";
    /// let no_files = &mut |_: &std::path::Path| Err(std::io::Error::other("there is none"));
    /// let scenario = scenario::parse("x.toml", text, &Default::default(), no_files)?;
    /// let span = scenario.find(Part::Group("/web"), "weight").expect("it has a weight");
    /// assert_eq!(&text[span], b"3");
    /// # Ok::<(), vruntime_workload::Error>(())
    /// ```
    pub fn find(&self, part: Part<'_>, key: &str) -> Option<Range<usize>> {
        let table = DeTable::parse(self.source.text()).ok()?;
        let mut places = parts(table.get_ref(), part);
        let keyed = places.iter().find_map(|(table, _)| table.get(key).map(Value::span));
        keyed.or_else(|| places.drain(..).next().map(|(_, span)| span))
    }
}

type Place<'t> = (&'t DeTable<'t>, Range<usize>);

fn parts<'t>(root: &'t DeTable<'t>, part: Part<'_>) -> Vec<Place<'t>> {
    let text = |table: &'t DeTable<'t>, key: &str| match table.get(key).map(Value::get_ref) {
        Some(DeValue::String(text)) => Some(&**text),
        _ => None,
    };
    let list = |key: &str| -> Vec<Place<'t>> {
        let Some(DeValue::Array(entries)) = root.get(key).map(Value::get_ref) else { return Vec::new() };
        let entries = entries.iter().filter_map(|entry| Some((entry.get_ref().as_table()?, entry.span())));
        entries.collect()
    };
    let at = |key: &str, ns: u64| {
        let mut places = list(key);
        places.retain(|(table, _)| text(table, "at").is_some_and(|at| parse_duration(at) == Ok(ns)));
        places
    };
    match part {
        Part::Task(name) => {
            let mut places = list("task");
            places.retain(|(table, _)| {
                let rest = text(table, "name").and_then(|class| name.strip_prefix(class));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '#']))
            });
            places
        }
        Part::Group(path) => {
            let Some(DeValue::Table(groups)) = root.get("groups").map(Value::get_ref) else { return Vec::new() };
            let found = groups.iter().find(|(key, _)| normalize_path(key.get_ref()).as_deref() == Ok(path));
            found.and_then(|(key, value)| Some((value.get_ref().as_table()?, key.span()))).into_iter().collect()
        }
        Part::Change(ns) => at("change", ns),
        Part::Hotplug(ns) => at("hotplug", ns),
    }
}
