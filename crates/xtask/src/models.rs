//! `cargo xtask models`: runs benchmarks for real, and simulates their models with costs of the same round.
//!
//! A round calibrates, runs each program once, and simulates each model with the measured costs. Medians over rounds
//! are compared, since a calibration is only a sample. `--each` calibrates before each program. If more rounds are
//! inside then, the machine changes. Otherwise, the model is wrong.

mod benchmark;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use miette::{IntoDiagnostic, WrapErr, miette};
use serde_json::{Value, json};

use crate::command::{build, command, output};
use crate::here::{Here, stolen};
use crate::print;
use benchmark::Benchmark;

/// The greatest difference of a simulated time, as a part of the real one.
const TOLERANCE: f64 = 0.25;
/// With a greater spread of real runs, the comparison says little.
const NOISY: f64 = 0.25;

#[derive(Debug, Args)]
pub(crate) struct Models {
    /// How often each runs
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Simulate this machine, as `vruntime calibrate --out` has left it, instead of calibrating in each round
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Calibrate before each program, not only once a round: how much of what differs is the machine's own change
    #[arg(long, conflicts_with = "machine")]
    each: bool,
    /// Leave all figures there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Groups of hackbench, 40 tasks each; can be repeated
    #[arg(long, value_name = "N", default_values = ["1", "4"], value_parser = clap::value_parser!(u64).range(1..=250))]
    groups: Vec<u64>,
    /// Turns of perf bench sched pipe
    #[arg(long, value_name = "N", default_value = "50000", value_parser = clap::value_parser!(u64).range(1..))]
    loops: u64,
    /// Loops of hackbench's senders, divided among its groups
    #[arg(long, value_name = "N", default_value = "4000", value_parser = clap::value_parser!(u64).range(1..))]
    messages: u64,
    /// Only benchmarks whose command line contains this, the program's or the model's
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The kernel that is simulated [default: the one that runs]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// When to give a program up
    #[arg(long, value_name = "SECONDS", default_value = "120")]
    timeout: u64,
}

/// A benchmark, with a figure for each round and side.
struct Row {
    benchmark: Benchmark,
    real: Vec<f64>,
    simulated: Vec<f64>,
    /// CPU time that the host took during the run, percent.
    stolen: Vec<f64>,
}

impl Models {
    pub(crate) fn run(&self) -> miette::Result<()> {
        if !cfg!(target_os = "linux") {
            return Err(miette!("real programs run under Linux only"));
        }
        let here = Here::now()?;
        let kernel = self.kernel.clone().unwrap_or_else(|| here.version());
        let mut rows = self.rows()?;
        let vruntime = build()?;
        let folder = tempfile::tempdir().into_diagnostic().wrap_err("cannot make a folder for what runs leave")?;
        print::line!("{}: Linux {} on {}; {kernel} simulated", here.date, here.kernel, here.machine);
        print::line!("{}\n", self.procedure());
        for round in 1..=self.rounds {
            let mut machine = self.calibrated(&vruntime, &folder.path().join("machine.toml"))?;
            for (index, row) in rows.iter_mut().enumerate() {
                if self.each && index > 0 {
                    machine = self.calibrated(&vruntime, &machine)?;
                }
                let (real, stolen) = row.run(self.timeout)?;
                let simulated = row.benchmark.simulated(&vruntime, &machine, &kernel, folder.path())?;
                let (unit, words) = (row.benchmark.figure.unit(), row.benchmark.words());
                print::line!(
                    "round {round}: {words:<40} {} {unit}, simulated {} ({}), {stolen:.1} % stolen",
                    number(real),
                    number(simulated),
                    percent(simulated / real - 1.0),
                );
                row.real.push(real);
                row.simulated.push(simulated);
                row.stolen.push(stolen);
            }
        }
        if let Some(path) = &self.json {
            let text = format!("{:#}\n", self.data(&here, &kernel, &rows));
            fs::write(path, text).into_diagnostic().wrap_err_with(|| format!("cannot write {}", path.display()))?;
        }
        print::text!("{}", table(&rows));
        Ok(())
    }

    fn procedure(&self) -> String {
        let calibrated = match (&self.machine, self.each) {
            (Some(file), _) => return format!("each round runs every program; simulated is {}", file.display()),
            (None, true) => "before every program",
            (None, false) => "once",
        };
        format!(
            "each round calibrates {calibrated}, runs every program, and simulates every model with what was measured"
        )
    }

