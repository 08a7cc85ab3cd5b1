//! What the kernel gave.

use vruntime_trace::LoopTimes;
use vruntime_workload::resident::Resident;

/// What came out of a run. Times are nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// From the common start to the end.
    pub elapsed_ns: u64,
    /// In the order of their starts: the workload's own first, then those that were forked.
    pub tasks: Vec<TaskMeasured>,
    /// Those of the workload, in its order.
    pub groups: Vec<GroupMeasured>,
    /// The kernel's release, such as `6.12.48`.
    pub kernel: String,
    /// CPUs this process may run on.
    pub cpus: usize,
    /// Other tasks that this machine ran meanwhile, including this program's waiting thread, ordered by CPU time. None
    /// without accounts of tasks (schedstats).
    pub others: Option<Vec<Resident>>,
    /// The mean number of CPUs that were neither idle nor used by known tasks: time of tasks that ended meanwhile, of
    /// interrupts, and of a host. None if the kernel does not report idle time (`/proc/stat`).
    pub unseen: Option<f64>,
    /// What was left out, and why; what was cleaned up.
    pub notes: Vec<String>,
    /// It was stopped before its end.
    pub interrupted: bool,
    /// The ftrace text, if one was asked for and could be recorded.
    pub trace: Option<std::path::PathBuf>,
    /// What the machine said of the groups when the trace began, as a replay reads it (`--cgroups`), if the workload
    /// has any.
    pub groups_file: Option<std::path::PathBuf>,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskMeasured {
    /// Its name; a forked instance carries a number.
    pub name: String,
    /// Index in the workload's tasks.
    pub template: usize,
    /// Index in the workload's groups, the last it was put into.
    pub group: usize,
    /// Its thread id.
    pub tid: u32,
    /// Its policy's number at the end (`SCHED_OTHER` is 0).
    pub policy: u32,
    /// Its nice value at the end.
    pub nice: i32,
    /// Its real-time priority at the end.
    pub rt_priority: u32,
    /// It came to its program's end.
    pub ended: bool,
    /// From its start to its end, or to that of the run.
    pub life_ns: u64,
    /// On a CPU, by the thread's own CPU clock.
    pub cpu_ns: u64,
    /// Runnable but not running (`/proc/PID/task/TID/schedstat`). None if the kernel keeps no such accounts, and for a
    /// forked task: see [`Self::migrations`].
    pub run_delay_ns: Option<u64>,
    /// `ru_nvcsw` of the thread, until its program or the run was at its end: its exit is none.
    pub voluntary: u64,
    /// `ru_nivcsw`.
    pub involuntary: u64,
    /// `se.nr_migrations` of `/proc/PID/task/TID/sched`. None without that file, and for a forked task: it would have
    /// to read `/proc` at its end, which takes longer than short tasks (2 ms under emulation, 50 us on this machine).
    pub migrations: Option<u64>,
    /// Completed loops of its phases.
    pub loops: u64,
    /// CPU work those loops asked for.
    pub loop_work_ns: u64,
    /// How late each timed sleep returned.
    pub late_ns: Vec<u64>,
    /// How long each loop took.
    pub loop_ns: Vec<u64>,
    /// Each loop as rt-app logs it, if that was asked for.
    pub logged: Vec<LoopMeasured>,
}

/// A loop as rt-app logs it. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopMeasured {
    /// When it ended, from the common start.
    pub ended: u64,
    /// How long it took.
    pub duration: u64,
    /// The rest of it.
    pub times: LoopTimes,
}

/// One task group.
#[derive(Clone, Debug, Default)]
pub struct GroupMeasured {
    /// Its path in the workload.
    pub path: String,
    /// `nr_periods` of `cpu.stat`.
    pub nr_periods: u64,
    /// `nr_throttled`.
    pub nr_throttled: u64,
    /// `throttled_usec` (v2) or `throttled_time` (v1), nanoseconds.
    pub throttled_ns: u64,
    /// `nr_bursts`.
    pub nr_bursts: u64,
    /// `burst_usec` or `burst_time`, nanoseconds.
    pub burst_ns: u64,
}
