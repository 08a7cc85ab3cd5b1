//! The machine: its state, its event loop and its end.
//!
//! # How time passes on a CPU
//!
//! A CPU has *debts*, kernel time to spend first, and its running task has *work*. Interrupts, switches and system
//! calls add to the debts. Its execution event is armed for the end of debts and work. After a request to reschedule,
//! it is armed for the moment when the kernel can be preempted. Every event on a CPU first updates its account, then
//! arms the execution event again.
//!
//! # Interrupts
//!
//! A timer fires on the CPU on which it was armed. The wakeup happens at once, the reschedule at the end of the
//! interrupt. A reschedule of another CPU is an interrupt that takes time to arrive. That CPU acts on its
//! `need_resched` at the arrival, or at the end of an earlier kernel path. An idle CPU begins an interrupt after
//! `idle_exit_ns`. Softirq work (balancing) happens at the interrupt's return, before any switch.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use vruntime_sched::class::deadline::SchedError;
use vruntime_sched::debug::Snapshot;
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::invariants;
use vruntime_sched::policy::Fault;
use vruntime_sched::{Policy, Rq, SchedAttr, Scheduler, Shared, TaskAttrs};
use vruntime_trace::{DomainInfo, Sink, TaskInfo, Totals};
use vruntime_workload::program::Workload;

use crate::config::{Outcome, Progress};
use crate::cpu::NEVER;
use crate::cpusets::ReportedCpusets;
use crate::error::Error;
use crate::exit_group::ExitGroups;
use crate::frequency::Clocks;
use crate::host::{Core, EXEC, Fires, HRTICK, IPI, TICK};
use crate::hypervisor::Hypervisor;
use crate::idle::Idle;
use crate::interpreter::Spin;
use crate::loops::Loop;
use crate::messages::Way;
use crate::program::{Programs, times};
use crate::rcu::GracePeriods;
use crate::requests::Devices;
use crate::rng::Rng;
use crate::rounds::Round;
use crate::settings::Refusals;
use crate::sleepers::Sleepers;
use crate::stalls::Stalls;
use crate::sync::Objects;
use crate::task::{FIRST, Task};

/// The most events between two calls of the watcher.
const WATCH_EVERY: u64 = 1 << 4;
/// The tasks that the events between two calls of the watcher may all concern. The machine reads no clock, but an event
/// takes at most a few microseconds for each task: changes, limits and barriers concern all.
const WATCHED_TASKS: u64 = 1 << 14;
/// The most events at one instant, as a multiple of instructions. A task that stops time is found first.
const STALLED: u64 = 8;

