//! Results as JSON: the setup, then `observed` with an entry for each run. Names are those of the recordings, and
//! times are nanoseconds. Objects that are called as a file of the kernel have its fields and units.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use crate::cputime::CpuTimes;
use crate::frequency::CpuFrequency;
use crate::latency::Latency;
use crate::results::{
    Account, CpuResult, CpusetResult, GroupResult, IdleWaits, LimitResult, MigrationCount, Pressure, Response, Results,
    Stall, TaskResult,
};

/// The setup, with the recordings' names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunInfo {
    /// Scenario.
    pub name: String,
    /// Kernel.
    pub kernel: String,
    /// Overrides of file and kernel, a line each: what-if rules, tunables, features.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Number of CPUs.
    pub cpus: usize,
    /// The machine as written.
    pub topology: String,
    /// CPUs of a virtual machine's simulated host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_cpus: Option<u32>,
    /// Length of the first run, nanoseconds.
    pub duration_ns: u64,
    /// Ticks per second.
    pub hz: u32,
    /// Preemption model.
    pub preempt: String,
    /// Whether autogroup was on.
    pub autogroup: bool,
    /// Whether tasks existed and slept before their start, instead of being forked.
    pub gate: bool,
    /// Cost profile.
    pub costs: String,
    /// Whether the profile is of software emulation.
    pub emulated: bool,
}

/// Returns a run, an entry of `observed`.
pub fn observed_json(results: &Results, seed: u64, digest: u64) -> Value {
    to_value(&Observed {
        seed,
        digest: format!("{digest:016x}"),
        tasks: Map(results.tasks.iter().map(|task| {
            let more = More::new(&task.account, results);
            let latencies = Latencies::new(task.wakeup_latency, task.sleep_return, task.loop_duration)
                .with_response(task.response, results.target_ns);
            let entry = Entry { tasks: None, counts: Counts::new(&task.account), latencies, more };
            (task.name.as_str(), Task { entry, attributes: Attributes::new(task) })
        })),
        classes: Map(results.classes.iter().map(|class| {
            let more = More::new(&class.account, results);
            let latencies = Latencies::new(class.wakeup_latency, class.sleep_return, class.loop_duration)
                .with_response(class.response, results.target_ns);
            let entry = Entry { tasks: Some(class.tasks), counts: Counts::new(&class.account), latencies, more };
            let group = class.group.filter(|&group| group > 0).and_then(|group| results.groups.get(group));
            let group = group.map(|group| group.path.clone());
            (class.name.as_str(), Class { entry, group, migrations: Causes(class.migrations) })
        })),
        groups: Map(results.groups.iter().map(|group| {
            let json = Group {
                weight: group.weight,
                idle: group.idle,
                guarantee: group.guarantee.map(|percent| f64::from(percent) / 100.0),
                nice: group.nice,
                tasks: group.tasks,
                cpu_ns: group.cpu_ns,
                entitled_ns: group.entitled_ns,
                run_delay_ns: group.run_delay_ns,
                nr_switches: group.switches,
                nr_switches_counted: group.counted_switches,
                cpu_stat: CpuStat::new(group.cpu_ns, group.system_ns),
                pressure: Stalls::new(&group.pressure),
                cpuset: group.cpuset.as_ref().map(Cpuset::new),
                limit: group.limit.map(Limit::new),
                rt: RtThrottled::new(group),
            };
            (group.path.as_str(), json)
        })),
        cpus: results.cpus.iter().map(Cpu::new).collect(),
        machine: Machine {
            elapsed_ns: results.elapsed_ns,
            cpu: Cpu::new(&results.machine()),
            loadavg: results.loadavg.map(|load| load.hundredths().map(|value| value as f64 / 100.0)),
            cpu_frequency: results.frequencies.iter().map(Frequency::new).collect(),
            overutilized_ns: results.overutilized_ns,
            nr_migrations: results.account.migrations,
            h_load: results.h_load.map(|visits| HLoad {
                updates: visits.updates,
                groups_visited: visits.groups,
                idle_groups_visited: visits.idle,
            }),
            unexplained_switches: results.unexplained,
            migrations: Causes(results.migrations),
            work_conservation: results.conservation.map(|conservation| WorkConservation {
                balance_interval_ns: [conservation.least_interval_ns, conservation.most_interval_ns],
                idle_waits: Waits::new(&results.account.idle_waits),
                worst: conservation.worst.map(|worst| WorstWait {
                    task: results.tasks[worst.task].name.clone(),
                    cpu: worst.cpu,
                    waited_from_ns: worst.since,
                    waited_until_ns: worst.at,
                }),
            }),
            wakeup_to_run_ns: results.wakeup_latency.map(Percentiles::new),
        },
    })
}

