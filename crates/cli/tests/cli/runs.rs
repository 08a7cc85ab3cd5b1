//! What a run prints and writes, and what decides how it runs.

use std::fs;

use assert_cmd::Command;
use serde_json::Value;

use crate::support::*;

fn digest(arguments: &[&str], run: usize) -> String {
    json(arguments)["observed"][run]["digest"].as_str().expect("a digest is text").to_owned()
}

#[test]
fn a_run_without_costs_or_jitter_is_what_the_file_says() {
    let table = well(&["run", "beat.json", "--machine", "2", "--costs", "zero", "--seed", "0", "--kernel", "6.12"]);
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let run = json(&["run", "beat.json", "--machine", "2", "--costs", "zero", "--seed", "0", "--json"]);
    assert_eq!((&run["name"], &run["kernel"], &run["cpus"]), (&"beat".into(), &"6.12".into(), &2.into()));
    let tasks = &run["observed"][0]["tasks"];
    assert_eq!(tasks["beat-0"]["cpu_ns"], 20_000_000);
    assert_eq!(tasks["beat-1"]["loops"], 10);
    assert_eq!(tasks["hog"]["cpu_ns"], 50_000_000);
    assert_eq!(tasks["hog"]["run_delay_ns"], 0);
    assert!(tasks["hog"]["wakeup_latency_ns"].is_null());
    assert!(tasks["beat-0"]["wakeup_latency_ns"]["p99"].is_u64());
}

#[test]
fn the_fields_are_those_of_the_recordings() {
    let recording = fs::read(data("../../../../fidelity/ground-truth/linux-6.12/group-waker.json")).unwrap();
    let recording: serde_json::Value = serde_json::from_slice(&recording).unwrap();
    let run = json(&["run", "../../../../fidelity/ground-truth/linux-6.12/group-waker.json", "--json"]);
    let (ours, theirs) = (&run["observed"][0]["tasks"], &recording["observed"][0]["tasks"]);
    for (name, task) in theirs.as_object().unwrap() {
        for (field, value) in task.as_object().unwrap() {
            // The recordings have their kernel's seconds and microseconds.
            let unit = ["_s", "_us"].iter().find_map(|unit| field.strip_suffix(unit));
            let called = unit.map_or_else(|| field.clone(), |name| format!("{name}_ns"));
            let simulated = &ours[name][&called];
            assert_eq!(simulated.is_null(), value.is_null(), "{name} {field}: {simulated} for {value}");
            for percentile in value.as_object().into_iter().flat_map(|fields| fields.keys()) {
                assert!(simulated[percentile].is_number(), "{name} {field} {percentile}");
            }
        }
    }
    for field in ["name", "kernel", "hz", "preempt", "autogroup", "gate", "cpus", "topology", "duration_ns"] {
        assert!(!run[field].is_null(), "{field}");
    }
    assert_eq!((&run["hz"], &run["preempt"], &run["autogroup"]), (&250.into(), &"voluntary".into(), &true.into()));
    assert_eq!(run["emulated"], recording["emulated"]);
}

#[test]
fn groups_get_what_they_are_entitled_to() {
    let run = json(&["run", "groups.toml", "--kernel", "6.12", "--json"]);
    let groups = &run["observed"][0]["groups"];
    let got = |group: &str, field: &str| groups[&format!("/{group}")][field].as_f64().unwrap() / 1e9;
    assert!((got("gold", "entitled_ns") - 0.15).abs() < 1e-6, "{groups}");
    assert!((got("gold", "cpu_ns") - 0.15).abs() < 0.005, "{groups}");
    assert!((got("iron", "cpu_ns") - 0.05).abs() < 0.005, "{groups}");
}

const ENDS_EARLY: &str = "machine = \"1\"\nduration = \"100ms\"\n\
    [[task]]\nname = \"short\"\nsteps = [{ run = \"1ms\" }]\nloops = 1\n\
    [[task]]\nname = \"long\"\nrun = \"1ms\"\n";

