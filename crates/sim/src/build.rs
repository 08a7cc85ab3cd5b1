//! Builds a machine before its first event: rejects impossible workloads, creates initial tasks and groups, and reports
//! them to observers.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_sched::energy::EnergyModel;
use vruntime_sched::ids::{CpuId, GroupId};
use vruntime_sched::kernels::Behaviour;
use vruntime_sched::policy::Limited;
use vruntime_sched::tunables::Tunables as _;
use vruntime_sched::{CpuPlace, GroupWeight, Policy, Rq, Scheduler, Shared};
use vruntime_trace::{EnergyInfo, GroupInfo, MachineInfo, Sink};
use vruntime_workload::program::{Before, Changed, Op, Stop, Task, Workload};
use vruntime_workload::scenario::Preempt;

use crate::background;
use crate::changes::limit;
use crate::config::{Config, MachineSpec};
use crate::cpu::NEVER;
use crate::cpusets::ReportedCpusets;
use crate::energy;
use crate::error::{Error, Subject};
use crate::events::MAX_SOURCES;
use crate::exit_group::ExitGroups;
use crate::forks;
use crate::frequency::{Clocks, Governor};
use crate::history;
use crate::host::{Core, fixed_sources};
use crate::hypervisor::Hypervisor;
use crate::idle::{self, Idle};
use crate::interpreter::{MAX_TASKS, Spin};
use crate::machine::{GroupState, Machine, sched};
use crate::messages::Way;
use crate::mm;
use crate::program::{FOREVER, Programs, compile, times};
use crate::rcu::GracePeriods;
use crate::requests::Devices;
use crate::rng::Rng;
use crate::settings::Refusals;
use crate::sleepers::Sleepers;
use crate::stalls::Stalls;
use crate::sync::Objects;
use crate::task::FIRST;

/// The latest start with a seed, nanoseconds.
const START_JITTER: u64 = 5_000;
/// Time for tasks to end after the duration, nanoseconds.
const GRACE: u64 = 1_000_000_000;

/// Returns a note on the first group with a limit, for a policy without limits.
fn unkept_limits(workload: &Workload) -> Option<String> {
    let changed = workload.changes.iter().find_map(|change| match &change.what {
        Changed::Group { group, to } if to.max.is_some() => workload.groups.get(*group),
        _ => None,
    });
    let limited = workload.groups.iter().find(|group| group.max.is_some()).or(changed)?;
    Some(format!(
        "the limit of group `{}` has no effect: only the fair class enforces `cpu.max`, not this policy",
        limited.path
    ))
}

fn sources(workload: &Workload, cpus: usize) -> Result<usize, Error> {
    let fixed = fixed_sources(cpus) as usize;
    let sources = fixed + workload.tasks.len();
    if workload.tasks.len() > MAX_TASKS || sources > MAX_SOURCES {
        return Err(Error::TooMany { limit: MAX_TASKS.min(MAX_SOURCES - fixed) });
    }
    Ok(sources)
}

fn check(spec: &MachineSpec) -> Result<(), Error> {
    let range = |what, value: u32, low, high, expected| {
        let value = i64::from(value);
        let fine = (low..=high).contains(&value);
        if fine { Ok(()) } else { Err(Error::OutOfRange { subject: Subject::Machine, what, value, expected }) }
    };
    range("HZ", spec.hz, 1, 10_000, "1 to 10000")?;
    range("SMT speed", spec.smt_speed_permille, 1, 1000, "1 to 1000 thousandths")?;
    if let Some(frequencies) = &spec.frequencies {
        frequencies.check(spec.topology.nr_cpus()).map_err(Error::Frequency)?;
    }
    if let Some(energy) = &spec.energy {
        energy.check(&spec.topology).map_err(Error::Energy)?;
    }
    if !spec.idle_states.is_empty() {
        idle::check(&spec.idle_states).map_err(Error::IdleStates)?;
    }
    Ok(())
}

fn programs<P: Policy>(workload: &Workload, spec: &MachineSpec, shared: &Shared<P>) -> Result<Programs, Error> {
    let cpu_places = spec.topology.cpus();
    let governed = spec.frequencies.as_ref().is_some_and(|spec| spec.governor == Governor::Schedutil);
    let clamps_matter = governed || cpu_places.iter().any(|place| place.capacity != cpu_places[0].capacity);
    let periods = shared.config.tunables.deadline().periods;
    compile(workload, cpu_places.len(), &spec.costs, periods, clamps_matter)
}

