//! `vruntime real`, `vruntime calibrate` and machine files. The tests assert only what a busy machine without root also
//! gives.
#![cfg(target_os = "linux")]

#[path = "support/for_all.rs"]
mod for_all;
#[path = "../../../tests/skip.rs"]
mod skip;

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;

const WORKLOAD: &str = r#"{ "tasks" : {
    "hog" : { "instance" : 2, "loop" : -1, "run" : 1000 },
    "beat" : { "loop" : -1, "run" : 200, "sleep" : 1800 }
} }"#;

const HANGS: Duration = Duration::from_secs(300);

/// One test at a time runs on the real kernel. Beside `vruntime calibrate`, a trace lacks thousands of switches
/// (`recorded_cpu_ns` is 107 to 154 ms where the kernel counts 61 to 71).
static ALONE: Mutex<()> = Mutex::new(());

fn vruntime(folder: &Path, arguments: &[&str]) -> (bool, String, String) {
    // The data of a poisoned lock is whole.
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::cargo_bin("vruntime").expect("the command is built");
    command.current_dir(folder).env("HOME", folder).env_remove("XDG_CONFIG_HOME").args(arguments);
    // Seconds even on a busy machine: one that hangs should say so and not hold up all the others.
    let output = command.timeout(HANGS).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("w.json"), WORKLOAD).expect("a file");
    folder
}

/// Repeats a run with longer durations until it has the result: on a busy machine a task may wait through a short one.
fn long_enough<T>(run: impl Fn(&str) -> T, is_enough: impl Fn(&T) -> bool) -> T {
    ["200ms", "2s"].into_iter().map(&run).find(is_enough).unwrap_or_else(|| run("20s"))
}

#[test]
fn a_workload_runs_for_real() {
    let folder = folder();
    let (out, json) = long_enough(
        |duration| {
            let arguments = ["real", "w.json", "--duration", duration, "--out", "out", "--repeat", "2"];
            let (well, out, err) = vruntime(folder.path(), &arguments);
            assert!(well, "{err}");
            let json = fs::read(folder.path().join("out/results.json")).unwrap();
            (out, serde_json::from_slice::<Value>(&json).unwrap())
        },
        |(_, json)| json["observed"][0]["tasks"]["beat"]["loops"].as_u64() > Some(0),
    );
    for word in ["under this machine's Linux", "hog x2", "beat", "Over all of them", "results are in out"] {
        assert!(out.contains(word), "{word}: {out}");
    }
    assert_eq!((json["topology"].as_str(), json["observed"].as_array().map(Vec::len)), (Some("host"), Some(2)));
    let beat = &json["observed"][0]["tasks"]["beat"];
    assert!(beat["cpu_ns"].as_u64() > Some(0) && beat["loops"].as_u64() > Some(0), "{beat}");
    assert!(beat["wakeup_latency_ns"]["p50"].as_u64() > Some(0), "{beat}");
    assert!(json["observed"][0].get("digest").is_none(), "no two are alike");
    // What the second table shows, as `run --json` has it.
    let over: Vec<&Value> = json["over_seeds"].as_array().expect("two runs").iter().collect();
    let cell = over.iter().find(|cell| cell["class"] == "hog" && cell["metric"] == "share").expect("the hogs' CPU");
    let of_run = |run: usize| json["observed"][run]["classes"]["hog"]["share"].as_f64().unwrap();
    let mean = f64::midpoint(of_run(0), of_run(1));
    assert!((cell["mean"].as_f64().unwrap() - mean).abs() < 1e-6 * mean, "{cell} {mean}");
}

