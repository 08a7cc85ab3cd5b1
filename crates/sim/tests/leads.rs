//! Leads: followers that do not get ahead of a leader.

use proptest::prelude::*;
use vruntime_report::{Collector, Results};
use vruntime_sim::{Config, Costs, MachineSpec, parse_topology};
use vruntime_workload::program::{Op, Phase, Settings, Task, Workload};

const MS: u64 = 1_000_000;
const MOVES: Op = Op::LeadMoves { lead: 0 };
const AWAITS: Op = Op::LeadAwaits { lead: 0 };

fn run(work: u64) -> Op {
    Op::Run { work: work * MS }
}

fn task(name: &str, cpu: u32, loops: u64, ops: Vec<Op>) -> Task {
    let task = Task::new(name, [Phase::times(loops, ops)]);
    Task { settings: Settings { cpus: Some(vec![cpu]), ..task.settings }, ..task }
}

/// Runs tasks on four CPUs, without kernel time. Returns the results and the notes.
fn simulate(tasks: Vec<Task>, leads: usize) -> (Results, Vec<String>) {
    let leads = (0..leads).map(|lead| format!("lead {lead}")).collect();
    let workload = Workload { tasks, leads, duration: Some(60_000 * MS), ..Workload::default() };
    let mut machine = MachineSpec::new(parse_topology("4").expect("four CPUs are a machine"));
    (machine.costs, machine.timer_slack_ns) = (Costs::ZERO, 0);
    let config = Config::new(vruntime_sched::kernel("6.18").expect("it is offered"), machine);
    let mut collector = Collector::new(4);
    let outcome = vruntime_sim::run(&workload, &config, &mut collector).expect("it runs");
    (collector.into_results(), outcome.notes)
}

/// Returns when each task ended, milliseconds. All begin at 0.
fn ends(tasks: Vec<Task>) -> Vec<u64> {
    let (results, notes) = simulate(tasks, 1);
    assert_eq!(notes, Vec::<String>::new());
    let ended = |task: &vruntime_report::TaskResult| (task.account.cpu_ns + task.account.sleeping_ns) / MS;
    results.tasks.iter().map(ended).collect()
}

#[test]
fn a_follower_is_as_slow_as_its_leader() {
    let leader = || task("leader", 0, 5, vec![MOVES, run(10)]);
    let follower = |ops| task("follower", 1, 5, ops);
    assert_eq!(ends(vec![leader(), follower(vec![AWAITS, run(1)])]), [50, 41]);
    assert_eq!(ends(vec![leader(), follower(vec![run(1)])]), [50, 5]);
}

#[test]
fn a_leader_that_is_ahead_is_not_awaited() {
    let leader = task("leader", 0, 5, vec![MOVES, run(1)]);
    let follower = task("follower", 1, 5, vec![run(2), AWAITS]);
    assert_eq!(ends(vec![leader, follower]), [5, 10]);
}

/// The leader sleeps from 10 to 30 ms. The follower continues, and awaits the fourth step when the leader is back.
#[test]
fn a_sleeping_leader_is_not_awaited() {
    let leader = vec![MOVES, run(10), MOVES, Op::Sleep { time: 20 * MS }, run(10), MOVES, run(10), MOVES];
    let follower = vec![run(1), AWAITS, AWAITS, AWAITS, run(25), AWAITS, run(1)];
    let all = vec![task("leader", 0, 1, leader), task("follower", 1, 1, follower)];
    // The leader moves a third time at 40 ms, but the wait for that step ends at 10 ms.
    assert_eq!(ends(all), [50, 51]);
}

/// The property below found this case: no other task would wake it.
#[test]
fn a_task_does_not_await_itself() {
    let task = task("leader", 0, 1, vec![MOVES, AWAITS, AWAITS, run(1)]);
    assert_eq!(ends(vec![task]), [1]);
}

#[test]
fn a_leader_that_has_ended_is_not_awaited() {
    let leader = task("leader", 0, 1, vec![run(3), MOVES, run(7)]);
    let follower = task("follower", 1, 1, vec![run(5), AWAITS, AWAITS, run(1), AWAITS]);
    assert_eq!(ends(vec![leader, follower]), [10, 11]);
}

/// Makes programs: each of four tasks moves and awaits leads, works, and sleeps.
fn programs(steps: &[(usize, u8, usize, u64)], loops: u64) -> Vec<Task> {
    let mut ops: Vec<Vec<Op>> = vec![Vec::new(); 4];
    for &(by, what, lead, time) in steps {
        ops[by].push(match what {
            // Each lead has one leader.
            0 => Op::LeadMoves { lead: by },
            1 => Op::LeadAwaits { lead },
            2 => Op::Sleep { time: time * MS },
            _ => run(time),
        });
    }
    ops.into_iter().enumerate().map(|(by, ops)| task(&format!("task {by}"), by as u32 / 2, loops, ops)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Tasks that follow each other in circles all end with all their work done.
    #[test]
    fn tasks_in_circles_reach_their_end(
        steps in prop::collection::vec((0..4_usize, 0..4_u8, 0..4_usize, 0..5_u64), 1..60),
        loops in 1..4_u64,
    ) {
        let tasks = programs(&steps, loops);
        let work = |op: &Op| if let Op::Run { work } = op { *work } else { 0 };
        let worked = |task: &Task| task.phases.iter().flat_map(|phase| &phase.ops).map(work).sum::<u64>() * loops;
        let expected: Vec<u64> = tasks.iter().map(worked).collect();
        let (results, notes) = simulate(tasks, 4);
        prop_assert_eq!(notes, Vec::<String>::new());
        let had: Vec<u64> = results.tasks.iter().map(|task| task.account.cpu_ns).collect();
        prop_assert_eq!(had, expected);
    }
}
