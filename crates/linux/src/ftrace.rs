//! A recording of the scheduler's events by the kernel itself, in a tracing instance of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cgroup::{is_stale, own_name};

/// The events that a replay wants.
const EVENTS: [&str; 7] = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_process_fork",
    "sched_process_exit",
];
/// Of each CPU: at some 100 bytes an event, a few hundred thousand events.
const BUFFER_KIB: &str = "32768";

/// A running recording. Its instance is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Recording {
    instance: PathBuf,
}

/// Where tracefs is mounted.
fn tracefs() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounted = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (mount, kind) = (fields.next()?, fields.next()?);
        (kind == "tracefs").then(|| PathBuf::from(mount))
    });
    mounted.or_else(|| Some(PathBuf::from("/sys/kernel/debug/tracing")).filter(|path| path.is_dir()))
}

impl Recording {
    /// Begins to record.
    pub(crate) fn start() -> io::Result<Self> {
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
        fs::write(file("tracing_on"), "1")?;
        Ok(this)
    }

    /// Ends it and leaves the text in `path`.
    pub(crate) fn finish(self, path: &Path) -> io::Result<()> {
        fs::write(self.instance.join("tracing_on"), "0")?;
        let mut text = fs::File::open(self.instance.join("trace"))?;
        io::copy(&mut text, &mut fs::File::create(path)?)?;
        Ok(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Should it fail, the next run tries again.
        let _removed = fs::remove_dir(&self.instance);
    }
}

/// Removes what killed runs have left: an instance goes on recording until then.
pub(crate) fn clean(notes: &mut Vec<String>) {
    let Some(Ok(entries)) = tracefs().map(|tracefs| fs::read_dir(tracefs.join("instances"))) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_stale) && fs::remove_dir(entry.path()).is_ok() {
            notes.push(format!("removed {}, which a run that was killed had left", entry.path().display()));
        }
    }
}