/// A missing measurement is not 0.
#[test]
fn what_is_not_measured_is_no_zero() {
    let folder = folder();
    let text = "[groups.\"/app\"]\nmax = \"10000 50000\"\n\
                [[task]]\nname = \"server\"\ngroup = \"/app\"\nrun = \"1ms\"\n\
                [[workload]]\nrtapp = \"f.json\"\n";
    let forks = r#"{ "tasks" : { "child" : { "instance" : 0, "loop" : 3, "run" : 1000 },
        "noise" : { "loop" : -1, "run" : 1000, "fork" : "child", "sleep" : 20000 } } }"#;
    fs::write(folder.path().join("f.json"), forks).unwrap();
    fs::write(folder.path().join("g.toml"), text).unwrap();
    let run = |duration: &str| {
        let of = |more: &[&str]| {
            let (well, out, err) =
                vruntime(folder.path(), &[&["real", "g.toml", "--duration", duration], more].concat());
            assert!(well, "{err}");
            out
        };
        (serde_json::from_str::<Value>(&of(&["--json"])).unwrap(), of(&["--repeat", "2"]))
    };
    let (json, table) = long_enough(run, |(json, table)| {
        let tasks = json["observed"][0]["tasks"].as_object().unwrap();
        tasks.keys().any(|name| name.starts_with("child")) && table.lines().any(|line| line.starts_with("child"))
    });
    let observed = &json["observed"][0];
    let null = |value: &Value, keys: &[&str]| {
        for key in keys {
            assert_eq!(value.get(*key), Some(&Value::Null), "{key}: {value}");
        }
    };
    for kind in ["tasks", "classes"] {
        for (name, task) in observed[kind].as_object().unwrap() {
            assert!(task["cpu_ns"].as_u64() > Some(0), "{name}: {task}");
            null(task, &["user_ns", "system_ns", "idle_waits", "wakeup_to_run_ns"]);
            // Not measured for tasks that end before the run does.
            if name.starts_with("child") {
                null(task, &["run_delay_ns", "sleeping_ns", "nr_migrations"]);
            } else {
                assert!(task["run_delay_ns"].is_u64() && task["nr_migrations"].is_u64(), "{name}: {task}");
            }
        }
    }
    null(&observed["classes"]["server"], &["migrations"]);
    let group = &observed["groups"]["/app"];
    if group.is_null() {
        skip::skip("cgroups need root and a kernel that lets us");
        return;
    }
    // In tables it is a dash.
    let cells = |first: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(first)).unwrap_or_else(|| panic!("{first}: {table}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    for (of, wait) in [("child", true), ("all", true), ("server", false), ("noise", false)] {
        let row = cells(of);
        assert_eq!((row[2] == "-", row[7] == "-"), (wait, wait), "{row:?}: {table}");
    }
    assert_eq!((cells("/app")[4] == "-", cells("/ ")[4].as_str()), (false, "-"), "{table}");
    let spread = table.split("Over all of them").nth(1).unwrap_or_else(|| panic!("{table}"));
    assert!(!spread.contains("pressure %"), "pressure is not measured: {spread}");
    let child = spread.split("child").nth(1).and_then(|rest| rest.split("noise").next()).unwrap_or_default();
    assert!(child.contains("CPU %") && !child.contains("wait %") && !child.contains("migrations"), "{spread}");
    null(group, &["entitled_ns", "cpu.pressure"]);
    null(&group["cpu.stat"], &["user_usec", "system_usec"]);
    assert!(group["cpu.stat"]["usage_usec"].as_u64() > Some(0) && group["nr_throttled"].is_u64(), "{group}");
    assert!(group["run_delay_ns"].is_u64(), "{group}");
    null(&observed["groups"]["/"], &["run_delay_ns"]);
}

