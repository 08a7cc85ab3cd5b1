//! Several messages on their way between two threads.

use super::super::Coupling;
use super::*;

const CLIENT: Named<'static> = Named { pid: 10, comm: b"client" };
const SERVER: Named<'static> = Named { pid: 20, comm: b"server" };

/// In each round, the client sends some requests on CPU 0, one every 20 us. The server on CPU 1 answers each within
/// 30 us. The first request and the first answer wake the other. The client reads all answers, and the next round
/// begins.
fn rounds(requests: impl Fn(u64) -> u64) -> Recorded {
    let mut script = Script::default();
    script.switch(0, 0, Left::Runnable, Some(CLIENT));
    let mut at = 0;
    for round in 0..200 {
        let count = requests(round);
        let (sent, answered) = (at + count * 20 * US, at + 20 * US + count * 30 * US);
        script.wake(at + 20 * US, 0, SERVER).switch(at + 20 * US, 1, Left::Runnable, Some(SERVER));
        script.switch(sent, 0, Left::Sleeping, None);
        script.wake(sent + 10 * US, 1, CLIENT).switch(sent + 10 * US, 0, Left::Runnable, Some(CLIENT));
        script.switch(answered, 1, Left::Sleeping, None);
        at = answered + 5 * US;
    }
    std::mem::take(&mut script.recorder).with_coupling(Coupling::Flowing).finish(&Lateness::default())
}

/// Two to six; a fifth of the rounds has two.
fn requests(round: u64) -> u64 {
    2 + round * 7 % 5
}

#[test]
fn messages_flow_in_rounds_of_different_length() {
    let recorded = rounds(requests);
    assert_eq!(recorded.workload.inboxes, ["server-20", "client-10", "server-20", "client-10"]);
    // A tenth of the rounds has two requests, as many as a portion.
    let portions: u64 = (0..200).map(|round| requests(round) / 2).sum();
    let waits = ops(&recorded, SERVER.pid).iter().filter(|op| matches!(op, Op::InboxWait { inbox: 2, .. })).count();
    assert_eq!(waits as u64, portions);
}

/// One request at a time, or always as many: nothing shows that the server could begin before the client sleeps.
#[test]
fn rounds_of_one_length_do_not_flow() {
    assert_eq!(rounds(|_| 1).workload.inboxes.len(), 2);
    assert_eq!(rounds(|_| 5).workload.inboxes.len(), 2);
}

#[test]
fn each_message_is_sent_and_received() {
    let recorded = rounds(requests);
    let count = |pid, is: &dyn Fn(&Op) -> bool| ops(&recorded, pid).iter().filter(|op| is(op)).count();
    for (inbox, to, from) in [(2, SERVER.pid, CLIENT.pid), (3, CLIENT.pid, SERVER.pid)] {
        let sent = count(from, &|op| matches!(op, Op::InboxWake { inbox: of, .. } if *of == inbox));
        let received = count(to, &|op| matches!(op, Op::InboxWait { inbox: of, .. } if *of == inbox));
        assert!(sent >= 199 && sent == received, "{sent} {received}");
    }
}
