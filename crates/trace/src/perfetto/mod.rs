//! Perfetto traces for <https://ui.perfetto.dev>. `docs/traces.md` describes a run in the UI, and the limits.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use bytes::Bytes;
use vruntime_sched::SchedPolicy;
use vruntime_sched::event::{DeadlineEvent, Event, MigrateCause, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};

mod counters;
mod events;
mod packets;
pub mod proto;
mod records;
mod tracks;

pub use self::records::RecordedPerfetto;

use self::counters::{GroupUse, RunQueues};
use self::packets::{Bundles, write_packet};
use self::proto::{
    Data, DebugAnnotation, FtraceEvent, FtraceEventKind, Print, Process, ProcessTree, SEQ_INCREMENTAL_STATE_CLEARED,
    SystemInfo, TYPE_INSTANT, TYPE_SLICE_BEGIN, TYPE_SLICE_END, Thread, ThreadDescriptor, TrackDescriptor, TrackEvent,
    Utsname,
};
use self::tracks::{
    States, THREAD_TRACKS, group_change, group_use, offline, overutilized, queue_length, rt_throttles, throttles,
};
use crate::ftrace::{END_OF_RUN, INTERRUPTED};
use crate::names::{Identity, Names};
use crate::output::Output;
use crate::{CpusetInfo, GroupInfo, Identities, Sink, TaskInfo};

/// CPUs that Perfetto reads; it rejects scheduling events of higher ones (`kMaxCpuCount`).
const MAX_CPUS: u32 = 1024;

/// The kernel's `TRACE_FLAG_HARDIRQ`.
const HARDIRQ: u32 = 8;
/// The kernel's `TRACE_FLAG_SOFTIRQ`.
const SOFTIRQ: u32 = 16;

/// Parent by which the UI recognizes kernel threads.
const KTHREADD_PID: i32 = 2;
/// The parent of the workload's processes.
const LAUNCHER_PID: i32 = 1;

/// Options of a Perfetto trace.
///
/// ```
/// use vruntime_trace::{PerfettoOptions, PerfettoWriter};
///
/// let options = PerfettoOptions { kernel: "6.6".to_owned(), counters: false, ..PerfettoOptions::default() };
/// let trace = PerfettoWriter::with_options(Vec::new(), &options).finish_writing()?;
/// assert!(!trace.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfettoOptions {
    /// The run's kernel, for the UI's info page. Default: `6.12`.
    pub kernel: String,
    /// Counter tracks: run-queue lengths, groups' CPU use. Default: yes.
    pub counters: bool,
    /// Slices for loops and throttled groups; instants for policy, nice value, deadlines, timed sleeps' ends and
    /// balancing. Default: yes.
    pub slices: bool,
    /// A recording's tasks. Its processes replace the workload's. Default: none.
    pub identities: Option<Identities>,
    /// The machine's CPUs. None (default): readers know only CPUs with events.
    pub cpus: Option<u32>,
}

impl Default for PerfettoOptions {
    fn default() -> Self {
        Self { kernel: "6.12".to_owned(), counters: true, slices: true, identities: None, cpus: None }
    }
}

/// Writes a Perfetto trace. Scheduling events are the kernel's tracepoints. So the UI draws CPU and thread tracks,
/// and the SQL tables `sched` and `thread_state` fill.
///
/// Timestamps are nanoseconds since the run's start, not `CLOCK_BOOTTIME`. Perfetto sorts by time only. Therefore a
/// task's same-nanosecond events on further CPUs each move by one nanosecond, or it could run before its wakeup.
///
/// Memory: 16 KiB per CPU, at most 16 MiB, and one entry per task, group and CPU. The writer's first error ends the
/// output, and [`finish_writing`](Self::finish_writing) returns it. Events of CPU 1024 and beyond, which Perfetto
/// rejects, are [counted](Self::omitted) only.
#[derive(Debug)]
pub struct PerfettoWriter<W> {
    out: Output<W>,
    names: Names,
    bundles: Bundles,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    /// Leaders' pids by group and class; below, a recording's written processes.
    processes: BTreeMap<(GroupId, String), i32>,
    recorded_processes: BTreeSet<i32>,
    queues: Option<RunQueues>,
    usage: Option<GroupUse>,
    slices: bool,
    throttles: States<(GroupId, CpuId)>,
    rt_throttles: States<(GroupId, CpuId)>,
    offline: States<CpuId>,
    overutilized: States<CpuId>,
    /// Which groups' tracks are described, by id; below, whether the heading is.
    group_tracks: Vec<bool>,
    queue_heading: bool,
    changes_track: bool,
    wakeup_flags: u32,
    now: u64,
    omitted: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    /// Its process; 0 if it was never announced.
    tgid: i32,
    /// Its latest event's CPU, and time plus one; 0: never.
    seen_on: CpuId,
    seen_until: u64,
    sliced_until: u64,
    has_track: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    latest: u64,
    has_stopper: bool,
    has_queue_track: bool,
}

