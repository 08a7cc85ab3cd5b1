//! Behaviours visible only in the scheduler's state. Each is switched on and off under one kernel.

mod support;

use support::*;
use vruntime_sched::debug::{CpuDebug, EntityDebug};
use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::kernels::Behaviour;
use vruntime_sim::Config;
use vruntime_workload::program::*;

fn config(kernel: &str, machine: &str, behaviour: Behaviour, on: bool) -> Config {
    let mut config = exact(kernel, machine);
    config.kernel.force(behaviour, on);
    config.kernel.check().unwrap();
    config
}

/// The CPUs at `at`, nanoseconds, after all events of that instant.
fn cpus(work: &Workload, config: &Config, at: u64) -> Vec<CpuDebug> {
    let config = Config { debug_at: Some(at), duration: Some(at + MS), ..config.clone() };
    simulate(work, &config, &mut Log::default()).unwrap().debug.unwrap().cpus
}

fn found(cpus: &[CpuDebug], task: TaskId) -> (CpuId, EntityDebug) {
    let mut all = cpus.iter().flat_map(|cpu| cpu.tasks.iter().map(move |task| (cpu.cpu, task)));
    let (cpu, task) = all.find(|(_, one)| one.id == task).expect("the task exists");
    (cpu, task.se.expect("it is fair"))
}

/// The lag of a task of the root group on CPU 0, virtual nanoseconds; negative: a debt.
fn lag(cpus: &[CpuDebug], task: TaskId) -> i64 {
    let root = cpus[0].cfs.iter().find(|cfs| cfs.group.0 == 0).expect("the root has a queue");
    root.avg_vruntime - found(cpus, task).1.vruntime
}

fn nice(mut task: Task, nice: i8) -> Task {
    task.settings.policy = Some(Policy::Other { nice, slice: None });
    task
}

/// `INIT_UTIL_SCALE`: the queue's load has 87 times its utilisation, as its only task has nice -20. A forked task with
/// nice 0 gets an 87th. Without the behaviour, its weight and the load have different scales, and it gets half of the
/// CPU's rest.
#[test]
fn a_forked_task_starts_with_its_share_of_the_utilisation() {
    let beside = nice(task("beside", vec![phase(vec![run(1_000), sleep(9_000)], Repeat::Forever)]), -20);
    let work = workload(vec![beside, starting(once("child", vec![run(50_000)]), 500 * MS)]);
    let util = |on| {
        let cpus = cpus(&work, &config("6.11", "1", Behaviour::InitUtilScale, on), 500 * MS);
        let of_queue = cpus[0].cfs.iter().find(|cfs| cfs.group.0 == 0).unwrap().avg.util_avg;
        (found(&cpus, TaskId(1)).1.avg.util_avg, of_queue)
    };
    let ((with, _), (without, _)) = (util(true), util(false));
    assert!((8..=16).contains(&with), "{with}");
    assert!((400..=512).contains(&without), "{without}");
}

/// `REWEIGHT_PLACES`: a changed weight places the entity again, as if it joined the others. The average then does not
/// count a running one, so its distance grows. Without the behaviour, its lag is only scaled.
#[test]
fn a_reweighted_entity_is_placed_again() {
    let grouped = |changes| {
        let mut work = workload(["a", "b"].map(|name| once(name, vec![run(1_000_000)])).to_vec());
        work.groups = vec![Group { path: "/".to_owned(), weight: 100, ..Group::default() }];
        work.groups.push(Group { path: "/g".to_owned(), parent: Some(0), weight: 100, ..Group::default() });
        work.tasks[0].settings.group = Some(1);
        Workload { changes, ..work }
    };
    let to = |weight| Changed::Group { group: 1, to: GroupChange { weight: Some(weight), ..GroupChange::default() } };
    let lag = |at, weight, on| {
        let work = grouped(vec![Change { at: at * US, what: to(weight) }]);
        let cpus = cpus(&work, &config("6.14", "1", Behaviour::ReweightPlaces, on), at * US);
        let [root, group] = [0, 1].map(|id| cpus[0].cfs.iter().find(|cfs| cfs.group.0 == id).unwrap());
        root.avg_vruntime - group.se.unwrap().vruntime
    };
    let lags = |at, on| [50, 200].map(|weight| lag(at, weight, on));
    // It waits: the weight times the lag is constant.
    assert_eq!((lags(50_300, true), lags(50_300, false)), ([2_300_000, 575_000], [2_300_000, 575_000]));
    // It runs.
    assert_eq!(lags(53_300, false), [2_700_000, 675_000]);
    assert_eq!(lags(53_300, true), [3_000_000, 975_000]);
}

