//! Sentences on a comparison: notable changes, and limits and entitlements that explain them.

use std::collections::BTreeSet;

use super::metrics::{Family, RUN_DELAY, Subject};
use super::rows::Row;
use super::{Comparison, Figure};
use crate::explain::{Explained, capital};
use crate::printable::printable;
use crate::spread::{Spread, certain};
use crate::table::wrap;
use crate::units::{OF_A_CPU, printed, three};

/// The most changes beside the first.
const ALSO: usize = 4;
const REASONS: usize = 4;

struct Standout<'a> {
    /// Whether its tasks have a noticeable part of a CPU. Others are last.
    weighs: bool,
    /// Absolute logarithm of the ratio.
    score: f64,
    row: &'a Row<'a>,
    variant: usize,
    base: Spread,
    other: Spread,
    /// Number of tasks whose waits the figure adds up. 1 for other figures.
    summed: usize,
}

impl Standout<'_> {
    fn is_rise(&self) -> bool {
        self.other.mean > self.base.mean
    }

    /// Orders sentences: tasks with CPU time, response times, other latency and throughput, large changes.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let tier = |standout: &Self| standout.row.metric.family.tier();
        (other.weighs.cmp(&self.weighs))
            .then_with(|| tier(self).cmp(&tier(other)))
            .then_with(|| other.score.total_cmp(&self.score))
    }

    /// Returns the change's size, and the word before the reference value.
    fn size(&self) -> (String, &'static str) {
        let (base, other) = (self.base.mean, self.other.mean);
        match other / base {
            _ if base == 0.0 => ("above 0".to_owned(), "but not"),
            ratio if ratio >= 2.0 => (format!("{} times as high", three(ratio)), "as"),
            ratio if ratio > 1.0 => (format!("{:.0} % higher", (ratio - 1.0) * 100.0), "than"),
            _ if other == 0.0 => ("0".to_owned(), "but not"),
            ratio if ratio > 0.01 => (format!("{:.0} % lower", (1.0 - ratio) * 100.0), "than"),
            ratio if ratio > 0.001 => (format!("{:.1} % lower", (1.0 - ratio) * 100.0), "than"),
            _ => ("more than 99.9 % lower".to_owned(), "than"),
        }
    }

    /// `280 ms against 300 ms`, `23 against 133 per second and task`, `150 % of a CPU against 120 % of a CPU, summed
    /// over its 12 tasks`.
    fn figures(&self) -> String {
        let metric = self.row.metric;
        let unit = if self.summed > 1 { OF_A_CPU } else { metric.unit };
        let format = |spread: &Spread| {
            let text = (metric.format)(spread.mean);
            match printed(unit) {
                unit if unit.starts_with('%') || unit == "J" => format!("{text} {unit}"),
                _ => text,
            }
        };
        let rate = if metric.unit.starts_with("per ") { format!(" {}", metric.unit) } else { String::new() };
        let summed = if self.summed > 1 { format!(", summed over its {} tasks", self.summed) } else { String::new() };
        format!("{} against {}{rate}{summed}", format(&self.other), format(&self.base))
    }
}

struct TooFew;

impl Comparison {
    /// Returns [`Self::sentences`] as one text for a terminal.
    pub fn sentence(&self) -> String {
        wrap(&self.sentences().join(" "))
    }

    /// Returns the largest relative change beyond the spread for each kind of figure. The order is: response times,
    /// other latency and throughput, CPU time, limits, switches. Omits percentiles of too few values. Tasks with less
    /// than a thousandth of a CPU in every variant are last, and only without other changes of that kind. Sentences on
    /// entitlements and limits follow.
    pub fn sentences(&self) -> Vec<String> {
        if self.unfinished {
            return vec!["All runs were stopped before their end, so their figures cannot be compared.".to_owned()];
        }
        let without = self.variants.iter().filter(|variant| variant.runs.is_empty());
        let without: Vec<&str> = without.map(|variant| variant.label.as_str()).collect();
        let mut sentences = if self.ran().count() < 2 { Vec::new() } else { self.of_completed() };
        if !without.is_empty() {
            sentences.push(format!("No run of {} was completed, so it has no values.", without.join(", ")));
        }
        sentences
    }

    /// Returns the sentences on variants with values.
    fn of_completed(&self) -> Vec<String> {
        let rows = self.rows();
        let (best, few) = self.standouts(&rows);
        if !rows.is_empty() && !rows.iter().any(|row| row.cells.iter().filter(|cell| cell.is_some()).count() > 1) {
            return vec!["Nothing can be compared: no class of tasks is in more than one of these runs.".to_owned()];
        }
        let Some((first, others)) = best.split_first() else { return vec![self.nothing(few)] };
        let mut main = format!("What stands out: {}", self.change_words(&rows, first));
        if self.repeats() > 1 {
            main.extend([", beyond the spread of ", &self.repeats().to_string(), " repeats"]);
        }
        let others: Vec<String> = others.iter().map(|standout| self.change_words(&rows, standout)).collect();
        let also = (!others.is_empty()).then(|| format!("Also: {}.", others.join("; ")));
        std::iter::once(format!("{main}.")).chain(also).chain(self.reasons(&best)).collect()
    }

