//! `--rtapp-log`: one file per task, in rt-app's format.
//!
//! Times are microseconds. `start`, `end` and `rel_st` count from the start of the run (rt-app's first two: from boot).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use vruntime_trace::{CpuId, Event, LoopTimes, Sink, TaskId, TaskInfo};
use vruntime_workload::program::{Policy, Workload};
use vruntime_workload::rtapp::{Calibration, Global};

use crate::leftovers;
use crate::output_file::{ClosedFile, OutputFile};

/// rt-app's calibration on a present machine.
const NS_PER_LOOP: u64 = 15;
/// Buffered bytes at which a task's rows are written.
const TASK_BYTES: usize = 16 << 10;
/// Buffered bytes at which all rows are written.
const ALL_BYTES: usize = 64 << 20;

/// The longest file name, bytes.
const NAME_BYTES: usize = 255;

const COLUMNS: &str = "#idx     perf      run   period           start             end          rel_st      slack \
                       c_duration   c_period     wu_lat\n";

/// Whether a file is named like a log.
pub(crate) fn is_log(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".log"));
    name.and_then(|name| name.rsplit_once('-')).is_some_and(|(_, index)| index.parse::<usize>().is_ok())
}

/// Returns the files in a folder that are named like logs.
pub(crate) fn logs_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut logs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| is_log(path)).collect();
    logs.sort();
    logs
}

/// Checks the lengths of the logs' names.
pub(crate) fn check_names(workload: &Workload, global: &Global) -> io::Result<()> {
    let basename = safe(&global.log_basename);
    for (index, task) in workload.tasks.iter().enumerate() {
        let name = log_name(&basename, &task.class, index);
        if name.len() > NAME_BYTES {
            let start: String = name.chars().take(40).collect();
            return Err(io::Error::new(
                io::ErrorKind::InvalidFilename,
                format!("the name of a log has {} bytes, more than {NAME_BYTES}: {start}...", name.len()),
            ));
        }
    }
    Ok(())
}

#[derive(Debug)]
pub(crate) struct RtAppLog {
    folder: PathBuf,
    basename: String,
    /// Names of started files.
    names: BTreeSet<String>,
    ns_per_loop: u64,
    cumulative_slack: bool,
    /// The first line of a log, by class.
    headers: BTreeMap<String, String>,
    tasks: Vec<Log>,
    buffered: usize,
    error: Option<io::Error>,
}

#[derive(Debug, Default)]
struct Log {
    /// `None` for tasks outside the workload.
    file: Option<ClosedFile>,
    rows: String,
}

impl RtAppLog {
    /// Prepares logs in `folder`, creating it if missing. `global` has the file's settings of logs.
    pub(crate) fn new(folder: &Path, workload: &Workload, global: &Global) -> io::Result<Self> {
        check_names(workload, global)?;
        fs::create_dir_all(folder)?;
        let basename = safe(&global.log_basename);
        let headers = workload.tasks.iter().map(|task| (task.class.clone(), header(task.settings.policy)));
        Ok(Self {
            folder: folder.to_owned(),
            basename,
            names: BTreeSet::new(),
            ns_per_loop: match global.calibration {
                Calibration::NsPerLoop(ns) => ns.max(1),
                Calibration::Cpu(_) => NS_PER_LOOP,
            },
            cumulative_slack: global.cumulative_slack,
            headers: headers.collect(),
            tasks: Vec::new(),
            buffered: 0,
            error: None,
        })
    }

    /// Writes the buffered rows, gives the logs their names, and removes other logs of earlier runs. After an error,
    /// there is no log.
    pub(crate) fn finish_writing(mut self) -> io::Result<()> {
        self.flush();
        if let Some(error) = self.error {
            return Err(error);
        }
        self.tasks.into_iter().filter_map(|log| log.file).try_for_each(ClosedFile::keep)?;
        leftovers::replace(&self.folder, "--rtapp-log", &self.names)
    }

    fn keep(&mut self, done: io::Result<()>) {
        if let Err(error) = done {
            self.error.get_or_insert(error);
        }
    }

    fn flush(&mut self) {
        for index in 0..self.tasks.len() {
            self.flush_task(index);
        }
    }

    /// Writes a task's rows. No file stays open, as there can be more tasks than the limit of open files.
    fn flush_task(&mut self, index: usize) {
        let log = &mut self.tasks[index];
        let (Some(file), false) = (&log.file, log.rows.is_empty()) else { return };
        let done = file.append(log.rows.as_bytes());
        self.buffered -= log.rows.len();
        log.rows.clear();
        self.keep(done);
    }

    pub(crate) fn begin(&mut self, task: usize, class: &str) {
        if self.tasks.len() <= task {
            self.tasks.resize_with(task + 1, Log::default);
        }
        // rt-app does not log the machine's own threads.
        let Some(header) = self.headers.get(class) else { return };
        let name = log_name(&self.basename, class, task);
        let path = self.folder.join(&name);
        self.names.insert(name);
        let begun = OutputFile::create(&path).and_then(|mut file| {
            file.write_all(format!("{header}{COLUMNS}").as_bytes())?;
            Ok(file.close())
        });
        match begun {
            Ok(file) => self.tasks[task].file = Some(file),
            Err(error) => self.keep(Err(error)),
        }
    }

