//! Pools, and the threads that look after them.

use super::*;

const WORKERS: [Named<'static>; 2] = [Named { pid: 11, comm: b"worker" }, Named { pid: 12, comm: b"worker" }];
const MONITOR: Named<'static> = Named { pid: 13, comm: b"worker" };
const FORKED: Named<'static> = Named { pid: 14, comm: b"worker" };

/// In each round of 10 ms one worker works for 4 ms, wakes the other and sleeps; the other works for 4 ms. A timer
/// wakes the monitor, which works for 5 us and wakes the first worker. In round 4 the monitor forks a third worker,
/// which is woken by the second from then on.
fn rounds(processes: &[(i32, (i32, i32))]) -> Recorded {
    const MONITOR_WORKS: u64 = 5 * US;
    let mut script = Script { threads_only: !processes.is_empty(), ..Script::default() };
    let [one, two] = WORKERS;
    let by = |script: &mut Script, context| script.context = context;
    for round in 0..20 {
        let at = round * 10 * MS;
        by(&mut script, Some(Context::Hardirq));
        script.wake(at, 0, MONITOR);
        by(&mut script, Some(Context::Task));
        script.switch(at + 10 * US, 0, Left::Runnable, Some(MONITOR));
        if round == 4 {
            script.event(at + 12 * US, 0, What::Fork { parent: MONITOR, child: FORKED, thread: Some(true) });
            script.event(at + 12 * US, 0, What::WokenNew { task: FORKED, prio: 120 });
        }
        script.wake(at + 10 * US + MONITOR_WORKS / 2, 0, one);
        script.switch(at + 10 * US + MONITOR_WORKS, 0, Left::Sleeping, Some(one));
        script.wake(at + 4 * MS, 0, two);
        if round > 4 {
            script.wake(at + 4 * MS, 0, FORKED);
        }
        script.switch(at + 4 * MS + 10 * US, 0, Left::Sleeping, Some(two));
        if round >= 4 {
            script.switch(at + 4 * MS + 10 * US, 1, Left::Runnable, Some(FORKED));
            script.switch(at + 8 * MS, 1, Left::Sleeping, None);
        }
        script.switch(at + 8 * MS, 0, Left::Sleeping, None);
    }
    let recorder = std::mem::take(&mut script.recorder).with_processes(processes.iter().copied());
    recorder.with_pools(1).going_on().finish(&Lateness::default())
}

#[test]
fn members_that_an_attendant_wakes_or_forks_wait_for_the_progress_of_the_pool() {
    let recorded = rounds(&[]);
    assert_eq!(recorded.pools, ["worker"]);
    let pooled = |op: &Op| matches!(op, Op::PoolRun { .. } | Op::PoolHelp { .. } | Op::PoolWait { .. });
    let monitor = ops(&recorded, MONITOR.pid);
    assert!(!monitor.iter().any(pooled), "{monitor:?}");
    assert!(!monitor.iter().any(|op| matches!(op, Op::InboxWake { .. } | Op::Fork(_))), "{monitor:?}");
    let first = ops(&recorded, WORKERS[0].pid);
    let slept = first.iter().filter(|op| matches!(op, Op::PoolSleep { .. })).count();
    assert!(slept >= 19 && first.iter().any(pooled), "{first:?}");
    // What the pool had done at the fork.
    let done: u64 = 4 * (8 * MS - 10 * US - 5 * US) - 4 * 10 * US;
    let forked = ops(&recorded, FORKED.pid);
    let Some(&Op::PoolSleep { pool: 0, work }) = forked.first() else { panic!("{forked:?}") };
    assert!(work.abs_diff(done) < 100 * US, "{work} {done}");
    let task = recorded.workload.tasks.iter().find(|task| task.name == "worker-14").expect("it is replayed");
    assert_eq!(task.start, Some(0));
}

#[test]
fn a_thread_that_works_between_timers_is_a_member() {
    // It works for 10 us after each timer, and for 2 ms after each wakeup by another.
    let recorded = {
        let mut script = Script::default();
        let [one, two] = WORKERS;
        for round in 0..20 {
            let at = round * 10 * MS;
            script.context = Some(Context::Hardirq);
            script.wake(at, 0, one);
            script.context = Some(Context::Task);
            script.switch(at + 10 * US, 0, Left::Runnable, Some(one));
            script.switch(at + 20 * US, 0, Left::Sleeping, Some(two));
            script.wake(at + 3 * MS, 0, one).switch(at + 3 * MS, 0, Left::Sleeping, Some(one));
            script.wake(at + 5 * MS, 0, two).switch(at + 5 * MS, 0, Left::Sleeping, Some(two));
            script.switch(at + 9 * MS, 0, Left::Sleeping, None);
        }
        std::mem::take(&mut script.recorder).with_pools(1).going_on().finish(&Lateness::default())
    };
    for worker in WORKERS {
        let ops = ops(&recorded, worker.pid);
        assert!(ops.iter().any(|op| matches!(op, Op::PoolRun { .. })), "{ops:?}");
    }
}

/// A thread of Go that looks for work naps between two looks. A monitor also works when timers wake it, but naps for
/// longer than it works.
#[test]
fn a_thread_that_naps_only_while_it_looks_for_work_is_a_member() {
    let pools = |works: u64| {
        let mut script = Script::default();
        let [one, two] = WORKERS;
        for round in 0..20 {
            let at = round * 10 * MS;
            script.context = Some(Context::Hardirq);
            script.wake(at, 0, one).context = Some(Context::Task);
            script.switch(at, 0, Left::Runnable, Some(one)).wake(at + US, 0, two);
            script.switch(at + works, 0, Left::Sleeping, Some(two));
            script.switch(at + 9 * MS, 0, Left::Sleeping, None);
        }
        std::mem::take(&mut script.recorder).with_pools(1).going_on().finish(&Lateness::default()).pools
    };
    assert_eq!(pools(6 * MS), ["worker"]);
    assert_eq!(pools(4 * MS), [""; 0]);
}

/// Chance decides which member works. So a member that another one forks late continues. In a repetition, it first
/// waits for what the pool did before its fork.
#[test]
fn a_member_that_is_forked_late_continues() {
    let mut script = Script { context: Some(Context::Task), ..Script::default() };
    let [one, two] = WORKERS;
    script.wake(0, 0, one).switch(0, 0, Left::Runnable, Some(one));
    for round in 0..20 {
        let at = round * 10 * MS + 10 * US;
        if round == 12 {
            script.event(at, 0, What::Fork { parent: one, child: FORKED, thread: Some(true) });
            script.event(at, 0, What::WokenNew { task: FORKED, prio: 120 });
        } else if round > 12 {
            script.wake(at, 0, FORKED);
        }
        if round >= 12 {
            script.switch(at, 1, Left::Runnable, Some(FORKED)).switch(at + MS, 1, Left::Sleeping, None);
        }
        script.wake(at + 4 * MS, 0, two).switch(at + 4 * MS, 0, Left::Sleeping, Some(two));
        script.wake(at + 8 * MS, 0, one).switch(at + 8 * MS, 0, Left::Sleeping, Some(one));
    }
    let recorded = std::mem::take(&mut script.recorder).with_pools(1).going_on().finish(&Lateness::default());
    assert_eq!(recorded.pools, ["worker"]);
    let index = recorded.threads.iter().position(|thread| thread.pid == FORKED.pid).expect("it is in the trace");
    assert!(recorded.threads[index].closed);
    let forks = WORKERS.iter().flat_map(|worker| ops(&recorded, worker.pid)).filter(|op| matches!(op, Op::Fork(_)));
    assert_eq!(forks.count(), 1);
    let task = &recorded.workload.tasks[recorded.threads[index].task.expect("it is replayed")];
    let again = task.phases.last().expect("it works");
    assert_eq!(again.repeat, Repeat::Forever);
    // Until then, the others kept one CPU busy.
    let Some(&Op::PoolSleep { work, .. }) = again.ops.first() else { panic!("{again:?}") };
    assert!(work.abs_diff(120 * MS) <= MS, "{work}");
}

#[test]
fn early_threads_that_stay_are_in_the_loop() {
    let recorded = rounds(&[]);
    let closed = |pid| recorded.threads.iter().find(|thread| thread.pid == pid).is_some_and(|thread| thread.closed);
    assert!(closed(FORKED.pid) && closed(WORKERS[0].pid) && closed(WORKERS[1].pid));
}

/// Events of ftrace only have threads. A thread newer than the list of processes is in its parent's process.
#[test]
fn a_new_thread_is_of_the_process_of_its_parent() {
    let recorded = rounds(&[11, 12, 13].map(|thread| (thread, (10, 1))));
    let forked = recorded.threads.iter().find(|thread| thread.pid == FORKED.pid).expect("it is in the trace");
    assert_eq!(forked.tgid, Some(10));
}

/// Java and Erlang call the threads of a pool by numbers.
#[test]
fn threads_of_one_process_whose_names_have_numbers_may_be_a_pool() {
    let pools = |names: [&'static str; 2]| {
        let [one, two] = [task(11, names[0]), task(12, names[1])];
        let mut script = Script::default();
        for round in 0..20 {
            let at = round * 10 * MS;
            script.wake(at, 0, one).switch(at, 0, Left::Runnable, Some(one));
            script.wake(at + MS, 0, two).switch(at + MS, 0, Left::Sleeping, Some(two));
            script.switch(at + 4 * MS, 0, Left::Sleeping, None);
        }
        script.finish().pools
    };
    assert_eq!(pools(["pool-1-thread-1", "pool-1-thread-2"]), ["pool-1-thread-"]);
    assert_eq!(pools(["1_scheduler", "12_scheduler"]), ["scheduler"]);
    assert_eq!(pools(["7z_one", "8z_one"]), [""; 0]);
    assert_eq!(pools(["python3", "python3"]), ["python3"]);
    assert_eq!(pools(["reader", "writer"]), [""; 0]);
}

/// Chance decides which member works. One that answered wakers in another order than recorded could wait for progress
/// of the pool that needs the work which it puts off.
#[test]
fn a_member_takes_wakeups_of_all_wakers_alike() {
    const CLIENT: Named<'static> = Named { pid: 20, comm: b"client" };
    let mut script = Script::default();
    let [one, two] = WORKERS;
    for round in 0..20 {
        let at = round * 10 * MS;
        script.switch(at, 1, Left::Runnable, Some(CLIENT));
        script.wake(at + 10 * US, 1, one).switch(at + 10 * US, 0, Left::Runnable, Some(one));
        script.wake(at + MS, 0, two).switch(at + MS, 0, Left::Sleeping, Some(two));
        script.wake(at + 2 * MS, 0, one).switch(at + 2 * MS, 0, Left::Sleeping, Some(one));
        script.wake(at + 3 * MS, 0, CLIENT).switch(at + 3 * MS, 0, Left::Sleeping, None);
        script.switch(at + 20 * US, 1, Left::Sleeping, None);
    }
    let recorded = std::mem::take(&mut script.recorder).with_pools(1).going_on().finish(&Lateness::default());
    assert_eq!(recorded.pools, ["worker"]);
    let from: BTreeSet<usize> = ops(&recorded, one.pid)
        .iter()
        .filter_map(|op| if let Op::InboxWait { from, .. } = *op { Some(from) } else { None })
        .collect();
    assert_eq!(from.len(), 1, "{from:?}");
}

/// In each round of 10 ms, three workers work for 4, 6 and 10 ms on CPUs of their own. Each is last in turn. The last
/// wakes both others, or one, which wakes the other.
fn meeting(all: bool) -> Vec<String> {
    let mut script = Script { context: Some(Context::Task), ..Script::default() };
    let workers = [WORKERS[0], WORKERS[1], FORKED];
    for (cpu, worker) in workers.into_iter().enumerate() {
        script.switch(0, cpu, Left::Runnable, Some(worker));
    }
    for round in 0..40 {
        let (at, end) = (round as u64 * 10 * MS, (round as u64 + 1) * 10 * MS - 20 * US);
        let [last, one, two] = [0, 1, 2].map(|of| (round + of) % 3);
        script.switch(at + 4 * MS, one, Left::Sleeping, None).switch(at + 6 * MS, two, Left::Sleeping, None);
        script.wake(end, last, workers[one]).switch(end + 2 * US, one, Left::Runnable, Some(workers[one]));
        script.wake(end + 10 * US, if all { last } else { one }, workers[two]);
        script.switch(end + 12 * US, two, Left::Runnable, Some(workers[two]));
    }
    std::mem::take(&mut script.recorder).with_pools(1).going_on().finish(&Lateness::default()).pools
}

#[test]
fn threads_that_meet_at_barriers_are_no_pool() {
    assert_eq!(meeting(true), [""; 0]);
    assert_eq!(meeting(false), ["worker"]);
}
