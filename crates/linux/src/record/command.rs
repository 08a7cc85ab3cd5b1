//! The recorded program.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::RecordError;
use crate::work;

/// Time to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandEnded {
    /// Its process id.
    pub pid: i32,
    /// Its exit status, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    ended: Option<ExitStatus>,
    /// Readable when it ends; None before 5.3.
    end: Option<rustix::fd::OwnedFd>,
}

/// A thread that starts the program on request, with the policy that the thread inherited when it was created.
#[derive(Debug)]
pub(super) struct Starter {
    thread: Option<JoinHandle<Result<Option<Running>, RecordError>>>,
    go: Sender<()>,
    tid: i32,
}

impl Starter {
    pub(super) fn new(command: &[OsString]) -> io::Result<Self> {
        let (go, wait) = channel();
        let command = command.to_vec();
        let (sender, receiver) = channel();
        let body = move || {
            let _sent = sender.send(rustix::thread::gettid().as_raw_nonzero().get());
            if wait.recv().is_ok() { Running::start(&command) } else { Ok(None) }
        };
        let thread = thread::Builder::new().name("vruntime-start".to_owned()).spawn(body)?;
        let tid = receiver.recv().map_err(io::Error::other)?;
        Ok(Self { thread: Some(thread), go, tid })
    }

    /// Returns the thread, whose child is the program.
    pub(super) fn tid(&self) -> i32 {
        self.tid
    }

    /// None if there is no program.
    pub(super) fn start(mut self) -> Result<Option<Running>, RecordError> {
        let _sent = self.go.send(());
        let joined = self.thread.take().map(JoinHandle::join);
        joined.and_then(Result::ok).unwrap_or(Ok(None))
    }
}

impl Running {
    fn start(command: &[OsString]) -> Result<Option<Self>, RecordError> {
        let Some((program, arguments)) = command.split_first() else { return Ok(None) };
        let child = Command::new(program)
            .args(arguments)
            .spawn()
            .map_err(|cause| RecordError::Command { command: program.to_string_lossy().into_owned(), cause })?;
        let pid = Pid::from_child(&child);
        Ok(Some(Self { child, ended: None, end: pidfd_open(pid, PidfdFlags::empty()).ok() }))
    }

    pub(super) fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended.is_some()
    }

    pub(super) fn wait(&self, most: Duration) {
        match &self.end {
            Some(end) => {
                // The caller repeats a wait that a signal ends.
                let timeout = work::timespec(most.as_nanos() as u64);
                let _woken = poll(&mut [PollFd::new(end, PollFlags::IN)], Some(&timeout));
            }
            None => std::thread::sleep(most.min(Duration::from_millis(10))),
        }
    }

    /// Asks it to end, if it has not.
    pub(super) fn end(mut self, notes: &mut Vec<String>) -> CommandEnded {
        if !self.has_ended() {
            let _asked = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let until = work::now() + PATIENCE.as_nanos() as u64;
            while !self.has_ended() && work::now() < until {
                self.wait(Duration::from_millis(100));
            }
            notes.push(match self.ended {
                Some(_) => "the recording ended before the command, so the command was sent SIGTERM".to_owned(),
                None => format!(
                    "the recording ended before the command, which still runs, after SIGTERM (pid {})",
                    self.child.id()
                ),
            });
        }
        let pid = self.child.id() as i32;
        let code = self.ended.and_then(|status| status.code());
        CommandEnded { pid, code, signal: self.ended.and_then(|status| status.signal()) }
    }
}
