//! `cargo xtask rt-app`: rt-app itself and `vruntime real` run the same files, in turns, and their logs are compared.
//!
//! A cell is one figure of one class of tasks of one file: the range over all runs of the one beside that of the other. They agree if
//! the ranges meet, or if what lies between them is no wider than the wider of both, or than [`Figure::least`].
//!
//! rt-app's `run` is so many turns of a loop, and how long one takes it measures itself before each run, as the shortest of some: on a
//! machine whose speed varies each run then asks for other work. Here that is measured once, as what most turns take, and all runs are
//! told ([`Pace`]).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use miette::{IntoDiagnostic, WrapErr, miette};

use crate::command::{build, command, output};

/// Where Debian's package has its examples.
const EXAMPLES: &str = "/usr/share/doc/rt-app/examples";
/// Files of ours, which use what the examples do not.
const OWN: &str = "fidelity/rt-app";
/// How long rt-app may take before its tasks begin.
const BEGINNING_S: u64 = 20;
/// A task that computes 2 ms at a time, if a turn of rt-app's loop takes [`GUESS_NS`].
const PACE: &str = r#"{ "tasks" : { "pace" : { "loop" : 500, "run" : 2000, "timer" : { "ref" : "tick", "period" : 6000 } } },
  "global" : { "duration" : 3, "calibration" : 100, "logdir" : "./" } }"#;
const GUESS_NS: f64 = 100.0;

#[derive(Debug, Args)]
pub(crate) struct RtApp {
    /// rt-app files, or folders of them [default: the examples of Debian's package, and fidelity/rt-app]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How often each runs under both
    #[arg(long, value_name = "N", default_value = "3")]
    runs: u32,
    /// How much of each is run, at most
    #[arg(long, value_name = "SECONDS", default_value = "6")]
    seconds: u64,
    /// Only the cells that do not agree
    #[arg(long)]
    misses: bool,
}

/// A figure of a class of tasks, by the columns of rt-app's logs.
struct Figure {
    name: &'static str,
    /// What one log gives: its rows, and the seconds that count.
    of: fn(&[Row], f64) -> Option<f64>,
    /// Differences below this are none.
    least: f64,
}

/// Times of rows are whole microseconds; what a run is asked for is worked off to within some.
const FIGURES: [Figure; 5] = [
    Figure { name: "loops", of: |rows, _| Some(rows.len() as f64), least: 1.0 },
    Figure {
        name: "run (% of the time)",
        of: |rows, seconds| Some(rows.iter().map(|row| row.run).sum::<f64>() / seconds / 1e4),
        least: 0.1,
    },
    Figure { name: "period p50 (us)", of: |rows, _| percentile(rows.iter().map(|row| row.period), 50), least: 2.0 },
    Figure { name: "wu_lat p50 (us)", of: |rows, _| percentile(late(rows), 50), least: 2.0 },
    Figure { name: "wu_lat p90 (us)", of: |rows, _| percentile(late(rows), 90), least: 2.0 },
];

/// What a loop's row says, microseconds.
#[derive(Clone, Copy, Debug)]
struct Row {
    start: f64,
    run: f64,
    /// What it asked for.
    asked: f64,
    period: f64,
    timers: f64,
    late: f64,
}

fn late(rows: &[Row]) -> impl Iterator<Item = f64> {
    rows.iter().filter(|row| row.timers > 0.0).map(|row| row.late)
}

fn percentile(values: impl Iterator<Item = f64>, percent: usize) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) * percent / 100).copied()
}

/// A class of tasks and a figure, and what each run gave.
type Cells = BTreeMap<(String, usize), Vec<f64>>;

