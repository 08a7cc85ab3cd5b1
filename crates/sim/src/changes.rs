//! What somebody changes while the workload runs: `chrt`, `taskset`, writes to the files of cgroups and to `/proc/PID/autogroup`.
//!
//! Whoever does it is not part of the workload, and costs nothing; he sits on CPU 0, or the first that is online. A change happens before whatever else
//! happens in its nanosecond.

use std::collections::BTreeSet;

use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::{Limit, Policy, Scheduler};
use vruntime_trace::{GroupInfo, Sink};
use vruntime_workload::program::{Bandwidth, Changed, CpuMax};

use crate::cpu::NEVER;
use crate::machine::{Machine, sched};
use crate::task::Life;

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// When the next change is due.
    pub(crate) fn next_change(&self) -> u64 {
        self.workload.changes.get(self.changed).map_or(NEVER, |change| change.at)
    }

    /// Makes the next change.
    pub(crate) fn make_change(&mut self) {
        let workload = self.workload;
        let (change, settings) = (&workload.changes[self.changed], self.programs.changes[self.changed]);
        self.changed += 1;
        self.core.now = change.at;
        let cpu = self.working(0);
        self.core.cpus[cpu].settle(change.at);
        match &change.what {
            Changed::Tasks { tasks, nice, .. } => self.change_tasks(cpu, tasks, settings, *nice),
            Changed::Group { group, weight, max } => {
                let id = self.groups[*group];
                let state = &mut self.group_states[*group];
                if let Some(weight) = *weight {
                    state.0 = weight;
                    sched!(self, cpu).set_group_weight(id, weight);
                }
                if let Some(max) = max {
                    let bandwidth = if let CpuMax::Limited(bandwidth) = max { Some(*bandwidth) } else { None };
                    self.group_states[*group].1 = bandwidth.map(|max| (max.quota, max.period));
                    sched!(self, cpu).set_group_bandwidth(id, bandwidth.and_then(limit));
                }
                let (weight, max) = self.group_states[*group];
                let info = &workload.groups[*group];
                let parent = info.parent.map(|parent| self.groups[parent]);
                let info = GroupInfo { path: &info.path, parent, weight, max, nice: None };
                self.core.sink.group_changed(change.at, id, &info);
            }
            Changed::Cpuset { group, cpus, partition } => {
                self.write_cpuset(cpu, *group, cpus.as_deref(), *partition);
                self.tell_cpusets();
            }
            Changed::Session { session, nice } => {
                // Without autogroup there is none: that was told.
                let Some(&id) = self.autogroups.get(session + 1) else { return };
                sched!(self, cpu).set_group_nice(id, *nice);
                let path = format!("/autogroup-{}", workload.sessions[*session].name);
                let parent = Some(GroupId::ROOT);
                let info = GroupInfo { path: &path, parent, weight: 100, max: None, nice: Some(*nice) };
                self.core.sink.group_changed(change.at, id, &info);
            }
        }
        self.leave_interrupt(cpu);
    }

    fn change_tasks(&mut self, cpu: usize, templates: &[usize], settings: u32, nice: Option<i8>) {
        let mut found = false;
        let changed: BTreeSet<usize> = templates.iter().copied().collect();
        for task in 0..self.tasks.len() as u32 {
            let this = &self.tasks[task as usize];
            if matches!(this.life, Life::New | Life::Dead) || !changed.contains(&(this.template as usize)) {
                continue;
            }
            found = true;
            if let Some(nice) = nice {
                sched!(self, cpu).set_nice(TaskId(task), nice);
            }
            self.change_settings(cpu, task, settings as usize);
        }
        if !found {
            let name = templates.first().map_or("", |&task| &self.workload.tasks[task].class);
            let now = self.core.now;
            self.notes
                .push(format!("the change of task `{name}` at {now} ns changes nothing: no such task lives then"));
        }
    }
}

/// The scheduler's limit; what is none was told before the machine was built.
pub(crate) fn limit(max: Bandwidth) -> Option<Limit> {
    Limit::new(max.quota, max.period, max.burst).ok()
}
