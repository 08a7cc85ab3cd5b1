//! `vruntime replay`: what a trace did, again.

mod autogroups;
mod check;
pub(super) mod guess;
mod notes;
mod recording;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::json;
use vruntime_report::{Analyses, ReplayCheck, counted, fit_text};
use vruntime_sched::Topology;
use vruntime_sched::class::deadline::SchedError;
use vruntime_sim::Error;
use vruntime_workload::SourceMap;
use vruntime_workload::program::Workload;
use vruntime_workload::recorded::rules::Rules;
use vruntime_workload::recorded::{Cgroups, Recorded, Recorder, Thread};

pub(super) use self::check::checked;
pub(crate) use self::notes::Notes;
pub(super) use self::notes::notes;
use self::recording::Reading;
pub(crate) use self::recording::cgroups;
pub(super) use self::recording::{finish, nothing_ran, read};
use super::identities::identities;
use super::ran_json;
use super::traced::{self, semaphores, without_semaphores};
use crate::args::{Model, Replay, Wakeups};
use crate::input::{Input, Says};
use crate::places::Places;
use crate::plan::{Plan, machine_words, plan};
use crate::simulate::{self, Done, Failure, Job};
use crate::{Ended, input, machine, output, rules};

/// What `--out` leaves of each run.
const TRACES: [&str; 2] = ["trace.perfetto-trace", "trace.txt"];

pub(crate) fn replay(arguments: &Replay) -> miette::Result<Ended> {
    // What is wrong on the command line is told before a long file is read.
    let folders = ["replayed", "what-if"].map(|run| arguments.out.as_ref().map(|folder| folder.join(run)));
    check_places(arguments, &folders)?;
    let asked = Asked::read(arguments)?;
    let watched = arguments.reports.html.is_some();
    let Some(mut reading) =
        read(&arguments.file, arguments.duration, asked.recorded_on.as_ref(), asked.highest_khz.clone(), watched)?
    else {
        return Ok(Ended::Interrupted);
    };
    if let Some(cgroups) = &asked.cgroups {
        reading.has_cgroups(cgroups);
    }
    let cpus = asked.recorded_on.as_ref().map_or(reading.cpus, Topology::nr_cpus);
    let plans = Plans::new(arguments, &asked, &reading, cpus)?;
    let programs = Programs::new(arguments, &asked, &plans, reading.recorder)?;
    let jobs = programs.jobs(&plans, folders, watched);
    let runs = simulate::all(&jobs).into_iter();
    let mut runs = runs
        .map(|run| run.map_err(|failure| programs.refused(failure, &asked.rules)))
        .collect::<miette::Result<Vec<Done>>>()?;
    without_semaphores(&mut runs, &programs.semaphores);
    super::tell_notes(&runs);
    let Programs { recorded, what_if, .. } = &programs;
    let check = checked(recorded, what_if.as_ref(), &runs, cpus);
    let mut notes = notes(recorded, reading.clock.jumps, plans.as_recorded.config.tick_phase.is_some());
    if reading.release.is_none() && arguments.recorded_kernel.is_none() {
        notes.kernel_is_unknown(&plans.as_recorded.kernel);
    }
    if let Some(guessed) = &plans.guessed {
        notes.is_guessed(guessed);
    }
    leave_reports(arguments, &plans, &check, &notes, reading.analyses.as_ref(), &runs)?;
    if arguments.json {
        output::print_json(&json(arguments, &plans, &check, &notes, &runs));
    } else {
        output::print(&text(arguments, &plans, recorded, &notes, &check));
        if let Some(folder) = &arguments.out {
            output::print(&format!("\n{}\n", fit_text(&where_traces_are(arguments, &plans, folder), "")));
        }
    }
    Ok(if runs.iter().any(|run| run.outcome.interrupted) { Ended::Interrupted } else { Ended::Well })
}

/// Whether all can be written that the command is to leave: its reports, and traces in these folders.
fn check_places(arguments: &Replay, folders: &[Option<PathBuf>]) -> miette::Result<()> {
    let inputs = std::iter::once(&arguments.file).chain(&arguments.cgroups).chain(&arguments.beside);
    let mut places = Places::default();
    for folder in folders.iter().flatten() {
        places = places.folder("--out", Some(folder), &TRACES);
    }
    arguments.reports.places(places.reads(inputs)).check()
}

