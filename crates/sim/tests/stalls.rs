//! Virtual machines with stalls.

mod support;

use support::*;
use vruntime_sim::Config;
use vruntime_sim::stalls::Stall;
use vruntime_workload::program::*;

/// A machine whose host takes each CPU for 4 ms, again 40 ms later on average.
fn stalling(machine: &str, seed: u64) -> Config {
    let mut config = Config { seed, duration: Some(4_000 * MS), ..exact("6.12", machine) };
    config.machine.stalls = Some(Stall { length_ns: 4 * MS, every_ns: 40 * MS });
    config
}

fn hog(cpu: u32) -> Task {
    pinned(once(&format!("h{cpu}"), vec![Op::Run { work: 100_000 * MS }]), &[cpu])
}

/// One part in eleven is lost; the guest charges it to the running task.
#[test]
fn a_computing_task_loses_what_the_host_takes() {
    let loops = task("l", vec![phase(vec![Op::Run { work: MS }], Repeat::Forever)]);
    let (mut log, mut ledger, mut stolen) = (Log::default(), Ledger::default(), Stolen::default());
    let all = workload(vec![pinned(loops, &[0])]);
    simulate(&all, &stalling("1", 1), &mut log).unwrap();
    let outcome = simulate(&all, &stalling("1", 1), &mut ledger).unwrap();
    ledger.check(&outcome);
    simulate(&all, &stalling("1", 1), &mut stolen).unwrap();
    // A start is up to 5 us late.
    assert!(outcome.cpus[0].idle <= 5 * US, "{:?}", outcome.cpus);
    assert!((60..=120).contains(&stolen.times), "{} stalls", stolen.times);
    assert!(stolen.total.abs_diff(stolen.times as u64 * 4 * MS) <= 4 * MS, "{} ns in {}", stolen.total, stolen.times);
    // The rest is work, in whole milliseconds.
    let worked = log.loops("l").len() as u64 * MS;
    assert!(worked.abs_diff(4_000 * MS - stolen.total) <= MS, "{worked} and {} of 4 s", stolen.total);
}

/// An idle CPU loses nothing, but a wakeup is late by the rest of the stall.
#[test]
fn a_task_that_wakes_during_a_stall_is_late() {
    let waker = task("w", vec![phase(vec![run(10), sleep(990)], Repeat::Forever)]);
    let all = workload(vec![pinned(waker, &[0])]);
    let mut log = Log::default();
    simulate(&all, &stalling("2", 1), &mut log).unwrap();
    let late: Vec<u64> = log.sleeps("w").iter().map(|(_, late)| *late).collect();
    let (on_time, most) = (late.iter().filter(|&&late| late == 0).count(), late.iter().max().copied().unwrap());
    assert!((3 * MS..=4 * MS).contains(&most), "{most}");
    let part = on_time as f64 / late.len() as f64;
    // A stall of 4 ms is met by one wakeup that waits for it; in its 44 ms there are 41.
    assert!((0.95..0.99).contains(&part), "{part} of {}", late.len());
}

#[test]
fn cpus_stall_by_themselves() {
    let of = |cpus: &[u32]| {
        let mut stolen = Stolen::default();
        simulate(&workload(cpus.iter().map(|&cpu| hog(cpu)).collect()), &stalling("2", 3), &mut stolen).unwrap();
        stolen.by_cpu.resize(2, 0);
        stolen.by_cpu
    };
    let (first, second, both) = (of(&[0]), of(&[1]), of(&[0, 1]));
    assert_eq!([first[0], second[1]], both[..]);
    // An idle CPU's stalls steal nothing, except during an update of its averages for the others.
    assert!(first[1] <= 4 * MS && second[0] <= 4 * MS, "{first:?} {second:?}");
}

#[test]
fn stalls_come_from_the_seed() {
    let total = |seed| {
        let mut stolen = Stolen::default();
        simulate(&workload(vec![hog(0)]), &stalling("1", seed), &mut stolen).unwrap();
        stolen.total
    };
    assert_eq!(total(1), total(1));
    assert_ne!(total(1), total(2));
}
