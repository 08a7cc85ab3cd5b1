//! What a reader has to say besides the events: what kind of file it is, and what of it is lost.

use std::sync::Arc;
use std::{fmt, io};

use crate::recording::Recording;

/// What kind of file a trace is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// What the kernel prints: `/sys/kernel/tracing/trace`, `trace_pipe`.
    Ftrace,
    /// `trace-cmd report`.
    TraceCmdReport,
    /// `trace-cmd report -R`.
    TraceCmdRaw,
    /// A page that Android's systrace has made, with ftrace text inside.
    Systrace,
    /// `perf script`.
    PerfScript,
    /// `trace.dat` of trace-cmd.
    TraceDat,
    /// `perf.data` of perf.
    PerfData,
    /// A Perfetto trace (protobuf).
    Perfetto,
}

impl Kind {
    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ftrace => "ftrace text",
            Self::TraceCmdReport => "text of trace-cmd report",
            Self::TraceCmdRaw => "text of trace-cmd report -R",
            Self::Systrace => "systrace HTML",
            Self::PerfScript => "text of perf script",
            Self::TraceDat => "trace.dat of trace-cmd",
            Self::PerfData => "perf.data",
            Self::Perfetto => "Perfetto trace",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where in a file something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a text; the first is 1.
    Line(u64),
    /// The number of bytes from the beginning.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// Things of one kind that happened in a file: how often, and where first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often.
    pub count: u64,
    /// Where first.
    pub first: Option<Place>,
}

impl Tally {
    pub(super) fn add(&mut self, place: Place) {
        self.count += 1;
        self.first.get_or_insert(place);
    }
}

/// A thread that was there before the first event, and whose child it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forked {
    /// Its process.
    pub process: i32,
    /// The thread.
    pub thread: i32,
    /// Its parent; of a process whose parent has ended, the adopting one.
    pub parent: i32,
}

/// What a reader knows of a file besides its events, as far as it has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// What kind it is; none before the first event of a text.
    pub kind: Option<Kind>,
    /// How many CPUs the machine has, if the file says so.
    pub cpus: Option<u32>,
    /// The release of the kernel it was recorded under, as `uname -r` prints it, if the file says so.
    pub release: Option<String>,
    /// Events that the kernel had overwritten before the buffer was read, if the file says so.
    pub overwritten: Option<u64>,
    /// Lines or records that are no event, and nothing else that is known.
    pub not_understood: Tally,
    /// Events whose fields are not what the kernel prints ([`Tracepoint::Malformed`](crate::Tracepoint::Malformed)).
    pub malformed: Tally,
    /// Lines longer than 64 KiB, of which the rest was passed over.
    pub cut_lines: Tally,
    /// The file ends in the midst of something.
    pub unterminated: Option<Place>,
    /// The times are counts of a clock that has no unit (`trace_clock` counter, x86-tsc): taken for nanoseconds.
    pub counts_for_time: bool,
    /// The threads that were there before the first event, if the file tells: perf.data does, and what `perf script
    /// --show-task-events` prints of it.
    pub forked: Vec<Forked>,
    /// What `vruntime record` has left in the file beside the events.
    pub recording: Option<Arc<Recording>>,
}

/// The most threads that existed before the trace.
const MAX_FORKED: usize = 1 << 20;

impl Notes {
    /// Returns what of the file could not be read, a sentence each. Results do not cover those parts.
    pub fn damage(&self) -> Vec<String> {
        let tallies = [
            (self.not_understood, "line or record could not be read", "lines or records could not be read"),
            (
                self.malformed,
                "event has other fields than the kernel prints",
                "events have other fields than the kernel prints",
            ),
            (self.cut_lines, "line is longer than 64 KiB and was cut", "lines are longer than 64 KiB and were cut"),
        ];
        let tallies =
            tallies.into_iter().filter(|(tally, ..)| tally.count > 0).map(|(Tally { count, first }, one, more)| {
                let first = first.map(|first| format!(" (the first at {first})")).unwrap_or_default();
                format!("{count} {}{first}", if count == 1 { one } else { more })
            });
        let overwritten = self
            .overwritten
            .filter(|&count| count > 0)
            .map(|count| format!("events that the kernel overwrote before the buffer was read: {count}"));
        let cut = self.unterminated.map(|place| format!("the file ends within {place}: it may have been cut off"));
        cut.into_iter().chain(tallies).chain(overwritten).collect()
    }

    pub(super) fn was_forked(&mut self, process: i32, thread: i32, parent: i32) {
        if self.forked.len() < MAX_FORKED {
            self.forked.push(Forked { process, thread, parent });
        }
    }
}

/// What `uname -r` prints, as a file has it; none if it is no such word.
pub(super) fn release(bytes: &[u8]) -> Option<String> {
    let word = bytes.split(|byte| matches!(byte, b'\0' | b' ' | b'\n')).next()?;
    let plain = !word.is_empty() && word.len() <= RELEASE && word.iter().all(u8::is_ascii_graphic);
    plain.then(|| String::from_utf8_lossy(word).into_owned())
}

/// The longest release there is: `__NEW_UTS_LEN`.
const RELEASE: usize = 64;

/// Why a trace cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file itself cannot be read.
    Io(io::Error),
    /// The file is empty.
    Empty,
    /// The file is of a kind that is read, and has no event.
    WithoutEvents {
        /// What kind.
        kind: Kind,
    },
    /// There is not one event in it.
    NoEvents {
        /// How many lines were looked at.
        lines: u64,
    },
    /// The file's header is damaged.
    Damaged {
        /// Where.
        place: Place,
        /// What should be there.
        expected: String,
    },
    /// The file is of a kind that is known, and not read.
    NotRead {
        /// What it is.
        what: String,
        /// How to make something of it that is read.
        help: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Damaged { place, expected } => write!(f, "it is damaged at {place}: expected {expected}"),
            Self::NotRead { what, .. } => write!(f, "{what} is not read"),
            Self::Empty => f.write_str("the file is empty"),
            Self::WithoutEvents { kind } => write!(f, "there is no event in this {kind}"),
            Self::NoEvents { lines } => {
                write!(f, "it has no eventss {lines} line{}", if *lines == 1 { "" } else { "s" })
            }
        }
    }
}

impl Error {
    /// How to mend it.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::Io(_) => None,
            Self::Damaged { .. } => Some("if it was copied, copy it again; nothing can be read without its header"),
            Self::NotRead { help, .. } => Some(help),
            Self::Empty => Some(
                "the recording failed, or has not ended; record again: trace-cmd record -e sched -o trace.dat COMMAND, or perf record -a \
                 -e 'sched:*' COMMAND",
            ),
            Self::WithoutEvents { .. } => Some(
                "nothing was recorded; enable the scheduler's events: trace-cmd record -e sched -o trace.dat COMMAND, or perf record -a \
                 -e 'sched:*' COMMAND",
            ),
            Self::NoEvents { .. } => Some(
                "expected trace.dat, perf.data, a Perfetto trace, ftrace text (/sys/kernel/tracing/trace, trace-cmd report), \
                 systrace HTML, or what perf script prints with the fields comm, tid, cpu, time, event and trace",
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
