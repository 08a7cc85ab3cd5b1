//! From perf's records of context switches, forks, names and ends to scheduler events.
//!
//! These records have no format of their own in the kernel's tracing, so the formats are here. They have the names and
//! fields of the kernel's events. Fields that perf does not record are left out.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::snapshot::{Snapshot, TaskState};

/// A task's name, as events have it.
type Comm = [u8; 16];

/// States of `prev_state`, and the bit for preemption (4.14+).
const RUNNABLE: u64 = 0;
const SLEEPING: u64 = 1;
const DEAD: u64 = 0x10;
const PREEMPTED: u64 = 0x100;
/// `clone_flags` of a thread.
const CLONE_THREAD: u64 = 0x10000;
/// `prio` of nice 0.
const DEFAULT_PRIO: i32 = 120;

/// A record of perf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    /// The task leaves the CPU, for `next` if known.
    Out {
        tid: i32,
        next: Option<i32>,
        preempted: bool,
    },
    /// The task gets the CPU, from `prev` if known.
    In {
        tid: i32,
        prev: Option<i32>,
    },
    Fork {
        pid: i32,
        tid: i32,
        parent_pid: i32,
        parent: i32,
    },
    Exit {
        tid: i32,
    },
    Name {
        tid: i32,
        comm: Comm,
    },
}

#[derive(Clone, Copy, Debug)]
struct Task {
    comm: Comm,
    prio: i32,
    /// Whether it has begun to end.
    ended: bool,
}

/// Thread id of tasks of CPU 0 that are not recorded: the highest of all (`PID_MAX_LIMIT`). A kernel uses it after
/// 4 million forks. The next CPU has the next lower one.
const UNSEEN: i32 = (1 << 22) - 1;

/// Converts records in order of time.
#[derive(Debug)]
pub(super) struct Switches {
    tasks: BTreeMap<i32, Task>,
    /// The task of each CPU, if known.
    running: Vec<Option<i32>>,
    /// Whether all tasks are recorded.
    wide: bool,
}

impl Switches {
    pub(super) fn new(cpus: u32, wide: bool) -> Self {
        // In a recording of some tasks, a CPU without them counts as idle.
        let running = vec![(!wide).then_some(0); cpus as usize];
        Self { tasks: BTreeMap::new(), running, wide }
    }

    /// Adds names and priorities of tasks.
    pub(super) fn know(&mut self, snapshot: &Snapshot) {
        for task in &snapshot.tasks {
            self.tasks.insert(task.tid, Task { comm: comm(task.comm.as_bytes()), prio: prio(task), ended: false });
        }
    }

    /// Forgets which task a CPU runs, after a loss.
    pub(super) fn lost(&mut self, cpu: u32) {
        if let Some(running) = self.running.get_mut(cpu as usize) {
            *running = (!self.wide).then_some(0);
        }
    }

    /// Converts a record of `cpu`, calling `emit` for each event.
    pub(super) fn convert(&mut self, cpu: u32, noted: &Noted, emit: &mut dyn FnMut(&[u8])) {
        let Some(&running) = self.running.get(cpu as usize) else { return };
        match *noted {
            Noted::Out { tid, next, preempted } => {
                let ended = self.tasks.get(&tid).is_some_and(|task| task.ended);
                if ended && running == Some(0) && !self.wide {
                    return;
                }
                // The record of its begin may be lost.
                let state = if preempted {
                    PREEMPTED
                } else if ended {
                    DEAD
                } else {
                    SLEEPING
                };
                // An unknown successor of a preempted task is no idle CPU.
                let unseen = if preempted { UNSEEN - cpu as i32 } else { 0 };
                self.switch(cpu, tid, state, next.unwrap_or(unseen), emit);
            }
            Noted::In { tid, prev } => {
                if running != Some(tid) {
                    let prev = running.or(prev).unwrap_or(0);
                    let state = if self.is_unseen(prev) { SLEEPING } else { RUNNABLE };
                    self.switch(cpu, prev, state, tid, emit);
                }
            }
            Noted::Fork { pid, tid, parent_pid, parent } => {
                let of = self.tasks.get(&parent).copied();
                let Task { comm, prio, .. } = of.unwrap_or(Task { comm: [0; 16], prio: DEFAULT_PRIO, ended: false });
                self.tasks.insert(tid, Task { comm, prio, ended: false });
                let flags = if pid == parent_pid { CLONE_THREAD } else { 0 };
                emit(&Record::new(&NEW, parent).i32(tid).comm(&comm).u64(flags).bytes);
                emit(&Record::new(&FORK, parent).comm(&comm).i32(parent).comm(&comm).i32(tid).bytes);
            }
            Noted::Exit { tid } => {
                let Task { comm, prio, .. } = self.task(tid);
                self.tasks.insert(tid, Task { comm, prio, ended: true });
                emit(&Record::new(&EXIT, tid).comm(&comm).i32(tid).i32(prio).bytes);
                // A task's own records end here.
                if !self.wide && running == Some(tid) {
                    self.switch(cpu, tid, DEAD, 0, emit);
                }
            }
            Noted::Name { tid, comm } => {
                let Task { comm: old, prio, ended } = self.task(tid);
                self.tasks.insert(tid, Task { comm, prio, ended });
                emit(&Record::new(&RENAME, tid).i32(tid).comm(&old).comm(&comm).bytes);
            }
        }
    }

