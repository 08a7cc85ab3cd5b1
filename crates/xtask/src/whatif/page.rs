//! The page of predictions and measurements.

use std::fmt::Write as _;

use miette::IntoDiagnostic;

use super::{Pair, Share};
use crate::command::{command, output};

/// The largest error of a near prediction, as a part of the measured value.
const NEAR: f64 = 0.1;
/// Smaller shares say little, percent of a CPU.
const LITTLE: f64 = 1.0;

#[derive(Clone, Copy, Debug)]
struct Comparison {
    predicted: f64,
    mean: f64,
    least: f64,
    most: f64,
}

impl Comparison {
    fn of(pair: &Pair, which: impl Fn(Share) -> f64) -> Self {
        let all: Vec<f64> = pair.measured.iter().map(|&share| which(share)).collect();
        Self {
            predicted: which(pair.predicted),
            mean: all.iter().sum::<f64>() / all.len().max(1) as f64,
            least: all.iter().copied().fold(f64::INFINITY, f64::min),
            most: all.iter().copied().fold(0.0, f64::max),
        }
    }

    /// The error of the prediction, as a part of the measured mean.
    fn off(self) -> f64 {
        (self.predicted - self.mean) / self.mean.max(LITTLE)
    }

    fn is_near(self) -> bool {
        self.off().abs() <= NEAR || (self.least..=self.most).contains(&self.predicted)
    }
}

impl Pair {
    fn program(&self) -> Comparison {
        Comparison::of(self, |share| share.program)
    }

    fn hogs(&self) -> Comparison {
        Comparison::of(self, |share| share.hogs)
    }

    fn is_near(&self) -> bool {
        self.program().is_near() && self.hogs().is_near()
    }

    fn worst(&self) -> f64 {
        self.program().off().abs().max(self.hogs().off().abs())
    }

    /// Whether the prediction has the wrong direction, with an effect above the spread of runs.
    fn goes_astray(&self) -> bool {
        let Comparison { predicted, mean, least, most } = self.program();
        let went = mean - self.recorded.program;
        went.abs() > most - least && went.signum() != (predicted - self.replayed.program).signum()
    }
}

pub(crate) fn line(pair: &Pair) -> String {
    let (program, hogs) = (pair.program(), pair.hogs());
    format!(
        "{:10} {:30} {:6.1} -> {:6.1} measured {:6.1} ({:+.0} %); hogs {:6.1} measured {:6.1}{}",
        pair.program.name,
        pair.change.what,
        pair.recorded.program,
        program.predicted,
        program.mean,
        program.off() * 100.0,
        hogs.predicted,
        hogs.mean,
        if pair.is_near() { "" } else { "  <-" }
    )
}

pub(crate) fn machine() -> miette::Result<String> {
    let text = |printed: Vec<u8>| String::from_utf8_lossy(&printed).trim().to_owned();
    let kernel = text(output(command("uname", ["-r"]), "coreutils")?);
    let date = text(output(command("date", ["-I"]), "coreutils")?);
    let cpus = std::thread::available_parallelism().into_diagnostic()?;
    Ok(format!("{cpus} CPUs under Linux {kernel}, {date}"))
}

