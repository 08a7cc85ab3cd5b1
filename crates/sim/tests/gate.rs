//! Tasks that sleep until the run begins, as in recordings.

#[path = "../../../tests/seed.rs"]
mod seed;
mod support;

use seed::any_seed;
use support::*;
use vruntime_sched::event::Event;
use vruntime_sched::kernels::kernels;
use vruntime_sim::Config;
use vruntime_workload::program::*;

fn gated(kernel: &str, machine: &str) -> Config {
    Config { gate: true, ..exact(kernel, machine) }
}

fn hog(name: &str) -> Task {
    once(name, vec![Op::Run { work: 20 * MS }])
}

#[test]
fn they_wake_where_they_slept() {
    for row in kernels().iter().filter(|row| row.name.parse::<f32>().is_ok()) {
        let mut log = Log::default();
        let tasks = vec![hog("a"), hog("b"), pinned(hog("c"), &[1]), starting(hog("d"), 5 * MS)];
        simulate(&workload(tasks), &gated(row.name, "2"), &mut log).unwrap();
        let woken = log.pick(|at, event| match event {
            Event::Wakeup { task, target } => Some((at / MS, log.names[task.index()].clone(), target.0)),
            Event::WakeupNew { .. } => panic!("{}: none is forked when it starts", row.name),
            _ => None,
        });
        // `d` is after `a` and `b`, and so on the first CPU again.
        let expected = [(0, "a", 0), (0, "b", 1), (0, "c", 1), (5, "d", 0)];
        let woken: Vec<_> = woken.iter().map(|(at, name, cpu)| (*at, name.as_str(), *cpu)).collect();
        assert_eq!(woken, expected, "{}", row.name);
        assert!(log.exit("d").is_some(), "{}", row.name);
    }
}

/// Unlike new tasks, which begin with high averages.
#[test]
fn they_have_no_averages() {
    for kernel in ["6.1", "6.6", "6.12", "6.18", "7.1"] {
        let load = |gate| {
            let config = Config { gate, debug_at: Some(MS), ..exact(kernel, "1") };
            let outcome = simulate(&workload(vec![hog("a")]), &config, &mut vruntime_trace::NoSink).unwrap();
            outcome.debug.unwrap().cpus[0].tasks[0].se.unwrap().avg.load_avg
        };
        let (forked, woken) = (load(false), load(true));
        assert!(forked > 1000 && woken < 50, "{kernel}: {forked}, {woken}");
    }
}

#[test]
fn they_are_spread_over_the_cpus_they_may_run_on() {
    let first = any_seed();
    for seed in (0..10).map(|index| first.wrapping_add(index)) {
        let mut log = Log::default();
        let hog = |index: usize| pinned(hog(&format!("h{index}")), &[4, 5, 6, 7]);
        let config = Config { seed, ..gated("6.12", "8") };
        simulate(&workload((0..4).map(hog).collect()), &config, &mut log).unwrap();
        let cpus = log.pick(|_, event| match event {
            Event::Wakeup { target, .. } => Some(target.0),
            _ => None,
        });
        assert_eq!(std::collections::BTreeSet::from_iter(cpus), [4, 5, 6, 7].into(), "seed {seed}");
    }
}

/// Forks put tasks on all CPUs in turn, in an order from the seed.
#[test]
fn a_seed_spreads_them_evenly() {
    let mut orders = std::collections::BTreeSet::new();
    let first = any_seed();
    for seed in (1..=20).map(|index| first.wrapping_add(index)) {
        let mut log = Log::default();
        let sleeper = |index: usize| once(&format!("t{index}"), vec![Op::Run { work: 10 * US }]);
        let config = Config { seed, ..gated("6.18", "4") };
        simulate(&workload((0..8).map(sleeper).collect()), &config, &mut log).unwrap();
        // A timer fires where its task slept; the second task of a CPU moves to another.
        let slept = log.events.iter().filter_map(|&(_, cpu, event)| match event {
            Event::Waking { task, .. } => Some((task.index(), cpu.0)),
            _ => None,
        });
        let mut cpus: Vec<(usize, u32)> = slept.collect();
        cpus.sort_unstable();
        let cpus: Vec<u32> = cpus.into_iter().map(|(_, cpu)| cpu).collect();
        for block in cpus.chunks(4) {
            let block: std::collections::BTreeSet<&u32> = block.iter().collect();
            assert_eq!(block.len(), 4, "seed {seed}: {cpus:?}");
        }
        orders.insert(cpus);
    }
    assert!(orders.len() > 10, "{orders:?}");
}

#[test]
fn traces_know_where_they_slept() {
    let mut writer = vruntime_trace::FtraceWriter::new(Vec::new(), 2);
    let tasks = vec![pinned(hog("a"), &[1]), pinned(hog("b"), &[0])];
    simulate(&workload(tasks), &gated("6.12", "2"), &mut writer).unwrap();
    let text = String::from_utf8(writer.finish_writing().unwrap()).unwrap();
    let woken: Vec<&str> = text.lines().filter(|line| line.contains("sched_waking")).collect();
    assert_eq!(woken.len(), 2, "{text}");
    for (task, cpu) in [("comm=a ", "target_cpu=001"), ("comm=b ", "target_cpu=000")] {
        assert!(woken.iter().any(|line| line.contains(task) && line.contains(cpu)), "{woken:?}");
    }
}
