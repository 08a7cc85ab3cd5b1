//! Execution of a CPU between interrupts. Its event fires when debts are paid and work is done, or when the kernel can
//! be preempted.

use vruntime_sched::event::PrevState;
use vruntime_sched::ids::CpuId;
use vruntime_sched::{Policy, Scheduler};
use vruntime_trace::Sink;

use crate::cpu::{IDLE, NEVER, STOPPER};
use crate::host::EXEC;
use crate::machine::{Machine, sched};

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Updates the SMT siblings' speed when `cpu` becomes busy or idle.
    pub(crate) fn update_core_speed(&mut self, cpu: usize) {
        let core = self.core_of[cpu] as usize;
        if self.cores[core].len() > 1 {
            self.set_core_speed(core, cpu);
        }
    }

    /// Updates the speed of a core's CPUs. `changing` arms its own execution event.
    pub(crate) fn set_core_speed(&mut self, core: usize, changing: usize) {
        let busy = self.cores[core].iter().filter(|&&cpu| !self.core.cpus[cpu as usize].is_idle()).count() as u32;
        let permille = if busy <= 1 { 1000 } else { 2 * self.smt_speed_permille / busy };
        for index in 0..self.cores[core].len() {
            let sibling = self.cores[core][index] as usize;
            let mut speed = self.capacity[sibling] * permille.max(1);
            if let Some(clocks) = &self.clocks {
                speed = (u64::from(speed) * clocks.speed_millionths(sibling) / 1_000_000).max(1) as u32;
            }
            if self.core.cpus[sibling].speed != speed {
                self.core.cpus[sibling].account_until(self.core.now);
                self.core.cpus[sibling].speed = speed;
                if sibling != changing {
                    self.arm_exec(sibling);
                }
            }
        }
    }

    /// Whether `cpu` runs a task's own code, or will after its debts.
    #[inline]
    pub(crate) fn in_user_mode(&self, cpu: usize) -> bool {
        let curr = self.core.cpus[cpu].curr;
        curr < STOPPER && self.tasks[curr as usize].in_user_mode()
    }

    /// Whether the running task has to reschedule, or to check for that before user mode.
    #[inline]
    pub(crate) fn leaves(&self, cpu: usize, user: bool) -> bool {
        let rq = &self.rqs[cpu];
        rq.need_resched() | (user & rq.notify_resume())
    }

    /// Arms the execution event of `cpu`, whose account is settled.
    pub(crate) fn arm_exec(&mut self, cpu: usize) {
        let user = self.in_user_mode(cpu);
        self.arm_exec_in(cpu, user);
    }

    /// As [`Self::arm_exec`], inlined for the end of every event. `user`: see [`Self::in_user_mode`].
    #[inline(always)]
    #[allow(clippy::inline_always)] // a call would cost a third as much as what it does
    pub(crate) fn arm_exec_in(&mut self, cpu: usize, user: bool) {
        let this = &mut self.core.cpus[cpu];
        let at = match this.curr {
            _ if this.is_stopped() => NEVER,
            _ if this.softirq != 0 => this.softirq_at(),
            IDLE if this.resched => this.paid_at(),
            IDLE => NEVER,
            STOPPER => this.paid_at(),
            _ if this.resched && (self.preempt_full || user) => this.kernel_end.max(self.core.now),
            _ => this.done_at(),
        };
        // A fired execution event has set `exec_at` to NEVER, so equality means armed.
        if at != this.exec_at {
            this.exec_at = at;
            let cpu_exec = self.core.source(cpu, EXEC);
            if at == NEVER {
                self.core.queue.cancel(cpu_exec);
            } else {
                self.core.queue.arm(cpu_exec, at);
            }
        }
    }

    pub(crate) fn on_exec(&mut self, cpu: usize) {
        self.core.cpus[cpu].exec_at = NEVER;
        if self.passes_message(cpu) {
            return;
        }
        let now = self.core.now;
        let this = &mut self.core.cpus[cpu];
        this.account_until(now);
        let softirq = this.take_softirq(now);
        if softirq != 0 {
            self.on_softirq(cpu, softirq);
            return;
        }
        match self.core.cpus[cpu].curr {
            IDLE => {
                if self.rqs[cpu].need_resched() {
                    self.preempt(cpu);
                } else {
                    self.leave_interrupt(cpu);
                }
            }
            STOPPER => {
                sched!(self, cpu).stopper_work(CpuId(cpu as u32));
                self.schedule(cpu, PrevState::Sleeping);
            }
            task => self.on_task_exec(cpu, task),
        }
    }

    fn on_task_exec(&mut self, cpu: usize, task: u32) {
        let this = &self.core.cpus[cpu];
        let paid = this.debt == 0;
        let done = paid && this.work == 0;
        let kernel_end = this.kernel_end;
        if paid {
            self.core.report_soft(cpu);
        }
        let user = self.tasks[task as usize].in_user_mode();
        let preemptible = user || (self.preempt_full && !done);
        if preemptible && self.core.now >= kernel_end && self.leaves(cpu, user) {
            self.preempt(cpu);
        } else if done {
            self.interpret(cpu, task);
        } else {
            self.arm_exec(cpu);
        }
    }
}
