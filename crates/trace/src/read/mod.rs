//! Readers of recorded traces of all kinds.
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
//! Damaged parts are skipped and counted ([`Notes`]). Memory is bounded for any file.

mod clock;
mod descriptions;
mod events;
mod foreign;
mod format;
mod head;
mod input;
mod lines;
mod needs;
mod notes;
mod payload;
mod perf_data;
mod perfetto;
mod ring;
mod scan;
mod script;
mod summary;
mod text;
mod trace_dat;
mod wire;

pub use clock::Clock;
pub use events::{Events, detect, from_reader, is_text, open};
pub use foreign::unsupported;
pub use needs::{Needs, needs};
pub use notes::{Error, Forked, Kind, Losses, Notes, Place, Tally};
pub use perf_data::PerfData;
pub use perfetto::PerfettoTrace;
pub use summary::{SWITCHING_NS, Summary, TaskSummary};
pub use text::TextReader;
pub(crate) use trace_dat::MAGIC as TRACE_DAT_MAGIC;
pub use trace_dat::TraceDat;