/// Returns all runs. `observed` has an [`observed_json`] for each.
pub fn run_json(info: &RunInfo, observed: Vec<Value>) -> Value {
    #[derive(Serialize)]
    struct Run<'a> {
        #[serde(flatten)]
        info: &'a RunInfo,
        observed: Vec<Value>,
    }
    to_value(&Run { info, observed })
}

#[expect(clippy::expect_used, reason = "plain structs with string keys and finite numbers have no way to fail")]
fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("results are representable as JSON")
}

struct Map<I>(I);

impl<'a, V: Serialize, I: Iterator<Item = (&'a str, V)> + Clone> Serialize for Map<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.clone())
    }
}

#[derive(Serialize)]
struct Observed<T: Serialize, C: Serialize, G: Serialize> {
    seed: u64,
    digest: String,
    tasks: T,
    classes: C,
    groups: G,
    cpus: Vec<Cpu>,
    machine: Machine,
}

#[derive(Serialize)]
struct Entry {
    /// Number, for a class only.
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<usize>,
    #[serde(flatten)]
    counts: Counts,
    #[serde(flatten)]
    latencies: Latencies,
    #[serde(flatten)]
    more: More,
}

#[derive(Serialize)]
struct Task {
    #[serde(flatten)]
    entry: Entry,
    #[serde(flatten)]
    attributes: Attributes,
}

/// Final priority and policy.
#[derive(Serialize)]
struct Attributes {
    policy: &'static str,
    /// -1 (deadline), 0..=98 (real-time), 100..=139 (fair).
    prio: i16,
    nice: i8,
    #[serde(skip_serializing_if = "Option::is_none")]
    rt_priority: Option<u8>,
}

impl Attributes {
    fn new(task: &TaskResult) -> Self {
        let rt_priority = task.policy.is_rt().then_some(task.rt_priority);
        Self { policy: task.policy.name(), prio: task.prio(), nice: task.nice, rt_priority }
    }
}

#[derive(Serialize)]
struct Counts {
    cpu_ns: u64,
    nr_voluntary_switches: u64,
    nr_involuntary_switches: u64,
    nr_migrations: u64,
    loops: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Deadline>,
}

#[derive(Serialize)]
struct Deadline {
    misses: u64,
    max_late_ns: u64,
    nr_throttled: u64,
    nr_overruns: u64,
}

impl Counts {
    fn new(account: &Account) -> Self {
        Self {
            cpu_ns: account.cpu_ns,
            nr_voluntary_switches: account.voluntary,
            nr_involuntary_switches: account.involuntary,
            nr_migrations: account.migrations,
            loops: account.loops,
            deadline: account.deadline.map(|deadline| Deadline {
                misses: deadline.misses,
                max_late_ns: deadline.max_late_ns,
                nr_throttled: deadline.throttled,
                nr_overruns: deadline.overruns,
            }),
        }
    }
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the recordings' names carry their unit")]
struct Latencies {
    wakeup_latency_ns: Option<Percentiles>,
    wakeup_to_run_ns: Option<Percentiles>,
    loop_duration_ns: Option<Percentiles>,
    response_ns: Option<ResponseTimes>,
}

/// From rounds' due times to their ends.
#[derive(Serialize)]
struct ResponseTimes {
    #[serde(flatten)]
    times: Percentiles,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    above_target: Option<f64>,
}

impl Latencies {
    fn new(wakeup: Option<Latency>, sleep_return: Option<Latency>, loops: Option<Latency>) -> Self {
        Self {
            wakeup_latency_ns: sleep_return.map(Percentiles::new),
            wakeup_to_run_ns: wakeup.map(Percentiles::new),
            loop_duration_ns: loops.map(Percentiles::new),
            response_ns: None,
        }
    }

