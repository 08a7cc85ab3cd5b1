//! The grammar of rt-app files, one row a key: what is written, and the program it becomes.

use vruntime_workload::program::{Mutex, Op, Policy, Repeat, Semaphore, Settings, Task, Timer, TimerMode, Workload};
use vruntime_workload::rtapp::{self, Calibration, FtraceCategory, Global, LogSize, Options, PolicyName, RtApp};

/// Reads a file as rt-app does, without a warning.
#[track_caller]
fn read(text: &str) -> RtApp {
    let read = rtapp::parse("test.json", text.as_bytes(), &Options::default())
        .unwrap_or_else(|error| panic!("{text}\n{error} at {:?}", error.location()));
    assert!(read.warnings.is_empty(), "{text}\n{:?}", read.warnings);
    read
}

/// A task `t` with these keys.
#[track_caller]
fn task(keys: &str) -> (Task, Workload) {
    let workload = read(&format!("{{ \"tasks\" : {{ \"t\" : {{ {keys} }} }} }}")).workload;
    (workload.tasks[0].clone(), workload)
}

/// The operations of a task `t` with this event.
#[track_caller]
fn ops(event: &str) -> Vec<Op> {
    task(event).0.phases[0].ops.clone()
}

/// A timer whose beats are counted from the start of the workload.
fn from_start(name: &str) -> Timer {
    Timer { start: Some(0), ..Timer::new(name) }
}

