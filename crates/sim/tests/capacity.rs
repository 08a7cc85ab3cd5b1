//! CPUs of different capacities: tasks too large for a small CPU move to a big one; small ones stay.

mod support;

use proptest::prelude::*;
use support::*;
use vruntime_sched::event::{Event, MigrateCause};
use vruntime_sim::Config;
use vruntime_trace::NoSink;
use vruntime_workload::program::*;

const KERNELS: [&str; 5] = ["6.1", "6.6", "6.12", "6.18", "7.1"];
/// CPUs 0 to 3 are small, 4 to 7 big: all in one cache (as Arm's DynamIQ), or each kind in its own.
const SHAPES: [&str; 2] = [
    "l3:1 core:8(capacity=446,446,446,446,1024,1024,1024,1024)",
    "l3:2 core:4(capacity=446,446,446,446,1024,1024,1024,1024)",
];

fn hog(name: &str) -> Task {
    task(name, vec![phase(vec![Op::Run { work: 1000 * MS }], Repeat::Forever)])
}

/// Runs `work` of every `period` microseconds, for ever, with its own timer.
fn periodic(name: &str, timer: usize, work: u64, period: u64) -> Task {
    let timer = Op::Timer { timer, period: period * US, mode: TimerMode::Absolute };
    task(name, vec![phase(vec![Op::Run { work: work * US }, timer], Repeat::Forever)])
}

fn log(tasks: Vec<Task>, kernel: &str, machine: &str, ms: u64) -> Log {
    let mut config = exact(kernel, machine);
    config.duration = Some(ms * MS);
    let mut log = Log::default();
    let mut whole = workload(tasks);
    whole.timers = (0..8).map(|index| Timer::new(format!("t{index}"))).collect();
    simulate(&whole, &config, &mut log).unwrap();
    log
}

/// A task's turns: from, to, CPU.
fn spans(log: &Log, name: &str) -> Vec<(u64, u64, u32)> {
    let this = log.of(name);
    let mut open = None;
    let mut spans = Vec::new();
    for &(at, cpu, event) in &log.events {
        let Event::Switch { prev, next, .. } = event else { continue };
        if prev.task() == Some(this) {
            spans.extend(open.take().map(|(since, cpu)| (since, at, cpu)));
        }
        if next.task() == Some(this) {
            open = Some((at, cpu.0));
        }
    }
    spans.extend(open.map(|(since, cpu)| (since, log.finished.unwrap(), cpu)));
    spans.retain(|(from, to, _)| from < to);
    spans
}

/// The last time that a task ran on a CPU with `wrong`; 0 if it never did.
fn last_on(log: &Log, name: &str, wrong: impl Fn(u32) -> bool) -> u64 {
    spans(log, name).into_iter().filter(|&(.., cpu)| wrong(cpu)).map(|(_, to, _)| to).max().unwrap_or(0)
}

fn active_balances(log: &Log) -> usize {
    log.pick(|_, event| matches!(event, Event::Migrate { cause: MigrateCause::Active, .. }).then_some(())).len()
}

#[test]
fn four_hogs_end_on_the_four_big_cpus() {
    for kernel in KERNELS {
        for machine in SHAPES {
            let names = ["a", "b", "c", "d"];
            // They fork on the small CPUs, and may leave.
            let start = |name: &&str| {
                let mut hog = hog(name);
                let here = Settings { cpus: Some(vec![0, 1, 2, 3]), ..Settings::default() };
                let free = Settings { cpus: Some((0..8).collect()), ..Settings::default() };
                let first = Phase { settings: here, ..phase(vec![Op::Run { work: MS }], Repeat::Times(1)) };
                let then = Phase { settings: free, ..phase(vec![Op::Run { work: 1000 * MS }], Repeat::Forever) };
                hog.phases = vec![first, then].into();
                hog
            };
            let log = log(names.iter().map(start).collect(), kernel, machine, 1000);
            for name in names {
                assert!(spans(&log, name)[0].2 < 4, "{name} begins on a small CPU");
                let settled = last_on(&log, name, |cpu| cpu < 4);
                // Active balances move one per interval, which is 16 ms on eight CPUs at first; the first is after 24
                // ms.
                assert!(settled < 5 * 16 * MS, "{kernel} on {machine}: {name} leaves the small CPUs at {settled} ns");
            }
        }
    }
}

