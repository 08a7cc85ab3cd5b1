//! Task groups in traces.

use serde_json::Value;

use super::*;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/groups.pftrace");
const CGROUPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/groups-cgroups.txt");

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&well(arguments, b"")).expect("it prints JSON")
}

/// A row of a table, by the group's path.
fn row<'a>(tables: &'a Value, table: &str, group: &str) -> &'a Value {
    let rows = tables[table].as_array().unwrap_or_else(|| panic!("{table} is in {tables}"));
    let row = rows.iter().find(|row| row["group"] == group || row["path"] == group);
    row.unwrap_or_else(|| panic!("{group} is in {table}: {tables}"))
}

/// Linux 6.18 on two CPUs: six spinners in groups of weight 200, 50 and 100, the last with 20 ms in 100 ms.
#[test]
fn a_recorded_machine_says_its_groups_besides() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let arguments = ["trace", "analyse", RECORDED, "groups", "throttling", "--cgroups", CGROUPS];
    let tables = json(&[&arguments[..], &["--json", "--tables", &out]].concat())["tables"].take();
    let of = |group: &str, key: &str| row(&tables, "group_usage", group)[key].as_f64().expect("it is known");
    // The kernel kept the shares of the weights, to two points.
    for (group, weight, tasks) in [("/vr-web", 200.0, 3.0), ("/vr-batch", 50.0, 2.0), ("/vr-capped", 100.0, 1.0)] {
        assert_eq!((of(group, "weight"), of(group, "tasks")), (weight, tasks), "{group}");
        assert!((of(group, "share") - of(group, "entitled")).abs() < 0.025, "{group}: {tables}");
    }
    assert!((of("/", "share") - 2.0).abs() < 0.01, "both CPUs were busy: {tables}");
    assert!(
        (of("/vr-capped", "share") - 0.2).abs() < 0.002 && (of("/vr-capped", "limit") - 0.2).abs() < 1e-9,
        "{tables}"
    );
    // By its `cpu.stat` it was throttled in 57 of 59 periods, for 3.24 s; half of them are in these three seconds.
    let capped = row(&tables, "throttling", "/vr-capped");
    let number = |key: &str| capped[key].as_f64().expect("it is known");
    assert_eq!((number("quota_ns"), number("period_ns"), number("periods")), (2e7, 1e8, 29.0), "{capped}");
    assert!((number("used") - 1.0).abs() < 0.01, "{capped}");
    assert!(number("throttled_least_ns") <= 1.62e9 && 1.62e9 <= number("throttled_most_ns"), "{capped}");
    let text = well(&arguments, b"");
    assert!(text.contains("A recording has neither throttling"), "{text}");
    for table in ["group_usage", "throttling"] {
        let csv = std::fs::read_to_string(format!("{out}/{table}.csv")).expect("it is written");
        assert!(csv.starts_with("group,") && csv.contains("/vr-capped"), "{csv}");
    }
    // By default, the usual analyses and these two are printed.
    let usual = json(&["trace", "analyse", RECORDED, "--cgroups", CGROUPS, "--json"])["tables"].take();
    assert_eq!(usual["group_usage"], tables["group_usage"]);
    assert!(usual["latency"].is_array() && usual["throttling"].is_array());
}

#[test]
fn an_error_on_unknown_groups_names_how_to_record_them() {
    let output = fails(&["trace", "analyse", "perf.data", "groups"], b"");
    for part in
        ["`groups` is not possible", "the groups of its tasks are unknown", "--cgroups FILE", "find /proc", "trace.txt"]
    {
        assert!(output.contains(part), "{part}: {output}");
    }
    // The other analyses are printed all the same.
    let asked = vruntime(&["trace", "analyse", "perf.data", "groups", "latency"], b"");
    assert!(String::from_utf8_lossy(&asked.stdout).contains("Max delay"), "{asked:?}");
    assert!(String::from_utf8_lossy(&asked.stderr).contains("`groups` is not possible"), "{asked:?}");
    assert_eq!(asked.status.code(), Some(1));
    // The moved task's group is known, but the groups' limits are not.
    let moved =
        b"  a-7 [000] 1.000000: cgroup_attach_task: dst_root=0 dst_id=5 dst_level=1 dst_path=/web pid=7 comm=a\n  \
          a-7 [000] 1.001000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120\n";
    assert!(well(&["trace", "analyse", "-", "groups"], moved).contains("weights and limits are unknown"));
    let output = fails(&["trace", "analyse", "-", "throttling"], moved);
    assert!(output.contains("the limits of its groups are unknown"), "{output}");
    let output = fails(&["trace", "analyse", RECORDED, "latency", "--cgroups", CGROUPS], b"");
    assert!(output.contains("no requested analysis needs groups"), "{output}");
    // The critical path says in which group each task is.
    let output = well(&["trace", "analyse", RECORDED, "critical-path:web1", "--cgroups", CGROUPS, "--json"], b"");
    let output: Value = serde_json::from_str(&output).expect("it prints JSON");
    let row = &output["tables"]["critical_path"][0];
    assert_eq!((&row["group"], &row["doing"]), (&"/vr-web".into(), &"runs".into()), "{row}");
    let output = fails(&["trace", "analyse", RECORDED, "groups", "--cgroups", "nowhere.txt"], b"");
    assert!(output.contains("cannot read nowhere.txt"), "{output}");
}

