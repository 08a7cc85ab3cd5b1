//! Push and pull of the real-time and deadline classes, so that the machine's most urgent tasks run.

use alloc::vec::Vec;

use super::deadline::place::later_cpu;
use super::finish::finish_verb;
use super::moves::carry;
use super::pushable::{Callback, NONE, Offers, Pushable};
use super::rt::ask_for_tasks;
use super::rt::place::find_lowest;
use crate::attrs::ClassKind;
use crate::event::MigrateCause;
use crate::features::Feature;
use crate::host::Host;
use crate::ids::CpuId;
use crate::policy::Policy;
use crate::rq::{Rq, Rqs};
use crate::scheduler::view::Scheduler;
use crate::shared::Shared;
use crate::task::Task;

/// Tries of a search whose result has changed meanwhile.
const MAX_TRIES: u32 = 3;

impl Offers {
    /// Returns the other CPUs in the root domain of `cpu` that offer tasks.
    fn others<P: Policy>(&self, shared: &Shared<P>, cpu: CpuId) -> Vec<CpuId> {
        self.cpus().iter_from(CpuId(0)).filter(|&other| other != cpu && shared.same_root(cpu, other)).collect()
    }

    /// Whether a CPU in the root domain of `cpu` offers tasks.
    pub(crate) fn any<P: Policy>(&self, shared: &Shared<P>, cpu: CpuId) -> bool {
        let mut cpus = self.cpus().iter_from(CpuId(0));
        if shared.is_split() { cpus.any(|other| shared.same_root(cpu, other)) } else { !self.cpus().is_empty() }
    }
}

fn offers<P: Policy>(shared: &Shared<P>, kind: ClassKind) -> &Offers {
    if kind == ClassKind::Deadline { &shared.dl.offers } else { &shared.rt.offers }
}

fn pushable<P: Policy>(rq: &Rq<P>, kind: ClassKind) -> &Pushable {
    if kind == ClassKind::Deadline { &rq.dl.pushable } else { &rq.rt.pushable }
}

fn urgency<P: Policy>(task: &Task<P>) -> u64 {
    task.deadline().map_or_else(|| u64::from(task.rt_level()), |se| se.deadline)
}

/// Whether a CPU's tasks of the class, as published, are all less urgent than `urgency`.
fn is_first<P: Policy>(shared: &Shared<P>, kind: ClassKind, urgency: u64, cpu: CpuId) -> bool {
    match kind {
        ClassKind::Deadline => shared.dl.cpudl.is_earlier(urgency, cpu),
        _ => urgency < u64::from(shared.rt.highest(cpu)),
    }
}

/// As [`is_first`], on a locked run queue, which must be online.
fn may_join<P: Policy>(rq: &Rq<P>, kind: ClassKind, urgency: u64) -> bool {
    let first = match kind {
        ClassKind::Deadline => rq.dl.earliest().unwrap_or(NONE),
        _ => u64::from(rq.rt.highest()),
    };
    rq.online && urgency < first
}

/// Whether a waiting task is about to preempt the running task, or to end the CPU's idle time.
fn preempts<P: Policy>(rq: &Rq<P>, task: &Task<P>) -> bool {
    if task.kind != ClassKind::Deadline {
        return rq.prio_of_running().is_some_and(|running| task.prio() < running);
    }
    let running = rq.curr.and_then(|current| rq.tasks[current].deadline());
    running.is_none_or(|running| urgency(task) < running.deadline)
}

