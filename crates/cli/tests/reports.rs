//! Public reports as scenarios (`scenarios/reports`): each reproduces its report, and `bisect` finds the change.

mod support;

use serde_json::Value;
use support::*;

fn scenario(name: &str) -> String {
    format!("{}/../../scenarios/reports/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// A scenario's results under a kernel.
fn observed(name: &str, kernel: &str) -> Value {
    let json = well(&["run", &scenario(name), "--kernel", kernel, "--json"]);
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    json["observed"][0].clone()
}

fn cpu_s(observed: &Value, task: &str) -> f64 {
    observed["tasks"][task]["cpu_ns"].as_f64().unwrap_or_else(|| panic!("there is no {task} in {observed}")) / 1e9
}

fn explained_by(name: &str, from: &str, to: &str, metric: &str) -> Vec<String> {
    let json = well(&["bisect", &scenario(name), "--from", from, "--to", to, "--metric", metric, "--json"]);
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    let names = json["explained_by"].as_array().expect("it is a list");
    names.iter().map(|name| name.as_str().expect("it is a name").to_owned()).collect()
}

/// Phoronix and others: beside a hog, a task that sleeps half of the time got half of the CPU, and a third since 6.6.
#[test]
fn a_half_time_task_beside_a_hog_gets_half_under_cfs_and_a_third_under_eevdf() {
    for (kernel, hog) in [("5.15", 51.0), ("6.1", 51.0), ("6.4", 51.0), ("6.6", 67.0), ("6.8", 67.0), ("6.12", 67.0)] {
        let share = 100.0 * cpu_s(&observed("half", kernel), "hog") / 5.0;
        assert!((share - hog).abs() < 1.0, "{kernel}: {share}");
    }
    assert_eq!(explained_by("half", "5.15", "6.8", "share(half)"), ["EEVDF"]);
}

/// The real-time hog's longest time off its CPU, nanoseconds.
fn worst_gap(kernel: &str) -> u64 {
    let json = well(&["run", &scenario("real-time"), "--kernel", kernel, "--analyse", "latency", "--json"]);
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    let rows = json["observed"][0]["analyses"]["tables"]["latency"]
        .as_array()
        .unwrap_or_else(|| panic!("there is no latency in {json}"));
    let urgent = rows.iter().find(|row| row["task"].as_str().is_some_and(|name| name.starts_with("urgent")));
    urgent.and_then(|row| row["max_delay_ns"].as_u64()).unwrap_or(0)
}

/// 5.10 switched RT_RUNTIME_SHARE off: a SCHED_RR hog cannot borrow from other CPUs, and stops for 50 ms.
#[test]
fn a_real_time_hog_stands_still_for_50_ms_from_5_10_on() {
    for kernel in ["4.19", "5.4", "5.10+RT_RUNTIME_SHARE"] {
        let gap = worst_gap(kernel);
        // The report has 1.3 ms, the period of its sound card. A CPU borrows before it is throttled.
        assert_eq!(gap, 0, "{kernel}");
    }
    for kernel in ["5.10", "5.15", "6.1", "5.4+NO_RT_RUNTIME_SHARE"] {
        let gap = worst_gap(kernel);
        // The end of the period and the tick that finds the hog throttled are up to two ticks apart.
        assert!((46_000_000..=54_000_000).contains(&gap), "{kernel}: {gap}");
    }
    assert_eq!(explained_by("real-time", "5.4", "5.10", "share(fair)"), ["RT_RUNTIME_SHARE"]);
}

/// 6.2+: a task that leaves its cpuset and returns has its requested CPU again, and shares it here.
#[test]
fn affinity_survives_moves_between_cgroups_from_6_2_on() {
    for (kernel, least, most) in [("5.15", 3.4, 3.6), ("6.1", 3.4, 3.6), ("6.4", 2.0, 2.1), ("6.12", 2.0, 2.1)] {
        let pinned = cpu_s(&observed("affinity", kernel), "pinned");
        assert!((least..most).contains(&pinned), "{kernel}: {pinned}");
    }
    assert_eq!(explained_by("affinity", "6.1", "6.4", "share(pinned)"), ["CPUSET_FORGETS_AFFINITY"]);
}

/// Slices of a quota expired up to 3.15, and in RHEL 8.0: 80 CPUs keep 1 ms each, and lose it with the period.
#[test]
fn expiring_slices_keep_small_workers_below_their_quota() {
    let used = |kernel: &str| {
        let observed = observed("quota", kernel);
        let tasks = observed["tasks"].as_object().expect("it is a table");
        tasks.values().filter_map(|task| task["cpu_ns"].as_f64()).sum::<f64>() / 1e9
    };
    let [old, el8] = ["3.12", "4.18-el8"].map(used);
    let [ineffective, removed] = ["3.18", "5.4"].map(used);
    // Half a CPU for 5 s.
    assert!(ineffective > 2.45 && removed > 2.45, "{ineffective} {removed}");
    // The report has no figure. 63 % are used under 3.12, and 64 % under RHEL 8.0. The bound of both is RHEL's. 3.12
    // had 0.6, when each of its idle CPUs balanced by itself in every jiffy (`NOHZ_OWN_CPU_FIRST` is newer here).
    assert!(old < 0.7 * ineffective && el8 < 0.7 * removed, "{old} {el8} {ineffective} {removed}");
    assert_eq!(explained_by("quota", "3.12", "3.18", "share(main)"), ["LIMIT_SLICES_EXPIRE"]);
    assert_eq!(explained_by("quota", "4.18-el8", "5.4", "share(main)"), ["LIMIT_SLICES_EXPIRE"]);
}

/// Over a pipe of 16 messages, a pair on one CPU passes a fifth less with DELAY_DEQUEUE. The report has half less, for
/// 512-byte messages with 1.7 switches each instead of 0.45.
#[test]
fn delayed_dequeues_cost_a_pipe_a_fifth() {
    let passed = |kernel: &str| {
        let observed = observed("pipe", kernel);
        let writer = &observed["tasks"]["stress-ng-writer-0"];
        writer["loops"].as_f64().unwrap_or_else(|| panic!("there is no writer in {observed}"))
    };
    let [before, after, without] = ["6.6", "6.12", "6.12+NO_DELAY_DEQUEUE"].map(passed);
    assert!((0.72..0.88).contains(&(after / before)), "{before} {after}");
    assert!((0.96..1.04).contains(&(without / before)), "{before} {without}");
    assert_eq!(explained_by("pipe", "6.6", "6.12", "loops(stress-ng-writer)"), ["DELAY_DEQUEUE"]);
}
