//! Scenario files: whatever the bytes, a scenario or an error that can be shown.
#![no_main]

#[path = "../shown.rs"]
mod shown;

use std::io;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario;

fuzz_target!(|bytes: &[u8]| {
    let loader = &mut |path: &Path| match path.to_str() {
        Some("a.json") => Ok(br#"{ "tasks" : { "a" : { "run" : 1, "suspend" } } }"#.to_vec()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    match scenario::parse("fuzz.toml", bytes, &Options { strict: false, max_tasks: 1000 }, loader) {
        Ok(read) => shown::read(&read.workload, &read.source_map, &read.warnings),
        Err(error) => shown::can_be_shown(&error),
    }
});