/// Returns the known end of the run, and the time from which tasks end after their instruction.
fn ends(workload: &Workload, config: &Config, own: usize) -> Result<(Option<u64>, u64), Error> {
    let duration = config.duration.or(workload.duration);
    let (end, stop_at) = match (workload.stop, duration) {
        (Stop::AfterInstruction, Some(at)) => (Some(at.saturating_add(GRACE)), at),
        _ => (duration, NEVER),
    };
    let loops_for_ever = |task: &Task| {
        task.start.is_some()
            && times(task.repeat) > 0
            && task.phases.iter().any(|phase| {
                times(phase.repeat) == FOREVER
                    || times(task.repeat) == FOREVER
                    || times(phase.repeat) > 0 && phase.ops.iter().any(Op::is_endless)
            })
    };
    // If it waits for no task, the run waits for all.
    let starts = |task: usize| workload.tasks[task].start.is_some();
    let any = (0..own).any(|task| starts(task) && !workload.background.contains(&task));
    let waited = |task: &usize| *task < own && (!any || !workload.background.contains(task));
    if end.is_none()
        && let Some(task) = (0..own).filter(waited).map(|task| &workload.tasks[task]).find(|task| loops_for_ever(task))
    {
        return Err(Error::NeverEnds { task: task.name.clone() });
    }
    if end.is_none()
        && let Some(task) = forks::without_end(workload, waited)
    {
        return Err(Error::ForksForEver { task: task.name.clone() });
    }
    Ok((end, stop_at))
}

fn cores(cpu_places: &[CpuPlace]) -> (Vec<u32>, Vec<Vec<u32>>) {
    let mut core_of = Vec::with_capacity(cpu_places.len());
    let mut cores: Vec<Vec<u32>> = Vec::new();
    let mut known = BTreeMap::new();
    for (cpu, place) in cpu_places.iter().enumerate() {
        let core = *known.entry(place.core).or_insert_with(|| {
            cores.push(Vec::new());
            cores.len() - 1
        });
        core_of.push(core as u32);
        cores[core].push(cpu as u32);
    }
    (core_of, cores)
}

fn first_ticks(config: &Config, period: u64, rng: &mut Rng) -> Vec<u64> {
    let cpus = config.machine.topology.nr_cpus() as u64;
    let drawn = if config.seed == 0 { period } else { 1 + rng.below(period) };
    let phase = config.tick_phase.unwrap_or(drawn);
    let skew = if config.machine.skew_tick { period / 2 / cpus } else { 0 };
    (0..cpus).map(|cpu| phase + cpu * skew).collect()
}

fn group_states(workload: &Workload) -> Vec<GroupState> {
    let state = |group: &vruntime_workload::program::Group| {
        let max = group.max.map(|max| (max.quota, max.period));
        GroupState { weight: group.weight, idle: group.idle, guarantee: group.guarantee, max }
    };
    workload.groups.iter().map(state).collect()
}

/// CPUs on which forks put tasks that soon sleep: each time the idlest allowed CPU, so all in turn, in any order.
/// (Observed under 6.18: of five tasks on 2 CPUs three and two, 13 times of 14.)
struct Beds {
    /// All CPUs. The longest without a new task is first.
    queue: Vec<CpuId>,
    /// CPUs at the front that are equally long without one.
    fresh: usize,
    shuffled: bool,
}

