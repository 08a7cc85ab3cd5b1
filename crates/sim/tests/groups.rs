//! Groups of the fair class.

mod support;

use support::*;
use vruntime_sched::event::{Event, Running};
use vruntime_sim::Config;
use vruntime_workload::program::*;

fn groups(max: Option<Bandwidth>) -> Vec<Group> {
    let group = |path: &str| Group { path: path.to_owned(), parent: Some(0), max, ..Group::default() };
    vec![Group { path: "/".to_owned(), ..Group::default() }, group("/a"), group("/b")]
}

fn of_group(mut task: Task, group: usize) -> Task {
    task.settings.group = Some(group);
    task
}

/// Returns when the task of `/b` got a CPU, ns since `start`: alone on CPU 0 beside four of `/a` on four CPUs.
fn turns_of_b(kernel: &str, start: u64) -> Vec<u64> {
    let hog = |name: &str| starting(once(name, vec![Op::Run { work: 1000 * MS }]), start);
    let mut tasks = vec![of_group(hog("a"), 1); 4];
    tasks.push(of_group(pinned(hog("b"), &[0]), 2));
    let workload = Workload { groups: groups(None), ..workload(tasks) };
    let mut log = Log::default();
    simulate(&workload, &Config { duration: Some(start + 40 * MS), ..exact(kernel, "4") }, &mut log).unwrap();
    let b = log.of("b");
    let turn = |at, event| match event {
        Event::Switch { next: Running::Task(task), .. } if task == b => Some(at - start),
        _ => None,
    };
    log.pick(turn)
}

/// 6.7+: a group's load reaches other CPUs once in a millisecond; a new group's at once, even in the first
/// millisecond.
#[test]
fn the_first_millisecond_is_as_any_other() {
    for kernel in ["6.1", "6.12", "6.18"] {
        assert_eq!(turns_of_b(kernel, 0), turns_of_b(kernel, 100 * MS), "{kernel}");
    }
}

/// Returns the time of a request of 30 ms in a group with 20 of 100 ms.
fn request(kernel: &str, period: u64, seed: u64) -> u64 {
    let max = Bandwidth { quota: period / 5, period, burst: 0 };
    let task = of_group(once("request", vec![Op::Run { work: period * 3 / 10 }]), 1);
    let workload = Workload { groups: groups(Some(max)), ..workload(vec![task]) };
    let mut log = Log::default();
    simulate(&workload, &Config { seed, ..exact(kernel, "1") }, &mut log).unwrap();
    log.exit("request").unwrap()
}

/// Periods begin with the machine or the group, not the workload. The first one's rest decides how long a request
/// waits.
#[test]
fn a_request_arrives_at_any_moment_of_a_period() {
    for (kernel, period) in [("3.10", 100 * MS), ("6.1", 100 * MS), ("6.12", 100 * MS), ("6.18", 100 * MS)] {
        let mut times: Vec<u64> = (1..=40).map(|seed| request(kernel, period, seed) * 100 / period).collect();
        times.sort_unstable();
        // Percents of a period: seven tenths of all wait, up to eight tenths of a period, each as likely.
        assert!(times[0] < 36 && times[39] > 95 && times[39] < 125, "{kernel}: {times:?}");
        assert!((48..92).contains(&times[20]), "{kernel}: {times:?}");
    }
    // Without a seed they begin with the run up to 6.3, and the wait is the longest.
    assert!(request("6.1", 100 * MS, 0) > 106 * MS);
}

/// Returns the events of 20 ms on two CPUs. A task of a group with 10 ms of each 100 uses up its CPU's part exactly at
/// its sleep, after 5 ms. Two others of the group, and `beside`, may leave the other CPU by then.
fn around_a_sleep(kernel: &str, beside: &[&str]) -> Vec<String> {
    let max = Bandwidth { quota: 10 * MS, period: 100 * MS, burst: 0 };
    let sleeps = once("sleeps", vec![Op::Run { work: 5 * MS }, Op::Sleep { time: 500 * MS }]);
    let there = |name: &str| pinned(once(name, vec![Op::Run { work: 50 * MS }]), &[1]);
    let mut tasks = vec![of_group(pinned(sleeps, &[0]), 1)];
    // The order of forks decides which of two has the CPU then.
    tasks.extend(["one"; 2].map(|name| of_group(there(name), 1)));
    tasks.extend(beside.iter().map(|name| there(name)));
    let settings = Settings { cpus: Some(vec![0, 1]), ..Settings::default() };
    let what = Changed::Tasks { tasks: (1..tasks.len()).collect(), settings, nice: None };
    let changes = vec![Change { at: 4 * MS + MS / 2, what }];
    let workload = Workload { groups: groups(Some(max)), changes, ..workload(tasks) };
    let mut log = Log::default();
    simulate(&workload, &Config { duration: Some(20 * MS), ..exact(kernel, "2") }, &mut log).unwrap();
    log.pick(|at, event| match event {
        Event::Migrate { task, from, to, cause, .. } => {
            let name = &log.names[task.index()];
            Some(format!("{at}: {name} from {} to {}, {cause:?}", from.0, to.0))
        }
        Event::Throttle { .. } => Some(format!("{at}: throttled")),
        _ => None,
    })
}

/// The CPU looks for work before it throttles the group: another of the group's tasks moves there, and waits for the
/// next period.
#[test]
fn a_newly_idle_cpu_looks_for_work_before_it_throttles() {
    for kernel in ["3.10", "3.18", "6.1", "6.6", "6.12", "6.18", "7.1"] {
        let events = around_a_sleep(kernel, &[]);
        let (pulled, throttled) = ("5000000: one from 1 to 0, NewIdle", "5000000: throttled");
        assert_eq!(events, [pulled, throttled, throttled], "{kernel}");
    }
}

/// The pulled task's group is throttled.
#[test]
fn a_cpu_that_pulls_a_throttled_task_looks_again() {
    for kernel in ["3.10", "3.18", "6.1", "6.6", "6.12", "6.18", "7.1"] {
        let events = around_a_sleep(kernel, &["free"; 2]);
        assert!(events.iter().any(|event| event == "5000000: one from 1 to 0, NewIdle"), "{kernel}: {events:?}");
        // Up to 3.14 the CPU looks once.
        let again = events.iter().any(|event| event == "5000000: free from 1 to 0, NewIdle");
        assert_eq!(again, kernel != "3.10", "{kernel}: {events:?}");
    }
}
