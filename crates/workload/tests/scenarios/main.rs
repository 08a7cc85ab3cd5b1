//! Scenario files: what is written, and what it becomes.

mod changes;

use std::io;
use std::path::Path;
use std::sync::Arc;

use vruntime_workload::program::{
    Bandwidth, Changed, Clamps, GroupChange, Hotplug, Op, Policy, Repeat, RtBandwidth, RtRuntime, TimerMode, WaitMode,
};
use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario::{self, Machine, Preempt, Scenario};

const WEB: &str = r#"{ "tasks" : {
    "server" : { "instance" : 2, "lock" : "m", "run" : 10, "unlock" : "m", "fork" : "child" },
    "child" : { "instance" : 0, "loop" : 1, "taskgroup" : "/kids", "run" : 1, "resume" : "server" },
    "late" : { "delay" : 1000, "timer" : { "ref" : "unique", "period" : 10 }, "suspend" : "server" } },
    "global" : { "duration" : 3 } }"#;

fn files(path: &Path) -> io::Result<Vec<u8>> {
    match path.to_str() {
        Some("web.json") => Ok(WEB.as_bytes().to_vec()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    }
}

#[track_caller]
fn read(text: &str) -> Scenario {
    scenario::parse("dir/test.toml", text.as_bytes(), &Options::default(), &mut files)
        .unwrap_or_else(|error| panic!("{text}\n{error} at {:?}", error.location()))
}

const TASK: &str = "\n[[task]]\nname = \"t\"\nrun = \"1ms\"\n";

#[test]
fn every_setting() {
    let scenario = read(
        r#"
[scenario]
name = "web"
description = "a web service"
kernel = "6.12"
machine = "pack:1 core:4"
hz = 1000
preempt = "full"
autogroup = true
costs = "zero"
seed = 7
duration = "1.5s"
features = ["NO_RUN_TO_PARITY"]

[set]
base_slice_ns = 700000
migration_cost_ns = 1

[[task]]
name = "t"
run = "1ms"
"#,
    );
    assert_eq!((scenario.name.as_str(), scenario.description.as_str()), ("web", "a web service"));
    assert_eq!(scenario.kernel[0].value, "6.12");
    assert_eq!(
        scenario.machine.as_ref().and_then(|machine| machine.topology.as_deref()).map(String::as_str),
        Some("pack:1 core:4")
    );
    assert_eq!((scenario.hz, scenario.preempt, scenario.autogroup), (Some(1000), Some(Preempt::Full), Some(true)));
    assert_eq!(scenario.costs.as_ref().and_then(|costs| costs.profile.as_deref()).map(String::as_str), Some("zero"));
    assert_eq!((scenario.seed, scenario.workload.duration), (Some(7), Some(1_500_000_000)));
    assert_eq!(scenario.features[0].value, "NO_RUN_TO_PARITY");
    let set: Vec<_> = scenario.set.iter().map(|setting| (setting.name.as_str(), setting.value.value)).collect();
    assert_eq!(set, [("base_slice_ns", 700_000), ("migration_cost_ns", 1)]);
    let error = scenario.error_at(scenario.set[0].name.span.clone(), "unknown tunable", "here", "try another");
    assert_eq!(error.location(), Some((16, 1)));
}

/// Each instance waits for a timer of its own, whose beats are counted from its start.
#[test]
fn a_period_makes_a_periodic_job() {
    let task = "[[task]]\nname = \"job\"\ninstance = 2\nstart = \"3ms\"\nperiod = \"100ms\"\n";
    for (policy, work) in [("", "run = \"20ms\""), ("policy = \"SCHED_FIFO\"\n", "steps = [{ run = \"20ms\" }]")] {
        let workload = read(&format!("{TASK}{task}{policy}{work}\n{task}run = \"1ms\"\n")).workload;
        let timers: Vec<Option<u64>> = workload.timers.iter().map(|timer| timer.start).collect();
        assert_eq!(timers, [Some(3_000_000); 4]);
        for (index, task) in workload.tasks[1..3].iter().enumerate() {
            let timer = Op::Timer { timer: index, period: 100_000_000, mode: TimerMode::Absolute };
            assert_eq!(task.phases[0].ops, [Op::Run { work: 20_000_000 }, timer], "{policy}");
        }
    }
    let wrong =
        |rest: &str| scenario::parse("t", format!("{TASK}{rest}\n").as_bytes(), &Options::default(), &mut files);
    let error_of = |rest: &str| wrong(rest).map(|_| ()).unwrap_err().to_string();
    assert!(error_of("period = \"10ms\"\nsleep = \"1ms\"").contains("both `sleep` and `period`"));
    assert!(error_of("period = \"0ms\"").contains("`period`"));
    assert!(error_of("[[task]]\nname = \"u\"\nperiod = \"1ms\"").contains("a `period` and no work"));
    let change = "duration = \"1s\"\n[[change]]\nat = \"1ms\"\ntask = \"t\"\nperiod = \"1ms\"\n";
    let error = scenario::parse(
        "t",
        format!("{}{TASK}{}", &change[..16], &change[16..]).as_bytes(),
        &Options::default(),
        &mut files,
    );
    assert!(error.unwrap_err().to_string().contains("`period` without a policy"));
}

/// The kernel's spelling with keys beside it, and the short one with its parameters.
#[test]
fn both_spellings_of_a_policy_are_read() {
    let policy = |text: &str| read(&format!("{TASK}{text}\n")).workload.tasks[0].settings.policy;
    for text in ["policy = \"SCHED_FIFO\"\npriority = 50", "policy = \"fifo:50\"", "policy = \"fifo\"\npriority = 50"] {
        assert_eq!(policy(text), Some(Policy::Fifo { priority: 50 }), "{text}");
    }
    let dated = policy("policy = \"deadline:2ms/9ms/10ms\"");
    assert_eq!(dated, policy("policy = \"SCHED_DEADLINE\"\nruntime = \"2ms\"\ndeadline = \"9ms\"\nperiod = \"10ms\""));
    let error_of = |text: &str| refused(&format!("{TASK}{text}\n"));
    assert!(error_of("policy = \"fifo:50\"\npriority = 3").contains("`priority` is given twice"));
    assert!(error_of("policy = \"fifo:100\"").contains("1 to 99"));
    let json = |policy: &str| {
        let text = format!("{{ \"tasks\" : {{ \"t\" : {{ {policy}, \"run\" : 1 }} }} }}");
        vruntime_workload::rtapp::parse("t.json", text.as_bytes(), &Options::default()).unwrap().workload.tasks[0]
            .settings
            .policy
    };
    assert_eq!(json("\"policy\" : \"rr:5\""), json("\"policy\" : \"SCHED_RR\", \"priority\" : 5"));
}

/// With and without quotes, with and without `kernel.`, and -1.
#[test]
fn sysctls_have_their_prefix_or_not() {
    for name in ["sched_rt_runtime_us", "\"kernel.sched_rt_runtime_us\"", "kernel.sched_rt_runtime_us"] {
        let scenario = read(&format!("[set]\n{name} = -1\n{TASK}"));
        let set: Vec<_> = scenario.set.iter().map(|one| (one.name.value.as_str(), one.value.value)).collect();
        assert_eq!(set, [(name.trim_matches('"'), -1)]);
    }
}

/// Files of cgroups, and what others call these, lead to the key.
#[test]
fn names_of_limits_lead_to_the_key() {
    for (key, help) in [
        ("cpu.weight = 200", "`weight`"),
        ("\"cpu.weight\" = 200", "`weight`"),
        ("cpu.max = \"max\"", "`max`"),
        ("cpu.max.burst = 5", "`burst`"),
        ("shares = 512", "`weight`: 1024 shares"),
        ("cpu.shares = 512", "`weight`: 1024 shares"),
        ("quota = 50000", "`max`, quota and period"),
        ("period = 100000", "`max`, quota and period"),
        ("limit = \"500m\"", "`max`, which takes a limit"),
        ("request = \"500m\"", "`weight`: requests"),
    ] {
        let text = format!("[groups.\"/a\"]\n{key}\n{TASK}group = \"/a\"\n");
        let error = scenario::parse("t", text.as_bytes(), &Options::default(), &mut files).unwrap_err();
        assert!(error.help().is_some_and(|advice| advice.contains(help)), "{key}: {:?}", error.help());
    }
}

/// Why a scenario is refused.
fn refused(text: &str) -> String {
    scenario::parse("t", text.as_bytes(), &Options::default(), &mut files).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn what_is_not_said_is_left_open() {
    let scenario = read(TASK);
    assert_eq!(scenario.name, "test");
    assert!(
        scenario.kernel.is_empty() && scenario.machine.is_none() && scenario.hz.is_none() && scenario.preempt.is_none()
    );
    assert!(scenario.autogroup.is_none() && scenario.costs.is_none() && scenario.seed.is_none());
    assert_eq!(scenario.workload.duration, None);
}

#[test]
fn several_kernels() {
    let scenario = read(&format!("kernel = [\"6.1\", \"6.12\"]\n{TASK}"));
    assert_eq!(scenario.kernel.iter().map(|kernel| kernel.value.as_str()).collect::<Vec<_>>(), ["6.1", "6.12"]);
}

#[test]
fn a_machine_as_a_table() {
    let Machine { topology, lstopo, capacities, node_distances, smt_speedup_permille, .. } = read(&format!(
        "[machine]\ntopology = \"core:2 pu:2\"\ncapacities = [1024, 1024, 446, 446]\nsmt_speedup = 1.25\n{TASK}"
    ))
    .machine
    .expect("there is one");
    assert_eq!(topology.as_deref().map(String::as_str), Some("core:2 pu:2"));
    assert_eq!(
        (lstopo, capacities.map(|all| all.value), smt_speedup_permille),
        (None, Some(vec![1024, 1024, 446, 446]), Some(1250))
    );
    assert_eq!(node_distances, None);
    let machine = read(&format!("machine.lstopo = \"m.xml\"\n{TASK}")).machine.expect("there is one");
    assert_eq!(machine.lstopo.as_deref().map(std::path::PathBuf::as_path), Some(Path::new("m.xml")));
}

#[test]
fn frequencies_of_a_machine() {
    let head = "[machine]\ntopology = \"2\"\ngovernor = \"schedutil\"\nrate_limit = \"1ms\"\n";
    let clock =
        "[[machine.frequency]]\ncpus = [0, 1]\nmhz = [800, 1497.6]\ntransition = \"50us\"\npower_mw = [42, 118.5]\n";
    let machine = read(&format!("{head}{clock}{TASK}")).machine.expect("there is one");
    assert_eq!(
        (machine.governor.map(|name| name.value), machine.rate_limit_ns),
        (Some("schedutil".to_owned()), Some(1_000_000))
    );
    let [clock] = &machine.frequencies[..] else { panic!("there is one clock") };
    assert_eq!((&clock.value.cpus, &clock.value.khz), (&vec![0, 1], &vec![800_000, 1_497_600]));
    assert_eq!((clock.value.transition_ns, &clock.value.power_uw), (Some(50_000), &vec![42_000, 118_500]));
    let wrong = [
        ("cpus = [0]\nmhz = [800, 800]", "the frequencies do not ascend"),
        ("cpus = [0]\nmhz = [0]", "this is no frequency"),
        ("cpus = []\nmhz = [800]", "a clock needs CPUs and frequencies"),
        ("cpus = [0]\nmhz = [800]\npower_mw = [0]", "this is no power"),
        ("cpus = [0]\nmhz = [800]\npower_mw = [\"42\"]", "this is no power"),
        ("cpus = [0]\nmhz = [800, 900]\npower_mw = [42, 41]", "a higher frequency takes less power"),
        ("cpus = [0]\nmhz = [800, 900]\npower_mw = [42]", "1 figures of power for 2 frequencies"),
        ("cpus = [0]\nmhz = [800]\nlatency = \"1us\"", "unknown key `latency`"),
    ];
    for (keys, message) in wrong {
        let text = format!("{head}[[machine.frequency]]\n{keys}\n{TASK}");
        let error = scenario::parse("dir/test.toml", text.as_bytes(), &Options::default(), &mut files).unwrap_err();
        assert_eq!(error.message(), message, "{keys}");
    }
    let text = format!("[[machine.frequency]]\ncpus = [0]\nmhz = [800]\n{TASK}");
    let error = scenario::parse("dir/test.toml", text.as_bytes(), &Options::default(), &mut files).unwrap_err();
    assert_eq!(error.message(), "[machine] has frequencies, but no governor");
}

#[test]
fn idle_states_of_a_machine() {
    let head = "[machine]\ntopology = \"2\"\n[[machine.idle_state]]\n";
    let keys = "name = \"C1\"\nexit_latency = \"2us\"\n[[machine.idle_state]]\nname = \"C6\"\nexit_latency = \"130us\"\nresidency = \"400us\"\n";
    let states = read(&format!("{head}{keys}{TASK}")).machine.expect("there is one").idle_states;
    let seen: Vec<_> = states
        .iter()
        .map(|state| (&*state.value.name, state.value.exit_latency_ns, state.value.residency_ns))
        .collect();
    assert_eq!(seen, [("C1", 2_000, 2_000), ("C6", 130_000, 400_000)]);
    let text = format!("{head}name = \"C1\"\n{TASK}");
    let error = scenario::parse("dir/test.toml", text.as_bytes(), &Options::default(), &mut files).unwrap_err();
    assert_eq!(error.message(), "an idle state needs a name and an exit latency");
}

#[test]
fn distances_are_a_square_table() {
    let text = |rows: &str| format!("[machine]\ntopology = \"numa:2 core:2\"\nnode_distances = {rows}\n{TASK}");
    let distances = read(&text("[[10, 16], [16, 10]]")).machine.unwrap().node_distances.unwrap();
    assert_eq!(distances.value, [[10, 16], [16, 10]]);
    let wrong = |rows: &str| {
        let error = scenario::parse("t.toml", text(rows).as_bytes(), &Options::default(), &mut files).unwrap_err();
        (error.message().to_owned(), error.location())
    };
    assert_eq!(wrong("[[10, 16], [16]]"), ("this row of `node_distances` has 1 distances".to_owned(), Some((3, 29))));
    assert_eq!(wrong("[[10, 0], [16, 10]]").0, "`node_distances` is out of range");
    assert_eq!(wrong("[10]").0, "`node_distances` is a whole number");
}

#[test]
fn costs_as_a_table() {
    let costs = read(&format!("[costs]\nprofile = \"vm\"\nswitch_ns = 1500\n{TASK}")).costs.expect("there are some");
    assert_eq!(costs.profile.as_deref().map(String::as_str), Some("vm"));
    assert_eq!((costs.values[0].name.as_str(), costs.values[0].value.value), ("switch_ns", 1500));
}

#[test]
fn groups() {
    let limit = |quota, period, burst| Some(Bandwidth { quota, period, burst });
    let rows = [
        ("max = \"max\"", None),
        ("max = \"max 100000\"", None),
        ("max = \"200000 100000\"", limit(200_000_000, 100_000_000, 0)),
        ("max = \"50000\"", limit(50_000_000, 100_000_000, 0)),
        ("max = [200000, 50000]", limit(200_000_000, 50_000_000, 0)),
        ("max = \"500m\"", limit(50_000_000, 100_000_000, 0)),
        ("max = \"20ms/100ms\"", limit(20_000_000, 100_000_000, 0)),
        ("max = \"1500us/5ms\"", limit(1_500_000, 5_000_000, 0)),
        ("max = \"2500m\"", limit(250_000_000, 100_000_000, 0)),
        // As Kubernetes writes CPUs; what cpu.max takes alone is a quota in microseconds.
        ("max = \"0.5\"", limit(50_000_000, 100_000_000, 0)),
        ("max = \"2\"", limit(200_000_000, 100_000_000, 0)),
        ("max = \"999\"", limit(99_900_000_000, 100_000_000, 0)),
        ("max = \"1000\"", limit(1_000_000, 100_000_000, 0)),
        ("max = \"17592186044415 100000\"", limit(17_592_186_044_415_000, 100_000_000, 0)),
        ("max = [17592186044415, 100000]", limit(17_592_186_044_415_000, 100_000_000, 0)),
        ("max = \"500m\"\nburst = \"20ms\"", limit(50_000_000, 100_000_000, 20_000_000)),
        ("max = \"500m\"\nburst = 20000", limit(50_000_000, 100_000_000, 20_000_000)),
    ];
    for (text, max) in rows {
        let scenario = read(&format!("[groups.\"/web/api\"]\n{text}\n{TASK}"));
        assert_eq!(scenario.workload.groups[2].max, max, "{text}");
    }
    let groups =
        read(&format!("[groups.\"/web\"]\nweight = 300\n[groups.\"/batch\"]\nidle = true\n{TASK}")).workload.groups;
    let found: Vec<_> = groups.iter().map(|group| (group.path.as_str(), group.weight, group.idle)).collect();
    assert_eq!(found, [("/", 100, false), ("/batch", 100, true), ("/web", 300, false)]);
}

/// What the kernel does not take (`max_cfs_runtime`), also where it is more than there are nanoseconds.
#[test]
fn quotas_have_an_upper_bound() {
    for text in ["\"17592186044416 100000\"", "[17592186044416, 100000]", "\"18446744073709551615\""] {
        let text = format!("{TASK}[groups.\"/a\"]\nmax = {text}\n");
        let errors = scenario::parse("dir/test.toml", text.as_bytes(), &Options::default(), &mut files);
        let error = format!("{:?}", errors.expect_err("it is above the kernel's"));
        assert!(error.contains("`max` has a quota of ") && error.contains("1000 to 17592186044415 us"), "{error}");
    }
}

#[test]
fn a_task_in_short() {
    let scenario = read(
        "[[task]]\nname = \"hog\"\ninstance = 3\nnice = 5\nslice = \"3ms\"\ncpus = [2, 0]\ngroup = \"/batch\"\n\
         run = \"1ms\"\nsleep = \"4ms\"\nloops = 9\nstart = \"1s\"\nutil_min = 5\nutil_max = 7\n",
    );
    let tasks = &scenario.workload.tasks;
    assert_eq!(tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(), ["hog-0", "hog-1", "hog-2"]);
    let hog = &tasks[1];
    assert_eq!((hog.class.as_str(), hog.start, hog.repeat), ("hog", Some(1_000_000_000), Repeat::Times(9)));
    assert_eq!(hog.settings.policy, Some(Policy::Other { nice: 5, slice: Some(3_000_000) }));
    assert_eq!((hog.settings.cpus.clone(), hog.settings.group), (Some(vec![0, 2]), Some(1)));
    assert_eq!((hog.settings.util_min, hog.settings.util_max), (Some(5), Some(7)));
    assert_eq!(hog.phases[0].ops, [Op::Run { work: 1_000_000 }, Op::Sleep { time: 4_000_000 }]);
    assert!(Arc::ptr_eq(&tasks[0].phases, &tasks[2].phases));
    let clamped = read(&format!("{TASK}util_min = 5\n")).workload;
    assert_eq!((clamped.tasks[0].settings.util_min, clamped.tasks[0].settings.util_max), (Some(5), None));
}

#[test]
fn clamps_of_a_group_are_per_cent() {
    let scenario = read(&format!(
        "{TASK}[groups.\"/a\"]\nuclamp.min = \"25.00\"\n[groups.\"/a/b\"]\nuclamp = {{ min = 10, max = \"max\" }}\n"
    ));
    let clamps: Vec<_> = scenario.workload.groups.iter().map(|group| group.uclamp).collect();
    assert_eq!(clamps, [None, Some(Clamps { min: 256, max: 1024 }), Some(Clamps { min: 102, max: 1024 })]);
    for wrong in ["uclamp.min = \"25%\"", "uclamp.max = 101", "uclamp.low = 1", "uclamp = 5", "uclamp.max = true"] {
        let text = format!("{TASK}[groups.\"/a\"]\n{wrong}\n");
        let read = scenario::parse("dir/test.toml", text.as_bytes(), &Options::default(), &mut files);
        assert!(read.is_err(), "{wrong}");
    }
}

#[test]
fn real_time_limits_of_a_group() {
    let limit = |us: u64| Some(RtRuntime::Limited(us * 1000));
    let rows = [
        ("rt_runtime = \"20ms\"", limit(20_000), None),
        ("rt_runtime = 20000\nrt_period = \"0.1s\"", limit(20_000), Some(100_000_000)),
        ("rt_runtime = -1", Some(RtRuntime::Unlimited), None),
        ("rt_runtime = \"max\"\nrt_period = 50000", Some(RtRuntime::Unlimited), Some(50_000_000)),
        ("rt_runtime = 0", limit(0), None),
        ("rt_period = \"2s\"", None, Some(2_000_000_000)),
    ];
    for (text, runtime, period) in rows {
        let scenario = read(&format!("rt_group_sched = false{TASK}[groups.\"/a\"]\n{text}\n"));
        assert_eq!(scenario.workload.groups[1].rt, Some(RtBandwidth { runtime, period }), "{text}");
        assert_eq!(scenario.rt_group_sched, Some(false));
    }
    let scenario = read(&format!("{TASK}[groups.\"/a\"]\n[[change]]\nat = \"1s\"\ngroup = \"/a\"\nrt_runtime = 500\n"));
    let rt = Some(RtBandwidth { runtime: limit(500), period: None });
    assert_eq!(scenario.workload.groups[1].rt, None);
    assert_eq!(
        scenario.workload.changes[0].what,
        Changed::Group { group: 1, to: GroupChange { rt, ..GroupChange::default() } }
    );
    let wrong = [
        ("rt_runtime = -2", "`rt_runtime` is out of range"),
        ("rt_runtime = \"20\"", "`rt_runtime` is \"20\""),
        ("rt_runtime = true", "`rt_runtime` is"),
        ("rt_period = 0", "`rt_period` is 0"),
        ("rt_runtime = 30000\nrt_period = \"20ms\"", "an `rt_runtime` of 30000 us in an `rt_period` of 20000 us"),
        ("rt_runtme = 5", "unknown key `rt_runtme`"),
    ];
    for (text, message) in wrong {
        let text = format!("{TASK}[groups.\"/a\"]\n{text}\n");
        let error = scenario::parse("dir/test.toml", text.as_bytes(), &Options::default(), &mut files).unwrap_err();
        assert!(error.to_string().contains(message), "{text}\n{error}");
    }
}

#[test]
fn policies_of_a_task_in_short() {
    let rows = [
        ("policy = \"SCHED_BATCH\"\nnice = 1", Policy::Batch { nice: 1, slice: None }),
        ("policy = \"SCHED_IDLE\"", Policy::Idle),
        ("policy = \"SCHED_FIFO\"\npriority = 3", Policy::Fifo { priority: 3 }),
        ("policy = \"SCHED_RR\"", Policy::RoundRobin { priority: 10 }),
        (
            "policy = \"SCHED_DEADLINE\"\nruntime = \"2ms\"",
            Policy::Deadline {
                runtime: 2_000_000,
                deadline: 2_000_000,
                period: 2_000_000,
                reclaim: false,
                overrun: false,
            },
        ),
        (
            "policy = \"SCHED_DEADLINE\"\nruntime = \"1ms\"\nperiod = \"9ms\"",
            Policy::Deadline {
                runtime: 1_000_000,
                deadline: 9_000_000,
                period: 9_000_000,
                reclaim: false,
                overrun: false,
            },
        ),
        (
            "policy = \"SCHED_DEADLINE\"\nruntime = \"1ms\"\nperiod = \"9ms\"\nreclaim = true\noverrun = true",
            Policy::Deadline {
                runtime: 1_000_000,
                deadline: 9_000_000,
                period: 9_000_000,
                reclaim: true,
                overrun: true,
            },
        ),
    ];
    for (keys, policy) in rows {
        let scenario = read(&format!("{TASK}{keys}\n"));
        assert_eq!(scenario.workload.tasks[0].settings.policy, Some(policy), "{keys}");
    }
}

#[test]
fn one_rtapp_file_keeps_its_names_and_duration() {
    let scenario = read("[[workload]]\nrtapp = \"web.json\"\n");
    assert_eq!(
        scenario.workload.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(),
        ["server-0", "server-1", "child", "late"]
    );
    assert_eq!(scenario.workload.duration, Some(3_000_000_000));
}

#[test]
fn copies_have_their_own_objects_and_groups() {
    let scenario = read(
        "[groups.\"/web-1\"]\nweight = 7\n[[workload]]\nname = \"w\"\nrtapp = \"web.json\"\ncopies = 2\ngroup = \"/web-{copy}\"\nstart = \"1s\"\n",
    );
    let workload = scenario.workload;
    let names: Vec<_> = workload.tasks.iter().map(|task| (task.name.as_str(), task.class.as_str())).collect();
    assert_eq!(names[3..6], [("w-0/late", "w/late"), ("w-1/server-0", "w/server"), ("w-1/server-1", "w/server")]);
    assert_eq!(workload.tasks[5].phases[0].ops, [Op::Lock(2), Op::Run { work: 10_000 }, Op::Unlock(2), Op::Fork(6)]);
    assert_eq!(workload.tasks[6].start, None);
    assert_eq!(workload.tasks[7].start, Some(1_001_000_000));
    assert!(matches!(
        workload.tasks[7].phases[0].ops[..],
        [Op::Timer { timer: 1, .. }, Op::Suspend { condition: 1, mutex: 3 }]
    ));
    let path = |task: usize| workload.tasks[task].settings.group.map(|group| workload.groups[group].path.as_str());
    assert_eq!([path(4), path(6)], [Some("/web-1"), Some("/web-1/kids")]);
    assert_eq!(workload.groups.iter().find(|group| group.path == "/web-1").map(|group| group.weight), Some(7));
    assert!(Arc::ptr_eq(&workload.tasks[4].phases, &workload.tasks[5].phases));
    // `m`, and the one that `suspend` and `resume` take with the condition `server`.
    assert_eq!(workload.mutexes.len(), 4);
    // Each copy is a process, and begins where it is started.
    assert_eq!([3, 4].map(|task: usize| workload.tasks[task].process), [Some(0), Some(1)]);
    assert_eq!(workload.timers.iter().map(|timer| timer.start).collect::<Vec<_>>(), [Some(1_001_000_000); 2]);
}

#[test]
fn several_workloads_have_their_names_before_their_tasks() {
    let inline = "[[workload]]\nrtapp_inline = '''{ \"tasks\" : { \"x\" : { \"run\" : 1 } }, \"global\" : { \"duration\" : 9 } }'''\n";
    let scenario = read(&format!("[[workload]]\nrtapp = \"web.json\"\n{inline}{TASK}"));
    let names: Vec<_> = scenario.workload.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["web/server-0", "web/server-1", "web/child", "web/late", "workload/x", "t"]);
    assert_eq!(scenario.workload.duration, Some(9_000_000_000));
}

#[test]
fn the_scenarios_duration_overrides_the_files() {
    assert_eq!(read("duration = \"1s\"\n[[workload]]\nrtapp = \"web.json\"\n").workload.duration, Some(1_000_000_000));
}

#[test]
fn a_misspelt_group_is_warned_of() {
    let scenario = read(&format!("[groups.\"/batch\"]\nweight = 7\n{TASK}group = \"/bacth\"\n"));
    assert_eq!(scenario.warnings[0].message(), "group `/bacth` is not declared; it has the default weight");
    let below = read(&format!("[groups.\"/batch\"]\nweight = 7\n{TASK}group = \"/batch/1\"\n"));
    assert!(below.warnings.is_empty());
}

#[test]
fn a_million_tasks_in_ten_thousand_groups() {
    let scenario = read(
        "[[workload]]\nrtapp_inline = '''{ \"tasks\" : { \"x\" : { \"instance\" : 100, \"run\" : 1 } } }'''\ncopies = 10000\ngroup = \"/tenant-{copy}\"\n",
    );
    assert_eq!((scenario.workload.tasks.len(), scenario.workload.groups.len()), (1_000_000, 10_001));
}

#[test]
fn a_task_that_execs_does_so_at_the_beginning_of_each_loop() {
    let scenario = read("[[task]]\nname = \"make\"\nexec = true\nrun = \"5ms\"\nsleep = \"1ms\"\n");
    let ops = &scenario.workload.tasks[0].phases[0].ops;
    assert_eq!(*ops, [Op::Exec, Op::Run { work: 5_000_000 }, Op::Sleep { time: 1_000_000 }]);
    let nothing = "[[task]]\nname = \"make\"\nexec = true\n";
    let error = scenario::parse("t.toml", nothing.as_bytes(), &Options::default(), &mut files).unwrap_err();
    assert!(error.to_string().contains("does nothing"), "{error}");
}

#[test]
fn steps_of_a_task_share_what_they_name_with_other_tasks() {
    let scenario = read(
        r#"
[[task]]
name = "worker"
instance = 2
steps = [
  { wait_event = "jobs", exclusive = true, timeout = "5ms" },
  { run = "1ms" },
  { wait_event = "jobs", exclusive = "lifo" },
  { wait_for_completion = "ready", timeout = "1s" },
]
[[workload]]
rtapp = "web.json"
[[task]]
name = "listener"
steps = [
  { sleep = "1ms" }, { yield = true },
  { wake_up = "other" }, { wake_up = "jobs", nr = 3, events = 2, sync = true }, { wake_up_all = "jobs", events = 0 },
  { wait_event = "other" },
  { reinit_completion = "ready" }, { complete = "ready" }, { complete_all = "ready" },
]
"#,
    );
    let workload = scenario.workload;
    assert_eq!(
        (&workload.wait_queues[..], &workload.completions[..]),
        (&["jobs".to_owned(), "other".to_owned()][..], &["ready".to_owned()][..])
    );
    let ops = |name: &str| &workload.tasks.iter().find(|task| task.name == name).unwrap().phases[0].ops;
    assert_eq!(
        *ops("worker-1"),
        [
            Op::WaitEvent { queue: 0, mode: WaitMode::Exclusive, timeout: Some(5_000_000) },
            Op::Run { work: 1_000_000 },
            Op::WaitEvent { queue: 0, mode: WaitMode::ExclusiveLifo, timeout: None },
            Op::WaitForCompletion { completion: 0, timeout: Some(1_000_000_000) },
        ]
    );
    assert_eq!(
        *ops("listener"),
        [
            Op::Sleep { time: 1_000_000 },
            Op::Yield,
            Op::WakeUp { queue: 1, nr: 1, events: 1, sync: false },
            Op::WakeUp { queue: 0, nr: 3, events: 2, sync: true },
            Op::WakeUp { queue: 0, nr: 0, events: 0, sync: false },
            Op::WaitEvent { queue: 1, mode: WaitMode::Shared, timeout: None },
            Op::ReinitCompletion(0),
            Op::Complete(0),
            Op::CompleteAll(0),
        ]
    );
}

#[test]
fn steps_that_cannot_be_say_what_is_wrong() {
    let rows = [
        ("steps = []", "`steps` is empty"),
        ("steps = 5", "`steps` is a whole number"),
        ("steps = [\"run\"]", "`steps` is a string"),
        ("steps = [{}]", "a step that does nothing"),
        ("steps = [{ run = \"1ms\", sleep = \"1ms\" }]", "a step that does several things"),
        ("steps = [{ runn = \"1ms\" }]", "unknown step `runn`"),
        ("steps = [{ run = \"1ms\", nr = 1 }]", "unknown key `nr`"),
        ("steps = [{ yield = false }]", "a step that does not yield"),
        ("steps = [{ wait_event = \"\" }]", "`wait_event` has no name"),
        ("steps = [{ wait_event = \"q\", exclusive = \"fifo\" }]", "`exclusive` is a string"),
        ("steps = [{ wake_up = \"q\", nr = 0 }]", "`nr` is out of range"),
        ("steps = [{ wake_up_all = \"q\", nr = 2 }]", "unknown key `nr`"),
        ("steps = [{ complete = \"c\", timeout = \"1ms\" }]", "unknown key `timeout`"),
        ("steps = [{ run = \"1ms\" }]\nrun = \"1ms\"", "this task has both `steps` and the short form"),
        ("steps = [{ run = \"0ms\" }]", "task `t` loops for ever and takes no time"),
    ];
    for (text, message) in rows {
        let text = format!("[[task]]\nname = \"t\"\n{text}\n");
        let found = match scenario::parse("t.toml", text.as_bytes(), &Options::default(), &mut files) {
            Err(error) => error.to_string(),
            Ok(scenario) => {
                vruntime_workload::check::check(&scenario.workload, &scenario.source_map)[0].message().to_owned()
            }
        };
        assert!(found.contains(message), "{text}\n{found}");
    }
}

#[test]
fn waits_that_no_task_ends_are_warned_of() {
    let found = |steps: &str| {
        let scenario = read(&format!("duration = \"1s\"\n[[task]]\nname = \"t\"\nsteps = [{steps}]\n"));
        let found = vruntime_workload::check::check(&scenario.workload, &scenario.source_map);
        found.iter().map(|error| error.message().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found("{ wait_event = \"q\" }"), ["no task wakes wait queue `q`"]);
    assert_eq!(found("{ wait_event = \"q\" }, { wake_up = \"q\", events = 0 }").len(), 1);
    assert_eq!(found("{ wait_for_completion = \"c\" }"), ["no task completes `c`"]);
    assert_eq!(found("{ wait_event = \"q\", timeout = \"1ms\" }"), Vec::<String>::new());
    assert_eq!(found("{ wake_up = \"q\" }, { wait_event = \"q\" }"), Vec::<String>::new());
}

#[test]
fn cpus_come_and_go_in_order_of_time() {
    let plug =
        |at: &str, cpu: u32, online: bool| format!("[[hotplug]]\nat = \"{at}\"\ncpu = {cpu}\nonline = {online}\n");
    let text = format!("{TASK}{}{}{}", plug("2s", 3, true), plug("1s", 3, false), plug("1s", 0, false));
    let found = read(&text).workload.hotplug;
    let expected = [(1, 3, false), (1, 0, false), (2, 3, true)];
    let expected: Vec<Hotplug> =
        expected.iter().map(|&(s, cpu, online)| Hotplug { at: s * 1_000_000_000, cpu, online }).collect();
    assert_eq!(found, expected);
    assert!(read(TASK).workload.hotplug.is_empty());
}

#[test]
fn a_wrong_hotplug_is_reported_with_its_place() {
    let wrong = |hotplug: &str| {
        let text = format!("{TASK}\n[[hotplug]]\n{hotplug}");
        scenario::parse("test.toml", text.as_bytes(), &Options::default(), &mut files).unwrap_err()
    };
    let twice = wrong("at = \"1s\"\ncpu = 1\nonline = true\n");
    assert_eq!((twice.message(), twice.location()), ("CPU 1 is online already", Some((7, 6))));
    assert_eq!(wrong("at = \"1s\"\nonline = false\n").message(), "[[hotplug]] without `cpu`");
    assert_eq!(wrong("at = 1\ncpu = 0\nonline = false\n").message(), "`at` is a whole number");
    assert_eq!(wrong("at = \"1s\"\ncpu = -1\nonline = false\n").message(), "`cpu` is out of range");
}

#[test]
fn tasks_and_workloads_are_in_sessions() {
    let scenario = read(
        r#"
autogroup = true
[sessions.desktop]
nice = -5
[sessions."user-1"]
[[workload]]
rtapp = "web.json"
copies = 2
session = "user-{copy}"
[[task]]
name = "player"
session = "desktop"
run = "1ms"
[[task]]
name = "daemon"
run = "1ms"
"#,
    );
    let workload = scenario.workload;
    let sessions: Vec<_> = workload.sessions.iter().map(|session| (session.name.as_str(), session.nice)).collect();
    assert_eq!(sessions, [("user-0", 0), ("user-1", 0), ("desktop", -5)]);
    let found: Vec<_> = workload.tasks.iter().map(|task| task.session).collect();
    assert_eq!(found, [[Some(0); 4], [Some(1); 4]].concat().into_iter().chain([Some(2), None]).collect::<Vec<_>>());
    for (text, message) in [
        ("[sessions.desktopp]\nnice = 1", "no task is in session `desktopp`"),
        ("[sessions.desktop]\nnice = 20", "`nice` is out of range"),
        ("[sessions.desktop]\nweight = 20", "unknown key `weight`"),
        ("sessions = 3", "[sessions.\"name\"] is a whole number"),
    ] {
        let text = format!("{text}\n{TASK}session = \"desktop\"\n");
        let error = scenario::parse("t.toml", text.as_bytes(), &Options::default(), &mut files).unwrap_err();
        assert!(error.to_string().contains(message), "{text}\n{error}");
    }
    let text = format!("{TASK}session = \"a/b\"\n");
    let error = scenario::parse("t.toml", text.as_bytes(), &Options::default(), &mut files).unwrap_err();
    assert!(error.to_string().contains("`a/b` is not a session's name"), "{error}");
}

#[test]
fn tasks_name_their_cpus_as_groups_do() {
    let scenario = read("[[task]]\nname = \"a\"\nrun = \"1ms\"\ncpus = \"0-1,3\"\n");
    assert_eq!(scenario.workload.tasks[0].settings.cpus, Some(vec![0, 1, 3]));
    let scenario = read("[[task]]\nname = \"a\"\nrun = \"1ms\"\ncpus = []\n");
    assert_eq!(scenario.workload.tasks[0].settings.cpus, None);
}

#[test]
fn two_tasks_of_one_name_are_warned_of() {
    let scenario = read(&format!("{TASK}{TASK}"));
    let warnings: Vec<_> = scenario.warnings.iter().map(|warning| (warning.message(), warning.location())).collect();
    assert_eq!(warnings, [("a second [[task]] is called `t`", Some((7, 8)))]);
    assert!(read(TASK).warnings.is_empty());
}

#[test]
fn features_that_are_turned_round_are_warned_of() {
    let scenario = read(&format!("features = [\"WA_BIAS\", \"NO_RUN_TO_PARITY\", \"NO_WA_BIAS\"]\n{TASK}"));
    let warnings: Vec<_> = scenario.warnings.iter().map(|warning| (warning.message(), warning.location())).collect();
    assert_eq!(warnings, [("`WA_BIAS` has no effect: `NO_WA_BIAS` overrides it", Some((1, 13)))]);
}

#[test]
fn no_kernel_at_all_is_an_error() {
    let error = scenario::parse("x.toml", format!("kernel = []\n{TASK}").as_bytes(), &Options::default(), &mut files);
    let error = error.expect_err("there is none to run under");
    assert_eq!((error.message(), error.location()), ("`kernel` is an empty list", Some((1, 10))));
}
