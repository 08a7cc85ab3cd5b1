//! Wait queues and completions: order of wakeups, and timeouts.

#[path = "../../../tests/seed.rs"]
mod seed;
mod support;

use seed::any_seed;
use support::*;
use vruntime_sched::event::{Event, OverheadKind};
use vruntime_sim::{Config, Outcome};
use vruntime_workload::program::*;

const fn run(us: u64) -> Op {
    Op::Run { work: us * US }
}

const fn sleep(us: u64) -> Op {
    Op::Sleep { time: us * US }
}

const fn wait(mode: WaitMode, timeout_us: Option<u64>) -> Op {
    let timeout = match timeout_us {
        Some(us) => Some(us * US),
        None => None,
    };
    Op::WaitEvent { queue: 0, mode, timeout }
}

const fn wake(nr: u32, events: u32) -> Op {
    Op::WakeUp { queue: 0, nr, events, sync: false }
}

const fn wait_done(timeout_us: Option<u64>) -> Op {
    let timeout = match timeout_us {
        Some(us) => Some(us * US),
        None => None,
    };
    Op::WaitForCompletion { completion: 0, timeout }
}

use WaitMode::{Exclusive, ExclusiveLifo, Shared};

/// Runs each of `programs`, named `t0`, `t1`, ..., on its own CPU.
fn on_own_cpus_with(config: impl FnOnce(&mut Config), programs: &[&[Op]]) -> (Log, Outcome) {
    let tasks = programs.iter().enumerate();
    let tasks = tasks.map(|(cpu, ops)| pinned(once(&format!("t{cpu}"), ops.to_vec()), &[cpu as u32])).collect();
    let mut log = Log::default();
    let mut machine = Config { duration: Some(1_000 * MS), ..exact("6.12", &programs.len().to_string()) };
    config(&mut machine);
    let outcome = simulate(&workload(tasks), &machine, &mut log).unwrap();
    (log, outcome)
}

fn on_own_cpus(programs: &[&[Op]]) -> Log {
    on_own_cpus_with(|_| {}, programs).0
}

fn woken(log: &Log, us: u64) -> Vec<u32> {
    log.pick(|at, event| match event {
        Event::Wakeup { task, .. } if at == us * US => Some(task.0),
        _ => None,
    })
}

fn ends(log: &Log) -> Vec<Option<u64>> {
    log.names.iter().map(|name| log.exit(name).map(|at| at / US)).collect()
}

/// Two shared waiters, two exclusive ones and one exclusive at the head, in order of arrival; `last` wakes them at
/// 100 us.
fn five_waiters(last: Op) -> Log {
    on_own_cpus(&[
        &[sleep(10), wait(Shared, None)],
        &[sleep(20), wait(Shared, None)],
        &[sleep(30), wait(Exclusive, None)],
        &[sleep(40), wait(Exclusive, None)],
        &[sleep(5), wait(ExclusiveLifo, None)],
        &[run(100), last],
    ])
}

#[test]
fn shared_waiters_are_at_the_head_and_exclusive_ones_at_the_tail() {
    // A wakeup of one also takes all shared waiters before the first exclusive one.
    assert_eq!(woken(&five_waiters(wake(1, 9)), 100), [1, 0, 4]);
    assert_eq!(woken(&five_waiters(wake(2, 9)), 100), [1, 0, 4, 2]);
    assert_eq!(woken(&five_waiters(wake(3, 9)), 100), [1, 0, 4, 2, 3]);
    assert_eq!(woken(&five_waiters(wake(99, 9)), 100), [1, 0, 4, 2, 3]);
    let log = five_waiters(wake(0, 9));
    assert_eq!(woken(&log, 100), [1, 0, 4, 2, 3]);
    assert_eq!(ends(&log), [Some(100); 6]);
}

#[test]
fn an_exclusive_waiter_at_the_head_keeps_wakeups_from_those_behind_it() {
    let log = on_own_cpus(&[
        &[sleep(10), wait(Shared, None)],
        &[sleep(20), wait(ExclusiveLifo, None)],
        &[sleep(30), wait(ExclusiveLifo, None)],
        &[run(100), wake(1, 1), run(100), wake(1, 1), run(100), wake(1, 1)],
    ]);
    assert_eq!((woken(&log, 100), woken(&log, 200), woken(&log, 300)), (vec![2], vec![1], vec![0]));
}

