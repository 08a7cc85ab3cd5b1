//! Ctrl-C: the run stops and prints what it has. A second Ctrl-C ends the program at once, as does the first while
//! input is read.
//!
//! Long work calls [`asked`] now and then. If it does not within [`PATIENCE`], the program ends all the same: a library
//! may be reading a file. It does not end if finished results or a changed machine would be left behind.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

static ASKED: AtomicBool = AtomicBool::new(false);
/// Some work has noticed, and is ending.
static NOTICED: AtomicBool = AtomicBool::new(false);
/// The machine is changed, and has to be as before at the end.
static CAREFUL: AtomicBool = AtomicBool::new(false);
/// Results of finished runs that are not printed yet, as long as others go on.
static FINISHED: AtomicUsize = AtomicUsize::new(0);
/// How long the program may take to notice.
const PATIENCE: Duration = Duration::from_millis(700);
/// A file is being read, which may be a pipe without a writer.
static READING: AtomicBool = AtomicBool::new(false);

/// Exit code of a program ended by SIGINT, as shells report it.
const INTERRUPTED: i32 = 130;

/// From now on Ctrl-C (and SIGTERM) asks the runs to stop.
pub(crate) fn install() {
    let handler = || {
        if ASKED.swap(true, Ordering::Relaxed) || READING.load(Ordering::Relaxed) {
            end();
        }
        // The handler has a thread of its own.
        std::thread::sleep(PATIENCE);
        let keeps = CAREFUL.load(Ordering::Relaxed) || FINISHED.load(Ordering::Relaxed) > 0;
        if !NOTICED.load(Ordering::Relaxed) && !keeps {
            end();
        }
    };
    end_with_parent();
    // Without a handler Ctrl-C still ends the program, only without its results: no reason not to start.
    if let Err(error) = ctrlc::set_handler(handler) {
        crate::output::note(&format!("Ctrl-C will lose the results so far: {error}"));
    }
}

/// The environment variable with the number of the process that starts this one, where it is to stop when that has
/// ended.
#[cfg(target_os = "linux")]
const PARENT: &str = "VRUNTIME_PARENT";

/// Ends this process with its parent, which may be killed before it can stop this one.
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

/// Whether the user wants the run to stop.
pub(crate) fn asked() -> bool {
    let asked = ASKED.load(Ordering::Relaxed);
    if asked {
        NOTICED.store(true, Ordering::Relaxed);
    }
    asked
}

/// The command changes the machine (limits, groups, tracing), and ends only when it has undone that.
pub(crate) fn careful() {
    CAREFUL.store(true, Ordering::Relaxed);
}

/// One of several runs is finished: its results are not given up.
pub(crate) fn finished() {
    FINISHED.fetch_add(1, Ordering::Relaxed);
}

/// All runs are finished or stopped.
pub(crate) fn all_finished() {
    FINISHED.store(0, Ordering::Relaxed);
}

/// Ends the program. Files that are not complete are removed.
pub(crate) fn end() -> ! {
    crate::output_file::remove_incomplete();
    std::process::exit(INTERRUPTED);
}
