//! A recording, replayed as it was, and what if something were different.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_report::{Collector, ReplayCheck, Results};
use vruntime_sched::class::deadline::SchedError;
use vruntime_sim::plan::{self, Input, Overrides, Plan, Trace};
use vruntime_sim::{Config, Outcome};
use vruntime_workload::program::{Partition, Workload};

use crate::Error;
use crate::check::{Ran, compare};
use crate::guess::{self, Choice, Guess};
use crate::recorded::rules::Rules;
use crate::recorded::{self, Closed, Recorded, Thread, Unfit};
use crate::recording::{How, Recording, Substitute, finish};

/// How a trace is replayed as recorded.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The kernel that it was recorded under: one that vruntime has, or a release (`uname -r`). None: what the trace
    /// says, or the nearest kernel that vruntime has; 6.18 if the trace says nothing.
    pub kernel: Option<String>,
    /// What else is known of the machine and its kernel; costs, and the seed. Its kernel, features and settings are not
    /// used: they are of a [what-if](Replay::what_if).
    pub overrides: Overrides,
    /// Whether every wakeup keeps the time that it had in the trace, whatever caused it.
    pub keep_times: bool,
}

/// Runs workloads, each as its plan says, and returns the results in their order; none where the machine refuses one.
pub type Runner<'a> = dyn Fn(&[(&Workload, &Plan)]) -> Vec<Option<Results>> + 'a;

/// A trace as programs, and the plan of its replay as recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replay<'a> {
    /// The programs, and what was measured of each thread in the trace.
    pub recorded: Recorded,
    /// The kernel and the machine of the replay.
    pub plan: Plan,
    /// Set if vruntime does not have the kernel of the trace.
    pub substitute: Option<Substitute>,
    /// Set if nothing says whether autogroup was on, and the replay takes it to have been.
    pub guess: Option<Guess>,
    /// The choices that the trace leaves open, from the nearest replay.
    pub choice: Choice,
    /// What of the programs is left out because the machine or the kernel does not have it.
    pub unfit: LeftOut,
    trace: Trace,
    setup: Setup,
    recording: &'a Recording,
}

/// A what-if: the programs of a trace under other rules, and the plan of their run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WhatIf {
    /// The programs.
    pub workload: Workload,
    /// The kernel and the machine.
    pub plan: Plan,
    /// How many of the tasks, the first, are those of the trace, and copies of them. The others run beside them.
    pub of_recording: usize,
    /// What of the programs is left out because the machine or the kernel does not have it.
    pub unfit: LeftOut,
    /// The choices that the trace leaves open, from the nearest continuing replay.
    pub choice: Choice,
}

/// What was left out of the programs of a trace, to fit them to a kernel and a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Groups whose utilisation clamps the kernel does not have.
    pub clamps: usize,
    /// Groups whose partitions the kernel does not have.
    pub partitions: usize,
    /// What names CPUs that the machine does not have.
    pub unfit: Unfit,
}

/// A run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run {
    /// What each task, group and CPU got.
    pub results: Results,
    /// How it went.
    pub outcome: Outcome,
}

impl Run {
    /// Returns what [`Replay::compare`] sets beside the recording.
    pub fn ran(&self) -> Ran<'_> {
        Ran { results: &self.results, end: self.outcome.end }
    }
}

impl<'a> Replay<'a> {
    /// Makes the programs of a recording.
    ///
    /// Runs the replay twice if nothing says whether autogroup was on and it would make a difference.
    ///
    /// # Errors
    /// There is no such kernel or cost, or no task ran in the trace.
    pub fn new(recording: &'a Recording, setup: &Setup) -> Result<Self, Error> {
        Self::with_runner(recording, setup, &run_all)
    }

    /// As [`Replay::new`], for a program that runs workloads in its own way.
    ///
    /// # Errors
    /// As [`Replay::new`].
    pub fn with_runner(recording: &'a Recording, setup: &Setup, run: &Runner<'_>) -> Result<Self, Error> {
        let mut setup = setup.clone();
        // What is tried out is no part of how it was recorded.
        setup.overrides = Overrides { kernel: None, features: Vec::new(), settings: Vec::new(), ..setup.overrides };
        let (mut trace, substitute) = recording.says(setup.kernel.as_deref());
        let how = How { keep_times: setup.keep_times, ..How::default() };
        let guess = guess::autogroup(&mut trace, recording, &setup.overrides, how, run)?;
        let plan = plan_of(&trace, &setup.overrides)?;
        let (how, choice) = guess::nearest(recording, &plan, how, run);
        let mut recorded = finish(recording.recorder.clone(), &plan.config, how);
        if recorded.workload.tasks.is_empty() {
            let message = format!("nothing but the idle tasks ran in {}", recording.name());
            return Err(Error::new(message).with_help("record while something runs"));
        }
        let unfit = fit(&mut recorded.workload, &plan.config);
        Ok(Self { recorded, plan, substitute, guess, choice, unfit, trace, setup, recording })
    }

