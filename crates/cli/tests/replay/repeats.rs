//! Replays with several seeds.

use super::*;

const CAPPED: [&str; 8] =
    ["replay", GROUPS, "--cgroups", CGROUPS, "--costs", "vm", "--map", "cgroup=/vr-capped: max=max"];

fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>().join(" ")).collect()
}

/// Each seed's run is as if alone, and the figures cover all seeds.
#[test]
fn repeats_of_replays_are_the_replays_alone() {
    let with = |more: &[&str]| json(&[&CAPPED[..], more, &["--json"]].concat(), b"");
    // Replays of these seeds alone make the same guesses as the first.
    let all = with(&["--seed", "14", "--repeat", "3"]);
    assert_eq!(all, with(&["--seed", "14", "--repeat", "3"]));
    let alone = ["14", "15", "16"].map(|seed| with(&["--seed", seed, "--repeat", "1"]));
    assert_eq!(alone[0]["over_seeds"], Value::Null);
    let runs = all["runs"].as_array().expect("there are runs");
    assert_eq!(runs.len(), 2);
    for (side, run) in runs.iter().enumerate() {
        assert_eq!(run["finished"], 3, "{run}");
        for (index, one) in alone.iter().enumerate() {
            assert_eq!(run["observed"][index], one["runs"][side]["observed"][0]);
        }
    }
    let cells = all["over_seeds"].as_array().expect("there are cells");
    for (side, key) in [("replayed", "replayed"), ("what_if", "what_if")] {
        let shares = alone.iter().map(|one| {
            let task = one["tasks"]
                .as_array()
                .unwrap()
                .iter()
                .find(|task| task["name"].as_str().unwrap().starts_with("capped"));
            let elapsed = one["duration_ns"][side].as_f64().unwrap();
            task.unwrap()[key]["cpu_ns"].as_f64().unwrap() / elapsed
        });
        let shares: Vec<f64> = shares.collect();
        let (least, most) =
            (shares.iter().copied().fold(f64::MAX, f64::min), shares.iter().copied().fold(0.0, f64::max));
        assert!(least < most, "seeds differ: {shares:?}");
        let cell = cells.iter().find(|cell| {
            cell["task"].as_str().is_some_and(|name| name.starts_with("capped")) && cell["metric"] == "share"
        });
        let cell = &cell.expect("it is there")[key];
        let near = |name: &str, value: f64| (cell[name].as_f64().unwrap() - value).abs() < 1e-9;
        assert!(near("min", least) && near("max", most) && near("mean", shares.iter().sum::<f64>() / 3.0), "{cell}");
    }
    let of_groups = cells.iter().filter(|cell| cell["group"] == "/vr-capped");
    let metrics: Vec<&str> = of_groups.map(|cell| cell["metric"].as_str().unwrap()).collect();
    assert!(
        ["share", "entitled", "run_delay", "nr_throttled", "progress"].iter().all(|metric| metrics.contains(metric))
    );
    assert_eq!(cells.iter().filter(|cell| !cell["cpu"].is_null()).count(), 2);
    let verdicts = all["verdict"]["of_seeds"].as_array().expect("each has one");
    let of_alone: Vec<&Value> = alone.iter().map(|one| &one["verdict"]["verdict"]).collect();
    assert!(verdicts.iter().eq(of_alone), "{verdicts:?}");
}

/// One table has a column for each run, and marks changes beyond the spread.
#[test]
fn several_seeds_are_reported_with_their_spread() {
    let output = well(&[&CAPPED[..], &["--repeat", "3"]].concat(), b"");
    let found = lines(&output);
    assert!(found[0].ends_with("(costs: vm, seeds 1 to 3)"), "{}", found[0]);
    assert!(
        found.iter().any(|line| line == "mean of 3 seeds, ± half the spread, ~ change within the spread"),
        "{output}"
    );
    assert!(found.iter().any(|line| line == "recorded replayed what if change"), "{output}");
    let capped = found.iter().find(|line| line.starts_with("group /vr-capped CPU % ")).expect("the group has a row");
    let (change, unit) = capped.rsplit(' ').nth(1).zip(capped.rsplit(' ').next()).expect("words");
    assert!(
        capped.matches('±').count() == 2 && unit == "pp" && change.parse::<f64>().is_ok_and(|by| by > 20.0),
        "{capped}"
    );
    assert!(
        found.iter().any(|line| line.contains(" rows are left out (within the spread or too small to matter)")),
        "{output}"
    );
    assert!(output.contains(" times as fast (") && output.contains("the figures are of the median seed."), "{output}");
    let all = well(&[&CAPPED[..], &["--repeat", "3", "--all"]].concat(), b"");
    assert!(all.lines().count() > output.lines().count() && !all.contains("are left out (within"), "{all}");

    let as_recorded = well(&["replay", "-", "--as-recorded", "--repeat", "2"], spinners().as_bytes());
    assert!(lines(&as_recorded).iter().any(|line| line == "recorded replayed"), "{as_recorded}");
    assert!(as_recorded.contains("mean of 2 seeds, ± half the spread\n"), "{as_recorded}");
    assert!(!as_recorded.contains("what if"), "{as_recorded}");
    let output = fails(&["replay", "-", "--repeat", "0"], b"");
    assert!(output.contains("expected a whole number from 1 to 1000"), "{output}");
}

