use super::*;
use crate::class::fair::Eevdf;
use crate::config::Config;
use crate::scheduler::Scheduler;
use crate::shared::FairStats;
use crate::task::TaskAttrs;
use crate::topology::{CpuPlace, Topology};

/// Nodes of `cpus` CPUs, each with a cache.
fn machine(nodes: u32, cpus: u32) -> Shared<Eevdf> {
    let place = |cpu: u32| {
        let node = cpu / cpus;
        CpuPlace { core: cpu, cluster: cpu, llc: node, package: node, node, capacity: 1024 }
    };
    let topology = Topology::new((0..nodes * cpus).map(place).collect(), None).unwrap();
    let config = Config::new(&crate::kernel("6.12").unwrap(), &topology, 250);
    Shared::new(topology, config)
}

/// `find_idlest_group` between nodes with 32 CPUs: an eighth of a node is filled before two more tasks here than there
/// matter. A smaller affinity is a smaller node.
#[test]
fn a_node_is_left_for_one_with_more_idle_cpus_once_it_has_a_few_tasks() {
    let shared = machine(2, 32);
    let (_, domain) = shared.domains.of(CpuId(0)).next_back().unwrap();
    assert_eq!((domain.level, domain.imb_numa_nr), (Level::Numa(1), 4));
    let leaves = |here: u32, there: u32, room: u32| {
        let [local, other] = &domain.groups[..] else { panic!("two nodes") };
        let spare = GroupType::HasSpare;
        is_worth_leaving(
            &shared,
            &GroupStats::example(other, spare, there),
            &GroupStats::example(local, spare, here),
            domain,
            room,
        )
    };
    assert_eq!([1, 2, 3, 4, 5].map(|here| leaves(here, 0, 32)), [false, false, true, true, true]);
    assert_eq!([3, 4].map(|here| leaves(here, here - 2, 32)), [false, true]);
    assert_eq!([1, 2].map(|here| leaves(here, 0, 2)), [false, true], "two CPUs are few");
    assert_eq!([leaves(8, 8, 32), leaves(8, 7, 32), leaves(7, 8, 32)], [false, true, false]);
}

/// Within a node, a task leaves for a group that is a sixth less loaded. For another node, the difference has to be
/// 17 % of a task more.
#[test]
fn a_full_group_is_left_for_one_that_is_clearly_less_loaded() {
    let leaves = |shared: &Shared<Eevdf>, here: u64, there: u64| {
        let (_, domain) = shared.domains.of(CpuId(0)).next_back().unwrap();
        let group = |index: usize, avg_load| GroupStats {
            avg_load,
            ..GroupStats::example(&domain.groups[index], GroupType::Overloaded, 9)
        };
        is_worth_leaving(shared, &group(1, there), &group(0, here), domain, 4)
    };
    let (node, nodes) = (machine(1, 4), machine(2, 4));
    assert_eq!([1170, 1171].map(|here| leaves(&node, here, 1000)), [false, true]);
    assert_eq!([1174, 1175].map(|here| leaves(&nodes, here, 1000)), [false, true]);
}

/// The group with more idle CPUs wins, then the less used one, then the first.
#[test]
fn of_groups_with_room_the_one_with_more_idle_cpus_is_the_idlest() {
    let shared = machine(2, 4);
    let (_, domain) = shared.domains.of(CpuId(0)).next_back().unwrap();
    let group = |nr_running, util| GroupStats {
        util,
        ..GroupStats::example(&domain.groups[0], GroupType::HasSpare, nr_running)
    };
    let idler = |a: (u32, u64), b: (u32, u64)| is_idler(&shared, &group(a.0, a.1), &group(b.0, b.1));
    assert!(idler((1, 900), (2, 100)) && !idler((2, 100), (1, 900)));
    assert!(idler((1, 99), (1, 100)) && !idler((1, 100), (1, 100)));
}

