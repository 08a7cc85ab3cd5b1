//! The scheduler's timers without a CPU: of bandwidth and groups. Few are armed at a time. A source of the event queue
//! is armed for the first.

use std::collections::BTreeMap;

use vruntime_sched::Timer;

use crate::cpu::NEVER;

#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// By time, then arming. Each has the CPU that takes the interrupt.
    due: BTreeMap<(u64, u64), (Timer, u32)>,
    /// Each timer's key in `due`.
    armed: BTreeMap<Timer, (u64, u64)>,
    sequence: u64,
}

impl Timers {
    /// Arms `timer` for `at` on `cpu`, instead of any earlier arming.
    pub(crate) fn arm(&mut self, timer: Timer, at: u64, cpu: u32) {
        self.cancel(timer);
        let key = (at, self.sequence);
        self.sequence += 1;
        self.due.insert(key, (timer, cpu));
        self.armed.insert(timer, key);
    }

    pub(crate) fn cancel(&mut self, timer: Timer) {
        if let Some(key) = self.armed.remove(&timer) {
            self.due.remove(&key);
        }
    }

    /// Moves the timers of `cpu` from [`NEVER`] to `now`. Returns whether there are any.
    pub(crate) fn release(&mut self, cpu: u32, now: u64) -> bool {
        let pending = self.due.range((NEVER, 0)..).filter(|(_, (_, on))| *on == cpu);
        let pending: Vec<Timer> = pending.map(|(_, &(timer, _))| timer).collect();
        for &timer in &pending {
            self.arm(timer, now, cpu);
        }
        !pending.is_empty()
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.due.keys().next().map(|&(at, _)| at)
    }

    /// Returns the time of the first that interrupts `cpu`, with a search: there are few.
    pub(crate) fn next_on(&self, cpu: u32) -> Option<u64> {
        self.due.iter().find(|(_, (_, on))| *on == cpu).map(|(&(at, _), _)| at)
    }

    /// Returns the first, with its CPU, if it is due at `now`.
    pub(crate) fn first(&self, now: u64) -> Option<(Timer, u32)> {
        self.due.first_key_value().filter(|((at, _), _)| *at <= now).map(|(_, &timer)| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vruntime_sched::ids::GroupId;

    #[test]
    fn they_fire_in_order_of_time_and_a_timer_is_armed_once() {
        let (period, slack) = (Timer::GroupPeriod(GroupId(1)), Timer::GroupSlack(GroupId(1)));
        let mut timers = Timers::default();
        timers.arm(period, 9, 0);
        timers.arm(slack, 5, 1);
        timers.arm(Timer::RtPeriod, 5, 2);
        timers.arm(period, 7, 3);
        assert_eq!((timers.next(), timers.first(4)), (Some(5), None));
        let mut order = Vec::new();
        while let Some((timer, cpu)) = timers.first(8) {
            timers.cancel(timer);
            order.push((timer, cpu));
        }
        assert_eq!(order, [(slack, 1), (Timer::RtPeriod, 2), (period, 3)]);
        assert_eq!(timers.next(), None);
    }
}
