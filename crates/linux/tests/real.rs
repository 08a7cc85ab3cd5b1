//! Short runs on any machine, even busy or without root. Times have lower bounds; the one upper bound, [`HANGS`], finds
//! runs that do not end.
#![cfg(target_os = "linux")]

use vruntime_linux::{Error, Measured, Options, run};
use vruntime_workload::program::{
    Barrier, Channel, Group, Mutex, Op, Phase, Pipe, Policy, Repeat, Semaphore, Settings, Task, Timer, TimerMode,
    WaitMode, Workload,
};

const MS: u64 = 1_000_000;
/// A run that should end at once hangs if it takes this long. Its waits would take longer.
const HANGS: u64 = 10_000 * MS;

fn phase(repeat: Repeat, ops: Vec<Op>) -> Phase {
    Phase { repeat, ..Phase::forever(ops) }
}

fn task(name: &str, repeat: Repeat, ops: Vec<Op>) -> Task {
    Task::new(name, [phase(repeat, ops)])
}

fn once(name: &str, ops: Vec<Op>) -> Task {
    task(name, Repeat::Times(1), ops)
}

fn workload(tasks: Vec<Task>) -> Workload {
    Workload { tasks, ..Workload::default() }
}

fn of(workload: &Workload, duration: Option<u64>) -> Measured {
    run(workload, &Options { duration, ..Options::default() }, &|| false).expect("it runs")
}

/// Repeats a run with longer times, up to more than [`HANGS`], until its second value is true. On a busy machine a time
/// may pass while a thread waits for the CPU.
fn later(run: impl Fn(u64) -> (Measured, bool)) -> Measured {
    let mut long = 300 * MS;
    loop {
        let (measured, well) = run(long);
        if well || long > HANGS {
            return measured;
        }
        long *= 6;
    }
}

#[test]
fn a_program_runs_to_its_end_and_is_measured() {
    let ops = vec![Op::Run { work: 3 * MS }, Op::Sleep { time: 2 * MS }];
    let program = workload(vec![task("t", Repeat::Times(5), ops)]);
    let mut voluntary = Vec::new();
    // A task preempted until its sleep is over does not sleep; a busy machine does that to some runs.
    while voluntary.last().is_none_or(|&switches| switches < 5) {
        let measured = of(&program, None);
        let [task] = &measured.tasks[..] else { panic!("one task: {measured:?}") };
        assert!(task.ended);
        assert_eq!((task.loops, task.loop_work_ns, task.late_ns.len(), task.loop_ns.len()), (5, 15 * MS, 5, 5));
        assert!(task.cpu_ns >= 15 * MS && task.life_ns >= 25 * MS, "{task:?}");
        assert!(measured.elapsed_ns >= 25 * MS && !measured.interrupted);
        voluntary.push(task.voluntary);
        assert!(
            voluntary.len() < 20 || task.voluntary >= 5,
            "voluntary switches of runs of five sleeps: {voluntary:?}"
        );
    }
}

#[test]
fn hogs_end_with_the_run() {
    let hog = |name| task(name, Repeat::Forever, vec![Op::Run { work: 60_000 * MS }]);
    let clock = task("clock", Repeat::Forever, vec![Op::Runtime { time: 60_000 * MS }]);
    let measured = of(&workload(vec![hog("a"), hog("b"), clock]), Some(100 * MS));
    assert!((100 * MS..HANGS).contains(&measured.elapsed_ns), "{}", measured.elapsed_ns);
    for task in &measured.tasks {
        assert!(!task.ended && task.cpu_ns > 0, "{task:?}");
    }
    // The tasks never sleep before they end.
    let slept: u64 = measured.tasks.iter().map(|task| task.voluntary).sum();
    assert!(slept <= 1, "{measured:?}");
}

#[test]
fn what_refers_to_nothing_is_refused() {
    let all = workload(vec![once("a", vec![Op::Lock(0)])]);
    let refused = run(&all, &Options { duration: Some(50 * MS), ..Options::default() }, &|| false);
    let message = refused.unwrap_err().to_string();
    assert_eq!(message, "task `a` refers to mutex 0, which does not exist");
}