/// The results of a run are not lost with a task that ended before `--debug-at`.
#[test]
fn a_task_that_has_ended_leaves_the_results() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.toml").display().to_string();
    fs::write(&file, ENDS_EARLY).unwrap();
    let output = vruntime(&["run", &file, "--debug-at", "50ms", "--task", "short"]);
    let (printed, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(printed.contains("digest") && printed.contains("long"), "{printed}");
    assert!(stderr.contains("there is no task `short` at 0.05 s"), "{stderr}");
    // A misspelt name costs no run.
    let stderr = fails(&["run", &file, "--debug-at", "50ms", "--task", "shorty"]);
    assert!(stderr.contains("there is no task `shorty` in the file") && stderr.contains("long, short"), "{stderr}");
}

/// Kernels without lazy preemption state the model that they use.
#[test]
fn the_stated_preemption_is_the_simulated_one() {
    let run =
        |kernel: &str| well(&["run", "groups.toml", "--kernel", kernel, "--preempt", "lazy", "--duration", "10ms"]);
    assert!(run("6.12").contains("preempt voluntary,"), "{}", run("6.12"));
    assert!(run("6.18").contains("preempt lazy,"), "{}", run("6.18"));
    let both = ["compare", "groups.toml", "--kernel", "6.1", "--kernel", "6.18", "--preempt", "lazy", "--repeat", "1"];
    let compared = well(&[&both[..], &["--duration", "10ms"]].concat()).replace('\n', " ");
    let stated = |model: &str| compared.matches(&format!("preempt {model}")).count();
    assert_eq!((stated("voluntary"), stated("lazy")), (1, 1), "{compared}");
}

/// A note on omitted rows names an option of the command.
#[test]
fn omitted_rows_are_shown_by_an_option_that_exists() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.toml").display().to_string();
    let task = |n: u32| format!("[[task]]\nname = \"task{n}\"\nrun = \"1ms\"\n");
    fs::write(&file, (0..40).map(task).collect::<String>()).unwrap();
    let printed = well(&["run", &file, "--duration", "200ms", "--analyse", "latency"]);
    assert!(printed.contains("more rows (--json shows them)") && !printed.contains("--all"), "{printed}");
}

/// Values of tunables are the kernel's, also without a limit.
#[test]
fn no_limit_of_real_time_tasks_is_minus_one() {
    let unlimited = ["kernels", "--features", "6.1+kernel.sched_rt_runtime_us=-1"];
    let printed = well(&unlimited);
    let row = printed.lines().find(|line| line.starts_with("sched_rt_runtime_us ")).expect("a row");
    assert!(row.split_whitespace().nth(1) == Some("-1"), "{row}");
    let json: Value = serde_json::from_str(&well(&[&unlimited[..], &["--json"]].concat())).unwrap();
    let tunables = json["tunables"].as_array().unwrap();
    let row = tunables
        .iter()
        .find(|row| row["tunable"] == "kernel.sched_rt_runtime_us")
        .or_else(|| tunables.iter().find(|row| row["tunable"] == "sched_rt_runtime_us"));
    assert_eq!(row.unwrap()["value_by_cpus"]["8"], -1);
}

