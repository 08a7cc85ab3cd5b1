//! The page of predictions and measurements.

use std::fmt::Write as _;

use miette::IntoDiagnostic;

use super::{Pair, Share};
use crate::command::{command, output};

/// The largest error of a near prediction, as a part of the measured value.
const NEAR: f64 = 0.1;
/// Smaller shares of a CPU and of a throughput say little, percent.
const LITTLE: f64 = 1.0;

/// A predicted value, and its measurements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    predicted: f64,
    mean: f64,
    least: f64,
    most: f64,
}

impl Comparison {
    fn of(pair: &Pair, which: impl Fn(Share) -> f64) -> Self {
        Self::new(pair.predicted, &pair.measured, which)
    }

    pub(super) fn new(predicted: Share, measured: &[Share], which: impl Fn(Share) -> f64) -> Self {
        let all: Vec<f64> = measured.iter().map(|&share| which(share)).collect();
        Self {
            predicted: which(predicted),
            mean: all.iter().sum::<f64>() / all.len().max(1) as f64,
            least: all.iter().copied().fold(f64::INFINITY, f64::min),
            most: all.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Returns the error of the prediction, as a part of the measured mean.
    fn off(self) -> f64 {
        (self.predicted - self.mean) / self.mean.max(LITTLE)
    }

    /// `1.2 (1.1 to 1.3)`, with this number of digits.
    fn measured(self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$} to {:.digits$})", self.mean, self.least, self.most)
    }

