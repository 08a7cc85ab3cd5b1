//! Leads: a task does not get ahead of another whose data it works on.
//!
//! A task that reads what another writes sleeps only when it has read everything. In between, it needs data that leaves
//! no event. The leader counts its steps, and its follower awaits them.

use std::collections::BTreeMap;

use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;

use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::task::{Life, NOBODY};

#[derive(Debug)]
struct Lead {
    steps: u64,
    leader: u32,
    /// How many steps each follower has awaited.
    awaited: BTreeMap<u32, u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Leads {
    all: Vec<Lead>,
    /// Followers that sleep, in order of arrival: the lead, the step, the task.
    sleepers: Vec<(u32, u64, u32)>,
}

impl Leads {
    pub(crate) fn new(number: usize) -> Self {
        let lead = |_| Lead { steps: 0, leader: NOBODY, awaited: BTreeMap::new() };
        Self { all: (0..number).map(lead).collect(), sleepers: Vec::new() }
    }

    /// Removes the first sleeper of this kind, and returns its task.
    fn release(&mut self, is: impl Fn(&[Lead], u32, u64) -> bool) -> Option<u32> {
        let position = self.sleepers.iter().position(|&(lead, step, _)| is(&self.all, lead, step))?;
        Some(self.sleepers.remove(position).2)
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Counts a step of the leader, which enters the kernel to wake a follower.
    pub(crate) fn lead_moves(&mut self, cpu: usize, task: u32, lead: u32) -> Flow {
        let leads = &mut self.objects.leads;
        let this = &mut leads.all[lead as usize];
        this.steps += 1;
        this.leader = task;
        let steps = this.steps;
        let wakes = leads.sleepers.iter().any(|&(other, step, _)| other == lead && step <= steps);
        self.call_if(wakes, cpu, task)
    }

    /// Continues [`Self::lead_moves`] in the kernel.
    pub(crate) fn lead_wakes(&mut self, cpu: usize, lead: u32) {
        let ready = |all: &[Lead], other: u32, step: u64| other == lead && step <= all[lead as usize].steps;
        while let Some(follower) = self.objects.leads.release(ready) {
            self.wake_from_call(cpu, follower, Waker::Task);
        }
    }

    /// A follower awaits the next step. It enters the kernel to sleep.
    pub(crate) fn lead_awaits(&mut self, cpu: usize, task: u32, lead: u32) -> Flow {
        *self.objects.leads.all[lead as usize].awaited.entry(task).or_default() += 1;
        self.call_if(self.lead_is_behind(task, lead), cpu, task)
    }

    /// Continues [`Self::lead_awaits`] in the kernel.
    pub(crate) fn lead_sleep(&mut self, cpu: usize, task: u32, lead: u32) -> Flow {
        if !self.lead_is_behind(task, lead) {
            return Flow::Done;
        }
        let leads = &mut self.objects.leads;
        let step = leads.all[lead as usize].awaited.get(&task).copied().unwrap_or(0);
        leads.sleepers.push((lead, step, task));
        self.block_here(cpu, task)
    }

    /// Whether a follower has to wait: another task leads, is awake, and has not come to the awaited step.
    fn lead_is_behind(&self, task: u32, lead: u32) -> bool {
        let this = &self.objects.leads.all[lead as usize];
        let awake = self.tasks.get(this.leader as usize).is_some_and(|leader| leader.life == Life::Runnable);
        awake && this.leader != task && this.awaited.get(&task).is_some_and(|&step| step > this.steps)
    }

    /// Releases the followers of the running task of `cpu`, which sleeps or ends.
    #[inline]
    pub(crate) fn stops_leading(&mut self, cpu: usize, task: u32) {
        if self.objects.leads.sleepers.is_empty() {
            return;
        }
        let its = |all: &[Lead], lead: u32, _| all[lead as usize].leader == task;
        while let Some(follower) = self.objects.leads.release(its) {
            self.wake(follower, cpu, Waker::Task);
        }
    }
}
