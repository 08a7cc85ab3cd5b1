//! From events to results: a state machine for each task and CPU.
//!
//! Each change of a task's state accounts for the time since the last one. A CPU runs a task, the stopper or nothing.
//! An [`Event::Overhead`] takes its time from what follows. Every interval enters one account of each kind, so both
//! balance.
//! each kind, so both kinds balance.

mod sums;
mod waits;

use std::collections::BTreeMap;

use vruntime_trace::{
    BalanceKind, CpuId, CpuMask, CpusetInfo, DeadlineEvent, Event, GroupId, GroupInfo, LoadAvg, MachineInfo,
    MigrateCause, OverheadKind, PrevState, Running, SchedPolicy, Sink, TaskId, TaskInfo, Totals,
};

use crate::accounts::{Class, Cpu, Detail, Group, State, Task};
use crate::conservation::Conservation;
use crate::cputime::Spent;
use crate::frequency::Frequencies;
use crate::psi::Psi;
use crate::results::{BalanceCount, CpusetResult, GroupVisits, LimitResult, MigrationCount};
use crate::settling::Settling;
use crate::shares::Shares;
use crate::throttles::BoundBy;
use crate::violation::cpu_list;
use waits::{Bound, ThrottleState, waits, waits_no_more};

/// Tasks with their own latency histograms, which take about 40 KB each. Later tasks share their class's.
pub const DETAILED_TASKS: usize = 1024;

/// Turns events into [`Results`](crate::Results). Memory grows with tasks, groups and CPUs, not time.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    tasks: Vec<Task>,
    classes: Vec<Class>,
    class_names: BTreeMap<String, u32>,
    groups: Vec<Group>,
    cpus: Vec<Cpu>,
    migrations: MigrationCount,
    /// Present once the machine is known.
    conservation: Option<Conservation>,
    throttle_state: ThrottleState,
    psi: Psi,
    shares: Shares,
    settling: Settling,
    frequency: Frequencies,
    /// Time of a CPU's last balancing. The next event has its overhead.
    balanced: Option<u64>,
    h_load: Option<GroupVisits>,
    loadavg: Option<LoadAvg>,
    /// The scheduler's counts of switches away from groups, or empty.
    counted_switches: Vec<u64>,
    unexplained: u64,
    /// Rounds with a longer response time are counted, nanoseconds.
    target: Option<u64>,
    now: u64,
    finished: bool,
}

impl Collector {
    /// Creates a collector for `cpus` CPUs. A CPU without events is idle.
    pub fn new(cpus: usize) -> Self {
        Self { cpus: vec![Cpu::default(); cpus], ..Self::default() }
    }

    /// Counts rounds with a response time above `target` nanoseconds.
    #[must_use]
    pub fn with_target(self, target: Option<u64>) -> Self {
        Self { target, ..self }
    }

    #[inline]
    fn task_mut(&mut self, id: TaskId) -> &mut Task {
        if id.index() >= self.tasks.len() {
            self.unannounced(id);
        }
        &mut self.tasks[id.index()]
    }

    #[inline]
    fn cpu_mut(&mut self, id: CpuId) -> &mut Cpu {
        if id.index() >= self.cpus.len() {
            self.cpus.resize_with(id.index() + 1, Cpu::default);
        }
        &mut self.cpus[id.index()]
    }

    /// Adds an unannounced task, as in a truncated trace, named by its number.
    #[cold]
    fn unannounced(&mut self, id: TaskId) {
        for missing in self.tasks.len()..=id.index() {
            let name = format!("task-{missing}");
            let id = TaskId(missing as u32);
            self.task(id, &TaskInfo { name: &name, class: &name, ..TaskInfo::default() });
        }
    }

    fn class_of(&mut self, name: &str) -> u32 {
        if let Some(&class) = self.class_names.get(name) {
            return class;
        }
        let class = self.classes.len() as u32;
        self.class_names.insert(name.to_owned(), class);
        self.classes.push(Class { name: name.to_owned(), ..Class::default() });
        class
    }

    fn ensure_group(&mut self, id: GroupId) {
        for missing in self.groups.len()..=id.index() {
            let path = if missing == 0 { "/".to_owned() } else { format!("/group-{missing}") };
            let parent = (missing > 0).then_some(GroupId::ROOT.0);
            self.groups.push(Group::new(path, parent));
        }
    }

    fn limit(&mut self, id: GroupId) -> &mut LimitResult {
        self.ensure_group(id);
        self.groups[id.index()].limit.get_or_insert_default()
    }

