//! Ends of runs, and refusals: every message has the source, the problem and the fix.

mod support;

use std::ops::ControlFlow;

use support::*;
use vruntime_sim::{Config, Error, Outcome, run_dyn};
use vruntime_trace::{Digest, NoSink};
use vruntime_workload::program::*;

fn work(us: u64) -> Op {
    Op::Run { work: us * US }
}

fn outcome(tasks: Vec<Task>) -> Outcome {
    simulate(&workload(tasks), &exact("6.12", "2"), &mut NoSink).unwrap()
}

fn error(workload: &Workload) -> Error {
    simulate(workload, &exact("6.12", "2"), &mut NoSink).unwrap_err()
}

#[test]
fn a_deadlock_is_reported_with_its_circle() {
    let a = once("a", vec![Op::Lock(0), work(10), Op::Lock(1)]);
    let b = once("b", vec![Op::Lock(1), work(10), Op::Lock(0)]);
    let bystander = once("c", vec![work(20), Op::Lock(0)]);
    let outcome = simulate(&workload(vec![a, b, bystander]), &exact("6.12", "3"), &mut NoSink).unwrap();
    assert_eq!(outcome.end, 20 * US);
    assert_eq!(
        outcome.notes,
        [
            "deadlock: task `a` waits for mutex `n` held by `b`, which waits for mutex `m` held by `a`, closing the circle",
            "the run ended at 20 us: every remaining task waits, and no event is left that could wake one",
            "task `c` waits for mutex `m` held by `a`, from 20 us to the end",
        ]
    );
}

#[test]
fn waits_that_no_task_can_end_are_reported() {
    let notes = outcome(vec![
        once("a", vec![work(1), Op::Suspend { condition: 0, mutex: 0 }]),
        once("b", vec![work(2), Op::Barrier(0)]),
    ])
    .notes;
    assert!(notes[1].contains("task `a` waits for a resume of `c`, from 1 us to the end"), "{notes:?}");
    assert!(notes[2].contains("barrier `b`, where 1 of 2 have arrived"), "{notes:?}");
    let notes = outcome(vec![once("a", vec![Op::Lock(0), Op::Lock(0)])]).notes;
    assert_eq!(notes[0], "deadlock: task `a` waits for mutex `m` held by itself");
    let notes = outcome(vec![once("a", vec![Op::Lock(0)]), once("b", vec![work(1), Op::Lock(0)])]).notes;
    assert!(notes[1].contains("held by `a` (ended)"), "{notes:?}");
}

#[test]
fn forked_tasks_that_wait_are_distinguished() {
    let kid = Task { start: None, ..once("kid", vec![Op::SemWait(0)]) };
    let parent = once("a", vec![Op::Fork(0), Op::Fork(0), Op::Fork(0), Op::Fork(2)]);
    // One that also starts by itself exists before it is forked.
    let both = once("both", vec![Op::SemWait(0)]);
    let notes = outcome(vec![kid, parent, both]).notes;
    let who = |note: &String| note.strip_prefix("task `")?.split('`').next().map(str::to_owned);
    let mut names: Vec<String> = notes.iter().filter_map(who).collect();
    names.sort();
    assert_eq!(names, ["both", "both-1", "kid", "kid-2", "kid-3"], "{notes:?}");
}

#[test]
fn forgotten_tasks_are_reported_though_others_run_on() {
    let hog = task("hog", vec![phase(vec![work(100)], Repeat::Forever)]);
    let tasks = vec![hog, once("a", vec![Op::SemWait(0)])];
    let config = Config { duration: Some(100 * MS), ..exact("6.12", "2") };
    let outcome = simulate(&workload(tasks), &config, &mut NoSink).unwrap();
    assert_eq!(outcome.end, 100 * MS);
    assert_eq!(outcome.notes, ["task `a` waits for semaphore `s`, from 0 ns to the end"]);
}

#[test]
fn unlocking_what_one_does_not_hold_is_reported() {
    let notes = outcome(vec![once("a", vec![Op::Unlock(0), work(1)])]).notes;
    assert_eq!(notes, ["task `a` unlocks mutex `m`, which it does not hold: such an unlock does nothing"]);
}

#[test]
fn a_run_ends_with_its_last_task_or_its_duration() {
    let outcome = outcome(vec![once("a", vec![work(10)]), once("b", vec![work(30)])]);
    assert_eq!((outcome.end, outcome.notes.len(), outcome.interrupted), (30 * US, 0, false));
    let mut log = Log::default();
    let config = Config { duration: Some(25 * US), ..exact("6.12", "1") };
    let cut = simulate(&workload(vec![once("a", vec![work(1000)])]), &config, &mut log).unwrap();
    assert_eq!((cut.end, log.finished), (25 * US, Some(25 * US)));
    assert_eq!(cut.cpus[0].busy, 25 * US);
    let empty = simulate(&workload(vec![]), &exact("6.12", "1"), &mut NoSink).unwrap();
    assert_eq!((empty.end, empty.events), (0, 0));
}

