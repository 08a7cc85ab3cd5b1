//! `vruntime kernels`, `vruntime machines`, completions, man pages and licences.

use clap::CommandFactory;
use serde_json::{Map, Value, json};
use vruntime_report::{fit_text, grid};
use vruntime_sched::features::{FEATURES, Feature, FeatureRow, Of};
use vruntime_sched::kernels::{has_feature, with_feature};
use vruntime_sched::{Kernel, PolicyKind, kernels as rows};
use vruntime_sim::topology::{EXAMPLES, Example};

use crate::args::{Arguments, Completions, Kernels, Machines};
use crate::policies::UserPolicy;
use crate::{Ended, machine, output, plan, policies};

pub(crate) fn kernels(kernels: &Kernels) -> miette::Result<Ended> {
    if let Some(names) = &kernels.behaviours {
        return super::behaviours::print(names, kernels.json);
    }
    let one = kernels.kernel.as_ref().or(kernels.features.as_ref());
    match (one, kernels.json) {
        (None, false) => output::print(&table()),
        (None, true) => {
            let own = policies::all().iter().map(own_json);
            output::print_json(&rows().iter().map(kernel_json).chain(own).collect());
        }
        (Some(name), false) => output::print(&features(name)?),
        (Some(name), true) if name.is_empty() => output::print_json(&FEATURES.iter().map(feature_json).collect()),
        (Some(name), true) => {
            let mut json = features_json(&plan::parse_kernel(&policies::simulated_kernel(name))?);
            if let Some((policy, _)) = policies::named(name) {
                (json["kernel"], json["policy"], json["on"]) =
                    (policy.name().into(), "own".into(), policy.kernel().into());
            }
            output::print_json(&json);
        }
    }
    Ok(Ended::Well)
}

fn kernel_json(row: &Kernel) -> Value {
    json!({"kernel": row.name, "release": row.release, "policy": policy(row.policy), "unverified": row.unverified, "change": row.change})
}

/// Describes a user's policy as [`kernel_json`] does a kernel, with the kernel below it.
fn own_json(own: &UserPolicy) -> Value {
    json!({"kernel": own.name(), "release": null, "policy": "own", "on": own.kernel(), "unverified": "", "change": own_change(own)})
}

fn own_change(own: &UserPolicy) -> String {
    format!(
        "Your policy replaces the fair class of Linux {}. Load balancing, real-time and deadline tasks, tunables and features are \
         those of {0}.",
        own.kernel()
    )
}

fn feature_json(row: &FeatureRow) -> Value {
    let kernels = with_feature(row.feature).map(|(first, last)| [first, last]);
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    json!({
        "feature": row.name,
        "kernels": kernels,
        "releases": some(&row.releases()),
        "default": row.default(),
        "certainty": some(certainty(row)),
        "source": some(row.source()),
        "what": row.what,
        "has_effect": row.feature.without_effect().is_none(),
    })
}

/// Returns how a feature's releases are known. Empty for features of vruntime's own.
const fn certainty(row: &FeatureRow) -> &'static str {
    match row.of {
        Of::Vruntime => "",
        _ => row.certainty.name(),
    }
}

/// Returns [`features`] as JSON.
fn features_json(kernel: &Kernel) -> Value {
    let features = features_of(kernel).map(|row| {
        let mut json = feature_json(row);
        json["on"] = kernel.features.has(row.feature).into();
        let command = kernel.switch_feature(row.feature, !kernel.features.has(row.feature));
        json["switch"] = Some(command).filter(|command| !command.is_empty()).into();
        json
    });
    let tunables = kernel.own_tunables().map(|(name, what)| {
        let values = SIZES.map(|cpus| (cpus.to_string(), value(&kernel.tunables(cpus, 250), name)));
        json!({"tunable": name, "what": what, "value_by_cpus": Map::from_iter(values)})
    });
    json!({
        "kernel": kernel.name,
        "policy": policy(kernel.policy),
        "features": features.collect::<Vec<_>>(),
        "tunables": tunables.collect::<Vec<_>>(),
    })
}

