//! Why a workload did not run.

use std::path::PathBuf;

use rustix::io::Errno;

/// Why a workload did not run. The text includes the kernel's error, which is therefore no
/// [source](std::error::Error::source). [`help`](Self::help) says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It contradicts itself.
    #[error("{}", .0.message())]
    Workload(vruntime_workload::Error),
    /// It has an operation that no kernel provides.
    #[error("task `{task}` has {what}, which a real kernel does not offer to programs")]
    Impossible {
        /// The task with the operation.
        task: String,
        /// The operation.
        what: &'static str,
    },
    /// Real-time tasks that never sleep would monopolize every CPU, without real-time throttling.
    #[error(
        "{} would monopolize {}, and this kernel does not throttle them (sched_rt_runtime_us is off; 6.12+: fair_server is off on at least one CPU)",
        who_go(*hogs),
        all_of(*cpus)
    )]
    Hangs {
        /// Their number.
        hogs: usize,
        /// Number of CPUs.
        cpus: usize,
    },
    /// Real-time tasks that sleep would together monopolize all CPUs, without real-time throttling.
    #[error(
        "{tasks} real-time tasks want {percent} % of a CPU in total and would leave less than 5 % of {}, and this kernel does not throttle \
         them (sched_rt_runtime_us is off; 6.12+: fair_server is off on at least one CPU)",
        all_of(*cpus)
    )]
    Crowds {
        /// Their number.
        tasks: usize,
        /// Their demand, percent of a CPU.
        percent: u64,
        /// Number of CPUs.
        cpus: usize,
    },
    /// It has neither an end nor a duration.
    #[error("the workload never ends")]
    Endless,
    /// Too many tasks begin with the run; each is a thread.
    #[error("{wanted} threads would begin, the most is {limit}")]
    TooMany {
        /// Their number.
        wanted: usize,
        /// The limit.
        limit: usize,
    },
    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The kernel refused something essential.
    #[error("{what}{}: {cause}", path.as_ref().map(|path| format!(" ({})", path.display())).unwrap_or_default())]
    Io {
        /// The failed action.
        what: String,
        /// The file.
        path: Option<PathBuf>,
        /// The kernel's error.
        cause: std::io::Error,
    },
    /// The kernel refused a thread or process.
    #[error("{what}: {cause}")]
    Fork {
        /// The refused object.
        what: &'static str,
        /// The kernel's error.
        cause: std::io::Error,
    },
}

/// Returns the limits that may cause EAGAIN for a thread or process; None for other errors.
pub(crate) fn limits_of_threads(cause: &std::io::Error) -> Option<&'static str> {
    (Errno::from_io_error(cause) == Some(Errno::AGAIN)).then_some(
        "the limit of threads is reached: raise the user's limit (ulimit -u), pids.max of this process's cgroup or of an ancestor, or the \
         machine's limit (sysctl kernel.threads-max, kernel.pid_max)",
    )
}

fn who_go(hogs: usize) -> String {
    if hogs == 1 {
        "1 real-time task that runs for more than a second without a sleep".to_owned()
    } else {
        format!("{hogs} real-time tasks that run for more than a second without a sleep")
    }
}

fn all_of(cpus: usize) -> String {
    if cpus == 1 { "the only CPU".to_owned() } else { format!("all {cpus} CPUs") }
}

impl Error {
    /// Returns what the user can do, if known.
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::Workload(error) => error.help(),
            Self::Impossible { .. } => Some("simulate it: vruntime run FILE"),
            Self::Hangs { .. } => Some(
                "write 950000 to /proc/sys/kernel/sched_rt_runtime_us (6.12+: 50000000 to the fair_server/cpu*/runtime of debugfs), \
                 pin them to some of the CPUs, let them sleep, or run anyway with --force",
            ),
            Self::Crowds { .. } => Some(
                "write 950000 to /proc/sys/kernel/sched_rt_runtime_us (6.12+: 50000000 to the fair_server/cpu*/runtime of debugfs), \
                 let them sleep more or compute less, pin them to some of the CPUs, or run anyway with --force",
            ),
            Self::Endless => Some("give it a duration: in the file, or with --duration 5s"),
            Self::TooMany { .. } => Some("lower `instance`"),
            Self::Io { cause, .. } if Errno::from_io_error(cause) == Some(Errno::MFILE) => {
                Some("raise the limit of open files: ulimit -n 65536")
            }
            Self::Fork { cause, .. } => limits_of_threads(cause),
            Self::Interrupted | Self::Io { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn refused(errno: Errno) -> Error {
        Error::Io { what: "cannot make a pipe".to_owned(), path: Some("/there".into()), cause: errno.into() }
    }

    #[test]
    fn the_cause_is_reported_once() {
        let error = Error::Io { what: "no".to_owned(), path: None, cause: io::Error::other("because") };
        assert_eq!(error.to_string(), "no: because");
        let error = refused(Errno::PERM);
        assert!(error.to_string().starts_with("cannot make a pipe (/there): Operation not permitted"), "{error}");
        assert!(std::error::Error::source(&error).is_none(), "the text has it");
    }

    #[test]
    fn help_is_what_helps_or_none() {
        assert_eq!(refused(Errno::MFILE).help(), Some("raise the limit of open files: ulimit -n 65536"));
        assert_eq!((refused(Errno::PERM).help(), Error::Interrupted.help()), (None, None));
        let fork = |errno: Errno| Error::Fork { what: "cannot make a thread", cause: errno.into() };
        let limits = ["ulimit -u", "pids.max", "kernel.threads-max", "kernel.pid_max"];
        let help = fork(Errno::AGAIN).help().unwrap_or_default().to_owned();
        assert!(limits.iter().all(|limit| help.contains(limit)), "{help}");
        assert_eq!(fork(Errno::NOMEM).help(), None);
        assert_eq!(refused(Errno::AGAIN).help(), None, "of a file it is no limit of threads");
    }
}
