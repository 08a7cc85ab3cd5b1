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
//! come to any interrupt. Ticks come only on busy CPUs. What an interrupt leaves to a softirq, which is balancing, is done when it returns, before
//! anybody is switched to.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use vruntime_sched::class::deadline::SchedError;
use vruntime_sched::debug::Snapshot;
use vruntime_sched::energy::EnergyModel;
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::tunables::Tunables as _;
use vruntime_sched::{GroupWeight, Policy, Rq, SchedAttr, Scheduler, Shared, TaskAttrs};
use vruntime_trace::{DomainInfo, EnergyInfo, GroupInfo, MachineInfo, Sink, TaskInfo, Totals};
use vruntime_workload::program::{Stop, Workload};
use vruntime_workload::scenario::Preempt;

use crate::background;
use crate::changes::limit;
use crate::config::{Config, Outcome, Progress};
use crate::cpu::{Cpu, NEVER};
use crate::cpusets::Told;
use crate::energy;
use crate::error::{Error, Who};
use crate::events::{MAX_SOURCES, Queue};
use crate::frequency::{Clocks, Governor};
use crate::history;
use crate::host::{Core, EXEC, Fires, IPI, TICK, fixed_sources};
use crate::hypervisor::Hypervisor;
use crate::idle::{self, Idle};
use crate::interpreter::{MAX_TASKS, Spin};
use crate::loops::Loop;
use crate::messages::Way;
use crate::mm;
use crate::program::{FOREVER, Programs, compile, times};
use crate::rcu::GracePeriods;
use crate::rng::Rng;
use crate::sleepers::Sleepers;
use crate::stalls::Stalls;
use crate::sync::Objects;
use crate::task::{FIRST, Task};
use crate::timers::Timers;

/// The watcher is asked once in so many events of the machine.
const WATCH_EVERY: u64 = 1 << 16;
/// So many times as many events as instructions may follow each other in one instant: a task that never lets time pass
/// is found and named first.
const STALLED: u64 = 8;
/// A seed other than 0 starts each task up to so much late.
const START_JITTER: u64 = 5_000;
/// So long a task may take to end after the duration, nanoseconds.
const GRACE: u64 = 1_000_000_000;

/// A machine at work. `P` is the scheduling policy, `S` receives the events.
pub(crate) struct Machine<'a, P: Policy, S: Sink> {
    pub(crate) core: Core<'a, S>,
    pub(crate) rqs: Vec<Rq<P>>,
    pub(crate) shared: Shared<P>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) programs: Programs,
    pub(crate) objects: Objects,
    pub(crate) workload: &'a Workload,
    /// The address space of each of the workload's tasks.
    pub(crate) mm_of: Vec<u32>,
    /// The scheduler's id of each of the workload's groups.
    pub(crate) groups: Vec<GroupId>,
    /// The autogroups, if there are any: the default session's, then those of the workload's sessions.
    pub(crate) autogroups: Vec<GroupId>,
    /// What can change of each of the workload's groups, as it is now.
    pub(crate) group_states: Vec<GroupState>,
    /// What observers know of cpusets.
    pub(crate) cpusets_told: Told,
    /// How many of the workload's changes have been made.
    pub(crate) changed: usize,
    /// SMT siblings: index of each CPU's core, and the CPUs of each core.
    pub(crate) core_of: Vec<u32>,
    pub(crate) cores: Vec<Vec<u32>>,
    pub(crate) smt_speed_permille: u32,
    /// Tasks end with the instruction they are in then.
    pub(crate) stop_at: u64,
    pub(crate) capacity: Vec<u32>,
    pub(crate) tick_period: u64,
    /// When the first tick of each CPU would come.
    pub(crate) tick_phase: Vec<u64>,
    pub(crate) timer_slack: u64,
    /// Tasks' timers, by CPU, and how often one was armed.
    pub(crate) sleepers: Vec<Sleepers>,
    pub(crate) timers_armed: u64,
    pub(crate) preempt_full: bool,
    pub(crate) messages: Way,
    /// See [`history::pipes_wake_in_vain`].
    pub(crate) pipes_wake_in_vain: bool,
    /// Instructions since time last passed, and how many are too many.
    pub(crate) steps: u64,
    pub(crate) max_steps: u64,
    pub(crate) spin: Spin,
    pub(crate) error: Option<Error>,
    /// Tasks that have not ended.
    pub(crate) live: usize,
    /// How often each task of the workload was forked.
    pub(crate) forked: Vec<u32>,
    /// Deadline tasks that were to fork.
    pub(crate) barren: BTreeSet<TaskId>,
    pub(crate) notes: Vec<String>,
    /// How many of the CPUs that come and go have come or gone.
    pub(crate) plugged: usize,
    /// For each task the loop it is in, if an observer wants to know.
    pub(crate) loops: Option<Vec<Loop>>,
    /// How many of the workload's tasks are its own; those after them are the machine's.
    pub(crate) own: usize,
    /// Draws how late interrupts come.
    pub(crate) jitter: Rng,
    debug_at: Option<u64>,
    debug: Option<Snapshot>,
    /// The host of a virtual machine, if it has too few CPUs.
    pub(crate) host: Option<Box<Hypervisor<'a>>>,
    /// The moments in which the host of a virtual machine runs something else, if there are any.
    pub(crate) stalls: Option<Box<Stalls>>,
    /// The frequencies, if they can change.
    pub(crate) clocks: Option<Clocks>,
    /// There are `clocks`, or idle states.
    pub(crate) governed: bool,
    /// The idle states, if there are any.
    pub(crate) idle: Option<Idle>,
    /// Grace periods, if the machine's thread for them does anything.
    pub(crate) rcu: Option<GracePeriods>,
}