/// The kernel's files at an instant; a snapshot changes nothing.
#[test]
fn the_scheduler_can_be_looked_at() {
    let run = ["run", "groups.toml", "--kernel", "6.12", "--duration", "100ms"];
    let at = |more: &[&str]| well(&[&run[..], &["--debug-at", "50ms"], more].concat());
    let text = at(&[]);
    insta::assert_snapshot!("debug-at", text);
    insta::assert_snapshot!("debug-at-task", at(&["--task", "gold"]));
    let version = |kernel: &str| {
        let text = well(&["run", "groups.toml", "--kernel", kernel, "--debug-at", "50ms"]);
        text.lines().find_map(|line| line.strip_prefix("version ").map(str::to_owned)).unwrap()
    };
    assert_eq!(["6.1", "6.6", "6.12", "6.18"].map(version), ["15", "15", "16", "17"]);
    // The names are the simulated kernel's.
    for (kernel, has, not) in [
        (
            "3.10",
            "sysctl_sched_latency .min_vruntime .runnable_load_avg tree-key",
            "avg_vruntime zero_vruntime base_slice",
        ),
        ("5.10", "sysctl_sched_wakeup_granularity .min_vruntime tree-key", "sysctl_sched_idle_min_granularity"),
        ("5.15", "sysctl_sched_idle_min_granularity .min_vruntime tree-key", "slice"),
        (
            "6.1",
            "sysctl_sched_idle_min_granularity .MIN_vruntime .min_vruntime .util_est_enqueued tree-key",
            "slice eligible group-path",
        ),
        (
            "6.6",
            "base_slice .left_vruntime .min_vruntime .h_nr_running .throttle_count",
            "left_deadline latency .h_nr_queued",
        ),
        (
            "6.12",
            ".left_deadline .zero_vruntime .nr_running .h_nr_runnable .h_nr_queued .h_nr_delayed .idle_h_nr_running .throttled",
            "min_vruntime .h_nr_running util_est_enqueued",
        ),
        ("6.18", ".zero_vruntime .h_nr_runnable .h_nr_queued .h_nr_idle .throttled", "min_vruntime .h_nr_running"),
    ] {
        let text = well(&["run", "groups.toml", "--kernel", kernel, "--debug-at", "50ms"]);
        assert!(has.split(' ').all(|name| text.contains(name)), "{kernel}: {text}");
        assert!(not.split(' ').all(|name| !text.contains(name)), "{kernel}: {text}");
    }
    let task = |kernel| well(&["run", "groups.toml", "--kernel", kernel, "--debug-at", "50ms", "--task", "gold"]);
    let stats = "wait_start sleep_start block_start sleep_max block_max wait_max wait_sum wait_count iowait_sum iowait_count \
                 nr_migrations_cold nr_failed_migrations_affine nr_failed_migrations_running nr_failed_migrations_hot \
                 nr_forced_migrations nr_wakeups nr_wakeups_sync nr_wakeups_migrate nr_wakeups_local nr_wakeups_remote \
                 nr_wakeups_affine nr_wakeups_affine_attempts nr_wakeups_passive nr_wakeups_idle";
    for (kernel, prefix) in [("3.10", "se.statistics."), ("6.1", ""), ("6.18", "")] {
        let text = task(kernel);
        let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
        let printed: Vec<&str> = names.filter_map(|name| name.strip_prefix(prefix)).collect();
        let mut wanted = stats.split(' ').peekable();
        for name in printed {
            wanted.next_if_eq(&name);
        }
        assert_eq!(wanted.next(), None, "{kernel}, in this order: {text}");
        assert_eq!(text.contains("sum_block_runtime"), kernel != "3.10");
    }
    let task = task("6.1");
    assert!(task.contains("se.avg.util_est.ewma") && !task.contains("se.slice"), "{task}");
    let late = fails(&[&run[..], &["--debug-at", "2s"]].concat());
    assert!(
        late.contains("the run ends at 0.1 s, and --debug-at 2s is not before its end") && late.contains("--duration"),
        "{late}"
    );
    let unknown = fails(&[&run[..], &["--debug-at", "50ms", "--task", "silver"]].concat());
    assert!(unknown.contains("no task `silver`") && unknown.contains("gold, iron"), "{unknown}");
}

#[test]
fn repeats_in_parallel_are_the_runs_alone() {
    let arguments = ["run", "beat.json", "--machine", "2", "--json"];
    let together: Vec<&str> = arguments.iter().copied().chain(["--seed", "5", "--repeat", "4"]).collect();
    let all = json(&together);
    let mut seen = Vec::new();
    for index in 0..4 {
        let seed = (5 + index).to_string();
        let alone: Vec<&str> = arguments.iter().copied().chain(["--seed", seed.as_str()]).collect();
        assert_eq!(all["observed"][index]["digest"], digest(&alone, 0), "seed {seed}");
        seen.push(digest(&alone, 0));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "another seed is another run");
}

