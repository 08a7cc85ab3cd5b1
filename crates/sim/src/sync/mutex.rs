//! Mutexes.
//!
//! An ordinary mutex is glibc's: an unlock frees it and wakes the longest waiter. The first task to lock it gets it,
//! and a woken task may have to wait again. One that hands over gives it to the longest waiter. A mutex with priority
//! inheritance (`PTHREAD_PRIO_INHERIT`, the kernel's rt_mutex) is handed to the most urgent waiter: see `inherit`.

use vruntime_sched::event::PrevState;
use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;

use super::WaitQueue;
use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::program::Code;
use crate::task::{NOBODY, Next};

#[derive(Debug)]
pub(crate) struct Mutex {
    pub(crate) owner: u32,
    pub(crate) waiters: WaitQueue,
    /// Whether it has priority inheritance.
    pub(crate) inherits: bool,
    /// Whether an unlock gives it to the longest waiter.
    hands_over: bool,
    /// The owner's next contended mutex: see [`crate::task::Task::first_contended`].
    pub(crate) next_contended: u32,
}

impl Mutex {
    pub(crate) fn new(inherits: bool, hands_over: bool) -> Self {
        Self { owner: NOBODY, waiters: WaitQueue::default(), inherits, hands_over, next_contended: NOBODY }
    }

    fn take(&mut self, task: u32) -> bool {
        let free = self.owner == NOBODY;
        if free {
            self.owner = task;
        }
        free
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

    /// Takes the mutex if it is free now. Otherwise waits.
    pub(crate) fn enter_lock(&mut self, cpu: usize, task: u32, code: Code) -> Flow {
        let index = mutex_of(code);
        if self.objects.mutexes[index as usize].take(task) || self.steal(cpu, task, index) {
            return Flow::Done;
        }
        let mutex = &mut self.objects.mutexes[index as usize];
        let this = &mut self.tasks[task as usize];
        this.next = Next::ReturnLock;
        this.due = self.core.now;
        if mutex.inherits {
            self.wait_and_lend(cpu, task, index);
        } else {
            mutex.waiters.push(&mut self.tasks, task);
        }
        self.block(cpu, task, PrevState::Sleeping)
    }

    /// Continues a task woken while it waits for the mutex.
    pub(crate) fn return_lock(&mut self, cpu: usize, task: u32, code: Code) -> Flow {
        let index = mutex_of(code);
        let mutex = &self.objects.mutexes[index as usize];
        if mutex.owner == task {
            return Flow::Done;
        }
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
        let contended = !this.waiters.is_empty();
        if !contended {
            this.owner = NOBODY;
        }
        contended
    }

    /// Unlocks the mutex and wakes its first waiter.
    pub(crate) fn release(&mut self, cpu: usize, mutex: u32) {
        let this = &mut self.objects.mutexes[mutex as usize];
        let waiter = if this.inherits {
            self.hand_over(cpu, mutex)
        } else {
            let first = this.waiters.pop(&mut self.tasks);
            this.owner = first.filter(|_| this.hands_over).unwrap_or(NOBODY);
            first
        };
        if let Some(waiter) = waiter {
            self.wake_from_call(cpu, waiter, Waker::Task);
        }
    }
}
