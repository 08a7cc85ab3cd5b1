//! One of something is singular.

use std::fs;

use super::*;

/// Counted things, in the plural.
const SEVERAL: [&str; 13] = [
    "CPUs",
    "capacities",
    "events",
    "groups",
    "migrations",
    "places",
    "rows",
    "seeds",
    "switches",
    "tasks",
    "threads",
    "times",
    "warnings",
];

/// If there is one of everything, no sentence has a plural.
#[test]
fn one_of_something_is_no_plural() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path in UTF-8").to_owned();
    let [one, out, all] = ["one.json", "out", "all.txt"].map(path);
    let trace = format!("{out}/trace.txt");
    let text = r#"{ "tasks": { "only": { "loop": 1, "run": 3000, "sleep": 1000, "run1": 3000 } } }"#;
    fs::write(&one, text).expect("it can be written");
    // One event.
    let other = " only-1 [000] 0.000001: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120\n";
    fs::write(&all, other).expect("it can be written");
    let run = vruntime(&["run", &one, "--machine", "1", "--out", &out, "--analyse", "latency,runqueue,migrations"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let commands: [&[&str]; 6] = [
        &["run", &one, "--machine", "1"],
        &["replay", &trace],
        &["replay", &trace, "--kernel", "6.1"],
        &["trace", "info", &trace],
        &["trace", "analyse", &trace, "latency", "runqueue", "timehist", "--rows", "1"],
        &["diff", &all, &all],
    ];
    let outputs = commands.map(vruntime).into_iter().chain([run]);
    for output in outputs {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let streams = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("it prints UTF-8"));
        for line in streams.iter().flat_map(|text| text.lines()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let wrong = words.windows(2).any(|pair| {
                pair[0] == "1" && SEVERAL.contains(&pair[1].trim_matches(|letter: char| !letter.is_alphanumeric()))
            });
            assert!(!wrong, "{line}");
        }
    }
}
