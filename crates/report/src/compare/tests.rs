//! Comparisons of results with known changes.

use super::*;
use crate::collector::Collector;
use vruntime_trace::{CpuId, Event, PrevState, Running, Sink, TaskId, TaskInfo};

/// A second with `cpu_ms` of `web`, which was `late_us` late 100 times, beside a constant `hog`.
fn run(cpu_ms: u64, late_us: u64) -> Results {
    run_of(100, cpu_ms, late_us)
}

fn run_of(sleeps: u64, cpu_ms: u64, late_us: u64) -> Results {
    let mut c = Collector::new(2);
    for (id, name) in [(0, "web"), (1, "hog")] {
        c.task(TaskId(id), &TaskInfo { name, class: name, ..TaskInfo::default() });
        let (cpu, task) = (CpuId(id), TaskId(id));
        c.event(0, cpu, &Event::Fork { parent: None, child: task });
        let next = Running::Task(task);
        c.event(0, cpu, &Event::Switch { prev: Running::Idle, prev_state: PrevState::Preempted, next });
    }
    for at in 0..sleeps {
        c.event(5 + at, CpuId(0), &Event::SleepReturn { task: TaskId(0), late: late_us * 1000 });
    }
    let prev = Running::Task(TaskId(0));
    c.event(
        cpu_ms * 1_000_000,
        CpuId(0),
        &Event::Switch { prev, prev_state: PrevState::Sleeping, next: Running::Idle },
    );
    c.finish(1_000_000_000);
    c.into_results()
}

fn variant(label: &str, runs: &[(u64, u64)]) -> Variant {
    Variant { label: label.to_owned(), runs: runs.iter().map(|&(cpu_ms, late_us)| run(cpu_ms, late_us)).collect() }
}

fn standing_out(before: &Variant, after: &Variant) -> Vec<String> {
    Figure::standing_out(&before.runs, &after.runs).iter().map(Figure::name).collect()
}

/// Balancing on the machine stands out although no task fares differently.
#[test]
fn what_only_the_machine_shows_stands_out_last() {
    let balanced = |attempts: u64, late_us: u64| {
        let mut variant = variant("x", &[(300, late_us), (300, late_us)]);
        for (run, more) in variant.runs.iter_mut().zip(0..) {
            run.cpus[1].balance[0].attempts = attempts + more;
        }
        variant
    };
    assert_eq!(standing_out(&balanced(100, 1000), &balanced(50, 1000)), ["balance_attempts"]);
    assert_eq!(standing_out(&balanced(100, 1000), &balanced(50, 4000)).last().unwrap(), "balance_attempts");
    assert!(standing_out(&balanced(100, 1000), &balanced(101, 1000)).is_empty(), "within the spread");
    let figure = Figure::named("balance_attempts").unwrap();
    let (before, after) = (balanced(100, 1000), balanced(50, 1000));
    assert_eq!(figure.rises(&before.runs, &after.runs), Some(false));
    assert_eq!(figure.rises(&after.runs, &before.runs), Some(true));
    assert_eq!(figure.rises(&after.runs, &after.runs), None);
}

/// A wait can be longer than the run, since it is the sum over tasks.
#[test]
fn waits_are_summed_over_tasks_and_a_file_is_no_cause() {
    let waiting = |label: &str, tasks: usize, ms: u64| {
        let mut variant = variant(label, &[(300, 1000)]);
        let class = &mut variant.runs[0].classes[0];
        (class.tasks, class.account.run_delay_ns) = (tasks, ms * 1_000_000);
        variant
    };
    let sentence = |tasks: usize| {
        let sides = vec![waiting("the file", tasks, 1240), waiting("the what-if", tasks, 310)];
        Comparison::new(sides).unwrap().sentence().replace('\n', " ")
    };
    assert_eq!(
        sentence(12),
        "What stands out: the waiting time of `web` is 75 % lower with the what-if than as in the file (31.00 % of a \
         CPU against 124.0 % of a CPU, summed over its 12 tasks)."
    );
    let none = vec![waiting("the file", 12, 1240), waiting("the what-if", 12, 0)];
    let none = Comparison::new(none).unwrap().sentence().replace('\n', " ");
    assert!(none.contains(" is 0 with the what-if but not in the file (0.00 % of a CPU against"), "{none}");
    assert!(sentence(1).ends_with("(31.00 % of the time against 124.0 % of the time)."), "{}", sentence(1));
    let sides = vec![waiting("2 CPUs, the file", 12, 310), waiting("2 CPUs, the what-if", 12, 1240)];
    let higher = Comparison::new(sides).unwrap().sentence().replace('\n', " ");
    assert!(
        higher.contains(" is 4.00 times as high with 2 CPUs, the what-if as with 2 CPUs, as in the file ("),
        "{higher}"
    );
}