    /// Returns the requested benchmarks that exist on this machine.
    fn rows(&self) -> miette::Result<Vec<Row>> {
        let mut groups = self.groups.clone();
        groups.sort_unstable();
        groups.dedup();
        let named = |it: &Benchmark| {
            self.only.as_ref().is_none_or(|text| it.words().contains(text.as_str()) || it.model.contains(text.as_str()))
        };
        let all: Vec<Benchmark> =
            benchmark::all(&groups, self.loops, self.messages).into_iter().filter(named).collect();
        if all.is_empty() {
            return Err(miette!("there is no benchmark whose command line contains that"));
        }
        let mut missing: Vec<&Benchmark> = Vec::new();
        for it in &all {
            if !missing.iter().any(|known| known.program == it.program) && !it.is_there() {
                missing.push(it);
            }
        }
        for it in &missing {
            print::line!(
                "{} is not there, and what it runs is left out; on Debian: apt-get install {}",
                it.program,
                it.package
            );
        }
        let is_missing = |it: &Benchmark| missing.iter().any(|known| known.program == it.program);
        let rows: Vec<Row> = { all.iter() }
            .filter(|it| !is_missing(it))
            .map(|it| Row { benchmark: it.clone(), real: Vec::new(), simulated: Vec::new(), stolen: Vec::new() })
            .collect();
        if rows.is_empty() {
            return Err(miette!("none of the programs is there"));
        }
        Ok(rows)
    }

    /// Returns the given machine, or the machine as measured now.
    fn calibrated(&self, vruntime: &Path, to: &Path) -> miette::Result<PathBuf> {
        if let Some(given) = &self.machine {
            return given.canonicalize().into_diagnostic().wrap_err_with(|| format!("cannot read {}", given.display()));
        }
        let mut run = command(&vruntime.to_string_lossy(), ["calibrate", "--out"]);
        run.arg(to);
        output(run, "cargo").wrap_err("cannot calibrate")?;
        Ok(to.to_owned())
    }

