//! Traces: sinks for events, writers of trace formats, and readers of recorded traces.
//!
//! Every observer of a run is a [`Sink`]: a digest, the metrics of `vruntime_report`, a Perfetto file. Sinks compose
//! as tuples.
//!
//! ```
//! use vruntime_trace::{CpuId, Digest, Event, FtraceWriter, Sink, TaskId, TaskInfo};
//!
//! let mut sinks = (Digest::default(), FtraceWriter::new(Vec::new(), 1));
//! let task = TaskId(0);
//! sinks.task(task, &TaskInfo { name: "web-0", class: "web", ..TaskInfo::default() });
//! sinks.event(1_000, CpuId(0), &Event::WakeupNew { task, target: CpuId(0) });
//! sinks.finish(2_000);
//!
//! let text = String::from_utf8(sinks.1.finish_writing()?).expect("the text is UTF-8");
//! assert!(text.contains("sched_wakeup_new:     comm=web-0 pid=1000 prio=120 target_cpu=000"), "{text}");
//! assert_ne!(sinks.0.value(), Digest::default().value());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! [`PerfettoWriter`] writes files for <https://ui.perfetto.dev>, and [`FtraceWriter`] the text of `trace-cmd
//! report`. Both stream, so their memory does not grow with the length of the run.
//!
//! The readers in [`read`] return [`Record`]s, which have the names and ids of a real kernel.

// User input must end in an error, never in a panic. Impossible cases have a comment at their place.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

mod event;
mod ftrace;
mod identity;
mod names;
mod output;
pub mod perfetto;
pub mod read;
pub mod recording;
mod relay;
mod sink;

pub use event::{
    CPU_IDLE_EXIT, Context, MAX_CPUS, Named, Record, SocketState, StateBits, TaskState, Tracepoint, Transfer, Wakeup,
};
pub use ftrace::{FtraceWriter, Mark, RecordedText};
pub use identity::{Identities, Identity};
pub use names::{is_stopper, obeyed, stopper_pid, task_pid};
pub use perfetto::{PerfettoOptions, PerfettoWriter, RecordedPerfetto};
pub use relay::{Batch, Relay, Wants};
pub use sink::{
    CpusetInfo, Digest, DomainInfo, EnergyInfo, GroupInfo, LoopTimes, MachineInfo, NoSink, Sink, TaskInfo, Totals,
};
pub use vruntime_sched::debug;
pub use vruntime_sched::energy;
pub use vruntime_sched::event::*;
pub use vruntime_sched::ids::*;
pub use vruntime_sched::loadavg::{self, LoadAvg};
pub use vruntime_sched::weight;
pub use vruntime_sched::{CpuMask, SchedPolicy};
