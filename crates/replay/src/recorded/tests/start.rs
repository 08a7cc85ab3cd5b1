//! What a trace finds when it begins.

use super::*;
use vruntime_workload::program::Before;

/// Perf begins with the names of all tasks, as if the idle task had told them: the CPU need not have been idle.
#[test]
fn names_that_are_told_before_say_nothing_of_who_runs() {
    let mut script = Script::default();
    let a = task(5, "a");
    script.event(0, 0, What::Rename { task: a }).running[0] = Some(a);
    script.switch(MS, 0, Left::Sleeping, None).burst(2 * MS, 0, a, MS);
    let recorded = script.finish();
    let counts = &recorded.counts;
    assert_eq!((counts.running_at_start, counts.missing_arrivals), (1, 0));
    assert_eq!(recorded.workload.tasks[0].before, Some(Before::Runnable(0)));
}

/// Who runs, waits or sleeps when the trace begins does so in the replay, where he was; not who is forked later.
#[test]
fn who_was_there_is_where_he_was() {
    let (a, b, c, d) = (task(5, "a"), task(6, "b"), task(7, "c"), task(8, "d"));
    let mut script = Script { running: [None, Some(a)], ..Script::default() };
    script.switch(MS, 1, Left::Runnable, Some(b)).burst(2 * MS, 0, c, MS);
    script.event(4 * MS, 1, What::Fork { parent: b, child: d }).event(4 * MS, 1, What::WokenNew { task: d, prio: 120 });
    script.switch(5 * MS, 1, Left::Sleeping, Some(d)).switch(6 * MS, 1, Left::Sleeping, None);
    let recorded = script.finish();
    let before = |name: &str| recorded.workload.tasks.iter().find(|task| task.class == name).unwrap().before;
    let (there, asleep) = (Some(Before::Runnable(1)), Some(Before::Asleep(0)));
    assert_eq!(["a", "b", "c", "d"].map(before), [there, there, asleep, None]);
}