#[test]
fn small_tasks_stay_where_they_are() {
    for kernel in KERNELS {
        for machine in SHAPES {
            // A tenth of a small CPU each.
            let log = log(
                (0..4).map(|index| periodic(&format!("t{index}"), index, 450, 10_000)).collect(),
                kernel,
                machine,
                1000,
            );
            assert_eq!(active_balances(&log), 0, "{kernel} on {machine}");
            for index in 0..4 {
                let cpus: std::collections::BTreeSet<u32> =
                    spans(&log, &format!("t{index}")).into_iter().map(|(.., cpu)| cpu).collect();
                assert_eq!(cpus.len(), 1, "{kernel} on {machine}: t{index} was on {cpus:?}");
            }
        }
    }
}

#[test]
fn a_big_sleeper_wakes_on_a_big_cpu() {
    for kernel in KERNELS {
        for machine in SHAPES {
            // Half of a big CPU: more than four fifths of a small one.
            let mut big = periodic("big", 0, 10_000, 20_000);
            big.settings.cpus = Some(vec![0]);
            let free = Settings { cpus: Some((0..8).collect()), ..Settings::default() };
            let beat = Op::Timer { timer: 0, period: 20_000 * US, mode: TimerMode::Absolute };
            let then = Phase { settings: free, ..phase(vec![Op::Run { work: 10 * MS }, beat], Repeat::Forever) };
            let first = phase(vec![Op::Run { work: 100 * MS }], Repeat::Times(1));
            big.phases = vec![first, then].into();
            let log = log(vec![big], kernel, machine, 2000);
            let left = last_on(&log, "big", |cpu| cpu < 4);
            assert!(left > 200 * MS && left < 280 * MS, "{kernel} on {machine}: {left}");
        }
    }
}

#[test]
fn a_newly_idle_big_cpu_takes_over_a_misfit_task() {
    for kernel in ["6.1", "6.6", "6.12"] {
        let mut ends = pinned(once("ends", vec![Op::Run { work: 300 * MS }]), &[1]);
        ends.start = Some(0);
        let log = log(vec![ends, hog("hog")], kernel, "core:2(capacity=446,1024)", 600);
        let exit = log.exit("ends").unwrap();
        let left = last_on(&log, "hog", |cpu| cpu == 0);
        // At once: the next tick, every 4 ms, would be 1 ms or more later.
        assert_eq!(left, exit, "{kernel}");
    }
}

