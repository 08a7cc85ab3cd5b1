//! exec: where a task moves.

mod support;

use support::*;
use vruntime_sched::event::{Event, MigrateCause, Running};
use vruntime_sched::{CpuPlace, Topology};
use vruntime_sim::Config;
use vruntime_workload::program::*;

fn execs(config: &Config, tasks: Vec<Task>) -> (Log, Vec<(u64, u32, u32)>) {
    let mut log = Log::default();
    simulate(&workload(tasks), config, &mut log).unwrap();
    let moves = log.pick(|at, event| match event {
        Event::Migrate { from, to, cause: MigrateCause::Exec, .. } => Some((at / US, from.0, to.0)),
        _ => None,
    });
    (log, moves)
}

/// `loader` shares CPU 0 with a hog until it may run anywhere, and then execs.
fn loader_and_hog() -> Vec<Task> {
    loader_and_hog_on(&[0, 1])
}

fn loader_and_hog_on(cpus: &[u32]) -> Vec<Task> {
    // Shorter than its first slice, whose end the change of CPUs would notice.
    let tied = phase(vec![run(500)], Repeat::Times(1));
    let free = Phase { settings: Settings { cpus: Some(cpus.to_vec()), ..Settings::default() }, ..tied.clone() };
    let free = Phase { ops: vec![Op::Exec, run(2_500)], ..free };
    vec![pinned(task("loader", vec![tied, free]), &[0]), pinned(once("hog", vec![run(20_000)]), &[0])]
}

#[test]
fn a_task_that_execs_moves_to_the_idlest_cpu_through_the_stopper() {
    let mut config = exact("6.12", "2");
    // The balancer would do the same, later.
    config.machine.hz = 10;
    config.machine.costs.exec_ns = 300 * US;
    let (log, moves) = execs(&config, loader_and_hog());
    let [(at, 0, 1)] = moves[..] else { panic!("{moves:?}") };
    let stopper = log.pick(|at, event| match event {
        Event::Switch { prev: Running::Stopper, .. } => Some(at / US),
        _ => None,
    });
    assert_eq!(stopper, [at]);
    // The new program is loaded where it runs.
    assert_eq!(log.exit("loader").map(|ns| ns / US), Some(at + 300 + 2_500));
}

#[test]
fn a_task_that_execs_stays_if_its_own_cpu_is_the_idlest_without_it_or_no_other_is_allowed() {
    for (machine, cpus) in [("2", vec![0, 1]), ("pack:2 core:2 pu:2", (0..8).collect()), ("1", vec![0])] {
        let (log, moves) =
            execs(&exact("6.12", machine), vec![pinned(once("a", vec![run(100), Op::Exec, run(100)]), &cpus)]);
        assert_eq!((moves.len(), log.exit("a")), (0, Some(200 * US)), "{machine}");
    }
    let mut tasks = loader_and_hog();
    tasks[0].phases =
        tasks[0].phases.iter().map(|phase| Phase { settings: Settings::default(), ..phase.clone() }).collect();
    assert_eq!(execs(&exact("6.12", "2"), tasks).1, []);
}

#[test]
fn execs_spread_over_packages() {
    // Eight shells start on one CPU and exec: each ends on its own CPU.
    let shell = |index: usize| {
        let tied = phase(vec![run(100)], Repeat::Times(1));
        let settings = Settings { cpus: Some((0..8).collect()), ..Settings::default() };
        let free = Phase { settings, ..phase(vec![Op::Exec, run(5_000)], Repeat::Times(1)) };
        pinned(task(&format!("t{index}"), vec![tied, free]), &[0])
    };
    for kernel in ["6.1", "6.12"] {
        let (log, moves) = execs(&exact(kernel, "pack:2 core:4"), (0..8).map(shell).collect());
        let mut to: Vec<u32> = moves.iter().map(|&(_, _, to)| to).collect();
        to.sort_unstable();
        assert_eq!(to, [1, 2, 3, 4, 5, 6, 7], "{kernel}");
        assert!((0..8).all(|index| log.exit(&format!("t{index}")).unwrap() < 7 * MS), "{kernel}");
    }
}

/// Two nodes of one CPU, at this distance.
fn nodes(kernel: &str, distance: u32) -> Config {
    let mut config = exact(kernel, "2");
    config.machine.hz = 100;
    let place = |cpu| CpuPlace { core: cpu, cluster: cpu, llc: cpu, package: cpu, node: cpu, capacity: 1024 };
    let table = vec![vec![10, distance], vec![distance, 10]];
    config.machine.topology = Topology::new((0..2).map(place).collect(), Some(table)).unwrap();
    config
}

/// Only the balancer uses nodes farther away than 30.
#[test]
fn a_task_that_execs_does_not_move_to_a_far_node() {
    for kernel in ["3.10", "3.18", "6.1", "6.12", "6.18", "7.1"] {
        let moves = |distance| execs(&nodes(kernel, distance), loader_and_hog()).1.len();
        assert_eq!((moves(30), moves(31)), (1, 0), "{kernel}");
    }
}

/// Only a group's allowed CPUs count: a forbidden idle one does not attract the task. Up to 6.18.15 at least, 6.18
/// counts all.
#[test]
fn cpus_on_which_a_task_may_not_run_attract_it_nowhere() {
    for (kernel, release, expected) in
        [("6.1", "", None), ("6.12", "", None), ("6.18", "", Some(2)), ("6.18", "6.18.44", None)]
    {
        let mut config = exact(kernel, "pack:2 core:2");
        config.kernel.as_of(release);
        config.machine.hz = 10;
        let mut tasks = loader_and_hog_on(&[0, 1, 2]);
        // CPU 3 is idle.
        tasks.push(pinned(once("near", vec![run(20_000)]), &[1]));
        tasks.push(pinned(once("far", vec![run(20_000)]), &[2]));
        let to = execs(&config, tasks).1.first().map(|&(_, _, to)| to);
        assert_eq!(to, expected, "{kernel} {release}");
    }
}
