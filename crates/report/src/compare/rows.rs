//! Rows of a comparison: a metric of a class, group or the machine, with a spread for each variant.

use std::collections::{BTreeMap, BTreeSet};

use super::metrics::{ENERGY, Family, Index, Metric, OF_CLASSES, OF_GROUPS, Subject};
use super::{Comparison, Variant, value};
use crate::printable::printable;
use crate::results::{Account, ClassResult, GroupResult, Results};
use crate::spread::{Spread, certain};
use crate::table::name_of;

/// Classes with less of a CPU are not highlighted, since their figures are mostly chance.
const NEXT_TO_NOTHING: f64 = 0.001;

pub(super) struct Row<'a> {
    pub(super) subject: Subject<'a>,
    /// The class with its number of tasks, or the group.
    pub(super) name: String,
    pub(super) metric: &'static Metric,
    /// One per variant.
    pub(super) cells: Vec<Option<Spread>>,
    /// Sleeps, wakeups or loops behind each cell.
    pub(super) samples: Vec<u64>,
}

impl Row<'_> {
    /// Whether a class has the same row: CPU time and waits of a group in `of_one_class`.
    pub(super) fn repeats_class(&self, of_one_class: &BTreeSet<&str>) -> bool {
        let shared = OF_CLASSES.iter().any(|metric| metric.key == self.metric.key);
        matches!(self.subject, Subject::Group(path) if shared && of_one_class.contains(path))
    }

    /// Returns the first cell, the reference.
    pub(super) fn base(&self) -> Option<(usize, Spread)> {
        self.cells.iter().enumerate().find_map(|(variant, cell)| Some((variant, (*cell)?)))
    }

    /// Returns reference and cell of a variant, if present.
    pub(super) fn pair(&self, variant: usize) -> Option<(Spread, Spread)> {
        let (of, base) = self.base()?;
        Some((base, self.cells[variant]?)).filter(|_| of < variant)
    }

    /// Whether both have enough samples for a sentence.
    pub(super) fn is_of_enough(&self, variant: usize) -> bool {
        let base = self.base().map_or(variant, |(of, _)| of);
        [base, variant].iter().all(|&index| self.samples[index] >= self.metric.least)
    }
}

impl Comparison {
    /// Returns the rows of all classes, all groups but the root, and the machine.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let mut sizes: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let mut classes = Vec::new();
        for class in self.firsts().flat_map(|run| &run.classes) {
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
        let groups = self.firsts().flat_map(|run| run.groups.iter().skip(1));
        let paths: Vec<&str> = groups.map(|group| group.path.as_str()).filter(|path| known.insert(*path)).collect();
        for (path, name) in paths.iter().copied().zip(short_names(&paths)) {
            let name = format!("group {name}");
            // Metrics of limits need a limit.
            let limited = self.groups_at(path).any(|group| group.limit.is_some());
            let metrics = OF_GROUPS.iter().filter(|metric| limited || metric.family != Family::Limits);
            rows.extend(metrics.map(|metric| self.row(Subject::Group(path), &name, metric)));
        }
        let energy = self.row(Subject::Machine, "machine", &ENERGY);
        rows.extend(energy.cells.iter().any(Option::is_some).then_some(energy));
        rows
    }

    fn firsts(&self) -> impl Iterator<Item = &Results> {
        self.variants.iter().filter_map(|variant| variant.runs.first())
    }

    fn groups_at(&self, path: &str) -> impl Iterator<Item = &GroupResult> {
        let runs = self.variants.iter().flat_map(|variant| &variant.runs).zip(self.indexes.iter().flatten());
        runs.filter_map(move |(run, index)| index.group(run, path))
    }

