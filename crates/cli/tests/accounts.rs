//! What a run reports of deadlines, stolen time and switches without effect, in every format.

mod support;

use std::fs;

use support::*;

/// Missed deadlines and requested overrun reports appear in the table, in JSON and in both traces.
#[test]
fn deadlines_are_reported() {
    let pipeline = "../../../../scenarios/deadline/pipeline.toml";
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let table = well(&["run", pipeline, "--out", out]);
    let row = table.lines().skip_while(|line| !line.contains("overruns")).find(|line| line.starts_with("greedy"));
    let row: Vec<&str> = row.unwrap_or_else(|| panic!("{table}")).split_whitespace().collect();
    let json = json(&["run", pipeline, "--json"]);
    let tasks = &json["observed"][0]["tasks"];
    let (greedy, decode) = (&tasks["greedy"]["deadline"], &tasks["decode"]["deadline"]);
    let overruns = greedy["nr_overruns"].as_u64().unwrap();
    assert_eq!((greedy["nr_throttled"].as_u64(), decode["nr_overruns"].as_u64()), (Some(overruns), Some(0)));
    assert_eq!(overruns, 50, "{greedy}");
    assert_eq!((row[1], row[row.len() - 1]), (overruns.to_string().as_str(), overruns.to_string().as_str()), "{table}");
    let trace = text(&fs::read(folder.path().join("trace.txt")).unwrap());
    let marks =
        |what: &str| trace.lines().filter(|line| line.contains("print:") && line.ends_with(what)).count() as u64;
    assert_eq!(marks("sched_deadline: comm=greedy pid=1001 what=overrun"), overruns);
    assert_eq!(marks("sched_deadline: comm=greedy pid=1001 what=throttle"), overruns);
    assert!(marks("sched_deadline: comm=greedy pid=1001 what=replenish") >= overruns - 1);
    // What it is started with, and its admission.
    assert_eq!(marks("sched_setscheduler: comm=decode pid=1000 policy=SCHED_DEADLINE rt_priority=0"), 2);
    let misses = trace.lines().filter(|line| line.contains("comm=greedy pid=1001 what=miss late_ns=")).count() as u64;
    assert_eq!((greedy["misses"].as_u64(), misses), (Some(50), 50), "{greedy}");
    assert_eq!(decode["misses"].as_u64(), Some(0), "{decode}");
    // The first job gets its third millisecond 10 ms after its deadline. Every other job arrives 2 ms before a period
    // begins, and waits for that with 2 ms of its 10 gone.
    let late = greedy["max_late_ns"].as_f64().unwrap() / 1e3;
    assert!((13_000.0..13_020.0).contains(&late), "{greedy}");
    let perfetto = fs::read(folder.path().join("trace.perfetto-trace")).unwrap();
    let perfetto = String::from_utf8_lossy(&perfetto);
    assert_eq!(perfetto.matches("runtime overrun").count() as u64, overruns);
    // Our own reader takes all of it.
    let info = well(&["trace", "info", folder.path().join("trace.txt").to_str().unwrap()]);
    assert!(!info.contains("not understood"), "{info}");
}

/// Time that a host takes is `steal`. The fields of each CPU still add up to the run's length.
#[test]
fn steal_is_what_the_host_takes() {
    let stat = |scenario: &str| {
        let run = json(&["run", &format!("../../../../scenarios/overcommit/{scenario}.toml"), "--json"]);
        let observed = &run["observed"][0];
        let elapsed = observed["machine"]["elapsed_ns"].as_u64().expect("a number");
        let cpus = observed["cpus"].as_array().unwrap();
        for cpu in cpus {
            let sum: u64 = cpu["stat_ns"].as_object().unwrap().values().filter_map(serde_json::Value::as_u64).sum();
            assert_eq!(sum, elapsed, "{cpu}");
        }
        let steal: u64 = cpus.iter().filter_map(|cpu| cpu["stat_ns"]["steal"].as_u64()).sum();
        assert_eq!(Some(steal), observed["machine"]["stat_ns"]["steal"].as_u64());
        steal as f64 / 1e9
    };
    assert!(stat("alone") < 1e-9);
    let crowded = stat("crowded");
    // The builds want both CPUs all the time, so a task waits whenever a service runs, which is 18 % of five seconds.
    assert!((0.9..2.0).contains(&crowded), "{crowded}");
}

/// Names copied from a kernel's `sched_features` are accepted.
#[test]
fn features_of_old_kernels_are_taken() {
    for (kernel, features) in [
        ("2.6.23", "PRECISE_CPU_LOAD NO_SKIP_INITIAL"),
        ("3.10", "NONTASK_POWER NO_NUMA NO_NUMA_FORCE"),
        ("3.18", "NO_NONTASK_CAPACITY NUMA NUMA_FAVOUR_HIGHER NO_NUMA_RESIST_LOWER"),
    ] {
        let mut arguments = vec!["run", "beat.json", "--machine", "2", "--kernel", kernel];
        arguments.extend(features.split(' ').flat_map(|feature| ["--feature", feature]));
        let noted = text(&vruntime(&arguments).stderr);
        assert!(!noted.contains(&format!("Linux {kernel} has no")), "{noted}");
        let unlike: Vec<&str> = features.split(' ').filter(|name| *name != "NO_SKIP_INITIAL").collect();
        assert_eq!(noted.matches("makes no difference here").count(), unlike.len(), "{noted}");
    }
}
