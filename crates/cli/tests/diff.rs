//! `vruntime diff`.

use std::fs;

use assert_cmd::Command;
use serde_json::Value;

/// One CPU, two tasks in turn. The caller says when `second` runs, and after which task.
fn trace(turns: &[(&str, f64)]) -> String {
    let pid = |name: &str| match name {
        "one" => 11,
        "two" => 12,
        _ => 13,
    };
    let mut prev = "one";
    let mut text = String::new();
    for &(next, at) in turns {
        let (from, to) = (pid(prev), pid(next));
        let happens = format!("{prev:>16}-{from} [000] d..2. {at:.6}: sched_switch: ");
        let fields = format!("prev_comm={prev} prev_pid={from} prev_prio=120 prev_state=R ==> next_comm={next}");
        text.extend([happens, fields, format!(" next_pid={to} next_prio=120\n")]);
        prev = next;
    }
    text
}

/// Traces that never agree again: both sides of the difference are shown, up to the requested length.
#[test]
fn a_place_that_never_ends_is_not_shown_to_its_end() {
    let turns = |of: [&'static str; 2]| -> Vec<(&str, f64)> {
        (0..300_u32).map(|turn| (of[turn as usize % 2], 1.0 + f64::from(turn) / 1e3)).collect()
    };
    let (a, b) = (trace(&turns(["two", "one"])), trace(&turns(["three", "one"])));
    let shown = |more: &[&str]| {
        let (code, text, _) = diff(&a, &b, more);
        assert_eq!(code, Some(2));
        let hunk = text.split_once("of each trace):\n\n").expect("they part").1.to_owned();
        let of = |sign: char| hunk.lines().filter(|line| line.starts_with(sign)).count();
        (of('A'), of('B'), hunk)
    };
    let (ours, theirs, hunk) = shown(&["--hunks", "1"]);
    assert_eq!((ours, theirs), (21, 21), "20 of each, and dots: {hunk}");
    assert!(hunk.ends_with("  ... and 560 more events here (--lines)\n"), "{hunk}");
    let (ours, theirs, hunk) = shown(&["--hunks", "1", "--lines", "10000"]);
    assert_eq!((ours, theirs), (300, 300));
    assert!(!hunk.contains("..."), "{hunk}");
}

/// Traces that differ and agree in quick alternation are one difference, shown no longer than others.
#[test]
fn a_place_of_many_small_differences_is_not_shown_to_its_end() {
    let turns = |of: [&'static str; 4]| -> Vec<(&str, f64)> {
        (0..400_u32).map(|turn| (of[turn as usize % 4], 1.0 + f64::from(turn) / 1e3)).collect()
    };
    let (a, b) = (trace(&turns(["two", "one", "two", "one"])), trace(&turns(["two", "one", "three", "one"])));
    let (code, text, _) = diff(&a, &b, &["--hunks", "1"]);
    let (_, hunk) = text.split_once("of each trace):\n\n").expect("they part");
    assert_eq!(code, Some(2));
    assert!(hunk.lines().count() <= 50, "{} lines: {hunk}", hunk.lines().count());
    assert!(hunk.contains(" more events here (--lines)"), "{hunk}");
}

