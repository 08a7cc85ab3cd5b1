//! Utilisation clamps of tasks and groups change where tasks run.

mod support;

use support::*;
use vruntime_sched::event::Event;
use vruntime_trace::NoSink;
use vruntime_workload::program::*;

const KERNELS: [&str; 5] = ["6.1", "6.6", "6.12", "6.18", "7.1"];
/// CPUs 0 and 1 are small, 2 and 3 big.
const PHONE: &str = "core:4(capacity=446,446,1024,1024)";

fn clamped(mut task: Task, min: Option<u32>, max: Option<u32>) -> Task {
    (task.settings.util_min, task.settings.util_max) = (min, max);
    task
}

fn light(name: &str) -> Task {
    task(name, vec![phase(vec![Op::Run { work: 400 * US }, Op::Sleep { time: 10 * MS }], Repeat::Forever)])
}

fn hog(name: &str) -> Task {
    task(name, vec![phase(vec![Op::Run { work: 1000 * MS }], Repeat::Forever)])
}

/// CPU time of a task on each of four CPUs between `from` and the end, milliseconds.
fn where_it_ran(workload: &Workload, kernel: &str, name: &str, from: u64) -> [u64; 4] {
    let mut parts = kernel.split('+');
    let mut config = exact(parts.next().unwrap(), PHONE);
    parts.for_each(|part| config.kernel.feature(part).unwrap());
    config.duration = Some(1000 * MS);
    let mut log = Log::default();
    let outcome = simulate(workload, &config, &mut log).unwrap();
    assert!(!outcome.notes.iter().any(|note| note.contains("clamps")), "{:?}", outcome.notes);
    let this = log.of(name);
    let (mut ran, mut open) = ([0; 4], None);
    let ends = [(1000 * MS, vruntime_sched::ids::CpuId(0), Event::Exit { task: this })];
    for &(at, cpu, event) in log.events.iter().chain(&ends) {
        let (switches_out, switches_in) = match event {
            Event::Switch { prev, next, .. } => (prev.task() == Some(this), next.task() == Some(this)),
            Event::Exit { task } => (task == this && at == 1000 * MS, false),
            _ => (false, false),
        };
        if switches_out && let Some((since, cpu)) = open.take() {
            ran[cpu] += at.max(from) - u64::max(since, from);
        }
        if switches_in {
            open = Some((at, cpu.index()));
        }
    }
    ran.map(|ns| ns / MS)
}

#[test]
fn a_light_task_that_asks_for_much_gets_a_big_cpu() {
    for kernel in KERNELS {
        let plain = where_it_ran(&workload(vec![light("t")]), kernel, "t", 0);
        assert!(plain[0] > 50 && plain[2] + plain[3] == 0, "{kernel}: {plain:?}");
        let boosted = workload(vec![clamped(light("t"), Some(600), None)]);
        let ran = where_it_ran(&boosted, kernel, "t", 0);
        assert!(ran[0] + ran[1] == 0 && ran[2] + ran[3] > 20, "{kernel}: {ran:?}");
    }
}

#[test]
fn a_hog_that_is_content_with_little_stays_on_a_small_cpu() {
    for kernel in KERNELS {
        let plain = where_it_ran(&workload(vec![hog("t")]), kernel, "t", 100 * MS);
        assert_eq!(plain[0] + plain[1], 0, "{kernel}: {plain:?}");
        let capped = where_it_ran(&workload(vec![clamped(hog("t"), None, Some(400))]), kernel, "t", 100 * MS);
        assert_eq!(capped[0], 900, "{kernel}: {capped:?}");
        // A cap above the small CPU's capacity has no effect there.
        let loose = where_it_ran(&workload(vec![clamped(hog("t"), None, Some(500))]), kernel, "t", 100 * MS);
        assert_eq!(loose[0] + loose[1], 0, "{kernel}: {loose:?}");
    }
}

#[test]
fn groups_bind_their_tasks() {
    let group = |path: &str, parent, min, max| Group {
        path: path.to_owned(),
        parent: Some(parent),
        weight: 100,
        idle: false,
        max: None,
        uclamp: Some(Clamps { min, max }),
        ..Group::default()
    };
    let with = |task: Task, group_of, groups: &[Group]| {
        let mut workload = workload(vec![task]);
        workload.tasks[0].settings.group = Some(group_of);
        workload.groups.extend_from_slice(groups);
        workload
    };
    for kernel in KERNELS {
        let protected = with(light("t"), 1, &[group("/a", 0, 700, 1024)]);
        let ran = where_it_ran(&protected, kernel, "t", 0);
        assert_eq!(ran[0] + ran[1], 0, "{kernel}, the group's lower bound: {ran:?}");
        let limited = with(hog("t"), 1, &[group("/a", 0, 0, 300)]);
        let ran = where_it_ran(&limited, kernel, "t", 100 * MS);
        assert_eq!(ran[0], 900, "{kernel}, the group's upper bound: {ran:?}");
        let asks = with(clamped(light("t"), Some(900), None), 1, &[group("/a", 0, 0, 300)]);
        let ran = where_it_ran(&asks, kernel, "t", 0);
        assert_eq!(ran[2] + ran[3], 0, "{kernel}, a task asks for more than its group may: {ran:?}");
        let nested = [group("/a", 0, 0, 300), group("/a/b", 1, 800, 1024)];
        let ran = where_it_ran(&with(hog("t"), 2, &nested), kernel, "t", 100 * MS);
        assert_eq!(ran[0], 900, "{kernel}, a child may have no more than its parent: {ran:?}");
    }
}

