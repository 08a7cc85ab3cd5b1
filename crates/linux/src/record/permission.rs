//! Which recordings the kernel permits, and what is missing for more.

use std::fs;
use std::io;

use super::RecordError;
use super::perf;
use super::tracefs::Mounted;

/// Where the events of a recording are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A tracing instance.
    Tracefs,
    /// perf_event_open: the same events.
    PerfTracepoints,
    /// perf_event_open: switches, forks, names and ends of all tasks.
    PerfSwitches,
    /// perf_event_open: switches, forks, names and ends of the command's tasks.
    PerfCommand,
}

impl Source {
    /// Returns a name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tracefs => "tracefs",
            Self::PerfTracepoints => "perf-tracepoints",
            Self::PerfSwitches => "perf-switches",
            Self::PerfCommand => "perf-command",
        }
    }

    /// Returns a name for users.
    pub fn what(self) -> &'static str {
        match self {
            Self::Tracefs => "tracefs",
            Self::PerfTracepoints => "tracepoints by perf_event_open",
            Self::PerfSwitches => "switches of all tasks by perf_event_open",
            Self::PerfCommand => "switches of the command's tasks by perf_event_open",
        }
    }

    /// Returns what the user can do to have more events. None if the recording has all.
    pub fn remedy(self) -> Option<String> {
        let all = if rustix::process::geteuid().is_root() {
            "to record all events, mount a tracefs in which instances can be made: mount -t tracefs tracefs /sys/kernel/tracing"
        } else {
            "to record all events: sudo vruntime record ..."
        };
        match self {
            Self::Tracefs | Self::PerfTracepoints => None,
            Self::PerfSwitches => Some(all.to_owned()),
            Self::PerfCommand => Some(format!(
                "{all} (or the switches of all tasks: with CAP_PERFMON, or as root: sysctl kernel.perf_event_paranoid=0)"
            )),
        }
    }
}

/// What this process may use.
#[derive(Debug)]
pub(super) enum Access {
    Tracefs(Mounted),
    Perf(perf::Access),
}

/// Returns the source that [`record`](super::record) would use. `command`: whether there is a command to record.
///
/// # Errors
/// If the kernel permits no recording.
pub fn may_record(command: bool) -> Result<Source, RecordError> {
    Ok(match find(command)? {
        Access::Tracefs(_) => Source::Tracefs,
        Access::Perf(access) => access.source,
    })
}

/// Finds the source with the most events.
pub(super) fn find(command: bool) -> Result<Access, RecordError> {
    let refused = match tracefs() {
        Ok(tracefs) => return Ok(Access::Tracefs(tracefs)),
        Err(error) => error,
    };
    match perf::Access::find(command) {
        Ok(mut access) => {
            access.why.insert(0, format!("{}: {refused}", Source::Tracefs.what()));
            Ok(Access::Perf(access))
        }
        Err(perf) => {
            let why = format!("{}: {refused}; {}", Source::Tracefs.what(), perf.join("; "));
            let missing = format!("{}. {}", missing(&refused), needs_of_a_command(command, paranoid()));
            Err(RecordError::NotPermitted { why, missing })
        }
    }
}

fn tracefs() -> io::Result<Mounted> {
    use rustix::fs::{Access, access};

    let tracefs = Mounted::find("tracefs")?;
    access(tracefs.path.join("instances"), Access::WRITE_OK | Access::EXEC_OK)?;
    Ok(tracefs)
}

/// Returns `kernel.perf_event_paranoid`; None without perf.
fn paranoid() -> Option<i32> {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

/// Returns what the recording of a command needs. `given`: whether there is a command.
fn needs_of_a_command(given: bool, paranoid: Option<i32>) -> String {
    const COMMAND: &str = "vruntime record -- COMMAND";
    match paranoid {
        None => "This kernel has no perf_event_open (CONFIG_PERF_EVENTS), which would record less".to_owned(),
        Some(level @ 3..) => format!(
            "The switches of one command need no privileges if kernel.perf_event_paranoid is at most 2. It is {level}; as root: \
             sysctl kernel.perf_event_paranoid=2, then: {COMMAND}"
        ),
        Some(_) if given => {
            "If a container's seccomp filter forbids perf_event_open, record outside the container".to_owned()
        }
        Some(_) => format!("The switches of one command need no privileges: {COMMAND}"),
    }
}

pub(super) fn no_tracefs(error: &io::Error) -> RecordError {
    RecordError::NotPermitted { why: error.to_string(), missing: missing(error).to_owned() }
}

/// Returns what tracefs needs.
fn missing(error: &io::Error) -> &'static str {
    let root = rustix::process::geteuid().is_root();
    match error.kind() {
        io::ErrorKind::PermissionDenied if root => {
            "root is not enough here: the kernel is locked down (/sys/kernel/security/lockdown), or this is a container without CAP_SYS_ADMIN \
             and without tracefs; record on its host"
        }
        io::ErrorKind::PermissionDenied => {
            "run it as root: sudo vruntime record ... (CAP_SYS_ADMIN mounts tracefs; or let a group use it, as root: mount -o \
             remount,mode=770,gid=GROUP /sys/kernel/tracing)"
        }
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => {
            "this kernel has no tracefs (CONFIG_FTRACE, CONFIG_EVENT_TRACING), or no instances in it"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "tracefs is mounted read-only; as root: mount -o remount,rw /sys/kernel/tracing"
        }
        _ if root => "mount tracefs: mount -t tracefs tracefs /sys/kernel/tracing",
        _ => "run it as root: sudo vruntime record ...",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_needs_a_permitting_kernel() {
        assert!(needs_of_a_command(false, Some(2)).ends_with("need no privileges: vruntime record -- COMMAND"));
        assert!(needs_of_a_command(true, Some(4)).contains("It is 4; as root: sysctl kernel.perf_event_paranoid=2"));
        assert!(needs_of_a_command(true, Some(2)).contains("seccomp"));
        assert!(needs_of_a_command(false, None).contains("CONFIG_PERF_EVENTS"));
    }

    #[test]
    fn sources_with_fewer_events_have_a_remedy() {
        let sources = [Source::Tracefs, Source::PerfTracepoints, Source::PerfSwitches, Source::PerfCommand];
        assert_eq!(sources.map(|source| source.remedy().is_some()), [false, false, true, true]);
    }
}
