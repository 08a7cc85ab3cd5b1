//! Rules of the comparison at their edges.

use super::*;

fn task(class: &str, cpu_s: f64, switches: f64, migrations: f64, latency: Option<[f64; 3]>) -> ObservedTask {
    let wakeup_latency_ns = latency.map(|us| us.map(|us| us * 1e3));
    ObservedTask {
        class: class.to_owned(),
        cpu_ns: cpu_s * 1e9,
        switches,
        migrations: Some(migrations),
        wakeup_latency_ns,
    }
}

fn run(tasks: impl IntoIterator<Item = ObservedTask>) -> Observation {
    Observation { tasks: tasks.into_iter().collect(), groups: Vec::new() }
}

fn recorded(runs: Vec<Observation>) -> RecordedScenario {
    let (kernel, scenario) = ("6.18".to_owned(), "s".to_owned());
    RecordedScenario { kernel, scenario, cpus: 2, one_cpu: false, emulated: false, duration_ns: 5e9, runs }
}

/// Whether a task with these values is inside `recorded`, for one metric.
fn inside(recorded: &RecordedScenario, metric: &str, simulated: ObservedTask) -> bool {
    let cells = cells(recorded, Against::Simulation, &[run([simulated])]);
    let cell = cells.iter().find(|cell| cell.metric == metric);
    cell.unwrap_or_else(|| panic!("no cell for {metric}")).inside
}

fn share(cpu_s: f64) -> ObservedTask {
    task("a", cpu_s, 0.0, 0.0, None)
}

fn switches(count: f64) -> ObservedTask {
    task("a", 0.0, count, 0.0, None)
}

fn migrations(count: f64) -> ObservedTask {
    task("a", 0.0, 0.0, count, None)
}

fn latency(us: f64) -> ObservedTask {
    task("a", 0.0, 0.0, 0.0, Some([us; 3]))
}

/// The median of runs counts, for an even number the mean of the middle two.
#[test]
fn the_median_of_what_was_found_is_judged() {
    let recorded = recorded(vec![run([share(1.0)])]);
    let found = |all: &[f64]| {
        let runs: Vec<Observation> = all.iter().map(|&cpu_s| run([share(cpu_s)])).collect();
        cells(&recorded, Against::Simulation, &runs)[0].found
    };
    assert_eq!((found(&[3.0, 1.0, 2.0]), found(&[4.0, 1.0, 2.0, 3.0]), found(&[])), (Some(0.4), Some(0.5), None));
}

#[test]
fn a_cell_that_allows_0_is_not_telling() {
    let telling = |count| {
        let cells = cells(&recorded(vec![run([switches(count)])]), Against::Simulation, &[run([switches(count)])]);
        cells.iter().find(|cell| cell.metric == "switches").map(Cell::is_telling)
    };
    assert_eq!((telling(0.0), telling(1.0)), (Some(false), Some(true)));
}

#[test]
fn the_last_switch_of_an_ended_task_is_not_counted() {
    use vruntime_trace::{CpuId, Event, PrevState, Running, Sink, TaskId};
    let mut c = crate::collector::Collector::new(1);
    let mut tell = |at, event| c.event(at, CpuId(0), &event);
    let [a, b] = [0, 1].map(|id| Running::Task(TaskId(id)));
    for (at, prev, prev_state, next) in [
        (0, Running::Idle, PrevState::Preempted, a),
        (5, a, PrevState::Preempted, b),
        (7, b, PrevState::Sleeping, a),
        (9, a, PrevState::Dead, Running::Idle),
    ] {
        tell(at, Event::Switch { prev, prev_state, next });
    }
    let observed = Observation::from(&c.into_results());
    assert_eq!(observed.tasks.iter().map(|task| task.switches).collect::<Vec<f64>>(), [1.0, 1.0]);
}

#[test]
fn share_is_within_points_of_the_recorded_range() {
    // 20 % to 21 % of a CPU.
    let mut recorded = recorded(vec![run([share(1.0)]), run([share(1.05)])]);
    for (cpu_s, several, one) in [
        (0.924, false, false),
        (0.926, true, false),
        (0.974, true, false),
        (0.976, true, true),
        (1.02, true, true),
        (1.074, true, true),
        (1.076, true, false),
        (1.124, true, false),
        (1.126, false, false),
    ] {
        recorded.one_cpu = false;
        assert_eq!(inside(&recorded, "cpu_share", share(cpu_s)), several, "{cpu_s} on several CPUs");
        recorded.one_cpu = true;
        assert_eq!(inside(&recorded, "cpu_share", share(cpu_s)), one, "{cpu_s} on one CPU");
    }
}