fn table() -> String {
    let lines =
        rows().iter().map(|row| vec![row.name.to_owned(), policy(row.policy).to_owned(), row.change.to_owned()]);
    let own = policies::all().iter().map(|policy| vec![policy.name().to_owned(), "own".to_owned(), own_change(policy)]);
    let table = grid(&["kernel", "policy", "what changed, and why"], 3, lines.chain(own));
    let unverified: Vec<&str> = rows().iter().filter(|row| !row.unverified.is_empty()).map(|row| row.name).collect();
    let note = format!(
        "not compared with all of their sources, or with recordings of real machines: {}; `vruntime kernels --behaviours KERNEL` \
         says how each fact is known",
        unverified.join(", ")
    );
    let more = [
        "features and tunables of one: vruntime kernels 6.12",
        "what differs: vruntime kernels --behaviours 5.15 6.12",
    ];
    let lines: Vec<String> = [note.as_str()].into_iter().chain(more).map(|line| fit_text(line, "")).collect();
    format!("{table}\n{}\n", lines.join("\n"))
}

fn all_features() -> String {
    let lines = FEATURES.iter().map(|row| {
        let kernels = match with_feature(row.feature) {
            None => "none; vruntime's".to_owned(),
            Some((first, last)) if first == last => first.to_owned(),
            Some((first, last)) => format!("{first} to {last}"),
        };
        let origin = if row.origin.is_empty() { String::new() } else { format!("; {}", row.origin) };
        vec![
            row.name.to_owned(),
            kernels,
            row.releases(),
            row.default(),
            certainty(row).to_owned(),
            format!("{}{origin}", what(row)),
        ]
    });
    let head = ["feature", "kernels", "releases", "default", "known", "what; commits"];
    let table = grid(&head, head.len(), lines);
    format!("{table}\n--feature NAME or NO_NAME switches one\nwhich are on in one: vruntime kernels 6.12\n")
}

fn what(row: &FeatureRow) -> String {
    let effect = if row.feature.without_effect().is_some() { "; no effect here" } else { "" };
    format!("{}{effect}", row.what)
}

/// Returns the features of a kernel.
fn features_of(kernel: &Kernel) -> impl Iterator<Item = &'static FeatureRow> {
    FEATURES.iter().filter(|row| row.of == Of::Vruntime || has_feature(kernel.name, row.feature))
}

fn features(name: &str) -> miette::Result<String> {
    if name.is_empty() {
        return Ok(all_features());
    }
    let kernel = plan::parse_kernel(&policies::simulated_kernel(name))?;
    let lines = features_of(&kernel).map(|row| {
        let state = if kernel.features.has(row.feature) { "on" } else { "off" };
        let state = if row.of == Of::Vruntime { format!("{state}; vruntime's") } else { state.to_owned() };
        vec![row.name.to_owned(), state, what(row)]
    });
    let change = rows().iter().find(|row| row.name == kernel.name).map_or("", |row| row.change);
    let head = match policies::named(name) {
        Some((own, _)) => format!("Policy {name}: {}", own_change(own)),
        None => format!("Linux {name}, {}: {change}", policy(kernel.policy)),
    };
    let mut text = format!("{}\n\n", fit_text(&head, ""));
    if let Some(unverified) = super::behaviours::unverified(kernel.name) {
        text.extend([&fit_text(&unverified, ""), "\n\n"]);
    }
    if kernel.policy == PolicyKind::O1 && !has_cpurc(&kernel) {
        text.push_str("this kernel has no features to switch: CFS introduced them\n");
    } else {
        text.push_str(&grid(&["feature (--feature NAME, NO_NAME)", "state", "what"], 3, lines));
    }
    text.push('\n');
    text.push_str(&tunables(&kernel));
    Ok(text)
}

