//! Ftrace text, as `trace-cmd report` prints it.

use std::io::{self, Write};

use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};

use crate::names::{Names, printable};
use crate::output::Output;
use crate::{CpusetInfo, GroupInfo, Identities, Sink, TaskInfo};

mod marks;
mod records;
mod site;

pub use marks::Mark;
pub use records::RecordedText;

use site::Site;

/// Mark of a run's end, which ends all states.
pub(crate) const END_OF_RUN: &str = "end of run";

/// Marks the end of a run that was stopped early.
pub(crate) const INTERRUPTED: &str = "interrupted: the trace lacks the rest of the run";

/// Writes events as ftrace text, one per line.
///
/// The lines are those of `trace-cmd report -N` on a current kernel: `sched_switch`, `sched_waking`, `sched_wakeup`,
/// `sched_wakeup_new`, `sched_migrate_task`, `sched_process_fork`, `sched_process_exit`, `sched_pi_setprio`,
/// `cgroup_attach_task`, `cpu_frequency`, `cpuhp_enter`, `cpuhp_exit`. The last two are of the step that adds a CPU to
/// the scheduler or removes it. Other facts are marks (`print`), which [`Mark`] reads: policies and nice values
/// (initially unless SCHED_NORMAL, nice 0), deadline results, and groups' weights, limits and throttling. The last
/// mark is the run's end. A task born outside its parent's group is attached at once. Balancing, overheads and loop
/// ends are left out. Names are whole; the kernel cuts them to 15 bytes. Pids are those of
/// [`task_pid`](crate::task_pid) and [`stopper_pid`](crate::stopper_pid), or a
/// [recording's](Self::with_identities).
///
/// Memory: a fixed buffer, and one entry per task, group and CPU. The writer's first error ends the output, and
/// [`finish_writing`](Self::finish_writing) returns it.
///
/// ```
/// use vruntime_trace::{CpuId, Event, FtraceWriter, PrevState, Running, Sink, TaskId};
///
/// let mut text = FtraceWriter::new(Vec::new(), 1);
/// let next = Running::Task(TaskId(0));
/// text.event(1_500_000, CpuId(0), &Event::Switch { prev: Running::Idle, prev_state: PrevState::Preempted, next });
/// let text = String::from_utf8(text.finish_writing()?)?;
/// assert!(text.ends_with("[000]     0.001500: sched_switch:         prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
///                         prev_state=R ==> next_comm=task-0 next_pid=1000 next_prio=120\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FtraceWriter<W> {
    out: Output<W>,
    names: Names,
    nanoseconds: bool,
    /// Set if an interrupt does the present wakeup.
    irq: bool,
    now: u64,
}

impl<W: Write> FtraceWriter<W> {
    /// Writes to `out`, with a header for `cpus` CPUs. `out` needs no buffer.
    pub fn new(out: W, cpus: u32) -> Self {
        let mut out = Output::new(out);
        out.write(|buffer| {
            buffer.extend_from_slice(b"cpus=");
            push_number(buffer, u64::from(cpus), 1);
            buffer.push(b'\n');
        });
        Self { out, names: Names::default(), nanoseconds: false, irq: false, now: 0 }
    }

    /// Prints times to the nanosecond (`trace-cmd report -t`), not the microsecond.
    #[must_use]
    pub fn nanoseconds(mut self) -> Self {
        self.nanoseconds = true;
        self
    }

    /// Writes the kernel of the run (`6.12`), if it has a version, into the header for a
    /// [replay](crate::read::Notes::release).
    #[must_use]
    pub fn with_kernel(mut self, kernel: &str) -> Self {
        if let Some(release) = release(kernel) {
            self.out.write(|buffer| {
                push_field(buffer, b"# os release : ", release.as_bytes());
                buffer.push(b'\n');
            });
        }
        self
    }

    /// Uses a recording's names and pids. Known processes stand beside threads (option record-tgid).
    #[must_use]
    pub fn with_identities(mut self, identities: Identities) -> Self {
        self.names = Names::with_identities(Some(identities));
        self
    }

    /// Returns the first error, to stop a long run.
    pub fn error(&self) -> Option<&io::Error> {
        self.out.error()
    }

