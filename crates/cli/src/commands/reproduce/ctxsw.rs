//! A published experiment: what a context switch costs under O(1) (2.6.22) and under the first CFS (2.6.23).
//!
//! CFS is measured twice: with *knobs*, tunables that are read from memory at each use, and with *constants*, tunables
//! compiled in. Two processes pass a byte to each other (`lat_ctx`, `pipe-test`). A script of their scheduler calls is
//! recorded in the simulator, and the scheduler's own code is measured while a player repeats the script. 6.12 is
//! measured the same way. `hackbench` is simulated.

use vruntime_report::{Chart, Claim, FigureTable, Reproduced, Series};
use vruntime_sim::{Config, MachineSpec, parallel, parse_topology};
use vruntime_trace::NoSink;
use vruntime_workload::model;

use super::native::instructions::{Counted, per_switch};
use super::native::measure::{Times, measure};
use super::native::subject::Subject;
use super::published::ctxsw::{DOCUMENT, LAT_CTX_US, MESSAGING_S, PIPE_TEST_US, SUMMARY_US};
use super::{percent_more, simulate, table};

const LAT_CTX: &str = "lat_ctx -s 0 2";
const PIPE_TEST: &str = "pipe-test";
const MESSAGING: &str = "hackbench 50";
/// Rows of the document's table: runs of `lat_ctx`.
const RUNS: usize = 10;
/// Measurements in each value, which is their mean. All subjects are measured in turn.
const TURNS: usize = 5;
/// Calls per script.
const CALLS: usize = 30_000;

/// The allowed cost of 6.12's knobs over constants.
const KNOBS_MOST: f64 = 0.01;

// Indices of subjects in `Measured`: `lat_ctx`, then `pipe-test`.
const O1: usize = 0;
const KNOBS: usize = 1;
const CONSTANTS: usize = 2;
const KNOBS_TODAY: usize = 3;
const CONSTANTS_TODAY: usize = 4;
const PIPE_O1: usize = 5;
const PIPE_KNOBS: usize = 6;
const PIPE_CONSTANTS: usize = 7;
/// The columns of the document's table.
const COLUMNS: [usize; 3] = [O1, KNOBS, CONSTANTS];

/// Costs of the scheduler's own code per switch, and times of hackbench.
struct Measured {
    /// Instructions.
    counted: Counted,
    /// Nanoseconds in each turn.
    times: Vec<Times>,
    /// Means of [`TURNS`] turns each, nanoseconds.
    rows: Vec<Times>,
    /// Simulated seconds under O(1) and CFS, for each seed.
    hackbench: [Vec<f64>; 2],
}

pub(super) fn reproduce() -> miette::Result<Reproduced> {
    let measured = Measured::new()?;
    Ok(Reproduced {
        name: "ctxsw".to_owned(),
        title: "Two processes pass a byte to each other. Measured: the cost of a context switch under O(1), under the first CFS with knobs, \
            and with constants instead of knobs."
            .to_owned(),
        document: DOCUMENT.to_owned(),
        tables: vec![measured.lat_ctx_table(), measured.others_table(), measured.hackbench_table()],
        charts: vec![measured.lat_ctx_chart(), measured.hackbench_chart()],
        claims: vec![measured.claim()],
        findings: measured.findings(),
        method: measured.method(),
    })
}

impl Measured {
    fn new() -> miette::Result<Self> {
        let constant = |subject: Subject| Subject { constant: true, ..subject };
        let lat_ctx = |kernel: &str| Subject::new(kernel, LAT_CTX);
        // In the order of the constants above.
        let subjects = [
            lat_ctx("2.6.22"),
            lat_ctx("2.6.23"),
            constant(lat_ctx("2.6.23")),
            lat_ctx("6.12"),
            constant(lat_ctx("6.12")),
            Subject::new("2.6.22", PIPE_TEST),
            Subject::new("2.6.23", PIPE_TEST),
            constant(Subject::new("2.6.23", PIPE_TEST)),
        ];
        let hackbench = hackbench()?;
        let scripts = subjects.iter().map(|subject| subject.script(CALLS)).collect::<miette::Result<Vec<_>>>()?;
        let sides: Vec<_> = subjects.iter().zip(&scripts).map(|(subject, script)| subject.side(script)).collect();
        let counted = per_switch(&sides);
        let (of_lat_ctx, of_pipe_test) = sides.split_at(PIPE_O1);
        let times: Vec<Times> =
            [of_lat_ctx, of_pipe_test].into_iter().flat_map(|sides| measure(sides, RUNS * TURNS)).collect();
        let rows = times.iter().map(|times| times.in_turns(TURNS)).collect();
        Ok(Self { counted, times, rows, hackbench })
    }

