//! Tasks that compute until the trace ends.

use super::*;

/// Returns whether each task continues forever. At the start, `a` runs on CPU 1 and `b` waits there. The events of
/// `rest` follow.
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
fn a_task_that_waits_for_a_cpu_at_the_end_continues() {
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
    // The last burst is too long, or the sleep began too long before the end.
    assert!(!stopped(192 * MS, 6 * MS));
    assert!(!stopped(190 * MS, 100 * US));
}

#[test]
fn a_task_that_sleeps_now_and_then_does_not_continue() {
    let slept = goes_on(|script, [a, b]| {
        script.switch(90 * MS, 1, Left::Sleeping, Some(b)).wake(101 * MS, 1, a);
        script.switch(111 * MS, 1, Left::Sleeping, Some(a)).switch(200 * MS, 1, Left::Dead, None);
    });
    assert_eq!(slept, [false, false], "the one for 11 ms, the other long before the end");
}

/// The replay does once what a task did before it computed to the end of the trace.
#[test]
fn a_task_that_forks_and_then_computes_forks_once() {
    let [parent, child] = [task(5, "a"), task(6, "b")];
    let mut script = Script::default();
    script.wake(0, 0, parent).switch(0, 0, Left::Runnable, Some(parent));
    script.event(MS, 0, What::Fork { parent, child, thread: None }).event(
        MS,
        0,
        What::WokenNew { task: child, prio: 120 },
    );
    script.switch(2 * MS, 0, Left::Sleeping, Some(child)).switch(3 * MS, 0, Left::Sleeping, None);
    script.wake(4 * MS, 0, parent).switch(4 * MS, 0, Left::Runnable, Some(parent));
    script.switch(400 * MS, 0, Left::Dead, None);
    let recorded = script.finish();
    let of =
        |pid: i32| recorded.threads.iter().find(|thread| thread.pid == pid).and_then(|thread| thread.task).unwrap();
    let forks: Vec<&Op> = recorded.workload.tasks[of(5)].phases.iter().flat_map(|phase| &phase.ops).collect();
    assert_eq!(forks.iter().filter(|op| ***op == Op::Fork(of(6))).count(), 1, "{forks:?}");
    assert_eq!(recorded.workload.tasks[of(6)].start, None, "it does not begin a second time by itself");
}

/// Two tasks that yield the CPU after a moment do not compute, even right after a tick.
#[test]
fn tasks_that_yield_do_not_compute() {
    let [a, b] = [task(5, "a"), task(6, "b")];
    let mut script = Script::default();
    script.wake(0, 1, a).wake(0, 1, b).switch(0, 1, Left::Runnable, Some(a));
    for turn in 0..2_000_u64 {
        let next = if turn % 2 == 0 { b } else { a };
        script.switch((turn + 1) * 100 * US, 1, Left::Runnable, Some(next));
    }
    let recorded = script.finish();
    assert_eq!(recorded.counts.endless, 0);
    let yields = |task: &vruntime_workload::program::Task| {
        task.phases.iter().flat_map(|phase| &phase.ops).filter(|op| **op == Op::Yield).count()
    };
    assert!(recorded.workload.tasks.iter().all(|task| yields(task) > 900), "{:?}", recorded.workload.tasks);
}

/// A thread never sleeps because each thread that it wakes preempts it: it drives the woken thread. A thread that only
/// interrupts hit drives no other.
#[test]
fn a_thread_that_drives_another_does_not_only_compute() {
    let [driver, driven] = [task(5, "driver"), task(6, "driven")];
    let recorded = |context: Context| {
        let mut script = Script { context: Some(Context::Task), ..Script::default() };
        script.switch(0, 0, Left::Runnable, Some(driver));
        for round in 1..=20 {
            let at = round * 10 * MS;
            script.context = Some(context);
            script.wake(at, 0, driven);
            script.context = Some(Context::Task);
            script.switch(at + US, 0, Left::Runnable, Some(driven));
            script.switch(at + round % 3 * MS, 0, Left::Sleeping, Some(driver));
        }
        script.event(205 * MS, 0, What::Rename { task: IDLE });
        script.finish()
    };
    let by_calls = recorded(Context::Task);
    assert_eq!((by_calls.counts.endless, habit(&by_calls, 6)), (0, Habit::Woken));
    assert_eq!(ops(&by_calls, 5).iter().filter(|op| **op == wake(0)).count(), 20);
    let by_interrupts = recorded(Context::Hardirq);
    assert_eq!((by_interrupts.counts.endless, habit(&by_interrupts, 6)), (1, Habit::Periodic));
}

/// Two servers wake one client in turns, and never sleep. The client has one wakeup more.
#[test]
fn threads_that_drive_another_in_turns_do_not_only_compute() {
    let [first, second, driven] = [task(5, "first"), task(6, "second"), task(7, "driven")];
    let mut script = Script { context: Some(Context::Task), ..Script::default() };
    script.switch(0, 0, Left::Runnable, Some(first)).switch(0, 1, Left::Runnable, Some(second));
    script.switch(MS, 0, Left::Runnable, Some(driven)).switch(2 * MS, 0, Left::Sleeping, Some(first));
    for round in 1..=20 {
        let (at, cpu) = (round * 10 * MS, (round % 2) as usize);
        script.wake(at, cpu, driven).switch(at + US, cpu, Left::Runnable, Some(driven));
        script.switch(at + round % 3 * MS, cpu, Left::Sleeping, Some([first, second][cpu]));
    }
    script.event(205 * MS, 0, What::Rename { task: IDLE });
    assert_eq!(script.finish().counts.endless, 0);
}

/// A thread works for 8 ms and sleeps. Then it waits for a CPU nearly all the time, and runs for `had`.
#[test]
fn a_starved_thread_does_not_compute_without_end() {
    let [starved, hog] = [task(5, "starved"), task(6, "hog")];
    let endless = |had: u64| {
        let mut script = Script::default();
        script.switch(0, 0, Left::Runnable, None).burst(MS, 0, starved, 8 * MS);
        script.switch(20 * MS, 0, Left::Runnable, Some(hog)).wake(30 * MS, 0, starved);
        script.switch(50 * MS, 0, Left::Preempted, Some(starved)).switch(50 * MS + had, 0, Left::Preempted, Some(hog));
        script.event(200 * MS, 0, What::Charged { task: hog, ns: MS });
        let recorded = script.finish();
        let of_starved = &recorded.workload.tasks[recorded.threads[0].task.expect("it is replayed")];
        assert_eq!(of_starved.class, "starved");
        of_starved.phases.iter().any(|phase| phase.repeat == Repeat::Forever)
    };
    assert_eq!([endless(5 * MS), endless(12 * MS)], [false, true]);
}
