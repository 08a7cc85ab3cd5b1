use proptest::prelude::*;
use vruntime_trace::read::TextReader;

use super::*;

/// Analyses lines `CPU at_us who -> what` as ftrace text.
fn analyse(kinds: &[AnalysisKind], options: &AnalysisOptions, text: &str) -> Analyses {
    let mut reader = TextReader::new(text.as_bytes());
    let mut analyses = Analyses::new(kinds, options);
    while let Some(record) = reader.next_record().expect("it is a trace") {
        analyses.add(&record);
    }
    analyses.end();
    analyses
}

fn switch(cpu: u32, at: u64, prev: (&str, u32), state: &str, next: (&str, u32)) -> String {
    format!(
        "  {}-{} [{cpu:03}] {}.{:06}: sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> \
         next_comm={} next_pid={} next_prio=120\n",
        prev.0,
        prev.1,
        at / 1_000_000,
        at % 1_000_000,
        prev.0,
        prev.1,
        next.0,
        next.1
    )
}

fn wake(event: &str, cpu: u32, at: u64, by: (&str, u32), who: (&str, u32), target: u32) -> String {
    format!(
        "  {}-{} [{cpu:03}] {}.{:06}: {event}: comm={} pid={} prio=120 target_cpu={target:03}\n",
        by.0,
        by.1,
        at / 1_000_000,
        at % 1_000_000,
        who.0,
        who.1
    )
}

fn migrate(cpu: u32, at: u64, by: (&str, u32), who: (&str, u32), from: u32, to: u32) -> String {
    format!(
        "  {}-{} [{cpu:03}] {}.{:06}: sched_migrate_task: comm={} pid={} prio=120 orig_cpu={from} dest_cpu={to}\n",
        by.0,
        by.1,
        at / 1_000_000,
        at % 1_000_000,
        who.0,
        who.1
    )
}

const IDLE: (&str, u32) = ("swapper", 0);
const A: (&str, u32) = ("a", 7);
const B: (&str, u32) = ("b", 8);
const C: (&str, u32) = ("c", 9);

fn cell(table: &DataTable, task: &str, key: &str) -> Value {
    let rows = table.json();
    let first = table.columns[0].key.as_ref();
    let row = rows.as_array().and_then(|rows| rows.iter().find(|row| row[first] == task).cloned());
    row.unwrap_or_else(|| panic!("{task} is in {rows}"))[key].clone()
}

/// A runs. B is woken, waits 3 ms for A and 1 ms for C, and runs.
fn story() -> String {
    [
        switch(0, 1_000, IDLE, "R", A),
        wake("sched_waking", 0, 2_000, A, B, 0),
        wake("sched_wakeup", 0, 2_001, A, B, 0),
        wake("sched_waking", 0, 2_500, A, C, 0),
        switch(0, 5_000, A, "R+", C),
        switch(0, 6_000, C, "S", B),
        switch(0, 8_000, B, "S", A),
        switch(0, 9_000, A, "S", IDLE),
    ]
    .concat()
}

#[test]
fn latencies_and_the_tasks_that_caused_them() {
    let kinds = [AnalysisKind::Latency, AnalysisKind::Antagonists, AnalysisKind::RunQueue];
    let analyses = analyse(&kinds, &AnalysisOptions::default(), &story());
    let tables = analyses.tables();
    let latency = &tables[0];
    assert_eq!(cell(latency, "b", "max_delay_ns"), 4_000_000);
    assert_eq!(cell(latency, "b", "max_delay_start_ns"), 2_000_000);
    // Its first switch had no known delay. Then it was preempted for 3 ms.
    assert_eq!((cell(latency, "a", "count"), cell(latency, "a", "avg_delay_ns")), (2.into(), 1_500_000.into()));
    assert_eq!(cell(latency, "a", "runtime_ns"), 5_000_000, "by its switches: nothing was charged");
    let antagonists = tables[1].json();
    let pair = |waited: &str, of: &str| -> u64 {
        let rows = antagonists.as_array().unwrap();
        let row = rows.iter().find(|row| row["waited"] == waited && row["for_task"] == of);
        row.map_or(0, |row| row["total_ns"].as_u64().unwrap())
    };
    assert_eq!((pair("b", "a"), pair("b", "c"), pair("c", "a")), (3_000_000, 1_000_000, 2_500_000));
    assert_eq!((pair("a", "c"), pair("a", "b"), pair("b", "b")), (1_000_000, 2_000_000, 0));
    let queue = tables[2].json()[0].clone();
    assert_eq!((&queue["max"], &queue["max_at_ns"]), (&3.into(), &2_500_000.into()));
    // 8 ms: 1 alone, 0.5 with B, 2.5 with C, 1 all three (A preempted), 2 A and B, 1 A.
    assert_eq!(queue["length_3"], 3.5 / 8.0);
    let text = analyses.text(Shown::rows(10));
    assert!(text.contains("  b:8                   |      2.000 ms |        1 | avg:   4.000 ms"), "{text}");
}