/// `DELAYED_KEEPS_DEBT`: the debt of a sleeper with a delayed dequeue shrinks while others run, and never grows.
/// Without the behaviour, it also grows if a task that is owed time joins and lowers the average.
#[test]
fn the_debt_of_a_delayed_task_does_not_grow() {
    let owed = |name: &str, pause| nice(task(name, vec![phase(vec![run(100), sleep(pause)], Repeat::Forever)]), -10);
    let work = workload(vec![
        once("hog", vec![run(10_000_000)]),
        task("debtor", vec![phase(vec![run(1_300), sleep(150)], Repeat::Forever)]),
        owed("owed", 1_100),
        owed("owed-too", 733),
    ]);
    let debtor = TaskId(1);
    let grown = |on| {
        let config = Config { duration: Some(400 * MS), ..config("7.1", "1", Behaviour::DelayedKeepsDebt, on) };
        let mut log = Log::default();
        simulate(&work, &config, &mut log).unwrap();
        let (mut slept, mut delayed, mut grown) = (0, 0, Vec::new());
        for &(at, _, event) in &log.events {
            match event {
                Event::Switch { prev: Running::Task(task), prev_state: PrevState::Sleeping, .. } if task == debtor => {
                    slept = at;
                }
                Event::Wakeup { task, .. } if task == debtor && slept > 0 => {
                    let [before, late, after] = [slept, at - 1, at].map(|at| cpus(&work, &config, at));
                    if found(&late, debtor).1.delayed {
                        delayed += 1;
                        let debts = [-lag(&before, debtor), -lag(&after, debtor)];
                        if debts[1] > debts[0] + 10_000 {
                            grown.push(debts);
                        }
                    }
                }
                _ => {}
            }
        }
        (delayed, grown)
    };
    let ((delayed, none), (_, some)) = (grown(true), grown(false));
    assert!(delayed > 40, "{delayed} wakeups");
    assert_eq!(none, Vec::<[i64; 2]>::new());
    assert!(some.len() > 5, "{some:?}");
}

/// `IDLE_LAG_DECAYS`: an idle CPU's averages stand still. A task that wakes elsewhere after 100 ms keeps a ninth of its
/// utilisation. Without the behaviour, it keeps nearly all.
#[test]
fn a_sleeper_of_an_idle_cpu_decays_up_to_now() {
    let sleeper = pinned(once("t", vec![run(100_000), sleep(100_000), run(10_000)]), &[0]);
    let settings = Settings { cpus: Some(vec![1]), ..Settings::default() };
    let elsewhere = Change { at: 150 * MS, what: Changed::Tasks { tasks: vec![0], settings, nice: None } };
    let work = Workload { changes: vec![elsewhere], ..workload(vec![sleeper]) };
    let util = |on| {
        let (cpu, entity) = found(&cpus(&work, &config("6.1", "2", Behaviour::IdleLagDecays, on), 200 * MS), TaskId(0));
        assert_eq!(cpu, CpuId(1));
        entity.avg.util_avg
    };
    let (with, without) = (util(true), util(false));
    assert!((90..=150).contains(&with), "{with}");
    assert!(without > 900, "{without}");
}

/// `WAKE_RECENT_CPU`: the task's CPU before the previous one is CPU 0, from which it was forked. CPUs 1 and 2 are busy.
/// Without the behaviour, the search from the target on finds CPU 3.
#[test]
fn a_task_returns_to_a_recently_used_cpu() {
    let woken = pinned(once("t", vec![run(1_000), sleep(30_000), run(10_000)]), &[2]);
    let hog = |name, cpu| starting(pinned(once(name, vec![run(100_000)]), &[cpu]), 20 * MS);
    let settings = Settings { cpus: Some(vec![0, 2, 3]), ..Settings::default() };
    let freed = Change { at: 10 * MS, what: Changed::Tasks { tasks: vec![0], settings, nice: None } };
    let work = Workload { changes: vec![freed], ..workload(vec![woken, hog("a", 1), hog("b", 2)]) };
    let cpu = |on| found(&cpus(&work, &config("6.1", "4", Behaviour::RecentCpu, on), 35 * MS), TaskId(0)).0;
    assert_eq!([cpu(true), cpu(false)], [CpuId(0), CpuId(3)]);
}

