//! Scripts: the scheduler's calls in a run on one CPU, for repetition without a machine.

use miette::IntoDiagnostic;
use vruntime_sched::event::{Event, OverheadKind, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::{Kernel, kernel};
use vruntime_sim::Config;
use vruntime_trace::{GroupInfo, Sink, TaskInfo};
use vruntime_workload::program::Workload;

use super::at_constants;
use crate::simulate::Failure;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    /// `wake_new`.
    Start(TaskId),
    /// `wake`, by a task that will sleep (`sync`, as of pipes), or by an interrupt.
    Wake { task: TaskId, sync: bool, irq: bool },
    /// `schedule` with a switch to this task.
    Schedule(PrevState, Running),
    /// `schedule` without a switch.
    Again,
    /// `tick`, and due balancing.
    Tick,
}

/// A call and its time, nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) at: u64,
    pub(crate) call: Call,
}

impl Step {
    pub(crate) fn switches(&self) -> bool {
        matches!(self.call, Call::Schedule(..))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Made {
    pub(crate) group: GroupId,
    pub(crate) nice: i8,
}

/// The calls of one CPU's scheduler.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) kernel: Kernel,
    pub(crate) hz: u32,
    /// Parent and weight of each group below the root.
    pub(crate) groups: Vec<(GroupId, u32)>,
    pub(crate) tasks: Vec<Made>,
    pub(crate) steps: Vec<Step>,
    pub(crate) switches: u64,
}

impl Script {
    /// Records at most `most` calls of a run on one CPU.
    pub(crate) fn record(workload: &Workload, config: &Config, most: usize) -> miette::Result<Self> {
        let mut config = config.clone();
        // Without kernel threads that a clock wakes.
        config.machine.costs.kworker_ns = 0;
        let mut recorder = Recorder {
            groups: Vec::new(),
            tasks: Vec::new(),
            steps: Vec::new(),
            switches: 0,
            most,
            running: Running::Idle,
            ready: Vec::new(),
            barriers: !workload.barriers.is_empty(),
        };
        let mut watch = |_| std::ops::ControlFlow::Continue(());
        vruntime_sim::run_dyn(workload, &config, &mut recorder, &mut watch).map_err(Failure::Refused)?;
        Ok(Self {
            kernel: config.kernel,
            hz: config.machine.hz,
            groups: recorder.groups,
            tasks: recorder.tasks,
            steps: recorder.steps,
            switches: recorder.switches,
        })
    }
}

/// A script as numbers: the kernel's name, HZ, groups, tasks, calls, switches.
type Numbers = (String, u32, Vec<(u32, u32)>, Vec<(u32, i8)>, Vec<(u64, u8, u32, u8)>, u64);

const IDLE: u32 = u32::MAX;
const STOPPER: u32 = u32::MAX - 1;
const STATES: [PrevState; 5] =
    [PrevState::Preempted, PrevState::Yielded, PrevState::Sleeping, PrevState::Blocked, PrevState::Dead];

impl Script {
    /// Serializes the script for another process.
    pub(crate) fn write(&self) -> miette::Result<Vec<u8>> {
        let step = |step: &Step| {
            let (kind, number, more) = match step.call {
                Call::Start(task) => (0, task.0, 0),
                Call::Wake { task, sync, irq } => (1, task.0, u8::from(sync) | u8::from(irq) << 1),
                Call::Schedule(state, next) => {
                    let next = match next {
                        Running::Task(task) => task.0,
                        Running::Idle => IDLE,
                        Running::Stopper => STOPPER,
                    };
                    (2, next, STATES.iter().position(|known| *known == state).unwrap_or(0) as u8)
                }
                Call::Again => (3, 0, 0),
                Call::Tick => (4, 0, 0),
            };
            (step.at, kind, number, more)
        };
        let numbers: Numbers = (
            self.kernel.name.to_owned(),
            self.hz,
            self.groups.iter().map(|(parent, weight)| (parent.0, *weight)).collect(),
            self.tasks.iter().map(|made| (made.group.0, made.nice)).collect(),
            self.steps.iter().map(step).collect(),
            self.switches,
        );
        serde_json::to_vec(&numbers).into_diagnostic()
    }

    /// Reads the output of [`Self::write`].
    pub(crate) fn read(bytes: &[u8]) -> miette::Result<Self> {
        let (name, hz, groups, tasks, steps, switches): Numbers = serde_json::from_slice(bytes).into_diagnostic()?;
        let step = |(at, kind, number, more): (u64, u8, u32, u8)| {
            let task = TaskId(number);
            let next = match number {
                IDLE => Running::Idle,
                STOPPER => Running::Stopper,
                _ => Running::Task(task),
            };
            let call = match kind {
                0 => Call::Start(task),
                1 => Call::Wake { task, sync: more & 1 != 0, irq: more & 2 != 0 },
                2 => Call::Schedule(STATES[usize::from(more).min(STATES.len() - 1)], next),
                3 => Call::Again,
                _ => Call::Tick,
            };
            Step { at, call }
        };
        Ok(Self {
            kernel: at_constants(kernel(&name).into_diagnostic()?),
            hz,
            groups: groups.into_iter().map(|(parent, weight)| (GroupId(parent), weight)).collect(),
            tasks: tasks.into_iter().map(|(group, nice)| Made { group: GroupId(group), nice }).collect(),
            steps: steps.into_iter().map(step).collect(),
            switches,
        })
    }
}

struct Recorder {
    groups: Vec<(GroupId, u32)>,
    tasks: Vec<Made>,
    steps: Vec<Step>,
    switches: u64,
    most: usize,
    running: Running,
    /// Tasks after their first phase. With a barrier, other tasks wait at it.
    ready: Vec<bool>,
    barriers: bool,
}

impl Recorder {
    fn push(&mut self, at: u64, call: Call) {
        if self.steps.len() < self.most {
            let step = Step { at, call };
            self.switches += u64::from(step.switches());
            self.steps.push(step);
        }
    }
}

impl Sink for Recorder {
    fn group(&mut self, _id: GroupId, info: &GroupInfo<'_>) {
        self.groups.extend(info.parent.map(|parent| (parent, info.weight)));
    }

    fn task(&mut self, _id: TaskId, info: &TaskInfo<'_>) {
        self.tasks.push(Made { group: info.group, nice: info.nice });
        self.ready.push(!self.barriers);
    }

    fn event(&mut self, at: u64, _cpu: CpuId, event: &Event) {
        match *event {
            Event::Fork { child, .. } => self.push(at, Call::Start(child)),
            Event::Waking { task, .. } => {
                let irq = self.running.task().is_none();
                // Wakeups by pipes are synchronous, those by a barrier are not.
                let sync = !irq && self.ready[task.index()];
                self.push(at, Call::Wake { task, sync, irq });
            }
            Event::LoopEnd { task, .. } => self.ready[task.index()] = true,
            Event::Switch { prev, prev_state, next } => {
                let state = if prev.task().is_some() { prev_state } else { PrevState::Preempted };
                self.push(at, Call::Schedule(state, next));
                self.running = next;
            }
            Event::Overhead { kind: OverheadKind::Tick, .. } => self.push(at, Call::Tick),
            _ => {}
        }
    }

    fn stays(&mut self, at: u64, _cpu: CpuId) {
        self.push(at, Call::Again);
    }
}