/// A replay of a real recording knows its kernel and groups.
#[test]
fn what_was_recorded_is_replayed_with_its_groups() {
    let folder = folder();
    let text = "duration = \"300ms\"\n[groups.\"/replayed\"]\nmax = \"10000 50000\"\n[groups.\"/other\"]\n\
                [[task]]\nname = \"server\"\ngroup = \"/replayed\"\nrun = \"1ms\"\n\
                [[task]]\nname = \"noise\"\ngroup = \"/other\"\nrun = \"1ms\"\nsleep = \"3ms\"\n";
    fs::write(folder.path().join("g.toml"), text).unwrap();
    let (well, out, err) = vruntime(folder.path(), &["real", "g.toml", "--out", "out"]);
    assert!(well, "{err}");
    if err.contains("no trace") || err.contains("groups, their weights and limits are left out") {
        skip::skip("tracing and cgroups need root and a kernel that lets us");
        return;
    }
    // Another task with CPU time may have the name `vruntime`, too.
    let next =
        out.lines().find_map(|line| line.split_once(": vruntime replay ")).unwrap_or_else(|| panic!("{out}{err}"));
    let next: Vec<&str> = ["replay"].into_iter().chain(next.1.split(' ')).chain(["--json"]).collect();
    assert_eq!(next, ["replay", "out/trace.txt", "--cgroups", "out/cgroups.txt", "--json"]);
    let (well, out, err) = vruntime(folder.path(), &next);
    assert!(well, "{err}");
    let json: Value = serde_json::from_str(&out).unwrap();
    let mut groups = json["groups"].as_array().into_iter().flatten();
    let group = groups.find(|group| group["path"].as_str().is_some_and(|path| path.ends_with("/replayed")));
    assert!(group.is_some_and(|group| group["recorded_cpu_ns"].as_u64() > Some(0)), "{out}");
    // The kernel charges a woken task from its wakeup on, and the task before it until then. So CPU time by switches
    // differs from charged time, by 15 us for each preemption by a wakeup from another CPU.
    let results = fs::read_to_string(folder.path().join("out/results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    let counted_ns = results["observed"][0]["groups"]["/replayed"]["cpu_ns"].as_f64();
    let counted_ns = counted_ns.unwrap_or_else(|| panic!("{results}"));
    let trace = fs::read_to_string(folder.path().join("out/trace.txt")).unwrap();
    let charges =
        trace.lines().filter_map(|line| line.split_once("sched_stat_runtime: comm=server ")?.1.split_once("runtime="));
    let charges = charges.map(|(_, charge)| charge.trim_end_matches(" [ns]").parse::<f64>().unwrap());
    let charged_ns: f64 = charges.sum();
    assert!((charged_ns - counted_ns).abs() <= counted_ns / 100.0, "charged {charged_ns}, counted {counted_ns}");
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let (_, out, _) = vruntime(folder.path(), &["trace", "info", "out/trace.txt"]);
    assert!(out.contains(&format!("kernel  {}", release.trim())), "{out}");
}

#[test]
fn what_cannot_run_is_reported_with_what_to_do() {
    let folder = folder();
    let (well, _, err) = vruntime(folder.path(), &["real", "w.json"]);
    assert!(!well && err.contains("the workload never ends") && err.contains("--duration 5s"), "{err}");
}

/// A limit in the way is reported once, with its remedy.
#[test]
fn limits_are_reported_with_what_to_do() {
    let folder = folder();
    let text = "duration = \"100ms\"\n[[workload]]\nmodel = \"hackbench -pipe 2 process 10\"\n";
    fs::write(folder.path().join("pipes.toml"), text).unwrap();
    let program = assert_cmd::cargo::cargo_bin("vruntime");
    let with_few_files = |arguments: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n 12; exec \"$0\" {arguments}")]).arg(&program);
        let output = command.current_dir(folder.path()).timeout(HANGS).output().expect("it starts");
        assert!(!output.status.success());
        String::from_utf8(output.stderr).expect("text")
    };
    for arguments in ["real pipes.toml", "calibrate --out m.toml"] {
        let err = with_few_files(arguments);
        assert_eq!(err.matches("Too many open files").count(), 1, "{err}");
        assert!(err.contains("ulimit -n"), "{err}");
    }
    // A low limit on threads and processes, as another user than root, which ignores it.
    fs::write(folder.path().join("threads.json"), r#"{ "tasks": { "t": { "instance": 20, "loop": 1, "run": 1 } } }"#)
        .unwrap();
    let text = "duration = \"100ms\"\n[[workload]]\nmodel = \"hackbench -pipe 2 thread 10\"\n\
                [[task]]\nname = \"u\"\nrun = \"1ms\"\n";
    fs::write(folder.path().join("process.toml"), text).unwrap();
    let bin = tempfile::tempdir().unwrap();
    let for_all = for_all::copied(bin.path());
    let few_threads = |file: &str| {
        let scenario = fs::File::open(folder.path().join(file)).unwrap();
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65533", "--regid=65533", "--clear-groups", "prlimit", "--nproc=9"]);
        let output = command.arg(&for_all).args(["real", "-", "--duration", "100ms"]).stdin(scenario).output();
        // Lines are broken where a terminal ends.
        let words = |text: &str| text.split_whitespace().filter(|&word| word != "│").collect::<Vec<_>>().join(" ");
        output.ok().map(|output| words(&String::from_utf8_lossy(&output.stderr)))
    };
    for (file, what) in
        [("threads.json", "cannot make a thread: "), ("process.toml", "cannot make a thread of a process")]
    {
        match few_threads(file) {
            Some(err) if err.contains(what) => {
                assert!(err.contains("ulimit -u") && err.contains("pids.max"), "{err}");
            }
            result => skip::skip(&format!("a user's limit of threads needs setpriv, prlimit and root: {result:?}")),
        }
    }
    let text = r#"{ "tasks": { "hog": { "instance": 100000, "loop": 1, "run": 1 } } }"#;
    fs::write(folder.path().join("many.json"), text).unwrap();
    let (well, _, err) = vruntime(folder.path(), &["real", "many.json"]);
    assert!(!well && err.contains("100000 threads would begin, the most is 30000"), "{err}");
    assert!(err.contains("lower `instance`"), "{err}");
}

