//! Real-time tasks between CPUs (wakeup, push, pull): the machine's most urgent tasks run.

use super::asking::ask_for_tasks;
use super::place::{find_lowest, pick_pushable};
use crate::class::callback::{Callback, MAX_TRIES};
use crate::class::finish::finish_verb;
use crate::class::moves::carry;
use crate::event::MigrateCause;
use crate::features::Feature;
use crate::host::Host;
use crate::ids::CpuId;
use crate::policy::Policy;
use crate::rq::Rqs;
use crate::scheduler::view::Scheduler;

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    #[inline(never)]
    pub(crate) fn rt_callback(&mut self, cpu: CpuId, callback: Option<Callback>) {
        match callback {
            None => {}
            Some(Callback::Push) => self.push_rt_tasks(cpu, cpu),
            Some(Callback::Pull) => self.pull_rt_task(cpu, true),
        }
    }

    /// `on` is the CPU that runs this code.
    #[inline(never)]
    pub(crate) fn push_rt_tasks(&mut self, cpu: CpuId, on: CpuId) {
        while self.push_rt_task(cpu, on) {}
    }

    fn push_rt_task(&mut self, cpu: CpuId, on: CpuId) -> bool {
        let shared = self.shared;
        for _ in 0..MAX_TRIES {
            let mut rq = self.rqs.rq(cpu);
            if !shared.rt.offers(&rq.rt) {
                return false;
            }
            let Some(index) = pick_pushable(&rq, |_| true) else { return false };
            // It arrived during a switch, and precedes the running task.
            if rq.prio_of_running().is_some_and(|running| rq.tasks[index].prio() < running) {
                rq.resched();
                finish_verb(&mut rq, shared, self.host);
                return false;
            }
            let task = &rq.tasks[index];
            let (id, level) = (task.id, task.rt_level());
            let Some(target) = find_lowest(shared, task, cpu, on) else { return false };
            if target == cpu || shared.rt.highest(target) <= level {
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
            if to.rt.highest() <= from.tasks[index].rt_level() || !to.online {
                continue;
            }
            carry((&mut from, &mut to), shared, self.host, self.now, index, (cpu, MigrateCause::RtPush));
            to.resched();
            finish_verb(&mut to, shared, self.host);
            return true;
        }
        false
    }

    /// Pulls or requests tasks that are more urgent than all on `cpu`. `tell`: reschedules `cpu` after a pull.
    #[inline(never)]
    pub(crate) fn pull_rt_task(&mut self, cpu: CpuId, tell: bool) {
        let shared = self.shared;
        if shared.config.features.has(Feature::RtPushIpi) {
            ask_for_tasks(shared, self.host, self.now, cpu);
            return;
        }
        let others = shared.rt.overloaded().iter_from(CpuId(0));
        let others: alloc::vec::Vec<CpuId> =
            others.filter(|&other| other != cpu && shared.same_root(cpu, other)).collect();
        for src in others {
            if shared.rt.next(src) >= shared.rt.highest(cpu) {
                continue;
            }
            let (mut from, mut to) = self.rqs.pair(src, cpu);
            from.update_clock(self.now);
            to.update_clock(self.now);
            let Some(index) = pick_pushable(&from, |task| task.allowed(cpu)) else { continue };
            let level = from.tasks[index].rt_level();
            if level >= to.rt.highest() || !to.online {
                continue;
            }
            // A task that is about to preempt, or to end the CPU's idle time, stays.
            if from.prio_of_running().is_some_and(|running| i16::from(level) < running) {
                continue;
            }
            carry((&mut from, &mut to), shared, self.host, self.now, index, (cpu, MigrateCause::RtPull));
            if tell {
                to.resched();
                finish_verb(&mut to, shared, self.host);
            } else {
                to.publish(shared);
            }
        }
    }
}
