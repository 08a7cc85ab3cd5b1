//! Figures of both sides, and their output.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::logs::FIGURES;
use crate::here::Here;

/// The values of each run, by class of tasks and index of the figure.
pub(super) type Figures = BTreeMap<(String, usize), Vec<f64>>;

#[derive(Clone, Debug)]
pub(super) struct Cell {
    file: String,
    class: String,
    figure: usize,
    rt_app: Vec<f64>,
    /// Empty if vruntime's logs lack it.
    vruntime: Vec<f64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    pub(super) cells: Vec<Cell>,
    /// Files left out, with the reason.
    pub(super) left_out: Vec<(String, String)>,
}

impl Comparison {
    pub(super) fn add(&mut self, file: &str, rt_app: Figures, vruntime: &Figures) {
        self.cells.extend(rt_app.into_iter().map(|((class, figure), rt_app)| {
            let vruntime = vruntime.get(&(class.clone(), figure)).cloned().unwrap_or_default();
            Cell { file: file.to_owned(), class, figure, rt_app, vruntime }
        }));
    }

    pub(super) fn score(&self) -> String {
        let inside = self.cells.iter().filter(|cell| cell.is_inside()).count();
        format!("inside {inside} of {}", self.cells.len())
    }

    /// Writes the page: misses, then files left out, then all figures.
    pub(super) fn page(&self, here: &Here, command: &str, about: &str) -> String {
        let mut page = String::new();
        // Writing to a string cannot fail.
        let _written = write!(
            page,
            "# rt-app agreement\n\n\
             `{command}`,\n{}, Linux {} on {}.\n{about}\n\n\
             A figure is the mean over the tasks of a class, from the columns of both programs' logs. It is\n\
             inside if the median of `vruntime real` is no further from the range of rt-app's runs than that\n\
             range is wide. Times are whole microseconds, so small figures have a least distance instead:\n\n{}\n\n## Outside\n\n",
            here.date,
            here.kernel,
            here.machine,
            FIGURES.iter().map(|it| format!("- {}: {}", it.name, it.least)).collect::<Vec<_>>().join("\n"),
        );
        let misses: Vec<&Cell> = self.cells.iter().filter(|cell| !cell.is_inside()).collect();
        page.push_str(&if misses.is_empty() { "None.\n".to_owned() } else { rows(&misses) });
        page.push_str("\n## Left out\n\n");
        for (file, why) in &self.left_out {
            let _written = writeln!(page, "- `{file}`: {why}");
        }
        if self.left_out.is_empty() {
            page.push_str("None.\n");
        }
        page.push_str("\n## All\n\n");
        page.push_str(&rows(&self.cells.iter().collect::<Vec<_>>()));
        let _written = writeln!(page, "\n{}", self.score());
        page
    }
}

fn rows(cells: &[&Cell]) -> String {
    let mut text = "| file | tasks | figure | rt-app | vruntime real | |\n|---|---|---|---|---|---|\n".to_owned();
    for cell in cells {
        let verdict = if cell.is_inside() { "inside" } else { "OUTSIDE" };
        let vruntime = if cell.vruntime.is_empty() { "none".to_owned() } else { format_range(&cell.vruntime) };
        // Writing to a string cannot fail.
        let _written = writeln!(
            text,
            "| {} | {} | {} | {} | {vruntime} | {verdict} |",
            cell.file,
            cell.class,
            FIGURES[cell.figure].name,
            format_range(&cell.rt_app),
        );
    }
    text
}

impl Cell {
    pub(super) fn is_inside(&self) -> bool {
        is_inside(&self.rt_app, &self.vruntime, FIGURES[self.figure].least)
    }

    pub(super) fn line(&self) -> String {
        let verdict = if self.is_inside() { "" } else { "  OUTSIDE" };
        let vruntime = if self.vruntime.is_empty() { "none".to_owned() } else { format_range(&self.vruntime) };
        let (name, rt_app) = (FIGURES[self.figure].name, format_range(&self.rt_app));
        format!("{:<28} {:<12} {name:<20} {rt_app:>22} {vruntime:>22}{verdict}", self.file, self.class)
    }
}

fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| (low.min(value), high.max(value)))
}

fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

/// Whether the median of vruntime's runs is within the range of rt-app's runs, widened on both sides by its own width,
/// at least by `least`.
fn is_inside(rt_app: &[f64], vruntime: &[f64], least: f64) -> bool {
    let (low, high) = range(rt_app);
    let width = (high - low).max(least);
    median(vruntime).is_some_and(|vruntime| vruntime >= low - width && vruntime <= high + width)
}

fn format_range(values: &[f64]) -> String {
    let (low, high) = range(values);
    let number = |value: f64| if value.abs() < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") };
    let (low, high) = (number(low), number(high));
    if low == high { low } else { format!("{low}..{high}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_rt_apps_own_runs_is_what_counts() {
        assert!(is_inside(&[1.0, 3.0], &[5.0], 0.0) && is_inside(&[1.0, 3.0], &[-1.0], 0.0));
        assert!(!is_inside(&[1.0, 3.0], &[5.1], 0.0) && !is_inside(&[1.0, 3.0], &[-1.1], 0.0));
        assert!(is_inside(&[1.0], &[2.0], 1.0) && !is_inside(&[1.0], &[2.0], 0.9));
        assert!(!is_inside(&[5.0], &[1.0, 3.0], 0.0), "that vruntime differs from run to run excuses nothing");
        assert!(is_inside(&[5.0, 6.0], &[5.5, 1.0, 99.0], 0.0) && !is_inside(&[1.0], &[], 9.0));
    }

    #[test]
    fn a_page_has_misses_first_and_the_score_last() {
        let figures = |loops: &[f64], run: &[f64]| {
            Figures::from([(("t".to_owned(), 0), loops.to_vec()), (("t".to_owned(), 1), run.to_vec())])
        };
        let mut this = Comparison::default();
        this.add("a", figures(&[10.0, 11.0], &[50.0, 51.0]), &figures(&[10.0], &[60.0]));
        this.left_out.push(("b".to_owned(), "rt-app has no CPU 2".to_owned()));
        let here = Here { date: "2026-11-23".to_owned(), kernel: "6.18.1".to_owned(), machine: "2 CPUs".to_owned() };
        let page = this.page(&here, "cargo xtask rt-app", "Two runs.");
        let outside = page.split("## Left out").next().unwrap_or_default();
        assert!(outside.contains("| a | t | run (% of the time) | 50.0..51.0 | 60.0 | OUTSIDE |"), "{page}");
        assert!(!outside.contains("| loops |") && page.contains("| a | t | loops | 10.0..11.0 | 10.0 | inside |"));
        assert!(page.contains("- `b`: rt-app has no CPU 2"));
        assert_eq!(page.trim_end().lines().last(), Some("inside 1 of 2"));
    }
}
