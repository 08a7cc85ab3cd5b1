//! The configuration of a run, and its outcome.

use vruntime_sched::debug::Snapshot;
use vruntime_sched::energy::EnergyModel;
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
    /// The CPUs' topology and capacities.
    pub topology: Topology,
    /// Ticks per second, 1..=10000 (Linux offers 100, 250, 300 and 1000).
    pub hz: u32,
    /// The kernel's costs.
    pub costs: Costs,
    /// Speed of a CPU while its SMT sibling is busy, 1..=1000, in thousandths of its speed alone. Cores of more than
    /// two threads keep the throughput of two busy ones.
    pub smt_speed_permille: u32,
    /// How late a sleep may end, nanoseconds (`PR_SET_TIMERSLACK`). The timer fires at the end of the slack, or with
    /// an earlier interrupt of another timer or tick of that CPU. Real-time and deadline tasks have no slack.
    pub timer_slack_ns: u64,
    /// Whether the CPUs' ticks are spread over the first half of the period (`skew_tick=1`); by default all tick at
    /// once.
    pub skew_tick: bool,
    /// Changeable frequencies; `None`: CPUs always run at their highest.
    pub frequencies: Option<Frequencies>,
    /// The energy model, used at wakeups as under schedutil, unless [`frequencies`](Self::frequencies) name another
    /// governor. Without frequencies, CPUs still run at their highest.
    pub energy: Option<EnergyModel>,
    /// Idle states, from the shallowest to the deepest; empty: leaving idleness always takes [`Costs::idle_exit_ns`].
    pub idle_states: Vec<IdleState>,
    /// Additional wakeup latencies, in order of the idle time; empty: always [`Costs::idle_exit_ns`].
    pub idle_depths: Vec<IdleDepth>,
    /// CPUs isolated from the start (`isolcpus=domain`), which the balancer ignores. Not all.
    pub isolated: CpuMask,
    /// The number of host CPUs of a virtual machine, at least 1. `None`: as many as it needs.
    pub host_cpus: Option<u32>,
    /// Moments in which the host runs something else on a CPU.
    pub stalls: Option<Stall>,
    /// Measured background tasks. `None`: the kernel threads that the costs describe.
    pub residents: Option<Vec<Resident>>,
}

impl MachineSpec {
    /// Returns a machine with Linux's defaults: 250 ticks a second, 50 us of timer slack, [`Costs::BARE_METAL`].
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
    /// Whether tasks of the root group are in autogroups, one per session, as with `sched_autogroup`. An autogroup
    /// has the weight of the session's nice value.
    pub autogroup: bool,
    /// The preemption model.
    pub preempt: Preempt,
    /// Draws the starts (up to 5 us late, in addition to interrupts), and the phases of ticks and of the period of
    /// real-time bandwidth. With 0, tasks start in time, and the first tick is one period after the start. Every
    /// seed, including 0, draws the delays of interrupts ([`Costs::irq_jitter_ns`]).
    pub seed: u64,
    /// Time of the first tick, nanoseconds after the start. `None`: drawn from the seed.
    pub tick_phase: Option<u64>,
    /// Whether tasks exist before the run and sleep until it begins, as in recordings. They have decayed averages, and
    /// CPUs that the seed draws (in turn with 0). Otherwise each is forked as a new task.
    pub gate: bool,
    /// The most tasks alive beyond those of the workload. The next fork ends the run
    /// ([`Error::ForkRefused`](crate::Error::ForkRefused)).
    pub threads_max: usize,
    /// The end, nanoseconds after the start; precedes the workload's own.
    pub duration: Option<u64>,
    /// Time of a snapshot of the scheduler, nanoseconds after the start, taken after all events of that instant.
    pub debug_at: Option<u64>,
    /// Whether settings that the kernel would ignore are errors ([`Error::TooOld`](crate::Error::TooOld)) instead of
    /// notes.
    pub strict: bool,
    /// Whether a refused request (`sched_setattr`) ends the run with an error. Otherwise the task stays as it was,
    /// and a note reports the refusal.
    pub end_if_refused: bool,
}

/// Linux's limit on a machine of 32 GiB (`kernel.threads-max`).
const THREADS_MAX: usize = 1 << 18;

impl Config {
    /// Returns a run with seed 0 that lasts until the workload ends.
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

/// A CPU's use of time, nanoseconds that add up to [`Outcome::end`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// The tasks' work.
    pub busy: u64,
    /// The kernel: switches, interrupts, system calls, refilled caches.
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
    /// Notes for the user, one sentence each: deadlocks, tasks never woken, settings without effect.
    pub notes: Vec<String>,
    /// Each CPU's use of time.
    pub cpus: Vec<CpuTime>,
    /// The load averages at the end.
    pub loadavg: LoadAvg,
    /// How often a CPU switched away from a task of each group or its descendants, by group id; empty unless
    /// [`Kernel::group_switches`] is on.
    pub group_switches: Vec<u64>,
    /// The snapshot; `None` if the run ended before.
    pub debug: Option<Snapshot>,
}
