//! `cargo xtask rt-app`: runs files alternately with rt-app and `vruntime real`, and compares their logs.
//!
//! rt-app's `run` is a number of turns of a loop. Before each run, rt-app calibrates a turn by the shortest of some, so
//! on a machine of varying speed runs differ in work. So the median turn is measured here before each run, and
//! [`input`] passes it to rt-app.

mod cells;
mod input;
mod logs;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use miette::{IntoDiagnostic, WrapErr, miette};

use crate::command::{build, command};
use crate::here::Here;
use crate::print;
use cells::{Comparison, Figures};
use logs::FIGURES;

/// The examples of Debian's package.
const EXAMPLES: &str = "/usr/share/doc/rt-app/examples";
/// Our files, for features that the examples lack.
const OWN: &str = "fidelity/rt-app";
/// Time of a program beyond that of its tasks, seconds.
const BEGINNING_S: u64 = 10;
/// A task that runs some turns of rt-app's loop at a time.
const PACE: &str = r#"{ "tasks" : { "pace" : { "loop" : 200, "run" : 2000, "timer" : { "ref" : "tick", "period" : 3000 } } },
  "global" : { "duration" : 3, "calibration" : 100, "logdir" : "./" } }"#;

#[derive(Debug, Args)]
pub(crate) struct RtApp {
    /// rt-app files, or folders of them [default: the examples of Debian's package, and fidelity/rt-app]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How often each runs under both
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// How much of each is run, at most
    #[arg(long, value_name = "SECONDS", default_value = "6", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Only the figures that do not agree
    #[arg(long)]
    misses: bool,
    /// Leave all figures there, as a page
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl RtApp {
    pub(crate) fn run(&self) -> miette::Result<()> {
        if !cfg!(target_os = "linux") {
            return Err(miette!("real threads run under Linux only"));
        }
        let here = Here::now()?;
        let files = self.files()?;
        let vruntime = build()?;
        // Fails early without rt-app.
        let pace = self.pace()?;
        print::line!("a turn of rt-app's loop takes {pace:.1} ns now; which is measured before each of its runs\n");
        print::line!("{:<28} {:<12} {:<20} {:>22} {:>22}", "file", "task", "figure", "rt-app", "vruntime real");
        let mut all = Comparison::default();
        for file in files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            match self.compared(&file, &vruntime) {
                Ok((theirs, ours)) => {
                    let first = all.cells.len();
                    all.add(&name, theirs, &ours);
                    let shown = all.cells[first..].iter().filter(|cell| !self.misses || !cell.is_inside());
                    shown.for_each(|cell| print::line!("{}", cell.line()));
                }
                Err(error) => {
                    print::line!("{name:<28} left out: {error}");
                    all.left_out.push((name, error.to_string()));
                }
            }
        }
        if let Some(path) = &self.out {
            let command: Vec<String> = std::env::args().skip(1).collect();
            let about = format!("{} runs of each, in turns, {} s at most.", self.runs, self.seconds);
            write(path, &all.page(&here, &format!("cargo xtask {}", command.join(" ")), &about))?;
        }
        print::line!("{} runs of each, {} s at most", self.runs, self.seconds);
        print::line!("{}", all.score());
        Ok(())
    }

    /// Returns a file's figures, by rt-app and by `vruntime real`, which take turns to be first.
    fn compared(&self, file: &Path, vruntime: &Path) -> miette::Result<(Figures, Figures)> {
        let name = file.file_name().unwrap_or_default();
        let text =
            fs::read_to_string(file).into_diagnostic().wrap_err_with(|| format!("cannot read {}", file.display()))?;
        let seconds = input::duration(&text).map_or(self.seconds, |own| own.min(self.seconds));
        let (mut theirs, mut ours) = (Figures::new(), Figures::new());
        let run_theirs = |theirs: &mut Figures| {
            let pace = self.pace()?;
            gather(theirs, "rt-app itself", seconds, |folder| {
                let adapted = folder.join(name);
                write(&adapted, &input::adapted(&text, pace, seconds))?;
                self.rt_app(&adapted, folder)
            })
        };
        let run_ours = |ours: &mut Figures| {
            gather(ours, "vruntime real", seconds, |folder| run_ours(vruntime, file, seconds, folder))
        };
        for round in 0..self.runs {
            // Files that rt-app rejects are skipped.
            if round % 2 == 0 {
                run_theirs(&mut theirs)?;
                run_ours(&mut ours)?;
            } else {
                run_ours(&mut ours)?;
                run_theirs(&mut theirs)?;
            }
        }
        Ok((theirs, ours))
    }

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

