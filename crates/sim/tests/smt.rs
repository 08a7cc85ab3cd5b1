//! Cores with several threads beside cores with one, as in Intel's hybrids.

mod support;

use support::*;
use vruntime_sched::event::{Event, MigrateCause};
use vruntime_sched::{CpuPlace, Topology};
use vruntime_sim::Config;
use vruntime_workload::program::*;

/// One cache, and cores with these numbers of threads.
fn machine(threads: &[u32]) -> Topology {
    let cores = (0..).zip(threads).flat_map(|(core, &threads)| (0..threads).map(move |_| core));
    let place = |core| CpuPlace { core, cluster: core, llc: 0, package: 0, node: 0, capacity: 1024 };
    Topology::new(cores.map(place).collect(), None).unwrap()
}

/// Has the CPUs for 100 ms, and then all.
fn freed(name: &str, cpus: &[u32]) -> Task {
    let mut held = phase(vec![Op::Run { work: 100 * MS }], Repeat::Times(1));
    held.settings.cpus = Some(cpus.to_vec());
    let mut free = phase(vec![Op::Run { work: 5000 * MS }], Repeat::Times(1));
    free.settings.cpus = Some((0..4).collect());
    task(name, vec![held, free])
}

/// Pushes of running tasks, once they are free.
fn pushed(kernel: &str, threads: &[u32], tasks: Vec<Task>) -> Vec<(u32, u32)> {
    let mut config = Config { duration: Some(2000 * MS), ..exact(kernel, "core:4") };
    config.machine.topology = machine(threads);
    let mut log = Log::default();
    simulate(&workload(tasks), &config, &mut log).unwrap();
    log.pick(|_, event| match event {
        Event::Migrate { from, to, cause: MigrateCause::Active, .. } => Some((from.0, to.0)),
        _ => None,
    })
}

/// Two tasks share a core beside an idle core of one thread, which takes one of them since 6.6. In 6.1 its one idle
/// CPU more is no imbalance.
#[test]
fn an_idle_core_of_one_thread_relieves_one_of_two() {
    let both = || vec![freed("a", &[0]), freed("b", &[1]), freed("c", &[2])];
    let from_pair = |kernel: &str| pushed(kernel, &[2, 1, 1], both());
    assert_eq!(from_pair("6.1"), []);
    for kernel in ["6.6", "6.12", "6.18", "7.1"] {
        let moves = from_pair(kernel);
        assert!(matches!(moves[..], [(0 | 1, 3)]), "{kernel}: {moves:?}");
    }
}

#[test]
fn a_core_with_one_thread_in_use_is_left_alone() {
    for kernel in ["6.1", "6.6", "6.12", "6.18", "7.1"] {
        assert_eq!(pushed(kernel, &[2, 1, 1], vec![freed("a", &[0]), freed("b", &[2])]), [], "{kernel}");
    }
}

/// A big CPU with a busy sibling is no better for a misfit task, in 6.1 as in 6.12.
#[test]
fn a_misfit_task_does_not_move_beside_a_busy_thread() {
    let place = |cpu: u32| CpuPlace {
        core: cpu / 2,
        cluster: cpu / 2,
        llc: 0,
        package: 0,
        node: 0,
        capacity: if cpu < 4 { 1024 } else { 512 },
    };
    for kernel in ["6.1", "6.6", "6.12"] {
        let mut config = Config { duration: Some(1000 * MS), ..exact(kernel, "core:8") };
        config.machine.topology = Topology::new((0..8).map(place).collect(), None).unwrap();
        let pinned =
            |name: &str, cpu| pinned(task(name, vec![phase(vec![Op::Run { work: MS }], Repeat::Forever)]), &[cpu]);
        let mut held = phase(vec![Op::Run { work: 20 * MS }], Repeat::Times(1));
        held.settings.cpus = Some(vec![4]);
        let mut free = phase(vec![Op::Run { work: MS }], Repeat::Forever);
        free.settings.cpus = Some((0..8).collect());
        let tasks = vec![pinned("a", 0), pinned("b", 2), task("misfit", vec![held, free])];
        let mut log = Log::default();
        simulate(&workload(tasks), &config, &mut log).unwrap();
        let misfit = log.of("misfit");
        let moves = log.pick(|_, event| match event {
            Event::Migrate { task, to, .. } if task == misfit => Some(to.0),
            _ => None,
        });
        assert!(moves.iter().all(|to| *to >= 4), "{kernel}: {moves:?}");
    }
}
