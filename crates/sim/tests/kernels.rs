//! Differences between neighbouring kernels.

mod support;

use support::*;
use vruntime_sched::event::Event;
use vruntime_sched::kernels::Behaviour;
use vruntime_sim::{Config, MachineSpec, parse_topology};
use vruntime_trace::Digest;
use vruntime_workload::program::*;

/// Hogs and sleepers of different weights, in groups, on two nodes of cores with two threads.
fn mixed(tasks: u64) -> Workload {
    let limit = Bandwidth { quota: 30 * MS, period: 100 * MS, burst: 0 };
    let group = |path: &str, parent, weight, max| Group {
        path: path.to_owned(),
        parent: Some(parent),
        weight,
        max,
        ..Group::default()
    };
    let tasks = (0..tasks).map(|index| {
        let work = run(150 + 370 * (index % 7));
        let ops = if index % 3 == 0 { vec![work] } else { vec![work, sleep(400 + 910 * (index % 5))] };
        let mut task = task(&format!("t{index}"), vec![phase(ops, Repeat::Forever)]);
        task.settings.policy = Some(Policy::Other { nice: (index % 5) as i8 - 2, slice: None });
        task.settings.group = Some((index % 4) as usize);
        starting(task, index * 300 * US)
    });
    let mut workload = workload(tasks.collect());
    workload.groups = vec![
        Group { path: "/".to_owned(), parent: None, weight: 100, ..Group::default() },
        group("/a", 0, 300, None),
        group("/a/b", 1, 50, None),
        group("/limited", 0, 100, Some(limit)),
    ];
    workload
}

fn digest(kernel: &str, tasks: u64, forced: &[(Behaviour, bool)]) -> u64 {
    let machine = MachineSpec::new(parse_topology("numa:2 core:4 pu:2").unwrap());
    let mut config =
        Config { duration: Some(400 * MS), ..Config::new(vruntime_sched::kernel(kernel).unwrap(), machine) };
    for &(behaviour, on) in forced {
        config.kernel.force(behaviour, on);
    }
    config.kernel.check().unwrap();
    let mut digest = Digest::default();
    simulate(&mixed(tasks), &config, &mut digest).unwrap();
    digest.value()
}

#[test]
fn each_kernel_is_set_apart_by_its_behaviours() {
    use Behaviour as B;
    // `behaviours.rs` shows INIT_UTIL_SCALE, REWEIGHT_PLACES, DELAYED_KEEPS_DEBT and IDLE_LAG_DECAYS.
    let cases: [(&str, &[(Behaviour, bool)]); 17] = [
        ("4.18-el8", &[(B::BesideIdle, true), (B::GroupsByUtil, false)]),
        ("4.18-el8", &[(B::NewidleBacksOff, false)]),
        ("4.19", &[(B::GroupsByUtil, false)]),
        ("5.4", &[(B::GroupsByUtil, false)]),
        ("5.4", &[(B::ByType, true)]),
        ("5.10", &[(B::Pct117, false), (B::BusyFactor16, false), (B::IntervalDrifts, false)]),
        ("5.10", &[(B::SearchOnce, true), (B::SiblingsOfPrev, true)]),
        ("5.15", &[(B::SearchOnce, false), (B::SiblingsOfPrev, false)]),
        ("5.15", &[(B::NewidleGateCost, true)]),
        ("5.14-el9", &[(B::NewidleGateCost, false)]),
        ("6.4", &[(B::PeriodPhasesDiffer, false)]),
        ("6.4", &[(B::SiblingByCores, true), (B::SiblingOfBusiest, true), (B::SmtBalance, true)]),
        ("6.8", &[(B::GroupLoadRateLimit, false)]),
        ("6.14", &[(B::ShortOvertakes, false), (B::Vprot, true)]),
        ("6.17", &[(B::Vprot, false), (B::ShortOvertakes, true)]),
        ("6.17", &[(B::TaskThrottle, true)]),
        ("6.17", &[(B::NewidleCostRises, false)]),
    ];
    // Crowded, about full, and with a CPU for each task.
    let differs = |kernel, forced| {
        [28, 20, 12].into_iter().any(|tasks| digest(kernel, tasks, &[]) != digest(kernel, tasks, forced))
    };
    let alike: Vec<_> = cases.into_iter().filter(|&(kernel, forced)| !differs(kernel, forced)).collect();
    assert!(alike.is_empty(), "{alike:?}");
}

/// The news of 7.2 concern deadline tasks, CPUs of different capacities and more than 87 runnable tasks in a group.
#[test]
fn linux_7_2_is_as_7_1_here() {
    assert_eq!(digest("7.2", 28, &[]), digest("7.1", 28, &[]));
    assert_ne!(digest("7.2", 28, &[]), digest("7.0", 28, &[]));
}

