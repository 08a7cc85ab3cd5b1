//! `vruntime bisect`.

mod report;
mod search;
mod settings;
mod sides;
mod silent;

use std::path::{Path, PathBuf};

use miette::miette;
use serde_json::Value;
use vruntime_report::{Figure, Page, Results, counted};
use vruntime_sched::kernels::nearest;

use self::report::Report;
use self::search::{Between, Changing, Found, Ran, Seeds};
use self::settings::Files;
use self::sides::{Sides, Space, Variant, values};
use self::silent::Silent;
use super::compared_trace::{ComparedTrace, compared_trace};
use super::html;
use crate::args::Bisect;
use crate::input::{self, Input};
use crate::output_paths::OutputPaths;
use crate::plan::{Plan, machine_words, plan};
use crate::trace_file::cgroups;
use crate::{Ended, interrupt, output, policies, simulate};

pub(crate) fn bisect(bisect: &Bisect) -> miette::Result<Ended> {
    let figure = bisect.metric.as_deref().map(figure).transpose()?;
    checked_outputs(bisect).check()?;
    match &bisect.file {
        None => between_files(bisect, figure),
        Some(file) if input::is_workload(file) => {
            let input = input::read(file, bisect.duration, false)?;
            between_kernels(bisect, figure, &input, None)
        }
        Some(file) => {
            let snapshot = bisect.cgroups.as_deref().map(cgroups).transpose()?;
            let recorded_kernel = bisect.recorded_kernel.as_deref();
            let prepared = compared_trace(file, recorded_kernel, snapshot.as_ref(), &bisect.model, &[])?;
            let Some((input, trace)) = prepared else { return Ok(Ended::Interrupted) };
            between_kernels(bisect, figure, &input, Some(&trace))
        }
    }
}

/// Returns the error of kernels between which no differences are known.
pub(super) fn different_schedulers(from: &str, to: &str) -> miette::Report {
    let help = "choose two kernels from 2.6.15 to 2.6.22, or two from 3.10 on";
    miette!(help = help, "cannot bisect Linux {from} and Linux {to}: they have different schedulers")
}

/// Returns the budget in millions of events. Recordings have long runs of many tasks, and a smaller default.
fn budget(bisect: &Bisect) -> u32 {
    let is_trace = bisect.file.as_deref().is_some_and(|file| !input::is_workload(file));
    bisect.budget.unwrap_or(if is_trace { 300 } else { 1000 })
}

fn seeds(bisect: &Bisect) -> String {
    counted(bisect.seeds.into(), "seed", "seeds")
}

fn checked_outputs(bisect: &Bisect) -> OutputPaths {
    let scenarios = [&bisect.from, &bisect.to].map(PathBuf::from);
    let named = scenarios.iter().filter(|_| bisect.file.is_none());
    let inputs: Vec<&PathBuf> = bisect.file.iter().chain(&bisect.cgroups).chain(named).collect();
    OutputPaths::default().reads(inputs).file("--html", bisect.html.as_deref())
}

/// Bisects two kernels under one workload.
fn between_kernels(
    bisect: &Bisect,
    figure: Option<Figure>,
    input: &Input,
    trace: Option<&ComparedTrace>,
) -> miette::Result<Ended> {
    let planned = |kernel: &str| {
        if let Some((policy, _)) = policies::named(kernel) {
            let (file, name) = (bisect.file.as_deref().unwrap_or(Path::new("FILE")).display(), policy.name());
            let help = format!("`compare {file} --kernel {} --kernel {kernel}` shows what it changes", policy.kernel());
            return Err(miette!(
                help = help,
                "cannot bisect policy `{name}`: between it and a kernel lie no known differences"
            ));
        }
        let mut plan = plan(input, Some(kernel), bisect.machine.as_deref(), &bisect.model)?;
        plan.config.duration = bisect.duration;
        Ok::<Plan, miette::Report>(plan)
    };
    let (from, to) = (planned(&bisect.from)?, planned(&bisect.to)?);
    let differences = from.config.kernel.differences(&to.config.kernel);
    let mut differences = differences.ok_or_else(|| different_schedulers(&bisect.from, &bisect.to))?;
    // Both kernels have the interfaces that the workload uses.
    differences.retain(|difference| !difference.is_interface());
    let mut workload = input.workload.clone();
    let mut notes = Vec::new();
    if let Some(trace) = trace {
        // Fits programs of a trace to the machine.
        super::replay_input::note_left_out(&vruntime_replay::fit(&mut workload, &from.config), &from.config);
        let mut replayed = simulate::all(&[trace.job()]).into_iter();
        if let Some(replayed) = replayed.next() {
            notes.push(trace.check(&replayed?).summary());
        }
    }
    let mut bases = vec![from.config.kernel.name, to.config.kernel.name];
    bases.dedup();
    notes.extend(bases.into_iter().filter_map(super::behaviours::unverified));
    let of = differences.len();
    let space = Space::Kernels { workload: &workload, from: &from.config, to: &to.config, differences };
    let what = format!("{} on {}, {}", input.title(), machine_words(&from), seeds(bisect));
    let sides = Sides::new(space, input, bisect);
    run(bisect, figure, sides, of, [&bisect.from, &bisect.to], &what, notes)
}