/// Numbers of CPUs in the table of growing tunables.
const SIZES: [usize; 5] = [1, 2, 4, 8, 64];

/// Lists a kernel's tunables and values, with a table of those that grow with the machine.
fn tunables(kernel: &Kernel) -> String {
    let knobs = SIZES.map(|cpus| kernel.tunables(cpus, 250));
    let names = || kernel.own_tunables();
    let values = |name: &str| knobs.each_ref().map(|knobs| value(knobs, name).to_string());
    let grows = |name: &str| values(name).iter().any(|other| *other != values(name)[0]);
    let lines = names().map(|(name, what)| {
        let value = if grows(name) { "below".to_owned() } else { values(name)[0].clone() };
        vec![name.to_owned(), value, what.to_owned()]
    });
    let mut text = grid(&["tunable (--set)", "value", "what"], 3, lines);
    let lines: Vec<Vec<String>> = names()
        .filter(|(name, _)| grows(name))
        .map(|(name, _)| [vec![name.to_owned()], values(name).to_vec()].concat())
        .collect();
    if !lines.is_empty() {
        let head = SIZES.map(|cpus| if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") });
        let head: Vec<&str> = ["grows with the machine"].into_iter().chain(head.iter().map(String::as_str)).collect();
        text.push('\n');
        text.push_str(&grid(&head, 1, lines));
    }
    text
}

/// Whether the kernel has the CPU resource controller.
fn has_cpurc(kernel: &Kernel) -> bool {
    has_feature(kernel.name, Feature::CpuRcScaling)
}

/// Returns a tunable's value: a number as the kernel shows it.
fn value(knobs: &vruntime_sched::tunables::Knobs, name: &str) -> Value {
    match name {
        // The kernel's -1: no limit.
        "sched_rt_runtime_us" if knobs.rt_runtime_ns == u64::MAX => Value::from(-1),
        _ => Value::from(plain_value(knobs, name)),
    }
}

fn plain_value(knobs: &vruntime_sched::tunables::Knobs, name: &str) -> u64 {
    match name {
        "latency_ns" => knobs.latency_ns,
        "wakeup_granularity_ns" => knobs.wakeup_granularity_ns,
        "idle_min_granularity_ns" => knobs.idle_min_granularity_ns,
        "migration_cost_ns" => knobs.migration_cost_ns,
        "nr_migrate" => u64::from(knobs.nr_migrate),
        "sched_rr_timeslice_ms" => knobs.rr_timeslice_ns / 1_000_000,
        "sched_rt_period_us" => knobs.rt_period_ns / 1_000,
        "sched_rt_runtime_us" => knobs.rt_runtime_ns / 1_000,
        "sched_deadline_period_min_us" => knobs.deadline.periods.min_us,
        "sched_deadline_period_max_us" => knobs.deadline.periods.max_us,
        "fair_server/runtime" => knobs.deadline.server.runtime,
        "fair_server/period" => knobs.deadline.server.period,
        "sched_cfs_bandwidth_slice_us" => knobs.cfs_bandwidth_slice_ns / 1_000,
        "sched_granularity_ns" => knobs.cfs_2007.granularity_ns,
        "sched_wakeup_granularity_ns" => knobs.cfs_2007.wakeup_granularity_ns,
        "sched_batch_wakeup_granularity_ns" => knobs.cfs_2007.batch_wakeup_granularity_ns,
        "sched_stat_granularity_ns" => knobs.cfs_2007.stat_granularity_ns,
        "sched_runtime_limit_ns" => knobs.cfs_2007.runtime_limit_ns,
        "sched_child_runs_first" => knobs.cfs_2007.child_runs_first.into(),
        "sched_compat_yield" => knobs.cfs_2007.compat_yield.into(),
        "sched_util_clamp_min" => knobs.uclamp.system.min.into(),
        "sched_util_clamp_max" => knobs.uclamp.system.max.into(),
        "sched_util_clamp_min_rt_default" => knobs.uclamp.min_rt_default.into(),
        "sched_energy_aware" => knobs.energy_aware.into(),
        "CPU_RC_SPREAD_PERIOD" => knobs.cpu_rc.spread_period_ms,
        "CPU_RC_RECALC_INTERVAL" => knobs.cpu_rc.recalc_interval_ms,
        "CPU_RC_LOAD_SCALE" => knobs.cpu_rc.load_scale,
        "CPU_RC_TSFACTOR_INC" => knobs.cpu_rc.tsfactor_inc.into(),
        "CPU_RC_TSFACTOR_MAX" => knobs.cpu_rc.tsfactor_max.into(),
        "CPU_RC_STARVE_THRESHOLD" => knobs.cpu_rc.starve_threshold.into(),
        _ => knobs.base_slice_ns,
    }
}

fn policy(kind: PolicyKind) -> &'static str {
    match kind {
        PolicyKind::O1 => "O(1)",
        PolicyKind::Cfs2007 => "first CFS",
        PolicyKind::Cfs => "CFS",
        PolicyKind::Eevdf => "EEVDF",
    }
}