#[test]
fn timehist_has_a_line_a_switch_and_a_summary() {
    let analyses = analyse(&[AnalysisKind::TimeHist], &AnalysisOptions::default(), &story());
    let tables = analyses.tables();
    assert_eq!(tables[0].rows.len(), 5);
    let few = analyses.text(Shown { switches: 2, ..Shown::rows(10) });
    assert!(few.contains("\nand 3 more switches (--all shows them)\n") && few.lines().count() == 3 + 2 + 1, "{few}");
    let text = analyses.text(Shown::rows(10));
    // B: woken at 2 ms, ran from 6 to 8.
    assert!(
        text.contains("       0.008000 [0000]  b[8]                                0.000      4.000      2.000"),
        "{text}"
    );
    assert_eq!(cell(&tables[1], "a", "run_ns"), 5_000_000);
    assert_eq!(cell(&tables[1], "a", "avg_run_ns"), 2_500_000);
}

#[test]
fn an_idle_cpu_beside_a_wait_counts_where_the_task_has_been() {
    let text = [
        switch(1, 1_000, IDLE, "R", B),
        switch(0, 1_000, IDLE, "R", A),
        switch(1, 2_000, B, "S", IDLE),
        wake("sched_waking", 0, 3_000, A, B, 0),
        wake("sched_waking", 0, 3_000, A, C, 0),
        switch(0, 13_000, A, "S", B),
        switch(0, 14_000, B, "S", C),
        switch(0, 15_000, C, "S", IDLE),
    ]
    .concat();
    let analyses = analyse(&[AnalysisKind::IdleWhileWaiting], &AnalysisOptions::default(), &text);
    let table = &analyses.tables()[0];
    assert_eq!(cell(table, "b-8", "could_ns"), 10_000_000, "{}", table.json());
    assert_eq!((cell(table, "c-9", "could_ns"), cell(table, "c-9", "might_ns")), (0.into(), 11_000_000.into()));
}

#[test]
fn migrations_by_what_is_around_them() {
    let stopper = ("migration/0", 18);
    let text = [
        switch(0, 1_000, IDLE, "R", A),
        switch(1, 1_000, IDLE, "R", C),
        wake("sched_waking", 0, 2_000, A, B, 0),
        migrate(0, 2_001, A, B, 0, 1),
        wake("sched_wakeup", 0, 2_002, A, B, 1),
        // Pulled, and then C sleeps: newly idle. Pulled back while A continues: periodic.
        wake("sched_waking", 0, 2_100, A, ("d", 10), 0),
        wake("sched_wakeup", 0, 2_101, A, ("d", 10), 0),
        migrate(1, 3_000, C, ("d", 10), 0, 1),
        switch(1, 3_001, C, "S", ("d", 10)),
        migrate(0, 4_000, A, B, 1, 0),
        switch(0, 4_001, A, "R", stopper),
        migrate(0, 4_002, stopper, A, 0, 1),
        switch(0, 4_003, stopper, "S", B),
    ]
    .concat();
    let analyses = analyse(&[AnalysisKind::Migrations], &AnalysisOptions::default(), &text);
    let tables = analyses.tables();
    for cause in ["wakeup", "newidle", "periodic", "stopper"] {
        assert_eq!(cell(&tables[0], cause, "count"), 1, "{}", tables[0].json());
    }
    assert_eq!(cell(&tables[1], "b-8", "migrations"), 2);
}

