//! Scenario files: whatever the bytes, a scenario or an error that can be shown.
#![no_main]

use std::io;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use vruntime_workload::rtapp::Options;
use vruntime_workload::{Error, check, scenario};

fn can_be_shown(error: &Error) {
    for error in error.all() {
        if let Some(span) = error.span() {
            assert!(error.source_text().text().get(span).is_some());
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let loader = &mut |path: &Path| match path.to_str() {
        Some("a.json") => Ok(br#"{ "tasks" : { "a" : { "run" : 1, "suspend" } } }"#.to_vec()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    match scenario::parse("fuzz.toml", bytes, &Options { strict: false, max_tasks: 1000 }, loader) {
        Ok(read) => {
            read.warnings.iter().for_each(can_be_shown);
            check::check(&read.workload, &read.places).iter().for_each(can_be_shown);
        }
        Err(error) => can_be_shown(&error),
    }
});
