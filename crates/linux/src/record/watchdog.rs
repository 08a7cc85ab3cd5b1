//! A process that removes the tracing instance if this process died without doing so, for example after SIGKILL.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, kill_process, pidfd_open, setsid, waitpid,
};

use crate::sys;

/// How often the watchdog looks, where the kernel does not say when a process ends.
const LOOK: Duration = Duration::from_millis(100);
/// How often it tries to remove the instance, which is in use until the kernel has closed the files of the dead.
const TRIES: u32 = 300;
const BETWEEN: Duration = Duration::from_millis(20);

/// The watching process. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Pid,
}

impl Watchdog {
    /// Begins to watch this process, before the instance is made.
    pub(super) fn start(instance: &Path) -> io::Result<Self> {
        let parent = getpid();
        // A kernel before 5.3 has none.
        let ended = pidfd_open(parent, PidfdFlags::empty()).ok();
        let child = sys::fork(|| {
            // Ctrl-C is of the foreground's processes, and this one has to outlive them.
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

    /// Its process.
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
