//! Ctrl-C.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::for_all;
use crate::skip;
use crate::support::*;

/// Returns the output of a command that Ctrl-C stops as soon as this file in a new folder is long.
fn stopped(args: &[&str], once: &str) -> String {
    stopped_in(tempfile::tempdir().unwrap().path(), args, once)
}

/// As [`stopped`], in that folder.
fn stopped_in(folder: &Path, args: &[&str], once: &str) -> String {
    use std::process::{Command as Process, Stdio};

    let child = Process::new(assert_cmd::cargo::cargo_bin("vruntime"))
        .current_dir(data(""))
        .args(args)
        .arg("--out")
        .arg(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once a trace is being written the run has begun, and before that the handler was installed.
    // It is written under a temporary name beside it.
    let begun = || {
        let beside = folder.join(once);
        let files = beside.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).any(|file| file.is_file() && file.len() > 100_000)
    };
    for _ in 0..600 {
        if begun() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(Process::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{printed}");
    printed
}

/// Ctrl-C stops a run of hours, which prints its results so far, and says so.
#[test]
fn ctrl_c_keeps_what_there_is() {
    let printed = stopped(&["run", "forever.json", "--machine", "2", "--duration", "100000s"], "trace.txt");
    assert!(printed.contains("stopped early") && printed.contains("digest"), "{printed}");
}

/// The tables of an interrupted run or comparison have a note on it.
#[test]
fn ctrl_c_is_noted_beside_the_tables() {
    let tables = tempfile::tempdir().unwrap();
    let folder = tables.path().display().to_string();
    let options = ["forever.json", "--machine", "2", "--duration", "100000s", "--tables", &folder];
    let notes = || fs::read_to_string(tables.path().join("notes.csv")).unwrap();
    stopped(&[&["run"][..], &options].concat(), "trace.txt");
    assert!(notes().contains("seed 1 stopped early at "), "{}", notes());
    let kernels = ["--kernel", "6.1", "--kernel", "6.12", "--repeat", "1"];
    stopped(&[&["compare"][..], &options, &kernels].concat(), "6.1/trace.txt");
    assert!(notes().contains("6.1: seed 1 stopped early at "), "{}", notes());
}

/// No seed has ended: there is no table over seeds, nor its head.
#[test]
fn ctrl_c_tells_of_seeds_none_of_which_came_to_its_end() {
    let run = ["run", "forever.json", "--machine", "2", "--duration", "100000s", "--repeat", "3"];
    let printed = stopped(&run, "trace.txt");
    assert!(printed.contains("Above: seed 1. None of 3 seeds was completed.\n"), "{printed}");
    assert!(!printed.contains("Over "), "{printed}");
}

/// One Ctrl-C ends the wait for a named pipe without a writer.
#[test]
fn ctrl_c_ends_what_waits_for_its_input() {
    use std::io::Write;
    use std::process::{Command as Process, Stdio};

    let mut child = Process::new(assert_cmd::cargo::cargo_bin("vruntime"))
        .args(["run", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // More than a pipe holds: when it is written, most has been read.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&vec![b' '; 1 << 20]).unwrap();
    assert!(Process::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(stdin);
}

/// A finished run is not compared with a stopped one.
#[test]
fn ctrl_c_leaves_no_values_of_a_side_without_a_finished_run() {
    let folder = tempfile::tempdir().unwrap();
    let [short, long] = [("short", "1ms"), ("long", "100000s")].map(|(name, duration)| {
        let file = folder.path().join(format!("{name}.toml"));
        let task = "[[task]]\nname = \"a\"\nrun = \"100us\"\nsleep = \"100us\"\n";
        fs::write(&file, format!("machine = \"1\"\nduration = \"{duration}\"\n{task}")).unwrap();
        file.display().to_string()
    });
    let compare = ["compare", &short, &long, "--repeat", "3"];
    let printed = stopped(&compare, "long/trace.txt");
    assert!(printed.contains("seeds: stopped early") && printed.contains("No run of long was completed"), "{printed}");
    assert!(!printed.contains("stands out"), "{printed}");
    let row = printed.lines().find(|line| line.contains("CPU %")).expect("a row");
    assert!(row.trim_end().ends_with(" -") && !row.contains("pp"), "{printed}");
    let out = tempfile::tempdir().unwrap();
    let json = stopped_in(out.path(), &[&compare[..], &["--json"]].concat(), "long/trace.txt");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    // What is left of each side says the same: a fragment is none of what came to its end.
    for (run, side) in ["short", "long"].into_iter().enumerate() {
        let left: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(out.path().join(side).join("results.json")).unwrap()).unwrap();
        assert!(left["finished"].is_u64() && left["finished"] == json["runs"][run]["finished"], "{side}: {left:#}");
    }
    assert!(json["runs"][0]["finished"].as_u64() > Some(0) && json["runs"][1]["finished"] == 0, "{json:#}");
    assert!(json["cells"].as_array().unwrap().iter().all(|cell| cell["values"][1]["mean"].is_null()), "{json:#}");
}

/// A replay with several seeds counts those that ended on both sides: they run side by side.
#[test]
fn ctrl_c_leaves_whole_seeds_of_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.txt");
    let mut text = String::new();
    let mut prev = ("swapper/0", 0);
    for slice in 0..50_000 {
        let next = if slice % 2 == 0 { ("a", 5) } else { ("b", 6) };
        let (at, (prev_comm, prev_pid), (comm, pid)) = (slice * 4, prev, next);
        let _ = writeln!(
            text,
            " {prev_comm}-{prev_pid} [000] {}.{:03}000: sched_switch: prev_comm={prev_comm} prev_pid={prev_pid} prev_prio=120 \
             prev_state=R ==> next_comm={comm} next_pid={pid} next_prio=120",
            at / 1000,
            at % 1000
        );
        prev = next;
    }
    fs::write(&trace, text).unwrap();
    let file = trace.display().to_string();
    let printed = stopped(&["replay", &file, "--map", "a: nice=5", "--repeat", "1000"], "what-if/trace.txt");
    let heading = printed.lines().find(|line| line.ends_with("~ change within the spread")).expect("a line");
    let whole: u32 = heading.split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{heading}"));
    assert!(whole < 1000 && heading.contains(" of 1000 seeds, stopped early: "), "{heading}");
    assert!(whole == 0 || heading.contains("mean of the complete seeds"), "{heading}");
    let row = printed.lines().find(|line| line.starts_with("a-5 ")).expect("a row");
    assert!(row.contains(" pp"), "both sides have values: {row}");
}

/// A stopped comparison compares what has ended. If nothing has, nothing stands out.
#[test]
fn ctrl_c_compares_nothing_that_is_unequally_long() {
    let sides = ["compare", "forever.json", "--machine", "2", "--kernel", "6.1", "--kernel", "6.12"];
    let printed = stopped(&[&sides[..], &["--duration", "100000s", "--repeat", "3"]].concat(), "6.1/trace.txt");
    assert!(
        printed.contains("stopped early") && printed.contains("All runs were stopped before their end"),
        "{printed}"
    );
    assert!(!printed.contains("stands out"), "{printed}");
}

/// With one allowed thread, comparisons still run. If observers need threads, the error names the limit.
#[test]
fn without_threads_it_takes_longer_or_is_reported() {
    let out = tempfile::tempdir().unwrap();
    std::fs::set_permissions(out.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let bin = tempfile::tempdir().unwrap();
    let program = for_all::copied(bin.path());
    let hog = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(hog.path(), r#"{"tasks":{"h":{"run":1000,"loop":-1}}}"#).unwrap();
    let limited = |arguments: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65533", "--regid=65533", "--clear-groups", "prlimit", "--nproc=1"]);
        command.arg(&program).args(arguments).current_dir(out.path());
        command.stdin(std::fs::File::open(hog.path()).unwrap()).output()
    };
    let path = out.path().to_str().expect("it is UTF-8");
    let stderr = match limited(&["run", "-", "--duration", "10ms", "--out", path]) {
        Ok(output) if !output.status.success() => text(&output.stderr),
        other => {
            return skip::skip(&format!("a limit of threads needs setpriv, prlimit, root and two CPUs: {other:?}"));
        }
    };
    if !stderr.contains("cannot make a thread") {
        return skip::skip(&format!("a limit of threads needs setpriv, prlimit and root: {stderr}"));
    }
    assert!(stderr.contains("ulimit -u") && !stderr.contains("panicked"), "{stderr}");
    let compared = limited(&["compare", "-", "--kernel", "6.1", "--kernel", "6.12", "--duration", "10ms"]).unwrap();
    assert!(compared.status.success(), "{compared:?}");
}
