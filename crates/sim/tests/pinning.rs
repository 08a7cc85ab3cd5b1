//! What the balancer does about tasks that may not go where it would have them.

mod support;

use support::*;
use vruntime_sched::event::{Event, MigrateCause};
use vruntime_sim::Config;
use vruntime_workload::program::*;

const KERNELS: [&str; 4] = ["6.1", "6.6", "6.12", "6.18"];

/// Has one CPU for 100 ms, and may go to these from then on.
fn freed(name: &str, cpu: u32, cpus: &[u32]) -> Task {
    let on = |cpus: &[u32], work| {
        let mut held = phase(vec![Op::Run { work }], Repeat::Times(1));
        held.settings.cpus = Some(cpus.to_vec());
        held
    };
    task(name, vec![on(&[cpu], 100 * MS), on(cpus, 5000 * MS)])
}

/// Who was moved from where to where, and why, in two seconds, but for going where he has to be.
fn moves(kernel: &str, machine: &str, tasks: Vec<Task>) -> Vec<(u32, u32, MigrateCause)> {
    let config = Config { duration: Some(2000 * MS), ..exact(kernel, machine) };
    let mut log = Log::default();
    simulate(&workload(tasks), &config, &mut log).unwrap();
    log.pick(|_, event| match event {
        Event::Migrate { from, to, cause, .. } if cause != MigrateCause::Affinity => Some((from.0, to.0, cause)),
        _ => None,
    })
}

/// The stopper pushes who ran, though a task that may not leave has waited for longer, and would be the first to go.
#[test]
fn the_stopper_goes_past_who_may_not_leave() {
    for kernel in KERNELS {
        let mut idle = pinned(once("idle", vec![Op::Run { work: 5000 * MS }]), &[0]);
        idle.settings.policy = Some(Policy::Idle);
        let moves = moves(kernel, "2", vec![freed("hog", 0, &[0, 1]), idle]);
        assert_eq!(moves, [(0, 1, MigrateCause::Active)], "{kernel}");
    }
}

/// Of an idle pair of CPUs the first balances for both. What may only go to the second is pulled there.
#[test]
fn a_task_that_may_not_go_to_the_balancing_cpu_goes_to_its_neighbour() {
    for kernel in KERNELS {
        let hogs = (0..3).map(|index| freed(&format!("hog{index}"), 2, &[1, 2])).collect();
        let moves = moves(kernel, "pack:2 core:2", hogs);
        assert_eq!(moves.first().map(|&(from, to, _)| (from, to)), Some((2, 1)), "{kernel}: {moves:?}");
    }
}