fn fits(text: &str) {
    assert!(text.lines().all(|line| line.chars().count() <= usize::from(crate::WIDTH)), "{text}");
}

#[test]
fn what_differs_is_shown_and_stands_out() {
    let base = variant("6.1", &[(300, 1000), (302, 1010), (301, 990)]);
    let other = variant("6.12", &[(280, 4000), (281, 4100), (279, 3900)]);
    let comparison = Comparison::new(vec![base, other]).unwrap();
    let text = format!("{}\n{}\n", comparison.table(), comparison.sentence());
    fits(&text);
    insta::assert_snapshot!(text);
    let [base, other] = comparison.variants() else { panic!("there are two sides") };
    assert_eq!(standing_out(base, other)[0], "late_p50(web)");
}

#[test]
fn a_change_within_the_spread_does_not_stand_out() {
    let base = variant("6.1", &[(300, 1000), (340, 2000)]);
    let other = variant("6.12", &[(310, 1500), (320, 1900)]);
    assert!(standing_out(&base, &other).is_empty());
    let comparison = Comparison::new(vec![base, other]).unwrap();
    assert!(comparison.sentence().starts_with("Nothing stands out"), "{}", comparison.sentence());
    assert!(comparison.whole_table().contains('~'), "{}", comparison.whole_table());
    let table = comparison.table();
    fits(&table);
    assert_eq!(
        table,
        "5 of 5 rows are left out (within the spread or too small to matter), among them all rows of hog,\nweb. --all shows them.\n"
    );
}

/// Spreads that meet overlap. Otherwise their nearest ends count, not means.
#[test]
fn a_change_is_what_lies_between_the_spreads() {
    let compared = |a: &[(u64, u64)], b: &[(u64, u64)]| {
        let comparison = Comparison::new(vec![variant("a", a), variant("b", b)]).unwrap();
        let table = comparison.whole_table();
        let line = table.lines().find(|line| line.starts_with("web") && line.contains("CPU %")).unwrap();
        (
            comparison.sentence().starts_with("Nothing stands out"),
            line.split_whitespace().rev().nth(1).unwrap().to_owned(),
        )
    };
    let expected = |nothing, change: &str| (nothing, change.to_owned());
    assert_eq!(compared(&[(300, 10), (400, 10)], &[(400, 10), (500, 10)]), expected(true, "~+10.00"));
    assert_eq!(compared(&[(300, 10), (398, 10)], &[(400, 10), (500, 10)]), expected(true, "+10.10"));
    assert_eq!(compared(&[(300, 10), (390, 10)], &[(400, 10), (500, 10)]), expected(false, "+10.50"));
    assert_eq!(compared(&[(400, 10), (500, 10)], &[(300, 10), (390, 10)]), expected(false, "-10.50"));
    assert_eq!(compared(&[(300, 10), (340, 10)], &[(310, 10), (330, 10)]), expected(true, "0"));
}

/// A change must reach the floor, and 1 % of the larger value.
#[test]
fn a_change_matters_both_ways_or_not_at_all() {
    let share = &metrics::OF_CLASSES[0];
    assert_eq!((share.key, share.floor), ("share", 0.005));
    for (from, to, matters) in [(0.25, 0.255, true), (0.1, 0.1049, false), (0.992, 1.002, false), (0.992, 1.0025, true)]
    {
        assert_eq!((share.matters(from, to), share.matters(to, from)), (matters, matters), "{from} {to}");
    }
}

#[test]
fn a_tiny_change_does_not_stand_out_even_without_spread() {
    let comparison = Comparison::new(vec![variant("a", &[(300, 10)]), variant("b", &[(300, 40)])]).unwrap();
    assert!(comparison.sentence().starts_with("Nothing stands out"), "{}", comparison.sentence());
}

#[test]
fn what_rests_on_a_few_sleeps_does_not_stand_out() {
    let compared = |sleeps: u64, seeds: usize| {
        let variant =
            |label: &str, late_us| Variant { label: label.to_owned(), runs: vec![run_of(sleeps, 300, late_us); seeds] };
        Comparison::new(vec![variant("6.1", 4000), variant("6.12", 1000)]).unwrap()
    };
    let few = compared(3, 1);
    assert!(few.sentence().starts_with("Nothing stands out with 6.1, 6.12. Some changes rest on too few samples"));
    fits(&few.sentence());
    assert!(few.table().contains("lateness p50"), "the table has it: {}", few.table());
    // Median and worst of 20. 99th percentile of 100.
    assert!(compared(19, 1).sentence().starts_with("Nothing"));
    let several = compared(10, 2).sentence();
    assert!(several.contains("lateness") && !several.contains("99th"), "{several}");
    assert!(compared(99, 1).rows().iter().any(|row| row.metric.key == "late_p99" && !row.is_of_enough(1)));
    assert!(compared(100, 1).rows().iter().all(|row| row.is_of_enough(1) || row.samples[1] == 0));
}

