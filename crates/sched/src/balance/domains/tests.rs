use super::*;
use crate::features::Feature;
use crate::kernels::Behaviours;
use crate::topology::CpuPlace;

const MS: u64 = 1_000_000;

fn machine(packages: u32, cores: u32, threads: u32) -> Topology {
    let place = |cpu: u32| CpuPlace {
        core: cpu / threads,
        cluster: cpu / threads,
        llc: cpu / (cores * threads),
        package: cpu / (cores * threads),
        node: 0,
        capacity: 1024,
    };
    Topology::new((0..packages * cores * threads).map(place).collect(), None).unwrap()
}

/// As `/sys/kernel/debug/sched/domains` of the recorded machines.
#[test]
fn domains_are_those_of_the_recorded_machines() {
    let describe =
        |topology: &Topology| Domains::new(topology, Behaviours::at("6.12"), Features::default()).describe(CpuId(0));
    assert_eq!(describe(&machine(1, 4, 1)), [(Level::Mc, 4)]);
    assert_eq!(describe(&machine(1, 4, 2)), [(Level::Smt, 2), (Level::Mc, 8)]);
    assert_eq!(describe(&machine(2, 4, 1)), [(Level::Mc, 4), (Level::Pkg, 8)]);
    let domains = Domains::new(&machine(2, 4, 1), Behaviours::at("6.12"), Features::default());
    let (_, pkg) = domains.of(CpuId(5)).nth(1).unwrap();
    assert_eq!((pkg.min_interval, pkg.max_interval, pkg.groups.len()), (8 * MS, 16 * MS, 2));
    assert!(!pkg.share_llc && pkg.groups.iter().all(|group| group.prefers_sibling));
    assert_eq!(domains.llc_domain(CpuId(5)).unwrap().weight, 4);
}

#[test]
fn one_cpu_has_no_domain() {
    assert!(
        Domains::new(&Topology::flat(1), Behaviours::at("6.12"), Features::default()).describe(CpuId(0)).is_empty()
    );
}

#[test]
fn groups_of_a_numa_ring_overlap_as_its_nodes_see_it() {
    let place =
        |cpu: u32| CpuPlace { core: cpu, cluster: cpu, llc: cpu / 2, package: cpu / 2, node: cpu / 2, capacity: 1024 };
    let d = |a: u32, b: u32| match (a as i32 - b as i32).rem_euclid(4) {
        0 => 10,
        1 | 3 => 20,
        _ => 30,
    };
    let distance = (0..4).map(|a| (0..4).map(|b| d(a, b)).collect()).collect();
    let topology = Topology::new((0..8).map(place).collect(), Some(distance)).unwrap();
    let domains = Domains::new(&topology, Behaviours::at("6.12"), Features::default());
    for cpu in (0..8).map(CpuId) {
        for (position, (_, domain)) in domains.of(cpu).enumerate() {
            let members: CpuMask = domain.groups.iter().flat_map(|group| group.cpus.iter().copied()).collect();
            assert_eq!(members, domain.span, "together they are all CPUs");
            assert!(domain.span.contains(cpu));
            let own = domains.own_group(cpu, position).unwrap();
            assert!(domain.groups[own].cpus.contains(&cpu) && domain.groups[own].balancers().contains(&cpu));
        }
        assert_eq!(domains.describe(cpu).last().unwrap().1, 8);
    }
    // Each node sees two groups: itself with its neighbours, and the opposite node with the same two. The node itself
    // and the opposite one balance.
    let view = |cpu: u32| -> Vec<(Vec<u32>, Vec<u32>)> {
        let numbers = |cpus: &[CpuId]| cpus.iter().map(|cpu| cpu.0).collect();
        let (_, top) = domains.of(CpuId(cpu)).next_back().unwrap();
        top.groups.iter().map(|group| (numbers(&group.cpus), numbers(group.balancers()))).collect()
    };
    let (north, south) = (alloc::vec![0, 1, 2, 3, 6, 7], alloc::vec![2, 3, 4, 5, 6, 7]);
    assert_eq!(view(0), [(north.clone(), alloc::vec![0, 1]), (south.clone(), alloc::vec![4, 5])]);
    assert_eq!(view(5), [(south, alloc::vec![4, 5]), (north, alloc::vec![0, 1])]);
    let first = Features::of(&[Feature::OldNumaGroups]);
    let domains = Domains::new(&topology, Behaviours::at("6.12"), first);
    let (_, top) = domains.of(CpuId(5)).next_back().unwrap();
    assert_eq!(top.groups[0].cpus[0], CpuId(0), "as it was: what the first CPU sees is for all");
}

/// `CLUSTER_DOMAINS`: two clusters of four CPUs in one cache are a level of their own from 5.16 on.
#[test]
fn clusters_are_a_level_from_5_16_on() {
    let place = |cpu: u32| CpuPlace { core: cpu, cluster: cpu / 4, llc: 0, package: 0, node: 0, capacity: 1024 };
    let topology = Topology::new((0..8).map(place).collect(), None).unwrap();
    let levels = |release| Domains::new(&topology, Behaviours::at(release), Features::default()).describe(CpuId(0));
    assert_eq!(levels("5.15"), [(Level::Mc, 8)]);
    assert_eq!(levels("5.16"), [(Level::Cluster, 4), (Level::Mc, 8)]);
}
