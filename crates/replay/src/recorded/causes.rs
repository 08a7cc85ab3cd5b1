//! What ended each sleep of a thread: another thread, a device, a timer, or something outside. A stretch is what a
//! thread does from a wakeup to its next sleep.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_sim::plan::Ticks;

use super::Context;
use super::habits::Rhythm;
use super::threads::{Act, End, Stretch, Thread, Waker};

/// The effects of a tick happen within this time.
const TICK_NS: u64 = 150_000;
/// A tick may precede its estimated time by this much.
const EARLY_NS: u64 = 100_000;
/// If ticks are unknown, a task that ran for this long may have been preempted: no kernel has a shorter default slice.
const SLICE_NS: u64 = 700_000;

/// What ended the sleep before a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// No sleep: the thread starts.
    Start,
    /// Another thread woke it.
    Thread(usize),
    /// A device completed the thread's request; or a [pause](super::pauses).
    Device,
    /// A timer set at the sleep's start: a timed sleep, or a timeout.
    Timer,
    /// An interrupt from outside, such as a packet's, or an unknown waker.
    Interrupt,
}

#[derive(Clone, Copy)]
pub(super) struct Causes<'a> {
    pub(super) threads: &'a [Thread],
    /// Whether the replay has each thread.
    pub(super) kept: &'a [bool],
    /// How each thread sleeps.
    pub(super) rhythms: &'a [Rhythm],
    /// The stretch from which each thread computes without end. Such a thread wakes no other. So wakeups in its context
    /// came from interrupts.
    pub(super) endless: &'a [Option<usize>],
    /// Whether every wakeup keeps its recorded time.
    pub(super) keep_times: bool,
    /// The recorded machine's ticks, if known.
    pub(super) ticks: Option<Ticks>,
    /// The result of [`by_packets`].
    pub(super) by_packets: &'a BTreeSet<(usize, usize)>,
    /// The result of [`asked`].
    pub(super) asked: &'a BTreeSet<(usize, usize)>,
    /// The stretches of each thread that follow [pauses](super::pauses), in order.
    pub(super) pauses: &'a [Vec<usize>],
    /// The result of [`Causes::table`], or empty before it is made.
    pub(super) table: &'a [Vec<Cause>],
}

impl Causes<'_> {
    /// Returns the cause that ended the sleep before a stretch.
    pub(super) fn of(&self, thread: usize, stretch: usize) -> Cause {
        self.table.get(thread).map_or_else(|| self.find(thread, stretch), |causes| causes[stretch])
    }

    /// Returns the causes of all stretches of all threads.
    pub(super) fn table(&self) -> Vec<Vec<Cause>> {
        let causes = |(thread, life): (usize, &Thread)| {
            (0..life.stretches.len()).map(|stretch| self.find(thread, stretch)).collect()
        };
        self.threads.iter().enumerate().map(causes).collect()
    }

    fn find(&self, thread: usize, stretch: usize) -> Cause {
        let this = &self.threads[thread];
        let before = stretch.checked_sub(1).map(|before| &this.stretches[before]);
        if before.is_none() && !this.asleep_first {
            return Cause::Start;
        }
        if !self.keep_times && self.pauses[thread].binary_search(&stretch).is_ok() {
            return Cause::Device;
        }
        let awaits_device = before.is_some_and(|before| before.end == End::Device);
        match this.stretches[stretch].waker {
            Waker::Thread(by)
                if self.is_by(thread, &this.stretches[stretch], by)
                    && !(awaits_device && self.is_bystander(thread, &this.stretches[stretch], by)) =>
            {
                Cause::Thread(by)
            }
            _ if awaits_device => Cause::Device,
            _ if self.keep_times => Cause::Interrupt,
            // High-resolution timers wake in the handler of their interrupt, those of the wheel in a softirq; packets
            // come in softirqs, too.
            _ if this.stretches[stretch].context == Some(Context::Hardirq) => Cause::Timer,
            _ if self.by_wheel(thread, &this.stretches[stretch]) => Cause::Timer,
            _ => Cause::Interrupt,
        }
    }

    fn is_by(&self, thread: usize, stretch: &Stretch, by: usize) -> bool {
        self.kept[thread]
            && self.kept[by]
            && !self.keep_times
            && self.endless[by].is_none()
            && match stretch.surely {
                // In a softirq, the waker's packet or the timer wheel can be the cause.
                Some(surely) => surely && !self.by_wheel(thread, stretch),
                None => self.rhythms[thread] == Rhythm::Woken,
            }
    }

    /// Whether the waker of a sleep without signals did not act on the sleeper's behalf. A softirq in its context
    /// completed the request: such sleeps do not wait for packets. Or it released a lock that it had taken for itself:
    /// `kdamond` looks at the pages of a process while that one starts a program. As a cause, such a waker would hold
    /// the sleeper up until its own recorded time.
    fn is_bystander(&self, thread: usize, stretch: &Stretch, by: usize) -> bool {
        stretch.context == Some(Context::Softirq) || !self.asked.contains(&(thread, by))
    }

    /// Whether the timer wheel woke the thread.
    fn by_wheel(&self, thread: usize, stretch: &Stretch) -> bool {
        let packets = matches!(stretch.waker, Waker::Thread(by) if self.by_packets.contains(&(by, thread)));
        !packets && self.ticks.is_some_and(|ticks| is_after_tick(stretch, ticks))
    }

    /// As [`yielded`].
    pub(super) fn yielded(&self, at: u64, ran: u64) -> bool {
        yielded(self.ticks, at, ran)
    }

    /// Whether a thread can only be a pool's [attendant](super::pools): timers cause most of its work, and it sleeps
    /// longer for them than it works. A thread that naps only while it looks for work does not.
    pub(super) fn is_attendant(&self, thread: usize) -> bool {
        let stretches = &self.threads[thread].stretches;
        let (mut timed, mut all, mut slept) = (0, 0, 0);
        // At its end, it may free the process's memory.
        for (index, stretch) in stretches.iter().enumerate().filter(|(_, stretch)| stretch.end != End::Exit) {
            all += stretch.work;
            if self.of(thread, index) == Cause::Timer {
                timed += stretch.work;
                let began = index.checked_sub(1).map_or(0, |before| stretches[before].ended);
                slept += stretch.woken.saturating_sub(began);
            }
        }
        timed > all / 2 && slept > all
    }

    /// Counts a thread's naps: sleeps of at most `time` that its timers ended.
    pub(super) fn naps(&self, thread: usize, time: u64) -> u64 {
        let stretches = &self.threads[thread].stretches;
        let slept = |stretch: usize| stretches[stretch].woken.saturating_sub(stretches[stretch - 1].ended);
        let naps = |&stretch: &usize| self.of(thread, stretch) == Cause::Timer && slept(stretch) <= time;
        (1..stretches.len()).filter(naps).count() as u64
    }

    /// Counts each thread's wakeups by each other.
    pub(super) fn woken_by(&self) -> Vec<BTreeMap<usize, u64>> {
        let mut woken_by = vec![BTreeMap::new(); self.threads.len()];
        for (thread, life) in self.threads.iter().enumerate() {
            for stretch in 0..life.stretches.len() {
                if let Cause::Thread(by) = self.of(thread, stretch) {
                    *woken_by[thread].entry(by).or_default() += 1;
                }
            }
        }
        woken_by
    }

    /// As [`time`].
    pub(super) fn time(&self, act: Act) -> u64 {
        time(self.threads, act)
    }
}

