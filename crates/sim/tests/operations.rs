//! Each operation's effect, to the nanosecond, on a machine without other costs.

mod support;

use support::*;
use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sim::{Config, Costs, MachineSpec, parse_topology};
use vruntime_trace::NoSink;
use vruntime_workload::program::*;

#[test]
fn operations_take_their_own_time() {
    assert_eq!(ends(&[&[run(100)]]), [Some(100)]);
    assert_eq!(ends(&[&[Op::Runtime { time: 70 * US }]]), [Some(70)]);
    assert_eq!(ends(&[&[run(100), sleep(50), run(10)]]), [Some(160)]);
    assert_eq!(ends(&[&[sleep(0), run(10)]]), [Some(10)]);
    assert_eq!(ends(&[&[Op::Yield, run(10)]]), [Some(10)]);
    assert_eq!(ends(&[&[Op::Lock(0), run(10), Op::Unlock(0), Op::Lock(0)]]), [Some(10)]);
    assert_eq!(ends(&[&[Op::SemPost(0), Op::SemWait(0), run(1)]]), [Some(1)]);
    assert_eq!(ends(&[&[Op::Signal(0), Op::Broadcast(0), Op::Resume { condition: 0, mutex: 0 }, run(1)]]), [Some(1)]);
    // 100 ns a KiB.
    assert_eq!(ends(&[&[Op::Mem { bytes: 10 << 10 }]]), [Some(1)]);
}

#[test]
fn a_device_that_takes_no_time_is_not_waited_for() {
    let log = on_own_cpus(vec![once("a", vec![Op::Io { bytes: 4096 }, Op::Device { time: 0 }, run(10)])]);
    let blocked =
        log.pick(|at, event| matches!(event, Event::Switch { prev_state: PrevState::Blocked, .. }).then_some(at));
    assert!(blocked.is_empty(), "{blocked:?}");
}

#[test]
fn memory_and_devices_take_the_time_their_costs_say() {
    let mut config = exact("6.12", "1");
    config.machine.costs.io_ns_per_kib = 200;
    config.machine.costs.io_device_ns_per_kib = 3000;
    config.machine.costs.mem_miss_ns = 50;
    let memrun = |stride, size| {
        let (kind, pattern) = ("read".to_owned(), "seq".to_owned());
        Op::MemRun(Box::new(MemRun { kind, pattern, buffer: String::new(), size, count: 1000, stride }))
    };
    for (op, expected) in [
        (Op::Io { bytes: 4096 }, 800 + 12_000),
        (memrun(8, 1 << 30), 1000 * config.machine.costs.mem_hit_ns),
        (memrun(4096, 1 << 16), 1000 * config.machine.costs.mem_hit_ns),
        (memrun(4096, 1 << 30), 50_000),
    ] {
        let mut log = Log::default();
        simulate(&workload(vec![once("a", vec![op])]), &config, &mut log).unwrap();
        assert_eq!(log.exit("a"), Some(expected));
    }
    let mut log = Log::default();
    simulate(&workload(vec![once("a", vec![Op::Io { bytes: 1024 }])]), &config, &mut log).unwrap();
    let blocked = log.pick(|at, event| match event {
        Event::Switch { prev_state: PrevState::Blocked, .. } => Some(at),
        _ => None,
    });
    assert_eq!(blocked, [200], "a task that waits for a device is not interruptible");
}

#[test]
fn a_condition_gives_its_mutex_back_while_it_waits() {
    let waiter = [Op::Lock(0), Op::Wait { condition: 0, mutex: 0 }, run(10), Op::Unlock(0)];
    let signaller = [run(50), Op::Lock(0), run(20), Op::Signal(0), run(5), Op::Unlock(0)];
    assert_eq!(ends(&[&waiter, &signaller]), [Some(85), Some(75)]);
}

/// As in rt-app, they take the mutex with the name of their condition.
#[test]
fn suspend_and_resume_wait_for_the_mutex_of_their_name() {
    let owner = [Op::Lock(0), run(50), Op::Unlock(0)];
    let (suspend, resume) = (Op::Suspend { condition: 0, mutex: 0 }, Op::Resume { condition: 0, mutex: 0 });
    assert_eq!(ends(&[&owner, &[run(1), resume.clone()]]), [Some(50), Some(50)]);
    assert_eq!(
        ends(&[&owner, &[run(1), suspend.clone(), run(1)], &[run(40), Op::Broadcast(0)]]),
        [Some(50), None, Some(40)]
    );
    // A waiter without the mutex lets them in, and `resume` wakes it.
    let waiter = [Op::Lock(0), Op::Wait { condition: 0, mutex: 0 }, run(5), Op::Unlock(0)];
    assert_eq!(ends(&[&waiter, &[run(10), resume]]), [Some(15), Some(10)]);
    assert_eq!(ends(&[&waiter, &[run(10), suspend], &[run(20), Op::Broadcast(0)]]), [Some(25), Some(25), Some(20)]);
}

