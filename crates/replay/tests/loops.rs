//! Loops that start programs go on in a what-if, round by round, wherever the recording ended.

use vruntime_replay::recorded::rules::Rules;
use vruntime_replay::{ReadOptions, Recording, Replay, Setup};
use vruntime_sim::plan::Overrides;

type Name = (&'static str, u32);

const HOG: Name = ("hog", 20);
const SHELL: Name = ("sh", 10);

/// A shell starts a job of 300 ms of work, waits for it, and starts the next. A hog gets every second 10 ms of the only
/// CPU. The trace begins in a job, and ends `until_ms` later.
fn jobs_beside_a_hog(until_ms: u32) -> String {
    let switch = |us: u32, prev: Name, state: &str, next: Name| {
        format!(
            "{0}-{1} [000] d..2. {2}.{3:06}000: sched_switch: prev_comm={0} prev_pid={1} prev_prio=120 prev_state={state} \
             ==> next_comm={4} next_pid={5} next_prio=120\n",
            prev.0,
            prev.1,
            us / 1_000_000,
            us % 1_000_000,
            next.0,
            next.1,
        )
    };
    let mut text = String::from("# tracer: nop\n# entries-in-buffer/entries-written: 1/1   #P:1\n");
    // The first job had 100 ms before the trace.
    let (mut job, mut left) = (("job", 100), 20);
    for ms in (0..until_ms).step_by(20) {
        let us = ms * 1000;
        text += &switch(us, HOG, "R", job);
        left -= 1;
        if left > 0 {
            text += &switch(us + 10_000, job, "R", HOG);
            continue;
        }
        let at = |us: u32| format!("[000] d..2. {}.{:06}000:", us / 1_000_000, us % 1_000_000);
        let next = ("job", job.1 + 1);
        let events = [
            format!("job-{} {} sched_process_exit: comm=job pid={} prio=120\n", job.1, at(us + 9_900), job.1),
            format!("job-{} {} sched_waking: comm=sh pid=10 prio=120 target_cpu=000\n", job.1, at(us + 9_910)),
            switch(us + 9_920, job, "X", SHELL),
            format!(
                "sh-10 {} sched_process_fork: comm=sh pid=10 child_comm=job child_pid={}\n",
                at(us + 9_960),
                next.1
            ),
            format!("sh-10 {} sched_wakeup_new: comm=job pid={} prio=120 target_cpu=000\n", at(us + 9_961), next.1),
            switch(us + 10_000, SHELL, "S", HOG),
        ];
        text += &events.concat();
        (job, left) = (next, 30);
    }
    text += &switch(until_ms * 1000, HOG, "R", job);
    text
}

/// The jobs' part of the CPU if the hog is removed, or has nice 10.
fn predicted(text: &str, rule: &str) -> f64 {
    let recording = Recording::from_bytes("jobs.txt", text.as_bytes(), &ReadOptions::default()).unwrap();
    let costs = Overrides { costs: Some("zero".to_owned()), ..Overrides::default() };
    let replay = Replay::new(&recording, &Setup { overrides: costs.clone(), ..Setup::default() }).unwrap();
    let replayed = replay.run().unwrap();
    let mut rules = Rules::default();
    rules.add(rule).unwrap();
    let what_if = replay.what_if(replay.plan(&costs).unwrap(), &rules, &[]).unwrap();
    let ran = replay.run_what_if(&what_if, &rules).unwrap();
    let check = replay.compare(replayed.ran(), Some((&what_if, ran.ran())));
    let jobs = check.tasks.iter().filter(|task| task.comm == "job");
    let cpu_ns: u64 = jobs.filter_map(|task| Some(task.what_if?.cpu_ns)).sum();
    cpu_ns as f64 / check.elapsed_ns.0 as f64
}

/// Wherever the recording ends, in a round or at its end.
#[test]
fn a_loop_of_jobs_has_all_of_the_cpu_without_its_rival() {
    for until_ms in (1_800..3_000).step_by(100) {
        let alone = predicted(&jobs_beside_a_hog(until_ms), "comm=hog: remove");
        assert!(alone > 0.98, "{until_ms} ms: {alone}");
    }
}

/// A hog of nice 10 has a ninth of the weight (110 of 1024).
#[test]
fn a_loop_of_jobs_has_its_weight_beside_a_rival() {
    for until_ms in (1_800..3_000).step_by(300) {
        let share = predicted(&jobs_beside_a_hog(until_ms), "comm=hog: nice=10");
        assert!((share - 1024.0 / 1134.0).abs() < 0.02, "{until_ms} ms: {share}");
    }
}
