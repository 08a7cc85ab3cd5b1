//! Machines as `vruntime calibrate` writes them: a description, and what the kernel takes there.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use miette::{IntoDiagnostic, WrapErr, miette};
use serde::Deserialize;
use vruntime_sim::{Costs, Preempt};
use vruntime_workload::Source;

use crate::output;

/// The name of this machine, for `--machine`.
pub(crate) const HOST: &str = "host";

/// A file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineFile {
    /// What it is like.
    pub(crate) machine: Machine,
    /// What its kernel takes, by the names of the costs; what is not named is as in the profile `default`.
    #[serde(default)]
    costs: BTreeMap<String, u64>,
}

/// What a machine is like.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    /// In hwloc's words.
    pub(crate) topology: String,
    /// Capacity of each CPU, if they differ.
    #[serde(default)]
    pub(crate) capacities: Vec<u32>,
    /// Ticks a second.
    pub(crate) hz: Option<u32>,
    /// Preemption model.
    pub(crate) preempt: Option<String>,
    /// Whether the root group's tasks are in autogroups.
    pub(crate) autogroup: Option<bool>,
}

impl MachineFile {
    /// The costs it names, on top of the default ones.
    pub(crate) fn costs(&self) -> miette::Result<Option<Costs>> {
        if self.costs.is_empty() {
            return Ok(None);
        }
        let mut costs = Costs::default();
        for (name, ns) in &self.costs {
            costs.set(name, *ns).map_err(|error| miette!(help = "vruntime calibrate writes such files", "{error}"))?;
        }
        Ok(Some(costs))
    }

    /// The preemption model it names.
    pub(crate) fn preempt(&self) -> miette::Result<Option<Preempt>> {
        let Some(name) = &self.machine.preempt else { return Ok(None) };
        let help = "write none, voluntary, lazy or full";
        Preempt::from_name(name).map(Some).ok_or_else(|| miette!(help = help, "there is no preemption model `{name}`"))
    }
}

/// The file that `text` names, if it names one: a path that ends with .toml, or `host`.
pub(crate) fn named(text: &str) -> miette::Result<Option<MachineFile>> {
    let text = text.trim();
    if text == HOST {
        return host().map(Some);
    }
    let path = Path::new(text);
    let is_file = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    if is_file { read(path).map(Some) } else { Ok(None) }
}

fn read(path: &Path) -> miette::Result<MachineFile> {
    let name = path.display().to_string();
    let bytes = crate::input::read_file(path).into_diagnostic().wrap_err_with(|| format!("cannot read {name}"))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    toml::from_str(&text).map_err(|error| {
        let help = "a machine file has [machine] with topology, capacities, hz, preempt, autogroup, and [costs]; vruntime calibrate \
                    writes one";
        Source::new(&name, &text).error_at(error.span().unwrap_or(0..0), error.message(), "here", help).into()
    })
}

/// Where `vruntime calibrate` leaves what it finds unless told otherwise.
pub(crate) fn saved() -> Option<PathBuf> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let folder = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home)?;
    Some(folder.join("vruntime").join("machine.toml"))
}

/// This machine: as calibrated, or as the kernel describes it.
fn host() -> miette::Result<MachineFile> {
    if let Some(path) = saved().filter(|path| path.is_file()) {
        return read(&path);
    }
    described()
}

#[cfg(target_os = "linux")]
#[allow(clippy::unnecessary_wraps)] // elsewhere there is nothing to describe
fn described() -> miette::Result<MachineFile> {
    let host = vruntime_linux::describe();
    output::note("this machine has not been calibrated (vruntime calibrate): the costs are the default ones");
    for note in &host.notes {
        output::note(note);
    }
    Ok(MachineFile { machine: machine(&host), costs: BTreeMap::new() })
}

#[cfg(not(target_os = "linux"))]
fn described() -> miette::Result<MachineFile> {
    Err(miette!(help = "describe the machine; see `vruntime machines`", "`host` is known only where Linux runs"))
}

#[cfg(target_os = "linux")]
fn machine(host: &vruntime_linux::Host) -> Machine {
    Machine {
        topology: host.topology.clone(),
        capacities: host.capacities.clone(),
        hz: Some(host.hz),
        preempt: host.preempt.clone(),
        autogroup: Some(host.autogroup),
    }
}

/// A calibrated machine as a file.
#[cfg(target_os = "linux")]
pub(crate) fn write(calibration: &vruntime_linux::Calibration) -> String {
    let host = &calibration.host;
    let this = machine(host);
    let mut text = format!(
        "# Made by `vruntime calibrate` under Linux {}. For --machine: the path of this file, or `host`.\n\n[machine]\ntopology = \"{}\"\n",
        host.kernel, this.topology
    );
    // Writing to a String cannot fail.
    if !this.capacities.is_empty() {
        let _ = writeln!(text, "capacities = {:?}", this.capacities);
    }
    let _ = writeln!(text, "hz = {}", host.hz);
    if let Some(preempt) = &this.preempt {
        let _ = writeln!(text, "preempt = \"{preempt}\"");
    }
    let _ = writeln!(text, "autogroup = {}\n\n# Nanoseconds.\n[costs]", host.autogroup);
    for cost in &calibration.costs {
        let _ = writeln!(text, "{} = {} # {}", cost.name, cost.ns, cost.how);
    }
    if !host.features.is_empty() {
        let _ = write!(text, "\n# The kernel's features: {}\n", host.features.join(" "));
    }
    for (name, value) in &host.tunables {
        let _ = writeln!(text, "# {name} = {value}");
    }
    text
}
