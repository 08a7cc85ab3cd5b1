//! Replays of a recording: as it was, and under other conditions.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_report::{Collector, ReplayCheck, Results};
use vruntime_sched::class::deadline::SchedError;
use vruntime_sched::kernels::Behaviour;
use vruntime_sim::plan::{self, Input, Overrides, Plan, Trace};
use vruntime_sim::{Config, Outcome, parallel};
use vruntime_workload::program::{Partition, Workload};

use crate::Error;
use crate::check::{Ran, compare};
use crate::guess::{self, Choice, Guess, Nearest};
use crate::recorded::rules::Rules;
use crate::recorded::{self, Closed, Reads, Recorded, Thread, Unfit};
use crate::recording::{How, Recording, Substitute, prepare, programs};
use crate::source::Source;
use crate::tally::{Tally, TaskTotals};

/// Settings of a replay as recorded.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The recorded kernel: vruntime's, or a release (`uname -r`). None: the trace's, or the nearest one. 6.18 if the
    /// trace has none.
    pub kernel: Option<String>,
    /// Other knowledge of machine and kernel, costs, and the seed. Kernel, features and settings are ignored: they
    /// belong to a [what-if](Replay::what_if).
    pub overrides: Overrides,
    /// Whether wakeups keep their recorded times, whatever caused them.
    pub keep_times: bool,
}

/// Runs workloads by their plans, each with a [`Tally`]. Several threads may call it at once. Returns the tasks' totals
/// in order, None where the machine rejects a workload.
pub type Runner<'a> = dyn Fn(&[(&Workload, &Plan)]) -> Vec<Option<Vec<TaskTotals>>> + Sync + 'a;

/// A trace as programs, and the plan of its replay as recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replay<'a> {
    /// The programs, and measurements of each recorded thread.
    pub recorded: Recorded,
    /// Kernel and machine, with the costs of switches if these are [charged](Choice::charged).
    pub plan: Plan,
    /// Kernel and machine of what-ifs' choices, without those costs.
    pure: Plan,
    /// The replacement of a kernel that vruntime lacks.
    pub substitute: Option<Substitute>,
    /// Set if autogroup was unknown, and the replay has it.
    pub guess: Option<Guess>,
    /// Decisions by the nearest replay.
    pub choice: Choice,
    /// Omitted parts of the programs.
    pub unfit: LeftOut,
    trace: Trace,
    setup: Setup,
    recording: &'a Recording,
}

/// Programs under other rules, and the plan of their run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WhatIf {
    /// The programs.
    pub workload: Workload,
    /// Kernel and machine.
    pub plan: Plan,
    /// Number of recorded tasks and copies, which are first.
    pub of_recording: usize,
    /// Omitted parts of the programs.
    pub unfit: LeftOut,
    /// Decisions by the nearest continuing replay.
    pub choice: Choice,
}

/// Parts that kernel or machine lack, and were omitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Groups with clamps that the kernel lacks.
    pub clamps: usize,
    /// Groups with partitions that the kernel lacks.
    pub partitions: usize,
    /// Uses of CPUs that the machine lacks.
    pub unfit: Unfit,
}

/// A run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run {
    /// Results of each task, group and CPU.
    pub results: Results,
    /// The outcome.
    pub outcome: Outcome,
}

impl Run {
    /// Returns the input of [`Replay::compare`].
    pub fn ran(&self) -> Ran<'_> {
        Ran { results: &self.results, end: self.outcome.end }
    }
}

impl<'a> Replay<'a> {
    /// Makes the programs of a recording.
    ///
    /// Replays twice if autogroup is unknown and matters.
    ///
    /// # Errors
    /// If a kernel or cost does not exist, or no task ran in the trace.
    pub fn new(recording: &'a Recording, setup: &Setup) -> Result<Self, Error> {
        Self::with_runner(recording, setup, &run_all)
    }

    /// As [`Replay::new`], with the caller's way to run workloads.
    ///
    /// # Errors
    /// As [`Replay::new`].
    pub fn with_runner(recording: &'a Recording, setup: &Setup, run: &Runner<'_>) -> Result<Self, Error> {
        let mut setup = setup.clone();
        // A what-if's changes are not part of the recording.
        setup.overrides = Overrides { kernel: None, features: Vec::new(), settings: Vec::new(), ..setup.overrides };
        let (mut trace, substitute) = recording.says(setup.kernel.as_deref());
        let plan = plan_of(&trace, &setup.overrides)?;
        let reads = if setup.keep_times { Reads::Times } else { Reads::Wakeups };
        let whole = prepare(recording.source.recorder.clone(), &plan.config, reads);
        let guess = guess::autogroup(&mut trace, (recording, &whole), &setup.overrides, run)?;
        let pure = plan_of(&trace, &setup.overrides)?;
        let (whole, nearest) = guess::nearest(&recording.source, Some(whole), (&pure, reads), How::default(), run);
        let (plan, whole, nearest) = match plan_of_charged(recording, (&trace, &setup))? {
            Some((source, plan)) => match guess::charged(source, &plan, nearest, run) {
                (Some(whole), nearest) => (plan, whole, nearest),
                (None, nearest) => (pure.clone(), whole, nearest),
            },
            None => (pure.clone(), whole, nearest),
        };
        let Nearest { how, choice, programs: made, .. } = nearest;
        let mut recorded = made.unwrap_or_else(|| programs(&whole, &plan.config, how));
        drop(whole);
        if recorded.workload.tasks.is_empty() {
            let message = format!("nothing but the idle tasks ran in {}", recording.name());
            return Err(Error::new(message).with_help("record while something runs"));
        }
        let unfit = fit(&mut recorded.workload, &plan.config);
        Ok(Self { recorded, plan, pure, substitute, guess, choice, unfit, trace, setup, recording })
    }

