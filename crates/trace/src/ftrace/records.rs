//! Writes recorded events as ftrace text, for conversion.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::{IN_INTERRUPT, IN_SOFTIRQ, IN_TASK, push_field, push_number, push_padded, push_signed, push_tgid};
use crate::event::{Context, Named, Record, Tracepoint, Wakeup};
use crate::output::Output;

/// Number of threads with remembered processes: as many as Linux has.
const MAX_THREADS: usize = 1 << 22;

/// Writes [`Record`]s as `trace-cmd report -t -N` prints them: nanoseconds, and the kernel's wording of fields. A
/// known process stands beside the thread, as with the option record-tgid: `bash-7     (    7) [001]`.
///
/// Undecoded fields stay as text; in binary files, such events have only their name. Control characters in names
/// become `?`. An unknown running task is `<...>-0`, which the reader distinguishes from the idle task (`<idle>-0`).
/// Two things are lost: the flags except `h`, and processes of threads without events, which are
/// [counted](Self::omitted).
///
/// Memory: one entry for each thread with a known process.
///
/// ```
/// use vruntime_trace::RecordedText;
/// use vruntime_trace::read::TextReader;
///
/// let text = "  bash 7/7 [001] 0.000001: sched:sched_waking: comm=make pid=8 prio=120 target_cpu=000\n";
/// let (mut reader, mut writer) = (TextReader::new(text.as_bytes()), RecordedText::new(Vec::new(), 2));
/// while let Some(record) = reader.next_record()? {
///     writer.record(&record);
/// }
/// let text = String::from_utf8(writer.finish_writing()?)?;
/// assert!(text.ends_with(" bash-7     (    7) [001]     0.000001000: sched_waking:         comm=make pid=8 prio=120 target_cpu=000\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RecordedText<W> {
    out: Output<W>,
    release: Option<String>,
    processes: BTreeMap<i32, Process>,
}

#[derive(Debug)]
struct Process {
    tgid: i32,
    /// Set if a line has it.
    written: bool,
}

impl<W: Write> RecordedText<W> {
    /// Writes to `out`, with the header of a machine with `cpus` CPUs; 0 if unknown. `out` needs no buffer.
    pub fn new(out: W, cpus: u32) -> Self {
        let mut out = Output::new(out);
        if cpus > 0 {
            out.write(|buffer| {
                push_field(buffer, b"cpus=", &[]);
                push_number(buffer, u64::from(cpus), 1);
                buffer.push(b'\n');
            });
        }
        Self { out, release: None, processes: BTreeMap::new() }
    }

    /// Writes [`Notes::release`](crate::read::Notes::release) into the header. Call it before the first event.
    #[must_use]
    pub fn with_release(mut self, release: &str) -> Self {
        self.out.write(|buffer| {
            text(buffer, b"# os release : ", release.as_bytes());
            buffer.push(b'\n');
        });
        self.release = Some(release.to_owned());
        self
    }

    /// Returns the release in the header.
    pub fn release(&self) -> Option<&str> {
        self.release.as_deref()
    }

    /// Writes one event. Of perf's additional records, it uses processes, and [new names](Record::is_perf_rename) as
    /// `task_rename`.
    pub fn record(&mut self, record: &Record<'_>) {
        let renamed = Record { name: b"task_rename", ..*record };
        let record = if record.is_perf_rename() { &renamed } else { record };
        if let Tracepoint::TaskRename { task, tgid: Some(tgid) } = record.point {
            self.know(task.pid, tgid);
        }
        if let Tracepoint::Lost { events } = record.point {
            self.out.write(|buffer| lost(buffer, record.cpu, events));
        } else if !record.name.starts_with(b"PERF_RECORD_") {
            if let Some(tgid) = record.tgid {
                self.know(record.pid, tgid);
            }
            let process = self.processes.get_mut(&record.pid);
            let tgid = process.map(|process| {
                process.written = true;
                process.tgid
            });
            self.out.write(|buffer| line(buffer, record, tgid));
        }
    }

    fn know(&mut self, pid: i32, tgid: i32) {
        if pid <= 0 || tgid <= 0 {
            return;
        }
        let full = self.processes.len() >= MAX_THREADS;
        match self.processes.get_mut(&pid) {
            Some(process) if process.tgid == tgid => {}
            Some(process) => *process = Process { tgid, written: false },
            None if full => {}
            None => {
                self.processes.insert(pid, Process { tgid, written: false });
            }
        }
    }

