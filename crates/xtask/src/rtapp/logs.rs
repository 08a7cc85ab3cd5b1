//! Reads rt-app's logs: a row for each loop.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use miette::{IntoDiagnostic, miette};

/// A figure of a class of tasks, from rt-app's logs.
pub(super) struct Figure {
    pub(super) name: &'static str,
    /// Its value for a log's rows and the seconds that count.
    pub(super) of: fn(&[Row], f64) -> Option<f64>,
    /// Smaller differences do not count.
    pub(super) least: f64,
}

/// Times are whole microseconds. A run's work is exact to some microseconds.
pub(super) const FIGURES: [Figure; 5] = [
    Figure { name: "loops", of: |rows, _| Some(rows.len() as f64), least: 1.0 },
    Figure {
        name: "run (% of the time)",
        of: |rows, seconds| Some(rows.iter().map(|row| row.run).sum::<f64>() / seconds / 1e4),
        least: 0.1,
    },
    Figure { name: "period p50 (us)", of: |rows, _| percentile(periods(rows).into_iter(), 50), least: 2.0 },
    Figure { name: "wu_lat p50 (us)", of: |rows, _| percentile(late(rows), 50), least: 2.0 },
    Figure { name: "wu_lat p90 (us)", of: |rows, _| percentile(late(rows), 90), least: 2.0 },
];

/// A loop, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    start: f64,
    pub(super) run: f64,
    /// The requested time.
    pub(super) asked: f64,
    period: f64,
    timers: f64,
    late: f64,
}

/// Returns times from loop to loop. With a timer, they are from start to start: the column `period` lacks the 10 us and
/// more in which rt-app writes between loops. Without a timer, `period` includes them.
fn periods(rows: &[Row]) -> Vec<f64> {
    if rows.iter().any(|row| row.timers > 0.0) {
        rows.windows(2).map(|pair| pair[1].start - pair[0].start).collect()
    } else {
        rows.iter().map(|row| row.period).collect()
    }
}

fn late(rows: &[Row]) -> impl Iterator<Item = f64> {
    rows.iter().filter(|row| row.timers > 0.0).map(|row| row.late)
}

pub(super) fn percentile(values: impl Iterator<Item = f64>, percent: usize) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) * percent / 100).copied()
}

/// Returns the figures of each class, averaged over its tasks.
pub(super) fn logs(folder: &Path, seconds: f64) -> miette::Result<BTreeMap<String, BTreeMap<usize, f64>>> {
    let mut sums: BTreeMap<String, BTreeMap<usize, (f64, f64)>> = BTreeMap::new();
    for entry in fs::read_dir(folder).into_diagnostic()? {
        let path = entry.into_diagnostic()?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (Some((class, _)), true) = (stem.rsplit_once('-'), path.extension().is_some_and(|it| it == "log")) else {
            continue;
        };
        let text = fs::read_to_string(&path).into_diagnostic()?;
        let mut rows = rows(&text).ok_or_else(|| miette!("{} is no log of rt-app's", path.display()))?;
        let first = rows.first().map_or(0.0, |row| row.start);
        // rt-app completes loops that have begun.
        rows.retain(|row| row.start + row.period - first <= seconds * 1e6);
        let of_class = sums.entry(class.to_owned()).or_default();
        for (index, figure) in FIGURES.iter().enumerate() {
            if let Some(value) = (figure.of)(&rows, seconds) {
                let sum = of_class.entry(index).or_default();
                *sum = (sum.0 + value, sum.1 + 1.0);
            }
        }
    }
    let mean = |(figure, (sum, count))| (figure, sum / count);
    Ok(sums.into_iter().map(|(class, sums)| (class, sums.into_iter().map(mean).collect())).collect())
}

/// Finds columns by name, since versions differ.
pub(super) fn rows(text: &str) -> Option<Vec<Row>> {
    let mut columns: Option<[usize; 6]> = None;
    let mut rows = Vec::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix('#') {
            let names: Vec<&str> = head.split_whitespace().collect();
            let at = |name: &str| names.iter().position(|known| *known == name);
            let known = ["start", "run", "period", "c_period", "wu_lat", "c_duration"].map(at);
            if known.iter().all(Option::is_some) {
                columns = Some(known.map(Option::unwrap_or_default));
            }
            continue;
        }
        let values: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        if values.is_empty() {
            continue;
        }
        let value = |column: usize| values.get(columns?[column]).copied();
        let [start, run, period, timers, late, asked] =
            [value(0)?, value(1)?, value(2)?, value(3)?, value(4)?, value(5)?];
        rows.push(Row { start, run, asked, period, timers, late });
    }
    columns.map(|_| rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of rt-app 1.0.
    const LOG: &str = "# Policy : SCHED_OTHER priority : 0\n\
        #idx     perf      run   period           start             end          rel_st      slack c_duration   c_period     wu_lat\n   \
        0    20000     4163    15098            4221           19319            4221       5587       2000      10000       5348\n   \
        0    10000     2100    10000           19319           29319           19319       7800       2000      10000         60\n";

    #[test]
    fn figures_come_from_the_columns_of_that_name() {
        let rows = rows(LOG).expect("it is a log");
        let figures: Vec<Option<f64>> = FIGURES.iter().map(|figure| (figure.of)(&rows, 0.02)).collect();
        assert_eq!(figures, [Some(2.0), Some(31.315), Some(15_098.0), Some(60.0), Some(60.0)]);
        assert!(super::rows("# a log\n1 2 3\n").is_none() && super::rows("").is_none());
    }
}