    /// Returns the recording.
    pub fn recording(&self) -> &'a Recording {
        self.recording
    }

    /// Makes the programs of a what-if without the threads `without`. Closed loops continue. The programs are not yet
    /// fit to a machine, since a what-if may have more CPUs.
    ///
    /// `closed` overrides which threads are in a closed loop.
    pub fn going_on(&self, without: BTreeSet<usize>, closed: BTreeMap<usize, Closed>) -> (Recorded, Choice) {
        self.going_on_under(&self.plan.config, without, closed)
    }

    /// As [`Replay::going_on`]. `config` decides whether sessions are autogroups.
    fn going_on_under(
        &self,
        config: &Config,
        without: BTreeSet<usize>,
        closed: BTreeMap<usize, Closed>,
    ) -> (Recorded, Choice) {
        let how = How { goes_on: true, ..How::default() };
        let (plan, reads) = (&self.pure, if self.setup.keep_times { Reads::Times } else { Reads::Wakeups });
        let (whole, nearest) = guess::nearest(&self.recording.source, None, (plan, reads), how, &run_all);
        let Nearest { how, reads, choice, programs: made, .. } = nearest;
        let made = made.filter(|_| config.autogroup == plan.config.autogroup);
        let config = Config { autogroup: config.autogroup, ..plan.config.clone() };
        if without.is_empty() && closed.is_empty() {
            return (made.unwrap_or_else(|| programs(&whole, &config, how)), choice);
        }
        let recorder = self.recording.source.recorder.clone().without_connections(whole.without_connections().clone());
        drop(whole);
        let recorder = recorder.without(without).with_closed(closed);
        (programs(&prepare(recorder, &config, reads), &config, how), choice)
    }

    /// Returns the trace's input of a [plan](vruntime_sim::plan::plan).
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Plans a run of the programs. `overrides` take precedence over the [setup](Setup::overrides).
    ///
    /// # Errors
    /// If a kernel, feature, tunable or cost does not exist.
    pub fn plan(&self, overrides: &Overrides) -> Result<Plan, Error> {
        let (as_recorded, what_if) = (&self.setup.overrides, overrides.clone());
        let overrides = Overrides {
            machine: what_if.machine.or_else(|| as_recorded.machine.clone()),
            hz: what_if.hz.or(as_recorded.hz),
            preempt: what_if.preempt.or(as_recorded.preempt),
            seed: what_if.seed.or(as_recorded.seed),
            costs: what_if.costs.or_else(|| as_recorded.costs.clone()),
            gate: what_if.gate.or(as_recorded.gate),
            autogroup: what_if.autogroup.or(as_recorded.autogroup),
            threads_max: what_if.threads_max.or(as_recorded.threads_max),
            ..what_if
        };
        plan_of(&self.trace, &overrides)
    }

    /// Makes programs for kernel and machine of `plan`, and applies `rules`. The workloads `beside` run, too.
    ///
    /// # Errors
    /// If a rule fits no task or requests something impossible.
    pub fn what_if(&self, plan: Plan, rules: &Rules, beside: &[&Workload]) -> Result<WhatIf, Error> {
        let removed = rules.removed(&self.recorded.threads);
        let closed = rules.closed(&self.recorded.threads);
        let (mut changed, choice) = self.going_on_under(&plan.config, removed, closed);
        let unfit = fit(&mut changed.workload, &plan.config);
        rules.apply(&mut changed, &self.recorded.threads, plan.config.machine.topology.nr_cpus())?;
        let mut workload = changed.workload;
        let of_recording = workload.tasks.len();
        for neighbour in beside {
            workload = workload.beside(neighbour);
        }
        Ok(WhatIf { workload, plan, of_recording, unfit, choice })
    }

    /// Runs the replay as recorded.
    ///
    /// # Errors
    /// If the machine rejects the programs.
    pub fn run(&self) -> Result<Run, Error> {
        run(&self.recorded.workload, &self.plan.config).map_err(|error| Error::refused(error, None))
    }

    /// Runs a what-if. `rules` are its rules, which errors name.
    ///
    /// # Errors
    /// If the machine rejects the programs.
    pub fn run_what_if(&self, what_if: &WhatIf, rules: &Rules) -> Result<Run, Error> {
        let ran = run(&what_if.workload, &what_if.plan.config);
        ran.map_err(|error| {
            let rule = self.refused(&error, Some(&what_if.workload), rules);
            Error::refused(error, rule)
        })
    }

    /// Compares the recording with its replay and a what-if.
    pub fn compare(&self, replayed: Ran<'_>, what_if: Option<(&WhatIf, Ran<'_>)>) -> ReplayCheck {
        let runs: Vec<Ran<'_>> = std::iter::once(replayed).chain(what_if.map(|(_, ran)| ran)).collect();
        compare(&self.recorded, what_if.map(|(what_if, _)| &what_if.workload), &runs, self.recording.cpus())
    }

    /// Returns why the machine rejects a task, at the rule for its policy. None without such a rule. `what_if`: the
    /// rejected workload.
    pub fn refused(
        &self,
        error: &vruntime_sim::Error,
        what_if: Option<&Workload>,
        rules: &Rules,
    ) -> Option<vruntime_workload::Error> {
        refused(&self.recorded, error, what_if, rules)
    }
}

