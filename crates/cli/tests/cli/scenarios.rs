//! What the shipped and the documented scenarios show, under all kernels.

use std::fs;
use std::path::Path;

use crate::support::*;

/// On the busiest shipped workload, every kernel runs only woken tasks.
#[test]
fn no_sleeping_task_runs() {
    let demo = data("../../../../scenarios/demo/demo.toml");
    let folder = tempfile::tempdir().unwrap();
    // Kernels without task groups run the scenario without groups.
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
            let notes = observed["notes"].as_array().unwrap().iter().filter_map(serde_json::Value::as_str);
            let notes: Vec<&str> = notes.filter(|note| !note.starts_with("Not verified for ")).collect();
            assert_eq!(notes, [""; 0], "{kernel}, seed {}", observed["seed"]);
        }
    }
}

/// Kernels without task groups run what they support. Other errors name the first kernel that supports the request.
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

/// The example of docs/limits.md, under every kernel.
#[test]
fn limits_hold_and_are_reported() {
    let file = "../../../../scenarios/limits/shop.toml";
    for kernel in ["6.1", "6.6", "6.12", "6.18"] {
        let run = json(&["run", file, "--kernel", kernel, "--json"]);
        let groups = &run["observed"][0]["groups"];
        let of = |group: &str, field: &str| groups[&format!("/{group}")][field].as_f64().unwrap_or(f64::NAN);
        let usage = |group: &str| groups[&format!("/{group}")]["cpu.stat"]["usage_usec"].as_f64().unwrap_or(f64::NAN);
        assert!((49.0..=50.0).contains(&of("shop", "nr_periods")), "{kernel} {groups}");
        assert!(of("shop", "nr_throttled") >= 48.0, "{kernel} {groups}");
        // 51 quotas of 150 ms, and what two CPUs may overrun.
        assert!(usage("shop") <= 51.0 * 150e3 + 2.0 * 9e3, "{kernel} {groups}");
        assert!(usage("shop") >= 48.0 * 150e3, "{kernel} {groups}");
        assert!(usage("shop/web") <= 51.0 * 60e3 + 30e3 + 2.0 * 9e3, "{kernel} {groups}");
        assert!(groups["/shop/batch"].get("nr_periods").is_none(), "{kernel} {groups}");
        let inside = usage("shop/web") + usage("shop/batch");
        assert!((usage("shop") - inside).abs() <= 2.0, "{kernel} {groups}");
    }
    let table = well(&["run", file]);
    let mut rows = table.lines().filter(|line| !line.starts_with("Group `"));
    assert!(table.contains("limited group") && rows.all(|line| line.chars().count() <= 100), "{table}");
    let named = "its CPU limit of 1.5 CPUs (150 ms in each 100 ms) allows: it was throttled in 49 of 50 periods.";
    assert!(table.contains(named), "{table}");
    let trace = well(&["run", file, "--set", "sched_cfs_bandwidth_slice_us=1000"]);
    assert_ne!(trace, table);
}

/// A virtual CPU that has been idle for long wakes up more slowly, unless the machine has its own idle states.
#[test]
fn long_idle_cpus_of_virtual_machines_wake_late() {
    let folder = tempfile::tempdir().unwrap();
    let late = |costs: &str, sleep: &str, states: &str| {
        let path = folder.path().join("sleep.toml");
        let machine = format!("[machine]\ntopology = \"1\"\n{states}");
        let task = format!("[[task]]\nname = \"a\"\nrun = \"10us\"\nsleep = \"{sleep}\"\n");
        std::fs::write(&path, format!("[scenario]\nduration = \"1s\"\n{machine}\n{task}")).unwrap();
        let run = json(&["run", path.to_str().unwrap(), "--costs", costs, "--seed", "0", "--json"]);
        run["observed"][0]["tasks"]["a"]["wakeup_latency_ns"]["p50"].as_f64().unwrap() / 1e3
    };
    let near = |value: f64, expected: f64| (value - expected).abs() < 2.0;
    let state = "[[machine.idle_state]]\nname = \"C1\"\nexit_latency = \"1ns\"\n";
    let shallow = late("vm", "200us", "");
    let [deep, own] = ["", state].map(|states| late("vm", "20ms", states));
    assert!(near(deep - shallow, 81.0), "{deep} us after 20 ms, {shallow} after 0.2 ms");
    assert!(near(own, shallow), "{own} us with a state of its own");
    assert!(near(late("default", "20ms", ""), late("default", "200us", "")));
}

/// The example of docs/waits.md: each request wakes a herd, or a queue's first waiter only.
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

/// The example of docs/scenario.md: a limit is lifted half-way. Results and traces show it.
#[test]
fn changes_are_made_and_reported() {
    let run = json(&["run", "../../../../scenarios/limits/night.toml", "--json"]);
    let build = &run["observed"][0]["groups"]["/build"];
    let cpu = build["cpu_ns"].as_f64().unwrap() / 1e9;
    // Half a CPU for two seconds, then all that the player leaves of two.
    assert!((4.4..4.8).contains(&cpu), "{build}");
    assert_eq!(build["weight"], 500, "{build}");
    // By hand: the limit, then two CPUs less the quarter of one that the player would use.
    assert!((build["entitled_ns"].as_f64().unwrap() / 1e9 - 4.5).abs() < 0.02, "{build}");
}

/// The four bugs of "A Decade of Wasted Cores": each is reported by its kind, and plain 6.12 has none. The waste equals
/// that in docs/work-conservation.md.
#[test]
fn wasted_cores_are_detected_where_the_old_behaviour_is_on_and_nowhere_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scenarios = root.join("scenarios/wasted-cores");
    let page = fs::read_to_string(root.join("docs/work-conservation.md")).unwrap();
    // In the worst window of all seeds, and of all that was found the pattern.
    let worst = |output: &[u8], pattern: &str| {
        let json: serde_json::Value = serde_json::from_slice(output).expect("it prints JSON");
        let runs = json["observed"].as_array().expect("a list of runs");
        assert_eq!(runs.len(), 10);
        let mut worst = 0.0;
        for run in runs {
            let detected = &run["detected"];
            let found = detected["violations"].as_array().expect("a list of violations");
            assert!(found.iter().all(|it| it["pattern"] == pattern), "{pattern}: {run}");
            worst = f64::max(worst, detected["wasted_cpus"].as_f64().expect("a number"));
        }
        worst
    };
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
        let without = worst(&output.stdout, pattern);
        let output = vruntime(&[&plain[..], &["--feature", feature]].concat());
        assert_eq!(output.status.code(), Some(2), "{name} with {feature}");
        let with = worst(&output.stdout, pattern);
        let row = page.lines().find(|line| line.contains(&format!("| `{name}` |"))).expect("it is in the table");
        let figures = format!(" | {with:.1} | {without:.1} |");
        assert!(row.ends_with(&figures), "docs/work-conservation.md has\n{row}\nand not{figures}");
    }
}