    #[inline]
    fn runnable(&mut self, at: u64, id: TaskId, state: State, cpu: CpuId) {
        self.task_mut(id);
        let Self { tasks, groups, conservation, cpus, throttle_state, .. } = self;
        let task = &mut tasks[id.index()];
        // A task woken before it left its CPU continues to run. A waiting one continues to wait.
        if matches!(task.state, State::Unborn | State::Sleeping) {
            if let Some(blocked) = task.blocked_on.take() {
                let blocked = &mut cpus[blocked.index()];
                blocked.advance(at);
                blocked.iowait -= 1;
            }
            task.be_born(at);
            task.enter(at, state, groups);
            if let Some(watch) = conservation {
                waits(watch, at, (id, task), cpu, groups, throttle_state);
            }
        }
    }

    #[inline]
    fn switch(&mut self, at: u64, cpu: CpuId, prev: Running, prev_state: PrevState, next: Running) {
        self.psi.switch(at, cpu, prev, prev_state, next);
        let niced = next.task().is_some_and(|next| self.task_mut(next).nice > 0);
        let first = {
            let cpu = self.cpu_mut(cpu);
            let first = !cpu.switched;
            if first && prev != Running::Idle {
                // In a truncated trace, the first task that leaves has run since the beginning.
                cpu.running = prev;
            }
            cpu.advance(at);
            cpu.running = next;
            cpu.niced = niced;
            cpu.iowait += u32::from(prev_state == PrevState::Blocked && prev.task().is_some());
            cpu.switched = true;
            cpu.result.switches += u64::from(prev != next);
            first
        };
        for id in [prev.task(), next.task()].into_iter().flatten() {
            self.task_mut(id);
        }
        self.frequency.runs(at, cpu, next != Running::Idle);
        let Self { tasks, groups, classes, unexplained, conservation, throttle_state, .. } = self;
        if prev == next {
            return;
        }
        if let Some(watch) = conservation
            && prev == Running::Idle
        {
            watch.gets_busy(at, cpu, |task, cpu| throttle_state.is_throttled(&tasks[task.index()], cpu, groups));
        }
        if let Running::Task(id) = prev {
            let task = &mut tasks[id.index()];
            if first && task.state == State::Unborn {
                task.be_born(0);
                task.state = State::Running;
            }
            let (state, voluntary) = match prev_state {
                PrevState::Preempted | PrevState::Yielded => (State::Waiting, false),
                PrevState::Sleeping | PrevState::Blocked => (State::Sleeping, true),
                PrevState::Dead => (State::Dead, true),
            };
            task.enter(at, state, groups);
            task.blocked_on = (prev_state == PrevState::Blocked).then_some(cpu);
            if voluntary {
                task.account.voluntary += 1;
            } else {
                task.account.involuntary += 1;
            }
            groups[task.group as usize].switches += 1;
            if let Some(watch) = conservation
                && state == State::Waiting
            {
                waits(watch, at, (id, task), cpu, groups, throttle_state);
            }
        }
        if let Running::Task(id) = next {
            let task = &mut tasks[id.index()];
            // An unannounced task may run first. A sleeping one may not.
            *unexplained += u64::from(matches!(task.state, State::Sleeping | State::Dead));
            task.be_born(at);
            task.throttled = false;
            let woken = task.state == State::Woken;
            let waited = task.enter(at, State::Running, groups);
            if woken {
                task.detail(id.index(), classes).wakeup_latency.record(waited);
            }
            if let Some(watch) = conservation {
                waits_no_more(watch, at, (id, task), groups, throttle_state);
            }
        }
        if let Some(watch) = conservation
            && next == Running::Idle
        {
            watch.goes_idle(at, cpu);
        }
    }

    fn deadline(&mut self, at: u64, cpu: CpuId, id: TaskId, what: DeadlineEvent) {
        let task = self.task_mut(id);
        let count = task.account.deadline.get_or_insert_default();
        match what {
            DeadlineEvent::Throttle => {
                count.throttled += 1;
                task.throttled = true;
            }
            DeadlineEvent::Replenish => {
                task.throttled = false;
                let waits = matches!(task.state, State::Waiting | State::Woken);
                if let Some(watch) = &mut self.conservation
                    && waits
                {
                    watch.waits(at, id, cpu);
                }
            }
            DeadlineEvent::Miss { late } => {
                count.misses += 1;
                count.max_late_ns = count.max_late_ns.max(late);
            }
            DeadlineEvent::Overrun => count.overruns += 1,
        }
    }