    /// Flushes and returns the writer.
    ///
    /// # Errors
    /// The writer's first error, or `InvalidInput` if an event named an impossible id. The trace ends before it.
    pub fn finish_writing(self) -> io::Result<W> {
        self.out.finish()
    }

    fn line(&mut self, at: u64, cpu: CpuId, event: &Event) {
        if let Event::Waking { irq, .. } = *event {
            self.irq = irq;
        }
        // The events of a wakeup are consecutive.
        let flags = if self.irq { IN_INTERRUPT } else { IN_TASK };
        let Self { out, names, nanoseconds, .. } = self;
        let site = Site { names, nanoseconds: *nanoseconds, at, cpu };
        out.write(|buffer| match *event {
            Event::Fork { parent, child } => site.fork(buffer, parent, child),
            Event::Exit { task } => site.exit(buffer, task),
            Event::Waking { task, .. } => {
                site.wakeup(buffer, flags, b"sched_waking:         ", task, site.names.last_cpu(task));
            }
            Event::Wakeup { task, target } => {
                site.wakeup(buffer, flags, b"sched_wakeup:         ", task, target);
            }
            Event::WakeupNew { task, target } => site.wakeup(buffer, b"", b"sched_wakeup_new:     ", task, target),
            Event::Switch { prev, prev_state, next } => site.switch(buffer, prev, prev_state, next),
            Event::Migrate { task, from, to, .. } => site.migrate(buffer, task, from, to),
            Event::MoveGroup { task, group } => site.attach(buffer, task, group),
            Event::PiSetprio { task, old, new } => site.pi_setprio(buffer, task, old, new),
            Event::CpuFrequency { khz } => site.frequency(buffer, khz),
            Event::Overutilized { on, .. } => site.overutilized(buffer, on),
            Event::CpuDown => site.cpuhp(buffer, false),
            Event::CpuUp => site.cpuhp(buffer, true),
            Event::SetNice { .. }
            | Event::SetPolicy { .. }
            | Event::Deadline { .. }
            | Event::Throttle { .. }
            | Event::Unthrottle { .. }
            | Event::BandwidthPeriod { .. } => site.mark(buffer, event),
            Event::RtThrottle { .. }
            | Event::RtUnthrottle { .. }
            | Event::Balance { .. }
            | Event::HLoad { .. }
            | Event::Overhead { .. }
            | Event::LoopEnd { .. }
            | Event::SleepReturn { .. }
            | Event::AffinityLost { .. } => {}
        });
    }
}

impl<W: Write> FtraceWriter<W> {
    /// Marks the run as stopped early, at its end `at`. Call this after [`Sink::finish`].
    pub fn mark_interrupted(&mut self, at: u64) {
        self.print(at, INTERRUPTED);
    }

    /// Writes a taskless mark on CPU 0.
    fn print(&mut self, at: u64, text: &str) {
        self.now = self.now.max(at);
        let Self { out, names, nanoseconds, .. } = self;
        if let Err(error) = names.admit_cpu(CpuId(0)) {
            out.fail(error);
            return;
        }
        let site = Site { names, nanoseconds: *nanoseconds, at, cpu: CpuId(0) };
        out.write(|buffer| {
            site.start(buffer, b"print:                ");
            buffer.extend_from_slice(text.as_bytes());
            buffer.push(b'\n');
        });
    }
}

impl<W: Write> Sink for FtraceWriter<W> {
    fn group(&mut self, id: GroupId, info: &GroupInfo<'_>) {
        match self.names.announce_group(id, info) {
            // The root has neither weight nor limit.
            Ok(()) if id == GroupId::ROOT => {}
            Ok(()) => self.print(self.now, &printable(&info.settings())),
            Err(error) => self.out.fail(error),
        }
    }

    fn group_changed(&mut self, at: u64, _id: GroupId, info: &GroupInfo<'_>) {
        self.print(at, &printable(&info.settings()));
    }

