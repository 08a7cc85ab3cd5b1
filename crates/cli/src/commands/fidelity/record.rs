//! Recordings of this machine's own kernel, in the form of those that come with vruntime.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use miette::miette;
use serde_json::{Value, json};
use vruntime_linux::{Host, Measured, Options};
use vruntime_report::{Latency, Results};
use vruntime_workload::recording;

use super::Files;
use crate::args::{Fidelity, Suite};
use crate::commands::leave;
use crate::commands::real::results_of;
use crate::{interrupt, output};

/// How much of the suite, and how often.
struct Extent {
    runs: u32,
    seconds: u64,
}

impl Suite {
    const fn extent(self) -> Extent {
        match self {
            Self::Quick => Extent { runs: 3, seconds: 3 },
            Self::Full => Extent { runs: 5, seconds: 8 },
        }
    }
}

/// Runs the suite's scenarios that fit this machine, and leaves a recording of each in `folder`. The suite is what the recordings in
/// `known` were made of. Whether it was not interrupted.
pub(super) fn record(folder: &Path, known: &Files, fidelity: &Fidelity) -> miette::Result<bool> {
    let host = vruntime_linux::describe();
    let suite = suite(known, &host, fidelity)?;
    if suite.is_empty() {
        return Err(miette!(help = "leave --scenario out, or name another", "no scenario of the suite fits"));
    }
    let extent = fidelity.suite.extent();
    let time = suite.len() as u64 * u64::from(extent.runs) * extent.seconds;
    output::note(&format!("{} scenarios, {} runs of {} s each: {time} s", suite.len(), extent.runs, extent.seconds));
    let kernel = crate::plan::short_version(&host.kernel);
    for (name, mut file) in suite {
        output::note(&format!("{name} for real"));
        file["workload"]["global"]["duration"] = json!(extent.seconds);
        file["duration_s"] = json!(extent.seconds);
        let text = file.to_string();
        let parsed = recording::parse(&name, text.as_bytes())?;
        let options = Options { duration: Some(parsed.duration), timer_slack_ns: Some(1), ..Options::default() };
        let mut observed = Vec::new();
        for _ in 0..extent.runs {
            let measured = vruntime_linux::run(&parsed.workload, &options, &interrupt::asked)
                .map_err(|error| miette!(help = error.help(), "{name}: {error}"))?;
            for note in &measured.notes {
                output::note(&format!("{name}: {note}"));
            }
            if measured.interrupted {
                return Ok(false);
            }
            observed.push(observed_of(&results_of(&parsed.workload, &measured), &measured));
        }
        file["observed"] = json!(observed);
        leave(&folder.join(format!("linux-{kernel}")), &format!("{name}.json"), &format!("{file:#}\n"))?;
    }
    Ok(true)
}

/// The scenarios that fit, each with this machine's own description and nothing observed yet.
fn suite(known: &Files, host: &Host, fidelity: &Fidelity) -> miette::Result<BTreeMap<String, Value>> {
    let (smp, cpus) = smp_of(&host.topology);
    let mut suite = BTreeMap::new();
    let mut larger = BTreeSet::new();
    for (file, bytes) in known {
        let Ok(mut value) = serde_json::from_slice::<Value>(bytes) else {
            return Err(miette!("{file} is no JSON"));
        };
        let name = value["name"].as_str().unwrap_or_default().to_owned();
        if !fidelity.scenario.as_ref().is_none_or(|part| name.contains(part.as_str())) {
            continue;
        }
        if value["cpus"].as_u64().is_none_or(|wants| wants > cpus) {
            larger.insert(name);
            continue;
        }
        let grouped = value["groups"].as_object().is_some_and(|groups| !groups.is_empty());
        value["kernel"] = json!(host.kernel);
        value["hz"] = json!(host.hz);
        value["preempt"] = json!(host.preempt.as_deref().unwrap_or("voluntary"));
        // All tasks of a run with groups lie in cgroups of ours, where there is no autogroup.
        value["autogroup"] = json!(host.autogroup && !grouped);
        value["cpus"] = json!(cpus);
        value["topology"] = json!(smp);
        value["emulated"] = json!(host.emulated);
        value["observed"] = json!([]);
        suite.insert(name, value);
    }
    larger.retain(|name| !suite.contains_key(name));
    if !larger.is_empty() {
        let names: Vec<String> = larger.into_iter().collect();
        output::note(&format!("for more than the {cpus} CPUs that there are, and left out: {}", names.join(", ")));
    }
    Ok(suite)
}

/// hwloc's words as QEMU's, and how many CPUs that are.
fn smp_of(topology: &str) -> (String, u64) {
    let of = |kind: &str| {
        let mut words = topology.split_whitespace();
        words.find_map(|word| word.strip_prefix(kind)?.strip_prefix(':')?.parse::<u64>().ok()).unwrap_or(1)
    };
    // What has no words is a number of CPUs; packages' parts count as cores.
    let sockets = of("pack");
    let cores = topology.parse().unwrap_or_else(|_| of("numa") * of("l3") * of("core"));
    let threads = of("pu");
    let cpus = sockets * cores * threads;
    (format!("{cpus},sockets={sockets},cores={cores},threads={threads}"), cpus)
}

/// One run, in the recordings' form.
fn observed_of(results: &Results, measured: &Measured) -> Value {
    let latency = |latency: Latency| {
        let us = |ns: u64| ns as f64 / 1e3;
        json!({
            "p50": us(latency.p50_ns), "p90": us(latency.p90_ns), "p99": us(latency.p99_ns), "max": us(latency.max_ns),
        })
    };
    let tasks: BTreeMap<&str, Value> = results
        .tasks
        .iter()
        .map(|task| {
            let account = &task.account;
            let value = json!({
                "cpu_s": account.cpu_ns as f64 / 1e9,
                "nr_voluntary_switches": account.voluntary,
                "nr_involuntary_switches": account.involuntary,
                "nr_migrations": account.migrations,
                "loops": account.loops,
                "wakeup_latency_us": task.sleep_return.map(latency),
            });
            (task.name.as_str(), value)
        })
        .collect();
    let limited = results.groups.iter().zip(&measured.groups).filter(|(group, _)| group.limit.is_some());
    let groups: BTreeMap<&str, Value> = limited
        .map(|(group, stat)| {
            let value = json!({
                "nr_periods": stat.nr_periods,
                "nr_throttled": stat.nr_throttled,
                "throttled_usec": stat.throttled_ns / 1000,
            });
            (group.path.trim_start_matches('/'), value)
        })
        .collect();
    json!({ "tasks": tasks, "groups": groups })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_are_qemus() {
        assert_eq!(smp_of("pack:2 core:4"), ("8,sockets=2,cores=4,threads=1".to_owned(), 8));
        assert_eq!(smp_of("pack:1 l3:2 core:4 pu:2"), ("16,sockets=1,cores=8,threads=2".to_owned(), 16));
        assert_eq!(smp_of("6"), ("6,sockets=1,cores=6,threads=1".to_owned(), 6));
    }
}
