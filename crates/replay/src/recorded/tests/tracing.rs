//! The cost of recording, which is subtracted from work.

use super::*;
use proptest::prelude::*;

const COST: u64 = 500;

/// The work of a thread before it repeats some of it.
fn work(recorded: &Recorded, pid: i32) -> u64 {
    let task = &recorded.workload.tasks[thread(recorded, pid).task.expect("it is replayed")];
    let once = task.phases.iter().filter(|phase| phase.repeat == Repeat::Times(1));
    once.flat_map(|phase| &phase.ops).map(|op| if let Op::Run { work } = op { *work } else { 0 }).sum()
}

fn thread(recorded: &Recorded, pid: i32) -> &Thread {
    recorded.threads.iter().find(|thread| thread.pid == pid).expect("it is in the trace")
}

/// The time after an event is its cost, and never more time than there is.
#[test]
fn an_event_costs_the_task_on_its_cpu_the_time_after_it() {
    let (a, b) = (task(5, "a"), task(6, "b"));
    let recorded = |cost: u64| {
        let recorder = Recorder::new().with_event_cost(cost);
        let mut script = Script { recorder, ..Script::default() };
        script.wake(0, 0, a).recorder.written(0, 0);
        script.switch(1_000, 0, Left::Runnable, Some(a)).recorder.written(1_000, 0);
        script.wake(2_000, 0, b).recorder.written(2_000, 0);
        script.switch(2_200, 0, Left::Sleeping, Some(b)).recorder.written(2_200, 0);
        script.switch(5_000, 0, Left::Sleeping, None).recorder.written(5_000, 0);
        script.finish()
    };
    let without = recorded(0);
    assert_eq!((work(&without, 5), work(&without, 6)), (1_200, 2_800));
    assert_eq!((thread(&without, 5).subtracted_ns, without.counts.unsubtracted_ns), (0, 0));
    let with = recorded(COST);
    assert_eq!((thread(&with, 5).cpu_ns, thread(&with, 6).cpu_ns), (1_200, 2_800), "as recorded");
    assert_eq!((thread(&with, 5).subtracted_ns, thread(&with, 6).subtracted_ns), (700, 500));
    assert_eq!(with.counts.unsubtracted_ns, 300, "the wakeup's cost is 500 ns, 200 ns before the switch");
    assert_eq!((work(&with, 5), work(&with, 6)), (500, 2_300));
    assert_eq!(ops(&with, 5), [Op::Run { work: 500 }, wake(0)], "it wakes when its work is done");
}

proptest! {
    /// Always true, 8: work and subtracted cost are the recorded CPU time, and no event's cost is lost or doubled.
    #[test]
    fn work_and_cost_are_the_recorded_time(
        steps in prop::collection::vec((1..2_000u64, 0..4u8), 10..200),
        cost in 0..900u64,
    ) {
        let tasks = [task(5, "a"), task(6, "b")];
        let mut script = Script { recorder: Recorder::new().with_event_cost(cost), ..Script::default() };
        let (mut now, mut written) = (0, 0);
        let mut running: Option<usize> = None;
        for (passed, what) in steps {
            now += passed;
            match (running, what) {
                // The other is awake or not: its first wakeup counts.
                (Some(this), 0) => { script.wake(now, 0, tasks[1 - this]); }
                (Some(this), 1) => {
                    script.switch(now, 0, Left::Runnable, Some(tasks[1 - this]));
                    running = Some(1 - this);
                }
                (Some(_), _) => {
                    script.switch(now, 0, Left::Sleeping, None);
                    running = None;
                }
                (None, what) => {
                    let next = usize::from(what % 2);
                    script.wake(now, 0, tasks[next]);
                    script.recorder.written(now, 0);
                    now += 100;
                    script.switch(now, 0, Left::Runnable, Some(tasks[next]));
                    running = Some(next);
                }
            }
            // An idle CPU's events cost no task.
            written += u64::from(running.is_some());
            script.recorder.written(now, 0);
        }
        if running.is_some() {
            script.switch(now + 1_000, 0, Left::Dead, None);
        }
        let recorded = script.finish();
        let mut subtracted = 0;
        for thread in recorded.threads.iter().filter(|thread| thread.cpu_ns > 0) {
            prop_assert!(thread.subtracted_ns <= thread.cpu_ns);
            subtracted += thread.subtracted_ns;
            if thread.computes_for.is_none() && recorded.counts.endless == 0 && recorded.pools.is_empty() {
                prop_assert_eq!(work(&recorded, thread.pid) + thread.subtracted_ns, thread.cpu_ns);
            }
        }
        if recorded.counts.endless == 0 && recorded.threads.iter().all(|thread| thread.computes_for.is_none()) {
            prop_assert_eq!(subtracted + recorded.counts.unsubtracted_ns, cost * written);
        }
    }
}
