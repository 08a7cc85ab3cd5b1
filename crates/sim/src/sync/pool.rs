//! Pools of tasks that do each other's work.
//!
//! A pool's members take work from one queue, with more CPU time more of it, so only the total is given. In the
//! simulator each member has its own work. Before a member sleeps, it helps until the pool has done its amount. It
//! takes half of the work that the pool lacks and no member has begun, a chunk at a time. The owners skip it. The
//! member whose work reaches a sleeper's amount wakes the sleeper.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_sched::event::PrevState;
use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;
use vruntime_workload::program::{Op, Workload};

use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::program::Code;
use crate::task::Next;

/// Less work is not worth a queue's lock, nanoseconds: the member sleeps instead.
const LEAST: u64 = 10_000;
/// The work between two checks for tasks to wake, nanoseconds. A helper takes no more at once: another may help, too.
const CHUNK: u64 = 500_000;

#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// At capacity 1024, nanoseconds.
    begun: u64,
    /// Work taken over, before its owners reach it.
    taken: u64,
    members: BTreeMap<u32, Member>,
    /// Sleeping members, by the pool's work that wakes them.
    waiters: BTreeSet<(u64, u32)>,
}

#[derive(Debug, Default)]
struct Member {
    /// The pool's work before the member continues.
    due: u64,
    /// The member's work not begun.
    rest: u64,
}

/// Returns each task's pool. Empty without pools.
pub(super) fn of_templates(workload: &Workload) -> Vec<Option<u32>> {
    if workload.pools.is_empty() {
        return Vec::new();
    }
    let pool = |op: &Op| match *op {
        Op::PoolRun { pool, .. }
        | Op::PoolHelp { pool, .. }
        | Op::PoolSleep { pool, .. }
        | Op::PoolWait { pool, .. } => Some(pool as u32),
        _ => None,
    };
    workload.tasks.iter().map(|task| task.phases.iter().flat_map(|phase| &phase.ops).find_map(pool)).collect()
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

    /// Removes a sleeper. Returns whether it was there.
    pub(crate) fn forgets(&mut self, task: u32) -> bool {
        let due = self.members.get(&task).map_or(0, |member| member.due);
        self.waiters.remove(&(due, task))
    }

    pub(crate) fn sleeps_first(&mut self, task: u32, work: u64) {
        let due = self.owes(task, work);
        self.waiters.insert((due, task));
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(crate) fn pool_run(&mut self, cpu: usize, task: u32, pool: u32, work: u64) -> Flow {
        self.objects.pools[pool as usize].member(task).rest = work;
        self.continue_pool_work(cpu, task, pool)
    }

    /// Returns a task's pool.
    fn pool_of(&mut self, task: u32) -> Option<&mut Pool> {
        let pool = (*self.objects.pool_of.get(self.tasks[task as usize].template as usize)?)?;
        self.objects.pools.get_mut(pool as usize)
    }

    /// Adds a new task to its pool.
    #[inline]
    pub(crate) fn joins_pool(&mut self, task: u32) {
        if let Some(pool) = self.pool_of(task) {
            pool.member(task);
        }
    }

    /// Removes a task that exits from its pool.
    pub(crate) fn leaves_pool(&mut self, task: u32) {
        if let Some(pool) = self.pool_of(task) {
            pool.members.remove(&task);
        }
    }

    /// Empties the pool of a task whose process ends. The process may be forked again.
    pub(crate) fn pool_begins(&mut self, task: u32) {
        if let Some(pool) = self.pool_of(task) {
            *pool = Pool::default();
        }
    }

    /// Prepares a sleep, before which the pool must do `work` more than before the last one.
    pub(crate) fn pool_help(&mut self, cpu: usize, task: u32, pool: u32, work: u64) -> Flow {
        self.objects.pools[pool as usize].owes(task, work);
        self.pool_helps(cpu, task, pool)
    }

    fn pool_helps(&mut self, cpu: usize, task: u32, pool: u32) -> Flow {
        let (lacks, left) = self.pool_lacks(task, pool);
        // Work that others have begun stays theirs.
        let takes = (lacks / 2).min(lacks.saturating_sub(left)).min(CHUNK);
        if takes < LEAST {
            return Flow::Done;
        }
        let this = &mut self.objects.pools[pool as usize];
        this.taken = this.taken.saturating_add(takes);
        this.member(task).rest = 0;
        self.pool_works(cpu, task, pool, takes)
    }

    /// Continues with a member's work that no other has done.
    fn continue_pool_work(&mut self, cpu: usize, task: u32, pool: u32) -> Flow {
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

    pub(crate) fn pool_worked(&mut self, cpu: usize, task: u32, pool: u32) -> Flow {
        let done = self.pool_done(pool).0;
        if self.objects.pools[pool as usize].waiters.first().is_some_and(|&(due, _)| due <= done) {
            self.tasks[task as usize].next = Next::Enter;
            self.charge_call(cpu, self.core.costs.syscall_ns);
            return Flow::Stage;
        }
        self.pool_next(cpu, task, pool)
    }

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
            self.continue_pool_work(cpu, task, pool)
        }
    }

    /// Adds `work` to the pool's amount before the member continues. Returns whether any is lacking.
    fn pool_waits(&mut self, task: u32, pool: u32, work: u64) -> bool {
        self.objects.pools[pool as usize].owes(task, work);
        self.pool_lacks(task, pool).0 > 0
    }

    /// As [`Self::pool_waits`], and enters the kernel to sleep if the pool lacks work.
    pub(crate) fn pool_begin_sleep(&mut self, cpu: usize, task: u32, pool: u32, work: u64) -> Flow {
        let waits = self.pool_waits(task, pool, work);
        self.call_if(waits, cpu, task)
    }

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

    /// Begins a polling member's wait, without the sleep if the pool has done enough.
    pub(crate) fn pool_wait(&mut self, task: u32, pool: u32, work: u64) -> Flow {
        if !self.pool_waits(task, pool, work) {
            // Skips the sleep and the check behind it.
            self.tasks[task as usize].pc += 2;
        }
        Flow::Done
    }

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
        self.runs(cpu, task, work)
    }

    /// Begins work, as [`Code::Run`] does.
    pub(super) fn runs(&mut self, cpu: usize, task: u32, work: u64) -> Flow {
        let this = &mut self.tasks[task as usize];
        this.loop_work = this.loop_work.saturating_add(work);
        this.next = Next::Worked;
        let this = &mut self.core.cpus[cpu];
        (this.work, this.unscaled) = (work, false);
        self.work_begins(task);
        Flow::Stage
    }

    /// Returns the pool's missing work before the member continues, and its members' begun work.
    fn pool_lacks(&self, task: u32, pool: u32) -> (u64, u64) {
        let (done, left) = self.pool_done(pool);
        let due = self.objects.pools[pool as usize].members.get(&task).map_or(0, |member| member.due);
        (due.saturating_sub(done), left)
    }

    /// Returns the pool's completed work, and its members' begun rest.
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