#[test]
fn switches_are_within_a_tenth_and_a_fifth_if_emulated() {
    let mut recorded = recorded(vec![run([switches(1000.0)]), run([switches(1200.0)])]);
    for (count, real, emulated) in [
        (799.0, false, false),
        (801.0, false, true),
        (901.0, true, true),
        (1319.0, true, true),
        (1321.0, false, true),
        (1441.0, false, false),
    ] {
        recorded.emulated = false;
        assert_eq!(inside(&recorded, "switches", switches(count)), real, "{count}");
        recorded.emulated = true;
        assert_eq!(inside(&recorded, "switches", switches(count)), emulated, "{count} emulated");
    }
}

#[test]
fn small_counts_of_switches_get_no_slack() {
    let recorded = recorded(vec![run([switches(0.0)]), run([switches(3.0)])]);
    assert!(inside(&recorded, "switches", switches(3.0)));
    assert!(!inside(&recorded, "switches", switches(4.0)));
}

#[test]
fn migrations_are_within_a_factor_of_two_or_ten() {
    let few = recorded(vec![run([migrations(3.0)])]);
    assert!(inside(&few, "migrations", migrations(0.0)));
    assert!(inside(&few, "migrations", migrations(13.0)));
    assert!(!inside(&few, "migrations", migrations(14.0)));
    let many = recorded(vec![run([migrations(100.0)]), run([migrations(200.0)])]);
    for (count, expected) in [(49.0, false), (50.0, true), (400.0, true), (401.0, false)] {
        assert_eq!(inside(&many, "migrations", migrations(count)), expected, "{count}");
    }
}

#[test]
fn latency_is_within_a_fifth_or_a_hundred_us() {
    let small = recorded(vec![run([latency(60.0)])]);
    assert!(inside(&small, "wakeup_latency_p50", latency(0.0)));
    assert!(inside(&small, "wakeup_latency_p99", latency(160.0)));
    assert!(!inside(&small, "wakeup_latency_p90", latency(161.0)));
    let large = recorded(vec![run([latency(1000.0)])]);
    for (us, expected) in [(799.0, false), (801.0, true), (1199.0, true), (1201.0, false)] {
        assert_eq!(inside(&large, "wakeup_latency_p90", latency(us)), expected, "{us}");
    }
}

#[test]
fn emulated_latency_is_wider_and_not_judged_beyond_two_cpus() {
    let mut emulated = recorded(vec![run([latency(4000.0)])]);
    emulated.emulated = true;
    for (us, expected) in [(2799.0, false), (2801.0, true), (5199.0, true), (5201.0, false)] {
        assert_eq!(inside(&emulated, "wakeup_latency_p50", latency(us)), expected, "{us}");
    }
    emulated.cpus = 4;
    let metrics: Vec<&str> = cells(&emulated, Against::Simulation, &[]).iter().map(|cell| cell.metric).collect();
    assert_eq!(metrics, ["cpu_share", "switches", "migrations"]);
}

#[test]
fn a_class_is_judged_by_its_mean() {
    let recorded = recorded(vec![run([switches(100.0), switches(300.0)])]);
    let simulated = run([switches(200.0), switches(200.0)]);
    let cells = cells(&recorded, Against::Simulation, &[simulated]);
    let cell = cells.iter().find(|cell| cell.metric == "switches").unwrap();
    assert_eq!((cell.recorded.as_slice(), cell.found, cell.inside), (&[200.0][..], Some(200.0), true));
}

#[test]
fn what_the_simulation_lacks_is_outside() {
    let recorded = recorded(vec![run([latency(100.0)])]);
    let cells = cells(&recorded, Against::Simulation, &[run([share(0.0)])]);
    let cell = cells.iter().find(|cell| cell.metric == "wakeup_latency_p50").unwrap();
    assert_eq!((cell.found, cell.inside), (None, false));
}

#[test]
fn several_simulated_runs_count_by_their_median() {
    let recorded = recorded(vec![run([switches(100.0)])]);
    let runs = [5.0, 100.0, 101.0].map(|count| run([switches(count)]));
    let cells = cells(&recorded, Against::Simulation, &runs);
    assert_eq!(cells.iter().find(|cell| cell.metric == "switches").unwrap().found, Some(100.0));
}

