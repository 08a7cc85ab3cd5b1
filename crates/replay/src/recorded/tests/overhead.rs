//! Costs that are not work: recording, which is subtracted, or switches and wakeups, which the replay charges.

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
        script.wake(0, 0, a).recorder.written(0, 0, Reason::Other);
        script.switch(1_000, 0, Left::Runnable, Some(a)).recorder.written(1_000, 0, Reason::Switch);
        script.wake(2_000, 0, b).recorder.written(2_000, 0, Reason::Wakeup);
        script.switch(2_200, 0, Left::Sleeping, Some(b)).recorder.written(2_200, 0, Reason::Switch);
        script.switch(5_000, 0, Left::Sleeping, None).recorder.written(5_000, 0, Reason::Switch);
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

/// The replay charges what the work lacks. Events of other kinds stay in the work, and the replay charges none.
#[test]
fn switches_and_wakeups_take_the_time_after_them() {
    let (a, b) = (task(5, "a"), task(6, "b"));
    let costs = SwitchCosts { switch_ns: 300, wakeup_ns: 200, cold_switch_ns: 0, wakeup_far_ns: 50 };
    let recorder = Recorder::new().with_event_cost(100).charge_switches(costs);
    let mut script = Script { recorder, ..Script::default() };
    script.wake(0, 0, a).recorder.written(0, 0, Reason::Wakeup);
    script.switch(1_000, 0, Left::Runnable, Some(a)).recorder.written(1_000, 0, Reason::Switch);
    script.wake(2_000, 0, b).recorder.written(2_000, 0, Reason::Wakeup);
    script.switch(2_200, 0, Left::Sleeping, Some(b)).recorder.written(2_200, 0, Reason::Switch);
    script.recorder.written(3_000, 0, Reason::Other);
    script.switch(5_000, 0, Left::Sleeping, None).recorder.written(5_000, 0, Reason::Switch);
    let while_recording = script.recorder.costs_while_recording();
    assert_eq!(while_recording, SwitchCosts { switch_ns: 400, wakeup_ns: 300, ..costs }, "with their events");
    let recorded = script.finish();
    let parts = |pid| (work(&recorded, pid), thread(&recorded, pid).charged_ns, thread(&recorded, pid).subtracted_ns);
    // A switch, and 200 ns after the wakeup.
    assert_eq!(parts(5), (600, 600, 0));
    assert_eq!(parts(6), (2_400, 400, 0));
    assert_eq!((recorded.counts.uncharged_ns, recorded.counts.unsubtracted_ns), (100, 0), "the rest of the wakeup");
    assert_eq!(ops(&recorded, 5), [Op::Run { work: 600 }, wake(0)]);
}

proptest! {
    /// Always true, 8: work and costs are the recorded CPU time, and no cost is lost or doubled.
    #[test]
    fn work_and_cost_are_the_recorded_time(
        steps in prop::collection::vec((1..2_000u64, 0..4u8), 10..200),
        cost in 0..900u64,
        charged in prop::option::of(0..900u64),
    ) {
        let tasks = [task(5, "a"), task(6, "b")];
        let recorder = Recorder::new().with_event_cost(cost);
        let recorder = match charged {
            Some(ns) => recorder.charge_switches(SwitchCosts { switch_ns: ns, ..SwitchCosts::default() }),
            None => recorder,
        };
        let mut script = Script { recorder, ..Script::default() };
        let (mut now, mut written, mut switches) = (0, 0, 0);
        let mut running: Option<usize> = None;
        for (passed, what) in steps {
            now += passed;
            match (running, what) {
                // The other is awake or not: its first wakeup counts.
                (Some(this), 0) => { script.wake(now, 0, tasks[1 - this]); }
                (Some(this), 1) => {
                    script.switch(now, 0, Left::Runnable, Some(tasks[1 - this]));
                    running = Some(1 - this);
                    switches += 1;
                }
                (Some(_), _) => {
                    script.switch(now, 0, Left::Sleeping, None);
                    running = None;
                }
                (None, what) => {
                    let next = usize::from(what % 2);
                    script.wake(now, 0, tasks[next]);
                    script.recorder.written(now, 0, Reason::Other);
                    now += 100;
                    script.switch(now, 0, Left::Runnable, Some(tasks[next]));
                    running = Some(next);
                    switches += 1;
                }
            }
            // An idle CPU's events cost no task.
            written += u64::from(running.is_some());
            script.recorder.written(now, 0, Reason::Other);
        }
        if running.is_some() {
            script.switch(now + 1_000, 0, Left::Dead, None);
        }
        let recorded = script.finish();
        let mut sum = 0;
        for thread in recorded.threads.iter().filter(|thread| thread.cpu_ns > 0) {
            let overhead = thread.subtracted_ns + thread.charged_ns;
            prop_assert!(overhead <= thread.cpu_ns);
            prop_assert_eq!(if charged.is_some() { thread.subtracted_ns } else { thread.charged_ns }, 0);
            sum += overhead;
            if thread.computes_for.is_none() && recorded.counts.endless == 0 && recorded.pools.is_empty() {
                prop_assert_eq!(work(&recorded, thread.pid) + overhead, thread.cpu_ns);
            }
        }
        if recorded.counts.endless == 0 && recorded.threads.iter().all(|thread| thread.computes_for.is_none()) {
            let all = charged.map_or(cost * written, |ns| ns * switches);
            prop_assert_eq!(sum + recorded.counts.unsubtracted_ns + recorded.counts.uncharged_ns, all);
        }
    }
}
