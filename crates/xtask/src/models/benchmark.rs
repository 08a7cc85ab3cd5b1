//! Benchmarks that exist as a program and as a model: `perf bench sched pipe` and `hackbench`. Runs the program, and
//! reads its figure; writes the scenario with the model.

use std::fmt::Write as _;

use miette::{IntoDiagnostic, WrapErr, miette};

use crate::command::command;

/// A benchmark, with the program's command line and the model's name.
#[derive(Clone, Debug)]
pub(super) struct Benchmark {
    pub(super) program: &'static str,
    pub(super) arguments: Vec<String>,
    /// Debian's package.
    pub(super) package: &'static str,
    /// The name in a scenario's `[[workload]]`.
    pub(super) model: String,
    pub(super) figure: Figure,
}

/// The figure that program and model have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// `perf bench sched pipe`: microseconds of a round trip.
    RoundTrip,
    /// `hackbench`: seconds until all messages are sent.
    Time,
}

impl Figure {
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::RoundTrip => "us",
            Self::Time => "s",
        }
    }

    /// Returns the figure's key in `vruntime run --json`.
    pub(super) fn json_key(self) -> &'static str {
        match self {
            Self::RoundTrip => "usecs_per_loop",
            Self::Time => "time_s",
        }
    }

    fn read(self, text: &str) -> Option<f64> {
        text.lines().find_map(|line| match self {
            Self::RoundTrip => line.trim().strip_suffix("usecs/op")?.trim().parse().ok(),
            Self::Time => line.trim().strip_prefix("Time:")?.trim().parse().ok(),
        })
    }
}

/// Returns all benchmarks. `loops`: of `perf bench sched pipe`. `messages`: of each pair of hackbench, over all groups.
pub(super) fn all(groups: &[u64], loops: u64, messages: u64) -> Vec<Benchmark> {
    let pipe = Benchmark {
        program: "perf",
        arguments: ["bench", "sched", "pipe", "-l"].map(str::to_owned).into_iter().chain([loops.to_string()]).collect(),
        package: "linux-perf",
        model: format!("pipe-test {loops}"),
        figure: Figure::RoundTrip,
    };
    let mut all = vec![pipe];
    for pipes in [true, false] {
        for threads in [false, true] {
            for &groups in groups {
                all.push(hackbench(pipes, threads, groups, (messages / groups).max(1)));
            }
        }
    }
    all
}

fn hackbench(pipes: bool, threads: bool, groups: u64, loops: u64) -> Benchmark {
    let mut arguments = vec![if threads { "-T" } else { "-P" }.to_owned()];
    arguments.extend(pipes.then(|| "-p".to_owned()));
    for (option, value) in [("-g", groups), ("-l", loops), ("-s", 100)] {
        arguments.extend([option.to_owned(), value.to_string()]);
    }
    let mut model = "hackbench".to_owned();
    model.push_str(if pipes { " -pipe" } else { "" });
    let kind = if threads { "thread" } else { "process" };
    // Writing to a string cannot fail.
    let _written = write!(model, " {groups} {kind} {loops}");
    Benchmark { program: "hackbench", arguments, package: "rt-tests", model, figure: Figure::Time }
}

impl Benchmark {
    pub(super) fn words(&self) -> String {
        format!("{} {}", self.program, self.arguments.join(" "))
    }

    /// Whether the program can be started.
    pub(super) fn is_there(&self) -> bool {
        let mut run = command(self.program, ["--help"]);
        run.output().is_ok()
    }

    /// Runs the program, and returns its figure.
    ///
    /// # Errors
    /// If it cannot be started, takes too long, fails, or prints something else.
    pub(super) fn run(&self, seconds: u64) -> miette::Result<f64> {
        let mut run = command("timeout", ["--kill-after=5", &seconds.to_string(), self.program]);
        run.args(&self.arguments);
        let done =
            run.output().into_diagnostic().wrap_err("cannot start timeout; on Debian: apt-get install coreutils")?;
        if done.status.code() == Some(124) {
            return Err(miette!(
                help = "fewer --loops or --messages",
                "{} takes longer than {seconds} s",
                self.words()
            ));
        }
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        if !done.status.success() {
            return Err(miette!("{} ended with {}: {}", self.words(), done.status, err.trim()));
        }
        self.figure
            .read(&out)
            .or_else(|| self.figure.read(&err))
            .ok_or_else(|| miette!("{} printed no figure: {out}", self.words()))
    }

    pub(super) fn scenario(&self) -> String {
        format!("[scenario]\n\n[[workload]]\nmodel = \"{}\"\n", self.model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_the_programs_print() {
        let perf = "# Running 'sched/pipe' benchmark:\n\n     Total time: 0.125 [sec]\n\n       6.274050 usecs/op\n         159386 ops/sec\n";
        assert_eq!(Figure::RoundTrip.read(perf), Some(6.27405));
        let hackbench =
            "Running in process mode with 1 groups\nEach sender will pass 200 messages of 100 bytes\nTime: 0.074\n";
        assert_eq!(Figure::Time.read(hackbench), Some(0.074));
        assert_eq!((Figure::Time.read(perf), Figure::RoundTrip.read(hackbench)), (None, None));
    }

    #[test]
    fn program_and_model_are_the_same_benchmark() {
        let all = all(&[1, 4], 1000, 400);
        let pairs: Vec<(String, &str)> = all.iter().map(|it| (it.words(), it.model.as_str())).collect();
        let pair = |words: &str, model| (words.to_owned(), model);
        assert_eq!(pairs[0], pair("perf bench sched pipe -l 1000", "pipe-test 1000"));
        assert_eq!(pairs[1], pair("hackbench -P -p -g 1 -l 400 -s 100", "hackbench -pipe 1 process 400"));
        assert_eq!(pairs[8], pair("hackbench -T -g 4 -l 100 -s 100", "hackbench 4 thread 100"));
        assert_eq!(pairs.len(), 9);
    }
}
