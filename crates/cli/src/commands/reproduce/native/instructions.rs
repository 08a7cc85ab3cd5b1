//! Counts instructions with valgrind's callgrind, which are repeatable, unlike times.
//!
//! Each measurement runs this program twice under callgrind, up to two points. The difference of the counts excludes
//! the setup. This needs no symbols, so it works for an installed program.

use std::io::Write as _;
use std::process::Command;

use miette::IntoDiagnostic;
use vruntime_sim::parallel;

use super::{Script, Side};
use crate::interrupt;

/// Number of a script's calls of the scheduler that are played. The second half is counted.
const CALLS: usize = 12_000;

/// Instructions per switch, in the order of the sides, or why there are none.
#[derive(Debug)]
pub(crate) struct Counted(Vec<Result<f64, String>>);

impl Counted {
    pub(crate) fn get(&self, index: usize) -> Option<f64> {
        self.0.get(index)?.as_ref().ok().copied()
    }

    pub(crate) fn ratio(&self, this: usize, that: usize) -> Option<f64> {
        Some(self.get(this)? / self.get(that)?)
    }

    /// Describes the method, or why there are no counts.
    pub(crate) fn method(&self) -> String {
        match self.0.iter().find_map(|count| count.as_ref().err()) {
            Some(error) => format!("Instructions: {error}. Install valgrind, such as with apt-get install valgrind."),
            None => format!(
                "Instructions: counted by valgrind's callgrind over the second half of {CALLS} such calls. \
                 They are equal in each run, but times on a shared machine differ by a few percent. So claims are judged by instructions."
            ),
        }
    }
}

/// Counts each side's instructions per switch, in the second half of its first [`CALLS`] calls.
pub(crate) fn per_switch(sides: &[Side<'_>]) -> Counted {
    Counted(parallel(sides, |_, side| one(*side)))
}

fn one(side: Side<'_>) -> Result<f64, String> {
    let calls = side.script.steps.len().min(CALLS);
    let half = calls / 2;
    let switches = side.script.steps[half..calls].iter().filter(|step| step.switches()).count();
    let mut file = tempfile::NamedTempFile::new().map_err(|error| format!("cannot make a file: {error}"))?;
    let mut beginning = side.script.clone();
    beginning.steps.truncate(calls);
    let bytes = beginning.write().map_err(|error| error.to_string())?;
    let written = file.write_all(&bytes).and_then(|()| file.flush());
    written.map_err(|error| format!("cannot write {}: {error}", file.path().display()))?;
    let (constant, counts) = (u8::from(side.constant), u8::from(side.counts));
    let count_until = |end: usize| count(&format!("play;{end};{constant};{counts};{}", file.path().display()));
    let (whole, first) = (count_until(calls)?, count_until(half)?);
    Ok(whole.saturating_sub(first) as f64 / switches.max(1) as f64)
}

/// Counts the instructions of this program for a task of [`perform`].
pub(crate) fn count(task: &str) -> Result<u64, String> {
    if interrupt::asked() {
        return Err("the experiment was interrupted".to_owned());
    }
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["reproduce", "--counted", task])
        .output()
        .map_err(|error| format!("instructions are not counted: cannot start valgrind ({error})"))?;
    let printed = String::from_utf8_lossy(&output.stderr);
    let collected = printed.lines().find_map(|line| line.split("Collected :").nth(1)?.trim().parse::<u64>().ok());
    match collected {
        Some(count) if output.status.success() => Ok(count),
        _ => Err(format!(
            "instructions are not counted: valgrind failed: {}",
            printed.lines().last().unwrap_or_default()
        )),
    }
}

/// Performs a counted task (`--counted`), under callgrind: `play;CALLS;CONSTANT;COUNTS;SCRIPT`, or
/// `idle-groups;NS;KERNEL;GROUPS`. CONSTANT, COUNTS and GROUPS are 0 or 1.
pub(crate) fn perform(task: &str) -> miette::Result<()> {
    let wrong = || miette::miette!("nothing to count has the name `{task}`");
    let (kind, rest) = task.split_once(';').ok_or_else(wrong)?;
    let (number, rest) = rest.split_once(';').ok_or_else(wrong)?;
    let number: usize = number.parse().map_err(|_| wrong())?;
    match kind {
        "play" => {
            let mut parts = rest.splitn(3, ';');
            let mut next = || parts.next().ok_or_else(wrong);
            let (constant, counts, path) = (next()? == "1", next()? == "1", next()?);
            let bytes = std::fs::read(path).into_diagnostic()?;
            let script = Script::read(&bytes)?;
            Side { script: &script, constant, counts }.ready(number)();
            Ok(())
        }
        "idle-groups" => {
            let (kernel, groups) = rest.split_once(';').ok_or_else(wrong)?;
            let ([without, with], config) = super::super::idle_groups::workloads(kernel)?;
            let workload = if groups == "0" { without } else { with };
            let config = vruntime_sim::Config { duration: Some(number as u64), ..config };
            super::super::simulate(&workload, &config, &mut vruntime_trace::NoSink)?;
            Ok(())
        }
        _ => Err(wrong()),
    }
}
