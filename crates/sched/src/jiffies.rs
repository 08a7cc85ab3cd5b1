//! Jiffies: the count of ticks, which is the balancer's clock (`tick-sched.c`).
//!
//! One CPU advances the count (`tick_do_timer_cpu`) as its tick begins. A CPU whose tick is slightly earlier reads the
//! old count, and finds nothing due. When the keeper's tick stops, the next CPU with a tick takes over. A CPU that
//! leaves idle updates the count, since no CPU may have ticked.

use core::sync::atomic::Ordering::Relaxed;

use crate::ids::CpuId;
use crate::sync::{AtomicU32, AtomicU64};

const NO_CPU: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Jiffies {
    count: AtomicU64,
    /// Time of the next increment, nanoseconds; 0 before the first call.
    next: AtomicU64,
    /// Time of jiffy 1, nanoseconds.
    first: AtomicU64,
    keeper: AtomicU32,
}

impl Jiffies {
    pub(crate) fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            next: AtomicU64::new(0),
            first: AtomicU64::new(0),
            keeper: AtomicU32::new(NO_CPU),
        }
    }

    pub(crate) fn set_first(&self, at: u64) {
        self.first.store(at, Relaxed);
    }

    /// Returns the count at its last update.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.count.load(Relaxed)
    }

    #[inline]
    pub(crate) fn tick(&self, cpu: CpuId, now: u64, tick_ns: u64) {
        let keeper = self.keeper.load(Relaxed);
        let is_keeper = keeper == cpu.0
            || (keeper == NO_CPU && self.keeper.compare_exchange(NO_CPU, cpu.0, Relaxed, Relaxed).is_ok());
        if is_keeper {
            self.update(now, tick_ns);
        }
    }

    pub(crate) fn leave(&self, cpu: CpuId) {
        // Reading first avoids most exchanges, which cost as much as fifty other instructions.
        if self.keeper.load(Relaxed) == cpu.0 {
            let _ = self.keeper.compare_exchange(cpu.0, NO_CPU, Relaxed, Relaxed);
        }
    }

    #[inline]
    pub(crate) fn update(&self, now: u64, tick_ns: u64) {
        if now >= self.next.load(Relaxed) {
            self.advance(now, tick_ns);
        }
    }

    fn advance(&self, now: u64, tick_ns: u64) {
        let (tick_ns, first) = (tick_ns.max(1), self.first.load(Relaxed));
        if now >= first {
            let count = (now - first) / tick_ns + 1;
            self.count.fetch_max(count, Relaxed);
            self.next.fetch_max(count.saturating_mul(tick_ns).saturating_add(first), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cpu_to_tick_keeps_the_count_until_its_tick_stops() {
        let (jiffies, tick) = (Jiffies::new(), 1000);
        jiffies.set_first(300);
        assert_eq!(jiffies.now(), 0);
        jiffies.tick(CpuId(1), 301, tick);
        assert_eq!(jiffies.now(), 1);
        jiffies.tick(CpuId(0), 1304, tick);
        assert_eq!(jiffies.now(), 1, "the keeper's tick has not come yet");
        jiffies.tick(CpuId(1), 1305, tick);
        assert_eq!(jiffies.now(), 2);
        jiffies.leave(CpuId(0));
        jiffies.tick(CpuId(0), 2301, tick);
        assert_eq!(jiffies.now(), 2, "it is not its duty");
        jiffies.leave(CpuId(1));
        jiffies.tick(CpuId(0), 5301, tick);
        assert_eq!(jiffies.now(), 6, "no CPU had counted");
        jiffies.tick(CpuId(1), 6302, tick);
        assert_eq!(jiffies.now(), 6, "it is not its duty any more");
        jiffies.update(6303, tick);
        assert_eq!(jiffies.now(), 7);
    }
}
