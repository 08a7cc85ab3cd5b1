//! Snapshots of the scheduler in the middle of a run.

mod support;

use support::*;
use vruntime_sched::debug::{CfsDebug, Names, Snapshot, TaskDebug};
use vruntime_sched::event::{BalanceKind, Event};
use vruntime_sched::ids::GroupId;
use vruntime_sim::Config;
use vruntime_trace::NoSink;
use vruntime_workload::program::*;

fn at(workload: &Workload, kernel: &str, ms: u64) -> Snapshot {
    let config = Config { duration: Some(10_000 * MS), debug_at: Some(ms * MS), ..exact(kernel, "1") };
    simulate(workload, &config, &mut NoSink).unwrap().debug.unwrap()
}

fn on_two_cpus(workload: &Workload, kernel: &str, ms: u64) -> Vec<TaskDebug> {
    let config = Config { duration: Some(10_000 * MS), debug_at: Some(ms * MS), ..exact(kernel, "2") };
    let snapshot = simulate(workload, &config, &mut NoSink).unwrap().debug.unwrap();
    let mut tasks: Vec<TaskDebug> = snapshot.cpus.into_iter().flat_map(|cpu| cpu.tasks).collect();
    tasks.sort_unstable_by_key(|task| task.id);
    tasks
}

fn forever(name: &str, policy: Option<Policy>, ops: Vec<Op>) -> Task {
    let mut task = task(name, vec![phase(ops, Repeat::Forever)]);
    task.settings.policy = policy;
    task
}

fn of(snapshot: &Snapshot, index: usize) -> &TaskDebug {
    &snapshot.cpus[0].tasks[index]
}

#[test]
fn tasks_of_every_class_have_their_cpu_time() {
    let dl =
        Policy::Deadline { runtime: 20 * MS, deadline: 100 * MS, period: 100 * MS, reclaim: false, overrun: false };
    let some = || vec![Op::Run { work: 10 * MS }, Op::Sleep { time: 90 * MS }];
    let mut changes = task("changes", vec![phase(vec![Op::Run { work: 30 * MS }], Repeat::Times(1)); 2]);
    let urgent = Settings { policy: Some(Policy::Fifo { priority: 5 }), ..Settings::default() };
    changes.phases = vec![changes.phases[0].clone(), Phase { settings: urgent, ..changes.phases[1].clone() }].into();
    changes.phases =
        [&changes.phases[..], &[phase(vec![Op::Sleep { time: 10_000 * MS }], Repeat::Times(1))]].concat().into();
    for kernel in ["2.6.22", "3.18", "6.1", "6.6", "6.12", "6.18", "7.1"] {
        let fifo = forever("fifo", Some(Policy::Fifo { priority: 10 }), some());
        let mut tasks = vec![changes.clone(), fifo];
        if kernel != "2.6.22" {
            tasks.push(forever("dl", Some(dl), some()));
        }
        let snapshot = at(&workload(tasks), kernel, 950);
        let ran = |index: usize| of(&snapshot, index).se.unwrap();
        // Ten rounds have begun at 0, 100, ... ms, and are done.
        assert_eq!(ran(1).sum_exec_runtime / MS, 100, "{kernel}");
        assert!(ran(1).exec_start > 890 * MS, "{kernel}: {:?}", ran(1));
        assert!(kernel == "2.6.22" || ran(0).sum_exec_runtime / MS == 60, "{kernel}: {:?}", ran(0));
        if kernel != "2.6.22" {
            assert_eq!(ran(2).sum_exec_runtime / MS, 100, "{kernel}");
            // It has half of its runtime left, and the period that began with its last job.
            let (left, deadline) = of(&snapshot, 2).dl.unwrap();
            assert_eq!(left / 1_000_000, 10, "{kernel}");
            assert!((950 * MS..=1_100 * MS).contains(&deadline), "{kernel}: {deadline}");
        }
        assert_eq!(of(&snapshot, 1).dl, None);
    }
}