#[test]
fn out_leaves_results_traces_and_digest() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let printed = well(&["run", "beat.json", "--machine", "2", "--repeat", "2", "--out", out]);
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(!read("trace.perfetto-trace").is_empty());
    let trace = text(&read("trace.txt"));
    assert!(trace.starts_with("cpus=2\n") && trace.contains("sched_switch"), "{trace:.200}");
    let digests = text(&read("digest"));
    assert_eq!(digests.lines().count(), 2);
    assert!(digests.lines().all(|line| printed.contains(line)), "{digests} in {printed}");
    let results: serde_json::Value = serde_json::from_slice(&read("results.json")).unwrap();
    assert_eq!(results["observed"].as_array().map(Vec::len), Some(2));
    // Observing a run does not change it.
    assert_eq!(results["observed"][0]["digest"], digest(&["run", "beat.json", "--machine", "2", "--json"], 0));
}

#[test]
fn standard_input_is_read_for_a_dash() {
    let mut command = Command::cargo_bin("vruntime").unwrap();
    let input = fs::read(data("beat.json")).unwrap();
    let output = command.args(["run", "-", "--machine", "2", "--json"]).write_stdin(input).output().unwrap();
    let piped: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(piped["name"], "stdin");
    assert_eq!(piped["observed"][0]["digest"], digest(&["run", "beat.json", "--machine", "2", "--json"], 0));
}

#[test]
fn autogroups_of_a_file_can_be_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sessions.toml");
    let text = "autogroup = true\nmachine = \"1\"\nduration = \"50ms\"\n[[task]]\nname = \"a\"\nrun = \"1ms\"\n";
    fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let autogroup = |more: &[&str]| json(&[&["run", &file, "--json"], more].concat())["autogroup"].clone();
    assert_eq!(autogroup(&[]), true);
    assert_eq!(autogroup(&["--no-autogroup"]), false);
    assert!(fails(&["run", &file, "--autogroup", "--no-autogroup"]).contains("cannot be used with"));
}

#[test]
fn rtapp_logs_are_a_file_a_task_and_a_row_a_loop() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs");
    let path = logs.to_str().unwrap();
    let exact = ["--machine", "1", "--costs", "zero", "--seed", "0", "--rtapp-log", path];
    well(&[&["run", "logged.json"], exact.as_slice()].concat());
    let names = || {
        let names = fs::read_dir(&logs).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["run-child-2.log", "run-late-1.log", "run-timer-0.log"]);
    let log = |name: &str| fs::read_to_string(logs.join(name)).unwrap();
    insta::assert_snapshot!(
        "rtapp-logs",
        [log("run-timer-0.log"), log("run-late-1.log"), log("run-child-2.log")].concat()
    );
    let file = logs.join("run-timer-0.log");
    let message = fails(&["run", "logged.json", "--rtapp-log", file.to_str().unwrap()]);
    assert!(message.contains("cannot write in") && message.contains("--rtapp-log"), "{message}");
    // Another run in the same folder leaves only its own logs, and what vruntime did not write.
    fs::write(logs.join("mine-a-0.log"), "").unwrap();
    let other = folder.path().join("other.json");
    fs::write(&other, r#"{"tasks": {"other": {"run": 1000, "loop": 1}}}"#).unwrap();
    well(&["run", other.to_str().unwrap(), "--rtapp-log", path]);
    assert_eq!(names(), ["mine-a-0.log", "rt-app-other-0.log"]);
}

