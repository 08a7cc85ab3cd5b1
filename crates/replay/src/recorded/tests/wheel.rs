//! Wakeups in softirqs: by packets of the running thread, or by the timer wheel.

use super::*;

const WRITER: Named<'static> = Named { pid: 10, comm: b"writer" };
const READER: Named<'static> = Named { pid: 20, comm: b"reader" };
const HOG: Named<'static> = Named { pid: 30, comm: b"hog" };

/// How the reader waits. A timer wakes the writer on CPU 0 in each round. A softirq in its context wakes the reader on
/// CPU 1 after 50 us. The charges of a hog there show 250 ticks a second.
fn waits(every: u64) -> Vec<Op> {
    let mut script = Script::default();
    script.switch(0, 1, Left::Runnable, Some(HOG));
    for round in 1..200 {
        let at = round * every;
        if at.is_multiple_of(4 * MS) {
            script.event(at, 1, What::Charged { task: HOG, ns: MS / 2 });
        }
        script.context = Some(Context::Hardirq);
        script.wake(at, 0, WRITER).switch(at + 10 * US, 0, Left::Runnable, Some(WRITER));
        script.context = Some(Context::Softirq);
        script.wake(at + 50 * US, 0, READER);
        script.context = Some(Context::Task);
        script.switch(at + 60 * US, 1, Left::Runnable, Some(READER));
        script.switch(at + 160 * US, 1, Left::Sleeping, Some(HOG));
        script.switch(at + 200 * US, 0, Left::Sleeping, None);
    }
    let recorded = script.finish();
    assert_eq!(recorded.ticks.map(|ticks| ticks.hz), Some(250));
    ops(&recorded, READER.pid).into_iter().filter(|op| !matches!(op, Op::Run { .. })).collect()
}

/// How many of its waits are for its waker, and how many for times.
fn kinds(waits: &[Op]) -> (usize, usize) {
    let for_waker = waits.iter().filter(|wait| matches!(wait, Op::InboxWait { .. })).count();
    (for_waker, waits.len() - for_waker)
}

#[test]
fn packets_right_after_ticks_are_no_timers() {
    assert_eq!(kinds(&waits(MS)), (199, 0));
}

/// A second pass repeats the first. Each ends with a nap until the recording's end.
#[test]
fn the_timer_wheel_wakes_after_ticks() {
    assert_eq!(kinds(&waits(4 * MS)), (0, 2 * 199 + 2));
}
