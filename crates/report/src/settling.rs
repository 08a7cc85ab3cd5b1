//! Finds shares that still change when the run ends.
//!
//! Before balancing, shares do not follow weights, and a mean over the run includes this start. Tasks of one class and
//! group are a *party*. Parties that want a CPU for [`ALWAYS`] of the run divide their total. Each share over the whole
//! run is compared with that in the last quarter.
//!
//! A share has settled if both differ by at most one of three bounds. These are [`RELATIVE`] of the smaller one,
//! [`ABSOLUTE`], and [`GRAIN_NS`] for each task of the party, which allows for slices.
//!
//! Accounts are sampled 32 to 64 times. Runs with changes of weights, policies, groups, limits or CPUs, or with more
//! than [`PARTIES`], are not examined.

use std::collections::BTreeMap;

use crate::accounts::{Class, Group, State, Task};

/// The most samples. Beyond that, every second one is dropped.
const SAMPLES: usize = 64;
/// Shortest initial interval between samples, in total and per task, nanoseconds.
const WIDTH: u64 = 10_000_000;
const WIDTH_PER_TASK: u64 = 10_000;
const PARTIES: usize = 1024;

/// The part of its life in which a party wants a CPU.
const ALWAYS: f64 = 0.98;
/// Tolerated differences: relative, of the total, and nanoseconds per task.
const RELATIVE: f64 = 0.1;
const ABSOLUTE: f64 = 0.005;
const GRAIN_NS: f64 = 10_000_000.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moves {
    pub(crate) class: u32,
    pub(crate) group: u32,
    /// Share in the CPU time of all such tasks: in the run, and in its last quarter.
    pub(crate) whole: f64,
    pub(crate) last: f64,
}

/// A party's total up to an instant, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Had {
    cpu: u64,
    /// Running or waiting.
    wanted: u64,
    tasks: u64,
}

#[derive(Clone, Debug)]
struct Sample {
    at: u64,
    parties: Vec<Had>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Settling {
    numbers: BTreeMap<(u32, u32), usize>,
    samples: Vec<Sample>,
    width: u64,
    next: u64,
    /// Whether shares changed for a known reason.
    disturbed: bool,
}

impl Moves {
    /// Returns the class, with its group if not the root.
    pub(crate) fn name(&self, classes: &[Class], groups: &[Group]) -> String {
        let class = classes.get(self.class as usize).map_or("?", |class| class.name.as_str());
        match groups.get(self.group as usize).filter(|_| self.group > 0) {
            Some(group) => format!("{class} in {}", group.path),
            None => class.to_owned(),
        }
    }
}

impl Settling {
    #[inline]
    pub(crate) fn due(&self, at: u64) -> bool {
        at >= self.next
    }

    /// Stops the examination, since weights, policies, groups, limits or CPUs change.
    pub(crate) fn disturb(&mut self) {
        (self.disturbed, self.next) = (true, u64::MAX);
        self.samples.clear();
    }

    /// Takes a sample.
    pub(crate) fn look(&mut self, at: u64, tasks: &[Task]) {
        if self.disturbed {
            return;
        }
        let Some(sample) = self.sample(at, tasks) else { return self.disturb() };
        self.width = self.width.max(WIDTH).max(WIDTH_PER_TASK * tasks.len() as u64);
        self.samples.push(sample);
        if self.samples.len() >= SAMPLES {
            let mut index = 0_usize;
            self.samples.retain(|_| {
                index += 1;
                index.is_multiple_of(2)
            });
            self.width *= 2;
        }
        self.next = (at / self.width + 1).saturating_mul(self.width);
    }

    fn sample(&mut self, at: u64, tasks: &[Task]) -> Option<Sample> {
        let mut parties = vec![Had::default(); self.numbers.len()];
        for task in tasks {
            let fresh = self.numbers.len();
            let number = *self.numbers.entry((task.class, task.group)).or_insert(fresh);
            if number == parties.len() {
                parties.push(Had::default());
            }
            let passed = at.saturating_sub(task.since);
            let (runs, waits) = match task.state {
                State::Running => (passed, 0),
                State::Woken | State::Waiting => (0, passed),
                State::Unborn | State::Sleeping | State::Dead => (0, 0),
            };
            let had = &mut parties[number];
            had.cpu += task.account.cpu_ns + runs;
            had.wanted += task.account.cpu_ns + task.account.run_delay_ns + runs + waits;
            had.tasks += 1;
        }
        (self.numbers.len() <= PARTIES).then_some(Sample { at, parties })
    }