    fn data(&self, here: &Here, kernel: &str, rows: &[Row]) -> Value {
        let row = |row: &Row| {
            json!({
                "command": row.benchmark.words(),
                "model": row.benchmark.model,
                "unit": row.benchmark.figure.unit(),
                "real": row.real,
                "simulated": row.simulated,
                "stolen_percent": row.stolen,
                "ratio": row.ratio(),
                "inside": row.inside(),
            })
        };
        json!({
            "recorded": here.date,
            "kernel": here.kernel,
            "machine": here.machine,
            "simulated_kernel": kernel,
            "procedure": self.procedure(),
            "tolerance": TOLERANCE,
            "benchmarks": rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

impl Benchmark {
    /// Simulates the model, and returns its figure.
    fn simulated(&self, vruntime: &Path, machine: &Path, kernel: &str, folder: &Path) -> miette::Result<f64> {
        let file = folder.join("model.toml");
        fs::write(&file, self.scenario())
            .into_diagnostic()
            .wrap_err_with(|| format!("cannot write {}", file.display()))?;
        let mut run = command(&vruntime.to_string_lossy(), ["run", "--json", "--kernel", kernel, "--machine"]);
        run.arg(machine).arg(&file);
        let printed = output(run, "cargo").wrap_err_with(|| format!("cannot simulate {}", self.model))?;
        let printed: Value =
            serde_json::from_slice(&printed).into_diagnostic().wrap_err("vruntime run --json printed no JSON")?;
        let numbers = printed.pointer("/observed/0/benchmarks/0/numbers");
        let figure = numbers.and_then(|numbers| numbers[self.figure.json_key()].as_f64());
        figure.ok_or_else(|| miette!("{} did not come to its end simulated", self.model))
    }
}

impl Row {
    /// Runs the program. Returns its figure, and the host's CPU time, percent.
    fn run(&self, timeout: u64) -> miette::Result<(f64, f64)> {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
        let (began, before) = (std::time::Instant::now(), stolen());
        let figure = self.benchmark.run(timeout)?;
        let taken = before.zip(stolen()).map_or(0.0, |(before, after)| after - before);
        Ok((figure, 100.0 * taken / (began.elapsed().as_secs_f64() * cpus)))
    }

    /// Simulated by real.
    fn ratio(&self) -> f64 {
        median(&self.simulated) / median(&self.real)
    }

    fn inside(&self) -> bool {
        near(self.ratio())
    }

    /// Returns the number of rounds that are inside.
    fn rounds_inside(&self) -> usize {
        self.real.iter().zip(&self.simulated).filter(|&(real, simulated)| near(simulated / real)).count()
    }
}

fn near(ratio: f64) -> bool {
    (ratio - 1.0).abs() <= TOLERANCE
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// Greatest minus least, as a part of the median.
fn spread(values: &[f64]) -> f64 {
    let (low, high) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &it| (low.min(it), high.max(it)));
    (high - low) / median(values)
}

fn number(value: f64) -> String {
    format!("{value:.*}", if value < 10.0 { 2 } else { 1 })
}

fn percent(part: f64) -> String {
    format!("{:+.0} %", 100.0 * part)
}

fn table(rows: &[Row]) -> String {
    let mut lines = vec![
        String::new(),
        "| benchmark | real, each round | median | simulated, each round | median | ratio | real rounds differ by | stolen | |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    let list = |values: &[f64]| values.iter().map(|&value| number(value)).collect::<Vec<_>>().join(" ");
    for row in rows {
        let verdict = match (row.inside(), spread(&row.real) > NOISY) {
            (true, false) => "inside",
            (true, true) => "inside, noisy",
            (false, false) => "OUTSIDE",
            (false, true) => "OUTSIDE, noisy",
        };
        lines.push(format!(
            "| `{}`, {} | {} | {} | {} | {} | {:.2} | {:.0} % | {:.1} % | {verdict} |",
            row.benchmark.words(),
            row.benchmark.figure.unit(),
            list(&row.real),
            number(median(&row.real)),
            list(&row.simulated),
            number(median(&row.simulated)),
            row.ratio(),
            100.0 * spread(&row.real),
            median(&row.stolen),
        ));
    }
    let sum = |of: &dyn Fn(&Row) -> usize| rows.iter().map(of).sum::<usize>();
    let noisy = sum(&|row| usize::from(spread(&row.real) > NOISY));
    let spreads = |of: &dyn Fn(&Row) -> &[f64]| median(&rows.iter().map(|row| spread(of(row))).collect::<Vec<_>>());
    lines.extend([
        String::new(),
        format!(
            "noise: from round to round real figures differ by {:.0} %, simulated ones (by what was calibrated) by {:.0} %, medians over benchmarks; \
             {noisy} of {} benchmarks differ for real by more than the {:.0} % that are allowed to their models",
            100.0 * spreads(&|row| &row.real),
            100.0 * spreads(&|row| &row.simulated),
            rows.len(),
            100.0 * NOISY,
        ),
        format!("round by round: {} of {} within 25 %", sum(&Row::rounds_inside), sum(&|row| row.real.len())),
        format!("inside {} of {}", sum(&|row| usize::from(row.inside())), rows.len()),
        String::new(),
    ]);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(real: &[f64], simulated: &[f64]) -> Row {
        let benchmark = benchmark::all(&[1], 10, 10).remove(0);
        Row { benchmark, real: real.to_vec(), simulated: simulated.to_vec(), stolen: vec![0.5; real.len()] }
    }

    #[test]
    fn medians_are_judged() {
        let this = row(&[10.0, 30.0, 11.0], &[12.0, 9.0, 13.7]);
        assert_eq!((median(&this.real), this.inside(), this.rounds_inside()), (11.0, true, 2));
        let edge = |simulated: f64| row(&[1.0], &[simulated]).inside();
        assert!(edge(1.25) && edge(0.75) && !edge(1.26) && !edge(0.74) && !edge(f64::NAN));
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!((spread(&[10.0, 12.0, 11.0]) - 2.0 / 11.0).abs() < 1e-9);
    }

    #[test]
    fn the_table_says_what_is_inside_and_how_noisy_it_was() {
        let table = table(&[row(&[10.0, 10.5], &[11.0, 12.0]), row(&[10.0, 20.0], &[30.0, 31.0])]);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[3].ends_with("| 1.12 | 5 % | 0.5 % | inside |"), "{table}");
        assert!(lines[4].ends_with("| 2.03 | 67 % | 0.5 % | OUTSIDE, noisy |"), "{table}");
        assert!(table.contains("round by round: 2 of 4 within 25 %") && table.contains("1 of 2 benchmarks differ"));
        assert_eq!(lines.last(), Some(&"inside 1 of 2"));
    }
}
