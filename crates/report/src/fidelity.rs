//! The distance of simulated runs from recorded ones, cell by cell.
//!
//! A cell is a metric of a class in a scenario under a kernel. A simulated value is inside if it lies in the range of
//! the recorded runs, widened at both ends by the metric's tolerance ([`Tolerance`]).
//!
//! | metric | value | tolerance | if emulated |
//! |---|---|---|---|
//! | `cpu_share` | mean CPU time of a task over the duration, of one CPU | 0.5 points if all tasks are confined to one CPU, else 1.5 | same |
//! | `switches` | mean of voluntary + involuntary switches of a task | 10 % | 20 % |
//! | `wakeup_latency_p50`, `_p90`, `_p99` | mean of its tasks' percentiles, ns | 20 % or 100 us | 30 % or 500 us; not judged on more than 2 CPUs |
//! | `migrations` | mean of migrations of a task | a factor of 2, or 10 | same |
//! | `nr_throttled` | periods in which a group with a limit was throttled | 10 % | same |
//! | `throttled_for` | duration of that, summed over CPUs, ns | 15 % | same |
//!
//! A group's cell has the path as its class.

mod page;

use std::collections::BTreeSet;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::data::{DataTable, Kind};
use crate::results::Results;
use crate::table::grid;
use crate::units::OF_A_CPU;

pub use page::page;

/// A recorded or simulated run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// All tasks.
    pub tasks: Vec<ObservedTask>,
    /// Groups with a limit.
    pub groups: Vec<ObservedGroup>,
}

/// A group with a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedGroup {
    /// Its path.
    pub path: String,
    /// Periods in which it was throttled.
    pub nr_throttled: f64,
    /// Time throttled, summed over CPUs, nanoseconds.
    pub throttled_ns: f64,
}

/// A task.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedTask {
    /// The class of identical tasks.
    pub class: String,
    /// CPU time, nanoseconds.
    pub cpu_ns: f64,
    /// Voluntary and involuntary switches.
    pub switches: f64,
    /// Migrations, if they were counted.
    pub migrations: Option<f64>,
    /// p50, p90 and p99 of the lateness of timed sleeps, nanoseconds. None for a task that never sleeps.
    pub wakeup_latency_ns: Option<[f64; 3]>,
}

impl From<&Results> for Observation {
    fn from(results: &Results) -> Self {
        let tasks = results.tasks.iter().map(|task| ObservedTask {
            class: results.classes[task.class].name.clone(),
            cpu_ns: task.account.cpu_ns as f64,
            // The recorder's tasks read their counters before they exit.
            switches: task.account.switches().saturating_sub(u64::from(task.ended)) as f64,
            migrations: Some(task.account.migrations as f64),
            wakeup_latency_ns: task
                .sleep_return
                .map(|latency| [latency.p50_ns, latency.p90_ns, latency.p99_ns].map(|ns| ns as f64)),
        });
        let groups = results.groups.iter().filter_map(|group| {
            let limit = group.limit?;
            Some(ObservedGroup {
                path: group.path.clone(),
                nr_throttled: limit.nr_throttled as f64,
                throttled_ns: limit.throttled_ns as f64,
            })
        });
        Self { tasks: tasks.collect(), groups: groups.collect() }
    }
}

/// A recorded scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedScenario {
    /// Recorded kernel, such as `6.12`.
    pub kernel: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Number of CPUs.
    pub cpus: usize,
    /// Whether all tasks are confined to one CPU.
    pub one_cpu: bool,
    /// Whether software emulated the machine.
    pub emulated: bool,
    /// Length of a run, nanoseconds.
    pub duration_ns: f64,
    /// The runs.
    pub runs: Vec<Observation>,
}

/// How far a value may be outside the recorded range: the wider of two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// `relative` or `absolute`.
    Around {
        /// Fraction of the range's end.
        relative: f64,
        /// Distance in the metric's unit.
        absolute: f64,
    },
    /// `factor` or `absolute`.
    Factor {
        /// Multiplies the upper end and divides the lower.
        factor: f64,
        /// Distance in the metric's unit.
        absolute: f64,
    },
}

impl Tolerance {
    /// Returns the widened range.
    pub fn widen(self, low: f64, high: f64) -> (f64, f64) {
        match self {
            Self::Around { relative, absolute } => {
                (low - (low * relative).max(absolute), high + (high * relative).max(absolute))
            }
            Self::Factor { factor, absolute } => {
                ((low / factor).min(low - absolute), (high * factor).max(high + absolute))
            }
        }
    }
}

/// What recordings are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Against {
    /// Simulated runs.
    #[default]
    Simulation,
    /// Runs recorded at another time or on another machine.
    Recording,
}

impl Against {
    /// Returns the name of a cell's value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulation => "simulated",
            Self::Recording => "again",
        }
    }

    /// Returns the head of its column.
    fn head(self) -> &'static str {
        match self {
            Self::Simulation => "Simulated",
            Self::Recording => "Recorded again",
        }
    }

    fn of<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Self {
        cells.into_iter().next().map(|cell| cell.against).unwrap_or_default()
    }
}

