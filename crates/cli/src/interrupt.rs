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
    end_with_parent();
    // Without a handler Ctrl-C still ends the program, only without its results: no reason not to start.
    if let Err(error) = ctrlc::set_handler(handler) {
        crate::output::note(&format!("Ctrl-C will lose what has been simulated: {error}"));
    }
}

/// The environment variable with the number of the process that starts this one, where it is to stop when that has
/// ended.
#[cfg(target_os = "linux")]
const PARENT: &str = "VRUNTIME_PARENT";

/// Whoever starts this for himself may be killed before he can stop it.
#[cfg(target_os = "linux")]
fn end_with_parent() {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

    let named = std::env::var(PARENT).ok().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    // Of somebody between the two, who wraps the command, nothing is known.
    if named.is_some() && named == getppid() {
        // Where the kernel refuses, it goes on as without.
        let _asked = set_parent_process_death_signal(Some(Signal::TERM));
    }
}

#[cfg(not(target_os = "linux"))]
fn end_with_parent() {}

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
