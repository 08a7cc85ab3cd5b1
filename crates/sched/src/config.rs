//! What a scheduler is made of: a kernel's rules and numbers, and what its host says of the machine.

use crate::cpumask::CpuMask;
use crate::energy::EnergyModel;
use crate::features::Features;
use crate::kernels::{Behaviour, Behaviours, Kernel};
use crate::topology::Topology;
use crate::tunables::{Knobs, Tunables};

/// What a CPU that runs a fair task hears of another one that is to preempt it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preemption {
    /// It is interrupted.
    Eager,
    /// Nothing: it notices when it leaves the kernel next, at the tick if not before (PREEMPT_LAZY, 6.13 on). For tasks
    /// of higher classes it is interrupted.
    Lazy,
}

/// The callers of a scheduler. The default, `Many`, is right for both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callers {
    /// One thread at a time: what several CPUs add to needs no locked additions, each of which costs as much as fifty
    /// other instructions.
    One,
    /// As many threads as there are CPUs, perhaps.
    Many,
}

/// What a scheduler is made of.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
pub struct Config<T> {
    /// The kernel's tunables: slices, granularities, periods.
    pub tunables: T,
    /// The scheduler's features, on or off.
    pub features: Features,
    /// What the kernel does ([`Behaviour`]).
    pub behaviours: Behaviours,
    /// The callers of the scheduler.
    pub callers: Callers,
    /// The highest cost of a newly-idle balance of one domain, nanoseconds. The kernel measures it
    /// (`max_newidle_lb_cost`) and skips balancing on CPUs with shorter idle times. Here the clock stands still during
    /// a call, so the host states the cost on its machine.
    pub newidle_cost_ns: u64,
    /// The initial chance of newly-idle balancing under `NI_RANDOM`, of 1024. Later the chance follows the success
    /// rate. 512 as after boot; 1024 or more means always.
    pub newidle_ratio: u32,
    /// Real-time scheduling of groups (CONFIG_RT_GROUP_SCHED).
    pub rt_group_sched: bool,
    /// Count switches away from the tasks of each group
    /// ([`Scheduler::group_switches`](crate::Scheduler::group_switches)).
    pub group_switches: bool,
    /// Whether updates of hierarchy levels where nothing changes are deferred ([`fair`](crate::class::fair)). The
    /// results are equal, in less time. Off only in tests.
    pub quiet_levels: bool,
    /// Whether a CPU that runs a fair task is interrupted for another one.
    pub preemption: Preemption,
    /// The start of the periods of real-time bandwidth, nanoseconds after any multiple of the period: on a machine that
    /// has been up for a while, the timer already runs. `None`: when the first real-time task wakes.
    pub rt_period_phase_ns: Option<u64>,
    /// The phase of the periods of limits on fair groups, on a machine that has been up for a while. Up to 6.3: of all
    /// groups, nanoseconds after any multiple of the period. From 6.4: the seed from which each group's own is drawn.
    /// `None`: they begin with the run; from 6.4 where the group's number says.
    pub cfs_period_phase_ns: Option<u64>,
    /// CPUs that are isolated from the beginning (`isolcpus=domain,...`), not all.
    pub isolated: CpuMask,
    /// What the CPUs take: wakeups go where it costs the least ([`energy`](crate::energy)).
    pub energy: Option<EnergyModel>,
}

impl Config<Knobs> {
    /// The configuration of `kernel` on `topology` with `hz` ticks a second.
    pub fn new(kernel: &Kernel, topology: &Topology, hz: u32) -> Self {
        Self {
            tunables: kernel.tunables(topology.nr_cpus(), hz),
            features: kernel.features,
            behaviours: kernel.behaviours,
            callers: Callers::Many,
            newidle_cost_ns: 5_000,
            newidle_ratio: crate::balance::NEWIDLE_RATIO,
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

    /// The same with other tunables, such as constants ([`Defaults`](crate::tunables::Defaults)).
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
    /// Returns whether the kernel has a behaviour.
    #[inline]
    pub const fn has(&self, behaviour: Behaviour) -> bool {
        self.behaviours.has(behaviour)
    }
}
