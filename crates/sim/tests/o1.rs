//! The O(1) scheduler without costs: slices, interactivity, and waits.

mod support;

use support::history::*;
use support::*;
use vruntime_sched::ids::TaskId;
use vruntime_sim::Error;
use vruntime_workload::program::*;

const KERNELS: [&str; 2] = ["2.6.15", "2.6.22"];

#[test]
fn hogs_take_turns_of_a_slice() {
    for kernel in KERNELS {
        let turns = turns(&workload(vec![hog("a"), hog("b"), hog("c")]), &for_ms(kernel, "1", 1000, 9001));
        for task in 0..3 {
            let lengths = turns.lengths(task);
            assert!(lengths.len() >= 29, "{kernel}: {lengths:?}");
            assert!(lengths[1..29].iter().all(|&length| length == 100 * MS), "{kernel}: {lengths:?}");
        }
    }
}

#[test]
fn nice_values_are_slices() {
    let ladder: [(i8, u64); 5] = [(-20, 800), (-5, 500), (0, 100), (10, 50), (19, 5)];
    for kernel in KERNELS {
        let tasks = ladder.map(|(value, _)| nice(hog(&format!("nice{value}")), value)).to_vec();
        let rounds = 20;
        let round: u64 = ladder.iter().map(|(_, ms)| ms).sum();
        let turns = turns(&workload(tasks), &for_ms(kernel, "1", 1000, rounds * round));
        for (task, (value, ms)) in (0..).zip(ladder) {
            let got = turns.cpu_time(task, 0) / MS;
            assert!(got.abs_diff(rounds * ms) <= ms, "{kernel}, nice {value}: {got} ms of {}", rounds * ms);
        }
    }
}

#[test]
fn a_sleeper_preempts_hogs_and_stays_interactive() {
    for kernel in KERNELS {
        let sleeper = forever("sleeper", vec![Op::Run { work: 2 * MS }, Op::Sleep { time: 30 * MS }]);
        let turns = turns(&workload(vec![hog("a"), hog("b"), sleeper]), &for_ms(kernel, "1", 250, 20_000));
        // Soon it counts as interactive, and then never waits.
        let settled = 5000 * MS;
        assert_eq!(turns.longest_wait(2, settled), 30 * MS, "{kernel}");
        let share = turns.cpu_time(2, settled);
        assert!(share.abs_diff(15_000 * MS / 16) <= 2 * MS, "{kernel}: {share}");
    }
}

/// Three that sleep half of the time would keep the CPU for themselves without a check of starvation.
#[test]
fn an_expired_task_does_not_wait_for_ever() {
    for kernel in KERNELS {
        let busy = |index: u64| {
            let ops = vec![Op::Run { work: (7 + index) * MS }, Op::Sleep { time: (8 + index) * MS }];
            nice(forever(&format!("busy{index}"), ops), -10)
        };
        let turns = turns(&workload(vec![busy(0), busy(1), busy(2), hog("hog")]), &for_ms(kernel, "1", 1000, 60_000));
        let (waited, most) = (turns.longest_wait(3, 5000 * MS), (4 * 1000 + 3 * 600 + 100) * MS);
        assert!(waited <= most, "{kernel}: the hog waited for {} ms", waited / MS);
        assert!(waited >= 200 * MS, "{kernel}: it did not wait ({} ms)", waited / MS);
    }
}

#[test]
fn batch_tasks_earn_nothing_by_sleeping() {
    let ops = vec![Op::Run { work: 2 * MS }, Op::Sleep { time: 30 * MS }];
    let sleeper = |policy| with_policy(forever("sleeper", ops.clone()), policy);
    let batch = workload(vec![hog("hog"), sleeper(Policy::Batch { nice: 0, slice: None })]);
    let turns = turns(&batch, &for_ms("2.6.22", "1", 1000, 10_000));
    // It wakes into the expired array: the hog has its slice first.
    let longest = turns.longest_wait(1, 0);
    assert!(longest >= 90 * MS, "{longest}");
    let refused = simulate(&batch, &for_ms("2.6.15", "1", 1000, 100), &mut Turns::default()).unwrap_err();
    assert!(matches!(refused, Error::TooOld { .. }));
    assert_eq!(
        refused.to_string(),
        "task `sleeper` asks for SCHED_BATCH, which Linux 2.6.15 lacks: 2.6.16 introduced it"
    );
    assert_eq!(refused.help().as_deref(), Some("leave it out, or choose that kernel or a later one"));
}

