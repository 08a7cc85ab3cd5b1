//! Idle states: latency of wakeups, and placement of new tasks.

mod support;

use support::*;
use vruntime_sched::event::{Event, Running};
use vruntime_sched::ids::CpuId;
use vruntime_sim::Config;
use vruntime_sim::idle::{IdleDepth, IdleState};
use vruntime_trace::NoSink;
use vruntime_workload::program::*;

const KERNELS: [&str; 5] = ["6.1", "6.6", "6.12", "6.18", "7.1"];

/// Two states: 2 us for any idle time, 100 us from 1 ms on.
fn machine(kernel: &str, cpus: &str) -> Config {
    let mut config = exact(kernel, cpus);
    let state = |name: &str, exit_latency_ns, target_residency_ns| IdleState {
        name: name.to_owned(),
        exit_latency_ns,
        target_residency_ns,
    };
    config.machine.idle_states = vec![state("C1", 2 * US, 0), state("C6", 100 * US, MS)];
    config
}

fn sleeper(name: &str, sleep: u64) -> Task {
    task(name, vec![phase(vec![Op::Run { work: 100 * US }, Op::Sleep { time: sleep }], Repeat::Times(20))])
}

#[test]
fn a_wakeup_pays_for_the_depth_of_the_sleep() {
    for kernel in KERNELS {
        let config = machine(kernel, "2");
        let late = |sleep| {
            let mut log = Log::default();
            simulate(&workload(vec![pinned(sleeper("t", sleep), &[1])]), &config, &mut log).unwrap();
            let late: std::collections::BTreeSet<u64> = log.sleeps("t").into_iter().map(|(_, late)| late).collect();
            late.into_iter().collect::<Vec<u64>>()
        };
        assert_eq!(late(999 * US), [2 * US], "{kernel}");
        assert_eq!(late(MS), [100 * US], "{kernel}");
    }
}

/// A timer 400 us ahead, of a wait that is over.
#[test]
fn a_timer_that_is_cancelled_is_not_slept_up_to() {
    let wait = |timeout| Op::WaitEvent { queue: 0, mode: WaitMode::Exclusive, timeout };
    let wake = || Op::WakeUp { queue: 0, nr: 1, events: 1, sync: false };
    let waiter = once("waiter", vec![wait(Some(500 * US)), wait(None), run(1)]);
    let waker = once("waker", vec![run(100), wake(), run(2900), wake()]);
    let mut log = Log::default();
    let tasks = vec![pinned(waker, &[0]), pinned(waiter, &[1])];
    simulate(&workload(tasks), &machine("6.12", "2"), &mut log).unwrap();
    assert_eq!(log.exit("waiter"), Some(3101 * US));
}

/// Returns the CPU of a task forked at 6.3 ms on two caches of three CPUs. CPU 1 is busy, so `tasks` decide in the
/// other.
fn target_of_new(mut tasks: Vec<Task>, config: &Config) -> Vec<CpuId> {
    tasks.push(pinned(once("hog", vec![Op::Run { work: 20 * MS }]), &[1]));
    // It forks from CPU 0, as all starts of a workload.
    tasks.push(starting(once("new", vec![Op::Run { work: MS }]), 6 * MS + 300 * US));
    let mut log = Log::default();
    simulate(&workload(tasks), config, &mut log).unwrap();
    let new = log.of("new");
    log.pick(|_, event| match event {
        Event::WakeupNew { task, target } if task == new => Some(target),
        _ => None,
    })
}

fn ending(cpu: u32, ms: u64) -> Task {
    pinned(once(&format!("ends{cpu}"), vec![Op::Run { work: ms * MS }]), &[cpu])
}

/// One CPU will soon wake: it sleeps lightly, and gets the new task.
#[test]
fn new_tasks_go_to_the_cpu_that_wakes_up_soonest() {
    for kernel in KERNELS {
        // CPU 4 has a timer every 500 us, and was idle before CPU 5 was.
        let tasks = vec![pinned(sleeper("often", 400 * US), &[4]), ending(3, 1), ending(5, 6)];
        assert_eq!(target_of_new(tasks, &machine(kernel, "l3:2 core:3")), [CpuId(4)], "{kernel}");
    }
}

