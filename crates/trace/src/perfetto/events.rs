//! The tracepoints of events, with their fields.

use std::io::Write;

use vruntime_sched::event::Event;
use vruntime_sched::ids::{CpuId, GroupId, TaskId};

use super::proto::{
    CgroupAttachTask, CpuFrequency, CpuhpEnter, CpuhpExit, FtraceEventKind, SchedMigrateTask, SchedProcessExit,
    SchedProcessFork, SchedSwitch, SchedWakeup,
};
use super::{PerfettoWriter, state_bits};
use crate::ftrace::{cpuhp, group_level};
use crate::names::Identity;

/// Returns the second tracepoint of CPU hotplug: the step ends at the instant of its beginning.
fn step_exit(cpu: CpuId, event: &Event) -> Option<FtraceEventKind> {
    let online = match event {
        Event::CpuDown => false,
        Event::CpuUp => true,
        _ => return None,
    };
    let (_, step, state) = cpuhp(online);
    Some(FtraceEventKind::CpuhpExit(CpuhpExit { cpu: Some(cpu.0), idx: Some(step), ret: Some(0), state: Some(state) }))
}

impl<W: Write> PerfettoWriter<W> {
    fn attach(&self, task: TaskId, group: GroupId) -> FtraceEventKind {
        let (identity, path) = (self.names.task(task), self.names.path(group));
        FtraceEventKind::CgroupAttachTask(CgroupAttachTask {
            dst_root: Some(0),
            dst_id: Some(group.0 as i32 + 1),
            pid: Some(identity.pid),
            comm: Some(identity.comm.clone()),
            dst_level: Some(group_level(path) as i32),
            dst_path: Some(path.to_owned()),
        })
    }

    /// Returns the event that follows `event` at the same instant: the end of a hotplug step, or a new task's move to
    /// its group.
    pub(super) fn after(&self, cpu: CpuId, event: &Event) -> Option<FtraceEventKind> {
        match *event {
            Event::Fork { parent, child } => {
                self.names.born_into(cpu, parent, child).map(|group| self.attach(child, group))
            }
            _ => step_exit(cpu, event),
        }
    }

    /// Returns the tracepoint of `event`, if the kernel has one.
    #[inline]
    pub(super) fn tracepoint(&self, cpu: CpuId, event: &Event) -> Option<FtraceEventKind> {
        let names = &self.names;
        Some(match *event {
            Event::Switch { prev, prev_state, next } => {
                let (left, came) = (names.identity(cpu, prev), names.identity(cpu, next));
                FtraceEventKind::SchedSwitch(SchedSwitch {
                    prev_comm: Some(left.comm.clone()),
                    prev_pid: Some(left.pid),
                    prev_prio: Some(left.prio),
                    prev_state: Some(state_bits(prev, prev_state)),
                    next_comm: Some(came.comm.clone()),
                    next_pid: Some(came.pid),
                    next_prio: Some(came.prio),
                })
            }
            // The CPU is not chosen yet: the kernel reports the task's last one.
            Event::Waking { task, .. } => FtraceEventKind::SchedWaking(wakeup(names.task(task), names.last_cpu(task))),
            Event::Wakeup { task, target } => FtraceEventKind::SchedWakeup(wakeup(names.task(task), target)),
            Event::WakeupNew { task, target } => FtraceEventKind::SchedWakeupNew(wakeup(names.task(task), target)),
            Event::Migrate { task, from, to, .. } => {
                let identity = names.task(task);
                FtraceEventKind::SchedMigrateTask(SchedMigrateTask {
                    comm: Some(identity.comm.clone()),
                    pid: Some(identity.pid),
                    prio: Some(identity.prio),
                    orig_cpu: Some(from.0 as i32),
                    dest_cpu: Some(to.0 as i32),
                })
            }
            Event::Fork { parent, child } => {
                // A workload's initial tasks have no parent: the running task forks them.
                let parent =
                    parent.map_or_else(|| names.identity(cpu, names.current(cpu)), |parent| names.task(parent));
                let child = names.task(child);
                FtraceEventKind::SchedProcessFork(SchedProcessFork {
                    parent_comm: Some(parent.comm.clone()),
                    parent_pid: Some(parent.pid),
                    child_comm: Some(child.comm.clone()),
                    child_pid: Some(child.pid),
                })
            }
            Event::Exit { task } => {
                let identity = names.task(task);
                let tgid = self.tasks[task.index()].tgid;
                FtraceEventKind::SchedProcessExit(SchedProcessExit {
                    comm: Some(identity.comm.clone()),
                    pid: Some(identity.pid),
                    tgid: Some(if tgid == 0 { identity.pid } else { tgid }),
                    prio: Some(identity.prio),
                })
            }
            Event::MoveGroup { task, group } => self.attach(task, group),
            Event::CpuFrequency { khz } => {
                FtraceEventKind::CpuFrequency(CpuFrequency { state: Some(khz), cpu_id: Some(cpu.0) })
            }
            Event::CpuDown | Event::CpuUp => {
                let (target, step, _) = cpuhp(matches!(event, Event::CpuUp));
                FtraceEventKind::CpuhpEnter(CpuhpEnter { cpu: Some(cpu.0), idx: Some(step), target: Some(target) })
            }
            Event::SetNice { .. }
            | Event::SetPolicy { .. }
            | Event::Deadline { .. }
            | Event::PiSetprio { .. }
            | Event::Throttle { .. }
            | Event::Unthrottle { .. }
            | Event::RtThrottle { .. }
            | Event::RtUnthrottle { .. }
            | Event::Overutilized { .. }
            | Event::BandwidthPeriod { .. }
            | Event::Balance { .. }
            | Event::HLoad { .. }
            | Event::Overhead { .. }
            | Event::LoopEnd { .. }
            | Event::SleepReturn { .. }
            | Event::AffinityLost { .. } => return None,
        })
    }
}

#[inline]
fn wakeup(identity: Identity<'_>, target: CpuId) -> SchedWakeup {
    SchedWakeup {
        comm: Some(identity.comm.clone()),
        pid: Some(identity.pid),
        prio: Some(identity.prio),
        success: Some(1),
        target_cpu: Some(target.0 as i32),
    }
}