    fn switch(&mut self, cpu: u32, prev: i32, state: u64, next: i32, emit: &mut dyn FnMut(&[u8])) {
        // The idle task is runnable.
        let state = if prev == 0 { RUNNABLE } else { state };
        let (from, to) = (self.task(prev), self.task(next));
        let record = Record::new(&SWITCH, prev).comm(&from.comm).i32(prev).i32(from.prio).u64(state);
        emit(&record.comm(&to.comm).i32(next).i32(to.prio).bytes);
        if let Some(running) = self.running.get_mut(cpu as usize) {
            *running = Some(next);
        }
    }

    fn is_unseen(&self, tid: i32) -> bool {
        !self.wide && tid > UNSEEN - self.running.len() as i32 && !self.tasks.contains_key(&tid)
    }

    fn task(&self, tid: i32) -> Task {
        let name: &[u8] = match tid {
            0 => b"swapper",
            _ if self.is_unseen(tid) => b"<unseen>",
            _ => b"",
        };
        let unknown = Task { comm: comm(name), prio: DEFAULT_PRIO, ended: false };
        self.tasks.get(&tid).copied().unwrap_or(unknown)
    }
}

/// Returns a name as events have it: at most 15 bytes, and zeros.
pub(super) fn comm(name: &[u8]) -> Comm {
    let mut comm = Comm::default();
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len()).min(comm.len() - 1);
    comm[..end].copy_from_slice(&name[..end]);
    comm
}

/// Returns the kernel's `prio`.
fn prio(task: &TaskState) -> i32 {
    match task.policy {
        "deadline" => -1,
        "fifo" | "rr" => 99 - task.rt_priority as i32,
        _ => DEFAULT_PRIO + task.nice,
    }
}

/// An event: its names, id, and fields behind the common ones.
#[derive(Debug)]
struct Event {
    system: &'static str,
    name: &'static str,
    id: u16,
    fields: &'static [(&'static str, u32)],
    print: &'static str,
}

