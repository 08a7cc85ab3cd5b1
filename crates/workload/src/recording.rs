//! Recordings of real kernels: workload, machine, and what each task received.
//!
//! Each scenario has a JSON file, whose workload is rt-app JSON or a benchmark's command line ([`model`]). The
//! recordings' README says how they were made.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, Source};
use crate::groups::{GroupTree, normalize_path};
use crate::limit::{PERIOD_NS, QUOTA_NS};
use crate::model;
use crate::program::{Bandwidth, Stop, Workload};
use crate::resident::{self, Resident};
use crate::rtapp::{self, Options};

/// A recorded scenario.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The scenario's name (`five-on-2`).
    pub name: String,
    /// The kernel's full version (`6.12.117`).
    pub kernel: String,
    /// Ticks per second.
    pub hz: u32,
    /// The preemption model's kernel name. None if unknown.
    pub preempt: Option<String>,
    /// Whether `sched_autogroup` was enabled.
    pub autogroup: bool,
    /// The number of CPUs.
    pub cpus: u32,
    /// The arrangement of the CPUs.
    pub topology: Smp,
    /// Whether software emulated the machine: system calls, switches and interrupts take 10 to 50 times longer.
    pub emulated: bool,
    /// The date. None for the published recordings.
    pub recorded: Option<String>,
    /// Duration of each run, ns.
    pub duration: u64,
    /// The workload, with the recording's duration.
    pub workload: Workload,
    /// One for each run.
    pub observed: Vec<Observed>,
}

/// The version in the published recordings of a cloud's kernel, and the release of that build.
const PUBLISHED: (&str, &str) = ("6.18.44", "6.18.44-fc-v657");

impl Recording {
    /// Returns `uname -r` of the recorded kernel, if known. Builds of one version can differ in behaviour.
    pub fn release(&self) -> &str {
        if self.recorded.is_none() && self.kernel == PUBLISHED.0 { PUBLISHED.1 } else { &self.kernel }
    }

    /// Returns the machine's other tasks, averaged over the runs that recorded them. None if no run did.
    ///
    /// A guest charges its tasks also while the host runs another virtual CPU. With `host_cpus`, work is scaled down to
    /// what a host with this number of CPUs can give to the busy virtual CPUs.
    pub fn residents(&self, host_cpus: Option<u32>) -> Option<Vec<Resident>> {
        let with_others = || self.observed.iter().filter_map(|run| Some((run, run.others.as_ref()?)));
        let looks: Vec<Vec<Resident>> = with_others().map(|(_, others)| others.clone()).collect();
        let mut residents = (!looks.is_empty()).then(|| resident::average(&looks))?;
        if let Some(host_cpus) = host_cpus.filter(|&host_cpus| host_cpus < self.cpus) {
            let busy = with_others().map(|(run, others)| self.busy_cpus(run, others)).sum::<f64>() / looks.len() as f64;
            let run_by_host = (f64::from(host_cpus) / busy).min(1.0);
            for resident in &mut residents {
                resident.work = (resident.work as f64 * run_by_host).round() as u64;
            }
        }
        Some(residents)
    }

    /// Returns the average number of busy CPUs in a run.
    fn busy_cpus(&self, run: &Observed, others: &[Resident]) -> f64 {
        let tasks: f64 = run.tasks.values().map(|task| task.cpu_ns as f64 / self.duration as f64).sum();
        tasks + others.iter().map(Resident::taken).sum::<f64>()
    }
}

/// QEMU's `-smp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smp {
    /// Sockets.
    pub sockets: u32,
    /// Cores per socket.
    pub cores: u32,
    /// Threads per core.
    pub threads: u32,
}

impl Smp {
    /// Returns the number of CPUs.
    pub fn cpus(self) -> u32 {
        self.sockets * self.cores * self.threads
    }

    /// Returns hwloc's synthetic string.
    ///
    /// ```
    /// let smp = vruntime_workload::recording::Smp { sockets: 2, cores: 4, threads: 1 };
    /// assert_eq!(smp.to_hwloc(), "pack:2 core:4 pu:1");
    /// ```
    pub fn to_hwloc(self) -> String {
        format!("pack:{} core:{} pu:{}", self.sockets, self.cores, self.threads)
    }
}

