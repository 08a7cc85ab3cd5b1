//! Shared code of the command's tests, which runs it in their data folder.
#![allow(dead_code, unreachable_pub)] // each test binary uses some of it

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;

/// A scenario with every table of a run: limits, deadlines, frequencies and real-time groups.
pub const EVERYTHING: &str = r#"
[scenario]
kernel = "6.6"
duration = "1s"

[machine]
topology = "2"
governor = "schedutil"

[groups."/limited"]
max = "50ms/100ms"

[groups."/rt"]
rt_runtime = "10ms"
rt_period = "100ms"

[[task]]
name = "dated"
policy = "SCHED_DEADLINE"
runtime = "2ms"
deadline = "10ms"
period = "20ms"
overrun = true
run = "3ms"
sleep = "17ms"

[[task]]
name = "logger"
group = "/rt"
policy = "SCHED_FIFO"
priority = 90
run = "1ms"

[[task]]
name = "batch"
instance = 3
group = "/limited"
run = "1ms"
sleep = "1ms"
"#;

pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub fn vruntime(arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("vruntime").expect("cargo has built it");
    // Paths in messages are as given, so relative ones are the same everywhere.
    command.current_dir(data("")).env("NO_COLOR", "1").env("COLUMNS", "100").args(arguments);
    command.output().expect("it runs")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints UTF-8")
}

/// Returns the standard output of a successful command.
pub fn well(arguments: &[&str]) -> String {
    let output = vruntime(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the standard error of a command that rejects its input.
pub fn fails(arguments: &[&str]) -> String {
    let output = vruntime(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stderr));
    assert!(output.stdout.is_empty(), "{arguments:?} printed {}", text(&output.stdout));
    text(&output.stderr)
}

pub fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&well(arguments)).expect("it prints JSON")
}
