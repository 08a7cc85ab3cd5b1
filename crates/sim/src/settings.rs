//! Attributes that tasks ask for: `sched_setattr`, `sched_setaffinity`, `cgroup.procs`.
//!
//! If the kernel refuses, the task stays as it was, and a note has the reason and the error number. With
//! [`Config::end_if_refused`](crate::Config::end_if_refused) the run ends instead.

use std::collections::BTreeMap;

use vruntime_sched::class::deadline::SchedError;
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::{Policy, Scheduler};
use vruntime_trace::Sink;

use crate::error::Error;
use crate::machine::{Machine, sched};
use crate::program::Attributes;

/// Refusals by task class and error number: the first message, and the count.
pub(crate) type Refusals = BTreeMap<(String, &'static str), (String, u64)>;

/// Returns a refusal's error number, which differs for a deadline task's affinity.
const fn errno(error: &SchedError, affinity: bool) -> &'static str {
    match error {
        SchedError::Admission(_) => "EBUSY",
        SchedError::Affinity { .. } if affinity => "EBUSY",
        SchedError::Affinity { .. } | SchedError::NoRtRuntime { .. } => "EPERM",
        SchedError::NoCpus => "ENOSPC",
        SchedError::Params(_) | SchedError::Offline | SchedError::Cpuset => "EINVAL",
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(crate) fn change_settings(&mut self, cpu: usize, task: u32, settings: usize) {
        let id = TaskId(task);
        let attributes = self.programs.settings[settings].clone();
        let group = attributes.group.map(|group| self.group(self.tasks[task as usize].template as usize, group));
        // Policy and group change in the order that real-time limits allow.
        let group_first =
            attributes.policy.is_some_and(|attr| attr.policy.is_rt()) && self.shared.config.rt_group_sched;
        if group_first {
            self.move_group(cpu, task, group);
        }
        if let Some(attr) = attributes.policy {
            let set = sched!(self, cpu).set_scheduler(id, attr);
            self.refuse(task, set);
        }
        self.clamp(cpu, task, &attributes);
        if !group_first {
            self.move_group(cpu, task, group);
        }
        if attributes.affinity.is_some() {
            let set = sched!(self, cpu).set_affinity(id, attributes.affinity.clone(), CpuId(cpu as u32));
            match set {
                Err(SchedError::Offline) => {
                    self.core.refused.insert(id);
                }
                Err(SchedError::Cpuset) => {
                    self.core.outside.insert(id);
                }
                set => {
                    let name = self.task_name(task);
                    self.refuse_as(&name, set, true);
                }
            }
        }
    }

    pub(crate) fn clamp(&mut self, cpu: usize, task: u32, attributes: &Attributes) {
        let (min, max) = (attributes.util_min, attributes.util_max);
        if (min.is_some() || max.is_some())
            && let Err(error) = sched!(self, cpu).set_uclamp(TaskId(task), min, max)
        {
            let (task, now) = (self.task_name(task), self.core.now);
            self.is_refused(Error::Clamps { task, now, error }, "EINVAL");
        }
    }

    fn move_group(&mut self, cpu: usize, task: u32, group: Option<GroupId>) {
        let Some(group) = group else { return };
        match sched!(self, cpu).move_group(TaskId(task), group) {
            Err(error @ SchedError::NoRtRuntime { .. }) => self.refuse(task, Err(error)),
            Err(error) => self.note_refused_move(task, &error),
            Ok(()) => {}
        }
    }

    /// Handles the scheduler's refusal of a task's request.
    pub(crate) fn refuse(&mut self, task: u32, set: Result<(), SchedError>) {
        if set.is_err() {
            let name = self.task_name(task);
            self.refuse_as(&name, set, false);
        }
    }

    /// As [`Self::refuse`], for a task of that name. `affinity`: it requested CPUs.
    pub(crate) fn refuse_as(&mut self, task: &str, set: Result<(), SchedError>, affinity: bool) {
        let (task, now) = (task.to_owned(), self.core.now);
        let Err(error) = set else { return };
        let number = errno(&error, affinity);
        let error = match error {
            SchedError::NoRtRuntime { group } => Error::NoRtRuntime { task, now, group: self.group_path(group) },
            error => Error::Refused { task, now, errno: number, error },
        };
        self.is_refused(error, number);
    }

    /// Counts a refusal, or ends the run.
    fn is_refused(&mut self, error: Error, number: &'static str) {
        if self.end_if_refused {
            self.error.get_or_insert(error);
            return;
        }
        let name = match &error {
            Error::NoRtRuntime { task, .. } | Error::Refused { task, .. } | Error::Clamps { task, .. } => task.as_str(),
            _ => "",
        };
        let known = self.workload.tasks.iter().find(|task| task.name == name);
        let class = known.map_or(name, |task| &task.class).to_owned();
        self.refusals.entry((class, number)).or_insert_with(|| (error.to_string(), 0)).1 += 1;
    }

    /// Adds a note for each kind of refusal.
    pub(crate) fn refusal_notes(&self, notes: &mut Vec<String>) {
        for ((class, number), (first, count)) in &self.refusals {
            let more = match count - 1 {
                0 => String::new(),
                1 => format!("; 1 more such call of `{class}` was refused"),
                more => format!("; {more} more such calls of `{class}` were refused"),
            };
            let named = if first.contains(number) { String::new() } else { format!(" ({number})") };
            notes.push(format!("{first}{named}: the kernel refused the call, and the task kept its settings{more}"));
        }
    }
}