/// Virtual times have one origin: no queued task is behind the queue's, and the average is between first and last.
#[test]
fn virtual_times_can_be_compared() {
    let hogs = (0..3).map(|n| forever(&format!("hog{n}"), None, vec![Op::Run { work: MS }]));
    let hogs = workload(hogs.collect());
    for kernel in ["3.10", "6.1", "6.6", "6.12", "6.18", "7.1"] {
        let snapshot = at(&hogs, kernel, 5_000);
        let queue = &snapshot.cpus[0].cfs[0];
        let vruntimes: Vec<i64> = snapshot.cpus[0].tasks.iter().map(|task| task.se.unwrap().vruntime).collect();
        let (first, last) = (*vruntimes.iter().min().unwrap(), *vruntimes.iter().max().unwrap());
        assert!(queue.min_vruntime <= first && queue.min_vruntime > first - 20 * MS as i64, "{kernel}");
        let between = first..=last;
        assert!(matches!(snapshot.names, Names::V3 | Names::V6_1) || between.contains(&queue.avg_vruntime), "{kernel}");
    }
}

#[test]
fn throttled_groups_are_seen() {
    let group = |path: &str, parent| Group { path: path.to_owned(), parent, ..Group::default() };
    let mut limited = workload(vec![forever("hog", None, vec![Op::Run { work: MS }])]);
    let mut outer = group("/a", Some(0));
    outer.max = Some(Bandwidth { quota: 20 * MS, period: 100 * MS, burst: 0 });
    limited.groups.extend([outer, group("/a/b", Some(1))]);
    limited.tasks[0].settings.group = Some(2);
    for kernel in ["3.10", "6.1", "6.6", "6.12", "6.18", "7.1"] {
        let seen = |ms: u64| {
            let snapshot = at(&limited, kernel, ms);
            let queues = snapshot.cpus[0].cfs.iter();
            queues.map(|cfs| (cfs.throttled, cfs.throttle_count)).collect::<Vec<_>>()
        };
        // The start of a group's periods differs between kernels.
        let (free, held) = ([(false, 0); 3], [(false, 0), (true, 1), (false, 1)]);
        let states: Vec<_> = (0..10).map(|n| seen(300 + 13 * n)).collect();
        assert!(states.iter().all(|state| *state == free || *state == held), "{kernel}: {states:?}");
        assert!(states.iter().any(|state| *state == free) && states.iter().any(|state| *state == held), "{kernel}");
    }
}

/// Balancers count the tasks that they could not move, by reason.
#[test]
fn what_is_not_moved_is_counted() {
    let hog = |n: usize| forever(&format!("hog{n}"), None, vec![Op::Run { work: MS }]);
    for kernel in ["2.6.22", "2.6.23", "3.18", "6.1", "6.6", "6.12", "6.18"] {
        // Three pinned to CPU 0, and one free.
        let tasks = (0..4).map(|n| if n < 3 { pinned(hog(n), &[0]) } else { hog(n) }).collect();
        let tasks = on_two_cpus(&workload(tasks), kernel, 2_000);
        for task in &tasks[..3] {
            assert!(task.migrations.affine > 0 && task.migrations.running == 0, "{kernel}: {task:?}");
        }
        assert_eq!(tasks[3].migrations.affine, 0, "{kernel}");
        // Three that share two CPUs: the examined task may be running.
        let tasks = on_two_cpus(&workload((0..3).map(hog).collect()), kernel, 4_000);
        let sum = |count: fn(&TaskDebug) -> u32| tasks.iter().map(count).sum::<u32>();
        // The early kernels leave three on two CPUs in place.
        let early = kernel.starts_with("2.6");
        assert!(early || sum(|task| task.migrations.running) > 0, "{kernel}: {tasks:?}");
        assert_eq!(sum(|task| task.migrations.affine), 0, "{kernel}");
    }
}

