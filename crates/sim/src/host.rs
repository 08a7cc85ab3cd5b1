//! What the scheduler calls out to: the part of the machine it may touch while one of its verbs runs.

use std::collections::BTreeSet;

use vruntime_sched::event::{Event, OverheadKind};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::policy::Fault;
use vruntime_sched::{CpuMask, Host, Timer};
use vruntime_trace::Sink;

use crate::config::MachineSpec;
use crate::costs::Costs;
use crate::cpu::{Cpu, NOHZ, RESCHED, RT_PUSH};
use crate::events::{Queue, Source};
use crate::idle::IdleDepth;
use crate::timers::Timers;

/// The fixed sources of a CPU. After those of all CPUs: the scheduler's other timers, changes of frequency, hotplug,
/// the host of a virtual machine, its stalls, requests from outside, and the tasks.
pub(crate) const EXEC: u32 = 0;
pub(crate) const TICK: u32 = 1;
pub(crate) const IPI: u32 = 2;
pub(crate) const HRTICK: u32 = 3;
pub(crate) const SLEEPERS: u32 = 4;
pub(crate) const SOURCES_PER_CPU: u32 = 5;

/// Sources of a machine of `cpus` CPUs that are there before any task.
pub(crate) const fn fixed_sources(cpus: usize) -> u32 {
    cpus as u32 * SOURCES_PER_CPU + 6
}

/// What fires, for a CPU.
pub(crate) enum Fires {
    /// One of its fixed sources: [`EXEC`], [`TICK`], ...
    Cpu(usize, u32),
    /// The first of the scheduler's timers that are not a CPU's own.
    Timers,
    /// A frequency changes.
    Clocks,
    /// A CPU goes offline or online.
    Hotplug,
    /// Something on the host of a virtual machine.
    Host,
    /// The host of a virtual machine takes a CPU away for something else, or gives it back.
    Stall,
    /// A request arrives from outside.
    Request,
    /// The start of a task, or the device it waits for.
    Task(u32),
}

/// Clock, event queue, CPUs and the way out for events.
pub(crate) struct Core<'a, S> {
    pub(crate) now: u64,
    /// When the run stops, if that is known: overheads are not reported beyond it.
    pub(crate) end: Option<u64>,
    pub(crate) queue: Queue,
    pub(crate) timers: Timers,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) costs: Costs,
    /// What leaving idleness takes by how long it lasted.
    pub(crate) idle_depths: Vec<IdleDepth>,
    /// The CPU whose code calls the scheduler.
    pub(crate) executing: CpuId,
    pub(crate) events: u64,
    pub(crate) switches: u64,
    /// Domains searched for work since the count was last taken.
    pub(crate) searches: u64,
    /// Groups that were visited for what they weigh (3.10).
    pub(crate) visits: u64,
    /// Tasks that may run anywhere because the CPUs they might run on are offline.
    pub(crate) lost: BTreeSet<TaskId>,
    /// Tasks that asked for CPUs all of which were offline.
    pub(crate) refused: BTreeSet<TaskId>,
    /// Tasks that asked for CPUs of which their cpusets have none.
    pub(crate) outside: BTreeSet<TaskId>,
    /// What the policy has done wrong, and on which CPU: the first time.
    pub(crate) fault: Option<(CpuId, Fault)>,
    pub(crate) sink: &'a mut S,
}

impl<'a, S> Core<'a, S> {
    /// The initial state of a run with `sources` event sources.
    pub(crate) fn new(spec: &MachineSpec, sources: usize, end: Option<u64>, sink: &'a mut S) -> Self {
        let places = spec.topology.cpus();
        Self {
            now: 0,
            end,
            queue: Queue::new(places.len(), sources),
            timers: Timers::default(),
            cpus: places.iter().map(|place| Cpu::new(place.capacity)).collect(),
            costs: spec.costs.clone(),
            idle_depths: spec.idle_depths.clone(),
            executing: CpuId(0),
            events: 0,
            switches: 0,
            searches: 0,
            visits: 0,
            lost: BTreeSet::new(),
            refused: BTreeSet::new(),
            outside: BTreeSet::new(),
            fault: None,
            sink,
        }
    }
}