    /// Returns the number of known threads whose process is not written, for lack of events.
    pub fn omitted(&self) -> u64 {
        self.processes.values().filter(|process| !process.written).count() as u64
    }

    /// Returns the first error, to stop early.
    pub fn error(&self) -> Option<&io::Error> {
        self.out.error()
    }

    /// Flushes and returns the writer.
    ///
    /// # Errors
    /// The first error of the underlying writer.
    pub fn finish_writing(self) -> io::Result<W> {
        self.out.finish()
    }
}

/// `CPU:1 [LOST 12 EVENTS]`, as in the kernel.
fn lost(buffer: &mut Vec<u8>, cpu: u32, events: Option<u64>) {
    buffer.extend_from_slice(b"CPU:");
    push_number(buffer, u64::from(cpu), 1);
    buffer.extend_from_slice(b" [LOST ");
    if let Some(events) = events {
        push_number(buffer, events, 1);
        buffer.push(b' ');
    }
    buffer.extend_from_slice(b"EVENTS]\n");
}

fn line(buffer: &mut Vec<u8>, record: &Record<'_>, tgid: Option<i32>) {
    let comm: &[u8] = match (record.pid, record.comm) {
        (0, _) => b"<idle>",
        // perf's placeholder is no name.
        (..0, _) | (_, b"") => b"<...>",
        (_, comm) => comm,
    };
    buffer.resize(buffer.len() + 16_usize.saturating_sub(comm.len()), b' ');
    text(buffer, b"", comm);
    buffer.push(b'-');
    let before = buffer.len();
    push_number(buffer, record.pid.max(0) as u64, 1);
    buffer.resize(buffer.len().max(before + 5), b' ');
    if let Some(tgid) = tgid {
        push_tgid(buffer, tgid);
    }
    buffer.extend_from_slice(b" [");
    push_number(buffer, u64::from(record.cpu), 3);
    buffer.extend_from_slice(b"] ");
    if let Some(context) = record.context {
        buffer.extend_from_slice(match context {
            Context::Hardirq => IN_INTERRUPT,
            Context::Softirq => IN_SOFTIRQ,
            Context::Task => IN_TASK,
        });
    }
    time(buffer, record.at);
    if record.name != b"function" {
        let before = buffer.len();
        text(buffer, b"", record.name);
        buffer.push(b':');
        buffer.resize(buffer.len().max(before + 21), b' ');
        buffer.push(b' ');
    }
    fields(buffer, &record.point);
    while buffer.last() == Some(&b' ') {
        buffer.pop();
    }
    buffer.push(b'\n');
}

fn time(buffer: &mut Vec<u8>, at: i64) {
    let (seconds, nanoseconds) = (at.unsigned_abs() / 1_000_000_000, at.unsigned_abs() % 1_000_000_000);
    let width = seconds.checked_ilog10().map_or(1, |log| log as usize + 1) + usize::from(at < 0);
    buffer.resize(buffer.len() + 5_usize.saturating_sub(width), b' ');
    if at < 0 {
        buffer.push(b'-');
    }
    push_number(buffer, seconds, 1);
    buffer.push(b'.');
    push_number(buffer, nanoseconds, 9);
    buffer.extend_from_slice(b": ");
}

/// Writes text with control characters replaced.
fn text(buffer: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    buffer.extend_from_slice(name);
    buffer.extend(value.iter().map(|&byte| if byte.is_ascii_control() { b'?' } else { byte }));
}

fn named(buffer: &mut Vec<u8>, comm: &[u8], pid: &[u8], task: Named<'_>) {
    text(buffer, comm, task.comm);
    push_signed(buffer, pid, task.pid);
}

fn number(buffer: &mut Vec<u8>, name: &[u8], value: u64) {
    buffer.extend_from_slice(name);
    push_number(buffer, value, 1);
}

fn wakeup(buffer: &mut Vec<u8>, wakeup: &Wakeup<'_>) {
    named(buffer, b"comm=", b" pid=", wakeup.task);
    push_signed(buffer, b" prio=", wakeup.prio);
    if !wakeup.success {
        buffer.extend_from_slice(b" success=0");
    }
    if let Some(cpu) = wakeup.target_cpu {
        buffer.extend_from_slice(b" target_cpu=");
        push_number(buffer, u64::from(cpu), 3);
    }
}

