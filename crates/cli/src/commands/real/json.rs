//! What was measured, as JSON in the shape of a simulation's: what the kernel does not tell, or was not asked for, is null.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use vruntime_linux::Measured;
use vruntime_report::{Results, RunInfo, observed_json, run_json};

/// Of tasks and classes only a simulation knows these.
const OF_TASKS: [&str; 3] = ["user_s", "system_s", "idle_waits"];
/// And of groups these.
const OF_GROUPS: [&str; 2] = ["entitled_s", "cpu.pressure"];

pub(super) fn json_of(name: &str, runs: &[Measured], results: &[Results]) -> Value {
    let first = runs.first();
    let info = RunInfo {
        name: name.to_owned(),
        kernel: first.map(|run| run.kernel.clone()).unwrap_or_default(),
        cpus: first.map_or(0, |run| run.cpus),
        topology: "host".to_owned(),
        duration_s: first.map_or(0, |run| run.elapsed_ns) as f64 / 1e9,
        gate: true,
        ..RunInfo::default()
    };
    let mut json = run_json(&info, runs.iter().zip(results).map(|(run, results)| observed(run, results)).collect());
    if let Value::Object(fields) = &mut json {
        for absent in ["hz", "preempt", "autogroup", "costs", "emulated"] {
            fields.remove(absent);
        }
    }
    json
}

fn observed(run: &Measured, results: &Results) -> Value {
    let mut json = observed_json(results, 0, 0);
    unmeasured(&mut json, run, results);
    if let Value::Object(fields) = &mut json {
        // Nothing here is repeatable, and the kernel does not tell what CPUs did.
        for absent in ["seed", "digest", "cpus", "machine"] {
            fields.remove(absent);
        }
        fields.insert("others".to_owned(), json!(run.others));
        fields.insert("notes".to_owned(), json!(run.notes));
        fields.insert("interrupted".to_owned(), json!(run.interrupted));
    }
    json
}

/// Makes null what was not measured: a 0 would say that there was none. Sums are not known where a part of them is not.
fn unmeasured(json: &mut Value, run: &Measured, results: &Results) {
    let (mut waits, mut moves) = (Unknown::default(), Unknown::default());
    for (measured, task) in run.tasks.iter().zip(&results.tasks) {
        let groups = std::iter::successors(Some(task.group), |&group| results.groups.get(group)?.parent);
        for (unknown, value) in [(&mut waits, measured.run_delay_ns), (&mut moves, measured.migrations)] {
            if value.is_none() {
                unknown.tasks.insert(&task.name);
                unknown.classes.insert(&results.classes[task.class].name);
                unknown.groups.extend(groups.clone().filter_map(|at| Some(results.groups.get(at)?.path.as_str())));
            }
        }
    }
    for (name, task) in entries(json, "tasks") {
        of_task(task, waits.tasks.contains(name.as_str()), moves.tasks.contains(name.as_str()));
    }
    for (name, class) in entries(json, "classes") {
        of_task(class, waits.classes.contains(name.as_str()), moves.classes.contains(name.as_str()));
        // By cause.
        forget(class, &["migrations"]);
    }
    for (path, group) in entries(json, "groups") {
        forget(group, &OF_GROUPS);
        forget(&mut group["cpu.stat"], &["user_usec", "system_usec"]);
        if waits.groups.iter().any(|known| known.trim_start_matches('/') == path.trim_start_matches('/')) {
            forget(group, &["run_delay_s"]);
        }
    }
}

/// Of whom something is not known.
#[derive(Default)]
struct Unknown<'a> {
    tasks: BTreeSet<&'a str>,
    classes: BTreeSet<&'a str>,
    groups: BTreeSet<&'a str>,
}

fn of_task(json: &mut Value, waits: bool, moves: bool) {
    forget(json, &OF_TASKS);
    if waits {
        forget(json, &["run_delay_s", "sleeping_s"]);
    }
    if moves {
        forget(json, &["nr_migrations"]);
    }
}

fn entries<'a>(json: &'a mut Value, key: &str) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    json[key].as_object_mut().into_iter().flatten()
}

fn forget(json: &mut Value, keys: &[&str]) {
    for key in keys {
        if let Some(value) = json.get_mut(*key) {
            *value = Value::Null;
        }
    }
}
