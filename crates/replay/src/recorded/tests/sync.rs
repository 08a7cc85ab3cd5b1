//! Synchronous wakeups.

use super::*;

const WAKER: Named<'static> = Named { pid: 10, comm: b"waker" };
const WOKEN: Named<'static> = Named { pid: 20, comm: b"woken" };
const HOG: Named<'static> = Named { pid: 30, comm: b"hog" };

/// While both CPUs are busy, a thread on CPU 0 wakes another, which runs on CPU 1, or on the waker's.
fn wakeups(elsewhere: bool, sync: bool) -> Vec<Op> {
    let mut script = Script { context: Some(Context::Task), ..Script::default() };
    script.switch(0, 0, Left::Runnable, Some(WAKER)).switch(0, 1, Left::Runnable, Some(HOG));
    for round in 1..=20 {
        let (at, cpu) = (round * 10 * MS, usize::from(elsewhere || round == 1));
        let before = if cpu == 1 { HOG } else { WAKER };
        script.wake(at, 0, WOKEN).switch(at + US, cpu, Left::Runnable, Some(WOKEN));
        script.switch(at + MS, cpu, Left::Sleeping, Some(before));
    }
    script.event(205 * MS, 0, What::Rename { task: IDLE });
    let prepared = std::mem::take(&mut script.recorder).prepare(&Lateness::default());
    let recorded = prepared.programs((Coupling::Free, sync), 0, false);
    ops(&recorded, WAKER.pid).into_iter().filter(|op| matches!(op, Op::InboxWake { .. })).collect()
}

#[test]
fn a_wakeup_may_be_synchronous_unless_its_cpu_shows_the_opposite() {
    let is = |sync: bool| vec![Op::InboxWake { inbox: 0, from: 0, follow: Follow::Free, sync }; 20];
    assert_eq!(wakeups(false, false), is(false));
    assert_eq!(wakeups(false, true), is(true));
    assert_eq!(wakeups(true, true), is(false), "busy CPUs did not keep it from the other one");
}