/// Bisects two scenario files.
fn between_files(bisect: &Bisect, figure: Option<Figure>) -> miette::Result<Ended> {
    let is_file = |name: &str| Path::new(name).extension().is_some_and(|extension| extension == "toml");
    if !is_file(&bisect.from) || !is_file(&bisect.to) {
        let help = "name a workload or a trace before `--from KERNEL --to KERNEL`, or two scenarios: `--from A.toml --to B.toml`";
        return Err(miette!(help = help, "there is no workload to run"));
    }
    let (input, files) = Files::read(bisect)?;
    let (of, machine) = (files.len(), bisect.machine.as_deref());
    let what = format!("{} and {}, {}", bisect.from, bisect.to, seeds(bisect));
    let what = machine.map_or(what.clone(), |machine| format!("{what}, on {machine}"));
    let sides = Sides::new(Space::Files(Box::new(files)), &input, bisect);
    let short = [&bisect.from, &bisect.to].map(|name| html::short(Path::new(name)));
    let names = if short[0] == short[1] { [bisect.from.clone(), bisect.to.clone()] } else { short };
    run(bisect, figure, sides, of, [&names[0], &names[1]], &what, Vec::new())
}

fn run(
    bisect: &Bisect,
    figure: Option<Figure>,
    mut sides: Sides<'_>,
    of: usize,
    [from, to]: [&str; 2],
    what: &str,
    mut notes: Vec<String>,
) -> miette::Result<Ended> {
    let searched = searched(&mut sides, figure, of);
    if interrupt::asked() {
        return Ok(Ended::Interrupted);
    }
    let words = sides.space.words(from, to);
    let (seeds, budget, events) = (sides.seeds, budget(bisect), sides.budget.spent);
    if seeds < bisect.seeds {
        let asked = counted(bisect.seeds.into(), "seed", "seeds");
        notes.push(format!(
            "{seeds} instead of {asked}: the runs of both sides would need more than a third of the budget."
        ));
    }
    // Clears the progress bar.
    drop(sides);
    match searched? {
        Searched::Silent(changing) => {
            let silent = Silent { from, to, what, seeds, budget, events, words, changing, notes };
            show(bisect, || silent.page(), || silent.json(), || silent.text())
        }
        Searched::Found(figure, found) => {
            let what = what.to_owned();
            let report = Report { from, to, what, figure: &figure, found: &found, words, seeds, budget, events, notes };
            show(bisect, || report.page(), || report.json(), || report.text())
        }
    }
}

/// Prints the answer, and writes its page.
fn show(
    bisect: &Bisect,
    page: impl Fn() -> Page,
    json: impl Fn() -> Value,
    text: impl Fn() -> String,
) -> miette::Result<Ended> {
    // Prints the results before errors of writing.
    let written = bisect.html.as_ref().map_or(Ok(()), |path| html::write(&page(), path));
    if bisect.json {
        output::print_json(&json());
    } else {
        output::print(&text());
    }
    written?;
    Ok(Ended::Well)
}

/// The outcome of a search.
enum Searched {
    /// No figure stands out. `None`: no event differs.
    Silent(Option<Changing>),
    Found(Figure, Box<Found>),
}

