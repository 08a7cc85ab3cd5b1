//! Readers of recorded traces: one event after the other, whatever the file.
//!
//! ```
//! use vruntime_trace::Tracepoint;
//! use vruntime_trace::read::TextReader;
//!
//! let text = b"  bash-7 [001] 0.000001: sched_waking: comm=make pid=8 prio=120 target_cpu=000\n";
//! let mut reader = TextReader::new(&text[..]);
//! while let Some(record) = reader.next_record()? {
//!     let Tracepoint::Waking(wakeup) = record.point else { panic!() };
//!     assert_eq!((record.at, record.cpu, wakeup.task.pid), (1_000, 1, 8));
//! }
//! # Ok::<(), vruntime_trace::read::Error>(())
//! ```
//!
//! What is damaged is passed over and counted ([`Notes`]): a trace with a hole is worth more than none. Memory is bounded, whatever
//! the file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::event::Record;

mod clock;
mod head;
mod lines;
mod needs;
mod notes;
mod payload;
mod scan;
mod summary;
mod text;

pub use clock::Clock;
pub use needs::{Needs, needs};
pub use notes::{Error, Kind, Notes, Place, Tally};
pub use summary::{Summary, TaskSummary};
pub use text::TextReader;

/// A trace being read, of whatever kind.
pub trait Events {
    /// The next event; none at the end of the file. Text comes in the order of the file, binary traces in the order of time.
    ///
    /// # Errors
    /// If reading fails, or the file is no trace.
    fn next_record(&mut self) -> Result<Option<Record<'_>>, Error>;

    /// What is known of the file so far.
    fn notes(&self) -> &Notes;
}

impl<R: Read> Events for TextReader<R> {
    fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        TextReader::next_record(self)
    }

    fn notes(&self) -> &Notes {
        TextReader::notes(self)
    }
}

/// Opens the trace at `path`. What kind it is, its content says.
///
/// # Errors
/// If it cannot be opened, or is of a kind that is recognised and not read.
pub fn open(path: &Path) -> Result<Box<dyn Events>, Error> {
    Ok(Box::new(TextReader::new(File::open(path)?)))
}