#[test]
fn a_signal_wakes_one_a_broadcast_all_and_neither_is_remembered() {
    let wait = [Op::Suspend { condition: 0, mutex: 0 }, run(1)];
    assert_eq!(ends(&[&wait, &wait, &[run(50), Op::Signal(0)]]), [Some(51), None, Some(50)]);
    assert_eq!(ends(&[&wait, &wait, &[run(50), Op::Broadcast(0)]]), [Some(51), Some(51), Some(50)]);
    assert_eq!(
        ends(&[&[run(10), Op::Suspend { condition: 0, mutex: 0 }], &[Op::Resume { condition: 0, mutex: 0 }]]),
        [None, Some(0)]
    );
}

#[test]
fn sync_signals_and_waits() {
    let sync = || Op::Sync { condition: 0, mutex: 0 };
    let first = [Op::Lock(0), sync(), Op::Unlock(0), run(1)];
    let second = [run(30), Op::Lock(0), sync(), Op::Unlock(0), run(1)];
    // The second wakes the first and waits for a third, which does not exist.
    assert_eq!(ends(&[&first, &second]), [Some(31), None]);
}

#[test]
fn a_barrier_wakes_all_when_the_last_arrives() {
    let loops = |us| vec![run(us), Op::Barrier(0)];
    assert_eq!(ends(&[&loops(10), &loops(70)]), [Some(70), Some(70)]);
    let twice = |us| {
        let mut ops = loops(us);
        ops.extend(loops(us));
        ops
    };
    assert_eq!(ends(&[&twice(10), &twice(70)]), [Some(140), Some(140)]);
}

/// The last task wakes the other while it holds the barrier's mutex: a preempting task sleeps once more.
#[test]
fn a_task_woken_at_a_barrier_locks_its_mutex_first() {
    let sleeps = |locked: bool| {
        let rounds = |us| vec![phase(vec![run(us), Op::Barrier(0)], Repeat::Times(50))];
        let mut workload = workload(vec![task("short", rounds(100)), task("long", rounds(3_000))]);
        workload.barriers[0].locked = locked;
        let mut log = Log::default();
        simulate(&workload, &exact("6.12", "1"), &mut log).unwrap();
        let short = Running::Task(log.of("short"));
        let sleeps = log.pick(|_, event| match event {
            Event::Switch { prev, prev_state: PrevState::Sleeping, .. } => (prev == short).then_some(()),
            _ => None,
        });
        sleeps.len()
    };
    // Without a mutex it arrives last once; with one it sleeps twice in each round.
    assert_eq!((sleeps(false), sleeps(true)), (49, 100));
}

#[test]
fn a_semaphore_counts() {
    let waits = [Op::SemWait(0), Op::SemWait(0), run(1)];
    assert_eq!(ends(&[&waits, &[Op::SemPost(0), run(40), Op::SemPost(0)]]), [Some(41), Some(40)]);
}

#[test]
fn a_pipe_blocks_readers_when_empty_and_writers_when_full() {
    let write = || Op::PipeWrite { pipe: 0, bytes: 100 };
    let read = || Op::PipeRead { pipe: 0, bytes: 100 };
    assert_eq!(ends(&[&[read(), run(1)], &[run(50), write()]]), [Some(51), Some(50)]);
    // Two messages fill its page: the third waits until the page has been read.
    let reads = [run(50), read(), run(50), read()];
    assert_eq!(ends(&[&reads, &[write(), write(), write(), run(1)]]), [Some(100), Some(101)]);
    // Two waiting readers, two messages at once: the first reader wakes the second.
    assert_eq!(
        ends(&[&[read(), run(1)], &[read(), run(1)], &[run(50), write(), write()]]),
        [Some(51), Some(51), Some(50)]
    );
}

