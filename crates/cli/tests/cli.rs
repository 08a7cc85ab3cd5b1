//! The command as users meet it: what it prints, where, and how it ends.

#[path = "../../../tests/skip.rs"]
mod skip;
mod support;

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use support::*;

fn digest(arguments: &[&str], run: usize) -> String {
    json(arguments)["observed"][run]["digest"].as_str().expect("a digest is text").to_owned()
}

/// Of the command, and of every one that its help names, and of those that theirs name.
#[test]
fn help_of_every_command() {
    let (mut asked, mut names) = (vec![Vec::new()], Vec::new());
    while let Some(command) = asked.pop() {
        let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let help = well(&arguments);
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        let name = command.join("-");
        insta::assert_snapshot!(format!("help-{name}"), help);
        names.push(name);
        let listed = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
        for line in listed.lines().take_while(|line| !line.is_empty()) {
            // What a command is for may need more lines than one.
            let word = line
                .strip_prefix("  ")
                .and_then(|line| line.split_whitespace().next().filter(|_| !line.starts_with(' ')));
            if let Some(word) = word.filter(|word| *word != "help") {
                asked.push([&command[..], &[word.to_owned()]].concat());
            }
        }
    }
    names.sort();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let kept = fs::read_dir(folder).expect("there are snapshots").flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        Some(name.strip_prefix("cli__help-")?.strip_suffix(".snap")?.to_owned())
    });
    let mut kept: Vec<String> = kept.collect();
    kept.sort();
    assert_eq!(names, kept, "a snapshot for each");
}

#[test]
fn a_run_without_costs_or_jitter_is_what_the_file_says() {
    let table = well(&["run", "beat.json", "--machine", "2", "--costs", "zero", "--seed", "0", "--kernel", "6.12"]);
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let run = json(&["run", "beat.json", "--machine", "2", "--costs", "zero", "--seed", "0", "--json"]);
    assert_eq!((&run["name"], &run["kernel"], &run["cpus"]), (&"beat".into(), &"6.12".into(), &2.into()));
    let tasks = &run["observed"][0]["tasks"];
    assert_eq!(tasks["beat-0"]["cpu_s"], 0.02);
    assert_eq!(tasks["beat-1"]["loops"], 10);
    assert_eq!(tasks["hog"]["cpu_s"], 0.05);
    assert_eq!(tasks["hog"]["run_delay_s"], 0.0);
    assert!(tasks["hog"]["wakeup_latency_us"].is_null());
    assert!(tasks["beat-0"]["wakeup_latency_us"]["p99"].is_number());
}

#[test]
fn the_fields_are_those_of_the_recordings() {
    let recording = fs::read(data("../../../../fidelity/ground-truth/linux-6.12/group-waker.json")).unwrap();
    let recording: serde_json::Value = serde_json::from_slice(&recording).unwrap();
    let run = json(&["run", "../../../../fidelity/ground-truth/linux-6.12/group-waker.json", "--json"]);
    let (ours, theirs) = (&run["observed"][0]["tasks"], &recording["observed"][0]["tasks"]);
    for (name, task) in theirs.as_object().unwrap() {
        for (field, value) in task.as_object().unwrap() {
            let simulated = &ours[name][field];
            assert_eq!(simulated.is_null(), value.is_null(), "{name} {field}: {simulated} for {value}");
            for percentile in value.as_object().into_iter().flat_map(|fields| fields.keys()) {
                assert!(simulated[percentile].is_number(), "{name} {field} {percentile}");
            }
        }
    }
    for field in ["name", "kernel", "hz", "preempt", "autogroup", "gate", "cpus", "topology", "duration_s"] {
        assert!(!run[field].is_null(), "{field}");
    }
    assert_eq!((&run["hz"], &run["preempt"], &run["autogroup"]), (&250.into(), &"voluntary".into(), &true.into()));
    assert_eq!(run["emulated"], recording["emulated"]);
}

