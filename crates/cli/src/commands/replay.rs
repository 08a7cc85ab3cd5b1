//! `vruntime replay`.

use std::path::{Path, PathBuf};

use serde_json::json;
use vruntime_replay::recorded::rules::Rules;
use vruntime_replay::recorded::{Counts, Recorded};
use vruntime_replay::{Choice, Ran, ReadOptions, Recording, Setup, WhatIf, compare, identities};
use vruntime_report::{Analyses, ReplayCheck, Verdict, fit_text};
use vruntime_sched::Topology;
use vruntime_sim::plan::Overrides;
use vruntime_sim::{Config, SwitchCosts};
use vruntime_workload::cgroups::Cgroups;
use vruntime_workload::program::Workload;

use super::html;
use super::notes::{Notes, notes};
use super::replay_input::{self, guessed, note_left_out, note_substitute, read};
use super::section::Section;
use super::{of_seeds, ran_json};
use crate::args::{Model, Replay, Seeds, Wakeups};
use crate::input::Input;
use crate::output_paths::OutputPaths;
use crate::plan::{Plan, machine_words, overrides_of_trace, print_plan_notes, report_of_trace, switch_costs};
use crate::simulate::{self, Done, Failure, Job};
use crate::trace_file::cgroups;
use crate::{Ended, input, interrupt, leftovers, machine, output, policies, rules};

/// Files of each run in `--out`.
const TRACES: [&str; 2] = ["trace.perfetto-trace", "trace.txt"];

pub(crate) fn replay(arguments: &Replay) -> miette::Result<Ended> {
    // Reports errors of the command line before a long file is read.
    let folders = ["replayed", "what-if"].map(|run| arguments.out.as_ref().map(|folder| folder.join(run)));
    let outputs = output_paths(arguments, &folders);
    outputs.check()?;
    let asked = Asked::read(arguments)?;
    let watched = arguments.reports.html.is_some();
    let analyses = || {
        let (kinds, options) = html::watch(None);
        Analyses::new(&kinds, &options).with_overview()
    };
    let options = ReadOptions {
        duration: arguments.duration,
        machine: asked.recorded_on.clone(),
        highest_khz: asked.highest_khz.clone(),
        event_cost: asked.event_cost,
        switch_costs: asked.switch_costs,
    };
    let watch: Option<&dyn Fn() -> Analyses> = if watched { Some(&analyses) } else { None };
    let Some((mut recording, analyses, damage)) = read(&arguments.file, &options, watch)? else {
        return Ok(Ended::Interrupted);
    };
    if let Some(cgroups) = &asked.cgroups {
        recording = recording.with_cgroups(cgroups);
    }
    if let Some(section) = &asked.section {
        recording = recording.with_policies(section.policies()).with_processes(section.processes());
    }
    let programs = Programs::new(arguments, &asked, &recording)?;
    outputs.check_inputs()?;
    let jobs = programs.jobs(folders, watched, arguments.seeds, arguments.model.target);
    let seeds = usize::from(arguments.seeds.repeat);
    let runs = simulate::all_by_seed(&jobs, jobs.len() / seeds, seeds).into_iter();
    let runs = runs
        .map(|run| run.map_err(|failure| programs.refused(failure, &asked.rules)))
        .collect::<miette::Result<Vec<Done>>>()?;
    super::print_notes(&runs);
    let mut check = programs.check(&by_side(&runs, arguments));
    let vruntime_replay::Replay { recorded, plan: as_recorded, guess, .. } = &programs.replay;
    let mut notes = notes(recorded, recording.clock_jumps(), as_recorded.config.tick_phase.is_some());
    notes.is_damaged(&damage);
    if recording.release().is_none() && arguments.recorded_kernel.is_none() {
        notes.kernel_is_unknown(&as_recorded.kernel);
    }
    if let Some(guess) = guess {
        notes.is_guessed(&guessed(guess));
    }
    notes.is_interrupted(runs.iter().filter_map(super::stopped_early));
    notes.has_event_cost(asked.event_cost, recorded, programs.replay.choice.charged);
    if let Some(section) = &asked.section {
        section.add_notes(&mut check, &mut notes);
    }
    let print = || {
        if arguments.json {
            let mut json = json(arguments, &programs, &check, &notes, &runs);
            json["event_cost"] = event_cost(asked.event_cost, &programs.replay.recorded);
            output::print_json(&json);
        } else {
            output::print(&text(arguments, &programs, &notes, &check, &runs));
        }
    };
    let write_all = || {
        let written = write_reports(arguments, &programs, &check, &notes, analyses.as_ref(), &runs);
        simulate::all_written(&runs).and(written).and_then(|()| tidy(arguments, programs.what_if.is_some()))
    };
    // Prints the results before errors of writing.
    interrupt::write_and_print(write_all, print)?;
    if let Some(folder) = arguments.out.as_ref().filter(|_| !arguments.json) {
        output::print(&format!("\n{}\n", fit_text(&where_traces_are(arguments, &programs, folder), "")));
    }
    Ok(if runs.iter().any(|run| run.outcome.interrupted) { Ended::Interrupted } else { Ended::Well })
}

