//! A thread that executes a task's program.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::ClockId;
use vruntime_trace::LoopTimes;
use vruntime_workload::program::{MemRun, Op, Phase, Policy, Repeat, Settings, TimerMode};

use crate::measured::{LoopMeasured, TaskMeasured};
use crate::objects::{Mutex, Stopped};
use crate::run::Shared;
use crate::sys::{self, SchedAttr};
use crate::work;

const BUFFER: usize = 4 << 20;
/// The end of the run interrupts sleeps that are longer, nanoseconds.
const LONG_SLEEP_NS: u64 = 200_000_000;
/// Memory accesses between checks for the end of the run.
const MEMRUN_LOOK: u64 = 1 << 20;

/// A thread that executes a task's program.
pub(crate) struct Running {
    shared: Arc<Shared>,
    pub(crate) measured: TaskMeasured,
    tid: u32,
    held: Vec<usize>,
    buffers: BTreeMap<String, Vec<u8>>,
    message: Vec<u8>,
    loop_began: u64,
    /// The log of the present loop.
    this_loop: LoopTimes,
}

impl Running {
    pub(crate) fn new(shared: Arc<Shared>, template: usize, name: String) -> Self {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let measured = TaskMeasured { name, template, tid, ..TaskMeasured::default() };
        let (held, buffers, message) = (Vec::new(), BTreeMap::new(), Vec::new());
        let this_loop = LoopTimes::default();
        Self { shared, measured, tid, held, buffers, message, loop_began: 0, this_loop }
    }

    pub(crate) fn run(&mut self) {
        let shared = self.shared.clone();
        let task = &shared.workload.tasks[self.measured.template];
        let mut left = task.repeat;
        while begins(&mut left) && !task.phases.is_empty() {
            for phase in task.phases.iter() {
                if shared.over() || self.phase(phase).is_err() {
                    self.release();
                    return;
                }
            }
        }
        self.measured.ended = true;
        self.release();
    }

    /// Unlocks the mutexes that other threads may wait for.
    fn release(&mut self) {
        for mutex in std::mem::take(&mut self.held) {
            self.shared.objects.mutexes[mutex].unlock(self.tid);
        }
    }

    fn phase(&mut self, phase: &Phase) -> Result<(), Stopped> {
        self.apply(&phase.settings);
        let mut left = phase.repeat;
        while begins(&mut left) {
            self.loop_began = work::now();
            self.this_loop = LoopTimes::default();
            for op in &phase.ops {
                if self.shared.over() {
                    return Err(Stopped);
                }
                self.op(op)?;
            }
            if self.shared.over() {
                return Err(Stopped);
            }
            let now = work::now();
            let duration = now - self.loop_began;
            self.measured.loops += 1;
            self.measured.loop_work_ns += self.this_loop.asked;
            self.measured.loop_ns.push(duration);
            if self.shared.log_loops {
                let ended = now.saturating_sub(self.shared.start());
                self.measured.logged.push(LoopMeasured { ended, duration, times: self.this_loop });
            }
        }
        Ok(())
    }

