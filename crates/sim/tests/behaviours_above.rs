//! Behaviours of the real-time and deadline classes, and of fair servers. Each is switched on and off under one kernel.

mod support;

use support::*;
use vruntime_sched::event::{Event, Running};
use vruntime_sched::ids::{GroupId, TaskId};
use vruntime_sched::kernels::Behaviour;
use vruntime_sim::Config;
use vruntime_workload::program::*;

fn with_policy(mut task: Task, policy: Policy) -> Task {
    task.settings.policy = Some(policy);
    task
}

fn hog(name: &str) -> Task {
    once(name, vec![run(100_000_000)])
}

const FIFO: Policy = Policy::Fifo { priority: 10 };

fn events(work: &Workload, config: &Config, ms: u64) -> Log {
    let mut log = Log::default();
    simulate(work, &Config { duration: Some(ms * MS), ..config.clone() }, &mut log).unwrap();
    log
}

/// The time that a task has on one CPU, milliseconds.
fn cpu_ms(log: &Log, task: u32, from: u64) -> u64 {
    let (mut since, mut sum) = (None, 0);
    for (at, next) in log.pick(|at, event| match event {
        Event::Switch { next, .. } => Some((at, next)),
        _ => None,
    }) {
        sum += since.take().map_or(0, |since: u64| at.saturating_sub(since.max(from)));
        since = (next == Running::Task(TaskId(task))).then_some(at);
    }
    sum += since.map_or(0, |since| log.finished.unwrap() - since.max(from));
    sum / MS
}

/// When a task first runs from `from` on, milliseconds.
fn first_run(log: &Log, task: u32, from: u64) -> u64 {
    let runs = |at, event| match event {
        Event::Switch { next: Running::Task(next), .. } if at >= from && next.0 == task => Some(at / MS),
        _ => None,
    };
    log.pick(runs).first().copied().unwrap_or(u64::MAX)
}

/// `FAIR_SERVER`: fair tasks have 50 ms of each second. Without the server, nothing limits real-time tasks in 6.12.
#[test]
fn a_server_keeps_time_for_starving_fair_tasks() {
    let work = workload(vec![with_policy(hog("rt"), FIFO), hog("fair")]);
    let fair = |on| {
        let mut config = exact("6.12", "1");
        for behaviour in [Behaviour::ServerLingers, Behaviour::ServerWaits] {
            config.kernel.force(behaviour, on && config.kernel.behaviours.has(behaviour));
        }
        config.kernel.force(Behaviour::FairServer, on);
        config.kernel.check().unwrap();
        cpu_ms(&events(&work, &config, 4_000), 1, 0)
    };
    assert_eq!((fair(true), fair(false)), (200, 0));
}

/// `SERVER_WAITS_PERIOD`: a deadline task delays the server, which uses up its 9 ms of 10 when its next period has
/// begun. The next turn is a whole period later, not at once.
#[test]
fn a_late_server_waits_for_a_whole_period() {
    let urgent =
        Policy::Deadline { runtime: 1_200 * US, deadline: 5 * MS, period: 30 * MS, reclaim: false, overrun: false };
    let timer = Op::Timer { timer: 0, period: 30 * MS, mode: TimerMode::Absolute };
    let delays = with_policy(task("urgent", vec![phase(vec![timer, run(1_100)], Repeat::Forever)]), urgent);
    let work = workload(vec![with_policy(hog("rt"), FIFO), hog("fair"), delays]);
    let fair = |on| {
        let mut config = forced("6.18", "1", Behaviour::ServerWaits, on);
        config.kernel.set("fair_server/period", 10 * MS).unwrap();
        config.kernel.set("fair_server/runtime", 9 * MS).unwrap();
        cpu_ms(&events(&work, &config, 1_000), 1, 0)
    };
    let (with, without) = (fair(true), fair(false));
    assert!(without > 850, "{without}");
    assert!(with < without - 100, "{with} and {without}");
}