#[test]
fn migrations_of_a_trace_that_has_no_event_of_them() {
    let text = [
        switch(0, 1_000, IDLE, "R", A),
        // Preempted here, next seen there. It sleeps, and wakes here.
        switch(0, 2_000, A, "R", B),
        switch(1, 2_100, IDLE, "R", A),
        switch(1, 3_000, A, "S", IDLE),
        switch(0, 3_500, B, "S", A),
        switch(0, 4_000, A, "S", IDLE),
    ]
    .concat();
    let analyses = analyse(&[AnalysisKind::Migrations], &AnalysisOptions::default(), &text);
    let tables = analyses.tables();
    assert!(tables[0].title.contains("sched_switch") && tables[0].title.contains("sched_migrate_task"));
    for cause in ["wakeup", "while runnable"] {
        assert_eq!(cell(&tables[0], cause, "count"), 1, "{}", tables[0].json());
    }
    assert_eq!(cell(&tables[1], "a-7", "migrations"), 2);
    let sentences = analyses.sentences().concat();
    assert!(sentences.contains("at least 2 migrations"), "{sentences}");
    let still = [switch(0, 1_000, IDLE, "R", A), switch(0, 2_000, A, "S", IDLE)].concat();
    let analyses = analyse(&[AnalysisKind::Migrations], &AnalysisOptions::default(), &still);
    assert!(analyses.tables()[0].text(Shown::rows(5)).contains("record sched_migrate_task"));
}

#[test]
fn a_critical_path_follows_the_wakers() {
    // A sleeps from 2 to 10 ms. C worked from 3 to 6 and woke B, which waited to 7 and worked to 10.
    let text = [
        switch(0, 1_000, IDLE, "R", A),
        switch(0, 2_000, A, "S", IDLE),
        wake("sched_waking", 1, 3_000, IDLE, C, 1),
        switch(1, 3_000, IDLE, "R", C),
        wake("sched_waking", 1, 6_000, C, B, 1),
        switch(1, 7_000, C, "S", B),
        wake("sched_waking", 1, 10_000, B, A, 0),
        switch(0, 10_500, IDLE, "R", A),
        switch(0, 11_000, A, "S", IDLE),
    ]
    .concat();
    let options = AnalysisOptions { task: Some("a".to_owned()), ..AnalysisOptions::default() };
    let analyses = analyse(&[AnalysisKind::CriticalPath], &options, &text);
    let tables = analyses.tables();
    let rows = tables[0].json();
    let sum = |task: &str, doing: &str| {
        let row = rows.as_array().unwrap().iter().find(|row| row["task"] == task && row["doing"] == doing);
        row.map_or(0, |row| row["total_ns"].as_u64().unwrap())
    };
    assert_eq!(sum("b-8", "runs"), 3_000_000, "{rows}");
    assert_eq!(sum("b-8", "waits for a CPU"), 1_000_000);
    assert_eq!(sum("c-9", "runs"), 3_000_000);
    assert_eq!((sum("a-7", "runs"), sum("a-7", "waits for a CPU")), (1_500_000, 500_000));
    assert_eq!(tables[1].rows.len(), 4, "{}", tables[1].json());
    let all: u64 = rows.as_array().unwrap().iter().map(|row| row["total_ns"].as_u64().unwrap()).sum();
    assert_eq!(all, 10_000_000, "every instant is assigned once");
    assert_eq!(["a", "7", "a-7", "x"].map(|name| analyses.tasks_called(name).len()), [1, 1, 1, 0]);
    assert_eq!(analyses.critical_task().as_deref(), Some("a-7"));
}