    pub(super) fn is_near(self) -> bool {
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

    /// Throughput, if both are known.
    fn speed(&self) -> Option<Comparison> {
        let known = |share: &Share| share.speed.is_some();
        (known(&self.predicted) && self.measured.iter().all(known))
            .then(|| Comparison::of(self, |share| share.speed.unwrap_or_default()))
    }

    /// Whether the CPU time of both is near.
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

/// Returns the page. The largest errors are first.
pub(crate) fn page(pairs: &mut [Pair], left_out: &[String], runs: u32, seconds: u32, machine: &str) -> String {
    pairs.sort_by(|one, other| {
        (one.is_near(), other.worst()).partial_cmp(&(other.is_near(), one.worst())).unwrap_or(std::cmp::Ordering::Equal)
    });
    let changed: Vec<&Pair> = pairs.iter().filter(|pair| !pair.change.is_nothing()).collect();
    let count = |holds: &dyn Fn(&Pair) -> bool| changed.iter().filter(|pair| holds(pair)).count();
    let speed_near = |pair: &Pair| pair.speed().is_some_and(Comparison::is_near);
    let mut page = format!(
        "# What-if predictions\n\n\
         `cargo xtask whatif --runs {runs} --seconds {seconds} --out docs/what-if.md` has written this page on\n{machine}.\n\n\
         It records each program for {seconds} s beside two hogs (`sha256sum /dev/zero`). From the recording, it\n\
         predicts what happens when the hogs or the clients change. Then it makes each change {runs} times.\n\n\
         Of {all} predictions, these are near: within 10 % of the measured mean, or within the measured\n\
         range.\n\n\
         - CPU time of the program: {program}.\n\
         - CPU time of the program and of the hogs: {both}.\n\
         - Throughput of the program: {speed} of the {speeds} with a measured throughput.\n\n\
         In {astray}, the program's CPU time changes in the wrong direction, and the real change exceeds the\n\
         range of the runs.\n\n\
         A prediction is the mean of the five seeds of a what-if. Predictions and measurements include\n\
         the cost of recording.\n\n\
         CPU time is in percent of a CPU. *Replayed* is the replay as recorded. It should equal *recorded*.\n\
         Throughput is in percent of that during the recording. Its prediction is the predicted CPU time in\n\
         percent of the recorded: the progress of closed loops that `vruntime replay` reports. Its\n\
         measurement counts the bytes that the program's processes write.\n\
         Predictions of CPU time that are not near are first, the furthest at the top.\n\n",
        all = changed.len(),
        program = count(&|pair| pair.program().is_near()),
        both = count(&Pair::is_near),
        speed = count(&speed_near),
        speeds = count(&|pair| pair.speed().is_some()),
        astray = count(&Pair::goes_astray),
    );
    page.push_str(
        "| program | change | recorded | replayed | predicted | measured | off | near | hogs predicted | measured | near | \
         throughput predicted | measured | near | verdict |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for pair in &changed {
        let (program, hogs) = (pair.program(), pair.hogs());
        // Writing to a string cannot fail.
        let _written = writeln!(
            page,
            "| {} | {} | {:.1} | {:.1} | {} | {} | {} |",
            pair.program.name,
            pair.change.what,
            pair.recorded.program,
            pair.replayed.program,
            cells(program, hogs),
            speed(pair),
            pair.verdict,
        );
    }
    unchanged(&mut page, pairs);
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

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// Returns the cells of the CPU time of program and hogs.
pub(super) fn cells(program: Comparison, hogs: Comparison) -> String {
    format!(
        "{:.1} | {} | {:+.0} % | {} | {:.1} | {} | {}",
        program.predicted,
        program.measured(1),
        program.off() * 100.0,
        yes(program.is_near()),
        hogs.predicted,
        hogs.measured(1),
        yes(hogs.is_near()),
    )
}

/// Returns the cells of a pair's throughput.
fn speed(pair: &Pair) -> String {
    pair.speed().map_or_else(
        || "- | - | -".to_owned(),
        |speed| format!("{:.0} | {} | {}", speed.predicted, speed.measured(0), yes(speed.is_near())),
    )
}

/// The table of the recorded state, measured again.
fn unchanged(page: &mut String, pairs: &[Pair]) {
    let mut unchanged: Vec<&Pair> = pairs.iter().filter(|pair| pair.change.is_nothing()).collect();
    if unchanged.is_empty() {
        return;
    }
    unchanged.sort_unstable_by_key(|pair| pair.program.name);
    page.push_str(
        "\n## The recorded state, measured again\n\n\
         Nothing was changed here. So this shows how much one recording says about the next.\n\n\
         | program | recorded | replayed | measured again | hogs recorded | replayed | measured again | throughput |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for pair in unchanged {
        let speed =
            pair.speed().map_or_else(|| "-".to_owned(), |speed| format!("{:.0} to {:.0} %", speed.least, speed.most));
        // Writing to a string cannot fail.
        let _written = writeln!(
            page,
            "| {} | {:.1} | {:.1} | {} | {:.1} | {:.1} | {} | {speed} |",
            pair.program.name,
            pair.recorded.program,
            pair.replayed.program,
            pair.program().measured(1),
            pair.recorded.hogs,
            pair.replayed.hogs,
            pair.hogs().measured(1),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::PROGRAMS;
    use super::super::changes::{NOTHING, OF_HOGS};
    use super::*;

    fn pair(predicted: [f64; 2], measured: &[[f64; 2]]) -> Pair {
        let share = |[program, hogs]: [f64; 2]| Share { program, hogs, speed: None };
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
        assert!(page.contains("Of 2 predictions") && page.contains("- CPU time of the program: 1."), "{page}");
        assert!(
            page.find("| no | - | - | - | good |").unwrap() < page.find("| yes | - | - | - | good |").unwrap(),
            "{page}"
        );
        assert!(page.contains("java (needs default-jdk-headless)"), "{page}");
        assert!(!page.contains("measured again"), "{page}");
    }

    #[test]
    fn a_page_has_throughput_and_the_recorded_state_apart() {
        let mut changed = pair([110.0, 90.0], &[[100.0, 100.0], [102.0, 98.0]]);
        changed.predicted.speed = Some(220.0);
        let mut pairs = [changed, pair([50.0, 150.0], &[[52.0, 148.0], [48.0, 152.0]])];
        for (measured, speed) in pairs[0].measured.iter_mut().zip([150.0, 160.0]) {
            measured.speed = Some(speed);
        }
        pairs[1].change = NOTHING;
        let page = page(&mut pairs, &[], 2, 2, "2 CPUs");
        assert!(page.contains("| yes | 220 | 155 (150 to 160) | no | good |"), "{page}");
        assert!(page.contains("Of 1 predictions") && page.contains("program: 0 of the 1 with"), "{page}");
        assert!(
            page.contains("| redis | 50.0 | 50.0 | 50.0 (48.0 to 52.0) | 150.0 | 150.0 | 150.0 (148.0 to 152.0) | - |"),
            "{page}"
        );
    }
}
