//! Time that a task had on a CPU, and that is not its work: the recording of events, or switches and wakeups.

use vruntime_sim::SwitchCosts;

use super::{Activity, Current};

/// Costs of a CPU. Each takes the time after its event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overhead {
    /// Cost that the passed time did not cover yet.
    owed: u64,
    /// Cost that it covered, and that is not taken.
    paid: u64,
    /// Until when.
    until: u64,
}

impl Overhead {
    /// Returns the covered cost until `at`.
    fn paid(self, at: u64) -> u64 {
        self.paid + self.owed.min(at.saturating_sub(self.until))
    }

    /// Adds a cost that begins at `at`.
    fn owe(&mut self, at: u64, cost: u64) {
        let paid = self.paid(at);
        (self.owed, self.paid, self.until) = (self.owed - (paid - self.paid), paid, at.max(self.until));
        self.owed = self.owed.saturating_add(cost);
    }

    /// Returns the covered cost until `at`, once.
    pub(super) fn take_paid(&mut self, at: u64) -> u64 {
        self.owe(at, 0);
        std::mem::take(&mut self.paid)
    }

    /// Forgets all costs. Returns those that no time covered.
    pub(super) fn end(&mut self, at: u64) -> u64 {
        std::mem::replace(self, Self { until: at, ..Self::default() }).owed
    }
}

/// Why an event was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A switch.
    Switch,
    /// A wakeup by a task.
    Wakeup,
    /// Anything else.
    Other,
}

/// Costs of switches and wakeups that the replay charges for its own, and how often they were met.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charged {
    costs: SwitchCosts,
    switches: u64,
    of_switches: u64,
    wakeups: u64,
    of_wakeups: u64,
}

impl Activity {
    /// Takes `costs` out of the work of tasks, and the recording of their events. The recording of other events stays.
    pub(in crate::recorded) fn charge_switches(&mut self, costs: SwitchCosts) {
        self.charged = Some(Charged { costs, switches: 0, of_switches: 0, wakeups: 0, of_wakeups: 0 });
    }

    /// Counts the cost of recording an event. It is in the time of the CPU's task.
    pub(in crate::recorded) fn written(&mut self, at: u64, cpu: u32, reason: Reason) {
        let at = at.max(self.now);
        let cost = self.event_ns;
        let Some(cpu) = self.cpus.get_mut(cpu as usize).filter(|_| cost > 0) else { return };
        if let Some(charged) = &mut self.charged {
            let busy = matches!(cpu.current, Current::Thread(_));
            match reason {
                Reason::Switch if busy => charged.of_switches += 1,
                Reason::Wakeup if busy => charged.of_wakeups += 1,
                _ => return,
            }
        }
        cpu.overhead.owe(at, cost);
    }

    /// Returns the costs of a switch and a wakeup while events were recorded, on average. Zeros if none are
    /// [charged](Self::charge_switches).
    pub(in crate::recorded) fn costs_while_recording(&self) -> SwitchCosts {
        let Some(Charged { costs, switches, of_switches, wakeups, of_wakeups }) = self.charged else {
            return SwitchCosts::default();
        };
        let each = |events: u64, of: u64| (events * self.event_ns).checked_div(of).unwrap_or(0);
        SwitchCosts {
            switch_ns: costs.switch_ns + each(of_switches, switches),
            wakeup_ns: costs.wakeup_ns + each(of_wakeups, wakeups),
            ..costs
        }
    }

    /// Counts the cost of a switch to a thread, which has that CPU now.
    pub(super) fn switched(&mut self, at: u64, cpu: usize, thread: usize) {
        let Some(charged) = &mut self.charged else { return };
        charged.switches += 1;
        let lost = self.cpus[cpu].recent.touch(thread as u32);
        self.cpus[cpu].overhead.owe(at, charged.costs.switch(lost));
    }

    /// Counts the cost of a wakeup in the time of a CPU's task. `elsewhere`: the woken task last ran on another CPU.
    pub(super) fn wakes_up(&mut self, at: u64, cpu: usize, elsewhere: bool) {
        let Some(charged) = &mut self.charged else { return };
        charged.wakeups += 1;
        self.cpus[cpu].overhead.owe(at, charged.costs.wakeup(elsewhere));
    }

    /// Adds up the costs of a task that leaves a CPU, and that its time did not cover.
    pub(super) fn not_covered(&mut self, at: u64, cpu: usize) {
        let ns = self.cpus[cpu].overhead.end(at);
        let counts = &mut self.counts;
        *if self.charged.is_some() { &mut counts.uncharged_ns } else { &mut counts.unsubtracted_ns } += ns;
    }

    /// Returns the part of a CPU's time since its task came that is not work.
    pub(super) fn not_work(&self, cpu: usize) -> u64 {
        let cpu = &self.cpus[cpu];
        cpu.overhead.paid(self.now).min(self.now - cpu.since)
    }
}