#[test]
fn losses_and_jumps_are_reported() {
    let text = format!(
        "{}CPU:0 [LOST 12 EVENTS]\n{}{}",
        switch(0, 1_000, IDLE, "R", A),
        switch(0, 5_000, B, "S", A),
        switch(0, 900_000_000, A, "S", IDLE)
    );
    let analyses = analyse(&AnalysisKind::USUAL, &AnalysisOptions::default(), &text);
    let text = analyses.text(Shown::rows(5));
    assert!(text.contains("gaps where events were lost: 1") && text.contains("jumps of the clock"), "{text}");
    assert!(text.contains("events lost in these gaps, as far as the file counts them: 12"), "{text}");
    assert_eq!((&analyses.json()["faults"]["losses"], &analyses.json()["faults"]["lost"]), (&1.into(), &12.into()));
    assert_eq!(analyses.json()["elapsed_ns"], 4_000_000, "no time passes in a jump");
}

proptest! {
    /// Events in any order cause no panic, and sums stay within the elapsed time.
    #[test]
    fn any_events_at_all(
        events in prop::collection::vec((0_u8..7, 0_u32..4, 0_u32..6, 0_u32..6, 0_u64..40_000_000), 0..80),
    ) {
        let names = ["swapper", "a", "b", "migration/0", "kworker/1", "e"];
        let who = |index: u32| (names[index as usize], index);
        let mut text = String::new();
        for (kind, cpu, one, other, at) in events {
            let line = match kind {
                0 | 1 => switch(cpu, at, who(one), ["R", "R+", "S", "D", "X"][other as usize % 5], who(other)),
                2 => wake("sched_waking", cpu, at, who(one), who(other), cpu),
                3 => wake("sched_wakeup", cpu, at, who(one), who(other), cpu),
                4 => wake("sched_wakeup_new", cpu, at, who(one), who(other), cpu),
                5 => migrate(cpu, at, who(one), who(other), cpu, one),
                _ => format!("CPU:{cpu} [LOST 1 EVENTS]\n"),
            };
            text.push_str(&line);
        }
        if text.contains("sched_") {
            let options = AnalysisOptions { each_task: true, task: Some("a".to_owned()), replayed: false };
            let analyses = analyse(&AnalysisKind::ALL, &options, &text);
            let elapsed = analyses.json()["elapsed_ns"].as_u64().unwrap();
            prop_assert!(!analyses.text(Shown::rows(100)).is_empty());
            for table in analyses.tables() {
                for row in table.json().as_array().unwrap() {
                    if let Some(could) = row.get("could_ns").and_then(Value::as_u64) {
                        prop_assert!(could <= elapsed, "{}", row);
                    }
                    if let Some(worst) = row.get("worst_ns").and_then(Value::as_u64) {
                        prop_assert!(worst <= elapsed, "{}", row);
                    }
                }
            }
        }
    }
}

fn overview(text: &str) -> Value {
    let mut reader = TextReader::new(text.as_bytes());
    let mut analyses = Analyses::new(&[], &AnalysisOptions::default()).with_overview();
    while let Some(record) = reader.next_record().expect("it is a trace") {
        analyses.add(&record);
    }
    analyses.end();
    analyses.overview_json().expect("it was watched for")
}

#[test]
fn delays_of_any_number_of_tasks_are_those_of_their_names() {
    let mut text = String::new();
    for pid in 1..=2500 {
        let (at, task) = (u64::from(pid) * 1000, if pid % 10 == 0 { ("hog", pid) } else { ("w", pid) });
        text.push_str(&wake("sched_waking", 0, at, IDLE, task, 0));
        text.push_str(&switch(0, at + 10, IDLE, "R", task));
        text.push_str(&switch(0, at + 20, task, "S", IDLE));
    }
    let json = overview(&text);
    let counts: Vec<(&str, u64)> = json["delays"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["count"].as_u64().unwrap()))
        .collect();
    assert_eq!(counts, [("w", 2250), ("hog", 250)]);
}

