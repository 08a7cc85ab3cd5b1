//! Effects of groups' limits. Only simulated runs and their text traces have events for them. Recordings give the part
//! of its quota that a group used in each period, and bounds of the throttled time.
//!
//! Lower bound: a group with a runnable task on an idle CPU for 1 ms or more is throttled there. Upper bound: all time
//! in which its tasks waited on a CPU and none ran there. Both are summed over CPUs, as `throttled_usec` of `cpu.stat`.
//! Periods count from the start of the trace, since the kernel's are unknown. A used-up period of the kernel may be
//! only most of one here.

use std::collections::BTreeMap;

use super::cgroups::Update;
use super::world::{On, State, Step, World};
use super::{Analysis, Options};
use crate::data::{DataTable, Kind};
use crate::result_tables::{LIMIT, limit_cells, ratio, table};
use crate::results::LimitResult;

/// Shorter waits on an idle CPU are pending wakeups.
const LEAST_NS: u64 = 1_000_000;
/// Percent of the quota that counts as used up, since a period overlaps two of the kernel's.
const USED_UP: u128 = 95;

/// A limited group's use, by period.
#[derive(Clone, Copy, Debug)]
struct Use {
    quota: u64,
    period: u64,
    /// Start of the current period, and the end of counted time.
    from: u64,
    since: u64,
    /// Number of running and runnable tasks.
    running: u64,
    runnable: u64,
    used: u64,
    /// Whether a task of it ran or waited.
    active: bool,
    periods: u64,
    used_up: u64,
    used_in_all: u64,
    most: u64,
}

impl Use {
    fn new((quota, period): (u64, u64), at: u64) -> Self {
        Self {
            quota,
            period: period.max(1),
            from: at,
            since: at,
            running: 0,
            runnable: 0,
            used: 0,
            active: false,
            periods: 0,
            used_up: 0,
            used_in_all: 0,
            most: 0,
        }
    }

    fn spend(&mut self, to: u64) {
        let passed = to.saturating_sub(self.since);
        self.used = self.used.saturating_add(self.running.saturating_mul(passed));
        self.active |= passed > 0 && self.runnable > 0;
        self.since = to;
    }

    fn close(&mut self, count: u64) {
        if self.active {
            self.periods += count;
            let all = u128::from(self.used) * 100 >= u128::from(self.quota) * USED_UP;
            self.used_up += if all { count } else { 0 };
            self.used_in_all = self.used_in_all.saturating_add(self.used.saturating_mul(count));
            self.most = self.most.max(self.used);
        }
        (self.used, self.active) = (0, false);
        self.from += count * self.period;
    }

    fn advance(&mut self, at: u64) {
        if at >= self.from + self.period {
            self.spend(self.from + self.period);
            self.close(1);
            let whole = at.saturating_sub(self.from) / self.period;
            if whole > 0 {
                // Nothing changed in these periods.
                self.spend(self.from + self.period);
                self.close(whole);
                self.since = self.from;
            }
        }
        self.spend(at);
    }
}

/// A limited group on one CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    running: u32,
    waiting: u32,
    /// Start of the wait beside an idle CPU, and of the wait without a running task of the group.
    beside_idle: Option<u64>,
    stopped: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    group: u32,
    state: State,
    cpu: u32,
}

#[derive(Debug, Default)]
pub(super) struct Throttling {
    /// By group.
    counters: Vec<Option<LimitResult>>,
    /// For recordings: use by limited groups, and bounds of throttled time.
    uses: BTreeMap<u32, Use>,
    bounds: BTreeMap<u32, (u64, u64)>,
    /// By CPU and group.
    queues: BTreeMap<(u32, u32), Place>,
    tasks: Vec<Counted>,
    known: usize,
}

impl Throttling {
    pub(super) fn new(_options: &Options) -> Self {
        Self::default()
    }

    fn limit(&mut self, group: u32) -> &mut LimitResult {
        if group as usize >= self.counters.len() {
            self.counters.resize(group as usize + 1, None);
        }
        self.counters[group as usize].get_or_insert_default()
    }

