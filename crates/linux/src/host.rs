//! What the kernel reports of the machine and itself.

mod preempt;

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::record::Mounted;

/// This machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The kernel's release.
    pub kernel: String,
    /// The topology, as for `--machine`, in hwloc's words.
    pub topology: String,
    /// Capacity of each CPU, if they differ.
    pub capacities: Vec<u32>,
    /// Ticks a second.
    pub hz: u32,
    /// `none`, `voluntary`, `full` or `lazy`, if known.
    pub preempt: Option<String>,
    /// The source of `preempt`, or why it is not known.
    pub preempt_from: String,
    /// Whether autogroup is on.
    pub autogroup: bool,
    /// Name of the first CPU, if known.
    pub processor: Option<String>,
    /// Whether QEMU emulates the CPUs, with 10 to 50 times the cost for all but plain computation.
    pub emulated: bool,
    /// Whether this is a virtual machine.
    pub virtual_machine: bool,
    /// Features as in `/sys/kernel/debug/sched/features`; empty if unreadable.
    pub features: Vec<String>,
    /// Tunables of the same folder.
    pub tunables: Vec<(String, u64)>,
    /// What the description omits.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    package: u32,
    node: u32,
    llc: u32,
    core: u32,
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: &str) -> Option<u32> {
    read(path)?.parse().ok()
}

/// Returns the first CPU of a list such as `2-3,8`.
fn first_of(list: &str) -> Option<u32> {
    list.split([',', '-']).next()?.trim().parse().ok()
}

/// Whether QEMU emulates the CPUs, by their name, which QEMU can be configured to hide.
fn is_emulated(cpuinfo: &str) -> bool {
    let mut models = cpuinfo.lines().filter(|line| line.starts_with("model name"));
    models.any(|model| model.contains("QEMU TCG") || model.contains("QEMU Virtual CPU"))
}

/// Checks the CPU flag of hypervisors.
fn is_virtual(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).and_then(|line| line.split_once(':'));
    flags.is_some_and(|(_, flags)| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn processor(cpuinfo: &str) -> Option<String> {
    let (_, name) = cpuinfo.lines().find(|line| line.starts_with("model name"))?.split_once(':')?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Today's date in UTC, such as `2026-11-23`.
pub fn today() -> String {
    chrono::Utc::now().date_naive().to_string()
}

/// Describes this machine with the CPUs that this process may use.
pub fn describe() -> Host {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let cpus: Vec<u32> = (0..CpuSet::MAX_CPU as u32).filter(|&cpu| allowed.is_set(cpu as usize)).collect();
    describe_cpus(&cpus)
}

/// Describes this machine with all online CPUs.
pub fn describe_all() -> Host {
    let online = read("/sys/devices/system/cpu/online").as_deref().and_then(ranges);
    online.map_or_else(describe, |cpus| describe_cpus(&cpus))
}

/// Parses `0-3,6`.
fn ranges(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok().filter(|&cpu| cpu < 1 << 16)?);
    }
    Some(cpus)
}

fn describe_cpus(cpus: &[u32]) -> Host {
    // If debugfs is not mounted, a private mount, if allowed.
    let debugfs = Mounted::find("debugfs").ok();
    let chosen = debugfs.as_ref().and_then(|mounted| fs::read_to_string(mounted.path.join("sched/preempt")).ok());
    let preempt = match chosen.as_deref().and_then(preempt::chosen) {
        Some(model) => preempt::found(&model, "sched/preempt of debugfs"),
        None => preempt::preempt(Path::new("/")),
    };
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let mut host = Host {
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        hz: hz(),
        preempt: preempt.model,
        preempt_from: preempt.how,
        autogroup: number("/proc/sys/kernel/sched_autogroup_enabled") == Some(1),
        processor: processor(&cpuinfo),
        emulated: is_emulated(&cpuinfo),
        virtual_machine: is_virtual(&cpuinfo),
        ..Host::default()
    };
    let places: Vec<Place> = cpus.iter().map(|&cpu| place(cpu)).collect();
    host.topology = words(&places).unwrap_or_else(|| {
        host.notes.push(
            "the parts of this machine differ in size, so a topology in words cannot describe it: one package is assumed; `lstopo \
             machine.xml` writes an exact description"
                .to_owned(),
        );
        cpus.len().to_string()
    });
    let capacities: Vec<u32> =
        cpus.iter().filter_map(|cpu| number(&format!("/sys/devices/system/cpu/cpu{cpu}/cpu_capacity"))).collect();
    if capacities.len() == cpus.len() && capacities.iter().any(|&capacity| capacity != 1024) {
        host.capacities = capacities;
    }
    let debug = debugfs.as_ref().map_or(Path::new("/sys/kernel/debug"), |mounted| &mounted.path).join("sched");
    let debug = debug.display();
    // Up to 5.12 the file is `sched_features`.
    let features = fs::read_to_string(format!("{debug}/features"));
    match features.or_else(|error| fs::read_to_string(format!("{debug}_features")).map_err(|_| error)) {
        Ok(features) => {
            host.features = features.split_whitespace().map(str::to_owned).collect();
            for name in [
                "base_slice_ns",
                "migration_cost_ns",
                "latency_ns",
                "min_granularity_ns",
                "wakeup_granularity_ns",
                "nr_migrate",
            ] {
                // Sysctls up to 5.12.
                let file = read(&format!("{debug}/{name}")).or_else(|| read(&format!("/proc/sys/kernel/sched_{name}")));
                if let Some(value) = file.and_then(|text| text.parse().ok()) {
                    host.tunables.push((name.to_owned(), value));
                }
            }
        }
        Err(error) => {
            host.notes.push(without_debugfs(Path::new("/"), rustix::process::geteuid().is_root(), &error));
        }
    }
    host
}

