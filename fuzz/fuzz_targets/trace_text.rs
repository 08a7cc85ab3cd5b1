//! Traces: text of the kernel, of trace-cmd, of perf script, and inside systrace's pages. Whatever the bytes, events or
//! an error.
#![no_main]

#[path = "../read.rs"]
mod read;

use libfuzzer_sys::fuzz_target;
use vruntime_trace::read::TextReader;

fuzz_target!(|bytes: &[u8]| {
    read::to_the_end(TextReader::new(bytes));
});
