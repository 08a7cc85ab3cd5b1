//! Writes recorded events as a Perfetto trace, for conversion.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bytes::Bytes;
use vruntime_sched::ids::CpuId;

use super::packets::{Bundles, write_packet};
use super::proto::{
    CgroupAttachTask, CpuFrequency, CpuIdle, CpuhpEnter, Data, FtraceEvent, FtraceEventKind, Generic, GenericField,
    Print, Process, ProcessTree, SEQ_INCREMENTAL_STATE_CLEARED, SchedMigrateTask, SchedProcessExec, SchedProcessExit,
    SchedProcessFork, SchedSwitch, SchedWakeup, SystemInfo, TaskNewtask, TaskRename, Thread, Utsname,
};
use super::{HARDIRQ, MAX_CPUS, NO_RELEASE, SOFTIRQ, has_our_states};
use crate::event::{Context, Named, Record, TaskState, Tracepoint, Wakeup};
use crate::output::Output;

/// Number of threads with remembered processes: as many as Linux has.
const MAX_THREADS: usize = 1 << 22;
/// Threads per packet.
const THREADS: usize = 1000;

/// Writes [`Record`]s as a Perfetto trace: the scheduler's events, frequencies, idle states and markers. Events
/// without a message in Perfetto (`sched_stat_runtime`) are generic ones. If their fields are unknown, the text is
/// the field `fields`.
///
/// Left out and [counted](Self::omitted): events with unexpected fields, before time 0, or of CPU 1024 and beyond,
/// for which Perfetto would reject the file. A loss is a flag of a CPU's bundle, without a count.
///
/// Memory: 16 KiB for each CPU, at most 16 MiB for all, and one entry for each thread with a known process.
#[derive(Debug)]
pub struct RecordedPerfetto<W> {
    out: Output<W>,
    release: Option<String>,
    bundles: Bundles,
    processes: BTreeMap<i32, Known>,
    latest: u64,
    omitted: u64,
}

#[derive(Debug)]
struct Known {
    tgid: i32,
    comm: Bytes,
}

impl<W: Write> RecordedPerfetto<W> {
    /// Writes to `out`, with the header of a machine with `cpus` CPUs; 0 if unknown. `out` needs no buffer.
    pub fn new(out: W, cpus: u32) -> Self {
        Self::with_release(out, cpus, None)
    }

    /// As [`new`](Self::new), with the recorded kernel ([`Notes::release`](crate::read::Notes::release)). Kernels
    /// before 4.14 are [left out](Self::release): Perfetto would read other bits of `prev_state` by them.
    pub fn with_release(out: W, cpus: u32, release: Option<&str>) -> Self {
        let mut out = Output::new(out);
        let version = "converted by vruntime";
        // The placeholder is no release.
        let own = release.filter(|release| *release != NO_RELEASE && has_our_states(release)).map(str::to_owned);
        let utsname = Utsname {
            sysname: Some("Linux".to_owned()),
            version: Some(release.map_or(version.to_owned(), |release| format!("{version}, recorded under {release}"))),
            // Perfetto decodes the states by this.
            release: Some(own.clone().unwrap_or_else(|| NO_RELEASE.to_owned())),
            machine: None,
        };
        let info = SystemInfo { utsname: Some(utsname), num_cpus: Some(cpus).filter(|&cpus| cpus > 0) };
        write_packet(&mut out, 0, Some(SEQ_INCREMENTAL_STATE_CLEARED), Data::SystemInfo(info));
        Self { out, release: own, bundles: Bundles::default(), processes: BTreeMap::new(), latest: 0, omitted: 0 }
    }

    /// Returns the release in the header.
    pub fn release(&self) -> Option<&str> {
        self.release.as_deref()
    }

    /// Writes one event. Of perf's additional records, it uses [new names](Record::is_perf_rename) and processes.
    pub fn record(&mut self, record: &Record<'_>) {
        self.know(record);
        let is_shown = matches!(record.point, Tracepoint::Lost { .. }) || record.is_perf_rename();
        if record.name.starts_with(b"PERF_RECORD_") && !is_shown {
            return;
        }
        let cpu = CpuId(record.cpu);
        if matches!(record.point, Tracepoint::Lost { .. }) && record.cpu < MAX_CPUS {
            self.bundles.lose(&mut self.out, cpu);
            return;
        }
        let timestamp = u64::try_from(record.at).ok();
        let (Some(timestamp), true) = (timestamp, record.cpu < MAX_CPUS) else {
            self.omitted += 1;
            return;
        };
        self.latest = self.latest.max(timestamp);
        let Some(kind) = message(record) else {
            self.omitted += 1;
            return;
        };
        let pid = u32::try_from(record.pid).ok();
        let common_flags = record.context.map(|context| match context {
            Context::Hardirq => HARDIRQ,
            Context::Softirq => SOFTIRQ,
            Context::Task => 0,
        });
        let event = FtraceEvent { timestamp: Some(timestamp), pid, common_flags, event: Some(kind) };
        self.bundles.push(&mut self.out, cpu, &event);
    }

