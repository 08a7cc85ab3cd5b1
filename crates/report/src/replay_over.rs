//! Replays with several seeds: their mean as one [`ReplayCheck`], and figures with spread.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::busy::ReplayRun;
use crate::data::{Cell, DataTable, Kind};
use crate::explain::Explained;
use crate::latency::Latency;
use crate::replay::{ReplayCheck, ReplayMeasure, ReplayTask, share};
use crate::replay_groups::{ReplayGroup, ReplayGroupMeasure};
use crate::replay_progress::{Indexed, Progress};
use crate::spread::{Spread, certain, change};
use crate::table::{fit_text, grid};
use crate::units::{OF_A_CPU, OF_THE_TIME, count, percent, time};

#[derive(Debug)]
struct Metric {
    name: &'static str,
    key: &'static str,
    unit: &'static str,
    format: fn(f64) -> String,
    /// The smallest difference that matters, in the metric's unit.
    floor: f64,
}

const fn metric(
    name: &'static str,
    key: &'static str,
    unit: &'static str,
    format: fn(f64) -> String,
    floor: f64,
) -> Metric {
    Metric { name, key, unit, format, floor }
}

fn times(value: f64) -> String {
    format!("{value:.2}")
}

const CPU: Metric = metric("CPU %", "share", OF_A_CPU, percent, 0.005);
const WAIT: Metric = metric("wait %", "run_delay", OF_THE_TIME, percent, 0.01);
const SWITCHES: Metric = metric("switches", "switches", "count", count, 20.0);
const P50: Metric = metric("p50", "wakeup_latency_p50", "ns", time, 50_000.0);
const P99: Metric = metric("p99", "wakeup_latency_p99", "ns", time, 100_000.0);
const ENTITLED: Metric = metric("entitled %", "entitled", OF_A_CPU, percent, 0.005);
const THROTTLED: Metric = metric("throttled", "nr_throttled", "count", count, 2.0);
const THROTTLED_FOR: Metric = metric("throttled for", "throttled_for", "ns", time, 1_000_000.0);
const PROGRESS: Metric = metric("times as fast", "progress", "times the recorded work", times, 0.01);
const ROUNDS: Metric = metric("rounds/s", "rounds_per_s", "per second", count, 5.0);
const DONE: Metric = metric("work done after", "work_done", "ns", time, 1_000_000.0);
const BUSY: Metric = metric("busy %", "busy", OF_A_CPU, percent, 0.005);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject<'a> {
    Task(&'a str),
    Group(&'a str),
    Cpu(usize),
}

/// A figure of the recording and its replays.
struct Row<'a> {
    subject: Subject<'a>,
    metric: &'static Metric,
    recorded: Option<f64>,
    replayed: Option<Spread>,
    what_if: Option<Spread>,
}

impl Row<'_> {
    fn name(&self) -> String {
        match self.subject {
            Subject::Task(name) => name.to_owned(),
            Subject::Group(path) => format!("group {path}"),
            Subject::Cpu(cpu) => format!("CPU {cpu}"),
        }
    }

    /// Returns the replay's figure, or else the recording's.
    fn base(&self) -> Option<Spread> {
        self.replayed.or_else(|| Spread::of(&[self.recorded?]))
    }

    /// Returns the what-if's change as text, or an empty one.
    fn change(&self) -> String {
        let pair = self.base().zip(self.what_if);
        pair.map_or_else(String::new, |(base, other)| change(base, other, self.metric.unit == OF_A_CPU, true))
    }

    /// Whether the what-if changes the figure noticeably beyond the spread, adds or loses it.
    fn matters(&self) -> bool {
        match (self.base(), self.what_if) {
            (Some(base), Some(what_if)) => {
                certain(base, what_if).is_some_and(|(from, to)| (from - to).abs() >= self.metric.floor)
            }
            (base, what_if) => base.is_some() != what_if.is_some(),
        }
    }
}