fn place(cpu: u32) -> Place {
    let of = |file: &str| format!("/sys/devices/system/cpu/cpu{cpu}/{file}");
    let package = number(&of("topology/physical_package_id")).unwrap_or(0);
    let core = read(&of("topology/thread_siblings_list")).and_then(|list| first_of(&list)).unwrap_or(cpu);
    // The highest cache level.
    let llc = (0..5).rev().find_map(|index| {
        let kind = read(&of(&format!("cache/index{index}/type")))?;
        (kind == "Unified").then(|| read(&of(&format!("cache/index{index}/shared_cpu_list")))).flatten()
    });
    let llc = llc.and_then(|list| first_of(&list)).unwrap_or(package);
    let node = fs::read_dir(of("")).ok().and_then(|entries| {
        entries.flatten().find_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok())
    });
    Place { package, node: node.unwrap_or(0), llc, core }
}

/// hwloc's words for these places, if all parts of a kind are equal.
fn words(places: &[Place]) -> Option<String> {
    // The number of parts within each part of the level above, if equal everywhere.
    let arity = |above: &dyn Fn(&Place) -> Vec<u32>, part: &dyn Fn(&Place, usize) -> u32| -> Option<usize> {
        let mut parts: BTreeMap<Vec<u32>, std::collections::BTreeSet<u32>> = BTreeMap::new();
        for (index, place) in places.iter().enumerate() {
            parts.entry(above(place)).or_default().insert(part(place, index));
        }
        let mut counts = parts.values().map(std::collections::BTreeSet::len);
        let first = counts.next()?;
        counts.all(|count| count == first).then_some(first)
    };
    let packages = arity(&|_| vec![], &|place, _| place.package)?;
    let nodes = arity(&|place| vec![place.package], &|place, _| place.node)?;
    let llcs = arity(&|place| vec![place.package, place.node], &|place, _| place.llc)?;
    let cores = arity(&|place| vec![place.package, place.node, place.llc], &|place, _| place.core)?;
    let threads = arity(&|place| vec![place.package, place.core], &|_, index| index as u32)?;
    let mut parts = vec![format!("pack:{packages}")];
    parts.extend((nodes > 1).then(|| format!("numa:{nodes}")));
    parts.extend((llcs > 1).then(|| format!("l3:{llcs}")));
    parts.push(format!("core:{cores}"));
    parts.extend((threads > 1).then(|| format!("pu:{threads}")));
    Some(parts.join(" "))
}

/// The coarse clock advances with the tick.
fn hz() -> u32 {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    let ns = tick.tv_sec as u64 * 1_000_000_000 + tick.tv_nsec as u64;
    u32::try_from(1_000_000_000_u64.checked_div(ns).unwrap_or(250)).unwrap_or(250)
}

