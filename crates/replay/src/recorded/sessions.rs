//! Threads' sessions, for autogroup.

use std::collections::BTreeMap;

use super::placing::{completed, inherited, known_of_first, woken_by_exit};
use super::threads::Thread;
use vruntime_workload::cgroups::{Autogroup, Cgroups};
use vruntime_workload::program::Session;

/// First parts of kernel threads' names.
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

/// Whether a kernel thread has this name.
pub(super) fn is_kernel_thread(comm: &str) -> bool {
    KERNEL_THREADS.iter().any(|name| comm.starts_with(name))
}

/// Threads' sessions.
pub(super) struct Sessions {
    /// Each thread's session. None: it has none, or it is unknown.
    pub(super) of: Vec<Option<usize>>,
    /// Whether each thread certainly has none, though it is not of the kernel.
    pub(super) sessionless: Vec<bool>,
    pub(super) all: Vec<Session>,
    /// The number of threads with recorded sessions.
    pub(super) recorded: u64,
}

/// Returns the machine's sessions, inherited at forks. Without these, a session is a process with its descendants.
/// Threads of unknown process are in the default session. Kernel threads have none.
pub(super) fn sessions(threads: &[Thread], machine: Option<&Cgroups>) -> Sessions {
    let guessed = guessed(threads);
    let mut known =
        known_of_first(threads, |thread| machine.and_then(|machine| machine.autogroup_of(thread.pid, thread.tgid)));
    let recorded = known.iter().filter(|known| matches!(known, Some(Some(_)))).count() as u64;
    let of_parent = |_, _, parent: &Option<Option<Autogroup>>| *parent;
    let all = inherited(threads, known.clone(), of_parent);
    // Early files lack the sessions of processes that began while they were read.
    let lost = |thread: &Thread| {
        thread.born.is_none() && woken_by_exit(thread).is_some_and(|parent| matches!(all[parent], Some(Some(_))))
    };
    for (index, thread) in threads.iter().enumerate() {
        if known[index] == Some(None) && lost(thread) {
            known[index] = None;
        }
    }
    known = completed(threads, inherited(threads, known, of_parent));
    known = inherited(threads, known, of_parent);
    let sessionless: Vec<bool> = threads
        .iter()
        .zip(&known)
        .map(|(thread, known)| *known == Some(None) && !is_kernel_thread(&thread.comm))
        .collect();
    let (mut by_id, mut by_guess, mut all) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let mut session = |name: String, nice: i8| {
        all.push(Session { name, nice });
        all.len() - 1
    };
    let of = threads.iter().zip(known).zip(guessed).map(|((thread, known), guessed)| match known {
        _ if is_kernel_thread(&thread.comm) => None,
        Some(known) => known.map(|autogroup| {
            *by_id.entry(autogroup.id).or_insert_with(|| session(autogroup.id.to_string(), autogroup.nice))
        }),
        None => guessed.map(|first| {
            let thread = &threads[first];
            *by_guess.entry(first).or_insert_with(|| session(format!("{}-{}", thread.comm, thread.pid), 0))
        }),
    });
    let of = of.collect();
    Sessions { of, sessionless, all, recorded }
}

/// Returns the first thread of each one's likely session, by processes and forks; none: even its process is unknown.
fn guessed(threads: &[Thread]) -> Vec<Option<usize>> {
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
    (0..threads.len()).map(|index| known[index].then(|| find(&mut root, index))).collect()
}

/// Returns the representative of the set of `index`.
fn find(root: &mut [usize], mut index: usize) -> usize {
    while root[index] != index {
        root[index] = root[root[index]];
        index = root[index];
    }
    index
}
