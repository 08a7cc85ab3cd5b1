//! Recorded events: the content of a trace of a real machine, or of a simulated run that is read again.
//!
//! An [`Event`](crate::Event) of the simulator has ids, and all its fields are known. A recording has pids that are
//! reused, names that change, and fields that old kernels lack. A [`Record`] keeps them as recorded. Names of
//! tracepoints and fields are the kernel's.

/// The largest NR_CPUS of any architecture.
pub const MAX_CPUS: u32 = 8192;

/// One line of a text trace, or one record of a binary one.
///
/// It borrows from the reader's buffer: keep what you need before you ask for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Nanoseconds of the trace's clock. Negative if times were shifted.
    pub at: i64,
    /// The CPU it was recorded on.
    pub cpu: u32,
    /// The running task's thread id, 0 for the idle task; negative if unknown.
    pub pid: i32,
    /// The process of that thread, where the file has it.
    pub tgid: Option<i32>,
    /// The name of the running task in the file: `<idle>`, `swapper` or `swapper/0` for the idle task, `<...>` if the
    /// kernel had forgotten it. Empty if there is none.
    pub comm: &'a [u8],
    /// In which context of that CPU it happened; none where the file does not say.
    pub context: Option<Context>,
    /// The event's name, such as `sched_switch`.
    pub name: &'a [u8],
    /// Which tracepoint it is, with its fields.
    pub point: Tracepoint<'a>,
}

impl Record<'_> {
    /// Whether perf reports, beside its events, a new name of a task (`PERF_RECORD_COMM`) at the time of the change, as
    /// the kernel's `task_rename`. perf's records of earlier tasks have time 0.
    pub fn is_told_rename(&self) -> bool {
        self.at > 0 && self.name == b"PERF_RECORD_COMM" && matches!(self.point, Tracepoint::TaskRename { .. })
    }

    /// The highest CPU that the record names: the CPU it was recorded on, and those in its fields. The machine has this
    /// CPU, whether or not the trace has events of the CPU. Numbers that no Linux has ([`MAX_CPUS`]) are left out.
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

    /// Whether this CPU is in the scheduler from now on, at a step of hotplug that may change it and that this CPU
    /// itself takes.
    ///
    /// The step is `sched_cpu_activate` or `sched_cpu_deactivate`. If the file does not name the function, it is any
    /// step on the way up or down: some precede and some follow it by at most milliseconds, and a step on the way up
    /// may be of a CPU that has long been online.
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

/// What a CPU was executing when it recorded an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    /// The task itself, in user mode or in a system call.
    Task,
    /// A softirq. It does the task's own work (a packet sent over loopback), or work of others (a timer of the wheel,
    /// a packet from outside).
    Softirq,
    /// The handler of a hardware interrupt, or of one that cannot be masked.
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
    /// False if it was awake already; kernels since 3.19 report no such wakeups.
    pub success: bool,
    /// The CPU it is put on; of `sched_waking` the CPU it was on last.
    pub target_cpu: Option<u32>,
}