/// Tasks in `/a`, the first of which moves to `/b` at `at` ms.
fn moved(tasks: Vec<Task>, at: u64) -> Workload {
    let group = |path: &str| Group { path: path.to_owned(), parent: Some(0), ..Group::default() };
    let mut all = workload(tasks);
    all.groups.extend([group("/a"), group("/b")]);
    all.tasks.iter_mut().for_each(|task| task.settings.group = Some(1));
    let settings = Settings { group: Some(2), ..Settings::default() };
    all.changes = vec![Change { at: at * MS, what: Changed::Tasks { tasks: vec![0], settings, nice: None } }];
    all
}

fn at_group(snapshot: &Snapshot, group: u32) -> Option<&CfsDebug> {
    snapshot.cpus[0].cfs.iter().find(|cfs| cfs.group == GroupId(group))
}

/// A moved sleeper takes its averages along at once (`task_change_group_fair`), and they continue to decay.
#[test]
fn what_a_sleeper_has_used_is_in_its_new_group_at_once() {
    let task = || forever("t", None, vec![Op::Run { work: 500 * MS }, Op::Sleep { time: 1000 * MS }]);
    for kernel in ["3.10", "3.18", "6.1", "6.6", "6.12", "6.18", "7.1"] {
        let moved = moved(vec![task()], 510);
        let used = |ms: u64, group: u32| at_group(&at(&moved, kernel, ms), group).map_or(0, |cfs| cfs.avg.util_avg);
        assert!(used(509, 1) > 700 && used(509, 2) == 0, "{kernel}");
        assert!(used(511, 1) <= 1 && used(511, 2) > 700, "{kernel}: {} {}", used(511, 1), used(511, 2));
        // Awake since 1500 ms, it has slept for thirty half-lives.
        let woken = at(&moved, kernel, 1501);
        assert!(of(&woken, 0).se.unwrap().avg.util_avg < 50, "{kernel}: {:?}", of(&woken, 0));
    }
}

/// Under CFS a sleeper's vruntime moves to the new group's, with a wakeup's credit at that time. The credit is half a
/// latency period (4.4+; before, all of its sleep).
#[test]
fn a_sleeper_takes_its_place_in_another_groups_virtual_time() {
    let sleeper = forever("t", None, vec![Op::Run { work: 10 * MS }, Op::Sleep { time: 1000 * MS }]);
    let moved = moved(vec![sleeper, forever("hog", None, vec![Op::Run { work: MS }])], 510);
    let credit = |kernel: &str| {
        let snapshot = at(&moved, kernel, 600);
        let queue = at_group(&snapshot, 2).unwrap();
        queue.min_vruntime - of(&snapshot, 0).se.unwrap().vruntime
    };
    assert_eq!(credit("6.1"), 3 * MS as i64);
    for kernel in ["3.10", "3.18"] {
        assert!((470 * MS as i64..500 * MS as i64).contains(&credit(kernel)), "{kernel}: {}", credit(kernel));
    }
}

/// A saturated slow CPU would have no idle time at full speed either. When it becomes idle its averages do not decay
/// for its clock's lag (`lost_idle_time`).
#[test]
fn a_saturated_slow_cpu_has_no_idle_time_to_catch_up() {
    let works =
        |ms: u64| workload(vec![forever("t", None, vec![Op::Run { work: ms * MS }, Op::Sleep { time: 2 * MS }])]);
    // 500 ms of work take a CPU of 512 a second; then it sleeps. With 5 ms in 10 and then sleep, the average is that
    // of such a task.
    let util = |ms: u64, at: u64| {
        let config =
            Config { duration: Some(2_000 * MS), debug_at: Some(at * MS), ..exact("6.12", "core:1(capacity=512)") };
        let snapshot = simulate(&works(ms), &config, &mut NoSink).unwrap().debug.unwrap();
        snapshot.cpus[0].cfs[0].avg.util_avg
    };
    assert!(util(500, 1_004) > 950, "{}", util(500, 1_004));
    assert!((300..900).contains(&util(5, 1_000)), "{}", util(5, 1_000));
}