impl<S: Sink> Core<'_, S> {
    #[inline]
    pub(crate) fn emit(&mut self, cpu: usize, event: &Event) {
        self.events += 1;
        self.sink.event(self.now, CpuId(cpu as u32), event);
    }

    #[cold]
    fn is_lost(&mut self, task: TaskId) {
        self.lost.insert(task);
    }

    /// What balancing has taken since this was last asked, nanoseconds.
    #[inline]
    pub(crate) fn balancing_ns(&mut self) -> u64 {
        let (searches, visits) = (std::mem::take(&mut self.searches), std::mem::take(&mut self.visits));
        searches * self.costs.balance_ns + visits * self.costs.h_load_ns
    }

    /// The kernel takes `ns` of `cpu`, whose accounts are settled, and cannot be preempted meanwhile.
    #[inline]
    pub(crate) fn charge(&mut self, cpu: usize, kind: OverheadKind, ns: u64) {
        if ns == 0 {
            return;
        }
        // What cannot be preempted comes first: report what was spent of the rest so far, and let it wait.
        let soft = self.report_soft(cpu);
        let this = &mut self.cpus[cpu];
        this.soft = soft;
        let starts = this.paid_at() - soft;
        this.owe(self.now, ns);
        let ns = self.end.map_or(ns, |end| ns.min(end.saturating_sub(starts)));
        if ns > 0 {
            self.cpus[cpu].told += ns;
            self.emit(cpu, &Event::Overhead { kind, ns });
        }
    }

    /// The kernel takes `ns` of `cpu` but can be preempted; it is reported when it is spent.
    #[inline]
    pub(crate) fn charge_soft(&mut self, cpu: usize, kind: OverheadKind, ns: u64) {
        if ns > 0 {
            let cpu = &mut self.cpus[cpu];
            cpu.debt += ns;
            cpu.soft += ns;
            cpu.soft_kind = kind;
        }
    }

    /// Reports what was spent of the preemptible kernel time, and returns what was not.
    #[inline]
    pub(crate) fn report_soft(&mut self, cpu: usize) -> u64 {
        let this = &mut self.cpus[cpu];
        if this.soft == 0 {
            return 0;
        }
        let left = this.debt.min(this.soft);
        let ns = this.soft - left;
        this.soft = 0;
        let kind = this.soft_kind;
        if ns > 0 {
            this.told += ns;
            self.emit(cpu, &Event::Overhead { kind, ns });
        }
        left
    }

    /// Returns an event source of a CPU: all executions first, then the other sources of each CPU, the scheduler's
    /// other timers, changes of frequency, and the tasks' own.
    #[inline]
    pub(crate) fn source(&self, cpu: usize, kind: u32) -> Source {
        let cpus = self.cpus.len() as u32;
        if kind == EXEC { cpu as u32 } else { cpus + cpu as u32 * (SOURCES_PER_CPU - 1) + kind - 1 }
    }

    /// The event source of the scheduler's timers that are not a CPU's own.
    #[inline]
    pub(crate) fn timers_source(&self) -> Source {
        fixed_sources(self.cpus.len()) - 6
    }

    /// The event source of changes of frequency.
    #[inline]
    pub(crate) fn clocks_source(&self) -> Source {
        fixed_sources(self.cpus.len()) - 5
    }

    /// The event source of CPUs that come and go.
    #[inline]
    pub(crate) fn hotplug_source(&self) -> Source {
        fixed_sources(self.cpus.len()) - 4
    }

    /// The event source of the host of a virtual machine.
    #[inline]
    pub(crate) fn host_source(&self) -> Source {
        fixed_sources(self.cpus.len()) - 3
    }

    /// The event source of stalls.
    #[inline]
    pub(crate) fn stall_source(&self) -> Source {
        fixed_sources(self.cpus.len()) - 2
    }

    /// The event source of requests from outside.
    #[inline]
    pub(crate) fn requests_source(&self) -> Source {
        fixed_sources(self.cpus.len()) - 1
    }

    /// The event source of a task's start, and of the device it waits for.
    #[inline]
    pub(crate) fn task_source(&self, task: u32) -> Source {
        fixed_sources(self.cpus.len()) + task
    }

    /// Whose source that is.
    #[inline]
    pub(crate) fn fires(&self, source: Source) -> Fires {
        let cpus = self.cpus.len() as u32;
        if source < cpus {
            Fires::Cpu(source as usize, EXEC)
        } else if source < cpus * SOURCES_PER_CPU {
            let other = source - cpus;
            Fires::Cpu((other / (SOURCES_PER_CPU - 1)) as usize, 1 + other % (SOURCES_PER_CPU - 1))
        } else {
            match source - cpus * SOURCES_PER_CPU {
                0 => Fires::Timers,
                1 => Fires::Clocks,
                2 => Fires::Hotplug,
                3 => Fires::Host,
                4 => Fires::Stall,
                5 => Fires::Request,
                task => Fires::Task(task - 6),
            }
        }
    }

    /// Arms the event of the first of the scheduler's timers.
    pub(crate) fn arm_timers(&mut self) {
        let source = self.timers_source();
        match self.timers.next() {
            Some(at) => self.queue.arm(source, at.max(self.now)),
            None => self.queue.cancel(source),
        }
    }

    /// An interrupt for `cpu`, sent at `sent`.
    #[inline(never)]
    fn interrupt(&mut self, cpu: CpuId, why: u8, sent: u64) {
        let source = self.source(cpu.index(), IPI);
        let mut at = sent.saturating_add(self.costs.ipi_latency_ns);
        let exit = self.idle_exit(cpu.index(), at);
        let this = &mut self.cpus[cpu.index()];
        // One that was sent later may overtake: its reasons are then all there are, as nobody acts on a kick who has
        // something to run.
        if this.ipi == 0 || at < this.ipi_at {
            if this.sleeps_at(at) {
                // It will find the CPU in its idle state: wake-up and interrupt are one event.
                at = at.saturating_add(exit);
                this.awake_at = at;
            }
            this.ipi_at = at;
            self.queue.arm(source, at);
        }
        this.ipi |= why;
    }
}