    /// Returns the recording.
    pub fn recording(&self) -> &'a Recording {
        self.recording
    }

    /// Makes the programs of a what-if: those in closed loops go on when what was recorded is done. They are not fitted
    /// to a machine yet, for that of a what-if may have more CPUs. The threads `without` are left out.
    ///
    /// `closed`: threads that are in a closed loop, or are not, whatever the recording shows.
    pub fn going_on(&self, without: BTreeSet<usize>, closed: BTreeMap<usize, Closed>) -> (Recorded, Choice) {
        self.going_on_under(&self.plan.config, without, closed)
    }

    /// As [`Replay::going_on`]. `config`: what says whether sessions are autogroups in the what-if.
    fn going_on_under(
        &self,
        config: &Config,
        without: BTreeSet<usize>,
        closed: BTreeMap<usize, Closed>,
    ) -> (Recorded, Choice) {
        let how = How { keep_times: self.setup.keep_times, goes_on: true, ..How::default() };
        let (how, choice) = guess::nearest(self.recording, &self.plan, how, &run_all);
        let recorder = self.recording.recorder.clone().without(without).with_closed(closed);
        let config = Config { autogroup: config.autogroup, ..self.plan.config.clone() };
        (finish(recorder, &config, how), choice)
    }

    /// Returns what is known of the trace, for a [plan](vruntime_sim::plan::plan).
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Plans a run of the programs, without making them: `overrides` go before the [setup](Setup::overrides).
    ///
    /// # Errors
    /// There is no such kernel, feature, tunable or cost.
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

    /// Makes the programs of a what-if, as `plan` has its kernel and machine, with `rules` applied to them. The
    /// workloads `beside` run beside the tasks of the trace.
    ///
    /// # Errors
    /// A rule fits no task, or asks for what cannot be.
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
    /// The machine refuses the programs.
    pub fn run(&self) -> Result<Run, Error> {
        run(&self.recorded.workload, &self.plan.config).map_err(|error| Error::refused(error, None))
    }

    /// Runs a what-if. `rules` are those that it was made with: the error of a rejected task names its rule.
    ///
    /// # Errors
    /// The machine refuses the programs.
    pub fn run_what_if(&self, what_if: &WhatIf, rules: &Rules) -> Result<Run, Error> {
        let ran = run(&what_if.workload, &what_if.plan.config);
        ran.map_err(|error| {
            let rule = self.refused(&error, Some(&what_if.workload), rules);
            Error::refused(error, rule)
        })
    }

    /// Sets the recording beside the replay as recorded, and beside a what-if.
    pub fn compare(&self, replayed: Ran<'_>, what_if: Option<(&WhatIf, Ran<'_>)>) -> ReplayCheck {
        let runs: Vec<Ran<'_>> = std::iter::once(replayed).chain(what_if.map(|(_, ran)| ran)).collect();
        compare(&self.recorded, what_if.map(|(what_if, _)| &what_if.workload), &runs, self.recording.cpus())
    }

    /// Returns why the machine refuses a task, at the rule that gives the task its policy; none if no rule does.
    /// `what_if`: the workload that it was asked to run.
    pub fn refused(
        &self,
        error: &vruntime_sim::Error,
        what_if: Option<&Workload>,
        rules: &Rules,
    ) -> Option<vruntime_workload::Error> {
        let recorded = &self.recorded;
        let vruntime_sim::Error::Refused { task, error, .. } = error else { return None };
        // A copy is refused what the first of them is, which comes before it.
        let is_named = |thread: &&Thread| thread.task.is_some_and(|index| recorded.workload.tasks[index].name == *task);
        let thread = recorded.threads.iter().position(|thread| is_named(&thread))?;
        // When the task asks for it is the rule's doing.
        let told = vruntime_sim::Error::Refused { task: task.clone(), now: 0, error: error.clone() };
        let mut changed = what_if.into_iter().flat_map(|workload| &workload.tasks);
        let now = changed.find(|changed| changed.name == *task);
        // From the start, or from where it waited beside an idle CPU.
        let confined = now.is_some_and(|task| {
            task.settings.cpus.is_some() || task.phases.iter().any(|phase| phase.settings.cpus.is_some())
        });
        let help = match error {
            SchedError::Affinity { .. } if confined => {
                "add cpus=all to the rule, which lifts the affinity that the task has in the recording, or switch admission off \
                 (sched_rt_runtime_us above sched_rt_period_us)"
                    .to_owned()
            }
            _ => told.help().unwrap_or_else(|| "choose others, or another policy".to_owned()),
        };
        rules.wrong_policy(&recorded.threads, thread, &told.to_string(), &help)
    }
}

fn plan_of(trace: &Trace, overrides: &Overrides) -> Result<Plan, Error> {
    Ok(plan::plan(Input::Trace(trace), overrides, &mut |_| Err(std::io::ErrorKind::NotFound.into()))?)
}

/// Runs workloads beside each other, each on a thread of its own.
pub(crate) fn run_all(jobs: &[(&Workload, &Plan)]) -> Vec<Option<Results>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            jobs.iter().map(|&(workload, plan)| scope.spawn(move || run(workload, &plan.config).ok())).collect();
        threads.into_iter().map(|thread| Some(thread.join().ok()??.results)).collect()
    })
}

fn run(workload: &Workload, config: &Config) -> Result<Run, vruntime_sim::Error> {
    let mut collector = Collector::new(config.machine.topology.nr_cpus());
    let mut go_on = |_| std::ops::ControlFlow::Continue(());
    let outcome = vruntime_sim::run_dyn(workload, config, &mut collector, &mut go_on)?;
    Ok(Run { results: collector.into_results(), outcome })
}

/// Fits the workload of a trace to a kernel and its machine. What the machine had set of its groups that the kernel
/// does not know is left out: the caller did not ask for it.
pub fn fit(workload: &mut Workload, config: &Config) -> LeftOut {
    let (kernel, cpus) = (&config.kernel, config.machine.topology.nr_cpus());
    let (mut clamps, mut partitions) = (0, 0);
    for group in &mut workload.groups {
        if !kernel.is_at_least([5, 3, 0]) {
            clamps += usize::from(group.uclamp.take().is_some());
        }
        if !kernel.is_at_least([5, 0, 0]) {
            partitions += usize::from(std::mem::take(&mut group.cpuset.partition) != Partition::default());
        }
    }
    LeftOut { clamps, partitions, unfit: recorded::fit(workload, cpus as u32) }
}
