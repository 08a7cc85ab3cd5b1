//! `--map` of `vruntime run` and `compare`: other attributes for a file's tasks and groups.

use std::fs;

#[path = "support/mod.rs"]
mod support;

use support::{fails, json, text, vruntime, well};

/// Thousandths of CPU time of a class of tasks in the only run.
fn permille(arguments: &[&str], class: &str) -> u64 {
    let json = json(&[arguments, &["--json"]].concat());
    let cpu_ns = json["observed"][0]["classes"][class]["cpu_ns"].as_f64().expect("a number");
    (cpu_ns / json["duration_ns"].as_f64().expect("a number") * 1000.0).round() as u64
}

const RUN: [&str; 2] = ["run", "groups.toml"];

#[test]
fn a_group_of_a_scenario_is_changed_from_the_command_line() {
    let shares = |map: &[&str]| {
        let arguments = [&RUN[..], map].concat();
        [permille(&arguments, "gold"), permille(&arguments, "iron")]
    };
    let near = |shares: [u64; 2], expected: [u64; 2]| {
        assert!(
            shares.iter().zip(expected).all(|(share, of)| share.abs_diff(of) <= 30),
            "{shares:?}, not {expected:?}"
        );
    };
    near(shares(&[]), [750, 250]);
    near(shares(&["--map", "cgroup=/iron: weight=300"]), [500, 500]);
    near(shares(&["--map", "cgroup=/iron: weight=300", "--map", "cgroup=/gold: max=10ms/100ms"]), [100, 900]);
    near(shares(&["--map", "cgroup=/*: weight=100"]), [500, 500]);
    near(shares(&["--map", "iron: group=/new weight=600"]), [333, 667]);
    near(shares(&["--map", "gold: policy=idle group=/iron"]), [3, 997]);
    let folder = tempfile::tempdir().expect("there is room");
    let rules = folder.path().join("rules.toml");
    fs::write(&rules, "[[rule]]\ncgroup = \"/iron\"\nweight = 300\n").expect("it can be written");
    near(shares(&["--map", rules.to_str().expect("it is UTF-8")]), [500, 500]);
    let stdout = well(&[&RUN[..], &["--map", "cgroup=/iron: weight=300"]].concat());
    assert!(stdout.lines().take(4).any(|line| line == "  with cgroup=/iron: weight=300"), "{stdout}");
}

/// Results name the rules, tunables and features of their sides.
#[test]
fn results_say_what_was_changed() {
    let of_kernel = ["--set", "base_slice_ns=2000000", "--feature", "NO_RUN_TO_PARITY"];
    let stdout = well(&[&RUN[..], &["--kernel", "6.12"], &of_kernel].concat());
    assert!(stdout.contains("\n  with base_slice_ns = 2000000\n  with feature NO_RUN_TO_PARITY\n"), "{stdout}");
    assert_eq!(json(&[&RUN[..], &["--json"]].concat()).get("changes"), None, "it is as the file has it");
    let folder = tempfile::tempdir().expect("there is room");
    let out = folder.path().to_str().expect("it is UTF-8");
    let what_if = ["compare", "groups.toml", "--kernel", "6.12", "--map", "cgroup=/iron: weight=300", "--out", out];
    let stdout = well(&[&what_if[..], &of_kernel].concat());
    assert!(stdout.contains("with base_slice_ns = 2000000; feature NO_RUN_TO_PARITY\n"), "{stdout}");
    let changes = |side: &str| {
        let text = fs::read_to_string(folder.path().join(side).join("results.json")).expect("it is left there");
        serde_json::from_str::<serde_json::Value>(&text).expect("it is JSON")["changes"].clone()
    };
    let kernel = ["base_slice_ns = 2000000", "feature NO_RUN_TO_PARITY"];
    assert_eq!(changes("the_file"), serde_json::json!(kernel));
    let all = [&["cgroup=/iron: weight=300"], &kernel[..]].concat();
    assert_eq!(changes("the_what-if"), serde_json::json!(all));
}

