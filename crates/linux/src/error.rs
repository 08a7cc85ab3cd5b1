//! Why a workload was not run.

use std::path::PathBuf;

use rustix::io::Errno;

/// The reason why a workload was not run. The text includes the kernel's error, which is therefore not a
/// [source](std::error::Error::source): a printed chain would repeat it. [`help`](Self::help) says how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It contradicts itself: it refers to what is not there, for example.
    #[error("{}", .0.message())]
    Workload(vruntime_workload::Error),
    /// It has an operation that no program can ask the kernel for.
    #[error("task `{task}` has {what}, which a real kernel does not offer to programs")]
    Impossible {
        /// The task whose program has it.
        task: String,
        /// What it is.
        what: &'static str,
    },
    /// Real-time tasks that do not rest would have every CPU, and the kernel's real-time throttling is off.
    #[error(
        "{} would monopolize {}, and this kernel does not throttle them (sched_rt_runtime_us is off; 6.12+: fair_server is off on at least one CPU)",
        who_go(*hogs),
        all_of(*cpus)
    )]
    Hangs {
        /// How many there are.
        hogs: usize,
        /// How many CPUs there are.
        cpus: usize,
    },
    /// Real-time tasks that may rest, each of them, want all CPUs between them, and the kernel's real-time throttling
    /// is off.
    #[error(
        "{tasks} real-time tasks want {percent} % of a CPU in total and would leave less than 5 % of {}, and this kernel does not throttle \
         them (sched_rt_runtime_us is off; 6.12+: fair_server is off on at least one CPU)",
        all_of(*cpus)
    )]
    Crowds {
        /// How many there are.
        tasks: usize,
        /// What they want between them, percent of a CPU.
        percent: u64,
        /// How many CPUs there are.
        cpus: usize,
    },
    /// It neither ends by itself nor has a duration.
    #[error("the workload never ends")]
    Endless,
    /// More tasks than this begin with the run, each of them a thread.
    #[error("{wanted} threads would begin, the most is {limit}")]
    TooMany {
        /// How many begin.
        wanted: usize,
        /// The limit.
        limit: usize,
    },
    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The kernel refused something without which nothing can be run.
    #[error("{what}{}: {cause}", path.as_ref().map(|path| format!(" ({})", path.display())).unwrap_or_default())]
    Io {
        /// What was being done.
        what: String,
        /// To which file, if it was one.
        path: Option<PathBuf>,
        /// What the kernel said.
        cause: std::io::Error,
    },
    /// The kernel refused one of the threads or processes.
    #[error("{what}: {cause}")]
    Fork {
        /// What was being made.
        what: &'static str,
        /// What the kernel said.
        cause: std::io::Error,
    },
}

/// Which limits are in the way where the kernel refuses a thread or a process with EAGAIN; none of other refusals.
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
    /// What the user can do about it, if anything is known that helps.
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::Workload(error) => error.help(),
            Self::Impossible { .. } => Some("simulate it: vruntime run FILE"),
            Self::Hangs { .. } => Some(
                "write 950000 to /proc/sys/kernel/sched_rt_runtime_us (from 6.12 on: 50000000 to the fair_server/cpu*/runtime of debugfs), \
                 pin them to some of the CPUs, let them sleep, or run anyway with --force",
            ),
            Self::Crowds { .. } => Some(
                "write 950000 to /proc/sys/kernel/sched_rt_runtime_us (from 6.12 on: 50000000 to the fair_server/cpu*/runtime of debugfs), \
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
    fn the_cause_is_told_once() {
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
