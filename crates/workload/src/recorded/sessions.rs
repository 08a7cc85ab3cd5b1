//! Which threads are in one session, for autogroup.

use std::collections::BTreeMap;

use super::lives::Thread;
use crate::program::Session;

/// What the names of the kernel's own threads begin with.
const KERNEL_THREADS: &[&str] = &[
    "cpuhp/",
    "irq/",
    "jbd2/",
    "kauditd",
    "kcompactd",
    "kdamond",
    "kdevtmpfs",
    "khugepaged",
    "khungtaskd",
    "kintegrityd",
    "kblockd",
    "ksmd",
    "ksoftirqd",
    "kswapd",
    "kthreadd",
    "kworker",
    "migration/",
    "oom_reaper",
    "rcu_",
    "rcuc/",
    "rcuo",
    "rcub/",
    "scsi_eh_",
    "watchdog",
];

/// Whether a thread of this name is the kernel's.
pub(super) fn is_kernel_thread(comm: &str) -> bool {
    KERNEL_THREADS.iter().any(|name| comm.starts_with(name))
}

/// The session of each thread, and all there are. No trace tells them, so a session is a process with what it forks; threads of which
/// not even the process is known are in the default one, as are those of the kernel, which are in none.
pub(super) fn sessions(threads: &[Thread]) -> (Vec<Option<usize>>, Vec<Session>) {
    let mut root: Vec<usize> = (0..threads.len()).collect();
    let mut leader: BTreeMap<i32, usize> = BTreeMap::new();
    let mut known: Vec<bool> = threads.iter().map(|thread| thread.tgid.is_some()).collect();
    for (index, thread) in threads.iter().enumerate() {
        let parent =
            thread.born.and_then(|(_, parent)| parent).filter(|&parent| !is_kernel_thread(&threads[parent].comm));
        let process = thread.tgid.map(|tgid| *leader.entry(tgid).or_insert(index));
        for with in [parent, process].into_iter().flatten() {
            known[index] |= known[with];
            let (a, b) = (find(&mut root, index), find(&mut root, with));
            root[a.max(b)] = a.min(b);
        }
    }
    let (mut numbers, mut all) = (BTreeMap::new(), Vec::new());
    let sessions = (0..threads.len()).map(|index| {
        if !known[index] || is_kernel_thread(&threads[index].comm) {
            return None;
        }
        let first = find(&mut root, index);
        Some(*numbers.entry(first).or_insert_with(|| {
            let thread = &threads[first];
            all.push(Session { name: format!("{}-{}", thread.comm, thread.pid), nice: 0 });
            all.len() - 1
        }))
    });
    (sessions.collect(), all)
}

/// Who stands for all that `index` is with.
fn find(root: &mut [usize], mut index: usize) -> usize {
    while root[index] != index {
        root[index] = root[root[index]];
        index = root[index];
    }
    index
}
