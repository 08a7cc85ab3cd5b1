//! Runs plans, several at once. Each run has one thread, and is as it would be alone.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use miette::{IntoDiagnostic, WrapErr};
use vruntime_replay::{Tally, TaskTotals};
use vruntime_report::{
    Analyses, AnalysisKind, AnalysisOptions, Collector, Detected, Detector, PassDelays, Results, SchedStat, TimeSeries,
    counted,
};
#[cfg(feature = "quick-build")]
use vruntime_sim::run_dyn as simulated;
#[cfg(not(feature = "quick-build"))]
use vruntime_sim::run_watched as simulated;
use vruntime_sim::{Config, Outcome, Progress, parallel};
use vruntime_trace::{FtraceWriter, Identities, PerfettoOptions, PerfettoWriter, Relay, Wants};
use vruntime_workload::program::Workload;
use vruntime_workload::rtapp::Global;

use crate::benchmarks::{self, Output};
use crate::commands::behaviours::unverified;
use crate::observers::Observer;
use crate::output_file::OutputFile;
use crate::rtapp_log::RtAppLog;
use crate::trail::{Follower, Trail};
use crate::{error_place, interrupt, policies};

#[derive(Clone, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) config: Config,
    pub(crate) traces: Option<PathBuf>,
    /// Folder for logs in rt-app's form, and the file's settings for them.
    pub(crate) rtapp_log: Option<(PathBuf, Global)>,
    /// Whether to look for lost work conservation.
    pub(crate) detect: bool,
    pub(crate) analyse: Option<(Vec<AnalysisKind>, AnalysisOptions)>,
    /// Whether to collect the charts of a page.
    pub(crate) overview: bool,
    /// Interval of a time series, nanoseconds.
    pub(crate) every: Option<u64>,
    /// Response time above which rounds are counted, nanoseconds.
    pub(crate) target: Option<u64>,
    /// Whether a note reports shares that have not settled. In a replay, shares may move as in its recording.
    pub(crate) unsettled: bool,
    pub(crate) kernel: String,
    /// The recorded names and ids of tasks, for traces.
    pub(crate) identities: Option<Identities>,
}

impl<'a> Job<'a> {
    /// Returns a job with results only.
    pub(crate) fn new(workload: &'a Workload, config: Config, kernel: &str) -> Self {
        Self {
            workload,
            config,
            traces: None,
            rtapp_log: None,
            detect: false,
            analyse: None,
            overview: false,
            every: None,
            target: None,
            unsettled: false,
            kernel: kernel.to_owned(),
            identities: None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) results: Results,
    pub(crate) outcome: Outcome,
    pub(crate) detected: Option<Detected>,
    pub(crate) digest: u64,
    /// Digests on the way.
    pub(crate) marks: Vec<u64>,
    pub(crate) benchmarks: Vec<Output>,
    pub(crate) seed: u64,
    /// Counters up to the requested snapshot.
    pub(crate) stat: Option<SchedStat>,
    pub(crate) analyses: Option<Arc<Analyses>>,
    pub(crate) series: Option<TimeSeries>,
    /// The error of an incomplete trace or log.
    pub(crate) unwritten: Option<Arc<miette::Report>>,
}

/// Fails if a trace or log of a run is incomplete. The caller prints the results first: a full disk does not lose them.
pub(crate) fn all_written(runs: &[Done]) -> miette::Result<()> {
    match runs.iter().find_map(|run| run.unwritten.as_deref()) {
        Some(report) => {
            let causes: Vec<String> = report.chain().map(ToString::to_string).collect();
            Err(miette::miette!(help = "the results above are complete", "{}", causes.join(": ")))
        }
        None => Ok(()),
    }
}

#[derive(Debug)]
pub(crate) enum Failure {
    /// The simulator rejected the job.
    Refused(vruntime_sim::Error),
    /// A trace could not be written.
    Output(miette::Report),
}

impl From<Failure> for miette::Report {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => miette::miette!("{}", error_place::on_one_line(&error)),
            Failure::Output(report) => report,
        }
    }
}

