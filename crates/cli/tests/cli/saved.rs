//! `vruntime compare` with saved results, and folders that are used again.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::*;

/// Saves the results of a workload as `NAME/results.json`, and returns its path.
fn saved(folder: &Path, name: &str, options: &[&str]) -> String {
    let out = folder.join(name);
    let run = ["run", "groups.toml", "--duration", "200ms", "--repeat", "2", "--out", out.to_str().unwrap()];
    well(&[&run[..], options].concat());
    out.join("results.json").display().to_string()
}

fn read(path: &str) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn saved_results_equal_their_run() {
    let folder = tempfile::tempdir().unwrap();
    let old = saved(folder.path(), "old", &["--kernel", "6.12"]);
    let run = ["--kernel", "6.12", "--duration", "200ms", "--repeat", "2"];
    let compared = json(&[&["compare", &old, "groups.toml", "--json"], &run[..]].concat());
    assert_eq!(compared["variants"], json!(["old (saved)", "groups"]));
    let cells = compared["cells"].as_array().unwrap();
    assert!(cells.iter().any(|cell| !cell["group"].is_null()), "groups are compared");
    for cell in cells {
        let [saved, again] = [0, 1].map(|side| cell["values"][side]["mean"].as_f64());
        // Pressure is saved in microseconds, and other times to the nanosecond.
        let close = saved.zip(again).map_or(saved == again, |(a, b)| (a - b).abs() <= 1e-3 + 1e-6 * b.abs());
        assert!(close, "{cell}");
    }
    let [saved, again] = [0, 1].map(|side| compared["runs"][side]["observed"].clone());
    assert_eq!(saved[1]["digest"], again[1]["digest"], "the same events");
    assert_eq!(compared["runs"][0]["saved"], true);
    // The order of the files is the order of the columns.
    let text = well(&[&["compare", "groups.toml", &old], &run[..]].concat());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("groups: groups under Linux 6.12"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("old (saved): ") && words.contains(" under Linux 6.12 on "), "{text}");
    assert!(words.contains(" s, 2 runs") && words.contains(", preempt "), "{text}");
}

#[test]
fn saved_results_need_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["6.1", "6.12"].map(|kernel| saved(folder.path(), kernel, &["--kernel", kernel]));
    let text = well(&["compare", &a, &b]);
    assert!(text.contains("mean of the saved runs") && text.contains("6.1 (saved)"), "{text}");
    let out = folder.path().join("comparison");
    well(&["compare", &a, &b, "--out", out.to_str().unwrap()]);
    assert_eq!(read(out.join("comparison.json").to_str().unwrap())["variants"], json!(["6.1 (saved)", "6.12 (saved)"]));
    let twice = json(&["compare", &a, &a, "--json"]);
    assert_eq!(twice["variants"], json!(["6.1 (saved)", "6.1 (saved) #2"]));
    let error = fails(&["compare", &a, &b, "--kernel", "6.6"]);
    assert!(error.contains("--kernel has no effect on saved results") && error.contains("help: "), "{error}");
    assert!(fails(&["compare", &a]).contains("there is nothing to compare with"));
}

#[test]
fn results_of_another_version_say_what_they_lack() {
    let folder = tempfile::tempdir().unwrap();
    let new = saved(folder.path(), "new", &[]);
    let mut older = read(&new);
    for run in older["observed"].as_array_mut().unwrap() {
        for class in run["classes"].as_object_mut().unwrap().values_mut() {
            for key in ["response_ns", "idle_waits"] {
                class.as_object_mut().unwrap().remove(key);
            }
        }
        for group in run["groups"].as_object_mut().unwrap().values_mut() {
            group.as_object_mut().unwrap().remove("cpu.pressure");
        }
        run["machine"].as_object_mut().unwrap().remove("work_conservation");
        run["of_a_later_version"] = json!({"x": [1]});
    }
    let path = folder.path().join("older.json");
    fs::write(&path, older.to_string()).unwrap();
    let output = vruntime(&["compare", path.to_str().unwrap(), &new, "--all"]);
    let notes = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    let lacks = "cannot compare response times, waits beside idle CPUs, CPU pressure of groups";
    assert!(output.status.success() && notes.contains(lacks), "{notes}");
    assert!(text(&output.stdout).contains("CPU %"), "the rest is compared");
}

