//! rt-app files: whatever the bytes, a workload or an error that can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vruntime_workload::rtapp::{Options, parse};
use vruntime_workload::{Error, check};

fn can_be_shown(error: &Error) {
    for error in error.all() {
        if let Some(span) = error.span() {
            assert!(error.source_text().text().get(span).is_some());
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    for strict in [false, true] {
        match parse("fuzz.json", bytes, &Options { strict, max_tasks: 1000 }) {
            Ok(read) => {
                read.warnings.iter().for_each(can_be_shown);
                check::check(&read.workload, &read.places).iter().for_each(can_be_shown);
            }
            Err(error) => can_be_shown(&error),
        }
    }
});
