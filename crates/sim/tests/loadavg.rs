//! Load averages of whole runs: stopped ticks have no effect.

mod support;

use support::*;
use vruntime_sched::loadavg::{LoadAvg, calc_load};
use vruntime_trace::NoSink;
use vruntime_workload::program::*;

const S: u64 = 1_000_000_000;
const ONE: u64 = 2048;

fn forever(name: &str, ops: Vec<Op>) -> Task {
    task(name, vec![phase(ops, Repeat::Forever)])
}

fn hogs(count: u64) -> Vec<Task> {
    (0..count).map(|index| forever(&format!("hog-{index}"), vec![Op::Run { work: S }])).collect()
}

fn loadavg(tasks: Vec<Task>, machine: &str, seconds: u64) -> LoadAvg {
    let config = vruntime_sim::Config { duration: Some(seconds * S), ..exact("6.12", machine) };
    simulate(&workload(tasks), &config, &mut NoSink).unwrap().loadavg
}

/// Applies the formula of `proc(5)` to samples of a constant number of tasks.
fn constant(tasks: u64, samples: u64) -> LoadAvg {
    let mut load = [0; 3];
    for _ in 0..samples {
        for (load, exp) in load.iter_mut().zip([1884, 2014, 2037]) {
            *load = calc_load(*load, exp, tasks * ONE, 1);
        }
    }
    LoadAvg(load)
}

#[test]
fn the_first_sample_is_taken_after_five_seconds_and_eleven_ticks() {
    // 250 Hz: 5.004 s and 10 ticks of grace.
    let at = |ns: u64| {
        let config = vruntime_sim::Config { duration: Some(ns), ..exact("6.12", "2") };
        simulate(&workload(hogs(2)), &config, &mut NoSink).unwrap().loadavg
    };
    assert_eq!(at(5_043_999_999), LoadAvg::default());
    assert_eq!(at(5_044_000_001), constant(2, 1));
}

/// Running and waiting tasks count: 4 on 2 CPUs. (Of 5 on 2, one sometimes moves between the ticks that count the two
/// CPUs, and is not counted, as in the kernel.)
#[test]
fn constant_load_is_the_formula() {
    assert_eq!(loadavg(hogs(4), "2", 61), constant(4, 12));
    assert_eq!(loadavg(hogs(3), "8", 301), constant(3, 60));
    assert_eq!(loadavg(hogs(3), "8", 301).to_string(), "2.98 1.91 0.84");
}

/// Only uninterruptible sleep is load. The CPUs have no tick for seconds.
#[test]
fn uninterruptible_sleep_counts_without_a_tick() {
    let device = forever("disk", vec![Op::Run { work: 10 * US }, Op::Io { bytes: 1024 }]);
    let sleeper = forever("sleeper", vec![Op::Run { work: 10 * US }, Op::Sleep { time: 400 * S }]);
    let mut config = vruntime_sim::Config { duration: Some(61 * S), ..exact("6.12", "4") };
    config.machine.costs.io_device_ns_per_kib = 400 * S;
    let load = |tasks| simulate(&workload(tasks), &config, &mut NoSink).unwrap().loadavg;
    // The first sample, and eleven of sleeping tasks, made up for at the end.
    let made_up = [1884, 2014, 2037].map(|exp| calc_load(calc_load(0, exp, ONE, 1), exp, ONE, 11));
    assert_eq!(load(vec![device, sleeper.clone()]), LoadAvg(made_up));
    assert_eq!(load(vec![sleeper]), LoadAvg::default());
}

/// Most samples fall into sleep, without a tick; they count no task.
#[test]
fn a_machine_that_sleeps_has_no_load() {
    let rare = forever("rare", vec![Op::Run { work: 100 * US }, Op::Sleep { time: 23 * S }]);
    assert_eq!(loadavg(vec![rare], "4", 300), LoadAvg::default());
}

/// Half-busy tasks on CPUs that often sleep: the mean of the samples is the mean load. The half periods are prime, so
/// in an hour the samples meet all phases.
#[test]
fn an_intermittent_load_counts_by_its_mean() {
    let tasks: Vec<Task> = [97, 113, 127, 149, 163, 181]
        .iter()
        .map(|index| {
            let half = index * MS;
            forever(&format!("half-{index}"), vec![Op::Run { work: half }, Op::Sleep { time: half }])
        })
        .collect();
    let fifteen = loadavg(tasks, "16", 3600).hundredths()[2];
    // Of a mean of 3 the last quarter of an hour remembers 98 %; a sample deviates by 1.2, their average by 0.12.
    assert!((260..=335).contains(&fifteen), "{fifteen}");
}
