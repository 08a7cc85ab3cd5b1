//! `cargo xtask whatif`: compares predictions with reality.
//!
//! Records a program beside two hogs. Predicts from the recording the effect of a change of the hogs, makes it, and
//! measures it. Compares CPU time of program and hogs, and the program's throughput.

mod across;
mod changes;
mod page;
mod programs;
mod written;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use miette::{IntoDiagnostic, WrapErr, miette};
use serde_json::Value;

use crate::command::{build, command, output};
use crate::kernels::debian::Release;
use crate::print;
use changes::{Change, HOG, HOGS, Hogs, NOTHING, changes};
use programs::{FRESH, Group, LATER, OTHERS, PROGRAMS, Program};
use written::Written;

/// Ctrl-C was pressed.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Time for the machine to adapt to a change.
const ADAPTATION_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct WhatIf {
    /// How often each change is really made and measured
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// How long each recording is, seconds
    #[arg(long, value_name = "S", default_value = "2", value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Only programs of this name, such as redis; can be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Write the page to this file [default: print it]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Leave the recordings in this folder
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Predict once more from the recordings in this folder, which --keep left, and run no program
    #[arg(long, value_name = "DIR", conflicts_with = "keep")]
    again: Option<PathBuf>,
    /// Use this command instead of building one
    #[arg(long, value_name = "FILE")]
    vruntime: Option<PathBuf>,
    /// Which programs to run
    #[arg(long, value_enum, default_value_t = Set::Page)]
    set: Set,
    /// Only these changes, such as "no hogs"; can be repeated
    #[arg(long, value_name = "CHANGE")]
    change: Vec<String>,
    /// Only record each program once and replay that, without changes
    #[arg(long, conflicts_with_all = ["again", "across"])]
    as_recorded: bool,
    /// Predict other kernels instead: record under FROM, predict each TO, and run there. QEMU emulates all machines
    #[arg(long, num_args = 2.., value_names = ["FROM", "TO"], conflicts_with_all = ["set", "change"])]
    across: Vec<Release>,
    /// List programs and changes, and run none
    #[arg(long)]
    list: bool,
}

/// Programs to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Set {
    /// The ten programs of docs/what-if.md
    Page,
    /// The 22 that came after most of the replay's rules were made
    Others,
    /// The 18 of which no rule was made when they were added
    Fresh,
    /// Five with one lock for all work, or with exchanges that only wakeups show
    Later,
}

impl Set {
    const fn programs(self) -> &'static [Program] {
        match self {
            Self::Page => PROGRAMS,
            Self::Others => OTHERS,
            Self::Fresh => FRESH,
            Self::Later => LATER,
        }
    }
}

/// CPU time of program and hogs, percent of a CPU, and the program's speed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Share {
    program: f64,
    hogs: f64,
    /// Throughput in percent of the recording's, if known.
    speed: Option<f64>,
}

/// A prediction, and its measurements.
#[derive(Debug)]
pub(crate) struct Pair {
    program: &'static Program,
    change: &'static Change,
    recorded: Share,
    /// The replay as recorded.
    replayed: Share,
    verdict: String,
    predicted: Share,
    /// One for each run.
    measured: Vec<Share>,
}

