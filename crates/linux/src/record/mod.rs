//! Records this machine: the scheduler's events, and snapshots of machine, groups and tasks.
//!
//! The kernel records into our own tracing instance (`instances/vruntime-...`). Threads empty its buffers into
//! nameless files. Where tracefs is not permitted, [`perf`] records what is. The result is one `trace.dat` with a
//! [section](vruntime_trace::recording::Recording) for the rest.

mod command;
mod cost;
mod events;
mod perf;
mod permission;
mod readers;
mod snapshot;
mod tracefs;
mod watchdog;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use vruntime_trace::recording::{Recording, TraceDatFile};

pub use command::CommandEnded;
pub use cost::EventCost;
pub use permission::{Source, may_record};
pub use snapshot::{Snapshot, TaskState};

use self::command::{Running, Starter};
use self::permission::{Access, no_tracefs};
use self::readers::{Pages, Readers, Shared};
use self::tracefs::Instance;
pub(crate) use self::tracefs::Mounted;
use self::watchdog::Watchdog;
use crate::cgroup::own_name;
use crate::error::Error;
use crate::urgent::Urgent;
use crate::work;

/// What to record, and for how long.
#[derive(Clone, Debug, Default)]
pub struct RecordOptions {
    /// The longest time; None: until the command ends, or `stop`.
    pub duration: Option<Duration>,
    /// Program and arguments, to record until its end; empty for none.
    pub command: Vec<OsString>,
    /// Events' size that ends the recording.
    pub max_bytes: u64,
    /// Folder for nameless files, on the recording's file system.
    pub folder: PathBuf,
    /// Whether to measure an event's cost, within a fifth of a second.
    pub measure_cost: bool,
}

/// Why recording failed. [`help`](Self::help) says what to do.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The kernel permits no recording.
    #[error("the kernel's events cannot be recorded: {why}")]
    NotPermitted {
        /// Why.
        why: String,
        /// What is missing.
        missing: String,
    },
    /// The program cannot be started.
    #[error("cannot run {command}: {cause}")]
    Command {
        /// Its name.
        command: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// Something else failed.
    #[error("{what}: {cause}")]
    Io {
        /// The failed action.
        what: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// An event's cost could not be measured.
    #[error(transparent)]
    Measuring(#[from] Error),
}

impl RecordError {
    /// Returns what the user can do.
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::NotPermitted { missing, .. } => Some(missing),
            Self::Command { .. } => Some("name a program and its arguments behind `--`"),
            Self::Measuring(error) => error.help(),
            Self::Io { .. } => None,
        }
    }
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The time was over.
    Duration,
    /// The command ended.
    Command,
    /// `stop` returned true.
    Asked,
    /// It reached its size.
    Size,
    /// Writing a file failed.
    Failed,
}

/// A finished recording, with pages in nameless files until [`write`](Self::write).
#[derive(Debug)]
pub struct RecordedEvents {
    /// Where the events are from.
    pub source: Source,
    /// Why sources with more events were not permitted.
    pub why: Vec<String>,
    /// Why it ended.
    pub stopped: Stopped,
    /// How the command ended, if there is one.
    pub command: Option<CommandEnded>,
    /// The start, nanoseconds of CLOCK_MONOTONIC, the clock of the events.
    pub began_ns: u64,
    /// The end, nanoseconds.
    pub ended_ns: u64,
    /// Number of recorded events.
    pub events: u64,
    /// Number of events that the kernel lost.
    pub lost: u64,
    /// Number of possible CPUs.
    pub cpus: u32,
    /// Size of each CPU's buffer.
    pub buffer_bytes: u64,
    /// Names of the recorded events, `SYSTEM/NAME`.
    pub event_names: Vec<String>,
    /// The cost of an event, if measured.
    pub cost: Option<EventCost>,
    /// This process's recording threads, and the watchdog.
    pub recorder: Vec<i32>,
    /// The machine before the first event.
    pub before: Snapshot,
    /// The machine after the last event.
    pub after: Snapshot,
    /// Notes for the user.
    pub notes: Vec<String>,
    file: TraceDatFile,
    pages: Vec<Pages>,
    reserve: Option<File>,
}