/// A page takes 40 reads: up to 6.13 each wakes a writer, later only the last.
#[test]
fn a_reader_of_a_full_pipe_wakes_a_writer() {
    for (kernel, wakeups) in [("6.1", 40), ("6.6", 40), ("6.12", 40), ("6.18", 1), ("3.10", 1)] {
        let write = Op::PipeWrite { pipe: 0, bytes: 100 };
        let read = Op::PipeRead { pipe: 0, bytes: 100 };
        let fills = once("writer", vec![write; 641]);
        let mut ops = vec![run(1_000)];
        for _ in 0..40 {
            ops.extend([read.clone(), run(100)]);
        }
        let mut workload = workload(vec![pinned(fills, &[0]), pinned(once("reader", ops), &[1])]);
        workload.pipes[0].capacity = 65_536;
        let mut log = Log::default();
        simulate(&workload, &exact(kernel, "2"), &mut log).unwrap();
        let writer = log.of("writer");
        let woken = log.pick(|_, event| matches!(event, Event::Wakeup { task, .. } if task == writer).then_some(()));
        assert_eq!(woken.len(), wakeups, "{kernel}");
        assert!(log.exit("writer").is_some(), "{kernel}");
    }
}

/// A writer woken in vain waits behind one with a larger message, which gets the room.
#[test]
fn a_writer_woken_in_vain_is_not_forgotten() {
    for kernel in ["3.10", "6.1", "6.6", "6.12", "6.18", "7.1"] {
        let write = |bytes| Op::PipeWrite { pipe: 0, bytes };
        let read = |bytes| Op::PipeRead { pipe: 0, bytes };
        let mut small = vec![write(4096); 16];
        small.extend([run(100), write(4096)]);
        let large = vec![run(500), write(32_768)];
        let mut reads = vec![run(1_000), read(100), run(100), read(3_996)];
        for _ in 0..24 {
            reads.extend([run(100), read(4096)]);
        }
        let tasks = [("small", small, 0), ("large", large, 1), ("reader", reads, 2)];
        let tasks = tasks.into_iter().map(|(name, ops, cpu)| pinned(once(name, ops), &[cpu])).collect();
        let mut workload = workload(tasks);
        workload.pipes[0].capacity = 65_536;
        let mut log = Log::default();
        simulate(&workload, &exact(kernel, "3"), &mut log).unwrap();
        for name in ["small", "large", "reader"] {
            assert!(log.exit(name).is_some(), "{kernel}: {name}");
        }
    }
}

#[test]
fn a_writer_woken_in_vain_pays_for_the_wakeup_of_the_next() {
    let write = |bytes| Op::PipeWrite { pipe: 0, bytes };
    let mut small = vec![write(4096); 16];
    small.extend([run(1_000), write(100)]);
    let mut reads = vec![run(3_000), Op::PipeRead { pipe: 0, bytes: 4096 }, run(3_000)];
    reads.extend(vec![Op::PipeRead { pipe: 0, bytes: 4096 }; 23]);
    let tasks = [("large", vec![run(500), write(32_768)], 0), ("small", small, 1), ("reader", reads, 2)];
    let tasks = tasks.into_iter().map(|(name, ops, cpu)| pinned(once(name, ops), &[cpu])).collect();
    let mut workload = workload(tasks);
    workload.pipes[0].capacity = 65_536;
    let config = Config::new(vruntime_sched::kernel("6.1").unwrap(), MachineSpec::new(parse_topology("3").unwrap()));
    let mut sinks = (Log::default(), Ledger::default());
    let outcome = simulate(&workload, &Config { duration: Some(50 * MS), ..config }, &mut sinks).unwrap();
    let (log, mut ledger) = sinks;
    // `large` does so on CPU 0.
    let small = log.of("small");
    let wakes = |(_, cpu, event): &&(u64, CpuId, Event)| {
        *cpu == CpuId(0) && matches!(event, Event::Waking { task, irq: false } if *task == small)
    };
    assert_eq!(log.events.iter().filter(wakes).count(), 1);
    ledger.check(&outcome);
}

/// Each task ends at its time, or when it next has the CPU.
#[test]
fn a_runtime_ends_at_its_time_whichever_task_had_the_cpu() {
    let ends = |ops: [Op; 2]| {
        let mut log = Log::default();
        let config = Config { duration: Some(1_000 * MS), ..exact("6.12", "1") };
        let tasks = ["a", "b"].into_iter().zip(ops).map(|(name, op)| once(name, vec![op])).collect();
        simulate(&workload(tasks), &config, &mut log).unwrap();
        (log.exit("a").unwrap() / US, log.exit("b").unwrap() / US)
    };
    let runtime = |us| Op::Runtime { time: us * US };
    // At 20 ms `b` has the CPU, and `a` continues at the tick at 24. `b` began at 4 ms, with its first turn.
    assert_eq!(ends([runtime(20_000), runtime(20_000)]), (24_000, 24_000));
    let (a, b) = ends([run(20_000), run(20_000)]);
    assert_eq!(a.max(b), 40_000, "work takes as long as it takes");
    // At 5 ms the other has the CPU, until the tick at 8: then `a` is done, and the other has the rest.
    assert_eq!(ends([runtime(5_000), run(10_000)]), (8_000, 14_000));
}

