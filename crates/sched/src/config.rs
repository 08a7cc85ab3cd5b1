//! A scheduler's settings, of the kernel and the machine.

use crate::cpumask::CpuMask;
use crate::energy::model::EnergyModel;
use crate::features::Features;
use crate::kernels::{Behaviour, Behaviours, Kernel};
use crate::topology::Topology;
use crate::tunables::{Knobs, Tunables};

/// How a task preempts a running fair task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preemption {
    /// It interrupts the CPU.
    Eager,
    /// The CPU reschedules when it next leaves the kernel, at the latest at the tick (PREEMPT_LAZY, 6.13+). Higher
    /// classes interrupt it.
    Lazy,
}

/// A scheduler's callers. `Many` is always correct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callers {
    /// One thread at a time: shared sums need no atomic additions, each as costly as fifty other instructions.
    One,
    /// Several threads.
    Many,
}

/// The settings of a scheduler.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
pub struct Config<T> {
    /// The kernel's tunables.
    pub tunables: T,
    /// Features that are on.
    pub features: Features,
    /// The kernel's behaviours.
    pub behaviours: Behaviours,
    /// The callers of the scheduler.
    pub callers: Callers,
    /// A domain's highest cost of newly-idle balancing, ns (`max_newidle_lb_cost`): CPUs with shorter idle times skip
    /// it. The kernel measures it; here the clock stands still during calls.
    pub newidle_cost_ns: u64,
    /// Initial chance of newly-idle balancing under `NI_RANDOM`, of 1024: 512 after boot, 1024 or more is always. It
    /// follows the success rate.
    pub newidle_ratio: u32,
    /// Real-time scheduling of groups (CONFIG_RT_GROUP_SCHED).
    pub rt_group_sched: bool,
    /// Whether to count switches by group ([`Scheduler::group_switches`](crate::Scheduler::group_switches)).
    pub group_switches: bool,
    /// Whether to defer updates of unchanged hierarchy levels ([`fair`](crate::class::fair)): equal results in less
    /// time. Off only in tests.
    pub quiet_levels: bool,
    /// How a task preempts a running fair task.
    pub preemption: Preemption,
    /// Start of real-time bandwidth's periods on a machine already up, ns after a multiple of the period. `None`: they
    /// start at the first real-time task's wakeup.
    pub rt_period_phase_ns: Option<u64>,
    /// Phase of groups' limit periods on a machine already up. Up to 6.3: ns after a multiple of the period, for all
    /// groups. 6.4+: a seed for each group's phase. `None`: periods begin with the run; 6.4+: by the group's number.
    pub cfs_period_phase_ns: Option<u64>,
    /// CPUs isolated at boot (`isolcpus=domain,...`); not all.
    pub isolated: CpuMask,
    /// Model for placement by [`energy`](crate::energy).
    pub energy: Option<EnergyModel>,
}

impl Config<Knobs> {
    /// Returns the settings of `kernel` on `topology` with `hz` ticks a second.
    pub fn new(kernel: &Kernel, topology: &Topology, hz: u32) -> Self {
        Self {
            tunables: kernel.tunables(topology.nr_cpus(), hz),
            features: kernel.features,
            behaviours: kernel.behaviours,
            callers: Callers::Many,
            newidle_cost_ns: 5_000,
            newidle_ratio: NEWIDLE_RATIO,
            rt_group_sched: kernel.rt_group_sched,
            group_switches: kernel.group_switches,
            quiet_levels: true,
            preemption: Preemption::Eager,
            rt_period_phase_ns: None,
            cfs_period_phase_ns: None,
            isolated: CpuMask::new(),
            energy: None,
        }
    }

    /// Replaces the tunables, for example by constants ([`Defaults`](crate::tunables::Defaults)).
    #[must_use]
    pub fn with_tunables<T: Tunables>(self, tunables: T) -> Config<T> {
        Config {
            tunables,
            features: self.features,
            behaviours: self.behaviours,
            callers: self.callers,
            newidle_cost_ns: self.newidle_cost_ns,
            newidle_ratio: self.newidle_ratio,
            rt_group_sched: self.rt_group_sched,
            group_switches: self.group_switches,
            quiet_levels: self.quiet_levels,
            preemption: self.preemption,
            rt_period_phase_ns: self.rt_period_phase_ns,
            cfs_period_phase_ns: self.cfs_period_phase_ns,
            isolated: self.isolated,
            energy: self.energy,
        }
    }
}

impl<T> Config<T> {
    /// Whether the kernel has a behaviour.
    #[inline]
    pub const fn has(&self, behaviour: Behaviour) -> bool {
        self.behaviours.has(behaviour)
    }
}

/// Initial chance of newly-idle balancing, of 1024 (`sd_init`).
pub(crate) const NEWIDLE_RATIO: u32 = 512;
