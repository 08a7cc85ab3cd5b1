//! The time that recording took from a task.

use super::Lives;

/// The cost of a CPU's events. Recording an event takes the time after it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tracing {
    /// Cost that the passed time did not cover yet.
    owed: u64,
    /// Cost that it covered, and that is not taken.
    paid: u64,
    /// Until when.
    until: u64,
}

impl Tracing {
    /// Returns the covered cost until `at`.
    fn paid(self, at: u64) -> u64 {
        self.paid + self.owed.min(at.saturating_sub(self.until))
    }

    fn pass(&mut self, at: u64) {
        let paid = self.paid(at);
        (self.owed, self.paid, self.until) = (self.owed - (paid - self.paid), paid, at.max(self.until));
    }

    /// Returns the covered cost until `at`, once.
    pub(super) fn take_paid(&mut self, at: u64) -> u64 {
        self.pass(at);
        std::mem::take(&mut self.paid)
    }

    /// Forgets all events. Returns the cost that no time covered.
    pub(super) fn end(&mut self, at: u64) -> u64 {
        std::mem::replace(self, Self { until: at, ..Self::default() }).owed
    }
}

impl Lives {
    /// Counts the cost of an event, of any kind. It is in the time of the CPU's task.
    pub(in crate::recorded) fn written(&mut self, at: u64, cpu: u32) {
        let at = at.max(self.now);
        let cost = self.event_ns;
        if let Some(cpu) = self.cpus.get_mut(cpu as usize).filter(|_| cost > 0) {
            cpu.tracing.pass(at);
            cpu.tracing.owed = cpu.tracing.owed.saturating_add(cost);
        }
    }

    /// Returns the part of a CPU's time since its task came in which events were recorded.
    pub(super) fn recording(&self, cpu: usize) -> u64 {
        let cpu = &self.cpus[cpu];
        cpu.tracing.paid(self.now).min(self.now - cpu.since)
    }
}
