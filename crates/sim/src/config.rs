//! The configuration of a run, and its outcome.

use vruntime_sched::debug::Snapshot;
use vruntime_sched::energy::EnergyModel;
use vruntime_sched::kernels::Behaviour;
use vruntime_sched::loadavg::LoadAvg;
use vruntime_sched::{CpuMask, Kernel, Topology};
use vruntime_workload::resident::Resident;
use vruntime_workload::scenario::Preempt;

use crate::costs::Costs;
use crate::frequency::Frequencies;
use crate::idle::{IdleDepth, IdleState};
use crate::stalls::Stall;

/// A machine: its shape and the speed of its parts.
#[derive(Clone, Debug)]
pub struct MachineSpec {
    /// Topology and capacities of the CPUs.
    pub topology: Topology,
    /// Ticks per second, 1..=10000 (Linux offers 100, 250, 300 and 1000).
    pub hz: u32,
    /// The kernel's costs.
    pub costs: Costs,
    /// Speed of a CPU while its SMT sibling is busy, 1..=1000 thousandths of its speed alone. Cores of more threads
    /// keep the throughput of two busy ones.
    pub smt_speed_permille: u32,
    /// How late a sleep may end, nanoseconds (`PR_SET_TIMERSLACK`). The timer fires at the end of the slack, or with an
    /// earlier timer or tick of that CPU. Real-time and deadline tasks have no slack.
    pub timer_slack_ns: u64,
    /// Whether CPUs' ticks are spread over the first half of the period (`skew_tick=1`). By default all tick at once.
    pub skew_tick: bool,
    /// Changeable frequencies. `None`: CPUs run at their highest.
    pub frequencies: Option<Frequencies>,
    /// The energy model, used at wakeups as under schedutil, unless [`frequencies`](Self::frequencies) name another
    /// governor. Without frequencies, CPUs run at their highest.
    pub energy: Option<EnergyModel>,
    /// Idle states from the shallowest to the deepest. Empty: leaving idleness takes [`Costs::idle_exit_ns`].
    pub idle_states: Vec<IdleState>,
    /// Additional wakeup latencies, in order of idle time. Empty: [`Costs::idle_exit_ns`].
    pub idle_depths: Vec<IdleDepth>,
    /// CPUs isolated from the start (`isolcpus=domain`), which the balancer ignores. Not all CPUs.
    pub isolated: CpuMask,
    /// A virtual machine's host CPUs, at least 1. `None`: as many as needed.
    pub host_cpus: Option<u32>,
    /// Moments in which the host runs something else.
    pub stalls: Option<Stall>,
    /// Measured background tasks. `None`: the costs' kernel threads.
    pub residents: Option<Vec<Resident>>,
}

impl MachineSpec {
    /// Returns a machine with Linux's defaults: 250 Hz, 50 us of timer slack, [`Costs::BARE_METAL`].
    pub fn new(topology: Topology) -> Self {
        Self {
            topology,
            hz: 250,
            costs: Costs::default(),
            smt_speed_permille: 600,
            timer_slack_ns: 50_000,
            skew_tick: false,
            frequencies: None,
            energy: None,
            idle_states: Vec::new(),
            idle_depths: Vec::new(),
            isolated: CpuMask::new(),
            host_cpus: None,
            stalls: None,
            residents: None,
        }
    }
}