    fn limited(&mut self, at: u64, group: u32, max: Option<(u64, u64)>) {
        if max.is_some() || self.counters.get(group as usize).is_some_and(Option::is_some) {
            self.limit(group).max = max;
        }
        match (self.uses.get_mut(&group), max) {
            (Some(it), Some((quota, period))) => {
                it.advance(at);
                if it.period != period.max(1) {
                    // The unfinished period does not count.
                    (it.period, it.from, it.used, it.active) = (period.max(1), at, 0, false);
                }
                it.quota = quota;
            }
            (Some(it), None) => {
                it.advance(at);
                it.quota = u64::MAX;
            }
            (None, Some(max)) => {
                self.uses.insert(group, Use::new(max, at));
            }
            (None, None) => {}
        }
    }

    fn know(&mut self, world: &World) {
        let rows = world.cgroups.rows();
        let at = world.elapsed();
        for (group, row) in rows.iter().enumerate().skip(std::mem::replace(&mut self.known, rows.len())) {
            if let Some(max) = row.settings.and_then(|settings| settings.max) {
                self.limited(at, group as u32, Some(max));
            }
        }
    }

    fn put(&mut self, at: u64, task: u32, now: Counted, world: &World) {
        if task as usize >= self.tasks.len() {
            self.tasks.resize(task as usize + 1, Counted::default());
        }
        let was = std::mem::replace(&mut self.tasks[task as usize], now);
        if was == now || self.uses.is_empty() {
            return;
        }
        for (it, is_added) in [(was, false), (now, true)] {
            let runs = match it.state {
                State::Running => true,
                State::Waiting => false,
                State::Unknown | State::Asleep | State::Gone => continue,
            };
            let mut above = Some(it.group);
            while let Some(group) = above {
                above = world.cgroups.rows().get(group as usize).and_then(|row| row.parent);
                let Some(used) = self.uses.get_mut(&group) else { continue };
                used.advance(at);
                let place = self.queues.entry((it.cpu, group)).or_default();
                let count = if runs { &mut place.running } else { &mut place.waiting };
                // Skips tasks that were runnable before the limit.
                if is_added {
                    *count += 1;
                    (used.runnable, used.running) = (used.runnable + 1, used.running + u64::from(runs));
                } else if *count > 0 {
                    *count -= 1;
                    used.runnable = used.runnable.saturating_sub(1);
                    used.running = used.running.saturating_sub(u64::from(runs));
                }
            }
        }
        for cpu in [was.cpu, now.cpu] {
            self.update_cpu(at, cpu, world.cpus().get(cpu as usize).is_some_and(|row| row.on == On::Idle));
        }
    }

    fn update_cpu(&mut self, at: u64, cpu: u32, idle: bool) {
        for (&(_, group), place) in self.queues.range_mut((cpu, 0)..=(cpu, u32::MAX)) {
            let ended = |since: &mut Option<u64>, goes_on: bool| -> u64 {
                if goes_on {
                    since.get_or_insert(at);
                    return 0;
                }
                since.take().map_or(0, |since| at.saturating_sub(since))
            };
            let beside_idle = ended(&mut place.beside_idle, place.waiting > 0 && idle);
            let stopped = ended(&mut place.stopped, place.waiting > 0 && place.running == 0);
            if beside_idle >= LEAST_NS || stopped > 0 {
                let (least, most) = self.bounds.entry(group).or_default();
                *least += if beside_idle >= LEAST_NS { beside_idle } else { 0 };
                *most += stopped;
            }
        }
    }

    fn limits_table(&self, world: &World) -> DataTable {
        let title = "Groups with a limit, and how often and for how long it throttled them (summed over CPUs)";
        let mut table = table("throttling", title, &[&[("group", "Group", Kind::Text)], &LIMIT]);
        for (limit, row) in self.counters.iter().zip(world.cgroups.rows()).filter(|(limit, _)| limit.is_some()) {
            let cells = std::iter::once(row.path.as_str().into()).chain(limit_cells(*limit));
            table.push(cells.collect());
        }
        table
    }
}

impl Analysis for Throttling {
    fn step(&mut self, _step: &Step, world: &World) {
        if world.cgroups.exact {
            return;
        }
        self.know(world);
        let at = world.elapsed();
        if let Some((cpu, _)) = world.cpu_was {
            self.update_cpu(at, cpu, world.cpus()[cpu as usize].on == On::Idle);
        }
        for change in &world.changes {
            let now = Counted { group: world.cgroups.of(change.task), state: change.now.state, cpu: change.now.cpu };
            self.put(at, change.task, now, world);
        }
    }