    fn instructions(&self, side: usize) -> String {
        self.counted.get(side).map_or_else(dash, |count| format!("{count:.0}"))
    }

    fn median_ns(&self, side: usize) -> String {
        ns(self.times[side].median())
    }

    fn time_ratio(&self, side: usize, than: usize) -> f64 {
        self.times[side].ratio_to(&self.times[than])
    }

    /// Describes the extra cost of a side over another.
    fn more(&self, side: usize, than: usize) -> String {
        let time = percent_more(self.time_ratio(side, than));
        match self.counted.ratio(side, than) {
            Some(count) => format!("{} instructions, {time} time", percent_more(count)),
            None => format!("{time} time"),
        }
    }

    fn lat_ctx_table(&self) -> FigureTable {
        let mut rows = Vec::new();
        for (run, published) in LAT_CTX_US.iter().enumerate() {
            let ours = COLUMNS.map(|side| ns(self.rows[side].0[run]));
            rows.push(pairs(&format!("run {}", run + 1), published.map(us), ours));
        }
        let summaries: [fn(&Times) -> f64; 3] = [Times::mean, Times::least, Times::most];
        for ((name, published), summary) in SUMMARY_US.iter().zip(summaries) {
            let ours = COLUMNS.map(|side| summary(&self.rows[side]));
            rows.push(pairs(name, beside_first(*published, us), beside_first(ours, ns)));
        }
        rows.push(pairs("instructions", [dash(), dash(), dash()], COLUMNS.map(|side| self.instructions(side))));
        table(
            "lat_ctx -s 0 2: published, microseconds of the whole switch on a machine of 2007; ours, nanoseconds of the scheduler's own \
             code a switch (and instructions), here",
            &["", "v2.6.22", "ours", "2.6.23-git", "ours", "+const-param", "ours"],
            1,
            rows,
        )
    }

    fn others_table(&self) -> FigureTable {
        let least = PIPE_TEST_US.iter().copied().fold(f64::INFINITY, f64::min);
        let most = PIPE_TEST_US.iter().copied().fold(0.0, f64::max);
        let row = |what: &str, published: String, knobs: usize, constants: Option<usize>| {
            let (time, count) =
                constants.map_or_else(|| (dash(), dash()), |side| (self.median_ns(side), self.instructions(side)));
            vec![what.to_owned(), published, self.median_ns(knobs), self.instructions(knobs), time, count]
        };
        table(
            "vruntime's 6.12, and pipe-test (published: microseconds for a loop of two switches; ours: for one switch)",
            &["", "published", "knobs: ns", "instructions", "constants: ns", "instructions"],
            1,
            vec![
                row("6.12, lat_ctx", dash(), KNOBS_TODAY, Some(CONSTANTS_TODAY)),
                row("2.6.23, pipe-test", format!("{least:.2} to {most:.2}"), PIPE_KNOBS, Some(PIPE_CONSTANTS)),
                row("2.6.22, pipe-test", dash(), PIPE_O1, None),
            ],
        )
    }

    fn hackbench_table(&self) -> FigureTable {
        let rows = MESSAGING_S.iter().enumerate().map(|(run, published)| {
            let ours =
                |kernel: usize| self.hackbench[kernel].get(run).map_or_else(dash, |seconds| format!("{seconds:.3}"));
            let of = |kernel: usize| [format!("{:.3}", published[kernel]), ours(kernel)];
            [vec![format!("run {}", run + 1)], of(0).to_vec(), of(1).to_vec()].concat()
        });
        table(
            "hackbench 50, seconds (ours: simulated, 2 CPUs, one seed a run)",
            &["", "v2.6.22", "ours", "v2.6.23-cfs", "ours"],
            1,
            rows.collect(),
        )
    }

    fn lat_ctx_chart(&self) -> Chart {
        let (_, published) = SUMMARY_US[0];
        Chart {
            title: "lat_ctx: a switch relative to 2.6.22's".to_owned(),
            y: "2.6.22 = 1".to_owned(),
            labels: ["2.6.22 (O(1))", "2.6.23, knobs", "2.6.23, constants"].map(str::to_owned).to_vec(),
            series: vec![
                Series::published("published, time of the whole switch", published.map(|us| us / published[0])),
                Series::ours("here, time of the scheduler", COLUMNS.map(|side| self.time_ratio(side, O1))),
                Series::ours("here, instructions", COLUMNS.map(|side| self.counted.ratio(side, O1))),
            ],
            ..Chart::default()
        }
    }

    fn hackbench_chart(&self) -> Chart {
        Chart {
            title: "hackbench 50".to_owned(),
            y: "seconds".to_owned(),
            labels: ["2.6.22 (O(1))", "2.6.23 (CFS)"].map(str::to_owned).to_vec(),
            series: vec![
                Series::published("published", published_hackbench()),
                Series::ours("here, simulated", self.hackbench.iter().map(|seconds| mean(seconds))),
            ],
            ..Chart::default()
        }
    }