#[test]
fn a_calibrated_machine_can_be_simulated() {
    let folder = folder();
    // Without the folder of the file, nothing is measured.
    let (well, out, err) = vruntime(folder.path(), &["calibrate", "--out", "machines/mine.toml"]);
    assert!(!well && out.is_empty() && err.contains("there is no folder machines"), "{out}{err}");
    assert!(!folder.path().join("machines").exists());
    let (well, out, err) = vruntime(folder.path(), &["calibrate", "--out", "."]);
    assert!(!well && out.is_empty() && err.contains("cannot write ."), "{out}{err}");
    fs::create_dir(folder.path().join("machines")).unwrap();
    let (well, out, err) = vruntime(folder.path(), &["calibrate", "--out", "machines/mine.toml"]);
    assert!(well, "{err}");
    for word in
        ["[machine]", "topology = ", "hz = ", "[costs]", "syscall_ns = ", "switch_ns = ", "fork_ns = ", "background"]
    {
        assert!(out.contains(word), "{word}: {out}");
    }
    assert!(err.contains("--machine machines/mine.toml"), "{err}");
    let run = ["run", "w.json", "--duration", "100ms", "--machine", "machines/mine.toml"];
    let (well, out, err) = vruntime(folder.path(), &run);
    assert!(well && out.contains("costs measured"), "{out}{err}");
    // Without --out it is what `host` stands for.
    let (well, _, err) = vruntime(folder.path(), &["run", "w.json", "--duration", "10ms", "--machine", "host"]);
    assert!(well && err.contains("was not calibrated"), "{err}");
    fs::create_dir_all(folder.path().join(".config/vruntime")).unwrap();
    fs::copy(folder.path().join("machines/mine.toml"), folder.path().join(".config/vruntime/machine.toml")).unwrap();
    let (well, out, err) = vruntime(folder.path(), &["run", "w.json", "--duration", "10ms", "--machine", "host"]);
    assert!(well && out.contains("costs measured") && !err.contains("calibrated"), "{out}{err}");
}

