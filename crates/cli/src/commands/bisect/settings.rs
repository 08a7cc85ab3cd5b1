//! The settings in which two scenario files differ.
//!
//! Compares tables by key, lists of named tables (`[[task]]`, `[[workload]]`) by name, `features` by item, and
//! everything else as a whole. Two kernels are divided into their differences.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use miette::{IntoDiagnostic, WrapErr, miette};
use toml::{Table, Value};
use vruntime_sched::Kernel;
use vruntime_sched::kernels::{Difference, bare_feature};
use vruntime_sim::plan::parse_kernel;

use super::sides::{Variant, Words, of_difference};
use crate::args::Bisect;
use crate::input::{self, Input};
use crate::plan::planned;

/// A key, the name of a list's entry, or a feature without its sign.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    Key(String),
    Entry(String),
    Feature(String),
}

/// A setting that differs.
#[derive(Clone, PartialEq, Debug)]
struct Setting {
    path: Vec<Step>,
    from: Option<Value>,
    to: Option<Value>,
}

/// The kernels of both files, as named there.
#[derive(Debug)]
struct Kernels {
    names: [String; 2],
    ends: [Kernel; 2],
    differences: Vec<Difference>,
}

/// Differences of the kernels have the numbers behind the settings'.
#[derive(Debug)]
pub(super) struct Files<'a> {
    arguments: &'a Bisect,
    names: [PathBuf; 2],
    tables: [Table; 2],
    settings: Vec<Setting>,
    kernels: Option<Kernels>,
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
        let mut settings = differences(&tables[0], &tables[1]);
        let kernels = kernels(&mut settings);
        Ok((first, Self { arguments, names, tables, settings, kernels, ends }))
    }

    pub(super) fn len(&self) -> usize {
        self.settings.len() + self.differences().len()
    }

    fn differences(&self) -> &[Difference] {
        self.kernels.as_ref().map_or(&[], |kernels| &kernels.differences)
    }

    /// Describes the differences of the kernels.
    fn of_kernels(&self) -> Vec<Words> {
        let Some(Kernels { names: [from, to], ends: [first, last], differences }) = &self.kernels else {
            return Vec::new();
        };
        let cpus = self.ends[1].config.machine.topology.nr_cpus();
        differences.iter().map(|&one| of_difference(one, [first, last], cpus, from, to)).collect()
    }

    /// Whether a difference of the kernels can be switched off on a real kernel.
    pub(super) fn is_switchable(&self, one: usize) -> bool {
        let words = self.of_kernels();
        one.checked_sub(self.settings.len())
            .and_then(|one| words.get(one))
            .is_some_and(|words| !words.switch.is_empty())
    }

    /// Returns the second file after the commands that switch differences of the kernels off.
    pub(super) fn switched(&self, set: &[usize]) -> Option<Variant<'a>> {
        let Kernels { ends: [first, _], differences, .. } = self.kernels.as_ref()?;
        let numbers = set.iter().filter_map(|one| one.checked_sub(self.settings.len()));
        let which: Vec<Difference> = numbers.filter_map(|number| differences.get(number).copied()).collect();
        let (mut variant, _) = self.planned(true, &[])?;
        variant.config.kernel = variant.config.kernel.after_commands(first, &which);
        Some(variant)
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
        self.settings.iter().map(words).chain(self.of_kernels()).collect()
    }

    /// Returns one file with settings of the other. If that is invalid (a `sleep` without its `run`), takes all
    /// settings of the same tables.
    pub(super) fn variant(&self, backward: bool, set: &[usize]) -> Option<(Variant<'a>, Vec<usize>)> {
        let mut taken = set.to_vec();
        loop {
            if let Some((variant, needed)) = self.planned(backward, &taken) {
                taken.extend(needed);
                return Some((variant, taken));
            }
            let parent = |one: usize| self.settings.get(one)?.path.split_last().map(|(_, parent)| parent);
            let is_beside =
                |one: usize| parent(one).is_some_and(|here| taken.iter().any(|&other| parent(other) == Some(here)));
            let beside = |one: &usize| !taken.contains(one) && is_beside(*one);
            let more: Vec<usize> = (0..self.len()).filter(beside).collect();
            if more.is_empty() {
                return None;
            }
            taken.extend(more);
        }
    }

    /// Returns one file with settings of the other, and the differences of the kernels that these need.
    fn planned(&self, backward: bool, taken: &[usize]) -> Option<(Variant<'a>, Vec<usize>)> {
        let side = usize::from(backward);
        let mut table = self.tables[side].clone();
        for Setting { path, from, to } in taken.iter().filter_map(|&one| self.settings.get(one)) {
            put(&mut table, path, if backward { from } else { to }.clone());
        }
        let (name, text) = (&self.names[side], toml::to_string(&table).ok()?);
        let input = input::variant(name, &text, self.arguments.duration)?;
        let mut plan = planned(&input, self.arguments.machine.as_deref(), &self.arguments.model)?;
        plan.config.duration = self.arguments.duration;
        let mut needed = Vec::new();
        if let Some(Kernels { ends, differences, .. }) = &self.kernels {
            let numbers = taken.iter().filter_map(|one| one.checked_sub(self.settings.len()));
            let which: Vec<Difference> = numbers.filter_map(|number| differences.get(number).copied()).collect();
            let (kernel, with) = plan.config.kernel.taking(&ends[1 - side], &which);
            let number = |one: &Difference| differences.iter().position(|known| known == one);
            let with = with.iter().filter(|one| !which.contains(one)).filter_map(number);
            needed.extend(with.map(|number| self.settings.len() + number));
            plan.config.kernel = kernel;
            // The file's features count, whatever the kernel's default is.
            for feature in features(&table) {
                plan.config.kernel.feature(feature).ok()?;
            }
        }
        Some((Variant { workload: Cow::Owned(input.workload), config: plan.config }, needed))
    }
}

