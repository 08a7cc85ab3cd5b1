//! Deadline tasks between CPUs: wakeup, push and pull, so that the machine's earliest deadlines run (global EDF).

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use super::place::{entity, later_cpu, pick_pushable};
use super::shared::NONE;
use crate::attrs::ClassKind;
use crate::class::callback::{Callback, MAX_TRIES};
use crate::class::finish::finish_verb;
use crate::class::moves::carry;
use crate::event::MigrateCause;
use crate::host::Host;
use crate::ids::CpuId;
use crate::policy::Policy;
use crate::rq::Rqs;
use crate::scheduler::view::Scheduler;

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    #[inline(never)]
    pub(crate) fn dl_callback(&mut self, cpu: CpuId, callback: Option<Callback>) {
        match callback {
            None => {}
            Some(Callback::Push) => self.push_dl_tasks(cpu, cpu),
            Some(Callback::Pull) => self.pull_dl_task(cpu, true),
        }
    }

    /// Pushes tasks that `cpu` cannot run to CPUs with later deadlines. `on` is the CPU that runs this code.
    #[inline(never)]
    pub(crate) fn push_dl_tasks(&mut self, cpu: CpuId, on: CpuId) {
        while self.push_dl_task(cpu, on) {}
    }

    fn push_dl_task(&mut self, cpu: CpuId, on: CpuId) -> bool {
        let shared = self.shared;
        for _ in 0..MAX_TRIES {
            let mut rq = self.rqs.rq(cpu);
            if shared.dl.offered(&rq.dl) == NONE {
                return false;
            }
            let Some(index) = pick_pushable(&rq, |_| true) else { return false };
            let deadline = entity(&rq, index).deadline;
            // It arrived during a switch, and precedes the running task.
            let preempts = rq.curr.is_some_and(|current| {
                let running = &rq.tasks[current];
                running.kind == ClassKind::Deadline
                    && deadline < entity(&rq, current).deadline
                    && running.nr_cpus_allowed(shared.nr_cpus()) > 1
            });
            if preempts {
                rq.resched();
                finish_verb(&mut rq, shared, self.host);
                return false;
            }
            let id = rq.tasks[index].id;
            let Some(target) = later_cpu(shared, &rq.tasks[index], deadline, cpu, on) else { return false };
            if target == cpu || !shared.dl.cpudl.is_earlier(deadline, target) {
                return false;
            }
            drop(rq);
            let (mut from, mut to) = self.rqs.pair(cpu, target);
            from.update_clock(self.now);
            to.update_clock(self.now);
            // Both were unlocked: check again.
            let index = pick_pushable(&from, |_| true);
            let Some(index) = index.filter(|&index| from.tasks[index].id == id && from.tasks[index].allowed(target))
            else {
                continue;
            };
            if !to.online || to.dl.earliest().is_some_and(|earliest| earliest <= entity(&from, index).deadline) {
                continue;
            }
            carry((&mut from, &mut to), shared, self.host, self.now, index, (cpu, MigrateCause::DlPush));
            to.resched();
            finish_verb(&mut to, shared, self.host);
            return true;
        }
        false
    }

    /// Pulls tasks with earlier deadlines than all on `cpu`. `tell`: reschedules `cpu` after a pull.
    #[inline(never)]
    pub(crate) fn pull_dl_task(&mut self, cpu: CpuId, tell: bool) {
        let shared = self.shared;
        let others = shared.dl.overloaded.iter_from(CpuId(0));
        let others: Vec<CpuId> = others.filter(|&other| other != cpu && shared.same_root(cpu, other)).collect();
        for src in others {
            if !shared.dl.cpudl.is_earlier(shared.dl.next[src.index()].load(Relaxed), cpu) {
                continue;
            }
            let (mut from, mut to) = self.rqs.pair(src, cpu);
            from.update_clock(self.now);
            to.update_clock(self.now);
            let Some(index) = pick_pushable(&from, |task| task.allowed(cpu)) else { continue };
            let deadline = entity(&from, index).deadline;
            if !to.online || to.dl.earliest().is_some_and(|earliest| earliest <= deadline) {
                continue;
            }
            // A task that is about to preempt stays.
            let preempts = from.curr.is_none_or(|current| {
                from.tasks[current].kind != ClassKind::Deadline || deadline < entity(&from, current).deadline
            });
            if preempts {
                continue;
            }
            carry((&mut from, &mut to), shared, self.host, self.now, index, (cpu, MigrateCause::DlPull));
            if tell {
                to.resched();
                finish_verb(&mut to, shared, self.host);
            } else {
                to.publish(shared);
            }
        }
    }
}
