//! Tasks that exist when a trace begins, and forks.

use super::*;
use vruntime_workload::program::Before;

/// Perf begins with the names of all tasks, as events of the idle task. The CPU need not have been idle.
#[test]
fn names_before_the_first_event_do_not_show_the_running_task() {
    let mut script = Script::default();
    let a = task(5, "a");
    script.event(0, 0, What::Rename { task: a }).running[0] = Some(a);
    script.switch(MS, 0, Left::Sleeping, None).burst(2 * MS, 0, a, MS);
    let recorded = script.finish();
    let counts = &recorded.counts;
    assert_eq!((counts.running_at_start, counts.missing_arrivals), (1, 0));
    assert_eq!(recorded.workload.tasks[0].before, Some(Before::Runnable(0)));
}

/// A task that runs, waits or sleeps when the trace begins does so in the replay, on its CPU. A later fork does not.
#[test]
fn tasks_from_before_the_trace_start_on_their_cpus() {
    let (a, b, c, d) = (task(5, "a"), task(6, "b"), task(7, "c"), task(8, "d"));
    let mut script = Script { running: [None, Some(a), None], ..Script::default() };
    script.switch(MS, 1, Left::Runnable, Some(b)).burst(2 * MS, 0, c, MS);
    script.event(4 * MS, 1, What::Fork { parent: b, child: d, thread: None }).event(
        4 * MS,
        1,
        What::WokenNew { task: d, prio: 120 },
    );
    script.switch(5 * MS, 1, Left::Sleeping, Some(d)).switch(6 * MS, 1, Left::Sleeping, None);
    let recorded = script.finish();
    let before = |name: &str| recorded.workload.tasks.iter().find(|task| task.class == name).unwrap().before;
    let (there, asleep) = (Some(Before::Runnable(1)), Some(Before::Asleep(0)));
    assert_eq!(["a", "b", "c", "d"].map(before), [there, there, asleep, None]);
}

/// An idle CPU pulls a task that has no event before. The task waited on the other CPU when the trace began.
#[test]
fn a_task_that_an_idle_cpu_pulls_first_waited_where_it_was() {
    let (a, b) = (task(5, "a"), task(6, "b"));
    let pulled = |balances: bool| {
        let mut script = Script { running: [None, Some(a), None], ..Script::default() };
        script.event(0, 0, What::Online(true)).event(MS, 1, What::Charged { task: a, ns: MS });
        if balances {
            script.event(2 * MS, 0, What::Migrated { task: b, from: 1 });
        }
        script.switch(2 * MS, 0, Left::Runnable, Some(b)).switch(6 * MS, 1, Left::Sleeping, None);
        script.switch(7 * MS, 0, Left::Sleeping, None);
        let recorded = script.finish();
        let of = |name: &str| recorded.workload.tasks.iter().find(|task| task.class == name).expect("it is there");
        (of("b").before, of("b").start)
    };
    assert_eq!(pulled(true), (Some(Before::Runnable(1)), Some(0)));
    assert_eq!(pulled(false), (None, Some(2 * MS)), "without the move, it is new");
}

/// The machine's files know the shell and a later `cc`, but not `ld` and the first `cc`. Only `ld` wakes a known
/// parent.
#[test]
fn tasks_that_the_files_lack_are_in_the_session_of_their_parent() {
    use vruntime_workload::cgroups::Cgroups;
    let (shell, cc, ld, first) = (task(50, "sh"), task(60, "cc"), task(70, "ld"), task(80, "cc"));
    let text = b"/proc/5/task/50/cgroup:0::/\n/proc/6/task/60/cgroup:0::/\n/proc/5/autogroup:/autogroup-12 nice 0\n\
                 /proc/6/autogroup:/autogroup-9 nice 0\n";
    let mut script = Script { running: [Some(shell), Some(first), None], ..Script::default() };
    // At its exit, ld wakes the shell. The first cc wakes no task.
    script.switch(MS, 0, Left::Sleeping, Some(ld)).wake(2 * MS, 0, shell).switch(2 * MS, 0, Left::Dead, Some(shell));
    script.switch(3 * MS, 1, Left::Dead, None).switch(4 * MS, 0, Left::Sleeping, None);
    script.burst(5 * MS, 1, cc, MS).burst(9 * MS, 0, task(90, "other"), MS);
    let cgroups = Cgroups::read("cgroups.txt", text).expect("it is well-formed");
    let recorded = std::mem::take(&mut script.recorder).with_cgroups(cgroups).finish(&Lateness::default());
    let session = |pid: i32| {
        let thread = recorded.threads.iter().find(|thread| thread.pid == pid).expect("it is in the trace");
        let session = recorded.workload.tasks[thread.task.expect("it is replayed")].session;
        session.map(|session| recorded.workload.sessions[session].name.clone())
    };
    let sessions = [50, 60, 70, 80, 90].map(session);
    let expected = [Some("12"), Some("9"), Some("12"), None, Some("other-90")].map(|name| name.map(str::to_owned));
    assert_eq!(sessions, expected, "nothing is known of the last two");
}