#[test]
fn classes_of_different_sizes_are_reported() {
    let mut other = variant("b", &[(100, 5000)]);
    other.runs[0].classes[0].tasks = 4;
    let table = Comparison::new(vec![variant("a", &[(300, 10)]), other]).unwrap().table();
    assert!(table.contains("\nweb x1 to 4 "), "{table}");
}

#[test]
fn many_variants_are_shown_in_blocks_that_fit() {
    let variants = (0..6).map(|index| variant(&format!("kernel-{index}"), &[(300 + index * 10, 100), (305, 120)]));
    let comparison = Comparison::new(variants.collect()).unwrap();
    let table = comparison.whole_table();
    fits(&table);
    for index in 1..6 {
        assert!(table.contains(&format!("kernel-{index}")));
    }
}

#[test]
fn one_variant_is_no_comparison() {
    assert!(Comparison::new(vec![variant("a", &[(1, 1)])]).is_none());
    assert!(Comparison::new(vec![variant("a", &[]), variant("b", &[])]).is_none());
}

#[test]
fn a_variant_without_runs_has_no_values_and_no_sentence() {
    let two = Comparison::new(vec![variant("6.1", &[(300, 1000), (310, 1010)]), variant("6.12", &[])]).unwrap();
    assert_eq!(two.sentence(), "No run of 6.12 was completed, so it has no values.");
    let table = two.table();
    let row = |table: &str, what: &str| {
        let line = table.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what} in {table}"));
        line.split_whitespace().skip_while(|word| !word.contains('.')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row(&table, "lateness max"), ["1.00", "ms", "±5.00", "us", "-"]);
    assert!(!table.contains("pp") && !table.contains("left out"), "{table}");
    let json = two.json();
    for cell in json["cells"].as_array().unwrap() {
        assert_eq!(cell["values"][1], json!({"variant": "6.12", "mean": null, "min": null, "max": null}));
    }
    assert!(two.data_table().rows.iter().filter(|row| row[4] == "6.12".into()).all(|row| row[5] == Cell::Nothing));
    // Other variants are compared without it.
    let [a, b] = [variant("6.1", &[(300, 1000)]), variant("6.12", &[(200, 1000)])];
    let without = Comparison::new(vec![a.clone(), b.clone()]).unwrap();
    let with = Comparison::new(vec![a.clone(), b.clone(), variant("6.18", &[])]).unwrap();
    let shown = |comparison: &Comparison| comparison.differing().into_iter().map(|row| row.name).collect::<Vec<_>>();
    assert_eq!(shown(&without), shown(&with));
    assert_eq!(row(&with.table(), "CPU %"), ["30.00", "20.00", "-10.00", "pp", "-"]);
    let sentence = with.sentence().replace('\n', " ");
    assert!(sentence.starts_with(&without.sentence().replace('\n', " ")), "{sentence}");
    assert!(sentence.ends_with(" No run of 6.18 was completed, so it has no values."), "{sentence}");
    let first = Comparison::new(vec![variant("6.18", &[]), a, b]).unwrap();
    assert!(first.sentence().contains("with 6.12 than with 6.1"), "{}", first.sentence());
}

#[test]
fn json_has_mean_and_range_of_every_cell() {
    let comparison = Comparison::new(vec![variant("a", &[(300, 10), (310, 10)]), variant("b", &[(300, 10)])]).unwrap();
    let json = comparison.json();
    let cell = &json["cells"][0];
    assert_eq!((&cell["class"], &cell["metric"]), (&json!("web"), &json!("share")));
    assert_eq!(cell["values"][0], json!({"variant": "a", "mean": 0.305, "min": 0.3, "max": 0.31}));
}

#[test]
fn runs_without_a_class_in_common_have_a_sentence() {
    let mut other = variant("b", &[(100, 5)]);
    for class in &mut other.runs[0].classes {
        class.name.push_str("-other");
    }
    let comparison = Comparison::new(vec![variant("a", &[(300, 10)]), other]).unwrap();
    assert_eq!(comparison.sentence(), "Nothing can be compared: no class of tasks is in more than one of these runs.");
}