#[test]
fn the_table_ends_with_the_count() {
    let recorded = recorded(vec![
        run([task("web", 1.0, 100.0, 3.0, Some([50.0, 60.0, 70.0]))]),
        run([task("web", 1.25, 130.0, 3.0, Some([55.0, 66.0, 99.0]))]),
    ]);
    let cells =
        cells(&recorded, Against::Simulation, &[run([task("web", 1.1, 90.0, 40.0, Some([10.0, 20.0, 500.0]))])]);
    let all = table(&cells, false);
    insta::assert_snapshot!(all);
    let last = "4 of 6 measurements are within tolerance. Without those that a simulated 0 would also meet: 2 of 2.";
    assert_eq!(all.lines().last(), Some(last));
    // The line counts all cells, also if the table has only those outside.
    let outside = table(&cells, true);
    assert_eq!(
        (outside.lines().last(), outside.matches("OUTSIDE").count(), outside.lines().count()),
        (Some(last), 2, 6)
    );
    assert_eq!(closing_line(&cells[..1]), "1 of 1 measurements are within tolerance.");
}

#[test]
fn json_of_a_cell_has_the_promised_fields() {
    let recorded = recorded(vec![run([switches(100.0)]), run([switches(90.0)])]);
    let cells = cells(&recorded, Against::Simulation, &[run([switches(95.0)])]);
    let json = serde_json::to_value(&cells[1]).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"kernel": "6.18", "scenario": "s", "class": "a", "metric": "switches", "unit": "count",
            "recorded": [100.0, 90.0], "simulated": 95.0, "inside": true})
    );
}

#[test]
fn throttling_of_a_group_is_within_its_tolerances() {
    let group = |nr_throttled, throttled_ns| Observation {
        tasks: vec![share(1.0)],
        groups: vec![ObservedGroup { path: "/Q".to_owned(), nr_throttled, throttled_ns }],
    };
    let recorded = recorded(vec![group(50.0, 2e6), group(54.0, 3e6)]);
    for (periods, time, expected) in [
        (45.0, 1.7e6, [true, true]),
        (44.9, 1.69e6, [false, false]),
        (59.4, 3.45e6, [true, true]),
        (59.5, 3.46e6, [false, false]),
    ] {
        let cells = cells(&recorded, Against::Simulation, &[group(periods, time)]);
        let of_group: Vec<&Cell> = cells.iter().filter(|cell| cell.class == "/Q").collect();
        assert_eq!(of_group.iter().map(|cell| cell.metric).collect::<Vec<_>>(), ["nr_throttled", "throttled_for"]);
        assert_eq!(of_group.iter().map(|cell| cell.inside).collect::<Vec<_>>(), expected, "{periods} {time}");
    }
    // A run without the limit is not inside.
    let without = cells(&recorded, Against::Simulation, &[run([share(1.0)])]);
    assert!(without.iter().filter(|cell| cell.class == "/Q").all(|cell| !cell.inside && cell.found.is_none()));
}

#[test]
fn strain_is_counted_in_tolerances() {
    let recorded = recorded(vec![run([switches(100.0)]), run([switches(200.0)])]);
    let strain = |value: f64| {
        let cells = cells(&recorded, Against::Simulation, &[run([switches(value)])]);
        cells.iter().find(|cell| cell.metric == "switches").expect("it is judged").strain()
    };
    let expected = [(100.0, 0.0), (150.0, 0.0), (200.0, 0.0), (210.0, 0.5), (220.0, 1.0), (95.0, 0.5)];
    for (value, strains) in expected {
        assert!((strain(value) - strains).abs() < 1e-9, "{value}: {}", strain(value));
    }
    let none = cells(&recorded, Against::Simulation, &[run([])]);
    assert!(none.iter().all(|cell| cell.strain().is_infinite()));
}

#[test]
fn a_page_has_the_furthest_outside_first() {
    let recorded = recorded(vec![run([task("a", 1.0, 100.0, 0.0, Some([10.0, 50.0, 90.0]))])]);
    let cells = cells(&recorded, Against::Simulation, &[run([task("a", 1.0, 150.0, 0.0, Some([10.0, 5000.0, 90.0]))])]);
    let html = page(&cells, "two machines", &["a note".to_owned()]).html();
    assert!(
        html.contains("would also meet: 1 of 2. All: 66.7 %.")
            && html.contains("two machines")
            && html.contains("a note")
    );
    let shown = html.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next()).expect("it has data");
    let shown: serde_json::Value = serde_json::from_str(shown).expect("which is JSON");
    let outside = &shown["tables"][0]["tables"][0]["table"]["rows"];
    let metrics: Vec<&str> = outside.as_array().unwrap().iter().filter_map(|row| row[3].as_str()).collect();
    assert_eq!(metrics, ["wakeup_latency_p90 (us)", "switches (count)"]);
    assert!(html.contains("Furthest outside: wakeup_latency_p90 of a in s under 6.18."));
}