impl WhatIf {
    pub(crate) fn run(self) -> miette::Result<()> {
        if self.list {
            let list = |programs: &[Program]| {
                for program in programs {
                    print::line!("{:12} {}", program.name, program.what);
                }
            };
            list(PROGRAMS);
            print::line!("\nWith --set others:");
            list(OTHERS);
            print::line!("\nWith --set fresh:");
            list(FRESH);
            print::line!("\nWith --set later:");
            list(LATER);
            print::line!("\nChanges:");
            for (change, name) in all_changes() {
                let arguments: Vec<_> =
                    change.arguments(&["PROGRAM"]).chunks(2).map(|pair| format!("{} '{}'", pair[0], pair[1])).collect();
                print::line!("{:30} {}{name}", change.what, arguments.join(" "));
            }
            return Ok(());
        }
        let programs = || PROGRAMS.iter().chain(OTHERS).chain(FRESH).chain(LATER);
        if let Some(name) = self.change.iter().find(|name| all_changes().all(|(change, _)| change.what != **name)) {
            return Err(miette!("no change is called {name:?}; --list lists them"));
        }
        if let Some(name) = self.only.iter().find(|name| programs().all(|program| program.name != **name)) {
            let all: Vec<_> = programs().map(|program| program.name).collect();
            return Err(miette!("no program is called {name}; there are {}", all.join(", ")));
        }
        let vruntime = self.vruntime.clone().map_or_else(build, Ok)?;
        let vruntime = fs::canonicalize(&vruntime)
            .into_diagnostic()
            .wrap_err_with(|| format!("there is no command {}", vruntime.display()))?;
        let temporary = tempfile::tempdir().into_diagnostic()?;
        let kept = self.again.clone().or_else(|| self.keep.clone());
        let folder = kept.unwrap_or_else(|| temporary.path().join("recordings"));
        fs::create_dir_all(&folder).into_diagnostic().wrap_err_with(|| format!("cannot make {}", folder.display()))?;
        let tool = Tool { vruntime, folder, seconds: self.seconds };
        if !self.across.is_empty() {
            let page = across::run(&self, &tool)?;
            return self.leave(&page, "kernels are compared");
        }
        // Values that end programs when they are dropped do not do so if a signal ends this process.
        ctrlc::set_handler(|| ASKED.store(true, Ordering::Relaxed)).into_diagnostic()?;
        let (mut pairs, mut left_out) = (Vec::new(), Vec::new());
        let chosen = |program: &&Program| {
            if self.only.is_empty() {
                return self.set.programs().iter().any(|of_set| of_set.name == program.name);
            }
            self.only.iter().any(|name| name == program.name)
        };
        for program in programs().filter(chosen) {
            if self.again.is_some() {
                pairs.extend(tool.pairs(program, u32::MAX)?);
                continue;
            }
            let lacks = program.lacks();
            if !lacks.is_empty() {
                eprintln!("{}: left out; on Debian: apt-get install {}", program.name, lacks.join(" "));
                left_out.push(format!("{} (this machine lacks {})", program.name, lacks.join(", ")));
                continue;
            }
            match self.pairs(program, &tool) {
                Ok(found) => pairs.extend(found),
                Err(error) if ASKED.load(Ordering::Relaxed) => return Err(error),
                // The other programs still run.
                Err(error) => {
                    eprintln!("{}: {error:?}", program.name);
                    left_out.push(format!("{} ({error})", program.name));
                }
            }
        }
        if self.as_recorded {
            for program in &left_out {
                print::line!("left out: {program}");
            }
            return Ok(());
        }
        let page = page::page(&mut pairs, &left_out, self.runs, self.seconds, &page::machine()?);
        self.leave(&page, &format!("{} pairs", pairs.len()))
    }

    /// Writes or prints a page.
    fn leave(&self, page: &str, what: &str) -> miette::Result<()> {
        match &self.out {
            None => print::text!("{page}"),
            Some(file) => {
                fs::write(file, page).into_diagnostic().wrap_err_with(|| format!("cannot write {}", file.display()))?;
                print::line!("{what}: {}", file.display());
            }
        }
        Ok(())
    }

    /// Records a program, then predicts and makes each change.
    fn pairs(&self, program: &'static Program, tool: &Tool) -> miette::Result<Vec<Pair>> {
        let mut folder = tempfile::tempdir().into_diagnostic()?;
        let mut running = program.start(folder.path())?;
        let recording = tool.folder.join(format!("{}.dat", program.name));
        let recorded = {
            let _hogs = Hogs::start(HOGS)?;
            wait(ADAPTATION_TIME, &ASKED)?;
            // The costs of the machine, as a user's recording has them.
            tool.record_with_throughput(&recording, (program, &[&running]), true)?;
            tool.measured(&recording, program)?
        };
        if recorded.program <= 0.0 {
            return Err(miette!("no task of it ran in the recording: it had not started after {} s", program.begins_s));
        }
        if self.as_recorded {
            running.runs()?;
            let (verdict, replayed) = tool.replayed(&recording, program)?;
            print::line!(
                "{:12} {:6.1} replayed {:6.1}; hogs {:6.1} replayed {:6.1}: {verdict}",
                program.name,
                recorded.program,
                replayed.program,
                recorded.hogs,
                replayed.hogs
            );
            return Ok(Vec::new());
        }
        for (name, change) in self.numbered(program) {
            let setting = change.setting()?;
            if setting.is_some() {
                drop(running);
                folder = tempfile::tempdir().into_diagnostic()?;
                running = program.start(folder.path())?;
            }
            for run in 0..self.runs {
                running.runs()?;
                let hogs = Hogs::changed(change, folder.path(), &running)?;
                wait(ADAPTATION_TIME, &ASKED)?;
                let file = tool.run(program, &name, run);
                let groups: Vec<_> = hogs.clients().chain([&running]).collect();
                tool.record_with_throughput(&file, (program, &groups), false)?;
            }
            if setting.is_some() {
                drop((setting, running));
                folder = tempfile::tempdir().into_diagnostic()?;
                running = program.start(folder.path())?;
            }
        }
        drop(running);
        tool.pairs(program, self.runs)
    }

