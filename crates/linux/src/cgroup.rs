//! The workload's groups as cgroups of this machine: v2 or v1, whichever has a usable `cpu` controller.
//!
//! One parent, the workload's root, has all cgroups. It is removed at the end or, for a killed run, by the next. In
//! v2, threads can differ in groups only in a threaded subtree: this process moves into its root, the parent. In v1
//! only the calling thread moves, and new threads start in their creator's group.
//!
//! A v1 kernel with CONFIG_RT_GROUP_SCHED limits each group's real-time tasks, initially to 0. A workload's limits
//! (`rt`) apply; otherwise each group gets an equal part of its parent's runtime.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use vruntime_workload::program::{Bandwidth, CpuMax, Group, GroupChange, RtRuntime};

use crate::error::Error;
use crate::measured::GroupMeasured;

const PREFIX: &str = "vruntime-";

/// Returns `vruntime-PID-STARTTIME-NUMBER`: pids are reused, and processes may run several workloads.
pub(crate) fn own_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (pid, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    format!("{PREFIX}{pid}-{}-{number}", start_time(pid).unwrap_or(0))
}

/// Returns a process's start, clock ticks since boot. None if missing or a zombie.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may contain anything. Then come the state and, 20th, the start.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    fields.nth(18)?.parse().ok().filter(|_| !matches!(state, "Z" | "X"))
}

/// Whether `name` is an ended process's.
pub(crate) fn is_stale(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    let mut numbers = rest.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (Some(Some(pid)), Some(Some(start)), Some(Some(_))) = (numbers.next(), numbers.next(), numbers.next()) else {
        return false;
    };
    u32::try_from(pid).is_ok_and(|pid| start_time(pid) != Some(start))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// The cgroups of one run, removed on drop.
#[derive(Debug)]
pub(crate) struct Cgroups {
    version: Version,
    /// This process's cgroup before.
    home: PathBuf,
    /// By the workload's groups; the first is the parent.
    folders: Vec<PathBuf>,
}

/// Mount point, and this process's path in `cpu`'s hierarchy.
fn hierarchy() -> Option<(Version, PathBuf, String)> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut v2 = None;
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let (Some(_), Some(mount), Some(kind), Some(options)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if kind == "cgroup" && options.split(',').any(|option| option == "cpu") {
            let path = own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let controllers = parts.next()?;
                controllers.split(',').any(|name| name == "cpu").then(|| parts.next().unwrap_or("/").to_owned())
            });
            return Some((Version::V1, mount.into(), path.unwrap_or_else(|| "/".to_owned())));
        }
        let controllers = || fs::read_to_string(Path::new(mount).join("cgroup.controllers")).unwrap_or_default();
        if kind == "cgroup2" && controllers().split_whitespace().any(|name| name == "cpu") {
            let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
            v2 = Some((Version::V2, PathBuf::from(mount), path.to_owned()));
        }
    }
    v2
}

fn write(path: PathBuf, text: &str) -> Result<(), Error> {
    fs::write(&path, text).map_err(|cause| Error::Io {
        what: format!("cannot write `{text}`"),
        path: Some(path),
        cause,
    })
}

impl Cgroups {
    /// Creates the cgroups; `realtime`: the workload has real-time tasks.
    pub(crate) fn new(groups: &[Group], realtime: bool, notes: &mut Vec<String>) -> Result<Self, Error> {
        let Some((version, mount, own)) = hierarchy() else {
            let cause =
                io::Error::new(io::ErrorKind::NotFound, "no cgroup hierarchy with the cpu controller is mounted");
            return Err(Error::Io { what: "no groups".to_owned(), path: None, cause });
        };
        let home = mount.join(own.trim_start_matches('/'));
        // v2 allows no processes beside groups, except in the root.
        let base = if version == Version::V2 { mount } else { home.clone() };
        let parent = base.join(own_name());
        let mut this = Self { version, home, folders: Vec::new() };
        for (index, group) in groups.iter().enumerate() {
            let folder = parent.join(if index == 0 { "" } else { group.path.trim_start_matches('/') });
            fs::create_dir(&folder).map_err(|cause| Error::Io {
                what: "cannot make a cgroup".to_owned(),
                path: Some(folder.clone()),
                cause,
            })?;
            this.folders.push(folder.clone());
            if version == Version::V2 {
                this.prepare_v2(index, group, groups, &base)?;
            } else if index == 0 {
                // Threads without a group are beside the groups, as in the workload.
                write(folder.join("tasks"), "0")?;
            }
            if index > 0 {
                this.configure(index, group, notes)?;
            }
        }
        if realtime && version == Version::V1 {
            this.limit_realtime(groups, &base, notes);
        }
        Ok(this)
    }