const COMM: u32 = 16;
const SWITCH: Event = Event {
    system: "sched",
    name: "sched_switch",
    id: 1001,
    fields: &[
        ("char prev_comm[16]", COMM),
        ("pid_t prev_pid", 4),
        ("int prev_prio", 4),
        ("u64 prev_state", 8),
        ("char next_comm[16]", COMM),
        ("pid_t next_pid", 4),
        ("int next_prio", 4),
    ],
    print: "\"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d\", \
            REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, \
            \"|\", { 0x01, \"S\" }, { 0x10, \"X\" }) : \"R\", (REC->prev_state & 0x100) ? \"+\" : \"\", REC->next_comm, \
            REC->next_pid, REC->next_prio",
};
const FORK: Event = Event {
    system: "sched",
    name: "sched_process_fork",
    id: 1002,
    fields: &[
        ("char parent_comm[16]", COMM),
        ("pid_t parent_pid", 4),
        ("char child_comm[16]", COMM),
        ("pid_t child_pid", 4),
    ],
    print: "\"comm=%s pid=%d child_comm=%s child_pid=%d\", REC->parent_comm, REC->parent_pid, REC->child_comm, REC->child_pid",
};
const EXIT: Event = Event {
    system: "sched",
    name: "sched_process_exit",
    id: 1003,
    fields: &[("char comm[16]", COMM), ("pid_t pid", 4), ("int prio", 4)],
    print: "\"comm=%s pid=%d prio=%d\", REC->comm, REC->pid, REC->prio",
};
const NEW: Event = Event {
    system: "task",
    name: "task_newtask",
    id: 1004,
    fields: &[("pid_t pid", 4), ("char comm[16]", COMM), ("u64 clone_flags", 8)],
    print: "\"pid=%d comm=%s clone_flags=%llx\", REC->pid, REC->comm, REC->clone_flags",
};
const RENAME: Event = Event {
    system: "task",
    name: "task_rename",
    id: 1005,
    fields: &[("pid_t pid", 4), ("char oldcomm[16]", COMM), ("char newcomm[16]", COMM)],
    print: "\"pid=%d oldcomm=%s newcomm=%s\", REC->pid, REC->oldcomm, REC->newcomm",
};
const EVENTS: [&Event; 5] = [&SWITCH, &FORK, &EXIT, &NEW, &RENAME];

/// Names of the events, `SYSTEM/NAME`.
pub(super) fn names() -> Vec<String> {
    EVENTS.iter().map(|event| format!("{}/{}", event.system, event.name)).collect()
}

/// Returns the formats of the events, by system.
pub(super) fn formats() -> Vec<(String, Vec<Vec<u8>>)> {
    let of = |system: &str| {
        let events = EVENTS.iter().filter(|event| event.system == system);
        (system.to_owned(), events.map(|event| event.format().into_bytes()).collect())
    };
    vec![of("sched"), of("task")]
}

impl Event {
    fn format(&self) -> String {
        let mut text = format!(
            "name: {}\nID: {}\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
             \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
             \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n",
            self.name, self.id
        );
        let mut offset = 8;
        for (field, size) in self.fields {
            let signed = u8::from(!field.starts_with("char") && !field.starts_with('u'));
            let _ = writeln!(text, "\tfield:{field};\toffset:{offset};\tsize:{size};\tsigned:{signed};");
            offset += size;
        }
        let _ = write!(text, "\nprint fmt: {}\n", self.print);
        text
    }
}

/// A record of an event, field by field.
struct Record {
    bytes: Vec<u8>,
}

impl Record {
    fn new(event: &Event, pid: i32) -> Self {
        let mut bytes = Vec::with_capacity(72);
        bytes.extend_from_slice(&event.id.to_ne_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&pid.to_ne_bytes());
        Self { bytes }
    }

    fn i32(mut self, value: i32) -> Self {
        self.bytes.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.bytes.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn comm(mut self, comm: &Comm) -> Self {
        self.bytes.extend_from_slice(comm);
        self
    }
}

#[cfg(test)]
mod tests {
    use vruntime_trace::recording::{Formats, PageWriter, TraceDatFile};
    use vruntime_trace::{TaskState as Left, Tracepoint, read::TraceDat};

    use super::*;

    const SIZE: usize = 4096;