/// What happened, by the kernel's tracepoint. Everything the readers do not know in detail is [`Tracepoint::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tracepoint<'a> {
    /// `sched_switch`.
    Switch {
        /// The task that leaves the CPU.
        prev: Named<'a>,
        /// Its `prio`.
        prev_prio: i32,
        /// Why.
        prev_state: TaskState,
        /// The task that gets the CPU.
        next: Named<'a>,
        /// Its `prio`.
        next_prio: i32,
    },
    /// `sched_waking`: a task is woken; its CPU is not chosen yet.
    Waking(Wakeup<'a>),
    /// `sched_wakeup`: the task is on a run queue.
    Wakeup(Wakeup<'a>),
    /// `sched_wakeup_new`: a task just forked is on a run queue.
    WakeupNew(Wakeup<'a>),
    /// `sched_migrate_task`.
    MigrateTask {
        /// The migrated task.
        task: Named<'a>,
        /// Its `prio`.
        prio: i32,
        /// From here.
        orig_cpu: u32,
        /// To here.
        dest_cpu: u32,
    },
    /// `sched_stat_runtime`: a task was charged CPU time.
    StatRuntime {
        /// The task.
        task: Named<'a>,
        /// Nanoseconds since it was charged before.
        runtime_ns: u64,
        /// Its vruntime, nanoseconds of nice 0; kernels since 6.8 do not tell.
        vruntime_ns: Option<u64>,
    },
    /// `sched_process_fork`.
    ProcessFork {
        /// The parent.
        parent: Named<'a>,
        /// The new task, which has its parent's name.
        child: Named<'a>,
    },
    /// `task_newtask`, just before `sched_process_fork`, and recorded by Android instead: the running task forks.
    TaskNew {
        /// The new task, which has its parent's name.
        task: Named<'a>,
        /// What it shares with its parent: the flags of clone(2).
        clone_flags: u64,
        /// Its `oom_score_adj`.
        oom_score_adj: i32,
    },
    /// `sched_process_exec`: the task runs another program from now on.
    ProcessExec {
        /// The program's path.
        filename: &'a [u8],
        /// Its thread id from now on.
        pid: i32,
        /// And until now.
        old_pid: i32,
    },
    /// `sched_process_exit`.
    ProcessExit {
        /// The ended task.
        task: Named<'a>,
        /// Its `prio`.
        prio: i32,
        /// Whether it is the last thread of its process, from Linux 6.16 on.
        group_dead: Option<bool>,
    },
    /// `task_rename`, or what a file knows of a task besides its events (`PERF_RECORD_COMM`, a Perfetto process tree).
    TaskRename {
        /// The task, with its name from now on.
        task: Named<'a>,
        /// Its process, where the file has it.
        tgid: Option<i32>,
    },
    /// `cgroup_attach_task`: a task is in another cgroup from now on.
    CgroupAttach {
        /// The task.
        task: Named<'a>,
        /// The hierarchy: 0 of cgroup v2, otherwise as /proc/PID/cgroup numbers it.
        dst_root: i32,
        /// The cgroup's id.
        dst_id: u64,
        /// How deep it lies; the root is 0.
        dst_level: i32,
        /// Its path in that hierarchy.
        dst_path: &'a [u8],
    },
    /// `cpu_idle`.
    CpuIdle {
        /// Which idle state; [`CPU_IDLE_EXIT`] when the CPU leaves it.
        state: u32,
        /// Whose.
        cpu_id: u32,
    },
    /// `cpu_frequency`.
    CpuFrequency {
        /// kHz.
        khz: u32,
        /// Whose.
        cpu_id: u32,
    },
    /// `cpuhp_enter`: a step of a CPU's way online or offline begins.
    CpuhpEnter {
        /// Whose.
        cpu_id: u32,
        /// The state it is on the way to.
        target: i32,
        /// The state that this step is of (`idx`).
        step: i32,
        /// The name of what does it, where the file has it: binary files have an address.
        function: &'a [u8],
    },
    /// `print`, `tracing_mark_write`: a text written to `trace_marker`.
    Print {
        /// The text, without the function it came from.
        text: &'a [u8],
    },
    /// The buffer was full: events of this CPU are missing before this point.
    Lost {
        /// The number of events; None if not counted.
        events: Option<u64>,
    },
    /// Any other event.
    Other {
        /// Its fields as text. Empty from binary files.
        fields: &'a [u8],
    },
    /// An event that should be one of those above, but whose fields are not what the kernel prints.
    Malformed {
        /// Its fields as they are.
        fields: &'a [u8],
    },
}

/// `state` of [`Tracepoint::CpuIdle`] when a CPU leaves idle: `PWR_EVENT_EXIT`, -1 as the kernel prints it.
pub const CPU_IDLE_EXIT: u32 = u32::MAX;

/// `prev_state` of `sched_switch`: what the task waits for that leaves the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskState {
    /// `R`: runnable. Up to Linux 4.13 of a task that yielded, and of preempted ones on some kernels, too.
    Running,
    /// `R+`: runnable and preempted.
    Preempted,
    /// `S`: sleeps, signals wake it.
    Sleeping,
    /// `D`: sleeps, signals do not wake it (`D|K`: deadly ones do).
    DiskSleep,
    /// `I`: an idle kernel thread, which sleeps as in `D` but is no load.
    Idle,
    /// `T`: stopped by a signal.
    Stopped,
    /// `t`: stopped by a debugger.
    Tracing,
    /// `P`: a parked kernel thread.
    Parked,
    /// `X`, `x`: gone.
    Dead,
    /// `Z`: gone, its parent has not asked yet.
    Zombie,
    /// Something no kernel prints.
    #[default]
    Unknown,
}

impl TaskState {
    /// Whether the task stays on the run queue: it did not ask to be taken off.
    pub const fn is_runnable(self) -> bool {
        matches!(self, Self::Running | Self::Preempted)
    }

    /// Whether the task will never run again.
    pub const fn is_gone(self) -> bool {
        matches!(self, Self::Dead | Self::Zombie)
    }

    /// As the kernel prints it: `R`, `R+`, `S`, `D`...; `?` if unknown.
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

    /// Reads the kernel's letters: the first of several (`D|K`) decides, and a `+` means that the task was preempted,
    /// even on its way to sleep.
    pub fn from_letters(text: &[u8]) -> Self {
        match *text {
            [.., b'+'] => Self::Preempted,
            [b'R', ..] => Self::Running,
            [b'S' | b's', ..] => Self::Sleeping,
            // `K`, `W` or `N` alone: under `kill -9`, on the way out of an uninterruptible sleep.
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

/// The table of the bits of a numeric `prev_state`.
///
/// From 4.14 on, `sched_switch` has bits of its own. Before, they were those of `task->state`, with a bit above all
/// others for preempted tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateBits {
    /// Nothing seen yet that only one of them has.
    #[default]
    Unknown,
    /// Linux 4.14 and later.
    Report,
    /// Before.
    TaskState,
}

impl StateBits {
    /// Reads a number, and learns from it which table this is.
    pub fn state(&mut self, bits: u64) -> TaskState {
        // `R+`: TASK_REPORT_MAX is 0x100 from 4.14 on; before, TASK_STATE_MAX was 1024 to 4096, and 0x100 (TASK_WAKING)
        // was never there when a task left a CPU.
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
            // TASK_DEAD before 4.14, parked from then on: of the two only one is frequent.
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
    fn a_cpu_comes_and_goes_by_the_scheduler_s_step() {
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
    fn every_state_is_read_as_it_is_printed() {
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