#[test]
fn what_has_no_results_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let good = saved(folder.path(), "good", &[]);
    let out = folder.path().join("c");
    well(&["compare", &good, "groups.toml", "--repeat", "1", "--duration", "100ms", "--out", out.to_str().unwrap()]);
    let error = fails(&["compare", out.join("comparison.json").to_str().unwrap(), "groups.toml"]);
    assert!(error.contains("is a comparison") && error.contains("results.json of each run"), "{error}");
    let whole = fs::read(&good).unwrap();
    let cut = folder.path().join("cut.json");
    fs::write(&cut, &whole[..whole.len() - 100]).unwrap();
    let error = fails(&["compare", cut.to_str().unwrap(), "groups.toml"]);
    assert!(error.contains("no complete JSON") && error.contains("vruntime run FILE --json"), "{error}");
    let bad = folder.path().join("bad.json");
    fs::write(&bad, text(&whole).replacen("\"cpu_ns\": ", "\"cpu_ns\": -", 1)).unwrap();
    let error = fails(&["compare", bad.to_str().unwrap(), "groups.toml"]);
    assert!(error.contains("expected a number from") && error.contains("\"cpu_ns\""), "{error}");
    // Results are no workload.
    let error = fails(&["run", &good]);
    assert!(error.contains("results of a run") && error.contains("vruntime compare"), "{error}");
}

/// Returns all files below a folder, without vruntime's list.
fn files(folder: &Path, below: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = format!("{below}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path(), &format!("{name}/")));
        } else if entry.file_name() != ".vruntime-files" {
            found.push(name);
        }
    }
    found.sort();
    found
}

#[test]
fn a_folder_used_again_has_no_columns_of_an_earlier_run() {
    const LEFT: [&str; 4] = ["digest", "results.json", "trace.perfetto-trace", "trace.txt"];
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let compare = |kernels: [&str; 2]| {
        let [a, b] = kernels;
        let run = ["compare", "groups.toml", "--duration", "100ms", "--repeat", "1", "--out", out.to_str().unwrap()];
        well(&[&run[..], &["--kernel", a, "--kernel", b]].concat());
    };
    let left = |kernels: [&str; 2]| {
        let of = |kernel: &str| LEFT.map(|file| format!("{kernel}/{file}")).to_vec();
        let mut all = [of(kernels[0]), of(kernels[1]), vec!["comparison.json".to_owned()]].concat();
        all.sort();
        all
    };
    compare(["6.1", "6.6"]);
    assert_eq!(files(&out, ""), left(["6.1", "6.6"]));
    compare(["6.6", "6.12"]);
    assert_eq!(files(&out, ""), left(["6.6", "6.12"]));
    assert!(!out.join("6.1").exists(), "an empty folder is removed with its files");
    // What the user has put there stays: other files, and files that replaced those of vruntime.
    fs::write(out.join("6.6/notes.txt"), "mine").unwrap();
    fs::write(out.join("6.6/digest"), "mine, too").unwrap();
    fs::create_dir(out.join("6.6/deeper")).unwrap();
    fs::write(out.join("6.6/deeper/trace.txt"), "mine").unwrap();
    fs::create_dir(out.join("own")).unwrap();
    fs::write(out.join("own/results.json"), "mine").unwrap();
    compare(["6.12", "6.18"]);
    let mine = ["6.6/deeper/trace.txt", "6.6/digest", "6.6/notes.txt", "own/results.json"].map(str::to_owned);
    let mut all = [left(["6.12", "6.18"]), mine.to_vec()].concat();
    all.sort();
    assert_eq!(files(&out, ""), all);
}

/// Commands remove what another command left in a folder of `--out`.
#[test]
fn a_folder_that_another_command_uses_again_has_its_files_only() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let within = ["--duration", "100ms", "--repeat", "1", "--out", out.to_str().unwrap()];
    let run = || well(&[&["run", "groups.toml"][..], &within].concat());
    let compare = || well(&[&["compare", "groups.toml", "--kernel", "6.1", "--kernel", "6.6"][..], &within].concat());
    run();
    let of_run = files(&out, "");
    assert_eq!(of_run, ["digest", "results.json", "trace.perfetto-trace", "trace.txt"]);
    compare();
    assert_eq!(files(&out, "").iter().filter(|name| !name.contains('/')).collect::<Vec<_>>(), ["comparison.json"]);
    run();
    assert_eq!(files(&out, ""), of_run);
    // What the user replaced stays.
    fs::write(out.join("digest"), "mine").unwrap();
    compare();
    assert_eq!(fs::read_to_string(out.join("digest")).unwrap(), "mine");
    assert!(!out.join("results.json").exists());
}

/// The list may not lead out of the folder, even by a link.
#[cfg(unix)]
#[test]
fn a_folder_that_became_a_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (out, elsewhere) = (folder.path().join("out"), folder.path().join("elsewhere"));
    let run = ["compare", "groups.toml", "--duration", "100ms", "--repeat", "1", "--out", out.to_str().unwrap()];
    well(&[&run[..], &["--kernel", "6.1", "--kernel", "6.6"]].concat());
    fs::rename(out.join("6.1"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, out.join("6.1")).unwrap();
    well(&[&run[..], &["--kernel", "6.6", "--kernel", "6.12"]].concat());
    assert!(elsewhere.join("results.json").is_file());
}
