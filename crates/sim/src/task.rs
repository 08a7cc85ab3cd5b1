//! A task's place in its program. The scheduler has the rest of its state.

use vruntime_sched::event::OverheadKind;

use crate::sleepers::SleepTimer;

pub(crate) const NOBODY: u32 = u32::MAX;

/// The number of an instance with the template's name: one that starts by itself, or the first fork.
pub(crate) const FIRST: u32 = 0;

/// The next step after the CPU's debts and the task's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Begins the instruction at `pc`.
    Fetch,
    /// Ends the instruction's work.
    Worked,
    /// Lets the instruction take effect: its entry is paid.
    Enter,
    /// Sleeps, unless the task has been woken since.
    Sleep,
    /// Continues the instruction after a wakeup.
    Return,
    /// As `Enter`, for taking the instruction's mutex.
    EnterLock,
    /// As `Return`, for taking the instruction's mutex.
    ReturnLock,
}

impl Next {
    /// Whether the stage is one of the task's own code.
    const fn in_user_mode(self) -> bool {
        matches!(self, Self::Fetch | Self::Worked)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Before its start.
    New,
    Runnable,
    Asleep,
    /// On its way to its end, in the kernel. Under full preemption it stays runnable.
    Exiting,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Whether the task is in the queue of the awaited object.
    pub(crate) queued: bool,
    pub(crate) timeout: Timeout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// No timeout, or no wait.
    None,
    Armed,
    /// The timer has fired: the task runs, or soon will.
    Expired,
}

/// A lent priority: the kernel's `prio`, and a deadline task's lender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) prio: i16,
    pub(crate) by: u32,
}

impl Lent {
    pub(crate) const NOTHING: Self = Self { prio: i16::MAX, by: NOBODY };
}

//
// In memory order, 64 bytes a paragraph: fields of switches and wakeups first.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Task {
    pub(crate) timer: SleepTimer,
    pub(crate) timer_cpu: u32,
    pub(crate) pc: u32,
    /// The last CPU, or 0 before the first run.
    pub(crate) last_cpu: u32,
    /// [`FIRST`], or the number of the fork, with which its name ends.
    pub(crate) instance: u32,
    pub(crate) next: Next,
    pub(crate) life: Life,
    pub(crate) wait: Wait,
    /// Whether it pays the return of a system call when it runs.
    pub(crate) owes_return: bool,
    /// Whether it was woken on its way to sleep.
    pub(crate) woken: bool,
    pub(crate) unscaled: bool,
    pub(crate) soft_kind: OverheadKind,
    /// Work left while off the CPU, and the part done beyond it (see [`crate::cpu::Cpu`]).
    pub(crate) work: u64,
    pub(crate) fraction: u32,
    /// Preemptible kernel time to spend: see [`crate::cpu::Cpu::soft`].
    pub(crate) soft: u32,
    /// Its task in the workload.
    pub(crate) template: u32,
    /// The first of its contended mutexes with priority inheritance. The next is
    /// [`crate::sync::Mutex::next_contended`].
    pub(crate) first_contended: u32,

    /// When its sleep is due, or when its wait for an object began.
    pub(crate) due: u64,
    pub(crate) loops: u64,
    pub(crate) loop_start: u64,
    pub(crate) loop_work: u64,
    /// Rounds left of the program, with the current one.
    pub(crate) rounds: u64,
    /// The tasks behind and before it in a [`crate::sync::WaitQueue`].
    pub(crate) behind: u32,
    pub(crate) ahead: u32,
    pub(crate) lent: Lent,
}

impl Task {
    /// Whether it runs its own code, which every preemption model can preempt.
    #[inline]
    pub(crate) fn in_user_mode(&self) -> bool {
        self.next.in_user_mode() && self.life != Life::Exiting
    }

    pub(crate) fn new(template: u32, instance: u32, pc: u32, rounds: u64) -> Self {
        Self {
            template,
            instance,
            pc,
            behind: NOBODY,
            ahead: NOBODY,
            timer: SleepTimer::default(),
            timer_cpu: 0,
            first_contended: NOBODY,
            loops: 0,
            rounds,
            loop_start: 0,
            loop_work: 0,
            due: 0,
            work: 0,
            fraction: 0,
            soft: 0,
            last_cpu: 0,
            soft_kind: OverheadKind::Migration,
            unscaled: false,
            lent: Lent::NOTHING,
            owes_return: false,
            woken: false,
            wait: Wait { queued: false, timeout: Timeout::None },
            next: Next::Fetch,
            life: Life::New,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million tasks have to fit.
    #[test]
    fn a_task_is_small() {
        assert!(size_of::<Task>() <= 120, "{}", size_of::<Task>());
    }
}