fn mean(values: impl Iterator<Item = u64>) -> Option<u64> {
    let values: Vec<u64> = values.collect();
    let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
    let count = values.len() as u128;
    (count > 0).then(|| u64::try_from((sum + count / 2) / count).unwrap_or(u64::MAX))
}

impl ReplayMeasure {
    fn mean(runs: &[Self]) -> Self {
        let of = |pick: &dyn Fn(&Self) -> Option<u64>| mean(runs.iter().filter_map(pick));
        let latency = |pick: fn(&Latency) -> u64| of(&|run| run.wakeup.as_ref().map(pick)).unwrap_or(0);
        let first = runs.iter().find_map(|run| run.wakeup);
        Self {
            cpu_ns: of(&|run| Some(run.cpu_ns)).unwrap_or(0),
            run_delay_ns: of(&|run| run.run_delay_ns),
            switches: of(&|run| Some(run.switches)).unwrap_or(0),
            wakeup: first.map(|first| Latency {
                count: latency(|latency| latency.count),
                p50_ns: latency(|latency| latency.p50_ns),
                p99_ns: latency(|latency| latency.p99_ns),
                ..first
            }),
        }
    }
}

impl ReplayGroupMeasure {
    fn mean(runs: &[Self]) -> Option<Self> {
        let of = |pick: &dyn Fn(&Self) -> Option<u64>| mean(runs.iter().filter_map(pick));
        let throttled = of(&|run| Some(run.throttled?.0)).zip(of(&|run| Some(run.throttled?.1)));
        Some(Self {
            cpu_ns: of(&|run| Some(run.cpu_ns))?,
            entitled_ns: of(&|run| Some(run.entitled_ns))?,
            run_delay_ns: of(&|run| Some(run.run_delay_ns))?,
            throttled,
            max: runs.iter().find_map(|run| run.max),
        })
    }
}

fn by_name(check: &ReplayCheck) -> BTreeMap<&str, &ReplayTask> {
    check.tasks.iter().map(|task| (task.name.as_str(), task)).collect()
}

/// The seeds of a check, for single figures.
pub(crate) struct Each<'a> {
    check: &'a ReplayCheck,
    of_all: Indexed<'a>,
    seeds: Vec<Seed<'a>>,
}

/// A seed's check, with its tasks by name and its groups by path.
struct Seed<'a> {
    check: &'a ReplayCheck,
    tasks: BTreeMap<&'a str, &'a ReplayTask>,
    groups: BTreeMap<&'a str, &'a ReplayGroup>,
    indexed: Indexed<'a>,
}

impl<'a> Seed<'a> {
    fn new(check: &'a ReplayCheck) -> Self {
        Self { check, tasks: by_name(check), groups: by_path(check), indexed: Indexed::new(check) }
    }
}

/// Returns the groups by path.
fn by_path(check: &ReplayCheck) -> BTreeMap<&str, &ReplayGroup> {
    check.groups.iter().map(|group| (group.path.as_str(), group)).collect()
}

type ReadTask = fn(&ReplayMeasure, u64) -> Option<f64>;
type ReadGroup = fn(&ReplayGroupMeasure, u64) -> Option<f64>;

const OF_TASKS: [(&Metric, ReadTask); 5] = [
    (&CPU, |run, of| Some(share(run.cpu_ns, of))),
    (&WAIT, |run, of| Some(share(run.run_delay_ns?, of))),
    (&SWITCHES, |run, _| Some(run.switches as f64)),
    (&P50, |run, _| Some(run.wakeup?.p50_ns as f64)),
    (&P99, |run, _| Some(run.wakeup?.p99_ns as f64)),
];

const OF_GROUPS: [(&Metric, ReadGroup); 5] = [
    (&CPU, |run, of| Some(share(run.cpu_ns, of))),
    (&ENTITLED, |run, of| Some(share(run.entitled_ns, of))),
    (&WAIT, |run, of| Some(share(run.run_delay_ns, of))),
    (&THROTTLED, |run, _| Some(run.throttled?.0 as f64)),
    (&THROTTLED_FOR, |run, _| Some(run.throttled?.1 as f64)),
];

