//! The machine: its state, its event loop and its end.
//!
//! # How time passes on a CPU
//!
//! A CPU has *debts*, kernel time to be spent before anything else, and its running task has *work*. Every interrupt,
//! switch and system call adds to the debts. Each CPU has one execution event, armed for the moment when its debts are
//! paid and its task's work is done, or, once a reschedule has been noticed, for the moment when the kernel can be
//! preempted. Whatever happens on a CPU settles its accounts first and arms that event anew afterwards.
//!
//! # Interrupts
//!
//! A timer fires on the CPU on which it was armed: the wakeup happens at once, the reschedule at the end of the interrupt.
//! A reschedule of another CPU is an interrupt that takes time to arrive; the other CPU acts on its `need_resched` when
//! that arrives, or at the end of any other kernel path of its own that ends before. An idle CPU takes `idle_exit_ns` to
//! come to any interrupt. Ticks come only on busy CPUs.

use std::ops::ControlFlow;

use vruntime_sched::event::{Event, OverheadKind};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::{Policy, Rq, SchedPolicy, Scheduler, Shared, TaskAttrs};
use vruntime_trace::{GroupInfo, Sink, TaskInfo};
use vruntime_workload::program::Workload;

use crate::config::{Config, Outcome, Preempt, Progress};
use crate::cpu::{Cpu, IDLE, NEVER, NOHZ, STOPPER};
use crate::error::Error;
use crate::events::{MAX_SOURCES, Queue};
use crate::host::{Core, EXEC, HRTICK, IPI, SOURCES_PER_CPU, TICK, source};
use crate::interpreter::MAX_TASKS;
use crate::overcommit::Overcommit;
use crate::program::{FOREVER, Programs, compile, times};
use crate::rng::Rng;
use crate::sync::Objects;
use crate::task::{Life, Task};

/// The watcher is asked once in so many events of the machine.
const WATCH_EVERY: u64 = 1 << 16;
/// A seed other than 0 starts each task up to so much late.
const START_JITTER: u64 = 5_000;

/// A machine at work. `P` is the scheduling policy, `S` receives the events.
pub(crate) struct Machine<'a, P: Policy, S: Sink> {
    pub(crate) core: Core<'a, S>,
    pub(crate) rqs: Vec<Rq<P>>,
    pub(crate) shared: Shared<P>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) programs: Programs,
    pub(crate) objects: Objects,
    pub(crate) workload: &'a Workload,
    /// The scheduler's id of each of the workload's groups.
    groups: Vec<GroupId>,
    /// SMT siblings: index of each CPU's core, and the CPUs of each core.
    core_of: Vec<u32>,
    cores: Vec<Vec<u32>>,
    smt_speed_permille: u32,
    capacity: Vec<u32>,
    tick_period: u64,
    /// When the first tick of each CPU would come.
    tick_phase: Vec<u64>,
    pub(crate) timer_slack: u64,
    pub(crate) preempt_full: bool,
    /// Instructions since time last passed, and how many are too many.
    pub(crate) steps: u64,
    pub(crate) max_steps: u64,
    pub(crate) error: Option<Error>,
    /// Tasks that have not ended.
    pub(crate) live: usize,
    /// How often each task of the workload was forked.
    pub(crate) forked: Vec<u32>,
    notes: Vec<String>,
    /// How many of the workload's tasks are its own; those after them are the machine's.
    own: usize,
    /// Draws how late interrupts come.
    jitter: Rng,
    /// The host of a virtual machine, if it has too few CPUs.
    host: Option<Overcommit>,
}

/// Calls a verb of the scheduler on behalf of `$cpu`.
macro_rules! sched {
    ($machine:expr, $cpu:expr) => {{
        $machine.core.executing = CpuId($cpu as u32);
        let now = $machine.core.now;
        Scheduler { rqs: &mut $machine.rqs, shared: &$machine.shared, host: &mut $machine.core, now }
    }};
}
pub(crate) use sched;