    /// Adds a row for a loop that ended at `at`.
    pub(crate) fn row(&mut self, task: usize, at: u64, duration: u64, times: &LoopTimes) {
        let slack = if self.cumulative_slack { times.cumulative_slack } else { times.slack };
        let perf = times.work / self.ns_per_loop;
        let [run, period, start, end, asked, timers, late] =
            [times.run, duration, at - duration, at, times.asked, times.period, times.wakeup_latency]
                .map(|ns| ns / 1000);
        let rows = &mut self.tasks[task].rows;
        let before = rows.len();
        // Writing to a string cannot fail.
        let _written = writeln!(
            rows,
            "{task:>4} {perf:>8} {run:>8} {period:>8} {start:>15} {end:>15} {start:>15} {:>10} {asked:>10} {timers:>10} \
             {late:>10}",
            slack / 1000,
        );
        self.buffered += rows.len() - before;
        if self.buffered >= ALL_BYTES {
            self.flush();
        } else if rows.len() >= TASK_BYTES {
            self.flush_task(task);
        }
    }
}

impl Sink for RtAppLog {
    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        self.begin(id.index(), info.class);
    }

    fn event(&mut self, _at: u64, _cpu: CpuId, _event: &Event) {}

    fn wants_loops(&self) -> bool {
        true
    }

    fn loop_end(&mut self, at: u64, task: TaskId, duration: u64, times: &LoopTimes) {
        self.row(task.index(), at, duration, times);
    }
}

/// Returns the first line of a log: the task's initial attributes.
fn header(policy: Option<Policy>) -> String {
    let (name, priority) = match policy {
        None => ("SCHED_OTHER", 0),
        Some(Policy::Other { nice, .. }) => ("SCHED_OTHER", i64::from(nice)),
        Some(Policy::Batch { nice, .. }) => ("SCHED_BATCH", i64::from(nice)),
        Some(Policy::Idle) => ("SCHED_IDLE", 0),
        Some(Policy::Fifo { priority }) => ("SCHED_FIFO", i64::from(priority)),
        Some(Policy::RoundRobin { priority }) => ("SCHED_RR", i64::from(priority)),
        Some(Policy::Deadline { .. }) => ("SCHED_DEADLINE", 0),
    };
    format!("# Policy : {name} priority : {priority}\n")
}

fn log_name(basename: &str, class: &str, task: usize) -> String {
    format!("{basename}-{}-{task}.log", safe(class))
}

/// Makes a name safe for file names.
fn safe(name: &str) -> String {
    let safe = |c: char| if c == '/' || vruntime_report::obeyed(c) { '_' } else { c };
    name.chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vruntime_workload::rtapp::{self, Options};

    #[test]
    fn names_of_files_are_shown_as_they_are() {
        assert_eq!(safe("a/b\u{202e}c\u{1b}d\u{200f}.log"), "a_b_c_d_.log");
    }

    /// Writes the rows of rt-app 1.0 on a real machine (docs/rt-app.md) from their times.
    #[test]
    fn rows_are_rt_apps_to_the_byte() {
        let file = br#"{"global": {"calibration": 100, "log_basename": "x"},
            "tasks": {"timer": {"run": 2000, "timer": {"ref": "unique", "period": 10000}}, "over": {"run": 1000}}}"#;
        let file = rtapp::parse("x.json", file, &Options::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut log = RtAppLog::new(folder.path(), &file.workload, &file.global).unwrap();
        for (id, name) in [(0, "timer"), (1, "over"), (2, "kworker")] {
            log.task(TaskId(id), &TaskInfo { name, class: name, ..TaskInfo::default() });
        }
        let us = 1000;
        let times = LoopTimes {
            asked: 2000 * us,
            run: 4163 * us,
            work: 2000 * us,
            period: 10_000 * us,
            slack: 5_587_000,
            cumulative_slack: 1,
            wakeup_latency: 5348 * us,
        };
        log.loop_end(19_319 * us, TaskId(0), 15_098 * us, &times);
        let times = LoopTimes { asked: 1000 * us, work: 1000 * us, slack: -9_920_999, ..LoopTimes::default() };
        log.loop_end(14_391 * us, TaskId(1), 10_158 * us, &times);
        log.finish_writing().unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(
            read("x-timer-0.log"),
            "# Policy : SCHED_OTHER priority : 0\n\
             #idx     perf      run   period           start             end          rel_st      slack c_duration   \
             c_period     wu_lat\n   \
             0    20000     4163    15098            4221           19319            4221       5587       2000      \
             10000       5348\n"
        );
        assert!(read("x-over-1.log").ends_with("      -9920       1000          0          0\n"));
        // The third is the list of the command's files.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_not_a_panic() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(RtAppLog::new(&file.path().join("x"), &Workload::default(), &Global::default()).is_err());
        let folder = tempfile::tempdir().unwrap();
        let workload =
            rtapp::parse("x.json", br#"{"tasks": {"a": {"run": 1}}}"#, &Options::default()).unwrap().workload;
        let mut log = RtAppLog::new(folder.path(), &workload, &Global::default()).unwrap();
        log.task(TaskId(0), &TaskInfo { name: "a", class: "a", ..TaskInfo::default() });
        fs::remove_dir_all(folder.path()).unwrap();
        log.loop_end(10, TaskId(0), 5, &LoopTimes::default());
        assert!(log.finish_writing().is_err());
    }

    /// Logs of an interrupted or failed writer do not appear.
    #[test]
    fn an_incomplete_log_is_not_left() {
        let folder = tempfile::tempdir().unwrap();
        let workload =
            rtapp::parse("x.json", br#"{"tasks": {"a": {"run": 1}}}"#, &Options::default()).unwrap().workload;
        let mut log = RtAppLog::new(folder.path(), &workload, &Global::default()).unwrap();
        log.task(TaskId(0), &TaskInfo { name: "a", class: "a", ..TaskInfo::default() });
        assert_eq!(logs_in(folder.path()), Vec::<PathBuf>::new());
        drop(log);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
