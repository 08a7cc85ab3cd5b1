//! Interprets a task's program until time has to pass.
//!
//! An instruction that needs the kernel passes through stages ([`Next`]): the entry is charged, then it takes effect
//! and may put the task to sleep. A task that slept pays the exit, and continues. Each effect happens when earlier
//! stages are paid, so all effects on the machine are in order of time.

use vruntime_sched::event::{Event, OverheadKind, PrevState};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::{Policy, SchedPolicy, Scheduler, Waker};
use vruntime_trace::Sink;

use crate::cpu::NEVER;
use crate::error::Error;
use crate::events::MAX_SOURCES;
use crate::machine::{Machine, sched};
use crate::program::{Code, FOREVER, NO_MUTEX};
use crate::task::{FIRST, Life, NOBODY, Next};

/// Linux's `PID_MAX_LIMIT`, which stops endless forks. Tests stop earlier, to save gigabytes.
pub(crate) const MAX_TASKS: usize = if cfg!(test) { 1 << 10 } else { 1 << 22 };

#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    task: u32,
    at: u64,
    rounds: u64,
}

impl Spin {
    pub(crate) const NONE: Self = Self { task: NOBODY, at: 0, rounds: 0 };
}

/// Rounds at one instant after which time passes.
const SPINS: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Done,
    /// The task continues when its debts are paid.
    Stage,
    Gone,
}

impl Code {
    pub(crate) fn is_sleep(self) -> bool {
        matches!(self, Self::Sleep(_) | Self::SleepUntil(_) | Self::Timer { .. } | Self::TimerAbsolute { .. })
    }

    /// Whether it may begin before debts are paid, since it only adds to them.
    fn may_begin_in_debt(self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::PoolRun { .. }
                | Self::Runtime(_)
                | Self::Mem(_)
                | Self::PipeRead { .. }
                | Self::PipeWrite { .. }
                | Self::Fork(_)
        )
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Continues the running task of `cpu`, without debts and work.
    pub(crate) fn interpret(&mut self, cpu: usize, task: u32) {
        let user = loop {
            let this = &self.tasks[task as usize];
            let code = self.programs.code[this.pc as usize];
            let flow = match this.next {
                Next::Fetch => {
                    if self.core.cpus[cpu].debt > 0 && !code.may_begin_in_debt() {
                        break this.in_user_mode();
                    }
                    if self.core.now >= self.stop_at && self.skips_to_exit(task, code) {
                        continue;
                    }
                    if self.exit_groups.any_killed() && self.is_dying(task, code) {
                        continue;
                    }
                    self.steps += 1;
                    if self.steps > self.max_steps {
                        self.error = Some(self.no_progress(task));
                        return;
                    }
                    self.round_reaches(task, code);
                    self.fetch(cpu, task, code)
                }
                Next::Worked => {
                    self.work_ends(cpu, task, code);
                    match code {
                        Code::PoolRun { pool, .. } | Code::PoolHelp { pool, .. } => self.pool_worked(cpu, task, pool),
                        Code::SpinWait { .. } | Code::SpinBarrier(_) => self.spun(cpu, task),
                        _ => Flow::Done,
                    }
                }
                Next::Enter => self.enter(cpu, task, code),
                Next::Sleep => self.go_to_sleep(cpu, task),
                // A sleep returns when the task's code runs again, after pending work on the way to user mode.
                Next::Return if code.is_sleep() && self.rqs[cpu].notify_resume() => {
                    self.preempt(cpu);
                    return;
                }
                Next::Return => self.return_from_kernel(cpu, task, code),
                Next::EnterLock | Next::ReturnLock => self.at_lock(cpu, task, code),
            };
            let this = &mut self.tasks[task as usize];
            match flow {
                Flow::Gone => return,
                Flow::Done => {
                    this.pc += 1;
                    this.next = Next::Fetch;
                    self.round_begins(task, code);
                }
                Flow::Stage => {}
            }
            let this = &self.tasks[task as usize];
            let (next, user) = (this.next, this.in_user_mode());
            let this = &self.core.cpus[cpu];
            let owes = this.debt > 0 || this.work > 0;
            if user && self.leaves(cpu, user) {
                if owes {
                    break true;
                }
                self.preempt(cpu);
                return;
            }
            if owes && next != Next::Fetch {
                break user;
            }
        };
        self.leave_interrupt_in(cpu, user);
    }

