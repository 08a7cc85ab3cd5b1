//! CPUs that go offline and online during a run.
//!
//! The write to `/sys/devices/system/cpu/cpuN/online` takes no time. The departing CPU works until its stopper has
//! moved the running task away. Then its time is idle, and its timers fire on an online CPU.

use std::collections::BTreeSet;

use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::{CpuMask, HotplugError, Policy, Scheduler};
use vruntime_trace::Sink;
use vruntime_workload::program::Hotplug;

use crate::error::Error;
use crate::machine::{Machine, sched};
use crate::moment::Moment;

/// The most tasks named in notes of one kind. Others are counted.
const NAMED: usize = 8;

/// Checks that a machine with `nr_cpus` CPUs can make these changes.
///
/// # Errors
///
/// If a CPU does not exist, is already offline (online), is the last, or is the last that is not `isolated`.
pub(crate) fn check(hotplug: &[Hotplug], nr_cpus: usize, isolated: &CpuMask) -> Result<(), Error> {
    let mut online = vec![true; nr_cpus];
    let mut last = 0;
    for &Hotplug { at, cpu, online: up } in hotplug {
        let id = CpuId(cpu);
        let wrong = match online.get(cpu as usize) {
            None => Some(HotplugError::NoSuchCpu { cpu: id, nr_cpus }),
            Some(true) if up => Some(HotplugError::Online(id)),
            Some(false) if !up => Some(HotplugError::Offline(id)),
            Some(_) if !up && online.iter().filter(|&&online| online).count() == 1 => Some(HotplugError::Last(id)),
            Some(_) if !up && !isolated.contains(id) => {
                let mut others = (0u32..).map(CpuId).zip(&online).filter(|(other, online)| **online && *other != id);
                others.all(|(other, _)| isolated.contains(other)).then_some(HotplugError::LastHousekeeping(id))
            }
            Some(_) => None,
        };
        if let Some(reason) = wrong {
            return Err(Error::Hotplug { at, reason });
        }
        if at < last {
            return Err(Error::HotplugOrder { at });
        }
        (online[cpu as usize], last) = (up, at);
    }
    Ok(())
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(crate) fn arm_hotplug(&mut self) {
        if let Some(next) = self.workload.hotplug.get(self.plugged) {
            let source = self.core.hotplug_source();
            self.core.queue.arm(source, next.at);
        }
    }

    #[inline(never)]
    pub(crate) fn on_hotplug(&mut self) {
        let Hotplug { at, cpu, online } = self.workload.hotplug[self.plugged];
        self.plugged += 1;
        self.arm_hotplug();
        let (id, now) = (CpuId(cpu), self.core.now);
        let others = (0..self.core.cpus.len()).filter(|&other| other != cpu as usize);
        // There is one, as checked.
        let Some(by) = others.into_iter().find(|&other| self.shared.is_online(CpuId(other as u32))) else { return };
        self.core.cpus[by].account_until(now);
        let done = if online { sched!(self, by).cpu_up(id) } else { sched!(self, by).cpu_down(id) };
        match done {
            Ok(()) => {}
            Err(reason @ HotplugError::Deadline { .. }) => {
                self.notes.push(format!("hotplug at {} is refused, as in Linux: {reason}", Moment(at)));
            }
            // It could not go offline, so it need not return.
            Err(reason) => debug_assert_eq!(reason, HotplugError::Online(id), "checked before the run began"),
        }
        if done.is_ok() {
            let domains = self.domains();
            self.core.sink.domains(now, &domains);
            self.tell_cpusets();
        }
        if online && done.is_ok() {
            if self.core.cpus[cpu as usize].is_idle() {
                sched!(self, by).tick_stopped(id);
            }
            self.rebind(by, cpu);
        }
        self.leave_interrupt(by);
    }

    /// Returns a CPU's kernel threads when it is online again (`rebind_workers`).
    fn rebind(&mut self, by: usize, cpu: u32) {
        for task in 0..self.tasks.len() {
            let template = self.tasks[task].template as usize;
            if template < self.own || self.workload.tasks[template].settings.cpus.as_deref() != Some(&[cpu]) {
                continue;
            }
            let affinity = self.programs.settings[self.programs.initial[template] as usize].affinity.clone();
            let id = TaskId(task as u32);
            let set = sched!(self, by).set_affinity(id, affinity, CpuId(by as u32));
            debug_assert_eq!(set, Ok(()), "the CPU is online, and kernel threads are of the fair class");
        }
    }

    /// Returns `cpu`, or another CPU if it is offline without work.
    #[inline]
    pub(crate) fn working(&self, cpu: usize) -> usize {
        if self.shared.all_online() { cpu } else { self.first_working(cpu) }
    }

    #[cold]
    fn first_working(&self, cpu: usize) -> usize {
        if self.shared.is_online(CpuId(cpu as u32)) || !self.core.cpus[cpu].is_idle() {
            return cpu;
        }
        self.shared.online().first().map_or(cpu, CpuId::index)
    }

    /// Adds notes on tasks whose CPUs all went offline, and on refused affinities.
    pub(crate) fn affinity_notes(&self, notes: &mut Vec<String>) {
        let mut tell = |tasks: &BTreeSet<TaskId>, what: &str| {
            let own: Vec<&TaskId> =
                tasks.iter().filter(|task| (self.tasks[task.index()].template as usize) < self.own).collect();
            for task in own.iter().take(NAMED) {
                notes.push(format!("task `{}` {what}", self.task_name(task.0)));
            }
            match own.len().saturating_sub(NAMED) {
                0 => {}
                1 => notes.push(format!("… and 1 more task {what}")),
                more => notes.push(format!("… and {more} more tasks: each {what}")),
            }
        };
        tell(&self.core.lost, "was to run on CPUs that were all offline: from then on it ran anywhere, as in Linux");
        let outside = "asked for CPUs outside its cpuset (EINVAL), and kept its affinity";
        tell(&self.core.outside, outside);
        let barren = "is of SCHED_DEADLINE and may not fork (EAGAIN), so its child does not start; fork before the change of policy, or from another task";
        tell(&self.barren, barren);
        tell(&self.core.refused, "asked only for offline CPUs (EINVAL), and kept its affinity");
    }
}
