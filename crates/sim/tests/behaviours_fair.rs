//! Behaviours of the fair class. Each is switched on and off under one kernel.

mod support;

use support::*;
use vruntime_sched::debug::{CfsDebug, EntityDebug};
use vruntime_sched::event::{Event, Running};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::kernels::Behaviour;
use vruntime_sim::Config;
use vruntime_workload::program::*;

fn with_policy(mut task: Task, policy: Policy) -> Task {
    task.settings.policy = Some(policy);
    task
}

fn nice(task: Task, nice: i8) -> Task {
    with_policy(task, Policy::Other { nice, slice: None })
}

fn hog(name: &str) -> Task {
    once(name, vec![run(100_000_000)])
}

fn set(at: u64, task: usize, settings: Settings) -> Change {
    Change { at, what: Changed::Tasks { tasks: vec![task], settings, nice: None } }
}

fn to_policy(at: u64, task: usize, policy: Policy) -> Change {
    set(at, task, Settings { policy: Some(policy), ..Settings::default() })
}

fn to_group(at: u64, task: usize, group: usize) -> Change {
    set(at, task, Settings { group: Some(group), ..Settings::default() })
}

const FIFO: Policy = Policy::Fifo { priority: 10 };
const FAIR: Policy = Policy::Other { nice: 0, slice: None };

/// A task's entity, and all queues of its CPU, at `at`.
fn seen(work: &Workload, config: &Config, task: u32, at: u64) -> (EntityDebug, Vec<CfsDebug>) {
    let config = Config { debug_at: Some(at), duration: Some(at + MS), ..config.clone() };
    let cpus = simulate(work, &config, &mut Log::default()).unwrap().debug.unwrap().cpus;
    let mut all = cpus.iter().flat_map(|cpu| cpu.tasks.iter().map(move |task| (cpu, task)));
    let (cpu, found) = all.find(|(_, one)| one.id == TaskId(task)).expect("the task exists");
    (found.se.expect("it has an entity"), cpu.cfs.clone())
}

fn queue(queues: &[CfsDebug], group: u32) -> &CfsDebug {
    queues.iter().find(|cfs| cfs.group.0 == group).expect("the group has a queue")
}

/// When tasks begin to run on CPU 0: nanoseconds and task; None: idle.
fn switches(work: &Workload, config: &Config, ms: u64) -> Vec<(u64, Option<u32>)> {
    let mut log = Log::default();
    simulate(work, &Config { duration: Some(ms * MS), ..config.clone() }, &mut log).unwrap();
    let begins = |&(at, cpu, event): &(u64, CpuId, Event)| match event {
        Event::Switch { next, .. } if cpu == CpuId(0) => Some((at, next.task().map(|task| task.0))),
        _ => None,
    };
    log.events.iter().filter_map(begins).collect()
}

/// The times from a task's wakeups to its turns, nanoseconds.
fn latencies(work: &Workload, config: &Config, task: TaskId, ms: u64) -> Vec<u64> {
    let mut log = Log::default();
    simulate(work, &Config { duration: Some(ms * MS), ..config.clone() }, &mut log).unwrap();
    let (mut woken, mut late) = (None, Vec::new());
    for &(at, _, event) in &log.events {
        match event {
            Event::Wakeup { task: one, .. } if one == task => woken = Some(at),
            Event::Switch { next: Running::Task(one), .. } if one == task => {
                late.extend(woken.take().map(|since| at - since));
            }
            _ => {}
        }
    }
    late
}

/// `SLICE_LIMITED`: sixty tasks beside them give two heavy ones slices of 11 ms, beyond the latency target of 6 ms. The
/// first tick after it ends the turn.
#[test]
fn a_turn_ends_after_the_latency_target() {
    let mut tasks = ["a", "b"].map(|name| nice(hog(name), -15)).to_vec();
    tasks.extend((0..60).map(|index| hog(&format!("t{index}"))));
    let work = workload(tasks);
    let usual = |on| {
        let mut config = forced("6.4", "1", Behaviour::SliceLimited, on);
        config.machine.hz = 1000;
        let turns = switches(&work, &config, 2_000);
        let of_heavy = turns.windows(2).filter(|pair| pair[0].1 < Some(2) && pair[0].0 > 300 * MS);
        let mut lengths: Vec<u64> = of_heavy.map(|pair| (pair[1].0 - pair[0].0) / MS).collect();
        lengths.sort_unstable();
        lengths[lengths.len() / 2]
    };
    assert_eq!((usual(true), usual(false)), (7, 12));
}