impl<W: Write> PerfettoWriter<W> {
    /// Writes to `out` with the default options. `out` needs no buffer.
    pub fn new(out: W) -> Self {
        Self::with_options(out, &PerfettoOptions::default())
    }

    /// Writes to `out`.
    pub fn with_options(out: W, options: &PerfettoOptions) -> Self {
        let mut out = Output::new(out);
        let utsname = Utsname {
            sysname: Some("Linux".to_owned()),
            version: Some(format!("vruntime: simulated Linux {}", options.kernel)),
            release: Some(release(&options.kernel)),
            machine: Some("x86_64".to_owned()),
        };
        let info = SystemInfo { utsname: Some(utsname), num_cpus: options.cpus };
        write_packet(&mut out, 0, Some(SEQ_INCREMENTAL_STATE_CLEARED), Data::SystemInfo(info));
        // The parents of a recording's processes are unknown, and it may have these pids itself.
        let roots = [(LAUNCHER_PID, "vruntime"), (KTHREADD_PID, "kthreadd")]
            .into_iter()
            .filter(|&(pid, _)| options.identities.as_ref().is_none_or(|names| pid != LAUNCHER_PID && !names.has(pid)))
            .map(|(pid, name)| Process {
                pid: Some(pid),
                ppid: Some(0),
                cmdline: vec![name.to_owned()],
                is_kthread: Some(pid == KTHREADD_PID),
                cmdline_is_comm: Some(true),
            });
        let tree = ProcessTree { processes: roots.collect(), threads: Vec::new() };
        write_packet(&mut out, 0, None, Data::ProcessTree(tree));
        Self {
            out,
            names: Names::with_identities(options.identities.clone()),
            bundles: Bundles::default(),
            tasks: Vec::new(),
            cpus: Vec::new(),
            processes: BTreeMap::new(),
            recorded_processes: BTreeSet::new(),
            queues: options.counters.then(RunQueues::default),
            usage: options.counters.then(GroupUse::default),
            slices: options.slices,
            throttles: throttles(),
            rt_throttles: rt_throttles(),
            offline: offline(),
            overutilized: overutilized(),
            group_tracks: Vec::new(),
            queue_heading: false,
            changes_track: false,
            wakeup_flags: 0,
            now: 0,
            omitted: 0,
        }
    }

    /// Returns the first error, to stop a long run.
    pub fn error(&self) -> Option<&io::Error> {
        self.out.error()
    }

    /// Counts omitted events, of CPU 1024 and beyond.
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// Flushes and returns the writer. Completes the trace.
    ///
    /// # Errors
    /// The writer's first error, or `InvalidInput` if an event named an impossible id. The output before it is
    /// readable.
    pub fn finish_writing(mut self) -> io::Result<W> {
        self.bundles.flush(&mut self.out);
        self.out.finish()
    }

    /// Extends every table to the admitted ids.
    #[inline]
    fn reserve(&mut self) {
        let (cpus, tasks) = self.names.counts();
        if self.tasks.len() < tasks {
            self.tasks.resize(tasks, Task::default());
        }
        if self.cpus.len() < cpus {
            self.cpus.resize(cpus, Cpu::default());
        }
        if let Some(queues) = &mut self.queues {
            queues.reserve(cpus, tasks);
        }
        if let Some(usage) = &mut self.usage {
            usage.reserve(cpus, tasks);
        }
    }

