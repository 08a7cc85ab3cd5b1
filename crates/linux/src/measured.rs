//! The results of a run.

use vruntime_trace::LoopTimes;
use vruntime_workload::resident::Resident;

/// Results of a run. Times are nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// From the common start to the end.
    pub elapsed_ns: u64,
    /// The workload's tasks by start, then forked ones.
    pub tasks: Vec<TaskMeasured>,
    /// The workload's groups, in its order.
    pub groups: Vec<GroupMeasured>,
    /// The kernel's release, such as `6.12.48`.
    pub kernel: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Other tasks here, including this program's waiting thread, by CPU time. None without task accounts
    /// (schedstats).
    pub others: Option<Vec<Resident>>,
    /// Mean CPUs neither idle nor used by known tasks: ended tasks, interrupts, a host. None without idle time
    /// (`/proc/stat`).
    pub unseen: Option<f64>,
    /// What was omitted (and why) or cleaned up.
    pub notes: Vec<String>,
    /// Whether it was stopped early.
    pub interrupted: bool,
    /// The ftrace text, if requested and recorded.
    pub trace: Option<std::path::PathBuf>,
    /// State of any groups at the trace's start, for a replay (`--cgroups`).
    pub groups_file: Option<std::path::PathBuf>,
    /// The error of a file of the recording that could not be written.
    pub unwritten: Option<String>,
}

/// A task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskMeasured {
    /// Its name, numbered for forked instances.
    pub name: String,
    /// Index in the workload's tasks.
    pub template: usize,
    /// Index of its last group in the workload.
    pub group: usize,
    /// Its thread id.
    pub tid: u32,
    /// Its policy's number at the end (`SCHED_OTHER` is 0).
    pub policy: u32,
    /// Its nice value at the end.
    pub nice: i32,
    /// Its real-time priority at the end.
    pub rt_priority: u32,
    /// Whether its program ended.
    pub ended: bool,
    /// From its start to its end or the run's.
    pub life_ns: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// Time runnable but not running (`/proc/PID/task/TID/schedstat`). None without accounts, or if
    /// [`Self::migrations`] is.
    pub run_delay_ns: Option<u64>,
    /// `ru_nvcsw` at its program's or the run's end, without its exit.
    pub voluntary: u64,
    /// `ru_nivcsw`.
    pub involuntary: u64,
    /// `se.nr_migrations` of `/proc/PID/task/TID/sched`. None without that file, and for forked tasks, where reading
    /// `/proc` at the end takes too long.
    pub migrations: Option<u64>,
    /// Completed loops of its phases.
    pub loops: u64,
    /// CPU work of those loops.
    pub loop_work_ns: u64,
    /// Lateness of each timed sleep.
    pub late_ns: Vec<u64>,
    /// Duration of each loop.
    pub loop_ns: Vec<u64>,
    /// rt-app's log of each loop, if requested.
    pub logged: Vec<LoopMeasured>,
}

/// A loop in rt-app's log. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopMeasured {
    /// Its end, after the common start.
    pub ended: u64,
    /// Its duration.
    pub duration: u64,
    /// Its other times.
    pub times: LoopTimes,
}

/// A task group.
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