/// Records. Calls `stop` ten times a second; true ends and keeps the recording.
///
/// # Errors
/// If events cannot be recorded, or the command cannot start.
pub fn record(options: &RecordOptions, stop: &dyn Fn() -> bool) -> Result<RecordedEvents, RecordError> {
    let tracefs = match permission::find(!options.command.is_empty())? {
        Access::Tracefs(tracefs) => tracefs,
        Access::Perf(access) => return perf::record(&access, options, stop),
    };
    let mut notes = crate::clean();
    let path = tracefs.path.join("instances").join(own_name());
    // Before there is anything to clean up.
    let watchdog = Watchdog::start(&path).map_err(io_error("cannot start the process that cleans up"))?;
    let instance = Instance::make(path).map_err(|error| no_tracefs(&error))?;
    let refused = |error: io::Error| no_tracefs(&error);
    instance.write("tracing_on", "0").map_err(refused)?;
    instance.write("trace_clock", "mono").map_err(refused)?;
    let cpus = tracefs::cpus(&instance.path);
    let buffer_bytes = buffer(cpus);
    instance.write("buffer_size_kb", &(buffer_bytes >> 10).to_string()).map_err(refused)?;
    let chosen = events::there(&instance.path);
    events::note_missing(&chosen, &mut notes);
    let cost = if options.measure_cost { cost(&instance, &chosen)? } else { None };
    events::enable(&instance, &chosen, true).map_err(refused)?;
    let formats = events::formats(&instance, &chosen).map_err(io_error("cannot read the formats of events"))?;
    let page_size = tracefs::page_size(&String::from_utf8_lossy(&formats.header_page))
        .ok_or_else(|| io_error("the kernel's pages are not understood")(io::Error::other("events/header_page")))?;
    let mut before = Snapshot::take();
    let reserve = reserve(&options.folder, &before);
    let readers = Readers::start(&instance, cpus, page_size, &options.folder)
        .map_err(io_error(&format!("cannot keep events in {}", options.folder.display())))?;
    let mut recorder = readers.tids().to_vec();
    recorder.extend([std::process::id() as i32, watchdog.pid()]);
    // The command inherits this thread's present priority.
    let starter = Starter::new(&options.command).map_err(io_error("cannot make a thread"))?;
    let urgent = Urgent::take();
    // Adds tasks created meanwhile; later ones have an event.
    before.complete();
    instance.write("tracing_on", "1").map_err(refused)?;
    let began_ns = work::now();
    let mut running = starter.start()?;
    let stopped = wait(options, stop, running.as_mut(), readers.shared(), began_ns);
    instance.write("tracing_on", "0").map_err(refused)?;
    let ended_ns = work::now();
    let after = Snapshot::take();
    let (pages, failed) = readers.finish();
    drop(urgent);
    if let Some(error) = failed {
        if pages.len() < cpus as usize {
            return Err(io_error(&format!("cannot keep events in {}", options.folder.display()))(error));
        }
        notes.push(format!("the events that were kept in {} are not complete: {error}", options.folder.display()));
    }
    let stats: Vec<_> = (0..cpus).map(|cpu| instance.stats(cpu)).collect();
    let file = TraceDatFile {
        page_size,
        formats,
        names: names(&tracefs.path, &before, &after),
        clock: instance.read("trace_clock").unwrap_or_default().trim().to_owned(),
        uname: uname(),
        version: format!("vruntime {}", env!("CARGO_PKG_VERSION")),
        stats: stats.iter().map(|stats| stats.text.clone().into_bytes()).collect(),
        recording: Recording::default(),
    };
    // The instance's files are closed; it is removed before the wait for the command.
    drop(instance);
    drop(watchdog);
    let command = running.map(|running| running.end(&mut notes));
    Ok(RecordedEvents {
        source: Source::Tracefs,
        why: Vec::new(),
        stopped,
        command,
        began_ns,
        ended_ns,
        events: stats.iter().map(|stats| stats.read).sum(),
        lost: stats.iter().map(|stats| stats.lost).sum(),
        cpus,
        buffer_bytes,
        event_names: chosen.iter().map(|event| event.name.to_owned()).collect(),
        cost,
        recorder,
        before,
        after,
        notes,
        file,
        pages,
        reserve,
    })
}

fn wait(
    options: &RecordOptions,
    stop: &dyn Fn() -> bool,
    mut running: Option<&mut Running>,
    readers: &Shared,
    began_ns: u64,
) -> Stopped {
    let until = options.duration.map(|duration| began_ns.saturating_add(duration.as_nanos() as u64));
    loop {
        let now = work::now();
        if running.as_mut().is_some_and(|running| running.has_ended()) {
            return Stopped::Command;
        }
        if until.is_some_and(|until| now >= until) {
            return Stopped::Duration;
        }
        if stop() {
            return Stopped::Asked;
        }
        if readers.failed() {
            return Stopped::Failed;
        }
        if readers.bytes() >= options.max_bytes {
            return Stopped::Size;
        }
        let left = until.map_or(u64::MAX, |until| until - now);
        let look = Duration::from_nanos(left.min(readers::LOOK.as_nanos() as u64));
        match &running {
            Some(running) => running.wait(look),
            None => std::thread::sleep(look),
        }
    }
}

