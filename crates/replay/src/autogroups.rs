//! CPU time of autogroups in a recording.

use std::collections::BTreeSet;

use crate::recorded::{Recorded, Thread};

/// Returns the recorded CPU time of an autogroup's tasks outside task groups, nanoseconds. None for other paths. Tasks
/// without session have no autogroup.
pub(super) fn recorded_ns(recorded: &Recorded, path: &str) -> Option<u64> {
    let workload = &recorded.workload;
    let session = match path.strip_prefix("/autogroup")? {
        "" => None,
        name => {
            let name = name.strip_prefix('-')?;
            Some(workload.sessions.iter().position(|session| session.name == name)?)
        }
    };
    let groups: BTreeSet<&str> = workload.groups.iter().skip(1).map(|group| group.path.as_str()).collect();
    if groups.contains(path) {
        return None;
    }
    let in_group = |path: &str| {
        let within =
            |group: &&str| path.strip_prefix(*group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        groups.iter().any(within)
    };
    let had = |thread: &Thread| -> u64 {
        let elsewhere = thread.stays.iter().filter(|(path, _)| in_group(path)).map(|(_, cpu_ns)| cpu_ns).sum();
        thread.cpu_ns.saturating_sub(elsewhere)
    };
    let has_none = |task: usize| workload.kernel_threads.contains(&task) || workload.sessionless.contains(&task);
    let of_session =
        |thread: &&Thread| thread.task.is_some_and(|task| workload.tasks[task].session == session && !has_none(task));
    Some(recorded.threads.iter().filter(of_session).map(had).sum())
}
