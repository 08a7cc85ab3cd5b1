//! Replays: see `replays.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../replays.rs"]
mod replays;

fuzz_target!(|bytes: &[u8]| {
    replays::replay(bytes);
});