impl<'a> Each<'a> {
    pub(crate) fn new(check: &'a ReplayCheck) -> Self {
        let seeds = if check.seeds.is_empty() { std::slice::from_ref(check) } else { &check.seeds[..] };
        Self { check, of_all: Indexed::new(check), seeds: seeds.iter().map(Seed::new).collect() }
    }

    fn spread(&self, read: impl Fn(&ReplayCheck) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.seeds.iter().filter_map(|seed| read(seed.check)).collect::<Vec<f64>>())
    }

    fn of_task(&self, name: &str, read: impl Fn(&ReplayCheck, &ReplayTask) -> Option<f64>) -> Option<Spread> {
        let values = self.seeds.iter().filter_map(|seed| read(seed.check, seed.tasks.get(name)?));
        Spread::of(&values.collect::<Vec<f64>>())
    }

    fn of_group(&self, path: &str, read: impl Fn(&ReplayCheck, &ReplayGroup) -> Option<f64>) -> Option<Spread> {
        let values = self.seeds.iter().filter_map(|seed| read(seed.check, seed.groups.get(path)?));
        Spread::of(&values.collect::<Vec<f64>>())
    }

    /// Whether the what-if changes a task's figure beyond the spread of several seeds.
    pub(crate) fn is_certain(&self, task: &ReplayTask, read: fn(&ReplayMeasure) -> Option<u64>) -> bool {
        let of = |pick: fn(&ReplayTask) -> Option<ReplayMeasure>| {
            self.of_task(&task.name, |_, task| Some(read(&pick(task)?)? as f64))
        };
        let pair = of(|task| Some(task.replayed)).zip(of(|task| task.what_if));
        self.check.seeds.is_empty() || pair.is_some_and(|(replayed, what_if)| replayed.is_disjoint(what_if))
    }

    fn rows_of_task(&self, task: &'a ReplayTask) -> Vec<Row<'a>> {
        let subject = Subject::Task(&task.name);
        let rows = OF_TASKS.into_iter().map(|(metric, read)| Row {
            subject,
            metric,
            recorded: if task.is_added() { None } else { read(&task.recorded, self.check.elapsed_ns.0) },
            replayed: self.of_task(&task.name, |seed, task| {
                if task.is_added() { None } else { read(&task.replayed, seed.elapsed_ns.1) }
            }),
            what_if: self.of_task(&task.name, |seed, task| read(task.what_if.as_ref()?, seed.elapsed_ns.2)),
        });
        let progress = self.check.progress_of_task(task).into_iter().flat_map(|progress| {
            self.rows_of_progress(subject, &progress, |pick| {
                self.of_task(&task.name, |seed, task| pick(&seed.progress_of_task(task)?))
            })
        });
        rows.chain(progress).collect()
    }

    fn rows_of_group(&self, group: &'a ReplayGroup) -> Vec<Row<'a>> {
        let subject = Subject::Group(&group.path);
        let recorded = group.recorded_ns.map(|ns| share(ns, self.check.elapsed_ns.0));
        let rows = OF_GROUPS.into_iter().map(|(metric, read)| Row {
            subject,
            metric,
            recorded: recorded.filter(|_| metric.key == CPU.key),
            replayed: self.of_group(&group.path, |seed, group| read(group.replayed.as_ref()?, seed.elapsed_ns.1)),
            what_if: self.of_group(&group.path, |seed, group| read(group.what_if.as_ref()?, seed.elapsed_ns.2)),
        });
        let progress = self.of_all.of_group(&group.path).into_iter().flat_map(|progress| {
            let has = |seed: &&Seed<'_>| seed.groups.contains_key(group.path.as_str());
            let of_seeds = self.seeds.iter().filter(has).filter_map(|seed| seed.indexed.of_group(&group.path));
            let of_seeds: Vec<Progress> = of_seeds.collect();
            self.rows_of_progress(subject, &progress, |pick| {
                Spread::of(&of_seeds.iter().filter_map(pick).collect::<Vec<f64>>())
            })
        });
        rows.chain(progress).collect()
    }

    /// Returns the rows of progress, which the replay lacks. The time when work is done is given only if every seed
    /// does it.
    fn rows_of_progress(
        &self,
        subject: Subject<'a>,
        progress: &Progress,
        of: impl Fn(fn(&Progress) -> Option<f64>) -> Option<Spread>,
    ) -> [Row<'a>; 3] {
        let row =
            |metric, recorded, what_if| Row { subject, metric, recorded: Some(recorded), replayed: None, what_if };
        // Tasks that are never woken have no rounds.
        let rounds = of(|one| Some(one.what_if_rounds_per_s)).filter(|_| progress.recorded_rounds_per_s > 0.0);
        // A mean over some seeds would be that of fast ones.
        let always = |one: &Progress| Some(f64::from(u8::from(one.done_ns.is_some())));
        let done = of(always).filter(|done| done.min > 0.0).and_then(|_| of(|one| Some(one.done_ns? as f64)));
        [
            row(&ROUNDS, progress.recorded_rounds_per_s, rounds),
            row(&PROGRESS, 1.0, of(|one| Some(one.progress))),
            row(&DONE, self.check.elapsed_ns.0 as f64, done),
        ]
    }

    fn rows_of_cpu(&self, cpu: usize) -> Row<'a> {
        let busy = |run| self.spread(move |seed| seed.busy(run).get(cpu).copied().flatten());
        let [recorded, replayed, what_if] = RUNS.map(busy);
        let recorded = recorded.map(|spread| spread.mean);
        Row { subject: Subject::Cpu(cpu), metric: &BUSY, recorded, replayed, what_if }
    }
}

