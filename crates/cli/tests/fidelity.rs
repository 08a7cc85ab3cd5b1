//! `vruntime fidelity`.

mod support;

use support::*;

#[test]
fn fidelity_closes_with_the_count() {
    let table = well(&["fidelity", "--kernel", "6.18", "--scenario", "three-hogs"]);
    let last = table.lines().last().unwrap();
    let words: Vec<&str> = last.split(' ').collect();
    assert!(matches!(words.as_slice(), [_, "of", "9", "measurements", ..]), "{last}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let cells = json(&["fidelity", "--kernel", "6.18", "--scenario", "three-hogs", "--json"]);
    let inside = cells.as_array().unwrap().iter().filter(|cell| cell["inside"] == true).count();
    assert_eq!(words[0], inside.to_string());
    assert_eq!(cells[0]["recorded"].as_array().map(Vec::len), Some(3));
}

#[test]
fn fidelity_of_a_folder_is_that_of_the_copy_within() {
    let folder = "../../../../fidelity/ground-truth";
    let table = well(&["fidelity"]);
    assert_eq!(well(&["fidelity", folder]), table);
    assert!(table.starts_with("kernel "), "none of them is refused: {table}");
}

#[test]
fn repeats_judge_the_same_cells() {
    let count = |table: &str| table.lines().last().unwrap().split(' ').nth(2).map(str::to_owned);
    let once = well(&["fidelity", "--kernel", "6.18"]);
    let thrice = well(&["fidelity", "--kernel", "6.18", "--repeat", "3"]);
    assert_eq!(count(&once), count(&thrice));
    assert!(count(&once).is_some_and(|cells| cells != "0"), "{once}");
}

/// A refused recording is reported, not counted, and does not affect the next one's runs.
#[test]
fn what_is_refused_is_listed_and_not_counted() {
    let good = std::fs::read_to_string("../../fidelity/ground-truth/linux-6.18/three-hogs.json").unwrap();
    let edited = |name: &str, from: &str, to: &str| {
        assert!(good.contains(from), "{from}: {good}");
        good.replace(from, to).replace("\"three-hogs\"", &format!("\"{name}\""))
    };
    let (few, cpus) = ("\"cpus\": [\n     0\n    ]", "\"cpus\": [\n     9\n    ]");
    let refused = [
        (
            "linux-6.18/a-ninth-cpu.json",
            edited("a-ninth-cpu", few, cpus),
            "6.18 a-ninth-cpu: refused: task `a` is to run on CPU 9, but the machine has 2 CPU(s), 0 to 1",
        ),
        (
            "linux-2.6/ancient.json",
            edited("ancient", "\"kernel\": \"6.18.44\"", "\"kernel\": \"2.4.20\""),
            "2.4 ancient: this version has no kernel 2.4",
        ),
        (
            "linux-6.18/no-machine.json",
            edited("no-machine", "\"cpus\": 2,", "\"cpus\": 99999,"),
            "6.18 no-machine: refused: the machine would have more than 8192 CPUs",
        ),
        (
            "linux-6.18/torn.json",
            good[..300].to_owned(),
            "linux-6.18/torn.json: no recording: EOF while parsing a string",
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("linux-6.18/three-hogs.json", &good);
    let judge = ["fidelity", folder.path().to_str().unwrap(), "--repeat", "3"];
    let alone = well(&judge);
    assert!(alone.starts_with("kernel "), "{alone}");
    for (file, text, _) in &refused {
        write(file, text);
    }
    let table = well(&judge);
    let (skipped, rest) = table.split_once("\n\n").expect("a line of its own");
    assert_eq!(rest, alone, "the others are judged as they are alone");
    assert_eq!(skipped.lines().count(), refused.len(), "{skipped}");
    for (_, _, why) in &refused {
        assert!(skipped.lines().any(|line| line.ends_with(why)), "{why}: {skipped}");
    }
    let output = vruntime(&[&judge[..], &["--json"]].concat());
    let cells: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(cells.as_array().map(Vec::len), Some(9));
    let notes = text(&output.stderr);
    assert!(
        refused.iter().all(|(_, _, why)| notes.lines().any(|line| line.starts_with("note: ") && line.ends_with(why))),
        "{notes}"
    );
    // With none that can be simulated there is nothing to count.
    std::fs::remove_file(folder.path().join("linux-6.18/three-hogs.json")).unwrap();
    assert!(well(&judge).ends_with("\n0 of 0 measurements are within tolerance.\n"));
    // What the user names himself is no recording's fault.
    assert!(fails(&["fidelity", "--costs", "none-such"]).contains("profile"));
}

#[test]
fn fidelity_judges_throttling() {
    let cells = json(&["fidelity", "--kernel", "6.12", "--scenario", "quota-hogs", "--json"]);
    let of_group: Vec<_> = cells.as_array().unwrap().iter().filter(|cell| cell["class"] == "/Q").collect();
    assert_eq!(of_group.len(), 2);
    for (cell, metric) in of_group.iter().zip(["nr_throttled", "throttled_for"]) {
        assert_eq!((&cell["metric"], &cell["inside"]), (&metric.into(), &true.into()), "{cell}");
    }
}

/// A recording without its kernel's preemption model is judged, with a note.
#[test]
fn an_unknown_preemption_model_is_reported() {
    const TOLD: &str = ",\n \"preempt\": \"none\"";
    let text = std::fs::read_to_string("../../fidelity/ground-truth/linux-6.18/three-hogs.json").unwrap();
    assert!(text.contains(TOLD), "{text}");
    for (instead, note) in [
        ("", "note: no preemption model was recorded: voluntary is simulated"),
        (",\"preempt\": \"rt\"", "note: the recorded preemption model, `rt`, is not offered: voluntary is simulated"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("linux-6.18")).unwrap();
        let recording = text.replacen(TOLD, instead, 1);
        std::fs::write(folder.path().join("linux-6.18/three-hogs.json"), recording).unwrap();
        let output = vruntime(&["fidelity", folder.path().to_str().unwrap(), "--repeat", "1"]);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && err.contains(note), "{err}");
        assert!(out.lines().last().unwrap().contains(" of 9 measurements "), "{out}");
    }
}

/// The output of `--json` can also be written as a file.
#[test]
fn cells_are_left_as_a_table() {
    let which = ["fidelity", "--kernel", "6.12", "--scenario", "quota-hogs"];
    let cells = json(&[&which[..], &["--json"]].concat());
    let cells = cells.as_array().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_str().unwrap();
    let printed = well(&[&which[..], &["--tables", to, "--format", "json"]].concat());
    assert!(printed.lines().last().unwrap().contains(" measurements are within tolerance."), "{printed}");
    let text = std::fs::read_to_string(folder.path().join("cells.json")).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(rows.len(), cells.len());
    for (row, cell) in rows.iter().zip(cells) {
        for key in ["kernel", "scenario", "class", "metric", "unit", "simulated"] {
            assert_eq!(row[key], cell[key], "{key} of {cell}");
        }
        assert_eq!(row["verdict"], if cell["inside"] == true { "inside" } else { "outside" });
        let recorded: Vec<f64> =
            cell["recorded"].as_array().unwrap().iter().filter_map(serde_json::Value::as_f64).collect();
        assert_eq!(row["recorded_min"], recorded.iter().copied().fold(f64::INFINITY, f64::min));
        assert_eq!(row["recorded_max"], recorded.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        assert!(row["allowed_min"].as_f64() <= row["recorded_min"].as_f64(), "{row}");
    }
    well(&[&which[..], &["--tables", to]].concat());
    let csv = std::fs::read_to_string(folder.path().join("cells.csv")).unwrap();
    assert_eq!(csv.lines().count(), cells.len() + 1, "{csv}");
}

#[test]
fn the_help_has_every_tolerance() {
    let help = well(&["help", "fidelity"]);
    let cells = json(&["fidelity", "--kernel", "6.12", "--repeat", "1", "--json"]);
    for cell in cells.as_array().unwrap() {
        let metric = cell["metric"].as_str().unwrap();
        let named = if metric.starts_with("wakeup_latency") { "wakeup_latency_pNN" } else { metric };
        assert!(help.lines().any(|line| line.trim_start().starts_with(named)), "{metric}: {help}");
    }
    for line in ["nr_throttled         10 %", "throttled_for        15 %"] {
        assert!(help.contains(line), "{line}: {help}");
    }
}

/// Recordings against themselves: every value is within its range. Values that cannot be compared are reported, and
/// left out.
#[test]
fn a_machine_can_be_compared_with_itself() {
    let folder = "../../../../fidelity/ground-truth";
    let cells = json(&["fidelity", folder, "--against", folder, "--json"]);
    let cells = cells.as_array().unwrap();
    assert_eq!(cells.len(), json(&["fidelity", "--repeat", "1", "--json"]).as_array().unwrap().len());
    for cell in cells {
        assert!(cell["inside"].as_bool().unwrap() && cell.get("simulated").is_none(), "{cell}");
        let mut recorded: Vec<f64> =
            cell["recorded"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
        recorded.sort_by(f64::total_cmp);
        assert!((recorded[recorded.len() / 2] - cell["again"].as_f64().unwrap()).abs() < 1e-9, "{cell}");
    }

    let again = tempfile::tempdir().unwrap();
    let linux = again.path().join("linux-6.18");
    std::fs::create_dir(&linux).unwrap();
    let scenario = |name: &str| {
        let text = std::fs::read_to_string(format!("../../fidelity/ground-truth/linux-6.18/{name}.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let write =
        |recording: &serde_json::Value, name: &str| std::fs::write(linux.join(name), recording.to_string()).unwrap();
    let mut busier = scenario("three-hogs");
    for run in busier["observed"].as_array_mut().unwrap() {
        for task in run["tasks"].as_object_mut().unwrap().values_mut() {
            let switches = task["nr_involuntary_switches"].as_u64().unwrap();
            task["nr_involuntary_switches"] = serde_json::json!(2 * switches);
        }
    }
    write(&busier, "three-hogs.json");
    let mut longer = scenario("nice-ladder");
    longer["duration_s"] = serde_json::json!(60);
    write(&longer, "nice-ladder.json");
    let mut other = scenario("rt-mix");
    other["name"] = serde_json::json!("mine");
    write(&other, "mine.json");
    let mut quicker = scenario("short-waker");
    quicker["workload"] = scenario("five-on-2")["workload"].clone();
    write(&quicker, "short-waker.json");
    let stdout = well(&["fidelity", "--kernel", "6.18", "--against", again.path().to_str().unwrap()]);
    for line in [
        "6.18 nice-ladder: runs of 5 s, and of 60 s again",
        "6.18 short-waker: another workload was recorded again",
        "6.18 rt-mix: not recorded again",
        "6.18 mine: only recorded again",
    ] {
        assert!(stdout.lines().any(|printed| printed == line), "{line}: {stdout}");
    }
    let outside: Vec<&str> = stdout.lines().filter(|line| line.contains("OUTSIDE")).collect();
    assert!(!outside.is_empty() && outside.iter().all(|line| line.contains("switches")), "{stdout}");
    assert!(stdout.contains("recorded  again  verdict"), "{stdout}");

    let nothing = ["fidelity", "--scenario", "rt-mix", "--against", again.path().to_str().unwrap()];
    assert!(fails(&nothing).contains("no recording can be compared"), "{}", fails(&nothing));
    assert!(
        text(&vruntime(&["fidelity", "--against", folder, "--costs", "vm"]).stderr).contains("cannot be used with")
    );
}
