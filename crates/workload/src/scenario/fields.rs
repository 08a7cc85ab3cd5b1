//! Typed reading of TOML tables. Each function returns the value, or reports a problem and returns None.

use std::ops::{Range, RangeInclusive};

use toml::Spanned as TomlSpanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Problems};
use crate::program::Op;
use crate::suggest::{did_you_mean, limit_by_other_name};
use crate::units::{parse_duration, parse_length};

pub(super) type Value<'a> = TomlSpanned<DeValue<'a>>;

/// A table during reading. Keys that were not requested are unknown at the end.
pub(super) struct Fields<'a, 'p> {
    pub(super) problems: &'p mut Problems,
    /// The name in messages: `[scenario]`.
    place: String,
    /// The table's bytes, for missing keys.
    pub(super) span: Range<usize>,
    table: Option<&'a DeTable<'a>>,
    asked: Vec<&'static str>,
}

/// Keys of the top level that no other table has with another meaning.
const TOP: [&str; 13] = [
    "duration",
    "kernel",
    "machine",
    "seed",
    "hz",
    "gate",
    "autogroup",
    "features",
    "set",
    "costs",
    "preempt",
    "rt_group_sched",
    "threads_max",
];

/// Returns the paths of all keys of a table, such as `cpu.max.burst`.
fn dotted(table: &DeTable<'_>, prefix: &str) -> Vec<String> {
    let mut keys = Vec::new();
    for (key, value) in table {
        let name = format!("{prefix}.{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => keys.extend(dotted(inner, &name)),
            _ => keys.push(name),
        }
    }
    keys
}

