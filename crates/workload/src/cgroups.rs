//! Reads task groups, autogroups and affinities, which scheduler events lack, from the output of [`COMMAND`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::error::{Error, Source};
use crate::groups::{GroupTree, Limits, normalize_path};
use crate::limit::{PERIOD_NS, QUOTA_NS};
use crate::program::{Bandwidth, Clamps, CpuMax, Cpuset, Group, Partition};
use crate::scenario::{cpu_ranges, utilisation};

/// Prints groups, weights, limits, autogroups and affinities. Run it just before recording.
///
/// Terminals and mail do not break its short lines.
pub const COMMAND: &str = "\
{ find /proc/[0-9]*/task -maxdepth 2 -name cgroup \\
    -exec grep -sH '' {} +
  find /proc/[0-9]*/task -maxdepth 2 -name status \\
    -exec grep -sH '^Cpus_allowed_list' {} +
  grep -sH '' /proc/[0-9]*/autogroup \\
    /proc/sys/kernel/sched_autogroup_enabled
  find /sys/fs/cgroup -name 'cpu*.*' -exec grep -sH '' {} +
} > cgroups.txt";

const MOUNT: &str = "/sys/fs/cgroup";
/// The `cpu.shares` (v1) that equal weight 100.
const SHARES: u64 = 1024;

/// The groups of a machine, as [`COMMAND`] printed them.
///
/// ```
/// use vruntime_workload::cgroups::Cgroups;
///
/// let text = b"/proc/7/task/7/cgroup:0::/web\n/sys/fs/cgroup/web/cpu.weight:200\n/sys/fs/cgroup/web/cpu.max:50000 100000\n";
/// let cgroups = Cgroups::read("cgroups.txt", text)?;
/// assert_eq!((cgroups.of(7), cgroups.of(8)), (Some("/web"), None));
/// # Ok::<(), vruntime_workload::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cgroups {
    /// The hierarchy with the `cpu` controller, as numbered in `/proc/PID/cgroup`; 0 is cgroup v2.
    hierarchy: i32,
    threads: BTreeMap<i32, String>,
    /// The process of each thread.
    processes: BTreeMap<i32, i32>,
    /// Groups with weights.
    groups: BTreeMap<String, Limits>,
    clamps: BTreeMap<String, Clamps>,
    cpusets: BTreeMap<String, Cpuset>,
    /// Each thread's CPUs, ascending: its cpuset's if it requested none.
    affinities: BTreeMap<i32, Vec<u32>>,
    /// By process.
    autogroups: BTreeMap<i32, Autogroup>,
    /// `sched_autogroup_enabled`.
    autogroup_enabled: Option<bool>,
}

/// `/proc/PID/autogroup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autogroup {
    /// The autogroup's number.
    pub id: u64,
    /// The autogroup's nice value.
    pub nice: i8,
}

/// A line `FILE:CONTENT`.
struct Line<'a> {
    file: &'a str,
    content: &'a str,
    /// The position of `content`.
    span: Range<usize>,
}

/// A group's limit, microseconds. v1 has a file for each number.
#[derive(Clone, Copy, Debug, Default)]
struct Limit {
    /// None: unlimited.
    quota: Option<u64>,
    period: Option<u64>,
    burst: u64,
}

impl Limit {
    fn max(self) -> CpuMax {
        // The kernel's bounds: quota and period from 1 ms, period to 1 s, burst up to the quota, their sum up to
        // `most`.
        let ns = |us: u64| us.saturating_mul(1000);
        self.quota.map_or(CpuMax::Unlimited, |quota| {
            let most = *QUOTA_NS.end();
            let quota = ns(quota).clamp(*QUOTA_NS.start(), most);
            let period = ns(self.period.unwrap_or(100_000)).clamp(*PERIOD_NS.start(), *PERIOD_NS.end());
            CpuMax::Limited(Bandwidth { quota, period, burst: ns(self.burst).min(quota).min(most - quota) })
        })
    }
}

