//! Wakers that did not act for the sleeper: softirqs, holders of locks, and threads that pause others.

use super::*;

const SLEEPER: Named<'static> = Named { pid: 10, comm: b"sleeper" };
const OTHER: Named<'static> = Named { pid: 20, comm: b"other one" };

/// The sleeper runs for 1 ms and sleeps as `left`. 2 ms later, the other, which a timer woke before, wakes it in
/// `context`. `asks`: the sleeper wakes the other before it sleeps.
fn sleeps(left: Left, context: Context, asks: bool) -> Vec<Op> {
    let mut script = Script { context: Some(Context::Task), ..Script::default() };
    script.switch(0, 0, Left::Runnable, Some(SLEEPER));
    if asks {
        script.wake(MS - US, 0, OTHER);
    } else {
        script.context = Some(Context::Hardirq);
        script.wake(MS / 2, 1, OTHER);
        script.context = Some(Context::Task);
    }
    script.switch(MS, 1, Left::Runnable, Some(OTHER)).switch(MS, 0, left, None);
    script.context = Some(context);
    script.wake(3 * MS, 1, SLEEPER);
    script.context = Some(Context::Task);
    script.switch(3 * MS, 0, Left::Runnable, Some(SLEEPER));
    script.switch(4 * MS, 1, Left::Sleeping, None).switch(5 * MS, 0, Left::Dead, None);
    ops(&script.finish(), SLEEPER.pid).into_iter().filter(|op| !matches!(op, Op::Run { .. })).collect()
}

#[test]
fn a_softirq_ends_a_sleep_without_signals_for_a_device() {
    let device = [Op::Device { time: 2 * MS }];
    assert_eq!(sleeps(Left::Uninterruptible, Context::Softirq, false), device);
    let waits = [Op::InboxWait { inbox: 0, from: 1 }];
    assert_eq!(sleeps(Left::Sleeping, Context::Softirq, false), waits, "packets come in softirqs");
}

#[test]
fn a_holder_of_a_lock_releases_it_and_was_not_asked() {
    let device = [Op::Device { time: 2 * MS }];
    assert_eq!(sleeps(Left::Uninterruptible, Context::Task, false), device);
    let asked = sleeps(Left::Uninterruptible, Context::Task, true);
    assert!(matches!(asked[..], [Op::InboxWake { .. }, Op::InboxWait { .. }]), "it works for the sleeper: {asked:?}");
}

/// Another thread of the sleeper's process.
const MATE: Named<'static> = Named { pid: 11, comm: b"mate" };

/// What a worker's sleep for its pausing thread looks like.
#[derive(Clone, Copy, PartialEq)]
enum Pauser {
    /// The worker sleeps after a timer has woken the other.
    Acts,
    /// As `Acts`, but the other naps before it wakes the worker.
    Naps,
    /// The worker sleeps before: it waits for the timer's work.
    IsAwaited,
    /// The other wakes the worker twice.
    WakesTwice,
    /// As `Acts`, but in another process.
    IsElsewhere,
    /// As `Acts`, but the worker has forked the other.
    IsForked,
}

/// Every 10 ms, a partner wakes the worker, which sleeps for 1 ms. Three times, a timer wakes the other, and the
/// worker sleeps until the other wakes it.
fn worker(pauser: Pauser) -> Vec<Op> {
    let partner = task(30, "partner");
    let mut script = Script { context: Some(Context::Task), ..Script::default() };
    let other = if pauser == Pauser::IsElsewhere { OTHER } else { MATE };
    let timer = |script: &mut Script, at| {
        script.context = Some(Context::Hardirq);
        script.wake(at, 1, other);
        script.context = Some(Context::Task);
        script.switch(at + US, 1, Left::Runnable, Some(other));
    };
    script.switch(0, 0, Left::Runnable, Some(SLEEPER));
    if pauser == Pauser::IsForked {
        script.event(MS, 0, What::Fork { parent: SLEEPER, child: MATE, thread: Some(true) });
        script.event(MS, 0, What::WokenNew { task: MATE, prio: 120 });
        script.switch(MS, 1, Left::Runnable, Some(MATE)).switch(2 * MS, 1, Left::Sleeping, None);
    }
    for round in 0..60 {
        let at = (round + 1) * 10 * MS;
        // The partner's own wakeups are a timer's.
        script.context = Some(Context::Hardirq);
        script.switch(at, 0, Left::Sleeping, None).wake(at + MS - 20 * US, 1, partner);
        script.context = Some(Context::Task);
        script.switch(at + MS - 10 * US, 1, Left::Runnable, Some(partner)).wake(at + MS, 1, SLEEPER);
        script.switch(at + MS, 0, Left::Runnable, Some(SLEEPER)).switch(at + MS + US, 1, Left::Sleeping, None);
        if round % 20 != 10 {
            continue;
        }
        let at = at + 5 * MS;
        if pauser == Pauser::IsAwaited {
            script.switch(at - MS, 0, Left::Sleeping, None);
            timer(&mut script, at);
        } else {
            timer(&mut script, at);
            script.switch(at + 2 * US, 0, Left::Sleeping, None);
        }
        if pauser == Pauser::Naps {
            script.switch(at + 3 * US, 1, Left::Sleeping, None);
            timer(&mut script, at + 60 * US);
        }
        script.wake(at + 100 * US, 1, SLEEPER).switch(at + 100 * US, 0, Left::Runnable, Some(SLEEPER));
        if pauser == Pauser::WakesTwice {
            script.switch(at + 110 * US, 0, Left::Sleeping, None).wake(at + 150 * US, 1, SLEEPER);
            script.switch(at + 150 * US, 0, Left::Runnable, Some(SLEEPER));
        }
        script.switch(at + 200 * US, 1, Left::Sleeping, None);
    }
    let recorded = script.finish();
    let waits = ops(&recorded, SLEEPER.pid).into_iter().filter(|op| matches!(op, Op::InboxWait { .. })).count();
    assert!((60..=66).contains(&waits), "the partner wakes it: {waits}");
    ops(&recorded, SLEEPER.pid).into_iter().filter(|op| matches!(op, Op::Device { .. })).collect()
}

#[test]
fn a_pause_takes_its_time_whenever_it_begins() {
    let pause = Op::Device { time: 98 * US };
    assert_eq!(worker(Pauser::Acts), [pause.clone(), pause.clone(), pause.clone()]);
    assert_eq!(worker(Pauser::Naps), [pause.clone(), pause.clone(), pause]);
}

#[test]
fn a_thread_that_waits_for_a_timers_work_is_not_paused() {
    assert_eq!(worker(Pauser::IsAwaited), []);
}

#[test]
fn a_thread_of_another_process_does_not_pause() {
    assert_eq!(worker(Pauser::IsElsewhere), []);
}

#[test]
fn a_thread_waits_for_one_that_it_forked() {
    assert_eq!(worker(Pauser::IsForked), []);
}

#[test]
fn a_thread_that_gets_item_by_item_is_not_paused() {
    assert_eq!(worker(Pauser::WakesTwice), []);
}
