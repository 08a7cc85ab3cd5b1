//! The compared figures of classes, groups and the machine.

use std::collections::BTreeMap;

use vruntime_trace::MigrateCause;

use crate::latency::{HUNDRED, SEVERAL};
use crate::results::{ClassResult, GroupResult, Results};
use crate::units::{OF_A_CPU, OF_ROUNDS, OF_THE_TIME, count, joules, percent, time};

/// How to read and print a figure, and which changes matter.
pub(super) struct Metric {
    /// In tables.
    pub(super) name: &'static str,
    /// In sentences.
    pub(super) phrase: &'static str,
    /// In JSON.
    pub(super) key: &'static str,
    pub(super) unit: &'static str,
    pub(super) family: Family,
    pub(super) read: Read,
    pub(super) format: fn(f64) -> String,
    /// The smallest difference that matters, in the metric's unit.
    pub(super) floor: f64,
    /// Number of sleeps, wakeups or loops behind it. 0 for sums.
    pub(super) samples: fn(&ClassResult) -> u64,
    /// The least samples of a variant for a sentence.
    pub(super) least: u64,
}

impl Metric {
    /// Whether it grows with the run's length.
    pub(super) fn grows(&self) -> bool {
        matches!(self.unit, "count" | "J") || [IDLE_WAITS, LATE_MAX, RESPONSE_MAX].contains(&self.key)
    }
}

pub(super) enum Read {
    Class(fn(&Results, &ClassResult) -> Option<f64>),
    Group(fn(&Results, &GroupResult) -> Option<f64>),
    Machine(fn(&Results) -> Option<f64>),
}

/// Indices of classes and groups by name. There may be thousands.
#[derive(Clone, Debug)]
pub(super) struct Index {
    classes: BTreeMap<String, usize>,
    groups: BTreeMap<String, usize>,
}

impl Index {
    pub(super) fn new(run: &Results) -> Self {
        Self {
            classes: run.classes.iter().zip(0..).map(|(class, at)| (class.name.clone(), at)).collect(),
            groups: run.groups.iter().zip(0..).map(|(group, at)| (group.path.clone(), at)).collect(),
        }
    }

    pub(super) fn class<'a>(&self, run: &'a Results, name: &str) -> Option<&'a ClassResult> {
        run.classes.get(*self.classes.get(name)?)
    }

    pub(super) fn group<'a>(&self, run: &'a Results, path: &str) -> Option<&'a GroupResult> {
        run.groups.get(*self.groups.get(path)?)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Subject<'a> {
    Class(&'a str),
    /// With its descendants.
    Group(&'a str),
    Machine,
}

/// The smallest relative change that matters.
const NO_CHANGE: f64 = 0.01;

impl Metric {
    pub(super) fn matters(&self, from: f64, to: f64) -> bool {
        let change = (from - to).abs();
        change >= self.floor && change >= NO_CHANGE * from.abs().max(to.abs())
    }

    /// Returns a run's figure. None without class or group, or if not measured.
    pub(super) fn value_of(&self, run: &Results, index: &Index, subject: Subject<'_>) -> Option<f64> {
        match (&self.read, subject) {
            (Read::Class(value), Subject::Class(name)) => value(run, index.class(run, name)?),
            (Read::Group(value), Subject::Group(path)) => value(run, index.group(run, path)?),
            (Read::Machine(value), Subject::Machine) => value(run),
            _ => None,
        }
    }
}

/// The kind of a figure. Each kind's largest change gets a sentence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Family {
    Response,
    /// Lateness, and the duration of loops.
    Latency,
    Throughput,
    Cpu,
    Limits,
    Moves,
    Conservation,
    Energy,
}

impl Family {
    /// Returns the order of sentences: response times, other effects on a service's users, CPU time, causes, moves.
    pub(super) fn tier(self) -> u8 {
        match self {
            Self::Response => 0,
            Self::Latency | Self::Throughput => 1,
            Self::Cpu => 2,
            Self::Limits | Self::Conservation | Self::Energy => 3,
            Self::Moves => 4,
        }
    }
}