/// The resume is long after all tasks are suspended. A signal would wake only one task.
#[test]
fn a_resume_wakes_all_suspended_tasks() {
    let measured = later(|long| {
        let sleeper = |name| once(name, vec![Op::Suspend { condition: 0, mutex: 0 }]);
        let waker = once("waker", vec![Op::Sleep { time: long }, Op::Resume { condition: 0, mutex: 0 }]);
        let mut all = workload(vec![sleeper("a"), sleeper("b"), sleeper("c"), waker]);
        all.conditions = vec!["name".to_owned()];
        all.mutexes = vec![Mutex { name: "name".to_owned(), priority_inheritance: false, hands_over: false }];
        let measured = of(&all, Some(long + HANGS));
        let all_ended = measured.tasks.iter().all(|task| task.ended);
        (measured, all_ended)
    });
    assert!(measured.tasks.iter().all(|task| task.ended), "{measured:?}");
}

/// Tasks wait in all possible ways for events that never happen.
#[test]
fn the_end_of_the_run_wakes_all_waiting_tasks() {
    let long = Op::Sleep { time: 60_000 * MS };
    // Owners lock their mutexes first, however busy the machine: a semaphore reports it.
    let owner = |name, mutex| once(name, vec![Op::Lock(mutex), Op::SemPost(mutex), long.clone()]);
    let blocked = |name, mutex| once(name, vec![Op::SemWait(mutex), Op::Lock(mutex)]);
    let mut all = workload(vec![
        once("suspended", vec![Op::Suspend { condition: 0, mutex: 0 }]),
        once("waiting", vec![Op::Lock(0), Op::Wait { condition: 1, mutex: 0 }]),
        owner("owner", 1),
        blocked("blocked", 1),
        owner("pi-owner", 2),
        blocked("pi-blocked", 2),
        once("meets", vec![Op::Barrier(0)]),
        once("semaphore", vec![Op::SemWait(0)]),
        once("reads", vec![Op::PipeRead { pipe: 0, bytes: 10 }]),
        task("writes", Repeat::Forever, vec![Op::PipeWrite { pipe: 1, bytes: 4096 }]),
        once("reads socket", vec![Op::PipeRead { pipe: 2, bytes: 10 }]),
        task("writes socket", Repeat::Forever, vec![Op::PipeWrite { pipe: 3, bytes: 100 }]),
        once("sleeps", vec![long.clone()]),
    ]);
    let mutex =
        |name: &str, priority_inheritance| Mutex { name: name.to_owned(), priority_inheritance, hands_over: false };
    all.mutexes = vec![mutex("a", false), mutex("b", false), mutex("c", true)];
    all.conditions = vec!["s".to_owned(), "c".to_owned()];
    all.barriers = vec![Barrier { name: "b".to_owned(), parties: 2, locked: true }];
    all.semaphores = vec![Semaphore { name: "s".to_owned(), initial: 0 }; 3];
    let kinds = [Channel::Pipe, Channel::Pipe, Channel::Socket, Channel::Socket];
    all.pipes = kinds.map(|kind| Pipe { name: "p".to_owned(), capacity: 4096, kind }).to_vec();
    let measured = of(&all, Some(50 * MS));
    assert_eq!(measured.tasks.len(), 13);
    assert!(measured.tasks.iter().all(|task| !task.ended), "{measured:?}");
}

