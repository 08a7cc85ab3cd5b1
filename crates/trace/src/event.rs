//! Recorded events, of a real machine or of a simulated run.
//!
//! An [`Event`](crate::Event) has ids and all fields; a recording has reused pids, changing names and missing fields.
//! A [`Record`] keeps them as recorded, under the kernel's names.

use std::fmt;

/// The largest NR_CPUS of any architecture.
pub const MAX_CPUS: u32 = 8192;

/// One event, borrowed from the reader's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Nanoseconds of the trace's clock. Negative if times were shifted.
    pub at: i64,
    /// The recording CPU.
    pub cpu: u32,
    /// Running thread's id: 0 for idle, negative if unknown.
    pub pid: i32,
    /// Its process, if the file has it.
    pub tgid: Option<i32>,
    /// Its name: `<idle>`, `swapper` or `swapper/0` for idle, `<...>` if forgotten; may be empty.
    pub comm: &'a [u8],
    /// Its context, if recorded.
    pub context: Option<Context>,
    /// Name, such as `sched_switch`.
    pub name: &'a [u8],
    /// The tracepoint with its fields.
    pub point: Tracepoint<'a>,
}

impl Record<'_> {
    /// Whether perf reports a rename (`PERF_RECORD_COMM`) then. perf's records of earlier tasks have time 0.
    pub fn is_perf_rename(&self) -> bool {
        self.at > 0 && self.name == b"PERF_RECORD_COMM" && matches!(self.point, Tracepoint::TaskRename { .. })
    }

    /// Returns the highest CPU in the fields, which exists even without events. Ignores CPUs from [`MAX_CPUS`] on.
    pub fn highest_cpu(&self) -> u32 {
        let named = match self.point {
            Tracepoint::Waking(wakeup) | Tracepoint::Wakeup(wakeup) | Tracepoint::WakeupNew(wakeup) => {
                [wakeup.target_cpu, None]
            }
            Tracepoint::MigrateTask { orig_cpu, dest_cpu, .. } => [Some(orig_cpu), Some(dest_cpu)],
            Tracepoint::CpuIdle { cpu_id, .. }
            | Tracepoint::CpuFrequency { cpu_id, .. }
            | Tracepoint::CpuhpEnter { cpu_id, .. } => [Some(cpu_id), None],
            _ => [None, None],
        };
        named.into_iter().flatten().filter(|&cpu| cpu < MAX_CPUS).fold(self.cpu, u32::max)
    }

    /// Returns whether a hotplug step brings its CPU online or offline in the scheduler.
    ///
    /// The step is `sched_cpu_activate` or `sched_cpu_deactivate`. Without function names every step counts,
    /// milliseconds early or late. A step up may then be of a CPU long online.
    pub fn online(&self) -> Option<bool> {
        match self.point {
            Tracepoint::CpuhpEnter { cpu_id, target, step, function } if cpu_id == self.cpu => match function {
                b"sched_cpu_activate" => Some(true),
                b"sched_cpu_deactivate" => Some(false),
                b"" => (target != step).then_some(target > step),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The context of a CPU at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    /// User mode or a system call.
    Task,
    /// A softirq: the task's own work (a packet over loopback) or other work (a timer, an outside packet).
    Softirq,
    /// A hardware interrupt, or an NMI.
    Hardirq,
}

/// A task as tracepoints name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named<'a> {
    /// Its name; at most 15 bytes from a real kernel.
    pub comm: &'a [u8],
    /// Its thread id.
    pub pid: i32,
}

/// The fields of `sched_waking`, `sched_wakeup` and `sched_wakeup_new`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup<'a> {
    /// The woken task.
    pub task: Named<'a>,
    /// The kernel's `prio`: 120 + nice; 99 - the real-time priority; -1 for deadline tasks.
    pub prio: i32,
    /// Whether the task slept. 3.19+: always.
    pub success: bool,
    /// The CPU chosen for it; in `sched_waking`, its last CPU.
    pub target_cpu: Option<u32>,
}

/// The fields of `sock_send_length` and `sock_recv_length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The socket's address in the kernel. Text has a hash of it.
    pub socket: u64,
    /// Bytes; negative: an error number.
    pub length: i32,
    /// Flags of send(2) and recv(2). Kernels print no length of data that was only looked at (`MSG_PEEK`).
    pub flags: i32,
}

