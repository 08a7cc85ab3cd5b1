//! The part of Perfetto's schema that the writer uses, with Perfetto's names and field numbers. Messages of events
//! lack Perfetto's suffix `FtraceEvent`.
//!
//! Public, so that tests and tools can decode the output (`Trace::decode`). Source: `protos/perfetto/trace` in
//! Perfetto's repository; the numbers are checked against its Python package (see `docs/traces.md`). Strings are
//! [`Bytes`] here, so that events share names without copies.
#![allow(missing_docs)] // the names are Perfetto's, and its documentation describes them

use bytes::Bytes;
use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// Nanoseconds of `CLOCK_BOOTTIME`; here since the start of the run. Bundles have none: their events do.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    #[prost(oneof = "Data", tags = "1, 2, 11, 45, 60")]
    pub data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Data {
    #[prost(message, tag = "1")]
    FtraceEvents(FtraceEventBundle),
    #[prost(message, tag = "2")]
    ProcessTree(ProcessTree),
    #[prost(message, tag = "11")]
    TrackEvent(TrackEvent),
    #[prost(message, tag = "45")]
    SystemInfo(SystemInfo),
    #[prost(message, tag = "60")]
    TrackDescriptor(TrackDescriptor),
}

/// `TracePacket.sequence_flags`: the following packets need no earlier ones of this sequence.
pub const SEQ_INCREMENTAL_STATE_CLEARED: u32 = 1;

/// Events of one CPU, in order of time.
#[derive(Clone, PartialEq, Message)]
pub struct FtraceEventBundle {
    #[prost(uint32, optional, tag = "1")]
    pub cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub event: Vec<FtraceEvent>,
    /// Set if events of this CPU are missing before these.
    #[prost(bool, optional, tag = "3")]
    pub lost_events: Option<bool>,
}