    /// Returns the timestamp of an event on `cpu`: not before the CPU's previous one, and after all events of `tasks`
    /// elsewhere.
    #[inline]
    fn stamp(&mut self, at: u64, cpu: CpuId, tasks: [Option<TaskId>; 2]) -> u64 {
        let mut stamp = at.max(self.cpus[cpu.index()].latest);
        for id in tasks.into_iter().flatten() {
            let task = &self.tasks[id.index()];
            let after = if task.seen_on == cpu { task.seen_until.saturating_sub(1) } else { task.seen_until };
            stamp = stamp.max(after);
        }
        for id in tasks.into_iter().flatten() {
            let task = &mut self.tasks[id.index()];
            task.seen_on = cpu;
            task.seen_until = stamp.saturating_add(1);
        }
        self.cpus[cpu.index()].latest = stamp;
        stamp
    }

    fn ftrace_event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        let pid = self.names.identity(cpu, self.names.current(cpu)).pid;
        let Some(kind) = self.tracepoint(cpu, event) else { return };
        if cpu.0 >= MAX_CPUS {
            self.omitted += 1;
            return;
        }
        let tasks = match *event {
            Event::Switch { prev, next, .. } => [prev.task(), next.task()],
            Event::Fork { parent, child } => [parent, Some(child)],
            Event::Exit { task }
            | Event::Waking { task, .. }
            | Event::Wakeup { task, .. }
            | Event::WakeupNew { task, .. }
            | Event::Migrate { task, .. }
            | Event::MoveGroup { task, .. } => [Some(task), None],
            _ => [None, None],
        };
        let timestamp = self.stamp(at, cpu, tasks);
        let after = self.after(cpu, event);
        if let Event::Waking { irq, .. } = *event {
            self.wakeup_flags = if irq { HARDIRQ } else { 0 };
        }
        // The events of a wakeup are consecutive. Other events have no flags.
        let wakes = matches!(event, Event::Waking { .. } | Event::Wakeup { .. });
        let common_flags = wakes.then_some(self.wakeup_flags);
        let event =
            FtraceEvent { timestamp: Some(timestamp), pid: Some(pid.unsigned_abs()), common_flags, event: Some(kind) };
        self.bundles.push(&mut self.out, cpu, &event);
        if let Some(after) = after {
            self.bundles.push(&mut self.out, cpu, &FtraceEvent { event: Some(after), ..event });
        }
    }

    /// Marks the run's end, which ends all slices.
    fn end_of_run(&mut self, at: u64) {
        self.print(at, END_OF_RUN);
    }

    /// Marks the run as stopped early, at its end `at`. Call this after [`Sink::finish`].
    pub fn mark_interrupted(&mut self, at: u64) {
        self.print(at, INTERRUPTED);
    }

    /// Writes a taskless mark on CPU 0, at the time of the last event if that is later.
    fn print(&mut self, at: u64, text: &'static str) {
        let cpu = CpuId(0);
        if let Err(error) = self.names.admit_cpu(cpu) {
            self.out.fail(error);
            return;
        }
        let timestamp = self.cpus.iter().map(|cpu| cpu.latest).chain([at]).max();
        let pid = Some(self.names.identity(cpu, self.names.current(cpu)).pid.unsigned_abs());
        let buf = Some(Bytes::from_static(text.as_bytes()));
        let event = Some(FtraceEventKind::Print(Print { ip: None, buf }));
        self.bundles.push(&mut self.out, cpu, &FtraceEvent { timestamp, pid, common_flags: None, event });
    }

    /// Describes `migration/N` once.
    fn introduce_stopper(&mut self, at: u64, cpu: CpuId) {
        if std::mem::replace(&mut self.cpus[cpu.index()].has_stopper, true) {
            return;
        }
        let process = Process {
            pid: Some(self.names.stopper_pid(cpu)),
            ppid: Some(KTHREADD_PID),
            cmdline: vec![format!("migration/{cpu}")],
            is_kthread: Some(true),
            cmdline_is_comm: Some(true),
        };
        let tree = ProcessTree { processes: vec![process], threads: Vec::new() };
        write_packet(&mut self.out, at, None, Data::ProcessTree(tree));
    }

    fn count(&mut self, at: u64, cpu: CpuId, event: &Event) {
        let Self { out, cpus, queues, usage, names, group_tracks, queue_heading, .. } = self;
        if let Some(queues) = queues {
            queues.event(at, cpu, event, |cpu, at, length| queue_length(out, cpus, queue_heading, cpu, at, length));
        }
        if let Some(usage) = usage {
            usage.event(at, cpu, event, |group, at, value| group_use(out, names, group_tracks, group, at, value));
        }
    }

    /// Returns the thread track of `task`, described if new.
    fn thread_track(&mut self, at: u64, task: TaskId) -> u64 {
        let uuid = THREAD_TRACKS + u64::from(task.0);
        let row = &mut self.tasks[task.index()];
        if !std::mem::replace(&mut row.has_track, true) {
            let tid = self.names.task(task).pid;
            let pid = if row.tgid == 0 { tid } else { row.tgid };
            let thread = ThreadDescriptor { pid: Some(pid), tid: Some(tid.into()) };
            let track = TrackDescriptor { uuid: Some(uuid), thread: Some(thread), ..TrackDescriptor::default() };
            write_packet(&mut self.out, at, None, Data::TrackDescriptor(track));
        }
        uuid
    }

    fn instant(&mut self, at: u64, task: TaskId, name: &'static str, value: (&'static str, u64)) {
        self.mark(at, task, Bytes::from_static(name.as_bytes()), vec![annotation(value)]);
    }

    fn mark(&mut self, at: u64, task: TaskId, name: Bytes, debug_annotations: Vec<DebugAnnotation>) {
        let track = self.thread_track(at, task);
        let event = TrackEvent {
            r#type: Some(TYPE_INSTANT),
            track_uuid: Some(track),
            name: Some(name),
            debug_annotations,
            ..TrackEvent::default()
        };
        write_packet(&mut self.out, at, None, Data::TrackEvent(event));
    }

    fn policy(&mut self, at: u64, task: TaskId, policy: SchedPolicy, rt_priority: u8) {
        let priority = if policy.is_rt() { format!(" {rt_priority}") } else { String::new() };
        self.mark(at, task, Bytes::from(format!("policy: {}{priority}", policy.name())), Vec::new());
    }

    fn nice(&mut self, at: u64, task: TaskId, nice: i8) {
        self.mark(at, task, Bytes::from(format!("nice: {nice}")), Vec::new());
    }

    /// Writes a loop of `task` that ends now.
    fn loop_slice(&mut self, at: u64, task: TaskId, duration: u64, work: u64) {
        let track = self.thread_track(at, task);
        let row = &mut self.tasks[task.index()];
        // Slices of a track nest, but loops of a task do not, so none may begin before the previous one has ended.
        let begin = at.saturating_sub(duration).max(row.sliced_until);
        let end = at.max(begin);
        row.sliced_until = end;
        let event = TrackEvent {
            r#type: Some(TYPE_SLICE_BEGIN),
            track_uuid: Some(track),
            name: Some(Bytes::from_static(b"loop")),
            debug_annotations: vec![annotation(("work_ns", work))],
            ..TrackEvent::default()
        };
        write_packet(&mut self.out, begin, None, Data::TrackEvent(event));
        let event = TrackEvent { r#type: Some(TYPE_SLICE_END), track_uuid: Some(track), ..TrackEvent::default() };
        write_packet(&mut self.out, end, None, Data::TrackEvent(event));
    }
}

