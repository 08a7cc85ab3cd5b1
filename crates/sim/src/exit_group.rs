//! Processes whose tasks end together (`exit_group`): one task kills the others.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_sched::event::PrevState;
use vruntime_sched::ids::TaskId;
use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;
use vruntime_workload::program::{Op, Task, Workload};

use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::program::Code;
use crate::task::{Life, Next};

/// The living tasks of processes that end by `exit_group`.
#[derive(Debug, Default)]
pub(crate) struct ExitGroups {
    /// Each template's process, if that ends so. Empty if none does.
    process_of: Vec<Option<u32>>,
    alive: BTreeMap<u32, BTreeSet<u32>>,
    /// Killed tasks before their [`Code::AwaitKill`].
    killed: BTreeSet<u32>,
}

impl ExitGroups {
    pub(crate) fn new(workload: &Workload) -> Self {
        let kills = |task: &&Task| task.phases.iter().flat_map(|phase| &phase.ops).any(|op| *op == Op::ExitGroup);
        let end: BTreeSet<u32> = workload.tasks.iter().filter(kills).filter_map(|task| task.process).collect();
        if end.is_empty() {
            return Self::default();
        }
        let process = |task: &Task| task.process.filter(|process| end.contains(process));
        Self { process_of: workload.tasks.iter().map(process).collect(), ..Self::default() }
    }

    #[inline]
    pub(crate) fn any_killed(&self) -> bool {
        !self.killed.is_empty()
    }

    /// Removes a killed task, which is at its end. Returns whether it was killed.
    pub(crate) fn dies(&mut self, task: u32) -> bool {
        self.killed.remove(&task)
    }

    fn process(&self, template: u32) -> Option<u32> {
        self.process_of.get(template as usize).copied().flatten()
    }

    pub(crate) fn ends(&mut self, template: u32, task: u32) {
        if let Some(process) = self.process(template)
            && let Some(alive) = self.alive.get_mut(&process)
        {
            alive.remove(&task);
            self.killed.remove(&task);
        }
    }
}

impl Code {
    /// Whether a killed task leaves it out.
    fn is_for_the_living(self) -> bool {
        match self {
            Self::Device(_)
            | Self::PoolHelp { .. }
            | Self::PoolSleep { .. }
            | Self::PoolWait { .. }
            | Self::PoolAgain { .. }
            | Self::InboxWait { .. }
            | Self::LeadAwaits(_) => true,
            code => code.is_sleep(),
        }
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Counts a new task. A child of a killed task is killed, too.
    #[inline]
    pub(crate) fn joins_process(&mut self, task: u32, parent: Option<TaskId>) {
        let groups = &mut self.exit_groups;
        let Some(process) = groups.process(self.tasks[task as usize].template) else { return };
        groups.alive.entry(process).or_default().insert(task);
        if let Some(TaskId(parent)) = parent
            && groups.killed.contains(&parent)
            && groups.process(self.tasks[parent as usize].template) == Some(process)
        {
            groups.killed.insert(task);
        }
    }

    /// Kills the other tasks of the process.
    pub(crate) fn exit_group(&mut self, cpu: usize, task: u32) {
        let groups = &self.exit_groups;
        let alive = groups.process(self.tasks[task as usize].template).and_then(|process| groups.alive.get(&process));
        let others: Vec<u32> = alive.into_iter().flatten().copied().filter(|&other| other != task).collect();
        for other in others {
            self.exit_groups.killed.insert(other);
            if self.interrupts(other) {
                self.wake_from_call(cpu, other, Waker::Task);
            }
        }
        self.pool_begins(task);
    }

    /// Ends a killed task's sleep, or its way to it. Returns whether it must be woken.
    fn interrupts(&mut self, task: u32) -> bool {
        let this = &self.tasks[task as usize];
        let (asleep, code) = (this.life == Life::Asleep, self.programs.code[this.pc as usize]);
        match code {
            Code::InboxWait { inbox, .. } => self.objects.inboxes[inbox as usize].forgets(task),
            Code::AwaitKill => asleep,
            Code::PoolSleep { pool, .. } => self.objects.pools[pool as usize].forgets(task),
            code if code.is_sleep() && asleep => {
                self.cancel_sleep(task);
                true
            }
            _ => false,
        }
    }

    /// Puts the task to sleep until it is killed.
    pub(crate) fn awaits_kill(&mut self, cpu: usize, task: u32) -> Flow {
        let this = &mut self.tasks[task as usize];
        if self.exit_groups.dies(task) || self.exit_groups.process(this.template).is_none() {
            return Flow::Done;
        }
        this.due = self.core.now;
        self.block(cpu, task, PrevState::Sleeping)
    }

    /// Lets a killed task leave its sleeps out. Returns whether it does so with this one.
    #[cold]
    pub(crate) fn is_dying(&mut self, task: u32, code: Code) -> bool {
        let leaves_out = code.is_for_the_living() && self.exit_groups.killed.contains(&task);
        if leaves_out {
            let this = &mut self.tasks[task as usize];
            this.pc += 1;
            this.next = Next::Fetch;
        }
        leaves_out
    }
}