#[test]
fn a_run_does_not_wait_for_background_tasks() {
    let mut workload = workload(vec![once("a", vec![work(10)]), once("b", vec![work(30)])]);
    workload.background = [0].into();
    let end = |workload: &Workload| simulate(workload, &exact("6.12", "2"), &mut NoSink).unwrap().end;
    assert_eq!(end(&workload), 30 * US);
    workload.background = [1].into();
    assert_eq!(end(&workload), 10 * US);
}

#[test]
fn absurd_durations_overflow_nothing() {
    let tasks = vec![
        once("a", vec![Op::Sleep { time: u64::MAX }]),
        once("b", vec![Op::Sleep { time: u64::MAX - 1 }, Op::Sleep { time: u64::MAX }]),
        starting(once("d", vec![work(1)]), u64::MAX - 5),
    ];
    for duration in [Some(u64::MAX), Some(u64::MAX - 1), Some(1000 * MS), None] {
        let config = Config { duration, ..exact("6.1", "2") };
        assert!(simulate(&workload(tasks.clone()), &config, &mut NoSink).is_ok());
    }
    let endless = once("a", vec![Op::Run { work: u64::MAX }, Op::Runtime { time: u64::MAX }]);
    let config = Config { duration: Some(50 * MS), ..exact("6.12", "core:1(capacity=3)") };
    assert!(simulate(&workload(vec![endless]), &config, &mut NoSink).is_ok());
}

