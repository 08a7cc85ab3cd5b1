//! Machines by name, by description, or from an lstopo file, and their drawings.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use miette::miette;
use serde_json::{Value, json};
use vruntime_replay::plat_info::{Clocks, PlatInfo};
use vruntime_report::counted;
use vruntime_sched::{CpuPlace, Topology};
use vruntime_sim::plan::Machine;

use crate::{machine_file, output, plan};

/// Returns the machine that `text` names or describes.
pub(crate) fn known(text: &str) -> miette::Result<Machine> {
    let path = Path::new(text.trim());
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("xml")) {
        let bytes = crate::input::contents(path, "name a file that `lstopo machine.xml` wrote")?;
        let machine = Machine::from_lstopo(&path.display().to_string(), &String::from_utf8_lossy(&bytes));
        return Ok(Machine { name: text.to_owned(), ..machine.map_err(|error| plan::report(&error))? });
    }
    if let Some(file) = machine_file::named(text)? {
        return file.known(text);
    }
    if is_plat_info(path) {
        let described = plat_info(path)?;
        let mut machine = Machine::new(text, described.topology);
        if let Some(Clocks { energy: Some(energy), frequencies }) = described.clocks {
            (machine.energy, machine.frequencies) = (Some(energy), Some(frequencies));
        }
        return Ok(machine);
    }
    Machine::described(text).map_err(|error| no_machine(path).unwrap_or_else(|| plan::report(&error)))
}

/// Returns the error of a text that names a file or a folder, and no machine. `None` if there is none of that name.
fn no_machine(path: &Path) -> Option<miette::Report> {
    let there = path.metadata().ok()?;
    let kind = if there.is_dir() { "a folder" } else { "a file with another ending" };
    let help = "name a file that ends with .toml (vruntime calibrate), .xml (lstopo) or .yml (LISA), or describe the machine: 8, \"pack:2 core:4\"";
    Some(miette!(help = help, "`{}` is {kind}, and describes no machine", path.display()))
}

/// Returns the shape of the machine that `text` names, or describes. Prints what a file has that is ignored.
pub(crate) fn parse(text: &str) -> miette::Result<Topology> {
    let machine = known(text)?;
    machine.ignored.iter().for_each(|note| output::note(note));
    Ok(machine.topology)
}

/// Reads LISA's description of a machine.
fn plat_info(path: &Path) -> miette::Result<PlatInfo> {
    let bytes = crate::input::contents(path, "name LISA's description of the machine, plat_info.yml")?;
    Ok(PlatInfo::parse(&path.display().to_string(), &String::from_utf8_lossy(&bytes))?)
}

fn is_plat_info(path: &Path) -> bool {
    let is = |extension: &OsStr| ["yml", "yaml"].iter().any(|known| extension.eq_ignore_ascii_case(known));
    path.extension().is_some_and(is)
}

/// Returns the highest frequency of each CPU, kHz, 0 if unknown. Empty without LISA's plat_info.yml.
pub(crate) fn highest_khz(text: &str) -> miette::Result<Vec<u32>> {
    let path = Path::new(text.trim());
    if is_plat_info(path) { Ok(plat_info(path)?.highest_khz) } else { Ok(Vec::new()) }
}

/// Describes a topology: `16 CPUs (2 packages, 8 cores of 2 threads)`.
pub(crate) fn words(topology: &Topology) -> String {
    let count = |of: fn(&CpuPlace) -> u32| topology.cpus().iter().map(of).collect::<BTreeSet<u32>>().len();
    let (packages, llcs, cores) = (count(|cpu| cpu.package), count(|cpu| cpu.llc), count(|cpu| cpu.core));
    let nodes = count(|cpu| cpu.node);
    let cpus = topology.nr_cpus();
    let mut parts = Vec::new();
    if packages > 1 {
        parts.push(format!("{packages} packages"));
    }
    if nodes > 1 && nodes != packages {
        parts.push(format!("{nodes} NUMA nodes"));
    }
    if llcs > 1 && llcs != packages {
        parts.push(format!("{llcs} last-level caches"));
    }
    if cores < cpus {
        let cores_of = counted(cores as u64, "core", "cores");
        parts.push(format!("{cores_of} of {} threads", cpus.div_ceil(cores.max(1))));
    }
    let cpus = counted(cpus as u64, "CPU", "CPUs");
    if parts.is_empty() { cpus } else { format!("{cpus} ({})", parts.join(", ")) }
}

