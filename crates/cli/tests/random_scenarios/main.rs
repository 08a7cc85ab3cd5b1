//! Random valid scenarios: no run panics, each gives the same bytes twice, and no nanosecond is lost.
//!
//! A run of this test draws [`SCENARIOS`] scenarios. `cargo xtask seeds --count 100 --only random_scenarios` runs 100
//! seeds.

#[path = "../../../../tests/seed.rs"]
mod seed;
#[path = "../support/mod.rs"]
mod support;

mod scenario;

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use scenario::Random;
use seed::any_seed;
use serde_json::Value;
use support::text;

/// The number of scenarios of a seed.
const SCENARIOS: u64 = 40;

fn run(folder: &Path, file: &str) -> Output {
    let mut command = Command::cargo_bin("vruntime").expect("cargo has built it");
    command.current_dir(folder).env("NO_COLOR", "1").args(["run", file, "--json"]).output().expect("it runs")
}

#[test]
fn random_scenarios_are_repeatable_and_conserve_time() {
    let first = any_seed().wrapping_mul(1_000_003);
    let folder = tempfile::tempdir().unwrap();
    let mut problems = Vec::new();
    for number in 0..SCENARIOS {
        let scenario = Random::new(first.wrapping_add(number)).scenario();
        std::fs::write(folder.path().join("scenario.toml"), &scenario).unwrap();
        let runs = [(); 2].map(|()| run(folder.path(), "scenario.toml"));
        if let Err(problem) = checked(&runs, scenario.contains("costs = \"zero\"")) {
            problems.push(format!("scenario {number}: {problem}\n{scenario}"));
        }
    }
    assert!(problems.is_empty(), "{} of {SCENARIOS} scenarios:\n{}", problems.len(), problems.join("\n"));
}

/// Checks two runs of one scenario.
fn checked([run, again]: &[Output; 2], zero_costs: bool) -> Result<(), String> {
    let printed = text(&run.stderr);
    if run.status.code() != Some(0) || printed.contains("panicked") {
        return Err(format!("{}: {printed}", run.status));
    }
    if (&run.stdout, &run.stderr) != (&again.stdout, &again.stderr) {
        return Err("two runs differ".to_owned());
    }
    let json: Value = serde_json::from_slice(&run.stdout).map_err(|error| error.to_string())?;
    json["observed"].as_array().unwrap().iter().try_for_each(|observed| conserved(observed, zero_costs))
}

fn ns(object: &Value, field: &str) -> i64 {
    object[field].as_i64().unwrap_or_else(|| panic!("no {field} in {object}"))
}

fn all<'a>(observed: &'a Value, what: &str) -> impl Iterator<Item = &'a Value> {
    observed[what].as_object().unwrap().values()
}

/// Checks the sums of a run: of each CPU, of each class, and of all tasks beside all CPUs.
fn conserved(observed: &Value, zero_costs: bool) -> Result<(), String> {
    let elapsed = ns(&observed["machine"], "elapsed_ns");
    let (mut idle, mut user) = (0, 0);
    let cpus = observed["cpus"].as_array().unwrap();
    for (number, cpu) in cpus.iter().enumerate() {
        let stat: i64 = cpu["stat_ns"].as_object().unwrap().values().filter_map(Value::as_i64).sum();
        if stat != elapsed {
            return Err(format!("CPU {number} accounts for {stat} of {elapsed} ns"));
        }
        let parts = ns(cpu, "busy_ns") + ns(cpu, "idle_ns") + ns(cpu, "overhead_ns");
        if parts != elapsed {
            return Err(format!("CPU {number} is busy, idle and in overhead for {parts} of {elapsed} ns"));
        }
        idle += ns(cpu, "idle_ns");
        user += ns(&cpu["stat_ns"], "user") + ns(&cpu["stat_ns"], "nice");
    }
    for class in all(observed, "classes") {
        let parts = ns(class, "cpu_ns") + ns(class, "run_delay_ns") + ns(class, "sleeping_ns");
        if parts != ns(class, "life_ns") {
            return Err(format!("a class lives {} ns, and {parts} ns in parts", ns(class, "life_ns")));
        }
        if ns(class, "user_ns") + ns(class, "system_ns") != ns(class, "cpu_ns") {
            return Err(format!("CPU time of a class is not that of user and system: {class}"));
        }
    }
    let sum = |field| all(observed, "classes").map(|class| ns(class, field)).sum::<i64>();
    // Costs are system time of tasks, except that refilled caches are user time of CPUs, and stolen time of tasks.
    if zero_costs && sum("user_ns") != user {
        return Err(format!("tasks have {} ns in user mode, and CPUs {user}", sum("user_ns")));
    }
    if sum("cpu_ns") != ns(&observed["groups"]["/"], "cpu_ns") {
        return Err(format!("tasks have {} ns, and the root group another time", sum("cpu_ns")));
    }
    let whole = elapsed * cpus.len() as i64;
    if zero_costs && sum("cpu_ns") + idle != whole {
        return Err(format!("{} ns of tasks and {idle} ns of idle CPUs are not {whole} ns", sum("cpu_ns")));
    }
    if sum("cpu_ns") + idle > whole {
        return Err(format!("{} ns of tasks and {idle} ns of idle CPUs exceed {whole} ns", sum("cpu_ns")));
    }
    Ok(())
}
