//! Pools of tasks that do each other's work.

mod support;

use proptest::prelude::*;
use support::{MS, exact};
use vruntime_report::{Collector, Results};
use vruntime_workload::program::{Op, Phase, Settings, Task, Workload};

/// The least work that a member takes from others, nanoseconds.
const LEAST: u64 = 10_000;

fn member(name: &str, ops: Vec<Op>) -> Task {
    Task::new(name, [Phase::times(1, ops)])
}

fn pinned(task: Task, cpu: u32) -> Task {
    Task { settings: Settings { cpus: Some(vec![cpu]), ..task.settings }, ..task }
}

/// Runs tasks of one pool on two CPUs, without kernel time. Returns the end.
fn run(tasks: Vec<Task>) -> (u64, Results) {
    run_on("2", tasks)
}

fn run_on(topology: &str, tasks: Vec<Task>) -> (u64, Results) {
    let workload =
        Workload { tasks, pools: vec!["pool".to_owned()], duration: Some(60_000 * MS), ..Workload::default() };
    let mut collector = Collector::new(3);
    let outcome = vruntime_sim::run(&workload, &exact("6.18", topology), &mut collector).expect("it runs");
    (outcome.end, collector.into_results())
}

fn works(work: u64) -> Op {
    Op::PoolRun { pool: 0, work }
}

fn helps(work: u64) -> Op {
    Op::PoolHelp { pool: 0, work }
}

fn cpu_ns(results: &Results) -> Vec<u64> {
    results.tasks.iter().map(|task| task.account.cpu_ns).collect()
}

/// Of 40 ms, one has to do 30 and the other 10. The latter takes over half of the other's rest.
#[test]
fn a_member_with_no_work_left_helps() {
    let alone =
        || vec![pinned(member("much", vec![works(30 * MS)]), 0), pinned(member("little", vec![works(10 * MS)]), 1)];
    let (end, results) = run(alone());
    assert_eq!((end, cpu_ns(&results)), (30 * MS, vec![30 * MS, 10 * MS]));

    let mut tasks = alone();
    tasks[0] = pinned(member("much", (0..30).map(|_| works(MS)).collect()), 0);
    tasks[1] = pinned(member("little", vec![works(10 * MS), helps(40 * MS)]), 1);
    let (end, results) = run(tasks);
    let had = cpu_ns(&results);
    assert_eq!(had.iter().sum::<u64>(), 40 * MS, "no work is lost, and none is done twice");
    assert!(end < 21 * MS, "{end}");
}

#[test]
fn no_member_helps_with_work_not_yet_requested() {
    let much = pinned(member("much", (0..30).map(|_| works(MS)).collect()), 0);
    let little = pinned(member("little", vec![works(10 * MS), helps(20 * MS)]), 1);
    let (end, results) = run(vec![much, little]);
    assert_eq!((end, cpu_ns(&results)), (30 * MS, vec![30 * MS, 10 * MS]));
}

/// A helper takes a chunk at a time. So a later one helps, too.
#[test]
fn several_members_may_help() {
    let much = pinned(member("much", (0..30).map(|_| works(MS)).collect()), 0);
    let helper = |cpu: u32, name: &str| {
        let ops = vec![Op::Sleep { time: u64::from(cpu) * MS }, helps(30 * MS)];
        pinned(member(name, ops), cpu)
    };
    let (end, results) = run_on("3", vec![much, helper(1, "first"), helper(2, "second")]);
    let had = cpu_ns(&results);
    assert_eq!(had.iter().sum::<u64>(), 30 * MS);
    // They have 1 ms less and 2 ms less than the first.
    assert!(end < 12 * MS, "{end}: {had:?}");
}

#[test]
fn the_member_that_brings_the_pool_far_enough_wakes_the_waiter() {
    let worker = pinned(member("worker", vec![works(25 * MS)]), 0);
    let waiter = pinned(member("waiter", vec![Op::PoolSleep { pool: 0, work: 10 * MS }, works(MS)]), 1);
    let (end, results) = run(vec![worker, waiter]);
    assert_eq!((end, cpu_ns(&results)), (25 * MS, vec![25 * MS, MS]));
    let slept = results.tasks[1].account.sleeping_ns;
    assert!((10 * MS..=10 * MS + LEAST).contains(&slept), "{slept}");
}

#[test]
fn a_polling_task_sleeps_until_the_pool_is_far_enough() {
    let poll = |work: u64| vec![Op::PoolWait { pool: 0, work, time: MS }, works(MS)];
    let slept = |work: u64, others: u64| {
        let worker = pinned(member("worker", vec![works(others)]), 0);
        let (_, results) = run(vec![worker, pinned(member("poller", poll(work)), 1)]);
        results.tasks[1].account.sleeping_ns
    };
    assert_eq!(slept(0, 25 * MS), 0, "the pool has done that already");
    assert_eq!(slept(10 * MS, 25 * MS), 10 * MS);
    assert_eq!(slept(10 * MS + 1, 25 * MS), 11 * MS);
    assert_eq!(slept(10 * MS, 5 * MS + 1), 6 * MS, "it continues when no member has work left");
}

proptest! {
    /// Members with any work wait for what the pool can do without them. All end, with all work done once.
    #[test]
    fn all_work_is_done_once(
        work in prop::collection::vec(prop::collection::vec(1_u64..3_000, 1..8), 2..6),
        sleeps in any::<bool>(),
        pins in prop::collection::vec(0_u32..3, 6),
    ) {
        // In rounds: a member waits until the pool has done all of the rounds before.
        let rounds = work.iter().map(Vec::len).max().unwrap_or(0);
        let of_round = |round: usize| work.iter().filter_map(|own| own.get(round)).sum::<u64>() * 1_000;
        let tasks: Vec<Task> = work.iter().enumerate().map(|(index, own)| {
            let mut ops = Vec::new();
            for round in 0..rounds {
                ops.extend(own.get(round).map(|&work| works(work * 1_000)));
                ops.push(helps(of_round(round)));
                if sleeps {
                    ops.push(Op::PoolSleep { pool: 0, work: 0 });
                }
            }
            let task = member(&format!("m{index}"), ops);
            if pins[index] < 2 { pinned(task, pins[index]) } else { task }
        }).collect();
        let (end, results) = run(tasks);
        prop_assert!(end < 60_000 * MS, "they come to an end");
        let done: u64 = cpu_ns(&results).iter().sum();
        prop_assert_eq!(done, (0..rounds).map(of_round).sum::<u64>());
    }
}
