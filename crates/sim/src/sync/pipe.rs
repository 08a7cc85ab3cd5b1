//! Pipes and other byte channels, a message at a time.
//!
//! As in Linux, one waiting reader is woken when the pipe becomes readable, not at every write, and a reader that
//! leaves something behind wakes the next; the same the other way round for writers: all wait exclusively. Wakeups are
//! synchronous: the waker says that it is about to sleep.

use vruntime_sched::Policy;
use vruntime_sched::event::PrevState;
use vruntime_trace::Sink;

use super::WaitQueue;
use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::program::Code;

/// A pipe.
#[derive(Debug)]
pub(crate) struct Pipe {
    capacity: u32,
    used: u32,
    readers: WaitQueue,
    writers: WaitQueue,
}

impl Pipe {
    pub(crate) fn new(pipe: &vruntime_workload::program::Pipe) -> Self {
        let (readers, writers) = (WaitQueue::default(), WaitQueue::default());
        Self { capacity: pipe.capacity, used: 0, readers, writers }
    }

    fn space(&self) -> u32 {
        self.capacity - self.used
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Bytes that the task waiting longest in `queue` wants to move.
    fn wanted(&self, queue: WaitQueue) -> Option<u32> {
        let first = queue.first()?;
        match self.programs.code[self.tasks[first as usize].pc as usize] {
            Code::PipeRead { bytes, .. } | Code::PipeWrite { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn write(&mut self, cpu: usize, task: u32, index: u32, bytes: u32) -> Flow {
        let pipe = &mut self.objects.pipes[index as usize];
        if pipe.space() < bytes {
            pipe.writers.push(&mut self.tasks, task);
            self.tasks[task as usize].due = self.core.now;
            return self.block(cpu, task, PrevState::Sleeping);
        }
        let before = pipe.used;
        pipe.used += bytes;
        let (used, readers) = (pipe.used, pipe.readers);
        if self.wanted(readers).is_some_and(|wanted| (before < wanted || before == 0) && wanted <= used) {
            self.wake_reader(cpu, index);
        }
        let pipe = &self.objects.pipes[index as usize];
        let (space, writers) = (pipe.space(), pipe.writers);
        if self.wanted(writers).is_some_and(|wanted| wanted <= space) {
            self.wake_writer(cpu, index);
        }
        Flow::Done
    }

    pub(crate) fn read(&mut self, cpu: usize, task: u32, index: u32, bytes: u32) -> Flow {
        let pipe = &mut self.objects.pipes[index as usize];
        if pipe.used < bytes {
            pipe.readers.push(&mut self.tasks, task);
            self.tasks[task as usize].due = self.core.now;
            return self.block(cpu, task, PrevState::Sleeping);
        }
        let before = pipe.space();
        pipe.used -= bytes;
        let (space, writers) = (pipe.space(), pipe.writers);
        if self.wanted(writers).is_some_and(|wanted| before < wanted && wanted <= space) {
            self.wake_writer(cpu, index);
        }
        let pipe = &self.objects.pipes[index as usize];
        let (used, readers) = (pipe.used, pipe.readers);
        if self.wanted(readers).is_some_and(|wanted| wanted <= used) {
            self.wake_reader(cpu, index);
        }
        Flow::Done
    }

    fn wake_reader(&mut self, cpu: usize, index: u32) {
        let readers = self.objects.pipes[index as usize].readers;
        self.objects.pipes[index as usize].readers = self.wake_up(cpu, readers, 1, true);
    }

    fn wake_writer(&mut self, cpu: usize, index: u32) {
        let writers = self.objects.pipes[index as usize].writers;
        self.objects.pipes[index as usize].writers = self.wake_up(cpu, writers, 1, true);
    }
}
