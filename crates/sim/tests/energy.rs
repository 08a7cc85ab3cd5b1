//! Energy-aware wakeups, and machines where an energy model has no effect.

mod support;

use support::*;
use vruntime_sched::energy::{EnergyError, EnergyModel, PerfDomain, PerfState};
use vruntime_sched::event::{Event, PrevState};
use vruntime_sched::ids::CpuId;
use vruntime_sched::kernels::Behaviour;
use vruntime_sim::frequency::{Frequencies, FrequencyDomain, Governor};
use vruntime_sim::{Config, Error, Outcome};
use vruntime_trace::NoSink;
use vruntime_workload::program::*;

const KERNELS: [&str; 5] = ["6.1", "6.6", "6.12", "6.18", "7.1"];
/// Of the Juno board: MHz, and mW of the small and of the big CPUs.
const SMALL: [(u32, u64); 3] = [(450, 42), (700, 79), (850, 119)];
const BIG: [(u32, u64); 3] = [(450, 160), (800, 343), (1100, 583)];

fn states(of: &[(u32, u64)]) -> Vec<PerfState> {
    of.iter().map(|&(mhz, mw)| PerfState { khz: mhz * 1000, power_uw: mw * 1000 }).collect()
}

/// CPUs 0 to 3 are small, 4 and 5 big.
fn machine(kernel: &str, small: &[(u32, u64)], big: &[(u32, u64)]) -> Config {
    let mut config = exact(kernel, "l3:1 core:6(capacity=446,446,446,446,1024,1024)");
    let cpus = [vec![0, 1, 2, 3], vec![4, 5]];
    let domain = |(cpus, of): (&Vec<u32>, &[(u32, u64)])| PerfDomain { cpus: cpus.clone(), states: states(of) };
    let domains: Vec<PerfDomain> = cpus.iter().zip([small, big]).map(domain).collect();
    let clock = |domain: &PerfDomain| FrequencyDomain {
        cpus: domain.cpus.clone(),
        khz: domain.states.iter().map(|state| state.khz).collect(),
        transition_ns: 0,
    };
    let domains_of_clocks = domains.iter().map(clock).collect();
    config.machine.frequencies =
        Some(Frequencies { governor: Governor::Schedutil, rate_limit_ns: 1_000_000, domains: domains_of_clocks });
    config.machine.energy = Some(EnergyModel { domains });
    config.duration = Some(1000 * MS);
    config
}

fn juno(kernel: &str) -> Config {
    machine(kernel, &SMALL, &BIG)
}

fn log(tasks: Vec<Task>, config: &Config) -> (Log, Outcome) {
    let mut log = Log::default();
    let mut whole = workload(tasks);
    whole.timers = (0..8).map(|index| Timer::new(format!("t{index}"))).collect();
    let outcome = simulate(&whole, config, &mut log).unwrap();
    (log, outcome)
}

fn periodic(name: &str, timer: usize, work: u64, period: u64) -> Task {
    let timer = Op::Timer { timer, period: period * US, mode: TimerMode::Absolute };
    task(name, vec![phase(vec![run(work), timer], Repeat::Forever)])
}

/// A hog for 200 ms of a full CPU (1024), then 1 ms in 16.
fn launched(name: &str) -> Task {
    let timer = Op::Timer { timer: 0, period: 16 * MS, mode: TimerMode::Absolute };
    let frames = phase(vec![run(1000), timer], Repeat::Forever);
    task(name, vec![phase(vec![run(200_000), sleep(5_000)], Repeat::Times(1)), frames])
}

