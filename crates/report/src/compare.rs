//! Compares runs: values, spread over repeats, and the most notable changes.

mod figure;
mod metrics;
mod rows;
mod words;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::data::{Cell, Column, DataTable, Kind};
use crate::page::{Bar, Bars};
use crate::results::Results;
use crate::spread::{self, Spread};
use crate::table::{grid, wrap};
use crate::units::OF_A_CPU;
pub use figure::Figure;
use metrics::{IDLE_WAITS, Index, Metric, Subject};
use rows::Row;

/// A side of a comparison: a kernel, machine, file, or combination.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The name, such as `6.12`.
    pub label: String,
    /// One for each seed. Empty if all were stopped early.
    pub runs: Vec<Results>,
}

/// Variants side by side. A figure is compared with the first variant that has it.
#[derive(Clone, Debug)]
pub struct Comparison {
    variants: Vec<Variant>,
    /// Indexes of each variant's runs.
    indexes: Vec<Vec<Index>>,
    /// Whether all runs were stopped early, so that nothing is comparable.
    unfinished: bool,
}

/// Marks changes from another variant than the first.
const ELSEWHERE: &str = " †";

/// The most omitted tasks to name.
const NAMED: usize = 12;

impl Comparison {
    /// Compares variants with the first. None for fewer than two, or without a run.
    pub fn new(variants: Vec<Variant>) -> Option<Self> {
        (variants.len() >= 2 && variants.iter().any(|variant| !variant.runs.is_empty())).then(|| Self::of(variants))
    }

    fn of(variants: Vec<Variant>) -> Self {
        let indexes = variants.iter().map(|variant| variant.runs.iter().map(Index::new).collect()).collect();
        Self { variants, indexes, unfinished: false }
    }

    /// Marks all runs as stopped early, with different lengths.
    #[must_use]
    pub fn unfinished(self) -> Self {
        Self { unfinished: true, ..self }
    }

