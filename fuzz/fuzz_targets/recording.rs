//! The section of a recording. Whatever the bytes, parts or an error, and what is read is written as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vruntime_trace::recording::Recording;
use vruntime_workload::cgroups::Cgroups;

fuzz_target!(|bytes: &[u8]| {
    let Ok(recording) = Recording::parse(bytes, 0) else { return };
    let written = recording.to_bytes();
    assert_eq!(Recording::parse(&written, 0).map(|again| again.to_bytes()).ok(), Some(written));
    for name in ["cgroups", "cgroups-after"] {
        if let Some(text) = recording.part(name) {
            let _ = Cgroups::read(name, text.as_bytes());
        }
    }
});