    /// Returns the sentence for variants without a notable change.
    fn nothing(&self, few: bool) -> String {
        let labels: Vec<&str> = self.ran().map(|variant| variant.label.as_str()).collect();
        let bound = if self.repeats() > 1 { " beyond the spread of the repeats" } else { "" };
        let labels = labels.join(", ");
        if few {
            format!(
                "Nothing stands out{bound} with {labels}. Some changes rest on too few samples; a longer run or more \
                 seeds can confirm them."
            )
        } else {
            format!("Nothing stands out: no class of tasks and no group fares differently{bound} with {labels}.")
        }
    }

    /// Returns a change, and the opposite change of another latency.
    fn change_words(&self, rows: &[Row<'_>], standout: &Standout<'_>) -> String {
        let mut text = self.words(standout);
        if let Some(counter) = self.counter(rows, standout) {
            let (phrase, (size, _)) = (counter.row.metric.phrase, counter.size());
            text.extend([", while the ", phrase, " is ", &size, " (", &counter.figures(), ")"]);
        }
        text
    }

    /// Returns each family's largest change in order, and whether one was omitted for few samples.
    fn standouts<'a>(&self, rows: &'a [Row<'a>]) -> (Vec<Standout<'a>>, bool) {
        let mut best: Vec<(Family, Standout<'_>)> = Vec::new();
        let mut few = false;
        for row in rows {
            for variant in 1..self.variants.len() {
                let standout = match self.change_of(row, variant) {
                    Ok(Some(standout)) => standout,
                    Ok(None) => continue,
                    Err(TooFew) => {
                        few = true;
                        continue;
                    }
                };
                let family = row.metric.family;
                match best.iter_mut().find(|(known, _)| *known == family) {
                    Some((_, known)) if (known.weighs, known.score) >= (standout.weighs, standout.score) => {}
                    Some((_, known)) => *known = standout,
                    None => best.push((family, standout)),
                }
            }
        }
        let mut best: Vec<Standout<'_>> = best.into_iter().map(|(_, standout)| standout).collect();
        best.sort_by(Standout::cmp);
        best.truncate(1 + ALSO);
        (best, few)
    }

    /// Returns the figures of all notable changes, in the order of sentences.
    pub(super) fn foremost(&self) -> Vec<Figure> {
        let rows = self.rows();
        let changes = rows.iter().flat_map(|row| (1..self.variants.len()).map(move |variant| (row, variant)));
        let mut all: Vec<Standout<'_>> =
            changes.filter_map(|(row, variant)| self.change_of(row, variant).ok().flatten()).collect();
        all.sort_by(Standout::cmp);
        all.iter().map(|standout| Figure::of(standout.row.metric, standout.row.subject)).collect()
    }

    /// Explains the CPU time of these changes' groups, and names limits that throttled them, for both variants. Groups
    /// above their entitlement follow.
    fn reasons(&self, standouts: &[Standout<'_>]) -> Vec<String> {
        let explained: Vec<Explained> = self.variants.iter().map(|variant| Explained::of(&variant.runs)).collect();
        let add = |sentence: String, to: &mut Vec<String>| {
            if !to.contains(&sentence) {
                to.push(sentence);
            }
        };
        let base = |standout: &Standout<'_>| standout.row.base().map_or(0, |(of, _)| of);
        let mut sentences: Vec<String> = Vec::new();
        for standout in standouts {
            let from = base(standout);
            let is_of_limits = matches!(standout.row.metric.family, Family::Cpu | Family::Limits);
            let sides = [from, standout.variant]
                .map(|variant| (variant, self.group_of(standout.row.subject, variant), &explained[variant]));
            let throttled =
                sides.iter().any(|(_, group, explained)| group.is_some_and(|path| explained.is_throttled(path)));
            for (variant, group, explained) in sides.iter().filter(|_| is_of_limits || throttled) {
                let Some(reason) = group.and_then(|path| explained.of_group(path)) else { continue };
                add(capital(&format!("{}, {reason}", under_label(&self.variants[*variant].label))), &mut sentences);
            }
        }
        // A group that gets more is often in no change.
        let named: BTreeSet<usize> = standouts.iter().flat_map(|standout| [base(standout), standout.variant]).collect();
        for variant in named {
            let explained = &explained[variant];
            for reason in explained.above_entitlement().into_iter().filter_map(|path| explained.of_group(path)) {
                add(capital(&format!("{}, {reason}", under_label(&self.variants[variant].label))), &mut sentences);
            }
        }
        sentences.truncate(REASONS);
        sentences
    }

    /// Returns the row's group, or the group of all tasks of the class.
    fn group_of<'a>(&'a self, subject: Subject<'a>, variant: usize) -> Option<&'a str> {
        let name = match subject {
            Subject::Group(path) => return Some(path),
            Subject::Class(name) => name,
            Subject::Machine => return None,
        };
        let run = self.variants[variant].runs.first()?;
        let class = run.classes.iter().find(|class| class.name == name)?;
        run.groups.get(class.group?).map(|group| group.path.as_str())
    }

    /// Returns the largest opposite change of another latency of the tasks: a median can fall while the tail grows.
    fn counter<'a>(&self, rows: &'a [Row<'a>], standout: &Standout<'_>) -> Option<Standout<'a>> {
        let (whose, family) = (standout.row.subject, standout.row.metric.family);
        if !matches!(family, Family::Response | Family::Latency) {
            return None;
        }
        let same = rows.iter().filter(|row| row.subject == whose && row.metric.family == family);
        let changes = same.filter_map(|row| self.change_of(row, standout.variant).ok()?);
        let counters = changes.filter(|change| change.is_rise() != standout.is_rise());
        counters.max_by(|a, b| a.score.total_cmp(&b.score))
    }

    /// Returns a row's change, if it is beyond the spread and large enough.
    ///
    /// # Errors
    /// If there are too few samples.
    fn change_of<'a>(&self, row: &'a Row<'a>, variant: usize) -> Result<Option<Standout<'a>>, TooFew> {
        let Some((base, other)) = row.pair(variant) else { return Ok(None) };
        let Some((from, to)) = certain(base, other) else { return Ok(None) };
        if !row.metric.matters(from, to) {
            return Ok(None);
        }
        if !row.is_of_enough(variant) {
            return Err(TooFew);
        }
        let floor = row.metric.floor;
        let score = ((to + floor) / (from + floor)).ln().abs();
        let summed = if row.metric.key == RUN_DELAY { self.tasks_of(row.subject, variant) } else { 1 };
        Ok(Some(Standout { weighs: self.weighs(row), score, row, variant, base, other, summed }))
    }

    /// Returns the number of tasks of a class or group in a variant's first run.
    fn tasks_of(&self, subject: Subject<'_>, variant: usize) -> usize {
        let first = self.variants[variant].runs.first().zip(self.indexes[variant].first());
        let tasks = first.and_then(|(run, index)| match subject {
            Subject::Class(name) => index.class(run, name).map(|class| class.tasks),
            Subject::Group(path) => index.group(run, path).map(|group| group.tasks),
            Subject::Machine => None,
        });
        tasks.unwrap_or(1)
    }

    fn words(&self, standout: &Standout<'_>) -> String {
        let Standout { row, variant, .. } = standout;
        let of = row.base().map_or(0, |(of, _)| of);
        let (with, than) = (&self.variants[*variant].label, &self.variants[of].label);
        let (size, link) = standout.size();
        let (phrase, whose, figures) = (row.metric.phrase, whose(row.subject), standout.figures());
        let (with, than) = (with_label(with), with_label(than));
        let (link, than) = match (link, than.strip_prefix("as ")) {
            // `twice as high as in the file`, `0, but not in the file`
            ("as", Some(_)) => (String::new(), than),
            ("but not", Some(file)) => ("but not ".to_owned(), file.to_owned()),
            _ => (format!("{link} "), than),
        };
        format!("the {phrase} of {whose} is {size} {with} {link}{than} ({figures})")
    }
}

/// Returns `with 6.12`, or `as in the file` for a file without the rules of a what-if.
fn with_label(label: &str) -> String {
    match label.strip_suffix("the file") {
        Some("") => "as in the file".to_owned(),
        Some(others) if others.ends_with(", ") => format!("with {others}as in the file"),
        _ => format!("with {label}"),
    }
}

/// Returns `with 6.12`, or `without the change` for a file without the rules of a what-if.
fn under_label(label: &str) -> String {
    match label.strip_suffix("the file") {
        Some("") => "without the change".to_owned(),
        Some(others) if others.ends_with(", ") => format!("with {others}without the change"),
        _ => format!("with {label}"),
    }
}

fn whose(subject: Subject<'_>) -> String {
    match subject {
        Subject::Class(class) => format!("`{}`", printable(class)),
        Subject::Group(group) => format!("group `{}`", printable(group)),
        Subject::Machine => "the machine".to_owned(),
    }
}