    /// Returns the variants.
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }

    fn ran(&self) -> impl Iterator<Item = &Variant> {
        self.variants.iter().filter(|variant| !variant.runs.is_empty())
    }

    fn repeats(&self) -> usize {
        self.variants.iter().map(|variant| variant.runs.len()).max().unwrap_or(0)
    }

    /// Returns the changed metrics of each class, with each variant's mean, spread and change. A line counts omitted
    /// rows, with changes within the spread or too small. `~` marks a change within the spread in a row that another
    /// variant keeps.
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
            let mut line = format!("{left_out} of {count} rows are left out ({within}too small to matter)");
            if !silent.is_empty() {
                line.extend([", among them all rows of ", &silent.join(", ")]);
            }
            line.push_str(". --all shows them.");
            text.extend([&wrap(&line), "\n"]);
        }
        text
    }

    /// Returns all rows that differ in any digit, and all tasks' CPU time.
    pub fn whole_table(&self) -> String {
        self.tables(&self.differing())
    }

    /// Returns a table of a parameter's values: a row for each changed metric (`all`: each metric), a column for each
    /// variant.
    pub fn values_table(&self, all: bool) -> String {
        let mut head = vec!["tasks", ""];
        head.extend(self.variants.iter().map(|variant| variant.label.as_str()));
        let mut last = None;
        let mut lines = Vec::new();
        for row in self.differing().into_iter().filter(|row| all || self.changes(row)) {
            let name = if last == Some(row.subject) { String::new() } else { row.name.clone() };
            last = Some(row.subject);
            let mut line = vec![name, row.metric.name.to_owned()];
            line.extend(row.cells.iter().map(|cell| value(row.metric, *cell)));
            lines.push(line);
        }
        if lines.is_empty() {
            return "the values make no difference beyond the spread (--all shows them)\n".to_owned();
        }
        grid(&head, 2, lines)
    }

    /// Returns charts of the most changed metrics, with a bar for each variant.
    pub fn bars(&self) -> Vec<Bars> {
        const MOST: usize = 4;
        let rows = self.differing().into_iter().filter(|row| self.changes(row)).take(MOST);
        let chart = |row: Row<'_>| Bars {
            title: format!("{} of {}", row.metric.name, row.name),
            entry: String::new(),
            sub: "The mean over the seeds for each value.".to_owned(),
            label: String::new(),
            rows: { row.cells.iter().zip(&self.variants) }
                .map(|(cell, variant)| Bar {
                    name: variant.label.clone(),
                    share: cell.map_or(0.0, |spread| spread.mean),
                    mark: None,
                    text: value(row.metric, *cell),
                })
                .collect(),
        };
        rows.map(chart).collect()
    }

    fn tables(&self, rows: &[Row<'_>]) -> String {
        // Each block repeats the reference, and fits the width.
        let per_block = if self.repeats() > 1 { 2 } else { 3 };
        let others: Vec<usize> = (1..self.variants.len()).collect();
        let blocks = others.chunks(per_block).map(|block| self.block(rows, block));
        let mut text = blocks.collect::<Vec<String>>().join("\n");
        if text.contains(ELSEWHERE) {
            text.extend([ELSEWHERE.trim_start(), " relative to the first column that has a value\n"]);
        }
        text
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
        // Counts of runs with unequal length, and maxima of unequal numbers, are not comparable.
        let comparable = !(self.unfinished && row.metric.grows());
        let Some((base, other)) = row.pair(other).filter(|_| comparable) else { return String::new() };
        let text = spread::change(base, other, row.metric.unit == OF_A_CPU, self.repeats() > 1);
        let elsewhere = if row.cells[0].is_none() { ELSEWHERE } else { "" };
        text + elsewhere
    }

    /// Returns each variant's mean and range of all metrics of classes and groups.
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
            let base = row.base().filter(|(_, base)| base.mean != 0.0);
            for (cell, variant) in row.cells.iter().zip(&self.variants) {
                // Variants before the base have no value.
                let change = base.and_then(|(_, base)| Some(cell.as_ref()?.mean / base.mean - 1.0));
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

    /// Returns the differing rows for a page: a column for each variant, and its change.
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
                    let pair = row.pair(index);
                    let change =
                        pair.filter(|(base, _)| base.mean != 0.0).map(|(base, other)| other.mean / base.mean - 1.0);
                    let chance = pair.is_some_and(|(base, other)| !base.is_disjoint(other) && !base.is(other));
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

    /// Returns a list of `{class, group, metric, unit, values: [{variant, mean, min, max}]}`, and the sentence. Class
    /// or group is null, and for the machine both.
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

/// Returns mean, minimum and maximum over runs, for all classes, groups and metrics.
pub fn spread_table(runs: &[Results]) -> String {
    let all = Comparison::of(vec![Variant { label: String::new(), runs: runs.to_vec() }]);
    let mut last = None;
    let mut lines = Vec::new();
    let covered = all.of_one_class();
    for row in all.rows().into_iter().filter(|row| !row.repeats_class(&covered)) {
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

/// Returns [`spread_table`] as data, with its omitted rows: CPU time and waits of groups that equal a class, and zero
/// waits beside idle CPUs.
pub fn spread_data(runs: &[Results]) -> DataTable {
    let all = Comparison::of(vec![Variant { label: String::new(), runs: runs.to_vec() }]);
    let columns = [
        ("class", "Tasks", Kind::Text),
        ("group", "Group", Kind::Text),
        ("metric", "Metric", Kind::Text),
        ("unit", "Unit", Kind::Text),
        ("mean", "Mean", Kind::Number),
        ("min", "Least", Kind::Number),
        ("max", "Most", Kind::Number),
    ];
    let mut table = DataTable::new("over_seeds", "Over all seeds", &columns);
    for row in all.rows() {
        let (class, group) = columns_of(row.subject);
        let spread = row.cells[0];
        table.push(vec![
            class.into(),
            group.into(),
            row.metric.name.into(),
            row.metric.unit.into(),
            spread.map(|spread| spread.mean).into(),
            spread.map(|spread| spread.min).into(),
            spread.map(|spread| spread.max).into(),
        ]);
    }
    table
}

/// Returns [`spread_data`] as a list of `{class, group, metric, unit, mean, min, max}`, as in [`Comparison::json`].
pub fn spread_json(runs: &[Results]) -> Value {
    let all = Comparison::of(vec![Variant { label: String::new(), runs: runs.to_vec() }]);
    let cell = |row: Row<'_>| {
        let ((class, group), spread) = (columns_of(row.subject), row.cells[0]);
        json!({"class": class, "group": group, "metric": row.metric.key, "unit": row.metric.unit,
            "mean": spread.map(|spread| spread.mean), "min": spread.map(|spread| spread.min), "max": spread.map(|spread| spread.max)})
    };
    all.rows().into_iter().map(cell).collect()
}

fn columns_of(subject: Subject<'_>) -> (Option<&str>, Option<&str>) {
    match subject {
        Subject::Class(class) => (Some(class), None),
        Subject::Group(group) => (None, Some(group)),
        Subject::Machine => (None, None),
    }
}

fn value(metric: &Metric, cell: Option<Spread>) -> String {
    cell.map_or_else(|| "-".to_owned(), |spread| spread.text(metric.format))
}

/// Returns a cell for a page, sortable by value.
fn measured(metric: &Metric, cell: Option<Spread>) -> Cell {
    cell.map_or(Cell::Nothing, |spread| Cell::Measure {
        value: spread.mean,
        unit: metric.unit,
        text: value(metric, Some(spread)),
    })
}

#[cfg(test)]
mod tests;
