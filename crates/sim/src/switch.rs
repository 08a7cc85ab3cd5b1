//! The context switch: `schedule()` and what the machine does around it.

use vruntime_sched::event::{OverheadKind, PrevState, Running};
use vruntime_sched::ids::CpuId;
use vruntime_sched::{Policy, Scheduler};
use vruntime_trace::Sink;

use crate::cpu::{IDLE, NEVER, STOPPER};
use crate::machine::{Machine, sched};
use crate::task::Life;

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Preempts the running task. Without a request to reschedule, first does the work that is pending on the way to
    /// user mode (6.18+: throttling by task). That work can request it.
    pub(crate) fn preempt(&mut self, cpu: usize) {
        if !self.rqs[cpu].need_resched() {
            sched!(self, cpu).return_to_user(CpuId(cpu as u32));
            if !self.rqs[cpu].need_resched() {
                self.leave_interrupt(cpu);
                return;
            }
        }
        self.schedule(cpu, PrevState::Preempted);
    }

    /// Switches `cpu` to its next task. The CPU's account must be settled, and its unpreemptible debts paid.
    pub(crate) fn schedule(&mut self, cpu: usize, prev_state: PrevState) {
        let soft = self.core.report_soft(cpu);
        let this = &mut self.core.cpus[cpu];
        debug_assert_eq!(this.softirq, 0, "softirqs come before");
        this.resched = false;
        let prev = this.curr;
        if prev < STOPPER {
            let task = &mut self.tasks[prev as usize];
            task.work = this.work;
            task.fraction = this.fraction;
            task.unscaled = this.unscaled;
            task.soft = u32::try_from(soft).unwrap_or(u32::MAX);
            task.soft_kind = this.soft_kind;
            match prev_state {
                PrevState::Preempted | PrevState::Yielded => {}
                PrevState::Sleeping | PrevState::Blocked => task.life = Life::Asleep,
                PrevState::Dead => task.life = Life::Dead,
            }
        }
        this.debt = 0;
        this.work = 0;
        this.fraction = 0;

        let next = sched!(self, cpu).schedule(CpuId(cpu as u32), prev_state);
        let curr = match next.next {
            Running::Idle => IDLE,
            Running::Stopper => STOPPER,
            Running::Task(task) => task.0,
        };
        self.core.cpus[cpu].curr = curr;
        let searches = self.core.balancing_ns();
        if curr != prev {
            let comes_back = self.switch_mm(cpu, curr) + self.refill(cpu, curr);
            self.core.charge(cpu, OverheadKind::Switch, self.core.costs.switch_ns + comes_back);
        } else if curr < STOPPER {
            self.core.sink.stays(self.core.now, CpuId(cpu as u32));
        }
        self.core.charge(cpu, OverheadKind::Switch, searches);
        if curr < STOPPER {
            self.resume(cpu, curr, next.migrated);
        }
        if (prev == IDLE) != (curr == IDLE) {
            if curr == IDLE {
                let this = &mut self.core.cpus[cpu];
                this.awake_at = NEVER;
                // It is idle from the end of the switch, or from now if that is free.
                this.kernel_end = this.kernel_end.max(self.core.now);
                self.stop_tick(cpu);
            } else {
                if self.idle.is_some() {
                    sched!(self, cpu).set_idle_state(CpuId(cpu as u32), None);
                }
                self.start_tick(cpu);
                sched!(self, cpu).tick_restarted(CpuId(cpu as u32));
            }
            self.update_core_speed(cpu);
        }
        self.leave_interrupt_here(cpu);
        if curr == IDLE
            && let Some(clocks) = &mut self.clocks
        {
            clocks.idle_calls[cpu] += 1;
        }
    }

    /// Puts a task's state on its CPU.
    #[inline]
    fn resume(&mut self, cpu: usize, task: u32, migrated: bool) {
        let core = &mut self.core;
        let that = &mut self.tasks[task as usize];
        that.last_cpu = cpu as u32;
        let this = &mut core.cpus[cpu];
        this.work = that.work;
        this.fraction = that.fraction;
        this.unscaled = that.unscaled;
        if that.unscaled {
            // The operation ends at a fixed time, so the wait shortens it.
            this.work = that.work.min(that.due.saturating_sub(core.now));
            if let Some(this) = self.loops.as_mut().and_then(|loops| loops.get_mut(task as usize)) {
                this.has_waited(that.work - core.cpus[cpu].work);
            }
        }
        let (soft, spins) = (u64::from(std::mem::take(&mut that.soft)), that.wait.queued);
        let soft_kind = that.soft_kind;
        if std::mem::take(&mut that.owes_return) {
            core.charge(cpu, OverheadKind::Syscall, core.costs.syscall_return_ns);
        }
        core.charge_soft(cpu, soft_kind, soft);
        if migrated {
            core.charge_soft(cpu, OverheadKind::Migration, core.costs.migration_ns);
        }
        if spins {
            self.spin_resumes(cpu, task);
        }
    }
}