    fn with_response(self, response: Option<Response>, target: Option<u64>) -> Self {
        let response_ns = response.map(|response| ResponseTimes {
            times: Percentiles::new(response.times),
            target,
            above_target: target.map(|_| response.above()),
        });
        Self { response_ns, ..self }
    }
}

#[derive(Serialize)]
struct Percentiles {
    p50: u64,
    p90: u64,
    p99: u64,
    #[serde(rename = "p99.9")]
    p999: u64,
    max: u64,
    mean: u64,
    count: u64,
}

impl Percentiles {
    fn new(latency: Latency) -> Self {
        Self {
            p50: latency.p50_ns,
            p90: latency.p90_ns,
            p99: latency.p99_ns,
            p999: latency.p999_ns,
            max: latency.max_ns,
            mean: latency.mean_ns,
            count: latency.count,
        }
    }
}

#[derive(Serialize)]
struct More {
    share: f64,
    user_ns: u64,
    system_ns: u64,
    run_delay_ns: u64,
    sleeping_ns: u64,
    life_ns: u64,
    loop_work_ns: u64,
    idle_waits: Waits,
}

#[derive(Serialize)]
struct Waits {
    count: u64,
    total_ns: u64,
    worst_ns: u64,
}

impl Waits {
    fn new(waits: &IdleWaits) -> Self {
        Self { count: waits.count, total_ns: waits.total_ns, worst_ns: waits.worst_ns }
    }
}

impl More {
    fn new(account: &Account, results: &Results) -> Self {
        Self {
            share: results.share(account.cpu_ns),
            user_ns: account.cpu_ns - account.system_ns,
            system_ns: account.system_ns,
            run_delay_ns: account.run_delay_ns,
            sleeping_ns: account.sleeping_ns,
            life_ns: account.life_ns,
            loop_work_ns: account.loop_work_ns,
            idle_waits: Waits::new(&account.idle_waits),
        }
    }
}

#[derive(Serialize)]
struct Class {
    #[serde(flatten)]
    entry: Entry,
    /// The group of all its tasks, if it is one and not the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    migrations: Causes,
}

struct Causes(MigrationCount);

impl Serialize for Causes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (_, name, count) in self.0.iter() {
            map.serialize_entry(name, &count)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct Group {
    weight: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    idle: bool,
    /// Part of the machine, of 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    guarantee: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nice: Option<i8>,
    tasks: usize,
    cpu_ns: u64,
    entitled_ns: u64,
    run_delay_ns: u64,
    nr_switches: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    nr_switches_counted: Option<u64>,
    #[serde(rename = "cpu.stat")]
    cpu_stat: CpuStat,
    #[serde(rename = "cpu.pressure")]
    pressure: Stalls,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpuset: Option<Cpuset>,
    #[serde(flatten)]
    limit: Option<Limit>,
    #[serde(flatten)]
    rt: Option<RtThrottled>,
}

/// Throttlings of real-time tasks, summed over CPUs.
#[derive(Serialize)]
struct RtThrottled {
    nr_rt_throttled: u64,
    rt_throttled_ns: u64,
}

impl RtThrottled {
    fn new(group: &GroupResult) -> Option<Self> {
        let (count, ns) = (group.nr_rt_throttled, group.rt_throttled_ns);
        (count > 0).then_some(Self { nr_rt_throttled: count, rt_throttled_ns: ns })
    }
}

/// As in the `cpuset` controller's files.
#[derive(Serialize)]
struct Cpuset {
    #[serde(rename = "cpus.effective")]
    effective: String,
    #[serde(rename = "cpus.partition")]
    partition: String,
}

impl Cpuset {
    fn new(cpuset: &CpusetResult) -> Self {
        Self { effective: cpuset.effective.clone(), partition: cpuset.partition.clone() }
    }
}

#[derive(Serialize)]
struct Limit {
    /// Null if the events lack them.
    quota_ns: Option<u64>,
    period_ns: Option<u64>,
    nr_periods: u64,
    nr_throttled: u64,
    throttled_ns: u64,
    nr_bursts: u64,
    burst_ns: u64,
}

impl Limit {
    fn new(limit: LimitResult) -> Self {
        Self {
            quota_ns: limit.max.map(|(quota, _)| quota),
            period_ns: limit.max.map(|(_, period)| period),
            nr_periods: limit.nr_periods,
            nr_throttled: limit.nr_throttled,
            throttled_ns: limit.throttled_ns,
            nr_bursts: limit.nr_bursts,
            burst_ns: limit.burst_ns,
        }
    }
}

/// As in `cpu.stat`, microseconds.
#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the kernel's names carry their unit")]
struct CpuStat {
    usage_usec: u64,
    user_usec: u64,
    system_usec: u64,
}

impl CpuStat {
    fn new(cpu_ns: u64, system_ns: u64) -> Self {
        let usec = |ns: u64| ns / 1000;
        let (usage_usec, system_usec) = (usec(cpu_ns), usec(system_ns));
        Self { usage_usec, user_usec: usage_usec - system_usec, system_usec }
    }
}

#[derive(Serialize)]
struct Stalls {
    some: StallLine,
    full: StallLine,
}

impl Stalls {
    fn new(pressure: &Pressure) -> Self {
        Self { some: StallLine::new(&pressure.some), full: StallLine::new(&pressure.full) }
    }
}

#[derive(Serialize)]
struct StallLine {
    avg10: f64,
    avg60: f64,
    avg300: f64,
    total_usec: u64,
}

impl StallLine {
    fn new(stall: &Stall) -> Self {
        let [avg10, avg60, avg300] = stall.hundredths().map(|value| value as f64 / 100.0);
        Self { avg10, avg60, avg300, total_usec: stall.total_ns / 1000 }
    }
}

#[derive(Serialize)]
struct Cpu {
    busy_ns: u64,
    overhead_ns: u64,
    idle_ns: u64,
    rt_throttled_ns: u64,
    #[serde(rename = "stat_ns")]
    times: Times,
    nr_switches: u64,
    balance_attempts: u64,
    balance_pulls: u64,
    tasks_pulled: u64,
}

impl Cpu {
    fn new(cpu: &CpuResult) -> Self {
        let balance = cpu.balance_total();
        Self {
            busy_ns: cpu.busy_ns,
            overhead_ns: cpu.overhead_ns,
            idle_ns: cpu.idle_ns,
            rt_throttled_ns: cpu.rt_throttled_ns,
            times: Times(cpu.times),
            nr_switches: cpu.switches,
            balance_attempts: balance.attempts,
            balance_pulls: balance.pulls,
            tasks_pulled: balance.tasks,
        }
    }
}

/// As in `/proc/stat`, but nanoseconds.
struct Times(CpuTimes);

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter())
    }
}

