//! A shortcut for messages in succession.
//!
//! Most messages wake no task: the pipe has room or data, and no task waits. For these, [`Machine::passes_message`]
//! does the work of `interpret`'s stages, without checks of known results. It saves a third of a message run's
//! instructions.

use vruntime_sched::Policy;
use vruntime_sched::event::{Event, OverheadKind};
use vruntime_sched::ids::TaskId;
use vruntime_trace::Sink;

use crate::host::EXEC;
use crate::machine::Machine;
use crate::program::{Code, FOREVER};
use crate::task::Next;

/// The path of messages on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The short path, if no observer needs the stages.
    Short,
    /// All stages: an observer reads every event or loops, or system calls can be preempted.
    Long,
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Passes a message on the short path, if the execution event of `cpu` ends its entry, and begins the next
    /// operation. Returns whether it did.
    #[inline(always)]
    #[allow(clippy::inline_always)] // it is the event
    pub(crate) fn passes_message(&mut self, cpu: usize) -> bool {
        let now = self.core.now;
        let this = &mut self.core.cpus[cpu];
        // This excludes the idle task and the stopper.
        let Some(task) = self.tasks.get_mut(this.curr as usize) else { return false };
        if task.next != Next::Enter || self.messages == Way::Long || !this.ends_call(now) || now >= self.stop_at {
            return false;
        }
        let rq = &self.rqs[cpu];
        if rq.need_resched() | rq.notify_resume() {
            return false;
        }
        if !self.objects.pass(self.programs.code[task.pc as usize]) {
            return false;
        }
        debug_assert!(!this.resched, "it is only true while a reschedule is needed");
        this.account_until(now);
        task.pc += 1;
        let mut code = self.programs.code[task.pc as usize];
        if let Code::LoopEnd { back } = code
            && task.loops == FOREVER
            && now > task.loop_start
        {
            let (id, duration, work) = (TaskId(this.curr), now - task.loop_start, task.loop_work);
            (task.pc, task.loop_start, task.loop_work) = (back + 1, now, 0);
            self.core.emit(cpu, &Event::LoopEnd { task: id, duration, work });
            code = self.programs.code[task.pc as usize];
        }
        let cost = match code {
            Code::PipeRead { pipe, bytes } | Code::PipeWrite { pipe, bytes } => self.message_ns(pipe, bytes),
            _ => 0,
        };
        if cost == 0 {
            let task = self.core.cpus[cpu].curr;
            self.tasks[task as usize].next = Next::Fetch;
            self.interpret(cpu, task);
            return true;
        }
        self.core.charge(cpu, OverheadKind::Syscall, cost);
        let this = &mut self.core.cpus[cpu];
        let at = this.paid_at();
        this.exec_at = at;
        let source = self.core.source(cpu, EXEC);
        self.core.queue.arm(source, at);
        true
    }

    /// Returns the cost of a message of `bytes`: system call, copy, and a socket's buffer.
    #[inline]
    pub(crate) fn message_ns(&self, pipe: u32, bytes: u32) -> u64 {
        let copy = u64::from(bytes) * self.core.costs.pipe_ns_per_kib / 1024;
        let socket = self.objects.pipes[pipe as usize].is_socket();
        self.core.costs.syscall_ns + copy + if socket { self.buffer() } else { 0 }
    }
}