/// Removes what an earlier run left in the folder of `--out`, such as the traces of a what-if if this replay has none.
fn tidy(arguments: &Replay, with_what_if: bool) -> miette::Result<()> {
    let Some(out) = &arguments.out else { return Ok(()) };
    let folders = ["replayed"].into_iter().chain(with_what_if.then_some("what-if"));
    let written = folders.flat_map(|folder| TRACES.map(|file| format!("{folder}/{file}"))).collect();
    leftovers::replace_out(out, "replay", &written)
}

/// Returns the runs of the replay as recorded, and those of the what-if if there is one: a seed each.
fn by_side<'a>(runs: &'a [Done], arguments: &Replay) -> Vec<&'a [Done]> {
    runs.chunks(usize::from(arguments.seeds.repeat)).collect()
}

fn output_paths(arguments: &Replay, folders: &[Option<PathBuf>]) -> OutputPaths {
    let inputs = std::iter::once(&arguments.file).chain(&arguments.cgroups).chain(&arguments.beside);
    let mut outputs = OutputPaths::default();
    for folder in folders.iter().flatten() {
        outputs = outputs.folder("--out", Some(folder), &TRACES);
    }
    arguments.reports.output_paths(outputs.reads(inputs))
}

struct Asked {
    rules: Rules,
    beside: Vec<Input>,
    /// The recorded machine, if described.
    recorded_on: Option<Topology>,
    /// The highest frequency of each CPU, kHz; empty if unknown.
    highest_khz: Vec<u32>,
    cgroups: Option<Cgroups>,
    /// The cost of recording an event, nanoseconds; 0 if unknown.
    event_cost: u64,
    /// Costs of switches and wakeups on the recorded machine, if known.
    switch_costs: Option<SwitchCosts>,
    section: Option<Section>,
}

impl Asked {
    fn read(arguments: &Replay) -> miette::Result<Self> {
        let rules = rules::read(&arguments.map)?;
        let beside =
            arguments.beside.iter().map(|file| input::read(file, None, false)).collect::<miette::Result<_>>()?;
        let section = Section::of(&arguments.file)?;
        // The command line takes precedence over the recording.
        let (recorded_on, highest_khz) = match (arguments.recorded_machine.as_deref(), &section) {
            (Some(text), _) => (Some(machine::parse(text)?), machine::highest_khz(text)?),
            (None, Some(section)) => (Some(section.machine.topology.clone()), section.highest_khz()),
            (None, None) => (None, Vec::new()),
        };
        let named = arguments.cgroups.as_deref().map(cgroups).transpose()?;
        let cgroups = named.or_else(|| section.as_ref()?.cgroups.clone());
        let measured = || section.as_ref()?.event_cost_ns();
        let event_cost = arguments.event_cost.or_else(measured).unwrap_or(0);
        let measured = match (arguments.recorded_machine.as_deref(), &section) {
            (Some(text), _) => machine::known(text)?.costs,
            (None, Some(section)) => section.machine.costs.clone(),
            (None, None) => None,
        };
        let switch_costs = switch_costs(&arguments.model).or_else(|| Some(measured?.of_switches()));
        Ok(Self { rules, beside, recorded_on, highest_khz, cgroups, event_cost, switch_costs, section })
    }

