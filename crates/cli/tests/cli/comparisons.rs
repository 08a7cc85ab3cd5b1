//! `vruntime compare`.

use std::fs;

use crate::support::*;

#[test]
fn comparisons_tell_what_differs() {
    let table = well(&["compare", "groups.toml", "--repeat", "2"]);
    assert!(table.contains("6.1 ") && table.contains("6.12"), "{table}");
    assert!(table.contains("stands out"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let machines = json(&["compare", "beat.json", "--machine", "2", "--machine", "pack:2 core:2", "--json"]);
    assert_eq!(machines["variants"], serde_json::json!(["2 CPUs", "pack:2 core:2"]));
    let features =
        json(&["compare", "groups.toml", "--kernel", "6.12", "--kernel", "6.12+base_slice_ns=9000000", "--json"]);
    assert_eq!(features["variants"][1], "6.12+base_slice_ns=9000000");
    let files = json(&["compare", "beat.json", "groups.toml", "--kernel", "6.6", "--machine", "2", "--json"]);
    assert_eq!(files["variants"], serde_json::json!(["beat", "groups"]));
}

/// One seed cannot tell a change from chance.
#[test]
fn comparisons_run_five_seeds_by_default() {
    let of = ["compare", "groups.toml", "--duration", "100ms"];
    let several = json(&[&of[..], &["--json"]].concat());
    assert_eq!(several["repeats"], 5);
    let seeds: Vec<_> =
        several["runs"][1]["observed"].as_array().unwrap().iter().map(|run| run["seed"].clone()).collect();
    assert_eq!(serde_json::json!(seeds), serde_json::json!([0, 1, 2, 3, 4]));
    assert!(well(&of).contains("\nmean of 5 seeds, "));
    let one = well(&[&of[..], &["--repeat", "1"]].concat());
    assert!(one.contains("\n1 seed: a change can be chance; --repeat 5") && !one.contains(" ± "), "{one}");
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

/// Features and settings alone are compared with the unchanged kernel.
#[test]
fn a_feature_is_compared_with_the_default() {
    let both = json(&["compare", "beat.json", "--feature", "NO_RUN_TO_PARITY", "--json"]);
    assert_eq!(both["variants"], serde_json::json!(["default", "feature NO_RUN_TO_PARITY"]));
    let [default, without] = [0, 1].map(|side| both["runs"][side]["changes"].clone());
    assert!(default.as_array().is_none_or(Vec::is_empty), "{default}");
    assert_eq!(without, serde_json::json!(["feature NO_RUN_TO_PARITY"]));
    let table = well(&["compare", "beat.json", "--set", "base_slice_ns=9000000"]);
    assert!(table.contains("base_slice_ns = 9000000: beat under Linux 6.12"), "{table}");
    assert!(table.contains(", preempt voluntary, "), "{table}");
}

/// One table has a column for each value; the page has charts.
#[test]
fn values_of_a_rule_are_columns() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let of = ["compare", "../../../../scenarios/limits/shop.toml", "--duration", "500ms", "--repeat", "2"];
    let vary = ["--vary", "cgroup=/shop: max=500m,1,max"];
    let table = well(&[&of[..], &vary, &["--html", page.to_str().unwrap()]].concat());
    let head = table.lines().find(|line| line.starts_with("tasks ")).expect("a head");
    assert_eq!(head.split_whitespace().collect::<Vec<_>>(), ["tasks", "max=500m", "max=1", "max=max"]);
    assert_eq!(table.matches("\ntasks ").count(), 1, "{table}");
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("The mean over the seeds for each value."));
    let both = json(&[&of[..], &["--vary", "kernel=6.1,6.12", "--vary", "machine=2,4", "--json"]].concat());
    assert_eq!(both["variants"], serde_json::json!(["6.1, 2", "6.1, 4", "6.12, 2", "6.12, 4"]));
    let error = fails(&[&of[..], &["--vary", "cgroup=/shop: max=1"]].concat());
    assert!(error.contains("one value"), "{error}");
}

/// `--vary` does not drop a kernel or machine that it does not choose.
#[test]
fn values_are_combined_with_all_kernels_and_machines() {
    let of = ["compare", "web", "--duration", "50ms", "--repeat", "1", "--json"];
    let columns = |more: &[&str]| {
        let json = json(&[&of[..], more].concat());
        let runs = json["runs"].as_array().expect("a list").clone();
        let used =
            runs.iter().map(|run| format!("{} {} {}", run["kernel"], run["machine"]["cpus"], run["machine"]["hz"]));
        (json["variants"].clone(), used.collect::<Vec<String>>().join("; ").replace('"', ""))
    };
    let (labels, used) = columns(&["--kernel", "5.15", "--kernel", "6.12", "--vary", "machine=2,4"]);
    assert_eq!(labels, serde_json::json!(["5.15, 2", "5.15, 4", "6.12, 2", "6.12, 4"]), "{used}");
    assert_eq!(used.matches("5.15").count(), 2, "{used}");
    let (labels, used) = columns(&["--machine", "2", "--machine", "4", "--vary", "kernel=5.15,6.12"]);
    assert_eq!(labels, serde_json::json!(["2, 5.15", "2, 6.12", "4, 5.15", "4, 6.12"]), "{used}");
    let (labels, _) = columns(&["--vary", "hz=100,1000", "--vary", "preempt=none,full"]);
    assert_eq!(labels.as_array().map(Vec::len), Some(4), "{labels}");
    // The kernels of the file.
    let demo = json(&["compare", "demo", "--duration", "50ms", "--repeat", "1", "--json", "--vary", "machine=8,16"]);
    assert_eq!(demo["variants"], serde_json::json!(["6.1, 8", "6.1, 16", "6.12, 8", "6.12, 16"]));
    for (option, value) in [("kernel", "6.1"), ("machine", "4"), ("hz", "100"), ("preempt", "none")] {
        let vary = format!("{option}={value},{value}");
        let error = fails(&[&of[..], &[&format!("--{option}"), value, "--vary", &vary]].concat());
        assert!(error.contains(&format!("--{option} and --vary {option}= both choose")), "{error}");
        let error = fails(&[&of[..], &["--vary", &vary, "--vary", &vary]].concat());
        assert!(error.contains("twice"), "{error}");
    }
}
