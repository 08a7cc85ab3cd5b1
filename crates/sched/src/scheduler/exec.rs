//! exec, when a task has no cache to lose and moves to the idlest CPU.

use super::common::take_away;
use super::hotplug::allowed_cpu;
use crate::balance::active::Push;
use crate::class;
use crate::class::finish::finish_verb;
use crate::event::MigrateCause;
use crate::host::Host;
use crate::ids::{CpuId, TaskId};
use crate::policy::Policy;
use crate::rq::Rqs;
use crate::scheduler::view::Scheduler;
use crate::task::TaskState;

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Handles an exec of the running task of `cpu` (`sched_exec`). Returns whether the task moves, since another CPU
    /// is idler. Then the host calls [`Self::schedule`] with [`PrevState::Preempted`](crate::event::PrevState) at once,
    /// and the stopper moves the task.
    ///
    /// If the stopper already has a push, the task stays.
    #[must_use]
    pub fn exec(&mut self, cpu: CpuId) -> bool {
        let shared = self.shared;
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now);
        let Some(current) = rq.curr else { return false };
        if rq.push.is_some() {
            return false;
        }
        let chosen = class::select_cpu_exec(&mut rq, shared, current);
        let to = allowed_cpu(shared, &rq.tasks[current].affinity, chosen, cpu);
        let moves = to != cpu;
        if moves {
            rq.push = Some(Push::Exec { task: rq.tasks[current].id, to });
            rq.resched();
        }
        finish_verb(&mut rq, shared, self.host);
        moves
    }

    /// Moves a task that execs, if it still waits on `cpu` and may run on `to`.
    pub(super) fn push_exec(&mut self, cpu: CpuId, task: TaskId, to: CpuId) {
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now);
        let Some(index) = rq.find(self.shared, task) else { return };
        let execs = &rq.tasks[index];
        if !execs.on_rq
            || execs.state != TaskState::Runnable
            || rq.curr == Some(index)
            || !execs.allowed(to)
            || !self.shared.is_online(to)
        {
            return;
        }
        let moving = take_away(&mut rq, self.shared, self.host, index);
        drop(rq);
        self.arrive(moving, cpu, to, MigrateCause::Exec);
    }
}
