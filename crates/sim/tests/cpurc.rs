//! The O(1) scheduler with the CPU resource controller: classes get their guarantees, and each part of it is needed.

#[path = "../../../tests/seed.rs"]
mod seed;
mod support;

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};
use seed::any_seed;
use support::history::*;
use support::*;
use vruntime_sched::event::{Event, Running};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sim::{Config, MachineSpec, parse_topology};
use vruntime_trace::{Sink, TaskInfo};
use vruntime_workload::program::*;
use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario::{self, Scenario};

const KERNEL: &str = "2.6.15-cpurc";
const S: u64 = 1000 * MS;

/// CPU time of groups, from an instant on.
#[derive(Default)]
struct Shares {
    from: u64,
    groups: BTreeMap<TaskId, u32>,
    running: BTreeMap<u32, (u64, TaskId)>,
    used: BTreeMap<u32, u64>,
    switches: u64,
    end: u64,
}

impl Shares {
    fn add(&mut self, since: u64, at: u64, task: TaskId) {
        *self.used.entry(self.groups[&task]).or_default() += at.max(self.from) - since.max(self.from);
    }

    /// Percent of one CPU.
    fn percent(&self, group: u32) -> f64 {
        self.used.get(&group).map_or(0.0, |&used| 100.0 * used as f64 / (self.end - self.from) as f64)
    }
}

impl Sink for Shares {
    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        self.groups.insert(id, info.group.0);
    }
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        let Event::Switch { next, .. } = *event else { return };
        self.switches += u64::from(at >= self.from);
        if let Some((since, task)) = self.running.remove(&cpu.0) {
            self.add(since, at, task);
        }
        if let Running::Task(task) = next {
            self.running.insert(cpu.0, (at, task));
        }
    }
    fn finish(&mut self, at: u64) {
        for (since, task) in std::mem::take(&mut self.running).into_values() {
            self.add(since, at, task);
        }
        self.end = at;
    }
}

fn shares_after(from: u64, workload: &Workload, config: &Config) -> Shares {
    let mut sinks = (Shares { from, ..Shares::default() }, Ledger::default());
    let outcome = simulate(workload, config, &mut sinks).unwrap();
    sinks.1.check(&outcome);
    sinks.0
}

fn class(path: &str, guarantee: u32) -> Group {
    Group { path: path.to_owned(), parent: Some(0), guarantee: Some(guarantee), ..Group::default() }
}

fn in_group(mut task: Task, group: usize) -> Task {
    task.settings.group = Some(group);
    task
}

/// Classes with these percentages, and their tasks.
fn classes(guarantees: &[u32], tasks: Vec<(Task, usize)>) -> Workload {
    let mut made = workload(tasks.into_iter().map(|(task, group)| in_group(task, group)).collect());
    made.groups.extend((1..).zip(guarantees).map(|(index, &guarantee)| class(&format!("/{index}"), guarantee)));
    made
}

fn hogs(count: usize, group: usize) -> impl Iterator<Item = (Task, usize)> {
    (0..count).map(move |index| (hog(&format!("hog{group}-{index}")), group))
}

fn switched(feature: &str, config: Config) -> Config {
    let mut config = config;
    config.kernel.feature(feature).unwrap();
    config
}

fn load(name: &str, files: u32) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/history").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    // With fewer files the run is shorter.
    let text = text.replace("kernbench -j 8", &format!("kernbench -j 8 --files={files}"));
    let none = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    scenario::parse(name, text.as_bytes(), &Options::default(), &mut { none }).unwrap()
}

/// CPU time of the compilation, seconds, and percent of one CPU.
fn kernbench(scenario: &Scenario, kernel: &str, hz: u32, share: u32, seed: u64) -> (f64, f64) {
    let mut workload = scenario.workload.clone();
    for (group, share) in [("/kernbench", share), ("/loops", 100 - share)] {
        let group = workload.groups.iter_mut().find(|known| known.path == group).unwrap();
        if group.guarantee.is_some() {
            group.guarantee = Some(share);
        } else {
            group.weight = share.max(1);
        }
    }
    let compiling = workload.groups.iter().position(|group| group.path == "/kernbench").unwrap();
    let mut spec = MachineSpec::new(parse_topology("2").unwrap());
    spec.hz = hz;
    let config = Config { seed, ..Config::new(vruntime_sched::kernel(kernel).unwrap(), spec) };
    let shares = shares_after(3 * S, &workload, &config);
    let (used, percent) = (shares.used[&(compiling as u32)], shares.percent(compiling as u32));
    (used as f64 / 1e9, percent)
}

/// The document's table: beside two infinite loops, kernbench has twice its share, as there are two CPUs.
#[test]
fn kernbench_has_its_share_in_every_row() {
    let scenario = load("cpurc.toml", 768);
    let mut work = Vec::new();
    for share in (1..=10).map(|tenth| 10 * tenth) {
        let (used, percent) = kernbench(&scenario, KERNEL, 1000, share, u64::from(share / 50));
        assert!((percent - f64::from(2 * share)).abs() <= 2.0, "{share}: {percent}");
        work.push(used);
    }
    let (least, most) = work.iter().fold((f64::MAX, 0.0_f64), |(least, most), &used| (least.min(used), most.max(used)));
    assert!(most <= 1.005 * least, "{work:?}");
}

