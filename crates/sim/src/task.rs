//! One task as the machine sees it: where it is in its program. The scheduler keeps the rest.

use vruntime_sched::event::OverheadKind;

use crate::sleepers::SleepTimer;

/// No task.
pub(crate) const NOBODY: u32 = u32::MAX;

/// The number of an instance that is called as the workload's task is: one that starts by itself, or the first that is
/// forked of those that do not.
pub(crate) const FIRST: u32 = 0;

/// What happens when the CPU has paid its debts and done the task's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The instruction at `pc` begins.
    Fetch,
    /// The work of the instruction at `pc` is done.
    Worked,
    /// The way into the kernel is paid: the instruction at `pc` takes effect.
    Enter,
    /// The task goes to sleep, unless it has been woken since.
    Sleep,
    /// The task has been woken and is back: the instruction at `pc` goes on.
    Return,
    /// As `Enter`, for taking the mutex of the instruction at `pc`.
    EnterLock,
    /// As `Return`, for taking the mutex of the instruction at `pc`.
    ReturnLock,
}

impl Next {
    /// Whether the task is in code of its own, where it can be preempted under every preemption model.
    pub(crate) const fn in_user_mode(self) -> bool {
        matches!(self, Self::Fetch | Self::Worked)
    }
}

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Its start is still to come.
    New,
    /// Running or waiting to run.
    Runnable,
    /// Off its CPU until woken.
    Asleep,
    /// Gone.
    Dead,
}

/// The wait a task is in, if it is one that may time out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// It is in the queue of what it waits for.
    pub(crate) queued: bool,
    pub(crate) timeout: Timeout,
}

/// The timeout of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// It has none, or waits for nothing.
    None,
    /// The task's timer is armed for it.
    Armed,
    /// The timer has fired: the task runs, or is about to.
    Expired,
}

/// The urgency a task was lent: the kernel's `prio`, and of a deadline task who lends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) prio: i16,
    pub(crate) by: u32,
}

impl Lent {
    pub(crate) const NOTHING: Self = Self { prio: i16::MAX, by: NOBODY };
}

/// A task.
//
// In this order in memory, 64 bytes a paragraph: what switches and wakeups look at comes first.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Task {
    pub(crate) timer: SleepTimer,
    /// The CPU whose timer that is.
    pub(crate) timer_cpu: u32,
    /// Where it is in the code.
    pub(crate) pc: u32,
    /// Where it ran last; 0 before it has.
    pub(crate) last_cpu: u32,
    /// Which instance it is: [`FIRST`], or the how manieth that was forked, which its name ends in. Here, as there is
    /// room.
    pub(crate) instance: u32,
    pub(crate) next: Next,
    pub(crate) life: Life,
    pub(crate) wait: Wait,
    /// It slept in a system call, and pays the way out when it runs.
    pub(crate) owes_return: bool,
    /// Woken on its way to sleep.
    pub(crate) woken: bool,
    pub(crate) unscaled: bool,
    pub(crate) soft_kind: OverheadKind,
    /// Work left while off the CPU, and what is done beyond it (see [`crate::cpu::Cpu`]).
    pub(crate) work: u64,
    pub(crate) fraction: u32,
    /// Preemptible kernel time still to be spent by it: see [`crate::cpu::Cpu::soft`].
    pub(crate) soft: u32,
    /// Index of what it is an instance of, in the workload.
    pub(crate) template: u32,
    /// First of the mutexes with priority inheritance that it holds and others wait for; the others through
    /// [`crate::sync::Mutex::next_held`].
    pub(crate) held: u32,

    /// When its sleep is due; when it waits for an object, since when.
    pub(crate) due: u64,
    /// Loops left of the phase.
    pub(crate) loops: u64,
    /// When the loop began.
    pub(crate) loop_start: u64,
    /// Work the loop has asked for.
    pub(crate) loop_work: u64,
    /// Rounds left of the program, this one included.
    pub(crate) rounds: u64,
    /// Who waits behind it for the same object, and before it: see [`crate::sync::WaitQueue`].
    pub(crate) behind: u32,
    pub(crate) ahead: u32,
    /// What it was lent by those that wait for what it holds.
    pub(crate) lent: Lent,
}

impl Task {
    pub(crate) fn new(template: u32, instance: u32, pc: u32, rounds: u64) -> Self {
        Self {
            template,
            instance,
            pc,
            behind: NOBODY,
            ahead: NOBODY,
            timer: SleepTimer::default(),
            timer_cpu: 0,
            held: NOBODY,
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