#[allow(clippy::struct_excessive_bools)] // independent facts
pub(crate) struct Machine<'a, P: Policy, S: Sink> {
    pub(crate) core: Core<'a, S>,
    pub(crate) rqs: Vec<Rq<P>>,
    pub(crate) shared: Shared<P>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) programs: Programs,
    pub(crate) objects: Objects,
    pub(crate) exit_groups: ExitGroups,
    pub(crate) workload: &'a Workload,
    pub(crate) mm_of: Vec<u32>,
    /// The scheduler's id of each of the workload's groups.
    pub(crate) groups: Vec<GroupId>,
    /// The default session's autogroup, then those of the workload's sessions; empty without autogroups.
    pub(crate) autogroups: Vec<GroupId>,
    pub(crate) group_states: Vec<GroupState>,
    pub(crate) reported_cpusets: ReportedCpusets,
    /// Changes made so far.
    pub(crate) changed: usize,
    /// SMT siblings: each CPU's core, and each core's CPUs.
    pub(crate) core_of: Vec<u32>,
    pub(crate) cores: Vec<Vec<u32>>,
    pub(crate) smt_speed_permille: u32,
    /// The end, at which a task still completes its instruction.
    pub(crate) stop_at: u64,
    pub(crate) capacity: Vec<u32>,
    pub(crate) tick_period: u64,
    pub(crate) tick_phase: Vec<u64>,
    pub(crate) timer_slack: u64,
    /// Tasks' timers by CPU, and the number of timers armed so far.
    pub(crate) sleepers: Vec<Sleepers>,
    pub(crate) timers_armed: u64,
    pub(crate) preempt_full: bool,
    pub(crate) messages: Way,
    /// Whether a reader of a full pipe wakes a writer even without a free page.
    pub(crate) pipes_wake_in_vain: bool,
    /// Instructions since time last passed, and the limit.
    pub(crate) steps: u64,
    pub(crate) max_steps: u64,
    pub(crate) spin: Spin,
    pub(crate) error: Option<Error>,
    /// Tasks alive that the run waits for.
    pub(crate) live: usize,
    /// All tasks alive, and the limit.
    pub(crate) alive: usize,
    pub(crate) max_alive: usize,
    /// The number of forks of each task of the workload.
    pub(crate) forked: Vec<u32>,
    /// Deadline tasks that were to fork.
    pub(crate) barren: BTreeSet<TaskId>,
    pub(crate) notes: Vec<String>,
    pub(crate) end_if_refused: bool,
    pub(crate) refusals: Refusals,
    pub(crate) plugged: usize,
    pub(crate) loops: Option<Vec<Loop>>,
    pub(crate) rounds: Option<Vec<Round>>,
    /// The number of the workload's own tasks, which precede the machine's.
    pub(crate) own: usize,
    pub(crate) jitter: Rng,
    pub(crate) debug_at: Option<u64>,
    pub(crate) debug: Option<Snapshot>,
    /// The host of a virtual machine with too few CPUs.
    pub(crate) host: Option<Box<Hypervisor<'a>>>,
    pub(crate) stalls: Option<Box<Stalls>>,
    pub(crate) devices: Option<Box<Devices>>,
    pub(crate) clocks: Option<Clocks>,
    pub(crate) governed: bool,
    pub(crate) idle: Option<Idle>,
    pub(crate) rcu: Option<GracePeriods>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupState {
    pub(crate) weight: u32,
    pub(crate) idle: bool,
    /// Percent of the machine.
    pub(crate) guarantee: Option<u32>,
    /// Quota and period, nanoseconds.
    pub(crate) max: Option<(u64, u64)>,
}