fn diff(a: &str, b: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [("a.txt", a), ("b.txt", b)] {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    let mut command = Command::cargo_bin("vruntime").expect("the command is built");
    let output = command.current_dir(folder.path()).args(["diff", "a.txt", "b.txt"]).args(more).output();
    let output = output.expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Lost events can hide differences.
#[test]
fn lost_events_are_named() {
    let whole = trace(&[("two", 1.0), ("one", 1.004), ("two", 1.008)]);
    let lossy = format!("CPU:0 [LOST 500 EVENTS]\nCPU:3 [LOST 7 EVENTS]\n{whole}");
    for (a, b) in [(&whole, &lossy), (&lossy, &whole)] {
        let (code, out, _) = diff(a, b, &[]);
        assert_eq!(code, Some(2), "{out}");
        assert!(out.contains("is damaged: the recording lost 507 events, in 2 gaps"), "{out}");
        assert!(out.contains("The damage may hide differences") && !out.contains("The same events"), "{out}");
        let (code, out, _) = diff(a, b, &["--json"]);
        assert!(code == Some(2) && out.contains("the recording lost 507 events, in 2 gaps"), "{out}");
        let (_, out, _) = diff(a, b, &["--cpu", "0"]);
        assert!(out.contains("the recording lost 500 events, in 1 gap"), "{out}");
    }
}

/// Other damage without a difference has the status of an incomplete comparison, too.
#[test]
fn damage_without_a_difference_is_not_the_same() {
    let whole = trace(&[("two", 1.0), ("one", 1.004), ("two", 1.008)]);
    let (code, out, _) = diff(&whole, &format!("{whole}one-11 [000"), &[]);
    assert!(code == Some(2) && out.contains("The damage may hide differences"), "{out}");
}

/// A share of 100 % means that all events are alike.
#[test]
fn a_share_is_rounded_down() {
    let mut turns: Vec<(&str, f64)> =
        (0..4738_u32).map(|turn| (["two", "one"][turn as usize % 2], 1.0 + f64::from(turn) / 1e3)).collect();
    let a = trace(&turns);
    turns[4737].0 = "three";
    let (code, out, _) = diff(&a, &trace(&turns), &[]);
    let row = out.lines().find(|line| line.contains(" 4737 ")).expect("a row");
    assert!(code == Some(2) && row.contains(" 99.9 ") && !row.contains("100.0"), "{out}");
}

#[test]
fn the_same_order_at_other_times_is_the_same() {
    let a = trace(&[("two", 1.0), ("one", 1.004), ("two", 1.008)]);
    let b = trace(&[("two", 7.0), ("one", 7.003), ("two", 7.006)]);
    let (code, out, err) = diff(&a, &b, &[]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("The same events in the same order"), "{out}");
}

#[test]
fn the_first_divergence_is_shown_and_what_follows_is_aligned() {
    let a = trace(&[("two", 1.0), ("one", 1.004), ("two", 1.008), ("one", 1.012), ("two", 1.016)]);
    let b = trace(&[("two", 1.0), ("one", 1.004), ("three", 1.006), ("two", 1.008), ("one", 1.012), ("two", 1.016)]);
    let (code, out, err) = diff(&a, &b, &[]);
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(out.contains("B       6.000000  switch one (R) -> three"), "{out}");
    let (code, out, _) = diff(&a, &b, &["--json"]);
    let json: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (code, json[0]["first_divergence"]["after"].as_u64(), json[0]["alike"].as_u64()),
        (Some(2), Some(2), Some(4))
    );
}

#[test]
fn the_table_of_cpus_is_a_file() {
    let out = tempfile::tempdir().expect("a folder");
    let a = trace(&[("two", 1.0), ("one", 1.004), ("two", 1.008)]);
    let b = trace(&[("two", 1.0), ("three", 1.004), ("two", 1.008)]);
    let (code, _, err) = diff(&a, &b, &["--tables", &out.path().display().to_string()]);
    assert_eq!(code, Some(2), "{err}");
    let csv = fs::read_to_string(out.path().join("diff.csv")).expect("it is there");
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(
        rows[0],
        "cpu,events_a,events_b,alike,share_alike,until_event,parts_at_ns,shift_ns,not_compared_a,not_compared_b,alike_is_lower_bound"
    );
    assert!(rows[1].starts_with("0,3,3,1,0.33") && rows[1].ends_with(",1,4000000,0,0,0,0") && rows.len() == 2, "{csv}");
}

#[test]
fn what_cannot_be_compared_is_reported() {
    let (code, _, err) = diff(&trace(&[("two", 1.0)]), "nothing\n", &[]);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("b.txt"), "{err}");
    let (code, _, err) = diff(&trace(&[("two", 1.0)]), &trace(&[("two", 1.0)]), &["--task", "nobody"]);
    assert!(code == Some(1) && err.contains("there is no task `nobody` in "), "{err}");
    let (code, _, err) = diff(&trace(&[("two", 1.0)]), &trace(&[("two", 1.0)]), &["--task", "twoo"]);
    assert!(code == Some(1) && err.contains("did you mean `two`?"), "{err}");
    let (code, _, err) = diff(&trace(&[("two", 1.0)]), &trace(&[("two", 1.0)]), &["--cpu", "9"]);
    assert!(code == Some(1) && err.contains("to compare on CPU 9"), "{err}");
}

