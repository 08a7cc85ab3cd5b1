//! Machines: by example name, by description, or from an lstopo file; and a drawing of one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use miette::miette;
use vruntime_sched::{CpuPlace, Topology};
use vruntime_sim::topology::parse_lstopo;
use vruntime_sim::{ParseTopologyError, parse_topology};
use vruntime_workload::Source;

use crate::{machine_file, plat_info};

/// The machine of those who name none: big enough for most workloads, and no scheduling domain but one.
pub(crate) const DEFAULT: &str = "8";

/// Machines with a name: (name, description, what it is like).
pub(crate) const EXAMPLES: &[(&str, &str, &str)] = &[
    ("laptop", "pack:1 core:4 pu:2", "4 cores of 2 threads, one cache"),
    ("desktop", "pack:1 l3:2 core:8 pu:2", "2 chiplets of 8 cores of 2 threads, a cache each"),
    ("cloud-small", "pack:1 core:1 pu:2", "2 virtual CPUs: the threads of one core"),
    ("cloud-large", "pack:1 core:16 pu:2", "32 virtual CPUs of one socket"),
    ("server", "pack:2 core:32 pu:2", "2 sockets of 32 cores of 2 threads"),
    ("epyc", "pack:2 l3:12 core:8 pu:2", "2 sockets of 12 chiplets of 8 cores of 2 threads"),
];

/// The machine `text` describes.
pub(crate) fn parse(text: &str) -> miette::Result<Topology> {
    let path = Path::new(text.trim());
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("xml")) {
        return from_lstopo(path);
    }
    if let Some(file) = machine_file::named(text)? {
        let topology = parse(&file.machine.topology)?;
        if file.machine.capacities.is_empty() {
            return Ok(topology);
        }
        let help = "give `capacities` one number for each CPU of the topology";
        return with_capacities(&topology, &file.machine.capacities)
            .map_err(|problem| miette!(help = help, "{text}: {problem}"));
    }
    if is_plat_info(path) {
        return Ok(plat_info::read(path)?.topology);
    }
    let described = example(text).unwrap_or(text);
    parse_topology(described).map_err(|error| topology_error(&error, "machine", text))
}

fn is_plat_info(path: &Path) -> bool {
    let is = |extension: &OsStr| ["yml", "yaml"].iter().any(|known| extension.eq_ignore_ascii_case(known));
    path.extension().is_some_and(is)
}

/// The highest frequency of each CPU, kHz, of a machine described in a file that says it; 0 where it does not. None: no other description does.
pub(crate) fn highest_khz(text: &str) -> miette::Result<Vec<u32>> {
    let path = Path::new(text.trim());
    if is_plat_info(path) { Ok(plat_info::read(path)?.highest_khz) } else { Ok(Vec::new()) }
}

/// The frequencies of a machine, and what its CPUs take, as far as a file describes them.
pub(crate) fn clocks(text: &str) -> miette::Result<Option<plat_info::Clocks>> {
    let path = Path::new(text.trim());
    if is_plat_info(path) { Ok(plat_info::read(path)?.clocks) } else { Ok(None) }
}

/// The description of an example machine.
pub(crate) fn example(name: &str) -> Option<&'static str> {
    EXAMPLES.iter().find(|(known, ..)| *known == name.trim()).map(|(_, text, _)| *text)
}

/// The machine an `lstopo` file describes.
pub(crate) fn from_lstopo(path: &Path) -> miette::Result<Topology> {
    lstopo_text(path, &crate::input::contents(path, "name a file that `lstopo machine.xml` wrote")?)
}

/// The machine that what was read of an `lstopo` file describes.
pub(crate) fn lstopo_text(path: &Path, bytes: &[u8]) -> miette::Result<Topology> {
    let name = path.display().to_string();
    let text = String::from_utf8_lossy(bytes);
    parse_lstopo(&text).map_err(|error| topology_error(&error, &name, &text))
}

fn topology_error(error: &ParseTopologyError, name: &str, text: &str) -> miette::Report {
    let names: Vec<&str> = EXAMPLES.iter().map(|(name, ..)| *name).collect();
    // A single word that is no description was probably meant to be a name.
    let word = text.trim();
    let looks_like_name = !word.contains([':', ' ', ',', '=', '<']) && word.parse::<u64>().is_err();
    let help = match names.iter().find(|name| looks_like_name && alike(name, word)) {
        Some(name) => format!("did you mean `{name}`?"),
        None if looks_like_name => format!("{}, or name one of the examples: {}", error.help, names.join(", ")),
        None => error.help.clone(),
    };
    let end = text.len();
    let start = error.offset.min(end);
    let span = start..(start + error.len).min(end);
    Source::new(name, text).error_at(span, &error.message, "here", &help).into()
}