#[test]
fn groups_get_what_they_are_entitled_to() {
    let run = json(&["run", "groups.toml", "--kernel", "6.12", "--json"]);
    let groups = &run["observed"][0]["groups"];
    let got = |group: &str, field: &str| groups[group][field].as_f64().unwrap();
    assert!((got("gold", "entitled_s") - 0.15).abs() < 1e-6, "{groups}");
    assert!((got("gold", "cpu_s") - 0.15).abs() < 0.005, "{groups}");
    assert!((got("iron", "cpu_s") - 0.05).abs() < 0.005, "{groups}");
}

/// The kernel's files at an instant; looking changes nothing.
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
    assert!(late.contains("the run ended at 0.1 s, before --debug-at 2s") && late.contains("--duration"), "{late}");
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
fn comparisons_tell_what_differs() {
    let table = well(&["compare", "groups.toml", "--repeat", "2"]);
    assert!(table.contains("6.1 ") && table.contains("6.12"), "{table}");
    assert!(table.contains("stands out"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let machines = json(&["compare", "beat.json", "--machine", "2", "--machine", "pack:2 core:2", "--json"]);
    assert_eq!(machines["variants"], serde_json::json!(["2", "pack:2 core:2"]));
    let features =
        json(&["compare", "groups.toml", "--kernel", "6.12", "--kernel", "6.12+base_slice_ns=9000000", "--json"]);
    assert_eq!(features["variants"][1], "6.12+base_slice_ns=9000000");
    let files = json(&["compare", "beat.json", "groups.toml", "--kernel", "6.6", "--machine", "2", "--json"]);
    assert_eq!(files["variants"], serde_json::json!(["beat", "groups"]));
}

/// Every kernel only ever runs tasks that have been woken, on the busiest workload we ship.
#[test]
fn nobody_runs_asleep() {
    let demo = data("../../../../scenarios/demo/demo.toml");
    let folder = tempfile::tempdir().unwrap();
    // Kernels before groups run it without them.
    let without = folder.path().join("demo.toml");
    let kept = |line: &&str| !["[groups.", "weight = ", "group = "].iter().any(|start| line.starts_with(start));
    let beside = format!("rtapp = \"{}/", demo.parent().unwrap().display());
    let text = fs::read_to_string(&demo).unwrap().replace("rtapp = \"", &beside);
    fs::write(&without, text.lines().filter(kept).collect::<Vec<&str>>().join("\n")).unwrap();
    let kernels: Vec<&str> = vruntime_sched::kernels::kernels().iter().map(|kernel| kernel.name).collect();
    assert!(kernels.contains(&"2.6.15") && kernels.contains(&"6.18"), "{kernels:?}");
    for kernel in kernels {
        let demo = if kernel.starts_with("2.6.") { &without } else { &demo };
        let run = json(&["run", demo.to_str().unwrap(), "--kernel", kernel, "--repeat", "3", "--json"]);
        for observed in run["observed"].as_array().unwrap() {
            assert_eq!(observed["machine"]["unexplained_switches"], 0, "{kernel}, seed {}", observed["seed"]);
            assert_eq!(observed["notes"], serde_json::json!([]), "{kernel}, seed {}", observed["seed"]);
        }
    }
}

/// The kernels before groups run what they can, look as they are looked at, and refuse the rest with the kernel that brought it.
#[test]
fn kernels_before_groups() {
    let history = "../../../../scenarios/history/interactive.toml";
    let run = ["run", history, "--duration", "3s", "--kernel"];
    for (kernel, version) in [("2.6.15", "12"), ("2.6.22", "14"), ("2.6.23", "14")] {
        let json = json(&[&run[..], &[kernel, "--json"]].concat());
        assert_eq!(json["observed"][0]["machine"]["unexplained_switches"], 0, "{kernel}");
        let text = well(&[&run[..], &[kernel, "--debug-at", "2s"]].concat());
        assert!(text.contains(&format!("\nversion {version}\n")), "{kernel}: {text}");
        let refused = fails(&["run", "groups.toml", "--kernel", kernel]);
        assert!(refused.contains("task group") && refused.contains("2.6.24"), "{kernel}: {refused}");
    }
    let table = well(&["compare", history, "--duration", "3s"]);
    assert!(table.contains("2.6.15") && table.contains("6.12"), "{table}");
    let old = well(&["kernels", "--features", "2.6.15"]);
    assert!(old.contains("no features to switch") && !old.contains("RUN_TO_PARITY"), "{old}");
    let first = well(&["kernels", "--features", "2.6.23"]);
    assert!(first.contains("SLEEPER_LOAD_AVG") && first.contains("sched_granularity_ns"), "{first}");
    assert!(!first.contains("fair_server") && first.contains("sched_wakeup_granularity_ns"), "{first}");
}

#[test]
fn a_comparison_leaves_a_folder_for_each_side() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    well(&["compare", "groups.toml", "--out", out]);
    for side in ["6.1", "6.12"] {
        for file in ["results.json", "trace.perfetto-trace", "trace.txt", "digest"] {
            assert!(folder.path().join(side).join(file).is_file(), "{side}/{file}");
        }
    }
    assert!(folder.path().join("comparison.json").is_file());
}

#[test]
fn files_of_one_name_have_columns_and_folders_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before", "after"].map(|side| {
        fs::create_dir(folder.path().join(side)).unwrap();
        let file = folder.path().join(side).join("app.toml");
        let count = if side == "before" { 3 } else { 4 };
        let text =
            format!("machine = \"2\"\n[[task]]\nname = \"a\"\ninstance = {count}\nrun = \"3ms\"\nsleep = \"1ms\"\n");
        fs::write(&file, text).unwrap();
        file.display().to_string()
    });
    let out = folder.path().join("out");
    let table =
        well(&["compare", &before, &after, "--kernel", "6.1", "--duration", "100ms", "--out", out.to_str().unwrap()]);
    assert!(table.contains("\nafter/app: after/app under Linux 6.1 on 2 CPUs"), "{table}");
    let head = table.lines().find(|line| line.starts_with("tasks ")).expect("a head");
    assert_eq!(head.split_whitespace().collect::<Vec<_>>(), ["tasks", "before/app", "after/app", "change"]);
    assert!(table.contains("\na x3 to 4 "), "{table}");
    assert!(out.join("before_app/digest").is_file() && out.join("after_app/digest").is_file());
    let both = well(&["compare", &before, &after, "--kernel", "6.1", "--kernel", "6.12", "--duration", "100ms"]);
    assert!(both.starts_with("before/app, 6.1: before/app under Linux 6.1 on 2 CPUs"), "{both}");
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
fn mistakes_are_told_with_a_way_to_mend_them() {
    let cases: &[(&str, &[&str])] = &[
        ("no such file", &["run", "nowhere.json"]),
        ("no such kernel", &["run", "beat.json", "--kernel", "6.13"]),
        ("no such machine", &["run", "beat.json", "--machine", "pack:2 cor:4"]),
        ("no such feature", &["run", "beat.json", "--feature", "NO_RUN_TO_PARTY"]),
        ("no such tunable", &["run", "beat.json", "--set", "base_slise_ns=1"]),
        ("no number", &["run", "beat.json", "--set", "base_slice_ns=3ms"]),
        ("no such costs", &["run", "beat.json", "--costs", "emulate"]),
        ("no such command", &["rum", "beat.json"]),
        ("no such option", &["run", "beat.json", "--kernle", "6.1"]),
        ("too small a machine", &["run", "beat.json", "--machine", "1"]),
        ("nothing to compare", &["compare", "beat.json"]),
        ("repeat nothing", &["run", "beat.json", "--repeat", "0"]),
        ("repeat less than nothing", &["run", "beat.json", "--repeat", "-1"]),
        ("bad json", &["run", "bad.json"]),
        ("bad toml", &["run", "bad.toml"]),
        ("no recordings", &["fidelity", "."]),
        ("no such scenario", &["fidelity", "--scenario", "five-on-3"]),
    ];
    for (name, arguments) in cases {
        insta::assert_snapshot!(format!("mistake-{}", name.replace(' ', "-")), fails(arguments));
    }
}