/// What the command line names besides the trace.
struct Asked {
    rules: Rules,
    beside: Vec<Input>,
    /// The machine it was recorded on, if the user describes it.
    recorded_on: Option<Topology>,
    /// The highest frequency of each of its CPUs; empty if nobody says.
    highest_khz: Vec<u32>,
    cgroups: Option<Cgroups>,
}

impl Asked {
    fn read(arguments: &Replay) -> miette::Result<Self> {
        let rules = rules::read(&arguments.map)?;
        let beside =
            arguments.beside.iter().map(|file| input::read(file, None, false)).collect::<miette::Result<_>>()?;
        let recorded_on = arguments.recorded_machine.as_deref();
        Ok(Self {
            rules,
            beside,
            recorded_on: recorded_on.map(machine::parse).transpose()?,
            highest_khz: recorded_on.map(machine::highest_khz).transpose()?.unwrap_or_default(),
            cgroups: arguments.cgroups.as_deref().map(cgroups).transpose()?,
        })
    }

    /// Whether it asks for something other than the recording, as it was.
    fn changes(&self, arguments: &Replay) -> bool {
        let Model { set, feature, .. } = &arguments.model;
        let nothing = arguments.kernel.is_none()
            && arguments.machine.is_none()
            && self.rules.is_empty()
            && self.beside.is_empty()
            && set.is_empty()
            && feature.is_empty();
        !arguments.as_recorded && !nothing
    }
}

/// How the trace is replayed.
struct Plans {
    as_recorded: Plan,
    /// What nobody says of it and is taken for granted because the replay is closer then.
    guessed: Option<String>,
    what_if: Option<WhatIf>,
}

struct WhatIf {
    plan: Plan,
    /// What is otherwise than in the recording, a line each.
    changes: Vec<String>,
}

impl Plans {
    fn new(arguments: &Replay, asked: &Asked, reading: &Reading, cpus: usize) -> miette::Result<Self> {
        let machine = arguments.recorded_machine.clone().unwrap_or_else(|| cpus.to_string());
        let mut says = reading.says(&arguments.file, arguments.recorded_kernel.as_deref(), cpus);
        let keep_times = arguments.wakeups == Wakeups::Recorded;
        let guessed = guess::autogroup(&mut says, reading, Some(&machine), &arguments.model, keep_times)?;
        let input = Input {
            name: "replay".to_owned(),
            example: None,
            folder: PathBuf::new(),
            workload: Workload::default(),
            places: SourceMap::default(),
            says: Says::Trace(says),
        };
        let with_hotplug = |(_, input): &(&PathBuf, &Input)| !input.workload.hotplug.is_empty();
        for (file, _) in arguments.beside.iter().zip(&asked.beside).filter(with_hotplug) {
            output::note(&format!(
                "[[hotplug]] of {} is left out: whoever runs beside a recording has no say about its machine",
                file.display()
            ));
        }
        // What is tried out is no part of how it was recorded.
        let model = Model { set: Vec::new(), feature: Vec::new(), ..arguments.model.clone() };
        let as_recorded = plan(&input, None, Some(&machine), &model)?;
        if !asked.changes(arguments) {
            return Ok(Self { as_recorded, guessed, what_if: None });
        }
        let machine = arguments.machine.as_deref().unwrap_or(&machine);
        let plan = plan(&input, arguments.kernel.as_deref(), Some(machine), &arguments.model)?;
        let neighbours = asked.beside.iter().map(|input| format!("beside {}", input.title()));
        let changes = rules::changes(&asked.rules, &arguments.model).into_iter().chain(neighbours).collect();
        Ok(Self { as_recorded, guessed, what_if: Some(WhatIf { plan, changes }) })
    }
}

/// What the tasks do in each run.
struct Programs {
    recorded: Recorded,
    /// The workload of the what-if.
    what_if: Option<Workload>,
    /// So many of its tasks, the first, are the recording's and copies of them; the others run beside it.
    of_recording: usize,
    /// The names of the semaphores that stand for who woke whom, in both.
    semaphores: Vec<String>,
}