    /// The asked of [`numbered`]'s changes. Nothing changed is always asked.
    fn numbered(&self, program: &'static Program) -> impl Iterator<Item = (String, &'static Change)> {
        let is_asked = |change: &Change| self.change.is_empty() || self.change.iter().any(|name| *name == change.what);
        numbered(program).filter(move |(_, change)| change.is_nothing() || is_asked(change))
    }
}

/// Waits. Fails as soon as `asked` is true.
fn wait(time: Duration, asked: &AtomicBool) -> miette::Result<()> {
    let began = Instant::now();
    loop {
        if asked.load(Ordering::Relaxed) {
            return Err(miette!("interrupted: the programs are ended, and changes are taken back"));
        }
        match time.checked_sub(began.elapsed()) {
            Some(rest) => std::thread::sleep(rest.min(Duration::from_millis(50))),
            None => return Ok(()),
        }
    }
}

/// Returns what is measured of a program, with its name in files: nothing changed, then each change.
fn numbered(program: &'static Program) -> impl Iterator<Item = (String, &'static Change)> {
    let changes = changes(program).enumerate().map(|(number, change)| (number.to_string(), change));
    std::iter::once(("base".to_owned(), NOTHING)).chain(changes)
}

/// Returns every change, with its program unless it is for all.
fn all_changes() -> impl Iterator<Item = (&'static Change, String)> {
    let of_all = changes::OF_HOGS.iter().map(|change| (change, String::new()));
    of_all
        .chain(PROGRAMS.iter().filter_map(|program| Some((program.clients.as_ref()?, format!(" ({})", program.name)))))
}

#[derive(Debug)]
struct Tool {
    vruntime: PathBuf,
    folder: PathBuf,
    seconds: u32,
}

impl Tool {
    fn ask(&self, arguments: &[&str]) -> miette::Result<Value> {
        let printed = output(command(&self.vruntime.to_string_lossy(), arguments), "rustc")?;
        serde_json::from_slice(&printed).into_diagnostic().wrap_err("vruntime printed no JSON")
    }

    /// Returns the recording of a change, by [`numbered`]'s name.
    fn run(&self, program: &Program, name: &str, run: u32) -> PathBuf {
        self.folder.join(format!("{}.{name}.{run}.dat", program.name))
    }

    /// Predicts each change of a recorded program, and compares with recordings of the change. Uses the first `most`,
    /// since a kept folder may have older ones. Leaves changes without recordings out.
    fn pairs(&self, program: &'static Program, most: u32) -> miette::Result<Vec<Pair>> {
        let recording = self.folder.join(format!("{}.dat", program.name));
        if !recording.exists() {
            return Ok(Vec::new());
        }
        let recorded = self.measured(&recording, program)?;
        // Folders of earlier versions lack it.
        let base = written::read(&recording)?;
        let mut pairs = Vec::new();
        for (name, change) in numbered(program) {
            wait(Duration::ZERO, &ASKED)?;
            let runs = (0..most).map(|run| self.run(program, &name, run));
            let files: Vec<PathBuf> = runs.take_while(|file| file.exists()).collect();
            if files.is_empty() {
                continue;
            }
            let mut measured = Vec::new();
            for file in &files {
                let speed = written::read(file)?.zip(base).map(|(written, base)| written / base * 100.0);
                measured.push(Share { speed, ..self.measured(file, program)? });
            }
            let (verdict, replayed, mut predicted) = self.predicted(&recording, program, change)?;
            if change.is_nothing() {
                predicted = replayed;
            }
            let pair = Pair { program, change, recorded, replayed, verdict, predicted, measured };
            eprintln!("{}", page::line(&pair));
            pairs.push(pair);
        }
        Ok(pairs)
    }