/// Measurements of one run.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Observed {
    /// By name.
    pub tasks: BTreeMap<String, ObservedTask>,
    /// Groups with a limit, by path as in [`Workload::groups`].
    #[serde(default)]
    pub groups: BTreeMap<String, ObservedGroup>,
    /// Other tasks during the run. None if unrecorded.
    pub others: Option<Vec<Resident>>,
}

/// Measurements of one task.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "FileTask")]
pub struct ObservedTask {
    /// The class of a forked task, which the workload does not name.
    pub class: Option<String>,
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// Switches because it slept.
    pub nr_voluntary_switches: u64,
    /// Preemptions.
    pub nr_involuntary_switches: u64,
    /// Migrations, if counted.
    pub nr_migrations: Option<u64>,
    /// Loops completed.
    pub loops: u64,
    /// From when its sleep was due to end until it ran; none for tasks that never sleep.
    pub wakeup_latency_ns: Option<WakeupLatency>,
}

/// Percentiles of wakeup latency, nanoseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct WakeupLatency {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

/// A task in a file. Recordings up to November 2026 have CPU time in seconds and latencies in microseconds.
#[derive(Deserialize)]
struct FileTask {
    class: Option<String>,
    cpu_ns: Option<u64>,
    cpu_s: Option<f64>,
    nr_voluntary_switches: u64,
    nr_involuntary_switches: u64,
    nr_migrations: Option<u64>,
    loops: u64,
    wakeup_latency_ns: Option<WakeupLatency>,
    wakeup_latency_us: Option<WakeupLatency>,
}

impl TryFrom<FileTask> for ObservedTask {
    type Error = &'static str;

    fn try_from(file: FileTask) -> Result<Self, Self::Error> {
        let of_seconds = file.cpu_s.map(|seconds| (seconds * 1e9).round() as u64);
        let of_us = file.wakeup_latency_us.map(|WakeupLatency { p50, p90, p99, max }| WakeupLatency {
            p50: p50 * 1e3,
            p90: p90 * 1e3,
            p99: p99 * 1e3,
            max: max * 1e3,
        });
        Ok(Self {
            class: file.class,
            cpu_ns: file.cpu_ns.or(of_seconds).ok_or("missing field `cpu_ns`")?,
            nr_voluntary_switches: file.nr_voluntary_switches,
            nr_involuntary_switches: file.nr_involuntary_switches,
            nr_migrations: file.nr_migrations,
            loops: file.loops,
            wakeup_latency_ns: file.wakeup_latency_ns.or(of_us),
        })
    }
}

/// Measurements of one group with a limit. The periods include pauses between runs.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct ObservedGroup {
    /// Elapsed periods.
    pub nr_periods: u64,
    /// Periods in which it was throttled.
    pub nr_throttled: u64,
    throttled_ns: Option<u64>,
    throttled_usec: Option<u64>,
    throttled_time: Option<u64>,
}

impl ObservedGroup {
    /// Returns the throttled time, nanoseconds, summed over CPUs. Recordings up to November 2026 have the fields of
    /// `cpu.stat`: `throttled_usec` (cgroup v2) or `throttled_time` (v1, nanoseconds).
    pub fn throttled_ns(&self) -> u64 {
        let of_us = self.throttled_usec.map(|us| us.saturating_mul(1000));
        self.throttled_ns.or(of_us).or(self.throttled_time).unwrap_or(0)
    }
}

#[derive(Deserialize)]
struct File<'a> {
    name: String,
    kernel: String,
    hz: u32,
    preempt: Option<String>,
    autogroup: bool,
    cpus: u32,
    topology: Option<String>,
    #[serde(default)]
    emulated: bool,
    recorded: Option<String>,
    /// Whether the tasks were threads of one process.
    #[serde(default)]
    threads: bool,
    duration_s: u32,
    #[serde(default)]
    groups: BTreeMap<String, FileGroup>,
    #[serde(borrow)]
    workload: &'a RawValue,
    #[serde(default)]
    observed: Vec<Observed>,
}