/// What can change of a group of the workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupState {
    pub(crate) weight: u32,
    pub(crate) idle: bool,
    /// Percent of the machine.
    pub(crate) guarantee: Option<u32>,
    /// Quota and period, nanoseconds.
    pub(crate) max: Option<(u64, u64)>,
}

/// Where forks put tasks one after another that fall asleep soon: each on the idlest CPU that it may run on, so on every one in turn, in any order.
/// (Watched on a real 6.18: of five on 2 CPUs three and two, 13 times of 14.)
struct Beds {
    /// All CPUs, those that have waited longest for a task first.
    queue: Vec<CpuId>,
    /// How many of them from the front have waited as long as one another.
    fresh: usize,
    shuffled: bool,
}

impl Beds {
    fn new(cpus: usize, shuffled: bool) -> Self {
        Self { queue: (0..cpus as u32).map(CpuId).collect(), fresh: cpus, shuffled }
    }

    /// The next CPU that `fits`, of which there is one.
    fn next(&mut self, rng: &mut Rng, fits: impl Fn(CpuId) -> bool) -> CpuId {
        if self.fresh == 0 {
            self.fresh = self.queue.len();
        }
        let of_fresh = self.queue[..self.fresh].iter().filter(|&&cpu| fits(cpu)).count();
        let skipped = if self.shuffled && of_fresh > 1 { rng.below(of_fresh as u64) as usize } else { 0 };
        let at = (0..self.queue.len()).filter(|&at| fits(self.queue[at])).nth(skipped).unwrap_or(0);
        self.fresh -= usize::from(at < self.fresh);
        let cpu = self.queue.remove(at);
        self.queue.push(cpu);
        cpu
    }
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
        host: Option<Box<Hypervisor<'a>>>,
    ) -> Result<Self, Error> {
        let spec = &config.machine;
        let places = spec.topology.cpus();
        let cpus = places.len();
        let fixed = fixed_sources(cpus) as usize;
        let sources = fixed + workload.tasks.len();
        if workload.tasks.len() > MAX_TASKS || sources > MAX_SOURCES {
            return Err(Error::TooMany { limit: MAX_TASKS.min(MAX_SOURCES - fixed) });
        }
        let range = |what, value: u32, low, high, expected| {
            let value = i64::from(value);
            let fine = (low..=high).contains(&value);
            if fine { Ok(()) } else { Err(Error::OutOfRange { who: Who::Machine, what, value, expected }) }
        };
        range("HZ", spec.hz, 1, 10_000, "1 to 10000")?;
        range("SMT speed", spec.smt_speed_permille, 1, 1000, "1 to 1000 thousandths")?;
        if let Some(frequencies) = &spec.frequencies {
            frequencies.check(cpus).map_err(Error::Frequency)?;
        }
        if let Some(energy) = &spec.energy {
            energy.check(&spec.topology).map_err(Error::Energy)?;
        }
        if !spec.idle_states.is_empty() {
            idle::check(&spec.idle_states).map_err(Error::IdleStates)?;
        }
        let governed = spec.frequencies.as_ref().is_some_and(|spec| spec.governor == Governor::Schedutil);
        let clamps_matter = governed || places.iter().any(|place| place.capacity != places[0].capacity);
        let periods = shared.config.tunables.deadline().periods;
        let programs = compile(workload, cpus, &spec.costs, periods, clamps_matter)?;
        crate::hotplug::check(&workload.hotplug, cpus, &spec.isolated)?;
        let duration = config.duration.or(workload.duration);
        let (end, stop_at) = match (workload.stop, duration) {
            (Stop::AfterInstruction, Some(at)) => (Some(at.saturating_add(GRACE)), at),
            _ => (duration, NEVER),
        };
        let loops_for_ever = |task: &vruntime_workload::program::Task| {
            task.start.is_some()
                && task.phases.iter().any(|phase| times(phase.repeat) == FOREVER || times(task.repeat) == FOREVER)
                && times(task.repeat) > 0
        };
        // If the run waits for nobody, it waits for all.
        let starts = |task: usize| workload.tasks[task].start.is_some();
        let any = (0..own).any(|task| starts(task) && !workload.background.contains(&task));
        let waited = |task: &usize| !any || !workload.background.contains(task);
        if end.is_none()
            && let Some(task) =
                (0..own).filter(waited).map(|task| &workload.tasks[task]).find(|task| loops_for_ever(task))
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
        let drawn = if config.seed == 0 { tick_period } else { 1 + rng.below(tick_period) };
        let phase = config.tick_phase.unwrap_or(drawn);
        let skew = if spec.skew_tick { tick_period / 2 / cpus as u64 } else { 0 };
        let rqs = Rq::all(&shared);
        let mut notes = programs.notes.clone();
        notes.extend(history::note(workload, &config.kernel));
        notes.extend(history::preemption_note(config));
        notes.extend(energy::note(config));
        let loops = sink.wants_loops().then(Vec::new);
        let governed = spec.frequencies.is_some() || !spec.idle_states.is_empty();
        let preempt_full = config.preempt == Preempt::Full;
        let mut machine = Self {
            core: Core {
                now: 0,
                end,
                queue: Queue::new(cpus, sources),
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
                sink,
            },
            rqs,
            shared,
            tasks: Vec::with_capacity(workload.tasks.len()),
            programs,
            objects: Objects::new(workload),
            workload,
            mm_of: mm::of_templates(workload, own),
            groups: Vec::with_capacity(workload.groups.len()),
            autogroups: Vec::new(),
            group_states: workload
                .groups
                .iter()
                .map(|group| {
                    let max = group.max.map(|max| (max.quota, max.period));
                    GroupState { weight: group.weight, idle: group.idle, guarantee: group.guarantee, max }
                })
                .collect(),
            cpusets_told: Told::default(),
            changed: 0,
            core_of,
            cores,
            smt_speed_permille: spec.smt_speed_permille,
            stop_at,
            capacity: places.iter().map(|place| place.capacity).collect(),
            tick_period,
            tick_phase: (0..cpus as u64).map(|cpu| phase + cpu * skew).collect(),
            timer_slack: spec.timer_slack_ns,
            sleepers: (0..cpus).map(|_| Sleepers::default()).collect(),
            timers_armed: 0,
            preempt_full,
            messages: if governed || preempt_full || host.is_some() || loops.is_some() {
                Way::Long
            } else {
                Way::Short
            },
            pipes_wake_in_vain: history::pipes_wake_in_vain(&config.kernel),
            steps: 0,
            max_steps: 1_000_000 + 100 * workload.tasks.len() as u64,
            spin: Spin::NONE,
            error: None,
            live: 0,
            forked: vec![0; workload.tasks.len()],
            barren: BTreeSet::new(),
            notes,
            plugged: 0,
            loops,
            own,
            debug_at: config.debug_at,
            debug: None,
            jitter: Rng::new(config.seed ^ 0x6a09_e667_f3bc_c909),
            governed,
            clocks: spec.frequencies.as_ref().map(|frequencies| Clocks::new(frequencies, cpus)),
            idle: (!spec.idle_states.is_empty()).then(|| Idle::new(&spec.idle_states, cpus)),
            host,
            stalls: spec.stalls.and_then(|stall| Stalls::new(stall, cpus, config.seed)).map(Box::new),
            rcu: None,
        };
        machine.shared.set_first_tick(phase);
        machine.describe(spec.energy.as_ref());
        machine.start_clocks();
        machine.arm_stalls();
        machine.create_groups()?;
        if config.autogroup {
            machine.create_autogroups();
        } else if !workload.sessions.is_empty() {
            machine.notes.push("sessions have no effect: autogroup is off".to_owned());
        }
        machine.create_cpusets()?;
        machine.create_tasks(config, &mut rng);
        if let Some(error) = machine.error.take() {
            return Err(error);
        }
        machine.arm_hotplug();
        for cpu in 0..cpus {
            sched!(machine, cpu).tick_stopped(CpuId(cpu as u32));
        }
        Ok(machine)
    }

    /// Tells the observers what machine this is.
    fn describe(&mut self, energy: Option<&EnergyModel>) {
        let domains = self.domains();
        let energy = energy.map(|model| EnergyInfo { model, looked_at: self.shared.looks_at_energy() });
        let (cpus, tick_ns) = (self.core.cpus.len(), self.tick_period);
        self.core.sink.machine(&MachineInfo { cpus, tick_ns, domains: &domains, energy });
    }

    /// The scheduling domains as they are now.
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

    fn create_groups(&mut self) -> Result<(), Error> {
        let root =
            GroupInfo { path: "/", parent: None, weight: 100, idle: false, guarantee: None, max: None, nice: None };
        self.core.sink.group(GroupId::ROOT, &root);
        self.groups.push(GroupId::ROOT);
        for group in self.workload.groups.iter().skip(1) {
            let parent = self.groups[group.parent.unwrap_or(0)];
            let weight = if group.idle { GroupWeight::Idle } else { GroupWeight::Weight(group.weight) };
            let id = sched!(self, 0).new_group(parent, weight);
            self.groups.push(id);
            let max = group.max.map(|max| (max.quota, max.period));
            let info = GroupInfo {
                path: &group.path,
                parent: Some(parent),
                weight: group.weight,
                idle: group.idle,
                guarantee: group.guarantee,
                max,
                nice: None,
            };
            self.core.sink.group(id, &info);
            sched!(self, 0).set_group_bandwidth(id, group.max.and_then(limit));
            if let Some(clamps) = group.uclamp {
                // They are in range: that was looked at before.
                let _ = sched!(self, 0).set_group_uclamp(id, clamps.min, clamps.max);
            }
        }
        for (index, group) in self.workload.groups.iter().enumerate() {
            if let Some(percent) = group.guarantee {
                self.set_group_guarantee(0, index, percent)?;
            }
            if let Some(rt) = group.rt {
                self.set_group_rt(0, index, rt)?;
            }
        }
        Ok(())
    }

    /// One autogroup a session: its tasks say they are in the root group, and compete as one of its children.
    fn create_autogroups(&mut self) {
        let workload = self.workload;
        let mut create = |path: &str, nice: Option<i8>| {
            let id = sched!(self, 0).new_autogroup(nice.unwrap_or(0));
            self.core.sink.group(
                id,
                &GroupInfo {
                    path,
                    parent: Some(GroupId::ROOT),
                    weight: 100,
                    idle: false,
                    guarantee: None,
                    max: None,
                    nice,
                },
            );
            self.autogroups.push(id);
        };
        create("/autogroup", None);
        for session in &workload.sessions {
            create(&format!("/autogroup-{}", session.name), Some(session.nice));
        }
    }

    fn create_tasks(&mut self, config: &Config, rng: &mut Rng) {
        let mut beds = Beds::new(self.rqs.len(), config.seed != 0);
        for (index, task) in self.workload.tasks.iter().enumerate() {
            let Some(start) = task.start else { continue };
            // A start is the end of somebody's wait for it: as late as any timer's interrupt.
            let jitter = if config.seed == 0 { 0 } else { rng.below(START_JITTER) + self.interrupt_latency() };
            if task.slept_on.is_some() || (index < self.own && config.gate) {
                let cpu = self.bed(index, &mut beds, rng);
                let id = self.new_task(index, FIRST, cpu);
                self.put_to_sleep(cpu, id, start);
                if index >= self.own && task.class == background::RCU {
                    self.rcu = Some(GracePeriods::new(id));
                }
            } else {
                let id = self.new_task(index, FIRST, 0);
                self.core.queue.arm(self.core.task_source(id), start.saturating_add(jitter));
            }
        }
    }

    /// On which CPU the task `template` sleeps before the run: where it did, else on the next of `beds` that it may run on.
    fn bed(&self, template: usize, beds: &mut Beds, rng: &mut Rng) -> usize {
        let initial = &self.programs.settings[self.programs.initial[template] as usize];
        let group = self.group(template, initial.group.unwrap_or(0));
        let (allowed, _) = self.shared.cpus_allowed(group, &initial.affinity);
        let fits = |cpu: CpuId| allowed.as_ref().is_none_or(|mask| mask.contains(cpu));
        let known = self.workload.tasks[template].slept_on.map(CpuId).filter(|cpu| cpu.index() < self.rqs.len());
        let cpu = known.filter(|&cpu| fits(cpu)).unwrap_or_else(|| beds.next(rng, fits));
        cpu.index()
    }

    /// Creates an instance of the workload's task `template`, with that number ([`Task::instance`]), forked on `cpu`. It does not run yet.
    pub(crate) fn new_task(&mut self, template: usize, instance: u32, cpu: usize) -> u32 {
        let task = &self.workload.tasks[template];
        let name = &*instance_name(&task.name, instance);
        let initial = &self.programs.settings[self.programs.initial[template] as usize];
        let attr = initial.policy.unwrap_or_default();
        let SchedAttr { policy, nice, rt_priority, .. } = attr;
        let group = if template < self.own {
            self.group(template, initial.group.unwrap_or(0))
        } else {
            // Kernel threads are in no session, hence in no autogroup.
            GroupId::ROOT
        };
        if policy.is_rt() && !self.shared.may_have_rt(group) {
            let error = Err(SchedError::NoRtRuntime { group });
            self.refuse_as(name, error);
        }
        let affinity = self.programs.settings[self.programs.initial[template] as usize].affinity.clone();
        let attrs = TaskAttrs { policy, nice, rt_priority, slice: attr.slice, group, affinity };
        let (per_cpu, on) = (template >= self.own && attrs.affinity.is_some(), CpuId(cpu as u32));
        let mut sched = sched!(self, cpu);
        let id = if per_cpu { sched.new_kthread(&attrs, on) } else { sched.new_task(&attrs, on) };
        debug_assert_eq!(id.index(), self.tasks.len(), "tasks are counted in order of creation");
        self.tasks.push(Task::new(template as u32, instance, self.programs.entry[template], times(task.repeat)));
        let initial = &self.programs.settings[self.programs.initial[template] as usize];
        if initial.util_min.or(initial.util_max).is_some() {
            let initial = initial.clone();
            self.clamp(cpu, id.0, &initial);
        }
        // The machine's own threads do not keep it running.
        self.live += usize::from(self.is_waited_for(template));
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

    /// Whether the run goes on until an instance of that task of the workload has ended.
    pub(crate) fn is_waited_for(&self, template: usize) -> bool {
        template < self.own && !self.workload.background.contains(&template)
    }

    /// Where an instance of the workload's task `template` is when it is in the workload's group `index`: in the root group that
    /// is its session's autogroup, unless it is a thread of the kernel.
    pub(crate) fn group(&self, template: usize, index: u32) -> GroupId {
        if index == 0 && !self.autogroups.is_empty() && !self.workload.kernel_threads.contains(&template) {
            let session = self.workload.tasks[template].session;
            return self.autogroups[session.map_or(0, |session| session + 1)];
        }
        self.groups[index as usize]
    }

    /// Runs to the end.
    pub(crate) fn run(mut self, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Outcome, Error> {
        let mut handled: u64 = 0;
        // Events since time last passed.
        let mut at_once: u64 = 0;
        let mut interrupted = false;
        let mut stuck = false;
        let end = self.core.end.unwrap_or(NEVER);
        // Until then nothing but events.
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
                    // It may well be another event that comes next then.
                    if let Some((at, source)) = next {
                        self.core.queue.arm(source, at);
                    }
                    (self.steps, at_once) = (0, 0);
                    self.make_change();
                    pause = snapshot.min(self.next_change());
                    if let Some(error) = self.error.take() {
                        return Err(error);
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
            handled += 1;
            at_once += 1;
            if at_once > STALLED * self.max_steps {
                return Err(Error::Stalled { now: self.core.now });
            }
            if handled.is_multiple_of(WATCH_EVERY) {
                let progress = Progress { now: self.core.now, end: self.core.end, events: self.core.events };
                if watch(progress).is_break() {
                    interrupted = true;
                    break;
                }
            }
        }
        if self.debug.is_none() && !interrupted && self.debug_at.is_some_and(|at| at < self.core.now) {
            self.take_snapshot();
        }
        Ok(self.finish(interrupted, stuck))
    }

    /// What `debug_at` asks for. The clocks are where the last event left them: looking changes nothing.
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
            Fires::Cpu(cpu, _) => self.on_hrtick(cpu),
            Fires::Timers => self.on_timers(),
            Fires::Clocks => self.on_clocks(),
            Fires::Hotplug => self.on_hotplug(),
            Fires::Host => self.on_host(),
            Fires::Stall => self.on_stall(),
            Fires::Task(task) => self.on_task_timer(task),
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
            if self.is_hosted() {
                self.core.cpus[cpu].end();
            }
        }
        let loadavg = sched!(self, 0).loadavg();
        let group_switches = sched!(self, 0).group_switches();
        self.core.sink.totals(&Totals { loadavg, group_switches: &group_switches });
        self.core.sink.finish(end);
        let mut notes = std::mem::take(&mut self.notes);
        crate::notes::blocked(&self, stuck, &mut notes);
        self.affinity_notes(&mut notes);
        Outcome {
            end,
            events: self.core.events,
            switches: self.core.switches,
            interrupted,
            notes,
            cpus: self.core.cpus.iter().map(|cpu| cpu.time).collect(),
            loadavg,
            group_switches,
            debug: self.debug,
        }
    }

    /// The instance's name: a forked task's carries a number.
    pub(crate) fn task_name(&self, task: u32) -> String {
        let this = &self.tasks[task as usize];
        instance_name(&self.workload.tasks[this.template as usize].name, this.instance).into_owned()
    }
}

/// What an instance of the task `template` with that number ([`Task::instance`]) is called.
fn instance_name(template: &str, instance: u32) -> Cow<'_, str> {
    if instance == FIRST { template.into() } else { format!("{template}-{instance}").into() }
}
