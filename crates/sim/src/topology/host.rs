//! The machine this runs on, from Linux's `/sys/devices/system`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use vruntime_sched::{CpuPlace, Topology};

use super::error::ParseTopologyError;

/// Reads this machine.
///
/// # Errors
///
/// If this is not Linux, or `/sys` is not mounted.
pub fn host() -> Result<Topology, ParseTopologyError> {
    from_sysfs(Path::new("/sys/devices/system"))
}

/// Reads a machine from a copy of its `/sys/devices/system` (folders `cpu` and `node`). Numbers its online CPUs from 0.
///
/// # Errors
///
/// If the folder lacks this structure.
pub fn from_sysfs(root: &Path) -> Result<Topology, ParseTopologyError> {
    let cpu_dir = root.join("cpu");
    let missing = |what: &str| {
        let message = format!("cannot read {what} below {}", root.display());
        ParseTopologyError::new(0, 0, message, "describe the machine instead, such as `pack:1 core:4 pu:2`")
    };
    let online = read(&cpu_dir.join("online")).and_then(|text| list(&text)).ok_or_else(|| missing("cpu/online"))?;
    if online.is_empty() || online.len() > super::MAX_CPUS {
        return Err(missing("a sane list of CPUs (cpu/online)"));
    }
    let mut nodes: BTreeMap<u32, u32> = BTreeMap::new();
    let mut distance: Vec<Vec<u32>> = Vec::new();
    let node_ids = read(&root.join("node/online")).and_then(|text| list(&text)).unwrap_or_default();
    for (index, node) in node_ids.iter().enumerate() {
        let dir = root.join(format!("node/node{node}"));
        let cpus = read(&dir.join("cpulist")).and_then(|text| list(&text)).unwrap_or_default();
        nodes.extend(cpus.into_iter().map(|cpu| (cpu, index as u32)));
        let row = read(&dir.join("distance")).unwrap_or_default();
        distance.push(row.split_whitespace().filter_map(|value| value.parse().ok()).collect());
    }
    let square = !distance.is_empty() && distance.iter().all(|row| row.len() == distance.len());

    let mut ids = Ids::default();
    let mut capacities = Vec::new();
    let mut cpus = Vec::new();
    for &cpu in &online {
        let dir = cpu_dir.join(format!("cpu{cpu}"));
        // The lowest CPU of a core, package or cache identifies it. `core_id` is not unique in the machine.
        let lowest = |file: &str| read(&dir.join("topology").join(file)).and_then(|text| list(&text)?.first().copied());
        let core = lowest("core_cpus_list").or_else(|| lowest("thread_siblings_list")).unwrap_or(cpu);
        let package = lowest("package_cpus_list").or_else(|| lowest("core_siblings_list")).unwrap_or(0);
        let cluster = lowest("cluster_cpus_list").unwrap_or(core);
        let llc = last_level_cache(&dir.join("cache")).unwrap_or(package);
        let node = nodes.get(&cpu).copied().unwrap_or(0);
        capacities.push(read(&dir.join("cpu_capacity")).and_then(|text| text.trim().parse().ok()).unwrap_or(1024));
        cpus.push(CpuPlace {
            core: ids.of(Kind::Core, core),
            cluster: ids.of(Kind::Cluster, cluster),
            llc: ids.of(Kind::Llc, llc),
            package: ids.of(Kind::Package, package),
            node,
            capacity: 1024,
        });
    }
    // A guest's caches may span nodes or end inside a core, but the scheduler needs them nested.
    nest(&mut cpus);
    for (place, capacity) in cpus.iter_mut().zip(capacities) {
        place.capacity = u32::clamp(capacity, 1, 1024);
    }
    Topology::new(cpus.clone(), square.then_some(distance))
        .or_else(|_| Topology::new(cpus, None))
        .map_err(|error| ParseTopologyError::contradiction(&error, 0))
}

/// What CPUs share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Core,
    Cluster,
    Llc,
    Package,
}

/// Numbers the objects of each kind from 0 in order of appearance.
#[derive(Default)]
struct Ids {
    /// By kind and lowest CPU.
    numbers: BTreeMap<(Kind, u32), u32>,
    /// The next number of each kind.
    next: [u32; 4],
}