#[test]
fn a_page_has_no_more_bins_for_a_large_machine() {
    let json = overview(
        &[switch(299, 0, IDLE, "R", A), switch(299, 750_000, A, "S", IDLE), switch(0, 1_000_000, IDLE, "R", B)]
            .concat(),
    );
    let rows = json["cpus"].as_array().unwrap();
    let all: usize = rows.iter().map(|row| row["busy"].as_array().unwrap().len()).sum();
    assert_eq!((rows.len(), json["bin_ns"].as_u64()), (300, Some(16_000_000)));
    assert!((1 << 14..=1 << 15).contains(&all), "{all} bins");
    assert_eq!(
        (&rows[299]["busy"][0], &rows[299]["busy"][46], &rows[299]["busy"][47]),
        (&1000.into(), &875.into(), &0.into())
    );
}

#[test]
fn a_replayed_task_is_called_as_it_was_recorded() {
    let mut world = World::default();
    let shown = |world: &mut World, name: &str, class: &str| {
        let task = world.task(1 + world.tasks() as i32, name.as_bytes()).expect("a pid");
        world.set_recorded(task, name, class);
        format!("{} {} {}", world.name(task), world.comm(task), world.pid(task))
    };
    assert_eq!(shown(&mut world, "web-7812", "web"), "web-7812 web 7812");
    assert_eq!(shown(&mut world, "a-b-12.2", "a-b"), "a-b-12 a-b 12", "the second with that pid");
    assert_eq!(shown(&mut world, "web-7812#2", "web"), "web-7812#2 web 7812", "a copy");
    for (name, class) in
        [("web", "web"), ("web-", "web"), ("web-7x", "web"), ("other-7", "web"), ("web-99999999999", "web")]
    {
        let shown_name = shown(&mut world, name, class);
        assert_eq!(shown_name, format!("{name}-{0} {name} {0}", world.tasks()), "it is no name of a replay");
    }
}

/// Some machines record no switch from the idle task. `a` runs for 8 of 10 ms, known only from charges and switches.
#[test]
fn a_task_that_arrived_without_a_switch_ran() {
    let mut text = String::new();
    for beat in 1..=5 {
        let at = beat * 10_000;
        text += &wake("sched_waking", 1, at, IDLE, A, 1);
        text += &wake("sched_wakeup", 1, at + 10, IDLE, A, 1);
        text += &wake("sched_waking", 0, at + 2000, C, B, 0);
        let us = at + 8050;
        let charge = format!(
            "  a-7 [001] {}.{:06}: sched_stat_runtime: comm=a pid=7 runtime=8000000 [ns]\n",
            us / 1_000_000,
            us % 1_000_000
        );
        text += &charge;
        text += &switch(1, us, A, "S", IDLE);
    }
    let kinds =
        [AnalysisKind::RunQueue, AnalysisKind::Antagonists, AnalysisKind::IdleWhileWaiting, AnalysisKind::TimeHist];
    let analyses = analyse(&kinds, &Options::default(), &text);
    let tables = analyses.tables();
    let summary = tables.iter().find(|table| table.name == "timehist_summary").expect("it was asked for");
    // The first task of a CPU arrived at an unknown time.
    assert_eq!((cell(summary, "a", "run_ns"), cell(summary, "a", "max_run_ns")), (38_050_000.into(), 8_000_000.into()));
    let table = |name: &str| tables.iter().find(|table| table.name == name).expect("it was asked for").json();
    let row = &table("runqueue")[1];
    // Steps are not delayed before the first gap, so its task arrives after another has acted.
    let (span, first) = (58_050.0 - 10_000.0, 8050.0 - 2000.0);
    assert_eq!(row["busy"].as_f64().map(|busy| (busy * span).round()), Some(first + 4.0 * 8000.0), "{row}");
    let waits = table("antagonists");
    let idle = waits.as_array().unwrap().iter().find(|row| row["waited"] == "a" && row["for_task"] == "(idle)");
    let idle = idle.expect("while the CPU wakes up");
    assert_eq!((idle["total_ns"].as_u64(), idle["waits"].as_u64()), (Some(2_000_000 + 4 * 50_000), Some(5)), "{waits}");
    assert_eq!(analyses.json()["faults"]["missing_arrivals"], 5);
    assert_eq!(analyses.json()["faults"]["broken_switches"], 0);
}