impl RtApp {
    pub(crate) fn run(&self) -> miette::Result<()> {
        if !cfg!(target_os = "linux") {
            return Err(miette!("real threads run under Linux only"));
        }
        let files = self.files()?;
        let vruntime = build()?;
        let pace = self.pace()?;
        println!("a turn of rt-app's loop takes {} ns: all runs are told\n", pace.0);
        let (mut agree, mut all) = (0, 0);
        println!("{:<28} {:<12} {:<20} {:>19} {:>19}", "file", "task", "figure", "rt-app", "vruntime real");
        for file in files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let (mut theirs, mut ours) = (Cells::new(), Cells::new());
            let text = fs::read_to_string(&file)
                .into_diagnostic()
                .wrap_err_with(|| format!("cannot read {}", file.display()))?;
            let seconds = duration(&text).map_or(self.seconds, |own| own.min(self.seconds));
            let compared = (0..self.runs).try_for_each(|_| {
                gather(&mut theirs, &file, seconds, |folder| {
                    let told = folder.join(format!("{name}.json"));
                    write(&told, &pace.told(&text))?;
                    self.rt_app(&told, folder)
                })?;
                gather(&mut ours, &file, seconds, |folder| run_ours(&vruntime, &file, seconds, folder))
            });
            if let Err(error) = compared {
                println!("{name:<28} left out: {error}");
                continue;
            }
            for ((class, figure), theirs) in &theirs {
                let Some(ours) = ours.get(&(class.clone(), *figure)) else {
                    all += 1;
                    println!("{name:<28} {class:<12} {:<20} {:>39}", FIGURES[*figure].name, "vruntime has none");
                    continue;
                };
                all += 1;
                let alike = alike(theirs, ours, FIGURES[*figure].least);
                agree += u32::from(alike);
                if !alike || !self.misses {
                    let verdict = if alike { "" } else { "  DIFFERS" };
                    let (theirs, ours) = (words(theirs), words(ours));
                    println!("{name:<28} {class:<12} {:<20} {theirs:>19} {ours:>19}{verdict}", FIGURES[*figure].name);
                }
            }
        }
        println!("{agree} of {all} agree, {} runs of each, {} s at most", self.runs, self.seconds);
        Ok(())
    }

    /// All files that are to run.
    fn files(&self) -> miette::Result<Vec<PathBuf>> {
        let defaults = [PathBuf::from(EXAMPLES), Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(OWN)];
        let named = if self.files.is_empty() { &defaults[..] } else { &self.files };
        let mut files = Vec::new();
        for path in named {
            let path = absolute(path)?;
            if path.is_dir() { json_files(&path, &mut files)? } else { files.push(path) }
        }
        if files.is_empty() {
            return Err(miette!(help = "on Debian: apt-get install rt-app", "there are no rt-app files in {named:?}"));
        }
        files.sort();
        Ok(files)
    }

    /// Runs a command on a file as long as a run may take. At SIGINT rt-app's threads end at the end of their loops, and its logs are whole.
    fn limited(&self, words: &[&str], file: &Path, folder: &Path) -> miette::Result<std::process::Output> {
        let limit = (self.seconds + BEGINNING_S).to_string();
        let mut run = command("timeout", ["--signal=INT", "--kill-after=5", &limit]);
        run.args(words).arg(file).current_dir(folder);
        run.output().into_diagnostic().wrap_err("cannot start timeout; on Debian: apt-get install coreutils")
    }

    /// How long a turn of rt-app's loop takes here: the median of what a known number of them took.
    fn pace(&self) -> miette::Result<Pace> {
        let folder = folder()?;
        let file = folder.join("pace.json");
        write(&file, PACE)?;
        let measured = self.rt_app(&file, &folder).and_then(|()| {
            let log = folder.join("rt-app-pace-0.log");
            let text = fs::read_to_string(&log).into_diagnostic().wrap_err("rt-app leaves no log")?;
            let rows = rows(&text).ok_or_else(|| miette!("{} is no log of rt-app's", log.display()))?;
            percentile(rows.iter().filter(|row| row.asked > 0.0).map(|row| row.run / row.asked), 50)
                .ok_or_else(|| miette!("rt-app's log is empty"))
        });
        remove(&folder)?;
        Ok(Pace((GUESS_NS * measured?).round().max(1.0)))
    }

    fn rt_app(&self, file: &Path, folder: &Path) -> miette::Result<()> {
        // workgen, of the same package, gives keys that are repeated numbers, for rt-app sees but the last of each. It reads only files that
        // have a key a line.
        let mut done = self.limited(&["workgen", "-o", "unique.json"], file, folder)?;
        if done.status.code() == Some(1) && String::from_utf8_lossy(&done.stderr).contains("KeyError") {
            done = self.limited(&["rt-app"], file, folder)?;
        }
        match done.status.code() {
            Some(0 | 124) => Ok(()),
            Some(127) => Err(miette!("cannot start rt-app; on Debian: apt-get install rt-app")),
            _ => {
                let said = String::from_utf8_lossy(&done.stderr);
                let last = said.lines().last().unwrap_or("it said nothing");
                Err(miette!("rt-app ended with {}: {last}", done.status))
            }
        }
    }
}

