//! Whole recordings of a few seconds: `nice` and `mix`.

use std::fs::File;

use super::*;

fn whole(name: &str, line: impl Fn(&Record<'_>) -> String) -> (Vec<String>, Summary, Notes) {
    let mut file = File::open(fixture(&format!("{name}.perf-script.txt.zst"))).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut ruzstd::decoding::StreamingDecoder::new(&mut file).unwrap(), &mut bytes).unwrap();
    read_events(read::from_reader(Cursor::new(bytes)).unwrap(), line)
}

/// The counts are those of an independent parser.
#[test]
fn recordings_have_the_counts_of_an_independent_parser() {
    type Row = (&'static str, f64, &'static [(&'static str, u64)]);
    let rows: [Row; 2] = [
        (
            "nice",
            2.52,
            &[
                ("sched_switch", 846),
                ("sched_wakeup", 120),
                ("sched_waking", 121),
                ("sched_wakeup_new", 8),
                ("sched_migrate_task", 9),
                ("sched_stat_runtime", 1427),
            ],
        ),
        (
            "mix",
            3.01,
            &[
                ("sched_switch", 3948),
                ("sched_wakeup", 2205),
                ("sched_waking", 2210),
                ("sched_wakeup_new", 6),
                ("sched_migrate_task", 14),
                ("sched_stat_runtime", 5213),
            ],
        ),
    ];
    for (name, span, counts) in rows {
        let (_, summary, notes) = whole(name, |_| String::new());
        without_loss(&notes, Kind::PerfScript);
        assert_eq!(summary.cpus().count(), 2, "{name}");
        assert!((summary.clock().span_ns() as f64 / 1e9 - span).abs() < 0.006, "{name}: {}", summary.clock().span_ns());
        for &(event, count) in counts {
            assert_eq!(summary.count_of(event), count, "{name}: {event}");
        }
    }
}

#[test]
fn spinners_ran_as_long_as_they_were_charged_for() {
    let (_, summary, _) = whole("nice", |_| String::new());
    let spinners: Vec<u64> = summary.tasks().iter().take(4).map(|task| task.cpu_ns / 100_000).collect();
    assert_eq!(spinners, [10307, 10295, 3363, 1112], "in 100 us; see data/README.md");
}
