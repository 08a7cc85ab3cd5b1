//! The first CFS without costs: equal shares, no waits after sleeps, and knobs.

mod support;

use support::history::*;
use support::*;
use vruntime_workload::program::*;

const KERNEL: &str = "2.6.23";

/// Weights of nice values in August 2007.
const WEIGHTS: [(i8, u64); 5] = [(-10, 9537), (-5, 3125), (0, 1024), (5, 336), (10, 110)];

#[test]
fn hogs_have_equal_parts_at_any_time() {
    let turns = turns(&workload(vec![hog("a"), hog("b"), hog("c")]), &for_ms(KERNEL, "1", 1000, 3000));
    for from in [0, 1000, 2000] {
        for task in 0..3 {
            let (got, fair) = (turns.cpu_time(task, from * MS), (3000 - from) * MS / 3);
            // The limit of each task's lead: four granularities of 2 ms.
            assert!(got.abs_diff(fair) <= 8 * MS, "{task} has {got} after {from} ms");
        }
    }
    // A granularity and the tick that finds it passed.
    assert!(turns.lengths(0).iter().skip(1).all(|&length| (2 * MS..=8 * MS).contains(&length)));
}

#[test]
fn nice_values_are_weights() {
    let tasks = WEIGHTS.map(|(value, _)| nice(hog(&format!("nice{value}")), value)).to_vec();
    let ms = 60_000;
    let turns = turns(&workload(tasks), &for_ms(KERNEL, "1", 1000, ms));
    let total: u64 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
    for (task, (value, weight)) in (0..).zip(WEIGHTS) {
        let (got, fair) = (turns.cpu_time(task, 0), ms * MS * weight / total);
        assert!(got.abs_diff(fair) <= fair / 10 + 20 * MS, "nice {value}: {got} ns, its weight says {fair}");
    }
}

#[test]
fn a_task_that_slept_is_owed_time() {
    let sleeper = forever("sleeper", vec![Op::Run { work: 2 * MS }, Op::Sleep { time: 30 * MS }]);
    let asleep = workload(vec![hog("a"), hog("b"), sleeper]);
    let fair = turns(&asleep, &for_ms(KERNEL, "1", 1000, 20_000));
    assert_eq!(fair.longest_wait(2, 1000 * MS), 30 * MS, "it preempts at once");
    // Without fair sleepers it is owed no more than when it went to sleep.
    let mut unfair = for_ms(KERNEL, "1", 1000, 20_000);
    unfair.kernel.feature("NO_FAIR_SLEEPERS").unwrap();
    assert!(turns(&asleep, &unfair).longest_wait(2, 1000 * MS) > 32 * MS);
}

#[test]
fn batch_tasks_preempt_later() {
    let sleeper =
        |policy| with_policy(forever("sleeper", vec![Op::Run { work: MS }, Op::Sleep { time: 9 * MS }]), policy);
    let run = |policy| turns(&workload(vec![hog("a"), sleeper(policy)]), &for_ms(KERNEL, "1", 1000, 10_000));
    let normal = run(Policy::Other { nice: 0, slice: None }).longest_wait(1, 1000 * MS);
    let batch = run(Policy::Batch { nice: 0, slice: None }).longest_wait(1, 1000 * MS);
    assert!(batch > normal, "{batch} and {normal}");
}

/// A weight of 2 beside 1024: at most 1 in 513, and less, because a long wait earns at most twice the limit.
#[test]
fn idle_tasks_get_next_to_nothing() {
    let tasks = vec![hog("a"), with_policy(hog("idle"), Policy::Idle)];
    let turns = turns(&workload(tasks), &for_ms(KERNEL, "1", 1000, 20_000));
    let share = turns.cpu_time(1, 0) as f64 / (20_000 * MS) as f64;
    assert!((0.0001..1.0 / 513.0).contains(&share), "{share}");
}

#[test]
fn granularity_is_a_knob() {
    let count = |granularity: u64| {
        let mut config = for_ms(KERNEL, "1", 1000, 5000);
        config.kernel.set("sched_granularity_ns", granularity).unwrap();
        config.kernel.set("sched_runtime_limit_ns", 4 * granularity).unwrap();
        turns(&workload(vec![hog("a"), hog("b")]), &config).lengths(0).len()
    };
    let (fine, coarse) = (count(2 * MS), count(20 * MS));
    assert!(fine > 3 * coarse, "{fine} and {coarse} turns");
}

#[test]
fn children_run_first() {
    let order = |first: u64| {
        let mut child = once("child", vec![Op::Run { work: MS }]);
        child.start = None;
        let parent = once("parent", vec![Op::Run { work: MS }, Op::Fork(1), Op::Run { work: MS }]);
        let mut config = exact(KERNEL, "1");
        config.kernel.set("sched_child_runs_first", first).unwrap();
        let mut log = Log::default();
        simulate(&workload(vec![parent, child]), &config, &mut log).unwrap();
        log.exit("child").unwrap() < log.exit("parent").unwrap()
    };
    assert!(order(1));
    assert!(!order(0));
}

#[test]
fn only_with_compat_yield_a_yielder_falls_behind() {
    let share = |compat: u64| {
        let polite = forever("polite", vec![Op::Run { work: 100 * US }, Op::Yield]);
        let mut config = for_ms(KERNEL, "1", 1000, 5000);
        config.kernel.set("sched_compat_yield", compat).unwrap();
        turns(&workload(vec![hog("a"), polite]), &config).cpu_time(1, 0) as f64 / (5000 * MS) as f64
    };
    let (own, compat) = (share(0), share(1));
    assert!((0.4..0.6).contains(&own), "{own}");
    assert!(compat < 0.3, "{compat}");
}

#[test]
fn hogs_are_spread_over_the_machine() {
    for (machine, hogs, each) in [("4", 4, 1000), ("4", 8, 500)] {
        let tasks = (0..hogs).map(|index| hog(&format!("hog{index}"))).collect();
        let turns = turns(&workload(tasks), &for_ms(KERNEL, machine, 1000, 12_000));
        for task in 0..hogs {
            let got = turns.cpu_time(task, 2000 * MS) / (10 * MS);
            assert!((each * 8 / 10..=each * 12 / 10).contains(&got), "{machine}: hog {task} has {got} of {each}");
        }
    }
}