impl Beds {
    fn new(cpus: usize, shuffled: bool) -> Self {
        Self { queue: (0..cpus as u32).map(CpuId).collect(), fresh: cpus, shuffled }
    }

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

impl<'a, P: Policy, S: Sink> Machine<'a, P, S> {
    /// Builds the machine for `workload`. Only its first `own` tasks are not the machine's.
    pub(crate) fn new(
        workload: &'a Workload,
        own: usize,
        config: &Config,
        shared: Shared<P>,
        sink: &'a mut S,
        host: Option<Box<Hypervisor<'a>>>,
    ) -> Result<Self, Error> {
        let spec = &config.machine;
        let cpu_places = spec.topology.cpus();
        let cpus = cpu_places.len();
        let sources = sources(workload, cpus)?;
        check(spec)?;
        let programs = programs(workload, spec, &shared)?;
        crate::hotplug::check(&workload.hotplug, cpus, &spec.isolated)?;
        let (end, stop_at) = ends(workload, config, own)?;
        let (core_of, cores) = cores(cpu_places);
        let mut rng = Rng::new(config.seed);
        let tick_period = 1_000_000_000 / u64::from(spec.hz);
        let mut notes = programs.notes.clone();
        notes.extend(history::note(workload, &config.kernel));
        notes.extend(history::preemption_note(config));
        notes.extend(energy::note(config));
        notes.extend((!P::Limits::ENFORCED).then(|| unkept_limits(workload)).flatten());
        let loops = sink.wants_loops().then(Vec::new);
        let rounds = sink.wants_rounds().then(Vec::new);
        let governed = spec.frequencies.is_some() || !spec.idle_states.is_empty();
        let preempt_full = config.preempt == Preempt::Full;
        let long = governed || preempt_full || host.is_some() || loops.is_some();
        let mut machine = Self {
            core: Core::new(spec, sources, end, sink),
            rqs: Rq::all(&shared),
            shared,
            tasks: Vec::with_capacity(workload.tasks.len()),
            programs,
            objects: Objects::new(workload),
            exit_groups: ExitGroups::new(workload),
            workload,
            mm_of: mm::of_templates(workload, own),
            groups: Vec::with_capacity(workload.groups.len()),
            autogroups: Vec::new(),
            group_states: group_states(workload),
            reported_cpusets: ReportedCpusets::default(),
            changed: 0,
            core_of,
            cores,
            smt_speed_permille: spec.smt_speed_permille,
            stop_at,
            capacity: cpu_places.iter().map(|place| place.capacity).collect(),
            tick_period,
            tick_phase: first_ticks(config, tick_period, &mut rng),
            timer_slack: spec.timer_slack_ns,
            sleepers: (0..cpus).map(|_| Sleepers::default()).collect(),
            timers_armed: 0,
            preempt_full,
            messages: if long { Way::Long } else { Way::Short },
            pipes_wake_in_vain: config.kernel.behaviours.has(Behaviour::PipeWakesInVain),
            steps: 0,
            max_steps: 1_000_000 + 100 * workload.tasks.len() as u64,
            spin: Spin::NONE,
            error: None,
            live: 0,
            alive: 0,
            max_alive: workload.tasks.len().saturating_add(config.threads_max),
            forked: vec![0; workload.tasks.len()],
            barren: BTreeSet::new(),
            notes,
            end_if_refused: config.end_if_refused,
            refusals: Refusals::new(),
            plugged: 0,
            loops,
            rounds,
            own,
            debug_at: config.debug_at,
            debug: None,
            jitter: Rng::new(config.seed ^ 0x6a09_e667_f3bc_c909),
            governed,
            clocks: spec.frequencies.as_ref().map(|frequencies| Clocks::new(frequencies, cpus)),
            idle: (!spec.idle_states.is_empty()).then(|| Idle::new(&spec.idle_states, cpus)),
            host,
            stalls: spec.stalls.and_then(|stall| Stalls::new(stall, cpus, config.seed)).map(Box::new),
            devices: Devices::new(workload, config.seed, cpus),
            rcu: None,
        };
        machine.begin(config, &mut rng)?;
        Ok(machine)
    }

    fn begin(&mut self, config: &Config, rng: &mut Rng) -> Result<(), Error> {
        self.shared.set_first_tick(self.tick_phase[0]);
        self.describe(config.machine.energy.as_ref());
        self.start_clocks();
        self.arm_stalls();
        self.create_groups()?;
        if config.autogroup {
            self.create_autogroups();
            if let Some((session, group)) = unused_session(self.workload) {
                self.notes.push(format!("session `{session}` has no effect: its tasks are in `{group}`, and only tasks of the root group are in autogroups"));
            }
        } else if !self.workload.sessions.is_empty() {
            self.notes.push("sessions have no effect: autogroup is off".to_owned());
        }
        self.create_cpusets()?;
        self.create_tasks(config, rng);
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.arm_hotplug();
        self.arm_requests();
        for cpu in 0..self.core.cpus.len() {
            sched!(self, cpu).tick_stopped(CpuId(cpu as u32));
        }
        Ok(())
    }

