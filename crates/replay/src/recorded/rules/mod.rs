//! Rules of a what-if: which of a trace's tasks become something else, and what.
//!
//! A rule is `WHO: WHAT`, or a `[[rule]]` table of a TOML file with the same keys:
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
#[cfg(test)]
mod tests;
mod values;
mod who;

pub(super) use apply::{free, keep_online, narrow_cpusets};

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Closed, Thread};
use vruntime_workload::groups::Limits;
use vruntime_workload::program::{Group, Policy, Workload};
use vruntime_workload::{Error, Source};
use who::{Somebody, Who, below, in_file, in_trace};

/// Where a task may run; none: on all CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Affinity(Option<Vec<u32>>);

/// What becomes of a task; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq)]
struct What {
    nice: Option<i8>,
    policy: Option<Policy>,
    /// The priority of `policy`, where it stands beside it; none once the rule is complete.
    priority: Option<u8>,
    cpus: Option<Affinity>,
    group: Option<String>,
    limits: Limits,
    copies: Option<u32>,
    /// Whether it does more when it gets more CPU.
    closed: Option<Closed>,
    remove: bool,
}

/// A rule, and where it is written.
#[derive(Clone, Debug)]
struct Rule {
    who: Who,
    what: What,
    source: Source,
    /// The place of its selectors.
    span: Range<usize>,
    /// Where it says what is to be, by key.
    spans: Vec<(String, Range<usize>)>,
    /// In a line.
    text: String,
}

impl Rule {
    /// Whether the rule sets limits of the group at `path`: the group it puts tasks in, or else each that it names.
    fn limits_group(&self, path: &str) -> bool {
        self.what.limits != Limits::default()
            && match &self.what.group {
                Some(group) => group == path,
                None => self.who.cgroup.as_ref().is_some_and(|glob| glob.is_match(path)),
            }
    }

    /// Returns the place of a key, or of the selectors.
    fn span_of(&self, key: &str) -> Range<usize> {
        let said = self.spans.iter().find(|(said, _)| said == key);
        said.map_or_else(|| self.span.clone(), |(_, span)| span.clone())
    }
}

/// The rules of a what-if, in the order in which they are applied: where two say different things of a task, the later
/// does it.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    groups: Vec<GroupRule>,
}

/// What a table `[groups."/path"]` says.
#[derive(Clone, Debug)]
struct GroupRule {
    path: String,
    limits: Limits,
    source: Source,
    /// The bytes of the path.
    span: Range<usize>,
    /// The table in a line.
    text: String,
}

/// Two rules that set the same limit of the same group: the second counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overruled {
    /// The group's path.
    pub group: String,
    /// `weight`, `max`, `burst` or `idle`.
    pub key: &'static str,
    /// The rule that does not count, in a line.
    pub first: String,
    /// The rule that counts, in a line.
    pub second: String,
}

impl Rules {
    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether they say nothing, of tasks or of groups.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.groups.is_empty()
    }

    /// Whether a rule removes tasks.
    pub fn removes(&self) -> bool {
        self.rules.iter().any(|rule| rule.what.remove)
    }

    /// Returns the number of tasks that no rule matches although a rule changes their parent's policy, affinity or
    /// group, which Linux would pass on.
    pub fn unreached(&self, threads: &[Thread]) -> usize {
        let all = in_trace(threads);
        let mut fitted = vec![false; all.len()];
        let mut passes_on = vec![false; all.len()];
        for rule in &self.rules {
            let What { nice, policy, cpus, group, .. } = &rule.what;
            let inherited = nice.is_some() || policy.is_some() || cpus.is_some() || group.is_some();
            for index in rule.who.chosen(&all) {
                fitted[index] = true;
                passes_on[index] |= inherited;
            }
        }
        let below = below(&all, |index| passes_on[index]);
        (0..all.len()).filter(|&index| below[index] && !fitted[index] && all[index].task.is_some()).count()
    }

    /// Returns the error of a policy that these rules give a thread (an index in
    /// [`Recorded::threads`](super::Recorded::threads)), at the rule. None if no rule does.
    pub fn wrong_policy(&self, threads: &[Thread], thread: usize, message: &str, help: &str) -> Option<Error> {
        self.wrong_policy_of(&in_trace(threads), thread, message, help)
    }

    /// As [`Rules::wrong_policy`], of a task of a workload that was written (an index in [`Workload::tasks`]).
    pub fn wrong_policy_in(&self, workload: &Workload, task: usize, message: &str, help: &str) -> Option<Error> {
        self.wrong_policy_of(&in_file(workload), task, message, help)
    }

    fn wrong_policy_of(&self, all: &[Somebody<'_>], index: usize, message: &str, help: &str) -> Option<Error> {
        let gives = |rule: &&Rule| rule.what.policy.is_some() && rule.who.chosen(all).contains(&index);
        let rule = self.rules.iter().rev().find(gives)?;
        Some(rule.source.error_at(rule.span_of("policy"), message, "requested here", help))
    }

    /// The groups that have a table of their own (`[groups."/path"]`).
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|group| group.path.as_str())
    }

    /// Returns the [`Rules::groups`] without tasks: no rule puts a task there or below, and no group of the trace is
    /// there.
    pub fn idle_groups<'a>(&'a self, of_trace: &'a [Group]) -> impl Iterator<Item = &'a str> {
        let within = |path: &str, group: &str| {
            path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.groups().filter(move |group| {
            let mut named = self.rules.iter().filter_map(|rule| rule.what.group.as_deref());
            !named.any(|path| within(path, group)) && !of_trace.iter().any(|there| within(&there.path, group))
        })
    }

    /// Each rule in a line, and each group that has a table of its own.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let rules = self.rules.iter().map(|rule| rule.text.as_str());
        rules.chain(self.groups.iter().map(|group| group.text.as_str()))
    }

    /// Returns the limits that more than one rule sets to different values, of `groups`: all that there are once the
    /// rules are applied.
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

/// Returns each limit that `limits` sets by its key, and alone.
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