/// `ABSENT_LOAD_DECAYS`: after 100 ms as a real-time task, an eighth of the utilisation is left. Without the behaviour,
/// the task returns with all of it.
#[test]
fn averages_decay_in_a_higher_class() {
    let changes = vec![to_policy(400 * MS, 0, FIFO), to_policy(500 * MS, 0, FAIR)];
    let work = Workload { changes, ..workload(vec![hog("t")]) };
    let util = |on| {
        let config = forced("6.12", "1", Behaviour::AbsentDecays, on);
        seen(&work, &config, 0, 501 * MS).0.avg.util_avg
    };
    let (with, without) = (util(true), util(false));
    assert!((100..=180).contains(&with), "{with}");
    assert!(without > 950, "{without}");
}

/// `CLASS_CHANGE_MOVES_LOAD`: the queue's utilisation falls at once. Without the behaviour, it stays as blocked load.
#[test]
fn a_task_takes_its_load_out_of_the_fair_class() {
    let changes = vec![to_policy(400 * MS, 0, FIFO)];
    let work = Workload { changes, ..workload(vec![hog("t")]) };
    let util = |on| {
        let config = forced("6.12", "1", Behaviour::ClassMovesLoad, on);
        queue(&seen(&work, &config, 0, 401 * MS).1, 0).avg.util_avg
    };
    let (with, without) = (util(true), util(false));
    assert!(with < 10, "{with}");
    assert!(without > 900, "{without}");
}

/// Two tasks, of which the second sleeps from 1 ms on.
fn sleeper_beside_a_hog() -> Workload {
    let mut work = workload(vec![hog("hog"), once("sleeper", vec![run(1_000), sleep(2_000_000)])]);
    work.groups.extend([group("/old", 100), group("/new", 100)]);
    work.tasks.iter_mut().for_each(|task| task.settings.group = Some(1));
    work
}

/// `GROUP_MOVE_PLACES`: a sleeper is at most half a latency target behind when it changes groups. Without the
/// behaviour, its sleep counts in the new group, too.
#[test]
fn a_sleep_does_not_count_in_the_next_group() {
    let work = Workload { changes: vec![to_group(800 * MS, 1, 2)], ..sleeper_beside_a_hog() };
    let behind = |on| {
        let (entity, queues) = seen(&work, &forced("6.1", "1", Behaviour::GroupMovePlaces, on), 1, 801 * MS);
        queue(&queues, 2).min_vruntime - entity.vruntime
    };
    let (with, without) = (behind(true), behind(false));
    assert!((1..=3 * MS as i64).contains(&with), "{with}");
    assert!(without > 700 * MS as i64, "{without}");
}

/// Three tasks take turns on one CPU, the last in a group. `change` is made 1.5 ms after a turn's begin, for the
/// running and a waiting task of the root. Returns how long such turns last, microseconds.
fn turns_with(config: &Config, change: impl Fn(u64, usize, usize) -> Change) -> Vec<u64> {
    let mut work = workload(["a", "b", "c"].map(hog).to_vec());
    work.groups.push(group("/g", 100));
    work.tasks[2].settings.group = Some(1);
    let mut lengths = Vec::new();
    for (begin, running) in switches(&work, config, 200) {
        let running = running.unwrap_or(2) as usize;
        if !(100 * MS..160 * MS).contains(&begin) || running == 2 {
            continue;
        }
        let changed = Workload { changes: vec![change(begin + 1_500 * US, running, 1 - running)], ..work.clone() };
        let next = switches(&changed, config, 200).into_iter().find(|(at, _)| *at > begin).unwrap();
        lengths.push((next.0 - begin) / US);
    }
    assert!(lengths.len() > 5);
    lengths
}

/// `PRIO_CHANGE_LOOKS`: a waiting task with a better nice value preempts only if a woken one would. Without the
/// behaviour, the running task is rescheduled in any case, and the other one may be first.
#[test]
fn a_better_nice_value_is_compared_first() {
    let change = |at, _, waiting| Change {
        at,
        what: Changed::Tasks { tasks: vec![waiting], settings: Settings::default(), nice: Some(-1) },
    };
    let turns = |on| turns_with(&forced("5.10", "1", Behaviour::PrioChangeLooks, on), change);
    assert!(turns(false).contains(&1_500), "{:?}", turns(false));
    assert!(!turns(true).contains(&1_500), "{:?}", turns(true));
}