/// Unknown names are errors before the run.
#[test]
fn unknown_names_are_errors_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, out, logs) = (path("a.json"), path("out"), path("logs"));
    let long = "b".repeat(300);
    fs::write(&file, format!(r#"{{"tasks": {{"a{long}": {{"run": 1000, "loop": 10}}}}}}"#)).unwrap();
    for (arguments, expected) in [
        (["--analyse", "critical-path:web"], "there is no task with the name or pid `web`"),
        (["--rtapp-log", &logs], "the name of a log has 314 bytes, more than 255"),
    ] {
        let message = fails(&[&["run", &file, "--out", &out][..], &arguments].concat());
        assert!(message.split_whitespace().collect::<Vec<_>>().join(" ").contains(expected), "{message}");
    }
    let written = fs::read_dir(&out).map_or(0, |entries| entries.flatten().count());
    assert_eq!(written, 0, "no run has left anything");
}

/// The results are printed although the trace cannot be written, as on a full disk.
#[test]
#[cfg(target_os = "linux")]
fn a_trace_that_cannot_be_written_takes_no_results_along() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    std::os::unix::fs::symlink("/dev/full", out.join("trace.txt")).unwrap();
    let output = vruntime(&["run", "logged.json", "--out", out.to_str().unwrap()]);
    let (printed, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(printed.contains("digest") && !printed.contains("results and traces are in"), "{printed}");
    assert!(stderr.contains("cannot write") && stderr.contains("out/trace.txt"), "{stderr}");
}

/// Tables that only an earlier run had are removed.
#[test]
fn tables_of_an_earlier_run_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, there) = (folder.path().to_str().unwrap(), |name: &str| folder.path().join(name).exists());
    fs::write(folder.path().join("mine.csv"), "").unwrap();
    well(&["run", "logged.json", "--tables", path, "--analyse", "latency"]);
    assert!(there("latency.csv") && there("classes.csv"));
    well(&["run", "logged.json", "--tables", path]);
    assert!(!there("latency.csv") && there("classes.csv"));
    well(&["run", "logged.json", "--tables", path, "--format", "json"]);
    assert!(!there("classes.csv") && there("classes.json") && there("mine.csv"), "also in another format");
    // Tables of another command stay, with a note.
    let output = vruntime(&["compare", "logged.json", "--kernel", "6.1", "--kernel", "6.12", "--tables", path]);
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(there("classes.json") && there("comparison.csv"), "{notes}");
    assert!(notes.contains("tables of an earlier `vruntime run` stay there"), "{notes}");
}

/// A note reports shares that still move when the run ends: as text, in JSON, on the page and in a table.
#[test]
fn shares_that_have_not_settled_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, page, tables) = (path("hogs.toml"), path("page.html"), path("tables"));
    let group = |name: &str, weight: u32| {
        format!(
            "[groups.'/{name}']\nweight = {weight}\n[[task]]\nname = '{name}'\ninstance = 64\ngroup = '/{name}'\nrun = '1ms'\n"
        )
    };
    let head = "kernel = '6.12'\nmachine = 'core:64'\nduration = '5s'\n";
    fs::write(&file, [head, &group("big", 2500), &group("small", 100)].concat()).unwrap();
    let output = vruntime(&["run", &file, "--json", "--html", &page, "--tables", &tables]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let notes = format!("{}", json["observed"][0]["notes"]);
    let of_table = fs::read_to_string(folder.path().join("tables/notes.csv")).unwrap();
    for notes_text in [text(&output.stderr), notes, fs::read_to_string(&page).unwrap(), of_table] {
        let notes_text = notes_text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(notes_text.contains("shares still changed at the end of the run"), "{notes_text}");
    }
    assert!(!text(&vruntime(&["run", &file, "--duration", "300s"]).stderr).contains("had not settled"));
}