/// Whether a preempting task is not to be pushed. A deadline task is, unless the running task of its class could be.
fn preempts_here<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, task: &Task<P>) -> bool {
    let running = rq.curr.map(|current| &rq.tasks[current]).filter(|running| running.kind == ClassKind::Deadline);
    let other = || running.is_some_and(|running| running.nr_cpus_allowed(shared.nr_cpus()) > 1);
    preempts(rq, task) && (task.kind != ClassKind::Deadline || other())
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    #[inline(never)]
    pub(crate) fn call_back(&mut self, kind: ClassKind, cpu: CpuId, callback: Option<Callback>) {
        match callback {
            None => {}
            Some(Callback::Push) => self.push_tasks(kind, cpu, cpu),
            Some(Callback::Pull) => self.pull_tasks(kind, cpu, true),
        }
    }

    /// Pushes tasks that `cpu` cannot run to CPUs with less urgent tasks. `on` is the CPU that runs this code.
    #[inline(never)]
    pub(crate) fn push_tasks(&mut self, kind: ClassKind, cpu: CpuId, on: CpuId) {
        while self.push_task(kind, cpu, on) {}
    }

    fn push_task(&mut self, kind: ClassKind, cpu: CpuId, on: CpuId) -> bool {
        let shared = self.shared;
        let cause = if kind == ClassKind::Deadline { MigrateCause::DlPush } else { MigrateCause::RtPush };
        for _ in 0..MAX_TRIES {
            let mut rq = self.rqs.rq(cpu);
            let offers =
                if kind == ClassKind::Deadline { shared.dl.offered(&rq.dl) } else { shared.rt.offered(&rq.rt) };
            let Some(index) = pushable(&rq, kind).tasks().next().filter(|_| offers != NONE) else { return false };
            let task = &rq.tasks[index];
            // It arrived during a switch.
            if preempts_here(&rq, shared, task) {
                rq.resched();
                finish_verb(&mut rq, shared, self.host);
                return false;
            }
            let id = task.id;
            let target = match task.deadline() {
                Some(se) => later_cpu(shared, task, se.deadline, cpu, on),
                None => find_lowest(shared, task, cpu, on),
            };
            let target = target.filter(|&target| target != cpu && is_first(shared, kind, urgency(task), target));
            let Some(target) = target else { return false };
            drop(rq);
            let (mut from, mut to) = self.rqs.pair(cpu, target);
            from.update_clock(self.now);
            to.update_clock(self.now);
            // Both were unlocked: check again.
            let Some(index) = pushable(&from, kind).tasks().next() else { continue };
            let task = &from.tasks[index];
            if task.id != id || !task.allowed(target) || !may_join(&to, kind, urgency(task)) {
                continue;
            }
            carry((&mut from, &mut to), shared, self.host, self.now, index, (cpu, cause));
            to.resched();
            finish_verb(&mut to, shared, self.host);
            return true;
        }
        false
    }

    /// Pulls or requests tasks that are more urgent than all on `cpu`. `tell`: reschedules `cpu` after a pull.
    #[inline(never)]
    pub(crate) fn pull_tasks(&mut self, kind: ClassKind, cpu: CpuId, tell: bool) {
        let shared = self.shared;
        if kind == ClassKind::Rt && shared.config.features.has(Feature::RtPushIpi) {
            ask_for_tasks(shared, self.host, self.now, cpu);
            return;
        }
        let cause = if kind == ClassKind::Deadline { MigrateCause::DlPull } else { MigrateCause::RtPull };
        let offers = offers(shared, kind);
        for src in offers.others(shared, cpu) {
            if !is_first(shared, kind, offers.of(src), cpu) {
                continue;
            }
            let (mut from, mut to) = self.rqs.pair(src, cpu);
            from.update_clock(self.now);
            to.update_clock(self.now);
            let index = pushable(&from, kind).tasks().find(|&index| from.tasks[index].allowed(cpu));
            let may = |task: &Task<P>| may_join(&to, kind, urgency(task)) && !preempts(&from, task);
            let Some(index) = index.filter(|&index| may(&from.tasks[index])) else { continue };
            carry((&mut from, &mut to), shared, self.host, self.now, index, (cpu, cause));
            if tell {
                to.resched();
                finish_verb(&mut to, shared, self.host);
            } else {
                to.publish(shared);
            }
        }
    }
}