impl Cgroups {
    /// Reads the output of [`COMMAND`]. Ignores unknown files.
    ///
    /// # Errors
    /// If the text is not UTF-8, lines or content have a wrong form, or no thread is named.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, Error> {
        let source = Source::decode(name, bytes)?;
        let mut cgroups = Self::default();
        let mut files = Vec::new();
        // Threads, by the scheduling controller's hierarchy. v1 takes precedence.
        let (mut v1, mut v2) = (BTreeMap::new(), BTreeMap::new());
        for line in lines(&source)? {
            match line.file.strip_prefix("/proc/") {
                Some("sys/kernel/sched_autogroup_enabled") => {
                    cgroups.autogroup_enabled = Some(enabled(&source, &line)?);
                }
                Some(rest) if rest.ends_with("/autogroup") => {
                    let Some(process) = process_id(rest) else { continue };
                    cgroups.autogroups.insert(process, autogroup(&source, &line)?);
                }
                Some(rest) if rest.ends_with("/status") => {
                    let Some(list) = line.content.strip_prefix("Cpus_allowed_list:") else { continue };
                    if let Some(thread) = file_of_thread(rest, "/status") {
                        cgroups.affinities.insert(thread, cpus_allowed(&source, &line, list)?);
                    }
                }
                Some(rest) => {
                    let Some(thread) = file_of_thread(rest, "/cgroup") else { continue };
                    if let Some(process) = process_id(rest) {
                        cgroups.processes.insert(thread, process);
                    }
                    let (hierarchy, controllers, path) = membership(&source, &line)?;
                    if controllers.split(',').any(|name| name == "cpu") {
                        cgroups.hierarchy = hierarchy;
                        v1.insert(thread, path);
                    } else if hierarchy == 0 {
                        v2.insert(thread, path);
                    }
                }
                None => files.push(line),
            }
        }
        cgroups.threads = if v1.is_empty() { v2 } else { v1 };
        if cgroups.threads.is_empty() && cgroups.autogroups.is_empty() && cgroups.affinities.is_empty() {
            let error = Error::new(&source, "it does not say of any thread in which group it is");
            return Err(error.with_help(format!("this writes such a file:\n{COMMAND}")));
        }
        let mut by_path: BTreeMap<String, GroupFiles> = BTreeMap::new();
        for line in &files {
            let Some((folder, file)) = line.file.rsplit_once('/') else { continue };
            if let Some(path) = cgroups.path(folder) {
                by_path.entry(path).or_default().file(&source, file, line)?;
            }
        }
        for (path, GroupFiles { limits, limit, clamps, cpuset }) in by_path {
            if cpuset != Cpuset::default() {
                cgroups.cpusets.insert(path.clone(), cpuset);
            }
            if limits.weight.is_some() {
                if clamps != NOT_CLAMPED {
                    cgroups.clamps.insert(path.clone(), clamps);
                }
                cgroups.groups.insert(path, Limits { max: limit.map(Limit::max), ..limits });
            }
        }
        Ok(cgroups)
    }

    /// Adds threads `(process, thread, parent)` forked between file and trace. Unlisted threads are in their parents'
    /// groups.
    pub fn add_forked(&mut self, forked: impl IntoIterator<Item = (i32, i32, i32)>) {
        let of_thread: BTreeMap<i32, (i32, i32)> = forked
            .into_iter()
            .filter(|(_, thread, parent)| *thread != *parent && !self.processes.contains_key(thread))
            .map(|(process, thread, parent)| (thread, (process, parent)))
            .collect();
        let mut asked = BTreeSet::new();
        for &thread in of_thread.keys() {
            // Walks up to a known or visited ancestor (garbled traces have cycles), then down.
            let (mut line, mut above) = (Vec::new(), thread);
            while let Some(&(process, parent)) = of_thread.get(&above)
                && asked.insert(above)
            {
                line.push((above, process, parent));
                above = parent;
            }
            for (child, process, parent) in line.into_iter().rev() {
                self.add_child(child, process, parent);
            }
        }
    }

    fn add_child(&mut self, thread: i32, process: i32, parent: i32) {
        let Some(&process_of_parent) = self.processes.get(&parent) else { return };
        if self.processes.contains_key(&thread) {
            return;
        }
        self.processes.insert(thread, process);
        if let Some(path) = self.threads.get(&parent).cloned() {
            self.threads.insert(thread, path);
        }
        if let Some(cpus) = self.affinities.get(&parent).cloned() {
            self.affinities.insert(thread, cpus);
        }
        if let Some(&autogroup) = self.autogroups.get(&process_of_parent) {
            self.autogroups.entry(process).or_insert(autogroup);
        }
    }

    /// Whether tasks of the root group were in autogroups.
    pub fn autogroup(&self) -> bool {
        self.autogroup_enabled.unwrap_or(!self.autogroups.is_empty())
    }

    /// Returns a thread's autogroup: Some(None) if it has none, None if unknown. `process` is its process, if known.
    pub fn autogroup_of(&self, thread: i32, process: Option<i32>) -> Option<Option<Autogroup>> {
        let process = process.or_else(|| self.processes.get(&thread).copied()).unwrap_or(thread);
        // Before the first session, only the machine's setting shows that the file covers autogroups.
        let has_autogroups = !self.autogroups.is_empty() || self.autogroup_enabled.is_some();
        match self.autogroups.get(&process) {
            None if !has_autogroups || self.processes.get(&thread) != Some(&process) => None,
            found => Some(found.copied()),
        }
    }

    /// Returns a task group's settings. None if unknown.
    pub fn settings(&self, path: &str) -> Option<Group> {
        self.groups.get(path)?;
        let mut groups = GroupTree::new();
        let index = groups.ensure(path);
        self.give(&mut groups);
        Some(groups.get_mut(index).clone())
    }

    /// Returns a thread's autogroup, if known: number and nice value.
    pub fn session(&self, thread: i32) -> Option<(u64, i8)> {
        let Autogroup { id, nice } = self.autogroup_of(thread, None)??;
        Some((id, nice))
    }

    /// Returns numbers and nice values of autogroups.
    pub fn sessions(&self) -> impl Iterator<Item = (u64, i8)> + '_ {
        self.autogroups.values().map(|autogroup| (autogroup.id, autogroup.nice))
    }

    /// Returns the scheduling hierarchy's number; 0 is cgroup v2.
    pub fn hierarchy(&self) -> i32 {
        self.hierarchy
    }

    /// Applies the file's settings. Adds groups whose partitions take CPUs from others.
    pub fn give(&self, groups: &mut GroupTree) {
        for (path, cpuset) in &self.cpusets {
            if cpuset.partition != Partition::Member && self.task_group(path) == path {
                groups.ensure(path);
            }
        }
        for (index, path) in groups.paths().iter().enumerate().skip(1) {
            if let Some(limits) = self.groups.get(path) {
                groups.limit(index, *limits);
            }
            let Group { uclamp, cpuset, .. } = groups.get_mut(index);
            *uclamp = self.clamps.get(path).copied();
            *cpuset = self.cpusets.get(path).cloned().unwrap_or_default();
        }
    }

    /// Returns the innermost cpuset below the task group, which lacks this restriction.
    pub fn cpus_below_task_group(&self, path: &str) -> Option<&[u32]> {
        let (group, mut path) = (self.task_group(path), path);
        while path != group {
            if let Some(cpus) = self.cpusets.get(path).and_then(|cpuset| cpuset.cpus.as_deref()) {
                return Some(cpus);
            }
            path = above(path);
        }
        None
    }

    /// Whether a cgroup or an ancestor excludes any of `cpus` CPUs.
    pub fn confines(&self, path: &str, cpus: usize) -> bool {
        self.cpuset(path).is_some_and(|list| (0..cpus as u32).any(|cpu| !list.contains(&cpu)))
    }

    /// Returns the CPUs of a cgroup, or of its next ancestor with CPUs.
    pub fn cpuset(&self, path: &str) -> Option<&[u32]> {
        let mut path = path;
        while path != "/" {
            if let Some(list) = self.cpusets.get(path).and_then(|cpuset| cpuset.cpus.as_deref()) {
                return Some(list);
            }
            path = above(path);
        }
        None
    }

    /// Returns a thread's CPUs. None if unknown.
    pub fn affinity(&self, thread: i32) -> Option<&[u32]> {
        self.affinities.get(&thread).map(Vec::as_slice)
    }

    /// Whether a task group or an ancestor has a limit (`cpu.max`).
    pub fn limits(&self, path: &str) -> bool {
        let mut path = self.task_group(path);
        while path != "/" {
            if self.groups.get(path).is_some_and(|limits| matches!(limits.max, Some(CpuMax::Limited(_)))) {
                return true;
            }
            path = above(path);
        }
        false
    }

    /// Returns a thread's cgroup. None if unknown.
    pub fn of(&self, thread: i32) -> Option<&str> {
        self.threads.get(&thread).map(String::as_str)
    }

    /// Returns the task group of a cgroup. Tasks of a cgroup without weights (v2 without an enabled `cpu` controller)
    /// compete in the next ancestor with weights. If no weights are known, every cgroup is a task group.
    pub fn task_group<'a>(&self, path: &'a str) -> &'a str {
        let mut path = path;
        while !self.groups.is_empty() && path != "/" && !self.groups.contains_key(path) {
            path = above(path);
        }
        path
    }

    /// Returns the group of a folder. None for the root, and hierarchies that do not schedule.
    fn path(&self, folder: &str) -> Option<String> {
        let below = folder.strip_prefix(MOUNT)?.strip_prefix('/')?;
        let (first, rest) = below.split_once('/').unwrap_or((below, ""));
        let path = if self.hierarchy != 0 {
            first.split(',').any(|name| name == "cpu").then_some(rest)?
        } else if first == "unified" {
            rest
        } else {
            below
        };
        normalize_path(path).ok().filter(|path| path != "/")
    }
}

