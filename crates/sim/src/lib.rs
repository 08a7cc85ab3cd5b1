//! The simulated machine runs a [`Workload`] under a scheduler of `vruntime_sched`, in virtual time, repeatable to the
//! byte.
//!
//! Two tasks that always want to run, of nice 0 and 5, on one CPU for a second:
//!
//! ```
//! use vruntime_report::Collector;
//! use vruntime_sim::{Config, Costs, MachineSpec, parse_topology};
//! use vruntime_workload::program::{Op, Phase, Policy, Settings, Task, Workload};
//!
//! const MS: u64 = 1_000_000;
//!
//! let busy = |name: &str, nice| {
//!     let settings = Settings { policy: Some(Policy::Other { nice, slice: None }), ..Settings::default() };
//!     Task { settings, ..Task::new(name, [Phase::forever([Op::Run { work: MS }])]) }
//! };
//! let workload = Workload { tasks: vec![busy("zero", 0), busy("five", 5)], ..Workload::default() };
//! let machine = MachineSpec { costs: Costs::ZERO, ..MachineSpec::new(parse_topology("1").unwrap()) };
//! let kernel = vruntime_sched::kernel("6.12").unwrap();
//! let config = Config { duration: Some(1000 * MS), ..Config::new(kernel, machine) };
//!
//! let mut collector = Collector::new(1);
//! vruntime_sim::run(&workload, &config, &mut collector)?;
//! let results = collector.into_results();
//! // They weigh 1024 and 335: the nicer task gets 24.7 % of the CPU.
//! let shares: Vec<f64> = results.tasks.iter().map(|task| 100.0 * results.share(task.account.cpu_ns)).collect();
//! assert!((24.0..25.0).contains(&shares[1]) && shares[0] + shares[1] == 100.0, "{shares:?} %");
//! # Ok::<(), vruntime_sim::Error>(())
//! ```
//!
//! A custom [`Sink`] receives every event instead of the collector, or with it in a tuple. [`plan`] makes workload and
//! configuration from a file. [`run_policy`] runs a custom scheduling policy.
//!
//! [`Costs`] are the kernel's time. Caches are fixed costs: of migrations, switches to displaced tasks, and wakeups on
//! other CPUs. Memory, disks and networks are not modelled. Only idle CPUs stop their tick.
#![forbid(unsafe_code)]
// User input ends in an error, never in a panic. Each `allow` says why its panic cannot happen.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

mod background;
mod build;
mod cache;
mod changes;
mod config;
mod costs;
mod cpu;
mod cpusets;
mod energy;
mod error;
mod events;
mod execution;
mod exit_group;
mod forks;
pub mod frequency;
mod history;
mod host;
mod hotplug;
mod hypervisor;
pub mod idle;
mod interpreter;
mod interrupts;
mod loops;
mod machine;
mod messages;
mod mm;
mod moment;
mod notes;
mod parallel;
pub mod plan;
mod program;
mod rcu;
mod requests;
mod rng;
mod rounds;
mod settings;
mod sleepers;
pub mod stalls;
mod switch;
mod sync;
mod task;
mod timers;
pub mod topology;

use std::borrow::Cow;
use std::ops::ControlFlow;

use vruntime_sched::class::cfs_2007::Cfs2007;
use vruntime_sched::class::fair::{Cfs, Eevdf};
use vruntime_sched::class::o1::O1;
use vruntime_sched::config::{Callers, Config as SchedConfig, Preemption};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{Policy, PolicyKind, Shared};
use vruntime_trace::Sink;
use vruntime_workload::program::{Change, Changed, GroupChange, Workload};

pub use cache::Recent;
pub use config::{Config, CpuTime, MachineSpec, Outcome, Progress};
pub use costs::{Costs, Profile, SwitchCosts, UnknownCost};
pub use error::{Error, GroupError, Subject};
pub use parallel::{both, parallel};
pub use topology::{ParseTopologyError, parse_topology};
pub use vruntime_workload::scenario::Preempt;

use hypervisor::{Hypervisor, Parts};
use machine::Machine;

/// Receives a run's progress now and then. `Break` stops the run.
pub type Watch<'w> = dyn FnMut(Progress) -> ControlFlow<()> + 'w;

