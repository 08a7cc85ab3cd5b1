//! Work conservation (ARCHITECTURE.md, always true, 4): no CPU is idle for longer than a balance interval while a task
//! that may run there waits elsewhere. The report counts every longer wait.
//!
//! The counts equal those of a slow and simple computation from the events, over random machines and workloads. Where
//! tasks may run anywhere, 6.12 keeps bounds.
//!
//! Rules of the counts: an offline CPU is not idle. A throttled task does not wait, until it has runtime again, moves
//! to a CPU with runtime, or changes its group. It could not have run on an idle CPU where it is throttled. A change of
//! the task's allowed CPUs or group begins a new wait.

mod support;

use std::collections::BTreeSet;

use proptest::prelude::*;
use support::*;
use vruntime_report::{Collector, Results};
use vruntime_sched::CpuMask;
use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sim::{Config, Costs, MachineSpec, parse_topology};
use vruntime_trace::{GroupInfo, MachineInfo, Sink, TaskInfo};
use vruntime_workload::program::*;

/// A time, and its event's number.
type When = (u64, u64);

/// A wait, or an idle interval.
#[derive(Clone, Debug)]
struct Span {
    begin: u64,
    end: Option<When>,
    /// The idle CPU, or the CPUs waited on, each from an event on.
    cpus: Vec<(When, CpuId)>,
    allowed: Option<CpuMask>,
    /// The waiting task's group.
    group: GroupId,
}

#[derive(Clone, Debug)]
struct Known {
    allowed: Option<CpuMask>,
    group: GroupId,
    /// The CPU where it is runnable without running, also throttled.
    waits_on: Option<CpuId>,
}

/// Keeps all waits and idle intervals, and computes the counts at the end.
#[derive(Default)]
struct Reckoning {
    domains: Vec<(CpuMask, u64)>,
    tick: u64,
    waits: Vec<Vec<Span>>,
    idle: Vec<Vec<Span>>,
    tasks: Vec<Known>,
    parents: Vec<Option<GroupId>>,
    /// Present throttling.
    throttled: BTreeSet<(CpuId, GroupId)>,
    /// Throttling with its begin and end.
    throttlings: Vec<(CpuId, GroupId, When, Option<When>)>,
    /// By CPU: what runs, and whether it is online.
    cpus: Vec<(Running, bool)>,
    end: u64,
    events: u64,
}

impl Reckoning {
    fn open(spans: &mut Vec<Span>, at: When, cpu: CpuId, allowed: Option<CpuMask>, group: GroupId) {
        spans.push(Span { begin: at.0, end: None, cpus: vec![(at, cpu)], allowed, group });
    }

    fn close(spans: &mut [Span], at: When) {
        if let Some(span) = spans.last_mut().filter(|span| span.end.is_none()) {
            span.end = Some(at);
        }
    }

    fn chain(&self, group: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        std::iter::successors(Some(group), |group| self.parents[group.index()])
    }

    /// Whether the task is throttled on that CPU.
    fn is_throttled(&self, task: TaskId, cpu: CpuId) -> bool {
        self.chain(self.tasks[task.index()].group).any(|group| self.throttled.contains(&(cpu, group)))
    }

    /// Returns a time minus the group's and ancestors' throttling on a CPU.
    fn unbarred(&self, begin: u64, end: When, cpu: CpuId, group: GroupId) -> Vec<(u64, When)> {
        let mut left = vec![(begin, end)];
        for &(_, barred, from, until) in self.throttlings.iter().filter(|throttling| throttling.0 == cpu) {
            if self.chain(group).any(|above| above == barred) {
                let cut = |&(begin, end): &(u64, When)| {
                    let before = (begin, end.min(from));
                    let after = until.map(|until| (begin.max(until.0), end));
                    [Some(before), after].into_iter().flatten().filter(|(begin, end)| *begin < end.0)
                };
                left = left.iter().flat_map(cut).collect();
            }
        }
        left
    }

