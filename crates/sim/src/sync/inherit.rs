//! Priority inheritance: a mutex's holder gets its most urgent waiter's priority, so that no task in between delays the
//! unlock. The priority passes along the chain of holders.
//!
//! As in Linux, only real-time and deadline tasks lend priority. Waiters queue by urgency, then by arrival. Fair tasks
//! are equal. A deadline task inherits another's parameters only if that has the earlier deadline. Until then it is
//! throttled as usual.
//!
//! Until a task runs that was handed a mutex, a more urgent task can take the mutex (`rt_mutex_steal`). Observed under
//! 6.18: a FIFO task sleeps with a mutex, and locks it again right after each unlock. An ordinary waiter starves: in 3
//! s, some 325 unlocks woke it in vain.

use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::{Boost, Policy, Rq, Scheduler, Shared};
use vruntime_trace::Sink;

use super::mutex_of;
use crate::machine::{Machine, sched};
use crate::task::{Lent, Life, NOBODY, Next};

/// The kernel's `DEFAULT_PRIO`, for all fair waiters.
const DEFAULT_PRIO: i16 = 120;
/// The `prio` of real-time priority 0, less urgent than any real-time task.
const RT_PRIO_0: i16 = 99;

/// The kernel's `prio`, with what is lent, then the absolute deadline among deadline tasks. Lower is more urgent.
pub(crate) type Urgency = (i16, u64);

fn urgency<P: Policy>(rqs: &[Rq<P>], shared: &Shared<P>, task: u32) -> Urgency {
    let Some((cpu, index)) = shared.locate(TaskId(task)) else { return (DEFAULT_PRIO, 0) };
    let task = &rqs[cpu.index()].tasks[index];
    (task.prio(), task.deadline().map_or(0, |entity| entity.deadline))
}