impl<'a, P: Policy, S: Sink> Machine<'a, P, S> {
    pub(crate) fn new(
        workload: &'a Workload,
        own: usize,
        config: &Config,
        shared: Shared<P>,
        sink: &'a mut S,
    ) -> Result<Self, Error> {
        let spec = &config.machine;
        let places = spec.topology.cpus();
        let cpus = places.len();
        let sources = cpus * SOURCES_PER_CPU as usize + workload.tasks.len();
        if workload.tasks.len() > MAX_TASKS || sources > MAX_SOURCES {
            return Err(Error::TooMany { limit: MAX_TASKS.min(MAX_SOURCES - cpus * SOURCES_PER_CPU as usize) });
        }
        let range = |what, value: u32, low, high, expected| {
            let value = i64::from(value);
            let fine = (low..=high).contains(&value);
            if fine { Ok(()) } else { Err(Error::OutOfRange { who: "machine".to_owned(), what, value, expected }) }
        };
        range("HZ", spec.hz, 1, 10_000, "1 to 10000")?;
        range("SMT speed", spec.smt_speed_permille, 1, 1000, "1 to 1000 thousandths")?;
        let programs = compile(workload, cpus, &spec.costs)?;
        let end = config.duration.or(workload.duration);
        let loops_for_ever = |task: &vruntime_workload::program::Task| {
            task.start.is_some()
                && task.phases.iter().any(|phase| times(phase.repeat) == FOREVER || times(task.repeat) == FOREVER)
                && times(task.repeat) > 0
        };
        if end.is_none()
            && let Some(task) = workload.tasks[..own].iter().find(|task| loops_for_ever(task))
        {
            return Err(Error::NeverEnds { task: task.name.clone() });
        }

        let mut core_of = Vec::with_capacity(cpus);
        let mut cores: Vec<Vec<u32>> = Vec::new();
        let mut known = std::collections::BTreeMap::new();
        for (cpu, place) in places.iter().enumerate() {
            let core = *known.entry(place.core).or_insert_with(|| {
                cores.push(Vec::new());
                cores.len() - 1
            });
            core_of.push(core as u32);
            cores[core].push(cpu as u32);
        }

        let mut rng = Rng::new(config.seed);
        let tick_period = 1_000_000_000 / u64::from(spec.hz);
        let phase = if config.seed == 0 { tick_period } else { 1 + rng.below(tick_period) };
        let skew = if spec.skew_tick { tick_period / 2 / cpus as u64 } else { 0 };
        let rqs = Rq::all(&shared);
        let notes = programs.notes.clone();
        let mut machine = Self {
            core: Core {
                now: 0,
                end,
                queue: Queue::new(sources),
                cpus: places.iter().map(|place| Cpu::new(place.capacity)).collect(),
                costs: spec.costs.clone(),
                executing: CpuId(0),
                events: 0,
                switches: 0,
                searches: 0,
                sink,
            },
            rqs,
            shared,
            tasks: Vec::with_capacity(workload.tasks.len()),
            programs,
            objects: Objects::new(workload),
            workload,
            groups: Vec::with_capacity(workload.groups.len()),
            core_of,
            cores,
            smt_speed_permille: spec.smt_speed_permille,
            capacity: places.iter().map(|place| place.capacity).collect(),
            tick_period,
            tick_phase: (0..cpus as u64).map(|cpu| phase + cpu * skew).collect(),
            timer_slack: spec.timer_slack_ns,
            preempt_full: config.preempt == Preempt::Full,
            steps: 0,
            max_steps: 1_000_000 + 100 * workload.tasks.len() as u64,
            error: None,
            live: 0,
            forked: vec![0; workload.tasks.len()],
            notes,
            own,
            jitter: Rng::new(config.seed ^ 0x6a09_e667_f3bc_c909),
            host: spec.host_cpus.map(|cpus| Overcommit::new(cpus, spec.costs.host_efficiency_permille)),
        };
        machine.create_groups(config.autogroup);
        machine.create_tasks(config.seed, &mut rng);
        for cpu in 0..cpus {
            sched!(machine, cpu).tick_stopped(CpuId(cpu as u32));
        }
        Ok(machine)
    }