#[derive(Deserialize)]
struct FileGroup {
    weight: Option<u32>,
    max: Option<(u64, u64)>,
}

/// Reads a recording. `name` is for messages.
///
/// # Errors
///
/// If the text is not UTF-8 or JSON, lacks a field, or has a wrong workload. If a weight or limit is out of
/// the kernel's range, or the topology's size is wrong.
pub fn parse(name: &str, bytes: &[u8]) -> Result<Recording, Error> {
    let source = Source::decode(name, bytes)?;
    let file: File<'_> = serde_json::from_str(source.text()).map_err(|error| json_error(&source, &error))?;
    let mut workload = workload_of(name, &source, file.workload)?;
    let mut groups = GroupTree::from_groups(std::mem::take(&mut workload.groups));
    for (path, group) in &file.groups {
        add_group(&source, path, group, &mut groups)?;
    }
    workload.groups = groups.into_groups();
    for task in &mut workload.tasks {
        task.process = file.threads.then_some(0);
    }
    if file.duration_s == 0 {
        return Err(wrong(&source, "\"duration_s\"", "`duration_s` is 0, expected at least 1"));
    }
    let duration = u64::from(file.duration_s) * 1_000_000_000;
    workload.duration = Some(duration);
    // The recorder's tasks check the clock after each run and each sleep.
    workload.stop = Stop::AfterInstruction;
    let topology = smp(file.topology.as_deref(), file.cpus)
        .ok_or_else(|| wrong(&source, "\"topology\"", "the topology does not fit the number of CPUs"))?;
    let mut observed = file.observed;
    for run in &mut observed {
        let groups = std::mem::take(&mut run.groups).into_iter();
        run.groups = groups.map(|(path, seen)| (normalize_path(&path).unwrap_or(path), seen)).collect();
    }
    Ok(Recording {
        name: file.name,
        kernel: file.kernel,
        hz: file.hz,
        preempt: file.preempt,
        autogroup: file.autogroup,
        cpus: file.cpus,
        topology,
        emulated: file.emulated,
        recorded: file.recorded,
        duration,
        workload,
        observed,
    })
}

/// Parses rt-app JSON, or a benchmark's command line.
fn workload_of(name: &str, source: &Source, value: &RawValue) -> Result<Workload, Error> {
    if let Ok(command) = serde_json::from_str::<String>(value.get()) {
        return model::parse(&command).map_err(|error| wrong(source, value.get(), &error.to_string()));
    }
    let inner = format!("{name} (workload)");
    Ok(rtapp::parse(&inner, value.get().as_bytes(), &Options::default())?.workload)
}

fn json_error(source: &Source, error: &serde_json::Error) -> Error {
    let text = source.text();
    let line_start: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = line_start + error.column().saturating_sub(1);
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    Error::new(source, message)
        .at(at..at + 1, "reading stopped here")
        .with_help("a recording has name, kernel, hz, preempt, autogroup, cpus, duration_s and workload")
}

/// Returns an error at the first `needle` of the file.
fn wrong(source: &Source, needle: &str, message: &str) -> Error {
    let at = source.text().find(needle).unwrap_or(0);
    Error::new(source, message).at(at..at + needle.len(), "here").with_help("was the recording edited?")
}

fn add_group(source: &Source, path: &str, group: &FileGroup, groups: &mut GroupTree) -> Result<(), Error> {
    let needle = format!("\"{path}\"");
    let normal = normalize_path(path).map_err(|reason| wrong(source, &needle, &reason))?;
    if normal == "/" {
        return Err(wrong(source, &needle, "the root group has no weight and no limit"));
    }
    let index = groups.ensure(&normal);
    let target = groups.get_mut(index);
    if let Some(weight) = group.weight {
        if !(1..=10_000).contains(&weight) {
            return Err(wrong(source, &needle, "a weight is 1 to 10000"));
        }
        target.weight = weight;
    }
    if let Some((quota, period)) = group.max {
        let [quota_ns, period_ns] = [quota, period].map(|us| us.saturating_mul(1000));
        if !PERIOD_NS.contains(&period_ns) || !QUOTA_NS.contains(&quota_ns) {
            return Err(wrong(source, &needle, "the kernel refuses this limit"));
        }
        target.max = Some(Bandwidth { quota: quota_ns, period: period_ns, burst: 0 });
    }
    Ok(())
}