/// As [`Replay::refused`], for the programs of a replay.
pub fn refused(
    recorded: &Recorded,
    error: &vruntime_sim::Error,
    what_if: Option<&Workload>,
    rules: &Rules,
) -> Option<vruntime_workload::Error> {
    let vruntime_sim::Error::Refused { task, errno, error, .. } = error else { return None };
    // A copy is rejected as its original, which precedes it.
    let is_named = |thread: &&Thread| thread.task.is_some_and(|index| recorded.workload.tasks[index].name == *task);
    let thread = recorded.threads.iter().position(|thread| is_named(&thread))?;
    // The rule decides when the task requests it.
    let refusal = vruntime_sim::Error::Refused { task: task.clone(), now: 0, errno, error: error.clone() };
    let mut changed = what_if.into_iter().flat_map(|workload| &workload.tasks);
    let now = changed.find(|changed| changed.name == *task);
    // From the start, or from a wait beside an idle CPU.
    let confined = now.is_some_and(|task| {
        task.settings.cpus.is_some() || task.phases.iter().any(|phase| phase.settings.cpus.is_some())
    });
    let help = match error {
        SchedError::Affinity { .. } if confined => {
            "add cpus=all to the rule, which lifts the affinity that the task has in the recording, or switch admission off \
             (sched_rt_runtime_us above sched_rt_period_us)"
                .to_owned()
        }
        _ => refusal.help().unwrap_or_else(|| "choose others, or another policy".to_owned()),
    };
    rules.wrong_policy(&recorded.threads, thread, &refusal.to_string(), &help)
}

/// Returns the recording with [charged](Choice::charged) switches, and the plan of its replays. None: their costs are
/// not known, or wakeups keep their recorded times.
fn plan_of_charged<'a>(
    recording: &'a Recording,
    (trace, setup): (&Trace, &Setup),
) -> Result<Option<(&'a Source, Plan)>, Error> {
    let Some(source) = recording.charging.as_ref().filter(|_| !setup.keep_times) else { return Ok(None) };
    let trace = Trace { switch_costs: source.recorder.costs_while_recording(), ..trace.clone() };
    Ok(Some((source, plan_of(&trace, &setup.overrides)?)))
}

fn plan_of(trace: &Trace, overrides: &Overrides) -> Result<Plan, Error> {
    Ok(plan::plan(Input::Trace(trace), overrides, &mut |_| Err(std::io::ErrorKind::NotFound.into()))?)
}

/// Runs workloads with at most one thread per CPU.
pub(crate) fn run_all(jobs: &[(&Workload, &Plan)]) -> Vec<Option<Vec<TaskTotals>>> {
    parallel(jobs, |_, (workload, plan)| {
        let (mut tally, mut go_on) = (Tally::default(), |_| std::ops::ControlFlow::Continue(()));
        vruntime_sim::run_dyn(workload, &plan.config, &mut tally, &mut go_on).ok()?;
        Some(tally.into_tasks())
    })
}

fn run(workload: &Workload, config: &Config) -> Result<Run, vruntime_sim::Error> {
    let mut collector = Collector::new(config.machine.topology.nr_cpus());
    let mut go_on = |_| std::ops::ControlFlow::Continue(());
    let outcome = vruntime_sim::run_dyn(workload, config, &mut collector, &mut go_on)?;
    Ok(Run { results: collector.into_results(), outcome })
}

/// Fits a workload to kernel and machine. Omits group settings that the kernel lacks and the caller did not request.
pub fn fit(workload: &mut Workload, config: &Config) -> LeftOut {
    let (kernel, cpus) = (&config.kernel, config.machine.topology.nr_cpus());
    let (mut clamps, mut partitions) = (0, 0);
    for group in &mut workload.groups {
        if !kernel.behaviours.has(Behaviour::UtilClamps) {
            clamps += usize::from(group.uclamp.take().is_some());
        }
        if !kernel.behaviours.has(Behaviour::CpusetPartitions) {
            partitions += usize::from(std::mem::take(&mut group.cpuset.partition) != Partition::default());
        }
    }
    LeftOut { clamps, partitions, unfit: recorded::fit(workload, cpus as u32) }
}
