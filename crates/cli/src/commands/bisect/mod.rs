//! `vruntime bisect`.

mod search;

use miette::miette;
use serde_json::{Value, json};
use vruntime_report::{Figure, Results, fit_text, grid};
use vruntime_sched::Kernel;
use vruntime_sched::kernels::{Difference, nearest};
use vruntime_sim::Config;

use self::search::{Effect, Found, Ran, Runner, values};
use crate::args::Bisect;
use crate::input::{self, Input};
use crate::plan::{Plan, machine_words, plan};
use crate::simulate::{self, Job};
use crate::{Ended, error_place, output};

pub(crate) fn bisect(bisect: &Bisect) -> miette::Result<Ended> {
    if !input::is_workload(&bisect.file) {
        let help =
            "give an rt-app file, a scenario or an example; `vruntime trace workload` makes a scenario of a trace";
        return Err(miette!(help = help, "{} is a trace", bisect.file.display()));
    }
    let figure = bisect.metric.as_deref().map(figure).transpose()?;
    let input = input::read(&bisect.file, bisect.duration, false)?;
    let planned = |kernel: &str| {
        let mut plan = plan(&input, Some(kernel), bisect.machine.as_deref(), &bisect.model)?;
        plan.config.duration = bisect.duration;
        Ok::<Plan, miette::Report>(plan)
    };
    let (from, to) = (planned(&bisect.from)?, planned(&bisect.to)?);
    let differences = from.config.kernel.differences(&to.config.kernel).ok_or_else(|| {
        let help = "choose two kernels up to 2.6.23 of one policy, or two from 3.10 on";
        miette!(help = help, "nothing lies between Linux {} and Linux {}", bisect.from, bisect.to)
    })?;
    let mut runs = Runs { input: &input, plan: &from, seeds: bisect.seeds, figure: None };
    let mut ends = runs.run(&[from.config.kernel.clone(), to.config.kernel.clone()])?;
    let (Some(mut last), Some(mut first)) = (ends.pop(), ends.pop()) else { return Ok(Ended::Interrupted) };
    let Some(figure) = figure.or_else(|| Figure::standing_out(&first.results, &last.results)) else {
        output::print(&format!(
            "{}\n",
            fit_text(&format!("nothing differs between {} and {}", bisect.from, bisect.to), "")
        ));
        return Ok(Ended::Well);
    };
    (first.values, last.values) = (values(&figure, &first.results), values(&figure, &last.results));
    if first.values.is_empty() || last.values.is_empty() {
        return Err(unknown_subject(&figure, &first.results));
    }
    runs.figure = Some(figure.clone());
    let found = search::search(&from.config.kernel, &to.config.kernel, &differences, &mut runs, (first, last))?;
    if crate::interrupt::asked() {
        return Ok(Ended::Interrupted);
    }
    if bisect.json {
        output::print_json(&report_json(bisect, &figure, &found));
    } else {
        let what = format!("{} on {}, {} seeds", input.name, machine_words(&from), bisect.seeds);
        output::print(&report(bisect, &what, &figure, &found, &to.config.kernel));
    }
    Ok(Ended::Well)
}

/// The figure of that name.
fn figure(name: &str) -> miette::Result<Figure> {
    Figure::named(name).ok_or_else(|| {
        let keys = Figure::keys();
        let meant = nearest(name.split('(').next().unwrap_or(name), &keys);
        let meant = meant.map_or_else(String::new, |key| format!("did you mean `{key}(CLASS)`? "));
        let help = format!(
            "{meant}write METRIC(CLASS) or METRIC(/GROUP), such as late_p99(web/worker); metrics are {}",
            keys.join(", ")
        );
        miette!(help = help, "there is no metric `{name}`")
    })
}

fn unknown_subject(figure: &Figure, runs: &[Results]) -> miette::Report {
    let classes =
        runs.first().map_or_else(Vec::new, |run| run.classes.iter().map(|class| class.name.as_str()).collect());
    let groups = runs.first().map_or_else(Vec::new, |run| run.groups.iter().map(|group| group.path.as_str()).collect());
    let help = format!("classes are {}; groups are {}", classes.join(", "), groups.join(", "));
    miette!(help = help, "no run has {}", figure.name())
}

/// Runs a workload under kernels.
struct Runs<'a> {
    input: &'a Input,
    plan: &'a Plan,
    seeds: u16,
    figure: Option<Figure>,
}

impl Runner for Runs<'_> {
    type Error = miette::Report;

    fn run(&mut self, kernels: &[Kernel]) -> miette::Result<Vec<Ran>> {
        let first = self.plan.config.seed;
        let seeds = || (0..self.seeds).map(|index| first.wrapping_add(u64::from(index)));
        let config = |kernel: &Kernel, seed| Config { kernel: kernel.clone(), seed, ..self.plan.config.clone() };
        let jobs: Vec<Job<'_>> = kernels
            .iter()
            .flat_map(|kernel| seeds().map(|seed| Job::new(&self.input.workload, config(kernel, seed), kernel.name)))
            .collect();
        let done =
            simulate::all(&jobs).into_iter().map(|run| run.map_err(|failure| error_place::report(self.input, failure)));
        let done = done.collect::<miette::Result<Vec<_>>>()?;
        let of_kernels = done.chunks(usize::from(self.seeds)).map(|runs| {
            let results: Vec<Results> = runs.iter().map(|run| run.results.clone()).collect();
            let values = self.figure.as_ref().map_or_else(Vec::new, |figure| values(figure, &results));
            // Of many combinations only the figure is wanted.
            let results = if self.figure.is_some() { Vec::new() } else { results };
            Ran { values, digests: runs.iter().map(|run| run.digest).collect(), results }
        });
        Ok(of_kernels.collect())
    }
}