impl RecordedEvents {
    /// Returns the size of the events.
    pub fn bytes(&self) -> u64 {
        self.pages.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Writes the file with a section, and returns its size.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(mut self, out: &mut impl Write, section: Recording) -> io::Result<u64> {
        self.file.recording = section;
        drop(self.reserve.take());
        let sizes: Vec<u64> = self.pages.iter().map(|(_, bytes)| *bytes).collect();
        let mut size = self.file.head(out, &sizes)?;
        for (pages, _) in &mut self.pages {
            size += moved(pages, out)?;
        }
        out.flush()?;
        Ok(size)
    }
}

/// Appends a file to another in pieces, each freed at once, so that no data exists twice.
fn moved(from: &mut File, to: &mut impl Write) -> io::Result<u64> {
    use rustix::fs::{FallocateFlags, fallocate};

    let mut piece = vec![0; PIECE];
    let mut at = 0;
    from.seek(SeekFrom::Start(0))?;
    loop {
        let read = match from.read(&mut piece) {
            Ok(0) => return Ok(at),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&piece[..read])?;
        // A file system without this has two copies for a moment.
        let _given_back = fallocate(&*from, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, read as u64);
        at += read as u64;
    }
}

/// Bytes that [`moved`] copies before it frees them.
const PIECE: usize = 64 << 10;

/// Reserves space in `folder` for what [`RecordedEvents::write`] adds to the events. Events that fill a disk can then
/// be written. Reserves at most half of the free space; none if the file system cannot.
fn reserve(folder: &Path, before: &Snapshot) -> Option<File> {
    use rustix::fs::{FallocateFlags, fallocate, statvfs};

    let disk = statvfs(folder).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize) / 2;
    // The head has descriptions of events, and both snapshots: 250 bytes for a task, and the text of the groups.
    let head = (512 << 10) + 2 * (before.tasks.len() * 256 + before.cgroups.len()) as u64;
    let file = readers::scratch(folder).ok()?;
    fallocate(&file, FallocateFlags::empty(), 0, (head + 2 * PIECE as u64).min(free)).ok()?;
    Some(file)
}

/// Returns each CPU's buffer size: over two seconds of 50,000 events a second, in total at most a 32nd of free
/// memory.
fn buffer(cpus: u32) -> u64 {
    const MOST: u64 = 8 << 20;
    const LEAST: u64 = 256 << 10;
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).map_or(0, |kib| kib << 10);
    (free / 32 / u64::from(cpus.max(1))).clamp(LEAST, MOST)
}

fn cost(instance: &Instance, chosen: &[events::Event]) -> Result<Option<EventCost>, RecordError> {
    let refused = |error: io::Error| no_tracefs(&error);
    instance.write("tracing_on", "1").map_err(refused)?;
    let enable = |on| {
        // A failed round has no events, or extra ones, so the least count is taken.
        let _enabled = events::enable(instance, chosen, on);
    };
    let seen = |cpu| {
        let stats = instance.stats(cpu as u32);
        stats.entries + stats.read + stats.lost
    };
    let cost = cost::measure(&seen, &enable);
    instance.write("tracing_on", "0").map_err(refused)?;
    // Any write empties the buffers.
    instance.write("trace", "").map_err(refused)?;
    Ok(cost?)
}

/// Thread names from kernel and snapshots, one a line.
fn names(tracefs: &Path, before: &Snapshot, after: &Snapshot) -> Vec<u8> {
    let kept = fs::read(tracefs.join("saved_cmdlines")).unwrap_or_default();
    let mut names = std::collections::BTreeMap::new();
    for line in kept.split(|&byte| byte == b'\n') {
        let Some(space) = line.iter().position(|&byte| byte == b' ') else { continue };
        let pid = std::str::from_utf8(&line[..space]).ok().and_then(|pid| pid.parse::<i32>().ok());
        if let Some(pid) = pid {
            names.insert(pid, line[space + 1..].to_vec());
        }
    }
    let seen = before.names().chain(after.names());
    names.extend(seen.map(|(tid, name)| (tid, name.replace('\n', " ").into_bytes())));
    let mut text = Vec::new();
    for (pid, name) in names {
        text.extend_from_slice(format!("{pid} ").as_bytes());
        text.extend_from_slice(&name);
        text.push(b'\n');
    }
    text
}

/// As trace-cmd writes it.
fn uname() -> String {
    let uname = rustix::system::uname();
    let of = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    [of(uname.sysname()), of(uname.nodename()), of(uname.release()), of(uname.machine())].join(" ")
}

fn io_error(what: &str) -> impl FnOnce(io::Error) -> RecordError {
    let what = what.to_owned();
    move |cause| RecordError::Io { what, cause }
}