    fn describe(&mut self, energy: Option<&EnergyModel>) {
        let domains = self.domains();
        let energy = energy.map(|model| EnergyInfo { model, is_energy_aware: self.shared.is_energy_aware() });
        let (cpus, tick_ns) = (self.core.cpus.len(), self.tick_period);
        self.core.sink.machine(&MachineInfo { cpus, tick_ns, domains: &domains, energy });
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
            if let Some(max) = group.max {
                let set = sched!(self, 0).set_group_bandwidth(id, limit(max));
                self.end_if_refused(id, set);
            }
            if let Some(clamps) = group.uclamp {
                // Already checked.
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

    /// Creates an autogroup per session, a child of the root group, in which its tasks appear to be.
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
            // A timer's interrupt starts the task, with its delay.
            let jitter = if config.seed == 0 { 0 } else { rng.below(START_JITTER) + self.interrupt_latency() };
            if let Some(Before::Runnable(_)) = task.before {
                let cpu = self.bed(index, &mut beds, rng);
                let id = self.new_task(index, FIRST, cpu);
                self.tasks[id as usize].last_cpu = cpu as u32;
                // Running tasks precede waiting ones.
                self.core.queue.arm(self.core.task_source(id), start);
            } else if task.before.is_some() || (index < self.own && config.gate) {
                let cpu = self.bed(index, &mut beds, rng);
                let id = self.new_task(index, FIRST, cpu);
                if start > 0 || task.before.is_none() || !self.put_into_wait(cpu, id) {
                    self.put_to_sleep(cpu, id, start);
                }
                if index >= self.own && task.class == background::RCU {
                    self.rcu = Some(GracePeriods::new(id));
                }
            } else {
                let id = self.new_task(index, FIRST, 0);
                self.core.queue.arm(self.core.task_source(id), start.saturating_add(jitter));
            }
        }
    }

    /// Returns the task's CPU before the run: the recorded one, or the next allowed one of `beds`.
    fn bed(&self, template: usize, beds: &mut Beds, rng: &mut Rng) -> usize {
        let initial = &self.programs.settings[self.programs.initial[template] as usize];
        let group = self.group(template, initial.group.unwrap_or(0));
        let (allowed, _) = self.shared.cpus_allowed(group, &initial.affinity);
        let fits = |cpu: CpuId| allowed.as_ref().is_none_or(|mask| mask.contains(cpu));
        let known = self.workload.tasks[template]
            .before
            .map(|before| CpuId(before.cpu()))
            .filter(|cpu| cpu.index() < self.rqs.len());
        let cpu = known.filter(|&cpu| fits(cpu)).unwrap_or_else(|| beds.next(rng, fits));
        cpu.index()
    }
}

/// Returns the first session whose tasks are never in the root group, and the group of one of them.
fn unused_session(workload: &Workload) -> Option<(&str, &str)> {
    const ROOT: Option<usize> = Some(0);
    let moved: BTreeSet<usize> = workload
        .changes
        .iter()
        .filter_map(|change| match &change.what {
            Changed::Tasks { tasks, settings, .. } if settings.group == ROOT => Some(tasks),
            _ => None,
        })
        .flatten()
        .copied()
        .collect();
    let mut used = vec![false; workload.sessions.len()];
    let mut elsewhere = vec![None; workload.sessions.len()];
    for (index, task) in workload.tasks.iter().enumerate() {
        let Some(session) = task.session else { continue };
        let begins = task.settings.group.filter(|&group| ROOT != Some(group));
        used[session] |=
            begins.is_none() || moved.contains(&index) || task.phases.iter().any(|phase| phase.settings.group == ROOT);
        elsewhere[session] = elsewhere[session].or(begins);
    }
    let unused = |(session, used): (usize, bool)| elsewhere[session].filter(|_| !used).map(|group| (session, group));
    let (session, group) = used.into_iter().enumerate().find_map(unused)?;
    Some((&workload.sessions[session].name, &workload.groups[group].path))
}
