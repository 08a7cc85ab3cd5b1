//! Groups of tasks and their limits: from simulated runs, marks in their traces, `cgroup_attach_task`, and a machine's
//! files ([`MachineGroups`]). A task of unknown group is in its parent's group, or else in the root.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use vruntime_trace::{GroupInfo, SchedPolicy};

/// The most groups of a recording. Others are ignored.
const MAX_GROUPS: usize = 1 << 16;
/// The most in our traces.
const MAX_OWN: usize = 1 << 24;
/// The deepest level of groups.
const MAX_DEPTH: usize = 256;

/// Task groups of a recorded machine, by absolute path.
pub trait MachineGroups: fmt::Debug + Send + Sync {
    /// Returns the hierarchy that schedules, as in `cgroup_attach_task`; 0 is cgroup v2.
    fn hierarchy(&self) -> i32;
    /// Returns the task group of a thread that enters `cgroup`. None: when the machine's files were read.
    fn group_of(&self, thread: i32, cgroup: Option<&str>) -> Option<String>;
    /// Returns weight and limit of a task group without path and parent, if known.
    fn settings(&self, group: &str) -> Option<GroupInfo<'static>>;
    /// Returns the affinity of a thread, if known.
    fn affinity_of(&self, thread: i32) -> Option<&[u32]>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) weight: u32,
    pub(crate) idle: bool,
    pub(crate) guarantee: Option<u32>,
    pub(crate) nice: Option<i8>,
    pub(crate) max: Option<(u64, u64)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { weight: 100, idle: false, guarantee: None, nice: None, max: None }
    }
}

impl From<&GroupInfo<'_>> for Settings {
    fn from(info: &GroupInfo<'_>) -> Self {
        let &GroupInfo { weight, idle, guarantee, nice, max, .. } = info;
        Self { weight, idle, guarantee, nice, max }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    /// A task moves to another group.
    Moved {
        task: u32,
        group: u32,
    },
    /// A new `prio` in a recording.
    Prio {
        task: u32,
        prio: i32,
    },
    Policy {
        task: u32,
        policy: SchedPolicy,
        rt_priority: u8,
    },
    Nice {
        task: u32,
        nice: i8,
    },
    Group {
        group: u32,
        settings: Settings,
    },
    /// A group has used up its limit on the step's CPU.
    Throttled {
        group: u32,
    },
    Unthrottled {
        group: u32,
        ns: u64,
    },
    Period {
        group: u32,
        periods: u32,
        throttled: bool,
        burst: u64,
    },
    /// In our traces: a deadline task has used up its runtime, or has it again.
    Spent {
        task: u32,
        spent: bool,
    },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) path: String,
    pub(crate) parent: Option<u32>,
    pub(crate) settings: Option<Settings>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Cgroups {
    pub(crate) wanted: bool,
    /// The root first, parents before children.
    rows: Vec<Row>,
    paths: BTreeMap<String, u32>,
    /// Each task's group, if known.
    of: Vec<Option<u32>>,
    /// Each task's last `prio`.
    prios: Vec<i32>,
    machine: Option<Arc<dyn MachineGroups>>,
    /// Whether the scheduler itself reports: in our runs, and by marks in their traces.
    pub(crate) exact: bool,
    /// Mentions of groups beyond the limit.
    pub(crate) refused: u64,
}

impl Cgroups {
    /// Whether a task may use a CPU, if the machine's files say.
    pub(crate) fn allows(&self, pid: i32, cpu: u32) -> Option<bool> {
        Some(self.machine.as_ref()?.affinity_of(pid)?.contains(&cpu))
    }