fn cpus_from(log: &Log, name: &str, from: u64) -> Vec<u32> {
    let this = log.of(name);
    let on = |&(at, cpu, event): &(u64, CpuId, Event)| match event {
        Event::Switch { next, .. } if at >= from && next.task() == Some(this) => Some(cpu.0),
        _ => None,
    };
    let mut cpus: Vec<u32> = log.events.iter().filter_map(on).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

fn overutilized(log: &Log) -> Vec<(u64, bool)> {
    log.pick(|at, event| match event {
        Event::Overutilized { root: CpuId(0), on } => Some((at, on)),
        _ => None,
    })
}

/// Without energy awareness the task stays on its big CPU, which is idle at each wakeup.
#[test]
fn a_task_that_is_small_again_returns_to_a_small_cpu() {
    for kernel in KERNELS {
        // Only another task's tick finds out that all CPUs have room again.
        let tasks = || vec![launched("app"), periodic("p", 1, 2000, 16_100)];
        let with = log(tasks(), &juno(kernel)).0;
        assert!(cpus_from(&with, "app", 0).iter().any(|&cpu| cpu >= 4), "{kernel}: it was on a big one");
        let late = cpus_from(&with, "app", 800 * MS);
        assert!(!late.is_empty() && late.iter().all(|&cpu| cpu < 4), "{kernel}: {late:?}");
        let mut config = juno(kernel);
        config.kernel.set("sched_energy_aware", 0).unwrap();
        let without = log(tasks(), &config).0;
        let late = cpus_from(&without, "app", 800 * MS);
        assert!(!late.is_empty() && late.iter().all(|&cpu| cpu >= 4), "{kernel}: {late:?}");
        assert_eq!(overutilized(&without), []);
    }
}

#[test]
fn tasks_run_on_the_cheaper_kind_of_cpu() {
    for kernel in KERNELS {
        let dear: Vec<(u32, u64)> = SMALL.iter().map(|&(mhz, mw)| (mhz, mw * 20)).collect();
        for (small, wanted) in [(&SMALL[..], 0..4), (&dear[..], 4..6)] {
            let tasks = (0..3).map(|index| periodic(&format!("t{index}"), index, 1500, 16_000 + index as u64 * 700));
            let config = machine(kernel, small, &BIG);
            let (log, _) = log(tasks.collect(), &config);
            for name in ["t0", "t1", "t2"] {
                let cpus = cpus_from(&log, name, 300 * MS);
                assert!(!cpus.is_empty() && cpus.iter().all(|cpu| wanted.contains(cpu)), "{kernel} {name}: {cpus:?}");
            }
            assert_eq!(overutilized(&log), [], "{kernel}");
        }
    }
}

/// A CPU's cost depends on its frequency: a second task of half a CPU on the first one's CPU would need the highest.
#[test]
fn tasks_spread_where_one_cpu_would_have_to_run_faster() {
    for kernel in KERNELS {
        // Each takes 3 ms in 10 at 850 MHz, and 5.7 ms at 450.
        let tasks = (0..4).map(|index| periodic(&format!("t{index}"), index, 1307, 10_000 + index as u64 * 10));
        let (log, _) = log(tasks.collect(), &juno(kernel));
        let cpus: std::collections::BTreeSet<Vec<u32>> =
            ["t0", "t1", "t2", "t3"].iter().map(|name| cpus_from(&log, name, 500 * MS)).collect();
        let one_each: Vec<Vec<u32>> = (0..4).map(|cpu| vec![cpu]).collect();
        assert_eq!(cpus.into_iter().collect::<Vec<_>>(), one_each, "{kernel}");
    }
}

/// While a hog fills a CPU, a woken task takes an idle CPU, whatever the energy.
#[test]
fn a_full_cpu_ends_energy_awareness_until_all_have_room_again() {
    for kernel in KERNELS {
        let hog = task("hog", vec![phase(vec![run(300_000)], Repeat::Times(1))]);
        let (log, _) = log(vec![hog, periodic("p", 0, 2000, 16_100)], &juno(kernel));
        let changes = overutilized(&log);
        let end = log.exit("hog").unwrap();
        // It fills the small CPU that it begins on, for a moment, and then a big one.
        let began = changes.iter().rfind(|(_, on)| *on).map(|(at, _)| *at);
        assert!(began.is_some_and(|began| began < end), "{kernel}: {changes:?}");
        // An update of idle CPUs' averages finds out that its last CPU has room.
        let over = changes.last().is_some_and(|&(at, on)| !on && (end..end + 500 * MS).contains(&at));
        assert!(over, "{kernel}: {changes:?}, the hog ended at {end}");
    }
}

#[test]
fn an_unused_energy_model_changes_nothing() {
    let tasks = || vec![launched("app"), periodic("p", 1, 1000, 16_000)];
    let compare = |change: &dyn Fn(&mut Config), why: &str| {
        let mut config = juno("6.12");
        change(&mut config);
        let (with, outcome) = log(tasks(), &config);
        assert!(outcome.notes.iter().any(|note| note.contains("energy model") && note.ends_with(why)), "{why}");
        config.machine.energy = None;
        let (without, outcome) = log(tasks(), &config);
        assert!(outcome.notes.iter().all(|note| !note.contains("energy")));
        assert!(with.events == without.events, "{why}");
    };
    compare(&|config| config.kernel = vruntime_sched::kernel("3.18").unwrap(), "Linux 3.18 does not do so yet");
    compare(
        &|config| config.machine.frequencies.as_mut().unwrap().governor = Governor::Performance,
        "another governor than schedutil chooses the frequencies",
    );
    let flat = |machine: &'static str| {
        move |config: &mut Config| config.machine.topology = exact("6.12", machine).machine.topology
    };
    compare(&flat("core:6"), "all CPUs have the same capacity");
    compare(&flat("core:3(capacity=446,446,1024) pu:2"), "its cores have several threads");
}