/// Whether a word begins as a name does: what is mistyped is mostly the rest.
fn alike(name: &str, word: &str) -> bool {
    name.chars().zip(word.chars()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count() >= 3
}

/// The same machine with the capacity of each CPU given, or why that cannot be.
pub(crate) fn with_capacities(topology: &Topology, capacities: &[u32]) -> Result<Topology, String> {
    if capacities.len() != topology.nr_cpus() {
        return Err(format!("{} capacities for {} CPUs", capacities.len(), topology.nr_cpus()));
    }
    let mut cpus: Vec<CpuPlace> = topology.cpus().to_vec();
    for (cpu, capacity) in cpus.iter_mut().zip(capacities) {
        cpu.capacity = *capacity;
    }
    let nodes = cpus.iter().map(|cpu| cpu.node).max().unwrap_or(0);
    let distance: Vec<Vec<u32>> =
        (0..=nodes).map(|from| (0..=nodes).map(|to| topology.distance(from, to)).collect()).collect();
    Topology::new(cpus, Some(distance)).map_err(|error| error.to_string())
}

/// The same machine with the distance from each NUMA node to each given, or why that cannot be.
pub(crate) fn with_distances(topology: &Topology, distances: &[Vec<u32>]) -> Result<Topology, String> {
    let nodes: BTreeSet<u32> = topology.cpus().iter().map(|cpu| cpu.node).collect();
    if distances.len() != nodes.len() {
        return Err(format!("distances of {} NUMA nodes for {}", distances.len(), nodes.len()));
    }
    Topology::new(topology.cpus().to_vec(), Some(distances.to_vec())).map_err(|error| error.to_string())
}

/// In a few words: `16 CPUs (2 packages, 8 cores of 2 threads)`.
pub(crate) fn words(topology: &Topology) -> String {
    let count = |of: fn(&CpuPlace) -> u32| topology.cpus().iter().map(of).collect::<BTreeSet<u32>>().len();
    let (packages, llcs, cores) = (count(|cpu| cpu.package), count(|cpu| cpu.llc), count(|cpu| cpu.core));
    let nodes = count(|cpu| cpu.node);
    let cpus = topology.nr_cpus();
    let mut parts = Vec::new();
    let plural = |count: usize, noun: &str| if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") };
    if packages > 1 {
        parts.push(plural(packages, "package"));
    }
    if nodes > 1 && nodes != packages {
        parts.push(plural(nodes, "NUMA node"));
    }
    if llcs > 1 && llcs != packages {
        parts.push(plural(llcs, "last-level cache"));
    }
    if cores < cpus {
        parts.push(format!("{} of {} threads", plural(cores, "core"), cpus.div_ceil(cores.max(1))));
    }
    if parts.is_empty() { plural(cpus, "CPU") } else { format!("{} ({})", plural(cpus, "CPU"), parts.join(", ")) }
}

/// A drawing: a line a package, a bracket a cache, CPUs of one core joined by `+`.
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

/// The CPUs of one cache, core by core, broken into lines.
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
    fn every_example_is_a_machine() {
        for (name, ..) in EXAMPLES {
            assert!(parse(name).is_ok(), "{name}");
        }
        assert_eq!(parse(DEFAULT).unwrap().nr_cpus(), 8);
    }

    #[test]
    fn machines_in_words_and_drawn() {
        let server = parse("pack:2 l3:2 core:2 pu:2").unwrap();
        assert_eq!(words(&server), "16 CPUs (2 packages, 4 last-level caches, 8 cores of 2 threads)");
        insta::assert_snapshot!(draw(&server));
        assert_eq!(words(&parse("1").unwrap()), "1 CPU");
    }

    #[test]
    fn capacities_fit_or_are_refused() {
        let two = parse("2").unwrap();
        let uneven = with_capacities(&two, &[1024, 512]).unwrap();
        assert_eq!(uneven.cpus()[1].capacity, 512);
        assert_eq!(with_capacities(&two, &[1]).unwrap_err(), "1 capacities for 2 CPUs");
    }

    #[test]
    fn a_wrong_name_is_told_the_examples() {
        let help = |text: &str| parse(text).unwrap_err().help().unwrap().to_string();
        assert_eq!(help("laptopp"), "did you mean `laptop`?");
        assert_eq!(help("Server"), "did you mean `server`?");
        assert!(help("mainframe").contains("laptop, desktop"));
    }
}
