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

/// A thread that its parent forked at the start, and that has not ended, is there already: no repetition forks it.
#[test]
fn a_child_that_lives_on_is_forked_once() {
    let [child, partner] = [task(60, "child"), task(70, "partner")];
    let mut script = Script { context: Some(Context::Task), ..Script::default() };
    script.wake(0, 0, PARENT).switch(0, 0, Left::Runnable, Some(PARENT));
    script.event(US, 0, What::Fork { parent: PARENT, child, thread: Some(false) });
    script.event(US, 0, What::WokenNew { task: child, prio: 120 }).switch(2 * US, 1, Left::Runnable, Some(child));
    script.switch(3 * US, 1, Left::Sleeping, None);
    for round in 1..=20 {
        let at = round * 10 * MS;
        // A beat from outside, at irregular times, and a handoff to and fro.
        script.context = Some(Context::Softirq);
        script.wake(at + round * round % 7 * 100 * US, 1, child);
        script.context = Some(Context::Task);
        script.switch(at + MS, 1, Left::Runnable, Some(child)).switch(at + 2 * MS, 1, Left::Sleeping, None);
        script.wake(at + 3 * MS, 0, partner).switch(at + 3 * MS, 1, Left::Runnable, Some(partner));
        script.switch(at + 3 * MS + US, 0, Left::Sleeping, None);
        script.wake(at + 5 * MS, 1, PARENT).switch(at + 5 * MS, 0, Left::Runnable, Some(PARENT));
        script.switch(at + 6 * MS, 1, Left::Sleeping, None);
    }
    let recorded = std::mem::take(&mut script.recorder).going_on().finish(&Lateness::default());
    let forks = ops(&recorded, PARENT.pid).iter().filter(|op| matches!(op, Op::Fork(_))).count();
    assert!(recorded.threads[0].closed, "the parent repeats its rounds");
    assert_eq!(forks, 1);
}

/// Threads that a program starts one after the other all continue, also the last one, which has little work.
#[test]
fn a_repetition_begins_when_all_threads_are_there() {
    let mut script = Script { context: Some(Context::Task), ..Script::default() };
    let names = ["one", "two", "three"];
    script.switch(0, 0, Left::Runnable, Some(PARENT));
    for (number, name) in names.into_iter().enumerate() {
        let (at, child) = ((number as u64 + 1) * US, task(60 + number as i32, name));
        script.event(at, 0, What::Fork { parent: PARENT, child, thread: Some(false) });
        script.event(at, 0, What::WokenNew { task: child, prio: 120 });
    }
    script.switch(5 * US, 0, Left::Sleeping, None);
    for round in 0..20 {
        for (number, name) in names.into_iter().enumerate() {
            let at = round * 10 * MS + number as u64 * 3 * MS + 10 * US;
            let this = task(60 + number as i32, name);
            script.context = Some(Context::Hardirq);
            if round > 0 {
                script.wake(at, 1, this);
            }
            script.context = Some(Context::Task);
            let work = if name == "three" { 10 * US } else { 2 * MS + round % 3 * 300 * US };
            script.switch(at, 1, Left::Runnable, Some(this)).switch(at + work, 1, Left::Uninterruptible, None);
        }
    }
    let recorded = std::mem::take(&mut script.recorder).going_on().finish(&Lateness::default());
    let closed = |name: &str| recorded.threads.iter().find(|thread| thread.comm == name).map(|thread| thread.closed);
    assert_eq!(names.map(closed), [Some(true); 3]);
    assert_eq!(recorded.repeats_from, 3 * US);
}

