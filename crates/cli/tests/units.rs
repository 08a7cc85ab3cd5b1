//! docs/units.md: each number has the page's unit, and one quantity has one value in all outputs.

#[path = "support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;
use support::{EVERYTHING, json, text, vruntime, well};

/// Added to [`EVERYTHING`], so that tasks wait.
const HOG: &str = "
[[task]]
name = \"hog\"
run = \"1ms\"
";

fn section(title: &str) -> String {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/units.md")).expect("the page");
    let rest = page.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no section {title}")).1;
    rest.split("\n## ").next().expect("there is a first").to_owned()
}

fn words(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The table rows of a section, without heads.
fn rows(section: &str) -> Vec<Vec<String>> {
    let lines: Vec<&str> = section.lines().collect();
    let is_row = |at: &usize| lines[*at].starts_with('|') && !lines[*at].starts_with("|---");
    let is_head = |at: usize| lines.get(at + 1).is_some_and(|line| line.starts_with("|---"));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    (0..lines.len()).filter(is_row).filter(|&at| !is_head(at)).map(|at| cells(lines[at])).collect()
}

/// Names of parts and of other numbers without a unit at their end.
fn parts() -> BTreeSet<String> {
    let section = section("Parts and other numbers");
    let named = rows(&section).iter().flat_map(|row| words(&row[0])).collect::<BTreeSet<_>>();
    let prose: String = section.lines().filter(|line| !line.starts_with('|')).collect::<Vec<_>>().join(" ");
    named.into_iter().chain(words(&prose)).collect()
}

fn figures() -> BTreeMap<String, BTreeSet<String>> {
    let mut units: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows(&section("Figures with a unit of their own")) {
        for name in words(&row[0]) {
            units.entry(name).or_default().insert(row[1].clone());
        }
    }
    units
}

/// Violations of the unit rules.
struct Check {
    parts: BTreeSet<String>,
    figures: BTreeMap<String, BTreeSet<String>>,
    faults: BTreeSet<String>,
    met: BTreeSet<String>,
}

/// Fields that have the unit of their row.
const MEASURED: [&str; 15] = [
    "mean",
    "min",
    "max",
    "recorded",
    "recorded_min",
    "recorded_max",
    "allowed_min",
    "allowed_max",
    "simulated",
    "alone",
    "left_out",
    "noise",
    "explained",
    "all_together",
    "values",
];

impl Check {
    fn new() -> Self {
        Self { parts: parts(), figures: figures(), faults: BTreeSet::new(), met: BTreeSet::new() }
    }

    /// Checks a value of `output`. `in_ns`: its object has nanoseconds. `measured`: its row has a unit.
    fn value(&mut self, output: &str, name: &str, value: &Value, in_ns: bool, measured: bool) {
        match value {
            Value::Object(fields) => {
                // Rows with a unit of their own.
                let unit = fields.get("unit").and_then(Value::as_str);
                if let (Some(unit), Some(metric)) = (unit, fields.get("metric").and_then(Value::as_str)) {
                    let metric = metric.split('(').next().unwrap_or(metric);
                    if !self.figures.get(metric).is_some_and(|units| units.contains(unit)) {
                        self.faults.insert(format!("{output}: the figure {metric} has the unit {unit}"));
                    }
                    self.met.insert(metric.to_owned());
                }
                for (key, value) in fields {
                    // These have units of their own, as the page says.
                    if ["cpu.stat", "cpu.pressure", "benchmarks"].contains(&key.as_str()) {
                        continue;
                    }
                    let of_row = (unit.is_some() || measured)
                        && (MEASURED.contains(&key.as_str()) || value.is_object() || value.is_array());
                    let in_ns = (in_ns && !["count", "above_target"].contains(&key.as_str())) || key.ends_with("_ns");
                    let key = if in_ns && !key.ends_with("_ns") { format!("{name}.{key}") } else { key.clone() };
                    self.value(output, &key, value, in_ns, of_row);
                }
            }
            Value::Array(values) => values.iter().for_each(|one| self.value(output, name, one, in_ns, measured)),
            Value::Number(number) if !measured && !in_ns => {
                self.met.insert(name.to_owned());
                let other = ["_s", "_us", "_ms", "_usec", "_msec", "_sec", "_percent", "_pct", "_permille"];
                if !name.ends_with("_per_s") && other.iter().any(|unit| name.ends_with(unit)) {
                    self.faults.insert(format!("{output}: {name} has another unit than its quantity elsewhere"));
                } else if number.is_f64()
                    && !self.parts.contains(name)
                    && !["_per_s", "_j", "per_second"].iter().any(|unit| name.ends_with(unit))
                {
                    self.faults.insert(format!("{output}: {name} = {number} is not in docs/units.md"));
                }
            }
            _ => {}
        }
    }

    /// All JSON files of a folder of `--tables --format json`.
    fn tables(&mut self, output: &str, folder: &Path) {
        let mut files: Vec<_> =
            fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "json")) {
            let table: Value = serde_json::from_slice(&fs::read(file).expect("it can be read")).expect("it is JSON");
            let name = file.file_stem().and_then(|name| name.to_str()).expect("it has a name").to_owned();
            self.value(&format!("{output} {name}"), &name, &table, false, false);
        }
    }
}