/// After exec a task has its new name.
#[test]
fn tasks_are_called_by_their_names_of_then() {
    let line = |at: f64, prev: &str, next: &str| {
        let fields =
            format!("prev_comm={prev} prev_pid=11 prev_prio=120 prev_state=S ==> next_comm={next} next_pid=12");
        format!("{prev:>16}-11 [000] d..2. {at:.6}: sched_switch: {fields} next_prio=120\n")
    };
    let a = line(1.0, "bash", "bash") + &line(1.004, "bash", "yes") + &line(1.008, "bash", "yes");
    let (code, out, err) = diff(&a, &a, &["--task", "yes"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let (_, out, _) = diff(&a, &line(1.0, "bash", "bash"), &["--task", "yes"]);
    assert!(!out.contains("bash#3"), "{out}");
}

/// Tasks with equal pid and name are one, in any order. For others, the order decides.
#[test]
fn pids_in_common_go_before_the_order() {
    let line = |at: f64, prev: i32, next: i32| {
        let fields =
            format!("prev_comm=web prev_pid={prev} prev_prio=120 prev_state=R ==> next_comm=web next_pid={next}");
        format!("web-{prev} [000] d..2. {at:.6}: sched_switch: {fields} next_prio=120\n")
    };
    let a = line(1.0, 11, 12) + &line(1.004, 12, 13);
    let (code, out, err) = diff(&a, &(line(1.0, 12, 13) + &line(1.004, 13, 11)), &[]);
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(out.contains("switch web#2 (R) -> web#3") && out.contains("switch web#3 (R) -> web\n"), "{out}");
    let (code, out, err) = diff(&a, &(line(1.0, 91, 92) + &line(1.004, 92, 93)), &[]);
    assert_eq!(code, Some(0), "{out}{err}");
}

/// Ctrl-C during an endless trace.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_it() {
    use std::io::Write;
    use std::process::{Command as Process, Stdio};

    let folder = tempfile::tempdir().expect("a folder");
    let some = trace(&[("two", 1.0), ("one", 1.004)]);
    fs::write(folder.path().join("b.txt"), &some).expect("a file");
    let mut child = Process::new(assert_cmd::cargo::cargo_bin("vruntime"))
        .current_dir(folder.path())
        .args(["diff", "-", "b.txt"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    let lines = some.repeat(1000);
    // More than any pipe holds: it reads.
    for _ in 0..20 {
        input.write_all(lines.as_bytes()).expect("it reads");
    }
    let interrupt = Process::new("kill").args(["-INT", &child.id().to_string()]).status().expect("there is kill");
    assert!(interrupt.success());
    // Far more than it reads between two checks of the signal: it ends before it has read all.
    let gone = (0..2000).any(|_| input.write_all(lines.as_bytes()).is_err());
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(gone, "it went on");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(130), 0), "{output:?}");
}

/// All events are compared, up to `--limit`. Events beyond it prove no agreement.
#[test]
fn nothing_is_called_the_same_that_was_not_compared() {
    let turns = |last: &'static str| -> Vec<(&str, f64)> {
        let turns = (0..12_000_u32).map(|turn| (["two", "one"][turn as usize % 2], 1.0 + f64::from(turn) / 1e3));
        turns.chain([(last, 20.0)]).collect()
    };
    let (a, b) = (trace(&turns("two")), trace(&turns("three")));
    let (code, out, err) = diff(&a, &b, &[]);
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(out.contains("A   19000.000000  switch one (R) -> two"), "{out}");
    assert_eq!(diff(&a, &a, &[]).0, Some(0));
    assert_eq!(diff(&a, &a, &["--limit", "12001"]).0, Some(0), "the limit leaves nothing out");
    for b in [&a, &b] {
        let (code, out, err) = diff(&a, b, &["--limit", "10000"]);
        assert_eq!(code, Some(2), "{out}{err}");
        assert!(
            !out.contains("The same") && out.contains("Not compared because of --limit: 2001 events of A, 2001"),
            "{out}"
        );
    }
    let (code, out, _) = diff(&a, &a, &["--limit", "10000", "--json"]);
    let json: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, json[0]["not_compared"][0].as_u64()), (Some(2), Some(2001)));
}

/// Long traces that have little in common are compared to their end. The output says that the search is not exhaustive.
#[test]
fn long_traces_that_differ_all_along_are_compared() {
    let turns = |of: [&'static str; 5]| -> Vec<(&str, f64)> {
        (0..30_000_u32).map(|turn| (of[turn as usize % 5], 1.0 + f64::from(turn) / 1e3)).collect()
    };
    let a = trace(&turns(["two", "one", "two", "three", "one"]));
    let b = trace(&turns(["two", "one", "three", "two", "three"]));
    let (code, out, err) = diff(&a, &b, &["--json"]);
    let json: Value = serde_json::from_str(&out).expect("JSON");
    let alike = json[0]["alike"].as_u64().expect("a number");
    assert_eq!((code, json[0]["alike_is_lower_bound"].as_bool()), (Some(2), Some(true)), "{err}");
    assert!((2..30_000).contains(&alike) && json[0]["first_divergence"]["after"] == 2, "{out}");
    let (_, out, _) = diff(&a, &b, &[]);
    assert!(out.contains("`alike` is a lower bound on CPU 0"), "{out}");
}
