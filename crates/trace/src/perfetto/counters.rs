//! The values of counter tracks: run-queue lengths, and CPU use of groups.

use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};

/// `nr_running` of every CPU, from wakeups, switches and migrations.
#[derive(Debug, Default)]
pub(super) struct RunQueues {
    tasks: Vec<Option<CpuId>>,
    cpus: Vec<Length>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Length {
    now: u32,
    since: u64,
    /// The shown value; `None` before the first.
    shown: Option<u32>,
}

impl RunQueues {
    #[inline]
    pub(super) fn reserve(&mut self, cpus: usize, tasks: usize) {
        if self.cpus.len() < cpus {
            self.cpus.resize_with(cpus, Length::default);
        }
        if self.tasks.len() < tasks {
            self.tasks.resize(tasks, None);
        }
    }

    /// Follows `event`. `emit` gets every length with a duration: CPU, start, length.
    #[inline]
    pub(super) fn event(&mut self, at: u64, cpu: CpuId, event: &Event, emit: impl FnMut(CpuId, u64, u32)) {
        match *event {
            Event::Wakeup { task, target } | Event::WakeupNew { task, target } => {
                self.place(at, task, Some(target), emit);
            }
            Event::Migrate { task, to, .. } if self.tasks[task.index()].is_some() => {
                self.place(at, task, Some(to), emit);
            }
            Event::Switch { prev, prev_state, next } => {
                let mut emit = emit;
                if let Running::Task(task) = prev {
                    match prev_state {
                        PrevState::Preempted | PrevState::Yielded => {}
                        PrevState::Sleeping | PrevState::Blocked | PrevState::Dead => {
                            self.place(at, task, None, &mut emit);
                        }
                    }
                }
                if let Running::Task(task) = next {
                    self.place(at, task, Some(cpu), emit);
                }
            }
            _ => {}
        }
    }

    fn place(&mut self, at: u64, task: TaskId, rq: Option<CpuId>, mut emit: impl FnMut(CpuId, u64, u32)) {
        let was = std::mem::replace(&mut self.tasks[task.index()], rq);
        if was == rq {
            return;
        }
        if let Some(was) = was {
            self.change(at, was, |now| now.saturating_sub(1), &mut emit);
        }
        if let Some(rq) = rq {
            self.change(at, rq, |now| now.saturating_add(1), &mut emit);
        }
    }

    fn change(&mut self, at: u64, cpu: CpuId, by: impl FnOnce(u32) -> u32, emit: &mut impl FnMut(CpuId, u64, u32)) {
        let length = &mut self.cpus[cpu.index()];
        // Values without a duration are not shown: a switch between tasks is no dip.
        if at > length.since {
            length.show(cpu, emit);
            length.since = at;
        }
        length.now = by(length.now);
    }

    /// Emits the lengths that are not shown yet.
    pub(super) fn finish(&mut self, mut emit: impl FnMut(CpuId, u64, u32)) {
        for (cpu, length) in self.cpus.iter_mut().enumerate() {
            if length.shown.is_some() || length.now > 0 {
                length.show(CpuId(cpu as u32), &mut emit);
            }
        }
    }
}

impl Length {
    fn show(&mut self, cpu: CpuId, emit: &mut impl FnMut(CpuId, u64, u32)) {
        if self.shown != Some(self.now) {
            self.shown = Some(self.now);
            emit(cpu, self.since, self.now);
        }
    }
}

/// Windows over which the CPU use of groups is averaged, nanoseconds.
pub(super) const WINDOW_NS: u64 = 10_000_000;

/// CPU use of every group with its descendants, in CPUs, by window.
#[derive(Debug, Default)]
pub(super) struct GroupUse {
    window: u64,
    groups: Vec<Group>,
    tasks: Vec<GroupId>,
    /// The task of each CPU, and since when it is not charged.
    cpus: Vec<(Option<TaskId>, u64)>,
    totals: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    parent: Option<GroupId>,
    /// CPU time of its own tasks in this window.
    busy: u64,
    /// The shown value, nanoseconds per second; `None` before the first.
    shown: Option<u64>,
}

impl GroupUse {
    /// Adds ids below these counts, with tasks in the root group.
    #[inline]
    pub(super) fn reserve(&mut self, cpus: usize, tasks: usize) {
        self.reserve_group(GroupId::ROOT);
        if self.cpus.len() < cpus {
            self.cpus.resize(cpus, (None, 0));
        }
        if self.tasks.len() < tasks {
            self.tasks.resize(tasks, GroupId::ROOT);
        }
    }