/// Runs all jobs with one thread per CPU, and returns the runs in order. After Ctrl-C, running jobs end early, and
/// others at their start.
pub(crate) fn all(jobs: &[Job<'_>]) -> Vec<Result<Done, Failure>> {
    let runs = all_to_print(jobs);
    interrupt::all_finished();
    runs
}

/// Runs as [`all`]. After Ctrl-C, complete runs keep the program until [`interrupt::write_and_print`] has printed them.
pub(crate) fn all_to_print(jobs: &[Job<'_>]) -> Vec<Result<Done, Failure>> {
    all_metered(jobs, &Meter::new(jobs.len()))
}

/// Runs as [`all`], as a part of a search.
pub(crate) fn all_of(jobs: &[Job<'_>], budget: &Budget) -> Vec<Result<Done, Failure>> {
    all_metered(jobs, &Meter::of(budget, jobs.len()))
}

fn all_metered(jobs: &[Job<'_>], meter: &Meter) -> Vec<Result<Done, Failure>> {
    let spare = cpus() > jobs.len();
    metered(jobs, meter, |job, watch| one(job, spare, watch))
}

/// Whether a run differs from another one, and its simulated events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    pub(crate) differs: bool,
    pub(crate) events: u64,
}

/// Runs jobs until they differ from the runs with these marks.
pub(crate) fn compared(jobs: &[(Job<'_>, &[u64])], budget: &Budget) -> Vec<Result<Compared, Failure>> {
    metered(jobs, &Meter::of(budget, jobs.len()), |(job, marks), watch| compared_with(job, marks, watch))
}

fn compared_with(job: &Job<'_>, marks: &[u64], watch: &mut dyn FnMut(Progress)) -> Result<Compared, Failure> {
    let has_diverged = AtomicBool::new(false);
    let mut follower = Follower::new(marks, &has_diverged);
    let mut watch = stoppable(watch);
    // The run's own thread notices, so it ends at the same event each time.
    let mut watch = |progress: Progress| {
        if has_diverged.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { watch(progress) }
    };
    let outcome = vruntime_sim::run_dyn(job.workload, &job.config, &mut follower, &mut watch);
    let outcome = outcome.map_err(Failure::Refused)?;
    Ok(Compared { differs: has_diverged.load(Ordering::Relaxed) || follower.differs(), events: outcome.events })
}

/// Runs as [`all`], and returns only the tasks' totals. None where the simulator rejects a job.
pub(crate) fn totals(jobs: &[Job<'_>]) -> Vec<Option<Vec<TaskTotals>>> {
    let totals = metered(jobs, &Meter::new(jobs.len()), |job, watch| {
        let mut tally = Tally::default();
        let outcome = match policies::named(&job.kernel) {
            Some((policy, _)) => policy.run(job.workload, &job.config, &mut tally, &mut stoppable(watch)),
            None => vruntime_sim::run_dyn(job.workload, &job.config, &mut tally, &mut stoppable(watch)),
        };
        outcome.ok().map(|_| tally.into_tasks())
    });
    interrupt::all_finished();
    totals
}

/// Does all jobs with one thread per CPU, with a progress bar.
fn metered<T: Sync, R: Send>(
    jobs: &[T],
    meter: &Meter,
    work: impl Fn(&T, &mut dyn FnMut(Progress)) -> R + Sync,
) -> Vec<R> {
    let done = parallel(jobs, |index, job| {
        let done = work(job, &mut |progress| meter.update(index, progress));
        // An interrupted search prints no run.
        if meter.spent.is_none() {
            interrupt::finished();
        }
        done
    });
    if meter.spent.is_none() {
        meter.bar.finish_and_clear();
    }
    done
}

/// Returns the watcher of a run, which Ctrl-C ends. Ctrl-C counts at once; the progress bar may be late.
fn stoppable(watch: &mut dyn FnMut(Progress)) -> impl FnMut(Progress) -> ControlFlow<()> {
    let mut calls = 0_u64;
    move |progress| {
        if calls.is_multiple_of(METER_EVERY) {
            watch(progress);
        }
        calls += 1;
        if interrupt::asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Runs as [`all_to_print`]. `jobs` has all seeds of a side, then of the next, and then other jobs. All sides of a seed
/// run in succession, so that Ctrl-C leaves complete seeds.
pub(crate) fn all_by_seed(jobs: &[Job<'_>], sides: usize, seeds: usize) -> Vec<Result<Done, Failure>> {
    let of_sides = (0..seeds).flat_map(|seed| (0..sides).map(move |side| side * seeds + seed));
    let order: Vec<usize> = of_sides.chain(sides * seeds..jobs.len()).collect();
    let ordered: Vec<Job<'_>> = order.iter().map(|&place| jobs[place].clone()).collect();
    let mut runs: Vec<_> = order.into_iter().zip(all_to_print(&ordered)).collect();
    runs.sort_by_key(|(place, _)| *place);
    runs.into_iter().map(|(_, run)| run).collect()
}

/// Returns the number of threads that can run at once.
pub(crate) fn cpus() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Returns the error of an observer whose thread the kernel refuses.
fn no_thread(error: &std::io::Error) -> Failure {
    let help = "the limit of threads is reached: raise the user's limit (ulimit -u) or pids.max of this process's cgroup, or run it on one \
        CPU without threads (taskset -c 0)";
    Failure::Output(miette::miette!(help = help, "cannot make a thread: {error}"))
}

/// Runs one job. If CPUs are `spare`, observers have their own threads.
fn one(job: &Job<'_>, spare: bool, watch: &mut dyn FnMut(Progress)) -> Result<Done, Failure> {
    thread::scope(|scope| one_in(scope, job, spare, watch))
}

fn one_in<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    job: &Job<'_>,
    spare: bool,
    watch: &mut dyn FnMut(Progress),
) -> Result<Done, Failure> {
    let cpus = job.config.machine.topology.nr_cpus();
    let traces = job.traces.as_deref();
    let perfetto = traces.map(|folder| create(folder, "trace.perfetto-trace")).transpose().map_err(Failure::Output)?;
    let ftrace = traces.map(|folder| create(folder, "trace.txt")).transpose().map_err(Failure::Output)?;
    let options = PerfettoOptions {
        kernel: job.kernel.clone(),
        identities: job.identities.clone(),
        cpus: u32::try_from(cpus).ok(),
        ..PerfettoOptions::default()
    };
    let log = job.rtapp_log.as_ref().map(|(folder, global)| {
        RtAppLog::new(folder, job.workload, global)
            .into_diagnostic()
            .wrap_err_with(|| format!("cannot write logs in {}", folder.display()))
    });
    let perfetto = perfetto.map(|file| Observer::new(scope, PerfettoWriter::with_options(file, &options), spare));
    let mut perfetto = perfetto.transpose().map_err(|error| no_thread(&error))?;
    let ftrace = ftrace.map(|file| {
        let writer = FtraceWriter::new(file, cpus as u32).with_kernel(&job.kernel);
        let writer = job.identities.iter().cloned().fold(writer, FtraceWriter::with_identities);
        Observer::new(scope, writer, spare)
    });
    let mut ftrace = ftrace.transpose().map_err(|error| no_thread(&error))?;
    let passes = benchmarks::measures_passes(job.workload).then(PassDelays::default);
    let watchers = (
        (Trail::default(), job.config.debug_at.map(SchedStat::new), passes),
        Collector::new(cpus).with_target(job.target),
        log.transpose().map_err(Failure::Output)?,
        (
            job.detect.then(Detector::new),
            job.analyse.as_ref().map(|(kinds, options)| watched(job, kinds, options)),
            job.every.map(|every| TimeSeries::new(every, cpus)),
        ),
    );
    let wants = Wants::of(&watchers);
    let mut watchers = Observer::new(scope, watchers, spare).map_err(|error| no_thread(&error))?;
    let mut sink = Relay::new(wants, |batch| {
        let batch = Arc::new(batch);
        watchers.hear(&batch);
        if let Some(perfetto) = &mut perfetto {
            perfetto.hear(&batch);
        }
        if let Some(ftrace) = &mut ftrace {
            ftrace.hear(&batch);
        }
    });
    let mut watch = stoppable(watch);
    let outcome = match policies::named(&job.kernel) {
        Some((policy, _)) => policy.run(job.workload, &job.config, &mut sink, &mut watch),
        None => simulated(job.workload, &job.config, &mut sink, &mut watch),
    };
    let mut outcome = outcome.map_err(Failure::Refused)?;
    outcome.notes.extend(unverified(job.config.kernel.name));
    let ((trail, stat, passes), collector, log, (detector, analyses, series)) = watchers.end();
    let (mut perfetto, mut ftrace) = (perfetto.map(Observer::end), ftrace.map(Observer::end));
    if outcome.interrupted {
        if let Some(writer) = &mut perfetto {
            writer.mark_interrupted(outcome.end);
        }
        if let Some(writer) = &mut ftrace {
            writer.mark_interrupted(outcome.end);
        }
    }
    outcome.notes.extend(perfetto.as_ref().and_then(|writer| left_out(writer.omitted())));
    let written = perfetto.map_or(Ok(()), |writer| writer.finish_writing()?.keep());
    let unwritten = written
        .and_then(|()| ftrace.map_or(Ok(()), |writer| writer.finish_writing()?.keep()))
        .and_then(|()| log.map_or(Ok(()), RtAppLog::finish_writing))
        .into_diagnostic()
        .err()
        .map(Arc::new);
    let results = collector.into_results();
    outcome.notes.extend(series.as_ref().and_then(TimeSeries::note));
    outcome.notes.extend(results.unsettled_note().filter(|_| job.unsettled));
    let detected = detector.map(Detector::into_detected);
    let benchmarks = benchmarks::outputs(job.workload, &results, passes.as_ref(), &job.config.machine.costs);
    Ok(Done {
        results,
        outcome,
        detected,
        digest: trail.digest(),
        marks: trail.into_marks(),
        benchmarks,
        seed: job.config.seed,
        stat,
        analyses: analyses.map(Arc::new),
        series,
        unwritten,
    })
}

/// Returns the note on events that only the text trace has.
fn left_out(events: u64) -> Option<String> {
    (events > 0).then(|| {
        format!(
            "{} of CPUs from 1024 on {} not in trace.perfetto-trace, because Perfetto rejects such files; trace.txt has {}",
            counted(events, "event", "events"),
            if events == 1 { "is" } else { "are" },
            if events == 1 { "it" } else { "them" }
        )
    })
}

fn watched(job: &Job<'_>, kinds: &[AnalysisKind], options: &AnalysisOptions) -> Analyses {
    let analyses = Analyses::new(kinds, options);
    if job.overview { analyses.with_overview() } else { analyses }
}

fn create(folder: &Path, name: &str) -> miette::Result<OutputFile> {
    OutputFile::create_below(&folder.join(name)).into_diagnostic()
}

/// Calls of the watcher between two updates of the progress bar.
const METER_EVERY: u64 = 32;
/// A shorter wait needs no progress bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// The progress bar of all runs. Hidden for the first 2 s, and always if standard error is no terminal.
struct Meter {
    bar: ProgressBar,
    /// Thousandths done of each job, or its events if the runs are a part of a search.
    done: Vec<AtomicU64>,
    /// Of a search: the events before these runs.
    spent: Option<u64>,
}

/// The simulated events of a search, and their progress bar. The bar stays over all batches of runs.
#[derive(Debug)]
pub(crate) struct Budget {
    bar: ProgressBar,
    /// The most events.
    pub(crate) events: u64,
    /// The events of the runs so far.
    pub(crate) spent: u64,
}

impl Budget {
    pub(crate) fn new(events: u64) -> Self {
        Self { bar: hidden_bar(events), events, spent: 0 }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn hidden_bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::hidden());
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent} %  {msg}  {eta} left") {
        bar.set_style(style);
    }
    bar
}

impl Meter {
    fn new(jobs: usize) -> Self {
        Self { bar: hidden_bar(1000 * jobs as u64), done: (0..jobs).map(|_| AtomicU64::new(0)).collect(), spent: None }
    }

    fn of(budget: &Budget, jobs: usize) -> Self {
        Self { bar: budget.bar.clone(), spent: Some(budget.spent), ..Self::new(jobs) }
    }

    fn update(&self, job: usize, progress: Progress) {
        if self.spent.is_some() {
            self.done[job].store(progress.events, Ordering::Relaxed);
        } else if let Some(end) = progress.end.filter(|end| *end > 0) {
            let permille = u128::from(progress.now) * 1000 / u128::from(end);
            self.done[job].store(permille as u64, Ordering::Relaxed);
        }
        if self.bar.is_hidden() {
            if self.bar.elapsed() < PATIENCE {
                return;
            }
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        let sum: u64 = self.done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
        self.bar.set_position(sum + self.spent.unwrap_or(0));
        self.bar.set_message(match self.spent {
            None => format!("{:.1} s simulated", progress.now as f64 / 1e9),
            Some(spent) => format!("{} million events", (spent + sum) / 1_000_000),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use vruntime_sim::{MachineSpec, parse_topology};
    use vruntime_workload::program::{Op, Phase, Task};

    use super::*;

    /// A run with another slice ends soon, and at the same event each time. An equal run is complete.
    #[test]
    fn a_compared_run_ends_when_it_differs() -> Result<(), Box<dyn std::error::Error>> {
        let program = Phase::forever(vec![Op::Run { work: 5_000_000 }, Op::Sleep { time: 200_000 }]);
        let workload = Workload { tasks: vec![Task::new("t", [program]); 9], ..Workload::default() };
        let config = |kernel: &str| -> Result<Config, Box<dyn std::error::Error>> {
            let spec = MachineSpec::new(parse_topology("2")?);
            Ok(Config { duration: Some(1_000_000_000), ..Config::new(vruntime_sched::kernel(kernel)?, spec) })
        };
        let done = all(&[Job::new(&workload, config("6.12")?, "6.12")]).pop().ok_or("no run")?;
        let done = done.map_err(|error| format!("{error:?}"))?;
        let run = |kernel: &str| -> Result<Compared, Box<dyn std::error::Error>> {
            let jobs = [(Job::new(&workload, config(kernel)?, kernel), &done.marks[..])];
            let compared = compared(&jobs, &Budget::new(1)).pop().ok_or("no run")?;
            Ok(compared.map_err(|error| format!("{error:?}"))?)
        };
        let (same, other, again) = (run("6.12")?, run("6.1")?, run("6.1")?);
        assert_eq!((same.differs, same.events), (false, done.outcome.events));
        assert!(other.differs && other.events < done.outcome.events / 2, "{other:?} of {}", done.outcome.events);
        assert_eq!(other.events, again.events);
        Ok(())
    }

    #[test]
    fn observers_on_threads_of_their_own_see_the_same() -> Result<(), Box<dyn std::error::Error>> {
        let program = Phase::forever(vec![Op::Run { work: 100_000 }, Op::Sleep { time: 200_000 }]);
        let workload = Workload { tasks: vec![Task::new("t", [program]); 9], ..Workload::default() };
        let spec = MachineSpec::new(parse_topology("2")?);
        let config = Config { duration: Some(1_000_000_000), ..Config::new(vruntime_sched::kernel("6.12")?, spec) };
        let leaves = |spare| {
            let folder = tempfile::tempdir()?;
            let job = Job {
                traces: Some(folder.path().to_owned()),
                rtapp_log: Some((folder.path().to_owned(), Global::default())),
                detect: true,
                ..Job::new(&workload, config.clone(), "6.12")
            };
            let done = one(&job, spare, &mut |_| ()).map_err(miette::Report::from)?;
            let mut files = Vec::new();
            for entry in fs::read_dir(folder.path())? {
                let path = entry?.path();
                let name = path.file_name().map(ToOwned::to_owned);
                // Lists the command's files.
                if name.as_ref().is_some_and(|name| name != ".vruntime-files") {
                    files.push((name, fs::read(path)?));
                }
            }
            files.sort();
            Ok::<_, Box<dyn std::error::Error>>((format!("{:?} {:x}", done.results, done.digest), files))
        };
        let (here, in_thread) = (leaves(false)?, leaves(true)?);
        assert!(here.1.len() > 2 && here.1.iter().all(|(_, bytes)| bytes.len() > 1000));
        assert!(here == in_thread);
        Ok(())
    }
}
