//! Tasks that existed before the run: their CPU and state.

mod support;

use support::*;
use vruntime_sched::event::{Event, Running};
use vruntime_workload::program::*;

fn turns(log: &Log, name: &str) -> Vec<(u64, u32)> {
    let wanted = log.of(name);
    let to = |event: &Event| matches!(event, Event::Switch { next: Running::Task(task), .. } if *task == wanted);
    log.events.iter().filter(|(_, _, event)| to(event)).map(|(at, cpu, _)| (*at, cpu.0)).collect()
}

fn ran(machine: &str, tasks: Vec<Task>) -> Log {
    let mut log = Log::default();
    simulate(&workload(tasks), &exact("6.12", machine), &mut log).unwrap();
    log
}

/// Runnable tasks stay on their CPU beside an idle one; a CPU's first one runs.
#[test]
fn a_runnable_task_starts_on_its_recorded_cpu() {
    let was = |before| {
        let hog = |name| Task { before, ..once(name, vec![run(1000)]) };
        ran("4", ["a", "b", "c"].map(hog).to_vec())
    };
    let there = was(Some(Before::Runnable(2)));
    let first = |log: &Log| ["a", "b", "c"].map(|name| turns(log, name)[0]);
    assert_eq!(first(&there)[0], (0, 2));
    assert!(first(&there)[1..].iter().all(|(at, _)| *at > 0), "{:?}", first(&there));
    let forked = first(&was(None));
    assert!(forked.iter().all(|(at, _)| *at == 0), "forked on an idle CPU each: {forked:?}");
}

/// The task's affinity excludes its recorded CPU.
#[test]
fn a_task_that_may_not_run_on_its_recorded_cpu_starts_elsewhere() {
    let log = ran("4", vec![Task { before: Some(Before::Runnable(2)), ..pinned(once("a", vec![run(1000)]), &[1]) }]);
    assert_eq!(turns(&log, "a"), [(0, 1)]);
}

/// The task stays in its wait, without a wakeup.
#[test]
fn a_sleeping_task_starts_in_its_wait() {
    let slept = |name, ops| Task { before: Some(Before::Asleep(3)), ..once(name, ops) };
    let until =
        slept("until", vec![Op::SleepUntil { at: 5 * MS }, run(1000), Op::SleepUntil { at: 9 * MS }, run(1000)]);
    let waits = slept("waits", vec![Op::SemWait(0), run(100), Op::SemWait(0), run(100)]);
    let posts = pinned(once("posts", vec![run(2000), Op::SemPost(0), run(5000), Op::SemPost(0)]), &[0]);
    let log = ran("4", vec![until, waits, posts]);
    assert_eq!(turns(&log, "until"), [(5 * MS, 3), (9 * MS, 3)]);
    let woken: Vec<u64> = turns(&log, "waits").into_iter().map(|(at, _)| at).collect();
    assert_eq!(woken, [2 * MS, 7 * MS]);
    assert_eq!(log.sleeps("until"), [(5 * MS, 0), (9 * MS, 0)]);
}

/// The task's program begins without a wait, or with one that is over.
#[test]
fn a_sleeping_task_that_waits_for_nothing_wakes_at_its_start() {
    let slept = |name, start, ops| Task { before: Some(Before::Asleep(1)), start: Some(start), ..once(name, ops) };
    let works = slept("works", 0, vec![run(100)]);
    let late = slept("late", 3 * MS, vec![Op::SleepUntil { at: MS }, run(100)]);
    let log = ran("2", vec![works, late]);
    assert_eq!((turns(&log, "works"), turns(&log, "late")), (vec![(0, 1)], vec![(3 * MS, 1)]));
}

/// Waker and wakee both change their wakees often (`wake_wide`): the woken task stays on its CPU, though that of the
/// waker has less load.
#[test]
fn tasks_with_many_wakees_leave_these_on_their_cpus() {
    let goes_to = |waker_flips, wakee_flips| {
        let ops = vec![run(2000), Op::SemPost(0), run(50_000)];
        let waker = Task { before: Some(Before::Runnable(0)), wakee_flips: waker_flips, ..once("waker", ops) };
        let ops = vec![Op::SemWait(0), run(100)];
        let wakee = Task { before: Some(Before::Asleep(1)), wakee_flips, ..once("wakee", ops) };
        let hog = |name| Task { before: Some(Before::Runnable(1)), ..pinned(once(name, vec![run(50_000)]), &[1]) };
        let log = ran("2", vec![waker, wakee, hog("a"), hog("b"), hog("c")]);
        turns(&log, "wakee")[0].1
    };
    assert_eq!([goes_to(0, 0), goes_to(100, 1), goes_to(100, 10), goes_to(10, 10)], [0, 0, 1, 0]);
}

/// Two hogs run on CPU 0, and a parent beside two workers on CPU 1. With the averages of forks, three tasks have more
/// load than two. With those of tasks that mostly sleep, CPU 1 has room for the child.
#[test]
fn a_child_stays_beside_tasks_with_low_averages() {
    let goes_to = |averages| {
        let there =
            |name, cpu, averages, ops| Task { before: Some(Before::Runnable(cpu)), averages, ..once(name, ops) };
        let hog = |name| pinned(there(name, 0, None, vec![run(50_000)]), &[0]);
        let worker = |name| there(name, 1, averages, vec![run(20_000)]);
        let child = Task { start: None, ..once("child", vec![run(1000)]) };
        let parent = there("parent", 1, averages, vec![run(100), Op::Fork(5), run(20_000)]);
        let tasks = vec![parent, worker("a"), worker("b"), hog("c"), hog("d"), child];
        turns(&ran("2", tasks), "child")[0].1
    };
    assert_eq!(goes_to(None), 0);
    assert_eq!(goes_to(Some(Averages { runnable: 100, running: 50 })), 1);
}

/// The averages of a sleeping task are part of its CPU's load: a child is forked onto the other CPU.
#[test]
fn sleeping_tasks_leave_their_load_behind() {
    let goes_to = |averages| {
        let asleep = |name| Task {
            before: Some(Before::Asleep(1)),
            averages,
            ..once(name, vec![Op::SleepUntil { at: 40 * MS }, run(1000)])
        };
        let hog =
            |name, cpu| pinned(Task { before: Some(Before::Runnable(cpu)), ..once(name, vec![run(50_000)]) }, &[cpu]);
        let child = Task { start: None, ..once("child", vec![run(1000)]) };
        let ops = vec![run(100), Op::Fork(5), run(20_000)];
        let parent = Task { before: Some(Before::Runnable(1)), ..once("parent", ops) };
        let tasks = vec![parent, hog("a", 0), hog("b", 1), asleep("c"), asleep("d"), child];
        turns(&ran("2", tasks), "child")[0].1
    };
    assert_eq!(goes_to(None), 1);
    assert_eq!(goes_to(Some(Averages { runnable: 1024, running: 1024 })), 0);
}
