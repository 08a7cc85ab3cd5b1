//! CPUs that go offline and online: moves, and refusals.

mod support;

use support::*;
use vruntime_sched::event::{Event, MigrateCause};
use vruntime_sched::ids::CpuId;
use vruntime_sim::{Config, Costs, Error, MachineSpec, parse_topology};
use vruntime_workload::program::*;

fn config(topology: &str) -> Config {
    let mut spec = MachineSpec::new(parse_topology(topology).unwrap());
    spec.costs = Costs::profile("zero").unwrap();
    Config { duration: Some(300 * MS), ..Config::new(vruntime_sched::kernel("6.12").unwrap(), spec) }
}

fn hog(name: &str, cpus: Option<Vec<u32>>) -> Task {
    let settings = Settings { cpus, ..Settings::default() };
    Task { settings, ..Task::new(name, [Phase::forever([Op::Run { work: MS }])]) }
}

fn plugged(tasks: Vec<Task>, hotplug: &[(u64, u32, bool)]) -> Workload {
    let hotplug = hotplug.iter().map(|&(ms, cpu, online)| Hotplug { at: ms * MS, cpu, online }).collect();
    Workload { hotplug, ..workload(tasks) }
}

fn runs(log: &Log, cpu: u32) -> Vec<u64> {
    let cpu = CpuId(cpu);
    log.events
        .iter()
        .filter(|(_, on, event)| *on == cpu && matches!(event, Event::Switch { next, .. } if next.task().is_some()))
        .map(|(at, ..)| at / MS)
        .collect()
}

#[test]
fn the_stopper_moves_the_running_task_and_the_returning_cpu_pulls_one() {
    let tasks = ["a", "b", "c", "d"].map(|name| hog(name, None)).to_vec();
    let mut log = Log::default();
    // Between two ticks, so that the waiting task is no longer cache-hot (`sched_migration_cost_ns`).
    let mut config = config("core:4");
    // Otherwise chance decides whether it looks for work.
    config.kernel.feature("NO_NI_RANDOM").unwrap();
    let outcome = simulate(&plugged(tasks, &[(102, 1, false), (202, 1, true)]), &config, &mut log).unwrap();
    let moved = log.pick(|at, event| match event {
        Event::Migrate { from, cause: MigrateCause::Hotplug, .. } => Some((at / MS, from)),
        _ => None,
    });
    assert_eq!(moved, [(102, CpuId(1))]);
    let on = runs(&log, 1);
    assert!(on.iter().all(|&ms| ms <= 102 || ms >= 202), "no task runs on an offline CPU: {on:?}");
    assert_eq!(on.iter().filter(|&&ms| ms == 202).count(), 1, "back again it takes a task at once: {on:?}");
    assert_eq!(outcome.cpus[1].idle / MS, 100);
    assert_eq!(outcome.notes, Vec::<String>::new());
}

#[test]
fn a_task_whose_cpus_are_all_offline_runs_anywhere_and_is_named() {
    let tasks = vec![hog("pinned", Some(vec![1])), hog("free", None)];
    let mut log = Log::default();
    let outcome = simulate(&plugged(tasks, &[(100, 1, false)]), &config("core:2"), &mut log).unwrap();
    let pinned = log.of("pinned");
    let lost = log.pick(|at, event| (event == Event::AffinityLost { task: pinned }).then_some(at / MS));
    assert_eq!(lost, [100]);
    assert_eq!(outcome.notes.len(), 1, "{:?}", outcome.notes);
    assert!(outcome.notes[0].starts_with("task `pinned` was to run on CPUs that were all offline"));
    assert_eq!(outcome.cpus[0].busy, 300 * MS);
}