    fn create_groups(&mut self, autogroup: bool) {
        let root = GroupInfo { path: "/", parent: None, weight: 100 };
        self.core.sink.group(GroupId::ROOT, &root);
        self.groups.push(GroupId::ROOT);
        for group in self.workload.groups.iter().skip(1) {
            let parent = self.groups[group.parent.unwrap_or(0)];
            let id = sched!(self, 0).new_group(parent, group.weight, group.idle);
            self.groups.push(id);
            let info = GroupInfo { path: &group.path, parent: Some(parent), weight: group.weight };
            self.core.sink.group(id, &info);
        }
        if autogroup {
            // A session's autogroup: its tasks say they are in the root group, and compete as one of its children.
            let id = sched!(self, 0).new_group(GroupId::ROOT, 100, false);
            let info = GroupInfo { path: "/autogroup", parent: Some(GroupId::ROOT), weight: 100 };
            self.core.sink.group(id, &info);
            self.groups[0] = id;
        }
    }

    fn create_tasks(&mut self, seed: u64, rng: &mut Rng) {
        for (index, task) in self.workload.tasks.iter().enumerate() {
            let Some(start) = task.start else { continue };
            let jitter = if seed == 0 { 0 } else { rng.below(START_JITTER) };
            let id = self.new_task(index, &task.name, 0);
            self.core.queue.arm(self.task_source(id), start.saturating_add(jitter));
        }
    }

    /// Creates an instance of the workload's task `template`, called `name`, forked on `cpu`. It does not run yet.
    pub(crate) fn new_task(&mut self, template: usize, name: &str, cpu: usize) -> u32 {
        let task = &self.workload.tasks[template];
        let initial = &self.programs.settings[self.programs.initial[template] as usize];
        let (policy, nice, slice) = initial.policy.unwrap_or((SchedPolicy::Normal, 0, None));
        let group = if template < self.own {
            self.groups[initial.group.unwrap_or(0) as usize]
        } else {
            // Kernel threads are in no session, hence in no autogroup.
            GroupId::ROOT
        };
        let attrs = TaskAttrs { policy, nice, slice, group, affinity: initial.affinity.clone() };
        let id = sched!(self, cpu).new_task(&attrs, CpuId(cpu as u32));
        debug_assert_eq!(id.index(), self.tasks.len(), "tasks are counted in order of creation");
        self.tasks.push(Task::new(template as u32, self.programs.entry[template], times(task.repeat)));
        // The machine's own threads do not keep it running.
        self.live += usize::from(template < self.own);
        self.core.sink.task(id, &TaskInfo { name, class: &task.class, group, nice });
        id.0
    }

    /// The event source of a task's timer.
    #[inline]
    pub(crate) fn task_source(&self, task: u32) -> u32 {
        self.core.cpus.len() as u32 * SOURCES_PER_CPU + task
    }

    /// The scheduler's id of one of the workload's groups.
    pub(crate) fn group(&self, index: u32) -> GroupId {
        self.groups[index as usize]
    }