    /// Runs a command on a file with a time limit. At SIGINT, rt-app's threads complete their loop and logs.
    fn limited(&self, words: &[&str], file: &Path, folder: &Path) -> miette::Result<std::process::Output> {
        let limit = (self.seconds + BEGINNING_S).to_string();
        let mut run = command("timeout", ["--signal=INT", "--kill-after=5", &limit]);
        run.args(words).arg(file).current_dir(folder);
        run.output().into_diagnostic().wrap_err("cannot start timeout; on Debian: apt-get install coreutils")
    }

    /// Returns the median time of a turn of rt-app's loop, nanoseconds, measured with a known number of turns.
    fn pace(&self) -> miette::Result<f64> {
        let folder = folder()?;
        let file = folder.join("pace.json");
        write(&file, PACE)?;
        let measured = self.rt_app(&file, &folder).and_then(|()| {
            let log = folder.join("rt-app-pace-0.log");
            let text = fs::read_to_string(&log).into_diagnostic().wrap_err("rt-app leaves no log")?;
            let rows = logs::rows(&text).ok_or_else(|| miette!("{} is no log of rt-app's", log.display()))?;
            logs::percentile(rows.iter().filter(|row| row.asked > 0.0).map(|row| row.run / row.asked), 50)
                .filter(|part| *part > 0.0)
                .ok_or_else(|| miette!("rt-app's log is empty"))
        });
        remove(&folder)?;
        Ok(input::CALIBRATION_NS * measured?)
    }

    fn rt_app(&self, file: &Path, folder: &Path) -> miette::Result<()> {
        // rt-app sees only the last of repeated keys, so its package's workgen numbers them. That requires one key per
        // line.
        let mut done = self.limited(&["workgen", "-o", "unique.json"], file, folder)?;
        if done.status.code() == Some(1) && String::from_utf8_lossy(&done.stderr).contains("KeyError") {
            done = self.limited(&["rt-app"], file, folder)?;
        }
        // workgen succeeds even if rt-app fails.
        let messages = [&done.stdout, &done.stderr].map(|messages| String::from_utf8_lossy(messages).into_owned());
        let refused = messages.iter().flat_map(|messages| messages.lines()).find_map(|line| line.split_once("<crit>"));
        if let Some((_, why)) = refused {
            return Err(miette!("rt-app itself refuses it: {}", why.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
        match done.status.code() {
            Some(0 | 124) => Ok(()),
            Some(127) => Err(miette!("cannot start rt-app; on Debian: apt-get install rt-app")),
            _ => {
                let last =
                    messages.iter().rev().find_map(|messages| messages.lines().last()).unwrap_or("it said nothing");
                Err(miette!("rt-app itself ended with {}: {last}", done.status))
            }
        }
    }
}

fn write(path: &Path, text: &str) -> miette::Result<()> {
    fs::write(path, text).into_diagnostic().wrap_err_with(|| format!("cannot write {}", path.display()))
}

/// Returns an empty folder for the output of a run.
fn folder() -> miette::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("vruntime-rt-app-{}", std::process::id()));
    remove(&folder)?;
    fs::create_dir_all(&folder).into_diagnostic().wrap_err_with(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Returns the absolute path, for commands that start in another folder.
fn absolute(path: &Path) -> miette::Result<PathBuf> {
    path.canonicalize().into_diagnostic().wrap_err_with(|| format!("cannot read {}", path.display()))
}

fn run_ours(vruntime: &Path, file: &Path, seconds: u64, folder: &Path) -> miette::Result<()> {
    let mut run = command(&vruntime.to_string_lossy(), ["real", "--json", "--duration"]);
    run.arg(format!("{seconds}s")).arg("--rtapp-log").arg(folder).arg(file);
    let done = run.output().into_diagnostic().wrap_err_with(|| format!("cannot start {}", vruntime.display()))?;
    if done.status.success() {
        return Ok(());
    }
    let messages = String::from_utf8_lossy(&done.stderr);
    let what = messages.lines().find_map(|line| line.split_once('×')).map_or(messages.trim(), |(_, what)| what.trim());
    Err(miette!("vruntime refuses it: {what}"))
}

/// Runs `run` in a folder, and adds the figures of its logs for the first `seconds`.
fn gather(
    figures: &mut Figures,
    who: &str,
    seconds: u64,
    run: impl FnOnce(&Path) -> miette::Result<()>,
) -> miette::Result<()> {
    let folder = folder()?;
    let done = run(&folder).and_then(|()| logs::logs(&folder, seconds as f64));
    remove(&folder)?;
    let classes = done?;
    if classes.values().all(std::collections::BTreeMap::is_empty) {
        return Err(miette!("{who} leaves no logs of it"));
    }
    let loops = FIGURES.iter().position(|figure| figure.name == "loops");
    if classes.values().all(|values| loops.and_then(|at| values.get(&at)).is_none_or(|&count| count == 0.0)) {
        return Err(miette!("{who} ends no loop of it in {seconds} s"));
    }
    for (class, values) in classes {
        for (figure, value) in values {
            figures.entry((class.clone(), figure)).or_default().push(value);
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
