use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::class::fair::Eevdf;
use crate::config::Config;
use crate::event::PrevState;
use crate::scheduler::Scheduler;
use crate::shared::FairStats;
use crate::task::{TaskAttrs, TaskState};
use crate::topology::{CpuPlace, Topology};

const MS: u64 = 1_000_000;

/// CPUs of these capacities, the last `apart` of them with their own cache.
fn shared(capacities: &[u32], apart: usize, isolated: &[u32]) -> Shared<Eevdf> {
    shared_of("6.12", capacities, apart, isolated)
}

fn shared_of(kernel: &str, capacities: &[u32], apart: usize, isolated: &[u32]) -> Shared<Eevdf> {
    let first = (capacities.len() - apart) as u32;
    let place = |(core, &capacity): (u32, &u32)| {
        let llc = u32::from(core >= first);
        CpuPlace { core, cluster: core, llc, package: 0, node: 0, capacity }
    };
    let topology = Topology::new((0..).zip(capacities).map(place).collect(), None).unwrap();
    let mut config = Config::new(&crate::kernel(kernel).unwrap(), &topology, 250);
    config.isolated = isolated.iter().copied().map(CpuId).collect();
    Shared::new(topology, config)
}

/// `nr_busy_cpus` starts with all CPUs of a cache, and an isolated one never reports idleness: one busy CPU looks like
/// two.
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

/// The first CPU of the heaviest such task is relieved, unless this CPU is no bigger and the task is alone.
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

/// By load, a lone task may move if it is no more than the imbalance; by utilisation not.
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

struct Quiet;

impl Host for Quiet {
    fn resched(&mut self, _cpu: CpuId) {}
    fn kick_nohz(&mut self, _cpu: CpuId) {}
    fn arm(&mut self, _timer: crate::host::Timer, _at: Option<u64>) {}
    fn event(&mut self, _at: u64, _cpu: CpuId, _event: &Event) {}
}

struct Machine {
    shared: Shared<Eevdf>,
    rqs: Vec<Rq<Eevdf>>,
}

impl Machine {
    fn new(shared: Shared<Eevdf>) -> Self {
        let rqs = Rq::all(&shared);
        Self { shared, rqs }
    }

    /// Forks tasks with the affinity `cpus`, and wakes them on its first CPU.
    fn fork(&mut self, count: usize, cpus: &[u32]) {
        let on = CpuId(cpus[0]);
        let affinity = Some(Arc::new(cpus.iter().copied().map(CpuId).collect()));
        for _ in 0..count {
            let Self { rqs, shared, .. } = self;
            let mut scheduler = Scheduler { rqs, shared, host: &mut Quiet, now: MS };
            let only = Some(Arc::new([on].into_iter().collect()));
            let task = scheduler.new_task(&TaskAttrs { affinity: only, ..TaskAttrs::default() }, on);
            scheduler.wake_new(task, on);
            if scheduler.running(on).task().is_none() {
                let _ = scheduler.schedule(on, PrevState::Preempted);
            }
            scheduler.set_affinity(task, affinity.clone(), on).unwrap();
        }
    }

    fn look(&mut self, cpu: u32, position: usize, kind: BalanceKind) -> u32 {
        let Self { rqs, shared, .. } = self;
        let mut balancing = Balancing { rqs, shared, host: &mut Quiet, now: 2 * MS };
        balancing.load_balance(&shared.domains, CpuId(cpu), position, kind).pulled
    }
}

#[test]
fn a_cpu_whose_tasks_are_all_pinned_is_left_out() {
    let mut machine = Machine::new(shared(&[1024; 3], 0, &[]));
    machine.fork(3, &[1]);
    assert_eq!(machine.look(0, 0, BalanceKind::NewIdle), 0);
    machine.fork(2, &[2, 0]);
    assert_eq!(machine.look(0, 0, BalanceKind::NewIdle), 1);
    assert_eq!(machine.rqs[1].nr_running, 3);
}

/// If affinity prevents balance at a level, the level above (`sgc->imbalance`) moves a task, until the lower level is
/// balanced.
#[test]
fn the_level_above_helps_where_affinity_is_in_the_way() {
    let mut machine = Machine::new(shared(&[1024; 4], 2, &[]));
    machine.fork(2, &[2, 0, 1]);
    let helps = |machine: &Machine| {
        let top = machine.shared.domains.at(CpuId(0), 1).unwrap();
        let group = top.groups.iter().find(|group| group.mask.contains(CpuId(2))).unwrap();
        group.imbalance().load(Relaxed)
    };
    assert!(!helps(&machine));
    assert_eq!((machine.look(3, 0, BalanceKind::Idle), helps(&machine)), (0, true));
    assert_eq!(machine.look(0, 1, BalanceKind::Idle), 1);
    assert_eq!((machine.look(3, 0, BalanceKind::Idle), helps(&machine)), (0, false));
}