/// As in a throttled group, `a` waits beside an idle CPU for longer than the delay of steps. No event shows its return.
/// The next tick charges it.
#[test]
fn after_a_long_wait_an_unseen_task_ran_only_for_its_charges() {
    let charge =
        |us: u64, ns: u64| format!("  a-7 [000] 0.{us:06}: sched_stat_runtime: comm=a pid=7 runtime={ns} [ns]\n");
    let busy = |beat: u64| {
        let mut text = switch(0, 1000, IDLE, "R", A);
        text += &switch(0, 10_000, A, "R", IDLE);
        // Steps are delayed from here.
        text += &wake("sched_waking", 1, 11_000, IDLE, B, 1);
        for at in (12_000..99_000).step_by(beat as usize) {
            text += &wake("sched_waking", 1, at, B, ("d", 10), 1);
        }
        text += &wake("sched_waking", 0, 100_000, A, C, 0);
        text += &wake("sched_waking", 1, 101_000, B, ("d", 10), 1);
        // `a` arrived 500 us before its first event. It ran for 9, 4 and 2 of 106 ms.
        text += &charge(103_500, 4_000_000);
        text += &switch(1, 104_000, B, "S", IDLE);
        text += &charge(105_500, 2_000_000);
        text += &switch(0, 105_500, A, "R", IDLE);
        text += &switch(1, 107_000, IDLE, "R", B);
        let analyses = analyse(&[AnalysisKind::RunQueue], &Options::default(), &text);
        assert_eq!(analyses.json()["faults"]["missing_arrivals"], 2);
        analyses.tables()[0].json()[0]["busy"].as_f64().map(|busy| (busy * 106_000.0).round())
    };
    assert_eq!(busy(1000), Some(15_000.0), "others do something all the time");
    assert_eq!(busy(80_000), Some(15_000.0), "no task acts for long");
}

/// The switch away from `a` is missing. `a` ran for its charged time, and the next task is unknown.
#[test]
fn a_task_without_a_switch_away_ran_for_its_charges() {
    let text = [
        switch(0, 1000, IDLE, "R", A),
        "  a-7 [000] 0.002000: sched_stat_runtime: comm=a pid=7 runtime=1000000 [ns]\n".to_owned(),
        switch(0, 9000, B, "S", IDLE),
        switch(0, 11_000, IDLE, "R", A),
        switch(0, 20_000, A, "S", IDLE),
    ];
    let busy_of = |text: &[String]| {
        let analyses = analyse(&[AnalysisKind::RunQueue], &Options::default(), &text.concat());
        let busy = analyses.tables()[0].json()[0]["busy"].as_f64();
        assert_eq!(analyses.json()["faults"]["broken_switches"], 1);
        busy
    };
    // With a known idle time: 1 and 9 of 19 ms.
    let mut rested = text.clone();
    rested[2] = switch(0, 9000, IDLE, "R", IDLE);
    assert_eq!(busy_of(&rested).map(|busy| (busy * 19.0).round()), Some(10.0));
    // With a charge of 5 ms for the next task: 1, 5 and 9 of 17 ms.
    let mut charged = text.clone();
    charged[2].insert_str(0, "  b-8 [000] 0.009000: sched_stat_runtime: comm=b pid=8 runtime=5000000 [ns]\n");
    assert_eq!(busy_of(&charged).map(|busy| (busy * 17.0).round()), Some(15.0));
    let analyses = analyse(&[AnalysisKind::RunQueue], &Options::default(), &text.concat());
    let rows = analyses.tables()[0].json();
    let busy = rows[0]["busy"].as_f64().map(|busy| (busy * 12.0).round());
    assert_eq!(busy, Some(10.0), "1 and 9 of 12 ms are known, the 7 between belong to no task: {rows}");
    let sentence = "CPU 0 was busy 83.33 % of the known time.";
    assert_eq!(analyses.busy_sentence().as_deref(), Some(sentence));
    // More unknown time counts less: 10 of 12 ms and 9.5 of 19.
    let (begins, sleeps) = (switch(1, 1000, IDLE, "R", C), switch(1, 10_500, C, "S", IDLE));
    let two = [&text[0], &begins, &text[1], &text[2], &sleeps, &text[3], &text[4]].map(String::as_str).concat();
    let analyses = analyse(&[AnalysisKind::RunQueue], &Options::default(), &two);
    let sentence = "The CPUs were busy 62.90 % of the known time: CPU 0 most (83.33 %), CPU 1 least (50.00 %).";
    assert_eq!(analyses.busy_sentence().as_deref(), Some(sentence));
    assert_eq!(analyses.json()["faults"]["broken_switches"], 1);
}