impl<W: Write> Sink for PerfettoWriter<W> {
    fn group(&mut self, id: GroupId, info: &GroupInfo<'_>) {
        if let Err(error) = self.names.announce_group(id, info) {
            self.out.fail(error);
            return;
        }
        if let Some(usage) = &mut self.usage {
            usage.group(id, info.parent);
        }
    }

    fn group_changed(&mut self, at: u64, _id: GroupId, info: &GroupInfo<'_>) {
        if self.out.error().is_none() {
            self.now = self.now.max(at);
            group_change(&mut self.out, &mut self.changes_track, at, info.settings());
        }
    }

    fn cpuset(&mut self, at: u64, _id: GroupId, info: &CpusetInfo<'_>) {
        // Initial settings are no change.
        if at > 0 && self.out.error().is_none() {
            self.now = self.now.max(at);
            group_change(&mut self.out, &mut self.changes_track, at, info.settings());
        }
    }

    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        if let Err(error) = self.names.announce(id, info) {
            self.out.fail(error);
            return;
        }
        self.reserve();
        if let Some(usage) = &mut self.usage {
            usage.enter(id, info.group);
        }
        // Each class of tasks in a group is a process, led, as in Linux, by its first thread.
        let Identity { pid, comm: name, .. } = self.names.task(id);
        let (name, recorded) = (name.clone(), self.names.identities());
        let leader = if recorded.is_some() {
            self.names.tgid(Running::Task(id)).unwrap_or(pid)
        } else if info.class == info.name {
            pid
        } else {
            *self.processes.entry((info.group, info.class.to_owned())).or_insert(pid)
        };
        self.tasks[id.index()].tgid = leader;
        let mut tree = ProcessTree::default();
        let new = if recorded.is_some() { self.recorded_processes.insert(leader) } else { leader == pid };
        if new {
            let path = self.names.path(info.group);
            let own = String::from_utf8_lossy(&name);
            let class = recorded.map_or(info.class, |names| names.process(leader).unwrap_or(&own));
            let name = if path == "/" { class.to_owned() } else { format!("{path}:{class}") };
            tree.processes.push(Process {
                pid: Some(leader),
                ppid: recorded.is_none().then_some(LAUNCHER_PID),
                // Two elements, because Perfetto cuts a single one at its first blank.
                cmdline: vec![name, format!("cgroup={path}")],
                is_kthread: Some(false),
                cmdline_is_comm: None,
            });
        }
        tree.threads.push(Thread { tid: Some(pid), name: Some(name), tgid: Some(leader) });
        write_packet(&mut self.out, self.now, None, Data::ProcessTree(tree));
    }

    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        if self.out.error().is_some() {
            return;
        }
        if let Err(error) = self.names.admit(cpu, event) {
            self.out.fail(error);
            return;
        }
        self.reserve();
        self.now = self.now.max(at);
        if let Event::Switch { prev, next, .. } = *event
            && (prev == Running::Stopper || next == Running::Stopper)
        {
            self.introduce_stopper(at, cpu);
        }
        self.count(at, cpu, event);
        self.ftrace_event(at, cpu, event);
        if self.slices {
            match *event {
                Event::LoopEnd { task, duration, work } => self.loop_slice(at, task, duration, work),
                Event::Deadline { task, what } => match what {
                    DeadlineEvent::Throttle => self.instant(at, task, "throttled", ("runtime_ns", 0)),
                    DeadlineEvent::Replenish => self.mark(at, task, Bytes::from_static(b"replenished"), Vec::new()),
                    DeadlineEvent::Overrun => self.instant(at, task, "runtime overrun", ("runtime_ns", 0)),
                    DeadlineEvent::Miss { late } => self.instant(at, task, "deadline missed", ("late_ns", late)),
                },
                Event::Fork { child, .. } => {
                    let (policy, rt_priority, nice) = self.names.attributes(child);
                    if policy != SchedPolicy::Normal {
                        self.policy(at, child, policy, rt_priority);
                    }
                    if nice != 0 {
                        self.nice(at, child, nice);
                    }
                }
                Event::SetPolicy { task, policy, rt_priority } => self.policy(at, task, policy, rt_priority),
                Event::SetNice { task, nice } => self.nice(at, task, nice),
                // Trace processors read priorities from the switch; this is for readers.
                Event::PiSetprio { task, old, new } => {
                    self.mark(at, task, Bytes::from(format!("priority inheritance: prio {old} to {new}")), Vec::new());
                }
                Event::SleepReturn { task, late } => self.instant(at, task, "sleep returns", ("late_ns", late)),
                Event::Migrate { task, from, cause, .. } => {
                    if let Some(name) = balance_name(cause) {
                        self.instant(at, task, name, ("from_cpu", from.0.into()));
                    }
                }
                Event::Throttle { group } => {
                    self.throttles
                        .event(&mut self.out, at, (group, cpu), true, || throttle_track(&self.names, group, cpu));
                }
                Event::Unthrottle { group, .. } => {
                    self.throttles.event(&mut self.out, at, (group, cpu), false, String::new);
                }
                Event::RtThrottle { group } => {
                    self.rt_throttles
                        .event(&mut self.out, at, (group, cpu), true, || throttle_track(&self.names, group, cpu));
                }
                Event::RtUnthrottle { group } => {
                    self.rt_throttles.event(&mut self.out, at, (group, cpu), false, String::new);
                }
                Event::Overutilized { root, on } => {
                    self.overutilized.event(&mut self.out, at, root, on, || format!("CPU {root} and its root domain"));
                }
                Event::CpuDown => self.offline.event(&mut self.out, at, cpu, true, || format!("CPU {cpu}")),
                Event::CpuUp => self.offline.event(&mut self.out, at, cpu, false, String::new),
                _ => {}
            }
        }
        self.names.observe(cpu, event);
    }

    fn finish(&mut self, at: u64) {
        let Self { out, cpus, queues, usage, names, group_tracks, queue_heading, .. } = self;
        if let Some(queues) = queues {
            queues.finish(|cpu, at, length| queue_length(out, cpus, queue_heading, cpu, at, length));
        }
        if let Some(usage) = usage {
            usage.finish(at, |group, at, value| group_use(out, names, group_tracks, group, at, value));
        }
        self.throttles.finish(&mut self.out, at);
        self.rt_throttles.finish(&mut self.out, at);
        self.offline.finish(&mut self.out, at);
        self.overutilized.finish(&mut self.out, at);
        self.end_of_run(at);
        self.bundles.flush(&mut self.out);
        self.out.flush();
    }
}