pub(super) const OF_CLASSES: [Metric; 15] = [
    Metric {
        name: "CPU %",
        phrase: "CPU time",
        key: "share",
        unit: OF_A_CPU,
        family: Family::Cpu,
        read: Read::Class(|results, class| {
            (!class.account.unmeasured.cpu).then(|| results.share(class.account.cpu_ns))
        }),
        format: percent,
        floor: 0.005,
        samples: |_| 0,
        least: 0,
    },
    Metric {
        name: "wait %",
        phrase: "waiting time",
        key: RUN_DELAY,
        unit: OF_THE_TIME,
        family: Family::Cpu,
        read: Read::Class(|results, class| {
            (!class.account.unmeasured.waits).then(|| results.share(class.account.run_delay_ns))
        }),
        format: percent,
        floor: 0.01,
        samples: |_| 0,
        least: 0,
    },
    Metric {
        name: "lateness p50",
        phrase: "median lateness",
        key: "late_p50",
        unit: "ns",
        family: Family::Latency,
        read: Read::Class(|_, class| class.late().map(|latency| latency.p50_ns as f64)),
        format: time,
        floor: 50_000.0,
        samples: |class| class.late().map_or(0, |latency| latency.count),
        least: SEVERAL,
    },
    Metric {
        name: "lateness p99",
        phrase: "99th percentile of lateness",
        key: "late_p99",
        unit: "ns",
        family: Family::Latency,
        read: Read::Class(|_, class| class.late().map(|latency| latency.p99_ns as f64)),
        format: time,
        floor: 100_000.0,
        samples: |class| class.late().map_or(0, |latency| latency.count),
        least: HUNDRED,
    },
    Metric {
        name: "lateness max",
        phrase: "worst lateness",
        key: LATE_MAX,
        unit: "ns",
        family: Family::Latency,
        read: Read::Class(|_, class| class.late().map(|latency| latency.max_ns as f64)),
        format: time,
        floor: 500_000.0,
        samples: |class| class.late().map_or(0, |latency| latency.count),
        least: SEVERAL,
    },
    Metric {
        name: "switch/s",
        phrase: "number of context switches",
        key: "switches_per_s",
        unit: "per second and task",
        family: Family::Moves,
        read: Read::Class(|results, class| {
            let per_task = |switches| results.per_second(switches) / class.tasks.max(1) as f64;
            (!class.account.unmeasured.switches).then(|| per_task(class.account.switches()))
        }),
        format: count,
        floor: 5.0,
        samples: |_| 0,
        least: 0,
    },
    Metric {
        name: "migrations",
        phrase: "number of migrations",
        key: "migrations",
        unit: "count",
        family: Family::Moves,
        read: Read::Class(|_, class| (!class.account.unmeasured.migrations).then_some(class.account.migrations as f64)),
        format: count,
        floor: 20.0,
        samples: |_| 0,
        least: 0,
    },
    Metric {
        name: "loops",
        phrase: "number of completed loops",
        key: "loops",
        unit: "count",
        family: Family::Throughput,
        read: Read::Class(|_, class| (class.account.loops > 0).then_some(class.account.loops as f64)),
        format: count,
        floor: 5.0,
        samples: |_| 0,
        least: 0,
    },
    Metric {
        name: "loop p50",
        phrase: "median duration of a loop",
        key: "loop_p50",
        unit: "ns",
        family: Family::Latency,
        read: Read::Class(|_, class| class.loop_duration.map(|latency| latency.p50_ns as f64)),
        format: time,
        floor: 50_000.0,
        samples: |class| class.loop_duration.map_or(0, |latency| latency.count),
        least: SEVERAL,
    },
    Metric {
        name: "response p50",
        phrase: "median response time",
        key: "response_p50",
        unit: "ns",
        family: Family::Response,
        read: Read::Class(|_, class| class.response.map(|response| response.times.p50_ns as f64)),
        format: time,
        floor: 50_000.0,
        samples: rounds,
        least: SEVERAL,
    },
    Metric {
        name: "response p90",
        phrase: "90th percentile of response times",
        key: "response_p90",
        unit: "ns",
        family: Family::Response,
        read: Read::Class(|_, class| class.response.map(|response| response.times.p90_ns as f64)),
        format: time,
        floor: 100_000.0,
        samples: rounds,
        least: SEVERAL,
    },
    Metric {
        name: "response p99",
        phrase: "99th percentile of response times",
        key: "response_p99",
        unit: "ns",
        family: Family::Response,
        read: Read::Class(|_, class| class.response.map(|response| response.times.p99_ns as f64)),
        format: time,
        floor: 100_000.0,
        samples: rounds,
        least: HUNDRED,
    },
    Metric {
        name: "response max",
        phrase: "longest response time",
        key: RESPONSE_MAX,
        unit: "ns",
        family: Family::Response,
        read: Read::Class(|_, class| class.response.map(|response| response.times.max_ns as f64)),
        format: time,
        floor: 500_000.0,
        samples: rounds,
        least: SEVERAL,
    },
    Metric {
        name: "above target %",
        phrase: "share of rounds above the target",
        key: "above_target",
        unit: OF_ROUNDS,
        family: Family::Response,
        read: Read::Class(|results, class| results.target_ns.and(class.response).map(|response| response.above())),
        format: percent,
        floor: 0.01,
        samples: rounds,
        least: SEVERAL,
    },
    Metric {
        name: "idle waits",
        phrase: "time spent waiting for longer than a balance interval beside an idle CPU",
        key: IDLE_WAITS,
        unit: "ns",
        family: Family::Conservation,
        read: Read::Class(|results, class| results.conservation.map(|_| class.account.idle_waits.total_ns as f64)),
        format: time,
        floor: 1_000_000.0,
        samples: |_| 0,
        least: 0,
    },
];

