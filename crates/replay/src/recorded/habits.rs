//! How a thread sleeps, judged by its wakeups.

use super::progress::Progress;
use super::rounds::{lengths, whole};
use super::threads::{End, Stretch, Thread, Waker};
use super::{Context, How, Lateness, Reads};

/// How a thread's sleeps are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Habit {
    /// It never slept.
    Awake,
    /// Its wakeups are a constant time apart: it sleeps until a clock's next beat.
    Periodic,
    /// Its sleeps have a constant length, from their start.
    Relative,
    /// Interrupts wake it irregularly: every sleep ends at its recorded time.
    Recorded,
    /// Other tasks wake it: every sleep ends at its waker's recorded progress.
    Woken,
}

impl Habit {
    /// Returns a few words for tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Awake => "awake",
            Self::Periodic => "periodic",
            Self::Relative => "relative",
            Self::Recorded => "recorded",
            Self::Woken => "woken",
        }
    }
}

/// A habit with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rhythm {
    /// Wakeups are at `phase`, `phase + period`, ...
    Periodic {
        phase: u64,
        period: u64,
    },
    /// The requested length of every sleep.
    Relative {
        time: u64,
    },
    /// Wakeups are `period` apart. A task that is late begins the next period at once, so that its beats move.
    Paced {
        period: u64,
    },
    Recorded,
    Woken,
    Awake,
}

impl Rhythm {
    pub(super) fn habit(self) -> Habit {
        match self {
            Self::Periodic { .. } | Self::Paced { .. } => Habit::Periodic,
            Self::Relative { .. } => Habit::Relative,
            Self::Recorded => Habit::Recorded,
            Self::Woken => Habit::Woken,
            Self::Awake => Habit::Awake,
        }
    }
}

/// Fewer sleeps show no rhythm.
pub(super) const MIN_SLEEPS: usize = 8;

/// The tenths of sleeps that other tasks must have ended: the rest may be timeouts and signals.
const NEARLY_ALL: usize = 9;

/// The tenths of intervals that must be whole periods.
const MOSTLY: usize = 8;

/// Returns the value with `percent` of `sorted` below it. `sorted` is not empty.
pub(super) fn percentile<T: Copy>(sorted: &[T], percent: usize) -> T {
    sorted[(sorted.len() - 1) * percent / 100]
}

/// Returns how each thread sleeps.
pub(super) fn rhythms(
    threads: &[Thread],
    lateness: &Lateness,
    how: &How,
    interrupted: &impl Fn(usize) -> bool,
) -> Vec<Rhythm> {
    let slack = |prio: i32| if prio < 100 { 0 } else { lateness.slack };
    let of_thread = |thread: &Thread| {
        let prio = thread.stretches.last().map_or(120, |last| last.prio);
        match rhythm(threads, thread, slack(prio), lateness, interrupted) {
            Rhythm::Awake => Rhythm::Awake,
            _ if how.reads == Reads::Times => Rhythm::Recorded,
            rhythm => rhythm,
        }
    };
    threads.iter().map(of_thread).collect()
}

/// Returns the sleeps that signals could end: the stretches before and after.
pub(super) fn sleeps(stretches: &[Stretch]) -> impl Iterator<Item = (&Stretch, &Stretch)> {
    stretches.windows(2).map(|pair| (&pair[0], &pair[1])).filter(|(before, _)| before.end != End::Device)
}

/// The most time between a wakeup and a sleep that makes the wakeup the task's last act.
const THEN_SLEEPS_NS: u64 = 20_000;

/// Whether `thread` slept right after it, or an interrupt during it, woke a task.
fn then_slept(thread: &Thread, at: u64) -> bool {
    let next = thread.stretches.partition_point(|stretch| stretch.woken <= at);
    next.checked_sub(1).map(|last| &thread.stretches[last]).is_some_and(|stretch| {
        stretch.end == End::Sleep && stretch.ended.checked_sub(at).is_some_and(|left| left <= THEN_SLEEPS_NS)
    })
}