/// A comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Kernel.
    pub kernel: String,
    /// Scenario.
    pub scenario: String,
    /// Class of identical tasks, or path of a group.
    pub class: String,
    /// Metric of the module's table.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// One value per recorded run.
    pub recorded: Vec<f64>,
    /// Origin of `found`.
    pub against: Against,
    /// The compared value, or the median of several. None if not measured.
    pub found: Option<f64>,
    /// Whether the value is in `allowed`.
    pub inside: bool,
    /// Allowed range.
    pub allowed: (f64, f64),
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut cell = serializer.serialize_struct("Cell", 8)?;
        cell.serialize_field("kernel", &self.kernel)?;
        cell.serialize_field("scenario", &self.scenario)?;
        cell.serialize_field("class", &self.class)?;
        cell.serialize_field("metric", self.metric)?;
        cell.serialize_field("unit", self.unit)?;
        cell.serialize_field("recorded", &self.recorded)?;
        cell.serialize_field(self.against.name(), &self.found)?;
        cell.serialize_field("inside", &self.inside)?;
        cell.end()
    }
}

impl Cell {
    /// Whether the tolerance excludes the value 0.
    pub fn is_telling(&self) -> bool {
        self.allowed.0 > 0.0
    }

    /// Returns the recorded range.
    pub fn range(&self) -> (f64, f64) {
        let low = self.recorded.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self.recorded.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (low, high)
    }

    /// Returns the distance from the recorded range, in tolerances: 1 at the allowed limit, infinite without value or
    /// tolerance.
    pub fn strain(&self) -> f64 {
        let (low, high) = self.range();
        let (least, most) = self.allowed;
        match self.found {
            None => f64::INFINITY,
            Some(value) if value < low => (low - value) / (low - least),
            Some(value) if value > high => (value - high) / (most - high),
            Some(_) => 0.0,
        }
    }
}

struct Metric {
    name: &'static str,
    unit: &'static str,
    tolerance: Tolerance,
    value: Value,
}

type Value = fn(&ObservedTask) -> Option<f64>;