/// ARM before 3.12: an interrupt during a switch from the idle task, which seems to do its wakeups. No event is
/// missing.
#[test]
fn the_idle_task_is_not_back_for_an_interrupt_in_a_switch() {
    let faults = |wakeup: &str, later_us: u64| {
        let mut text = switch(0, 1000, A, "S", IDLE);
        text += &switch(0, 2000, IDLE, "R", A);
        text += &wake(wakeup, 0, 2000 + later_us, IDLE, B, 0);
        text += &switch(0, 3000, A, "R", B);
        let faults = analyse(&[AnalysisKind::RunQueue], &Options::default(), &text).json()["faults"].clone();
        (faults["missing_arrivals"].as_u64().unwrap(), faults["broken_switches"].as_u64().unwrap())
    };
    assert_eq!(faults("sched_wakeup", 30), (0, 0));
    // Later the idle task is back, and its task has returned.
    assert_eq!(faults("sched_wakeup", 300).0, 1);
    // Kernels with `sched_waking` disable interrupts there.
    assert_eq!(faults("sched_waking", 30).0, 1);
}

/// perf samples by NMI, also between the event of a switch and the switch itself.
#[test]
fn a_sample_in_a_switch_is_no_arrival() {
    let found = |next: (&str, u32), (by, pid): (&str, u32), later_us: u64| {
        let mut text = switch(0, 1000, IDLE, "R", A);
        text += "  a-7 [000] 0.001500: sched_stat_runtime: comm=a pid=7 runtime=500000 [ns]\n";
        text += &switch(0, 2000, A, "S", next);
        let sample = format!("  {by}-{pid} [000] 0.{:06}: cpu-cycles: \n", 2000 + later_us);
        text += &sample;
        text += &switch(0, 3000, next, "S", if next == IDLE { A } else { IDLE });
        let analyses = analyse(&[AnalysisKind::Summary, AnalysisKind::RunQueue], &Options::default(), &text);
        let tables: Vec<_> = analyses.tables().iter().map(DataTable::json).collect();
        (tables, analyses.json()["faults"].clone())
    };
    for next in [IDLE, B] {
        let proper = found(next, next, 30);
        assert_eq!(found(next, A, 30), proper, "{next:?}");
        assert_ne!(found(next, A, 60), proper, "{next:?}, much later");
        assert_ne!(found(next, C, 30), proper, "{next:?}, another task");
    }
}

#[test]
fn a_missing_arrival_is_a_missing_wakeup_too() {
    let mut text = switch(0, 1000, A, "S", IDLE);
    text += "  a-7 [000] 0.009000: sched_stat_runtime: comm=a pid=7 runtime=1000000 [ns]\n";
    text += &switch(0, 9000, A, "S", IDLE);
    text += &switch(0, 12_000, IDLE, "R", A);
    let faults = analyse(&[AnalysisKind::RunQueue], &Options::default(), &text).json()["faults"].clone();
    assert_eq!((faults["missing_arrivals"].as_u64(), faults["unwoken"].as_u64()), (Some(1), Some(2)), "{faults}");
}

