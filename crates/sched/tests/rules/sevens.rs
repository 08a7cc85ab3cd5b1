//! Differences of 7.0 and 7.1.

use std::sync::Arc;

use vruntime_sched::class::fair::Eevdf;
use vruntime_sched::event::PrevState;
use vruntime_sched::features::Feature;
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::invariants::standings;
use vruntime_sched::{TaskAttrs, Timer, Waker};

use crate::bench::{CPU, MS, Machine};

/// Runs until a task has the CPU, with all others preempted after a tick.
fn until_runs(machine: &mut Machine<Eevdf>, task: TaskId) {
    while machine.schedule(PrevState::Preempted) != Some(task) {
        machine.pass(4 * MS);
    }
}

/// NEXT_BUDDY, 6.19+ (here: 7.0): a waker about to sleep keeps the CPU until then. Before, the woken task is picked at
/// once.
#[test]
fn with_next_buddy_a_waker_that_is_about_to_sleep_is_left_alone() {
    for (name, keeps) in [("6.18", false), ("7.0", true), ("7.1", true)] {
        for (waker, asks) in [(Waker::Task, true), (Waker::TaskSync, !keeps)] {
            let mut machine = Machine::<Eevdf>::new(name);
            machine.shared.config.features.set(Feature::NextBuddy, true);
            let tasks = machine.fork(2);
            until_runs(&mut machine, tasks[1]);
            // Its lag is not negative, so it leaves.
            machine.schedule(PrevState::Sleeping);
            machine.pass(8 * MS);
            assert_eq!(machine.asks(|s| s.wake(tasks[1], CPU, waker)), asks, "{name} {waker:?}");
            assert_eq!(machine.schedule(PrevState::Sleeping), Some(tasks[1]), "{name} {waker:?}");
        }
    }
}

/// A task with a debt of 1 ms sleeps with a delayed dequeue. Another one ahead of the average leaves: the average
/// falls, so the debt would be 1.5 ms. In 7.1 it stays.
#[test]
fn a_sleeping_task_adds_nothing_to_its_debt_in_7_1() {
    for (name, owes) in [("7.0", 3 * MS / 2), ("7.1", MS)] {
        let mut machine = Machine::<Eevdf>::with_cpus(name, 2);
        let tasks = machine.fork(3);
        machine.pass(3 * MS);
        machine.schedule(PrevState::Preempted);
        let second = machine.with(|s| s.running(CPU)).task().unwrap();
        assert_ne!(second, tasks[0], "{name}");
        machine.pass(3 * MS);
        machine.schedule(PrevState::Sleeping);
        assert!(machine.is_queued(second), "{name}: its dequeue is delayed");
        let there = Some(Arc::new([CpuId(1)].into_iter().collect()));
        machine.with(|s| s.set_affinity(tasks[0], there, CPU)).unwrap();
        machine.with(|s| s.wake(second, CPU, Waker::Task));
        let all = standings(&machine.rqs[0]);
        let lag = all.iter().find(|it| it.task == Some(second)).unwrap().lag;
        assert!((lag + owes as i64).abs() <= 1, "{name}: {lag}");
    }
}