#[test]
fn energy_is_a_row_of_its_own() {
    let taking = |label: &str, uj: &[u64]| {
        let with = |&energy: &u64| {
            let cpu = |cpu| crate::CpuFrequency { cpu, energy_uj: Some(energy / 2), ..Default::default() };
            Results { frequencies: vec![cpu(0), cpu(1)], ..run(300, 1000) }
        };
        Variant { label: label.to_owned(), runs: uj.iter().map(with).collect() }
    };
    let comparison =
        Comparison::new(vec![taking("on", &[610_000, 620_000]), taking("off", &[760_000, 770_000])]).unwrap();
    let (table, sentence) = (comparison.table(), comparison.sentence());
    let row = table.lines().find(|line| line.contains("energy J")).expect("it is shown");
    assert!(row.starts_with("machine") && row.contains("0.615 ±0.00500") && row.contains("0.765"), "{row}");
    assert!(
        sentence.replace('\n', " ").contains("energy taken by busy CPUs of the machine is 24 % higher with off"),
        "{sentence}"
    );
    let without = Comparison::new(vec![variant("a", &[(300, 1000)]), variant("b", &[(300, 1000)])]).unwrap();
    assert!(!without.whole_table().contains("energy"));
    // Differences have enough digits, even in short runs.
    let short = Comparison::new(vec![taking("on", &[4_100]), taking("off", &[4_500])]).unwrap();
    let (table, sentence) = (short.table(), short.sentence().replace('\n', " "));
    assert!(sentence.contains("10 % higher with off than with on (0.00450 J against 0.00410 J)"), "{sentence}");
    assert!(table.contains("energy J  0.00410  0.00450  +9.8 %"), "{table}");
}

#[test]
fn a_change_that_no_digit_tells_is_none() {
    let web = |late_ns: u64| {
        let mut results = run(300, 1000);
        let class = results.classes.iter_mut().find(|class| class.name == "web").expect("it ran");
        class.sleep_return = class.sleep_return.map(|late| crate::Latency { max_ns: late_ns, ..late });
        results
    };
    let variant = |label: &str, late_ns| Variant { label: label.to_owned(), runs: vec![web(late_ns)] };
    let compared =
        Comparison::new(vec![variant("a", 5_000_000), variant("b", 5_000_001), variant("c", 6_000_000)]).unwrap();
    let table = compared.whole_table();
    let row = table.lines().find(|line| line.contains("lateness max")).expect("one differs");
    assert_eq!(row.split_whitespace().skip(2).collect::<Vec<_>>().join(" "), "5.00 ms 5.00 ms 0 % 6.00 ms +20.0 %");
}

/// A second with these tasks: CPU time, and lateness of 100 times.
fn run_with(tasks: &[(&str, u64, u64)]) -> Results {
    let mut results = run(1, 1);
    let like = results.classes[0].clone();
    results.classes = Vec::new();
    for &(name, cpu_us, late_us) in tasks {
        let mut class = like.clone();
        class.name = name.to_owned();
        class.account.cpu_ns = cpu_us * 1000;
        class.sleep_return = Some(crate::Latency {
            p50_ns: late_us * 1000,
            p99_ns: late_us * 1000,
            max_ns: late_us * 1000,
            ..class.sleep_return.unwrap()
        });
        results.classes.push(class);
    }
    results
}

/// `perf` hardly computes, and is first in the files. `idler` is equal in both. `lone` is in one.
#[test]
fn what_has_most_cpu_time_leads() {
    let compared = |with_web: bool| {
        let variant = |label: &str, factor: u64| {
            let mut tasks = vec![("perf", 100, 100 * factor * factor), ("idler", 900_000, 10)];
            if with_web {
                tasks.extend([("small", 50_000, 300 * factor), ("web", 300_000, 400 * factor)]);
            }
            if factor == 1 {
                tasks.insert(0, ("lone", 50, 70));
            }
            Variant { label: label.to_owned(), runs: vec![run_with(&tasks)] }
        };
        Comparison::new(vec![variant("a", 1), variant("b", 9)]).unwrap()
    };
    let comparison = compared(true);
    let order = |table: &DataTable| {
        let mut names: Vec<String> = table.rows.iter().map(|row| row[0].text(Kind::Text)).collect();
        names.dedup();
        names.join(" ")
    };
    assert_eq!(order(&comparison.page_table()), "web small perf idler lone", "first those that fare differently");
    let (sentence, table) = (comparison.sentence(), comparison.table());
    assert!(sentence.replace('\n', " ").contains("`web` is 9.00 times as high"), "{sentence}");
    assert!(!sentence.contains("perf"), "its change is larger, and it hardly computes: {sentence}");
    let positions = ["\nweb ", "\nsmall ", "\nperf "].map(|name| table.find(name).expect(name));
    assert!(positions.is_sorted(), "{table}");
    assert!(!table.contains("\nlone") && table.contains("all rows of idler, lone"), "{table}");
    let alone = compared(false).sentence();
    assert!(alone.contains("perf"), "a background task is named if there is no other: {alone}");
}