    fn reserve_group(&mut self, group: GroupId) {
        if self.groups.len() <= group.index() {
            self.groups.resize(group.index() + 1, Group::default());
        }
    }

    /// Announces a group. Parents come before their children.
    pub(super) fn group(&mut self, group: GroupId, parent: Option<GroupId>) {
        self.reserve_group(group);
        self.groups[group.index()].parent = parent.filter(|parent| parent.0 < group.0);
    }

    pub(super) fn enter(&mut self, task: TaskId, group: GroupId) {
        self.reserve_group(group);
        self.tasks[task.index()] = group;
    }

    /// Follows `event`. `emit` gets group, start of a window and average number of used CPUs, when that changes.
    #[inline]
    pub(super) fn event(&mut self, at: u64, cpu: CpuId, event: &Event, emit: impl FnMut(GroupId, u64, f64)) {
        if at >= self.window.saturating_add(WINDOW_NS) {
            self.close_windows(at, emit);
        }
        match *event {
            Event::Switch { next, .. } => {
                self.charge(cpu.index(), at);
                self.cpus[cpu.index()].0 = next.task();
            }
            Event::MoveGroup { task, group } => {
                if let Some(cpu) = self.cpus.iter().position(|cpu| cpu.0 == Some(task)) {
                    self.charge(cpu, at);
                }
                self.enter(task, group);
            }
            _ => {}
        }
    }

    #[inline]
    fn charge(&mut self, cpu: usize, at: u64) {
        let (task, since) = &mut self.cpus[cpu];
        if let Some(task) = task {
            let group = self.tasks[task.index()];
            let busy = &mut self.groups[group.index()].busy;
            *busy = busy.saturating_add(at.saturating_sub(*since));
        }
        *since = at.max(*since);
    }

    fn close_windows(&mut self, at: u64, mut emit: impl FnMut(GroupId, u64, f64)) {
        self.close(self.window.saturating_add(WINDOW_NS), &mut emit);
        // All windows in between are equal, so one stands for them.
        let quiet = (at - self.window) / WINDOW_NS;
        if quiet > 0 {
            self.close(self.window + quiet * WINDOW_NS, &mut emit);
        }
    }

    /// Closes the window, at `end`.
    fn close(&mut self, end: u64, emit: &mut impl FnMut(GroupId, u64, f64)) {
        for cpu in 0..self.cpus.len() {
            self.charge(cpu, end);
        }
        self.totals.clear();
        self.totals.extend(self.groups.iter_mut().map(|group| std::mem::take(&mut group.busy)));
        let length = (end - self.window).max(1);
        for index in (0..self.groups.len()).rev() {
            let total = self.totals[index];
            let group = &mut self.groups[index];
            if let Some(parent) = group.parent {
                let sum = &mut self.totals[parent.index()];
                *sum = sum.saturating_add(total);
            }
            let billionths = (u128::from(total) * 1_000_000_000 / u128::from(length)) as u64;
            if group.shown.unwrap_or(0) != billionths {
                group.shown = Some(billionths);
                emit(GroupId(index as u32), self.window, billionths as f64 / 1e9);
            }
        }
        self.window = end;
    }