#[test]
fn the_watcher_can_stop_a_run_and_its_results_are_kept() {
    let busy = task("a", vec![phase(vec![work(1), Op::Sleep { time: 1000 }], Repeat::Forever)]);
    let config = Config { duration: Some(u64::MAX), ..exact("6.12", "1") };
    let mut ledger = Ledger::default();
    let mut asked = 0;
    let outcome = run_dyn(&workload(vec![busy]), &config, &mut ledger, &mut |progress| {
        asked += 1;
        assert_eq!(progress.end, Some(u64::MAX));
        if asked == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert!(outcome.interrupted);
    assert!(outcome.end > 0 && outcome.end < 1000 * MS);
    ledger.check(&outcome);
}

#[test]
fn loops_in_which_no_time_passes_are_reported() {
    let spin = task("spin", vec![phase(vec![work(1)], Repeat::Times(1)), phase(vec![Op::Signal(0)], Repeat::Forever)]);
    let mut workload = workload(vec![spin]);
    workload.duration = Some(MS);
    let Error::NoProgress { now, task: who, .. } = error(&workload) else { panic!("another error") };
    assert_eq!((now, who.as_str()), (1000, "spin"));
    // Two that keep each other busy.
    let write = |pipe| Op::PipeWrite { pipe, bytes: 1 };
    let read = |pipe| Op::PipeRead { pipe, bytes: 1 };
    let forever = |name, ops| task(name, vec![phase(ops, Repeat::Forever)]);
    workload.tasks = vec![forever("ping", vec![write(0), read(1)]), forever("pong", vec![read(0), write(1)])];
    workload.pipes.push(workload.pipes[0].clone());
    assert!(matches!(error(&workload), Error::NoProgress { .. }));
    // With costs, time passes.
    let mut config = Config { duration: Some(MS), ..exact("6.12", "2") };
    config.machine.costs.syscall_ns = 100;
    assert!(simulate(&workload, &config, &mut NoSink).is_ok());
}

/// Operations in user mode are too short to count, but do not stop time: other tasks run, and the run ends.
#[test]
fn loops_in_user_mode_take_time_where_system_calls_do() {
    let rounds = |task: Task| vec![task, once("other", vec![work(500)])];
    let forever = |ops: Vec<Op>| task("spin", vec![phase(ops, Repeat::Forever)]);
    let again = || Task { repeat: Repeat::Forever, ..once("spin", vec![Op::Lock(0), Op::Unlock(0)]) };
    let spins =
        [forever(vec![Op::Lock(0), Op::Unlock(0)]), forever(vec![Op::SemPost(0)]), forever(vec![Op::Yield]), again()];
    for spin in spins {
        let mut config = Config { duration: Some(50 * MS), ..exact("6.12", "1") };
        let asked = workload(rounds(spin));
        assert!(matches!(simulate(&asked, &config, &mut NoSink), Err(Error::NoProgress { .. })));
        config.machine.costs.syscall_ns = 300;
        let outcome = simulate(&asked, &config, &mut NoSink).unwrap();
        assert_eq!((outcome.end, outcome.cpus[0].busy), (50 * MS, 500 * US), "{:?}", asked.tasks[0].phases);
    }
}

/// Three forks each, without end, in a run with a duration. (Without one, see `interpreter.rs`.)
#[test]
fn a_fork_bomb_ends_with_the_run() {
    let bomb = task("bomb", vec![phase(vec![Op::Fork(0), work(1)], Repeat::Times(3))]);
    let mut workload = workload(vec![bomb]);
    workload.duration = Some(20 * US);
    let mut log = Log::default();
    let outcome = simulate(&workload, &exact("6.12", "2"), &mut log).unwrap();
    assert_eq!((outcome.end, outcome.cpus[0].busy, outcome.cpus[1].busy), (20 * US, 20 * US, 20 * US));
    assert_eq!(log.names.len(), 1 + 2 * 20, "each microsecond brings one on each CPU");
}

#[test]
fn what_cannot_run_is_refused_before_it_begins() {
    let with = |change: &dyn Fn(&mut Workload)| {
        let mut workload = workload(vec![once("a", vec![work(1)])]);
        change(&mut workload);
        error(&workload).to_string()
    };
    let settings = |workload: &mut Workload, settings| workload.tasks[0].settings = settings;
    let limit = |quota, period, burst| {
        let max = Some(Bandwidth { quota, period, burst });
        with(&|w| {
            w.groups.push(Group { path: "/g".to_owned(), parent: Some(0), max, ..Group::default() });
        })
    };
    let policy = |policy| with(&|w| settings(w, Settings { policy: Some(policy), ..Settings::default() }));
    let op = |op: Op| with(&move |w| w.tasks[0] = once("a", vec![op.clone()]));
    for (message, expected) in [
        (
            with(&|w| settings(w, Settings { cpus: Some(vec![0, 2]), ..Settings::default() })),
            "CPU 2, but the machine has 2 CPU(s), 0 to 1",
        ),
        (with(&|w| settings(w, Settings { group: Some(7), ..Settings::default() })), "group number 7"),
        (policy(Policy::Fifo { priority: 140 }), "task `a`: real-time priority is 140, expected 1 to 99"),
        (policy(Policy::RoundRobin { priority: 0 }), "real-time priority is 0, expected 1 to 99"),
        (
            policy(Policy::Deadline { runtime: 1, deadline: 2, period: 2, reclaim: false, overrun: false }),
            "task `a`: a runtime of 1 ns is too short",
        ),
        (policy(Policy::Other { nice: 50, slice: None }), "nice is 50, expected -20 to 19"),
        (op(Op::Lock(99)), "mutex number 99"),
        (op(Op::Fork(99)), "task number 99"),
        (op(Op::PipeRead { pipe: 9, bytes: 1 }), "pipe number 9"),
        (op(Op::PipeWrite { pipe: 0, bytes: 201 }), "201 bytes at once through pipe `p`, which holds 200"),
        (with(&|w| w.groups[0].weight = 0), "weight is 0, expected 1 to 10000"),
        (with(&|w| w.groups[0].path = "/a".to_owned()), "the first group is `/a`, expected the root group, `/`"),
        (with(&|w| w.groups.clear()), "the workload has no groups, expected the root group, `/`"),
        (
            with(&|w| w.groups[0].max = Some(Bandwidth { quota: 5 * MS, period: 10 * MS, burst: 0 })),
            "root group has no",
        ),
        (limit(999_000, 10 * MS, 0), "group `/g`: a quota of 999 us is below 1 ms"),
        (limit(MS, 2_000 * MS, 0), "a period of 2000000 us is outside the kernel's 1 ms to 1 s"),
        (limit(MS, 10 * MS, 2 * MS), "a burst of 2000 us is above the quota, 1000 us"),
        (
            with(&|w| w.tasks[0] = task("a", vec![phase(vec![work(1)], Repeat::Forever)])),
            "loops for ever, and the run has no duration",
        ),
    ] {
        assert!(message.contains(expected), "{message}");
    }
    let mut config = exact("6.12", "1");
    config.machine.hz = 0;
    assert!(simulate(&workload(vec![]), &config, &mut NoSink).unwrap_err().to_string().contains("HZ is 0"));
}

#[test]
fn clamps_and_memory_binding_are_reported_to_have_no_effect() {
    let mut quiet = once("a", vec![work(1)]);
    quiet.settings.util_max = Some(512);
    quiet.settings.nodes = Some(vec![0]);
    let notes = outcome(vec![quiet]).notes;
    // Where CPUs differ clamps have an effect: tests/uclamp.rs.
    assert!(notes[0].contains("clamps (task `a`)") && notes[1].contains("memory binding"), "{notes:?}");
}

/// The same seed gives the same bytes, also with random delays; another seed or kernel gives others. (`digests.rs`
/// pins the bytes.)
#[test]
fn digests_repeat_with_and_without_jitter() {
    let periodic = |name: &str, run: u64, sleep| {
        task(name, vec![phase(vec![work(run), Op::Sleep { time: sleep * US }], Repeat::Forever)])
    };
    let tasks: Vec<Task> =
        (0..12).map(|index| periodic(&format!("t{index}"), 50 + 37 * index, 100 + 23 * index)).collect();
    let digest = |kernel: &str, seed| {
        let mut config = exact(kernel, "pack:2 core:2 pu:2");
        config.machine.costs = vruntime_sim::Costs::default();
        let mut digest = Digest::default();
        let config = Config { seed, duration: Some(200 * MS), ..config };
        simulate(&workload(tasks.clone()), &config, &mut digest).unwrap();
        digest.value()
    };
    for kernel in ["6.1", "6.12"] {
        assert_eq!(digest(kernel, 0), digest(kernel, 0));
        assert_eq!(digest(kernel, 9), digest(kernel, 9));
        assert_ne!(digest(kernel, 0), digest(kernel, 9));
    }
    assert_ne!(digest("6.1", 0), digest("6.12", 0));
}

mod mad {
    //! A policy that requests a reschedule at every switch, so that no task runs.
    use vruntime_sched::ids::CpuId;
    use vruntime_sched::policy::{Dequeue, Enqueue, Plain, Wake};
    use vruntime_sched::tunables::Knobs;
    use vruntime_sched::{Policy, Rq, Shared, TaskAttrs};

    #[derive(Debug)]
    pub(crate) struct Mad;

    impl Policy for Mad {
        type Tunables = Knobs;
        type Rq = Vec<u32>;
        type Task = ();
        type Balance = Plain;
        type Changes = Plain;
        type Limits = Plain;
        type Debugging = Plain;

        fn new_rq(_shared: &Shared<Self>, _cpu: CpuId) -> Vec<u32> {
            Vec::new()
        }
        fn new_task(_shared: &Shared<Self>, _attrs: &TaskAttrs) {}
        fn enqueue(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, _why: Enqueue) {
            rq.class.push(task);
        }
        fn dequeue(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, _why: Dequeue) -> bool {
            rq.class.retain(|other| *other != task);
            true
        }
        fn pick(rq: &mut Rq<Self>, _shared: &Shared<Self>) -> Option<u32> {
            let next = (!rq.class.is_empty()).then(|| rq.class.remove(0))?;
            rq.class.push(next);
            Some(next)
        }
        fn switch(rq: &mut Rq<Self>, _shared: &Shared<Self>, _prev: Option<u32>, _next: Option<u32>) {
            rq.resched();
        }
        fn tick(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}
        fn wakeup_preempt(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32, _wake: Wake) {}
        fn yield_task(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}
    }
}

#[test]
fn a_policy_that_never_lets_a_task_run_is_reported() {
    let workload = workload(vec![once("a", vec![work(1)]), once("b", vec![work(1)])]);
    let result = vruntime_sim::run_policy::<mad::Mad, _>(&workload, &exact("6.12", "1"), &mut NoSink);
    assert_eq!(result.unwrap_err(), Error::Stalled { now: 0 });
    // Where switches cost time, the run ends at its duration, with nothing done.
    let mut config = Config { duration: Some(MS), ..exact("6.12", "1") };
    config.machine.costs.switch_ns = 1000;
    let outcome = vruntime_sim::run_policy::<mad::Mad, _>(&workload, &config, &mut NoSink).unwrap();
    assert_eq!((outcome.cpus[0].busy, outcome.cpus[0].overhead), (0, MS));
}

/// An older kernel ignores a slice, with a note or, if strict, an error.
#[test]
fn a_slice_of_its_own_under_a_kernel_without() {
    let mut sliced = once("s", vec![work(1)]);
    sliced.settings.policy = Some(Policy::Other { nice: 0, slice: Some(MS) });
    let mut later = once("s", vec![work(1)]);
    later.phases = vec![Phase {
        settings: Settings { policy: Some(Policy::Batch { nice: 0, slice: Some(MS) }), ..Settings::default() },
        ..phase(vec![work(1)], Repeat::Times(1))
    }]
    .into();
    for asked in [workload(vec![sliced]), workload(vec![later])] {
        for kernel in ["3.10", "6.1", "6.6"] {
            let mut config = exact(kernel, "1");
            let notes = simulate(&asked, &config, &mut NoSink).unwrap().notes;
            let expected = "task `s` asks for a slice of its own, which Linux 6.6 ignores: 6.12 introduced it";
            assert_eq!(notes, [expected.replace("6.6", kernel)]);
            config.strict = true;
            assert!(matches!(simulate(&asked, &config, &mut NoSink), Err(Error::TooOld { since: "6.12", .. })));
        }
        let config = Config { strict: true, ..exact("6.12", "1") };
        assert!(simulate(&asked, &config, &mut NoSink).unwrap().notes.is_empty());
    }
}