    /// Returns the groups that equal one class in every variant.
    pub(super) fn of_one_class(&self) -> BTreeSet<&str> {
        let mut all = BTreeSet::new();
        let mut others = BTreeSet::new();
        for run in self.firsts() {
            let here = of_one_class(run);
            others.extend(run.groups.iter().map(|group| group.path.as_str()).filter(|path| !here.contains(path)));
            all.extend(here);
        }
        &all - &others
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

    /// Returns rows that differ in any digit, and each subject's CPU time. The order is: changed classes, others,
    /// groups, the machine, each by CPU time.
    pub(super) fn differing(&self) -> Vec<Row<'_>> {
        let differs = |row: &Row<'_>| {
            let ran = row.cells.iter().zip(&self.variants).filter(|(_, variant)| !variant.runs.is_empty());
            let shown: Vec<String> = ran.map(|(cell, _)| value(row.metric, *cell)).collect();
            let alone = shown.len() == 1 && row.base().is_some();
            alone || row.metric.key == "share" || shown.iter().any(|other| *other != shown[0])
        };
        let covered = self.of_one_class();
        let mut rows: Vec<Row<'_>> =
            self.rows().into_iter().filter(|row| !row.repeats_class(&covered) && differs(row)).collect();
        // Whether it changes, and its CPU time. The sort is stable, and otherwise keeps the files' order.
        let mut order: BTreeMap<Subject<'_>, (bool, f64)> = BTreeMap::new();
        for row in &rows {
            let changes = self.changes(row);
            order.entry(row.subject).or_insert_with(|| (false, self.cpu(row.subject))).0 |= changes;
        }
        let kind = |subject| match subject {
            Subject::Class(_) => 0,
            Subject::Group(_) => 1,
            Subject::Machine => 2,
        };
        rows.sort_by(|a, b| {
            let [(a_fares, a_cpu), (b_fares, b_cpu)] = [a, b].map(|row| order[&row.subject]);
            kind(a.subject)
                .cmp(&kind(b.subject))
                .then_with(|| b_fares.cmp(&a_fares))
                .then_with(|| b_cpu.total_cmp(&a_cpu))
        });
        rows
    }

    /// Returns the mean CPU time in the variant with the most, as a part of a CPU.
    fn cpu(&self, subject: Subject<'_>) -> f64 {
        let of_run = |(run, index): (&Results, &Index)| match subject {
            Subject::Class(class) => Some(run.share(index.class(run, class)?.account.cpu_ns)),
            Subject::Group(group) => Some(run.share(index.group(run, group)?.cpu_ns)),
            Subject::Machine => Some(run.share(run.account.cpu_ns)),
        };
        let mean = |(variant, indexes): (&Variant, &Vec<Index>)| {
            variant.runs.iter().zip(indexes).filter_map(of_run).sum::<f64>() / variant.runs.len().max(1) as f64
        };
        self.variants.iter().zip(&self.indexes).map(mean).fold(0.0, f64::max)
    }

    /// Whether the row's tasks have noticeable CPU time in a variant.
    pub(super) fn weighs(&self, row: &Row<'_>) -> bool {
        row.subject == Subject::Machine || self.cpu(row.subject) >= NEXT_TO_NOTHING
    }

    /// Whether a variant differs enough from the reference, beyond the spread. Missing tasks count if they have
    /// noticeable CPU time. All count if only one variant has values.
    pub(super) fn changes(&self, row: &Row<'_>) -> bool {
        let mut ran = row.cells.iter().zip(&self.variants).filter(|(_, variant)| !variant.runs.is_empty());
        let missing = row.base().is_some() && (self.ran().count() < 2 || ran.any(|(cell, _)| cell.is_none()));
        let differs = |(base, other)| certain(base, other).is_some_and(|(from, to)| row.metric.matters(from, to));
        (1..self.variants.len()).filter_map(|variant| row.pair(variant)).any(differs) || (missing && self.weighs(row))
    }
}

