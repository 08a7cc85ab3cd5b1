//! Recorded names and ids of the tasks of a replay.

use std::collections::{BTreeMap, BTreeSet};

/// Made-up pids begin here: below are the kernel's own (0 is the idle task, 1 `init`, 2 `kthreadd`).
pub(crate) const FIRST_TASK_PID: u32 = 1000;
/// Linux has no pids from here on (`PID_MAX_LIMIT`).
const PID_MAX: i32 = 1 << 22;

/// What a recording calls a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its name there (`comm`).
    pub comm: String,
    /// Its recorded thread id. None, or one that another task has taken: it gets an unused one.
    pub pid: Option<i32>,
    /// Its process there, if that is known.
    pub tgid: Option<i32>,
}

/// What the tasks of a run are called in its traces, by the names that the run has for them. Whoever is not among them
/// keeps that name. No pid is given out twice, and none that the recording gave to somebody else.
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
    /// The name of each process.
    processes: BTreeMap<i32, String>,
    /// Pids that are somebody's in the recording, and those of them that have been given out.
    recorded: BTreeSet<i32>,
    given: BTreeSet<i32>,
    /// The next unused pid.
    next: i32,
}

impl Identities {
    /// Returns the identities of these tasks, each by its name in the run. Also takes the recorded pids of the stopper
    /// threads (`migration/N`) of the first CPUs, and all recorded pids.
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
                // A process is called what its first thread is.
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

    /// What the task of that name is called, if that is known.
    pub(crate) fn of(&self, name: &str) -> Option<&Identity> {
        self.known.get(name)
    }

    /// What that process is called.
    pub(crate) fn process(&self, tgid: i32) -> Option<&str> {
        self.processes.get(&tgid).map(String::as_str)
    }

    /// Whether the recording or a task has this pid.
    pub(crate) fn has(&self, pid: i32) -> bool {
        self.recorded.contains(&pid) || self.given.contains(&pid)
    }

    /// The pid of the stopper thread of that CPU.
    pub(crate) fn stopper(&mut self, cpu: usize) -> i32 {
        while self.stoppers.len() <= cpu {
            let pid = self.give(None);
            self.stoppers.push(pid);
        }
        self.stoppers[cpu]
    }

    /// Returns the wanted pid if it is unused; else another unused one.
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
    fn a_pid_is_given_once_and_nobody_gets_anothers() {
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
