//! Tracefs and debugfs: existing mounts, or private ones.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// A file system of the kernel. An own mount ends with this value, or the process.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) path: PathBuf,
    _mount: Option<OwnedFd>,
}

impl Mounted {
    /// Returns an existing mount of this kind, else a detached mount.
    pub(crate) fn find(kind: &str) -> io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        if let Some(path) = mounted(&mounts, kind) {
            return Ok(Self { path, _mount: None });
        }
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        Ok(Self { path: PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd())), _mount: Some(mount) })
    }
}

/// Finds a mount in the lines of `/proc/self/mounts`.
fn mounted(mounts: &str, kind: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (mount, found) = (fields.next()?, fields.next()?);
        // Spaces and the like are written as \040.
        (found == kind && !mount.contains('\\')).then(|| PathBuf::from(mount))
    })
}

/// Returns a tracefs whose events this process may read. debugfs has one at `tracing`.
pub(super) fn readable() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let path = mounted(&mounts, "tracefs").unwrap_or_else(|| PathBuf::from("/sys/kernel/debug/tracing"));
    let id = path.join("events/sched/sched_switch/id");
    let read = fs::read_to_string(&id);
    read.map(|_| path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", id.display())))
}

/// A tracing instance, removed on drop.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) path: PathBuf,
}

impl Instance {
    pub(super) fn make(path: PathBuf) -> io::Result<Self> {
        fs::create_dir(&path)?;
        Ok(Self { path })
    }

    pub(super) fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let path = self.path.join(file);
        fs::write(&path, text).map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))
    }

    pub(super) fn read(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.path.join(file))
    }

    pub(super) fn stats(&self, cpu: u32) -> Stats {
        let text = self.read(&format!("per_cpu/cpu{cpu}/stats")).unwrap_or_default();
        Stats::parse(text)
    }

    /// Returns a CPU's pages, without blocking.
    pub(super) fn pages(&self, cpu: u32) -> io::Result<File> {
        use std::os::unix::fs::OpenOptionsExt;

        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let path = self.path.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // If this fails, the watchdog and the next recording repeat it.
        let _stopped = self.write("tracing_on", "0");
        let _removed = fs::remove_dir(&self.path);
    }
}

/// `per_cpu/cpuN/stats`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    /// Events in the buffer.
    pub(super) entries: u64,
    pub(super) read: u64,
    /// Overwritten or dropped events.
    pub(super) lost: u64,
    pub(super) text: String,
}

impl Stats {
    fn parse(text: String) -> Self {
        let value = |key: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        let lost = value("overrun") + value("commit overrun") + value("dropped events");
        Self { entries: value("entries"), read: value("read events"), lost, text }
    }
}

/// Returns the size of a page, from `events/header_page`.
pub(super) fn page_size(header_page: &str) -> Option<u32> {
    let line = header_page.lines().find(|line| line.contains(" data;"))?;
    let value = |key: &str| -> Option<u32> {
        let rest = &line[line.find(key)? + key.len()..];
        rest.split(';').next()?.trim().parse().ok()
    };
    value("offset:")?.checked_add(value("size:")?).filter(|size| size.is_power_of_two())
}

/// Recorded CPUs: up to the last online one, of many more possible ones.
pub(super) fn cpus(instance: &Path) -> u32 {
    let may_be = (0..1 << 16).take_while(|cpu| instance.join(format!("per_cpu/cpu{cpu}")).is_dir()).count() as u32;
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    last_of(&online).map_or(may_be, |last| may_be.min(last.saturating_add(1)))
}

fn last_of(list: &str) -> Option<u32> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_their_kind() {
        let mounts = "nodev /sys/kernel/tracing tracefs rw 0 0\nnone /a\\040b debugfs rw 0 0\n";
        assert_eq!(mounted(mounts, "tracefs"), Some("/sys/kernel/tracing".into()));
        assert_eq!(mounted(mounts, "debugfs"), None);
    }

    #[test]
    fn the_size_of_pages_is_read() {
        let header = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                      \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(page_size(header), Some(4096));
        assert_eq!(page_size(&header.replace("4080", "4081")), None);
        assert_eq!(page_size(""), None);
    }

    #[test]
    fn the_last_cpu_is_the_last_of_a_list() {
        assert_eq!(["0-3,6\n", "0", "0-1\n", "", "x"].map(last_of), [Some(6), Some(0), Some(1), None, None]);
    }

    #[test]
    fn counts_are_read() {
        let text = "entries: 12\noverrun: 3\ncommit overrun: 1\nbytes: 8\ndropped events: 2\nread events: 40\n";
        let stats = Stats::parse(text.to_owned());
        assert_eq!((stats.entries, stats.read, stats.lost), (12, 40, 6));
        assert_eq!(Stats::parse(String::new()), Stats::default());
    }
}
