//! Figures in the prose and tables of pages, from this repository's scenarios.

use serde_json::Value;

use super::page::{Page, range, well};
use super::root;

fn run(scenario: &str, more: &[&str]) -> Value {
    let file = root().join("scenarios").join(scenario).display().to_string();
    serde_json::from_slice(&well(&[&["run", &file, "--json"], more].concat())).expect("it prints JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("`{value}` is no number"))
}

/// Of all classes of a run, by cause.
fn migrations(observed: &Value, cause: &str) -> f64 {
    let classes = observed["classes"].as_object().expect("an object a class");
    classes.values().map(|class| number(&class["migrations"][cause])).sum()
}

/// docs/classes.md: a web server beside a report.
#[test]
fn waits_of_a_web_server() {
    let mut page = Page::open("classes.md");
    let [old, new] = ["6.1", "6.12"].map(|kernel| {
        let run = run("classes/yielding.toml", &["--kernel", kernel]);
        let web = &run["observed"][0]["classes"]["web"];
        format!("{:.2}", 100.0 * number(&web["run_delay_ns"]) / number(&run["duration_ns"]))
    });
    page.has(format!("the same web server waits {old} % of its time and not {new} ("));
    page.check();
}

/// docs/capacity.md: a machine's energy if wakeups ignore it, and the time of a frame.
#[test]
fn energy_of_wakeups() {
    let mut page = Page::open("capacity.md");
    let [aware, not] = [&[][..], &["--set", "sched_energy_aware=0"]].map(|more| {
        let observed = &run("capacity/energy.toml", more)["observed"][0];
        let cpus = observed["machine"]["cpu_frequency"].as_array().expect("a list").iter();
        let joules: f64 = cpus.map(|cpu| number(&cpu["energy_j"])).sum();
        (joules, number(&observed["classes"]["app"]["loop_duration_ns"]["p50"]) / 1e6)
    });
    page.has(format!("With `--set sched_energy_aware=0` it is {:.2} J:", not.0));
    // A frame is a loop less the 14 ms of its sleep.
    let [frame, without] = [aware.1, not.1].map(|ms| ms - 14.0);
    page.has(format!("a frame takes {without:.1} ms instead of {frame:.1} "));
    page.has(format!("`loop p50` {:.1} and {:.1})", not.1, aware.1));
    page.check();
}

/// docs/historical.md: five threads that should stay on their CPUs.
#[test]
fn spurious_migrations() {
    let mut page = Page::open("historical.md");
    let (mut all, mut pushed) = (vec![], vec![]);
    for kernel in ["3.17", "3.18"] {
        let run = run("history/spurious-migration.toml", &["--kernel", kernel, "--repeat", "5"]);
        let observed = run["observed"].as_array().expect("a run a seed").iter();
        let [moves, stopper]: [Vec<f64>; 2] = [true, false].map(|any| {
            let of = |one: &Value| {
                let causes =
                    if any { vec!["active", "newidle", "nohz_idle", "periodic", "wakeup"] } else { vec!["active"] };
                // Up to 4.5, each fork is two samples. Five threads are forked.
                let forked = if any { 10.0 } else { 0.0 };
                causes.into_iter().map(|cause| migrations(one, cause)).sum::<f64>() + forked
            };
            observed.clone().map(of).collect()
        });
        all.push(range(&moves, 0));
        pushed.push(range(&stopper, 0));
    }
    page.has(format!("| all | 727 | 20 | {} |", all.join(" | ")));
    page.has(format!("| by `migration/N` (here: pushes) | 691 | 1 | {} |", pushed.join(" | ")));
    page.check();
}

/// docs/analyses.md: causes of migrations, guessed where the trace has none.
#[test]
fn causes_of_migrations() {
    let mut page = Page::open("analyses.md");
    let folder = tempfile::tempdir().expect("there is room");
    let out = folder.path().to_str().expect("a name in UTF-8");
    let run = run("demo/demo.toml", &["--kernel", "6.1", "--duration", "2s", "--out", out]);
    let known = |cause: &str| migrations(&run["observed"][0], cause);
    let trace = folder.path().join("trace.txt").display().to_string();
    let json = well(&["trace", "analyse", &trace, "migrations", "--json"]);
    let json: Value = serde_json::from_slice(&json).expect("it prints JSON");
    let rows = json["tables"]["migrations"].as_array().expect("a row a cause");
    let taken = |cause: &str| rows.iter().find(|row| row["cause"] == cause).map_or(0.0, |row| number(&row["count"]));
    let all: f64 = rows.iter().map(|row| number(&row["count"])).sum();
    let [wakeup, newidle, periodic] = ["wakeup", "newidle", "periodic"].map(|cause| (taken(cause), known(cause)));
    let idle = (taken("idle"), known("nohz_idle"));
    assert_eq!((wakeup.0, idle.0), (wakeup.1, idle.1), "both causes are exact");
    page.has(format!(
        "In 2 s of `scenarios/demo` under 6.1 ({all} migrations), wakeups ({}) and idle balancing ({}) are exact. Newly idle \
         balancing is {} for {}, and periodic balancing {} for {}.",
        wakeup.0, idle.0, newidle.0, newidle.1, periodic.0, periodic.1
    ));
    page.check();
}
