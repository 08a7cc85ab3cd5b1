//! Batches: a task takes all wakeups that were there at once, and puts off the rest of its work for each.

use std::collections::VecDeque;

use vruntime_sched::Policy;
use vruntime_trace::Sink;

use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::program::Programs;
use crate::sync::inbox::{Inbox, Wait};

/// What a task puts off. It exists from the first instruction of this module on.
#[derive(Debug)]
pub(super) struct Batch {
    /// The wakeups that the task still takes before it does what it put off.
    left: usize,
    /// The task has slept, and has not yet looked how many wakeups are there.
    slept: bool,
    /// The task slept in its last wait, and has not paid for it.
    pays: bool,
    /// The code that was put off.
    put_off: VecDeque<u32>,
    /// Where the task continues behind that code, if it executes it.
    back: Option<u32>,
}

impl Default for Batch {
    fn default() -> Self {
        Self { left: 0, slept: true, pays: true, put_off: VecDeque::new(), back: None }
    }
}

impl Batch {
    fn looks(&mut self, kept: usize) {
        if std::mem::take(&mut self.slept) {
            self.left = kept;
        }
    }
}

impl Inbox {
    /// Notes that a wakeup ends the task's sleep. When it runs, it finds all wakeups until then.
    pub(super) fn begins_batch(&mut self, task: u32) {
        if let Some(batch) = self.batches.get_mut(&task) {
            (batch.slept, batch.pays) = (true, true);
        }
    }

    /// Returns the code that the task put off, if its batch ends before this wait.
    pub(super) fn ends_batch(&mut self, task: u32, wait: Wait, programs: &Programs) -> Option<u32> {
        let (kept, finds) = (self.kept(), self.batches.contains_key(&task) && self.is_full(task, wait, programs));
        let batch = self.batches.get_mut(&task)?;
        batch.looks(kept);
        batch.pays = false;
        if batch.left > 0 && finds {
            batch.left -= 1;
            return None;
        }
        let put_off = batch.put_off.pop_front();
        if put_off.is_some() {
            batch.back = Some(wait.at);
        } else {
            batch.left = kept.saturating_sub(1);
        }
        put_off
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Puts off the code between this instruction and `to`.
    pub(crate) fn puts_off(&mut self, task: u32, inbox: u32, to: u32) -> Flow {
        if to == self.tasks[task as usize].pc + 1 {
            return Flow::Done;
        }
        let this = &mut self.objects.inboxes[inbox as usize];
        let kept = this.kept();
        let batch = this.batches.entry(task).or_default();
        batch.looks(kept);
        let at = &mut self.tasks[task as usize].pc;
        batch.put_off.push_back(*at + 1);
        *at = to;
        Flow::Stage
    }

    /// Runs for the cost of a sleep, if the task has slept.
    pub(crate) fn runs_if_slept(&mut self, cpu: usize, task: u32, inbox: u32, work: u64) -> Flow {
        let batch = self.objects.inboxes[inbox as usize].batches.entry(task).or_default();
        if !std::mem::take(&mut batch.pays) || work == 0 {
            return Flow::Done;
        }
        self.runs(cpu, task, work)
    }

    /// Continues with the next code that was put off, or where the task came from.
    pub(crate) fn put_off_ends(&mut self, task: u32, inbox: u32) -> Flow {
        let Some(batch) = self.objects.inboxes[inbox as usize].batches.get_mut(&task) else { return Flow::Done };
        let Some(next) = batch.put_off.pop_front().or_else(|| batch.back.take()) else { return Flow::Done };
        self.tasks[task as usize].pc = next;
        Flow::Stage
    }

    /// Does what was put off, and then continues.
    pub(crate) fn catches_up(&mut self, task: u32, inbox: u32) -> Flow {
        let Some(batch) = self.objects.inboxes[inbox as usize].batches.get_mut(&task) else { return Flow::Done };
        let Some(put_off) = batch.put_off.pop_front() else { return Flow::Done };
        let at = &mut self.tasks[task as usize].pc;
        batch.back = Some(*at + 1);
        *at = put_off;
        Flow::Stage
    }
}