/// Raw fields, as `trace-cmd report -R` prints them.
impl fmt::Display for Transfer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "sk={:#x} ret={} flags={:#x}", self.socket, self.length, self.flags)
    }
}

/// The fields of `inet_sock_set_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketState {
    /// As [`Transfer::socket`].
    pub socket: u64,
    /// The new state; 1: `TCP_ESTABLISHED`, 7: `TCP_CLOSE`.
    pub state: i32,
    /// Its own port.
    pub port: u16,
    /// Its peer's port.
    pub peer_port: u16,
}

/// Raw fields, as `trace-cmd report -R` prints them.
impl fmt::Display for SocketState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { socket, state, port, peer_port } = self;
        write!(out, "skaddr={socket:#x} newstate={state} sport={port} dport={peer_port}")
    }
}

/// The kernel's tracepoint; [`Tracepoint::Other`] if not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tracepoint<'a> {
    /// `sched_switch`.
    Switch {
        /// The task that leaves the CPU.
        prev: Named<'a>,
        /// Its `prio`.
        prev_prio: i32,
        /// Why it leaves.
        prev_state: TaskState,
        /// The task that gets the CPU.
        next: Named<'a>,
        /// Its `prio`.
        next_prio: i32,
    },
    /// `sched_waking`: a wakeup begins, with no CPU chosen yet.
    Waking(Wakeup<'a>),
    /// `sched_wakeup`: the task is on a run queue.
    Wakeup(Wakeup<'a>),
    /// `sched_wakeup_new`: a new task is queued.
    WakeupNew(Wakeup<'a>),
    /// `sched_migrate_task`.
    MigrateTask {
        /// The migrated task.
        task: Named<'a>,
        /// Its `prio`.
        prio: i32,
        /// The source.
        orig_cpu: u32,
        /// The destination.
        dest_cpu: u32,
    },
    /// `sched_stat_runtime`: a task was charged CPU time.
    StatRuntime {
        /// The task.
        task: Named<'a>,
        /// CPU time since the last charge, nanoseconds.
        runtime_ns: u64,
        /// Its vruntime, nanoseconds of nice 0; none since 6.8.
        vruntime_ns: Option<u64>,
    },
    /// `sched_process_fork`.
    ProcessFork {
        /// The parent.
        parent: Named<'a>,
        /// New task, with its parent's name.
        child: Named<'a>,
    },
    /// `task_newtask`: the running task forks, just before `sched_process_fork`. Android records only this.
    TaskNew {
        /// New task, with its parent's name.
        task: Named<'a>,
        /// Flags of clone(2).
        clone_flags: u64,
        /// Its `oom_score_adj`.
        oom_score_adj: i32,
    },
    /// `sched_process_exec`: the task starts another program.
    ProcessExec {
        /// The program's path.
        filename: &'a [u8],
        /// Its new thread id.
        pid: i32,
        /// Its previous thread id.
        old_pid: i32,
    },
    /// `sched_process_exit`.
    ProcessExit {
        /// The ended task.
        task: Named<'a>,
        /// Its `prio`.
        prio: i32,
        /// 6.16+: whether it is the last thread of its process.
        group_dead: Option<bool>,
    },
    /// `task_rename`, or a separate name (`PERF_RECORD_COMM`, a Perfetto process tree).
    TaskRename {
        /// The task with its new name.
        task: Named<'a>,
        /// Its process, if the file has it.
        tgid: Option<i32>,
    },
    /// `cgroup_attach_task`: a task moves to another cgroup.
    CgroupAttach {
        /// The task.
        task: Named<'a>,
        /// Hierarchy: 0 for cgroup v2, else that in /proc/PID/cgroup.
        dst_root: i32,
        /// The cgroup's id.
        dst_id: u64,
        /// Its depth; the root is 0.
        dst_level: i32,
        /// Its path in that hierarchy.
        dst_path: &'a [u8],
    },
    /// `cpu_idle`.
    CpuIdle {
        /// The idle state; [`CPU_IDLE_EXIT`] when the CPU leaves it.
        state: u32,
        /// The CPU.
        cpu_id: u32,
    },
    /// `cpu_frequency`.
    CpuFrequency {
        /// kHz.
        khz: u32,
        /// The CPU.
        cpu_id: u32,
    },
    /// `cpuhp_enter`: a CPU's step to online or offline begins.
    CpuhpEnter {
        /// The CPU.
        cpu_id: u32,
        /// The final state.
        target: i32,
        /// The state of this step (`idx`).
        step: i32,
        /// Function; empty in binary files, which have addresses.
        function: &'a [u8],
    },
    /// `sock_send_length`: the running task has sent data. Kernels have it since 6.3.
    SocketSend(Transfer),
    /// `sock_recv_length`: the running task has received data, or found none.
    SocketReceive(Transfer),
    /// `inet_sock_set_state`: an Internet socket changes its state. Kernels have it since 4.16.
    SocketState(SocketState),
    /// `print`, `tracing_mark_write`: a text written to `trace_marker`.
    Print {
        /// Text without the writing function.
        text: &'a [u8],
    },
    /// This CPU's preceding events were lost.
    Lost {
        /// Their number, if counted.
        events: Option<u64>,
    },
    /// Any other event.
    Other {
        /// Its fields as text; empty from binary files.
        fields: &'a [u8],
    },
    /// A known event in an unknown format.
    Malformed {
        /// Its fields as text.
        fields: &'a [u8],
    },
}

/// `state` of [`Tracepoint::CpuIdle`] on leaving idle (`PWR_EVENT_EXIT`, -1).
pub const CPU_IDLE_EXIT: u32 = u32::MAX;

/// `prev_state` of `sched_switch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskState {
    /// `R`: runnable. Until 4.13 also yielding tasks; on some kernels, preempted ones.
    Running,
    /// `R+`: runnable and preempted.
    Preempted,
    /// `S`: interruptible sleep.
    Sleeping,
    /// `D`: uninterruptible sleep, or killable (`D|K`).
    DiskSleep,
    /// `I`: an idle kernel thread: sleeps uninterruptibly, is no load.
    Idle,
    /// `T`: stopped by a signal.
    Stopped,
    /// `t`: stopped by a debugger.
    Tracing,
    /// `P`: a parked kernel thread.
    Parked,
    /// `X`, `x`: dead.
    Dead,
    /// `Z`: a zombie.
    Zombie,
    /// Not a state of any kernel.
    #[default]
    Unknown,
}

impl TaskState {
    /// Whether the task stays on the run queue.
    pub const fn is_runnable(self) -> bool {
        matches!(self, Self::Running | Self::Preempted)
    }

    /// Whether the task will never run again.
    pub const fn is_gone(self) -> bool {
        matches!(self, Self::Dead | Self::Zombie)
    }

    /// Returns the kernel's letters: `R`, `R+`, `S`, `D`...; `?` if unknown.
    ///
    /// ```
    /// # use vruntime_trace::TaskState;
    /// assert_eq!(TaskState::Preempted.letters(), "R+");
    /// assert_eq!(TaskState::from_letters(b"D|K").letters(), "D");
    /// ```
    pub const fn letters(self) -> &'static str {
        match self {
            Self::Running => "R",
            Self::Preempted => "R+",
            Self::Sleeping => "S",
            Self::DiskSleep => "D",
            Self::Idle => "I",
            Self::Stopped => "T",
            Self::Tracing => "t",
            Self::Parked => "P",
            Self::Dead => "X",
            Self::Zombie => "Z",
            Self::Unknown => "?",
        }
    }

    /// Parses the kernel's letters. Of several (`D|K`) the first decides. `+` means preempted, even when falling
    /// asleep.
    pub fn from_letters(text: &[u8]) -> Self {
        match *text {
            [.., b'+'] => Self::Preempted,
            [b'R', ..] => Self::Running,
            [b'S' | b's', ..] => Self::Sleeping,
            // `K`, `W` or `N` alone: killed in an uninterruptible sleep.
            [b'D' | b'd' | b'K' | b'W' | b'N', ..] => Self::DiskSleep,
            [b'I' | b'i', ..] => Self::Idle,
            [b'T', ..] => Self::Stopped,
            [b't', ..] => Self::Tracing,
            [b'P' | b'p', ..] => Self::Parked,
            [b'X' | b'x', ..] => Self::Dead,
            [b'Z', ..] => Self::Zombie,
            _ => Self::Unknown,
        }
    }
}