/// Runs `workload` with `config`, and sends every event to `sink`.
///
/// The run stops at the duration, or when every task has ended, or nothing can happen any more.
///
/// # Errors
///
/// Before the first event, if the workload cannot run on this machine or contradicts itself. Later, if time stands
/// still.
pub fn run<S: Sink>(workload: &Workload, config: &Config, sink: &mut S) -> Result<Outcome, Error> {
    run_watched(workload, config, sink, &mut |_| ControlFlow::Continue(()))
}

/// As [`run`], and calls `watch` now and then, which can stop the run.
///
/// # Errors
///
/// As [`run`].
pub fn run_watched<S: Sink>(
    workload: &Workload,
    config: &Config,
    sink: &mut S,
    watch: &mut Watch<'_>,
) -> Result<Outcome, Error> {
    history::check(workload, config)?;
    match config.kernel.policy {
        PolicyKind::O1 => simulate::<O1, S>(workload, config, sink, watch, Author::Us),
        PolicyKind::Cfs2007 => simulate::<Cfs2007, S>(workload, config, sink, watch, Author::Us),
        PolicyKind::Eevdf => simulate::<Eevdf, S>(workload, config, sink, watch, Author::Us),
        PolicyKind::Cfs => simulate::<Cfs, S>(workload, config, sink, watch, Author::Us),
    }
}

/// As [`run_watched`], with a virtual call for each event. It is compiled once, not once for each type of sink.
///
/// # Errors
///
/// As [`run`].
pub fn run_dyn(
    workload: &Workload,
    config: &Config,
    mut sink: &mut dyn Sink,
    watch: &mut Watch<'_>,
) -> Result<Outcome, Error> {
    run_watched(workload, config, &mut sink, watch)
}

/// As [`run`], under your own scheduling policy. Tunables, features and the balancer are still `config.kernel`'s.
///
/// First come, first served, on one CPU; `examples/round_robin.rs` has slices, too:
///
/// ```
/// use std::collections::VecDeque;
/// use vruntime_report::Collector;
/// use vruntime_sched::ids::CpuId;
/// use vruntime_sched::policy::{Dequeue, Enqueue, Plain, Wake};
/// use vruntime_sched::tunables::Knobs;
/// use vruntime_sched::{Policy, Rq, Shared, TaskAttrs, kernel};
/// use vruntime_sim::{Config, Costs, MachineSpec, parse_topology, run_policy};
/// use vruntime_workload::program::{Op, Phase, Task, Workload};
///
/// /// The running task keeps the CPU until it sleeps or yields.
/// #[derive(Debug)]
/// struct Fcfs;
///
/// impl Policy for Fcfs {
///     type Tunables = Knobs;
///     /// The queued tasks; the front one runs.
///     type Rq = VecDeque<u32>;
///     type Task = ();
///     type Balance = Plain;
///     type Changes = Plain;
///     type Limits = Plain;
///     type Debugging = Plain;
///
///     fn new_rq(_shared: &Shared<Self>, _cpu: CpuId) -> VecDeque<u32> {
///         VecDeque::new()
///     }
///     fn new_task(_shared: &Shared<Self>, _attrs: &TaskAttrs) {}
///     fn enqueue(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, _why: Enqueue) {
///         rq.class.push_back(task);
///     }
///     fn dequeue(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, _why: Dequeue) -> bool {
///         rq.class.retain(|&other| other != task);
///         true
///     }
///     fn pick(rq: &mut Rq<Self>, _shared: &Shared<Self>) -> Option<u32> {
///         rq.class.front().copied()
///     }
///     fn switch(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _prev: Option<u32>, _next: Option<u32>) {}
///     fn tick(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {}
///     fn wakeup_preempt(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32, _wake: Wake) {}
///     fn yield_task(rq: &mut Rq<Self>, _shared: &Shared<Self>) {
///         let first = rq.class.pop_front();
///         rq.class.extend(first);
///     }
/// }
///
/// const MS: u64 = 1_000_000;
/// let task = |name: &str| Task::new(name, [Phase::times(1, [Op::Run { work: 50 * MS }])]);
/// let workload = Workload { tasks: ["a", "b", "c"].map(task).to_vec(), ..Workload::default() };
/// let machine = MachineSpec { costs: Costs::ZERO, ..MachineSpec::new(parse_topology("1").unwrap()) };
/// let config = Config::new(kernel("6.12").unwrap(), machine);
///
/// let mut collector = Collector::new(1);
/// run_policy::<Fcfs, _>(&workload, &config, &mut collector)?;
/// let waited: Vec<u64> = collector.into_results().tasks.iter().map(|task| task.account.run_delay_ns).collect();
/// assert_eq!(waited, [0, 50 * MS, 100 * MS]);
/// # Ok::<(), vruntime_sim::Error>(())
/// ```
///
/// # Errors
///
/// As [`run`]. [`Error::Policy`] if the policy picks a task that is not runnable, or none though one is. Also if it has
/// lost a task by the run's end.
pub fn run_policy<P, S>(workload: &Workload, config: &Config, sink: &mut S) -> Result<Outcome, Error>
where
    P: Policy<Tunables = Knobs>,
    S: Sink,
{
    run_policy_watched::<P, S>(workload, config, sink, &mut |_| ControlFlow::Continue(()))
}

