//! A simulated CPU: its task, the rest of the task's work, and the account of its time.
//!
//! Work is nanoseconds at full speed. A CPU's speed is `speed` / [`UNIT`], and progress is counted in `UNIT`ths of a
//! nanosecond. So interruptions, migrations and slow CPUs lose or add no work by rounding.

use vruntime_sched::event::OverheadKind;

use crate::cache::Recent;
use crate::config::CpuTime;
use crate::mm::NO_MM;

/// Full speed: capacity 1024 times 1000 thousandths.
pub(crate) const UNIT: u64 = 1024 * 1000;
/// Nanoseconds (two hours) up to which a product with `UNIT` fits a word, to avoid wide divisions.
const SMALL: u64 = (1 << 63) / UNIT;
/// The time of an event that is not armed.
pub(crate) const NEVER: u64 = u64::MAX;

/// [`Cpu::curr`] while the idle task runs.
pub(crate) const IDLE: u32 = u32::MAX;
/// [`Cpu::curr`] while the stopper runs.
pub(crate) const STOPPER: u32 = u32::MAX - 1;

/// Interrupts on their way to a CPU.
pub(crate) const RESCHED: u8 = 1;
pub(crate) const NOHZ: u8 = 2;
/// A request for real-time tasks.
pub(crate) const RT_PUSH: u8 = 4;

/// Reasons of SCHED_SOFTIRQ: balancing for this CPU, and for idle ones.
pub(crate) const BALANCE: u8 = 1;
pub(crate) const NOHZ_BALANCE: u8 = 2;

/// A CPU.
//
// In memory order, 64 bytes a paragraph: what every event reads is first.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Cpu {
    /// The end of the settled account.
    since: u64,
    /// Kernel time to spend first, from `since`.
    pub(crate) debt: u64,
    /// The end of what cannot be preempted: interrupt, switch or system call.
    pub(crate) kernel_end: u64,
    /// Work left of the operation, nanoseconds at full speed.
    pub(crate) work: u64,
    /// When the execution event is armed, or [`NEVER`].
    pub(crate) exec_at: u64,
    /// Since when a busy virtual CPU is off the host's CPUs, or [`NEVER`].
    stopped_at: u64,
    /// The running task's index, [`IDLE`] or [`STOPPER`].
    pub(crate) curr: u32,
    /// `UNIT`ths of a nanosecond beyond `work`.
    pub(crate) fraction: u32,
    /// The current speed, of `UNIT`.
    pub(crate) speed: u32,
    /// Whether the operation ends at a fixed time (`runtime`). Then `work` is the time until that end, with debts.
    pub(crate) unscaled: bool,
    /// Whether to reschedule as soon as the kernel can be preempted.
    pub(crate) resched: bool,
    /// [`BALANCE`] or [`NOHZ_BALANCE`], if SCHED_SOFTIRQ is raised.
    pub(crate) softirq: u8,
    pub(crate) soft_kind: OverheadKind,

    /// The preemptible part of `debt`, of the kind `soft_kind`.
    pub(crate) soft: u64,
    pub(crate) time: CpuTime,
    /// The kernel time reported to observers, including unpaid time.
    pub(crate) overhead_reported: u64,
    /// When an idle CPU leaves, or has left, its idle state.
    pub(crate) awake_at: u64,
    /// The current address space, which kernel threads and the idle task keep. [`NO_MM`] before the first.
    pub(crate) mm: u32,
    pub(crate) recent: Recent,

    /// The return of the interrupt that raised the softirq, before any switch.
    softirq_at: u64,
    pub(crate) ipi: u8,
    /// The arrival of the first interrupt.
    pub(crate) ipi_at: u64,
    /// Additional time to leave the current idle state, relative to the shallowest, nanoseconds.
    pub(crate) exit_latency: u64,
    /// Whether observers see it wait for a host CPU, as stolen time.
    pub(crate) stolen: bool,
}

