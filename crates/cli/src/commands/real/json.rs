//! Results of `vruntime real` as JSON, in the format of `vruntime run --json`. Settings of a simulation, seed and
//! digest are absent. Figures that only a simulation has are null, and so are figures that were not measured.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vruntime_linux::Measured;
use vruntime_report::{GroupResult, Results, RunInfo, Unmeasured, observed_json, run_json, spread_json};

/// Figures of tasks and classes that only a simulation has.
const OF_TASKS: [&str; 3] = ["user_ns", "system_ns", "idle_waits"];
/// Figures of groups that only a simulation has.
const OF_GROUPS: [&str; 2] = ["entitled_ns", "cpu.pressure"];

pub(super) fn json_of(name: &str, runs: &[Measured], results: &[Results]) -> Value {
    let first = runs.first();
    let info = RunInfo {
        name: name.to_owned(),
        kernel: first.map(|run| run.kernel.clone()).unwrap_or_default(),
        cpus: first.map_or(0, |run| run.cpus),
        topology: "host".to_owned(),
        duration_ns: first.map_or(0, |run| run.elapsed_ns),
        gate: true,
        ..RunInfo::default()
    };
    let mut json = run_json(&info, runs.iter().zip(results).map(|(run, results)| observed(run, results)).collect());
    if let Value::Object(fields) = &mut json {
        for absent in ["hz", "preempt", "autogroup", "costs", "emulated"] {
            fields.remove(absent);
        }
        fields.insert("finished".to_owned(), runs.iter().filter(|run| !run.interrupted).count().into());
        if let Some(ended) = super::over_runs(runs, results) {
            // `run --json` has the same field.
            fields.insert("over_seeds".to_owned(), spread_json(&ended));
        }
    }
    json
}

fn observed(run: &Measured, results: &Results) -> Value {
    let mut json = observed_json(results, 0, 0);
    remove_unmeasured(&mut json, results);
    if let Value::Object(fields) = &mut json {
        // A real run is not repeatable, and these accounts of CPUs are unknown.
        for absent in ["seed", "digest", "cpus", "machine"] {
            fields.remove(absent);
        }
        fields.insert("others".to_owned(), json!(run.others));
        fields.insert("unseen".to_owned(), json!(run.unseen));
        fields.insert("notes".to_owned(), json!(run.notes));
        fields.insert("interrupted".to_owned(), json!(run.interrupted));
    }
    json
}

/// Replaces the 0 of unmeasured values by null.
fn remove_unmeasured(json: &mut Value, results: &Results) {
    let tasks: BTreeMap<&str, Unmeasured> =
        results.tasks.iter().map(|task| (task.name.as_str(), task.account.unmeasured)).collect();
    let classes: BTreeMap<&str, Unmeasured> =
        results.classes.iter().map(|class| (class.name.as_str(), class.account.unmeasured)).collect();
    for (name, task) in entries(json, "tasks") {
        of_task(task, tasks.get(name.as_str()).copied().unwrap_or_default());
    }
    for (name, class) in entries(json, "classes") {
        of_task(class, classes.get(name.as_str()).copied().unwrap_or_default());
        // `run` counts migrations by cause, and the kernel does not report causes.
        set_null(class, &["migrations"]);
    }
    for (path, group) in entries(json, "groups") {
        set_null(group, &OF_GROUPS);
        set_null(&mut group["cpu.stat"], &["user_usec", "system_usec"]);
        let has_path = |group: &&GroupResult| group.path.trim_start_matches('/') == path.trim_start_matches('/');
        if results.groups.iter().find(has_path).is_some_and(|group| group.unmeasured.waits) {
            set_null(group, &["run_delay_ns"]);
        }
    }
}

fn of_task(json: &mut Value, unmeasured: Unmeasured) {
    set_null(json, &OF_TASKS);
    if unmeasured.waits {
        set_null(json, &["run_delay_ns", "sleeping_ns"]);
    }
    if unmeasured.migrations {
        set_null(json, &["nr_migrations"]);
    }
}

fn entries<'a>(json: &'a mut Value, key: &str) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    json[key].as_object_mut().into_iter().flatten()
}

fn set_null(json: &mut Value, keys: &[&str]) {
    for key in keys {
        if let Some(value) = json.get_mut(*key) {
            *value = Value::Null;
        }
    }
}
