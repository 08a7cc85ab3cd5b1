//! Behaviours of wakeups and load balancing. Each is switched on and off under one kernel.

mod support;

use support::*;
use vruntime_sched::event::{Event, MigrateCause, Running};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::kernels::Behaviour;
use vruntime_sim::Config;
use vruntime_workload::program::*;
use vruntime_workload::resident::Resident;

fn with_policy(mut task: Task, policy: Policy) -> Task {
    task.settings.policy = Some(policy);
    task
}

fn hog(name: &str) -> Task {
    once(name, vec![run(100_000_000)])
}

fn lasting(name: &str, us: u64, cpu: u32) -> Task {
    pinned(once(name, vec![run(us)]), &[cpu])
}

fn to_cpus(at: u64, task: usize, cpus: &[u32]) -> Change {
    let settings = Settings { cpus: Some(cpus.to_vec()), ..Settings::default() };
    Change { at, what: Changed::Tasks { tasks: vec![task], settings, nice: None } }
}

fn log(work: &Workload, config: &Config, ms: u64) -> Log {
    let mut log = Log::default();
    simulate(work, &Config { duration: Some(ms * MS), ..config.clone() }, &mut log).unwrap();
    log
}

/// When a task begins to run, and on which CPU.
fn turns(log: &Log, task: u32) -> Vec<(u64, u32)> {
    let runs = |&(at, cpu, event): &(u64, CpuId, Event)| match event {
        Event::Switch { next: Running::Task(next), .. } if next.0 == task => Some((at, cpu.0)),
        _ => None,
    };
    log.events.iter().filter_map(runs).collect()
}

/// The first move of a task, nanoseconds.
fn moved(log: &Log, task: u32, from: u64) -> Option<u64> {
    let moves = |at, event| match event {
        Event::Migrate { task: one, .. } if one.0 == task && at >= from => Some(at),
        _ => None,
    };
    log.pick(moves).first().copied()
}

/// A master that wakes eight workers in turn. Each worker also wakes a second task, so that its wakees change, too.
/// Only the master may move.
fn master_and_workers() -> Workload {
    let mut ops = Vec::new();
    for worker in 1..9 {
        ops.extend([Op::SemPost(worker), Op::SemWait(0), run(20)]);
    }
    let mut tasks = vec![task("master", vec![phase(ops, Repeat::Forever)])];
    for worker in 1..9 {
        let ops = vec![Op::SemWait(worker), run(20), Op::SemPost(9), Op::SemPost(0)];
        let this = task(&format!("w{worker}"), vec![phase(ops, Repeat::Forever)]);
        tasks.push(pinned(this, &[2, 3]));
    }
    tasks.push(pinned(task("other", vec![phase(vec![Op::SemWait(9), run(1)], Repeat::Forever)]), &[2, 3]));
    let semaphores = (0..10).map(|index| Semaphore { name: format!("s{index}"), initial: 0 }).collect();
    Workload { semaphores, ..workload(tasks) }
}

fn affine_attempts(config: &Config) -> u32 {
    let config = Config { debug_at: Some(900 * MS), duration: Some(901 * MS), ..config.clone() };
    let cpus = simulate(&master_and_workers(), &config, &mut Log::default()).unwrap().debug.unwrap().cpus;
    let mut tasks = cpus.iter().flat_map(|cpu| &cpu.tasks);
    tasks.find(|task| task.id == TaskId(0)).unwrap().wakeups.affine_attempts
}

/// `WAKE_WIDE_OF_BOTH`: the wakee may be the master, which then is not pulled to its workers. Without the behaviour,
/// only the waker may be. Without `WAKE_WIDE`, every wakeup compares the CPUs.
#[test]
fn a_master_is_not_pulled_to_its_workers() {
    for kernel in ["5.4", "6.12"] {
        let with = affine_attempts(&forced(kernel, "l3:2 core:2", Behaviour::WakeWideFlips, true));
        let mut config = forced(kernel, "l3:2 core:2", Behaviour::WakeWideFlips, false);
        let of_waker = affine_attempts(&config);
        config.kernel.force(Behaviour::WakeWide, false);
        config.kernel.check().unwrap();
        let without = affine_attempts(&config);
        assert!(
            with < of_waker / 10 && of_waker <= without && of_waker > 1_000,
            "{kernel}: {with} {of_waker} {without}"
        );
    }
}

