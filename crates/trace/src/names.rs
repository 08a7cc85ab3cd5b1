//! Names in a trace: `comm`s, pids and priorities, from announcements and events.

use std::io;

use bytes::Bytes;
use vruntime_sched::SchedPolicy;
use vruntime_sched::event::{Event, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};

use crate::identity::{FIRST_TASK_PID, Identities};
use crate::{GroupInfo, TaskInfo};

/// Bounds of ids, which index tables. A larger id is a bug of the caller. Linux stops at 8192 CPUs and 4,194,304
/// pids.
const MAX_CPUS: u32 = 1 << 16;
const MAX_TASKS: u32 = 1 << 24;
const MAX_GROUPS: u32 = 1 << 24;

/// The pid of `migration/0`. Pids of tasks skip the range of the stoppers.
const FIRST_STOPPER_PID: u32 = 4_000_000;

/// Returns the pid of `task` in a trace: its id + 1000. From task 3,999,000 on it is 100,000 more, which leaves room
/// for the `migration/N` threads.
///
/// ```
/// # use vruntime_trace::{TaskId, task_pid};
/// assert_eq!(task_pid(TaskId(7)), 1007);
/// ```
pub const fn task_pid(task: TaskId) -> i32 {
    let pid = task.0.saturating_add(FIRST_TASK_PID);
    let pid = if pid < FIRST_STOPPER_PID { pid } else { pid.saturating_add(100_000) };
    if pid > i32::MAX as u32 { i32::MAX } else { pid as i32 }
}

/// Whether this is a stopper's name (`migration/N`). In simulations, stoppers have no wakeups and no group.
pub fn is_stopper(comm: impl AsRef<[u8]>) -> bool {
    comm.as_ref().starts_with(b"migration/")
}

/// Returns the pid of the stopper (`migration/N`) of `cpu` in a trace: 4,000,000 + N.
///
/// ```
/// # use vruntime_trace::{CpuId, stopper_pid};
/// assert_eq!(stopper_pid(CpuId(3)), 4_000_003);
/// ```
pub const fn stopper_pid(cpu: CpuId) -> i32 {
    let pid = cpu.0.saturating_add(FIRST_STOPPER_PID);
    if pid > i32::MAX as u32 { i32::MAX } else { pid as i32 }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity<'a> {
    pub(crate) comm: &'a Bytes,
    pub(crate) pid: i32,
    /// The kernel's `prio`: 120 + nice; 99 - real-time priority; -1 for deadline; 0 for a stopper.
    pub(crate) prio: i32,
}

#[derive(Debug, Default)]
struct Task {
    comm: Bytes,
    pid: i32,
    /// Its recorded process.
    tgid: Option<i32>,
    nice: i8,
    policy: SchedPolicy,
    rt_priority: u8,
    /// An inherited `prio`.
    lent: Option<i16>,
    group: GroupId,
    /// `task_cpu()`: its present or last CPU.
    cpu: CpuId,
}

impl Task {
    #[inline]
    fn prio(&self) -> i32 {
        let own = i32::from(self.policy.prio(self.nice, self.rt_priority));
        self.lent.map_or(own, |lent| own.min(i32::from(lent)))
    }
}

#[derive(Debug)]
struct Cpu {
    swapper: Bytes,
    stopper: Bytes,
    stopper_pid: i32,
    current: Running,
}

#[derive(Debug, Default)]
pub(crate) struct Names {
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    groups: Vec<String>,
    /// The recorded counterparts of a replay's tasks.
    identities: Option<Identities>,
}

/// Whether a character controls a terminal, or hides in a text: controls, line separators, writing directions, and
/// characters without a width.
pub fn obeyed(character: char) -> bool {
    const DIRECTIONS: [char; 3] = ['\u{61c}', '\u{200e}', '\u{200f}'];
    /// Soft hyphen, separators without a width.
    const INVISIBLE: [char; 4] = ['\u{ad}', '\u{180e}', '\u{200b}', '\u{feff}'];
    character.is_control()
        || DIRECTIONS.contains(&character)
        || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || INVISIBLE.contains(&character)
        || matches!(character, '\u{2060}'..='\u{2064}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Replaces characters that break a line, or control a terminal, with `?`.
pub(crate) fn printable(name: &str) -> String {
    name.chars().map(|c| if obeyed(c) { '?' } else { c }).collect()
}

fn out_of_range(what: &str, id: u32, limit: u32) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{what} {id} in an event: ids count up from 0 and a trace takes at most {limit}"),
    )
}