    /// Whether a what-if is requested.
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

struct Programs<'a> {
    replay: vruntime_replay::Replay<'a>,
    what_if: Option<WhatIf>,
    /// The changes of the what-if, one line each.
    changes: Vec<String>,
}

impl<'a> Programs<'a> {
    fn new(arguments: &Replay, asked: &Asked, recording: &'a Recording) -> miette::Result<Self> {
        let Asked { rules, beside, .. } = asked;
        let machine = match (arguments.recorded_machine.as_deref(), &asked.section) {
            (Some(text), _) => machine::known(text)?,
            (None, Some(section)) => section.machine.clone(),
            (None, None) => machine::known(&recording.cpus().to_string())?,
        };
        let own_kernel = || asked.section.as_ref().map(|section| section.kernel(&recording.kernel()));
        let setup = Setup {
            kernel: arguments.recorded_kernel.clone().or_else(own_kernel),
            overrides: overrides_of_trace(Some(machine), &arguments.model),
            keep_times: arguments.wakeups == Wakeups::Recorded,
        };
        let replay = vruntime_replay::Replay::with_runner(recording, &setup, &replay_input::run);
        let replay = replay.map_err(report_of_trace)?;
        note_substitute(&arguments.file, replay.substitute.as_ref());
        let with_hotplug = |(_, input): &(&PathBuf, &Input)| !input.workload.hotplug.is_empty();
        for (file, _) in arguments.beside.iter().zip(beside).filter(with_hotplug) {
            output::note(&format!(
                "[[hotplug]] of {} is left out: a workload beside a recording cannot change its machine",
                file.display()
            ));
        }
        print_plan_notes(&replay.plan.notes);
        let what_if = asked.changes(arguments).then(|| what_if(arguments, asked, &replay)).transpose()?;
        let neighbours = beside.iter().map(|input| format!("beside {}", input.title()));
        let changes = rules::changes(rules, &arguments.model).into_iter().chain(neighbours).collect();
        rules::note_unreached(rules, &replay.recorded.threads);
        rules::note_idle_groups(rules, &replay.recorded.workload.groups, "trace");
        if let Some(what_if) = &what_if {
            rules::note_overruled(rules, &what_if.workload.groups);
        }
        note_left_out(&replay.unfit, &replay.plan.config);
        Ok(Self { replay, what_if, changes })
    }

    /// Returns the runs as recorded, and then those of the what-if. Only the first seed has traces (in `folders`) and
    /// charts.
    fn jobs(&self, folders: [Option<PathBuf>; 2], watched: bool, seeds: Seeds, target: Option<u64>) -> Vec<Job<'_>> {
        let vruntime_replay::Replay { recorded, plan, .. } = &self.replay;
        let jobs = |workload, of_recording, plan: &Plan, traces: Option<PathBuf>| {
            let cpus = plan.config.machine.topology.nr_cpus();
            let numbered = seeds.from(plan.config.seed).enumerate();
            let job = |(index, seed): (usize, u64)| {
                let traces = traces.clone().filter(|_| index == 0);
                Job {
                    identities: traces.is_some().then(|| identities(recorded, workload, of_recording, cpus)),
                    traces,
                    analyse: (watched && index == 0).then(html::watch_replayed),
                    overview: true,
                    target,
                    ..Job::new(workload, Config { seed, ..plan.config.clone() }, &plan.kernel)
                }
            };
            numbered.map(job).collect::<Vec<_>>()
        };
        let [of_replayed, of_what_if] = folders;
        let mut all = jobs(&recorded.workload, recorded.workload.tasks.len(), plan, of_replayed);
        if let Some(WhatIf { workload, plan, of_recording, .. }) = &self.what_if {
            all.extend(jobs(workload, *of_recording, plan, of_what_if));
        }
        all
    }

    /// Compares the recording with its replays, over seeds that are complete on all sides, or the seed that got
    /// furthest.
    fn check(&self, sides: &[&[Done]]) -> ReplayCheck {
        let Self { replay, what_if, .. } = self;
        let what_if = what_if.as_ref().map(|what_if| &what_if.workload);
        let seeds = sides.iter().map(|side| side.len()).min().unwrap_or(0);
        let of_seed = |seed: usize| sides.iter().filter_map(move |side| side.get(seed));
        let ended = |seed: &usize| of_seed(*seed).all(|run| !run.outcome.interrupted);
        let mut counted: Vec<usize> = (0..seeds).filter(ended).collect();
        if counted.is_empty() {
            // The first of equals.
            counted.extend((0..seeds).rev().max_by_key(|&seed| of_seed(seed).map(|run| run.outcome.end).sum::<u64>()));
        }
        let check = |seed: usize| {
            let ran = of_seed(seed).map(|run| Ran { results: &run.results, end: run.outcome.end });
            compare(&replay.recorded, what_if, &ran.collect::<Vec<Ran<'_>>>(), replay.recording().cpus())
        };
        ReplayCheck::over(counted.into_iter().map(check).collect()).unwrap_or_default()
    }

    /// Returns the error of a failed run. If the kernel rejects a task's request, it names the rule with the policy.
    fn refused(&self, failure: Failure, rules: &Rules) -> miette::Report {
        let what_if = self.what_if.as_ref().map(|what_if| &what_if.workload);
        match &failure {
            Failure::Refused(error) => {
                self.replay.refused(error, what_if, rules).map_or_else(|| failure.into(), Into::into)
            }
            Failure::Output(_) => failure.into(),
        }
    }
}