#[test]
fn a_virtual_machine_is_reported_with_its_host() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let file = |name: &str, host: &str| {
        let text = format!(
            "duration = \"10ms\"\n[machine]\ntopology = \"2\"\n{host}\n[[task]]\nname = \"a\"\nrun = \"1ms\"\n"
        );
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder"))
            .and_then(|()| fs::write(&path, text))
            .expect("it can be written");
        path.display().to_string()
    };
    let (alone, crowded) = (file("alone/vm.toml", ""), file("crowded/vm.toml", "host_cpus = 1"));
    assert!(well(&["run", &crowded]).starts_with("vm under Linux 6.12 on 2 CPUs on a host of 1 CPU\n"));
    assert!(well(&["run", &alone]).starts_with("vm under Linux 6.12 on 2 CPUs\n"));
    assert_eq!(json(&["run", &crowded, "--json"])["host_cpus"], 1);
    assert!(json(&["run", &alone, "--json"])["host_cpus"].is_null());
    let compared = well(&["compare", &alone, &crowded]);
    assert!(compared.starts_with("alone/vm, no host: alone/vm under Linux 6.12 on 2 CPUs, "), "{compared}");
    let crowded = "\ncrowded/vm, a host of 1 CPU: crowded/vm under Linux 6.12 on 2 CPUs on a host of 1 CPU, ";
    assert!(compared.contains(crowded), "{compared}");
}

#[test]
fn whether_tasks_are_there_before_is_reported_and_can_be_chosen() {
    let recording = "../../../../fidelity/ground-truth/linux-6.12/group-waker.json";
    let run = |more: &[&str]| json(&[&["run", recording, "--json", "--duration", "100ms"][..], more].concat());
    let (gated, forked) = (run(&[]), run(&["--no-gate"]));
    assert_eq!((&gated["gate"], &forked["gate"]), (&true.into(), &false.into()));
    assert_ne!(gated["observed"][0]["digest"], forked["observed"][0]["digest"]);
    assert_eq!(json(&["run", "beat.json", "--machine", "2", "--json"])["gate"], false);
    assert_eq!(json(&["run", "beat.json", "--machine", "2", "--json", "--gate"])["gate"], true);
    assert!(text(&vruntime(&["run", "beat.json", "--gate", "--no-gate"]).stderr).contains("cannot be used with"));
}

#[test]
fn the_kernels_files_can_be_read_in_the_last_nanosecond() {
    let text = well(&["run", "beat.json", "--duration", "100ms", "--debug-at", "99999999ns"]);
    assert!(text.starts_with("Sched Debug Version"), "{text}");
    let late = fails(&["run", "beat.json", "--duration", "100ms", "--debug-at", "100ms"]);
    assert!(late.contains("--debug-at"), "{late}");
}