/// As [`run_policy`], and calls `watch` as [`run_watched`] does.
///
/// # Errors
///
/// As [`run_policy`].
pub fn run_policy_watched<P, S>(
    workload: &Workload,
    config: &Config,
    sink: &mut S,
    watch: &mut Watch<'_>,
) -> Result<Outcome, Error>
where
    P: Policy<Tunables = Knobs>,
    S: Sink,
{
    simulate::<P, S>(workload, config, sink, watch, Author::User)
}

/// The author of a policy. A user's policy is checked again after the run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Author {
    Us,
    User,
}

fn simulate<P, S>(
    workload: &Workload,
    config: &Config,
    sink: &mut S,
    watch: &mut Watch<'_>,
    author: Author,
) -> Result<Outcome, Error>
where
    P: Policy<Tunables = Knobs>,
    S: Sink,
{
    let spec = &config.machine;
    let mut scheduler = SchedConfig::new(&config.kernel, &spec.topology, spec.hz);
    if config.effective_preempt() == Preempt::Lazy {
        scheduler.preemption = Preemption::Lazy;
    }
    scheduler.callers = Callers::One;
    scheduler.newidle_cost_ns = spec.costs.newidle_max_ns;
    scheduler.newidle_ratio = u32::try_from(spec.costs.newidle_ratio).unwrap_or(u32::MAX);
    cpusets::check(workload, spec)?;
    scheduler.isolated = spec.isolated.clone();
    scheduler.energy = energy::model_of_wakeups(spec);
    if config.seed != 0 {
        // The machine's own real-time threads keep the timer of real-time bandwidth running: a workload begins within a
        // period.
        let period = scheduler.tunables.rt_period_ns;
        scheduler.rt_period_phase_ns = Some(rng::Rng::new(config.seed ^ 0x3c6e_f372_fe94_f82b).below(period));
        // Periods of limits start with the machine or the group, not with the workload.
        scheduler.cfs_period_phase_ns = Some(rng::Rng::new(config.seed ^ 0xa54f_f53a_5f1d_36f1).below(1 << 40));
    }
    let limited = |change: &Change| matches!(change.what, Changed::Group { to: GroupChange { rt: Some(_), .. }, .. });
    let limits_rt = workload.groups.iter().any(|group| group.rt.is_some()) || workload.changes.iter().any(limited);
    scheduler.rt_group_sched |= limits_rt;
    let shared = Shared::<P>::new(spec.topology.clone(), scheduler);
    // Without a known end, residents would keep a deadlocked run alive for ever.
    let ends = config.duration.or(workload.duration).is_some();
    let whole = if ends {
        background::with_residents(workload, shared.nr_cpus(), spec, config.seed)
    } else {
        Cow::Borrowed(workload)
    };
    let (virtual_cpus, costs) = (shared.nr_cpus(), &spec.costs);
    let mut host = spec.host_cpus.map(|cpus| Parts::new(cpus, virtual_cpus, costs, config.seed)).transpose()?;
    let host = host.as_mut().map(|parts| Hypervisor::new(parts, virtual_cpus, costs).map(Box::new)).transpose()?;
    let mut machine = Machine::new(&whole, workload.tasks.len(), config, shared, sink, host)?;
    let outcome = machine.run(watch)?;
    if author == Author::User {
        machine.check_queues()?;
    }
    Ok(outcome)
}
