//! Maps tasks of a replay to recorded ones, so that its traces have recorded names.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_trace::{Identities, Identity};
use vruntime_workload::program::Workload;

use crate::recorded::Recorded;

/// Returns the identities of the tasks of `workload` in traces.
///
/// A recorded task keeps its name and pid. A copy has its original's name, and another pid. The first `copies` tasks
/// are recorded ones or copies. Other tasks keep their names. `cpus` is the run's number of CPUs.
pub fn identities(recorded: &Recorded, workload: &Workload, copies: usize, cpus: usize) -> Identities {
    let mut met = BTreeSet::new();
    let mut known = BTreeMap::new();
    for thread in &recorded.threads {
        let Some(task) = thread.task else { continue };
        // The first of two threads keeps a reused pid.
        let pid = met.insert(thread.pid).then_some(thread.pid);
        let identity = Identity { comm: thread.comm.clone(), pid, tgid: thread.tgid };
        known.insert(recorded.workload.tasks[task].name.as_str(), identity);
    }
    let tasks = workload.tasks.iter().take(copies).map(|task| {
        let of_copy = || Identity {
            comm: task.class.clone(),
            pid: None,
            tgid: task.process.and_then(|process| i32::try_from(process).ok()),
        };
        (task.name.clone(), known.get(task.name.as_str()).cloned().unwrap_or_else(of_copy))
    });
    let stopper = |cpu: usize| {
        let name = format!("migration/{cpu}");
        recorded.threads.iter().find(|thread| thread.task.is_none() && thread.comm == name).map(|thread| thread.pid)
    };
    let pids = recorded.threads.iter().flat_map(|thread| thread.tgid.into_iter().chain([thread.pid]));
    Identities::new(tasks, (0..cpus).map(stopper), pids)
}
