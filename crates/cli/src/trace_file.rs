//! Recorded files: traces, and snapshots of groups.

use std::env;
use std::fs::{self, File};
use std::io::{self, Cursor, Read, Seek};
use std::ops::ControlFlow;
use std::path::Path;

use miette::miette;
use vruntime_report::is_saved_results;
use vruntime_trace::Record;
use vruntime_trace::read::{self, Events, TextReader};
use vruntime_workload::cgroups::Cgroups;

use crate::{input, inputs, interrupt};

/// Events between checks for Ctrl-C.
pub(crate) const ROUND: u64 = 1 << 16;

/// Opens a file, or standard input (`-`). Text is read as it arrives, up to Ctrl-C. A binary trace from a pipe is
/// copied to a file first, because reading it seeks.
pub(crate) fn open(path: &Path) -> miette::Result<Box<dyn Events>> {
    inputs::record(path);
    let opened = || -> Result<Box<dyn Events>, read::Error> {
        if path == Path::new("-") {
            return streamed(stdin()?);
        }
        if path.is_dir() {
            return read::open(path);
        }
        // Opening a named pipe waits for its writer.
        let mut file = interrupt::reading(|| File::open(path))?;
        if !file.metadata()?.is_file() {
            return streamed(file);
        }
        let mut first = Vec::new();
        file.by_ref().take(512).read_to_end(&mut first)?;
        file.rewind()?;
        if read::is_text(&first) { Ok(Box::new(TextReader::new(Stoppable(file)))) } else { read::from_reader(file) }
    };
    opened().map_err(|error| explain(path, &error))
}

/// Where Ctrl-C ended the reading of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stopped {
    /// Number of events read.
    pub(crate) events: u64,
    /// Time of the last event, nanoseconds. `None` without events.
    pub(crate) at: Option<i64>,
}

/// Passes all events to `each`, until it breaks. Returns where Ctrl-C stopped that; `None` if nothing did.
pub(crate) fn each_event(
    path: &Path,
    events: &mut dyn Events,
    mut each: impl FnMut(&Record<'_>) -> ControlFlow<()>,
) -> miette::Result<Option<Stopped>> {
    let mut read = Stopped::default();
    loop {
        let record = match events.next_record() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(_) if interrupt::asked() => return Ok(Some(read)),
            Err(error) => return Err(explain(path, &error)),
        };
        if each(&record).is_break() {
            break;
        }
        read = Stopped { events: read.events + 1, at: Some(record.at) };
        if read.events.is_multiple_of(ROUND) && interrupt::asked() {
            return Ok(Some(read));
        }
    }
    // The results are complete. Ctrl-C must not end the program while it writes them.
    interrupt::asked();
    Ok(None)
}

/// Whether a second [`open`] reads the same.
pub(crate) fn reads_again(path: &Path) -> bool {
    path != Path::new("-") && fs::metadata(path).is_ok_and(|there| there.is_file())
}

/// Returns standard input without the standard library's buffer, which `poll` does not see.
#[cfg(unix)]
fn stdin() -> io::Result<File> {
    use std::os::fd::AsFd;

    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

#[cfg(not(unix))]
fn stdin() -> io::Result<io::Stdin> {
    Ok(io::stdin())
}

/// Reads from a pipe or a device.
fn streamed<R>(from: R) -> Result<Box<dyn Events>, read::Error>
where
    Stoppable<R>: Read + 'static,
{
    let mut from = Stoppable(from);
    let mut first = Vec::new();
    from.by_ref().take(16).read_to_end(&mut first)?;
    if read::is_text(&first) {
        return Ok(Box::new(TextReader::new(Cursor::new(first).chain(from))));
    }
    let kept = interrupt::reading(|| kept(&mut Cursor::new(first).chain(from))).map_err(|error| {
        io::Error::new(error.kind(), format!("it cannot be kept in {}: {error}", env::temp_dir().display()))
    })?;
    read::from_reader(kept)
}

/// A reader that fails at Ctrl-C, even without input. An end of the file would look like a damaged last line.
struct Stoppable<R>(R);

/// Returns the error of a read that Ctrl-C ended. Readers repeat reads that fail as `Interrupted`.
fn stopped() -> io::Error {
    io::Error::other("interrupted by Ctrl-C")
}

/// The interval of checks for Ctrl-C.
#[cfg(unix)]
const LOOK_NS: i64 = 100_000_000;

#[cfg(unix)]
impl<R: Read + std::os::fd::AsFd> Read for Stoppable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        while !interrupt::asked() {
            let look = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&look)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // `read` reports the error.
                _ => return self.0.read(buffer),
            }
        }
        Err(stopped())
    }
}

#[cfg(not(unix))]
impl<R: Read> Read for Stoppable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if interrupt::asked() { Err(stopped()) } else { self.0.read(buffer) }
    }
}

/// Copies all input to an unnamed temporary file.
fn kept(from: &mut impl Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(from, &mut file)?;
    file.rewind()?;
    Ok(file)
}

/// Whether a file has the results of a run. Standard input can be read only once.
fn has_results(path: &Path) -> bool {
    path.is_file() && input::read_file(path).is_ok_and(|bytes| is_saved_results(&bytes))
}

/// Returns the error of an unreadable trace. Ends the program if Ctrl-C is the cause.
pub(crate) fn explain(path: &Path, error: &read::Error) -> miette::Report {
    if interrupt::asked() {
        interrupt::end();
    }
    let message = format!("cannot read {}: {error}", path.display());
    let wanted = "name a trace: trace.dat, perf.data, a Perfetto trace or ftrace text; `-` reads standard input";
    let help = match error {
        read::Error::Io(error) => input::help_with(path, error, wanted),
        read::Error::NoEvents { .. } | read::Error::WithoutEvents { .. } if has_results(path) => {
            let file = path.display();
            format!("it has the results of a run: `vruntime compare {file} FILE` compares them; a trace is beside them")
        }
        read::Error::NoEvents { .. } | read::Error::WithoutEvents { .. }
            if path != Path::new("-") && !input::is_blank(path) && input::is_workload(path) =>
        {
            format!("it looks like a workload, which `vruntime run {}` runs", path.display())
        }
        other => other.help().unwrap_or(wanted).to_owned(),
    };
    miette!(help = help, "{message}")
}

pub(crate) fn cgroups(path: &Path) -> miette::Result<Cgroups> {
    let bytes = input::contents(path, "name the file that the script of docs/replay.md wrote")?;
    Ok(Cgroups::read(&path.display().to_string(), &bytes)?)
}
