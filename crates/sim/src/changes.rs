//! Changes during the run: `chrt`, `taskset`, writes to the files of cgroups and to `/proc/PID/autogroup`.
//!
//! An external actor makes changes in no time, from CPU 0 or the first online CPU. A change precedes other events of
//! its nanosecond.

use std::collections::BTreeSet;

use vruntime_sched::class::rt::RtLimitError;
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::{GroupError as Refusal, Limit, Policy, Scheduler};
use vruntime_trace::{GroupInfo, Sink};
use vruntime_workload::program::{Bandwidth, Changed, CpuMax, GroupChange, RtBandwidth, RtRuntime};

use crate::cpu::NEVER;
use crate::error::{Error, GroupError, Subject};
use crate::machine::{GroupState, Machine, sched};
use crate::moment::Moment;
use crate::task::Life;

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(crate) fn next_change(&self) -> u64 {
        self.workload.changes.get(self.changed).map_or(NEVER, |change| change.at)
    }

    pub(crate) fn make_change(&mut self) {
        let workload = self.workload;
        let (change, settings) = (&workload.changes[self.changed], self.programs.changes[self.changed]);
        self.changed += 1;
        self.core.now = change.at;
        let cpu = self.working(0);
        self.core.cpus[cpu].account_until(change.at);
        match &change.what {
            Changed::Tasks { tasks, nice, .. } => self.change_tasks(cpu, tasks, settings, *nice),
            Changed::Group { group, to: GroupChange { weight, idle, max, uclamp, rt, guarantee } } => {
                let id = self.groups[*group];
                if let Some(idle) = *idle {
                    // An idle group has no weight, and another begins with the default.
                    let state = &mut self.group_states[*group];
                    (state.weight, state.idle) = (100, idle);
                    let set = sched!(self, cpu).set_group_idle(id, idle);
                    self.end_if_refused(id, set);
                }
                if let Some(weight) = *weight {
                    self.group_states[*group].weight = weight;
                    let set = sched!(self, cpu).set_group_weight(id, weight);
                    self.end_if_refused(id, set);
                }
                if let Some(clamps) = *uclamp {
                    // Already checked.
                    let _ = sched!(self, cpu).set_group_uclamp(id, clamps.min, clamps.max);
                }
                if let Some(max) = max {
                    let bandwidth = if let CpuMax::Limited(bandwidth) = max { Some(*bandwidth) } else { None };
                    self.group_states[*group].max = bandwidth.map(|max| (max.quota, max.period));
                    let set = sched!(self, cpu).set_group_bandwidth(id, bandwidth.and_then(limit));
                    self.end_if_refused(id, set);
                }
                if let Some(rt) = *rt
                    && let Err(error) = self.set_group_rt(cpu, *group, rt)
                {
                    self.error.get_or_insert(error);
                }
                self.group_states[*group].guarantee = guarantee.or(self.group_states[*group].guarantee);
                if let Some(percent) = *guarantee
                    && let Err(error) = self.set_group_guarantee(cpu, *group, percent)
                {
                    self.error.get_or_insert(error);
                }
                let GroupState { weight, idle, guarantee, max } = self.group_states[*group];
                let info = &workload.groups[*group];
                let parent = info.parent.map(|parent| self.groups[parent]);
                let info = GroupInfo { path: &info.path, parent, weight, idle, guarantee, max, nice: None };
                self.core.sink.group_changed(change.at, id, &info);
            }
            Changed::Cpuset { group, cpus, partition } => {
                self.write_cpuset(cpu, *group, cpus.as_deref(), *partition);
                self.tell_cpusets();
            }
            Changed::Session { session, nice } => {
                // Without autogroups there is none, which was reported.
                let Some(&id) = self.autogroups.get(session + 1) else { return };
                let set = sched!(self, cpu).set_group_nice(id, *nice);
                self.end_if_refused(id, set);
                let path = format!("/autogroup-{}", workload.sessions[*session].name);
                let parent = Some(GroupId::ROOT);
                let info = GroupInfo {
                    path: &path,
                    parent,
                    weight: 100,
                    idle: false,
                    guarantee: None,
                    max: None,
                    nice: Some(*nice),
                };
                self.core.sink.group_changed(change.at, id, &info);
            }
        }
        self.leave_interrupt(cpu);
    }

    /// Ends the run if the kernel refuses a group's setting in spite of checks.
    pub(crate) fn end_if_refused(&mut self, group: GroupId, set: Result<(), Refusal>) {
        if let Err(error) = set {
            let error = match error {
                Refusal::Root => GroupError::Root,
                Refusal::Idle => GroupError::IdleWeight { group: self.group_path(group) },
            };
            let subject = Subject::Change(self.core.now);
            self.error.get_or_insert(Error::BadLimit { subject, error });
        }
    }

    /// Sets the given parts of a group's real-time limit.
    pub(crate) fn set_group_rt(&mut self, cpu: usize, group: usize, rt: RtBandwidth) -> Result<(), Error> {
        let (id, now) = (self.groups[group], self.core.now);
        let mut limit = sched!(self, cpu).group_rt(id);
        match rt.runtime {
            None => {}
            Some(RtRuntime::Unlimited) => limit.runtime = None,
            Some(RtRuntime::Limited(runtime)) => limit.runtime = Some(runtime),
        }
        limit.period = rt.period.unwrap_or(limit.period);
        sched!(self, cpu).set_group_rt(id, limit).map_err(|error| {
            let inside = if let RtLimitError::Sum { of, .. } = error { Some(of) } else { None };
            let inside = inside.filter(|&of| of != id).map(|of| self.group_path(of));
            Error::BadRtLimit { group: self.group_path(id), now, inside, error }
        })
    }

    pub(crate) fn set_group_guarantee(&mut self, cpu: usize, group: usize, percent: u32) -> Result<(), Error> {
        let (id, now) = (self.groups[group], self.core.now);
        let set = sched!(self, cpu).set_group_guarantee(id, percent);
        set.map_err(|error| Error::BadGuarantee { group: self.group_path(id), now, percent, error })
    }

    pub(crate) fn group_path(&self, id: GroupId) -> String {
        let index = self.groups.iter().position(|&known| known == id);
        index.and_then(|index| self.workload.groups.get(index)).map_or_else(String::new, |group| group.path.clone())
    }

    fn change_tasks(&mut self, cpu: usize, templates: &[usize], settings: u32, nice: Option<i8>) {
        let mut found = false;
        let changed: BTreeSet<usize> = templates.iter().copied().collect();
        for task in 0..self.tasks.len() as u32 {
            let this = &self.tasks[task as usize];
            // A task that has not started starts with it.
            if this.life == Life::Dead || !changed.contains(&(this.template as usize)) {
                continue;
            }
            found = true;
            let waited_as = self.waits_as(task);
            if let Some(nice) = nice {
                sched!(self, cpu).set_nice(TaskId(task), nice);
            }
            self.change_settings(cpu, task, settings as usize);
            self.adjust_waiter(cpu, task, waited_as);
        }
        if !found {
            let name = templates.first().map_or("", |&task| &self.workload.tasks[task].class);
            let now = Moment(self.core.now);
            self.notes.push(format!(
                "the change of task `{name}` at {now} has no effect: no task of this name exists at that time"
            ));
        }
    }
}

/// Returns the scheduler's limit. Invalid ones were reported.
pub(crate) fn limit(max: Bandwidth) -> Option<Limit> {
    Limit::new(max.quota, max.period, max.burst).ok()
}
