//! The settings in which two scenario files differ.
//!
//! Compares tables by key, lists of named tables (`[[task]]`, `[[workload]]`) by name, and everything else as a whole.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use miette::{IntoDiagnostic, WrapErr, miette};
use toml::{Table, Value};

use super::sides::{Variant, Words};
use crate::args::Bisect;
use crate::input::{self, Input};
use crate::plan::planned;

/// A key, or the name of a list's entry.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    Key(String),
    Entry(String),
}

/// A setting that differs.
#[derive(Clone, PartialEq, Debug)]
struct Setting {
    path: Vec<Step>,
    from: Option<Value>,
    to: Option<Value>,
}

#[derive(Debug)]
pub(super) struct Files<'a> {
    arguments: &'a Bisect,
    names: [PathBuf; 2],
    tables: [Table; 2],
    settings: Vec<Setting>,
    ends: [Variant<'a>; 2],
}

impl<'a> Files<'a> {
    /// Reads both files, and returns the first input, too.
    pub(super) fn read(arguments: &'a Bisect) -> miette::Result<(Input, Self)> {
        let names = [&arguments.from, &arguments.to].map(PathBuf::from);
        let tables = [table(&names[0])?, table(&names[1])?];
        // Errors name places in the files.
        let inputs = [&names[0], &names[1]].map(|name| input::read(name, arguments.duration, false));
        let [first, last] = inputs;
        let (first, last) = (first?, last?);
        let mut ends = Vec::new();
        for input in [&first, &last] {
            let mut plan = crate::plan::plan(input, None, arguments.machine.as_deref(), &arguments.model)?;
            plan.config.duration = arguments.duration;
            ends.push(Variant { workload: Cow::Owned(input.workload.clone()), config: plan.config });
        }
        let ends: [Variant<'a>; 2] = ends.try_into().map_err(|_| miette!("two files have two ends"))?;
        let settings = differences(&tables[0], &tables[1]);
        Ok((first, Self { arguments, names, tables, settings, ends }))
    }

    pub(super) fn len(&self) -> usize {
        self.settings.len()
    }

    pub(super) fn ends(&self) -> [Variant<'a>; 2] {
        self.ends.clone()
    }

    pub(super) fn words(&self) -> Vec<Words> {
        let value = |value: &Option<Value>| value.as_ref().map_or_else(|| "not set".to_owned(), short);
        let words = |setting: &Setting| Words {
            name: path(&setting.path),
            what: format!("{} becomes {}", value(&setting.from), value(&setting.to)),
            ..Words::default()
        };
        self.settings.iter().map(words).collect()
    }

    /// Returns one file with settings of the other. If that is invalid (a `sleep` without its `run`), takes all
    /// settings of the same tables.
    pub(super) fn variant(&self, backward: bool, set: &[usize]) -> Option<(Variant<'a>, Vec<usize>)> {
        let mut taken = set.to_vec();
        loop {
            if let Some(variant) = self.planned(backward, &taken) {
                return Some((variant, taken));
            }
            let parent = |one: usize| self.settings[one].path.split_last().map(|(_, parent)| parent);
            let beside = |one: &usize| !taken.contains(one) && taken.iter().any(|&other| parent(*one) == parent(other));
            let more: Vec<usize> = (0..self.len()).filter(beside).collect();
            if more.is_empty() {
                return None;
            }
            taken.extend(more);
        }
    }

    fn planned(&self, backward: bool, taken: &[usize]) -> Option<Variant<'a>> {
        let side = usize::from(backward);
        let mut table = self.tables[side].clone();
        for &one in taken {
            let Setting { path, from, to } = &self.settings[one];
            put(&mut table, path, if backward { from } else { to }.clone());
        }
        let (name, text) = (&self.names[side], toml::to_string(&table).ok()?);
        let input = input::variant(name, &text, self.arguments.duration)?;
        let mut plan = planned(&input, self.arguments.machine.as_deref(), &self.arguments.model)?;
        plan.config.duration = self.arguments.duration;
        Some(Variant { workload: Cow::Owned(input.workload), config: plan.config })
    }
}

fn table(path: &Path) -> miette::Result<Table> {
    let name = path.display();
    let text = fs::read_to_string(path).into_diagnostic().wrap_err_with(|| format!("cannot read {name}"))?;
    toml::from_str(&text).map_err(|error| {
        let help = "`bisect --from FILE --to FILE` compares scenarios (TOML)";
        miette!(help = help, "{name} is no scenario: {}", error.message())
    })
}

/// Formats a value on one line, shortened.
fn short(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= MOST { text } else { text.chars().take(MOST).chain("...".chars()).collect() }
}

