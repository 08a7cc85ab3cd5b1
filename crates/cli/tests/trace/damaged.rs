//! Missing parts of traces: recordings are damaged as real ones are, and all commands must agree on the loss.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{DATA, recordings, vruntime};

#[path = "../../../../tests/lacks.rs"]
mod losses;

/// Without switches, no time of any task is known. Only migrations are.
#[test]
fn a_trace_without_switches_is_not_analysed() {
    let samples = "iperf 28736 [002] 5.000001: cpu-clock: \niperf 28736 [002] 5.001001: cpu-clock: \n\
                   iperf 28736 [002] 5.001002: sched:sched_migrate_task: comm=a pid=7 prio=120 orig_cpu=1 dest_cpu=0\n";
    let error = super::fails(&["trace", "analyse", "-"], samples.as_bytes());
    assert!(error.contains("has no sched_switch, so it is unknown which tasks ran"), "{error}");
    let migrations = super::well(&["trace", "analyse", "-", "migrations"], samples.as_bytes());
    assert!(migrations.contains("Migrations by cause"), "{migrations}");
}

/// The losses that `trace info` and `trace analyse` both report, and `replay` if it takes the trace; None if it is no
/// trace.
fn lacks(path: &Path) -> Option<[u64; 3]> {
    let file = path.display().to_string();
    let json = |arguments: &[&str]| -> Option<Value> {
        let output = vruntime(&[arguments, &[&file, "--json"]].concat(), b"");
        output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
    };
    let info = json(&["trace", "info"])?;
    let analysed = json(&["trace", "analyse"]).expect("what has events is analysed");
    let replayed = (info["replay"]["possible"] == true)
        .then(|| json(&["replay", "--as-recorded"]).expect("`trace info` says that it can be replayed"));
    Some(losses::lacks(&info, &analysed, replayed.as_ref()).unwrap_or_else(|error| panic!("{file}: {error}")))
}

/// `trace info`, `trace analyse` and `replay` report the same losses of unchanged recordings.
#[test]
fn what_a_trace_lacks_is_counted_alike() {
    let files = fs::read_dir(DATA).unwrap().map(|entry| entry.unwrap().path());
    let read: Vec<_> = files.filter(|path| lacks(path).is_some()).collect();
    assert_eq!(read.len(), 21, "all recordings that are not compressed: {read:?}");
}

fn from_idle(line: &str) -> bool {
    line.contains("sched:sched_switch: prev_comm=swapper/")
}

fn wakes(line: &str) -> bool {
    ["sched:sched_waking:", "sched:sched_wakeup:", "sched:sched_wakeup_new:"].iter().any(|event| line.contains(event))
}

/// All commands report the same missing events.
#[test]
fn what_a_damaged_trace_lacks_is_counted_alike() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read_to_string(recordings::whole("mix", folder.path())).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let is_switch = |line: &str| line.contains("sched:sched_switch:");
    let written = |name: &str, kept: &[&str], end: &str| {
        let path = folder.path().join(name);
        fs::write(&path, kept.join("\n") + end).unwrap();
        lacks(&path).unwrap()
    };
    let before = written("whole.txt", &lines, "\n");
    // Every 40th of what `gone` names.
    let without = |name: &str, gone: &dyn Fn(&str) -> bool| {
        let mut seen = 0;
        let mut removed = 0;
        let kept: Vec<&str> = lines
            .iter()
            .copied()
            .filter(|line| {
                seen += u64::from(gone(line));
                let is_removed = gone(line) && seen % 40 == 0;
                removed += u64::from(is_removed);
                !is_removed
            })
            .collect();
        assert!(removed > 10, "{name}: {removed}");
        (written(name, &kept, "\n"), removed)
    };
    // Switches from tasks that were never switched in.
    let (found, removed) = without("switches.txt", &|line| is_switch(line) && !from_idle(line));
    assert!(found[0] > before[0] + removed / 2, "{found:?} of {removed}, {before:?} before");
    // A machine that records no switch from the idle task.
    let (found, removed) = without("arrivals.txt", &from_idle);
    assert!(found[1] > before[1] + removed / 2, "{found:?} of {removed}, {before:?} before");
    let none: Vec<&str> = lines.iter().copied().filter(|line| !from_idle(line)).collect();
    let found = written("no-arrivals.txt", &none, "\n");
    assert!(found[1] > (lines.len() - none.len()) as u64 / 2, "{found:?}");
    // Wakeups are missing all at once: events of a kind that were not recorded are no damage.
    let from = lines.len() / 2;
    let kept: Vec<&str> =
        lines.iter().enumerate().filter(|(at, line)| *at < from || !wakes(line)).map(|(_, line)| *line).collect();
    let removed = (lines.len() - kept.len()) as u64;
    let found = written("wakeups.txt", &kept, "\n");
    assert!(removed > 1000 && found[2] > before[2] + removed / 4, "{found:?} of {removed}, {before:?} before");
    // The buffer lost a stretch, with or without a record of the loss.
    let time = lines[from].split_once("] ").unwrap().1.trim_start().split_once(": ").unwrap().0;
    let loss = format!("swapper 0/0 [001] {time}: PERF_RECORD_LOST lost 300");
    for has_record in [true, false] {
        let mut kept = lines.clone();
        kept.drain(from..from + 300);
        if has_record {
            kept.insert(from, &loss);
        }
        written("lost.txt", &kept, "\n");
    }
    // The last line ends in its middle.
    let mut kept = lines[..from].to_vec();
    let last = kept.pop().unwrap();
    kept.push(&last[..last.len() / 2]);
    written("cut.txt", &kept, "");
    // Unreadable lines.
    let mut kept = lines.clone();
    (0..20).for_each(|at| kept.insert(at * 300, "  ~~ (null) [xyz]"));
    assert_eq!(written("unreadable.txt", &kept, "\n"), before);
}

