//! Processes that end by `exit_group`.

mod support;

use std::iter;

use support::{MS, exact, once, pinned};
use vruntime_report::{Collector, Results};
use vruntime_workload::program::{Follow, Op, Phase, Repeat, Task, Workload};

/// The parent is more urgent, and has the same CPU. Its child wakes it at its end, after 10 ms, or 1 ms before that.
#[test]
fn a_parent_waits_until_its_child_has_left_the_cpu() {
    use vruntime_workload::program::{Policy, Settings};
    let wakes = Op::InboxWake { inbox: 0, from: 0, follow: Follow::Free, sync: false };
    let preempted = |after: &[Op]| {
        let child = pinned(once("child", [&[works(10 * MS), wakes.clone()], after].concat()), &[0]);
        let parent = pinned(once("parent", vec![Op::InboxWait { inbox: 0, from: 0 }, works(MS)]), &[0]);
        let settings = Settings { policy: Some(Policy::Fifo { priority: 50 }), ..parent.settings.clone() };
        let (_, results) = run(vec![child, Task { settings, ..parent }]);
        results.tasks[0].account.involuntary
    };
    assert_eq!(preempted(&[]), 0, "it exits in the kernel");
    assert_eq!(preempted(&[works(MS)]), 1, "it is in user mode");
}

/// A thread of process 1 on that CPU.
fn thread(name: &str, cpu: u32, ops: Vec<Op>) -> Task {
    Task { process: Some(1), ..pinned(once(name, ops), &[cpu]) }
}

/// Runs tasks on two CPUs, without kernel time.
fn run(tasks: Vec<Task>) -> (u64, Results) {
    let workload = Workload {
        tasks,
        pools: vec!["pool".to_owned()],
        inboxes: vec!["inbox".to_owned()],
        duration: Some(1_000 * MS),
        ..Workload::default()
    };
    let mut collector = Collector::new(2);
    let outcome = vruntime_sim::run(&workload, &exact("6.18", "2"), &mut collector).expect("it runs");
    (outcome.end, collector.into_results())
}

fn works(work: u64) -> Op {
    Op::Run { work }
}

fn killer() -> Task {
    thread("killer", 0, vec![works(10 * MS), Op::ExitGroup, works(MS)])
}

/// Runs a thread beside a killer, and expects it to do `rest` after it is killed.
fn killed(sleeps: &[Op], rest: u64) {
    let ops = [sleeps, &[Op::AwaitKill, works(rest)]].concat();
    let (end, results) = run(vec![killer(), thread("killed", 1, ops)]);
    assert_eq!(end, 10 * MS + rest.max(MS), "{sleeps:?}");
    let account = &results.tasks[1].account;
    assert_eq!((account.cpu_ns, account.sleeping_ns), (rest, 10 * MS), "{sleeps:?}");
}

#[test]
fn a_killed_thread_leaves_out_its_sleeps_and_does_its_work() {
    let nap = || [Op::Sleep { time: 4 * MS }, works(MS)];
    let (end, results) =
        run(vec![killer(), thread("naps", 1, [(0..20).flat_map(|_| nap()).collect(), vec![Op::AwaitKill]].concat())]);
    // It naps until 4 and until 9 ms. At 10 ms it works for the last time before it is killed, and has 18 ms left.
    assert_eq!((end, results.tasks[1].account.cpu_ns), (28 * MS, 20 * MS));
    assert_eq!(results.tasks[1].account.sleeping_ns, 8 * MS);
}

#[test]
fn every_kind_of_sleep_ends() {
    killed(&[], 2 * MS);
    killed(&[Op::Sleep { time: 500 * MS }], 2 * MS);
    killed(&[Op::SleepUntil { at: 500 * MS }], 2 * MS);
    killed(&[Op::PoolSleep { pool: 0, work: MS }], 2 * MS);
    killed(&[Op::InboxWait { inbox: 0, from: 0 }], 2 * MS);
    // And those before which it is.
    let all = [
        Op::Sleep { time: 500 * MS },
        Op::Device { time: 500 * MS },
        Op::PoolSleep { pool: 0, work: MS },
        Op::PoolWait { pool: 0, work: MS, time: MS },
        Op::InboxWait { inbox: 0, from: 0 },
    ];
    killed(&all, 2 * MS);
}

