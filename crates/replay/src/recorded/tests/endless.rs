//! Who computes until the trace ends.

use super::*;

/// Of each thread whether it goes on for ever, when `a` and `b` are there from the start, `a` on CPU 1, and `rest`
/// follows.
fn goes_on(rest: impl FnOnce(&mut Script, [Named<'static>; 2])) -> Vec<bool> {
    let tasks = [task(5, "a"), task(6, "b")];
    let mut script = Script::default();
    script.wake(0, 1, tasks[0]).wake(0, 1, tasks[1]).switch(0, 1, Left::Runnable, Some(tasks[0]));
    rest(&mut script, tasks);
    let recorded = script.finish();
    let forever =
        |task: &vruntime_workload::program::Task| task.phases.last().is_some_and(|last| last.repeat == Repeat::Forever);
    let found: Vec<bool> = recorded.workload.tasks.iter().map(forever).collect();
    assert_eq!(recorded.counts.endless, found.iter().filter(|forever| **forever).count() as u64);
    found
}

#[test]
fn who_waits_for_a_cpu_at_the_end_goes_on() {
    let starved = goes_on(|script, [a, b]| {
        script.switch(10 * MS, 1, Left::Runnable, Some(b)).switch(11 * MS, 1, Left::Runnable, Some(a));
        script.switch(200 * MS, 1, Left::Dead, None);
    });
    assert_eq!(starved, [true, true]);
}

/// A recorder that stops its threads wakes each once more for that.
#[test]
fn crumbs_at_the_end_do_not_count() {
    let stopped = |sleeps: u64, crumbs: u64| {
        let found = goes_on(|script, [a, b]| {
            script.switch(sleeps, 1, Left::Sleeping, Some(b)).wake(sleeps + MS / 2, 1, a);
            script.switch(sleeps + MS, 1, Left::Sleeping, Some(a));
            script.switch(sleeps + MS + crumbs, 1, Left::Sleeping, None);
            script.event(200 * MS, 0, What::Rename { task: IDLE });
        });
        found[0]
    };
    assert!(stopped(198 * MS, 100 * US));
    // It does as much as somebody who has something to do, or slept long before the end.
    assert!(!stopped(192 * MS, 6 * MS));
    assert!(!stopped(190 * MS, 100 * US));
}

#[test]
fn who_sleeps_now_and_then_does_not_go_on() {
    let slept = goes_on(|script, [a, b]| {
        script.switch(90 * MS, 1, Left::Sleeping, Some(b)).wake(101 * MS, 1, a);
        script.switch(111 * MS, 1, Left::Sleeping, Some(a)).switch(200 * MS, 1, Left::Dead, None);
    });
    assert_eq!(slept, [false, false], "the one for 11 ms, the other long before the end");
}
