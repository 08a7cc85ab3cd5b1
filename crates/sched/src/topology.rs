//! The machine: each CPU's place, from which [`balance::domains`](crate::balance::domains) builds scheduling domains.

use alloc::vec::Vec;
use core::fmt;

use crate::cpumask::CpuMask;
use crate::ids::CpuId;

/// A CPU's place. Ids are unique in the machine; CPUs with equal ids share that part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuPlace {
    /// Physical core.
    pub core: u32,
    /// Cores that share a mid-level cache; `core` if there is none.
    pub cluster: u32,
    /// Last-level cache.
    pub llc: u32,
    /// Package (socket).
    pub package: u32,
    /// NUMA node.
    pub node: u32,
    /// Capacity at the highest frequency, 1..=1024; the fastest CPU has 1024.
    pub capacity: u32,
}

/// Local NUMA distance, as in ACPI's SLIT.
pub const LOCAL_DISTANCE: u32 = 10;
/// Default distance between nodes.
pub const REMOTE_DISTANCE: u32 = 20;

/// A machine's CPUs and the distances between its NUMA nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    cpus: Vec<CpuPlace>,
    /// By node ids.
    distance: Vec<Vec<u32>>,
}

/// Why a topology is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopologyError {
    /// There is no CPU.
    Empty,
    /// A capacity is not in 1..=1024.
    Capacity {
        /// The CPU.
        cpu: CpuId,
        /// The value.
        capacity: u32,
    },
    /// CPUs of one core or cluster differ in cache, package or node.
    Torn {
        /// One of them.
        cpu: CpuId,
    },
    /// The table is not square or too small, or a node is farther from itself than from another.
    Distance,
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a machine needs at least one CPU"),
            Self::Capacity { cpu, capacity } => {
                write!(f, "CPU {cpu} has capacity {capacity}; expected 1 to 1024, where 1024 is the fastest CPU")
            }
            Self::Torn { cpu } => write!(f, "CPU {cpu} is in another cache, package or node than the rest of its core"),
            Self::Distance => {
                write!(f, "the NUMA distance table must be square, cover every node, and be least on its diagonal")
            }
        }
    }
}

impl core::error::Error for TopologyError {}

impl Topology {
    /// `cpus` equal CPUs with one last-level cache.
    pub fn flat(cpus: usize) -> Self {
        let place = |core| CpuPlace { core, cluster: core, llc: 0, package: 0, node: 0, capacity: 1024 };
        Self { cpus: (0..cpus.max(1) as u32).map(place).collect(), distance: alloc::vec![alloc::vec![LOCAL_DISTANCE]] }
    }

    /// Returns a machine from its CPUs' places and node distances (`None`: 10 to itself, 20 to others).
    ///
    /// # Errors
    ///
    /// A description that contradicts itself.
    pub fn new(cpus: Vec<CpuPlace>, distance: Option<Vec<Vec<u32>>>) -> Result<Self, TopologyError> {
        if cpus.is_empty() {
            return Err(TopologyError::Empty);
        }
        for (index, place) in cpus.iter().enumerate() {
            let cpu = CpuId(index as u32);
            if !(1..=1024).contains(&place.capacity) {
                return Err(TopologyError::Capacity { cpu, capacity: place.capacity });
            }
        }
        // Each level nests in the next: compare with the first CPU of a core, cluster, ...
        let nests = |inner: fn(&CpuPlace) -> u32, outer: fn(&CpuPlace) -> u32| {
            let mut seen = alloc::collections::BTreeMap::new();
            cpus.iter().position(|place| *seen.entry(inner(place)).or_insert(outer(place)) != outer(place))
        };
        let torn = nests(|p| p.core, |p| p.cluster)
            .or_else(|| nests(|p| p.cluster, |p| p.llc))
            .or_else(|| nests(|p| p.llc, |p| p.node));
        if let Some(index) = torn {
            return Err(TopologyError::Torn { cpu: CpuId(index as u32) });
        }
        let nodes = cpus.iter().map(|place| place.node as usize + 1).max().unwrap_or(1);
        let distance = distance.unwrap_or_else(|| {
            let row = |a| (0..nodes).map(|b| if a == b { LOCAL_DISTANCE } else { REMOTE_DISTANCE }).collect();
            (0..nodes).map(row).collect()
        });
        let square = distance.len() >= nodes && distance.iter().all(|row| row.len() == distance.len());
        if !square || distance.iter().enumerate().any(|(a, row)| row.iter().any(|&d| d < row[a])) {
            return Err(TopologyError::Distance);
        }
        Ok(Self { cpus, distance })
    }

    /// Returns the number of CPUs.
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Returns the places, by CPU.
    pub fn cpus(&self) -> &[CpuPlace] {
        &self.cpus
    }

    /// Returns the place of a CPU.
    pub fn place(&self, cpu: CpuId) -> &CpuPlace {
        &self.cpus[cpu.index()]
    }

    /// Distance between two nodes.
    pub fn distance(&self, a: u32, b: u32) -> u32 {
        self.distance[a as usize][b as usize]
    }

    /// Returns all distances between nodes with CPUs, ascending.
    pub fn distances(&self) -> Vec<u32> {
        let nodes: alloc::collections::BTreeSet<u32> = self.cpus.iter().map(|place| place.node).collect();
        let mut all: Vec<u32> =
            nodes.iter().flat_map(|&a| nodes.iter().map(move |&b| (a, b))).map(|(a, b)| self.distance(a, b)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the CPUs whose `same` equals that of `cpu`.
    pub fn sharing(&self, cpu: CpuId, same: impl Fn(&CpuPlace) -> u32) -> CpuMask {
        let key = same(self.place(cpu));
        self.mask(|place| same(place) == key)
    }

    /// Returns the CPUs whose place fulfils `keep`.
    pub fn mask(&self, keep: impl Fn(&CpuPlace) -> bool) -> CpuMask {
        let mut mask = CpuMask::with_capacity(self.cpus.len());
        for (index, place) in self.cpus.iter().enumerate() {
            if keep(place) {
                mask.insert(CpuId(index as u32));
            }
        }
        mask
    }
}