const SCENARIO: &str = r#"
machine = "4"
kernel = "6.12"
duration = "2s"
seed = 1

[groups."/web"]
weight = 300

[groups."/web/api"]
weight = 50

[groups."/capped"]
weight = 100
max = "20ms/100ms"

[groups."/batch"]
idle = true

[[task]]
name = "server"
instance = 3
group = "/web"
run = "3ms"
sleep = "1ms"

[[task]]
name = "api"
instance = 2
group = "/web/api"
nice = 3
run = "2ms"

[[task]]
name = "capped"
instance = 2
group = "/capped"
run = "1ms"

[[task]]
name = "batch"
instance = 3
group = "/batch"
policy = "SCHED_IDLE"
run = "1ms"

[[task]]
name = "rt"
policy = "SCHED_FIFO"
priority = 10
run = "1ms"
sleep = "9ms"

[[task]]
name = "shell"
run = "5ms"
sleep = "5ms"

[[change]]
at = "1s"
group = "/web"
weight = 50

[[change]]
at = "1500ms"
task = "shell"
group = "/web/api"
"#;

/// A run's groups, its analyses during the run, and its traces agree.
#[test]
fn a_run_its_analyses_and_its_traces_agree_about_groups() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("s.toml"), SCENARIO).unwrap();
    let (scenario, out) = (path("s.toml"), path("out"));
    let words = ["--analyse", "groups,throttling", "--tables"];
    let run = json(&[&["run", &scenario, "--out", &out, "--json"], &words[..], &[&path("tables")]].concat());
    let live = &run["observed"][0]["analyses"]["tables"];
    let results = std::fs::read_to_string(path("tables/groups.csv")).expect("it is written");
    let mut lines = results.lines().map(|line| line.split(',').collect::<Vec<&str>>());
    let head = lines.next().expect("it has a head");
    let own: Vec<Vec<&str>> = lines.collect();
    assert_eq!(own.len(), 5, "{results}");
    // As they are, to the nanosecond.
    for own in &own {
        let of = |key: &str| own[head.iter().position(|column| *column == key).expect("it has the column")];
        let (usage, group) = (row(live, "group_usage", of("group")), of("group"));
        // The root has no weight.
        let keys = ["weight", "tasks", "cpu_ns", "entitled_ns", "run_delay_ns"];
        for key in keys.into_iter().skip(usize::from(group == "/")) {
            assert_eq!(usage[key].to_string(), of(key), "{key} of {group}");
        }
        if of("quota_ns").is_empty() {
            continue;
        }
        let limit = row(live, "throttling", group);
        for key in ["quota_ns", "period_ns", "nr_periods", "nr_throttled", "throttled_ns", "nr_bursts", "burst_ns"] {
            assert_eq!(limit[key].to_string(), of(key), "{key} of {group}");
        }
        assert!(limit["nr_throttled"].as_u64().is_some_and(|times| times > 15), "{limit}");
    }
    // A trace ends with its last event, and the text has microseconds.
    let text = format!("{out}/trace.txt");
    let read = json(&["trace", "analyse", &text, "groups", "throttling", "--json"]);
    let missing = 2_000_000_000 - read["elapsed_ns"].as_u64().expect("it has a length");
    assert!(missing < 4_000_000, "there is a tick at least so often: {missing}");
    let read = &read["tables"];
    let lines = std::fs::read_to_string(&text).expect("it is written");
    let from_idle = |line: &&str| line.split_once("==>").is_some_and(|(from, _)| from.contains("swapper"));
    let busy = lines.lines().filter(from_idle).count() as u64;
    assert_eq!(live["throttling"], read["throttling"]);
    for own in live["group_usage"].as_array().expect("it is a table") {
        let read = row(read, "group_usage", own["group"].as_str().expect("it has a path"));
        for key in ["weight", "limit", "tasks"] {
            assert_eq!(own[key], read[key], "{key}: {own}");
        }
        for key in ["cpu_ns", "entitled_ns"] {
            let (own, read) = (own[key].as_u64().expect("a time"), read[key].as_u64().expect("a time"));
            // Four CPUs, and each time one was busy is off by less than a microsecond, for both its ends are rounded
            // down.
            let off = 4 * missing + (4 + busy) * 1000;
            assert!(own.abs_diff(read) <= off, "{key}: {own} and {read}, {off}");
        }
    }
    // A converted trace gives the same tables, in another format, too.
    for to in ["converted.txt", "converted.pftrace"] {
        well(&["trace", "convert", &text, &path(to)], b"");
        let converted = json(&["trace", "analyse", &path(to), "groups", "throttling", "--json"]);
        assert_eq!(&converted["tables"], read, "{to}");
    }
    // The Perfetto trace of a run has the group of each task, and no weights.
    let perfetto = format!("{out}/trace.perfetto-trace");
    let usage = json(&["trace", "analyse", &perfetto, "groups", "--json"])["tables"].take();
    let (own, read) = (row(live, "group_usage", "/capped"), row(&usage, "group_usage", "/capped"));
    let ns = |row: &Value| row["cpu_ns"].as_u64().expect("a time");
    assert!(ns(own).abs_diff(ns(read)) <= 4 * missing, "{own} {read}");
    assert!(read["entitled_ns"].is_null(), "{read}");
}