    fn know(&mut self, record: &Record<'_>) {
        let (pid, tgid, comm) = match record.point {
            Tracepoint::TaskRename { task, tgid: Some(tgid) } => (task.pid, tgid, task.comm),
            _ => match record.tgid {
                Some(tgid) => (record.pid, tgid, record.comm),
                None => return,
            },
        };
        if pid <= 0 || tgid <= 0 {
            return;
        }
        let full = self.processes.len() >= MAX_THREADS;
        match self.processes.get_mut(&pid) {
            Some(known) if known.tgid == tgid && known.comm == comm => {}
            Some(known) => *known = Known { tgid, comm: Bytes::copy_from_slice(comm) },
            None if full => {}
            None => {
                self.processes.insert(pid, Known { tgid, comm: Bytes::copy_from_slice(comm) });
            }
        }
    }

    /// Returns the number of omitted events.
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// Returns the first error, to stop early.
    pub fn error(&self) -> Option<&io::Error> {
        self.out.error()
    }

    /// Flushes, writes the processes, and returns the writer.
    ///
    /// # Errors
    /// The first error of the underlying writer.
    pub fn finish_writing(mut self) -> io::Result<W> {
        self.bundles.flush(&mut self.out);
        let threads: Vec<(i32, Known)> = std::mem::take(&mut self.processes).into_iter().collect();
        for threads in threads.chunks(THREADS) {
            let name = |known: &Known| String::from_utf8_lossy(&known.comm).into_owned();
            let leaders = threads.iter().filter(|(pid, known)| *pid == known.tgid);
            let processes = leaders.map(|(pid, known)| Process {
                pid: Some(*pid),
                cmdline: vec![name(known)],
                cmdline_is_comm: Some(true),
                ..Process::default()
            });
            let processes = processes.collect();
            let threads = threads.iter().map(|(tid, known)| Thread {
                tid: Some(*tid),
                name: Some(Bytes::from(name(known))),
                tgid: Some(known.tgid),
            });
            let tree = ProcessTree { processes, threads: threads.collect() };
            write_packet(&mut self.out, self.latest, None, Data::ProcessTree(tree));
        }
        self.out.finish()
    }
}

/// Converts to UTF-8, as Perfetto requires.
fn utf8(bytes: &[u8]) -> Bytes {
    match std::str::from_utf8(bytes) {
        Ok(_) => Bytes::copy_from_slice(bytes),
        Err(_) => Bytes::from(String::from_utf8_lossy(bytes).into_owned()),
    }
}

fn wakeup(wakeup: &Wakeup<'_>) -> SchedWakeup {
    SchedWakeup {
        comm: Some(utf8(wakeup.task.comm)),
        pid: Some(wakeup.task.pid),
        prio: Some(wakeup.prio),
        success: Some(wakeup.success.into()),
        target_cpu: wakeup.target_cpu.map(|cpu| cpu as i32),
    }
}

/// Returns `prev_state` in the encoding of 4.14 and later.
const fn bits(state: TaskState) -> i64 {
    match state {
        TaskState::Running | TaskState::Unknown => 0,
        TaskState::Sleeping => 1,
        TaskState::DiskSleep => 2,
        TaskState::Stopped => 4,
        TaskState::Tracing => 8,
        TaskState::Dead => 0x10,
        TaskState::Zombie => 0x20,
        TaskState::Parked => 0x40,
        TaskState::Idle => 0x80,
        TaskState::Preempted => 0x100,
    }
}