    /// Handles a change of a task or of its throttling.
    fn account_waits(&mut self, at: When, task: TaskId) {
        let known = self.tasks[task.index()].clone();
        let waits = known.waits_on.filter(|&cpu| !self.is_throttled(task, cpu));
        let spans = &mut self.waits[task.index()];
        match (waits, spans.last_mut().filter(|span| span.end.is_none())) {
            (None, _) => Self::close(spans, at),
            (Some(cpu), None) => Self::open(spans, at, cpu, known.allowed, known.group),
            (Some(cpu), Some(span)) => {
                if span.cpus.last().unwrap().1 != cpu {
                    span.cpus.push((at, cpu));
                }
            }
        }
    }

    fn waits(&mut self, at: When, task: TaskId, on: Option<CpuId>) {
        self.tasks[task.index()].waits_on = on;
        self.account_waits(at, task);
    }

    fn account_all(&mut self, at: When) {
        (0..self.tasks.len() as u32).for_each(|task| self.account_waits(at, TaskId(task)));
    }

    fn account_cpu(&mut self, at: When, cpu: CpuId) {
        let idle = self.cpus[cpu.index()] == (Running::Idle, true);
        let spans = &mut self.idle[cpu.index()];
        let open = spans.last().is_some_and(|span| span.end.is_none());
        if idle && !open {
            Self::open(spans, at, cpu, None, GroupId::ROOT);
        } else if !idle {
            Self::close(spans, at);
        }
    }

    /// Returns number, sum and maximum of a task's too long waits.
    fn excess(&self, task: usize) -> (u64, u64, u64) {
        let (mut count, mut total, mut worst) = (0, 0, 0);
        for wait in &self.waits[task] {
            let mut parts: Vec<(u64, u64)> = Vec::new();
            for idle in self.idle.iter().flatten() {
                let cpu = idle.cpus[0].1;
                if wait.allowed.as_ref().is_some_and(|mask| !mask.contains(cpu)) {
                    continue;
                }
                let last = (self.end, u64::MAX);
                let until = wait.end.unwrap_or(last).min(idle.end.unwrap_or(last));
                let begin = wait.begin.max(idle.begin);
                if until.0 <= begin {
                    continue;
                }
                for (begin, until) in self.unbarred(begin, until, cpu, wait.group) {
                    // The CPU waited on at the end of the overlap determines the domain.
                    let here = wait.cpus.iter().rev().find(|(from, _)| *from <= until).unwrap().1;
                    let shared = self.domains.iter().find(|(span, _)| span.contains(cpu) && span.contains(here));
                    let interval = (shared.unwrap().1.div_ceil(self.tick) + 1) * self.tick;
                    if begin + interval < until.0 {
                        parts.push((begin + interval, until.0));
                    }
                }
            }
            parts.sort_unstable();
            let (mut sum, mut covered) = (0, 0);
            for (begin, end) in parts {
                sum += end.saturating_sub(begin.max(covered));
                covered = covered.max(end);
            }
            if sum > 0 {
                count += 1;
                total += sum;
                worst = worst.max(sum);
            }
        }
        (count, total, worst)
    }
}

