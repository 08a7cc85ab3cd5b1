//! The description of runs in the JSON and tables of `run`, `compare` and `replay`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

#[path = "support/mod.rs"]
mod support;

use support::{json, text, vruntime, well};

/// A run's description without its results.
fn head(run: &Value) -> Value {
    let mut head = run.clone();
    let fields = head.as_object_mut().expect("an object");
    for other in ["label", "file", "finished", "observed", "over_seeds"] {
        fields.remove(other);
    }
    head
}

fn seeds(run: &Value) -> Vec<(Value, Value)> {
    let observed = run["observed"].as_array().expect("an array");
    observed.iter().map(|run| (run["seed"].clone(), run["digest"].clone())).collect()
}

/// A comparison describes each variant as `run --json` does.
#[test]
fn a_comparison_tells_what_was_run() {
    let how = [
        "--kernel",
        "6.12",
        "--duration",
        "70ms",
        "--hz",
        "1000",
        "--seed",
        "3",
        "--costs",
        "vm",
        "--set",
        "base_slice_ns=5000000",
    ];
    let map = ["--map", "iron: nice=1"];
    let variants = [&["compare", "groups.toml", "--machine", "2", "--machine", "4", "--repeat", "2"][..], &how, &map];
    let compared = json(&[&variants.concat()[..], &["--json"]].concat());
    let runs = compared["runs"].as_array().expect("there are some");
    let labels: Vec<&Value> = runs.iter().map(|run| &run["label"]).collect();
    assert_eq!(json!(labels), compared["variants"]);
    assert_eq!(runs.len(), 4);
    for (run, machine, map) in [(&runs[0], "2", &[][..]), (&runs[1], "2", &map), (&runs[3], "4", &map)] {
        let alone = [&["run", "groups.toml", "--machine", machine, "--repeat", "2", "--json"][..], &how, map];
        let alone = json(&alone.concat());
        assert_eq!(head(run), head(&alone));
        assert_eq!(seeds(run), seeds(&alone));
        assert_eq!((&run["hz"], &run["costs"], &run["duration_ns"]), (&json!(1000), &json!("vm"), &json!(70_000_000)));
        assert_eq!((&run["file"], &run["finished"]), (&json!("groups.toml"), &json!(2)));
    }
    assert_eq!(runs[0]["changes"], json!(["base_slice_ns = 5000000"]));
    assert_eq!(runs[1]["changes"], json!(["iron: nice=1", "base_slice_ns = 5000000"]));
    // Each figure has its unit.
    let cells = compared["cells"].as_array().expect("an array");
    assert!(!cells.is_empty() && cells.iter().all(|cell| cell["unit"].as_str().is_some_and(|unit| !unit.is_empty())));
}

/// Runs a scenario. Returns its trace's path.
fn traced(folder: &Path, scenario: &str) -> (String, String) {
    let (file, out) = (folder.join("app.toml"), folder.join("out"));
    fs::write(&file, scenario).expect("it can be written");
    let path = |path: &Path| path.to_str().expect("it is text").to_owned();
    well(&["run", &path(&file), "--machine", "2", "--kernel", "6.18", "--out", &path(&out)]);
    (path(&file), path(&out.join("trace.txt")))
}

const INSTANCES: &str = r#"duration = "100ms"
[[task]]
name = "capped"
instance = 2
run = "1ms"
sleep = "1ms"
[[task]]
name = "its-name-is-too-long-for-a-thread"
run = "1ms"
sleep = "3ms"
"#;

#[test]
fn a_replay_tells_what_was_run() {
    let folder = tempfile::tempdir().expect("there is room");
    let (_, trace) = traced(folder.path(), INSTANCES);
    let what_if = ["--kernel", "6.1", "--machine", "4", "--map", "capped-0: nice=5", "--set", "nr_migrate=8"];
    let replayed = json(&[&["replay", &trace, "--seed", "7", "--repeat", "1", "--json"][..], &what_if].concat());
    let runs = replayed["runs"].as_array().expect("there are some");
    assert_eq!(runs.len(), 2);
    let labelled = |run: &Value| [&run["label"], &run["kernel"], &run["topology"], &run["name"]].map(Value::clone);
    assert_eq!(labelled(&runs[0]), ["replayed", "6.18", "2", "trace"]);
    assert_eq!(labelled(&runs[1]), ["what_if", "6.1", "4", "trace"]);
    assert_eq!(runs[0].get("changes"), None);
    assert_eq!(runs[1]["changes"], json!(["capped-0: nice=5", "nr_migrate = 8"]));
    for (run, digest) in runs.iter().zip(replayed["digests"].as_array().expect("an array")) {
        assert_eq!(seeds(run), [(json!(7), digest.clone())]);
        assert_eq!((&run["file"], &run["hz"], &run["costs"]), (&json!(trace), &json!(250), &json!("default")));
    }
    let as_recorded = json(&["replay", &trace, "--json"]);
    assert_eq!(as_recorded["runs"].as_array().map(Vec::len), Some(1));
}

