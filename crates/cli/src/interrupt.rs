//! Ctrl-C stops the run, which prints its results so far. A second one, or the first during input, ends the program.
//!
//! Long work polls [`asked`]. If nothing does within [`PATIENCE`] (a library reads a file), the program ends with a
//! note, unless results are finished or the machine is changed. Printing results, tables and pages do not poll: after
//! [`BUSY`], the program ends with what is printed and written until then. Results of complete runs are always printed,
//! unless the user interrupts the writing of files.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

static ASKED: AtomicBool = AtomicBool::new(false);
/// Work has noticed the request.
static NOTICED: AtomicBool = AtomicBool::new(false);
/// The machine is changed, and must be restored.
static CAREFUL: AtomicBool = AtomicBool::new(false);
/// Number of complete runs that are not printed.
static FINISHED: AtomicUsize = AtomicUsize::new(0);
/// The time for work to notice.
const PATIENCE: Duration = Duration::from_millis(700);
/// The CPU time, and the least time, that results, tables and pages may take after a request.
const BUSY: Duration = Duration::from_millis(600);
/// Files are being written, before results are printed.
static WRITING: AtomicBool = AtomicBool::new(false);
/// Input is being read, maybe from a pipe without a writer.
static READING: AtomicBool = AtomicBool::new(false);

/// Exit code of a program ended by SIGINT, as shells report it.
const INTERRUPTED: i32 = 130;

/// Makes Ctrl-C and SIGTERM request a stop.
pub(crate) fn install() {
    let handler = || {
        if ASKED.swap(true, Ordering::Relaxed) || READING.load(Ordering::Relaxed) {
            end();
        }
        #[cfg(unix)]
        watch();
        // The handler has its own thread.
        std::thread::sleep(PATIENCE);
        let keeps = CAREFUL.load(Ordering::Relaxed) || FINISHED.load(Ordering::Relaxed) > 0;
        if !NOTICED.load(Ordering::Relaxed) && !keeps {
            end_with_note(if WRITING.load(Ordering::Relaxed) {
                "interrupted while files were written: the results are left out"
            } else {
                "interrupted before there were results"
            });
        }
    };
    end_with_parent();
    // Without a handler, Ctrl-C still ends the program, but without results.
    if let Err(error) = ctrlc::set_handler(handler) {
        crate::output::note(&format!("Ctrl-C will lose the results so far: {error}"));
    }
}

/// Ends the program [`BUSY`] after the request, or after complete runs are printed. Not while the machine is changed.
#[cfg(unix)]
fn watch() {
    use rustix::time::{ClockId, clock_gettime};

    let time = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    let times = move || [ClockId::Monotonic, ClockId::ProcessCPUTime].map(time);
    let mut begin = times();
    let watching = move || loop {
        std::thread::sleep(Duration::from_millis(50));
        if CAREFUL.load(Ordering::Relaxed) || FINISHED.load(Ordering::Relaxed) > 0 {
            begin = times();
        }
        if times().into_iter().zip(begin).all(|(now, begin)| now.saturating_sub(begin) > BUSY) {
            end_with_note("interrupted: further results would take more than a second, and are left out");
        }
    };
    // No result depends on this thread. Without it, the program ends later.
    let _watched = std::thread::Builder::new().name("vruntime-watch".to_owned()).spawn(watching);
}

/// An environment variable with the parent's pid: this process stops when the parent ends.
#[cfg(target_os = "linux")]
const PARENT: &str = "VRUNTIME_PARENT";

/// Ends this process with its parent, which may be killed.
#[cfg(target_os = "linux")]
fn end_with_parent() {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

    let named = std::env::var(PARENT).ok().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    // Not with a wrapper between the two.
    if named.is_some() && named == getppid() {
        // Optional: an error is ignored.
        let _asked = set_parent_process_death_signal(Some(Signal::TERM));
    }
}

#[cfg(not(target_os = "linux"))]
fn end_with_parent() {}

/// Reads input. Ctrl-C ends the program at once, as there are no results yet.
pub(crate) fn reading<T>(read: impl FnOnce() -> T) -> T {
    READING.store(true, Ordering::Relaxed);
    let bytes = read();
    READING.store(false, Ordering::Relaxed);
    bytes
}

/// Whether the run must stop.
pub(crate) fn asked() -> bool {
    let asked = ASKED.load(Ordering::Relaxed);
    if asked {
        NOTICED.store(true, Ordering::Relaxed);
    }
    asked
}

/// Writes files and prints results. Files come first, so that a closed pipe loses none. After a request, results come
/// first, so that slow files do not lose them. A request ends slow files, but not the printing of complete runs.
pub(crate) fn write_and_print<T>(write: impl FnOnce() -> T, print: impl FnOnce()) -> T {
    if asked() {
        print();
        all_finished();
        return write();
    }
    let runs = FINISHED.swap(0, Ordering::Relaxed);
    WRITING.store(true, Ordering::Relaxed);
    let written = write();
    WRITING.store(false, Ordering::Relaxed);
    FINISHED.store(runs, Ordering::Relaxed);
    print();
    all_finished();
    written
}

/// Notes that the command changes the machine (limits, groups, tracing), and must undo that before it ends.
pub(crate) fn careful() {
    CAREFUL.store(true, Ordering::Relaxed);
}

/// Notes the end of a run. If the run is complete, its results must be printed.
pub(crate) fn finished() {
    if !asked() {
        FINISHED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Notes that no complete run must be printed any more.
pub(crate) fn all_finished() {
    FINISHED.store(0, Ordering::Relaxed);
}

/// Prints a note, and ends the program. Does not wait for a standard error that takes no text.
fn end_with_note(text: &'static str) -> ! {
    let noting = std::thread::Builder::new().spawn(move || crate::output::note(text));
    for _ in 0..10 {
        if noting.as_ref().is_ok_and(std::thread::JoinHandle::is_finished) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    end();
}

/// Removes incomplete files, and ends the program.
pub(crate) fn end() -> ! {
    crate::output_file::remove_incomplete();
    std::process::exit(INTERRUPTED);
}
