//! Timeslices and the sleep average, which makes a task interactive.
//!
//! The average rises in sleep and falls in running, between 0 and a second. It gives a priority bonus of -5 to +5.
//! Results are rounded to ticks, the kernel's jiffies.
//!
//! 2.6.17+ (here 2.6.22): the average rises by the time slept, not by up to ten times as much. A long sleep makes a
//! task interactive, but only at the lowest interactive level; its waits then do not count as sleep. For interactivity,
//! negative nice values are rounded down, not towards 0.

use super::prio_array::{MAX_PRIO, MAX_RT_PRIO};

/// Bonuses of the sleep average.
const MAX_BONUS: i64 = 10;
/// A nice-0 task is interactive from a bonus of 2 on.
const INTERACTIVE_DELTA: i64 = 2;
const MAX_USER_PRIO: i64 = 40;
/// A child's part of its parent's bonus, percent.
const CHILD_PENALTY: i64 = 95;
/// Weight of a parent's average relative to an ended child's.
const EXIT_WEIGHT: u64 = 3;
/// Part of a wait after a task's wakeup that counts as sleep, of 128.
const ON_RUNQUEUE_WEIGHT: u64 = 38;

/// The kind of a task's wakeup, until it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Activated {
    /// Its waits are no sleep: its sleep earned nothing.
    #[default]
    Not,
    /// From an uninterruptible sleep (likely for a disk), or a too long one.
    NonInteractive,
    /// By another task.
    ByTask,
    /// By an interrupt, like user input.
    ByInterrupt,
}

/// The arithmetic of a tick length and a version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interactivity {
    pub(super) tick_ns: u64,
    /// The rules of 2.6.17 and later.
    pub(super) since_2_6_17: bool,
    /// Slice of a nice-0 task, ticks: 100 ms.
    def_timeslice: u64,
    /// Shortest slice, ticks: 5 ms.
    min_timeslice: u64,
    /// Highest sleep average, ticks: a second.
    max_sleep_avg: u64,
    /// Turn of interactive tasks of the highest bonus, ticks: 10 ms.
    granularity: u64,
}

impl Interactivity {
    pub(super) fn new(tick_ns: u64, since_2_6_17: bool) -> Self {
        let tick_ns = tick_ns.max(1);
        let ticks = |ms: u64| (ms * (1_000_000_000 / tick_ns) / 1000).max(1);
        let def_timeslice = ticks(100);
        Self {
            tick_ns,
            since_2_6_17,
            def_timeslice,
            min_timeslice: ticks(5),
            max_sleep_avg: def_timeslice * MAX_BONUS as u64,
            granularity: ticks(10),
        }
    }

    pub(super) fn ns_max_sleep_avg(self) -> u64 {
        self.max_sleep_avg * self.tick_ns
    }

    /// Ticks per queued task after which the expired array starves.
    pub(super) fn starvation_limit(self) -> u64 {
        self.max_sleep_avg
    }

    /// Slice in whole ticks: 5 ms at nice 19, 100 ms at nice 0, 800 ms at nice -20.
    pub(super) fn timeslice(self, static_prio: u8) -> u32 {
        let whole = if static_prio < 120 { 4 * self.def_timeslice } else { self.def_timeslice };
        let scaled = whole * u64::from(MAX_PRIO - static_prio) / (MAX_USER_PRIO as u64 / 2);
        scaled.max(self.min_timeslice) as u32
    }

    /// 2.6.22: the balancer's weight, proportional to the slice: 1024 at nice 0.
    pub(super) fn weight(self, static_prio: u8) -> u64 {
        u64::from(self.timeslice(static_prio)) * 1024 / self.def_timeslice
    }

    /// Bonus of a sleep average, 0 to 10.
    pub(super) fn current_bonus(self, sleep_avg: u64) -> i64 {
        (sleep_avg / self.tick_ns * MAX_BONUS as u64 / self.max_sleep_avg) as i64
    }

    /// From 5 levels below to 5 above the static priority.
    pub(super) fn effective_prio(self, static_prio: u8, sleep_avg: u64) -> u8 {
        let prio = i64::from(static_prio) - (self.current_bonus(sleep_avg) - MAX_BONUS / 2);
        prio.clamp(i64::from(MAX_RT_PRIO), i64::from(MAX_PRIO) - 1) as u8
    }

    /// Levels above its static priority at which a task is interactive: -3 at nice -20, 2 at nice 0, 6 at nice 19. No
    /// task reaches 6.
    fn delta(self, static_prio: u8) -> i64 {
        let nice = i64::from(static_prio) - 120;
        let quarter =
            if self.since_2_6_17 { (nice * MAX_BONUS).div_euclid(MAX_USER_PRIO) } else { nice * MAX_BONUS / 40 };
        quarter + INTERACTIVE_DELTA
    }