/// A woken thread that has no CPU yet is killed on its way.
#[test]
fn a_thread_that_waits_for_a_cpu_is_killed() {
    let ops = vec![Op::Sleep { time: MS }, works(MS), Op::Sleep { time: 500 * MS }, Op::AwaitKill, works(MS)];
    // Both need 13 ms of one CPU.
    let (end, _) = run(vec![killer(), thread("killed", 0, ops)]);
    assert_eq!(end, 13 * MS);
}

/// The sleeps behind it are those of the thread's end.
#[test]
fn after_its_kill_a_thread_sleeps_again() {
    let ops = vec![Op::AwaitKill, Op::Sleep { time: 5 * MS }, works(MS)];
    let (end, _) = run(vec![killer(), thread("killed", 1, ops)]);
    assert_eq!(end, 16 * MS);
}

#[test]
fn without_a_killer_no_thread_waits() {
    let alone = |process| Task { process, ..thread("alone", 1, vec![works(MS), Op::AwaitKill, works(MS)]) };
    assert_eq!(run(vec![alone(Some(1))]).0, 2 * MS);
    // The killer of another process is none.
    for process in [None, Some(2)] {
        assert_eq!(run(vec![alone(process), killer()]).0, 11 * MS);
    }
}

#[test]
fn other_processes_are_not_killed() {
    for process in [None, Some(2)] {
        let other = Task { process, ..thread("other", 1, vec![Op::Sleep { time: 50 * MS }]) };
        assert_eq!(run(vec![killer(), other]).0, 50 * MS);
    }
}

/// A killed thread still does its work, and a fork is part of it. The child would else wait for ever.
#[test]
fn the_child_of_a_killed_thread_is_killed() {
    let parent = thread("parent", 1, vec![Op::Sleep { time: 500 * MS }, Op::Fork(2), Op::AwaitKill]);
    let child =
        Task { start: None, ..thread("child", 1, vec![Op::Sleep { time: 500 * MS }, Op::AwaitKill, works(MS)]) };
    let (end, _) = run(vec![killer(), parent, child]);
    assert_eq!(end, 11 * MS);
}

/// A shell starts a program again and again. Each time, one thread has 20 ms of work, and another helps: the pool is
/// empty at first.
#[test]
fn a_process_that_is_forked_again_has_a_pool_of_its_own() {
    let wake = Op::InboxWake { inbox: 0, from: 0, follow: Follow::Free, sync: false };
    let round = vec![Op::Fork(1), Op::InboxWait { inbox: 0, from: 0 }];
    let shell = Task::new("shell", [Phase { repeat: Repeat::Times(5), ..Phase::forever(round) }]);
    let pool = 0;
    let helps = [Op::PoolHelp { pool, work: 20 * MS }, Op::PoolSleep { pool, work: 0 }];
    let work = (0..20).map(|_| Op::PoolRun { pool, work: MS });
    let main = iter::once(Op::Fork(2)).chain(work).chain(helps.clone()).chain([Op::ExitGroup, wake]);
    let worker = helps.into_iter().chain([Op::AwaitKill]);
    let [main, worker] = [("main", 0, main.collect()), ("worker", 1, worker.collect())]
        .map(|(name, cpu, ops)| Task { start: None, ..thread(name, cpu, ops) });
    let (end, results) = run(vec![shell, main, worker]);
    let had: u64 = results.tasks.iter().map(|task| task.account.cpu_ns).sum();
    assert_eq!(had, 100 * MS, "no work is lost, and none is done twice");
    assert!(end < 52 * MS, "{end}");
}