/// Bits of a numeric `prev_state`: 4.14+: `sched_switch`'s; before, `task->state`'s, plus the highest bit for
/// preemption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateBits {
    /// No distinguishing number seen yet.
    #[default]
    Unknown,
    /// Linux 4.14 and later.
    Report,
    /// Before 4.14.
    TaskState,
}

impl StateBits {
    /// Converts a number, and learns which table applies.
    pub fn state(&mut self, bits: u64) -> TaskState {
        // `R+`: 4.14+: TASK_REPORT_MAX is 0x100. Before, TASK_STATE_MAX was 1024 to 4096, and no switch had
        // 0x100 (TASK_WAKING).
        if bits >= 512 {
            *self = Self::TaskState;
            return match bits {
                512 => TaskState::Parked,
                // TASK_NOLOAD with TASK_UNINTERRUPTIBLE.
                1026 => TaskState::Idle,
                _ => TaskState::Preempted,
            };
        }
        if bits & 0x100 != 0 {
            *self = Self::Report;
            return TaskState::Preempted;
        }
        match bits {
            0 => TaskState::Running,
            _ if bits & 1 != 0 => TaskState::Sleeping,
            _ if bits & 2 != 0 => TaskState::DiskSleep,
            _ if bits & 4 != 0 => TaskState::Stopped,
            _ if bits & 8 != 0 => TaskState::Tracing,
            _ if bits & 0x10 != 0 => TaskState::Dead,
            _ if bits & 0x20 != 0 => TaskState::Zombie,
            // TASK_DEAD before 4.14, parked since: only the more frequent one counts.
            _ if bits & 0x40 != 0 => {
                if *self == Self::Report {
                    TaskState::Parked
                } else {
                    TaskState::Dead
                }
            }
            _ if bits & 0x80 != 0 => TaskState::Idle,
            _ => TaskState::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_s_step_makes_a_cpu_online_or_offline() {
        let online = |cpu_id, target, step, function: &'static str| {
            let point = Tracepoint::CpuhpEnter { cpu_id, target, step, function: function.as_bytes() };
            Record { at: 0, cpu: 3, pid: 1, tgid: None, comm: b"", context: None, name: b"cpuhp_enter", point }.online()
        };
        assert_eq!(online(3, 0, 168, "sched_cpu_deactivate"), Some(false));
        assert_eq!(online(3, 169, 168, "sched_cpu_activate"), Some(true));
        assert_eq!(online(3, 169, 150, "workqueue_online_cpu"), None);
        assert_eq!(online(2, 0, 168, "sched_cpu_deactivate"), None, "another CPU takes the step");
        assert_eq!(
            (online(3, 0, 168, ""), online(3, 169, 168, ""), online(3, 5, 5, "")),
            (Some(false), Some(true), None)
        );
    }

    #[test]
    fn every_printed_state_is_read_back() {
        for letters in ["R", "R+", "S", "D", "I", "T", "t", "P", "X", "Z", "?"] {
            assert_eq!(TaskState::from_letters(letters.as_bytes()).letters(), letters);
        }
        assert_eq!(TaskState::from_letters(b"x"), TaskState::Dead);
        assert_eq!(TaskState::from_letters(b""), TaskState::Unknown);
    }

    #[test]
    fn numbers_are_read_by_the_kernel_they_are_of() {
        let mut old = StateBits::default();
        assert_eq!(old.state(64), TaskState::Dead);
        assert_eq!(old.state(4096), TaskState::Preempted);
        assert_eq!(old.state(130), TaskState::DiskSleep);
        assert_eq!(old.state(1026), TaskState::Idle);
        assert_eq!(old, StateBits::TaskState);
        let mut new = StateBits::default();
        assert_eq!(new.state(0x100), TaskState::Preempted);
        assert_eq!(new.state(0x40), TaskState::Parked);
        assert_eq!(new.state(0x80), TaskState::Idle);
        assert_eq!(new.state(0x10), TaskState::Dead);
        assert_eq!(new.state(1), TaskState::Sleeping);
    }
}