    fn migrate(&mut self, id: TaskId, to: CpuId, cause: MigrateCause) {
        self.moves(id, to);
        let counted = cause != MigrateCause::Fork;
        let task = self.task_mut(id);
        task.account.migrations += u64::from(counted);
        let class = task.class as usize;
        self.classes[class].migrations.count(cause);
        self.migrations.count(cause);
    }

    /// Returns a task's histograms, or its class's.
    fn detail(&mut self, id: TaskId) -> &mut Detail {
        self.task_mut(id);
        let Self { tasks, classes, .. } = self;
        tasks[id.index()].detail(id.index(), classes)
    }

    /// Counts the CPU's next `ns` as kernel time.
    #[inline]
    fn overhead(&mut self, at: u64, cpu: CpuId, kind: OverheadKind, ns: u64) {
        let balanced = self.balanced.take() == Some(at);
        let cpu = self.cpu_mut(cpu);
        let spent = Spent::on(kind, balanced, cpu.niced);
        cpu.advance(at);
        if cpu.owes(ns, spent)
            && let Running::Task(task) = cpu.running
        {
            let task = self.task_mut(task);
            task.account.system_ns += ns;
            let group = task.group as usize;
            self.groups[group].system_ns += ns;
        }
    }

    fn balance(&mut self, at: u64, cpu: CpuId, kind: BalanceKind, found_busiest: bool, pulled: u32) {
        if found_busiest || pulled > 0 {
            self.balanced = Some(at);
        }
        let count: &mut BalanceCount = &mut self.cpu_mut(cpu).result.balance[kind as usize];
        count.attempts += 1;
        count.pulls += u64::from(pulled > 0);
        count.tasks += u64::from(pulled);
    }

    fn group_visits(&mut self, groups: u32, idle: u32) {
        let visits = self.h_load.get_or_insert_default();
        visits.updates += 1;
        visits.groups += u64::from(groups);
        visits.idle += u64::from(idle);
    }

    fn cpu_up(&mut self, at: u64, cpu: CpuId) {
        self.settling.disturb();
        let idle = self.cpu_mut(cpu).running == Running::Idle;
        if let Some(watch) = &mut self.conservation {
            watch.cpu_online(at, cpu, idle);
        }
    }

    fn cpu_down(&mut self, at: u64, cpu: CpuId) {
        self.settling.disturb();
        self.cpu_mut(cpu);
        let Self { tasks, groups, conservation, throttle_state, .. } = self;
        if let Some(watch) = conservation {
            watch.cpu_offline(at, cpu, |task, cpu| throttle_state.is_throttled(&tasks[task.index()], cpu, groups));
        }
    }

    fn boost(&mut self, id: TaskId, priority: i16) {
        self.limits_change(id);
        self.task_mut(id).bound_by = BoundBy::of_priority(priority);
        self.recheck_throttling(id);
    }

    fn set_nice(&mut self, at: u64, id: TaskId, nice: i8) {
        self.settling.disturb();
        self.shares.change(at, &mut self.tasks, &self.groups);
        self.task_mut(id).nice = nice;
        for cpu in self.cpus.iter_mut().filter(|cpu| cpu.running == Running::Task(id)) {
            cpu.advance(at);
            cpu.niced = nice > 0;
        }
    }

    fn set_policy(&mut self, at: u64, id: TaskId, policy: SchedPolicy, rt_priority: u8) {
        self.settling.disturb();
        self.shares.change(at, &mut self.tasks, &self.groups);
        self.limits_change(id);
        let task = self.task_mut(id);
        (task.policy, task.rt_priority, task.bound_by) = (policy, rt_priority, policy.into());
        if policy == SchedPolicy::Deadline {
            task.account.deadline.get_or_insert_default();
        }
        self.recheck_throttling(id);
    }

    fn move_group(&mut self, at: u64, id: TaskId, group: GroupId) {
        self.settling.disturb();
        self.psi.moves(at, id, group);
        self.shares.change(at, &mut self.tasks, &self.groups);
        // From here, the new group's limits apply.
        self.wait_ends(id);
        self.ensure_group(group);
        let Self { tasks, groups, .. } = self;
        let task = &mut tasks[id.index()];
        let state = task.state;
        task.enter(at, state, groups);
        task.group = group.0;
        self.restart_wait(id);
    }

