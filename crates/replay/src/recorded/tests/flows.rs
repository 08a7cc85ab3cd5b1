//! Several messages on their way between two threads.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::Coupling;
use super::*;

const CLIENT: Named<'static> = Named { pid: 10, comm: b"client" };
const SERVER: Named<'static> = Named { pid: 20, comm: b"server" };

/// In each round, the client sends some requests on CPU 0, one every 20 us. The server on CPU 1 answers each within
/// 30 us. The first request and the first answer wake the other. The client reads all answers, and the next round
/// begins.
fn rounds(requests: impl Fn(u64) -> u64) -> Recorded {
    script(requests).with_coupling(Coupling::Flowing).finish(&Lateness::default())
}

fn script(requests: impl Fn(u64) -> u64) -> Recorder {
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
    script.recorder
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

/// The operations of a task. It repeats its endless phase three times.
fn passes(recorded: &Recorded, pid: i32) -> Vec<Op> {
    let thread = recorded.threads.iter().find(|thread| thread.pid == pid).expect("it is in the trace");
    let task = &recorded.workload.tasks[thread.task.expect("it is replayed")];
    let times = |phase: &Phase| if phase.repeat == Repeat::Forever { 3 } else { 1 };
    task.phases.iter().flat_map(|phase| std::iter::repeat_n(&phase.ops, times(phase)).flatten()).cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// However long each works, both come to the end of every repetition.
    #[test]
    fn no_thread_waits_for_ever(counts in prop::collection::vec(1..12_u64, 200)) {
        let count = |round: u64| counts[usize::try_from(round).unwrap()];
        let recorded = script(count).with_coupling(Coupling::Flowing).going_on().finish(&Lateness::default());
        let mut left = [CLIENT.pid, SERVER.pid].map(|pid| passes(&recorded, pid).into_iter().peekable());
        prop_assert_eq!(recorded.workload.inboxes.len(), 4, "messages flow");
        prop_assert!(left.iter().all(|ops| ops.len() > 400));
        let mut tokens = BTreeMap::<usize, u64>::new();
        loop {
            let mut moved = false;
            for ops in &mut left {
                while let Some(op) = ops.next_if(|op| match op {
                    Op::InboxWait { inbox, .. } => tokens.get(inbox).is_some_and(|&tokens| tokens > 0),
                    _ => true,
                }) {
                    moved = true;
                    match op {
                        Op::InboxWait { inbox, .. } => *tokens.entry(inbox).or_default() -= 1,
                        Op::InboxWake { inbox, .. } => *tokens.entry(inbox).or_default() += 1,
                        _ => {}
                    }
                }
            }
            if !moved {
                break;
            }
        }
        prop_assert!(left.iter_mut().all(|ops| ops.next().is_none()), "{} and {} left", left[0].len(), left[1].len());
    }
}