impl Sink for Reckoning {
    fn machine(&mut self, info: &MachineInfo<'_>) {
        self.tick = info.tick_ns;
        self.domains = info.domains.iter().map(|domain| (domain.span.clone(), domain.interval_ns)).collect();
        self.cpus = vec![(Running::Idle, true); info.cpus];
        self.idle = vec![Vec::new(); info.cpus];
        (0..info.cpus as u32).for_each(|cpu| self.account_cpu((0, 0), CpuId(cpu)));
    }
    fn group(&mut self, _id: GroupId, info: &GroupInfo<'_>) {
        self.parents.push(info.parent);
    }
    fn task(&mut self, _id: TaskId, info: &TaskInfo<'_>) {
        self.waits.push(Vec::new());
        self.tasks.push(Known { allowed: None, group: info.group, waits_on: None });
    }
    fn affinity(&mut self, at: u64, task: TaskId, cpus: Option<&CpuMask>) {
        self.tasks[task.index()].allowed = cpus.cloned();
        let at = (at, self.events);
        Self::close(&mut self.waits[task.index()], at);
        self.account_waits(at, task);
    }
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        self.events += 1;
        let at = (at, self.events);
        match *event {
            Event::Wakeup { task, target } | Event::WakeupNew { task, target } => self.waits(at, task, Some(target)),
            Event::Migrate { task, to, .. } if self.tasks[task.index()].waits_on.is_some() => {
                self.waits(at, task, Some(to));
            }
            Event::MoveGroup { task, group } => {
                self.tasks[task.index()].group = group;
                Self::close(&mut self.waits[task.index()], at);
                self.account_waits(at, task);
            }
            Event::Throttle { group } => {
                self.throttled.insert((cpu, group));
                self.throttlings.push((cpu, group, at, None));
                self.account_all(at);
            }
            Event::Unthrottle { group, .. } => {
                self.throttled.remove(&(cpu, group));
                let same = |it: &&mut (CpuId, GroupId, When, Option<When>)| (it.0, it.1) == (cpu, group);
                if let Some(last) = self.throttlings.iter_mut().rev().find(same) {
                    last.3 = last.3.or(Some(at));
                }
                self.account_all(at);
            }
            Event::CpuDown | Event::CpuUp => {
                self.cpus[cpu.index()].1 = *event == Event::CpuUp;
                self.account_cpu(at, cpu);
            }
            Event::Switch { prev, prev_state, next } => {
                if let (Running::Task(task), PrevState::Preempted | PrevState::Yielded) = (prev, prev_state) {
                    self.waits(at, task, Some(cpu));
                }
                if let Running::Task(task) = next {
                    self.waits(at, task, None);
                }
                self.cpus[cpu.index()].0 = next;
                self.account_cpu(at, cpu);
            }
            _ => {}
        }
    }
    fn finish(&mut self, at: u64) {
        self.end = at;
    }
}

fn machine() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "2",
        "4",
        "pack:1 core:2 pu:2",
        "pack:2 core:2 pu:1",
        "pack:2 core:4",
        "numa:2 core:2 pu:2",
    ])
}

fn config(machine: &str, kernel: &str, costs: Costs, hz: u32, seed: u64) -> Config {
    let mut spec = MachineSpec::new(parse_topology(machine).unwrap());
    spec.costs = costs;
    spec.hz = hz;
    Config { seed, duration: Some(400 * MS), ..Config::new(vruntime_sched::kernel(kernel).unwrap(), spec) }
}

/// Tasks that work; most also sleep.
fn workers(nice: impl Strategy<Value = i8>) -> impl Strategy<Value = Vec<Task>> {
    let one = (100 * US..20 * MS, prop::option::of(100 * US..30 * MS), 0..100 * MS, nice);
    prop::collection::vec(one, 1..16).prop_map(|all| {
        let worker = |(index, (run, sleep, start, nice)): (usize, (u64, Option<u64>, u64, i8))| {
            let ops = std::iter::once(Op::Run { work: run }).chain(sleep.map(|time| Op::Sleep { time }));
            let mut task = task(&format!("t{index}"), vec![phase(ops.collect(), Repeat::Forever)]);
            task.settings.policy = Some(Policy::Other { nice, slice: None });
            starting(task, start)
        };
        all.into_iter().enumerate().map(worker).collect()
    })
}

/// Pins some tasks, and changes some affinities later.
fn tied(tasks: Vec<Task>, masks: &[Option<(u8, u8)>], cpus: usize) -> Vec<Task> {
    let list = |bits: u8| {
        let list: Vec<u32> = (0..cpus as u32).filter(|cpu| bits >> cpu & 1 == 1).collect();
        (!list.is_empty()).then_some(list)
    };
    let tie = |(mut task, mask): (Task, &Option<(u8, u8)>)| {
        if let Some((first, later)) = *mask {
            task.settings.cpus = list(first);
            let mut phases = task.phases.to_vec();
            phases[0].repeat = Repeat::Times(5);
            phases.push(Phase { settings: Settings { cpus: list(later), ..Settings::default() }, ..phases[0].clone() });
            task.phases = phases.into();
            task.repeat = Repeat::Forever;
        }
        task
    };
    tasks.into_iter().zip(masks).map(tie).collect()
}

fn observe(tasks: Vec<Task>, config: &Config) -> (Results, Reckoning) {
    observe_all(&workload(tasks), config)
}