/// Returns `prev_state` as encoded since 4.14.
pub(crate) const fn state_bits(prev: Running, state: PrevState) -> i64 {
    match (prev, state) {
        (Running::Idle, _) | (Running::Task(_), PrevState::Yielded) => 0,
        (Running::Stopper, _) | (Running::Task(_), PrevState::Sleeping) => 1,
        (Running::Task(_), PrevState::Blocked) => 2,
        (Running::Task(_), PrevState::Dead) => 0x10,
        (Running::Task(_), PrevState::Preempted) => 0x100,
    }
}

/// Release for older and unknown kernels; only selects the encoding of `prev_state`.
pub(crate) const NO_RELEASE: &str = "4.14.0-vruntime";

/// Parses the version in a kernel's name or release.
fn version(kernel: &str) -> Option<(u32, u32)> {
    let mut parts = kernel.split(['.', '-']).map(str::parse::<u32>);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// Whether the kernel's `prev_state` is ours.
fn has_our_states(kernel: &str) -> bool {
    version(kernel).is_some_and(|version| version >= (4, 14))
}

/// Returns a `uname -r` for which Perfetto decodes our `prev_state`: that of kernels 4.14+.
fn release(kernel: &str) -> String {
    match version(kernel) {
        Some((major, minor)) if has_our_states(kernel) => format!("{major}.{minor}.0-vruntime"),
        _ => NO_RELEASE.to_owned(),
    }
}

/// Returns the mark of a balancer's migration.
const fn balance_name(cause: MigrateCause) -> Option<&'static str> {
    match cause {
        MigrateCause::Wakeup | MigrateCause::Fork | MigrateCause::Exec => None,
        MigrateCause::Periodic => Some("pulled: periodic balance"),
        MigrateCause::NewIdle => Some("pulled: newly idle balance"),
        MigrateCause::NohzIdle => Some("pulled: nohz idle balance"),
        MigrateCause::Active => Some("pushed: active balance"),
        MigrateCause::Affinity => Some("moved: affinity"),
        MigrateCause::Hotplug => Some("moved: hotplug"),
        MigrateCause::RtPush => Some("pushed: real-time overload"),
        MigrateCause::RtPull => Some("pulled: real-time"),
        MigrateCause::DlPush => Some("pushed: deadline overload"),
        MigrateCause::DlPull => Some("pulled: deadline"),
    }
}

fn throttle_track(names: &Names, group: GroupId, cpu: CpuId) -> String {
    format!("{} CPU {cpu}", names.path(group))
}

fn annotation((name, value): (&'static str, u64)) -> DebugAnnotation {
    DebugAnnotation { uint_value: Some(value), name: Some(Bytes::from_static(name.as_bytes())) }
}

#[cfg(test)]
mod tests;
