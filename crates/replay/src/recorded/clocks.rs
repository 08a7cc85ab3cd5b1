//! What threads have from clocks: lengths of computation, and common beats.

use std::collections::BTreeSet;

use super::Lateness;
use super::habits::{MIN_SLEEPS, Rhythm, percentile, tolerance};
use super::threads::{End, Stretch, Thread};

/// The fewest stretches that show a clock-bounded thread beyond chance.
const MIN_TELLING: usize = 4;
/// Wakeups on one CPU within this time come from one interrupt.
const ONE_INTERRUPT_NS: u64 = 20_000;
/// Common wakeups have no order if the rarer order has a tenth.
const RARELY: usize = 10;

/// How a disturbed stretch ended, of a thread that computes for `time` undisturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Disturbed {
    /// As soon as possible after that time: the clock bounds it.
    by_clock: bool,
    /// After its usual CPU time: it has work to do.
    by_work: bool,
}

/// Returns the allowed variation of a computation of `time`: less than a quarter.
fn allowed(time: u64, lateness: &Lateness) -> u64 {
    tolerance(time, lateness.slack + lateness.timer)
}

fn disturbed(stretch: &Stretch, time: u64, lateness: &Lateness) -> Disturbed {
    let allowed = allowed(time, lateness);
    let (passed, last) = (stretch.ended - stretch.began, stretch.ended - stretch.resumed);
    Disturbed {
        // A task that looks at the clock never has more of a CPU than that time.
        by_clock: stretch.time <= time + allowed
            && (passed.abs_diff(time) <= allowed || (passed > time && last <= allowed)),
        by_work: stretch.time.abs_diff(time) <= allowed,
    }
}

/// Whether that stretch computed for `time`.
pub(super) fn by_the_clock(stretch: &Stretch, time: u64, lateness: &Lateness) -> bool {
    disturbed(stretch, time, lateness).by_clock
}

/// Returns how long a clock-bounded `thread` computes between sleeps (rt-app's `runtime`; polling for a time). Such
/// work shrinks while others have the CPU: disturbed stretches show it.
pub(super) fn pace(thread: &Thread, lateness: &Lateness) -> Option<u64> {
    let whole = || thread.stretches.iter().filter(|stretch| matches!(stretch.end, End::Sleep | End::Device));
    let mut alone: Vec<u64> = whole().filter(|stretch| stretch.runs == 1).map(|stretch| stretch.time).collect();
    if alone.len() < MIN_SLEEPS {
        return None;
    }
    alone.sort_unstable();
    let time = percentile(&alone, 50);
    if percentile(&alone, 90) - percentile(&alone, 10) > allowed(time, lateness) {
        return None;
    }
    let (mut clock, mut work) = (0, 0);
    for stretch in whole().filter(|stretch| stretch.runs > 1) {
        let ended = disturbed(stretch, time, lateness);
        clock += usize::from(ended.by_clock && !ended.by_work);
        work += usize::from(ended.by_work && !ended.by_clock);
    }
    (clock >= MIN_TELLING && clock > 4 * work).then_some(time)
}

/// Gives threads with equal timers one beat: an interrupt wakes them in their varying order of sleeping. With separate
/// measurements, one would always be first. Returns their number.
pub(super) fn share_beats(threads: &[Thread], rhythms: &mut [Rhythm], lead: u64) -> u64 {
    let mut periodic: Vec<(u64, u64, usize)> = rhythms
        .iter()
        .enumerate()
        .filter_map(|(thread, rhythm)| match *rhythm {
            Rhythm::Periodic { phase, period } => Some((period, phase, thread)),
            _ => None,
        })
        .collect();
    periodic.sort_unstable();
    let mut sharing = BTreeSet::new();
    // Each joins the first one of those before it with which it has its beat in common; those are few.
    for index in 1..periodic.len() {
        let (period, _, thread) = periodic[index];
        let near = periodic[..index].iter().rev().take_while(|(other, ..)| period - other <= period / 1000);
        let common = near.map(|&(.., other)| other).find(|&other| {
            close(rhythms[other], rhythms[thread], &threads[thread], lead)
                && alternate(&threads[other].stretches, &threads[thread].stretches)
        });
        if let Some(other) = common {
            rhythms[thread] = rhythms[other];
            sharing.extend([thread, other]);
        }
    }
    sharing.len() as u64
}

/// Whether two beats stay so near to each other throughout a thread's life that one interrupt takes both.
fn close(one: Rhythm, other: Rhythm, thread: &Thread, lead: u64) -> bool {
    let (Rhythm::Periodic { phase: a, period: p }, Rhythm::Periodic { phase: b, period: q }) = (one, other) else {
        return false;
    };
    let beat = |at: u64, phase: u64, period: u64| phase + (at.saturating_sub(phase) + period / 2) / period * period;
    let woken = |stretch: Option<&Stretch>| stretch.map_or(0, |stretch| stretch.woken);
    let middle = woken(thread.stretches.get(thread.stretches.len() / 2));
    beat(middle, a, p).abs_diff(beat(middle, b, q)) <= lead + ONE_INTERRUPT_NS
}

/// Whether one interrupt wakes both, in varying order.
fn alternate(one: &[Stretch], other: &[Stretch]) -> bool {
    let (mut first, mut second) = (0, 0);
    let mut others = other.iter().peekable();
    for this in one {
        let earliest = this.woken.saturating_sub(ONE_INTERRUPT_NS);
        while others.next_if(|other| other.woken < earliest).is_some() {}
        let together = others.clone().take_while(|other| other.woken <= this.woken + ONE_INTERRUPT_NS);
        if let Some(other) = together.into_iter().find(|other| other.cpu == this.cpu && other.woken != this.woken) {
            if this.woken < other.woken {
                first += 1;
            } else {
                second += 1;
            }
        }
    }
    first + second >= MIN_SLEEPS && usize::min(first, second) * RARELY >= first + second
}
