//! Shared code of the tests: workloads and observing sinks.
#![allow(dead_code, unreachable_pub)] // each test binary uses some of it

pub mod history;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::prelude::*;
use vruntime_sched::event::{Event, OverheadKind, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::kernel;
use vruntime_sched::kernels::Behaviour;
use vruntime_sim::{Config, Costs, Error, MachineSpec, Outcome, parse_topology, run_dyn};
use vruntime_trace::{GroupInfo, Sink, TaskInfo};
use vruntime_workload::program::*;

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;

/// A machine without costs, timer slack or SMT slowdown.
pub fn exact(kernel_name: &str, machine: &str) -> Config {
    let mut spec = MachineSpec::new(parse_topology(machine).unwrap());
    spec.costs = Costs::ZERO;
    spec.timer_slack_ns = 0;
    Config::new(kernel(kernel_name).unwrap(), spec)
}

/// As `exact`, with a behaviour switched on or off.
pub fn forced(kernel_name: &str, machine: &str, behaviour: Behaviour, on: bool) -> Config {
    let mut config = exact(kernel_name, machine);
    config.kernel.force(behaviour, on);
    config.kernel.check().unwrap();
    config
}

/// A group below the root.
pub fn group(path: &str, weight: u32) -> Group {
    Group { path: path.to_owned(), parent: Some(0), weight, ..Group::default() }
}

pub fn phase(ops: Vec<Op>, repeat: Repeat) -> Phase {
    Phase { repeat, ..Phase::forever(ops) }
}

pub fn task(name: &str, phases: Vec<Phase>) -> Task {
    Task::new(name, phases)
}

/// Microseconds of work.
pub const fn run(us: u64) -> Op {
    Op::Run { work: us * US }
}

/// Microseconds of sleep.
pub const fn sleep(us: u64) -> Op {
    Op::Sleep { time: us * US }
}

pub fn once(name: &str, ops: Vec<Op>) -> Task {
    task(name, vec![phase(ops, Repeat::Times(1))])
}

pub fn pinned(mut task: Task, cpus: &[u32]) -> Task {
    task.settings.cpus = Some(cpus.to_vec());
    task
}

pub fn starting(mut task: Task, start: u64) -> Task {
    task.start = Some(start);
    task
}

pub fn workload(tasks: Vec<Task>) -> Workload {
    let mutex =
        |name: &str, priority_inheritance| Mutex { name: name.to_owned(), priority_inheritance, hands_over: false };
    Workload {
        tasks,
        mutexes: vec![
            mutex("m", false),
            mutex("n", false),
            mutex("pi", true),
            mutex("r", false),
            Mutex { hands_over: true, ..mutex("handed", false) },
        ],
        conditions: vec!["c".to_owned(), "d".to_owned()],
        barriers: vec![Barrier { name: "b".to_owned(), parties: 2, locked: true }],
        semaphores: vec![Semaphore { name: "s".to_owned(), initial: 0 }],
        timers: vec![Timer::new("t"), Timer::new("u")],
        pipes: vec![Pipe { name: "p".to_owned(), capacity: 200, kind: Channel::Pipe }],
        wait_queues: vec!["q".to_owned(), "r".to_owned()],
        completions: vec!["done".to_owned()],
        ..Workload::default()
    }
}

pub fn simulate(workload: &Workload, config: &Config, sink: &mut dyn Sink) -> Result<Outcome, Error> {
    run_dyn(workload, config, sink, &mut |_| ControlFlow::Continue(()))
}

/// Runs each task on its own CPU.
pub fn on_own_cpus(tasks: Vec<Task>) -> Log {
    let cpus = tasks.len();
    let tasks = tasks.into_iter().enumerate().map(|(cpu, task)| pinned(task, &[cpu as u32])).collect();
    let mut log = Log::default();
    let config = Config { duration: Some(1_000 * MS), ..exact("6.12", &cpus.to_string()) };
    simulate(&workload(tasks), &config, &mut log).unwrap();
    log
}

/// Runs each program once on its own CPU. Returns when each task ended, us.
pub fn ends(programs: &[&[Op]]) -> Vec<Option<u64>> {
    let name = |index: usize| format!("t{index}");
    let tasks = programs.iter().enumerate().map(|(index, ops)| once(&name(index), ops.to_vec())).collect();
    let log = on_own_cpus(tasks);
    (0..programs.len()).map(|index| log.exit(&name(index)).map(|ns| ns / US)).collect()
}

#[derive(Default)]
pub struct Log {
    pub events: Vec<(u64, CpuId, Event)>,
    pub names: Vec<String>,
    pub groups: Vec<String>,
    pub task_groups: Vec<GroupId>,
    pub finished: Option<u64>,
}

impl Sink for Log {
    fn group(&mut self, id: GroupId, info: &GroupInfo<'_>) {
        assert_eq!(id.index(), self.groups.len());
        self.groups.push(info.path.to_owned());
    }
    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        assert_eq!(id.index(), self.names.len());
        self.names.push(info.name.to_owned());
        self.task_groups.push(info.group);
    }
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        assert!(self.events.last().is_none_or(|(last, ..)| *last <= at), "time goes backwards at {event:?}");
        self.events.push((at, cpu, *event));
    }
    fn finish(&mut self, at: u64) {
        self.finished = Some(at);
    }
}

