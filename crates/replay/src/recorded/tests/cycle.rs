//! What is repeated.

use super::*;

const PARENT: Named<'static> = Named { pid: 5, comm: b"parent" };

/// In each round, the parent forks a child and sleeps until the child wakes it and exits. The recording ends before the
/// last child exits.
#[test]
fn a_child_that_has_not_ended_is_forked_again() {
    const ROUNDS: u64 = 20;
    let mut script = Script::default();
    script.wake(0, 0, PARENT).switch(0, 0, Left::Runnable, Some(PARENT));
    for round in 0..ROUNDS {
        let (at, child) = (round * MS, task(100 + round as i32, "child"));
        script.event(at + 50 * US, 0, What::Fork { parent: PARENT, child, thread: Some(false) });
        script.event(at + 60 * US, 0, What::WokenNew { task: child, prio: 120 });
        script.switch(at + 70 * US, 1, Left::Runnable, Some(child)).switch(at + 80 * US, 0, Left::Sleeping, None);
        script.wake(at + 500 * US, 1, PARENT).switch(at + 510 * US, 0, Left::Runnable, Some(PARENT));
        if round < ROUNDS - 1 {
            script.switch(at + 520 * US, 1, Left::Dead, None);
        }
    }
    let recorded = std::mem::take(&mut script.recorder).going_on().finish(&Lateness::default());
    let parent = &recorded.workload.tasks[0];
    let again = parent.phases.last().expect("the parent repeats its rounds");
    assert_eq!(again.repeat, Repeat::Forever);
    let children: Vec<usize> =
        again.ops.iter().filter_map(|op| if let Op::Fork(child) = op { Some(*child) } else { None }).collect();
    assert_eq!(children.len() as u64, ROUNDS);
    // Every wait of a repetition has its wakeup.
    let waits = again.ops.iter().filter(|op| matches!(op, Op::InboxWait { .. })).count();
    let of_child = |child: &usize| recorded.workload.tasks[*child].phases.iter().flat_map(|phase| phase.ops.iter());
    let wakes = children.iter().flat_map(of_child).filter(|op| matches!(op, Op::InboxWake { .. })).count();
    assert_eq!((waits, wakes), (ROUNDS as usize, ROUNDS as usize));
}