#[test]
fn a_model_of_another_machine_is_refused() {
    let mut config = juno("6.12");
    config.machine.energy.as_mut().unwrap().domains[1].cpus.pop();
    let refused = simulate(&workload(vec![once("t", vec![run(1)])]), &config, &mut NoSink).unwrap_err();
    assert!(matches!(refused, Error::Energy(EnergyError::NotOnce { cpu: 5 })), "{refused}");
}

fn moved(at: u64, task: usize, cpus: &[u32]) -> Change {
    let Task { settings, .. } = pinned(self::task("", Vec::new()), cpus);
    Change { at, what: Changed::Tasks { tasks: vec![task], settings, nice: None } }
}

fn capped(mut task: Task, max: u32) -> Task {
    task.settings.util_max = Some(max);
    task
}

fn with_changes(tasks: Vec<Task>, changes: Vec<Change>, config: &Config) -> Log {
    let mut log = Log::default();
    simulate(&Workload { changes, ..workload(tasks) }, config, &mut log).unwrap();
    log
}

/// A task capped at nothing moves, unlike one that uses nothing.
#[test]
fn a_task_capped_at_nothing_moves() {
    for kernel in KERNELS {
        let work = task("bg", vec![phase(vec![run(500), sleep(10_000)], Repeat::Forever)]);
        let tasks = vec![capped(pinned(work, &[4]), 0)];
        let log = with_changes(tasks, vec![moved(500 * MS, 0, &[0, 1, 2, 3, 4, 5])], &juno(kernel));
        assert!(cpus_from(&log, "bg", 600 * MS).iter().all(|&cpu| cpu < 4), "{kernel}");
    }
}

/// Beside an uncapped task, the cap would have no effect; the kernel also assumes that for the domain's next idle CPUs.
#[test]
fn the_clamps_of_a_cpu_in_use_count_for_the_next() {
    for kernel in KERNELS {
        let free = task("free", vec![phase(vec![run(700), sleep(2_500)], Repeat::Forever)]);
        let heavy = || task("capped", vec![phase(vec![run(5_000), sleep(2_000)], Repeat::Forever)]);
        let cpus_with = |free: Vec<Task>| {
            let tasks = [vec![capped(pinned(heavy(), &[0, 1, 4, 5]), 300)], free].concat();
            cpus_from(&with_changes(tasks, Vec::new(), &juno(kernel)), "capped", 200 * MS)
        };
        assert!(cpus_with(Vec::new()).iter().all(|&cpu| cpu < 4), "{kernel}");
        assert!(cpus_with(vec![pinned(free.clone(), &[0])]).iter().any(|&cpu| cpu >= 4), "{kernel}");
        assert!(cpus_with(vec![pinned(free, &[1])]).iter().all(|&cpu| cpu < 4), "{kernel}: a later CPU does not count");
    }
}