impl Log {
    pub fn of(&self, name: &str) -> TaskId {
        TaskId(self.names.iter().position(|known| known == name).unwrap() as u32)
    }

    /// Ends of the task's loops, with their durations.
    pub fn loops(&self, name: &str) -> Vec<(u64, u64)> {
        let wanted = self.of(name);
        self.pick(|at, event| match event {
            Event::LoopEnd { task, duration, .. } if task == wanted => Some((at, duration)),
            _ => None,
        })
    }

    /// Ends of the task's sleeps, with their lateness.
    pub fn sleeps(&self, name: &str) -> Vec<(u64, u64)> {
        let wanted = self.of(name);
        self.pick(|at, event| match event {
            Event::SleepReturn { task, late } if task == wanted => Some((at, late)),
            _ => None,
        })
    }

    pub fn exit(&self, name: &str) -> Option<u64> {
        let wanted = self.of(name);
        self.pick(|at, event| (event == Event::Exit { task: wanted }).then_some(at)).first().copied()
    }

    pub fn pick<T>(&self, mut choose: impl FnMut(u64, Event) -> Option<T>) -> Vec<T> {
        self.events.iter().filter_map(|&(at, _, event)| choose(at, event)).collect()
    }
}

/// Times computed from the events alone.
#[derive(Default)]
pub struct Ledger {
    cpus: BTreeMap<u32, Cpu>,
    tasks: BTreeMap<u32, Life>,
    pub switches: u64,
    /// For messages.
    history: Vec<(u64, CpuId, Event)>,
}

#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    who: Running,
    since: u64,
    pub running: u64,
    pub idle: u64,
    pub overhead: u64,
    pub idle_overhead: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Life {
    pub born: u64,
    pub died: Option<u64>,
    state: State,
    since: u64,
    pub running: u64,
    pub waiting: u64,
    pub sleeping: u64,
    pub overhead: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Sleeping,
    Waiting,
    Running,
    Dead,
}

impl Life {
    fn turn(&mut self, at: u64, state: State) {
        let span = at - self.since;
        match self.state {
            State::Sleeping => self.sleeping += span,
            State::Waiting => self.waiting += span,
            State::Running => self.running += span,
            State::Dead => {}
        }
        self.since = at;
        self.state = state;
    }
}