    /// Returns the unsettled shares, by decreasing change.
    pub(crate) fn finish(mut self, at: u64, tasks: &[Task]) -> Vec<Moves> {
        let Some(end) = (!self.disturbed).then(|| self.sample(at, tasks)).flatten() else { return Vec::new() };
        let three_quarters = at - at / 4;
        let Some(before) = self.samples.iter().rev().find(|sample| sample.at <= three_quarters) else {
            return Vec::new();
        };
        let length = at.saturating_sub(before.at);
        let had_before = |party: usize| before.parties.get(party).copied().unwrap_or_default();
        let always = |party: &usize| {
            let had = end.parties[*party];
            let part = |wanted: u64, of: u64| wanted as f64 >= ALWAYS * of as f64 * had.tasks as f64;
            had.tasks > 0 && part(had.wanted, at) && part(had.wanted.saturating_sub(had_before(*party).wanted), length)
        };
        let parties: Vec<usize> = (0..end.parties.len()).filter(always).collect();
        let of_end = |party: usize| end.parties[party].cpu;
        let of_last = |party: usize| of_end(party).saturating_sub(had_before(party).cpu);
        let all: u64 = parties.iter().map(|&party| of_end(party)).sum();
        let late: u64 = parties.iter().map(|&party| of_last(party)).sum();
        if all == 0 || late == 0 {
            return Vec::new();
        }
        let mut moving: Vec<Moves> = self
            .numbers
            .iter()
            .filter(|&(_, number)| parties.contains(number))
            .filter_map(|(&(class, group), &number)| {
                let (whole, last) = (of_end(number) as f64 / all as f64, of_last(number) as f64 / late as f64);
                let off = (whole - last).abs();
                let chance = GRAIN_NS * end.parties[number].tasks as f64 / late as f64;
                let bound = (RELATIVE * whole.min(last)).max(ABSOLUTE).max(chance);
                (off > bound).then_some(Moves { class, group, whole, last })
            })
            .collect();
        moving.sort_by(|a, b| (b.whole - b.last).abs().total_cmp(&(a.whole - a.last).abs()));
        moving
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Two tasks that always want a CPU for `length` ms. Each has half of it up to `until` ms, then the first has nine
    /// tenths.
    fn moves(length: u64, until: u64, sleeps: u64) -> Vec<Moves> {
        let mut settling = Settling::default();
        let mut tasks: Vec<Task> =
            (0..2).map(|class| Task { class, state: State::Waiting, ..Task::default() }).collect();
        for at in 1..=length {
            for (index, task) in tasks.iter_mut().enumerate() {
                let part = if at <= until { 5 } else { [9, 1][index] };
                task.account.cpu_ns += MS / 10 * part;
                task.account.run_delay_ns += MS / 10 * (10 - part);
                task.since = at * MS;
            }
            tasks[1].account.run_delay_ns -= if at <= sleeps { tasks[1].account.run_delay_ns.min(MS / 2) } else { 0 };
            if settling.due(at * MS) {
                settling.look(at * MS, &tasks);
            }
        }
        settling.finish(length * MS, &tasks)
    }

    #[test]
    fn a_share_that_is_another_in_the_last_quarter_has_not_settled() {
        let found = moves(5000, 2000, 0);
        assert_eq!((found[0].class, found[1].class, found.len()), (0, 1, 2));
        assert!((found[0].whole - 0.74).abs() < 0.01 && (found[0].last - 0.9).abs() < 0.01, "{found:?}");
        assert!(moves(5000, 0, 0).is_empty(), "they were 9 to 1 all along");
        assert!(moves(5000, 5000, 0).is_empty(), "they were 1 to 1 all along");
        // 11.6 % and 10 % of the second differ by more than a tenth. 88.4 % and 90 % of the first do not.
        assert_eq!(moves(50_000, 2000, 0).len(), 1);
        assert!(moves(100_000, 2000, 0).is_empty(), "10.8 % and 10 %");
        assert!(moves(5000, 2000, 1000).is_empty(), "the second does not always want the CPU: no two do");
        assert!(moves(40, 20, 0).is_empty(), "10 ms are within what slices leave to chance");
    }

    #[test]
    fn after_a_change_there_is_no_sentence() {
        let mut settling = Settling::default();
        settling.disturb();
        assert!(!settling.due(u64::MAX - 1));
        assert!(settling.finish(5, &[Task::default()]).is_empty());
    }

    #[test]
    fn a_long_run_costs_no_more_samples() {
        let mut settling = Settling::default();
        let looks = (0..1_000_000_u64).filter(|at| {
            let due = settling.due(at * MS);
            if due {
                settling.look(at * MS, &[Task::default()]);
            }
            due
        });
        assert!(looks.count() < 1000);
        assert!((SAMPLES / 4..SAMPLES).contains(&settling.samples.len()));
    }
}
