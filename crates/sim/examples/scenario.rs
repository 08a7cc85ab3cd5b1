//! A scenario file under two kernels: each class's share of the CPUs, and its wakeup latencies.
//!
//! `cargo run -p vruntime-sim --example scenario`, or with your own file behind `--`.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use vruntime_report::{Collector, Results};
use vruntime_sim::plan::{Input, Overrides, plan};
use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/demo/demo.toml");

fn run(path: &Path, kernel: &str) -> Result<Results, Box<dyn Error>> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let load = &mut |file: &Path| fs::read(folder.join(file));
    let scenario = scenario::parse(&path.display().to_string(), &fs::read(path)?, &Options::default(), load)?;
    let overrides = Overrides { kernel: Some(kernel.to_owned()), ..Overrides::default() };
    let planned = plan(Input::Scenario(&scenario), &overrides, load)?;
    let mut collector = Collector::new(planned.config.machine.topology.nr_cpus());
    vruntime_sim::run(&scenario.workload, &planned.config, &mut collector)?;
    Ok(collector.into_results())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).unwrap_or_else(|| DEMO.to_owned());
    println!("{:<8} {:<16} {:>8} {:>14}", "kernel", "class", "CPU %", "p99 wakeup us");
    for kernel in ["6.1", "6.12"] {
        let results = run(Path::new(&path), kernel)?;
        for class in &results.classes {
            let cpu = 100.0 * results.share(class.account.cpu_ns);
            let late = class.wakeup_latency.map_or(0.0, |latency| latency.p99_ns as f64 / 1e3);
            println!("{kernel:<8} {:<16} {cpu:>8.1} {late:>14.1}", class.name);
        }
    }
    Ok(())
}

/// `cargo test -p vruntime-sim --example scenario`.
#[test]
fn all_classes_get_cpu_time_under_both_kernels() {
    let [older, newer] = ["6.1", "6.12"].map(|kernel| run(Path::new(DEMO), kernel).unwrap());
    assert_ne!(older, newer);
    for results in [older, newer] {
        assert!(results.classes.len() > 2 && results.classes.iter().all(|class| class.account.cpu_ns > 0));
        assert!(results.loadavg.is_some());
    }
}
