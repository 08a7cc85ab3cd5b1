//! Which real-time tasks could have every CPU for long, so that the machine hangs if its kernel lets them.
//!
//! Each program is walked through for its longest stretch without rest as a real-time task. It errs on the side of what hangs:
//!
//! * A loop is walked through twice; what did not rest in the second round never rests.
//! * Only time asleep is a rest. A timer does not sleep when its task comes late, and a lock may be free.
//! * A wait for another task is a rest unless that one may have no rest itself: two that hand a message to and fro for ever leave as little
//!   to others as two that compute.
//! * A task's CPUs are all that it may have at any time. Cpusets of groups do not count: `vruntime real` makes none.
//!
//! What it does not see are tasks that rest, each of them, but want more than all CPUs together.

mod tasks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity};
use vruntime_workload::program::Workload;

use crate::sys;
use tasks::Tasks;

/// What a set of hogs needs to know of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// CPUs that are online.
    pub(crate) online: BTreeSet<u32>,
    /// Those that threads of this process begin on.
    pub(crate) allowed: BTreeSet<u32>,
    /// Whether threads of this process begin as real-time tasks.
    pub(crate) real_time: bool,
}

impl Machine {
    /// This one.
    pub(crate) fn this() -> Self {
        let set = sched_getaffinity(None).unwrap_or_default();
        let allowed: BTreeSet<u32> =
            (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect();
        let online = fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|list| cpus_of(list.trim()));
        let real_time = sys::attr().is_ok_and(|attr| [sys::SCHED_FIFO, sys::SCHED_RR].contains(&attr.policy));
        Self { online: online.unwrap_or_else(|| allowed.clone()), allowed, real_time }
    }
}

/// The CPUs of a list such as `0-3,8`.
fn cpus_of(list: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(cpus)
}

/// Whether the kernel keeps real-time tasks from having everything: by its throttling, or by a server for the others (6.12 on). `root` is
/// where the file systems are.
pub(crate) fn throttled(root: &Path) -> bool {
    let number = |path: &str| fs::read_to_string(root.join(path)).ok().and_then(|text| text.trim().parse::<i64>().ok());
    // Where there are servers nothing else keeps real-time tasks back, whatever the limit says.
    if let Some(runtime) = number("sys/kernel/debug/sched/fair_server/cpu0/runtime") {
        return runtime > 0;
    }
    let runtime = number("proc/sys/kernel/sched_rt_runtime_us").unwrap_or(-1);
    let period = number("proc/sys/kernel/sched_rt_period_us").unwrap_or(0);
    (0..period).contains(&runtime)
}

/// How many real-time tasks hog a CPU, if they can have all that are online at one time; none if one is left. A task that is forked over and
/// over counts as often as there are CPUs.
pub(crate) fn take_all(workload: &Workload, machine: &Machine) -> Option<usize> {
    let all = machine.online.len();
    let tasks = Tasks::of(workload, machine);
    let instances = tasks.instances(all as u64);
    // Those of the same CPUs are interchangeable.
    let mut alike: BTreeMap<&BTreeSet<u32>, usize> = BTreeMap::new();
    let mut hogs = 0;
    for &task in &tasks.hogs() {
        hogs += instances[task] as usize;
        *alike.entry(&tasks.cpus[task]).or_default() += instances[task] as usize;
    }
    let alike: Vec<(&BTreeSet<u32>, usize)> = alike.into_iter().collect();
    let mut on = Matching { alike: &alike, has: vec![Vec::new(); alike.len()] };
    let covered = machine.online.iter().all(|&cpu| on.place(cpu, &mut vec![false; alike.len()]));
    covered.then_some(hogs)
}

/// Which CPUs hogs of the same affinity have.
struct Matching<'a> {
    /// Each affinity, and how many hogs have it.
    alike: &'a [(&'a BTreeSet<u32>, usize)],
    has: Vec<Vec<u32>>,
}

impl Matching<'_> {
    /// Finds a hog for one CPU more, if need be by moving others (Kuhn's augmenting path).
    fn place(&mut self, cpu: u32, tried: &mut Vec<bool>) -> bool {
        for this in 0..self.alike.len() {
            let (cpus, count) = self.alike[this];
            if tried[this] || !cpus.contains(&cpu) {
                continue;
            }
            tried[this] = true;
            let mut moved = self.has[this].len() < count;
            for index in 0..self.has[this].len() {
                if moved {
                    break;
                }
                moved = self.place(self.has[this][index], tried);
                if moved {
                    self.has[this].remove(index);
                }
            }
            if moved {
                self.has[this].push(cpu);
                return true;
            }
        }
        false
    }
}
