//! Counters of `/proc/schedstat` and `/proc/PID/sched` (`stats.c`), from events. The scheduler keeps only those of
//! failed migrations.

use vruntime_trace::{
    BalanceKind, CpuId, CpuMask, DeadlineEvent, Event, GroupId, GroupInfo, MachineInfo, MigrateCause, PrevState,
    Running, SchedPolicy, Sink, TaskId, TaskInfo,
};

/// Counts up to a time.
#[derive(Clone, Debug, Default)]
pub struct SchedStat {
    until: u64,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) groups: Vec<String>,
}

/// Counters of a scheduling domain, by [`BalanceKind`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    pub(crate) count: [u64; 3],
    pub(crate) balanced: [u64; 3],
    pub(crate) failed: [u64; 3],
    pub(crate) gained: [u64; 3],
}

/// Counters of a CPU. Times are nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) yld_count: u64,
    pub(crate) switches: u64,
    pub(crate) goidle: u64,
    pub(crate) ttwu_count: u64,
    pub(crate) ttwu_local: u64,
    pub(crate) rq_cpu_time: u64,
    pub(crate) run_delay: u64,
    pub(crate) pcount: u64,
    pub(crate) pushed: u64,
    /// Wakeups of tasks on other CPUs, by CPU.
    pub(crate) wake_remote: Vec<u64>,
    pub(crate) levels: Vec<Level>,
    since: u64,
}

impl Cpu {
    pub(crate) fn level(&self, level: usize) -> Level {
        self.levels.get(level).copied().unwrap_or_default()
    }
}

/// Counters of a task. Times are nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    pub(crate) migrations: u64,
    pub(crate) wakeups: u64,
    pub(crate) wakeups_local: u64,
    pub(crate) wakeups_migrate: u64,
    pub(crate) sum_sleep: u64,
    pub(crate) sleep_max: u64,
    pub(crate) sum_block: u64,
    pub(crate) block_max: u64,
    /// All of it counts as waiting for a device.
    pub(crate) block_count: u64,
    pub(crate) wait_sum: u64,
    pub(crate) wait_max: u64,
    pub(crate) wait_count: u64,
    state: State,
    since: u64,
    /// Start of being runnable without running, throttled or not.
    queued: u64,
    moved: bool,
    /// Whether it is a deadline task without runtime, on no run queue.
    throttled: bool,
}

impl Task {
    /// Returns when `state` began. As in the kernel, 0 in other states.
    fn began(&self, state: State) -> u64 {
        if self.state == state { self.since } else { 0 }
    }

    pub(crate) fn wait_start(&self) -> u64 {
        self.began(State::Waiting)
    }

    pub(crate) fn sleep_start(&self) -> u64 {
        self.began(State::Sleeping)
    }

    pub(crate) fn block_start(&self) -> u64 {
        self.began(State::Blocked)
    }

    fn waited(&mut self, ns: u64) {
        self.wait_sum += ns;
        self.wait_max = self.wait_max.max(ns);
        self.wait_count += 1;
    }

