//! The verbs of CPU limits.

use alloc::vec::Vec;

use crate::class::fair::bandwidth::pool::Limit;
use crate::class::finish::finish_verb;
use crate::event::Event;
use crate::group::GroupError;
use crate::host::{Host, Timer};
use crate::ids::{CpuId, GroupId};
use crate::kernels::Behaviour;
use crate::policy::{Limited, Policy};
use crate::rq::Rqs;
use crate::scheduler::view::Scheduler;
use crate::tunables::Tunables;

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Sets or removes a group's CPU limit: `cpu.max` and `cpu.max.burst`. It takes effect at once, with a whole quota
    /// and without debt. Policies without [`Limited::ENFORCED`] ignore it.
    ///
    /// # Errors
    ///
    /// If the group is the root.
    pub fn set_group_bandwidth(&mut self, group: GroupId, limit: Option<Limit>) -> Result<(), GroupError> {
        let shared = self.shared;
        if group == GroupId::ROOT {
            return Err(GroupError::Root);
        }
        if limit.is_none() && shared.group(group).pool().is_none() {
            return Ok(());
        }
        let pool = shared.group(group).pool_or_new(
            shared.config.has(Behaviour::PeriodPhasesDiffer),
            group,
            shared.config.cfs_period_phase_ns,
        );
        let arm = pool.lock().set(limit, self.now);
        if arm.is_some() {
            self.host.arm(Timer::GroupPeriod(group), arm);
        }
        for cpu in (0..shared.nr_cpus() as u32).map(CpuId) {
            let mut rq = self.rqs.rq(cpu);
            rq.update_clock(self.now);
            P::Limits::limit_changed(&mut rq, shared, group);
            finish_verb(&mut rq, shared, self.host);
        }
        Ok(())
    }

    /// Handles the end of a group's period (`sched_cfs_period_timer`).
    pub(crate) fn group_period(&mut self, group: GroupId, cpu: CpuId) {
        let Some(pool) = self.shared.group(group).pool() else { return };
        let end = pool.lock().period_timer(self.now);
        if end.periods > 0 {
            let periods = u32::try_from(end.periods).unwrap_or(u32::MAX);
            let event = Event::BandwidthPeriod { group, periods, throttled: end.throttled, burst: end.burst };
            self.host.event(self.now, cpu, &event);
        }
        if end.throttled {
            self.distribute(group);
        }
        let next = pool.lock().next_period();
        if let Some(at) = next {
            self.host.arm(Timer::GroupPeriod(group), Some(at));
        }
    }

    /// `do_sched_cfs_slack_timer`.
    pub(crate) fn group_slack(&mut self, group: GroupId) {
        let slice = self.shared.config.tunables.cfs_bandwidth_slice_ns();
        let Some(pool) = self.shared.group(group).pool() else { return };
        let due = pool.lock().slack_timer(slice, self.now);
        if due {
            self.distribute(group);
        }
    }

    /// Distributes a group's pool to the waiting CPUs, in the order of their arrival.
    fn distribute(&mut self, group: GroupId) {
        let Some(pool) = self.shared.group(group).pool() else { return };
        let waiting: Vec<CpuId> = pool.lock().waiting().to_vec();
        for cpu in waiting {
            if !pool.lock().has_runtime() {
                break;
            }
            let mut rq = self.rqs.rq(cpu);
            rq.update_clock(self.now);
            P::Limits::distribute(&mut rq, self.shared, group);
            finish_verb(&mut rq, self.shared, self.host);
        }
    }

    /// Returns the running task of `cpu` to user mode. Hosts call this when
    /// [`Rq::notify_resume`](crate::Rq::notify_resume) is set, after a pending reschedule. 6.18+: a task of a throttled
    /// group stops here, by a reschedule.
    pub fn return_to_user(&mut self, cpu: CpuId) {
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now);
        rq.notify_resume = false;
        if let Some(curr) = rq.curr_ordinary {
            P::Limits::return_to_user(&mut rq, self.shared, curr);
        }
        finish_verb(&mut rq, self.shared, self.host);
    }
}
