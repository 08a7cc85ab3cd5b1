//! Handmade files of `vruntime record`: the replay follows their section. Damaged or impossible content is an error
//! with its place.

use std::fs;
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;
use vruntime_trace::recording::Recording;

#[path = "../../trace/tests/pieces/mod.rs"]
mod pieces;

const ABOUT: &str = r#"{
  "vruntime": "0.1.0", "date": "2026-11-27", "command": ["make"], "command_pid": 7, "cgroup": null,
  "kernel": {"release": "6.12.3", "features": ["PLACE_LAG", "NO_RUN_TO_PARITY"], "tunables": {"base_slice_ns": 3000000}},
  "machine": {"cpus": 2, "frequencies": []},
  "began_ns": 1, "ended_ns": 2, "events": 150, "lost": 0, "event_cost": {"ns": 250}, "recorder_tids": [5]
}
"#;
const MACHINE: &str =
    "[machine]\ntopology = \"2\"\nhz = 100\npreempt = \"full\"\nautogroup = false\n\n[costs]\nswitch_ns = 1234\n";
const TASKS: &str = "[\n{\"tid\":7,\"state\":\"S\",\"policy\":\"other\",\"slice_ns\":2800000}\n]\n";
const GROUPS: &str =
    "/proc/7/task/7/cgroup:0::/a\n/sys/fs/cgroup/a/cpu.weight:50\n/proc/sys/kernel/sched_autogroup_enabled:0\n";

/// A recording's parts, one of them changed.
fn section(changed: &str, text: &str) -> Recording {
    let mut section = Recording::default();
    for (name, usual) in [("recording", ABOUT), ("machine", MACHINE), ("tasks", TASKS), ("cgroups", GROUPS)] {
        section.add(name, if name == changed { text } else { usual }.to_owned());
    }
    section
}

fn vruntime(bytes: &[u8], arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("r.dat"), bytes).expect("a file");
    run(folder.path(), arguments)
}

fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::cargo_bin("vruntime").expect("the command is built");
    command.current_dir(folder).env("NO_COLOR", "1").env("COLUMNS", "400").args(arguments);
    let output = command.timeout(Duration::from_secs(300)).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn replayed(bytes: &[u8], more: &[&str]) -> Value {
    let (code, out, err) = vruntime(bytes, &[&["replay", "r.dat", "--json"], more].concat());
    assert_eq!(code, Some(0), "{err}");
    serde_json::from_str(&out).expect("it prints JSON")
}

#[test]
fn the_replay_does_what_the_section_says() {
    let bytes = pieces::written(section("", ""));
    let json = replayed(&bytes, &[]);
    let run = &json["runs"][0];
    assert_eq!(run["kernel"].as_str(), Some("6.12+NO_RUN_TO_PARITY+base_slice_ns=3000000"), "{run}");
    let known = (run["hz"].as_u64(), run["preempt"].as_str(), run["costs"].as_str(), run["autogroup"].as_bool());
    assert_eq!(known, (Some(100), Some("full"), Some("measured"), Some(false)), "{run}");
    // Without a section, the default costs apply.
    let json = replayed(
        &fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data/trace-v6.dat")).unwrap(),
        &[],
    );
    assert_eq!(json["runs"][0]["costs"].as_str(), Some("default"));
}

#[test]
fn the_command_line_overrides_the_section() {
    let bytes = pieces::written(section("", ""));
    let options =
        ["--hz", "1000", "--preempt", "none", "--costs", "vm", "--recorded-kernel", "6.6", "--recorded-machine", "4"];
    let json = replayed(&bytes, &options);
    let run = &json["runs"][0];
    let known = (run["hz"].as_u64(), run["preempt"].as_str(), run["costs"].as_str(), run["kernel"].as_str());
    assert_eq!(known, (Some(1000), Some("none"), Some("vm"), Some("6.6")), "{run}");
    assert_eq!(run["cpus"].as_u64(), Some(4));
}

