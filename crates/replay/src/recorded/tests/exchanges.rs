//! Requests and replies that only wakeups show.

use super::*;

const SERVER: Named<'static> = Named { pid: 10, comm: b"server" };
const WORKERS: [Named<'static>; 2] = [Named { pid: 20, comm: b"one" }, Named { pid: 30, comm: b"two" }];

const ROUNDS: u64 = 200;

/// In each round of 1 ms, the server wakes both workers on CPUs 1 and 2, and sleeps. One works for 0.3 ms and wakes it.
/// The other works for 0.5 ms, and does not have to. They take turns. If the server is `slow`, it sleeps once more, and
/// a timer wakes it before it wakes the workers.
fn rounds(slow: bool) -> Recorded {
    let mut script = Script::default();
    script.switch(0, 0, Left::Runnable, Some(SERVER));
    for round in 0..ROUNDS {
        let at = round * MS;
        for (number, worker) in WORKERS.into_iter().enumerate() {
            let woken = at + (10 + number as u64) * US;
            script.wake(woken, 0, worker).switch(woken + US, number + 1, Left::Runnable, Some(worker));
        }
        script.switch(at + 20 * US, 0, Left::Sleeping, None);
        let first = round as usize % 2;
        script.wake(at + 310 * US, first + 1, SERVER).switch(at + 311 * US, 0, Left::Runnable, Some(SERVER));
        script.switch(at + 320 * US, first + 1, Left::Sleeping, None);
        script.switch(at + 510 * US, 2 - first, Left::Sleeping, None);
        if slow {
            script.switch(at + 600 * US, 0, Left::Sleeping, None);
            script.context = Some(Context::Hardirq);
            script.wake(at + 900 * US, 0, SERVER);
            script.context = Some(Context::Task);
            script.switch(at + 901 * US, 0, Left::Runnable, Some(SERVER));
        }
    }
    std::mem::take(&mut script.recorder).with_messages().finish(&Lateness::default())
}

#[test]
fn a_server_awaits_the_replies_of_its_workers() {
    let recorded = rounds(false);
    // Each worker's reply and next request in each round but the last.
    assert_eq!(recorded.counts.messages, 4 * (ROUNDS - 1));
    let waits = |pid| ops(&recorded, pid).iter().filter(|op| matches!(op, Op::InboxWait { .. })).count();
    assert!(waits(SERVER.pid) >= 2 * (ROUNDS as usize - 1), "{}: replies that woke it, and others", waits(SERVER.pid));
    let [server, one] = [SERVER, WORKERS[0]].map(|task| ops(&recorded, task.pid));
    let work = |ops: &[Op]| ops.iter().map(|op| if let Op::Run { work } = op { *work } else { 0 }).sum::<u64>();
    assert_eq!(work(&one), (ROUNDS / 2) * (309 + 499) * US);
    // It works from the first reply to its sleep in the next round, and at last until the trace ends.
    assert_eq!(work(&server), 20 * US + (ROUNDS - 1) * (689 + 20) * US + 199 * US);
}

/// Something else lets it wake them.
#[test]
fn a_server_that_sleeps_before_it_answers_awaits_no_replies() {
    assert_eq!(rounds(true).counts.messages, 0);
}

/// In each round of 1 ms, one worker replies after 0.3 ms, and wakes the server. The other replies while the server
/// works for the first one, whose next request follows at 0.5 ms. The other's follows at 0.7 ms. They take turns.
#[test]
fn a_server_takes_the_next_reply_when_it_has_answered_the_last() {
    let mut script = Script::default();
    script.switch(0, 0, Left::Runnable, Some(SERVER));
    for (number, worker) in WORKERS.into_iter().enumerate() {
        let woken = (10 + number as u64) * US;
        script.wake(woken, 0, worker).switch(woken + US, number + 1, Left::Runnable, Some(worker));
    }
    script.switch(20 * US, 0, Left::Sleeping, None);
    for round in 0..ROUNDS {
        let at = round * MS;
        let first = round as usize % 2;
        script.wake(at + 300 * US, first + 1, SERVER).switch(at + 301 * US, 0, Left::Runnable, Some(SERVER));
        script.switch(at + 310 * US, first + 1, Left::Sleeping, None);
        script.switch(at + 400 * US, 2 - first, Left::Sleeping, None);
        for (time, number) in [(500, first), (700, 1 - first)] {
            script.wake(at + time * US, 0, WORKERS[number]);
            script.switch(at + (time + 1) * US, number + 1, Left::Runnable, Some(WORKERS[number]));
        }
        script.switch(at + 720 * US, 0, Left::Sleeping, None);
    }
    let recorded = std::mem::take(&mut script.recorder).with_messages().finish(&Lateness::default());
    let server = ops(&recorded, SERVER.pid);
    assert!(!server.iter().any(|op| matches!(op, Op::PutOff { .. })), "it does not read all replies first");
    let (mut work, mut works) = (None, Vec::new());
    for op in server {
        match op {
            Op::InboxWait { .. } => work = Some(0),
            Op::Run { work: more } => work = work.map(|work: u64| work + more),
            Op::InboxWake { .. } => works.extend(work.take()),
            _ => {}
        }
    }
    // The work between a reply and the next request of its worker.
    let of_two = |works: &[u64]| works == [199 * US, 200 * US];
    let (first, rest) = works.split_at(2);
    assert!(rest.chunks(2).all(of_two), "{first:?}, {:?}", &rest[..rest.len().min(10)]);
    assert!(works.len() as u64 >= 2 * (ROUNDS - 1), "{}", works.len());
}