/// The page. The largest errors are first.
pub(crate) fn page(pairs: &mut [Pair], left_out: &[String], runs: u32, seconds: u32, machine: &str) -> String {
    pairs.sort_by(|one, other| {
        (one.is_near(), other.worst()).partial_cmp(&(other.is_near(), one.worst())).unwrap_or(std::cmp::Ordering::Equal)
    });
    let near = pairs.iter().filter(|pair| pair.is_near()).count();
    let program_near = pairs.iter().filter(|pair| pair.program().is_near()).count();
    let astray = pairs.iter().filter(|pair| pair.goes_astray()).count();
    let mut page = format!(
        "# What-if predictions\n\n\
         `cargo xtask whatif --runs {runs} --seconds {seconds} --out docs/what-if.md` has written this page on\n{machine}.\n\n\
         It records each program for {seconds} s beside two hogs (`sha256sum /dev/zero`). From the recording, it\n\
         predicts what happens when the hogs or the clients change. Then it makes each change {runs} times.\n\n\
         **{program_near} of {} predictions of the program's CPU time are near**: within 10 % of the measured mean,\n\
         or within the measured range. In {near}, the CPU time of the hogs is near, too. Predictions with\n\
         the wrong direction, and an effect larger than the difference of the runs: {astray}.\n\n\
         A prediction is the mean of the five seeds of a what-if. Predictions and measurements include\n\
         the cost of recording.\n\n\
         CPU time is in percent of a CPU. *Replayed* is the replay as recorded. It should equal *recorded*.\n\
         Predictions that are not near are first, the furthest at the top.\n\n",
        pairs.len(),
    );
    page.push_str(
        "| program | change | recorded | replayed | predicted | measured | off | hogs predicted | measured | near | verdict |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for pair in pairs.iter() {
        let (program, hogs) = (pair.program(), pair.hogs());
        // Writing to a string cannot fail.
        let _written = writeln!(
            page,
            "| {} | {} | {:.1} | {:.1} | {:.1} | {:.1} ({:.1} to {:.1}) | {:+.0} % | {:.1} | {:.1} ({:.1} to {:.1}) | {} | {} |",
            pair.program.name,
            pair.change.what,
            pair.recorded.program,
            pair.replayed.program,
            program.predicted,
            program.mean,
            program.least,
            program.most,
            program.off() * 100.0,
            hogs.predicted,
            hogs.mean,
            hogs.least,
            hogs.most,
            if pair.is_near() { "yes" } else { "no" },
            pair.verdict,
        );
    }
    page.push_str("\nPrograms:\n\n");
    let mut names: Vec<_> = pairs.iter().map(|pair| (pair.program.name, pair.program.what)).collect();
    names.sort_unstable();
    names.dedup();
    for (name, what) in names {
        let _written = writeln!(page, "- {name}: {what}");
    }
    page.push_str("\nChanges, as rules of [`--map`](replay.md#rules---map), or as an option of `vruntime replay`:\n\n");
    for (change, name) in super::all_changes() {
        let _written = writeln!(page, "- {}{name}: `{}`", change.what, change.rules.join("`, `"));
    }
    if !left_out.is_empty() {
        let _written = writeln!(page, "\nLeft out: {}.", left_out.join(", "));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::super::PROGRAMS;
    use super::super::changes::OF_HOGS;
    use super::*;

    fn pair(predicted: [f64; 2], measured: &[[f64; 2]]) -> Pair {
        let share = |[program, hogs]: [f64; 2]| Share { program, hogs };
        Pair {
            program: &PROGRAMS[0],
            change: &OF_HOGS[0],
            recorded: share([50.0, 150.0]),
            replayed: share([50.0, 150.0]),
            verdict: "good".to_owned(),
            predicted: share(predicted),
            measured: measured.iter().copied().map(share).collect(),
        }
    }

    #[test]
    fn near_is_within_a_tenth_or_within_the_runs() {
        assert!(pair([110.0, 90.0], &[[100.0, 100.0]]).is_near());
        assert!(!pair([111.0, 90.0], &[[100.0, 100.0]]).is_near(), "the program's is further off");
        assert!(!pair([100.0, 80.0], &[[100.0, 100.0]]).is_near(), "the hogs' is");
        assert!(pair([120.0, 80.0], &[[70.0, 130.0], [121.0, 79.0]]).is_near(), "runs differ as much");
    }

    #[test]
    fn astray_is_the_wrong_way_by_more_than_runs_differ() {
        assert!(pair([49.0, 151.0], &[[60.0, 140.0], [62.0, 138.0]]).goes_astray());
        assert!(!pair([51.0, 149.0], &[[60.0, 140.0], [62.0, 138.0]]).goes_astray());
        assert!(!pair([49.0, 151.0], &[[45.0, 155.0], [57.0, 143.0]]).goes_astray(), "the effect is smaller");
    }

    #[test]
    fn a_page_has_the_worst_first_and_says_what_was_left_out() {
        let mut pairs = [pair([100.0, 100.0], &[[100.0, 100.0]]), pair([10.0, 190.0], &[[100.0, 100.0]])];
        let page = page(&mut pairs, &["java (needs default-jdk-headless)".to_owned()], 1, 2, "2 CPUs");
        assert!(page.contains("**1 of 2 predictions of the program"), "{page}");
        assert!(page.find("| no | good |").unwrap() < page.find("| yes | good |").unwrap(), "{page}");
        assert!(page.contains("java (needs default-jdk-headless)"), "{page}");
    }
}
