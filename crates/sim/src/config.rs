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

/// A machine: its shape and how fast its parts are.
#[derive(Clone, Debug)]
pub struct MachineSpec {
    /// Where each CPU sits, and its capacity.
    pub topology: Topology,
    /// Scheduler ticks a second, 1..=10000 (Linux offers 100, 250, 300 and 1000).
    pub hz: u32,
    /// What the kernel itself takes.
    pub costs: Costs,
    /// Speed of a CPU whose SMT sibling is busy, in thousandths of the speed it has alone, 1..=1000. On cores of more
    /// than two threads the whole core's throughput stays that of two busy ones.
    pub smt_speed_permille: u32,
    /// How late a sleep may end so that timers can be batched (`PR_SET_TIMERSLACK`); Linux's default is 50 us. The
    /// timer fires at the end of the slack unless another timer of that CPU, the tick's too, interrupts when it is due
    /// already. Real-time and deadline tasks have no slack.
    pub timer_slack_ns: u64,
    /// Spread the CPUs' ticks over the first half of the period (`skew_tick=1`) instead of ticking all at once, which
    /// is what Linux does by default.
    pub skew_tick: bool,
    /// Frequencies that can change; `None`: every CPU always runs at its highest.
    pub frequencies: Option<Frequencies>,
    /// What CPUs take at which frequency: wakeups look at energy, as a kernel does under schedutil, unless
    /// [`frequencies`](Self::frequencies) name another governor. Where those are none CPUs run at their highest all the
    /// same.
    pub energy: Option<EnergyModel>,
    /// States an idle CPU can be in, from the shallowest to the deepest; none: leaving idleness always takes
    /// [`Costs::idle_exit_ns`].
    pub idle_states: Vec<IdleState>,
    /// How much longer CPUs take to leave idleness by how long they have been idle, in the order of that; none: always
    /// [`Costs::idle_exit_ns`].
    pub idle_depths: Vec<IdleDepth>,
    /// CPUs that are isolated from the beginning (`isolcpus=domain`): load is not balanced to or from them. Not all.
    pub isolated: CpuMask,
    /// The number of CPUs that a virtual machine's host has for it, 1 or more. `None`: as many as are needed.
    pub host_cpus: Option<u32>,
    /// Moments in which the host of a virtual machine runs something else on a CPU; `None`: there are none.
    pub stalls: Option<Stall>,
    /// Measured background tasks. None: the kernel threads that the costs describe.
    pub residents: Option<Vec<Resident>>,
}

impl MachineSpec {
    /// `topology` with Linux's defaults: 250 ticks a second, 50 us of timer slack, the costs of a modern server.
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

/// Everything about a run but the workload.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent settings
pub struct Config {
    /// The kernel.
    pub kernel: Kernel,
    /// The machine under it.
    pub machine: MachineSpec,
    /// Whether tasks of the root group are in autogroups, one for each session, as with `sched_autogroup`. An autogroup
    /// is a task group with the weight of the session's nice value.
    pub autogroup: bool,
    /// The preemption model.
    pub preempt: Preempt,
    /// The seed. With 0, every task starts exactly in time, and the first tick is one period after the start. Otherwise
    /// the seed draws starts (up to 5 us late, in addition to interrupts), and the phases of ticks and of the period of
    /// real-time bandwidth: the differences between two runs on a real machine. Delays of interrupts (see
    /// [`Costs::irq_jitter_ns`]) are drawn from every seed, including 0.
    pub seed: u64,
    /// The time of the first tick, nanoseconds after the start. None: drawn from the seed.
    pub tick_phase: Option<u64>,
    /// Whether tasks exist before the run and sleep until it begins, as in recordings: each wakes on some CPU with
    /// decayed averages. Otherwise each is forked with the averages of a new task. The CPUs are drawn from the seed;
    /// with 0 they are taken in turn.
    pub gate: bool,
    /// The most tasks alive beyond those of the workload. A fork beyond that ends the run
    /// ([`Error::ForkRefused`](crate::Error::ForkRefused)).
    pub threads_max: usize,
    /// When to stop, nanoseconds after the start; it overrides the workload's own.
    pub duration: Option<u64>,
    /// When to take a snapshot of the scheduler, nanoseconds after the start; everything that happens at that instant
    /// has happened.
    pub debug_at: Option<u64>,
    /// What the kernel would ignore is refused ([`Error::TooOld`](crate::Error::TooOld)), not only noted.
    pub strict: bool,
    /// Whether the run ends with an error if the kernel refuses what a task asks for (`sched_setattr`). Otherwise the
    /// task stays as it was, as on a real kernel, and a note reports the refusal.
    pub end_if_refused: bool,
}

/// What Linux allows a machine of 32 GiB (`kernel.threads-max`).
const THREADS_MAX: usize = 1 << 18;

impl Config {
    /// A run of `kernel` on `machine` with seed 0, until the workload ends.
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

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Simulated nanoseconds since the start.
    pub now: u64,
    /// When it will stop, nanoseconds since the start, if that is known.
    pub end: Option<u64>,
    /// Events emitted so far.
    pub events: u64,
}

/// What one CPU did with its time: nanoseconds that add up to [`Outcome::end`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Tasks' own work, nanoseconds.
    pub busy: u64,
    /// The kernel: switches, interrupts, system calls, refilled caches. Nanoseconds.
    pub overhead: u64,
    /// Nothing, nanoseconds.
    pub idle: u64,
}

/// How a run went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Simulated nanoseconds at the end.
    pub end: u64,
    /// Events emitted.
    pub events: u64,
    /// Context switches among them.
    pub switches: u64,
    /// The watcher stopped the run before its end.
    pub interrupted: bool,
    /// Notes for the user, a sentence each: deadlocks, tasks that were never woken, settings without effect.
    pub notes: Vec<String>,
    /// What each CPU did with its time.
    pub cpus: Vec<CpuTime>,
    /// The load averages at the end.
    pub loadavg: LoadAvg,
    /// How often a CPU switched away from a task of each group or of one below it, by group id; empty unless
    /// [`Kernel::group_switches`] is on.
    pub group_switches: Vec<u64>,
    /// The snapshot that was asked for; none if the run ended before.
    pub debug: Option<Snapshot>,
}
