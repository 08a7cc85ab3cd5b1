//! How threads sleep, and how long they compute.

use super::*;

#[test]
fn wakeups_a_period_apart_are_a_clock() {
    let mut script = Script::default();
    for beat in 1..=20 {
        script.burst(beat * 10 * MS, 0, task(5, "peri"), beat % 7 * 300 * US);
    }
    let recorded = script.finish();
    assert_eq!(habit(&recorded, 5), Habit::Periodic);
    let ops = ops(&recorded, 5);
    assert_eq!(ops[..3], [Op::SleepUntil { at: 10 * MS }, Op::Run { work: 300 * US }, Op::SleepUntil { at: 20 * MS }]);
    assert_eq!(recorded.threads[0].latencies, [10 * US; 20]);
}

/// A task that another wakes every 10 ms, 3 ms after a timer has woken that one on CPU 0; `known`: the trace has
/// interrupts. It sleeps on `cpu`, and the waker works on for `rest` or a millisecond more.
fn pipeline(known: bool, cpu: usize, rest: u64) -> Recorded {
    let mut script = Script::default();
    let (source, sink) = (task(5, "source"), task(6, "sink"));
    for beat in 1..=20 {
        let at = beat * 10 * MS;
        let ended = at + 3 * MS + rest + beat % 2 * if rest > MS { MS } else { 0 };
        script.context = known.then_some(Context::Hardirq);
        script.wake(at, 0, source);
        script.context = known.then_some(Context::Task);
        script.switch(at, 0, Left::Runnable, Some(source)).wake(at + 3 * MS, 0, sink);
        if cpu == 0 {
            script.switch(ended, 0, Left::Sleeping, Some(sink)).switch(ended + MS, 0, Left::Sleeping, None);
        } else {
            script.switch(at + 3 * MS, 1, Left::Runnable, Some(sink)).switch(ended, 0, Left::Sleeping, None);
            script.switch(at + 8 * MS, 1, Left::Sleeping, None);
        }
    }
    std::mem::take(&mut script.recorder).going_on().finish(&Lateness::default())
}

#[test]
fn a_task_depends_on_its_wakers_even_if_they_are_regular() {
    let habits = |recorded: &Recorded| (habit(recorded, 5), habit(recorded, 6));
    let recorded = pipeline(true, 1, 2 * MS);
    assert_eq!(habits(&recorded), (Habit::Periodic, Habit::Woken));
    assert_eq!(ops(&recorded, 6)[..2], [wait(0), Op::Run { work: 5 * MS }]);
    assert_eq!(ops(&recorded, 5)[1..4], [Op::Run { work: 3 * MS }, wake(0), Op::Run { work: 3 * MS }]);
    assert_eq!(habits(&pipeline(true, 0, 2 * MS)), (Habit::Periodic, Habit::Woken));
    // Without interrupts in the trace: a timer expires on the CPU where it was set, which was another one.
    assert_eq!(habits(&pipeline(false, 1, 2 * MS)), (Habit::Periodic, Habit::Woken));
    // On the same CPU, a timer may have hit the running task, but not each time just before that task was done.
    assert_eq!(habits(&pipeline(false, 0, 2 * MS)), (Habit::Periodic, Habit::Periodic));
    assert_eq!(habit(&pipeline(false, 0, 5 * US), 6), Habit::Woken);
}

/// A task in a closed loop repeats its recording, if it was active when the trace ended.
#[test]
fn closed_loops_go_on() {
    let (sleeper, waiter) = (task(5, "sleeper"), task(6, "waiter"));
    let phases = |after: u64| {
        let mut script = Script::default();
        let mut at = MS;
        for round in 0..20 {
            script.context = Some(Context::Hardirq);
            script.wake(at, 0, sleeper);
            script.context = Some(Context::Task);
            script.switch(at, 0, Left::Runnable, Some(sleeper));
            at += (1 + round % 5) * MS;
            script.wake(at, 0, waiter).switch(at, 1, Left::Runnable, Some(waiter)).switch(at, 0, Left::Sleeping, None);
            script.switch(at + MS, 1, Left::Sleeping, None);
            at += 3 * MS;
        }
        script.burst(at + after, 1, task(7, "last"), MS);
        let recorded = std::mem::take(&mut script.recorder).going_on().finish(&Lateness::default());
        assert_eq!((habit(&recorded, 5), habit(&recorded, 6)), (Habit::Relative, Habit::Woken));
        [0, 1].map(|task| recorded.workload.tasks[task].phases.to_vec())
    };
    let [sleeper, waiter] = phases(0);
    assert_eq!((sleeper.len(), sleeper[0].repeat, sleeper[1].repeat), (2, Repeat::Times(1), Repeat::Forever));
    let count = |phase: &Phase, wanted: &dyn Fn(&Op) -> bool| phase.ops.iter().filter(|op| wanted(op)).count();
    let posts = |phase: &Phase| count(phase, &|op| matches!(op, Op::InboxWake { .. }));
    let waits = |phase: &Phase| count(phase, &|op| matches!(op, Op::InboxWait { .. }));
    for pass in 0..2 {
        assert_eq!((posts(&sleeper[pass]), waits(&waiter[pass])), (20, 20), "in pass {pass}");
    }
    let sleeps_until = |phase: &Phase| count(phase, &|op| matches!(op, Op::SleepUntil { .. }));
    assert_eq!(sleeps_until(&sleeper[1]), 0, "a time in the recording is past");
    // Both had stopped long before.
    assert_eq!(phases(100 * MS).map(|phases| phases.len()), [1, 1]);
    // A task that keeps to the beats of a clock does not go on, nor does one that waits for it.
    assert!(pipeline(true, 1, 2 * MS).workload.tasks.iter().all(|task| task.phases.len() == 1));
}