/// The configuration of a run.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent settings
pub struct Config {
    /// The kernel.
    pub kernel: Kernel,
    /// The machine under it.
    pub machine: MachineSpec,
    /// Whether each session is an autogroup in the root group (`sched_autogroup`), with the weight of the session's
    /// nice value.
    pub autogroup: bool,
    /// The preemption model. The kernel may have another ([`effective_preempt`](Self::effective_preempt)).
    pub preempt: Preempt,
    /// Draws starts (up to 5 us late, beside interrupts), and the phases of ticks and of the real-time period. With 0,
    /// tasks start in time, and the first tick is one period after the start. Every seed, also 0, draws delays of
    /// interrupts ([`Costs::irq_jitter_ns`]).
    pub seed: u64,
    /// Time of the first tick, nanoseconds after the start. `None`: drawn from the seed.
    pub tick_phase: Option<u64>,
    /// Whether tasks exist and sleep until the run begins, as in recordings: with decayed averages, on CPUs drawn from
    /// the seed (in turn with 0). Otherwise each is forked as a new task.
    pub gate: bool,
    /// The most tasks alive beyond the workload's. The next fork ends the run
    /// ([`Error::ForkRefused`](crate::Error::ForkRefused)).
    pub threads_max: usize,
    /// The end, nanoseconds after the start. Overrides the workload's.
    pub duration: Option<u64>,
    /// Time of a snapshot, nanoseconds after the start, taken after all events of that instant.
    pub debug_at: Option<u64>,
    /// Whether settings that the kernel ignores are errors ([`Error::TooOld`](crate::Error::TooOld)) instead of notes.
    pub strict: bool,
    /// Whether a refused request (`sched_setattr`) ends the run. Otherwise the task stays as it was, and a note reports
    /// it.
    pub end_if_refused: bool,
}

/// Linux's limit on a machine of 32 GiB (`kernel.threads-max`).
const THREADS_MAX: usize = 1 << 18;

/// Returns the preemption model that a kernel has in place of `preempt`.
pub(crate) fn effective_preempt(preempt: Preempt, kernel: &Kernel) -> Preempt {
    match preempt {
        Preempt::Lazy if !kernel.behaviours.has(Behaviour::LazyPreemption) => Preempt::Voluntary,
        Preempt::None | Preempt::Voluntary if kernel.behaviours.has(Behaviour::LazyOrFull) => Preempt::Lazy,
        preempt => preempt,
    }
}

impl Config {
    /// Returns the preemption model that the kernel has: before 6.13, `lazy` is as `voluntary`. 7.0+: `none` and
    /// `voluntary` are as `lazy`.
    pub fn effective_preempt(&self) -> Preempt {
        effective_preempt(self.preempt, &self.kernel)
    }

    /// Returns a run with seed 0 until the workload ends.
    pub fn new(kernel: Kernel, machine: MachineSpec) -> Self {
        Self {
            kernel,
            machine,
            autogroup: false,
            preempt: Preempt::default(),
            seed: 0,
            tick_phase: None,
            gate: false,
            threads_max: THREADS_MAX,
            duration: None,
            debug_at: None,
            strict: false,
            end_if_refused: true,
        }
    }
}

/// A run's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Nanoseconds since the start.
    pub now: u64,
    /// The run's end, nanoseconds since the start, if known.
    pub end: Option<u64>,
    /// Events emitted so far.
    pub events: u64,
}

/// A CPU's times, nanoseconds, with sum [`Outcome::end`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// The tasks' work.
    pub busy: u64,
    /// The kernel's: switches, interrupts, system calls, refilled caches.
    pub overhead: u64,
    /// Idle time.
    pub idle: u64,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The end, nanoseconds after the start.
    pub end: u64,
    /// Events emitted.
    pub events: u64,
    /// Context switches.
    pub switches: u64,
    /// Whether the watcher stopped the run.
    pub interrupted: bool,
    /// Notes for the user, a sentence each: deadlocks, tasks never woken, settings without effect.
    pub notes: Vec<String>,
    /// Each CPU's use of time.
    pub cpus: Vec<CpuTime>,
    /// The load averages at the end.
    pub loadavg: LoadAvg,
    /// Switches away from tasks of each group and its descendants, by group id. Empty unless [`Kernel::group_switches`]
    /// is on.
    pub group_switches: Vec<u64>,
    /// The snapshot. `None` if the run ended before.
    pub debug: Option<Snapshot>,
}