    pub(super) fn is_interactive(self, static_prio: u8, prio: u8) -> bool {
        i64::from(prio) <= i64::from(static_prio) - self.delta(static_prio)
    }

    /// Returns the sleep that makes a task interactive, nanoseconds.
    fn interactive_sleep(self, static_prio: u8) -> u64 {
        let max = self.max_sleep_avg as i64;
        let ticks = max * (MAX_BONUS / 2 + self.delta(static_prio) + 1) / MAX_BONUS - 1;
        ticks.max(0) as u64 * self.tick_ns
    }

    /// Turn of an interactive task, ticks: 10 ms at the highest bonus, doubled for each lower one, times CPUs.
    pub(super) fn granularity(self, sleep_avg: u64, cpus: u64) -> u64 {
        let missing = (MAX_BONUS - self.current_bonus(sleep_avg)).max(1) - 1;
        (self.granularity << missing) * cpus
    }

    /// Returns the average after a run, which costs less at a higher bonus.
    pub(super) fn ran(self, sleep_avg: u64, ns: u64) -> u64 {
        let ns = ns.min(self.ns_max_sleep_avg());
        sleep_avg.saturating_sub(ns / self.current_bonus(sleep_avg).max(1) as u64)
    }

    /// Returns the average and kind of wakeup after a sleep of `ns` (0 for a batch task).
    pub(super) fn slept(self, static_prio: u8, sleep_avg: u64, activated: Activated, ns: u64) -> (u64, Activated) {
        let max = self.ns_max_sleep_avg();
        let mut ns = ns.min(max);
        if ns == 0 {
            return (sleep_avg, activated);
        }
        let ceiling = self.interactive_sleep(static_prio);
        let waited_for_disk = activated == Activated::NonInteractive;
        if self.since_2_6_17 {
            if ns > ceiling && sleep_avg < ceiling {
                return (ceiling.min(max), Activated::NonInteractive);
            }
        } else {
            if ns > ceiling && !waited_for_disk {
                // One slice below the top.
                return ((self.max_sleep_avg - self.def_timeslice) * self.tick_ns, activated);
            }
            ns *= (MAX_BONUS - self.current_bonus(sleep_avg)).max(1) as u64;
        }
        if waited_for_disk {
            // Such a sleep makes a task just interactive at most.
            let risen = if sleep_avg >= ceiling { sleep_avg } else { (sleep_avg + ns).min(ceiling) };
            return (risen.min(max), activated);
        }
        ((sleep_avg + ns).min(max), activated)
    }

    /// Returns the part of a wait of `ns` on the run queue that counts as sleep.
    pub(super) const fn waited(activated: Activated, ns: u64) -> Option<u64> {
        match activated {
            Activated::Not | Activated::NonInteractive => None,
            Activated::ByTask => Some(ns.saturating_mul(ON_RUNQUEUE_WEIGHT) / 128),
            Activated::ByInterrupt => Some(ns),
        }
    }

    /// Returns a parent's average after a fork: rounded down to its bonus.
    pub(super) fn forked_parent(self, sleep_avg: u64) -> u64 {
        self.of_bonus(self.current_bonus(sleep_avg))
    }

    /// Below the parent's average, so that interactive tasks do not multiply.
    pub(super) fn forked_child(self, sleep_avg: u64) -> u64 {
        self.of_bonus(self.current_bonus(sleep_avg) * CHILD_PENALTY / 100)
    }

    fn of_bonus(self, bonus: i64) -> u64 {
        bonus as u64 * self.max_sleep_avg / MAX_BONUS as u64 * self.tick_ns
    }