/// Up to 5.13 (and early 5.10), a group's `util_min` is an upper bound of what its tasks request. From 5.14 on, it is a
/// lower bound.
#[test]
fn a_group_protects_its_tasks_from_5_14_on() {
    let group = Group {
        path: "/a".to_owned(),
        parent: Some(0),
        uclamp: Some(Clamps { min: 600, max: 1024 }),
        ..Group::default()
    };
    let with = |min| {
        let mut work = workload(vec![clamped(light("t"), min, None)]);
        work.groups.push(group.clone());
        work.tasks[0].settings.group = Some(1);
        work
    };
    let big = |kernel, min| where_it_ran(&with(min), kernel, "t", 0)[2..].iter().sum::<u64>() > 20;
    // Without a request, the bounds of the group stand for it.
    let old = "5.10+NO_UCLAMP_GROUP_PROTECTS";
    assert!(big(old, None) && big("5.15", None));
    assert!(!big(old, Some(0)) && big("5.15", Some(0)));
}

/// A real-time task prefers the biggest CPU, unless a bound of the task or the system is lower.
#[test]
fn real_time_tasks_go_where_their_lower_bound_is_met() {
    let fifo = |min| {
        let mut task = clamped(light("t"), min, None);
        task.settings.policy = Some(Policy::Fifo { priority: 1 });
        task
    };
    for kernel in KERNELS {
        let default = where_it_ran(&workload(vec![fifo(None)]), kernel, "t", 0);
        assert_eq!(default[0] + default[1], 0, "{kernel}: {default:?}");
        let modest = where_it_ran(&workload(vec![fifo(Some(0))]), kernel, "t", 0);
        assert_eq!(modest[2] + modest[3], 0, "{kernel}: {modest:?}");
    }
    let mut config = exact("6.12", PHONE);
    config.kernel.set("sched_util_clamp_min_rt_default", 100).unwrap();
    config.duration = Some(1000 * MS);
    let mut log = Log::default();
    simulate(&workload(vec![fifo(None)]), &config, &mut log).unwrap();
    let small = log.pick(|_, event| matches!(event, Event::Switch { .. }).then_some(()));
    assert!(!small.is_empty() && log.events.iter().all(|(_, cpu, _)| cpu.0 < 2), "the system's default holds");
}

#[test]
fn phases_change_the_clamps() {
    let mut then = phase(vec![Op::Run { work: 1000 * MS }], Repeat::Forever);
    then.settings.util_max = Some(1024);
    let mut hog = task("t", vec![phase(vec![Op::Run { work: 200 * MS }], Repeat::Times(1)), then]);
    hog.settings.util_max = Some(400);
    let ran = where_it_ran(&workload(vec![hog]), "6.12", "t", 0);
    let (small, big) = (ran[0] + ran[1], ran[2] + ran[3]);
    // 200 ms of work take 459 ms there.
    assert!((459..475).contains(&small) && small + big >= 998, "{ran:?}");
}

#[test]
fn what_the_kernel_refuses_ends_the_run_with_the_reason() {
    let refused = |tasks| simulate(&workload(tasks), &exact("6.12", "2"), &mut NoSink).unwrap_err().to_string();
    let message = refused(vec![clamped(light("t"), Some(1025), None)]);
    assert!(message.contains("util_min") && message.contains("1025") && message.contains("1024"), "{message}");
    let message = refused(vec![clamped(light("t"), Some(600), Some(500))]);
    assert!(message.contains("util_min is 600") && message.contains("util_max"), "{message}");
    // Each is valid, but a phase sets the upper below the lower.
    let mut later = phase(vec![Op::Run { work: MS }], Repeat::Times(1));
    later.settings.util_max = Some(100);
    let mut crossed = task("t", vec![phase(vec![Op::Run { work: MS }], Repeat::Times(1)), later]);
    crossed.settings.util_min = Some(200);
    let message = refused(vec![crossed]);
    assert!(message.contains("util_min 200 is above util_max 100") && message.contains("at 1.000 ms"), "{message}");
}