/// The kernel time here is of a wakeup.
#[test]
fn a_runtime_begins_when_debts_are_paid() {
    let mut config = exact("6.12", "2");
    config.machine.costs.wakeup_ns = 3 * US;
    let mut log = Log::default();
    let ops = vec![run(10), Op::SemPost(0), Op::Runtime { time: 100 * US }];
    let tasks = vec![pinned(once("a", ops), &[0]), pinned(once("b", vec![Op::SemWait(0)]), &[1])];
    simulate(&workload(tasks), &config, &mut log).unwrap();
    assert_eq!(log.exit("a"), Some(113 * US));
}

#[test]
fn a_beat_can_begin_before_the_task_that_uses_it_first() {
    let beat = Op::Timer { timer: 0, period: 100 * US, mode: TimerMode::Relative };
    let mut workload = workload(vec![starting(once("a", vec![run(10), beat.clone(), beat, run(10)]), 30 * US)]);
    workload.timers[0].start = Some(20 * US);
    let mut log = Log::default();
    simulate(&workload, &exact("6.12", "1"), &mut log).unwrap();
    assert_eq!(log.exit("a"), Some(230 * US));
}

#[test]
fn timers_keep_their_beat_or_restart_it() {
    let beat = |mode, period: u64| Op::Timer { timer: 0, period: period * US, mode };
    let program = |mode| {
        let ops = |work| vec![run(work), beat(mode, 100)];
        task(
            "a",
            vec![phase(ops(30), Repeat::Times(2)), phase(ops(130), Repeat::Times(1)), phase(ops(30), Repeat::Times(3))],
        )
    };
    let ends = |mode| on_own_cpus(vec![program(mode)]).loops("a").iter().map(|(at, _)| at / US).collect::<Vec<_>>();
    // In time, in time, 30 late: a relative beat continues from there, an absolute one catches up.
    assert_eq!(ends(TimerMode::Relative), [100, 200, 330, 430, 530, 630]);
    assert_eq!(ends(TimerMode::Absolute), [100, 200, 330, 400, 500, 600]);
    // A late task does not sleep.
    assert_eq!(on_own_cpus(vec![program(TimerMode::Relative)]).sleeps("a").len(), 5);
}

#[test]
fn a_sleep_ends_at_its_time_or_at_the_end_of_its_slack() {
    let log = on_own_cpus(vec![once("a", vec![run(10), sleep(100), run(10)])]);
    assert_eq!(log.sleeps("a"), [(110 * US, 0)]);
    let mut config = exact("6.12", "1");
    config.machine.timer_slack_ns = 50 * US;
    let mut log = Log::default();
    simulate(&workload(vec![once("a", vec![run(10), sleep(100)])]), &config, &mut log).unwrap();
    assert_eq!(log.sleeps("a"), [(160 * US, 50 * US)]);
    // A sleep that is over before the call waits ends no sooner.
    config.machine.costs.syscall_ns = 300;
    let mut log = Log::default();
    simulate(&workload(vec![once("a", vec![Op::Sleep { time: 100 }])]), &config, &mut log).unwrap();
    assert_eq!(log.sleeps("a"), [(50 * US + 100, 50 * US)]);
}

#[test]
fn an_interrupt_takes_along_every_timer_that_is_due() {
    let mut config = exact("6.12", "1");
    config.machine.timer_slack_ns = 50 * US;
    let lateness = |sleepers: Vec<Task>| {
        let names: Vec<String> = sleepers.iter().map(|task| task.name.clone()).collect();
        let mut log = Log::default();
        simulate(&workload(sleepers), &config, &mut log).unwrap();
        names.iter().filter_map(|name| Some(log.sleeps(name).first()?.1 / US)).collect::<Vec<_>>()
    };
    // Due 30 us apart: the interrupt of the first, at the end of its slack, takes the second. Due 60 us apart: not
    // yet.
    let pair = |apart: u64| vec![once("a", vec![sleep(100)]), once("b", vec![sleep(100 + apart)])];
    assert_eq!(lateness(pair(30)), [50, 20]);
    assert_eq!(lateness(pair(60)), [50, 50]);
    // Due 20 us before a tick of a busy CPU: it ends at the tick. Due 20 us after it: at the end of its slack.
    let busy = |due: u64| {
        let mut hog = once("b", vec![run(20_000)]);
        hog.settings.policy = Some(Policy::Idle);
        vec![once("a", vec![sleep(due)]), hog]
    };
    assert_eq!(lateness(busy(7_980))[0], 20);
    assert_eq!(lateness(busy(8_020))[0], 50);
    // A real-time task's timer has no slack.
    let mut urgent = once("a", vec![sleep(100)]);
    urgent.settings.policy = Some(Policy::Fifo { priority: 10 });
    assert_eq!(lateness(vec![urgent]), [0]);
}