/// Android's systrace has `task_newtask`, and no `sched_wakeup_new`.
#[test]
fn the_first_run_of_a_new_task_ends_no_sleep() {
    let mut text = switch(0, 1000, IDLE, "R", A);
    text += "  a-7 [000] 0.002000: task_newtask: pid=9 comm=a clone_flags=3d0f00 oom_score_adj=0\n";
    text += &switch(0, 3000, A, "S", ("a", 9));
    text += &switch(0, 4000, ("a", 9), "S", IDLE);
    let unwoken = |text: &str| {
        let analyses = analyse(&[AnalysisKind::RunQueue], &Options::default(), text);
        let (mut reader, mut summary) = (TextReader::new(text.as_bytes()), vruntime_trace::read::Summary::new());
        while let Some(record) = reader.next_record().expect("it is a trace") {
            summary.add(&record);
        }
        let of_info: u64 = summary.tasks().iter().map(|task| task.unwoken).sum();
        (analyses.json()["faults"]["unwoken"].as_u64(), of_info)
    };
    assert_eq!(unwoken(&text), (Some(0), 0));
    text += &switch(0, 5000, IDLE, "R", ("a", 9));
    assert_eq!(unwoken(&text), (Some(1), 1), "its second run ends one");
}

/// `task_newtask` and `sched_process_fork` report the same fork.
#[test]
fn a_fork_reported_twice_is_one() {
    let news = "  a-7 [000] 0.002000: task_newtask: pid=9 comm=a clone_flags=3d0f00 oom_score_adj=0\n";
    let fork = "  a-7 [000] 0.002001: sched_process_fork: comm=a pid=7 child_comm=a child_pid=9\n";
    let tasks = |events: &str| {
        let begin = [switch(0, 1000, IDLE, "R", C), switch(0, 1500, C, "X", A)].concat();
        let end = [
            wake("sched_wakeup_new", 0, 2002, A, ("a", 9), 0),
            switch(0, 3000, A, "S", ("a", 9)),
            switch(0, 5000, ("a", 9), "X", IDLE),
        ];
        let text = format!("{begin}{events}{}", end.concat());
        let analyses = analyse(&[AnalysisKind::Latency], &Options { each_task: true, ..Options::default() }, &text);
        analyses.tables()[0].json().to_string()
    };
    let one = tasks(fork);
    assert_eq!((tasks(news), tasks(&format!("{news}{fork}"))), (one.clone(), one));
}

/// Its switch away is missing. The next event on its CPU is another task's.
#[test]
fn in_whose_name_something_happens_is_there() {
    let charge = "  b-8 [001] 0.000500: sched_stat_runtime: comm=b pid=8 runtime=100000 [ns]\n".to_owned();
    let text = |by: (&str, u32)| {
        [
            switch(1, 100, IDLE, "R", B),
            charge.clone(),
            switch(0, 1000, IDLE, "R", A),
            wake("sched_waking", 0, 9000, by, ("d", 10), 1),
            switch(0, 11_000, by, "S", IDLE),
        ]
        .concat()
    };
    let busy = |by: (&str, u32)| {
        let analyses = analyse(&[AnalysisKind::RunQueue], &Options::default(), &text(by));
        analyses.tables()[0].json()[0]["busy"].as_f64().map(|busy| (busy * 1000.0).round() as u32)
    };
    // It was never charged in a trace with charges, so it left at once.
    assert_eq!(busy(A), Some(917), "10 of 10.9 ms, for it was there");
    assert_eq!(busy(IDLE), Some(0));
    assert_eq!(busy(C), Some(690), "2 of 2.9 ms; the others are unknown");
}

mod cases;
mod groups;
mod runs;

#[test]
fn what_a_table_leaves_out_is_noted() {
    let mut analyses = Analyses::new(&[AnalysisKind::TimeHist], &AnalysisOptions::default());
    let text: String = [switch(0, 1, A, "R", B), switch(0, 2, B, "R", A)].concat();
    let mut at = 0;
    for _ in 0..(1 << 19) + 5 {
        let mut reader = TextReader::new(text.as_bytes());
        while let Some(mut record) = reader.next_record().expect("it is a trace") {
            at += 1000;
            record.at = at;
            analyses.add(&record);
        }
    }
    analyses.end();
    let [table, _] = &analyses.tables()[..] else { panic!("there are two tables") };
    assert_eq!(table.rows.len(), 1 << 20);
    let note = "switches that the table timehist leaves out (it has the first 1048576): 10";
    assert!(analyses.notes().iter().any(|found| found == note), "{:?}", analyses.notes());
    assert!(analyses.json()["notes"].as_array().is_some_and(|notes| notes.iter().any(|found| found == note)));
}
