//! Kernel threads: one per CPU that works once a second, and `rcu_preempt` while tasks end.

mod support;

use support::*;
use vruntime_sched::event::{Event, Running};
use vruntime_sched::ids::CpuId;
use vruntime_sim::Config;
use vruntime_workload::program::*;
use vruntime_workload::resident::Resident;

/// A machine where only kernel threads take kernel time.
fn machine(cpus: u32, hz: u32, set: &[(&str, u64)]) -> Config {
    let mut config = Config { duration: Some(1000 * MS), ..exact("6.12", &format!("core:{cpus}")) };
    config.machine.hz = hz;
    for (name, ns) in set {
        config.machine.costs.set(name, *ns).unwrap();
    }
    config
}

fn hog(name: &str, cpu: u32) -> Task {
    let mut task = pinned(once(name, vec![Op::Run { work: 10_000 * MS }]), &[cpu]);
    task.settings.policy = Some(Policy::Idle);
    task
}

/// A task on CPU 0 that forks a child of 0.1 ms at each of these milliseconds.
fn forks(at: &[u64]) -> Vec<Task> {
    let child = Task { start: None, ..once("child", vec![Op::Run { work: MS / 10 }]) };
    let ops = at.iter().flat_map(|ms| [Op::SleepUntil { at: ms * MS }, Op::Fork(1)]).collect();
    vec![pinned(once("parent", ops), &[0]), pinned(child, &[0])]
}

/// Wakeups of the thread `name`, microseconds.
fn wakeups(log: &Log, name: &str) -> Vec<u64> {
    let thread = log.of(name);
    log.pick(|at, event| matches!(event, Event::Wakeup { task, .. } if task == thread).then_some(at / 1000))
}

/// Wakeups of `rcu_preempt` on two CPUs with hogs, where children end just after these milliseconds.
fn grace_periods(forks_at: &[u64], hogs: &[u32], hz: u32) -> Vec<u64> {
    let mut tasks = forks(forks_at);
    tasks.extend(hogs.iter().map(|cpu| hog(&format!("hog{cpu}"), *cpu)));
    let mut log = Log::default();
    simulate(&workload(tasks), &machine(2, hz, &[("rcu_ns", 10_000)]), &mut log).unwrap();
    wakeups(&log, "rcu_preempt")
}

/// The tick after a task's end requests two grace periods of two ticks each; the last end also has two.
#[test]
fn grace_periods_follow_the_end_of_a_task() {
    assert_eq!(grace_periods(&[100, 300], &[0, 1], 250), [104_000, 112_000, 120_000, 304_000, 312_000, 320_000]);
    let many = grace_periods(&[100, 109, 118], &[0, 1], 250);
    assert_eq!(many, [104_000, 112_000, 120_000, 128_000, 136_000]);
}

/// Idle CPUs do not report: at higher tick rates the thread's timeout ends the wait.
#[test]
fn idle_cpus_make_grace_periods_longer() {
    assert_eq!(grace_periods(&[100], &[0, 1], 1000), [101_000, 103_000, 105_000]);
    assert_eq!(grace_periods(&[100], &[0], 1000), [101_000, 105_000, 109_000]);
    assert_eq!(grace_periods(&[100], &[0], 250), [104_000, 112_000, 120_000]);
}

#[test]
fn a_workload_that_does_not_fork_has_no_grace_periods() {
    let run = |tasks, set: &[(&str, u64)]| {
        let mut log = Log::default();
        simulate(&workload(tasks), &machine(2, 250, set), &mut log).unwrap();
        log.names.iter().any(|name| name == "rcu_preempt")
    };
    assert!(!run(vec![hog("hog", 0)], &[("rcu_ns", 10_000)]) && !run(forks(&[100]), &[]));
    assert!(run(forks(&[100]), &[("rcu_ns", 10_000)]));
}

