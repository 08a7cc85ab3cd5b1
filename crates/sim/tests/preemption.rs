//! Preemption by new and woken tasks, by release and preemption model.

#[path = "../../../tests/seed.rs"]
mod seed;
mod support;

use seed::any_seed;
use support::*;
use vruntime_sched::event::{Event, Running};
use vruntime_sched::kernels::Behaviour;
use vruntime_sim::{Config, Preempt};
use vruntime_workload::program::*;

/// A parent that has had more than its share loses the CPU to its child, except in late releases of 6.18. In 6.6 it
/// also continues: a new task asks for a whole slice, so its deadline is not earlier.
#[test]
fn a_child_preempts_its_parent_but_not_in_late_releases_of_6_18() {
    let left = |kernel, release: &str| {
        let parent = once("parent", vec![sleep(10_300), run(200), Op::Fork(2), run(5)]);
        let hog = once("hog", vec![run(1_000_000)]);
        let child = Task { start: None, ..once("child", vec![run(100)]) };
        let mut log = Log::default();
        let mut config = Config { duration: Some(50 * MS), ..exact(kernel, "1") };
        config.kernel.as_of(release);
        simulate(&workload(vec![parent, hog, child]), &config, &mut log).unwrap();
        let forks = log.pick(|at, event| matches!(event, Event::Fork { parent: Some(_), .. }).then_some(at));
        (log.exit("parent").unwrap() - forks[0], log.exit("child").unwrap() - forks[0])
    };
    // The release of another kernel changes nothing.
    for (kernel, release) in [("6.12", "6.12.117+deb13-cloud-amd64"), ("6.18", "6.18.15"), ("6.18", "7.2.13")] {
        let (parent, child) = left(kernel, release);
        assert!(child < parent, "{release}: {child}, {parent}");
    }
    for (kernel, release) in [("6.6", "6.6"), ("6.18", "6.18.33"), ("6.18", "6.18.44"), ("7.2", "7.2.13")] {
        assert_eq!(left(kernel, release).0, 5 * US, "{release}");
    }
}

/// One of two hogs is preempted at a tick; a given phase of ticks holds for any seed.
#[test]
fn ticks_come_when_they_are_said_to() {
    let switches = |seed, tick_phase| {
        let mut log = Log::default();
        let config = Config { seed, tick_phase, duration: Some(100 * MS), ..exact("6.18", "1") };
        let hogs = ["a", "b"].map(|name| once(name, vec![run(1_000_000)]));
        simulate(&workload(hogs.into()), &config, &mut log).unwrap();
        let times = log.pick(|at, event| match event {
            Event::Switch { prev: Running::Task(_), next: Running::Task(_), .. } => Some(at % (4 * MS)),
            _ => None,
        });
        assert!(times.len() > 10, "{times:?}");
        times
    };
    let first = any_seed();
    for seed in (0..4).map(|index| first.wrapping_add(index)) {
        for phase in [0, 1_300 * US, 4 * MS - 1] {
            assert!(switches(seed, Some(phase)).iter().all(|at| *at == phase), "seed {seed}, {phase} ns");
        }
    }
    assert_ne!(switches(1, None)[0], switches(2, None)[0], "else the seed says");
}

/// With lazy preemption a fair task waits for the next tick. A real-time task interrupts the CPU, and any task an
/// idle one. Kernels before 6.13 lack this model.
#[test]
fn lazy_preemption_interrupts_no_cpu_for_a_fair_task() {
    let late = |config: Config, preempt, policy, hogged: bool| {
        let mut hog = pinned(once("hog", vec![run(40_000)]), &[1]);
        hog.settings.policy = Some(Policy::Idle);
        let waker = pinned(once("waker", vec![sleep(5_000), Op::SemPost(0)]), &[0]);
        let mut woken = pinned(once("woken", vec![Op::SemWait(0), run(10)]), &[1]);
        woken.settings.policy = Some(policy);
        let mut workload = workload(if hogged { vec![waker, woken, hog] } else { vec![waker, woken] });
        workload.semaphores = vec![Semaphore { name: "s".to_owned(), initial: 0 }];
        let mut log = Log::default();
        let config = Config { preempt, duration: Some(30 * MS), ..config };
        simulate(&workload, &config, &mut log).unwrap();
        (log.exit("woken").unwrap() - log.exit("waker").unwrap()) / US
    };
    let fair = Policy::Other { nice: 0, slice: None };
    let urgent = Policy::Fifo { priority: 1 };
    // Posted at 5 ms, with a tick every 4 ms: 3 ms until the next.
    assert_eq!(late(exact("6.18", "2"), Preempt::Lazy, fair, true), 3_010);
    assert_eq!(late(exact("6.18", "2"), Preempt::Lazy, urgent, true), 10);
    assert_eq!(late(exact("6.18", "2"), Preempt::Lazy, fair, false), 10);
    assert_eq!(late(exact("6.18", "2"), Preempt::None, fair, true), 10);
    assert_eq!(late(exact("6.12", "2"), Preempt::Lazy, fair, true), 10);
    for (on, after) in [(true, 3_010), (false, 10)] {
        let config = forced("6.18", "2", Behaviour::LazyPreemption, on);
        assert_eq!(late(config, Preempt::Lazy, fair, true), after, "{on}");
    }
    // 7.0+: only lazy and full are left.
    for (preempt, after) in [(Preempt::None, 3_010), (Preempt::Voluntary, 3_010), (Preempt::Full, 10)] {
        assert_eq!(late(exact("7.0", "2"), preempt, fair, true), after, "{preempt:?}");
    }
}

/// 6.18 before and after its late releases.
const RELEASES: [&str; 2] = ["6.18.15", "6.18.44"];