impl<S: Sink> Host for Core<'_, S> {
    #[inline]
    fn resched(&mut self, cpu: CpuId) {
        // On the executing CPU the machine looks at `need_resched` itself when the kernel path ends.
        if cpu != self.executing {
            self.interrupt(cpu, RESCHED, self.now);
        }
    }

    /// Sends the kick at the end of the tick, after its cost and after the CPU of the tick has picked its next task.
    fn kick_nohz(&mut self, cpu: CpuId) {
        let sent = self.cpus[self.executing.index()].paid_at().max(self.now);
        self.interrupt(cpu, NOHZ, sent);
    }

    #[inline]
    fn arm(&mut self, timer: Timer, at: Option<u64>) {
        match (timer, at) {
            (Timer::Hrtick(cpu), Some(at)) => self.queue.arm(self.source(cpu.index(), HRTICK), at.max(self.now)),
            (Timer::Hrtick(cpu), None) => self.queue.cancel(self.source(cpu.index(), HRTICK)),
            (Timer::RtPush(cpu), Some(at)) => self.interrupt(cpu, RT_PUSH, at.max(self.now)),
            (timer, Some(at)) => {
                let cpu = timer.cpu().unwrap_or(self.executing);
                self.timers.arm(timer, at.max(self.now), cpu.0);
                self.arm_timers();
            }
            (timer, None) => {
                self.timers.cancel(timer);
                self.arm_timers();
            }
        }
    }

    fn affinity(&mut self, at: u64, task: TaskId, cpus: Option<&CpuMask>) {
        self.sink.affinity(at, task, cpus);
    }

    #[cold]
    fn policy_fault(&mut self, cpu: CpuId, fault: Fault) {
        self.fault.get_or_insert((cpu, fault));
    }

    #[expect(
        clippy::inline_always,
        reason = "left to itself the compiler does so or not as the caller grows: 50 instructions a switch"
    )]
    #[inline(always)]
    fn event(&mut self, _at: u64, cpu: CpuId, event: &Event) {
        match event {
            Event::Switch { .. } => self.switches += 1,
            // To find everything balanced is part of what the tick or the switch takes.
            Event::Balance { busiest, pulled, .. } => self.searches += u64::from(busiest.is_some() || *pulled > 0),
            Event::HLoad { groups, .. } => self.visits += u64::from(*groups),
            Event::AffinityLost { task } => self.is_lost(*task),
            _ => {}
        }
        self.emit(cpu.index(), event);
    }
}