pub(crate) fn json(topology: &Topology) -> Value {
    let cpus = topology.cpus().iter().enumerate().map(|(cpu, place)| {
        let CpuPlace { core, cluster, llc, package, node, capacity } = place;
        json!({"cpu": cpu, "core": core, "cluster": cluster, "llc": llc, "package": package, "node": node, "capacity": capacity})
    });
    cpus.collect()
}

/// Draws a topology: a line for each package, a bracket for each cache, and `+` between CPUs of a core.
pub(crate) fn draw(topology: &Topology) -> String {
    let cpus = topology.cpus();
    let capacities: BTreeSet<u32> = cpus.iter().map(|cpu| cpu.capacity).collect();
    let mut text = format!("{}\n", words(topology));
    let mut packages: Vec<u32> = cpus.iter().map(|cpu| cpu.package).collect();
    packages.sort_unstable();
    packages.dedup();
    for package in packages {
        let nodes: BTreeSet<u32> = cpus.iter().filter(|cpu| cpu.package == package).map(|cpu| cpu.node).collect();
        for node in nodes {
            // Writing to a String cannot fail.
            let _written = writeln!(text, "package {package}, node {node}");
            let here = |cpu: &CpuPlace| cpu.package == package && cpu.node == node;
            let llcs: BTreeSet<u32> = cpus.iter().filter(|cpu| here(cpu)).map(|cpu| cpu.llc).collect();
            for llc in llcs {
                text.push_str(&cache(cpus, &|cpu| here(cpu) && cpu.llc == llc, capacities.len() > 1));
            }
        }
    }
    text
}

/// Draws the CPUs of a cache, by core, in lines.
fn cache(cpus: &[CpuPlace], here: &dyn Fn(&CpuPlace) -> bool, with_capacity: bool) -> String {
    let mut cores: Vec<(u32, Vec<String>)> = Vec::new();
    for (index, cpu) in cpus.iter().enumerate().filter(|(_, cpu)| here(cpu)) {
        let name = if with_capacity { format!("{index}({})", cpu.capacity) } else { index.to_string() };
        match cores.iter_mut().find(|(core, _)| *core == cpu.core) {
            Some((_, threads)) => threads.push(name),
            None => cores.push((cpu.core, vec![name])),
        }
    }
    let (indent, mut line) = ("    ", "  [ ".to_owned());
    let mut text = String::new();
    for (_, threads) in cores {
        let core = threads.join("+");
        if line.len() + core.len() + 3 > usize::from(vruntime_report::WIDTH) {
            text.push_str(line.trim_end());
            text.push('\n');
            indent.clone_into(&mut line);
        }
        line.push_str(&core);
        line.push_str("  ");
    }
    text.push_str(line.trim_end());
    text.push_str(" ]\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_in_words_and_drawn() {
        let server = parse("pack:2 l3:2 core:2 pu:2").unwrap();
        assert_eq!(words(&server), "16 CPUs (2 packages, 4 last-level caches, 8 cores of 2 threads)");
        insta::assert_snapshot!(draw(&server));
        assert_eq!(words(&parse("1").unwrap()), "1 CPU");
    }

    #[test]
    fn a_wrong_name_lists_the_examples() {
        let help = |text: &str| parse(text).unwrap_err().help().unwrap().to_string();
        assert_eq!(help("laptopp"), "did you mean `laptop`?");
        assert_eq!(help("Server"), "did you mean `server`?");
        assert!(help("mainframe").contains("laptop, desktop"));
    }
}
