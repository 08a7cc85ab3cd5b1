//! Balancing of pinned tasks.

mod support;

use support::*;
use vruntime_sched::event::{Event, MigrateCause};
use vruntime_sim::Config;
use vruntime_workload::program::*;

const KERNELS: [&str; 5] = ["6.1", "6.6", "6.12", "6.18", "7.1"];

/// Returns a hog that has one CPU for 100 ms, and then `cpus`.
fn freed(name: &str, cpu: u32, cpus: &[u32]) -> Task {
    let on = |cpus: &[u32], work| {
        let mut held = phase(vec![Op::Run { work }], Repeat::Times(1));
        held.settings.cpus = Some(cpus.to_vec());
        held
    };
    task(name, vec![on(&[cpu], 100 * MS), on(cpus, 5000 * MS)])
}

/// Moves in two seconds by source, target and cause, except those that an affinity requires.
fn moves(kernel: &str, machine: &str, tasks: Vec<Task>) -> Vec<(u32, u32, MigrateCause)> {
    let config = Config { duration: Some(2000 * MS), ..exact(kernel, machine) };
    let mut log = Log::default();
    simulate(&workload(tasks), &config, &mut log).unwrap();
    log.pick(|_, event| match event {
        Event::Migrate { from, to, cause, .. } if cause != MigrateCause::Affinity => Some((from.0, to.0, cause)),
        _ => None,
    })
}

/// The stopper pushes the running task although a pinned task has waited longer.
#[test]
fn the_stopper_passes_over_a_pinned_task() {
    for kernel in KERNELS {
        let mut idle = pinned(once("idle", vec![Op::Run { work: 5000 * MS }]), &[0]);
        idle.settings.policy = Some(Policy::Idle);
        let moves = moves(kernel, "2", vec![freed("hog", 0, &[0, 1]), idle]);
        assert_eq!(moves, [(0, 1, MigrateCause::Active)], "{kernel}");
    }
}

/// The first CPU of an idle pair balances for both. The second CPU gets a task that may not run on the first.
#[test]
fn a_task_excluded_from_the_balancing_cpu_moves_to_its_neighbour() {
    for kernel in KERNELS {
        let hogs = (0..3).map(|index| freed(&format!("hog{index}"), 2, &[1, 2])).collect();
        let moves = moves(kernel, "pack:2 core:2", hogs);
        assert_eq!(moves.first().map(|&(from, to, _)| (from, to)), Some((2, 1)), "{kernel}: {moves:?}");
    }
}

/// Tasks sleep from 4 to 10 ms, each on its CPU of `slept`. Hogs have the CPUs `busy` from 6 ms on, and only `cpus` are
/// allowed from 8 ms on. Returns where tasks wake.
fn woken(kernel: &str, machine: &str, slept: &[u32], busy: &[u32], cpus: &[u32]) -> Vec<u32> {
    let sleeper = |(index, &cpu): (usize, &u32)| {
        pinned(once(&format!("sleeper{index}"), vec![run(4000), sleep(6000), run(4000)]), &[cpu])
    };
    let hog = |&cpu: &u32| starting(pinned(once("hog", vec![run(50_000)]), &[cpu]), 6 * MS);
    let tasks = slept.iter().enumerate().map(sleeper).chain(busy.iter().map(hog)).collect();
    let settings = Settings { cpus: Some(cpus.to_vec()), ..Settings::default() };
    let what = Changed::Tasks { tasks: (0..slept.len()).collect(), settings, nice: None };
    let workload = Workload { changes: vec![Change { at: 8 * MS, what }], ..workload(tasks) };
    let mut log = Log::default();
    simulate(&workload, &Config { duration: Some(12 * MS), ..exact(kernel, machine) }, &mut log).unwrap();
    log.pick(|_, event| match event {
        Event::Wakeup { task, target } if task.index() < slept.len() => Some(target.0),
        _ => None,
    })
}

/// `select_idle_sibling` takes an idle previous CPU without a check of the affinity. `select_fallback_rq` then takes
/// the node's first allowed one, the same for several tasks.
#[test]
fn a_sleeper_whose_cpus_were_changed_wakes_on_the_first_of_them() {
    for kernel in ["3.10", "3.18", "6.1", "6.6", "6.12", "6.18", "7.1"] {
        assert_eq!(woken(kernel, "8", &[0, 1, 2, 3], &[], &[4, 5, 6, 7]), [4, 4, 4, 4], "{kernel}");
        let nodes = "numa:2 pack:1 core:4";
        assert_eq!(woken(kernel, nodes, &[7], &[5], &[0, 5, 6]), [5], "{kernel}: first of its node");
        assert_eq!(woken(kernel, nodes, &[7], &[], &[1, 2]), [1], "{kernel}: none of its node");
    }
    // If the previous CPU is busy, it looks for an idle one.
    for kernel in KERNELS {
        assert_eq!(woken(kernel, "8", &[0], &[0, 4], &[4, 5, 6, 7]), [5], "{kernel}: not idle");
    }
}
