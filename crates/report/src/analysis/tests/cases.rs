//! Small recordings that were once analysed wrongly, one for each fault.

use super::*;

fn rows(analyses: &Analyses, table: &str) -> Vec<Value> {
    analyses.json()["tables"][table].as_array().unwrap().clone()
}

fn default(kinds: &[AnalysisKind], text: &str) -> Analyses {
    analyse(kinds, &AnalysisOptions::default(), text)
}

/// B is woken three times, 100 ms apart, without events on its CPU. Before each later wakeup it must have run.
#[test]
fn a_task_that_is_woken_again_has_run_in_between() {
    let text = include_str!("../../../../trace/tests/data/twice.txt");
    for text in [text.to_owned(), text.replace("#P:4", "")] {
        for event in ["sched_waking", "sched_wakeup"] {
            let text = text.replace("sched_waking", event);
            let analyses = default(&[AnalysisKind::Antagonists, AnalysisKind::IdleWhileWaiting], &text);
            let found = rows(&analyses, "antagonists");
            assert_eq!(found.len(), 1, "{found:?}");
            let row = &found[0];
            assert_eq!(
                (&row["waited"], &row["for_task"], &row["waits"]),
                (&json!("b"), &json!("(unknown)"), &json!(3))
            );
            assert_eq!((&row["worst_ns"], &row["total_ns"]), (&json!(100_000_000), &json!(201_000_000)));
            assert_eq!(analyses.json()["faults"]["unseen_runs"], 2);
            assert!(
                analyses.notes().iter().any(|note| note.ends_with("ran in between without an event: 2")),
                "{:?}",
                analyses.notes()
            );
        }
    }
}

/// Its CPU has another task, and a third CPU is idle. The start of its wait is unknown, so only the time since the last
/// wakeup counts.
#[test]
fn only_the_wait_since_the_last_wakeup_is_known() {
    let text = [
        switch(1, 990_000, IDLE, "R", B),
        switch(1, 995_000, B, "S", C),
        switch(0, 1_000_000, IDLE, "R", A),
        switch(1, 1_000_000, C, "S", IDLE),
        wake("sched_waking", 0, 1_001_000, A, B, 0),
        wake("sched_wakeup", 0, 1_001_001, A, B, 0),
        wake("sched_waking", 0, 1_101_000, A, B, 0),
        wake("sched_wakeup", 0, 1_101_001, A, B, 0),
        switch(0, 1_103_000, A, "S", B),
        switch(0, 1_104_000, B, "S", IDLE),
        switch(1, 1_105_000, IDLE, "R", C),
    ]
    .concat();
    let kinds = [
        AnalysisKind::Antagonists,
        AnalysisKind::Latency,
        AnalysisKind::TimeHist,
        AnalysisKind::IdleWhileWaiting,
        AnalysisKind::CriticalPath,
    ];
    let options = AnalysisOptions { each_task: true, task: Some("b".to_owned()), ..AnalysisOptions::default() };
    let analyses = analyse(&kinds, &options, &text);
    let tables = analyses.json();
    assert_eq!(tables["faults"]["unseen_runs"], 1);
    let delays: Vec<_> = rows(&analyses, "antagonists")
        .iter()
        .map(|row| (row["for_task"].as_str().unwrap().to_owned(), row["total_ns"].as_u64().unwrap()))
        .collect();
    assert_eq!(delays, [("(unknown)".to_owned(), 100_000_000), ("a-7".to_owned(), 2_000_000)]);
    let latency = rows(&analyses, "latency");
    let b = latency.iter().find(|row| row["task"] == "b").unwrap();
    assert_eq!(b["max_delay_ns"], 2_000_000);
    let lines = rows(&analyses, "timehist");
    let last = lines.iter().rfind(|row| row["task"] == "b").unwrap();
    assert_eq!((&last["delay_ns"], &last["run_ns"]), (&json!(2_000_000), &json!(1_000_000)));
    let doing: Vec<_> = rows(&analyses, "critical_path")
        .iter()
        .map(|row| (row["doing"].as_str().unwrap().to_owned(), row["total_ns"].as_u64().unwrap()))
        .collect();
    // With 1 ms of its last, endless sleep.
    assert_eq!(doing[0], ("unknown".to_owned(), 101_000_000), "{doing:?}");
    assert!(doing.contains(&("waits for a CPU".to_owned(), 2_000_000)), "{doing:?}");
    let tables = analyses.tables();
    let idle = tables.iter().find(|table| table.name == "idle_while_waiting").unwrap();
    // Without 1 us before the run queue.
    assert_eq!(cell(idle, "b-8", "could_ns"), 1_999_000, "{}", idle.json());
}

/// A task that was preempted on its way to sleep is woken while it waits, without unseen run.
#[test]
fn a_task_preempted_on_its_way_to_sleep_is_woken_while_it_waits() {
    let text = [
        switch(0, 1_000_000, IDLE, "R", A),
        switch(0, 1_001_000, A, "R+", B),
        wake("sched_waking", 0, 1_002_000, B, A, 0),
        wake("sched_wakeup", 0, 1_002_001, B, A, 0),
        switch(0, 1_003_000, B, "S", A),
        switch(0, 1_004_000, A, "S", IDLE),
    ]
    .concat();
    let analyses = default(&[AnalysisKind::Antagonists], &text);
    assert_eq!(analyses.json()["faults"]["unseen_runs"], 0);
    assert_eq!(cell(&analyses.tables()[0], "a", "total_ns"), 2_000_000);
}

/// Lines of `timehist`: microseconds and name.
fn names_of_20(analyses: &Analyses) -> Vec<(u64, String)> {
    let rows = rows(analyses, "timehist");
    let rows = rows.iter().filter(|row| row["pid"] == 20);
    rows.map(|row| (row["time_ns"].as_u64().unwrap() / 1000, row["task"].as_str().unwrap().to_owned())).collect()
}

/// An arrival is missing, so steps are delayed while later names are read.
#[test]
fn timehist_has_the_name_of_that_time() {
    let text = include_str!("../../../../trace/tests/data/rename.txt");
    let analyses = default(&[AnalysisKind::TimeHist], text);
    let expected = [(1_000_100, "sh"), (1_002_000, "sh"), (1_004_000, "gzip")].map(|(at, name)| (at, name.to_owned()));
    assert_eq!(names_of_20(&analyses), expected);
    let text = analyses.text(Shown::rows(100));
    assert!(text.contains("1.002000 [0000]  sh[20]") && text.contains("1.004000 [0000]  gzip[20]"), "{text}");
}

/// A worker takes the name of each job.
#[test]
fn names_of_a_task_that_has_many_are_kept() {
    for gap in [false, true] {
        let mut text = if gap {
            switch(0, 500_000, ("x", 30), "S", IDLE) + &switch(0, 500_100, ("x", 30), "S", IDLE)
        } else {
            String::new()
        };
        let mut expected = Vec::new();
        for job in 0..30_u64 {
            let (name, at) = (format!("job-{}", job % 12), 1_000_000 + job * 2000);
            text += &switch(0, at, IDLE, "R", (&name, 20));
            text += &switch(0, at + 1000, (&name, 20), "S", IDLE);
            expected.push((at + 1000, name));
        }
        assert_eq!(names_of_20(&default(&[AnalysisKind::TimeHist], &text)), expected);
    }
}