    /// Returns a parent's average after the exit of a child, which may lower it.
    pub(super) fn reaped(parent: u64, child: u64) -> u64 {
        if child >= parent { parent } else { parent / (EXIT_WEIGHT + 1) * EXIT_WEIGHT + child / (EXIT_WEIGHT + 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(hz: u64, since_2_6_17: bool) -> Interactivity {
        Interactivity::new(1_000_000_000 / hz, since_2_6_17)
    }

    #[test]
    fn timeslices_are_the_published_ones() {
        let times = at(1000, false);
        let ms = |nice: i8| times.timeslice((120 + i16::from(nice)) as u8);
        assert_eq!([-20, -10, -1, 0, 5, 10, 15, 19].map(ms), [800, 600, 420, 100, 75, 50, 25, 5]);
        // Whole ticks of 4 ms, at least one.
        let ticks = |nice: i8| at(250, false).timeslice((120 + i16::from(nice)) as u8);
        assert_eq!([-20, 0, 10, 19].map(ticks), [200, 25, 12, 1]);
        assert_eq!(at(100, false).timeslice(139), 1);
    }

    #[test]
    fn the_bonus_is_from_minus_5_to_5() {
        let times = at(1000, false);
        assert_eq!(times.ns_max_sleep_avg(), 1000 * MS);
        assert_eq!([0, 99, 100, 500, 999, 1000].map(|ms| times.current_bonus(ms * MS)), [0, 0, 1, 5, 9, 10]);
        assert_eq!([0, 500, 1000].map(|ms| times.effective_prio(120, ms * MS)), [125, 120, 115]);
        assert_eq!(times.effective_prio(100, 1000 * MS), 100, "never a real-time priority");
        assert_eq!(times.effective_prio(139, 0), 139);
    }

    /// `kernel/sched.c` has this table.
    #[test]
    fn a_task_is_interactive_by_its_nice_value_and_bonus() {
        for since_2_6_17 in [false, true] {
            let times = at(1000, since_2_6_17);
            let least = |nice: i16| {
                let prio = (120 + nice) as u8;
                (0..=10_u64).find(|bonus| times.is_interactive(prio, times.effective_prio(prio, bonus * 100 * MS)))
            };
            assert_eq!(least(0), Some(7), "a bonus of +2");
            assert_eq!(least(10), Some(9), "a bonus of +4");
            assert_eq!(least(19), None, "never");
            assert_eq!(least(-10), Some(if since_2_6_17 { 4 } else { 5 }));
        }
        // At nice -20 from -3 on, as the levels above are cut off.
        let times = at(1000, false);
        assert!(times.is_interactive(100, times.effective_prio(100, 200 * MS)));
        assert!(!times.is_interactive(100, times.effective_prio(100, 100 * MS)));
    }

    #[test]
    fn interactive_tasks_take_turns_within_a_slice() {
        let times = at(1000, false);
        assert_eq!([1000, 900, 800, 700].map(|ms| times.granularity(ms * MS, 1)), [10, 10, 20, 40]);
        assert_eq!(times.granularity(1000 * MS, 4), 40);
    }

    #[test]
    fn sleep_makes_interactive_and_running_undoes_it() {
        let old = at(1000, false);
        // The lower the average, the more a sleep adds.
        assert_eq!(old.slept(120, 0, Activated::Not, 10 * MS).0, 100 * MS);
        assert_eq!(old.slept(120, 900 * MS, Activated::Not, 10 * MS).0, 910 * MS);
        // One long sleep: a slice below the top.
        assert_eq!(old.slept(120, 0, Activated::Not, 2000 * MS).0, 900 * MS);
        let new = at(1000, true);
        assert_eq!(new.slept(120, 0, Activated::Not, 10 * MS), (10 * MS, Activated::Not));
        assert_eq!(new.slept(120, 0, Activated::Not, 2000 * MS), (799 * MS, Activated::NonInteractive));
        assert_eq!(new.slept(120, 995 * MS, Activated::Not, 10 * MS).0, 1000 * MS);
        // Disk waits make a task just interactive at most.
        for times in [old, new] {
            assert_eq!(times.slept(120, 795 * MS, Activated::NonInteractive, 10 * MS).0, 799 * MS);
            assert_eq!(times.slept(120, 850 * MS, Activated::NonInteractive, 10 * MS).0, 850 * MS);
        }
        // Running costs less at a higher bonus.
        assert_eq!(old.ran(1000 * MS, 100 * MS), 990 * MS);
        assert_eq!(old.ran(500 * MS, 100 * MS), 480 * MS);
        assert_eq!(old.ran(50 * MS, 100 * MS), 0);
    }

    #[test]
    fn waiting_after_a_wakeup_is_partly_sleep() {
        assert_eq!(Interactivity::waited(Activated::ByInterrupt, 128 * MS), Some(128 * MS));
        assert_eq!(Interactivity::waited(Activated::ByTask, 128 * MS), Some(38 * MS));
        assert_eq!(Interactivity::waited(Activated::NonInteractive, 128 * MS), None);
    }

    #[test]
    fn families_share_their_average() {
        let times = at(1000, false);
        assert_eq!(times.forked_parent(999 * MS), 900 * MS);
        assert_eq!(times.forked_child(1000 * MS), 900 * MS);
        assert_eq!(times.forked_child(100 * MS), 0);
        assert_eq!(Interactivity::reaped(800 * MS, 0), 600 * MS);
        assert_eq!(Interactivity::reaped(100 * MS, 500 * MS), 100 * MS);
    }

    #[test]
    fn weights_follow_the_slices() {
        assert_eq!([100, 120, 130, 139].map(|prio| at(1000, true).weight(prio)), [8192, 1024, 512, 51]);
    }
}