/// Runs the ends, and searches.
fn searched(sides: &mut Sides<'_>, figure: Option<Figure>, of: usize) -> miette::Result<Searched> {
    let ends = sides.space.ends();
    let [mut first, mut last] = sides.run_ends()?;
    let is_named = figure.is_some();
    let figure = if is_named { figure } else { standing_out(sides, &ends, [&first, &last])? };
    sides.keeps_results = false;
    let Some(figure) = figure else { return silent(sides, of, [&first, &last]) };
    (first.values, last.values) = (values(&figure, &first.results), values(&figure, &last.results));
    if first.values.is_empty() || last.values.is_empty() {
        return Err(unknown_subject(&figure, &first.results));
    }
    sides.figure = Some(figure.clone());
    // What stands out is large enough to matter, and has stood out with other seeds. A figure that the user named
    // matters in any case, but may differ by chance. Two seeds are too few to show a difference again.
    let mut fresh = None;
    if is_named && sides.seeds > 2 && search::may_differ_by_chance([&first, &last]) {
        fresh = <[Ran; 2]>::try_from(sides.run(&ends, Seeds::Fresh)?).ok();
    }
    let found = search::search(sides, of, (first, last), fresh.as_ref())?;
    Ok(Searched::Found(figure, Box::new(found)))
}

/// Returns the figure that stands out most, if it does so again with as many other seeds.
///
/// There are hundreds of figures, and by chance the ranges of some are apart. Those of tasks with little CPU time, such
/// as kernel threads, come after the others.
fn standing_out<'a>(
    sides: &mut Sides<'a>,
    ends: &[Variant<'a>],
    [first, last]: [&Ran; 2],
) -> miette::Result<Option<Figure>> {
    let mut figures = Figure::standing_out(&first.results, &last.results);
    figures.sort_by_key(|figure| rank(figure, &first.results, &last.results));
    if figures.is_empty() {
        return Ok(None);
    }
    let fresh = sides.run(ends, Seeds::Fresh)?;
    let [from, to] = &fresh[..] else { return Ok(None) };
    let again = |figure: &Figure| {
        let rises = figure.rises(&from.results, &to.results);
        rises.is_some() && rises == figure.rises(&first.results, &last.results)
    };
    Ok(figures.into_iter().find(again))
}

/// Returns the rank of a figure: 0 for groups and busy classes, 1 for other classes, 2 for the machine. A busy class
/// has 1 % of the CPU time or more on either side.
fn rank(figure: &Figure, from: &[Results], to: &[Results]) -> u8 {
    const SMALL: u64 = 100;
    let name = figure.name();
    let Some((_, subject)) = name.split_once('(') else { return 2 };
    let subject = subject.trim_end_matches(')');
    let is_busy = |runs: &[Results]| {
        runs.iter().any(|run| {
            let all: u64 = run.classes.iter().map(|class| class.account.cpu_ns).sum();
            let own = run.classes.iter().find(|class| class.name == subject).map_or(0, |class| class.account.cpu_ns);
            own.saturating_mul(SMALL) >= all.max(1)
        })
    };
    u8::from(!(subject.starts_with('/') || is_busy(from) || is_busy(to)))
}

/// Searches for the differences that change any event.
fn silent(sides: &mut Sides<'_>, of: usize, ends: [&Ran; 2]) -> miette::Result<Searched> {
    let differ = ends[0].digests != ends[1].digests;
    Ok(Searched::Silent(if differ { Some(search::changing(sides, of, ends)?) } else { None }))
}

fn figure(name: &str) -> miette::Result<Figure> {
    Figure::named(name).ok_or_else(|| {
        let (keys, of_machine) = (Figure::keys(), Figure::machine_keys());
        let meant = nearest(name.split('(').next().unwrap_or(name), &keys);
        let whose = |key: &str| if of_machine.contains(&key) { "" } else { "(CLASS)" };
        let meant = meant.map_or_else(String::new, |key| format!("did you mean `{key}{}`? ", whose(key)));
        let others: Vec<&str> = keys.iter().copied().filter(|key| !of_machine.contains(key)).collect();
        let help = format!(
            "{meant}write METRIC(CLASS) or METRIC(/GROUP), such as late_p99(web/worker); metrics are {}; \
             metrics of the machine, without a class, are {}",
            others.join(", "),
            of_machine.join(", ")
        );
        miette!(help = help, "there is no metric `{name}`")
    })
}

fn unknown_subject(figure: &Figure, runs: &[Results]) -> miette::Report {
    if Figure::machine_keys().contains(&figure.name().as_str()) {
        let help = "only a machine that states the power of its CPUs has an energy (docs/capacity.md)";
        return miette!(help = help, "no run has the figure {}", figure.name());
    }
    let classes =
        runs.first().map_or_else(Vec::new, |run| run.classes.iter().map(|class| class.name.as_str()).collect());
    let groups = runs.first().map_or_else(Vec::new, |run| run.groups.iter().map(|group| group.path.as_str()).collect());
    let help =
        format!("name one of these tasks: {}; or one of these groups: {}", classes.join(", "), groups.join(", "));
    miette!(help = help, "no run has the figure {}", figure.name())
}
