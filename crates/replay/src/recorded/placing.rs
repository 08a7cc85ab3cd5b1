//! The task groups of a trace's threads: the machine's ([`Cgroups`]), and those of moves by `cgroup_attach_task`.

use std::collections::{BTreeMap, BTreeSet};

use super::Counts;
use super::threads::{Act, Thread};
use vruntime_workload::cgroups::Cgroups;
use vruntime_workload::groups::{GroupTree, Limits, normalize_path};
use vruntime_workload::limit::{PERIOD_NS, QUOTA_NS};
use vruntime_workload::program::{Bandwidth, Change, Changed, CpuMax, GroupChange, Settings, Workload};

/// A thread moved to another group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) at: u64,
    pub(super) hierarchy: i32,
    pub(super) path: String,
    pub(super) cpu_ns: u64,
}

/// A mark's settings of a group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Marked {
    at: u64,
    path: String,
    limits: Limits,
}

impl Marked {
    pub(super) fn new(at: u64, path: &str, weight: u32, idle: bool, max: Option<(u64, u64)>) -> Self {
        let max = max.map_or(CpuMax::Unlimited, |(quota, period)| {
            let quota = quota.clamp(*QUOTA_NS.start(), *QUOTA_NS.end());
            let period = period.clamp(*PERIOD_NS.start(), *PERIOD_NS.end());
            CpuMax::Limited(Bandwidth { quota, period, burst: 0 })
        });
        // What an idle group would weigh does not count.
        let weight = (!idle).then_some(weight);
        Self { at, path: path.to_owned(), limits: Limits { weight, idle: Some(idle), max: Some(max), burst: None } }
    }
}

/// Knowledge of groups beyond recorded moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownGroups<'a> {
    /// By the machine.
    pub(super) cgroups: Option<&'a Cgroups>,
    /// By marks in the trace. The machine's files take precedence.
    pub(super) marked: &'a [Marked],
}

/// Puts tasks (`numbers`) into their threads' groups, on a machine of `cpus` CPUs. Returns each thread's cgroups in
/// order, with CPU time in each. None if no cgroups are known.
pub(super) fn place(
    threads: &[Thread],
    numbers: &[Option<usize>],
    KnownGroups { cgroups, marked }: KnownGroups<'_>,
    cpus: usize,
    workload: &mut Workload,
    counts: &mut Counts,
) -> Vec<Vec<(String, u64)>> {
    let moves = moves(threads, cgroups);
    if cgroups.is_none() && marked.is_empty() && moves.iter().all(Vec::is_empty) {
        return vec![Vec::new(); threads.len()];
    }
    let first = first_groups(threads, cgroups, &moves);
    let task_group = |path| cgroups.map_or(path, |cgroups| cgroups.task_group(path));
    let mut groups = GroupTree::from_groups(std::mem::take(&mut workload.groups));
    let mut stays = Vec::with_capacity(threads.len());
    let changes = if cgroups.is_none() { give(marked, &mut groups) } else { Vec::new() };
    for (index, moves) in moves.iter().enumerate() {
        // A task that is moved before its first stretch starts in the group of its last such move.
        let begins = threads[index].stretches.first().map_or(0, |first| first.woken);
        let (early, moves) = moves.split_at(moves.partition_point(|one| one.at <= begins));
        let first = early.last().map(|one| one.path.as_str()).or(first[index].as_deref());
        let path = first.unwrap_or("/");
        stays.push(stays_in(path, moves, threads[index].cpu_ns));
        let Some(task) = numbers[index] else { continue };
        let mut confined = cgroups.and_then(|cgroups| cgroups.cpus_below_task_group(path));
        if let (Some(list), settings) = (confined, &mut workload.tasks[task].settings)
            && settings.cpus.is_none()
        {
            settings.cpus = Some(list.to_vec());
        }
        let path = task_group(path);
        counts.grouped += u64::from(path != "/");
        counts.ungrouped += u64::from(first.is_none());
        if path != "/" {
            workload.tasks[task].settings.group = Some(groups.ensure(path));
        }
        for Move { at, path, .. } in moves {
            counts.moves += 1;
            let before = confined;
            confined = cgroups.and_then(|cgroups| cgroups.cpus_below_task_group(path));
            let anywhere = || before.map(|_| (0..cpus as u32).collect());
            let list = confined.map(<[u32]>::to_vec).or_else(anywhere);
            let settings = Settings { group: Some(groups.ensure(task_group(path))), cpus: list, ..Settings::default() };
            let what = Changed::Tasks { tasks: vec![task], settings, nice: None };
            workload.changes.push(Change { at: *at, what });
        }
    }
    workload.changes.extend(changes);
    workload.changes.sort_by_key(|change| change.at);
    if let Some(cgroups) = cgroups {
        cgroups.give(&mut groups);
    }
    workload.groups = groups.into_groups();
    if cgroups.is_none() && marked.is_empty() {
        counts.bare_groups = workload.groups.len().saturating_sub(1) as u64;
    }
    stays
}