#[test]
fn messages_barriers_semaphores_conditions_and_forks_arrive() {
    let rounds = 50;
    let loops = |name, ops| task(name, Repeat::Times(rounds), ops);
    let (there, back) = (0, 1);
    let write = |pipe| Op::PipeWrite { pipe, bytes: 100 };
    let read = |pipe| Op::PipeRead { pipe, bytes: 100 };
    let mut all = workload(vec![
        loops("ping", vec![write(there), read(back)]),
        loops("pong", vec![read(there), write(back)]),
        loops("one", vec![Op::Barrier(0), Op::SemPost(0)]),
        loops("other", vec![Op::Barrier(0), Op::SemWait(0), Op::Lock(0), Op::Unlock(0), Op::Yield]),
        loops("beat", vec![Op::Timer { timer: 0, period: MS, mode: TimerMode::Absolute }]),
        task("parent", Repeat::Times(3), vec![Op::Fork(6)]),
        Task { start: None, ..once("child", vec![Op::Run { work: MS }, Op::Mem { bytes: 10 }]) },
    ]);
    // There by a pipe, back by a socket.
    let channel = |(name, kind): (&str, _)| Pipe { name: name.to_owned(), capacity: 65_536, kind };
    all.pipes = [("there", Channel::Pipe), ("back", Channel::Socket)].map(channel).to_vec();
    all.barriers = vec![Barrier { name: "b".to_owned(), parties: 2, locked: true }];
    all.semaphores = vec![Semaphore { name: "s".to_owned(), initial: 0 }];
    all.mutexes = vec![Mutex { name: "m".to_owned(), priority_inheritance: true, hands_over: false }];
    all.timers = vec![Timer { name: "t".to_owned(), start: Some(0) }];
    let measured = of(&all, None);
    assert!(measured.tasks.iter().all(|task| task.ended), "{measured:?}");
    let names: Vec<&str> = measured.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names.len(), 9, "{names:?}");
    for child in ["child", "child-2", "child-3"] {
        let this = measured.tasks.iter().find(|task| task.name == child).unwrap_or_else(|| panic!("{names:?}"));
        assert!(this.cpu_ns >= MS, "{this:?}");
    }
    let loops_of = |name: &str| measured.tasks.iter().find(|task| task.name == name).map(|task| task.loops);
    assert_eq!(["ping", "pong", "one", "other", "beat"].map(loops_of), [Some(rounds); 5]);
    assert!(measured.elapsed_ns >= rounds * MS, "the beat");
}

#[test]
fn what_the_kernel_refuses_is_reported_and_the_rest_runs() {
    let mut odd = once("odd", vec![Op::Run { work: MS }]);
    // More than a CPU of runtime, and a missing CPU: refused even to root.
    let (runtime, deadline) = (20 * MS, 10 * MS);
    odd.settings.policy = Some(Policy::Deadline { runtime, deadline, period: deadline, reclaim: false, overrun: true });
    odd.settings.cpus = Some(vec![1023]);
    let measured = of(&workload(vec![odd]), None);
    assert!(measured.tasks[0].ended);
    let refused = measured.notes.iter().filter(|note| note.contains("the kernel refused"));
    assert_eq!(refused.count(), 2, "{:?}", measured.notes);
    assert!(measured.notes.iter().any(|note| note.contains("`odd` gets no signals for overruns")));
}

/// With root and a writable hierarchy the groups exist; otherwise a note says that they do not.
#[test]
fn groups_are_made_or_reported_and_leave_nothing_behind() {
    let mut one = task("one", Repeat::Forever, vec![Op::Run { work: MS }]);
    one.settings.group = Some(2);
    let mut all = workload(vec![one]);
    let group =
        |path: &str, parent, weight| Group { path: path.to_owned(), parent: Some(parent), weight, ..Group::default() };
    all.groups.extend([group("/a", 0, 300), group("/a/b", 1, 50)]);
    let measured = of(&all, Some(50 * MS));
    let is_noted = measured.notes.iter().any(|note| note.contains("groups"));
    assert!(is_noted == measured.groups.is_empty(), "{measured:?}");
    assert_eq!(measured.tasks[0].group, 2);
    let own = format!("vruntime-{}-", std::process::id());
    for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"] {
        let left = std::fs::read_dir(mount).map_or(0, |entries| {
            entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
        });
        assert_eq!(left, 0, "{mount}");
    }
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_starts() {
    let kernel = Op::WaitEvent { queue: 0, mode: WaitMode::Shared, timeout: None };
    let refused = |task| run(&workload(vec![task]), &Options::default(), &|| false).unwrap_err();
    let error = refused(once("k", vec![kernel]));
    assert!(matches!(error, Error::Impossible { .. }), "{error}");
    assert!(error.to_string().contains("a wait queue of the kernel"));
    assert!(matches!(refused(task("e", Repeat::Forever, vec![Op::Run { work: MS }])), Error::Endless));
}