/// A pod with less than it requests: no timer is late, and every round takes longer than its period.
#[test]
fn response_times_are_reported_of_tasks_that_work_in_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pod.toml");
    let pod = |period: &str| {
        format!(
            "machine = \"4\"\nduration = \"2s\"\n[groups.\"/pod\"]\nmax = \"500m\"\n[[task]]\nname = \"web\"\n\
             instance = 4\ngroup = \"/pod\"\nrun = \"20ms\"\nperiod = \"{period}\"\n"
        )
    };
    fs::write(&file, pod("100ms")).unwrap();
    let file = file.to_str().unwrap();
    let run = json(&["run", file, "--target", "150ms", "--json"]);
    let web = &run["observed"][0]["classes"]["web"];
    let response = |of: &serde_json::Value, key: &str| of["response_ns"][key].as_f64().expect("a number");
    assert!(web["wakeup_latency_ns"]["p99"].as_f64().unwrap() < 100e3, "{web}");
    assert!(response(web, "p50") > 200e6 && response(web, "p99") > response(web, "p90"), "{web}");
    assert_eq!(web["response_ns"]["target"], 150_000_000);
    assert!((0.7..1.0).contains(&response(web, "above_target")), "{web}");
    assert!(run["observed"][0]["tasks"]["web-3"]["response_ns"]["count"].as_u64().unwrap() > 5, "{web}");
    let table = well(&["run", file, "--target", "150ms"]);
    let head = table.lines().find(|line| line.contains("response p50")).expect("a table of them");
    assert!(head.contains("rounds") && head.contains("p90") && head.contains("above 150 ms %"), "{table}");
    let compared = well(&["compare", file, "--map", "cgroup=/pod: max=1", "--target", "150ms"]);
    for row in ["response p50", "response p99", "response max", "above target %"] {
        assert!(compared.contains(row), "{row}: {compared}");
    }
    let page = folder.path().join("page.html");
    well(&["run", file, "--html", page.to_str().unwrap()]);
    assert!(fs::read_to_string(page).unwrap().contains(r#""Response","head":"p99""#));
}

/// CPUs have the capacities in a file of lstopo, and a note names what the simulator ignores.
#[test]
fn what_an_lstopo_file_has_and_is_not_simulated_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("machine.xml");
    let text = "<topology version=\"3.0\"><object type=\"Machine\"><object type=\"Core\"><object type=\"PU\" os_index=\"0\"/></object>\
        <object type=\"Core\"><object type=\"PU\" os_index=\"2\"/></object><object type=\"PCIDev\"/></object>\
        <cpukind cpuset=\"0x00000001\"><info name=\"LinuxCapacity\" value=\"512\"/></cpukind></topology>";
    fs::write(&file, text).unwrap();
    let output = vruntime(&["run", "beat.json", "--machine", file.to_str().unwrap(), "--json"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("the file has the CPUs 0,2") && stderr.contains("1 PCIDev"), "{stderr}");
    let machine = json(&["machines", file.to_str().unwrap(), "--json"]);
    assert!(machine.to_string().contains("512"), "{machine}");
    let drawn = vruntime(&["machines", file.to_str().unwrap()]);
    let stderr = String::from_utf8_lossy(&drawn.stderr);
    assert!(stderr.contains("the file has the CPUs 0,2") && stderr.contains("1 PCIDev"), "{stderr}");
}

#[test]
fn one_kernel_is_shown_alone() {
    let alone = well(&["kernels", "6.12"]);
    assert_eq!(alone, well(&["kernels", "--features", "6.12"]));
    assert!(alone.starts_with("Linux 6.12, EEVDF: ") && alone.contains("RUN_TO_PARITY"), "{alone}");
    assert_eq!(json(&["kernels", "6.12", "--json"])["kernel"], "6.12");
    assert!(well(&["run", "beat.json", "--preempt", "full"]).contains(" Hz, preempt full, costs"));
}

/// `--every` has a row for each interval, in the table, in JSON and in a file.
#[test]
fn a_time_series_has_each_interval() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let of = ["run", "../../../../scenarios/limits/shop.toml", "--duration", "1100ms", "--every", "250ms"];
    let text = well(&[&of[..], &["--tables", out]].concat());
    assert!(text.contains("Over time, seed 1:"), "{text}");
    let csv = fs::read_to_string(folder.path().join("series.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 5, "{csv}");
    let json = json(&[&of[..], &["--json"]].concat());
    let rows = json["observed"][0]["series"].as_array().expect("a list");
    assert_eq!((rows.len(), rows[4]["width_ns"].as_u64()), (5, Some(100_000_000)));
    let busy = rows[1]["utilisation"].as_f64().unwrap();
    assert!((0.1..=1.0).contains(&busy), "{busy}");
}

/// A real kernel refuses the third, and the task continues. With `--strict` the run ends.
#[test]
fn a_refused_policy_is_a_note_and_with_strict_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dl.toml");
    let text = "machine = \"1\"\nduration = \"100ms\"\n[[task]]\nname = \"d\"\ninstance = 2\n\
                policy = \"deadline:60ms/100ms/100ms\"\n";
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let run = json(&["run", file, "--json"]);
    let notes = run["observed"][0]["notes"].to_string();
    assert!(notes.contains("EBUSY") && notes.contains("the kernel refused the call"), "{notes}");
    let tasks = &run["observed"][0]["tasks"];
    let policy = |task: &str| tasks[task]["policy"].as_str();
    assert_eq!((policy("d-0"), policy("d-1")), (Some("SCHED_OTHER"), Some("SCHED_DEADLINE")));
    assert!(fails(&["run", file, "--strict"]).contains("not admitted"));
}
