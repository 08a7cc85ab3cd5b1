//! The kernel's recording of scheduler events, in a tracing instance of its own.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vruntime_workload::cgroups::{COMMAND as CGROUPS_COMMAND, Cgroups};

use crate::cgroup::{is_stale, own_name};

/// The events for a replay.
const EVENTS: [&str; 7] = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_process_fork",
    "sched_process_exit",
];
/// Optional events: moves to other groups; and charged times, which show when a throttled task got a CPU if switches
/// from idle are not recorded.
const MORE_EVENTS: [&str; 2] = ["cgroup/cgroup_attach_task", "sched/sched_stat_runtime"];
/// For each CPU: at 100 bytes, a few hundred thousand events.
const BUFFER_KIB: &str = "32768";

/// A running recording; dropping it removes its instance.
#[derive(Debug)]
struct TraceInstance {
    instance: PathBuf,
}

fn tracefs() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounted = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (mount, kind) = (fields.next()?, fields.next()?);
        (kind == "tracefs").then(|| PathBuf::from(mount))
    });
    mounted.or_else(|| Some(PathBuf::from("/sys/kernel/debug/tracing")).filter(|path| path.is_dir()))
}

impl TraceInstance {
    fn start() -> io::Result<Self> {
        let none = || {
            io::Error::new(
                io::ErrorKind::NotFound,
                "tracefs is not mounted (mount -t tracefs tracefs /sys/kernel/tracing)",
            )
        };
        let instances = tracefs().ok_or_else(none)?.join("instances");
        let instance = instances.join(own_name());
        fs::create_dir(&instance)?;
        let this = Self { instance };
        let file = |name: &str| this.instance.join(name);
        fs::write(file("buffer_size_kb"), BUFFER_KIB)?;
        fs::write(file("trace_clock"), "mono")?;
        for event in EVENTS {
            fs::write(file(&format!("events/sched/{event}/enable")), "1")?;
        }
        for event in MORE_EVENTS {
            let _enabled = fs::write(file(&format!("events/{event}/enable")), "1");
        }
        fs::write(file("tracing_on"), "1")?;
        Ok(this)
    }

    /// Ends it, and writes the text to `path`, with the kernel's release as in `perf script --header`.
    fn finish(self, path: &Path, release: &str) -> io::Result<()> {
        fs::write(self.instance.join("tracing_on"), "0")?;
        // An incomplete file must not have the final name.
        let temporary = path.with_file_name(format!(".{}.part", own_name()));
        let written = self.text(&temporary, release).and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            let _removed = fs::remove_file(&temporary);
        }
        written
    }

    fn text(&self, path: &Path, release: &str) -> io::Result<()> {
        let mut text = fs::File::open(self.instance.join("trace"))?;
        let mut out = fs::File::create_new(path)?;
        if !release.is_empty() {
            writeln!(out, "# os release : {release}")?;
        }
        io::copy(&mut text, &mut out)?;
        Ok(())
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        // If this fails, the next run repeats it.
        let _removed = fs::remove_dir(&self.instance);
    }
}

/// The recording of a run, if requested and possible, and the groups of threads.
#[derive(Debug)]
pub(crate) struct RunTrace {
    recording: Option<(TraceInstance, PathBuf)>,
    groups_file: Option<PathBuf>,
    /// The error of a file that could not be written.
    unwritten: Option<String>,
}

impl RunTrace {
    /// Starts to record if there is a `path`. `groups`: whether there are any.
    pub(crate) fn begin(path: Option<&Path>, groups: bool, notes: &mut Vec<String>) -> Self {
        let mut unwritten = None;
        let groups_file = path.filter(|_| groups).and_then(|path| {
            let file = path.with_file_name("cgroups.txt");
            let mut add_note = |error: io::Error| {
                let cannot = format!("cannot write {}: {error}", file.display());
                // What this machine's files say is no error of writing.
                if error.kind() == io::ErrorKind::InvalidData {
                    notes.push(format!("a replay of the trace will not know the groups: {cannot}"));
                } else {
                    unwritten = Some(cannot);
                }
            };
            write_groups(&file).map_err(&mut add_note).ok()?;
            Some(file)
        });
        let recording = path.and_then(|path| {
            let add_note = |error| notes.push(format!("no trace: the kernel would not record ({error})"));
            Some((TraceInstance::start().map_err(add_note).ok()?, path.to_owned()))
        });
        Self { recording, groups_file, unwritten }
    }

    /// Ends it. Returns the files of trace and groups, and the error of a file that could not be written.
    pub(crate) fn finish(self, kernel: &str) -> (Option<PathBuf>, Option<PathBuf>, Option<String>) {
        let mut unwritten = self.unwritten;
        let trace = self.recording.and_then(|(recording, path)| {
            let keep = |error| unwritten = Some(format!("cannot write {}: {error}", path.display()));
            recording.finish(&path, kernel).map_err(keep).ok()?;
            Some(path)
        });
        // Without a trace the groups are of no use, and may be incomplete, too.
        let groups = match self.groups_file {
            Some(file) if trace.is_none() => {
                let _removed = fs::remove_file(file);
                None
            }
            groups => groups,
        };
        (trace, groups, unwritten)
    }
}

/// Records threads' groups and groups' files beside the trace: no event has them, and a replay needs them.
fn write_groups(path: &Path) -> io::Result<()> {
    // A file of an earlier run must not count as this one's.
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Ignores threads that end meanwhile, and the exit status.
    let mut shell = Command::new("sh");
    shell.current_dir(folder).args(["-c", CGROUPS_COMMAND]).stdin(Stdio::null()).stdout(Stdio::null());
    shell.stderr(Stdio::null()).status()?;
    let understood = Cgroups::read("cgroups.txt", &fs::read(path)?);
    understood.map(drop).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

/// Removes instances of killed runs, which would record for ever.
pub(crate) fn clean(notes: &mut Vec<String>) {
    let Some(Ok(entries)) = tracefs().map(|tracefs| fs::read_dir(tracefs.join("instances"))) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_stale) && fs::remove_dir(entry.path()).is_ok() {
            notes.push(format!("removed {}, a remainder of a killed run", entry.path().display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_cannot_be_written_is_an_error() {
        let folder = std::env::temp_dir().join(format!("vruntime-unwritten-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("trace"), "# tracer: nop\n").unwrap();
        let finish = |path: PathBuf| {
            let recording = Some((TraceInstance { instance: folder.clone() }, path));
            RunTrace { recording, groups_file: None, unwritten: None }.finish("6.12.0")
        };
        let (kept, missing) = (folder.join("kept.txt"), folder.join("missing/trace.txt"));
        assert_eq!(finish(kept.clone()), (Some(kept), None, None));
        let (trace, _, unwritten) = finish(missing.clone());
        let unwritten = unwritten.unwrap_or_default();
        assert!(
            trace.is_none() && unwritten.starts_with(&format!("cannot write {}: ", missing.display())),
            "{unwritten}"
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
