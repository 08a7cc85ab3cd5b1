//! Pools of tasks that do each other's work.
//!
//! The members of a pool take their work from one queue. A member with more of a CPU takes more, so only the total is
//! given. In the simulator each member has work of its own. Before a member sleeps it helps the others: it takes half
//! of the work that the pool lacks and that no member has begun, until the pool has done what it has to by then. The
//! owners skip this work. The member whose work reaches the amount that a sleeper waits for wakes the sleeper.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_sched::event::PrevState;
use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;

use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::program::Code;
use crate::task::Next;

/// Less than this is not worth a queue's lock, nanoseconds of work: the member sleeps.
const LEAST: u64 = 10_000;
/// A member looks so often whether it has to wake another, nanoseconds of work.
const CHUNK: u64 = 500_000;

/// A pool.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// All work that members have begun, nanoseconds at capacity 1024.
    begun: u64,
    /// Work that was taken over and that its owners have not come to yet.
    taken: u64,
    members: BTreeMap<u32, Member>,
    /// Sleeping members, each with the amount of work that the pool has to do first.
    waiters: BTreeSet<(u64, u32)>,
}

#[derive(Debug, Default)]
struct Member {
    /// What the pool has to have done before the member goes on.
    due: u64,
    /// What the member has to do yet of the work that it is at, behind the part that it has begun.
    rest: u64,
}

impl Pool {
    fn member(&mut self, task: u32) -> &mut Member {
        self.members.entry(task).or_default()
    }

    fn owes(&mut self, task: u32, work: u64) -> u64 {
        let due = &mut self.member(task).due;
        *due = due.saturating_add(work);
        *due
    }