/// Returns the path of the parent.
fn above(path: &str) -> &str {
    path.rfind('/').filter(|&at| at > 0).map_or("/", |at| &path[..at])
}

#[derive(Clone, Debug)]
struct GroupFiles {
    /// Without `max`.
    limits: Limits,
    limit: Option<Limit>,
    clamps: Clamps,
    cpuset: Cpuset,
}

const NOT_CLAMPED: Clamps = Clamps { min: 0, max: 1024 };

impl Default for GroupFiles {
    fn default() -> Self {
        Self { limits: Limits::default(), limit: None, clamps: NOT_CLAMPED, cpuset: Cpuset::default() }
    }
}

impl GroupFiles {
    fn file(&mut self, source: &Source, file: &str, line: &Line<'_>) -> Result<(), Error> {
        let content = line.content.trim();
        let wrong = |expected: &str| {
            let message = format!("`{content}` is not the format of {file}");
            Error::new(source, message).at(line.span.clone(), format!("expected {expected}"))
        };
        let number = |text: &str, expected: &str| text.parse::<u64>().map_err(|_| wrong(expected));
        let Self { limits, limit, clamps, cpuset } = self;
        match file {
            "cpu.weight" => {
                let weight = number(content, "a weight, 1 to 10000")?;
                let weight = Some(weight).filter(|weight| (1..=10_000).contains(weight));
                limits.weight = Some(weight.ok_or_else(|| wrong("a weight, 1 to 10000"))? as u32);
            }
            "cpu.shares" => {
                let shares = number(content, "shares, 2 to 262144")?.min(1 << 18);
                limits.weight = Some(((shares * 100 + SHARES / 2) / SHARES).clamp(1, 10_000) as u32);
            }
            "cpu.idle" => limits.idle = Some(number(content, "0 or 1")? != 0),
            "cpu.max" => {
                let expected = "max or a quota, and a period, in microseconds";
                let (quota, period) = content.split_once(' ').ok_or_else(|| wrong(expected))?;
                let quota = if quota == "max" { None } else { Some(number(quota, expected)?) };
                let period = Some(number(period.trim(), expected)?);
                *limit = Some(Limit { quota, period, burst: limit.map_or(0, |limit| limit.burst) });
            }
            "cpu.cfs_quota_us" if content == "-1" => {}
            "cpu.cfs_quota_us" => limit.get_or_insert_default().quota = Some(number(content, "microseconds, or -1")?),
            "cpu.cfs_period_us" => limit.get_or_insert_default().period = Some(number(content, "microseconds")?),
            "cpu.cfs_burst_us" | "cpu.max.burst" => {
                limit.get_or_insert_default().burst = number(content, "microseconds")?;
            }
            "cpu.uclamp.min" | "cpu.uclamp.max" => {
                let clamp = utilisation(content).ok_or_else(|| wrong("percent such as 25.00, or max"))?;
                *(if file == "cpu.uclamp.min" { &mut clamps.min } else { &mut clamps.max }) = clamp;
            }
            "cpuset.cpus" => {
                let mut cpus = cpu_ranges(content).map_err(|_| wrong("CPUs such as 0-3,6, or nothing"))?;
                cpus.sort_unstable();
                cpus.dedup();
                cpuset.cpus = Some(cpus).filter(|cpus| !cpus.is_empty());
            }
            // `root invalid (Cpu list in cpuset.cpus not exclusive)` has no effect.
            "cpuset.cpus.partition" if content.contains(" invalid") => {}
            "cpuset.cpus.partition" => {
                cpuset.partition = Partition::from_name(content).ok_or_else(|| wrong("member, root or isolated"))?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Skips empty lines and comments (`#`).
fn lines(source: &Source) -> Result<Vec<Line<'_>>, Error> {
    let mut at = 0;
    let mut lines = Vec::new();
    for text in source.text().split('\n') {
        let start = at;
        at += text.len() + 1;
        let text = text.trim_end();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        // Names of cgroups may have colons, as may the content of `/proc` files.
        let colon = if text.starts_with("/proc/") { text.find(':') } else { text.rfind(':') };
        match colon {
            Some(colon) if text.starts_with('/') => lines.push(Line {
                file: &text[..colon],
                content: &text[colon + 1..],
                span: start + colon + 1..start + text.len(),
            }),
            _ => {
                let error = Error::new(source, "this is not FILE:CONTENT");
                return Err(error
                    .at(start..start + text.len(), "expected such as /proc/7/task/7/cgroup:0::/web")
                    .with_help(format!("this writes such a file:\n{COMMAND}")));
            }
        }
    }
    Ok(lines)
}

/// Returns the thread of `PID/task/TID/NAME` or `PID/NAME`.
fn file_of_thread(file: &str, name: &str) -> Option<i32> {
    let folder = file.strip_suffix(name)?;
    folder.rsplit('/').next()?.parse().ok()
}

/// Returns the process of `PID/autogroup`, `PID/cgroup` or `PID/task/TID/cgroup`.
fn process_id(file: &str) -> Option<i32> {
    file.split('/').next()?.parse().ok()
}

/// `0-3,6`.
fn cpus_allowed(source: &Source, line: &Line<'_>, list: &str) -> Result<Vec<u32>, Error> {
    let cpus = cpu_ranges(list.trim()).ok().filter(|cpus| !cpus.is_empty());
    let mut cpus = cpus.ok_or_else(|| {
        Error::new(source, format!("`{}` is not the format of Cpus_allowed_list", list.trim()))
            .at(line.span.clone(), "expected CPUs such as 0-3,6")
    })?;
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// `0` or `1`.
fn enabled(source: &Source, line: &Line<'_>) -> Result<bool, Error> {
    match line.content.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(Error::new(source, format!("`{other}` is not the format of sched_autogroup_enabled"))
            .at(line.span.clone(), "expected 0 or 1")),
    }
}

/// `/autogroup-123 nice 0`.
fn autogroup(source: &Source, line: &Line<'_>) -> Result<Autogroup, Error> {
    let content = line.content.trim();
    let parsed = (|| {
        let (id, nice) = content.strip_prefix("/autogroup-")?.split_once(" nice ")?;
        let nice = nice.parse().ok().filter(|nice| (-20..=19).contains(nice))?;
        Some(Autogroup { id: id.parse().ok()?, nice })
    })();
    parsed.ok_or_else(|| {
        Error::new(source, format!("`{content}` is not the format of autogroup"))
            .at(line.span.clone(), "expected such as /autogroup-123 nice 0")
    })
}

/// `4:cpu,cpuacct:/web`.
fn membership<'a>(source: &Source, line: &Line<'a>) -> Result<(i32, &'a str, String), Error> {
    let mut parts = line.content.splitn(3, ':');
    let parsed = (|| {
        let hierarchy = parts.next()?.parse::<i32>().ok().filter(|number| *number >= 0)?;
        let (controllers, path) = (parts.next()?, parts.next()?);
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        Some((hierarchy, controllers, path.strip_prefix('/').map(|_| path)?))
    })();
    let wrong = |message: String| Error::new(source, message).at(line.span.clone(), "expected such as 0::/web");
    let (hierarchy, controllers, path) =
        parsed.ok_or_else(|| wrong(format!("`{}` does not name a group", line.content)))?;
    let path = normalize_path(path).map_err(|why| {
        wrong(format!("`{path}` is not a group's path: {why}"))
            .with_help("write the file outside of containers: inside, groups above their own have no names")
    })?;
    Ok((hierarchy, controllers, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
# of a machine with cgroup v1
/proc/1/task/1/cgroup:9:name=systemd:/
/proc/1/task/1/cgroup:4:cpu,cpuacct:/
/proc/1/task/1/cgroup:0::/init.scope
/proc/30/task/31/cgroup:4:cpu,cpuacct:/pods/a:b c
/proc/40/cgroup:4:cpu,cpuacct:/gone (deleted)
/proc/50/cmdline:4:whatever

/sys/fs/cgroup/cpu,cpuacct/cpu.shares:1024
/sys/fs/cgroup/cpu,cpuacct/pods/cpu.shares:512
/sys/fs/cgroup/cpu,cpuacct/pods/cpu.stat:nr_periods 0
/sys/fs/cgroup/cpu,cpuacct/pods/a:b c/cpu.shares:1024
/sys/fs/cgroup/cpu,cpuacct/pods/a:b c/cpu.cfs_quota_us:25000
/sys/fs/cgroup/cpu,cpuacct/pods/a:b c/cpu.cfs_period_us:50000
/sys/fs/cgroup/cpu,cpuacct/pods/a:b c/cpu.cfs_burst_us:1000
/sys/fs/cgroup/cpu,cpuacct/pods/cpu.cfs_quota_us:-1
/sys/fs/cgroup/cpu,cpuacct/pods/cpu.cfs_period_us:100000
/sys/fs/cgroup/unified/pods/cpu.weight:77
";

    fn read(text: &str) -> Cgroups {
        Cgroups::read("cgroups.txt", text.as_bytes()).expect("it is such a file")
    }

    #[test]
    fn the_first_version_has_a_hierarchy_for_the_controller() {
        let cgroups = read(V1);
        assert_eq!(cgroups.hierarchy, 4);
        let of = [1, 31, 40, 50].map(|thread| cgroups.of(thread));
        assert_eq!(of, [Some("/"), Some("/pods/a:b c"), Some("/gone"), None]);
        let max = CpuMax::Limited(Bandwidth { quota: 25_000_000, period: 50_000_000, burst: 1_000_000 });
        let expected = [
            ("/pods", Limits { weight: Some(50), max: Some(CpuMax::Unlimited), ..Limits::default() }),
            ("/pods/a:b c", Limits { weight: Some(100), max: Some(max), ..Limits::default() }),
        ];
        assert_eq!(cgroups.groups, expected.map(|(path, limits)| (path.to_owned(), limits)).into());
    }

    #[test]
    fn limits_are_within_what_the_kernel_has() {
        for (quota, burst, expected) in [
            (u64::MAX, u64::MAX, (17_592_186_044_415_000, 0)),
            (10_000_000_000_000, u64::MAX, (10_000_000_000_000_000, 7_592_186_044_415_000)),
        ] {
            let cgroups = read(&format!(
                "/proc/7/task/7/cgroup:0::/a\n/sys/fs/cgroup/a/cpu.weight:100\n\
                 /sys/fs/cgroup/a/cpu.max:{quota} 100000\n/sys/fs/cgroup/a/cpu.max.burst:{burst}\n"
            ));
            let max = CpuMax::Limited(Bandwidth { quota: expected.0, period: 100_000_000, burst: expected.1 });
            assert_eq!(cgroups.groups["/a"].max, Some(max), "{quota} {burst}");
        }
    }

    #[test]
    fn the_second_version_has_one_for_all() {
        let cgroups = read(
            "/proc/7/task/7/cgroup:0::/cpu/web\n/sys/fs/cgroup/cpu/web/cpu.weight:300\n/sys/fs/cgroup/cpu/web/cpu.idle:1\n\
             /sys/fs/cgroup/cpu/web/cpu.max:max 100000\n/sys/fs/cgroup/cpu/cpu.max:150000 100000\n/sys/fs/cgroup/cpu/cpu.weight:100\n",
        );
        assert_eq!((cgroups.hierarchy, cgroups.of(7)), (0, Some("/cpu/web")));
        let max = CpuMax::Limited(Bandwidth { quota: 150_000_000, period: 100_000_000, burst: 0 });
        let web = Limits { weight: Some(300), idle: Some(true), max: Some(CpuMax::Unlimited), burst: None };
        let expected = [("/cpu", Limits { weight: Some(100), max: Some(max), ..Limits::default() }), ("/cpu/web", web)];
        assert_eq!(cgroups.groups, expected.map(|(path, limits)| (path.to_owned(), limits)).into());
    }

    #[test]
    fn where_the_controller_is_not_enabled_there_is_no_task_group() {
        let threads = "/proc/7/task/7/cgroup:0::/a/b/c\n/proc/8/task/8/cgroup:0::/x\n";
        let cgroups =
            read(&format!("{threads}/sys/fs/cgroup/a/cpu.weight:100\n/sys/fs/cgroup/a/b/cpu.stat:usage_usec 5\n"));
        assert_eq!(
            ["/a/b/c", "/a", "/x", "/x/y", "/"].map(|path| cgroups.task_group(path)),
            ["/a", "/a", "/", "/", "/"]
        );
        assert_eq!(cgroups.of(7), Some("/a/b/c"), "it is where it is");
        assert_eq!(read(threads).task_group("/x/y"), "/x/y", "no controller has weights");
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_place() {
        for (text, place, message) in [
            ("/proc/7/task/7/cgroup:0::/a\nnonsense\n", (2, 1), "this is not FILE:CONTENT"),
            ("/proc/7/task/7/cgroup:0:/a\n", (1, 23), "`0:/a` does not name a group"),
            ("/proc/7/task/7/cgroup:x::/a\n", (1, 23), "`x::/a` does not name a group"),
            (
                "/proc/7/task/7/cgroup:0::/../a\n",
                (1, 23),
                "`/../a` is not a group's path: `..` cannot be part of a group's path",
            ),
            (
                "/proc/7/task/7/cgroup:0::/a\n/sys/fs/cgroup/a/cpu.weight:0\n",
                (2, 29),
                "`0` is not the format of cpu.weight",
            ),
            ("/proc/7/task/7/cgroup:0::/a\n/sys/fs/cgroup/a/cpu.max:5\n", (2, 26), "`5` is not the format of cpu.max"),
        ] {
            let error = Cgroups::read("cgroups.txt", text.as_bytes()).expect_err(text);
            assert_eq!((error.location(), error.to_string()), (Some(place), message.to_owned()), "{text}");
        }
        let error = Cgroups::read("cgroups.txt", b"/sys/fs/cgroup/a/cpu.weight:1\n").expect_err("no thread");
        assert!(error.help().is_some_and(|help| help.contains("find /proc")));
    }

    #[test]
    fn threads_have_affinities() {
        let cgroups = read("/proc/7/task/8/status:Cpus_allowed_list:\t1,0\n/proc/7/task/8/status:Name:\tweb\n");
        assert_eq!((cgroups.affinity(8), cgroups.affinity(7)), (Some(&[0, 1][..]), None));
        for list in ["", "x", "3-1"] {
            let text = format!("/proc/7/task/8/status:Cpus_allowed_list:\t{list}\n");
            let error = Cgroups::read("cgroups.txt", text.as_bytes()).expect_err(list);
            assert_eq!(error.to_string(), format!("`{list}` is not the format of Cpus_allowed_list"));
        }
    }

    #[test]
    fn a_file_cut_short_is_no_surprise() {
        for end in 0..V1.len() {
            let _ = Cgroups::read("cgroups.txt", &V1.as_bytes()[..end]);
        }
    }

    /// A newer thread is in the group of its nearest known ancestor.
    #[test]
    fn a_newer_thread_is_in_its_parents_group() {
        let text = "/proc/10/task/10/cgroup:0::/web\n/proc/10/task/10/status:Cpus_allowed_list:\t0-1\n/proc/10/autogroup:/autogroup-7 nice 3\n\
                    /proc/20/task/20/cgroup:0::/db\n";
        let mut cgroups = Cgroups::read("cgroups.txt", text.as_bytes()).unwrap();
        // 12 and 11 descend from 10. 20 is known. The ancestors of 30 are unknown. 41 and 42 form a cycle.
        let forked = [(11, 12, 11), (11, 11, 10), (20, 20, 10), (30, 30, 29), (41, 41, 42), (42, 42, 41), (1, 1, 1)];
        cgroups.add_forked(forked);
        let of = |thread| (cgroups.of(thread), cgroups.affinity(thread), cgroups.session(thread));
        let (web, db) = ((Some("/web"), Some(&[0, 1][..]), Some((7, 3))), (Some("/db"), None, None));
        assert_eq!([10, 11, 12].map(of), [web; 3]);
        assert_eq!(of(20), db);
        assert_eq!([30, 29, 41, 42, 1].map(of), [(None, None, None); 5]);
    }

    /// Each thread is visited once.
    #[test]
    fn a_long_line_of_forks_takes_no_longer_than_a_short_one() {
        let mut cgroups = Cgroups::read("cgroups.txt", b"/proc/10/task/10/cgroup:0::/web\n").unwrap();
        let (first, last) = (100_000, 400_000);
        let line = (first..last).map(|thread| (thread, thread, if thread + 1 == last { 10 } else { thread + 1 }));
        let circle =
            (last..2 * last).map(|thread| (thread, thread, if thread == last { 2 * last - 1 } else { thread - 1 }));
        cgroups.add_forked(line.chain(circle));
        assert_eq!([first, last - 1, last].map(|thread| cgroups.of(thread)), [Some("/web"), Some("/web"), None]);
    }
}
