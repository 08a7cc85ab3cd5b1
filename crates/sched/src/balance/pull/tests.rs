use super::*;
use crate::class::fair::Eevdf;
use crate::config::Config;
use crate::shared::FairStats;
use crate::topology::{CpuPlace, Topology};

/// CPUs of such capacities, the last `apart` of them with a cache of their own.
fn shared(capacities: &[u32], apart: usize, isolated: &[u32]) -> Shared<Eevdf> {
    let first = (capacities.len() - apart) as u32;
    let place = |(core, &capacity): (u32, &u32)| {
        let llc = u32::from(core >= first);
        CpuPlace { core, cluster: core, llc, package: 0, node: 0, capacity }
    };
    let topology = Topology::new((0..).zip(capacities).map(place).collect(), None).unwrap();
    let mut config = Config::new(&crate::kernel("6.12").unwrap(), &topology, 250);
    config.isolated = isolated.iter().copied().map(CpuId).collect();
    Shared::new(topology, config)
}

/// `nr_busy_cpus` begins with all CPUs of a cache, and an isolated one never says that it is idle: one busy CPU looks like two.
#[test]
fn an_isolated_cpu_counts_as_busy_for_good() {
    for (isolated, kicks) in [(&[][..], false), (&[3], true), (&[2, 3], true)] {
        let shared = shared(&[1024; 4], 0, isolated);
        let lowest = shared.domains.at(CpuId(0), 0).unwrap();
        assert_eq!(lowest.cut_off as usize, isolated.len());
        (1..4).map(CpuId).for_each(|cpu| shared.nohz.enter(cpu));
        assert_eq!(kick_for_one(CpuId(0), &shared), kicks, "{isolated:?}");
    }
}

/// Of CPUs with tasks that do not fit the first of those with the greatest load is relieved, unless this CPU is no bigger and the task is alone.
#[test]
fn of_tasks_that_do_not_fit_the_first_of_the_heaviest_is_taken() {
    let shared = shared(&[256, 256, 512, 512, 1024], 1, &[]);
    let domain = shared.domains.at(CpuId(4), 0).unwrap();
    let group = &domain.groups[0];
    let lone = FairStats { h_nr_runnable: 1, h_nr_queued: 1, ..FairStats::default() };
    (0..4).map(CpuId).for_each(|cpu| shared.cpu(cpu).publish_fair(lone));
    let imbalance = Imbalance { migration: MigrationType::Misfit, amount: 1 };
    let busiest = |dst, misfits: [u64; 4]| {
        (0..).zip(misfits).for_each(|(cpu, load)| shared.cpu(CpuId(cpu)).set_misfit_task_load(load));
        busiest_queue(&shared, domain, group, &imbalance, &CpuMask::new(), CpuId(dst)).map(|cpu| cpu.0)
    };
    assert_eq!(busiest(4, [0, 300, 300, 200]), Some(1));
    assert_eq!(busiest(4, [300, 300, 301, 0]), Some(2));
    assert_eq!(busiest(4, [0; 4]), None);
    assert_eq!(busiest(3, [200, 0, 300, 0]), Some(0), "one of its own size is left out");
}

/// A lone task is taken by load if that is no more than what shall be moved; by utilisation it is not.
#[test]
fn a_lone_task_may_be_too_much() {
    let shared = shared(&[1024; 4], 1, &[]);
    let domain = shared.domains.at(CpuId(3), 0).unwrap();
    let group = &domain.groups[0];
    let publish = |cpu, tasks, load| {
        let stats = FairStats { load, util: load, h_nr_runnable: tasks, h_nr_queued: tasks, ..FairStats::default() };
        shared.cpu(CpuId(cpu)).publish_fair(stats);
    };
    let busiest = |migration, amount| {
        let imbalance = Imbalance { migration, amount };
        busiest_queue(&shared, domain, group, &imbalance, &CpuMask::new(), CpuId(3)).map(|cpu| cpu.0)
    };
    publish(0, 1, 500);
    publish(1, 2, 400);
    publish(2, 2, 400);
    let (load, util, count) = (MigrationType::Load, MigrationType::Util, MigrationType::Task);
    assert_eq!((busiest(load, 500), busiest(load, 499)), (Some(0), Some(1)));
    assert_eq!((busiest(util, 500), busiest(count, 1)), (Some(1), Some(1)), "of equals the first");
}
