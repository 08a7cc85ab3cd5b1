//! Work conservation (design.md, invariant 4): no CPU stays idle for longer than a balance interval while a task that may
//! run there waits elsewhere; every wait beyond it is counted and reported.
//!
//! Two properties over random machines and workloads. What the report counts is what a slow and simple reckoning from the
//! events finds, whatever happens. And where nothing ties tasks to CPUs, 6.12 keeps a bound.

mod support;

use proptest::prelude::*;
use support::*;
use vruntime_report::{Collector, Results};
use vruntime_sched::CpuMask;
use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sim::{Config, Costs, MachineSpec, parse_topology};
use vruntime_trace::{MachineInfo, Sink, TaskInfo};
use vruntime_workload::program::*;

/// A time, and which of the events of that time.
type When = (u64, u64);

/// A wait, or an idle interval.
#[derive(Clone, Debug)]
struct Span {
    begin: u64,
    end: Option<When>,
    /// The CPU that is idle; the CPUs waited on, each from an event on.
    cpus: Vec<(When, CpuId)>,
    allowed: Option<CpuMask>,
}

/// Keeps every wait and every idle interval, and reckons at the end.
#[derive(Default)]
struct Reckoning {
    domains: Vec<(CpuMask, u64)>,
    tick: u64,
    waits: Vec<Vec<Span>>,
    idle: Vec<Vec<Span>>,
    allowed: Vec<Option<CpuMask>>,
    end: u64,
    events: u64,
}

impl Reckoning {
    fn open(spans: &mut Vec<Span>, at: When, cpu: CpuId, allowed: Option<CpuMask>) {
        spans.push(Span { begin: at.0, end: None, cpus: vec![(at, cpu)], allowed });
    }

    fn close(spans: &mut [Span], at: When) {
        if let Some(span) = spans.last_mut().filter(|span| span.end.is_none()) {
            span.end = Some(at);
        }
    }

    fn wait(&mut self, at: When, task: TaskId, cpu: CpuId) {
        let allowed = self.allowed[task.index()].clone();
        Self::open(&mut self.waits[task.index()], at, cpu, allowed);
    }

    /// How many of a task's waits were too long, by how much together, and the worst.
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
                if until.0 <= wait.begin.max(idle.begin) {
                    continue;
                }
                // Where it waits when one of the two ends tells how far apart they are.
                let here = wait.cpus.iter().rev().find(|(from, _)| *from <= until).unwrap().1;
                let shared = self.domains.iter().find(|(span, _)| span.contains(cpu) && span.contains(here)).unwrap().1;
                let interval = (shared.div_ceil(self.tick) + 1) * self.tick;
                let begin = wait.begin.max(idle.begin) + interval;
                if begin < until.0 {
                    parts.push((begin, until.0));
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
        for cpu in 0..info.cpus as u32 {
            let mut spans = Vec::new();
            Self::open(&mut spans, (0, 0), CpuId(cpu), None);
            self.idle.push(spans);
        }
    }
    fn task(&mut self, _id: TaskId, _info: &TaskInfo<'_>) {
        self.waits.push(Vec::new());
        self.allowed.push(None);
    }
    fn affinity(&mut self, at: u64, task: TaskId, cpus: Option<&CpuMask>) {
        self.allowed[task.index()] = cpus.cloned();
        let at = (at, self.events);
        if let Some(span) = self.waits[task.index()].last().filter(|span| span.end.is_none()) {
            let cpu = span.cpus.last().unwrap().1;
            Self::close(&mut self.waits[task.index()], at);
            self.wait(at, task, cpu);
        }
    }
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        self.events += 1;
        let at = (at, self.events);
        match *event {
            Event::Wakeup { task, target } | Event::WakeupNew { task, target } => self.wait(at, task, target),
            Event::Migrate { task, to, .. } => {
                if let Some(span) = self.waits[task.index()].last_mut().filter(|span| span.end.is_none()) {
                    span.cpus.push((at, to));
                }
            }
            Event::Switch { prev, prev_state, next } => {
                if prev == Running::Idle {
                    Self::close(&mut self.idle[cpu.index()], at);
                }
                if let (Running::Task(task), PrevState::Preempted | PrevState::Yielded) = (prev, prev_state) {
                    self.wait(at, task, cpu);
                }
                match next {
                    Running::Task(task) => Self::close(&mut self.waits[task.index()], at),
                    Running::Idle => Self::open(&mut self.idle[cpu.index()], at, cpu, None),
                    Running::Stopper => {}
                }
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

/// Tasks that work and sleep, or only work.
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

/// Some of the tasks tied to some of the CPUs, and some of them tied otherwise later.
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
    let mut sinks = (Collector::new(config.machine.topology.nr_cpus()), Reckoning::default());
    simulate(&workload(tasks), config, &mut sinks).unwrap();
    (sinks.0.into_results(), sinks.1)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_wait_beyond_the_interval_is_counted(
        (machine, kernel) in (machine(), prop::sample::select(vec!["6.1", "6.6", "6.12", "6.18"])),
        (costs, hz, seed) in (prop::sample::select(Costs::PROFILES.to_vec()), prop::sample::select(vec![100, 250, 1000]), 0u64..3),
        tasks in workers(-20i8..=19),
        masks in prop::collection::vec(prop::option::of(any::<(u8, u8)>()), 16),
    ) {
        let config = config(machine, kernel, Costs::profile(costs).unwrap(), hz, seed);
        let cpus = config.machine.topology.nr_cpus();
        let (results, reckoning) = observe(tied(tasks, &masks, cpus), &config);
        prop_assert!(results.conservation.is_some());
        let mut worst = 0;
        for (index, task) in results.tasks.iter().enumerate() {
            let waits = task.account.idle_waits;
            prop_assert_eq!((waits.count, waits.total_ns, waits.worst_ns), reckoning.excess(index), "task {}", index);
            worst = worst.max(waits.worst_ns);
        }
        prop_assert_eq!(results.conservation.unwrap().worst.map_or(0, |worst| worst.ns), worst);
        prop_assert_eq!(results.account.idle_waits.worst_ns, worst);
    }

    /// Alike and free to go anywhere, a task hardly waits beyond the balance interval: a look may come to nothing, as when
    /// another CPU is balancing, and the next is some ticks later. (In 100,000 cases the most was 0.24 of an interval too
    /// long.)
    #[test]
    fn tasks_alike_wait_for_half_an_interval_more_at_most_beside_an_idle_cpu_on_6_12(
        machine in machine(), hz in prop::sample::select(vec![100, 250, 1000]), seed in 0u64..3, tasks in workers(Just(0)),
    ) {
        let (results, _) = observe(tasks, &config(machine, "6.12", Costs::default(), hz, seed));
        let most = results.conservation.unwrap().most_interval_ns;
        prop_assert!(results.account.idle_waits.worst_ns <= most / 2, "{:?}", results.conservation);
    }

    /// Tasks of different weight may wait for longer: a CPU that pulls load leaves a task whose load is more than the
    /// imbalance until it has failed for some intervals. (In 100,000 cases the most was 1.6 intervals too long.)
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

/// The time of the next NOHZ balance was found while other CPUs were idle; one that goes idle later may be due earlier, and
/// somebody has to look (`nohz.needs_update`, since 5.15). Without that a CPU was idle here for 17 ms beside another with
/// four tasks.
#[test]
fn a_cpu_that_goes_idle_later_does_not_wait_for_the_others_time() {
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