/// Returns a thread's rhythm. `interrupted` tells for which threads wakeups in their context are interrupts that hit
/// them.
pub(super) fn rhythm(
    threads: &[Thread],
    thread: &Thread,
    slack: u64,
    lateness: &Lateness,
    interrupted: &dyn Fn(usize) -> bool,
) -> Rhythm {
    let stretches = &thread.stretches;
    let count = sleeps(stretches).count() + usize::from(thread.asleep_first);
    if count == 0 {
        return Rhythm::Awake;
    }
    let first = stretches.first().filter(|_| thread.asleep_first);
    let woken = || sleeps(stretches).map(|(_, woken)| woken).chain(first);
    // However regular: it keeps time because its wakers do.
    let by_others = woken().filter(|stretch| match stretch.waker {
        Waker::Thread(by) => {
            !interrupted(by) && stretch.surely.unwrap_or_else(|| then_slept(&threads[by], stretch.woken))
        }
        Waker::Start | Waker::Interrupt => false,
    });
    if by_others.count() * 10 >= count * NEARLY_ALL {
        return Rhythm::Woken;
    }
    let lead = slack + lateness.timer;
    if count >= MIN_SLEEPS {
        let (periodic, relative) = (periodic(stretches, lead), relative(stretches, lead));
        match (periodic, relative) {
            (Some((periodic, spread)), Some((relative, other))) => {
                return if spread < other { periodic } else { relative };
            }
            (Some((rhythm, _)), None) | (None, Some((rhythm, _))) => return rhythm,
            (None, None) => {
                if let Some(rhythm) = paced(stretches, lead).or_else(|| late(thread, lead)) {
                    return rhythm;
                }
            }
        }
    }
    let is_interrupt = |waker: Waker| match waker {
        Waker::Interrupt => true,
        Waker::Thread(by) => interrupted(by),
        Waker::Start => false,
    };
    let by_interrupts = woken().filter(|woken| is_interrupt(woken.waker)).count();
    // Now and then: a tenth. Fewer may be signals and timeouts of a task that otherwise waits for others.
    if by_interrupts * 10 >= count { Rhythm::Recorded } else { Rhythm::Woken }
}

/// Returns the allowed variation of a rhythm of `typical` nanoseconds: interrupts are late by slack and obstacles. A
/// quarter or more is no rhythm, even of a short time.
pub(super) fn tolerance(typical: u64, lead: u64) -> u64 {
    (typical / 50 + lead).min(typical / 4)
}

/// Whether wakeups are a period apart, and how far they stray (10th to 90th percentile).
fn periodic(stretches: &[Stretch], lead: u64) -> Option<(Rhythm, u64)> {
    let times: Vec<u64> = stretches.iter().map(|stretch| stretch.woken).collect();
    let mut intervals: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    intervals.sort_unstable();
    let middle = percentile(&intervals, 50);
    if middle == 0 {
        return None;
    }
    // A late task leaves beats out, so an interval may be several periods; few are none.
    let allowed = tolerance(middle, lead);
    let beats = |interval: u64| ((interval + middle / 2) / middle).max(1);
    let fits = |interval: u64| interval.abs_diff(beats(interval) * middle) <= allowed;
    let good = intervals.iter().copied().filter(|&interval| fits(interval));
    let (count, sum, total) =
        good.fold((0, 0, 0), |(count, sum, total), interval| (count + 1, sum + interval, total + beats(interval)));
    let period = refined(&times, sum / u64::max(total, 1));
    if period == 0 || count * 10 < intervals.len() * MOSTLY || total > 2 * count as u64 {
        return None;
    }
    // Strays from the beats of a wakeup in the middle, which a thread's odd beginning and end do not shift.
    let origin = times[times.len() / 2];
    let half = (period / 2) as i64;
    let stray = |time: u64| (time as i64 - origin as i64 + half).rem_euclid(period as i64) - half;
    let mut strays: Vec<i64> = times.iter().map(|&time| stray(time)).collect();
    strays.sort_unstable();
    let (low, high) = (percentile(&strays, 10), percentile(&strays, 90));
    let spread = high.abs_diff(low);
    if spread > allowed {
        return None;
    }
    // The timer was set to a time that no wakeup came before, and that most came after by the slack and its latency.
    let phase = origin as i64 + percentile(&strays, 5).min(high - lead as i64);
    Some((Rhythm::Periodic { phase: phase.rem_euclid(period as i64) as u64, period }, spread))
}

/// Whether at least half of the wakeups are a period apart, and hardly any less. The others are late. Softirqs are no
/// such timers: those of the wheel are whole ticks apart, whatever the task asks for (`rcu_preempt`).
fn paced(stretches: &[Stretch], lead: u64) -> Option<Rhythm> {
    if stretches.iter().any(|stretch| stretch.context == Some(Context::Softirq)) {
        return None;
    }
    let mut intervals: Vec<u64> = stretches.windows(2).map(|pair| pair[1].woken - pair[0].woken).collect();
    intervals.sort_unstable();
    if intervals.len() < MIN_SLEEPS {
        return None;
    }
    let least = percentile(&intervals, 10);
    let allowed = tolerance(least, lead);
    let good = intervals.iter().copied().filter(|&interval| interval.abs_diff(least) <= allowed);
    let (count, sum) = good.fold((0, 0), |(count, sum), interval| (count + 1, sum + interval));
    let early = intervals.partition_point(|&interval| interval + allowed < least);
    (count * 2 >= intervals.len() && early * 20 <= intervals.len())
        .then(|| Rhythm::Paced { period: sum / u64::max(count as u64, 1) })
}