/// `GROUP_MOVE_RESCHEDULES`: a running task that changes groups gives way to a task that is first now.
#[test]
fn a_running_task_that_changes_groups_is_rescheduled() {
    let turns = |on| {
        turns_with(&forced("6.1", "1", Behaviour::GroupMoveReschedules, on), |at, running, _| to_group(at, running, 1))
    };
    assert!(turns(true).contains(&1_500), "{:?}", turns(true));
    assert!(!turns(false).contains(&1_500), "{:?}", turns(false));
}

/// `IDLE_LOSES_PROTECTION`: an idle task is owed time when another ends, and runs. A task that wakes 2 us later
/// preempts it. Without the behaviour, the idle task keeps the CPU up to the next tick.
#[test]
fn a_woken_task_never_waits_for_an_idle_one() {
    let idle = starting(with_policy(hog("idle"), Policy::Idle), 101 * MS);
    let woken = once("t", vec![run(1_000), Op::SleepUntil { at: 103_002 * US }, run(5_000)]);
    let work = workload(vec![idle, woken, once("other", vec![run(102_000)])]);
    let late = |on| {
        let mut config = forced("6.12", "1", Behaviour::IdleGivesWay, on);
        config.machine.hz = 250;
        config.tick_phase = Some(0);
        latencies(&work, &config, TaskId(1), 2_000)
    };
    assert_eq!(late(true).last(), Some(&0));
    assert_eq!(late(false).last(), Some(&998_000));
}

/// `GROUPS_BEFORE_POLICIES`: between groups, a SCHED_IDLE task is like any other, and a woken SCHED_BATCH task waits
/// for a tick. Without the behaviour, it preempts the SCHED_IDLE task of the other group.
#[test]
fn an_idle_task_has_the_rights_of_its_group() {
    let idle = with_policy(hog("idle"), Policy::Idle);
    let batch = task("t", vec![phase(vec![run(300), sleep(7_300)], Repeat::Forever)]);
    let mut work = workload(vec![idle, with_policy(batch, Policy::Batch { nice: 0, slice: None })]);
    work.groups.extend([group("/a", 100), group("/b", 100)]);
    work.tasks[0].settings.group = Some(1);
    work.tasks[1].settings.group = Some(2);
    let late = |on| {
        let config = forced("6.4", "1", Behaviour::GroupsBeforePolicies, on);
        latencies(&work, &config, TaskId(1), 2_000).into_iter().max().unwrap()
    };
    assert_eq!(late(false), 0);
    assert_eq!(late(true), 400 * US);
}

/// `UTIL_EST_IGNORES_BIGGER`: what exceeds the CPU's capacity is no sample for the estimate.
#[test]
fn utilisation_from_a_bigger_cpu_is_no_sample() {
    let on = |ops: Vec<Op>, cpu: u32| Phase {
        settings: Settings { cpus: Some(vec![cpu]), ..Settings::default() },
        ..phase(ops, Repeat::Times(1))
    };
    let moves = task("t", vec![on(vec![run(400_000), sleep(5_000)], 1), on(vec![run(100), sleep(900_000)], 0)]);
    let work = workload(vec![moves]);
    let estimates = |active| {
        let config = forced("6.12", "l3:1 core:2(capacity=446,1024)", Behaviour::EstElsewhere, active);
        [403, 420].map(|at| seen(&work, &config, 0, at * MS).0.avg.util_est)
    };
    let ([before, kept], [_, fell]) = (estimates(true), estimates(false));
    assert!(before > 900 && kept == before && fell < before, "{before}: {kept} or {fell}");
}

/// `NARROW_RUNNABLE_SUM`: the sum of a hundred runnable tasks needs more than 32 bits. When one joins, the upper ones
/// get lost, and the group's entity seems to have few.
#[test]
fn the_runnable_sum_of_a_crowd_overflows() {
    let mut work = workload((0..100).map(|index| hog(&format!("t{index}"))).collect());
    work.groups.push(group("/g", 100));
    work.tasks.iter_mut().skip(1).for_each(|task| task.settings.group = Some(1));
    let work = Workload { changes: vec![to_group(400 * MS, 0, 1)], ..work };
    let of_group = |on, at| {
        let (_, queues) = seen(&work, &forced("6.12", "1", Behaviour::NarrowSum, on), 0, at);
        queue(&queues, 1).se.unwrap().avg
    };
    let [narrow, whole] = [true, false].map(|on| of_group(on, 400 * MS + 1));
    assert!(whole.runnable_sum > 1 << 32, "{whole:?}");
    assert_eq!(narrow.runnable_sum, whole.runnable_sum % (1 << 32));
    let [narrow, whole] = [true, false].map(|on| of_group(on, 405 * MS).runnable_avg);
    assert!(whole > 99 * 1024 && narrow < 20 * 1024, "{whole} and {narrow}");
}

