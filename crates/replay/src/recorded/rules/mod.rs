//! Rules of a what-if: which tasks of a trace change, and how.
//!
//! A rule is `MATCH: CHANGE`, or a `[[rule]]` table of a TOML file with the same keys:
//!
//! ```
//! use vruntime_replay::recorded::rules::Rules;
//!
//! let mut rules = Rules::default();
//! rules.add("batch-*: group=/batch weight=50 max=20ms/100ms")?;
//! rules.add("regex=^(web|api)-[0-9]+$: policy=fifo:50 cpus=0-1")?;
//! rules.add("tgid=4711: copies=3 nice=5")?;
//! rules.add_file("rules.toml", b"[[rule]]\ncomm = \"logger\"\nremove = true\n")?;
//! assert_eq!(rules.len(), 4);
//! assert_eq!(rules.add("web: nise=3").unwrap_err().help(), Some("did you mean `nice`?"));
//! # Ok::<(), vruntime_workload::Error>(())
//! ```

mod apply;
mod copies;
mod read;
mod selector;
#[cfg(test)]
mod tests;
mod values;

pub(super) use apply::{free, keep_online, narrow_cpusets};

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Closed, Thread};
use selector::{Candidates, Selector, below, in_file, in_trace};
use vruntime_workload::groups::Limits;
use vruntime_workload::program::{Group, Policy, Workload};
use vruntime_workload::{Error, Source};

/// A task's CPUs; none: all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Affinity(Option<Vec<u32>>);

/// Changes of a task; `None`: unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
struct What {
    nice: Option<i8>,
    policy: Option<Policy>,
    /// The priority beside `policy`; none in a complete rule.
    priority: Option<u8>,
    cpus: Option<Affinity>,
    group: Option<String>,
    limits: Limits,
    copies: Option<u32>,
    /// Whether it does more with more CPU.
    closed: Option<Closed>,
    remove: bool,
}

/// A rule, and its place.
#[derive(Clone, Debug)]
struct Rule {
    selector: Selector,
    what: What,
    source: Source,
    /// Its selectors' place.
    span: Range<usize>,
    /// Its changes' places, by key.
    spans: Vec<(String, Range<usize>)>,
    /// Its text in a line.
    text: String,
}

impl Rule {
    /// Whether the rule sets limits of the group at `path`, where it puts tasks, or which it names.
    fn limits_group(&self, path: &str) -> bool {
        self.what.limits != Limits::default()
            && match &self.what.group {
                Some(group) => group == path,
                None => self.selector.cgroup.as_ref().is_some_and(|glob| glob.is_match(path)),
            }
    }

    /// Returns the place of a key or the selectors.
    fn span_of(&self, key: &str) -> Range<usize> {
        let span = self.spans.iter().find(|(of, _)| of == key);
        span.map_or_else(|| self.span.clone(), |(_, span)| span.clone())
    }
}

/// The rules of a what-if, in order: later ones override earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    groups: Vec<GroupRule>,
}

/// A table `[groups."/path"]`.
#[derive(Clone, Debug)]
struct GroupRule {
    path: String,
    limits: Limits,
    source: Source,
    /// The path's bytes.
    span: Range<usize>,
    /// The table in a line.
    text: String,
}

/// Two rules that set one limit of a group: the second counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overruled {
    /// The group's path.
    pub group: String,
    /// `weight`, `max`, `burst` or `idle`.
    pub key: &'static str,
    /// The rule without effect, in a line.
    pub first: String,
    /// The effective rule, in a line.
    pub second: String,
}