impl Ledger {
    /// The last events that name a task.
    fn story(&self, task: TaskId) -> String {
        let name = format!("{task:?}");
        let lines = self.history.iter().map(|(at, cpu, event)| format!("{at} {cpu:?} {event:?}"));
        let lines: Vec<String> = lines.filter(|line| line.contains(&name)).collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn cpu(&mut self, cpu: CpuId) -> &mut Cpu {
        let fresh = Cpu { who: Running::Idle, since: 0, running: 0, idle: 0, overhead: 0, idle_overhead: 0 };
        self.cpus.entry(cpu.0).or_insert(fresh)
    }

    /// Checks that all time of CPUs and tasks is accounted for, as in the machine's own accounts.
    pub fn check(&mut self, outcome: &Outcome) {
        let end = outcome.end;
        assert_eq!(self.switches, outcome.switches);
        for (index, own) in outcome.cpus.iter().enumerate() {
            assert_eq!(own.busy + own.idle + own.overhead, end, "CPU {index}: {own:?}");
            let cpu = self.cpu(CpuId(index as u32));
            let span = end - cpu.since;
            if cpu.who == Running::Idle {
                cpu.idle += span;
            } else {
                cpu.running += span;
            }
            assert_eq!(cpu.running + cpu.idle, end);
            assert_eq!(cpu.overhead + cpu.idle_overhead, own.overhead, "overhead of CPU {index}: {cpu:?} {own:?}");
            assert_eq!(cpu.running - cpu.overhead, own.busy, "CPU {index}: {cpu:?} {own:?}");
        }
        let mut running = 0;
        for (task, life) in &mut self.tasks {
            let until = life.died.unwrap_or(end);
            life.turn(until, life.state);
            let total = life.running + life.waiting + life.sleeping;
            assert_eq!(total, until - life.born, "task {task}: {life:?}");
            assert!(life.overhead <= life.running, "task {task}: {life:?}");
            running += life.running;
        }
        // The stopper has the rest.
        assert!(running <= self.cpus.values().map(|cpu| cpu.running).sum::<u64>());
    }
}

impl Sink for Ledger {
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        self.history.push((at, cpu, *event));
        match *event {
            Event::Fork { child, .. } => {
                let fresh = Life { born: at, since: at, ..Life::default() };
                assert!(self.tasks.insert(child.0, fresh).is_none(), "{child:?} is born twice");
            }
            Event::Wakeup { task, .. } | Event::WakeupNew { task, .. } => {
                let state = self.tasks[&task.0].state;
                assert_eq!(state, State::Sleeping, "{task:?} is woken at {at}:\n{}", self.story(task));
                let life = self.tasks.get_mut(&task.0).unwrap();
                life.turn(at, State::Waiting);
            }
            Event::Switch { prev, prev_state, next } => {
                self.switches += 1;
                let this = self.cpu(cpu);
                assert_eq!(this.who, prev, "at {at} on {cpu:?}");
                let span = at - this.since;
                if prev == Running::Idle {
                    this.idle += span;
                } else {
                    this.running += span;
                }
                this.since = at;
                this.who = next;
                if let Running::Task(task) = prev {
                    let life = self.tasks.get_mut(&task.0).unwrap();
                    assert_eq!(life.state, State::Running);
                    let state = match prev_state {
                        PrevState::Preempted | PrevState::Yielded => State::Waiting,
                        PrevState::Sleeping | PrevState::Blocked => State::Sleeping,
                        PrevState::Dead => State::Dead,
                    };
                    life.turn(at, state);
                    if state == State::Dead {
                        life.died = Some(at);
                    }
                }
                if let Running::Task(task) = next {
                    let state = self.tasks[&task.0].state;
                    assert_eq!(state, State::Waiting, "{task:?} runs at {at}:\n{}", self.story(task));
                    let life = self.tasks.get_mut(&task.0).unwrap();
                    life.turn(at, State::Running);
                }
            }
            Event::Overhead { kind, ns } => {
                assert!(ns > 0);
                let this = self.cpu(cpu);
                let who = this.who;
                if who == Running::Idle {
                    this.idle_overhead += ns;
                } else {
                    this.overhead += ns;
                }
                if let Running::Task(task) = who {
                    self.tasks.get_mut(&task.0).unwrap().overhead += ns;
                } else {
                    assert_ne!(kind, OverheadKind::Migration);
                }
            }
            Event::Migrate { task, from, to, .. } => {
                assert_ne!(from, to);
                assert_ne!(self.tasks[&task.0].state, State::Running, "{task:?} migrates while running");
            }
            _ => {}
        }
    }
}

/// CPUs that go offline and online before `end`, never the last one.
pub fn hotplug(cpus: usize, end: u64) -> impl Strategy<Value = Vec<Hotplug>> {
    let toggle = (0..end, 0..cpus as u32);
    prop::collection::vec(toggle, 0..12).prop_map(move |mut toggles| {
        toggles.sort_unstable();
        let mut online = vec![true; cpus];
        let mut all = Vec::new();
        for (at, cpu) in toggles {
            let up = !online[cpu as usize];
            if up || online.iter().filter(|&&online| online).count() > 1 {
                online[cpu as usize] = up;
                all.push(Hotplug { at, cpu, online: up });
            }
        }
        all
    })
}

/// Stolen time reported to observers, which must alternate.
#[derive(Default)]
pub struct Stolen {
    since: Vec<Option<u64>>,
    /// Nanoseconds of all CPUs.
    pub total: u64,
    /// Of each.
    pub by_cpu: Vec<u64>,
    /// The number of reported begins.
    pub times: usize,
}

impl Sink for Stolen {
    fn event(&mut self, _at: u64, _cpu: CpuId, _event: &Event) {}

    fn stolen(&mut self, at: u64, cpu: CpuId, waits: bool) {
        self.since.resize(self.since.len().max(cpu.index() + 1), None);
        self.by_cpu.resize(self.since.len(), 0);
        let since = &mut self.since[cpu.index()];
        assert_eq!(since.is_some(), !waits, "CPU {cpu} at {at}");
        let stolen = since.map_or(0, |since| at - since);
        self.by_cpu[cpu.index()] += stolen;
        self.total += stolen;
        self.times += usize::from(waits);
        *since = waits.then_some(at);
    }

    fn finish(&mut self, at: u64) {
        for (stolen, since) in self.by_cpu.iter_mut().zip(&self.since) {
            let rest = since.map_or(0, |since| at - since);
            *stolen += rest;
            self.total += rest;
        }
    }
}