/// Returns Perfetto's message for an event, if there is one.
fn message(record: &Record<'_>) -> Option<FtraceEventKind> {
    Some(match record.point {
        Tracepoint::Switch { prev, prev_prio, prev_state, next, next_prio } => {
            FtraceEventKind::SchedSwitch(SchedSwitch {
                prev_comm: Some(utf8(prev.comm)),
                prev_pid: Some(prev.pid),
                prev_prio: Some(prev_prio),
                prev_state: Some(bits(prev_state)),
                next_comm: Some(utf8(next.comm)),
                next_pid: Some(next.pid),
                next_prio: Some(next_prio),
            })
        }
        Tracepoint::Waking(ref woken) => FtraceEventKind::SchedWaking(wakeup(woken)),
        Tracepoint::Wakeup(ref woken) => FtraceEventKind::SchedWakeup(wakeup(woken)),
        Tracepoint::WakeupNew(ref woken) => FtraceEventKind::SchedWakeupNew(wakeup(woken)),
        Tracepoint::MigrateTask { task, prio, orig_cpu, dest_cpu } => {
            FtraceEventKind::SchedMigrateTask(SchedMigrateTask {
                comm: Some(utf8(task.comm)),
                pid: Some(task.pid),
                prio: Some(prio),
                orig_cpu: Some(orig_cpu as i32),
                dest_cpu: Some(dest_cpu as i32),
            })
        }
        Tracepoint::ProcessFork { parent, child } => FtraceEventKind::SchedProcessFork(SchedProcessFork {
            parent_comm: Some(utf8(parent.comm)),
            parent_pid: Some(parent.pid),
            child_comm: Some(utf8(child.comm)),
            child_pid: Some(child.pid),
        }),
        Tracepoint::TaskNew { task, clone_flags, oom_score_adj } => FtraceEventKind::TaskNewtask(TaskNewtask {
            pid: Some(task.pid),
            comm: Some(utf8(task.comm)),
            clone_flags: Some(clone_flags),
            oom_score_adj: Some(oom_score_adj),
        }),
        Tracepoint::ProcessExec { filename, pid, old_pid } => FtraceEventKind::SchedProcessExec(SchedProcessExec {
            filename: Some(utf8(filename)),
            pid: Some(pid),
            old_pid: Some(old_pid),
        }),
        Tracepoint::ProcessExit { task: Named { comm, pid }, prio, .. } => {
            FtraceEventKind::SchedProcessExit(SchedProcessExit {
                comm: Some(utf8(comm)),
                pid: Some(pid),
                tgid: None,
                prio: Some(prio),
            })
        }
        Tracepoint::TaskRename { task, .. } => FtraceEventKind::TaskRename(TaskRename {
            pid: Some(task.pid),
            oldcomm: None,
            newcomm: Some(utf8(task.comm)),
            oom_score_adj: Some(0),
        }),
        Tracepoint::CgroupAttach { task, dst_root, dst_id, dst_level, dst_path } => {
            FtraceEventKind::CgroupAttachTask(CgroupAttachTask {
                dst_root: Some(dst_root),
                // Perfetto has 32 bits.
                dst_id: Some(dst_id as i32),
                pid: Some(task.pid),
                comm: Some(utf8(task.comm)),
                dst_level: Some(dst_level),
                dst_path: Some(String::from_utf8_lossy(dst_path).into_owned()),
            })
        }
        Tracepoint::CpuIdle { state, cpu_id } => {
            FtraceEventKind::CpuIdle(CpuIdle { state: Some(state), cpu_id: Some(cpu_id) })
        }
        Tracepoint::CpuFrequency { khz, cpu_id } => {
            FtraceEventKind::CpuFrequency(CpuFrequency { state: Some(khz), cpu_id: Some(cpu_id) })
        }
        Tracepoint::CpuhpEnter { cpu_id, target, step, .. } => {
            FtraceEventKind::CpuhpEnter(CpuhpEnter { cpu: Some(cpu_id), idx: Some(step), target: Some(target) })
        }
        Tracepoint::Print { text: printed } => FtraceEventKind::Print(Print { ip: None, buf: Some(utf8(printed)) }),
        Tracepoint::StatRuntime { task, runtime_ns, vruntime_ns } => {
            let pid = GenericField { int_value: Some(task.pid.into()), ..named("pid") };
            let number = |name, value| GenericField { uint_value: Some(value), ..named(name) };
            let vruntime = vruntime_ns.map(|ns| number("vruntime", ns));
            let fields = [text("comm", task.comm), pid, number("runtime", runtime_ns)];
            generic(record.name, fields.into_iter().chain(vruntime).collect())
        }
        Tracepoint::SocketSend(transfer) | Tracepoint::SocketReceive(transfer) => {
            generic(record.name, vec![text("fields", transfer.to_string().as_bytes())])
        }
        Tracepoint::SocketState(state) => generic(record.name, vec![text("fields", state.to_string().as_bytes())]),
        Tracepoint::Other { fields: b"" } => generic(record.name, Vec::new()),
        Tracepoint::Other { fields } => generic(record.name, vec![text("fields", fields)]),
        Tracepoint::Lost { .. } | Tracepoint::Malformed { .. } => return None,
    })
}

fn generic(name: &[u8], field: Vec<GenericField>) -> FtraceEventKind {
    FtraceEventKind::Generic(Generic { event_name: Some(String::from_utf8_lossy(name).into_owned()), field })
}

fn named(name: &str) -> GenericField {
    GenericField { name: Some(name.to_owned()), ..GenericField::default() }
}

fn text(name: &str, value: &[u8]) -> GenericField {
    GenericField { str_value: Some(String::from_utf8_lossy(value).into_owned()), ..named(name) }
}