#[test]
fn it_stops_when_asked_and_has_what_there_was() {
    let sleeper = task("s", Repeat::Forever, vec![Op::Run { work: MS }, Op::Sleep { time: MS }]);
    let options = Options { duration: Some(60_000 * MS), ..Options::default() };
    let all = workload(vec![sleeper]);
    let measured = later(|long| {
        // A stop after a while.
        let began = std::time::Instant::now();
        let stopped = || began.elapsed() > std::time::Duration::from_nanos(long);
        let measured = run(&all, &options, &stopped).expect("it runs");
        assert!(measured.interrupted && measured.elapsed_ns < long + HANGS, "{measured:?}");
        let looped = measured.tasks[0].loops > 0;
        (measured, looped)
    });
    assert!(measured.tasks[0].loops > 0, "{measured:?}");
}

/// The same workload with one process for each task.
fn in_processes(mut workload: Workload) -> Workload {
    workload.tasks.iter_mut().for_each(|task| task.process = None);
    workload
}

#[test]
fn processes_meet_answer_and_are_measured() {
    let rounds = 50;
    let loops = |name, ops| task(name, Repeat::Times(rounds), ops);
    let write = |pipe| Op::PipeWrite { pipe, bytes: 100 };
    let read = |pipe| Op::PipeRead { pipe, bytes: 100 };
    let beat = || Op::Timer { timer: 0, period: MS, mode: TimerMode::Absolute };
    let guarded = |mutex| vec![Op::Lock(mutex), Op::Run { work: 100_000 }, Op::Unlock(mutex)];
    let mut all = workload(vec![
        loops("ping", vec![write(0), read(1)]),
        loops("pong", vec![read(0), write(1)]),
        loops("one", vec![Op::Barrier(0), Op::SemPost(0)]),
        loops("other", vec![Op::Barrier(0), Op::SemWait(0)]),
        loops("beat", vec![beat()]),
        loops("beat too", vec![beat()]),
        loops("locks", guarded(0)),
        loops("locks too", guarded(0)),
        loops("lends", guarded(1)),
        loops("lends too", guarded(1)),
        task("parent", Repeat::Times(3), vec![Op::Fork(11)]),
        Task { start: None, ..once("child", vec![Op::Run { work: MS }]) },
    ]);
    let channel = |(name, kind): (&str, _)| Pipe { name: name.to_owned(), capacity: 65_536, kind };
    all.pipes = [("there", Channel::Pipe), ("back", Channel::Socket)].map(channel).to_vec();
    all.barriers = vec![Barrier { name: "b".to_owned(), parties: 2, locked: true }];
    all.semaphores = vec![Semaphore { name: "s".to_owned(), initial: 0 }];
    let mutex = |(name, inherits): (&str, _)| Mutex {
        name: name.to_owned(),
        priority_inheritance: inherits,
        hands_over: false,
    };
    all.mutexes = [("m", false), ("pi", true)].map(mutex).to_vec();
    all.timers = vec![Timer { name: "t".to_owned(), start: Some(0) }];
    let measured = of(&in_processes(all), None);
    assert_eq!(measured.tasks.len(), 14, "{measured:?}");
    assert!(measured.tasks.iter().all(|task| task.ended), "{measured:?}");
    let (begun, forked) = measured.tasks.split_at(11);
    assert!(begun[..10].iter().all(|task| task.loops == rounds) && forked.iter().all(|task| task.cpu_ns >= MS));
    assert!(begun[..10].iter().all(|task| task.cpu_ns > 0 && task.voluntary < 10 * rounds), "{begun:?}");
    assert!(measured.elapsed_ns >= 2 * rounds * MS, "both beats are of one timer");
    assert!(measured.notes.iter().any(|note| note.contains("forked processes are threads")), "{:?}", measured.notes);
    let tids: std::collections::BTreeSet<u32> = measured.tasks.iter().map(|task| task.tid).collect();
    assert_eq!(tids.len(), 14);
}

