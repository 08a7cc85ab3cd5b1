//! Ctrl-C: the run stops and tells what it has; a second one ends the program at once, as does the first while input is
//! read.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);
/// A file is being read, which may be a pipe that nobody writes to.
static READING: AtomicBool = AtomicBool::new(false);

/// Exit code of a program ended by SIGINT, as shells report it.
const INTERRUPTED: i32 = 130;

/// From now on Ctrl-C (and SIGTERM) asks the runs to stop.
pub(crate) fn install() {
    let handler = || {
        if ASKED.swap(true, Ordering::Relaxed) || READING.load(Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
    };
    // Without a handler Ctrl-C still ends the program, only without its results: no reason not to start.
    if let Err(error) = ctrlc::set_handler(handler) {
        crate::output::note(&format!("Ctrl-C will lose what has been simulated: {error}"));
    }
}

/// Reads something, before which there is nothing to keep: Ctrl-C ends the program at once.
pub(crate) fn reading<T>(read: impl FnOnce() -> T) -> T {
    READING.store(true, Ordering::Relaxed);
    let bytes = read();
    READING.store(false, Ordering::Relaxed);
    bytes
}

/// Whether somebody wants the run to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
