//! Tunables of the first CFS.

/// Numbers of the first CFS. Times are nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tunables2007 {
    /// Lead of a task that preempts at the tick (`sched_granularity_ns`).
    pub granularity_ns: u64,
    /// Lead of a waking task that preempts (`sched_wakeup_granularity_ns`).
    pub wakeup_granularity_ns: u64,
    /// Lead of a SCHED_BATCH task (`sched_batch_wakeup_granularity_ns`).
    pub batch_wakeup_granularity_ns: u64,
    /// Smallest step of an account (`sched_stat_granularity_ns`).
    pub stat_granularity_ns: u64,
    /// Limit of an account, positive and negative (`sched_runtime_limit_ns`).
    pub runtime_limit_ns: u64,
    /// Whether a forked task runs before its parent (`sched_child_runs_first`).
    pub child_runs_first: bool,
    /// Whether a task that yields moves behind all others (`sched_compat_yield`).
    pub compat_yield: bool,
}

impl Tunables2007 {
    /// Constants of the kernel of 2 August 2007 at HZ=250, not scaled by the number of CPUs.
    pub const CONSTANT: Self = Self {
        granularity_ns: 8_000_000,
        wakeup_granularity_ns: 4_000_000,
        batch_wakeup_granularity_ns: 40_000_000,
        stat_granularity_ns: 0,
        runtime_limit_ns: 16_000_000,
        child_runs_first: true,
        compat_yield: false,
    };

    /// Returns the knobs of a machine: a granularity of 2 ticks, times 1 + log2(CPUs), up to 100 ms.
    pub fn scaled(cpus: usize, hz: u32) -> Self {
        let ticks = |ticks: u64| ticks * 1_000_000_000 / u64::from(hz.max(1));
        let factor = 1 + u64::from(cpus.max(1).ilog2());
        let granularity_ns = (ticks(2) * factor).min(100_000_000);
        Self {
            granularity_ns,
            wakeup_granularity_ns: granularity_ns / 2,
            batch_wakeup_granularity_ns: ticks(10),
            stat_granularity_ns: 0,
            runtime_limit_ns: granularity_ns * 4,
            ..Self::CONSTANT
        }
    }
}