#[test]
fn a_page_sorts_by_value_and_every_column_has_a_name() {
    let several = |label: &str, late_us| variant(label, &[(300, late_us), (301, late_us + 10)]);
    let table = Comparison::new(vec![several("a", 569), several("b", 400)]).unwrap().page_table();
    assert!(table.columns.iter().all(|column| !column.head.is_empty()), "{:?}", table.columns);
    let late = table.rows.iter().find(|row| row[1] == Cell::from("lateness p50")).expect("it differs");
    assert!(
        matches!(&late[2], Cell::Measure { value, unit: "ns", text } if (569_000.0..580_000.0).contains(value) && text.starts_with("57")),
        "{late:?}"
    );
    assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
    let heads = |table: DataTable| table.columns.into_iter().map(|column| column.head).collect::<Vec<_>>();
    let once = Comparison::new(vec![variant("a", &[(300, 10)]), variant("b", &[(310, 10)])]).unwrap();
    assert_eq!(heads(once.page_table()), ["Tasks", "Metric", "a", "b", "Change"], "of one run there is no spread");
}

/// `web` in `/all/web`, with this throttled time if limited, and `hog` in `/all`.
fn run_in_groups(label: &str, throttled_ms: Option<u64>) -> Variant {
    let mut results = run(300, 10);
    let group = |path: &str, parent, tasks, cpu_ms: u64, limit| crate::GroupResult {
        path: path.to_owned(),
        parent,
        tasks,
        cpu_ns: cpu_ms * 1_000_000,
        limit,
        ..Default::default()
    };
    let limit = throttled_ms.map(|ms| crate::LimitResult {
        nr_periods: 10,
        nr_throttled: 4,
        throttled_ns: ms * 1_000_000,
        ..Default::default()
    });
    results.groups = vec![
        group("/", None, 2, 1300, None),
        group("/all", Some(0), 2, 1300_u64.saturating_sub(throttled_ms.unwrap_or(0)), None),
        group("/all/web", Some(1), 1, 300, limit),
        group("/empty", Some(0), 0, 300, None),
    ];
    for (task, group) in results.tasks.iter_mut().zip([2, 1]) {
        task.group = group;
    }
    Variant { label: label.to_owned(), runs: vec![results] }
}

