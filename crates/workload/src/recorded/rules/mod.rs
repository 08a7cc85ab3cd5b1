//! Rules of a what-if: which of a trace's tasks become something else, and what.
//!
//! A rule is `WHO: WHAT`, or a `[[rule]]` table of a TOML file with the same keys:
//!
//! ```
//! use vruntime_workload::recorded::rules::Rules;
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

pub(super) use apply::{free, keep_online, limit, narrow_cpusets};

use std::ops::Range;

use globset::GlobMatcher;
use regex::Regex;

use super::Thread;
use crate::error::{Error, Source};
use crate::program::{CpuMax, Group, Policy};

/// Whom a rule is about: whoever fits all that it says.
#[derive(Clone, Debug, Default)]
struct Who {
    comm: Option<GlobMatcher>,
    regex: Option<Regex>,
    pids: Option<Vec<Range<i64>>>,
    tgids: Option<Vec<Range<i64>>>,
    /// These and whoever they forked, and those in turn.
    trees: Option<Vec<Range<i64>>>,
    cgroup: Option<GlobMatcher>,
}

impl Who {
    /// Of which of these threads the rule is, in order.
    fn chosen(&self, threads: &[Thread]) -> Vec<usize> {
        let trees = self.trees.as_deref().map(|pids| below(threads, |index| among(pids, threads[index].pid)));
        let fits = |index: &usize| self.fits(&threads[*index]) && trees.as_ref().is_none_or(|trees| trees[*index]);
        (0..threads.len()).filter(fits).collect()
    }

    fn fits(&self, thread: &Thread) -> bool {
        self.comm.as_ref().is_none_or(|glob| glob.is_match(&thread.comm))
            && self.regex.as_ref().is_none_or(|regex| regex.is_match(&thread.comm))
            && self.pids.as_deref().is_none_or(|pids| among(pids, thread.pid))
            && self.tgids.as_deref().is_none_or(|tgids| thread.tgid.is_some_and(|tgid| among(tgids, tgid)))
            && self.cgroup.as_ref().is_none_or(|glob| thread.cgroup.as_ref().is_some_and(|path| glob.is_match(path)))
    }
}

fn among(ranges: &[Range<i64>], id: i32) -> bool {
    ranges.iter().any(|range| range.contains(&i64::from(id)))
}

/// Whether each of these threads is one of those, or was forked by one that is.
fn below(threads: &[Thread], those: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut found: Vec<bool> = Vec::with_capacity(threads.len());
    for (index, thread) in threads.iter().enumerate() {
        // A parent comes before its children.
        let forked = thread.parent.and_then(|parent| found.get(parent)).is_some_and(|parent| *parent);
        found.push(forked || those(index));
    }
    found
}

/// What a group gets; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) weight: Option<u32>,
    pub(super) idle: Option<bool>,
    pub(super) max: Option<CpuMax>,
}

/// Where a task may run; none: on all CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Affinity(Option<Vec<u32>>);

/// What becomes of a task; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq)]
struct What {
    nice: Option<i8>,
    policy: Option<Policy>,
    cpus: Option<Affinity>,
    group: Option<String>,
    limits: Limits,
    copies: Option<u32>,
    remove: bool,
}

/// A rule, and where it is written.
#[derive(Clone, Debug)]
struct Rule {
    who: Who,
    what: What,
    source: Source,
    /// Where it says who.
    span: Range<usize>,
    /// Where it says `cpus`.
    cpus_span: Range<usize>,
    /// Where it says `policy`.
    policy_span: Range<usize>,
    /// In a line.
    text: String,
}

/// The rules of a what-if, in the order in which they are applied: where two say different things of a task, the later does it.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    groups: Vec<(String, Limits)>,
}

impl Rules {
    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether a rule removes tasks.
    pub fn removes(&self) -> bool {
        self.rules.iter().any(|rule| rule.what.remove)
    }

    /// How many tasks no rule fits, although whoever forked them has another policy, affinity or group by one: Linux would have passed that on.
    pub fn unreached(&self, threads: &[Thread]) -> usize {
        let mut fitted = vec![false; threads.len()];
        let mut passes_on = vec![false; threads.len()];
        for rule in &self.rules {
            let What { nice, policy, cpus, group, .. } = &rule.what;
            let inherited = nice.is_some() || policy.is_some() || cpus.is_some() || group.is_some();
            for index in rule.who.chosen(threads) {
                fitted[index] = true;
                passes_on[index] |= inherited;
            }
        }
        let below = below(threads, |index| passes_on[index]);
        (0..threads.len()).filter(|&index| below[index] && !fitted[index] && threads[index].task.is_some()).count()
    }

    /// What is wrong with the policy that a thread (an index in [`Recorded::threads`](super::Recorded::threads)) gets by these rules, at the rule
    /// that gives it; none if none does.
    pub fn wrong_policy(&self, threads: &[Thread], thread: usize, message: &str, help: &str) -> Option<Error> {
        let gives = |rule: &&Rule| rule.what.policy.is_some() && rule.who.chosen(threads).contains(&thread);
        let rule = self.rules.iter().rev().find(gives)?;
        Some(rule.source.error_at(rule.policy_span.clone(), message, "asked for here", help))
    }

    /// The groups that have a table of their own (`[groups."/path"]`).
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|(path, _)| path.as_str())
    }

    /// Of [`Rules::groups`] those in which nobody is: no rule puts a task there or below, and none of the trace's groups is there.
    pub fn idle_groups<'a>(&'a self, of_trace: &'a [Group]) -> impl Iterator<Item = &'a str> {
        let within = |path: &str, group: &str| {
            path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.groups().filter(move |group| {
            let mut named = self.rules.iter().filter_map(|rule| rule.what.group.as_deref());
            !named.any(|path| within(path, group)) && !of_trace.iter().any(|there| within(&there.path, group))
        })
    }

    /// Each rule in a line.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.text.as_str())
    }
}
