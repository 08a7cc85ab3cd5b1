//! Stalls: a virtual machine's host runs something else on a virtual CPU's CPU. The virtual CPU stops, and its
//! interrupts wait.
//!
//! Every host has other work now and then: kernel threads, other virtual machines, the emulator. In the guest, a
//! computing thread's clock jumps by milliseconds without a preemption. One wakeup in a few hundred is late by that.
//! Only stalls are simulated: on each CPU independently, at random times, with a fixed length. `hypervisor.rs`
//! simulates hosts with too few CPUs.

use vruntime_sched::Policy;
use vruntime_trace::Sink;

use crate::cpu::NEVER;
use crate::events::Source;
use crate::machine::Machine;
use crate::rng::Rng;

/// The length and the rate of stalls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stall {
    /// The length of a stall, nanoseconds.
    pub length_ns: u64,
    /// The mean time between two stalls of a CPU, nanoseconds: exponentially distributed, drawn from the run's seed.
    pub every_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Stalls {
    spec: Stall,
    cpus: Vec<Stalled>,
    rng: Rng,
}

#[derive(Debug)]
struct Stalled {
    away: bool,
    until: u64,
    /// Delayed interrupts. Their sources are armed for [`NEVER`].
    pending: Vec<Source>,
}

impl Stalls {
    pub(crate) fn new(spec: Stall, cpus: usize, seed: u64) -> Option<Self> {
        let mut rng = Rng::new(seed ^ 0x1f83_d9ab_fb41_bd6b);
        let mut cpu = |_| Stalled { away: false, until: rng.exponential(spec.every_ns), pending: Vec::new() };
        let cpus = (0..cpus).map(&mut cpu).collect();
        (spec.length_ns > 0).then_some(Self { spec, cpus, rng })
    }

    fn next(&mut self, now: u64) -> Option<usize> {
        let cpu = self.cpus.iter().position(|cpu| cpu.until <= now)?;
        let this = &mut self.cpus[cpu];
        this.away = !this.away;
        // Never 0, so that time separates two stalls.
        let lasts = if this.away { self.spec.length_ns } else { 1 + self.rng.exponential(self.spec.every_ns) };
        this.until = now.saturating_add(lasts);
        Some(cpu)
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    #[inline]
    pub(crate) fn is_stalled(&self, cpu: usize) -> bool {
        self.stalls.as_ref().is_some_and(|stalls| stalls.cpus[cpu].away)
    }

    pub(crate) fn waits_while_stalled(&self, cpu: usize) -> bool {
        self.stalls.as_ref().is_some_and(|stalls| !stalls.cpus[cpu].pending.is_empty())
    }

    pub(crate) fn hold_while_stalled(&mut self, cpu: usize, source: Source) {
        if let Some(stalls) = &mut self.stalls {
            stalls.cpus[cpu].pending.push(source);
        }
        // An idle virtual CPU now wants its CPU.
        self.obey(cpu);
    }

    fn obey(&mut self, cpu: usize) {
        let host = self.host.take();
        self.obey_host(cpu, host.as_deref());
        self.host = host;
    }

    pub(crate) fn arm_stalls(&mut self) {
        let Some(stalls) = &self.stalls else { return };
        let at = stalls.cpus.iter().map(|cpu| cpu.until).min().unwrap_or(NEVER);
        self.core.queue.arm(self.core.stall_source(), at);
    }

    #[inline(never)]
    pub(crate) fn on_stall(&mut self) {
        let now = self.core.now;
        while let Some(cpu) = self.stalls.as_mut().and_then(|stalls| stalls.next(now)) {
            let stalled = self.is_stalled(cpu);
            let pending =
                self.stalls.as_mut().map(|stalls| std::mem::take(&mut stalls.cpus[cpu].pending)).unwrap_or_default();
            self.obey(cpu);
            if !stalled && self.deliver(cpu, pending.into_iter()) {
                self.core.arm_timers();
            }
        }
        self.arm_stalls();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_come_and_go_each_by_itself() {
        let spec = Stall { length_ns: 4_000, every_ns: 40_000 };
        let mut stalls = Stalls::new(spec, 3, 1).expect("time passes in them");
        let (mut away, mut times) = ([0; 3], [0; 3]);
        let mut now = 0;
        while now < 400_000_000 {
            let next = stalls.cpus.iter().map(|cpu| cpu.until).min().expect("three CPUs");
            assert!(next >= now, "time does not go back");
            now = next;
            while let Some(cpu) = stalls.next(now) {
                if stalls.cpus[cpu].away {
                    assert_eq!(stalls.cpus[cpu].until, now + 4_000);
                    away[cpu] += 4_000;
                    times[cpu] += 1;
                }
            }
        }
        // A share of one in eleven, by chance: 9000 draws each.
        for cpu in 0..3 {
            assert!((34_000_000..39_000_000).contains(&away[cpu]), "{away:?}");
        }
        assert_ne!(times[0], times[1], "not in step");
        assert!(Stalls::new(Stall { length_ns: 0, ..spec }, 3, 1).is_none());
    }
}