    /// Closes the last window, which may be short.
    pub(super) fn finish(&mut self, at: u64, mut emit: impl FnMut(GroupId, u64, f64)) {
        if at >= self.window.saturating_add(WINDOW_NS) {
            self.close_windows(at, &mut emit);
        }
        if at > self.window {
            self.close(at, &mut emit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn switch(prev: Running, prev_state: PrevState, next: Running) -> Event {
        Event::Switch { prev, prev_state, next }
    }
    const fn task(id: u32) -> Running {
        Running::Task(TaskId(id))
    }

    #[test]
    fn run_queue_lengths_follow_wakeups_switches_and_migrations() {
        let mut queues = RunQueues::default();
        queues.reserve(2, 2);
        let mut shown = Vec::new();
        let (zero, one) = (CpuId(0), CpuId(1));
        let events = [
            (10, zero, Event::Wakeup { task: TaskId(0), target: zero }),
            (10, zero, switch(Running::Idle, PrevState::Preempted, task(0))),
            (20, zero, Event::Wakeup { task: TaskId(1), target: zero }),
            (
                30,
                one,
                Event::Migrate {
                    task: TaskId(1),
                    from: zero,
                    to: one,
                    cause: vruntime_sched::event::MigrateCause::NewIdle,
                },
            ),
            (30, one, switch(Running::Idle, PrevState::Preempted, task(1))),
            // Sleeps and is back in the same instant: no dip.
            (40, one, switch(task(1), PrevState::Sleeping, Running::Idle)),
            (40, one, Event::Wakeup { task: TaskId(1), target: one }),
            (50, zero, switch(task(0), PrevState::Dead, Running::Idle)),
        ];
        for (at, cpu, event) in events {
            queues.event(at, cpu, &event, |cpu, at, length| shown.push((cpu.0, at, length)));
        }
        queues.finish(|cpu, at, length| shown.push((cpu.0, at, length)));
        shown.sort_unstable();
        assert_eq!(shown, [(0, 0, 0), (0, 10, 1), (0, 20, 2), (0, 30, 1), (0, 50, 0), (1, 0, 0), (1, 30, 1)]);
    }

    #[test]
    fn the_cpu_use_of_a_group_includes_those_below_it() {
        let mut usage = GroupUse::default();
        usage.reserve(2, 2);
        usage.group(GroupId(0), None);
        usage.group(GroupId(1), Some(GroupId(0)));
        usage.group(GroupId(2), Some(GroupId(1)));
        usage.enter(TaskId(0), GroupId(2));
        let mut shown = Vec::new();
        let mut emit = |group: GroupId, at, value| shown.push((group.0, at, value));
        usage.event(0, CpuId(0), &switch(Running::Idle, PrevState::Preempted, task(0)), &mut emit);
        usage.event(0, CpuId(1), &switch(Running::Idle, PrevState::Preempted, task(1)), &mut emit);
        usage.event(5_000_000, CpuId(1), &switch(task(1), PrevState::Sleeping, Running::Idle), &mut emit);
        // A long quiet stretch, then the end within a window.
        usage.event(45_000_000, CpuId(0), &switch(task(0), PrevState::Dead, Running::Idle), &mut emit);
        usage.finish(50_000_000, &mut emit);
        assert_eq!(
            shown,
            [
                (2, 0, 1.0),
                (1, 0, 1.0),
                (0, 0, 1.5),
                (0, 10_000_000, 1.0),
                (2, 40_000_000, 0.5),
                (1, 40_000_000, 0.5),
                (0, 40_000_000, 0.5)
            ]
        );
    }

    #[test]
    fn a_move_while_running_splits_the_window() {
        let mut usage = GroupUse::default();
        usage.reserve(1, 1);
        usage.group(GroupId(1), Some(GroupId(0)));
        let mut shown = Vec::new();
        let mut emit = |group: GroupId, at, value| shown.push((group.0, at, value));
        usage.event(0, CpuId(0), &switch(Running::Idle, PrevState::Preempted, task(0)), &mut emit);
        usage.event(2_500_000, CpuId(0), &Event::MoveGroup { task: TaskId(0), group: GroupId(1) }, &mut emit);
        usage.finish(10_000_000, &mut emit);
        assert_eq!(shown, [(1, 0, 0.75), (0, 0, 1.0)]);
    }
}