#[test]
fn a_machine_file_says_what_is_wrong_with_it() {
    let folder = folder();
    let refused = |text: &str| {
        fs::write(folder.path().join("m.toml"), text).unwrap();
        let (well, _, err) = vruntime(folder.path(), &["run", "w.json", "--duration", "1ms", "--machine", "m.toml"]);
        assert!(!well, "{text}");
        err
    };
    let err = refused("[machine]\ntopolgy = \"2\"\n");
    assert!(err.contains("topolgy") && err.contains("m.toml") && err.contains("vruntime calibrate"), "{err}");
    assert!(refused("[machine]\ntopology = \"2\"\n[costs]\nswich_ns = 1\n").contains("switch_ns"));
    assert!(refused("[machine]\ntopology = \"2\"\npreempt = \"often\"\n").contains("often"));
    assert!(refused("[machine]\ntopology = \"2\"\ncapacities = [1024]\n").contains("capacities"));
    assert!(refused("[machine").contains("m.toml"));
    let besides = "[machine]\ntopology = \"2\"\n[[background]]\nname = \"d\"\nwork_ns = 1\n";
    assert!(refused(besides).contains("missing field `period_ns`"));
    let err = refused(&format!("{besides}period_ns = 5\nnice = 30\n"));
    assert!(err.contains("`d` has nice 30, expected -20 to 19") && err.contains("m.toml:3"), "{err}");
}

/// A machine's other load is a row of its own, and `real` reports it.
#[test]
fn what_a_machine_does_besides_is_shown() {
    let folder = folder();
    let text = "[machine]\ntopology = \"1\"\n[[background]]\nname = \"d\"\nperiod_ns = 10_000_000\nwork_ns = 1_000_000\n\
                [[background]]\nname = \"e\"\nperiod_ns = 20_000_000\nwork_ns = 1_000_000\npolicy = \"SCHED_FIFO\"\npriority = 5\n";
    fs::write(folder.path().join("m.toml"), text).unwrap();
    let far = "[machine]\ntopology = \"1\"\n[[background]]\nname = \"far\"\nperiod_ns = 10\nwork_ns = 1\ncpus = [7]\n";
    fs::write(folder.path().join("m2.toml"), far).unwrap();
    let run = ["run", "w.json", "--duration", "1s", "--machine", "m.toml", "--seed", "0"];
    let (well, out, err) = vruntime(folder.path(), &run);
    let row = out.lines().find(|line| line.starts_with("background x2")).unwrap_or_else(|| panic!("{out}{err}"));
    let percent: f64 = row.split_whitespace().nth(2).and_then(|cpu| cpu.parse().ok()).unwrap();
    assert!(well && (14.0..16.0).contains(&percent), "{out}");
    assert!(!out.contains("kworker"), "{out}");
    let err = vruntime(folder.path(), &["run", "w.json", "--duration", "10ms", "--machine", "m2.toml"]).2;
    assert!(err.contains("`far` of [[background]] is left out: this machine lacks its CPUs"), "{err}");
    // A trace has what its machine did besides.
    let (well, _, err) = vruntime(folder.path(), &["run", "w.json", "--duration", "1s", "--out", "o"]);
    assert!(well, "{err}");
    let (well, out, err) = vruntime(folder.path(), &["replay", "o/trace.txt", "--machine", "m.toml"]);
    assert!(well && out.contains("beat") && !out.contains("background"), "{out}{err}");
    let (well, out, err) = vruntime(folder.path(), &["real", "w.json", "--duration", "100ms"]);
    assert!(well, "{err}");
    if out.contains("other tasks used ") {
        assert!(out.contains(" % of a CPU, and got a CPU ") && out.contains(" times a second"), "{out}");
    } else {
        skip::skip("this kernel keeps no accounts of tasks (schedstats)");
    }
}
