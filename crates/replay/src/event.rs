//! What a trace's records mean to a replay: their times and what happened.

use vruntime_trace::{GroupInfo, Mark, Named, Record, TaskState, Tracepoint, Wakeup};

use crate::recorded::{self, Left, What};

/// The longest time without a scheduler event. A longer one is a jump of the clock.
const JUMP_NS: i64 = 10_000_000_000;
/// The largest NR_CPUS of any architecture.
pub const MAX_CPUS: usize = vruntime_trace::MAX_CPUS as usize;

/// The flag of clone(2) that makes a task a thread of its parent's process.
const CLONE_THREAD: u64 = 0x1_0000;

/// Times since a trace's beginning.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// The time before, as recorded and since the start.
    last: Option<(i64, u64)>,
    /// How often it jumped.
    jumps: u64,
}

impl Clock {
    /// Returns how often the clock jumped.
    pub fn jumps(&self) -> u64 {
        self.jumps
    }

    /// Returns the time of an event since the first one, nanoseconds. Where the clock jumps, no time passes.
    pub fn time(&mut self, record: &Record<'_>) -> u64 {
        // What perf tells of tasks has no time of its own.
        if record.name.starts_with(b"PERF_RECORD_") {
            return self.last.map_or(0, |(_, at)| at);
        }
        let Some((before, at)) = self.last else {
            self.last = Some((record.at, 0));
            return 0;
        };
        let passed = record.at.saturating_sub(before);
        let at = if !(-JUMP_NS..=JUMP_NS).contains(&passed) {
            self.jumps += 1;
            at
        } else if passed < 0 {
            // Merged from several CPUs, a trace may go back a little: the recorder counts that.
            return at.saturating_sub(passed.unsigned_abs());
        } else {
            at + passed.unsigned_abs()
        };
        self.last = Some((record.at, at));
        at
    }
}

/// Returns what a record means to a replay, if anything.
pub fn what<'a>(record: &Record<'a>) -> Option<What<'a>> {
    let named = |task: Named<'a>| recorded::Named { pid: task.pid, comm: task.comm };
    let woken = |wakeup: &Wakeup<'a>| wakeup.success.then(|| (named(wakeup.task), wakeup.prio));
    Some(match &record.point {
        Tracepoint::Switch { prev, prev_prio, prev_state, next, next_prio } => What::Switch {
            prev: named(*prev),
            prev_prio: *prev_prio,
            left: match prev_state {
                TaskState::Preempted => Left::Preempted,
                TaskState::Running => Left::Runnable,
                state if state.is_gone() => Left::Dead,
                TaskState::DiskSleep => Left::Uninterruptible,
                _ => Left::Sleeping,
            },
            next: named(*next),
            next_prio: *next_prio,
        },
        Tracepoint::Waking(wakeup) => {
            let (task, prio) = woken(wakeup)?;
            What::Woken { task, prio }
        }
        Tracepoint::Wakeup(wakeup) => {
            let (task, prio) = woken(wakeup)?;
            What::Enqueued { task, prio, target: wakeup.target_cpu }
        }
        Tracepoint::WakeupNew(wakeup) => What::WokenNew { task: named(wakeup.task), prio: wakeup.prio },
        Tracepoint::ProcessFork { parent, child } => {
            What::Fork { parent: named(*parent), child: named(*child), thread: None }
        }
        Tracepoint::TaskNew { task, clone_flags, .. } => {
            let parent = recorded::Named { pid: record.pid, comm: record.comm };
            What::Fork { parent, child: named(*task), thread: Some(clone_flags & CLONE_THREAD != 0) }
        }
        Tracepoint::TaskRename { task, .. } => What::Rename { task: named(*task) },
        // Some kernels told the group's name and not its path.
        Tracepoint::CgroupAttach { task, dst_root, dst_path, .. } if !dst_path.is_empty() => {
            What::Attached { task: named(*task), hierarchy: *dst_root, path: dst_path }
        }
        Tracepoint::Print { text } => match Mark::read(text)? {
            Mark::Group(GroupInfo { path, weight, idle, max, .. }) => What::Group { path, weight, idle, max },
            Mark::End => What::End,
            _ => return None,
        },
        Tracepoint::StatRuntime { task, runtime_ns, .. } => What::Charged { task: named(*task), ns: *runtime_ns },
        Tracepoint::CpuFrequency { cpu_id, khz } => What::Frequency { cpu: *cpu_id, khz: *khz },
        Tracepoint::CpuhpEnter { .. } => What::Online(record.online()?),
        Tracepoint::Lost { .. } => What::Lost,
        _ => return None,
    })
}