impl Programs {
    fn new(arguments: &Replay, asked: &Asked, plans: &Plans, recorder: Recorder) -> miette::Result<Self> {
        let Asked { rules, beside, .. } = asked;
        let keep_times = arguments.wakeups == Wakeups::Recorded;
        let finish = |recorder| finish(recorder, &plans.as_recorded.config, keep_times);
        let again = rules.removes().then(|| recorder.clone());
        let mut recorded = finish(recorder);
        if recorded.workload.tasks.is_empty() {
            return Err(nothing_ran(&arguments.file));
        }
        let without = |threads| again.map_or_else(|| recorded.clone(), |recorder| finish(recorder.without(threads)));
        let what_if = plans.what_if.as_ref();
        let mut what_if = what_if.map(|what_if| change(&recorded, rules, &what_if.plan, without)).transpose()?;
        let unreached = rules.unreached(&recorded.threads);
        if unreached > 0 {
            let left = counted(
                unreached as u64,
                "task is left as it was, although the one that forked it is not",
                "tasks are left as they were, although those that forked them are not",
            );
            output::note(&format!(
                "{left}: a rule is of the tasks it names. tree=PID names a task and all that it forks"
            ));
        }
        rules::tell_idle_groups(rules, &recorded.workload.groups, "trace");
        traced::fit(&mut recorded.workload, &plans.as_recorded.config);
        // A rule that removes tasks makes other programs, with names of their own.
        let mut inside = semaphores(&recorded.workload);
        inside.extend(what_if.iter().flat_map(semaphores));
        let of_recording = what_if.as_ref().map_or(0, |workload| workload.tasks.len());
        for neighbour in beside {
            what_if = what_if.map(|workload| workload.beside(&neighbour.workload));
        }
        Ok(Self { recorded, what_if, of_recording, semaphores: inside })
    }

    /// The runs, each with the folder for its traces: as recorded, and the what-if if there is one.
    fn jobs(&self, plans: &Plans, folders: [Option<PathBuf>; 2], watched: bool) -> Vec<Job<'_>> {
        let Self { recorded, what_if, of_recording, .. } = self;
        let job = |workload, of_recording, plan: &Plan, traces: Option<PathBuf>| {
            let cpus = plan.config.machine.topology.nr_cpus();
            Job {
                identities: traces.is_some().then(|| identities(recorded, workload, of_recording, cpus)),
                traces,
                analyse: watched.then(super::html::watch_replayed),
                overview: true,
                ..Job::new(workload, plan.config.clone(), &plan.kernel)
            }
        };
        let [of_replayed, of_what_if] = folders;
        let mut jobs = vec![job(&recorded.workload, recorded.workload.tasks.len(), &plans.as_recorded, of_replayed)];
        if let (Some(workload), Some(WhatIf { plan, .. })) = (what_if, &plans.what_if) {
            jobs.push(job(workload, *of_recording, plan, of_what_if));
        }
        jobs
    }

    /// Why a run failed: what the kernel refuses a task is told with the rule that gives the task its policy.
    fn refused(&self, failure: Failure, rules: &Rules) -> miette::Report {
        let recorded = &self.recorded;
        let Failure::Refused(Error::Refused { task, error, .. }) = &failure else { return failure.into() };
        // A copy is refused what the first of them is, which comes before it.
        let is_named = |thread: &&Thread| thread.task.is_some_and(|index| recorded.workload.tasks[index].name == *task);
        let Some(thread) = recorded.threads.iter().position(|thread| is_named(&thread)) else { return failure.into() };
        // When the task asks for it is the rule's doing.
        let told = Error::Refused { task: task.clone(), now: 0, error: error.clone() };
        let mut changed = self.what_if.iter().flat_map(|workload| &workload.tasks);
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
        rules
            .wrong_policy(&recorded.threads, thread, &told.to_string(), &help)
            .map_or_else(|| failure.into(), Into::into)
    }
}

/// What `--json` prints.
fn json(arguments: &Replay, plans: &Plans, check: &ReplayCheck, notes: &Notes, runs: &[Done]) -> serde_json::Value {
    let mut json = check.json();
    if let serde_json::Value::Object(fields) = &mut json {
        let digests: Vec<String> = runs.iter().map(|run| format!("{:016x}", run.digest)).collect();
        fields.insert("notes".to_owned(), json!(notes.all));
        fields.insert("digests".to_owned(), json!(digests));
        fields.insert("runs".to_owned(), ran(arguments, plans, runs));
    }
    json
}

/// What was run: the replay as recorded, and the what-if if there is one.
fn ran(arguments: &Replay, plans: &Plans, runs: &[Done]) -> serde_json::Value {
    let what_if = plans.what_if.iter().map(|WhatIf { plan, changes }| ("what_if", plan, &changes[..]));
    let plans = std::iter::once(("replayed", &plans.as_recorded, &[][..])).chain(what_if);
    let file = &arguments.file;
    let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("trace");
    let each = plans.zip(runs.chunks(1));
    each.map(|((label, plan, changes), run)| ran_json(label, file, name, plan, changes, run)).collect()
}