/// Returns a thread's groups from `first` on, with its part of `cpu_ns` in each.
fn stays_in(first: &str, moves: &[Move], cpu_ns: u64) -> Vec<(String, u64)> {
    let paths = std::iter::once(first).chain(moves.iter().map(|one| one.path.as_str()));
    let until = moves.iter().map(|one| one.cpu_ns).chain([cpu_ns]);
    let mut before = 0;
    let stay = |(path, until): (&str, u64)| {
        let had = until.saturating_sub(before);
        before = before.max(until);
        (path.to_owned(), had)
    };
    paths.zip(until).map(stay).collect()
}

/// Creates the marked groups with their first settings. Later settings are changes.
fn give(marked: &[Marked], groups: &mut GroupTree) -> Vec<Change> {
    // Whether each is idle, which is only written where it changes: old kernels have no such file.
    let (mut changes, mut seen) = (Vec::new(), BTreeMap::new());
    for one in marked {
        let Ok(path) = normalize_path(&one.path) else { continue };
        if path == "/" {
            continue;
        }
        let group = groups.ensure(&path);
        let Limits { weight, idle, max, .. } = one.limits;
        match seen.insert(group, idle) {
            None => groups.limit(group, one.limits),
            Some(was) => {
                let to = GroupChange { weight, idle: idle.filter(|_| was != idle), max, ..GroupChange::default() };
                changes.push(Change { at: one.at, what: Changed::Group { group, to } });
            }
        }
    }
    changes
}

/// Returns each thread's moves in the scheduling hierarchy: times and groups.
fn moves(threads: &[Thread], cgroups: Option<&Cgroups>) -> Vec<Vec<Move>> {
    let hierarchy = cgroups.map_or(0, Cgroups::hierarchy);
    let moves = |thread: &Thread| -> Vec<Move> {
        let moves = thread.moves.iter().filter(|one| one.hierarchy == hierarchy);
        moves.filter_map(|one| Some(Move { path: normalize_path(&one.path).ok()?, ..one.clone() })).collect()
    };
    threads.iter().map(moves).collect()
}

/// Returns each thread's first cgroup: the machine's; else its parent's at the fork.
fn first_groups(threads: &[Thread], cgroups: Option<&Cgroups>, moves: &[Vec<Move>]) -> Vec<Option<String>> {
    let known = known_of_first(threads, |thread| cgroups?.of(thread.pid).map(str::to_owned));
    let of_parent = |parent: usize, at, first: &Option<String>| {
        let moved = moves[parent].iter().rev().find(|moved| moved.at <= at);
        moved.map(|moved| moved.path.clone()).or_else(|| first.clone())
    };
    let first = completed(threads, inherited(threads, known, of_parent));
    inherited(threads, first, of_parent)
}

/// Completes what the machine's files say of threads that are not in them. They began between the reading of the files
/// and the trace. Such a thread is like its parent, which its exit wakes.
pub(super) fn completed<T: Clone>(threads: &[Thread], mut first: Vec<Option<T>>) -> Vec<Option<T>> {
    let unknown = threads.iter().enumerate().filter(|(index, thread)| first[*index].is_none() && thread.born.is_none());
    let found: Vec<(usize, T)> =
        unknown.filter_map(|(index, thread)| Some((index, first[woken_by_exit(thread)?].clone()?))).collect();
    for (index, known) in found {
        first[index] = Some(known);
    }
    first
}

