//! Traces: where events go, the formats they are written in, and readers of what real kernels recorded.
//!
//! Everything that observes a run is a [`Sink`]: a digest, the metrics of `vruntime_report`, a Perfetto file. Sinks
//! compose as tuples and cost nothing when absent.
//!
//! [`PerfettoWriter`] writes what <https://ui.perfetto.dev> opens, [`FtraceWriter`] the text of `trace-cmd report`.
//! Both stream: their memory does not grow with the length of the run.
//!
//! [`read`] has the readers; what they find is a [`Record`], an event as a real kernel names things.

// What comes from a user ends in an error, never in a panic; what cannot happen says why where it stands.
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

pub use event::{CPU_IDLE_EXIT, Context, MAX_CPUS, Named, Record, StateBits, TaskState, Tracepoint, Wakeup};
pub use ftrace::{FtraceWriter, Mark, RecordedText};
pub use identity::{Identities, Identity};
pub use names::{is_stopper, stopper_pid, task_pid};
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