/// The limit of a lag at dequeue: the larger of two own slices and a tick. Late 6.18 and 7.0+: the queue's longest
/// slice, and a tick. Without a tick for 60 ms both tasks exceed it.
#[test]
fn a_lag_is_limited_by_the_longest_slice_of_the_queue_in_7_0() {
    let own = [("6.12", 6 * MS), ("6.18", 6 * MS), ("6.18.44", 14 * MS), ("7.0", 14 * MS), ("7.1", 14 * MS)];
    for (name, limit) in own {
        for owes in [true, false] {
            let mut machine = Machine::<Eevdf>::with_cpus(name, 2);
            let there = CpuId(1);
            let fork = |machine: &mut Machine<Eevdf>, cpu: CpuId, slice| {
                let affinity = Some(Arc::new([cpu].into_iter().collect()));
                machine.fork_as(&TaskAttrs { affinity, slice: Some(slice), ..TaskAttrs::default() })
            };
            fork(&mut machine, there, MS);
            let _first = machine.with(|s| s.schedule(there, PrevState::Preempted));
            let runs = fork(&mut machine, CPU, 3 * MS);
            machine.schedule(PrevState::Preempted);
            let waits = fork(&mut machine, CPU, 3 * MS);
            fork(&mut machine, CPU, 10 * MS);
            machine.pass(60 * MS);
            machine.schedule(PrevState::Preempted);
            let moves = if owes { runs } else { waits };
            machine.with(|s| s.set_affinity(moves, Some(Arc::new([there].into_iter().collect())), CPU)).unwrap();
            machine.with(|s| s.update_curr(there));
            if machine.with(|s| s.running(CPU)).task() == Some(moves) {
                // The stopper moves the running task.
                machine.schedule(PrevState::Preempted);
                machine.with(|s| s.stopper_work(CPU));
            }
            let all = standings(&machine.rqs[1]);
            let lag = all.iter().find(|it| it.task == Some(moves)).unwrap().lag;
            let expected = if owes { -(limit as i64) } else { limit as i64 };
            assert!((lag - expected).abs() <= 1, "{name}, owes {owes}: {lag} instead of {expected}");
        }
    }
}

/// 7.1: the timer follows the deadline, and a new task's first is half a slice away. Before, with HRTICK, it is a whole
/// slice.
#[test]
fn the_timer_of_a_slice_follows_the_deadline_in_7_1() {
    const SLICE: u64 = 700_000;
    for (name, first) in [("7.0", SLICE), ("7.1", SLICE / 2)] {
        let mut machine = Machine::<Eevdf>::new(name);
        machine.shared.config.features.set(Feature::Hrtick, true);
        machine.fork(2);
        let timer = |machine: &Machine<Eevdf>| machine.wish.timers[&Timer::Hrtick(CPU)].unwrap() - machine.now;
        assert_eq!(timer(&machine), first, "{name}");
        machine.pass(100_000);
        machine.fork_as(&TaskAttrs::default());
        assert_eq!(timer(&machine), first - 100_000, "{name}");
    }
}

/// Up to 6.19 a wakeup ends the measured idle time; 7.0+: leaving the idle task does.
#[test]
fn in_7_0_a_fork_ends_a_cpus_idleness_too() {
    for (name, learns) in [("6.18", false), ("7.0", true)] {
        let mut machine = Machine::<Eevdf>::new(name);
        machine.fork(1);
        machine.pass(MS);
        assert_eq!(machine.schedule(PrevState::Sleeping), None, "{name}");
        let average = |machine: &mut Machine<Eevdf>| machine.with(|s| s.snapshot().cpus[0].avg_idle);
        let before = average(&mut machine);
        machine.now += MS / 10;
        machine.fork_as(&TaskAttrs::default());
        assert!(machine.schedule(PrevState::Preempted).is_some(), "{name}");
        assert_eq!(average(&mut machine) < before, learns, "{name}: {before}");
    }
}

/// 6.12+: a switch arms the timer. A task picked again has none until another is enqueued.
#[test]
fn a_task_picked_again_has_no_timer() {
    for name in ["6.12", "7.0", "7.1"] {
        let mut machine = Machine::<Eevdf>::new(name);
        machine.shared.config.features.set(Feature::Hrtick, true);
        let tasks = machine.fork(2);
        machine.pass(4 * MS);
        assert_eq!(machine.schedule(PrevState::Preempted), Some(tasks[1]), "{name}");
        let timer = |machine: &mut Machine<Eevdf>| machine.wish.timers.insert(Timer::Hrtick(CPU), None).flatten();
        assert!(timer(&mut machine).is_some(), "{name}: it was switched to");
        machine.pass(MS / 10);
        machine.with(|s| s.timer(Timer::Hrtick(CPU), CPU));
        assert_eq!(machine.schedule(PrevState::Preempted), Some(tasks[1]), "{name}");
        assert!(timer(&mut machine).is_none(), "{name}");
        machine.fork_as(&TaskAttrs { nice: 19, ..TaskAttrs::default() });
        assert!(timer(&mut machine).is_some(), "{name}");
    }
}
