//! Two or more runs side by side: values, spread over repeats, changes, and what stands out.

mod metrics;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::data::{Cell, Column, DataTable, Kind};
use crate::printable::printable;
use crate::results::{Account, GroupResult, Results};
use crate::table::{grid, name_of};
use crate::units::three;
use metrics::{ENERGY, Family, IDLE_WAITS, Index, Metric, OF_CLASSES, OF_GROUPS, Subject};

/// One of the things compared: a kernel, a machine, a file, or a combination.
#[derive(Clone, Debug)]
pub struct Variant {
    /// What people call it, such as `6.12`.
    pub label: String,
    /// Its runs, one a seed; at least one.
    pub runs: Vec<Results>,
}

/// Variants side by side; the first is what the others are compared with.
#[derive(Clone, Debug)]
pub struct Comparison {
    variants: Vec<Variant>,
    /// Of each run of each variant.
    indexes: Vec<Vec<Index>>,
    /// Some were stopped: nothing is said of what differs.
    unfinished: bool,
}

/// So many of those that are left out are named.
const NAMED: usize = 12;

/// Tasks of a class that has less of a CPU in every variant do not lead: what they see is chance more often than not.
const NEXT_TO_NOTHING: f64 = 0.001;

/// Mean and range over a variant's runs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    mean: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Option<Self> {
        let first = *values.first()?;
        let (min, max) = values.iter().fold((first, first), |(min, max), &value| (min.min(value), max.max(value)));
        Some(Self { mean: values.iter().sum::<f64>() / values.len() as f64, min, max })
    }

    /// Whether nothing differs at all.
    fn is(self, other: Self) -> bool {
        self.mean.to_bits() == other.mean.to_bits()
    }

    /// Whether the ranges share no value: what separates them is more than chance between seeds.
    fn apart(self, other: Self) -> bool {
        self.max < other.min || other.max < self.min
    }
}

/// What is certain of a change: the near ends of the two ranges; none if they share a value.
fn certain(base: Spread, other: Spread) -> Option<(f64, f64)> {
    let ends = if base.max < other.min { (base.max, other.min) } else { (base.min, other.max) };
    base.apart(other).then_some(ends)
}

struct Row<'a> {
    subject: Subject<'a>,
    /// A class, and how many tasks it has, or a group.
    name: String,
    metric: &'static Metric,
    /// One a variant.
    cells: Vec<Option<Spread>>,
    /// How many sleeps, wakeups or loops each variant's cell is of.
    samples: Vec<u64>,
}

impl Row<'_> {
    /// Whether it is that of a class, too: CPU time and waits of a group that is one of `of_one_class`.
    fn is_told(&self, of_one_class: &BTreeSet<&str>) -> bool {
        let shared = OF_CLASSES.iter().any(|metric| metric.key == self.metric.key);
        matches!(self.subject, Subject::Group(path) if shared && of_one_class.contains(path))
    }

    /// Whether enough is behind the reference's cell and this one to make a sentence of their difference.
    fn is_of_enough(&self, variant: usize) -> bool {
        [0, variant].iter().all(|&index| self.samples[index] >= self.metric.least)
    }
}

struct Standout<'a> {
    /// Whether its tasks have CPU time to speak of: those that have come first.
    weighs: bool,
    score: f64,
    row: &'a Row<'a>,
    variant: usize,
    base: Spread,
    other: Spread,
}

impl Comparison {
    /// Compares the variants, the first being the reference. None if there are fewer than two, or one has no run.
    pub fn new(variants: Vec<Variant>) -> Option<Self> {
        (variants.len() >= 2 && variants.iter().all(|variant| !variant.runs.is_empty())).then(|| Self::of(variants))
    }

    fn of(variants: Vec<Variant>) -> Self {
        let indexes = variants.iter().map(|variant| variant.runs.iter().map(Index::new).collect()).collect();
        Self { variants, indexes, unfinished: false }
    }

    /// The same of runs that were stopped somewhere: their figures are of unequal lengths of time, and nothing stands out.
    #[must_use]
    pub fn unfinished(self) -> Self {
        Self { unfinished: true, ..self }
    }

