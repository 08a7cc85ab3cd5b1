//! Recorded names and ids of the tasks of a replay.

use std::collections::{BTreeMap, BTreeSet};

/// The first made-up pid; the kernel's own are below (0 the idle task, 1 `init`, 2 `kthreadd`).
pub(crate) const FIRST_TASK_PID: u32 = 1000;
/// `PID_MAX_LIMIT`.
const PID_MAX: i32 = 1 << 22;

/// The recorded counterpart of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its recorded name (`comm`).
    pub comm: String,
    /// Its recorded thread id. Without an unused one, the task gets another.
    pub pid: Option<i32>,
    /// Its process, if known.
    pub tgid: Option<i32>,
}

/// Maps the tasks of a run, by name, to recorded ones for its traces. Other tasks keep their names, with unused pids.
///
/// ```
/// use vruntime_trace::{Event, FtraceWriter, CpuId, Identities, Identity, Sink, TaskId, TaskInfo};
///
/// let web = Identity { comm: "web".to_owned(), pid: Some(4711), tgid: Some(4700) };
/// let identities = Identities::new([("web-4711".to_owned(), web)], [], [4700, 4711]);
/// let mut text = FtraceWriter::new(Vec::new(), 1).with_identities(identities);
/// text.task(TaskId(0), &TaskInfo { name: "web-4711", ..TaskInfo::default() });
/// text.event(0, CpuId(0), &Event::Waking { task: TaskId(0), irq: false });
/// let text = String::from_utf8(text.finish_writing()?)?;
/// assert!(text.contains("comm=web pid=4711 "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identities {
    known: BTreeMap<String, Identity>,
    stoppers: Vec<i32>,
    processes: BTreeMap<i32, String>,
    /// All recorded pids, and all used pids.
    recorded: BTreeSet<i32>,
    given: BTreeSet<i32>,
    next: i32,
}

impl Identities {
    /// Takes identities by name in the run, the recorded pids of the first CPUs' stoppers (`migration/N`), and all
    /// recorded pids.
    pub fn new(
        tasks: impl IntoIterator<Item = (String, Identity)>,
        stoppers: impl IntoIterator<Item = Option<i32>>,
        recorded: impl IntoIterator<Item = i32>,
    ) -> Self {
        let mut known = BTreeMap::new();
        let mut recorded: BTreeSet<i32> = recorded.into_iter().filter(|&pid| pid > 0).collect();
        let mut processes = BTreeMap::new();
        for (name, mut identity) in tasks {
            identity.pid = identity.pid.filter(|&pid| pid > 0);
            identity.tgid = identity.tgid.filter(|&tgid| tgid > 0);
            recorded.extend(identity.pid.into_iter().chain(identity.tgid));
            if let Some(tgid) = identity.tgid {
                // A process has the name of its first thread.
                if identity.pid == Some(tgid) || !processes.contains_key(&tgid) {
                    processes.insert(tgid, identity.comm.clone());
                }
            }
            known.insert(name, identity);
        }
        let after = recorded.last().map_or(0, |last| last.saturating_add(1));
        let room = after < PID_MAX / 2;
        let next = if room { after.max(FIRST_TASK_PID as i32) } else { FIRST_TASK_PID as i32 };
        let mut identities = Self { known, stoppers: Vec::new(), processes, recorded, given: BTreeSet::new(), next };
        for pid in stoppers {
            let pid = identities.give(pid);
            identities.stoppers.push(pid);
        }
        identities
    }

    pub(crate) fn of(&self, name: &str) -> Option<&Identity> {
        self.known.get(name)
    }

    pub(crate) fn process(&self, tgid: i32) -> Option<&str> {
        self.processes.get(&tgid).map(String::as_str)
    }

    /// Whether this pid is recorded or used.
    pub(crate) fn has(&self, pid: i32) -> bool {
        self.recorded.contains(&pid) || self.given.contains(&pid)
    }

    /// Returns the stopper's pid of that CPU.
    pub(crate) fn stopper(&mut self, cpu: usize) -> i32 {
        while self.stoppers.len() <= cpu {
            let pid = self.give(None);
            self.stoppers.push(pid);
        }
        self.stoppers[cpu]
    }

    /// Returns the wanted pid, or another unused one.
    pub(crate) fn give(&mut self, wanted: Option<i32>) -> i32 {
        if let Some(pid) = wanted.filter(|&pid| pid > 0)
            && self.given.insert(pid)
        {
            return pid;
        }
        while self.has(self.next) {
            self.next = self.next.saturating_add(1);
        }
        self.given.insert(self.next);
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web(pid: i32) -> Identity {
        Identity { comm: "web".to_owned(), pid: Some(pid), tgid: Some(pid) }
    }

    #[test]
    fn no_two_tasks_get_the_same_pid() {
        let tasks = [("web-1001".to_owned(), web(1001)), ("web-1001.2".to_owned(), web(1001))];
        let mut identities = Identities::new(tasks, [Some(20), None], [1002, 1003, -4]);
        assert_eq!((identities.stopper(0), identities.stopper(1), identities.stopper(2)), (20, 1004, 1005));
        assert_eq!((identities.give(Some(1001)), identities.give(Some(1001))), (1001, 1006));
        assert_eq!((identities.give(None), identities.give(Some(-3))), (1007, 1008));
    }

    #[test]
    fn a_recording_that_had_the_last_pid_leaves_room_below_it() {
        let mut identities = Identities::new([("web".to_owned(), web(i32::MAX))], [], [1000, 1001]);
        assert_eq!((identities.give(Some(i32::MAX)), identities.give(Some(i32::MAX))), (i32::MAX, 1002));
    }
}
