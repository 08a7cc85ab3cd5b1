//! Selects the tasks of a rule: threads of a trace, or tasks of a workload file.

use std::collections::BTreeMap;
use std::ops::{Deref, Range};

use regex::Regex;

use super::super::Thread;
use super::values::Pattern;
use vruntime_workload::program::{Task, Workload};

/// A rule's selectors: a task must match all.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    pub(super) comm: Option<Pattern>,
    pub(super) regex: Option<Regex>,
    pub(super) pids: Option<Vec<Range<i64>>>,
    pub(super) tgids: Option<Vec<Range<i64>>>,
    /// These tasks and their descendants.
    pub(super) trees: Option<Vec<Range<i64>>>,
    pub(super) cgroup: Option<Pattern>,
}

/// A task that rules can match.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    /// Its own name, and its class's.
    pub(super) names: [&'a str; 2],
    pub(super) pid: Option<i32>,
    pub(super) tgid: Option<i32>,
    /// Its parent's index among all.
    parent: Option<usize>,
    pub(super) cgroup: Option<&'a str>,
    /// Index in [`Workload::tasks`]. None: the trace only has its name.
    pub(super) task: Option<usize>,
}

/// All tasks that rules can match, in order, and indices of their names and groups.
#[derive(Debug)]
pub(super) struct Candidates<'a> {
    all: Vec<Candidate<'a>>,
    by_name: BTreeMap<&'a str, Vec<usize>>,
    by_cgroup: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Candidates<'a> {
    fn new(all: Vec<Candidate<'a>>) -> Self {
        let (mut by_name, mut by_cgroup) = (BTreeMap::<&str, Vec<usize>>::new(), BTreeMap::<&str, Vec<usize>>::new());
        for (index, candidate) in all.iter().enumerate() {
            let [own, class] = candidate.names;
            by_name.entry(own).or_default().push(index);
            if class != own {
                by_name.entry(class).or_default().push(index);
            }
            if let Some(path) = candidate.cgroup {
                by_cgroup.entry(path).or_default().push(index);
            }
        }
        Self { all, by_name, by_cgroup }
    }
}

impl<'a> Deref for Candidates<'a> {
    type Target = [Candidate<'a>];

    fn deref(&self) -> &[Candidate<'a>] {
        &self.all
    }
}

pub(super) fn in_trace<'a>(threads: &'a [Thread]) -> Candidates<'a> {
    let candidate = |thread: &'a Thread| Candidate {
        names: [&thread.comm; 2],
        pid: Some(thread.pid),
        tgid: thread.tgid,
        parent: thread.parent,
        cgroup: thread.cgroup.as_deref(),
        task: thread.task,
    };
    Candidates::new(threads.iter().map(candidate).collect())
}

/// Returns the tasks of a written workload, with names and groups, but no ids yet.
pub(super) fn in_file<'a>(workload: &'a Workload) -> Candidates<'a> {
    let candidate = |(index, task): (usize, &'a Task)| {
        let cgroup = workload.groups.get(task.settings.group.unwrap_or(0)).map(|group| group.path.as_str());
        let names = [task.name.as_str(), task.class.as_str()];
        Candidate { names, pid: None, tgid: None, parent: None, cgroup, task: Some(index) }
    };
    Candidates::new(workload.tasks.iter().enumerate().map(candidate).collect())
}

impl Selector {
    /// Returns the matching tasks, in order.
    pub(super) fn chosen(&self, all: &Candidates<'_>) -> Vec<usize> {
        let in_tree = |pids: &[Range<i64>], index: usize| all[index].pid.is_some_and(|pid| among(pids, pid));
        let trees = self.trees.as_deref().map(|pids| below(all, |index| in_tree(pids, index)));
        let fits = |index: &usize| self.fits(&all[*index]) && trees.as_ref().is_none_or(|trees| trees[*index]);
        // Thousands of rules may name thousands of tasks.
        let named = self.comm.as_ref().and_then(Pattern::name).map(|name| all.by_name.get(name));
        let of_group = || self.cgroup.as_ref().and_then(Pattern::name).map(|path| all.by_cgroup.get(path));
        match named.or_else(of_group) {
            Some(some) => some.into_iter().flatten().copied().filter(fits).collect(),
            None => (0..all.len()).filter(fits).collect(),
        }
    }

    /// Returns their indices in [`Workload::tasks`].
    pub(super) fn tasks(&self, all: &Candidates<'_>) -> Vec<usize> {
        self.chosen(all).into_iter().filter_map(|index| all[index].task).collect()
    }

    /// Whether it names only cgroups.
    pub(super) fn names_only_cgroups(&self) -> bool {
        let Self { comm, regex, pids, tgids, trees, cgroup } = self;
        cgroup.is_some() && (comm.is_none() && regex.is_none() && pids.is_none() && tgids.is_none() && trees.is_none())
    }

    fn fits(&self, candidate: &Candidate<'_>) -> bool {
        let Candidate { names, pid, tgid, cgroup, .. } = candidate;
        self.comm.as_ref().is_none_or(|glob| names.iter().any(|name| glob.is_match(name)))
            && self.regex.as_ref().is_none_or(|regex| names.iter().any(|name| regex.is_match(name)))
            && self.pids.as_deref().is_none_or(|pids| pid.is_some_and(|pid| among(pids, pid)))
            && self.tgids.as_deref().is_none_or(|tgids| tgid.is_some_and(|tgid| among(tgids, tgid)))
            && self.cgroup.as_ref().is_none_or(|glob| cgroup.is_some_and(|path| glob.is_match(path)))
    }
}

fn among(ranges: &[Range<i64>], id: i32) -> bool {
    ranges.iter().any(|range| range.contains(&i64::from(id)))
}

/// Whether each of `all` is one of `those`, or their descendant.
pub(super) fn below(all: &[Candidate<'_>], those: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut found: Vec<bool> = Vec::with_capacity(all.len());
    for (index, candidate) in all.iter().enumerate() {
        // A parent is before its children.
        let forked = candidate.parent.and_then(|parent| found.get(parent)).is_some_and(|parent| *parent);
        found.push(forked || those(index));
    }
    found
}
