//! Handoffs that left no event.

use super::*;

const CLIENT: Named<'static> = Named { pid: 10, comm: b"client" };
const SERVER: Named<'static> = Named { pid: 20, comm: b"server" };

/// A client works for 1 ms and wakes a server, which works for 2 ms. In most rounds both have a CPU, the client sleeps
/// after 5 us, and the server wakes it. In every tenth round the server preempts the client, which finds the answer
/// when it is back. `works_on`: in every second of the other rounds the client works on instead of sleeping.
fn rounds(works_on: bool) -> Recorded {
    let mut script = Script::default();
    let mut at = 0;
    script.switch(at, 0, Left::Runnable, Some(CLIENT));
    for round in 0..101 {
        at += MS;
        if round % 10 == 9 {
            script.wake(at, 0, SERVER).switch(at + 5 * US, 0, Left::Runnable, Some(SERVER));
            script.switch(at + 2 * MS, 0, Left::Sleeping, Some(CLIENT));
        } else if works_on && round % 2 == 0 {
            script.wake(at, 0, SERVER).switch(at + 10 * US, 1, Left::Runnable, Some(SERVER));
            script.switch(at + 2 * MS, 1, Left::Sleeping, None);
        } else {
            script.wake(at, 0, SERVER).switch(at + 5 * US, 0, Left::Sleeping, None);
            script.switch(at + 10 * US, 1, Left::Runnable, Some(SERVER));
            script.wake(at + 2 * MS - 5 * US, 1, CLIENT).switch(at + 2 * MS, 1, Left::Sleeping, None);
            script.switch(at + 2 * MS, 0, Left::Runnable, Some(CLIENT));
        }
        at += 2 * MS;
    }
    std::mem::take(&mut script.recorder).finish(&Lateness::default())
}

#[test]
fn a_client_that_lost_its_cpu_before_its_sleep_waits() {
    let recorded = rounds(false);
    assert_eq!(recorded.counts.hidden_handoffs, 10);
    let waits = |pid| ops(&recorded, pid).iter().filter(|op| matches!(op, Op::InboxWait { .. })).count();
    let wakes = |pid| ops(&recorded, pid).iter().filter(|op| matches!(op, Op::InboxWake { .. })).count();
    assert_eq!([waits(CLIENT.pid), wakes(SERVER.pid)], [101, 101]);
    assert_eq!([waits(SERVER.pid), wakes(CLIENT.pid)], [101, 101]);
}

#[test]
fn a_client_that_often_works_on_hands_nothing_over() {
    assert_eq!(rounds(true).counts.hidden_handoffs, 0);
}
