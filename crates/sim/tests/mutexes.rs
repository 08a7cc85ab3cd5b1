//! Which task has a mutex, and which waits, to the nanosecond, on a machine without other costs.

mod support;

use support::*;
use vruntime_sim::Config;
use vruntime_workload::program::*;

/// The mutex that is handed over without priority inheritance.
const HANDED: usize = 4;

#[test]
fn a_mutex_is_held_by_one_at_a_time_and_waited_for_in_order() {
    for mutex in [0, 2, HANDED] {
        let section = [Op::Lock(mutex), run(100), Op::Unlock(mutex)];
        let late = [run(10), Op::Lock(mutex), run(100), Op::Unlock(mutex)];
        let later = [run(20), Op::Lock(mutex), run(100), Op::Unlock(mutex)];
        assert_eq!(ends(&[&section, &later, &late]), [Some(100), Some(300), Some(200)]);
    }
}

#[test]
fn an_ordinary_mutex_can_be_retaken_others_are_handed_over() {
    // A task that locks right after its unlock gets an ordinary mutex before the woken waiter runs.
    let ends_with = |mutex| {
        let greedy = [Op::Lock(mutex), run(100), Op::Unlock(mutex), Op::Lock(mutex), run(50), Op::Unlock(mutex)];
        ends(&[&greedy, &[run(10), Op::Lock(mutex), run(1), Op::Unlock(mutex)]])
    };
    assert_eq!(ends_with(0), [Some(150), Some(151)]);
    assert_eq!(ends_with(2), [Some(151), Some(101)]);
    assert_eq!(ends_with(HANDED), [Some(151), Some(101)]);
}

#[test]
fn a_task_tries_to_lock_until_a_timeout_or_a_nudge() {
    let owner = [Op::Lock(HANDED), run(100), Op::Nudge(HANDED), run(100), Op::Unlock(HANDED)];
    let tries = |time: Option<u64>| Op::TryLock { mutex: HANDED, time };
    let section = [Op::EnsureLock(HANDED), run(1), Op::Unlock(HANDED)];
    let timed = [&[run(10), tries(Some(50 * US)), run(5)][..], &section].concat();
    assert_eq!(ends(&[&owner, &timed[..3]]), [Some(200), Some(65)], "it continues without the mutex");
    assert_eq!(ends(&[&owner, &timed]), [Some(200), Some(201)]);
    assert_eq!(ends(&[&owner, &[run(10), tries(None), run(5)]]), [Some(200), Some(105)], "until the nudge");
    // It has the mutex before its timeout.
    assert_eq!(ends(&[&owner, &[run(110), tries(Some(150 * US)), run(5)]]), [Some(200), Some(205)]);
    assert_eq!(ends(&[&[&[Op::Lock(HANDED), tries(None)], &section[..]].concat()]), [Some(1)], "it has it already");
    // No task waits.
    assert_eq!(ends(&[&[Op::Nudge(HANDED), Op::Nudge(0), run(3)]]), [Some(3)]);
}

#[test]
fn a_task_that_was_nudged_gets_the_mutex_before_the_one_that_unlocks() {
    // The nudged task is awake, but has no CPU yet.
    let owner = [Op::Lock(HANDED), run(100), Op::Nudge(HANDED), run(5), Op::Unlock(HANDED), Op::Lock(HANDED), run(50)];
    let tries = [run(10), Op::TryLock { mutex: HANDED, time: None }, run(20), Op::Unlock(HANDED)];
    let other = [run(1), sleep(89), run(30)];
    let tasks = [("owner", 0, &owner[..]), ("tries", 1, &tries), ("other", 1, &other)];
    let tasks = tasks.map(|(name, cpu, ops)| pinned(once(name, ops.to_vec()), &[cpu]));
    let mut log = Log::default();
    let config = Config { duration: Some(1_000 * MS), ..exact("6.12", "2") };
    simulate(&workload(tasks.to_vec()), &config, &mut log).unwrap();
    let ended = |name| log.exit(name).map(|ns| ns / US);
    let [owner, tries] = ["owner", "tries"].map(|name| ended(name).unwrap());
    assert!(tries < owner && owner == tries + 50, "{owner} {tries}");
}