    fn op(&mut self, op: &Op) -> Result<(), Stopped> {
        let shared = self.shared.clone();
        let (objects, stop) = (&shared.objects, shared.common.stop());
        match *op {
            Op::Run { work } => {
                let began = work::now();
                if !work::compute(work, || shared.end()) {
                    return Err(Stopped);
                }
                self.worked(began, work, work);
            }
            Op::Runtime { time } => {
                let began = work::now();
                let done = work::compute_until(began.saturating_add(time), || shared.end()).ok_or(Stopped)?;
                self.worked(began, time, done);
            }
            Op::Sleep { time } => self.sleep_until(work::now().saturating_add(time), true)?,
            Op::SleepUntil { at } => {
                let due = shared.start().saturating_add(at);
                if due > work::now() {
                    self.sleep_until(due, true)?;
                }
            }
            Op::Device { time } => self.sleep_until(work::now().saturating_add(time), false)?,
            Op::Timer { timer, period, mode } => {
                let now = work::now();
                let counted_from = shared.workload.timers[timer].start.map(|start| shared.start() + start);
                let first = counted_from.unwrap_or(self.loop_began);
                let next = |beat: u64| if beat == 0 { first } else { beat }.saturating_add(period);
                let beat = objects.timers[timer].fetch_update(Ordering::SeqCst, Ordering::SeqCst, |beat| {
                    let due = next(beat);
                    Some(if due <= now && mode == TimerMode::Relative { now } else { due })
                });
                // The closure never refuses.
                let due = next(beat.unwrap_or(0));
                let slack = due as i64 - now as i64;
                self.this_loop.period = self.this_loop.period.saturating_add(period);
                self.this_loop.slack = slack;
                self.this_loop.cumulative_slack += slack;
                if due > now {
                    self.sleep_until(due, true)?;
                    self.this_loop.wakeup_latency += work::now().saturating_sub(due);
                } else {
                    self.this_loop.wakeup_latency = 0;
                }
            }
            Op::Lock(mutex) => {
                objects.mutexes[mutex].lock(self.tid, stop)?;
                self.held.push(mutex);
            }
            Op::Unlock(mutex) => {
                self.held.retain(|&held| held != mutex);
                objects.mutexes[mutex].unlock(self.tid);
            }
            Op::Wait { condition, mutex } => {
                objects.conditions[condition].wait(&objects.mutexes[mutex], self.tid, stop)?;
            }
            Op::Signal(condition) => objects.conditions[condition].signal(),
            Op::Broadcast(condition) => objects.conditions[condition].broadcast(),
            Op::Sync { condition, mutex } => {
                objects.conditions[condition].signal();
                objects.conditions[condition].wait(&objects.mutexes[mutex], self.tid, stop)?;
            }
            // The mutex is held, as in rt-app, so that a task about to wait cannot miss the wakeup.
            Op::Suspend { condition, mutex } => {
                self.with_mutex(mutex, |mutex, tid| objects.conditions[condition].wait(mutex, tid, stop))?;
            }
            Op::Resume { condition, mutex } => self.with_mutex(mutex, |_, _| {
                objects.conditions[condition].broadcast();
                Ok(())
            })?,
            Op::Barrier(barrier) => objects.barriers[barrier].wait(self.tid, stop)?,
            Op::SemPost(semaphore) => objects.semaphores[semaphore].post(),
            Op::SemWait(semaphore) => objects.semaphores[semaphore].wait(stop)?,
            Op::SemMove { from, to } => {
                if objects.semaphores[from].try_wait() {
                    objects.semaphores[to].post();
                }
            }
            Op::SemReset(semaphore) => while objects.semaphores[semaphore].try_wait() {},
            Op::PipeWrite { pipe, bytes } => {
                self.message.resize(bytes as usize, 0);
                objects.pipes[pipe].write(&self.message, stop)?;
            }
            Op::PipeRead { pipe, bytes } => {
                self.message.resize(bytes as usize, 0);
                objects.pipes[pipe].read(&mut self.message, stop)?;
            }
            Op::SpinWait { spin, .. } => objects.spins[spin].wait(|| shared.over())?,
            Op::SpinPost { spin, events } => objects.spins[spin].post(events),
            Op::SpinBarrier(spin) => objects.spins[spin].meet(|| shared.over())?,
            Op::Mem { bytes } => self.touch("", bytes, 0)?,
            Op::Io { bytes } => self.write_out(bytes)?,
            Op::MemRun(ref run) => self.memrun(run)?,
            Op::Yield => std::thread::yield_now(),
            Op::Exec => {
                shared.note("exec was left out: the thread continues in the same program".to_owned());
            }
            Op::Fork(template) => shared.fork(template),
            // `check` has rejected these.
            Op::TryLock { .. }
            | Op::EnsureLock(_)
            | Op::Nudge(_)
            | Op::PoolRun { .. }
            | Op::PoolHelp { .. }
            | Op::PoolSleep { .. }
            | Op::PoolWait { .. }
            | Op::InboxWait { .. }
            | Op::InboxWake { .. }
            | Op::PutOff { .. }
            | Op::PutOffEnd { .. }
            | Op::RunIfSlept { .. }
            | Op::CatchUp { .. }
            | Op::LeadMoves { .. }
            | Op::LeadAwaits { .. }
            | Op::ExitGroup
            | Op::AwaitKill
            | Op::WaitEvent { .. }
            | Op::WakeUp { .. }
            | Op::WaitForCompletion { .. }
            | Op::Complete(_)
            | Op::CompleteAll(_)
            | Op::ReinitCompletion(_) => {}
        }
        Ok(())
    }

