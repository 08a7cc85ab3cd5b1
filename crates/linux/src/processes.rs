//! Tasks in processes of their own. Each process is forked from this one, has a thread for each of its tasks and one
//! that waits, and reports results through a pipe.
//!
//! The forks precede the first thread of the run. Processes share earlier mappings ([`crate::common`],
//! [`crate::objects`]) and inherit pipes and sockets. They start in the cgroup of the parent, which creates all
//! cgroups. The kernel kills them with the parent.

mod report;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getppid, kill_process, set_parent_process_death_signal, waitid,
    waitpid,
};

use crate::error::Error;
use crate::measured::TaskMeasured;
use crate::run::{Shared, as_child};
use crate::sys;

/// A process's results.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    pub(crate) begun: Vec<TaskMeasured>,
    pub(crate) forked: Vec<TaskMeasured>,
    pub(crate) notes: Vec<String>,
    /// The error number of a refused thread; then nothing ran.
    pub(crate) refused: Option<i32>,
}

/// A forked process, killed on drop.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Option<Pid>,
    report: OwnedFd,
}

impl Child {
    /// Forks a process and gets its tasks ready.
    pub(crate) fn begin(shared: &Arc<Shared>, tasks: &[usize]) -> Result<Self, Error> {
        let failed = |cause| Error::Io { what: "cannot make a process".to_owned(), path: None, cause };
        let (report, to_parent) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let parent = rustix::process::getpid();
        let child = sys::fork(|| {
            // The signal does not cover a parent that has already ended.
            let dies = set_parent_process_death_signal(Some(Signal::KILL));
            if dies.is_err() || getppid() != Some(parent) {
                return 1;
            }
            // Only the parent gets Ctrl-C, and stops all.
            let _own_group = rustix::process::setpgid(None, None);
            let report = as_child(shared, tasks).unwrap_or_else(|cause| Report {
                refused: Some(cause.raw_os_error().unwrap_or(0)),
                ..Report::default()
            });
            i32::from(File::from(to_parent).write_all(&report.bytes()).is_err())
        });
        let child = child.map_err(|cause| Error::Fork { what: "cannot make a process", cause })?;
        Ok(Self { pid: Pid::from_raw(child), report })
    }

    pub(crate) fn pid(&self) -> Option<i32> {
        self.pid.map(|pid| pid.as_raw_nonzero().get())
    }

    /// Whether any process has ended, by one call while none has.
    pub(crate) fn any_is_gone(children: &mut [Self]) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let none = children.is_empty() || matches!(waitid(WaitId::All, options), Ok(None));
        !none && children.iter_mut().any(Self::is_gone)
    }

    pub(crate) fn why_gone(children: Vec<Self>) -> Error {
        let gone = children.into_iter().filter(|child| child.pid.is_none());
        let refused = gone.filter_map(Self::report).find_map(|report| report.refused);
        if let Some(errno) = refused {
            return Error::Fork {
                what: "cannot make a thread of a process",
                cause: io::Error::from_raw_os_error(errno),
            };
        }
        let cause = io::Error::other("it ended before it began");
        Error::Io { what: "a process could not be made ready".to_owned(), path: None, cause }
    }

    fn is_gone(&mut self) -> bool {
        let Some(pid) = self.pid else { return true };
        // None: still running; an error: no longer our child.
        if matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)) {
            return false;
        }
        self.pid = None;
        true
    }

    /// Returns its results, after the run.
    fn report(mut self) -> Option<Report> {
        let mut bytes = Vec::new();
        let read = self.report.try_clone().map(File::from).and_then(|mut pipe| pipe.read_to_end(&mut bytes));
        if let Some(pid) = self.pid.take() {
            // It ends by itself after its report.
            let _ended = waitpid(Some(pid), WaitOptions::empty());
        }
        read.ok().and_then(|_| Report::of(&bytes))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            let _killed = kill_process(pid, Signal::KILL);
            let _ended = waitpid(Some(pid), WaitOptions::empty());
        }
    }
}

/// Collects the results of all processes: initial tasks, and forked ones.
pub(crate) fn gather(children: Vec<Child>, notes: &mut Vec<String>) -> (Vec<TaskMeasured>, Vec<TaskMeasured>) {
    let (mut begun, mut forked) = (Vec::new(), Vec::new());
    for child in children {
        let Some(mut report) = child.report() else {
            notes.push("a process ended without a report".to_owned());
            continue;
        };
        begun.append(&mut report.begun);
        forked.append(&mut report.forked);
        notes.extend(report.notes.into_iter().filter(|note| !notes.contains(note)).collect::<Vec<_>>());
    }
    (begun, forked)
}