/// A recording's threads are the tasks of the scenario with their names.
#[test]
fn tasks_of_a_recording_are_those_of_the_scenario_that_made_it() {
    let folder = tempfile::tempdir().expect("there is room");
    let (file, trace) = traced(folder.path(), INSTANCES);
    let compared = json(&["compare", &trace, &file, "--json"]);
    let cells = compared["cells"].as_array().expect("an array");
    let classes: Vec<&str> = cells
        .iter()
        .filter(|cell| cell["metric"] == "share")
        .filter_map(|cell| {
            assert!(cell["values"].as_array()?.iter().all(|value| value["mean"].as_f64() > Some(0.0)), "{cell}");
            cell["class"].as_str()
        })
        .collect();
    assert_eq!(classes, ["capped", "its-name-is-too-long-for-a-thread"]);
}

/// `vruntime real` makes a workload's groups below its own group: they are the same.
#[test]
fn groups_of_a_recording_are_those_of_the_scenario_that_made_it() {
    let folder = tempfile::tempdir().expect("there is room");
    let scenario =
        INSTANCES.replacen("[[task]]", "[groups.\"/limited\"]\nweight = 50\n[[task]]\ngroup = \"/limited\"", 1);
    let (file, trace) = traced(folder.path(), &scenario);
    let text = std::fs::read_to_string(&trace).expect("text");
    let compared = |text: &str| -> Vec<(String, [bool; 2])> {
        std::fs::write(&trace, text).expect("there is room");
        let compared = json(&["compare", &trace, &file, "--json"]);
        let cells = compared["cells"].as_array().expect("an array").iter();
        let of_groups = cells.filter(|cell| cell["metric"] == "share").filter_map(|cell| {
            let known = |index: usize| cell["values"][index]["mean"].is_number();
            Some((cell["group"].as_str()?.to_owned(), [known(0), known(1)]))
        });
        of_groups.collect()
    };
    let of = |groups: &[(&str, [bool; 2])]| -> Vec<(String, [bool; 2])> {
        groups.iter().map(|&(group, known)| (group.to_owned(), known)).collect()
    };
    let both = [true, true];
    assert_eq!(compared(&text), of(&[("/limited", both)]));
    let real = |run: &str| text.replace("/limited", &format!("/vruntime-{run}/limited"));
    let parent = ("/vruntime-77-1234-0", [true, false]);
    assert_eq!(compared(&real("77-1234-0")), of(&[parent, ("/limited", both)]));
    assert_eq!(
        compared(&real("77-1234")),
        of(&[
            ("/vruntime-77-1234", [true, false]),
            ("/vruntime-77-1234/limited", [true, false]),
            ("/limited", [false, true])
        ]),
        "so it calls none"
    );
}

/// Every printed table is also a file, including that over all seeds.
#[test]
fn what_is_printed_of_all_seeds_is_left_as_a_table() {
    let folder = tempfile::tempdir().expect("there is room");
    let out = folder.path().to_str().expect("it is text");
    let run = ["run", "groups.toml", "--duration", "200ms", "--machine", "2", "--tables", out];
    let alone = well(&run);
    assert!(!alone.contains("Over all"), "{alone}");
    let file = folder.path().join("over_seeds.csv");
    assert!(!file.exists());
    let printed = well(&[&run[..], &["--repeat", "3"]].concat());
    let printed = printed.split_once("Over all 3 seeds:").expect("it is there").1;
    let left = fs::read_to_string(&file).expect("it is left there");
    assert_eq!(left.lines().next(), Some("class,group,metric,unit,mean,min,max"));
    let share = left.lines().find(|line| line.starts_with("gold,,CPU %,of a CPU,")).expect("it has a row");
    let left: Vec<String> = share
        .split(',')
        .skip(4)
        .map(|value| format!("{:.2}", 100.0 * value.parse::<f64>().expect("a number")))
        .collect();
    let row = printed.lines().find(|line| line.starts_with("gold")).expect("it has a row");
    assert_eq!(row.split_whitespace().skip(row.split_whitespace().count() - 3).collect::<Vec<_>>(), left, "{row}");
}