impl Cpu {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            since: 0,
            debt: 0,
            kernel_end: 0,
            work: 0,
            fraction: 0,
            speed: capacity * 1000,
            unscaled: false,
            resched: false,
            ipi: 0,
            ipi_at: 0,
            softirq: 0,
            softirq_at: 0,
            soft: 0,
            soft_kind: OverheadKind::Migration,
            curr: IDLE,
            mm: NO_MM,
            recent: Recent::NONE,
            exec_at: NEVER,
            awake_at: NEVER,
            exit_latency: 0,
            stopped_at: NEVER,
            stolen: false,
            time: CpuTime::default(),
            overhead_reported: 0,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.curr == IDLE
    }

    /// Accounts for the time until `now`: first debts, then work or idleness.
    #[inline]
    pub(crate) fn account_until(&mut self, now: u64) {
        let passed = now - self.since;
        self.since = now;
        if self.is_stopped() {
            self.stand_still(passed);
            return;
        }
        let paid = passed.min(self.debt);
        self.debt -= paid;
        self.time.overhead += paid;
        let elapsed = passed - paid;
        if self.curr == IDLE {
            self.time.idle += elapsed;
        } else {
            self.time.busy += elapsed;
            self.progress(if self.unscaled { passed } else { elapsed });
        }
    }

    /// Whether the running task's system call is paid at exactly `now`.
    #[inline]
    pub(crate) fn ends_call(&self, now: u64) -> bool {
        self.debt == now - self.since && (self.work | self.soft) == 0 && self.softirq == 0 && !self.is_stopped()
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped_at != NEVER
    }

    /// Stops or continues the CPU at `now`, with a settled account.
    pub(crate) fn stop(&mut self, now: u64, stopped: bool) {
        if !stopped && self.kernel_end > self.stopped_at {
            self.kernel_end += now - self.stopped_at;
        }
        if !stopped && self.softirq_at > self.stopped_at {
            self.softirq_at = self.softirq_at.saturating_add(now - self.stopped_at);
        }
        self.stopped_at = if stopped { now } else { NEVER };
    }

    /// Ends the account. Reported kernel time counts even if the host left no time.
    pub(crate) fn end(&mut self) {
        let unpaid = self.overhead_reported - self.time.overhead;
        self.time.overhead = self.overhead_reported;
        if self.curr == IDLE {
            self.time.idle -= unpaid;
        } else {
            self.time.busy -= unpaid;
        }
    }

    /// Accounts for time off the host's CPUs: only work with a fixed end progresses.
    #[cold]
    fn stand_still(&mut self, passed: u64) {
        if self.curr == IDLE {
            self.time.idle += passed;
        } else {
            self.time.busy += passed;
            if self.unscaled {
                self.work = self.work.saturating_sub(passed);
            }
        }
    }

    #[inline]
    fn effective_speed(&self) -> u64 {
        if self.unscaled { UNIT } else { u64::from(self.speed) }
    }

    #[inline]
    fn progress(&mut self, elapsed: u64) {
        let speed = self.effective_speed();
        if speed == UNIT {
            self.work = self.work.saturating_sub(elapsed);
        } else if elapsed <= SMALL {
            let units = elapsed * speed + u64::from(self.fraction);
            self.fraction = (units % UNIT) as u32;
            self.work = self.work.saturating_sub(units / UNIT);
        } else {
            let units = u128::from(elapsed) * u128::from(speed) + u128::from(self.fraction);
            let done = u64::try_from(units / u128::from(UNIT)).unwrap_or(u64::MAX);
            self.fraction = (units % u128::from(UNIT)) as u32;
            self.work = self.work.saturating_sub(done);
        }
        if self.work == 0 {
            self.fraction = 0;
        }
    }

    /// Returns the operation's work left at `now`, nanoseconds at full speed.
    pub(crate) fn work_left(&self, now: u64) -> u64 {
        let elapsed = if self.is_stopped() { 0 } else { now.saturating_sub(self.since).saturating_sub(self.debt) };
        let done = u128::from(elapsed) * u128::from(self.effective_speed()) / u128::from(UNIT);
        self.work.saturating_sub(u64::try_from(done).unwrap_or(u64::MAX))
    }

    /// Returns the time of the remaining work at this speed without debts, rounded up.
    #[inline]
    fn work_time(&self) -> u64 {
        if self.unscaled {
            return self.work.saturating_sub(self.debt);
        }
        let speed = u64::from(self.speed);
        if speed == UNIT {
            return self.work;
        }
        // `fraction` is below `UNIT`, and 0 without work.
        if self.work <= SMALL {
            return (self.work * UNIT - u64::from(self.fraction)).div_ceil(speed);
        }
        let units = u128::from(self.work) * u128::from(UNIT) - u128::from(self.fraction);
        u64::try_from(units.div_ceil(u128::from(speed))).unwrap_or(NEVER)
    }

    /// Whether the CPU will be in its idle state at `at`.
    #[inline]
    pub(crate) fn sleeps_at(&self, at: u64) -> bool {
        self.curr == IDLE && !self.resched && self.paid_at() < at && (self.awake_at < at || self.awake_at == NEVER)
    }

    #[inline]
    pub(crate) fn done_at(&self) -> u64 {
        self.since.saturating_add(self.debt).saturating_add(self.work_time())
    }

    #[inline]
    pub(crate) fn paid_at(&self) -> u64 {
        self.since.saturating_add(self.debt)
    }

    /// Raises SCHED_SOFTIRQ for the end of an interrupt that began at `now` and takes `ns`.
    pub(crate) fn raise_softirq(&mut self, why: u8, now: u64, ns: u64) {
        self.softirq |= why;
        self.softirq_at = now.saturating_add(ns);
    }

    /// Clears and returns the reasons of a softirq due at `now`.
    #[inline]
    pub(crate) fn take_softirq(&mut self, now: u64) -> u8 {
        if self.softirq == 0 || self.softirq_at > now { 0 } else { std::mem::take(&mut self.softirq) }
    }

    #[inline]
    pub(crate) fn softirq_at(&self) -> u64 {
        self.softirq_at.max(self.since)
    }

    /// Adds `ns` of kernel time that cannot be preempted, from `now`, with a settled account.
    #[inline]
    pub(crate) fn owe(&mut self, now: u64, ns: u64) {
        self.debt += ns;
        self.kernel_end = self.kernel_end.max(now).saturating_add(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn debts_are_paid_before_work() {
        let mut cpu = Cpu::new(1024);
        cpu.curr = 0;
        cpu.work = 100;
        cpu.owe(0, 30);
        assert_eq!((cpu.paid_at(), cpu.done_at()), (30, 130));
        cpu.account_until(50);
        assert_eq!((cpu.debt, cpu.work, cpu.time.overhead, cpu.time.busy), (0, 80, 30, 20));
    }

    #[test]
    fn a_slow_cpu_takes_longer() {
        let mut cpu = Cpu::new(512);
        cpu.curr = 0;
        cpu.work = 1000;
        assert_eq!(cpu.done_at(), 2000);
        cpu.unscaled = true;
        assert_eq!(cpu.done_at(), 1000);
    }

    #[test]
    fn what_ends_at_a_time_does_so_whatever_the_kernel_takes() {
        let mut cpu = Cpu::new(512);
        (cpu.curr, cpu.work, cpu.unscaled) = (0, 1000, true);
        cpu.owe(0, 300);
        assert_eq!(cpu.done_at(), 1000);
        cpu.account_until(400);
        assert_eq!((cpu.work, cpu.time.overhead, cpu.time.busy), (600, 300, 100));
        cpu.owe(400, 900);
        assert_eq!(cpu.done_at(), 1300, "not before the debts are paid");
        cpu.account_until(1300);
        assert_eq!((cpu.debt, cpu.work), (0, 0));
    }

    #[test]
    fn a_stopped_cpu_continues_where_it_was() {
        let mut cpu = Cpu::new(1024);
        (cpu.curr, cpu.work, cpu.unscaled) = (0, 1000, true);
        cpu.owe(0, 30);
        cpu.raise_softirq(BALANCE, 0, 40);
        cpu.account_until(10);
        cpu.stop(10, true);
        cpu.account_until(60);
        cpu.stop(60, false);
        assert_eq!((cpu.debt, cpu.kernel_end, cpu.softirq_at()), (20, 80, 90));
        assert_eq!((cpu.work, cpu.time.busy, cpu.time.overhead), (940, 50, 10));
        // Ends that had passed stay in place.
        cpu.account_until(200);
        cpu.stop(200, true);
        cpu.stop(300, false);
        assert_eq!((cpu.kernel_end, cpu.softirq_at), (80, 90));
    }

    #[test]
    fn what_is_reported_and_not_paid_at_the_end_is_overhead() {
        for curr in [IDLE, 0] {
            let mut cpu = Cpu::new(1024);
            (cpu.curr, cpu.overhead_reported) = (curr, 50);
            cpu.owe(0, 30);
            cpu.account_until(100);
            cpu.end();
            let (busy, idle) = if curr == IDLE { (0, 50) } else { (50, 0) };
            assert_eq!((cpu.time.overhead, cpu.time.busy, cpu.time.idle), (50, busy, idle));
        }
    }

    #[test]
    fn a_cpu_with_a_debt_neither_sleeps_nor_ends_a_call() {
        let mut cpu = Cpu::new(1024);
        cpu.owe(0, 30);
        assert!(!cpu.sleeps_at(30) && cpu.sleeps_at(31));
        assert!(!cpu.ends_call(29) && cpu.ends_call(30));
        cpu.soft = 5;
        assert!(!cpu.ends_call(30), "what can be preempted is reported first");
    }

    #[test]
    fn endless_work_does_not_overflow() {
        let mut cpu = Cpu::new(1);
        cpu.curr = 0;
        cpu.work = u64::MAX;
        assert_eq!(cpu.done_at(), NEVER);
        cpu.account_until(u64::MAX / 2);
        assert_eq!(cpu.done_at(), NEVER);
    }

    proptest! {
        #[test]
        fn interruptions_lose_nothing(
            capacity in 1u32..=1024,
            work in 1u64..10_000_000,
            stops in prop::collection::vec(1u64..100_000, 0..50),
        ) {
            let mut cpu = Cpu::new(capacity);
            cpu.curr = 0;
            cpu.work = work;
            let end = cpu.done_at();
            let mut now = 0;
            for stop in stops {
                now += stop;
                if now >= end {
                    break;
                }
                cpu.account_until(now);
                prop_assert_eq!(cpu.done_at(), end);
                prop_assert!(cpu.work > 0);
            }
            cpu.account_until(end);
            prop_assert_eq!(cpu.work, 0);
            prop_assert_eq!(cpu.time.busy, end);
        }
    }
}
