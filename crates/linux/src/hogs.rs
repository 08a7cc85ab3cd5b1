//! Finds real-time tasks that could monopolize every CPU and so hang the machine.
//!
//! The search finds each program's longest sleepless stretch as a real-time task. In doubt, a task is dangerous:
//!
//! * Loops are walked twice. A task sleepless in the second round never sleeps.
//! * A timer does not sleep if its task is late, and a lock may be free.
//! * A wait for another task is sleep, unless that task may never sleep (two tasks exchanging messages).
//! * A task's CPUs are all it may ever have. Groups' cpusets are ignored, since `vruntime real` creates none.
//!
//! Sleeping tasks can still monopolize all CPUs together ([`demand`]).

mod demand;
mod tasks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity};
use vruntime_workload::program::Workload;

use crate::sys;
use tasks::Tasks;

/// The relevant state of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) online: BTreeSet<u32>,
    /// CPUs on which threads of this process begin.
    pub(crate) allowed: BTreeSet<u32>,
    pub(crate) real_time: bool,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let set = sched_getaffinity(None).unwrap_or_default();
        let allowed: BTreeSet<u32> =
            (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect();
        let online = fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|list| cpus_of(list.trim()));
        let real_time = sys::attr().is_ok_and(|attr| [sys::SCHED_FIFO, sys::SCHED_RR].contains(&attr.policy));
        Self { online: online.unwrap_or_else(|| allowed.clone()), allowed, real_time }
    }
}

/// Parses a list such as `0-3,8`.
fn cpus_of(list: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(cpus)
}

/// Whether the kernel limits real-time tasks, by throttling or by a fair server on every online CPU (6.12+). `root`:
/// the file systems' folder.
pub(crate) fn throttled(root: &Path, online: &BTreeSet<u32>) -> bool {
    let number = |path: &str| fs::read_to_string(root.join(path)).ok().and_then(|text| text.trim().parse::<i64>().ok());
    let server = |cpu: &u32| number(&format!("sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime"));
    let mut servers = online.iter().filter_map(server).peekable();
    // With servers nothing else limits real-time tasks.
    if servers.peek().is_some() {
        return servers.all(|runtime| runtime > 0);
    }
    let runtime = number("proc/sys/kernel/sched_rt_runtime_us").unwrap_or(-1);
    let period = number("proc/sys/kernel/sched_rt_period_us").unwrap_or(0);
    (0..period).contains(&runtime)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takers {
    /// Number of real-time tasks that never sleep.
    Hogs(usize),
    /// Number of real-time tasks, and total demand, percent of a CPU.
    Together { tasks: usize, percent: u64 },
}

/// Returns the real-time tasks that can monopolize all online CPUs. A repeatedly forked hog counts once per CPU.
pub(crate) fn take_all(workload: &Workload, machine: &Machine) -> Option<Takers> {
    let tasks = Tasks::of(workload, machine);
    let instances = tasks.instances(machine.online.len() as u64);
    let hogs = tasks.hogs();
    // Demand by set of allowed CPUs.
    let mut alike: BTreeMap<&BTreeSet<u32>, u64> = BTreeMap::new();
    for &task in &hogs {
        *alike.entry(&tasks.cpus[task]).or_default() += demand::MOST * instances[task];
    }
    if covered(&alike, &machine.online) {
        return Some(Takers::Hogs(hogs.iter().map(|&task| instances[task] as usize).sum()));
    }
    let mut count: u64 = hogs.iter().map(|&task| instances[task]).sum();
    let mut wanted = count * demand::WHOLE;
    let instances = tasks.instances(crate::run::MAX_THREADS as u64);
    let wants = demand::wants(&tasks, &instances, &hogs);
    for (task, &wants) in wants.iter().enumerate().filter(|&(_, &wants)| wants > 0) {
        // Demand cannot exceed the machine.
        let wants = wants.min(demand::WHOLE * machine.online.len() as u64);
        count += instances[task];
        wanted += wants;
        *alike.entry(&tasks.cpus[task]).or_default() += wants;
    }
    let percent = wanted / (demand::WHOLE / 100);
    covered(&alike, &machine.online).then_some(Takers::Together { tasks: count as usize, percent })
}

/// Whether the distributed demand can make all `cpus` too busy for others.
///
/// Maximum flow by shortest paths, CPU by CPU. Missing work is of tasks allowed there, or others replaced
/// elsewhere.
fn covered(wanted: &BTreeMap<&BTreeSet<u32>, u64>, cpus: &BTreeSet<u32>) -> bool {
    let wanted: Vec<(&BTreeSet<u32>, u64)> = wanted.iter().map(|(&cpus, &wants)| (cpus, wants)).collect();
    let mut left: Vec<u64> = wanted.iter().map(|&(_, wants)| wants).collect();
    // The work of each set on each CPU.
    let mut placed: Vec<BTreeMap<u32, u64>> = vec![BTreeMap::new(); wanted.len()];
    for &cpu in cpus {
        let mut lacking = demand::MOST;
        while lacking > 0 {
            // For each set, the CPU that it leaves; None for the source.
            let mut through: Vec<Option<u32>> = vec![None; wanted.len()];
            let mut from: BTreeMap<u32, Option<usize>> = BTreeMap::from([(cpu, None)]);
            let mut look = VecDeque::from([cpu]);
            let mut source = None;
            'search: while let Some(at) = look.pop_front() {
                for this in 0..wanted.len() {
                    if through[this].is_some() || !wanted[this].0.contains(&at) {
                        continue;
                    }
                    through[this] = Some(at);
                    if left[this] > 0 {
                        source = Some(this);
                        break 'search;
                    }
                    for (&elsewhere, _) in placed[this].iter().filter(|&(_, &part)| part > 0) {
                        from.entry(elsewhere).or_insert_with(|| {
                            look.push_back(elsewhere);
                            Some(this)
                        });
                    }
                }
            }
            let Some(source) = source else { return false };
            // The path back to `cpu`.
            let mut way = Vec::new();
            let mut amount = lacking.min(left[source]);
            let mut this = source;
            while let Some(at) = through[this] {
                let gives_way = from.get(&at).copied().flatten();
                way.push((this, at, gives_way));
                let Some(next) = gives_way else { break };
                amount = amount.min(placed[next].get(&at).copied().unwrap_or(0));
                this = next;
            }
            left[source] -= amount;
            lacking -= amount;
            for (this, at, gives_way) in way {
                *placed[this].entry(at).or_default() += amount;
                if let Some(part) = gives_way.and_then(|next| placed[next].get_mut(&at)) {
                    *part -= amount;
                }
            }
        }
    }
    true
}