/// `SERVER_LINGERS`: the fair server is active from the start, and has its turn at about 950 ms. If it stops with the
/// first sleep, its period begins at 900 ms, and its turn is at 1850 ms.
#[test]
fn a_fair_server_outlives_its_tasks() {
    let fifo = Policy::Fifo { priority: 10 };
    let mut hog = starting(once("hog", vec![run(3_000_000)]), 2 * MS);
    hog.settings.policy = Some(fifo);
    let starved = once("starved", vec![run(1_000), sleep(899_000), run(10_000)]);
    let mut first = once("first", vec![run(1)]);
    first.settings.policy = Some(fifo);
    let work = workload(vec![starved, hog, first]);
    let turn = |on| {
        let config = Config { duration: Some(2_000 * MS), ..config("6.14", "1", Behaviour::ServerLingers, on) };
        let mut log = Log::default();
        simulate(&work, &config, &mut log).unwrap();
        let runs = |event: &Event| matches!(event, Event::Switch { next: Running::Task(TaskId(0)), .. });
        log.events.iter().find(|(at, _, event)| *at >= 900 * MS && runs(event)).map_or(0, |(at, ..)| at / MS)
    };
    let (with, without) = (turn(true), turn(false));
    assert!((945..=960).contains(&with) && (1845..=1860).contains(&without), "{with} ms, {without} ms");
}

/// `LIMIT_LAST_FIRST`: the CPU that is throttled last has the next quota first. So one of four hogs has nearly all of a
/// quota that does not suffice for the debts of all.
#[test]
fn a_small_quota_starves_cpus_that_do_not_take_turns() {
    let mut work =
        workload((0..4).map(|cpu| pinned(once(&format!("t{cpu}"), vec![run(10_000_000)]), &[cpu])).collect());
    work.groups = vec![Group { path: "/".to_owned(), weight: 100, ..Group::default() }];
    let max = Some(Bandwidth { quota: 3 * MS, period: 100 * MS, burst: 0 });
    work.groups.push(Group { path: "/g".to_owned(), parent: Some(0), weight: 100, max, ..Group::default() });
    work.tasks.iter_mut().for_each(|task| task.settings.group = Some(1));
    let shares = |on| {
        let config = Config { duration: Some(5_000 * MS), ..config("3.18", "4", Behaviour::LimitLastFirst, on) };
        let mut log = Log::default();
        let outcome = simulate(&work, &config, &mut log).unwrap();
        let mut busy: Vec<u64> = outcome.cpus.iter().map(|cpu| cpu.busy / MS).collect();
        busy.sort_unstable();
        busy
    };
    let (last_first, in_turn) = (shares(true), shares(false));
    assert!(in_turn[0] > in_turn[3] / 2, "{in_turn:?}");
    assert!(last_first[0] < last_first[3] / 4, "{last_first:?}");
}

/// `DEADLINE_BY_CAPACITY`: two small and two big CPUs count for 2.87, of which 95 % may be reserved, or for 4.
#[test]
fn deadline_tasks_are_admitted_by_capacity() {
    let dl = Policy::Deadline { runtime: 9 * MS, deadline: 10 * MS, period: 10 * MS, reclaim: false, overrun: false };
    let tasks = ["a", "b", "c", "d"].map(|name| {
        let mut task = once(name, vec![run(1_000)]);
        task.settings.policy = Some(dl);
        task
    });
    let work = workload(tasks.to_vec());
    let admitted = |kernel, on| {
        let phone = "core:4(capacity=446,446,1024,1024)";
        let config = Config { duration: Some(50 * MS), ..config(kernel, phone, Behaviour::DeadlineByCapacity, on) };
        simulate(&work, &config, &mut Log::default()).is_ok()
    };
    assert!(admitted("5.10", false) && !admitted("5.10", true));
}

/// Interfaces are behaviours: a request depends on these, and not on the kernel's release.
#[test]
fn requests_ask_for_a_behaviour_and_not_for_a_release() {
    let work = workload(vec![once("t", vec![run(1_000)])]);
    let ask = |config: Config, policy| {
        let mut work = work.clone();
        work.tasks[0].settings.policy = Some(policy);
        simulate(&work, &config, &mut Log::default())
    };
    let dl = Policy::Deadline { runtime: MS, deadline: 10 * MS, period: 10 * MS, reclaim: true, overrun: false };
    assert!(ask(exact("6.12", "1"), dl).is_ok());
    let refused = |behaviour| ask(config("6.12", "1", behaviour, false), dl).unwrap_err().to_string();
    assert!(refused(Behaviour::DeadlineReclaims).contains("which Linux 6.12 lacks: 4.13 introduced it"));
    let mut without = exact("6.12", "1");
    for behaviour in [Behaviour::DeadlineReclaims, Behaviour::DeadlineOverruns, Behaviour::SchedDeadline] {
        without.kernel.force(behaviour, false);
    }
    without.kernel.check().unwrap();
    assert!(ask(without, dl).unwrap_err().to_string().contains("3.14 introduced it"));
    assert!(ask(config("2.6.15", "1", Behaviour::SchedBatch, true), Policy::Batch { nice: 0, slice: None }).is_ok());
    assert!(ask(exact("2.6.15", "1"), Policy::Batch { nice: 0, slice: None }).is_err());
}