/// `find_idlest_group_cpu`: the shallowest idle CPU, then the last to become idle; without one, the first with the
/// least load.
#[test]
fn the_idlest_cpu_is_the_one_that_is_soonest_and_warmest() {
    let shared = machine(2, 4);
    let (_, top) = shared.domains.of(CpuId(0)).next_back().unwrap();
    let group = &top.groups[0];
    let free = Free { beside_idle: true };
    let idlest = |allowed: &[u32]| idlest_cpu(&shared, group, CpuId(3), free, |cpu| allowed.contains(&cpu.0)).0;
    let idle = |cpu, latency, since| {
        shared.idleness(CpuId(cpu)).set_exit_latency(Some(latency));
        shared.idleness(CpuId(cpu)).begin(since);
    };
    (0..).zip([(100, 9), (2, 5), (2, 7), (2, 6)]).for_each(|(cpu, (latency, since))| idle(cpu, latency, since));
    assert_eq!((idlest(&[0, 1, 2, 3]), idlest(&[0, 1]), idlest(&[])), (2, 1, 3));
    for (cpu, load) in (0..).zip([300, 200, 200, 400]) {
        shared.cpu(CpuId(cpu)).publish_core(1, false);
        shared.cpu(CpuId(cpu)).publish_fair(FairStats { load, ..FairStats::default() });
    }
    assert_eq!(idlest(&[0, 1, 2, 3]), 1);
    let idle_task = FairStats { h_nr_runnable: 1, h_nr_queued: 1, h_nr_idle: 1, load: 3, ..FairStats::default() };
    shared.cpu(CpuId(3)).publish_fair(idle_task);
    assert_eq!(idlest(&[0, 1, 2, 3]), 3, "nothing but a SCHED_IDLE task");
}

/// `wake_affine`, rule by rule. First an idle waker's CPU, only if the previous one is not idle. Then the CPU of a
/// waker that is alone and about to sleep. Then the CPU with the lower load including the task; the previous CPU's load
/// counts 8 % more. At equal loads the previous CPU, or the waker's if the waker is about to sleep.
#[test]
fn a_woken_task_moves_to_its_waker_only_if_that_is_no_worse() {
    let shared = machine(1, 4);
    let mut rqs = Rq::all(&shared);
    let mut scheduler = Scheduler { rqs: &mut rqs, shared: &shared, host: &mut Quiet, now: 1_000_000 };
    let task = scheduler.new_task(&TaskAttrs::default(), CpuId(0));
    scheduler.wake_new(task, CpuId(0));
    let index =
        rqs.iter().find_map(|rq| rq.tasks.iter().find(|(_, it)| it.id == task).map(|(index, _)| (rq.cpu, index)));
    let (prev, index) = index.unwrap();
    let on = CpuId((prev.0 + 1) % 4);
    let rq = &mut rqs[prev.index()];
    assert_eq!(rq.task_h_load(&shared, index), 1023);
    let domain = shared.domains.at(prev, 0).unwrap();
    let mut moves = |here: (u32, u64), there: (u32, u64), wake: Wake| {
        for (cpu, (tasks, load)) in [(on, here), (prev, there)] {
            shared.cpu(cpu).publish_core(tasks, tasks == 0);
            let stats = FairStats { load, h_nr_runnable: tasks, h_nr_queued: tasks, ..FairStats::default() };
            shared.cpu(cpu).publish_fair(stats);
        }
        wake_affine(rq, &shared, domain, index, on, wake) == on
    };
    let usual = Wake::default();
    let sync = |waker_load| Wake { sync: true, waker_load, ..usual };
    assert!(moves((0, 0), (1, 1024), usual) && !moves((0, 0), (0, 1024), usual));
    assert!(moves((1, 9000), (1, 1024), sync(0)) && !moves((1, 9000), (1, 1024), usual));
    assert!(!moves((2, 0), (0, 9000), usual));
    assert_eq!([1970, 1971].map(|there| moves((2, 0), (2, there), usual)), [false, true]);
    // 1080 * 100 here, 1000 * 108 there.
    assert!(!moves((2, 57), (2, 2023), usual) && moves((2, 57), (2, 2023), sync(0)));
    assert!(moves((2, 57), (2, 1024), sync(58)) && !moves((2, 57), (2, 1024), sync(57)));
}

struct Quiet;

impl crate::host::Host for Quiet {
    fn resched(&mut self, _cpu: CpuId) {}
    fn kick_nohz(&mut self, _cpu: CpuId) {}
    fn arm(&mut self, _timer: crate::host::Timer, _at: Option<u64>) {}
    fn event(&mut self, _at: u64, _cpu: CpuId, _event: &crate::event::Event) {}
}