/// Formats a path as in TOML, with names of entries: `task.web.run`, `groups."/a".weight`.
fn path(steps: &[Step]) -> String {
    let bare = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) && !name.is_empty();
    let text = |(Step::Key(name) | Step::Entry(name)): &Step| {
        if bare(name) { name.clone() } else { format!("\"{name}\"") }
    };
    steps.iter().map(text).collect::<Vec<_>>().join(".")
}

fn differences(from: &Table, to: &Table) -> Vec<Setting> {
    let mut all = Vec::new();
    compare(&mut Vec::new(), from, to, &mut all);
    all
}

fn compare(at: &mut Vec<Step>, from: &Table, to: &Table, all: &mut Vec<Setting>) {
    let keys: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    for key in keys {
        at.push(Step::Key(key.clone()));
        one(at, from.get(key), to.get(key), all);
        at.pop();
    }
}

fn one(at: &mut Vec<Step>, from: Option<&Value>, to: Option<&Value>, all: &mut Vec<Setting>) {
    match (from, to) {
        (Some(from), Some(to)) if from == to => {}
        (Some(Value::Table(from)), Some(Value::Table(to))) => compare(at, from, to, all),
        (Some(Value::Array(from)), Some(Value::Array(to))) if named(from) && named(to) => {
            let entries = from.iter().chain(to.iter().filter(|entry| entry_of(from, name(entry)).is_none()));
            for entry in entries {
                at.push(Step::Entry(name(entry).to_owned()));
                one(at, entry_of(from, name(entry)), entry_of(to, name(entry)), all);
                at.pop();
            }
        }
        _ => all.push(Setting { path: at.clone(), from: from.cloned(), to: to.cloned() }),
    }
}

/// Returns the name of a list's entry.
fn name(entry: &Value) -> &str {
    entry.get("name").and_then(Value::as_str).unwrap_or("")
}

/// Whether a list's entries have distinct names.
fn named(list: &[Value]) -> bool {
    let names: BTreeSet<&str> = list.iter().map(name).collect();
    names.len() == list.len() && !names.contains("")
}

fn entry_of<'a>(list: &'a [Value], wanted: &str) -> Option<&'a Value> {
    list.iter().find(|entry| name(entry) == wanted)
}

/// Sets or removes the value at a path.
fn put(table: &mut Table, path: &[Step], value: Option<Value>) {
    let [Step::Key(key), rest @ ..] = path else { return };
    match rest {
        [] => match value {
            Some(value) => drop(table.insert(key.clone(), value)),
            None => drop(table.remove(key)),
        },
        [Step::Key(_), ..] => {
            let inner = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                put(inner, rest, value);
            }
        }
        [Step::Entry(entry), below @ ..] => {
            let Some(Value::Array(list)) = table.get_mut(key) else { return };
            let found = list.iter().position(|known| name(known) == entry);
            match (found, below, value) {
                (Some(index), [], None) => drop(list.remove(index)),
                (Some(index), [], Some(value)) => list[index] = value,
                (None, [], Some(value)) => list.push(value),
                (Some(index), below, value) => {
                    if let Value::Table(inner) = &mut list[index] {
                        put(inner, below, value);
                    }
                }
                (None, ..) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = r#"
kernel = "6.1"
[set]
base_slice_ns = 3000000
[groups."/a"]
weight = 100
[[task]]
name = "web"
run = "1ms"
[[task]]
name = "gone"
run = "1ms"
[[change]]
at = "1s"
"#;
    const TO: &str = r#"
kernel = "6.1"
[groups."/a"]
weight = 200
max = "1"
[[task]]
name = "new"
run = "2ms"
[[task]]
name = "web"
run = "3ms"
[[change]]
at = "2s"
"#;

    #[test]
    fn settings_lead_from_one_file_to_the_other() {
        let [from, to]: [Table; 2] = [FROM, TO].map(|text| toml::from_str(text).unwrap());
        let all = differences(&from, &to);
        let paths: Vec<String> = all.iter().map(|setting| path(&setting.path)).collect();
        let wanted =
            ["change", "groups.\"/a\".max", "groups.\"/a\".weight", "set", "task.web.run", "task.gone", "task.new"];
        assert_eq!(paths, wanted);
        let (mut there, mut back) = (from.clone(), to.clone());
        for setting in &all {
            put(&mut there, &setting.path, setting.to.clone());
            put(&mut back, &setting.path, setting.from.clone());
        }
        assert_eq!(differences(&there, &to), []);
        assert_eq!(differences(&from, &back), []);
    }

    #[test]
    fn lists_without_names_are_one_setting() {
        let [from, to]: [Table; 2] = ["cpus = [0, 1]", "cpus = [0, 2]"].map(|text| toml::from_str(text).unwrap());
        assert_eq!(differences(&from, &to).len(), 1);
        assert_eq!(short(&Value::String("x".repeat(90))).len(), 63);
    }
}