/// However many timers end at one instant, the interrupt is as late as for one.
#[test]
fn the_timers_of_a_cpu_share_one_device() {
    let mut config = exact("6.12", "1");
    config.machine.costs.irq_jitter_ns = 100 * US;
    let mean = |sleepers: usize| {
        let tasks = (0..sleepers).map(|index| once(&format!("t{index}"), vec![sleep(100)]));
        let workload = workload(tasks.collect());
        let late = |seed| {
            let mut log = Log::default();
            simulate(&workload, &Config { seed, ..config.clone() }, &mut log).unwrap();
            log.sleeps("t0")[0].1
        };
        (0..400).map(late).sum::<u64>() / 400
    };
    for sleepers in [1, 20] {
        let late = mean(sleepers);
        assert!((80 * US..120 * US).contains(&late), "{sleepers} sleepers: {late} ns on average");
    }
}

/// In 6.6 an idle task's slice is protected even from a waker that is owed time, has the earlier deadline and is not
/// idle. 6.12.117 and 6.18 end that protection: a waiting task owes time or has the later deadline.
#[test]
fn an_idle_task_gives_way_at_once_from_6_12_on() {
    // How often the waker was late, and how often of these it was its turn.
    let waits = |kernel: &str, ops: [Op; 2]| {
        let mut idle = task("idle", vec![phase(vec![run(10_000)], Repeat::Forever)]);
        idle.settings.policy = Some(Policy::Idle);
        let second = Task { name: "second".to_owned(), ..idle.clone() };
        let mut waker = task("waker", vec![phase(ops.to_vec(), Repeat::Forever)]);
        waker.settings.policy = Some(Policy::Other { nice: 19, slice: None });
        let workload = workload(vec![idle, second, waker]);
        let config = |debug_at| Config { duration: Some(2_000 * MS), debug_at, ..exact(kernel, "1") };
        let mut log = Log::default();
        simulate(&workload, &config(None), &mut log).unwrap();
        let sleeps = log.sleeps("waker");
        assert!(sleeps.len() > 200);
        let late: Vec<u64> = sleeps.into_iter().filter(|(_, late)| *late > 0).map(|(at, late)| at - late + 1).collect();
        let its_turn = |woken: &&u64| {
            let outcome = simulate(&workload, &config(Some(**woken)), &mut NoSink).unwrap();
            let cpu = &outcome.debug.unwrap().cpus[0];
            let of = |id: TaskId| cpu.tasks.iter().find(|task| task.id == id).unwrap().se.unwrap();
            let (waker, running) = (of(log.of("waker")), of(cpu.curr.task().unwrap()));
            waker.eligible && waker.deadline < running.deadline
        };
        (late.len(), late.iter().filter(its_turn).count())
    };
    for (ops, late) in [([run(5_300), sleep(650)], 24), ([run(3_300), sleep(3_000)], 67)] {
        let (_, wronged) = waits("6.6", ops.clone());
        assert!(wronged > 5, "{wronged}");
        assert_eq!(waits("6.12", ops.clone()).1, 0);
        assert_eq!(waits("6.18", ops), (late, 0));
    }
}

#[test]
fn loops_report_their_duration_and_work() {
    let log = on_own_cpus(vec![task("a", vec![phase(vec![run(10), sleep(5), run(20)], Repeat::Times(3))])]);
    assert_eq!(log.loops("a"), [(35 * US, 35 * US), (70 * US, 35 * US), (105 * US, 35 * US)]);
    let work = log.pick(|_, event| match event {
        Event::LoopEnd { work, .. } => Some(work),
        _ => None,
    });
    assert_eq!(work, [30 * US; 3]);
}

#[test]
fn programs_repeat_and_phases_of_no_loops_are_passed_over() {
    let phases = vec![
        phase(vec![run(10)], Repeat::Times(2)),
        phase(vec![run(1000)], Repeat::Times(0)),
        phase(vec![run(1)], Repeat::Times(1)),
    ];
    let log = on_own_cpus(vec![Task { repeat: Repeat::Times(2), ..task("a", phases.clone()) }]);
    assert_eq!(log.loops("a").iter().map(|(_, took)| took / US).collect::<Vec<_>>(), [10, 10, 1, 10, 10, 1]);
    assert_eq!(log.exit("a"), Some(42 * US));
    // The number of runs of the program.
    let single = Task { repeat: Repeat::Times(1), ..task("a", phases.clone()) };
    let thrice = Task { name: "b".to_owned(), repeat: Repeat::Times(3), ..single.clone() };
    let log = on_own_cpus(vec![single, thrice]);
    assert_eq!((log.loops("a").len(), log.loops("b").len()), (3, 9));
    let log = on_own_cpus(vec![Task { repeat: Repeat::Times(0), ..task("a", phases) }, once("b", vec![])]);
    assert_eq!((log.exit("a"), log.exit("b")), (Some(0), Some(0)));
}