    /// Sets real-time runtimes if the kernel has group ones. Refusals become notes.
    fn limit_realtime(&self, groups: &[Group], base: &Path, notes: &mut Vec<String>) {
        const RUNTIME: &str = "cpu.rt_runtime_us";
        const PERIOD: &str = "cpu.rt_period_us";
        let read = |folder: &Path| fs::read_to_string(folder.join(RUNTIME)).ok()?.trim().parse::<i64>().ok();
        let Some(all) = read(base) else { return };
        let has_rt_limits = groups.iter().any(|group| group.rt.is_some());
        // The default period is the machine's, a second.
        let mut runtimes = vec![all; groups.len()];
        for (index, group) in groups.iter().enumerate() {
            let folder = &self.folders[index];
            let siblings = groups.iter().skip(1).filter(|other| other.parent == group.parent).count().max(1);
            let (runtime, period) = match group.rt {
                _ if index == 0 => (Some(all), None),
                Some(rt) => {
                    let runtime = rt.runtime.map(|runtime| match runtime {
                        RtRuntime::Unlimited => -1,
                        RtRuntime::Limited(ns) => i64::try_from(ns / 1000).unwrap_or(i64::MAX),
                    });
                    (runtime, rt.period)
                }
                None if has_rt_limits => (None, None),
                None => (Some(runtimes[group.parent.unwrap_or(0)] / siblings as i64), None),
            };
            runtimes[index] = runtime.unwrap_or(0);
            let period = period.map_or(Ok(()), |ns| write(folder.join(PERIOD), &(ns / 1000).to_string()));
            let runtime = runtime.map_or(Ok(()), |us| write(folder.join(RUNTIME), &us.to_string()));
            if let Err(error) = period.and(runtime) {
                notes.push(format!("real-time tasks may not run in the group {}: {error}", group.path));
            }
        }
        if !has_rt_limits && groups.len() > 1 {
            let words = "this kernel has real-time limits of groups (CONFIG_RT_GROUP_SCHED): the groups of the workload get equal parts of each second";
            notes.push(words.to_owned());
        }
    }

    /// Adds a v2 cgroup to the threaded subtree, with the `cpu` controller.
    fn prepare_v2(&self, index: usize, group: &Group, groups: &[Group], base: &Path) -> Result<(), Error> {
        let folder = &self.folders[index];
        if index == 0 {
            write(base.join("cgroup.subtree_control"), "+cpu")?;
            return write(folder.join("cgroup.procs"), "0");
        }
        write(folder.join("cgroup.type"), "threaded")?;
        let above = &self.folders[group.parent.unwrap_or(0)];
        let first = groups[..index].iter().all(|other| other.parent != group.parent);
        if first { write(above.join("cgroup.subtree_control"), "+cpu") } else { Ok(()) }
    }

    fn configure(&self, index: usize, group: &Group, notes: &mut Vec<String>) -> Result<(), Error> {
        if group.idle {
            self.set_idle(index, true)?;
        } else {
            self.set_weight(index, group.weight)?;
        }
        if let Some(max) = group.max {
            self.set_max(index, CpuMax::Limited(max))?;
        }
        if let Some(clamps) = group.uclamp {
            let folder = &self.folders[index];
            let percent = |clamp: u32| format!("{:.2}", f64::from(clamp) * 100.0 / 1024.0);
            let min = write(folder.join("cpu.uclamp.min"), &percent(clamps.min));
            if let Err(error) = min.and_then(|()| write(folder.join("cpu.uclamp.max"), &percent(clamps.max))) {
                // A kernel without clamps lacks the files; weights and limits still hold.
                notes.push(format!("the utilisation clamps of {} are left out: {error}", group.path));
            }
        }
        Ok(())
    }

    fn set_idle(&self, index: usize, idle: bool) -> Result<(), Error> {
        write(self.folders[index].join("cpu.idle"), if idle { "1" } else { "0" })
    }

    fn set_weight(&self, index: usize, weight: u32) -> Result<(), Error> {
        let folder = &self.folders[index];
        match self.version {
            Version::V2 => write(folder.join("cpu.weight"), &weight.to_string()),
            Version::V1 => write(folder.join("cpu.shares"), &(u64::from(weight) * 1024 / 100).max(2).to_string()),
        }
    }