    /// A member sleeps from the start.
    pub(crate) fn sleeps_first(&mut self, task: u32, work: u64) {
        let due = self.owes(task, work);
        self.waiters.insert((due, task));
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// A member begins work of its own, or finds it done.
    pub(crate) fn pool_run(&mut self, cpu: usize, task: u32, pool: u32, work: u64) -> Flow {
        self.objects.pools[pool as usize].member(task).rest = work;
        self.pool_goes_on(cpu, task, pool)
    }

    /// A member comes to a sleep, by which the pool has to have done `work` more than by its last one.
    pub(crate) fn pool_help(&mut self, cpu: usize, task: u32, pool: u32, work: u64) -> Flow {
        self.objects.pools[pool as usize].owes(task, work);
        self.pool_helps(cpu, task, pool)
    }

    /// A member takes work over if the pool lacks any.
    fn pool_helps(&mut self, cpu: usize, task: u32, pool: u32) -> Flow {
        let (lacks, left) = self.pool_lacks(task, pool);
        // What the others are at is theirs.
        let takes = (lacks / 2).min(lacks.saturating_sub(left));
        if takes < LEAST {
            return Flow::Done;
        }
        let this = &mut self.objects.pools[pool as usize];
        this.taken = this.taken.saturating_add(takes);
        this.member(task).rest = 0;
        self.pool_works(cpu, task, pool, takes)
    }

    /// A member goes on with that part of its own work that no other has done.
    fn pool_goes_on(&mut self, cpu: usize, task: u32, pool: u32) -> Flow {
        let done = self.pool_done(pool).0;
        let this = &mut self.objects.pools[pool as usize];
        let rest = this.members.get(&task).map_or(0, |member| member.rest);
        let taken = this.taken.min(rest);
        this.taken -= taken;
        let rest = rest - taken;
        if rest == 0 {
            return Flow::Done;
        }
        // The chunk ends where the first sleeper has to be woken.
        let next = this.waiters.first().map_or(CHUNK, |(due, _)| due.saturating_sub(done).clamp(LEAST, CHUNK));
        let chunk = rest.min(next);
        this.member(task).rest = rest - chunk;
        self.pool_works(cpu, task, pool, chunk)
    }

    /// A member has done a part: wakes those that waited for it, and goes on.
    pub(crate) fn pool_worked(&mut self, cpu: usize, task: u32, pool: u32) -> Flow {
        let done = self.pool_done(pool).0;
        if self.objects.pools[pool as usize].waiters.first().is_some_and(|&(due, _)| due <= done) {
            self.tasks[task as usize].next = Next::Enter;
            self.charge_call(cpu, self.core.costs.syscall_ns);
            return Flow::Stage;
        }
        self.pool_next(cpu, task, pool)
    }

    /// A member is in the kernel to wake others.
    pub(crate) fn pool_wakes(&mut self, cpu: usize, task: u32, pool: u32) -> Flow {
        let done = self.pool_done(pool).0;
        while let Some(&(due, waiter)) = self.objects.pools[pool as usize].waiters.first()
            && due <= done
        {
            self.objects.pools[pool as usize].waiters.pop_first();
            self.wake_from_call(cpu, waiter, Waker::Task);
        }
        self.pool_next(cpu, task, pool)
    }

    fn pool_next(&mut self, cpu: usize, task: u32, pool: u32) -> Flow {
        let code = self.programs.code[self.tasks[task as usize].pc as usize];
        if matches!(code, Code::PoolHelp { .. }) {
            self.pool_helps(cpu, task, pool)
        } else {
            self.pool_goes_on(cpu, task, pool)
        }
    }

    /// A member comes to a sleep that ends when the pool has done `work` more. Returns whether it has not.
    fn pool_waits(&mut self, task: u32, pool: u32, work: u64) -> bool {
        self.objects.pools[pool as usize].owes(task, work);
        self.pool_lacks(task, pool).0 > 0
    }

    /// As that: it asks the kernel for the sleep, unless the pool has done enough.
    pub(crate) fn pool_comes_to_sleep(&mut self, cpu: usize, task: u32, pool: u32, work: u64) -> Flow {
        let waits = self.pool_waits(task, pool, work);
        self.call_if(waits, cpu, task)
    }

    /// A member goes to sleep until the pool has done enough.
    pub(crate) fn pool_sleep(&mut self, cpu: usize, task: u32, pool: u32) -> Flow {
        if self.pool_lacks(task, pool).0 == 0 {
            return Flow::Done;
        }
        let this = &mut self.objects.pools[pool as usize];
        let due = this.member(task).due;
        this.waiters.insert((due, task));
        self.tasks[task as usize].due = self.core.now;
        self.block(cpu, task, PrevState::Sleeping)
    }

    /// A member that polls comes to its sleep. It need not sleep if the pool has done enough.
    pub(crate) fn pool_wait(&mut self, task: u32, pool: u32, work: u64) -> Flow {
        if !self.pool_waits(task, pool, work) {
            // Over the sleep and what is behind it.
            self.tasks[task as usize].pc += 2;
        }
        Flow::Done
    }

    /// A member that polls looks again.
    pub(crate) fn pool_again(&mut self, task: u32, pool: u32) -> Flow {
        let (lacks, left) = self.pool_lacks(task, pool);
        if lacks == 0 || left == 0 {
            return Flow::Done;
        }
        self.tasks[task as usize].pc -= 1;
        Flow::Stage
    }

    fn pool_works(&mut self, cpu: usize, task: u32, pool: u32, work: u64) -> Flow {
        let this = &mut self.objects.pools[pool as usize];
        this.begun = this.begun.saturating_add(work);
        let this = &mut self.tasks[task as usize];
        this.loop_work = this.loop_work.saturating_add(work);
        this.next = Next::Worked;
        let this = &mut self.core.cpus[cpu];
        (this.work, this.unscaled) = (work, false);
        self.work_begins(task);
        Flow::Stage
    }

    /// How much the pool has to do before the member goes on, and how much work its members are at.
    fn pool_lacks(&self, task: u32, pool: u32) -> (u64, u64) {
        let (done, left) = self.pool_done(pool);
        let due = self.objects.pools[pool as usize].members.get(&task).map_or(0, |member| member.due);
        (due.saturating_sub(done), left)
    }

    /// How much the pool has done, and how much its members have begun and not done yet.
    fn pool_done(&self, pool: u32) -> (u64, u64) {
        let now = self.core.now;
        let left = |&task: &u32| {
            let this = &self.tasks[task as usize];
            let of = match self.programs.code[this.pc as usize] {
                Code::PoolRun { pool, .. } | Code::PoolHelp { pool, .. } => Some(pool),
                _ => None,
            };
            if this.next != Next::Worked || of != Some(pool) {
                return 0;
            }
            let running = self.core.cpus.iter().find(|cpu| cpu.curr == task);
            running.map_or(this.work, |cpu| cpu.work_left(now))
        };
        let this = &self.objects.pools[pool as usize];
        let left = this.members.keys().map(left).sum();
        (this.begun.saturating_sub(left), left)
    }
}