#[test]
fn a_forked_task_starts_when_forked_with_a_name_of_its_own() {
    let parent = once("a", vec![run(10), Op::Fork(1), run(5), Op::Fork(1)]);
    let child = Task { start: None, ..once("child", vec![run(100)]) };
    let mut log = Log::default();
    simulate(&workload(vec![parent, child]), &exact("6.12", "4"), &mut log).unwrap();
    assert_eq!(log.names, ["a", "child", "child-2"]);
    assert_eq!((log.exit("child"), log.exit("child-2")), (Some(110 * US), Some(115 * US)));
    let parents = log.pick(|_, event| match event {
        Event::Fork { parent, .. } => Some(parent.is_some()),
        _ => None,
    });
    assert_eq!(parents, [false, true, true]);
}

#[test]
fn starts_are_exact_without_a_seed_and_a_little_late_with_one() {
    let tasks = || vec![starting(once("a", vec![run(1)]), 7 * MS)];
    let start = |seed| {
        let mut log = Log::default();
        simulate(&workload(tasks()), &Config { seed, ..exact("6.12", "1") }, &mut log).unwrap();
        log.pick(|at, event| matches!(event, Event::Fork { .. }).then_some(at))[0]
    };
    assert_eq!(start(0), 7 * MS);
    assert!((7 * MS..7 * MS + 5 * US).contains(&start(1)));
    assert_ne!(start(1), start(2));
    assert_eq!(start(3), start(3));
}

#[test]
fn phases_change_nice_group_and_cpus() {
    let mut second = phase(vec![run(100)], Repeat::Times(1));
    second.settings = Settings {
        policy: Some(Policy::Other { nice: 5, slice: None }),
        cpus: Some(vec![1]),
        group: Some(1),
        ..Settings::default()
    };
    let moving = pinned(task("a", vec![phase(vec![run(100)], Repeat::Times(1)), second]), &[0]);
    let group = Group { path: "/g".to_owned(), parent: Some(0), ..Group::default() };
    let mut workload = workload(vec![moving]);
    workload.groups.push(group);
    let mut log = Log::default();
    simulate(&workload, &exact("6.12", "2"), &mut log).unwrap();
    let has = |wanted: fn(&Event) -> bool| log.events.iter().any(|(at, _, event)| *at == 100 * US && wanted(event));
    assert!(has(|event| matches!(event, Event::SetNice { nice: 5, .. })));
    assert!(has(|event| matches!(event, Event::MoveGroup { group, .. } if group.0 == 1)));
    assert!(has(|event| matches!(event, Event::Migrate { to, .. } if to.0 == 1)));
    assert_eq!(log.exit("a"), Some(200 * US));
    let last = log.events.iter().rev().find(|(_, _, event)| matches!(event, Event::Exit { .. })).unwrap();
    assert_eq!(last.1.0, 1);
}

#[test]
fn work_takes_longer_on_a_small_cpu_and_beside_a_busy_sibling() {
    let end = |machine: &str, tasks: Vec<Task>| {
        let mut log = Log::default();
        simulate(&workload(tasks), &exact("6.12", machine), &mut log).unwrap();
        log.exit("a").unwrap() / US
    };
    let a = |op| pinned(once("a", vec![op]), &[0]);
    let b = |us| pinned(once("b", vec![run(us)]), &[1]);
    assert_eq!(end("core:1(capacity=256)", vec![a(run(100))]), 400);
    assert_eq!(end("core:1(capacity=256)", vec![a(Op::Runtime { time: 100 * US })]), 100);
    // 60 us of work beside the sibling for 100 us, then the other 40 us alone.
    assert_eq!(end("core:1 pu:2", vec![a(run(100)), b(60)]), 140);
    assert_eq!(end("core:1 pu:2", vec![a(run(60)), b(1000)]), 100);
    assert_eq!(end("core:2 pu:1", vec![a(run(100)), b(60)]), 100);
    // Four threads have the throughput of two: 30 % each.
    let others = (1..4).map(|cpu: u32| pinned(once(&format!("o{cpu}"), vec![run(1000)]), &[cpu]));
    assert_eq!(end("core:1 pu:4", [a(run(300))].into_iter().chain(others).collect()), 1000);
}