/// A fair task of 1 ms that wakes again at `wakes`, and a real-time task. Another one has put the servers in place.
fn awaking(wakes: u64, rt_at: u64) -> Workload {
    workload(vec![
        once("fair", vec![run(1_000), sleep((wakes - 1) * 1_000), run(100_000)]),
        starting(with_policy(hog("rt"), FIFO), rt_at * MS),
        with_policy(once("first", vec![run(1)]), FIFO),
    ])
}

/// `SERVER_FORGETS_DEADLINE`: the server finds no task at 950 ms. A fair task wakes at 1110 ms: a new period begins,
/// and the server has its turn 950 ms later. Without the behaviour, it has what is left until its old deadline, at
/// once.
#[test]
fn a_server_that_returns_begins_a_new_period() {
    let work = awaking(1_110, 2);
    let runs = |on| {
        let config = forced("6.18", "1", Behaviour::ServerForgets, on);
        first_run(&events(&work, &config, 2_300), 0, 1_100 * MS)
    };
    assert_eq!((runs(true), runs(false)), (2_060, 1_110));
}

/// `SERVER_STAYS_ON_IDLE`: the CPU is idle at the server's turn at 950 ms, and its runtime counts as used. The server
/// is still queued when the fair task wakes at 1010 ms, and the first charge ends its period. So its next turn is at
/// the end of the next period. Without the behaviour, the server has stopped, and its turn is 950 ms after 1012 ms.
#[test]
fn a_server_in_vain_stays_on_an_idle_cpu() {
    let work = awaking(1_010, 1_012);
    let runs = |on| {
        let config = forced("6.18", "1", Behaviour::ServerStays, on);
        first_run(&events(&work, &config, 3_500), 0, 1_011 * MS)
    };
    assert_eq!((runs(true), runs(false)), (2_901, 1_962));
}

/// `GRUB_BOUNDED`: 4 ms of 10, alone on a CPU, are 95 % of it. Without the behaviour, they are 89 %.
#[test]
fn a_reclaiming_task_has_all_up_to_the_limit() {
    let dl = Policy::Deadline { runtime: 4 * MS, deadline: 10 * MS, period: 10 * MS, reclaim: true, overrun: false };
    let work = workload(vec![with_policy(hog("reclaims"), dl), hog("fair")]);
    let reclaimed = |on| {
        let mut config = forced("6.6", "1", Behaviour::GrubBounded, on);
        config.kernel.feature("HRTICK_DL").unwrap();
        cpu_ms(&events(&work, &config, 1_000), 0, 0)
    };
    let (with, without) = (reclaimed(true), reclaimed(false));
    assert!((945..=955).contains(&with), "{with}");
    assert!((885..=895).contains(&without), "{without}");
}

/// `RT_TIMER_AT_ONCE`: a deadline task has used 180 ms of the runtime while the timer was off. The first real-time task
/// starts the timer, which forgives that. Without the behaviour, the period ends a second later.
#[test]
fn the_period_timer_forgives_what_deadline_tasks_used() {
    let dl =
        Policy::Deadline { runtime: 20 * MS, deadline: 100 * MS, period: 100 * MS, reclaim: false, overrun: false };
    let frames = task("dl", vec![phase(vec![run(18_000), sleep(82_000)], Repeat::Times(10))]);
    let work = workload(vec![with_policy(frames, dl), starting(with_policy(hog("rt"), FIFO), 1_100 * MS)]);
    let throttled = |on| {
        let config = forced("6.1", "1", Behaviour::RtTimerAtOnce, on);
        let log = events(&work, &config, 3_000);
        let begins = |at, event| matches!(event, Event::RtThrottle { group: GroupId::ROOT }).then_some(at / MS);
        log.pick(begins).first().map_or(0, |at| at - 1_100)
    };
    let (with, without) = (throttled(true), throttled(false));
    assert!((948..=956).contains(&with), "{with}");
    assert!((764..=776).contains(&without), "{without}");
}