/// Without groups every task is in the root, also in a run's traces.
#[test]
fn a_run_without_groups_has_all_in_the_root() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let hogs = br#"{"tasks":{"hog":{"instance":3,"run":1000,"loop":-1}}}"#;
    let run = ["run", "-", "--machine", "2", "--duration", "50ms", "--analyse", "groups,throttling", "--json"];
    let run: Value = serde_json::from_str(&well(&[&run[..], &["--out", &out]].concat(), hogs)).expect("it is JSON");
    let live = &run["observed"][0]["analyses"]["tables"];
    for trace in ["trace.txt", "trace.perfetto-trace"] {
        let read = json(&["trace", "analyse", &format!("{out}/{trace}"), "groups", "throttling", "--json"]);
        let (live, read) = (row(live, "group_usage", "/"), row(&read["tables"], "group_usage", "/"));
        assert_eq!(live["tasks"], read["tasks"]);
        let ns = |row: &Value| row["cpu_ns"].as_u64().expect("a time");
        assert!(ns(live) > 90_000_000 && ns(live).abs_diff(ns(read)) < 100_000, "{trace}: {live} {read}");
    }
}

/// Chance alone moves one replay by up to 0.27 CPUs, so the mean needs many.
const SEEDS: u64 = 16;

/// A run's text trace is replayed in its groups, with their weights and limits.
#[test]
fn a_run_with_groups_is_replayed_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("s.toml"), SCENARIO).unwrap();
    let cpu = |value: &Value| value.as_f64().expect("a time") / 2e9;
    let mut off = [("/", 0.0), ("/web", 0.0), ("/batch", 0.0)];
    for seed in 1..=SEEDS {
        let (file, out, seed) = (path("s.toml"), path(&format!("out{seed}")), seed.to_string());
        let run = json(&["run", &file, "--seed", &seed, "--out", &out, "--json", "--analyse", "groups"]);
        let live = &run["observed"][0]["analyses"]["tables"];
        let trace = format!("{out}/trace.txt");
        let replay = json(&["replay", &trace, "--recorded-kernel", "6.12", "--as-recorded", "--json"]);
        let capped = row(&replay, "groups", "/capped");
        assert!((cpu(&capped["replayed"]["cpu_ns"]) - 0.2).abs() < 0.02, "{capped}");
        assert!(capped["replayed"]["nr_throttled"].as_u64().is_some_and(|times| times > 15), "{capped}");
        for (group, off) in &mut off {
            let (own, again) = (row(live, "group_usage", group), row(&replay, "groups", group));
            *off += (cpu(&again["replayed"]["cpu_ns"]) - cpu(&own["cpu_ns"])) / SEEDS as f64;
        }
    }
    // In CPUs. Chance decides which task is where: one replay is up to 0.27 off.
    assert!(off.iter().all(|(_, off)| off.abs() < 0.1), "{off:?}");
}