fn log_of(release: &str, ms: u64, tasks: Vec<Task>) -> Log {
    let mut config = Config { tick_phase: Some(0), duration: Some(ms * MS), ..exact("6.18", "1") };
    config.kernel.as_of(release);
    let mut log = Log::default();
    simulate(&workload(tasks), &config, &mut log).unwrap();
    log
}

/// Sets a slice, milliseconds.
fn sliced(ms: u64, mut task: Task) -> Task {
    task.settings.policy = Some(Policy::Other { nice: 0, slice: Some(ms * MS) });
    task
}

/// A sleeper with delayed dequeue would be picked before the woken task: in late releases it is then dequeued.
#[test]
fn a_delayed_dequeue_does_not_keep_a_wakeup_from_preempting() {
    let late = RELEASES.map(|release| {
        // The debtor leaves the CPU at 4 ms and is eligible at 7 ms; the hog is alone for 8 ms from 4 ms on.
        let hog = sliced(20, starting(once("hog", vec![run(1_000_000)]), US));
        let debtor = sliced(8, starting(once("debtor", vec![run(3_000), sleep(100_000)]), MS));
        let waker = sliced(60, once("w", vec![sleep(9_000), run(100)]));
        log_of(release, 50, vec![hog, debtor, waker]).sleeps("w")
    });
    assert_eq!(late, [vec![(12 * MS, 3 * MS)], vec![(9 * MS, 0)]]);
}

/// A woken batch task's shorter slice shortens protection from the next wakeup on, though it preempts no task.
#[test]
fn a_wakeup_that_does_not_preempt_shortens_protection() {
    let late = RELEASES.map(|release| {
        let hog = sliced(40, starting(once("hog", vec![run(1_000_000)]), US));
        let mut batch = once("batch", vec![sleep(5_000), run(100)]);
        batch.settings.policy = Some(Policy::Batch { nice: 0, slice: Some(2 * MS) });
        let other = sliced(60, once("w", vec![sleep(6_000), run(100)]));
        log_of(release, 80, vec![hog, batch, other]).sleeps("batch")
    });
    assert_eq!(late, [vec![(24 * MS, 19 * MS)], vec![(8 * MS, 3 * MS)]]);
}

/// A task that waited and then slept is owed its wait, not two of its own slices.
#[test]
fn lag_is_limited_by_the_longest_slice_of_the_queue() {
    let until = RELEASES.map(|release| {
        let hog = sliced(40, starting(once("hog", vec![run(1_000_000)]), US));
        let mut waits = phase(vec![sleep(1_000), run(1)], Repeat::Times(1));
        waits.settings.policy = Some(Policy::Batch { nice: 0, slice: None });
        let mut runs = phase(vec![sleep(5_000), run(100_000)], Repeat::Times(1));
        runs.settings.policy = Some(Policy::Other { nice: 0, slice: None });
        let waits = task("w", vec![waits, runs]);
        let log = log_of(release, 120, vec![hog, waits]);
        let hog = log.of("hog");
        let turns = log.pick(|at, event| match event {
            Event::Switch { next: Running::Task(task), .. } if task == hog => Some(at),
            _ => None,
        });
        // It wakes at 29 ms, and keeps the CPU until a tick finds that it has had its due.
        turns[2] / MS
    });
    // It had waited for 23 ms, half of them owed; a tick is 4 ms, and it is owed as much again while it catches up.
    assert_eq!(until, [40, 56]);
}

/// Under CFS a new task waits for its slice on the forking CPU, behind that queue's first, wherever it runs
/// (`task_fork_fair`). For an idle CPU that is a latency period, 12 ms here, and three hogs run as long each before it.
#[test]
fn what_a_new_task_waits_is_reckoned_where_it_is_forked() {
    let first = |kernel: &str, here: usize| {
        let hogs = (0..3 + here).map(|n| pinned(once(&format!("hog{n}"), vec![run(2_000_000)]), &[u32::from(n < 3)]));
        let child = starting(pinned(once("child", vec![run(1_000)]), &[1]), 500 * MS);
        let mut log = Log::default();
        let config = Config { duration: Some(700 * MS), ..exact(kernel, "2") };
        simulate(&workload(hogs.chain([child]).collect()), &config, &mut log).unwrap();
        let child = log.of("child");
        let mine = |at, event| match event {
            Event::Switch { next: Running::Task(task), .. } if task == child => Some(at - 500 * MS),
            _ => None,
        };
        log.pick(mine)[0] / MS
    };
    for kernel in ["3.10", "3.18", "6.1"] {
        let (idle, busy) = (first(kernel, 0), first(kernel, 3));
        assert!((28..=48).contains(&idle), "{kernel}: {idle}");
        assert!(busy <= 20, "{kernel}: {busy}");
    }
}

/// Two hogs, tick every 4 ms, slices of 0.7 ms. Up to 7.0 a slice ends at a tick; in 7.1, which has HRTICK on, in
/// time.
#[test]
fn in_7_1_slices_end_when_they_are_over() {
    let hogs = workload(["a", "b"].map(|name| once(name, vec![run(2_000_000)])).to_vec());
    for (kernel, feature, switches) in
        [("7.0", None, 250), ("7.0", Some("HRTICK"), 1428), ("7.1", None, 1428), ("7.1", Some("NO_HRTICK"), 250)]
    {
        let mut log = Log::default();
        let mut config = Config { duration: Some(1000 * MS), ..exact(kernel, "1") };
        if let Some(feature) = feature {
            config.kernel.feature(feature).unwrap();
        }
        simulate(&hogs, &config, &mut log).unwrap();
        let found = log.pick(|at, event| matches!(event, Event::Switch { .. }).then_some(at)).len();
        assert!(found.abs_diff(switches) <= 3, "{kernel} {feature:?}: {found}");
    }
}