/// Another machine runs the recorded machine's kernel.
#[test]
fn a_what_if_on_another_machine_keeps_the_kernels_costs() {
    let json = replayed(&pieces::written(section("", "")), &["--machine", "4"]);
    let run = &json["runs"][1];
    let known = (run["cpus"].as_u64(), run["hz"].as_u64(), run["costs"].as_str());
    assert_eq!(known, (Some(4), Some(100), Some("measured")), "{run}");
}

/// `compare` runs a recording on its machine, under its kernel, as `replay` does.
#[test]
fn compare_does_what_the_section_says() {
    let bytes = pieces::written(section("", ""));
    let compared = |more: &[&str]| -> Value {
        let (code, out, err) = vruntime(&bytes, &[&["compare", "r.dat", "--repeat", "1", "--json"], more].concat());
        assert_eq!(code, Some(0), "{err}");
        serde_json::from_str(&out).expect("it prints JSON")
    };
    for more in [&["--kernel", "6.1", "--kernel", "6.12"][..], &["--kernel", "6.1", "--machine", "2", "--machine", "4"]]
    {
        let json = compared(more);
        for run in json["runs"].as_array().expect("runs") {
            let known = (run["hz"].as_u64(), run["preempt"].as_str(), run["costs"].as_str());
            assert_eq!(known, (Some(100), Some("full"), Some("measured")), "{run}");
        }
        let alone = replayed(&bytes, &["--kernel", "6.1", "--repeat", "1"]);
        assert_eq!(json["replays"][0]["check"], replayed(&bytes, &["--repeat", "1"])["check"]);
        if !more.contains(&"--machine") {
            assert_eq!(json["runs"][0]["observed"][0]["digest"], alone["digests"][1], "the same what-if");
        }
    }
}

/// The first rows are tasks of the recording's group, even with little CPU time.
#[test]
fn the_first_rows_are_the_recorded_groups_tasks() {
    let usual = replayed(&pieces::written(section("", "")), &["--as-recorded"]);
    let last =
        usual["tasks"].as_array().expect("tasks").last().expect("there is one")["name"].as_str().expect("a name");
    let pid = last.rsplit('-').next().expect("its pid");
    let mut of_group = section("recording", &ABOUT.replace("\"cgroup\": null", "\"cgroup\": \"/a\""));
    of_group.add("cgroups", GROUPS.replace("/proc/7/task/7/", &format!("/proc/{pid}/task/{pid}/")));
    let json = replayed(&pieces::written(of_group), &["--as-recorded"]);
    assert_eq!(json["tasks"][0]["name"].as_str(), Some(last), "{}", json["tasks"][0]);
    let notes = json["notes"].to_string();
    assert!(notes.contains("of the task group /a: the first rows are its 1 task,"), "{notes}");
}