#[test]
fn exclusive_waiters_take_turns_at_the_tail_and_the_last_to_come_stays_busy_at_the_head() {
    let loops = |mode| {
        let waiter: &[Op] = &[wait(mode, None), run(1), wait(mode, None), run(1), wait(mode, None), run(1)];
        let waker: Vec<Op> = (0..6).flat_map(|_| [run(10), wake(1, 1)]).collect();
        let log = on_own_cpus(&[waiter, waiter, &waker]);
        (1..=6).flat_map(|round| woken(&log, 10 * round)).collect::<Vec<_>>()
    };
    assert_eq!(loops(Exclusive), [0, 1, 0, 1, 0, 1]);
    assert_eq!(loops(ExclusiveLifo), [1, 1, 1, 0, 0, 0]);
}

#[test]
fn a_herd_is_woken_for_one_event_and_sleeps_again() {
    let waiter: &[Op] = &[wait(Shared, None)];
    let mut programs = vec![waiter; 8];
    let waker: Vec<Op> = (0..3).flat_map(|_| [run(100), wake(1, 1)]).collect();
    programs.push(&waker);
    let log = on_own_cpus(&programs);
    assert_eq!([100, 200, 300].map(|us| woken(&log, us).len()), [8, 7, 6]);
    assert_eq!(ends(&log).iter().flatten().count(), 3 + 1);
}

#[test]
fn events_wait_for_waiters_and_a_wakeup_without_events_ends_no_wait() {
    let log = on_own_cpus(&[
        &[sleep(50), wait(Exclusive, None), wait(Exclusive, None), wait(Exclusive, None)],
        &[wake(1, 2), run(100), wake(0, 0), run(100), wake(1, 1)],
    ]);
    assert_eq!((woken(&log, 100), woken(&log, 200)), (vec![0], vec![0]));
    assert_eq!(ends(&log), [Some(200), Some(200)]);
}

#[test]
fn a_wait_times_out_after_its_timeout_however_often_it_is_woken_meanwhile() {
    let log = on_own_cpus(&[
        &[run(10), wait(Shared, Some(90)), run(5), wait(Shared, Some(0)), wait(Shared, Some(1000))],
        &[run(30), wake(1, 0), run(30), wake(1, 0), run(240), wake(1, 1)],
    ]);
    assert_eq!((woken(&log, 30), woken(&log, 60)), (vec![0], vec![0]));
    assert_eq!(log.sleeps("t0"), [(100 * US, 0), (105 * US, 0)]);
    assert_eq!(ends(&log), [Some(300), Some(300)], "a timer that is not needed any more never fires");
}

#[test]
fn a_timer_of_a_wait_that_is_over_does_not_cut_the_next_sleep_short() {
    let log = on_own_cpus(&[&[wait(Shared, Some(100)), sleep(500), run(1)], &[run(50), wake(1, 1)]]);
    assert_eq!(ends(&log), [Some(551), Some(50)]);
    // Nor does a timer that fires while the task waits for the CPU after its wakeup.
    let waiter = pinned(once("waiter", vec![wait(Shared, Some(100)), sleep(500), run(1)]), &[0]);
    let mut urgent = starting(pinned(once("urgent", vec![run(200)]), &[0]), 40 * US);
    urgent.settings.policy = Some(Policy::Fifo { priority: 1 });
    let waker = pinned(once("waker", vec![run(50), wake(1, 1)]), &[1]);
    let mut log = Log::default();
    simulate(&workload(vec![waiter, urgent, waker]), &exact("6.12", "2"), &mut log).unwrap();
    assert_eq!((log.exit("urgent"), log.exit("waiter")), (Some(240 * US), Some(741 * US)));
    assert_eq!(log.sleeps("waiter"), [(740 * US, 0)], "it was not the wait that timed out");
    // Nor does the next wait end at once.
    let waits = [wait(Shared, Some(100)), sleep(50_000), wait(Shared, None)];
    let log = on_own_cpus(&[&waits, &[run(50), wake(1, 1), sleep(90_000), wake(1, 1)]]);
    assert_eq!((log.sleeps("t0"), ends(&log)), (vec![(50_050 * US, 0)], vec![Some(90_050); 2]));
    // Those of completions continue at ticks.
    let log = on_own_cpus(&[
        &[wait_done(Some(100)), sleep(50_000), wait_done(None)],
        &[run(50), Op::Complete(0), sleep(90_000), Op::Complete(0)],
    ]);
    assert_eq!((log.sleeps("t0"), ends(&log)), (vec![(50_050 * US, 0)], vec![Some(90_050); 2]));
}