#[test]
fn what_real_time_tasks_leave_of_a_cpu_is_what_has_to_fit() {
    for kernel in KERNELS {
        // The fair task's 250 of 700 fit, until a real-time task takes 400 of them while it sleeps.
        let mut rt = starting(pinned(periodic("rt", 0, 3_900, 10_000), &[0]), 1004 * MS);
        rt.settings.policy = Some(Policy::Fifo { priority: 10 });
        let mut fair = periodic("fair", 1, 2_500, 10_000);
        let stay = Settings { cpus: Some(vec![0]), ..Settings::default() };
        let free = Settings { cpus: Some(vec![0, 1]), ..Settings::default() };
        let beat = Op::Timer { timer: 1, period: 10 * MS, mode: TimerMode::Absolute };
        let ops = vec![Op::Run { work: 2_500 * US }, beat];
        fair.phases = vec![
            Phase { settings: stay, ..phase(ops.clone(), Repeat::Times(20)) },
            Phase { settings: free, ..phase(ops, Repeat::Forever) },
        ]
        .into();
        let log = log(vec![rt, fair], kernel, "core:2(capacity=700,1024)", 2000);
        let left = last_on(&log, "fair", |cpu| cpu == 0);
        assert!(left > 1000 * MS && left < 1300 * MS, "{kernel}: it leaves at {left}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// At most as many hogs as big CPUs: in the end none is on a small CPU.
    #[test]
    fn hogs_find_the_big_cpus(
        small in 1usize..6,
        big in 1usize..6,
        hogs in 1usize..6,
        capacity in 100u32..700,
        caches in prop::bool::ANY,
        kernel in prop::sample::select(KERNELS.to_vec()),
    ) {
        let hogs = hogs.min(big);
        let one = |count: usize, capacity: u32| vec![capacity.to_string(); count].join(",");
        // Several caches of the same number of CPUs, or one of any.
        let machine = if caches {
            format!("l3:2 core:{big}(capacity={},{})", one(big, capacity), one(big, 1024))
        } else {
            format!("core:{}(capacity={},{})", small + big, one(small, capacity), one(big, 1024))
        };
        let small = if caches { big } else { small } as u32;
        let log = log((0..hogs).map(|index| hog(&format!("h{index}"))).collect(), kernel, &machine, 600);
        for index in 0..hogs {
            let settled = last_on(&log, &format!("h{index}"), |cpu| cpu < small);
            prop_assert!(settled < 300 * MS, "{kernel} on {machine}, {hogs} hogs: h{index} leaves at {settled}");
        }
    }
}

/// UTIL_EST_FASTUP (6.1, 6.6): an estimate rises at once and stays for a while. Without it, each change counts a
/// quarter, so the next short run hides a long one.
#[test]
fn an_estimate_rises_at_once_or_slowly() {
    let estimate = |kernel: &str, feature: &str| {
        let run = |ms: u64| Op::Run { work: ms * MS };
        let sleep = |ms: u64| Op::Sleep { time: ms * MS };
        let ops = vec![run(400), sleep(100), run(1), sleep(100)];
        let mut config = Config { debug_at: Some(550 * MS), ..exact(kernel, "1") };
        config.kernel.feature(feature).unwrap();
        let outcome = simulate(&workload(vec![once("t", ops)]), &config, &mut NoSink).unwrap();
        let snapshot = outcome.debug.unwrap();
        snapshot.cpus[0].tasks[0].se.unwrap().avg.util_est
    };
    for kernel in ["6.1", "6.6"] {
        let (fast, slow) = (estimate(kernel, "UTIL_EST_FASTUP"), estimate(kernel, "NO_UTIL_EST_FASTUP"));
        assert!(fast > 700 && slow < 300, "{kernel}: {fast}, {slow}");
    }
    assert!(estimate("6.12", "NO_UTIL_EST_FASTUP") > 700);
}

/// A task that waited for its CPU would have used more: 6.8+ its estimate does not fall for that.
#[test]
fn an_estimate_does_not_fall_for_waiting() {
    let estimates = |kernel: &str, beside: bool| {
        let run = |ms: u64| Op::Run { work: ms * MS };
        let sleep = |ms: u64| Op::Sleep { time: ms * MS };
        let mut tasks = vec![once("t", vec![run(40), sleep(100), run(10), sleep(300)])];
        if beside {
            tasks.push(once("h", vec![sleep(100), run(300)]));
        }
        let work = workload(tasks);
        [100, 250].map(|at| {
            let config = Config { debug_at: Some(at * MS), ..exact(kernel, "1") };
            let snapshot = simulate(&work, &config, &mut NoSink).unwrap().debug.unwrap();
            let task = snapshot.cpus[0].tasks.iter().find(|task| task.id.0 == 0).unwrap();
            task.se.unwrap().avg.util_est
        })
    };
    for (kernel, falls) in [("6.1", true), ("6.6", true), ("6.12", false), ("6.18", false)] {
        let [before, after] = estimates(kernel, true);
        assert_eq!(after < before, falls, "{kernel}: {before}, then {after}");
        let [before, after] = estimates(kernel, false);
        assert!(after < before, "{kernel} alone: {before}, then {after}");
    }
}

/// A new task moves to an allowed big CPU. In 6.18 forbidden big CPUs count, too.
#[test]
fn a_big_cpu_that_is_forbidden_is_no_reason_to_stay() {
    for kernel in KERNELS {
        let mut big = pinned(once("big", vec![run(1000)]), &[0, 3]);
        big.settings.util_min = Some(800);
        let log = log(vec![big], kernel, "l3:2 core:2(capacity=446,1024,446,1024)", 10);
        assert_eq!(spans(&log, "big")[0].2, if kernel == "6.18" { 0 } else { 3 }, "{kernel}");
    }
}

/// A big CPU's estimate exceeds a small one's capacity. Up to 6.12 it stands until the average is below that, later it
/// falls from the first sleep on.
#[test]
fn an_estimate_from_a_bigger_cpu_stands_for_a_while() {
    let estimates = |kernel: &str| {
        let on = |ops: Vec<Op>, cpu: u32| Phase {
            settings: Settings { cpus: Some(vec![cpu]), ..Settings::default() },
            ..phase(ops, Repeat::Times(1))
        };
        let work = task("t", vec![on(vec![run(400_000), sleep(5_000)], 1), on(vec![run(100), sleep(900_000)], 0)]);
        let work = workload(vec![work]);
        [403, 420].map(|at| {
            let config = Config { debug_at: Some(at * MS), ..exact(kernel, "l3:1 core:2(capacity=446,1024)") };
            let snapshot = simulate(&work, &config, &mut NoSink).unwrap().debug.unwrap();
            let mut tasks = snapshot.cpus.iter().flat_map(|cpu| &cpu.tasks);
            tasks.find(|task| task.id.0 == 0).unwrap().se.unwrap().avg.util_est
        })
    };
    for (kernel, falls) in [("6.1", false), ("6.6", false), ("6.12", false), ("6.18", true), ("7.1", true)] {
        let [before, after] = estimates(kernel);
        assert!(before > 900, "{kernel}: {before}");
        assert_eq!(after < before, falls, "{kernel}: {before}, then {after}");
    }
}