impl Rules {
    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are no rules for tasks or groups.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.groups.is_empty()
    }

    /// Whether a rule removes tasks.
    pub fn removes(&self) -> bool {
        self.rules.iter().any(|rule| rule.what.remove)
    }

    /// Returns the number of tasks without a matching rule, whose parents' policy, affinity or group a rule changes.
    /// Linux would pass these on.
    pub fn unreached(&self, threads: &[Thread]) -> usize {
        let all = in_trace(threads);
        let mut fitted = vec![false; all.len()];
        let mut passes_on = vec![false; all.len()];
        for rule in &self.rules {
            let What { nice, policy, cpus, group, .. } = &rule.what;
            let inherited = nice.is_some() || policy.is_some() || cpus.is_some() || group.is_some();
            for index in rule.selector.chosen(&all) {
                fitted[index] = true;
                passes_on[index] |= inherited;
            }
        }
        let below = below(&all, |index| passes_on[index]);
        (0..all.len()).filter(|&index| below[index] && !fitted[index] && all[index].task.is_some()).count()
    }

    /// Returns the error, at the rule, of a policy that these rules give a thread (an index in
    /// [`Recorded::threads`](super::Recorded::threads)). None without such a rule.
    pub fn wrong_policy(&self, threads: &[Thread], thread: usize, message: &str, help: &str) -> Option<Error> {
        self.wrong_policy_of(&in_trace(threads), thread, message, help)
    }

    /// As [`Rules::wrong_policy`], for a task of a written workload (an index in [`Workload::tasks`]).
    pub fn wrong_policy_in(&self, workload: &Workload, task: usize, message: &str, help: &str) -> Option<Error> {
        self.wrong_policy_of(&in_file(workload), task, message, help)
    }

    fn wrong_policy_of(&self, all: &Candidates<'_>, index: usize, message: &str, help: &str) -> Option<Error> {
        let gives = |rule: &&Rule| rule.what.policy.is_some() && rule.selector.chosen(all).contains(&index);
        let rule = self.rules.iter().rev().find(gives)?;
        Some(rule.source.error_at(rule.span_of("policy"), message, "requested here", help))
    }

    /// Returns the groups with a table (`[groups."/path"]`).
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|group| group.path.as_str())
    }

    /// Returns the [`Rules::groups`] without tasks: no rule puts tasks there or below, and the trace lacks the group.
    pub fn idle_groups<'a>(&'a self, of_trace: &'a [Group]) -> impl Iterator<Item = &'a str> {
        let within = |path: &str, group: &str| {
            path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.groups().filter(move |group| {
            let mut named = self.rules.iter().filter_map(|rule| rule.what.group.as_deref());
            !named.any(|path| within(path, group)) && !of_trace.iter().any(|there| within(&there.path, group))
        })
    }

    /// Returns each rule, and each group with a table, in a line.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let rules = self.rules.iter().map(|rule| rule.text.as_str());
        rules.chain(self.groups.iter().map(|group| group.text.as_str()))
    }

    /// Returns limits of `groups` that rules set to different values. `groups` has all groups after the rules.
    pub fn overruled(&self, groups: &[Group]) -> Vec<Overruled> {
        let mut overruled = Vec::new();
        for group in groups.iter().filter(|group| group.path != "/") {
            let mut set: BTreeMap<&'static str, (Limits, &str)> = BTreeMap::new();
            let by_rules = self.rules.iter().filter(|rule| rule.limits_group(&group.path));
            let by_rules = by_rules.map(|rule| (rule.what.limits, rule.text.as_str()));
            let by_tables = self.groups.iter().filter(|table| table.path == group.path);
            let by_tables = by_tables.map(|table| (table.limits, table.text.as_str()));
            for (limits, second) in by_rules.chain(by_tables) {
                for (key, only) in each(limits) {
                    let before = set.insert(key, (only, second));
                    if let Some((_, first)) = before.filter(|(before, _)| *before != only) {
                        let (first, second) = (first.to_owned(), second.to_owned());
                        overruled.push(Overruled { group: group.path.clone(), key, first, second });
                    }
                }
            }
        }
        overruled
    }
}

/// Returns each limit in `limits`, alone, with its key.
fn each(limits: Limits) -> impl Iterator<Item = (&'static str, Limits)> {
    let Limits { weight, idle, max, burst } = limits;
    let all = [
        ("weight", weight.is_some(), Limits { weight, ..Limits::default() }),
        ("idle", idle.is_some(), Limits { idle, ..Limits::default() }),
        ("max", max.is_some(), Limits { max, ..Limits::default() }),
        ("burst", burst.is_some(), Limits { burst, ..Limits::default() }),
    ];
    all.into_iter().filter(|(_, set, _)| *set).map(|(key, _, only)| (key, only))
}
