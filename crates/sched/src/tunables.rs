//! Tunables, in memory or compiled in.
//!
//! The scheduler reads them through [`Tunables`]. [`Knobs`] stores them, so that a run can set them. Methods that
//! return constants cost nothing ([`Defaults`]).

use core::fmt::Debug;

use crate::class::cfs_2007::tunables::Tunables2007;
use crate::class::deadline::params::DlTunables;
use crate::class::o1::tunables::CpuRcTunables;
use crate::uclamp::UclampTunables;

/// Tunables. Times are nanoseconds.
pub trait Tunables: Clone + Debug + Send + Sync + 'static {
    /// EEVDF: default slice. CFS: `min_granularity_ns`.
    fn base_slice_ns(&self) -> u64;
    /// CFS: the period in which every runnable task runs once (`latency_ns`).
    fn latency_ns(&self) -> u64;
    /// CFS: how far behind a waking task must be to preempt (`wakeup_granularity_ns`).
    fn wakeup_granularity_ns(&self) -> u64;
    /// CFS: granularity of SCHED_IDLE entities (`idle_min_granularity_ns`).
    #[inline]
    fn idle_min_granularity_ns(&self) -> u64 {
        750_000
    }
    /// Returns how long a task stays cache-hot.
    #[inline]
    fn migration_cost_ns(&self) -> u64 {
        500_000
    }
    /// Most tasks that a balancing pass checks (`nr_migrate`).
    #[inline]
    fn nr_migrate(&self) -> u32 {
        32
    }
    /// Time between two ticks.
    fn tick_ns(&self) -> u64;
    /// Returns the slice of a SCHED_RR task (`sched_rr_timeslice_ms`).
    fn rr_timeslice_ns(&self) -> u64 {
        100_000_000
    }
    /// Returns the period of real-time bandwidth (`sched_rt_period_us`).
    fn rt_period_ns(&self) -> u64 {
        1_000_000_000
    }
    /// Real-time tasks' runtime on each CPU in a period (`sched_rt_runtime_us`); the period or more: no limit.
    fn rt_runtime_ns(&self) -> u64 {
        950_000_000
    }
    /// Tunables of the deadline class.
    fn deadline(&self) -> DlTunables {
        DlTunables::default()
    }
    /// Runtime that a CPU draws from a group's limit at a time (`sched_cfs_bandwidth_slice_us`).
    #[inline]
    fn cfs_bandwidth_slice_ns(&self) -> u64 {
        5_000_000
    }
    /// Tunables of the first CFS.
    #[inline]
    fn cfs_2007(&self) -> Tunables2007 {
        Tunables2007::CONSTANT
    }
    /// Bounds of utilisation clamps.
    #[inline]
    fn uclamp(&self) -> UclampTunables {
        UclampTunables::default()
    }
    /// Tunables of the CPU resource controller.
    #[inline]
    fn cpu_rc(&self) -> CpuRcTunables {
        CpuRcTunables::default()
    }
    /// Whether wakeups consider energy, if there is a model (`sched_energy_aware`).
    #[inline]
    fn energy_aware(&self) -> bool {
        true
    }
}

/// Tunables that a run can set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Knobs {
    /// See [`Tunables::base_slice_ns`].
    pub base_slice_ns: u64,
    /// See [`Tunables::latency_ns`].
    pub latency_ns: u64,
    /// See [`Tunables::wakeup_granularity_ns`].
    pub wakeup_granularity_ns: u64,
    /// See [`Tunables::idle_min_granularity_ns`].
    pub idle_min_granularity_ns: u64,
    /// See [`Tunables::migration_cost_ns`].
    pub migration_cost_ns: u64,
    /// See [`Tunables::nr_migrate`].
    pub nr_migrate: u32,
    /// See [`Tunables::tick_ns`].
    pub tick_ns: u64,
    /// See [`Tunables::rr_timeslice_ns`].
    pub rr_timeslice_ns: u64,
    /// See [`Tunables::rt_period_ns`].
    pub rt_period_ns: u64,
    /// See [`Tunables::rt_runtime_ns`].
    pub rt_runtime_ns: u64,
    /// See [`Tunables::deadline`].
    pub deadline: DlTunables,
    /// See [`Tunables::cfs_bandwidth_slice_ns`].
    pub cfs_bandwidth_slice_ns: u64,
    /// See [`Tunables::cfs_2007`].
    pub cfs_2007: Tunables2007,
    /// See [`Tunables::uclamp`].
    pub uclamp: UclampTunables,
    /// See [`Tunables::cpu_rc`].
    pub cpu_rc: CpuRcTunables,
    /// See [`Tunables::energy_aware`].
    pub energy_aware: bool,
}

impl Tunables for Knobs {
    #[inline]
    fn base_slice_ns(&self) -> u64 {
        self.base_slice_ns
    }
    #[inline]
    fn latency_ns(&self) -> u64 {
        self.latency_ns
    }
    #[inline]
    fn wakeup_granularity_ns(&self) -> u64 {
        self.wakeup_granularity_ns
    }
    #[inline]
    fn idle_min_granularity_ns(&self) -> u64 {
        self.idle_min_granularity_ns
    }
    #[inline]
    fn migration_cost_ns(&self) -> u64 {
        self.migration_cost_ns
    }
    #[inline]
    fn nr_migrate(&self) -> u32 {
        self.nr_migrate
    }
    #[inline]
    fn tick_ns(&self) -> u64 {
        self.tick_ns
    }
    #[inline]
    fn rr_timeslice_ns(&self) -> u64 {
        self.rr_timeslice_ns
    }
    #[inline]
    fn rt_period_ns(&self) -> u64 {
        self.rt_period_ns
    }
    #[inline]
    fn rt_runtime_ns(&self) -> u64 {
        self.rt_runtime_ns
    }
    #[inline]
    fn deadline(&self) -> DlTunables {
        self.deadline
    }
    #[inline]
    fn cfs_bandwidth_slice_ns(&self) -> u64 {
        self.cfs_bandwidth_slice_ns
    }
    #[inline]
    fn cfs_2007(&self) -> Tunables2007 {
        self.cfs_2007
    }
    #[inline]
    fn uclamp(&self) -> UclampTunables {
        self.uclamp
    }
    #[inline]
    fn cpu_rc(&self) -> CpuRcTunables {
        self.cpu_rc
    }
    #[inline]
    fn energy_aware(&self) -> bool {
        self.energy_aware
    }
}

/// 6.12's values on at least eight CPUs at HZ=250.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Defaults;

impl Tunables for Defaults {
    #[inline]
    fn base_slice_ns(&self) -> u64 {
        2_800_000
    }
    #[inline]
    fn latency_ns(&self) -> u64 {
        24_000_000
    }
    #[inline]
    fn wakeup_granularity_ns(&self) -> u64 {
        4_000_000
    }
    #[inline]
    fn tick_ns(&self) -> u64 {
        4_000_000
    }
}

/// Returns the factor of granularities on `cpus` CPUs (logarithmic `tunable_scaling`): 1 + floor(log2(min(cpus, 8))).
pub fn scaling(cpus: usize) -> u64 {
    1 + u64::from(cpus.clamp(1, 8).ilog2())
}
