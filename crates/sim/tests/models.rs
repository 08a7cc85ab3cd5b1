//! Known properties of the benchmarks, under a kernel of each kind.

mod support;

use support::*;
use vruntime_report::{Collector, Results};
use vruntime_sim::{Config, MachineSpec, parse_topology};
use vruntime_workload::model;

const KERNELS: [&str; 6] = ["2.6.22", "2.6.23", "3.10", "3.18", "6.1", "6.12"];

/// With the default costs.
fn run_model(command: &str, kernel: &str, machine: &str, ms: Option<u64>) -> Results {
    let spec = MachineSpec::new(parse_topology(machine).unwrap());
    let cpus = spec.topology.nr_cpus();
    let config =
        Config { duration: ms.map(|ms| ms * MS), ..Config::new(vruntime_sched::kernel(kernel).unwrap(), spec) };
    let mut sinks = (Collector::new(cpus), Ledger::default());
    let outcome = simulate(&model::parse(command).unwrap(), &config, &mut sinks).unwrap();
    sinks.1.check(&outcome);
    sinks.0.into_results()
}

#[test]
fn hackbench_says_all_and_ends() {
    for kernel in KERNELS {
        for command in ["hackbench -pipe 1 process 20", "hackbench 1 thread 20"] {
            let results = run_model(command, kernel, "4", None);
            let mut senders = 0;
            for task in &results.tasks {
                // A loop is counted for each completed phase: the initial wait, and each message or round of
                // messages.
                let sends = task.name.contains("sender");
                let expected = if sends { 1 + 20 } else { 1 + 20 * 20 };
                assert_eq!(task.account.loops, expected, "{kernel} {command}: {}", task.name);
                senders += u32::from(sends);
            }
            assert_eq!(
                (senders, results.tasks.len()),
                (20, 40),
                "{kernel} {command}: a group is 20 senders and 20 receivers"
            );
            assert!(results.elapsed_ns < 1_000 * MS, "{kernel}: {}", results.elapsed_ns);
        }
    }
}

/// On one CPU each pass of the token is a switch. It is two where a woken task preempts the waker before it sleeps, as
/// under 2.6.23.
#[test]
fn a_ring_switches_at_each_pass() {
    for kernel in KERNELS {
        let results = run_model("lat_ctx -s 0 8", kernel, "1", Some(100));
        let passes: u64 = results.tasks.iter().map(|task| task.account.loops).sum();
        let switches = results.machine().switches;
        assert!(passes > 10_000, "{kernel}: {passes}");
        let most = if kernel == "2.6.23" { 2 * passes } else { passes + passes / 50 };
        assert!((passes - passes / 50..=most).contains(&switches), "{kernel}: {switches} for {passes}");
        // Reading memory makes it slower.
        let heavy = run_model("lat_ctx -s 64 8", kernel, "1", Some(100));
        assert!(heavy.machine().switches * 3 < switches, "{kernel}");
        let pair = run_model("pipe-test", kernel, "1", Some(100));
        assert!(pair.tasks[0].account.loops.abs_diff(pair.tasks[1].account.loops) <= 1, "{kernel}");
    }
}

#[test]
fn a_task_that_wakes_by_the_clock_wakes_in_time() {
    let results = run_model("cyclictest -t 2 -p 80", "6.12", "2", Some(1000));
    assert!((995..=1000).contains(&results.tasks[0].account.loops), "{}", results.tasks[0].account.loops);
    assert!((660..=667).contains(&results.tasks[1].account.loops), "{}", results.tasks[1].account.loops);
    let results = run_model("wakers 20 1ms", "3.12", "4", Some(1000));
    assert!(results.tasks.iter().all(|task| (850..=1000).contains(&task.account.loops)));
}

#[test]
fn schbench_keeps_its_workers_busy() {
    let loops = |command: &str| -> Vec<u64> {
        let results = run_model(command, "6.12", "8", Some(1000));
        let workers = results.tasks.iter().filter(|task| task.name.contains("worker"));
        workers.map(|task| task.account.loops).collect()
    };
    let busy = loops("schbench -m 1 -t 4 -c 1000 -s 0");
    assert!(busy.len() == 4 && busy.iter().all(|&loops| loops > 900), "{busy:?}");
    // The message thread sleeps 10 to 12.5 ms, and then wakes all of them.
    let slow = loops("schbench -m 1 -t 4 -c 1000 -s 10000");
    assert!(slow.iter().all(|loops| (70..=95).contains(loops)), "{slow:?}");
    // 800 requests a second, whether or not a worker is ready.
    let rated = loops("schbench -m 1 -t 4 -c 1000 -R 800");
    assert!((700..=810).contains(&rated.iter().sum::<u64>()), "{rated:?}");
}

#[test]
fn sysbench_computes() {
    let results = run_model("sysbench cpu --num-threads=3 --max-time=1", "3.18", "4", None);
    assert!(results.tasks.iter().all(|task| task.account.loops >= 980), "each has a CPU to himself");
    assert_eq!(results.elapsed_ns, 1000 * MS);
}