/// Whether a thread is mostly late, and begins its next period then. Its work between two sleeps is a whole number of
/// rounds. The last round began a period before the sleep's end: at a wakeup, or at the end of a late round.
fn late(thread: &Thread, lead: u64) -> Option<Rhythm> {
    let stretches = &thread.stretches;
    if stretches.iter().any(|stretch| stretch.context == Some(Context::Softirq)) {
        return None;
    }
    let mut works: Vec<u64> = stretches.iter().map(|stretch| stretch.work).collect();
    works.sort_unstable();
    let round = lengths(&works).next()?;
    let progress = Progress::new(thread);
    let mut done = 0;
    let mut periods: Vec<u64> = Vec::new();
    for (stretch, next) in stretches.windows(2).map(|pair| (&pair[0], &pair[1])) {
        let times = whole(stretch.work, round);
        let began = match times {
            1 => stretch.woken,
            _ => progress.when(done + stretch.work / times * (times - 1)).saturating_add(lead),
        };
        done += stretch.work;
        periods.push(next.woken.saturating_sub(began));
    }
    if periods.len() < MIN_SLEEPS {
        return None;
    }
    periods.sort_unstable();
    let (low, middle, high) = (percentile(&periods, 10), percentile(&periods, 50), percentile(&periods, 90));
    (middle > 0 && high - low <= tolerance(middle, lead)).then_some(Rhythm::Paced { period: middle })
}

/// Returns the work in a stretch after which a [paced](Rhythm::Paced) thread began its next periods without a sleep,
/// since it was late. All its periods have about the same work.
pub(super) fn missed_beats(thread: &Thread, period: u64, duration_ns: u64) -> Vec<(usize, u64)> {
    let mut works: Vec<u64> = thread.stretches.iter().map(|stretch| stretch.work).collect();
    works.sort_unstable();
    let work = lengths(&works).next().unwrap_or_else(|| percentile(&works, 50));
    let is_near = |stretch: u64, times: u64| stretch.abs_diff(times * work) <= work / 4;
    let mut missed = Vec::new();
    for (index, stretch) in thread.stretches.iter().enumerate().filter(|(_, stretch)| stretch.work > work) {
        let next = thread.stretches.get(index + 1).map_or(duration_ns, |next| next.woken);
        let (times, beats) =
            ((stretch.work + work / 2) / work.max(1), (next - stretch.woken) / (period / 10 * 9).max(1));
        if times <= beats && is_near(stretch.work, times) {
            missed.extend((1..times).map(|time| (index, stretch.work * time / times)));
        }
    }
    missed
}

/// Returns a better period, with which the last wakeups stray like the first. Errors of a millionth add up over many
/// beats.
fn refined(times: &[u64], period: u64) -> u64 {
    let part = times.len() / 4;
    if part < MIN_SLEEPS || period == 0 {
        return period;
    }
    let half = (period / 2) as i64;
    // How far most of them are from the beats of the first wakeup, and the number of their middle beat.
    let middle = |some: &[u64]| {
        let mut strays: Vec<i64> =
            some.iter().map(|time| ((time - times[0]) as i64 + half).rem_euclid(period as i64) - half).collect();
        strays.sort_unstable();
        ((some[some.len() / 2] - times[0] + period / 2) / period, percentile(&strays, 50))
    };
    let ((first, early), (last, late)) = (middle(&times[..part]), middle(&times[times.len() - part..]));
    let drift = (late - early) / (last - first).max(1) as i64;
    period.saturating_add_signed(drift)
}

/// Whether all sleeps have one length, and its variation.
fn relative(stretches: &[Stretch], lead: u64) -> Option<(Rhythm, u64)> {
    let mut lengths: Vec<u64> =
        sleeps(stretches).map(|(before, behind)| behind.woken.saturating_sub(before.ended)).collect();
    if lengths.len() < MIN_SLEEPS {
        return None;
    }
    lengths.sort_unstable();
    let (low, high) = (percentile(&lengths, 10), percentile(&lengths, 90));
    if high - low > tolerance(percentile(&lengths, 50), lead) {
        return None;
    }
    let time = percentile(&lengths, 5).min(high.saturating_sub(lead));
    Some((Rhythm::Relative { time }, high - low))
}