fn waiter_urgency<P: Policy>(rqs: &[Rq<P>], shared: &Shared<P>, task: u32) -> Urgency {
    let urgency = urgency(rqs, shared, task);
    if urgency.0 < RT_PRIO_0 { urgency } else { (DEFAULT_PRIO, 0) }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Adds the running task to a mutex's waiters, and lends the owner its urgency.
    pub(super) fn wait_and_lend(&mut self, cpu: usize, task: u32, mutex: u32) {
        let owner = self.objects.mutexes[mutex as usize].owner;
        if self.objects.mutexes[mutex as usize].waiters.is_empty() {
            self.add_contended(owner, mutex);
        }
        self.queue_by_urgency(task, mutex);
        if self.objects.mutexes[mutex as usize].waiters.first() == Some(task) {
            self.adjust(cpu, owner);
        }
    }

    /// Hands a contended mutex to its first waiter, which is returned. The owner loses what it was lent for it.
    pub(super) fn hand_over(&mut self, cpu: usize, mutex: u32) -> Option<u32> {
        let this = &mut self.objects.mutexes[mutex as usize];
        let old = this.owner;
        let waiter = this.waiters.pop(&mut self.tasks);
        this.owner = waiter.unwrap_or(NOBODY);
        let others_wait = !this.waiters.is_empty();
        let new = waiter?;
        self.remove_contended(old, mutex);
        if others_wait {
            self.add_contended(new, mutex);
        }
        self.adjust(cpu, old);
        self.adjust(cpu, new);
        waiter
    }

    /// Takes a mutex from a less urgent task that has not run since it got it. Returns whether it did.
    pub(super) fn steal(&mut self, cpu: usize, task: u32, mutex: u32) -> bool {
        let this = &self.objects.mutexes[mutex as usize];
        let heir = this.owner;
        if !this.inherits || !self.is_heir(heir, mutex) {
            return false;
        }
        if waiter_urgency(&self.rqs, &self.shared, task) >= waiter_urgency(&self.rqs, &self.shared, heir) {
            return false;
        }
        let contended = !this.waiters.is_empty();
        if contended {
            self.remove_contended(heir, mutex);
            self.add_contended(task, mutex);
        }
        self.objects.mutexes[mutex as usize].owner = task;
        self.adjust(cpu, heir);
        self.adjust(cpu, task);
        true
    }

    fn is_heir(&self, owner: u32, mutex: u32) -> bool {
        let owner = &self.tasks[owner as usize];
        owner.next == Next::ReturnLock && mutex_of(self.programs.code[owner.pc as usize]) == mutex
    }

    fn add_contended(&mut self, owner: u32, mutex: u32) {
        let first = &mut self.tasks[owner as usize].first_contended;
        self.objects.mutexes[mutex as usize].next_contended = *first;
        *first = mutex;
    }

    fn remove_contended(&mut self, owner: u32, mutex: u32) {
        let after = self.objects.mutexes[mutex as usize].next_contended;
        let first = &mut self.tasks[owner as usize].first_contended;
        if *first == mutex {
            *first = after;
            return;
        }
        let mut at = *first;
        while at != NOBODY {
            let next = self.objects.mutexes[at as usize].next_contended;
            if next == mutex {
                self.objects.mutexes[at as usize].next_contended = after;
                return;
            }
            at = next;
        }
    }

    fn queue_by_urgency(&mut self, task: u32, mutex: u32) {
        let Self { objects, tasks, rqs, shared, .. } = self;
        let own = waiter_urgency(rqs, shared, task);
        let overtakes = |other| own < waiter_urgency(rqs, shared, other);
        objects.mutexes[mutex as usize].waiters.insert(tasks, task, overtakes);
    }

    fn owed(&self, task: u32) -> Lent {
        let some = |mutex: u32| (mutex != NOBODY).then_some(mutex);
        let next = |&mutex: &u32| some(self.objects.mutexes[mutex as usize].next_contended);
        let contended = std::iter::successors(some(self.tasks[task as usize].first_contended), next);
        let first_waiters = contended.filter_map(|mutex| self.objects.mutexes[mutex as usize].waiters.first());
        let urgent = first_waiters.map(|waiter| (urgency(&self.rqs, &self.shared, waiter), waiter)).min();
        match urgent {
            Some(((prio, _), waiter)) if prio < 0 => Lent { prio, by: waiter },
            Some(((prio, _), _)) if prio < RT_PRIO_0 => Lent { prio, by: NOBODY },
            _ => Lent::NOTHING,
        }
    }

    fn boost(&self, lent: Lent) -> Option<Boost> {
        if lent == Lent::NOTHING {
            return None;
        }
        if lent.by == NOBODY {
            return Some(Boost::Rt((RT_PRIO_0 - lent.prio) as u8));
        }
        let (cpu, index) = self.shared.locate(TaskId(lent.by))?;
        let lender = self.rqs[cpu.index()].tasks[index].deadline()?;
        Some(Boost::Deadline { donor: lender.effective(), deadline: lender.deadline })
    }

    /// Updates a task's lent urgency, then that of the tasks it waits for (`rt_mutex_adjust_prio_chain`). In a cycle
    /// this ends when all are as urgent as the most urgent.
    fn adjust(&mut self, cpu: usize, task: u32) {
        let mut task = task;
        loop {
            if self.tasks[task as usize].life == Life::Dead {
                return;
            }
            let before = urgency(&self.rqs, &self.shared, task);
            let lent = self.owed(task);
            // A deadline task lends its current deadline, to a task with a later one.
            if self.tasks[task as usize].lent == lent && lent.by == NOBODY {
                return;
            }
            self.tasks[task as usize].lent = lent;
            let boost = self.boost(lent);
            sched!(self, cpu).set_boost(TaskId(task), boost);
            if urgency(&self.rqs, &self.shared, task) == before {
                return;
            }
            let Some(owner) = self.requeue(task) else { return };
            task = owner;
        }
    }

    /// Moves a waiting task with a new urgency among the waiters. Returns the owner if what they lend changes.
    fn requeue(&mut self, task: u32) -> Option<u32> {
        let this = &self.tasks[task as usize];
        if this.next != Next::ReturnLock || this.life != Life::Asleep {
            return None;
        }
        let mutex = mutex_of(self.programs.code[this.pc as usize]);
        let that = &mut self.objects.mutexes[mutex as usize];
        if !that.inherits || that.owner == task {
            return None;
        }
        that.waiters.remove(&mut self.tasks, task);
        let owner = that.owner;
        self.queue_by_urgency(task, mutex);
        Some(owner)
    }

    pub(crate) fn waits_as(&self, task: u32) -> Urgency {
        waiter_urgency(&self.rqs, &self.shared, task)
    }

    /// Moves a task, whose policy or priority was `before`, among a mutex's waiters, and updates the chain of owners
    /// (`rt_mutex_adjust_pi`).
    pub(crate) fn adjust_waiter(&mut self, cpu: usize, task: u32, before: Urgency) {
        if self.waits_as(task) != before
            && let Some(owner) = self.requeue(task)
        {
            self.adjust(cpu, owner);
        }
    }
}