impl Names {
    pub(crate) fn with_identities(identities: Option<Identities>) -> Self {
        Self { identities, ..Self::default() }
    }

    pub(crate) fn announce(&mut self, id: TaskId, info: &TaskInfo<'_>) -> io::Result<()> {
        self.make_room(id)?;
        let known = self.identities.as_ref().and_then(|identities| identities.of(info.name)).cloned();
        if self.tasks[id.index()].comm.is_empty() {
            self.introduce(id, known.as_ref().and_then(|known| known.pid));
        }
        self.admit_group(info.group)?;
        let task = &mut self.tasks[id.index()];
        let name = known.as_ref().map_or(info.name, |known| &known.comm);
        if !name.is_empty() {
            task.comm = Bytes::from(printable(name));
        }
        task.tgid = known.and_then(|known| known.tgid);
        task.group = info.group;
        (task.nice, task.policy, task.rt_priority) = (info.nice, info.policy, info.rt_priority);
        Ok(())
    }

    pub(crate) fn announce_group(&mut self, id: GroupId, info: &GroupInfo<'_>) -> io::Result<()> {
        self.admit_group(id)?;
        self.groups[id.index()] = printable(info.path);
        Ok(())
    }

    /// Adds an entry, with a made-up name, for every unknown id in `event`.
    ///
    /// # Errors
    /// `InvalidInput` if an id is beyond its bound.
    #[inline]
    pub(crate) fn admit(&mut self, cpu: CpuId, event: &Event) -> io::Result<()> {
        self.admit_cpu(cpu)?;
        match *event {
            Event::Fork { parent, child } => {
                if let Some(parent) = parent {
                    self.admit_task(parent)?;
                }
                self.admit_task(child)
            }
            Event::Wakeup { task, target } | Event::WakeupNew { task, target } => {
                self.admit_cpu(target)?;
                self.admit_task(task)
            }
            Event::Switch { prev, next, .. } => {
                if let Running::Task(prev) = prev {
                    self.admit_task(prev)?;
                }
                if let Running::Task(next) = next {
                    self.admit_task(next)?;
                }
                Ok(())
            }
            Event::Migrate { task, from, to, .. } => {
                self.admit_cpu(from)?;
                self.admit_cpu(to)?;
                self.admit_task(task)
            }
            Event::MoveGroup { task, group } => {
                self.admit_group(group)?;
                self.admit_task(task)
            }
            Event::Exit { task }
            | Event::Waking { task, .. }
            | Event::SetNice { task, .. }
            | Event::SetPolicy { task, .. }
            | Event::PiSetprio { task, .. }
            | Event::Deadline { task, .. }
            | Event::LoopEnd { task, .. }
            | Event::SleepReturn { task, .. }
            | Event::AffinityLost { task } => self.admit_task(task),
            Event::Throttle { group }
            | Event::Unthrottle { group, .. }
            | Event::BandwidthPeriod { group, .. }
            | Event::RtThrottle { group }
            | Event::RtUnthrottle { group } => self.admit_group(group),
            Event::Balance { .. }
            | Event::HLoad { .. }
            | Event::Overhead { .. }
            | Event::CpuFrequency { .. }
            | Event::Overutilized { .. }
            | Event::CpuDown
            | Event::CpuUp => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn admit_cpu(&mut self, cpu: CpuId) -> io::Result<()> {
        if cpu.0 >= MAX_CPUS {
            return Err(out_of_range("CPU", cpu.0, MAX_CPUS));
        }
        for n in self.cpus.len()..=cpu.index() {
            let stopper_pid =
                self.identities.as_mut().map_or_else(|| stopper_pid(CpuId(n as u32)), |names| names.stopper(n));
            self.cpus.push(Cpu {
                swapper: Bytes::from(format!("swapper/{n}")),
                stopper: Bytes::from(format!("migration/{n}")),
                stopper_pid,
                current: Running::Idle,
            });
        }
        Ok(())
    }

    #[inline]
    fn admit_task(&mut self, task: TaskId) -> io::Result<()> {
        self.make_room(task)?;
        if self.tasks[task.index()].comm.is_empty() {
            self.introduce(task, None);
        }
        Ok(())
    }

    #[inline]
    fn make_room(&mut self, task: TaskId) -> io::Result<()> {
        if task.0 >= MAX_TASKS {
            return Err(out_of_range("task", task.0, MAX_TASKS));
        }
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Task::default);
        }
        Ok(())
    }