    /// Records, and writes the throughput of a program meanwhile beside the recording.
    fn record_with_throughput(
        &self,
        file: &Path,
        (program, groups): (&Program, &[&Group]),
        calibrates: bool,
    ) -> miette::Result<()> {
        let (done, written) = Written::during(program, groups, || self.record(file, calibrates));
        done?;
        let json = self.ask(&["trace", "info", &file.to_string_lossy(), "--json"])?;
        let time = |name: &str| json["stretches"][0][name].as_u64();
        let speed = time("start_ns").zip(time("end_ns")).and_then(|(from, to)| written.speed(from, to));
        written::write(file, speed)
    }

    fn record(&self, file: &Path, calibrates: bool) -> miette::Result<()> {
        let (duration, file_name) = (format!("{}s", self.seconds), file.to_string_lossy());
        let mut arguments = vec!["record", "--json", "--duration", &duration, "-o", &file_name];
        arguments.extend((!calibrates).then_some("--no-calibrate"));
        let json = self.ask(&arguments)?;
        match json["lost"].as_u64() {
            Some(0) | None => Ok(()),
            Some(lost) => Err(miette!("{lost} events were lost in {}", file.display())),
        }
    }

    /// CPU time in a recording.
    fn measured(&self, file: &Path, program: &Program) -> miette::Result<Share> {
        let json = self.ask(&["trace", "info", &file.to_string_lossy(), "--json"])?;
        let rows = json["tasks"].as_array().into_iter().flatten();
        let rows = rows.filter_map(|row| Some((format!("{}-", row["comm"].as_str()?), row["cpu_ns"].as_u64()?)));
        share(rows, json["span_ns"].as_u64(), program)
    }

    /// Returns a replay's verdict, and CPU time as recorded and after the change.
    fn predicted(&self, file: &Path, program: &Program, change: &Change) -> miette::Result<(String, Share, Share)> {
        self.predicted_with(file, program, &change.arguments(program.tasks))
    }

    /// Returns a replay's verdict, and CPU time as recorded.
    fn replayed(&self, file: &Path, program: &Program) -> miette::Result<(String, Share)> {
        let nothing: [&str; 0] = [];
        let (verdict, replayed, _) = self.predicted_with(file, program, &nothing)?;
        Ok((verdict, replayed))
    }

    /// As [`Tool::predicted`], with these arguments of a replay.
    fn predicted_with<A: AsRef<str>>(
        &self,
        file: &Path,
        program: &Program,
        what_if: &[A],
    ) -> miette::Result<(String, Share, Share)> {
        let file = file.to_string_lossy();
        // The measured runs are recordings, too.
        let mut arguments = vec!["replay", &file, "--json", "--event-cost", "0ns"];
        arguments.extend(what_if.iter().map(AsRef::as_ref));
        let json = self.ask(&arguments)?;
        let of = |which: &str| {
            let tasks = json["tasks"].as_array().into_iter().flatten();
            let rows = tasks.filter_map(|task| {
                Some((task["name"].as_str()?.to_owned(), task[which]["cpu_ns"].as_u64().unwrap_or(0)))
            });
            share(rows, json["duration_ns"]["recorded"].as_u64(), program)
        };
        let verdict = json["verdict"]["verdict"].as_str().unwrap_or("unknown").to_owned();
        let (recorded, mut replayed, mut predicted) = (of("recorded")?, of("replayed")?, of("what_if")?);
        for share in [&mut replayed, &mut predicted] {
            // A round's work stays the same in a replay, so throughput follows CPU time.
            share.speed = Some(share.program / recorded.program * 100.0).filter(|speed| speed.is_finite());
        }
        Ok((verdict, replayed, predicted))
    }
}

/// Sums CPU time by program and hogs.
fn share(rows: impl Iterator<Item = (String, u64)>, elapsed: Option<u64>, program: &Program) -> miette::Result<Share> {
    let elapsed =
        elapsed.filter(|&elapsed| elapsed > 0).ok_or_else(|| miette!("vruntime did not say how long it is"))?;
    let mut share = Share::default();
    for (task, ran) in rows {
        let part = ran as f64 / elapsed as f64 * 100.0;
        if task.starts_with(HOG) {
            share.hogs += part;
        } else if program.has(&task) {
            share.program += part;
        }
    }
    Ok(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_asked() {
        let began = Instant::now();
        wait(Duration::from_millis(60), &AtomicBool::new(false)).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(60), "nothing asked");
        let asked = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let waits = threads.spawn(|| wait(Duration::from_secs(600), &asked));
            asked.store(true, Ordering::Relaxed);
            assert!(waits.join().unwrap().unwrap_err().to_string().contains("interrupted"));
        });
    }
}
