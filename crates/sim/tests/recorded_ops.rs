//! Operations that replayed traces are made of.

use vruntime_report::Collector;
use vruntime_sim::{Config, Costs, MachineSpec, parse_topology};
use vruntime_workload::program::{Op, Phase, Task, Workload};

const MS: u64 = 1_000_000;

fn run(ops: Vec<Op>) -> (u64, vruntime_report::Results) {
    let task = Task { start: Some(3 * MS), ..Task::new("task", [Phase::times(1, ops)]) };
    let workload = Workload { tasks: vec![task], ..Workload::default() };
    let mut machine = MachineSpec::new(parse_topology("1").expect("one CPU is a machine"));
    (machine.costs, machine.timer_slack_ns) = (Costs::ZERO, 0);
    let config = Config::new(vruntime_sched::kernel("6.18").expect("it is offered"), machine);
    let mut collector = Collector::new(1);
    let outcome = vruntime_sim::run(&workload, &config, &mut collector).expect("it runs");
    (outcome.end, collector.into_results())
}

#[test]
fn a_time_that_is_over_is_not_slept_for() {
    let ops = vec![
        Op::SleepUntil { at: 10 * MS },
        Op::Run { work: 5 * MS },
        Op::SleepUntil { at: 12 * MS },
        Op::Run { work: MS },
        Op::SleepUntil { at: 20 * MS },
    ];
    let (end, results) = run(ops);
    assert_eq!(end, 20 * MS, "times are since the start of the workload, not of the task");
    let task = &results.tasks[0];
    assert_eq!((task.account.cpu_ns, task.account.sleeping_ns), (6 * MS, 11 * MS));
}

#[test]
fn a_device_takes_its_time() {
    let (end, results) = run(vec![Op::Run { work: MS }, Op::Device { time: 7 * MS }, Op::Run { work: MS }]);
    assert_eq!((end, results.tasks[0].account.sleeping_ns), (12 * MS, 7 * MS));
}
