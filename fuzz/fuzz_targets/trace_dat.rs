//! Traces: trace.dat. Whatever the bytes, events or an error.
#![no_main]

#[path = "../read.rs"]
mod read;

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use vruntime_trace::read::TraceDat;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(events) = TraceDat::new(Cursor::new(bytes)) {
        read::to_the_end(events);
    }
});
