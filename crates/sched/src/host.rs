//! What the scheduler calls out to.

use crate::event::Event;
use crate::ids::CpuId;

/// The machine around the scheduler. Everything the scheduler wants done outside passes here.
pub trait Host {
    /// `cpu` must call [`schedule`](crate::Scheduler::schedule) as soon as it can; its `need_resched` is set. When `cpu`
    /// is not the one executing, this is a reschedule interrupt on its way.
    fn resched(&mut self, cpu: CpuId);

    /// An idle CPU whose tick is stopped must run [`nohz_balance`](crate::Scheduler::nohz_balance) soon.
    fn kick_nohz(&mut self, cpu: CpuId);

    /// [`hrtick`](crate::Scheduler::hrtick) must be called on `cpu` at `at`, nanoseconds; `None` cancels. Replaces any
    /// earlier wish of that CPU.
    fn hrtick(&mut self, cpu: CpuId, at: Option<u64>);

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
    fn hrtick(&mut self, cpu: CpuId, at: Option<u64>) {
        (**self).hrtick(cpu, at);
    }
    #[inline]
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        (**self).event(at, cpu, event);
    }
}