/// The JSON has the figures over all seeds, under a comparison's names, and each run's length.
#[test]
fn json_has_what_is_printed_of_all_seeds() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = |name: &str| folder.path().join(name).to_str().expect("it is text").to_owned();
    let file = path("ends.toml");
    let text_of = "[[task]]\nname = \"a\"\nloops = 20\nrun = \"1ms\"\nsleep = \"1ms\"\n";
    fs::write(&file, text_of).expect("it can be written");
    let run = ["run", &file, "--machine", "2", "--repeat", "3", "--json"];
    let results = json(&[&run[..], &["--tables", &path("tables"), "--out", &path("out")]].concat());
    let left: Value =
        serde_json::from_str(&fs::read_to_string(path("out/results.json")).expect("it is left")).expect("it is JSON");
    assert_eq!(left["over_seeds"], results["over_seeds"]);
    let cells = results["over_seeds"].as_array().expect("a list");
    let rows = fs::read_to_string(path("tables/over_seeds.csv")).expect("it is left");
    assert_eq!(cells.len(), rows.lines().count() - 1);
    let observed = results["observed"].as_array().expect("a list");
    let each: Vec<f64> = observed.iter().map(|run| run["classes"]["a"]["share"].as_f64().expect("a number")).collect();
    let share = cells.iter().find(|cell| cell["class"] == "a" && cell["metric"] == "share").expect("it is there");
    assert_eq!((&share["group"], &share["unit"]), (&Value::Null, &json!("of a CPU")));
    let near = |field: &str, value: f64| (share[field].as_f64().expect("a number") - value).abs() < 1e-8;
    assert!(near("mean", each.iter().sum::<f64>() / 3.0), "{share} of {each:?}");
    assert!(near("min", each.iter().copied().fold(f64::MAX, f64::min)), "{share} of {each:?}");
    assert!(near("max", each.iter().copied().fold(0.0, f64::max)), "{share} of {each:?}");
    // Runs that end by themselves are of unequal length: the head has the first's.
    let lengths: Vec<&Value> = observed.iter().map(|run| &run["machine"]["elapsed_ns"]).collect();
    assert!(lengths[0] == &results["duration_ns"] && lengths[0] != lengths[1], "{lengths:?}");
    let compared = json(&["compare", &file, "--machine", "2", "--machine", "4", "--repeat", "3", "--json"]);
    let cell = |cell: &Value| {
        let value = &cell["values"][0];
        json!({"class": cell["class"], "group": cell["group"], "metric": cell["metric"], "unit": cell["unit"],
            "mean": value["mean"], "min": value["min"], "max": value["max"]})
    };
    let of_compare: Value = compared["cells"].as_array().expect("a list").iter().map(cell).collect();
    assert_eq!(of_compare, results["over_seeds"]);
    let of_compare = compared["runs"][0]["observed"].as_array().expect("a list");
    assert_eq!(of_compare.iter().map(|run| &run["elapsed_ns"]).collect::<Vec<_>>(), lengths);
    let alone = json(&["run", &file, "--json"]);
    assert_eq!(alone.get("over_seeds"), None);
}

/// A negative number stays negative.
#[test]
fn a_negative_tunable_is_reported_as_it_was_given() {
    let how = ["--duration", "20ms", "--set", "sched_rt_runtime_us=-1"];
    let stdout = well(&[&["run", "groups.toml"][..], &how].concat());
    assert!(stdout.contains("\n  with sched_rt_runtime_us = -1\n"), "{stdout}");
    let run = json(&[&["run", "groups.toml", "--json"][..], &how].concat());
    assert_eq!(run["changes"], json!(["sched_rt_runtime_us = -1"]));
    let stdout = well(&[&["compare", "groups.toml", "--machine", "1", "--machine", "2"][..], &how].concat());
    assert!(stdout.contains(", with sched_rt_runtime_us = -1\n"), "{stdout}");
    let twice = [&["run", "groups.toml"][..], &how, &["--set", "sched_rt_runtime_us=900000"]].concat();
    let note = text(&vruntime(&twice).stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(note.contains("--set sched_rt_runtime_us=-1 has no effect"), "{note}");
}
