//! `vruntime run`.

use miette::miette;
use std::fmt::Write as _;
use vruntime_report::{
    AnalysisOptions, Shown, TimeSeries, counted, fit_text, printable, proc_pid_sched, proc_schedstat, results_table,
    sched_debug, spread_data, spread_table,
};
use vruntime_workload::program::Workload;
use vruntime_workload::rtapp::Global;

use super::analyses::{asked, check, may_be_there};
use super::html;
use super::{RESULT_FILES, digests, over_seeds, print_notes, runs_json, stopped_early, write_results};
use crate::args::Run;
use crate::input::{Input, InputKind};
use crate::plan::{Plan, kernels_of, machine_words, plan};
use crate::simulate::{Done, Failure, Job};
use crate::{Ended, error_place, input, interrupt, leftovers, output, policies, rules, simulate, tables};

pub(crate) fn run(run: &Run) -> miette::Result<Ended> {
    let options = &run.options;
    let outputs = options.output_paths().rtapp_log(run.rtapp_log.as_deref());
    let outputs = run.reports.output_paths(outputs.reads([&run.file]));
    outputs.check()?;
    let rules = rules::read(&run.map)?;
    let mut input = input::read(&run.file, options.duration, options.strict)?;
    if !rules.is_empty() {
        input.workload = rules::applied(&rules, &input, &run.file)?;
    }
    let mut plan = plan(&input, run.kernel.as_deref(), run.machine.as_deref(), &options.model)?;
    outputs.check_inputs()?;
    rules.check_cpus(plan.config.machine.topology.nr_cpus())?;
    plan.config.duration = options.duration;
    plan.config.strict = options.strict;
    plan.config.end_if_refused = options.strict;
    let ends = options.duration.or(input.workload.duration);
    input::suspect(ends.map_or_else(Vec::new, |end| error_place::too_late(&input, end)), options.strict)?;
    if run.kernel.is_none() && kernels_of(&input).len() > 1 {
        output::note(&format!("the file names several kernels; this is {}, `vruntime compare` runs all", plan.kernel));
    }
    if let (Some(at), Some(end)) = (run.debug_at, ends) {
        is_before(at, end)?;
    }
    if plan.config.machine.residents.is_none() {
        run.task.iter().try_for_each(|task| is_named(task, &input.workload))?;
    }
    let wanted = (!run.analyse.is_empty()).then(|| asked(&run.analyse, false)).transpose()?;
    // Background tasks of a measured machine have other names.
    if let Some((_, AnalysisOptions { task: Some(task), .. })) = &wanted
        && plan.config.machine.residents.is_none()
    {
        may_be_there(task, &input.workload)?;
    }
    let watched = |index: u16| match &wanted {
        asked if index == 0 && run.reports.html.is_some() => Some(html::watch(asked.clone())),
        asked => asked.clone(),
    };
    let job = |(index, seed): (u16, u64)| {
        let config = vruntime_sim::Config { seed, debug_at: run.debug_at, ..plan.config.clone() };
        Job {
            traces: options.out.clone().filter(|_| index == 0),
            rtapp_log: run.rtapp_log.clone().filter(|_| index == 0).map(|folder| (folder, log_settings(&input))),
            detect: run.detect,
            analyse: watched(index),
            overview: index == 0 && run.reports.html.is_some(),
            target: options.model.target,
            every: run.every,
            unsettled: true,
            ..Job::new(&input.workload, config, &plan.kernel)
        }
    };
    let jobs: Vec<Job<'_>> = (0..).zip(options.seeds.from(plan.config.seed)).map(job).collect();
    let changes = rules::changes(&rules, &options.model);
    let runs = simulate::all_to_print(&jobs).into_iter().collect::<Result<Vec<Done>, Failure>>();
    let runs = runs.map_err(|failure| rules::report(&rules, &input, failure))?;
    let head = head(&input.title(), &plan, &changes, &runs);
    let left = || {
        if let Some(folder) = &options.out {
            write_results(folder, &input.name, &plan, &changes, &runs)?;
            leftovers::replace_out(folder, "run", &RESULT_FILES.map(str::to_owned).into())?;
        }
        write_reports(run, &input.name, &head, &runs)
    };
    print_notes(&runs);
    if let (None, Some(run)) = (ends, runs.iter().find(|run| !run.outcome.interrupted)) {
        input::suspect(error_place::too_late(&input, run.outcome.end), options.strict)?;
    }
    let analysed = match (&wanted, runs.first().and_then(|run| run.analyses.as_ref())) {
        (Some((_, options)), Some(analyses)) => check(analyses, options, None),
        _ => Ok(()),
    };
    // Without the kernel's files, the results are printed before the error.
    let debugged = run.debug_at.zip(runs.first()).map(|(at, done)| debug(at, &run.task, done)).transpose();
    let print = || {
        if let Ok(Some(text)) = &debugged {
            output::print(text);
        } else if options.json {
            output::print_json(&runs_json(&input.name, &plan, &changes, &runs));
        } else {
            output::print(&report(&head, &runs, wanted.is_some()));
        }
    };
    // Prints the results before errors of writing.
    interrupt::write_and_print(|| simulate::all_written(&runs).and(left()), print)?;
    if let Some(folder) = options.out.as_ref().filter(|_| !options.json && !matches!(debugged, Ok(Some(_)))) {
        let folder = folder.display();
        let printed = format!(
            "results and traces are in {folder}; open {folder}/trace.perfetto-trace on https://ui.perfetto.dev"
        );
        output::print(&format!("{}\n", fit_text(&printed, "")));
    }
    analysed?;
    debugged?;
    let found = |run: &Done| run.detected.as_ref().is_some_and(|detected| !detected.violations.is_empty());
    Ok(if runs.iter().any(|run| run.outcome.interrupted) {
        Ended::Interrupted
    } else if runs.iter().any(found) {
        Ended::Detected
    } else {
        Ended::Well
    })
}