    fn cpuset(&mut self, at: u64, _id: GroupId, info: &CpusetInfo<'_>) {
        // Initial settings are no change.
        if at > 0 {
            self.print(at, &printable(&info.settings()));
        }
    }

    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        if let Err(error) = self.names.announce(id, info) {
            self.out.fail(error);
        }
    }

    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        match self.names.admit(cpu, event) {
            Ok(()) => {
                self.now = self.now.max(at);
                self.line(at, cpu, event);
                self.names.observe(cpu, event);
            }
            Err(error) => self.out.fail(error),
        }
    }

    fn finish(&mut self, at: u64) {
        // The last states end here.
        self.print(at, END_OF_RUN);
        self.out.flush();
    }
}

/// Returns `prev_state` as text. Idle tasks are always runnable; stoppers leave only to sleep.
pub(crate) fn state_letters(prev: Running, state: PrevState) -> &'static str {
    match (prev, state) {
        (Running::Stopper, _) | (Running::Task(_), PrevState::Sleeping) => "S",
        (Running::Idle, _) | (Running::Task(_), PrevState::Yielded) => "R",
        (Running::Task(_), PrevState::Preempted) => "R+",
        (Running::Task(_), PrevState::Blocked) => "D",
        (Running::Task(_), PrevState::Dead) => "X",
    }
}

/// Returns the `uname -r` of a kernel; none without a version.
fn release(kernel: &str) -> Option<String> {
    // The rest names the kernel's patches.
    let number = kernel.split('-').next()?;
    let parts = number.split('.').map(|part| part.parse::<u32>().ok()).collect::<Option<Vec<u32>>>()?;
    match parts[..] {
        [_, _] => Some(format!("{number}.0-vruntime")),
        [_, _, _] => Some(format!("{number}-vruntime")),
        _ => None,
    }
}

/// Returns a group's depth; the root's is 0.
pub(crate) fn group_level(path: &str) -> u64 {
    path.split('/').filter(|name| !name.is_empty()).count() as u64
}

/// The kernel's five flags; only the third, the context, is written.
const IN_INTERRUPT: &[u8] = b"..h.. ";
const IN_SOFTIRQ: &[u8] = b"..s.. ";
const IN_TASK: &[u8] = b"..... ";

/// Writes the process of a thread in the column of record-tgid.
fn push_tgid(buffer: &mut Vec<u8>, tgid: i32) {
    let digits = tgid.checked_ilog10().map_or(1, |log| log as usize + 1);
    buffer.extend_from_slice(b" (");
    buffer.resize(buffer.len() + 5_usize.saturating_sub(digits), b' ');
    push_number(buffer, tgid.max(0) as u64, 1);
    buffer.push(b')');
}

/// Returns `target`, `step` and `state` of `cpuhp_enter` and `cpuhp_exit` at `CPUHP_AP_ACTIVE`, on the way to
/// `CPUHP_ONLINE` or `CPUHP_OFFLINE`. Numbers vary by kernel configuration; these are from core-api/cpu_hotplug.rst.
pub(crate) const fn cpuhp(online: bool) -> (i32, i32, i32) {
    const ONLINE: i32 = 169;
    const ACTIVE: i32 = 168;
    if online { (ONLINE, ACTIVE, ACTIVE) } else { (0, ACTIVE, ACTIVE) }
}

/// Writes `value` as `%3d`.
fn push_padded(buffer: &mut Vec<u8>, name: &[u8], value: i32) {
    buffer.extend_from_slice(name);
    let digits = value.checked_ilog10().map_or(1, |log| log as usize + 1);
    buffer.resize(buffer.len() + 3_usize.saturating_sub(digits), b' ');
    push_signed(buffer, b"", value);
}

fn push_field(buffer: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    buffer.extend_from_slice(name);
    buffer.extend_from_slice(value);
}

fn push_signed(buffer: &mut Vec<u8>, name: &[u8], value: i32) {
    buffer.extend_from_slice(name);
    if value < 0 {
        buffer.push(b'-');
    }
    push_number(buffer, value.unsigned_abs().into(), 1);
}

/// Writes `value` with leading zeros to at least `digits` (at most 20). `write!` takes thrice as long, for ten
/// numbers a line.
fn push_number(buffer: &mut Vec<u8>, mut value: u64, digits: usize) {
    let mut text = [b'0'; 20];
    let mut first = text.len();
    while value > 0 {
        first -= 1;
        text[first] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    buffer.extend_from_slice(&text[first.min(text.len() - digits)..]);
}

#[cfg(test)]
pub(crate) mod tests;