/// Where `--out` has left the traces, and what they are good for.
fn where_traces_are(arguments: &Replay, plans: &Plans, folder: &Path) -> String {
    let folder = folder.display();
    let also = plans.what_if.as_ref().map_or_else(String::new, |_| format!(", of the what-if in {folder}/what-if"));
    format!(
        "traces of the replay are in {folder}/replayed{also}; open trace.perfetto-trace on https://ui.perfetto.dev, or compare \
         with the recording: vruntime diff {} {folder}/replayed/trace.txt",
        arguments.file.display()
    )
}

/// Leaves the page and the tables that are asked for.
fn leave_reports(
    arguments: &Replay,
    plans: &Plans,
    check: &ReplayCheck,
    notes: &Notes,
    recording: Option<&Analyses>,
    runs: &[Done],
) -> miette::Result<()> {
    if let Some(path) = &arguments.reports.html {
        let [replayed, what_if] = [0, 1].map(|run| runs.get(run).and_then(|done| done.analyses.as_deref()));
        let watched = [recording, replayed, what_if];
        let title = format!("Replay of {}", super::html::short(&arguments.file));
        super::html::write(&super::html::replay_page(&title, &lead(plans), check, notes, watched), path)?;
    }
    if let Some(folder) = &arguments.reports.tables.folder {
        crate::tables::write(folder, arguments.reports.tables.format, "", &check.tables())?;
    }
    Ok(())
}

/// What the page says first: what was run.
fn lead(plans: &Plans) -> String {
    let Plan { kernel, costs, config, .. } = &plans.as_recorded;
    let machine = machine_words(&plans.as_recorded);
    let mut lead = format!("Replayed as recorded: {machine} under {kernel} (costs: {costs}, seed {}).", config.seed);
    if let Some(WhatIf { plan, changes }) = &plans.what_if {
        lead.extend([" What if: ", &machine_words(plan), " under ", &plan.kernel]);
        for change in changes {
            lead.extend(["; ", change.trim()]);
        }
        lead.push('.');
    }
    lead
}

/// The workload of a what-if, but for who runs beside it. `replay` makes the recording's programs without the threads
/// it is given.
fn change(
    recorded: &Recorded,
    rules: &Rules,
    plan: &Plan,
    replay: impl FnOnce(BTreeSet<usize>) -> Recorded,
) -> miette::Result<Workload> {
    let removed = rules.removed(&recorded.threads);
    let mut changed = if removed.is_empty() { recorded.clone() } else { replay(removed) };
    let cpus = plan.config.machine.topology.nr_cpus();
    traced::fit(&mut changed.workload, &plan.config);
    rules.apply(&mut changed, &recorded.threads, cpus)?;
    Ok(changed.workload)
}

/// What is printed.
fn text(arguments: &Replay, plans: &Plans, recorded: &Recorded, notes: &Notes, check: &ReplayCheck) -> String {
    let Plans { as_recorded, what_if, .. } = plans;
    let head = format!(
        "{}: {:.3} s on {}, replayed as recorded under {} (costs: {}, seed {})",
        arguments.file.display(),
        recorded.duration_ns as f64 / 1e9,
        machine_words(as_recorded),
        as_recorded.kernel,
        as_recorded.costs,
        as_recorded.config.seed,
    );
    let mut text = format!("{}\n\n{}\n", fit_text(&head, ""), check.check_table(arguments.all));
    text.push_str(&fit_text(&check.summary(), ""));
    text.push_str("\n\nTo know:\n");
    for note in &notes.all {
        text.push_str(&fit_text(note, "  "));
        text.push('\n');
    }
    if let (Some(WhatIf { plan, changes }), Some(table)) = (what_if, check.what_if_table(arguments.all)) {
        let head = format!("\nWhat if: {} under {}\n", machine_words(plan), plan.kernel);
        text.push_str(&head);
        for change in changes {
            text.push_str("  ");
            text.push_str(change);
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&table);
        text.push_str(
            &check.what_if_sentence().map_or_else(String::new, |sentence| format!("\n{}\n", fit_text(&sentence, ""))),
        );
    }
    text
}