fn fields(buffer: &mut Vec<u8>, point: &Tracepoint<'_>) {
    match *point {
        Tracepoint::Switch { prev, prev_prio, prev_state, next, next_prio } => {
            named(buffer, b"prev_comm=", b" prev_pid=", prev);
            push_signed(buffer, b" prev_prio=", prev_prio);
            push_field(buffer, b" prev_state=", prev_state.letters().as_bytes());
            named(buffer, b" ==> next_comm=", b" next_pid=", next);
            push_signed(buffer, b" next_prio=", next_prio);
        }
        Tracepoint::Waking(ref woken) | Tracepoint::Wakeup(ref woken) | Tracepoint::WakeupNew(ref woken) => {
            wakeup(buffer, woken);
        }
        Tracepoint::MigrateTask { task, prio, orig_cpu, dest_cpu } => {
            named(buffer, b"comm=", b" pid=", task);
            push_signed(buffer, b" prio=", prio);
            number(buffer, b" orig_cpu=", orig_cpu.into());
            number(buffer, b" dest_cpu=", dest_cpu.into());
        }
        Tracepoint::StatRuntime { task, runtime_ns, vruntime_ns } => {
            named(buffer, b"comm=", b" pid=", task);
            number(buffer, b" runtime=", runtime_ns);
            buffer.extend_from_slice(b" [ns]");
            if let Some(vruntime) = vruntime_ns {
                number(buffer, b" vruntime=", vruntime);
                buffer.extend_from_slice(b" [ns]");
            }
        }
        Tracepoint::ProcessFork { parent, child } => {
            named(buffer, b"comm=", b" pid=", parent);
            named(buffer, b" child_comm=", b" child_pid=", child);
        }
        Tracepoint::TaskNew { task, clone_flags, oom_score_adj } => {
            push_signed(buffer, b"pid=", task.pid);
            text(buffer, b" comm=", task.comm);
            text(buffer, b" clone_flags=", format!("{clone_flags:x}").as_bytes());
            push_signed(buffer, b" oom_score_adj=", oom_score_adj);
        }
        Tracepoint::ProcessExec { filename, pid, old_pid } => {
            text(buffer, b"filename=", filename);
            push_signed(buffer, b" pid=", pid);
            push_signed(buffer, b" old_pid=", old_pid);
        }
        Tracepoint::ProcessExit { task, prio, group_dead } => {
            named(buffer, b"comm=", b" pid=", task);
            push_signed(buffer, b" prio=", prio);
            if let Some(dead) = group_dead {
                push_field(buffer, b" group_dead=", if dead { b"true" } else { b"false" });
            }
        }
        Tracepoint::TaskRename { task, .. } => {
            push_signed(buffer, b"pid=", task.pid);
            // Earlier events have the former name.
            text(buffer, b" oldcomm=? newcomm=", task.comm);
            buffer.extend_from_slice(b" oom_score_adj=0");
        }
        Tracepoint::CgroupAttach { task, dst_root, dst_id, dst_level, dst_path } => {
            push_signed(buffer, b"dst_root=", dst_root);
            number(buffer, b" dst_id=", dst_id);
            push_signed(buffer, b" dst_level=", dst_level);
            text(buffer, b" dst_path=", dst_path);
            push_signed(buffer, b" pid=", task.pid);
            text(buffer, b" comm=", task.comm);
        }
        Tracepoint::CpuIdle { state, cpu_id } => {
            number(buffer, b"state=", state.into());
            number(buffer, b" cpu_id=", cpu_id.into());
        }
        Tracepoint::CpuFrequency { khz, cpu_id } => {
            number(buffer, b"state=", khz.into());
            number(buffer, b" cpu_id=", cpu_id.into());
        }
        Tracepoint::CpuhpEnter { cpu_id, target, step, function } => {
            push_field(buffer, b"cpu: ", &[]);
            push_number(buffer, u64::from(cpu_id), 4);
            push_padded(buffer, b" target: ", target);
            push_padded(buffer, b" step: ", step);
            // An unknown name has an unknown address.
            text(buffer, b" (", if function.is_empty() { b"0x0" } else { function });
            buffer.push(b')');
        }
        Tracepoint::SocketSend(transfer) | Tracepoint::SocketReceive(transfer) => {
            text(buffer, b"", transfer.to_string().as_bytes());
        }
        Tracepoint::SocketState(state) => text(buffer, b"", state.to_string().as_bytes()),
        Tracepoint::Print { text: printed } => text(buffer, b"", printed),
        Tracepoint::Other { fields } | Tracepoint::Malformed { fields } => text(buffer, b"", fields),
        Tracepoint::Lost { .. } => {}
    }
}
