//! Runs what was planned: several runs at once, one thread each, every run exactly as it would be alone.

use std::fs::{self, File};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use miette::{IntoDiagnostic, WrapErr};
use vruntime_report::{Analyses, AnalysisKind, AnalysisOptions, Collector, Detected, Detector, Results, SchedStat};
use vruntime_sim::{Config, Outcome, Progress};
use vruntime_trace::{Digest, FtraceWriter, Identities, PerfettoOptions, PerfettoWriter};
use vruntime_workload::program::Workload;
use vruntime_workload::rtapp::Global;

use crate::benchmarks::{self, Output};
use crate::rtapp_log::RtAppLog;
use crate::{interrupt, located};

/// One run to do.
#[derive(Clone, Debug)]
pub(crate) struct Job<'a> {
    /// The tasks.
    pub(crate) workload: &'a Workload,
    /// How.
    pub(crate) config: Config,
    /// Folder to leave traces in, if they are wanted.
    pub(crate) traces: Option<PathBuf>,
    /// Folder for logs in rt-app's form, and what the file says of them, if they are wanted.
    pub(crate) rtapp_log: Option<(PathBuf, Global)>,
    /// Whether to look for lost work conservation.
    pub(crate) detect: bool,
    /// What to look for in its events.
    pub(crate) analyse: Option<(Vec<AnalysisKind>, AnalysisOptions)>,
    /// Whether to watch for the charts of a page.
    pub(crate) overview: bool,
    /// The kernel's name in the traces.
    pub(crate) kernel: String,
    /// What a recording calls the tasks, for the traces.
    pub(crate) identities: Option<Identities>,
}

/// One run done.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    /// What everybody got.
    pub(crate) results: Results,
    /// How it went.
    pub(crate) outcome: Outcome,
    /// What the detector found, if there was one.
    pub(crate) detected: Option<Detected>,
    /// Digest of its events.
    pub(crate) digest: u64,
    /// What its benchmarks print.
    pub(crate) benchmarks: Vec<Output>,
    /// Its seed.
    pub(crate) seed: u64,
    /// Counters up to the snapshot, if one was asked for.
    pub(crate) stat: Option<SchedStat>,
    /// What the analyses found.
    pub(crate) analyses: Option<Arc<Analyses>>,
}

/// Why a run was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The simulator refused.
    Refused(vruntime_sim::Error),
    /// A trace could not be written.
    Output(miette::Report),
}

impl From<Failure> for miette::Report {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => miette::miette!("{}", located::in_one(&error)),
            Failure::Output(report) => report,
        }
    }
}

/// Does all jobs, on as many threads as there are CPUs, and returns them in their order. After Ctrl-C the running ones
/// end early and the others are over before they begin.
pub(crate) fn all(jobs: &[Job<'_>]) -> Vec<Result<Done, Failure>> {
    let meter = Meter::new(jobs.len());
    let done = parallel(jobs, |index, job| one(job, &mut |progress| meter.update(index, progress)));
    meter.bar.finish_and_clear();
    done
}

/// Works on all jobs, on as many threads as there are CPUs, and returns what comes of them in their order.
pub(crate) fn parallel<T: Sync, R: Send>(jobs: &[T], work: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len());
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<R>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { break };
            let result = work(index, job);
            // A thread that panicked has ended the program's usefulness anyway; the lock's data is still whole.
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[index] = Some(result);
        }
    };
    // Threads share nothing but the list of jobs: each run is deterministic by itself.
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.into_iter().flatten().collect()
}

fn one(job: &Job<'_>, watch: &mut dyn FnMut(Progress)) -> Result<Done, Failure> {
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
    let mut sink = (
        (Digest::default(), job.config.debug_at.map(SchedStat::new)),
        Collector::new(cpus),
        perfetto.map(|file| PerfettoWriter::with_options(file, &options)),
        ftrace.map(|file| {
            let writer = FtraceWriter::new(file, cpus as u32).with_kernel(&job.kernel);
            job.identities.iter().cloned().fold(writer, FtraceWriter::with_identities)
        }),
        log.transpose().map_err(Failure::Output)?,
        (job.detect.then(Detector::new), job.analyse.as_ref().map(|(kinds, options)| watched(job, kinds, options))),
    );
    let mut watch = |progress| {
        watch(progress);
        if interrupt::asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let outcome =
        vruntime_sim::run_watched(job.workload, &job.config, &mut sink, &mut watch).map_err(Failure::Refused)?;
    let ((digest, stat), collector, perfetto, ftrace, log, (detector, analyses)) = sink;
    let written = perfetto.map_or(Ok(()), |writer| writer.finish_writing().map(drop));
    written
        .and_then(|()| ftrace.map_or(Ok(()), |writer| writer.finish_writing().map(drop)))
        .into_diagnostic()
        .wrap_err("cannot write a trace")
        .and_then(|()| {
            let written = log.map_or(Ok(()), RtAppLog::finish_writing);
            written.into_diagnostic().wrap_err("cannot write a log in rt-app's form")
        })
        .map_err(Failure::Output)?;
    let results = collector.into_results();
    let detected = detector.map(Detector::into_detected);
    let benchmarks = benchmarks::outputs(job.workload, &results, &job.config.machine.costs);
    Ok(Done {
        results,
        outcome,
        detected,
        digest: digest.value(),
        benchmarks,
        seed: job.config.seed,
        stat,
        analyses: analyses.map(Arc::new),
    })
}

fn watched(job: &Job<'_>, kinds: &[AnalysisKind], options: &AnalysisOptions) -> Analyses {
    let analyses = Analyses::new(kinds, options);
    if job.overview { analyses.with_overview() } else { analyses }
}

fn create(folder: &Path, name: &str) -> miette::Result<File> {
    let path = folder.join(name);
    fs::create_dir_all(folder)
        .and_then(|()| File::create(&path))
        .into_diagnostic()
        .wrap_err_with(|| format!("cannot write {}", path.display()))
}

/// A shorter wait needs no progress bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// The progress bar of all runs together: hidden for the first two seconds, and always if standard error is no
/// terminal.
struct Meter {
    bar: ProgressBar,
    /// Thousandths done of each job.
    done: Vec<AtomicU64>,
}

impl Meter {
    fn new(jobs: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(1000 * jobs as u64), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent} %  {msg}  {eta} left") {
            bar.set_style(style);
        }
        Self { bar, done: (0..jobs).map(|_| AtomicU64::new(0)).collect() }
    }

    fn update(&self, job: usize, progress: Progress) {
        if let Some(end) = progress.end.filter(|end| *end > 0) {
            let permille = u128::from(progress.now) * 1000 / u128::from(end);
            self.done[job].store(permille as u64, Ordering::Relaxed);
        }
        if self.bar.is_hidden() {
            if self.bar.elapsed() < PATIENCE {
                return;
            }
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        let sum = self.done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
        self.bar.set_position(sum);
        self.bar.set_message(format!("{:.1} s simulated", progress.now as f64 / 1e9));
    }
}
