//! Round trips: random programs run on the simulated machine, and the trace of the run is replayed. Both sides are
//! known exactly here.

#[path = "../../../tests/seed.rs"]
mod seed;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};
use seed::any_seed;
use vruntime_replay::recorded::Recorded;
use vruntime_replay::recorded::rules::Rules;
use vruntime_replay::{ReadOptions, Recording, Replay, Setup};
use vruntime_report::{Collector, Results};
use vruntime_sim::plan::{Machine, Overrides};
use vruntime_sim::{Config, MachineSpec, parse_topology};
use vruntime_trace::FtraceWriter;
use vruntime_workload::program::{
    Channel, Mutex, Op, Phase, Pipe, Policy, Repeat, Semaphore, Settings, Task, Timer, TimerMode, Workload,
};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// The first task's thread id in traces.
const FIRST_PID: i32 = 1_000;
const DURATION: u64 = 500 * MS;
/// Chance evens out in more time.
const DURATION_OF_WHAT_IFS: u64 = 2_000 * MS;
/// A share of CPU time that is off by less than this is as recorded.
const NEAR: f64 = 0.01;

/// Programs that real ones are made of. Times are in microseconds.
#[derive(Clone, Debug)]
enum Part {
    Hog {
        nice: i8,
    },
    Sleeper {
        work: u64,
        sleep: u64,
    },
    Disk {
        work: u64,
        time: u64,
    },
    Periodic {
        work: u64,
        period: u64,
    },
    /// Two that hand a token to and fro.
    Pair {
        first: u64,
        second: u64,
    },
    /// One writes, another reads.
    Pipe {
        writes: u64,
        reads: u64,
    },
    /// N tasks that need one mutex.
    Mutex {
        number: usize,
        inside: u64,
        outside: u64,
    },
    /// One that starts another again and again, and waits for it.
    Forks {
        parent: u64,
        child: u64,
    },
    /// A part that was removed.
    Nothing,
}

fn part() -> impl Strategy<Value = Part> {
    let work = || 30_u64..3_000;
    prop_oneof![
        (-5_i8..10).prop_map(|nice| Part::Hog { nice }),
        (work(), 200_u64..20_000).prop_map(|(work, sleep)| Part::Sleeper { work, sleep }),
        (work(), 100_u64..10_000).prop_map(|(work, time)| Part::Disk { work, time }),
        (work(), 4_000_u64..20_000).prop_map(|(work, period)| Part::Periodic { work, period }),
        (work(), work()).prop_map(|(first, second)| Part::Pair { first, second }),
        (work(), work()).prop_map(|(writes, reads)| Part::Pipe { writes, reads }),
        (2_usize..5, 20_u64..500, work()).prop_map(|(number, inside, outside)| Part::Mutex { number, inside, outside }),
        (work(), work()).prop_map(|(parent, child)| Part::Forks { parent, child }),
    ]
}

#[derive(Clone, Debug)]
struct System {
    kernel: &'static str,
    cpus: u32,
    parts: Vec<Part>,
    seed: u64,
}

fn system() -> impl Strategy<Value = System> {
    let kernels = prop::sample::select(vec!["6.1", "6.6", "6.12", "6.18"]);
    let parts = prop::collection::vec(part(), 1..6);
    (kernels, 1_u32..5, parts, any::<u64>()).prop_map(|(kernel, cpus, parts, seed)| System {
        kernel,
        cpus,
        parts,
        seed,
    })
}