#[derive(Serialize)]
struct HLoad {
    updates: u64,
    groups_visited: u64,
    idle_groups_visited: u64,
}

#[derive(Serialize)]
struct Machine {
    elapsed_ns: u64,
    #[serde(flatten)]
    cpu: Cpu,
    /// 1, 5 and 15 minutes.
    loadavg: Option<[f64; 3]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cpu_frequency: Vec<Frequency>,
    /// Time in which wakeups ignored energy, if they ever consider it.
    #[serde(skip_serializing_if = "Option::is_none")]
    overutilized_ns: Option<u64>,
    nr_migrations: u64,
    /// Only for 3.10.
    #[serde(skip_serializing_if = "Option::is_none")]
    h_load: Option<HLoad>,
    unexplained_switches: u64,
    migrations: Causes,
    /// Null for one CPU.
    work_conservation: Option<WorkConservation>,
    wakeup_to_run_ns: Option<Percentiles>,
}

/// As in `cpufreq/stats`.
#[derive(Serialize)]
struct Frequency {
    cpu: u32,
    mean_khz: u64,
    total_trans: u64,
    /// Time by frequency in kHz.
    time_in_state_ns: BTreeMap<u32, u64>,
    /// Energy while busy, joules, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    energy_j: Option<f64>,
}

impl Frequency {
    fn new(frequency: &CpuFrequency) -> Self {
        Self {
            cpu: frequency.cpu,
            mean_khz: frequency.mean_khz(),
            total_trans: frequency.changes,
            time_in_state_ns: frequency.residency.iter().copied().collect(),
            energy_j: frequency.energy_uj.map(|uj| uj as f64 / 1e6),
        }
    }
}

#[derive(Serialize)]
struct WorkConservation {
    /// The shortest and the longest.
    balance_interval_ns: [u64; 2],
    idle_waits: Waits,
    worst: Option<WorstWait>,
}

#[derive(Serialize)]
struct WorstWait {
    task: String,
    cpu: u32,
    waited_from_ns: u64,
    waited_until_ns: u64,
}
