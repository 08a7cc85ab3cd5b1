//! Machine descriptions: hwloc's synthetic strings, QEMU's `-smp`, lstopo's XML, and the host.

mod error;
mod examples;
mod host;
mod lstopo;
mod qemu;
mod synthetic;

pub use error::ParseTopologyError;
pub use examples::{EXAMPLES, Example, example};
pub use host::{from_sysfs, host};
pub use lstopo::{Lstopo, parse_lstopo, read_lstopo};
pub use qemu::parse_qemu_smp;
pub(crate) use synthetic::ignored_indexes;
pub use synthetic::parse_synthetic;

use std::collections::BTreeSet;

use vruntime_sched::{CpuPlace, Topology};

/// The largest machine: Linux's limit (`NR_CPUS`).
pub const MAX_CPUS: usize = 8192;

/// Reads a machine in one line:
///
/// - `host`: this machine, from `/sys`;
/// - `8`: CPUs that share one cache;
/// - `pack:2 l3:1 core:4 pu:2`: see [`parse_synthetic`];
/// - `8,sockets=2,cores=4,threads=1`: see [`parse_qemu_smp`].
///
/// ```
/// use vruntime_sim::parse_topology;
///
/// assert_eq!(parse_topology("pack:2 core:4 pu:2").unwrap().nr_cpus(), 16);
/// let error = parse_topology("pack:2 cor:4").unwrap_err();
/// assert_eq!((error.offset, error.help.as_str()), (7, "did you mean `core`?"));
/// ```
///
/// # Errors
///
/// If the text is none of these, with the place and the fix.
pub fn parse_topology(text: &str) -> Result<Topology, ParseTopologyError> {
    let trimmed = text.trim();
    if trimmed.eq_ignore_ascii_case("host") {
        return host();
    }
    if !trimmed.contains([':', '(']) && trimmed.contains([',', '=']) {
        return parse_qemu_smp(text);
    }
    parse_synthetic(text)
}

/// Sets the capacity of each CPU, 1..=1024.
///
/// # Errors
///
/// If their number is not the CPUs', or one is out of range.
pub fn with_capacities(topology: &Topology, capacities: &[u32]) -> Result<Topology, ParseTopologyError> {
    let wrong =
        |message| ParseTopologyError::new(0, 0, message, "give `capacities` one number for each CPU of the topology");
    if capacities.len() != topology.nr_cpus() {
        let cpus = if topology.nr_cpus() == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", topology.nr_cpus()) };
        let given =
            if capacities.len() == 1 { "1 capacity".to_owned() } else { format!("{} capacities", capacities.len()) };
        return Err(wrong(format!("{given} for {cpus}")));
    }
    let mut cpus: Vec<CpuPlace> = topology.cpus().to_vec();
    for (cpu, capacity) in cpus.iter_mut().zip(capacities) {
        cpu.capacity = *capacity;
    }
    let nodes = cpus.iter().map(|cpu| cpu.node).max().unwrap_or(0);
    let distance: Vec<Vec<u32>> =
        (0..=nodes).map(|from| (0..=nodes).map(|to| topology.distance(from, to)).collect()).collect();
    Topology::new(cpus, Some(distance)).map_err(|error| wrong(error.to_string()))
}

/// Sets distances between NUMA nodes, a row per node, as in ACPI's SLIT (10 to itself).
///
/// # Errors
///
/// If they do not fit the machine's nodes, or are no distances.
pub fn with_distances(topology: &Topology, distances: &[Vec<u32>]) -> Result<Topology, ParseTopologyError> {
    let wrong = |message| {
        let help = "give `node_distances` a row for each NUMA node of the topology, with the distance to each node";
        ParseTopologyError::new(0, 0, message, help)
    };
    let nodes: BTreeSet<u32> = topology.cpus().iter().map(|cpu| cpu.node).collect();
    if distances.len() != nodes.len() {
        return Err(wrong(format!("distances of {} NUMA nodes for {}", distances.len(), nodes.len())));
    }
    Topology::new(topology.cpus().to_vec(), Some(distances.to_vec())).map_err(|error| wrong(error.to_string()))
}