fn what_if(arguments: &Replay, asked: &Asked, replay: &vruntime_replay::Replay<'_>) -> miette::Result<WhatIf> {
    let machine = arguments.machine.as_deref().map(machine::known).transpose()?;
    let machine = machine.map(|machine| match &asked.section {
        Some(section) => machine.completed_by(&section.machine),
        None => machine,
    });
    let kernel = arguments.kernel.as_deref();
    let simulated = kernel.map(policies::simulated_kernel);
    let overrides = Overrides { kernel: simulated, ..overrides_of_trace(machine, &arguments.model) };
    let mut plan = replay.plan(&overrides).map_err(report_of_trace)?;
    policies::name_plan(&mut plan.kernel, kernel);
    print_plan_notes(&plan.notes);
    let beside: Vec<&Workload> = asked.beside.iter().map(|input| &input.workload).collect();
    let what_if = replay.what_if(plan, &asked.rules, &beside).map_err(report_of_trace)?;
    note_left_out(&what_if.unfit, &what_if.plan.config);
    Ok(what_if)
}

fn json(
    arguments: &Replay,
    programs: &Programs<'_>,
    check: &ReplayCheck,
    notes: &Notes,
    runs: &[Done],
) -> serde_json::Value {
    let mut json = check.json();
    if let serde_json::Value::Object(fields) = &mut json {
        let digests: Vec<String> = runs.iter().map(|run| format!("{:016x}", run.digest)).collect();
        fields.insert("notes".to_owned(), json!(notes.all));
        fields.insert("digests".to_owned(), json!(digests));
        fields.insert("runs".to_owned(), ran(arguments, programs, runs));
        let what_if = programs.what_if.as_ref().map(|what_if| choice(&what_if.choice));
        let choices = json!({ "replayed": choice(&programs.replay.choice), "what_if": what_if });
        fields.insert("choices".to_owned(), choices);
    }
    json
}

/// Returns the cost of recording, and how much of it the replay lacks.
fn event_cost(ns: u64, recorded: &Recorded) -> serde_json::Value {
    let subtracted: u64 = recorded.threads.iter().map(|thread| thread.subtracted_ns).sum();
    let charged: u64 = recorded.threads.iter().map(|thread| thread.charged_ns).sum();
    let &Counts { unsubtracted_ns, uncharged_ns, .. } = &recorded.counts;
    json!({
        "ns": ns,
        "subtracted_ns": subtracted,
        "unsubtracted_ns": unsubtracted_ns,
        "charged_ns": charged,
        "uncharged_ns": uncharged_ns,
    })
}

