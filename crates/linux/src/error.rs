//! Why a workload was not run.

use std::fmt;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why a workload was not run.
#[derive(Debug)]
pub enum Error {
    /// It contradicts itself: it refers to what is not there, for example.
    Workload(vruntime_workload::Error),
    /// It has an operation that no program can ask the kernel for.
    Impossible {
        /// The task whose program has it.
        task: String,
        /// What it is.
        what: &'static str,
    },
    /// Real-time tasks that do not rest would have every CPU, and the kernel's real-time throttling is off.
    Hangs {
        /// How many there are.
        hogs: usize,
        /// How many CPUs there are.
        cpus: usize,
    },
    /// Real-time tasks that may rest, each of them, want all CPUs between them, and the kernel's real-time throttling is off.
    Crowds {
        /// How many there are.
        tasks: usize,
        /// What they want between them, percent of a CPU.
        percent: u64,
        /// How many CPUs there are.
        cpus: usize,
    },
    /// It neither ends by itself nor has a duration.
    Endless,
    /// More threads than this would be needed.
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// It was asked to stop.
    Interrupted,
    /// The kernel refused something without which nothing can be run.
    Io {
        /// What was being done.
        what: String,
        /// To which file, if it was one.
        path: Option<PathBuf>,
        /// What the kernel said.
        source: std::io::Error,
    },
}

impl Error {
    /// What the user can do about it, if anything is known that helps.
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::Workload(error) => error.help(),
            Self::Impossible { .. } => Some("simulate it: vruntime run FILE"),
            Self::Hangs { .. } => Some(
                "write 950000 to /proc/sys/kernel/sched_rt_runtime_us (from 6.12 on: 50000000 to the fair_server/cpu*/runtime of debugfs), \
                 confine them to some of the CPUs, let them sleep, or insist with --force",
            ),
            Self::Crowds { .. } => Some(
                "write 950000 to /proc/sys/kernel/sched_rt_runtime_us (from 6.12 on: 50000000 to the fair_server/cpu*/runtime of debugfs), \
                 let them rest for longer or compute less, confine them to some of the CPUs, or insist with --force",
            ),
            Self::Endless => Some("give it a duration: in the file, or with --duration 5s"),
            Self::TooMany { .. } => Some("let the tasks end, or fork fewer"),
            Self::Io { source, .. } if Errno::from_io_error(source) == Some(Errno::MFILE) => {
                Some("raise the limit of open files: ulimit -n 65536")
            }
            Self::Interrupted | Self::Io { .. } => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workload(error) => f.write_str(error.message()),
            Self::Impossible { task, what } => {
                write!(f, "task `{task}` has {what}, which a program cannot ask a real kernel for")
            }
            Self::Hangs { hogs, cpus } => write!(
                f,
                "{hogs} real-time tasks that go on for more than a second without a rest would have all {cpus} CPUs, and this kernel \
                 would let them: nothing keeps real-time tasks back there (its throttling is off, sched_rt_runtime_us, or from 6.12 on its \
                 fair_server on one CPU or more)"
            ),
            Self::Crowds { tasks, percent, cpus } => write!(
                f,
                "{tasks} real-time tasks want {percent} % of a CPU between them, so that all {cpus} CPUs would have less than 5 % left, and this \
                 kernel would let them: nothing keeps real-time tasks back there (its throttling is off, sched_rt_runtime_us, or from 6.12 on \
                 its fair_server on one CPU or more)"
            ),
            Self::Endless => f.write_str("the workload never ends"),
            Self::TooMany { limit } => write!(f, "the workload needs more than {limit} threads"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Io { what, path, source } => match path {
                Some(path) => write!(f, "{what} ({}): {source}", path.display()),
                None => write!(f, "{what}: {source}"),
            },
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(errno: Errno) -> Error {
        Error::Io { what: "cannot make a pipe".to_owned(), path: Some("/there".into()), source: errno.into() }
    }

    #[test]
    fn help_is_what_helps_or_none() {
        assert_eq!(refused(Errno::MFILE).help(), Some("raise the limit of open files: ulimit -n 65536"));
        assert_eq!((refused(Errno::PERM).help(), Error::Interrupted.help()), (None, None));
    }
}