fn scenario(folder: &Path) -> String {
    let file = folder.join("all.toml");
    fs::write(&file, format!("{EVERYTHING}{HOG}")).expect("it can be written");
    file.display().to_string()
}

/// Every number in JSON and tables ends with its unit, or is on the page. The page has no other names.
#[test]
fn every_number_has_the_unit_of_the_page() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let file = scenario(folder.path());
    let mut check = Check::new();
    let mut run = |output: &str, arguments: &[&str], tables: bool| {
        let left = path(output);
        let more = ["--tables", &left, "--format", "json"];
        let all = [arguments, &["--json"], if tables { &more } else { &[] }].concat();
        let ended = vruntime(&all);
        // 2: there are differences, or idle CPUs.
        assert!(matches!(ended.status.code(), Some(0 | 2)), "{all:?}: {}", text(&ended.stderr));
        let printed: Value = serde_json::from_slice(&ended.stdout).expect("it prints JSON");
        check.value(output, output, &printed, false, false);
        if tables {
            check.tables(output, Path::new(&left));
        }
    };
    let analyses =
        "latency,antagonists,idle-while-waiting,runqueue,migrations,timehist,groups,throttling,critical-path:hog";
    let out = path("out");
    run(
        "run",
        &[
            "run",
            &file,
            "--repeat",
            "2",
            "--every",
            "300ms",
            "--target",
            "5ms",
            "--detect",
            "--analyse",
            analyses,
            "--out",
            &out,
        ],
        true,
    );
    run("run of 3.10", &["run", "groups.toml", "--kernel", "3.10"], true);
    let cpurc = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/history/cpurc.toml");
    run("run of 2.6.15", &["run", cpurc, "--duration", "1s"], true);
    let energy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/capacity/energy.toml");
    run("run with energy", &["run", energy, "--duration", "300ms"], true);
    run(
        "compare with energy",
        &["compare", energy, "--kernel", "6.6", "--kernel", "6.12", "--repeat", "2", "--duration", "300ms"],
        true,
    );
    run(
        "compare",
        &["compare", &file, "--kernel", "6.6", "--kernel", "6.12", "--repeat", "2", "--target", "5ms"],
        true,
    );
    run(
        "replay",
        &[
            "replay",
            "groups.pftrace",
            "--cgroups",
            "groups-cgroups.txt",
            "--map",
            "cgroup=/vr-capped:max=max",
            "--repeat",
            "2",
        ],
        true,
    );
    run("trace info", &["trace", "info", "groups.pftrace"], true);
    run("trace analyse", &["trace", "analyse", "groups.pftrace", "--cgroups", "groups-cgroups.txt"], true);
    run("fidelity", &["fidelity", "--kernel", "6.12", "--scenario", "quota-hogs", "--repeat", "1"], true);
    run("latencies", &["fidelity", "--kernel", "6.18", "--scenario", "group-waker", "--repeat", "1"], true);
    run(
        "bisect",
        &[
            "bisect",
            "groups.toml",
            "--from",
            "6.12",
            "--to",
            "6.12+NO_RUN_TO_PARITY",
            "--metric",
            "share(gold)",
            "--seeds",
            "1",
        ],
        false,
    );
    let (one, other) = (format!("{out}/trace.txt"), path("other"));
    well(&["run", &file, "--seed", "2", "--out", &other]);
    run("diff", &["diff", &one, &format!("{other}/trace.txt")], true);
    let wasted = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/wasted-cores/group-imbalance.toml");
    run("run with idle CPUs", &["run", wasted, "--detect", "--feature", "OLD_GROUP_AVG"], true);
    assert!(check.faults.is_empty(), "{:#?}", check.faults);
    // What the page names is there.
    let unmet: Vec<&String> = check.parts.iter().filter(|name| !check.met.contains(*name)).collect();
    // Names of outputs, and what has a value only for recordings with many small tasks.
    let elsewhere = [
        "antagonists",
        "critical-path",
        "bisect",
        "explained_share",
        "check",
        "verdict",
        "unplaced",
        "worst_cpu_share_off_by_name",
    ];
    let unmet: Vec<&String> = unmet.into_iter().filter(|name| !elsewhere.contains(&name.as_str())).collect();
    assert!(unmet.is_empty(), "on the page, and in no output: {unmet:?}");
    let names = check.figures.keys().filter(|name| !check.met.contains(*name));
    let unmet: Vec<&String> = names.collect();
    assert!(unmet.is_empty(), "figures on the page, and in no output: {unmet:?}");
}

