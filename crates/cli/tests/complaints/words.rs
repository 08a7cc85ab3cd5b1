//! Words of other formats and tools lead to the right ones, or are accepted.

use crate::support::*;
use crate::written;

/// Help is in the words of the file's format, and names the cause.
#[test]
fn help_for_runs_without_end_is_of_the_format() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let file = |name: &str, text: &str| written(folder.path(), name, text);
    let task = "[[task]]\nname = \"a\"\nrun = \"5ms\"\nsleep = \"5ms\"\n";
    let fails = |arguments: &[&str]| fails(arguments).split_whitespace().collect::<Vec<&str>>().join(" ");
    let error = fails(&["run", &file("endless.toml", task)]);
    assert!(error.contains("`duration = \"5s\"` above the first table") && error.contains("`loops`"), "{error}");
    assert!(!error.contains("global.duration"), "{error}");
    let json = file("endless.json", r#"{"tasks":{"a":{"loop":5,"run":-1,"sleep":5}}}"#);
    let error = fails(&["run", &json]);
    assert!(error.contains("`\"run\" : -1` never ends"), "{error}");
    let json = file("loops.json", r#"{"tasks":{"a":{"loop":-1,"run":5,"sleep":5}}}"#);
    let error = fails(&["run", &json]);
    assert!(error.contains("`global.duration` in the file") && error.contains("`loop` count"), "{error}");
}

#[test]
fn unknown_keys_lead_to_the_right_ones() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let task = "[[task]]\nname = \"a\"\nrun = \"5ms\"\nsleep = \"5ms\"\n";
    for (index, (text, help)) in [
        (
            format!("[groups.\"/w\"]\nweight = 100\nduration = \"1s\"\n{task}"),
            "`duration` belongs above the first table",
        ),
        (format!("{task}replicas = 3\n"), "here it is `instance`"),
        (format!("{task}count = 3\n"), "here it is `instance`"),
        (format!("{task}threads = 3\n"), "here it is `instance`"),
        (format!("{task}delay = \"1ms\"\n"), "here it is `start`"),
        (format!("{task}affinity = \"0\"\n"), "here it is `cpus`"),
        (format!("{task}resources.limits.cpu = \"500m\"\n"), "the limit of a group is `max`"),
        (format!("duration = \"1s\"\nmachine = \"4 cores\"\n{task}"), "\"4\""),
    ]
    .iter()
    .enumerate()
    {
        let file = written(folder.path(), &format!("{index}.toml"), text);
        let error = fails(&["run", &file]);
        let flat = error.split_whitespace().collect::<Vec<&str>>().join(" ");
        assert!(flat.contains(help), "{help}: {error}");
    }
}

/// A default policy can have its priority, as the policy of a task can.
#[test]
fn a_default_policy_has_a_priority() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let digest = |name: &str, text: &str| {
        let json = well(&["run", &written(folder.path(), name, text), "--machine", "1", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        json["observed"][0]["digest"].as_str().expect("a digest is text").to_owned()
    };
    let all = r#"{"global":{"duration":1,"default_policy":"fifo:50"},"tasks":{"a":{"loop":3,"run":9,"sleep":9}}}"#;
    let own =
        r#"{"global":{"duration":1},"tasks":{"a":{"policy":"SCHED_FIFO","priority":50,"loop":3,"run":9,"sleep":9}}}"#;
    assert_eq!(digest("all.json", all), digest("own.json", own));
}

/// The options of rt-tests' hackbench mean what they mean there.
#[test]
fn hackbench_has_the_options_of_its_program() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let digest = |words: &str| {
        let text = format!("machine = \"2\"\n[[workload]]\nmodel = \"{words}\"\n");
        let json = well(&["run", &written(folder.path(), "h.toml", &text), "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        json["observed"][0]["digest"].as_str().expect("a digest is text").to_owned()
    };
    for (new, old) in [
        ("hackbench -g 2 -l 10", "hackbench 2 process 10"),
        ("hackbench --pipe --groups=1 --loops 7 -T", "hackbench -pipe 1 thread 7"),
        ("hackbench -p -g1 -l7 -P -f 20 -s 100", "hackbench -pipe 1 process 7"),
    ] {
        assert_eq!(digest(new), digest(old), "{new}");
    }
    assert_ne!(digest("hackbench -g 1 -l 7 -f 5"), digest("hackbench 1 process 7"));
}

/// The kernel refuses the call, and the task keeps its settings: a note, unless the run is strict.
#[test]
fn a_refused_policy_of_a_phase_is_a_note() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let text = r#"{"global":{"duration":1},"tasks":{"a":{"loop":2,"phases":{"p1":{"loop":1,"run":1000,"sleep":1000},
        "p2":{"loop":1,"policy":"SCHED_DEADLINE","dl-runtime":20000,"dl-period":10000,"run":1000,"sleep":1000}}}}}"#;
    let file = written(folder.path(), "refused.json", text);
    let output = vruntime(&["run", &file]);
    let stderr = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(output.status.success() && stderr.contains("EINVAL"), "{stderr}");
    assert!(stderr.contains("the task kept its settings"), "{stderr}");
    assert!(fails(&["run", &file, "--strict"]).contains("EINVAL"));
}

/// Files that describe no machine and no rule are named as such.
#[test]
fn other_files_are_no_machines_and_no_rules() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = data("../../../trace/tests/data/ftrace.txt").display().to_string();
    let empty = written(folder.path(), "empty.xml", "");
    let error = fails(&["machines", &empty]);
    assert!(error.contains("the file is empty") && error.contains("lstopo --of xml"), "{error}");
    let there = folder.path().display().to_string();
    for (name, what) in [(&trace, "is a file with another ending"), (&there, "is a folder")] {
        let error = fails(&["run", "beat.json", "--machine", name]).replace("\n  │ ", " ");
        assert!(error.contains(what), "{error}");
    }
    let error = fails(&["run", "beat.json", "--machine", "2", "--map", &trace]).replace("\n  │ ", " ");
    assert!(error.contains("is a file whose name does not end with .toml"), "{error}");
}