/// How long a turn of rt-app's loop takes, nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Pace(f64);

impl Pace {
    /// The file, with rt-app told so. By hand, for rt-app's files are more than JSON allows.
    fn told(self, text: &str) -> String {
        let ours = format!("\"calibration\" : {}", self.0);
        if let Some(at) = text.find("\"calibration\"") {
            let rest = &text[at..];
            let end = rest.find([',', '}', '\n']).unwrap_or(rest.len());
            return format!("{}{ours}{}", &text[..at], &rest[end..]);
        }
        let global = text.find("\"global\"").and_then(|at| Some(at + text[at..].find('{')? + 1));
        match (global, text.rfind('}')) {
            (Some(at), _) => format!("{}\n\t\t{ours},{}", &text[..at], &text[at..]),
            (None, Some(at)) => {
                format!("{},\n\t\"global\" : {{\n\t\t{ours}\n\t}}\n{}", text[..at].trim_end(), &text[at..])
            }
            (None, None) => text.to_owned(),
        }
    }
}

fn write(path: &Path, text: &str) -> miette::Result<()> {
    fs::write(path, text).into_diagnostic().wrap_err_with(|| format!("cannot write {}", path.display()))
}

/// An empty folder for what a run leaves.
fn folder() -> miette::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("vruntime-rt-app-{}", std::process::id()));
    remove(&folder)?;
    fs::create_dir_all(&folder).into_diagnostic().wrap_err_with(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// What is to be read by a command that starts in another folder.
fn absolute(path: &Path) -> miette::Result<PathBuf> {
    path.canonicalize().into_diagnostic().wrap_err_with(|| format!("cannot read {}", path.display()))
}

fn run_ours(vruntime: &Path, file: &Path, seconds: u64, folder: &Path) -> miette::Result<()> {
    let mut run = command(&vruntime.to_string_lossy(), ["real", "--json", "--duration"]);
    run.arg(format!("{seconds}s")).arg("--rtapp-log").arg(folder).arg(file);
    output(run, "rt-app").map(drop)
}

/// How long a file wants to run, seconds; none if it does not say, or for ever.
fn duration(text: &str) -> Option<u64> {
    let behind = text.split("\"duration\"").nth(1)?.trim_start().strip_prefix(':')?.trim_start();
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Runs something that leaves logs in a folder, and adds what they say of the first `seconds`.
fn gather(
    cells: &mut Cells,
    file: &Path,
    seconds: u64,
    run: impl FnOnce(&Path) -> miette::Result<()>,
) -> miette::Result<()> {
    let folder = folder()?;
    let done = run(&folder).and_then(|()| logs(&folder, seconds as f64));
    remove(&folder)?;
    let classes = done?;
    if classes.is_empty() {
        return Err(miette!("it leaves no logs: {}", file.display()));
    }
    for (class, values) in classes {
        for (figure, value) in values {
            cells.entry((class.clone(), figure)).or_default().push(value);
        }
    }
    Ok(())
}

fn remove(folder: &Path) -> miette::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    fs::remove_dir_all(folder).into_diagnostic().wrap_err_with(|| format!("cannot remove {}", folder.display()))
}

fn json_files(folder: &Path, found: &mut Vec<PathBuf>) -> miette::Result<()> {
    let failed = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).into_diagnostic().wrap_err_with(failed)? {
        let path = entry.into_diagnostic().wrap_err_with(failed)?.path();
        if path.is_dir() {
            json_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
    Ok(())
}

/// The figures of each class, the mean of its tasks.
fn logs(folder: &Path, seconds: f64) -> miette::Result<BTreeMap<String, BTreeMap<usize, f64>>> {
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
        // rt-app ends each loop that it has begun.
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

/// Columns go by their names, which differ between versions.
fn rows(text: &str) -> Option<Vec<Row>> {
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

fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| (low.min(value), high.max(value)))
}

fn alike(theirs: &[f64], ours: &[f64], least: f64) -> bool {
    let (theirs, ours) = (range(theirs), range(ours));
    let between = (ours.0 - theirs.1).max(theirs.0 - ours.1);
    between <= (theirs.1 - theirs.0).max(ours.1 - ours.0).max(least)
}

fn words(values: &[f64]) -> String {
    let (low, high) = range(values);
    let number = |value: f64| if value.abs() < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") };
    let (low, high) = (number(low), number(high));
    if low == high { low } else { format!("{low}..{high}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that rt-app 1.0 wrote.
    const LOG: &str = "# Policy : SCHED_OTHER priority : 0\n\
        #idx     perf      run   period           start             end          rel_st      slack c_duration   c_period     wu_lat\n   \
        0    20000     4163    15098            4221           19319            4221       5587       2000      10000       5348\n   \
        0    10000     2100    10000           19319           29319           19319       7800       2000      10000         60\n";

    #[test]
    fn figures_come_from_the_columns_of_that_name() {
        let rows = rows(LOG).expect("it is a log");
        let figures: Vec<Option<f64>> = FIGURES.iter().map(|figure| (figure.of)(&rows, 0.02)).collect();
        assert_eq!(figures, [Some(2.0), Some(31.315), Some(10_000.0), Some(60.0), Some(60.0)]);
        assert!(super::rows("# a log\n1 2 3\n").is_none() && super::rows("").is_none());
    }

    #[test]
    fn files_are_told_how_long_a_turn_takes() {
        let told = |text: &str| Pace(87.0).told(text);
        assert_eq!(
            told("{\n\t\"global\" : {\n\t\t\"calibration\" : \"CPU0\",\n\t\t\"x\" : 1\n\t}\n}"),
            "{\n\t\"global\" : {\n\t\t\"calibration\" : 87,\n\t\t\"x\" : 1\n\t}\n}"
        );
        assert_eq!(told("{ \"global\" : { \"calibration\" : 5 } }"), "{ \"global\" : { \"calibration\" : 87} }");
        assert_eq!(told("{ \"global\" : { \"x\" : 1 } }"), "{ \"global\" : {\n\t\t\"calibration\" : 87, \"x\" : 1 } }");
        assert!(told("{ \"tasks\" : { } }").contains("},\n\t\"global\" : {\n\t\t\"calibration\" : 87\n\t}"));
    }

    #[test]
    fn a_file_says_how_long_it_runs() {
        assert_eq!(duration("{ \"global\" : { \"duration\" : 6,"), Some(6));
        assert_eq!((duration("\"duration\": -1"), duration("{}")), (None, None));
    }

    #[test]
    fn ranges_agree_that_meet_or_lie_as_near_as_they_are_wide() {
        assert!(
            alike(&[1.0, 3.0], &[2.0, 9.0], 0.0) && alike(&[1.0, 3.0], &[5.0], 0.0) && alike(&[5.0], &[1.0, 3.0], 0.0)
        );
        assert!(!alike(&[1.0, 3.0], &[5.1], 0.0) && alike(&[1.0], &[2.0], 1.0) && !alike(&[1.0], &[2.0], 0.9));
    }
}