#[test]
fn later_features_are_refused() {
    let ask = |change: &dyn Fn(&mut Workload)| {
        let mut asked = workload(vec![hog("a")]);
        change(&mut asked);
        simulate(&asked, &for_ms("2.6.22", "1", 250, 100), &mut Turns::default()).unwrap_err().to_string()
    };
    let group = Group { path: "/g".to_owned(), parent: Some(0), ..Group::default() };
    assert!(ask(&|asked| asked.groups.push(group.clone())).contains("group `/g` asks for a task group"));
    assert!(ask(&|asked| asked.tasks[0].settings.policy = Some(Policy::Idle)).contains("2.6.23 introduced it"));
    assert!(ask(&|asked| asked.tasks[0].settings.util_min = Some(3)).contains("5.3 introduced it"));
    let mut grouped = for_ms("2.6.15", "1", 250, 100);
    grouped.autogroup = true;
    let refused = simulate(&workload(vec![hog("a")]), &grouped, &mut Turns::default()).unwrap_err();
    assert!(refused.to_string().contains("autogroups, which Linux 2.6.15 lacks: 2.6.38 introduced it"));
    let mut real_time = for_ms("2.6.23", "1", 250, 100);
    real_time.kernel.rt_group_sched = true;
    let refused = simulate(&workload(vec![hog("a")]), &real_time, &mut Turns::default()).unwrap_err();
    assert!(refused.to_string().contains("real-time scheduling of groups, which Linux 2.6.23 lacks"), "{refused}");
}

/// Its children live on its slice.
#[test]
fn forks_live_on_their_parents_slice() {
    for kernel in KERNELS {
        let mut child = once("child", vec![Op::Run { work: 3 * MS }]);
        child.start = None;
        let bomb = forever("bomb", vec![Op::Fork(2), Op::Run { work: MS }]);
        let turns = turns(&workload(vec![hog("hog"), bomb, child]), &for_ms(kernel, "1", 1000, 10_000));
        let share = turns.cpu_time(0, 0) as f64 / (10_000 * MS) as f64;
        assert!((0.45..0.9).contains(&share), "{kernel}: the hog has {share}");
    }
}

#[test]
fn hogs_are_spread_over_the_machine() {
    for kernel in KERNELS {
        for (machine, hogs, each) in [("4", 4, 1000), ("4", 8, 500), ("pack:2 core:2 pu:2", 8, 1000)] {
            let tasks = (0..hogs).map(|index| hog(&format!("hog{index}"))).collect();
            let turns = turns(&workload(tasks), &for_ms(kernel, machine, 1000, 12_000));
            // It takes seconds, because only the balancer spreads them.
            for task in 0..hogs {
                let got = turns.cpu_time(task, 2000 * MS) / (10 * MS);
                let fair = if machine.contains("pu:2") { 700..=1000 } else { each * 8 / 10..=each * 12 / 10 };
                assert!(fair.contains(&got), "{kernel}, {machine}: hog {task} has {got} of {each}");
            }
        }
    }
}

/// The migration thread moves one of two hogs on a core to an idle core.
#[test]
fn cores_are_filled_before_threads() {
    for kernel in KERNELS {
        let tasks = vec![hog("a"), hog("b")];
        let turns = turns(&workload(tasks), &for_ms(kernel, "core:2 pu:2", 1000, 5000));
        let last = |task: u32| turns.of[&TaskId(task)].last().unwrap().2;
        assert_ne!(last(0) / 2, last(1) / 2, "{kernel}: CPUs {} and {}", last(0), last(1));
    }
}
