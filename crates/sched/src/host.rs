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
    /// Not a timer, but an interrupt from one CPU to another that requests a push of real-time tasks (feature
    /// RT_PUSH_IPI). It arrives as soon as possible.
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

/// The machine around the scheduler, and its only output.
///
/// A verb calls these methods at any point, mostly while run queues are locked, on the thread of its caller. A method
/// must not call the scheduler, lock a run queue, or wait for a thread that does. It notes what to do, and the host
/// does it when the verb has returned. With [`Config::callers`](crate::config::Config::callers)
/// [`Many`](crate::config::Callers::Many), verbs of several threads run at once: each has a `Host` of its own, or they
/// share state behind it.
pub trait Host {
    /// `cpu` must call [`schedule`](crate::Scheduler::schedule) as soon as it can; its `need_resched` is set. When
    /// `cpu` is not the one executing, this is a reschedule interrupt on its way.
    fn resched(&mut self, cpu: CpuId);

    /// An idle CPU whose tick is stopped must run [`nohz_balance`](crate::Scheduler::nohz_balance) soon.
    fn kick_nohz(&mut self, cpu: CpuId);

    /// [`timer`](crate::Scheduler::timer) must be called for `timer` at `at`, nanoseconds; `None` cancels. Replaces any
    /// earlier wish for the same timer. A time that has passed already means at once.
    fn arm(&mut self, timer: Timer, at: Option<u64>);

    /// Restricts `task` to these CPUs from `at` on, nanoseconds; `None`: all. Not called for new tasks.
    fn affinity(&mut self, _at: u64, _task: TaskId, _cpus: Option<&CpuMask>) {}

    /// Reports a violation of the policy's contract on `cpu`. The scheduler continues without the task, or with an idle
    /// CPU. A host that tries out a policy should stop here.
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