/// `8,sockets=2,cores=4,threads=1`. Defaults: 1 socket, 1 thread, cores to fill the CPUs.
fn smp(text: Option<&str>, cpus: u32) -> Option<Smp> {
    let (mut sockets, mut cores, mut threads) = (1u32, None, 1u32);
    for part in text.unwrap_or_default().split(',').skip(1) {
        let (key, value) = part.split_once('=')?;
        let value: u32 = value.parse().ok().filter(|value| (1..=1 << 20).contains(value))?;
        match key {
            "sockets" => sockets = value,
            "cores" => cores = Some(value),
            "threads" => threads = value,
            _ => return None,
        }
    }
    let cores = cores.or_else(|| cpus.checked_div(sockets.checked_mul(threads)?))?;
    let all = sockets.checked_mul(cores)?.checked_mul(threads)?;
    (all == cpus && cpus > 0).then_some(Smp { sockets, cores, threads })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smp_strings() {
        assert_eq!(smp(Some("8,sockets=2,cores=4,threads=1"), 8), Some(Smp { sockets: 2, cores: 4, threads: 1 }));
        assert_eq!(smp(Some("2"), 2), Some(Smp { sockets: 1, cores: 2, threads: 1 }));
        assert_eq!(smp(None, 2), Some(Smp { sockets: 1, cores: 2, threads: 1 }));
        assert_eq!(smp(Some("8,sockets=2,cores=4,threads=2"), 8), None);
        assert_eq!(smp(Some("8,sockets=4294967295,cores=4294967295"), 8), None);
        assert_eq!(smp(Some("0"), 0), None);
    }

    /// The published recordings have no date. A recording with a date is of another build of 6.18.44.
    #[test]
    fn a_published_recording_is_of_a_build_that_is_known() {
        let release = |kernel: &str, recorded: &str| {
            let text = format!(
                r#"{{"name": "n", "kernel": "{kernel}", "hz": 250, "autogroup": true, "cpus": 2, "duration_s": 1{recorded},
                "workload": {{"tasks": {{"t": {{"run": 1000}}}}}}}}"#
            );
            parse("n.json", text.as_bytes()).unwrap().release().to_owned()
        };
        assert_eq!(release("6.18.44", ""), "6.18.44-fc-v657");
        assert_eq!(release("6.18.44", r#", "recorded": "2026-11-24""#), "6.18.44");
        assert_eq!(release("6.12.117", ""), "6.12.117");
    }

    /// Four virtual CPUs that are always busy stand still half of the time on a host of 2.
    #[test]
    fn background_tasks_do_not_work_while_the_host_runs_another_cpu() {
        let text = r#"{"name": "n", "kernel": "5.10", "hz": 250, "autogroup": true, "cpus": 4, "duration_s": 1,
            "workload": {"tasks": {"t": {"run": 1000}}}, "observed": [{"others": [
                {"name": "k", "period_ns": 1000000000, "work_ns": 100000000}], "tasks": {
                "t": {"cpu_s": 3.9, "nr_voluntary_switches": 0, "nr_involuntary_switches": 0, "loops": 1}}}]}"#;
        let recording = parse("n.json", text.as_bytes()).unwrap();
        let work = |host_cpus| recording.residents(host_cpus).unwrap()[0].work;
        let (all, half) = (100_000_000, 50_000_000);
        assert_eq!([work(None), work(Some(2)), work(Some(4)), work(Some(8))], [all, half, all, all]);
    }

    #[test]
    fn nothing_was_recorded_in_no_time() {
        let text = r#"{"name": "n", "kernel": "6.12", "hz": 250, "autogroup": true, "cpus": 2, "duration_s": 0,
            "workload": {"tasks": {"t": {"run": 1000}}}}"#;
        let error = parse("n.json", text.as_bytes()).unwrap_err();
        assert_eq!(error.message(), "`duration_s` is 0, expected at least 1");
    }
}
