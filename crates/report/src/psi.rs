//! Pressure stall information of CPUs (`psi.c`, `/proc/pressure/cpu`, `cpu.pressure`): the part of time in which tasks
//! of a group waited for a CPU.
//!
//! It is exact. The kernel's accounts change at `Wakeup`, `WakeupNew`, `Migrate`, `MoveGroup` and `Switch`. A task with
//! a delayed dequeue counts as asleep.
//!
//! On a CPU, *some* is the time in which a task of the group waits, and *full* the part in which none runs. Both are
//! averaged over CPUs, weighted with each CPU's busy ticks. Every two seconds and a tick, the mean is added to total
//! and averages. As in the kernel, activity of less than a tick in such a period is lost.

use vruntime_trace::loadavg::calc_load;
use vruntime_trace::{CpuId, GroupId, PrevState, Running, TaskId};

use crate::results::{Pressure, Stall};

/// The remainder of an average of 10, 60 and 300 s after a period, of 2048 (`EXP_10s`, `EXP_60s`, `EXP_300s`).
const EXP: [u64; 3] = [1677, 1981, 2034];
const ONE: u64 = 2048;
/// Default tick: 250 Hz.
const TICK_NS: u64 = 4_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Asleep,
    Queued,
    Running,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    state: State,
    cpu: u32,
    group: u32,
}

/// A group on a CPU since the last period, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    runnable: u32,
    running: bool,
    since: u64,
    some: u64,
    full: u64,
    nonidle: u64,
    /// Run delay of tasks while another task of the group had the CPU, since the beginning.
    behind_own: u64,
}