/// `YIELD_FORFEITS`: a task that yields every 100 us has to wait as if it had used its whole request. Without the
/// behaviour, only its deadline moves, and it continues while it is owed time.
#[test]
fn a_yield_costs_the_rest_of_the_request() {
    let polite = task("polite", vec![phase(vec![run(100), Op::Yield], Repeat::Forever)]);
    let work = workload(vec![polite, hog("hog")]);
    let share = |on| {
        let turns = switches(&work, &forced("6.18", "1", Behaviour::ForfeitsOnYield, on), 1_000);
        let polite = turns.windows(2).filter(|pair| pair[0].1 == Some(0)).map(|pair| pair[1].0 - pair[0].0);
        polite.sum::<u64>() / (10 * MS)
    };
    let (with, without) = (share(true), share(false));
    assert!(with < 15 && without > 45, "{with} % and {without} %");
}

/// `REWEIGHT_STRETCHES_SLEEPERS`: a waiting task is off the queue while it becomes heavier. The rest of its request
/// shrinks in virtual time, as its weight grows. Without the behaviour, it stays, and lasts longer than a slice.
#[test]
fn the_rest_of_a_request_follows_a_new_weight() {
    let work = |nices: Vec<Change>| Workload { changes: nices, ..workload(vec![hog("a"), hog("b"), hog("c")]) };
    let heavier = |task| to_policy(400 * MS, task, Policy::Other { nice: -10, slice: None });
    let rest = |on, changes: Vec<Change>, task: u32| {
        let config = forced("7.1", "1", Behaviour::ReweightStretches, on);
        let entity = seen(&work(changes), &config, task, 400 * MS + 1).0;
        entity.deadline - entity.vruntime
    };
    let config = exact("7.1", "1");
    let turn = switches(&work(Vec::new()), &config, 400).last().and_then(|(_, task)| *task);
    let waits = (0..3).find(|task| Some(*task) != turn).expect("two tasks wait");
    let before = rest(true, Vec::new(), waits);
    assert!(before > 0, "{before}");
    let [with, without] = [true, false].map(|on| rest(on, vec![heavier(waits as usize)], waits));
    assert_eq!(without, before);
    // Nice -10 weighs 9548, and nice 0 1024.
    assert!((with - before * 1024 / 9548).abs() <= 1, "{with} of {before}");
}

/// `BUDDY_IF_PROTECTED`: a task with a short slice wakes beside the buddy of a task with a long one, and preempts.
/// Without the behaviour, the buddy is in its way.
#[test]
fn a_short_slice_preempts_beside_a_buddy() {
    let wake = Op::WakeUp { queue: 0, nr: 1, events: 1, sync: true };
    let wait = Op::WaitEvent { queue: 0, mode: WaitMode::Exclusive, timeout: None };
    let every = |timer| Op::Timer { timer, period: 20 * MS, mode: TimerMode::Absolute };
    let of_slice = |task, slice| with_policy(task, Policy::Other { nice: 0, slice });
    // The waker says that it will sleep, and computes for another 5 ms.
    let waker = task("waker", vec![phase(vec![run(1_000), wake, run(5_000), every(0)], Repeat::Forever)]);
    let woken = task("woken", vec![phase(vec![wait, run(500)], Repeat::Forever)]);
    let short = task("short", vec![phase(vec![run(50), sleep(500)], Repeat::Forever)]);
    let tasks = vec![of_slice(waker, Some(20 * MS)), of_slice(woken, Some(20 * MS)), of_slice(short, Some(MS / 10))];
    let work = workload(tasks);
    let worst = |on| {
        let mut config = forced("7.1", "1", Behaviour::BuddyIfProtected, on);
        config.kernel.feature("NEXT_BUDDY").unwrap();
        latencies(&work, &config, TaskId(2), 1000).into_iter().max().unwrap()
    };
    let (with, without) = (worst(true), worst(false));
    // At most one turn of the woken task, not the rest of the waker's.
    assert!(with <= MS / 2 && without > 2 * MS, "{with} {without}");
}
