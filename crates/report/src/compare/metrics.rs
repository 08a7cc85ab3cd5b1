//! What is compared of each class of tasks, and of the machine.

use crate::results::{ClassResult, Results};
use crate::units::{count, percent, three, time};

/// A figure: how it is read, written and judged.
pub(super) struct Metric {
    /// In tables.
    pub(super) name: &'static str,
    /// In sentences.
    pub(super) phrase: &'static str,
    /// In JSON.
    pub(super) key: &'static str,
    pub(super) unit: &'static str,
    pub(super) family: Family,
    pub(super) value: fn(&Results, &ClassResult) -> Option<f64>,
    pub(super) format: fn(f64) -> String,
    /// A smaller difference is never worth a sentence, in the metric's unit.
    pub(super) floor: f64,
    /// How many sleeps, wakeups or loops it is of; 0 of what is a sum.
    pub(super) samples: fn(&ClassResult) -> u64,
    /// Of fewer, in all runs of a variant, no sentence is made.
    pub(super) least: u64,
}

/// What three sleeps were like, the next three need not be.
const SEVERAL: u64 = 20;
/// Of fewer the 99th percentile is the worst.
const HUNDRED: u64 = 100;

/// The largest change of each family gets a sentence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Family {
    Latency,
    Cpu,
    Moves,
    Conservation,
    Energy,
}

/// What a program sees when it has timed sleeps; else the wait that follows its wakeups.
fn late(class: &ClassResult) -> Option<crate::Latency> {
    class.sleep_return.or(class.wakeup_latency)
}

pub(super) const METRICS: [Metric; 10] = [
    Metric {
        name: "CPU %",
        phrase: "CPU time",
        key: "share",
        unit: "% of a CPU",
        family: Family::Cpu,
        value: |results, class| Some(results.share(class.account.cpu_ns) * 100.0),
        format: |value| percent(value / 100.0),
        floor: 0.5,
        samples: |_| 0,
        least: 0,
    },
    Metric {
        name: "wait %",
        phrase: "time spent waiting for a CPU",
        key: "run_delay",
        unit: "% of the time",
        family: Family::Cpu,
        value: |results, class| Some(results.share(class.account.run_delay_ns) * 100.0),
        format: |value| percent(value / 100.0),
        floor: 1.0,
        samples: |_| 0,
        least: 0,
    },
    Metric {
        name: "late p50",
        phrase: "median lateness after a sleep or wakeup",
        key: "late_p50",
        unit: "ns",
        family: Family::Latency,
        value: |_, class| late(class).map(|latency| latency.p50_ns as f64),
        format: time,
        floor: 50_000.0,
        samples: |class| late(class).map_or(0, |latency| latency.count),
        least: SEVERAL,
    },
    Metric {
        name: "late p99",
        phrase: "99th percentile of lateness after a sleep or wakeup",
        key: "late_p99",
        unit: "ns",
        family: Family::Latency,
        value: |_, class| late(class).map(|latency| latency.p99_ns as f64),
        format: time,
        floor: 100_000.0,
        samples: |class| late(class).map_or(0, |latency| latency.count),
        least: HUNDRED,
    },
    Metric {
        name: "late max",
        phrase: "worst lateness after a sleep or wakeup",
        key: "late_max",
        unit: "ns",
        family: Family::Latency,
        value: |_, class| late(class).map(|latency| latency.max_ns as f64),
        format: time,
        floor: 500_000.0,
        samples: |class| late(class).map_or(0, |latency| latency.count),
        least: SEVERAL,
    },
    Metric {
        name: "switch/s",
        phrase: "number of context switches",
        key: "switches_per_s",
        unit: "per second and task",
        family: Family::Moves,
        value: |results, class| Some(results.per_second(class.account.switches()) / class.tasks.max(1) as f64),
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
        value: |_, class| Some(class.account.migrations as f64),
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
        family: Family::Cpu,
        value: |_, class| (class.account.loops > 0).then_some(class.account.loops as f64),
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
        value: |_, class| class.loop_duration.map(|latency| latency.p50_ns as f64),
        format: time,
        floor: 50_000.0,
        samples: |class| class.loop_duration.map_or(0, |latency| latency.count),
        least: SEVERAL,
    },
    Metric {
        name: "idle waits",
        phrase: "time spent waiting beside an idle CPU, beyond a balance interval,",
        key: IDLE_WAITS,
        unit: "ns",
        family: Family::Conservation,
        value: |results, class| results.conservation.map(|_| class.account.idle_waits.total_ns as f64),
        format: time,
        floor: 1_000_000.0,
        samples: |_| 0,
        least: 0,
    },
];

/// Of the whole machine, where somebody knows what its CPUs take.
pub(super) const ENERGY: Metric = Metric {
    name: "energy J",
    phrase: "energy that busy CPUs take",
    key: "energy",
    unit: "J",
    family: Family::Energy,
    value: |results, _| joules(results),
    format: three,
    floor: 0.0,
    samples: |_| 0,
    least: 0,
};

pub(super) fn joules(results: &Results) -> Option<f64> {
    results.energy_uj().map(|uj| uj as f64 / 1e6)
}

/// Hardly ever other than 0, and then left out.
pub(super) const IDLE_WAITS: &str = "idle_waits";