/// The push follows `cache_nice_tries` + 2 failures; then the count restarts.
#[test]
fn the_running_task_is_pushed_after_some_failures() {
    let mut machine = Machine::new(shared(&[1024; 2], 0, &[]));
    machine.fork(1, &[1, 0]);
    machine.fork(1, &[1]);
    let failed = |machine: &Machine| machine.rqs[0].balance.domains[0].nr_balance_failed;
    for count in 1..=4 {
        assert_eq!(machine.look(0, 0, BalanceKind::Idle), 0);
        assert_eq!((failed(&machine), machine.rqs[1].push.is_some()), (count, count == 4));
    }
    assert_eq!(machine.look(0, 0, BalanceKind::NewIdle), 0);
    assert_eq!(failed(&machine), 4, "a newly-idle look does not count");
    let Machine { rqs, shared, .. } = &mut machine;
    let _ = Scheduler { rqs, shared, host: &mut Quiet, now: 2 * MS }.schedule(CpuId(1), PrevState::Preempted);
    Balancing { rqs, shared, host: &mut Quiet, now: 2 * MS }.push(CpuId(1), CpuId(0), 0);
    assert_eq!((rqs[0].nr_running, rqs[0].balance.domains[0].nr_balance_failed), (1, 0));
}

/// The stopper moves the first movable task, even one with a delayed dequeue. The balancer of 6.18 moves such a task
/// only to move load; the stopper's moves count as such.
#[test]
fn the_stopper_moves_a_task_with_a_delayed_dequeue() {
    for kernel in ["6.12", "6.18"] {
        let mut machine = Machine::new(shared_of(kernel, &[1024; 2], 0, &[]));
        machine.fork(2, &[1, 0]);
        let Machine { rqs, shared, .. } = &mut machine;
        let schedule = |rqs: &mut Vec<Rq<Eevdf>>, at, state| {
            let _ = Scheduler { rqs, shared, host: &mut Quiet, now: at * MS }.schedule(CpuId(1), state);
        };
        schedule(rqs, 4, PrevState::Sleeping);
        let asleep = |rq: &Rq<Eevdf>| rq.oldest().is_some_and(|task| rq.tasks[task].state == TaskState::Sleeping);
        assert!(rqs[1].nr_running == 2 && asleep(&rqs[1]), "{kernel}: its dequeue is delayed");
        rqs[1].push = Some(Push::Balance { to: CpuId(0), position: 0 });
        schedule(rqs, 5, PrevState::Preempted);
        Balancing { rqs, shared, host: &mut Quiet, now: 5 * MS }.push(CpuId(1), CpuId(0), 0);
        assert_eq!((rqs[0].nr_running, rqs[1].nr_running), (1, 1), "{kernel}");
        assert!(asleep(&rqs[0]), "{kernel}");
    }
}

/// 6.18: before a failure, the stopper also leaves an ineligible task that would share the new CPU.
#[test]
fn the_stopper_leaves_an_ineligible_task_until_a_look_has_failed() {
    for (kernel, failed, moves) in [("6.12", 0, 1), ("6.18", 0, 0), ("6.18", 1, 1)] {
        let mut machine = Machine::new(shared_of(kernel, &[1024; 2], 0, &[]));
        machine.fork(1, &[1, 0]);
        machine.fork(1, &[1]);
        machine.fork(1, &[0]);
        let Machine { rqs, shared, .. } = &mut machine;
        rqs[1].push = Some(Push::Balance { to: CpuId(0), position: 0 });
        rqs[0].balance.domains[0].nr_balance_failed = failed;
        let _ = Scheduler { rqs, shared, host: &mut Quiet, now: 3 * MS }.schedule(CpuId(1), PrevState::Preempted);
        Balancing { rqs, shared, host: &mut Quiet, now: 3 * MS }.push(CpuId(1), CpuId(0), 0);
        assert_eq!(rqs[0].nr_running, 1 + moves, "{kernel}, failed {failed} times");
    }
}

/// The first idle CPU balances for a group; 6.6+: preferably on an idle core. Without idle CPUs, the first CPU.
#[test]
fn the_first_cpu_on_an_idle_core_balances_for_its_group() {
    let balances = |name: &str, busy: &[u32]| -> Vec<u32> {
        let place = |cpu: u32| CpuPlace {
            core: cpu / 2,
            cluster: cpu / 2,
            llc: cpu / 4,
            package: cpu / 4,
            node: 0,
            capacity: 1024,
        };
        let topology = Topology::new((0..8).map(place).collect(), None).unwrap();
        let config = Config::new(&crate::kernel(name).unwrap(), &topology, 250);
        let shared: Shared<Eevdf> = Shared::new(topology, config);
        for &cpu in busy {
            shared.cpu(CpuId(cpu)).publish_core(1, false);
        }
        let mut rqs = Rq::all(&shared);
        let balancing = Balancing { rqs: &mut rqs, shared: &shared, host: &mut Quiet, now: MS };
        let top = |cpu: u32| Visit::new(&shared.domains, CpuId(cpu), 2, BalanceKind::Idle).unwrap();
        (0..4).filter(|&cpu| balancing.should_balance(top(cpu))).collect()
    };
    assert_eq!((balances("6.6", &[]), balances("6.6", &[0])), (vec![0], vec![2]));
    assert_eq!((balances("6.6", &[0, 2]), balances("6.6", &[0, 1, 2])), (vec![1], vec![3]));
    assert_eq!(balances("6.6", &[0, 1, 2, 3]), [0]);
}