    fn with_mutex(
        &mut self,
        mutex: usize,
        act: impl FnOnce(&Mutex, u32) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        let shared = self.shared.clone();
        let mutex = &shared.objects.mutexes[mutex];
        mutex.lock(self.tid, shared.common.stop())?;
        // A stopped wait returns without the mutex.
        act(mutex, self.tid)?;
        mutex.unlock(self.tid);
        Ok(())
    }

    /// Counts `work` of `asked` nanoseconds, done since `began`.
    fn worked(&mut self, began: u64, asked: u64, work: u64) {
        let this = &mut self.this_loop;
        this.asked = this.asked.saturating_add(asked);
        this.work += work;
        this.run += work::now() - began;
    }

    /// Sleeps until `due`, at most until the end of the run. `timed`: records its lateness.
    fn sleep_until(&mut self, due: u64, timed: bool) -> Result<(), Stopped> {
        let until = due.min(self.shared.end());
        if until.saturating_sub(work::now()) > LONG_SLEEP_NS {
            // Has the timer and slack of a plain sleep, but the end of the run wakes the thread.
            self.shared.common.sleep_until(until);
        } else {
            let until = work::timespec(until);
            while let Err(error) = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &until) {
                if error != rustix::io::Errno::INTR {
                    break;
                }
            }
        }
        if due > self.shared.end() {
            return Err(Stopped);
        }
        if timed {
            self.measured.late_ns.push(work::now().saturating_sub(due));
        }
        Ok(())
    }

    /// Writes `bytes` of memory, cyclically in a buffer.
    fn touch(&mut self, buffer: &str, bytes: u64, value: u8) -> Result<(), Stopped> {
        let shared = self.shared.clone();
        let buffer = self.buffers.entry(buffer.to_owned()).or_insert_with(|| vec![0; BUFFER]);
        let mut left = bytes;
        while left > 0 {
            let part = left.min(buffer.len() as u64) as usize;
            buffer[..part].fill(value);
            std::hint::black_box(&mut *buffer);
            left -= part as u64;
            if left > 0 && shared.over() {
                return Err(Stopped);
            }
        }
        Ok(())
    }

    fn write_out(&mut self, bytes: u64) -> Result<(), Stopped> {
        let mut null = match std::fs::OpenOptions::new().write(true).open("/dev/null") {
            Ok(null) => null,
            Err(error) => {
                self.not_written(&error);
                return Ok(());
            }
        };
        let mut left = bytes;
        while left > 0 {
            let part = left.min(BUFFER as u64);
            if let Err(error) = io::copy(&mut io::Read::take(io::repeat(0), part), &mut null) {
                self.not_written(&error);
                return Ok(());
            }
            left -= part;
            if left > 0 && self.shared.over() {
                return Err(Stopped);
            }
        }
        Ok(())
    }

    /// Notes that an operation was omitted.
    fn not_written(&self, error: &io::Error) {
        self.shared.note(format!("writing to /dev/null was left out: {error}"));
    }

    fn memrun(&mut self, run: &MemRun) -> Result<(), Stopped> {
        let shared = self.shared.clone();
        let size = usize::try_from(run.size).unwrap_or(usize::MAX).clamp(1, 1 << 30);
        let buffer = self.buffers.entry(format!("memrun {}", run.buffer)).or_default();
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        let writes = run.kind.contains("write");
        let (mut at, stride) = (0, usize::try_from(run.stride).unwrap_or(1).max(1));
        let mut sum = 0_u8;
        for access in 1..=run.count {
            if access.is_multiple_of(MEMRUN_LOOK) && shared.over() {
                return Err(Stopped);
            }
            if writes {
                buffer[at] = buffer[at].wrapping_add(1);
            } else {
                sum = sum.wrapping_add(buffer[at]);
            }
            at = (at + stride) % size;
        }
        std::hint::black_box((sum, &*buffer));
        Ok(())
    }

    pub(crate) fn apply(&mut self, settings: &Settings) {
        if let Some(group) = settings.group {
            self.measured.group = group;
        }
        apply(&self.shared, self.tid, &self.measured.name, settings);
    }

    /// Notes the thread's final attributes.
    pub(crate) fn note_attributes(&mut self) {
        if let Ok(attr) = sys::attr() {
            (self.measured.policy, self.measured.nice, self.measured.rt_priority) =
                (attr.policy, attr.nice, attr.priority);
        }
    }
}