    fn set_max(&self, index: usize, max: CpuMax) -> Result<(), Error> {
        let folder = &self.folders[index];
        match (self.version, max) {
            (Version::V2, CpuMax::Unlimited) => write(folder.join("cpu.max"), "max"),
            (Version::V1, CpuMax::Unlimited) => write(folder.join("cpu.cfs_quota_us"), "-1"),
            (version, CpuMax::Limited(Bandwidth { quota, period, burst })) => {
                let (quota, period, burst) = (quota / 1000, period / 1000, burst / 1000);
                if version == Version::V2 {
                    write(folder.join("cpu.max"), &format!("{quota} {period}"))?;
                } else {
                    write(folder.join("cpu.cfs_period_us"), &period.to_string())?;
                    write(folder.join("cpu.cfs_quota_us"), &quota.to_string())?;
                }
                let name = if version == Version::V2 { "cpu.max.burst" } else { "cpu.cfs_burst_us" };
                if burst > 0 { write(folder.join(name), &burst.to_string()) } else { Ok(()) }
            }
        }
    }

    pub(crate) fn change(&self, index: usize, to: &GroupChange) -> Result<(), Error> {
        if let Some(idle) = to.idle {
            self.set_idle(index, idle)?;
        }
        if let Some(weight) = to.weight {
            self.set_weight(index, weight)?;
        }
        if let Some(max) = to.max {
            self.set_max(index, max)?;
        }
        Ok(())
    }

    pub(crate) fn enter(&self, index: usize, tid: u32) -> Result<(), Error> {
        let file = if self.version == Version::V2 { "cgroup.threads" } else { "tasks" };
        write(self.folders[index].join(file), &tid.to_string())
    }

    pub(crate) fn measure(&self, groups: &[Group]) -> Vec<GroupMeasured> {
        let measure = |(folder, group): (&PathBuf, &Group)| {
            let text = fs::read_to_string(folder.join("cpu.stat")).unwrap_or_default();
            GroupMeasured { path: group.path.clone(), ..parse_stat(&text) }
        };
        self.folders.iter().zip(groups).map(measure).collect()
    }
}

/// Longest wait for ended threads' leaving, milliseconds.
const LEAVING_MS: u32 = 200;

impl Drop for Cgroups {
    fn drop(&mut self) {
        let (file, id) = if self.version == Version::V2 { ("cgroup.procs", "0") } else { ("tasks", "0") };
        // Only the creating thread may still be inside. A group with a thread cannot be removed, but the next run does
        // it.
        let _back = fs::write(self.home.join(file), id);
        for folder in self.folders.iter().rev() {
            // A joined thread may not have left yet.
            for _ in 0..LEAVING_MS {
                match fs::remove_dir(folder) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Parses `cpu.stat` of either version.
fn parse_stat(text: &str) -> GroupMeasured {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    let time = |v2: &str, v1: &str| field(v2).map(|us| us * 1000).or_else(|| field(v1)).unwrap_or(0);
    GroupMeasured {
        path: String::new(),
        nr_periods: field("nr_periods").unwrap_or(0),
        nr_throttled: field("nr_throttled").unwrap_or(0),
        throttled_ns: time("throttled_usec", "throttled_time"),
        nr_bursts: field("nr_bursts").unwrap_or(0),
        burst_ns: time("burst_usec", "burst_time"),
    }
}

/// Removes the cgroups of killed runs.
pub(crate) fn clean(notes: &mut Vec<String>) {
    let Some((version, mount, own)) = hierarchy() else { return };
    let base = if version == Version::V2 { mount } else { mount.join(own.trim_start_matches('/')) };
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(is_stale) && remove(&entry.path()).is_ok() {
            notes.push(format!("removed {}, a remainder of a killed run", entry.path().display()));
        }
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_cpu_stat_are_read() {
        let v2 = "usage_usec 5\nnr_periods 10\nnr_throttled 3\nthrottled_usec 77\nnr_bursts 1\nburst_usec 2\n";
        let v1 = "nr_periods 10\nnr_throttled 3\nthrottled_time 77000\nnr_bursts 1\nburst_time 2000\n";
        for text in [v2, v1] {
            let stat = parse_stat(text);
            assert_eq!((stat.nr_periods, stat.nr_throttled, stat.throttled_ns), (10, 3, 77_000));
            assert_eq!((stat.nr_bursts, stat.burst_ns), (1, 2_000));
        }
    }

    #[test]
    fn only_the_dead_leave_things_behind() {
        assert!(!is_stale(&own_name()), "this process lives");
        assert!(is_stale(&format!("vruntime-{}-1-0", std::process::id())), "another of that pid");
        for other in ["system.slice", "vruntime", "vruntime-x-1-0", "vruntime-1-2"] {
            assert!(!is_stale(other), "{other} is none of ours");
        }
    }
}