#[test]
fn warnings_are_errors_if_strict() {
    let lenient = vruntime(&["run", "trailing.json", "--machine", "1"]);
    assert!(lenient.status.success(), "{}", text(&lenient.stderr));
    assert!(fails(&["run", "trailing.json", "--machine", "1", "--strict"]).contains("trailing.json"));
}

#[test]
fn lists_of_kernels_and_machines() {
    let kernels = well(&["kernels"]);
    for kernel in ["6.1", "6.6", "6.12", "6.18"] {
        assert!(kernels.lines().any(|line| line.starts_with(&format!("{kernel} "))), "{kernels}");
        assert!(well(&["kernels", "--features", kernel]).contains("WAKEUP_PREEMPTION"));
    }
    insta::assert_snapshot!("machines", well(&["machines"]));
    insta::assert_snapshot!("machine-drawn", well(&["machines", "pack:2 core:2 pu:2"]));
}

#[test]
fn features_are_told_with_the_kernels_that_have_them() {
    let all = well(&["kernels", "--features"]);
    assert!(all.contains("GENTLE_FAIR_SLEEPERS") && all.contains("3.10 to 6.1 "), "{all}");
    let one = well(&["kernels", "--features", "6.12"]);
    assert!(one.contains("RUN_TO_PARITY") && !one.contains("GENTLE_FAIR_SLEEPERS"), "{one}");
    // Each tunable once, though it can be set by the name of its sysctl, too.
    for kernel in ["3.10", "3.12", "3.17", "3.18", "6.1"] {
        let listed = well(&["kernels", "--features", kernel]);
        assert!(
            listed.contains("\nwakeup_granularity_ns ") && !listed.contains("sched_wakeup_granularity_ns"),
            "{listed}"
        );
        assert!(!listed.contains("2.6.23:"), "{listed}");
    }
    let run = ["run", "groups.toml", "--kernel", "6.12", "--duration", "1ms", "--feature"];
    let note = |feature| text(&vruntime(&[&run[..], &[feature]].concat()).stderr);
    assert!(note("NO_GENTLE_FAIR_SLEEPERS").contains("Linux 6.12 has no GENTLE_FAIR_SLEEPERS: 3.10 to 6.1 do"));
    assert!(note("TTWU_QUEUE").contains("makes no difference here"));
    assert!(!note("NO_RUN_TO_PARITY").contains("has no"));
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(well(&["completions", shell]).contains("fidelity"), "{shell}");
    }
}