#[test]
fn trace_info_tells_of_the_section() {
    let (code, out, err) = vruntime(&pieces::written(section("", "")), &["trace", "info", "r.dat"]);
    assert_eq!(code, Some(0), "{err}");
    for words in [
        "Recorded beside the events:",
        "command: make",
        "Linux 6.12.3, HZ 100, preemption full, 2 features and 1 tunable known",
        "an event took 250 ns",
        "1 task before the first event, 1 asleep",
        "autogroup is off",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
}

#[test]
fn a_recording_without_tracefs_says_what_it_lacks() {
    let from = |source: &str| ABOUT.replace("\"began_ns\"", &format!("\"source\": \"{source}\", \"began_ns\""));
    for (source, lacks) in [("perf-command", "only the command's tasks"), ("perf-switches", "it has no wakeups")] {
        let bytes = pieces::written(section("recording", &from(source)));
        let notes = replayed(&bytes, &[])["notes"].to_string();
        assert!(notes.contains("without the necessary privileges") && notes.contains(lacks), "{notes}");
        let (code, out, err) = vruntime(&bytes, &["trace", "info", "r.dat"]);
        assert_eq!(code, Some(0), "{err}");
        assert!(out.contains(&format!("events by perf_event_open ({source}): it has")), "{out}");
    }
    for source in ["tracefs", "perf-tracepoints"] {
        let bytes = pieces::written(section("recording", &from(source)));
        let notes = replayed(&bytes, &[])["notes"].to_string();
        assert!(!notes.contains("privileges"), "{source}: {notes}");
    }
}

#[test]
fn what_is_wrong_in_a_part_has_its_place() {
    let about = |from: &str, to: &str| section("recording", &ABOUT.replace(from, to));
    for (section, words) in [
        (about("\"began_ns\": 1", "\"began_ns\": 3"), ["the recording ends before it begins", ":5:"]),
        (about("\"cpus\": 2", "\"cpus\": 3"), ["3 CPUs were recorded, and the machine has 2", ":4:"]),
        (about("\"cpus\": 2", "\"cpus\": 1"), ["1 CPUs were recorded, and the file has events of 2", ":4:"]),
        (about("\"lost\": 0", "\"lost\": -1"), ["invalid value: integer `-1`", ":5:"]),
        (about("2026-11-27\",", "2026-11-27\""), ["expected `,` or `}`", ":2:"]),
        (section("machine", "[machine]\ntopology = 2\n"), ["invalid type", ":2:"]),
        (
            section("machine", "[machine]\ntopology = \"2\"\npreempt = \"often\"\n"),
            ["preemption model `often`", "part `machine`, byte "],
        ),
        (
            section("tasks", &TASKS.replace("}\n]", "},\n{\"tid\":7,\"state\":\"R\",\"policy\":\"idle\"}\n]")),
            ["has a task twice", ":1:"],
        ),
        (section("tasks", "[{\"tid\":7}]"), ["missing field `state`", ":1:"]),
        (section("cgroups", &GROUPS.replace("weight:50", "weight:0")), ["`0` is not the format of cpu.weight", ":2:"]),
    ] {
        for command in [&["replay", "r.dat"][..], &["trace", "info", "r.dat"]] {
            let (code, _, err) = vruntime(&pieces::written(section.clone()), command);
            assert_eq!(code, Some(1), "{words:?}: {err}");
            assert!(words.iter().all(|word| err.contains(word)) && err.contains("r.dat"), "{words:?}: {err}");
        }
    }
}

#[test]
fn a_part_that_is_missing_is_named() {
    let mut some = Recording::default();
    some.add("recording", ABOUT.to_owned());
    let (code, _, err) = vruntime(&pieces::written(some), &["replay", "r.dat"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("a recording without the part `tasks`"), "{err}");
}

/// A section with changed bytes is replayed, or is an error that names the file.
#[test]
fn garbled_sections_are_replayed_or_refused() {
    let bytes = pieces::written(section("", ""));
    let text = section("", "").to_bytes();
    let begin = bytes.windows(20).position(|window| window == b"vruntime-recording 1").expect("it is there");
    let folder = tempfile::tempdir().expect("a folder");
    let (mut refused, mut state) = (0, 1_u64);
    for _ in 0..60 {
        let mut garbled = bytes.clone();
        for _ in 0..2 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = begin + (state >> 33) as usize % text.len();
            garbled[at] = b' ' + ((state >> 20) % 95) as u8;
        }
        fs::write(folder.path().join("r.dat"), garbled).expect("a file");
        let (code, _, err) = run(folder.path(), &["replay", "r.dat", "--as-recorded"]);
        assert!(matches!(code, Some(0 | 1)) && !err.contains("panicked"), "{code:?} {err}");
        refused += u32::from(code == Some(1));
        assert!(code == Some(0) || err.contains("r.dat"), "{err}");
    }
    assert!((10..60).contains(&refused), "{refused}");
}
