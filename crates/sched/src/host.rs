//! What the scheduler calls out to.

use crate::cpumask::CpuMask;
use crate::event::Event;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::policy::Fault;

/// A high-resolution timer of the scheduler: what it is for, and whose it is. There is one of each, armed or not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// The end of the slice that runs on a CPU. It fires on that CPU.
    Hrtick(CpuId),
    /// The first timer of a CPU's deadline tasks: a new period, a 0-lag time. It fires on that CPU.
    Deadline(CpuId),
    /// No timer, but an interrupt that one CPU sends to another, to have real-time tasks pushed for which that has no
    /// room (feature RT_PUSH_IPI). It comes to that CPU as soon as it can.
    RtPush(CpuId),
    /// The end of the machine's period of real-time bandwidth (`sched_rt_period_us`).
    RtPeriod,
    /// The end of a group's period of real-time bandwidth (`cpu.rt_period_us`).
    RtGroupPeriod(GroupId),
    /// The end of a group's period of CPU bandwidth (`cpu.max`).
    GroupPeriod(GroupId),
    /// A while after a group's CPUs returned runtime they did not use: it is handed to those that ran out of theirs.
    GroupSlack(GroupId),
}

impl Timer {
    /// The CPU a timer belongs to, on which alone it may fire; others fire on the CPU that armed them.
    #[inline]
    pub const fn cpu(self) -> Option<CpuId> {
        match self {
            Self::Hrtick(cpu) | Self::Deadline(cpu) | Self::RtPush(cpu) => Some(cpu),
            Self::RtPeriod | Self::RtGroupPeriod(_) | Self::GroupPeriod(_) | Self::GroupSlack(_) => None,
        }
    }
}

/// The machine around the scheduler. Everything the scheduler wants done outside passes here.
///
/// The methods are called at any point of a verb, mostly while run queues are held, and on the thread that called it:
/// they must not call the scheduler, nor take a run queue, nor wait for somebody who does. They note what is to be
/// done, and whom it concerns does it when the verb has returned. Several threads' verbs run at once where
/// [`Config::callers`](crate::config::Config::callers) is [`Many`](crate::config::Callers::Many): each has a `Host` of
/// its own, or they share what is behind it.
pub trait Host {
    /// `cpu` must call [`schedule`](crate::Scheduler::schedule) as soon as it can; its `need_resched` is set. When
    /// `cpu` is not the one executing, this is a reschedule interrupt on its way.
    fn resched(&mut self, cpu: CpuId);

    /// An idle CPU whose tick is stopped must run [`nohz_balance`](crate::Scheduler::nohz_balance) soon.
    fn kick_nohz(&mut self, cpu: CpuId);

    /// [`timer`](crate::Scheduler::timer) must be called for `timer` at `at`, nanoseconds; `None` cancels. Replaces any
    /// earlier wish for the same timer. A time that has passed already means at once.
    fn arm(&mut self, timer: Timer, at: Option<u64>);

    /// From `at` on, nanoseconds, `task` may run on these CPUs only; `None`: on all. Of a new task nothing is told.
    fn affinity(&mut self, _at: u64, _task: TaskId, _cpus: Option<&CpuMask>) {}

    /// The policy has not kept a promise on `cpu`. The scheduler goes on without the task that is concerned, or with
    /// the CPU idle: whoever tries out a policy should stop here.
    fn policy_fault(&mut self, _cpu: CpuId, _fault: Fault) {}

    /// Something happened on `cpu` at `at`, nanoseconds.
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event);
}

impl<H: Host + ?Sized> Host for &mut H {
    fn resched(&mut self, cpu: CpuId) {
        (**self).resched(cpu);
    }
    fn kick_nohz(&mut self, cpu: CpuId) {
        (**self).kick_nohz(cpu);
    }
    #[inline]
    fn arm(&mut self, timer: Timer, at: Option<u64>) {
        (**self).arm(timer, at);
    }
    fn affinity(&mut self, at: u64, task: TaskId, cpus: Option<&CpuMask>) {
        (**self).affinity(at, task, cpus);
    }
    fn policy_fault(&mut self, cpu: CpuId, fault: Fault) {
        (**self).policy_fault(cpu, fault);
    }
    #[inline]
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        (**self).event(at, cpu, event);
    }
}