#[test]
fn costs_are_charged_where_they_arise() {
    let mut spec = MachineSpec::new(parse_topology("1").unwrap());
    spec.timer_slack_ns = 0;
    spec.costs = Costs::ZERO;
    for (name, value) in [
        ("switch_ns", 1000),
        ("timer_ns", 200),
        ("idle_exit_ns", 30),
        ("syscall_ns", 4),
        ("timer_arm_ns", 3),
        ("syscall_return_ns", 5),
    ] {
        spec.costs.set(name, value).unwrap();
    }
    let config = Config::new(vruntime_sched::kernel("6.12").unwrap(), spec);
    let mut log = Log::default();
    simulate(&workload(vec![once("a", vec![run(10), sleep(100), run(10)])]), &config, &mut log).unwrap();
    // Switched in, worked; the sleep counts from its call, which takes 4 ns and 3 for the timer.
    let called = 1000 + 10 * US;
    let due = called + 100 * US;
    let switches = log.pick(|at, event| matches!(event, Event::Switch { .. }).then_some(at));
    assert_eq!(switches[..3], [0, called + 7, due + 30 + 200]);
    // Idle exit, interrupt, switch and return precede its own code.
    let late = 30 + 200 + 1000 + 5;
    assert_eq!(log.sleeps("a"), [(due + late, late)]);
    assert_eq!(log.exit("a"), Some(due + late + 10 * US + 4));
}

#[test]
fn a_tick_keeps_its_grid_and_fires_only_on_busy_cpus() {
    let mut config = exact("6.12", "1");
    config.machine.costs.set("tick_ns", 1000).unwrap();
    let mut log = Log::default();
    let tasks = vec![once("a", vec![run(9 * 1000), sleep(10_500), run(9 * 1000)])];
    simulate(&workload(tasks), &config, &mut log).unwrap();
    let ticks = log.pick(|at, event| matches!(event, Event::Overhead { .. }).then_some(at / MS));
    assert_eq!(ticks, [4, 8, 20, 24, 28]);
}

#[test]
fn an_interrupt_to_another_cpu_takes_time_to_arrive() {
    let mut config = exact("6.12", "2");
    config.machine.costs.set("ipi_latency_ns", 500).unwrap();
    let mut log = Log::default();
    let tasks = vec![
        pinned(once("a", vec![Op::SemWait(0), run(1)]), &[1]),
        pinned(starting(once("b", vec![run(10), Op::SemPost(0), run(10)]), 10 * US), &[0]),
    ];
    simulate(&workload(tasks), &config, &mut log).unwrap();
    assert_eq!(log.exit("b"), Some(30 * US));
    assert_eq!(log.exit("a"), Some(20 * US + 500 + US));
}

#[test]
fn waking_a_task_of_another_cpu_costs_more() {
    let waker_ends = |sleepers_cpu: u32| {
        let mut config = exact("6.12", "2");
        config.machine.costs.set("wakeup_ns", 200).unwrap();
        config.machine.costs.set("wakeup_far_ns", 3000).unwrap();
        let mut log = Log::default();
        let waker = starting(once("waker", vec![Op::SemPost(0), run(10)]), 10 * US);
        let sleeper = pinned(once("sleeper", vec![run(1), Op::SemWait(0)]), &[sleepers_cpu]);
        simulate(&workload(vec![pinned(waker, &[0]), sleeper]), &config, &mut log).unwrap();
        log.exit("waker")
    };
    assert_eq!((waker_ends(0), waker_ends(1)), (Some(20 * US + 200), Some(20 * US + 3200)));
}

/// Tasks that pass a token on one CPU.
#[test]
fn a_switch_to_a_displaced_task_costs_more() {
    let length = |rounds: u64, tasks: u32, cost: &str, processes: bool| {
        let mut config = exact("6.12", "1");
        config.machine.costs.set(cost, 1000).unwrap();
        let turn = |index: u32| {
            let ops = vec![Op::SemWait(index as usize), run(10), Op::SemPost(((index + 1) % tasks) as usize)];
            let process = Some(if processes { index } else { 0 });
            Task { process, ..task(&format!("t{index}"), vec![phase(ops, Repeat::Times(rounds))]) }
        };
        let mut all = workload((0..tasks).map(turn).collect());
        let semaphore = |index: u32| Semaphore { name: format!("s{index}"), initial: u32::from(index == 0) };
        all.semaphores = (0..tasks).map(semaphore).collect();
        simulate(&all, &config, &mut NoSink).unwrap().end
    };
    // The time of ten more rounds without the work.
    let a_round = |tasks, cost, processes| {
        let ten = length(20, tasks, cost, processes) - length(10, tasks, cost, processes);
        (ten - u64::from(tasks) * 100 * US) / 10
    };
    let cold = |tasks| a_round(tasks, "cold_switch_ns", false);
    assert_eq!([cold(2), cold(3), cold(4), cold(5)], [0, 3 * 500, 4 * 1000, 5 * 1000]);
    let mm = |processes| a_round(3, "mm_switch_ns", processes);
    assert_eq!((mm(false), mm(true)), (0, 3000));
}