    #[inline(never)]
    fn at_lock(&mut self, cpu: usize, task: u32, code: Code) -> Flow {
        if self.tasks[task as usize].next == Next::EnterLock {
            self.enter_lock(cpu, task, code)
        } else {
            self.return_lock(cpu, task, code)
        }
    }

    /// Skips to the program's end, because the run is over. Returns whether the task was not there yet.
    #[cold]
    fn skips_to_exit(&mut self, task: u32, code: Code) -> bool {
        let this = &mut self.tasks[task as usize];
        let rest = &self.programs.code[this.pc as usize..];
        this.pc += rest.iter().position(|code| *code == Code::Exit).map_or(0, |ahead| ahead as u32);
        code != Code::Exit
    }

    /// Whether a task exits after its present operation. A wakeup there is that of its parent, by `exit_notify`.
    fn is_last(&self, task: u32) -> bool {
        let this = &self.tasks[task as usize];
        let mut rest = self.programs.code[this.pc as usize + 1..].iter();
        let ends = |code: &&Code| match code {
            Code::LoopEnd { .. } => this.loops > 1,
            Code::Repeat { .. } => this.rounds > 1,
            _ => true,
        };
        rest.find(ends) == Some(&Code::Exit)
    }

    /// Counts a round of a task. Operations in user mode, such as an uncontended lock, are too short to count. So that
    /// a loop of them cannot stop time, [`SPINS`] rounds at one instant then cost a tenth of a system call each.
    #[cold]
    fn spins(&mut self, cpu: usize, task: u32) {
        let (now, spin) = (self.core.now, &mut self.spin);
        if (spin.task, spin.at) != (task, now) {
            *spin = Spin { task, at: now, rounds: 0 };
        }
        spin.rounds += 1;
        if spin.rounds == SPINS {
            spin.rounds = 0;
            let ns = SPINS * self.core.costs.syscall_ns / 10;
            self.core.charge_soft(cpu, OverheadKind::Syscall, ns);
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // a stage of the loop of `interpret`, in one place each
    pub(crate) fn charge_call(&mut self, cpu: usize, ns: u64) {
        if self.preempt_full {
            self.core.charge_soft(cpu, OverheadKind::Syscall, ns);
        } else {
            self.core.charge(cpu, OverheadKind::Syscall, ns);
        }
    }

    /// Begins a system call of `extra` ns more than its entry.
    #[inline(always)]
    #[allow(clippy::inline_always)] // a stage of the loop of `interpret`, in one place each
    fn call(&mut self, cpu: usize, task: u32, extra: u64) -> Flow {
        self.tasks[task as usize].next = Next::Enter;
        self.charge_call(cpu, self.core.costs.syscall_ns + extra);
        Flow::Stage
    }

    #[inline]
    pub(crate) fn call_if(&mut self, needed: bool, cpu: usize, task: u32) -> Flow {
        if needed { self.call(cpu, task, 0) } else { Flow::Done }
    }

    #[inline]
    fn loop_is_here(&mut self, task: u32) -> Flow {
        let this = &mut self.tasks[task as usize];
        debug_assert_eq!(self.programs.code[this.pc as usize], Code::Loop);
        this.loop_start = self.core.now;
        this.loop_work = 0;
        self.loop_begins(task);
        Flow::Done
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // a stage of the loop of `interpret`, in one place each
    fn fetch(&mut self, cpu: usize, task: u32, code: Code) -> Flow {
        let now = self.core.now;
        let this = &mut self.tasks[task as usize];
        match code {
            Code::Phase { loops } => {
                this.loops = loops;
                Flow::Done
            }
            Code::Loop => self.loop_is_here(task),
            Code::LoopEnd { back } => {
                let duration = now - this.loop_start;
                let event = Event::LoopEnd { task: TaskId(task), duration, work: this.loop_work };
                let again = again(&mut this.loops);
                if again {
                    this.pc = back;
                }
                self.core.emit(cpu, &event);
                self.loop_ends(task, duration);
                if !again {
                    return Flow::Done;
                }
                if duration == 0 {
                    self.spins(cpu, task);
                    return Flow::Stage;
                }
                if self.leaves(cpu, true) {
                    return Flow::Stage;
                }
                self.steps += 1;
                self.loop_is_here(task)
            }
            Code::Repeat { back } => {
                if again(&mut this.rounds) {
                    this.pc = back;
                    self.spins(cpu, task);
                    Flow::Stage
                } else {
                    Flow::Done
                }
            }
            Code::Run(work) | Code::Runtime(work) | Code::Mem(work) => {
                this.loop_work = this.loop_work.saturating_add(work);
                this.next = Next::Worked;
                let this = &mut self.core.cpus[cpu];
                this.work = work;
                this.unscaled = matches!(code, Code::Runtime(_));
                if this.unscaled {
                    this.work = work.saturating_add(this.debt);
                    self.tasks[task as usize].due = now.saturating_add(this.work);
                }
                self.work_begins(task);
                Flow::Stage
            }
            Code::Sleep(time) => {
                this.due = now.saturating_add(time);
                self.call(cpu, task, self.core.costs.timer_arm_ns)
            }
            Code::PipeRead { pipe, bytes } | Code::PipeWrite { pipe, bytes } => {
                self.tasks[task as usize].next = Next::Enter;
                let ns = self.message_ns(pipe, bytes);
                self.charge_call(cpu, ns);
                Flow::Stage
            }
            code => self.fetch_rare(cpu, task, code),
        }
    }

    #[inline(never)]
    #[expect(clippy::unreachable, reason = "`fetch`, its only caller, has these itself")]
    fn fetch_rare(&mut self, cpu: usize, task: u32, code: Code) -> Flow {
        let now = self.core.now;
        let this = &mut self.tasks[task as usize];
        match code {
            Code::SleepUntil(at) => {
                this.due = at;
                if at > now { self.call(cpu, task, self.core.costs.timer_arm_ns) } else { Flow::Done }
            }
            Code::Timer { timer, period } | Code::TimerAbsolute { timer, period } => {
                // The beat starts with the first loop that requests it.
                let beat = &mut self.objects.timers[timer as usize];
                let due = beat.unwrap_or(this.loop_start).saturating_add(period);
                *beat = Some(due);
                if due <= now && matches!(code, Code::Timer { .. }) {
                    *beat = Some(now);
                }
                this.due = due;
                self.reaches_timer(task, period, due);
                if due > now { self.call(cpu, task, self.core.costs.timer_arm_ns) } else { Flow::Done }
            }
            Code::PoolRun { pool, work } => self.pool_run(cpu, task, pool, work),
            Code::PoolHelp { pool, work } => self.pool_help(cpu, task, pool, work),
            Code::PoolSleep { pool, work } => self.pool_begin_sleep(cpu, task, pool, work),
            Code::PoolWait { pool, work } => self.pool_wait(task, pool, work),
            Code::PoolAgain { pool } => self.pool_again(task, pool),
            Code::InboxWait { inbox, answers } => self.inbox_wait(cpu, task, inbox, answers),
            Code::InboxWake { inbox, from, follow, .. } => self.inbox_wake(cpu, task, inbox, from, follow),
            Code::PutOff { inbox, to } => self.puts_off(task, inbox, to),
            Code::PutOffEnd { inbox } => self.put_off_ends(task, inbox),
            Code::CatchUp { inbox } => self.catches_up(task, inbox),
            Code::RunIfSlept { inbox, work } => self.runs_if_slept(cpu, task, inbox, work),
            Code::LeadMoves(lead) => self.lead_moves(cpu, task, lead),
            Code::LeadAwaits(lead) => self.lead_awaits(cpu, task, lead),
            Code::Lock(mutex) => self.lock(cpu, task, mutex),
            Code::TryLock { mutex, .. } | Code::EnsureLock(mutex) => self.lock_once(cpu, task, mutex),
            Code::Nudge(mutex) => {
                let heard = self.first_sleeper(mutex).is_some();
                self.call_if(heard, cpu, task)
            }
            Code::Unlock(mutex) => {
                let contended = self.unlock_in_user_mode(task, mutex);
                self.call_if(contended, cpu, task)
            }
            Code::Signal(condition) | Code::Broadcast(condition) => {
                let heard = !self.objects.conditions[condition as usize].is_empty();
                self.call_if(heard, cpu, task)
            }
            Code::SemPost(semaphore) => self.begin_post(cpu, task, semaphore),
            Code::SemMove { from, to } => {
                if self.objects.semaphores[from as usize].take() {
                    self.begin_post(cpu, task, to)
                } else {
                    Flow::Done
                }
            }
            Code::SemReset(semaphore) => {
                self.objects.semaphores[semaphore as usize].count = 0;
                Flow::Done
            }
            Code::SemWait(semaphore) => {
                let must_wait = !self.objects.semaphores[semaphore as usize].take();
                self.call_if(must_wait, cpu, task)
            }
            Code::SpinWait { spin, .. } => self.spin_wait(cpu, task, spin),
            Code::SpinBarrier(spin) => self.spin_barrier(cpu, task, spin),
            Code::SpinPost { spin, events } => self.spin_post(spin, events),
            Code::Fork(_) => self.call(cpu, task, self.core.costs.fork_ns),
            Code::Settings(_)
            | Code::Exit
            | Code::ExitGroup
            | Code::AwaitKill
            | Code::Device(_)
            | Code::Wait { .. }
            | Code::Sync { .. }
            | Code::Suspend { .. }
            | Code::Barrier { .. }
            | Code::Yield
            | Code::Exec
            | Code::WaitEvent { .. }
            | Code::WakeUp { .. }
            | Code::WaitForCompletion { .. }
            | Code::Complete(_)
            | Code::CompleteAll(_)
            | Code::ReinitCompletion(_) => self.call(cpu, task, 0),
            Code::Phase { .. }
            | Code::Loop
            | Code::LoopEnd { .. }
            | Code::Repeat { .. }
            | Code::Run(_)
            | Code::Runtime(_)
            | Code::Mem(_)
            | Code::Sleep(_)
            | Code::PipeRead { .. }
            | Code::PipeWrite { .. } => unreachable!("these begin where they are frequent"),
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // a stage of the loop of `interpret`, in one place each
    fn enter(&mut self, cpu: usize, task: u32, code: Code) -> Flow {
        match code {
            Code::PipeWrite { pipe, bytes } => self.write(cpu, task, pipe, bytes, false),
            Code::PipeRead { pipe, bytes } => self.read(cpu, task, pipe, bytes, false),
            Code::Sleep(_) | Code::SleepUntil(_) | Code::Timer { .. } | Code::TimerAbsolute { .. } => {
                let due = self.tasks[task as usize].due;
                if self.latest(cpu, due) <= self.core.now {
                    // The sleep was due before it began.
                    return self.return_from_kernel(cpu, task, code);
                }
                self.arm_sleep(cpu, task, due);
                self.block(cpu, task, PrevState::Sleeping)
            }
            code => self.enter_rare(cpu, task, code),
        }
    }

    /// Rare instructions, so that the loop of frequent ones stays short.
    #[inline(never)]
    #[expect(clippy::unreachable, reason = "`enter` has some of these itself, `call` is for none of the others")]
    fn enter_rare(&mut self, cpu: usize, task: u32, code: Code) -> Flow {
        let now = self.core.now;
        match code {
            Code::Settings(settings) => self.change_settings(cpu, task, settings as usize),
            Code::Exit => {
                self.core.emit(cpu, &Event::Exit { task: TaskId(task) });
                let template = self.tasks[task as usize].template as usize;
                self.live -= usize::from(self.is_waited_for(template));
                self.alive -= 1;
                self.leaves_to_free(cpu);
                self.leaves_inbox(cpu, task);
                self.leaves_rooms(cpu, task);
                self.leaves_pool(task);
                self.exit_groups.ends(template as u32, task);
                self.stops_leading(cpu, task);
                self.schedule(cpu, PrevState::Dead);
                return Flow::Gone;
            }
            Code::ExitGroup => self.exit_group(cpu, task),
            Code::AwaitKill => return self.awaits_kill(cpu, task),
            Code::Device(NEVER) if self.is_grace_thread(task) => return self.wait_for_grace_period(cpu, task),
            Code::Device(time) => {
                if time > 0 {
                    self.arm_exactly(cpu, task, now.saturating_add(time));
                    return self.block(cpu, task, PrevState::Blocked);
                }
            }
            Code::Unlock(mutex) => self.release(cpu, task, mutex),
            Code::Nudge(mutex) => self.nudge(cpu, mutex),
            Code::Wait { condition, mutex } | Code::Suspend { condition, mutex } => {
                return self.wait(cpu, task, condition, mutex);
            }
            Code::Sync { condition, mutex } => {
                self.signal(cpu, condition);
                return self.wait(cpu, task, condition, mutex);
            }
            Code::Signal(condition) => self.signal(cpu, condition),
            Code::Broadcast(condition) => self.broadcast(cpu, condition),
            Code::Barrier { barrier, mutex } => return self.arrive(cpu, task, barrier, mutex),
            Code::SemPost(semaphore) | Code::SemMove { to: semaphore, .. } => self.post(cpu, semaphore),
            Code::SemWait(semaphore) => return self.wait_semaphore(cpu, task, semaphore),
            Code::PoolRun { pool, .. } | Code::PoolHelp { pool, .. } => return self.pool_wakes(cpu, task, pool),
            Code::PoolSleep { pool, .. } => return self.pool_sleep(cpu, task, pool),
            Code::InboxWait { inbox, answers } => return self.inbox_sleep(cpu, task, inbox, answers),
            Code::InboxWake { inbox, from, follow, sync } => {
                if !self.preempt_full && self.is_last(task) {
                    self.tasks[task as usize].life = Life::Exiting;
                }
                return self.inbox_post(cpu, task, inbox, (from, sync), follow);
            }
            Code::LeadMoves(lead) => self.lead_wakes(cpu, lead),
            Code::LeadAwaits(lead) => return self.lead_sleep(cpu, task, lead),
            Code::Yield => {
                sched!(self, cpu).yield_task(CpuId(cpu as u32));
                let this = &mut self.tasks[task as usize];
                this.pc += 1;
                this.next = Next::Fetch;
                self.schedule(cpu, PrevState::Yielded);
                return Flow::Gone;
            }
            Code::Exec => {
                // The task first moves, then loads the new program.
                let moves = sched!(self, cpu).exec(CpuId(cpu as u32));
                self.core.charge_soft(cpu, OverheadKind::Syscall, self.core.costs.exec_ns);
                if moves {
                    let this = &mut self.tasks[task as usize];
                    this.pc += 1;
                    this.next = Next::Fetch;
                    self.schedule(cpu, PrevState::Preempted);
                    return Flow::Gone;
                }
            }
            Code::Fork(template) => self.fork(cpu, task, template as usize),
            Code::WaitEvent { queue, mode, timeout } => return self.wait_event(cpu, task, queue, mode, timeout),
            Code::WakeUp { queue, nr, events, sync } => self.bring_events(cpu, queue, nr, events, sync),
            Code::WaitForCompletion { completion, timeout } => {
                return self.wait_for_completion(cpu, task, completion, timeout);
            }
            Code::Complete(completion) => self.complete(cpu, completion),
            Code::CompleteAll(completion) => self.complete_all(cpu, completion),
            Code::ReinitCompletion(completion) => self.reinit_completion(completion),
            Code::Phase { .. }
            | Code::Loop
            | Code::LoopEnd { .. }
            | Code::Repeat { .. }
            | Code::Run(_)
            | Code::Runtime(_)
            | Code::Mem(_)
            | Code::PoolWait { .. }
            | Code::PoolAgain { .. }
            | Code::SpinWait { .. }
            | Code::SpinBarrier(_)
            | Code::SpinPost { .. }
            | Code::SemReset(_)
            | Code::Lock(_)
            | Code::TryLock { .. }
            | Code::EnsureLock(_)
            | Code::Sleep(_)
            | Code::SleepUntil(_)
            | Code::Timer { .. }
            | Code::TimerAbsolute { .. }
            | Code::PipeWrite { .. }
            | Code::PutOff { .. }
            | Code::PutOffEnd { .. }
            | Code::CatchUp { .. }
            | Code::RunIfSlept { .. }
            | Code::PipeRead { .. } => unreachable!("these never enter the kernel this way"),
        }
        Flow::Done
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // a stage of the loop of `interpret`, in one place each
    fn return_from_kernel(&mut self, cpu: usize, task: u32, code: Code) -> Flow {
        match code {
            Code::Sleep(_) | Code::SleepUntil(_) | Code::Timer { .. } | Code::TimerAbsolute { .. } => {
                let late = self.core.now.saturating_sub(self.tasks[task as usize].due);
                if !matches!(code, Code::Sleep(_) | Code::SleepUntil(_)) {
                    self.returns_from_timer(task, late);
                }
                self.core.emit(cpu, &Event::SleepReturn { task: TaskId(task), late });
                Flow::Done
            }
            // A wakeup is no promise: they check again.
            Code::PipeRead { pipe, bytes } => self.read(cpu, task, pipe, bytes, true),
            Code::PipeWrite { pipe, bytes } => self.write(cpu, task, pipe, bytes, true),
            code => self.return_from_kernel_rare(cpu, task, code),
        }
    }

    #[inline(never)]
    fn return_from_kernel_rare(&mut self, cpu: usize, task: u32, code: Code) -> Flow {
        match code {
            Code::Barrier { mutex: NO_MUTEX, .. } => Flow::Done,
            Code::Wait { mutex, .. }
            | Code::Sync { mutex, .. }
            | Code::Suspend { mutex, .. }
            | Code::Barrier { mutex, .. } => self.lock(cpu, task, mutex),
            Code::SemWait(semaphore) => self.wait_semaphore(cpu, task, semaphore),
            Code::InboxWake { inbox, from, sync, .. } => self.inbox_posts_now(cpu, task, inbox, (from, sync)),
            Code::WaitEvent { queue, mode, .. } => self.go_on_waiting(cpu, task, queue, mode),
            Code::WaitForCompletion { completion, .. } => self.go_on_completing(cpu, task, completion),
            Code::AwaitKill => {
                self.exit_groups.dies(task);
                Flow::Done
            }
            _ => Flow::Done,
        }
    }

    pub(crate) fn block(&mut self, cpu: usize, task: u32, state: PrevState) -> Flow {
        self.round_blocks(task);
        let this = &mut self.tasks[task as usize];
        if this.next != Next::ReturnLock {
            this.next = Next::Return;
        }
        this.owes_return = true;
        self.leaves_inbox(cpu, task);
        self.stops_leading(cpu, task);
        self.schedule(cpu, state);
        Flow::Gone
    }

    /// Puts a task, in a wait queue with `woken` cleared, to sleep once its wakeups are paid.
    pub(crate) fn block_once_paid(&mut self, cpu: usize, task: u32) -> Flow {
        if self.core.cpus[cpu].debt == 0 {
            return self.block(cpu, task, PrevState::Sleeping);
        }
        self.tasks[task as usize].next = Next::Sleep;
        Flow::Stage
    }

    /// Puts the task to sleep, unless it has been woken.
    fn go_to_sleep(&mut self, cpu: usize, task: u32) -> Flow {
        let this = &mut self.tasks[task as usize];
        this.next = Next::Return;
        if std::mem::take(&mut this.woken) { Flow::Stage } else { self.block(cpu, task, PrevState::Sleeping) }
    }

    #[inline]
    pub(crate) fn wake_from_call(&mut self, cpu: usize, task: u32, waker: Waker) {
        self.wake(task, cpu, waker);
        let costs = &self.core.costs;
        let far = if self.tasks[task as usize].last_cpu == cpu as u32 { 0 } else { costs.wakeup_far_ns };
        self.charge_call(cpu, costs.wakeup_ns + far);
    }

    /// Forks a task. A deadline task cannot fork (`sched_fork`: EAGAIN), since its child would get its reservation. It
    /// continues without.
    fn fork(&mut self, cpu: usize, parent: u32, template: usize) {
        let rq = &self.rqs[cpu];
        if rq.curr.is_some_and(|current| rq.tasks[current].policy == SchedPolicy::Deadline) {
            self.barren.insert(TaskId(parent));
            return;
        }
        if self.alive >= self.max_alive {
            let (task, now) = (self.workload.tasks[template].name.clone(), self.core.now);
            let limit = self.max_alive - self.workload.tasks.len();
            self.error = Some(Error::ForkRefused { task, now, limit });
            return;
        }
        if self.tasks.len() >= MAX_TASKS || self.core.task_source(self.tasks.len() as u32) as usize >= MAX_SOURCES {
            self.error = Some(Error::TooMany { limit: MAX_TASKS });
            return;
        }
        let count = self.forked[template];
        self.forked[template] += 1;
        let first = count == 0 && self.workload.tasks[template].start.is_none();
        let child = self.new_task(template, if first { FIRST } else { count + 1 }, cpu);
        self.core.queue.ensure(self.core.task_source(child));
        self.start(child, Some(TaskId(parent)), cpu, false);
    }
}

fn again(left: &mut u64) -> bool {
    if *left != FOREVER {
        *left -= 1;
    }
    *left > 0
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use vruntime_trace::NoSink;
    use vruntime_workload::program::{Op, Phase, Task, Workload};

    use super::*;
    use crate::{Config, MachineSpec, parse_topology, run_dyn};

    fn run(tasks: usize, ops: Vec<Op>) -> Result<u64, Error> {
        run_with(1 << 18, tasks, ops)
    }

    fn run_with(threads_max: usize, tasks: usize, ops: Vec<Op>) -> Result<u64, Error> {
        let task = Task::new("bomb", [Phase::times(1, ops)]);
        let workload = Workload { tasks: vec![task; tasks], ..Workload::default() };
        let spec = MachineSpec::new(parse_topology("2").unwrap());
        let config = Config::new(vruntime_sched::kernel("6.12").unwrap(), spec);
        // Longer than any run here. Endless forks without a duration are refused.
        let config = Config { duration: Some(10_000_000_000), threads_max, ..config };
        run_dyn(&workload, &config, &mut NoSink, &mut |_| ControlFlow::Continue(())).map(|outcome| outcome.end)
    }

    /// Living and ended children count. The exact limit is allowed.
    #[test]
    fn a_workload_that_needs_too_many_tasks_is_stopped() {
        let stopped = |outcome| matches!(outcome, Err(Error::TooMany { limit: MAX_TASKS }));
        let works = Op::Run { work: 1000 };
        assert!(stopped(run(1, vec![Op::Fork(0), works.clone()])), "each forks one and ends");
        assert!(stopped(run(1, vec![Op::Fork(0), Op::Fork(0), works.clone()])), "ever more are alive");
        assert!(run(MAX_TASKS, vec![works.clone()]).is_ok());
        assert!(stopped(run(MAX_TASKS + 1, vec![works])));
    }

    /// Only living tasks count, except the workload's own.
    #[test]
    fn a_fork_beyond_the_limit_of_living_tasks_is_refused() {
        let works = || Op::Run { work: 1000 };
        let refused =
            |outcome, most| matches!(outcome, Err(Error::ForkRefused { limit, now: 1.., .. }) if limit == most);
        let doubles = || vec![Op::Fork(0), Op::Fork(0), works()];
        assert!(refused(run_with(100, 1, doubles()), 100), "ever more are alive");
        assert!(refused(run_with(100, 200, doubles()), 100));
        assert!(run_with(100, 500, vec![works()]).is_ok());
        let chain = run_with(100, 1, vec![works(), Op::Fork(0)]);
        assert!(matches!(chain, Err(Error::TooMany { .. })), "one after the other there may be more");
    }
}