fn metrics(recorded: &RecordedScenario) -> Vec<Metric> {
    let points = if recorded.one_cpu { 0.005 } else { 0.015 };
    let (switches, latency) = if recorded.emulated {
        (0.20, Tolerance::Around { relative: 0.30, absolute: 500_000.0 })
    } else {
        (0.10, Tolerance::Around { relative: 0.20, absolute: 100_000.0 })
    };
    let mut metrics = vec![
        Metric {
            name: "cpu_share",
            unit: OF_A_CPU,
            tolerance: Tolerance::Around { relative: 0.0, absolute: points },
            value: |task| Some(task.cpu_ns),
        },
        Metric {
            name: "switches",
            unit: "count",
            tolerance: Tolerance::Around { relative: switches, absolute: 0.0 },
            value: |task| Some(task.switches),
        },
        Metric {
            name: "migrations",
            unit: "count",
            tolerance: Tolerance::Factor { factor: 2.0, absolute: 10.0 },
            value: |task| task.migrations,
        },
    ];
    if !(recorded.emulated && recorded.cpus > 2) {
        let percentiles: [(&'static str, Value); 3] = [
            ("wakeup_latency_p50", |task| task.wakeup_latency_ns.map(|latency| latency[0])),
            ("wakeup_latency_p90", |task| task.wakeup_latency_ns.map(|latency| latency[1])),
            ("wakeup_latency_p99", |task| task.wakeup_latency_ns.map(|latency| latency[2])),
        ];
        metrics.extend(percentiles.map(|(name, value)| Metric { name, unit: "ns", tolerance: latency, value }));
    }
    metrics
}

/// Returns the mean over a class's tasks that have the value.
fn mean(run: &Observation, class: &str, value: Value) -> Option<f64> {
    let values: Vec<f64> = run.tasks.iter().filter(|task| task.class == class).filter_map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns all cells of a scenario, for the median of several runs. Cells of a missing class or latency are outside.
pub fn cells(recorded: &RecordedScenario, against: Against, found: &[Observation]) -> Vec<Cell> {
    let mut classes: Vec<&str> = Vec::new();
    for task in recorded.runs.iter().flat_map(|run| &run.tasks) {
        if !classes.contains(&task.class.as_str()) {
            classes.push(&task.class);
        }
    }
    let mut cells = Vec::new();
    for class in classes {
        for metric in metrics(recorded) {
            let per = if metric.unit == OF_A_CPU { recorded.duration_ns } else { 1.0 };
            let of = |run| mean(run, class, metric.value).map(|value| value / per);
            let values: Vec<f64> = recorded.runs.iter().filter_map(of).collect();
            if values.is_empty() {
                continue;
            }
            let found = (against, median(found.iter().filter_map(of).collect()));
            cells.push(judge(recorded, class, (metric.name, metric.unit), metric.tolerance, values, found));
        }
    }
    cells.extend(group_cells(recorded, against, found));
    cells
}

fn group_cells(recorded: &RecordedScenario, against: Against, found: &[Observation]) -> Vec<Cell> {
    type Value = fn(&ObservedGroup) -> f64;
    const METRICS: [(&str, &str, f64, Value); 2] = [
        ("nr_throttled", "count", 0.10, |group| group.nr_throttled),
        ("throttled_for", "ns", 0.15, |group| group.throttled_ns),
    ];
    let paths: BTreeSet<&str> =
        recorded.runs.iter().flat_map(|run| &run.groups).map(|group| group.path.as_str()).collect();
    let mut cells = Vec::new();
    for path in paths {
        for (name, unit, relative, value) in METRICS {
            let of = |run: &Observation| run.groups.iter().find(|group| group.path == path).map(value);
            let values = recorded.runs.iter().filter_map(of).collect();
            let found = (against, median(found.iter().filter_map(of).collect()));
            let tolerance = Tolerance::Around { relative, absolute: 0.0 };
            cells.push(judge(recorded, path, (name, unit), tolerance, values, found));
        }
    }
    cells
}

fn judge(
    recorded: &RecordedScenario,
    class: &str,
    (metric, unit): (&'static str, &'static str),
    tolerance: Tolerance,
    values: Vec<f64>,
    (against, found): (Against, Option<f64>),
) -> Cell {
    let mut cell = Cell {
        kernel: recorded.kernel.clone(),
        scenario: recorded.scenario.clone(),
        class: class.to_owned(),
        metric,
        unit,
        recorded: values,
        against,
        found,
        inside: false,
        allowed: (0.0, 0.0),
    };
    let (low, high) = cell.range();
    let (least, most) = tolerance.widen(low, high);
    cell.allowed = (least, most);
    cell.inside = found.is_some_and(|value| (least..=most).contains(&value));
    cell
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// Returns the unit in which a value is printed, and the factor to that unit.
fn printed(unit: &'static str) -> (&'static str, f64) {
    match unit {
        OF_A_CPU => ("%", 100.0),
        "ns" => ("us", 1e-3),
        unit => (unit, 1.0),
    }
}

/// Returns the table of all cells, or only of those outside, with the [`closing_line`] of all cells at its end.
pub fn table(cells: &[Cell], only_outside: bool) -> String {
    let rows = cells.iter().filter(|cell| !only_outside || !cell.inside).map(|cell| {
        let (unit, factor) = printed(cell.unit);
        let number = |value: f64| number(value * factor);
        let (low, high) = cell.range();
        vec![
            cell.kernel.clone(),
            cell.scenario.clone(),
            cell.class.clone(),
            cell.metric.to_owned(),
            unit.to_owned(),
            if low.to_bits() == high.to_bits() { number(low) } else { format!("{}..{}", number(low), number(high)) },
            cell.found.map_or_else(|| "none".to_owned(), number),
            if cell.inside { "within" } else { "OUTSIDE" }.to_owned(),
        ]
    });
    let found = Against::of(cells).name();
    let mut text = grid(&["kernel", "scenario", "class", "metric", "unit", "recorded", found, "verdict"], 5, rows);
    text.extend(["\n", &closing_line(cells), "\n"]);
    text
}

/// Returns all cells as data.
pub fn data_table(cells: &[Cell]) -> DataTable {
    let against = Against::of(cells);
    let mut table = DataTable::new(
        "cells",
        "Cells",
        &[
            ("kernel", "Kernel", Kind::Text),
            ("scenario", "Scenario", Kind::Text),
            ("class", "Class", Kind::Text),
            ("metric", "Metric", Kind::Text),
            ("unit", "Unit", Kind::Text),
            ("runs", "Recorded runs", Kind::Count),
            ("recorded_min", "Recorded, least", Kind::Number),
            ("recorded_max", "Recorded, most", Kind::Number),
            ("allowed_min", "Allowed from", Kind::Number),
            ("allowed_max", "Allowed to", Kind::Number),
            (against.name(), against.head(), Kind::Number),
            ("verdict", "Verdict", Kind::Text),
        ],
    );
    for cell in cells {
        let ((low, high), (least, most)) = (cell.range(), cell.allowed);
        table.push(vec![
            cell.kernel.as_str().into(),
            cell.scenario.as_str().into(),
            cell.class.as_str().into(),
            cell.metric.into(),
            cell.unit.into(),
            cell.recorded.len().into(),
            low.into(),
            high.into(),
            least.into(),
            most.into(),
            cell.found.into(),
            if cell.inside { "inside" } else { "outside" }.into(),
        ]);
    }
    table
}

/// `379 of 394 measurements are within tolerance. Without those that a simulated 0 would also meet: 255 of 269.`
pub fn closing_line(cells: &[Cell]) -> String {
    let inside = cells.iter().filter(|cell| cell.inside).count();
    let telling: Vec<&Cell> = cells.iter().filter(|cell| cell.is_telling()).collect();
    let (inside_telling, all) = (telling.iter().filter(|cell| cell.inside).count(), telling.len());
    let nonzero = if all == 0 || all == cells.len() {
        String::new()
    } else {
        format!(" Without those that a simulated 0 would also meet: {inside_telling} of {all}.")
    };
    format!("{inside} of {} measurements are within tolerance.{nonzero}", cells.len())
}

fn number(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests;