/// Returns the features that a scenario switches.
fn features(table: &Table) -> impl Iterator<Item = &str> {
    let scenario = table.get("scenario").and_then(Value::as_table);
    let lists = [Some(table), scenario].into_iter().flatten().filter_map(|table| table.get("features")?.as_array());
    lists.flatten().filter_map(Value::as_str)
}

/// Takes a pair of kernels out of the settings, if their differences are known. Both have the interfaces that the files
/// use.
fn kernels(settings: &mut Vec<Setting>) -> Option<Kernels> {
    let is_kernel = |setting: &Setting| matches!(&path(&setting.path)[..], "kernel" | "scenario.kernel");
    let at = settings.iter().position(is_kernel)?;
    let Setting { from: Some(Value::String(from)), to: Some(Value::String(to)), .. } = &settings[at] else {
        return None;
    };
    let names = [from.clone(), to.clone()];
    let kernels = [from, to].map(|name| parse_kernel(name).ok().map(|(kernel, _)| kernel));
    let [Some(first), Some(last)] = kernels else { return None };
    let mut differences = first.differences(&last)?;
    differences.retain(|difference| !difference.is_interface());
    settings.remove(at);
    Some(Kernels { names, ends: [first, last], differences })
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
    let text = |(Step::Key(name) | Step::Entry(name) | Step::Feature(name)): &Step| {
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
        (from, to) if is_features(at) && from.is_none_or(are_texts) && to.is_none_or(are_texts) => {
            let items = |list: Option<&Value>| {
                let list = list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
                // The last of a name counts.
                list.map(|text| (bare_feature(text).0.to_owned(), text.to_owned())).collect::<BTreeMap<_, _>>()
            };
            let (from, to) = (items(from), items(to));
            let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
            for name in names.into_iter().filter(|name| from.get(*name) != to.get(*name)) {
                let value = |items: &BTreeMap<String, String>| items.get(name).cloned().map(Value::String);
                let path = [&at[..], &[Step::Feature(name.clone())]].concat();
                all.push(Setting { path, from: value(&from), to: value(&to) });
            }
        }
        _ => all.push(Setting { path: at.clone(), from: from.cloned(), to: to.cloned() }),
    }
}

/// Whether a path is the list of features.
fn is_features(at: &[Step]) -> bool {
    matches!(&path(at)[..], "features" | "scenario.features")
}

fn are_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Value::is_str))
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
        [Step::Feature(name), ..] => {
            let list = table.entry(key.clone()).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                list.retain(|one| one.as_str().is_none_or(|text| bare_feature(text).0 != name));
                list.extend(value);
            }
        }
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

    /// Each feature is a setting, and so is its sign.
    #[test]
    fn features_are_compared_by_item() {
        let from = "[scenario]\nfeatures = [\"NO_DELAY_DEQUEUE\", \"HRTICK\"]";
        let to = "[scenario]\nfeatures = [\"+TASK_THROTTLE\", \"HRTICK\", \"DELAY_DEQUEUE\"]";
        let [from, to]: [Table; 2] = [from, to].map(|text| toml::from_str(text).unwrap());
        let all = differences(&from, &to);
        let paths: Vec<String> = all.iter().map(|setting| path(&setting.path)).collect();
        assert_eq!(paths, ["scenario.features.DELAY_DEQUEUE", "scenario.features.TASK_THROTTLE"]);
        let mut there = from.clone();
        for setting in &all {
            put(&mut there, &setting.path, setting.to.clone());
        }
        assert_eq!(differences(&there, &to), []);
        assert_eq!(features(&there).collect::<Vec<_>>(), ["HRTICK", "DELAY_DEQUEUE", "+TASK_THROTTLE"]);
        assert_eq!(
            differences(&toml::from_str("x = 1").unwrap(), &toml::from_str("x = 1\nfeatures = [\"A\"]").unwrap()).len(),
            1
        );
    }

    /// A pair of kernels is its differences, unless one of the files lists several kernels.
    #[test]
    fn a_pair_of_kernels_is_taken_apart() {
        let of = |from: &str, to: &str| {
            let [from, to]: [Table; 2] = [from, to].map(|text| toml::from_str(text).unwrap());
            let mut settings = differences(&from, &to);
            let kernels = kernels(&mut settings);
            (settings.len(), kernels.map(|kernels| kernels.differences.len()))
        };
        assert_eq!(of("kernel = \"6.12\"", "kernel = \"6.12+TASK_THROTTLE\""), (0, Some(1)));
        assert!(of("[scenario]\nkernel = \"6.12\"", "[scenario]\nkernel = \"6.4\"").1.is_some_and(|some| some > 20));
        assert_eq!(of("kernel = \"6.12\"", "kernel = [\"6.12\", \"6.4\"]"), (1, None));
        assert_eq!(of("kernel = \"2.6.22\"", "kernel = \"6.4\""), (1, None));
    }

    #[test]
    fn lists_without_names_are_one_setting() {
        let [from, to]: [Table; 2] = ["cpus = [0, 1]", "cpus = [0, 2]"].map(|text| toml::from_str(text).unwrap());
        assert_eq!(differences(&from, &to).len(), 1);
        assert_eq!(short(&Value::String("x".repeat(90))).len(), 63);
    }
}