/// A cancelled timer causes no interrupt, and a held mutex costs a system call.
#[test]
fn what_waits_cost() {
    let overhead = |log: &Log, kind| {
        let of_kind = |event: Event| match event {
            Event::Overhead { kind: known, ns } if known == kind => Some(ns),
            _ => None,
        };
        log.pick(|_, event| of_kind(event)).into_iter().sum::<u64>()
    };
    let timers = |config: &mut Config| config.machine.costs.timer_ns = US;
    let waits = [wait(Shared, Some(100)), wait(Shared, None)];
    let (log, _) = on_own_cpus_with(timers, &[&waits, &[run(50), wake(1, 1), run(100), wake(1, 1)]]);
    assert_eq!(overhead(&log, OverheadKind::Timer), 0);
    let calls = |config: &mut Config| config.machine.costs.syscall_ns = US;
    let owner = [Op::Lock(0), run(100)];
    let (log, _) = on_own_cpus_with(calls, &[&owner, &[run(10), Op::Lock(0)]]);
    // One waits for ever, and the other ends.
    assert_eq!(overhead(&log, OverheadKind::Syscall), 2 * US);
}

/// A take of one of several posts wakes no task: the other waiters are already on their way. A further wakeup would
/// be in vain, and send its task to the end of the queue (glibc's `sem_wait` also sleeps once per post).
#[test]
fn a_post_wakes_one_waiter() {
    let waits = |us| [run(us), Op::SemWait(0), run(1)];
    let posts = [run(50), Op::SemPost(0), Op::SemPost(0), run(50), Op::SemPost(0), run(50), Op::SemPost(0)];
    let log = on_own_cpus(&[&waits(1), &waits(2), &waits(3), &waits(4), &posts]);
    assert_eq!([50, 51, 100, 101, 150].map(|us| woken(&log, us)), [vec![0, 1], vec![], vec![2], vec![], vec![3]]);
    assert_eq!(ends(&log), [Some(51), Some(51), Some(101), Some(151), Some(150)]);
}

/// A signal reaches a waiter that still pays for the wakeup of the mutex's next owner.
#[test]
fn a_wakeup_on_the_way_to_sleep_is_not_lost() {
    let costly = |config: &mut Config| config.machine.costs.wakeup_ns = 100 * US;
    let wait = Op::Wait { condition: 0, mutex: 0 };
    let waiter = [Op::Lock(0), run(10), wait, run(1)];
    let signaller = [run(1), Op::Lock(0), Op::Signal(0), Op::Unlock(0)];
    let (log, outcome) = on_own_cpus_with(costly, &[&waiter, &signaller]);
    assert_eq!((ends(&log), outcome.notes), (vec![Some(111), Some(210)], Vec::new()));
}

/// Two exclusive waiters, the first with a timeout in the nanosecond of the wakeup; the waker's event is armed
/// `before` the timer, or after it.
fn race(op: fn(Option<u64>) -> Op, wakes: Op, before: bool) -> Log {
    let waker: &[Op] = if before { &[run(100), wakes] } else { &[run(90), run(10), wakes] };
    on_own_cpus(&[&[run(50), op(Some(50)), run(1)], &[run(60), op(None), run(1)], waker])
}

#[test]
fn a_wakeup_just_before_the_timeout_is_no_timeout() {
    let log = race(|timeout| wait(Exclusive, timeout), wake(1, 1), true);
    assert_eq!((woken(&log, 100), log.sleeps("t0")), (vec![0], vec![]));
    assert_eq!(ends(&log), [Some(101), None, Some(100)]);
    let log = race(wait_done, Op::Complete(0), true);
    assert_eq!((woken(&log, 100), log.sleeps("t0")), (vec![0], vec![]));
    assert_eq!(ends(&log), [Some(101), None, Some(100)]);
}

#[test]
fn a_waiter_that_has_just_timed_out_uses_up_no_exclusive_wakeup() {
    // The timer has woken 0, so the waker continues to 1. 0 returns first, and takes the event.
    let log = race(|timeout| wait(Exclusive, timeout), wake(1, 1), false);
    assert_eq!((woken(&log, 100), log.sleeps("t0")), (vec![0, 1], vec![]));
    assert_eq!(ends(&log), [Some(101), None, Some(100)]);
    // With an event for each both continue.
    let log = race(|timeout| wait(Exclusive, timeout), wake(1, 2), false);
    assert_eq!((woken(&log, 100), log.sleeps("t0")), (vec![0, 1], vec![]));
    assert_eq!(ends(&log), [Some(101), Some(101), Some(100)]);
}

#[test]
fn completions_are_taken_in_turn_and_are_not_lost() {
    let log = on_own_cpus(&[
        &[sleep(10), wait_done(None)],
        &[sleep(20), wait_done(None)],
        &[run(100), Op::Complete(0), run(100), Op::Complete(0), Op::Complete(0)],
        &[sleep(300), wait_done(None)],
        &[sleep(400), wait_done(None)],
    ]);
    assert_eq!((woken(&log, 100), woken(&log, 200)), (vec![0], vec![1]));
    assert_eq!(ends(&log), [Some(100), Some(200), Some(200), Some(300), None]);
}