/// A run's JSON, tables and comparison have one value.
#[test]
fn one_quantity_is_the_same_in_all_outputs() {
    let folder = tempfile::tempdir().expect("there is room");
    let tables = folder.path().join("tables");
    let file = scenario(folder.path());
    let run = json(&["run", &file, "--target", "5ms", "--json"]);
    let left = tables.display().to_string();
    let compare = ["compare", &file, "--kernel", "6.6", "--kernel", "6.12", "--repeat", "1", "--target", "5ms"];
    let compared = json(&[&compare[..], &["--json", "--tables", &left, "--format", "json"]].concat());
    let table = |name: &str| -> Vec<Value> {
        let text = fs::read_to_string(tables.join(format!("6.6-{name}.json"))).expect("it is left");
        serde_json::from_str(&text).expect("it is a list")
    };
    let number = |value: &Value, what: &str| value.as_f64().unwrap_or_else(|| panic!("{what}: {value}"));
    let cell = |kind: &str, name: &str, metric: &str| {
        let cells = compared["cells"].as_array().expect("a list");
        let fits = |cell: &&Value| cell[kind] == name && cell["metric"] == metric;
        let cell = cells.iter().find(fits).unwrap_or_else(|| panic!("no {metric} of {name}"));
        number(&cell["values"][0]["mean"], metric)
    };
    let observed = &run["observed"][0];
    let elapsed = number(&observed["machine"]["elapsed_ns"], "elapsed_ns");
    assert_eq!(observed["machine"]["elapsed_ns"], run["duration_ns"]);
    let same = |what: &str, values: &[f64]| {
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), &value| (a.min(value), b.max(value)));
        assert!(least > 0.0 && most - least <= 1e-9 * most, "{what}: {values:?}");
    };
    let (classes, groups, cpus) = (table("classes"), table("groups"), table("cpus"));
    let row = |rows: &[Value], key: &str, name: &str| rows.iter().find(|row| row[key] == name).expect("a row").clone();
    for name in ["batch", "hog"] {
        let (json, row) = (&observed["classes"][name], row(&classes, "class", name));
        let of = |key: &str| number(&row[key], key);
        let cpu = number(&json["cpu_ns"], "cpu_ns");
        same(
            "cpu",
            &[
                cpu / elapsed,
                number(&json["share"], "share"),
                of("share"),
                of("cpu_ns") / elapsed,
                cell("class", name, "share"),
            ],
        );
        let waited = number(&json["run_delay_ns"], "run_delay_ns");
        same(
            "wait",
            &[waited / elapsed, of("run_delay_ns") / elapsed, of("run_delay"), cell("class", name, "run_delay")],
        );
        same(
            "loop",
            &[number(&json["loop_duration_ns"]["p50"], "p50"), of("loop_p50_ns"), cell("class", name, "loop_p50")],
        );
    }
    let (json, of_batch) = (&observed["classes"]["batch"], row(&classes, "class", "batch"));
    same(
        "lateness",
        &[
            number(&json["wakeup_latency_ns"]["p99"], "p99"),
            number(&of_batch["late_p99_ns"], "p99"),
            cell("class", "batch", "late_p99"),
        ],
    );
    same("wakeup", &[number(&json["wakeup_to_run_ns"]["p50"], "p50"), number(&of_batch["wakeup_p50_ns"], "p50")]);
    let response = &json["response_ns"];
    same(
        "response",
        &[
            number(&response["p90"], "p90"),
            number(&of_batch["response_p90_ns"], "p90"),
            cell("class", "batch", "response_p90"),
        ],
    );
    let above = |value: &Value| number(value, "above_target");
    same(
        "target",
        &[above(&response["above_target"]), above(&of_batch["above_target"]), cell("class", "batch", "above_target")],
    );
    assert_eq!(response["target"], 5_000_000);
    let (json, of_group) = (&observed["groups"]["/limited"], row(&groups, "group", "/limited"));
    let of = |key: &str| number(&of_group[key], key);
    let both = |key: &str| number(&json[key], key);
    same("group", &[both("cpu_ns") / elapsed, of("share"), cell("group", "/limited", "share")]);
    same("entitled", &[both("entitled_ns") / elapsed, of("entitled_ns") / elapsed, of("entitled")]);
    same(
        "throttled",
        &[both("throttled_ns") / elapsed, of("throttled_ns") / elapsed, cell("group", "/limited", "throttled")],
    );
    same("periods", &[both("nr_throttled") / both("nr_periods"), of("throttled_periods")]);
    same("throttlings", &[both("nr_throttled"), of("nr_throttled"), cell("group", "/limited", "nr_throttled")]);
    same("limit", &[both("quota_ns") / both("period_ns"), of("limit"), 0.5]);
    same("quota", &[both("quota_ns"), of("quota_ns"), 50e6]);
    same(
        "pressure",
        &[of("pressure_some_ns") / elapsed, of("pressure_some"), cell("group", "/limited", "pressure_some")],
    );
    let usec = number(&json["cpu.pressure"]["some"]["total_usec"], "total_usec");
    assert!((usec * 1e3 - of("pressure_some_ns")).abs() < 1e3, "{usec}");
    let usec = number(&json["cpu.stat"]["usage_usec"], "usage_usec");
    assert!((usec * 1e3 - both("cpu_ns")).abs() < 1e3, "{usec}");
    for (json, row) in observed["cpus"].as_array().expect("a list").iter().zip(&cpus) {
        for part in ["busy", "overhead", "idle"] {
            let key = format!("{part}_ns");
            same(
                part,
                &[number(&json[&key], part) / elapsed, number(&row[&key], part) / elapsed, number(&row[part], part)],
            );
        }
    }
    // Printed in percent.
    let printed = well(&["run", &file]);
    let line = printed.lines().find(|line| line.starts_with("batch ")).expect("a row");
    let percent: f64 = line.split_whitespace().nth(2).and_then(|cell| cell.parse().ok()).expect("a number");
    assert!((percent - 100.0 * cell("class", "batch", "share")).abs() < 0.01, "{line}");
}