    fn claim(&self) -> Claim {
        let ratio = self.counted.ratio(KNOBS_TODAY, CONSTANTS_TODAY);
        let ratio = ratio.unwrap_or_else(|| self.time_ratio(KNOBS_TODAY, CONSTANTS_TODAY));
        Claim::new(
            "6.12: knobs cost at most 1 % over constants",
            ratio <= 1.0 + KNOBS_MOST,
            self.more(KNOBS_TODAY, CONSTANTS_TODAY),
        )
    }

    fn findings(&self) -> Vec<String> {
        let [average, least, greatest] = SUMMARY_US.map(|(_, us)| percent_more(us[CONSTANTS] / us[KNOBS]));
        let (_, published) = SUMMARY_US[0];
        let [o1, cfs] = published_hackbench();
        let [our_o1, our_cfs] = &self.hackbench;
        vec![
            format!(
                "Constants against knobs: published {average} on average, {least} of the least, {greatest} of the greatest; here {}. The \
                 knobs are fields of one structure. On a current machine, reading them is a small part of a switch.",
                self.more(CONSTANTS, KNOBS)
            ),
            format!(
                "CFS with knobs against O(1): published {} time; here {}.",
                percent_more(published[KNOBS] / published[O1]),
                self.more(KNOBS, O1)
            ),
            format!(
                "hackbench 50, CFS against O(1): published {}; here {} simulated seconds.",
                percent_more(cfs / o1),
                percent_more(mean(our_cfs) / mean(our_o1))
            ),
        ]
    }

    fn method(&self) -> Vec<String> {
        vec![
            format!(
                "Times: the benchmark is simulated on one CPU (HZ=250), and its {CALLS} calls of wake, schedule and tick are recorded. The \
                 scheduler alone then receives the same calls, and must decide as before. The columns take turns, pinned to one CPU, for {} \
                 rounds after one for warm-up; a row is the mean of {TURNS}. Time is CPU time of this thread.",
                RUNS * TURNS
            ),
            self.counted.method(),
            "Knobs and constants have the same values, and so the decisions are equal. Each is a type that only these measurements use, so \
             the compiler treats both alike. Features are switches in memory on both sides.".to_owned(),
            "hackbench: the whole machine is simulated, with the default costs of a current machine. The document does not describe its machine."
                .to_owned(),
        ]
    }
}

fn us(value: f64) -> String {
    format!("{value:.2}")
}

fn ns(value: f64) -> String {
    format!("{value:.1}")
}

fn dash() -> String {
    "-".to_owned()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns a row of published figures, each followed by ours.
fn pairs(what: &str, published: [String; 3], ours: [String; 3]) -> Vec<String> {
    let cells = published.into_iter().zip(ours).flat_map(|(published, ours)| [published, ours]);
    std::iter::once(what.to_owned()).chain(cells).collect()
}

/// Formats figures, with differences from the first.
fn beside_first(values: [f64; 3], text: fn(f64) -> String) -> [String; 3] {
    let first = values[0];
    let with = |value: f64| format!("{} ({})", text(value), percent_more(value / first));
    [text(first), with(values[1]), with(values[2])]
}

/// Returns the means of the document's runs, seconds, under O(1) and CFS.
fn published_hackbench() -> [f64; 2] {
    [0, 1].map(|kernel| mean(&MESSAGING_S.map(|run| run[kernel])))
}

/// Simulates hackbench under O(1) and CFS with each seed, and returns seconds.
fn hackbench() -> miette::Result<[Vec<f64>; 2]> {
    let workload = model::parse(MESSAGING).map_err(|error| miette::miette!("{error}"))?;
    let mut jobs = Vec::new();
    for kernel in ["2.6.22", "2.6.23"] {
        let kernel = vruntime_sched::kernel(kernel).map_err(|error| miette::miette!("{error}"))?;
        let topology = parse_topology("2").map_err(|error| miette::miette!("{}", error.message))?;
        let config = Config::new(kernel, MachineSpec::new(topology));
        jobs.extend((1..=SEEDS).map(|seed| Config { seed, ..config.clone() }));
    }
    let runs =
        parallel(&jobs, |_, config| simulate(&workload, config, &mut NoSink).map(|outcome| outcome.end as f64 / 1e9));
    let runs = runs.into_iter().collect::<miette::Result<Vec<f64>>>()?;
    let (o1, cfs) = runs.split_at(SEEDS as usize);
    Ok([o1.to_vec(), cfs.to_vec()])
}

/// Seeds of hackbench, whose runs take long.
const SEEDS: u64 = 2;