/// Each CPU's thread wakes three ticks after the previous CPU's, even if it ran late.
#[test]
fn kernel_threads_keep_to_their_second() {
    let mut config = machine(2, 250, &[("kworker_ns", 10_000)]);
    config.duration = Some(4000 * MS);
    let rude = |cpu| {
        let mut task = pinned(once("rude", vec![Op::Run { work: 900 * MS }]), &[cpu]);
        task.settings.policy = Some(Policy::Fifo { priority: 1 });
        task
    };
    for tasks in [vec![hog("hog", 0)], vec![rude(0), rude(1), hog("hog", 0)]] {
        let mut log = Log::default();
        simulate(&workload(tasks), &config, &mut log).unwrap();
        let (first, second) = (wakeups(&log, "kworker/0:0"), wakeups(&log, "kworker/1:0"));
        assert!(first.len() >= 3 && second.len() >= 3, "{first:?} {second:?}");
        assert!(
            first.windows(2).chain(second.windows(2)).all(|pair| pair[1] - pair[0] == 1_000_000),
            "{first:?} {second:?}"
        );
        assert_eq!((first[0] + 1_000_000 - second[0]) % 1_000_000, 12_000, "{first:?} {second:?}");
    }
}

fn resident(name: &str, cpus: Option<Vec<u32>>, period: u64, work: u64) -> Resident {
    Resident { name: name.to_owned(), policy: Policy::Other { nice: 0, slice: None }, cpus, period, work }
}

/// Measured residents replace the thread of each CPU.
#[test]
fn what_a_machine_does_besides_is_simulated_as_measured() {
    let mut config = machine(2, 250, &[("kworker_ns", 10_000)]);
    config.duration = Some(10_000 * MS);
    config.seed = 7;
    config.machine.residents = Some(vec![
        resident("daemon", None, 100 * MS, 2 * MS),
        resident("pinned", Some(vec![1, 9]), 250 * MS, MS),
        resident("elsewhere", Some(vec![2, 3]), 100 * MS, MS),
        resident("nothing", None, 100 * MS, 0),
    ]);
    let mut log = Log::default();
    // A task that may leave the second CPU does, because one there does not give way.
    let stays = pinned(once("stays", vec![Op::Run { work: 10_000 * MS }]), &[1]);
    simulate(&workload(vec![hog("hog", 0), stays]), &config, &mut log).unwrap();
    assert_eq!(&log.names[2..], ["daemon", "pinned"], "there are no CPUs for one, nor is there work for another");
    let daemon = wakeups(&log, "daemon");
    assert!((99..=101).contains(&daemon.len()), "{daemon:?}");
    assert!(daemon.windows(2).all(|pair| pair[1] - pair[0] == 100_000), "{daemon:?}");
    let turns = |name: &str| {
        let wanted = Running::Task(log.of(name));
        let ends = |event| match event {
            Event::Switch { next, .. } if next == wanted => Some(true),
            Event::Switch { prev, .. } if prev == wanted => Some(false),
            _ => None,
        };
        let ends = log.events.iter().filter_map(|&(at, cpu, event)| Some((at, cpu, ends(event)?)));
        ends.collect::<Vec<(u64, CpuId, bool)>>()
    };
    let pinned = turns("pinned");
    assert!(pinned.len() >= 78 && pinned.iter().all(|(_, cpu, _)| cpu.0 == 1), "{pinned:?}");
    // Without costs it works exactly as measured.
    for turn in turns("daemon").chunks_exact(2) {
        assert!(turn[0].2 && !turn[1].2 && turn[1].0 - turn[0].0 == 2 * MS, "{turn:?}");
    }
}

/// A measured machine without residents has none, and grace periods are simulated.
#[test]
fn a_machine_can_do_nothing_besides() {
    let names = |residents: Vec<Resident>, tasks: Vec<Task>| {
        let mut config = machine(2, 250, &[("kworker_ns", 10_000), ("rcu_ns", 10_000)]);
        config.machine.residents = Some(residents);
        let mut log = Log::default();
        simulate(&workload(tasks), &config, &mut log).unwrap();
        log.names.into_iter().filter(|name| name.contains("kworker") || name.contains("rcu")).collect::<Vec<_>>()
    };
    let rcu = || vec![resident("rcu_preempt", None, 100 * MS, 10_000)];
    assert!(names(Vec::new(), vec![hog("hog", 0)]).is_empty());
    assert_eq!(names(rcu(), vec![hog("hog", 0)]), ["rcu_preempt"]);
    assert_eq!(names(rcu(), forks(&[100])), ["rcu_preempt"]);
}