fn workload(parts: &[Part], duration_ns: u64) -> Workload {
    let mut all = Workload { duration: Some(duration_ns), ..Workload::default() };
    let run = |work: u64| Op::Run { work: work * US };
    for (number, part) in parts.iter().enumerate() {
        let forever = |what: &str, ops: Vec<Op>| Task::new(format!("{what}{number}"), [Phase::forever(ops)]);
        match *part {
            Part::Hog { nice } => {
                let policy = Some(Policy::Other { nice, slice: None });
                let hog = forever("hog", vec![run(100_000)]);
                all.tasks.push(Task { settings: Settings { policy, ..Settings::default() }, ..hog });
            }
            Part::Nothing => {}
            Part::Sleeper { work, sleep } => {
                all.tasks.push(forever("sleeper", vec![run(work), Op::Sleep { time: sleep * US }]));
            }
            Part::Disk { work, time } => {
                all.tasks.push(forever("disk", vec![run(work), Op::Device { time: time * US }]));
            }
            Part::Periodic { work, period } => {
                let timer = Op::Timer { timer: all.timers.len(), period: period * US, mode: TimerMode::Relative };
                all.timers.push(Timer::new(format!("timer{number}")));
                all.tasks.push(forever("periodic", vec![run(work), timer]));
            }
            Part::Pair { first, second } => {
                let there = all.semaphores.len();
                for name in ["there", "back"] {
                    all.semaphores.push(Semaphore { name: format!("{name}{number}"), initial: 0 });
                }
                all.tasks.push(forever("first", vec![run(first), Op::SemPost(there), Op::SemWait(there + 1)]));
                all.tasks.push(forever("second", vec![Op::SemWait(there), run(second), Op::SemPost(there + 1)]));
            }
            Part::Pipe { writes, reads } => {
                let (pipe, bytes) = (all.pipes.len(), 4096);
                all.pipes.push(Pipe { name: format!("pipe{number}"), capacity: 65536, kind: Channel::default() });
                all.tasks.push(forever("writer", vec![run(writes), Op::PipeWrite { pipe, bytes }]));
                all.tasks.push(forever("reader", vec![Op::PipeRead { pipe, bytes }, run(reads)]));
            }
            Part::Mutex { number: sharers, inside, outside } => {
                let mutex = all.mutexes.len();
                all.mutexes.push(Mutex {
                    name: format!("mutex{number}"),
                    priority_inheritance: false,
                    hands_over: false,
                });
                // Threads of one process and one name, as in real programs.
                let ops = vec![run(outside), Op::Lock(mutex), run(inside), Op::Unlock(mutex)];
                let process = u32::try_from(10_000 + number).ok();
                let sharer = |_| Task { process, ..forever("sharer", ops.clone()) };
                all.tasks.extend((0..sharers).map(sharer));
            }
            Part::Forks { parent, child } => {
                let done = all.semaphores.len();
                all.semaphores.push(Semaphore { name: format!("done{number}"), initial: 0 });
                let template = all.tasks.len() + 1;
                all.tasks.push(forever("parent", vec![run(parent), Op::Fork(template), Op::SemWait(done)]));
                let child = Task::new(format!("child{number}"), [Phase::times(1, [run(child), Op::SemPost(done)])]);
                all.tasks.push(Task { start: None, ..child });
            }
        }
    }
    all
}

fn config(system: &System) -> Config {
    let machine = MachineSpec::new(parse_topology(&system.cpus.to_string()).expect("it is a number of CPUs"));
    Config { seed: system.seed, ..Config::new(vruntime_sched::kernel(system.kernel).expect("it is offered"), machine) }
}

/// Runs a system. Returns what its tasks had, and its trace.
fn simulated(system: &System, duration_ns: u64) -> (Results, Vec<u8>) {
    let mut sinks = (
        Collector::new(system.cpus as usize),
        FtraceWriter::new(Vec::new(), system.cpus).nanoseconds().with_kernel(system.kernel),
    );
    vruntime_sim::run(&workload(&system.parts, duration_ns), &config(system), &mut sinks).expect("it runs");
    (sinks.0.into_results(), sinks.1.finish_writing().expect("memory takes it"))
}

/// Reads a trace. As `vruntime record` does, it says which threads are of one process: ftrace lacks that.
fn recording(system: &System, trace: &[u8]) -> Recording {
    let process = |(number, task): (usize, &Task)| {
        let thread = FIRST_PID + number as i32;
        (thread, (task.process.map_or(thread, |process| process as i32), 1))
    };
    let all = workload(&system.parts, 0);
    let recording = Recording::from_bytes("trace.txt", trace, &ReadOptions::default()).expect("it is whole");
    recording.with_processes(all.tasks.iter().filter(|task| task.start.is_some()).enumerate().map(process))
}

