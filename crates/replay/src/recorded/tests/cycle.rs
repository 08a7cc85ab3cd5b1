//! What is repeated.

use super::*;

const PARENT: Named<'static> = Named { pid: 5, comm: b"parent" };

const ROUNDS: u64 = 20;

/// In each round, the parent forks a child and sleeps until the child wakes it. The child exits when `lasts` have
/// passed since the round's start. The recording ends before the last child exits.
fn rounds(lasts: u64) -> Script {
    let mut script = Script::default();
    script.wake(0, 0, PARENT).switch(0, 0, Left::Runnable, Some(PARENT));
    for round in 0..ROUNDS {
        let (at, child) = (round * MS, task(100 + round as i32, "child"));
        script.event(at + 50 * US, 0, What::Fork { parent: PARENT, child, thread: Some(false) });
        script.event(at + 60 * US, 0, What::WokenNew { task: child, prio: 120 });
        let cpu = 1 + (round % 2) as usize;
        script.switch(at + 70 * US, cpu, Left::Runnable, Some(child)).switch(at + 80 * US, 0, Left::Sleeping, None);
        if round > 0 && lasts > MS {
            script.switch(at + lasts - MS, 3 - cpu, Left::Dead, None);
        }
        script.wake(at + 500 * US, cpu, PARENT).switch(at + 510 * US, 0, Left::Runnable, Some(PARENT));
        if round < ROUNDS - 1 && lasts <= MS {
            script.switch(at + lasts, cpu, Left::Dead, None);
        }
    }
    script
}

/// Asserts that a repetition has that many rounds, and as many wakeups as waits.
fn repeats(mut script: Script, rounds: u64) {
    let recorded = std::mem::take(&mut script.recorder).going_on().finish(&Lateness::default());
    let parent = &recorded.workload.tasks[0];
    let again = parent.phases.last().expect("the parent repeats its rounds");
    assert_eq!(again.repeat, Repeat::Forever);
    let children: Vec<usize> =
        again.ops.iter().filter_map(|op| if let Op::Fork(child) = op { Some(*child) } else { None }).collect();
    assert_eq!(children.len() as u64, rounds);
    // Every wait of a repetition has its wakeup.
    let waits = again.ops.iter().filter(|op| matches!(op, Op::InboxWait { .. })).count();
    let of_child = |child: &usize| recorded.workload.tasks[*child].phases.iter().flat_map(|phase| phase.ops.iter());
    let wakes = children.iter().flat_map(of_child).filter(|op| matches!(op, Op::InboxWake { .. })).count();
    assert_eq!((waits, wakes), (rounds as usize, rounds as usize));
}

/// A round's child is there at the next round's start.
#[test]
fn a_child_that_has_not_ended_is_forked_again() {
    repeats(rounds(MS + 200 * US), ROUNDS);
}

/// The last round has not ended: it is left out.
#[test]
fn a_repetition_ends_where_a_round_begins() {
    repeats(rounds(520 * US), ROUNDS - 1);
}
