//! Interprets the records of a trace for a replay.

use vruntime_trace::{GroupInfo, Mark, Named, Record, TaskState, Tracepoint, Transfer, Wakeup};

use crate::recorded::{self, Left, What};

/// A longer time without a scheduler event is a jump of the clock.
const JUMP_NS: i64 = 10_000_000_000;
/// The largest NR_CPUS of any architecture.
pub const MAX_CPUS: usize = vruntime_trace::MAX_CPUS as usize;

/// The state of a connected socket.
const TCP_ESTABLISHED: i32 = 1;
/// The flag of clone(2) for threads.
const CLONE_THREAD: u64 = 0x1_0000;

/// Times since the beginning of a trace.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// The last time, as recorded and since the start.
    last: Option<(i64, u64)>,
    jumps: u64,
}

impl Clock {
    /// Returns the number of jumps.
    pub fn jumps(&self) -> u64 {
        self.jumps
    }

    /// Returns an event's time since the first one, nanoseconds. No time passes in a jump.
    pub fn time(&mut self, record: &Record<'_>) -> u64 {
        // perf's records of tasks have no time.
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
            // Merged traces may go back a little, which the recorder counts.
            return at.saturating_sub(passed.unsigned_abs());
        } else {
            at + passed.unsigned_abs()
        };
        self.last = Some((record.at, at));
        at
    }
}

/// Returns the bytes that a transfer moved; none if it failed, or only looked at them.
fn bytes(transfer: &Transfer) -> Option<u64> {
    const MSG_PEEK: i32 = 2;
    u64::try_from(transfer.length).ok().filter(|&bytes| bytes > 0 && transfer.flags & MSG_PEEK == 0)
}

/// Returns the meaning of a record for a replay.
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
        Tracepoint::MigrateTask { task, orig_cpu, .. } => What::Migrated { task: named(*task), from: *orig_cpu },
        Tracepoint::ProcessExec { pid, .. } => What::Executes { pid: *pid },
        Tracepoint::TaskRename { task, .. } => What::Rename { task: named(*task) },
        // Some kernels record the group's name instead of its path.
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
        Tracepoint::SocketSend(sent) => What::Sent { socket: sent.socket, bytes: bytes(sent)? },
        Tracepoint::SocketReceive(received) => What::Received { socket: received.socket, bytes: bytes(received)? },
        Tracepoint::SocketState(state) if state.state == TCP_ESTABLISHED => {
            What::Connected { socket: state.socket, ports: (state.port, state.peer_port) }
        }
        Tracepoint::Lost { events } => What::Lost { events: *events },
        // The task after it is unknown.
        Tracepoint::Malformed { .. } if record.name == b"sched_switch" => What::Lost { events: None },
        _ => return None,
    })
}