/// Returns the kind of a value, with an article.
pub(super) fn noun(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

impl<'a, 'p> Fields<'a, 'p> {
    /// Returns the table in `value`. Reports another kind, and is then empty.
    pub(super) fn new(problems: &'p mut Problems, place: impl Into<String>, value: &'a Value<'a>) -> Self {
        let place = place.into();
        let table = match value.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                let error = problems
                    .new_error(value.span(), format!("{place} is {}", noun(other)), "expected a table")
                    .with_help(format!("write {place} on a line of its own, and its keys below it"));
                problems.error(error);
                None
            }
        };
        Self { problems, place, span: value.span(), table, asked: Vec::new() }
    }

    pub(super) fn root(problems: &'p mut Problems, table: &'a DeTable<'a>, span: Range<usize>) -> Self {
        Self { problems, place: "the top level".to_owned(), span, table: Some(table), asked: Vec::new() }
    }

    /// Returns the value of `key`, which is then known.
    pub(super) fn get(&mut self, key: &'static str) -> Option<&'a Value<'a>> {
        // Suggestions list a key once.
        if !self.asked.contains(&key) {
            self.asked.push(key);
        }
        self.table?.get(key)
    }

    /// Returns all present keys with their places, in the order of the text.
    pub(super) fn keys(&self) -> Vec<(String, Range<usize>)> {
        let keys = self.table.into_iter().flat_map(DeTable::keys);
        let mut keys: Vec<_> = keys.map(|key| (key.get_ref().to_string(), key.span())).collect();
        keys.sort_by_key(|(_, span)| span.start);
        keys
    }

    /// Returns the present keys that were requested, with their places.
    pub(super) fn given(&self) -> Vec<(&'static str, Range<usize>)> {
        let place = |key: &'static str| Some((key, self.table?.get_key_value(key)?.0.span()));
        self.asked.iter().copied().filter_map(place).collect()
    }

    /// Reports keys that the top level also has. `above` has those, with their places.
    pub(super) fn twice(&mut self, above: &[(&'static str, Range<usize>)]) {
        for (key, here) in self.given() {
            let Some((_, there)) = above.iter().find(|(known, _)| *known == key) else { continue };
            // [machine] may follow the table that has it, too.
            let (first, second) = if there.start < here.start { (there, &here) } else { (&here, there) };
            let line = self.problems.source.text()[..first.start].matches('\n').count() + 1;
            let message = format!("`{key}` is given twice, at the top level and in {}", self.place);
            let label = format!("here, and in line {line}");
            self.bad(second.clone(), message, &label, "keep one of them");
        }
    }

    /// Reports every key that was not read.
    pub(super) fn finish(self) {
        let Some(table) = self.table else { return };
        for (key, value) in table.iter().filter(|(key, _)| !self.asked.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref();
            let help = self
                .of_a_file(name, value)
                .or_else(|| self.of_others(name))
                .or_else(|| self.of_synonym(name, value))
                .or_else(|| self.of_top(name))
                .unwrap_or_else(|| did_you_mean(name, self.asked.iter().copied()));
            let label = format!("{} has no such key", self.place);
            let error = self.problems.new_error(key.span(), format!("unknown key `{name}`"), label).with_help(help);
            self.problems.error(error);
        }
    }

    /// Returns the correct form of a key with a cgroup file's name, such as `"cpu.uclamp.min"`: quoted dots do not form
    /// tables.
    fn of_a_file(&self, name: &str, value: &Value<'_>) -> Option<String> {
        let asked = |key: &str| self.asked.contains(&key);
        // Without quotes, `cpu.weight` is a table `cpu`.
        if let ("cpu" | "cpuset", DeValue::Table(table)) = (name, value.get_ref()) {
            let keys: Vec<String> = dotted(table, name);
            let helps = keys.iter().filter_map(|key| self.of_a_file(key, value).or_else(|| self.of_others(key)));
            let helps: Vec<String> = helps.collect();
            return (!helps.is_empty()).then(|| helps.join("; "));
        }
        let bare = ["cpu.", "cpuset."].iter().find_map(|controller| name.strip_prefix(controller)).unwrap_or(name);
        if asked(bare) {
            return Some(format!("here it is `{bare}`"));
        }
        let (table, key) = bare.split_once('.')?;
        if table != "uclamp" {
            // cpu.max.burst is not part of `max`.
            return asked(key).then(|| format!("here it is `{key}`"));
        }
        let text = self.problems.source.text().get(value.span());
        let value = text.filter(|text| text.len() <= 40 && !text.contains('\n')).unwrap_or("...");
        asked(table).then(|| format!("write it without quotes: {bare} = {value}"))
    }

    /// Returns the key for a weight or limit under a name of cgroup v1, Docker or Kubernetes.
    fn of_others(&self, name: &str) -> Option<String> {
        if !self.asked.contains(&"weight") || !self.asked.contains(&"max") {
            return None;
        }
        limit_by_other_name(name).map(str::to_owned)
    }

    /// Returns the key for a word of other tools, such as Kubernetes.
    fn of_synonym(&self, name: &str, value: &Value<'_>) -> Option<String> {
        if let ("resources", DeValue::Table(table)) = (name, value.get_ref()) {
            let keys = dotted(table, name);
            let helps = keys.iter().filter_map(|key| match key.as_str() {
                "resources.limits.cpu" => {
                    Some("the limit of a group is `max`, such as \"500m\", in [groups.\"/name\"]")
                }
                "resources.requests.cpu" => Some("the weight of a group is `weight`, in [groups.\"/name\"]"),
                _ => None,
            });
            let helps: Vec<&str> = helps.collect();
            return (!helps.is_empty()).then(|| helps.join("; "));
        }
        let keys: &[&str] = match name {
            "replicas" | "count" | "threads" => &["instance", "copies"],
            "delay" => &["start"],
            "affinity" => &["cpus"],
            _ => &[],
        };
        keys.iter().find(|key| self.asked.contains(*key)).map(|key| format!("here it is `{key}`"))
    }

    /// Tells where a key of the top level belongs. In TOML, keys below a table's line are of that table.
    fn of_top(&self, name: &str) -> Option<String> {
        let known = TOP.contains(&name) && self.place != "the top level";
        known.then(|| format!("`{name}` belongs above the first table"))
    }

    /// Reports that `key` is not `expected`.
    pub(super) fn wrong(&mut self, key: &str, value: &Value<'_>, expected: &str) {
        let message = format!("`{key}` is {}", noun(value.get_ref()));
        let help = match value.get_ref() {
            DeValue::String(text) if text.parse::<f64>().is_ok() => "remove the quotes",
            DeValue::Float(_) | DeValue::Integer(_) if expected.contains('"') => "put it in quotes",
            _ => "docs/scenario.md describes each key",
        };
        self.bad(value.span(), message, &format!("expected {expected}"), help);
    }

    pub(super) fn bad(&mut self, span: Range<usize>, message: String, label: &str, help: impl Into<String>) {
        let error = self.problems.new_error(span, message, label).with_help(help);
        self.problems.error(error);
    }

    pub(super) fn warn(&mut self, error: Error) {
        self.problems.warn(error);
    }

    pub(super) fn string(&mut self, key: &'static str, expected: &str) -> Option<(&'a str, Range<usize>)> {
        let value = self.get(key)?;
        if let DeValue::String(text) = value.get_ref() {
            return Some((text, value.span()));
        }
        self.wrong(key, value, expected);
        None
    }

    pub(super) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let value = self.get(key)?;
        if let DeValue::Boolean(answer) = value.get_ref() {
            return Some(*answer);
        }
        self.wrong(key, value, "true or false");
        None
    }

    pub(super) fn integer(&mut self, key: &'static str, range: RangeInclusive<i64>, what: &str) -> Option<i64> {
        let value = self.get(key)?;
        self.integer_in(key, value, range, what)
    }

    pub(super) fn integer_in(
        &mut self,
        key: &str,
        value: &Value<'_>,
        range: RangeInclusive<i64>,
        what: &str,
    ) -> Option<i64> {
        let DeValue::Integer(digits) = value.get_ref() else {
            self.wrong(key, value, what);
            return None;
        };
        let number = i64::from_str_radix(digits.as_str(), digits.radix()).ok().filter(|number| range.contains(number));
        if number.is_none() {
            let label = format!("expected {what}, {} to {}", range.start(), range.end());
            let help = "docs/scenario.md has the range of each key";
            self.bad(value.span(), format!("`{key}` is out of range"), &label, help);
        }
        number
    }

    /// Reads a time such as "5s", in nanoseconds.
    pub(super) fn duration(&mut self, key: &'static str) -> Option<u64> {
        let value = self.get(key)?;
        self.duration_in(key, value)
    }

    /// As [`Self::duration`], but above 0.
    pub(super) fn length(&mut self, key: &'static str) -> Option<u64> {
        let value = self.get(key)?;
        self.time_in(key, value, parse_length)
    }

    /// As [`Self::duration`], but -1 is endless work.
    pub(super) fn work(&mut self, key: &'static str) -> Option<u64> {
        let value = self.get(key)?;
        if matches!(value.get_ref(), DeValue::Integer(digits) if digits.as_str() == "-1") {
            return Some(Op::ENDLESS);
        }
        self.duration_in(key, value)
    }

    pub(super) fn duration_in(&mut self, key: &str, value: &Value<'_>) -> Option<u64> {
        self.time_in(key, value, parse_duration)
    }

    fn time_in(&mut self, key: &str, value: &Value<'_>, parse: fn(&str) -> Result<u64, String>) -> Option<u64> {
        let DeValue::String(text) = value.get_ref() else {
            let message = format!("`{key}` is {}", noun(value.get_ref()));
            let help = "a time is a string with its unit: \"10min\", \"5s\", \"1.5ms\", \"300us\", \"20ns\"";
            self.bad(value.span(), message, "expected a time", help);
            return None;
        };
        parse(text)
            .map_err(|help| self.bad(value.span(), format!("`{key}` is \"{text}\""), "expected a time", help))
            .ok()
    }

    pub(super) fn array(&mut self, key: &'static str, expected: &str) -> Option<&'a [Value<'a>]> {
        let value = self.get(key)?;
        if let DeValue::Array(entries) = value.get_ref() {
            return Some(entries);
        }
        self.wrong(key, value, expected);
        None
    }

    /// Reads one string or a list.
    pub(super) fn strings(&mut self, key: &'static str, expected: &str) -> Vec<(&'a str, Range<usize>)> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let one = std::slice::from_ref(value);
        let entries = if let DeValue::Array(entries) = value.get_ref() { &**entries } else { one };
        let mut strings = Vec::new();
        for entry in entries {
            match entry.get_ref() {
                DeValue::String(text) => strings.push((&**text, entry.span())),
                _ => self.wrong(key, entry, expected),
            }
        }
        strings
    }
}