fn write_reports(run: &Run, name: &str, head: &str, runs: &[Done]) -> miette::Result<()> {
    let Some(first) = runs.first() else { return Ok(()) };
    if let Some(path) = &run.reports.html {
        html::write(&html::run_page(name, head, first), path)?;
    }
    // Building the tables of 100,000 tasks would delay the answer to Ctrl-C.
    if run.reports.tables.folder.is_none() {
        return Ok(());
    }
    let found = first.analyses.as_ref().map(|analyses| analyses.tables()).unwrap_or_default();
    let over_seeds = over_seeds(runs).map(|ended| spread_data(&ended));
    let series = first.series.as_ref().map(TimeSeries::table);
    let mut all = first.results.tables();
    all.extend(series.into_iter().chain(found).chain(over_seeds));
    let analysed = first.analyses.as_ref().map(|analyses| analyses.notes()).unwrap_or_default();
    let stopped = runs.iter().filter_map(stopped_early).collect();
    let notes = [stopped, first.outcome.notes.clone(), analysed].concat();
    tables::write(&run.reports.tables, "run", vec![all.into()], &notes)
}

/// The most printed rows of an analysis; JSON has all.
const ANALYSED_ROWS: usize = 25;
/// The most printed intervals of `--every`; JSON has all.
const SERIES_ROWS: usize = 100;
/// The most printed benchmarks of a run; JSON has all.
const BENCHMARKS: usize = 20;
/// The most printed violations of a run; JSON has more.
const VIOLATIONS: usize = 8;

/// Returns the most rows of a table. This command has no `--all`.
fn shown(rows: usize) -> Shown {
    Shown { option: "--json", ..Shown::rows(rows) }
}

/// Formats a run's violations, one sentence each.
fn detections(run: &Done) -> Option<String> {
    let detected = run.detected.as_ref()?;
    let (window, seed) = (detected.window_ns as f64 / 1e6, run.seed);
    let mut text = String::new();
    if detected.windows < 3 {
        text =
            format!("detect, seed {seed}: the run is too short for a result; it needs three windows of {window} ms\n");
    } else if detected.violations.is_empty() {
        let (windows, wasted) = (detected.windows, detected.wasted_cpus);
        text = format!(
            "detect, seed {seed}: no violation in {windows} windows of {window} ms: not enough tasks waited beside idle CPUs, or not in \
             three consecutive windows. In the worst window, {wasted:.1} tasks on average waited although an idle CPU could have run them\n"
        );
    }
    for violation in detected.violations.iter().take(VIOLATIONS) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "detect, seed {seed}: {violation}");
    }
    let more = detected.violations.len().saturating_sub(VIOLATIONS) as u64 + detected.more;
    if more > 0 {
        let _ = writeln!(text, "detect, seed {seed}: and {more} more; --json lists the first 64");
    }
    Some(text)
}

/// Fails if the file has no task that `--task` names.
fn is_named(task: &str, workload: &Workload) -> miette::Result<()> {
    may_be_there(task, workload).map_err(|error| {
        let help = error.help().map(|help| help.to_string()).unwrap_or_default();
        miette!(help = help, "there is no task `{task}` in the file")
    })
}

/// Fails if the time of `--debug-at` is not before the end of the run.
fn is_before(at: u64, end: u64) -> miette::Result<()> {
    if at < end {
        return Ok(());
    }
    let (end, at) = (end as f64 / 1e9, at as f64 / 1e9);
    let help = "give --debug-at a time before that, or make the run longer with --duration";
    Err(miette!(help = help, "the run ends at {end} s, and --debug-at {at}s is not before its end"))
}