    /// Runs to the end.
    pub(crate) fn run(mut self, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Outcome, Error> {
        let mut handled: u64 = 0;
        let mut interrupted = false;
        let mut stuck = false;
        let end = self.core.end.unwrap_or(NEVER);
        while self.live > 0 {
            let Some((at, source)) = self.core.queue.next() else {
                stuck = true;
                break;
            };
            if at >= end {
                self.core.now = end;
                break;
            }
            if at > self.core.now {
                self.core.now = at;
                self.steps = 0;
            }
            self.dispatch(source);
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            handled += 1;
            if handled.is_multiple_of(WATCH_EVERY) {
                let progress = Progress { now: self.core.now, end: self.core.end, events: self.core.events };
                if watch(progress).is_break() {
                    interrupted = true;
                    break;
                }
            }
        }
        Ok(self.finish(interrupted, stuck))
    }

    #[inline]
    fn dispatch(&mut self, source: u32) {
        let fixed = self.core.cpus.len() as u32 * SOURCES_PER_CPU;
        if source >= fixed {
            self.on_task_timer(source - fixed);
            return;
        }
        let cpu = (source / SOURCES_PER_CPU) as usize;
        match source % SOURCES_PER_CPU {
            EXEC => self.on_exec(cpu),
            TICK => self.on_tick(cpu),
            IPI => self.on_ipi(cpu),
            _ => self.on_hrtick(cpu),
        }
    }

    fn finish(mut self, interrupted: bool, stuck: bool) -> Outcome {
        let mut end = self.core.now;
        if self.core.end != Some(end) {
            // An end that was not known beforehand: let every kernel path that was already reported come to its end.
            end = self.core.cpus.iter().map(|cpu| cpu.kernel_end).fold(end, u64::max);
        }
        self.core.now = end;
        for cpu in 0..self.core.cpus.len() {
            self.core.cpus[cpu].settle(end);
            self.core.report_soft(cpu);
        }
        self.core.sink.finish(end);
        let mut notes = std::mem::take(&mut self.notes);
        crate::notes::blocked(&self, stuck, &mut notes);
        Outcome {
            end,
            events: self.core.events,
            switches: self.core.switches,
            interrupted,
            notes,
            cpus: self.core.cpus.iter().map(|cpu| cpu.time).collect(),
        }
    }

    // ---- Interrupts ----

    /// Whether `cpu` can take the interrupt `source` now. An idle CPU has to wake up first: then the interrupt is put
    /// off until it has.
    #[inline]
    fn enter_interrupt(&mut self, cpu: usize, source: u32) -> bool {
        let now = self.core.now;
        let this = &mut self.core.cpus[cpu];
        this.settle(now);
        if !this.is_idle() || this.debt > 0 || this.resched || this.awake_at == now {
            return true;
        }
        let awake_at = now.saturating_add(self.core.costs.idle_exit_ns);
        if this.awake_at < now || this.awake_at > awake_at {
            this.awake_at = awake_at;
        }
        if this.awake_at == now {
            return true;
        }
        self.core.queue.arm(source, this.awake_at);
        false
    }

    /// The end of a kernel path on `cpu`, still to be paid: will it reschedule?
    #[inline]
    pub(crate) fn leave_interrupt(&mut self, cpu: usize) {
        self.core.cpus[cpu].resched = self.rqs[cpu].need_resched();
        self.arm_exec(cpu);
    }

    /// Charges for the domains that were searched for work since this was last called.
    #[inline]
    fn charge_searches(&mut self, cpu: usize, kind: OverheadKind) {
        if self.core.searches > 0 {
            let ns = self.core.searches * self.core.costs.balance_ns;
            self.core.searches = 0;
            self.core.charge(cpu, kind, ns);
        }
    }

    fn on_tick(&mut self, cpu: usize) {
        let now = self.core.now;
        self.core.cpus[cpu].settle(now);
        self.core.charge(cpu, OverheadKind::Tick, self.core.costs.tick_ns);
        self.start_tick(cpu);
        let id = CpuId(cpu as u32);
        if sched!(self, cpu).tick(id) {
            sched!(self, cpu).balance(id);
            self.charge_searches(cpu, OverheadKind::Tick);
        }
        self.leave_interrupt(cpu);
    }

    fn on_ipi(&mut self, cpu: usize) {
        if !self.enter_interrupt(cpu, source(cpu, IPI)) {
            return;
        }
        let why = std::mem::take(&mut self.core.cpus[cpu].ipi);
        self.core.charge(cpu, OverheadKind::Ipi, self.core.costs.ipi_ns);
        if why & NOHZ != 0 {
            sched!(self, cpu).nohz_balance(CpuId(cpu as u32));
            self.charge_searches(cpu, OverheadKind::Ipi);
        }
        self.leave_interrupt(cpu);
    }

    fn on_hrtick(&mut self, cpu: usize) {
        if !self.enter_interrupt(cpu, source(cpu, HRTICK)) {
            return;
        }
        self.core.charge(cpu, OverheadKind::Timer, self.core.costs.timer_ns);
        sched!(self, cpu).hrtick(CpuId(cpu as u32));
        self.leave_interrupt(cpu);
    }

    /// A task's timer: its start, or the end of a sleep.
    fn on_task_timer(&mut self, task: u32) {
        if self.tasks[task as usize].life == Life::New {
            // Whoever starts the workload is not part of it: he costs nothing, and sits on CPU 0.
            self.start(task, None, 0);
            self.leave_interrupt(0);
            return;
        }
        let cpu = self.tasks[task as usize].timer_cpu as usize;
        if !self.enter_interrupt(cpu, self.task_source(task)) {
            return;
        }
        self.core.charge(cpu, OverheadKind::Timer, self.core.costs.timer_ns);
        self.wake(task, cpu, false, true);
        self.leave_interrupt(cpu);
    }

    /// A created task runs for the first time, forked on `cpu`.
    pub(crate) fn start(&mut self, task: u32, parent: Option<TaskId>, cpu: usize) {
        let now = self.core.now;
        self.core.cpus[cpu].settle(now);
        self.tasks[task as usize].life = Life::Runnable;
        self.core.emit(cpu, &Event::Fork { parent, child: TaskId(task) });
        sched!(self, cpu).wake_new(TaskId(task), CpuId(cpu as u32));
    }

    /// Code on `cpu` wakes `task`, if it sleeps; if it is only about to, it will not.
    pub(crate) fn wake(&mut self, task: u32, cpu: usize, sync: bool, irq: bool) {
        let sleeper = &mut self.tasks[task as usize];
        if sleeper.life == Life::Asleep {
            sleeper.life = Life::Runnable;
            sched!(self, cpu).wake(TaskId(task), CpuId(cpu as u32), sync, irq);
        } else {
            sleeper.woken = true;
        }
    }

    // ---- The CPU's tick and speed ----

    /// How late a timer's interrupt comes this time: a fixed part, and one that differs each time.
    #[inline]
    pub(crate) fn interrupt_latency(&mut self) -> u64 {
        let (fixed, mut mean) = (self.core.costs.irq_latency_ns, self.core.costs.irq_jitter_ns);
        if self.host.as_ref().is_some_and(Overcommit::crowded) {
            mean += self.core.costs.host_wait_ns;
        }
        if mean == 0 { fixed } else { fixed + self.jitter.exponential(mean) }
    }

    pub(crate) fn start_tick(&mut self, cpu: usize) {
        let (now, phase) = (self.core.now, self.tick_phase[cpu]);
        let past = if now < phase { 0 } else { (now - phase) / self.tick_period + 1 };
        // However late it comes, the next one keeps the beat.
        let late = self.interrupt_latency();
        let at = phase.saturating_add(past.saturating_mul(self.tick_period)).saturating_add(late);
        self.core.queue.arm(source(cpu, TICK), at);
    }

    pub(crate) fn stop_tick(&mut self, cpu: usize) {
        self.core.queue.cancel(source(cpu, TICK));
        sched!(self, cpu).tick_stopped(CpuId(cpu as u32));
    }

    /// `cpu` became busy or idle: its SMT siblings get slower or faster, and so do all CPUs of a virtual machine whose host
    /// has too few for them.
    pub(crate) fn update_core_speed(&mut self, cpu: usize) {
        if let Some(host) = &mut self.host {
            let busy = self.core.cpus.iter().filter(|cpu| !cpu.is_idle()).count() as u64;
            if host.update(busy) {
                for index in 0..self.cores.len() {
                    self.set_core_speed(index, cpu);
                }
                return;
            }
        }
        let core = self.core_of[cpu] as usize;
        if self.cores[core].len() > 1 {
            self.set_core_speed(core, cpu);
        }
    }

    /// Gives the CPUs of a core the speed they have now. `changing` arms its own execution event.
    fn set_core_speed(&mut self, core: usize, changing: usize) {
        let busy = self.cores[core].iter().filter(|&&cpu| !self.core.cpus[cpu as usize].is_idle()).count() as u32;
        let mut permille = if busy <= 1 { 1000 } else { 2 * self.smt_speed_permille / busy };
        if let Some(host) = &self.host {
            permille = permille * host.speed_permille() / 1000;
        }
        for index in 0..self.cores[core].len() {
            let sibling = self.cores[core][index] as usize;
            let speed = self.capacity[sibling] * permille.max(1);
            if self.core.cpus[sibling].speed != speed {
                self.core.cpus[sibling].settle(self.core.now);
                self.core.cpus[sibling].speed = speed;
                if sibling != changing {
                    self.arm_exec(sibling);
                }
            }
        }
    }

    /// Arms the execution event of `cpu`, whose accounts are settled.
    #[inline]
    pub(crate) fn arm_exec(&mut self, cpu: usize) {
        let this = &self.core.cpus[cpu];
        let at = match this.curr {
            IDLE if this.resched => this.paid_at(),
            IDLE => NEVER,
            STOPPER => this.paid_at(),
            task => {
                let preemptible = self.preempt_full || self.tasks[task as usize].next.in_user_mode();
                if this.resched && preemptible { this.kernel_end.max(self.core.now) } else { this.done_at() }
            }
        };
        // An execution event that has just fired has `exec_at` set to NEVER by its handler, so equality means armed.
        if at != this.exec_at {
            self.core.cpus[cpu].exec_at = at;
            if at == NEVER {
                self.core.queue.cancel(source(cpu, EXEC));
            } else {
                self.core.queue.arm(source(cpu, EXEC), at);
            }
        }
    }

    fn on_exec(&mut self, cpu: usize) {
        let now = self.core.now;
        let this = &mut self.core.cpus[cpu];
        this.exec_at = NEVER;
        this.settle(now);
        match this.curr {
            IDLE => {
                if self.rqs[cpu].need_resched() {
                    self.preempt(cpu);
                } else {
                    self.leave_interrupt(cpu);
                }
            }
            STOPPER => {
                sched!(self, cpu).stopper_work(CpuId(cpu as u32));
                self.schedule(cpu, vruntime_sched::event::PrevState::Sleeping);
            }
            task => self.on_task_exec(cpu, task),
        }
    }

    fn on_task_exec(&mut self, cpu: usize, task: u32) {
        let paid = self.core.cpus[cpu].debt == 0;
        if paid {
            self.core.report_soft(cpu);
        }
        let user = self.tasks[task as usize].next.in_user_mode();
        let this = &self.core.cpus[cpu];
        let done = paid && this.work == 0;
        let preemptible = user || (self.preempt_full && !done);
        if preemptible && self.core.now >= this.kernel_end && self.rqs[cpu].need_resched() {
            self.preempt(cpu);
        } else if done {
            self.interpret(cpu, task);
        } else {
            self.arm_exec(cpu);
        }
    }

    /// The instance's name: a forked task's carries a number.
    pub(crate) fn task_name(&self, task: u32) -> String {
        let template = &self.workload.tasks[self.tasks[task as usize].template as usize];
        template.name.clone()
    }
}