#[test]
fn complete_all_lets_every_task_continue_until_the_reinit() {
    let log = on_own_cpus(&[
        &[sleep(10), wait_done(None), wait_done(None)],
        &[sleep(20), wait_done(None)],
        &[run(100), Op::CompleteAll(0), run(100), Op::ReinitCompletion(0)],
        &[sleep(150), wait_done(None), wait_done(None)],
        &[sleep(250), wait_done(Some(0)), wait_done(None)],
    ]);
    assert_eq!(woken(&log, 100), [0, 1]);
    assert_eq!(ends(&log), [Some(100), Some(100), Some(200), Some(150), None]);
    assert_eq!(log.sleeps("t4").len(), 2, "its own sleep, and a wait without patience");
}

#[test]
fn timeouts_of_completions_are_jiffies() {
    // 250 Hz; the first tick is at 4 ms. 1 ms is a jiffy, from jiffy 0 on: its bucket is emptied at the second tick.
    let log = on_own_cpus(&[&[run(10), wait_done(Some(1000))], &[sleep(9_000), wait_done(Some(1000))]]);
    assert_eq!(ends(&log), [Some(8_000), Some(16_000)]);
    assert_eq!(log.sleeps("t0"), [(8 * MS, 8 * MS - 1_010 * US)]);
    // 300 ms are 75 jiffies: the second level, whose buckets are 8 jiffies apart.
    let log = on_own_cpus(&[&[wait_done(Some(300_000))]]);
    assert_eq!(ends(&log), [Some(80 * 4_000)]);
    // In the same nanosecond as the complete: the simple queue wakes the first, which already runs.
    let log = on_own_cpus(&[
        &[run(10), wait_done(Some(1000)), run(1)],
        &[run(60), wait_done(None), run(1)],
        &[run(7_990), run(10), Op::Complete(0)],
    ]);
    assert_eq!((woken(&log, 8_000), log.sleeps("t0")), (vec![0], vec![]));
    assert_eq!(ends(&log), [Some(8_001), None, Some(8_000)]);
}

#[test]
fn a_task_that_waits_for_ever_is_named() {
    let (_, outcome) = on_own_cpus_with(|config| config.duration = None, &[&[wait(Shared, None)], &[wait_done(None)]]);
    let notes = outcome.notes.join("\n");
    assert!(notes.contains("task `t0` waits for wait queue `q`, from 0 ns to the end"), "{notes}");
    assert!(notes.contains("task `t1` waits for completion `done`, from 0 ns to the end"), "{notes}");
}

/// For any mix of waits, wakeups and timeouts, each event is taken once or left, and each wait ends by an event or a
/// timeout.
#[test]
fn no_event_is_lost_among_many_waiters_and_wakers() {
    let first = any_seed();
    for seed in (0..40).map(|index| first.wrapping_add(index)) {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut brought = 0;
        let mut tasks = Vec::new();
        for waiter in 0..24 {
            let mode = [Shared, Exclusive, ExclusiveLifo][draw(3) as usize];
            let ops = (0..8).flat_map(|_| [run(1 + draw(20)), wait(mode, Some(1 + draw(200)))]).collect();
            tasks.push(once(&format!("w{waiter}"), ops));
        }
        for waker in 0..4 {
            let ops = (0..16).flat_map(|_| {
                let events = draw(4) as u32;
                brought += u64::from(events);
                [run(1 + draw(40)), Op::WakeUp { queue: 0, nr: draw(4) as u32, events, sync: draw(2) == 0 }]
            });
            tasks.push(once(&format!("k{waker}"), ops.collect()));
        }
        // After all others are done, a task takes what they left, and waits once more in vain.
        let left = (0..=brought).map(|_| wait(Exclusive, Some(1))).collect();
        tasks.push(starting(once("last", left), 1_000 * MS));
        let kernel = ["6.1", "6.6", "6.12", "6.18", "7.1"][seed as usize % 5];
        let mut log = Log::default();
        let outcome = simulate(&workload(tasks), &exact(kernel, "pack:1 core:3"), &mut log).unwrap();
        assert_eq!(outcome.notes, Vec::<String>::new(), "everybody ends");
        let timeouts: usize = (0..24).map(|waiter| log.sleeps(&format!("w{waiter}")).len()).sum();
        let taken = 24 * 8 - timeouts as u64;
        let left = brought + 1 - log.sleeps("last").len() as u64;
        assert!(taken > 0 && timeouts > 0, "seed {seed}: {taken} taken of {brought}, {timeouts} timeouts");
        assert_eq!(taken + left, brought, "seed {seed}: {taken} taken, {left} left");
    }
}