/// Why `features` and `tunables` are missing, and what helps.
fn without_debugfs(root: &Path, is_root: bool, error: &io::Error) -> String {
    let mounts = fs::read_to_string(root.join("proc/mounts")).unwrap_or_default();
    let mounted = mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some("/sys/kernel/debug") && words.next() == Some("debugfs")
    });
    let why = match (mounted, is_root, error.kind()) {
        (false, true, _) => "debugfs is not mounted: mount -t debugfs debugfs /sys/kernel/debug".to_owned(),
        (false, false, _) => {
            "debugfs is not mounted, and only root may read it: as root, mount -t debugfs debugfs /sys/kernel/debug"
                .to_owned()
        }
        (true, _, io::ErrorKind::NotFound) => {
            "debugfs is mounted, but this kernel has no sched/features or sched_features in it (CONFIG_SCHED_DEBUG)"
                .to_owned()
        }
        (true, false, io::ErrorKind::PermissionDenied) => {
            format!("debugfs is mounted, but only root may read it ({error})")
        }
        (true, true, io::ErrorKind::PermissionDenied) => {
            format!(
                "debugfs is mounted and this is root, but the kernel refuses it ({error}): it is locked down, or so configured"
            )
        }
        (true, _, _) => format!("debugfs is mounted, but cannot be read ({error})"),
    };
    format!("features and tunables cannot be read: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_at(package: u32, llc: u32, core: u32) -> Place {
        Place { package, node: package, llc, core }
    }

    #[test]
    fn alike_parts_have_words() {
        let two_by_four: Vec<Place> = (0..8).map(|cpu| place_at(cpu / 4, cpu / 4 * 4, cpu)).collect();
        assert_eq!(words(&two_by_four).as_deref(), Some("pack:2 core:4"));
        let threads: Vec<Place> = (0..8).map(|cpu| place_at(0, cpu % 4 / 2, cpu % 4)).collect();
        assert_eq!(words(&threads).as_deref(), Some("pack:1 l3:2 core:2 pu:2"));
        let uneven = [place_at(0, 0, 0), place_at(0, 0, 1), place_at(1, 2, 2)];
        assert_eq!(words(&uneven), None);
    }

    #[test]
    fn this_machine_is_described() {
        let host = describe();
        assert!(host.hz >= 24 && !host.topology.is_empty() && !host.kernel.is_empty(), "{host:?}");
    }

    #[test]
    fn why_debugfs_says_nothing_is_reported() {
        use io::ErrorKind::{NotFound, PermissionDenied};
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        let message = |mounts: &str, is_root: bool, kind: io::ErrorKind| {
            fs::write(root.path().join("proc/mounts"), mounts).unwrap();
            without_debugfs(root.path(), is_root, &io::Error::from(kind))
        };
        let mounted = "sysfs /sys sysfs rw 0 0\nnone /sys/kernel/debug debugfs rw,relatime 0 0\n";
        // Tracefs below it, and another file system with that name, do not count.
        let not = "tracefs /sys/kernel/debug/tracing tracefs rw 0 0\nnone /mnt/debug debugfs rw 0 0\n";
        for (mounts, is_root, kind, expected, never) in [
            (not, true, NotFound, "not mounted: mount -t debugfs", "as root"),
            (not, false, NotFound, "as root, mount -t debugfs", "this is root"),
            (mounted, false, PermissionDenied, "only root may read it", "mount -t"),
            (mounted, true, PermissionDenied, "this is root, but the kernel refuses it", "mount -t"),
            (mounted, true, NotFound, "this kernel has no sched/features", "mount -t"),
        ] {
            let message = message(mounts, is_root, kind);
            assert!(message.contains(expected) && !message.contains(never), "{message}");
        }
    }

    #[test]
    fn emulators_are_distinguished_from_machines() {
        assert!(is_emulated("processor\t: 0\nmodel name\t: QEMU TCG CPU version 2.5+\n"));
        assert!(!is_emulated("model name\t: AMD EPYC\nflags\t: fpu hypervisor\n"));
    }

    #[test]
    fn virtual_machines_are_distinguished_from_machines() {
        assert!(is_virtual("model name\t: AMD EPYC\nflags\t\t: fpu hypervisor lahf_lm\n"));
        assert!(!is_virtual("model name\t: hypervisor\nflags\t\t: fpu vme\n"));
    }

    #[test]
    fn processors_have_names() {
        let info = "processor\t: 0\nmodel name\t: AMD EPYC 9B45\nprocessor\t: 1\nmodel name\t: other\n";
        assert_eq!(processor(info).as_deref(), Some("AMD EPYC 9B45"));
        assert_eq!((processor("processor\t: 0\nBogoMIPS\t: 50\n"), processor("model name\t:\n")), (None, None));
    }

    #[test]
    fn lists_have_ranges() {
        assert_eq!(ranges("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!([ranges(""), ranges("3-x"), ranges("0-99999999")], [None, None, None]);
        let (all, own) = (describe_all(), describe());
        assert_eq!((all.kernel, all.hz), (own.kernel, own.hz));
    }

    #[test]
    fn lists_begin_with_their_first() {
        assert_eq!((first_of("2-3,8"), first_of("7"), first_of("")), (Some(2), Some(7), None));
    }
}