const RUNS: [ReplayRun; 3] = [ReplayRun::Recorded, ReplayRun::Replayed, ReplayRun::WhatIf];

impl ReplayCheck {
    /// Combines seeds of a recording and what-if: their mean, with each in [`ReplayCheck::seeds`].
    pub fn over(mut seeds: Vec<Self>) -> Option<Self> {
        if seeds.len() < 2 {
            return seeds.pop();
        }
        let mut all = seeds.first()?.clone();
        let by_name: Vec<BTreeMap<&str, &ReplayTask>> = seeds.iter().map(by_name).collect();
        for task in &mut all.tasks {
            let runs: Vec<&ReplayTask> = by_name.iter().filter_map(|seed| seed.get(&*task.name).copied()).collect();
            let replayed: Vec<ReplayMeasure> = runs.iter().map(|run| run.replayed).collect();
            let what_if: Vec<ReplayMeasure> = runs.iter().filter_map(|run| run.what_if).collect();
            task.replayed = ReplayMeasure::mean(&replayed);
            task.what_if = task.what_if.map(|_| ReplayMeasure::mean(&what_if));
        }
        let mut known: BTreeSet<String> = all.groups.iter().map(|group| group.path.clone()).collect();
        for group in seeds[1..].iter().flat_map(|seed| &seed.groups) {
            if known.insert(group.path.clone()) {
                all.groups.push(group.clone());
            }
        }
        let by_path: Vec<BTreeMap<&str, &ReplayGroup>> = seeds.iter().map(by_path).collect();
        for group in &mut all.groups {
            let runs = || by_path.iter().filter_map(|seed| seed.get(group.path.as_str()).copied());
            let replayed: Vec<ReplayGroupMeasure> = runs().filter_map(|run| run.replayed).collect();
            let what_if: Vec<ReplayGroupMeasure> = runs().filter_map(|run| run.what_if).collect();
            group.replayed = ReplayGroupMeasure::mean(&replayed);
            group.what_if = ReplayGroupMeasure::mean(&what_if);
        }
        for (cpu, (_, replayed)) in all.cpus.iter_mut().enumerate() {
            *replayed = mean(seeds.iter().filter_map(|seed| Some(seed.cpus.get(cpu)?.1))).unwrap_or(0);
        }
        for (cpu, busy) in all.what_if_cpus.iter_mut().flatten().enumerate() {
            let of_seeds = seeds.iter().filter_map(|seed| seed.what_if_cpus.as_ref()?.get(cpu).copied());
            *busy = mean(of_seeds).unwrap_or(0);
        }
        let elapsed = |pick: fn(&Self) -> u64| mean(seeds.iter().map(pick)).unwrap_or(0);
        all.elapsed_ns.1 = elapsed(|seed| seed.elapsed_ns.1);
        all.elapsed_ns.2 = elapsed(|seed| seed.elapsed_ns.2);
        let sides = all.explained.len();
        all.explained =
            (0..sides).map(|side| Explained::sum(seeds.iter().filter_map(|seed| seed.explained.get(side)))).collect();
        drop((by_name, by_path));
        all.seeds = seeds;
        all.sort();
        Some(all)
    }