#[test]
fn a_task_on_its_way_to_a_cpu_that_goes_offline_stays_where_it_is() {
    let mut workload = plugged(vec![hog("moving", None)], &[(100, 1, false)]);
    let settings = Settings { cpus: Some(vec![1]), ..Settings::default() };
    // The stopper that has to move it finds the CPU offline.
    workload.changes = vec![Change { at: 100 * MS, what: Changed::Tasks { tasks: vec![0], settings, nice: None } }];
    let mut log = Log::default();
    let outcome = simulate(&workload, &config("core:2"), &mut log).unwrap();
    let moving = log.of("moving");
    let lost = log.pick(|at, event| (event == Event::AffinityLost { task: moving }).then_some(at / MS));
    assert_eq!((lost, outcome.cpus[0].busy), (vec![100], 300 * MS));
    assert!(outcome.notes[0].starts_with("task `moving` was to run on CPUs that were all offline"));
}

#[test]
fn a_task_that_asks_for_offline_cpus_is_refused() {
    let mut asks = hog("asks", None);
    let later = Settings { cpus: Some(vec![1]), ..Settings::default() };
    let first = Phase { repeat: Repeat::Times(150), ..asks.phases[0].clone() };
    let second = Phase { settings: later, ..asks.phases[0].clone() };
    asks.phases = [first, second].into();
    let mut log = Log::default();
    let outcome = simulate(&plugged(vec![asks], &[(100, 1, false)]), &config("core:2"), &mut log).unwrap();
    assert_eq!(outcome.cpus[0].busy + outcome.cpus[1].busy, 300 * MS);
    assert!(outcome.notes[0].starts_with("task `asks` asked only for offline CPUs"), "{:?}", outcome.notes);
}

