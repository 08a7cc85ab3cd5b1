//! How far a replay is from its recording.

use std::collections::BTreeMap;

use crate::check::FirstNames;
use crate::recorded::{Recorded, Thread};
use crate::tally::TaskTotals;

/// The weight of wrong CPU times, relative to wrong numbers of switches and to wrong times of waiting.
const CPU_TIMES: f64 = 3.0;

/// Returns a replay's distance from the recording. A what-if predicts shares of CPU time, so switches and waiting
/// do not count.
pub(crate) fn distance(what_if: bool, recorded: &Recorded, ran: &[TaskTotals]) -> f64 {
    let replayed = totals(recorded, ran);
    CPU_TIMES * cpu_times_off(recorded, &replayed, what_if)
        + if what_if { 0.0 } else { switches_off(recorded, &replayed) + waits_off(recorded, &replayed) }
}

/// Totals of each task, by its name.
type Totals = BTreeMap<String, TaskTotals>;

/// Sums a run's totals by the names of recorded tasks.
fn totals(recorded: &Recorded, ran: &[TaskTotals]) -> Totals {
    let names = FirstNames::new(recorded);
    let mut totals = Totals::new();
    for task in ran {
        let sum = totals.entry(names.of(&task.name)).or_default();
        sum.cpu_ns += task.cpu_ns;
        sum.switches += task.switches;
        sum.waited_ns += task.waited_ns;
    }
    totals
}

/// Returns the difference in switches, as a part of the recorded number.
fn switches_off(recorded: &Recorded, replayed: &Totals) -> f64 {
    let all: u64 = recorded.threads.iter().filter(|thread| thread.task.is_some()).map(|thread| thread.switches).sum();
    let now: u64 = replayed.values().map(|task| task.switches).sum();
    now.abs_diff(all) as f64 / all.max(1) as f64
}

/// Returns the difference in CPU time, as a part of the total: twice the time that other tasks get. With `by_name`,
/// tasks of one name count together, since chance decides which works.
pub(crate) fn off(recorded: &Recorded, ran: &[TaskTotals], by_name: bool) -> f64 {
    cpu_times_off(recorded, &totals(recorded, ran), by_name)
}

/// As [`off`], with the sums of tasks.
fn cpu_times_off(recorded: &Recorded, replayed: &Totals, by_name: bool) -> f64 {
    // The replay does not record.
    let cpu_ns = |thread: &Thread| thread.cpu_ns.saturating_sub(thread.subtracted_ns);
    let off = differences(recorded, replayed, by_name, (cpu_ns, |task| task.cpu_ns));
    off as f64 / sum(recorded, cpu_ns).max(1) as f64
}

/// Returns the difference in time of waiting for a CPU, as a part of all time when a task was runnable. Tasks of one
/// name count together.
fn waits_off(recorded: &Recorded, replayed: &Totals) -> f64 {
    let waited_ns = |thread: &Thread| thread.waited_ns.unwrap_or(0);
    let off = differences(recorded, replayed, true, (waited_ns, |task| task.waited_ns));
    off as f64 / sum(recorded, |thread| thread.cpu_ns + waited_ns(thread)).max(1) as f64
}

/// Returns the sum of a figure of all recorded tasks.
fn sum(recorded: &Recorded, figure: impl Fn(&Thread) -> u64) -> u64 {
    recorded.threads.iter().filter(|thread| thread.task.is_some()).map(figure).sum()
}

/// Returns the sum of the differences between a recorded and a replayed figure of each task, or of all of a name.
fn differences(
    recorded: &Recorded,
    replayed: &Totals,
    by_name: bool,
    (then, now): (impl Fn(&Thread) -> u64, impl Fn(&TaskTotals) -> u64),
) -> u64 {
    let mut sums = BTreeMap::<&str, (u64, u64)>::new();
    for thread in &recorded.threads {
        let Some(task) = thread.task else { continue };
        let name = recorded.workload.tasks[task].name.as_str();
        let sum = sums.entry(if by_name { &thread.comm } else { name }).or_default();
        *sum = (sum.0 + then(thread), sum.1 + replayed.get(name).map_or(0, &now));
    }
    sums.values().map(|(then, now)| then.abs_diff(*now)).sum()
}