macro_rules! rows {
    ($($name:ident: $body:expr;)*) => {
        $(#[test] fn $name() { $body })*
    };
}

const OTHER: Policy = Policy::Other { nice: 0, slice: None };

// Events. Microseconds become nanoseconds.
rows! {
    event_run: assert_eq!(ops(r#""run" : 20000"#), [Op::Run { work: 20_000_000 }]);
    event_runtime: assert_eq!(ops(r#""runtime" : 3"#), [Op::Runtime { time: 3000 }]);
    event_sleep: assert_eq!(ops(r#""sleep" : 0"#), [Op::Sleep { time: 0 }]);
    event_mem: assert_eq!(ops(r#""mem" : 1000"#), [Op::Mem { bytes: 1000 }]);
    event_iorun: assert_eq!(ops(r#""iorun" : 100000"#), [Op::Io { bytes: 100_000 }]);
    event_yield: assert_eq!(ops(r#""yield" : """#), [Op::Yield]);
    event_bare_yield: assert_eq!(ops(r#""yield", "run" : 1"#), [Op::Yield, Op::Run { work: 1000 }]);
    event_lock_unlock: {
        let (task, workload) = task(r#""lock" : "m", "run" : 1, "unlock" : "m""#);
        assert_eq!(task.phases[0].ops, [Op::Lock(0), Op::Run { work: 1000 }, Op::Unlock(0)]);
        assert_eq!(workload.mutexes, [Mutex { name: "m".into(), priority_inheritance: false, hands_over: false }]);
    };
    event_wait: {
        let (task, workload) = task(r#""wait" : { "ref" : "q", "mutex" : "m" }"#);
        assert_eq!(task.phases[0].ops, [Op::Wait { condition: 0, mutex: 0 }]);
        assert_eq!((workload.conditions[0].as_str(), workload.mutexes[0].name.as_str()), ("q", "m"));
    };
    event_sync: assert_eq!(ops(r#""sync" : { "ref" : "q", "mutex" : "m" }"#), [Op::Sync { condition: 0, mutex: 0 }]);
    event_signal: assert_eq!(ops(r#""signal" : "q", "signal1" : "r""#), [Op::Signal(0), Op::Signal(1)]);
    event_broad: assert_eq!(ops(r#""broad" : "q", "broadcast" : "q""#), [Op::Broadcast(0), Op::Broadcast(0)]);
    event_barrier: {
        let (task, workload) = task(r#""instance" : 3, "barrier" : "b""#);
        assert_eq!(task.phases[0].ops, [Op::Barrier(0)]);
        assert_eq!(workload.barriers[0].parties, 3);
    };
    event_suspend_named: {
        let (task, workload) = task(r#""suspend" : "x""#);
        assert_eq!((&task.phases[0].ops[..], workload.conditions), (&[Op::Suspend { condition: 0, mutex: 0 }][..], vec!["x".into()]));
    };
    event_suspend_empty_is_the_task: assert_eq!(task(r#""suspend" : """#).1.conditions, ["t"]);
    event_suspend_bare_is_the_task: assert_eq!(task(r#""suspend","#).1.conditions, ["t"]);
    event_suspend_in_a_phase_is_the_task:
        assert_eq!(task(r#""phases" : { "p" : { "suspend", "run" : 1 } }"#).1.conditions, ["t"]);
    event_resume: assert_eq!(ops(r#""suspend" : "x", "resume" : "x""#)[1], Op::Resume { condition: 0, mutex: 0 });
    event_sem_post_and_wait: {
        let (task, workload) = task(r#""sem_post" : "s", "sem_wait" : "s""#);
        assert_eq!(task.phases[0].ops, [Op::SemPost(0), Op::SemWait(0)]);
        assert_eq!(workload.semaphores, [Semaphore { name: "s".into(), initial: 0 }]);
    };
    event_fork: {
        let workload = read(r#"{ "tasks" : { "a" : { "instance" : 2, "run" : 1 }, "b" : { "fork" : "c" },
            "c" : { "instance" : 0, "run" : 1 } } }"#).workload;
        assert_eq!(workload.tasks[2].phases[0].ops, [Op::Fork(3)]);
        assert_eq!((workload.tasks[3].name.as_str(), workload.tasks[3].start), ("c", None));
    };
    event_fork_past_one_that_is_only_forked: {
        let workload = read(r#"{ "tasks" : { "a" : { "instance" : 0, "run" : 1 }, "b" : { "fork" : "c", "fork1" : "a" },
            "c" : { "instance" : 0, "run" : 1 } } }"#).workload;
        assert_eq!(workload.tasks[1].phases[0].ops, [Op::Fork(2), Op::Fork(0)]);
    };
    event_timer: {
        let (task, workload) = task(r#""timer" : { "ref" : "tick", "period" : 100000 }"#);
        let timer = Op::Timer { timer: 0, period: 100_000_000, mode: TimerMode::Relative };
        assert_eq!((&task.phases[0].ops[..], workload.timers), (&[timer][..], vec![from_start("tick")]));
    };
    event_timer_relative: assert!(matches!(
        ops(r#""timer" : { "ref" : "t", "period" : 1, "mode" : "relative" }"#)[0],
        Op::Timer { mode: TimerMode::Relative, .. }));
    event_timer_absolute: assert!(matches!(
        ops(r#""timer" : { "ref" : "t", "period" : 1, "mode" : "absolute" }"#)[0],
        Op::Timer { mode: TimerMode::Absolute, .. }));
    event_timer_shared_by_tasks: {
        let (_, workload) = task(r#""instance" : 2, "timer" : { "ref" : "tick", "period" : 1 }"#);
        assert_eq!(workload.timers.len(), 1);
        assert_eq!(workload.tasks[0].phases[0].ops, workload.tasks[1].phases[0].ops);
    };
    // rt-app 1.0, asked with a `delay` and with phases before the one with the timer.
    event_timer_beats_from_the_start_of_its_task: {
        let (_, workload) = task(r#""delay" : 20000, "phases" : { "a" : { "sleep" : 7000 },
            "b" : { "timer" : { "ref" : "unique", "period" : 10000 }, "timer1" : { "ref" : "tick", "period" : 5 } } }"#);
        let starts: Vec<_> = workload.timers.iter().map(|timer| timer.start).collect();
        assert_eq!(starts, [Some(20_000_000); 2]);
    };
    event_timer_of_several_tasks_beats_from_the_start_of_the_first: {
        let timer = r#""timer" : { "ref" : "tick", "period" : 5 }"#;
        let text = format!(r#"{{ "tasks" : {{ "a" : {{ "delay" : 20, {timer} }}, "b" : {{ "delay" : 9, {timer} }}, "c" : {{ "delay" : 30, {timer} }} }} }}"#);
        assert_eq!(read(&text).workload.timers, [Timer { start: Some(9000), ..Timer::new("tick") }]);
    };
    event_timer_unique_to_a_task: {
        let (_, workload) = task(r#""instance" : 2, "timer" : { "ref" : "uniqueA", "period" : 1 },
            "timer1" : { "ref" : "uniqueA", "period" : 2 }, "timer2" : { "ref" : "unique", "period" : 1 }"#);
        assert_eq!(workload.timers, ["uniqueA:t-0", "unique:t-0", "uniqueA:t-1", "unique:t-1"].map(from_start));
        let numbers: Vec<_> = workload.tasks[1].phases[0].ops.iter().map(|op| match op {
            Op::Timer { timer, .. } => *timer,
            _ => unreachable!("only timers are written"),
        }).collect();
        assert_eq!(numbers, [2, 2, 3]);
    };
    event_memrun: {
        let event = r#""memrun" : { "type" : "read", "size" : 4096, "count" : 10, "stride" : 128, "pattern" : "random", "ref" : "b" }"#;
        let Op::MemRun(run) = &ops(event)[0] else { panic!("not a memrun") };
        assert_eq!((run.kind.as_str(), run.pattern.as_str(), run.buffer.as_str()), ("read", "random", "b"));
        assert_eq!((run.size, run.count, run.stride), (4096, 10, 128));
    };
    event_memrun_defaults: {
        let Op::MemRun(run) = &ops(r#""memrun" : {}"#)[0] else { panic!("not a memrun") };
        assert_eq!((run.kind.as_str(), run.size, run.count, run.stride), ("write", 4 << 20, 65536, 64));
    };
}

// A key is the first event it begins with.
rows! {
    prefix_of_each: {
        let keys = [
            ("lockA", "\"m\"", Op::Lock(0)), ("unlock_2", "\"m\"", Op::Unlock(0)), ("signal9", "\"q\"", Op::Signal(0)),
            ("broadX", "\"q\"", Op::Broadcast(0)), ("sleep1", "1", Op::Sleep { time: 1000 }),
            ("runtime7", "1", Op::Runtime { time: 1000 }), ("run0", "1", Op::Run { work: 1000 }),
            ("running", "1", Op::Run { work: 1000 }), ("suspend0", "\"q\"", Op::Suspend { condition: 0, mutex: 0 }),
            ("resume0", "\"q\"", Op::Resume { condition: 0, mutex: 0 }), ("memory", "1", Op::Mem { bytes: 1 }),
            ("iorun3", "1", Op::Io { bytes: 1 }), ("yield2", "\"\"", Op::Yield), ("barrier1", "\"b\"", Op::Barrier(0)),
            ("sem_post1", "\"s\"", Op::SemPost(0)), ("sem_wait1", "\"s\"", Op::SemWait(0)), ("fork1", "\"t\"", Op::Fork(0)),
        ];
        for (key, value, op) in keys {
            assert_eq!(ops(&format!("\"{key}\" : {value}")), [op], "{key}");
        }
        assert!(matches!(ops(r#""timer_b" : { "ref" : "t", "period" : 1 }"#)[0], Op::Timer { .. }));
        assert!(matches!(ops(r#""wait_for" : { "ref" : "q", "mutex" : "m" }"#)[0], Op::Wait { .. }));
        assert!(matches!(ops(r#""sync2" : { "ref" : "q", "mutex" : "m" }"#)[0], Op::Sync { .. }));
        assert!(matches!(ops(r#""memrun4" : {}"#)[0], Op::MemRun(_)));
    };
    order_and_repetition_are_kept: assert_eq!(
        ops(r#""run" : 1, "sleep" : 2, "run" : 3, "sleep" : 4"#),
        [Op::Run { work: 1000 }, Op::Sleep { time: 2000 }, Op::Run { work: 3000 }, Op::Sleep { time: 4000 }]);
}

// Keys of a task.
rows! {
    task_instance: {
        let names: Vec<_> = task(r#""instance" : 3, "run" : 1"#).1.tasks.into_iter().map(|t| (t.name, t.class)).collect();
        assert_eq!(names, [("t-0", "t"), ("t-1", "t"), ("t-2", "t")].map(|(n, c)| (n.to_owned(), c.to_owned())));
    };
    task_instance_default: assert_eq!(task(r#""run" : 1"#).0.name, "t");
    task_instances_share_their_program: {
        let tasks = task(r#""instance" : 2, "run" : 1"#).1.tasks;
        assert!(std::sync::Arc::ptr_eq(&tasks[0].phases, &tasks[1].phases));
    };
    task_delay: assert_eq!(task(r#""delay" : 300, "run" : 1"#).0.start, Some(300_000));
    task_loop_default: assert_eq!(task(r#""run" : 1"#).0.repeat, Repeat::Forever);
    task_loop: assert_eq!(task(r#""loop" : 3, "run" : 1"#).0.repeat, Repeat::Times(3));
    task_loop_forever: assert_eq!(task(r#""loop" : -1, "run" : 1"#).0.repeat, Repeat::Forever);
    task_without_phases_is_one_phase: {
        let task = task(r#""loop" : 3, "run" : 1"#).0;
        assert_eq!((task.phases.len(), task.phases[0].repeat), (1, Repeat::Times(1)));
    };
    task_loop_with_phases: {
        let task = task(r#""loop" : 2, "phases" : { "p" : { "loop" : 3, "run" : 1 } }"#).0;
        assert_eq!((task.repeat, task.phases[0].repeat), (Repeat::Times(2), Repeat::Times(3)));
    };
    task_loop_default_with_phases: assert_eq!(task(r#""phases" : { "p" : { "run" : 1 } }"#).0.repeat, Repeat::Forever);
    task_settings_are_the_tasks: {
        let task = task(r#""priority" : 5, "cpus" : [1], "run" : 1"#).0;
        assert_eq!(task.phases[0].settings, Settings::default());
        assert_eq!(task.settings.policy, Some(Policy::Other { nice: 5, slice: None }));
    };
    legacy_deadline: assert_eq!(
        task(r#""policy" : "SCHED_DEADLINE", "runtime" : 3000, "deadline" : 10000, "period" : 20000, "run" : 1"#).0,
        task(r#""policy" : "SCHED_DEADLINE", "dl-runtime" : 3000, "dl-deadline" : 10000, "dl-period" : 20000, "run" : 1"#).0);
    runtime_beside_dl_runtime_is_an_event: assert_eq!(
        ops(r#""policy" : "SCHED_DEADLINE", "dl-runtime" : 3000, "runtime" : 2000"#), [Op::Runtime { time: 2_000_000 }]);
}

// Keys of a task and of a phase.
rows! {
    phase_loop: {
        let repeats: Vec<_> = task(r#""phases" : { "a" : { "loop" : 4, "run" : 1 }, "b" : { "run" : 1 }, "c" : { "loop" : -1, "run" : 1 } }"#)
            .0.phases.iter().map(|phase| (phase.name.clone(), phase.repeat)).collect();
        let expected = [("a", Repeat::Times(4)), ("b", Repeat::Times(1)), ("c", Repeat::Forever)];
        assert_eq!(repeats, expected.map(|(name, repeat)| (name.to_owned(), repeat)));
    };
    policy_of_each_name: {
        let policies = [
            ("SCHED_OTHER", OTHER), ("SCHED_BATCH", Policy::Batch { nice: 0, slice: None }), ("SCHED_IDLE", Policy::Idle),
            ("SCHED_RR", Policy::RoundRobin { priority: 10 }), ("SCHED_FIFO", Policy::Fifo { priority: 10 }),
        ];
        for (name, policy) in policies {
            assert_eq!(task(&format!(r#""policy" : "{name}", "run" : 1"#)).0.settings.policy, Some(policy), "{name}");
        }
    };
    policy_deadline_defaults: {
        let policy = task(r#""policy" : "SCHED_DEADLINE", "dl-runtime" : 3, "run" : 1"#).0.settings.policy;
        assert_eq!(policy, Some(Policy::Deadline { runtime: 3000, deadline: 3000, period: 3000, reclaim: false, overrun: false }));
    };
    dl_period_is_the_default_deadline: {
        let policy = task(r#""policy" : "SCHED_DEADLINE", "dl-runtime" : 3, "dl-period" : 9, "run" : 1"#).0.settings.policy;
        assert_eq!(policy, Some(Policy::Deadline { runtime: 3000, deadline: 9000, period: 9000, reclaim: false, overrun: false }));
    };
    dl_deadline: {
        let keys = r#""policy" : "SCHED_DEADLINE", "dl-runtime" : 3, "dl-deadline" : 5, "dl-period" : 9, "run" : 1"#;
        let policy = task(keys).0.settings.policy;
        assert_eq!(policy, Some(Policy::Deadline { runtime: 3000, deadline: 5000, period: 9000, reclaim: false, overrun: false }));
    };
    dl_times_of_0_are_left_out: {
        let keys = r#""policy" : "SCHED_DEADLINE", "dl-runtime" : 3, "dl-deadline" : 0, "dl-period" : 0, "run" : 1"#;
        let policy = task(keys).0.settings.policy;
        assert_eq!(policy, Some(Policy::Deadline { runtime: 3000, deadline: 3000, period: 3000, reclaim: false, overrun: false }));
    };
    dl_times_that_the_kernel_refuses: for (runtime, deadline, period) in [(6, 5, 9), (3, 10, 9)] {
        let text = format!(r#"{{ "tasks" : {{ "t" : {{ "policy" : "SCHED_DEADLINE", "dl-runtime" : {runtime}, "dl-deadline" : {deadline},
            "dl-period" : {period}, "run" : 1 }} }} }}"#);
        let error = rtapp::parse("test.json", text.as_bytes(), &Options::default()).unwrap_err();
        assert!(error.message().starts_with("the kernel refuses a `dl-"), "{}", error.message());
        assert!(error.message().ends_with("(EINVAL)"), "{}", error.message());
    };
    dl_runtime_is_a_custom_slice: {
        let policy = task(r#""dl-runtime" : 3000, "priority" : -5, "run" : 1"#).0.settings.policy;
        assert_eq!(policy, Some(Policy::Other { nice: -5, slice: Some(3_000_000) }));
    };
    dl_runtime_of_0_asks_for_the_kernels_slice: {
        let policy = |slice| Some(Policy::Other { nice: 0, slice });
        let task = task(r#""dl-runtime" : 3000, "phases" : { "a" : { "dl-runtime" : 0, "run" : 1 } }"#).0;
        assert_eq!((task.settings.policy, task.phases[0].settings.policy), (policy(Some(3_000_000)), policy(None)));
    };
    priority_is_nice: assert_eq!(
        task(r#""priority" : -20, "run" : 1"#).0.settings.policy, Some(Policy::Other { nice: -20, slice: None }));
    priority_is_real_time: assert_eq!(
        task(r#""policy" : "SCHED_FIFO", "priority" : 99, "run" : 1"#).0.settings.policy, Some(Policy::Fifo { priority: 99 }));
    cpus: assert_eq!(task(r#""cpus" : [5, 0, 900, 5], "run" : 1"#).0.settings.cpus, Some(vec![0, 5, 900]));
    cpus_empty: assert_eq!(task(r#""cpus" : [], "run" : 1"#).0.settings.cpus, None);
    nodes_membind: assert_eq!(task(r#""nodes_membind" : [1], "run" : 1"#).0.settings.nodes, Some(vec![1]));
    util_min: assert_eq!(task(r#""util_min" : 512, "run" : 1"#).0.settings.util_min, Some(512));
    util_max: assert_eq!(task(r#""util_max" : 1024, "run" : 1"#).0.settings.util_max, Some(1024));
    taskgroup: {
        let (task, workload) = task(r#""taskgroup" : "/web/api", "run" : 1"#);
        let paths: Vec<_> = workload.groups.iter().map(|group| (group.path.as_str(), group.parent)).collect();
        assert_eq!(paths, [("/", None), ("/web", Some(0)), ("/web/api", Some(1))]);
        assert_eq!((task.settings.group, workload.groups[2].weight), (Some(2), 100));
    };
    phase_changes_what_it_says: {
        let task = task(r#""priority" : 5, "phases" : { "a" : { "run" : 1 }, "b" : { "priority" : 3, "run" : 1 },
            "c" : { "policy" : "SCHED_RR", "run" : 1 }, "d" : { "priority" : 7, "taskgroup" : "/x", "util_min" : 1, "run" : 1 } }"#).0;
        let policies: Vec<_> = task.phases.iter().map(|phase| phase.settings.policy).collect();
        assert_eq!(policies, [None, Some(Policy::Other { nice: 3, slice: None }),
            Some(Policy::RoundRobin { priority: 10 }), Some(Policy::RoundRobin { priority: 7 })]);
        assert_eq!((task.phases[3].settings.group, task.phases[3].settings.util_min), (Some(1), Some(1)));
        assert_eq!(task.phases[2].settings.group, None);
    };
    another_policy_begins_with_its_own_defaults: {
        let task = task(r#""policy" : "SCHED_RR", "priority" : 20, "phases" : { "a" : { "policy" : "SCHED_FIFO", "run" : 1 },
            "b" : { "policy" : "SCHED_OTHER", "priority" : 4, "run" : 1 }, "c" : { "policy" : "SCHED_BATCH", "run" : 1 } }"#).0;
        let policies: Vec<_> = task.phases.iter().map(|phase| phase.settings.policy).collect();
        assert_eq!(policies, [Some(Policy::Fifo { priority: 10 }), Some(Policy::Other { nice: 4, slice: None }),
            Some(Policy::Batch { nice: 0, slice: None })]);
    };
    phase_without_cpus_returns_to_the_tasks: {
        let task = task(r#""cpus" : [2], "phases" : { "a" : { "cpus" : [0], "run" : 1 }, "b" : { "run" : 1 } }"#).0;
        let cpus: Vec<_> = task.phases.iter().map(|phase| phase.settings.cpus.clone()).collect();
        assert_eq!(cpus, [Some(vec![0]), Some(vec![2])]);
    };
}

/// The `global` object of a file that has this one.
#[track_caller]
fn global(keys: &str) -> RtApp {
    read(&format!("{{ \"global\" : {{ {keys} }}, \"tasks\" : {{ \"t\" : {{ \"lock\" : \"m\", \"run\" : 1 }} }} }}"))
}

// Keys of `global`.
rows! {
    global_defaults: {
        assert_eq!(global("").global, Global::default());
        let default = Global::default();
        assert_eq!((default.duration_s, default.calibration), (None, Calibration::Cpu(0)));
        assert_eq!((default.default_policy, default.log_size), (PolicyName::Other, LogSize::File));
        assert_eq!((default.logdir.as_str(), default.log_basename.as_str()), ("./", "rt-app"));
        assert_eq!((default.io_device.as_str(), default.mem_buffer_size), ("/dev/null", 4_194_304));
    };
    global_duration: {
        let read = global(r#""duration" : 5"#);
        assert_eq!((read.global.duration_s, read.workload.duration), (Some(5), Some(5_000_000_000)));
    };
    global_duration_endless: assert_eq!(global(r#""duration" : -1"#).workload.duration, None);
    global_duration_of_0_is_endless: assert_eq!(global(r#""duration" : 0"#).workload.duration, None);
    global_calibration_cpu: assert_eq!(global(r#""calibration" : "CPU3""#).global.calibration, Calibration::Cpu(3));
    global_calibration_ns: assert_eq!(global(r#""calibration" : 140"#).global.calibration, Calibration::NsPerLoop(140));
    global_default_policy: assert_eq!(
        global(r#""default_policy" : "SCHED_FIFO""#).workload.tasks[0].settings.policy, Some(Policy::Fifo { priority: 10 }));
    global_pi_enabled: assert!(global(r#""pi_enabled" : true"#).workload.mutexes[0].priority_inheritance);
    global_lock_pages: assert!(global(r#""lock_pages" : true"#).global.lock_pages);
    global_logdir: assert_eq!(global(r#""logdir" : "/tmp/""#).global.logdir, "/tmp/");
    global_log_basename: assert_eq!(global(r#""log_basename" : "web""#).global.log_basename, "web");
    global_log_size: {
        let sizes = [("4", LogSize::MiB(4)), ("\"file\"", LogSize::File), ("\"Disable\"", LogSize::Disable), ("\"auto\"", LogSize::Auto)];
        for (text, size) in sizes {
            assert_eq!(global(&format!("\"log_size\" : {text}")).global.log_size, size);
        }
    };
    global_ftrace_of_1_0: {
        assert_eq!(global(r#""ftrace" : true"#).global.ftrace.len(), 5);
        assert_eq!(global(r#""ftrace" : false"#).global.ftrace, []);
    };
    global_ftrace_list: {
        let read = global(r#""ftrace" : "task,loop,main""#);
        assert_eq!(read.global.ftrace, [FtraceCategory::Main, FtraceCategory::Task, FtraceCategory::Loop]);
        assert_eq!(global(r#""ftrace" : "none""#).global.ftrace, []);
    };
    global_gnuplot: assert!(global(r#""gnuplot" : true"#).global.gnuplot);
    global_io_device: assert_eq!(global(r#""io_device" : "/dev/sdz""#).global.io_device, "/dev/sdz");
    global_mem_buffer_size: assert_eq!(global(r#""mem_buffer_size" : 1048576"#).global.mem_buffer_size, 1 << 20);
    global_cumulative_slack: assert!(global(r#""cumulative_slack" : true"#).global.cumulative_slack);
}

// The top level.
rows! {
    top_tasks: assert_eq!(task(r#""run" : 1"#).1.groups.len(), 1);
    top_resources: {
        let workload = read(r#"{ "resources" : { "m" : { "type" : "mutex" }, "q" : { "type" : "wait" }, "t" : { "type" : "timer" },
            "s" : { "type" : "signal", "target" : "q" } }, "tasks" : { "t" : { "lock" : "n", "lock1" : "m" } } }"#).workload;
        assert_eq!(workload.tasks[0].phases[0].ops, [Op::Lock(1), Op::Lock(0)]);
        assert_eq!((workload.conditions, workload.timers), (vec!["q".to_owned()], vec![Timer::new("t")]));
    };
    every_instance_of_every_mention_meets_at_a_barrier: {
        let workload = read(r#"{ "tasks" : { "a" : { "barrier" : "b", "run" : 1 }, "c" : { "instance" : 2, "barrier" : "b", "run" : 1 },
            "d" : { "instance" : 0, "barrier" : "b", "fork" : "d" } } }"#).workload;
        assert_eq!(workload.barriers[0].parties, 3);
    };
    who_is_only_forked_meets_himself_at_a_barrier: {
        let workload = read(r#"{ "tasks" : { "a" : { "fork" : "d" }, "d" : { "instance" : 0, "barrier" : "b" } } }"#).workload;
        assert_eq!(workload.barriers[0].parties, 1);
    };
}

/// What lenient reading takes, and strict reading names with its place.
const LENIENCIES: &[(&str, &str, (usize, usize))] = &[
    ("block comment", "{ /* c */ \"tasks\" : { \"t\" : { \"run\" : 1 } } }", (1, 3)),
    ("line comment", "{ \"tasks\" :\n // c\n { \"t\" : { \"run\" : 1 } } }", (2, 2)),
    ("trailing comma in an object", "{ \"tasks\" : { \"t\" : { \"run\" : 1, } } }", (1, 32)),
    ("trailing comma in an array", "{ \"tasks\" : { \"t\" : { \"run\" : 1, \"cpus\" : [ 1, ] } } }", (1, 46)),
    ("repeated event", "{ \"tasks\" : { \"t\" : { \"run\" : 1, \"run\" : 2 } } }", (1, 34)),
    (
        "repeated phase",
        "{ \"tasks\" : { \"t\" : { \"phases\" : { \"p\" : { \"run\" : 1 }, \"p\" : { \"run\" : 1 } } } } }",
        (1, 57),
    ),
    ("bare suspend", "{ \"tasks\" : { \"t\" : { \"run\" : 1, \"suspend\", \"run1\" : 1 } } }", (1, 34)),
    ("single quotes", "{ 'tasks' : { \"t\" : { \"run\" : 1 } } }", (1, 3)),
    ("capital letter", "{ \"global\" : { \"gnuplot\" : True }, \"tasks\" : { \"t\" : { \"run\" : 1 } } }", (1, 28)),
    ("fraction that is none", "{ \"tasks\" : { \"t\" : { \"run\" : 1e3 } } }", (1, 31)),
    (
        "a number for a boolean",
        "{ \"global\" : { \"gnuplot\" : 1 }, \"tasks\" : { \"t\" : { \"run\" : 1 } } }",
        (1, 28),
    ),
    ("yield with a number", "{ \"tasks\" : { \"t\" : { \"yield\" : 1 } } }", (1, 33)),
    ("frag", "{ \"global\" : { \"frag\" : 1 }, \"tasks\" : { \"t\" : { \"run\" : 1 } } }", (1, 16)),
    ("byte order mark", "\u{feff}{ \"tasks\" : { \"t\" : { \"run\" : 1 } } }", (1, 1)),
];

#[test]
fn leniencies_are_errors_with_their_place_when_strict() {
    let strict = Options { strict: true, ..Options::default() };
    for (what, text, place) in LENIENCIES {
        read(text);
        let error = rtapp::parse("test.json", text.as_bytes(), &strict).expect_err(what);
        assert_eq!(error.location(), Some(*place), "{what}: {error}");
        assert!(error.help().is_some(), "{what}");
        assert_eq!(error.related().len(), 0, "{what}: {error:?}");
    }
}

/// What is read with a warning, and refused when strict.
const WARNINGS: &[(&str, &str)] = &[
    ("{ \"tasks\" : { \"t\" : { \"run\" : 1, \"prioriti\" : 1 } } }", "unknown key `prioriti`"),
    ("{ \"task\" : 1, \"tasks\" : { \"t\" : { \"run\" : 1 } } }", "unknown key `task`"),
    ("{ \"tasks\" : { \"t\" : { \"run\" : 1 } } } }", "there is text after the end of the workload"),
    ("{ \"tasks\" : { \"t\" : { \"loop\" : 1, \"loop\" : 2, \"run\" : 1 } } }", "`loop` is given twice"),
    ("{ \"tasks\" : { \"t\" : { \"run\" : 1 }, \"t\" : { \"run\" : 1 } } }", "task `t` is given twice"),
    ("{ \"tasks\" : { \"t\" : { \"timer\" : { \"period\" : 1 } } } }", "`timer` has no `ref`"),
    ("{ \"tasks\" : { \"t\" : { \"wait\" : { \"ref\" : \"q\" } } } }", "`wait` has no `mutex`"),
    (
        "{ \"tasks\" : { \"t\" : { \"dl-runtime\" : 5, \"run\" : 1 } } }",
        "this custom slice is out of the kernel's range",
    ),
    ("{ \"tasks\" : { \"t\" : { \"dl-period\" : 5, \"run\" : 1 } } }", "`dl-period` means nothing under SCHED_OTHER"),
    (
        "{ \"tasks\" : { \"t\" : { \"run\" : 1, \"phases\" : { \"p\" : { \"run\" : 1 } } } } }",
        "an event beside `phases`",
    ),
    ("{ \"tasks\" : { \"t\" : { \"phases\" : { \"p\" : { \"loop\" : 0, \"run\" : 1 } } } } }", "`loop` is 0"),
    ("{ \"tasks\" : { \"t\" : { \"exec\" : 1, \"run\" : 1 } } }", "`exec` belongs to the grammar before rt-app 0.3"),
    ("{ \"tasks\" : {} }", "there are no tasks"),
    (
        "{ \"tasks\" : { \"t\" : { \"instance\" : 0, \"delay\" : 5, \"run\" : 1 } } }",
        "`delay` of task `t`, which is only forked",
    ),
];

#[test]
fn doubtful_things_are_warned_of_and_refused_when_strict() {
    let strict = Options { strict: true, ..Options::default() };
    for (text, message) in WARNINGS {
        let read = rtapp::parse("test.json", text.as_bytes(), &Options::default()).expect(text);
        assert_eq!(
            read.warnings.iter().map(vruntime_workload::Error::message).collect::<Vec<_>>(),
            [*message],
            "{text}"
        );
        assert_eq!(rtapp::parse("test.json", text.as_bytes(), &strict).expect_err(text).message(), *message);
    }
}

/// What is not to run is the task itself, or one of its phases.
#[test]
fn a_loop_of_0_is_reported_with_whose_it_is() {
    for (task, whose) in
        [(r#""loop" : 0, "run" : 1"#, "task"), (r#""phases" : { "p" : { "loop" : 0, "run" : 1 } }"#, "phase")]
    {
        let text = format!(r#"{{ "tasks" : {{ "t" : {{ {task} }} }} }}"#);
        let read = rtapp::parse("test.json", text.as_bytes(), &Options::default()).expect("it is read");
        let help = format!("write -1 if that is meant; remove the {whose} if it is not to run");
        assert_eq!(read.warnings.iter().map(|warning| warning.help()).collect::<Vec<_>>(), [Some(help.as_str())]);
    }
}

#[test]
fn a_strict_file_is_read_alike() {
    let text = "{ \"tasks\" : { \"t\" : { \"run\" : 1, \"suspend\" : \"t\" } }, \"global\" : { \"duration\" : 1 } }";
    let strict = Options { strict: true, ..Options::default() };
    let strictly = rtapp::parse("test.json", text.as_bytes(), &strict).expect("it is strict");
    assert_eq!(strictly.workload, read(text).workload);
}

#[test]
fn tasks_of_one_name_get_numbers() {
    let text = "{ \"tasks\" : { \"t\" : { \"run\" : 1 }, \"t\" : { \"run\" : 2 }, \"t#2\" : { \"run\" : 3 } } }";
    let tasks = rtapp::parse("test.json", text.as_bytes(), &Options::default()).expect("it is read").workload.tasks;
    assert_eq!(tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(), ["t", "t#2", "t#2#2"]);
}
