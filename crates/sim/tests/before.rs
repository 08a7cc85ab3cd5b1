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
fn who_ran_is_where_he_was() {
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

/// The affinity excludes its recorded CPU.
#[test]
fn who_may_not_run_where_he_was_is_elsewhere() {
    let log = ran("4", vec![Task { before: Some(Before::Runnable(2)), ..pinned(once("a", vec![run(1000)]), &[1]) }]);
    assert_eq!(turns(&log, "a"), [(0, 1)]);
}

/// It stays in its wait, without a wakeup.
#[test]
fn who_slept_is_in_his_wait() {
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

/// Its program begins without a wait, or with one that is over.
#[test]
fn who_slept_and_waits_for_nothing_wakes_at_his_start() {
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