/// Returns the machine's knowledge of each thread. It belongs to the first thread with a pid.
pub(super) fn known_of_first<T>(threads: &[Thread], known: impl Fn(&Thread) -> Option<T>) -> Vec<Option<T>> {
    let mut seen = BTreeMap::new();
    let not_second = |(index, thread): (usize, &Thread)| {
        let second = seen.insert(thread.pid, index).is_some() && thread.born.is_some();
        if second { None } else { known(thread) }
    };
    threads.iter().enumerate().map(not_second).collect()
}

/// Returns each thread's initial value, if known, or its parent's at the fork, by `of` and the parent's initial value.
pub(super) fn inherited<T: Clone>(
    threads: &[Thread],
    mut first: Vec<Option<T>>,
    of: impl Fn(usize, u64, &Option<T>) -> Option<T>,
) -> Vec<Option<T>> {
    let mut asked = vec![false; threads.len()];
    for start in 0..threads.len() {
        // Walk up to a thread that is known or visited, then down again.
        let (mut way, mut above) = (Vec::new(), start);
        while !std::mem::replace(&mut asked[above], true)
            && first[above].is_none()
            && let Some((at, Some(parent))) = threads[above].born
        {
            way.push((above, at, parent));
            above = parent;
        }
        for (child, at, parent) in way.into_iter().rev() {
            first[child] = of(parent, at, &first[parent]);
        }
    }
    first
}

/// Returns the last thread that an ending thread wakes: its parent, unless that one is awake.
pub(super) fn woken_by_exit(thread: &Thread) -> Option<usize> {
    thread.exit()?.acts.iter().rev().find_map(|&(_, act)| match act {
        Act::Wake { thread, .. } => Some(thread),
        _ => None,
    })
}

/// Returns threads that groups keep from CPUs of a machine with `cpus` CPUs: cpusets from some, limits from all for a
/// while.
pub(super) fn held_by_groups(
    threads: &[Thread],
    cgroups: Option<&Cgroups>,
    marked: &[Marked],
    cpus: usize,
) -> Vec<bool> {
    if cgroups.is_none() && marked.is_empty() {
        return vec![false; threads.len()];
    }
    let moves = moves(threads, cgroups);
    let first = first_groups(threads, cgroups, &moves);
    let has_limit = |one: &&Marked| matches!(one.limits.max, Some(CpuMax::Limited(_)));
    let limited: BTreeSet<&str> = marked.iter().filter(has_limit).map(|one| one.path.as_str()).collect();
    let below = |path: &str| {
        limited
            .iter()
            .any(|&group| path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    };
    let holds = |path: &str| match cgroups {
        Some(cgroups) => cgroups.confines(path, cpus) || cgroups.limits(path),
        None => below(path),
    };
    let moved = |index: usize| moves[index].iter().map(|one| one.path.as_str());
    (0..threads.len()).map(|index| first[index].as_deref().into_iter().chain(moved(index)).any(holds)).collect()
}

/// A thread's affinity, from the machine's files or its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) cpus: Vec<u32>,
    /// Whether it is the thread's own.
    pub(super) own: bool,
}

/// Returns the threads' known affinities. What only a cpuset causes is its group's, not theirs.
pub(super) fn allowed(threads: &[Thread], cgroups: Option<&Cgroups>) -> Vec<Option<Allowed>> {
    let known = |thread: &Thread| {
        let (cgroups, cpus) = (cgroups?, cgroups?.affinity(thread.pid)?);
        let of_cpuset = cgroups.of(thread.pid).and_then(|path| cgroups.cpuset(path)) == Some(cpus);
        (!of_cpuset).then(|| Allowed { cpus: cpus.to_vec(), own: true })
    };
    let first = known_of_first(threads, known);
    inherited(threads, first, |_, _, parent| parent.clone().map(|allowed| Allowed { own: false, ..allowed }))
}
