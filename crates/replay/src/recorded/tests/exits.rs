//! Processes that end.

use super::*;

const SHELL: Named<'static> = Named { pid: 5, comm: b"sh" };
const ROUNDS: i32 = 6;

/// The threads of the process of a round.
fn threads(round: i32) -> [Named<'static>; 3] {
    [0, 1, 2].map(|thread| task(100 + 10 * round + thread, "job"))
}

/// What the third thread of a process does before its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Third {
    Sleeps,
    Awake,
    /// It naps twice after its work, as a thread that looks for work.
    Looks,
}

/// In each round of 20 ms, a shell starts a process of three threads. The first works for 8 ms, and then ends the
/// process. The second naps, and wakes the shell at the end. The third works for 8 ms ([`Third::Awake`]), or for 2 ms.
fn rounds(third_thread: Third) -> Script {
    let mut script = Script { context: Some(Context::Task), ..Script::default() };
    script.wake(0, 0, SHELL).switch(0, 0, Left::Runnable, Some(SHELL));
    for round in 0..ROUNDS {
        let at = u64::try_from(round).unwrap() * 20 * MS + 10 * US;
        let [main, naps, third] = threads(round);
        let mut fork = |at, parent, child, thread| {
            script.event(at, 0, What::Fork { parent, child, thread: Some(thread) });
            script.event(at, 0, What::WokenNew { task: child, prio: 120 });
        };
        fork(at, SHELL, main, false);
        script.switch(at, 0, Left::Sleeping, Some(main));
        let mut fork = |child| {
            script.event(at + 10 * US, 0, What::Fork { parent: main, child, thread: Some(true) });
            script.event(at + 10 * US, 0, What::WokenNew { task: child, prio: 120 });
        };
        fork(naps);
        fork(third);
        script.switch(at + 20 * US, 1, Left::Runnable, Some(naps)).switch(at + 30 * US, 1, Left::Sleeping, Some(third));
        for nap in 1..=4 {
            script.context = Some(Context::Hardirq);
            script.wake(at + nap * 500 * US, 2, naps).context = Some(Context::Task);
            script.switch(at + nap * 500 * US, 2, Left::Runnable, Some(naps));
            script.switch(at + nap * 500 * US + 10 * US, 2, Left::Sleeping, None);
        }
        if third_thread != Third::Awake {
            script.switch(at + 2 * MS, 1, Left::Sleeping, None);
        }
        for nap in (1..=2).filter(|_| third_thread == Third::Looks) {
            let at = at + 2 * MS + nap * 200 * US;
            script.context = Some(Context::Hardirq);
            script.wake(at, 1, third).context = Some(Context::Task);
            script.switch(at, 1, Left::Runnable, Some(third)).switch(at + 10 * US, 1, Left::Sleeping, None);
        }
        let end = at + 8 * MS;
        script.wake(end, 0, naps);
        if third_thread != Third::Awake {
            script.wake(end, 0, third).switch(end, 1, Left::Runnable, Some(third));
        }
        script.switch(end + 20 * US, 1, Left::Dead, None).switch(end + 30 * US, 0, Left::Dead, None);
        script.switch(end + 30 * US, 2, Left::Runnable, Some(naps)).wake(end + MS, 2, SHELL);
        script.switch(end + MS, 0, Left::Runnable, Some(SHELL)).switch(end + MS + 10 * US, 2, Left::Dead, None);
    }
    script
}

fn exits(op: &Op) -> bool {
    matches!(op, Op::ExitGroup | Op::AwaitKill)
}

/// Of all tasks, only the shell waits for a wakeup. A killed thread waits to be killed at the place in its program
/// where it was killed.
#[test]
fn a_thread_ends_its_process() {
    for third in [Third::Sleeps, Third::Awake, Third::Looks] {
        let recorded = rounds(third).finish();
        for round in 0..ROUNDS {
            let [main, naps, third] = threads(round).map(|thread| ops(&recorded, thread.pid));
            let ends = |ops: &[Op]| ops.iter().filter(|op| exits(op)).cloned().collect::<Vec<_>>();
            assert_eq!(ends(&main), [Op::ExitGroup], "{main:?}");
            assert!(!main.iter().any(|op| matches!(op, Op::InboxWake { .. })), "{main:?}");
            for killed in [naps, third] {
                assert_eq!(ends(&killed), [Op::AwaitKill], "{killed:?}");
                assert!(!killed.iter().any(|op| matches!(op, Op::InboxWait { .. })), "{killed:?}");
            }
        }
    }
}

/// The third thread is killed after 8 ms of work. The 20 us that its exit takes follow.
#[test]
fn a_thread_that_is_awake_is_killed_where_it_is() {
    let recorded = rounds(Third::Awake).finish();
    let third = ops(&recorded, threads(0)[2].pid);
    let work = |ops: &[Op]| ops.iter().map(|op| if let Op::Run { work } = *op { work } else { 0 }).sum::<u64>();
    let killed = third.iter().position(exits).expect("it is killed");
    assert_eq!((work(&third[..killed]), work(&third[killed..])), (8 * MS - 30 * US, 20 * US), "{third:?}");
}

