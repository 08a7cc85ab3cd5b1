//! Whether the parent closed standard output.
//!
//! Rust's runtime opens `/dev/null` in place of a closed standard stream before `main`, so the check runs earlier.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls the functions of this section once, before `main`, with C's convention. `check` needs
// nothing of Rust's runtime: it makes a system call, and sets an atomic.
#[used]
#[unsafe(link_section = ".init_array")]
static CHECK: extern "C" fn() = check;

extern "C" fn check() {
    // SAFETY: F_GETFD takes no pointer, and has no effect on the descriptor.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Returns whether standard output was closed when the program began (`>&-` of a shell).
pub fn stdout_was_closed() -> bool {
    // A use, so that linkers keep it.
    std::hint::black_box(&CHECK);
    CLOSED.load(Ordering::Relaxed)
}