#[test]
fn processes_that_wait_are_woken_by_the_end() {
    let long = Op::Sleep { time: 60_000 * MS };
    let mut all = workload(vec![
        once("waits", vec![Op::Lock(0), Op::Wait { condition: 0, mutex: 0 }]),
        once("reads", vec![Op::PipeRead { pipe: 0, bytes: 10 }]),
        task("writes", Repeat::Forever, vec![Op::PipeWrite { pipe: 1, bytes: 4096 }]),
        once("owner", vec![Op::Lock(1), Op::SemPost(0), long.clone()]),
        once("blocked", vec![Op::SemWait(0), Op::Lock(1)]),
        task("hog", Repeat::Forever, vec![Op::Run { work: 1000 * MS }]),
        once("sleeps", vec![long]),
    ]);
    let mutex = |(name, inherits): (&str, _)| Mutex {
        name: name.to_owned(),
        priority_inheritance: inherits,
        hands_over: false,
    };
    all.mutexes = [("m", false), ("pi", true)].map(mutex).to_vec();
    all.conditions = vec!["c".to_owned()];
    all.semaphores = vec![Semaphore { name: "s".to_owned(), initial: 0 }];
    all.pipes =
        [Channel::Pipe, Channel::Socket].map(|kind| Pipe { name: "p".to_owned(), capacity: 4096, kind }).to_vec();
    let measured = of(&in_processes(all), Some(50 * MS));
    assert_eq!(measured.tasks.len(), 7, "{measured:?}");
    assert!(measured.tasks.iter().all(|task| !task.ended), "{measured:?}");
    assert!((50 * MS..HANGS).contains(&measured.elapsed_ns), "{}", measured.elapsed_ns);
}

/// Processes are children of this one, and have threads where the workload says so.
#[test]
fn processes_are_what_the_workload_says() {
    let of_process = |process| Task { process, ..once("t", vec![Op::Sleep { time: 60_000 * MS }]) };
    let all = workload(vec![of_process(None), of_process(Some(0)), of_process(Some(0)), of_process(None)]);
    let own = std::process::id();
    let children = std::cell::RefCell::new(0);
    let look = || {
        let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let parents = listed.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        // The name, in parentheses, is this test thread's; the parent is the second field after it.
        let ours = parents.filter(|stat| {
            let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
            stat.contains("(processes_are_w)") && parent.is_some_and(|parent| parent == own.to_string())
        });
        children.replace(ours.count());
        // They run until they are checked.
        true
    };
    let run_with = |threads| {
        children.replace(0);
        let measured = run(&all, &Options { threads, ..Options::default() }, &look).expect("it runs");
        assert_eq!(measured.tasks.len(), 4, "{measured:?}");
        *children.borrow()
    };
    assert_eq!((run_with(false), run_with(true)), (3, 0));
}

#[test]
fn processes_are_changed_from_outside() {
    use vruntime_workload::program::{Change, Changed};
    // Tasks without a policy inherit this thread's nice value, not 0 under `nice`.
    let own = rustix::process::getpriority_process(None).expect("everybody may ask");
    let refuses = |measured: &Measured| measured.notes.iter().any(|note| note.contains("the kernel refused nice 7"));
    let measured = later(|long| {
        let sleeper = |name| once(name, vec![Op::Sleep { time: long }]);
        let mut all = workload(vec![sleeper("nicer"), sleeper("as it was")]);
        let settings = Settings::default();
        all.changes = vec![Change { at: 20 * MS, what: Changed::Tasks { tasks: vec![0], settings, nice: Some(7) } }];
        let measured = of(&in_processes(all), None);
        let changed = measured.tasks[0].nice == 7 || own > 7 && refuses(&measured);
        (measured, changed)
    });
    // Only root may go below it.
    let refused = refuses(&measured);
    assert!(!refused || own > 7, "{:?}", measured.notes);
    let changed = if refused { own } else { 7 };
    assert_eq!(measured.tasks.iter().map(|task| task.nice).collect::<Vec<_>>(), [changed, own]);
    // The notes report inheritance.
    let is_noted = measured.notes.iter().any(|note| note.contains(&format!("runs with nice {own}")));
    assert_eq!(is_noted, own != 0, "{:?}", measured.notes);
}