/// Traces are of the first seed, files have the mean, and one file has all seeds.
#[test]
fn files_of_several_seeds() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (many, one, tables) = (path("many"), path("one"), path("tables"));
    let what_if = ["replay", "-", "--map", "light: nice=0"];
    let text = spinners();
    well(&[&what_if[..], &["--repeat", "3", "--out", &many, "--tables", &tables]].concat(), text.as_bytes());
    well(&[&what_if[..], &["--out", &one]].concat(), text.as_bytes());
    for trace in ["replayed/trace.txt", "what-if/trace.txt"] {
        let read = |folder: &str| std::fs::read_to_string(format!("{folder}/{trace}")).expect("it is left");
        assert!(read(&many) == read(&one), "{trace} is that of seed 1");
    }
    let csv = |name: &str| std::fs::read_to_string(format!("{tables}/{name}.csv")).expect("it is left");
    let over_seeds = csv("replay_over_seeds");
    assert!(over_seeds.starts_with("task,group,cpu,metric,unit,run,mean,min,max\n"), "{over_seeds}");
    let row = over_seeds.lines().find(|line| line.starts_with("heavy-5,,,share,of a CPU,what_if,")).expect("a row");
    let mean: f64 = row.split(',').nth(6).and_then(|mean| mean.parse().ok()).expect("a number");
    assert!((0.45..0.55).contains(&mean), "{row}");
    let progress = csv("replay_progress");
    let row = progress.lines().find(|line| line.starts_with("light-6,")).expect("it goes on");
    let cells: Vec<&str> = row.split(',').collect();
    let times: f64 = cells[8].parse().expect("a number");
    assert!((1.8..2.2).contains(&times) && cells[9].parse::<u64>().is_ok_and(|ns| ns < 600_000_000), "{row}");
}

/// A task's progress stands beside its CPU time and wait, also for groups.
#[test]
fn progress_is_a_result() {
    let stdout = well(&["replay", "-", "--map", "light: nice=0", "--repeat", "1"], spinners().as_bytes());
    let found = lines(&stdout);
    let head = "progress of CPU % replayed CPU % what if waited replayed waited what if rounds/s recorded rounds/s what if \
                times as fast work done after";
    let at = found.iter().position(|line| line == head).unwrap_or_else(|| panic!("no table of progress: {stdout}"));
    let row = found[at..].iter().find(|line| line.starts_with("light-6 ")).expect("it goes on");
    let words: Vec<&str> = row.split(' ').collect();
    let number = |at: usize| words[at].parse::<f64>().expect("a number");
    assert!((20.0..30.0).contains(&number(1)) && (45.0..55.0).contains(&number(2)), "{row}");
    assert!((1.8..2.2).contains(&number(9)) && (450.0..560.0).contains(&number(10)) && words[11] == "ms", "{row}");
    let of_groups = json(&[&CAPPED[..], &["--json"]].concat(), b"");
    let groups = of_groups["groups"].as_array().expect("there are groups");
    let of = |path: &str| groups.iter().find(|group| group["path"] == path).expect("it is there");
    let capped = of("/vr-capped");
    let tasks = of_groups["tasks"].as_array().expect("there are tasks");
    let task = tasks.iter().find(|task| task["group"] == "/vr-capped").expect("it is in the group");
    for field in ["progress", "work_done_ns", "recorded_rounds_per_s", "what_if_rounds_per_s"] {
        assert_eq!(capped[field], task[field], "{field}: the group has one task");
    }
    assert!(capped["progress"].as_f64().is_some_and(|times| times > 2.0), "{capped}");
    assert!(capped["work_done_ns"].as_u64().is_some_and(|ns| ns < 1_500_000_000), "{capped}");
    assert!(of("/vr-web")["progress"].as_f64().is_some_and(|times| times < 1.0), "{}", of("/vr-web"));
    assert_eq!(of("/vr-web")["work_done_ns"], Value::Null);
    // A recording tells how long its tasks waited.
    let waited = |run: &str| task[run]["run_delay_ns"].as_f64().expect("a number");
    assert!(waited("recorded") > 1e9 && waited("replayed") > 1e9 && waited("what_if") < waited("replayed"), "{task}");
    // What a rule removes does not get on.
    let gone = json(&["replay", "-", "--json", "--map", "heavy: remove"], spinners().as_bytes());
    assert_eq!((&gone["tasks"][0]["name"], &gone["tasks"][0]["progress"]), (&"heavy-5".into(), &Value::Null));
    assert_eq!(gone["progress"].as_array().map(Vec::len), Some(1), "{}", gone["progress"]);
}

/// In all tables of one output a head is of one run.
#[test]
fn every_column_says_which_run_it_is_of() {
    let stdout = well(&[&CAPPED[..], &["--repeat", "1"]].concat(), b"");
    let heads =
        stdout.lines().zip(stdout.lines().skip(1)).filter(|(_, rule)| rule.starts_with('─')).map(|(head, _)| head);
    let mut tables = 0;
    for head in heads {
        tables += 1;
        let columns: Vec<&str> = head.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
        let runs = ["recorded", "replayed", "what if"];
        let of_progress = ["times as fast", "work done after"];
        let says = |column: &&str| runs.iter().any(|run| column.ends_with(run)) || of_progress.contains(column);
        assert!(columns.len() > 2 && columns[1..].iter().all(says), "{head}");
    }
    assert_eq!(tables, 8, "{stdout}");
}