/// Figures of a group that equals a class are shown once, beside effects of its limit.
#[test]
fn groups_are_rows_where_they_tell_more_than_classes() {
    let comparison = Comparison::new(vec![run_in_groups("a", Some(50)), run_in_groups("b", Some(250))]).unwrap();
    let table = comparison.table();
    fits(&table);
    let cells = |table: &str, name: &str| {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {table}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(cells(&table, "group /all "), ["group", "/all", "CPU", "%", "125.0", "105.0", "-20.00", "pp"]);
    assert_eq!(
        cells(&table, "group /all/web"),
        ["group", "/all/web", "throttled", "time", "%", "5.00", "25.00", "+20.00", "pp"],
        "not what `web` gets"
    );
    // Groups without a class have rows.
    assert!(comparison.whole_table().contains("group /empty"), "{}", comparison.whole_table());
    let sentence = comparison.sentence().replace('\n', " ");
    assert!(sentence.starts_with("What stands out: the CPU time of group `/all` is 16 % lower with b"), "{sentence}");
    let [before, after] = comparison.variants() else { panic!("there are two sides") };
    assert_eq!(standing_out(before, after)[0], "share(/all)");
    assert!(
        sentence.contains(
            "the throttled time, summed over CPUs, of group `/all/web` is 5.00 times as high with b as with a (25.00 % of a \
             CPU against 5.00 % of a CPU)"
        ),
        "{sentence}"
    );
    let limits = "With a, group `/all/web`: its CPU limit throttled it in 4 of 10 periods. With b, group `/all/web`: its CPU \
                  limit throttled it in 4 of 10 periods.";
    assert!(sentence.ends_with(limits), "{sentence}");
}

/// Latency is first although CPU time changes more. The limit of the class's group is the reason.
#[test]
fn latency_is_first_and_the_limit_behind_it_is_named() {
    let limited = |label: &str, cpu_ms: u64, late_us: u64, throttled: u64| {
        let mut variant = run_in_groups(label, Some(50));
        let mut results = run(cpu_ms, late_us);
        results.groups = std::mem::take(&mut variant.runs[0].groups);
        for (task, group) in results.tasks.iter_mut().zip([2, 1]) {
            task.group = group;
        }
        let limit = results.groups[2].limit.as_mut().expect("it has one");
        (limit.max, limit.nr_throttled) = (Some((20_000_000, 100_000_000)), throttled);
        Variant { label: label.to_owned(), runs: vec![results] }
    };
    let comparison = Comparison::new(vec![limited("a", 800, 1000, 0), limited("b", 100, 3000, 9)]).unwrap();
    let sentence = comparison.sentence().replace('\n', " ");
    let (first, also) = sentence.split_once(" Also: ").unwrap();
    assert!(first.contains("lateness of `web` is"), "{sentence}");
    assert!(also.contains("the CPU time of `web` is 88 % lower"), "{sentence}");
    let reason =
        "With b, group `/all/web`: its CPU limit of 0.2 CPUs (20.0 ms in each 100 ms) throttled it in 9 of 10 periods.";
    assert!(sentence.ends_with(reason) && !sentence.contains("With a, "), "{sentence}");
}

/// Response times are first, although lateness changes more. Each has a sentence.
#[test]
fn response_times_are_before_lateness() {
    let with = |label: &str, late_us: u64, response_us: u64| {
        let mut results = run(300, late_us);
        let times = crate::latency_of(&vec![response_us * 1000; 200]).expect("there are some");
        results.classes[0].response = Some(crate::Response { times, above_target: 0 });
        Variant { label: label.to_owned(), runs: vec![results] }
    };
    let sides = [with("the file", 100, 2_000), with("the what-if", 20_000, 4_000)];
    assert!(standing_out(&sides[0], &sides[1])[0].starts_with("response_"));
    let sentence = Comparison::new(sides.into()).unwrap().sentence().replace('\n', " ");
    let (first, also) = sentence.split_once(" Also: ").unwrap();
    assert!(first.contains("response time") && first.contains("of `web` is"), "{sentence}");
    assert!(also.contains("lateness of `web` is"), "{sentence}");
}

/// Reductions are percentages, as in the table.
#[test]
fn reductions_are_in_percent() {
    let lower = |to_us: u64| {
        let sides = vec![variant("a", &[(300, 1_000_000)]), variant("b", &[(300, to_us)])];
        let sentence = Comparison::new(sides).unwrap().sentence().replace('\n', " ");
        let (_, size) = sentence.split_once("of `web` is ").expect("it changes");
        size.split_once(" with").expect("a variant").0.to_owned()
    };
    assert_eq!([600_000, 384_000, 50_000].map(lower), ["40 % lower", "62 % lower", "95 % lower"]);
    assert_eq!([5_000, 500].map(lower), ["99.5 % lower", "more than 99.9 % lower"]);
}

/// A group that got more than its entitlement is explained, although nothing of it changes.
#[test]
fn groups_above_their_entitlement_are_explained() {
    let with = |label: &str, late_us: u64| {
        let mut variant = run_in_groups(label, None);
        let groups = std::mem::take(&mut variant.runs[0].groups);
        let mut results = run(300, late_us);
        results.groups = groups;
        for (group, [cpu_ms, entitled_ms]) in
            results.groups.iter_mut().zip([[900, 900], [500, 400], [0; 2], [400, 500]])
        {
            (group.cpu_ns, group.entitled_ns) = (cpu_ms * 1_000_000, entitled_ms * 1_000_000);
            group.run_delay_ns = group.cpu_ns;
        }
        for (task, group) in results.tasks.iter_mut().zip([3, 3]) {
            task.group = group;
        }
        Variant { label: label.to_owned(), runs: vec![results] }
    };
    let sides = vec![with("the file", 100), with("the what-if", 20_000)];
    let sentence = Comparison::new(sides).unwrap().sentence().replace('\n', " ");
    for side in ["Without the change", "With the what-if"] {
        let more = format!(
            "{side}, group `/all` got 50.00 % of a CPU, more than its entitlement of 40.00 % of a CPU: group `/empty` did not \
             get its entitlement."
        );
        assert!(sentence.contains(&more), "{sentence}");
    }
}

/// A class that moved into the group has had time elsewhere.
#[test]
fn a_group_that_a_class_came_to_late_has_rows_of_its_own() {
    let mut variants = [run_in_groups("a", Some(50)), run_in_groups("b", Some(250))];
    for variant in &mut variants {
        variant.runs[0].groups[2].cpu_ns /= 2;
    }
    let table = Comparison::new(variants.into()).unwrap().whole_table();
    let web: Vec<&str> = table.lines().skip_while(|line| !line.starts_with("group /all/web")).take(1).collect();
    assert!(web[0].contains("CPU %") && web[0].contains("15.00"), "{table}");
}

#[test]
fn data_has_every_figure_of_every_group() {
    let comparison = Comparison::new(vec![run_in_groups("a", None), run_in_groups("b", Some(250))]).unwrap();
    let json = comparison.json();
    let cells = json["cells"].as_array().expect("a list");
    let of = |path: &str, metric: &str| {
        let fitting = |cell: &&Value| cell["group"] == path && cell["metric"] == metric && cell["class"].is_null();
        cells.iter().find(fitting).map(|cell| [0, 1].map(|variant| cell["values"][variant]["mean"].clone()))
    };
    assert_eq!(of("/all/web", "share"), Some([json!(0.3), json!(0.3)]));
    assert_eq!(
        of("/all/web", "throttled"),
        Some([json!(0.0), json!(0.25)]),
        "a group without a limit is not throttled"
    );
    assert_eq!(of("/all", "throttled"), None, "there is none in any");
    assert!(of("/empty", "share").is_some());
    assert!(
        comparison.sentence().contains("throttled time, summed over CPUs, of group `/all/web`"),
        "{}",
        comparison.sentence()
    );
}

/// Without the check, the change would be 0 % higher.
#[test]
fn what_hardly_changes_does_not_stand_out() {
    let comparison = Comparison::new(vec![run_in_groups("a", Some(6000)), run_in_groups("b", Some(6050))]);
    let text = comparison.map(|comparison| format!("{}{}", comparison.table(), comparison.sentence())).unwrap();
    assert!(!text.contains("throttled"), "{text}");
}

#[test]
fn many_groups_with_long_names_are_left_to_the_data() {
    let mut variants = [run_in_groups("a", Some(50)), run_in_groups("b", Some(250))];
    for variant in &mut variants {
        let like = variant.runs[0].groups[3].clone();
        variant.runs[0].groups.extend((0..10_000).map(|index| crate::GroupResult {
            path: format!("/kubepods.slice/kubepods-burstable.slice/docker-{index:048x}.scope"),
            ..like.clone()
        }));
    }
    let comparison = Comparison::new(variants.into()).unwrap();
    let table = comparison.table();
    assert!(table.contains(" more. --all shows them."), "{table}");
    assert!(table.lines().count() < 20, "{table}");
    fits(&table);
    assert!(comparison.whole_table().contains("group /kubepods.…"), "elided in the middle");
    fits(comparison.whole_table().lines().next().expect("a head"));
}

/// The neighbour's comparison: alone, with a neighbour, with a limited neighbour.
#[test]
fn a_class_that_the_first_has_not_is_compared_with_the_first_that_has_it() {
    let mut alone = variant("alone", &[(300, 1000), (302, 1010)]);
    for run in &mut alone.runs {
        run.classes.retain(|class| class.name != "web");
    }
    let beside = variant("beside", &[(300, 1000), (302, 1010)]);
    let limited = variant("limited", &[(100, 4000), (101, 4100)]);
    let comparison = Comparison::new(vec![alone, beside, limited]).unwrap();
    let text = format!("{}\n{}\n", comparison.table(), comparison.sentence());
    fits(&text);
    assert!(text.contains("of `web` is") && text.contains("with limited than with beside"), "{text}");
    assert!(text.contains("-20.05 pp †") && text.contains("† relative to the first column that has a value"), "{text}");
    let shares = text.lines().find(|line| line.starts_with("web") && line.contains("CPU %")).unwrap();
    assert_eq!(shares.matches("pp").count(), 1, "with itself it is not compared: {shares}");
    let table = comparison.data_table();
    let changes: Vec<_> = table.rows.iter().map(|row| format!("{:?}", row.last())).collect();
    assert!(changes.iter().any(|change| change.contains("-0.66")), "{changes:?}");
}

#[test]
fn lateness_is_of_what_there_is_enough_of() {
    let latency = |values: &[u64]| crate::latency_of(values);
    let mut class = run(300, 1000).classes[0].clone();
    class.wakeup_latency = latency(&vec![800; 346]);
    class.sleep_return = latency(&[53_000]);
    assert_eq!(class.late(), class.wakeup_latency);
    class.sleep_return = latency(&vec![53_000; 40]);
    assert_eq!(class.late(), class.sleep_return);
    class.wakeup_latency = None;
    assert_eq!(class.late(), class.sleep_return);
    class.sleep_return = None;
    assert_eq!(class.late(), None);
    let mut run = run(300, 1000);
    (run.classes[0].wakeup_latency, run.classes[0].sleep_return) = (latency(&vec![800; 346]), latency(&[53_000]));
    (run.tasks[0].wakeup_latency, run.tasks[0].sleep_return) = (latency(&vec![800; 346]), latency(&[53_000]));
    let tables = run.tables();
    for table in &tables[..2] {
        let column = table.columns.iter().position(|column| column.key == "late_max_ns").expect("it is there");
        assert_eq!(table.rows[0][column], Cell::Int(800), "{}", table.name);
    }
}

/// `web` is `often` late, sometimes `rarely` late, microseconds, and moves `moves` times.
fn mixed(label: &str, often: u64, rarely: u64, moves: u64) -> Variant {
    let mut c = Collector::new(2);
    c.task(TaskId(0), &TaskInfo { name: "web", class: "web", ..TaskInfo::default() });
    c.event(0, CpuId(0), &Event::Fork { parent: None, child: TaskId(0) });
    let next = Running::Task(TaskId(0));
    c.event(0, CpuId(0), &Event::Switch { prev: Running::Idle, prev_state: PrevState::Preempted, next });
    for at in 0..200 {
        let late = if at % 20 == 0 { rarely } else { often } * 1000;
        c.event(5 + at, CpuId(0), &Event::SleepReturn { task: TaskId(0), late });
    }
    let (task, from, to, cause) = (TaskId(0), CpuId(0), CpuId(0), vruntime_trace::MigrateCause::Periodic);
    for at in 0..moves {
        c.event(300 + at, CpuId(0), &Event::Migrate { task, from, to, cause });
    }
    c.finish(1_000_000_000);
    Variant { label: label.to_owned(), runs: vec![c.into_results()] }
}

/// Times have units, and rates their interval.
#[test]
fn figures_in_sentences_have_units() {
    let switching = |label: &str, voluntary: u64| {
        let mut variant = variant(label, &[(300, 1000)]);
        for run in &mut variant.runs {
            run.classes[0].account.voluntary = voluntary;
        }
        variant
    };
    let text = Comparison::new(vec![switching("a", 132), switching("b", 22)]).unwrap().sentence().replace('\n', " ");
    assert!(
        text.contains("number of context switches of `web` is 83 % lower")
            && text.contains("(22 against 132 per second and task)"),
        "{text}"
    );
}

#[test]
fn a_median_that_falls_does_not_hide_a_tail_that_grows() {
    let text = Comparison::new(vec![mixed("a", 3000, 6000, 0), mixed("b", 80, 16_000, 0)]).unwrap().sentence();
    let text = text.replace('\n', " ");
    assert!(text.contains("the median lateness of `web` is 97 % lower"), "{text}");
    assert!(text.contains(", while the 99th percentile of lateness is 2."), "{text}");
    assert_eq!(text.matches("`web`").count(), 1, "{text}");
    let both = Comparison::new(vec![mixed("a", 3000, 16_000, 0), mixed("b", 80, 6000, 0)]).unwrap().sentence();
    assert!(!both.contains("while"), "{both}");
}

#[test]
fn counts_of_runs_that_were_stopped_somewhere_are_no_change() {
    let comparison = || Comparison::new(vec![mixed("a", 3000, 6000, 100), mixed("b", 80, 6000, 60)]).unwrap();
    let migrations = |table: String| table.lines().find(|line| line.contains("migrations")).map(str::to_owned).unwrap();
    assert!(migrations(comparison().whole_table()).contains("-40.0 %"));
    let stopped = comparison().unfinished().whole_table();
    assert!(!migrations(stopped.clone()).contains('%'), "{stopped}");
    assert!(comparison().unfinished().sentence().contains("All runs were stopped"));
    assert!(stopped.lines().any(|line| line.contains("lateness p50") && line.contains('%')), "{stopped}");
    let later = || Comparison::new(vec![mixed("a", 80, 3000, 0), mixed("b", 80, 6000, 0)]).unwrap();
    let worst = |table: String| table.lines().find(|line| line.contains("lateness max")).map(str::to_owned).unwrap();
    assert!(worst(later().whole_table()).contains("+100.0 %"));
    assert!(!worst(later().unfinished().whole_table()).contains('%'));
}
