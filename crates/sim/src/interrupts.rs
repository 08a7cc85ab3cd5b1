//! Ticks, timers, and interrupts of other CPUs. Each updates the CPU's account, charges its cost and works at once. Its
//! reschedule happens at the end of its time.

use vruntime_sched::event::{Event, OverheadKind};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::{Policy, SchedPolicy, Scheduler, Timer, Waker};
use vruntime_trace::Sink;

use crate::cpu::{BALANCE, NEVER, NOHZ, NOHZ_BALANCE, RT_PUSH};
use crate::host::{HRTICK, IPI, TICK};
use crate::machine::{Machine, sched};
use crate::task::Life;

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Returns whether `cpu` can take an interrupt now. Otherwise delays it.
    #[inline]
    pub(crate) fn enter_interrupt(&mut self, cpu: usize, source: u32) -> bool {
        let later = self.interrupted(cpu, source != self.core.source(cpu, IPI));
        match later {
            None => return true,
            Some(NEVER) => self.hold(cpu, source),
            Some(at) => self.core.queue.arm(source, at),
        }
        false
    }

    /// Handles an interrupt's arrival. Returns the next attempt's time if the CPU cannot take it now: an idle CPU first
    /// wakes up. [`NEVER`]: the host decides.
    #[inline]
    pub(crate) fn interrupted(&mut self, cpu: usize, timer: bool) -> Option<u64> {
        if self.waits_for_host(cpu, timer) {
            return Some(NEVER);
        }
        let now = self.core.now;
        self.core.cpus[cpu].account_until(now);
        let exit = self.core.idle_exit(cpu, now);
        let this = &mut self.core.cpus[cpu];
        if this.is_idle() && this.debt == 0 && !this.resched && this.awake_at != now {
            let awake_at = now.saturating_add(exit);
            if this.awake_at < now || this.awake_at > awake_at {
                this.awake_at = awake_at;
            }
            if this.awake_at != now {
                return Some(this.awake_at);
            }
        }
        self.taken(cpu, timer);
        None
    }

    #[inline]
    fn taken(&mut self, cpu: usize, timer: bool) {
        if timer && let Some(host) = &mut self.host {
            host.interrupt_taken(cpu);
        }
    }

    /// Ends an unpaid kernel path, and checks for a reschedule.
    pub(crate) fn leave_interrupt(&mut self, cpu: usize) {
        self.leave_interrupt_here(cpu);
    }

    /// As [`Self::leave_interrupt`], inlined.
    #[inline(always)]
    #[allow(clippy::inline_always)] // see `arm_exec_in`
    pub(crate) fn leave_interrupt_here(&mut self, cpu: usize) {
        let user = self.in_user_mode(cpu);
        self.leave_interrupt_in(cpu, user);
    }

    /// As [`Self::leave_interrupt_here`]; `user`: see [`Self::in_user_mode`].
    #[inline(always)]
    #[allow(clippy::inline_always)] // see `arm_exec_in`
    pub(crate) fn leave_interrupt_in(&mut self, cpu: usize, user: bool) {
        debug_assert_eq!(user, self.in_user_mode(cpu));
        if self.governed {
            self.govern(cpu);
        }
        let rq = &self.rqs[cpu];
        let resched = rq.need_resched() | (rq.notify_resume() & user);
        let this = &mut self.core.cpus[cpu];
        this.resched = resched;
        if self.host.is_some() {
            let busy = resched || this.softirq != 0 || !this.is_idle();
            self.tell_host(cpu, busy);
        }
        self.arm_exec_in(cpu, user);
    }

    #[cold]
    fn govern(&mut self, cpu: usize) {
        if self.clocks.is_some() {
            self.update_frequency(cpu);
        }
        if self.idle.is_some() {
            self.choose_idle_state(cpu);
        }
    }

    #[inline]
    fn charge_searches(&mut self, cpu: usize, kind: OverheadKind) {
        let ns = self.core.balancing_ns();
        if ns > 0 {
            self.core.charge(cpu, kind, ns);
        }
    }

    #[inline(never)]
    pub(crate) fn on_tick(&mut self, cpu: usize) {
        if self.waits_for_host(cpu, true) {
            self.hold(cpu, self.core.source(cpu, TICK));
            return;
        }
        self.taken(cpu, true);
        let now = self.core.now;
        self.core.cpus[cpu].account_until(now);
        let owed = self.core.cpus[cpu].debt;
        self.core.charge(cpu, OverheadKind::Tick, self.core.costs.tick_ns);
        self.start_tick(cpu);
        let id = CpuId(cpu as u32);
        let balances = sched!(self, cpu).tick(id);
        self.take_due(cpu, true);
        // 2.6.15 searches here, later kernels in the softirq.
        self.charge_searches(cpu, OverheadKind::Tick);
        if balances {
            let this = &mut self.core.cpus[cpu];
            this.raise_softirq(BALANCE, now, this.debt - owed);
        }
        self.leave_interrupt(cpu);
    }

    /// Handles SCHED_SOFTIRQ at the return of its interrupt (`run_rebalance_domains`).
    #[inline(never)]
    pub(crate) fn on_softirq(&mut self, cpu: usize, why: u8) {
        let id = CpuId(cpu as u32);
        if why & NOHZ_BALANCE != 0 {
            let owed = self.core.cpus[cpu].debt;
            let goes_on = sched!(self, cpu).nohz_balance(id);
            self.charge_searches(cpu, OverheadKind::Ipi);
            if goes_on {
                let (now, this) = (self.core.now, &mut self.core.cpus[cpu]);
                this.raise_softirq(NOHZ_BALANCE, now, this.debt - owed);
            }
        }
        if why & BALANCE != 0 {
            sched!(self, cpu).balance(id);
            self.charge_searches(cpu, OverheadKind::Tick);
        }
        self.leave_interrupt(cpu);
    }

    #[inline(never)]
    pub(crate) fn on_ipi(&mut self, cpu: usize) {
        if !self.enter_interrupt(cpu, self.core.source(cpu, IPI)) {
            return;
        }
        let why = std::mem::take(&mut self.core.cpus[cpu].ipi);
        self.core.charge(cpu, OverheadKind::Ipi, self.core.costs.ipi_ns);
        if why & NOHZ != 0 {
            self.core.cpus[cpu].raise_softirq(NOHZ_BALANCE, self.core.now, self.core.costs.ipi_ns);
        }
        if why & RT_PUSH != 0 {
            let id = CpuId(cpu as u32);
            sched!(self, cpu).timer(Timer::RtPush(id), id);
        }
        self.leave_interrupt(cpu);
    }

    #[inline(never)]
    pub(crate) fn on_hrtick(&mut self, cpu: usize) {
        if !self.enter_interrupt(cpu, self.core.source(cpu, HRTICK)) {
            return;
        }
        self.core.charge(cpu, OverheadKind::Timer, self.core.costs.timer_ns);
        let id = CpuId(cpu as u32);
        sched!(self, cpu).timer(Timer::Hrtick(id), id);
        self.take_due(cpu, true);
        self.leave_interrupt(cpu);
    }

    /// Handles the first due timer of the scheduler's own.
    #[inline(never)]
    pub(crate) fn on_timers(&mut self) {
        let Some((timer, cpu)) = self.core.timers.first(self.core.now) else {
            self.core.arm_timers();
            return;
        };
        // A CPU's own timer fires even offline, because it only updates accounts.
        let cpu = if timer.cpu().is_some() { cpu as usize } else { self.working(cpu as usize) };
        if let Some(at) = self.interrupted(cpu, true) {
            // Other CPUs' timers need not wait for this one.
            self.core.timers.arm(timer, at, cpu as u32);
            self.core.arm_timers();
            return;
        }
        self.core.timers.cancel(timer);
        self.core.charge(cpu, OverheadKind::Timer, self.core.costs.timer_ns);
        sched!(self, cpu).timer(timer, CpuId(cpu as u32));
        self.core.arm_timers();
        self.take_due(cpu, true);
        self.leave_interrupt(cpu);
    }

    /// Runs a task for the first time: forked on `cpu`, or already there (`was_there`).
    pub(crate) fn start(&mut self, task: u32, parent: Option<TaskId>, cpu: usize, was_there: bool) {
        let now = self.core.now;
        self.core.cpus[cpu].account_until(now);
        self.tasks[task as usize].life = Life::Runnable;
        self.round_wakes(task);
        self.born(task, parent, cpu);
        if was_there {
            sched!(self, cpu).wake_new_in_place(TaskId(task));
        } else {
            sched!(self, cpu).wake_new(TaskId(task), CpuId(cpu as u32));
        }
    }

    pub(crate) fn born(&mut self, task: u32, parent: Option<TaskId>, cpu: usize) {
        self.core.emit(cpu, &Event::Fork { parent, child: TaskId(task) });
        self.joins_process(task, parent);
        self.joins_pool(task);
        let initial = self.programs.initial[self.tasks[task as usize].template as usize];
        if let Some(attr) = self.programs.settings[initial as usize].policy
            && attr.policy == SchedPolicy::Deadline
        {
            // A deadline task requests its reservation as it starts.
            let set = sched!(self, cpu).set_scheduler(TaskId(task), attr);
            if set.is_err() {
                let task = TaskId(task);
                // Observers know it by its intended policy.
                self.core.emit(cpu, &Event::SetPolicy { task, policy: SchedPolicy::Normal, rt_priority: 0 });
            }
            self.refuse(task, set);
        }
    }

    /// Wakes `task` from code on `cpu`, or keeps it awake.
    pub(crate) fn wake(&mut self, task: u32, cpu: usize, waker: Waker) {
        self.round_wakes(task);
        let sleeper = &mut self.tasks[task as usize];
        if sleeper.life == Life::Asleep {
            sleeper.life = Life::Runnable;
            sched!(self, cpu).wake(TaskId(task), CpuId(cpu as u32), waker);
        } else {
            sleeper.woken = true;
        }
    }

    /// Returns a timer interrupt's fixed and random delay.
    #[inline]
    pub(crate) fn interrupt_latency(&mut self) -> u64 {
        let (fixed, mean) = (self.core.costs.irq_latency_ns, self.core.costs.irq_jitter_ns);
        if mean == 0 { fixed } else { fixed + self.jitter.exponential(mean) }
    }

    pub(crate) fn start_tick(&mut self, cpu: usize) {
        // A late tick does not delay the next.
        let at = self.next_tick(cpu).saturating_add(self.interrupt_latency());
        self.core.queue.arm(self.core.source(cpu, TICK), at);
    }

    /// Returns the next tick's time, if `cpu` ticks.
    #[inline]
    pub(crate) fn next_tick(&self, cpu: usize) -> u64 {
        let (now, phase) = (self.core.now, self.tick_phase[cpu]);
        let past = if now < phase { 0 } else { (now - phase) / self.tick_period + 1 };
        phase.saturating_add(past.saturating_mul(self.tick_period))
    }

    pub(crate) fn stop_tick(&mut self, cpu: usize) {
        self.core.queue.cancel(self.core.source(cpu, TICK));
        sched!(self, cpu).tick_stopped(CpuId(cpu as u32));
    }
}
