//! The scheduler's host: what it may touch during a call.

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

/// The fixed sources of a CPU. The machine's follow, then the tasks'.
pub(crate) const EXEC: u32 = 0;
pub(crate) const TICK: u32 = 1;
pub(crate) const IPI: u32 = 2;
pub(crate) const HRTICK: u32 = 3;
pub(crate) const SLEEPERS: u32 = 4;
pub(crate) const SOURCES_PER_CPU: u32 = 5;

pub(crate) const fn fixed_sources(cpus: usize) -> u32 {
    cpus as u32 * SOURCES_PER_CPU + 6
}

pub(crate) enum Fires {
    Cpu(usize, u32),
    /// The first of the scheduler's timers without a CPU.
    Timers,
    Clocks,
    Hotplug,
    Host,
    Stall,
    Request,
    /// A task's start, or the device it waits for.
    Task(u32),
}

pub(crate) struct Core<'a, S> {
    pub(crate) now: u64,
    /// The known end of the run. Overhead beyond it is not reported.
    pub(crate) end: Option<u64>,
    pub(crate) queue: Queue,
    pub(crate) timers: Timers,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) costs: Costs,
    pub(crate) idle_depths: Vec<IdleDepth>,
    /// The CPU that calls the scheduler.
    pub(crate) executing: CpuId,
    pub(crate) events: u64,
    pub(crate) switches: u64,
    /// Domains searched since [`Core::balancing_ns`].
    pub(crate) searches: u64,
    /// Groups visited for their load since then (3.10).
    pub(crate) visits: u64,
    /// Tasks whose allowed CPUs are all offline may run anywhere.
    pub(crate) lost: BTreeSet<TaskId>,
    /// Tasks that requested only offline CPUs.
    pub(crate) refused: BTreeSet<TaskId>,
    /// Tasks that requested only CPUs outside their cpusets.
    pub(crate) outside: BTreeSet<TaskId>,
    /// The policy's first fault, and its CPU.
    pub(crate) fault: Option<(CpuId, Fault)>,
    pub(crate) sink: &'a mut S,
}

impl<'a, S> Core<'a, S> {
    pub(crate) fn new(spec: &MachineSpec, sources: usize, end: Option<u64>, sink: &'a mut S) -> Self {
        let cpu_places = spec.topology.cpus();
        Self {
            now: 0,
            end,
            queue: Queue::new(cpu_places.len(), sources),
            timers: Timers::default(),
            cpus: cpu_places.iter().map(|place| Cpu::new(place.capacity)).collect(),
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

    /// Returns balancing time since the last call, nanoseconds.
    #[inline]
    pub(crate) fn balancing_ns(&mut self) -> u64 {
        let (searches, visits) = (std::mem::take(&mut self.searches), std::mem::take(&mut self.visits));
        searches * self.costs.balance_ns + visits * self.costs.h_load_ns
    }

    /// Charges kernel time that cannot be preempted to a CPU with a settled account.
    #[inline]
    pub(crate) fn charge(&mut self, cpu: usize, kind: OverheadKind, ns: u64) {
        if ns == 0 {
            return;
        }
        // It precedes the preemptible part, whose spent time is reported first.
        let soft = self.report_soft(cpu);
        let this = &mut self.cpus[cpu];
        this.soft = soft;
        let starts = this.paid_at() - soft;
        this.owe(self.now, ns);
        let ns = self.end.map_or(ns, |end| ns.min(end.saturating_sub(starts)));
        if ns > 0 {
            self.cpus[cpu].overhead_reported += ns;
            self.emit(cpu, &Event::Overhead { kind, ns });
        }
    }

    /// Charges preemptible kernel time to `cpu`. It is reported when spent.
    #[inline]
    pub(crate) fn charge_soft(&mut self, cpu: usize, kind: OverheadKind, ns: u64) {
        if ns > 0 {
            let cpu = &mut self.cpus[cpu];
            cpu.debt += ns;
            cpu.soft += ns;
            cpu.soft_kind = kind;
        }
    }

    /// Reports the spent part of the preemptible kernel time, and returns the rest.
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
            this.overhead_reported += ns;
            self.emit(cpu, &Event::Overhead { kind, ns });
        }
        left
    }

    /// Executions come first, then other sources of each CPU.
    #[inline]
    pub(crate) fn source(&self, cpu: usize, kind: u32) -> Source {
        let cpus = self.cpus.len() as u32;
        if kind == EXEC { cpu as u32 } else { cpus + cpu as u32 * (SOURCES_PER_CPU - 1) + kind - 1 }
    }

    #[inline]
    pub(crate) fn timers_source(&self) -> Source {
        fixed_sources(self.cpus.len()) - 6
    }

    #[inline]
    pub(crate) fn clocks_source(&self) -> Source {
        fixed_sources(self.cpus.len()) - 5
    }

    #[inline]
    pub(crate) fn hotplug_source(&self) -> Source {
        fixed_sources(self.cpus.len()) - 4
    }

    #[inline]
    pub(crate) fn host_source(&self) -> Source {
        fixed_sources(self.cpus.len()) - 3
    }

    #[inline]
    pub(crate) fn stall_source(&self) -> Source {
        fixed_sources(self.cpus.len()) - 2
    }

    #[inline]
    pub(crate) fn requests_source(&self) -> Source {
        fixed_sources(self.cpus.len()) - 1
    }

    #[inline]
    pub(crate) fn task_source(&self, task: u32) -> Source {
        fixed_sources(self.cpus.len()) + task
    }

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

    pub(crate) fn arm_timers(&mut self) {
        let source = self.timers_source();
        match self.timers.next() {
            Some(at) => self.queue.arm(source, at.max(self.now)),
            None => self.queue.cancel(source),
        }
    }

    #[inline(never)]
    fn interrupt(&mut self, cpu: CpuId, why: u8, sent: u64) {
        let source = self.source(cpu.index(), IPI);
        let mut at = sent.saturating_add(self.costs.ipi_latency_ns);
        let exit = self.idle_exit(cpu.index(), at);
        let this = &mut self.cpus[cpu.index()];
        // A later interrupt may arrive first, with the reasons of the earlier one. An early kick has no effect on a CPU
        // with work.
        if this.ipi == 0 || at < this.ipi_at {
            if this.sleeps_at(at) {
                // The CPU will be in its idle state: wakeup and interrupt are one event.
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
        // On the executing CPU, the end of the kernel path checks `need_resched`.
        if cpu != self.executing {
            self.interrupt(cpu, RESCHED, self.now);
        }
    }

    /// Sends the kick at the end of the tick, after its cost and the choice of the next task.
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
            // Tick and switch contain the cost of a balanced result.
            Event::Balance { busiest, pulled, .. } => self.searches += u64::from(busiest.is_some() || *pulled > 0),
            Event::HLoad { groups, .. } => self.visits += u64::from(*groups),
            Event::AffinityLost { task } => self.is_lost(*task),
            _ => {}
        }
        self.emit(cpu.index(), event);
    }
}