/// A task that loses CPU 0 to another in every third round, for 3 ms; `clock`: without more work afterwards.
fn disturbed(clock: bool) -> Recorded {
    let mut script = Script::default();
    let (this, hog) = (task(5, "this"), task(6, "hog"));
    for beat in 1..=30 {
        let at = beat * 20 * MS;
        if beat % 3 == 0 {
            script.wake(at, 0, this).switch(at, 0, Left::Runnable, Some(this));
            script.wake(at + MS, 0, hog).switch(at + MS, 0, Left::Runnable, Some(hog));
            script.switch(at + 4 * MS, 0, Left::Sleeping, Some(this));
            let rest = if clock { 5 * US } else { MS };
            script.switch(at + 4 * MS + rest, 0, Left::Sleeping, None);
        } else {
            script.burst(at, 0, this, 2 * MS);
        }
    }
    script.finish()
}

#[test]
fn disturbed_bursts_show_that_a_task_computes_by_the_clock() {
    let recorded = disturbed(true);
    let thread = recorded.threads.iter().find(|thread| thread.pid == 5).unwrap();
    assert_eq!(thread.computes_for, Some(2 * MS));
    let runs = ops(&recorded, 5).into_iter().filter(|op| !matches!(op, Op::SleepUntil { .. })).collect::<Vec<_>>();
    assert_eq!(runs, vec![Op::Runtime { time: 2 * MS }; 30]);

    let recorded = disturbed(false);
    let thread = recorded.threads.iter().find(|thread| thread.pid == 5).unwrap();
    assert_eq!(thread.computes_for, None);
    assert!(ops(&recorded, 5).contains(&Op::Run { work: 2 * MS }));
}

/// Two tasks wake every 10 ms, 4 us apart; `first` selects the order.
fn together(first: impl Fn(u64) -> bool) -> Vec<Vec<Op>> {
    let mut script = Script::default();
    let (a, b) = (task(5, "a"), task(6, "b"));
    for beat in 1..=30 {
        let at = beat * 10 * MS + beat % 4 * US;
        let (one, two) = if first(beat) { (a, b) } else { (b, a) };
        script.wake(at, 0, one).wake(at + 4 * US, 0, two);
        script.switch(at + 10 * US, 0, Left::Runnable, Some(one)).switch(at + MS, 0, Left::Sleeping, Some(two));
        script.switch(at + 2 * MS, 0, Left::Sleeping, None);
    }
    let recorded = script.finish();
    let sleeps = |pid| ops(&recorded, pid).into_iter().filter(|op| matches!(op, Op::SleepUntil { .. })).collect();
    assert_eq!((habit(&recorded, 5), habit(&recorded, 6)), (Habit::Periodic, Habit::Periodic));
    vec![sleeps(5), sleeps(6)]
}

#[test]
fn tasks_that_wake_in_varying_order_have_one_beat() {
    let sleeps = together(|beat| beat % 3 == 0);
    assert_eq!(sleeps[0], sleeps[1]);
    let sleeps = together(|_| false);
    assert_ne!(sleeps[0], sleeps[1], "one is always first");
}

#[test]
fn sleeps_of_one_length_are_relative() {
    let mut script = Script::default();
    let mut at = MS;
    for round in 0..20 {
        let work = (1 + round % 5) * MS;
        script.burst(at, 0, task(5, "sleeper"), work);
        at += 10 * US + work + 3 * MS;
    }
    let recorded = script.finish();
    assert_eq!(habit(&recorded, 5), Habit::Relative);
    assert_eq!(ops(&recorded, 5)[..3], [Op::SleepUntil { at: MS }, Op::Run { work: MS }, Op::Sleep { time: 3 * MS }]);
}