    fn update(&mut self, update: Update, world: &World) {
        let at = world.elapsed();
        self.know(world);
        match update {
            Update::Moved { task, group } if !world.cgroups.exact => {
                let was = self.tasks.get(task as usize).copied().unwrap_or_default();
                self.put(at, task, Counted { group, ..was }, world);
            }
            Update::Group { group, settings } => self.limited(at, group, settings.max),
            Update::Unthrottled { group, ns } => self.limit(group).unthrottled(ns),
            Update::Period { group, periods, throttled, burst } => self.limit(group).period(periods, throttled, burst),
            Update::Moved { .. }
            | Update::Prio { .. }
            | Update::Policy { .. }
            | Update::Nice { .. }
            | Update::Throttled { .. }
            | Update::Spent { .. } => {}
        }
    }

    fn finish(&mut self, world: &World) {
        self.know(world);
        let at = world.elapsed();
        self.uses.values_mut().for_each(|it| it.advance(at));
        let cpus: Vec<u32> = self.queues.keys().map(|&(cpu, _)| cpu).collect();
        for place in self.queues.values_mut() {
            place.waiting = 0;
        }
        for cpu in cpus {
            self.update_cpu(at, cpu, false);
        }
    }

    fn tables(&self, world: &World) -> Vec<DataTable> {
        if !world.cgroups.settings_known() {
            return Vec::new();
        }
        if world.cgroups.exact {
            return vec![self.limits_table(world)];
        }
        let columns = [
            ("group", "Group", Kind::Text),
            ("quota_ns", "Quota", Kind::Nanoseconds),
            ("period_ns", "Period", Kind::Nanoseconds),
            ("limit", "Limit", Kind::Share),
            ("periods", "Periods", Kind::Count),
            ("used_up", "Used up", Kind::Count),
            ("used_up_share", "Share of periods", Kind::Share),
            ("used", "Used / quota", Kind::Share),
            ("most_used", "Most / quota", Kind::Share),
            ("throttled_least_ns", "Throttled at least", Kind::Nanoseconds),
            ("throttled_most_ns", "Throttled at most", Kind::Nanoseconds),
        ];
        let title = "Groups with a limit, and the periods in which they used at least 95 % of the quota. A recording has neither throttling \
            nor starts of periods, so periods are counted from its start";
        let mut table = DataTable::new("throttling", title, &columns);
        for (group, it) in &self.uses {
            let Some(row) = world.cgroups.rows().get(*group as usize) else { continue };
            let max = row.settings.and_then(|settings| settings.max);
            let quota = max.map(|(quota, _)| quota);
            let (least, most) = self.bounds.get(group).copied().unwrap_or_default();
            let of_quota = |used: f64| quota.filter(|&quota| quota > 0).map(|quota| used / quota as f64);
            table.push(vec![
                row.path.as_str().into(),
                quota.into(),
                max.map(|(_, period)| period).into(),
                max.and_then(|(quota, period)| ratio(quota, period)).into(),
                it.periods.into(),
                it.used_up.into(),
                ratio(it.used_up, it.periods).into(),
                ratio(it.used_in_all, it.periods).and_then(of_quota).into(),
                of_quota(it.most as f64).into(),
                least.into(),
                most.into(),
            ]);
        }
        vec![table]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_used_up_with_95_per_cent_of_the_quota() {
        let counts = |it: &Use| (it.periods, it.used_up, it.used_in_all, it.most);
        let mut it = Use::new((100, 1000), 0);
        (it.running, it.runnable) = (1, 1);
        it.advance(95);
        (it.running, it.runnable) = (0, 0);
        it.advance(1000);
        assert_eq!(counts(&it), (1, 1, 95, 95), "it ends with its last nanosecond");
        (it.running, it.runnable) = (1, 1);
        it.advance(1094);
        (it.running, it.runnable) = (0, 0);
        it.advance(5000);
        assert_eq!(counts(&it), (2, 1, 189, 95), "periods without a runnable task do not count");
        (it.running, it.runnable) = (1, 1);
        it.advance(15_500);
        assert_eq!(counts(&it), (12, 11, 10_189, 1000));
    }
}
