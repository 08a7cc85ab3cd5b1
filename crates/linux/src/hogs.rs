//! Finds real-time tasks that could monopolize every CPU and so hang the machine.
//!
//! The search walks through each program for its longest stretch without a sleep as a real-time task. In doubt, a task
//! counts as dangerous:
//!
//! * A loop is walked through twice. A task that does not sleep in the second round never sleeps.
//! * Only sleep counts as rest. A timer does not sleep if its task is late, and a lock may be free.
//! * A wait for another task counts as rest unless that task may never rest: two tasks that exchange messages for ever
//!   leave no time to others.
//! * A task's CPUs are all that it may have at any time. Cpusets of groups do not count, since `vruntime real` creates
//!   none.
//!
//! Tasks that sleep can still monopolize all CPUs in total: [`demand`] adds up their demand.

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

/// Whether the kernel limits real-time tasks: by throttling, or by a server for other tasks on every online CPU
/// (6.12+). `root` is the folder of the file systems.
pub(crate) fn throttled(root: &Path, online: &BTreeSet<u32>) -> bool {
    let number = |path: &str| fs::read_to_string(root.join(path)).ok().and_then(|text| text.trim().parse::<i64>().ok());
    let server = |cpu: &u32| number(&format!("sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime"));
    let mut servers = online.iter().filter_map(server).peekable();
    // Where there are servers nothing else keeps real-time tasks back, whatever the limit says.
    if servers.peek().is_some() {
        return servers.all(|runtime| runtime > 0);
    }
    let runtime = number("proc/sys/kernel/sched_rt_runtime_us").unwrap_or(-1);
    let period = number("proc/sys/kernel/sched_rt_period_us").unwrap_or(0);
    (0..period).contains(&runtime)
}

/// The tasks that would monopolize every CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takers {
    /// This number of real-time tasks that never sleep.
    Hogs(usize),
    /// This number of real-time tasks with this total demand, percent of a CPU.
    Together { tasks: usize, percent: u64 },
}

/// Returns the real-time tasks that can have all online CPUs for long. A hog that is forked repeatedly counts once for
/// each CPU.
pub(crate) fn take_all(workload: &Workload, machine: &Machine) -> Option<Takers> {
    let tasks = Tasks::of(workload, machine);
    let instances = tasks.instances(machine.online.len() as u64);
    let hogs = tasks.hogs();
    // What is wanted of which CPUs; who may run on the same is interchangeable.
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
        // More than all there are nobody can have.
        let wants = wants.min(demand::WHOLE * machine.online.len() as u64);
        count += instances[task];
        wanted += wants;
        *alike.entry(&tasks.cpus[task]).or_default() += wants;
    }
    let percent = wanted / (demand::WHOLE / 100);
    covered(&alike, &machine.online).then_some(Takers::Together { tasks: count as usize, percent })
}

/// Whether the demand can be distributed so that all of `cpus` are too busy for other tasks.
///
/// Ford and Fulkerson's maximum flow, by shortest paths, one CPU at a time: the missing work of a CPU comes from tasks
/// that may run there, or from others that are replaced elsewhere.
fn covered(wanted: &BTreeMap<&BTreeSet<u32>, u64>, cpus: &BTreeSet<u32>) -> bool {
    let wanted: Vec<(&BTreeSet<u32>, u64)> = wanted.iter().map(|(&cpus, &wants)| (cpus, wants)).collect();
    let mut left: Vec<u64> = wanted.iter().map(|&(_, wants)| wants).collect();
    // What of each is where.
    let mut placed: Vec<BTreeMap<u32, u64>> = vec![BTreeMap::new(); wanted.len()];
    for &cpu in cpus {
        let mut lacking = demand::MOST;
        while lacking > 0 {
            // From whom it may come: itself, or by the CPU that it leaves to another.
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
            // The way back to `cpu`: each gives way where the one before comes.
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
