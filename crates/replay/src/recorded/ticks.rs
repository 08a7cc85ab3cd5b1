//! Finds the recorded machine's tick times. Ticks have no event, but each charges the running task
//! (`sched_stat_runtime`). A waiting task often runs after a tick, so the ticks' phase relative to tasks' periods
//! matters.

use vruntime_sim::plan::Ticks;

use super::{Event, What};

/// The kernels' rates (`kernel/Kconfig.hz`), lowest first: ticks of four times a rate are whole periods of it apart,
/// but not the reverse.
const RATES: [u32; 4] = [100, 250, 300, 1000];
/// A charge this near a CPU's switch or wakeup belongs to it: a tick's effects follow it, and a wakeup precedes its
/// charge.
const NEAR_NS: u64 = 20_000;
/// The resolution of times, and how many units a tick may be late: interrupts are late, especially in virtual machines.
const BIN_NS: u64 = 10_000;
const WINDOW: usize = 10;
/// The fewest ticks, and the least percentage of ticks among charges.
const MIN_TICKS: u32 = 20;
const MIN_PCT: u64 = 90;
/// The highest percentage of ticks before the estimate, due to other charges nearby.
const STRAY_PCT: u32 = 2;

/// A possible tick's charge, unless something follows at once.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    charged: Option<u64>,
    disturbed: Option<u64>,
}

/// Looks for ticks among charges: at the same phase of every period.
#[derive(Clone, Debug)]
pub(super) struct TickFinder {
    cpus: Vec<Cpu>,
    /// Charges by phase, for each of [`RATES`].
    found: [Vec<u32>; RATES.len()],
    charges: u32,
}

impl Default for TickFinder {
    fn default() -> Self {
        let bins = |hz: u32| vec![0; period(hz).div_ceil(BIN_NS) as usize];
        Self { cpus: Vec::new(), found: RATES.map(bins), charges: 0 }
    }
}

fn period(hz: u32) -> u64 {
    1_000_000_000 / u64::from(hz)
}

impl TickFinder {
    pub(super) fn add(&mut self, event: &Event<'_>) {
        let (at, cpu) = (event.at, event.cpu as usize);
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, Cpu::default);
        }
        let this = &mut self.cpus[cpu];
        let near = |before: u64| at.saturating_sub(before) <= NEAR_NS;
        let charged = this.charged.filter(|&before| !near(before));
        match event.what {
            What::Charged { task, .. } => {
                let own = task.pid == event.pid && !this.disturbed.is_some_and(near);
                // One tick may charge twice.
                if own && (this.charged.is_none() || charged.is_some()) {
                    this.charged = Some(at);
                }
            }
            What::Switch { .. } | What::Woken { .. } | What::WokenNew { .. } | What::Lost { .. } => {
                (this.charged, this.disturbed) = (None, Some(at));
            }
            _ => {}
        }
        if let Some(at) = charged {
            self.charges = self.charges.saturating_add(1);
            for (bins, hz) in self.found.iter_mut().zip(RATES) {
                bins[(at % period(hz) / BIN_NS) as usize] += 1;
            }
            let this = &mut self.cpus[cpu];
            if this.charged == Some(at) {
                this.charged = None;
            }
        }
    }

    /// Returns the ticks, if the charges show them.
    pub(super) fn ticks(&self) -> Option<Ticks> {
        self.found.iter().zip(RATES).find_map(|(bins, hz)| {
            let at = |bin: usize| bins[bin % bins.len()];
            let within = |first: usize| (first..first + WINDOW).map(at).sum::<u32>();
            let first = (0..bins.len()).max_by_key(|&first| within(first))?;
            let ticks = within(first);
            if ticks < MIN_TICKS || u64::from(ticks) * 100 < u64::from(self.charges) * MIN_PCT {
                return None;
            }
            // The window begins with what happens to be in it; ticks begin where more than that is.
            let mut early = 0;
            let begin = (first..first + WINDOW).find(|&bin| {
                early += at(bin);
                early * 100 > ticks * STRAY_PCT
            })?;
            Some(Ticks { hz, phase_ns: (begin % bins.len()) as u64 * BIN_NS })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::{Left, Named};

    const US: u64 = 1_000;

    struct Trace(TickFinder);

    impl Trace {
        fn event(&mut self, at: u64, pid: i32, what: What<'_>) {
            self.0.add(&Event { at, cpu: 0, pid, tgid: None, context: None, what });
        }

        fn charge(&mut self, at: u64) {
            self.event(at, 5, What::Charged { task: Named { pid: 5, comm: b"spin" }, ns: 1 });
        }

        fn wake(&mut self, at: u64) {
            self.event(at, 5, What::Woken { task: Named { pid: 6, comm: b"other" }, prio: 120 });
        }

        fn switch(&mut self, at: u64) {
            let [prev, next] = [5, 6].map(|pid| Named { pid, comm: b"either" });
            self.event(at, 5, What::Switch { prev, prev_prio: 120, left: Left::Runnable, next, next_prio: 120 });
        }
    }

    /// Ticks at that rate, late by up to 70 us, and charges at wakeups and switches between them.
    fn ticks(hz: u32, phase: u64) -> Trace {
        let mut trace = Trace(TickFinder::default());
        for tick in 0..200 {
            let at = phase + tick * period(hz) + tick * 37 % 71 * US;
            trace.charge(at);
            trace.charge(at + 3 * US);
            // Every third one makes room for another.
            if tick % 3 == 0 {
                trace.switch(at + 8 * US);
            }
            // A sleeper of a beat of its own.
            let beat = at + period(hz) * 4 / 10;
            trace.wake(beat);
            trace.charge(beat + 2 * US);
            trace.charge(beat + 150 * US);
            trace.switch(beat + 155 * US);
        }
        trace
    }

    #[test]
    fn ticks_are_where_charges_are_in_every_period() {
        for hz in RATES {
            for phase in [0, 70_000, period(hz) - 30_000] {
                let found = ticks(hz, phase).0.ticks().unwrap_or_else(|| panic!("{hz} Hz from {phase} ns on"));
                assert_eq!(found.hz, hz);
                assert!(found.phase_ns.abs_diff(phase) <= BIN_NS, "{hz} Hz: {} for {phase}", found.phase_ns);
            }
        }
    }

    #[test]
    fn what_wakeups_and_switches_charge_is_no_tick() {
        let mut trace = Trace(TickFinder::default());
        for beat in 0..500 {
            let at = beat * 10_000 * US;
            trace.wake(at);
            trace.charge(at + 2 * US);
            trace.charge(at + 2_000 * US);
            trace.switch(at + 2_005 * US);
        }
        assert_eq!(trace.0.ticks(), None);
    }

    #[test]
    fn charges_all_over_the_period_are_no_ticks_nor_are_a_few() {
        let mut trace = Trace(TickFinder::default());
        (0..1000).for_each(|charge| trace.charge(charge * 1_237 * US));
        assert_eq!(trace.0.ticks(), None);
        let mut few = Trace(TickFinder::default());
        (0..MIN_TICKS).for_each(|tick| few.charge(u64::from(tick) * 4_000 * US));
        assert_eq!(few.0.ticks(), None, "the last of them may yet turn out to be a switch");
        few.charge(u64::from(MIN_TICKS) * 4_000 * US);
        assert_eq!(few.0.ticks(), Some(Ticks { hz: 250, phase_ns: 0 }));
    }
}