/// `RECORDS_PINNED_WAKEES`: a task wakes eight pinned tasks, and one that may move. With the behaviour it has many
/// wakees, and the one that may move stays in its cache. Without, it has one, which it pulls to its own.
#[test]
fn pinned_wakees_count_as_partners() {
    let posts = (1..9).flat_map(|pinned| [Op::SemPost(pinned), run(50)]);
    let ops = posts.chain([Op::SemPost(0), sleep(2_000)]).collect();
    let mut tasks = vec![pinned(task("waker", vec![phase(ops, Repeat::Forever)]), &[0])];
    let wakes = vec![Op::SemWait(0), run(50), Op::SemPost(9), run(50), Op::SemPost(10)];
    tasks.push(pinned(task("wakee", vec![phase(wakes, Repeat::Forever)]), &[2]));
    for index in 1..11 {
        let waits = task(&format!("t{index}"), vec![phase(vec![Op::SemWait(index), run(1)], Repeat::Forever)]);
        tasks.push(if index < 9 { pinned(waits, &[1]) } else { waits });
    }
    // Nothing is pulled, as no CPU becomes idle.
    tasks.extend([0, 1].map(|cpu| pinned(with_policy(hog(&format!("idle{cpu}")), Policy::Idle), &[cpu])));
    tasks.extend([2, 2, 3, 3].iter().enumerate().map(|(index, &cpu)| pinned(hog(&format!("h{index}")), &[cpu])));
    let semaphores = (0..11).map(|index| Semaphore { name: format!("s{index}"), initial: 0 }).collect();
    let work = Workload { semaphores, changes: vec![to_cpus(500 * MS, 1, &[0, 1, 2, 3])], ..workload(tasks) };
    let near = |on| {
        let log = log(&work, &forced("3.18", "l3:2 core:2", Behaviour::RecordsPinned, on), 900);
        let late = turns(&log, 1).into_iter().filter(|(at, _)| (500 * MS..600 * MS).contains(at));
        let cpus: Vec<u32> = late.map(|(_, cpu)| cpu).collect();
        cpus.iter().filter(|&&cpu| cpu < 2).count() * 100 / cpus.len()
    };
    let (with, without) = (near(true), near(false));
    assert!(with == 0 && without > 90, "{with} % {without} %");
}

/// `FORK_TO_SHALLOWEST`: of the idle CPUs in the other cache, CPU 4 became idle last. Without the behaviour, the first
/// is chosen, CPU 3. The level below then compares the chosen CPU with the others, and takes the first idle one of
/// these.
#[test]
fn a_new_task_enters_by_the_cpu_that_became_idle_last() {
    let mut tasks: Vec<Task> = (0..3).map(|cpu| pinned(hog(&format!("h{cpu}")), &[cpu])).collect();
    tasks.extend([lasting("a", 10_000, 3), lasting("b", 20_000, 4), lasting("c", 15_000, 5)]);
    tasks.push(starting(hog("new"), 30 * MS));
    let work = workload(tasks);
    let cpu = |on| turns(&log(&work, &forced("3.18", "l3:2 core:3", Behaviour::IdlestShallowest, on), 40), 6)[0].1;
    assert_eq!((cpu(true), cpu(false)), (3, 4));
}

/// `NEWIDLE_COST`: a balance takes 2 ms, and CPU 0 is idle for 1 ms. It balances once, and never again.
#[test]
fn newly_idle_balancing_stops_where_it_takes_too_long() {
    let short = task("short", vec![phase(vec![run(1_000), sleep(1_000)], Repeat::Forever)]);
    let mut tasks = vec![pinned(short, &[0])];
    tasks.extend((0..3).map(|index| {
        let ops = vec![run(2_300 + index * 400), sleep(700)];
        task(&format!("t{index}"), vec![phase(ops, Repeat::Forever)])
    }));
    let work = workload(tasks);
    let pulls = |on| {
        let mut config = forced("5.10", "2", Behaviour::NewidleCost, on);
        config.machine.costs.set("newidle_max_ns", 2_000_000).unwrap();
        let log = log(&work, &config, 1_000);
        let pull = |_, event| matches!(event, Event::Migrate { cause: MigrateCause::NewIdle, .. }).then_some(());
        log.pick(pull).len()
    };
    let (with, without) = (pulls(true), pulls(false));
    assert!(with < 10 && without > 50, "{with} and {without}");
}