/// The kernel compares the lower 32 bits of load sums. When one of 110 hogs changes its weight in its first half
/// second, the queue loses the rest for a while.
#[test]
fn a_great_load_is_cut_when_a_weight_changes() {
    let least = |nice: i8| {
        let hog = |name: String| forever(&name, None, vec![Op::Run { work: MS }]);
        let mut whole = workload((0..110).map(|n| hog(format!("h{n}"))).collect());
        let mut reniced = phase(vec![Op::Run { work: MS }], Repeat::Forever);
        reniced.settings.policy = Some(Policy::Other { nice, slice: None });
        whole.tasks[0] = task("h0", vec![phase(vec![Op::Run { work: MS }], Repeat::Times(1)), reniced]);
        let load = |ms: u64| {
            let config = Config { duration: Some(520 * MS), debug_at: Some(ms * MS), ..exact("6.12", "1") };
            simulate(&whole, &config, &mut NoSink).unwrap().debug.unwrap().cpus[0].cfs[0].avg.load_avg
        };
        (1..=50).map(|step| load(10 * step)).min().unwrap()
    };
    assert!(least(0) > 100_000, "{}", least(0));
    assert!(least(1) < 50_000, "{}", least(1));
}

/// Every balance attempt counts (`lb_count`), also in balance or while another CPU must balance (`lb_balanced`). Six
/// hogs on two busy CPUs have one each 64 ms.
#[test]
fn looks_that_find_everything_balanced_count() {
    let hogs = workload((0..6).map(|n| forever(&format!("h{n}"), None, vec![Op::Run { work: MS }])).collect());
    for kernel in ["6.1", "6.12", "6.18", "7.1"] {
        let config = Config { duration: Some(4_000 * MS), ..exact(kernel, "2") };
        let mut log = Log::default();
        simulate(&hogs, &config, &mut log).unwrap();
        let looks = log.pick(|at, event| match event {
            Event::Balance { kind: BalanceKind::Busy, busiest, .. } if at > 1_000 * MS => Some(busiest),
            _ => None,
        });
        assert!((60..130).contains(&looks.len()), "{kernel}: {}", looks.len());
        assert!(looks.iter().filter(|busiest| busiest.is_none()).count() > looks.len() / 2, "{kernel}: {looks:?}");
    }
}

/// `out_all_pinned`: an attempt that finds only pinned tasks counts as balanced (`lb_balanced`). Its CPU then
/// balances less often, at least each 512 ms, or (here: 3.10+) a tenth of a second per CPU.
#[test]
fn looks_at_tasks_that_are_pinned_elsewhere_count_as_balanced() {
    let hogs =
        workload((0..3).map(|n| pinned(forever(&format!("h{n}"), None, vec![Op::Run { work: MS }]), &[0])).collect());
    for kernel in ["2.6.22", "3.18", "6.1", "6.12", "6.18", "7.1"] {
        let config = Config { duration: Some(10_000 * MS), ..exact(kernel, "2") };
        let mut log = Log::default();
        simulate(&hogs, &config, &mut log).unwrap();
        let looks = log.pick(|at, event| match event {
            Event::Balance { kind: BalanceKind::Idle, busiest: Some(_), pulled: 0, balanced, .. }
                if at > 4_000 * MS =>
            {
                Some((at, balanced))
            }
            _ => None,
        });
        assert!(looks.len() > 5 && looks.iter().all(|(_, balanced)| *balanced), "{kernel}: {looks:?}");
        let apart: Vec<u64> = looks.windows(2).map(|pair| (pair[1].0 - pair[0].0).div_ceil(MS)).collect();
        let longest = if kernel == "2.6.22" { 512 } else { 200 };
        assert!(apart.iter().all(|apart| *apart == longest), "{kernel}: {apart:?}");
    }
}
