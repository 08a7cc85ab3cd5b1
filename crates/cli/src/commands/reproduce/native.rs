//! Measures the scheduler's own code, without a simulated machine.
//!
//! A simulation of a benchmark on one CPU records the scheduler's calls (`script`). After a check that decisions are
//! equal, a player repeats them at the same virtual times (`player`). Sides take turns on one CPU of this machine
//! (`measure`). valgrind counts their instructions (`instructions`).

pub(super) mod instructions;
pub(super) mod measure;
mod player;
mod script;
pub(super) mod subject;

use vruntime_sched::class::cfs_2007::{Cfs2007, Tunables2007};
use vruntime_sched::class::deadline::DlTunables;
use vruntime_sched::class::fair::{Cfs, Eevdf};
use vruntime_sched::class::o1::{CpuRcTunables, O1};
use vruntime_sched::tunables::{Knobs, Tunables};
use vruntime_sched::uclamp::UclampTunables;
use vruntime_sched::{Kernel, Policy, PolicyKind};
use vruntime_workload::program::Workload;

use self::player::Player;
pub(super) use self::script::Script;

/// Compiled-in tunables of one CPU at HZ=250: those of 6.12, and the constants of the first CFS.
#[derive(Clone, Copy, Debug)]
struct Constant;

impl Tunables for Constant {
    #[inline]
    fn base_slice_ns(&self) -> u64 {
        700_000
    }
    #[inline]
    fn latency_ns(&self) -> u64 {
        6_000_000
    }
    #[inline]
    fn wakeup_granularity_ns(&self) -> u64 {
        1_000_000
    }
    #[inline]
    fn tick_ns(&self) -> u64 {
        4_000_000
    }
}

/// Tunables as knobs. The compiler inlines less of a type that the simulator uses, too, so only players use this one.
#[derive(Clone, Debug)]
struct Turnable(Knobs);

impl Tunables for Turnable {
    #[inline]
    fn base_slice_ns(&self) -> u64 {
        self.0.base_slice_ns
    }
    #[inline]
    fn latency_ns(&self) -> u64 {
        self.0.latency_ns
    }
    #[inline]
    fn wakeup_granularity_ns(&self) -> u64 {
        self.0.wakeup_granularity_ns
    }
    #[inline]
    fn idle_min_granularity_ns(&self) -> u64 {
        self.0.idle_min_granularity_ns
    }
    #[inline]
    fn migration_cost_ns(&self) -> u64 {
        self.0.migration_cost_ns
    }
    #[inline]
    fn nr_migrate(&self) -> u32 {
        self.0.nr_migrate
    }
    #[inline]
    fn tick_ns(&self) -> u64 {
        self.0.tick_ns
    }
    #[inline]
    fn rr_timeslice_ns(&self) -> u64 {
        self.0.rr_timeslice_ns
    }
    #[inline]
    fn rt_period_ns(&self) -> u64 {
        self.0.rt_period_ns
    }
    #[inline]
    fn rt_runtime_ns(&self) -> u64 {
        self.0.rt_runtime_ns
    }
    #[inline]
    fn deadline(&self) -> DlTunables {
        self.0.deadline
    }
    #[inline]
    fn cfs_bandwidth_slice_ns(&self) -> u64 {
        self.0.cfs_bandwidth_slice_ns
    }
    #[inline]
    fn cfs_2007(&self) -> Tunables2007 {
        self.0.cfs_2007
    }
    #[inline]
    fn uclamp(&self) -> UclampTunables {
        self.0.uclamp
    }
    #[inline]
    fn cpu_rc(&self) -> CpuRcTunables {
        self.0.cpu_rc
    }
}

/// Gives a kernel's knobs the values of [`Constant`]. Only the runtime limit of 2.6.23 differs.
pub(super) fn at_constants(mut kernel: Kernel) -> Kernel {
    if kernel.policy == PolicyKind::Cfs2007 {
        let set = kernel.set("sched_runtime_limit_ns", Tunables2007::CONSTANT.runtime_limit_ns);
        debug_assert!(set.is_ok(), "the table has it");
    }
    kernel
}

/// A side of a comparison: a scheduler that plays a script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side<'a> {
    pub(super) script: &'a Script,
    /// Whether tunables are constants.
    pub(super) constant: bool,
    /// Whether it counts switches by group.
    pub(super) counts: bool,
}

impl<'a> Side<'a> {
    /// Returns a player of the first `calls` calls.
    fn ready(self, calls: usize) -> Box<dyn FnOnce() + 'a> {
        match (self.script.kernel.policy, self.constant) {
            (PolicyKind::O1, _) => self.with::<O1>(self.knobs(), calls),
            (PolicyKind::Cfs2007, false) => self.with::<Cfs2007<Turnable>>(Turnable(self.knobs()), calls),
            (PolicyKind::Cfs2007, true) => self.with::<Cfs2007<Constant>>(Constant, calls),
            (PolicyKind::Cfs, _) => self.with::<Cfs>(self.knobs(), calls),
            (PolicyKind::Eevdf, false) => self.with::<Eevdf<Turnable>>(Turnable(self.knobs()), calls),
            (PolicyKind::Eevdf, true) => self.with::<Eevdf<Constant>>(Constant, calls),
        }
    }

    fn with<P: Policy>(self, tunables: P::Tunables, calls: usize) -> Box<dyn FnOnce() + 'a> {
        let mut player = Player::<P>::new(self.script, tunables, self.counts);
        let steps = &self.script.steps[..calls.min(self.script.steps.len())];
        Box::new(move || player.play(steps))
    }

    fn knobs(self) -> Knobs {
        self.script.kernel.tunables(1, self.script.hz)
    }
}

/// Returns a benchmark's checked script, with at most `most` calls.
pub(super) fn script(workload: &Workload, config: &vruntime_sim::Config, most: usize) -> miette::Result<Script> {
    let script = Script::record(workload, config, most)?;
    let knobs = script.kernel.tunables(1, script.hz);
    let rehearsed = match script.kernel.policy {
        PolicyKind::O1 => Player::<O1>::new(&script, knobs, false).rehearse(&script),
        PolicyKind::Cfs2007 => Player::<Cfs2007<Turnable>>::new(&script, Turnable(knobs), false).rehearse(&script),
        PolicyKind::Cfs => Player::<Cfs>::new(&script, knobs, false).rehearse(&script),
        PolicyKind::Eevdf => Player::<Eevdf<Turnable>>::new(&script, Turnable(knobs), false).rehearse(&script),
    };
    rehearsed.map_err(|step| {
        miette::miette!(
            help = "this is a fault of vruntime, not of yours: please report it",
            "the recorded run under {} cannot be played: at call {step} of {} another task runs",
            script.kernel.name,
            script.steps.len()
        )
    })?;
    Ok(script)
}