/// `NEWIDLE_COST_FADES`: the CPU's highest cost of a newly-idle balance falls by about 1 % a second.
#[test]
fn the_cost_of_newly_idle_balancing_fades() {
    let short = task("short", vec![phase(vec![run(1_000), sleep(9_000)], Repeat::Times(20))]);
    let work =
        workload(vec![pinned(short, &[0]), pinned(hog("a"), &[0]), pinned(hog("b"), &[1]), pinned(hog("c"), &[1])]);
    let mut work = work;
    work.tasks[1].start = Some(300 * MS);
    let cost = |on| {
        let mut config = forced("6.1", "2", Behaviour::NewidleCostFades, on);
        config.machine.costs.set("newidle_max_ns", 2_000_000).unwrap();
        config.duration = Some(6_001 * MS);
        config.debug_at = Some(6_000 * MS);
        let cpus = simulate(&work, &config, &mut Log::default()).unwrap().debug.unwrap().cpus;
        cpus[0].max_idle_balance_cost / US
    };
    let (with, without) = (cost(true), cost(false));
    assert!(without >= 2_000, "{without} us");
    assert!((1_850..1_950).contains(&with), "{with} us");
}

/// `IDLE_ONLY_BALANCES_SOON`: when only a SCHED_IDLE task is left, the CPU pulls another at its next tick.
#[test]
fn a_cpu_with_idle_tasks_only_pulls_soon() {
    let sorted = |on| {
        let late = (0..16).map(|step| {
            let until = 200 * MS + step * 2_300 * US;
            let mut free = hog("free");
            free.settings.cpus = Some(vec![1]);
            let work = Workload {
                changes: vec![to_cpus(until - 100 * US, 3, &[0, 1]), to_cpus(until - 100 * US, 4, &[0, 1])],
                ..workload(vec![
                    pinned(with_policy(hog("idle"), Policy::Idle), &[0]),
                    pinned(task("t", vec![phase(vec![Op::SleepUntil { at: MS }], Repeat::Times(1))]), &[0]),
                    pinned(hog("beside"), &[1]),
                    free.clone(),
                    Task { name: "free2".to_owned(), ..free },
                ])
            };
            let mut work = work;
            // The idle task has hardly anything of `until`.
            work.tasks[1] = lasting("t", until / US - 300, 0);
            let mut config = forced("5.10", "2", Behaviour::IdleOnlyBalancesSoon, on);
            config.machine.hz = 250;
            let log = log(&work, &config, 400);
            let ends = log.exit("t").unwrap();
            (moved(&log, 3, ends).into_iter().chain(moved(&log, 4, ends)).min().unwrap_or(400 * MS) - ends) / US
        });
        let mut late: Vec<u64> = late.collect();
        late.sort_unstable();
        late
    };
    let (with, without) = (sorted(true), sorted(false));
    // Once, the tick finds another reason to leave them.
    assert!(with[14] <= 4_000, "{with:?} us");
    assert!(without[0] > 100_000, "{without:?} us");
}

/// `SMT_IGNORES_HEAT`: an idle thread pulls a task that ran until 200 us ago on the other thread of its core. Without
/// the behaviour, the task is cache-hot, and stays for now.
#[test]
fn a_hot_task_moves_within_its_core() {
    let pulled = |on| {
        let config = forced("5.10", "core:1 pu:2", Behaviour::SmtIgnoresHeat, on);
        let with_t = |us, changes| Workload {
            changes,
            ..workload(vec![pinned(hog("pinned"), &[0]), pinned(hog("free"), &[0]), lasting("t", us, 1)])
        };
        let probe = log(&with_t(100_000, vec![]), &config, 300);
        let begins = turns(&probe, 0).into_iter().find(|(at, _)| *at > probe.exit("t").unwrap() - 10 * MS).unwrap().0;
        // The threads of a core are slower together.
        let us = 100_000 * (begins / US + 200) / (probe.exit("t").unwrap() / US);
        let ends = begins + 200 * US;
        let log = log(&with_t(us, vec![to_cpus(ends - 100 * US, 1, &[0, 1])]), &config, 300);
        let exit = log.exit("t").unwrap();
        assert!(exit.abs_diff(ends) < 10 * US, "{exit} instead of {ends}");
        moved(&log, 1, exit) == Some(exit)
    };
    assert_eq!((pulled(true), pulled(false)), (true, false));
}