/// One event of a tracepoint.
#[derive(Clone, PartialEq, Message)]
pub struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    pub timestamp: Option<u64>,
    /// The running task.
    #[prost(uint32, optional, tag = "2")]
    pub pid: Option<u32>,
    /// The kernel's flags: 8 in an interrupt's handler.
    #[prost(uint32, optional, tag = "5")]
    pub common_flags: Option<u32>,
    #[prost(
        oneof = "FtraceEventKind",
        tags = "3, 4, 11, 13, 17, 20, 67, 114, 235, 236, 237, 238, 239, 327, 343, 345, 491"
    )]
    pub event: Option<FtraceEventKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum FtraceEventKind {
    #[prost(message, tag = "3")]
    Print(Print),
    #[prost(message, tag = "4")]
    SchedSwitch(SchedSwitch),
    #[prost(message, tag = "17")]
    SchedWakeup(SchedWakeup),
    #[prost(message, tag = "20")]
    SchedWaking(SchedWakeup),
    #[prost(message, tag = "67")]
    CgroupAttachTask(CgroupAttachTask),
    #[prost(message, tag = "11")]
    CpuFrequency(CpuFrequency),
    #[prost(message, tag = "13")]
    CpuIdle(CpuIdle),
    #[prost(message, tag = "235")]
    TaskNewtask(TaskNewtask),
    #[prost(message, tag = "236")]
    TaskRename(TaskRename),
    #[prost(message, tag = "237")]
    SchedProcessExec(SchedProcessExec),
    #[prost(message, tag = "114")]
    SchedWakeupNew(SchedWakeup),
    #[prost(message, tag = "238")]
    SchedProcessExit(SchedProcessExit),
    #[prost(message, tag = "239")]
    SchedProcessFork(SchedProcessFork),
    #[prost(message, tag = "327")]
    Generic(Generic),
    #[prost(message, tag = "343")]
    CpuhpExit(CpuhpExit),
    #[prost(message, tag = "345")]
    CpuhpEnter(CpuhpEnter),
    #[prost(message, tag = "491")]
    SchedMigrateTask(SchedMigrateTask),
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedSwitch {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub prev_comm: Option<Bytes>,
    #[prost(int32, optional, tag = "2")]
    pub prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub prev_prio: Option<i32>,
    /// The bits of 4.14 and later: 0 R, 1 S, 2 D, 0x10 X, 0x100 R+.
    #[prost(int64, optional, tag = "4")]
    pub prev_state: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub next_comm: Option<Bytes>,
    #[prost(int32, optional, tag = "6")]
    pub next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub next_prio: Option<i32>,
}

/// Also `SchedWakingFtraceEvent` and `SchedWakeupNewFtraceEvent`.
#[derive(Clone, PartialEq, Message)]
pub struct SchedWakeup {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub comm: Option<Bytes>,
    #[prost(int32, optional, tag = "2")]
    pub pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub prio: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub success: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub target_cpu: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CgroupAttachTask {
    #[prost(int32, optional, tag = "1")]
    pub dst_root: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub dst_id: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub pid: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub comm: Option<Bytes>,
    #[prost(int32, optional, tag = "6")]
    pub dst_level: Option<i32>,
    #[prost(string, optional, tag = "7")]
    pub dst_path: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CpuFrequency {
    #[prost(uint32, optional, tag = "1")]
    pub state: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub cpu_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CpuIdle {
    #[prost(uint32, optional, tag = "1")]
    pub state: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub cpu_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Print {
    #[prost(uint64, optional, tag = "1")]
    pub ip: Option<u64>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub buf: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TaskNewtask {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub comm: Option<Bytes>,
    #[prost(uint64, optional, tag = "3")]
    pub clone_flags: Option<u64>,
    #[prost(int32, optional, tag = "4")]
    pub oom_score_adj: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TaskRename {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub oldcomm: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub newcomm: Option<Bytes>,
    #[prost(int32, optional, tag = "4")]
    pub oom_score_adj: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedProcessExec {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub filename: Option<Bytes>,
    #[prost(int32, optional, tag = "2")]
    pub pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub old_pid: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedProcessExit {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub comm: Option<Bytes>,
    #[prost(int32, optional, tag = "2")]
    pub pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub tgid: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub prio: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedProcessFork {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub parent_comm: Option<Bytes>,
    #[prost(int32, optional, tag = "2")]
    pub parent_pid: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub child_comm: Option<Bytes>,
    #[prost(int32, optional, tag = "4")]
    pub child_pid: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedMigrateTask {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub comm: Option<Bytes>,
    #[prost(int32, optional, tag = "2")]
    pub pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub prio: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub orig_cpu: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub dest_cpu: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CpuhpEnter {
    #[prost(uint32, optional, tag = "1")]
    pub cpu: Option<u32>,
    #[prost(int32, optional, tag = "3")]
    pub idx: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub target: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CpuhpExit {
    #[prost(uint32, optional, tag = "1")]
    pub cpu: Option<u32>,
    #[prost(int32, optional, tag = "2")]
    pub idx: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub ret: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub state: Option<i32>,
}

/// An event without its own message.
#[derive(Clone, PartialEq, Message)]
pub struct Generic {
    #[prost(string, optional, tag = "1")]
    pub event_name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub field: Vec<GenericField>,
}

/// `GenericFtraceEvent.Field`, with one value.
#[derive(Clone, PartialEq, Message)]
pub struct GenericField {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub str_value: Option<String>,
    #[prost(int64, optional, tag = "4")]
    pub int_value: Option<i64>,
    #[prost(uint64, optional, tag = "5")]
    pub uint_value: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    pub processes: Vec<Process>,
    #[prost(message, repeated, tag = "2")]
    pub threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Process {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub ppid: Option<i32>,
    /// The first element is the process's name.
    #[prost(string, repeated, tag = "3")]
    pub cmdline: Vec<String>,
    #[prost(bool, optional, tag = "8")]
    pub is_kthread: Option<bool>,
    #[prost(bool, optional, tag = "9")]
    pub cmdline_is_comm: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Thread {
    #[prost(int32, optional, tag = "1")]
    pub tid: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub name: Option<Bytes>,
    #[prost(int32, optional, tag = "3")]
    pub tgid: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    pub utsname: Option<Utsname>,
    #[prost(uint32, optional, tag = "8")]
    pub num_cpus: Option<u32>,
}

/// `uname(2)`. The release selects Perfetto's decoding of `prev_state`.
#[derive(Clone, PartialEq, Message)]
pub struct Utsname {
    #[prost(string, optional, tag = "1")]
    pub sysname: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub version: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub release: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub machine: Option<String>,
}

/// A line of the timeline: of a thread, a counter, or a heading.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
}

/// `TrackDescriptor.child_ordering`: by name.
pub const ORDER_LEXICOGRAPHIC: i32 = 1;
/// `TrackDescriptor.child_ordering`: by `sibling_order_rank`.
pub const ORDER_EXPLICIT: i32 = 3;

#[derive(Clone, PartialEq, Message)]
pub struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub tid: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    #[prost(string, optional, tag = "6")]
    pub unit_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    #[prost(bytes = "bytes", optional, tag = "23")]
    pub name: Option<Bytes>,
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    #[prost(double, optional, tag = "44")]
    pub double_counter_value: Option<f64>,
}

/// `TrackEvent.type`.
pub const TYPE_SLICE_BEGIN: i32 = 1;
/// `TrackEvent.type`: ends the innermost slice of the track.
pub const TYPE_SLICE_END: i32 = 2;
/// `TrackEvent.type`: has no duration.
pub const TYPE_INSTANT: i32 = 3;
/// `TrackEvent.type`: a new value of the counter.
pub const TYPE_COUNTER: i32 = 4;

/// A named value of an event.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    #[prost(bytes = "bytes", optional, tag = "10")]
    pub name: Option<Bytes>,
}