/// A thread of a closed loop that was forked in the recording does not repeat it. Its sleeps until something outside
/// take their time, so that the loop does not wait for the clock.
#[test]
fn a_late_thread_of_a_loop_keeps_no_recorded_times() {
    let (partner, late) = (task(7, "partner"), task(8, "late"));
    let sleeps = |going_on: bool| {
        let mut script = Script { context: Some(Context::Task), ..Script::default() };
        script.switch(0, 0, Left::Runnable, Some(PARENT));
        for round in 0..ROUNDS {
            let at = (round + 1) * MS;
            match round {
                0..8 => {}
                8 => {
                    script.event(at, 0, What::Fork { parent: PARENT, child: late, thread: Some(true) });
                    script.event(at, 0, What::WokenNew { task: late, prio: 120 });
                }
                14 => {
                    script.context = Some(Context::Softirq);
                    script.wake(at, 2, late).context = Some(Context::Task);
                }
                _ => {
                    script.wake(at, 0, late);
                }
            }
            script.wake(at + 10 * US, 0, partner).switch(at + 20 * US, 0, Left::Sleeping, None);
            script.switch(at + 20 * US, 1, Left::Runnable, Some(partner));
            if round >= 8 {
                script.switch(at + 20 * US, 2, Left::Runnable, Some(late));
                script.switch(at + 30 * US, 2, Left::Sleeping, None);
            }
            script.wake(at + 500 * US, 1, PARENT).switch(at + 510 * US, 0, Left::Runnable, Some(PARENT));
            script.switch(at + 510 * US, 1, Left::Sleeping, None);
        }
        let recorder = std::mem::take(&mut script.recorder);
        let recorder = if going_on { recorder.going_on() } else { recorder };
        let recorded = recorder.finish(&Lateness::default());
        let until = ops(&recorded, late.pid).iter().filter(|op| matches!(op, Op::SleepUntil { .. })).count();
        let times = ops(&recorded, late.pid).iter().filter(|op| matches!(op, Op::Sleep { .. })).count();
        [until, times]
    };
    assert_eq!((sleeps(false), sleeps(true)), ([1, 0], [0, 1]));
}

/// A shell waits for a job that exists already, starts another when that ends, and waits for it. The recording ends
/// meanwhile.
#[test]
fn a_job_that_the_end_cut_off_continues_as_the_one_at_the_begin() {
    let relayed = |names: [&'static str; 2]| {
        let (early, late) = (task(50, names[0]), task(60, names[1]));
        let mut script = Script { context: Some(Context::Task), threads_only: true, ..Script::default() };
        script.switch(0, 0, Left::Runnable, Some(task(8, "driver"))).wake(US, 0, early);
        script.switch(2 * US, 1, Left::Runnable, Some(early)).switch(3 * US, 0, Left::Sleeping, None);
        script.wake(7 * MS, 1, PARENT).switch(7 * MS, 0, Left::Runnable, Some(PARENT));
        script.switch(7 * MS + US, 1, Left::Dead, None);
        script.event(7 * MS + 50 * US, 0, What::Fork { parent: PARENT, child: late, thread: Some(false) });
        script.event(7 * MS + 60 * US, 0, What::WokenNew { task: late, prio: 120 });
        script.switch(7 * MS + 70 * US, 1, Left::Runnable, Some(late)).switch(
            7 * MS + 80 * US,
            0,
            Left::Sleeping,
            None,
        );
        script.switch(12 * MS, 0, Left::Runnable, Some(task(9, "other")));
        let processes = [(PARENT.pid, (PARENT.pid, 1)), (early.pid, (early.pid, PARENT.pid))];
        let recorder = std::mem::take(&mut script.recorder).with_processes(processes);
        let recorded = recorder.going_on().finish(&Lateness::default());
        let again = recorded.workload.tasks.iter().find(|task| task.name == "parent-5").unwrap().phases.last().unwrap();
        let forks = again.ops.iter().filter(|op| matches!(op, Op::Fork(_))).count();
        let work =
            ops(&recorded, late.pid).iter().map(|op| if let Op::Run { work } = op { *work } else { 0 }).sum::<u64>();
        let wakes = ops(&recorded, late.pid).iter().filter(|op| matches!(op, Op::InboxWake { .. })).count();
        (again.repeat == Repeat::Forever, forks, wakes, work / MS)
    };
    assert_eq!(relayed(["job", "job"]), (true, 1, 1, 4 + 7));
    assert_eq!(relayed(["job", "other"]), (false, 1, 0, 4), "it is another program");
}