    /// Returns all figures of these tasks, and of groups and CPUs, that any run has.
    fn spread_rows<'a>(&'a self, tasks: &'a [ReplayTask]) -> Vec<Row<'a>> {
        let each = Each::new(self);
        let of_tasks = tasks.iter().flat_map(|task| each.rows_of_task(task));
        let of_groups = self.groups.iter().flat_map(|group| each.rows_of_group(group));
        let cpus = RUNS.map(|run| self.busy(run).len()).into_iter().max().unwrap_or(0);
        let rows = of_tasks.chain(of_groups).chain((0..cpus).map(|cpu| each.rows_of_cpu(cpu)));
        rows.filter(|row| row.replayed.is_some() || row.what_if.is_some()).collect()
    }

    /// Returns recording, replays and what-ifs of several seeds: mean ± half the range, and the what-if's change. A
    /// line counts omitted rows, with changes within the spread or too small.
    pub fn over_seeds_text(&self, all: bool) -> String {
        let what_if = self.what_if_cpus.is_some();
        let rows = self.spread_rows(self.shown(all));
        let kept = |row: &&Row<'_>| all || !what_if || [CPU.key, BUSY.key].contains(&row.metric.key) || row.matters();
        let (mut last, mut lines, mut left_out) = (None, Vec::new(), 0);
        for row in &rows {
            if !kept(&row) {
                left_out += 1;
                continue;
            }
            let name = if last == Some(row.subject) { String::new() } else { row.name() };
            last = Some(row.subject);
            let none = || "-".to_owned();
            let text = |spread: Option<Spread>| spread.map_or_else(none, |spread| spread.text(row.metric.format));
            let mut line = vec![name, row.metric.name.to_owned()];
            line.push(row.recorded.map_or_else(none, row.metric.format));
            line.push(text(row.replayed));
            if what_if {
                line.push(text(row.what_if));
                line.push(row.change());
            }
            lines.push(line);
        }
        let head = ["", "", "recorded", "replayed", "what if", "change"];
        let mut text = grid(&head[..if what_if { 6 } else { 4 }], 2, lines);
        text.push_str(&self.rest(all));
        if left_out > 0 {
            let line = format!(
                "{left_out} of {} rows are left out (within the spread or too small to matter). --all shows them.",
                rows.len()
            );
            text.extend([&fit_text(&line, ""), "\n"]);
        }
        text
    }