/// A capped task moves to a CPU too small for its utilisation. Its clamps count before the check for overutilisation;
/// in 6.12, after it.
#[test]
fn overutilisation_is_checked_before_or_after_clamps_count() {
    let releases = [("6.1", false), ("6.6", false), ("6.12", true), ("6.18", false), ("7.1", false)];
    let releases = releases.map(|(name, after)| (name, juno(name), after));
    let forced = [("6.12 without", false), ("6.12 with", true)].map(|(name, on)| {
        let mut config = juno("6.12");
        config.kernel.force(Behaviour::ClampsLast, on);
        (name, config, on)
    });
    for (kernel, config, after) in releases.into_iter().chain(forced) {
        let heavy = task("capped", vec![phase(vec![run(5_000), sleep(1_000)], Repeat::Forever)]);
        let tasks = vec![capped(pinned(heavy, &[1]), 300)];
        let alone = with_changes(tasks.clone(), Vec::new(), &config);
        let asleep = alone.pick(|at, event| match event {
            Event::Switch { prev_state: PrevState::Sleeping, .. } if at > 900 * MS => Some(at + 500 * US),
            _ => None,
        })[0];
        let log = with_changes(tasks, vec![moved(asleep, 0, &[0])], &Config { duration: Some(1100 * MS), ..config });
        assert_eq!(cpus_from(&log, "capped", 1010 * MS), [0], "{kernel}");
        let raised = overutilized(&log).iter().any(|&(at, on)| on && at > asleep);
        assert_eq!(raised, after, "{kernel}");
    }
}

/// `ENERGY_MOVES_MISFITS`: a task whose clamp asks for a big CPU computes on a small one, as it had to begin there. No
/// CPU is overutilised. An idle big CPU pulls it. Without the behaviour, it stays up to its next wakeup.
#[test]
fn a_misfit_task_moves_although_wakeups_go_by_energy() {
    let big_cpu = |on| {
        let mut config = juno("6.12");
        config.kernel.force(Behaviour::EasMovesMisfit, on);
        let mut needy = pinned(once("t", vec![Op::Sleep { time: 500 * MS }, run(15_000)]), &[0]);
        needy.settings.util_min = Some(1024);
        let log = with_changes(vec![needy], vec![moved(505 * MS, 0, &[0, 1, 2, 3, 4, 5])], &config);
        assert_eq!(overutilized(&log), [], "{on}");
        cpus_from(&log, "t", 506 * MS).iter().any(|&cpu| cpu >= 4)
    };
    assert_eq!((big_cpu(true), big_cpu(false)), (true, false));
}

/// `BOOST_MOVES_WAITING`: tasks that wake together wait for each other. A task that leaves a CPU takes its own wait out
/// of the CPU's estimate, so wakeups choose other CPUs. Only a wait that counts as utilisation matters.
#[test]
fn a_task_takes_its_own_wait_along() {
    const CROWD: [(u64, u64); 5] = [(1540, 16_000), (1327, 16_000), (1309, 8_000), (1543, 8_000), (1594, 16_000)];
    let chosen = |tasks: &[(u64, u64)], boosts, takes| {
        let mut config = juno("7.2");
        config.kernel.force(Behaviour::BoostsRunnable, boosts);
        config.kernel.force(Behaviour::BoostMovesOwn, takes);
        let tasks = tasks.iter().enumerate();
        let tasks = tasks.map(|(index, &(work, period))| periodic(&format!("t{index}"), index, work, period));
        let (log, _) = log(tasks.collect(), &config);
        log.pick(|at, event| match event {
            Event::Wakeup { task, target } => Some((at, task, target)),
            _ => None,
        })
    };
    assert_ne!(chosen(&CROWD, true, true), chosen(&CROWD, true, false));
    assert_eq!(chosen(&CROWD, false, true), chosen(&CROWD, false, false));
    assert_eq!(chosen(&CROWD[..1], true, true), chosen(&CROWD[..1], true, false));
}
