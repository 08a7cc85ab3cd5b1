//! What a test leaves out because this machine lacks something. The test runner counts such a test as passed, and shows
//! nothing of what it prints; `.ci/run` counts and prints these reports. Each test that needs it has this file as a
//! module.

use std::fs::OpenOptions;
use std::io::Write;

/// Tells that the test, or a part of it, is left out, and why: a line of the file that `VRUNTIME_SKIPPED` names.
pub(crate) fn skip(why: &str) {
    let thread = std::thread::current();
    let line = format!("{} {}: {why}\n", env!("CARGO_CRATE_NAME"), thread.name().unwrap_or("a test"));
    eprint!("skipped: {line}");
    let Some(path) = std::env::var_os("VRUNTIME_SKIPPED") else { return };
    // Tests run beside each other: a line is written at once, to the end.
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "{}: {written:?}", path.display());
}
