//! Compares a recording with its replays.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_report::{Explained, ReplayCheck, ReplayGroup, ReplayMeasure, ReplayTask, Results, latency_of};
use vruntime_workload::program::Workload;

use crate::autogroups;
use crate::recorded::{Recorded, Thread};

/// A run of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Ran<'a> {
    /// Results of each task, group and CPU.
    pub results: &'a Results,
    /// The end, nanoseconds after the start.
    pub end: u64,
}

/// The names of recorded tasks. If a parent continues beyond the recording, the machine calls further tasks `NAME-2`,
/// which count for the first.
pub(crate) struct FirstNames<'a>(BTreeSet<&'a str>);

impl<'a> FirstNames<'a> {
    pub(crate) fn new(recorded: &'a Recorded) -> Self {
        Self(recorded.workload.tasks.iter().map(|task| task.name.as_str()).collect())
    }

    /// Returns the name of the task for which `name` counts.
    pub(crate) fn of(&self, name: &str) -> String {
        let first = || {
            let (first, number) = name.rsplit_once('-')?;
            let names = &self.0;
            let again =
                !names.contains(name) && number.bytes().all(|byte| byte.is_ascii_digit()) && names.contains(first);
            again.then(|| first.to_owned())
        };
        first().unwrap_or_else(|| name.to_owned())
    }
}

/// Returns the figures of a run's tasks, by their [first names](FirstNames).
fn by_task(recorded: &Recorded, results: &Results) -> BTreeMap<String, ReplayMeasure> {
    let names = FirstNames::new(recorded);
    let mut measured: BTreeMap<String, ReplayMeasure> = BTreeMap::new();
    for task in &results.tasks {
        let measure: ReplayMeasure = task.into();
        let sum = measured.entry(names.of(&task.name)).or_default();
        sum.cpu_ns += measure.cpu_ns;
        sum.run_delay_ns = match (sum.run_delay_ns, measure.run_delay_ns) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        sum.switches += measure.switches;
        sum.wakeup = sum.wakeup.or(measure.wakeup);
    }
    measured
}

/// Compares the recording with `runs`: the replay as recorded, and optionally a what-if with workload `changed`.
/// `cpus`: CPUs of the recorded machine.
pub fn compare(recorded: &Recorded, changed: Option<&Workload>, runs: &[Ran<'_>], cpus: usize) -> ReplayCheck {
    let measured: Vec<_> = runs.iter().map(|run| by_task(recorded, run.results)).collect();
    let kept: BTreeSet<&str> =
        changed.into_iter().flat_map(|workload| &workload.tasks).map(|task| task.name.as_str()).collect();
    let groups_of = runs.last().map(|run| groups_of(run.results)).unwrap_or_default();
    let tasks = recorded.threads.iter().filter_map(|thread| {
        let name = &recorded.workload.tasks[thread.task?].name;
        Some(ReplayTask {
            name: name.clone(),
            comm: thread.comm.clone(),
            habit: thread.habit.name().to_owned(),
            cgroup: thread.cgroup.clone(),
            group: groups_of.get(name.as_str()).map(|&path| path.to_owned()),
            confined: thread.confined,
            computes_for: thread.computes_for,
            closed: thread.closed,
            removed: changed.is_some() && !kept.contains(name.as_str()),
            rounds: thread.rounds,
            subtracted_ns: thread.subtracted_ns,
            recorded: ReplayMeasure {
                cpu_ns: thread.cpu_ns,
                run_delay_ns: thread.waited_ns,
                switches: thread.switches,
                wakeup: latency_of(&thread.latencies),
            },
            replayed: measured.first().and_then(|run| run.get(name)).copied().unwrap_or_default(),
            what_if: measured.get(1).map(|run| run.get(name).copied().unwrap_or_default()),
        })
    });
    // Copies, and tasks beside the recording.
    let known: BTreeSet<&str> = recorded.workload.tasks.iter().map(|task| task.name.as_str()).collect();
    let added =
        changed.into_iter().flat_map(|workload| &workload.tasks).filter(|task| !known.contains(task.name.as_str()));
    let added = added.map(|task| ReplayTask {
        name: task.name.clone(),
        group: groups_of.get(task.name.as_str()).map(|&path| path.to_owned()),
        what_if: measured.get(1).map(|run| run.get(&task.name).copied().unwrap_or_default()),
        ..ReplayTask::default()
    });
    let busy =
        |run: &Ran<'_>| run.results.cpus.iter().map(|cpu| run.end.saturating_sub(cpu.idle_ns)).collect::<Vec<u64>>();
    let replayed = runs.first().map(busy).unwrap_or_default();
    let pair = |cpu: usize| (recorded.busy_ns.get(cpu).copied().unwrap_or(0), replayed.get(cpu).copied().unwrap_or(0));
    // A run ends early if all tasks have ended. The rest is idle time.
    let end = |index: usize| runs.get(index).map_or(0, |run| run.end.max(recorded.duration_ns));
    let all_known = recorded.known_ns.iter().all(|&known| known >= recorded.duration_ns);
    let mut check = ReplayCheck {
        tasks: tasks.chain(added).collect(),
        groups: groups(recorded, runs),
        explained: runs.iter().zip(0..).map(|(run, index)| Explained::new(run.results, end(index))).collect(),
        cpus: (0..cpus).map(pair).collect(),
        known_ns: if all_known { Vec::new() } else { recorded.known_ns.clone() },
        what_if_cpus: runs.get(1).map(busy),
        charged_ns: recorded.counts.charged_ns,
        elapsed_ns: (recorded.duration_ns, end(0), end(1)),
        seeds: Vec::new(),
    };
    check.sort();
    check
}

/// Returns the last group of each task of a run, by path.
fn groups_of(results: &Results) -> BTreeMap<&str, &str> {
    let path = |group: usize| results.groups.get(group).map(|group| group.path.as_str());
    results.tasks.iter().filter_map(|task| Some((task.name.as_str(), path(task.group)?))).collect()
}

/// Returns the groups of all runs with their recorded CPU time, by each thread's times of membership.
fn groups(recorded: &Recorded, runs: &[Ran<'_>]) -> Vec<ReplayGroup> {
    let Some(first) = runs.first() else { return Vec::new() };
    let mut groups = ReplayGroup::all(first.results, runs.get(1).map(|run| run.results));
    let of_trace: BTreeSet<&str> = recorded.workload.groups.iter().map(|group| group.path.as_str()).collect();
    for group in groups.iter_mut().filter(|group| of_trace.contains(group.path.as_str())) {
        let inside =
            |path: &str| path.strip_prefix(&group.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let had = |thread: &Thread| -> u64 {
            if group.path == "/" {
                return thread.cpu_ns;
            }
            thread.stays.iter().filter(|(path, _)| inside(path)).map(|(_, cpu_ns)| cpu_ns).sum()
        };
        group.recorded_ns = Some(recorded.threads.iter().map(had).sum());
    }
    for group in groups.iter_mut().filter(|group| group.recorded_ns.is_none()) {
        group.recorded_ns = autogroups::recorded_ns(recorded, &group.path);
    }
    groups
}