/// `REDUCED_IS_MISFIT`: real-time bursts between ticks leave a quarter of CPU 0 to a lone task, which an idle CPU takes
/// over.
#[test]
fn a_lone_task_leaves_a_cpu_with_little_capacity() {
    let frames = vec![Op::Timer { timer: 0, period: 4 * MS, mode: TimerMode::Absolute }, run(3_000)];
    let rt = with_policy(task("rt", vec![phase(frames, Repeat::Forever)]), Policy::Fifo { priority: 10 });
    let work = workload(vec![pinned(rt, &[0]), pinned(hog("t"), &[0])]);
    let work = Workload { changes: vec![to_cpus(300 * MS, 1, &[0, 1])], ..work };
    let moves = |on| {
        let mut config = forced("6.1", "2", Behaviour::ReducedIsMisfit, on);
        config.machine.hz = 250;
        config.tick_phase = Some(3_500 * US);
        moved(&log(&work, &config, 900), 1, 300 * MS).map(|at| at / MS)
    };
    let (with, without) = (moves(true), moves(false));
    assert!(with.is_some_and(|at| at < 400) && without.is_none(), "{with:?} {without:?}");
}

/// `PER_CPU_KTHREADS_STAY`: a kernel thread of CPU 0 waits beside a task. Balancers of CPU 1 do not look at it. Without
/// the behaviour, they count it as a task that may not move.
#[test]
fn balancers_ignore_per_cpu_kernel_threads() {
    let failures = |on| {
        let mut config = forced("6.1", "2", Behaviour::KthreadsStay, on);
        config.machine.residents = Some(vec![Resident {
            name: "kworker/0".to_owned(),
            policy: Policy::Other { nice: 0, slice: None },
            cpus: Some(vec![0]),
            period: 20 * MS,
            work: 15 * MS,
        }]);
        config.duration = Some(1_001 * MS);
        config.debug_at = Some(1_000 * MS);
        let work = workload(vec![pinned(hog("t"), &[0])]);
        let cpus = simulate(&work, &config, &mut Log::default()).unwrap().debug.unwrap().cpus;
        let tasks = cpus.iter().flat_map(|cpu| &cpu.tasks);
        let affine = |task: u32| tasks.clone().find(|one| one.id == TaskId(task)).unwrap().migrations.affine;
        [affine(0), affine(1)]
    };
    let ([task, thread], [_, without]) = (failures(true), failures(false));
    assert!(task > 0 && thread == 0 && without > 0, "{task}, {thread}, {without}");
}

/// `NEWIDLE_RETRIES`: a newly idle CPU pulls a sleeping task, whose dequeue is delayed. It finds nothing to run, and
/// looks for another task at once. Without the behaviour, it stays idle.
#[test]
fn a_cpu_that_pulled_in_vain_pulls_again() {
    let of =
        |name: &str, run_us, sleep_us| task(name, vec![phase(vec![run(run_us), sleep(sleep_us)], Repeat::Forever)]);
    let work =
        workload(vec![of("a", 4_689, 1_580), of("b", 3_088, 5_082), of("c", 1_056, 2_878), of("d", 3_970, 4_686)]);
    let again = |on| {
        let mut config = forced("6.12", "2", Behaviour::NewidleRetries, on);
        config.kernel.feature("NO_NI_RANDOM").unwrap();
        let pulls = log(&work, &config, 1_000).pick(|at, event| match event {
            Event::Migrate { to, cause: MigrateCause::NewIdle, .. } => Some((at, to)),
            _ => None,
        });
        (pulls.len(), pulls.windows(2).filter(|pair| pair[0] == pair[1]).count())
    };
    let (with, without) = (again(true), again(false));
    assert!(with.1 > 0 && without.1 == 0 && without.0 > 0, "{with:?} {without:?}");
}