/// A sleeper's timer fires on a CPU that another task has at times: the kernel's flags show that it is no act of that
/// task.
#[test]
fn an_interrupt_that_hits_a_task_is_not_the_tasks_doing() {
    let (victim, sleeper) = (task(5, "victim"), task(6, "sleeper"));
    let recorded = |flags: bool| {
        let mut script = Script::default();
        for (round, gap) in [3, 9, 4, 17, 1, 12, 8, 2, 6].into_iter().enumerate() {
            let at = round as u64 * 30 * MS + gap * MS;
            script.context = flags.then_some(Context::Hardirq);
            script.wake(at, 0, victim).switch(at, 0, Left::Runnable, Some(victim));
            script.wake(at + 100 * US, 0, sleeper);
            script.context = flags.then_some(Context::Task);
            script.switch(at + 100 * US, 1, Left::Runnable, Some(sleeper));
            script.switch(at + (300 + gap) * US, 1, Left::Sleeping, None).switch(
                at + 400 * US,
                0,
                Left::Sleeping,
                None,
            );
        }
        script.finish()
    };
    assert_eq!((habit(&recorded(true), 5), habit(&recorded(true), 6)), (Habit::Recorded, Habit::Recorded));
    assert_eq!((habit(&recorded(false), 5), habit(&recorded(false), 6)), (Habit::Recorded, Habit::Woken));
}

#[test]
fn interrupts_keep_their_times_and_wakers_are_waited_for() {
    let mut script = Script::default();
    let (client, server) = (task(5, "client"), task(6, "server"));
    for (round, gap) in [3, 9, 4, 17, 1, 12, 8, 2, 6].into_iter().enumerate() {
        let at = round as u64 * 20 * MS + gap * MS;
        script.wake(at, 0, client).switch(at, 0, Left::Runnable, Some(client));
        // A quarter into its work it wakes the other, on the other CPU.
        script.wake(at + 100 * US, 0, server).switch(at + 100 * US, 1, Left::Runnable, Some(server));
        script.switch(at + (300 + gap) * US, 1, Left::Sleeping, None).switch(at + 400 * US, 0, Left::Sleeping, None);
    }
    let recorded = script.finish();
    assert_eq!((habit(&recorded, 5), habit(&recorded, 6)), (Habit::Recorded, Habit::Woken));
    let first = [Op::SleepUntil { at: 3 * MS }, Op::Run { work: 100 * US }, wake(0), Op::Run { work: 300 * US }];
    assert_eq!(ops(&recorded, 5)[..4], first);
    assert_eq!(ops(&recorded, 6)[..2], [wait(0), Op::Run { work: 203 * US }]);
    let count = |pid: i32, of: &Op| ops(&recorded, pid).iter().filter(|op| *op == of).count();
    assert_eq!((count(5, &wake(0)), count(6, &wait(0))), (9, 9), "the server waits as often as the client wakes it");
}

/// A task that is late for a beat begins its next period at once: all later beats move, and one sleep is missing.
#[test]
fn a_late_task_moves_its_beats() {
    let recorded = |goes_on: bool, context: Context| {
        let mut script = Script { context: Some(context), ..Script::default() };
        let mut at = 0;
        for beat in 1..=30 {
            let late = beat % 6 == 0;
            at += 10 * MS;
            script.burst(at, 0, task(5, "peri"), if late { 4 * MS } else { 2 * MS });
            at += if late { 13 * MS } else { 0 };
        }
        let recorder = std::mem::take(&mut script.recorder);
        let recorder = if goes_on { recorder.going_on() } else { recorder };
        recorder.finish(&Lateness::default())
    };
    let beats = |recorded: &Recorded| ops(recorded, 5).iter().filter(|op| matches!(op, Op::Timer { .. })).count();
    let what_if = recorded(true, Context::Hardirq);
    assert_eq!((habit(&what_if, 5), what_if.workload.timers[0].start), (Habit::Periodic, Some(10 * MS)));
    // 29 sleeps between bursts, four missed beats, and the last sleep. A missed beat at the end shows no next wakeup.
    // The repetition has the first sleep, too.
    let once = 29 + 4 + 1;
    assert_eq!(beats(&what_if), once + (once + 1));
    let period = |op: &Op| if let Op::Timer { period, .. } = *op { Some(period) } else { None };
    assert!(ops(&what_if, 5).iter().filter_map(period).all(|period| period == 10 * MS));
    assert_eq!(beats(&recorded(false, Context::Hardirq)), 0, "a replay as recorded keeps the recorded times");
    let by_softirqs = recorded(true, Context::Softirq);
    assert_eq!((habit(&by_softirqs, 5), beats(&by_softirqs)), (Habit::Recorded, 0), "the timer wheel has only ticks");
}