/// A socket call adds its buffer's cost; a pipe's does not.
#[test]
fn messages_through_sockets_cost_a_buffer_each() {
    let length = |kind, socket_ns| {
        let mut config = exact("6.12", "1");
        config.machine.costs.socket_ns = socket_ns;
        let ops = vec![Op::PipeWrite { pipe: 0, bytes: 100 }, Op::PipeRead { pipe: 0, bytes: 100 }];
        let mut all = workload(vec![task("t", vec![phase(ops, Repeat::Times(10))])]);
        all.pipes = vec![Pipe { name: "p".to_owned(), capacity: 4096, kind }];
        simulate(&all, &config, &mut NoSink).unwrap().end
    };
    let takes = |kind| length(kind, 500) - length(kind, 0);
    assert_eq!((takes(Channel::Socket), takes(Channel::Pipe)), (20 * 500, 0));
}

/// Buffers of unread messages leave the second-level cache, which 1024 of them fill.
#[test]
fn many_messages_in_sockets_are_cold() {
    let length = |kind, unread: u64, cold_socket_ns| {
        let mut config = exact("6.12", "1");
        config.machine.costs.cold_socket_ns = cold_socket_ns;
        let (write, read) = (Op::PipeWrite { pipe: 0, bytes: 1 }, Op::PipeRead { pipe: 0, bytes: 1 });
        let both = phase(vec![write.clone(), read.clone()], Repeat::Times(10));
        let phases = vec![phase(vec![write], Repeat::Times(unread)), both, phase(vec![read], Repeat::Times(unread))];
        let mut all = workload(vec![task("t", phases)]);
        all.pipes = vec![Pipe { name: "p".to_owned(), capacity: 10_000, kind }];
        simulate(&all, &config, &mut NoSink).unwrap().end
    };
    let takes = |kind, unread| length(kind, unread, 1024) - length(kind, unread, 0);
    // A write finds the earlier messages, a read also its own; beyond 1024 all cost the same.
    let costs = |unread: u64| unread.min(1024);
    let all = |unread: u64| {
        (0..unread).map(costs).sum::<u64>()
            + 10 * (costs(unread) + costs(unread + 1))
            + (1..=unread).map(costs).sum::<u64>()
    };
    for unread in [0, 100, 5000] {
        assert_eq!(takes(Channel::Socket, unread), all(unread));
    }
    assert_eq!(takes(Channel::Pipe, 100), 0);
}

#[test]
fn kinds_and_patterns_of_memory_accesses_are_reported_to_mean_nothing() {
    let notes = |kind: &str, pattern: &str| {
        let (kind, pattern) = (kind.to_owned(), pattern.to_owned());
        let access = MemRun { kind, pattern, buffer: String::new(), size: 4096, count: 64, stride: 64 };
        let workload = workload(vec![task("a", vec![phase(vec![Op::MemRun(Box::new(access))], Repeat::Times(1))])]);
        simulate(&workload, &exact("6.12", "1"), &mut Log::default()).unwrap().notes
    };
    assert!(notes(MemRun::KIND, MemRun::PATTERN).is_empty());
    for (kind, pattern) in [("read", MemRun::PATTERN), (MemRun::KIND, "random")] {
        assert!(notes(kind, pattern)[0].contains("`pattern` of `memrun` (task `a`) have no effect"));
    }
}

#[test]
fn a_yield_is_a_voluntary_switch_to_another() {
    let yielder = |name| pinned(once(name, vec![run(10), Op::Yield, run(10)]), &[0]);
    let mut log = Log::default();
    simulate(&workload(vec![yielder("a"), yielder("b")]), &exact("6.12", "1"), &mut log).unwrap();
    let yields = log.pick(|at, event| match event {
        Event::Switch { prev: Running::Task(_), prev_state: PrevState::Yielded, .. } => Some(at / US),
        _ => None,
    });
    assert_eq!(yields, [10, 20]);
}
