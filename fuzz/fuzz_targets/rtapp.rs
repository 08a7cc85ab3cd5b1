//! rt-app files: whatever the bytes, a workload or an error that can be shown.
#![no_main]

#[path = "../shown.rs"]
mod shown;

use libfuzzer_sys::fuzz_target;
use vruntime_workload::rtapp::{Options, parse};

fuzz_target!(|bytes: &[u8]| {
    for strict in [false, true] {
        match parse("fuzz.json", bytes, &Options { strict, max_tasks: 1000 }) {
            Ok(read) => shown::read(&read.workload, &read.source_map, &read.warnings),
            Err(error) => shown::can_be_shown(&error),
        }
    }
});