    fn end_of_life(&mut self, at: u64, id: TaskId) {
        self.task_mut(id);
        let Self { tasks, groups, conservation, throttle_state, .. } = self;
        let task = &mut tasks[id.index()];
        // A running task announces its exit, and runs until switched out.
        if task.state != State::Running {
            task.enter(at, State::Dead, groups);
            if let Some(watch) = conservation {
                waits_no_more(watch, at, (id, task), groups, throttle_state);
            }
        }
    }
}

impl Sink for Collector {
    fn machine(&mut self, info: &MachineInfo<'_>) {
        self.conservation = Conservation::new(info);
        self.psi.machine(info.tick_ns);
        if let Some(energy) = &info.energy {
            self.frequency.take(energy);
        }
    }

    fn affinity(&mut self, at: u64, task: TaskId, cpus: Option<&CpuMask>) {
        if self.task_mut(task).since > 0 {
            self.settling.disturb();
        }
        let Self { tasks, groups, conservation, throttle_state, .. } = self;
        if let Some(watch) = conservation {
            let it = &mut tasks[task.index()];
            let bound = Bound::from(&*it);
            watch.affinity(at, task, cpus, &mut it.account, |cpu| throttle_state.is_throttled(bound, cpu, groups));
        }
    }

    fn root_domains(&mut self, at: u64, roots: &[CpuMask], isolated: &CpuMask) {
        let Self { tasks, groups, conservation, throttle_state, .. } = self;
        if let Some(watch) = conservation {
            let barred = |task: TaskId, cpu| throttle_state.is_throttled(&tasks[task.index()], cpu, groups);
            watch.root_domains(at, roots, isolated, barred);
        }
    }

    fn cpuset(&mut self, _at: u64, id: GroupId, info: &CpusetInfo<'_>) {
        self.ensure_group(id);
        let (effective, partition) = (cpu_list(info.effective), info.partition.to_owned());
        self.groups[id.index()].cpuset = Some(CpusetResult { effective, partition });
    }

    fn group(&mut self, id: GroupId, info: &GroupInfo<'_>) {
        self.ensure_group(id);
        let group = &mut self.groups[id.index()];
        info.path.clone_into(&mut group.path);
        group.parent = info.parent.map(|parent| parent.0);
        (group.weight, group.idle, group.nice, group.guarantee) = (info.weight, info.idle, info.nice, info.guarantee);
        group.limit = info.max.map(|max| LimitResult { max: Some(max), ..LimitResult::default() });
        self.psi.group(id, info.parent);
    }