#[test]
fn impossible_hotplug_is_refused_before_the_run() {
    let refused = |hotplug: &[(u64, u32, bool)]| {
        let workload = plugged(vec![hog("a", None)], hotplug);
        match simulate(&workload, &config("core:2"), &mut Log::default()) {
            Err(error @ (Error::Hotplug { .. } | Error::HotplugOrder { .. })) => {
                format!("{error}; {}", error.help().unwrap_or_default())
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(refused(&[(1, 2, false)]).contains("there is no CPU 2; the machine has CPUs 0 to 1"));
    assert!(refused(&[(1, 0, false), (2, 1, false)]).contains("CPU 1 cannot go offline: it is the last online CPU"));
    assert!(refused(&[(1, 1, true)]).contains("CPU 1 is online already"));
    assert!(refused(&[(1, 1, false), (2, 1, false)]).contains("CPU 1 is offline already"));
    assert!(refused(&[(2, 1, false), (1, 1, true)]).contains("sort the list by time"));
}

#[test]
fn a_cpu_that_deadline_tasks_need_stays() {
    let promised = |name: &str| {
        let mut task = hog(name, None);
        let policy =
            Policy::Deadline { runtime: 5 * MS, deadline: 10 * MS, period: 10 * MS, reclaim: false, overrun: false };
        task.settings.policy = Some(policy);
        task
    };
    let tasks = vec![promised("a"), promised("b"), promised("c")];
    let mut log = Log::default();
    let plugs = [(100, 1, false), (150, 1, true), (160, 2, false)];
    let outcome = simulate(&plugged(tasks, &plugs), &config("core:3"), &mut log).unwrap();
    // 1.5 CPUs fit on two, with 0.1 for their fair servers, and not on one.
    let plugged = log.pick(|at, event| match event {
        Event::CpuDown => Some((at / MS, false)),
        Event::CpuUp => Some((at / MS, true)),
        _ => None,
    });
    assert_eq!(plugged, [(100, false), (150, true), (160, false)]);
    assert_eq!(outcome.notes, Vec::<String>::new());
    let plugs = [(100, 1, false), (150, 2, false), (200, 2, true), (250, 1, true)];
    let tasks = vec![promised("a"), promised("b"), promised("c")];
    let mut log = Log::default();
    let outcome = simulate(&self::plugged(tasks, &plugs), &config("core:3"), &mut log).unwrap();
    let plugged = log.pick(|at, event| matches!(event, Event::CpuDown | Event::CpuUp).then_some(at / MS));
    assert_eq!(plugged, [100, 250]);
    assert_eq!(
        outcome.notes,
        [
            "hotplug at 150 ms is refused, as in Linux: CPU 2 cannot go offline (EBUSY): SCHED_DEADLINE tasks (and fair servers) have reserved \
            1.550 CPUs, and 0.950 would remain; first end tasks or lower their runtimes"
        ]
    );
}

#[test]
fn a_throttled_group_leaves_too() {
    for kernel in ["6.1", "6.6", "6.12", "6.18", "7.1"] {
        let mut config = config("core:2");
        config.kernel = vruntime_sched::kernel(kernel).unwrap().clone();
        let max = Some(Bandwidth { quota: 10 * MS, period: 100 * MS, burst: 0 });
        let group = |path: &str, parent, max| Group { path: path.to_owned(), parent, max, ..Group::default() };
        let tasks = ["a", "b"].map(|name| {
            let mut task = hog(name, None);
            task.settings.group = Some(1);
            task
        });
        // Long after both have used up the runtime.
        let plugs = [(50, 1, false), (350, 1, true)];
        let groups = vec![group("/", None, None), group("/limited", Some(0), max)];
        let workload = Workload { groups, ..plugged(tasks.to_vec(), &plugs) };
        let mut log = Log::default();
        let config = Config { duration: Some(700 * MS), ..config };
        let outcome = simulate(&workload, &config, &mut log).unwrap();
        let moved = log.pick(|at, event| match event {
            Event::Migrate { from: CpuId(1), cause: MigrateCause::Hotplug, .. } => Some(at / MS),
            _ => None,
        });
        assert_eq!(moved, [50], "{kernel}");
        let used = outcome.cpus[0].busy + outcome.cpus[1].busy;
        // Seven periods, and at most a tick more for each CPU and period.
        assert!((65 * MS..=70 * MS + 7 * 2 * 4 * MS).contains(&used), "{kernel}: {used}");
        assert!(runs(&log, 1).iter().all(|ms| !(50..350).contains(ms)), "{kernel}");
    }
}

/// CPU time of this thread in nanoseconds, which other programs of the machine do not prolong.
#[cfg(target_os = "linux")]
fn own_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap()
}

/// A CPU with eight times the tasks needs about eight times as long to go offline, not 64 times as long. The same holds
/// for an affinity that moves its tasks one by one.
#[test]
#[ignore = "compares CPU times, which other load on the machine changes"]
#[cfg(target_os = "linux")]
fn moving_all_tasks_of_a_cpu_takes_a_time_in_proportion() {
    let [offline, affinity] = [true, false].map(|hotplug| {
        let cost = |tasks: usize| {
            let mut load: Vec<Task> = (0..tasks).map(|index| hog(&format!("t{index}"), None)).collect();
            for task in &mut load {
                task.settings.cpus = (!hotplug).then(|| vec![1]);
            }
            let mut load = plugged(load, if hotplug { &[(50, 1, false)] } else { &[] });
            if !hotplug {
                let settings = Settings { cpus: Some(vec![0]), ..Settings::default() };
                let what = Changed::Tasks { tasks: (0..tasks).collect(), settings, nice: None };
                load.changes = vec![Change { at: 50 * MS, what }];
            }
            let config = Config { duration: Some(51 * MS), ..config("core:2") };
            let (mut log, mut longest, mut last) = (Log::default(), 0, own_cpu_ns());
            let mut watch = |progress: vruntime_sim::Progress| {
                let now = own_cpu_ns();
                // The start of all tasks is no matter here.
                longest = if progress.now < 50 * MS { 0 } else { longest.max(now - last) };
                last = now;
                std::ops::ControlFlow::Continue(())
            };
            vruntime_sim::run_dyn(&load, &config, &mut log, &mut watch).unwrap();
            let moved = log.pick(|_, event| matches!(event, Event::Migrate { from: CpuId(1), .. }).then_some(()));
            assert!(moved.len() * 3 > tasks, "{} of {tasks}", moved.len());
            longest
        };
        // The least of two: caches and interrupts only add.
        let [few, many] = [8_000, 64_000].map(|tasks| (0..2).map(|_| cost(tasks)).min().unwrap());
        // The kernel counts at its ticks.
        many as f64 / few.max(4 * MS) as f64
    });
    assert!(offline < 32.0 && affinity < 32.0, "eight times the tasks: {offline:.1} and {affinity:.1} times the time");
}