const fn of_groups(
    (name, phrase, key, unit): (&'static str, &'static str, &'static str, &'static str),
    family: Family,
    read: fn(&Results, &GroupResult) -> Option<f64>,
    format: fn(f64) -> String,
    floor: f64,
) -> Metric {
    Metric { name, phrase, key, unit, family, read: Read::Group(read), format, floor, samples: |_| 0, least: 0 }
}

pub(super) const OF_GROUPS: [Metric; 5] = [
    of_groups(
        ("CPU %", "CPU time", "share", OF_A_CPU),
        Family::Cpu,
        |results, group| (!group.unmeasured.cpu).then(|| results.share(group.cpu_ns)),
        percent,
        0.005,
    ),
    of_groups(
        ("wait %", "waiting time", RUN_DELAY, OF_THE_TIME),
        Family::Cpu,
        |results, group| (!group.unmeasured.waits).then(|| results.share(group.run_delay_ns)),
        percent,
        0.01,
    ),
    of_groups(
        ("pressure %", "CPU pressure", "pressure_some", OF_THE_TIME),
        Family::Cpu,
        |results, group| (!group.unmeasured.pressure).then(|| results.share(group.pressure.some.total_ns)),
        percent,
        0.01,
    ),
    of_groups(
        ("throttled periods", "number of throttled periods", "nr_throttled", "count"),
        Family::Limits,
        |_, group| Some(group.limit.map_or(0.0, |limit| limit.nr_throttled as f64)),
        count,
        2.0,
    ),
    of_groups(
        // A group is throttled on each CPU. Like CPU time, the sum is relative to one CPU.
        ("throttled time %", "throttled time, summed over CPUs,", "throttled", OF_A_CPU),
        Family::Limits,
        |results, group| Some(group.limit.map_or(0.0, |limit| results.share(limit.throttled_ns))),
        percent,
        0.01,
    ),
];

/// The machine's energy, if known.
pub(super) const ENERGY: Metric = Metric {
    name: "energy J",
    phrase: "energy taken by busy CPUs",
    key: "energy",
    unit: "J",
    family: Family::Energy,
    read: Read::Machine(|results| Some(results.energy_uj()? as f64 / 1e6)),
    format: joules,
    floor: 0.0,
    samples: |_| 0,
    least: 0,
};

const fn of_machine(
    name: &'static str,
    phrase: &'static str,
    key: &'static str,
    read: fn(&Results) -> Option<f64>,
) -> Metric {
    Metric {
        name,
        phrase,
        key,
        unit: "count",
        family: Family::Moves,
        read: Read::Machine(read),
        format: count,
        // As loops of a class.
        floor: 5.0,
        samples: |_| 0,
        least: 0,
    }
}

/// Returns the migrations of all tasks with one cause.
fn migrations(results: &Results, cause: MigrateCause) -> Option<f64> {
    (!results.account.unmeasured.migrations).then(|| results.migrations.get(cause) as f64)
}

/// What balancing and the choice of CPUs did on the whole machine. No table has these metrics: they show what no class
/// and no group shows.
pub(super) const OF_MACHINE: [Metric; 8] = [
    of_machine("balances", "number of attempts to balance", "balance_attempts", |results| {
        Some(results.machine().balance.iter().map(|kind| kind.attempts).sum::<u64>() as f64)
    }),
    of_machine("moves at wakeup", "number of migrations at wakeup", "migrations_wakeup", |results| {
        migrations(results, MigrateCause::Wakeup)
    }),
    of_machine("moves at fork", "number of migrations at fork", "migrations_fork", |results| {
        migrations(results, MigrateCause::Fork)
    }),
    of_machine("moves at exec", "number of migrations at exec", "migrations_exec", |results| {
        migrations(results, MigrateCause::Exec)
    }),
    of_machine("periodic moves", "number of migrations by periodic balancing", "migrations_periodic", |results| {
        migrations(results, MigrateCause::Periodic)
    }),
    of_machine("newly-idle moves", "number of migrations by newly-idle balancing", "migrations_newidle", |results| {
        migrations(results, MigrateCause::NewIdle)
    }),
    of_machine("NOHZ moves", "number of migrations by NOHZ balancing", "migrations_nohz_idle", |results| {
        migrations(results, MigrateCause::NohzIdle)
    }),
    of_machine("active moves", "number of migrations of running tasks", "migrations_active", |results| {
        migrations(results, MigrateCause::Active)
    }),
];

/// The time of waiting, summed over tasks.
pub(super) const RUN_DELAY: &str = "run_delay";
/// Omitted if it is 0.
pub(super) const IDLE_WAITS: &str = "idle_waits";
const LATE_MAX: &str = "late_max";
const RESPONSE_MAX: &str = "response_max";

fn rounds(class: &ClassResult) -> u64 {
    class.response.map_or(0, |response| response.times.count)
}