/// Formats the kernel's files at that time: those of the scheduler, or of `tasks`.
fn debug(at: u64, tasks: &[String], done: &Done) -> miette::Result<String> {
    let (Some(snapshot), Some(stat)) = (&done.outcome.debug, &done.stat) else {
        is_before(at, done.outcome.end)?;
        return Err(miette!("the run was interrupted before {} s, the time of --debug-at", at as f64 / 1e9));
    };
    if tasks.is_empty() {
        return Ok(format!("{}\n{}", sched_debug(snapshot, stat), proc_schedstat(snapshot, stat)));
    }
    let mut parts = Vec::new();
    for name in tasks {
        let texts: Vec<String> =
            stat.named(name).into_iter().filter_map(|id| proc_pid_sched(snapshot, stat, id)).collect();
        if texts.is_empty() {
            let there = snapshot.cpus.iter().flat_map(|cpu| &cpu.tasks).map(|task| stat.task_name(task.id));
            let mut there: Vec<String> = there.map(printable).collect();
            there.sort_unstable();
            let more = if there.len() > 20 { ", ..." } else { "" };
            there.truncate(20);
            let help = format!("there are {}{more}", there.join(", "));
            return Err(miette!(help = help, "there is no task `{name}` at {} s", at as f64 / 1e9));
        }
        parts.extend(texts);
    }
    Ok(parts.join("\n"))
}

/// Returns the settings of rt-app's logs; defaults for other files.
pub(crate) fn log_settings(input: &Input) -> Global {
    match &input.kind {
        InputKind::RtApp(global) => (**global).clone(),
        InputKind::Scenario(_) | InputKind::Recording(_) | InputKind::Trace(..) => Global::default(),
    }
}

fn report(head: &str, runs: &[Done], analysed: bool) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let head: Vec<String> = head.lines().map(fitted).collect();
    let mut parts = vec![format!("{}\n", head.join("\n")), results_table(&first.results)];
    if let Some(series) = &first.series {
        parts.push(format!("Over time, seed {}:\n\n{}", first.seed, series.table().text(shown(SERIES_ROWS))));
    }
    parts.extend(first.benchmarks.iter().take(BENCHMARKS).map(|printed| {
        let lines = printed.lines.join("\n");
        format!("$ {}\n{lines}\n", printed.command)
    }));
    if let Some(more @ 1..) = first.benchmarks.len().checked_sub(BENCHMARKS) {
        let more = counted(more as u64, "more benchmark", "more benchmarks");
        parts.push(format!("({more}: --json has what each prints)\n"));
    }
    if runs.len() > 1 {
        let over_seeds = over_seeds(runs);
        let ended = over_seeds.as_ref().map_or(0, Vec::len);
        let (seed, all) = (first.seed, runs.len());
        parts.push(match ended {
            0 => format!("Above: seed {seed}. None of {all} seeds was completed.\n"),
            _ if ended == all => format!("Above: seed {seed}. Over all {all} seeds:\n"),
            _ => format!("Above: seed {seed}. Over the {ended} of {all} seeds that came to their end:\n"),
        });
        parts.extend(over_seeds.map(|ended| spread_table(&ended)));
    }
    parts.extend(runs.iter().filter_map(detections));
    if let Some(analyses) = first.analyses.as_ref().filter(|_| analysed) {
        parts.push(format!("Analyses of seed {}:\n\n{}", first.seed, analyses.text(shown(ANALYSED_ROWS))));
    }
    parts.push(digests(runs));
    parts.join("\n")
}

/// Fits a line to the terminal, and keeps its indentation.
fn fitted(line: &str) -> String {
    let text = line.trim_start();
    fit_text(text, &line[..line.len() - text.len()])
}

/// Describes the run and its changes to the file and the kernel.
fn head(name: &str, plan: &Plan, changes: &[String], runs: &[Done]) -> String {
    let config = &plan.config;
    let end = runs.first().map_or(0, |run| run.outcome.end);
    let default = if plan.machine_by_default { ", the default" } else { "" };
    let stopped = if runs.iter().any(|run| run.outcome.interrupted) { ", stopped early" } else { "" };
    let mut with = String::new();
    for change in changes {
        with.extend(["  with ", change, "\n"]);
    }
    format!(
        "{name} under {} on {}{default}\n{} Hz, preempt {}, costs {}, {} s simulated{stopped}\n{with}",
        policies::words(&plan.kernel),
        machine_words(plan),
        config.machine.hz,
        config.effective_preempt().name(),
        plan.costs,
        end as f64 / 1e9,
    )
}