    /// Gives a new task a generated name, and its own or its counterpart's pid.
    fn introduce(&mut self, task: TaskId, pid: Option<i32>) {
        let row = &mut self.tasks[task.index()];
        row.comm = Bytes::from(format!("task-{task}"));
        row.pid = self.identities.as_mut().map_or_else(|| task_pid(task), |names| names.give(pid));
    }

    fn admit_group(&mut self, group: GroupId) -> io::Result<()> {
        if group.0 >= MAX_GROUPS {
            return Err(out_of_range("task group", group.0, MAX_GROUPS));
        }
        if group.index() >= self.groups.len() {
            self.groups.resize_with(group.index() + 1, String::new);
        }
        let path = &mut self.groups[group.index()];
        if path.is_empty() {
            *path = if group == GroupId::ROOT { "/".to_owned() } else { format!("/group-{group}") };
        }
        Ok(())
    }

    /// Returns the numbers of known CPUs and tasks.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.cpus.len(), self.tasks.len())
    }

    #[inline]
    pub(crate) fn task(&self, task: TaskId) -> Identity<'_> {
        let row = &self.tasks[task.index()];
        Identity { comm: &row.comm, pid: row.pid, prio: row.prio() }
    }

    #[inline]
    pub(crate) fn tgid(&self, running: Running) -> Option<i32> {
        match running {
            Running::Task(task) => self.tasks[task.index()].tgid,
            Running::Idle | Running::Stopper => None,
        }
    }

    /// Returns the stopper's pid of an admitted CPU.
    pub(crate) fn stopper_pid(&self, cpu: CpuId) -> i32 {
        self.cpus[cpu.index()].stopper_pid
    }

    pub(crate) fn identities(&self) -> Option<&Identities> {
        self.identities.as_ref()
    }

    /// Returns policy, real-time priority and nice value.
    pub(crate) fn attributes(&self, task: TaskId) -> (SchedPolicy, u8, i8) {
        let row = &self.tasks[task.index()];
        (row.policy, row.rt_priority, row.nice)
    }

    #[inline]
    pub(crate) fn identity(&self, cpu: CpuId, running: Running) -> Identity<'_> {
        let row = &self.cpus[cpu.index()];
        match running {
            Running::Idle => Identity { comm: &row.swapper, pid: 0, prio: 120 },
            Running::Stopper => Identity { comm: &row.stopper, pid: row.stopper_pid, prio: 0 },
            Running::Task(task) => self.task(task),
        }
    }

    #[inline]
    pub(crate) fn current(&self, cpu: CpuId) -> Running {
        self.cpus[cpu.index()].current
    }

    /// Returns the present or last CPU of `task`.
    #[inline]
    pub(crate) fn last_cpu(&self, task: TaskId) -> CpuId {
        self.tasks[task.index()].cpu
    }

    pub(crate) fn group(&self, task: TaskId) -> GroupId {
        self.tasks[task.index()].group
    }

    /// Returns the group of a new task, if it is not its parent's; the running task is the parent of initial tasks.
    pub(crate) fn born_into(&self, cpu: CpuId, parent: Option<TaskId>, child: TaskId) -> Option<GroupId> {
        let parent = parent.map_or_else(|| self.current(cpu), Running::Task).task();
        let group = self.group(child);
        (group != parent.map_or(GroupId::ROOT, |parent| self.group(parent))).then_some(group)
    }

    /// Returns the path of `group`; `/` if it was never announced.
    pub(crate) fn path(&self, group: GroupId) -> &str {
        self.groups.get(group.index()).filter(|path| !path.is_empty()).map_or("/", String::as_str)
    }

    /// Applies an admitted `event`, after it is written.
    #[inline]
    pub(crate) fn observe(&mut self, cpu: CpuId, event: &Event) {
        match *event {
            // A task that sleeps before it starts does so on that CPU.
            Event::Fork { child, .. } => self.tasks[child.index()].cpu = cpu,
            Event::Wakeup { task, target } | Event::WakeupNew { task, target } => {
                self.tasks[task.index()].cpu = target;
            }
            Event::Migrate { task, to, .. } => self.tasks[task.index()].cpu = to,
            Event::Switch { next, .. } => {
                self.cpus[cpu.index()].current = next;
                if let Running::Task(task) = next {
                    self.tasks[task.index()].cpu = cpu;
                }
            }
            Event::MoveGroup { task, group } => self.tasks[task.index()].group = group,
            Event::SetNice { task, nice } => self.tasks[task.index()].nice = nice,
            Event::SetPolicy { task, policy, rt_priority } => {
                let task = &mut self.tasks[task.index()];
                (task.policy, task.rt_priority) = (policy, rt_priority);
            }
            Event::PiSetprio { task, new, .. } => {
                let task = &mut self.tasks[task.index()];
                task.lent = None;
                task.lent = (i32::from(new) != task.prio()).then_some(new);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_never_collide() {
        assert_eq!(task_pid(TaskId(0)), 1000);
        assert_eq!(task_pid(TaskId(3_998_999)), 3_999_999);
        assert_eq!(task_pid(TaskId(3_999_000)), 4_100_000);
        assert!(stopper_pid(CpuId(MAX_CPUS - 1)) < task_pid(TaskId(3_999_000)));
        assert!(task_pid(TaskId(3_998_999)) < stopper_pid(CpuId(0)));
        assert_eq!(task_pid(TaskId(u32::MAX)), i32::MAX);
    }

    #[test]
    fn a_name_cannot_break_a_line() -> io::Result<()> {
        let mut names = Names::default();
        let info = TaskInfo { name: "two\nlines\0", class: "two", nice: -5, ..TaskInfo::default() };
        names.announce(TaskId(2), &info)?;
        assert_eq!(names.task(TaskId(2)).comm.as_ref(), b"two?lines?");
        assert_eq!(names.task(TaskId(2)).prio, 115);
        // Writing directions, and characters without a width, do not hide what a line says.
        let info = TaskInfo { name: "a\u{202e}b\u{200b}c\u{2028}\u{e4}", ..info };
        names.announce(TaskId(3), &info)?;
        assert_eq!(names.task(TaskId(3)).comm.as_ref(), "a?b?c?\u{e4}".as_bytes());
        names.announce_group(GroupId(1), &GroupInfo { path: "/x\u{2066}y", ..GroupInfo::default() })?;
        assert_eq!(names.path(GroupId(1)), "/x?y");
        Ok(())
    }

    #[test]
    fn real_time_priorities_and_what_is_lent_are_the_kernels_prio() -> io::Result<()> {
        let mut names = Names::default();
        let (task, zero) = (TaskId(0), CpuId(0));
        let info = TaskInfo { name: "rt", policy: SchedPolicy::Fifo, rt_priority: 99, ..TaskInfo::default() };
        names.announce(task, &info)?;
        assert_eq!(names.task(task).prio, 0);
        names.observe(zero, &Event::SetPolicy { task, policy: SchedPolicy::RoundRobin, rt_priority: 10 });
        assert_eq!(names.task(task).prio, 89);
        names.observe(zero, &Event::PiSetprio { task, old: 89, new: 69 });
        assert_eq!(names.task(task).prio, 69);
        // A change of its own below the inherited priority.
        names.observe(zero, &Event::SetPolicy { task, policy: SchedPolicy::Normal, rt_priority: 0 });
        assert_eq!(names.task(task).prio, 69);
        names.observe(zero, &Event::PiSetprio { task, old: 69, new: 120 });
        names.observe(zero, &Event::SetNice { task, nice: -5 });
        assert_eq!(names.task(task).prio, 115);
        Ok(())
    }

    #[test]
    fn an_impossible_id_is_refused_before_it_costs_memory() {
        let mut names = Names::default();
        let task = TaskId(u32::MAX);
        assert!(names.admit(CpuId(0), &Event::Waking { task, irq: false }).is_err());
        assert!(names.admit(CpuId(u32::MAX), &Event::Waking { task: TaskId(0), irq: false }).is_err());
        assert_eq!(names.counts(), (1, 0));
    }

    #[test]
    fn a_task_never_announced_still_has_a_name() -> io::Result<()> {
        let mut names = Names::default();
        names.admit(CpuId(1), &Event::Waking { task: TaskId(4), irq: false })?;
        assert_eq!(names.task(TaskId(4)).comm.as_ref(), b"task-4");
        Ok(())
    }
}