    /// What is compared.
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }

    fn repeats(&self) -> usize {
        self.variants.iter().map(|variant| variant.runs.len()).max().unwrap_or(0)
    }

    /// Of every class, of every group but the root, and of the machine.
    fn rows(&self) -> Vec<Row<'_>> {
        let mut sizes: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let mut classes = Vec::new();
        for class in self.variants.iter().flat_map(|variant| &variant.runs[0].classes) {
            let (least, most) = sizes.entry(&class.name).or_insert_with(|| {
                classes.push(class.name.as_str());
                (class.tasks, class.tasks)
            });
            (*least, *most) = ((*least).min(class.tasks), (*most).max(class.tasks));
        }
        let mut rows = Vec::new();
        for class in classes {
            let (least, most) = sizes[class];
            let name =
                if least == most { name_of(class, least) } else { format!("{} x{least} to {most}", printable(class)) };
            rows.extend(OF_CLASSES.iter().map(|metric| self.row(Subject::Class(class), &name, metric)));
        }
        let mut known = BTreeSet::new();
        let groups = self.variants.iter().flat_map(|variant| variant.runs[0].groups.iter().skip(1));
        for path in groups.map(|group| group.path.as_str()).filter(|path| known.insert(*path)) {
            let name = format!("group {}", elided(&printable(path)));
            // What no limit did is nothing to tell.
            let limited = self.groups_at(path).any(|group| group.limit.is_some());
            let metrics = OF_GROUPS.iter().filter(|metric| limited || metric.family != Family::Limits);
            rows.extend(metrics.map(|metric| self.row(Subject::Group(path), &name, metric)));
        }
        let energy = self.row(Subject::Machine, "machine", &ENERGY);
        rows.extend(energy.cells.iter().any(Option::is_some).then_some(energy));
        rows
    }

    /// That group, in every run that has it.
    fn groups_at(&self, path: &str) -> impl Iterator<Item = &GroupResult> {
        let runs = self.variants.iter().flat_map(|variant| &variant.runs).zip(self.indexes.iter().flatten());
        runs.filter_map(move |(run, index)| index.group(run, path))
    }

    /// The groups whose tasks are, in every variant, all those of one class and no others: what they get is what it gets.
    fn of_one_class(&self) -> BTreeSet<&str> {
        let each = self.variants.iter().map(|variant| of_one_class(&variant.runs[0]));
        each.reduce(|all, other| &all & &other).unwrap_or_default()
    }

    fn row<'a>(&'a self, subject: Subject<'a>, name: &str, metric: &'static Metric) -> Row<'a> {
        let cells = self.variants.iter().zip(&self.indexes).map(|(variant, indexes)| {
            let runs = variant.runs.iter().zip(indexes);
            let values: Vec<f64> = runs.filter_map(|(run, index)| metric.value_of(run, index, subject)).collect();
            Spread::of(&values)
        });
        let samples = self.variants.iter().zip(&self.indexes).map(|(variant, indexes)| match subject {
            Subject::Class(name) => {
                let runs = variant.runs.iter().zip(indexes);
                let classes = runs.filter_map(|(run, index)| index.class(run, name));
                classes.map(metric.samples).fold(0, u64::saturating_add)
            }
            Subject::Group(_) | Subject::Machine => 0,
        });
        Row { subject, name: name.to_owned(), metric, cells: cells.collect(), samples: samples.collect() }
    }

    /// The table: for each class of tasks the metrics that change, each variant's mean with its spread and the change
    /// against the first. Changes within the spread (marked `~` where another variant's is beyond it) and those too small
    /// to matter are left out, and told of in a line.
    pub fn table(&self) -> String {
        let all = self.differing();
        let count = all.len();
        let mut seen: BTreeSet<Subject<'_>> =
            all.iter().filter(|row| self.changes(row)).map(|row| row.subject).collect();
        let mut silent: Vec<String> =
            all.iter().filter(|row| seen.insert(row.subject)).map(|row| row.name.clone()).collect();
        if silent.len() > NAMED {
            let more = silent.split_off(NAMED).len();
            silent.push(format!("{more} more"));
        }
        let rows: Vec<Row<'_>> = all.into_iter().filter(|row| self.changes(row)).collect();
        let left_out = count - rows.len();
        let mut text = if rows.is_empty() { String::new() } else { self.tables(&rows) };
        if left_out > 0 {
            let within = if self.repeats() > 1 { "within the spread or " } else { "" };
            let mut line = format!("left out, {within}too small to matter: {left_out} of {count} rows");
            if !silent.is_empty() {
                line.extend([", all those of ", &silent.join(", ")]);
            }
            line.push_str(" (--all shows them)");
            text.extend([&wrap(&line), "\n"]);
        }
        text
    }

    /// The table with every row that differs in any digit, and the CPU time of all.
    pub fn whole_table(&self) -> String {
        self.tables(&self.differing())
    }

    /// The rows that differ in any digit, and each one's CPU time: first of the classes that fare differently, then of
    /// the others; among these of those with most CPU time. Of a class all rows are together. Groups follow in the same order, and what the
    /// machine as a whole takes is last.
    fn differing(&self) -> Vec<Row<'_>> {
        let differs = |row: &Row<'_>| {
            let shown: Vec<String> = row.cells.iter().map(|cell| value(row.metric, *cell)).collect();
            row.metric.key == "share" || shown.iter().any(|other| *other != shown[0])
        };
        let told = self.of_one_class();
        let mut rows: Vec<Row<'_>> =
            self.rows().into_iter().filter(|row| !row.is_told(&told) && differs(row)).collect();
        // Whether it fares differently, and its CPU time. The sort is stable: of equal ones the first in the files is first.
        let mut places: BTreeMap<Subject<'_>, (bool, f64)> = BTreeMap::new();
        for row in &rows {
            let changes = self.changes(row);
            places.entry(row.subject).or_insert_with(|| (false, self.cpu(row.subject))).0 |= changes;
        }
        let kind = |subject| match subject {
            Subject::Class(_) => 0,
            Subject::Group(_) => 1,
            Subject::Machine => 2,
        };
        rows.sort_by(|a, b| {
            let [(a_fares, a_cpu), (b_fares, b_cpu)] = [a, b].map(|row| places[&row.subject]);
            kind(a.subject)
                .cmp(&kind(b.subject))
                .then_with(|| b_fares.cmp(&a_fares))
                .then_with(|| b_cpu.total_cmp(&a_cpu))
        });
        rows
    }

    /// The CPU time of a class or group in the variant in which it has most, as a part of one CPU: the mean over the runs.
    fn cpu(&self, subject: Subject<'_>) -> f64 {
        let of_run = |(run, index): (&Results, &Index)| match subject {
            Subject::Class(class) => Some(run.share(index.class(run, class)?.account.cpu_ns)),
            Subject::Group(group) => Some(run.share(index.group(run, group)?.cpu_ns)),
            Subject::Machine => Some(run.share(run.account.cpu_ns)),
        };
        let mean = |(variant, indexes): (&Variant, &Vec<Index>)| {
            variant.runs.iter().zip(indexes).filter_map(of_run).sum::<f64>() / variant.runs.len() as f64
        };
        self.variants.iter().zip(&self.indexes).map(mean).fold(0.0, f64::max)
    }

    /// Whether the tasks of a row have CPU time to speak of in any variant; the machine always has.
    fn weighs(&self, row: &Row<'_>) -> bool {
        row.subject == Subject::Machine || self.cpu(row.subject) >= NEXT_TO_NOTHING
    }

    /// Whether a variant differs from the first beyond the spread, and by enough to matter. Tasks that are not in all of
    /// them matter if they have CPU time to speak of.
    fn changes(&self, row: &Row<'_>) -> bool {
        (1..self.variants.len()).any(|variant| match (row.cells[0], row.cells[variant]) {
            (Some(base), Some(other)) => certain(base, other).is_some_and(|(from, to)| row.metric.matters(from, to)),
            (None, None) => false,
            _ => self.weighs(row),
        })
    }

    fn tables(&self, rows: &[Row<'_>]) -> String {
        // Each block repeats the reference, so that a block fits the width.
        let per_block = if self.repeats() > 1 { 2 } else { 3 };
        let others: Vec<usize> = (1..self.variants.len()).collect();
        let blocks = others.chunks(per_block).map(|block| self.block(rows, block));
        blocks.collect::<Vec<String>>().join("\n")
    }

    fn block(&self, rows: &[Row<'_>], others: &[usize]) -> String {
        let mut head = vec!["tasks", "", self.variants[0].label.as_str()];
        for &other in others {
            head.extend([self.variants[other].label.as_str(), "change"]);
        }
        let mut last = None;
        let mut lines: Vec<Vec<String>> = Vec::new();
        for row in rows {
            let shown: Vec<String> = row.cells.iter().map(|cell| value(row.metric, *cell)).collect();
            let name = if last == Some(row.subject) { String::new() } else { row.name.clone() };
            last = Some(row.subject);
            let mut line = vec![name, row.metric.name.to_owned(), shown[0].clone()];
            for &other in others {
                line.extend([shown[other].clone(), self.change(row, other)]);
            }
            lines.push(line);
        }
        grid(&head, 2, lines)
    }

    fn change(&self, row: &Row<'_>, other: usize) -> String {
        let (Some(base), Some(other)) = (row.cells[0], row.cells[other]) else { return String::new() };
        let text = if row.metric.unit == "% of a CPU" {
            let points = format!("{:+.2} pp", other.mean - base.mean);
            if ["+0.00 pp", "-0.00 pp"].contains(&points.as_str()) {
                return "0 pp".to_owned();
            }
            points
        } else if base.is(other) {
            "0 %".to_owned()
        } else if base.mean == 0.0 {
            "from 0".to_owned()
        } else {
            let ratio = other.mean / base.mean;
            if ratio >= 10.0 { format!("x{}", three(ratio)) } else { format!("{:+.1} %", (ratio - 1.0) * 100.0) }
        };
        let within = self.repeats() > 1 && !base.apart(other) && !base.is(other);
        if within { format!("~{text}") } else { text }
    }

    /// What stands out, in plain words: the largest relative change beyond the spread, and the largest of each other
    /// kind (latency, CPU time, switches and migrations). Percentiles of a few sleeps, wakeups or loops are no matter
    /// for it. Tasks with less than a thousandth of a CPU in every variant are named if nobody else is of that kind, and
    /// behind all others.
    pub fn sentence(&self) -> String {
        if self.unfinished {
            return "What differs is not told: some were stopped before any of their runs had come to its end."
                .to_owned();
        }
        let rows = self.rows();
        let mut best: Vec<(Family, Standout<'_>)> = Vec::new();
        let mut few = false;
        for row in &rows {
            for variant in 1..self.variants.len() {
                let (Some(base), Some(other)) = (row.cells[0], row.cells[variant]) else { continue };
                let Some((from, to)) = certain(base, other) else { continue };
                let floor = row.metric.floor;
                if !row.metric.matters(from, to) {
                    continue;
                }
                if !row.is_of_enough(variant) {
                    few = true;
                    continue;
                }
                let score = ((to + floor) / (from + floor)).ln().abs();
                let family = row.metric.family;
                let weighs = self.weighs(row);
                let standout = Standout { weighs, score, row, variant, base, other };
                match best.iter_mut().find(|(known, _)| *known == family) {
                    Some((_, known)) if (known.weighs, known.score) >= (weighs, score) => {}
                    Some((_, known)) => *known = standout,
                    None => best.push((family, standout)),
                }
            }
        }
        best.sort_by(|(_, a), (_, b)| b.weighs.cmp(&a.weighs).then_with(|| b.score.total_cmp(&a.score)));
        if !rows.is_empty() && !rows.iter().any(|row| row.cells.iter().filter(|cell| cell.is_some()).count() > 1) {
            return wrap("Nothing can be compared: no class of tasks is in more than one of these.");
        }
        if best.is_empty() {
            let labels: Vec<&str> = self.variants.iter().map(|variant| variant.label.as_str()).collect();
            let bound = if self.repeats() > 1 { " beyond the spread of the repeats" } else { "" };
            let labels = labels.join(", ");
            return wrap(&if few {
                format!(
                    "Nothing stands out{bound} with {labels} but what rests on too few samples; a longer run or more \
                     seeds would tell."
                )
            } else {
                format!("Nothing stands out: no class of tasks and no group fares differently{bound} with {labels}.")
            });
        }
        let mut text = String::from("What stands out: ");
        for (index, (_, standout)) in best.iter().enumerate() {
            if index == 1 {
                text.push_str(" Also: ");
            } else if index > 1 {
                text.push_str("; ");
            }
            text.push_str(&self.words(standout));
            if index == 0 {
                if self.repeats() > 1 {
                    text.extend([", beyond the spread of ", &self.repeats().to_string(), " repeats"]);
                }
                text.push('.');
            }
        }
        if best.len() > 1 {
            text.push('.');
        }
        wrap(&text)
    }

    fn words(&self, standout: &Standout<'_>) -> String {
        let Standout { row, variant, base, other, .. } = standout;
        let (with, than) = (&self.variants[*variant].label, &self.variants[0].label);
        let format = |spread: &Spread| {
            let text = (row.metric.format)(spread.mean);
            if row.metric.unit.starts_with('%') { format!("{text} {}", row.metric.unit) } else { text }
        };
        let ratio = other.mean / base.mean;
        let (size, link) = match ratio {
            _ if base.mean == 0.0 => ("above 0".to_owned(), "but not"),
            ratio if ratio >= 2.0 => (format!("{} times as high", three(ratio)), "as"),
            ratio if ratio > 1.0 => (format!("{:.0} % higher", (ratio - 1.0) * 100.0), "than"),
            ratio if ratio > 0.5 => (format!("{:.0} % lower", (1.0 - ratio) * 100.0), "than"),
            _ if other.mean == 0.0 => ("0".to_owned(), "but not"),
            ratio => (format!("{} times lower", three(1.0 / ratio)), "than"),
        };
        format!(
            "the {} of {} is {size} with {with} {link} with {than} ({} against {})",
            row.metric.phrase,
            whose(row.subject),
            format(other),
            format(base),
        )
    }

    /// Every metric of every class and group: for each variant the mean over its runs, and the range of them.
    pub fn data_table(&self) -> DataTable {
        let columns = [
            ("class", "Tasks", Kind::Text),
            ("group", "Group", Kind::Text),
            ("metric", "Metric", Kind::Text),
            ("unit", "Unit", Kind::Text),
            ("variant", "Run", Kind::Text),
            ("mean", "Mean", Kind::Number),
            ("min", "Least", Kind::Number),
            ("max", "Most", Kind::Number),
            ("change", "Change", Kind::Share),
        ];
        let mut table = DataTable::new("comparison", "What differs", &columns);
        for row in self.rows() {
            let (class, group) = columns_of(row.subject);
            for (cell, variant) in row.cells.iter().zip(&self.variants) {
                let base = row.cells[0].map(|base| base.mean).filter(|mean| *mean != 0.0);
                let change = base.and_then(|base| Some(cell.as_ref()?.mean / base - 1.0));
                table.push(vec![
                    class.into(),
                    group.into(),
                    row.metric.name.into(),
                    row.metric.unit.into(),
                    variant.label.as_str().into(),
                    cell.map(|spread| spread.mean).into(),
                    cell.map(|spread| spread.min).into(),
                    cell.map(|spread| spread.max).into(),
                    change.into(),
                ]);
            }
        }
        table
    }

    /// The rows that differ as people read them: a column a variant, and its change against the first.
    pub fn page_table(&self) -> DataTable {
        let columns = [("class", "Tasks", Kind::Text), ("metric", "Metric", Kind::Text)];
        let mut table = DataTable::new("comparison_page", "What differs", &columns);
        for (index, variant) in self.variants.iter().enumerate() {
            let column = |key: &str, head: &str, kind| Column {
                key: format!("{key}_{index}").into(),
                head: head.to_owned().into(),
                kind,
            };
            table.columns.push(column("value", &variant.label, Kind::Measure));
            if index > 0 {
                table.columns.push(column("change", "Change", Kind::Share));
                if self.repeats() > 1 {
                    table.columns.push(column("certain", "Spread", Kind::Text));
                }
            }
        }
        for row in self.differing() {
            let mut cells: Vec<Cell> = vec![row.name.as_str().into(), row.metric.name.into()];
            for (index, cell) in row.cells.iter().enumerate() {
                cells.push(measured(row.metric, *cell));
                if index > 0 {
                    let change = match (row.cells[0], cell) {
                        (Some(base), Some(other)) if base.mean != 0.0 => Some(other.mean / base.mean - 1.0),
                        _ => None,
                    };
                    let chance = matches!((row.cells[0], cell), (Some(base), Some(other)) if !base.apart(*other) && !base.is(*other));
                    cells.push(change.into());
                    if self.repeats() > 1 {
                        cells.push(if chance { "within" } else { "" }.into());
                    }
                }
            }
            table.push(cells);
        }
        table
    }

    /// The comparison as JSON: a list of `{class, group, metric, unit, values: [{variant, mean, min, max}]}`, one of class and group null,
    /// and of the machine both, and the sentence.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows()
            .iter()
            .map(|row| {
                let values: Vec<Value> = row
                    .cells
                    .iter()
                    .zip(&self.variants)
                    .map(|(cell, variant)| match cell {
                        Some(spread) => {
                            json!({"variant": variant.label, "mean": spread.mean, "min": spread.min, "max": spread.max})
                        }
                        None => json!({"variant": variant.label, "mean": null, "min": null, "max": null}),
                    })
                    .collect();
                let (class, group) = columns_of(row.subject);
                json!({"class": class, "group": group, "metric": row.metric.key, "unit": row.metric.unit, "values": values})
            })
            .collect();
        json!({"variants": self.variants.iter().map(|variant| &variant.label).collect::<Vec<_>>(),
            "repeats": self.repeats(), "cells": rows, "stands_out": self.sentence().replace('\n', " ")})
    }
}

/// Mean, smallest and largest value over the runs, for every class, group and metric.
pub fn spread_table(runs: &[Results]) -> String {
    let all = Comparison::of(vec![Variant { label: String::new(), runs: runs.to_vec() }]);
    let mut last = None;
    let mut lines = Vec::new();
    let told = all.of_one_class();
    for row in all.rows().into_iter().filter(|row| !row.is_told(&told)) {
        let Some(spread) = row.cells[0] else { continue };
        if row.metric.key == IDLE_WAITS && spread.max == 0.0 {
            continue;
        }
        let name = if last == Some(row.subject) { String::new() } else { row.name.clone() };
        last = Some(row.subject);
        let mut line = vec![name, row.metric.name.to_owned()];
        line.extend([spread.mean, spread.min, spread.max].map(row.metric.format));
        lines.push(line);
    }
    grid(&["tasks", "", "mean", "min", "max"], 2, lines)
}

/// In sentences.
fn whose(subject: Subject<'_>) -> String {
    match subject {
        Subject::Class(class) => format!("`{}`", printable(class)),
        Subject::Group(group) => format!("group `{}`", printable(group)),
        Subject::Machine => "the machine".to_owned(),
    }
}

/// In data: the class, and the group; of the machine neither.
fn columns_of(subject: Subject<'_>) -> (Option<&str>, Option<&str>) {
    match subject {
        Subject::Class(class) => (Some(class), None),
        Subject::Group(group) => (None, Some(group)),
        Subject::Machine => (None, None),
    }
}

/// The groups of a run whose tasks, those of groups below included, are all those of one class, and no others, and were from the
/// beginning.
fn of_one_class(run: &Results) -> BTreeSet<&str> {
    let mut classes: Vec<Option<usize>> = vec![None; run.groups.len()];
    let mut mixed = vec![false; run.groups.len()];
    for task in &run.tasks {
        let mut above = Some(task.group);
        while let Some(group) = above.filter(|&group| group < run.groups.len()) {
            mixed[group] |= *classes[group].get_or_insert(task.class) != task.class;
            above = run.groups[group].parent;
        }
    }
    let whole = |at: usize, group: &GroupResult| {
        let class = classes[at].and_then(|class| run.classes.get(class));
        // Tasks that came from another group had their time there.
        let same = |account: &Account| (account.cpu_ns, account.run_delay_ns) == (group.cpu_ns, group.run_delay_ns);
        class.is_some_and(|class| !mixed[at] && group.tasks == class.tasks && same(&class.account))
    };
    let groups = run.groups.iter().enumerate().filter(|(at, group)| whole(*at, group));
    groups.map(|(_, group)| group.path.as_str()).collect()
}

/// A path whose middle is left out where it is long: its beginning tells where it is, its end what it is.
fn elided(path: &str) -> String {
    const MOST: usize = 30;
    const END: usize = 19;
    let length = path.chars().count();
    if length <= MOST {
        return path.to_owned();
    }
    let start: String = path.chars().take(MOST - 1 - END).collect();
    let end: String = path.chars().skip(length - END).collect();
    format!("{start}…{end}")
}

fn value(metric: &Metric, cell: Option<Spread>) -> String {
    let Some(spread) = cell else { return "-".to_owned() };
    let mean = (metric.format)(spread.mean);
    if spread.min.to_bits() == spread.max.to_bits() {
        return mean;
    }
    let half = (metric.format)((spread.max - spread.min) / 2.0);
    format!("{mean} ±{half}")
}

/// A value for a page: sorted by what it is, read as [`value`] has it.
fn measured(metric: &Metric, cell: Option<Spread>) -> Cell {
    cell.map_or(Cell::Nothing, |spread| Cell::Measure {
        value: spread.mean,
        unit: metric.unit,
        text: value(metric, Some(spread)),
    })
}

/// Breaks a paragraph into lines of at most [`WIDTH`](crate::WIDTH) columns.
fn wrap(text: &str) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > usize::from(crate::WIDTH) {
            lines.push('\n');
            column = 0;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
