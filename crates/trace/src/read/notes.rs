//! What a reader of a trace finds beside the events ([`Notes`]): the kind of the file, the machine, lost and damaged
//! parts. Also the errors of readers ([`Error`]).

use std::sync::Arc;
use std::{fmt, io};

use crate::recording::Recording;

/// Kinds of trace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// Text of the kernel: `/sys/kernel/tracing/trace`, `trace_pipe`.
    Ftrace,
    /// `trace-cmd report`.
    TraceCmdReport,
    /// `trace-cmd report -R`.
    TraceCmdRaw,
    /// A page of Android's systrace with ftrace text.
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
    /// Returns its usual name.
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

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of text, from 1.
    Line(u64),
    /// An offset in bytes.
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

/// Number and first place of an occurrence in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of times.
    pub count: u64,
    /// Place of the first.
    pub first: Option<Place>,
}

impl Tally {
    pub(super) fn add(&mut self, place: Place) {
        self.count += 1;
        self.first.get_or_insert(place);
    }
}

/// Lost events of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Number of gaps, each on one CPU.
    pub gaps: u64,
    /// Number of gaps without a number of events.
    pub uncounted: u64,
    /// Number of events lost in the other gaps.
    pub events: u64,
}

impl Losses {
    /// Adds a gap, with its number of events if the file has it.
    pub fn add(&mut self, events: Option<u64>) {
        self.gaps += 1;
        self.uncounted += u64::from(events.is_none());
        self.events = self.events.saturating_add(events.unwrap_or(0));
    }

    /// Adds the gaps of another CPU.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            gaps: self.gaps + other.gaps,
            uncounted: self.uncounted + other.uncounted,
            events: self.events.saturating_add(other.events),
        }
    }

    /// Returns the number of lost events in words. `None` without gaps.
    pub fn words(&self) -> Option<String> {
        let Self { gaps, uncounted, events } = *self;
        let words = match events {
            _ if gaps == 0 => return None,
            0 if uncounted > 0 => "an unknown number of events".to_owned(),
            1 => "1 event".to_owned(),
            events => format!("{events} events"),
        };
        Some(if uncounted > 0 && events > 0 { format!("at least {words}") } else { words })
    }

    /// Returns the losses as a sentence. `None` without gaps.
    pub fn sentence(&self) -> Option<String> {
        let gaps = if self.gaps == 1 { "1 gap".to_owned() } else { format!("{} gaps", self.gaps) };
        self.words().map(|words| format!("the recording lost {words}, in {gaps}"))
    }
}

/// A thread that existed before the first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forked {
    /// Its process.
    pub process: i32,
    /// The thread.
    pub thread: i32,
    /// Its parent, or the adopting process.
    pub parent: i32,
}

/// What is known of a file beside its events, so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Kind; none before the first event of a text.
    pub kind: Option<Kind>,
    /// CPUs of the machine, if the file says.
    pub cpus: Option<u32>,
    /// Release of the recorded kernel (`uname -r`), if the file says.
    pub release: Option<String>,
    /// Overwritten events, if the file says.
    pub overwritten: Option<u64>,
    /// Unknown lines or records.
    pub not_understood: Tally,
    /// Events in an unknown format ([`Tracepoint::Malformed`](crate::Tracepoint::Malformed)).
    pub malformed: Tally,
    /// Lines cut at 64 KiB.
    pub cut_lines: Tally,
    /// Where the file is cut off.
    pub unterminated: Option<Place>,
    /// Where a damaged record hides all further ones.
    pub abandoned: Option<Place>,
    /// Events in the file and events that were recorded, if the recording counted more. Known at the end of the file.
    pub incomplete: Option<(u64, u64)>,
    /// Whether times are counts without a unit (`trace_clock` counter, x86-tsc), read as nanoseconds.
    pub counts_for_time: bool,
    /// Threads before the first event, from perf.data or `perf script --show-task-events`.
    pub forked: Vec<Forked>,
    /// Data that `vruntime record` added.
    pub recording: Option<Arc<Recording>>,
}

const MAX_FORKED: usize = 1 << 20;

impl Notes {
    /// Returns the unreadable parts of the file, a sentence each. Results do not cover them.
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
        let rest = self.hidden().into_iter().chain(self.missing_events());
        cut.into_iter().chain(tallies).chain(overwritten).chain(rest).collect()
    }

    /// Returns [`abandoned`](Self::abandoned) as a sentence.
    pub fn hidden(&self) -> Option<String> {
        self.abandoned.map(|place| format!("nothing could be read from {place} on: the record there is damaged"))
    }

    /// Returns [`incomplete`](Self::incomplete) as a sentence.
    pub fn missing_events(&self) -> Option<String> {
        self.incomplete.map(|(found, recorded)| format!("the file has {found} of the {recorded} recorded events"))
    }

    pub(super) fn was_forked(&mut self, process: i32, thread: i32, parent: i32) {
        if self.forked.len() < MAX_FORKED {
            self.forked.push(Forked { process, thread, parent });
        }
    }
}

/// Returns a file's `uname -r`; none if it is not a word.
pub(super) fn release(bytes: &[u8]) -> Option<String> {
    let word = bytes.split(|byte| matches!(byte, b'\0' | b' ' | b'\n')).next()?;
    let plain = !word.is_empty() && word.len() <= RELEASE && word.iter().all(u8::is_ascii_graphic);
    plain.then(|| String::from_utf8_lossy(word).into_owned())
}

/// `__NEW_UTS_LEN`.
const RELEASE: usize = 64;

/// Why a trace cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Reading the file failed.
    Io(io::Error),
    /// The file is empty.
    Empty,
    /// A readable file without events.
    WithoutEvents {
        /// Its kind.
        kind: Kind,
    },
    /// A text without events.
    NoEvents {
        /// Number of lines read.
        lines: u64,
    },
    /// The file's header is damaged.
    Damaged {
        /// Place of the damage.
        place: Place,
        /// Expected content.
        expected: String,
    },
    /// The file's kind is known, but not supported.
    NotRead {
        /// Its kind.
        what: String,
        /// How to convert it.
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
                write!(f, "it has no events in {lines} line{}", if *lines == 1 { "" } else { "s" })
            }
        }
    }
}

impl Error {
    /// Returns how to fix it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_counted_as_far_as_the_file_counts_them() {
        let of = |gaps: &[Option<u64>]| {
            let mut losses = Losses::default();
            for &events in gaps {
                losses.add(events);
            }
            losses.sentence()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[Some(1)]).unwrap(), "the recording lost 1 event, in 1 gap");
        assert_eq!(of(&[None]).unwrap(), "the recording lost an unknown number of events, in 1 gap");
        assert_eq!(of(&[Some(500), None]).unwrap(), "the recording lost at least 500 events, in 2 gaps");
    }
}