/// Returns the time of an act.
pub(super) fn time(threads: &[Thread], act: Act) -> u64 {
    match act {
        Act::Wake { thread, stretch } => threads[thread].stretches[stretch].woken,
        Act::Fork(child) => threads[child].born.map_or(0, |(at, _)| at),
        Act::Executes { at }
        | Act::Left { at, .. }
        | Act::Awaits { at, .. }
        | Act::HandsBack { at, .. }
        | Act::Leads { at, .. }
        | Act::Follows { at, .. }
        | Act::Sends { at, .. }
        | Act::Receives { at }
        | Act::SendsMessage { at, .. }
        | Act::TakesMessage { at, .. }
        | Act::PutsOff { at }
        | Act::IsLate { at }
        | Act::Kills { at }
        | Act::IsKilled { at } => at,
    }
}

/// Returns pairs of waker and woken thread in which the waker's packets cause the wakeups in softirqs. Most are not
/// right after ticks, as the timer wheel's are.
pub(super) fn by_packets(threads: &[Thread], ticks: Option<Ticks>) -> BTreeSet<(usize, usize)> {
    let Some(ticks) = ticks else { return BTreeSet::new() };
    let mut counts = BTreeMap::<(usize, usize), (u64, u64)>::new();
    for (woken, thread) in threads.iter().enumerate() {
        for stretch in thread.stretches.iter().filter(|stretch| stretch.context == Some(Context::Softirq)) {
            if let Waker::Thread(by) = stretch.waker {
                let (all, after_ticks) = counts.entry((by, woken)).or_default();
                *all += 1;
                *after_ticks += u64::from(is_after_tick(stretch, ticks));
            }
        }
    }
    counts.retain(|_, (all, after_ticks)| *after_ticks * 2 < *all);
    counts.into_keys().collect()
}

/// Returns pairs of threads whose first has woken or forked the second: it may wait for that one's help.
pub(super) fn asked(threads: &[Thread]) -> BTreeSet<(usize, usize)> {
    let mut asked = BTreeSet::new();
    for (thread, life) in threads.iter().enumerate() {
        let wakers = life.stretches.iter().filter_map(|stretch| match stretch.waker {
            Waker::Thread(by) => Some(by),
            Waker::Start | Waker::Interrupt => None,
        });
        let parent = life.born.and_then(|(_, parent)| parent);
        asked.extend(wakers.chain(parent).map(|by| (by, thread)));
    }
    asked
}

/// Whether a wakeup is in a softirq right after a tick, as those of the timer wheel are.
fn is_after_tick(stretch: &Stretch, ticks: Ticks) -> bool {
    stretch.context == Some(Context::Softirq) && ticks.since(stretch.woken) <= TICK_NS
}

/// Whether a thread that left its CPU at `at` while runnable, after it had run for `ran`, yielded. It did unless a tick
/// that fell into its run was near. If ticks are unknown, it did if it ran for less than a slice.
pub(super) fn yielded(ticks: Option<Ticks>, at: u64, ran: u64) -> bool {
    match ticks {
        Some(ticks) => {
            let (since, until) = (ticks.since(at), ticks.until(at));
            since > TICK_NS.min(ran) && (until > EARLY_NS || ran <= EARLY_NS)
        }
        None => ran < SLICE_NS,
    }
}