/// Calls the scheduler on behalf of `$cpu`.
macro_rules! sched {
    ($machine:expr, $cpu:expr) => {{
        $machine.core.executing = CpuId($cpu as u32);
        let now = $machine.core.now;
        Scheduler { rqs: &mut $machine.rqs, shared: &$machine.shared, host: &mut $machine.core, now }
    }};
}
pub(crate) use sched;

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(crate) fn domains(&self) -> Vec<DomainInfo> {
        let domains = self.shared.domains.views().map(|view| DomainInfo {
            level: view.level.name(),
            span: view.span.clone(),
            members: view.members,
            groups: view.groups.into_iter().cloned().collect(),
            interval_ns: view.interval_ns,
        });
        domains.collect()
    }

    /// Creates an instance of the task `template`, forked on `cpu`, without running it.
    pub(crate) fn new_task(&mut self, template: usize, instance: u32, cpu: usize) -> u32 {
        let task = &self.workload.tasks[template];
        let name = &*instance_name(&task.name, instance);
        let initial = &self.programs.settings[self.programs.initial[template] as usize];
        let mut attr = initial.policy.unwrap_or_default();
        let group = if template < self.own {
            self.group(template, initial.group.unwrap_or(0))
        } else {
            // Kernel threads have no autogroup.
            GroupId::ROOT
        };
        if attr.policy.is_rt() && !self.shared.may_have_rt(group) {
            let error = Err(SchedError::NoRtRuntime { group });
            self.refuse_as(name, error, false);
            attr = SchedAttr::default();
        }
        let SchedAttr { policy, nice, rt_priority, .. } = attr;
        let affinity = self.programs.settings[self.programs.initial[template] as usize].affinity.clone();
        let attrs = TaskAttrs { policy, nice, rt_priority, slice: attr.slice, group, affinity };
        let (per_cpu, on) = (template >= self.own && attrs.affinity.is_some(), CpuId(cpu as u32));
        let mut sched = sched!(self, cpu);
        let id = if per_cpu { sched.new_kthread(&attrs, on) } else { sched.new_task(&attrs, on) };
        if instance == FIRST && task.wakee_flips > 0 {
            sched.set_wakee_flips(id, task.wakee_flips);
        }
        if instance == FIRST
            && let Some(averages) = task.averages
        {
            sched.set_averages(id, averages.runnable, averages.running);
        }
        debug_assert_eq!(id.index(), self.tasks.len(), "tasks are counted in order of creation");
        self.tasks.push(Task::new(template as u32, instance, self.programs.entry[template], times(task.repeat)));
        self.round_of_new_task();
        let initial = &self.programs.settings[self.programs.initial[template] as usize];
        if initial.util_min.or(initial.util_max).is_some() {
            let initial = initial.clone();
            self.clamp(cpu, id.0, &initial);
        }
        // The machine's own threads do not keep it running.
        self.live += usize::from(self.is_waited_for(template));
        self.alive += 1;
        self.core.sink.task(id, &TaskInfo { name, class: &task.class, group, nice, policy, rt_priority });
        let (allowed, fits) = self.shared.cpus_allowed(group, &attrs.affinity);
        if !per_cpu && !fits {
            self.core.outside.insert(id);
        }
        if let Some(cpus) = if per_cpu { attrs.affinity } else { allowed } {
            self.core.sink.affinity(self.core.now, id, Some(&cpus));
        }
        id.0
    }

    pub(crate) fn is_waited_for(&self, template: usize) -> bool {
        template < self.own && !self.workload.background.contains(&template)
    }

    /// Returns the group of an instance of `template` in the workload's group `index`. For the root group, this is the
    /// session's autogroup. Tasks without session stay in it.
    pub(crate) fn group(&self, template: usize, index: u32) -> GroupId {
        let workload = self.workload;
        let has_none = || workload.kernel_threads.contains(&template) || workload.sessionless.contains(&template);
        if index == 0 && !self.autogroups.is_empty() && !has_none() {
            let session = self.workload.tasks[template].session;
            return self.autogroups[session.map_or(0, |session| session + 1)];
        }
        self.groups[index as usize]
    }

    /// Calls `watch`. Returns the number of events until the next call, or nothing to stop the run.
    fn watched(&self, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Option<u64> {
        let progress = Progress { now: self.core.now, end: self.core.end, events: self.core.events };
        let goes_on = watch(progress).is_continue();
        goes_on.then(|| (WATCHED_TASKS / self.tasks.len().max(1) as u64).clamp(1, WATCH_EVERY))
    }

    pub(crate) fn run(&mut self, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Outcome, Error> {
        let mut until_watched: u64 = 1;
        // Events since time last passed.
        let mut at_once: u64 = 0;
        let mut interrupted = false;
        let mut stuck = false;
        let end = self.core.end.unwrap_or(NEVER);
        // No snapshot and no change before this time.
        let mut snapshot = self.debug_at.map_or(end, |at| end.min(at.saturating_add(1)));
        let mut pause = snapshot.min(self.next_change());
        'events: while self.live > 0 {
            let next = self.core.queue.next();
            let at = next.map_or(NEVER, |(at, _)| at);
            if at >= pause {
                while at >= pause && pause < end {
                    if pause == snapshot {
                        self.take_snapshot();
                        snapshot = end;
                        pause = end.min(self.next_change());
                        continue;
                    }
                    // The change may have armed an earlier event.
                    if let Some((at, source)) = next {
                        self.core.queue.arm(source, at);
                    }
                    (self.steps, at_once) = (0, 0);
                    self.make_change();
                    pause = snapshot.min(self.next_change());
                    if let Some(error) = self.error.take() {
                        return Err(error);
                    }
                    if self.watched(watch).is_none() {
                        interrupted = true;
                        break 'events;
                    }
                    continue 'events;
                }
                if at >= end && next.is_some() {
                    self.core.now = end;
                    break;
                }
            }
            let Some((_, source)) = next else {
                stuck = true;
                break;
            };
            if at > self.core.now {
                self.core.now = at;
                self.steps = 0;
                at_once = 0;
            }
            self.dispatch(source);
            if self.error.is_some()
                && let Some(error) = self.error.take()
            {
                return Err(error);
            }
            if let Some((cpu, fault)) = self.core.fault {
                return Err(self.policy_error(cpu, fault));
            }
            at_once += 1;
            if at_once > STALLED * self.max_steps {
                return Err(Error::Stalled { now: self.core.now });
            }
            until_watched -= 1;
            if until_watched == 0 {
                let Some(events) = self.watched(watch) else {
                    interrupted = true;
                    break;
                };
                until_watched = events;
            }
        }
        if self.debug.is_none() && !interrupted && self.debug_at.is_some_and(|at| at < self.core.now) {
            self.take_snapshot();
        }
        Ok(self.finish(interrupted, stuck))
    }

    /// Takes the snapshot of `debug_at`. It changes nothing: queues' clocks stay at the last event.
    #[cold]
    fn take_snapshot(&mut self) {
        let now = self.core.now;
        self.core.now = self.debug_at.unwrap_or(now);
        self.debug = Some(sched!(self, 0).snapshot());
        self.core.now = now;
    }

    #[inline]
    pub(crate) fn dispatch(&mut self, source: u32) {
        match self.core.fires(source) {
            Fires::Cpu(cpu, EXEC) => self.on_exec(cpu),
            Fires::Cpu(cpu, TICK) => self.on_tick(cpu),
            Fires::Cpu(cpu, IPI) => self.on_ipi(cpu),
            Fires::Cpu(cpu, HRTICK) => self.on_hrtick(cpu),
            Fires::Cpu(cpu, _) => self.on_sleepers(cpu),
            Fires::Timers => self.on_timers(),
            Fires::Clocks => self.on_clocks(),
            Fires::Hotplug => self.on_hotplug(),
            Fires::Host => self.on_host(),
            Fires::Stall => self.on_stall(),
            Fires::Request => self.on_request(),
            Fires::Task(task) => self.on_task_source(task),
        }
    }

    fn finish(&mut self, interrupted: bool, stuck: bool) -> Outcome {
        let mut end = self.core.now;
        if self.core.end != Some(end) {
            // If the end was unknown, reported kernel paths are completed.
            end = self.core.cpus.iter().map(|cpu| cpu.kernel_end).fold(end, u64::max);
        }
        self.core.now = end;
        for cpu in 0..self.core.cpus.len() {
            self.core.cpus[cpu].account_until(end);
            self.core.report_soft(cpu);
            if self.is_hosted() {
                self.core.cpus[cpu].end();
            }
        }
        let loadavg = sched!(self, 0).loadavg();
        let group_switches = sched!(self, 0).group_switches();
        self.core.sink.totals(&Totals { loadavg, group_switches: &group_switches });
        self.core.sink.finish(end);
        let mut notes = std::mem::take(&mut self.notes);
        crate::notes::blocked(self, stuck, &mut notes);
        crate::notes::requests(self, &mut notes);
        self.affinity_notes(&mut notes);
        self.refusal_notes(&mut notes);
        Outcome {
            end,
            events: self.core.events,
            switches: self.core.switches,
            interrupted,
            notes,
            cpus: self.core.cpus.iter().map(|cpu| cpu.time).collect(),
            loadavg,
            group_switches,
            debug: self.debug.take(),
        }
    }

    /// Checks after the run that the empty queues have lost no task.
    pub(crate) fn check_queues(&mut self) -> Result<(), Error> {
        for rq in &mut self.rqs {
            if let Some(fault) = invariants::drain(rq, &self.shared) {
                let cpu = rq.cpu;
                return Err(self.policy_error(cpu, fault));
            }
        }
        Ok(())
    }

    #[cold]
    fn policy_error(&self, cpu: CpuId, fault: Fault) -> Error {
        let task = fault.task().map(|task| self.task_name(task.0));
        Error::Policy { now: self.core.now, cpu: cpu.0, task, fault }
    }

    /// Returns the instance's name, with a number if forked.
    pub(crate) fn task_name(&self, task: u32) -> String {
        let this = &self.tasks[task as usize];
        instance_name(&self.workload.tasks[this.template as usize].name, this.instance).into_owned()
    }
}

fn instance_name(template: &str, instance: u32) -> Cow<'_, str> {
    if instance == FIRST { template.into() } else { format!("{template}-{instance}").into() }
}
