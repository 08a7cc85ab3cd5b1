//! Traces: where events go, and the formats they are written in.
//!
//! Everything that observes a run is a [`Sink`]: a digest, the metrics of `vruntime_report`, a Perfetto file. Sinks
//! compose as tuples and cost nothing when absent.

mod sink;

pub use sink::{Digest, GroupInfo, NoSink, Sink, TaskInfo};
pub use vruntime_sched::event::*;
pub use vruntime_sched::ids::*;