/// Sets attributes of a thread. If the kernel refuses one, adds a note.
pub(crate) fn apply(shared: &Shared, tid: u32, name: &str, settings: &Settings) {
    if let Some(policy) = settings.policy
        && let Err(error) = sys::set_attr(tid, attr_of(policy))
    {
        let more = if error.kind() == io::ErrorKind::PermissionDenied { "; root may" } else { "" };
        shared.note(format!("the kernel refused {}: {error}{more}", describe(policy)));
    }
    if matches!(settings.policy, Some(Policy::Deadline { overrun: true, .. })) {
        shared.note(format!("`{name}` gets no signals for overruns: the signal would end this program"));
    }
    if let Some(cpus) = &settings.cpus {
        let mut set = CpuSet::new();
        cpus.iter().filter(|&&cpu| (cpu as usize) < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu as usize));
        if let Err(error) = sched_setaffinity(rustix::thread::Pid::from_raw(tid as i32), &set) {
            shared.note(format!("the kernel refused the CPUs {cpus:?} of `{name}`: {error}"));
        }
    }
    if settings.nodes.is_some() {
        shared.note("memory is not bound to NUMA nodes".to_owned());
    }
    if settings.util_min.is_some() || settings.util_max.is_some() {
        let mut attr = SchedAttr { flags: sys::FLAG_KEEP_ALL, ..SchedAttr::default() };
        if let Some(min) = settings.util_min {
            (attr.util_min, attr.flags) = (min, attr.flags | sys::FLAG_UTIL_CLAMP_MIN);
        }
        if let Some(max) = settings.util_max {
            (attr.util_max, attr.flags) = (max, attr.flags | sys::FLAG_UTIL_CLAMP_MAX);
        }
        if let Err(error) = sys::set_attr(tid, attr) {
            shared.note(format!("the kernel refused utilisation clamps: {error}"));
        }
    }
    if let (Some(group), Some(cgroups)) = (settings.group, &shared.cgroups)
        && let Err(error) = cgroups.enter(group, tid)
    {
        shared.note(error.to_string());
    }
}

/// Counts down the rounds that are left. Returns whether another one begins.
fn begins(left: &mut Repeat) -> bool {
    match left {
        Repeat::Forever => true,
        Repeat::Times(0) => false,
        Repeat::Times(times) => {
            *times -= 1;
            true
        }
    }
}

pub(crate) fn attr_of(policy: Policy) -> SchedAttr {
    let none = SchedAttr::default();
    match policy {
        Policy::Other { nice, slice } => {
            SchedAttr { policy: sys::SCHED_OTHER, nice: i32::from(nice), runtime: slice.unwrap_or(0), ..none }
        }
        Policy::Batch { nice, slice } => {
            SchedAttr { policy: sys::SCHED_BATCH, nice: i32::from(nice), runtime: slice.unwrap_or(0), ..none }
        }
        Policy::Idle => SchedAttr { policy: sys::SCHED_IDLE, ..none },
        Policy::Fifo { priority } => SchedAttr { policy: sys::SCHED_FIFO, priority: u32::from(priority), ..none },
        Policy::RoundRobin { priority } => SchedAttr { policy: sys::SCHED_RR, priority: u32::from(priority), ..none },
        // Nothing handles the signal of overruns, so it is not requested.
        Policy::Deadline { runtime, deadline, period, reclaim, overrun: _ } => {
            let flags = if reclaim { sys::FLAG_RECLAIM } else { 0 };
            SchedAttr { policy: sys::SCHED_DEADLINE, flags, runtime, deadline, period, ..none }
        }
    }
}

fn describe(policy: Policy) -> String {
    match policy {
        Policy::Other { nice, .. } => format!("nice {nice}"),
        Policy::Batch { nice, .. } => format!("SCHED_BATCH with nice {nice}"),
        Policy::Idle => "SCHED_IDLE".to_owned(),
        Policy::Fifo { priority } => format!("SCHED_FIFO {priority}"),
        Policy::RoundRobin { priority } => format!("SCHED_RR {priority}"),
        Policy::Deadline { runtime, deadline, period, .. } => {
            format!("SCHED_DEADLINE {runtime}/{deadline}/{period} ns (runtime, deadline, period)")
        }
    }
}