fn observe_all(workload: &Workload, config: &Config) -> (Results, Reckoning) {
    let mut sinks = (Collector::new(config.machine.topology.nr_cpus()), Reckoning::default());
    simulate(workload, config, &mut sinks).unwrap();
    (sinks.0.into_results(), sinks.1)
}

fn check_counts(results: &Results, reckoning: &Reckoning) -> Result<(), TestCaseError> {
    prop_assert!(results.conservation.is_some());
    let mut worst = 0;
    for (index, task) in results.tasks.iter().enumerate() {
        let waits = task.account.idle_waits;
        prop_assert_eq!((waits.count, waits.total_ns, waits.worst_ns), reckoning.excess(index), "task {}", index);
        worst = worst.max(waits.worst_ns);
    }
    prop_assert_eq!(results.conservation.unwrap().worst.map_or(0, |worst| worst.ns), worst);
    prop_assert_eq!(results.account.idle_waits.worst_ns, worst);
    Ok(())
}

/// Groups `/a`, `/a/b` and `/c`, some with limits; tasks are in them and in the root.
fn grouped(mut tasks: Vec<Task>, limits: [Option<Bandwidth>; 3], changes: Vec<(u64, Changed)>) -> Workload {
    for (index, task) in tasks.iter_mut().enumerate() {
        task.settings.group = Some(index % 4);
    }
    let mut workload = workload(tasks);
    for ((path, parent), max) in [("/a", 0), ("/a/b", 1), ("/c", 0)].into_iter().zip(limits) {
        workload.groups.push(Group { path: path.to_owned(), parent: Some(parent), max, ..Group::default() });
    }
    workload.changes = changes.into_iter().map(|(at, what)| Change { at, what }).collect();
    workload.changes.sort_by_key(|change| change.at);
    workload
}

/// In short periods, so that there are many.
fn bandwidth() -> impl Strategy<Value = Option<Bandwidth>> {
    prop::option::of((1u64..30, 5u64..40, 0u64..=100)).prop_map(|limit| {
        let (quota, period, burst) = limit?;
        Some(Bandwidth { quota: quota * MS, period: period * MS, burst: quota * burst * MS / 100 })
    })
}

/// Changes of tasks' groups, of groups' weights and limits, and with `affinity` of affinities.
fn changes(affinity: bool) -> impl Strategy<Value = Vec<(u64, Changed)>> {
    let tasks = || prop::sample::subsequence((0..16).collect::<Vec<usize>>(), 1..6);
    let of_tasks = |tasks, settings| Changed::Tasks { tasks, settings, nice: None };
    let moved = (tasks(), 0usize..4)
        .prop_map(move |(tasks, group)| of_tasks(tasks, Settings { group: Some(group), ..Settings::default() }));
    let group =
        (1usize..4, prop::option::of(1u32..10_000), prop::option::of(bandwidth())).prop_map(|(group, weight, max)| {
            let max = max.map(|max| max.map_or(CpuMax::Unlimited, CpuMax::Limited));
            Changed::Group { group, to: GroupChange { weight, max, ..GroupChange::default() } }
        });
    let cpus = (tasks(), prop::sample::subsequence(vec![0u32, 1], 1..=2))
        .prop_map(move |(tasks, cpus)| of_tasks(tasks, Settings { cpus: Some(cpus), ..Settings::default() }));
    let change = prop_oneof![2 => moved, 2 => group, u32::from(affinity) => cpus];
    prop::collection::vec((0..400 * MS, change), 0..12)
}

fn keep(changes: &mut Vec<(u64, Changed)>, count: usize) {
    changes.retain_mut(|(_, what)| match what {
        Changed::Tasks { tasks, .. } => {
            tasks.retain(|&task| task < count);
            !tasks.is_empty()
        }
        _ => true,
    });
}

/// Kernels before 5.14 have no bursts.
fn without_bursts(workload: &mut Workload) {
    workload.groups.iter_mut().filter_map(|group| group.max.as_mut()).for_each(|max| max.burst = 0);
    for change in &mut workload.changes {
        if let Changed::Group { to: GroupChange { max: Some(CpuMax::Limited(max)), .. }, .. } = &mut change.what {
            max.burst = 0;
        }
    }
}