    /// Converts records of a CPU and returns the events as text.
    fn events(wide: bool, records: &[Noted]) -> Vec<String> {
        let snapshot = Snapshot {
            tasks: vec![
                TaskState { tid: 7, comm: "seven".to_owned(), nice: 5, policy: "other", ..TaskState::default() },
                TaskState { tid: 8, comm: "eight".to_owned(), rt_priority: 1, policy: "fifo", ..TaskState::default() },
            ],
            ..Snapshot::default()
        };
        let mut switches = Switches::new(1, wide);
        switches.know(&snapshot);
        let (mut pages, mut out) = (PageWriter::new(SIZE), Vec::new());
        for (at, noted) in records.iter().enumerate() {
            switches.convert(0, noted, &mut |record| pages.event(at as u64, record, &mut out).unwrap());
        }
        pages.finish(&mut out).unwrap();
        let formats = Formats {
            header_page: PageWriter::header_page(SIZE).into_bytes(),
            systems: formats(),
            ..Formats::default()
        };
        let file = TraceDatFile { page_size: SIZE as u32, formats, ..TraceDatFile::default() };
        let mut bytes = Vec::new();
        file.head(&mut bytes, &[out.len() as u64]).unwrap();
        bytes.extend_from_slice(&out);
        let mut dat = TraceDat::new(std::io::Cursor::new(bytes)).unwrap();
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let mut all = Vec::new();
        while let Some(record) = dat.next_record().unwrap() {
            all.push(match record.point {
                Tracepoint::Switch { prev, prev_prio, prev_state, next, next_prio } => {
                    assert_eq!(record.pid, prev.pid);
                    let state = if prev_state == Left::Unknown { "?" } else { prev_state.letters() };
                    let (from, to) = (text(prev.comm), text(next.comm));
                    format!("{from}-{}:{prev_prio} {state} {to}-{}:{next_prio}", prev.pid, next.pid)
                }
                Tracepoint::ProcessFork { parent, child } => {
                    format!("fork {} {}-{}", parent.pid, text(child.comm), child.pid)
                }
                Tracepoint::TaskNew { task, clone_flags, .. } => format!("new {} {clone_flags:x}", task.pid),
                Tracepoint::ProcessExit { task, prio, .. } => format!("exit {}-{}:{prio}", text(task.comm), task.pid),
                Tracepoint::TaskRename { task, .. } => format!("name {}-{}", text(task.comm), task.pid),
                other => panic!("{other:?}"),
            });
        }
        all
    }

    fn out(tid: i32, next: Option<i32>, preempted: bool) -> Noted {
        Noted::Out { tid, next, preempted }
    }

    #[test]
    fn with_all_tasks_a_switch_is_one_event() {
        let all = events(
            true,
            &[
                Noted::In { tid: 7, prev: Some(0) },
                out(7, Some(8), true),
                Noted::In { tid: 8, prev: Some(7) },
                out(8, Some(0), false),
                Noted::In { tid: 0, prev: Some(8) },
                out(0, Some(7), false),
                Noted::In { tid: 7, prev: Some(0) },
                Noted::Exit { tid: 7 },
                out(7, Some(0), false),
            ],
        );
        let expected = [
            "swapper-0:120 R seven-7:125",
            "seven-7:125 R+ eight-8:98",
            "eight-8:98 S swapper-0:120",
            "swapper-0:120 R seven-7:125",
            "exit seven-7:125",
            "seven-7:125 X swapper-0:120",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn of_a_command_the_other_tasks_are_not_seen() {
        let all = events(
            false,
            &[
                Noted::In { tid: 7, prev: None },
                out(7, None, false),
                Noted::In { tid: 7, prev: None },
                out(7, None, true),
                Noted::In { tid: 7, prev: None },
                Noted::Exit { tid: 7 },
                out(7, None, false),
            ],
        );
        let unseen = format!("<unseen>-{UNSEEN}:120");
        let expected = [
            "swapper-0:120 R seven-7:125",
            "seven-7:125 S swapper-0:120",
            "swapper-0:120 R seven-7:125",
            // A preempted task leaves the CPU to a task, not to nothing.
            &format!("seven-7:125 R+ {unseen}"),
            &format!("{unseen} S seven-7:125"),
            "exit seven-7:125",
            "seven-7:125 X swapper-0:120",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn children_have_name_and_priority_of_their_parent() {
        let all = events(
            true,
            &[
                Noted::Fork { pid: 20, tid: 20, parent_pid: 7, parent: 7 },
                Noted::Fork { pid: 7, tid: 21, parent_pid: 7, parent: 7 },
                Noted::Name { tid: 20, comm: comm(b"sixteen letters!") },
                Noted::In { tid: 20, prev: Some(7) },
                Noted::In { tid: 99, prev: Some(20) },
            ],
        );
        let expected = [
            "new 20 0",
            "fork 7 seven-20",
            "new 21 10000",
            "fork 7 seven-21",
            "name sixteen letters-20",
            "seven-7:125 R sixteen letters-20:125",
            // Its begin was lost.
            "sixteen letters-20:125 R -99:120",
        ];
        assert_eq!(all, expected);
    }
}
