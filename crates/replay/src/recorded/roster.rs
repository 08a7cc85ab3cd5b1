//! Which threads become tasks, with which names and starts.

use std::collections::BTreeMap;

use vruntime_workload::program::Before;

use super::How;
use super::threads::{self, Act};

/// Returns a thread's first operations in a replay, and its CPU: that of its first wakeup or event. `begins`: its
/// task's start, if no other forks it.
pub(super) fn before(thread: &threads::Thread, begins: u64) -> Option<Before> {
    let first = thread.stretches.first().filter(|_| begins == 0)?;
    Some(if thread.asleep_first || thread.born.is_some() {
        Before::Asleep(first.cpu)
    } else {
        Before::Runnable(first.cpu)
    })
}

/// Returns which threads become tasks. The simulated machine's own stoppers migrate the replay's tasks.
pub(super) fn kept(threads: &[threads::Thread], how: &How) -> Vec<bool> {
    let is_kept = |(index, thread): (usize, &threads::Thread)| {
        !thread.stretches.is_empty() && !super::is_stopper(&thread.comm) && !how.without.contains(&index)
    };
    threads.iter().enumerate().map(is_kept).collect()
}

/// Returns which threads begin with a fork in the replay. `forks` tells whether the replay has a thread's acts in a
/// stretch. A pool's members that its `attendant` forks exist from the beginning.
pub(super) fn forked(
    threads: &[threads::Thread],
    forks: impl Fn(usize, usize) -> bool,
    attendant: impl Fn(usize, usize) -> bool,
) -> Vec<bool> {
    let mut forked = vec![false; threads.len()];
    for (index, thread) in threads.iter().enumerate() {
        let stretches = thread.stretches.iter().enumerate().filter(|(stretch, _)| forks(index, *stretch));
        for (_, act) in stretches.flat_map(|(_, stretch)| &stretch.acts) {
            if let Act::Fork(child) = *act {
                forked[child] = !attendant(index, child);
            }
        }
    }
    forked
}

/// Names of tasks: threads with an earlier one's name and pid get a number.
#[derive(Default)]
pub(super) struct Names(BTreeMap<String, u32>);

impl Names {
    pub(super) fn of(&mut self, thread: &threads::Thread) -> String {
        let name = format!("{}-{}", thread.comm, thread.pid);
        let seen = self.0.entry(name.clone()).or_default();
        *seen += 1;
        if *seen > 1 { format!("{name}.{seen}") } else { name }
    }
}

/// Adds knowledge of processes from outside the events. Ids of two successive threads are ignored.
pub(super) fn add_processes(threads: &mut [threads::Thread], processes: &BTreeMap<i32, (i32, i32)>) {
    let mut users: BTreeMap<i32, usize> = BTreeMap::new();
    for thread in &*threads {
        *users.entry(thread.pid).or_default() += 1;
    }
    for thread in threads.iter_mut().filter(|thread| users.get(&thread.pid) == Some(&1)) {
        if let Some(&(process, parent)) = processes.get(&thread.pid) {
            thread.tgid.get_or_insert(process);
            thread.ppid = Some(parent);
        }
    }
    // Parents come before their children.
    for index in 0..threads.len() {
        let thread = &threads[index];
        let Some((_, parent)) = thread.born.filter(|_| thread.tgid.is_none()) else { continue };
        match (thread.shares_process, parent) {
            (Some(true), Some(parent)) => {
                (threads[index].tgid, threads[index].ppid) = (threads[parent].tgid, threads[parent].ppid);
            }
            (Some(false), _) => threads[index].tgid = Some(thread.pid),
            _ => {}
        }
    }
}