const SYNTAX: &str = "\
A machine is described from the outermost level to the innermost, each count being per object of the
level before it, as hwloc's tools do:

  pack:2 numa:1 l3:2 core:8 pu:2     2 packages of 2 caches of 8 cores of 2 threads: 64 CPUs
  16                                 16 CPUs that share one cache
  8,sockets=2,cores=4,threads=1      QEMU's -smp
  machine.xml                        what `lstopo machine.xml` wrote
  plat_info.yml                      LISA's: capacities, clocks, energy
  machine.toml                       what `vruntime calibrate --out machine.toml` measured
  host                               this machine, with what `vruntime calibrate` measured, if it did

Cores may be unequal: core:4(capacity=446,446,1024,1024), a number for each CPU; a scenario has
`capacities` for that, too. hwloc's size=, memory=, memorysidecachesize= and indexes= change nothing.
Draw one with `vruntime machines \"pack:2 core:4\"`.
";

pub(crate) fn machines(machines: &Machines) -> miette::Result<Ended> {
    if let Some(text) = &machines.machine {
        let topology = machine::parse(text)?;
        if machines.json {
            output::print_json(&machine::json(&topology));
        } else {
            output::print(&machine::draw(&topology));
        }
        return Ok(Ended::Well);
    }
    if machines.json {
        let json =
            |example: &Example| json!({"machine": example.name, "topology": example.topology, "what": example.what});
        output::print_json(&EXAMPLES.iter().map(json).collect());
        return Ok(Ended::Well);
    }
    let lines =
        EXAMPLES.iter().map(|Example { name, topology, what }| [*name, *topology, *what].map(str::to_owned).to_vec());
    output::print(&format!("{}\n{SYNTAX}", grid(&["name", "the same as", "what it is like"], 3, lines)));
    Ok(Ended::Well)
}

#[expect(clippy::unnecessary_wraps, reason = "every command has the same shape")]
pub(crate) fn completions(completions: &Completions) -> miette::Result<Ended> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::command(), "vruntime", &mut script);
    output::print(&String::from_utf8_lossy(&script));
    Ok(Ended::Well)
}

/// The licences of third-party packages.
const THIRD_PARTY: &str = include_str!("../../THIRD-PARTY.txt");

#[expect(clippy::unnecessary_wraps, reason = "every command has the same shape")]
pub(crate) fn notices() -> miette::Result<Ended> {
    let own = concat!("vruntime ", env!("CARGO_PKG_VERSION"), ": ", env!("CARGO_PKG_LICENSE"));
    output::print(&format!("{own}\n\n{THIRD_PARTY}"));
    Ok(Ended::Well)
}