/// Returns the work of programs, and the recorded CPU time, of each task that does exactly the recorded work at its own
/// pace.
fn conserved(recorded: &Recorded) -> Vec<(&str, u64, u64)> {
    let threads = recorded.threads.iter().filter(|thread| thread.computes_for.is_none());
    let tasks = threads.filter_map(|thread| Some((&recorded.workload.tasks[thread.task?], thread.cpu_ns)));
    let tasks = tasks.filter(|(task, _)| task.phases.iter().all(|phase| phase.repeat == Repeat::Times(1)));
    let work = |task: &Task| {
        let ops = task.phases.iter().flat_map(|phase| &phase.ops);
        ops.map(|op| if let Op::Run { work } | Op::PoolRun { work, .. } = *op { work } else { 0 }).sum()
    };
    tasks.map(|(task, cpu_ns)| (task.name.as_str(), work(task), cpu_ns)).collect()
}

/// Of all CPU time, the share that tasks have more or less in the replay as recorded than in the recording.
fn off(replay: &Replay<'_>) -> f64 {
    let results = replay.run().expect("it runs").results;
    let now = |name: &str| results.tasks.iter().find(|task| task.name == name).map_or(0, |task| task.account.cpu_ns);
    let recorded = &replay.recorded;
    let threads = recorded.threads.iter().filter_map(|thread| Some((thread.cpu_ns, thread.task?)));
    let (mut off, mut all) = (0, 0);
    for (cpu_ns, task) in threads {
        off += cpu_ns.abs_diff(now(&recorded.workload.tasks[task].name));
        all += cpu_ns;
    }
    off as f64 / all.max(1) as f64
}

/// At least this number of 100 systems has each share of CPU time as recorded, to a hundredth of all. 61 and 66 had
/// under two seeds. Which hog gets which CPU is chance, and half a second does not even it out.
const NEAR_ONES: usize = 40;