impl Ids {
    fn of(&mut self, kind: Kind, lowest_cpu: u32) -> u32 {
        let next = &mut self.next[kind as usize];
        *self.numbers.entry((kind, lowest_cpu)).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }
}

/// Makes levels nested. All threads of a core share what its first thread has. Caches that span nodes are split by
/// node, and clusters that span caches by cache.
fn nest(cpus: &mut [CpuPlace]) {
    let mut first_thread: BTreeMap<u32, CpuPlace> = BTreeMap::new();
    for place in cpus.iter_mut() {
        *place = *first_thread.entry(place.core).or_insert(*place);
    }
    let mut split: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for place in cpus.iter_mut() {
        let next = split.len() as u32;
        place.llc = *split.entry((place.llc, place.node)).or_insert(next);
    }
    let mut split: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for place in cpus.iter_mut() {
        let next = split.len() as u32;
        place.cluster = *split.entry((place.cluster, place.llc)).or_insert(next);
    }
}

/// Returns the lowest CPU that shares the highest cache level, from a `cache` folder.
fn last_level_cache(dir: &Path) -> Option<u32> {
    let mut best: Option<(u32, u32)> = None;
    for index in 0..16 {
        let dir = dir.join(format!("index{index}"));
        let Some(level) = read(&dir.join("level")).and_then(|text| text.trim().parse().ok()) else { break };
        if read(&dir.join("type")).is_some_and(|kind| kind.trim() == "Instruction") {
            continue;
        }
        let Some(lowest) = read(&dir.join("shared_cpu_list")).and_then(|text| list(&text)?.first().copied()) else {
            continue;
        };
        if best.is_none_or(|(known, _)| level > known) {
            best = Some((level, lowest));
        }
    }
    best.map(|(_, lowest)| lowest)
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Reads the kernel's lists: `0-3,8`.
fn list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        if low > high || high as usize >= super::MAX_CPUS * 16 {
            return None;
        }
        all.extend(low..=high);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lists() {
        assert_eq!(list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(list(""), Some(vec![]));
        assert_eq!(list("3-1"), None);
        assert_eq!(list("0-4000000000"), None);
    }

    /// Two packages of one core with two threads each. CPU 2 is offline.
    #[test]
    fn a_copied_sysfs() {
        let root = std::env::temp_dir().join(format!("vruntime-sysfs-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("cpu/online", "0-1,3\n");
        for (cpu, core, package) in [(0, "0", "0,3"), (1, "1", "1"), (3, "0,3", "0,3")] {
            write(&format!("cpu/cpu{cpu}/topology/core_cpus_list"), if cpu == 0 { "0,3" } else { core });
            write(&format!("cpu/cpu{cpu}/topology/package_cpus_list"), package);
            write(&format!("cpu/cpu{cpu}/cache/index0/level"), "1");
            write(&format!("cpu/cpu{cpu}/cache/index0/shared_cpu_list"), core);
            write(&format!("cpu/cpu{cpu}/cache/index1/level"), "3");
            write(&format!("cpu/cpu{cpu}/cache/index1/shared_cpu_list"), package);
        }
        write("node/online", "0-1");
        write("node/node0/cpulist", "0,3");
        write("node/node0/distance", "10 21");
        write("node/node1/cpulist", "1");
        write("node/node1/distance", "21 10");
        let machine = from_sysfs(&root);
        fs::remove_dir_all(&root).unwrap();
        let machine = machine.unwrap();
        let column = |of: fn(&CpuPlace) -> u32| machine.cpus().iter().map(of).collect::<Vec<_>>();
        assert_eq!(column(|p| p.core), [0, 1, 0]);
        assert_eq!(column(|p| p.package), [0, 1, 0]);
        assert_eq!(column(|p| p.llc), [0, 1, 0]);
        assert_eq!(column(|p| p.node), [0, 1, 0]);
        assert_eq!(machine.distance(0, 1), 21);
    }

    #[test]
    fn a_folder_that_is_no_sysfs() {
        let error = from_sysfs(Path::new("/nonexistent")).unwrap_err();
        assert!(error.help.contains("describe the machine"));
    }
}