/// Returns the groups whose tasks, with descendants, were always those of one class.
fn of_one_class(run: &Results) -> BTreeSet<&str> {
    // Of one class and a group.
    let same = |class: &ClassResult, group: &GroupResult| {
        let Account { cpu_ns, run_delay_ns, .. } = class.account;
        class.tasks == group.tasks && (cpu_ns, run_delay_ns) == (group.cpu_ns, group.run_delay_ns)
    };
    if run.tasks.is_empty() {
        // Saved results have no tasks.
        let whole = |group: &&GroupResult| group.tasks > 0 && run.classes.iter().any(|class| same(class, group));
        return run.groups.iter().filter(whole).map(|group| group.path.as_str()).collect();
    }
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
        // Time of tasks that came from another group is counted there.
        class.is_some_and(|class| !mixed[at] && same(class, group))
    };
    let groups = run.groups.iter().enumerate().filter(|(at, group)| whole(*at, group));
    groups.map(|(_, group)| group.path.as_str()).collect()
}

const MOST: usize = 30;

/// Omits the middle of long paths, so that names stay distinct.
fn short_names(paths: &[&str]) -> Vec<String> {
    let whole: Vec<String> = paths.iter().map(|path| printable(path)).collect();
    let short: Vec<String> = whole.iter().map(|path| elided(path)).collect();
    let mut namesakes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, name) in short.iter().enumerate() {
        namesakes.entry(name).or_default().push(index);
    }
    let mut names = short.clone();
    for alike in namesakes.values().filter(|alike| alike.len() > 1) {
        let from = differ_from(&alike.iter().map(|&index| whole[index].as_str()).collect::<Vec<_>>());
        let covered: Vec<String> = alike.iter().map(|&index| elided_at(&whole[index], from)).collect();
        let distinct = covered.iter().collect::<BTreeSet<_>>().len() == covered.len();
        for (&index, covered) in alike.iter().zip(covered) {
            names[index] = if distinct { covered } else { whole[index].clone() };
        }
    }
    names
}

/// Returns the first character that differs.
fn differ_from(paths: &[&str]) -> usize {
    let Some((first, others)) = paths.split_first() else { return 0 };
    let alike = |other: &&str| first.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    others.iter().map(alike).min().unwrap_or(0)
}

fn elided(path: &str) -> String {
    const END: usize = 19;
    let length = path.chars().count();
    if length <= MOST {
        return path.to_owned();
    }
    let start: String = path.chars().take(MOST - 1 - END).collect();
    let end: String = path.chars().skip(length - END).collect();
    format!("{start}…{end}")
}

/// Shortens a path to the characters around `from`, and the end.
fn elided_at(path: &str, from: usize) -> String {
    const BEFORE: usize = 4;
    const THERE: usize = 12;
    let end: String = path.chars().skip(path.chars().count().saturating_sub(MOST - 2 - THERE)).collect();
    let there: String = path.chars().skip(from.saturating_sub(BEFORE)).take(THERE).collect();
    format!("…{there}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_groups_have_one_name() {
        let pod =
            |of: &str, container: &str| format!("/kubepods.slice/kubepods-pod{of}-aaaa-bbbb.slice/{container}.scope");
        let paths =
            [pod("11111111", "frontend"), pod("22222222", "frontend"), pod("22222222", "other"), "/web".to_owned()];
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let names = short_names(&paths);
        assert_eq!(names[..2], ["…-pod11111111…e/frontend.scope", "…-pod22222222…e/frontend.scope"]);
        assert_eq!(names[2..], ["/kubepods.…b.slice/other.scope", "/web"]);
        assert!(names.iter().all(|name| name.chars().count() <= MOST));
        assert_eq!(short_names(&["/a\u{1b}", "/a\\u{1b}"]), ["/a\\u{1b}"; 2]);
        // Two pairs of one name with different differences.
        let many: Vec<String> = ["1", "2"]
            .iter()
            .flat_map(|a| {
                ["1", "2"].map(|b| pod(&format!("{a}{}", "0".repeat(20)), &format!("{b}-of-a-long-name-in-the-end")))
            })
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let names = short_names(&many);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4, "{names:?}");
    }
}
