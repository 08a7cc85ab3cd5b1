//! A process that removes the tracing instance if this one dies without doing so, as by SIGKILL.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, kill_process, pidfd_open, setsid, waitpid,
};

use crate::sys;

/// Polling interval, without notification of a process's end.
const LOOK: Duration = Duration::from_millis(100);
/// Attempts to remove the instance, which is in use until the kernel has closed the files.
const TRIES: u32 = 300;
const BETWEEN: Duration = Duration::from_millis(20);

/// The watching process, ended on drop.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Pid,
}

impl Watchdog {
    /// Watches this process, before the instance exists.
    pub(super) fn start(instance: &Path) -> io::Result<Self> {
        let parent = getpid();
        // Before 5.3 there is none.
        let ended = pidfd_open(parent, PidfdFlags::empty()).ok();
        let child = sys::fork(|| {
            // Ctrl-C ends foreground processes; this one must outlive them.
            let _own = setsid();
            let _named = rustix::thread::set_name(c"vruntime-dog");
            match &ended {
                Some(ended) => while poll(&mut [PollFd::new(ended, PollFlags::IN)], None).is_err() {},
                None => {
                    while getppid() == Some(parent) {
                        std::thread::sleep(LOOK);
                    }
                }
            }
            for _ in 0..TRIES {
                match fs::remove_dir(instance) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => std::thread::sleep(BETWEEN),
                    _ => return 0,
                }
            }
            1
        })?;
        let child = Pid::from_raw(child).ok_or_else(|| io::Error::other("the watchdog has no pid"))?;
        Ok(Self { child })
    }

    pub(super) fn pid(&self) -> i32 {
        self.child.as_raw_nonzero().get()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _killed = kill_process(self.child, Signal::KILL);
        let _ended = waitpid(Some(self.child), WaitOptions::empty());
    }
}
