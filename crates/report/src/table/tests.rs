//! Tables that are too long or too wide, and their paragraphs.

use super::*;
use crate::results::{ClassResult, GroupResult, MigrationCount};

/// Of 80 classes and groups, the last has used most CPU time. 40 rows have room.
#[test]
fn long_tables_show_what_used_most_and_count_the_rest() {
    let results = |rows: u64| Results {
        elapsed_ns: 1000,
        classes: (0..rows)
            .map(|row| {
                let account = Account { cpu_ns: row, ..Account::default() };
                ClassResult {
                    name: format!("class-{row:02}"),
                    tasks: 1,
                    group: None,
                    account,
                    wakeup_latency: None,
                    sleep_return: None,
                    loop_duration: None,
                    response: None,
                    migrations: MigrationCount::default(),
                }
            })
            .collect(),
        groups: (0..rows)
            .map(|row| GroupResult { path: format!("/group-{row:02}"), cpu_ns: row, ..GroupResult::default() })
            .collect(),
        ..Results::default()
    };
    let shown = |text: &str, start: &str| -> Vec<String> {
        let names = text.lines().filter_map(|line| line.split_whitespace().next());
        names.filter(|name| name.starts_with(start)).map(str::to_owned).collect()
    };
    for (text, start) in [(classes(&results(80)), "class-"), (groups(&results(80)), "/group-")] {
        let names = shown(&text, start);
        assert_eq!((names.len(), names[0].ends_with("79"), names[39].ends_with("40")), (40, true, true), "{text}");
        assert!(text.contains("and 40 more ") && text.contains("(shown: the 40 with most CPU time;"), "{text}");
    }
    let names = shown(&classes(&results(40)), "class-");
    assert!(names.len() == 40 && names.is_sorted(), "all of them, in the file's order: {names:?}");
}

#[test]
fn paragraphs_fit_and_words_stay_whole() {
    let text = "results are in a/rather-long/name/of-a-folder/that-nobody-breaks; open them";
    let expected = "  results are in\n    a/rather-long/name/of-a-folder/that-nobody-breaks;\n    open them";
    assert_eq!(wrap_at(24, text, "  "), expected);
    assert_eq!(wrap_at(WIDTH, text, ""), text);
}

#[test]
fn names_and_words_are_not_broken() {
    let name = "hackbench-receiver x80";
    let cells = || (0..9).map(|cell| format!("{cell}00.00 us")).collect::<Vec<String>>();
    let row = [vec![name.to_owned()], cells()].concat();
    let head =
        ["tasks", "CPU %", "wait %", "lateness p50", "p99", "max", "switch/s", "migrations", "loops", "loop p50"];
    let text = grid(&head, 1, [row]);
    assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
    let long = "sched_batch_wakeup_granularity_ns-and-more-than-that";
    let text = grid(&["a", "what"], 2, [vec!["b".repeat(60), format!("{long} {}", "words ".repeat(30))]]);
    assert!(text.contains(long) && text.contains(&"b".repeat(60)), "{text}");
}

#[test]
fn what_is_broken_anyway_makes_no_room_for_itself() {
    let head = ["group", "weight", "tasks", "CPU %", "entitled %", "% of entitled", "wait %", "pressure %", "switch/s"];
    let row = |path: String| {
        let cells = ["100", "2", "78.56", "63.82", "123.1", "94.14", "49.18", "500"].map(str::to_owned);
        [vec![path], cells.to_vec()].concat()
    };
    let pod = format!("/kubepods.slice/kubepods-burstable.slice/cri-containerd-{}.scope", "5c1a3e6f".repeat(8));
    let text = grid_of(100, &head, 1, [row("/kubepods.slice".to_owned()), row(pod)]);
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| (90..=100).contains(&widest)), "{widest:?}:\n{text}");
}

#[test]
fn columns_move_together_before_cells_are_broken() {
    let head = ["task", "CPU %", "replay", "switches", "replay", "p50", "replay", "p99", "replay"];
    let cells = ["work.sh-1982", "45.98", "34.14", "2", "3", "3.10 ms", "4.81 ms", "8.00 us", "1.68 ms"];
    let row = cells.map(str::to_owned).to_vec();
    let wide = grid_of(ENDLESS, &head, 1, [row.clone()]);
    let natural = wide.lines().map(|line| line.chars().count()).max().unwrap();
    for width in natural - 9..=natural + 1 {
        let text = grid_of(width as u16, &head, 1, [row.clone()]);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width && text.lines().count() == 3, "{width}: {text}");
        // The rule alone may be a column shorter.
        assert_eq!(text.contains("  45.98   34.14  "), width >= natural - 1, "{width}: {text}");
    }
    let text = grid_of(natural as u16 - 10, &head, 1, [row]);
    assert!(text.lines().count() > 3, "{text}");
}

/// The tables of a small workload are a column too wide for 80. Heads are then in two lines, and numbers keep their
/// units.
#[test]
fn a_head_is_broken_before_a_number_is_parted_from_its_unit() {
    let head =
        ["tasks", "CPU %", "wait %", "lateness p50", "p99", "max", "switch/s", "migrations", "loops", "loop p50"];
    let cells = ["batch x3", "161.4", "138.6", "53.5 us", "2.98 ms", "5.24 ms", "125", "52", "8060", "1.00 ms"];
    for width in 79..=100 {
        let text = grid_of(width, &head, 1, [cells.map(str::to_owned).to_vec()]);
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        assert!(["53.5 us", "2.98 ms", "5.24 ms", "1.00 ms"].iter().all(|cell| text.contains(cell)), "{text}");
        assert_eq!(text.lines().count(), if width > 84 { 3 } else { 4 }, "{text}");
    }
}

/// With 80 columns, heads break and columns move together before the table exceeds the terminal.
#[test]
fn columns_move_together_also_where_cells_are_broken() {
    let head =
        ["tasks", "CPU %", "wait %", "lateness p50", "p99", "max", "switch/s", "migrations", "loops", "loop p50"];
    let cells = ["video/decoder x18", "8.59", "22.45", "54.5 us", "3.91 ms", "3.91 ms", "243", "14", "17", "16.5 ms"];
    let text = grid_of(80, &head, 1, [cells.map(str::to_owned).to_vec()]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("video/decoder x18"), "{text}");
    // Without room, the rule is no longer than the table.
    for width in 20..=30 {
        let cells = ["abcdefghij", "klmnopqrst"].map(str::to_owned).to_vec();
        let text = grid_of(width, &["a", "b"], 1, [cells]);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(usize::from(width).max(21)), "{width}: {text}");
    }
}

#[test]
fn a_row_is_one_line_outside_a_terminal() {
    let rows = || [vec!["some words ".repeat(20), "1".to_owned()], vec!["short".to_owned(), "2".to_owned()]];
    let text = grid_of(ENDLESS, &["what", "how many"], 1, rows());
    assert_eq!(text.lines().count(), 4, "head, rule and two rows: {text}");
    for width in [60, WIDTH] {
        let text = grid_of(width, &["what", "how many"], 1, rows());
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
    }
}
