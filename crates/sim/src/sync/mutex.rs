//! Mutexes.
//!
//! An ordinary mutex is glibc's: an unlock frees it and wakes the longest waiter. The first task to lock it gets it,
//! and a woken task may have to wait again. If it hands over, the task that unlocked it must not be the first while
//! others wait. A mutex with priority inheritance (`PTHREAD_PRIO_INHERIT`, the kernel's rt_mutex) is handed to the
//! most urgent waiter: see `inherit`.

use vruntime_sched::event::PrevState;
use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;

use super::WaitQueue;
use crate::cpu::NEVER;
use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::program::Code;
use crate::task::{NOBODY, Next, Task, Timeout};

#[derive(Debug)]
pub(crate) struct Mutex {
    pub(crate) owner: u32,
    pub(crate) waiters: WaitQueue,
    /// Whether it has priority inheritance.
    pub(crate) inherits: bool,
    /// Whether a task that unlocks it cannot lock it again before another has.
    hands_over: bool,
    /// The task that cannot lock it now.
    barred: u32,
    /// Tasks that were woken, and have not looked for it yet.
    awake: u32,
    /// The owner's next contended mutex: see [`crate::task::Task::first_contended`].
    pub(crate) next_contended: u32,
}

impl Mutex {
    pub(crate) fn new(inherits: bool, hands_over: bool) -> Self {
        Self {
            owner: NOBODY,
            waiters: WaitQueue::default(),
            inherits,
            hands_over,
            barred: NOBODY,
            awake: 0,
            next_contended: NOBODY,
        }
    }

    fn take(&mut self, task: u32) -> bool {
        let free = self.owner == NOBODY && self.barred != task;
        if free {
            self.owner = task;
            self.barred = NOBODY;
        }
        free
    }

    /// Whether other tasks wait for it, or were woken for it.
    fn is_contended(&self) -> bool {
        !self.waiters.is_empty() || (self.hands_over && self.awake > 0)
    }
}

/// Returns the mutex that an instruction takes.
#[expect(
    clippy::unreachable,
    reason = "asked of tasks at a mutex, where only `Machine::lock` brings them, which instructions with one call"
)]
pub(crate) fn mutex_of(code: Code) -> u32 {
    match code {
        Code::Lock(mutex)
        | Code::TryLock { mutex, .. }
        | Code::EnsureLock(mutex)
        | Code::Wait { mutex, .. }
        | Code::Sync { mutex, .. }
        | Code::Suspend { mutex, .. }
        | Code::Barrier { mutex, .. } => mutex,
        _ => unreachable!("this instruction takes no mutex"),
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Takes the mutex if it is free, at no cost. Otherwise enters the kernel.
    pub(crate) fn lock(&mut self, cpu: usize, task: u32, mutex: u32) -> Flow {
        if self.objects.mutexes[mutex as usize].take(task) {
            return Flow::Done;
        }
        self.charge_call(cpu, self.core.costs.syscall_ns);
        self.tasks[task as usize].next = Next::EnterLock;
        Flow::Stage
    }

    /// As [`Self::lock`], for a task that may have the mutex.
    pub(crate) fn lock_once(&mut self, cpu: usize, task: u32, mutex: u32) -> Flow {
        if self.objects.mutexes[mutex as usize].owner == task { Flow::Done } else { self.lock(cpu, task, mutex) }
    }

    /// Takes the mutex if it is free now. Otherwise waits.
    pub(crate) fn enter_lock(&mut self, cpu: usize, task: u32, code: Code) -> Flow {
        let index = mutex_of(code);
        if self.objects.mutexes[index as usize].take(task) || self.steal(cpu, task, index) {
            self.end_timeout(task);
            return Flow::Done;
        }
        let inherits = self.objects.mutexes[index as usize].inherits;
        if let Code::TryLock { time, .. } = code
            && !(time == NEVER || inherits || self.tasks[task as usize].wait.timeout == Timeout::Armed)
        {
            self.tasks[task as usize].wait.timeout = Timeout::Armed;
            self.arm_sleep(cpu, task, self.core.now.saturating_add(time));
        }
        let mutex = &mut self.objects.mutexes[index as usize];
        let this = &mut self.tasks[task as usize];
        this.next = Next::ReturnLock;
        this.due = self.core.now;
        if mutex.inherits {
            self.wait_and_lend(cpu, task, index);
        } else {
            this.wait.queued = true;
            mutex.waiters.push(&mut self.tasks, task);
        }
        self.block(cpu, task, PrevState::Sleeping)
    }

    /// Continues a task woken while it waits for the mutex.
    pub(crate) fn return_lock(&mut self, cpu: usize, task: u32, code: Code) -> Flow {
        let index = mutex_of(code);
        let mutex = &mut self.objects.mutexes[index as usize];
        let queued = std::mem::take(&mut self.tasks[task as usize].wait.queued);
        if queued {
            mutex.waiters.remove(&mut self.tasks, task);
        } else if !mutex.inherits {
            mutex.awake = mutex.awake.saturating_sub(1);
        }
        if mutex.owner == task {
            self.end_timeout(task);
            return Flow::Done;
        }
        if let Code::TryLock { .. } = code {
            mutex.take(task);
            self.end_timeout(task);
            return Flow::Done;
        }
        let mutex = &self.objects.mutexes[index as usize];
        // The task waits for a stolen mutex without leaving the kernel.
        if mutex.inherits { self.enter_lock(cpu, task, code) } else { self.lock(cpu, task, index) }
    }

    /// Unlocks the mutex without the kernel, unless a task waits for it. Returns whether one does.
    pub(crate) fn unlock_in_user_mode(&mut self, task: u32, mutex: u32) -> bool {
        let this = &mut self.objects.mutexes[mutex as usize];
        if this.owner != task {
            self.objects.stray_unlock.get_or_insert((task, mutex));
            return false;
        }
        let contended = this.is_contended();
        if !contended {
            this.owner = NOBODY;
        }
        contended
    }

    /// Returns the longest waiter that sleeps. One whose timeout has expired is awake.
    pub(crate) fn first_sleeper(&self, mutex: u32) -> Option<u32> {
        let sleeps = |waiter: &Task| waiter.wait.timeout != Timeout::Expired;
        self.objects.mutexes[mutex as usize].waiters.find(&self.tasks, sleeps)
    }

    /// Takes the longest waiter that sleeps out of the queue.
    fn pop_sleeper(&mut self, mutex: u32) -> Option<u32> {
        let sleeper = self.first_sleeper(mutex)?;
        let this = &mut self.objects.mutexes[mutex as usize];
        this.waiters.remove(&mut self.tasks, sleeper);
        this.awake += 1;
        self.tasks[sleeper as usize].wait.queued = false;
        Some(sleeper)
    }

    /// Wakes the longest waiter, and keeps the mutex.
    pub(crate) fn nudge(&mut self, cpu: usize, mutex: u32) {
        if let Some(waiter) = self.pop_sleeper(mutex) {
            self.wake_from_call(cpu, waiter, Waker::Task);
        }
    }

    /// Unlocks the mutex and wakes its first waiter.
    pub(crate) fn release(&mut self, cpu: usize, task: u32, mutex: u32) {
        let this = &mut self.objects.mutexes[mutex as usize];
        let waiter = if this.inherits {
            self.hand_over(cpu, mutex)
        } else {
            this.owner = NOBODY;
            this.barred = if this.hands_over && this.is_contended() { task } else { NOBODY };
            self.pop_sleeper(mutex)
        };
        if let Some(waiter) = waiter {
            self.wake_from_call(cpu, waiter, Waker::Task);
        }
    }
}