/// Parts of the whole, in percent.
fn percent(part: f64, total: f64) -> f64 {
    if total == 0.0 { 0.0 } else { 100.0 * part / total }
}

/// The differences by name: of behaviours the releases that have them, of features which kernel has them on.
fn names(bisect: &Bisect, differences: &[Difference], to: &Kernel) -> String {
    let names: Vec<String> = differences
        .iter()
        .map(|one| match one {
            Difference::Feature(feature) if to.features.has(*feature) => {
                format!("`{}` (on in {})", one.name(), bisect.to)
            }
            Difference::Feature(_) => format!("`{}` (on in {})", one.name(), bisect.from),
            _ if one.releases().is_empty() => format!("`{}`", one.name()),
            _ => format!("`{}` ({})", one.name(), one.releases()),
        })
        .collect();
    names.join(" and ")
}

/// The answer, in sentences.
fn answer(bisect: &Bisect, figure: &Figure, found: &Found, to: &Kernel) -> String {
    let (total, noise) = (found.total(), found.noise());
    let seeds = if bisect.seeds > 1 { format!(", seeds ± {}", figure.text(noise)) } else { String::new() };
    let unit = if figure.unit().is_empty() { String::new() } else { format!(", {}", figure.unit()) };
    let moved = format!(
        "{}{unit}: {} under {}, {} under {}{seeds}.",
        figure.phrase(),
        figure.text(found.from.mean()),
        bisect.from,
        figure.text(found.to.mean()),
        bisect.to
    );
    if total.abs() <= noise || !figure.matters(found.from.mean(), found.to.mean()) {
        return format!("{moved} The difference is within the spread of the seeds, or too small to matter.");
    }
    if found.together.is_empty() {
        return format!("{moved} No set of differences was found that explains it.");
    }
    let of = figure.text(total.abs());
    let share = percent(found.joint, total).round();
    let mut text = format!("{moved} {share} % of the {of} comes from {}.", names(bisect, &found.together, to));
    let switches: Vec<String> = found.together.iter().filter_map(|one| switch(*one, to)).collect();
    if !switches.is_empty() {
        text.extend([" To undo it on a real kernel: ", &switches.join("; "), "."]);
    }
    let rest = total - found.joint;
    if rest.abs() <= noise {
        text.push_str(" The rest is within noise.");
    } else {
        text.extend([" The rest, ", &figure.text(rest), ", comes from the other differences together."]);
    }
    text
}

/// What switches a difference off on a real kernel of the second kind.
fn switch(difference: Difference, to: &Kernel) -> Option<String> {
    let on = match difference {
        Difference::Feature(feature) => to.features.has(feature),
        Difference::Behaviour(behaviour) => to.behaviours.has(behaviour),
        _ => true,
    };
    Some(difference.switch(on))
        .filter(|switch| !switch.is_empty() && (on || matches!(difference, Difference::Feature(_))))
}

fn report(bisect: &Bisect, what: &str, figure: &Figure, found: &Found, to: &Kernel) -> String {
    let total = found.total();
    let mut text = format!("{}\n\n{}\n\n", fit_text(what, ""), fit_text(&answer(bisect, figure, found, to), ""));
    let moves = |effect: &&Effect| effect.alone != 0.0 || effect.left_out != 0.0;
    let silent = found.effects.iter().filter(|effect| !moves(effect)).count();
    let lines = found.effects.iter().filter(moves).map(|effect| {
        let Effect { difference, alone, left_out, with } = effect;
        let together = if found.together.contains(difference) { "yes" } else { "" };
        let with = if with.is_empty() {
            String::new()
        } else {
            format!("; with {}", with.iter().map(|one| one.name()).collect::<Vec<_>>().join(", "))
        };
        vec![
            difference.name().to_owned(),
            figure.text(*alone),
            figure.text(*left_out),
            format!("{} %", percent(effect.mean(), total).round() as i64),
            together.to_owned(),
            format!("{}{with}", difference.what()),
        ]
    });
    let alone = format!("alone on {}", bisect.from);
    let left_out = format!("lost without, {}", bisect.to);
    let head = ["difference", alone.as_str(), left_out.as_str(), "share", "explains", "what it does"];
    text.push_str(&grid(&head, 6, lines));
    let counts = format!(
        "{} of {} differences change events here, {silent} of these without moving the figure; {} combinations were run",
        found.effects.len(),
        found.of,
        found.combinations
    );
    text.extend(["\n", &counts, "\n"]);
    for name in [&bisect.from, &bisect.to] {
        if let Some(note) = super::behaviours::unverified(name) {
            text.extend([&fit_text(&note, ""), "\n"]);
        }
    }
    text
}

fn report_json(bisect: &Bisect, figure: &Figure, found: &Found) -> Value {
    let total = found.total();
    let effects: Vec<Value> = found
        .effects
        .iter()
        .map(|effect| {
            json!({
                "difference": effect.difference.name(),
                "releases": effect.difference.releases(),
                "alone": effect.alone,
                "left_out": effect.left_out,
                "share_percent": percent(effect.mean(), total),
                "with": effect.with.iter().map(|one| one.name()).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "metric": figure.name(),
        "from": {"kernel": bisect.from, "mean": found.from.mean(), "values": found.from.values},
        "to": {"kernel": bisect.to, "mean": found.to.mean(), "values": found.to.values},
        "noise": found.noise(),
        "explained_by": found.together.iter().map(|one| one.name()).collect::<Vec<_>>(),
        "explained": found.joint,
        "explained_percent": percent(found.joint, total),
        "effects": effects,
        "differences": found.of,
        "combinations": found.combinations,
    })
}
