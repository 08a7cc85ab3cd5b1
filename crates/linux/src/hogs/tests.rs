//! Workloads that would hang a machine, and others.

use std::io;

use super::*;
use vruntime_workload::program::Policy;
use vruntime_workload::{rtapp, scenario};

fn machine(cpus: u32) -> Machine {
    Machine { online: (0..cpus).collect(), allowed: (0..cpus).collect(), real_time: false }
}

fn json(tasks: &str) -> Workload {
    let text = format!("{{ \"tasks\" : {{ {tasks} }} }}");
    rtapp::parse("t.json", text.as_bytes(), &rtapp::Options::default())
        .unwrap_or_else(|e| panic!("{text}: {e}"))
        .workload
}

/// Without a policy, which rt-app's reader always sets.
fn unset(mut workload: Workload) -> Workload {
    for task in &mut workload.tasks {
        task.settings.policy = task.settings.policy.filter(|policy| !matches!(policy, Policy::Other { .. }));
    }
    workload
}

fn toml(text: &str) -> Workload {
    let none = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let read = scenario::parse("t.toml", text.as_bytes(), &rtapp::Options::default(), &mut { none });
    read.unwrap_or_else(|e| panic!("{text}: {e}")).workload
}

#[test]
fn what_takes_every_cpu_is_found() {
    let hang = [
        ("loops for ever", json(r#""a" : {"policy":"SCHED_FIFO","instance":2,"loop":-1,"run":1000}"#)),
        ("loops for ever by default", json(r#""a" : {"policy":"SCHED_FIFO","instance":2,"run":1000}"#)),
        ("loops for three seconds", json(r#""a" : {"policy":"SCHED_FIFO","instance":2,"loop":3000,"run":1000}"#)),
        ("one run of two seconds", json(r#""a" : {"policy":"SCHED_RR","instance":2,"loop":1,"run":2000000}"#)),
        ("by the clock", json(r#""a" : {"policy":"SCHED_RR","instance":2,"loop":1,"runtime":2000000}"#)),
        (
            "two phases",
            json(
                r#""a" : {"policy":"SCHED_FIFO","instance":2,"loop":-1,
                    "phases":{"p":{"loop":2,"run":1000},"q":{"loop":1,"run":100}}}"#,
            ),
        ),
        (
            "together three seconds in two phases, after a sleep",
            json(
                r#""a" : {"policy":"SCHED_FIFO","instance":2,"loop":1,
                    "phases":{"p":{"loop":1,"sleep":1000,"run":600000},"q":{"loop":600,"run":1000}}}"#,
            ),
        ),
        (
            "a phase makes it real-time, for good",
            json(
                r#""a" : {"instance":2,"loop":-1,"phases":{
                    "p":{"loop":1,"run":10,"sleep":10},"q":{"loop":1,"policy":"SCHED_FIFO","run":1000},"r":{"loop":-1,"run":10}}}"#,
            ),
        ),
        (
            "a timer that is always late",
            json(r#""a" : {"policy":"SCHED_FIFO","instance":2,"run":2000,"timer":{"ref":"unique","period":1000}}"#),
        ),
        (
            "a lock of its own",
            json(
                r#""a" : {"policy":"SCHED_FIFO","run":1000,"lock":"l","unlock":"l"}, "b" : {"policy":"SCHED_FIFO","lock":"m","run":1000,"unlock":"m"}"#,
            ),
        ),
        ("a sleep of nothing", json(r#""a" : {"policy":"SCHED_FIFO","instance":2,"run":1000,"sleep":0}"#)),
        ("yields", json(r#""a" : {"policy":"SCHED_FIFO","instance":2,"run":1000,"yield":""}"#)),
        (
            "each pinned to its CPU",
            json(
                r#""a" : {"policy":"SCHED_FIFO","cpus":[0],"run":1000}, "b" : {"policy":"SCHED_FIFO","cpus":[1],"run":1000}"#,
            ),
        ),
        (
            "one pinned, the other free",
            json(r#""a" : {"policy":"SCHED_FIFO","run":1000}, "b" : {"policy":"SCHED_FIFO","cpus":[1],"run":1000}"#),
        ),
        (
            "pinned together, and one of them wanders",
            json(
                r#""a" : {"policy":"SCHED_FIFO","cpus":[0],"run":1000},
                   "b" : {"policy":"SCHED_FIFO","loop":-1,"phases":{"p":{"cpus":[0],"run":1000},"q":{"cpus":[1],"run":1000}}}"#,
            ),
        ),
        ("TOML", toml("[[task]]\nname=\"a\"\npolicy=\"SCHED_FIFO\"\nrun=\"1ms\"\ninstance=2\n")),
        (
            "made real-time later",
            toml(
                "[[task]]\nname=\"a\"\nrun=\"1ms\"\ninstance=2\n[[change]]\nat=\"1s\"\ntask=\"a\"\npolicy=\"SCHED_FIFO\"\npriority=1\n",
            ),
        ),
        (
            "round-robin later, and then each on its CPU",
            toml(
                "[[task]]\nname=\"a\"\nrun=\"1ms\"\ncpus=[0]\n[[task]]\nname=\"b\"\nrun=\"1ms\"\ncpus=[0]\n\
                 [[change]]\nat=\"1s\"\ntask=\"a\"\npolicy=\"SCHED_RR\"\npriority=1\n\
                 [[change]]\nat=\"1s\"\ntask=\"b\"\npolicy=\"SCHED_RR\"\npriority=1\ncpus=[1]\n",
            ),
        ),
        (
            "a benchmark that a change makes real-time",
            toml(
                "[[workload]]\nmodel=\"sysbench cpu --num-threads=2\"\n[[change]]\nat=\"1s\"\ntask=\"sysbench\"\npolicy=\"SCHED_FIFO\"\npriority=1\n",
            ),
        ),
        (
            "two that answer each other for ever",
            toml(
                "[[workload]]\nmodel=\"pipe-test\"\n[[change]]\nat=\"1s\"\ntask=\"pipe-test\"\npolicy=\"SCHED_FIFO\"\npriority=1\n",
            ),
        ),
        (
            "forked",
            json(r#""a" : {"loop":1,"fork":"h","fork1":"h"}, "h" : {"instance":0,"policy":"SCHED_FIFO","run":1000}"#),
        ),
        (
            "forked over and over",
            json(r#""a" : {"loop":5,"fork":"h","sleep":1000}, "h" : {"instance":0,"policy":"SCHED_FIFO","run":1000}"#),
        ),
        (
            "forked by real-time tasks, whose policy they inherit",
            unset(json(
                r#""a" : {"policy":"SCHED_FIFO","loop":1,"fork":"h","fork1":"h"}, "h" : {"instance":0,"run":1000}"#,
            )),
        ),
        (
            "short ones, forked without rest",
            unset(json(r#""a" : {"policy":"SCHED_FIFO","fork":"h"}, "h" : {"instance":0,"loop":1,"run":1000}"#)),
        ),
        (
            "deadline tasks of a whole CPU: without throttling they are admitted",
            json(
                r#""a" : {"policy":"SCHED_DEADLINE","instance":2,"dl-runtime":10000,"dl-period":10000,"dl-deadline":10000,"run":1000}"#,
            ),
        ),
    ];
    for (name, workload) in &hang {
        let found = take_all(workload, &machine(2));
        assert!(matches!(found, Some(Takers::Hogs(2..))), "{name}: {found:?} {workload:#?}");
        // One more CPU is left for the others, unless more tasks are forked.
        let many = name.contains("over and over") || name.contains("without rest");
        assert_eq!(take_all(workload, &machine(3)).is_some(), many, "{name} on three CPUs");
    }
}

/// Tasks that sleep, and want two CPUs together, but not three.
#[test]
fn what_takes_every_cpu_together_is_found() {
    let crowds = [
        ("half the time each", 200, json(r#""a" : {"policy":"SCHED_FIFO","instance":4,"run":100000,"sleep":99990}"#)),
        (
            "half of each period",
            200,
            json(r#""a" : {"policy":"SCHED_FIFO","instance":4,"run":5000,"timer":{"ref":"unique","period":10000}}"#),
        ),
        (
            "a hog and two halves",
            200,
            json(
                r#""a" : {"policy":"SCHED_FIFO","run":1000}, "b" : {"policy":"SCHED_RR","instance":2,"run":5000,"timer":{"ref":"unique","period":10000}}"#,
            ),
        ),
        (
            "each CPU its own two",
            240,
            json(
                r#""a" : {"policy":"SCHED_FIFO","instance":2,"cpus":[0],"run":600,"timer":{"ref":"unique","period":1000}},
                   "b" : {"policy":"SCHED_FIFO","instance":2,"cpus":[1],"run":600,"timer":{"ref":"unique","period":1000}}"#,
            ),
        ),
        (
            "a busy phase of three seconds between long sleeps",
            216,
            json(
                r#""a" : {"policy":"SCHED_FIFO","instance":3,"loop":-1,"phases":{
                    "p":{"loop":1,"sleep":100000000},"q":{"loop":300,"run":7200,"timer":{"ref":"unique","period":10000}}}}"#,
            ),
        ),
        (
            "woken by one that sleeps, all of them",
            260,
            json(
                r#""a" : {"policy":"SCHED_FIFO","instance":4,"run":13000,"suspend":"a"}, "b" : {"policy":"SCHED_FIFO","sleep":20000,"resume":"a"}"#,
            ),
        ),
        (
            "woken by one that hardly needs a CPU",
            260,
            json(
                r#""a" : {"policy":"SCHED_FIFO","instance":4,"run":13000,"suspend":"a"}, "b" : {"run":1,"sleep":20000,"resume":"a"}"#,
            ),
        ),
        (
            "semaphores",
            200,
            json(
                r#""a" : {"policy":"SCHED_FIFO","instance":4,"sem_wait":"s","run":5000}, "b" : {"sleep":10000,"sem_post":"s"}"#,
            ),
        ),
        (
            "they meet: the slowest says how often",
            200,
            json(
                r#""a" : {"policy":"SCHED_FIFO","instance":4,"run":5000,"barrier":"x"}, "b" : {"policy":"SCHED_FIFO","sleep":10000,"barrier":"x"}"#,
            ),
        ),
        (
            "made real-time later",
            200,
            toml(
                "[[task]]\nname=\"a\"\nrun=\"10ms\"\nsleep=\"9995us\"\ninstance=4\n[[change]]\nat=\"1s\"\ntask=\"a\"\npolicy=\"SCHED_FIFO\"\npriority=1\n",
            ),
        ),
        (
            "deadline tasks, of what is kept for them",
            200,
            json(
                r#""a" : {"policy":"SCHED_DEADLINE","instance":4,"dl-runtime":5000,"dl-period":10000,"dl-deadline":10000,"run":1000}"#,
            ),
        ),
        (
            "short ones, forked every ten milliseconds",
            200,
            json(r#""a" : {"fork":"h","sleep":9998}, "h" : {"instance":0,"policy":"SCHED_FIFO","loop":1,"run":20000}"#),
        ),
        (
            "a backlog",
            190,
            json(
                r#""a" : {"policy":"SCHED_FIFO","instance":2,"sem_wait":"s","run":1000}, "b" : {"loop":5000,"sem_post":"s"}"#,
            ),
        ),
    ];
    for (name, percent, workload) in &crowds {
        let found = take_all(workload, &machine(2));
        let wanted = if let Some(Takers::Together { percent, .. }) = found { percent } else { 0 };
        assert!(wanted.abs_diff(*percent) <= 1, "{name}: {found:?} {workload:#?}");
        assert_eq!(take_all(workload, &machine(3)), None, "{name} on three CPUs");
    }
    // Any number of long ones, each of little demand.
    let many = json(
        r#""a" : {"fork":"h","sleep":10000}, "h" : {"instance":0,"policy":"SCHED_FIFO","loop":-1,"run":100,"sleep":900}"#,
    );
    assert!(matches!(take_all(&many, &machine(64)), Some(Takers::Together { tasks: 30_000, percent: 6400 })));
}

/// The demand counts by CPU, not in total.
#[test]
fn what_is_wanted_is_dealt_out() {
    let set = |cpus: &[u32]| cpus.iter().copied().collect::<BTreeSet<u32>>();
    let (a, b, c, all) = (set(&[0, 1]), set(&[1, 2]), set(&[0]), set(&[0, 1, 2]));
    let covers = |wanted: &[(&BTreeSet<u32>, u64)]| {
        let wanted: BTreeMap<_, _> =
            wanted.iter().map(|&(cpus, percent)| (cpus, percent * demand::WHOLE / 100)).collect();
        covered(&wanted, &all)
    };
    assert!(covers(&[(&a, 95), (&b, 95), (&c, 95)]), "three in a chain, which only one order satisfies");
    assert!(!covers(&[(&a, 190), (&c, 285)]), "no task may use CPU 2");
    assert!(!covers(&[(&b, 95), (&c, 285)]), "one cannot have both 1 and 2");
    assert!(covers(&[(&a, 130), (&b, 95), (&c, 60)]), "parts of each");
    assert!(!covers(&[(&a, 130), (&b, 95), (&c, 59)]), "and not a hundredth less");
    assert!(covers(&[(&all, 285)]) && !covers(&[(&all, 284)]));
    assert!(!covers(&[]));
}

#[test]
fn workloads_that_leave_a_cpu_or_sleep_are_accepted() {
    let free = [
        ("sleeps each loop", json(r#""a" : {"policy":"SCHED_FIFO","instance":4,"run":1000,"sleep":2000}"#)),
        ("ends within a second", json(r#""a" : {"policy":"SCHED_FIFO","instance":4,"loop":900,"run":1000}"#)),
        (
            "keeps its period",
            json(r#""a" : {"policy":"SCHED_FIFO","instance":3,"run":500,"timer":{"ref":"unique","period":1000}}"#),
        ),
        ("one hog", json(r#""a" : {"policy":"SCHED_FIFO","run":1000}"#)),
        ("pinned together", json(r#""a" : {"policy":"SCHED_FIFO","cpus":[1],"instance":3,"run":1000}"#)),
        ("fair", json(r#""a" : {"instance":4,"run":1000}"#)),
        (
            "a fair phase between",
            json(
                r#""a" : {"instance":4,"loop":-1,"phases":{
                    "p":{"loop":1,"policy":"SCHED_FIFO","run":1000},"q":{"loop":1,"policy":"SCHED_OTHER","run":1000}}}"#,
            ),
        ),
        (
            "woken by one that sleeps",
            json(
                r#""a" : {"policy":"SCHED_FIFO","instance":4,"run":1000,"suspend":"a"}, "b" : {"policy":"SCHED_FIFO","sleep":3000,"resume":"a"}"#,
            ),
        ),
        (
            "woken by a fair one",
            json(
                r#""a" : {"policy":"SCHED_FIFO","instance":4,"run":1000,"suspend":"a"}, "b" : {"run":1000,"resume":"a"}"#,
            ),
        ),
        (
            "deadline tasks of half a CPU",
            json(
                r#""a" : {"policy":"SCHED_DEADLINE","instance":2,"dl-runtime":5000,"dl-period":10000,"dl-deadline":10000,"run":1000}"#,
            ),
        ),
        ("threads of cyclictest", toml("[[workload]]\nmodel=\"cyclictest -t 8 -p 80\"\n")),
        (
            "hackbench of a tenth of a second",
            toml(
                "[[workload]]\nmodel=\"hackbench -pipe 1 process 100\"\n[[change]]\nat=\"1ms\"\ntask=\"hackbench-sender\"\npolicy=\"SCHED_FIFO\"\npriority=1\n",
            ),
        ),
        (
            "one forked hog",
            json(r#""a" : {"loop":1,"fork":"h"}, "h" : {"instance":0,"policy":"SCHED_FIFO","run":1000}"#),
        ),
        (
            "short ones, now and then",
            json(r#""a" : {"fork":"h","sleep":10000}, "h" : {"instance":0,"policy":"SCHED_FIFO","loop":1,"run":1000}"#),
        ),
    ];
    for (name, workload) in &free {
        assert_eq!(take_all(workload, &machine(2)), None, "{name}: {workload:#?}");
    }
}

#[test]
fn where_threads_begin_counts() {
    let two = unset(json(r#""a" : {"instance":2,"run":1000}"#));
    assert_eq!(take_all(&two, &Machine { real_time: true, ..machine(2) }), Some(Takers::Hogs(2)), "begun under chrt");
    let hogs = json(r#""a" : {"policy":"SCHED_FIFO","instance":2,"run":1000}"#);
    let confined = Machine { allowed: BTreeSet::from([1]), ..machine(2) };
    assert_eq!(take_all(&hogs, &confined), None, "begun under taskset");
    // Missing CPUs are refused, and the threads stay.
    let elsewhere = json(r#""a" : {"policy":"SCHED_FIFO","instance":2,"cpus":[7],"run":1000}"#);
    assert_eq!(take_all(&elsewhere, &machine(2)), Some(Takers::Hogs(2)));
}

/// A fair task that holds a mutex inherits a real-time waiter's priority, if the mutex says so.
#[test]
fn priorities_are_inherited() {
    let holder = |inherits: &str| {
        json(&format!(
            r#""a" : {{"instance":2,"lock":"m","loop":1,"run":5000000,"unlock":"m"}},
               "b" : {{"policy":"SCHED_FIFO","lock":"m","unlock":"m","sleep":1000}} }}, "global" : {{ "pi_enabled" : {inherits} "#
        ))
    };
    assert_eq!(take_all(&holder("true"), &machine(2)), Some(Takers::Hogs(2)));
    assert_eq!(take_all(&holder("false"), &machine(2)), None);
}

#[test]
fn throttling_is_read_from_the_kernels_files() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let throttled = || throttled(root.path(), &BTreeSet::from([0, 1, 3]));
    assert!(!throttled(), "the files are absent");
    write("proc/sys/kernel/sched_rt_runtime_us", "950000\n");
    write("proc/sys/kernel/sched_rt_period_us", "1000000\n");
    assert!(throttled());
    write("proc/sys/kernel/sched_rt_runtime_us", "1000000\n");
    assert!(!throttled(), "all of the period");
    write("proc/sys/kernel/sched_rt_runtime_us", "-1\n");
    assert!(!throttled());
    for cpu in [0, 1, 2, 3] {
        write(&format!("sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime"), "50000000\n");
    }
    assert!(throttled(), "servers");
    write("proc/sys/kernel/sched_rt_runtime_us", "950000\n");
    write("sys/kernel/debug/sched/fair_server/cpu3/runtime", "0\n");
    assert!(!throttled(), "one server is off, and only admission asks for the limit");
    write("sys/kernel/debug/sched/fair_server/cpu3/runtime", "50000000\n");
    write("sys/kernel/debug/sched/fair_server/cpu2/runtime", "0\n");
    assert!(throttled(), "that CPU is not online");
}

#[test]
fn lists_of_cpus_are_understood() {
    assert_eq!(cpus_of("0-2,5"), Some(BTreeSet::from([0, 1, 2, 5])));
    assert_eq!((cpus_of("3"), cpus_of("")), (Some(BTreeSet::from([3])), None));
}