    fn group_changed(&mut self, at: u64, id: GroupId, info: &GroupInfo<'_>) {
        self.settling.disturb();
        self.ensure_group(id);
        self.shares.change(at, &mut self.tasks, &self.groups);
        let group = &mut self.groups[id.index()];
        (group.weight, group.idle, group.nice, group.guarantee) = (info.weight, info.idle, info.nice, info.guarantee);
        match (&mut group.limit, info.max) {
            (Some(limit), max) => limit.max = max,
            (None, Some(_)) => group.limit = Some(LimitResult { max: info.max, ..LimitResult::default() }),
            (None, None) => {}
        }
    }

    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        self.ensure_group(info.group.max(GroupId::ROOT));
        if id.index() > self.tasks.len() {
            self.unannounced(TaskId(id.0 - 1));
        }
        let class = self.class_of(info.class);
        self.psi.task(id, info.group);
        if id.index() == self.tasks.len() {
            self.tasks.push(Task::default());
        }
        let task = &mut self.tasks[id.index()];
        task.name = info.name.into();
        task.class = class;
        task.group = info.group.0;
        task.nice = info.nice;
        (task.policy, task.rt_priority) = (info.policy, info.rt_priority);
        task.bound_by = info.policy.into();
        if info.policy == SchedPolicy::Deadline {
            task.account.deadline.get_or_insert_default();
        }
    }

    #[inline]
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        self.now = self.now.max(at);
        self.psi.advance(at);
        if self.shares.due(at) && self.groups.len() > 1 {
            self.shares.cut(at, &mut self.tasks, &self.groups);
        }
        if self.settling.due(at) {
            self.settling.look(at, &self.tasks);
        }
        match *event {
            Event::Switch { prev, prev_state, next } => self.switch(at, cpu, prev, prev_state, next),
            // `Sink::affinity` reports affinities.
            Event::Waking { .. } | Event::AffinityLost { .. } => {}
            Event::PiSetprio { task, new, .. } => self.boost(task, new),
            Event::RtThrottle { group } => self.rt_throttle(at, cpu, group, true),
            Event::RtUnthrottle { group } => self.rt_throttle(at, cpu, group, false),
            Event::CpuDown => self.cpu_down(at, cpu),
            Event::CpuUp => self.cpu_up(at, cpu),
            Event::Wakeup { task, target } => {
                self.psi.wakes(at, task, target);
                self.runnable(at, task, State::Woken, target);
            }
            Event::WakeupNew { task, target } => {
                self.psi.wakes(at, task, target);
                self.runnable(at, task, State::Waiting, target);
            }
            Event::Overhead { kind, ns } => self.overhead(at, cpu, kind, ns),
            Event::Migrate { task, to, cause, .. } => {
                self.psi.migrates(at, task, to);
                self.migrate(task, to, cause);
            }
            Event::Balance { kind, busiest, pulled, .. } => self.balance(at, cpu, kind, busiest.is_some(), pulled),
            Event::HLoad { groups, idle, .. } => self.group_visits(groups, idle),
            Event::LoopEnd { task, duration, work } => {
                let account = &mut self.task_mut(task).account;
                account.loops += 1;
                account.loop_work_ns += work;
                self.detail(task).loop_duration.record(duration);
            }
            Event::SleepReturn { task, late } => self.detail(task).sleep_return.record(late),
            Event::Fork { child, .. } => {
                self.shares.change(at, &mut self.tasks, &self.groups);
                self.task_mut(child).be_born(at);
            }
            Event::CpuFrequency { khz } => {
                let busy = self.cpu_mut(cpu).running != Running::Idle;
                self.frequency.changes(at, cpu, khz, busy);
            }
            Event::Overutilized { root, on } => self.frequency.overutilized(at, root, on),
            Event::Throttle { group } => {
                self.limit(group);
                self.throttle(at, cpu, group, true);
            }
            Event::Unthrottle { group, ns } => {
                self.limit(group).unthrottled(ns);
                self.throttle(at, cpu, group, false);
            }
            Event::BandwidthPeriod { group, periods, throttled, burst } => {
                self.limit(group).period(periods, throttled, burst);
            }
            Event::Exit { task } => {
                self.psi.ends(at, task);
                self.end_of_life(at, task);
            }
            Event::SetNice { task, nice } => self.set_nice(at, task, nice),
            Event::SetPolicy { task, policy, rt_priority } => self.set_policy(at, task, policy, rt_priority),
            Event::Deadline { task, what } => self.deadline(at, cpu, task, what),
            Event::MoveGroup { task, group } => self.move_group(at, task, group),
        }
    }

    fn wants_rounds(&self) -> bool {
        true
    }

    fn round_end(&mut self, _at: u64, task: TaskId, response: u64) {
        let above = self.target.is_some_and(|target| response > target);
        let detail = self.detail(task);
        detail.response.record(response);
        detail.above_target += u64::from(above);
    }

    fn stolen(&mut self, at: u64, cpu: CpuId, waits: bool) {
        let cpu = self.cpu_mut(cpu);
        cpu.advance(at);
        cpu.stolen = waits;
    }

    fn totals(&mut self, totals: &Totals<'_>) {
        self.loadavg = Some(totals.loadavg);
        self.counted_switches = totals.group_switches.to_vec();
    }

    fn finish(&mut self, at: u64) {
        self.now = self.now.max(at);
        self.finished = true;
        for (cpu, group, ns) in self.throttle_state.rt.finish(self.now) {
            self.rt_was_throttled(CpuId(cpu), GroupId(group), ns);
        }
        let Self { tasks, groups, cpus, now, conservation, throttle_state, .. } = self;
        for (id, task) in tasks.iter_mut().enumerate() {
            let state = task.state;
            task.enter(*now, state, groups);
            task.account.life_ns = task.since - task.born;
            // The run may have ended before announced overhead.
            task.account.system_ns = task.account.system_ns.min(task.account.cpu_ns);
            if let Some(watch) = conservation {
                waits_no_more(watch, *now, (TaskId(id as u32), task), groups, throttle_state);
            }
        }
        for cpu in cpus {
            cpu.finish(*now);
        }
        self.shares.finish(self.now, &mut self.tasks, &self.groups);
    }
}

const _: () = assert!(BalanceKind::NewIdle as usize == 2, "CpuResult::balance has a place for each kind");

#[cfg(test)]
mod tests;