/// Returns the choice between readings of the trace, with all that were tried.
fn choice(choice: &Choice) -> serde_json::Value {
    let tried = choice.tried.iter();
    let tried = tried.map(|way| {
        json!({
            "coupling": way.coupling.name(),
            "sync": way.sync,
            "messages": way.messages,
            "charged": way.charged,
            "goes_on": way.goes_on,
            "pools": way.pools,
            "distance": way.distance,
        })
    });
    let tried: Vec<_> = tried.collect();
    json!({
        "coupling": choice.coupling.name(),
        "sync": choice.sync,
        "messages": choice.messages,
        "charged": choice.charged,
        "goes_on": choice.goes_on,
        "pools": choice.pools,
        "tried": tried,
    })
}

fn ran(arguments: &Replay, programs: &Programs<'_>, runs: &[Done]) -> serde_json::Value {
    let Programs { replay, what_if, changes } = programs;
    let what_if = what_if.iter().map(|what_if| ("what_if", &what_if.plan, &changes[..]));
    let plans = std::iter::once(("replayed", &replay.plan, &[][..])).chain(what_if);
    let file = &arguments.file;
    let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("trace");
    let each = plans.zip(by_side(runs, arguments));
    each.map(|((label, plan, changes), runs)| ran_json(label, file, name, plan, changes, runs)).collect()
}

fn where_traces_are(arguments: &Replay, programs: &Programs<'_>, folder: &Path) -> String {
    let folder = folder.display();
    let also = programs.what_if.as_ref().map_or_else(String::new, |_| format!(", of the what-if in {folder}/what-if"));
    format!(
        "traces of the replay are in {folder}/replayed{also}; open trace.perfetto-trace on https://ui.perfetto.dev, or compare \
         with the recording: vruntime diff {} {folder}/replayed/trace.txt",
        arguments.file.display()
    )
}

fn write_reports(
    arguments: &Replay,
    programs: &Programs<'_>,
    check: &ReplayCheck,
    notes: &Notes,
    recording: Option<&Analyses>,
    runs: &[Done],
) -> miette::Result<()> {
    if let Some(path) = &arguments.reports.html {
        let sides = by_side(runs, arguments);
        let first = |side: usize| sides.get(side).and_then(|runs| runs.first()?.analyses.as_deref());
        let [replayed, what_if] = [0, 1].map(first);
        let watched = [recording, replayed, what_if];
        let title = format!("Replay of {}", html::short(&arguments.file));
        html::write(&html::replay_page(&title, &lead(arguments, programs), check, notes, watched), path)?;
    }
    crate::tables::write(&arguments.reports.tables, "replay", vec![check.tables().into()], &notes.all)
}

/// Returns `seed 1`, or `seeds 1 to 5`.
fn seeds(first: u64, seeds: Seeds) -> String {
    match seeds.from(first).last().filter(|last| *last != first) {
        Some(last) => format!("seeds {first} to {last}"),
        None => format!("seed {first}"),
    }
}

/// Returns the page's first sentences: what ran.
fn lead(arguments: &Replay, programs: &Programs<'_>) -> String {
    let Programs { replay: vruntime_replay::Replay { plan, .. }, what_if, changes } = programs;
    let Plan { kernel, costs, config, .. } = plan;
    let machine = machine_words(plan);
    let seeds = seeds(config.seed, arguments.seeds);
    let mut lead = format!("Replayed as recorded: {machine} under {kernel} (costs: {costs}, {seeds}).");
    if let Some(WhatIf { plan, .. }) = what_if {
        lead.extend([" What if: ", &machine_words(plan), " under ", &plan.kernel]);
        for change in changes {
            lead.extend(["; ", change.trim()]);
        }
        lead.push('.');
    }
    lead
}