    /// Returns all figures of several seeds, a row for each figure and run. None for one seed.
    pub(crate) fn over_seeds_table(&self) -> Option<DataTable> {
        let heads = [
            ("task", "Task", Kind::Text),
            ("group", "Group", Kind::Text),
            ("cpu", "CPU", Kind::Count),
            ("metric", "Metric", Kind::Text),
            ("unit", "Unit", Kind::Text),
            ("run", "Run", Kind::Text),
            ("mean", "Mean", Kind::Number),
            ("min", "Least", Kind::Number),
            ("max", "Most", Kind::Number),
        ];
        let mut table = DataTable::new("replay_over_seeds", "Over all seeds", &heads);
        if self.seeds.is_empty() {
            return None;
        }
        for row in self.spread_rows(&self.tasks) {
            for (run, spread) in [("replayed", row.replayed), ("what_if", row.what_if)] {
                let Some(Spread { mean, min, max }) = spread else { continue };
                let [task, group, cpu] = subject(row.subject);
                let [metric, unit, run] = [row.metric.key, row.metric.unit, run].map(Cell::from);
                table.push(vec![task, group, cpu, metric, unit, run, mean.into(), min.into(), max.into()]);
            }
        }
        Some(table)
    }

    /// Returns all figures of several seeds for a page. None for one seed.
    pub(crate) fn over_seeds_page(&self) -> Option<DataTable> {
        let heads = [
            ("of", "Of", Kind::Text),
            ("metric", "Metric", Kind::Text),
            ("recorded", "Recorded", Kind::Measure),
            ("replayed", "Replayed", Kind::Measure),
            ("what_if", "What if", Kind::Measure),
            ("change", "Change", Kind::Share),
            ("certain", "Spread", Kind::Text),
        ];
        if self.seeds.is_empty() {
            return None;
        }
        let title = format!("Mean of {} seeds, and half their range", self.seeds.len());
        let mut table = DataTable::new("replay_over_seeds_page", title, &heads);
        for row in self.spread_rows(&self.tasks) {
            let measure = |spread: Option<Spread>| match spread {
                Some(spread) => {
                    Cell::Measure { value: spread.mean, unit: row.metric.unit, text: spread.text(row.metric.format) }
                }
                None => Cell::Nothing,
            };
            let pair = row.base().zip(row.what_if);
            let change = pair.filter(|(base, _)| base.mean != 0.0).map(|(base, other)| other.mean / base.mean - 1.0);
            let within = pair.is_some_and(|(base, other)| !base.is_disjoint(other) && !base.is(other));
            table.push(vec![
                row.name().into(),
                row.metric.name.into(),
                measure(row.recorded.and_then(|value| Spread::of(&[value]))),
                measure(row.replayed),
                measure(row.what_if),
                change.into(),
                within.then_some("within").into(),
            ]);
        }
        Some(table)
    }

    /// Returns all figures of several seeds: a list of `task`, `group` or `cpu`, `metric`, `unit` and `recorded`.
    /// `replayed` and `what_if` have `mean`, `min` and `max`. None for one seed.
    pub(crate) fn over_seeds_json(&self) -> Option<Value> {
        let row = |row: Row<'_>| {
            let [task, group, cpu] = subject(row.subject).map(|cell| cell.json());
            json!({
                "task": task,
                "group": group,
                "cpu": cpu,
                "metric": row.metric.key,
                "unit": row.metric.unit,
                "recorded": row.recorded,
                "replayed": row.replayed.map(Spread::json),
                "what_if": row.what_if.map(Spread::json),
            })
        };
        (!self.seeds.is_empty()).then(|| self.spread_rows(&self.tasks).into_iter().map(row).collect())
    }
}