    /// Handles used-up or replenished runtime.
    fn set_throttled(&mut self, at: u64, throttled: bool) {
        self.throttled = throttled;
        match self.state {
            State::Waiting if throttled => {
                let passed = at - self.since.min(at);
                if passed > 0 {
                    self.waited(passed);
                }
                (self.state, self.since) = (State::Throttled, at);
            }
            State::Throttled if !throttled => (self.state, self.since) = (State::Waiting, at),
            _ => {}
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    New,
    Sleeping,
    Blocked,
    Waiting,
    /// It would wait, but has no runtime.
    Throttled,
    Running,
}

impl SchedStat {
    /// Counts up to and including `until`, nanoseconds.
    pub fn new(until: u64) -> Self {
        Self { until, ..Self::default() }
    }

    /// Returns the name of a task.
    pub fn task_name(&self, id: TaskId) -> &str {
        self.tasks.get(id.index()).map_or("?", |task| &task.name)
    }

    /// Returns the tasks of that name, or else those with an appended `-` and number.
    pub fn named(&self, name: &str) -> Vec<TaskId> {
        let instance = |other: &str| {
            let rest = other.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
            rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let find = |matches: &dyn Fn(&str) -> bool| -> Vec<TaskId> {
            let all = (0..).zip(&self.tasks);
            all.filter(|(_, task)| matches(&task.name)).map(|(id, _)| TaskId(id)).collect()
        };
        let exact = find(&|other| other == name);
        if exact.is_empty() { find(&instance) } else { exact }
    }

    fn cpu(&mut self, id: CpuId) -> &mut Cpu {
        if id.index() >= self.cpus.len() {
            self.cpus.resize_with(id.index() + 1, Cpu::default);
        }
        &mut self.cpus[id.index()]
    }

    fn of(&mut self, id: TaskId) -> &mut Task {
        if id.index() >= self.tasks.len() {
            self.tasks.resize_with(id.index() + 1, Task::default);
        }
        &mut self.tasks[id.index()]
    }

    fn wakes(&mut self, at: u64, on: CpuId, id: TaskId, target: CpuId, new: bool) {
        let local = on == target;
        let task = self.of(id);
        let passed = at - task.since.min(at);
        match task.state {
            State::Sleeping => {
                task.sum_sleep += passed;
                task.sleep_max = task.sleep_max.max(passed);
            }
            State::Blocked => {
                task.sum_block += passed;
                task.block_max = task.block_max.max(passed);
                task.block_count += 1;
            }
            State::New => {}
            // It had not left its CPU, or waits.
            State::Waiting | State::Throttled | State::Running => return,
        }
        (task.state, task.since) = (if task.throttled { State::Throttled } else { State::Waiting }, at);
        task.queued = at;
        let moved = std::mem::take(&mut task.moved);
        if new {
            return;
        }
        task.wakeups += 1;
        task.wakeups_local += u64::from(local);
        task.wakeups_migrate += u64::from(moved);
        let cpu = self.cpu(on);
        cpu.ttwu_count += 1;
        if local {
            cpu.ttwu_local += 1;
        } else {
            let seen = cpu.wake_remote.len().max(target.index() + 1);
            cpu.wake_remote.resize(seen, 0);
            cpu.wake_remote[target.index()] += 1;
        }
    }

    fn switch(&mut self, at: u64, on: CpuId, prev: Running, state: PrevState, next: Running) {
        if let Running::Task(id) = prev {
            let task = self.of(id);
            let (new, voluntary) = match state {
                PrevState::Preempted | PrevState::Yielded if task.throttled => (State::Throttled, false),
                PrevState::Preempted | PrevState::Yielded => (State::Waiting, false),
                PrevState::Sleeping | PrevState::Dead => (State::Sleeping, true),
                PrevState::Blocked => (State::Blocked, true),
            };
            (task.state, task.since, task.queued) = (new, at, at);
            task.voluntary += u64::from(voluntary);
            task.involuntary += u64::from(!voluntary);
        }
        let mut delay = 0;
        if let Running::Task(id) = next {
            let task = self.of(id);
            let waited = at - task.since.min(at);
            // `sched_info` ignores runtimes: all runnable time without running is run delay.
            delay = at - task.queued.min(at);
            // Its wait for runtime is over.
            task.waited(if task.state == State::Throttled { 0 } else { waited });
            task.throttled = false;
            (task.state, task.since) = (State::Running, at);
        }
        let cpu = self.cpu(on);
        cpu.switches += 1;
        cpu.yld_count += u64::from(prev.task().is_some() && state == PrevState::Yielded);
        if prev != Running::Idle {
            cpu.rq_cpu_time += at - cpu.since.min(at);
        }
        cpu.since = at;
        if next == Running::Idle {
            cpu.goidle += 1;
        } else {
            cpu.pcount += 1;
            cpu.run_delay += delay;
        }
    }

    /// Returns wakeups from `cpu` of tasks whose lowest common domain is at `level`.
    pub(crate) fn wake_remote(&self, cpu: usize, domains: &[(&'static str, CpuMask)], level: usize) -> u64 {
        let Some(counts) = self.cpus.get(cpu).map(|cpu| &cpu.wake_remote) else { return 0 };
        let lowest = |target: u32| domains.iter().position(|(_, span)| span.contains(CpuId(target)));
        (0..).zip(counts).filter(|&(target, _)| lowest(target) == Some(level)).map(|(_, count)| count).sum()
    }
}

impl Sink for SchedStat {
    fn machine(&mut self, info: &MachineInfo<'_>) {
        self.cpus.resize_with(info.cpus, Cpu::default);
    }

    fn group(&mut self, id: GroupId, info: &GroupInfo<'_>) {
        if id.index() >= self.groups.len() {
            self.groups.resize(id.index() + 1, String::new());
        }
        info.path.clone_into(&mut self.groups[id.index()]);
    }

    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        info.name.clone_into(&mut self.of(id).name);
    }

    fn event(&mut self, at: u64, on: CpuId, event: &Event) {
        if at > self.until {
            return;
        }
        match *event {
            Event::Wakeup { task, target } => self.wakes(at, on, task, target, false),
            Event::WakeupNew { task, target } => self.wakes(at, on, task, target, true),
            Event::Switch { prev, prev_state, next } if prev != next => self.switch(at, on, prev, prev_state, next),
            Event::Deadline { task, what: DeadlineEvent::Throttle } => self.of(task).set_throttled(at, true),
            Event::Deadline { task, what: DeadlineEvent::Replenish } => self.of(task).set_throttled(at, false),
            Event::SetPolicy { task, policy, .. } if policy != SchedPolicy::Deadline => {
                self.of(task).set_throttled(at, false);
            }
            Event::Migrate { task, from, cause, .. } => {
                let moving = self.of(task);
                moving.migrations += u64::from(cause != MigrateCause::Fork);
                moving.moved = cause == MigrateCause::Wakeup;
                if cause == MigrateCause::Active {
                    self.cpu(from).pushed += 1;
                }
            }
            Event::Balance { kind, level, busiest: _, pulled, balanced } => {
                let levels = &mut self.cpu(on).levels;
                if usize::from(level) >= levels.len() {
                    levels.resize(usize::from(level) + 1, Level::default());
                }
                let (level, kind) = (&mut levels[usize::from(level)], kind as usize);
                level.count[kind] += 1;
                level.balanced[kind] += u64::from(balanced);
                level.failed[kind] += u64::from(!balanced && pulled == 0);
                level.gained[kind] += u64::from(pulled);
            }
            _ => {}
        }
    }
}

/// Returns the order of kinds in `/proc/schedstat`. Busy is first since version 16.
pub(crate) fn kinds(version: u32) -> [BalanceKind; 3] {
    use BalanceKind::{Busy, Idle, NewIdle};
    if version >= 16 { [Busy, Idle, NewIdle] } else { [Idle, Busy, NewIdle] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_balanced_or_failed_or_bring_tasks() {
        let mut stat = SchedStat::new(1000);
        let cpu = CpuId(0);
        for (busiest, pulled, balanced) in
            [(None, 0, true), (Some(1), 0, true), (Some(1), 0, false), (Some(1), 2, false)]
        {
            let busiest = busiest.map(CpuId);
            stat.event(10, cpu, &Event::Balance { kind: BalanceKind::Idle, level: 0, busiest, pulled, balanced });
        }
        let (level, idle) = (stat.cpus[0].level(0), BalanceKind::Idle as usize);
        assert_eq!((level.count[idle], level.balanced[idle], level.failed[idle], level.gained[idle]), (4, 2, 1, 2));
    }

    #[test]
    fn only_a_wakeup_that_moves_the_task_is_a_migration() {
        let mut stat = SchedStat::new(1000);
        let (from, to, id) = (CpuId(0), CpuId(1), TaskId(0));
        let moves = |cause| Some(Event::Migrate { task: id, from, to, cause });
        for (round, moved) in (1..).zip([None, moves(MigrateCause::Periodic), moves(MigrateCause::Wakeup), None]) {
            let at = 100 * round;
            if let Some(event) = &moved {
                stat.event(at, from, event);
            }
            stat.event(at, from, &Event::Wakeup { task: id, target: to });
            let (prev, prev_state, next) = (Running::Idle, PrevState::Preempted, Running::Task(id));
            stat.event(at + 10, to, &Event::Switch { prev, prev_state, next });
            let (prev, prev_state, next) = (next, PrevState::Sleeping, prev);
            stat.event(at + 20, to, &Event::Switch { prev, prev_state, next });
        }
        let task = &stat.tasks[0];
        assert_eq!((task.wakeups, task.wakeups_migrate, task.migrations), (4, 1, 2));
    }

    /// Unfinished waits, sleeps and blocks count. A deadline task without runtime does none of these.
    #[test]
    fn a_deadline_task_without_runtime_does_not_wait() {
        let mut stat = SchedStat::new(1000);
        let (cpu, id) = (CpuId(0), TaskId(0));
        let on = Running::Task(id);
        let dated = |what| Event::Deadline { task: id, what };
        let switch = |prev, prev_state, next| Event::Switch { prev, prev_state, next };
        for (at, event) in [
            (10, Event::WakeupNew { task: id, target: cpu }),
            (15, switch(Running::Idle, PrevState::Preempted, on)),
            (40, dated(DeadlineEvent::Throttle)),
            (40, switch(on, PrevState::Preempted, Running::Idle)),
            (100, dated(DeadlineEvent::Replenish)),
            (107, switch(Running::Idle, PrevState::Preempted, on)),
            (120, switch(on, PrevState::Sleeping, Running::Idle)),
            (150, Event::Wakeup { task: id, target: cpu }),
            (150, switch(Running::Idle, PrevState::Preempted, on)),
            // After the switch, and while it waits for others.
            (160, switch(on, PrevState::Yielded, Running::Idle)),
            (160, dated(DeadlineEvent::Throttle)),
            (200, dated(DeadlineEvent::Replenish)),
            (203, dated(DeadlineEvent::Throttle)),
            (300, dated(DeadlineEvent::Replenish)),
            (300, switch(Running::Idle, PrevState::Preempted, on)),
            (310, switch(on, PrevState::Blocked, Running::Idle)),
        ] {
            stat.event(at, cpu, &event);
        }
        let task = &stat.tasks[0];
        assert_eq!((task.wait_sum, task.wait_max, task.wait_count), (5 + 7 + 3, 7, 5));
        assert_eq!(stat.cpus[0].run_delay, 5 + (107 - 40) + (300 - 160));
        assert_eq!(stat.cpus[0].rq_cpu_time, (40 - 15) + (120 - 107) + (160 - 150) + (310 - 300));
        assert_eq!((task.sum_sleep, task.sleep_max, task.sum_block), (30, 30, 0));
        assert_eq!((task.wait_start(), task.sleep_start(), task.block_start()), (0, 0, 310));
        stat.event(350, cpu, &Event::Wakeup { task: id, target: cpu });
        let task = &stat.tasks[0];
        assert_eq!((task.sum_block, task.block_max, task.block_count), (40, 40, 1));
        assert_eq!((task.wait_start(), task.block_start()), (350, 0));
    }
}