#[test]
fn weights_do_the_same_today() {
    let scenario = load("cpurc-today.toml", 192);
    for share in (1..=9).map(|tenth| 10 * tenth) {
        let (_, percent) = kernbench(&scenario, "6.12", 250, share, 0);
        assert!((percent - f64::from(2 * share)).abs() <= 2.0, "{share}: {percent}");
    }
}

/// Two classes of a hog each, whose guarantees change after 10 s.
fn regulated(guarantees: [u32; 2], changes: &[(usize, u32)]) -> Workload {
    let mut work = classes(&guarantees, hogs(1, 1).chain(hogs(1, 2)).collect());
    work.changes.extend(changes.iter().map(|&(group, percent)| {
        let to = GroupChange { guarantee: Some(percent), ..GroupChange::default() };
        Change { at: 10 * S, what: Changed::Group { group, to } }
    }));
    work
}

/// A changed guarantee holds 5 s later; the root has the rest.
#[test]
fn guarantees_can_be_changed() {
    let config = for_ms(KERNEL, "1", 1000, 25_000);
    let near = |shares: &Shares, of: [f64; 2]| {
        [1, 2].iter().zip(of).all(|(&group, of)| (shares.percent(group) - of).abs() <= 2.0)
    };
    let before = shares_after(5 * S, &regulated([20, 80], &[]), &config);
    assert!(near(&before, [20.0, 80.0]), "{:?}", before.used);
    // One class gives before the other gets more.
    let after = shares_after(15 * S, &regulated([20, 80], &[(2, 30), (1, 70)]), &config);
    assert!(near(&after, [70.0, 30.0]), "{:?}", after.used);

    let refused = |work: &Workload, kernel: &str| {
        simulate(work, &for_ms(kernel, "1", 1000, 25_000), &mut Shares::default()).unwrap_err().to_string()
    };
    let sum = refused(&regulated([20, 80], &[(1, 70)]), KERNEL);
    assert!(
        sum.contains(
            "`/1` is to be guaranteed 70 % of the machine at 10000.000 ms: the guarantees would add up to 150 %"
        ),
        "{sum}"
    );
    let mut elsewhere = regulated([20, 80], &[(1, 10)]);
    for group in &mut elsewhere.groups {
        group.guarantee = None;
    }
    let other = refused(&elsewhere, "6.12");
    assert!(other.contains("group `/1` has a guarantee, but Linux 6.12 lacks guarantees"), "{other}");
}

/// Without hungry classes nothing is scaled: slices are 100 ms.
#[test]
fn satisfied_classes_keep_their_slices() {
    let quiet = classes(&[20, 20], hogs(1, 1).chain(hogs(1, 2)).collect());
    let shares = shares_after(5 * S, &quiet, &for_ms(KERNEL, "1", 1000, 15_000));
    assert!((98..=102).contains(&shares.switches), "{}", shares.switches);
}

#[test]
fn hungry_detection_lets_sleepers_sleep() {
    let sleeper = forever("sleeper", vec![Op::Run { work: 2 * MS }, Op::Sleep { time: 30 * MS }]);
    let tasks = [(sleeper, 1)].into_iter().chain(hogs(1, 2)).chain(hogs(1, 3));
    let workload = classes(&[50, 25, 25], tasks.collect());
    let config = || for_ms(KERNEL, "1", 1000, 30_000);
    let slices = |config: &Config| {
        let turns = turns(&workload, config);
        let hog = turns.of[&TaskId(1)].len().max(1) as u64;
        turns.cpu_time(1, 0) / hog
    };
    // It interrupts each slice of 100 ms a few times.
    let (with, without) = (slices(&config()), slices(&switched("NO_CPU_RC_HUNGRY", config())));
    assert!(with > 20 * MS, "{with}");
    assert!(without < 5 * MS, "{without}");
}

/// Four to one in guarantees, one to one in tasks.
#[test]
fn timeslice_scaling_makes_shares() {
    let workload = classes(&[80, 20], hogs(1, 1).chain(hogs(1, 2)).collect());
    let config = || for_ms(KERNEL, "1", 1000, 30_000);
    let share = |config: &Config| shares_after(5 * S, &workload, config).percent(1);
    let (with, without) =
        (share(&config()), share(&switched("NO_CPU_RC_REQUEUE", switched("NO_CPU_RC_SCALING", config()))));
    assert!((78.0..=82.0).contains(&with), "{with}");
    assert!((48.0..=52.0).contains(&without), "{without}");
}