/// Returns task, group and CPU. One has a value.
fn subject(subject: Subject<'_>) -> [Cell; 3] {
    match subject {
        Subject::Task(name) => [name.into(), Cell::Nothing, Cell::Nothing],
        Subject::Group(path) => [Cell::Nothing, path.into(), Cell::Nothing],
        Subject::Cpu(cpu) => [Cell::Nothing, Cell::Nothing, cpu.into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::latency_of;
    use crate::replay_verdict::Verdict;

    /// A seed: a closed-loop server with this CPU time of a second, and an added task.
    fn seed(replayed: u64, what_if: u64) -> ReplayCheck {
        let measure = |cpu_ns: u64| ReplayMeasure {
            cpu_ns,
            run_delay_ns: Some(cpu_ns / 2),
            switches: cpu_ns / 1_000_000,
            wakeup: latency_of(&vec![cpu_ns / 100; 100]),
        };
        let group = |path: &str| ReplayGroup {
            path: path.to_owned(),
            recorded_ns: Some(200_000_000),
            replayed: Some(ReplayGroupMeasure { cpu_ns: replayed, ..ReplayGroupMeasure::default() }),
            what_if: Some(ReplayGroupMeasure {
                cpu_ns: what_if,
                throttled: Some((what_if / 100_000_000, 5)),
                ..ReplayGroupMeasure::default()
            }),
        };
        let mut check = ReplayCheck {
            tasks: vec![
                ReplayTask { name: "beside".to_owned(), what_if: Some(measure(what_if / 4)), ..ReplayTask::default() },
                ReplayTask {
                    name: "server-1".to_owned(),
                    comm: "server".to_owned(),
                    habit: "woken".to_owned(),
                    closed: true,
                    rounds: 10,
                    group: Some("/web".to_owned()),
                    recorded: measure(200_000_000),
                    replayed: measure(replayed),
                    what_if: Some(measure(what_if)),
                    ..ReplayTask::default()
                },
            ],
            groups: vec![group("/"), group("/web")],
            cpus: vec![(200_000_000, replayed)],
            what_if_cpus: Some(vec![what_if]),
            elapsed_ns: (1_000_000_000, 1_000_000_000, 1_000_000_000),
            ..ReplayCheck::default()
        };
        check.sort();
        check
    }

    fn rows(text: &str) -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>().join(" ")).collect()
    }

    #[test]
    fn one_seed_is_what_it_is() {
        assert_eq!(ReplayCheck::over(vec![seed(200_000_000, 400_000_000)]), Some(seed(200_000_000, 400_000_000)));
        assert_eq!(ReplayCheck::over(Vec::new()), None);
        let one = seed(200_000_000, 400_000_000);
        assert_eq!((one.over_seeds_json(), one.over_seeds_table(), one.over_seeds_page()), (None, None, None));
        assert_eq!(one.json()["over_seeds"], Value::Null);
    }

    #[test]
    fn several_seeds_are_their_mean_and_their_range() {
        let seeds =
            vec![seed(190_000_000, 390_000_000), seed(200_000_000, 500_000_000), seed(210_000_000, 400_000_000)];
        let all = ReplayCheck::over(seeds).unwrap();
        assert_eq!(all.seeds.len(), 3);
        let server = &all.tasks[0];
        assert_eq!((server.replayed.cpu_ns, server.replayed.run_delay_ns), (200_000_000, Some(100_000_000)));
        assert_eq!(server.what_if.unwrap().cpu_ns, 430_000_000);
        assert_eq!((all.cpus[0], all.what_if_cpus.as_deref()), ((200_000_000, 200_000_000), Some(&[430_000_000][..])));
        assert_eq!(all.groups[1].what_if.unwrap().throttled, Some((4, 5)), "a third of 3 + 5 + 4");
        let text = rows(&all.over_seeds_text(true));
        for row in [
            "recorded replayed what if change",
            "server-1 CPU % 20.00 20.00 ±1.00 43.00 ±5.50 +23.00 pp",
            "wait % 10.00 10.00 ±0.50 21.50 ±2.75 +115.0 %",
            "switches 200 200 ±10 430 ±55 +115.0 %",
            "times as fast 1.00 - 2.15 ±0.28 +115.0 %",
            "beside CPU % - - 10.75 ±1.37",
            "group /web CPU % 20.00 20.00 ±1.00 43.00 ±5.50 +23.00 pp",
            "CPU 0 busy % 20.00 20.00 ±1.00 43.00 ±5.50 +23.00 pp",
        ] {
            assert!(text.iter().any(|line| line == row), "{row}: {text:#?}");
        }
        let cells = all.over_seeds_json().unwrap();
        let cell =
            cells.as_array().unwrap().iter().find(|cell| cell["task"] == "server-1" && cell["metric"] == "share");
        let cell = cell.unwrap();
        assert_eq!((&cell["recorded"], &cell["unit"]), (&0.2.into(), &OF_A_CPU.into()));
        assert_eq!(cell["what_if"], json!({ "mean": 0.43, "min": 0.39, "max": 0.5 }));
        assert_eq!(all.json()["verdict"]["of_seeds"], json!(["good", "good", "good"]));
        let line = all.verdict_line();
        assert!(line.ends_with("3 of 3 seeds are good; the figures are of the median seed."), "{line}");
        assert!(all.progress_clauses().concat().contains("`server` works 2.15 ±0.28 times as fast"));
    }

    #[test]
    fn the_verdict_is_that_of_a_seed_in_the_middle() {
        let of = |replayed: &[u64]| {
            let all = ReplayCheck::over(replayed.iter().map(|&ns| seed(ns, ns)).collect()).unwrap();
            (all.verdict(), all.verdict_line())
        };
        let (verdict, line) = of(&[200_000_000, 100_000_000, 201_000_000]);
        assert_eq!(verdict, Some(Verdict::Good), "{line}");
        assert!(line.contains("2 of 3 seeds are good, 1 of 3 seeds is poor; "), "{line}");
        let (verdict, line) = of(&[100_000_000, 201_000_000, 100_000_000]);
        assert_eq!(verdict, Some(Verdict::Poor), "{line}");
    }

    #[test]
    fn what_is_within_the_spread_is_left_out_and_is_no_news() {
        let all = ReplayCheck::over(vec![seed(190_000_000, 200_000_000), seed(210_000_000, 220_000_000)]).unwrap();
        let text = all.over_seeds_text(false);
        let found = rows(&text);
        assert!(found.iter().any(|row| row == "server-1 CPU % 20.00 20.00 ±1.00 21.00 ±1.00 ~+1.00 pp"), "{text}");
        assert!(!text.contains("switches 2"), "{text}");
        assert!(text.contains(" are left out (within the spread or too small to matter)"), "{text}");
        assert!(all.over_seeds_text(true).lines().count() > text.lines().count());
        let sentence = all.what_if_sentence().unwrap();
        assert!(!sentence.contains("changes most"), "{sentence}");
        let sentence_of = |one: u64, other: u64| {
            let all = ReplayCheck::over(vec![seed(200_000_000, one), seed(200_000_000, other)]).unwrap();
            !all.progress_clauses().is_empty()
        };
        assert!(!sentence_of(190_000_000, 230_000_000) && sentence_of(210_000_000, 230_000_000));
        let disjoint = ReplayCheck::over(vec![seed(190_000_000, 230_000_000), seed(200_000_000, 250_000_000)]).unwrap();
        assert!(disjoint.what_if_sentence().unwrap().contains("the CPU time of `server-1` changes most"));
    }

    #[test]
    fn work_is_done_if_it_is_with_every_seed() {
        let done = |one: u64, other: u64| {
            let all = ReplayCheck::over(vec![seed(200_000_000, one), seed(200_000_000, other)]).unwrap();
            let cells = all.over_seeds_json().unwrap();
            let is_it = |cell: &&Value| cell["task"] == "server-1" && cell["metric"] == "work_done";
            cells.as_array().unwrap().iter().find(is_it).map(|cell| cell["what_if"]["mean"].clone())
        };
        assert_eq!(done(400_000_000, 400_000_000), Some(500_000_000.0.into()));
        assert_eq!(done(400_000_000, 150_000_000), None);
    }
}
