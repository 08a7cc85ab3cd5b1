//! The simulated machine: runs a [`Workload`] under a scheduler of `vruntime_sched`, in virtual time, exactly
//! repeatable to the byte.
//!
//! ```
//! use vruntime_sim::{Config, MachineSpec, parse_topology};
//! use vruntime_trace::NoSink;
//! use vruntime_workload::program::Workload;
//!
//! let kernel = vruntime_sched::kernel("6.12").unwrap();
//! let machine = MachineSpec::new(parse_topology("pack:1 core:4 pu:2").unwrap());
//! let config = Config { duration: Some(1_000_000_000), ..Config::new(kernel, machine) };
//! let outcome = vruntime_sim::run(&Workload::default(), &config, &mut NoSink, &mut |_| std::ops::ControlFlow::Continue(()));
//! assert_eq!(outcome.unwrap().switches, 0);
//! ```
//!
//! What is modelled and what is not: time is spent by tasks on their work and by the kernel on switches, interrupts
//! and system calls ([`Costs`]); caches are a fixed cost of a migration; memory, disks and networks are no bottleneck;
//! frequencies change where the machine says so; the tick stops on idle CPUs and nowhere else.
#![forbid(unsafe_code)]

mod background;
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
mod program;
mod rcu;
mod rng;
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
use vruntime_sched::shared::{Callers, Config as SchedConfig, Preemption};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{Policy, PolicyKind, Shared};
use vruntime_trace::Sink;
use vruntime_workload::program::{Change, Changed, GroupChange, Workload};

pub use config::{Config, CpuTime, MachineSpec, Outcome, Preempt, Progress};
pub use costs::{Costs, Profile, UnknownCost};
pub use error::Error;
pub use topology::{ParseTopologyError, parse_topology};

use hypervisor::{Hypervisor, Parts};
use machine::Machine;

/// Runs `workload` as `config` says, sends every event to `sink`, and asks `watch` now and then whether to go on.
///
/// Stops at the duration, when every task has ended, when nothing can happen any more, or when `watch` breaks.
///
/// # Errors
///
/// When the workload cannot run on this machine or contradicts itself, before the first event; or when no time passes
/// any more.
pub fn run<S: Sink>(
    workload: &Workload,
    config: &Config,
    sink: &mut S,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome, Error> {
    history::check(workload, config)?;
    match config.kernel.policy {
        PolicyKind::O1 => run_policy::<O1, S>(workload, config, sink, watch),
        PolicyKind::Cfs2007 => run_policy::<Cfs2007, S>(workload, config, sink, watch),
        PolicyKind::Eevdf => run_policy::<Eevdf, S>(workload, config, sink, watch),
        PolicyKind::Cfs => run_policy::<Cfs, S>(workload, config, sink, watch),
    }
}

/// As [`run`], with a virtual call an event. A program that uses this has nothing to compile: every other sink type makes a machine of
/// its own for every policy.
///
/// # Errors
///
/// As [`run`].
pub fn run_dyn(
    workload: &Workload,
    config: &Config,
    mut sink: &mut dyn Sink,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome, Error> {
    run(workload, config, &mut sink, watch)
}

/// As [`run`], under a scheduling policy of your own. `config.kernel` still gives tunables, features and the balancer.
///
/// # Errors
///
/// As [`run`].
pub fn run_policy<P, S>(
    workload: &Workload,
    config: &Config,
    sink: &mut S,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome, Error>
where
    P: Policy<Tunables = Knobs>,
    S: Sink,
{
    let spec = &config.machine;
    let mut scheduler = SchedConfig::new(&config.kernel, &spec.topology, spec.hz);
    if config.preempt == Preempt::Lazy && config.kernel.is_at_least(history::LAZY) {
        scheduler.preemption = Preemption::Lazy;
    }
    scheduler.callers = Callers::One;
    scheduler.newidle_cost_ns = spec.costs.newidle_max_ns;
    scheduler.newidle_ratio = u32::try_from(spec.costs.newidle_ratio).unwrap_or(u32::MAX);
    cpusets::check(workload, spec)?;
    scheduler.isolated = spec.isolated.clone();
    scheduler.energy = energy::looked_at(spec);
    if config.seed != 0 {
        // Real-time threads of its own keep the timer of real-time bandwidth running on a machine that has been up for a
        // while: when a workload begins a period is under way.
        let period = scheduler.tunables.rt_period_ns;
        scheduler.rt_period_phase_ns = Some(rng::Rng::new(config.seed ^ 0x3c6e_f372_fe94_f82b).below(period));
    }
    let limited = |change: &Change| matches!(change.what, Changed::Group { to: GroupChange { rt: Some(_), .. }, .. });
    let limits_rt = workload.groups.iter().any(|group| group.rt.is_some()) || workload.changes.iter().any(limited);
    scheduler.rt_group_sched |= limits_rt;
    let shared = Shared::<P>::new(spec.topology.clone(), scheduler);
    // Without a known end they would keep a deadlocked run going for ever.
    let ends = config.duration.or(workload.duration).is_some();
    let whole = if ends {
        background::with_residents(workload, shared.nr_cpus(), spec, config.seed)
    } else {
        Cow::Borrowed(workload)
    };
    let (virtual_cpus, costs) = (shared.nr_cpus(), &spec.costs);
    let mut host = spec.host_cpus.map(|cpus| Parts::new(cpus, virtual_cpus, costs, config.seed)).transpose()?;
    let host = host.as_mut().map(|parts| Hypervisor::new(parts, virtual_cpus, costs).map(Box::new)).transpose()?;
    Machine::new(&whole, workload.tasks.len(), config, shared, sink, host)?.run(watch)
}