/// `analyse`, `diff` and `replay` report the damage that `trace info` reports: as text, as JSON, and beside tables.
#[test]
fn every_command_reports_damage() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read_to_string(recordings::whole("mix", folder.path())).unwrap();
    let mut lines: Vec<&str> = whole.lines().collect();
    (0..20).for_each(|at| lines.insert(at * 300, "  ~~ (null) [xyz]"));
    let path = folder.path().join("damaged.txt");
    let text = lines.join("\n");
    fs::write(&path, &text[..text.len() - 40]).unwrap();
    let (file, out) = (path.display().to_string(), folder.path().join("tables").display().to_string());
    let check_damage = |what: &str, text: &[u8]| {
        let text = String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("the file ends within line"), "{what}: {text}");
        assert!(text.contains("20 lines or records could not be read"), "{what}: {text}");
        text
    };
    for command in [&["trace", "analyse", &file][..], &["replay", "--as-recorded", &file], &["diff", &file, &file]] {
        check_damage("text", &vruntime(command, b"").stdout);
        check_damage("JSON", &vruntime(&[command, &["--json"]].concat(), b"").stdout);
    }
    check_damage("timehist", &vruntime(&["trace", "analyse", &file, "timehist"], b"").stderr);
    // A comparison of damaged files is incomplete.
    for (command, status) in [(&["trace", "analyse", &file][..], 0), (&["diff", &file, &file], 2)] {
        assert_eq!(vruntime(&[command, &["--tables", &out]].concat(), b"").status.code(), Some(status));
        check_damage("tables", &fs::read(Path::new(&out).join("notes.csv")).expect("there are notes"));
        fs::remove_dir_all(&out).unwrap();
    }
    assert!(!check_damage("diff", &vruntime(&["diff", &file, &file], b"").stdout).contains("The same events"));
}

/// The error of a trace whose events are cut off says so.
#[test]
fn a_trace_without_its_events_is_reported_as_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(Path::new(DATA).join("trace-v6.dat")).unwrap();
    let path = folder.path().join("cut.dat");
    fs::write(&path, &whole[..whole.len() * 7 / 10]).unwrap();
    let file = path.display().to_string();
    for command in [&["trace", "analyse", &file][..], &["diff", &file, &file], &["replay", &file]] {
        let output = vruntime(command, b"");
        let stderr = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(output.status.code() == Some(1) && stderr.contains("may have been cut off"), "{command:?}: {stderr}");
    }
}

/// A file ends before its last CPU's data does: that CPU's further activity is unknown.
#[test]
fn a_cpu_whose_data_is_cut_off_has_lost_events() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(Path::new(DATA).join("trace-v6.dat")).unwrap();
    let path = folder.path().join("cut.dat");
    let file = path.display().to_string();
    let losses = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let json = |words: &[&str]| -> Value {
            serde_json::from_slice(&vruntime(&[words, &[&file, "--json"]].concat(), b"").stdout).expect("JSON")
        };
        let (info, analysed) = (json(&["trace", "info"]), json(&["trace", "analyse"]));
        assert_eq!(info["loss"]["losses"], analysed["faults"]["losses"]);
        assert_eq!(info["loss"]["lost"], analysed["faults"]["lost"]);
        (info["loss"]["losses"].as_u64().unwrap(), info["loss"]["unterminated"].is_string())
    };
    let (before, cut) = losses(&whole);
    assert!(!cut);
    let (after, cut) = losses(&whole[..whole.len() - 4096]);
    assert!(cut && after > before, "{after} losses, {before} before");
}