/// A group with only groups counts, too.
#[test]
fn a_group_without_tasks_of_its_own_is_changed() {
    let shop = "../../../../scenarios/limits/shop.toml";
    let limit = |map: &[&str]| {
        let json = json(&[&["run", shop, "--duration", "300ms", "--json"], map].concat());
        json["observed"][0]["groups"]["/shop"]["cpu_ns"].as_f64().expect("a number") / 1e9
    };
    let (before, after) = (limit(&[]), limit(&["--map", "cgroup=/shop: max=500m"]));
    assert!(before > 0.4 && after < 0.2, "{before} s, then {after} s");
}

#[test]
fn what_no_file_has_is_refused() {
    let error_of = |rule: &str| {
        let error = fails(&[&RUN[..], &["--map", rule]].concat());
        error.replace('\u{2502}', " ").split_whitespace().collect::<Vec<&str>>().join(" ")
    };
    let unknown = error_of("cgroup=/irn: weight=200");
    assert!(unknown.contains("no task group of groups.toml fits this rule"), "{unknown}");
    assert!(unknown.contains("did you mean `/iron`? the groups are /gold, /iron;"), "{unknown}");
    let no_task = error_of("led: nice=3");
    assert!(no_task.contains("no task of groups.toml fits this rule"), "{no_task}");
    assert!(no_task.contains("the tasks are gold, iron;"), "{no_task}");
    assert!(error_of("gold: cpus=0-7").contains("there is no CPU 2: the machine has 2, 0 to 1"));
    assert!(error_of("tree=12: nice=3").contains("`tree` is of traces: groups.toml is none"));
    assert!(error_of("gold: copies=3").contains("`instance` sets the number of copies"));
    assert!(error_of("gold: remove").contains("remove the task from the file"));
    assert!(error_of("cgroup=/iron: wieght=200").contains("did you mean `weight`?"));
    let none = fails(&["run", "beat.json", "--map", "cgroup=/iron: weight=200"]);
    assert!(none.contains("there is no task group in beat.json"), "{none}");
    // As on a real kernel, a refused policy leaves the task as it was. `--strict` ends the run, and names the rule.
    let refused = fails(&["run", "groups.toml", "--map", "gold: policy=deadline:90ms/100ms", "--strict"]);
    assert!(refused.contains("the rule:1:14]") && refused.contains("requested here"), "{refused}");
}

/// A rule file's table of a new group makes the group. A note reports that it is empty.
#[test]
fn an_empty_group_is_reported() {
    let folder = tempfile::tempdir().expect("there is room");
    let rules = folder.path().join("rules.toml");
    fs::write(&rules, "[groups.\"/missing\"]\nweight = 300\n").expect("it can be written");
    let output = vruntime(&[&RUN[..], &["--map", rules.to_str().expect("it is UTF-8")]].concat());
    assert!(output.status.success());
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("the rule for [groups.\"/missing\"] matches no tasks") && stderr.contains("the file has no"),
        "{stderr}"
    );
}

/// Each side runs unchanged and with the rules, and the two are compared.
#[test]
fn a_comparison_of_a_file_with_what_if() {
    let what_if = ["compare", "groups.toml", "--kernel", "6.12", "--map", "cgroup=/iron: weight=300"];
    let json = json(&[&what_if[..], &["--json"]].concat());
    assert_eq!(json["variants"], serde_json::json!(["the file", "the what-if"]));
    let cells = json["cells"].as_array().expect("a list");
    let share = cells.iter().find(|cell| cell["class"] == "iron" && cell["metric"] == "share").expect("it is there");
    let [before, after] = [0, 1].map(|side| share["values"][side]["mean"].as_f64().expect("a number"));
    assert!((0.22..0.28).contains(&before) && (0.47..0.53).contains(&after), "{share}");
    let output = well(&what_if);
    let lead = "the what-if: groups under Linux 6.12 on 2 CPUs, preempt voluntary, 0.2 s simulated, with cgroup=/iron: weight=300";
    assert!(output.lines().any(|line| line == lead), "{output}");
    let trace = "../../../trace/tests/data/ftrace.txt";
    let output = fails(&["compare", trace, "groups.toml", "--map", "cgroup=/iron: weight=300"]);
    assert!(output.contains("ftrace.txt") && output.contains("--cgroups"), "the trace has no groups: {output}");
}