/// Keeps changes of existing CPUs except the last.
fn possible(plugged: Vec<Hotplug>, cpus: usize) -> Vec<Hotplug> {
    let mut online = vec![true; cpus];
    let mut all = Vec::new();
    for Hotplug { at, cpu, .. } in plugged {
        let cpu = cpu % cpus as u32;
        let up = !online[cpu as usize];
        if up || online.iter().filter(|&&online| online).count() > 1 {
            online[cpu as usize] = up;
            all.push(Hotplug { at, cpu, online: up });
        }
    }
    all
}

/// As [`possible`], without threads of cores: the balancer treats cores alike however many of their threads are offline
/// (`sibling_imbalance`). Two tasks on a core's only thread and one on a core with two are no imbalance. One of the two
/// then waits beside an idle thread until a task sleeps or wakes. Three hogs on `pack:1 core:2 pu:2` with CPU 0
/// offline: 4.2 s of 5, 6.1+.
fn of_whole_cores(machine: &str, plugged: Vec<Hotplug>, cpus: usize) -> Vec<Hotplug> {
    if machine.contains("pu:2") { Vec::new() } else { possible(plugged, cpus) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_wait_beyond_the_interval_is_counted(
        (machine, kernel) in (machine(), prop::sample::select(vec!["6.1", "6.6", "6.12", "6.18", "7.1"])),
        (costs, hz, seed) in (prop::sample::select(Costs::PROFILES.to_vec()), prop::sample::select(vec![100, 250, 1000]), 0u64..3),
        tasks in workers(-20i8..=19),
        masks in prop::collection::vec(prop::option::of(any::<(u8, u8)>()), 16),
    ) {
        let config = config(machine, kernel, Costs::profile(costs).unwrap(), hz, seed);
        let cpus = config.machine.topology.nr_cpus();
        let (results, reckoning) = observe(tied(tasks, &masks, cpus), &config);
        check_counts(&results, &reckoning)?;
    }

    #[test]
    fn every_wait_is_counted_while_cpus_groups_limits_and_affinities_change(
        (machine, kernel) in (machine(), prop::sample::select(vec!["3.10", "3.18", "6.1", "6.6", "6.12", "6.18", "7.1"])),
        (costs, hz, seed) in (prop::sample::select(Costs::PROFILES.to_vec()), prop::sample::select(vec![100, 250, 1000]), 0u64..3),
        tasks in workers(-20i8..=19),
        limits in [bandwidth(), bandwidth(), bandwidth()],
        mut changes in changes(true),
        plugged in hotplug(8, 400 * MS),
    ) {
        let config = config(machine, kernel, Costs::profile(costs).unwrap(), hz, seed);
        let (cpus, count) = (config.machine.topology.nr_cpus(), tasks.len());
        keep(&mut changes, count);
        let mut workload = grouped(tasks, limits, changes);
        if kernel.starts_with('3') {
            without_bursts(&mut workload);
        }
        workload.hotplug = possible(plugged, cpus);
        let (results, reckoning) = observe_all(&workload, &config);
        check_counts(&results, &reckoning)?;
    }

    /// Each hotplug event rebuilds the scheduling domains, whose intervals begin again. (The maximum of 30,000 cases:
    /// 1.6 intervals too long.)
    #[test]
    fn tasks_alike_wait_for_three_intervals_more_at_most_while_cpus_come_and_go_on_6_12(
        machine in machine(), hz in prop::sample::select(vec![100, 250, 1000]), seed in 0u64..3, tasks in workers(Just(0)),
        plugged in hotplug(8, 400 * MS),
    ) {
        let config = config(machine, "6.12", Costs::default(), hz, seed);
        let mut workload = workload(tasks);
        workload.hotplug = of_whole_cores(machine, plugged, config.machine.topology.nr_cpus());
        let (results, _) = observe_all(&workload, &config);
        let most = results.conservation.unwrap().most_interval_ns;
        prop_assert!(results.account.idle_waits.worst_ns <= 3 * most, "{:?}", results.conservation);
    }

    /// A limit's end releases many tasks at once, and weights make loads exceed an imbalance. (The maximum of 100,000
    /// cases: 6.0 intervals too long; 1.7 in 12,000 without changes of weights and limits.)
    #[test]
    fn tasks_wait_for_eight_intervals_more_at_most_while_everything_but_affinities_changes_on_6_12(
        machine in machine(), hz in prop::sample::select(vec![100, 250, 1000]), seed in 0u64..3,
        tasks in workers(Just(0)),
        limits in [bandwidth(), bandwidth(), bandwidth()],
        mut changes in changes(false),
        plugged in hotplug(8, 400 * MS),
    ) {
        let config = config(machine, "6.12", Costs::default(), hz, seed);
        let (cpus, count) = (config.machine.topology.nr_cpus(), tasks.len());
        keep(&mut changes, count);
        let mut workload = grouped(tasks, limits, changes);
        workload.hotplug = of_whole_cores(machine, plugged, cpus);
        let (results, _) = observe_all(&workload, &config);
        let most = results.conservation.unwrap().most_interval_ns;
        prop_assert!(results.account.idle_waits.worst_ns <= 8 * most, "{:?}", results.conservation);
    }

    /// A balance attempt may fail, for example while another CPU balances; the next is some ticks later. (The maximum
    /// of 100,000 cases: 0.24 of an interval too long.)
    #[test]
    fn tasks_alike_wait_for_half_an_interval_more_at_most_beside_an_idle_cpu_on_6_12(
        machine in machine(), hz in prop::sample::select(vec![100, 250, 1000]), seed in 0u64..3, tasks in workers(Just(0)),
    ) {
        let (results, _) = observe(tasks, &config(machine, "6.12", Costs::default(), hz, seed));
        let most = results.conservation.unwrap().most_interval_ns;
        prop_assert!(results.account.idle_waits.worst_ns <= most / 2, "{:?}", results.conservation);
    }

    /// A CPU that pulls load leaves a task whose load exceeds the imbalance, until it has failed for some intervals.
    /// (The maximum of 100,000 cases: 1.6 intervals too long.)
    #[test]
    fn tasks_of_any_weight_wait_for_three_intervals_more_at_most_beside_an_idle_cpu_on_6_12(
        machine in machine(), hz in prop::sample::select(vec![100, 250, 1000]), seed in 0u64..3,
        tasks in workers(-20i8..=19),
    ) {
        let (results, _) = observe(tasks, &config(machine, "6.12", Costs::default(), hz, seed));
        let most = results.conservation.unwrap().most_interval_ns;
        prop_assert!(results.account.idle_waits.worst_ns <= 3 * most, "{:?}", results.conservation);
    }
}

/// The next NOHZ balance's time was set while other CPUs were idle. A later idle CPU may be due earlier
/// (`nohz.needs_update`, 5.15+). Without that, a CPU was idle here for 17 ms beside one with four tasks.
#[test]
fn a_cpu_idle_later_does_not_wait_for_the_balance_time_of_others() {
    let worker = |(index, &(start, nice, run, sleep)): (usize, &(u64, i8, u64, u64))| {
        let ops = vec![Op::Run { work: run * US }, Op::Sleep { time: sleep * US }];
        let ops = if sleep == 0 { ops[..1].to_vec() } else { ops };
        let mut task = task(&format!("t{index}"), vec![phase(ops, Repeat::Forever)]);
        task.settings.policy = Some(Policy::Other { nice, slice: None });
        starting(task, start * US)
    };
    let tasks = [
        (55124, 0, 100, 0),
        (55127, 9, 13951, 1374),
        (85273, 15, 2126, 11717),
        (55813, 17, 100, 0),
        (55123, -8, 13084, 17411),
        (35806, -5, 100, 0),
        (79846, 6, 11841, 27933),
        (8757, -3, 12035, 26702),
    ];
    let (results, _) =
        observe(tasks.iter().enumerate().map(worker).collect(), &config("4", "6.12", Costs::default(), 1000, 1));
    assert_eq!(results.account.idle_waits.count, 0, "{:?}", results.conservation);
}