/// One task against forty: with slices of a tick, the forty still have more than a quarter.
#[test]
fn task_requeueing_helps_few_against_many() {
    let workload = classes(&[80, 20], hogs(1, 1).chain(hogs(40, 2)).collect());
    let config = || for_ms(KERNEL, "1", 1000, 60_000);
    let share = |config: &Config| shares_after(10 * S, &workload, config).percent(1);
    let (with, without) = (share(&config()), share(&switched("NO_CPU_RC_REQUEUE", config())));
    assert!((78.0..=82.0).contains(&with), "{with}");
    assert!(without < 75.0, "{without}");
}

/// Returns each class's guarantee and share, percent of the machine, from 5 s to 25 s, for (weight, tasks on every
/// CPU).
fn guaranteed_and_had(mix: &[(u32, usize)], cpus: u32) -> Vec<(u32, f64)> {
    let sum: u32 = mix.iter().map(|(weight, _)| weight).sum();
    let guarantees: Vec<u32> = mix.iter().map(|(weight, _)| weight * 100 / sum).collect();
    let mut tasks = Vec::new();
    for (index, &(_, count)) in mix.iter().enumerate() {
        for cpu in 0..cpus {
            tasks.extend(hogs(count, index + 1).map(|(task, group)| (pinned(task, &[cpu]), group)));
        }
    }
    let workload = classes(&guarantees, tasks);
    let shares = shares_after(5 * S, &workload, &for_ms(KERNEL, &cpus.to_string(), 1000, 25_000));
    let had = (1..).map(|class| shares.percent(class) / f64::from(cpus));
    guarantees.into_iter().zip(had).collect()
}

/// The allowed misses of a guarantee, by more than 2 points, in 100 random mixes. Of 12,000 six missed (docs/cpurc.md),
/// so three or more of 100 have a chance of 2 in 100,000.
const SHORT: usize = 2;

/// Hogs have their guarantee to 2 points, 5 s after the start, in all but a few mixes.
///
/// A class can lack time between two recalculations. It gets help after it was hungry at three in a row, or at one if
/// it starved shortly before. Its load averages two intervals, so it makes up for only a part. An estimate of the
/// worst turn: three intervals of its guarantee, three of nothing, and one of 1.875 times its guarantee, together
/// 4.875 of 7. In 40 intervals, six such turns lack 12.75. The bound of a third is that estimate, not a proof.
#[test]
fn guarantees_are_met() {
    let rng_seed = RngSeed::Fixed(any_seed());
    let mut runner =
        TestRunner::new(ProptestConfig { rng_seed, failure_persistence: None, ..ProptestConfig::default() });
    let mixes = (prop::collection::vec((1u32..=60, 1usize..12), 2..5), 1u32..3);
    let mut short = Vec::new();
    for _ in 0..100 {
        let (mix, cpus) = mixes.new_tree(&mut runner).unwrap().current();
        let shares = guaranteed_and_had(&mix, cpus);
        let lacks = |points: &dyn Fn(f64) -> f64| {
            shares.iter().any(|&(guarantee, had)| had < f64::from(guarantee) - points(f64::from(guarantee)))
        };
        assert!(!lacks(&|guarantee| (guarantee / 3.0).max(2.0)), "{cpus} CPUs, {mix:?}: {shares:?}");
        if lacks(&|_| 2.0) {
            short.push((cpus, mix, shares));
        }
    }
    assert!(short.len() <= SHORT, "{} of 100 mixes are short, {SHORT} at most: {short:#?}", short.len());
}

#[test]
fn what_is_no_class_is_refused() {
    let ask = |kernel: &str, change: &dyn Fn(&mut Workload)| {
        let mut asked = classes(&[30], vec![(hog("a"), 1)]);
        change(&mut asked);
        simulate(&asked, &for_ms(kernel, "1", 250, 100), &mut Turns::default()).unwrap_err().to_string()
    };
    let of_2_6_24 = "which Linux 2.6.15-cpurc lacks: 2.6.24 introduced it";
    let weighed = ask(KERNEL, &|asked| asked.groups[1].weight = 20);
    assert!(weighed.contains("group `/1` asks for a weight (cpu.weight)") && weighed.contains(of_2_6_24), "{weighed}");
    let limit = Some(Bandwidth { quota: MS, period: 10 * MS, burst: 0 });
    assert!(ask(KERNEL, &|asked| asked.groups[1].max = limit).contains("a CPU limit (cpu.max)"));
    assert!(ask(KERNEL, &|asked| asked.groups[1].idle = true).contains("5.15 introduced it"));
    let inside = Group { path: "/1/x".to_owned(), parent: Some(1), ..Group::default() };
    assert!(ask(KERNEL, &|asked| asked.groups.push(inside.clone())).contains("has one level of groups"));
    let too_much = ask(KERNEL, &|asked| asked.groups.push(class("/2", 80)));
    assert!(too_much.contains("group `/2`") && too_much.contains("add up to 110 %"), "{too_much}");
    for kernel in ["2.6.24", "6.12"].into_iter().filter(|name| vruntime_sched::kernel(name).is_ok()) {
        assert!(ask(kernel, &|_| {}).contains("has a guarantee, but Linux"));
    }
    assert!(ask("2.6.22", &|_| {}).contains("a task group"));
}