/// The example of docs/limits.md, under every kernel.
#[test]
fn limits_hold_and_are_told() {
    let file = "../../../../scenarios/limits/shop.toml";
    for kernel in ["6.1", "6.6", "6.12", "6.18"] {
        let run = json(&["run", file, "--kernel", kernel, "--json"]);
        let groups = &run["observed"][0]["groups"];
        let of = |group: &str, field: &str| groups[group][field].as_f64().unwrap_or(f64::NAN);
        let usage = |group: &str| groups[group]["cpu.stat"]["usage_usec"].as_f64().unwrap_or(f64::NAN);
        assert!((49.0..=50.0).contains(&of("shop", "nr_periods")), "{kernel} {groups}");
        assert!(of("shop", "nr_throttled") >= 48.0, "{kernel} {groups}");
        // 51 quotas of 150 ms, and what two CPUs may overrun.
        assert!(usage("shop") <= 51.0 * 150e3 + 2.0 * 9e3, "{kernel} {groups}");
        assert!(usage("shop") >= 48.0 * 150e3, "{kernel} {groups}");
        assert!(usage("shop/web") <= 51.0 * 60e3 + 30e3 + 2.0 * 9e3, "{kernel} {groups}");
        assert!(groups["shop/batch"].get("nr_periods").is_none(), "{kernel} {groups}");
        let inside = usage("shop/web") + usage("shop/batch");
        assert!((usage("shop") - inside).abs() <= 2.0, "{kernel} {groups}");
    }
    let table = well(&["run", file]);
    assert!(table.contains("limited group") && table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let trace = well(&["run", file, "--set", "sched_cfs_bandwidth_slice_us=1000"]);
    assert_ne!(trace, table);
}

/// A CPU of a virtual machine that has been idle for long takes longer to wake up, unless the machine has idle states of its own.
#[test]
fn long_idle_cpus_of_virtual_machines_wake_late() {
    let folder = tempfile::tempdir().unwrap();
    let late = |costs: &str, sleep: &str, states: &str| {
        let path = folder.path().join("sleep.toml");
        let machine = format!("[machine]\ntopology = \"1\"\n{states}");
        let task = format!("[[task]]\nname = \"a\"\nrun = \"10us\"\nsleep = \"{sleep}\"\n");
        std::fs::write(&path, format!("[scenario]\nduration = \"1s\"\n{machine}\n{task}")).unwrap();
        let run = json(&["run", path.to_str().unwrap(), "--costs", costs, "--seed", "0", "--json"]);
        run["observed"][0]["tasks"]["a"]["wakeup_latency_us"]["p50"].as_f64().unwrap()
    };
    let near = |value: f64, expected: f64| (value - expected).abs() < 2.0;
    let state = "[[machine.idle_state]]\nname = \"C1\"\nexit_latency = \"1ns\"\n";
    let shallow = late("vm", "200us", "");
    let [deep, own] = ["", state].map(|states| late("vm", "20ms", states));
    assert!(near(deep - shallow, 81.0), "{deep} us after 20 ms, {shallow} after 0.2 ms");
    assert!(near(own, shallow), "{own} us with a state of its own");
    assert!(near(late("default", "20ms", ""), late("default", "200us", "")));
}

/// The example of docs/waits.md: a herd is woken for each request, a queue's first waiter alone.
#[test]
fn a_thundering_herd_costs_what_exclusive_waiters_save() {
    let run = json(&["run", "../../../../scenarios/waits/herd.toml", "--json"]);
    let classes = &run["observed"][0]["classes"];
    let of = |class: &str, field: &str| {
        classes[class][field].as_f64().unwrap_or_else(|| panic!("{class} {field}: {classes}"))
    };
    let switches = |class| of(class, "nr_voluntary_switches");
    assert!(switches("herd") > 50.0 * switches("queue"), "{classes}");
    assert!((900.0..1000.0).contains(&of("queue", "loops")) && of("herd", "loops") > 850.0, "{classes}");
}

/// The example of docs/scenario.md: a limit that is lifted half-way, in results and traces.
#[test]
fn changes_are_made_and_told() {
    let run = json(&["run", "../../../../scenarios/limits/night.toml", "--json"]);
    let build = &run["observed"][0]["groups"]["build"];
    let cpu = build["cpu_s"].as_f64().unwrap();
    // Half a CPU for two seconds, then all that the player leaves of two.
    assert!((4.4..4.8).contains(&cpu), "{build}");
    assert_eq!(build["weight"], 500, "{build}");
    // By hand: the limit, then two CPUs less the quarter of one that the player would use.
    assert!((build["entitled_s"].as_f64().unwrap() - 4.5).abs() < 0.02, "{build}");
}

/// What a command prints that is stopped by Ctrl-C as soon as this file, one of those it leaves in a folder of its own, is long.
#[cfg(unix)]
fn stopped(args: &[&str], once: &str) -> String {
    use std::process::{Command as Process, Stdio};

    let folder = tempfile::tempdir().unwrap();
    let child = Process::new(assert_cmd::cargo::cargo_bin("vruntime"))
        .current_dir(data(""))
        .args(args)
        .arg("--out")
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once a trace is being written the run has begun, and before that the handler was installed.
    let begun = || fs::metadata(folder.path().join(once)).is_ok_and(|file| file.len() > 100_000);
    for _ in 0..600 {
        if begun() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(Process::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{printed}");
    printed
}

/// Ctrl-C stops a run that would take hours, prints what there is, and says so.
#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_there_is() {
    let printed = stopped(&["run", "forever.json", "--machine", "2", "--duration", "100000s"], "trace.txt");
    assert!(printed.contains("stopped early") && printed.contains("digest"), "{printed}");
}

/// Whoever named a pipe to which nobody writes gets away with one Ctrl-C.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_what_waits_for_its_input() {
    use std::io::Write;
    use std::process::{Command as Process, Stdio};

    let mut child = Process::new(assert_cmd::cargo::cargo_bin("vruntime"))
        .args(["run", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // More than a pipe holds: when it is written, most has been read.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&vec![b' '; 1 << 20]).unwrap();
    assert!(Process::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(stdin);
}

/// Of a comparison that is stopped, what has come to its end is compared; where a side has nothing of that kind nothing stands out.
#[cfg(unix)]
#[test]
fn ctrl_c_compares_nothing_that_is_unequally_long() {
    let sides = ["compare", "forever.json", "--machine", "2", "--kernel", "6.1", "--kernel", "6.12"];
    let printed = stopped(&[&sides[..], &["--duration", "100000s", "--repeat", "3"]].concat(), "6.1/trace.txt");
    assert!(printed.contains("stopped early") && printed.contains("What differs is not told"), "{printed}");
    assert!(!printed.contains("stands out"), "{printed}");
}

#[test]
fn rtapp_logs_are_a_file_a_task_and_a_row_a_loop() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs");
    let path = logs.to_str().unwrap();
    let exact = ["--machine", "1", "--costs", "zero", "--seed", "0", "--rtapp-log", path];
    well(&[&["run", "logged.json"], exact.as_slice()].concat());
    let mut names: Vec<String> =
        fs::read_dir(&logs).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["run-child-2.log", "run-late-1.log", "run-timer-0.log"]);
    let log = |name: &str| fs::read_to_string(logs.join(name)).unwrap();
    insta::assert_snapshot!(
        "rtapp-logs",
        [log("run-timer-0.log"), log("run-late-1.log"), log("run-child-2.log")].concat()
    );
    let file = logs.join("run-timer-0.log");
    let message = fails(&["run", "logged.json", "--rtapp-log", file.to_str().unwrap()]);
    assert!(message.contains("cannot write in") && message.contains("--rtapp-log"), "{message}");
}

/// The four bugs of "A Decade of Wasted Cores": each is told as what it is, and plain 6.12 has none of them.
#[test]
fn wasted_cores_are_detected_where_the_old_behaviour_is_on_and_nowhere_else() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/wasted-cores");
    for (name, feature, pattern) in [
        ("group-imbalance", "OLD_GROUP_AVG", "group-imbalance"),
        ("group-construction", "OLD_NUMA_GROUPS", "group-construction"),
        ("overload-on-wakeup", "OLD_WAKE_NODE", "overload-on-wakeup"),
        ("missing-domains", "OLD_LOST_DOMAINS", "missing-domains"),
    ] {
        let file = scenarios.join(format!("{name}.toml"));
        let file = file.to_str().expect("a path in UTF-8");
        let plain = ["run", "--detect", "--json", "--seed", "1", "--repeat", "10", file];
        let output = vruntime(&plain);
        assert_eq!(output.status.code(), Some(0), "{name} under 6.12: {}", text(&output.stdout));
        let output = vruntime(&[&plain[..], &["--feature", feature]].concat());
        assert_eq!(output.status.code(), Some(2), "{name} with {feature}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
        let runs = json["observed"].as_array().expect("a list of runs");
        assert_eq!(runs.len(), 10);
        for run in runs {
            let found = run["detected"]["violations"].as_array().expect("a list of violations");
            assert!(found.iter().any(|it| it["pattern"] == pattern), "{name} with {feature}: {run}");
        }
    }
}

#[test]
fn names_and_numbers_in_tables_are_whole() {
    let text = well(&["kernels", "--features", "6.12"]);
    assert!(!text.lines().any(|line| line.starts_with(' ')), "in a pipe a row is one line: {text}");
    for name in ["sched_rr_timeslice_ms ", "sched_util_clamp_min_rt_default"] {
        assert!(text.contains(name), "{text}");
    }
    assert!(text.lines().any(|line| line.starts_with("base_slice_ns") && line.ends_with("2800000")), "{text}");
}

/// On a terminal tables fit, whatever its width; `script` is one that can be had without a user.
#[cfg(target_os = "linux")]
#[test]
fn tables_fit_the_terminal() {
    let shell = |columns: u16, command: &str| {
        let program = Command::cargo_bin("vruntime").expect("cargo has built it");
        let program = program.get_program().to_string_lossy().into_owned();
        let line = format!("stty cols {columns}; {program} {command} 2>/dev/null");
        let output = std::process::Command::new("script").args(["-qec", &line, "/dev/null"]).output().ok()?;
        assert!(output.status.success(), "{line}: {}{}", text(&output.stdout), text(&output.stderr));
        Some(text(&output.stdout))
    };
    let run =
        |scenario: &str| format!("run {} --duration 100ms", data("../../../../scenarios").join(scenario).display());
    // A long name, limits, a long line above the table.
    let runs = [run("demo/demo.toml"), run("limits/shop.toml"), run("wasted-cores/overload-on-wakeup.toml")];
    let commands = [
        ("kernels --features 6.12", "base_slice_ns"),
        (&runs[0], "web/worker x12"),
        (&runs[1], "/shop/web"),
        (&runs[2], "NUMA"),
    ];
    for (columns, (command, has)) in
        [80, 100].into_iter().flat_map(|columns| commands.map(|command| (columns, command)))
    {
        let Some(text) = shell(columns, command) else {
            skip::skip("there is no `script`");
            return;
        };
        assert!(text.contains(has), "{text}");
        for line in text.lines() {
            assert!(line.trim_end().chars().count() <= usize::from(columns), "{columns}: {line}");
        }
    }
}

#[test]
fn a_virtual_machine_is_told_with_its_host() {
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
fn whether_tasks_are_there_before_is_told_and_can_be_chosen() {
    let recording = "../../../../fidelity/ground-truth/linux-6.12/group-waker.json";
    let run = |more: &[&str]| json(&[&["run", recording, "--json", "--duration", "100ms"][..], more].concat());
    let (gated, forked) = (run(&[]), run(&["--no-gate"]));
    assert_eq!((&gated["gate"], &forked["gate"]), (&true.into(), &false.into()));
    assert_ne!(gated["observed"][0]["digest"], forked["observed"][0]["digest"]);
    assert_eq!(json(&["run", "beat.json", "--machine", "2", "--json"])["gate"], false);
    assert_eq!(json(&["run", "beat.json", "--machine", "2", "--json", "--gate"])["gate"], true);
    assert!(text(&vruntime(&["run", "beat.json", "--gate", "--no-gate"]).stderr).contains("cannot be used with"));
}

/// What several runs have to say is said once, though it did not happen at the same time in each.
#[test]
fn notes_are_told_once() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path().join("waits.toml");
    let text_of =
        "duration = \"20ms\"\n[[task]]\nname = \"a\"\nsteps = [{ run = \"1ms\" }, { wait_event = \"never\" }]\n";
    fs::write(&path, text_of).expect("it can be written");
    let path = path.display().to_string();
    let kernels = ["--kernel", "6.1", "--kernel", "6.12", "--feature", "LAST_BUDDY"];
    let two = ["compare", &path, "--machine", "1", "--machine", "2", "--repeat", "3"];
    let output = vruntime(&[&two[..], &kernels].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    let waits = told.lines().filter(|line| line.contains("task `a` waits for")).count();
    assert_eq!(waits, 1, "{told}");
    assert_eq!(told.lines().filter(|line| line.contains("6.12 has no LAST_BUDDY")).count(), 1, "{told}");
}

#[test]
fn the_kernels_files_can_be_read_in_the_last_nanosecond() {
    let text = well(&["run", "beat.json", "--duration", "100ms", "--debug-at", "99999999ns"]);
    assert!(text.starts_with("Sched Debug Version"), "{text}");
    let late = fails(&["run", "beat.json", "--duration", "100ms", "--debug-at", "100ms"]);
    assert!(late.contains("--debug-at"), "{late}");
}

#[test]
fn kernels_without_lazy_preemption_say_so() {
    let of = |kernel| {
        json(&["run", "beat.json", "--kernel", kernel, "--preempt", "lazy", "--json"])["observed"][0]["notes"]
            .to_string()
    };
    assert!(of("6.12").contains("lazy preemption came with 6.13"), "{}", of("6.12"));
    assert!(!of("6.18").contains("lazy"), "{}", of("6.18"));
}
