//! What the scheduler calls.

use crate::cpumask::CpuMask;
use crate::event::Event;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::policy::fault::Fault;

/// A high-resolution timer, by purpose and owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// The end of a slice; expires on its CPU.
    Hrtick(CpuId),
    /// A CPU's first deadline timer (new period, 0-lag time); expires on its CPU.
    Deadline(CpuId),
    /// An interrupt between CPUs, at once, that requests a push of real-time tasks (feature RT_PUSH_IPI).
    RtPush(CpuId),
    /// The end of the machine's period of real-time bandwidth (`sched_rt_period_us`).
    RtPeriod,
    /// The end of a group's period of real-time bandwidth (`cpu.rt_period_us`).
    RtGroupPeriod(GroupId),
    /// The end of a group's period of CPU bandwidth (`cpu.max`).
    GroupPeriod(GroupId),
    /// Distributes runtime that a group's CPUs returned unused, after a delay.
    GroupSlack(GroupId),
}

impl Timer {
    /// Returns the only CPU where the timer may expire. None: the CPU that armed it.
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
/// A verb calls these methods at any point, mostly with run queues locked, on its caller's thread. A method must not
/// call the scheduler, lock a run queue, or wait for a thread that does. It notes work for after the verb. With
/// [`Callers::Many`](crate::config::Callers::Many), threads have a `Host` each, or share state behind it.
pub trait Host {
    /// Requests that `cpu` call [`schedule`](crate::Scheduler::schedule) soon: its `need_resched` is set. For another
    /// CPU than the calling one, this is a reschedule interrupt.
    fn resched(&mut self, cpu: CpuId);

    /// Requests that an idle, tickless CPU run [`nohz_balance`](crate::Scheduler::nohz_balance) soon.
    fn kick_nohz(&mut self, cpu: CpuId);

    /// Requests a call of [`timer`](crate::Scheduler::timer) at `at`, nanoseconds, or at once if past. `None` cancels.
    /// Replaces earlier requests for the timer.
    fn arm(&mut self, timer: Timer, at: Option<u64>);

    /// Restricts `task` to these CPUs (`None`: all) from `at`, nanoseconds. Not called for new tasks.
    fn affinity(&mut self, _at: u64, _task: TaskId, _cpus: Option<&CpuMask>) {}

    /// Reports a policy's breach of contract on `cpu`. The scheduler continues without the task, or with an idle CPU. A
    /// host that tests a policy should stop.
    fn policy_fault(&mut self, _cpu: CpuId, _fault: Fault) {}

    /// Reports an event on `cpu` at `at`, nanoseconds.
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
