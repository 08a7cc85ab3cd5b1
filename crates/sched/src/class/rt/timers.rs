//! Ends of periods, and changes of limits.

use core::sync::atomic::Ordering::Relaxed;

use super::limits::{INFINITE, RtLimit, RtLimitError, bandwidth_of, enabled, limit, schedulable};
use super::{bandwidth, limits};
use crate::class::finish::finish_verb;
use crate::host::{Host, Timer};
use crate::ids::{CpuId, GroupId};
use crate::policy::Policy;
use crate::rq::Rqs;
use crate::scheduler::view::Scheduler;
use crate::task::Task;
use crate::tunables::Tunables;

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Ends one or more periods on every CPU.
    pub(crate) fn rt_period_timer(&mut self) {
        let shared = self.shared;
        if shared.config.rt_group_sched {
            self.rt_group_period_timer(GroupId::ROOT);
            return;
        }
        let periods = &shared.rt.bandwidth;
        let Some(runtime) = bandwidth::runtime(shared) else { return };
        let period = shared.config.tunables.rt_period_ns();
        let overrun = periods.overrun(self.now, period);
        let mut needed = false;
        for cpu in (0..shared.nr_cpus() as u32).map(CpuId) {
            let mut rq = self.rqs.rq(cpu);
            if rq.rt.nr_running > 0 || rq.rt.rt_time > 0 {
                // The running task is not charged: its time since the tick counts in the new period.
                rq.update_clock(self.now);
                needed |= bandwidth::replenish(&mut rq, shared, runtime, overrun);
                finish_verb(&mut rq, shared, self.host);
            }
        }
        let next = periods.next(overrun, period, needed);
        if next.is_some() {
            self.host.arm(Timer::RtPeriod, next);
        }
    }
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Returns a group's `cpu.rt_runtime_us` and `cpu.rt_period_us`.
    pub fn group_rt(&self, group: GroupId) -> RtLimit {
        limit(self.shared, group)
    }

    /// Sets `cpu.rt_runtime_us` and `cpu.rt_period_us`. A throttled group still waits for the end of the present
    /// period.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the limit; nothing is changed then.
    pub fn set_group_rt(&mut self, group: GroupId, wanted: RtLimit) -> Result<(), RtLimitError> {
        let shared = self.shared;
        if !shared.config.rt_group_sched {
            return Err(RtLimitError::Off);
        }
        if group == GroupId::ROOT {
            return Err(RtLimitError::Root);
        }
        if wanted.period == 0 {
            return Err(RtLimitError::NoPeriod);
        }
        if enabled(shared)
            && wanted.runtime == Some(0)
            && limit(shared, group).runtime != Some(0)
            && self.has_rt_tasks(group)
        {
            return Err(RtLimitError::Busy);
        }
        schedulable(shared, group, wanted)?;
        let own = shared.group(group).rt.own(wanted.period);
        let runtime = wanted.runtime.unwrap_or(INFINITE);
        own.runtime.store(runtime, Relaxed);
        own.period.store(wanted.period, Relaxed);
        for cpu in (0..shared.nr_cpus() as u32).map(CpuId).filter(|&cpu| shared.is_online(cpu)) {
            own.bandwidth.reset(cpu, runtime);
        }
        Ok(())
    }

    /// Whether the group itself has a real-time task, asleep or not.
    fn has_rt_tasks(&mut self, group: GroupId) -> bool {
        let cpus = (0..self.shared.nr_cpus() as u32).map(CpuId);
        let realtime = |task: &Task<P>| task.group == group && (0..100).contains(&task.prio());
        cpus.into_iter().any(|cpu| self.rqs.rq(cpu).tasks.iter().any(|(_, task)| realtime(task)))
    }

    /// Ends one or more periods of a group on every CPU.
    pub(crate) fn rt_group_period_timer(&mut self, group: GroupId) {
        let shared = self.shared;
        let Some(bandwidth) = bandwidth_of(shared, group) else { return };
        let period = limit(shared, group).period.max(1);
        let overrun = bandwidth.overrun(self.now, period);
        let mut needed = false;
        for cpu in (0..shared.nr_cpus() as u32).map(CpuId) {
            let mut rq = self.rqs.rq(cpu);
            let this = rq.rt.groups.as_ref().and_then(|groups| groups.rq(group));
            if this.is_some_and(|this| this.time > 0 || this.nr_running() > 0) {
                // As in the machine's own period, the running task is not charged.
                rq.update_clock(self.now);
                needed |= limits::replenish(&mut rq, shared, group, overrun);
                finish_verb(&mut rq, shared, self.host);
            }
        }
        let timer = if group == GroupId::ROOT { Timer::RtPeriod } else { Timer::RtGroupPeriod(group) };
        let next = bandwidth.next(overrun, period, needed && enabled(shared));
        if next.is_some() {
            self.host.arm(timer, next);
        }
    }
}
