//! Balancing (SCHED_SOFTIRQ) happens at the return of the tick's interrupt.

mod support;

use support::*;
use vruntime_sched::event::{Event, MigrateCause, OverheadKind};
use vruntime_sim::{Config, Costs};
use vruntime_workload::program::*;

fn hog(name: &str, nice: i8) -> Task {
    let mut task = once(name, vec![Op::Run { work: 100_000 * MS }]);
    task.settings.policy = Some(Policy::Other { nice, slice: None });
    task
}

/// Four hogs may leave CPU 0 after a while, and one is pinned to the other CPU. Returns the times of that CPU's
/// pulls, in microseconds from the beginning of the tick.
fn pulls(kernel: &str) -> Vec<u64> {
    let mut config = Config { duration: Some(3000 * MS), tick_phase: Some(1_700 * US), ..exact(kernel, "core:2") };
    config.machine.costs.set("tick_ns", 20_000).unwrap();
    let mut tasks = vec![pinned(hog("tied", 0), &[1])];
    for name in ["a", "b", "c", "d"] {
        let mut first = phase(vec![run(50_000)], Repeat::Times(1));
        first.settings.cpus = Some(vec![0]);
        let mut then = phase(vec![run(10_000_000)], Repeat::Times(1));
        then.settings.cpus = Some(vec![0, 1]);
        tasks.push(task(name, vec![first, then]));
    }
    let mut log = Log::default();
    simulate(&workload(tasks), &config, &mut log).unwrap();
    let periodic = |at, event| match event {
        Event::Migrate { cause: MigrateCause::Periodic, .. } => Some((at + 4 * MS - 1_700 * US) % (4 * MS) / US),
        _ => None,
    };
    log.pick(periodic)
}

#[test]
fn a_busy_cpu_pulls_when_its_tick_has_ended() {
    for kernel in ["2.6.22", "2.6.23", "3.10", "3.18", "6.1", "6.6", "6.12", "6.18", "7.1"] {
        let pulls = pulls(kernel);
        assert!(!pulls.is_empty() && pulls.iter().all(|&after| after == 20), "{kernel}: {pulls:?}");
    }
    let first = pulls("2.6.15");
    assert!(!first.is_empty() && first.iter().all(|&after| after == 0), "{first:?}");
}

/// A pinned waker makes a hog wait just after ticks, for a third of a millisecond; the other CPU has five lighter
/// tasks. On a real 6.18 it is pulled within half a second (6 of 6): the other CPU balances a moment after the tick.
#[test]
fn a_task_that_waits_just_after_ticks_can_be_pulled() {
    let within = |seed: u64| {
        let mut config = Config { duration: Some(4000 * MS), seed, ..exact("6.18", "core:2") };
        config.machine.costs = Costs::VM;
        let waker = pinned(task("w", vec![phase(vec![run(340), sleep(1060)], Repeat::Forever)]), &[1]);
        let mut tasks = vec![waker, pinned(hog("h", -5), &[0, 1])];
        tasks[0].settings.policy = Some(Policy::Other { nice: 5, slice: None });
        tasks.extend((0..5).map(|n| pinned(hog(&format!("l{n}"), 5), &[0])));
        let mut log = Log::default();
        simulate(&workload(tasks), &config, &mut log).unwrap();
        let hog = log.of("h");
        let moved = log.pick(|at, event| match event {
            Event::Migrate { task, cause: MigrateCause::Periodic, .. } if task == hog => Some(at / MS),
            _ => None,
        });
        moved.first().copied()
    };
    let moved: Vec<_> = (1..=6).map(within).collect();
    assert!(moved.iter().all(Option::is_some), "{moved:?}");
}

/// Two hogs of nice -5 share both CPUs with pinned hogs, and one CPU with three wakers. Recorded on a real 6.18: 15
/// to 20 migrations in 3 s. A balancer that has not failed leaves an ineligible task, and with it the only movable
/// one; otherwise there would be 25 to 32.
#[test]
fn an_ineligible_task_is_pulled_after_a_failure() {
    let migrations = |seed: u64| {
        let mut config = Config { duration: Some(3000 * MS), seed, ..exact("6.18", "core:2") };
        config.machine.costs = Costs::VM;
        let mut tasks = vec![hog("a", -5), hog("b", -5), pinned(hog("c", 0), &[0]), pinned(hog("d", 0), &[1])];
        for name in ["x", "y", "z"] {
            tasks.push(pinned(task(name, vec![phase(vec![run(503), sleep(3667)], Repeat::Forever)]), &[1]));
        }
        let mut log = Log::default();
        simulate(&workload(tasks), &config, &mut log).unwrap();
        log.pick(|_, event| matches!(event, Event::Migrate { cause: MigrateCause::Periodic, .. }).then_some(())).len()
    };
    let counts: Vec<usize> = (1..=6).map(migrations).collect();
    println!("{counts:?}");
    let all: usize = counts.iter().sum();
    assert!((36..=120).contains(&all), "{counts:?}");
}

/// The balancing CPU pays for balancing before it switches.
#[test]
fn no_task_is_switched_to_before_the_softirq() {
    let mut config = Config { duration: Some(1000 * MS), tick_phase: Some(MS), ..exact("6.12", "core:2") };
    config.machine.costs.set("tick_ns", 20_000).unwrap();
    config.machine.costs.set("balance_ns", 7_000).unwrap();
    let mut log = Log::default();
    simulate(&workload(vec![hog("a", 0), hog("b", 0), hog("c", 0)]), &config, &mut log).unwrap();
    let searched = log.pick(|at, event| match event {
        Event::Overhead { kind: OverheadKind::Tick, ns: 7_000 } => Some(at),
        _ => None,
    });
    assert!(searched.len() > 10);
    for at in &searched {
        assert_eq!(at % (4 * MS), MS + 20_000, "right after the tick");
    }
    let switches = log.events.iter().filter(|(.., event)| matches!(event, Event::Switch { .. }));
    let mut after = 0;
    for (at, cpu, _) in switches {
        for begun in searched.iter().filter(|&&begun| begun <= *at && *at < begun + 7_000) {
            let there = log.events.iter().any(|(when, whose, event)| {
                when == begun && whose == cpu && matches!(event, Event::Overhead { ns: 7_000, .. })
            });
            assert!(!there, "CPU {cpu:?} switches at {at}, in its softirq of {begun}");
        }
        after += u64::from(searched.iter().any(|begun| begun + 7_000 == *at));
    }
    assert!(after > 0, "and some switches have waited for it");
}