#[test]
fn most_round_trips_come_home() {
    let config =
        ProptestConfig { rng_seed: RngSeed::Fixed(any_seed()), failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new(config);
    let mut far = Vec::new();
    for _ in 0..100 {
        let system = system().new_tree(&mut runner).expect("it is never rejected").current();
        let (_, trace) = simulated(&system, DURATION);
        let recording = Recording::from_bytes("trace.txt", &trace, &ReadOptions::default()).expect("it is whole");
        let off = off(&Replay::new(&recording, &Setup::default()).expect("it is replayed"));
        if off > NEAR {
            far.push((off, system));
        }
    }
    far.sort_by(|one, other| other.0.total_cmp(&one.0));
    let near = 100 - far.len();
    assert!(near >= NEAR_ONES, "only {near} of 100 are as recorded; the others: {far:#?}");
}

/// What is changed after the recording.
#[derive(Clone, Debug)]
enum Change {
    Kernel(&'static str),
    Cpus(u32),
    Nice(i8),
    NoHogs,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        prop::sample::select(vec!["6.1", "6.6", "6.12", "6.18"]).prop_map(Change::Kernel),
        (1_u32..5).prop_map(Change::Cpus),
        (-5_i8..15).prop_map(Change::Nice),
        Just(Change::NoHogs),
    ]
}

impl Change {
    /// The system with the change really made.
    fn of(&self, system: &System) -> System {
        let mut changed = system.clone();
        let is_hog = |part: &Part| matches!(part, Part::Hog { .. });
        match *self {
            Self::Kernel(kernel) => changed.kernel = kernel,
            Self::Cpus(cpus) => changed.cpus = cpus,
            Self::Nice(nice) => {
                for part in changed.parts.iter_mut().filter(|part| is_hog(part)) {
                    *part = Part::Hog { nice };
                }
            }
            Self::NoHogs => {
                for part in changed.parts.iter_mut().filter(|part| is_hog(part)) {
                    *part = Part::Nothing;
                }
            }
        }
        changed
    }

    /// The change as a what-if.
    fn what_if(&self) -> (Overrides, Rules) {
        let (mut overrides, mut rules) = (Overrides::default(), Rules::default());
        let mut add = |rule: &str| rules.add(rule).expect("it is a rule");
        match *self {
            Self::Kernel(kernel) => overrides.kernel = Some(kernel.to_owned()),
            Self::Cpus(cpus) => {
                overrides.machine = Some(Machine::described(&cpus.to_string()).expect("it is a number"));
            }
            Self::Nice(nice) => add(&format!("comm=hog*: nice={nice}")),
            Self::NoHogs => add("comm=hog*: remove"),
        }
        (overrides, rules)
    }
}

/// The CPU time of each part's tasks, but of hogs, nanoseconds: the tasks of a part have its number in their names.
fn by_part(parts: &[Part], results: &Results) -> Vec<u64> {
    let number = |name: &str| -> Option<usize> {
        let name = name.split(['-', '.', '#']).next()?;
        name.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
    };
    let mut all = vec![0; parts.len()];
    for task in &results.tasks {
        if let Some(part) = number(&task.name) {
            all[part] += task.account.cpu_ns;
        }
    }
    all
}

/// A what-if of a part: predicted and true CPU time, nanoseconds.
#[derive(Clone, Debug)]
struct Outcome {
    part: Part,
    predicted: u64,
    /// With the seed of the recording and with others.
    real: Vec<u64>,
}

impl Outcome {
    /// Within 5 % of the true time, within a thousandth of a CPU, or between the true times of two seeds.
    fn is_near(&self) -> bool {
        let near = |real: u64| self.predicted.abs_diff(real) <= (real / 20).max(DURATION_OF_WHAT_IFS / 1000);
        near(self.real[0])
            || self.real.iter().min() <= Some(&self.predicted) && Some(&self.predicted) <= self.real.iter().max()
    }

    /// Whether the true time with another seed would have been near.
    fn is_repeatable(&self) -> bool {
        let rest = Self { part: self.part.clone(), predicted: self.real[0], real: self.real[1..].to_vec() };
        rest.is_near()
    }
}

/// What becomes of the parts of a system that are no hogs, predicted and real.
fn predict(system: &System, change: &Change) -> Vec<Outcome> {
    let (_, trace) = simulated(system, DURATION_OF_WHAT_IFS);
    let recording = recording(system, &trace);
    let replay = Replay::new(&recording, &Setup::default()).expect("it is replayed");
    let (overrides, rules) = change.what_if();
    let what_if = replay.what_if(replay.plan(&overrides).expect("it is a plan"), &rules, &[]).expect("it is possible");
    let predicted = replay.run_what_if(&what_if, &rules).expect("it runs").results;
    let predicted = by_part(&system.parts, &predicted);
    let changed = change.of(system);
    let seeds = (0..6).map(|more| System { seed: changed.seed.wrapping_add(more), ..changed.clone() });
    let real: Vec<_> = seeds.map(|of| by_part(&system.parts, &simulated(&of, DURATION_OF_WHAT_IFS).0)).collect();
    let all = system.parts.iter().zip(predicted).enumerate().map(|(number, (part, predicted))| Outcome {
        part: part.clone(),
        predicted,
        real: real.iter().map(|times| times[number]).collect(),
    });
    all.filter(|one| !matches!(one.part, Part::Hog { .. } | Part::Nothing)).collect()
}

/// Threads that share a mutex wait more often for it when they have more CPU. A hog took half of it.
#[test]
fn a_regular_lock_is_contended_without_a_hog() {
    for (cpus, inside, outside) in [(2, 400, 600), (3, 450, 300), (4, 100, 900)] {
        let mutex = Part::Mutex { number: 3, inside, outside };
        let system = System { kernel: "6.12", cpus, parts: vec![mutex, Part::Hog { nice: 0 }], seed: any_seed() };
        let outcomes = predict(&system, &Change::NoHogs);
        let [Outcome { predicted, real, .. }] = &outcomes[..] else { panic!("one part is no hog: {outcomes:?}") };
        assert!(predicted.abs_diff(real[0]) <= real[0] / 50, "{cpus} CPUs: {predicted} instead of {real:?}");
    }
}

/// On one CPU, the periodic task is late in most periods. On four, it never is.
#[test]
fn a_task_that_was_mostly_late_keeps_its_period() {
    let periodic = Part::Periodic { work: 2_804, period: 7_527 };
    let others = [Part::Disk { work: 91, time: 5_748 }, Part::Forks { parent: 1_464, child: 330 }];
    let pipe = Part::Pipe { writes: 2_384, reads: 411 };
    let parts = [vec![periodic], others.to_vec(), vec![pipe]].concat();
    let outcomes = predict(&System { kernel: "6.6", cpus: 1, parts, seed: any_seed() }, &Change::Cpus(4));
    let Outcome { predicted, real, .. } = &outcomes[0];
    assert!(predicted.abs_diff(real[0]) <= real[0] / 50, "{predicted} instead of {real:?}");
}

/// Draws systems and changes that change something.
fn drawn(count: usize) -> Vec<(System, Change)> {
    let config =
        ProptestConfig { rng_seed: RngSeed::Fixed(any_seed()), failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new(config);
    let draws = || (system(), change()).new_tree(&mut runner).expect("it is never rejected").current();
    let is_hog = |part: &Part| matches!(part, Part::Hog { .. });
    let counts = |(system, change): &(System, Change)| {
        !system.parts.iter().all(is_hog)
            && (system.parts.iter().any(is_hog) || !matches!(change, Change::Nice(_) | Change::NoHogs))
    };
    std::iter::repeat_with(draws).filter(counts).take(count).collect()
}

/// How many what-ifs of how many are near in every part, how many are repeatable, and a table of kinds. Writes all
/// outcomes to the file that `ROUND_TRIPS` names.
fn what_ifs(count: usize) -> (usize, usize, String) {
    let drawn = drawn(count);
    let outcomes = vruntime_sim::parallel(&drawn, |_, (system, change)| predict(system, change));
    let near = outcomes.iter().filter(|all| all.iter().all(Outcome::is_near)).count();
    let repeatable = outcomes.iter().filter(|all| all.iter().all(Outcome::is_repeatable)).count();
    let both = outcomes.iter().filter(|all| all.iter().all(|one| one.is_near() || !one.is_repeatable())).count();
    let mut kinds: BTreeMap<(String, String), [u32; 4]> = BTreeMap::new();
    let mut rows = Vec::new();
    for (number, (all, (system, change))) in outcomes.iter().zip(&drawn).enumerate() {
        for one in all {
            let kind = kinds.entry((name(change), name(&one.part))).or_default();
            let (near, repeatable) = (one.is_near(), one.is_repeatable());
            for (count, counts) in kind.iter_mut().zip([near, repeatable, repeatable && !near, true]) {
                *count += u32::from(counts);
            }
            let Outcome { part, predicted, real } = one;
            rows.push(format!(
                "{number}\t{near}\t{repeatable}\t{change:?}\t{part:?}\t{predicted}\t{real:?}\t{}\t{}\t{:?}\n",
                system.kernel, system.cpus, system.parts
            ));
        }
    }
    if let Some(file) = std::env::var_os("ROUND_TRIPS") {
        std::fs::write(file, rows.concat()).expect("the file can be written");
    }
    let lines = kinds.iter().map(|((change, part), [near, repeatable, missed, all])| {
        format!("{change:8} {part:10} {near:4} near, {repeatable:4} repeatable ({missed:4} not near), of {all:4}\n")
    });
    let all = format!(
        "of {count} what-ifs {near} come true, and {repeatable} are repeatable; in {both} all repeatable parts come true\n"
    );
    (near, repeatable, all + &lines.collect::<String>())
}

/// The name of a variant.
fn name(what: &impl std::fmt::Debug) -> String {
    format!("{what:?}").split([' ', '(']).next().unwrap_or_default().to_owned()
}

/// Of 100 what-ifs, at least this number is right. Of 2,000, 85 % were on 28 November 2026, and this is four standard
/// deviations of 100 less. The goal of the project is 90.
const NEAR_PREDICTIONS: usize = 70;

#[test]
fn what_ifs_come_true() {
    let (near, _, table) = what_ifs(100);
    assert!(near >= NEAR_PREDICTIONS, "{table}");
}

/// `cargo test --release -p vruntime-replay --test round_trip -- --ignored --nocapture` prints the table.
#[test]
#[ignore = "takes minutes, and prints what `what_ifs_come_true` only counts"]
fn two_thousand_what_ifs() {
    let (near, _, table) = what_ifs(2000);
    println!("{table}");
    assert!(near * 100 >= NEAR_PREDICTIONS * 2000, "{table}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    /// Invariant 8: a replayed task does as much work as its CPU time in the recording, to the nanosecond.
    #[test]
    fn work_is_what_was_recorded(system in system()) {
        let (_, trace) = simulated(&system, DURATION);
        let recording = Recording::from_bytes("trace.txt", &trace, &ReadOptions::default()).expect("it is whole");
        let replay = Replay::new(&recording, &Setup::default()).expect("it is replayed");
        for (name, work, cpu_ns) in conserved(&replay.recorded) {
            prop_assert_eq!(work, cpu_ns, "{}", name);
        }
    }
}