/// Of twelve tasks forked on a node of sixteen CPUs with four caches, all stay up to 5.10 while a CPU is idle. Up to
/// 5.17 they stay until a quarter of both nodes is in use; then the number of caches decides.
#[test]
fn forks_fill_a_node_as_far_as_their_kernel_lets_them() {
    let stay = |kernel: &str| {
        let tasks = (0..12).map(|index| starting(once(&format!("t{index}"), vec![run(100_000)]), (1 + index) * MS));
        let mut log = Log::default();
        let config = Config { duration: Some(16 * MS), ..exact(kernel, "numa:2 l3:4 core:4") };
        simulate(&workload(tasks.collect()), &config, &mut log).unwrap();
        let targets = log.pick(|_, event| match event {
            Event::WakeupNew { target, .. } => Some(target.0),
            _ => None,
        });
        targets.iter().filter(|&&target| target < 16).count()
    };
    assert_eq!(["5.10", "5.15", "6.1"].map(stay), [12, 8, 6]);
}

#[test]
fn periods_of_two_limits_begin_apart_from_6_4_on() {
    let together = |kernel: &str| {
        let group = |path: &str| Group {
            path: path.to_owned(),
            parent: Some(0),
            max: Some(Bandwidth { quota: 10 * MS, period: 100 * MS, burst: 0 }),
            ..Group::default()
        };
        let hog = |name: &str, index: u32| {
            let mut hog = pinned(once(name, vec![run(1_000_000)]), &[index]);
            hog.settings.group = Some(1 + index as usize);
            hog
        };
        let mut workload = workload(vec![hog("a", 0), hog("b", 1)]);
        workload.groups.extend([group("/a"), group("/b")]);
        let mut log = Log::default();
        simulate(&workload, &Config { duration: Some(500 * MS), ..exact(kernel, "2") }, &mut log).unwrap();
        let mut ends = log.pick(|at, event| matches!(event, Event::Unthrottle { .. }).then_some(at));
        let all = ends.len();
        ends.dedup();
        assert!(all >= 6, "{kernel}: {all}");
        ends.len() < all
    };
    for kernel in ["5.4", "5.10", "5.15", "6.1"] {
        assert!(together(kernel), "{kernel}");
    }
    for kernel in ["6.4", "6.6", "6.8", "6.11"] {
        assert!(!together(kernel), "{kernel}");
    }
}

/// A hog beside a task that wants half of the CPU gets about half under CFS, where a sleeper preempts. EEVDF gives it
/// two thirds (without delayed dequeue, which pays the sleeper for part of its sleep).
#[test]
fn a_hog_gets_more_than_half_of_a_cpu_under_eevdf() {
    let share = |kernel: &str| {
        let hog = task("hog", vec![phase(vec![run(1_000)], Repeat::Forever)]);
        let half = task("half", vec![phase(vec![run(1_000), sleep(1_000)], Repeat::Forever)]);
        let mut log = Log::default();
        simulate(&workload(vec![hog, half]), &Config { duration: Some(4_000 * MS), ..exact(kernel, "1") }, &mut log)
            .unwrap();
        let rounds = log.loops("half").len() as u64;
        100 - rounds * 100 / 4_000
    };
    for kernel in ["4.18-el8", "4.19", "5.4", "5.10", "5.14-el9", "5.15", "6.1", "6.4"] {
        assert!((49..=53).contains(&share(kernel)), "{kernel}: {}", share(kernel));
    }
    for kernel in ["6.6", "6.8", "6.11"] {
        assert!((64..=70).contains(&share(kernel)), "{kernel}: {}", share(kernel));
    }
}

/// A real-time hog on every CPU but one: up to 5.9 it borrows runtime and hardly ever stops; later 50 ms a second.
#[test]
fn real_time_hogs_borrow_up_to_5_9() {
    let gap = |kernel: &str| {
        let mut hog = pinned(once("hog", vec![run(10_000_000)]), &[0]);
        hog.settings.policy = Some(Policy::RoundRobin { priority: 10 });
        let fair = pinned(once("fair", vec![run(10_000_000)]), &[0]);
        let mut log = Log::default();
        simulate(&workload(vec![hog, fair]), &Config { duration: Some(4_000 * MS), ..exact(kernel, "4") }, &mut log)
            .unwrap();
        let hog = log.of("hog");
        let (mut left, mut worst) = (None, 0);
        for (at, _, event) in &log.events {
            if let Event::Switch { prev, next, .. } = event {
                if prev.task() == Some(hog) {
                    left = Some(*at);
                } else if next.task() == Some(hog)
                    && let Some(since) = left.take()
                {
                    worst = worst.max(at - since);
                }
            }
        }
        worst / MS
    };
    for kernel in ["4.18-el8", "4.19", "5.4"] {
        assert!(gap(kernel) <= 5, "{kernel}: {}", gap(kernel));
    }
    for kernel in ["5.10", "5.15", "6.1", "6.4", "6.8"] {
        assert!((46..=54).contains(&gap(kernel)), "{kernel}: {}", gap(kernel));
    }
}