/// Without states, and among equal ones, the last idle CPU has the warmest cache.
#[test]
fn of_equals_the_one_that_went_idle_last() {
    for kernel in KERNELS {
        for states in [true, false] {
            let mut config = machine(kernel, "l3:2 core:3");
            if !states {
                config.machine.idle_states.clear();
            }
            let tasks = vec![ending(3, 2), ending(4, 4), ending(5, 3)];
            assert_eq!(target_of_new(tasks, &config), [CpuId(4)], "{kernel}, {states}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut config = machine("6.12", "2");
    config.machine.idle_states.swap(0, 1);
    let message = simulate(&workload(vec![]), &config, &mut NoSink).unwrap_err().to_string();
    assert!(message.contains("`C1`") && message.contains("`C6`") && message.contains("shallowest"), "{message}");
}

/// A kick is sent after its tick; a task woken on that CPU meanwhile does not wait for it.
#[test]
fn a_wakeup_overtakes_a_kick() {
    for kernel in KERNELS {
        let mut config = exact(kernel, "3");
        config.duration = Some(200 * MS);
        config.machine.skew_tick = true;
        (config.machine.costs.tick_ns, config.machine.costs.ipi_latency_ns) = (500 * US, 10 * US);
        let forever = |name: &str, ops| task(name, vec![phase(ops, Repeat::Forever)]);
        // Two on one CPU: its ticks look for an idle one to balance.
        let hogs = ["a", "b"].map(|name| pinned(forever(name, vec![Op::Run { work: MS }]), &[0]));
        let sleeper = pinned(forever("sleeper", vec![Op::SemWait(0), Op::Run { work: US }]), &[1]);
        let poster = pinned(forever("poster", vec![Op::Run { work: 100 * US }, Op::SemPost(0)]), &[2]);
        let mut log = Log::default();
        simulate(&workload(hogs.into_iter().chain([sleeper, poster]).collect()), &config, &mut log).unwrap();
        let wanted = log.of("sleeper");
        let woken = log.pick(|at, event| matches!(event, Event::Wakeup { task, .. } if task == wanted).then_some(at));
        let runs = log.pick(|at, event| {
            matches!(event, Event::Switch { next: Running::Task(task), .. } if task == wanted).then_some(at)
        });
        assert!(woken.len() > 1000, "{kernel}: {}", woken.len());
        let late = woken.iter().zip(runs.iter().skip(runs.len() - woken.len())).map(|(woken, runs)| runs - woken);
        assert_eq!(late.max(), Some(10 * US), "{kernel}");
    }
}

/// A measured wakeup latency depends on the idle time, for the CPU's own timer and for other CPUs.
#[test]
fn the_longer_a_cpu_was_idle_the_longer_it_takes_to_wake_up() {
    let late = |depths: &[(u64, u64)], asleep: u64| {
        let mut config = exact("6.12", "core:2");
        config.machine.costs.set("idle_exit_ns", 5_000).unwrap();
        config.machine.idle_depths =
            depths.iter().map(|&(after_ns, extra_ns)| IdleDepth { after_ns, extra_ns }).collect();
        let sleeper = pinned(once("sleeper", vec![Op::Run { work: MS }, Op::Sleep { time: asleep }]), &[0]);
        let mut log = Log::default();
        simulate(&workload(vec![sleeper]), &config, &mut log).unwrap();
        log.sleeps("sleeper")[0].1
    };
    let depths = [(MS, 20_000), (3 * MS, 60_000)];
    assert_eq!(late(&[], 10 * MS), 5_000);
    let wanted = [(MS - 1, 5_000), (MS, 25_000), (3 * MS - 1, 25_000), (3 * MS, 65_000), (1000 * MS, 65_000)];
    for (asleep, ns) in wanted {
        assert_eq!(late(&depths, asleep), ns, "{asleep}");
    }
    // Woken by another CPU: the idle time counts, not the own next timer.
    let woken = |after: u64| {
        let mut config = exact("6.12", "core:2");
        config.machine.idle_depths =
            depths.iter().map(|&(after_ns, extra_ns)| IdleDepth { after_ns, extra_ns }).collect();
        let waiter = pinned(once("waiter", vec![Op::Run { work: MS }, Op::SemWait(0), Op::Run { work: MS }]), &[0]);
        let waker = pinned(once("waker", vec![Op::Run { work: MS + after }, Op::SemPost(0)]), &[1]);
        let mut both = workload(vec![waiter, waker]);
        both.semaphores = vec![Semaphore { name: "s".to_owned(), initial: 0 }];
        let mut log = Log::default();
        simulate(&both, &config, &mut log).unwrap();
        log.exit("waiter").unwrap() - (2 * MS + after)
    };
    assert_eq!([woken(MS / 2), woken(2 * MS), woken(30 * MS)], [0, 20_000, 60_000]);
}