impl Cell {
    #[inline]
    fn record(&mut self, at: u64) {
        let passed = at.saturating_sub(self.since);
        self.since = self.since.max(at);
        if self.runnable == 0 {
            return;
        }
        self.nonidle += passed;
        if self.runnable > u32::from(self.running) {
            self.some += passed;
        }
        if self.running {
            let others = u64::from(self.runnable - 1);
            self.behind_own = self.behind_own.saturating_add(passed.saturating_mul(others));
        } else {
            self.full += passed;
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Group {
    parent: Option<u32>,
    cells: Vec<Cell>,
    /// Some and full.
    totals: [Total; 2],
    last_update: u64,
    next_update: u64,
    /// The next update of the kernel's averaging worker. The worker sleeps while the group does.
    work_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    ns: u64,
    averaged_ns: u64,
    averages: [u64; 3],
}

impl Total {
    fn update(&mut self, missed: u64, passed: u64) {
        // Rounding can put the sum ahead of time. The excess counts in the next period.
        let sample = (self.ns - self.averaged_ns).min(passed);
        self.averaged_ns += sample;
        let percent = (sample * 100).checked_div(passed).unwrap_or(0);
        for (average, exp) in self.averages.iter_mut().zip(EXP) {
            if missed > 0 {
                *average = calc_load(*average, exp, 0, missed);
            }
            *average = calc_load(*average, exp, percent * ONE, 1);
        }
    }
}

impl Group {
    fn new(parent: Option<u32>, period: u64) -> Self {
        Self { parent, next_update: period, ..Self::default() }
    }

    #[inline]
    fn cell(&mut self, cpu: u32, at: u64) -> &mut Cell {
        if cpu as usize >= self.cells.len() {
            self.cells.resize(cpu as usize + 1, Cell::default());
        }
        let cell = &mut self.cells[cpu as usize];
        cell.record(at);
        cell
    }

    /// Adds CPUs' times to the totals. Returns whether there were any.
    fn collect(&mut self, at: u64, tick: u64) -> bool {
        let mut sums = [0_u128; 2];
        let mut weights = 0;
        let mut active = false;
        for cell in &mut self.cells {
            cell.record(at);
            let weight = cell.nonidle / tick;
            active |= cell.nonidle > 0;
            weights += weight;
            sums[0] += u128::from(cell.some) * u128::from(weight);
            sums[1] += u128::from(cell.full) * u128::from(weight);
            (cell.some, cell.full, cell.nonidle) = (0, 0, 0);
        }
        for (total, sum) in self.totals.iter_mut().zip(sums) {
            // Each time is at most a period and a bit, as is their mean.
            total.ns += (sum / u128::from(weights.max(1))) as u64;
        }
        active
    }

    /// Ends periods, and updates the averages.
    fn update(&mut self, at: u64, period: u64) {
        let missed = at.saturating_sub(self.next_update) / period;
        let passed = at.saturating_sub(self.last_update + missed * period);
        self.next_update += (1 + missed) * period;
        self.last_update = at;
        for total in &mut self.totals {
            total.update(missed, passed);
        }
    }

    fn work(&mut self, at: u64, tick: u64, period: u64) {
        let active = self.collect(at, tick);
        if at >= self.next_update {
            self.update(at, period);
        }
        self.work_at = active.then(|| at + (self.next_update.saturating_sub(at) / tick + 1) * tick);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Psi {
    tick: u64,
    tasks: Vec<Task>,
    groups: Vec<Group>,
    /// Time of the first due update of a worker, nanoseconds.
    work_at: u64,
}

impl Default for Psi {
    fn default() -> Self {
        Self { tick: TICK_NS, tasks: Vec::new(), groups: Vec::new(), work_at: u64::MAX }
    }
}

impl Psi {
    pub(crate) fn machine(&mut self, tick_ns: u64) {
        self.tick = tick_ns.max(1);
    }

    /// Returns the interval of updates, nanoseconds.
    fn period(&self) -> u64 {
        (2 * (1_000_000_000 / self.tick) + 1) * self.tick
    }

    pub(crate) fn group(&mut self, id: GroupId, parent: Option<GroupId>) {
        self.ensure(id.0);
        // Parents come first, which excludes cycles.
        self.groups[id.index()].parent = parent.map(|parent| parent.0).filter(|&parent| parent < id.0);
    }

    fn ensure(&mut self, group: u32) {
        let period = self.period();
        for missing in self.groups.len()..=group as usize {
            self.groups.push(Group::new((missing > 0).then_some(0), period));
        }
    }

    pub(crate) fn task(&mut self, id: TaskId, group: GroupId) {
        self.ensure(group.0);
        self.task_mut(id).group = group.0;
    }

    fn task_mut(&mut self, id: TaskId) -> &mut Task {
        if id.index() >= self.tasks.len() {
            self.tasks.resize(id.index() + 1, Task::default());
            self.ensure(0);
        }
        &mut self.tasks[id.index()]
    }

    #[inline]
    pub(crate) fn advance(&mut self, at: u64) {
        while at >= self.work_at {
            self.work();
        }
    }

    #[cold]
    fn work(&mut self) {
        let (due, tick, period) = (self.work_at, self.tick, self.period());
        self.work_at = u64::MAX;
        for group in &mut self.groups {
            if group.work_at.is_some_and(|at| at <= due) {
                group.work(due, tick, period);
            }
            self.work_at = self.work_at.min(group.work_at.unwrap_or(u64::MAX));
        }
    }

    /// Changes a group and its ancestors on a CPU.
    #[inline]
    fn change(&mut self, group: u32, cpu: u32, at: u64, mut with: impl FnMut(&mut Cell)) {
        let wakes_at = at + self.period();
        let mut next = Some(group);
        while let Some(index) = next {
            let group = &mut self.groups[index as usize];
            with(group.cell(cpu, at));
            if group.work_at.is_none() {
                group.work_at = Some(wakes_at);
                self.work_at = self.work_at.min(wakes_at);
            }
            next = group.parent;
        }
    }

    /// Sets a task's state, CPU and group.
    #[inline]
    fn set(&mut self, at: u64, id: TaskId, new: Task) {
        let old = std::mem::replace(self.task_mut(id), new);
        let leave = |cell: &mut Cell| {
            cell.runnable = cell.runnable.saturating_sub(1);
            cell.running &= old.state != State::Running;
        };
        let join = |cell: &mut Cell| {
            cell.runnable += 1;
            cell.running |= new.state == State::Running;
        };
        if (old.cpu, old.group) == (new.cpu, new.group) && old.state != State::Asleep && new.state != State::Asleep {
            self.change(new.group, new.cpu, at, |cell| {
                leave(cell);
                join(cell);
            });
            return;
        }
        if old.state != State::Asleep {
            self.change(old.group, old.cpu, at, leave);
        }
        if new.state != State::Asleep {
            self.change(new.group, new.cpu, at, join);
        }
    }

    #[inline]
    pub(crate) fn wakes(&mut self, at: u64, id: TaskId, cpu: CpuId) {
        let task = *self.task_mut(id);
        if task.state == State::Asleep {
            self.set(at, id, Task { state: State::Queued, cpu: cpu.0, ..task });
        }
    }

    #[inline]
    pub(crate) fn switch(&mut self, at: u64, cpu: CpuId, prev: Running, prev_state: PrevState, next: Running) {
        if let Running::Task(id) = prev {
            let state = match prev_state {
                PrevState::Preempted | PrevState::Yielded => State::Queued,
                PrevState::Sleeping | PrevState::Blocked | PrevState::Dead => State::Asleep,
            };
            let task = *self.task_mut(id);
            self.set(at, id, Task { state, cpu: cpu.0, ..task });
        }
        if let Running::Task(id) = next {
            let task = *self.task_mut(id);
            self.set(at, id, Task { state: State::Running, cpu: cpu.0, ..task });
        }
    }

    pub(crate) fn migrates(&mut self, at: u64, id: TaskId, cpu: CpuId) {
        let task = *self.task_mut(id);
        self.set(at, id, Task { cpu: cpu.0, ..task });
    }

    pub(crate) fn moves(&mut self, at: u64, id: TaskId, group: GroupId) {
        self.ensure(group.0);
        let task = *self.task_mut(id);
        self.set(at, id, Task { group: group.0, ..task });
    }

    pub(crate) fn ends(&mut self, at: u64, id: TaskId) {
        let task = *self.task_mut(id);
        if task.state == State::Queued {
            self.set(at, id, Task { state: State::Asleep, ..task });
        }
    }

    /// Returns each group's pressure as read at `at`.
    pub(crate) fn read(&mut self, at: u64) -> Vec<Pressure> {
        self.advance(at);
        let (tick, period) = (self.tick, self.period());
        let groups = self.groups.iter_mut().enumerate();
        groups
            .map(|(index, group)| {
                group.collect(at, tick);
                if at >= group.next_update {
                    group.update(at, period);
                }
                let [some, full] = group.totals.map(|total| Stall { averages: total.averages, total_ns: total.ns });
                // On the machine, a task runs whenever one waits, so the kernel shows 0.
                Pressure { some, full: if index == 0 { Stall::default() } else { full } }
            })
            .collect()
    }

    /// Returns each group's run delay up to the last [`Self::read`] behind its own tasks and its descendants',
    /// nanoseconds.
    pub(crate) fn behind_own(&self) -> impl Iterator<Item = u64> + '_ {
        self.groups.iter().map(|group| group.cells.iter().fold(0, |sum: u64, cell| sum.saturating_add(cell.behind_own)))
    }
}

#[cfg(test)]
mod tests;
