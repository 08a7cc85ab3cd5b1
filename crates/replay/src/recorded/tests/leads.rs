//! Data that leaves no event.

use super::super::Coupling;
use super::*;

const WRITER: Named<'static> = Named { pid: 10, comm: b"writer" };
const READER: Named<'static> = Named { pid: 20, comm: b"reader" };

/// A writer works for 1 ms in each round, on CPU 0, and wakes the reader after 0.1 ms. The reader reads along on CPU 1
/// until all is read, and wakes the writer, which sleeps meanwhile.
fn rounds() -> Script {
    let mut script = Script::default();
    script.switch(0, 0, Left::Runnable, Some(WRITER));
    for round in 0..50 {
        let at = round * 2 * MS;
        script.wake(at + 100 * US, 0, READER).switch(at + 105 * US, 1, Left::Runnable, Some(READER));
        script.switch(at + MS, 0, Left::Sleeping, None);
        script.wake(at + MS + 50 * US, 1, WRITER).switch(at + MS + 60 * US, 1, Left::Sleeping, None);
        script.switch(at + 2 * MS, 0, Left::Runnable, Some(WRITER));
    }
    script
}

fn count(recorded: &Recorded, pid: i32, what: &dyn Fn(&Op) -> bool) -> usize {
    ops(recorded, pid).iter().filter(|op| what(op)).count()
}

#[test]
fn threads_that_work_at_the_same_time_stay_in_step() {
    let recorded = std::mem::take(&mut rounds().recorder).with_coupling(Coupling::InStep).finish(&Lateness::default());
    let leads = |pid, lead| count(&recorded, pid, &|op| *op == Op::LeadMoves { lead });
    let follows = |pid, lead| count(&recorded, pid, &|op| *op == Op::LeadAwaits { lead });
    assert_eq!(recorded.workload.leads, ["writer-10", "reader-20"]);
    for (leader, follower, lead) in [(WRITER.pid, READER.pid, 0), (READER.pid, WRITER.pid, 1)] {
        let moves = leads(leader, lead);
        // 0.9 ms of work are at most 16 steps.
        assert!((49 * 15..=50 * 16).contains(&moves), "{moves}");
        assert_eq!(follows(follower, lead), moves);
    }
}

/// At any time of the recording, each has come at least as far as the other had to await by then.
#[test]
fn no_thread_awaits_a_later_step() {
    let recorded = std::mem::take(&mut rounds().recorder).with_coupling(Coupling::InStep).finish(&Lateness::default());
    // The first 1 ms of the writer and the first 0.945 ms of the reader: work until each act.
    let works = |pid, what: Op| {
        let mut done = 0;
        let mut at = Vec::new();
        for op in ops(&recorded, pid) {
            match op {
                Op::Run { work } => done += work,
                op if op == what => at.push(done),
                _ => {}
            }
        }
        at
    };
    let moved = works(WRITER.pid, Op::LeadMoves { lead: 0 });
    let awaited = works(READER.pid, Op::LeadAwaits { lead: 0 });
    // In the first round, the reader is 105 us behind the writer.
    let first = awaited.iter().zip(&moved).take_while(|(_, moved)| **moved < MS);
    let checked = first.inspect(|(awaited, moved)| assert!(**awaited + 105 * US >= **moved)).count();
    assert!(checked > 10, "{checked}");
}

#[test]
fn another_coupling_has_no_leads() {
    let recorded = rounds().finish();
    assert_eq!(recorded.workload.leads, Vec::<String>::new());
    assert_eq!(count(&recorded, READER.pid, &|op| matches!(op, Op::LeadAwaits { .. })), 0);
}