    pub(crate) fn set_machine(&mut self, machine: Arc<dyn MachineGroups>) {
        self.machine = Some(machine);
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Whether anything about groups is known.
    pub(crate) fn known(&self) -> bool {
        self.exact || self.machine.is_some() || self.rows.len() > 1
    }

    /// Whether there may be groups besides the root.
    pub(crate) fn several(&self) -> bool {
        self.machine.is_some() || self.rows.len() > 1
    }

    /// Returns the path of a task's group, if known.
    pub(crate) fn path_of(&self, task: u32) -> Option<&str> {
        let group = self.known_group(task).or_else(|| self.exact.then_some(0))?;
        self.rows.get(group as usize).map(|row| row.path.as_str())
    }

    /// Whether any weights and limits are known.
    pub(crate) fn settings_known(&self) -> bool {
        self.exact || self.rows.iter().any(|row| row.settings.is_some())
    }

    pub(crate) fn of(&self, task: u32) -> u32 {
        self.known_group(task).unwrap_or(0)
    }

    pub(crate) fn known_group(&self, task: u32) -> Option<u32> {
        self.of.get(task as usize).copied().flatten()
    }

    fn put(&mut self, task: u32, group: Option<u32>) {
        if task as usize >= self.of.len() {
            self.of.resize(task as usize + 1, None);
        }
        self.of[task as usize] = group;
    }

    /// Adds a group of our run, by number.
    pub(crate) fn announce(&mut self, id: u32, path: &str, parent: Option<u32>, settings: Settings) {
        if id as usize >= MAX_OWN {
            self.refused += 1;
            return;
        }
        if id as usize >= self.rows.len() {
            self.rows.resize_with(id as usize + 1, Row::default);
        }
        let parent = parent.filter(|&parent| parent < id).or((id > 0).then_some(0));
        self.rows[id as usize] = Row { path: path.to_owned(), parent, settings: (id > 0).then_some(settings) };
    }

    /// Returns an announced group. Counts others as refused.
    pub(crate) fn announced(&mut self, id: u32) -> Option<u32> {
        let known = id == 0 || (id as usize) < self.rows.len();
        self.refused += u64::from(!known);
        known.then_some(id)
    }

    /// Returns a group's number. Adds it and its ancestors. None if there are too many.
    pub(crate) fn intern(&mut self, path: &str) -> Option<u32> {
        if let Some(&known) = self.paths.get(path) {
            return Some(known);
        }
        if self.rows.is_empty() {
            self.rows.push(Row { path: "/".to_owned(), ..Row::default() });
        }
        let names = || path.split('/').filter(|name| !name.is_empty());
        if names().nth(MAX_DEPTH).is_some() {
            self.refused += 1;
            return None;
        }
        let (mut group, mut above) = (0, String::new());
        for name in names() {
            above.push('/');
            above.push_str(name);
            group = match self.paths.get(above.as_str()) {
                Some(&known) => known,
                None if self.rows.len() >= MAX_GROUPS => {
                    self.refused += 1;
                    return None;
                }
                None => {
                    let settings = self.machine.as_ref().and_then(|machine| machine.settings(&above));
                    let settings = settings.as_ref().map(Settings::from);
                    self.rows.push(Row { path: above.clone(), parent: Some(group), settings });
                    let new = self.rows.len() as u32 - 1;
                    self.paths.insert(above.clone(), new);
                    new
                }
            };
        }
        Some(group)
    }

    /// Puts a new task into its group by the machine's files. `again`: these describe an earlier task with its pid.
    pub(super) fn meets(&mut self, task: u32, pid: i32, again: bool) {
        if self.wanted && !again {
            let group = self.machine.as_ref().and_then(|machine| machine.group_of(pid, None));
            let group = group.and_then(|path| self.intern(&path));
            self.put(task, group);
        }
    }

    /// Returns the group of a thread that moves to a cgroup. None if the hierarchy does not schedule.
    pub(super) fn moved_to(&mut self, pid: i32, hierarchy: i32, cgroup: &str) -> Option<u32> {
        // Some kernels report the name instead of the path.
        if !cgroup.starts_with('/') {
            return None;
        }
        match self.machine.clone() {
            Some(machine) if machine.hierarchy() == hierarchy => {
                machine.group_of(pid, Some(cgroup)).and_then(|path| self.intern(&path))
            }
            None if hierarchy == 0 => self.intern(cgroup),
            _ => None,
        }
    }

    /// Notes a task's priority. Returns whether it is new.
    pub(super) fn new_prio(&mut self, task: u32, prio: i32) -> bool {
        const NOT_KNOWN: i32 = i32::MIN;
        if task as usize >= self.prios.len() {
            self.prios.resize(task as usize + 1, NOT_KNOWN);
        }
        std::mem::replace(&mut self.prios[task as usize], prio) != prio
    }

    pub(super) fn apply(&mut self, change: Update) {
        match change {
            Update::Moved { task, group } => self.put(task, Some(group)),
            Update::Group { group, settings } => {
                if let Some(row) = self.rows.get_mut(group as usize) {
                    row.settings = Some(settings);
                }
            }
            _ => {}
        }
    }

    /// Puts a new task of unknown group into its parent's group.
    pub(super) fn inherits(&mut self, child: u32, parent: u32) {
        if self.known_group(child).is_none()
            && let Some(group) = self.known_group(parent)
        {
            self.put(child, Some(group));
        }
    }
}
