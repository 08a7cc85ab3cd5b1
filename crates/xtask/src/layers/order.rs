//! The layers of `crates/sched`, lowest first. A module imports only from its own layer and those below.

use super::{Imports, Module, name};

/// A layer: its name, and the modules that are in it, with those inside them. The longest path decides.
type Layer = (&'static str, &'static [&'static str]);

/// The layers, lowest first.
pub(crate) const LAYERS: [Layer; 4] = [
    // State and settings, with the arithmetic that needs nothing else.
    (
        "core",
        &[
            "arena",
            "attrs",
            "balance::active",
            "balance::cpu_load",
            "balance::domains",
            "balance::nohz",
            "balance::roots",
            "balance::sets",
            "balance::state",
            "balance::sums",
            "capacity",
            "class::cfs_2007::tunables",
            "class::deadline::bandwidth",
            "class::deadline::cpudeadline",
            "class::deadline::entity",
            "class::deadline::error",
            "class::deadline::grub",
            "class::deadline::params",
            "class::deadline::queue",
            "class::deadline::ratio",
            "class::deadline::server",
            "class::deadline::shared",
            "class::fair::bandwidth::pool",
            "class::fair::pelt",
            "class::pushable",
            "class::o1::controller",
            "class::o1::tunables",
            "class::rt::cpupri",
            "class::rt::group",
            "class::rt::period",
            "class::rt::queue",
            "class::rt::rounds",
            "class::rt::share",
            "clock",
            "config",
            "cpufreq",
            "cpumask",
            "cpuset",
            "debug",
            "energy",
            "event",
            "features",
            "group",
            "host",
            "ids",
            "jiffies",
            "kernels",
            "list",
            "loadavg",
            "policy",
            "releases",
            "rq",
            "scheduler::view",
            "shared",
            "sync",
            "task",
            "topology",
            "tunables",
            "uclamp",
            "weight",
        ],
    ),
    // The classes, with the choice of a CPU and the estimates of load that it needs.
    (
        "class",
        &[
            "balance::by_load",
            "balance::early",
            "balance::groups",
            "balance::idle",
            "balance::loads",
            "balance::stats",
            "class",
        ],
    ),
    ("balance", &["balance", "balance::early::pull"]),
    ("verbs", &["frequency", "invariants", "limits", "scheduler", "snapshot"]),
];

/// Returns the number of a module's layer; `None` if the table lacks it.
fn layer(module: &Module) -> Option<usize> {
    let is_inside = |path: &str| {
        let path: Vec<&str> = path.split("::").collect();
        module.len() >= path.len() && path.iter().zip(module).all(|(part, own)| part == own)
    };
    let length = |path: &str| path.split("::").count();
    let found =
        LAYERS.iter().enumerate().flat_map(|(number, (_, paths))| paths.iter().map(move |path| (number, *path)));
    found.filter(|(_, path)| is_inside(path)).max_by_key(|(_, path)| length(path)).map(|(number, _)| number)
}

/// Returns every import from a higher layer, and every module without a layer. The crate's root is above all layers.
pub(crate) fn against(imports: &Imports) -> Vec<String> {
    let mut found = Vec::new();
    for (module, froms) in imports.iter().filter(|(module, _)| !module.is_empty()) {
        let Some(own) = layer(module) else {
            found.push(format!("{} has no layer: add it to crates/xtask/src/layers/order.rs", name(module)));
            continue;
        };
        for (from, items) in froms {
            let (above, other) = match layer(from) {
                _ if from.is_empty() => (true, "the crate's root"),
                Some(number) => (number > own, LAYERS[number].0),
                None => (false, ""),
            };
            if above {
                let items: Vec<&str> = items.iter().map(String::as_str).collect();
                let (module, from) = (name(module), name(from));
                found.push(format!("{module} ({}) imports from {from} ({other}): {}", LAYERS[own].0, items.join(", ")));
            }
        }
    }
    found
}
