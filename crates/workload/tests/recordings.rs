//! Recordings of real kernels.

use vruntime_workload::program::{Bandwidth, Op};
use vruntime_workload::recording::{self, Smp};

const RECORDING: &str = r#"{
 "name": "quota", "kernel": "6.12.117", "cpus": 8, "topology": "8,sockets=2,cores=4,threads=1", "emulated": true,
 "duration_s": 5, "hz": 250, "preempt": "voluntary", "autogroup": true,
 "groups": { "Q": { "max": [50000, 100000] }, "B/x": { "weight": 300 } },
 "workload": { "tasks": { "q": { "instance": 2, "taskgroup": "/Q", "run": 1000, "sleep": 4000 } }, "global": { "duration": 5 } },
 "observed": [ {
  "tasks": { "q-0": { "cpu_s": 0.5, "nr_voluntary_switches": 3, "nr_involuntary_switches": 4, "nr_migrations": 5, "loops": 6,
   "wakeup_latency_us": { "p50": 1.5, "p90": 2, "p99": 3, "max": 4 } },
   "q-1": { "cpu_s": 0.5, "nr_voluntary_switches": 3, "nr_involuntary_switches": 4, "nr_migrations": 5, "loops": 6,
   "wakeup_latency_us": null } },
  "groups": { "Q": { "nr_periods": 50, "nr_throttled": 20, "throttled_usec": 7 } } } ] }"#;

#[test]
fn a_recording_is_read() {
    let recording = recording::parse("quota.json", RECORDING.as_bytes()).expect("it is right");
    assert_eq!((recording.name.as_str(), recording.kernel.as_str(), recording.hz), ("quota", "6.12.117", 250));
    assert_eq!(
        (recording.autogroup, recording.emulated, recording.preempt.as_deref()),
        (true, true, Some("voluntary"))
    );
    assert_eq!((recording.cpus, recording.topology), (8, Smp { sockets: 2, cores: 4, threads: 1 }));
    assert_eq!(recording.topology.to_hwloc(), "pack:2 core:4 pu:1");
    assert_eq!((recording.duration, recording.workload.duration), (5_000_000_000, Some(5_000_000_000)));
    let workload = &recording.workload;
    assert_eq!(workload.tasks[1].name, "q-1");
    assert_eq!(workload.tasks[1].phases[0].ops, [Op::Run { work: 1_000_000 }, Op::Sleep { time: 4_000_000 }]);
    let groups: Vec<_> = workload.groups.iter().map(|group| (group.path.as_str(), group.weight, group.max)).collect();
    let limit = Bandwidth { quota: 50_000_000, period: 100_000_000, burst: 0 };
    assert_eq!(groups, [("/", 100, None), ("/Q", 100, Some(limit)), ("/B", 100, None), ("/B/x", 300, None)]);
    let seen = &recording.observed[0];
    assert_eq!(seen.tasks["q-0"].wakeup_latency_ns.map(|latency| latency.p90), Some(2000.0));
    assert!(seen.tasks["q-1"].wakeup_latency_ns.is_none());
    assert_eq!(seen.tasks["q-1"].cpu_ns, 500_000_000);
    assert_eq!((seen.groups["/Q"].nr_periods, seen.groups["/Q"].throttled_ns()), (50, 7000));
}

#[test]
fn cgroup_v1_tells_throttled_time_in_ns_and_may_have_no_topology() {
    let text = RECORDING
        .replace("\"throttled_usec\": 7", "\"throttled_time\": 7")
        .replace("\"topology\": \"8,sockets=2,cores=4,threads=1\",", "");
    let recording = recording::parse("quota.json", text.as_bytes()).expect("it is right");
    assert_eq!(recording.observed[0].groups["/Q"].throttled_ns(), 7);
    assert_eq!(recording.topology, Smp { sockets: 1, cores: 8, threads: 1 });
}

/// Earlier recordings have seconds and microseconds, as above.
#[test]
fn a_recording_of_nanoseconds_is_the_same() {
    let text = RECORDING
        .replace("\"cpu_s\": 0.5", "\"cpu_ns\": 500000000")
        .replace(
            "\"wakeup_latency_us\": { \"p50\": 1.5, \"p90\": 2, \"p99\": 3, \"max\": 4 }",
            "\"wakeup_latency_ns\": { \"p50\": 1500, \"p90\": 2000, \"p99\": 3000, \"max\": 4000 }",
        )
        .replace("\"throttled_usec\": 7", "\"throttled_ns\": 7000");
    let [earlier, now] =
        [RECORDING, &text].map(|text| recording::parse("quota.json", text.as_bytes()).expect("it is right"));
    assert_ne!(RECORDING, text);
    for name in ["q-0", "q-1"] {
        let [earlier, now] = [&earlier, &now].map(|recording| &recording.observed[0].tasks[name]);
        let percentiles =
            |task: &recording::ObservedTask| task.wakeup_latency_ns.map(|of| [of.p50, of.p90, of.p99, of.max]);
        assert_eq!((earlier.cpu_ns, percentiles(earlier)), (now.cpu_ns, percentiles(now)));
    }
    assert_eq!(earlier.observed[0].groups["/Q"].throttled_ns(), now.observed[0].groups["/Q"].throttled_ns());
    let error =
        recording::parse("quota.json", text.replace("\"cpu_ns\": 500000000,", "").as_bytes()).expect_err("no time");
    assert!(error.message().contains("cpu_ns"), "{}", error.message());
}

#[test]
fn the_preemption_model_may_be_unknown() {
    for unknown in ["", "\"preempt\": null,"] {
        let text = RECORDING.replace("\"preempt\": \"voluntary\",", unknown);
        assert_eq!(recording::parse("quota.json", text.as_bytes()).expect("it is right").preempt, None);
    }
}

#[test]
fn what_is_wrong_is_named() {
    let rows = [
        ("8,sockets=2,cores=4", "8,sockets=2,cores=5", "the topology does not fit the number of CPUs"),
        ("\"weight\": 300", "\"weight\": 0", "a weight is 1 to 10000"),
        ("[50000, 100000]", "[50000, 1]", "the kernel refuses this limit"),
        ("[50000, 100000]", "[17592186044416, 100000]", "the kernel refuses this limit"),
        ("\"run\": 1000", "\"run\": -2", "`run` is out of range"),
    ];
    for (right, wrong, message) in rows {
        let error = recording::parse("quota.json", RECORDING.replace(right, wrong).as_bytes()).expect_err(wrong);
        assert_eq!(error.message(), message);
        assert!(error.location().is_some());
    }
}