fn text(arguments: &Replay, programs: &Programs<'_>, notes: &Notes, check: &ReplayCheck, runs: &[Done]) -> String {
    let Programs { replay, what_if, changes } = programs;
    let vruntime_replay::Replay { recorded, plan: as_recorded, .. } = replay;
    let head = format!(
        "{}: {:.3} s on {}, replayed as recorded under {} (costs: {}, {})",
        arguments.file.display(),
        recorded.duration_ns as f64 / 1e9,
        machine_words(as_recorded),
        as_recorded.kernel,
        as_recorded.costs,
        seeds(as_recorded.config.seed, arguments.seeds),
    );
    let mut text = format!("{}\n{}\n", fit_text(&head, ""), fit_text(&check.verdict_line(), ""));
    if let Some((heading, effects)) = check.what_if_lines() {
        if check.verdict() == Some(Verdict::Poor) {
            text.push_str("The replay reproduces the recording poorly: do not rely on this what-if.\n");
        }
        text.extend(["\n", heading, "\n"]);
        text.extend(effects.iter().map(|effect| fit_text(effect, "  ") + "\n"));
        text.push('\n');
    }
    for remedy in remedies(arguments, replay, check) {
        text.push_str(&fit_text(&remedy, "  "));
        text.push('\n');
    }
    text.push('\n');
    let several = arguments.seeds.repeat > 1;
    // For several seeds, one table has all runs.
    if !several {
        text.extend([&check.check_table(arguments.all), "\n"]);
    } else if what_if.is_none() {
        text.extend([&over_seeds(arguments, check, runs), "\n"]);
    }
    // With a what-if, its first paragraph explains the groups.
    let of_groups = if what_if.is_none() { check.group_sentences() } else { Vec::new() };
    for sentence in of_groups {
        text.extend([&fit_text(&sentence, ""), "\n\n"]);
    }
    if arguments.verbose {
        text.push_str(&fit_text(&check.summary(), ""));
        text.push_str("\n\n");
    }
    text.push_str("Notes:\n");
    for note in &notes.all {
        text.push_str(&fit_text(note, "  "));
        text.push('\n');
    }
    let table = || if several { Some(over_seeds(arguments, check, runs)) } else { check.what_if_table(arguments.all) };
    if let Some((WhatIf { plan, .. }, table)) = what_if.as_ref().and_then(|what_if| Some((what_if, table()?))) {
        let kernel = match policies::named(&plan.kernel) {
            Some(_) => policies::words(&plan.kernel),
            None => plan.kernel.clone(),
        };
        let head = format!("\nWhat if: {} under {kernel}\n", machine_words(plan));
        text.push_str(&head);
        for change in changes {
            text.push_str("  ");
            text.push_str(change);
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&table);
    }
    text
}

/// Returns the table of several seeds, with a legend.
fn over_seeds(arguments: &Replay, check: &ReplayCheck, runs: &[Done]) -> String {
    let mut seeds = of_seeds(runs.iter(), arguments.seeds.repeat);
    if runs.iter().any(|run| run.outcome.interrupted) {
        let sides = by_side(runs, arguments);
        let whole = (0..sides[0].len()).filter(|&seed| sides.iter().all(|side| !side[seed].outcome.interrupted));
        let whole = whole.count();
        let what = if whole == 0 { "the incomplete seed that ran longest" } else { "mean of the complete seeds" };
        seeds = format!("{whole} of {} seeds, stopped early: {what}", arguments.seeds.repeat);
    }
    let change = if check.what_if_cpus.is_some() { ", ~ change within the spread" } else { "" };
    format!("{seeds}, ± half the spread{change}\n\n{}", check.over_seeds_text(arguments.all))
}

/// Suggests how to improve the replay, unless its verdict is good.
fn remedies(arguments: &Replay, replay: &vruntime_replay::Replay<'_>, check: &ReplayCheck) -> Vec<String> {
    if check.verdict().is_none_or(|verdict| verdict == Verdict::Good) {
        return Vec::new();
    }
    let mut remedies = Vec::new();
    if arguments.cgroups.is_none() && !replay.recording().has_groups() {
        remedies.push(
            "The task groups and autogroups of the tasks are unknown: `vruntime record` records them, and --cgroups FILE supplies them (docs/replay.md)"
                .to_owned(),
        );
    }
    if check.unplaced().is_some() {
        remedies
            .push("This recording lacks switches: some machines hide them from perf; try `vruntime record`".to_owned());
    }
    if let Some(substitute) = &replay.substitute {
        remedies.push(format!(
            "Linux {} stands for {}: vruntime does not have that kernel",
            substitute.kernel, substitute.release
        ));
    }
    remedies
}