/// One task wakes three workers of one name in turns. They were forked before the trace began, so no event names their
/// parent.
#[test]
fn workers_of_one_parent_are_distinguished_from_others() {
    let (main, workers) = (task(50, "main"), [60, 70, 80].map(|pid| task(pid, "w")));
    let pools = |processes: &[(i32, (i32, i32))]| {
        let mut script = Script::default();
        for round in 1..30 {
            let at = round * 10 * MS;
            let worker = workers[round as usize % 3];
            script.wake(at, 0, main).switch(at + US, 0, Left::Runnable, Some(main));
            script.wake(at + MS, 0, worker).switch(at + MS + US, 0, Left::Sleeping, Some(worker));
            script.switch(at + 3 * MS, 0, Left::Sleeping, None);
        }
        script.recorder = std::mem::take(&mut script.recorder).with_processes(processes.iter().copied());
        let recorded = script.finish();
        (recorded.pools.len(), recorded.threads.iter().filter_map(|thread| thread.tgid).collect::<Vec<_>>())
    };
    let parent = |of: [i32; 3]| [0, 1, 2].map(|worker| (60 + 10 * worker, (6 + worker, of[worker as usize])));
    assert_eq!(pools(&parent([5, 5, 9])).0, 1, "two of one parent");
    assert_eq!(pools(&parent([4, 5, 9])).0, 0, "each has a parent of its own");
    // An id without events changes nothing.
    assert_eq!(pools(&[(61, (4, 5))]), pools(&[]));
}

/// `task_newtask` and `sched_process_fork` both show one fork.
#[test]
fn a_fork_shown_twice_is_one() {
    let recorded = |times: usize| {
        let mut script = Script::default();
        let (parent, child) = (task(5, "parent"), task(6, "parent"));
        script.wake(0, 0, parent).switch(0, 0, Left::Runnable, Some(parent));
        for _ in 0..times {
            script.event(MS, 0, What::Fork { parent, child, thread: None });
        }
        script.event(MS, 0, What::WokenNew { task: child, prio: 120 }).switch(2 * MS, 0, Left::Dead, Some(child));
        script.switch(3 * MS, 0, Left::Dead, None);
        script.finish()
    };
    assert_eq!(recorded(2), recorded(1));
    assert_eq!(ops(&recorded(2), 5).iter().filter(|op| matches!(op, Op::Fork(_))).count(), 1);
}

/// Timers that hit a task count as well, but not wakeups of threads with one CPU.
#[test]
fn changes_of_wakees_before_the_trace_are_as_in_it() {
    let (a, b, c, bound) = (task(5, "a"), task(6, "b"), task(7, "c"), task(8, "kworker/0:1"));
    let mut script = Script { running: [Some(a), None, None], ..Script::default() };
    script.switch(1000, 0, Left::Runnable, Some(c)).switch(2000, 0, Left::Sleeping, Some(a));
    for round in 0..10 {
        let at = (10 * round + 1) * MS;
        let woken = [(b, Context::Softirq), (bound, Context::Task), (c, Context::Hardirq)];
        for (at, (task, context)) in (at..).step_by(2 * MS as usize).zip(woken) {
            script.context = Some(context);
            script.wake(at, 0, task).switch(at + 1000, 1, Left::Sleeping, Some(task));
            script.switch(at + MS, 1, Left::Sleeping, None);
        }
    }
    let recorded = script.finish();
    let flips = |name: &str| recorded.workload.tasks.iter().find(|task| task.class == name).unwrap().wakee_flips;
    // 20 changes in 96 ms are 208 a second, and the kernel's mean count is half as much again.
    assert_eq!([flips("a"), flips("b")], [313, 0]);
}

/// A task that runs all the time, one that runs for half of it, and one that runs once, long after the start.
#[test]
fn averages_are_those_of_the_time_after_the_start() {
    let (always, half, late) = (task(5, "always"), task(6, "half"), task(7, "late"));
    let mut script = Script { running: [Some(always), Some(half), None], ..Script::default() };
    for round in 0..200 {
        script.switch(round * 2 * MS + MS, 1, Left::Sleeping, None).wake(round * 2 * MS + 2 * MS, 1, half);
        script.switch(round * 2 * MS + 2 * MS, 1, Left::Runnable, Some(half));
    }
    script.switch(400 * MS + MS, 1, Left::Sleeping, None).burst(401 * MS, 1, late, MS);
    script.switch(410 * MS, 0, Left::Sleeping, None);
    let recorded = script.finish();
    let of = |name: &str| {
        let task = recorded.workload.tasks.iter().find(|task| task.class == name).expect("it is replayed");
        let averages = task.averages.expect("it was there");
        (averages.runnable, averages.running)
    };
    assert_eq!((of("always"), of("late")), ((1024, 1024), (0, 0)));
    let (runnable, running) = of("half");
    assert!(runnable == running && running.abs_diff(512) < 20, "{running}");
}