/// The first thread awaits the others one after the other (`pthread_join`). Each ends alone, and wakes the first. After
/// the last one, the first ends, too.
#[test]
fn threads_that_are_awaited_end_alone() {
    for others in 1..=2 {
        let [main, one, two] = threads(0);
        let processes = [main, one, two].map(|thread| (thread.pid, (main.pid, 1)));
        let recorder = Recorder::default().with_processes(processes);
        let mut script = Script { recorder, threads_only: true, context: Some(Context::Task), ..Script::default() };
        script.wake(0, 0, main).switch(0, 0, Left::Runnable, Some(main));
        for other in [one, two].into_iter().take(others) {
            script.event(10 * US, 0, What::Fork { parent: main, child: other, thread: Some(true) });
            script.event(10 * US, 0, What::WokenNew { task: other, prio: 120 });
        }
        script.switch(20 * US, 0, Left::Sleeping, Some(one));
        script.wake(5 * MS, 0, main).switch(5 * MS, 0, Left::Dead, Some(main));
        if others == 2 {
            script.switch(20 * US, 1, Left::Runnable, Some(two)).switch(4 * MS, 1, Left::Sleeping, None);
            script.wake(6 * MS, 0, two).switch(6 * MS, 0, Left::Sleeping, Some(two));
            script.wake(9 * MS, 0, main).switch(9 * MS, 0, Left::Dead, Some(main));
        }
        script.switch(12 * MS, 0, Left::Dead, None);
        let recorded = script.finish();
        let ends = recorded.threads.iter().flat_map(|thread| ops(&recorded, thread.pid)).filter(exits).count();
        assert_eq!(ends, 0, "{others}");
    }
}

#[test]
fn a_process_with_a_thread_that_lasts_does_not_end() {
    let mut script = rounds(Third::Sleeps);
    let (main, other) = (task(900, "job"), task(901, "job"));
    let at = 200 * MS;
    script.wake(at, 0, main).switch(at, 0, Left::Runnable, Some(main));
    script.wake(at + MS, 0, other).switch(at + MS, 1, Left::Runnable, Some(other)).switch(at + MS, 0, Left::Dead, None);
    script.switch(at + 2 * MS, 1, Left::Sleeping, None);
    let recorded = script.finish();
    assert!(![main, other].iter().any(|thread| ops(&recorded, thread.pid).iter().any(exits)));
}

/// The napping thread sleeps by timers, and wakes the shell. So only the thread that ended the process is a reason why
/// the shell's loop is closed.
#[test]
fn a_loop_that_waits_for_the_end_of_processes_is_closed() {
    let mut script = rounds(Third::Sleeps);
    let recorded = std::mem::take(&mut script.recorder).going_on().finish(&Lateness::default());
    let shell = recorded.threads.iter().find(|thread| thread.pid == SHELL.pid).expect("it is in the trace");
    assert!(shell.closed);
    let waits = ops(&recorded, SHELL.pid).iter().filter(|op| matches!(op, Op::InboxWait { .. })).count();
    assert!(waits >= ROUNDS as usize - 1, "{waits}");
}

/// All processes of one name are one choice, and each process has a pool. Threads that do not look for work have no
/// pool.
#[test]
fn threads_of_processes_that_end_are_pools_if_they_look_for_work() {
    assert_eq!(rounds(Third::Sleeps).finish().pools, [""; 0]);
    let recorded = rounds(Third::Looks).finish();
    assert_eq!(recorded.pools, ["job"]);
    assert_eq!(recorded.workload.pools.len(), ROUNDS as usize);
    let pooled =
        std::mem::take(&mut rounds(Third::Looks).recorder).with_pools(1).going_on().finish(&Lateness::default());
    // The repetition lacks the last round.
    let pools: BTreeSet<usize> = (0..ROUNDS - 1)
        .map(|round| {
            let ops = ops(&pooled, threads(round)[0].pid);
            let pool = ops.iter().find_map(|op| if let Op::PoolRun { pool, .. } = *op { Some(pool) } else { None });
            pool.unwrap_or_else(|| panic!("{ops:?}"))
        })
        .collect();
    assert_eq!(pools.len(), ROUNDS as usize - 1);
}

/// Returns the operations of a child that wakes its parent `tail` ns before its end.
fn last_of_a_child(tail: u64) -> Vec<Op> {
    let child = task(20, "child");
    let mut script = Script { context: Some(Context::Task), ..Script::default() };
    script.wake(0, 0, SHELL).switch(0, 0, Left::Runnable, Some(SHELL));
    script.event(MS, 0, What::Fork { parent: SHELL, child, thread: Some(false) });
    script.event(MS, 0, What::WokenNew { task: child, prio: 120 });
    script.switch(MS, 0, Left::Sleeping, Some(child)).wake(5 * MS - tail, 0, SHELL);
    script.switch(5 * MS, 0, Left::Dead, Some(SHELL)).switch(6 * MS, 0, Left::Sleeping, None);
    script.event(9 * MS, 0, What::End);
    ops(&script.finish(), child.pid)
}

#[test]
fn the_parent_is_woken_at_the_very_end() {
    let wakes = Op::InboxWake { inbox: 0, from: 1, follow: Follow::Free, sync: false };
    assert_eq!(last_of_a_child(4 * US), [Op::Run { work: 4 * MS }, wakes.clone()]);
    assert_eq!(last_of_a_child(MS), [Op::Run { work: 3 * MS }, wakes, Op::Run { work: MS }]);
}
