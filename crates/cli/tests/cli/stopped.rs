//! Ctrl-C.

use std::fs;

use crate::support::*;

/// What a command prints that is stopped by Ctrl-C as soon as this file, one of those it leaves in a folder of its own, is long.
fn stopped(args: &[&str], once: &str) -> String {
    use std::process::{Command as Process, Stdio};

    let folder = tempfile::tempdir().unwrap();
    let child = Process::new(assert_cmd::cargo::cargo_bin("vruntime"))
        .current_dir(data(""))
        .args(args)
        .arg("--out")
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once a trace is being written the run has begun, and before that the handler was installed.
    let begun = || fs::metadata(folder.path().join(once)).is_ok_and(|file| file.len() > 100_000);
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

/// Ctrl-C stops a run that would take hours, prints what there is, and says so.
#[test]
fn ctrl_c_keeps_what_there_is() {
    let printed = stopped(&["run", "forever.json", "--machine", "2", "--duration", "100000s"], "trace.txt");
    assert!(printed.contains("stopped early") && printed.contains("digest"), "{printed}");
}

/// Whoever named a pipe to which nobody writes gets away with one Ctrl-C.
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

/// Of a comparison that is stopped, what has come to its end is compared; where a side has nothing of that kind nothing stands out.
#[test]
fn ctrl_c_compares_nothing_that_is_unequally_long() {
    let sides = ["compare", "forever.json", "--machine", "2", "--kernel", "6.1", "--kernel", "6.12"];
    let printed = stopped(&[&sides[..], &["--duration", "100000s", "--repeat", "3"]].concat(), "6.1/trace.txt");
    assert!(printed.contains("stopped early") && printed.contains("What differs is not told"), "{printed}");
    assert!(!printed.contains("stands out"), "{printed}");
}
